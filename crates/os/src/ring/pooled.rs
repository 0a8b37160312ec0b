//! Sending through the pool, and frames with a body (rules 9 and 10).

use super::{RingSender, form, header};
use crate::{
    bytes::{Bytes, BytesMut, CopyKind},
    hint::{prefetch_to_write, store_fence},
    line::LINE_BYTES,
    pool::{CopyChoice, Pool, PoolShape},
    sync::Ordering,
};

/// Plain copies go by whole blocks, and in shorter messages by pieces of so many bytes up to so long a message: each piece
/// has a price of its own (its slot goes from core to core, the receiver misses its first lines), which has to be
/// earned back by having the receiver begin earlier. All are powers of two and divide a block.
const PLAIN_PIECES: [(u32, u32); 2] = [(32 << 10, 8 << 10), (128 << 10, 16 << 10)];

/// Streaming copies are slower, so that shorter pieces pay: of 4 KiB in messages of at most so many bytes, of a quarter of a
/// block up to the next limit, and beyond of half of that.
const STREAMED_IN_4_KIB: u32 = 16 << 10;
const STREAMED_IN_QUARTERS: u32 = 128 << 10;

/// The lines of a piece of fewer bytes are fetched before it is copied. Copies of more go by the processor's string
/// instruction sooner or later, which need not fetch what it overwrites: for them it was measured to double the time.
const PREFETCHED_BELOW: usize = 4 << 10;

/// The sender's pool, for one message.
#[derive(Debug)]
pub struct Pooling<'a> {
    /// The pool.
    pub pool: &'a mut Pool,
    /// The process at the other end of the ring, for [`Pool::forget`].
    pub to: u32,
    /// How the message's pieces are copied. It learns from the time that plain ones take; so a caller whose copies are slow
    /// by themselves (it packs a derived datatype, say) passes [`CopyChoice::always`].
    pub copies: &'a mut CopyChoice,
}

impl RingSender {
    /// The longest message in bytes that may be sent on this ring through a pool of this shape: half of the pool, and
    /// no more pieces than half the slots (rule 8).
    pub fn max_pooled(&self, pool: &PoolShape) -> usize {
        let by_slots = self.area.shape.slots as usize / 2 * pool.block_bytes as usize;
        pool.max_message().min(by_slots)
    }

    /// Whether a frame with a body of `len` bytes could be sent to process `to` through the pool now, however its pieces are
    /// copied, without running far ahead of the receiver ([`Pool::room_beside`]).
    pub fn has_room_pooled(&mut self, len: usize, pool: &mut Pool, to: u32) -> bool {
        let shape = pool.shape();
        if len > self.max_pooled(&shape) {
            return false;
        }
        let most = self.area.shape.slots / 2;
        let slots = [CopyKind::Plain, CopyKind::Streaming]
            .map(|kind| (len as u32).div_ceil(piece_bytes(len as u32, &shape, kind, most)))
            .into_iter()
            .fold(1, u32::max)
            + 1;
        (slots <= self.free || slots <= self.look_for_credits()) && pool.room_beside(len, to)
    }

    /// Sends a message of `total` bytes through the sender's pool, all or nothing. `fill(offset, piece, kind)` is
    /// called for each piece in turn and writes the message's bytes from `offset` on to it, all of them. If `kind` is
    /// streaming it may do so by streaming stores, [`Bytes::copy_by`]. `false`: no room now, in the ring or in the
    /// pool, and `fill` was not called. There may be room in the data ring; nobody wakes a sender that waits for the
    /// pool.
    ///
    /// # Panics
    /// If `total` is more than [`RingSender::max_pooled`].
    pub fn try_send_pooled(
        &mut self,
        tag: i32,
        context: u16,
        total: usize,
        pooling: Pooling<'_>,
        mut fill: impl FnMut(usize, BytesMut<'_>, CopyKind),
    ) -> bool {
        let Some(longest) = self.room_for_pooled(total, &mut *pooling.pool, pooling.copies.kind(), 0) else {
            return false;
        };
        self.send_pieces(tag, context, total, longest, pooling, &mut fill);
        true
    }

    /// Sends a frame of at most 56 bytes and, behind it, a body of `body_len` bytes, all or nothing (rule 10): through
    /// the pool if one is given, else through the data ring with plain copies. `fill` as for
    /// [`RingSender::try_send_pooled`]. `false`: no room now, and `fill` was not called.
    ///
    /// # Panics
    /// If `frame` is longer than 56 bytes, or the body longer than [`RingSender::max_pooled`] or
    /// [`RingSender::max_data`].
    pub fn try_send_frame_with_body(
        &mut self,
        frame: Bytes<'_>,
        body_len: usize,
        pooling: Option<Pooling<'_>>,
        mut fill: impl FnMut(usize, BytesMut<'_>, CopyKind),
    ) -> bool {
        let tag = body_len as u32 as i32;
        match pooling {
            _ if body_len == 0 => self.try_send_frame(frame),
            None => {
                let gone = self.room_for_data(body_len, 1) && self.send_slot(tag, 0, form::FRAME, frame);
                if gone {
                    let mut plain = |offset, chunk: BytesMut<'_>| fill(offset, chunk, CopyKind::Plain);
                    self.send_chunks(0, 0, body_len, &mut plain);
                }
                gone
            }
            Some(pooling) => {
                let kind = pooling.copies.kind();
                let Some(longest) = self.room_for_pooled(body_len, &mut *pooling.pool, kind, 1) else {
                    return false;
                };
                let gone = self.send_slot(tag, 0, form::FRAME, frame);
                if gone {
                    self.send_pieces(0, 0, body_len, longest, pooling, &mut fill);
                }
                gone
            }
        }
    }

    /// Copies and publishes a message for whose pieces there is room (rules 6 and 9).
    #[inline]
    fn send_pieces(
        &mut self,
        tag: i32,
        context: u16,
        total: usize,
        longest: u32,
        pooling: Pooling<'_>,
        fill: &mut impl FnMut(usize, BytesMut<'_>, CopyKind),
    ) {
        let Pooling { pool, to, copies } = pooling;
        let complaints = self.area.complaints_word().load(Ordering::Relaxed);
        if std::mem::replace(&mut self.complaints, complaints) != complaints {
            copies.reader_was_slow();
        }
        let total = total as u32;
        let block_bytes = pool.shape().block_bytes;
        let mut position = pool.take(total as usize, to);
        let mut offset = 0;
        loop {
            let len = longest.min(total - offset);
            copy_piece(pool, position, len as usize, copies, |piece, kind| {
                fill(offset as usize, piece, kind)
            });
            // SAFETY: `slot` is inside the area, and free (`room_for_pooled`).
            unsafe { self.fill_chunk_words(total, len, position, offset) };
            offset += len;
            let is_full = position.wrapping_add(len) & (block_bytes - 1) == 0;
            position = if is_full { pool.after(position) } else { position.wrapping_add(len) };
            let ends_block = is_full || offset == total;
            self.publish(header(tag, context, form::POOLED, usize::from(ends_block), self.lap));
            if offset == total {
                return;
            }
        }
    }

    /// If there is room for `more` slots and a message in the pool behind them: the length of its
    /// pieces.
    fn room_for_pooled(&mut self, total: usize, pool: &mut Pool, kind: CopyKind, more: u32) -> Option<u32> {
        let shape = pool.shape();
        let most = self.max_pooled(&shape);
        assert!(
            total <= most,
            "a message of {total} bytes does not fit this pool, which takes {most} at most"
        );
        let total = total as u32;
        let longest = piece_bytes(total, &shape, kind, self.area.shape.slots / 2);
        let slots = total.div_ceil(longest).max(1) + more;
        let fits = slots <= self.free || slots <= self.look_for_credits();
        (fits && pool.room_for(total as usize)).then_some(longest)
    }
}

/// The length of the pieces, all but the last, in which a message is sent: at most so many of them; if each is a block that must be
/// possible.
fn piece_bytes(total: u32, shape: &PoolShape, kind: CopyKind, most: u32) -> u32 {
    let block = shape.block_bytes;
    let wanted = match kind {
        CopyKind::Plain => {
            let piece = PLAIN_PIECES.into_iter().find(|(up_to, _)| total <= *up_to);
            piece.map_or(block, |(_, bytes)| bytes)
        }
        CopyKind::Streaming if total <= STREAMED_IN_4_KIB => 4 << 10,
        CopyKind::Streaming if total <= STREAMED_IN_QUARTERS => block / 4,
        CopyKind::Streaming => block / 2,
    };
    // Both are powers of two, so that pieces fill a block.
    let wanted = wanted.min(block);
    if total.div_ceil(wanted) <= most { wanted } else { block }
}

/// Has a piece copied into the pool, by the kind that `copies` says, and tells it how long that took.
#[inline]
fn copy_piece(
    pool: &mut Pool,
    position: u32,
    len: usize,
    copies: &mut CopyChoice,
    fill: impl FnOnce(BytesMut<'_>, CopyKind),
) {
    let kind = copies.kind();
    if kind == CopyKind::Streaming {
        fill(pool.piece(position, len), kind);
        // Rule 9.
        store_fence();
        copies.streamed();
        return;
    }
    #[cfg(not(loom))]
    let before = (pool.note_use(position, len) && copies.wants_time(len)).then(crate::clock::ticks);
    let mut piece = pool.piece(position, len);
    if len < PREFETCHED_BELOW {
        for line in (0..len).step_by(LINE_BYTES) {
            prefetch_to_write(piece.as_mut_ptr().wrapping_add(line));
        }
    }
    fill(piece, kind);
    #[cfg(not(loom))]
    if let Some(before) = before {
        copies.plain_took(len, crate::clock::ticks().wrapping_sub(before));
    }
}
