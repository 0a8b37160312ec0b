use super::Link;
use crate::{FrameSink, Taken, dispatch};
use oxmpi_shm::ring::{RingReceiver, RingSlot};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_sys::clock::{pass_moment, pass_ticks, ticks_of_ns};
use oxmpi_wire::{Context, Envelope, Frame, MAX_FRAME_LEN, Received, Tags};

#[derive(Debug)]
pub(super) struct RingIn {
    pub(super) receiver: RingReceiver,
    /// A frame whose body comes in the next slots.
    framed: Option<Received>,
}

impl RingIn {
    pub(super) fn new(receiver: RingReceiver) -> RingIn {
        RingIn { receiver, framed: None }
    }

    #[inline(never)]
    pub(super) fn comes_soon(&self) -> bool {
        let gap = ticks_of_ns(POLL_GAP_NS);
        for polls in 1..=POLLS {
            if !self.receiver.is_empty() {
                return true;
            }
            if polls <= CLOSE_POLLS {
                pass_moment();
            } else {
                pass_ticks(gap);
            }
        }
        false
    }
}

impl Link {
    #[inline]
    pub(super) fn poll<S: FrameSink>(&mut self, from: u32, most: usize, sink: &mut S) -> RingPoll {
        let mut seen = RingPoll::default();
        let Link { ring_in: Some(RingIn { receiver, framed, .. }), matched_in, cells_in, .. } =
            self
        else {
            return seen;
        };
        for _ in 0..most {
            if seen.any {
                receiver.fetch_ahead();
            }
            let Some(slot) = receiver.peek() else { break };
            match slot {
                RingSlot::Inline { tag, context, bytes } => {
                    let envelope = Envelope { context: Context::Local(u32::from(context)), tag };
                    sink.eager(from, count(matched_in), envelope, bytes.len(), bytes);
                    seen.any = true;
                    seen.wakes |= receiver.release_expected();
                    continue;
                }
                RingSlot::Chunk { offset: offset @ 1.., bytes, .. } => {
                    hand_up(from, offset, bytes, sink)
                }
                RingSlot::Chunk { tag, context, total, bytes, .. } => {
                    // The beginning of an announced message comes with its frame.
                    let is_announced =
                        |got: &Received| matches!(got.frame, Frame::Rendezvous { .. });
                    let is_apart = bytes.len() >= BY_VECTORS_FROM
                        && !framed.as_ref().is_some_and(is_announced);
                    let first = if is_apart { Bytes::empty() } else { bytes };
                    match framed.take() {
                        Some(got) => {
                            let _ = dispatch(from, &numbered(matched_in, got), total, first, sink);
                        }
                        None => {
                            let envelope =
                                Envelope { context: Context::Local(u32::from(context)), tag };
                            sink.eager(from, count(matched_in), envelope, total, first);
                        }
                    }
                    if is_apart {
                        hand_up(from, 0, bytes, sink);
                    }
                }
                RingSlot::Frame { bytes, body_len } => {
                    if let Some(got) = decode(bytes) {
                        if let Frame::RingOpen { cells } = got.frame
                            && *cells_in < cells
                        {
                            break;
                        }
                        if body_len > 0 {
                            *framed = Some(got);
                        } else {
                            let body = bytes.slice(got.body_at, bytes.len() - got.body_at);
                            let own =
                                dispatch(from, &numbered(matched_in, got), body.len(), body, sink);
                            if let Some(Frame::RingGrant { ring }) = own {
                                seen.granted = Some(ring);
                            }
                        }
                    }
                }
            }
            seen.any = true;
            seen.wakes |= receiver.release();
        }
        seen
    }

    #[inline(never)]
    pub(super) fn ring_bell(&self) {
        if let Some(out) = &self.out {
            out.bell.ring();
        }
    }

    /// Copies a message of one slot to `into`, if context and tags match and it fits.
    #[inline(always)]
    pub(super) fn take_short(&mut self, context: u32, tags: Tags, into: BytesMut<'_>) -> Taken {
        let Some(RingIn { receiver, .. }) = &mut self.ring_in else { return Taken::Other };
        if context > u32::from(u16::MAX) {
            return Taken::Other;
        }
        let Some((tag, bytes)) = receiver.peek_expected(tags.tag, tags.mask, context as u16) else {
            return Taken::Other;
        };
        let len = bytes.len();
        if !bytes.copy_if_it_fits(into) {
            return Taken::Other;
        }
        self.matched_in = self.matched_in.wrapping_add(1);
        if receiver.release_expected() {
            self.ring_bell();
        }
        Taken::Message { tag, len }
    }

    /// As [`Link::take_short`], for a message of any length. Returns also whether the sender waits
    /// for a wake-up.
    pub(super) fn take(
        &mut self,
        context: u32,
        tags: Tags,
        mut into: BytesMut<'_>,
    ) -> (Taken, bool) {
        let Some(RingIn { receiver, framed: None, .. }) = &mut self.ring_in else {
            return (Taken::Other, false);
        };
        let (its_tag, total, mut stored) = match receiver.peek() {
            None => return (Taken::Nothing, false),
            // A frame, or a chunk of a message whose beginning another receive has taken.
            Some(RingSlot::Frame { .. } | RingSlot::Chunk { offset: 1.., .. }) => {
                return (Taken::Other, false);
            }
            Some(
                RingSlot::Inline { tag: its_tag, context: its_context, .. }
                | RingSlot::Chunk { tag: its_tag, context: its_context, .. },
            ) if u32::from(its_context) != context || !tags.fit(its_tag) => {
                return (Taken::Other, false);
            }
            Some(RingSlot::Inline { tag, bytes, .. }) => {
                if !bytes.copy_if_it_fits(into.reborrow()) {
                    return (Taken::Other, false);
                }
                (tag, bytes.len(), bytes.len())
            }
            Some(RingSlot::Chunk { tag, total, bytes, .. }) => {
                if total > into.len() {
                    return (Taken::Other, false);
                }
                bytes.copy_by_vectors(into.slice(0, bytes.len()));
                (tag, total, bytes.len())
            }
        };
        self.matched_in = self.matched_in.wrapping_add(1);
        let mut wakes = receiver.release();
        // The sender publishes all chunks in a row, unless it loses its processor.
        let mut patience = PATIENCE;
        while stored < total {
            let Some(RingSlot::Chunk { offset, bytes, .. }) = receiver.peek() else {
                if patience == 0 {
                    return (Taken::Begun { tag: its_tag, total, stored }, wakes);
                }
                patience -= 1;
                std::hint::spin_loop();
                continue;
            };
            bytes.copy_by_vectors(into.slice(offset, bytes.len()));
            stored += bytes.len();
            wakes |= receiver.release();
            patience = PATIENCE;
        }
        (Taken::Message { tag: its_tag, len: total }, wakes)
    }
}

/// Delivers a part of a message. A part with a known destination is copied there by vectors: the
/// string instruction of the C library's long copies takes longer for data that another processor
/// has just written (100 instead of 60 ns for a KiB on AMD family 25).
fn hand_up<S: FrameSink>(from: u32, offset: usize, bytes: Bytes<'_>, sink: &mut S) {
    if bytes.len() >= BY_VECTORS_FROM
        && let Some(into) = sink.place(from, offset, bytes.len())
    {
        bytes.copy_by_vectors(into);
        return sink.placed(from, offset, bytes.len());
    }
    sink.more(from, offset, bytes);
}

/// In bytes. Shorter parts are copied by vectors in any case.
const BY_VECTORS_FROM: usize = 2 << 10;

/// The number of polls of the ring alone by a process that waits for a message of one peer. The
/// first [`CLOSE_POLLS`] follow closely, to see an answer at once. The others are [`POLL_GAP_NS`]
/// apart, so that the line stays with its writer.
const POLLS: u32 = 48;
const CLOSE_POLLS: u32 = 8;
const POLL_GAP_NS: u64 = 40;
/// The number of polls for the next chunk of a message before other messages get their turn.
const PATIENCE: u32 = 200;

#[inline(always)]
fn count(matched_in: &mut u8) -> u8 {
    let sequence = *matched_in;
    *matched_in = sequence.wrapping_add(1);
    sequence
}

fn numbered(matched_in: &mut u8, got: Received) -> Received {
    if got.frame.matches() { Received { sequence: count(matched_in), ..got } } else { got }
}

#[derive(Default)]
pub(super) struct RingPoll {
    pub(super) any: bool,
    pub(super) wakes: bool,
    /// The ring that the sender grants to this process.
    pub(super) granted: Option<u32>,
}

/// Reads a frame from shared memory. It decodes a copy, because the writer could change the
/// original.
#[inline]
pub(super) fn decode(bytes: Bytes<'_>) -> Option<Received> {
    let mut copy = [0; MAX_FRAME_LEN];
    let len = bytes.len().min(MAX_FRAME_LEN);
    bytes.slice(0, len).copy_to(BytesMut::from(&mut copy[..len]));
    Frame::decode(&copy[..len]).ok()
}
