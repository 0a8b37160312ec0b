//! Jobs of several `mpirun`s, on several hosts and on one, that connect with each other.

use std::fs;
use std::process::{Child, Output};

use super::testbed::{Testbed, outcome, testbed};
use crate::support::sorted;

struct Pair {
    bed: Testbed,
    program: String,
    port: String,
}

impl Pair {
    fn new() -> Option<Pair> {
        let bed = testbed()?;
        let program = bed.compile("jobs/connected");
        let port = bed.directory.join("port").to_str().unwrap().to_string();
        Some(Pair { bed, program, port })
    }

    fn start(&self, side: &str, options: &[&str], mode: &str) -> Child {
        let words = [options, &[&self.program, side, &self.port, mode]].concat();
        self.bed.mpirun(&words).spawn().unwrap()
    }

    fn run(&self, sides: [&[&str]; 2], mode: &str) -> [(Option<i32>, String, String); 2] {
        let _ = fs::remove_file(&self.port);
        let all = ["0", "1"]
            .into_iter()
            .zip(sides)
            .map(|(side, options)| self.start(side, options, mode));
        let all: Vec<Child> = all.collect();
        let end = |child: Child| -> Output { child.wait_with_output().unwrap() };
        let [first, second] = <[Child; 2]>::try_from(all).unwrap();
        [outcome(end(first)), outcome(end(second))]
    }

    fn meet(&self, sides: [&[&str]; 2], together: u32) {
        let ends = self.run(sides, "0");
        for (side, (code, out, err)) in ends.iter().enumerate() {
            let line = format!("side {side}: {together} together");
            let is_right =
                (*code, err.as_str(), sorted(out)) == (Some(0), "", vec![&*line, &*line]);
            // One side may wait for the other, so a failure shows the output of both.
            assert!(is_right, "side {side} of {sides:?}: {ends:#?}");
        }
    }
}

const SPREAD: &[&str] = &["-H", "nodea:2,nodeb:1"];
const HERE: &[&str] = &["-n", "2"];

#[test]
fn jobs_on_several_hosts_and_on_one_connect() {
    let Some(pair) = Pair::new() else { return };
    pair.meet([SPREAD, HERE], 5);
    pair.meet([HERE, SPREAD], 5);
    pair.meet([SPREAD, &["-H", "nodeb:2,localhost:2"]], 7);
    pair.meet([&["-H", "nodea:2"], HERE], 4);
    pair.meet([HERE, &["-H", "nodea:2"]], 4);
    pair.meet([&["-H", "nodea:2"], &["-H", "nodea:2"]], 4);
    pair.bed.is_clean();
}

#[test]
fn jobs_of_several_transports_connect() {
    let Some(pair) = Pair::new() else { return };
    for rpi in ["tcp", "usysv", "sysv", "crtcp", "lamd"] {
        pair.meet([&["-n", "2", "--mca", "rpi", rpi], SPREAD], 5);
        pair.meet([HERE, &["-n", "2", "--mca", "rpi", rpi]], 4);
    }
    pair.meet([&["-n", "2", "--mca", "mpi_virtual_nodes", "2"], HERE], 4);
    let daemons: &[&str] = &["-H", "nodea:2,nodeb:1", "--mca", "rpi", "lamd"];
    pair.meet([daemons, HERE], 5);
    pair.meet([SPREAD, daemons], 6);
    pair.meet([daemons, daemons], 6);
    pair.bed.is_clean();
}

#[test]
fn a_death_ends_the_connected_jobs_of_other_hosts_and_no_others() {
    let Some(pair) = Pair::new() else { return };
    for sides in [[SPREAD, HERE], [HERE, SPREAD], [SPREAD, SPREAD]] {
        for (mode, dead) in [("2", 0), ("3", 1)] {
            let ends = pair.run(sides, mode);
            let (code, _, err) = &ends[dead];
            assert!(
                *code == Some(137) && err.contains("was killed by SIGKILL"),
                "{sides:?} {mode}: {err}"
            );
            let (code, _, err) = &ends[1 - dead];
            assert!(
                *code == Some(137) && err.contains("was killed by SIGKILL"),
                "{sides:?} {mode}: {err}"
            );
        }
        let [first, second] = pair.run(sides, "4");
        assert_eq!((first.0, &*first.2), (Some(0), ""), "{sides:?}");
        assert_eq!(second.0, Some(137), "{sides:?}");
    }
    pair.bed.is_clean();
}
