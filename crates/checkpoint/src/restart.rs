//! What is checked before a restart, and how the job comes back.
//!
//! Everything that would make CRIU fail, and of which a person can be told the reason, is checked first: the set, the machine, the
//! numbers of processes, the files. Only when nothing speaks against it are files cut back.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};

use crate::criu::{Criu, Failure, OUTPUT, Places};
use crate::files::{Policy, Verdict, WrittenFile};
use crate::machine;
use crate::making::{ACTION_PROGRAM, MakeError, quoted};
use crate::manifest::Stream;
use crate::set::{Set, SetError};
use crate::tree::{Taken, taken};

/// Before the first word of a job's command line where an `mpirun` brings the job back: with a directory after it that says which.
pub const RESUME_OPTION: &str = "--oxmpi-resume";
/// How long processes of the job that have ended may keep their numbers: whoever started them has not noticed yet.
const REAPING: Duration = Duration::from_secs(15);
/// So many are named.
const MOST_NAMED: usize = 3;

/// Why a job is not restarted.
#[derive(Debug, thiserror::Error)]
pub enum RestartError {
    /// The set cannot be used.
    #[error(transparent)]
    Set(#[from] SetError),
    /// The processor lacks something.
    #[error(
        "this processor lacks {features}, which the one of host {host} has: a program that has found it there would fail here; \
         restart on a host with the same processor"
    )]
    Processor {
        /// What is missing.
        features: String,
        /// Where the set was made.
        host: String,
    },
    /// Numbers of processes are in use.
    #[error(
        "the job needs the process numbers that it had, and these are in use: {0}; end what has them if it is the job itself, or \
         restart in a space of numbers of its own: unshare -p -f --mount-proc oxmpi restart SET"
    )]
    Numbers(String),
    /// Numbers of processes are in use, and no PID namespace can be made here for the ranks that need them.
    #[error(
        "the ranks need the process numbers that they had, and these are in use: {0}; they can have them in a PID namespace, which this \
         process may not make (CAP_SYS_ADMIN): end what has them, restart as root, or let root make a namespace for all of it: \
         unshare -p -f --mount-proc oxmpi restart SET"
    )]
    NumbersOfRanks(String),
    /// Processes of the job are there.
    #[error("the job runs still: {0}; end it before it is restarted, or let it go on")]
    Runs(String),
    /// A file is not as it must be.
    #[error("{path} {why}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file cannot be cut back.
    #[error("{path} has grown since the checkpoint and cannot be cut back: {error}", path = .0.display(), error = .1)]
    Cut(PathBuf, std::io::Error),
    /// CRIU cannot be started, or what it needs is not to be had.
    #[error("{0}: {1}")]
    Kernel(String, std::io::Error),
    /// CRIU has failed.
    #[error("{}{}", .0.text, quoted(&.0.quoted))]
    Criu(Failure),
    /// Two ranks that had one number of a process, in PID namespaces of their own, and no namespace can be made here.
    #[error(
        "ranks {one} and {other} were both process {task}, each on a host of its own, and come back with their numbers: on one host that \
         needs a PID namespace, which this process may not make (CAP_SYS_ADMIN); give them two hosts (--host), or restart as root"
    )]
    SameNumber {
        /// A rank.
        one: u32,
        /// Another one.
        other: u32,
        /// The number, of a process or a thread.
        task: u32,
    },
    /// CRIU has failed to restore one rank.
    #[error("rank {0}: {text}{quoted}", text = .1.text, quoted = quoted(&.1.quoted))]
    Rank(u32, Failure),
}

/// What a restart does to files, and what it has noticed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleared {
    /// The files that were cut back, and to how many bytes.
    pub cut: Vec<(PathBuf, u64)>,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// Checks everything, then cuts files back, but for those of a job of which each rank has an image: they are cut back by [`cut`] when
/// no host has processes of the job. `marks` are what is in the environment of the job's ranks ([`crate::ranks::marks`]), and `is_here`
/// says whether they come back on this host and need their numbers.
///
/// # Errors
/// See [`RestartError`]; no file is changed then, unless one of several cannot be cut.
pub fn clear(
    set: &Set,
    policy: Policy,
    (marks, is_here): (&[String], bool),
) -> Result<Cleared, RestartError> {
    set.verify(true)?;
    let made = &set.manifest.made;
    let here = machine::here(&made.criu, &made.criu_program);
    if !set.manifest.is_own {
        check_processor(set)?;
    }
    crate::ranks::check_ended(marks)?;
    match &set.manifest.ranks {
        _ if !is_here => {}
        None => check_numbers(&set.manifest.job.tasks)?,
        Some(all) => {
            let ranks: Vec<u32> = all.images.iter().map(|image| image.rank).collect();
            crate::ranks::apart(set, &ranks)?;
        }
    }
    let mut cleared = Cleared::default();
    if made.host != here.host {
        let (was, is) = (&made.host, &here.host);
        cleared.notes.push(match set.manifest.ranks {
            Some(_) => format!("the job ran on host {was} and goes on here, on {is}"),
            None => format!("the job ran on host {was} and goes on here ({is}); its ranks still say {was}"),
        });
    }
    let to_cut = judge(set, policy, &mut cleared)?;
    if set.manifest.ranks.is_none() || set.manifest.is_own {
        cleared.cut = cut_all(to_cut)?;
    }
    Ok(cleared)
}

/// Checks all files of a set once more, and cuts those back that have grown; which, and to how many bytes.
///
/// # Errors
/// [`RestartError::File`] and [`RestartError::Cut`].
pub fn cut(set: &Set, policy: Policy) -> Result<Vec<(PathBuf, u64)>, RestartError> {
    cut_all(judge(set, policy, &mut Cleared::default())?)
}

fn cut_all(files: Vec<&WrittenFile>) -> Result<Vec<(PathBuf, u64)>, RestartError> {
    let cut = |file: &WrittenFile| {
        file.cut().map_err(|error| RestartError::Cut(file.path.clone(), error))?;
        Ok((file.path.clone(), file.bytes))
    };
    files.into_iter().map(cut).collect()
}

/// Whether the processor of this host has all that the one of a set had.
pub(crate) fn check_processor(set: &Set) -> Result<(), RestartError> {
    let made = &set.manifest.made;
    let missing = machine::missing_features(made, &machine::here(&made.criu, &made.criu_program));
    if missing.is_empty() {
        return Ok(());
    }
    Err(RestartError::Processor { features: missing.join(", "), host: made.host.clone() })
}

/// Whether numbers of processes are free.
fn check_numbers(tasks: &[u32]) -> Result<(), RestartError> {
    let numbers = await_numbers(tasks);
    if numbers.is_empty() { Ok(()) } else { Err(RestartError::Numbers(named(&numbers))) }
}

/// Checks all files; those that have grown, and are to be cut back.
fn judge<'s>(
    set: &'s Set,
    policy: Policy,
    cleared: &mut Cleared,
) -> Result<Vec<&'s WrittenFile>, RestartError> {
    let mut to_cut = Vec::new();
    let needed = set.manifest.needed.iter().map(|file| (&file.path, file.judge(), None));
    // What several hosts have said of one path: what this one has said counts, else the first.
    let mut seen = BTreeSet::new();
    let (own, others): (Vec<_>, Vec<_>) = set.manifest.written.iter().partition(|file| file.host.is_none());
    let written = own.into_iter().chain(others).filter(|file| seen.insert(&file.path) || file.host.is_none());
    let written = written.map(|file| (&file.path, file.judge(policy), Some(file)));
    for (path, verdict, written) in needed.chain(written) {
        match verdict {
            Verdict::Same => {}
            Verdict::Cut => to_cut.extend(written),
            Verdict::Rewritten => {
                let path = path.display();
                cleared
                    .notes
                    .push(format!("{path} was written to since the checkpoint; it is taken as it is"));
            }
            Verdict::Refused(why) => return Err(RestartError::File { path: path.clone(), why }),
        }
    }
    Ok(to_cut)
}

/// Waits for those that have ended; returns those that run, or are not gone in time.
pub(crate) fn await_numbers(tasks: &[u32]) -> Vec<Taken> {
    let start = Instant::now();
    loop {
        let found = taken(tasks);
        let runs = found.iter().any(|taken| !taken.name.is_empty());
        if found.is_empty() || runs || start.elapsed() > REAPING {
            return found;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn named(numbers: &[Taken]) -> String {
    let name = |taken: &Taken| match taken.name.as_str() {
        "" => format!("{} (ended, and its parent does not wait for it)", taken.task),
        name => format!("{} ({name})", taken.task),
    };
    let mut names: Vec<String> = numbers.iter().take(MOST_NAMED).map(name).collect();
    if numbers.len() > MOST_NAMED {
        names.push(format!("and {} more", numbers.len() - MOST_NAMED));
    }
    names.join(", ")
}

/// Brings the processes of a set back as children of this process, with its standard streams in place of mpirun's, and this `terminal`
/// if that had one. CRIU's log goes to a directory `work`; it calls `program` (see [`crate::making::make`]). Returns the number of mpirun.
///
/// # Errors
/// [`RestartError::Kernel`] and [`RestartError::Criu`]; then no process of the job is left.
pub fn bring_back(
    set: &Set,
    criu: &Criu,
    work: &Path,
    (program, terminal): (&Path, Option<OwnedFd>),
) -> Result<u32, RestartError> {
    let job = &set.manifest.job;
    let kernel = |what: &str| {
        let what = what.to_string();
        move |error: std::io::Error| RestartError::Kernel(what, error)
    };
    let given = streams(&job.streams).map_err(kernel("the standard streams cannot be given to the job"))?;
    let numbers: Vec<(i32, &Stream)> = given.iter().map(|(fd, stream)| (fd.as_raw_fd(), *stream)).collect();
    let image = set.image();
    let action = work.join(ACTION_PROGRAM);
    std::os::unix::fs::symlink(program, &action).map_err(kernel("no link for CRIU"))?;
    let places = Places { image: &image, work, action: Some(&action) };
    let mut command: Command = criu.restore(&places, &numbers);
    if let Some(terminal) = terminal {
        // CRIU takes the one that it has itself.
        command.stdin(terminal);
    }
    let output = std::fs::File::create(work.join(OUTPUT)).map_err(kernel("no file for CRIU's output"))?;
    let errors = output.try_clone().map_err(kernel("no file for CRIU's output"))?;
    let status = command.stdout(output).stderr(errors).status();
    let what = format!("{} cannot be started", criu.program.display());
    if !status.map_err(kernel(&what))?.success() {
        return Err(RestartError::Criu(criu.failure(work, false)));
    }
    Ok(job.mpirun)
}

/// What CRIU has not brought back as it was, while all processes of a set are there and none of them runs yet.
///
/// # Errors
/// If the set cannot be read, or the kernel refuses something.
pub(crate) fn mend(set: &Path) -> Result<(), MakeError> {
    for descriptor in Set::open(set)?.manifest.nonblocking {
        descriptor.set_nonblocking().map_err(|error| MakeError::Job(descriptor.process, error))?;
    }
    Ok(())
}

/// The own standard streams for those of mpirun that a restart has to replace: descriptors that CRIU inherits.
fn streams(wanted: &[Stream; 3]) -> std::io::Result<Vec<(OwnedFd, &Stream)>> {
    let own = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let replaced = wanted.iter().zip(own).filter(|(stream, _)| matches!(stream, Stream::Outside(_)));
    replaced
        .map(|(stream, own)| {
            let fd = own.as_fd().try_clone_to_owned()?;
            fcntl_setfd(&fd, FdFlags::empty())?;
            Ok((fd, stream))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests::example;

    #[test]
    fn numbers_that_are_in_use_are_named() {
        let taken = |task, name: &str| Taken { task, name: name.into() };
        let all = [taken(1, "heat"), taken(2, ""), taken(3, "c"), taken(4, "d")];
        let text = named(&all);
        assert_eq!(text, "1 (heat), 2 (ended, and its parent does not wait for it), 3 (c), and 1 more");
    }

    #[test]
    fn a_machine_that_lacks_something_and_numbers_in_use_are_refused() {
        let mut manifest = example();
        manifest.made.cpu_features = vec!["the_next_big_thing".into()];
        let set = Set { path: "/nowhere".into(), manifest };
        let text = clear(&set, Policy::Cut, (&[], true)).unwrap_err().to_string();
        assert!(text.contains("lacks the_next_big_thing, which the one of host node1"), "{text}");
        let mut manifest = example();
        manifest.made.cpu_features.clear();
        // Ranks that have images of their own get a PID namespace where this process may make one.
        manifest.ranks = None;
        manifest.job.tasks = vec![std::process::id()];
        let set = Set { path: "/nowhere".into(), manifest };
        let text = clear(&set, Policy::Cut, (&[], true)).unwrap_err().to_string();
        assert!(text.contains("these are in use") && text.contains("unshare -p -f"), "{text}");
    }
}
