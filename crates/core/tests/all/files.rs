//! Ranks as values over the example of a transport, through files.

use crate::files_transport::{Directory, EAGER, Files, PIECE, ROOM};
use crate::talk::{pattern, receive, send};
use oxmpi_abi::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG};
use oxmpi_core::world::{MakeTransport, WorldOptions, world_with};
use oxmpi_engine::Mode;
use oxmpi_mem::memory::Owned;

fn over_files(ranks: u32, directory: &Directory) -> WorldOptions {
    let root = directory.0.clone();
    let make = MakeTransport::new(move |rank| Files::new(rank, 0..ranks, &root).unwrap());
    WorldOptions { transport: Some(make), ..WorldOptions::default() }
}

#[test]
fn messages_of_all_lengths_and_modes_arrive() {
    let directory = Directory::new("lengths");
    world_with(2, over_files(2, &directory), |p| {
        let comm = p.world().clone();
        let (me, peer) = (comm.rank(), 1 - comm.rank());
        let lengths =
            [0, 1, EAGER - 1, EAGER, EAGER + 1, PIECE - 1, PIECE, PIECE + 1, 7 * PIECE + 1];
        for (n, len) in lengths.into_iter().enumerate() {
            for mode in [Mode::Standard, Mode::Synchronous, Mode::Ready] {
                if me == 0 {
                    send(p, &comm, mode, &pattern(0, n, len), peer, n as i32);
                }
                let (data, from, tag) = receive(p, &comm, len, MPI_ANY_SOURCE, MPI_ANY_TAG);
                assert!(
                    data == pattern(peer, n, len) && (from, tag) == (peer, n as i32),
                    "{len} bytes"
                );
                if me == 1 {
                    send(p, &comm, mode, &pattern(1, n, len), peer, n as i32);
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
fn everybody_sends_more_to_everybody_than_directories_have_room_for() {
    const RANKS: i32 = 3;
    const EACH: usize = 2 * ROOM as usize;
    let directory = Directory::new("room");
    world_with(RANKS as u32, over_files(RANKS as u32, &directory), |p| {
        let comm = p.world().clone();
        let len = |n: usize| [7, 300, EAGER + 1][n % 3];
        let mut waits = Vec::new();
        for n in 0..EACH {
            for peer in 0..RANKS {
                let data = Owned::new(pattern(comm.rank(), n, len(n)));
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
