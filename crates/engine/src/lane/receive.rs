//! Receives and probes.

use super::{Lane, Now, PulledMessage, StartedReceive};
use crate::arrive::{Fetch, LaneState, Todo};
use crate::matching::{ANYBODY, MatchPattern, UNKNOWN, Unexpected, UnexpectedData};
use crate::notes::Note;
use crate::peer::BodyTarget;
use crate::request::{
    Completion, Fault, MatchSource, MatchedMessage, ReceiveWork, Received, RequestId, Started,
    TagMatch, Work,
};
use oxmpi_fabric::{Fabric, Fetching, Taken, Unreachable};
use oxmpi_mem::buffer::{PlainBuf, UserBuf};
use oxmpi_shm::announcement::{Announcement, Claim};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::{Announced, Frame, Tags};

impl<F: Fabric> Lane<F> {
    /// Receives a short message from a rank of a context's team directly from the ring, without a
    /// request. No receive may be posted in the context, which would be older, and no early message
    /// of the peer may wait. If the context has unexpected messages, the function receives one of
    /// them, of any length.
    #[inline(always)]
    pub fn try_receive(
        &mut self,
        context: u32,
        source: i32,
        tags: Tags,
        into: BytesMut<'_>,
    ) -> Option<Received> {
        let LaneState { peers, contexts, .. } = &mut self.state;
        let own = contexts.with_routes(context)?;
        let from = own.route(source)?.process;
        if !own.is_quiet() {
            return self.try_receive_unexpected(context, (from, source), tags, into);
        }
        let Some(Some(peer)) = peers.get_mut(from as usize) else { return None };
        let peer = &mut **peer;
        if peer.lost || !peer.early.is_empty() {
            return None;
        }
        let Taken::Message { tag, len } = self.fabric.receive_short_now(from, context, tags, into)
        else {
            return None;
        };
        peer.count_in(len as u64);
        Some(Received { source, tag, bytes: len as u64 })
    }

    #[inline(never)]
    fn try_receive_unexpected(
        &mut self,
        context: u32,
        (from, source): (u32, i32),
        tags: Tags,
        into: BytesMut<'_>,
    ) -> Option<Received> {
        // The full path records matches for tools. `UNKNOWN` would be read as any process.
        const _: () = assert!(UNKNOWN == ANYBODY);
        if self.state.notes.is_wanted() || from == UNKNOWN {
            return None;
        }
        self.receive_unexpected_now(context, (from, source), tags, into)
    }

    /// The process of a rank of a context's team, if [`Lane::note_route`] has noted it.
    #[inline(always)]
    pub fn process_of(&self, context: u32, rank: i32) -> Option<u32> {
        let process = self.state.contexts.with_routes(context)?.route(rank)?.process;
        (process != UNKNOWN).then_some(process)
    }

    /// As [`Lane::try_receive`], from a process, for one tag, and also in a context with unexpected
    /// messages. `false`: this path cannot serve the receive, and nothing happened; use
    /// [`Lane::start_receive`].
    pub fn receive_short_in(
        &mut self,
        context: u32,
        from: u32,
        tag: i32,
        into: BytesMut<'_>,
    ) -> bool {
        let LaneState { peers, contexts, notes, .. } = &mut self.state;
        let (Some(Some(peer)), Some(own)) =
            (peers.get_mut(from as usize), contexts.get_mut(context))
        else {
            return false;
        };
        if !own.posted.is_empty() || own.revoked || notes.is_wanted() {
            return false;
        }
        let tags = Tags::one(tag);
        if let Some(Unexpected { from: sender, tag, content }) = own.unexpected.first() {
            if MatchPattern::plain(from, tags).fits(*sender, *tag)
                && let UnexpectedData::Short { len, data } = content
                && Bytes::from(data).slice(0, usize::from(*len)).copy_if_it_fits(into)
            {
                own.unexpected.forget_first();
                return true;
            }
            return false;
        }
        let peer = &mut **peer;
        if peer.lost || !peer.early.is_empty() {
            return false;
        }
        let Taken::Message { len, .. } = self.fabric.receive_short_now(from, context, tags, into)
        else {
            return false;
        };
        peer.count_in(len as u64);
        true
    }

    /// As [`Lane::try_receive`], from a process, for eager messages of any length, unexpected ones
    /// included.
    pub fn receive_now(
        &mut self,
        context: u32,
        (from, source): (u32, i32),
        tags: Tags,
        into: &PlainBuf,
    ) -> Now {
        let LaneState { peers, contexts, requests, .. } = &mut self.state;
        let (Some(Some(peer)), Some(own)) = (peers.get_mut(from as usize), contexts.get(context))
        else {
            return Now::NeverSo;
        };
        if !own.is_quiet() {
            if self.state.notes.is_wanted() {
                return Now::NeverSo;
            }
            return match self.receive_unexpected_now(
                context,
                (from, source),
                tags,
                into.bytes_mut(),
            ) {
                Some(received) => Now::Received(received),
                None => Now::NeverSo,
            };
        }
        if peer.lost || !peer.early.is_empty() {
            return Now::NeverSo;
        }
        match self.fabric.receive_now(from, context, tags, into.bytes_mut()) {
            Taken::Message { tag, len } => {
                peer.count_in(len as u64);
                Now::Received(Received { source, tag, bytes: len as u64 })
            }
            Taken::Begun { tag, total, stored } => {
                peer.count_in(total as u64);
                let mut work = ReceiveWork::new((*into).into(), context, Some(from));
                (work.tag, work.length, work.expected, work.stored) =
                    (tag, total as u64, total, stored);
                let request = requests.insert(Work::Receive(work));
                peer.body = Some(BodyTarget::Receive { request, base: 0 });
                Now::Begun(request)
            }
            Taken::Nothing => Now::NotYet,
            Taken::Other => Now::NeverSo,
        }
    }

    /// Receives the first unexpected message that fits, if no receive is posted in the context, the
    /// message is whole, and its sender does not wait for the match. `None`: this path cannot serve
    /// the receive, and nothing happened.
    #[inline(always)]
    pub fn receive_unexpected_now(
        &mut self,
        context: u32,
        (from, source): (u32, i32),
        tags: Tags,
        mut into: BytesMut<'_>,
    ) -> Option<Received> {
        let own = self.state.contexts.get_mut(context)?;
        if !own.posted.is_empty() {
            return None;
        }
        let Unexpected { from: sender, tag, content } = own.unexpected.first()?;
        if MatchPattern::plain(from, tags).fits(*sender, *tag)
            && let UnexpectedData::Short { len, data } = content
            && Bytes::from(data).slice(0, usize::from(*len)).copy_if_it_fits(into.reborrow())
        {
            let received = Received { source, tag: *tag, bytes: u64::from(*len) };
            own.unexpected.forget_first();
            return Some(received);
        }
        self.receive_any_unexpected_now(context, (from, source), tags, into)
    }

    #[inline(never)]
    fn receive_any_unexpected_now(
        &mut self,
        context: u32,
        (from, source): (u32, i32),
        tags: Tags,
        into: BytesMut<'_>,
    ) -> Option<Received> {
        let own = self.state.contexts.get_mut(context)?;
        let key = own.find_unexpected(MatchPattern::plain(from, tags))?;
        let Unexpected { from: sender, tag, content } = own.unexpected.get(key)?;
        let (bytes, total) = match content {
            UnexpectedData::Short { len, data } => {
                (Bytes::from(data).slice(0, usize::from(*len)), usize::from(*len))
            }
            UnexpectedData::Eager { data, total, sync: None } => (Bytes::from(&data[..]), *total),
            _ => return None,
        };
        let source = if from == ANYBODY { own.rank_of(*sender) } else { source };
        let received = Received { source, tag: *tag, bytes: total as u64 };
        if bytes.len() < total || !bytes.copy_if_it_fits(into) {
            return None;
        }
        if let Some(Unexpected { content: UnexpectedData::Eager { data, .. }, .. }) =
            own.unexpected.remove(key)
        {
            self.state.spare.give_back(data);
        }
        Some(received)
    }

    /// As [`Lane::receive_now`] from MPI_ANY_SOURCE, without a poll.
    pub fn receive_from_anybody_now(&mut self, context: u32, tags: Tags, into: &PlainBuf) -> Now {
        let LaneState { contexts, lost, notes, is_matching, .. } = &self.state;
        let Some(own) = contexts.get(context) else { return Now::NeverSo };
        if *is_matching
            || own.revoked
            || !lost.is_empty()
            || !own.posted.is_empty()
            || notes.is_wanted()
        {
            return Now::NeverSo;
        }
        if own.unexpected.is_empty() {
            return Now::NotYet;
        }
        match self.receive_any_unexpected_now(context, (ANYBODY, -1), tags, into.bytes_mut()) {
            Some(received) => Now::Received(received),
            None => Now::NeverSo,
        }
    }

    /// Starts to receive into contiguous memory, with one of `tags`, from process `from` whose rank
    /// is `source`, or from [`ANYBODY`]. For a `from` of `None`, [`Lane::note_route`] must have
    /// noted the process of `source`. A message that has arrived, and that no older receive
    /// matches, is received at once. `None`: this path cannot serve the call, and nothing happened;
    /// use [`Lane::start_receive`].
    #[inline(always)]
    pub fn receive_plain(
        &mut self,
        context: u32,
        (from, source): (Option<u32>, i32),
        tags: Tags,
        into: PlainBuf,
    ) -> Option<StartedReceive> {
        let LaneState { peers, contexts, requests, lost, is_matching, .. } = &mut self.state;
        if *is_matching || !lost.is_empty() {
            return None;
        }
        let own = contexts.get_mut(context)?;
        // No closures here: the compiler makes calls of them.
        let from = match from {
            Some(from) => from,
            None => {
                let process = own.route(source)?.process;
                if process == UNKNOWN {
                    return None;
                }
                process
            }
        };
        if !own.unexpected.is_empty() {
            // The full path is for receives from MPI_ANY_SOURCE, whose source it finds.
            let received =
                self.try_receive_unexpected(context, (from, source), tags, into.bytes_mut())?;
            return Some(StartedReceive::Taken(self.state.requests.insert_good(received)));
        }
        // [`ANYBODY`] is no index of a peer.
        if own.posted.is_empty()
            && let Some(Some(peer)) = peers.get_mut(from as usize)
            && let peer = &mut **peer
            && peer.early.is_empty()
            && let Taken::Message { tag, len } =
                self.fabric.receive_short_now(from, context, tags, into.bytes_mut())
        {
            peer.count_in(len as u64);
            return Some(StartedReceive::Taken(requests.insert_good(Received {
                source,
                tag,
                bytes: len as u64,
            })));
        }
        let request = requests.insert_posted(into, context, from);
        own.post(MatchPattern::plain(from, tags), request);
        Some(StartedReceive::Waits(request))
    }

    /// Starts to receive into `buffer`. Fails if the context was revoked, or if the source is lost
    /// and none of its messages waits.
    pub fn start_receive(
        &mut self,
        context: u32,
        buffer: UserBuf,
        source: MatchSource,
        tag: TagMatch,
    ) -> Result<Started, Fault> {
        let wanted = MatchPattern::new(source, tag);
        let from = match source {
            MatchSource::Any => None,
            MatchSource::Process(p) => Some(p),
        };
        let Some(own) = self.state.contexts.get_mut(context) else { return Err(Fault::Closed) };
        if own.revoked {
            return Err(Fault::Revoked);
        }
        if self.state.is_matching
            && let Some(started) = self.start_tagged_receive(context, &buffer, source, tag)
        {
            return started;
        }
        let Some(own) = self.state.contexts.get_mut(context) else { return Err(Fault::Closed) };
        let waiting = if own.contested.is_none() { own.find_unexpected(wanted) } else { None };
        if waiting.is_none()
            && own.contested.is_none()
            && let Some(peer) =
                from.filter(|peer| self.state.known_peer(*peer).is_some_and(|p| p.lost))
        {
            return Err(Fault::Lost { peer });
        }
        let request =
            self.state.requests.insert(Work::Receive(ReceiveWork::new(buffer, context, from)));
        match waiting {
            Some(key) => {
                self.take_unexpected(context, key, request);
                self.work();
                match self.test(request) {
                    Some(Some(completion)) => Ok(Started::Complete(completion)),
                    _ => Ok(Started::Pending(request)),
                }
            }
            None => {
                if let Some(own) = self.state.contexts.get_mut(context)
                    && let Some(work) = self.state.requests.receive_mut(request)
                {
                    own.post(wanted, request);
                    work.is_posted = true;
                }
                Ok(Started::Pending(request))
            }
        }
    }

    fn take_unexpected(&mut self, context: u32, key: u32, receive: RequestId) {
        let Some(message) =
            self.state.contexts.get_mut(context).and_then(|c| c.unexpected.remove(key))
        else {
            return;
        };
        self.state.note_unexpected_match(context, &message);
        self.state.give(message, BodyTarget::Unexpected { context, key }, receive);
    }

    /// Takes the message that a receive would get out of its context (matched probe, MPI-5.0
    /// section 3.8.2), so that no other receive gets it. The request stands for the message until
    /// [`Lane::receive_message`]. Fails as [`Lane::probe`] does.
    pub fn take_message(
        &mut self,
        context: u32,
        source: MatchSource,
        tag: TagMatch,
    ) -> Result<Option<(RequestId, Completion)>, Fault> {
        if self.state.is_matching && self.waiting_here(context, source, tag).is_none() {
            return match self.probe_tagged(context, source, tag, true) {
                Some(probed) => Ok(Some(self.insert_probed(context, probed))),
                None => self.state.may_come(context, source).map(|()| None),
            };
        }
        let Some(found) = self.probe(context, source, tag)? else { return Ok(None) };
        let state = &mut self.state;
        let Some(own) = state.contexts.get_mut(context) else { return Ok(None) };
        let Some(key) = own.find_unexpected(MatchPattern::new(source, tag)) else {
            return Ok(None);
        };
        let Some(message) = own.unexpected.remove(key) else { return Ok(None) };
        state.note_unexpected_match(context, &message);
        let from = message.from;
        let request = state.requests.insert(Work::Message(MatchedMessage { context, message }));
        let peer = state.peer(from);
        if peer.body == Some(BodyTarget::Unexpected { context, key }) {
            peer.body = Some(BodyTarget::Message(request));
        }
        Ok(Some((request, found)))
    }

    /// Receives a message of [`Lane::take_message`] (MPI-5.0 section 3.8.3). `None`: the message
    /// does not exist.
    pub fn receive_message(&mut self, message: RequestId, buffer: UserBuf) -> Option<Started> {
        let MatchedMessage { context, message: matched } =
            self.state.requests.take_message(message)?;
        if let UnexpectedData::InNetwork { name, .. } = matched.content {
            return Some(Started::Pending(self.receive_probed(
                context,
                matched.from,
                name,
                buffer,
            )));
        }
        let work = ReceiveWork::new(buffer, context, Some(matched.from));
        let receive = self.state.requests.insert(Work::Receive(work));
        self.state.give(matched, BodyTarget::Message(message), receive);
        self.work();
        Some(match self.test(receive) {
            Some(Some(completion)) => Started::Complete(completion),
            _ => Started::Pending(receive),
        })
    }

    /// The unexpected message that a receive would get; none while a receive is contested.
    fn waiting_here(&mut self, context: u32, source: MatchSource, tag: TagMatch) -> Option<u32> {
        let own = self.state.contexts.get_mut(context)?;
        if own.contested.is_some() {
            return None;
        }
        own.find_unexpected(MatchPattern::new(source, tag))
    }

    /// Finds the message that a receive would get: its source rank, tag and length. Fails if the
    /// context was revoked, if a possible source is lost and no message waits, or if the message
    /// was lost with its sender.
    pub fn probe(
        &mut self,
        context: u32,
        source: MatchSource,
        tag: TagMatch,
    ) -> Result<Option<Completion>, Fault> {
        let Some(own) = self.state.contexts.get_mut(context) else { return Ok(None) };
        if own.revoked {
            return Err(Fault::Revoked);
        }
        let key = self.waiting_here(context, source, tag);
        if key.is_none()
            && self.state.is_matching
            && let Some(probed) = self.probe_tagged(context, source, tag, false)
        {
            return Ok(Some(self.state.found(context, probed)));
        }
        let Some(own) = self.state.contexts.get_mut(context) else { return Ok(None) };
        match key.and_then(|key| own.unexpected.get(key)) {
            Some(Unexpected { from, content: UnexpectedData::Broken { .. }, .. }) => {
                Err(Fault::Lost { peer: *from })
            }
            Some(u) => Ok(Some(Completion {
                source: own.rank_of(u.from),
                tag: u.tag,
                bytes: u.content.length(),
                ..Completion::EMPTY
            })),
            None => self.state.may_come(context, source).map(|()| None),
        }
    }

    pub(super) fn fetch(&mut self, fetch: Fetch) {
        let Fetch { receive, from, announced, wanted, begun } = fetch;
        let Announced { request, address, announcement, .. } = announced;
        if wanted <= begun {
            // The data of the announcement have completed the receive.
            if begun == 0 {
                self.state.finish_receive(receive);
            }
            return self.answer(from, Frame::Fin { request });
        }
        if self.state.requests.receive_mut(receive).is_none() {
            // The receive failed meanwhile.
            return self.answer(from, Frame::Fin { request });
        }
        let name = Announcement::from_raw(announcement);
        // A short message is read in any case: its sender may keep a copy, and then make no
        // progress for long.
        let is_long = wanted > self.fabric.standard_limit(from);
        let fetching = if address == 0 {
            Fetching::Ask
        } else {
            let in_both_directions = !is_long || self.state.requests.has_announced_to(from);
            self.fabric.fetching(from, address, wanted, in_both_directions)
        };
        if is_long && name.is_some() && fetching == Fetching::AskOrRead {
            if self.fabric.is_waiting(from) {
                return self.pull(fetch);
            }
            // The sender has just announced the message, and may be about to wait as this process
            // does.
            if self.fabric.waits_here() {
                return self.pulled.push(PulledMessage {
                    fetch,
                    is_pulled: false,
                    polls: POLLS_BEFORE_READ,
                });
            }
        }
        let at = match name.map(|name| self.fabric.claim(from, name)) {
            None if fetching == Fetching::Ask => 0,
            None if fetching == Fetching::AskOrRead && self.fabric.is_waiting(from) => 0,
            None | Some(Claim::AsAnnounced) => address,
            Some(Claim::Copy(copy)) => copy,
            Some(Claim::Gone) => 0,
        };
        self.read_or_ask(fetch, at);
    }

    /// Reads a claimed message at an address in the sender, or pulls it if the address is 0 (not
    /// readable).
    fn read_or_ask(&mut self, fetch: Fetch, address: u64) {
        let Fetch { receive, from, announced: Announced { request, .. }, wanted, .. } = fetch;
        let Some(work) = self.state.requests.receive_mut(receive) else {
            return self.answer(from, Frame::Fin { request });
        };
        let buffer = work.buffer.clone();
        if address != 0
            && self.fabric.is_in_reach(from, address, wanted)
            && self.read(from, address, &buffer, (0, wanted)).is_ok()
        {
            if let Some(work) = self.state.requests.receive_mut(receive) {
                work.stored = wanted;
            }
            self.state.tally.read_bytes += wanted as u64;
            self.state.finish_receive(receive);
            return self.answer(from, Frame::Fin { request });
        }
        self.answer(
            from,
            Frame::Pull { request, receiver: receive.raw(), length: wanted as u64, claimed: true },
        );
    }

    fn pull(&mut self, fetch: Fetch) {
        let Fetch { receive, from, announced: Announced { request, .. }, wanted, .. } = fetch;
        self.pulled.push(PulledMessage { fetch, is_pulled: true, polls: POLLS_BETWEEN_PIECES });
        self.answer(
            from,
            Frame::Pull { request, receiver: receive.raw(), length: wanted as u64, claimed: false },
        );
    }

    /// Continues messages whose senders send pieces while they wait in the library. Reads the
    /// pieces that a sender does not send soon, as it may have lost its processor. `came`:
    /// something has arrived, perhaps a piece whose slot a sender waits for.
    pub(super) fn continue_pulled(&mut self, came: bool) {
        for mut pulled in std::mem::take(&mut self.pulled) {
            let Fetch { receive, from, announced, wanted, .. } = pulled.fetch;
            let is_whole =
                self.state.requests.receive(receive).is_none_or(|work| work.stored >= wanted);
            let Some(name) = Announcement::from_raw(announced.announcement).filter(|_| !is_whole)
            else {
                continue;
            };
            let waits = self.fabric.is_waiting(from);
            if waits && !pulled.is_pulled {
                self.pull(pulled.fetch);
                continue;
            }
            pulled.polls =
                if came && pulled.is_pulled { POLLS_BETWEEN_PIECES } else { pulled.polls - 1 };
            let goes_on = if pulled.is_pulled {
                waits && !self.fabric.has_stopped_giving(from, name)
            } else {
                self.fabric.waits_here()
            };
            if !goes_on || pulled.polls == 0 {
                self.read_rest(pulled.fetch, name);
                continue;
            }
            if came && pulled.is_pulled {
                self.fabric.wake(from);
            }
            self.pulled.push(pulled);
        }
    }

    /// Reads the rest of all pulled messages before a sleep, as a peer that leaves the library does
    /// not ring. Returns whether there were any.
    pub(super) fn read_late(&mut self) -> bool {
        let pulled = std::mem::take(&mut self.pulled);
        let any = !pulled.is_empty();
        for PulledMessage { fetch, .. } in pulled {
            if let Some(name) = Announcement::from_raw(fetch.announced.announcement) {
                self.read_rest(fetch, name);
            }
        }
        any
    }

    fn read_rest(&mut self, fetch: Fetch, name: Announcement) {
        let Fetch { receive, from, announced: Announced { request, address, .. }, wanted, .. } =
            fetch;
        let Some(given) = self.fabric.take_rest(from, name) else { return };
        if given == 0 {
            self.read_or_ask(fetch, address);
            return self.work();
        }
        let Some(rest) = wanted.checked_sub(given).filter(|rest| *rest > 0) else { return };
        let Some(work) = self.state.requests.receive_mut(receive) else {
            return self.answer(from, Frame::Fin { request });
        };
        let buffer = work.buffer.clone();
        let address = address + given as u64;
        if self.fabric.is_in_reach(from, address, rest)
            && self.read(from, address, &buffer, (given, rest)).is_ok()
        {
            self.state.tally.read_bytes += rest as u64;
            if let Some(work) = self.state.requests.receive_mut(receive) {
                work.stored += rest;
                // Otherwise a piece is still under way.
                if work.stored == work.expected {
                    self.state.finish_receive(receive);
                }
            }
            self.answer(from, Frame::Fin { request });
        } else {
            let (receiver, length) = (receive.raw(), wanted as u64);
            self.answer(from, Frame::Pull { request, receiver, length, claimed: true });
        }
        self.work();
    }

    /// Reads `len` bytes of a message out of its sender's memory, into a buffer of any layout, from
    /// packed byte `start` on.
    fn read(
        &mut self,
        from: u32,
        address: u64,
        into: &UserBuf,
        (start, len): (usize, usize),
    ) -> Result<(), Unreachable> {
        if let Some(mut into) = into.as_contiguous_mut() {
            return self.fabric.read(from, address, into.slice(start, len));
        }
        let mut part = vec![0; len.min(UNPACKED_PART)];
        for at in (0..len).step_by(UNPACKED_PART) {
            let part = &mut part[..UNPACKED_PART.min(len - at)];
            self.fabric.read(from, address + at as u64, BytesMut::from(&mut *part))?;
            into.unpack(start + at, Bytes::from(&*part));
        }
        Ok(())
    }
}

/// Polls after which a waiting receiver reads a message whose sender does not wait.
const POLLS_BEFORE_READ: u32 = 16;
/// Polls without news after which a receiver reads the rest of a message. They take some
/// microseconds: longer than a copy of a piece into its slot, and much less than a wait spins, as a
/// process that yields on a busy machine gets its processor back late.
const POLLS_BETWEEN_PIECES: u32 = 48;

/// Bytes that are read before they are unpacked. They stay in the nearest caches meanwhile.
const UNPACKED_PART: usize = 64 << 10;

impl LaneState {
    /// Gives a message to a receive. The next parts that arrive are stored in `body`.
    pub(crate) fn give(&mut self, message: Unexpected, body: BodyTarget, receive: RequestId) {
        let Unexpected { from, tag, content } = message;
        let state = self;
        if !matches!(content, UnexpectedData::Rendezvous { .. }) {
            state.note_match(receive, from, tag, content.length());
        }
        match content {
            UnexpectedData::Short { len, data } => {
                state.store(receive, 0, Bytes::from(&data[..usize::from(len)]))
            }
            UnexpectedData::Eager { data, total, sync } => {
                if data.len() < total {
                    let peer = state.peer(from);
                    if peer.body == Some(body) {
                        peer.body = Some(BodyTarget::Receive { request: receive, base: 0 });
                    }
                }
                state.store(receive, 0, Bytes::from(&data[..]));
                state.spare.give_back(data);
                if let Some(request) = sync {
                    state
                        .todo
                        .push_back(Todo::Answer { to: from, frame: Frame::SyncAck { request } });
                }
            }
            UnexpectedData::Rendezvous { announced, first } => {
                state.match_announced(receive, (from, tag), announced, Bytes::from(&first[..]));
                state.spare.give_back(first);
            }
            UnexpectedData::Own { request, .. } => {
                if let Some(work) = state.requests.send_mut(request) {
                    let buffer = work.buffer.clone();
                    state.copy_own(receive, &buffer);
                    state.requests.complete(request, Completion::EMPTY);
                }
            }
            // The network completes the receive.
            UnexpectedData::InNetwork { .. } => {}
            UnexpectedData::Broken { .. } => {
                state.requests.complete(receive, Completion::failed(Fault::Lost { peer: from }));
            }
        }
    }

    pub(crate) fn note_unexpected_match(
        &mut self,
        context: u32,
        Unexpected { from, tag, content }: &Unexpected,
    ) {
        let bytes = content.length();
        self.notes.push(Note::UnexpectedMatched { context, from: *from, tag: *tag, bytes });
    }

    fn may_come(&self, context: u32, source: MatchSource) -> Result<(), Fault> {
        if self.contexts.get(context).is_some_and(|own| own.revoked) {
            return Err(Fault::Revoked);
        }
        self.lost_source(context, source).map_or(Ok(()), |peer| Err(Fault::Lost { peer }))
    }

    /// The failed process because of which no message of this source will arrive, if any.
    fn lost_source(&self, context: u32, source: MatchSource) -> Option<u32> {
        match source {
            MatchSource::Any => self.lost_member(context),
            MatchSource::Process(peer) => {
                self.known_peer(peer).is_some_and(|p| p.lost).then_some(peer)
            }
        }
    }

    pub(super) fn copy_own(&mut self, receive: RequestId, from: &UserBuf) {
        let Some(work) = self.requests.receive_mut(receive) else { return };
        let len = work.expected;
        match from.as_contiguous() {
            Some(bytes) => work.buffer.unpack(0, bytes.slice(0, len)),
            None => {
                let mut data = vec![0; len];
                from.pack(0, BytesMut::from(&mut data[..]));
                work.buffer.unpack(0, Bytes::from(&data[..]));
            }
        }
        work.stored = len;
        self.finish_receive(receive);
    }
}
