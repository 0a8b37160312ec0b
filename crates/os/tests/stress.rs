//! Ring, inbox and door between threads over a real segment. Bounded by numbers of messages, and by a guard that
//! turns a hang into a failure.
#![cfg(not(loom))]

use oxmpi_os::{
    bytes::{Bytes, BytesMut},
    door::{Bell, Door, Next, Policy},
    inbox::{CELL_PAYLOAD, InboxReceiver, InboxSender},
    ring::{INLINE_MAX, RingReceiver, RingSender, Slot},
    segment::{Boot, RankState, Segment, SegmentConfig, SegmentError},
};
use std::{sync::Arc, thread, time::Duration};

fn boot(asymmetric: bool, oversubscribed: bool, config: SegmentConfig) -> Boot {
    Boot { job_id: 9, rank: 3, size: 8, local_rank: 1, local_size: 2, oversubscribed, asymmetric, config }
}

fn segment(boot: Boot) -> Arc<Segment> {
    Segment::map(Segment::create(&boot).expect("a segment")).expect("a mapping")
}

/// Aborts the test program if `self` is not dropped within a minute.
struct Guard(Option<std::sync::mpsc::Sender<()>>);

fn guard() -> Guard {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    thread::spawn(move || {
        if receiver.recv_timeout(Duration::from_secs(60)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            eprintln!("a test hangs");
            std::process::abort();
        }
    });
    Guard(Some(sender))
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.take();
    }
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

/// What byte `at` of message `number` must be.
fn byte(number: usize, at: usize) -> u8 {
    (number.wrapping_mul(31) + at * 7 + at / 256) as u8
}

#[test]
fn a_ring_carries_all_lengths_in_order() {
    let _guard = guard();
    let config = SegmentConfig { ring_slots: 32, ..SegmentConfig::default() };
    let segment = segment(boot(false, false, config));
    let door = Door::new(segment.clone(), Policy::new(true));
    let (mut sender, mut receiver) =
        (RingSender::new(segment.ring(2, door.kind())), RingReceiver::new(segment.ring(2, door.kind())));
    let lengths = || (0..=16384usize).map(|i| (i * 4099) % 16385).chain(0..=200).chain([16384; 40]);
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
                Some(Slot::Inline { tag, context, bytes }) => {
                    (tag == -(number as i32) && context == number as u16 && len != 7, bytes, bytes.len())
                }
                Some(Slot::Chunk { tag, context, total, offset, bytes }) => {
                    (tag == -(number as i32) && context == number as u16 && offset == have, bytes, total)
                }
                Some(Slot::Frame { bytes }) => (len == 7, bytes, bytes.len()),
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
    }
    assert!(receiver.peek().is_none());
    thread.join().unwrap();
}

#[test]
fn a_ring_refuses_what_has_no_room_and_recovers() {
    let config =
        SegmentConfig { ring_slots: 16, ring_data_bytes: 4096, ring_chunk_bytes: 512, ..Default::default() };
    let segment = segment(boot(false, false, config));
    let kind = Door::new(segment.clone(), Policy::new(true)).kind();
    let area = segment.ring(0, kind);
    let (mut sender, mut receiver) = (RingSender::new(area.clone()), RingReceiver::new(area.clone()));
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
    assert!(receiver.peek_inline().is_none());
    assert!(rings == 1 && sender.want_credits() && sender.room_for(2048));
    area.reset();
    assert!(RingReceiver::new(area.clone()).peek().is_none());
    assert!(RingSender::new(area).try_send_inline(0, 0, Bytes::empty()));
}

#[test]
fn an_inbox_takes_frames_of_four_producers() {
    let _guard = guard();
    const EACH: u32 = 50_000;
    let segment = segment(boot(false, false, SegmentConfig { inbox_cells: 8, ..Default::default() }));
    let threads: Vec<_> = (0..4u32)
        .map(|producer| {
            let mut sender = InboxSender::new(segment.inbox());
            thread::spawn(move || {
                for number in 0..EACH {
                    let len = 4 + number as usize % (CELL_PAYLOAD - 3);
                    let fill = |mut cell: BytesMut<'_>| {
                        Bytes::from(&number.to_ne_bytes()).copy_to(cell.slice(0, 4));
                        Bytes::from(&vec![producer as u8; len - 4][..]).copy_to(cell.slice(4, len - 4));
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
    while next != [EACH; 4] {
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
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(receiver.peek().is_none() && receiver.claimed_by().is_none());
}

/// Two ranks play ping-pong with pauses of random length, so that each look, yield and sleep is met by a ring at
/// every moment. No sleep has a time limit: a lost ring is a hang.
fn door_stress(asymmetric: bool, policy: Policy) {
    let _guard = guard();
    let segments = [0, 1].map(|_| segment(boot(asymmetric, policy.oversubscribed, SegmentConfig::default())));
    let threads = [0, 1].map(|me| {
        let (mine, peer) = (segments[me].clone(), segments[1 - me].clone());
        thread::spawn(move || {
            let door = Door::new(mine.clone(), policy);
            let bell = Bell::new(&peer, door.kind());
            let mut sender = RingSender::new(peer.ring(0, door.kind()));
            let mut receiver = RingReceiver::new(mine.ring(0, door.kind()));
            let mut numbers = Numbers(7 + me as u64);
            let (mut slept, mut count, mut sent) = (0u32, 0u64, 0u64);
            for turn in 0..20_000 {
                if turn % 2 == me {
                    for _ in 0..numbers.next() % 2000 {
                        std::hint::spin_loop();
                    }
                    assert!(sender.try_send_inline(turn as i32, 0, Bytes::from(&sent.to_ne_bytes())));
                    sent += 1;
                    bell.ring();
                } else {
                    let mut poll = || receiver.peek().is_some();
                    let mut wait = door.begin();
                    while !poll() {
                        match wait.next() {
                            Next::Look => {}
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
                    let (tag, _, bytes) = receiver.peek_inline().expect("it was seen");
                    assert_eq!((tag, bytes.to_vec()), (turn as i32, count.to_ne_bytes().to_vec()));
                    assert!(!receiver.release());
                    count += 1;
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
        Policy { yields_before_sleep: 2, slow_yield_ns: 2_000, sleeping_waits: 5, ..Policy::new(true) },
    );
}

#[test]
fn a_sleep_ends_with_its_time_limit_or_a_sibling() {
    let _guard = guard();
    let door = Arc::new(Door::new(segment(boot(true, false, SegmentConfig::default())), Policy::new(false)));
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
            while !done.load(std::sync::atomic::Ordering::Acquire) {
                let mut wait = door.begin();
                while let Next::Look = wait.next() {}
                let Next::Sleep(sleepy) = wait.next() else { continue };
                if !done.load(std::sync::atomic::Ordering::Acquire) {
                    sleepy.sleep(None);
                }
            }
        })
    });
    thread::sleep(Duration::from_millis(20));
    done.store(true, std::sync::atomic::Ordering::Release);
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
    assert_eq!((status.pid(), status.state(), status.last_call()), (Some(12), RankState::Finalized, 77));
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
    rustix::io::pwrite(&fd, &5u32.to_ne_bytes(), 72).unwrap();
    let error = refused(&fd).to_string();
    assert!(error.contains("rank 3"), "{error}");
}
