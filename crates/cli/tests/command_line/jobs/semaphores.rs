//! Jobs over sysv that sleep on System V semaphores (`rpi_sysv_semaphores 1`): their semaphore
//! sets, and the removal of these.

use std::process::Command;
use std::time::Instant;

use rustix::process::Signal;

use super::harness::{SOON, await_sleep, compile, kill};
use crate::support::skip;

const OPTIONS: [&str; 6] = ["--mca", "rpi", "sysv", "--mca", "rpi_sysv_semaphores", "1"];

fn ipcs(arguments: &[&str]) -> String {
    let output = Command::new("ipcs").arg("-s").args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The number and the semaphores of each set of a launcher. Other tests may have some.
fn sets() -> Vec<(String, usize)> {
    let set = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_ours = words.first()?.starts_with("0x6f58");
        is_ours.then(|| (words[1].to_owned(), words[4].parse().unwrap()))
    };
    ipcs(&[]).lines().filter_map(set).collect()
}

/// For each semaphore of a set, the last process that used it and the number of waiting processes.
fn users(set: &str) -> Vec<(i32, u32)> {
    let text = ipcs(&["-i", set]);
    let row = |line: &str| {
        let words: Vec<i64> =
            line.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        (words.len() == 5).then(|| (words[4] as i32, words[2] as u32))
    };
    text.lines().filter_map(row).collect()
}

fn sets_of(launcher: i32) -> Vec<(String, usize)> {
    sets()
        .into_iter()
        .filter(|(set, _)| users(set).iter().any(|(pid, _)| *pid == launcher))
        .collect()
}

fn await_none(of: &[(String, usize)]) {
    let started = Instant::now();
    while sets().iter().any(|set| of.contains(set)) {
        assert!(started.elapsed() < SOON, "{:?} of {of:?} are left", sets());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

fn has_ipcs() -> bool {
    let has = Command::new("ipcs").arg("-s").output().is_ok_and(|output| output.status.success());
    if !has {
        skip("there is no ipcs");
    }
    has
}

#[test]
fn each_pair_has_six_semaphores_on_which_ranks_sleep() {
    let p = compile(&["jobs/stuck"]);
    if !has_ipcs() {
        return;
    }
    for signal in [Signal::TERM, Signal::KILL] {
        let mut job = p.start(p.mpirun(4, &OPTIONS, "stuck", &["recv"]));
        let pids = job.pids(4);
        pids.values().for_each(|&pid| await_sleep(pid));
        let found = sets_of(job.child.id() as i32);
        let mut sizes: Vec<usize> = found.iter().map(|(_, size)| *size).collect();
        sizes.sort_unstable();
        assert_eq!(
            sizes,
            [2, 6, 6, 6, 6, 6, 6],
            "one for the pool, and one for each of 4 * 3 / 2 pairs"
        );
        // Each waiting rank sleeps on one semaphore, and was the last to use it.
        let started = Instant::now();
        loop {
            let asleep: Vec<i32> = found
                .iter()
                .flat_map(|(set, _)| users(set))
                .filter(|(_, waiting)| *waiting == 1)
                .map(|(pid, _)| pid)
                .collect();
            if pids.values().all(|pid| asleep.contains(pid)) {
                break;
            }
            assert!(started.elapsed() < SOON, "{asleep:?} of {pids:?} sleep on semaphores");
        }
        job.signal(signal);
        job.end_within(SOON);
        await_none(&found);
    }
}

#[test]
fn the_next_job_removes_abandoned_sets() {
    let p = compile(&["jobs/stuck", "postboxes"]);
    if !has_ipcs() {
        return;
    }
    let mut job = p.start(p.mpirun(2, &OPTIONS, "stuck", &["recv"]));
    let pids = job.pids(2);
    let launcher = job.child.id() as i32;
    let found = sets_of(launcher);
    assert_eq!(found.len(), 2);
    // The guard is killed first, so that no process removes the sets when mpirun is killed.
    let children = job.children().into_iter();
    let guards: Vec<i32> = children.filter(|pid| !pids.values().any(|rank| rank == pid)).collect();
    assert_eq!(guards.len(), 1, "{guards:?}");
    kill(guards[0]);
    job.signal(Signal::KILL);
    job.end_within(SOON);
    let outcome = p.run(2, &[], "postboxes", &[]);
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "ok\n"), "{outcome:?}");
    await_none(&found);
}

/// `mpirun` in a shell in its own IPC namespace, after the words `before`; `None`: not permitted
/// here.
fn alone(before: &str, p: &super::harness::Programs, options: &[&str]) -> Option<Command> {
    let flags = ["-i", "-Uri"].into_iter().find(|flags| {
        let script = "echo '250 32000 32 9' > /proc/sys/kernel/sem";
        let tried = Command::new("unshare").args([flags, "sh", "-c", script]).output();
        tried.is_ok_and(|output| output.status.success())
    });
    let Some(flags) = flags else {
        skip("no IPC namespace is permitted here");
        return None;
    };
    let mpirun = p.mpirun(4, options, "postboxes", &[]);
    let script = format!("{before}\n\"$@\"\ncode=$?\nipcs -s | grep 0x6f58\nexit $code");
    let mut command = Command::new("unshare");
    command
        .args([flags, "sh", "-c", &script, "sh"])
        .arg(mpirun.get_program())
        .args(mpirun.get_args());
    Some(command)
}

#[test]
fn a_job_leaves_no_set_and_without_the_parameter_makes_none() {
    let p = compile(&["postboxes"]);
    let few = "echo '250 32000 32 7' > /proc/sys/kernel/sem";
    let none = "echo '250 32000 32 0' > /proc/sys/kernel/sem";
    for (limit, options) in [(few, &OPTIONS[..]), (none, &OPTIONS[..3])] {
        let Some(command) = alone(limit, &p, options) else { return };
        let outcome = p.start(command).end();
        assert_eq!((outcome.code, outcome.out.as_str()), (0, "ok\n"), "{outcome:?}");
    }
}

#[test]
fn limits_are_reported_with_the_remedy() {
    let p = compile(&["postboxes"]);
    if let Some(command) = alone("echo '250 32000 32 5' > /proc/sys/kernel/sem", &p, &OPTIONS) {
        let outcome = p.start(command).end();
        assert_eq!((outcome.code, outcome.out.as_str()), (1, ""), "{outcome:?}");
        for text in [
            "need 7 System V semaphore sets",
            "gave 5",
            "sysctl -w kernel.sem=",
            "rpi_sysv_semaphores at 0",
        ] {
            assert!(outcome.err.contains(text), "{}", outcome.err);
        }
    }
    if let Some(command) = alone("echo '5 32000 32 100' > /proc/sys/kernel/sem", &p, &OPTIONS) {
        let outcome = p.start(command).end();
        assert!(outcome.err.contains("are 5 semaphores in a set"), "{}", outcome.err);
    }
    let nodes = [&OPTIONS[..], &["--mca", "mpi_virtual_nodes", "2"]].concat();
    let outcome = p.run(4, &nodes, "postboxes", &[]);
    assert_eq!(outcome.code, 1, "{outcome:?}");
    assert!(
        outcome.err.contains("is for jobs all of whose ranks are on one node"),
        "{}",
        outcome.err
    );
}
