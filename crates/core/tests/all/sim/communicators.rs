//! Phases that make communicators of all kinds.

use super::{pattern, ring};
use oxmpi_abi::constants::{MPI_COMM_TYPE_HW_UNGUIDED, MPI_COMM_TYPE_SHARED};
use oxmpi_core::Communicator;
use oxmpi_core::comm::{CommComparison, Peer};
use oxmpi_core::sim::{RANKS_OF_A_NODE, Rank};
use oxmpi_engine::Mode;
use oxmpi_mem::kernels::ReduceOp;
use oxmpi_mem::memory::Owned;
use oxmpi_objects::error::Result;

async fn used(rank: &Rank, comm: &Communicator, phase: usize, len: usize) -> Result<()> {
    ring(rank, comm, phase, len, 2).await?;
    let sum = rank.allreduce(comm, &[1], ReduceOp::Sum).await?;
    assert_eq!(sum, [comm.size() as u64]);
    rank.process().close(comm);
    Ok(())
}

fn world_ranks(comm: &Communicator) -> Vec<u32> {
    comm.local_map().processes()
}

pub(super) async fn groups(
    rank: &Rank,
    comm: &Communicator,
    phase: usize,
    len: usize,
) -> Result<()> {
    let (n, me) = (comm.size(), comm.rank());
    let mine: Vec<i32> = (0..n).rev().filter(|r| r % 3 == me % 3).collect();
    let group = comm.group()?.include(&mine)?;
    let expected: Vec<u32> = group.processes().collect();
    if me % 3 > 0 {
        let made = rank.create_group(comm, &group, i32::MAX).await?.expect("this rank is a member");
        assert_eq!(world_ranks(&made), expected);
        used(rank, &made, phase, len).await?;
    }
    let made = rank.create(comm, &group).await?.expect("this rank is a member");
    assert_eq!(world_ranks(&made), expected);
    used(rank, &made, phase, len).await?;

    let node = |process: u32| process / RANKS_OF_A_NODE;
    let own = node(rank.rank());
    let near: Vec<u32> =
        world_ranks(comm).into_iter().filter(|process| node(*process) == own).collect();
    let made = rank.split_type(comm, MPI_COMM_TYPE_SHARED, 0).await?.expect("a node has members");
    assert_eq!(world_ranks(&made), near);
    used(rank, &made, phase, len).await?;
    match rank.split_type(comm, MPI_COMM_TYPE_HW_UNGUIDED, 0).await? {
        Some(made) => {
            assert!(near.len() < n as usize);
            assert_eq!(world_ranks(&made), near);
            used(rank, &made, phase, len).await
        }
        None => {
            assert_eq!(near.len(), n as usize);
            Ok(())
        }
    }
}

async fn exchange_with_remote_group(
    rank: &Rank,
    inter: &Communicator,
    phase: usize,
    len: usize,
) -> Result<()> {
    let (me, n) = (inter.rank(), inter.size().max(inter.remote_size()));
    for round in 0..n.min(3) {
        let peer = (round - me).rem_euclid(n);
        if peer >= inter.remote_size() {
            continue;
        }
        let Some(other) = inter.remote_map().process(peer as u32) else {
            panic!("rank {peer} has no process")
        };
        let input = Owned::new(vec![0u8; len]);
        let receive = rank.irecv(inter, input.buf(), peer, round)?;
        let mode = if round % 2 == 0 { Mode::Standard } else { Mode::Synchronous };
        rank.send(inter, mode, &pattern(phase, rank.rank() as usize, len), peer, round).await?;
        let done = rank.wait(receive).await?;
        assert_eq!((done.source, done.tag, done.bytes), (peer, round, len as u64));
        assert!(input.into_vec().unwrap_or_default() == pattern(phase, other as usize, len));
    }
    Ok(())
}

pub(super) async fn inter(
    rank: &Rank,
    comm: &Communicator,
    phase: usize,
    first: u32,
    len: usize,
) -> Result<()> {
    let (me, first) = (comm.rank(), first as i32);
    let low = me < first;
    let half = rank.split(comm, i32::from(low), -me).await?.expect("this rank has a colour");
    // The last rank of `half` leads; it is the lowest rank of its group in the world.
    let leader = half.size() - 1;
    let peer = Peer { comm, leader: if low { first } else { 0 }, tag: phase as i32 };
    let inter =
        rank.intercomm_create(&half, leader, (half.rank() == leader).then_some(peer)).await?;
    assert_eq!((inter.size(), inter.remote_size()), (half.size(), comm.size() - half.size()));
    exchange_with_remote_group(rank, &inter, phase, len).await?;
    rank.process().close(&half);

    let twin = rank.idup(&inter).await?;
    assert_eq!(twin.compare(&inter)?, CommComparison::Congruent);
    rank.process().close(&inter);
    exchange_with_remote_group(rank, &twin, phase + 1, len).await?;
    if let Some(part) = rank.split(&twin, twin.rank() % 2, 0).await? {
        exchange_with_remote_group(rank, &part, phase + 2, len).await?;
        rank.process().close(&part);
    } else {
        assert!(twin.rank() % 2 == 1 && twin.remote_size() < 2);
    }
    let one = twin.group()?.include(&[0])?;
    if let Some(made) = rank.create(&twin, &one).await? {
        assert_eq!((twin.rank(), made.size(), made.remote_size()), (0, 1, 1));
        exchange_with_remote_group(rank, &made, phase + 3, len).await?;
        rank.process().close(&made);
    }
    let merged = rank.merge(&twin, !low).await?;
    rank.process().close(&twin);
    // Each half is in reverse order, and the low half is first.
    let place = if low { first - 1 - me } else { comm.size() - 1 - (me - first) };
    assert_eq!((merged.rank(), merged.size()), (place, comm.size()));
    used(rank, &merged, phase, len).await
}
