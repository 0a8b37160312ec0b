//! The deterministic world: random programs, link faults and failures. `OXMPI_SIM_SEED=n` runs the
//! seed of a failed test alone; `OXMPI_SIM_BASE` and `OXMPI_SIM_COUNT` choose other seeds.

mod program;

use oxmpi_abi::extensions::MPIX_ERR_PROC_FAILED;
use oxmpi_core::sim::{Outcome, RankEnd, SimWorld};
use oxmpi_engine::Mode;
use oxmpi_fabric::sim::{LinkFaults, Random};
use oxmpi_mem::kernels::ReduceOp;
use program::RandomProgram;
use std::rc::Rc;

struct RepeatCommand {
    seed: u64,
    ranks: u32,
}

impl Drop for RepeatCommand {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "seed {}, {} ranks: OXMPI_SIM_SEED={} cargo nextest run -p oxmpi-core --test all random_programs_0",
                self.seed, self.ranks, self.seed
            );
        }
    }
}

struct SimCase {
    seed: u64,
    ranks: u32,
    faults: LinkFaults,
    death: Option<(u32, u64)>,
    program: Rc<RandomProgram>,
}

impl SimCase {
    fn new(seed: u64) -> SimCase {
        let mut random = Random::new(seed);
        let ranks = match random.below(16) {
            0..8 => 2 + random.below(3),
            8..13 => 2 + random.below(8),
            13..15 => 8 + random.below(16),
            _ => 24 + random.below(41),
        } as u32;
        let faults = LinkFaults::any(&mut random);
        let program = Rc::new(RandomProgram::new(&mut random, ranks, faults.eager_limit));
        let (victim, scale) = (random.below(u64::from(ranks)) as u32, 8 + random.below(14));
        let death = (random.below(4) == 0).then(|| (victim, random.below(1 << scale)));
        SimCase { seed, ranks, faults, death, program }
    }

    fn run(&self) -> Outcome<()> {
        let _line = RepeatCommand { seed: self.seed, ranks: self.ranks };
        let mut world = SimWorld::new(self.ranks, self.seed)
            .link_faults(self.faults.clone())
            .most_events(20_000_000);
        if let Some((rank, at_ns)) = self.death {
            world = world.kill(rank, at_ns);
        }
        let outcome = world
            .run(|rank| self.program.clone().run(rank))
            .unwrap_or_else(|stuck| panic!("{stuck}"));
        let dead = outcome.ends.contains(&RankEnd::Dead);
        for (rank, end) in outcome.ends.iter().enumerate() {
            match end {
                RankEnd::Finished(()) => {}
                RankEnd::Failed(error) => {
                    assert!(dead, "rank {rank} failed though nobody died: {error}");
                    assert_eq!(error.class(), MPIX_ERR_PROC_FAILED, "rank {rank}: {error}");
                }
                RankEnd::Dead => {
                    assert_eq!(self.death.map(|(r, _)| r as usize), Some(rank), "rank {rank} died")
                }
            }
        }
        outcome
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, it must be a number")))
}

const SHARDS: u64 = 4;

/// In fewer worlds the number of failed ranks depends too much on chance.
const MIN_COUNTED_WORLDS: u64 = 200;

fn shard(number_of_shard: u64) {
    if let Some(seed) = number("OXMPI_SIM_SEED") {
        if number_of_shard == 0 {
            let case = SimCase::new(seed);
            eprintln!(
                "{} ranks, {:?}, death {:?}\n{:#?}",
                case.ranks, case.faults, case.death, case.program
            );
            case.run();
        }
        return;
    }
    let base = number("OXMPI_SIM_BASE").unwrap_or(1);
    let count = number("OXMPI_SIM_COUNT").unwrap_or(1000);
    let (mut worlds, mut died, mut failed, mut frames) = (0, 0, 0, 0);
    for seed in (base..base + count).filter(|seed| seed % SHARDS == number_of_shard) {
        let outcome = SimCase::new(seed).run();
        worlds += 1;
        died += u64::from(outcome.ends.contains(&RankEnd::Dead));
        failed += u64::from(outcome.ends.iter().any(|end| matches!(end, RankEnd::Failed(_))));
        frames += outcome.frames;
    }
    eprintln!(
        "{died} of {worlds} worlds with a death, {failed} with a failed rank, {frames} frames"
    );
    // The test shows nothing without failures that come before the end and are noticed.
    if worlds >= MIN_COUNTED_WORLDS {
        assert!(died >= worlds / 8, "only {died} of {worlds} worlds had a death before their end");
        assert!(
            failed >= worlds / 8,
            "in only {failed} of {worlds} worlds a rank failed because of a death"
        );
    }
}

#[test]
fn random_programs_0() {
    shard(0);
}

#[test]
fn random_programs_1() {
    shard(1);
}

#[test]
fn random_programs_2() {
    shard(2);
}

#[test]
fn random_programs_3() {
    shard(3);
}

#[test]
fn the_same_seed_gives_the_same_world() {
    for seed in 7000..7020 {
        let (one, two) = (SimCase::new(seed).run(), SimCase::new(seed).run());
        assert_eq!(
            (one.trace, one.virtual_ns, one.frames),
            (two.trace, two.virtual_ns, two.frames),
            "seed {seed}"
        );
        assert_eq!(one.ends, two.ends, "seed {seed}");
        let mut other = SimCase::new(seed);
        other.seed += 1_000_000;
        assert_ne!(other.run().trace, one.trace, "seed {seed}");
    }
}

#[test]
fn a_thousand_ranks_run_a_barrier_and_an_allreduce() {
    const RANKS: u32 = 1000;
    let outcome = SimWorld::new(RANKS, 1)
        .run(async |rank| {
            let comm = rank.world();
            rank.barrier(&comm).await?;
            rank.allreduce(&comm, &[u64::from(rank.rank()), 1], ReduceOp::Sum).await
        })
        .unwrap();
    let sum = u64::from(RANKS * (RANKS - 1) / 2);
    assert!(outcome.ends.iter().all(|end| *end == RankEnd::Finished(vec![sum, u64::from(RANKS)])));
}

#[test]
fn a_deadlock_report_names_each_waiting_rank() {
    let stuck = SimWorld::new(3, 5)
        .run(async |rank| {
            let comm = rank.world();
            match rank.rank() {
                0 => rank.recv(&comm, 8, 1, 3).await.map(drop),
                1 => rank.send(&comm, Mode::Synchronous, b"late", 2, 4).await,
                _ => Ok(()),
            }
        })
        .unwrap_err();
    let text = stuck.to_string();
    assert!(text.contains("deadlock in a world of 3 ranks (seed 5)"), "{text}");
    assert!(text.contains("rank 0: waits for a message from rank 1 with tag 3"), "{text}");
    assert!(text.contains("rank 1: waits for rank 2 to take a message with tag 4"), "{text}");
}

#[test]
fn one_failure_ends_a_chain_of_waiting_ranks() {
    // Each rank waits for its neighbour, the last one of the chain for rank 0, which dies.
    let outcome = SimWorld::new(20, 9)
        .kill(0, 1000)
        .run(async |rank| {
            let comm = rank.world();
            if rank.rank() == 0 {
                rank.compute(10_000).await;
                return Ok(());
            }
            rank.recv(&comm, 8, rank.rank() as i32 - 1, 0).await.map(drop)
        })
        .unwrap();
    assert_eq!(outcome.ends[0], RankEnd::Dead);
    assert!(
        outcome.ends[1..]
            .iter()
            .all(|end| matches!(end, RankEnd::Failed(e) if e.class() == MPIX_ERR_PROC_FAILED))
    );
}

#[test]
fn a_wildcard_receive_after_a_failure_returns_an_error() {
    for seed in 0..20 {
        let outcome = SimWorld::new(2, seed)
            .kill(0, 1000)
            .run(async |rank| {
                let comm = rank.world();
                // By this time the rank knows of the death.
                rank.compute(1_000_000).await;
                if rank.below(2) == 0 {
                    rank.probe(&comm, oxmpi_abi::constants::MPI_ANY_SOURCE, 0).await?;
                }
                rank.recv(&comm, 8, oxmpi_abi::constants::MPI_ANY_SOURCE, 0).await.map(drop)
            })
            .unwrap();
        assert!(
            matches!(&outcome.ends[1], RankEnd::Failed(e) if e.class() == MPIX_ERR_PROC_FAILED)
        );
    }
}

#[test]
fn computing_takes_virtual_time() {
    let outcome = SimWorld::new(2, 3)
        .run(async |rank| {
            rank.compute(1_000_000_000_000).await;
            Ok(rank.now_ns())
        })
        .unwrap();
    assert_eq!(outcome.ends[1], RankEnd::Finished(1_000_000_000_000));
}
