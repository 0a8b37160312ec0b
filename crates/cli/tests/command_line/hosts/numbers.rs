//! Restarts whose ranks cannot have their process numbers again: hosts with their own PID
//! namespaces, as containers have, and ranks of two such hosts on one.

use std::path::Path;
use std::process::Child;

use rustix::process::{Pid, Signal, kill_process};

use super::restarts::{checkpoint, mpirun_with, restart_command, results};
use super::testbed::{A, B, HEAD, OutputLines, Testbed, lines_of, outcome, testbed_with};
use crate::support::criu;

/// Gives a program the same process number on each host, or the next ones. `sh` has the program
/// behind its own arguments.
const SAME_NUMBERS: &str = "echo 5000 > /proc/sys/kernel/ns_last_pid; \"$0\" \"$@\"; exit $?";

/// Names of files with the standard error of restarts begin so.
const SAID: &str = "said";

/// Arguments of a program that ends with the exit code `code`.
fn words<'a>(program: &'a str, rounds: &'a str, code: &'a str) -> [&'a str; 8] {
    ["sh", "-c", SAME_NUMBERS, program, rounds, "5", "data", code]
}

fn await_round(lines: &mut OutputLines, all: &mut Vec<String>, said: &Path) {
    loop {
        let Some(line) = lines.next() else {
            panic!("the job has ended: {all:?} {:?}", std::fs::read_to_string(said));
        };
        let is_round = line.starts_with("round ");
        all.push(line);
        if is_round {
            return;
        }
    }
}

fn restart(bed: &Testbed, criu: &Path, (set, hosts): (&str, &str), said: &Path) -> Child {
    let said = std::fs::File::create(said).unwrap();
    restart_command(bed, criu, &[set, "--host", hosts]).stderr(said).spawn().unwrap()
}

fn namespaces(bed: &Testbed) -> usize {
    let all = [HEAD, A, B].map(|machine| bed.processes(machine));
    all.iter().flatten().filter(|(_, words)| words.contains(" pid-namespace ")).count()
}

/// The number of lines in which the job reports ranks in a PID namespace.
fn said_apart(bed: &Testbed) -> usize {
    let text = std::fs::read_to_string(bed.directory.join(format!("{SAID}.0"))).unwrap_or_default();
    let is_it =
        |line: &&str| line.contains(" go on in a PID namespace, as their process numbers are ");
    text.lines().filter(is_it).count()
}

#[test]
fn signals_reach_ranks_in_a_namespace_and_nothing_is_left() {
    let Some((bed, criu)) = testbed_with(true).zip(criu()) else { return };
    let program = bed.compile("jobs/cr_traffic");
    let spread = ["-H", "nodea:2,nodeb:2", "-stdin", "0"];
    let mut job = mpirun_with(&bed, &criu, &spread, &words(&program, "4000", "7")).spawn().unwrap();
    let (mut lines, mut all, said) = (lines_of(&mut job), Vec::new(), bed.directory.join(SAID));
    await_round(&mut lines, &mut all, &said);
    let report = checkpoint(&bed, &criu, (job.id(), "sets"), &["--kill"]);
    drop(lines);
    job.wait().unwrap();
    bed.is_clean();
    let set = report.lines().next().unwrap();
    for (hosts, victim, signal, code) in [
        ("nodea:4", None, Signal::TERM, Some(143)),
        ("localhost:4", None, Signal::TERM, Some(143)),
        ("nodea:4", Some((HEAD, "--oxmpi-resume")), Signal::KILL, None),
        ("localhost:4", Some((HEAD, "--oxmpi-resume")), Signal::KILL, None),
        ("nodea:4", Some((A, "agent")), Signal::KILL, Some(1)),
    ] {
        let mut job = restart(&bed, &criu, (set, hosts), &said);
        let mut lines = lines_of(&mut job);
        await_round(&mut lines, &mut all, &said);
        assert!(namespaces(&bed) > 0, "{hosts} {:?}", std::fs::read_to_string(&said));
        let pid = match victim {
            None => job.id().cast_signed(),
            Some((machine, words)) => bed.await_process(machine, words),
        };
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
        lines.for_each(drop);
        let found = job.wait().unwrap().code();
        assert!(
            code.is_none() || code == found,
            "{hosts} {signal:?} {found:?} {:?}",
            std::fs::read_to_string(&said)
        );
        bed.is_clean();
    }
}

mod night {
    use super::*;

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn ranks_of_two_hosts_with_the_same_numbers_go_on_on_one() {
        let Some((bed, criu)) = testbed_with(true).zip(criu()) else { return };
        let program = bed.compile("jobs/cr_traffic");
        let spread = ["-H", "nodea:2,nodeb:2", "-stdin", "0"];
        let words = words(&program, "1000", "7");
        let (code, alone, err) =
            outcome(mpirun_with(&bed, &criu, &spread, &words).output().unwrap());
        assert_eq!(code, Some(7), "{alone}{err}");
        let (mut all, mut said, mut sets) = (Vec::new(), bed.directory.join(SAID), Vec::new());
        let mut job = mpirun_with(&bed, &criu, &spread, &words).spawn().unwrap();
        let mut lines = lines_of(&mut job);
        let steps = [("nodea:4", 1), ("localhost:4", 1), ("nodea:2,nodeb:2", 0), ("nodeb:4", 1)];
        for (at, (hosts, wanted)) in steps.into_iter().enumerate() {
            await_round(&mut lines, &mut all, &said);
            let report = checkpoint(&bed, &criu, (job.id(), "sets"), &[]);
            assert!(
                report.contains(" of 4 ranks in ") && report.contains("and goes on"),
                "{report}"
            );
            await_round(&mut lines, &mut all, &said);
            let report = checkpoint(&bed, &criu, (job.id(), "sets"), &["--kill"]);
            all.extend(lines);
            assert_eq!(
                job.wait().unwrap().code(),
                Some(75),
                "{hosts} {:?}",
                std::fs::read_to_string(&said)
            );
            bed.is_clean();
            sets.push(report.lines().next().unwrap().to_string());
            let before = said_apart(&bed);
            // From now on the first file is open in the job, and mpirun writes to it.
            said = bed.directory.join(format!("{SAID}.{at}"));
            job = restart(&bed, &criu, (&sets[at], hosts), &said);
            lines = lines_of(&mut job);
            await_round(&mut lines, &mut all, &said);
            let found = said_apart(&bed) - before;
            let text = std::fs::read_to_string(&said).unwrap();
            assert_eq!(namespaces(&bed), found, "{hosts} {text}");
            // The head has the process numbers of this machine, so other processes may have those
            // of the ranks.
            assert!(found == wanted || hosts == "localhost:4" && found > wanted, "{hosts} {text}");
        }
        all.extend(lines);
        let text = std::fs::read_to_string(&said).unwrap();
        assert_eq!(job.wait().unwrap().code(), Some(7), "{all:?} {text}");
        assert_eq!(results(&all.join("\n")), results(&alone), "{text}");
        bed.is_clean();
    }
}
