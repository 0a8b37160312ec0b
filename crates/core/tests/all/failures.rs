//! Programs that continue after ranks have failed, in the deterministic world. `OXMPI_SIM_SEED=n`
//! runs the seed of a failed test alone; `OXMPI_SIM_BASE` and `OXMPI_SIM_COUNT` choose other seeds.

use oxmpi_abi::constants::MPI_ANY_SOURCE;
use oxmpi_abi::extensions::{MPIX_ERR_PROC_FAILED, MPIX_ERR_PROC_FAILED_PENDING, MPIX_ERR_REVOKED};
use oxmpi_core::Communicator;
use oxmpi_core::sim::{Rank, RankEnd, SimWorld};
use oxmpi_engine::Mode;
use oxmpi_fabric::sim::{LinkFaults, Random};
use oxmpi_mem::kernels::ReduceOp;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_tuned::agreement::{AgreementAlgorithm, AgreementSettings, TreeShape};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The seeds of a test; by default `usual` seeds.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    match number("OXMPI_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            let base = number("OXMPI_SIM_BASE").unwrap_or(0);
            base..base + number("OXMPI_SIM_COUNT").unwrap_or(usual)
        }
    }
}

fn is_failure(error: &MpiError) -> bool {
    [MPIX_ERR_PROC_FAILED, MPIX_ERR_PROC_FAILED_PENDING, MPIX_ERR_REVOKED].contains(&error.class())
}

/// The algorithms that tolerate failures, with all trees, one for each remainder of the seed.
fn settings(seed: u64) -> AgreementSettings {
    let at = seed % 9;
    match TreeShape::ALL.get(at as usize / 2) {
        Some(shape) => AgreementSettings {
            shape: *shape,
            rebuild: at % 2 == 1,
            ..AgreementSettings::default()
        },
        None => {
            let algorithm = AgreementAlgorithm::EarlyTerminating;
            AgreementSettings { algorithm, ..AgreementSettings::default() }
        }
    }
}

fn world(seed: u64, most: u32) -> (SimWorld, u32) {
    let mut random = Random::new(seed ^ 0x5eed);
    let ranks = 2 + random.below(u64::from(most) - 1) as u32;
    let mut world = SimWorld::new(ranks, seed)
        .link_faults(LinkFaults::any(&mut random))
        .most_events(20_000_000);
    world = world.agreement(settings(seed));
    for _ in 0..random.below(u64::from(ranks)) {
        let scale = 6 + random.below(16);
        world = world.kill(random.below(u64::from(ranks)) as u32, random.below(1 << scale));
    }
    (world, ranks)
}

/// Runs a script in many worlds. All survivors of a world must return the same result.
fn survivors_end_alike<R: PartialEq + std::fmt::Debug, S: Future<Output = Result<R>>>(
    count: u64,
    script: impl Fn(Rank) -> S,
) {
    for seed in seeds(count) {
        let (world, ranks) = world(seed, 9);
        let outcome = world.run(&script).unwrap_or_else(|stuck| panic!("{stuck}"));
        let mut first = None;
        for (rank, end) in outcome.ends.iter().enumerate() {
            match end {
                RankEnd::Dead => {}
                RankEnd::Failed(error) => {
                    panic!("seed {seed}, {ranks} ranks: rank {rank} failed: {error}")
                }
                RankEnd::Finished(result) => match first {
                    None => first = Some(result),
                    Some(first) => {
                        assert_eq!(result, first, "seed {seed}, {ranks} ranks: rank {rank}")
                    }
                },
            }
        }
    }
}

#[test]
fn the_living_ranks_agree_after_any_failure() {
    survivors_end_alike(3000, async |rank: Rank| {
        let comm = rank.world();
        let mut all = Vec::new();
        for round in 0..4 {
            if rank.below(2) == 0 {
                rank.compute(rank.below(20_000)).await;
            }
            all.push(rank.agree(&comm, !(1 << rank.below(8)) & !(round << 8)).await?);
        }
        Ok(all)
    });
}

/// Computes sums over a communicator, as a program with checkpoints in memory does: after a failure
/// it revokes, shrinks and continues, until all living ranks have done all rounds together.
async fn rounds(rank: &Rank, world: &Communicator, rounds: u64) -> Result<Vec<u64>> {
    let mut comm: Communicator = rank.shrink(world).await?;
    let mut sums = Vec::new();
    loop {
        let attempt = async {
            let mut sums = Vec::new();
            for round in 0..rounds {
                // A message around the ring makes ranks wait outside the collective, too.
                let (me, size) = (comm.rank(), comm.size());
                let next = rank.isend(
                    &comm,
                    Mode::Standard,
                    oxmpi_mem::buffer::UserBuf::empty(),
                    (me + 1) % size,
                    0,
                )?;
                rank.recv(&comm, 8, (me + size - 1) % size, 0).await?;
                rank.wait(next).await?;
                sums.push(rank.allreduce(&comm, &[round + 1], ReduceOp::Sum).await?[0]);
            }
            Ok::<_, MpiError>(sums)
        }
        .await;
        let fine = match attempt {
            Ok(done) => {
                sums = done;
                1
            }
            Err(error) if is_failure(&error) => {
                rank.process().revoke(&comm);
                0
            }
            Err(error) => return Err(error),
        };
        // If one rank has not done all rounds, all ranks repeat them.
        let (all_fine, _) = rank.agree(&comm, fine).await?;
        if all_fine == 1 {
            return Ok(sums);
        }
        rank.process().revoke(&comm);
        let shrunk = rank.shrink(&comm).await?;
        rank.process().close(&comm);
        comm = shrunk;
    }
}

#[test]
fn a_program_revokes_shrinks_and_continues() {
    survivors_end_alike(2000, async |rank: Rank| {
        let world = rank.world();
        let sums = rounds(&rank, &world, 5).await?;
        assert!((0..5).all(|round| sums[round] == sums[0] * (round as u64 + 1)), "{sums:?}");
        Ok(sums)
    });
}

#[test]
fn a_revocation_reaches_all_ranks_though_the_revoking_rank_fails() {
    for seed in seeds(2000) {
        let (mut world, ranks) = world(seed, 9);
        // Rank 0 fails at any time while it revokes.
        world = world.kill(0, Random::new(seed).below(30_000));
        let outcome = world.run(async |rank: Rank| {
            let comm = rank.world();
            if rank.rank() == 0 {
                rank.compute(10_000).await;
                rank.process().revoke(&comm);
                rank.compute(1_000_000_000).await;
                return Ok(());
            }
            // No rank sends, so only a failure or the revocation ends the receive. All ranks
            // acknowledge failures.
            loop {
                match rank.recv(&comm, 8, MPI_ANY_SOURCE, 0).await {
                    Ok(_) => panic!("a message from nobody"),
                    Err(error) if error.class() == MPIX_ERR_REVOKED => return Ok(()),
                    Err(error) if is_failure(&error) => {
                        let count = rank.process().failed(&comm).len();
                        rank.process().acknowledge(&comm, count);
                        if rank.process().failed(&comm).contains(&0) && !comm.is_revoked() {
                            // Rank 0 failed before it notified any rank, or a notified rank is
                            // still notifying the others.
                            rank.process().revoke(&comm);
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
        });
        let outcome = outcome.unwrap_or_else(|stuck| panic!("{stuck}"));
        let failed = outcome.ends.iter().any(|end| matches!(end, RankEnd::Failed(_)));
        assert!(!failed, "seed {seed}, {ranks} ranks: {:?}", outcome.ends);
    }
}
