//! What the pair ring, the pool, the door and the lock cost here: two threads on processors 0 and 1, over segments.
//!
//! `cargo run -p oxmpi-os --release --example ring_bench [BYTES ...]` for the ring, `... ring_bench pool [BYTES ...]` for
//! longer messages by all ways that there are.

use oxmpi_os::{
    barrier::{self, BarrierKind},
    bytes::{Bytes, BytesMut, CopyKind},
    clock, cpus,
    door::{Bell, Door, Next, Policy},
    lock::LaneLock,
    pool::{CopyChoice, Pool, PoolView, SlowCopies},
    ring::{INLINE_MAX, Pooling, RingReceiver, RingSender, Slot},
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
    pool: Pool,
    copies: CopyChoice,
    /// Pieces copied, and those of them that were streamed.
    pieces: [u64; 2],
}

fn sides(asymmetric: bool) -> [Side; 2] {
    let segments = [0, 1].map(|rank| {
        let config = SegmentConfig::default();
        let boot = Boot { asymmetric, config, ..Boot::on_one_node(1, rank, 2) };
        Segment::map(Segment::create(&boot).expect("a segment")).expect("a mapping")
    });
    [0, 1].map(|me| {
        let (mine, peers): (&Arc<Segment>, _) = (&segments[me], &segments[1 - me]);
        let door = Door::new(mine.clone(), Policy::new(false));
        let kind = door.kind();
        let mut receiver = RingReceiver::new(mine.ring(0, kind));
        receiver.set_pool(PoolView::new(peers.pool().expect("a pool"), 1));
        Side {
            sender: RingSender::new(peers.ring(0, kind)),
            receiver,
            pool: Pool::new(mine.pool().expect("a pool")),
            copies: CopyChoice::always(CopyKind::Plain),
            pieces: [0; 2],
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
            self.sender.try_send_inline(5, 1, bytes, false)
        } else {
            self.sender
                .try_send_data(5, 1, bytes.len(), |at, chunk| bytes.slice(at, chunk.len()).copy_to(chunk))
        } {
            std::hint::spin_loop();
        }
        self.bell.ring();
    }

    /// Takes one whole message; its length.
    #[inline]
    fn receive(&mut self, to: &mut [u8]) -> usize {
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
                    Some(bytes.len())
                }
                Some(Slot::Chunk { total, offset, bytes, .. }) => {
                    bytes.copy_to(BytesMut::from(&mut to[offset..offset + bytes.len()]));
                    (offset + bytes.len() == total).then_some(total)
                }
                Some(Slot::Frame { .. } | Slot::Notice(_)) => unreachable!("nobody sends frames or notices"),
            };
            self.receiver.release();
            if let Some(len) = done {
                return len;
            }
        }
    }
}

/// A way for longer messages.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// The ring's data ring.
    Data,
    /// The pool, with copies of one kind.
    Pool(CopyKind),
    /// The pool, with the kind chosen.
    Chosen,
}

impl Side {
    fn set_way(&mut self, way: Way) {
        self.copies = match way {
            Way::Data => return,
            Way::Pool(kind) => CopyChoice::always(kind),
            Way::Chosen => {
                let slow = SlowCopies {
                    reused: clock::ticks_of_ns(CopyChoice::SLOW_NS_PER_KIB_REUSED),
                    anywhere: clock::ticks_of_ns(CopyChoice::SLOW_NS_PER_KIB),
                };
                CopyChoice::new(slow, CopyChoice::PAUSE)
            }
        }
    }

    /// Sends by a way, as several messages if there must be.
    fn send_by(&mut self, way: Way, bytes: &[u8]) {
        let longest = match way {
            Way::Data => self.sender.max_data(),
            _ => self.sender.max_pooled(&self.pool.shape()),
        };
        for part in bytes.chunks(longest) {
            let part = Bytes::from(part);
            let Side { sender, pool, copies, pieces, .. } = self;
            while !match way {
                Way::Data => {
                    sender.try_send_data(5, 1, part.len(), |at, to| part.slice(at, to.len()).copy_to(to))
                }
                _ => sender.try_send_pooled(
                    5,
                    1,
                    part.len(),
                    {
                        let spreads = copies.spreads();
                        Pooling {
                            pool,
                            to: 1,
                            copies,
                            spreads,
                            is_part: false,
                            is_in_stream: false,
                            theirs: None,
                        }
                    },
                    |at, to, kind| {
                        pieces[0] += 1;
                        pieces[1] += u64::from(kind == CopyKind::Streaming);
                        part.slice(at, to.len()).copy_by(kind, to);
                    },
                ),
            } {
                std::hint::spin_loop();
            }
            self.bell.ring();
        }
    }

    /// Takes so many bytes, of several messages if there must be.
    fn receive_all(&mut self, to: &mut [u8]) {
        let mut have = 0;
        while have < to.len() {
            have += self.receive(&mut to[have..]);
        }
    }
}

/// us a message one way in a ping-pong, MB/s in one direction, and how much was streamed, in percent.
fn by_way(asymmetric: bool, way: Way, len: usize) -> [f64; 3] {
    let (rounds, windows) = ((8 << 20) / len, (4 << 20) / len / 16 + 1);
    on_both(asymmetric, move |side, which| {
        side.set_way(way);
        let (from, mut to) = (vec![1u8; len], vec![0u8; len]);
        let (mut latency, mut stream) = (Vec::new(), Vec::new());
        for _ in 0..BATCHES {
            let start = clock::now_ns();
            for _ in 0..rounds {
                if which == 0 {
                    side.send_by(way, &from);
                    side.receive_all(&mut to);
                } else {
                    side.receive_all(&mut to);
                    side.send_by(way, &from);
                }
            }
            latency.push((clock::now_ns() - start) as f64 / (2 * rounds) as f64 / 1e3);
        }
        for _ in 0..BATCHES {
            let start = clock::now_ns();
            for _ in 0..windows {
                if which == 0 {
                    (0..16).for_each(|_| side.send_by(way, &from));
                    side.receive(&mut to);
                } else {
                    (0..16).for_each(|_| side.receive_all(&mut to));
                    side.send(&from[..1]);
                }
            }
            let ns = (clock::now_ns() - start) as f64;
            stream.push((16 * windows * len) as f64 * 1e3 / ns);
        }
        [median(latency), median(stream), 100.0 * side.pieces[1] as f64 / side.pieces[0].max(1) as f64]
    })
}

fn pool(sizes: &[usize], asymmetric: bool) {
    println!(
        "     bytes  raw line, ns | one way, us:  data     plain  streaming  chosen | MB/s:  data  plain  streaming  chosen | % streamed"
    );
    for &len in sizes {
        let raw = raw_line();
        let [data, plain, streaming, chosen] =
            [Way::Data, Way::Pool(CopyKind::Plain), Way::Pool(CopyKind::Streaming), Way::Chosen]
                .map(|way| by_way(asymmetric, way, len));
        println!(
            "{len:10} {raw:13.1} | {:18.2} {:9.2} {:9.2} {:8.2} | {:11.0} {:6.0} {:8.0} {:9.0} | {:5.1}",
            data[0], plain[0], streaming[0], chosen[0], data[1], plain[1], streaming[1], chosen[1], chosen[2]
        );
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Runs `body(side, which)` on two bound threads; the result of the first.
fn on_both<R: Copy + Send + 'static>(
    asymmetric: bool,
    body: impl Fn(&mut Side, usize) -> R + Send + Sync + Copy + 'static,
) -> R {
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
    let figures: Vec<R> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
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
                    for _ in 0..64 {
                        side.receive(&mut to);
                    }
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
    let asymmetric = barrier::start(true) == BarrierKind::Asymmetric;
    let mut sizes: Vec<usize> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    if std::env::args().any(|arg| arg == "pool") {
        if sizes.is_empty() {
            sizes = (12..=22).map(|power| 1 << power).collect();
        }
        return pool(&sizes, asymmetric);
    }
    if sizes.is_empty() {
        sizes = vec![0, 1, 8, 32, 56, 57, 64, 256, 1024, 4096, 8192, 16384];
    }
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
