//! Sending through the pool, and frames with a body (rules 9 and 10).

use super::{ANSWER, BY_VECTORS, ENDS_BLOCK, IN_POOL, RingSender, form, header};
use crate::{
    bytes::{Bytes, BytesMut, CopyKind},
    hint::{prefetch_to_write, store_fence},
    line::LINE_BYTES,
    pool::{Again, CopyChoice, Pool, PoolShape, PoolView, Way, in_blocks},
    sync::Ordering,
};

/// Plain copies go by whole blocks, and in shorter messages by pieces of so many bytes up to so long a message: each piece
/// has a price of its own (its slot goes from core to core, the receiver misses its first lines), which has to be
/// earned back by having the receiver begin earlier. All are powers of two and divide a block.
const PLAIN_PIECES: [(u32, u32); 2] = [(32 << 10, 8 << 10), (128 << 10, 16 << 10)];

/// A part of a long message goes by pieces of so many blocks if it has so many: before it went another one, and behind it comes
/// the next, so that there is little to be gained by having the receiver begin earlier.
const PART_BLOCKS: u32 = 4;
const PART_PIECE_BLOCKS: u32 = 2;

/// From so many bytes on the receiver of a spread message copies by vectors (rule 9).
const BY_VECTORS_FROM: u32 = 4 << 10;

/// Streaming copies are slower, so that shorter pieces pay: of the first of these lengths in messages of up to the second one, of a
/// quarter of a block up to the third one, and beyond of half of a block.
const STREAMED_WHOLE: u32 = 4 << 10;
const STREAMED_IN_4_KIB: u32 = 16 << 10;
const STREAMED_IN_QUARTERS: u32 = 128 << 10;

/// The lines of a piece of fewer bytes are fetched before it is copied. Most copies of more go by the processor's string
/// instruction sooner or later, which need not fetch what it overwrites: for them it was measured to double the time.
const PREFETCHED_BELOW: usize = 4 << 10;

/// The sender's pool, for one message.
#[derive(Debug)]
pub struct Pooling<'a> {
    /// The pool.
    pub pool: &'a mut Pool,
    /// The process at the other end of the ring, for [`Pool::forget`].
    pub to: u32,
    /// How the message's pieces are copied that do not lie in place. It learns from the time that plain ones take; so a caller
    /// whose copies are slow by themselves (it packs a derived datatype, say) passes [`CopyChoice::always`].
    pub copies: &'a mut CopyChoice,
    /// Whether it had better be spread ([`CopyChoice::spreads`], of what is known of the peer).
    pub spreads: bool,
    /// Whether it is a part of a longer message, of which other parts come before or behind it.
    pub is_part: bool,
    /// Whether others went before it and none came since: it waits for its receiver more than that one for it.
    pub is_in_stream: bool,
    /// The pool of the process at the other end, if the message may lie there as an answer (rule 9 of the pool).
    pub theirs: Option<&'a mut PoolView>,
}

/// Where a message lies.
enum Place<'a> {
    Own(&'a mut Pool),
    Theirs(&'a mut PoolView),
}

/// The blocks that a message has got, and how it is copied into them.
struct Placed<'a> {
    place: Place<'a>,
    /// The position of the first block.
    first: u32,
    block_bytes: u32,
    copies: &'a mut CopyChoice,
    lines: Lines,
    /// Whether it lies elsewhere than it would, as it is spread.
    is_spread: bool,
    /// What is known of how it had better be laid without `copies`.
    way: Option<Way>,
}

/// What is known of the lines of a message before they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lines {
    /// This process has read them last (rule 9 of the pool): they are in its cache, nothing is faster than plain copies, and what
    /// these take says nothing about others.
    InPlace,
    /// [`Pool::is_reused`].
    Reused,
    /// Neither.
    Other,
}

impl<'a> Pooling<'a> {
    /// Takes or claims the blocks of a message. `None`: no room.
    #[inline]
    fn place(self, total: usize) -> Option<Placed<'a>> {
        let Self { pool, to, copies, spreads, theirs, .. } = self;
        let shape = pool.shape();
        let block_bytes = shape.block_bytes;
        if let Some(theirs) = theirs
            && theirs.shape() == shape
            && let Some(Again { first, is_in_place }) = theirs.claim(total)
        {
            let lines = if is_in_place { Lines::InPlace } else { Lines::Other };
            return Some(Placed {
                place: Place::Theirs(theirs),
                first,
                block_bytes,
                copies,
                lines,
                is_spread: false,
                way: None,
            });
        }
        let mut is_spread = false;
        let (first, is_in_place, way) = match pool.take_back(total, to) {
            Some(Again { first, is_in_place }) => (first, is_in_place, None),
            None if pool.room_for(total) => {
                if pool.is_short(total) && !copies.is_fixed() {
                    let (first, way) = pool.take_short(total, to);
                    copies.tried(way);
                    (first, false, way)
                } else {
                    let first = pool.take(total, to, spreads);
                    is_spread = spreads && pool.lies_where_spread(first, total);
                    (first, false, None)
                }
            }
            None => return None,
        };
        let lines = match is_in_place {
            true => Lines::InPlace,
            false if pool.is_reused(first, total) => Lines::Reused,
            false => Lines::Other,
        };
        Some(Placed { place: Place::Own(pool), first, block_bytes, copies, lines, is_spread, way })
    }
}

impl Place<'_> {
    #[inline]
    fn piece(&mut self, position: u32, len: usize) -> BytesMut<'_> {
        match self {
            Place::Own(pool) => pool.piece(position, len),
            Place::Theirs(view) => view.piece(position, len),
        }
    }

    #[cfg(not(loom))]
    #[inline]
    fn note_use(&mut self, position: u32, len: usize) -> bool {
        match self {
            Place::Own(pool) => pool.note_use(position, len),
            Place::Theirs(view) => view.note_use(position, len),
        }
    }

    /// How many bytes from `position` on lie side by side.
    #[inline]
    fn side_by_side(&self, position: u32) -> u32 {
        match self {
            Place::Own(pool) => pool.side_by_side(position),
            Place::Theirs(_) => u32::MAX,
        }
    }

    /// Where the message goes on behind a block that ends at `end`.
    #[inline]
    fn after_block(&self, end: u32) -> u32 {
        match self {
            Place::Own(pool) => pool.after(end.wrapping_sub(1)),
            Place::Theirs(_) => end,
        }
    }
}

impl RingSender {
    /// The longest message in bytes that may be sent on this ring through a pool of this shape: half of the pool, and
    /// no more pieces than half the slots (rule 8).
    pub fn max_pooled(&self, pool: &PoolShape) -> usize {
        let by_slots = self.area.shape.slots as usize / 2 * pool.block_bytes as usize;
        pool.max_message().min(by_slots)
    }

    /// Whether a frame with a part of `len` bytes of a longer message could be sent to process `to` through the pool now,
    /// however its pieces are copied, without running far ahead of the receiver ([`Pool::room_beside`]). `spreads`: as
    /// [`CopyChoice::spreads`] says.
    pub fn has_room_pooled(&mut self, len: usize, pool: &mut Pool, to: u32, spreads: bool) -> bool {
        let shape = pool.shape();
        if len > self.max_pooled(&shape) {
            return false;
        }
        let most = self.area.shape.slots / 2;
        let slots = [CopyKind::Plain, CopyKind::Streaming]
            .map(|kind| Pieces::of_part(len as u32, &shape, kind, most).slots)
            .into_iter()
            .fold(1, u32::max)
            + 1;
        self.has_slots(slots) && pool.room_beside(len, to, spreads)
    }

    /// Sends a message of `total` bytes through the sender's pool, or the receiver's if it is an answer, all or nothing.
    /// `fill(offset, piece, kind)` is called for each piece in turn and writes the message's bytes from `offset` on to it, all
    /// of them. If `kind` is streaming it may do so by streaming stores, [`Bytes::copy_by`]. `false`: no room now, in the ring
    /// or in the pool, and `fill` was not called. There may be room in the data ring; nobody wakes a sender that waits for
    /// the pool.
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
        let pieces = self.pieces(total, &pooling);
        let placed = if self.has_slots(pieces.slots) { pooling.place(total) } else { None };
        let Some(placed) = placed else { return false };
        self.send_pieces(tag, context, total, pieces, placed, &mut fill);
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
                let gone = self.room_for_data(body_len, 1) && self.send_frame(tag, frame);
                if gone {
                    let mut plain = |offset, chunk: BytesMut<'_>| fill(offset, chunk, CopyKind::Plain);
                    self.send_chunks(0, 0, body_len, &mut plain);
                }
                gone
            }
            Some(pooling) => {
                let pieces = self.pieces(body_len, &pooling);
                let placed = if self.has_slots(pieces.slots + 1) { pooling.place(body_len) } else { None };
                let Some(placed) = placed else { return false };
                let gone = self.send_frame(tag, frame);
                debug_assert!(gone, "there was a slot for it");
                self.send_pieces(0, 0, body_len, pieces, placed, &mut fill);
                true
            }
        }
    }

    /// Copies and publishes a message for whose pieces there is room, from the position of its first block on (rules 6 and 9).
    #[inline]
    fn send_pieces(
        &mut self,
        tag: i32,
        context: u16,
        total: usize,
        pieces: Pieces,
        placed: Placed<'_>,
        fill: &mut impl FnMut(usize, BytesMut<'_>, CopyKind),
    ) {
        let Placed { mut place, first, block_bytes, copies, lines, is_spread, way } = placed;
        let complaints = self.area.complaints_word().load(Ordering::Relaxed);
        // What lies in place is not copied otherwise, however slow its reader is.
        let was_in_place = std::mem::replace(&mut self.was_in_place, lines == Lines::InPlace);
        if std::mem::replace(&mut self.complaints, complaints) != complaints && !was_in_place {
            copies.reader_was_slow();
        }
        let longest = if lines == Lines::InPlace { pieces.longest_in_place } else { pieces.longest };
        let total = total as u32;
        let is_answer = matches!(place, Place::Theirs(_));
        let by_vectors = total >= BY_VECTORS_FROM && (is_spread || way == Some(Way::Spread));
        let of_message = IN_POOL | (ANSWER * usize::from(is_answer)) | (BY_VECTORS * usize::from(by_vectors));
        let (mut position, mut offset) = (first, 0);
        loop {
            let len = longest.min(total - offset).min(place.side_by_side(position));
            copy_piece(&mut place, position, len as usize, copies, (lines, way), |piece, kind| {
                fill(offset as usize, piece, kind)
            });
            let rest = self.enter_empty_slot();
            // SAFETY: `slot` is inside the area, and free: there was room for `Pieces::slots` of them, and no message has more
            // pieces, as it comes to the end of its part of the pool at most once.
            unsafe { self.fill_chunk_words(total, len, position, offset) };
            offset += len;
            let end = position.wrapping_add(len);
            let is_full = end & (block_bytes - 1) == 0;
            let ends_block = is_full || offset == total;
            let bits = of_message | (ENDS_BLOCK * usize::from(ends_block));
            self.publish(header(tag, context, form::CHUNK, bits, self.lap));
            self.skip(rest);
            if offset == total {
                break;
            }
            position = if is_full { place.after_block(end) } else { end };
        }
        // Its pieces were the last spread ones, if it is the last message.
        if is_spread {
            copies.spread(total as usize);
        }
    }

    /// The pieces of a message or part.
    #[inline]
    fn pieces(&self, total: usize, pooling: &Pooling<'_>) -> Pieces {
        let shape = pooling.pool.shape();
        let most = self.max_pooled(&shape);
        assert!(
            total <= most,
            "a message of {total} bytes does not fit this pool, which takes {most} at most"
        );
        let of = match pooling {
            Pooling { is_part: true, .. } => Pieces::of_part,
            Pooling { is_in_stream: true, .. } => Pieces::in_stream,
            _ => Pieces::of_message,
        };
        let (total, most) = (total as u32, self.area.shape.slots / 2);
        let pieces = of(total, &shape, pooling.copies.kind(), most);
        if pooling.copies.kind() == CopyKind::Plain || total <= STREAMED_WHOLE {
            return pieces;
        }
        // Where it will lie is not known yet.
        let in_place = of(total, &shape, CopyKind::Plain, most);
        Pieces { longest_in_place: in_place.longest, slots: pieces.slots.max(in_place.slots), ..pieces }
    }
}

/// The pieces in which a message is sent.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    /// The length of all but the last one, and of the last one at the end of a part of the pool.
    longest: u32,
    /// The same if the message lies in place, where it is not streamed.
    longest_in_place: u32,
    /// How many there are at most.
    slots: u32,
}

impl Pieces {
    /// Pieces of so many bytes, at least one.
    const fn of(total: u32, longest: u32) -> Pieces {
        let slots = in_blocks(total as usize, longest) as u32;
        Pieces { longest, longest_in_place: longest, slots: if slots == 0 { 1 } else { slots } }
    }

    /// Those of a message that is told by its first piece: at most `most`; if each is a block that must be possible.
    fn of_message(total: u32, shape: &PoolShape, kind: CopyKind, most: u32) -> Pieces {
        let block = shape.block_bytes;
        let wanted = match kind {
            CopyKind::Plain => {
                let piece = PLAIN_PIECES.into_iter().find(|(up_to, _)| total <= *up_to);
                piece.map_or(block, |(_, bytes)| bytes)
            }
            CopyKind::Streaming if total <= STREAMED_IN_4_KIB => STREAMED_WHOLE,
            CopyKind::Streaming if total <= STREAMED_IN_QUARTERS => block / 4,
            CopyKind::Streaming => block / 2,
        };
        // Both are powers of two, so that pieces fill a block.
        let wanted = wanted.min(block);
        let longest = if in_blocks(total as usize, wanted) <= most as usize { wanted } else { block };
        Pieces::of(total, longest)
    }

    /// Those of a message behind others: whole blocks, as there is little to be gained by having the receiver begin earlier. Of
    /// what is longer than a block and not long there are more, so that their number keeps the sender from running ahead.
    fn in_stream(total: u32, shape: &PoolShape, kind: CopyKind, most: u32) -> Pieces {
        let block = shape.block_bytes;
        if kind == CopyKind::Streaming || total > block && !shape.is_long(total as usize) {
            return Pieces::of_message(total, shape, kind, most);
        }
        Pieces::of(total, block)
    }

    /// Those of a part of a longer message.
    fn of_part(total: u32, shape: &PoolShape, kind: CopyKind, most: u32) -> Pieces {
        if kind == CopyKind::Streaming || total < PART_BLOCKS * shape.block_bytes {
            return Pieces::of_message(total, shape, kind, most);
        }
        let longest = PART_PIECE_BLOCKS * shape.block_bytes;
        // One more where the pool begins anew.
        let pieces = Pieces::of(total, longest);
        Pieces { slots: pieces.slots + 1, ..pieces }
    }
}

/// Has a piece copied into the pool, plainly if it lies in place, else as its way says if that is known, else by the kind that
/// `copies` says, which learns how long that took.
#[inline]
fn copy_piece(
    place: &mut Place<'_>,
    position: u32,
    len: usize,
    copies: &mut CopyChoice,
    (lines, way): (Lines, Option<Way>),
    fill: impl FnOnce(BytesMut<'_>, CopyKind),
) {
    let (kind, teaches) = match way {
        _ if lines == Lines::InPlace => (CopyKind::Plain, false),
        Some(Way::Streamed) => (CopyKind::Streaming, false),
        Some(Way::Usual | Way::Spread) => (CopyKind::Plain, false),
        None => (copies.kind(), true),
    };
    if kind == CopyKind::Streaming {
        fill(place.piece(position, len), kind);
        // Rule 9.
        store_fence();
        if teaches {
            copies.streamed(len);
        }
        return;
    }
    #[cfg(not(loom))]
    let before =
        (teaches && copies.wants_time(len) && place.note_use(position, len)).then(crate::clock::ticks);
    let mut piece = place.piece(position, len);
    if len < PREFETCHED_BELOW {
        for line in (0..len).step_by(LINE_BYTES) {
            prefetch_to_write(piece.as_mut_ptr().wrapping_add(line));
        }
    }
    fill(piece, kind);
    #[cfg(not(loom))]
    if let Some(before) = before {
        copies.plain_took(len, before..crate::clock::ticks(), lines == Lines::Reused);
    }
}
