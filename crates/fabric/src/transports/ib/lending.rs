//! Long pieces of messages at their sender (rule 4 of the module).

use super::{Ib, IbPort};
use crate::pieces::{LentPiece, LentPieces};
use crate::{Body, OutgoingMessage, Sent, Unreachable};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::Bytes;
use oxmpi_verbs::{RegionId, RemoteMemory};
use oxmpi_wire::Frame;

/// In bytes. Shorter pieces go faster in envelopes, without registration on both sides.
pub(super) const REGISTER_FROM: usize = 16 << 10;
/// The longest piece, in bytes; it limits how much of a message is registered at a time.
pub(super) const PIECE_MOST: usize = 64 << 20;
const PLACE_LEN: usize = 24;

/// A piece that is registered until its receiver has read it.
#[derive(Debug)]
struct IbExposure {
    to: u32,
    number: u64,
    region: RegionId,
    /// Sent in envelopes if the receiver cannot read it. `None`: the program has its buffer again.
    piece: Option<LentPiece>,
}

#[derive(Debug, Default)]
pub(super) struct Lending {
    exposures: Vec<IbExposure>,
    pub(super) pieces: LentPieces,
    /// The number of the last exposed piece. Numbers are unique, and not 0.
    number: u64,
}

impl Lending {
    pub(super) fn owes(&self, peer: u32) -> bool {
        self.exposures.iter().any(|one| one.to == peer) || self.pieces.peers().any(|to| to == peer)
    }

    pub(super) fn peers(&self) -> Vec<u32> {
        let exposed = self.exposures.iter().map(|one| one.to);
        let mut peers: Vec<u32> = exposed.chain(self.pieces.peers()).collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }
}

fn encode(at: &RemoteMemory) -> [u8; PLACE_LEN] {
    let mut out = [0; PLACE_LEN];
    let RemoteMemory { memory, check } = at;
    out[..8].copy_from_slice(&memory.0.to_le_bytes());
    out[8..16].copy_from_slice(&check.0.to_le_bytes());
    out[16..20].copy_from_slice(&memory.1.to_le_bytes());
    out[20..].copy_from_slice(&check.1.to_le_bytes());
    out
}

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
    pub(super) fn lend(
        &mut self,
        to: u32,
        message: &OutgoingMessage<'_>,
        place: (u64, u64),
        buffer: &UserBuf,
    ) -> Result<Sent, Unreachable> {
        let piece = LentPiece::new(to, message, place, buffer)?;
        let Some(part) = piece.contiguous().filter(|_| piece.len() >= REGISTER_FROM) else {
            return Ok(self.stream(piece));
        };
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

    fn offer(&mut self, to: u32, region: RegionId, piece: LentPiece) -> Result<Sent, Unreachable> {
        let Some(place) = self.port.exposed(region) else { return Ok(self.stream(piece)) };
        self.lending.number += 1;
        let number = self.lending.number;
        self.port.set_check(region, number);
        let (receiver, offset, length) = piece.place();
        let frame = Frame::DataAt { receiver, offset, length, number };
        let place = encode(&place);
        let body = Body::Bytes(Bytes::from(&place[..]));
        let sent = self.send_envelope(to, Some(&OutgoingMessage::new(frame, body)));
        if matches!(sent, Ok(Sent::Done)) {
            self.lending.exposures.push(IbExposure { to, number, region, piece: Some(piece) });
            return Ok(Sent::Later);
        }
        self.port.deregister(region);
        sent
    }

    fn stream(&mut self, piece: LentPiece) -> Sent {
        self.lending.pieces.keep(piece);
        self.send_streams();
        Sent::Later
    }

    pub(super) fn send_streams(&mut self) -> bool {
        let mut any = false;
        let longest = self.settings.piece_len();
        for mut one in self.lending.pieces.take() {
            let before = one.len();
            if let Err(error) =
                one.send(longest, |to, message| self.send_envelope(to, Some(message)))
            {
                self.fail(one.to, error.why);
            }
            any |= one.len() < before;
            self.lending.pieces.keep(one);
        }
        any
    }

    pub(super) fn was_read(&mut self, from: u32, number: u64, whole: bool) {
        let is_it = |one: &IbExposure| (one.to, one.number) == (from, number);
        let Some(at) = self.lending.exposures.iter().position(is_it) else { return };
        let IbExposure { region, piece, .. } = self.lending.exposures.swap_remove(at);
        self.port.deregister(region);
        match piece {
            Some(piece) if whole => self.lending.pieces.end([piece.token]),
            Some(piece) => self.lending.pieces.keep(piece),
            None => {}
        }
    }

    /// A peer that still reads the buffer finds the check changed, and drops the data.
    pub(super) fn take_back(&mut self, token: u64) {
        for one in &mut self.lending.exposures {
            if one.piece.take_if(|piece| piece.token == token).is_some() {
                self.port.set_check(one.region, 0);
            }
        }
        self.lending.pieces.take_back(token);
    }

    pub(super) fn forget_lent(&mut self, peer: u32) -> Vec<u64> {
        let to_it = |one: &mut IbExposure| one.to == peer;
        let exposed: Vec<_> = self.lending.exposures.extract_if(.., to_it).collect();
        for one in &exposed {
            self.port.deregister(one.region);
        }
        let mut tokens: Vec<u64> =
            exposed.into_iter().filter_map(|one| Some(one.piece?.token)).collect();
        tokens.extend(self.lending.pieces.forget(peer));
        tokens
    }

    pub(super) fn end_sends_to_left(&mut self) {
        for peer in self.lending.peers() {
            if self.sockets.has_left(peer) {
                let tokens = self.forget_lent(peer);
                self.lending.pieces.end(tokens);
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
