//! Ring, pool, inbox and door between threads over a real segment. Bounded by numbers of messages,
//! and by a guard that turns a hang into a failure. `OXMPI_STRESS_TIMES=n` does n times as much.
#![cfg(not(loom))]

use oxmpi_shm::{
    door::{Bell, Door, Next, Policy},
    inbox::{CELL_PAYLOAD, InboxReceiver, InboxSender},
    pool::{Pool, PoolArea, PoolShape, PoolView},
    ring::{INLINE_MAX, Pooling, RingArea, RingReceiver, RingSender, RingShape, RingSlot},
    segment::{Boot, RankState, Segment, SegmentConfig, SegmentError},
};
use oxmpi_sys::{
    barrier::BarrierKind,
    bytes::{Bytes, BytesMut, CopyKind},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::RecvTimeoutError,
    },
    thread,
    time::Duration,
};

fn boot(asymmetric: bool, oversubscribed: bool, config: SegmentConfig) -> Boot {
    Boot {
        job_id: 9,
        rank: 3,
        base: 0,
        size: 8,
        local_rank: 1,
        local_size: 2,
        app: 1,
        oversubscribed,
        asymmetric,
        sockets: false,
        node: None,
        config,
    }
}

fn segment(boot: Boot) -> Arc<Segment> {
    Segment::map(Segment::create(&boot).expect("a segment")).expect("a mapping")
}

/// Multiplies the number of messages.
fn times() -> u32 {
    let text = std::env::var("OXMPI_STRESS_TIMES").unwrap_or("1".into());
    text.parse().unwrap_or_else(|_| panic!("OXMPI_STRESS_TIMES is {text:?}, it must be a number"))
}

/// Aborts the test program if a test makes no progress for a minute, until the value is dropped.
struct Guard {
    progress: Progress,
    /// Its end is noticed by the guarding thread.
    _end: std::sync::mpsc::Sender<()>,
}

/// The number of messages of a test that have arrived.
#[derive(Clone, Default)]
struct Progress(Arc<AtomicU64>);

impl Progress {
    fn note(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn guard() -> Guard {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let progress = Progress::default();
    let arrived = progress.clone();
    thread::spawn(move || {
        let mut before = None;
        while ended.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout) {
            let now = Some(arrived.0.load(Ordering::Relaxed));
            if now == before {
                eprintln!("a test hangs");
                std::process::abort();
            }
            before = now;
        }
    });
    Guard { progress, _end: end }
}

/// Xorshift: the same numbers in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn byte(number: usize, at: usize) -> u8 {
    (number.wrapping_mul(31) + at * 7 + at / 256) as u8
}

#[test]
fn a_ring_carries_all_lengths_in_order() {
    let guard = guard();
    let config = SegmentConfig { ring_slots: 32, ..SegmentConfig::default() };
    let segment = segment(boot(false, false, config));
    let door = Door::new(segment.clone(), Policy::new(true));
    let (mut sender, mut receiver) = (
        RingSender::new(segment.ring(2, door.kind())),
        RingReceiver::new(segment.ring(2, door.kind())),
    );
    let once = || {
        (0..=16384usize)
            .map(|i| (i * 4099) % 16385)
            .chain(0..=200)
            .chain([16384; 40])
            .chain((0..3000).map(|i| i * i % 41))
    };
    let lengths = move || (0..times()).flat_map(move |_| once());
    let thread = thread::spawn(move || {
        for (number, len) in lengths().enumerate() {
            let bytes: Vec<u8> = (0..len).map(|at| byte(number, at)).collect();
            let (tag, context) = (-(number as i32), number as u16);
            while !match len {
                7 => sender.try_send_frame(Bytes::from(&bytes[..])),
                ..=INLINE_MAX => sender.try_send_inline(tag, context, Bytes::from(&bytes[..])),
                _ => sender.try_send_data(tag, context, len, |at, chunk| {
                    Bytes::from(&bytes[at..at + chunk.len()]).copy_to(chunk);
                }),
            } {
                thread::yield_now();
            }
        }
    });
    let mut message = vec![0; 16384];
    for (number, len) in lengths().enumerate() {
        let mut have = 0;
        loop {
            let (is_right, bytes, total) = match receiver.peek() {
                None => {
                    thread::yield_now();
                    continue;
                }
                Some(RingSlot::Inline { tag, context, bytes }) => (
                    tag == -(number as i32) && context == number as u16 && len != 7,
                    bytes,
                    bytes.len(),
                ),
                Some(RingSlot::Chunk { tag, context, total, offset, bytes, .. }) => (
                    tag == -(number as i32) && context == number as u16 && offset == have,
                    bytes,
                    total,
                ),
                Some(RingSlot::Frame { bytes, .. }) => (len == 7, bytes, bytes.len()),
            };
            assert!(is_right && total == len, "message {number} of {len} bytes");
            bytes.copy_to(BytesMut::from(&mut message[have..have + bytes.len()]));
            have += bytes.len();
            receiver.release();
            if have == total {
                break;
            }
        }
        for (at, found) in message[..len].iter().enumerate() {
            assert_eq!(*found, byte(number, at), "byte {at} of message {number}, {len} bytes long");
        }
        guard.progress.note();
    }
    assert!(receiver.peek().is_none());
    thread.join().unwrap();
}

#[test]
fn a_ring_refuses_what_has_no_room_and_recovers() {
    let config = SegmentConfig {
        ring_slots: 16,
        ring_data_bytes: 4096,
        ring_chunk_bytes: 512,
        ..Default::default()
    };
    let segment = segment(boot(false, false, config));
    let kind = Door::new(segment.clone(), Policy::new(true)).kind();
    let area = segment.ring(0, kind);
    let (mut sender, mut receiver) =
        (RingSender::new(area.clone()), RingReceiver::new(area.clone()));
    assert_eq!(sender.max_data(), 2048);
    let mut sent = 0;
    while sender.room_for(2048) {
        assert!(sender.try_send_data(1, 1, 2048, |_, _| {}));
        sent += 1;
    }
    assert_eq!(sent, 2);
    assert!(!sender.try_send_data(1, 1, 57, |_, _| panic!("there is no room")));
    assert!(sender.room_for(8), "slots are left");
    while sender.try_send_inline(2, 2, Bytes::from(b"x")) {
        sent += 1;
    }
    assert_eq!(sent, 10);
    assert!(!sender.want_credits());
    let mut rings = 0;
    while receiver.peek().is_some() {
        rings += u32::from(receiver.release());
    }
    assert!(receiver.peek_expected(0, 0, 0).is_none());
    assert!(rings == 1 && sender.want_credits() && sender.room_for(2048));
    area.reset();
    assert!(RingReceiver::new(area.clone()).peek().is_none());
    assert!(RingSender::new(area).try_send_inline(0, 0, Bytes::empty()));
}

/// Lengths, each with the protocol that the sender tries first.
fn lengths_and_protocols(receiver: u32, longest: usize) -> impl Iterator<Item = (usize, u64)> {
    let mut numbers = Numbers(u64::from(receiver) * 77 + 5);
    (0..6_000).map(move |_| {
        let shift = numbers.next() % 16;
        ((numbers.next() as usize >> shift) % (longest + 1), numbers.next() % 4)
    })
}

/// Takes one message with its frame, if it has one; returns its number and its length.
fn take_message(receiver: &mut RingReceiver, message: &mut [u8]) -> (i32, usize) {
    let (mut have, mut frame) = (0, None);
    loop {
        let (tag, bytes, total) = match receiver.peek() {
            None => {
                thread::yield_now();
                continue;
            }
            Some(RingSlot::Frame { bytes, body_len }) => {
                frame = Some(i32::from_ne_bytes(bytes.to_vec().try_into().expect("four bytes")));
                assert!(have == 0 && body_len > 0);
                receiver.release();
                continue;
            }
            Some(RingSlot::Inline { tag, bytes, .. }) => (tag, bytes, bytes.len()),
            Some(RingSlot::Chunk { tag, total, offset, bytes, context }) => {
                assert!(offset == have && (frame.is_none() || (tag == 0 && context == 0)));
                (tag, bytes, total)
            }
        };
        bytes.copy_to(BytesMut::from(&mut message[have..have + bytes.len()]));
        have += bytes.len();
        receiver.release();
        if have == total {
            return (frame.unwrap_or(tag), total);
        }
    }
}

#[test]
fn a_pool_serves_two_receivers_by_all_protocols() {
    serves_two_receivers(64 << 10, 4 << 10);
}

#[test]
fn a_pool_of_larger_blocks_does_so_too() {
    serves_two_receivers(256 << 10, 16 << 10);
}

/// A pool of `pool_bytes` bytes, whose owner sends messages of up to 32 KiB to two others.
fn serves_two_receivers(pool_bytes: u32, pool_block_bytes: u32) {
    let guard = guard();
    let config = SegmentConfig {
        ring_slots: 32,
        ring_data_bytes: 16 << 10,
        ring_chunk_bytes: 1 << 10,
        pool_bytes,
        pool_block_bytes,
        ..Default::default()
    };
    let segments = [0, 1, 2].map(|_| segment(boot(false, false, config)));
    let kind = BarrierKind::Symmetric;
    let longest = 32 << 10;
    let most = RingSender::new(segments[1].ring(0, kind)).max_pooled(&config.pool_shape());
    assert_eq!(most, pool_bytes as usize / 2, "half of the pool");
    let threads = [1, 2].map(|me| {
        let progress = guard.progress.clone();
        let mut receiver = RingReceiver::new(segments[me as usize].ring(0, kind));
        receiver.set_pool(PoolView::new(segments[0].pool().expect("it has one")));
        thread::spawn(move || {
            let mut message = vec![0; longest];
            for (number, (len, _)) in lengths_and_protocols(me, longest).enumerate() {
                assert_eq!(take_message(&mut receiver, &mut message), (number as i32, len));
                let wrong = message[..len]
                    .iter()
                    .enumerate()
                    .find(|&(at, found)| *found != byte(number, at));
                assert_eq!(wrong, None, "message {number}, {len} bytes long");
                progress.note();
            }
            assert!(receiver.peek().is_none());
        })
    });
    let mut pool = Pool::new(segments[0].pool().expect("it has one"));
    let mut senders = [1, 2].map(|to| RingSender::new(segments[to].ring(0, kind)));
    let all = [1, 2].map(|to| lengths_and_protocols(to, longest));
    let [first, second] = all;
    let (mut streamed, mut pooled) = (0, 0);
    for (number, both) in first.zip(second).enumerate() {
        for (to, (len, protocol)) in [both.0, both.1].into_iter().enumerate() {
            let bytes: Vec<u8> = (0..len).map(|at| byte(number, at)).collect();
            let bytes = Bytes::from(&bytes[..]);
            let (tag, sender) = (number as i32, &mut senders[to]);
            let frame = tag.to_ne_bytes();
            let by_ring = |sender: &mut RingSender, protocol| match protocol {
                _ if len > sender.max_data() => false,
                0 => sender.try_send_frame_with_body(
                    Bytes::from(&frame),
                    len,
                    None,
                    |at, chunk, kind| {
                        bytes.slice(at, chunk.len()).copy_by(kind, chunk);
                    },
                ),
                _ if len <= INLINE_MAX => sender.try_send_inline(tag, 3, bytes),
                _ => sender.try_send_data(tag, 3, len, |at, chunk| {
                    bytes.slice(at, chunk.len()).copy_to(chunk);
                }),
            };
            // A frame with an empty body has no body.
            let protocol = if len == 0 { protocol | 1 } else { protocol };
            while !match protocol {
                0 | 1 if len <= sender.max_data() => by_ring(sender, protocol),
                _ => {
                    let fill = |at, piece: BytesMut<'_>, kind| {
                        streamed += u32::from(kind == CopyKind::Streaming);
                        pooled += 1;
                        bytes.slice(at, piece.len()).copy_by(kind, piece);
                    };
                    let kind = [CopyKind::Plain, CopyKind::Streaming][number % 2];
                    let piece_bytes = [1, 5000, 16 << 10][number % 3];
                    let pooling = Pooling { pool: &mut pool, to: to as u32, kind, piece_bytes };
                    let gone = if protocol == 0 || protocol == 2 {
                        sender.try_send_frame_with_body(
                            Bytes::from(&frame),
                            len,
                            Some(pooling),
                            fill,
                        )
                    } else {
                        sender.try_send_pooled(tag, 3, len, pooling, fill)
                    };
                    gone || by_ring(sender, 1)
                }
            } {
                thread::yield_now();
            }
        }
    }
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert_eq!(pool.free_bytes(), pool_bytes as usize, "all blocks have come back");
    assert!(
        streamed > 1000 && pooled - streamed > 1000,
        "{streamed} of {pooled} pieces were streamed"
    );
}

/// A ring on which a message was sent through a pool of blocks of 8192 bytes.
fn ring_with_pooled() -> RingReceiver {
    let mut pool = Pool::new(PoolArea::on_heap(PoolShape { bytes: 32768, block_bytes: 8192 }));
    let shape = RingShape { slots: 16, data_bytes: 1024, chunk_bytes: 64 };
    let area = RingArea::on_heap(shape, BarrierKind::Symmetric);
    let pooling = Pooling { pool: &mut pool, to: 1, kind: CopyKind::Plain, piece_bytes: 8192 };
    assert!(RingSender::new(area.clone()).try_send_pooled(1, 1, 8192, pooling, |_, _, _| ()));
    RingReceiver::new(area)
}

#[test]
#[should_panic(expected = "broken ring: 8192 bytes in a pool that the receiver does not know")]
fn a_pool_that_is_not_known_is_an_error() {
    ring_with_pooled().peek();
}

#[test]
#[should_panic(expected = "broken ring: a chunk of 8192 bytes at 0 of a pool")]
fn bytes_outside_of_the_pool_are_an_error() {
    let mut receiver = ring_with_pooled();
    let smaller = PoolArea::on_heap(PoolShape { bytes: 4096, block_bytes: 1024 });
    receiver.set_pool(PoolView::new(smaller));
    receiver.peek();
}

#[test]
fn an_inbox_takes_frames_of_four_producers() {
    let guard = guard();
    let each = 50_000 * times();
    let segment =
        segment(boot(false, false, SegmentConfig { inbox_cells: 8, ..Default::default() }));
    let threads: Vec<_> = (0..4u32)
        .map(|producer| {
            let mut sender = InboxSender::new(segment.inbox());
            thread::spawn(move || {
                for number in 0..each {
                    let len = 4 + number as usize % (CELL_PAYLOAD - 3);
                    let fill = |mut cell: BytesMut<'_>| {
                        Bytes::from(&number.to_ne_bytes()).copy_to(cell.slice(0, 4));
                        Bytes::from(&vec![producer as u8; len - 4][..])
                            .copy_to(cell.slice(4, len - 4));
                    };
                    while !sender.try_send(producer, len, fill) {
                        thread::yield_now();
                    }
                }
            })
        })
        .collect();
    let mut receiver = InboxReceiver::new(segment.inbox());
    let mut next = [0u32; 4];
    while next != [each; 4] {
        let Some(cell) = receiver.peek() else {
            thread::yield_now();
            continue;
        };
        let (bytes, number) = (cell.bytes.to_vec(), &mut next[cell.producer as usize]);
        assert_eq!(bytes.len(), 4 + *number as usize % (CELL_PAYLOAD - 3));
        assert_eq!(bytes[..4], number.to_ne_bytes());
        assert!(bytes[4..].iter().all(|&byte| u32::from(byte) == cell.producer));
        *number += 1;
        receiver.release();
        guard.progress.note();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(receiver.peek().is_none() && receiver.claimed_by().is_none());
}

/// Two ranks play ping-pong with pauses of random length, so that a ring meets each poll, yield and
/// sleep at every moment. No sleep has a time limit: a lost ring is a hang.
fn door_stress(asymmetric: bool, policy: Policy) {
    let guard = guard();
    let segments =
        [0, 1].map(|_| segment(boot(asymmetric, policy.oversubscribed, SegmentConfig::default())));
    let threads = [0, 1].map(|me| {
        let (mine, peer) = (segments[me].clone(), segments[1 - me].clone());
        let progress = guard.progress.clone();
        thread::spawn(move || {
            let door = Door::new(mine.clone(), policy);
            let bell = Bell::new(&peer, door.kind());
            let mut sender = RingSender::new(peer.ring(0, door.kind()));
            let mut receiver = RingReceiver::new(mine.ring(0, door.kind()));
            let mut numbers = Numbers(7 + me as u64);
            let (mut slept, mut count, mut sent) = (0u32, 0u64, 0u64);
            for turn in 0..20_000 * times() as usize {
                if turn % 2 == me {
                    for _ in 0..numbers.next() % 2000 {
                        std::hint::spin_loop();
                    }
                    let gone =
                        sender.try_send_inline(turn as i32, 0, Bytes::from(&sent.to_ne_bytes()));
                    assert!(gone);
                    sent += 1;
                    bell.ring();
                } else {
                    let mut poll = || receiver.peek().is_some();
                    let mut wait = door.begin();
                    while !poll() {
                        match wait.next() {
                            Next::Poll => {}
                            Next::Sleep(sleepy) if poll() => {
                                sleepy.cancel();
                                break;
                            }
                            Next::Sleep(sleepy) => {
                                sleepy.sleep(None);
                                slept += 1;
                            }
                        }
                    }
                    let (tag, bytes) = receiver.peek_expected(0, 0, 0).expect("it was seen");
                    assert_eq!((tag, bytes.to_vec()), (turn as i32, count.to_ne_bytes().to_vec()));
                    assert!(!receiver.release());
                    count += 1;
                    progress.note();
                }
            }
            slept
        })
    });
    let slept: u32 = threads.map(|thread| thread.join().expect("no panic")).iter().sum();
    println!("{slept} sleeps");
}

#[test]
fn no_ring_is_lost_asymmetric() {
    door_stress(true, Policy { spin_ns: 2_000, yield_ns: 3_000, ..Policy::new(false) });
}

#[test]
fn no_ring_is_lost_symmetric() {
    door_stress(false, Policy { spin_ns: 0, yield_ns: 0, ..Policy::new(false) });
}

#[test]
fn no_ring_is_lost_oversubscribed() {
    door_stress(
        false,
        Policy {
            yields_before_sleep: 2,
            slow_yield_ns: 2_000,
            sleeping_waits: 5,
            ..Policy::new(true)
        },
    );
}

#[test]
fn a_sleep_ends_with_its_time_limit_or_a_sibling() {
    let _guard = guard();
    let door = Arc::new(Door::new(
        segment(boot(true, false, SegmentConfig::default())),
        Policy::new(false),
    ));
    let sleep = |door: &Door, limit| {
        let mut wait = door.begin();
        loop {
            if let Next::Sleep(sleepy) = wait.next() {
                return sleepy.sleep(limit);
            }
        }
    };
    sleep(&door, Some(Duration::from_millis(1)));
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let threads = [0, 1, 2].map(|_| {
        let (door, done) = (door.clone(), done.clone());
        thread::spawn(move || {
            while !done.load(Ordering::Acquire) {
                let mut wait = door.begin();
                while let Next::Poll = wait.next() {}
                let Next::Sleep(sleepy) = wait.next() else { continue };
                if !done.load(Ordering::Acquire) {
                    sleepy.sleep(None);
                }
            }
        })
    });
    thread::sleep(Duration::from_millis(20));
    done.store(true, Ordering::Release);
    door.ring_own();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_segment_tells_what_it_was_made_with() {
    let boot = boot(true, true, SegmentConfig { max_rings: 3, ..SegmentConfig::default() });
    let fd = Segment::create(&boot).unwrap();
    let segment = Segment::map(&fd).unwrap();
    assert_eq!(segment.boot(), &boot);
    let status = Segment::map(&fd).unwrap();
    let (status, other) = (status.status(), segment.status());
    assert!(status.pid().is_none() && status.state() == RankState::Created);
    assert_eq!((status.claim(12), other.claim(13)), (Ok(()), Err(12)));
    other.set_last_call(77);
    other.set_state(RankState::Finalized);
    assert_eq!(
        (status.pid(), status.state(), status.last_call()),
        (Some(12), RankState::Finalized, 77)
    );
    assert!(!segment.is_registered());
}

#[test]
fn what_is_no_segment_is_refused_with_its_values() {
    let config = SegmentConfig { ring_slots: 100, ..SegmentConfig::default() };
    let error = Segment::create(&boot(false, false, config)).unwrap_err();
    assert!(error.to_string().contains("100 slots"), "{error}");

    let refused = |fd: &std::os::fd::OwnedFd| Segment::map(fd).unwrap_err();
    let empty = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    assert!(matches!(refused(&empty), SegmentError::NoSegment { bytes: 0, magic: 0 }));

    let fd = Segment::create(&boot(false, false, SegmentConfig::default())).unwrap();
    rustix::io::pwrite(&fd, &99u32.to_ne_bytes(), 8).unwrap();
    assert!(matches!(refused(&fd), SegmentError::Version { found: 99 }));

    let fd = Segment::create(&boot(false, false, SegmentConfig::default())).unwrap();
    rustix::io::pwrite(&fd, &500u32.to_ne_bytes(), 80).unwrap();
    let error = refused(&fd).to_string();
    assert!(error.contains("rank 3"), "{error}");

    let config = SegmentConfig { pool_bytes: 12345, ..SegmentConfig::default() };
    let error = Segment::create(&boot(false, false, config)).unwrap_err();
    assert!(error.to_string().contains("a pool of 12345 bytes"), "{error}");
    assert!(
        segment(boot(false, false, SegmentConfig { pool_bytes: 0, ..config })).pool().is_none()
    );
}
