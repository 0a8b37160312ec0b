//! Introductions ([`Frame::Meet`](oxmpi_wire::Frame::Meet)): each process sends its address in the
//! provider over sockets, where both have proved that they belong to the job.
//!
//! The body is a cookie of 8 bytes, with which all frames to the introduced process begin
//! (`frames.rs`), and the address.

use super::Ofi;
use super::OfiPeer;
use crate::introductions::LONGEST_INTRODUCTION;
use crate::{Body, FrameSink, OutgoingMessage, Sent, Unreachable};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::Frame;

const COOKIE: usize = 8;
const LONGEST: usize = LONGEST_INTRODUCTION;
const _: () = assert!(LONGEST >= COOKIE + 256);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Introduction {
    pub(super) cookie: u64,
    pub(super) address: Vec<u8>,
}

impl Introduction {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = self.cookie.to_le_bytes().to_vec();
        out.extend_from_slice(&self.address);
        out
    }

    pub(super) fn decode(body: &[u8]) -> Option<Introduction> {
        let (cookie, address) = body.split_first_chunk::<COOKIE>()?;
        let is_one = !address.is_empty() && body.len() <= LONGEST;
        is_one.then(|| Introduction {
            cookie: u64::from_le_bytes(*cookie),
            address: address.to_vec(),
        })
    }
}

impl<const FULL: bool, const GROUPED: bool> Ofi<FULL, GROUPED> {
    pub(super) fn is_of_launcher(&mut self, peer: u32) -> bool {
        self.nodes.as_mut().is_none_or(|nodes| nodes.node(peer).is_some())
    }

    /// Introduces this process to a peer and requests the peer's introduction, once.
    pub(super) fn request_introduction(&mut self, to: u32) -> Result<(), Unreachable> {
        if !self.introduced.contains(&to) && self.introduce(to, true)? {
            self.introduced.insert(to);
        }
        Ok(())
    }

    pub(super) fn introduce(&mut self, to: u32, wants_answer: bool) -> Result<bool, Unreachable> {
        let body = self.introduction.encode();
        let body = Body::Bytes(Bytes::from(&body[..]));
        let message = OutgoingMessage::new(Frame::Meet { wants_answer }, body);
        Ok(self.sockets.send(to, &message)? != Sent::Full)
    }

    pub(super) fn poll_sockets(&mut self, sink: &mut dyn FrameSink) -> bool {
        let came = self.sockets.poll(None, &mut self.introductions.watch(sink));
        self.end_introductions(sink);
        for peer in self.introductions.take_lost() {
            self.drain(sink);
            self.lose(peer, sink);
        }
        for failed in std::mem::take(&mut self.failed) {
            self.settle_failed(failed, sink);
        }
        came
    }

    pub(super) fn end_introductions(&mut self, sink: &mut dyn FrameSink) {
        for (from, wants_answer, body) in self.introductions.take() {
            if let Err(why) = self.take_introduction(from, &body) {
                (self.tell.0)(&format!(
                    "rank {}: there is no contact with process {from}: {why}",
                    self.own
                ));
                self.lost.push(from);
                continue;
            }
            if wants_answer {
                self.unanswered.push(from);
            }
            for (_, room, length) in std::mem::take(&mut self.held_rooms) {
                self.take_frame(room, length, sink);
            }
        }
        for to in std::mem::take(&mut self.unanswered) {
            match self.introduce(to, false) {
                Ok(true) => {}
                Ok(false) => self.unanswered.push(to),
                Err(_) => self.lost.push(to),
            }
        }
    }

    pub(super) fn take_introduction(&mut self, from: u32, body: &[u8]) -> Result<(), String> {
        self.introduced.remove(&from);
        if self.address_of(from).is_some() {
            return Ok(());
        }
        let Introduction { cookie, address } =
            Introduction::decode(body).ok_or("its introduction is invalid")?;
        let address = self.endpoint.insert(&address).map_err(|error| error.to_string())?;
        let at = from as usize;
        if self.peers.len() <= at {
            self.peers.resize_with(at + 1, || None);
        }
        self.peers[at] = Some(Box::new(OfiPeer::new(address, cookie)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_introduction_survives_the_wire(cookie: u64, address in prop::collection::vec(any::<u8>(), 1..=256)) {
            let one = Introduction { cookie, address };
            prop_assert_eq!(Introduction::decode(&one.encode()), Some(one));
        }
    }

    #[test]
    fn an_invalid_introduction_is_refused() {
        for body in [vec![], vec![1; 8], vec![1; LONGEST + 1]] {
            assert_eq!(Introduction::decode(&body), None);
        }
    }
}
