//! `oxmpi tune`, from its options to the rules that a job follows.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use oxmpi_tuned::Rules;
use serde_json::Value;

use crate::support::{TestDirectory, texts};

struct TuneDirectory(TestDirectory);

impl TuneDirectory {
    fn new(name: &str) -> TuneDirectory {
        TuneDirectory(TestDirectory::new(&format!("tune-{name}")))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oxmpi"));
        command.env("OXMPI_PARAM_FILES", "none").current_dir(&self.0).args(line.split_whitespace());
        command
    }

    fn oxmpi(&self, line: &str) -> (i32, String, String) {
        texts(&self.command(line).output().unwrap())
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn rules(&self, name: &str) -> Rules {
        let read = Rules::parse(name, &std::fs::read(self.path(name)).unwrap()).unwrap();
        assert_eq!(read.warnings, []);
        read.rules
    }
}

#[test]
fn a_short_run_measures_two_collectives_and_leaves_rules_and_a_picture() {
    let here = TuneDirectory::new("short");
    let line = "tune --collectives barrier,bcast --ranks 2 --sizes 8:32 --time 0.02 --out my.conf --svg my.svg";
    let (code, out, err) = here.oxmpi(line);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains(" of 3 calls have a better algorithm than the fixed choice: "), "{out}");
    assert!(err.contains("\n0/3: barrier of 0 bytes on 2 ranks, at most 2 s to go\n"), "{err}");
    assert_eq!(here.files(), ["my.conf", "my.svg"]);
    here.rules("my.conf");
    let svg = std::fs::read_to_string(here.path("my.svg")).unwrap();
    assert!(svg.contains(">bcast<") && svg.contains(">barrier<") && svg.contains("32 B"), "{svg}");
}

#[test]
fn a_run_that_is_killed_goes_on() {
    let here = TuneDirectory::new("killed");
    let line =
        "tune --collectives bcast --ranks 2 --sizes 8:8k --time 0.2 --out my.json --state mine";
    let mut first = here.command(line).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let lines = || std::fs::read_to_string(here.path("mine")).unwrap_or_default().lines().count();
    while lines() < 6 && first.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "nothing is measured");
        std::thread::sleep(Duration::from_millis(5));
    }
    // After a SIGKILL the tool cannot clean up; its job ends with the closed pipes.
    first.kill().unwrap();
    first.wait().unwrap();
    let before = lines();
    assert!(!here.path("my.json").exists());
    let (code, _, err) = here.oxmpi(line);
    assert!(
        code == 1
            && err.contains(
                "mine: an interrupted run left this file: continue it with '--resume mine'"
            ),
        "{err}"
    );

    let (code, out, err) = here.oxmpi("tune --resume mine --out my.json");
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("oxmpi tune: resuming after "), "{err}");
    assert!(out.contains(" of 6 calls have"), "{out}");
    assert!(lines() > before);
    here.rules("my.json");
    let wanted = std::fs::read(here.path("my.json")).unwrap();
    let all = lines();
    let (code, _, err) = here.oxmpi("tune --resume mine --out my.json --force");
    assert_eq!((code, lines()), (0, all), "{err}");
    assert_eq!(std::fs::read(here.path("my.json")).unwrap(), wanted);

    let damaged =
        std::fs::read_to_string(here.path("mine")).unwrap().replacen("bcast 8", "bcast 9", 1);
    std::fs::write(here.path("mine"), damaged).unwrap();
    let (code, _, err) = here.oxmpi("tune --resume mine --out other.json");
    assert_eq!(code, 1);
    assert!(err.contains("mine:3: the line is damaged"), "{err}");
}

/// The state is removed only after the rules are written. A job goes on with its own parameters.
#[test]
fn measurements_are_kept_until_the_rules_are_written() {
    let here = TuneDirectory::new("kept");
    let line =
        "tune --collectives bcast --ranks 2 --sizes 8:64k --time 0.1 --mca rpi tcp --out my.json";
    let mut first =
        here.command(line).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let state = || std::fs::read_to_string(here.path("my.json.state")).unwrap_or_default();
    while state().lines().count() < 3 {
        assert!(Instant::now() < end, "nothing is measured");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::fs::create_dir(here.path("my.json")).unwrap();
    let other = here.oxmpi("tune --resume my.json.state --out other");
    if first.try_wait().unwrap().is_none() {
        assert!(
            other.0 == 1 && other.2.contains("another run of oxmpi tune is writing it"),
            "{}",
            other.2
        );
    }
    assert_eq!(first.wait().unwrap().code(), Some(1));
    std::fs::remove_dir(here.path("my.json")).unwrap();
    assert!(state().lines().nth(1).unwrap().starts_with("mca rpi tcp #"), "{}", state());
    let (code, out, err) = here.oxmpi("tune --resume my.json.state");
    assert!(code == 0 && out.contains("of 8 calls have"), "{out}{err}");
    here.rules("my.json");
    let _ = std::fs::remove_file(here.path("other"));
    assert_eq!(here.files(), ["my.json"]);
}

/// `oxmpi explain` follows the written rules: those of a simulation, which are always the same.
#[test]
fn rules_of_a_simulation_are_followed() {
    let here = TuneDirectory::new("simulated");
    for name in ["my.conf", "my.json"] {
        let line = format!(
            "tune --simulate 64:64 --collectives bcast,allgather --out {name} --svg {name}.svg"
        );
        let (code, out, err) = here.oxmpi(&line);
        assert_eq!((code, err.as_str()), (0, ""));
        // With this number of sizes the model differs from the fixed rules somewhere.
        let line = out.lines().find(|line| line.contains(" ranks ")).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let (collective, ranks) = (words[0], words[1]);
        let factor = if words[4].starts_with("MiB") {
            1 << 20
        } else if words[4].starts_with("KiB") {
            1 << 10
        } else {
            1
        };
        let bytes = words[3].parse::<usize>().unwrap() * factor;
        let line = format!(
            "explain coll {collective} --ranks {ranks} --bytes {bytes} --rules {name} --json"
        );
        let (code, out, _) = here.oxmpi(&line);
        let explained: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &explained["by"]), (0, &"rule".into()), "{line}\n{out}");
        assert_eq!(explained["algorithm"]["id"], words[5].parse::<u8>().unwrap(), "{line}\n{out}");
        let (_, out, _) = here.oxmpi(&line.replace(&format!("--ranks {ranks}"), "--ranks 8192"));
        assert!(out.contains("\"by\": \"fixed\""), "{out}");
        here.rules(name);
    }
}

#[test]
fn a_million_ranks_are_simulated() {
    let here = TuneDirectory::new("million");
    let mut command = here.command("tune --simulate 16384:64 --out my.conf --svg my.svg");
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() > end => {
                child.kill().unwrap();
                panic!("a simulation takes more than a minute");
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    assert!(status.success());
    here.rules("my.conf");
    assert!(std::fs::read_to_string(here.path("my.svg")).unwrap().contains(">1048576 ranks<"));
}

#[test]
fn impossible_requests_are_refused_before_measurements() {
    let here = TuneDirectory::new("wrong");
    std::fs::write(here.path("there"), "mine").unwrap();
    for (line, wanted_code, wanted) in [
        (
            "--collectives bcats",
            2,
            "there is no collective 'bcats' that can be tuned; did you mean 'bcast'?",
        ),
        ("--out nowhere/my.conf", 1, "nowhere/my.conf: cannot be written: No such file"),
        ("--svg nowhere/my.svg", 1, "nowhere/my.svg: cannot be written: No such file"),
        ("--out there", 1, "there: the file exists (--force overwrites it)"),
        ("--state nowhere/s", 1, "nowhere/s: cannot be written"),
        ("--resume gone", 1, "gone: No such file"),
        ("--resume there", 1, "there:1: this is no state of oxmpi tune"),
        ("--ranks 0", 2, "--ranks 0: expected"),
        ("--out . --force", 1, ".: it is a directory"),
        ("--out one --svg ./one", 1, "./one: two outputs have the same file name"),
        ("--out one --state one", 1, "one: two outputs have the same file name"),
        ("--out one --svg one.state", 1, "one.state: two outputs have the same file name"),
        ("--resume there --mca rpi tcp", 2, "--resume has no meaning beside --mca"),
    ] {
        let (code, out, err) = here.oxmpi(&format!("tune {line}"));
        assert_eq!((code, out.as_str()), (wanted_code, ""), "{line}: {err}");
        assert!(err.starts_with("oxmpi tune: ") && err.contains(wanted), "{line}: {err}");
    }
    assert_eq!(here.files(), ["there"]);
    assert_eq!(std::fs::read_to_string(here.path("there")).unwrap(), "mine");
}
