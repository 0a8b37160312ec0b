//! `oxmpi restart`: restores a job, and waits for its end as its mpirun did.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use oxmpi_checkpoint::criu::Criu;
use oxmpi_checkpoint::files::Policy;
use oxmpi_checkpoint::manifest;
use oxmpi_checkpoint::restart::{FittedFiles, RestartError, bring_back, check, fit_files};
use oxmpi_checkpoint::set::{Set, SetError};
use oxmpi_checkpoint::tree::session_of;
use oxmpi_param::{Param, Params};
use oxmpi_sys::spawn::Signals;
use rustix::process::{Pid, setsid};

use super::resumption::{self, Hosts};
use super::supervise::{SupervisionPlan, Supervisor, signals};
use super::terminal::{Terminal, needs_new};
use super::{Maker, text_of};
use crate::hosts::pieces::ImageDirectory;
use crate::launch::{OutputFiles, Supervision};

/// Why a job cannot be restarted.
#[derive(Debug, thiserror::Error)]
pub enum RestartFailure {
    /// An older set may be usable.
    #[error(transparent)]
    Set(#[from] SetError),
    #[error("{0}")]
    Other(String),
}

impl From<String> for RestartFailure {
    fn from(text: String) -> RestartFailure {
        RestartFailure::Other(text)
    }
}

/// A restart as the user wants it.
#[derive(Debug)]
pub struct RestartRequest<'a> {
    /// Never names the CRIU that is run: the parameters do.
    pub set: &'a Set,
    /// The parameters of the command.
    pub params: &'a Params,
    /// The hosts of the ranks, if others than before.
    pub hosts: Option<Hosts<'a>>,
    /// The interval of automatic checkpoints from now on, `Some(None)`: none; `None`: as before.
    pub every: Option<Option<Duration>>,
    /// The files for the output of ranks by the command line of the job.
    pub output_files: Option<OutputFiles>,
}

impl RestartRequest<'_> {
    /// Restores the job, and waits for its end. Returns the exit code of its mpirun.
    pub fn run(&self) -> Result<i32, RestartFailure> {
        let RestartRequest { set, params, hosts, .. } = *self;
        // Never a program that the set names.
        let criu = (!set.manifest.is_own).then(|| super::criu(params)).transpose()?;
        let supervision = supervision(self.every, set);
        let policy = Policy::named(params.cr_files()).unwrap_or(Policy::Cut);
        let marks = resumption::marks_of(set)?;
        note(&check(set, policy, (&marks, hosts.is_none())).map_err(|error| match error {
            RestartError::Set(error) => RestartFailure::Set(error),
            error => text_of(error).into(),
        })?);
        if let Some(criu) = criu.as_ref().filter(|_| hosts.is_none()) {
            criu.check().map_err(text_of)?;
            note(&other_version(set, criu));
        }
        let work = super::scratch()?;
        // Before the job exists, so that no signal is lost.
        let signals = signals().map_err(text_of)?;
        let with = (supervision, &signals);
        let Some(criu) = criu else {
            let files = fit_files(set, policy).map_err(text_of)?;
            note(&files.lines(""));
            let done = by_ranks(params, (set, None), &work, (hosts, policy), with);
            return Ok(done.inspect_err(|_| give_back(&files, false))?);
        };
        if set.manifest.ranks.is_some() {
            return Ok(by_ranks(params, (set, Some(criu)), &work, (hosts, policy), with)?);
        }
        let plan = supervision.map(|it| plan(it, set, Some(criu.clone()), params)).transpose()?;
        let (slave, terminal) = Terminal::of(&set.manifest.job.streams).map_err(text_of)?;
        let program = super::program()?;
        let files = fit_files(set, policy).map_err(text_of)?;
        note(&files.lines(""));
        let back = bring_back(set, &criu, work.path(), (&program, slave));
        let mpirun = back.inspect_err(|_| give_back(&files, true)).map_err(text_of)?;
        drop(work);
        note(&resumption::places_of_output(set, self.output_files.as_ref()));
        let pid = i32::try_from(mpirun).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| format!("process number {mpirun} makes no sense"))?;
        let is_known = set.manifest.job.supervision.is_some();
        let supervisor = Supervisor::new("oxmpi restart", pid, &signals, is_known);
        let code = supervisor.at(terminal).with(plan).watch();
        Ok(code.map_err(|error| format!("mpirun (process {mpirun}): {error}"))?)
    }
}

/// Has a new mpirun restore the ranks of a set, or start a program that restores its state itself.
fn by_ranks(
    params: &Params,
    (set, criu): (&Set, Option<Criu>),
    work: &ImageDirectory,
    started: (Option<Hosts<'_>>, Policy),
    (supervision, signals): (Option<Supervision>, &Signals),
) -> Result<i32, String> {
    let is_known = set.manifest.ranks.as_ref().is_some_and(|ranks| ranks.is_supervised);
    let plan = supervision.map(|it| plan(it, set, criu.clone(), params)).transpose()?;
    let (mpirun, said) = resumption::start(set, criu.as_ref(), work.path(), started)?;
    let supervisor = Supervisor::new("oxmpi restart", mpirun, signals, is_known).with(plan);
    let code = supervisor.watch();
    said.finish();
    code.map_err(|error| format!("mpirun (process {mpirun}): {error}"))
}

fn note(lines: &[String]) {
    lines.iter().for_each(|line| oxmpi_sys::complain!("oxmpi restart: {line}"));
}

/// Restores the former contents of files; `is_sure` says that no process of the job has run.
fn give_back(files: &FittedFiles, is_sure: bool) {
    note(&files.undo(is_sure));
}

fn other_version(set: &Set, criu: &Criu) -> Vec<String> {
    let (was, is) = (&set.manifest.made.criu, &criu.version);
    let note = format!(
        "the images were made by CRIU {was}, and {} is version {is}",
        criu.program.display()
    );
    if was == is { Vec::new() } else { vec![note] }
}

/// The automatic checkpoints of a restored job: as before, unless `every` changes them.
fn supervision(every: Option<Option<Duration>>, set: &Set) -> Option<Supervision> {
    let before = set.manifest.job.supervision;
    let mut found = before.map_or_else(Supervision::default, |before| Supervision {
        every: before.every_ms.map(Duration::from_millis),
        on_term: before.on_term,
    });
    if let Some(every) = every {
        found.every = every;
    }
    Some(found).filter(|found| *found != Supervision::default())
}

/// Checkpoints of the job: as those of the set, unless a parameter says otherwise.
fn plan(
    supervision: Supervision,
    set: &Set,
    criu: Option<Criu>,
    params: &Params,
) -> Result<SupervisionPlan, String> {
    let is_said = |name| Param::find(name).is_some_and(|param| !params.is_default(param));
    let base = set.path.parent().filter(|_| !is_said("cr_base_dir")).map(Path::to_path_buf);
    let base = base.map_or_else(|| super::usable_base(params), Ok)?;
    let before = set.manifest.job.supervision.filter(|_| !is_said("cr_keep"));
    let keep = before.map_or_else(|| super::keep(params), |before| before.keep);
    let every_ms = supervision.every.map(|time| time.as_millis() as u64);
    let recorded = manifest::Supervision { every_ms, on_term: supervision.on_term, keep };
    let is_tree = set.manifest.ranks.is_none();
    let maker = Maker {
        is_tree,
        criu,
        program: super::program()?,
        base,
        keep,
        supervision: Some(recorded),
    };
    Ok(SupervisionPlan { supervision, maker, is_quiet: false })
}

/// Whether the restart of this set needs a session of its own, which this process cannot begin.
/// Then a child does the restart ([`in_child`]).
pub fn needs_child(set: &Set) -> bool {
    // A new terminal needs a session, and a job cannot continue in a session of another PID
    // namespace. The leader of a group cannot begin a session, but its child can.
    let is_outside = session_of(std::process::id()).is_ok_and(|leader| leader == 0);
    let is_tree = set.manifest.ranks.is_none();
    (is_outside || is_tree && needs_new(&set.manifest.job.streams)) && setsid().is_err()
}

/// Runs `oxmpi restart` with these arguments in a child.
pub fn in_child(args: &[OsString]) -> std::io::Result<i32> {
    let signals = signals()?;
    let child = std::process::Command::new(oxmpi_sys::library::program()?)
        .arg("restart")
        .args(args)
        .spawn()?;
    Supervisor::new("oxmpi restart", Pid::from_child(&child), &signals, false).watch()
}
