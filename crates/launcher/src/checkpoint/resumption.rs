//! Restarts with an image of each rank: `oxmpi restart` executes itself as `mpirun`, with the
//! command line, environment and directory of the job, and this mpirun restores the ranks as its
//! children ([`launch::resume`]). Agents restore those of other hosts.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use oxmpi_checkpoint::criu::{self, Criu};
use oxmpi_checkpoint::files::Policy;
use oxmpi_checkpoint::origins::NamespaceGroup;
use oxmpi_checkpoint::ranks;
use oxmpi_checkpoint::restart::{self, FittedFiles, RESUME_OPTION};
use oxmpi_checkpoint::set::Set;
use oxmpi_rt_client::client::RESTART_VARIABLE;
use oxmpi_rt_proto::held::{Held, Images};
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, mknodat};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use rustix::stdio::dup2_stderr;

use super::restart::RestartFailure;
use super::text_of;
use crate::hosts::pieces::ImageDirectory;
use crate::launch::{self, Launch, LaunchError, OutputFiles};

/// A pipe in the directory for logs, through which mpirun reports its changes of files.
const MESSAGE_PIPE: &str = "said";
/// The data for the new mpirun, in the same directory: words that end with zeros.
const PLAN: &str = "plan";

/// Whether this host has the set of these images.
pub(crate) fn sees(images: &Images) -> bool {
    Set::mark(&images.set).is_ok_and(|mark| mark == images.mark)
}

/// The hosts of the ranks after a restart: an option of mpirun, and its value.
#[derive(Clone, Copy, Debug)]
pub struct Hosts<'a> {
    /// The option.
    pub option: &'a str,
    /// The value of the option.
    pub value: &'a str,
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
) -> Result<(Pid, RestartMessages), String> {
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
    std::fs::write(&file, plan).map_err(|error| format!("{}: {error}", file.display()))?;
    let job = &set.manifest.job;
    let messages = RestartMessages::begin(work)
        .map_err(|error| format!("{}: {error}", work.join(MESSAGE_PIPE).display()))?;
    let args = args_of(&job.command)
        .ok_or_else(|| format!("'{}' is no command line of mpirun", job.command.join(" ")))?;
    let environment = ranks::environment(set).map_err(text_of)?;
    let mut command = std::process::Command::new(super::program()?);
    command.arg0("mpirun").arg(RESUME_OPTION).arg(work).args(args);
    // The job goes on in the allocation of this process, if there is one.
    let is_of_slurm =
        |(name, _): &(OsString, OsString)| name.as_encoded_bytes().starts_with(b"SLURM");
    let environment = environment.into_iter().filter_map(variable);
    command
        .env_clear()
        .envs(environment.filter(|variable| !is_of_slurm(variable)))
        .envs(std::env::vars_os().filter(is_of_slurm))
        .current_dir(&job.directory);
    let streams = ranks::streams(set);
    let [input, output, errors] =
        streams.map_err(|(path, error)| format!("{} cannot be opened: {error}", path.display()))?;
    input.into_iter().for_each(|file| _ = command.stdin(file));
    output.into_iter().for_each(|file| _ = command.stdout(file));
    errors.into_iter().for_each(|file| _ = command.stderr(file));
    let child = command.spawn();
    let child = child.map_err(|error| {
        format!("mpirun cannot be started in {}: {error}", job.directory.display())
    })?;
    Ok((Pid::from_child(&child), messages))
}

/// The words after `mpirun` in the command line of a job.
pub fn args_of(command: &[String]) -> Option<&[String]> {
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

fn held_of(set: &Set) -> Result<Held, String> {
    let state = ranks::state(set).map_err(text_of)?;
    Held::decode(&state).ok_or_else(|| {
        format!(
            "{}: the state of mpirun in the set was written by another version",
            set.path.display()
        )
    })
}

/// The marks in the environment of the processes of a set; none if its ranks have no own images.
pub(super) fn marks_of(set: &Set) -> Result<Vec<String>, RestartFailure> {
    match set.manifest.ranks {
        Some(_) if !set.manifest.is_own => {
            set.verify_of(true, |name| name == ranks::STATE)?;
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

/// The restart of a job in its new mpirun.
pub struct Resumption {
    set: Set,
    criu: Criu,
    /// The state of the old mpirun; `None` if the program restores its state itself.
    held: Option<Held>,
    work: PathBuf,
    hosts: Option<[String; 2]>,
    policy: Policy,
    /// The standard error may be a file of the job, which is brought to its length at the
    /// checkpoint. So messages go to the pipe of `oxmpi restart`.
    messages: Option<File>,
    fitted: Option<FittedFiles>,
    /// Whether all processes are restored.
    is_back: bool,
}

impl Resumption {
    /// Reads the data that `oxmpi restart`, the parent of this process, has left in a directory.
    /// From now on this process ends with its parent.
    pub fn read(work: &Path) -> Result<Resumption, String> {
        let parent = getppid();
        let of_kernel = |error: rustix::io::Errno| format!("cannot end with its parent: {error}");
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(of_kernel)?;
        let file = work.join(PLAN);
        let unreadable = |why: String| {
            format!(
                "{RESUME_OPTION} is for 'oxmpi restart', not for you: {}: {why}",
                file.display()
            )
        };
        let plan = std::fs::read(&file).map_err(|error| unreadable(error.to_string()))?;
        if getppid() != parent {
            return Err("its parent is gone".into());
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
        let set = Set::open(Path::new(&path)).map_err(text_of)?;
        let held = if set.manifest.is_own { None } else { Some(held_of(&set)?) };
        let criu = Criu {
            program: program.into(),
            version: version.to_string_lossy().into_owned(),
            options,
            is_root: criu::is_root(),
        };
        let policy = Policy::named(&files.to_string_lossy())
            .ok_or_else(|| unreadable("it makes no sense".into()))?;
        Ok(Resumption {
            set,
            criu,
            held,
            work: work.to_path_buf(),
            hosts,
            policy,
            messages: OpenOptions::new().write(true).open(work.join(MESSAGE_PIPE)).ok(),
            fitted: None,
            is_back: false,
        })
    }

    /// The option that names the hosts of the ranks, and its value, if they are others than before.
    pub fn hosts(&self) -> Option<&[String; 2]> {
        self.hosts.as_ref()
    }

    /// Restarts the job, and runs it to its end. Returns the exit status for `mpirun`.
    pub fn run(mut self, launch: &Launch) -> Result<i32, String> {
        let Some(held) = self.held.take() else {
            self.note_back(launch);
            let mut launch = launch.clone();
            launch.env.push((RESTART_VARIABLE.into(), "1".into()));
            return launch::run(&launch).map_err(text_of);
        };
        launch::resume(launch, &held, &mut self).map_err(|error| {
            if let Some(files) = self.fitted.take() {
                self.report(&lines(&files.undo(!self.is_back)));
            }
            // The reason of the failure must not be written to a file of the job.
            if let Some(pipe) = self.messages.take() {
                let _ = dup2_stderr(pipe);
            }
            error.to_string()
        })
    }

    /// The images, and the program that restores them on every host.
    pub(crate) fn images(&self) -> Result<Images, String> {
        Ok(Images {
            set: self.set.path.clone(),
            mark: Set::mark(&self.set.path).map_err(text_of)?,
            program: self.criu.program.clone(),
            options: self.criu.options.clone(),
            refuses_files: self.policy == Policy::Refuse,
        })
    }

    /// All marks that processes of the job may have ([`oxmpi_sys::spawn::GUARD_VARIABLE`]).
    pub(crate) fn marks(&self, held: &Held) -> Vec<String> {
        all_marks(&self.set, held)
    }

    /// Checks that no process of the job runs on this host, and brings files to their lengths: when
    /// agents have found no process of the job on other hosts, before any rank is restored.
    pub(crate) fn prepare(&mut self, marks: &[String]) -> Result<(), String> {
        ranks::check_ended(marks).map_err(text_of)?;
        let files = restart::fit_files(&self.set, self.policy).map_err(text_of)?;
        self.report(&fitted_lines(&files, ""));
        self.fitted = Some(files);
        Ok(())
    }

    /// The files of the set that another host needs to restore these ranks.
    pub(crate) fn files_of(&self, ranks: &[u32]) -> Vec<PathBuf> {
        self.set.files_of(ranks)
    }

    /// What this host needs to restore these ranks.
    pub(crate) fn here(&self, ranks: &[u32]) -> Result<HostRestart<'_>, String> {
        let (apart, text) = apart_of(&self.set, ranks)?;
        if !text.is_empty() {
            oxmpi_sys::complain!("{}", text.trim_end());
        }
        let (set, criu, work) = (&self.set, &self.criu, &*self.work);
        let place = format!("host '{}': ", oxmpi_sys::host::name());
        Ok(HostRestart { set, criu, work, apart, place })
    }

    /// Notes that all processes are restored on all hosts, before any of them runs. Until then only
    /// the pipe can report a failure.
    pub(crate) fn note_back(&mut self, launch: &Launch) {
        self.is_back = true;
        self.report(&lines(&places_of_output(&self.set, launch.output_files.as_ref())));
        self.messages = None;
        // A remaining directory is harmless.
        let _ = std::fs::remove_dir_all(&self.work);
    }

    /// Sends a message to `oxmpi restart` by the pipe, or without one to the standard error.
    fn report(&mut self, text: &str) {
        let pipe = self.messages.as_mut();
        let is_written =
            pipe.is_some_and(|pipe| io::Write::write_all(pipe, text.as_bytes()).is_ok());
        if !is_written && !text.is_empty() {
            oxmpi_sys::complain!("{}", text.trim_end());
        }
    }
}

/// What a host needs to restore ranks.
pub(crate) struct HostRestart<'a> {
    pub(crate) set: &'a Set,
    pub(crate) criu: &'a Criu,
    /// The directory for CRIU's logs.
    pub(crate) work: &'a Path,
    /// The ranks that need PID namespaces.
    pub(crate) apart: Vec<NamespaceGroup>,
    /// Begins the error of a rank that cannot be restored.
    pub(crate) place: String,
}

/// The restart of ranks on the host of an agent.
pub(crate) struct FarRestart {
    set: Set,
    criu: Criu,
    work: ImageDirectory,
    apart: Vec<NamespaceGroup>,
    files: FittedFiles,
    /// Lines for the user.
    pub(crate) text: String,
}

impl FarRestart {
    /// Checks the images of these ranks, and brings the files of the ranks to their lengths.
    pub(crate) fn begin(images: &Images, ranks: &[u32]) -> Result<FarRestart, String> {
        let set = Set::open(&images.set).map_err(text_of)?;
        ranks::check(&set, ranks).map_err(text_of)?;
        let (apart, of_apart) = apart_of(&set, ranks)?;
        let program = images.program.to_string_lossy();
        let criu = Criu::find(&program, &images.options.join(" ")).map_err(text_of)?;
        criu.check().map_err(text_of)?;
        let work = super::scratch()?;
        let policy = if images.refuses_files { Policy::Refuse } else { Policy::Cut };
        let files = ranks::fit_files(&set, ranks, policy).map_err(text_of)?;
        let host = rustix::system::uname();
        let mut text = fitted_lines(&files, &format!(" on {}", host.nodename().to_string_lossy()));
        text += &of_apart;
        Ok(FarRestart { set, criu, work, apart, files, text })
    }

    pub(crate) fn here(&self) -> HostRestart<'_> {
        let apart = self.apart.clone();
        let (set, criu, work) = (&self.set, &self.criu, self.work.path());
        HostRestart { set, criu, work, apart, place: String::new() }
    }

    /// Gives the files back that the failed restart has changed.
    pub(crate) fn undo(&self, error: &LaunchError) -> LaunchError {
        let left = self.files.undo(true);
        LaunchError::Restore([vec![error.to_string()], left].concat().join("; "))
    }
}

/// Which ranks of a set need PID namespaces on this host, and lines for the user about them.
fn apart_of(set: &Set, ranks: &[u32]) -> Result<(Vec<NamespaceGroup>, String), String> {
    let found = ranks::apart(set, ranks).map_err(text_of)?;
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let line = |apart: &NamespaceGroup| format!("oxmpi restart: {} on host {host}\n", apart.text());
    let text = found.iter().map(line).collect();
    Ok((found, text))
}

fn lines(texts: &[String]) -> String {
    texts.iter().map(|text| format!("oxmpi restart: {text}\n")).collect()
}

fn fitted_lines(files: &FittedFiles, place: &str) -> String {
    lines(&files.lines(place))
}

/// A line about the files that get the output of a restored job, which the terminal does not show:
/// `files` of its ranks, or those of its mpirun.
pub(super) fn places_of_output(set: &Set, files: Option<&OutputFiles>) -> Vec<String> {
    let job = &set.manifest.job;
    let files = match files {
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
