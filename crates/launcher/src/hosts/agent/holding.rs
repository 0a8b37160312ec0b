//! Holding the ranks of an agent while they are imaged (see `launch/hold.rs`).

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use oxmpi_shm::segment::{CheckpointCall, RankState};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;
use tracing::{info, warn};

use super::super::pieces::{FileReceiver, FileSender, ImageDirectory, PIECES_WAITING};
use super::{Agent, IMAGED, Input};
use crate::checkpoint::ranks::image_here;
use crate::host_ranks::LocalRank;
use crate::launch::HeldRank;
use crate::launch::parts::{HeldInput, describe, recover, send, stop};
use oxmpi_checkpoint::ranks::HostImages;
use oxmpi_rt_proto::agent::FromAgent;
use oxmpi_rt_proto::held::HeldHost;
use oxmpi_rt_proto::tool::ImagePlace;

/// The images, and their directory if it is not that of the set.
type ImagingResult = (HostImages, Option<ImageDirectory>);

/// Imaging in a thread of its own: the agent serves the head meanwhile.
pub(super) struct Imaging {
    round: u32,
    /// Closed at its other end when the images are made.
    done: OwnedFd,
    thread: JoinHandle<Result<ImagingResult, String>>,
    /// The request is withdrawn: the processes continue after imaging.
    is_given_up: Arc<AtomicBool>,
    /// Signals that are sent after imaging.
    signals: Vec<(Signal, Vec<u32>)>,
}

/// Images on their way to the head, which has no access to their directory.
pub(super) struct ImageTransfer {
    round: u32,
    files: FileSender,
    images: HostImages,
    _scratch: ImageDirectory,
}

impl Agent<'_> {
    /// Stops all processes, and forwards all their messages and output.
    pub(super) fn hold(&mut self, round: u32) {
        info!(round, "stopping the ranks of this host");
        self.sending = None;
        self.go_on();
        if self.imaging.is_some() {
            let error = "CRIU still makes images there for a checkpoint that was given up: try again when it has ended";
            return self.post(&FromAgent::Stopped { round, result: Err(error.into()) });
        }
        let result = stop(&self.ranks.pids(), None).map(|stopped| self.stopped = stopped);
        for rank in self.ranks.numbers() {
            while self.control_once(rank) {}
            for kind in [0, 1] {
                // Ends, as the writers are stopped.
                while self.ranks.has_output(rank, kind) {
                    self.output(rank, kind);
                }
            }
        }
        self.post(&FromAgent::Stopped { round, result });
    }

    pub(super) fn describe(&mut self, round: u32) {
        let is_unread = self.ranks.has_unread_answers();
        let ranks = if is_unread { Ok(None) } else { self.describe_all().map(Some) };
        info!(round, is_unread, error = ranks.as_ref().err(), "described the stopped ranks");
        self.described = ranks.as_ref().ok().cloned().flatten().unwrap_or_default();
        let listeners = self.ranks.listeners();
        let description = ranks.map(|ranks| HeldHost { ranks, listeners });
        self.post(&FromAgent::Described { round, description });
    }

    fn describe_all(&self) -> Result<Vec<HeldRank>, String> {
        let describe = |(number, member): (u32, &LocalRank)| {
            let named = |why: String| format!("rank {number}: {why}");
            match member.rank.segment.status().state() {
                RankState::Initialized => {}
                RankState::Created | RankState::Loaded => {
                    return Err(named(
                        "it has not called MPI_Init yet: try again when it has".into(),
                    ));
                }
                _ => return Err(named("it has called MPI_Finalize".into())),
            }
            let input = match self.inputs.get(&number).map(Input::left) {
                Some((pipe, rest)) => HeldInput::Fed(pipe, rest),
                None => HeldInput::Other,
            };
            let rank = (&member.rank, member.plug.as_ref().map(|plug| &plug.alarm));
            describe(number, rank, &member.outputs, &input, ("", &self.stopped)).map_err(named)
        };
        self.ranks.iter().map(describe).collect()
    }

    /// Continues stopped and restored processes; while CRIU works, after its end (rule 4 of
    /// [`crate::launch`]'s `hold`).
    pub(super) fn go_on(&mut self) {
        if let Some(imaging) = &self.imaging {
            imaging.is_given_up.store(true, Ordering::Relaxed);
            return;
        }
        if self.stopped.is_empty() {
            return;
        }
        info!(processes = self.stopped.len(), "letting the ranks of this host run");
        self.stopped.drain(..).for_each(|pid| send(pid, Signal::CONT));
        // A restored rank may sleep on connections of its former life, or on none.
        self.ranks.raise_alarms();
    }

    pub(super) fn begin_imaging(&mut self, round: u32, place: ImagePlace) {
        info!(round, directory = %place.directory.display(), "imaging the ranks of this host");
        let Some(params) = self.launch.as_ref().map(|launch| launch.params.clone()) else { return };
        let is_given_up = Arc::new(AtomicBool::new(false));
        let (ranks, withdrawn) = (self.described.clone(), is_given_up.clone());
        let begun =
            pipe_with(PipeFlags::CLOEXEC).map_err(std::io::Error::from).and_then(|(done, end)| {
                let work = move || {
                    let _end = end;
                    image_here(&place, &params, &ranks, &withdrawn)
                };
                let thread = std::thread::Builder::new().name("images".into()).spawn(work)?;
                self.listen(&self.events, done.as_fd(), IMAGED, 0)?;
                Ok(Imaging { round, done, thread, is_given_up, signals: Vec::new() })
            });
        match begun {
            Ok(imaging) => self.imaging = Some(imaging),
            Err(error) => {
                self.post(&FromAgent::Imaged { round, images: Err(error.to_string()) });
            }
        }
    }

    pub(super) fn finish_imaging(&mut self) {
        let Some(Imaging { round, done, thread, is_given_up, signals }) = self.imaging.take()
        else {
            return;
        };
        drop(done);
        let made =
            thread.join().unwrap_or_else(|_| Err("the thread that made images has failed".into()));
        if let Err(why) = &made {
            warn!(round, why, "there are no images");
            recover(&self.stopped);
        }
        signals.into_iter().for_each(|(signal, ranks)| self.signal(signal, ranks));
        if is_given_up.load(Ordering::Relaxed) {
            return self.go_on();
        }
        let images = match made {
            Ok((images, Some(scratch))) => match FileSender::all_of(scratch.path()) {
                Ok(files) => {
                    self.sending = Some(ImageTransfer { round, files, images, _scratch: scratch });
                    return;
                }
                Err(error) => Err(error.to_string()),
            },
            made => made.map(|(images, _)| images),
        };
        self.post(&FromAgent::Imaged { round, images });
    }

    /// Sends a signal to processes, after imaging if that is going on. SIGKILL does not wait.
    pub(super) fn signal(&mut self, signal: Signal, ranks: Vec<u32>) {
        match &mut self.imaging {
            Some(imaging) if signal != Signal::KILL => imaging.signals.push((signal, ranks)),
            _ => self.ranks.signal(signal, ranks),
        }
    }

    pub(super) fn send_pieces(&mut self) {
        while self.head.behind() < PIECES_WAITING
            && let Some(sending) = &mut self.sending
        {
            let round = sending.round;
            let message = match sending.files.next() {
                Ok(Some((name, bytes))) => FromAgent::Piece { round, name, bytes },
                Ok(None) => {
                    let images = std::mem::take(&mut sending.images);
                    self.sending = None;
                    FromAgent::Imaged { round, images: Ok(images) }
                }
                Err(error) => {
                    self.sending = None;
                    FromAgent::Imaged { round, images: Err(error.to_string()) }
                }
            };
            self.post(&message);
            self.head.flush();
        }
    }

    pub(super) fn call_functions(&mut self, number: u32) {
        self.calling = (CheckpointCall::of(number) != CheckpointCall::Open).then_some(number);
        self.ranks.want_call(number);
    }

    /// Sends the head the return values when all functions have returned.
    pub(super) fn check_calls(&mut self) {
        let Some(number) = self.calling else { return };
        let count = self.ranks.running().count();
        let values = self.ranks.returned(number);
        if values.as_ref().is_ok_and(|values| values.len() < count) {
            return;
        }
        self.calling = None;
        self.post(&FromAgent::Returned { number, values });
    }

    /// Writes a piece of an image that is to be restored here.
    pub(super) fn receive_piece(&mut self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        if self.received.is_none() {
            let order = self.ready.as_ref().and_then(|ready| ready.job.order.restore.as_ref());
            let beside =
                order.and_then(|restore| restore.images.set.parent()).unwrap_or("/".as_ref());
            let scratch = ImageDirectory::make_in(&[beside, &std::env::temp_dir()])?;
            self.received = Some((FileReceiver::into(scratch.path()), scratch));
        }
        self.received.as_mut().map_or(Ok(()), |(incoming, _)| incoming.take(name, bytes))
    }
}
