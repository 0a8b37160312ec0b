//! `oxmpi restart`: restores a job, and waits for its end as its mpirun did.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oxmpi_checkpoint::files::Policy;
use oxmpi_checkpoint::manifest;
use oxmpi_checkpoint::restart::{FittedFiles, RestartError, bring_back, check, fit_files};
use oxmpi_checkpoint::set::{Set, SetError};
use oxmpi_checkpoint::tree::session_of;
use oxmpi_launcher::hosts::agent::ImageDirectory;
use oxmpi_launcher::launch::Supervision;
use oxmpi_param::{Param, Params};
use oxmpi_sys::spawn::Signals;
use rustix::process::{Pid, setsid};

use super::ranks::Hosts;
use super::schema::quoted;
use super::supervise::{SupervisionPlan, Supervisor, signals};
use super::terminal::{Terminal, needs_new};
use super::{Criu, Maker};
use crate::command::{Settings, Stop, failed, usage};
use crate::mpirun::{INTERVAL_WANTED, interval};

/// Bring back a job of which 'oxmpi checkpoint' has made a set
///
/// The job goes on where it was, with the process numbers that it had, on this host unless others
/// are named. Where each rank has an image, a new mpirun restores them; ranks whose process numbers
/// are in use get a PID namespace (CAP_SYS_ADMIN). Where mpirun's input, output and errors were a
/// terminal or a pipe, those of this command take their place; files go on as files. If mpirun had
/// a terminal and this command has none, the job writes to this command's output, and gets no
/// input. Signals are passed on to mpirun, and its exit code is the one of this command; 1 if the
/// job cannot be restarted. LAM/MPI and BLCR call this command lamrestart and cr_restart.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct RestartArgs {
    /// The directory of a set, or the name of the job's sets without their number: the newest
    set: PathBuf,
    /// How to treat changed files that the job had open for writing (parameter cr_files)
    ///
    /// cut (the default): cut back files that have grown, and put back parts that another restart
    /// has cut off; refuse: refuse changed files; accept: as cut, but accept other files under the
    /// same paths. Cut parts are kept next to the sets.
    #[arg(long, value_name = "HOW", value_parser = ["cut", "refuse", "accept"])]
    files: Option<String>,
    /// The hosts on which the ranks go on, as mpirun has them (nodea:2,nodeb:2)
    ///
    /// Each rank must have an image, and the hosts must have the set, the program and its files
    /// under the same paths.
    #[arg(short = 'H', long, value_name = "LIST", group = "hosts")]
    host: Option<String>,
    /// A file with these hosts
    #[arg(long, value_name = "FILE", group = "hosts")]
    hostfile: Option<PathBuf>,
    /// An app schema with a host for each rank, as in the set ('oxmpi info --checkpoint')
    #[arg(long, value_name = "FILE", group = "hosts")]
    app: Option<PathBuf>,
    /// How often the job is checkpointed from now on (90s, 30m, 2h), or 'none'; else as before
    #[arg(long, value_name = "TIME", value_parser = every)]
    every: Option<CheckpointInterval>,
    #[command(flatten)]
    settings: Settings,
}

/// The value of `--every`; `None` for 'none'.
#[derive(Clone, Copy, Debug)]
struct CheckpointInterval(Option<Duration>);

fn every(text: &str) -> Result<CheckpointInterval, String> {
    let time = if text == "none" { None } else { Some(interval(text)) };
    match time {
        Some(None) => Err(format!("not {INTERVAL_WANTED}, nor 'none'")),
        time => Ok(CheckpointInterval(time.flatten())),
    }
}

/// Runs `oxmpi restart`. `words` are the words after `restart`.
pub(crate) fn restart(args: &RestartArgs, words: &[OsString]) -> Result<i32, Stop> {
    let mut params = args.settings.parameters()?;
    if let Some(files) = &args.files {
        let source = oxmpi_param::Source::CommandLine(format!("--files {files}"));
        params.set_from("cr_files", files, source).map_err(usage)?;
    }
    let path = args.set.as_path();
    let unusable = |error: SetError| failed(with_older(&error, path, words));
    let set = Set::open(path).map_err(unusable)?;
    // Never a program that the set names.
    let criu = (!set.manifest.is_own).then(|| super::criu(&params)).transpose()?;
    let supervision = supervision(args.every, &set);
    let policy = Policy::named(params.cr_files()).unwrap_or(Policy::Cut);
    let is_outside = session_of(std::process::id()).is_ok_and(|leader| leader == 0);
    let by_rank = set.manifest.ranks.as_ref();
    if (is_outside || by_rank.is_none() && needs_new(&set.manifest.job.streams))
        && setsid().is_err()
    {
        // A new terminal needs a session, and a job cannot continue in a session of another PID
        // namespace. The leader of a group cannot begin a session, but its child can.
        return in_child(words).map_err(failed);
    }
    note(&set.passed_over);
    // The new mpirun runs in the directory of the old one.
    let absolute = |option: &'static str, file: &Option<PathBuf>| {
        let file = file.as_ref()?;
        let path = std::path::absolute(file);
        let wrong = |error| usage(format!("{option} {}: {error}", file.display()));
        Some(path.map_err(wrong).map(|path| (option, path.display().to_string())))
    };
    let named = args.host.clone().map(|hosts| Ok(("--host", hosts)));
    let named = named.or_else(|| absolute("--hostfile", &args.hostfile));
    let named = named.or_else(|| absolute("--app", &args.app)).transpose()?;
    let hosts = named.as_ref().map(|(option, value)| Hosts { option, value });
    if let (Some(Hosts { option, value }), None) = (hosts, by_rank) {
        return Err(usage(format!(
            "{option} {value}: the set has one image of all processes together, which goes on on one host; images of each rank, which \
             go on anywhere, are made of jobs that are started with '--mca cr blcr'"
        )));
    }
    let marks = super::ranks::marks_of(&set, unusable)?;
    let checked = check(&set, policy, (&marks, hosts.is_none()));
    note(&checked.map_err(|error| match error {
        RestartError::Set(error) => unusable(error),
        error => failed(error),
    })?);
    if let Some(criu) = criu.as_ref().filter(|_| hosts.is_none()) {
        criu.check().map_err(failed)?;
        note(&other_version(&set, criu));
    }
    let work = scratch()?;
    // Before the job exists, so that no signal is lost.
    let signals = signals().map_err(failed)?;
    let Some(criu) = criu else {
        let files = fit_files(&set, policy).map_err(failed)?;
        note(&files.lines(""));
        return by_ranks(&params, (&set, None), &work, (hosts, policy), (supervision, &signals))
            .inspect_err(|_| give_back(&files, false));
    };
    if by_rank.is_some() {
        return by_ranks(
            &params,
            (&set, Some(criu)),
            &work,
            (hosts, policy),
            (supervision, &signals),
        );
    }
    let plan = supervision.map(|it| plan(it, &set, Some(criu.clone()), &params)).transpose()?;
    let (slave, terminal) = Terminal::of(&set.manifest.job.streams).map_err(failed)?;
    let program = super::program()?;
    let files = fit_files(&set, policy).map_err(failed)?;
    note(&files.lines(""));
    let back = bring_back(&set, &criu, work.path(), (&program, slave));
    let mpirun = back.inspect_err(|_| give_back(&files, true)).map_err(failed)?;
    drop(work);
    note(&super::ranks::places_of_output(&set));
    let pid = i32::try_from(mpirun).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| failed(format!("process number {mpirun} makes no sense")))?;
    let is_known = set.manifest.job.supervision.is_some();
    let supervisor = Supervisor::new("oxmpi restart", pid, &signals, is_known);
    let code = supervisor.at(terminal).with(plan).watch();
    code.map_err(|error| failed(format!("mpirun (process {mpirun}): {error}")))
}

/// Why a set cannot be used, and the command for the set before it, by the `args` for this one.
pub(super) fn with_older(error: &SetError, path: &Path, args: &[OsString]) -> String {
    let Some(older) = Set::whole_before(path) else {
        let is_damage = matches!(error, SetError::Damaged(..) | SetError::Manifest(..));
        return format!(
            "{error}{}",
            if is_damage { "; the job has no older set that is whole" } else { "" }
        );
    };
    let mut words: Vec<String> = args.iter().map(|arg| quoted(&arg.to_string_lossy())).collect();
    let named = args.iter().rposition(|arg| arg.as_os_str() == path.as_os_str());
    if let Some(word) = named.and_then(|at| words.get_mut(at)) {
        *word = quoted(&older.path.to_string_lossy());
    }
    format!("{error}; the set before it is whole: oxmpi restart {}", words.join(" "))
}

/// Has a new mpirun restore the ranks of a set, or start a program that restores its state itself.
fn by_ranks(
    params: &Params,
    (set, criu): (&Set, Option<Criu>),
    work: &ImageDirectory,
    started: (Option<Hosts<'_>>, Policy),
    (supervision, signals): (Option<Supervision>, &Signals),
) -> Result<i32, Stop> {
    let is_known = set.manifest.ranks.as_ref().is_some_and(|ranks| ranks.is_supervised);
    let plan = supervision.map(|it| plan(it, set, criu.clone(), params)).transpose()?;
    let (mpirun, said) = super::ranks::start(set, criu.as_ref(), work.path(), started)?;
    let supervisor = Supervisor::new("oxmpi restart", mpirun, signals, is_known).with(plan);
    let code = supervisor.watch();
    said.finish();
    code.map_err(|error| failed(format!("mpirun (process {mpirun}): {error}")))
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

/// The automatic checkpoints of a restored job: as before, unless the command line changes them.
fn supervision(every: Option<CheckpointInterval>, set: &Set) -> Option<Supervision> {
    let before = set.manifest.job.supervision;
    let mut found = before.map_or_else(Supervision::default, |before| Supervision {
        every: before.every_ms.map(Duration::from_millis),
        on_term: before.on_term,
    });
    if let Some(CheckpointInterval(every)) = every {
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
) -> Result<SupervisionPlan, Stop> {
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

fn in_child(args: &[OsString]) -> std::io::Result<i32> {
    let signals = signals()?;
    let child = std::process::Command::new(oxmpi_sys::library::program()?)
        .arg("restart")
        .args(args)
        .spawn()?;
    Supervisor::new("oxmpi restart", Pid::from_child(&child), &signals, false).watch()
}

/// A directory for CRIU's logs, which is removed when the value is dropped.
pub(super) fn scratch() -> Result<ImageDirectory, Stop> {
    let place = std::env::temp_dir();
    let made = ImageDirectory::make_in(&[&place]);
    made.map_err(|error| {
        failed(format!("no directory for logs of CRIU can be made in {}: {error}", place.display()))
    })
}
