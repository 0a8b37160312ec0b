//! A checkpoint from the request to the published set.
//!
//! CRIU calls a program between its steps ([`at_action`]). That program calls this library when the
//! image is complete and all processes are still frozen, and records the files of the job. If the
//! job is to end, the set is published at once: CRIU ends the processes if the call succeeds, and
//! lets them continue if it fails. So no job ends before its set is on disk. If the job is to
//! continue, its set is published after CRIU has released the processes, so that they do not wait
//! for the disk.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use oxmpi_sys::spawn::PidNamespace;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use serde::{Deserialize, Serialize};

use crate::commit::{CommitError, Draft, Step, WORK};
use crate::criu::{
    Criu, CriuFailure, Places, has_descriptor_under_way, log_output, pause_s, stream_of,
};
use crate::devices::{OuterDevice, devices_of};
use crate::files::Survey;
use crate::machine;
use crate::manifest::{Cost, JobRecord, Manifest, Stream, Supervision};
use crate::restart::RESUME_OPTION;
use crate::set::{JobName, Set, SetError};
use crate::tree::{Tree, session_of, taken};

pub const ACTION_PROGRAM: &str = "oxmpi-at-action";

/// `STEP:FILE` in this variable stops a process at a step of a commit: it writes its process number
/// to the file and waits. Tests kill it there.
const PAUSE_VARIABLE: &str = "OXMPI_CHECKPOINT_PAUSE";
const PAUSE: Duration = Duration::from_secs(60);
const PLAN: &str = "plan.json";
/// Facts that were recorded while all processes were frozen.
const FOUND: &str = "found.json";
const AGAIN: &str = "again";
const ATTEMPTS: u32 = 40;
const BETWEEN: Duration = Duration::from_millis(7);
const REASON: &str = "reason";
/// How long to wait for the process numbers of an ended job to become free.
const REAPING: Duration = Duration::from_secs(2);

/// A request for a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointRequest {
    pub base: PathBuf,
    /// The number of older sets to keep.
    pub keep: usize,
    /// Whether the job ends with the checkpoint.
    pub ends: bool,
    /// In hexadecimal digits.
    pub id: String,
    pub mpirun: u32,
    pub program: String,
    pub ranks: u32,
    pub transport: String,
    /// Automatic checkpoints.
    pub supervision: Option<Supervision>,
}

/// A finished checkpoint.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    pub set: Set,
    /// From the request to the publication.
    pub seconds: f64,
    pub left: Vec<String>,
}

/// The reason why no checkpoint was made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    #[error("process {0} cannot be examined: {1}")]
    Job(u32, io::Error),
    #[error(
        "the session of mpirun (process {0}) was begun outside of this container (PID namespace), and CRIU makes no image of such a process; \
         start the job by 'setsid --wait mpirun ...'"
    )]
    Session(u32),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    Work(PathBuf, io::Error),
    #[error("{path} cannot be started: {error}", path = .0.display(), error = .1)]
    Start(PathBuf, io::Error),
    #[error("{}{}", .0.text, quoted(&.0.quoted))]
    Criu(CriuFailure),
    #[error("{0}")]
    Standing(String),
    #[error(
        "open files are in transit between processes of the job, which CRIU does not restore: they carry messages of more than 64 KiB over \
         daemons (rpi lamd) that no rank has received yet; {ATTEMPTS} attempts have failed; try again, or run the job over another \
         transport"
    )]
    UnderWay,
    #[error(
        "CRIU was ended by signal {signal} while it made the image of {image}: processes in which its code ran may end by this (SIGPIPE, \
         SIGTRAP, SIGSEGV); mpirun reports the first one"
    )]
    Killed { image: String, signal: i32 },
    #[error("rank {0}: {text}{quoted}", text = .1.text, quoted = quoted(&.1.quoted))]
    Rank(u32, CriuFailure),
    #[error(
        "ranks {0} and {1} share memory (a shared window, MPI_Win_allocate_shared, or memory of the program's own) or an open file without \
         a name: it cannot be in the images of both; make one image of all processes together (--tree)"
    )]
    Shared(u32, u32),
    #[error(
        "process {process} has descriptor {number} open, {path}, which was opened in another mount namespace (outside of this container), \
         and CRIU makes no image of such a file: start the job without it ({})", remedy_of(*.number), path = path.display()
    )]
    Mount { process: u32, number: u32, path: PathBuf },
    #[error("rank {0}: {1}")]
    Image(u32, String),
    #[error("the set {path} is whole and on disk, but the job was not ended and goes on: {why}", path = path.display())]
    NotEnded { path: PathBuf, why: String },
    #[error("the set {path} is whole and on disk, and the job goes on, but {why}", path = path.display())]
    Continued { path: PathBuf, why: String },
    #[error(
        "the set {path} is whole and on disk, but the job was not ended and goes on: the process that published it was killed; end the job \
         ('kill {pid}'), or keep the set as an older state of it",
        path = path.display()
    )]
    GoesOn { path: PathBuf, pid: u32 },
    #[error(transparent)]
    Set(#[from] SetError),
}

fn remedy_of(number: u32) -> String {
    match number {
        0 => "'mpirun ... < /dev/null', or '... | mpirun ...'".into(),
        1 => "'mpirun ... | cat'".into(),
        2 => "'mpirun ... 2>&1 | cat'".into(),
        _ => format!("'mpirun ... {number}>&-' in a shell"),
    }
}

/// CRIU's words as an addition to a message.
pub fn quoted(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(" (CRIU: {words})") }
}

#[derive(Debug, Serialize, Deserialize)]
struct ActionPlan {
    request: CheckpointRequest,
    job: JobRecord,
    criu: String,
    begun_s: f64,
    devices: Vec<OuterDevice>,
}

/// Makes a checkpoint, after any other checkpoint of the same job has ended. `action` is a program
/// that runs [`at_action`] when its name is [`ACTION_PROGRAM`]. On an error the job continues, and
/// no part of the set remains.
pub fn make(
    request: &CheckpointRequest,
    criu: &Criu,
    action: &Path,
) -> Result<Checkpoint, MakeError> {
    let _turn = turn(request.mpirun);
    let start = Instant::now();
    let job = job_of(request).map_err(|error| MakeError::Job(request.mpirun, error))?;
    if session_of(request.mpirun).is_ok_and(|leader| leader == 0) {
        return Err(MakeError::Session(request.mpirun));
    }
    let name = JobName::new(&request.program, &request.id);
    let mut draft = Draft::begin(&request.base, name)?;
    pause_at(Step::Begun);
    let work = draft.work();
    let of_job = |error| MakeError::Job(request.mpirun, error);
    let devices = devices_of(&Tree::of(request.mpirun).map_err(of_job)?.processes)?;
    let streams: Vec<Stream> =
        job.streams.iter().cloned().chain(devices.iter().map(OuterDevice::stream)).collect();
    let plan = ActionPlan {
        request: request.clone(),
        job,
        criu: criu.version.clone(),
        begun_s: now_s(),
        devices,
    };
    write_json(&work.join(PLAN), &plan)?;
    let link = work.join(ACTION_PROGRAM);
    std::os::unix::fs::symlink(action, &link)
        .map_err(|error| MakeError::Work(link.clone(), error))?;
    let image = draft.image();
    let places = Places { image: &image, work: &work, action: Some(&link) };
    let mut attempts = 1..=ATTEMPTS;
    let is_well = loop {
        let command = criu.dump(request.mpirun, &places, &streams, request.ends);
        let is_well = run(criu, command, &work, None, || "all processes".into())?;
        let is_again = fs::remove_file(work.join(AGAIN)).is_ok() && attempts.next().is_some();
        if is_well || !is_again {
            break is_well;
        }
        draft.clear()?;
        std::thread::sleep(BETWEEN);
    };
    if !is_well {
        if !work.exists()
            && let Ok(set) = Set::open(&draft.base().join(draft.job().to_string()))
        {
            return Err(MakeError::GoesOn { path: set.path, pid: request.mpirun });
        }
        return Err(match fs::read_to_string(work.join(REASON)) {
            Ok(reason) => MakeError::Standing(reason),
            Err(_) => MakeError::Criu(criu.failure(&work, true)),
        });
    }
    if request.ends {
        let set = Set::open(&draft.base().join(draft.job().to_string()))?;
        await_end(&set.manifest.job.tasks);
        return Ok(Checkpoint { set, seconds: start.elapsed().as_secs_f64(), left: Vec::new() });
    }
    let mut manifest: Manifest = read_json(&work.join(FOUND))?;
    manifest.cost.pause_s = pause_s(&work).or_else(|| pause_s(&image));
    manifest.cost.image_s = start.elapsed().as_secs_f64();
    let published = draft.publish(manifest, request.keep, &mut pause_at)?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Checkpoint { set: Set::open(&published.path)?, seconds, left: published.left })
}

/// The facts about a job that other processes can see.
pub(crate) fn job_of(request: &CheckpointRequest) -> io::Result<JobRecord> {
    let process = request.mpirun;
    let command = fs::read(format!("/proc/{process}/cmdline"))?;
    let words =
        command.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let mut command: Vec<String> = words.collect();
    command.pop(); // The text ends with a zero byte.
    if command.get(1).is_some_and(|word| word == RESUME_OPTION) {
        command.drain(1..command.len().min(3));
    }
    Ok(JobRecord {
        id: request.id.clone(),
        mpirun: process,
        command,
        program: request.program.clone(),
        directory: fs::read_link(format!("/proc/{process}/cwd"))?,
        ranks: request.ranks,
        transport: request.transport.clone(),
        user: fs::metadata(format!("/proc/{process}"))?.uid(),
        streams: [stream_of(process, 0)?, stream_of(process, 1)?, stream_of(process, 2)?],
        output_files: [1, 2].map(|number| regular_file(process, number)),
        tasks: Vec::new(),
        supervision: request.supervision,
    })
}

/// The path of a process's descriptor of a regular file with a name.
fn regular_file(process: u32, number: u32) -> Option<PathBuf> {
    let link = format!("/proc/{process}/fd/{number}");
    fs::metadata(&link).ok().filter(|file| file.is_file() && file.nlink() > 0)?;
    fs::read_link(link).ok()
}

/// Waits until no other process makes an image of this process: two cannot trace it at once. The
/// lock is on a file in /proc that only the owner of the process can open. CRIU inherits the lock,
/// since it continues if its caller is killed. Without a lock CRIU reports the conflict.
pub(crate) fn turn(process: u32) -> Option<fs::File> {
    let file = fs::File::open(format!("/proc/{process}/environ")).ok()?;
    rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockExclusive)).ok()?;
    fcntl_setfd(file.as_fd(), FdFlags::empty()).ok()?;
    Some(file)
}

/// Runs CRIU to make an image, with its output in the directory `work`. Returns whether it
/// succeeded. `namespace` is CRIU's PID namespace if it is another than this process's. `image`
/// names the image in errors.
pub(crate) fn run(
    criu: &Criu,
    mut command: Command,
    work: &Path,
    namespace: Option<&PidNamespace>,
    image: impl FnOnce() -> String,
) -> Result<bool, MakeError> {
    let mut wait = || {
        log_output(&mut command, work)?;
        let mut child = match namespace {
            Some(namespace) => namespace.spawn(&mut command)?,
            None => command.spawn()?,
        };
        child.wait()
    };
    let status = wait().map_err(|error| MakeError::Start(criu.program.clone(), error))?;
    match std::os::unix::process::ExitStatusExt::signal(&status) {
        Some(signal) => Err(MakeError::Killed { image: image(), signal }),
        None => Ok(status.success()),
    }
}

/// Waits until the parents of an ended job's processes have collected them.
pub fn await_end(tasks: &[u32]) {
    let start = Instant::now();
    while !taken(tasks).is_empty() && start.elapsed() < REAPING {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The program that CRIU calls between its steps; returns its exit code.
pub fn at_action() -> i32 {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    // CRIU names its own descriptor in /proc.
    let image = fs::read_link(variable("CRTOOLS_IMAGE_DIR"));
    let Some(directory) = image.ok().and_then(|image| image.parent().map(Path::to_path_buf)) else {
        return 1;
    };
    let done = match &*variable("CRTOOLS_SCRIPT_ACTION") {
        "post-dump" => standing(&directory),
        "pre-resume" => crate::restart::mend(&directory),
        _ => Ok(()),
    };
    match done {
        Ok(()) => 0,
        Err(error) => {
            // If the file cannot be written, only CRIU's log has the failure.
            let _ = fs::write(directory.join(WORK).join(REASON), error.to_string());
            1
        }
    }
}

fn standing(directory: &Path) -> Result<(), MakeError> {
    let work_error = |error| MakeError::Work(directory.to_path_buf(), error);
    let plan: ActionPlan = read_json(&directory.join(WORK).join(PLAN))?;
    let name = JobName::new(&plan.request.program, &plan.request.id);
    let mut draft = Draft::held(directory, name).map_err(work_error)?;
    let process = plan.request.mpirun;
    if has_descriptor_under_way(&draft.image()) {
        let again = draft.work().join(AGAIN);
        fs::write(&again, "").map_err(|error| MakeError::Work(again, error))?;
        return Err(MakeError::UnderWay);
    }
    let tree = Tree::of(process).map_err(|error| MakeError::Job(process, error))?;
    let survey = Survey::of(&tree).map_err(|error| MakeError::Job(process, error))?;
    let cost = Cost { pause_s: None, image_s: now_s() - plan.begun_s, sync_s: 0.0 };
    let manifest = Manifest {
        made: machine::here(&plan.criu),
        job: JobRecord { tasks: tree.tasks, ..plan.job },
        ranks: None,
        is_own: false,
        files: Vec::new(),
        written: survey.written,
        needed: survey.needed,
        nonblocking: survey.nonblocking,
        devices: plan.devices,
        cost,
    };
    if plan.request.ends {
        draft.publish(manifest, plan.request.keep, &mut pause_at)?;
        return Ok(());
    }
    write_json(&draft.work().join(FOUND), &manifest)
}

fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), MakeError> {
    let text = serde_json::to_vec(value).map_err(CommitError::Manifest)?;
    fs::write(path, text).map_err(|error| MakeError::Work(path.to_path_buf(), error))
}

fn read_json<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, MakeError> {
    let text = fs::read(path).map_err(|error| MakeError::Work(path.to_path_buf(), error))?;
    serde_json::from_slice(&text)
        .map_err(|error| MakeError::Work(path.to_path_buf(), io::Error::other(error)))
}

pub(crate) fn pause_at(step: Step) {
    let wanted = std::env::var(PAUSE_VARIABLE).unwrap_or_default();
    let Some((_, file)) = wanted.split_once(':').filter(|(name, _)| *name == step.name()) else {
        return;
    };
    if fs::write(file, std::process::id().to_string()).is_ok() {
        std::thread::sleep(PAUSE);
    }
}
