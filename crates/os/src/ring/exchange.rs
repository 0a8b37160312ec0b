//! The exchange line and its area: messages that answer one another (rules 13 to 16).

use super::{
    EXCHANGE_MAX, POSITION_SHIFT, RingArea, RingReceiver, RingSender, form, header,
    sender::{fill_words, word_at},
};
use crate::{
    bytes::{Bytes, BytesMut},
    line::{Keep, Line, Touch, Watched},
    sync::{AtomicU64, Ordering},
};
use std::ptr::NonNull;

/// The word of the line that says in one message how far a ring is taken (rule 14).
const TAKEN: usize = 7;

/// The word that says how long a message in the area is.
const LEN: usize = 1;

/// In place of how far a ring is taken: a slot is taken in part. No sender is there.
const NOWHERE: u64 = u64::MAX;

/// An opening was worth its notices if so many messages went by the line.
const WORTH: u64 = 64;
/// At most so many chances to open the line are left alone, after openings that were not.
const MOST_PAUSE: u8 = 63;

/// Word about the exchange line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice(
    /// How far its sender has taken the ring of who reads it; zero: the line is closed.
    pub(super) u64,
);

impl Notice {
    pub(super) const CLOSED: Notice = Notice(0);
}

/// Whose turn it is to use the exchange line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The other side's, or nobody's.
    Theirs,
    /// This side's, for the first time since it has heard that the line is open.
    First,
    /// This side's.
    Ours,
}

/// The exchange line, as the receiving side of a ring knows it.
#[derive(Debug)]
pub(super) struct Exchange {
    line: *const Line,
    /// The number of the next message there.
    number: u64,
    /// The first message since the line was opened is still to come.
    is_new: bool,
    /// How far the other side has taken this one's ring, if it has said so in such a message, and nobody has used that yet.
    taken: Option<u64>,
    /// When this side wrote last, in ticks.
    #[cfg(not(loom))]
    written: u64,
    /// The area behind the line.
    data: NonNull<u8>,
    watched: Watched,
    /// Keeps line and area mapped.
    _keep: Keep,
}

impl Exchange {
    /// The line of this ring, which nobody has used yet.
    fn of(area: &RingArea) -> Exchange {
        Exchange {
            line: area.exchange.as_ptr(),
            number: 1,
            is_new: false,
            taken: None,
            #[cfg(not(loom))]
            written: 0,
            data: area.exchange_data,
            watched: area.watched_exchange.clone(),
            _keep: area.keep.clone(),
        }
    }

    #[inline(always)]
    fn words(&self) -> &[AtomicU64; 8] {
        // SAFETY: `_keep` keeps the line mapped.
        unsafe { &(*self.line).words }
    }

    /// Where messages begin, and the lap of the next one.
    #[inline(always)]
    pub(super) fn next(&self) -> (*const AtomicU64, u64) {
        (self.words().as_ptr(), self.number)
    }

    /// Whether messages there begin here.
    #[inline(always)]
    pub(super) fn is_at(&self, word: *const AtomicU64) -> bool {
        std::ptr::eq(self.words().as_ptr(), word)
    }

    /// The longer message whose header is in the line: its bytes in the area behind it.
    ///
    /// # Panics
    /// If the line says that there are more than the area has.
    #[inline(always)]
    pub(super) fn bytes(&self) -> Bytes<'_> {
        let len = self.words()[LEN].load(Ordering::Relaxed);
        assert!(len <= EXCHANGE_MAX as u64, "broken ring: {len} bytes in the exchange area");
        let len = len as usize;
        self.watched.touch(0, len, Touch::Read);
        // SAFETY: so many bytes are there, which `_keep` keeps mapped. The other side writes none of them before it has the turn.
        unsafe { Bytes::from_raw(self.data.as_ptr(), len) }
    }

    /// The first `len` bytes of the area, to be written by who has the turn.
    #[inline(always)]
    fn bytes_mut(&mut self, len: usize) -> BytesMut<'_> {
        assert!(len <= EXCHANGE_MAX);
        self.watched.touch(0, len, Touch::Write);
        // SAFETY: so many bytes are there, which `_keep` keeps mapped. The other side has read what lay there, as the turn is this
        // one's, and looks there no more before something is published.
        unsafe { BytesMut::from_raw(self.data.as_ptr(), len) }
    }

    /// Where the area begins.
    #[inline(always)]
    pub(super) const fn data(&self) -> *const u8 {
        self.data.as_ptr().cast_const()
    }

    /// What the other side has written is taken. Whether it was the first since the line was opened.
    #[inline(always)]
    pub(super) fn take(&mut self) -> bool {
        self.number += 1;
        let is_first = std::mem::replace(&mut self.is_new, false);
        if is_first {
            self.taken = Some(self.words()[TAKEN].load(Ordering::Relaxed));
        }
        is_first
    }

    /// Publishes what is in the line, by a header that lacks its lap.
    #[inline(always)]
    fn publish(&mut self, header: u64) {
        self.words()[0].store(header | u64::from(self.number as u8), Ordering::Release);
        self.number += 1;
        // Behind the message: it takes time that the message takes as well.
        #[cfg(not(loom))]
        {
            self.written = crate::clock::ticks();
        }
    }
}

/// What the sending side of a ring knows of the exchange line.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// It is open, and this side has not closed it.
    pub(super) is_open: bool,
    /// The other side has not closed it.
    is_open_there: bool,
    /// What had gone and come when credits were returned last.
    seen: Traffic,
    /// The number of the next message in the line when it was opened last, until that is judged.
    opened_at: Option<u64>,
    /// So many chances to open it are left alone,
    pause: u8,
    /// and so many of these are left.
    pause_left: u8,
}

/// What has gone to a process and come from there.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    slots_out: u64,
    slots_in: u64,
    /// Slots that held something else than messages that might go by the line.
    others_in: u32,
}

impl Traffic {
    /// Whether from then to now messages came that might go by the line, and for each slot of them one went.
    fn answers(&self, now: &Traffic) -> bool {
        let (out, came) = (now.slots_out - self.slots_out, now.slots_in - self.slots_in);
        self.others_in == now.others_in && out.abs_diff(came) <= 1
    }
}

impl RingReceiver {
    /// When this side wrote to the exchange line, in ticks, if what comes next is awaited there.
    #[cfg(not(loom))]
    #[inline(always)]
    pub fn awaits_answer_since(&self) -> Option<u64> {
        self.exchange
            .as_ref()
            .filter(|_| self.is_at_exchange() && self.turn == Turn::Theirs)
            .map(|exchange| exchange.written)
    }
}

impl RingSender {
    /// Sends a message of at most 56 bytes by the exchange line, if that is open and it is this side's turn, in one straight line
    /// without a call. `back` is the ring of the other direction. It is for a message that found no place as slots are held back
    /// ([`RingSender::send_inline_now`]). `false`: nothing happened; a first turn is for [`RingSender::try_send_long_in_turn`].
    #[inline(always)]
    pub fn send_in_turn_now(
        &self,
        back: &mut RingReceiver,
        tag: i32,
        context: u16,
        bytes: Bytes<'_>,
    ) -> bool {
        let is_usable = self.holds && back.turn == Turn::Ours;
        let (true, Some(exchange)) = (is_usable, &mut back.exchange) else { return false };
        if bytes.len() == 8 {
            // SAFETY: there are eight.
            exchange.words()[1].store(unsafe { word_at(bytes, 0) }, Ordering::Relaxed);
        } else {
            fill_words(exchange.words(), bytes);
        }
        exchange.publish(header(tag, context, form::WHOLE, bytes.len(), 0));
        back.pass_turn();
        true
    }

    /// As [`RingSender::send_in_turn_now`], for a message of `len` bytes, at most [`EXCHANGE_MAX`], of which only the header lies in
    /// the line (rule 13), and for a first turn. `fill` writes all of it.
    #[inline]
    pub fn try_send_long_in_turn(
        &mut self,
        back: &mut RingReceiver,
        tag: i32,
        context: u16,
        len: usize,
        fill: impl FnOnce(BytesMut<'_>),
    ) -> bool {
        let is_usable = self.holds && back.turn != Turn::Theirs && len <= EXCHANGE_MAX;
        let taken = if back.turn == Turn::First { Some(back.position()) } else { None };
        let (true, Some(exchange)) = (is_usable, &mut back.exchange) else { return false };
        fill(exchange.bytes_mut(len));
        exchange.words()[LEN].store(len as u64, Ordering::Relaxed);
        if let Some(taken) = taken {
            exchange.words()[TAKEN].store(taken.unwrap_or(NOWHERE), Ordering::Relaxed);
        }
        exchange.publish(header(tag, context, form::CHUNK, 0, 0));
        back.pass_turn();
        true
    }

    /// Does what is to be done when [`RingReceiver::release`] of `back`, the ring of the other direction, has said `true`: uses
    /// the first turn, or, on the side that `opens` the exchange line, opens it when that seems worth while.
    pub fn see_release(&mut self, back: &mut RingReceiver, opens: bool) {
        if let Some(taken) = back.exchange.as_mut().and_then(|exchange| exchange.taken.take()) {
            self.use_first_turn(taken);
        } else if opens {
            self.consider_exchange(back);
        }
    }

    /// Hears what `back`, the ring of the other direction, has brought.
    pub fn hear(&mut self, back: &mut RingReceiver, notice: Notice) {
        if notice == Notice::CLOSED {
            back.look_at_ring();
            self.watch.is_open_there = false;
            if self.watch.is_open {
                self.leave_exchange();
            }
            return;
        }
        // Twice is once: what a broken sender says harms nobody but its own messages.
        if self.watch.is_open || self.watch.is_open_there {
            return;
        }
        back.exchange.get_or_insert_with(|| Exchange::of(&self.area));
        back.turn = Turn::First;
        (self.watch.is_open, self.watch.is_open_there) = (true, true);
        self.use_first_turn(notice.0);
    }

    /// Rule 14: the turn has come for the first time since the line was opened. The other side has taken so much.
    fn use_first_turn(&mut self, taken: u64) {
        if self.watch.is_open {
            if self.position() == Some(taken) {
                self.hold_slots();
            } else {
                self.leave_exchange();
            }
        }
    }

    /// Opens the exchange line if, since credits were returned last, each slot that came held short messages and was answered by
    /// one. If that was in vain it is tried half as often, and so on (rules 14 and 16).
    fn consider_exchange(&mut self, back: &mut RingReceiver) {
        let slots = u64::from(self.area.shape.slots);
        let count = |position: u64| (position >> POSITION_SHIFT) * slots + position % (1 << POSITION_SHIFT);
        // Several messages may have been taken since: the credits were returned for a slot before.
        let (Some(position), Some(taken)) = (self.position(), back.position()) else { return };
        let now = Traffic { slots_out: count(position), slots_in: count(taken), others_in: back.others_seen };
        let before = std::mem::replace(&mut self.watch.seen, now);
        if self.watch.is_open || self.watch.is_open_there || self.owes_notice() {
            return;
        }
        let number = back.exchange.as_ref().map_or(1, |exchange| exchange.number);
        if let Some(opened_at) = self.watch.opened_at.take() {
            let pause = self.watch.pause;
            self.watch.pause =
                if number - opened_at < WORTH { MOST_PAUSE.min(2 * pause + 1) } else { pause / 2 };
            self.watch.pause_left = self.watch.pause;
        }
        if !before.answers(&now) {
            return;
        }
        if self.watch.pause_left > 0 {
            self.watch.pause_left -= 1;
            return;
        }
        if !self.try_send_notice(super::Notice(taken)) {
            return;
        }
        self.watch.opened_at = Some(number);
        (self.watch.is_open, self.watch.is_open_there) = (true, true);
        back.exchange.get_or_insert_with(|| Exchange::of(&back.area)).is_new = true;
        back.look_at_exchange();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{
        barrier::BarrierKind,
        ring::{INLINE_MAX, RingShape, Slot},
    };

    /// One of two processes with rings for each other.
    struct Side {
        out: RingSender,
        back: RingReceiver,
        /// It opens the exchange line.
        opens: bool,
        /// The tags of the next message to send and to receive.
        next: [i32; 2],
        /// Messages that went by the exchange line.
        exchanged: usize,
        /// Whether one has gone since the last came.
        follows: bool,
        /// A release has said something of which the sender was not told yet.
        has_news: bool,
    }

    fn sides(slots: u32) -> [Side; 2] {
        let shape = RingShape { slots, data_bytes: 16 << 10, chunk_bytes: 4 << 10 };
        let [there, back] = [0; 2].map(|_| RingArea::on_heap(shape, BarrierKind::Symmetric));
        let side = |out: &RingArea, back: &RingArea, opens| Side {
            out: RingSender::new(out.clone()),
            back: RingReceiver::new(back.clone()),
            opens,
            next: [0; 2],
            exchanged: 0,
            follows: false,
            has_news: false,
        };
        [side(&there, &back, true), side(&back, &there, false)]
    }

    impl Side {
        /// Sends a message of `len` bytes that tells its tag, if there is room.
        fn send(&mut self, len: usize) -> bool {
            let Side { out, back, next: [tag, _], exchanged, follows, .. } = self;
            let bytes = vec![*tag as u8; len];
            let bytes = Bytes::from(&bytes[..]);
            let gone = if len > INLINE_MAX {
                if out.try_send_long_in_turn(back, *tag, 3, len, |area| bytes.copy_to(area)) {
                    *exchanged += 1;
                    true
                } else {
                    out.try_send_data(*tag, 3, len, |at, chunk| bytes.slice(at, chunk.len()).copy_to(chunk))
                }
            } else if out.try_send_inline(*tag, 3, bytes, *follows) {
                true
            } else if out.send_in_turn_now(back, *tag, 3, bytes)
                || out.try_send_long_in_turn(back, *tag, 3, len, |area| bytes.copy_to(area))
            {
                *exchanged += 1;
                true
            } else {
                out.try_send_in_slot(*tag, 3, bytes, *follows)
            };
            *tag += i32::from(gone);
            *follows |= gone;
            gone
        }

        /// Takes what comes next; whether that was a whole message or the end of one, which is in order and as it was sent.
        fn take(&mut self) -> bool {
            self.take_some(1) > 0
        }

        /// Takes so many at most, and sees to what that has brought about afterwards; how many ended messages.
        fn take_some(&mut self, most: u32) -> usize {
            let ended = (0..most).filter(|_| self.take_untold()).count();
            if std::mem::take(&mut self.has_news) {
                self.out.see_release(&mut self.back, self.opens);
            }
            ended
        }

        /// As [`Side::take`], but the sender is not told.
        fn take_untold(&mut self) -> bool {
            let expected = self.next[1];
            let was_empty = self.back.is_empty();
            let (tag, bytes, is_last) = match self.back.peek() {
                None => return false,
                Some(Slot::Notice(notice)) => {
                    self.has_news |= self.back.release();
                    self.out.hear(&mut self.back, notice);
                    return false;
                }
                Some(Slot::Inline { tag, context: 3, bytes }) => (tag, bytes.to_vec(), true),
                Some(Slot::Chunk { tag, context: 3, total, offset, bytes, .. }) => {
                    (tag, bytes.to_vec(), offset + bytes.len() == total)
                }
                Some(other) => panic!("{other:?}"),
            };
            assert!(!was_empty);
            assert_eq!(tag, expected);
            assert!(bytes.iter().all(|byte| *byte == expected as u8), "{bytes:?} of message {expected}");
            self.has_news |= self.back.release();
            if is_last {
                self.next[1] += 1;
                self.follows = false;
            }
            is_last
        }

        /// Takes one message, and looks once more, as who waits does.
        fn receive(&mut self) {
            while !self.take() {}
            assert!(!self.take());
        }

        fn looks_at_one_place(&self) -> bool {
            !self.out.watch.is_open && !self.out.watch.is_open_there && !self.back.is_at_exchange()
        }
    }

    /// So many times one sends `len` bytes and the other answers.
    fn converse([a, b]: &mut [Side; 2], turns: usize, len: usize) {
        for _ in 0..turns {
            assert!(a.send(len));
            b.receive();
            assert!(b.send(len));
            a.receive();
        }
    }

    #[test]
    fn messages_that_answer_one_another_go_by_the_exchange_line() {
        for starter in 0..2 {
            let mut sides = sides(16);
            sides.rotate_left(starter);
            // What went before leaves the rings at other places than at the start.
            for len in [9, 9, 9, 5000] {
                assert!(sides[0].send(len));
                sides[1].receive();
            }
            converse(&mut sides, 12, 8);
            assert!(sides.iter().all(|side| side.exchanged > 0), "a quarter of a ring is enough");
            let lens = || (0..=200).chain([1000, EXCHANGE_MAX - 1, EXCHANGE_MAX]);
            for len in lens() {
                converse(&mut sides, 20, len);
            }
            for side in &sides {
                assert!(side.exchanged >= 20 * lens().count(), "{}", side.exchanged);
            }
        }
    }

    #[test]
    fn longer_ones_open_the_line_too_if_they_may_go_by_it() {
        for (len, go_by_it) in [(57, true), (EXCHANGE_MAX, true), (EXCHANGE_MAX + 1, false)] {
            let mut sides = sides(16);
            converse(&mut sides, 100, len);
            for side in &sides {
                assert_eq!(side.exchanged > 50, go_by_it, "{} of {len} bytes", side.exchanged);
            }
        }
    }

    #[test]
    fn the_line_is_closed_by_what_goes_otherwise_and_opened_again() {
        for (closer, len) in [(0, EXCHANGE_MAX + 1), (1, EXCHANGE_MAX + 1), (0, 8), (1, 8), (0, 57), (1, 57)]
        {
            let mut sides = sides(16);
            converse(&mut sides, 200, 8);
            let exchanged = sides[0].exchanged;
            assert!(exchanged > 150);
            // Two of which the second follows the first, or a longer one.
            for _ in 0..=usize::from(len <= EXCHANGE_MAX) {
                assert!(sides[closer].send(len));
            }
            // A notice, and two messages or the parts of one.
            for _ in 0..3 {
                sides[1 - closer].take();
            }
            assert!(!sides[closer].take());
            assert!(sides.iter().all(Side::looks_at_one_place), "by {closer}, {len} bytes");
            converse(&mut sides, 200, 8);
            assert!(sides[0].exchanged > exchanged + 150);
        }
    }

    #[test]
    fn messages_that_follow_one_another_leave_the_line_alone() {
        let mut sides = sides(16);
        let before = sides[1].next;
        for _ in 0..10_000 {
            for at in 0..2 {
                assert!(sides[at].send(9) && sides[at].send(9));
                while sides[1 - at].take() || sides[1 - at].take() {}
            }
        }
        assert_eq!(sides[1].next, [before[0] + 20_000, before[1] + 20_000]);
        let [a, b] = sides;
        assert!(a.exchanged + b.exchanged < 200, "{} and {}", a.exchanged, b.exchanged);
    }

    #[test]
    fn messages_come_in_order_whichever_way_they_go() {
        let mut exchanged = 0;
        for seed in 1..300u32 {
            let mut sides = sides(if seed % 2 == 0 { 4 } else { 8 });
            let mut state = seed;
            let mut random = |below: u32| {
                // Marsaglia, Xorshift RNGs (2003).
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                state % below
            };
            let eagerness = 1 + random(40);
            for _ in 0..5000 {
                let at = random(2) as usize;
                match random(4 + eagerness) {
                    0 => _ = sides[at].take(),
                    1 => _ = sides[at].take_some(1 + random(6)),
                    2 => {
                        _ = sides[at]
                            .send([0, 3, 8, 8, 8, 17, 48, 49, 56, 57, 4096, 5000, 8][random(13) as usize]);
                    }
                    // One who answers.
                    _ => {
                        if sides[at].take() {
                            sides[at].send([8, 8, 8, 700][random(4) as usize]);
                        }
                    }
                }
            }
            let [a, b] = &mut sides;
            for _ in 0..100 {
                a.take();
                b.take();
            }
            assert_eq!((a.next[0], b.next[0]), (b.next[1], a.next[1]), "seed {seed}");
            exchanged += a.exchanged + b.exchanged;
        }
        assert!(exchanged > 10_000, "{exchanged} went by the line");
    }

    #[test]
    fn who_waits_for_room_gets_it_from_one_who_sleeps() {
        // With more slots there is always room.
        let waited: usize = (1..=100).map(wait_for_one_who_sleeps).sum();
        assert!(waited > 0, "nobody ever waited for one who slept");
    }

    /// Random steps of two sides. One that has taken all sleeps, until a message goes to it, or it is rung for. How often the other one
    /// found no room for the longest message meanwhile; then it was told to try again, or rang.
    fn wait_for_one_who_sleeps(seed: u32) -> usize {
        let mut sides = sides(4);
        let mut state = seed;
        let mut random = |below: u32| {
            // Marsaglia, Xorshift RNGs (2003).
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state % below
        };
        let (mut sleeper, mut waited) = (None, 0);
        for _ in 0..4000 {
            let at = sleeper.map_or_else(|| random(2) as usize, |sleeper: usize| 1 - sleeper);
            let gone = match random(12) {
                0 => {
                    sides[at].take_some(1 + random(6));
                    false
                }
                1 => sides[at].send([8, 8, 8, 9][random(4) as usize]),
                2 if sleeper.is_none() => {
                    sides[at].take();
                    while !sides[at].back.is_empty() {
                        sides[at].take();
                    }
                    sleeper = Some(at);
                    false
                }
                3 if sleeper.is_some() => {
                    let out = &mut sides[at].out;
                    let (longest, frame) = (out.max_data(), 1);
                    if !out.room_for_data(longest, frame) {
                        waited += 1;
                        assert!(out.want_credits() || out.rings_for_notice(), "seed {seed}");
                    }
                    true
                }
                _ => sides[at].take() && sides[at].send(8),
            };
            if gone {
                sleeper = None;
            }
        }
        waited
    }
}
