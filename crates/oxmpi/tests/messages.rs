//! Messages and requests between ranks on threads.
#![allow(clippy::unwrap_used)] // a test may panic anywhere

use oxmpi::{ANY_SOURCE, ANY_TAG, Communicator, Dest, ErrorKind, threads};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Lengths around every change of protocol, in elements of 4 bytes.
const LENGTHS: [usize; 9] = [0, 1, 14, 15, 500, 4096, 4097, 30_000, 300_000];

fn pattern(rank: i32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| i.wrapping_mul(2_654_435_761) ^ rank as u32).collect()
}

#[test]
fn messages_of_all_lengths_arrive_in_all_ways() {
    threads(2, |world| {
        let peer = 1 - world.rank();
        for len in LENGTHS {
            let (mine, theirs) = (pattern(world.rank(), len), pattern(peer, len));
            let mut buffer = vec![0; len + 1];
            if world.rank() == 0 {
                world.send(&mine, peer, 1).unwrap();
                world.ssend(&mine, peer, 2).unwrap();
                world.isend(mine.clone(), peer, 3).unwrap().wait().unwrap();
                let (back, _) = world.issend(mine.clone(), peer, 4).unwrap().wait().unwrap();
                assert_eq!(back, mine);
            } else {
                let (data, status) = world.recv::<u32>(peer, 1).unwrap();
                assert!(data == theirs && status.count::<u32>() == Some(len), "length {len}");
                let status = world.recv_into(&mut buffer, ANY_SOURCE, ANY_TAG).unwrap();
                assert_eq!((status.source(), status.tag(), status.bytes()), (Some(0), 2, 4 * len));
                assert!(buffer[..len] == theirs, "length {len}");
                let (data, status) = world.irecv(vec![0; len], peer, ANY_TAG).unwrap().wait().unwrap();
                assert!(data == theirs && status.tag() == 3, "length {len}");
                assert!(world.probe(ANY_SOURCE, 4).unwrap().bytes() == 4 * len);
                assert!(world.recv::<u32>(ANY_SOURCE, 4).unwrap().0 == theirs);
            }
            let status = world.sendrecv(&mine, peer, 5, &mut buffer, peer, 5).unwrap();
            assert!(buffer[..len] == theirs && status.count::<u32>() == Some(len), "length {len}");
        }
        assert_eq!(world.iprobe(ANY_SOURCE, ANY_TAG).unwrap(), None);
    });
}

#[test]
fn nobody_is_a_partner_too() {
    threads(1, |world| {
        let mut buffer = [7];
        let status = world.sendrecv(&[1], None, 0, &mut buffer, None, 0).unwrap();
        assert_eq!((status.source(), status.bytes(), buffer), (None, 0, [7]));
        world.send(&[1], Dest::Nobody, 0).unwrap();
        assert_eq!(world.recv::<u8>(None, ANY_TAG).unwrap().0, []);
        assert_eq!(world.irecv(vec![3], None, 0).unwrap().wait().unwrap().0, [3]);
    });
}

#[test]
fn what_peers_cause_is_an_error() {
    threads(2, |world| {
        if world.rank() == 0 {
            world.send(&[1u8; 6], 1, 0).unwrap();
            world.send(&[1u8; 6], 1, 1).unwrap();
            world.send(&[2u8; 9], 1, 2).unwrap();
            world.send(&[2u8; 9], 1, 3).unwrap();
            world.send(&[2u8; 9], 1, 4).unwrap();
            return;
        }
        let wrong = world.recv::<u32>(0, 0).unwrap_err();
        assert_eq!(wrong.kind(), ErrorKind::WrongType);
        assert_eq!(
            wrong.to_string(),
            "recv: a message of 6 bytes from rank 0 with tag 0 is no whole number of u32 (4 bytes)"
        );
        assert_eq!(world.recv_into(&mut [0u32; 2], 0, 1).unwrap_err().kind(), ErrorKind::WrongType);
        let long = world.recv_into(&mut [0u8; 8], 0, 2).unwrap_err();
        assert_eq!((long.kind(), long.class(), long.operation()), (ErrorKind::Truncated, 15, "recv_into"));
        assert_eq!(
            long.to_string(),
            "recv_into: a message of 9 bytes arrived for a receive buffer of 8 bytes"
        );
        let long = world.sendrecv(&[0u8; 0], None, 0, &mut [0u8; 8], 0, 4).unwrap_err();
        assert_eq!((long.kind(), long.operation()), (ErrorKind::Truncated, "sendrecv"));
        let long = world.irecv(vec![0u8; 8], 0, 3).unwrap().wait().unwrap_err();
        assert_eq!((long.kind(), long.operation()), (ErrorKind::Truncated, "wait"));
    });
}

/// What a panic of `f` says.
fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).err().unwrap();
    payload.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn mistakes_of_the_program_panic_with_their_values() {
    threads(1, |world: &Communicator<'_>| {
        let mut one = [0];
        for (text, said) in [
            ("dest is 3; the communicator has the ranks 0 to 0", panic_of(|| world.send(&[0], 3, 0))),
            ("dest is rank -1;", panic_of(|| world.isend(vec![0], -1, 0).map(drop))),
            ("tag is -2;", panic_of(|| world.ssend(&[0], 0, -2))),
            ("tag is -2;", panic_of(|| world.recv::<u8>(0, -2))),
            ("source is rank -3;", panic_of(|| world.recv_into(&mut one, -3, 0))),
            ("source is 9;", panic_of(|| world.probe(9, 0))),
            ("broadcast: root is 1;", panic_of(|| world.broadcast(&mut [0], 1))),
            ("gather: root is -1;", panic_of(|| world.gather(&[0], -1))),
            (
                "all has 3 elements, which are not 1 blocks of 2",
                panic_of(|| world.scatter(&[0; 3], &mut [0; 2], 0)),
            ),
            (
                "data has 1 elements and result has 2",
                panic_of(|| world.all_reduce_into(&[0], &mut [0; 2], oxmpi::Sum)),
            ),
            ("color is -2147483648;", panic_of(|| world.split(Some(-5), 0).map(drop))),
        ] {
            assert!(said.contains(text), "'{said}' has no '{text}'");
        }
    });
}

#[test]
fn a_request_that_is_dropped_does_what_its_page_says() {
    threads(2, |world| {
        for len in [1, 30_000] {
            if world.rank() == 0 {
                // A dropped send is delivered, also if it had to wait for its receiver.
                drop(world.issend(pattern(0, len), 1, 0).unwrap());
                drop(world.isend(pattern(0, len), 1, 1).unwrap());
                world.barrier().unwrap();
            } else {
                world.barrier().unwrap();
                assert!(world.recv::<u32>(0, 0).unwrap().0 == pattern(0, len));
                assert!(world.recv::<u32>(0, 1).unwrap().0 == pattern(0, len));
            }
            // A dropped receive takes no message from those that come after it.
            if world.rank() == 1 {
                drop(world.irecv(vec![0u32; len], 0, 2).unwrap());
                world.barrier().unwrap();
                assert!(world.recv::<u32>(0, 2).unwrap().0 == pattern(5, len));
            } else {
                world.barrier().unwrap();
                world.send(&pattern(5, len), 1, 2).unwrap();
            }
        }
    });
}

#[test]
fn a_forgotten_receive_keeps_its_memory() {
    threads(1, |world| {
        std::mem::forget(world.irecv(vec![0u8; 100], 0, 0).unwrap());
        world.send(&[1u8; 100], 0, 0).unwrap();
        assert_eq!(world.iprobe(0, 0).unwrap(), None, "the forgotten receive took it");
    });
}

#[test]
fn test_says_when_wait_does_not_wait() {
    threads(2, |world| {
        if world.rank() == 0 {
            let receive = world.irecv(vec![0u16; 4], 1, 0).unwrap();
            assert!(!receive.test());
            world.barrier().unwrap();
            while !receive.test() {}
            assert_eq!(receive.wait().unwrap().0, [9; 4]);
        } else {
            world.barrier().unwrap();
            world.send(&[9u16; 4], 0, 0).unwrap();
        }
    });
}

#[test]
fn scopes_complete_what_they_start() {
    threads(3, |world| {
        let size = world.size();
        for len in LENGTHS {
            let mine = pattern(world.rank(), len);
            let mut theirs = vec![vec![0u32; len]; size as usize];
            let first = world
                .scope(|s| {
                    let mut receives = Vec::new();
                    for (from, buffer) in (0..size).zip(&mut theirs) {
                        receives.push(s.irecv(buffer, from, 0)?);
                    }
                    for to in 0..size {
                        s.isend(&mine, to, 0)?;
                    }
                    // One is waited for here, the others by the scope.
                    receives.swap_remove(0).wait()
                })
                .unwrap();
            assert_eq!((first.source(), first.count::<u32>()), (Some(0), Some(len)));
            for (rank, data) in (0..size).zip(&theirs) {
                assert!(*data == pattern(rank, len), "length {len}");
            }
        }
    });
}

#[test]
fn a_scope_that_fails_or_panics_gives_its_buffers_back() {
    threads(1, |world| {
        let mut buffer = [0u8; 4];
        let error = world.scope(|s| {
            s.irecv(&mut buffer, 0, 1)?;
            world.recv_into(&mut [0u8; 0], None, 0)?;
            world.send(&[1u8; 3], 0, 0)?;
            world.recv::<u16>(0, 0).map(drop)
        });
        assert_eq!(error.unwrap_err().kind(), ErrorKind::WrongType);
        let said = panic_of(|| {
            world.scope(|s| {
                s.irecv(&mut buffer, 0, 1)?;
                if buffer_is_lent() {
                    panic!("{}", "out of the scope")
                }
                Ok(())
            })
        });
        assert_eq!(said, "out of the scope");
        // Neither receive is there any more.
        world.send(&[5u8; 4], 0, 1).unwrap();
        assert_eq!(buffer, [0; 4]);
        world.recv_into(&mut buffer, 0, 1).unwrap();
        assert_eq!(buffer, [5; 4]);
    });
}

/// True; the compiler shall not know.
fn buffer_is_lent() -> bool {
    std::hint::black_box(true)
}

#[test]
fn errors_of_messages_come_out_of_the_scope() {
    threads(1, |world| {
        let mut short = [0u8; 2];
        let sent = [1u8; 3];
        let outcome = world.scope(|s| {
            s.irecv(&mut short, 0, 0)?;
            s.isend(&sent, 0, 0)?;
            Ok(())
        });
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Truncated);
    });
}
