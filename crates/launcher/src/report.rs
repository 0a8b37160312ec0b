//! The texts of a job that does not end well.
//!
//! A failed job prints one report, not one per rank: the rank, its host, the event with the MPI
//! call, the usual meaning, and the next step.

use std::fmt::Write as _;
use std::time::Duration;

use crate::job::{Exit, Glimpse, MpiStage};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Killed(i32),
    Code(i32),
    /// Exit status 0 after MPI_Init, without MPI_Finalize.
    NoFinalize,
    /// Exit status 0 without MPI_Init, which another rank has called.
    NoInit {
        other: String,
        /// An earlier program of this rank has called MPI_Init.
        is_later: bool,
    },
    /// Ended before MPI_Finalize; the launcher is not the parent and has no exit status.
    Gone,
    /// Of a process that another launcher has started.
    Unseen,
}

pub(crate) struct Subject<'a> {
    /// Such as "rank 3".
    pub(crate) name: &'a str,
    pub(crate) host: &'a str,
    pub(crate) seen: &'a Glimpse,
}

/// The note on a fault that the other ranks survive; `others` connected ranks run.
pub(crate) fn survived(subject: &Subject<'_>, fault: &Fault, others: usize) -> String {
    format!("{}\n  {}.\n", what(subject, fault), going_on(others))
}

fn going_on(others: usize) -> String {
    match others {
        0 => "none of the others runs any more".to_string(),
        1 => "the job goes on without it; 1 rank runs".to_string(),
        n => format!("the job goes on without it; {n} ranks run"),
    }
}

/// The report on a fault. `others` ranks are being ended; `code` is the exit status of `mpirun`.
pub(crate) fn fault(subject: &Subject<'_>, fault: &Fault, others: usize, code: i32) -> String {
    let mut out = what(subject, fault);
    out.push('\n');
    let (meaning, next) = advice(fault, subject.seen);
    let _ = writeln!(out, "  Meaning: {meaning}");
    let _ = writeln!(out, "  Next:    {next}");
    out.push_str(&ending(others, code));
    out
}

/// The first line: the rank and its end.
fn what(subject: &Subject<'_>, fault: &Fault) -> String {
    let Subject { name, host, seen } = subject;
    let mut out = format!("mpirun: {name} ({}host {host}) ", pid(seen));
    match fault {
        Fault::Killed(signal) => {
            let (name, words, _, _) = signal_entry(*signal);
            let _ = write!(out, "was killed by {name} ({words})");
        }
        Fault::Code(c) => {
            let _ = write!(out, "exited with code {c}");
        }
        Fault::NoFinalize => out.push_str("exited after MPI_Init without calling MPI_Finalize"),
        Fault::NoInit { is_later: false, .. } => {
            out.push_str("exited without ever calling MPI_Init")
        }
        Fault::NoInit { is_later: true, .. } => {
            out.push_str("exited without calling MPI_Init again, as a program before has done");
        }
        Fault::Gone | Fault::Unseen => out.push_str("ended without calling MPI_Finalize"),
    }
    out.push_str(&call(seen));
    out
}

/// The report on a rank that exited with `code` after it had finalized MPI, while other ranks
/// (`waiting`: the first one's name and the number of further ones) have not begun to finalize.
/// `others` connected ranks are being ended.
pub(crate) fn left(name: &str, code: i32, waiting: (&str, usize), others: usize) -> String {
    let (first, more) = waiting;
    let waiting = match more {
        0 => format!("{first} has"),
        n => format!("{first} and {n} more have"),
    };
    format!(
        "mpirun: {name} exited with code {code} after it had finalized MPI (by MPI_Finalize, or that of its last session), which {waiting} \
         not begun to\n  Meaning: ranks that go on may wait for one that has ended in vain, so {} still running will be ended.\n  Next:    read what the rank printed above; '--mca \
         mpi_abort_on_non_zero_status 0' lets the others go on.\n",
        ranks(others)
    )
}

/// The report on an MPI_Abort, or on an error that the program did not handle with the library's
/// `text`. The codes are MPI_Abort's and the exit status of `mpirun`.
pub(crate) fn abort(
    subject: &Subject<'_>,
    text: &str,
    others: usize,
    (wanted, code): (i32, i32),
) -> String {
    let Subject { name, host, seen } = subject;
    let text = text.trim_end();
    let mut out = if text.is_empty() {
        let bits = if wanted == code {
            ""
        } else {
            ", of which an exit code has the last 8 bits, and not 0"
        };
        format!(
            "mpirun: {name} ({}host {host}) called MPI_Abort with code {wanted}{bits}\n",
            pid(seen)
        )
    } else {
        format!("mpirun: {name} ({}host {host}) ended the job:\n{text}\n", pid(seen))
    };
    out.push_str(&ending(others, code));
    out
}

/// The report on a host that is lost with `lost` ranks; `others` connected ranks are being ended.
pub(crate) fn host_lost(host: &str, lost: usize, text: &str, others: usize) -> String {
    format!(
        "mpirun: host {host} is lost, with {}: {}\n  Meaning: the agent of mpirun on that host, the host itself, or the network to \
         it has failed.\n  Next:    see whether the host is up and can be reached; agents end their ranks when they lose \
         mpirun.\n{}",
        ranks(lost),
        text.trim_end(),
        ending(others, 1)
    )
}

/// The note on a host that is lost with `lost` ranks, which the other ranks survive.
pub(crate) fn host_survived(host: &str, lost: usize, text: &str, others: usize) -> String {
    format!(
        "mpirun: host {host} is lost, with {}: {}\n  {}.\n",
        ranks(lost),
        text.trim_end(),
        going_on(others)
    )
}

/// The report on `--timeout`: the running ranks, and lines of the state report.
pub(crate) fn timeout(
    time: Duration,
    host: Option<&str>,
    running: &[(String, Glimpse)],
    waits: &str,
) -> String {
    const SHOWN: usize = 16;
    let mut out = format!(
        "mpirun: the time of {} s (--timeout) is over and {}{} still {}:\n",
        time.as_secs_f64(),
        ranks(running.len()),
        host.map(|host| format!(" on host {host}")).unwrap_or_default(),
        if running.len() == 1 { "runs" } else { "run" }
    );
    for (name, seen) in running.iter().take(SHOWN) {
        let stage = match seen.stage {
            MpiStage::Untouched => "has not called MPI_Init",
            MpiStage::Initialized => "is between MPI_Init and MPI_Finalize",
            MpiStage::Finalizing => "is in MPI_Finalize",
            MpiStage::Finalized => "has called MPI_Finalize",
        };
        let _ = writeln!(out, "  {name}: {}{stage}{}", pid(seen), call(seen));
    }
    if running.len() > SHOWN {
        let _ = writeln!(out, "  and {} more", running.len() - SHOWN);
    }
    if !waits.is_empty() {
        let _ = write!(
            out,
            "  Who waits for whom (SIGUSR1 to mpirun prints this at any time):\n{waits}"
        );
    }
    out.push_str(
        "  Next:    give more time, or attach a debugger (gdb -p PID) to a rank that should have moved on.\n",
    );
    out
}

/// The report on the end of a daemon, with its own reason if it reported one.
pub(crate) fn daemon(
    (node, pid, host): (u32, i32, &str),
    (exit, why): (Exit, Option<&str>),
    others: usize,
    code: i32,
) -> String {
    let how = match (why, exit) {
        (Some(why), _) => format!("cannot go on: {}", why.trim_end()),
        (None, Exit::Code(code)) => format!("exited with code {code}"),
        (None, Exit::Signal(signal)) => {
            let (name, words, _, _) = signal_entry(signal);
            format!("was killed by {name} ({words})")
        }
        (None, Exit::Unknown | Exit::Unseen) => "has ended".to_string(),
    };
    let mut out = format!("mpirun: the daemon of node {node} (pid {pid}, host {host}) {how}\n");
    out.push_str(
        "  Meaning: all messages of this job go through it (rpi lamd), and those on their way are lost.\n",
    );
    out.push_str("  Next:    see who killed it ('dmesg | grep -i oom' for memory); '--mca rpi tcp' needs no daemons.\n");
    out.push_str(&ending(others, code));
    out
}

pub(crate) fn interrupted(signal: i32, running: usize) -> String {
    format!(
        "mpirun: {}; ending {} (once more to kill them at once)\n",
        signal_entry(signal).0,
        if running == 1 { "the rank".to_string() } else { ranks(running) }
    )
}

/// The report on a failed job of another launcher; `others` connected ranks are being ended.
pub(crate) fn connected(text: &str, others: usize, code: i32) -> String {
    let text = text.trim_end();
    format!(
        "mpirun: a job of another mpirun, with which this one is connected, has failed:\n  {text}\n{}",
        ending(others, code)
    )
}

/// The note on a failed process of another launcher that the ranks here survive.
pub(crate) fn survived_other(name: &str, others: usize) -> String {
    format!("mpirun: {name} has died\n  {}.\n", going_on(others))
}

/// The report on lost output, with a text for each destination.
pub(crate) fn lost_output(lost: &[String], code: i32) -> String {
    const SHOWN: usize = 4;
    let mut all = lost[..lost.len().min(SHOWN)].join(",\n  ");
    if lost.len() > SHOWN {
        all += &format!(",\n  and more of {} others", lost.len() - SHOWN);
    }
    format!("mpirun: output was lost: {all}\n  The job ends with exit code {code}.\n")
}

/// The summary of a report for other launchers.
pub(crate) fn first_line(report: &str) -> String {
    let line = report.lines().next().unwrap_or_default();
    line.strip_prefix("mpirun: ").unwrap_or(line).to_string()
}

/// The exit status that a shell would report: the code, or 128 + the signal.
pub(crate) fn shell_code(exit: Exit) -> i32 {
    match exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => 128 + signal,
        Exit::Unknown | Exit::Unseen => 1,
    }
}

fn ranks(n: usize) -> String {
    if n == 1 { "1 rank".to_string() } else { format!("{n} ranks") }
}

pub(crate) fn ending(others: usize, code: i32) -> String {
    match others {
        0 => format!("  The job ends with exit code {code}.\n"),
        n => format!(
            "  The job ends with exit code {code}; {} still running will be ended.\n",
            ranks(n)
        ),
    }
}

fn pid(seen: &Glimpse) -> String {
    if seen.pid == 0 { String::new() } else { format!("pid {}, ", seen.pid) }
}

fn call(seen: &Glimpse) -> String {
    seen.last_call.map(|name| format!("; its last MPI call was {name}")).unwrap_or_default()
}

fn advice(fault: &Fault, seen: &Glimpse) -> (String, String) {
    match fault {
        Fault::Killed(signal) => {
            let (_, _, meaning, next) = signal_entry(*signal);
            (meaning.to_string(), next.to_string())
        }
        Fault::Code(127) if seen.stage == MpiStage::Untouched => (
            "a shell or a loader exits with 127 when it cannot find a program or a library.".to_string(),
            "read what it printed above; 'ldd PROGRAM' lists the libraries that a program needs.".to_string(),
        ),
        Fault::Code(code) if SIGNALS.iter().any(|row| 128 + row.0 == *code) => {
            let (name, words, meaning, next) = signal_entry(code - 128);
            let meaning = format!("a shell says so of a program that {name} ({words}) killed: {meaning}");
            (meaning, next.to_string())
        }
        Fault::Code(_) => (
            "the program itself decided to fail; its peers may wait for it in vain.".to_string(),
            "read what the rank printed above (--tag-output marks each line with its rank).".to_string(),
        ),
        Fault::NoFinalize => (
            "the program left main, or called exit, while MPI was active; its peers may wait for it in vain.".to_string(),
            "call MPI_Finalize before the program ends (MPI_Session_finalize for each session), or MPI_Abort where it gives up.".to_string(),
        ),
        Fault::Gone => (
            "the program that started this launcher, by spawning processes, is no more.".to_string(),
            "look at how that program ended; its processes end with it.".to_string(),
        ),
        Fault::Unseen => (
            "the program left main, called exit, or was killed while MPI was active; its peers may wait for it in vain.".to_string(),
            "the launcher that has started the ranks prints how the process ended.".to_string(),
        ),
        Fault::NoInit { other, is_later } => (
            match is_later {
                false => format!("{other} called MPI_Init, so this is an MPI job, but this rank will never take part."),
                true => format!("{other} called MPI_Init in its next program, in which this rank will never take part."),
            },
            "see that every rank runs the MPI program: a script must not end before it, and each program of a ':' list is one job.".to_string(),
        ),
    }
}

/// Number, name, description, meaning, next step.
type SignalRow = (i32, &'static str, &'static str, &'static str, &'static str);

/// The signals that end a program (signal(7)), with Linux's numbers on all supported architectures.
const SIGNALS: &[SignalRow] = &[
    (
        1,
        "SIGHUP",
        "hang-up",
        "its terminal was closed, or another process sent the signal.",
        "run the job under nohup or in a session that stays.",
    ),
    (
        2,
        "SIGINT",
        "interrupt",
        "another process interrupted this process alone.",
        "look for a 'kill' in scripts, or for a batch system's limits.",
    ),
    (
        3,
        "SIGQUIT",
        "quit",
        "another process sent it, to get a core file.",
        "look at the core file.",
    ),
    (
        4,
        "SIGILL",
        "illegal instruction",
        "it was compiled for another processor, or jumped into data.",
        "compile it on this machine, without -march of a newer one.",
    ),
    (
        5,
        "SIGTRAP",
        "trap",
        "a breakpoint or a compiler's check was reached and no debugger is there.",
        "run the rank in a debugger.",
    ),
    (
        6,
        "SIGABRT",
        "abort",
        "the program ended itself: a failed assert, an uncaught exception, or a damaged heap.",
        "read what the rank printed above; look at the core file (ulimit -c unlimited).",
    ),
    (
        7,
        "SIGBUS",
        "bus error",
        "it used a part of a mapped file that is not there: a truncated file or a full file system.",
        "see 'df -h' for full file systems, /dev/shm and memory limits among them.",
    ),
    (
        8,
        "SIGFPE",
        "arithmetic error",
        "an integer was divided by zero, or floating-point traps are on.",
        "compile with -g and look at the core file (ulimit -c unlimited).",
    ),
    (
        9,
        "SIGKILL",
        "kill",
        "another process killed it, or the kernel did because memory ran out.",
        "see 'dmesg | grep -i oom' and the memory limit of the batch system or container.",
    ),
    (
        11,
        "SIGSEGV",
        "segmentation fault",
        "it used memory that is not its own: often a buffer too small for a count, or a pointer never set.",
        "compile with -g -fsanitize=address and run again, or look at the core file (ulimit -c unlimited).",
    ),
    (
        13,
        "SIGPIPE",
        "broken pipe",
        "it wrote to a pipe that no process reads, such as the end of 'mpirun ... | head'.",
        "nothing, if that was meant.",
    ),
    (
        14,
        "SIGALRM",
        "alarm",
        "a timer that the program set ran out.",
        "look for alarm() or setitimer() in the program.",
    ),
    (
        15,
        "SIGTERM",
        "termination",
        "another process sent it to this process alone.",
        "look for a 'kill' in scripts, or for a batch system's limits.",
    ),
    (
        24,
        "SIGXCPU",
        "CPU time",
        "its limit of CPU time is used up.",
        "raise it: 'ulimit -t unlimited'.",
    ),
    (
        25,
        "SIGXFSZ",
        "file size",
        "a file grew beyond the limit.",
        "raise it: 'ulimit -f unlimited'.",
    ),
    (
        31,
        "SIGSYS",
        "bad system call",
        "it made a system call that a sandbox forbids.",
        "look at the seccomp profile of the container.",
    ),
];

fn signal_entry(signal: i32) -> (String, &'static str, &'static str, &'static str) {
    match SIGNALS.iter().find(|row| row.0 == signal) {
        Some(&(_, name, words, meaning, next)) => (name.to_string(), words, meaning, next),
        None => (
            format!("signal {signal}"),
            "see 'man 7 signal'",
            "another process sent it this signal.",
            "look for its sender: the program itself, a script, a batch system.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_is_reported_in_full() {
        let seen = Glimpse { pid: 4711, stage: MpiStage::Initialized, last_call: Some("MPI_Recv") };
        let subject = Subject { name: "rank 2", host: "nodea", seen: &seen };
        assert_eq!(
            fault(&subject, &Fault::Killed(11), 3, 139),
            "mpirun: rank 2 (pid 4711, host nodea) was killed by SIGSEGV (segmentation fault); its last MPI call was MPI_Recv\n\
             \x20 Meaning: it used memory that is not its own: often a buffer too small for a count, or a pointer never set.\n\
             \x20 Next:    compile with -g -fsanitize=address and run again, or look at the core file (ulimit -c unlimited).\n\
             \x20 The job ends with exit code 139; 3 ranks still running will be ended.\n"
        );
    }

    #[test]
    fn a_death_that_is_survived_takes_two_lines() {
        let seen = Glimpse { pid: 4711, stage: MpiStage::Initialized, last_call: Some("MPI_Recv") };
        let subject = Subject { name: "rank 2", host: "nodea", seen: &seen };
        assert_eq!(
            survived(&subject, &Fault::Killed(9), 3),
            "mpirun: rank 2 (pid 4711, host nodea) was killed by SIGKILL (kill); its last MPI call was MPI_Recv\n\
             \x20 the job goes on without it; 3 ranks run.\n"
        );
    }

    #[test]
    fn every_fault_has_a_meaning_and_a_next_step() {
        let seen = Glimpse::default();
        let subject = Subject { name: "rank 0", host: "h", seen: &seen };
        let killed = (1..64).map(Fault::Killed);
        for f in killed.chain([
            Fault::Code(1),
            Fault::Code(127),
            Fault::Code(139),
            Fault::NoFinalize,
            Fault::NoInit { other: "rank 3".into(), is_later: false },
            Fault::NoInit { other: "rank 3".into(), is_later: true },
            Fault::Gone,
        ]) {
            let text = fault(&subject, &f, 0, 1);
            assert_eq!(text.lines().count(), 4, "{text}");
            assert!(!text.contains("pid"), "no pid is known: {text}");
        }
    }

    #[test]
    fn an_abort_shows_the_librarys_words() {
        let seen = Glimpse::default();
        let subject = Subject { name: "rank 1", host: "h", seen: &seen };
        let report = abort(&subject, "MPI_Send: tag -3\n", 1, (9, 9));
        assert!(report.contains("ended the job:\nMPI_Send: tag -3\n"));
    }

    #[test]
    fn an_abort_says_its_code_and_what_becomes_of_it() {
        let seen = Glimpse::default();
        let subject = Subject { name: "rank 1", host: "h", seen: &seen };
        let first = |wanted, code| {
            let report = abort(&subject, "", 0, (wanted, code));
            assert!(
                report.ends_with(&format!("  The job ends with exit code {code}.\n")),
                "{report}"
            );
            first_line(&report)
        };
        assert_eq!(first(9, 9), "rank 1 (host h) called MPI_Abort with code 9");
        for (wanted, code) in [(300, 44), (-1, 255), (256, 1)] {
            assert_eq!(
                first(wanted, code),
                format!(
                    "rank 1 (host h) called MPI_Abort with code {wanted}, of which an exit code has the last 8 bits, and not 0"
                )
            );
        }
    }

    #[test]
    fn a_timeout_lists_who_still_runs() {
        let seen = Glimpse { pid: 5, stage: MpiStage::Initialized, last_call: Some("MPI_Barrier") };
        let running: Vec<_> = (0..20).map(|r| (format!("rank {r}"), seen.clone())).collect();
        let text =
            timeout(Duration::from_millis(2500), Some("h"), &running, "  rank 0: in MPI_Recv\n");
        assert!(text.starts_with("mpirun: the time of 2.5 s (--timeout) is over and "), "{text}");
        assert!(text.contains(
            "rank 15: pid 5, is between MPI_Init and MPI_Finalize; its last MPI call was MPI_Barrier"
        ));
        assert!(text.contains("and 4 more") && !text.contains("rank 16:"));
        assert!(
            text.contains("prints this at any time):\n  rank 0: in MPI_Recv\n  Next:"),
            "{text}"
        );
        assert!(!timeout(Duration::from_secs(2), None, &running, "").contains("Who waits"));
    }
}
