//! Ranks as values over providers of libfabric, which match their messages. Without libfabric or a
//! provider the tests fail, unless OXMPI_TEST_ALLOW_SKIPS is set.

use crate::talk::pattern;
use oxmpi_abi::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG};
use oxmpi_core::world::{Sockets, WorldOptions, world_with};
use oxmpi_engine::Mode;
use oxmpi_fabric::transports::ofi::TagMode;
use oxmpi_libfabric::{Library, ProviderQuery};
use oxmpi_mem::memory::{Owned, lend, lend_mut};

fn over(
    provider: &str,
    mode: Option<TagMode>,
    ranks_of_a_node: Option<u32>,
) -> Option<WorldOptions> {
    let there = Library::open("libfabric.so.1").and_then(|library| {
        library
            .providers(&ProviderQuery { name: Some(provider.into()), ..ProviderQuery::default() })
    });
    if !there.is_ok_and(|providers| !providers.is_empty()) {
        let is_allowed = std::env::var_os("OXMPI_TEST_ALLOW_SKIPS").is_some();
        assert!(is_allowed, "libfabric has no provider '{provider}' here");
        return None;
    }
    let sockets = Some(Sockets::default());
    Some(WorldOptions {
        ofi: Some((provider.into(), mode)),
        ranks_of_a_node,
        sockets,
        ..WorldOptions::default()
    })
}

#[test]
fn messages_of_all_lengths_and_modes_arrive() {
    const LENGTHS: [usize; 8] = [0, 1, 8, 57, 5000, 65536, 300_000, 3_500_000];
    for mode in [None, Some(TagMode::One), Some(TagMode::Two)] {
        let Some(options) = over("tcp", mode, None) else { return };
        world_with(2, options, |p| {
            let comm = p.dup(p.world()).unwrap();
            let (me, peer) = (comm.rank(), 1 - comm.rank());
            for (number, len) in LENGTHS.into_iter().enumerate() {
                for mode in [Mode::Standard, Mode::Synchronous, Mode::Ready] {
                    let data = pattern(me, number, len);
                    let send = || {
                        lend(&data, |buffer| p.send(&comm, mode, buffer, peer, number as i32))
                            .unwrap()
                    };
                    if me == 0 {
                        send();
                    }
                    let mut got = vec![0u8; len];
                    let done = lend_mut(&mut got, |buffer| {
                        p.recv(&comm, buffer, MPI_ANY_SOURCE, MPI_ANY_TAG)
                    })
                    .unwrap();
                    assert_eq!(
                        (done.source, done.tag, done.bytes as usize),
                        (peer, number as i32, len)
                    );
                    assert!(got == pattern(peer, number, len), "length {len}, {mode:?}");
                    if me == 1 {
                        send();
                    }
                }
            }
        });
    }
}

#[test]
fn all_ranks_send_to_all_ranks_near_and_far() {
    for nodes in [None, Some(2)] {
        let Some(options) = over("tcp", None, nodes) else { return };
        world_with(5, options, |p| {
            let comm = p.world().clone();
            let (me, size) = (comm.rank(), comm.size());
            let length = |from: i32, to: i32, n: usize| {
                [8, 70_000, 900_000][n % 3] + (from * 10 + to) as usize
            };
            for n in 0..12 {
                let incoming: Vec<_> = (1..size)
                    .map(|_| {
                        let buffer = Owned::new(vec![0u8; 1 << 20]);
                        (p.irecv(&comm, buffer.buf(), MPI_ANY_SOURCE, n as i32).unwrap(), buffer)
                    })
                    .collect();
                let outgoing: Vec<_> = (0..size)
                    .filter(|to| *to != me)
                    .map(|to| {
                        let buffer = Owned::new(pattern(me, n, length(me, to, n)));
                        (
                            p.isend(&comm, Mode::Standard, buffer.buf(), to, n as i32).unwrap(),
                            buffer,
                        )
                    })
                    .collect();
                let mut from: Vec<_> = incoming
                    .into_iter()
                    .map(|(request, buffer)| {
                        let done = p.wait(request).unwrap();
                        let mut got = buffer.into_vec().ok().unwrap();
                        got.truncate(done.bytes as usize);
                        assert!(
                            got == pattern(done.source, n, length(done.source, me, n)),
                            "message {n}"
                        );
                        done.source
                    })
                    .collect();
                from.sort_unstable();
                assert!(from.into_iter().eq((0..size).filter(|rank| *rank != me)));
                for (request, _buffer) in outgoing {
                    p.wait(request).unwrap();
                }
            }
        });
    }
}
