//! Whether a process that would be a job of one rank should have been a rank of a larger job: a
//! program between it and `mpirun` has removed the environment or descriptors by which a rank finds
//! its `mpirun`.
//!
//! `env -i`, `sudo` and `su -` empty the environment; `sudo` and others close descriptors. Then N
//! jobs of one rank would run in place of one job of N ranks, with wrong results and exit status 0.
//! So MPI_Init fails and names that program. The remaining evidence:
//!
//! 1. The launcher is an ancestor. A process whose parent has ended becomes the launcher's child,
//!    as the launcher is a subreaper.
//! 2. The launcher (`mpirun`, or the agent of its host) holds the segments of its ranks, and each
//!    segment names the process that is the rank.
//! 3. Where no ancestor is visible, in a PID namespace, the segment of the rank may be inherited.
//!
//! A job of one rank is nevertheless right
//!
//! - if the user has removed OXMPI_BOOT alone from the environment (`env -u OXMPI_BOOT`),
//! - if the rank lives: then this process is a tool that the rank has started,
//! - if the launcher has a job of one rank.
//!
//! [`verdict`] is pure; [`LaunchEvidence::gather`] reads /proc.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::id;

use oxmpi_shm::segment::Segment;
use oxmpi_sys::fdpass;
use oxmpi_sys::process_stat::ProcessStat;
use oxmpi_sys::spawn::{inherited_is_control, inherited_is_segment, take_inherited};
use rustix::process::geteuid;

use crate::client::{BOOT_VARIABLE, SIZE_VARIABLE, WAY_IN_VARIABLE};
use crate::client::{CONTROL_NUMBER, SEGMENT_NUMBER};
use crate::control::Request;
use crate::programs::{LAUNCHERS, RESTARTS, command_of, is_named, program_of};
use oxmpi_sys::process_stat::{is_alive, line_of, parent_of};

pub const LAUNCHER_VARIABLE: &str = "OXMPI_LAUNCHER";

const GENERATIONS: usize = 64;
/// The name of this installation's program, which is `mpirun` and all other commands.
const PROGRAM: &str = "oxmpi";
/// The argument with which that program starts ranks for the `mpirun` of another host.
const AGENT: &str = "agent";

/// Programs that change the environment of the program that they start, and how to keep it.
const TAKERS: [(&str, &str); 10] = [
    ("sudo", "sudo -E PROGRAM keeps them"),
    ("doas", "name them in doas.conf (setenv), or run mpirun itself by doas"),
    ("su", "su -m -c PROGRAM, without '-', keeps them"),
    ("runuser", "runuser -m, without '-', keeps them"),
    ("env", "leave out -i; env -u NAME takes out single ones"),
    ("apptainer", "leave out --cleanenv"),
    ("singularity", "leave out --cleanenv"),
    ("docker", "start mpirun inside the container"),
    ("podman", "start mpirun inside the container"),
    ("systemd-run", "start mpirun by systemd-run"),
];

/// A process that should be a rank and cannot find its launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRank {
    /// `None`: the launcher is in another PID namespace.
    launcher: Option<u32>,
    /// The size of the job, if known.
    ranks: Option<u32>,
    cause: Cause,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Cause {
    NoEnvironment(Taker),
    OtherUser,
    /// The descriptors are closed, and the launcher does not accept requests.
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Taker {
    /// A program with a known remedy, and that remedy.
    Known(&'static str, &'static str),
    /// This program, or one that it has run.
    Below(String),
    Unknown,
}

impl fmt::Display for LostRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mpirun = self.launcher.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        let what = match self.ranks {
            Some(ranks) => format!("{ranks} ranks, of which this process is to be one"),
            None => "this process as a rank".into(),
        };
        write!(
            f,
            "mpirun{mpirun} has started {what}, but it would be a job of one rank, because "
        )?;
        match &self.cause {
            Cause::NoEnvironment(taker) => {
                f.write_str(&taker.explained("OxMPI", "those whose names begin with OXMPI_"))?;
            }
            Cause::OtherUser => f.write_str(
                "it belongs to another user than mpirun. Ranks belong to the user of mpirun: start mpirun itself as that user \
                 (sudo mpirun ...)",
            )?,
            Cause::Closed => write!(
                f,
                "a program between the two has closed the descriptors {SEGMENT_NUMBER} and {CONTROL_NUMBER}. Leave them open: in \
                 Python subprocess.run(..., close_fds=False); or start mpirun inside that program"
            )?,
        }
        f.write_str(
            ". If jobs of one rank are what you want, set OXMPI_MCA_mpi_allow_singletons=1 for PROGRAM",
        )
    }
}

impl std::error::Error for LostRank {}

/// Whether this process, which has not become a rank, should be one.
pub(crate) fn lost_rank() -> Option<LostRank> {
    let facts = LaunchEvidence::gather()?;
    let is_waited_for = facts.is_started;
    let lost = verdict(facts)?;
    if !is_waited_for {
        end_job(&lost);
    }
    Some(lost)
}

/// Ends the job over the control socket, as no process waits for an orphan's exit status.
fn end_job(lost: &LostRank) {
    let control =
        inherited_is_control(CONTROL_NUMBER).then(|| take_inherited(CONTROL_NUMBER)).flatten();
    if let Some(control) = control {
        let request = Request::Abort { code: 1, text: format!("MPI_Init: {lost}") };
        let _ = fdpass::send(&control, &request.encode(), None);
    }
}

/// This process, or one between it and its launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ancestor {
    pid: u32,
    name: String,
    /// Whether the process was started with a variable of the launcher; `None`: unreadable.
    has_variables: Option<bool>,
}

/// A rank, as its segment describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SegmentRank {
    size: u32,
    owner: Owner,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Nobody,
    /// The process has ended, or has become the program that runs here.
    Gone,
    Lives {
        /// Whether the owner descends from the same child of the launcher as this process.
        is_of_this_line: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct LaunchEvidence {
    has_variables: bool,
    /// The number of ranks in OXMPI_COMM_WORLD_SIZE.
    size: Option<u32>,
    launcher: Option<u32>,
    is_other_user: bool,
    /// This process, its parent, and so on, without the launcher.
    line: Vec<Ancestor>,
    /// Whether the last process of `line` was started by the launcher; otherwise it is an orphan.
    is_started: bool,
    command: Vec<String>,
    /// The launcher's ranks; `None`: unreadable.
    seats: Option<Vec<SegmentRank>>,
    inherited: Option<SegmentRank>,
}

fn verdict(facts: LaunchEvidence) -> Option<LostRank> {
    let LaunchEvidence { launcher, inherited, .. } = facts;
    let ranks = match (&facts.seats, launcher) {
        (Some(seats), Some(_)) => {
            let ranks = seats.iter().map(|seat| seat.size).max().unwrap_or(0);
            let is_tool = |seat: &SegmentRank| seat.owner == Owner::Lives { is_of_this_line: true };
            // An orphan may belong to any rank: a tool of a rank that has ended is not lost.
            let is_missing = |seat: &SegmentRank| match seat.owner {
                Owner::Nobody => true,
                Owner::Gone => facts.is_started,
                Owner::Lives { .. } => false,
            };
            if ranks < 2 || seats.iter().any(is_tool) || !seats.iter().any(is_missing) {
                return None;
            }
            Some(ranks)
        }
        (None, Some(_)) if facts.size == Some(1) => return None,
        (None, Some(_)) => facts.size,
        (_, None) => {
            let is_missing =
                |seat: &SegmentRank| seat.size > 1 && !matches!(seat.owner, Owner::Lives { .. });
            Some(inherited.filter(is_missing)?.size)
        }
    };
    let cause = match (facts.has_variables, facts.is_other_user) {
        (_, true) => Cause::OtherUser,
        (true, _) => Cause::Closed,
        (false, _) => Cause::NoEnvironment(taker(&facts.line, &facts.command)),
    };
    Some(LostRank { launcher, ranks, cause })
}

/// The program that has removed a variable of another launcher from the environment, for users, and
/// the remedy. `line` is this process and its ancestors.
pub(crate) fn taker_of(line: &[i32], variable: &str) -> String {
    let line: Vec<Ancestor> =
        line.iter().map(|process| Ancestor::of(process.cast_unsigned(), variable)).collect();
    taker(&line, &[]).explained("the launcher", variable)
}

impl Taker {
    /// A sentence for users; `kept` are the variables of `launcher` that are needed.
    fn explained(&self, launcher: &str, kept: &str) -> String {
        let (who, remedy) = match self {
            Taker::Known(name, remedy) => (format!("'{name}' has"), *remedy),
            Taker::Below(name) => (format!("'{name}', or a command that it has run, has"), ""),
            Taker::Unknown => ("a program between the two has".into(), ""),
        };
        let remedy = if remedy.is_empty() { String::new() } else { format!(": {remedy}") };
        format!(
            "{who} taken the variables of {launcher} out of its environment. Keep {kept}{remedy}"
        )
    }
}

/// The program that has removed the variables: the nearest ancestor that is known for it; else a
/// known name in the command of the nearest process with the variables, as `env` replaces itself by
/// its program.
fn taker(line: &[Ancestor], command: &[String]) -> Taker {
    let known = |name: &str| TAKERS.iter().find(|(taker, _)| *taker == name);
    let mut ancestors = line.iter().skip(1);
    if let Some((name, remedy)) = ancestors.clone().find_map(|ancestor| known(&ancestor.name)) {
        return Taker::Known(name, remedy);
    }
    let holder = ancestors.find(|ancestor| ancestor.has_variables == Some(true));
    let command = match holder {
        Some(holder) => words_of(&command_of(holder.pid)),
        None => command.to_vec(),
    };
    let words = command.iter().flat_map(|word| word.split_ascii_whitespace());
    let mut names = words.filter_map(|word| Path::new(word).file_name().and_then(OsStr::to_str));
    match (names.find_map(known), holder) {
        (Some((name, remedy)), _) => Taker::Known(name, remedy),
        (None, Some(holder)) => Taker::Below(holder.name.clone()),
        (None, None) => Taker::Unknown,
    }
}

impl LaunchEvidence {
    /// Collects the evidence; `None`: no launcher can be found, or the user has removed OXMPI_BOOT.
    fn gather() -> Option<LaunchEvidence> {
        let variable = |name| std::env::var_os(name).is_some();
        let has_variables = variable(BOOT_VARIABLE);
        if !has_variables && (variable(LAUNCHER_VARIABLE) || variable(WAY_IN_VARIABLE)) {
            return None;
        }
        let mut line = vec![Ancestor::of(id(), LAUNCHER_VARIABLE)];
        let mut next = parent_of(id());
        let mut launcher = None;
        while let Some(pid) = next.filter(|pid| *pid > 0 && line.len() < GENERATIONS) {
            if is_launcher(pid) {
                launcher = Some(pid);
                break;
            }
            line.push(Ancestor::of(pid, LAUNCHER_VARIABLE));
            next = parent_of(pid);
        }
        let first = line.last().map_or(0, |first| first.pid);
        let is_started = launcher.is_some_and(|launcher| is_started_by(first, launcher));
        Some(LaunchEvidence {
            has_variables,
            size: std::env::var(SIZE_VARIABLE).ok().and_then(|size| size.parse().ok()),
            launcher,
            is_other_user: launcher
                .and_then(user_of)
                .is_some_and(|user| user != geteuid().as_raw()),
            line,
            is_started,
            command: launcher.map(|pid| words_of(&command_of(pid))).unwrap_or_default(),
            seats: launcher.and_then(|launcher| ranks_of(launcher, first)),
            inherited: inherited_rank(),
        })
    }
}

impl Ancestor {
    fn of(pid: u32, variable: &str) -> Ancestor {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let variables = std::fs::read(format!("/proc/{pid}/environ"));
        let is_ours = |text: &[u8]| text.starts_with(variable.as_bytes());
        let has_variables = variables.ok().map(|text| text.split(|byte| *byte == 0).any(is_ours));
        Ancestor { pid, name: name.trim_end().to_string(), has_variables }
    }
}

/// Whether a process starts ranks. The executable of another user's process cannot be read, so its
/// command line counts.
fn is_launcher(pid: u32) -> bool {
    let command = command_of(pid);
    match program_of(pid) {
        Ok(program) => {
            let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
            // The kernel appends this to the path of a file that was replaced.
            name.trim_end_matches(" (deleted)") == PROGRAM
                && (is_named(&command, &LAUNCHERS)
                    || is_named(&command, &RESTARTS)
                    || is_named(&command, &[AGENT]))
        }
        Err(_) => is_named(&command, &LAUNCHERS),
    }
}

/// Whether the launcher started this child: such a child leads a process group in the launcher's
/// session.
fn is_started_by(child: u32, launcher: u32) -> bool {
    let session = ProcessStat::of(launcher).map(|stat| stat.session);
    let leads_a_group_there =
        |stat: ProcessStat| stat.group == child && Some(stat.session) == session;
    ProcessStat::of(child).is_some_and(leads_a_group_there)
}

fn user_of(pid: u32) -> Option<u32> {
    std::fs::metadata(format!("/proc/{pid}")).ok().map(|of| of.uid())
}

fn words_of(command: &[u8]) -> Vec<String> {
    command
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

/// The ranks of a launcher, from the segments that it holds. `first` is the launcher's child from
/// which this process descends.
fn ranks_of(launcher: u32, first: u32) -> Option<Vec<SegmentRank>> {
    let folder = std::fs::read_dir(format!("/proc/{launcher}/fd")).ok()?;
    let nameless = folder.flatten().map(|entry| entry.path()).filter(|path| is_nameless(path));
    Some(
        nameless
            .filter_map(|path| rank_at(&path, |owner| descends(owner, first, launcher)))
            .collect(),
    )
}

/// Whether an ancestor of this process, which are `line` after the process itself, is a living
/// rank, so that this process is a tool of the rank.
pub(crate) fn is_below_rank(line: &[i32]) -> bool {
    let is_rank = |process: &i32| {
        let process = process.cast_unsigned();
        let folder = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten();
        let of_process = |seat: SegmentRank| seat.owner == Owner::Lives { is_of_this_line: true };
        let files = folder.flatten().map(|entry| entry.path()).filter(|path| is_nameless(path));
        files.filter_map(|path| rank_at(&path, |owner| owner == process)).any(of_process)
    };
    line.iter().skip(1).any(is_rank)
}

fn is_nameless(path: &Path) -> bool {
    let target = std::fs::read_link(path);
    target.is_ok_and(|to| to.as_os_str().as_encoded_bytes().ends_with(b"(deleted)"))
}

fn descends(owner: u32, first: u32, launcher: u32) -> bool {
    line_of(owner, Some(launcher)).0.contains(&first.cast_signed())
}

fn inherited_rank() -> Option<SegmentRank> {
    let is_there = inherited_is_segment(SEGMENT_NUMBER) && inherited_is_control(CONTROL_NUMBER);
    is_there.then(|| rank_at(Path::new(&format!("/proc/self/fd/{SEGMENT_NUMBER}")), |_| false))?
}

/// The rank of the segment in a file; `None` if the file is not a segment.
fn rank_at(path: &Path, is_of_this_line: impl Fn(u32) -> bool) -> Option<SegmentRank> {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).ok()?;
    let segment = Segment::map(file).ok()?;
    let owner = match segment.status().pid() {
        None => Owner::Nobody,
        Some(owner) if owner != id() && is_alive(owner) => {
            Owner::Lives { is_of_this_line: is_of_this_line(owner) }
        }
        Some(_) => Owner::Gone,
    };
    Some(SegmentRank { size: segment.boot().size, owner })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: SegmentRank = SegmentRank { size: 2, owner: Owner::Nobody };
    const LEFT: SegmentRank = SegmentRank { size: 2, owner: Owner::Gone };
    const OTHER: SegmentRank =
        SegmentRank { size: 2, owner: Owner::Lives { is_of_this_line: false } };
    const OWN: SegmentRank = SegmentRank { size: 2, owner: Owner::Lives { is_of_this_line: true } };

    fn ancestor(name: &str, has_variables: Option<bool>) -> Ancestor {
        Ancestor { pid: 4_000_000, name: name.into(), has_variables }
    }

    /// A process below this line, whose environment is empty.
    fn below(line: &[(&str, Option<bool>)], seats: Option<&[SegmentRank]>) -> LaunchEvidence {
        let line = std::iter::once(&("a.out", Some(false))).chain(line);
        LaunchEvidence {
            has_variables: false,
            size: None,
            launcher: Some(7),
            is_other_user: false,
            is_started: true,
            line: line.map(|(name, has_variables)| ancestor(name, *has_variables)).collect(),
            command: ["mpirun", "-n", "2", "/usr/bin/env", "-i", "./a.out"]
                .map(String::from)
                .into(),
            seats: seats.map(<[SegmentRank]>::to_vec),
            inherited: None,
        }
    }

    fn is_lost(facts: LaunchEvidence) -> bool {
        verdict(facts).is_some()
    }

    #[test]
    fn a_lost_rank_is_known_by_the_ranks_that_are_missing() {
        let seats: [(&[SegmentRank], bool); 8] = [
            (&[LEFT, FREE], true),
            (&[LEFT, OTHER], true),
            (&[FREE, FREE], true),
            (&[FREE, OTHER], true),
            (&[OWN, FREE], false),
            (&[OTHER, OTHER], false),
            (&[], false),
            (&[SegmentRank { size: 1, ..FREE }], false),
        ];
        for (seats, wanted) in seats {
            assert_eq!(is_lost(below(&[], Some(seats))), wanted, "{seats:?}");
        }
        let orphan = |seats| LaunchEvidence { is_started: false, ..below(&[], Some(seats)) };
        assert!(is_lost(orphan(&[FREE, OTHER])) && !is_lost(orphan(&[LEFT, OTHER])));
        let unread = |size| LaunchEvidence { size, ..below(&[("sudo", None)], None) };
        assert!(is_lost(unread(Some(2))) && !is_lost(unread(Some(1))));
        assert!(is_lost(below(&[("sudo", None)], None)), "its segments cannot be read");
        let alone = |inherited| LaunchEvidence { launcher: None, inherited, ..below(&[], None) };
        assert!(!is_lost(alone(None)) && !is_lost(alone(Some(OTHER))));
        assert!(
            !is_lost(alone(Some(SegmentRank { size: 1, ..FREE }))) && is_lost(alone(Some(FREE)))
        );
    }

    #[test]
    fn the_program_that_has_emptied_the_environment_is_named_with_the_remedy() {
        let said = |facts| verdict(facts).unwrap().to_string();
        let seats = Some(&[FREE, FREE][..]);
        let no_words = |line: &[(&str, Option<bool>)]| LaunchEvidence {
            command: Vec::new(),
            ..below(line, seats)
        };
        let table = [
            (below(&[], seats), "'env' has", "leave out -i"),
            (below(&[("sudo", Some(true))], seats), "'sudo' has", "sudo -E"),
            (below(&[("sudo", None)], None), "'sudo' has", "sudo -E"),
            (below(&[("sh", Some(false)), ("su", Some(true))], seats), "'su' has", "su -m"),
            (no_words(&[("sh", Some(true))]), "'sh', or a command that it has run, has", "OXMPI_"),
            (no_words(&[]), "a program between the two has", "OXMPI_"),
            (
                LaunchEvidence { is_other_user: true, ..below(&[], seats) },
                "another user",
                "sudo mpirun",
            ),
            (
                LaunchEvidence { has_variables: true, ..below(&[], seats) },
                "closed the descriptors",
                "close_fds=False",
            ),
        ];
        for (facts, who, remedy) in table {
            let text = said(facts);
            let parts =
                ["mpirun (pid 7) has started", who, remedy, "OXMPI_MCA_mpi_allow_singletons=1"];
            parts.iter().for_each(|part| assert!(text.contains(part), "{part}: {text}"));
        }
    }

    #[test]
    fn a_process_under_no_mpirun_is_not_lost() {
        assert_eq!(lost_rank(), None);
        assert!(!is_launcher(id()) && !is_launcher(u32::MAX));
        assert_eq!(user_of(id()), Some(geteuid().as_raw()));
        let own = Ancestor::of(id(), LAUNCHER_VARIABLE);
        assert!(own.pid == id() && !own.name.is_empty() && own.has_variables.is_some());
    }
}
