//! Pieces of long messages in buffers that are lent until the whole piece has left.
//!
//! They are for transports whose adapters move a whole piece out of registered memory. If the
//! adapter cannot move a piece, frames carry as much of it as they have room for; the rest waits.

use crate::{Body, FrameSink, OutgoingMessage, Sent, Unreachable};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_wire::Frame;

#[derive(Debug)]
pub(crate) struct LentPiece {
    pub(crate) to: u32,
    pub(crate) token: u64,
    receiver: u64,
    /// The whole message; `at..end` has not left yet.
    buffer: UserBuf,
    at: usize,
    end: usize,
}

impl LentPiece {
    pub(crate) fn new(
        to: u32,
        message: &OutgoingMessage<'_>,
        (receiver, offset): (u64, u64),
        buffer: &UserBuf,
    ) -> Result<LentPiece, Unreachable> {
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = at.checked_add(message.body.len()).filter(|end| *end <= buffer.packed_len());
        let end = end.ok_or_else(|| Unreachable {
            peer: to,
            why: format!("a piece lies outside of its message, at {offset}"),
        })?;
        Ok(LentPiece { to, token: message.token, receiver, buffer: buffer.clone(), at, end })
    }

    pub(crate) fn len(&self) -> usize {
        self.end - self.at
    }

    pub(crate) fn contiguous(&self) -> Option<UserBuf> {
        self.buffer.packed_range(self.at, self.len()).filter(|part| part.as_contiguous().is_some())
    }

    pub(crate) fn place(&self) -> (u64, u64, u64) {
        (self.receiver, self.at as u64, self.len() as u64)
    }

    pub(crate) fn send(
        &mut self,
        longest: usize,
        mut send: impl FnMut(u32, &OutgoingMessage<'_>) -> Result<Sent, Unreachable>,
    ) -> Result<(), Unreachable> {
        while self.at < self.end {
            let len = longest.min(self.len());
            let frame = Frame::Data { receiver: self.receiver, offset: self.at as u64 };
            let body = Body::of(&self.buffer, self.at, len);
            if send(self.to, &OutgoingMessage::new(frame, body))? != Sent::Done {
                break;
            }
            self.at += len;
        }
        Ok(())
    }
}

/// The pieces that wait for room, and the tokens of pieces that have left.
#[derive(Debug, Default)]
pub(crate) struct LentPieces {
    waiting: Vec<LentPiece>,
    gone: Vec<u64>,
}

impl LentPieces {
    pub(crate) fn wait_for_room(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn has_news(&self) -> bool {
        !self.gone.is_empty()
    }

    pub(crate) fn peers(&self) -> impl Iterator<Item = u32> {
        self.waiting.iter().map(|one| one.to)
    }

    /// Takes the waiting pieces. The caller returns unfinished pieces by [`LentPieces::keep`].
    pub(crate) fn take(&mut self) -> Vec<LentPiece> {
        std::mem::take(&mut self.waiting)
    }

    /// Puts a piece at the end of the queue, or finishes it if all of it has left.
    pub(crate) fn keep(&mut self, piece: LentPiece) {
        if piece.len() > 0 {
            self.waiting.push(piece);
        } else {
            self.gone.push(piece.token);
        }
    }

    pub(crate) fn end(&mut self, tokens: impl IntoIterator<Item = u64>) {
        self.gone.extend(tokens);
    }

    pub(crate) fn report(&mut self, sink: &mut dyn FrameSink) -> bool {
        let gone = std::mem::take(&mut self.gone);
        gone.iter().for_each(|token| sink.sent(*token));
        !gone.is_empty()
    }

    /// Drops everything of a token without a report: its buffer is the program's again.
    pub(crate) fn take_back(&mut self, token: u64) {
        self.waiting.retain(|one| one.token != token);
        self.gone.retain(|one| *one != token);
    }

    pub(crate) fn forget(&mut self, peer: u32) -> Vec<u64> {
        self.waiting.extract_if(.., |one| one.to == peer).map(|one| one.token).collect()
    }
}
