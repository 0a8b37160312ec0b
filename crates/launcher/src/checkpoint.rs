//! Checkpoints of jobs and restarts from them, on top of the sets and images of
//! `oxmpi-checkpoint`. Errors that are texts are for the user.
//!
//! | module | contents |
//! |---|---|
//! | `ranks` | a checkpoint with an image of each rank, made on its host while the rank is held |
//! | `schema` | the app schema of a set |
//! | [`supervise`] | the parent of an mpirun, which makes checkpoints without a request |
//! | [`restart`] | `oxmpi restart`: restores a job, and waits for its end |
//! | [`resumption`] | the mpirun that `oxmpi restart` starts to restore each rank, and its agents |
//! | `terminal` | the terminal of a restored job |

pub(crate) mod ranks;
pub mod restart;
pub mod resumption;
mod schema;
pub mod supervise;
mod terminal;

use std::fmt::Display;
use std::path::{Path, PathBuf};

use oxmpi_checkpoint::commit;
use oxmpi_checkpoint::criu::Criu;
use oxmpi_checkpoint::making::{self, Checkpoint, CheckpointRequest, MakeError};
use oxmpi_checkpoint::manifest::Supervision;
use oxmpi_param::{Module, Param, Params};
use oxmpi_rt_proto::tool::JobFacts;
use oxmpi_sys::process_stat::ProcessStat;

pub use self::schema::quoted;
use crate::hosts::pieces::ImageDirectory;
use crate::inquiry::{self, InquiryError};

/// The module that calls functions of the program.
pub const OWN: &str = "self";
/// The module that has CRIU make an image of each rank.
pub const BLCR: &str = "blcr";

/// The parameters, completed by the checkpoint parameters with which the job was started.
fn with_those_of_job(params: &Params, facts: &JobFacts) -> Result<Params, String> {
    let mut params = params.clone();
    for (name, value) in &facts.params {
        if Param::find(name).is_some_and(|param| params.is_default(param)) {
            let error = |error| format!("mpirun (process {}): {error}", facts.mpirun);
            params.set(name, value).map_err(error)?;
        }
    }
    Ok(params)
}

/// The way in which checkpoints of a job are made.
#[derive(Clone, Debug)]
pub struct Maker {
    /// Whether one image of all processes is made, even if one of each rank is possible.
    is_tree: bool,
    /// `None`: the program saves its state itself.
    criu: Option<Criu>,
    /// This program, which CRIU calls.
    program: PathBuf,
    base: PathBuf,
    keep: usize,
    /// The supervision for the manifest, if it differs from mpirun's own report.
    supervision: Option<Supervision>,
}

/// Why there is no new set, or the job is not in the state that was wanted with it.
#[derive(Debug, thiserror::Error)]
pub enum MakerError {
    #[error("the job cannot be checkpointed: {0}")]
    Job(#[from] InquiryError),
    /// No image includes the transport of its messages.
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
    /// Checkpoints of a running job at the user's request: in the directory `named`, or that of a
    /// parameter; `is_tree`: of all its processes together. The error is for the user.
    pub fn of_job(
        facts: &JobFacts,
        params: &Params,
        named: Option<&Path>,
        is_tree: bool,
    ) -> Result<Maker, String> {
        let params = &with_those_of_job(params, facts)?;
        let is_own = !is_tree && facts.cr.as_deref() == Some(OWN);
        Ok(Maker {
            is_tree,
            criu: (!is_own).then(|| able_criu(params)).transpose()?,
            program: program()?,
            base: base(named, params)?,
            keep: keep(params),
            supervision: None,
        })
    }

    /// Makes a checkpoint of the job of this `mpirun`; with `ends`, the job ends with it.
    pub fn make(&self, mpirun: u32, ends: bool) -> Result<Checkpoint, MakerError> {
        let has_ended = || ProcessStat::of(mpirun).is_none_or(|stat| stat.has_ended());
        match self.try_make(mpirun, ends) {
            // CRIU reports a rank that ends meanwhile as its own fault.
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
                "it is on {} hosts, and an image of all processes together is one of a job on the host of its mpirun alone; images of \
                 each rank are made of jobs that are started with '--mca cr blcr'",
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

/// Whether jobs over a transport can be imaged; the error is for the user.
pub fn check_transport(name: &str) -> Result<(), String> {
    match Module::named(name) {
        Some(module) if !module.images => Err(format!(
            "its messages go over '{name}', whose connections no image brings back: start it over another transport ('--mca rpi shm')"
        )),
        _ => Ok(()),
    }
}

/// The directory for sets: the named one, or that of the parameter.
pub fn base(named: Option<&Path>, params: &Params) -> Result<PathBuf, String> {
    let named = named.unwrap_or_else(|| params.cr_base_dir().as_ref());
    let home = || std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let directory = if named.as_os_str().is_empty() { home() } else { Some(named.to_path_buf()) };
    directory.ok_or_else(|| {
        String::from("HOME is not set: name a directory for the set with '--dir DIR' or the parameter cr_base_dir")
    })
}

fn usable_base(params: &Params) -> Result<PathBuf, String> {
    commit::usable(&base(None, params)?).map_err(text_of)
}

fn keep(params: &Params) -> usize {
    usize::try_from(params.cr_keep()).unwrap_or(usize::MAX)
}

/// This program.
pub fn program() -> Result<PathBuf, String> {
    let program = oxmpi_sys::library::program();
    program.map_err(|error| format!("cannot find this program itself: {error}"))
}

/// Whether images can be made here, if a parameter requests them at the start of a job.
pub fn check(params: &Params) -> Result<(), String> {
    criu_of_job(params)?;
    usable_base(params).map(drop)
}

/// Whether images can be made on the host of an agent for a job with these parameters.
pub(crate) fn check_here(params: &Params) -> Result<(), String> {
    if params.cr() == Some(BLCR) { able_criu(params).map(drop) } else { Ok(()) }
}

/// CRIU for a job with these parameters; `None` if its program saves its state itself, by functions
/// that the parameters must name.
fn criu_of_job(params: &Params) -> Result<Option<Criu>, String> {
    if params.cr() != Some(OWN) {
        return able_criu(params).map(Some);
    }
    params.cr_self_functions().map(|_| None).map_err(text_of)
}

/// CRIU by the parameters, after a check that it works here.
fn able_criu(params: &Params) -> Result<Criu, String> {
    let criu = criu(params)?;
    criu.check().map_err(text_of)?;
    Ok(criu)
}

fn criu(params: &Params) -> Result<Criu, String> {
    Criu::find(params.cr_blcr_criu(), params.cr_blcr_options()).map_err(text_of)
}

/// A directory for CRIU's logs, which is removed when the value is dropped.
fn scratch() -> Result<ImageDirectory, String> {
    let place = std::env::temp_dir();
    ImageDirectory::make_in(&[&place]).map_err(|error| {
        format!("no directory for logs of CRIU can be made in {}: {error}", place.display())
    })
}

fn text_of(error: impl Display) -> String {
    error.to_string()
}
