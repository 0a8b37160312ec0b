//! Long pieces of messages on the side of their sender (rule 4 of the module).

use super::{Ib, IbPort};
use crate::{Body, Message, Sent, Sink, Unreachable};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::Bytes;
use oxmpi_verbs::{RegionId, RemoteMemory};
use oxmpi_wire::Frame;
use std::collections::VecDeque;

/// The shortest piece that is registered, bytes: a shorter one is in fewer envelopes than registering it twice takes time for.
pub(super) const REGISTER_FROM: usize = 16 << 10;
/// The longest piece, bytes: of a longer message only so much is registered at a time.
pub(super) const PIECE_MOST: usize = 64 << 20;
/// The bytes that say where a piece lies.
const PLACE_LEN: usize = 24;

/// A piece that lies registered until its receiver has read it.
#[derive(Debug)]
struct Exposure {
    to: u32,
    number: u64,
    region: RegionId,
    /// What is to be sent if the receiver cannot read it. `None`: the sender's buffer was released.
    piece: Option<Stream>,
}

/// A piece that goes in envelopes.
#[derive(Debug)]
struct Stream {
    to: u32,
    token: u64,
    receiver: u64,
    /// All of the message, and which part of it is still to go.
    buffer: UserBuf,
    at: usize,
    end: usize,
}

/// All pieces that a process sends.
#[derive(Debug, Default)]
pub(super) struct Lending {
    exposures: Vec<Exposure>,
    streams: VecDeque<Stream>,
    /// Of the piece that was exposed last: no number is used twice, nor is 0.
    number: u64,
    /// Tokens of pieces that are gone.
    gone: Vec<u64>,
}

impl Lending {
    /// Whether pieces wait for room in envelopes.
    pub(super) fn waits_for_room(&self) -> bool {
        !self.streams.is_empty()
    }

    /// Whether something is to be handed up.
    pub(super) fn has_news(&self) -> bool {
        !self.gone.is_empty()
    }

    /// Whether a peer has not got all yet.
    pub(super) fn owes(&self, peer: u32) -> bool {
        self.exposures.iter().any(|one| one.to == peer) || self.streams.iter().any(|one| one.to == peer)
    }

    /// The peers that have not got all.
    pub(super) fn peers(&self) -> Vec<u32> {
        let exposed = self.exposures.iter().map(|one| one.to);
        let mut peers: Vec<u32> = exposed.chain(self.streams.iter().map(|one| one.to)).collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }
}

/// Where a piece lies, as the body of [`Frame::DataAt`].
fn encode(at: &RemoteMemory) -> [u8; PLACE_LEN] {
    let mut out = [0; PLACE_LEN];
    let RemoteMemory { memory, check } = at;
    out[..8].copy_from_slice(&memory.0.to_le_bytes());
    out[8..16].copy_from_slice(&check.0.to_le_bytes());
    out[16..20].copy_from_slice(&memory.1.to_le_bytes());
    out[20..].copy_from_slice(&check.1.to_le_bytes());
    out
}

/// Reads such a body. `None`: it is none.
pub(super) fn decode(body: &[u8]) -> Option<RemoteMemory> {
    let (memory, rest) = body.split_first_chunk::<8>()?;
    let (check, rest) = rest.split_first_chunk::<8>()?;
    let (memory_key, rest) = rest.split_first_chunk::<4>()?;
    let check_key = rest.first_chunk::<4>().filter(|key| key.len() == rest.len())?;
    Some(RemoteMemory {
        memory: (u64::from_le_bytes(*memory), u32::from_le_bytes(*memory_key)),
        check: (u64::from_le_bytes(*check), u32::from_le_bytes(*check_key)),
    })
}

impl<P: IbPort> Ib<P> {
    /// Sends a piece that is longer than an envelope, out of a buffer that is lent.
    pub(super) fn lend(
        &mut self,
        to: u32,
        message: &Message<'_>,
        (receiver, offset): (u64, u64),
        buffer: &UserBuf,
    ) -> Result<Sent, Unreachable> {
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let len = message.body.len();
        if at.checked_add(len).is_none_or(|end| end > buffer.packed_len()) {
            return Err(Unreachable {
                peer: to,
                why: format!("a piece lies outside of its message, at {offset}"),
            });
        }
        let piece = Stream { to, token: message.token, receiver, buffer: buffer.clone(), at, end: at + len };
        let part = buffer.packed_range(at, len).filter(|part| part.as_contiguous().is_some());
        let Some(part) = part.filter(|_| len >= REGISTER_FROM) else { return Ok(self.stream(piece)) };
        if !self.has_room(to) {
            return Ok(Sent::Full);
        }
        match self.port.expose(&part) {
            Ok(region) => self.offer(to, region, piece),
            Err(error) => {
                self.warn_of_registration(&error);
                Ok(self.stream(piece))
            }
        }
    }

    /// Says where a piece lies.
    fn offer(&mut self, to: u32, region: RegionId, piece: Stream) -> Result<Sent, Unreachable> {
        let Some(place) = self.port.exposed(region) else { return Ok(self.stream(piece)) };
        self.lending.number += 1;
        let number = self.lending.number;
        self.port.set_check(region, number);
        let (offset, length) = (piece.at as u64, (piece.end - piece.at) as u64);
        let frame = Frame::DataAt { receiver: piece.receiver, offset, length, number };
        let place = encode(&place);
        let body = Body::Bytes(Bytes::from(&place[..]));
        let sent = self.send_envelope(to, Some(&Message { sequence: 0, frame, body, lent: None, token: 0 }));
        if matches!(sent, Ok(Sent::Done)) {
            self.lending.exposures.push(Exposure { to, number, region, piece: Some(piece) });
            return Ok(Sent::Later);
        }
        self.port.deregister(region);
        sent
    }

    /// Sends a piece in envelopes: now, as far as there is room.
    fn stream(&mut self, piece: Stream) -> Sent {
        self.lending.streams.push_back(piece);
        self.send_streams();
        Sent::Later
    }

    /// Goes on with what goes in envelopes. Whether anything went.
    pub(super) fn send_streams(&mut self) -> bool {
        let mut any = false;
        let longest = self.settings.piece_len();
        for mut one in std::mem::take(&mut self.lending.streams) {
            while one.at < one.end {
                let len = longest.min(one.end - one.at);
                let frame = Frame::Data { receiver: one.receiver, offset: one.at as u64 };
                let body = Body::of(&one.buffer, one.at, len);
                let message = Message { sequence: 0, frame, body, lent: None, token: 0 };
                match self.send_envelope(one.to, Some(&message)) {
                    Ok(Sent::Done) => {}
                    Ok(_) => break,
                    Err(error) => {
                        self.fail(one.to, error.why);
                        break;
                    }
                }
                one.at += len;
                any = true;
            }
            if one.at < one.end {
                self.lending.streams.push_back(one);
            } else {
                self.lending.gone.push(one.token);
            }
        }
        any
    }

    /// A receiver has read a piece, or wants it sent.
    pub(super) fn was_read(&mut self, from: u32, number: u64, whole: bool) {
        let is_it = |one: &Exposure| (one.to, one.number) == (from, number);
        let Some(at) = self.lending.exposures.iter().position(is_it) else { return };
        let Exposure { region, piece, .. } = self.lending.exposures.swap_remove(at);
        self.port.deregister(region);
        match piece {
            Some(piece) if whole => self.lending.gone.push(piece.token),
            Some(piece) => self.lending.streams.push_back(piece),
            None => {}
        }
    }

    /// Hands up what is gone. Whether anything was.
    pub(super) fn report_gone(&mut self, sink: &mut dyn Sink) -> bool {
        let gone = std::mem::take(&mut self.lending.gone);
        gone.iter().for_each(|token| sink.sent(*token));
        !gone.is_empty()
    }

    /// A buffer is the program's again. A peer that still reads it finds out by the check, so what it has read is no message.
    pub(super) fn take_back(&mut self, token: u64) {
        for one in &mut self.lending.exposures {
            if one.piece.take_if(|piece| piece.token == token).is_some() {
                self.port.set_check(one.region, 0);
            }
        }
        self.lending.streams.retain(|one| one.token != token);
        self.lending.gone.retain(|one| *one != token);
    }

    /// A peer that is gone gets nothing more; its connection is closed. The tokens of what it has not got.
    pub(super) fn forget_lent(&mut self, peer: u32) -> Vec<u64> {
        let to_it = |one: &mut Exposure| one.to == peer;
        let exposed: Vec<_> = self.lending.exposures.extract_if(.., to_it).collect();
        for one in &exposed {
            self.port.deregister(one.region);
        }
        let mut tokens: Vec<u64> = exposed.into_iter().filter_map(|one| Some(one.piece?.token)).collect();
        self.lending.streams.retain(|one| {
            if one.to == peer {
                tokens.push(one.token);
            }
            one.to != peer
        });
        tokens
    }

    /// A peer that has left needs nothing of what it has not taken.
    pub(super) fn end_sends_to_left(&mut self) {
        for peer in self.lending.peers() {
            if self.sockets.has_left(peer) {
                let tokens = self.forget_lent(peer);
                self.lending.gone.extend(tokens);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_place_survives_the_wire(addresses: [u64; 2], keys: [u32; 2]) {
            let place = RemoteMemory { memory: (addresses[0], keys[0]), check: (addresses[1], keys[1]) };
            prop_assert_eq!(decode(&encode(&place)), Some(place));
        }

        #[test]
        fn any_bytes_are_a_place_or_none(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(decode(&bytes).is_some(), bytes.len() == PLACE_LEN);
        }
    }
}
