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
        Err(MpiError::new(
            abi::MPI_ERR_TAG,
            format!("tag is {tag}; it must lie between 0 and {last}"),
        ))
    }

    pub(crate) fn tag_match(&self, tag: i32) -> Result<TagMatch> {
        match tag {
            abi::MPI_ANY_TAG => Ok(TagMatch::Any),
            tag => self.check_tag(tag).map(|()| TagMatch::Is(tag)).map_err(|e| {
                MpiError::new(abi::MPI_ERR_TAG, format!("{}, or be MPI_ANY_TAG", e.detail()))
            }),
        }
    }

    /// Checks the rank and tag of a send and of a receive, for callers with much work before the
    /// call.
    pub fn check_exchange(
        &self,
        comm: &Communicator,
        (dest, send_tag): (i32, i32),
        (source, receive_tag): (i32, i32),
    ) -> Result<()> {
        self.check_tag(send_tag)?;
        if dest != abi::MPI_PROC_NULL {
            comm.process(dest, "dest")?;
        }
        self.tag_match(receive_tag)?;
        source_of(comm, source).map(drop)
    }
}

/// The tags of a receive on a fast path; `None` if the tag is wrong.
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
    /// Sends contiguous bytes without a request: the low-latency path, inlined as a whole. `false`:
    /// this path cannot serve the message, or an argument is wrong, and nothing happened; use
    /// [`Process::send_now`]. With `MAY_WAIT` it may wait until the message has left, which no
    /// nonblocking call may.
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

    /// [`Process::try_send`] by a second attempt that reads the credits of the ring, or by tag.
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
        // The receiver's index may be known only since the route was noted.
        domain.lane.note_route(context, dest as u32, to);
        let look = sent && domain.lane.is_look_due(1);
        drop(domain);
        if look {
            self.look_now_and_then();
        }
        sent
    }

    /// [`Process::try_send`] by tag. It waits until the message has left; a loss of the peer
    /// meanwhile is reported by the next call.
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

    /// The rare work after a send on the fast path: its receiver sleeps, or progress is due.
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

    /// A blocking eager send of contiguous bytes without a request; later sends to that rank use
    /// [`Process::try_send`]. `false`: nothing was sent; use [`Process::send`], which reports wrong
    /// arguments.
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

    /// Notes the route of a receive's source. Returns whether it is new, so that a receive may now
    /// use [`Process::receive_soon`].
    pub fn note_source(&self, comm: &Communicator, source: i32) -> bool {
        let Ok(rank) = u32::try_from(source) else { return false };
        let Some(process) = comm.team.map.process(rank) else { return false };
        self.domain.lock().lane.note_route(comm.team.point_to_point, rank, process)
    }

    /// Progress of everything: due from time to time on fast paths, and before a wait.
    #[cold]
    #[inline(never)]
    pub fn look_now_and_then(&self) {
        self.look(|_| ());
    }

    /// Counts a call that did not wait, and makes progress if it is due: programs poll in loops
    /// around such calls.
    pub fn look_if_due(&self) {
        let due = self.domain.lock().lane.is_look_due(1);
        if due {
            self.look_now_and_then();
        }
    }

    /// [`Process::look_now_and_then`] without the frames of the rank whose messages are being
    /// received one by one.
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

    /// Receives a short message directly from the ring, if it is there: the low-latency path,
    /// inlined as a whole. `None`: it is not there, an argument is wrong, or the process has
    /// threads, and nothing happened; use [`Process::receive_soon`].
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

    /// A blocking receive into contiguous memory from a rank with a known route, without a request
    /// unless the message takes long. It polls for a while; on an oversubscribed node only while
    /// the source runs, else it yields the processor. Between polls, and between messages,
    /// everything else makes progress from time to time. `None`: the message did not come this way;
    /// use [`Process::recv`], which reports wrong arguments.
    #[inline(never)]
    pub fn receive_soon(
        &self,
        context: u32,
        into: &PlainBuf,
        source: i32,
        tag: i32,
    ) -> Result<Option<Completion>> {
        /// Polls for the one message between two progress calls.
        const POLLS: u32 = 32;
        let Some(tags) = plain_tags(tag) else { return Ok(None) };
        if source == abi::MPI_ANY_SOURCE {
            return Ok(self.receive_from_anybody_soon(context, into, tags));
        }
        let (mut wait, mut oversubscribed) = (None, None);
        loop {
            for _ in 0..POLLS {
                // After a wait the message is most often short and there.
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

    /// [`Fabric::comes_soon`]; `None` with threads, as another thread may want to poll.
    #[inline]
    pub(crate) fn comes_soon(&self, from: u32) -> Option<bool> {
        if !self.door.as_ref().is_some_and(Door::spins) {
            return None;
        }
        self.domain.home()?.lane.fabric().comes_soon(from)
    }

    /// Whether a receive may use [`Process::receive_soon`]: its arguments are right and the route
    /// is known.
    #[inline(always)]
    pub fn may_receive(&self, context: u32, source: i32, tag: i32) -> bool {
        plain_tags(tag).is_some() && self.domain.lock().lane.process_of(context, source).is_some()
    }

    /// A blocking receive from a rank with a known route. A failed message is no error, as in
    /// [`Process::recv_whatever`].
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
    /// MPI_ANY_SOURCE. `None`: this path cannot serve the receive, or an argument is wrong, and
    /// nothing happened; use [`Process::irecv`].
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

    /// [`Process::recv`], except that a failed message is no error: the standard requires its
    /// completion in the status.
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

    /// Ends a blocking receive from any source that would continue to wait although a possible
    /// sender has failed.
    pub(crate) fn given_up(&self, request: RequestId, completion: Completion) -> Completion {
        match completion.fault {
            Some(Fault::Pending { peer }) => {
                self.enter(|domain| domain.abandon(request));
                Completion { stays: false, fault: Some(Fault::Lost { peer }), ..completion }
            }
            _ => completion,
        }
    }

    /// The request of a nonblocking operation whose peer has failed before.
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

    /// The request of a receive. A complete one has a status, so it needs its own request.
    pub(crate) fn request_of(&self, started: Started) -> RequestId {
        match started {
            Started::Pending(request) => request,
            Started::Complete(completion) => {
                let mut domain = self.domain.lock();
                let request = domain.lane.open_external();
                domain.lane.complete_external(request, completion);
                request
            }
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

    /// Whether there is certainly no message for a probe from MPI_ANY_SOURCE or a rank with a known
    /// route, found without any change of state. Always `false` with threads, or on an
    /// oversubscribed node, where a probe yields the processor; then use [`Process::iprobe`], which
    /// reports wrong arguments.
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

    /// MPI_Sendrecv. A failed received message is no error, as in [`Process::recv_whatever`].
    pub fn sendrecv(
        &self,
        comm: &Communicator,
        send: SendrecvSend,
        receive: SendrecvReceive,
    ) -> Result<Completion> {
        let (sent, received) = self.start_both(comm, send, receive)?;
        // During the wait for the receive the peer may read the sent data in place, so that they
        // need no copy.
        let received = self.wait_raw(received.raw());
        self.wait(sent)?;
        received
    }

    /// MPI_Isendrecv: one request for both.
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
        // A call with a wrong argument must not receive a message, so all are checked before the
        // receive is posted.
        self.check_exchange(comm, (send.dest, send.tag), (receive.source, receive.tag))?;
        let received = self.irecv(comm, receive.buffer, receive.source, receive.tag)?;
        match self.isend(comm, Mode::Standard, send.buffer, send.dest, send.tag) {
            Ok(sent) => Ok((sent, received)),
            Err(error) => {
                // The buffer belongs to the program again when this call returns.
                self.enter(|domain| domain.lane.abandon(received));
                Err(error)
            }
        }
    }
}

/// The send of a sendrecv.
#[derive(Debug)]
pub struct SendrecvSend {
    pub buffer: UserBuf,
    /// A rank, or MPI_PROC_NULL.
    pub dest: i32,
    pub tag: i32,
}

/// The receive of a sendrecv.
#[derive(Debug)]
pub struct SendrecvReceive {
    pub buffer: UserBuf,
    /// A rank, MPI_ANY_SOURCE or MPI_PROC_NULL.
    pub source: i32,
    pub tag: i32,
}
