//! Pieces of long messages, out of buffers that are lent until all of a piece has gone.
//!
//! What transports have in common whose adapters move a piece as a whole out of registered memory: where that cannot be, the piece goes in
//! frames of its own, as far as there is room for them, and the rest waits.

use crate::{Body, Message, Sent, Sink, Unreachable};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_wire::Frame;

/// A piece, and how much of it is still to go.
#[derive(Debug)]
pub(crate) struct LentPiece {
    pub(crate) to: u32,
    pub(crate) token: u64,
    receiver: u64,
    /// All of the message, and which part of it is still to go.
    buffer: UserBuf,
    at: usize,
    end: usize,
}

impl LentPiece {
    /// The body of a message that is a part of `buffer`, from an offset on.
    ///
    /// # Errors
    /// It lies outside.
    pub(crate) fn new(
        to: u32,
        message: &Message<'_>,
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

    /// Bytes that are still to go.
    pub(crate) fn len(&self) -> usize {
        self.end - self.at
    }

    /// Its memory, if that lies in one piece.
    pub(crate) fn contiguous(&self) -> Option<UserBuf> {
        self.buffer.packed_range(self.at, self.len()).filter(|part| part.as_contiguous().is_some())
    }

    /// Receiver, offset and length, as [`Frame::DataAt`] says them.
    pub(crate) fn place(&self) -> (u64, u64, u64) {
        (self.receiver, self.at as u64, self.len() as u64)
    }

    /// Sends what is left in frames of at most `longest` bytes, as far as they are taken.
    ///
    /// # Errors
    /// Of `send`.
    pub(crate) fn send(
        &mut self,
        longest: usize,
        mut send: impl FnMut(u32, &Message<'_>) -> Result<Sent, Unreachable>,
    ) -> Result<(), Unreachable> {
        while self.at < self.end {
            let len = longest.min(self.len());
            let frame = Frame::Data { receiver: self.receiver, offset: self.at as u64 };
            let body = Body::of(&self.buffer, self.at, len);
            if send(self.to, &Message { sequence: 0, frame, body, lent: None, token: 0 })? != Sent::Done {
                break;
            }
            self.at += len;
        }
        Ok(())
    }
}

/// The pieces that wait for room, and the tokens of those that have gone.
#[derive(Debug, Default)]
pub(crate) struct LentPieces {
    waiting: Vec<LentPiece>,
    gone: Vec<u64>,
}

impl LentPieces {
    /// Whether some wait for room.
    pub(crate) fn wait_for_room(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether something is to be handed up.
    pub(crate) fn has_news(&self) -> bool {
        !self.gone.is_empty()
    }

    /// The peers for which some wait.
    pub(crate) fn peers(&self) -> impl Iterator<Item = u32> {
        self.waiting.iter().map(|one| one.to)
    }

    /// Takes those that wait, in their order; what is left of each is given back to [`LentPieces::keep`].
    pub(crate) fn take(&mut self) -> Vec<LentPiece> {
        std::mem::take(&mut self.waiting)
    }

    /// One more waits, behind the others, or has gone if nothing of it is left.
    pub(crate) fn keep(&mut self, piece: LentPiece) {
        if piece.len() > 0 {
            self.waiting.push(piece);
        } else {
            self.gone.push(piece.token);
        }
    }

    /// Their buffers are free again.
    pub(crate) fn end(&mut self, tokens: impl IntoIterator<Item = u64>) {
        self.gone.extend(tokens);
    }

    /// Hands up what has gone. Whether anything had.
    pub(crate) fn report(&mut self, sink: &mut dyn Sink) -> bool {
        let gone = std::mem::take(&mut self.gone);
        gone.iter().for_each(|token| sink.sent(*token));
        !gone.is_empty()
    }

    /// The buffer of a token is the program's again, which need not hear of it any more.
    pub(crate) fn take_back(&mut self, token: u64) {
        self.waiting.retain(|one| one.token != token);
        self.gone.retain(|one| *one != token);
    }

    /// A peer gets nothing more. The tokens of what it has not got.
    pub(crate) fn forget(&mut self, peer: u32) -> Vec<u64> {
        self.waiting.extract_if(.., |one| one.to == peer).map(|one| one.token).collect()
    }
}
