//! Checkpoints with an image of each rank, and restarts from them.
//!
//! A checkpoint: the launcher holds all ranks ([`oxmpi_launcher::inquiry::hold`]) while CRIU makes
//! an image of each, and reports its own state. A restart: this program executes itself as
//! `mpirun`, with the command line, environment and directory of the job, and restores the ranks as
//! its children ([`oxmpi_launcher::launch::resume`]).

use std::cell::{Cell, RefCell};
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Instant;

use oxmpi_checkpoint::criu::{self, Criu};
use oxmpi_checkpoint::files::Policy;
use oxmpi_checkpoint::making::{Checkpoint, CheckpointRequest, MakeError};
use oxmpi_checkpoint::origins::NamespaceGroup;
use oxmpi_checkpoint::ranks::{self, Given, HostImages, Making, StillJob, StillRank};
use oxmpi_checkpoint::restart::{self, FittedFiles, RESUME_OPTION};
use oxmpi_checkpoint::set::{Set, SetError};
use oxmpi_launcher::hosts::agent::{ImageDirectory, ImageTask, ImagesMade};
use oxmpi_launcher::inquiry;
use oxmpi_launcher::launch::{
    self, ApartRanks, Held, Images, Launch, Layout, RestartSource, Restored,
};
use oxmpi_param::Params;
use oxmpi_rt_client::client::RESTART_VARIABLE;
use oxmpi_rt_proto::tool::FarImages;
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, mknodat};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use rustix::stdio::dup2_stderr;

use super::MakerError;
use super::schema::schema;
use crate::command::{Stop, failed};

/// A pipe in that directory, through which mpirun reports its changes of files.
const MESSAGE_PIPE: &str = "said";
/// The data for the new mpirun, in the directory for logs: words that end with zeros.
const PLAN: &str = "plan";

/// Makes a checkpoint of a job; `is_supervised` says whether its launcher has a supervisor.
pub(super) fn make(
    request: &CheckpointRequest,
    criu: &Criu,
    is_supervised: bool,
) -> Result<Checkpoint, MakerError> {
    let making = Making::begin(request)?;
    let start = Instant::now();
    let hold = inquiry::hold(request.mpirun)?;
    let ranks = hold.held().ranks.iter().map(|rank| StillRank {
        number: rank.number,
        process: rank.imaged,
        outside: rank.outside.iter().flatten().cloned().collect(),
        is_far: rank.host.is_some(),
    });
    let own = oxmpi_sys::host::name();
    let hosts: Vec<&str> =
        hold.held().ranks.iter().map(|rank| rank.host.as_deref().unwrap_or(&own)).collect();
    let still = StillJob {
        ranks: ranks.collect(),
        listeners: hold.held().listeners.clone(),
        state: hold.bytes().to_vec(),
        is_supervised,
        schema: schema(&hold.held().programs, &hosts),
    };
    let elsewhere = |directory: &Path, word: &str| {
        let made = hold
            .image_far(format!("{word} {}", directory.display()))
            .map_err(|error| error.to_string())?;
        let part = |FarImages { host, facts }| {
            let part: HostImages =
                serde_json::from_slice(&facts).map_err(|error| format!("host {host}: {error}"))?;
            Ok((host, part))
        };
        made.into_iter().map(part).collect::<Result<Vec<_>, String>>()
    };
    let made = making.image(criu, &still, &elsewhere, &|| hold.goes_on())?;
    let moved =
        |error: inquiry::InquiryError| MakerError::Make(MakeError::Standing(error.to_string()));
    hold.imaged(request.ends).map_err(moved)?;
    if !request.ends {
        let checkpoint = made.publish(Some(start.elapsed().as_secs_f64()))?;
        return match stopped_before(hold.held()) {
            None => Ok(checkpoint),
            Some(why) => Err(MakeError::Continued { path: checkpoint.set.path, why }.into()),
        };
    }
    let running = made.running().to_vec();
    let checkpoint = made.publish(None)?;
    let path = checkpoint.set.path.clone();
    hold.end(&path).map_err(|error| MakeError::NotEnded { path, why: error.to_string() })?;
    ranks::await_gone(&running);
    Ok(checkpoint)
}

/// The ranks that were stopped before mpirun stopped them, and stay so after a restart.
fn stopped_before(held: &Held) -> Option<String> {
    let stopped = held.ranks.iter().filter(|rank| rank.was_stopped());
    let named = |rank: &launch::HeldRank| match &rank.host {
        Some(host) => format!("rank {} (process {}, host {host})", rank.number, rank.imaged),
        None => format!("rank {} (process {})", rank.number, rank.imaged),
    };
    let all: Vec<String> = stopped.map(named).collect();
    let were = if all.len() == 1 { "was" } else { "were" };
    (!all.is_empty()).then(|| {
        format!(
            "{} {were} stopped already (SIGSTOP), and not by mpirun: 'kill -CONT' lets a process go on",
            all.join(", ")
        )
    })
}

pub(super) fn save(
    request: &CheckpointRequest,
    is_supervised: bool,
) -> Result<Checkpoint, MakerError> {
    let (checkpoint, saved) = ranks::save(request, is_supervised, || {
        let saved = inquiry::save(request.mpirun).map_err(not_saved)?;
        let Layout { programs, hosts } = saved.layout();
        let schema = schema(programs, &hosts.iter().map(String::as_str).collect::<Vec<_>>());
        Ok::<_, MakerError>((saved, schema))
    })?;
    let path = checkpoint.set.path.clone();
    if request.ends {
        saved.end(&path).map_err(|error| MakeError::NotEnded { path, why: error.to_string() })?;
    } else {
        saved.go_on().map_err(|error| MakeError::Continued { path, why: error.to_string() })?;
    }
    Ok(checkpoint)
}

fn not_saved(error: inquiry::InquiryError) -> MakerError {
    MakerError::Make(MakeError::Standing(error.to_string()))
}

pub(crate) fn image_here(task: &ImageTask) -> Result<ImagesMade, String> {
    let (word, directory) =
        task.place.split_once(' ').ok_or("mpirun does not say where images belong")?;
    let criu = Criu::find(task.params.cr_blcr_criu(), task.params.cr_blcr_options());
    let criu = criu.map_err(|error| error.to_string())?;
    let ranks = task.ranks.iter().map(|rank| StillRank {
        number: rank.number,
        process: rank.imaged,
        outside: rank.outside.iter().flatten().cloned().collect(),
        is_far: false,
    });
    let (ranks, directory) = (ranks.collect::<Vec<_>>(), Path::new(directory));
    // Without a common directory the images are made here, and sent to the host of mpirun.
    let scratch = (!ranks::is_seen(directory, word)).then(|| {
        let beside = directory.parent().unwrap_or(directory);
        ImageDirectory::make_in(&[beside, &std::env::temp_dir()])
    });
    let scratch = scratch
        .transpose()
        .map_err(|error| format!("there is no directory for images: {error}"))?;
    let place = scratch.as_ref().map_or(directory, ImageDirectory::path);
    let goes_on = || match task.is_given_up.load(Ordering::Relaxed) {
        true => Err("mpirun does not want the images any longer".into()),
        false => Ok(()),
    };
    let part =
        ranks::image_part(place, &criu, &ranks, &goes_on).map_err(|error| error.to_string())?;
    if let Some(scratch) = &scratch {
        // The logs are not part of the images.
        std::fs::remove_dir_all(scratch.path().join("work")).map_err(|error| error.to_string())?;
    }
    let facts = serde_json::to_vec(&part).map_err(|error| error.to_string())?;
    Ok(ImagesMade { facts, files: scratch })
}

pub(crate) fn sees(images: &Images) -> bool {
    Set::mark(&images.set).is_ok_and(|mark| mark == images.mark)
}

/// Why no images can be made on this host for a job with these parameters.
pub(crate) fn check_here(params: &Params) -> Result<(), String> {
    if params.cr() != Some("blcr") {
        return Ok(());
    }
    let criu = Criu::find(params.cr_blcr_criu(), params.cr_blcr_options());
    criu.and_then(|criu| criu.check()).map_err(|error| error.to_string())
}

/// The hosts of the ranks after a restart: an option of mpirun, and its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hosts<'a> {
    pub(super) option: &'a str,
    pub(super) value: &'a str,
}

/// Stands for no option: the job keeps its hosts.
const NO_HOSTS: &str = "-";

/// Starts the mpirun that restores the job of a set, on these hosts if given; returns its process
/// number, and the pipe of its messages.
pub(super) fn start(
    set: &Set,
    criu: Option<&Criu>,
    work: &Path,
    (hosts, policy): (Option<Hosts<'_>>, Policy),
) -> Result<(Pid, RestartMessages), Stop> {
    let (option, value) = hosts.map_or((NO_HOSTS, ""), |Hosts { option, value }| (option, value));
    let words: [&OsStr; 6] = [
        set.path.as_os_str(),
        criu.map_or("".as_ref(), |criu| criu.program.as_os_str()),
        criu.map_or("".as_ref(), |criu| criu.version.as_ref()),
        option.as_ref(),
        value.as_ref(),
        policy.name().as_ref(),
    ];
    let options = criu.iter().flat_map(|criu| &criu.options).map(|option| option.as_ref());
    let mut plan = Vec::new();
    for word in words.into_iter().chain(options) {
        plan.extend(word.as_encoded_bytes());
        plan.push(0);
    }
    let file = work.join(PLAN);
    std::fs::write(&file, plan).map_err(|error| failed(format!("{}: {error}", file.display())))?;
    let job = &set.manifest.job;
    let messages = RestartMessages::begin(work)
        .map_err(|error| failed(format!("{}: {error}", work.join(MESSAGE_PIPE).display())))?;
    let args = args_of(&job.command).ok_or_else(|| {
        failed(format!("'{}' is no command line of mpirun", job.command.join(" ")))
    })?;
    let environment = ranks::environment(set).map_err(failed)?;
    let mut command = std::process::Command::new(super::program()?);
    command.arg0("mpirun").arg(RESUME_OPTION).arg(work).args(args);
    command
        .env_clear()
        .envs(environment.into_iter().filter_map(variable))
        .current_dir(&job.directory);
    let streams = ranks::streams(set);
    let [input, output, errors] = streams
        .map_err(|(path, error)| failed(format!("{} cannot be opened: {error}", path.display())))?;
    input.into_iter().for_each(|file| _ = command.stdin(file));
    output.into_iter().for_each(|file| _ = command.stdout(file));
    errors.into_iter().for_each(|file| _ = command.stderr(file));
    let child = command.spawn();
    let child = child.map_err(|error| {
        failed(format!("mpirun cannot be started in {}: {error}", job.directory.display()))
    })?;
    Ok((Pid::from_child(&child), messages))
}

/// The words after `mpirun` in a command line.
fn args_of(command: &[String]) -> Option<&[String]> {
    let is_mpirun = |word: &String| {
        Path::new(word).file_name().is_some_and(|name| name == "mpirun" || name == "mpiexec")
    };
    let at = command.iter().take(2).position(is_mpirun)?;
    Some(&command[at + 1..])
}

fn variable(word: Vec<u8>) -> Option<(OsString, OsString)> {
    let at = word.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
    let (name, value) = (word[..at].to_vec(), word[at + 1..].to_vec());
    Some((OsString::from_vec(name), OsString::from_vec(value)))
}

fn held_of(set: &Set) -> Result<Held, Stop> {
    let state = ranks::state(set).map_err(failed)?;
    Held::decode(&state).ok_or_else(|| {
        failed(format!(
            "{}: the state of mpirun in the set was written by another version",
            set.path.display()
        ))
    })
}

/// The marks in the environment of the processes of a set; none if its ranks have no own images.
/// `unusable` is called if the set is damaged.
pub(super) fn marks_of(
    set: &Set,
    unusable: impl Fn(SetError) -> Stop,
) -> Result<Vec<String>, Stop> {
    match set.manifest.ranks {
        Some(_) if !set.manifest.is_own => {
            set.verify_of(true, |name| name == ranks::STATE).map_err(unusable)?;
            Ok(all_marks(set, &held_of(set)?))
        }
        _ => Ok(Vec::new()),
    }
}

fn all_marks(set: &Set, held: &Held) -> Vec<String> {
    let mut marks = ranks::marks(set);
    marks.push(held.mark().into());
    marks
}

pub(crate) struct Resumption {
    set: Set,
    criu: Criu,
    /// The state of its mpirun; `None` if the program restores its state itself.
    held: Option<Held>,
    work: PathBuf,
    hosts: Option<[String; 2]>,
    policy: Policy,
}

impl Resumption {
    /// Reads the data that `oxmpi restart`, the parent of this process, has left in a directory.
    /// From now on this process ends with its parent.
    pub(crate) fn read(work: &Path) -> Result<Resumption, Stop> {
        let parent = getppid();
        let of_kernel =
            |error: rustix::io::Errno| failed(format!("cannot end with its parent: {error}"));
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(of_kernel)?;
        let file = work.join(PLAN);
        let unreadable = |why: String| {
            failed(format!(
                "{RESUME_OPTION} is for 'oxmpi restart', not for you: {}: {why}",
                file.display()
            ))
        };
        let plan = std::fs::read(&file).map_err(|error| unreadable(error.to_string()))?;
        if getppid() != parent {
            return Err(failed("its parent is gone"));
        }
        let mut words = plan.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
        let mut next = || words.next();
        let (Some(path), Some(program), Some(version), Some(option), Some(value), Some(files)) =
            (next(), next(), next(), next(), next(), next())
        else {
            return Err(unreadable("it makes no sense".into()));
        };
        let text = |word: OsString| word.to_string_lossy().into_owned();
        let hosts = (option != NO_HOSTS).then(|| [text(option), text(value)]);
        let options: Vec<String> = words
            .filter_map(|word| word.into_string().ok())
            .filter(|word| !word.is_empty())
            .collect();
        let set = Set::open(Path::new(&path)).map_err(failed)?;
        let held = if set.manifest.is_own { None } else { Some(held_of(&set)?) };
        let criu = Criu {
            program: program.into(),
            version: version.to_string_lossy().into_owned(),
            options,
            is_root: criu::is_root(),
        };
        let policy = Policy::named(&files.to_string_lossy())
            .ok_or_else(|| unreadable("it makes no sense".into()))?;
        Ok(Resumption { set, criu, held, work: work.to_path_buf(), hosts, policy })
    }

    pub(crate) fn hosts(&self) -> Option<&[String; 2]> {
        self.hosts.as_ref()
    }

    pub(crate) fn run(self, launch: &Launch) -> Result<i32, Stop> {
        let Resumption { set, criu, held, work, hosts: _, policy } = self;
        let Some(held) = held else {
            let messages = OpenOptions::new().write(true).open(work.join(MESSAGE_PIPE));
            report(messages.ok().as_mut(), &lines(&places_of_output(&set)));
            // A remaining directory is harmless.
            let _ = std::fs::remove_dir_all(&work);
            let mut launch = launch.clone();
            launch.env.push((RESTART_VARIABLE.into(), "1".into()));
            return launch::run(&launch).map_err(failed);
        };
        let images = Images {
            set: set.path.clone(),
            mark: Set::mark(&set.path).map_err(failed)?,
            program: criu.program.clone(),
            options: criu.options.clone(),
            refuses_files: policy == Policy::Refuse,
        };
        let marks = all_marks(&set, &held);
        // The standard error may be a file of the job, which is brought to its length at the
        // checkpoint. So messages go to the pipe.
        let messages = OpenOptions::new().write(true).open(work.join(MESSAGE_PIPE));
        let messages = RefCell::new(messages.ok());
        let (fitted, is_back) = (RefCell::new(None), Cell::new(false));
        let clear = || {
            has_ended(&marks)?;
            let files = restart::fit_files(&set, policy).map_err(|error| error.to_string())?;
            report(messages.borrow_mut().as_mut(), &fitted_lines(&files, ""));
            fitted.replace(Some(files));
            Ok(())
        };
        let apart = |ranks: &[u32]| {
            let (apart, text) = apart_of(&set, ranks)?;
            if !text.is_empty() {
                oxmpi_sys::complain!("{}", text.trim_end());
            }
            Ok(apart)
        };
        let restore = |_: &Images, all: &[Restored<'_>]| {
            let host = oxmpi_sys::host::name();
            restore_into(&set, &criu, &work, all).map_err(|error| format!("host '{host}': {error}"))
        };
        // Until all hosts have restored their ranks, only the pipe can report a failure.
        let back = || {
            is_back.set(true);
            report(messages.borrow_mut().as_mut(), &lines(&places_of_output(&set)));
            messages.replace(None);
            let _ = std::fs::remove_dir_all(&work);
        };
        let files_of = |ranks: &[u32]| set.files_of(ranks);
        let source = RestartSource {
            images,
            marks: marks.clone(),
            clear: &clear,
            apart: &apart,
            restore: &restore,
            files_of: &files_of,
            back: &back,
        };
        launch::resume(launch, &held, &source).map_err(|error| {
            if let Some(files) = fitted.take() {
                let left = files.undo(!is_back.get());
                report(messages.borrow_mut().as_mut(), &lines(&left));
            }
            // The reason of the failure must not be written to a file of the job.
            if let Some(pipe) = messages.take() {
                let _ = dup2_stderr(pipe);
            }
            failed(error)
        })
    }
}

fn restore_into(set: &Set, criu: &Criu, work: &Path, all: &[Restored<'_>]) -> Result<(), String> {
    let given = all.iter().map(|rank| {
        let inherited = |(fd, name): &(BorrowedFd<'_>, String)| {
            fcntl_setfd(fd, FdFlags::empty())?;
            Ok((fd.as_raw_fd(), name.clone()))
        };
        let descriptors =
            rank.given.iter().map(inherited).collect::<rustix::io::Result<Vec<_>>>()?;
        Ok(Given { rank: rank.number, namespace: rank.namespace, descriptors })
    });
    let given = given.collect::<rustix::io::Result<Vec<_>>>().map_err(|error| error.to_string())?;
    ranks::bring_back(set, criu, work, &given).map_err(|error| error.to_string())
}

/// Which ranks of a set need PID namespaces on this host, and lines for the user about them.
fn apart_of(set: &Set, ranks: &[u32]) -> Result<(Vec<ApartRanks>, String), String> {
    let found = ranks::apart(set, ranks).map_err(|error| error.to_string())?;
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let line = |apart: &NamespaceGroup| format!("oxmpi restart: {} on host {host}\n", apart.text());
    let text = found.iter().map(line).collect();
    let apart = found.into_iter().map(|apart| {
        let reason = apart.reason();
        ApartRanks { ranks: apart.ranks, highest: apart.highest, needed: apart.needed, reason }
    });
    Ok((apart.collect(), text))
}

/// Which ranks need PID namespaces on an agent's host, and lines for the user.
pub(crate) fn apart_here(
    images: &Images,
    ranks: &[u32],
) -> Result<(Vec<ApartRanks>, String), String> {
    let set = Set::open(&images.set).map_err(|error| error.to_string())?;
    ranks::check(&set, ranks).map_err(|error| error.to_string())?;
    apart_of(&set, ranks)
}

/// Why a job whose processes have one of these marks has not ended on this host.
pub(crate) fn has_ended(marks: &[String]) -> Result<(), String> {
    ranks::check_ended(marks).map_err(|error| error.to_string())
}

fn lines(texts: &[String]) -> String {
    texts.iter().map(|text| format!("oxmpi restart: {text}\n")).collect()
}

fn fitted_lines(files: &FittedFiles, place: &str) -> String {
    lines(&files.lines(place))
}

/// A line about the files that get the output of a restored job, which the terminal does not show.
pub(super) fn places_of_output(set: &Set) -> Vec<String> {
    let job = &set.manifest.job;
    let options =
        args_of(&job.command).map(|args| args.iter().map(OsString::from).collect::<Vec<_>>());
    let files = match options.and_then(|options| crate::mpirun::output_files(&options)) {
        Some(files) if !files.print => {
            files.places().map(|file| file.map(|file| job.directory.join(file)))
        }
        _ => job.output_files.clone(),
    };
    let line = match files {
        [Some(output), Some(errors)] if output != errors => {
            format!("output goes on in {}, errors in {}", output.display(), errors.display())
        }
        [Some(output), _] => format!("output goes on in {}", output.display()),
        [None, Some(errors)] => format!("errors go on in {}", errors.display()),
        [None, None] => return Vec::new(),
    };
    vec![line]
}

/// Sends a message to `oxmpi restart` by the pipe, or without one to the standard error.
fn report(pipe: Option<&mut File>, text: &str) {
    let is_written = pipe.is_some_and(|pipe| io::Write::write_all(pipe, text.as_bytes()).is_ok());
    if !is_written && !text.is_empty() {
        oxmpi_sys::complain!("{}", text.trim_end());
    }
}

/// The pipe in the directory for logs: a thread prints the lines that mpirun writes to it.
pub(super) struct RestartMessages {
    thread: JoinHandle<()>,
    /// Keeps the pipe open while mpirun does not have it open.
    own_end: File,
}

impl RestartMessages {
    fn begin(work: &Path) -> io::Result<RestartMessages> {
        let path = work.join(MESSAGE_PIPE);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        // Opened for reading before there is a writer, so that no writer waits for it.
        let options = |options: &mut OpenOptions| {
            options.custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(&path)
        };
        let pipe = options(OpenOptions::new().read(true))?;
        let own_end = options(OpenOptions::new().write(true))?;
        fcntl_setfl(&pipe, OFlags::empty())?;
        let print = move || {
            for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                oxmpi_sys::complain!("{}", String::from_utf8_lossy(&line));
            }
        };
        let thread = std::thread::Builder::new().spawn(print)?;
        Ok(RestartMessages { thread, own_end })
    }

    /// Waits until all lines of mpirun, which has ended, are printed.
    pub(super) fn finish(self) {
        drop(self.own_end);
        // If the thread has failed, only lines are missing.
        let _ = self.thread.join();
    }
}

/// Restores ranks on an agent's host; returns lines for the user.
pub(crate) fn restore_here(images: &Images, all: &[Restored<'_>]) -> Result<String, String> {
    let set = Set::open(&images.set).map_err(|error| error.to_string())?;
    let numbers: Vec<u32> = all.iter().map(|rank| rank.number).collect();
    let program = images.program.to_string_lossy();
    let criu =
        Criu::find(&program, &images.options.join(" ")).map_err(|error| error.to_string())?;
    criu.check().map_err(|error| error.to_string())?;
    let work = super::restart::scratch().map_err(|Stop(text, _)| text)?;
    let policy = if images.refuses_files { Policy::Refuse } else { Policy::Cut };
    let files = ranks::fit_files(&set, &numbers, policy).map_err(|error| error.to_string())?;
    let host = rustix::system::uname();
    let text = fitted_lines(&files, &format!(" on {}", host.nodename().to_string_lossy()));
    restore_into(&set, &criu, work.path(), all).map(|()| text).map_err(|error| {
        let left = files.undo(true);
        [vec![error], left].concat().join("; ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_of_a_job_is_found_behind_mpirun() {
        let words = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        for line in
            ["mpirun -n 4 heat", "/opt/bin/mpiexec -n 4 heat", "/opt/bin/oxmpi mpirun -n 4 heat"]
        {
            assert_eq!(args_of(&words(line)), Some(&words("-n 4 heat")[..]), "{line}");
        }
        assert_eq!(args_of(&words("oxmpi restart mpirun")), None);
    }

    #[test]
    fn variables_may_have_anything_in_them() {
        let text = |word: &[u8]| {
            variable(word.to_vec()).map(|(name, value)| (name.into_vec(), value.into_vec()))
        };
        assert_eq!(text(b"A=b=c"), Some((b"A".to_vec(), b"b=c".to_vec())));
        assert_eq!(text(b"A=\xff"), Some((b"A".to_vec(), b"\xff".to_vec())));
        assert_eq!((text(b"=x"), text(b"x")), (None, None));
    }
}
