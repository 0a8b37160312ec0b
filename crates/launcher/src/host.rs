//! The launcher of one host: of that of `mpirun`, in its process, or of another host, in an agent.
//!
//! Both are the same code. The head gives orders ([`HostOrder`]): to its own host by
//! [`HostLauncher::obey`], to other hosts in messages to their agents, which call it too. The host
//! answers by [`FromHost`], which the head handles, or the agent sends to the head.
//!
//! | module | contents |
//! |---|---|
//! | [`machine`] | the decisions: a state machine without system calls |
//! | `host.rs` | its actions, and the events of the host's ranks |
//! | [`ranks`] | the ranks: answers to their requests, their pipes, notices to them |
//! | `heirs` | a program that continues in another process than the one started as the rank |
//! | `imaging` | images of the stopped ranks |
//! | `input` | standard input that the head sends |
//! | [`relays`] | the relays, in a job whose messages go through daemons |
//! | [`still`] | stopping and describing processes, for images |

mod heirs;
mod imaging;
mod input;
pub(crate) mod machine;
pub(crate) mod ranks;
pub(crate) mod relays;
pub(crate) mod still;

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use oxmpi_sys::net::Listener;
use oxmpi_sys::spawn::{Guard, Signals};
use oxmpi_wire::relay::Order as RelayOrder;
use rustix::event::epoll;
use rustix::process::Signal;
use tracing::{debug, info, trace};

use self::heirs::Heirs;
use self::imaging::Imaging;
pub(crate) use self::imaging::ImagingResult;
use self::input::{Input, InputState};
use self::machine::{HostAction, HostEvent, HostMachine};
use self::ranks::{Answer, Control, HostRanks, LocalRank};
use self::relays::HostRelays;
use crate::launch::parts::{Came, Outputs, Plug, RankProcess, Reach, Recruits, exit_of};
use crate::launch::{HeldRank, Launch, LaunchError, end, kernel};
use oxmpi_daemon::orphans::Orphans;
use oxmpi_rt_client::control::{DecodeError, Request};
use oxmpi_rt_proto::agent::{HostOrder, HostReport, ProcessEvent};

/// The upper half of an event's 64 bits; 0 and 1 are the ranks' outputs. The lower half is the
/// number of the rank, or the node of the relay.
const CONTROL: u64 = 2;
const ENDED: u64 = 3;
const INPUT: u64 = 4;
const RELAY: u64 = 5;
const RELAY_ENDED: u64 = 6;
const IMAGED: u64 = 7;
/// The first number of events that are not the host's, but of the process that it is in.
pub(crate) const OTHER_EVENTS: u64 = 16;

/// The interval of reading the ranks' memory while checkpoint functions run.
const LOOK: Duration = Duration::from_millis(2);

/// A message of the launcher of a host to the process that it is in.
#[derive(Debug)]
pub(crate) enum FromHost {
    Report(HostReport),
    Event(ProcessEvent),
    /// A request of a rank, with the descriptor that has come with it.
    Request {
        rank: u32,
        request: Request,
        came: Option<OwnedFd>,
    },
    /// A message of a rank that makes no sense.
    Malformed {
        rank: u32,
        error: DecodeError,
    },
    /// The result of [`HostLauncher::begin_imaging`].
    Imaged {
        round: u32,
        made: Result<ImagingResult, String>,
    },
}

/// The launcher of one host.
pub(crate) struct HostLauncher<'a> {
    machine: HostMachine,
    pub(crate) ranks: HostRanks,
    pub(crate) relays: HostRelays,
    /// Ends the ranks if this process is killed. `None`: no ranks have been started.
    guard: Option<Guard>,
    /// The last job of this host.
    pub(crate) launch: Option<Cow<'a, Launch>>,
    /// Whether all processes of the launcher are on this host.
    pub(crate) is_alone: bool,
    /// The name of the socket at which later processes become ranks; empty: there is none.
    pub(crate) entrance: String,
    /// A process that must not be stopped: the tool that has requested images.
    pub(crate) tool: Option<u32>,
    /// Children of this process that carry the streams of agents.
    pub(crate) carriers: Vec<i32>,
    /// Events that are always polled, also those from [`OTHER_EVENTS`] on.
    pub(crate) events: OwnedFd,
    /// The ranks' outputs, polled while there is room for output.
    pub(crate) outputs: OwnedFd,
    inputs: BTreeMap<u32, Input>,
    heirs: Heirs,
    orphans: Orphans,
    /// The descriptions of the stopped ranks.
    described: Vec<HeldRank>,
    imaging: Option<Imaging>,
    /// When the ranks' memory is read next, while checkpoint functions run.
    next_look: Option<Instant>,
    messages: VecDeque<FromHost>,
    buffer: Vec<u8>,
}

impl<'a> HostLauncher<'a> {
    /// A host without ranks.
    pub(crate) fn new() -> rustix::io::Result<HostLauncher<'a>> {
        let create = || epoll::create(epoll::CreateFlags::CLOEXEC);
        Ok(HostLauncher {
            machine: HostMachine::default(),
            ranks: HostRanks::default(),
            relays: HostRelays::default(),
            guard: None,
            launch: None,
            is_alone: false,
            entrance: String::new(),
            tool: None,
            carriers: Vec::new(),
            events: create()?,
            outputs: create()?,
            inputs: BTreeMap::new(),
            heirs: Heirs::default(),
            orphans: Orphans::default(),
            described: Vec::new(),
            imaging: None,
            next_look: None,
            messages: VecDeque::new(),
            buffer: vec![0; 64 << 10],
        })
    }

    /// The head's own host.
    pub(crate) fn of_head(
        launch: &'a Launch,
        entrance: String,
    ) -> Result<HostLauncher<'a>, LaunchError> {
        let host = kernel("wait for the ranks", HostLauncher::new())?;
        let is_alone = launch.spread.is_none();
        Ok(HostLauncher { launch: Some(Cow::Borrowed(launch)), is_alone, entrance, ..host })
    }

    /// Polls a descriptor among [`HostLauncher::events`].
    pub(crate) fn listen(
        &self,
        fd: BorrowedFd<'_>,
        kind: u64,
        name: u32,
    ) -> rustix::io::Result<()> {
        listen(&self.events, fd, kind, name)
    }

    /// Starts the guard process, unless there is one. `mark` is that of restored processes.
    pub(crate) fn start_guard(&mut self, mark: Option<&str>) -> Result<(), LaunchError> {
        if self.guard.is_none() {
            let guard = mark.map_or_else(Guard::start, Guard::start_again);
            self.take_guard(guard)?;
        }
        Ok(())
    }

    /// Takes over a guard process that was started.
    pub(crate) fn take_guard(&mut self, guard: io::Result<Guard>) -> Result<(), LaunchError> {
        let failed = |error| LaunchError::Kernel("start the guard process", error);
        self.guard = Some(guard.map_err(failed)?);
        Ok(())
    }

    /// The guard process; an error if no ranks have been started.
    pub(crate) fn guard(&self) -> Result<&Guard, LaunchError> {
        self.guard.as_ref().ok_or_else(no_guard)
    }

    /// Takes started processes into service as ranks with these numbers and nodes. They learn of
    /// `deaths` failures before their start, and of the step of a quiescence. After an error the
    /// start must be undone ([`HostLauncher::undo_start`]).
    pub(crate) fn enlist_all(
        &mut self,
        numbers: impl IntoIterator<Item = (u32, u32)>,
        Recruits { ranks, outputs, plugs }: Recruits,
        (deaths, step): (u32, Option<u32>),
    ) -> Result<(), LaunchError> {
        let (mut plugs, mut enlisted) = (plugs.into_iter(), Ok(()));
        for ((name, rank), outputs) in numbers.into_iter().zip(ranks).zip(outputs) {
            let status = rank.segment.status();
            // They may be connected with the job that has spawned them, which knows these.
            (0..deaths).for_each(|_| status.note_death());
            step.into_iter().for_each(|step| status.ask_quiesce_step(step));
            // All become ranks before an error in one ends them all.
            enlisted = enlisted.and(self.enlist(name, rank, outputs, plugs.next()));
        }
        kernel("wait for the ranks", enlisted)
    }

    fn enlist(
        &mut self,
        (number, node): (u32, u32),
        rank: RankProcess,
        outputs: Outputs,
        plug: Option<Plug>,
    ) -> rustix::io::Result<()> {
        self.on(HostEvent::Started { rank: number });
        let one = self.ranks.add((number, node), rank, outputs, plug);
        listen(&self.events, one.rank.control.as_fd(), CONTROL, number)?;
        listen(&self.events, one.rank.process.pidfd.as_fd(), ENDED, number)?;
        for (kind, pipe) in (0..).zip(&one.outputs) {
            match pipe {
                Some(pipe) => listen(&self.outputs, pipe.as_fd(), kind, number)?,
                None => {
                    let event = ProcessEvent::Closed { rank: number, is_error: kind == 1 };
                    self.messages.push_back(FromHost::Event(event));
                }
            }
        }
        Ok(())
    }

    /// Removes the ranks from this number on, whose start has failed.
    pub(crate) fn abandon(&mut self, base: u32) {
        self.on(HostEvent::Abandoned { base });
        if let Some(guard) = &self.guard {
            self.ranks.abandon(base, guard);
        }
    }

    /// As [`HostLauncher::abandon`]; a host without other ranks ends the guard process too.
    pub(crate) fn undo_start(&mut self, base: u32) {
        self.abandon(base);
        if self.ranks.is_empty() && self.relays.is_empty() {
            self.guard.take().into_iter().for_each(Guard::dismiss);
        }
    }

    /// Writes the standard input of a rank, which the head sends, to this pipe.
    pub(crate) fn add_input(&mut self, rank: u32, pipe: OwnedFd) {
        self.inputs.insert(rank, Input::new(pipe));
    }

    /// Notes restored processes, which go on by [`HostOrder::GoOn`].
    pub(crate) fn note_restored(&mut self, restored: &[HeldRank]) {
        if !restored.is_empty() {
            let stopped = restored.iter().flat_map(|rank| &rank.stopped).copied().collect();
            self.on(HostEvent::Restored { stopped });
        }
    }

    /// Starts the relay of a node. Returns its process number.
    pub(crate) fn start_relay(
        &mut self,
        (node, begin): (u32, &RelayOrder),
        signals: &Signals,
        listener: Option<&Listener>,
    ) -> Result<i32, LaunchError> {
        let guard = self.guard.as_ref().ok_or_else(no_guard)?;
        let name = |kind| kind << 32 | u64::from(node);
        let events = (&self.events, (name(RELAY), name(RELAY_ENDED)));
        self.relays.start((node, begin), (signals, guard), listener, events)
    }

    /// Ends the relays.
    pub(crate) fn end_relays(&mut self) {
        if let Some(guard) = &self.guard {
            self.relays.end(guard);
        }
    }

    /// The next message of this host.
    pub(crate) fn next_message(&mut self) -> Option<FromHost> {
        self.messages.pop_front()
    }

    /// Carries out an order of the head.
    pub(crate) fn obey(&mut self, order: HostOrder) {
        self.on(HostEvent::Order(order));
    }

    /// Notes that a tool makes images of the stopped ranks.
    pub(crate) fn note_tool_begins(&mut self) {
        self.on(HostEvent::ImagingBegun);
    }

    /// Notes that this tool makes no images any more.
    pub(crate) fn note_tool_ended(&mut self, is_good: bool) {
        self.on(HostEvent::ImagingEnded { is_good });
    }

    fn on(&mut self, event: HostEvent) {
        trace!(?event, "an event of this host");
        for action in self.machine.on(event) {
            trace!(?action, "the host machine has decided");
            self.act(action);
        }
    }

    fn act(&mut self, action: HostAction) {
        match action {
            HostAction::Signal { number, ranks } => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    self.ranks.signal(signal, ranks);
                }
            }
            HostAction::Feed { rank, bytes } => self.feed(rank, Some(&bytes)),
            HostAction::NoteDeaths { count } => self.ranks.note_deaths(count),
            HostAction::RenewListeners => self.renew_listeners(),
            HostAction::AskStep { number } => self.ranks.ask_step(number),
            HostAction::WantCall { number } => {
                self.ranks.want_call(number);
                self.next_look = self.machine.awaited_call().map(|_| Instant::now());
            }
            HostAction::Stop { round } => {
                info!(round, "stopping the ranks of this host");
                let result = still::stop(&self.ranks.pids(), self.tool);
                self.on(HostEvent::Stopped { round, result });
            }
            HostAction::ForwardAll => self.forward_all(),
            HostAction::Describe { round, stopped } => self.describe(round, &stopped),
            HostAction::WithdrawImages => self.withdraw_images(),
            HostAction::Recover { stopped } => still::recover(&stopped),
            HostAction::GoOn { stopped } => {
                info!(processes = stopped.len(), "letting the ranks of this host run");
                stopped.into_iter().for_each(|pid| still::send(pid, Signal::CONT));
                // A restored rank may sleep on connections of its former life, or on none.
                self.ranks.raise_alarms();
            }
            HostAction::PassToRelays { order } => self.relays.pass(&order),
            HostAction::End { rank } => self.end_rank(rank),
            HostAction::Release { ranks } => self.release(ranks),
            HostAction::Forget { ranks } => self.ranks.forget(ranks),
            HostAction::Report(report) => self.report(report),
            HostAction::Change(event) => self.messages.push_back(FromHost::Event(event)),
        }
    }

    fn report(&mut self, report: HostReport) {
        self.messages.push_back(FromHost::Report(report));
    }

    fn renew_listeners(&mut self) {
        let Some(launch) = &self.launch else { return };
        if let Err(error) = self.ranks.renew_listeners(launch, self.is_alone) {
            self.report(HostReport::NoListeners { reason: error.to_string() });
        }
    }

    fn release(&mut self, ranks: Range<u32>) {
        if let Some(guard) = &self.guard {
            self.ranks.release(ranks, guard);
        }
    }

    fn end_rank(&mut self, rank: u32) {
        self.ranks.note_end(rank, self.guard.as_ref());
        self.inputs.remove(&rank);
        if let Some(one) = self.ranks.get(rank) {
            self.relays.report_end(one.node, rank);
        }
    }

    /// The answer to a request that concerns this host alone ([`HostRanks::answer_to`]).
    pub(crate) fn answer_to(
        &mut self,
        sender: u32,
        request: &Request,
        identity: (u32, &[u8; 32]),
    ) -> Option<Answer> {
        match (request, self.ranks.get(sender)) {
            (Request::Relay, Some(one)) => Some(self.relays.supply(one.node, sender)),
            _ => self.ranks.answer_to(sender, request, identity),
        }
    }

    /// Makes a rank, which its own launcher's processes reach on `own`, reachable on `need` too.
    /// With `notifies` a word in its segment makes the rank request the listener.
    pub(crate) fn widen(
        &mut self,
        rank: u32,
        reach: (Reach, Reach),
        notifies: bool,
    ) -> Result<(), String> {
        match &self.launch {
            Some(launch) => self.ranks.widen(rank, launch, reach, notifies),
            None => Ok(()),
        }
    }

    /// Handles an event of this host; `room`: the bytes of output that may be read.
    pub(crate) fn ready(&mut self, kind: u64, name: u32, room: u64) -> rustix::io::Result<()> {
        match kind {
            CONTROL => _ = self.read_control(name),
            ENDED => self.ended(name, room)?,
            INPUT => self.feed(name, None),
            RELAY => self.read_relay(name),
            RELAY_ENDED => self.relay_ended(name)?,
            IMAGED => self.finish_imaging(),
            kind => _ = self.read_output(name, kind as usize),
        }
        Ok(())
    }

    /// When [`HostLauncher::on_time`] has something to do.
    pub(crate) fn time(&self) -> Option<Instant> {
        let times = [self.orphans.time(), self.heirs.time(), self.next_look];
        times.into_iter().flatten().min()
    }

    pub(crate) fn on_time(&mut self, now: Instant, room: u64) -> rustix::io::Result<()> {
        self.look_at_calls(now);
        self.reap_orphans(now);
        self.check_heirs(now, room)
    }

    /// A child of this process has ended.
    pub(crate) fn note_child_ended(&mut self) {
        self.orphans.note();
    }

    fn reap_orphans(&mut self, now: Instant) {
        let mut orphans = std::mem::take(&mut self.orphans);
        orphans.reap(now, || self.awaited_children());
        self.orphans = orphans;
    }

    fn look_at_calls(&mut self, now: Instant) {
        if self.next_look.is_none_or(|next| next > now) {
            return;
        }
        if let Some(number) = self.machine.awaited_call() {
            self.on(HostEvent::Returned { values: self.ranks.returned(number) });
        }
        self.next_look = self.machine.awaited_call().map(|_| now + LOOK);
    }

    /// Reads one message of a rank; returns whether there may be more.
    fn read_control(&mut self, rank: u32) -> bool {
        match self.ranks.control(rank) {
            Control::Message(bytes, came) => {
                self.messages.push_back(match Request::decode(&bytes) {
                    Ok(request) => FromHost::Request { rank, request, came },
                    Err(error) => FromHost::Malformed { rank, error },
                });
                true
            }
            Control::Nothing => false,
            Control::Closed => {
                let socket = self.ranks.get(rank).map(|one| &one.rank.control);
                socket.into_iter().for_each(|socket| _ = epoll::delete(&self.events, socket));
                false
            }
        }
    }

    /// Reads all messages that a rank has sent.
    pub(crate) fn read_messages_of(&mut self, rank: u32) {
        while self.read_control(rank) {}
    }

    /// Reads all messages that ranks have sent.
    pub(crate) fn read_all_messages(&mut self) {
        self.ranks.numbers().into_iter().for_each(|rank| self.read_messages_of(rank));
    }

    /// Replaces the control socket of a rank by another one with the same process.
    pub(crate) fn replace_control(&mut self, rank: u32, socket: OwnedFd) -> bool {
        let Some(LocalRank { rank: process, .. }) = self.ranks.get_mut(rank) else { return false };
        let _ = epoll::delete(&self.events, &process.control);
        let _ = epoll::delete(&self.events, &socket);
        (process.control, process.peer) = (socket, None);
        listen(&self.events, process.control.as_fd(), CONTROL, rank).is_ok()
    }

    /// Reads a rank's output once. `kind` is 0 for standard output, 1 for standard error. Returns
    /// the number of bytes.
    fn read_output(&mut self, rank: u32, kind: usize) -> usize {
        let is_error = kind == 1;
        match self.ranks.read(rank, kind, &mut self.buffer) {
            Came::Bytes(n) => {
                let bytes = self.buffer[..n].to_vec();
                self.report(HostReport::Output { rank, is_error, bytes });
                n
            }
            Came::Nothing => 0,
            Came::End => {
                self.ranks.close(rank, kind);
                self.messages.push_back(FromHost::Event(ProcessEvent::Closed { rank, is_error }));
                0
            }
        }
    }

    /// Forwards all messages and output of the ranks, which are stopped.
    fn forward_all(&mut self) {
        for rank in self.ranks.numbers() {
            self.read_messages_of(rank);
            for kind in [0, 1] {
                while self.ranks.has_output(rank, kind) {
                    self.read_output(rank, kind);
                }
            }
        }
    }

    fn ended(&mut self, rank: u32, room: u64) -> rustix::io::Result<()> {
        let Some(one) = self.ranks.get(rank) else { return Ok(()) };
        let Some(exit) = exit_of(&one.rank)? else { return Ok(()) };
        if !self.heirs.is_awaited(rank) {
            epoll::delete(&self.events, &one.rank.process.pidfd)?;
        }
        if self.is_succeeded(rank, exit)? {
            return Ok(());
        }
        // The process's last messages and output come before its end.
        self.read_messages_of(rank);
        let mut read = 0;
        for kind in [0, 1] {
            while read < room && self.ranks.has_output(rank, kind) {
                read += self.read_output(rank, kind) as u64;
            }
        }
        if let Some(seen) = self.ranks.get(rank).map(LocalRank::seen) {
            debug!(rank, pid = seen.pid, ?exit, stage = ?seen.stage, "a rank has ended");
            self.on(HostEvent::Exited { rank, exit, seen });
        }
        Ok(())
    }

    /// Writes standard input of a rank: these bytes, or those for which there was no room.
    fn feed(&mut self, rank: u32, bytes: Option<&[u8]>) {
        let Some(input) = self.inputs.get_mut(&rank) else {
            // Its end is reported too, or it reads no more.
            return;
        };
        bytes.into_iter().for_each(|bytes| input.take(bytes));
        let (bytes, state) = input.write(&self.events, INPUT << 32 | u64::from(rank));
        if state != InputState::Open {
            self.inputs.remove(&rank);
        }
        if bytes > 0 {
            self.report(HostReport::InputTaken { rank, bytes });
        }
        if state == InputState::Closed {
            self.report(HostReport::InputClosed { rank });
        }
    }

    fn read_relay(&mut self, node: u32) {
        while let Some(notice) = self.relays.next_notice(node, &self.events) {
            self.report(HostReport::Relay { node, notice });
        }
    }

    /// Reads all notices that relays have sent.
    pub(crate) fn read_relays(&mut self) {
        self.relays.nodes().into_iter().for_each(|node| self.read_relay(node));
    }

    fn relay_ended(&mut self, node: u32) -> rustix::io::Result<()> {
        self.read_relay(node);
        if let Some((pid, exit, why)) = self.relays.take_end(node, &self.events)? {
            self.report(HostReport::RelayEnded { node, pid: pid.cast_unsigned(), exit, why });
        }
        Ok(())
    }

    /// Kills all processes of the host, and reaps them.
    pub(crate) fn end(&mut self) {
        if let Some(guard) = self.guard.take() {
            self.relays.end(&guard);
            end::reap(self.ranks.processes(), guard);
        }
    }
}

fn no_guard() -> LaunchError {
    LaunchError::Order("its ranks have no guard process".into())
}

fn listen(set: &OwnedFd, fd: BorrowedFd<'_>, kind: u64, name: u32) -> rustix::io::Result<()> {
    let data = epoll::EventData::new_u64(kind << 32 | u64::from(name));
    epoll::add(set, fd, data, epoll::EventFlags::IN)
}
