//! Matching by the virtual network: each process has a queue of posted receives and an unexpected
//! queue. The network searches them when a message arrives, whether the process polls or not.
//!
//! Messages of one process to another keep their order. A cancelled receive is taken out some time
//! later, so a message may match it before.

use super::{Event, Network, ProcessState, Sim};
use crate::{MatchingTransport, Probed, Sent, TaggedReceive, TaggedSend, Unreachable};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::Tags;
use std::collections::{HashMap, VecDeque};

#[derive(Debug)]
pub(super) struct Tagged {
    pub(super) from: u32,
    context: u32,
    tag: i32,
    data: Vec<u8>,
    /// The sender's token, if the sender waits for the match.
    waits: Option<u64>,
}

#[derive(Debug)]
struct SimReceive {
    from: Option<u32>,
    context: u32,
    tags: Tags,
    buffer: UserBuf,
    token: u64,
}

impl SimReceive {
    fn wants(&self, message: &Tagged) -> bool {
        wants((self.from, self.context, self.tags), message)
    }
}

fn wants((from, context, tags): (Option<u32>, u32, Tags), message: &Tagged) -> bool {
    from.is_none_or(|from| from == message.from)
        && context == message.context
        && tags.fit(message.tag)
}

#[derive(Debug, Default)]
pub(super) struct Queues {
    posted: Vec<SimReceive>,
    unexpected: VecDeque<Tagged>,
    taken: HashMap<u64, Tagged>,
    next_name: u64,
}

impl Network {
    pub(super) fn arrive_tagged(&mut self, to: u32, message: Tagged) {
        let queues = &mut self.ports[to as usize].queues;
        match queues.posted.iter().position(|posted| posted.wants(&message)) {
            Some(at) => {
                let posted = queues.posted.remove(at);
                self.match_tagged(to, &posted.buffer, posted.token, message);
            }
            None => queues.unexpected.push_back(message),
        }
    }

    fn match_tagged(&mut self, to: u32, buffer: &UserBuf, token: u64, message: Tagged) {
        let Tagged { from, tag, data, waits, .. } = message;
        let fits = data.len().min(buffer.packed_len());
        buffer.unpack(0, Bytes::from(&data[..fits]));
        // A death is reported after everything that the dead process had sent.
        let sender = &mut self.ports[from as usize];
        let mut heard = self.now_ns;
        if sender.life == ProcessState::Alive {
            heard += self.random.below(self.faults.max_delay_ns + 1);
            sender.quiet_ns = sender.quiet_ns.max(heard);
        }
        self.at(heard, Event::Received { at: to, token, from, tag, length: data.len() as u64 });
        if let Some(token) = waits {
            let when = self.now_ns
                + self.faults.min_delay_ns
                + self.random.below(self.faults.max_delay_ns);
            self.at(when, Event::Gone { at: from, token });
        }
    }

    pub(super) fn cancel_tagged(&mut self, at: u32, token: u64) {
        if self.unpost_tagged(at, token) {
            self.at(self.now_ns, Event::NotReceived { at, token });
        }
    }

    pub(super) fn unpost_tagged(&mut self, at: u32, token: u64) -> bool {
        let posted = &mut self.ports[at as usize].queues.posted;
        let found = posted.iter().position(|posted| posted.token == token);
        found.map(|found| posted.remove(found)).is_some()
    }

    fn send_tagged(&mut self, from: u32, to: u32, message: &TaggedSend<'_>) -> Sent {
        if !self.has_room(from, to, false) {
            return Sent::Full;
        }
        self.frames += 1;
        let TaggedSend { context, tag, buffer, is_synchronous, token } = *message;
        let mut data = vec![0; buffer.packed_len()];
        buffer.pack(0, BytesMut::from(&mut data[..]));
        let spread = self.faults.max_delay_ns.saturating_sub(self.faults.min_delay_ns);
        let mut when = self.now_ns + self.faults.min_delay_ns + self.random.below(spread + 1);
        let link = self.links.entry((from, to)).or_default();
        when = when.max(link.last_tagged + 1);
        link.last_tagged = when;
        let port = &mut self.ports[from as usize];
        port.quiet_ns = port.quiet_ns.max(when);
        let waits = is_synchronous.then_some(token);
        self.at(when, Event::Tagged { to, message: Tagged { from, context, tag, data, waits } });
        if is_synchronous {
            return Sent::Later;
        }
        if self.random.of_256(self.faults.later_of_256) {
            let gone = when + self.random.below(4 * self.faults.max_delay_ns);
            self.at(gone, Event::Gone { at: from, token });
            return Sent::Later;
        }
        Sent::Done
    }
}

impl Sim {
    pub(super) fn is_beyond(&self, peer: u32) -> bool {
        let beyond = self.network.borrow().faults.matched_beyond;
        beyond.is_some_and(|of_a_node| self.me / of_a_node != peer / of_a_node)
    }
}

impl MatchingTransport for Sim {
    fn last_context(&self) -> u32 {
        self.network.borrow().faults.last_context
    }

    fn tsend(&mut self, to: u32, message: &TaggedSend<'_>) -> Result<Sent, Unreachable> {
        let mut network = self.network.borrow_mut();
        if network.ports.len() <= to as usize {
            return Err(Unreachable {
                peer: to,
                why: "there is no such process in the world".into(),
            });
        }
        Ok(network.send_tagged(self.me, to, message))
    }

    fn trecv(&mut self, receive: &TaggedReceive<'_>) -> bool {
        let mut network = self.network.borrow_mut();
        if network.has_no_room(self.me) {
            return false;
        }
        let TaggedReceive { from, context, tags, buffer, token } = *receive;
        let unexpected = &mut network.ports[self.me as usize].queues.unexpected;
        let found = unexpected.iter().position(|message| wants((from, context, tags), message));
        match found.and_then(|found| unexpected.remove(found)) {
            Some(message) => network.match_tagged(self.me, buffer, token, message),
            None => {
                let posted = SimReceive { from, context, tags, buffer: buffer.clone(), token };
                network.ports[self.me as usize].queues.posted.push(posted);
            }
        }
        true
    }

    fn tcancel(&mut self, token: u64) {
        let mut network = self.network.borrow_mut();
        let longest = network.faults.max_delay_ns;
        let when = network.now_ns + network.below(longest + 1);
        network.at(when, Event::CancelTagged { at: self.me, token });
    }

    fn tprobe(
        &mut self,
        from: Option<u32>,
        context: u32,
        tags: Tags,
        takes: bool,
    ) -> Option<Probed> {
        let mut network = self.network.borrow_mut();
        let queues = &mut network.ports[self.me as usize].queues;
        let found =
            queues.unexpected.iter().position(|message| wants((from, context, tags), message))?;
        let message = &queues.unexpected[found];
        let probed = Probed {
            from: message.from,
            tag: message.tag,
            length: message.data.len() as u64,
            name: None,
        };
        if !takes {
            return Some(probed);
        }
        let name = queues.next_name;
        queues.next_name += 1;
        let message = queues.unexpected.remove(found)?;
        queues.taken.insert(name, message);
        Some(Probed { name: Some(name), ..probed })
    }

    fn receive_probed(&mut self, name: u64, buffer: &UserBuf, token: u64) -> bool {
        let mut network = self.network.borrow_mut();
        if network.has_no_room(self.me) {
            return false;
        }
        if let Some(message) = network.ports[self.me as usize].queues.taken.remove(&name) {
            network.match_tagged(self.me, buffer, token, message);
        }
        true
    }
}

impl Network {
    /// Whether a process finds no room for a receive; then it is woken soon.
    fn has_no_room(&mut self, process: u32) -> bool {
        let full = self.faults.full_of_256;
        let is_full = self.random.of_256(full);
        if is_full {
            let soon = 1 + self.below(1000);
            self.wake_after(process, soon);
        }
        is_full
    }

    pub(super) fn drop_tagged(&mut self, process: u32) {
        self.ports[process as usize].queues = Queues::default();
    }

    /// Delivers a message to a process for matching. Returns whether the process is alive.
    pub(super) fn take_in_tagged(&mut self, to: u32, message: Tagged) -> bool {
        match self.ports[to as usize].life {
            ProcessState::Alive => self.arrive_tagged(to, message),
            ProcessState::Left => self.tell_left(message.from, to),
            ProcessState::Dead => {}
        }
        self.ports[to as usize].life == ProcessState::Alive
    }
}
