//! The outputs, inputs and ends of an agent's ranks.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;
use rustix::io::Errno;
use tracing::debug;

use super::{Agent, CONTROL, ENDED, INPUT, JoinerNews, Joiners, WINDOW};
use crate::host_ranks::LocalRank;
use crate::launch::parts::{Came, Outputs, Plug, RankProcess, exit_of};
use oxmpi_rt_proto::agent::{FromAgent, ProcessEvent};

/// The standard input of a rank, which the head sends.
pub(super) struct Input {
    fd: OwnedFd,
    waiting: Vec<u8>,
    has_ended: bool,
    /// Whether the pipe is polled for room.
    is_listened_to: bool,
}

impl Input {
    pub(super) fn new(fd: OwnedFd) -> Input {
        Input { fd, waiting: Vec::new(), has_ended: false, is_listened_to: false }
    }

    /// The pipe of the standard input, and the bytes that are not written yet.
    pub(super) fn left(&self) -> (BorrowedFd<'_>, &[u8]) {
        (self.fd.as_fd(), &self.waiting)
    }
}

impl Agent<'_> {
    pub(super) fn enlist(
        &mut self,
        number: u32,
        rank: RankProcess,
        outputs: Outputs,
        plug: Option<Plug>,
    ) -> rustix::io::Result<()> {
        self.ranks.add(number, rank, outputs, plug);
        let Some(one) = self.ranks.get(number) else { return Ok(()) };
        self.listen(&self.events, one.rank.control.as_fd(), CONTROL, number)?;
        self.listen(&self.events, one.rank.process.pidfd.as_fd(), ENDED, number)?;
        let mut closed = Vec::new();
        for (kind, pipe) in (0..).zip(&one.outputs) {
            match pipe {
                Some(pipe) => self.listen(&self.outputs, pipe.as_fd(), kind, number)?,
                None => closed.push(ProcessEvent::Closed { rank: number, is_error: kind == 1 }),
            }
        }
        closed.into_iter().for_each(|event| self.note_event(event));
        Ok(())
    }

    pub(super) fn release_job(&mut self, processes: Range<u32>) {
        if let Some(guard) = &self.guard {
            self.ranks.release(processes, guard);
        }
    }

    /// Drops the state of processes that no request can name any more.
    pub(super) fn forget(&mut self, processes: Range<u32>) {
        self.addresses.retain(|number, _| !processes.contains(number));
        self.answered
            .retain(|(asker, number)| !processes.contains(asker) && !processes.contains(number));
        self.sent.retain(|number, _| !processes.contains(number));
        self.all_events.retain(|event| {
            let (ProcessEvent::Closed { rank, .. } | ProcessEvent::Exited { rank, .. }) = event;
            !processes.contains(rank)
        });
        self.ranks.forget(processes);
    }

    /// Reads a rank's output. `kind` is 0 for standard output, 1 for standard error.
    pub(super) fn output(&mut self, rank: u32, kind: usize) {
        match self.ranks.read(rank, kind, &mut self.buffer) {
            Came::Bytes(n) => {
                let bytes = self.buffer[..n].to_vec();
                self.under_way += bytes.len() as u64;
                self.post(&FromAgent::Output { rank, is_error: kind == 1, bytes });
            }
            Came::Nothing => {}
            Came::End => {
                self.ranks.close(rank, kind);
                self.note_event(ProcessEvent::Closed { rank, is_error: kind == 1 });
            }
        }
    }

    pub(super) fn ended(&mut self, rank: u32) -> rustix::io::Result<()> {
        let Some(one) = self.ranks.get(rank) else { return Ok(()) };
        let Some(exit) = exit_of(&one.rank)? else { return Ok(()) };
        epoll::delete(&self.events, &one.rank.process.pidfd)?;
        // The process's last messages and output come before its end.
        while self.control_once(rank) {}
        for kind in [0, 1] {
            while self.under_way < WINDOW && self.ranks.has_output(rank, kind) {
                self.output(rank, kind);
            }
        }
        self.ranks.note_end(rank, self.guard.as_ref());
        self.inputs.remove(&rank);
        if let Some(seen) = self.ranks.get(rank).map(LocalRank::seen) {
            debug!(rank, pid = seen.pid, ?exit, stage = ?seen.stage, "a rank has ended");
            self.relays.report_end(self.own_node(), rank);
            self.note_event(ProcessEvent::Exited { rank, exit, seen });
        }
        Ok(())
    }

    /// Requests a step of a quiescence from all running ranks. A rank that closes its connections
    /// gets a new listener with a new address.
    pub(super) fn request_step(&mut self, number: u32, closes: bool) {
        if closes {
            (self.addresses, self.answered) = Default::default();
        }
        let renewed = match &self.launch {
            Some(launch) if closes => self.ranks.renew_listeners(launch, false),
            _ => Ok(()),
        };
        if let Err(why) = renewed {
            // Ranks get the error when they request their listener.
            self.post(&FromAgent::Text { text: format!("mpirun: {why}\n") });
        }
        self.ranks.ask_step(number);
    }

    pub(super) fn take_input(&mut self, rank: u32, bytes: &[u8]) {
        match self.inputs.get_mut(&rank) {
            Some(input) => {
                input.waiting.extend_from_slice(bytes);
                input.has_ended |= bytes.is_empty();
                self.feed(rank);
            }
            None => self.post(&FromAgent::InputTaken { rank, bytes: bytes.len() as u64 }),
        }
    }

    /// Writes as much waiting input of a rank as its pipe has room for.
    pub(super) fn feed(&mut self, rank: u32) {
        let Some(input) = self.inputs.get_mut(&rank) else { return };
        let (mut written, mut is_broken) = (0, false);
        while written < input.waiting.len() {
            match rustix::io::write(&input.fd, &input.waiting[written..]) {
                Ok(n) => written += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    (written, is_broken) = (input.waiting.len(), true);
                }
            }
        }
        input.waiting.drain(..written);
        let is_over = is_broken || (input.has_ended && input.waiting.is_empty());
        let wants_room = !is_over && !input.waiting.is_empty();
        if wants_room != input.is_listened_to {
            let name = epoll::EventData::new_u64(INPUT << 32 | u64::from(rank));
            let _ = match wants_room {
                true => epoll::add(&self.events, &input.fd, name, epoll::EventFlags::OUT),
                false => epoll::delete(&self.events, &input.fd),
            };
            input.is_listened_to = wants_room;
        }
        if is_over {
            self.inputs.remove(&rank);
        }
        if written > 0 {
            self.post(&FromAgent::InputTaken { rank, bytes: written as u64 });
        }
    }

    /// Serves processes that come to be ranks. Before the start the head learns of each.
    pub(super) fn serve_joiners(&mut self) {
        let Some(joiners) = &mut self.joiners else { return };
        if self.launch.is_some() {
            return joiners.serve_late();
        }
        let news = match joiners.serve() {
            Ok(news) => news,
            Err(error) => {
                self.joiners = None;
                return self.fail(0, false, format!("it cannot wait for its ranks: {error}"));
            }
        };
        for one in news {
            match one {
                JoinerNews::Came { rank, .. } => self.post(&FromAgent::Came { ranks: vec![rank] }),
                JoinerNews::Gone(text) => self.fail(0, false, text),
                // The head alone queries the process manager.
                JoinerNews::Head { .. } | JoinerNews::AgentCard { .. } => {}
            }
        }
    }

    /// Reports the processes that have come before this agent knew its number.
    pub(super) fn report_joiners(&mut self) {
        if let Some(ranks) = self.joiners.as_ref().map(Joiners::waiting) {
            self.post(&FromAgent::Came { ranks });
        }
    }
}
