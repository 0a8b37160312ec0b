//! The transfer of messages of all lengths, modes and layouts.

use crate::lanes::{Lanes, calm, pattern, request, rough};
use oxmpi_engine::{Fault, MatchSource, Mode, RankMap, Started, TagMatch, Team};
use oxmpi_mem::layout::Layout;
use oxmpi_mem::memory::Owned;
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::ContextId;
use std::sync::Arc;

const FROM_0: (MatchSource, TagMatch) = (MatchSource::Process(0), TagMatch::Is(1));

#[test]
fn a_message_longer_than_its_buffer_is_cut_and_says_so() {
    for (seed, posted) in [(1, true), (2, false)] {
        for (len, room) in [
            (20, 8),
            (20, 0),
            (100, 30),
            (100, 99),
            (101, 100),
            (4000, 3999),
            (4000, 0),
            (4000, 50),
        ] {
            let mut l = Lanes::new(2, seed, rough());
            let early = posted.then(|| l.receive(1, room, FROM_0.0, FROM_0.1));
            let sent = l.send(0, 1, Mode::Standard, &pattern(3, len), 1);
            let next = l.send(0, 1, Mode::Synchronous, &pattern(4, 90), 1);
            l.settle();
            let receive = early.unwrap_or_else(|| l.receive(1, room, FROM_0.0, FROM_0.1));
            let after = l.receive(1, 90, FROM_0.0, FROM_0.1);
            l.settle();
            let done = l.query(1, receive.started).expect("complete");
            assert_eq!(
                done.fault,
                Some(Fault::Truncated { length: len as u64, room: room as u64 })
            );
            assert_eq!((done.source, done.tag, done.bytes), (0, 1, room as u64));
            assert_eq!(receive.data.into_vec().unwrap_or_default(), pattern(3, len)[..room]);
            assert_eq!(
                l.query(0, sent).expect("complete").fault,
                None,
                "the sender has no part in it"
            );
            assert_eq!(l.got(1, after).0, pattern(4, 90));
            assert!(l.query(0, next).is_some());
            l.assert_quiet();
        }
    }
}

#[test]
fn a_receive_posted_in_the_middle_of_a_body_gets_all_of_it() {
    let mut link_faults = calm();
    link_faults.pause_of_256 = 200;
    for seed in 0..50 {
        let mut l = Lanes::new(2, seed, link_faults.clone());
        let _ = l.send(0, 1, Mode::Standard, &pattern(1, 100), 1);
        let _ = l.send(0, 1, Mode::Standard, &pattern(2, 100), 1);
        for _ in 0..1 + l.random.below(6) {
            l.step();
        }
        let receives = [0, 1].map(|_| l.receive(1, 100, FROM_0.0, FROM_0.1));
        l.settle();
        for (n, receive) in receives.into_iter().enumerate() {
            assert!(l.got(1, receive).0 == pattern(n + 1, 100), "seed {seed}");
        }
        l.assert_quiet();
    }
}

#[test]
fn a_synchronous_send_waits_for_its_receive() {
    for len in [0, 8, 100, 1000] {
        let mut l = Lanes::new(2, 5, rough());
        let send = l.send(0, 1, Mode::Synchronous, &pattern(1, len), 1);
        l.settle();
        assert_eq!(l.query(0, send), None);
        assert!(!l.lanes[0].is_drained());
        let receive = l.receive(1, len, FROM_0.0, FROM_0.1);
        l.settle();
        assert!(l.query(0, send).is_some());
        assert_eq!(l.got(1, receive).0, pattern(1, len));
        l.assert_quiet();
    }
}

#[test]
fn a_buffered_send_has_its_own_copy_and_is_complete_at_once() {
    let mut link_faults = rough();
    for full in [0, 255] {
        for later in [0, 255] {
            for len in [0, 8, 100, 5000] {
                link_faults.full_of_256 = full;
                link_faults.later_of_256 = later;
                let mut l = Lanes::new(2, 6, link_faults.clone());
                let data = Owned::new(pattern(1, len));
                let sent = l.start_send(0, 1, Mode::Buffered, &data, 1).unwrap();
                assert!(matches!(sent, Started::Complete(c) if c.fault.is_none()));
                let mut data = data
                    .into_vec()
                    .unwrap_or_else(|_| panic!("{full} {later} {len}: still in use"));
                data.fill(0);
                l.network.borrow_mut().set_faults(rough());
                let receive = l.receive(1, len, FROM_0.0, FROM_0.1);
                l.settle();
                assert_eq!(l.got(1, receive).0, pattern(1, len));
                l.assert_quiet();
            }
        }
    }
}

#[test]
fn nothing_is_drained_before_it_is_gone() {
    let mut link_faults = calm();
    link_faults.full_of_256 = 255;
    let mut l = Lanes::new(2, 0, link_faults);
    let sends: Vec<_> = (0..10).map(|n| l.send(0, 1, Mode::Standard, &pattern(n, 10), 1)).collect();
    let buffered = l.send(0, 1, Mode::Buffered, &pattern(10, 10), 1);
    assert!(matches!(buffered, Started::Complete(_)));
    let freed = l.send(0, 1, Mode::Standard, &pattern(11, 10), 1);
    assert!(l.lanes[0].detach(request(freed)));
    assert!(!l.lanes[0].is_drained());
    assert_eq!(l.lanes[0].buffered_in(None), 10);
    l.network.borrow_mut().set_faults(calm());
    l.settle();
    l.assert_quiet();
    for send in sends {
        assert!(l.query(0, send).is_some());
    }
    for n in 0..12 {
        let receive = l.receive(1, 10, FROM_0.0, FROM_0.1);
        assert_eq!(l.got(1, receive).0, pattern(n, 10));
    }
}

#[test]
fn elements_with_gaps_arrive_in_gaps() {
    // 4 bytes every 12, sent to 6 bytes every 7.
    let basic = |n| Layout::basic(n, 1);
    let sparse = Arc::new(Layout::resized(0, 12, &basic(4)).unwrap());
    let dense = Arc::new(Layout::resized(0, 7, &basic(6)).unwrap());
    for (count, seed) in [(6, 1), (24, 2), (240, 3), (2400, 4)] {
        for posted in [true, false] {
            let mut l = Lanes::new(2, seed, rough());
            let from = Owned::new(pattern(1, count * 12));
            let mut into = Owned::new(vec![0xeeu8; count * 4 / 6 * 7]);
            let context = l.worlds[0].point_to_point;
            let (source, target) = (
                from.buf().cast(count, &sparse).unwrap(),
                into.buf().cast(count * 4 / 6, &dense).unwrap(),
            );
            let mut receive = None;
            if posted {
                receive = Some(
                    l.lanes[1].start_receive(context, target.clone(), FROM_0.0, FROM_0.1).unwrap(),
                );
            }
            let send = l.lanes[0].start_send(context, Mode::Standard, source, 1, 1).unwrap();
            l.settle();
            let receive = receive.unwrap_or_else(|| {
                l.lanes[1].start_receive(context, target, FROM_0.0, FROM_0.1).unwrap()
            });
            l.settle();
            assert_eq!(
                l.query(1, receive).map(|c| (c.bytes, c.fault)),
                Some((count as u64 * 4, None))
            );
            assert!(l.query(0, send).is_some());
            let packed: Vec<u8> = pattern(1, count * 12)
                .chunks(12)
                .flat_map(|element| element[..4].to_vec())
                .collect();
            let expected: Vec<u8> =
                packed.chunks(6).flat_map(|six| [six, &[0xee]].concat()).collect();
            assert!(into.as_slice().is_some_and(|got| *got == expected[..]), "{count} elements");
            l.assert_quiet();
        }
    }
}

#[test]
fn indices_of_contexts_are_learnt() {
    for seed in 0..30 {
        let mut link_faults = rough();
        link_faults.now_of_256 = 255;
        // The index of a context travels in a hint, which is dropped if there is no room.
        link_faults.full_of_256 = 0;
        let mut l = Lanes::new(2, seed, link_faults);
        let ids = [ContextId::new(0, 7), ContextId::new(1, 9)];
        let map = || RankMap::new(vec![1, 0]);
        // Each process opens the contexts in another order, so the indices differ.
        let at_0 = ids.map(|id| l.lanes[0].open_team(map(), 1, id, false));
        let mut at_1 = [ids[1], ids[0]].map(|id| l.lanes[1].open_team(map(), 0, id, false));
        at_1.reverse();
        assert_ne!(at_0[0].point_to_point, at_1[0].point_to_point);
        let context = at_0[0].point_to_point;
        assert!(
            !l.lanes[0].send_now(context, 1, 1, Bytes::from(&[9][..])),
            "the name is not known yet"
        );
        for round in 0..3u8 {
            for (which, team) in at_0.iter().enumerate() {
                let data = Owned::new(vec![which as u8, round]);
                let sent =
                    l.lanes[0].start_send(team.point_to_point, Mode::Standard, data.buf(), 1, 1);
                assert!(sent.is_ok());
            }
            if round == 0 {
                l.settle();
            }
        }
        l.settle();
        let known = (0..64).any(|_| l.lanes[0].send_now(context, 1, 1, Bytes::from(&[0, 3][..])));
        assert!(known, "the name is known now");
        l.settle();
        for (which, team) in at_1.iter().enumerate() {
            for round in 0..3 + u8::from(which == 0) {
                let data = Owned::new(vec![0u8; 2]);
                let started = l.lanes[1].start_receive(
                    team.point_to_point,
                    data.buf(),
                    MatchSource::Any,
                    TagMatch::Any,
                );
                let done = l.query(1, started.unwrap()).expect("complete");
                assert_eq!(done.source, 1, "process 0 has rank 1 there");
                assert_eq!(data.into_vec().unwrap_or_default(), [which as u8, round]);
            }
        }
        l.assert_quiet();
    }
}

#[test]
fn messages_that_come_before_their_communicator_are_kept() {
    for len in [5, 100, 2000] {
        let mut l = Lanes::new(2, 8, rough());
        let id = ContextId::new(0, 5);
        let ours = l.lanes[0].open_team(RankMap::Identity(2), 0, id, false);
        let sends = [1, 2].map(|n| {
            let data = Owned::new(pattern(n, len));
            l.lanes[0].start_send(ours.point_to_point, Mode::Standard, data.buf(), 1, 4).unwrap()
        });
        l.settle();
        let theirs = l.lanes[1].open_team(RankMap::Identity(2), 1, id, false);
        for (n, send) in [1, 2].into_iter().zip(sends) {
            let data = Owned::new(vec![0u8; len]);
            let receive = l.lanes[1].start_receive(
                theirs.point_to_point,
                data.buf(),
                MatchSource::Any,
                TagMatch::Any,
            );
            l.settle();
            let done = l.query(1, receive.unwrap()).expect("complete");
            assert_eq!((done.source, done.tag), (0, 4));
            assert_eq!(data.into_vec().unwrap_or_default(), pattern(n, len));
            assert!(l.query(0, send).is_some());
        }
        l.assert_quiet();
    }
}

#[test]
fn a_closed_communicator_cancels_its_receives_and_drops_what_comes() {
    let mut link_faults = rough();
    link_faults.pause_of_256 = 128;
    for seed in 0..30 {
        let mut l = Lanes::new(2, seed, link_faults.clone());
        let id = ContextId::new(0, 5);
        let teams =
            [0, 1].map(|me| l.lanes[me].open_team(RankMap::Identity(2), me as u32, id, true));
        let data = Owned::new(vec![0u8; 100]);
        let receive = l.lanes[1]
            .start_receive(
                teams[1].point_to_point,
                data.buf(),
                MatchSource::Process(0),
                TagMatch::Is(1),
            )
            .unwrap();
        assert!(l.lanes[1].is_busy(&teams[1]));
        l.lanes[1].close_team(&teams[1]);
        assert!(!l.lanes[1].is_busy(&teams[1]));
        assert!(l.query(1, receive).unwrap().cancelled);
        // Late messages to the closed communicator arrive between other messages whose bodies
        // arrive in parts.
        for n in 0..20 {
            let late = Owned::new(pattern(n, 100));
            let _ = l.lanes[0]
                .start_send(teams[0].point_to_point, Mode::Standard, late.buf(), 1, 1)
                .unwrap();
            let _ = l.send(0, 1, Mode::Standard, &pattern(n, 90), 1);
        }
        let receives: Vec<_> = (0..20).map(|_| l.receive(1, 90, FROM_0.0, FROM_0.1)).collect();
        l.settle();
        for (n, receive) in receives.into_iter().enumerate() {
            assert!(l.got(1, receive).0 == pattern(n, 90), "seed {seed}, message {n}");
        }
        assert_eq!(l.lanes[1].nonsense(), 20);
    }
}

/// Cancels 60 synchronous sends, each after some steps, and returns the number of sends that
/// complete as cancelled. `before` is called before each send, `meanwhile` some steps after its
/// cancellation.
fn cancelled_of_60(
    before: impl Fn(&mut Lanes, &[Arc<Team>; 2]),
    meanwhile: impl Fn(&mut Lanes),
) -> usize {
    let mut link_faults = rough();
    link_faults.later_of_256 = 128;
    let cancelled = |seed| {
        let mut l = Lanes::new(2, seed, link_faults.clone());
        let id = ContextId::new(0, 5);
        let teams =
            [0, 1].map(|me| l.lanes[me].open_team(RankMap::Identity(2), me as u32, id, true));
        before(&mut l, &teams);
        let data = Owned::new(pattern(1, 90));
        let to = teams[0].point_to_point;
        let send = l.lanes[0].start_send(to, Mode::Synchronous, data.buf(), 1, 1);
        let Ok(send @ Started::Pending(request)) = send else { panic!("nobody has matched it") };
        let (first, then) = (l.random.below(12), l.random.below(12));
        (0..first).for_each(|_| _ = l.step());
        l.lanes[0].cancel(request);
        (0..then).for_each(|_| _ = l.step());
        meanwhile(&mut l);
        l.settle();
        l.query(0, send).is_some_and(|completion| completion.cancelled)
    };
    (0..60).filter(|seed| cancelled(*seed)).count()
}

#[test]
fn a_send_to_a_closed_communicator_can_be_cancelled() {
    // With these link faults the notice that no receive can take the message may find no room, or
    // may arrive before the data have left.
    assert_eq!(cancelled_of_60(|l, teams| l.lanes[1].close_team(&teams[1]), |_| ()), 60);
}

#[test]
fn a_send_to_a_process_that_leaves_can_be_cancelled() {
    let leave = |l: &mut Lanes| {
        // A process sends all frames that it owes before it leaves.
        while !l.lanes[1].is_drained() && l.step() {}
        l.network.borrow_mut().leave(1);
    };
    assert_eq!(cancelled_of_60(|l, _| leave(l), |_| ()), 60);
    assert_eq!(cancelled_of_60(|_, _| (), leave), 60);
}

#[test]
fn a_send_that_was_received_before_its_receiver_leaves_is_not_cancelled() {
    let (mut received, mut cancelled) = (0, 0);
    for seed in 0..200 {
        let mut l = Lanes::new(2, seed, rough());
        let sends: Vec<Started> =
            (0..3).map(|n| l.send(0, 1, Mode::Synchronous, &pattern(n, 90), 1)).collect();
        (0..l.random.below(12)).for_each(|_| _ = l.step());
        let receive = l.receive(1, 90, FROM_0.0, FROM_0.1);
        for send in &sends {
            if let Started::Pending(request) = send {
                l.lanes[0].cancel(*request);
            }
            (0..l.random.below(4)).for_each(|_| _ = l.step());
        }
        while !l.lanes[1].is_drained() && l.step() {}
        let came = l.query(1, receive.started).is_some();
        l.network.borrow_mut().leave(1);
        l.settle();
        let back: Vec<bool> =
            sends.into_iter().map(|send| l.query(0, send).expect("complete").cancelled).collect();
        // An incomplete receive may have a match, and wait for the rest of its data.
        let matched = back.iter().filter(|back| !**back).count();
        assert!(matched == 1 || matched == 0 && !came, "seed {seed}: {back:?}, received: {came}");
        received += usize::from(came);
        cancelled += usize::from(!came);
    }
    assert!(received > 10 && cancelled > 10, "{received} received, {cancelled} cancelled");
}
