//! The time after which a silent agent is lost.

use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::testbed::{B, LIMIT, testbed};

/// Shorter than the default interval between two signs of life, so the agents must have received
/// the parameter.
const SILENCE: &[&str] = &["--timeout", "120", "--mca", "mpi_agent_silence_s", "5"];

/// Agents of ranks without output send signs of life in time.
#[test]
fn agents_of_quiet_ranks_are_not_taken_for_lost() {
    let Some(bed) = testbed() else { return };
    let (code, _, err) =
        bed.run(&[SILENCE, &["-n", "2", "-H", "nodea,nodeb", "sleep", "12"]].concat());
    assert_eq!((code, err.as_str()), (Some(0), ""));
    bed.is_clean();
}

#[test]
fn an_agent_that_is_stopped_is_taken_for_lost() {
    let Some(bed) = testbed() else { return };
    let stay = ["-n", "2", "-H", "nodea,nodeb", "sh", "-c", "echo stays; exec sleep 100"];
    // The lines come when all agents have reported the start: before, another limit counts.
    let job = bed.begin(&[SILENCE, &stay].concat(), 2);
    let agents: Vec<Pid> = bed
        .processes(B)
        .into_iter()
        .filter(|(_, words)| words.contains("oxmpi agent"))
        .filter_map(|(pid, _)| Pid::from_raw(pid))
        .collect();
    assert!(!agents.is_empty());
    let signal = |signal| {
        for pid in &agents {
            // The process may have ended.
            let _ = kill_process(*pid, signal);
        }
    };
    let began = Instant::now();
    signal(Signal::STOP);
    let (code, _, err) = job.end();
    signal(Signal::CONT);
    assert!(
        code.is_some_and(|code| ![0, 124].contains(&code)) && began.elapsed() < 2 * LIMIT,
        "{err}"
    );
    assert!(
        err.contains("host nodeb") && err.contains("nothing has come from it for 5 s"),
        "{err}"
    );
    bed.is_clean();
}
