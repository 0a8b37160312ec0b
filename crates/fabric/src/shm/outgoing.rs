//! What goes to one peer.

use super::Link;
use super::incoming::RingIn;
use crate::{Body, Message, SentNow};
use oxmpi_os::bytes::{Bytes, BytesMut, CopyKind};
use oxmpi_os::door::Bell;
use oxmpi_os::inbox::{CELL_PAYLOAD, InboxSender};
use oxmpi_os::pool::{CopyChoice, Pool, PoolView};
use oxmpi_os::ring::{INLINE_MAX, Pooling, RingSender};
use oxmpi_os::segment::Segment;
use oxmpi_wire::{Context, Envelope, Frame, MAX_FRAME_LEN};
use std::sync::Arc;

/// Where longer messages may lie.
#[derive(Debug)]
pub(super) struct Pools<'a> {
    /// This process's own.
    pub(super) own: &'a mut Pool,
    /// The peer's, if something may have come from there.
    pub(super) theirs: Option<&'a mut PoolView>,
}

/// How to send to a peer.
#[derive(Debug)]
pub(super) struct Out {
    pub(super) segment: Arc<Segment>,
    pub(super) bell: Bell,
    pub(super) path: Path,
    /// Frames we have put into its inbox.
    pub(super) cells: u64,
    /// Its process number, once it is known that its memory may be read.
    pub(super) pid: u32,
    /// This process's number where the peer is: another than here if that is under another launcher.
    pub(super) known_as: u32,
    /// This process opens the exchange line with the peer, and not the peer (rule 8).
    pub(super) opens_exchange: bool,
    /// How contiguous data are copied into the pool for it.
    pub(super) copies: CopyChoice,
    /// The last piece for it found no room in the pool, though there was some in the ring: who empties the pool need not ring.
    pub(super) lacks_pool: bool,
    /// What goes to it while nothing comes.
    row: Row,
    /// The messages that had come from it, modulo 256, when the last one of up to 56 bytes was to go: cheaper than a row, which
    /// longer ones have.
    pub(super) came_before: u8,
}

/// How many messages went to a peer since one came from there.
#[derive(Debug, Default)]
struct Row {
    sent: u8,
    /// The messages that had come then, modulo 256.
    came: u8,
    /// How often in a row one has come after one was sent.
    turns: u8,
}

impl Row {
    /// So many are a stream: its receiver is behind.
    const STREAM: u8 = 3;
    /// So many turns are no chance.
    const IN_TURN: u8 = 3;

    #[inline]
    const fn see(&mut self, came: u8) {
        if self.came != came {
            let is_turn = self.sent == 1 && came == self.came.wrapping_add(1);
            let turns = if is_turn { self.turns.saturating_add(1) } else { 0 };
            *self = Row { sent: 0, came, turns };
        } else if self.sent > 0 {
            self.turns = 0;
        }
    }

    #[inline]
    const fn is_in_turn(&self) -> bool {
        self.turns >= Row::IN_TURN
    }

    #[inline]
    const fn count(&mut self) {
        self.sent = self.sent.saturating_add(1);
    }

    const fn is_stream(&self) -> bool {
        self.sent >= Row::STREAM
    }
}

#[derive(Debug)]
pub(super) enum Path {
    Inbox(InboxSender),
    Ring(RingSender),
}

impl Out {
    /// Pieces of messages to the peer that were stored past the caches, as plain copies were slow or as trials say.
    pub(super) fn pieces_streamed(&self) -> u64 {
        self.copies.pieces_streamed()
    }

    /// Messages to the peer that were spread over the larger part of the pool, as copies to lines written again soon were slow or as
    /// trials say.
    pub(super) fn messages_spread(&self) -> u64 {
        self.copies.messages_spread()
    }

    /// The way to the owner of `segment`, whose bell it is, through its inbox at first.
    pub(super) fn new(
        segment: Arc<Segment>,
        bell: Bell,
        known_as: u32,
        opens_exchange: bool,
        copies: CopyChoice,
    ) -> Out {
        let path = Path::Inbox(InboxSender::new(segment.inbox()));
        Out {
            bell,
            path,
            cells: 0,
            pid: 0,
            known_as,
            opens_exchange,
            segment,
            copies,
            lacks_pool: false,
            row: Row::default(),
            came_before: 0,
        }
    }

    /// So many messages (modulo 256) have come from the peer when the next one goes.
    #[inline]
    pub(super) const fn see(&mut self, came: u8) {
        self.row.see(came);
    }

    /// Whether one message has come after each that was sent lately, as in a ping-pong.
    #[inline]
    pub(super) const fn is_in_turn(&self) -> bool {
        self.row.is_in_turn()
    }

    /// Sends a message to process `to`, this one; through a pool if they are given and have room. Whether there was
    /// room.
    pub(super) fn send(&mut self, to: u32, message: &Message<'_>, pools: Option<Pools<'_>>) -> bool {
        let me = self.known_as;
        let gone = match &mut self.path {
            Path::Inbox(inbox) => {
                let gone = send_cell(inbox, me, to, message, pools);
                self.cells += u64::from(gone);
                gone
            }
            Path::Ring(ring) => {
                let copying = Copying { copies: &mut self.copies, is_in_stream: self.row.is_stream() };
                match message.frame {
                    Frame::Eager { envelope: Envelope { context: Context::Local(index), tag } }
                        if index <= u32::from(u16::MAX) =>
                    {
                        send_eager(ring, to, tag, index as u16, &message.body, pools, copying)
                    }
                    _ => send_framed(ring, me, to, message, pools, copying),
                }
            }
        };
        if gone {
            if message.frame.matches() {
                self.row.count();
            }
            self.bell.ring();
        }
        gone
    }

    /// Sends an eager message of more bytes than a slot takes; through a pool if they are given and have room.
    pub(super) fn send_now(
        &mut self,
        to: u32,
        tag: i32,
        context: u16,
        bytes: Bytes<'_>,
        pools: Option<Pools<'_>>,
    ) -> bool {
        let Path::Ring(ring) = &mut self.path else { return false };
        let copying = Copying { copies: &mut self.copies, is_in_stream: self.row.is_stream() };
        let gone = send_eager(ring, to, tag, context, &Body::Bytes(bytes), pools, copying);
        if gone {
            self.row.count();
            self.bell.ring();
        }
        gone
    }
}

impl Link {
    /// Sends an eager message by the exchange line, if that is open and it is this process's turn.
    #[inline(always)]
    pub(super) fn send_in_turn(&mut self, context: u16, tag: i32, body: &Body<'_>) -> SentNow {
        let Link {
            out: Some(Out { path: Path::Ring(ring), bell, row, .. }),
            ring_in: Some(RingIn { receiver, .. }),
            matched_in,
            ..
        } = self
        else {
            return SentNow::No;
        };
        let fill = |piece: BytesMut<'_>| body.fill(0, piece);
        if !ring.try_send_long_in_turn(receiver, tag, context, body.len(), fill) {
            return SentNow::No;
        }
        row.see(*matched_in);
        row.count();
        if bell.finds_sleeper() { SentNow::Wake } else { SentNow::Done }
    }
}

/// A frame in a cell of an inbox, with its body, or with word where that lies in the pool (rule 1).
fn send_cell(
    inbox: &mut InboxSender,
    me: u32,
    to: u32,
    message: &Message<'_>,
    pools: Option<Pools<'_>>,
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
    let Some(Pools { own: pool, .. }) = pools else { return false };
    if !pool.room_for(len) {
        return false;
    }
    // Before a cell is claimed: what is behind it in the inbox waits for it.
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

/// How a message is copied into a pool, or a slot.
struct Copying<'a> {
    copies: &'a mut CopyChoice,
    /// [`Pooling::is_in_stream`], and that of [`RingSender::try_send_inline`].
    is_in_stream: bool,
}

/// An eager message in a ring (rules 4 and 5).
fn send_eager(
    ring: &mut RingSender,
    to: u32,
    tag: i32,
    context: u16,
    body: &Body<'_>,
    pools: Option<Pools<'_>>,
    copying: Copying<'_>,
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
        return ring.try_send_in_slot(tag, context, bytes, copying.is_in_stream);
    }
    if let Some(Pools { own: pool, theirs }) = pools
        && len <= ring.max_pooled(&pool.shape())
    {
        let mut packing = CopyChoice::always(CopyKind::Plain);
        let Copying { copies, is_in_stream } = copying;
        let spreads = copies.spreads();
        let copies = if matches!(body, Body::Bytes(_)) { copies } else { &mut packing };
        let pooling = Pooling { pool: &mut *pool, to, copies, spreads, is_part: false, is_in_stream, theirs };
        if ring.try_send_pooled(tag, context, len, pooling, |at, piece, kind| fill(body, at, piece, kind)) {
            return true;
        }
        let gone = send_data(ring, tag, context, body);
        if gone {
            pool.went_elsewhere(len);
        }
        return gone;
    }
    send_data(ring, tag, context, body)
}

/// An eager message in the data ring.
fn send_data(ring: &mut RingSender, tag: i32, context: u16, body: &Body<'_>) -> bool {
    let len = body.len();
    len <= ring.max_data() && ring.try_send_data(tag, context, len, |at, chunk| body.fill(at, chunk))
}

/// A frame in a ring, and its body (rules 4 and 5).
fn send_framed(
    ring: &mut RingSender,
    me: u32,
    to: u32,
    message: &Message<'_>,
    pools: Option<Pools<'_>>,
    copying: Copying<'_>,
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
    if let Some(Pools { own: pool, theirs }) = pools
        && len <= ring.max_pooled(&pool.shape())
    {
        let mut packing = CopyChoice::always(CopyKind::Plain);
        let Copying { copies, is_in_stream } = copying;
        let spreads = copies.spreads();
        let copies = if matches!(body, Body::Bytes(_)) { copies } else { &mut packing };
        let is_part = matches!(message.frame, Frame::Data { .. });
        // Parts follow one another faster than they are answered.
        let theirs = theirs.filter(|_| !is_part);
        let pooling = Pooling { pool: &mut *pool, to, copies, spreads, is_part, is_in_stream, theirs };
        if ring.try_send_frame_with_body(frame, len, Some(pooling), |at, piece, kind| {
            fill(body, at, piece, kind)
        }) {
            return true;
        }
        let gone = send_framed_data(ring, frame, body);
        if gone {
            pool.went_elsewhere(len);
        }
        return gone;
    }
    send_framed_data(ring, frame, body)
}

/// A frame, and its body in the data ring.
fn send_framed_data(ring: &mut RingSender, frame: Bytes<'_>, body: &Body<'_>) -> bool {
    let len = body.len();
    len <= ring.max_data()
        && ring.try_send_frame_with_body(frame, len, None, |at, piece, kind| fill(body, at, piece, kind))
}

/// Copies a part of a body into shared memory.
#[inline]
fn fill(body: &Body<'_>, at: usize, piece: BytesMut<'_>, kind: CopyKind) {
    match body {
        Body::Bytes(bytes) => bytes.slice(at, piece.len()).copy_by(kind, piece),
        Body::Packed { .. } => body.fill(at, piece),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_answers_and_is_answered_is_in_turn_and_others_are_a_stream_or_neither() {
        /// After messages before each of which so many had come.
        fn row(came: &[u8]) -> Row {
            let mut row = Row::default();
            for came in came {
                row.see(*came);
                row.count();
            }
            row
        }
        for (came, in_turn, stream) in [
            (&[0, 1, 2][..], false, false),
            (&[0, 1, 2, 3], true, false),
            (&[1, 2, 3, 4], true, false),
            (&[254, 255, 0, 1], true, false),
            // Two at a time, or none.
            (&[0, 1, 2, 3, 5], false, false),
            (&[0, 1, 2, 3, 3], false, false),
            (&[0, 1, 2, 3, 3, 4, 5], false, false),
            (&[0, 1, 2, 3, 3, 3], false, true),
        ] {
            let row = row(came);
            assert_eq!((row.is_in_turn(), row.is_stream()), (in_turn, stream), "{came:?}");
        }
    }
}
