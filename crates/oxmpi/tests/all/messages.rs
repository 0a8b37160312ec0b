//! Messages and requests between ranks on threads.
use oxmpi::{ANY_SOURCE, ANY_TAG, Communicator, Dest, ErrorKind, RequestSet, threads};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Lengths around every change of protocol, in elements of 4 bytes.
const LENGTHS: [usize; 9] = [0, 1, 14, 15, 500, 4096, 4097, 30_000, 300_000];

fn pattern(rank: i32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| i.wrapping_mul(2_654_435_761) ^ rank as u32).collect()
}

#[test]
fn messages_of_all_lengths_arrive_by_all_functions() {
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
                let (data, status) =
                    world.irecv(vec![0; len], peer, ANY_TAG).unwrap().wait().unwrap();
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
fn no_partner_is_valid() {
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
fn problems_of_peers_are_errors() {
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
        assert_eq!(
            (long.kind(), long.class(), long.operation()),
            (ErrorKind::Truncated, 15, "recv_into")
        );
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

fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).err().unwrap();
    payload.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn mistakes_of_the_program_panic_with_their_values() {
    threads(1, |world: &Communicator<'_>| {
        let mut one = [0];
        for (text, said) in [
            (
                "dest is 3; the communicator has the ranks 0 to 0",
                panic_of(|| world.send(&[0], 3, 0)),
            ),
            ("dest is rank -1;", panic_of(|| world.isend(vec![0], -1, 0).map(drop))),
            ("tag is MPI_ANY_TAG (-2);", panic_of(|| world.ssend(&[0], 0, -2))),
            ("tag is -2;", panic_of(|| world.recv::<u8>(0, -2))),
            ("source is rank -3;", panic_of(|| world.recv_into(&mut one, -3, 0))),
            ("source is 9;", panic_of(|| world.probe(9, 0))),
            ("broadcast: root is 1;", panic_of(|| world.broadcast(&mut [0], 1))),
            ("gather: root is MPI_ANY_SOURCE (-1);", panic_of(|| world.gather(&[0], -1))),
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
                // A dropped send is delivered, even if it has to wait for its receiver.
                drop(world.issend(pattern(0, len), 1, 0).unwrap());
                drop(world.isend(pattern(0, len), 1, 1).unwrap());
                world.barrier().unwrap();
            } else {
                world.barrier().unwrap();
                assert!(world.recv::<u32>(0, 0).unwrap().0 == pattern(0, len));
                assert!(world.recv::<u32>(0, 1).unwrap().0 == pattern(0, len));
            }
            // A dropped receive takes no later message.
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
                    // The scope waits for the other requests.
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
        // No receive is left.
        world.send(&[5u8; 4], 0, 1).unwrap();
        assert_eq!(buffer, [0; 4]);
        world.recv_into(&mut buffer, 0, 1).unwrap();
        assert_eq!(buffer, [5; 4]);
    });
}

/// Always true, but unknown to the compiler.
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

#[test]
fn sets_give_out_requests_as_they_complete() {
    threads(4, |world| {
        let me = world.rank();
        if me > 0 {
            for len in LENGTHS {
                world.barrier().unwrap();
                // Rank 1 sends only after rank 0 has received from the other ranks.
                if me == 1 {
                    world.recv::<u8>(0, 7).unwrap();
                }
                world.send(&pattern(me, len), 0, 0).unwrap();
            }
            return;
        }
        for len in LENGTHS {
            let mut set: RequestSet<_> =
                (1..4).map(|rank| world.irecv(vec![0u32; len], rank, 0).unwrap()).collect();
            assert!(set.test_any().is_none() && set.test_some().is_empty());
            world.barrier().unwrap();
            let mut seen = vec![set.wait_any().unwrap()];
            while set.len() > 1 {
                seen.extend(set.wait_some());
            }
            let mut order: Vec<usize> = seen.iter().map(|(index, _)| *index).collect();
            order.sort_unstable();
            assert_eq!(order, [1, 2], "rank 1 has not sent yet");
            assert!(set.test_any().is_none());
            world.send(&[0u8], 1, 7).unwrap();
            seen.extend(set.wait_all());
            assert!(set.is_empty() && set.wait_any().is_none() && set.wait_some().is_empty());
            for (index, received) in seen {
                let (data, status) = received.unwrap();
                assert_eq!(status.source(), Some(index as i32 + 1));
                assert!(data == pattern(index as i32 + 1, len), "length {len}");
            }
        }
    });
}

#[test]
fn indices_stay_those_of_the_order_put_in() {
    threads(1, |world| {
        let mut set: RequestSet<_> =
            (0..3).map(|tag| world.irecv(vec![0u8], 0, tag).unwrap()).collect();
        for tag in [0, 2, 1] {
            world.send(&[tag as u8], 0, tag).unwrap();
            let (index, received) =
                if tag == 1 { set.test_some().remove(0) } else { set.wait_any().unwrap() };
            assert_eq!((index, received.unwrap().0), (tag as usize, vec![tag as u8]));
        }
        assert!(set.is_empty());
    });
}

#[test]
fn one_of_several_that_fails_spoils_no_other() {
    threads(1, |world| {
        let lengths = [4usize, 2, 4];
        let requests = || lengths.map(|len| world.irecv(vec![0u8; len], 0, ANY_TAG).unwrap());
        let send = || (0..3).for_each(|tag| world.send(&[tag as u8; 3], 0, tag).unwrap());
        let mut set = RequestSet::new();
        set.extend(requests());
        send();
        let kinds: Vec<_> =
            set.wait_all().into_iter().map(|(_, r)| r.map(|(data, _)| data)).collect();
        assert_eq!(kinds[0], Ok(vec![0, 0, 0, 0]));
        assert_eq!(kinds[1].as_ref().unwrap_err().kind(), ErrorKind::Truncated);
        assert_eq!(kinds[2], Ok(vec![2, 2, 2, 0]));
        let all = requests();
        send();
        let error = oxmpi::wait_all(all).unwrap_err();
        assert_eq!(
            (error.kind(), error.rank(), error.operation()),
            (ErrorKind::Truncated, Some(0), "wait")
        );
        assert_eq!(world.iprobe(ANY_SOURCE, ANY_TAG).unwrap(), None, "all were received");
    });
}

#[test]
fn a_probed_message_belongs_to_its_finder() {
    threads(2, |world| {
        for len in LENGTHS {
            if world.rank() == 0 {
                let sends = (0..4).map(|tag| world.isend(pattern(tag, len), 1, tag).unwrap());
                let sends: Vec<_> = sends.collect();
                // The receiver discards this message, so the send completes.
                let sync = world.issend(pattern(4, len), 1, 4).unwrap();
                world.send(&[1u8; 3], 1, 5).unwrap();
                oxmpi::wait_all(sends).unwrap();
                sync.wait().unwrap();
                continue;
            }
            let first = world.mprobe(0, ANY_TAG).unwrap();
            let second = world.mprobe(ANY_SOURCE, ANY_TAG).unwrap();
            assert_eq!((first.status().tag(), second.status().tag()), (0, 1));
            // A later message overtakes the probed one.
            assert!(world.recv::<u32>(0, ANY_TAG).unwrap().0 == pattern(2, len));
            assert!(second.irecv(vec![0; len]).unwrap().wait().unwrap().0 == pattern(1, len));
            let mut buffer = vec![0; len];
            let status = first.recv_into(&mut buffer).unwrap();
            assert!(buffer == pattern(0, len) && status.count::<u32>() == Some(len));
            let third = loop {
                if let Some(message) = world.improbe(0, 3).unwrap() {
                    break message;
                }
            };
            assert!(third.recv::<u32>().unwrap().0 == pattern(3, len));
            drop(world.mprobe(0, 4).unwrap());
            let wrong = world.mprobe(0, 5).unwrap().recv::<u16>().unwrap_err();
            assert_eq!((wrong.kind(), wrong.rank()), (ErrorKind::WrongType, Some(0)));
        }
        if world.rank() == 1 {
            assert_eq!(world.mprobe(None, 0).unwrap().recv::<u8>().unwrap().0, []);
        }
    });
}

#[test]
fn persistent_messages_are_started_again_and_again() {
    threads(2, |world| {
        let peer = 1 - world.rank();
        for len in LENGTHS {
            let mut send = world.send_init(vec![0; len], peer, 3).unwrap();
            let mut receive = world.recv_init(vec![0; len], ANY_SOURCE, 3).unwrap();
            for round in 0..5 {
                send.data().copy_from_slice(&pattern(world.rank() + 10 * round, len));
                let received = receive.start().unwrap();
                let sent = send.start().unwrap();
                let statuses = oxmpi::wait_all([received, sent]).unwrap();
                assert_eq!(statuses[0].count::<u32>(), Some(len));
                assert!(
                    receive.data() == pattern(peer + 10 * round, len),
                    "length {len}, round {round}"
                );
            }
            world.barrier().unwrap();
            // The next use waits for a start that the program has not waited for.
            if world.rank() == 0 {
                let _ = send.start().unwrap();
                send.data().fill(7);
                drop(send.start().unwrap());
                drop(send);
            } else {
                assert!(world.recv::<u32>(0, 3).unwrap().0 == pattern(40, len));
                assert!(world.recv::<u32>(0, 3).unwrap().0 == vec![7; len]);
                assert_eq!(receive.start().unwrap().cancel().unwrap(), None);
                drop(receive.start().unwrap());
                assert_eq!(receive.into_data().len(), len);
            }
            world.barrier().unwrap();
        }
    });
}

#[test]
fn a_persistent_message_fails_alone() {
    threads(1, |world| {
        let mut receive = world.recv_init(vec![0u8; 4], 0, 0).unwrap();
        let received = receive.start().unwrap();
        world.send(&[1u8; 9], 0, 0).unwrap();
        assert_eq!(received.wait().unwrap_err().kind(), ErrorKind::Truncated);
        assert_eq!(receive.data(), [1; 4]);
        // A forgotten receive keeps its memory until the memory is needed.
        std::mem::forget(receive.start().unwrap());
        world.send(&[2u8; 3], 0, 0).unwrap();
        assert_eq!(receive.data(), [2, 2, 2, 1]);
        std::mem::forget(receive.start().unwrap());
        drop(receive);
        world.send(&[3u8; 3], 0, 0).unwrap();
        assert_eq!(
            world.recv::<u8>(0, 0).unwrap().0,
            [3; 3],
            "the dropped receive has not taken it"
        );
        let mut nothing = world.send_init(vec![1u8], None, 0).unwrap();
        nothing.start().unwrap().wait().unwrap();
    });
}
