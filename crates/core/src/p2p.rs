//! Point-to-point communication (MPI-5.0 chapter 3).

use crate::comm::Communicator;
use crate::completion::outcome;
use crate::errors::of_fault;
use crate::failure::check_not_revoked;
use crate::oversubscribed::{OversubscribedWait, PollPause};
use crate::process::{Domain, Process};
use crate::wait_reason::Awaited;
use oxmpi_abi::constants as abi;
use oxmpi_abi::extensions::MPIX_ERR_PROC_FAILED;
use oxmpi_engine::{
    ANYBODY, Completion, Fault, MatchSource, Mode, Now, Received, RequestId, Started,
    StartedReceive, TagMatch,
};
use oxmpi_fabric::{Fabric, SentNow};
use oxmpi_mem::buffer::{PlainBuf, UserBuf};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::shown::{self, ValueKind};
use oxmpi_shm::door::Door;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::Tags;
use std::ops::DerefMut;

/// The completion of a receive from MPI_PROC_NULL (MPI-5.0 section 3.10).
pub const NO_PROCESS: Completion = Completion { source: abi::MPI_PROC_NULL, ..Completion::EMPTY };

impl<F: Fabric> Process<F> {
    /// The largest tag (the attribute MPI_TAG_UB).
    pub fn tag_ub(&self) -> i32 {
        self.last_tag
    }

    pub(crate) fn check_tag(&self, tag: i32) -> Result<()> {
        let last = self.last_tag;
        if (0..=last).contains(&tag) {
            return Ok(());
        }
        let tag = shown::number(ValueKind::Tag, tag);
        let text = format!("tag is {tag}; it must lie between 0 and {last}");
        Err(MpiError::new(abi::MPI_ERR_TAG, text))
    }

    pub(crate) fn tag_match(&self, tag: i32) -> Result<TagMatch> {
        match tag {
            abi::MPI_ANY_TAG => Ok(TagMatch::Any),
            tag => self.check_tag(tag).map(|()| TagMatch::Is(tag)).map_err(|e| {
                MpiError::new(abi::MPI_ERR_TAG, format!("{}, or be MPI_ANY_TAG", e.detail()))
            }),
        }
    }

    /// Checks the rank and tag of a send and of a receive before a caller's longer work.
    pub fn check_exchange(
        &self,
        comm: &Communicator,
        (dest, send_tag): (i32, i32),
        (source, receive_tag): (i32, i32),
    ) -> Result<()> {
        let of = |side: &str, error: MpiError| {
            MpiError::new(error.class(), format!("{side}{}", error.detail()))
        };
        self.check_tag(send_tag).map_err(|error| of("send", error))?;
        if dest != abi::MPI_PROC_NULL {
            comm.process(dest, "dest")?;
        }
        self.tag_match(receive_tag).map_err(|error| of("recv", error))?;
        source_of(comm, source).map(drop)
    }
}

#[inline(always)]
fn plain_tags(tag: i32) -> Option<Tags> {
    match tag {
        0.. => Some(Tags::one(tag)),
        abi::MPI_ANY_TAG => Some(Tags::ANY),
        _ => None,
    }
}

/// The source of a receive or probe; `None` for MPI_PROC_NULL.
pub(crate) fn source_of(comm: &Communicator, source: i32) -> Result<Option<MatchSource>> {
    check_not_revoked(comm)?;
    match source {
        abi::MPI_ANY_SOURCE => Ok(Some(MatchSource::Any)),
        abi::MPI_PROC_NULL => Ok(None),
        rank => Ok(Some(MatchSource::Process(comm.process(rank, "source")?))),
    }
}

impl<F: Fabric> Process<F> {
    /// Sends contiguous bytes without a request: the low-latency path, inlined as a whole. `false`
    /// means that nothing happened; use [`Process::send_now`]. With `MAY_WAIT` the call may wait
    /// until the message has left, so no nonblocking call sets it.
    #[inline(always)]
    pub fn try_send<const MAY_WAIT: bool>(
        &self,
        context: u32,
        bytes: Bytes<'_>,
        dest: i32,
        tag: i32,
    ) -> bool {
        if tag < 0 {
            return false;
        }
        match self.domain.home() {
            Some(domain) => self.sent_by::<MAY_WAIT>(domain, context, bytes, dest, tag),
            None => self.try_send_locked::<MAY_WAIT>(context, bytes, dest, tag),
        }
    }

    #[inline(never)]
    fn try_send_locked<const MAY_WAIT: bool>(
        &self,
        context: u32,
        bytes: Bytes<'_>,
        dest: i32,
        tag: i32,
    ) -> bool {
        self.sent_by::<MAY_WAIT>(self.domain.lock(), context, bytes, dest, tag)
    }

    #[inline(always)]
    fn sent_by<const MAY_WAIT: bool>(
        &self,
        mut domain: impl DerefMut<Target = Domain<F>>,
        context: u32,
        bytes: Bytes<'_>,
        dest: i32,
        tag: i32,
    ) -> bool {
        let sent = domain.lane.try_send(context, dest, tag, bytes);
        if sent == SentNow::No {
            return self.sent_otherwise::<MAY_WAIT>(domain, context, bytes, dest, tag);
        }
        let look = domain.lane.is_look_due(1);
        drop(domain);
        if look || sent == SentNow::Wake {
            self.see_to_sent(context, dest);
        }
        true
    }

    /// A second attempt of [`Process::try_send`], by newly read credits or by tag.
    #[inline(never)]
    fn sent_otherwise<const MAY_WAIT: bool>(
        &self,
        mut domain: impl DerefMut<Target = Domain<F>>,
        context: u32,
        bytes: Bytes<'_>,
        dest: i32,
        tag: i32,
    ) -> bool {
        if domain.lane.is_matching() {
            return MAY_WAIT && self.sent_by_tag(domain, context, bytes, dest, tag);
        }
        let Some(to) = domain.lane.process_of(context, dest) else { return false };
        let sent = domain.lane.send_now(context, to, tag, bytes);
        domain.lane.note_route(context, dest as u32, to);
        let look = sent && domain.lane.is_look_due(1);
        drop(domain);
        if look {
            self.look_now_and_then();
        }
        sent
    }

    /// [`Process::try_send`] by tag. It waits until the message has left. If the peer is lost
    /// meanwhile, the next call reports the loss.
    fn sent_by_tag(
        &self,
        mut domain: impl DerefMut<Target = Domain<F>>,
        context: u32,
        bytes: Bytes<'_>,
        dest: i32,
        tag: i32,
    ) -> bool {
        let Some(started) = domain.lane.try_send_tagged(context, dest, tag, bytes) else {
            return false;
        };
        let look = domain.lane.is_look_due(1);
        drop(domain);
        if let Started::Pending(request) = started {
            let _ = self.wait(request);
        } else if look {
            self.look_now_and_then();
        }
        true
    }

    /// Wakes a sleeping receiver after a send on the fast path, and makes progress if it is due.
    #[cold]
    #[inline(never)]
    fn see_to_sent(&self, context: u32, dest: i32) {
        let look = {
            let mut domain = self.domain.lock();
            if let Some(to) = domain.lane.process_of(context, dest) {
                domain.lane.fabric_mut().wake(to);
            }
            domain.lane.is_look_due(0)
        };
        if look {
            self.look_now_and_then();
        }
    }

    /// A blocking eager send of contiguous bytes without a request, after which
    /// [`Process::try_send`] may serve the rank. `false` means that nothing was sent; use
    /// [`Process::send`].
    pub fn send_now(&self, comm: &Communicator, bytes: Bytes<'_>, dest: i32, tag: i32) -> bool {
        if (dest | tag) < 0 {
            return false;
        }
        let Some(to) = comm.team.map.process(dest as u32) else { return false };
        let context = comm.team.point_to_point;
        let (sent, look) = {
            let mut domain = self.domain.lock();
            let sent = domain.lane.send_now(context, to, tag, bytes);
            domain.lane.note_route(context, dest as u32, to);
            (sent, sent && domain.lane.is_look_due(1))
        };
        if look {
            self.look_now_and_then();
        }
        sent
    }

    /// Notes the route of a receive's source. Returns whether the route is new, so that the receive
    /// may use [`Process::receive_soon`] from now on.
    pub fn note_source(&self, comm: &Communicator, source: i32) -> bool {
        let Ok(rank) = u32::try_from(source) else { return false };
        let Some(process) = comm.team.map.process(rank) else { return false };
        self.domain.lock().lane.note_route(comm.team.point_to_point, rank, process)
    }

    /// Makes progress of everything: from time to time on fast paths, and before a wait.
    #[cold]
    #[inline(never)]
    pub fn look_now_and_then(&self) {
        self.look(|_| ());
    }

    /// Counts a call that did not wait, and makes progress if it is due. Programs poll in loops
    /// around such calls.
    pub fn look_if_due(&self) {
        let due = self.domain.lock().lane.is_look_due(1);
        if due {
            self.look_now_and_then();
        }
    }

    /// Makes progress, but leaves the frames of one rank in its ring for later receives.
    #[cold]
    #[inline(never)]
    fn look_elsewhere(&self, context: u32, rank: i32) {
        let callbacks_may_be_due = self.enter(|domain| {
            let came = match domain.lane.process_of(context, rank) {
                Some(peer) => domain.lane.progress_except(peer),
                None => domain.lane.progress(),
            };
            if came {
                domain.serve();
            }
            domain.goes_on_above()
        });
        if callbacks_may_be_due {
            self.look(|_| ());
        }
    }

    /// A blocking send (MPI_Send, MPI_Ssend, MPI_Bsend, MPI_Rsend).
    pub fn send(
        &self,
        comm: &Communicator,
        mode: Mode,
        buffer: UserBuf,
        dest: i32,
        tag: i32,
    ) -> Result<()> {
        match self.start_send(comm, mode, buffer, dest, tag)? {
            Started::Complete(completion) => outcome(completion).map(drop),
            Started::Pending(request) => self.wait(request).map(drop),
        }
    }

    /// A nonblocking send (MPI_Isend and related calls).
    pub fn isend(
        &self,
        comm: &Communicator,
        mode: Mode,
        buffer: UserBuf,
        dest: i32,
        tag: i32,
    ) -> Result<RequestId> {
        match self.start_send(comm, mode, buffer, dest, tag) {
            Ok(Started::Complete(completion)) => outcome(completion).map(|_| RequestId::COMPLETE),
            Ok(Started::Pending(request)) => Ok(request),
            Err(error) => self.late(error, comm, dest),
        }
    }

    /// Starts a send, which may be complete at once.
    pub fn start_send(
        &self,
        comm: &Communicator,
        mode: Mode,
        buffer: UserBuf,
        dest: i32,
        tag: i32,
    ) -> Result<Started> {
        self.check_tag(tag)?;
        if dest == abi::MPI_PROC_NULL {
            check_not_revoked(comm)?;
            return Ok(Started::Complete(Completion::EMPTY));
        }
        let to = comm.process(dest, "dest")?;
        let context = comm.team.point_to_point;
        let start = |domain: &mut Domain<F>, buffer| {
            let started =
                domain.lane.start_send(context, mode, buffer, to, tag).map_err(of_fault)?;
            Ok((started, domain.lane.is_look_due(1)))
        };
        let (started, look) = if mode == Mode::Buffered {
            self.start_with_room(|domain| {
                domain.check_room(context, buffer.packed_len())?;
                Ok(start(domain, buffer.clone()))
            })?
        } else {
            self.enter(|domain| start(domain, buffer))?
        };
        if look {
            self.look_now_and_then();
        }
        Ok(started)
    }

    /// Receives a short message directly from the ring: the low-latency path, inlined as a whole.
    /// `None` means that nothing happened; use [`Process::receive_soon`].
    #[inline(always)]
    pub fn try_receive(
        &self,
        context: u32,
        into: BytesMut<'_>,
        source: i32,
        tag: i32,
    ) -> Option<Received> {
        let tags = plain_tags(tag)?;
        let mut domain = self.domain.home()?;
        let received = domain.lane.try_receive(context, source, tags, into)?;
        let look = domain.lane.is_look_due(1);
        drop(domain);
        if look {
            self.look_elsewhere(context, source);
        }
        Some(received)
    }

    /// A blocking receive into contiguous memory from a rank with a known route. It makes a request
    /// only if the message takes long: it polls for a while, on an oversubscribed node only while
    /// the source runs. `None` means that this path did not receive the message; use
    /// [`Process::recv`].
    #[inline(never)]
    pub fn receive_soon(
        &self,
        context: u32,
        into: &PlainBuf,
        source: i32,
        tag: i32,
    ) -> Result<Option<Completion>> {
        const POLLS: u32 = 32;
        let Some(tags) = plain_tags(tag) else { return Ok(None) };
        if source == abi::MPI_ANY_SOURCE {
            return Ok(self.receive_from_anybody_soon(context, into, tags));
        }
        let (mut wait, mut oversubscribed) = (None, None);
        loop {
            for _ in 0..POLLS {
                // After a wait the message is most often short and has arrived.
                if let Some(received) = self.try_receive(context, into.bytes_mut(), source, tag) {
                    return Ok(Some(received.into()));
                }
                let (now, from, look, is_away) = {
                    let mut domain = self.domain.lock();
                    let Some(from) = domain.lane.process_of(context, source) else {
                        return Ok(None);
                    };
                    let now = domain.lane.receive_now(context, (from, source), tags, into);
                    let look = matches!(now, Now::Received(_)) && domain.lane.is_look_due(1);
                    let is_waiting = self.is_oversubscribed && matches!(now, Now::NotYet);
                    (now, from, look, is_waiting && domain.lane.fabric().is_away(from))
                };
                if look {
                    self.look_elsewhere(context, source);
                }
                match now {
                    Now::Received(received) => return Ok(Some(received.into())),
                    Now::Begun(request) => return self.wait_raw(request.raw()).map(Some),
                    Now::NotYet => {}
                    Now::NeverSo => return Ok(None),
                }
                let Some(door) = &self.door else { return Ok(None) };
                if self.is_oversubscribed {
                    let wait =
                        oversubscribed.get_or_insert_with(|| OversubscribedWait::new(door.begin()));
                    match wait.pass(is_away) {
                        PollPause::Shortly => {}
                        PollPause::Aside => self.look_elsewhere(context, source),
                        PollPause::Over => return Ok(None),
                    }
                    continue;
                }
                let wait = wait.get_or_insert_with(|| door.begin());
                if !wait.is_spinning() {
                    return Ok(None);
                }
                match self.comes_soon(from) {
                    Some(true) => {}
                    Some(false) => break,
                    None => wait.pass_gap(),
                }
            }
            // Progress would put the frames of that peer into the unexpected queue.
            self.look_elsewhere(context, source);
        }
    }

    /// [`Process::receive_soon`] from MPI_ANY_SOURCE: polls all peers, and receives a message from
    /// the unexpected queue without a request.
    #[inline(never)]
    fn receive_from_anybody_soon(
        &self,
        context: u32,
        into: &PlainBuf,
        tags: Tags,
    ) -> Option<Completion> {
        let mut wait = None;
        loop {
            let (now, look) = self.enter(|domain| {
                let now = domain.lane.receive_from_anybody_now(context, tags, into);
                if !matches!(now, Now::NotYet) {
                    return (now, domain.lane.is_look_due(1));
                }
                if !domain.lane.progress() {
                    return (now, domain.goes_on_above());
                }
                domain.serve();
                let now = domain.lane.receive_from_anybody_now(context, tags, into);
                (now, domain.goes_on_above())
            });
            if look {
                self.look_now_and_then();
            }
            match now {
                Now::Received(received) => return Some(received.into()),
                Now::NotYet => {}
                Now::Begun(_) | Now::NeverSo => return None,
            }
            let door = self.door.as_ref().filter(|_| !self.is_oversubscribed)?;
            let wait = wait.get_or_insert_with(|| door.begin());
            if !wait.is_spinning() {
                return None;
            }
            wait.pass_gap();
        }
    }

    /// [`Fabric::comes_soon`]; `None` in a process with threads, in which another thread may poll.
    #[inline]
    pub(crate) fn comes_soon(&self, from: u32) -> Option<bool> {
        if !self.door.as_ref().is_some_and(Door::spins) {
            return None;
        }
        self.domain.home()?.lane.fabric().comes_soon(from)
    }

    /// Whether a receive may use [`Process::receive_soon`].
    #[inline(always)]
    pub fn may_receive(&self, context: u32, source: i32, tag: i32) -> bool {
        plain_tags(tag).is_some() && self.domain.lock().lane.process_of(context, source).is_some()
    }

    /// A blocking receive from a rank with a known route. Like [`Process::recv_whatever`] it
    /// returns the completion of a failed message.
    #[inline(never)]
    pub fn receive_from(
        &self,
        context: u32,
        into: PlainBuf,
        source: i32,
        tag: i32,
    ) -> Result<Completion> {
        let tag = self.tag_match(tag)?;
        let started = self.enter(|domain| match domain.lane.process_of(context, source) {
            Some(from) => {
                domain.lane.start_receive(context, into.into(), MatchSource::Process(from), tag)
            }
            // A revocation removes the routes.
            None => Err(Fault::Revoked),
        });
        self.received_whole(started.map_err(of_fault)?)
    }

    /// A nonblocking receive into contiguous memory, from a rank with a known route or from
    /// MPI_ANY_SOURCE. `None` means that nothing happened; use [`Process::irecv`].
    #[inline(always)]
    pub fn try_irecv(
        &self,
        context: u32,
        into: PlainBuf,
        source: i32,
        tag: i32,
    ) -> Option<RequestId> {
        match self.domain.home() {
            Some(domain) => self.posted_plain(domain, context, into, source, tag),
            None => self.try_irecv_locked(context, into, source, tag),
        }
    }

    #[inline(never)]
    fn try_irecv_locked(
        &self,
        context: u32,
        into: PlainBuf,
        source: i32,
        tag: i32,
    ) -> Option<RequestId> {
        self.posted_plain(self.domain.lock(), context, into, source, tag)
    }

    #[inline(always)]
    fn posted_plain(
        &self,
        mut domain: impl DerefMut<Target = Domain<F>>,
        context: u32,
        into: PlainBuf,
        source: i32,
        tag: i32,
    ) -> Option<RequestId> {
        let tags = plain_tags(tag)?;
        let from = if source == abi::MPI_ANY_SOURCE { Some(ANYBODY) } else { None };
        match domain.lane.receive_plain(context, (from, source), tags, into)? {
            StartedReceive::Waits(request) => Some(request),
            StartedReceive::Taken(request) => {
                let look = domain.lane.is_look_due(1);
                drop(domain);
                if look {
                    self.look_elsewhere(context, source);
                }
                Some(request)
            }
        }
    }

    /// A blocking receive (MPI_Recv).
    pub fn recv(
        &self,
        comm: &Communicator,
        buffer: UserBuf,
        source: i32,
        tag: i32,
    ) -> Result<Completion> {
        outcome(self.recv_whatever(comm, buffer, source, tag)?)
    }

    /// [`Process::recv`], except that it returns the completion of a failed message, since the
    /// standard requires the fields of its status.
    pub fn recv_whatever(
        &self,
        comm: &Communicator,
        buffer: UserBuf,
        source: i32,
        tag: i32,
    ) -> Result<Completion> {
        let started = self.start_receive(comm, buffer, source, tag)?;
        self.received_whole(started)
    }

    fn received_whole(&self, started: Started) -> Result<Completion> {
        match started {
            Started::Complete(completion) => Ok(completion),
            Started::Pending(request) => {
                let completion = self.wait_raw(request.raw())?;
                Ok(self.given_up(request, completion))
            }
        }
    }

    /// Ends a blocking receive from any source after a possible sender has failed.
    pub(crate) fn given_up(&self, request: RequestId, completion: Completion) -> Completion {
        match completion.fault {
            Some(Fault::Pending { peer }) => {
                self.enter(|domain| domain.abandon(request));
                Completion { stays: false, fault: Some(Fault::Lost { peer }), ..completion }
            }
            _ => completion,
        }
    }

    /// The failed request of a nonblocking operation whose peer had failed before the call.
    fn late(&self, error: MpiError, comm: &Communicator, peer: i32) -> Result<RequestId> {
        if error.class() != MPIX_ERR_PROC_FAILED {
            return Err(error);
        }
        let peer = comm.process(peer, "peer")?;
        Ok(self.failed_request(Fault::Lost { peer }, comm.team.point_to_point))
    }

    /// A nonblocking receive (MPI_Irecv).
    pub fn irecv(
        &self,
        comm: &Communicator,
        buffer: UserBuf,
        source: i32,
        tag: i32,
    ) -> Result<RequestId> {
        match self.start_receive(comm, buffer, source, tag) {
            Ok(started) => Ok(self.request_of(started)),
            Err(error) => self.late(error, comm, source),
        }
    }

    /// The request of a receive. A complete receive has a status, so it needs its own request.
    pub(crate) fn request_of(&self, started: Started) -> RequestId {
        match started {
            Started::Pending(request) => request,
            Started::Complete(completion) => self.domain.lock().completed(completion),
        }
    }

    /// Starts a receive, which may be complete at once.
    pub fn start_receive(
        &self,
        comm: &Communicator,
        buffer: UserBuf,
        source: i32,
        tag: i32,
    ) -> Result<Started> {
        let tag = self.tag_match(tag)?;
        let Some(source) = source_of(comm, source)? else {
            return Ok(Started::Complete(NO_PROCESS));
        };
        let context = comm.team.point_to_point;
        self.enter(|domain| domain.lane.start_receive(context, buffer, source, tag))
            .map_err(of_fault)
    }

    /// Whether there is certainly no message for a probe from MPI_ANY_SOURCE or from a rank with a
    /// known route. Changes no state. If it returns `false`, use [`Process::iprobe`].
    #[inline(always)]
    pub fn has_none(&self, context: u32, source: i32, tag: i32) -> bool {
        // The xor is 0 for MPI_ANY_TAG, negative for a tag, and positive for other negative
        // numbers.
        if tag ^ abi::MPI_ANY_TAG > 0 || self.is_oversubscribed {
            return false;
        }
        let Some(domain) = self.domain.home() else { return false };
        let source = if source == abi::MPI_ANY_SOURCE { None } else { Some(source) };
        domain.lane.has_none(context, source) && !domain.goes_on_above()
    }

    /// Probes for a message (MPI_Iprobe).
    pub fn iprobe(&self, comm: &Communicator, source: i32, tag: i32) -> Result<Option<Completion>> {
        let tag = self.tag_match(tag)?;
        let Some(source) = source_of(comm, source)? else { return Ok(Some(NO_PROCESS)) };
        let context = comm.team.point_to_point;
        self.look_again(
            |domain| domain.lane.probe(context, source, tag),
            |found| matches!(found, Ok(None)),
        )
        .map_err(of_fault)
    }

    /// Waits for a message without receiving it (MPI_Probe).
    pub fn probe(&self, comm: &Communicator, source: i32, tag: i32) -> Result<Completion> {
        let tag = self.tag_match(tag)?;
        let Some(source) = source_of(comm, source)? else { return Ok(NO_PROCESS) };
        let context = comm.team.point_to_point;
        let awaited = Awaited::Message(context, source, tag);
        self.wait_for(&awaited, |domain| domain.lane.probe(context, source, tag).transpose())
            .map_err(of_fault)
    }

    /// MPI_Sendrecv. Returns the completion of a failed received message, as
    /// [`Process::recv_whatever`] does.
    pub fn sendrecv(
        &self,
        comm: &Communicator,
        send: SendrecvSend,
        receive: SendrecvReceive,
    ) -> Result<Completion> {
        let (sent, received) = self.start_both(comm, send, receive)?;
        // While this rank waits for the receive, the peer may read the sent data in place, without
        // a copy.
        let received = self.wait_raw(received.raw());
        self.wait(sent)?;
        received
    }

    /// MPI_Isendrecv: one request for the send and the receive.
    pub fn isendrecv(
        &self,
        comm: &Communicator,
        send: SendrecvSend,
        receive: SendrecvReceive,
    ) -> Result<RequestId> {
        let (sent, received) = self.start_both(comm, send, receive)?;
        Ok(self.domain.lock().lane.open_pair(sent, received))
    }

    fn start_both(
        &self,
        comm: &Communicator,
        send: SendrecvSend,
        receive: SendrecvReceive,
    ) -> Result<(RequestId, RequestId)> {
        self.check_exchange(comm, (send.dest, send.tag), (receive.source, receive.tag))?;
        let received = self.irecv(comm, receive.buffer, receive.source, receive.tag)?;
        match self.isend(comm, Mode::Standard, send.buffer, send.dest, send.tag) {
            Ok(sent) => Ok((sent, received)),
            Err(error) => {
                // When this call returns, the buffer belongs to the program again.
                self.enter(|domain| domain.lane.abandon(received));
                Err(error)
            }
        }
    }
}

/// The arguments of the send of a sendrecv.
#[derive(Debug)]
pub struct SendrecvSend {
    pub buffer: UserBuf,
    /// A rank, or MPI_PROC_NULL.
    pub dest: i32,
    pub tag: i32,
}

/// The arguments of the receive of a sendrecv.
#[derive(Debug)]
pub struct SendrecvReceive {
    pub buffer: UserBuf,
    /// A rank, MPI_ANY_SOURCE or MPI_PROC_NULL.
    pub source: i32,
    pub tag: i32,
}
