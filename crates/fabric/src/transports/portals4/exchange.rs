//! Introductions: each process sends its address in Portals over sockets, where both have proved
//! that they belong to the job. Words about closed entries (`flow.rs`) go there, too, in order.
//!
//! The body of [`Frame::Meet`](oxmpi_wire::Frame::Meet) begins with a byte for the kind of the
//! [`Word`]. In an introduction six numbers follow: node and number of the process (4 bytes each),
//! its entries for messages and for exposed memory (4 each), and the longest message (8).

use super::{Portals, PortalsPeer};
use crate::introductions::LONGEST_INTRODUCTION;
use crate::{Body, FrameSink, OutgoingMessage, Sent, Unreachable};
use oxmpi_portals::{ProcessAddress, RemoteEntry};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::Frame;
use std::collections::{BTreeMap, HashSet};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Word {
    Introduction(PortalsIntroduction),
    /// The sender's entry is closed: put nothing, and answer when nothing is under way.
    Stop,
    /// Nothing is under way.
    Stopped,
    Go,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PortalsIntroduction {
    process: ProcessAddress,
    messages: u32,
    exposed: u32,
    max_message: u64,
}

const LEN: usize = 25;
const _: () = assert!(LEN <= LONGEST_INTRODUCTION);

impl Word {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Word::Introduction(PortalsIntroduction { process, messages, exposed, max_message }) => {
                let mut out = vec![0];
                for number in [process.nid, process.pid, *messages, *exposed] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
                out.extend_from_slice(&max_message.to_le_bytes());
                out
            }
            Word::Stop => vec![1],
            Word::Stopped => vec![2],
            Word::Go => vec![3],
        }
    }

    pub(super) fn decode(body: &[u8]) -> Option<Word> {
        let (kind, rest) = body.split_first()?;
        Some(match (kind, rest) {
            (0, rest) if body.len() == LEN => {
                let (numbers, max_message) = rest.split_last_chunk::<8>()?;
                let mut numbers = numbers.chunks_exact(4).map(|number| {
                    number.iter().rev().fold(0u32, |sum, byte| sum << 8 | u32::from(*byte))
                });
                let mut next = || numbers.next();
                let process = ProcessAddress { nid: next()?, pid: next()? };
                let (messages, exposed) = (next()?, next()?);
                let max_message = u64::from_le_bytes(*max_message);
                Word::Introduction(PortalsIntroduction { process, messages, exposed, max_message })
            }
            (1, []) => Word::Stop,
            (2, []) => Word::Stopped,
            (3, []) => Word::Go,
            _ => return None,
        })
    }
}

impl Portals {
    pub(super) fn is_of_launcher(&mut self, peer: u32) -> bool {
        self.nodes.as_mut().is_none_or(|nodes| nodes.node(peer).is_some())
    }

    fn introduction(&self) -> Word {
        let (messages, exposed) = self.interface.entries();
        let max_message = self.interface.max_message() as u64;
        let process = self.interface.address();
        Word::Introduction(PortalsIntroduction { process, messages, exposed, max_message })
    }

    pub(super) fn say(&mut self, to: u32, wants_answer: bool, word: Word) {
        self.outbox.push_back((to, wants_answer, word.encode()));
    }

    pub(super) fn flush_outbox(&mut self) {
        let mut full = HashSet::new();
        for (to, wants_answer, body) in std::mem::take(&mut self.outbox) {
            let sent = if full.contains(&to) {
                Ok(Sent::Full)
            } else {
                self.send_word(to, wants_answer, &body)
            };
            match sent {
                Ok(Sent::Full) => {
                    full.insert(to);
                    self.outbox.push_back((to, wants_answer, body));
                }
                Ok(_) => {}
                Err(_) if self.is_met(to) => self.lost.push(to),
                Err(_) => {
                    if self.never_met.insert(to) {
                        self.lost.push(to);
                    }
                }
            }
        }
    }

    fn send_word(&mut self, to: u32, wants_answer: bool, body: &[u8]) -> Result<Sent, Unreachable> {
        let body = Body::Bytes(Bytes::from(body));
        let message = OutgoingMessage::new(Frame::Meet { wants_answer }, body);
        self.sockets.send(to, &message)
    }

    /// Introduces this process and requests the peer's introduction, once.
    pub(super) fn request_introduction(&mut self, to: u32) {
        if self.closed.is_none() && !self.never_met.contains(&to) && self.introduced.insert(to) {
            let word = self.introduction();
            self.say(to, true, word);
            self.flush_outbox();
        }
    }

    pub(super) fn poll_sockets(&mut self, sink: &mut dyn FrameSink) -> bool {
        let came = self.sockets.poll(None, &mut self.introductions.watch(sink));
        self.end_introductions(sink);
        for peer in self.introductions.take_lost() {
            self.drain(sink);
            self.lose(peer, sink);
        }
        self.settle_failures(sink);
        came
    }

    pub(super) fn end_introductions(&mut self, sink: &mut dyn FrameSink) {
        for (from, wants_answer, body) in self.introductions.take() {
            match Word::decode(&body) {
                Some(Word::Introduction(one)) => {
                    self.take_introduction(from, one);
                    if wants_answer {
                        self.unanswered.push(from);
                    }
                }
                Some(word) => self.take_word(from, word),
                None => {
                    (self.tell.0)(&format!(
                        "rank {}: process {from} has sent an invalid word over sockets",
                        self.own
                    ));
                    self.lost.push(from);
                }
            }
        }
        if self.closed.is_none() {
            for to in std::mem::take(&mut self.unanswered) {
                let word = self.introduction();
                self.say(to, false, word);
            }
        }
        self.flush_outbox();
        if !self.unmet.is_empty() {
            self.drain(sink);
        }
    }

    fn take_introduction(&mut self, from: u32, one: PortalsIntroduction) {
        self.introduced.remove(&from);
        if self.is_met(from) {
            return;
        }
        let at = from as usize;
        if self.peers.len() <= at {
            self.peers.resize_with(at + 1, || None);
        }
        let max_message = usize::try_from(one.max_message).unwrap_or(usize::MAX).max(1);
        self.peers[at] = Some(Box::new(PortalsPeer {
            messages: RemoteEntry { process: one.process, index: one.messages },
            exposed: RemoteEntry { process: one.process, index: one.exposed },
            max_message: max_message.min(self.interface.max_message()),
            is_gone: false,
            is_detached: false,
            under_way: 0,
            is_stopped: false,
            wants_stop: false,
            refused: BTreeMap::new(),
        }));
        self.take_unmet(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_introduction_survives_the_wire(nid: u32, pid: u32, messages: u32, exposed: u32, max_message: u64) {
            let process = ProcessAddress { nid, pid };
            let one = Word::Introduction(PortalsIntroduction { process, messages, exposed, max_message });
            prop_assert_eq!(Word::decode(&one.encode()), Some(one));
        }
    }

    #[test]
    fn words_are_read_and_nothing_else_is_one() {
        for word in [Word::Stop, Word::Stopped, Word::Go] {
            assert_eq!(Word::decode(&word.encode()), Some(word));
        }
        for body in [vec![], vec![0], vec![0; LEN - 1], vec![0; LEN + 1], vec![4], vec![1, 0]] {
            assert_eq!(Word::decode(&body), None, "{body:?}");
        }
    }
}
