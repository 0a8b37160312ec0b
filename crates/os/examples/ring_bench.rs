//! What the pair ring, the door and the lock cost here: two threads on processors 0 and 1, over a segment.
//!
//! `cargo run -p oxmpi-os --release --example ring_bench`

use oxmpi_os::{
    barrier::{self, BarrierKind},
    bytes::{Bytes, BytesMut},
    clock, cpus,
    door::{Bell, Door, Next, Policy},
    lock::LaneLock,
    ring::{INLINE_MAX, RingReceiver, RingSender, Slot},
    segment::{Boot, Segment, SegmentConfig},
};
use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

const BATCHES: usize = 31;

struct Side {
    sender: RingSender,
    receiver: RingReceiver,
    door: Door,
    bell: Bell,
}

fn sides(asymmetric: bool) -> [Side; 2] {
    let segments = [0, 1].map(|rank| {
        let config = SegmentConfig::default();
        let boot = Boot {
            job_id: 1,
            rank,
            size: 2,
            local_rank: rank,
            local_size: 2,
            oversubscribed: false,
            asymmetric,
            config,
        };
        Segment::map(Segment::create(&boot).expect("a segment")).expect("a mapping")
    });
    [0, 1].map(|me| {
        let (mine, peers): (&Arc<Segment>, _) = (&segments[me], &segments[1 - me]);
        let door = Door::new(mine.clone(), Policy::new(false));
        let kind = door.kind();
        Side {
            sender: RingSender::new(peers.ring(0, kind)),
            receiver: RingReceiver::new(mine.ring(0, kind)),
            bell: Bell::new(peers, kind),
            door,
        }
    })
}

impl Side {
    #[inline]
    fn send(&mut self, bytes: &[u8]) {
        let bytes = Bytes::from(bytes);
        while !if bytes.len() <= INLINE_MAX {
            self.sender.try_send_inline(5, 1, bytes)
        } else {
            self.sender
                .try_send_data(5, 1, bytes.len(), |at, chunk| bytes.slice(at, chunk.len()).copy_to(chunk))
        } {
            std::hint::spin_loop();
        }
        self.bell.ring();
    }

    /// Takes one whole message.
    #[inline]
    fn receive(&mut self, to: &mut [u8]) {
        let mut wait = self.door.begin();
        loop {
            let done = match self.receiver.peek() {
                None => {
                    match wait.next() {
                        Next::Look => {}
                        Next::Sleep(sleepy) => sleepy.cancel(),
                    }
                    continue;
                }
                Some(Slot::Inline { tag, context, bytes }) => {
                    assert!(tag == 5 && context == 1);
                    bytes.copy_to(BytesMut::from(&mut to[..bytes.len()]));
                    true
                }
                Some(Slot::Chunk { total, offset, bytes, .. }) => {
                    bytes.copy_to(BytesMut::from(&mut to[offset..offset + bytes.len()]));
                    offset + bytes.len() == total
                }
                Some(Slot::Frame { .. }) => unreachable!("nobody sends frames"),
            };
            self.receiver.release();
            if done {
                return;
            }
        }
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Runs `body(side, which)` on two bound threads; the figure of the first.
fn on_both(asymmetric: bool, body: impl Fn(&mut Side, usize) -> f64 + Send + Sync + Copy + 'static) -> f64 {
    let threads: Vec<_> = sides(asymmetric)
        .into_iter()
        .enumerate()
        .map(|(which, mut side)| {
            thread::spawn(move || {
                let _ = cpus::set_cpu(which);
                body(&mut side, which)
            })
        })
        .collect();
    let figures: Vec<f64> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
    figures[0]
}

fn ping_pong(asymmetric: bool, len: usize) -> f64 {
    let rounds = if len <= 1024 { 20_000 } else { 3_000 };
    on_both(asymmetric, move |side, which| {
        let (from, mut to) = (vec![1u8; len], vec![0u8; len]);
        let mut figures = Vec::new();
        for _ in 0..BATCHES {
            let start = clock::now_ns();
            for _ in 0..rounds {
                if which == 0 {
                    side.send(&from);
                    side.receive(&mut to);
                } else {
                    side.receive(&mut to);
                    side.send(&from);
                }
            }
            figures.push((clock::now_ns() - start) as f64 / (2 * rounds) as f64);
        }
        median(figures)
    })
}

/// ns a message in windows of 64, each answered by one.
fn stream(asymmetric: bool, len: usize) -> f64 {
    let windows = if len <= 1024 { 2_000 } else { 200 };
    on_both(asymmetric, move |side, which| {
        let (from, mut to) = (vec![1u8; len], vec![0u8; len]);
        let mut figures = Vec::new();
        for _ in 0..BATCHES {
            let start = clock::now_ns();
            for _ in 0..windows {
                if which == 0 {
                    (0..64).for_each(|_| side.send(&from));
                    side.receive(&mut to);
                } else {
                    (0..64).for_each(|_| side.receive(&mut to));
                    side.send(&from[..0]);
                }
            }
            figures.push((clock::now_ns() - start) as f64 / (64 * windows) as f64);
        }
        median(figures)
    })
}

/// A word to and fro, with nothing around it: what the machine allows.
fn raw_line() -> f64 {
    #[repr(align(128))]
    struct Word(AtomicU64);
    let words = Arc::new([Word(AtomicU64::new(0)), Word(AtomicU64::new(0))]);
    let threads = [0, 1].map(|which| {
        let words = words.clone();
        thread::spawn(move || {
            let _ = cpus::set_cpu(which);
            let mut figures = Vec::new();
            let mut count = 0;
            for _ in 0..BATCHES {
                let start = clock::now_ns();
                for _ in 0..10_000 {
                    count += 1;
                    if which == 0 {
                        words[0].0.store(count, Ordering::Release);
                    }
                    while words[1 - which].0.load(Ordering::Acquire) != count {}
                    if which == 1 {
                        words[1].0.store(count, Ordering::Release);
                    }
                }
                figures.push((clock::now_ns() - start) as f64 / 20_000.0);
            }
            median(figures)
        })
    });
    threads.map(|thread| thread.join().expect("no panic"))[0]
}

fn alone(what: &str, mut body: impl FnMut()) {
    let figures = (0..BATCHES).map(|_| {
        let start = clock::now_ns();
        (0..10_000).for_each(|_| body());
        (clock::now_ns() - start) as f64 / 10_000.0
    });
    println!("{what:32} {:8.1} ns", median(figures.collect()));
}

fn main() {
    let mut sizes: Vec<usize> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![0, 1, 8, 32, 56, 57, 64, 256, 1024, 4096, 8192, 16384];
    }
    let asymmetric = barrier::start(true) == BarrierKind::Asymmetric;
    for (name, asymmetric) in [("asymmetric", asymmetric), ("symmetric", false)] {
        println!("{name} barriers:   bytes   raw line, ns   one way, ns   stream, ns/message   MB/s");
        for len in sizes.iter().copied() {
            let raw = raw_line();
            let (one_way, message) = (ping_pong(asymmetric, len), stream(asymmetric, len));
            println!("{len:25} {raw:14.1} {one_way:13.1} {message:20.1} {:6.0}", len as f64 * 1e3 / message);
        }
    }
    alone("ticks", || {
        black_box(clock::ticks());
    });
    alone("now_ns", || {
        black_box(clock::now_ns());
    });
    alone("spin_loop", std::hint::spin_loop);
    let lock = LaneLock::new(0u64);
    alone("lane lock, one thread", || *lock.lock() += 1);
    lock.set_threaded().expect("nobody holds it");
    alone("lane lock, threaded", || *lock.lock() += 1);
}
