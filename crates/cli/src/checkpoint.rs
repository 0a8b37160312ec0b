//! `oxmpi checkpoint` and `oxmpi restart` make an image of a whole job and restore it later; `oxmpi
//! info --checkpoint` describes a set.

mod advise;
mod describe;
mod lam;
mod ranks;
mod restart;
mod schema;
mod supervise;
mod terminal;

use std::path::{Path, PathBuf};

use oxmpi_checkpoint::commit;
use oxmpi_checkpoint::criu::Criu;
use oxmpi_checkpoint::making::{self, Checkpoint, CheckpointRequest, MakeError};
use oxmpi_checkpoint::manifest::Supervision;
use oxmpi_launcher::inquiry::{self, InquiryError};
use oxmpi_param::{Module, Param, Params};
use oxmpi_sys::process_stat::ProcessStat;

use crate::command::{Settings, Stop, failed, pid, program, usage};

pub(crate) use self::describe::info;
pub(crate) use self::lam::{HELP as LAM_HELP, NAMES as LAM_NAMES, called};
pub(crate) use self::ranks::{
    Resumption, apart_here, check_here, has_ended, image_here, restore_here, sees,
};
pub(crate) use self::restart::{RestartArgs, restart};
pub(crate) use self::supervise::{in_parent, plan};
pub(crate) use oxmpi_checkpoint::making::{ACTION_PROGRAM, at_action};
pub(crate) use oxmpi_checkpoint::restart::RESUME_OPTION;

/// The module that calls functions of the program.
const OWN: &str = "self";
const BLCR: &str = "blcr";
/// Write an image of a running job to disk, from which it can go on later
///
/// With --tree, one image holds all processes of the job, mpirun included. They must all be on this
/// host; the program needs no change. Without --tree, the module of the job decides ('mpirun --mca
/// cr NAME'). With blcr, each rank has an image if messages go over crtcp or gm; otherwise one
/// image holds all processes. With self, functions of the program save its state. All ranks must be
/// between MPI_Init and MPI_Finalize. CRIU makes the images.
///
/// The exit code is 0 when the set is on disk, and a line names its directory. Otherwise no set is
/// left, and the job goes on. 'oxmpi restart SET' brings the job back; 'oxmpi info --checkpoint
/// SET' describes it. LAM/MPI and BLCR call this command lamcheckpoint and cr_checkpoint.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct CheckpointArgs {
    /// The process number of the job's mpirun
    #[arg(value_parser = pid, required_unless_present = "advise")]
    pid: Option<u32>,
    /// Make one image of all processes
    #[arg(long)]
    tree: bool,
    /// End the job when the image is safe on disk, and not before
    #[arg(long)]
    kill: bool,
    /// Where the set goes (parameter cr_base_dir; by default the home directory)
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Say how often to checkpoint, from the costs of the last sets
    ///
    /// SECONDS is the mean time between failures of the machine: a day if it is left out.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, conflicts_with_all = ["pid", "tree", "kill"])]
    #[arg(value_parser = advise::mean_time)]
    advise: Option<Option<f64>>,
    #[command(flatten)]
    settings: Settings,
    /// Set by `lamcheckpoint -ssi cr self`.
    #[arg(long = "self", hide = true)]
    is_self: bool,
    /// Set by `lamcheckpoint -ssi cr blcr` and `cr_checkpoint`: an image of each rank if the job
    /// uses blcr, otherwise one of all processes.
    #[arg(long, hide = true)]
    blcr: bool,
    /// Set by `lamcheckpoint` without a module: the module of the job decides, or one image holds
    /// all processes if the job has none.
    #[arg(long, hide = true)]
    as_chosen: bool,
}

pub(crate) fn checkpoint(args: &CheckpointArgs) -> Result<i32, Stop> {
    let params = args.settings.parameters()?;
    if let Some(mean_time_s) = args.advise {
        return advise::advise(mean_time_s, base(args.dir.as_deref(), &params)?);
    }
    let pid = args.pid.unwrap_or_default();
    let facts = inquiry::job_of(pid).map_err(|error| failed(MakerError::Job(error)))?;
    let is_tree = args.tree
        || args.blcr && facts.cr.as_deref() != Some(BLCR)
        || args.as_chosen && facts.cr.is_none();
    let mut is_own = false;
    if !is_tree {
        is_own = facts.cr.as_deref() == Some(OWN);
        if args.is_self && !is_own {
            return Err(usage(
                "the job was started without 'cr self', which calls functions of the program",
            ));
        }
        if facts.cr.is_none() {
            return Err(usage(format!(
                "the job was started without a module for checkpoints ('mpirun --mca cr blcr'); 'oxmpi checkpoint --tree {pid}' makes \
                 an image of all its processes all the same"
            )));
        }
    }
    let params = &with_those_of_job(&params, &facts)?;
    let maker = Maker {
        is_tree,
        criu: (!is_own).then(|| able_criu(params)).transpose()?,
        program: program()?,
        base: base(args.dir.as_deref(), params)?,
        keep: keep(params),
        supervision: None,
    };
    let made = maker.make(pid, args.kill).map_err(failed)?;
    let manifest = &made.set.manifest;
    let stood = match manifest.cost.pause_s {
        Some(_) if manifest.is_own => {
            format!("the program has saved its state in {:.3} s and goes on", manifest.cost.image_s)
        }
        Some(pause) => format!("the job stood still for {pause:.3} s and goes on"),
        None => "the job has ended".to_string(),
    };
    crate::say(&format!(
        "{}\n  {} of {} ranks in {:.3} s; {stood}\n  'oxmpi restart {}' brings it back\n",
        made.set.path.display(),
        amount(manifest.bytes()),
        manifest.job.ranks,
        made.seconds,
        made.set.path.display()
    ));
    for left in &made.left {
        oxmpi_sys::complain!("oxmpi checkpoint: an old set cannot be removed: {left}");
    }
    Ok(0)
}

fn with_those_of_job(
    params: &Params,
    facts: &oxmpi_rt_proto::tool::JobFacts,
) -> Result<Params, Stop> {
    let mut params = params.clone();
    for (name, value) in &facts.params {
        if Param::find(name).is_some_and(|param| params.is_default(param)) {
            let error = |error| failed(format!("mpirun (process {}): {error}", facts.mpirun));
            params.set(name, value).map_err(error)?;
        }
    }
    Ok(params)
}

#[derive(Clone, Debug)]
struct Maker {
    /// Whether to make one image of all processes even if images of each rank are possible.
    is_tree: bool,
    /// `None`: the program saves its state itself.
    criu: Option<Criu>,
    program: PathBuf,
    base: PathBuf,
    keep: usize,
    /// The supervision for the manifest, if it differs from mpirun's own report.
    supervision: Option<Supervision>,
}

#[derive(Debug, thiserror::Error)]
enum MakerError {
    #[error("the job cannot be checkpointed: {0}")]
    Job(#[from] InquiryError),
    #[error("the job cannot be checkpointed: {0}")]
    Transport(String),
    /// The set exists, but a later step has failed.
    #[error("{0}")]
    GoesOn(MakeError),
    /// The attempt failed, and the job may have been damaged.
    #[error("there is no new set: {0}")]
    Killed(MakeError),
    #[error("there is no new set, and the job goes on: {0}")]
    Make(MakeError),
    #[error("there is no new set: the job has ended meanwhile ({0})")]
    Ended(MakeError),
}

impl From<MakeError> for MakerError {
    fn from(error: MakeError) -> MakerError {
        match error {
            MakeError::GoesOn { .. } | MakeError::NotEnded { .. } | MakeError::Continued { .. } => {
                MakerError::GoesOn(error)
            }
            MakeError::Killed { .. } => MakerError::Killed(error),
            _ => MakerError::Make(error),
        }
    }
}

impl MakerError {
    fn reason(&self) -> String {
        match self {
            MakerError::Job(error) => error.to_string(),
            MakerError::Transport(why) => why.clone(),
            MakerError::GoesOn(error)
            | MakerError::Killed(error)
            | MakerError::Make(error)
            | MakerError::Ended(error) => error.to_string(),
        }
    }
}

impl Maker {
    /// With `ends`, a successful checkpoint ends the job.
    fn make(&self, mpirun: u32, ends: bool) -> Result<Checkpoint, MakerError> {
        let has_ended = || ProcessStat::of(mpirun).is_none_or(|stat| stat.has_ended());
        match self.try_make(mpirun, ends) {
            // CRIU reports a rank that ends during the checkpoint as a fault of CRIU.
            Err(MakerError::Make(error)) if has_ended() => Err(MakerError::Ended(error)),
            made => made,
        }
    }

    fn try_make(&self, mpirun: u32, ends: bool) -> Result<Checkpoint, MakerError> {
        let facts = inquiry::job_of(mpirun)?;
        let of_job = facts.supervision.map(|supervision| Supervision {
            every_ms: supervision.every.map(|time| time.as_millis() as u64),
            on_term: supervision.on_term,
            keep: self.keep,
        });
        let request = CheckpointRequest {
            base: self.base.clone(),
            keep: self.keep,
            ends,
            id: format!("{:016x}", facts.id),
            mpirun: facts.mpirun,
            program: facts.program.display().to_string(),
            ranks: facts.ranks,
            transport: facts.transport,
            supervision: self.supervision.or(of_job),
        };
        let checkpoints =
            Module::named(&request.transport).is_some_and(|module| module.checkpoints);
        if !self.is_tree && facts.cr.as_deref() == Some(OWN) {
            return ranks::save(&request, facts.supervision.is_some());
        }
        let by_rank = !self.is_tree && facts.cr.is_some() && checkpoints;
        if !by_rank {
            check_transport(&request.transport).map_err(MakerError::Transport)?;
        }
        if !by_rank && !facts.is_here {
            return Err(MakerError::Transport(format!(
                "it is on {} hosts, and an image of all processes needs them on the host of mpirun; for an image of each rank start the \
                 job with '--mca cr blcr --mca rpi crtcp'",
                facts.hosts
            )));
        }
        let without = || MakerError::Transport("its images need CRIU".into());
        let criu = self.criu.as_ref().ok_or_else(without)?;
        match by_rank {
            true => ranks::make(&request, criu, facts.supervision.is_some()),
            false => Ok(making::make(&request, criu, &self.program)?),
        }
    }
}

/// Refuses transports whose connections no image can restore. The error is for the user.
pub(crate) fn check_transport(name: &str) -> Result<(), String> {
    match Module::named(name) {
        Some(module) if !module.images => Err(format!(
            "its messages go over '{name}', whose connections no image brings back: start it over another transport ('--mca rpi shm')"
        )),
        _ => Ok(()),
    }
}

fn base(named: Option<&Path>, params: &Params) -> Result<PathBuf, Stop> {
    let named = named.unwrap_or_else(|| params.cr_base_dir().as_ref());
    let home = || std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let directory = if named.as_os_str().is_empty() { home() } else { Some(named.to_path_buf()) };
    directory.ok_or_else(|| {
        failed("HOME is not set: name a directory for the set with '--dir DIR' or the parameter cr_base_dir")
    })
}

fn usable_base(params: &Params) -> Result<PathBuf, Stop> {
    commit::usable(&base(None, params)?).map_err(failed)
}

fn keep(params: &Params) -> usize {
    usize::try_from(params.cr_keep()).unwrap_or(usize::MAX)
}

fn amount(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64 / 1024.0;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

/// Checks at the start of a job that images can be made here.
pub(crate) fn check(params: &Params) -> Result<(), Stop> {
    criu_of_job(params)?;
    usable_base(params).map(drop)
}

/// `None`: the program saves its state itself, by functions that the parameters name.
fn criu_of_job(params: &Params) -> Result<Option<Criu>, Stop> {
    if params.cr() != Some(OWN) {
        return able_criu(params).map(Some);
    }
    params.cr_self_functions().map(|_| None).map_err(failed)
}

/// CRIU, after a check that it works here.
fn able_criu(params: &Params) -> Result<Criu, Stop> {
    let criu = criu(params)?;
    criu.check().map_err(failed)?;
    Ok(criu)
}

fn criu(params: &Params) -> Result<Criu, Stop> {
    Criu::find(params.cr_blcr_criu(), params.cr_blcr_options()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_for_people() {
        assert_eq!(amount(512), "0.5 KiB");
        assert_eq!(amount(3 << 20), "3.0 MiB");
        assert_eq!(amount(5 << 40), "5.0 TiB");
    }
}
