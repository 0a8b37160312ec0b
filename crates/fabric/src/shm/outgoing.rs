use super::copy_policy::{CopyDecision, CopyPlan, Traffic};
use crate::{Body, OutgoingMessage, Room};
use oxmpi_shm::door::Bell;
use oxmpi_shm::inbox::{CELL_PAYLOAD, InboxSender};
use oxmpi_shm::pool::{Laid, Pool};
use oxmpi_shm::ring::{INLINE_MAX, Pooling, RingSender};
use oxmpi_shm::segment::Segment;
use oxmpi_sys::bytes::{Bytes, BytesMut, CopyKind};
use oxmpi_wire::{Context, Envelope, Frame, MAX_FRAME_LEN};
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Out {
    pub(super) segment: Arc<Segment>,
    pub(super) bell: Bell,
    pub(super) path: Path,
    pub(super) cells: u64,
    /// The process id of the peer, if its memory is readable; else 0.
    pub(super) pid: u32,
    pub(super) known_as: u32,
    pub(super) plan: Arc<CopyPlan>,
    /// The pool had no room, though the ring had: the peer does not ring when it empties the pool.
    pub(super) lacks_pool: bool,
    /// Pieces in the pool that the peer had not read at the last check, and their bytes.
    pieces: VecDeque<Laid>,
    laid_bytes: usize,
}

#[derive(Debug)]
pub(super) enum Path {
    Inbox(InboxSender),
    Ring(RingSender),
}

impl Out {
    pub(super) fn new(
        segment: Arc<Segment>,
        bell: Bell,
        known_as: u32,
        plan: Arc<CopyPlan>,
    ) -> Out {
        let path = Path::Inbox(InboxSender::new(segment.inbox()));
        let pieces = VecDeque::new();
        Out {
            bell,
            path,
            cells: 0,
            pid: 0,
            known_as,
            segment,
            plan,
            lacks_pool: false,
            pieces,
            laid_bytes: 0,
        }
    }

    /// Sends a message to this peer, whose number is `to`: through the pool if it has room. Returns
    /// success.
    pub(super) fn send(
        &mut self,
        to: u32,
        message: &OutgoingMessage<'_>,
        pool: Option<&mut Pool>,
    ) -> bool {
        let pool = pool.map(|pool| (pool, self.plan.of(message.body.len())));
        self.send_by(to, message, pool)
    }

    #[inline]
    fn send_by(
        &mut self,
        to: u32,
        message: &OutgoingMessage<'_>,
        pool: Option<(&mut Pool, CopyDecision)>,
    ) -> bool {
        let me = self.known_as;
        let gone = match &mut self.path {
            Path::Inbox(inbox) => {
                let gone = send_cell(inbox, me, to, message, pool.map(|(pool, _)| pool));
                self.cells += u64::from(gone);
                gone
            }
            Path::Ring(ring) => {
                let pooling = pool.map(|(pool, decision)| pooling(pool, to, decision));
                match message.frame {
                    Frame::Eager { envelope: Envelope { context: Context::Local(index), tag } }
                        if index <= u32::from(u16::MAX) =>
                    {
                        send_eager(ring, tag, index as u16, &message.body, pooling)
                    }
                    _ => send_framed(ring, me, message, pooling),
                }
            }
        };
        if gone {
            self.bell.ring();
        }
        gone
    }

    /// Sends a piece of a long message to this peer, whose number is `to`: through the pool, in
    /// which pieces for the peer take at most `share` bytes, or through the data ring if the piece
    /// is short enough. Returns the bytes in the pool; `None`: there was no room.
    pub(super) fn send_piece(
        &mut self,
        (to, message): (u32, &OutgoingMessage<'_>),
        traffic: Traffic,
        pool: &mut Pool,
        share: usize,
    ) -> Option<usize> {
        let len = message.body.len();
        if !self.has_share(len, to, pool, share) {
            let by_ring = matches!(&self.path, Path::Ring(ring) if len <= ring.max_data());
            return (by_ring && self.send(to, message, None)).then_some(0);
        }
        let mark = pool.mark();
        if !self.send_by(to, message, Some((&mut *pool, self.plan.of_pulled(len, traffic)))) {
            return None;
        }
        let Some(laid) = pool.laid_since(mark) else { return Some(0) };
        self.laid_bytes += laid.bytes;
        self.pieces.push_back(laid);
        Some(len)
    }

    /// Whether a piece would leave through the pool now, within `share` bytes.
    pub(super) fn room_for_piece(
        &mut self,
        len: usize,
        to: u32,
        pool: &mut Pool,
        share: usize,
    ) -> Room {
        let has_share = self.has_share(len, to, pool, share);
        let Path::Ring(ring) = &mut self.path else { return Room::Never };
        let decision = self.plan.of_pulled(len, Traffic::OneWay);
        if has_share && ring.has_room_pooled(len, pooling(pool, to, decision)) {
            Room::Now
        } else if self.pieces.is_empty() {
            Room::Never
        } else {
            Room::Later
        }
    }

    fn has_share(&mut self, len: usize, to: u32, pool: &Pool, share: usize) -> bool {
        while let Some(first) = self.pieces.front()
            && !pool.is_laid(first, to)
        {
            self.laid_bytes -= first.bytes;
            self.pieces.pop_front();
        }
        self.pieces.is_empty() || self.laid_bytes + len <= share
    }

    /// Sends an eager message that is longer than a slot: through the pool if it has room.
    pub(super) fn send_now(
        &mut self,
        to: u32,
        tag: i32,
        context: u16,
        bytes: Bytes<'_>,
        pool: Option<&mut Pool>,
    ) -> bool {
        let Path::Ring(ring) = &mut self.path else { return false };
        let body = Body::Bytes(bytes);
        let pooling = pool.map(|pool| pooling(pool, to, self.plan.of(bytes.len())));
        let gone = send_eager(ring, tag, context, &body, pooling);
        if gone {
            self.bell.ring();
        }
        gone
    }
}

#[inline]
fn pooling(pool: &mut Pool, to: u32, decision: CopyDecision) -> Pooling<'_> {
    Pooling { pool, to, kind: decision.kind, piece_bytes: decision.piece_bytes }
}

/// Puts a frame and its body, or the place of the body in the pool (rule 1), into a cell.
fn send_cell(
    inbox: &mut InboxSender,
    me: u32,
    to: u32,
    message: &OutgoingMessage<'_>,
    pool: Option<&mut Pool>,
) -> bool {
    let (mut frame, len) = ([0; MAX_FRAME_LEN], message.body.len());
    let frame_len = message.frame.encode(message.sequence, me, &mut frame);
    let frame = Bytes::from(&frame[..frame_len]);
    if len <= CELL_PAYLOAD - MAX_FRAME_LEN {
        return inbox.try_send(me, frame_len + len, |mut cell| {
            frame.copy_to(cell.slice(0, frame_len));
            message.body.fill(0, cell.slice(frame_len, len));
        });
    }
    let Some(pool) = pool else { return false };
    if !pool.room_for(len) {
        return false;
    }
    // The data are copied before a cell is claimed, because the cells behind it would wait.
    let pieces = pool.lay(len, to, |at, piece| message.body.fill(at, piece));
    let mut word = [0; MAX_FRAME_LEN];
    let word_len = Frame::Pooled { pieces }.encode(0, me, &mut word);
    let gone = inbox.try_send(me, word_len + frame_len, |mut cell| {
        Bytes::from(&word[..word_len]).copy_to(cell.slice(0, word_len));
        frame.copy_to(cell.slice(word_len, frame_len));
    });
    if !gone {
        pool.clear(pieces);
    }
    gone
}

fn send_eager(
    ring: &mut RingSender,
    tag: i32,
    context: u16,
    body: &Body<'_>,
    pooling: Option<Pooling<'_>>,
) -> bool {
    let len = body.len();
    if len <= INLINE_MAX {
        let mut packed = [0; INLINE_MAX];
        let bytes = match body {
            Body::Bytes(bytes) => *bytes,
            Body::Packed { .. } => {
                body.fill(0, BytesMut::from(&mut packed[..len]));
                Bytes::from(&packed[..len])
            }
        };
        return ring.try_send_inline(tag, context, bytes);
    }
    if let Some(pooling) = pooling
        && len <= ring.max_pooled(&pooling.pool.shape())
        && ring.try_send_pooled(tag, context, len, pooling, |at, piece, kind| {
            fill(body, at, piece, kind)
        })
    {
        return true;
    }
    len <= ring.max_data()
        && ring.try_send_data(tag, context, len, |at, chunk| body.fill(at, chunk))
}

fn send_framed(
    ring: &mut RingSender,
    me: u32,
    message: &OutgoingMessage<'_>,
    pooling: Option<Pooling<'_>>,
) -> bool {
    let mut bytes = [0; INLINE_MAX];
    let mut frame = [0; MAX_FRAME_LEN];
    let frame_len = message.frame.encode(message.sequence, me, &mut frame);
    bytes[..frame_len].copy_from_slice(&frame[..frame_len]);
    let (body, len) = (&message.body, message.body.len());
    if frame_len + len <= INLINE_MAX {
        body.fill(0, BytesMut::from(&mut bytes[frame_len..frame_len + len]));
        return ring.try_send_frame(Bytes::from(&bytes[..frame_len + len]));
    }
    let frame = Bytes::from(&bytes[..frame_len]);
    let mut fill = |at: usize, piece: BytesMut<'_>, kind: CopyKind| fill(body, at, piece, kind);
    if let Some(pooling) = pooling
        && len <= ring.max_pooled(&pooling.pool.shape())
        && ring.try_send_frame_with_body(frame, len, Some(pooling), &mut fill)
    {
        return true;
    }
    len <= ring.max_data() && ring.try_send_frame_with_body(frame, len, None, fill)
}

#[inline]
fn fill(body: &Body<'_>, at: usize, piece: BytesMut<'_>, kind: CopyKind) {
    match body {
        Body::Bytes(bytes) => bytes.slice(at, piece.len()).copy_by(kind, piece),
        Body::Packed { .. } if kind == CopyKind::Streaming => fill_streaming(body, at, piece),
        Body::Packed { .. } => body.fill(at, piece),
    }
}

/// Packs into memory of the nearest cache, and copies from there past the caches.
fn fill_streaming(body: &Body<'_>, at: usize, mut piece: BytesMut<'_>) {
    const PART: usize = 4 << 10;
    let mut packed = [0; PART];
    let len = piece.len();
    for from in (0..len).step_by(PART) {
        let packed = &mut packed[..PART.min(len - from)];
        body.fill(at + from, BytesMut::from(&mut *packed));
        Bytes::from(&*packed).copy_by(CopyKind::Streaming, piece.slice(from, packed.len()));
    }
}
