//! The messages of a job on several hosts stand still, and its connections are made anew (rpi crtcp).

use std::io::{BufRead as _, BufReader};
use std::process::Command;

use super::support::installed;
use super::testbed::{outcome, testbed};

fn ask(mpirun: u32) {
    let output = Command::new(installed("oxmpi")).args(["quiesce", &mpirun.to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn connections_between_hosts_are_made_anew_and_nothing_is_lost() {
    const TIMES: u32 = 5;
    let Some(bed) = testbed() else { return };
    let program = bed.compile("jobs/quiesce");
    for (ranks, hosts) in [("4", "nodea:2,nodeb:2"), ("3", "nodea:1,nodeb:1,localhost:1")] {
        let times = TIMES.to_string();
        let words = ["--mca", "rpi", "crtcp", "-n", ranks, "-H", hosts, &program, &times];
        let mut child = bed.mpirun(&words).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
        // It says first which ranks there are, in any order.
        for _ in 0..ranks.parse().unwrap() {
            assert!(lines.next().unwrap().starts_with("rank "));
        }
        for time in 1..=TIMES {
            ask(child.id());
            assert_eq!(lines.next(), Some(format!("remade {time}")), "{hosts}");
        }
        assert_eq!(lines.next().as_deref(), Some("whole"), "{hosts}");
        let (code, _, err) = outcome(child.wait_with_output().unwrap());
        assert_eq!(code, Some(0), "{err}");
        let told = err.matches(&format!("mpirun: the messages of {ranks} processes stood still")).count();
        assert_eq!((told as u32, err.lines().count() as u32), (TIMES, TIMES), "{err}");
    }
    bed.is_clean();
}
