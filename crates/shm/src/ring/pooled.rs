//! Sending through the pool, and frames with a body (rules 7 and 8).

use super::{IN_POOL, RingSender, form, header};
use crate::pool::{Pool, PoolShape};
use oxmpi_sys::{
    bytes::{Bytes, BytesMut, CopyKind},
    hint::{prefetch_to_write, store_fence},
    line::LINE_BYTES,
};

/// Shorter pieces are fetched before the copy. For longer copies the processor mostly uses its
/// string instruction, which need not fetch the lines that it overwrites.
const PREFETCHED_BELOW: usize = 4 << 10;

/// The sender's pool, for one message.
#[derive(Debug)]
pub struct Pooling<'a> {
    pub pool: &'a mut Pool,
    /// The process at the other end of the ring, for [`Pool::forget`].
    pub to: u32,
    pub kind: CopyKind,
    /// Rounded up to whole blocks. The receiver copies one piece out while the next is copied in.
    pub piece_bytes: u32,
}

impl Pooling<'_> {
    /// The length of all pieces but the last: whole blocks, for at most `most` pieces.
    #[inline]
    fn piece(&self, total: u32, most: u32) -> u32 {
        let block = self.pool.shape().block_bytes;
        let whole_blocks = |bytes: u32| bytes.next_multiple_of(block);
        whole_blocks(self.piece_bytes.max(1)).max(whole_blocks(total.div_ceil(most)))
    }
}

impl RingSender {
    /// The longest message in bytes that may be sent on this ring through a pool of this shape.
    pub const fn max_pooled(&self, pool: &PoolShape) -> usize {
        pool.max_message()
    }

    /// The most pieces of a message, without the one more that the end of the pool may need (rule
    /// 6).
    const fn most_pieces(&self) -> u32 {
        self.area.shape.slots / 2 - 1
    }

    /// Whether there is room now for a frame with a body of `len` bytes through the pool.
    pub fn has_room_pooled(&mut self, len: usize, mut pooling: Pooling<'_>) -> bool {
        len <= self.max_pooled(&pooling.pool.shape())
            && self.has_room_for_pieces(len, &mut pooling, 1).is_some()
    }

    /// Sends a message of `total` bytes through the sender's pool, all or nothing. `fill(offset,
    /// piece, kind)` writes the message's bytes from `offset` on to each piece in order, by
    /// streaming stores if it prefers them and `kind` allows them ([`Bytes::copy_by`]). `false`:
    /// there is no room in the ring or the pool. The data ring may have room then; no receiver
    /// rings a sender that waits for the pool. Panics if `total` is more than
    /// [`RingSender::max_pooled`].
    pub fn try_send_pooled(
        &mut self,
        tag: i32,
        context: u16,
        total: usize,
        mut pooling: Pooling<'_>,
        mut fill: impl FnMut(usize, BytesMut<'_>, CopyKind),
    ) -> bool {
        let Some(piece) = self.has_room_for_pieces(total, &mut pooling, 0) else { return false };
        self.send_pieces(tag, context, total, piece, pooling, &mut fill);
        true
    }

    /// Sends a frame of at most 56 bytes and, behind it, a body of `body_len` bytes, all or nothing
    /// (rule 8): through the pool if one is given, else through the data ring with plain copies.
    /// `fill` is as for [`RingSender::try_send_pooled`]. Panics if frame or body is too long.
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
                let gone = self.room_for_data(body_len, 1) && self.send_frame(tag, frame);
                if gone {
                    let mut plain =
                        |offset, chunk: BytesMut<'_>| fill(offset, chunk, CopyKind::Plain);
                    self.send_chunks(0, 0, body_len, &mut plain);
                }
                gone
            }
            Some(mut pooling) => {
                let Some(piece) = self.has_room_for_pieces(body_len, &mut pooling, 1) else {
                    return false;
                };
                let gone = self.send_frame(tag, frame);
                debug_assert!(gone, "there was a slot for it");
                self.send_pieces(0, 0, body_len, piece, pooling, &mut fill);
                true
            }
        }
    }

    #[inline]
    fn has_room_for_pieces(
        &mut self,
        total: usize,
        pooling: &mut Pooling<'_>,
        more: u32,
    ) -> Option<u32> {
        let most = self.max_pooled(&pooling.pool.shape());
        assert!(
            total <= most,
            "a message of {total} bytes does not fit this pool, which takes {most} at most"
        );
        let piece = pooling.piece(total as u32, self.most_pieces());
        let slots = total.div_ceil(piece as usize).max(1) as u32 + 1;
        (self.has_slots(slots + more) && pooling.pool.room_for(total)).then_some(piece)
    }

    /// Copies and publishes a message for whose pieces there is room (rules 4 and 7).
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
        let Pooling { pool, to, kind, .. } = pooling;
        let (mut position, mut offset) = (pool.take(total, to), 0);
        let total = total as u32;
        loop {
            let len = longest.min(total - offset).min(pool.side_by_side(position));
            copy_piece(pool.piece(position, len as usize), kind, |piece, kind| {
                fill(offset as usize, piece, kind);
            });
            // SAFETY: `slot` is free: there was room for all pieces, and one at the pool's end.
            unsafe { self.fill_chunk_words(total, len, position, offset) };
            offset += len;
            position = position.wrapping_add(len);
            self.publish(header(tag, context, form::CHUNK, IN_POOL, self.lap));
            if offset == total {
                return;
            }
        }
    }
}

#[inline]
fn copy_piece(mut piece: BytesMut<'_>, kind: CopyKind, fill: impl FnOnce(BytesMut<'_>, CopyKind)) {
    if kind == CopyKind::Streaming {
        fill(piece, kind);
        // Rule 7.
        store_fence();
        return;
    }
    if piece.len() < PREFETCHED_BELOW {
        for line in (0..piece.len()).step_by(LINE_BYTES) {
            prefetch_to_write(piece.as_mut_ptr().wrapping_add(line));
        }
    }
    fill(piece, kind);
}
