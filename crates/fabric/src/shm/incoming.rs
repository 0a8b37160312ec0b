//! What comes from one peer by its ring.

use super::{BURST, Link, Out, Path};
use crate::{Sink, Taken, dispatch};
use oxmpi_os::bytes::{Bytes, BytesMut};
use oxmpi_os::clock::{pass_moment, pass_ticks, ticks_of_ns};
use oxmpi_os::first_look::FirstLook;
use oxmpi_os::ring::{RingReceiver, Slot};
use oxmpi_wire::{Context, Envelope, Frame, MAX_FRAME_LEN, Received, Tags};

/// A ring in our segment, from one peer.
#[derive(Debug)]
pub(super) struct RingIn {
    pub(super) receiver: RingReceiver,
    /// A frame whose body comes in the next slots.
    framed: Option<Received>,
    /// When the answer to a message in the exchange line is looked for first.
    first_look: FirstLook,
}

impl RingIn {
    pub(super) fn new(receiver: RingReceiver) -> RingIn {
        RingIn { receiver, framed: None, first_look: FirstLook::default() }
    }

    /// Looks whether something lies there, again and again for a moment. `IN_LINE`: what is waited for lies in its header's line alone.
    #[inline(never)]
    pub(super) fn comes_soon<const IN_LINE: bool>(&self) -> bool {
        let receiver = &self.receiver;
        let fetch = || {
            if !IN_LINE {
                receiver.fetch_data(FETCHED_FOR_ONE);
            }
        };
        if !receiver.looks_at_two() {
            return look_again(|_| {
                fetch();
                !receiver.is_empty()
            });
        }
        let is_answered = receiver.awaits_answer_since().is_some_and(|written| {
            self.first_look.finds::<IN_LINE>(written, || {
                fetch();
                !receiver.is_empty_here()
            })
        });
        is_answered
            || look_again(|looks| {
                fetch();
                match looks % EVERYWHERE {
                    0 => !receiver.is_empty(),
                    _ => !receiver.is_empty_here(),
                }
            })
    }
}

/// Whether one of some looks finds something; each is told how many there are with it.
#[inline(always)]
fn look_again(finds: impl Fn(u32) -> bool) -> bool {
    let gap = ticks_of_ns(LOOK_GAP_NS);
    let mut looks = 0;
    loop {
        if finds(looks + 1) {
            return true;
        }
        looks += 1;
        match looks {
            LOOKS => return false,
            ..=CLOSE_LOOKS => pass_moment(),
            _ => pass_ticks(gap),
        }
    }
}

impl Link {
    /// Hands up what lies in the ring of this peer, `from`. What is as short as the last one and has at most `fetched` bytes is
    /// fetched with the first look.
    #[inline]
    pub(super) fn poll<S: Sink>(&mut self, from: u32, fetched: usize, sink: &mut S) -> Seen {
        let mut seen = Seen::default();
        let Link { ring_in: Some(RingIn { receiver, framed, .. }), out, matched_in, cells_in, .. } = self
        else {
            return seen;
        };
        receiver.fetch_data(fetched);
        for _ in 0..BURST {
            if seen.any {
                receiver.fetch_ahead();
            }
            let Some(slot) = receiver.peek() else { break };
            match slot {
                Slot::Inline { tag, context, bytes } => {
                    let envelope = Envelope { context: Context::Local(u32::from(context)), tag };
                    sink.eager(from, count(matched_in), envelope, bytes.len(), bytes);
                    seen.any = true;
                    seen.has_news |= receiver.release_expected();
                    continue;
                }
                Slot::Chunk { offset: offset @ 1.., bytes, by_vectors, .. } => {
                    hand_up(from, offset, bytes, by_vectors, sink);
                }
                Slot::Chunk { tag, context, total, bytes, by_vectors, .. } => {
                    // The beginning of an announced message comes with its frame.
                    let is_apart = by_vectors
                        && framed.as_ref().is_none_or(|got| !matches!(got.frame, Frame::Rendezvous { .. }));
                    let first = if is_apart { Bytes::empty() } else { bytes };
                    match framed.take() {
                        Some(got) => drop(dispatch(from, &numbered(matched_in, got), total, first, sink)),
                        None => {
                            let envelope = Envelope { context: Context::Local(u32::from(context)), tag };
                            sink.eager(from, count(matched_in), envelope, total, first);
                        }
                    }
                    if is_apart {
                        hand_up(from, 0, bytes, true, sink);
                    }
                }
                Slot::Notice(notice) => {
                    seen.has_news |= receiver.release();
                    if let Some(Out { path: Path::Ring(ring), .. }) = out {
                        ring.hear(receiver, notice);
                    }
                    continue;
                }
                Slot::Frame { bytes, body_len } => {
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
                            let own = dispatch(from, &numbered(matched_in, got), body.len(), body, sink);
                            if let Some(Frame::RingGrant { ring }) = own {
                                seen.granted = Some(ring);
                            }
                        }
                    }
                }
            }
            seen.any = true;
            seen.has_news |= receiver.release();
        }
        seen
    }

    /// Does what is to be done when a release has said so: tells a sender that waits for credits that it has got some, and the
    /// ring of the other direction about the exchange line.
    #[inline(never)]
    pub(super) fn see_release(&mut self) {
        let Link { ring_in: Some(RingIn { receiver, .. }), out: Some(out), .. } = self else { return };
        if let Path::Ring(ring) = &mut out.path {
            ring.see_release(receiver, out.opens_exchange);
        }
        if receiver.wakes_sender() {
            out.bell.ring();
        }
    }

    /// Takes the message that lies whole in its slot or in the exchange line into `into`, if it is of this context and tag and fits.
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
            self.see_release();
        }
        Taken::Message { tag, len }
    }

    /// Takes the message that lies in the ring, or begins with what lies there, into `into`, if it is of this context
    /// and tag and fits.
    pub(super) fn take(&mut self, context: u32, tags: Tags, mut into: BytesMut<'_>) -> (Taken, bool) {
        let Some(RingIn { receiver, framed: None, .. }) = &mut self.ring_in else {
            return (Taken::Other, false);
        };
        receiver.fetch_data(FETCHED_FOR_ONE);
        let (its_tag, total, mut stored) = match receiver.peek() {
            None => return (Taken::Nothing, false),
            // A frame or a notice, or a chunk of a message that has begun to come to somebody else.
            Some(Slot::Frame { .. } | Slot::Notice(_) | Slot::Chunk { offset: 1.., .. }) => {
                return (Taken::Other, false);
            }
            Some(
                Slot::Inline { tag: its_tag, context: its_context, .. }
                | Slot::Chunk { tag: its_tag, context: its_context, .. },
            ) if u32::from(its_context) != context || !tags.fit(its_tag) => {
                return (Taken::Other, false);
            }
            Some(Slot::Inline { tag, bytes, .. }) => {
                if !bytes.copy_if_it_fits(into.reborrow()) {
                    return (Taken::Other, false);
                }
                (tag, bytes.len(), bytes.len())
            }
            Some(Slot::Chunk { tag, total, bytes, by_vectors, .. }) => {
                if total > into.len() {
                    return (Taken::Other, false);
                }
                copy(bytes, by_vectors, into.slice(0, bytes.len()));
                (tag, total, bytes.len())
            }
        };
        self.matched_in = self.matched_in.wrapping_add(1);
        let mut has_news = receiver.release();
        // The sender publishes all chunks of a message in a row, so the next one is a copy away, unless the sender has
        // lost its processor.
        let mut patience = PATIENCE;
        while stored < total {
            let Some(Slot::Chunk { offset, bytes, by_vectors, .. }) = receiver.peek() else {
                if patience == 0 {
                    return (Taken::Begun { tag: its_tag, total, stored }, has_news);
                }
                patience -= 1;
                std::hint::spin_loop();
                continue;
            };
            copy(bytes, by_vectors, into.slice(offset, bytes.len()));
            stored += bytes.len();
            has_news |= receiver.release();
            patience = PATIENCE;
        }
        (Taken::Message { tag: its_tag, len: total }, has_news)
    }
}

/// Hands up a part of the message that has begun to come, or copies it where it goes, if that is known, by vectors.
fn hand_up<S: Sink>(from: u32, offset: usize, bytes: Bytes<'_>, by_vectors: bool, sink: &mut S) {
    if by_vectors && let Some(into) = sink.place(from, offset, bytes.len()) {
        bytes.copy_by_vectors(into);
        return sink.placed(from, offset, bytes.len());
    }
    sink.more(from, offset, bytes);
}

/// Copies a part of a message, by vectors or otherwise.
fn copy(bytes: Bytes<'_>, by_vectors: bool, into: BytesMut<'_>) {
    if by_vectors { bytes.copy_by_vectors(into) } else { bytes.copy_to(into) }
}

/// The longest message in bytes that is fetched with a look for it, where just that one is expected. On distant cores 1 KiB takes
/// 0.45 us instead of 0.57, and 1.5 KiB 0.89 instead of 0.61.
const FETCHED_FOR_ONE: usize = 1 << 10;

/// How often somebody who waits for a message from one process looks into the ring alone. The first looks follow closely upon each
/// other, for what answers; the others are so many nanoseconds apart (`docs/adr/0002-longer-messages-in-shared-memory.md`, "Looks for
/// one message").
const LOOKS: u32 = 48;
const CLOSE_LOOKS: u32 = 8;
const LOOK_GAP_NS: u64 = 40;
/// While the exchange line is open each look of so many is for the ring and for that line, and the others are for the one where
/// something came last.
const EVERYWHERE: u32 = 4;

/// How many looks for the next chunk of a message that has begun before others get their turn.
const PATIENCE: u32 = 200;

/// Counts a message that matches: its number modulo 256.
#[inline(always)]
fn count(matched_in: &mut u8) -> u8 {
    let sequence = *matched_in;
    *matched_in = sequence.wrapping_add(1);
    sequence
}

/// Gives a frame that matches its number: in a ring it is not on the wire.
fn numbered(matched_in: &mut u8, got: Received) -> Received {
    if got.frame.matches() { Received { sequence: count(matched_in), ..got } } else { got }
}

/// What one look into a ring has shown.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) any: bool,
    /// See [`Link::see_release`].
    pub(super) has_news: bool,
    /// The sender grants us a ring.
    pub(super) granted: Option<u32>,
}

/// Reads a frame from shared memory: copied first, because its writer could still change it.
#[inline]
pub(super) fn decode(bytes: Bytes<'_>) -> Option<Received> {
    let mut copy = [0; MAX_FRAME_LEN];
    let len = bytes.len().min(MAX_FRAME_LEN);
    bytes.slice(0, len).copy_to(BytesMut::from(&mut copy[..len]));
    Frame::decode(&copy[..len]).ok()
}
