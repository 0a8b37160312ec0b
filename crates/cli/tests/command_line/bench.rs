//! `oxmpi bench`, from its options to its tables. The tests do not check the figures, which depend
//! on the machine.

use std::process::Command;

use serde_json::Value;

use crate::support::{TestDirectory, texts};

fn bench(line: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oxmpi"));
    texts(&command.env("OXMPI_PARAM_FILES", "none").arg("bench").args(line).output().unwrap())
}

#[test]
fn a_page_gets_its_tables() {
    let directory = TestDirectory::new("bench");
    let page = "# Transports\n\n<!-- bench tcp -->\n<!-- end bench tcp -->\n\nThe end.\n";
    let page = directory.write("page.md", page);
    let name = page.display().to_string();
    let (code, out, err) = bench(&["bandwidth", "--rpi", "tcp", "--markdown", &name]);
    assert_eq!((code, &*out), (0, ""), "{err}");
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("| bandwidth | 4 MiB | ") && text.ends_with("\n\nThe end.\n"), "{text}");
}

#[test]
fn wrong_options_are_named() {
    let (code, _, err) = bench(&["--rpi", "pigeon"]);
    assert_eq!(code, 2);
    assert!(err.contains("--rpi pigeon: expected shm, "), "{err}");
    let (code, _, err) = bench(&["idle", "--markdown", "/nonexistent/page.md"]);
    assert_eq!(code, 1);
    assert!(err.contains("cannot read /nonexistent/page.md"), "{err}");
    let (code, _, err) = bench(&["idle", "--rpi", "shm", "--mca", "wait_spin_us", "soon"]);
    assert_eq!(code, 1);
    assert!(err.contains("'wait_spin_us'") && err.contains("the job over shm has failed"), "{err}");
}

mod night {
    use super::*;

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn each_transport_has_its_figures() {
        let (code, out, err) = bench(&["latency", "overlap", "idle", "--json", "--ranks", "3"]);
        assert_eq!(code, 0, "{err}");
        let report: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(report["ranks"], 3);
        let transports = report["transports"].as_array().unwrap();
        let names: Vec<&str> =
            transports.iter().map(|one| one["transport"].as_str().unwrap()).collect();
        assert!(
            names.starts_with(&["shm"])
                && names.contains(&"tcp")
                && names.ends_with(&["virtual-nodes"])
        );
        for one in transports {
            let sizes = |what: &str| {
                one[what].as_array().unwrap().iter().map(|row| row["bytes"].as_u64().unwrap())
            };
            assert_eq!(
                sizes("latency").collect::<Vec<_>>(),
                [0, 8, 1024, 8192, 65536, 1_048_576],
                "{one}"
            );
            assert_eq!(sizes("overlap").collect::<Vec<_>>(), [8192, 1_048_576, 8_388_608], "{one}");
            assert_eq!(sizes("bandwidth").count(), 0, "it was not requested");
            assert!(
                one["latency"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|row| row["us"].as_f64().unwrap() > 0.0)
            );
            for row in one["overlap"].as_array().unwrap() {
                assert!((0.0..=1.0).contains(&row["hidden"].as_f64().unwrap()), "{row}");
            }
            assert!((0.0..=1.5).contains(&one["idle_cpu_share"].as_f64().unwrap()), "{one}");
        }
    }
}
