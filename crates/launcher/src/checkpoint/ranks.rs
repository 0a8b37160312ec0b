//! Checkpoints with an image of each rank: the launcher holds all ranks ([`inquiry::hold`]) while
//! CRIU makes an image of each, on each host those of its ranks, and reports its own state.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use oxmpi_checkpoint::criu::Criu;
use oxmpi_checkpoint::making::{Checkpoint, CheckpointRequest, MakeError};
use oxmpi_checkpoint::ranks::{self, HostImages, Making, StillJob, StillRank};
use oxmpi_param::Params;
use oxmpi_rt_proto::held::{Held, HeldRank, Layout};
use oxmpi_rt_proto::tool::ImagePlace;

use super::schema::schema;
use super::{MakerError, text_of};
use crate::hosts::pieces::ImageDirectory;
use crate::inquiry::{self, InquiryError};

/// Makes a checkpoint of a job; `is_supervised` says whether its launcher has a supervisor.
pub(super) fn make(
    request: &CheckpointRequest,
    criu: &Criu,
    is_supervised: bool,
) -> Result<Checkpoint, MakerError> {
    let making = Making::begin(request)?;
    let start = Instant::now();
    let hold = inquiry::hold(request.mpirun)?;
    let own = oxmpi_sys::host::name();
    let hosts: Vec<&str> =
        hold.held().ranks.iter().map(|rank| rank.host.as_deref().unwrap_or(&own)).collect();
    let still = StillJob {
        ranks: hold.held().ranks.iter().map(still_rank).collect(),
        listeners: hold.held().listeners.clone(),
        state: hold.bytes().to_vec(),
        is_supervised,
        schema: schema(&hold.held().programs, &hosts),
    };
    let elsewhere = |directory: &Path, word: &str| {
        let place = ImagePlace { directory: directory.into(), word: word.into() };
        hold.image_far(place).map_err(|error| error.to_string())
    };
    let made = making.image(criu, &still, &elsewhere, &|| hold.goes_on())?;
    hold.imaged(request.ends).map_err(standing)?;
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
    let named = |rank: &HeldRank| match &rank.host {
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

/// Has the functions of the program save its state, and makes a set of what starts it again.
pub(super) fn save(
    request: &CheckpointRequest,
    is_supervised: bool,
) -> Result<Checkpoint, MakerError> {
    let (checkpoint, saved) = ranks::save(request, is_supervised, || {
        let saved = inquiry::save(request.mpirun).map_err(standing)?;
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

fn standing(error: InquiryError) -> MakerError {
    MakerError::Make(MakeError::Standing(error.to_string()))
}

fn still_rank(rank: &HeldRank) -> StillRank {
    StillRank {
        number: rank.number,
        process: rank.imaged,
        outside: rank.outside.iter().flatten().cloned().collect(),
        is_far: rank.host.is_some(),
    }
}

/// Makes images of an agent's ranks for the set at `place`. After `is_given_up` no further image is
/// begun. Returns the directory of the images too if it is not that of the set: then the head gets
/// all its files.
pub(crate) fn image_here(
    ImagePlace { directory, word }: &ImagePlace,
    params: &Params,
    ranks: &[HeldRank],
    is_given_up: &AtomicBool,
) -> Result<(HostImages, Option<ImageDirectory>), String> {
    let criu = super::criu(params)?;
    let ranks: Vec<StillRank> = ranks.iter().map(still_rank).collect();
    // Without a common directory the images are made here, and sent to the host of mpirun.
    let scratch = (!ranks::is_seen(directory, word)).then(|| {
        let beside = directory.parent().unwrap_or(directory);
        ImageDirectory::make_in(&[beside, &std::env::temp_dir()])
    });
    let scratch = scratch
        .transpose()
        .map_err(|error| format!("there is no directory for images: {error}"))?;
    let place = scratch.as_ref().map_or(directory.as_path(), ImageDirectory::path);
    let goes_on = || match is_given_up.load(Ordering::Relaxed) {
        true => Err("mpirun does not want the images any longer".into()),
        false => Ok(()),
    };
    let part = ranks::image_part(place, &criu, &ranks, &goes_on).map_err(text_of)?;
    if let Some(scratch) = &scratch {
        // The logs are not part of the images.
        std::fs::remove_dir_all(scratch.path().join("work")).map_err(text_of)?;
    }
    Ok((part, scratch))
}
