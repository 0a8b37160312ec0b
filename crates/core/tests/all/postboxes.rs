//! Ranks as values over postboxes.

use crate::talk::{pattern, receive, send};
use oxmpi_abi::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG};
use oxmpi_core::Process;
use oxmpi_core::world::{Sockets, WorldOptions, world_with};
use oxmpi_engine::Mode;
use oxmpi_fabric::Counts;
use oxmpi_fabric::postboxes::PostboxSettings;
use oxmpi_fabric::routes::Routes;
use oxmpi_mem::memory::Owned;
use oxmpi_sys::pause::Pause;
use std::sync::Barrier;

fn usysv(short: u64, pool: u64, max_alloc: usize) -> WorldOptions {
    let settings = PostboxSettings {
        max_alloc,
        write_polls: 10,
        pause: Pause::Yield,
        sleeps: false,
        lock: None,
        survives: false,
    };
    WorldOptions { postboxes: Some((short, pool, settings)), ..WorldOptions::default() }
}

fn sysv(short: u64, pool: u64, max_alloc: usize) -> WorldOptions {
    let settings = PostboxSettings {
        max_alloc,
        write_polls: 0,
        pause: Pause::Select,
        sleeps: true,
        lock: None,
        survives: false,
    };
    WorldOptions { postboxes: Some((short, pool, settings)), ..WorldOptions::default() }
}

fn kinds() -> Vec<WorldOptions> {
    let nodes = WorldOptions {
        ranks_of_a_node: Some(2),
        sockets: Some(Sockets::default()),
        ..sysv(1000, 1 << 16, 5000)
    };
    vec![
        usysv(8192, 2 << 20, 256 << 10),
        sysv(8192, 2 << 20, 256 << 10),
        usysv(64, 64 << 10, 4096),
        sysv(100, 3000, 1000),
        usysv(1, 1 << 16, 1 << 16),
        sysv(8192, 1 << 20, 10),
        usysv(4096, 0, 1),
        nodes,
    ]
}

fn counts(p: &Process<Routes>) -> Counts {
    p.fabric_counts().expect("this thread may ask")
}

#[test]
fn messages_of_all_lengths_and_modes_arrive() {
    for options in kinds() {
        let (short, ..) = options.postboxes.unwrap();
        let s = short as usize;
        world_with(2, options, |p| {
            let comm = p.world().clone();
            let peer = 1 - comm.rank();
            let lengths =
                [0, 1, s - 1, s, s + 1, 2 * s - 1, 2 * s, 2 * s + 1, 3 * s, 10_000, 100_001];
            for (n, len) in lengths.into_iter().enumerate() {
                for mode in [Mode::Standard, Mode::Synchronous, Mode::Ready] {
                    let number = n * 3 + mode as usize;
                    let tag = number as i32;
                    if comm.rank() == 0 {
                        send(p, &comm, mode, &pattern(0, number, len), 1, tag);
                        assert!(receive(p, &comm, len, 1, tag).0 == pattern(1, number, len));
                    } else {
                        let (data, from, its_tag) =
                            receive(p, &comm, len + 1, MPI_ANY_SOURCE, MPI_ANY_TAG);
                        assert!(
                            data == pattern(0, number, len) && (from, its_tag) == (0, tag),
                            "{len} bytes"
                        );
                        send(p, &comm, mode, &pattern(1, number, len), peer, tag);
                    }
                }
            }
        });
    }
}

#[test]
fn all_ranks_send_to_all_ranks_through_a_pool_that_is_too_small() {
    const RANKS: i32 = 4;
    const EACH: usize = 5;
    for options in kinds() {
        let all_have_received = Barrier::new(RANKS as usize);
        let counted = world_with(RANKS as u32, options, |p| {
            let comm = p.world().clone();
            let (me, lens) = (comm.rank(), [30_000, 7, 70_000, 20_000, 300]);
            let mut waits = Vec::new();
            let mut sources = Vec::new();
            for peer in (0..RANKS).filter(|peer| *peer != me) {
                for (n, len) in lens.into_iter().enumerate().take(EACH) {
                    let data = Owned::new(pattern(me, n, len));
                    waits.push((
                        p.isend(&comm, Mode::Standard, data.buf(), peer, n as i32).unwrap(),
                        data,
                    ));
                }
                sources.push(peer);
            }
            for (n, len) in lens.into_iter().enumerate().rev() {
                for from in &sources {
                    let got = receive(p, &comm, len, *from, n as i32).0;
                    assert!(got == pattern(*from, n, len), "message {n} of {from}");
                }
            }
            for (request, _) in &waits {
                p.wait(*request).unwrap();
            }
            all_have_received.wait();
            counts(p)
        });
        for Counts { postbox_pool_used, pooled_pieces, boxed_pieces, postbox_pool_bytes, .. } in
            &counted
        {
            assert_eq!(*postbox_pool_used, 0, "all of the pool came back");
            assert!(*postbox_pool_bytes > 0 || *pooled_pieces == 0);
            assert!(pooled_pieces + boxed_pieces > 0);
        }
    }
}

#[test]
fn short_messages_and_pieces_have_the_lengths_of_the_settings() {
    let len = 100_000usize;
    for (max_alloc, pooled) in [(10_000, 10), (7_000, 15), (1 << 20, 1)] {
        let counted = world_with(2, usysv(1000, 1 << 20, max_alloc), |p| {
            let comm = p.world().clone();
            if comm.rank() == 0 {
                for len in [1000, 2000, 2001, len] {
                    send(p, &comm, Mode::Standard, &pattern(0, len, len), 1, 1);
                }
            } else {
                for len in [1000, 2000, 2001, len] {
                    assert!(receive(p, &comm, len, 0, 1).0 == pattern(0, len, len));
                }
            }
            counts(p)
        });
        assert_eq!(
            (counted[0].pooled_pieces, counted[0].boxed_pieces),
            (1 + pooled, 0),
            "{max_alloc}"
        );
        assert_eq!(counted[0].postbox_bytes, 2 * 64 + 2 * (1000 + 64) + (1 << 20));
        assert_eq!(counted[1].pooled_pieces, 0);
    }
    let counted = world_with(2, usysv(1000, 0, 1 << 20), |p| {
        let comm = p.world().clone();
        if comm.rank() == 0 {
            send(p, &comm, Mode::Standard, &pattern(0, 0, len), 1, 1);
        } else {
            assert!(receive(p, &comm, len, 0, 1).0 == pattern(0, 0, len));
        }
        counts(p)
    });
    assert_eq!(
        (counted[0].pooled_pieces, counted[0].boxed_pieces),
        (0, 99),
        "the first 1000 bytes are there"
    );
}

#[test]
fn a_sender_that_finds_the_postbox_full_pauses_once() {
    for (options, pauses) in [(usysv(1000, 0, 1), 1), (sysv(1000, 0, 1), 0)] {
        let has_counted = Barrier::new(2);
        let counted = world_with(2, options, |p| {
            let comm = p.world().clone();
            if comm.rank() == 0 {
                let datas: Vec<_> = (0..20).map(|n| Owned::new(pattern(0, n, 10))).collect();
                let start =
                    |data: &Owned<u8>| p.isend(&comm, Mode::Standard, data.buf(), 1, 1).unwrap();
                let requests: Vec<_> = datas.iter().map(start).collect();
                let counted = counts(p).pauses;
                has_counted.wait();
                for request in requests {
                    p.wait(request).unwrap();
                }
                counted
            } else {
                has_counted.wait();
                for n in 0..20 {
                    assert_eq!(receive(p, &comm, 10, 0, 1).0, pattern(0, n, 10));
                }
                0
            }
        });
        assert_eq!(counted[0], pauses);
    }
}
