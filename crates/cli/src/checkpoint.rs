//! `oxmpi checkpoint` and `oxmpi restart` make an image of a whole job and restore it later; `oxmpi
//! info --checkpoint` describes a set.

mod advise;
mod describe;
mod lam;
mod restart;

use std::path::PathBuf;

use oxmpi_launcher::checkpoint::{BLCR, Maker, MakerError, OWN, base};
use oxmpi_launcher::inquiry;

use crate::command::{Settings, Stop, failed, pid, usage};

pub(crate) use self::describe::info;
pub(crate) use self::lam::{HELP as LAM_HELP, NAMES as LAM_NAMES, called};
pub(crate) use self::restart::{RestartArgs, restart};
pub(crate) use oxmpi_checkpoint::making::{ACTION_PROGRAM, at_action};

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
        let base = base(args.dir.as_deref(), &params).map_err(failed)?;
        return advise::advise(mean_time_s, base);
    }
    let pid = args.pid.unwrap_or_default();
    let facts = inquiry::job_of(pid).map_err(|error| failed(MakerError::Job(error)))?;
    let is_tree = args.tree
        || args.blcr && facts.cr.as_deref() != Some(BLCR)
        || args.as_chosen && facts.cr.is_none();
    if !is_tree {
        if args.is_self && facts.cr.as_deref() != Some(OWN) {
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
    let maker = Maker::of_job(&facts, &params, args.dir.as_deref(), is_tree).map_err(failed)?;
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
