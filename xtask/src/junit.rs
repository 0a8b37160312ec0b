//! The times of tests, from the report that nextest writes in the form of JUnit.

use std::path::PathBuf;

use regex_lite::Regex;
use serde::Serialize;

use crate::install::target_directory;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SlowTest {
    pub(crate) seconds: f64,
    pub(crate) binary: String,
    pub(crate) name: String,
}

/// Where nextest writes the report of a profile (`.config/nextest.toml`).
pub(crate) fn file(profile: &str) -> PathBuf {
    target_directory().join("nextest").join(profile).join("junit.xml")
}

pub(crate) fn tests_in(report: &str) -> Vec<SlowTest> {
    let Ok(case) = Regex::new(r"<testcase ([^>]*)>") else { return Vec::new() };
    case.captures_iter(report).filter_map(|found| test(&found[1])).collect()
}

fn test(attributes: &str) -> Option<SlowTest> {
    let attribute = |name: &str| {
        let (_, rest) = attributes.split_once(&format!("{name}=\""))?;
        Some(rest.split_once('"')?.0.to_owned())
    };
    Some(SlowTest {
        seconds: attribute("time")?.parse().ok()?,
        binary: attribute("classname")?,
        // The name of the attribute `classname` ends in 'name' too.
        name: attributes.strip_prefix("name=\"")?.split_once('"')?.0.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let report = "<testsuites><testsuite name=\"a\">\n\
            <testcase name=\"x::y\" classname=\"oxmpi-cli::jobs\" timestamp=\"2026\" time=\"1.250\">\n\
            </testcase>\n<testcase name=\"z\" classname=\"b\" time=\"0.5\"/>\n</testsuite></testsuites>";
        let [first, second] = &tests_in(report)[..] else { panic!("not two tests") };
        assert_eq!(
            (first.seconds, &*first.binary, &*first.name),
            (1.25, "oxmpi-cli::jobs", "x::y")
        );
        assert_eq!((second.seconds, &*second.name), (0.5, "z"));
        assert!(tests_in("<testcase nothing>").is_empty());
    }
}
