//! The processor features that an image needs, since a program may have detected and used them. The
//! library itself is among the files that the job needs ([`crate::files`]).

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::manifest::Made;

/// The facts about this machine. `criu` is the version of CRIU; empty if no image is made.
pub fn here(criu: &str) -> Made {
    let kernel = rustix::system::uname();
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    Made {
        unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        host: text(kernel.nodename()),
        kernel: text(kernel.release()),
        boot_id: read("/proc/sys/kernel/random/boot_id").trim().into(),
        cpu_features: features_in(&read("/proc/cpuinfo")),
        oxmpi: env!("CARGO_PKG_VERSION").into(),
        criu: criu.into(),
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The features of the first processor. The kernel names the line differently on each architecture.
fn features_in(cpuinfo: &str) -> Vec<String> {
    let line = cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        ["flags", "Features", "isa"].contains(&key.trim()).then_some(value)
    });
    let all: BTreeSet<&str> = line.unwrap_or_default().split_ascii_whitespace().collect();
    all.into_iter().map(String::from).collect()
}

/// The features of the machine of `made` that `here` lacks.
pub fn missing_features(made: &Made, here: &Made) -> Vec<String> {
    let there: BTreeSet<&String> = here.cpu_features.iter().collect();
    made.cpu_features.iter().filter(|feature| !there.contains(feature)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests::example;

    #[test]
    fn features_are_read_on_all_architectures() {
        let all = ["avx2", "sse2"].map(String::from).to_vec();
        assert_eq!(features_in("processor\t: 0\nflags\t\t: sse2 avx2 sse2\nflags : x\n"), all);
        assert_eq!(features_in("Features\t: fp asimd\n"), ["asimd", "fp"]);
        assert_eq!(features_in(""), Vec::<String>::new());
    }

    #[test]
    fn a_feature_that_is_missing_is_named() {
        let (made, mut here) = (example().made, example().made);
        assert_eq!(missing_features(&made, &here), Vec::<String>::new());
        here.cpu_features = vec!["sse2".into(), "sve".into()];
        assert_eq!(missing_features(&made, &here), ["avx2"]);
    }

    #[test]
    fn this_machine_is_known() {
        let here = here("4.2.1");
        assert!(!here.host.is_empty() && !here.kernel.is_empty() && here.unix_s > 0, "{here:?}");
    }
}
