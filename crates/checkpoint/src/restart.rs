//! The checks before a restart, and the restart itself.
//!
//! All known reasons for a failure of CRIU are checked first: CRIU, the set, the machine, the
//! process numbers, the files. Only afterwards are files brought to their lengths at the checkpoint
//! ([`fit_files`]). If the restart then fails, the cut parts are put back ([`FittedFiles::undo`]).

use std::collections::BTreeSet;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::io::{FdFlags, fcntl_setfd};

use crate::criu::{Criu, CriuFailure, InheritedFolder, Places, log_output};
use crate::devices::{OuterDevice, open_all};
use crate::files::{FileVerdict, NeededFile, Policy, WrittenFile};
use crate::machine;
use crate::making::{ACTION_PROGRAM, MakeError, quoted};
use crate::manifest::Stream;
use crate::set::{Set, SetError};
use crate::tails::{ContentPiece, Fitted, LockedFile, TailError, Tails};
use crate::tree::{Taken, taken};

/// The first option on the command line of a restored job. A directory follows it.
pub const RESUME_OPTION: &str = "--oxmpi-resume";
/// How long to wait for numbers of ended processes that their parents have not collected.
const REAPING: Duration = Duration::from_secs(15);
/// How long to wait for a number of a process of another job. Most such processes are short
/// commands that got the number after the job had ended.
const PASSING: Duration = Duration::from_secs(3);
const MOST_NAMED: usize = 3;

/// The reason why a job is not restarted.
#[derive(Debug, thiserror::Error)]
pub enum RestartError {
    #[error(transparent)]
    Set(#[from] SetError),
    #[error(
        "this processor lacks {features}, which the one of host {host} has: a program that has found it there would fail here; \
         restart on a host with the same processor"
    )]
    Processor { features: String, host: String },
    #[error(
        "the job needs the process numbers that it had, and these are in use: {0}; end these processes if they are the job itself, or \
         restart in a space of numbers of its own: unshare -p -f --mount-proc oxmpi restart SET"
    )]
    Numbers(String),
    /// No PID namespace can be made for the ranks that need these numbers.
    #[error(
        "the ranks need the process numbers that they had, and these are in use: {0}; they can have them in a PID namespace, which this \
         process may not make (CAP_SYS_ADMIN): end these processes, restart as root, or let root make a namespace for the whole restart: \
         unshare -p -f --mount-proc oxmpi restart SET"
    )]
    NumbersOfRanks(String),
    #[error("the job runs still: {0}; end it before it is restarted, or let it go on")]
    Runs(String),
    #[error("{path} {why}", path = path.display())]
    File { path: PathBuf, why: String },
    #[error(transparent)]
    Tail(#[from] TailError),
    #[error("{0}: {1}")]
    Kernel(String, std::io::Error),
    #[error("{}{}", .0.text, quoted(&.0.quoted))]
    Criu(CriuFailure),
    /// Two ranks had one number in different PID namespaces, and no namespace can be made on this
    /// host.
    #[error(
        "ranks {one} and {other} were both process {task}, each on a host of its own, and come back with their numbers: on one host that \
         needs a PID namespace, which this process may not make (CAP_SYS_ADMIN); give them two hosts (--host), or restart as root"
    )]
    SameNumber { one: u32, other: u32, task: u32 },
    #[error("rank {0}: {text}{quoted}", text = .1.text, quoted = quoted(&.1.quoted))]
    Rank(u32, CriuFailure),
}

/// Checks everything except CRIU, and changes nothing. Returns remarks for the user. `marks` are in
/// the environment of the job's ranks ([`crate::ranks::marks`]). `is_here` says whether the ranks
/// return on this host and need their numbers.
pub fn check(
    set: &Set,
    policy: Policy,
    (marks, is_here): (&[String], bool),
) -> Result<Vec<String>, RestartError> {
    set.verify(true)?;
    let made = &set.manifest.made;
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
    let mut notes = Vec::new();
    let here = machine::here(&made.criu);
    if made.host != here.host {
        let (was, is) = (&made.host, &here.host);
        notes.push(match set.manifest.ranks {
            Some(_) => format!("the job ran on host {was} and goes on here, on {is}"),
            None => format!(
                "the job ran on host {was} and goes on here ({is}); its ranks still say {was}"
            ),
        });
    }
    for NeededFile { path, .. } in needed_and_changed(set)? {
        notes.push(format!(
            "{} was written to since the checkpoint; it is taken as it is",
            path.display()
        ));
    }
    notes.extend(judge(set, &Tails::of(set)?, policy, |_| true)?.notes);
    Ok(notes)
}

/// The needed files that were written to since the checkpoint. Fails if one cannot be used.
fn needed_and_changed(set: &Set) -> Result<Vec<&NeededFile>, RestartError> {
    let mut changed = Vec::new();
    for file in &set.manifest.needed {
        match file.judge() {
            FileVerdict::Refused(why) => {
                return Err(RestartError::File { path: file.path.clone(), why });
            }
            FileVerdict::Same => {}
            FileVerdict::Fit(_) | FileVerdict::Taken(_) => changed.push(file),
        }
    }
    Ok(changed)
}

#[derive(Default)]
struct Judged<'s> {
    to_fit: Vec<&'s WrittenFile>,
    notes: Vec<String>,
}

fn judge<'s>(
    set: &'s Set,
    tails: &Tails,
    policy: Policy,
    is_wanted: impl Fn(&WrittenFile) -> bool,
) -> Result<Judged<'s>, RestartError> {
    let mut judged = Judged::default();
    // Several hosts may have an entry for one path. The entry of the set's host counts, otherwise
    // the first.
    let mut paths = BTreeSet::new();
    let (own, others): (Vec<_>, Vec<_>) =
        set.manifest.written.iter().partition(|file| file.host.is_none());
    let written =
        own.into_iter().chain(others).filter(|file| is_wanted(file) && paths.insert(&file.path));
    for file in written {
        let note = match judge_file(file, tails, policy).0 {
            FileVerdict::Refused(why) => {
                return Err(RestartError::File { path: file.path.clone(), why });
            }
            FileVerdict::Same => None,
            FileVerdict::Taken(note) => Some(note),
            FileVerdict::Fit(note) => {
                judged.to_fit.push(file);
                note
            }
        };
        judged.notes.extend(note.map(|note| format!("{} {note}", file.path.display())));
    }
    Ok(judged)
}

fn judge_file(
    file: &WrittenFile,
    tails: &Tails,
    policy: Policy,
) -> (FileVerdict, Vec<ContentPiece>) {
    let found = match file.find() {
        Ok(Some(found)) => found,
        Ok(None) => return (FileVerdict::Same, Vec::new()),
        Err(verdict) => return (verdict, Vec::new()),
    };
    let mut pieces = Vec::new();
    let contents = || {
        let (contents, found) = tails.contents(file);
        pieces = found;
        contents
    };
    let verdict = file.judge(&found, policy, contents);
    (verdict, pieces)
}

/// Files that were brought to their lengths at a checkpoint.
#[derive(Debug)]
pub struct FittedFiles {
    tails: Tails,
    all: Vec<Fitted>,
}

/// Judges all files again, and brings them to their lengths. On an error no file changes.
pub fn fit_files(set: &Set, policy: Policy) -> Result<FittedFiles, RestartError> {
    fit_files_of(set, policy, |_| true)
}

pub(crate) fn fit_files_of(
    set: &Set,
    policy: Policy,
    is_wanted: impl Fn(&WrittenFile) -> bool,
) -> Result<FittedFiles, RestartError> {
    let mut tails = Tails::of(set)?;
    // Must precede all cuts: the tails of this restart may have to be put back at once.
    tails.sweep();
    let to_fit = judge(set, &tails, policy, is_wanted)?.to_fit;
    let mut files = FittedFiles { tails, all: Vec::new() };
    for file in to_fit {
        match files.fit(file, policy) {
            Ok(fitted) => files.all.extend(fitted),
            Err(error) => {
                files.undo(false);
                return Err(error);
            }
        }
    }
    Ok(files)
}

impl FittedFiles {
    /// Brings one file to its length, unless an agent of another host did so meanwhile.
    fn fit(&mut self, file: &WrittenFile, policy: Policy) -> Result<Option<Fitted>, RestartError> {
        let locked = LockedFile::new(file)?;
        let (verdict, pieces) = judge_file(file, &self.tails, policy);
        match verdict {
            FileVerdict::Fit(_) => Ok(Some(self.tails.fit(&file.path, &locked, &pieces)?)),
            FileVerdict::Refused(why) => Err(RestartError::File { path: file.path.clone(), why }),
            FileVerdict::Same | FileVerdict::Taken(_) => Ok(None),
        }
    }

    /// One line for the user about each file, ending with `place`.
    pub fn lines(&self, place: &str) -> Vec<String> {
        let kept = self.tails.directory().display();
        let line = |file: &Fitted| {
            let (path, bytes) = (file.path.display(), file.bytes);
            match file.put_back {
                0 => format!(
                    "{path} is cut back to {bytes} bytes; the other {} are kept in {kept}{place}",
                    file.cut
                ),
                back => {
                    format!("{path} has its {bytes} bytes again, {back} of them from {kept}{place}")
                }
            }
        };
        self.all.iter().map(line).collect()
    }

    /// Restores the former contents of all files after a failed restart. A file that was written to
    /// since stays unchanged, unless `is_sure` says that no process of the job has run. Returns
    /// failures in words.
    pub fn undo(&self, is_sure: bool) -> Vec<String> {
        let mut left = Vec::new();
        for file in self.all.iter().filter(|file| is_sure || Tails::is_untouched(file)) {
            if let Err(error) = self.tails.undo(file) {
                let (path, kept) = (file.path.display(), self.tails.directory().display());
                left.push(format!(
                    "{path} lacks the part that was cut off, which is kept in {kept}: {error}"
                ));
            }
        }
        left
    }
}

pub(crate) fn check_processor(set: &Set) -> Result<(), RestartError> {
    let made = &set.manifest.made;
    let missing = machine::missing_features(made, &machine::here(&made.criu));
    if missing.is_empty() {
        return Ok(());
    }
    Err(RestartError::Processor { features: missing.join(", "), host: made.host.clone() })
}

fn check_numbers(tasks: &[u32]) -> Result<(), RestartError> {
    let numbers = await_numbers(tasks, PASSING);
    if numbers.is_empty() { Ok(()) } else { Err(RestartError::Numbers(named(&numbers))) }
}

/// Waits for these numbers to be free: [`REAPING`] for ended processes, `patience` for running
/// ones. Returns the processes that still have one.
pub(crate) fn await_numbers(tasks: &[u32], patience: Duration) -> Vec<Taken> {
    let start = Instant::now();
    loop {
        let found = taken(tasks);
        let runs = found.iter().any(|taken| !taken.name.is_empty());
        let limit = if runs { patience } else { REAPING };
        if found.is_empty() || start.elapsed() >= limit {
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

/// Restores the processes of a set as children of this process. This process's standard streams
/// replace those of mpirun, and `terminal` replaces its terminal. CRIU's log goes to the directory
/// `work`. CRIU calls `program` (see [`crate::making::make`]). Returns the process number of
/// mpirun. On an error no process of the job is left.
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
    let given =
        streams(&job.streams).map_err(kernel("the standard streams cannot be given to the job"))?;
    let devices: Vec<&OuterDevice> = set.manifest.devices.iter().collect();
    let opened = open_all(&devices)?;
    let of_devices: Vec<Stream> = devices.iter().map(|device| device.stream()).collect();
    let numbers: Vec<(i32, &Stream)> =
        given.iter().map(|(fd, stream)| (fd.as_raw_fd(), *stream)).collect();
    let numbers: Vec<(i32, &Stream)> = numbers
        .into_iter()
        .chain(opened.iter().map(|fd| fd.as_raw_fd()).zip(&of_devices))
        .collect();
    let image =
        InheritedFolder::new(set.image_folder(None)?).map_err(kernel("no descriptor for CRIU"))?;
    let action = work.join(ACTION_PROGRAM);
    std::os::unix::fs::symlink(program, &action).map_err(kernel("no link for CRIU"))?;
    let places = Places { image: image.path(), work, action: Some(&action) };
    let mut command: Command = criu.restore(&places, &numbers);
    if let Some(terminal) = terminal {
        // CRIU gives its own terminal to the job.
        command.stdin(terminal);
    }
    log_output(&mut command, work).map_err(kernel("no file for CRIU's output"))?;
    let status = command.status();
    let what = format!("{} cannot be started", criu.program.display());
    let status = status.map_err(kernel(&what))?;
    if !status.success() {
        return Err(RestartError::Criu(criu.failed_restore(work, status)));
    }
    Ok(job.mpirun)
}

/// Repairs the state that CRIU does not restore. All processes of the set exist, and none runs yet.
/// Fails if the set cannot be read, or the kernel refuses a change.
pub(crate) fn mend(set: &Path) -> Result<(), MakeError> {
    for descriptor in Set::open(set)?.manifest.nonblocking {
        descriptor.set_nonblocking().map_err(|error| MakeError::Job(descriptor.process, error))?;
    }
    Ok(())
}

/// The descriptors by which CRIU inherits this process's standard streams in place of mpirun's.
fn streams(wanted: &[Stream; 3]) -> std::io::Result<Vec<(OwnedFd, &Stream)>> {
    let own = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let replaced =
        wanted.iter().zip(own).filter(|(stream, _)| matches!(stream, Stream::Outside(_)));
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
        assert_eq!(
            text,
            "1 (heat), 2 (ended, and its parent does not wait for it), 3 (c), and 1 more"
        );
    }

    #[test]
    fn a_short_command_may_have_a_number_for_a_moment() {
        let mut command = Command::new("sleep").arg("0.2").spawn().unwrap();
        let number = command.id();
        let waiting = std::thread::spawn(move || command.wait());
        assert!(check_numbers(&[number]).is_ok());
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn a_machine_that_lacks_something_and_numbers_in_use_are_refused() {
        let mut manifest = example();
        manifest.made.cpu_features = vec!["the_next_big_thing".into()];
        let set = Set { path: "/nonexistent".into(), manifest, passed_over: Vec::new() };
        let text = check(&set, Policy::Cut, (&[], true)).unwrap_err().to_string();
        assert!(text.contains("lacks the_next_big_thing, which the one of host node1"), "{text}");
        let mut manifest = example();
        manifest.made.cpu_features.clear();
        manifest.ranks = None;
        manifest.job.tasks = vec![std::process::id()];
        let set = Set { path: "/nonexistent".into(), manifest, passed_over: Vec::new() };
        let text = check(&set, Policy::Cut, (&[], true)).unwrap_err().to_string();
        assert!(text.contains("these are in use") && text.contains("unshare -p -f"), "{text}");
    }
}
