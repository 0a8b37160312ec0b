//! Images of the stopped ranks of a host, by CRIU.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use oxmpi_shm::segment::RankState;
use rustix::pipe::{PipeFlags, pipe_with};
use tracing::{info, warn};

use super::machine::HostEvent;
use super::ranks::LocalRank;
use super::{FromHost, HostLauncher, IMAGED, Input, still};
use crate::checkpoint::ranks::image_here;
use crate::hosts::pieces::ImageDirectory;
use crate::launch::HeldRank;
use oxmpi_checkpoint::ranks::HostImages;
use oxmpi_rt_proto::agent::HostReport;
use oxmpi_rt_proto::held::HeldHost;
use oxmpi_rt_proto::tool::ImagePlace;

/// The images, and their directory if it is not that of the set.
pub(crate) type ImagingResult = (HostImages, Option<ImageDirectory>);

/// Imaging in a thread of its own: the process serves the head meanwhile.
pub(super) struct Imaging {
    round: u32,
    /// Closed at its other end when the images are made.
    done: OwnedFd,
    thread: JoinHandle<Result<ImagingResult, String>>,
    is_withdrawn: Arc<AtomicBool>,
}

impl HostLauncher<'_> {
    /// Describes the stopped ranks. Without a description a rank has an answer that it has not
    /// read.
    pub(super) fn describe(&mut self, round: u32, stopped: &[u32]) {
        let is_unread = self.ranks.has_unread_answers();
        let ranks = if is_unread { Ok(None) } else { self.describe_all(stopped).map(Some) };
        info!(round, is_unread, error = ranks.as_ref().err(), "described the stopped ranks");
        self.described = ranks.as_ref().ok().cloned().flatten().unwrap_or_default();
        let listeners = self.ranks.listeners();
        let description = ranks.map(|ranks| HeldHost { ranks, listeners });
        self.report(HostReport::Described { round, description });
    }

    fn describe_all(&self, stopped: &[u32]) -> Result<Vec<HeldRank>, String> {
        let describe = |(number, one): (u32, &LocalRank)| {
            let named = |why: String| format!("rank {number}: {why}");
            match one.rank.segment.status().state() {
                RankState::Initialized => {}
                RankState::Created | RankState::Loaded => {
                    return Err(named(
                        "it has not called MPI_Init yet: try again when it has".into(),
                    ));
                }
                _ => return Err(named("it has called MPI_Finalize".into())),
            }
            let input = self.inputs.get(&number).map(Input::left);
            let rank = (&one.rank, one.plug.as_ref().map(|plug| &plug.alarm));
            still::describe(number, rank, &one.outputs, input, (&self.entrance, stopped))
                .map_err(named)
        };
        self.ranks.iter().map(describe).collect()
    }

    /// Makes images of the described ranks. The result is [`FromHost::Imaged`], unless the ranks
    /// are to go on before.
    pub(crate) fn begin_imaging(&mut self, round: u32, place: ImagePlace) {
        info!(round, directory = %place.directory.display(), "imaging the ranks of this host");
        let Some(params) = self.launch.as_ref().map(|launch| launch.params.clone()) else { return };
        let is_withdrawn = Arc::new(AtomicBool::new(false));
        let (ranks, withdrawn) = (self.described.clone(), is_withdrawn.clone());
        let begun =
            pipe_with(PipeFlags::CLOEXEC).map_err(std::io::Error::from).and_then(|(done, end)| {
                let work = move || {
                    let _end = end;
                    image_here(&place, &params, &ranks, &withdrawn)
                };
                let thread = std::thread::Builder::new().name("images".into()).spawn(work)?;
                self.listen(done.as_fd(), IMAGED, 0)?;
                Ok(Imaging { round, done, thread, is_withdrawn })
            });
        match begun {
            Ok(imaging) => {
                self.imaging = Some(imaging);
                self.on(HostEvent::ImagingBegun);
            }
            Err(error) => {
                let made = Err(error.to_string());
                self.messages.push_back(FromHost::Imaged { round, made });
            }
        }
    }

    pub(super) fn withdraw_images(&self) {
        let imaging = self.imaging.iter();
        imaging.for_each(|imaging| imaging.is_withdrawn.store(true, Ordering::Relaxed));
    }

    pub(super) fn finish_imaging(&mut self) {
        let Some(Imaging { round, done, thread, .. }) = self.imaging.take() else { return };
        drop(done);
        let made =
            thread.join().unwrap_or_else(|_| Err("the thread that made images has failed".into()));
        if let Err(why) = &made {
            warn!(round, why, "there are no images");
        }
        let is_wanted = self.machine.wants_images();
        self.on(HostEvent::ImagingEnded { is_good: made.is_ok() });
        if is_wanted {
            self.messages.push_back(FromHost::Imaged { round, made });
        }
    }
}
