//! Copy costs: `oxmpi doctor --measure`, the file that it writes, and the users of this file.

use oxmpi_core::copy_costs::{COSTS_FILE, Platform, parse, render};
use oxmpi_fabric::shm::copy_policy::CopyFacts;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{TestDirectory, texts};

struct CostsHome(TestDirectory);

impl CostsHome {
    fn new(name: &str) -> CostsHome {
        let home = TestDirectory::new(&format!("costs-{name}"));
        std::fs::create_dir(home.join(".oxmpi")).unwrap();
        CostsHome(home)
    }

    fn file(&self) -> PathBuf {
        self.0.join(COSTS_FILE)
    }

    fn oxmpi(&self, line: &str) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oxmpi"));
        let command = command.env("OXMPI_PARAM_FILES", "none").env("HOME", &self.0);
        texts(&command.args(line.split_whitespace()).output().unwrap())
    }

    fn explain(&self, words: &str) -> String {
        let (code, out, err) =
            self.oxmpi(&format!("explain copy --bytes 64k --place near {words}"));
        assert_eq!((code, err.as_str()), (0, ""));
        out
    }

    fn finding(&self) -> Value {
        let (_, out, _) = self.oxmpi("doctor --json");
        let all: Value = serde_json::from_str(&out).unwrap();
        let found = all["findings"].as_array().unwrap();
        found.iter().find(|one| one["area"] == "copies").unwrap().clone()
    }

    fn warnings(&self) -> String {
        let (code, _, err) = self.oxmpi("mpirun -n 1 true");
        assert_eq!(code, 0, "{err}");
        err
    }
}

#[test]
fn measured_costs_are_used_or_nothing_is_written() {
    let home = CostsHome::new("measured");
    let (code, out, err) = home.oxmpi("doctor --measure");
    let explained = home.explain("");
    let line = format!("  file:     {}\n", home.file().display());
    if code == 0 {
        let (platform, _) = parse(&std::fs::read(home.file()).unwrap()).unwrap();
        assert_eq!(platform, Platform::here());
        assert!(out.contains(&format!("written to {}", home.file().display())), "{out}");
        assert!(explained.contains(&line), "{explained}");
    } else {
        let reason = err.strip_prefix("oxmpi doctor: nothing was written: ").unwrap();
        assert!(code == 1 && reason.len() > 10, "{err}");
        assert!(!home.file().exists() && !explained.contains("  file: "), "{explained}");
    }
    // No temporary file is left.
    let left = std::fs::read_dir(home.0.join(".oxmpi")).unwrap().count();
    assert_eq!(left, usize::from(code == 0));

    let none = Command::new(env!("CARGO_BIN_EXE_oxmpi"))
        .args(["doctor", "--measure"])
        .env("OXMPI_MCA_shm_copy_costs", "none")
        .output()
        .unwrap();
    assert!(!none.status.success() && String::from_utf8_lossy(&none.stderr).contains("is 'none'"));
}

#[test]
fn a_file_of_this_machine_decides() {
    let home = CostsHome::new("here");
    assert_eq!(home.finding()["severity"], "good");
    let mut facts = CopyFacts::here();
    for (call_ns, way) in [
        (1.0, "copied by its receiver from the sender's memory"),
        (1e6, "through the sender's pool"),
    ] {
        (facts.single_copy.call_ns, facts.single_copy.both_ns) = (call_ns, 1.0);
        std::fs::write(home.file(), render(&Platform::here(), &facts, &[])).unwrap();
        let out = home.explain("");
        assert!(out.lines().next().unwrap().contains(way), "{out}");
        assert!(out.contains(&format!("  file:     {}\n", home.file().display())), "{out}");
        assert!(out.contains(&format!("the receiver's copy {call_ns:.0}, ")), "{out}");
        assert!(out.contains(", measured (nanoseconds"), "{out}");
    }
    let json: Value = serde_json::from_str(&home.explain("--json")).unwrap();
    assert_eq!((&json["file"], &json["unused"]), (&home.file().to_str().into(), &Value::Null));
    let without = home.explain("--mca shm_copy_costs none");
    assert!(!without.contains("  file: ") && !without.contains("measured"), "{without}");
    let finding = home.finding();
    assert_eq!(finding["severity"], "good");
    assert!(
        finding["text"].as_str().unwrap().ends_with(home.file().to_str().unwrap()),
        "{finding}"
    );
    assert_eq!(home.warnings(), "");
}

#[test]
fn a_file_of_another_kernel_is_left_out_with_the_reason() {
    let home = CostsHome::new("elsewhere");
    let there = Platform { kernel: "1.2.3".into(), ..Platform::here() };
    std::fs::write(home.file(), render(&there, &CopyFacts::here(), &[])).unwrap();
    let why = format!("is not used: it was measured on {there}, and this is {}", Platform::here());
    let out = home.explain("");
    assert!(out.contains(&why) && !out.contains(", measured (nanoseconds"), "{out}");
    let finding = home.finding();
    assert_eq!(finding["severity"], "note");
    assert!(finding["text"].as_str().unwrap().contains(&why), "{finding}");
    assert_eq!(home.warnings(), "");
}

#[test]
fn a_broken_file_is_named_with_its_line_and_ends_no_job() {
    let home = CostsHome::new("broken");
    let text = render(&Platform::here(), &CopyFacts::here(), &[]);
    std::fs::write(home.file(), text.replace("far_line_ns = ", "far_line_ns = -")).unwrap();
    let why = "line 11: 'far_line_ns': '-";
    let out = home.explain("");
    assert!(
        out.contains(&format!("  file:     {} is not used: {why}", home.file().display())),
        "{out}"
    );
    assert!(home.finding()["text"].as_str().unwrap().contains(why));
    let err = home.warnings();
    let named = format!("mpirun: warning: {}: {why}", home.file().display());
    assert!(err.starts_with(&named) && err.lines().count() == 1, "{err}");
}
