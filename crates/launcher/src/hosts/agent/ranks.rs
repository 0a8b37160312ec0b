//! The outputs, inputs and ends of an agent's ranks.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use oxmpi_shm::segment::RankState;
use oxmpi_sys::poller::raise_alarm;
use rustix::event::{PollFlags, epoll};
use rustix::io::Errno;
use tracing::debug;

use super::{Agent, CONTROL, ENDED, INPUT, WINDOW};
use crate::job::MpiStage;
use crate::launch::parts::{Came, Outputs, Plug, RankProcess, exit_of, is_ready, plugs, read_some};
use crate::launch::{LaunchError, end};
use oxmpi_rt_proto::agent::{FromAgent, ProcessEvent, Seen};

pub(super) struct LocalRank {
    pub(super) rank: RankProcess,
    pub(super) outputs: Outputs,
    pub(super) plug: Option<Plug>,
    pub(super) running: bool,
    pub(super) has_relay: bool,
    input: Option<Input>,
}

struct Input {
    fd: OwnedFd,
    waiting: Vec<u8>,
    has_ended: bool,
    /// Whether the pipe is polled for room.
    is_listened_to: bool,
}

pub(super) struct EndedProcess {
    pub(super) segment: Option<OwnedFd>,
    outputs: Outputs,
    pub(super) has_left: bool,
}

impl EndedProcess {
    fn is_written(&self) -> bool {
        self.outputs.iter().any(Option::is_some)
    }
}

impl LocalRank {
    pub(super) fn new(rank: RankProcess, outputs: Outputs, plug: Option<Plug>) -> LocalRank {
        LocalRank { rank, outputs, plug, running: true, has_relay: false, input: None }
    }

    pub(super) fn open_input(&mut self, fd: OwnedFd) {
        self.input =
            Some(Input { fd, waiting: Vec::new(), has_ended: false, is_listened_to: false });
    }

    /// The pipe of the standard input, and the bytes that are not written yet.
    pub(super) fn left(&self) -> Option<(BorrowedFd<'_>, &[u8])> {
        self.input.as_ref().map(|input| (input.fd.as_fd(), &*input.waiting))
    }

    pub(super) fn seen(&self) -> Seen {
        let status = self.rank.segment.status();
        Seen {
            pid: self.rank.owner().unwrap_or(self.rank.process.pid.cast_unsigned()),
            stage: stage(status.state()),
            last_call: status.last_call(),
            rests: status.state() == RankState::Resting,
        }
    }
}

pub(crate) fn stage(state: RankState) -> MpiStage {
    match state {
        RankState::Created | RankState::Loaded => MpiStage::Untouched,
        RankState::Initialized | RankState::Aborting => MpiStage::Initialized,
        RankState::Finalizing => MpiStage::Finalizing,
        RankState::Finalized | RankState::Resting => MpiStage::Finalized,
    }
}

impl Agent<'_> {
    pub(super) fn enlist(&mut self, number: u32, member: LocalRank) -> rustix::io::Result<()> {
        self.members.insert(number, member);
        let Some(member) = self.members.get(&number) else { return Ok(()) };
        self.listen(&self.events, member.rank.control.as_fd(), CONTROL, number)?;
        self.listen(&self.events, member.rank.process.pidfd.as_fd(), ENDED, number)?;
        for (kind, pipe) in (0..).zip(&member.outputs) {
            if let Some(pipe) = pipe {
                self.listen(&self.outputs, pipe.as_fd(), kind, number)?;
            }
        }
        Ok(())
    }

    /// Drops the state of a finished job, except segments and outputs that others may write to.
    pub(super) fn release_job(&mut self, processes: Range<u32>) {
        let Some(guard) = &self.guard else { return };
        let of_it: Vec<u32> = self.members.range(processes).map(|(number, _)| *number).collect();
        for number in of_it {
            let Some(member) = self.members.remove(&number) else { continue };
            end::kill_and_reap(&member.rank, guard);
            let has_left = member.seen().stage == MpiStage::Finalized;
            let LocalRank { rank, outputs, .. } = member;
            let segment = Some(rank.segment_fd);
            self.relics.insert(number, EndedProcess { segment, outputs, has_left });
        }
    }

    /// Drops the segments of processes that no request can name any more.
    pub(super) fn forget(&mut self, processes: Range<u32>) {
        self.addresses.retain(|number, _| !processes.contains(number));
        for (_, relic) in self.relics.range_mut(processes.clone()) {
            relic.segment = None;
        }
        self.relics.retain(|number, relic| !processes.contains(number) || relic.is_written());
    }

    /// An output of a rank, or of a process whose job is over.
    fn output_of(&mut self, rank: u32, kind: usize) -> Option<&mut Option<OwnedFd>> {
        let of_member = self.members.get_mut(&rank).map(|member| &mut member.outputs);
        let outputs =
            of_member.or_else(|| self.relics.get_mut(&rank).map(|relic| &mut relic.outputs));
        outputs?.get_mut(kind)
    }

    /// Reads a rank's output. `kind` is 0 for standard output, 1 for standard error.
    pub(super) fn output(&mut self, rank: u32, kind: usize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let came = match self.output_of(rank, kind) {
            Some(Some(fd)) => read_some(fd, &mut buffer),
            _ => Came::Nothing,
        };
        let bytes = match came {
            Came::Bytes(n) => Some(buffer[..n].to_vec()),
            Came::Nothing => None,
            Came::End => Some(Vec::new()),
        };
        self.buffer = buffer;
        let Some(bytes) = bytes else { return };
        if bytes.is_empty()
            && let Some(output) = self.output_of(rank, kind)
        {
            *output = None;
            let is_done = |relic: &EndedProcess| relic.segment.is_none() && !relic.is_written();
            if self.relics.get(&rank).is_some_and(is_done) {
                self.relics.remove(&rank);
            }
        }
        if bytes.is_empty() {
            return self.keep_events(vec![ProcessEvent::Closed { rank, is_error: kind == 1 }]);
        }
        self.under_way += bytes.len() as u64;
        self.post(&FromAgent::Output { rank, is_error: kind == 1, bytes });
    }

    pub(super) fn ended(&mut self, rank: u32) -> rustix::io::Result<()> {
        let Some(member) = self.members.get(&rank) else { return Ok(()) };
        let Some(exit) = exit_of(&member.rank)? else { return Ok(()) };
        epoll::delete(&self.events, &member.rank.process.pidfd)?;
        // The process's last messages and output come before its end.
        while self.control_once(rank) {}
        for kind in [0, 1] {
            let is_there = |agent: &Self| {
                let pipe =
                    agent.members.get(&rank).and_then(|member| member.outputs[kind].as_ref());
                agent.under_way < WINDOW && pipe.is_some_and(|pipe| is_ready(pipe, PollFlags::IN))
            };
            while is_there(self) {
                self.output(rank, kind);
            }
        }
        if let Some(member) = self.members.get_mut(&rank) {
            (member.running, member.input) = (false, None);
            if let Some(plug) = &mut member.plug {
                // Peers must not connect to a listener that the rank has never requested.
                plug.listener = None;
                plug.abroad.iter_mut().for_each(|abroad| abroad.listener = None);
            }
            let seen = member.seen();
            debug!(rank, pid = seen.pid, ?exit, stage = ?seen.stage, "a rank has ended");
            self.report_end_to_relay(rank);
            self.keep_events(vec![ProcessEvent::Exited { rank, exit, seen }]);
        }
        Ok(())
    }

    pub(super) fn announce(&mut self, count: u32) {
        for member in self.members.values().filter(|member| member.running) {
            (0..count).for_each(|_| member.rank.segment.status().note_death());
            // The failed process may have been about to wake this one.
            let alarm = || member.plug.iter().for_each(|plug| raise_alarm(&plug.alarm));
            member.rank.segment.ring_after_death(alarm);
        }
    }

    /// Requests a step of a quiescence from all running ranks. A rank that closes its connections
    /// gets a new listener with a new address.
    pub(super) fn request_step(&mut self, number: u32, closes: bool) {
        if closes {
            (self.addresses, self.answered) = Default::default();
        }
        if closes && let Err(why) = self.make_listeners() {
            // Ranks get the error when they request their listener.
            self.post(&FromAgent::Text { text: format!("mpirun: {why}\n") });
        }
        for member in self.members.values().filter(|member| member.running) {
            member.rank.segment.status().ask_quiesce_step(number);
            let alarm = || member.plug.iter().for_each(|plug| raise_alarm(&plug.alarm));
            member.rank.segment.door_word().ring_after_death(alarm);
        }
    }

    fn make_listeners(&mut self) -> Result<(), LaunchError> {
        let Some(launch) = &self.launch else { return Ok(()) };
        let running = self.members.values_mut().filter(|member| member.running);
        let own: Vec<&mut Plug> = running.filter_map(|member| member.plug.as_mut()).collect();
        let made = plugs(launch, own.len(), false, false)?;
        own.into_iter().zip(made).try_for_each(|(plug, new)| plug.renew(new, launch))
    }

    pub(super) fn take_input(&mut self, rank: u32, bytes: &[u8]) {
        let input = self.members.get_mut(&rank).and_then(|member| member.input.as_mut());
        match input {
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
        let Some(member) = self.members.get_mut(&rank) else { return };
        let Some(input) = &mut member.input else { return };
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
            member.input = None;
        }
        if written > 0 {
            self.post(&FromAgent::InputTaken { rank, bytes: written as u64 });
        }
    }
}
