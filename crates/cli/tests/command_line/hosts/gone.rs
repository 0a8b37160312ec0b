//! Hosts that lose the connection with the head, and a head that is stopped and not lost.

use std::io::Read as _;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::testbed::{A, B, HEAD, Machine, Testbed, outcome, testbed};
use crate::support::await_that;

/// The time without an answer after which a host is lost, in seconds.
const SILENCE: u64 = 3;
const UNIVERSE: &str = "head schedule=no\nnodea cpu=1\nnodeb cpu=1\n";

fn words<'w>(silence: &'w str, program: &[&'w str]) -> Vec<&'w str> {
    [
        &[
            "--timeout",
            "100",
            "--mca",
            "mpi_agent_silence_s",
            silence,
            "-n",
            "2",
            "-H",
            "nodea,nodeb",
        ],
        program,
    ]
    .concat()
}

/// The open connections of a host with the head except those of ssh (proc(5): the state 01 is
/// open).
fn connections(bed: &Testbed, machine: Machine) -> usize {
    let Some((pid, _)) = bed.processes(machine).into_iter().next() else { return 0 };
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap_or_default();
    let (head, ssh) = ("0A004D0A:", format!(":{:04X}", 2222));
    let is_one = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, own, other, state, ..] = words[..] else { return false };
        other.starts_with(head) && state == "01" && !own.ends_with(&ssh)
    };
    table.lines().filter(is_one).count()
}

fn runs(bed: &Testbed, machine: Machine, text: &str) -> bool {
    bed.processes(machine).iter().any(|(_, words)| words.contains(text))
}

fn cut_for_good(bed: &Testbed, others: usize) {
    let silence = SILENCE.to_string();
    let child = bed.mpirun(&words(&silence, &["sleep", "300"])).spawn().unwrap();
    bed.await_process(A, "sleep 300");
    bed.await_process(B, "sleep 300");
    await_that("the hosts are connected with the head", || {
        [A, B].iter().all(|machine| connections(bed, *machine) > others)
    });
    // The last messages before the cut have arrived.
    std::thread::sleep(Duration::from_millis(500));
    bed.set_link(B, false);
    let (code, _, err) = outcome(child.wait_with_output().unwrap());
    assert!(code.is_some_and(|code| ![0, 124].contains(&code)), "{err}");
    assert!(err.contains("host nodeb is lost, with 1 rank:"), "{err}");
    await_that("the ranks of the host have ended", || !runs(bed, B, "sleep 300"));
    await_that("its agent has ended", || !runs(bed, B, " agent"));
    bed.set_link(B, true);
}

#[test]
fn ranks_of_a_host_whose_link_stays_down_end_with_ssh() {
    let Some(bed) = testbed() else { return };
    cut_for_good(&bed, 0);
    bed.is_clean();
}

#[test]
fn ranks_of_a_host_whose_link_stays_down_end_with_daemons() {
    let Some(bed) = testbed() else { return };
    bed.boot(UNIVERSE);
    // The daemons have one connection already.
    cut_for_good(&bed, 1);
}

/// Each rank writes more than the agent may send without an acknowledgement, and more than the
/// head's kernel takes.
const WRITES: &str = "echo begins; sleep 1; head -c 3000000 /dev/zero; sleep 2.125";
const WRITTEN: usize = 2 * (3_000_000 + "begins\n".len());

/// Stops the head for four times the silence after which a host is lost.
fn stop_head(bed: &Testbed) {
    let silence = SILENCE.to_string();
    let mut child = bed.mpirun(&words(&silence, &["sh", "-c", WRITES])).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut begun = [0; 14];
    out.read_exact(&mut begun).unwrap();
    let head = Pid::from_raw(bed.await_process(HEAD, "mpirun --timeout")).unwrap();
    kill_process(head, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(4 * SILENCE));
    for machine in [A, B] {
        let all = bed.processes(machine);
        assert!(
            runs(bed, machine, " agent") && runs(bed, machine, "begins"),
            "{}: {all:?}",
            machine.name
        );
    }
    let rest = std::thread::spawn(move || {
        let mut rest = Vec::new();
        out.read_to_end(&mut rest).unwrap();
        rest.len()
    });
    kill_process(head, Signal::CONT).unwrap();
    let (code, _, err) = outcome(child.wait_with_output().unwrap());
    assert_eq!((code, &*err), (Some(0), ""));
    assert_eq!(begun.len() + rest.join().unwrap(), WRITTEN);
}

#[test]
fn a_head_that_is_stopped_loses_no_agent_with_ssh() {
    let Some(bed) = testbed() else { return };
    stop_head(&bed);
    bed.is_clean();
}

#[test]
fn a_head_that_is_stopped_loses_no_agent_with_daemons() {
    let Some(bed) = testbed() else { return };
    bed.boot(UNIVERSE);
    stop_head(&bed);
    bed.halt();
    bed.is_clean();
}
