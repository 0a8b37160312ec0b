//! Long pieces of messages at their sender (rule 6 of the module).

use super::landing::words;
use super::{Gm, GmPort, HEAD};
use crate::pieces::{LentPiece, LentPieces};
use crate::{Body, OutgoingMessage, Sent, Unreachable};
use oxmpi_gm::{GmError, GmRegion, GmStatus, WordId};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Frame, MAX_FRAME_LEN};

/// In bytes. A copy of a shorter piece takes less time than its registration on both sides.
pub(super) const REGISTER_FROM: usize = 16 << 10;
/// The longest piece, in bytes; it limits how much of a message is registered at a time.
pub(super) const PIECE_MOST: usize = 64 << 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PutStep {
    /// Its receiver gets the piece, or has not answered yet.
    Offered,
    /// The piece is put to this address when there is a token.
    Wanted(u64),
    UnderWay(u64),
}

/// A piece that is registered until its receiver has it.
#[derive(Debug)]
struct GmExposure {
    to: u32,
    number: u64,
    region: GmRegion,
    /// A word with the value `number` while the message lies in the region.
    check: WordId,
    receiver: u64,
    offset: u64,
    length: u64,
    step: PutStep,
    /// Sent through slots if it cannot be moved directly. `None`: the program has its buffer again.
    piece: Option<LentPiece>,
}

impl GmExposure {
    /// The frame that says that the piece has arrived (`length`), or does not come directly (0).
    fn ended(&self, length: u64) -> Frame {
        let GmExposure { receiver, offset, number, .. } = *self;
        Frame::DataAt { receiver, offset, length, number }
    }
}

#[derive(Debug, Default)]
pub(super) struct Lending {
    exposures: Vec<GmExposure>,
    pub(super) pieces: LentPieces,
    /// The number of the last exposed piece. Numbers are unique, and not 0.
    number: u64,
    free_checks: Vec<WordId>,
    pub(super) put_bytes: u64,
    pub(super) copied_bytes: u64,
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

    pub(super) fn forget_words(&mut self) {
        self.free_checks.clear();
    }

    pub(super) fn under_way(&self) -> usize {
        self.exposures.iter().filter(|one| matches!(one.step, PutStep::UnderWay(_))).count()
    }
}

impl<P: GmPort> Gm<P> {
    /// In bytes. A piece fills one of GM's messages, whose lengths are powers of two, less 8.
    pub(super) fn slot_piece(&self) -> usize {
        self.port.slot_len().saturating_sub(HEAD + MAX_FRAME_LEN)
    }

    /// Implements [`GmSettings::pins`](super::GmSettings::pins).
    pub(super) fn may_register(&self, part: &UserBuf) -> bool {
        let Some(bytes) = part.as_contiguous() else { return false };
        let (start, len) = (bytes.as_ptr().addr(), bytes.len());
        (self.settings.pins || self.allocated.has(start, len))
            && !self.landings.is_abandoned(start, len)
    }

    pub(super) fn lend(
        &mut self,
        to: u32,
        message: &OutgoingMessage<'_>,
        place: (u64, u64),
        buffer: &UserBuf,
    ) -> Result<Sent, Unreachable> {
        let piece = LentPiece::new(to, message, place, buffer)?;
        let part = piece
            .contiguous()
            .filter(|part| piece.len() >= REGISTER_FROM && self.may_register(part));
        let Some(part) = part else { return Ok(self.stream(piece)) };
        if !self.has_room(to) {
            return Ok(Sent::Full);
        }
        match self.port.register(&part) {
            Ok(region) => self.offer(to, region, piece),
            Err(error) => {
                self.warn_of_registration(&error);
                Ok(self.stream(piece))
            }
        }
    }

    fn offer(&mut self, to: u32, region: GmRegion, piece: LentPiece) -> Result<Sent, Unreachable> {
        let check = match self.lending.free_checks.pop().map_or_else(|| self.port.new_word(), Ok) {
            Ok(check) => check,
            Err(error) => {
                self.port.deregister(region);
                self.warn_of_registration(&error);
                return Ok(self.stream(piece));
            }
        };
        self.lending.number += 1;
        let number = self.lending.number;
        self.port.set_word(check, number);
        let (receiver, offset, length) = piece.place();
        let place = words(&[self.port.region_address(region), self.port.word_address(check)]);
        let body = Body::Bytes(Bytes::from(&place[..]));
        let frame = Frame::DataAt { receiver, offset, length, number };
        let sent = self.send_message(to, &OutgoingMessage::new(frame, body));
        let one = GmExposure {
            to,
            number,
            region,
            check,
            receiver,
            offset,
            length,
            step: PutStep::Offered,
            piece: Some(piece),
        };
        if matches!(sent, Ok(Sent::Done)) {
            self.lending.exposures.push(one);
            return Ok(Sent::Later);
        }
        self.cover(one);
        sent
    }

    /// Returns the piece that is sent through slots instead.
    fn cover(&mut self, one: GmExposure) -> Option<LentPiece> {
        self.port.set_word(one.check, 0);
        self.lending.free_checks.push(one.check);
        self.port.deregister(one.region);
        one.piece
    }

    fn stream(&mut self, piece: LentPiece) -> Sent {
        self.lending.pieces.keep(piece);
        self.send_streams();
        Sent::Later
    }

    pub(super) fn send_streams(&mut self) -> bool {
        let mut any = false;
        let longest = self.slot_piece();
        for mut one in self.lending.pieces.take() {
            let before = one.len();
            if let Err(error) = one.send(longest, |to, message| self.send_message(to, message)) {
                self.fail(one.to, error.why);
            }
            let copied = before - one.len();
            self.lending.copied_bytes += copied as u64;
            any |= copied > 0;
            self.lending.pieces.keep(one);
        }
        any
    }

    /// A receiver has got a piece, requests a put to an address, or requests slots.
    pub(super) fn was_answered(
        &mut self,
        from: u32,
        number: u64,
        whole: bool,
        address: Option<u64>,
    ) {
        let is_it = |one: &GmExposure| (one.to, one.number) == (from, number);
        let Some(at) = self.lending.exposures.iter().position(is_it) else { return };
        let one = &mut self.lending.exposures[at];
        if let (Some(address), true) = (address, whole) {
            if one.step == PutStep::Offered && one.piece.is_some() {
                one.step = PutStep::Wanted(address);
            } else if one.piece.is_none() {
                self.end_put(at, 0);
            }
            return;
        }
        if matches!(one.step, PutStep::UnderWay(_)) {
            // No correct peer requests this during a put.
            return;
        }
        let one = self.lending.exposures.swap_remove(at);
        match self.cover(one) {
            Some(piece) if whole => self.lending.pieces.end([piece.token]),
            Some(piece) => self.lending.pieces.keep(piece),
            None => {}
        }
    }

    /// A put has ended (`length`), or cannot reach the receiver's memory (0).
    fn end_put(&mut self, at: usize, length: u64) -> Option<LentPiece> {
        let one = self.lending.exposures.swap_remove(at);
        self.owed.push_back((one.to, one.ended(length), None));
        self.cover(one)
    }

    pub(super) fn begin_puts(&mut self) {
        for at in 0..self.lending.exposures.len() {
            let GmExposure { to, region, step, .. } = self.lending.exposures[at];
            let PutStep::Wanted(address) = step else { continue };
            let Some(target) = self.target_of_move(to) else { continue };
            if self.port.put(to, target, region, address).is_ok() {
                self.lending.exposures[at].step = PutStep::UnderWay(address);
            }
        }
    }

    pub(super) fn put_ended(&mut self, region: GmRegion, status: &GmStatus) {
        let Some(at) = self.lending.exposures.iter().position(|one| one.region == region) else {
            return;
        };
        let one = &mut self.lending.exposures[at];
        let PutStep::UnderWay(address) = one.step else { return };
        let (length, is_released) = (one.length, one.piece.is_none());
        match status {
            GmStatus::TimedOut | GmStatus::Dropped if !is_released => {
                one.step = PutStep::Wanted(address)
            }
            GmStatus::Done if !is_released => {
                self.lending.put_bytes += length;
                let piece = self.end_put(at, length);
                self.lending.pieces.end(piece.map(|piece| piece.token));
            }
            // The memory of one side is no longer registered.
            _ => {
                let piece = self.end_put(at, 0);
                piece.into_iter().for_each(|piece| self.lending.pieces.keep(piece));
            }
        }
    }

    /// Makes data that a peer has got, or that were put, invalid.
    pub(super) fn take_back(&mut self, token: u64) {
        let Gm { lending, port, .. } = self;
        for one in &mut lending.exposures {
            if one.piece.take_if(|piece| piece.token == token).is_some() {
                port.set_word(one.check, 0);
            }
        }
        let is_it =
            |one: &GmExposure| one.piece.is_none() && matches!(one.step, PutStep::Wanted(_));
        while let Some(at) = self.lending.exposures.iter().position(is_it) {
            self.end_put(at, 0);
        }
        self.lending.pieces.take_back(token);
    }

    pub(super) fn forget_lent(&mut self, peer: u32) -> Vec<u64> {
        let to_it = |one: &mut GmExposure| one.to == peer;
        let exposed: Vec<_> = self.lending.exposures.extract_if(.., to_it).collect();
        let mut tokens: Vec<u64> =
            exposed.into_iter().filter_map(|one| Some(self.cover(one)?.token)).collect();
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

    pub(super) fn warn_of_registration(&mut self, error: &GmError) {
        if !std::mem::replace(&mut self.has_warned, true) {
            self.say(&format!(
                "{error}; long messages are copied through auxiliary buffers where memory cannot be registered: let GM's driver pin more \
                 memory, or set rpi_gm_nopin to 1 to have all copied"
            ));
        }
    }
}
