//! The program that measures, as a rank of a job: `oxmpi bench` starts `oxmpi bench-rank
//! MEASUREMENT...` through `mpirun`.
//!
//! Ranks 0 and 1 measure, the others wait in a barrier. A figure is the median over its batches.

use std::hint::black_box;
use std::time::{Duration, Instant};

use oxmpi::{Communicator, Result};

use super::figures::{Measurement, line};

/// The least duration of a batch. A short batch is seldom preempted by another program.
const BATCH: Duration = Duration::from_millis(5);
const BATCHES: usize = 21;
const WINDOW: usize = 8;
/// Repetitions of a transfer, with and without computing.
const ROUNDS: usize = 31;
/// The time that a rank waits while its CPU use is measured.
const IDLE: Duration = Duration::from_secs(1);

pub(crate) fn main(words: &[&str]) -> i32 {
    match measure(words) {
        Ok(()) => 0,
        Err(error) => {
            oxmpi_sys::complain!("oxmpi bench: {error}");
            1
        }
    }
}

fn measure(words: &[&str]) -> Result<()> {
    let universe = oxmpi::init()?;
    let world = universe.world();
    if world.rank() < 2 && world.size() > 1 {
        let me = BenchPair { world: &world, is_first: world.rank() == 0, peer: 1 - world.rank() };
        for what in Measurement::ALL.into_iter().filter(|what| words.contains(&what.name())) {
            me.measure(what)?;
        }
    }
    world.barrier()?;
    drop(world);
    universe.finalize()
}

struct BenchPair<'a> {
    world: &'a Communicator<'a>,
    is_first: bool,
    peer: i32,
}

impl BenchPair<'_> {
    fn measure(&self, what: Measurement) -> Result<()> {
        for &bytes in what.sizes() {
            let values = match what {
                Measurement::Latency => vec![self.latency(bytes)?],
                Measurement::Bandwidth => vec![self.bandwidth(bytes)?],
                _ => self.overlap(bytes)?.to_vec(),
            };
            self.report(what, bytes, &values);
        }
        if what == Measurement::Idle {
            let share = self.idle()?;
            self.report(what, 0, &[share]);
        }
        Ok(())
    }

    fn report(&self, what: Measurement, bytes: usize, values: &[f64]) {
        if self.is_first {
            // A failed write needs no handling here: the job ends when nobody reads its output.
            oxmpi_sys::stdio::say(line(what, bytes, values).as_bytes());
        }
    }

    fn meet(&self) -> Result<()> {
        self.swap(0.0).map(drop)
    }

    fn swap(&self, value: f64) -> Result<f64> {
        let mut theirs = [0.0];
        self.world.sendrecv(&[value], self.peer, 1, &mut theirs, self.peer, 1)?;
        Ok(theirs[0])
    }

    /// The median time of several batches, in seconds per repetition.
    fn time(&self, mut batch: impl FnMut(usize) -> Result<()>) -> Result<f64> {
        let mut repeat = 1;
        loop {
            self.meet()?;
            let start = Instant::now();
            batch(repeat)?;
            let longest =
                start.elapsed().as_secs_f64().max(self.swap(start.elapsed().as_secs_f64())?);
            if longest >= BATCH.as_secs_f64() || repeat >= 1 << 20 {
                break;
            }
            repeat *= 2;
        }
        // Both ranks compute the same `repeat`, as `longest` is the same on both.
        let mut times = Vec::with_capacity(BATCHES);
        for _ in 0..BATCHES {
            self.meet()?;
            let start = Instant::now();
            batch(repeat)?;
            times.push(start.elapsed().as_secs_f64() / repeat as f64);
        }
        Ok(median(times))
    }

    /// Half a round trip, in microseconds.
    fn latency(&self, bytes: usize) -> Result<f64> {
        let (out, mut into) = (vec![1u8; bytes], vec![0u8; bytes]);
        let round = self.time(|repeat| {
            for _ in 0..repeat {
                if self.is_first {
                    self.world.send(&out, self.peer, 2)?;
                    self.world.recv_into(&mut into, self.peer, 2)?;
                } else {
                    self.world.recv_into(&mut into, self.peer, 2)?;
                    self.world.send(&out, self.peer, 2)?;
                }
            }
            Ok(())
        })?;
        Ok(round * 0.5e6)
    }

    /// Megabytes per second in one direction.
    fn bandwidth(&self, bytes: usize) -> Result<f64> {
        let (out, mut into) = (vec![1u8; bytes], vec![0u8; bytes * WINDOW]);
        let window = self.time(|repeat| {
            for _ in 0..repeat {
                if self.is_first {
                    self.world.scope(|s| {
                        (0..WINDOW).try_for_each(|_| s.isend(&out, self.peer, 3).map(drop))
                    })?;
                    self.world.recv::<u8>(self.peer, 4)?;
                } else {
                    let mut parts: Vec<&mut [u8]> = into.chunks_exact_mut(bytes).collect();
                    self.world.scope(|s| {
                        parts
                            .iter_mut()
                            .try_for_each(|part| s.irecv(&mut **part, self.peer, 3).map(drop))
                    })?;
                    self.world.send(&[1u8], self.peer, 4)?;
                }
            }
            Ok(())
        })?;
        Ok((bytes * WINDOW) as f64 / window / 1e6)
    }

    /// The times of a transfer alone, of computing alone, and of both together, in microseconds.
    fn overlap(&self, bytes: usize) -> Result<[f64; 3]> {
        let mut buffer = vec![1u8; bytes];
        let mut transfer = |loops: u64| -> Result<f64> {
            let mut times = Vec::with_capacity(ROUNDS);
            for _ in 0..ROUNDS {
                self.meet()?;
                let start = Instant::now();
                self.world.scope(|s| {
                    match self.is_first {
                        true => s.isend(&buffer, self.peer, 5).map(drop)?,
                        false => s.irecv(&mut buffer, self.peer, 5).map(drop)?,
                    }
                    compute(loops);
                    Ok(())
                })?;
                let own = start.elapsed().as_secs_f64();
                times.push(own.max(self.swap(own)?));
            }
            Ok(median(times) * 1e6)
        };
        transfer(0)?; // connects the ranks and touches the buffers
        let alone = transfer(0)?;
        // Both ranks compute for the same number of loops, about as long as the transfer takes.
        let own = loops_of(alone);
        let loops = own.min(self.swap(own as f64)? as u64);
        let computing = median((0..ROUNDS).map(|_| timed(loops)).collect()) * 1e6;
        let computing = computing.max(self.swap(computing)?);
        let both = transfer(loops)?;
        Ok([alone, computing, both])
    }

    /// CPU seconds per second that rank 1 uses while it waits for a message.
    fn idle(&self) -> Result<f64> {
        self.meet()?;
        let (start, used) = (Instant::now(), processor_seconds());
        if self.is_first {
            std::thread::sleep(IDLE);
            self.world.send(&[1u8], self.peer, 6)?;
        } else {
            self.world.recv::<u8>(self.peer, 6)?;
        }
        let share = (processor_seconds() - used) / start.elapsed().as_secs_f64();
        let theirs = self.swap(share)?;
        Ok(if self.is_first { theirs } else { share })
    }
}

fn processor_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

fn compute(loops: u64) {
    let mut state = black_box(1.0f64);
    for _ in 0..loops {
        state = state.mul_add(0.999, 0.001);
    }
    black_box(state);
}

fn timed(loops: u64) -> f64 {
    let start = Instant::now();
    compute(loops);
    start.elapsed().as_secs_f64()
}

fn loops_of(us: f64) -> u64 {
    const TRIED: u64 = 100_000;
    let one = median((0..ROUNDS).map(|_| timed(TRIED)).collect()) / TRIED as f64;
    (us * 1e-6 / one.max(1e-12)) as u64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(0.0)
}
