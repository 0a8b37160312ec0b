//! Ranks as values over queues in the memory of one program.

use crate::talk::{pattern, receive, send};
use oxmpi_abi::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG};
use oxmpi_coll::{Buffers, Combine};
use oxmpi_core::world::{MakeTransport, WorldOptions, world_with};
use oxmpi_engine::Mode;
use oxmpi_fabric::transports::loopback::{Loopback, PacketQueues};
use oxmpi_mem::kernels::{ReduceOp, Scalar, kernel};
use oxmpi_mem::layout::Layout;
use oxmpi_mem::memory::Owned;
use oxmpi_plan::{Call, Shared};
use std::sync::Arc;

fn loopback(ranks: u32) -> WorldOptions {
    let queues = Arc::new(PacketQueues::new(0..ranks));
    let make = MakeTransport::new(move |rank| Loopback::new(rank, queues.clone()));
    WorldOptions { transport: Some(make), ..WorldOptions::default() }
}

#[test]
fn messages_of_all_lengths_and_modes_arrive() {
    world_with(2, loopback(2), |p| {
        let comm = p.world().clone();
        let lengths = [0, 1, 57, 16383, 16384, 16385, 65535, 65536, 65537, 1 << 20, 5_000_001];
        for (n, len) in lengths.into_iter().enumerate() {
            for mode in [Mode::Standard, Mode::Synchronous, Mode::Ready] {
                let number = n * 3 + mode as usize;
                let tag = number as i32;
                if comm.rank() == 0 {
                    send(p, &comm, mode, &pattern(0, number, len), 1, tag);
                    assert!(
                        receive(p, &comm, len, 1, tag).0 == pattern(1, number, len),
                        "{len} bytes"
                    );
                } else {
                    let (data, from, its_tag) =
                        receive(p, &comm, len + 1, MPI_ANY_SOURCE, MPI_ANY_TAG);
                    assert!(
                        data == pattern(0, number, len) && (from, its_tag) == (0, tag),
                        "{len} bytes"
                    );
                    send(p, &comm, mode, &pattern(1, number, len), 0, tag);
                }
            }
        }
        let counts = p.fabric_counts().unwrap();
        assert_eq!(
            (counts.inbox_frames, counts.rings),
            (0, 0),
            "nothing goes through shared memory"
        );
    });
}

#[test]
fn everybody_sends_more_to_everybody_than_queues_have_room_for() {
    const RANKS: i32 = 4;
    const EACH: usize = 100;
    world_with(RANKS as u32, loopback(RANKS as u32), |p| {
        let comm = p.world().clone();
        let me = comm.rank();
        let len = |n: usize| [7, 300, 20_000, 70_000][n % 4];
        let mut waits = Vec::new();
        for n in 0..EACH {
            for peer in 0..RANKS {
                let data = Owned::new(pattern(me, n, len(n)));
                waits.push((
                    p.isend(&comm, Mode::Standard, data.buf(), peer, n as i32).unwrap(),
                    data,
                ));
            }
        }
        for n in (0..EACH).rev() {
            for from in 0..RANKS {
                assert!(receive(p, &comm, len(n), from, n as i32).0 == pattern(from, n, len(n)));
            }
        }
        waits.iter().for_each(|(request, _)| {
            p.wait(*request).unwrap();
        });
    });
}

#[test]
fn collectives_of_all_lengths_are_right() {
    world_with(5, loopback(5), |p| {
        let comm = p.world().clone();
        let (rank, size) = (comm.rank() as u64, comm.size() as u64);
        for len in [1, 1000, 200_000] {
            let input = Owned::new((0..len as u64).map(|at| at * (rank + 1)).collect::<Vec<u64>>());
            let output = Owned::new(vec![0u64; len]);
            let element = Some(Arc::new(Layout::basic(8, 8)));
            let call = Call::Allreduce { count: Shared(len), commutative: true, in_place: false };
            let buffers = Buffers { input: input.buf(), output: output.buf(), element };
            p.run(
                &comm,
                call,
                buffers,
                Combine::Kernel(kernel(ReduceOp::Sum, Scalar::U64).unwrap()),
            )
            .unwrap();
            let output = output.into_vec().ok().unwrap();
            let factor = size * (size + 1) / 2;
            assert!(
                output.iter().enumerate().all(|(at, sum)| *sum == at as u64 * factor),
                "{len} numbers"
            );
        }
    });
}
