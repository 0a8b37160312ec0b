//! Messages that are too long for the provider (rule 8 of the module).
//!
//! The first part is an ordinary message by tag, of the greatest length that the provider has, with
//! a bit that announces more parts. A frame has the whole length and a number ([`Frame::InParts`]).
//! The receiver of the first part posts receives for the other parts, whose tags have that number
//! in the transport's own context. Then it requests the parts ([`Frame::AskParts`]). So their
//! memory is ready, and a probe finds the length.
//!
//! Messages with one label (context, tag, perhaps the source) are matched and announced in the
//! order in which they were sent, but receives may end in another order. So a receive waits for its
//! announcement until all receives have ended that were posted before it and would have matched its
//! message.

use super::{Name, Ofi, OperationKind, TagFields, TagProtocol};
use crate::{FrameSink, Sent, TaggedSend, Unreachable};
use oxmpi_libfabric::{Admission, Ending, Label, TagFilter};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Owned;
use oxmpi_wire::Frame;
use std::collections::{HashMap, VecDeque};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MessageKey {
    pub(super) from: u32,
    /// The tag of libfabric, without the protocol.
    pub(super) label: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PartsAnnouncement {
    number: u64,
    length: u64,
    /// The length of each part except the last.
    part: usize,
}

#[derive(Debug)]
struct PartedSend {
    to: u32,
    token: u64,
    number: u64,
    /// Contiguous: the user's buffer, or a copy.
    buffer: UserBuf,
    /// The end of the bytes that the provider has.
    at: usize,
    /// The end of the requested bytes.
    wanted: usize,
    under_way: usize,
    is_requested: bool,
}

impl PartedSend {
    fn is_done(&self) -> bool {
        self.is_requested && self.at >= self.wanted && self.under_way == 0
    }
}

#[derive(Debug)]
struct BegunReceive {
    key: MessageKey,
    token: u64,
    tag: i32,
    /// The place in the order of receives.
    order: u64,
    /// The receives that must end first.
    before: Vec<u64>,
    buffer: UserBuf,
    what: Option<PartsAnnouncement>,
    /// The receive was released. It still takes its announcement, so that no other receive does.
    is_given_up: bool,
}

#[derive(Debug)]
struct PartedReceive {
    from: u32,
    token: u64,
    tag: i32,
    what: PartsAnnouncement,
    /// Contiguous memory for the other parts.
    rest: UserBuf,
    /// The user's buffer if it has gaps: it gets the other parts when all have arrived.
    scattered: Option<UserBuf>,
    posted: usize,
    under_way: usize,
}

#[derive(Debug, Default)]
pub(super) struct MessagesInParts {
    next_number: u64,
    sending: Vec<PartedSend>,
    announced: VecDeque<(MessageKey, PartsAnnouncement)>,
    begun: Vec<BegunReceive>,
    receiving: Vec<PartedReceive>,
    /// Messages that probes have taken out, by the places of the receives that get them.
    of_probes: HashMap<u64, PartsAnnouncement>,
}

impl MessagesInParts {
    pub(super) fn waits_for_room(&self) -> bool {
        self.sending.iter().any(|one| one.is_requested && one.at < one.wanted)
            || self.receiving.iter().any(|one| one.posted < one.rest.packed_len())
    }

    pub(super) fn announce(&mut self, key: MessageKey, number: u64, length: u64, part: u64) {
        let part = usize::try_from(part).unwrap_or(usize::MAX).max(1);
        self.announced.push_back((key, PartsAnnouncement { number, length, part }));
    }

    /// The announcement that follows `after` announcements with this key.
    fn announcement(&self, key: MessageKey, after: usize) -> Option<PartsAnnouncement> {
        self.announced.iter().filter(|(of, _)| *of == key).nth(after).map(|(_, what)| *what)
    }

    fn take_announcement(&mut self, key: MessageKey, after: usize) -> Option<PartsAnnouncement> {
        let at = self.announced.iter().enumerate().filter(|(_, (of, _))| *of == key).nth(after)?.0;
        self.announced.remove(at).map(|(_, what)| what)
    }

    /// Returns the peers whose later parts were not requested, with the numbers of their messages.
    fn release(&mut self, token: u64) -> Vec<(u32, u64)> {
        self.forget_sending(token);
        for one in self.begun.iter_mut().filter(|one| one.token == token) {
            (one.is_given_up, one.buffer) = (true, UserBuf::empty());
        }
        let (over, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.receiving).into_iter().partition(|one| one.token == token);
        self.receiving = rest;
        let unrequested = over.iter().filter(|one| one.posted < one.rest.packed_len());
        unrequested.map(|one| (one.from, one.what.number)).collect()
    }

    pub(super) fn forget_sending(&mut self, token: u64) {
        self.sending.retain(|one| one.token != token || token == 0);
    }

    pub(super) fn forget(&mut self, peer: u32) {
        self.announced.retain(|(key, _)| key.from != peer);
        self.begun.retain(|one| one.key.from != peer);
    }
}

impl<const FULL: bool, const GROUPED: bool> Ofi<FULL, GROUPED> {
    /// The message is complete when all its parts are received, so it is always synchronous.
    pub(super) fn send_in_parts(
        &mut self,
        to: u32,
        message: &TaggedSend<'_>,
    ) -> Result<Sent, Unreachable> {
        let TaggedSend { context, tag, buffer, token, .. } = *message;
        let (first, length) = (self.endpoint.max_message(), buffer.packed_len());
        let buffer = if buffer.as_contiguous().is_some() {
            buffer.clone()
        } else {
            let mut copy = vec![0u8; length];
            buffer.pack(0, (&mut copy[..]).into());
            Owned::new(copy).buf()
        };
        let Some(part) = buffer.packed_range(0, first) else { return Ok(Sent::Full) };
        let Some(address) = self.address_to(to) else { return Ok(Sent::Full) };
        let label = self.label(TagFields {
            context,
            source: self.own,
            protocol: TagProtocol::FirstPart,
            tag,
        });
        let name = Name { kind: OperationKind::Part, token, peer: to };
        match self.endpoint.send(address, label, &part, name) {
            Ok(Admission::Yes) => {}
            Ok(Admission::NoRoom) => return Ok(Sent::Full),
            Err(error) => return self.not_sent(to, &error),
        }
        // The number has to fit into a tag.
        let number = self.in_parts.next_number % (self.last_tag as u64 + 1);
        self.in_parts.next_number += 1;
        self.count_sent(to);
        self.sent.add(length as u64);
        self.in_parts.sending.push(PartedSend {
            to,
            token,
            number,
            buffer,
            at: first,
            wanted: first,
            under_way: 1,
            is_requested: false,
        });
        let label = self.settings.layout.label(label.tag);
        let (length, part) = (length as u64, first as u64);
        self.own_frames.push_back((to, Frame::InParts { label, number, length, part }));
        self.send_waiting_frames();
        Ok(Sent::Later)
    }

    pub(super) fn parts_requested(
        &mut self,
        from: u32,
        number: u64,
        length: u64,
        sink: &mut dyn FrameSink,
    ) {
        let found =
            |one: &&mut PartedSend| (one.to, one.number, one.is_requested) == (from, number, false);
        let Some(one) = self.in_parts.sending.iter_mut().find(found) else { return };
        one.is_requested = true;
        let rest = one.buffer.packed_len() - one.at;
        one.wanted = one.at + usize::try_from(length).map_or(rest, |length| length.min(rest));
        let token = one.token;
        self.send_parts();
        self.end_sending(token, sink);
    }

    pub(super) fn sent_part(&mut self, token: u64, sink: &mut dyn FrameSink) {
        if let Some(one) = self.in_parts.sending.iter_mut().find(|one| one.token == token) {
            one.under_way = one.under_way.saturating_sub(1);
        }
        self.end_sending(token, sink);
    }

    fn end_sending(&mut self, token: u64, sink: &mut dyn FrameSink) {
        let is_it = |one: &PartedSend| one.token == token && one.is_done();
        if let Some(at) = self.in_parts.sending.iter().position(is_it) {
            self.in_parts.sending.remove(at);
            sink.sent(token);
        }
    }

    pub(super) fn send_parts(&mut self) {
        let most = self.endpoint.max_message();
        for at in 0..self.in_parts.sending.len() {
            loop {
                let one = &self.in_parts.sending[at];
                let (to, token, len) =
                    (one.to, one.token, most.min(one.wanted.saturating_sub(one.at)));
                if !one.is_requested || len == 0 {
                    break;
                }
                let Some(part) = one.buffer.packed_range(one.at, len) else { break };
                let label: Label = self.label(self.later_part(self.own, one.number));
                let name = Name { kind: OperationKind::Part, token, peer: to };
                let Some(address) = self.address_to(to) else { break };
                match self.endpoint.send(address, label, &part, name) {
                    Ok(Admission::Yes) => {}
                    Ok(Admission::NoRoom) => break,
                    Err(error) => {
                        self.fail(name, error.to_string());
                        break;
                    }
                }
                let one = &mut self.in_parts.sending[at];
                one.at += len;
                one.under_way += 1;
                self.count_sent(to);
            }
        }
    }

    fn later_part(&self, source: u32, number: u64) -> TagFields {
        let context = self.settings.layout.own_context();
        TagFields { context, source, protocol: TagProtocol::Plain, tag: number as i32 }
    }

    pub(super) fn received_first_part(
        &mut self,
        (from, parts): (u32, TagFields),
        (token, bits): (u64, u64),
        order: u64,
    ) {
        let Some(buffer) = self.endpoint.take_kept(order) else { return };
        self.begin_in_parts((from, parts), (token, bits), order, Some(buffer));
    }

    pub(super) fn gave_up_first_part(&mut self, message: (u32, TagFields), bits: u64, order: u64) {
        self.begin_in_parts(message, (0, bits), order, None);
    }

    fn begin_in_parts(
        &mut self,
        (from, parts): (u32, TagFields),
        (token, bits): (u64, u64),
        order: u64,
        buffer: Option<UserBuf>,
    ) {
        let label = self.settings.layout.label(bits);
        let address = self.address_of(from);
        self.in_parts.begun.push(BegunReceive {
            key: MessageKey { from, label },
            token,
            tag: parts.tag,
            order,
            before: self.endpoint.receives_before(order, label, address, parts.context),
            is_given_up: buffer.is_none(),
            buffer: buffer.unwrap_or_else(UserBuf::empty),
            what: self.in_parts.of_probes.remove(&order),
        });
    }

    pub(super) fn give_up_early(&mut self, is_it: impl Fn(&Name) -> bool) {
        for event in std::mem::take(&mut self.early) {
            match event.outcome {
                _ if !is_it(&event.token) => self.early.push_back(event),
                Ending::Unwanted { .. } => self.early.push_back(event),
                Ending::Came { tag, data, order, .. }
                    if event.token.kind == OperationKind::Receive =>
                {
                    let parts = self.settings.layout.decode(tag);
                    let from = self.source(parts, data);
                    self.count_came(from);
                    if parts.protocol == TagProtocol::FirstPart {
                        self.endpoint.take_kept(order);
                        self.gave_up_first_part((from, parts), tag, order);
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn release_parts(&mut self, token: u64) {
        for (from, number) in self.in_parts.release(token) {
            self.own_frames.push_back((from, Frame::AskParts { number, length: 0 }));
        }
    }

    /// Continues the receives with a first part whose announcements have arrived.
    pub(super) fn go_on_with_parts(&mut self, sink: &mut dyn FrameSink) {
        self.send_parts();
        loop {
            let is_ready = |one: &BegunReceive| {
                let is_next = || {
                    let earlier = |other: &BegunReceive| {
                        other.key == one.key && other.order < one.order && other.what.is_none()
                    };
                    !self.in_parts.begun.iter().any(earlier)
                        && self.in_parts.announcement(one.key, 0).is_some()
                        && !one.before.iter().any(|order| self.endpoint.is_receiving(*order))
                };
                one.what.is_some() || is_next()
            };
            let Some(at) = self.in_parts.begun.iter().position(is_ready) else { break };
            let one = self.in_parts.begun.remove(at);
            let Some(what) = one.what.or_else(|| self.in_parts.take_announcement(one.key, 0))
            else {
                break;
            };
            if one.is_given_up {
                self.own_frames
                    .push_back((one.key.from, Frame::AskParts { number: what.number, length: 0 }));
            } else {
                self.begin_receiving(one, what);
            }
        }
        self.post_parts();
        while let Some(at) = self
            .in_parts
            .receiving
            .iter()
            .position(|one| one.under_way == 0 && one.posted == one.rest.packed_len())
        {
            let PartedReceive { from, token, tag, what, rest, scattered, .. } =
                self.in_parts.receiving.remove(at);
            if let (Some(buffer), Some(bytes)) = (scattered, rest.as_contiguous()) {
                let first = what.part.min(buffer.packed_len());
                buffer.unpack(first, bytes);
            }
            sink.received(token, from, tag, what.length);
        }
    }

    fn begin_receiving(
        &mut self,
        BegunReceive { key, token, tag, buffer, .. }: BegunReceive,
        what: PartsAnnouncement,
    ) {
        let from = key.from;
        let (first, room) = (what.part, buffer.packed_len());
        let length =
            usize::try_from(what.length).unwrap_or(usize::MAX).min(room).saturating_sub(first);
        let first = first.min(room);
        let in_place = buffer.as_contiguous().and_then(|_| buffer.packed_range(first, length));
        let (rest, scattered) = match in_place {
            Some(rest) => (rest, None),
            None => (Owned::new(vec![0u8; length]).buf(), Some(buffer)),
        };
        let (posted, under_way) = (0, 0);
        self.in_parts.receiving.push(PartedReceive {
            from,
            token,
            tag,
            what,
            rest,
            scattered,
            posted,
            under_way,
        });
        if length == 0 {
            self.own_frames.push_back((from, Frame::AskParts { number: what.number, length: 0 }));
        }
    }

    /// Posts receives for parts, and requests the parts of messages whose receives are all posted.
    fn post_parts(&mut self) {
        for at in 0..self.in_parts.receiving.len() {
            loop {
                let one = &self.in_parts.receiving[at];
                let (from, length) = (one.from, one.rest.packed_len());
                let len = one.what.part.min(length - one.posted);
                if len == 0 {
                    break;
                }
                let Some(part) = one.rest.packed_range(one.posted, len) else { break };
                let later = self.later_part(from, one.what.number);
                let tag = self.settings.layout.encode(later);
                let wanted = TagFilter {
                    context: later.context,
                    from: self.directed(Some(from)),
                    tag,
                    ignore: 0,
                };
                let name = Name { kind: OperationKind::LaterPart, token: one.token, peer: from };
                match self.endpoint.receive(wanted, &part, name) {
                    Ok(Admission::Yes) => {}
                    Ok(Admission::NoRoom) => break,
                    Err(error) => {
                        self.fail(name, error.to_string());
                        break;
                    }
                }
                let one = &mut self.in_parts.receiving[at];
                one.posted += len;
                one.under_way += 1;
                if one.posted == length {
                    let (number, length) = (one.what.number, length as u64);
                    self.own_frames.push_back((from, Frame::AskParts { number, length }));
                }
            }
        }
    }

    pub(super) fn received_part(&mut self, token: u64) {
        if let Some(one) = self.in_parts.receiving.iter_mut().find(|one| one.token == token) {
            one.under_way -= 1;
        }
    }

    /// The whole length of a message whose first part a probe has found, if it is known.
    pub(super) fn length_in_parts(&mut self, key: MessageKey, context: u32) -> Option<u64> {
        // Receives with early events may have earlier messages.
        if self.early.iter().any(|event| event.token.kind == OperationKind::Receive) {
            self.polls = super::POLLS;
            return None;
        }
        let from = self.address_of(key.from);
        if !self.endpoint.receives_before(u64::MAX, key.label, from, context).is_empty() {
            return None;
        }
        Some(self.in_parts.announcement(key, self.begun_of(key))?.length)
    }

    /// The number of receives that have a first part with this key, and no announcement.
    fn begun_of(&self, key: MessageKey) -> usize {
        self.in_parts.begun.iter().filter(|one| one.key == key && one.what.is_none()).count()
    }

    pub(super) fn take_in_parts(&mut self, key: MessageKey, order: u64) {
        if let Some(what) = self.in_parts.take_announcement(key, self.begun_of(key)) {
            self.in_parts.of_probes.insert(order, what);
        }
    }
}
