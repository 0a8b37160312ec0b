use super::*;

fn measured() -> CopyFacts {
    let mut facts = CopyFacts::here();
    figures(&mut facts)
        .into_iter()
        .zip(1..)
        .for_each(|((_, figure), n)| *figure = f64::from(n) + 0.5);
    facts
}

fn text() -> String {
    render(&Platform::here(), &measured(), &["far_in_ns"])
}

struct CostsOnDisk(PathBuf);

impl CostsOnDisk {
    fn new(name: &str, text: &str) -> CostsOnDisk {
        let path =
            std::env::temp_dir().join(format!("oxmpi-copy-costs-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        CostsOnDisk(path)
    }
}

impl Drop for CostsOnDisk {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn written_figures_are_read_again() {
    let (platform, mut facts) = parse(text().as_bytes()).unwrap();
    assert_eq!(platform, Platform::here());
    assert!(facts.of.ends_with("measured"), "{}", facts.of);
    facts.of = measured().of;
    assert_eq!(facts, measured());
    assert!(text().contains("far_in_ns = 7.5  # not measured\n"), "{}", text());
}

#[test]
fn a_wrong_line_is_named_with_its_value() {
    let of =
        |from: &str, to: &str| parse(text().replace(from, to).as_bytes()).unwrap_err().to_string();
    let from_to = "is not a number of nanoseconds from 0 to 1000000000";
    for value in ["-1", "NaN", "inf", "1e10", "", "x", "1,5", "1 2"] {
        let complaint = of("near_line_ns = 1.5", &format!("near_line_ns = {value}"));
        assert_eq!(complaint, format!("line 6: 'near_line_ns': '{value}' {from_to}"));
    }
    let complaint = of("model = ", "model = -");
    assert!(
        complaint.starts_with("line 4: 'model': '-") && complaint.ends_with("' is not a number"),
        "{complaint}"
    );
    assert_eq!(
        of("near_in_ns", "near_line_ns"),
        "line 7: 'near_line_ns': there are two of this name"
    );
    assert_eq!(
        of("near_in_ns", "near_inn_ns"),
        "line 7: 'near_inn_ns': there is no figure of this name"
    );
    assert_eq!(
        of("near_in_ns = ", "near_in_ns "),
        "line 7: the line is not of the form 'NAME = VALUE'"
    );
    assert_eq!(of("single_copy_both_ns", "# "), "no line says 'single_copy_both_ns'");
    assert_eq!(parse(b"").unwrap_err(), CostsError::Missing("vendor"));
    let long = text() + &"#".repeat(MAX_BYTES);
    assert!(parse(long.as_bytes()).unwrap_err().to_string().contains("more than 16384 bytes"));
}

#[test]
fn only_a_file_of_this_machine_is_used() {
    let file = CostsOnDisk::new("here", &text());
    let found = find_at(Some(file.0.clone()), false);
    assert_eq!((found.unused.clone(), found.complaint()), (None, None));
    assert_eq!((found.facts.near, found.file), (measured().near, Some(file.0.clone())));

    let here = Platform::here();
    for there in [
        Platform { kernel: "1.0".into(), ..here.clone() },
        Platform { model: here.model + 1, ..here.clone() },
        Platform { family: here.family + 1, ..here.clone() },
        Platform { vendor: "another".into(), ..here.clone() },
    ] {
        let file = CostsOnDisk::new("elsewhere", &render(&there, &measured(), &[]));
        let found = find_at(Some(file.0.clone()), true);
        assert_eq!((&found.facts, found.complaint()), (&CopyFacts::here(), None));
        let why = found.unused.unwrap().to_string();
        assert_eq!(why, format!("it was measured on {there}, and this is {here}"));
    }
}

#[test]
fn a_file_that_is_wrong_or_named_and_missing_is_a_complaint() {
    let file = CostsOnDisk::new("wrong", "vendor\n");
    let found = find_at(Some(file.0.clone()), false);
    assert_eq!(found.facts, CopyFacts::here());
    let complaint =
        format!("{}: line 1: the line is not of the form 'NAME = VALUE'", file.0.display());
    assert_eq!(found.complaint(), Some(complaint));
    let nowhere = Some(PathBuf::from("/proc/self/no-such-file"));
    let found = find_at(nowhere.clone(), true);
    assert_eq!(found.complaint().unwrap(), "/proc/self/no-such-file: there is no such file");
    let found = find_at(nowhere, false);
    assert_eq!((found.file, found.unused), (None, None));
    // The home directory of another user.
    let found = find_at(Some(PathBuf::from("/dev")), false);
    assert!(found.unused.is_some() && found.complaint().is_none());
    assert_eq!(find_at(None, false).facts, CopyFacts::here());
}

#[test]
fn the_parameter_names_a_file_or_none() {
    let home = || Some(OsString::from("/home/me"));
    assert_eq!(path("", home()), Some("/home/me/.oxmpi/copy-costs.conf".into()));
    assert_eq!(path("/a/b", home()), Some("/a/b".into()));
    assert_eq!(
        (path("none", home()), path("", None), path("", Some("".into()))),
        (None, None, None)
    );
}

#[test]
fn a_figure_far_from_the_one_built_in_is_refused() {
    let sheet = CopyFacts::built_in("AuthenticAMD", 25);
    let by = |factor: f64| {
        let mut facts = sheet.clone();
        facts.near.in_ns *= factor;
        implausible(&facts, &sheet)
    };
    for factor in [0.301, 1.0, 2.99] {
        assert_eq!(by(factor), [""; 0], "{factor}");
    }
    for factor in [0.29, 3.01, -1.0, f64::NAN, f64::INFINITY] {
        let complaint = by(factor);
        assert!(
            complaint.len() == 1
                && complaint[0].starts_with("near_in_ns: ")
                && complaint[0].ends_with(", 22.0 built in")
        );
    }
}
