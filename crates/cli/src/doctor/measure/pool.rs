//! Costs of a line and of copies through a pool between two processors. Two threads send to each
//! other in lockstep as two ranks would, each with its own pool. Caches know addresses and not
//! their owners, so threads have the costs of processes.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use oxmpi_fabric::shm::copy_policy::PoolCosts;
use oxmpi_sys::bytes::{Bytes, BytesMut, CopyKind, store_fence};
use oxmpi_sys::memory::Memory;
use oxmpi_sys::{clock, cpus};

use super::{BUDGET, preempted};

/// Length of a rank's pool in bytes: more than a private cache holds.
const POOL_BYTES: usize = 4 << 20;
const MESSAGE_BYTES: usize = 64 << 10;
/// Round trips of a line in a run.
const TURNS: u64 = 500;
/// Length of a message past the caches in each round trip, in bytes. A short message shows the
/// latency of memory at writer and reader, and not the bandwidth.
const FEW_BYTES: usize = 1 << 10;
/// A longer wait for the other thread is an error.
const PATIENCE: Duration = Duration::from_millis(500);

pub(super) struct PoolRun {
    pub(super) costs: PoolCosts,
    pub(super) past_caches_ns: f64,
    pub(super) preemptions: u64,
}

#[repr(align(128))]
#[derive(Default)]
struct StepLine(AtomicU64);

struct PoolPair {
    turns: [StepLine; 2],
    pools: [Memory; 2],
    /// Set to 1 by the first thread: the current lap is the last one.
    last: AtomicU64,
}

/// The minima of several runs of one thread: nanoseconds, for copies per KiB.
#[derive(Clone, Copy)]
struct LeastCosts {
    line: f64,
    /// A line with [`FEW_BYTES`] past the caches.
    line_past_caches: f64,
    /// For each kind of copy: in and out.
    copies: [[f64; 2]; 2],
    preemptions: u64,
}

/// Fails if a thread may not run on its processor, or if the other one does not respond.
pub(super) fn between(processors: [usize; 2]) -> Result<PoolRun, String> {
    let pool = || Memory::zeroed(POOL_BYTES, 4096).ok_or("no memory for a pool");
    let shared = Arc::new(PoolPair {
        turns: Default::default(),
        pools: [pool()?, pool()?],
        last: AtomicU64::new(0),
    });
    let threads = [0, 1].map(|me| {
        let shared = shared.clone();
        thread::spawn(move || Lockstep { me, at: 0, shared: &shared }.run(processors[me]))
    });
    let [a, b] = threads.map(|thread| thread.join().map_err(|_| "a thread that measures has died"));
    let (a, b) = (a??, b??);
    let least = |kind: usize, part: usize| a.copies[kind][part].min(b.copies[kind][part]);
    let line_ns = a.line.min(b.line);
    let few = (least(1, 0) + least(1, 1)) * FEW_BYTES as f64 / 1024.0;
    Ok(PoolRun {
        costs: PoolCosts {
            line_ns,
            in_ns: least(0, 0),
            in_past_caches_ns: least(1, 0),
            out_ns: least(0, 1),
            out_past_caches_ns: least(1, 1),
        },
        past_caches_ns: a.line_past_caches.min(b.line_past_caches) - line_ns - few,
        preemptions: a.preemptions + b.preemptions,
    })
}

struct Lockstep<'a> {
    me: usize,
    at: u64,
    shared: &'a PoolPair,
}

impl Lockstep<'_> {
    fn run(mut self, processor: usize) -> Result<LeastCosts, String> {
        cpus::set_cpu(processor).map_err(|error| error.to_string())?;
        // The kernel allocates the pages here, before the measurement.
        self.shared.pools[self.me].clear();
        self.meet()?;
        let before = preempted();
        let line = self.lines(0)?;
        let line_past_caches = self.lines(FEW_BYTES)?;
        let copies = [self.copies(CopyKind::Plain)?, self.copies(CopyKind::Streaming)?];
        Ok(LeastCosts { line, line_past_caches, copies, preemptions: preempted() - before })
    }

    /// Reports this thread's step, and waits until the other thread has done the same step.
    fn meet(&mut self) -> Result<(), String> {
        self.at += 1;
        self.shared.turns[self.me].0.store(self.at, Ordering::Release);
        self.wait(self.at)
    }

    fn wait(&self, step: u64) -> Result<(), String> {
        let other = &self.shared.turns[1 - self.me].0;
        let mut end = None;
        loop {
            // The clock is read seldom, as a read of it takes as long as moving a line.
            for _ in 0..10_000 {
                if other.load(Ordering::Acquire) >= step {
                    return Ok(());
                }
                spin_loop();
            }
            if Instant::now() > *end.get_or_insert_with(|| Instant::now() + PATIENCE) {
                return Err("the other processor gets no time".into());
            }
        }
    }

    /// Half of a round trip of a line, with `bytes` past the caches.
    fn lines(&mut self, bytes: usize) -> Result<f64, String> {
        let from = vec![1u8; bytes];
        let mut to = vec![0u8; bytes];
        let mut best = f64::INFINITY;
        self.laps(|this| {
            let begun = clock::now_ns();
            for turn in 0..TURNS as usize {
                this.at += 1;
                // The first thread sends first; the second one sends when it has received.
                if this.me == 0 {
                    this.send(turn, &from)?;
                }
                this.wait(this.at)?;
                this.message(1 - this.me, turn, bytes)?
                    .as_bytes()
                    .copy_by_vectors(BytesMut::from(&mut *to));
                if this.me == 1 {
                    this.send(turn, &from)?;
                }
            }
            best = best.min((clock::now_ns() - begun) as f64 / (2 * TURNS) as f64);
            Ok(())
        })?;
        Ok(best)
    }

    /// Copies a message into this thread's pool and publishes its step.
    fn send(&self, turn: usize, from: &[u8]) -> Result<(), String> {
        Bytes::from(from).copy_past_caches(self.message(self.me, turn, from.len())?);
        self.shared.turns[self.me].0.store(self.at, Ordering::Release);
        Ok(())
    }

    fn message(&self, of: usize, turn: usize, bytes: usize) -> Result<BytesMut<'_>, String> {
        let at = turn * MESSAGE_BYTES % POOL_BYTES;
        self.shared.pools[of].bytes(at, bytes).ok_or_else(|| "a pool is too short".into())
    }

    /// Messages in both directions through the whole pools. Returns the costs of copies in and out
    /// per KiB.
    fn copies(&mut self, kind: CopyKind) -> Result<[f64; 2], String> {
        let from = vec![1u8; MESSAGE_BYTES];
        let mut to = vec![0u8; MESSAGE_BYTES];
        let mut best = [f64::INFINITY; 2];
        self.laps(|this| {
            let mut sums = [0; 2];
            for turn in 0..POOL_BYTES / MESSAGE_BYTES {
                let own = this.message(this.me, turn, MESSAGE_BYTES)?;
                let begun = clock::now_ns();
                Bytes::from(&*from).copy_by(kind, own);
                store_fence();
                let copied = clock::now_ns();
                this.meet()?;
                let met = clock::now_ns();
                let other = this.message(1 - this.me, turn, MESSAGE_BYTES)?;
                other.as_bytes().copy_by_vectors(BytesMut::from(&mut *to));
                let read = clock::now_ns();
                this.meet()?;
                sums[0] += copied - begun;
                sums[1] += read - met;
            }
            let kib = (POOL_BYTES >> 10) as f64;
            best = [0, 1].map(|part| best[part].min(sums[part] as f64 / kib));
            Ok(())
        })?;
        Ok(best)
    }

    /// Runs at least two laps, until the first thread has used up its time.
    fn laps(&mut self, mut lap: impl FnMut(&mut Self) -> Result<(), String>) -> Result<(), String> {
        let begun = Instant::now();
        for number in 0.. {
            if self.me == 0 {
                let longest = begun.elapsed() * (number + 1) / number.max(1);
                let is_last = number > 0 && longest > BUDGET;
                self.shared.last.store(is_last.into(), Ordering::Relaxed);
            }
            self.meet()?;
            let is_last = self.shared.last.load(Ordering::Relaxed) == 1;
            lap(self)?;
            // The first thread may set `last` again only after both have read it.
            self.meet()?;
            if is_last {
                break;
            }
        }
        Ok(())
    }
}
