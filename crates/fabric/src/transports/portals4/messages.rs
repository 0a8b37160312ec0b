use super::bits::{
    self, LAST_CONTEXT, LAST_PROCESS, LONGEST, MessageLabel, PortalsProtocol, announced,
    announcement,
};
use super::fetches::FetchReceive;
use super::{Portals, PortalsName, ReceiveEnd};
use crate::{MatchingTransport, Probed, Sent, TaggedReceive, TaggedSend, Unreachable};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Owned;
use oxmpi_portals::{Arrival, MatchCriteria, PortalsEnding, PortalsEvent, PutMessage};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::Tags;

/// A message of a process whose introduction has not arrived.
#[derive(Debug)]
pub(super) struct UnmetArrival {
    pub(super) token: u64,
    wanted: MatchCriteria,
    arrival: Arrival,
    pub(super) buffer: UserBuf,
}

#[derive(Debug)]
pub(super) struct TakenMessage {
    label: MessageLabel,
    arrival: Arrival,
    bytes: Vec<u8>,
}

fn length_of(label: MessageLabel, arrival: &Arrival) -> u64 {
    if label.protocol == PortalsProtocol::Announced {
        announced(arrival.header).1
    } else {
        arrival.length
    }
}

fn packed(buffer: &UserBuf) -> Vec<u8> {
    let mut bytes = vec![0; buffer.packed_len()];
    buffer.pack(0, (&mut bytes[..]).into());
    bytes
}

impl Portals {
    pub(super) fn came(
        &mut self,
        token: u64,
        wanted: MatchCriteria,
        arrival: Arrival,
        buffer: UserBuf,
    ) {
        let label = MessageLabel::decode(arrival.bits);
        let from = label.source;
        let Some(peer) = self.peer(from) else {
            if self.introduced.contains(&from) {
                self.unmet.push(UnmetArrival { token, wanted, arrival, buffer });
            } else {
                self.refuse_intruder(token, wanted, &buffer);
            }
            return;
        };
        if peer.messages.process != arrival.from {
            return self.refuse_intruder(token, wanted, &buffer);
        }
        let is_gone = peer.is_gone;
        if is_gone && label.protocol == PortalsProtocol::Announced {
            // The data are lost with their sender: the receive waits for another message.
            return self.post_again(token, wanted, &buffer);
        }
        self.deliver(token, label, &arrival, &buffer, is_gone);
    }

    fn deliver(
        &mut self,
        token: u64,
        label: MessageLabel,
        arrival: &Arrival,
        buffer: &UserBuf,
        is_gone: bool,
    ) {
        let MessageLabel { source: from, protocol, tag, .. } = label;
        let length = length_of(label, arrival);
        self.received.add(length);
        let (number, _) = announced(arrival.header);
        if protocol == PortalsProtocol::Announced {
            return self.fetch(from, number, FetchReceive { token, tag, buffer, length });
        }
        if protocol == PortalsProtocol::Synchronous && !is_gone {
            let nothing = UserBuf::empty();
            self.fetch(from, number, FetchReceive { token: 0, tag, buffer: &nothing, length: 0 });
        }
        if token != 0 {
            self.ended.push_back(ReceiveEnd::Received { token, from, tag, length });
        }
    }

    pub(super) fn take_unmet(&mut self, from: u32) {
        let is_of = |one: &mut UnmetArrival| MessageLabel::decode(one.arrival.bits).source == from;
        let taken: Vec<_> = self.unmet.extract_if(.., is_of).collect();
        for UnmetArrival { token, wanted, arrival, buffer } in taken {
            self.came(token, wanted, arrival, buffer);
        }
    }

    /// A message is not from a process of the job: posts the receive that it has matched again.
    fn refuse_intruder(&mut self, token: u64, wanted: MatchCriteria, buffer: &UserBuf) {
        if !std::mem::replace(&mut self.is_intruder_reported, true) {
            (self.tell.0)(&format!(
                "rank {}: Portals 4: a process outside the job sends to this one; its messages are dropped",
                self.own
            ));
        }
        self.post_again(token, wanted, buffer);
    }

    fn post_again(&mut self, token: u64, wanted: MatchCriteria, buffer: &UserBuf) {
        if token == 0 {
            return;
        }
        match self.interface.receive(wanted, buffer, PortalsName::Receive { token, wanted }) {
            Ok(true) => {}
            Ok(false) => self.give_up("Portals 4: there is no room for a receive any more"),
            Err(error) => self.give_up(&error.to_string()),
        }
    }

    /// The first message that such a receive would match. `takes`: the message is taken out.
    fn search(&mut self, wanted: MatchCriteria, takes: bool) -> Option<(Arrival, Vec<u8>)> {
        let name = PortalsName::Probe { number: self.next_probe };
        self.next_probe += 1;
        match self.interface.search(wanted, takes, name) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => self.give_up(&error.to_string()),
        }
        loop {
            let is_it = |event: &PortalsEvent<PortalsName>| matches!(event, PortalsEvent::Ended { token, .. } if *token == name);
            if let Some(at) = self.early.iter().position(is_it) {
                let event = self.early.remove(at);
                return match event {
                    Some(PortalsEvent::Ended {
                        ending: PortalsEnding::Found(arrival, bytes),
                        ..
                    }) => Some((arrival, bytes)),
                    _ => None,
                };
            }
            self.read();
        }
    }

    fn announce(
        &mut self,
        to: u32,
        message: &TaggedSend<'_>,
        protocol: PortalsProtocol,
    ) -> Result<Sent, String> {
        let TaggedSend { context, tag, buffer, token, .. } = *message;
        let length = buffer.packed_len();
        let Some(number) = self.free_number() else { return Ok(Sent::Full) };
        let Some(peer) = self.peer(to) else { return Ok(Sent::Full) };
        let at = (peer.messages.process, peer.max_message);
        let (exposed, bytes) = match protocol {
            PortalsProtocol::Announced if buffer.as_contiguous().is_some() => {
                (buffer.clone(), Vec::new())
            }
            PortalsProtocol::Announced => (Owned::new(packed(buffer)).buf(), Vec::new()),
            _ => (UserBuf::empty(), packed(buffer)),
        };
        if !self.expose(at, number, &exposed)? {
            return Ok(Sent::Full);
        }
        let label = MessageLabel { context, source: self.own, protocol, tag };
        let header = announcement(number, length as u64);
        let put = self.put(to, self.next_put, PutMessage { bits: label.encode(), header, bytes });
        if !matches!(put, Ok(None)) {
            self.withdraw_exposed(number);
        }
        Ok(match put? {
            Some(_) => Sent::Full,
            None => {
                self.announced.insert(number, (to, token));
                Sent::Later
            }
        })
    }

    fn give(&mut self, to: u32, message: &TaggedSend<'_>) -> Result<Sent, String> {
        let TaggedSend { context, tag, buffer, is_synchronous, .. } = *message;
        if buffer.packed_len() > self.settings.eager {
            return self.announce(to, message, PortalsProtocol::Announced);
        }
        if is_synchronous {
            return self.announce(to, message, PortalsProtocol::Synchronous);
        }
        let label =
            MessageLabel { context, source: self.own, protocol: PortalsProtocol::Plain, tag };
        let message = PutMessage { bits: label.encode(), header: 0, bytes: packed(buffer) };
        Ok(match self.put(to, self.next_put, message)? {
            Some(_) => Sent::Full,
            None => Sent::Done,
        })
    }
}

impl MatchingTransport for Portals {
    fn matches(&mut self, peer: u32) -> bool {
        self.own.max(peer) <= LAST_PROCESS && self.is_of_launcher(peer)
    }

    fn last_context(&self) -> u32 {
        LAST_CONTEXT
    }

    fn meets(&mut self, peer: u32) -> bool {
        if self.is_met(peer) {
            return true;
        }
        self.request_introduction(peer);
        false
    }

    fn tsend(&mut self, to: u32, message: &TaggedSend<'_>) -> Result<Sent, Unreachable> {
        let unreachable = |why: String| Unreachable { peer: to, why };
        let Some(peer) = self.peer(to).filter(|peer| !peer.is_gone) else {
            return Err(unreachable("the two have no contact, or it is lost".into()));
        };
        if peer.is_stopped || !peer.refused.is_empty() {
            return Ok(Sent::Full);
        }
        let length = message.buffer.packed_len() as u64;
        if length > LONGEST {
            return Err(unreachable(format!(
                "a message of {length} bytes is too long for portals4"
            )));
        }
        if self.sockets.has_left(to) {
            return Ok(Sent::Done);
        }
        match self.give(to, message) {
            Ok(Sent::Full) => Ok(Sent::Full),
            Ok(sent) => {
                self.next_put += 1;
                self.sent.add(length);
                Ok(sent)
            }
            Err(why) => {
                self.forget(to);
                Err(unreachable(why))
            }
        }
    }

    fn trecv(&mut self, receive: &TaggedReceive<'_>) -> bool {
        let TaggedReceive { from, context, tags, buffer, token } = *receive;
        let wanted = bits::wanted(context, from, tags);
        match self.interface.receive(wanted, buffer, PortalsName::Receive { token, wanted }) {
            Ok(is_posted) => is_posted,
            Err(error) => self.give_up(&error.to_string()),
        }
    }

    fn tcancel(&mut self, token: u64) {
        let is_it = |name: &PortalsName| matches!(name, PortalsName::Receive { token: of, .. } if *of == token);
        // A receive that cannot be unlinked has a message.
        for _ in self.interface.unlink(is_it) {
            self.ended.push_back(ReceiveEnd::NotReceived { token });
        }
    }

    fn tprobe(
        &mut self,
        from: Option<u32>,
        context: u32,
        tags: Tags,
        takes: bool,
    ) -> Option<Probed> {
        let wanted = bits::wanted(context, from, tags);
        let (arrival, _) = self.search(wanted, false)?;
        let label = MessageLabel::decode(arrival.bits);
        // The message must wait until its sender has introduced itself.
        let peer = self.peer(label.source)?;
        if peer.messages.process != arrival.from {
            return None;
        }
        let length = length_of(label, &arrival);
        let probed = Probed { from: label.source, tag: label.tag, length, name: None };
        if !takes {
            return Some(probed);
        }
        let (arrival, bytes) = self.search(wanted, true)?;
        let name = self.next_probe;
        self.next_probe += 1;
        self.taken.insert(name, TakenMessage { label, arrival, bytes });
        Some(Probed { name: Some(name), ..probed })
    }

    fn receive_probed(&mut self, name: u64, buffer: &UserBuf, token: u64) -> bool {
        if let Some(TakenMessage { label, arrival, bytes }) = self.taken.remove(&name) {
            let stored = bytes.len().min(buffer.packed_len());
            if stored > 0 {
                buffer.unpack(0, Bytes::from(&bytes[..stored]));
            }
            let is_gone = self.peer(label.source).is_none_or(|peer| peer.is_gone);
            self.deliver(token, label, &arrival, buffer, is_gone);
        }
        true
    }
}
