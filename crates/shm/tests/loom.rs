//! The protocols in shared memory under the model checker. The name of a test has the rules that it
//! checks.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p oxmpi-shm --release --test loom --target-dir target/loom`
#![cfg(loom)]

use loom::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    thread,
};
use oxmpi_shm::{
    announcement::{AnnouncementArea, AnnouncementSender, Claim, OwnClaim},
    control_section::{ControlSection, PoolSegments, SHORT_BYTES, Stated},
    door::{Alarm, DoorTurn, DoorWord, Sleepers},
    inbox::{InboxArea, InboxReceiver, InboxSender},
    mailbox::{Answer, MailboxRequest, Mailboxes},
    pool::{Pool, PoolArea, PoolShape, PoolView},
    postbox::{Packet, PostboxArea, PostboxShape},
    ring::{Pooling, RingArea, RingReceiver, RingSender, RingShape, RingSlot},
    robust_lock::RobustGuard,
};
use oxmpi_sys::{
    barrier::BarrierKind::Symmetric,
    bytes::{Bytes, CopyKind},
};

/// Checks a model with at most this number of preemptions, or LOOM_MAX_PREEMPTIONS if that is less.
fn check(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    let most = model.preemption_bound.unwrap_or(preemptions);
    model.preemption_bound = Some(preemptions.min(most));
    model.check(test);
}

fn ring() -> (RingSender, RingReceiver) {
    let area =
        RingArea::on_heap(RingShape { slots: 4, data_bytes: 1024, chunk_bytes: 64 }, Symmetric);
    (RingSender::new(area.clone()), RingReceiver::new(area))
}

fn take(receiver: &mut RingReceiver) -> Option<(i32, Vec<u8>)> {
    let message = match receiver.peek()? {
        RingSlot::Inline { tag, bytes, .. } => (tag, bytes.to_vec()),
        RingSlot::Frame { bytes, .. } => (-1, bytes.to_vec()),
        RingSlot::Chunk { tag, bytes, .. } => {
            // Time for a sender that wrongly assumes that the message was read.
            thread::yield_now();
            (tag, bytes.to_vec())
        }
    };
    receiver.release();
    Some(message)
}

fn receive(receiver: &mut RingReceiver) -> (i32, Vec<u8>) {
    loop {
        if let Some(message) = take(receiver) {
            return message;
        }
        thread::yield_now();
    }
}

#[test]
fn ring_rule_2_publish() {
    check(3, || {
        let (mut sender, mut receiver) = ring();
        let thread = thread::spawn(move || {
            assert!(sender.try_send_inline(7, 1, Bytes::from(b"0123456789")));
            assert!(sender.try_send_frame(Bytes::from(b"frame")));
        });
        assert_eq!(receive(&mut receiver), (7, b"0123456789".to_vec()));
        assert_eq!(receive(&mut receiver), (-1, b"frame".to_vec()));
        assert!(take(&mut receiver).is_none());
        thread.join().unwrap();
    });
}

#[test]
fn ring_rules_2_and_3_lap_and_credit() {
    check(2, || {
        let (mut sender, mut receiver) = ring();
        // The first lap is full: later messages need credits and overwrite old slots.
        for tag in 0..4 {
            assert!(sender.try_send_inline(tag, 0, Bytes::from(&[tag as u8; 9])));
        }
        assert!(!sender.try_send_inline(9, 0, Bytes::empty()));
        let thread = thread::spawn(move || {
            for tag in 4..6 {
                while !sender.try_send_inline(tag, 0, Bytes::from(&[tag as u8; 9])) {
                    thread::yield_now();
                }
            }
        });
        for tag in 0..6 {
            assert_eq!(receive(&mut receiver), (tag, vec![tag as u8; 9]));
        }
        thread.join().unwrap();
    });
}

#[test]
fn ring_rules_3_and_4_data_wraps() {
    check(2, || {
        let area = RingArea::on_heap(
            RingShape { slots: 16, data_bytes: 1024, chunk_bytes: 256 },
            Symmetric,
        );
        let (mut sender, mut receiver) = (RingSender::new(area.clone()), RingReceiver::new(area));
        let send = |sender: &mut RingSender, tag: i32, len: usize| {
            sender.try_send_data(tag, 0, len, |offset, chunk| {
                Bytes::from(&vec![tag as u8 + (offset / 256) as u8; chunk.len()][..])
                    .copy_to(chunk);
            })
        };
        // 1024 - 192 - 512 = 320 bytes are left: the third message (257 bytes: two chunks) fits the
        // rest only in part, and waits for bytes to be taken.
        assert!(send(&mut sender, 10, 192) && send(&mut sender, 20, 512));
        let thread = thread::spawn(move || {
            while !send(&mut sender, 30, 321) {
                thread::yield_now();
            }
        });
        assert_eq!(receive(&mut receiver), (10, vec![10; 192]));
        assert_eq!(receive(&mut receiver), (20, vec![20; 256]));
        assert_eq!(receive(&mut receiver), (20, vec![21; 256]));
        assert_eq!(receive(&mut receiver), (30, vec![30; 256]));
        assert_eq!(receive(&mut receiver), (30, vec![31; 65]));
        thread.join().unwrap();
    });
}

#[test]
fn ring_rule_5_waiting_for_credits() {
    check(3, || {
        let (mut sender, mut receiver) = ring();
        for tag in 0..4 {
            assert!(sender.try_send_inline(tag, 0, Bytes::empty()));
        }
        let word = Arc::new(DoorWord::default());
        let bell = word.clone();
        let thread = thread::spawn(move || {
            let sleepers = Sleepers::default();
            while !sender.try_send_inline(4, 0, Bytes::empty()) {
                let sleepy = sleepers.announce(&word, Symmetric);
                if !sender.want_credits() {
                    sleepy.sleep(None);
                }
            }
        });
        // One quarter of the slots: the sender gets the credits of all of them or none.
        assert!(receiver.peek().is_some());
        if receiver.release() {
            bell.ring(Symmetric);
        }
        thread.join().unwrap();
    });
}

/// A ring of 16 slots, whose receiver sees the pool.
fn ring_with(pool: &PoolArea) -> (RingSender, RingReceiver) {
    let area =
        RingArea::on_heap(RingShape { slots: 16, data_bytes: 1024, chunk_bytes: 64 }, Symmetric);
    let mut receiver = RingReceiver::new(area.clone());
    receiver.set_pool(PoolView::new(pool.clone()));
    (RingSender::new(area), receiver)
}

/// Sends `len` bytes with the value `tag` through the pool, streamed if the tag is odd.
fn send_pooled(sender: &mut RingSender, pool: &mut Pool, tag: u8, len: usize) -> bool {
    let kind = if tag % 2 == 1 { CopyKind::Streaming } else { CopyKind::Plain };
    let pooling = Pooling { pool, to: 1, kind, piece_bytes: 1024 };
    sender.try_send_pooled(i32::from(tag), 0, len, pooling, |_, piece, kind| {
        Bytes::from(&vec![tag; piece.len()][..]).copy_by(kind, piece);
    })
}

fn receive_pooled(receiver: &mut RingReceiver, tag: u8, len: usize) {
    let mut have = Vec::new();
    while have.len() < len {
        let (its_tag, bytes) = receive(receiver);
        assert_eq!(its_tag, i32::from(tag));
        have.extend(bytes);
    }
    assert_eq!(have, vec![tag; len]);
}

#[test]
fn pool_rules_2_to_4_a_block_is_used_again_only_when_it_is_free() {
    check(2, || {
        let area = PoolArea::on_heap(PoolShape { bytes: 4096, block_bytes: 1024 });
        let (mut sender, mut receiver) = ring_with(&area);
        let mut pool = Pool::new(area);
        // Two blocks each: the pool is full, and the next message overwrites blocks that the
        // receiver reads. Odd tags are streamed.
        assert!(
            send_pooled(&mut sender, &mut pool, 10, 2048)
                && send_pooled(&mut sender, &mut pool, 11, 1537)
        );
        assert!(!send_pooled(&mut sender, &mut pool, 12, 0));
        let thread = thread::spawn(move || {
            for (tag, len) in [(12, 1025), (13, 1537), (14, 1)] {
                while !send_pooled(&mut sender, &mut pool, tag, len) {
                    thread::yield_now();
                }
            }
        });
        for (tag, len) in [(10, 2048), (11, 1537), (12, 1025), (13, 1537), (14, 1)] {
            receive_pooled(&mut receiver, tag, len);
        }
        thread.join().unwrap();
    });
}

#[test]
fn pool_rule_4_two_receivers() {
    check(2, || {
        let area = PoolArea::on_heap(PoolShape { bytes: 4096, block_bytes: 1024 });
        let mut pool = Pool::new(area.clone());
        let ([mut first, mut second], receivers) = {
            let ((a, b), (c, d)) = (ring_with(&area), ring_with(&area));
            ([a, c], [b, d])
        };
        assert!(
            send_pooled(&mut first, &mut pool, 20, 2048)
                && send_pooled(&mut second, &mut pool, 22, 2048)
        );
        let threads = [20, 22].into_iter().zip(receivers).map(|(tag, mut receiver)| {
            thread::spawn(move || {
                receive_pooled(&mut receiver, tag, 2048);
                receiver
            })
        });
        let threads: Vec<_> = threads.collect();
        // Only this thread waits until the blocks that it overwrites are read.
        for (sender, tag) in [(&mut first, 24), (&mut second, 26)] {
            while !send_pooled(sender, &mut pool, tag, 2048) {
                thread::yield_now();
            }
        }
        for (thread, tag) in threads.into_iter().zip([24, 26]) {
            receive_pooled(&mut thread.join().unwrap(), tag, 2048);
        }
    });
}

#[test]
fn ring_rule_8_a_body_follows_its_frame() {
    check(2, || {
        let area = PoolArea::on_heap(PoolShape { bytes: 4096, block_bytes: 1024 });
        let (mut sender, mut receiver) = ring_with(&area);
        let thread = thread::spawn(move || {
            let mut pool = Pool::new(area);
            for pooled in [true, false] {
                let pooling = pooled.then_some(Pooling {
                    pool: &mut pool,
                    to: 1,
                    kind: CopyKind::Plain,
                    piece_bytes: 1024,
                });
                let frame = Bytes::from(b"frame");
                assert!(sender.try_send_frame_with_body(
                    frame,
                    65,
                    pooling,
                    |offset, piece, kind| {
                        Bytes::from(&vec![offset as u8; piece.len()][..]).copy_by(kind, piece);
                    }
                ));
            }
        });
        for parts in [&[65][..], &[64, 1]] {
            while receiver.peek().is_none() {
                thread::yield_now();
            }
            let Some(RingSlot::Frame { bytes, body_len: 65 }) = receiver.peek() else {
                panic!("no frame")
            };
            assert_eq!(bytes.to_vec(), b"frame");
            receiver.release();
            let mut offset = 0;
            for &len in parts {
                assert_eq!(receive(&mut receiver), (0, vec![offset as u8; len]));
                offset += len;
            }
        }
        thread.join().unwrap();
    });
}

#[test]
fn inbox_rules_1_to_4_two_producers() {
    check(2, || {
        let area = InboxArea::on_heap(4);
        let mut receiver = InboxReceiver::new(area.clone());
        let threads: Vec<_> = (1..3u32)
            .map(|producer| {
                let mut sender = InboxSender::new(area.clone());
                thread::spawn(move || {
                    assert!(sender.try_send(producer, 9, |cell| {
                        Bytes::from(&[producer as u8; 9]).copy_to(cell)
                    }));
                })
            })
            .collect();
        let mut seen = 0;
        while seen != 0b110 {
            match receiver.peek() {
                Some(cell) => {
                    assert_eq!(cell.bytes.to_vec(), [cell.producer as u8; 9]);
                    seen += 1 << cell.producer;
                    receiver.release();
                }
                None => thread::yield_now(),
            }
        }
        assert!(receiver.peek().is_none());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn inbox_rule_5_a_full_inbox_and_the_next_turn() {
    check(2, || {
        let area = InboxArea::on_heap(2);
        let mut first = InboxSender::new(area.clone());
        assert!(first.try_send(1, 1, |cell| Bytes::from(&[1]).copy_to(cell)));
        assert!(first.try_send(1, 1, |cell| Bytes::from(&[1]).copy_to(cell)));
        assert!(!first.try_send(1, 0, |_| panic!("it is full")));
        let mut second = InboxSender::new(area.clone());
        let mut receiver = InboxReceiver::new(area);
        let thread = thread::spawn(move || {
            while !second.try_send(2, 1, |cell| Bytes::from(&[2]).copy_to(cell)) {
                thread::yield_now();
            }
        });
        for producer in [1, 1, 2] {
            loop {
                if let Some(cell) = receiver.peek() {
                    assert_eq!(
                        (cell.producer, cell.bytes.to_vec()),
                        (producer, vec![producer as u8])
                    );
                    break;
                }
                thread::yield_now();
            }
            receiver.release();
        }
        thread.join().unwrap();
    });
}

#[test]
fn inbox_rules_3_and_6_a_dead_producer() {
    check(2, || {
        let area = InboxArea::on_heap(4);
        let mut dead = InboxSender::new(area.clone());
        let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            dead.try_send(1, 8, |_| std::panic::resume_unwind(Box::new(())))
        }));
        assert!(died.is_err());
        let mut sender = InboxSender::new(area.clone());
        let mut receiver = InboxReceiver::new(area);
        let thread = thread::spawn(move || {
            assert!(sender.try_send(2, 1, |cell| Bytes::from(&[2]).copy_to(cell)))
        });
        assert!(receiver.peek().is_none() && !receiver.skip_dead(2));
        assert_eq!(receiver.claimed_by(), Some(1));
        assert!(receiver.skip_dead(1));
        loop {
            if let Some(cell) = receiver.peek() {
                assert_eq!((cell.producer, cell.bytes.to_vec()), (2, vec![2]));
                break;
            }
            assert!(!receiver.skip_dead(1));
            thread::yield_now();
        }
        thread.join().unwrap();
    });
}

#[test]
fn door_rules_1_to_3_no_lost_ring() {
    check(3, || {
        let word = Arc::new(DoorWord::default());
        let work = Arc::new(AtomicU32::new(0));
        let (bell, done) = (word.clone(), work.clone());
        let thread = thread::spawn(move || {
            for _ in 0..2 {
                done.fetch_add(1, Ordering::Release);
                bell.ring(Symmetric);
            }
        });
        let sleepers = Sleepers::default();
        while work.load(Ordering::Acquire) < 2 {
            let sleepy = sleepers.announce(&word, Symmetric);
            if work.load(Ordering::Acquire) < 2 {
                sleepy.sleep(None);
            } else {
                sleepy.cancel();
            }
        }
        thread.join().unwrap();
    });
}

#[test]
fn door_rules_4_and_5_two_sleepers() {
    check(2, || {
        let word = Arc::new(DoorWord::default());
        let sleepers = Arc::new(Sleepers::default());
        let flags = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let wait = |index: usize,
                    word: Arc<DoorWord>,
                    sleepers: Arc<Sleepers>,
                    flags: Arc<[AtomicU32; 2]>| {
            move || {
                while flags[index].load(Ordering::Acquire) == 0 {
                    let sleepy = sleepers.announce(&word, Symmetric);
                    if flags[index].load(Ordering::Acquire) == 0 {
                        sleepy.sleep(None);
                    }
                }
            }
        };
        let thread = thread::spawn(wait(0, word.clone(), sleepers.clone(), flags.clone()));
        let ringer = {
            let (word, flags) = (word.clone(), flags.clone());
            thread::spawn(move || {
                for flag in flags.iter() {
                    flag.store(1, Ordering::Release);
                    word.ring(Symmetric);
                }
            })
        };
        wait(1, word, sleepers, flags)();
        thread.join().unwrap();
        ringer.join().unwrap();
    });
}

/// The shared state of the threads of a process with a socket. Each thread waits for its own flag;
/// the socket sets the first thread's flag.
struct Plugged {
    word: DoorWord,
    sleepers: Sleepers,
    alarm: Alarm,
    flags: [AtomicU32; 2],
}

impl Plugged {
    fn poll(&self, index: usize) -> bool {
        if self.alarm.take() {
            self.set(0);
        }
        self.flags[index].load(Ordering::Acquire) == 1
    }

    fn set(&self, index: usize) {
        self.flags[index].store(1, Ordering::Release);
        self.word.ring_with(Symmetric, || self.alarm.raise());
    }

    fn wait(&self, index: usize) {
        let mut turn = DoorTurn::default();
        while !self.poll(index) {
            let sleepy = self.sleepers.announce_turn(&self.word, Symmetric, &self.alarm, &mut turn);
            if !self.poll(index) {
                sleepy.sleep(None);
            }
        }
        self.sleepers.end_turn(&self.word, &turn);
    }
}

fn plugged() -> Arc<Plugged> {
    Arc::new(Plugged {
        word: DoorWord::default(),
        sleepers: Sleepers::default(),
        alarm: Alarm::new(),
        flags: [AtomicU32::new(0), AtomicU32::new(0)],
    })
}

#[test]
fn door_rule_6_the_leader_hears_sockets_and_siblings() {
    for by_socket in [true, false] {
        check(3, move || {
            let all = plugged();
            let other = all.clone();
            let thread =
                thread::spawn(move || if by_socket { other.alarm.arrive() } else { other.set(0) });
            all.wait(0);
            thread.join().unwrap();
        });
    }
}

#[test]
fn door_rule_7_somebody_leads_as_long_as_somebody_sleeps() {
    for socket_first in [true, false] {
        check(3, move || {
            let all = plugged();
            let waiters = [0, 1].map(|index| {
                let all = all.clone();
                thread::spawn(move || all.wait(index))
            });
            if socket_first {
                all.alarm.arrive();
                all.set(1);
            } else {
                all.set(1);
                all.alarm.arrive();
            }
            for waiter in waiters {
                waiter.join().unwrap();
            }
        });
    }
}

/// A section of two ranks with the fewest segments.
fn section() -> ControlSection {
    ControlSection::on_heap(2, PoolSegments { count: 2, bytes: 64 }, Symmetric)
}

fn give(place: &ControlSection, rank: u32, step: u64, len: usize, value: u8) {
    place.write(rank, step, len, |to| Bytes::from(&vec![value; len][..]).copy_to(to));
    place.publish(rank, step, Stated::of(len, len <= SHORT_BYTES));
}

/// The first of the `len` bytes of a rank for a step, as soon as it is published.
fn take_byte(place: &ControlSection, rank: u32, step: u64, len: usize) -> u8 {
    while !place.is_published(rank, step) {
        thread::yield_now();
    }
    place.read(rank, step, len, |bytes| bytes.to_vec()[len - 1])
}

#[test]
fn control_section_rules_2_and_3_what_is_published_is_there() {
    /// As [`give`], published as rule 13 says.
    fn give_in_time(place: &ControlSection, rank: u32, step: u64, len: usize, value: u8) {
        place.write(rank, step, len, |to| Bytes::from(&vec![value; len][..]).copy_to(to));
        place.publish_to_other(rank, step, len);
    }
    for (len, give) in
        [(3, give as fn(&ControlSection, u32, u64, usize, u8)), (60, give), (3, give_in_time)]
    {
        check(3, move || {
            let place = section();
            let other = place.clone();
            let thread = thread::spawn(move || {
                give(&other, 1, 1, len, 11);
                assert_eq!(take_byte(&other, 0, 1, len), 10);
            });
            give(&place, 0, 1, len, 10);
            assert_eq!(take_byte(&place, 1, 1, len), 11);
            thread.join().unwrap();
        });
    }
}

#[test]
fn control_section_rule_2_of_two_ranks_each_may_write_over_what_it_has_seen() {
    /// Writes a half, combines the other half in place, and takes the result.
    fn halves(place: &ControlSection, me: u32) {
        let other = 1 - me;
        for first in [1, 3] {
            while first > 2 && place.done_with(other) < first - 2 {
                thread::yield_now();
            }
            place.write_part(me, first, 60, |to| Bytes::from(&[10 + me as u8; 60]).copy_to(to));
            place.publish(me, first, Stated::InPool(60));
            while !place.is_published(other, first) {
                thread::yield_now();
            }
            let seen = place.read_part(other, first, 60, |bytes| bytes.to_vec()[59]);
            place.write_part(other, first, 60, |to| Bytes::from(&[seen + 20; 60]).copy_to(to));
            place.publish(me, first + 1, Stated::Nothing);
            while !place.is_published(other, first + 1) {
                thread::yield_now();
            }
            assert_eq!(place.read_part(me, first, 60, |bytes| bytes.to_vec()[59]), 30 + me as u8);
            place.finish(me, first + 1);
        }
    }
    check(2, || {
        let place = section();
        let other = place.clone();
        let thread = thread::spawn(move || halves(&other, 1));
        halves(&place, 0);
        thread.join().unwrap();
    });
}

#[test]
fn control_section_rule_4_a_segment_is_written_again_when_all_are_done() {
    for len in [3, 60] {
        check(3, move || {
            let place = section();
            let other = place.clone();
            let thread = thread::spawn(move || {
                for step in 1..=3 {
                    assert_eq!(take_byte(&other, 0, step, len), step as u8);
                    other.finish(1, step);
                }
            });
            for step in 1..=3 {
                while step > 2 && place.done_with(1) < step - 2 {
                    thread::yield_now();
                }
                give(&place, 0, step, len, step as u8);
            }
            thread.join().unwrap();
        });
    }
}

#[test]
fn control_section_rule_5_who_begins_is_done_with_all_before() {
    fn collectives(place: &ControlSection, me: u32) {
        for (call, first) in [1, 3].into_iter().enumerate() {
            // The step before the last may be read until the other rank has begun the next.
            give(place, me, first, 60, call as u8);
            assert_eq!(take_byte(place, 1 - me, first, 60), call as u8);
            if call == 0 {
                give(place, me, first + 1, 60, 9);
                assert_eq!(take_byte(place, 1 - me, first + 1, 60), 9);
                while !place.is_published(1 - me, first + 1) {
                    thread::yield_now();
                }
                place.finish(me, first + 1);
                while place.done_with(1 - me) < first {
                    thread::yield_now();
                }
            } else {
                // The other rank has begun at `first`, so it is done with `first - 1`.
                give(place, me, first + 1, 60, 7);
            }
        }
    }
    check(2, || {
        let place = section();
        let other = place.clone();
        let thread = thread::spawn(move || collectives(&other, 1));
        collectives(&place, 0);
        thread.join().unwrap();
    });
}

#[test]
fn control_section_rule_6_a_sleeper_is_woken() {
    check(3, || {
        let place = section();
        let rung = Arc::new(AtomicU32::new(0));
        let (other, bell) = (place.clone(), rung.clone());
        let thread = thread::spawn(move || {
            other.publish(1, 1, Stated::Nothing);
            if other.take_sleepers(1) == 1 {
                bell.store(1, Ordering::Release);
            }
        });
        place.want(1, 0);
        if !place.is_published(1, 1) {
            // The other rank must ring until this rank is awake.
            while rung.load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
            assert!(place.is_published(1, 1));
        }
        thread.join().unwrap();
    });
}

#[test]
fn control_section_rule_7_a_team_begins_after_the_last_step_of_the_one_before() {
    check(3, || {
        let place = section();
        let other = place.clone();
        let thread = thread::spawn(move || {
            assert_eq!(take_byte(&other, 0, 1, 60), 5);
            other.leave(1);
        });
        give(&place, 0, 1, 60, 5);
        place.leave(2);
        while !place.reuse(2) {
            thread::yield_now();
        }
        assert_eq!(place.last_step(), 2);
        // The next team may write at once.
        give(&place, 0, 3, 60, 6);
        thread.join().unwrap();
    });
}

#[test]
fn control_section_rule_14_the_length_comes_with_the_step() {
    for len in [3, 60] {
        check(3, move || {
            let place = section();
            let other = place.clone();
            let thread = thread::spawn(move || give(&other, 1, 1, len, 11));
            let stated = |len| Stated::of(len, len <= SHORT_BYTES);
            assert!(!place.is_published_as(1, 1, stated(len + 1)));
            if place.is_published(1, 1) {
                assert!(place.is_published_as(1, 1, stated(len)));
                assert_eq!(place.stated_length(1, 1), Some(len));
            }
            thread.join().unwrap();
            assert!(place.is_published_as(1, 1, stated(len)));
        });
    }
}

#[test]
fn control_section_rule_15_both_lengths_are_there() {
    check(3, || {
        let place = section();
        let other = place.clone();
        let thread = thread::spawn(move || other.set_apart(8, 32));
        assert!([None, Some((32, 8))].contains(&place.apart()));
        thread.join().unwrap();
        assert_eq!(place.apart(), Some((32, 8)));
        place.leave(1);
        place.leave(1);
        assert!(place.reuse(2) && place.apart().is_none());
    });
}

/// One byte of a message, at the announced address or in a copy: 0 or 1. A receiver that has read
/// it at the announced address has seen `1`, and the sender changes it only when it has taken the
/// message back.
#[test]
fn announcement_rules_2_and_3_a_message_is_read_or_taken_back() {
    check(3, || {
        let area = AnnouncementArea::on_heap();
        let mut sender = AnnouncementSender::new(area.clone());
        let (buffer, copy) = (Arc::new(AtomicU32::new(1)), Arc::new(AtomicU32::new(0)));
        let name = sender.open().expect("all are closed");
        let (there, kept) = (buffer.clone(), copy.clone());
        let thread = thread::spawn(move || {
            let claim = area.claim(name);
            let read = match claim {
                Claim::AsAnnounced => there.load(Ordering::Relaxed),
                Claim::Copy(99) => kept.load(Ordering::Relaxed),
                other => panic!("{other:?}"),
            };
            assert_eq!(read, 1, "{claim:?}");
            claim
        });
        copy.store(1, Ordering::Relaxed);
        let is_kept = sender.keep(name, 99);
        if is_kept {
            buffer.store(7, Ordering::Relaxed);
        }
        assert_eq!(thread.join().unwrap() == Claim::AsAnnounced, !is_kept);
    });
}

/// The sender gives a message of two pieces while the receiver takes the rest: each byte arrives
/// once, in any order of the two.
#[test]
fn announcement_rule_5_each_byte_is_given_or_read() {
    check(3, || {
        let area = AnnouncementArea::on_heap();
        let mut sender = AnnouncementSender::new(area.clone());
        let name = sender.open().expect("all are closed");
        let receiver = thread::spawn(move || {
            let seen = area.is_stopped(name);
            assert!(!seen, "nobody else stops");
            area.take_rest(name)
        });
        let mut given = 0;
        let gives = sender.claim(name) == OwnClaim::InPieces;
        while gives && given < 2 && sender.give(name, given, 1) {
            given += 1;
        }
        assert_eq!(receiver.join().unwrap(), Some(given));
        assert!(!gives || !sender.give(name, given, 1), "the receiver has taken the rest");
        assert!(!sender.keep(name, 98));
    });
}

#[test]
fn announcement_rules_1_and_4_a_closed_entry_is_another_message() {
    check(2, || {
        let area = AnnouncementArea::on_heap();
        let mut sender = AnnouncementSender::new(area.clone());
        let names = [sender.open().unwrap(), sender.open().unwrap()];
        assert!(sender.open().is_none() && names[0] != names[1] && names[0].raw() != 0);
        let reader = area.clone();
        let thread = thread::spawn(move || reader.claim(names[0]));
        assert_eq!(area.claim(names[1]), Claim::AsAnnounced);
        assert_eq!(thread.join().unwrap(), Claim::AsAnnounced);
        sender.close(names[0]);
        sender.close(names[0]);
        let next = sender.open().unwrap();
        assert!(next != names[0] && sender.open().is_none());
        assert_eq!(
            [area.claim(names[0]), area.claim(next), area.claim(next)],
            [Claim::Gone, Claim::AsAnnounced, Claim::Gone]
        );
        assert!(!sender.keep(next, 1) && !sender.keep(names[0], 1));
    });
}

const BOXES: PostboxShape = PostboxShape { ranks: 2, short: 64, pool: 128 };

/// The first byte of the next packet's frame, the first byte of its data, and the length of the
/// data.
fn packet(area: &PostboxArea) -> (u8, u8, usize) {
    let receiver = area.receiver(0, 1);
    loop {
        let seen = match receiver.peek() {
            None => {
                thread::yield_now();
                continue;
            }
            Some(Packet::Frame { frame, first, .. }) => (frame[0], first.to_vec()[0], first.len()),
            Some(Packet::More(part)) => (0, part.to_vec()[0], part.len()),
            Some(Packet::Pooled { frame, row }) => {
                receiver.release();
                let data = area.row(&row).to_vec();
                area.free_row(row);
                return (frame[0], data[0], data.len());
            }
            Some(Packet::Nonsense) => panic!("nobody has posted this"),
        };
        receiver.release();
        return seen;
    }
}

#[test]
fn postbox_rules_1_and_2_a_packet_is_whole_and_not_written_before_it_is_taken() {
    check(3, || {
        let area = PostboxArea::on_heap(BOXES);
        let there = area.clone();
        let thread = thread::spawn(move || {
            let mut sender = there.sender(0, 1);
            let from = [[7u8; 64], [8; 64]];
            sender.post(&[1], 70, |to| Bytes::from(&from[0][..]).copy_to(to));
            while !sender.is_empty() {
                thread::yield_now();
            }
            sender.post_more(6, |to| Bytes::from(&from[1][..6]).copy_to(to));
        });
        assert_eq!(packet(&area), (1, 7, 64));
        assert_eq!(packet(&area), (0, 8, 6));
        thread.join().unwrap();
    });
}

#[test]
fn postbox_rule_3_a_sender_that_waits_is_seen_or_finds_room() {
    check(4, || {
        let area = PostboxArea::on_heap(BOXES);
        let mut sender = area.sender(0, 1);
        sender.post(&[1], 0, |_| ());
        let thread = {
            let area = area.clone();
            thread::spawn(move || area.receiver(0, 1).release())
        };
        let will_be_rung = sender.want_room();
        assert_eq!(thread.join().unwrap(), will_be_rung);
        assert!(sender.is_empty());
    });
}

#[test]
fn postbox_rules_4_to_6_a_row_is_one_processs_until_it_is_free() {
    check(3, || {
        let area = PostboxArea::on_heap(BOXES);
        let there = area.clone();
        let thread = thread::spawn(move || {
            let mut sender = there.sender(0, 1);
            for value in [3u8, 4] {
                let mut row = loop {
                    if let Some(row) = there.try_lock(0).and_then(|lock| lock.allocate(128)) {
                        break row;
                    }
                    thread::yield_now();
                };
                Bytes::from(&[value; 128][..]).copy_to(there.row_mut(&mut row));
                while !sender.is_empty() {
                    thread::yield_now();
                }
                sender.post_pooled(&[value], row);
            }
        });
        assert_eq!(packet(&area), (3, 3, 128));
        assert_eq!(packet(&area), (4, 4, 128));
        thread.join().unwrap();
        assert_eq!(area.taken(), 0);
    });
}

#[test]
fn postbox_rule_4_two_never_get_the_same_block() {
    check(3, || {
        let area = PostboxArea::on_heap(BOXES);
        let take =
            |area: &PostboxArea, place| area.try_lock(place).and_then(|lock| lock.allocate(64));
        let there = area.clone();
        let thread = thread::spawn(move || take(&there, 0));
        let (here, theirs) = (take(&area, 1), thread.join().unwrap());
        assert!(here.is_none() || here != theirs);
        assert!(here.is_some() || theirs.is_some(), "one of them gets the lock");
    });
}

#[test]
fn robust_lock_rule_2_what_is_guarded_is_changed_by_one_at_a_time() {
    check(3, || {
        let (word, count) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU32::new(0)));
        let add = |own: u32, word: &AtomicU64, count: &AtomicU32| {
            let _held = RobustGuard::acquire(word, own, |_| false);
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        };
        let (its_word, its_count) = (word.clone(), count.clone());
        let thread = thread::spawn(move || (0..2).for_each(|_| add(1, &its_word, &its_count)));
        (0..2).for_each(|_| add(0, &word, &count));
        thread.join().unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 4);
    });
}

#[test]
fn robust_lock_rule_4_one_has_the_lock_of_the_dead() {
    check(3, || {
        let (word, count) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU32::new(0)));
        let is_dead = Arc::new(AtomicBool::new(false));
        let add = |own: u32, word: &AtomicU64, count: &AtomicU32, is_dead: &AtomicBool| {
            let _held = RobustGuard::acquire(word, own, |owner| {
                owner == 2 && is_dead.load(Ordering::Acquire)
            });
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        };
        std::mem::forget(RobustGuard::acquire(&word, 2, |_| false));
        let (its_word, its_count, its_death) = (word.clone(), count.clone(), is_dead.clone());
        let thread = thread::spawn(move || add(1, &its_word, &its_count, &its_death));
        is_dead.store(true, Ordering::Release);
        add(0, &word, &count, &is_dead);
        thread.join().unwrap();
        assert_eq!((count.load(Ordering::Relaxed), word.load(Ordering::Relaxed)), (2, 0));
    });
}

/// An origin and a target with one mailbox, and the data of a request in a buffer.
#[derive(Clone)]
struct Mailbox {
    lines: Arc2<[oxmpi_sys::line::Line]>,
    buffer: Arc<loom::cell::UnsafeCell<u64>>,
}

type Arc2<T> = std::sync::Arc<T>;

// SAFETY: the model checker reports races on the buffer.
unsafe impl Send for Mailbox {}

impl Mailbox {
    fn new() -> Mailbox {
        Mailbox {
            lines: oxmpi_sys::line::heap_lines(2),
            buffer: Arc::new(loom::cell::UnsafeCell::new(0)),
        }
    }

    fn boxes(&self) -> Mailboxes<'_, Arc2<[oxmpi_sys::line::Line]>> {
        Mailboxes::new(&self.lines, 0)
    }

    fn post(&self, number: u64, may_be_withdrawn: bool) {
        // SAFETY: the model checker reports another access.
        self.buffer.with_mut(|data| unsafe { *data = 10 * number });
        let data = [number; 4];
        self.boxes().post(
            0,
            number,
            &MailboxRequest { what: number, may_be_withdrawn, at: 1, len: 8, data },
        );
    }

    /// Serves a posted request: returns its number, and whether it was carried out. The answer is
    /// the old content of the buffer.
    fn serve(&self, seen: u64) -> Option<(u64, bool)> {
        let (number, request) = self.boxes().take(0, seen)?;
        if let Some(request) = request {
            assert_eq!((request.what, request.data), (number, [number; 4]));
            // SAFETY: as above.
            let found = self
                .buffer
                .with_mut(|data| unsafe { std::mem::replace(&mut *data, 10 * number + 1) });
            assert_eq!(found, 10 * number);
            self.boxes().answer(0, number, &Answer { status: number, data: [found; 4] });
        }
        Some((number, request.is_some()))
    }

    fn wait(&self, number: u64) {
        loop {
            if let Some(answer) = self.boxes().answered(0, number) {
                assert_eq!((answer.status, answer.data), (number, [10 * number; 4]));
                // SAFETY: as above.
                assert_eq!(self.buffer.with(|data| unsafe { *data }), 10 * number + 1);
                return;
            }
            thread::yield_now();
        }
    }
}

#[test]
fn mailbox_rules_1_to_3_requests_and_their_data_go_over_and_back() {
    check(3, || {
        let mailbox = Mailbox::new();
        let there = mailbox.clone();
        let target = thread::spawn(move || {
            let mut seen = 0;
            while seen < 2 {
                match there.serve(seen) {
                    Some((number, done)) => {
                        assert!(done && number == seen + 1);
                        seen = number;
                    }
                    None => thread::yield_now(),
                }
            }
        });
        for number in 1..=2 {
            mailbox.post(number, false);
            mailbox.wait(number);
        }
        target.join().unwrap();
    });
}

#[test]
fn mailbox_rule_4_either_the_target_or_the_origin_has_a_request() {
    check(3, || {
        let mailbox = Mailbox::new();
        let there = mailbox.clone();
        let target = thread::spawn(move || {
            let (mut seen, mut first_done) = (0, false);
            while seen < 2 {
                match there.serve(seen) {
                    Some((number, done)) => {
                        first_done |= number == 1 && done;
                        assert!(number == 1 || done);
                        seen = number;
                    }
                    None => thread::yield_now(),
                }
            }
            first_done
        });
        mailbox.post(1, true);
        let withdrawn = mailbox.boxes().withdraw(0, 1);
        if !withdrawn {
            mailbox.wait(1);
        }
        mailbox.post(2, false);
        mailbox.wait(2);
        assert_ne!(target.join().unwrap(), withdrawn);
    });
}
