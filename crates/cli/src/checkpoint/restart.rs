//! `oxmpi restart`: restores a job, and waits for its end as its mpirun did.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oxmpi_checkpoint::set::{Set, SetError};
use oxmpi_launcher::checkpoint::quoted;
use oxmpi_launcher::checkpoint::restart::{RestartFailure, RestartRequest, in_child, needs_child};
use oxmpi_launcher::checkpoint::resumption::{Hosts, args_of};

use crate::command::{Settings, Stop, failed, usage};
use crate::mpirun::{INTERVAL_WANTED, interval, output_files};

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
    if needs_child(&set) {
        return in_child(words).map_err(failed);
    }
    let noted = set.passed_over.iter();
    noted.for_each(|line| oxmpi_sys::complain!("oxmpi restart: {line}"));
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
    if let (Some(Hosts { option, value }), None) = (hosts, &set.manifest.ranks) {
        return Err(usage(format!(
            "{option} {value}: the set has one image of all processes together, which goes on on one host; images of each rank, which \
             go on anywhere, are made of jobs that are started with '--mca cr blcr'"
        )));
    }
    let words_of_job = args_of(&set.manifest.job.command).unwrap_or_default().iter();
    let output_files = output_files(&words_of_job.map(OsString::from).collect::<Vec<_>>());
    let every = args.every.map(|CheckpointInterval(every)| every);
    let request = RestartRequest { set: &set, params: &params, hosts, every, output_files };
    request.run().map_err(|error| match error {
        RestartFailure::Set(error) => unusable(error),
        RestartFailure::Other(text) => failed(text),
    })
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
