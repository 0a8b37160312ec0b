//! The ranks of one host: answers to requests about this host alone, notices to the ranks, their
//! output pipes and their ends.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use oxmpi_shm::segment::RankState;
use oxmpi_sys::fdpass;
use oxmpi_sys::net::Listener;
use oxmpi_sys::poller::raise_alarm;
use oxmpi_sys::spawn::Guard;
use rustix::event::PollFlags;
use rustix::process::Signal;

use crate::job::MpiStage;
use crate::launch::parts::{
    Came, Outputs, Plug, RankProcess, Reach, give_abroad, is_ready, plug_whereabouts, plugs,
    reach_abroad, read_some, returned,
};
use crate::launch::{Launch, LaunchError, end};
use oxmpi_rt_client::control::{MAX_MESSAGE, Reply, Request};
use oxmpi_rt_client::postboxes::PostboxFile;
use oxmpi_rt_proto::agent::Seen;

/// A rank of this host.
#[derive(Debug)]
pub(crate) struct LocalRank {
    /// Its node.
    pub(crate) node: u32,
    pub(crate) rank: RankProcess,
    pub(crate) outputs: Outputs,
    pub(crate) plug: Option<Plug>,
    pub(crate) running: bool,
}

/// A rank of this host whose job is over.
#[derive(Debug)]
pub(crate) struct EndedRank {
    /// For requests of processes that still know the rank.
    segment: Option<OwnedFd>,
    /// Other processes may still write to them.
    outputs: Outputs,
    /// Whether the rank had called MPI_Finalize.
    has_left: bool,
}

/// The ranks of this host, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct HostRanks {
    all: BTreeMap<u32, LocalRank>,
    ended: BTreeMap<u32, EndedRank>,
}

/// A descriptor that goes to a rank with an answer.
#[derive(Debug)]
pub(crate) enum Handed {
    Copy(OwnedFd),
    Listener(Listener),
    Postboxes(Arc<PostboxFile>),
}

impl AsFd for Handed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Handed::Copy(fd) => fd.as_fd(),
            Handed::Listener(listener) => listener.as_fd(),
            Handed::Postboxes(file) => file.fd.as_fd(),
        }
    }
}

/// An answer, with its descriptor if there is one.
pub(crate) type Answer = (Reply, Option<Handed>);

/// A message of a rank.
pub(crate) enum Control {
    Message(Vec<u8>, Option<OwnedFd>),
    Nothing,
    /// The rank has closed its end.
    Closed,
}

impl LocalRank {
    /// The rank's state, as its segment shows it.
    pub(crate) fn seen(&self) -> Seen {
        let status = self.rank.segment.status();
        Seen {
            pid: self.rank.owner().unwrap_or(self.rank.process.pid.cast_unsigned()),
            stage: stage(status.state()),
            last_call: status.last_call(),
            rests: status.state() == RankState::Resting,
        }
    }

    fn alarm(&self) {
        self.plug.iter().for_each(|plug| raise_alarm(&plug.alarm));
    }
}

/// The progress of a rank in the state of its segment.
pub(crate) fn stage(state: RankState) -> MpiStage {
    match state {
        RankState::Created | RankState::Loaded => MpiStage::Untouched,
        RankState::Initialized | RankState::Aborting => MpiStage::Initialized,
        RankState::Finalizing => MpiStage::Finalizing,
        RankState::Finalized | RankState::Resting => MpiStage::Finalized,
    }
}

impl HostRanks {
    pub(crate) fn add(
        &mut self,
        (number, node): (u32, u32),
        rank: RankProcess,
        outputs: Outputs,
        plug: Option<Plug>,
    ) -> &LocalRank {
        self.all
            .entry(number)
            .insert_entry(LocalRank { node, rank, outputs, plug, running: true })
            .into_mut()
    }

    pub(crate) fn get(&self, number: u32) -> Option<&LocalRank> {
        self.all.get(&number)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut LocalRank> {
        self.all.get_mut(&number)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &LocalRank)> + Clone {
        self.all.iter().map(|(number, one)| (*number, one))
    }

    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.all.keys().copied().collect()
    }

    /// The ranks that end with their launcher: all but the processes of another launcher that have
    /// finalized MPI.
    pub(crate) fn unfinished(&self) -> Vec<u32> {
        let is_over =
            |one: &LocalRank| !one.rank.is_child() && one.seen().stage == MpiStage::Finalized;
        self.iter().filter(|(_, one)| !is_over(one)).map(|(number, _)| number).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn running(&self) -> impl Iterator<Item = (u32, &LocalRank)> {
        self.iter().filter(|(_, one)| one.running)
    }

    pub(crate) fn processes(&self) -> impl Iterator<Item = &RankProcess> + Clone {
        self.all.values().map(|one| &one.rank)
    }

    /// The processes that were started as ranks.
    pub(crate) fn pids(&self) -> Vec<u32> {
        self.processes().map(|rank| rank.process.pid.cast_unsigned()).collect()
    }

    /// Whether requests may name the rank, also if its job is over.
    pub(crate) fn knows(&self, number: u32) -> bool {
        self.all.contains_key(&number) || self.ended.contains_key(&number)
    }

    /// The next message of a rank.
    pub(crate) fn control(&self, number: u32) -> Control {
        let Some(one) = self.all.get(&number) else { return Control::Nothing };
        let mut bytes = [0; MAX_MESSAGE];
        match fdpass::receive(&one.rank.control, &mut bytes) {
            Ok((0, _)) => Control::Closed,
            Ok((length, came)) => Control::Message(bytes[..length].to_vec(), came),
            Err(_) => Control::Nothing,
        }
    }

    /// Answers a rank. A process that sends requests without reading the answers loses them.
    pub(crate) fn answer(&self, number: u32, reply: &[u8], fd: Option<BorrowedFd<'_>>) {
        if let Some(one) = self.all.get(&number) {
            let _ = fdpass::send(&one.rank.control, reply, fd);
        }
    }

    /// The answer to a request that concerns this host alone. `None`: others answer it.
    /// `incarnation` is that of the sender, and the secret that of the job.
    pub(crate) fn answer_to(
        &mut self,
        sender: u32,
        request: &Request,
        (incarnation, secret): (u32, &[u8; 32]),
    ) -> Option<Answer> {
        let copied = |fd: Option<&OwnedFd>| fd.map(|fd| fd.try_clone().map_err(|e| e.to_string()));
        let refused = |rank, reason| Some((Reply::Refused { rank, reason }, None));
        match *request {
            Request::Segment { rank } => match copied(self.segment(rank))? {
                Ok(fd) => Some((Reply::Segment { rank, contact: None }, Some(Handed::Copy(fd)))),
                Err(reason) => refused(rank, reason),
            },
            Request::Alarm { rank } => {
                let plug = self.all.get(&rank).and_then(|one| one.plug.as_ref());
                match copied(plug.map(|plug| &plug.alarm))? {
                    Ok(fd) => Some((Reply::Alarm { rank }, Some(Handed::Copy(fd)))),
                    Err(reason) => refused(rank, reason),
                }
            }
            Request::Listener => {
                let plug = self.all.get_mut(&sender)?.plug.as_mut();
                let listener = plug.and_then(|plug| plug.listener.take());
                let reply = Reply::listener(sender, listener.is_some(), (incarnation, secret));
                Some((reply, listener.map(Handed::Listener)))
            }
            Request::Postboxes => {
                let rank = &self.all.get(&sender)?.rank;
                match rank.postboxes.clone() {
                    Some(file) => {
                        let reply = file.reply(rank.segment.boot().local_rank);
                        Some((reply, Some(Handed::Postboxes(file))))
                    }
                    None => refused(sender, "its job has no shared segment with postboxes".into()),
                }
            }
            _ => None,
        }
    }

    fn segment(&self, number: u32) -> Option<&OwnedFd> {
        let of_running = self.all.get(&number).map(|one| &one.rank.segment_fd);
        of_running.or_else(|| self.ended.get(&number)?.segment.as_ref())
    }

    /// The socket addresses of a rank, for a process of its own launcher on this host or for
    /// another process; `None`: the rank is not of this host.
    pub(crate) fn whereabouts(&self, wanted: u32, for_other: bool) -> Option<Reply> {
        if let Some(one) = self.all.get(&wanted) {
            let (rank, plug) = ((&one.rank, for_other), one.plug.as_ref());
            return Some(plug_whereabouts(wanted, rank, plug, one.running));
        }
        let ended = self.ended.get(&wanted)?;
        Some(match ended.has_left {
            true => Reply::Left { rank: wanted },
            false => Reply::Refused { rank: wanted, reason: "its process has ended".into() },
        })
    }

    /// Makes a rank, which its own launcher's processes reach on `own`, reachable on `need` too.
    /// With `notifies` a word in its segment makes the rank request the listener.
    pub(crate) fn widen(
        &mut self,
        wanted: u32,
        launch: &Launch,
        (own, need): (Reach, Reach),
        notifies: bool,
    ) -> Result<(), String> {
        match self.all.get_mut(&wanted).filter(|one| one.running) {
            None => Ok(()),
            Some(one) => {
                reach_abroad((&one.rank.segment, &mut one.plug), launch, (own, need), notifies)
            }
        }
    }

    /// The answer to a rank's request for its next listener for other launchers.
    pub(crate) fn give_abroad(&mut self, sender: u32, secret: &[u8; 32]) -> Answer {
        let plug = self.all.get_mut(&sender).and_then(|one| one.plug.as_mut());
        let (reply, listener) = give_abroad(sender, plug, secret);
        (reply, listener.map(Handed::Listener))
    }

    /// Notifies all running ranks of `count` failed processes, which they survive.
    pub(crate) fn note_deaths(&self, count: u32) {
        for (_, one) in self.running() {
            (0..count).for_each(|_| one.rank.segment.status().note_death());
            // The failed process may have been about to wake this one.
            one.rank.segment.ring_after_death(|| one.alarm());
        }
    }

    /// Requests a step of a quiescence from all running ranks.
    pub(crate) fn ask_step(&self, step: u32) {
        for (_, one) in self.running() {
            one.rank.segment.status().ask_quiesce_step(step);
            one.rank.segment.ring_after_death(|| one.alarm());
        }
    }

    /// Gives all running ranks new listeners at new addresses.
    pub(crate) fn renew_listeners(
        &mut self,
        launch: &Launch,
        is_one_host: bool,
    ) -> Result<(), LaunchError> {
        let running = self.all.values_mut().filter(|one| one.running);
        let own: Vec<&mut Plug> = running.filter_map(|one| one.plug.as_mut()).collect();
        if own.is_empty() {
            return Ok(());
        }
        let made = plugs(launch, own.len(), is_one_host, is_one_host)?;
        own.into_iter().zip(made).try_for_each(|(plug, new)| plug.renew(new, launch))
    }

    /// Requests a call of checkpoint functions from all running ranks.
    pub(crate) fn want_call(&self, number: u32) {
        self.running().for_each(|(_, one)| one.rank.segment.status().want_call(number));
    }

    /// The return values of this call on running ranks so far; an error if a rank cannot call the
    /// functions.
    pub(crate) fn returned(&self, number: u32) -> Result<Vec<(u32, i32)>, String> {
        returned(number, self.running().map(|(rank, one)| (rank, one.rank.segment.status())))
    }

    /// Notes the end of a rank. Peers must not connect to a listener that the rank has never
    /// requested.
    pub(crate) fn note_end(&mut self, number: u32, guard: Option<&Guard>) {
        let Some(one) = self.all.get_mut(&number) else { return };
        one.running = false;
        if let (Some(guard), false) = (guard, one.rank.is_child()) {
            let _ = guard.forget_one(one.rank.process.pid);
        }
        if let Some(plug) = &mut one.plug {
            plug.listener = None;
            plug.abroad.iter_mut().for_each(|abroad| abroad.listener = None);
        }
    }

    /// Sends a signal to the process groups of ranks.
    pub(crate) fn signal(&self, signal: Signal, numbers: impl IntoIterator<Item = u32>) {
        let ranks = numbers.into_iter().filter_map(|number| self.all.get(&number));
        ranks.for_each(|one| end::signal_group(&one.rank, signal));
    }

    /// Drops the state of a finished job, except segments, and outputs that others may write to.
    pub(crate) fn release(&mut self, numbers: Range<u32>, guard: &Guard) {
        for (number, one) in self.all.extract_if(numbers, |_, _| true).collect::<Vec<_>>() {
            end::kill_and_reap(&one.rank, guard);
            let has_left = one.seen().stage == MpiStage::Finalized;
            let LocalRank { rank, outputs, .. } = one;
            let segment = Some(rank.segment_fd);
            self.ended.insert(number, EndedRank { segment, outputs, has_left });
        }
    }

    /// Removes ranks whose start has failed, from this number on.
    pub(crate) fn abandon(&mut self, base: u32, guard: &Guard) {
        let gone = self.all.split_off(&base);
        gone.values().for_each(|one| end::kill_and_reap(&one.rank, guard));
    }

    /// Drops the segments of ranks that no request can name any more.
    pub(crate) fn forget(&mut self, numbers: Range<u32>) {
        let all: Vec<u32> = self.ended.range(numbers).map(|(number, _)| *number).collect();
        for number in all {
            self.ended.get_mut(&number).iter_mut().for_each(|ended| ended.segment = None);
            self.drop_done(number);
        }
    }

    fn drop_done(&mut self, number: u32) {
        let is_done =
            |one: &EndedRank| one.segment.is_none() && one.outputs.iter().all(Option::is_none);
        if self.ended.get(&number).is_some_and(is_done) {
            self.ended.remove(&number);
        }
    }

    fn outputs(&self, number: u32) -> Option<&Outputs> {
        let of_running = self.all.get(&number).map(|one| &one.outputs);
        of_running.or_else(|| self.ended.get(&number).map(|ended| &ended.outputs))
    }

    /// Whether reading an output would not wait. `kind` is 0 for standard output, 1 for standard
    /// error, as below.
    pub(crate) fn has_output(&self, number: u32, kind: usize) -> bool {
        let pipe = self.outputs(number).and_then(|outputs| outputs[kind].as_ref());
        pipe.is_some_and(|pipe| is_ready(pipe, PollFlags::IN))
    }

    /// Reads an output.
    pub(crate) fn read(&self, number: u32, kind: usize, buffer: &mut [u8]) -> Came {
        match self.outputs(number).and_then(|outputs| outputs[kind].as_ref()) {
            Some(pipe) => read_some(pipe, buffer),
            None => Came::Nothing,
        }
    }

    /// Closes an output. Returns whether it was open.
    pub(crate) fn close(&mut self, number: u32, kind: usize) -> bool {
        let of_running = self.all.get_mut(&number).map(|one| &mut one.outputs);
        let outputs =
            of_running.or_else(|| self.ended.get_mut(&number).map(|one| &mut one.outputs));
        let closed = outputs.and_then(|outputs| outputs[kind].take());
        self.drop_done(number);
        closed.is_some()
    }

    /// The addresses of all listeners.
    pub(crate) fn listeners(&self) -> Vec<SocketAddr> {
        let plugs = self.all.values().filter_map(|one| one.plug.as_ref());
        plugs.flat_map(Plug::sockets).collect()
    }

    /// Whether a rank has an answer that it has not read. A socket with an error has none.
    pub(crate) fn has_unread_answers(&self) -> bool {
        self.processes().any(|rank| fdpass::has_unread(&rank.control).unwrap_or(false))
    }

    /// Wakes all ranks, which may sleep on descriptors.
    pub(crate) fn raise_alarms(&self) {
        self.all.values().for_each(LocalRank::alarm);
    }
}
