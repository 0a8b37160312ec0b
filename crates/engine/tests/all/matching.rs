//! Which receive gets which message.

use crate::lanes::{Lanes, calm, pattern, request, rough};
use oxmpi_engine::{MatchSource, Mode, RankMap, Started, TagMatch};
use oxmpi_mem::memory::Owned;
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::ContextId;

const ANY: (MatchSource, TagMatch) = (MatchSource::Any, TagMatch::Any);

const LENGTHS: [usize; 8] = [0, 1, 64, 65, 99, 100, 101, 5000];

#[test]
fn one_tag_keeps_its_order_over_paths_that_reorder() {
    for seed in 0..60 {
        let mut l = Lanes::new(2, seed, rough());
        let count = 300;
        let mut sends = Vec::new();
        let mut receives = Vec::new();
        while receives.len() < count || sends.len() < count {
            if sends.len() < count && l.random.below(2) == 0 {
                let n = sends.len();
                let mode = [
                    Mode::Standard,
                    Mode::Standard,
                    Mode::Synchronous,
                    Mode::Buffered,
                    Mode::Ready,
                ][l.random.below(5) as usize];
                sends.push(l.send(0, 1, mode, &pattern(n, LENGTHS[n % 8]), 7));
            }
            if receives.len() < count && l.random.below(2) == 0 {
                let source =
                    [MatchSource::Any, MatchSource::Process(0)][l.random.below(2) as usize];
                let tag = [TagMatch::Any, TagMatch::Is(7)][l.random.below(2) as usize];
                receives.push(l.receive(1, 5000, source, tag));
            }
            for _ in 0..l.random.below(4) {
                l.step();
            }
        }
        l.settle();
        for (n, receive) in receives.into_iter().enumerate() {
            let (data, source, tag) = l.got(1, receive);
            assert!(data == pattern(n, LENGTHS[n % 8]), "seed {seed}, message {n}");
            assert_eq!((source, tag), (0, 7));
        }
        for send in sends {
            assert_eq!(l.query(0, send).expect("complete").fault, None);
        }
        l.assert_quiet();
    }
}

#[test]
fn an_earlier_wildcard_is_not_overtaken() {
    let mut link_faults = calm();
    link_faults.now_of_256 = 255;
    for seed in 0..20 {
        let mut l = Lanes::new(2, seed, link_faults.clone());
        let wild = l.receive(1, 8, MatchSource::Any, TagMatch::Any);
        let named = l.receive(1, 8, MatchSource::Process(0), TagMatch::Is(5));
        let context = l.worlds[0].point_to_point;
        for n in [1u8, 2] {
            if !l.lanes[0].send_now(context, 1, 5, Bytes::from(&[n][..])) {
                let _ = l.send(0, 1, Mode::Standard, &[n], 5);
            }
        }
        l.settle();
        assert_eq!(l.got(1, wild).0, [1]);
        assert_eq!(l.got(1, named).0, [2]);
        l.assert_quiet();
    }
}

#[test]
fn unexpected_messages_are_found_in_the_order_of_arrival() {
    let mut l = Lanes::new(3, 1, calm());
    for (from, n) in [(0, 1), (1, 2), (0, 3)] {
        let _ = l.send(from, 2, Mode::Standard, &[n], i32::from(n));
        l.settle();
    }
    let third = l.receive(2, 1, MatchSource::Process(0), TagMatch::Is(3));
    let first = l.receive(2, 1, ANY.0, ANY.1);
    let second = l.receive(2, 1, MatchSource::Process(1), TagMatch::Any);
    assert_eq!(l.got(2, third).0, [3]);
    assert_eq!(l.got(2, first), (vec![1], 0, 1));
    assert_eq!(l.got(2, second), (vec![2], 1, 2));
}

#[test]
fn a_probe_sees_what_a_receive_would_get() {
    let mut l = Lanes::new(2, 3, rough());
    let context = l.worlds[1].point_to_point;
    assert_eq!(l.lanes[1].probe(context, MatchSource::Any, TagMatch::Any), Ok(None));
    let sends =
        [l.send(0, 1, Mode::Standard, &pattern(1, 3000), 4), l.send(0, 1, Mode::Standard, &[5], 6)];
    l.settle();
    let seen = l.lanes[1].probe(context, MatchSource::Any, TagMatch::Any).unwrap().unwrap();
    assert_eq!((seen.source, seen.tag, seen.bytes), (0, 4, 3000));
    let seen =
        l.lanes[1].probe(context, MatchSource::Process(0), TagMatch::Is(6)).unwrap().unwrap();
    assert_eq!((seen.tag, seen.bytes), (6, 1));
    for (room, tag) in [(1, 6), (3000, 4)] {
        let receive = l.receive(1, room, MatchSource::Any, TagMatch::Is(tag));
        l.settle();
        assert_eq!(l.got(1, receive).0.len(), room);
    }
    for send in sends {
        assert!(l.query(0, send).is_some());
    }
    l.assert_quiet();
}

#[test]
fn messages_to_oneself_need_no_network() {
    const LONG: usize = 1 << 20;
    for (mode, len) in [
        (Mode::Standard, 8),
        (Mode::Standard, LONG),
        (Mode::Synchronous, 8),
        (Mode::Buffered, LONG),
    ] {
        let mut l = Lanes::new(1, 0, calm());
        let receive = l.receive(0, LONG, ANY.0, ANY.1);
        let sent = l.send(0, 0, mode, &pattern(1, len), 3);
        assert!(matches!(sent, Started::Complete(_)), "{mode:?}");
        assert_eq!(l.got(0, receive), (pattern(1, len), 0, 3));
        // The send first; two sends keep their order.
        let waits = mode == Mode::Synchronous || (len == LONG && mode == Mode::Standard);
        let sends = [2, 3].map(|n| l.send(0, 0, mode, &pattern(n, len), 3));
        for (n, send) in [2, 3].into_iter().zip(sends) {
            assert_eq!(l.query(0, send).is_none(), waits, "{mode:?}");
            let context = l.worlds[0].point_to_point;
            let seen =
                l.lanes[0].probe(context, MatchSource::Any, TagMatch::Is(3)).unwrap().unwrap();
            assert_eq!(seen.bytes, len as u64);
            let receive = l.receive(0, LONG, MatchSource::Process(0), TagMatch::Is(3));
            assert!(l.query(0, send).is_some());
            assert_eq!(l.got(0, receive), (pattern(n, len), 0, 3));
        }
        assert_eq!(l.network.borrow().frames(), 0);
        l.assert_quiet();
    }
}

#[test]
fn a_cancelled_receive_leaves_the_message_to_others() {
    let mut l = Lanes::new(2, 0, calm());
    let (first, second) = (l.receive(1, 4, ANY.0, ANY.1), l.receive(1, 4, ANY.0, ANY.1));
    assert!(l.lanes[1].cancel(request(first.started)));
    assert!(!l.lanes[1].cancel(request(first.started)), "twice");
    let _ = l.send(0, 1, Mode::Standard, &[1], 0);
    l.settle();
    assert!(l.query(1, first.started).unwrap().cancelled);
    assert!(!l.lanes[1].cancel(request(second.started)), "it was matched");
    assert_eq!(l.got(1, second).0, [1]);
    l.assert_quiet();
}

#[test]
fn a_cancel_and_a_match_never_both_happen() {
    for seed in 0..200 {
        let mut l = Lanes::new(2, seed, rough());
        let len = LENGTHS[seed as usize % 8];
        let raced = l.receive(1, 5000, ANY.0, ANY.1);
        let send = l.send(0, 1, Mode::Standard, &pattern(1, len), 0);
        for _ in 0..l.random.below(8) {
            l.step();
        }
        let withdrawn = l.lanes[1].cancel(request(raced.started));
        let other = withdrawn.then(|| l.receive(1, 5000, ANY.0, ANY.1));
        l.settle();
        let winner = match other {
            Some(other) => {
                assert!(l.query(1, raced.started).unwrap().cancelled);
                assert!(
                    raced.data.into_vec().is_ok_and(|data| data.iter().all(|byte| *byte == 0xee))
                );
                other
            }
            None => raced,
        };
        assert!(l.got(1, winner).0 == pattern(1, len), "seed {seed}");
        assert!(l.query(0, send).is_some());
        l.assert_quiet();
    }
}

#[test]
fn a_cancelled_send_is_received_or_comes_back_and_never_both() {
    let (mut received, mut back) = (0, 0);
    for seed in 0..400 {
        let mut l = Lanes::new(2, seed, rough());
        let len = LENGTHS[seed as usize % 8];
        let mode = if seed % 16 < 8 { Mode::Synchronous } else { Mode::Standard };
        // A send before and a send behind the cancelled one keep their order.
        let first = l.send(0, 1, Mode::Synchronous, &pattern(0, 9), 0);
        let raced = l.send(0, 1, mode, &pattern(1, len), 0);
        let last = l.send(0, 1, Mode::Standard, &pattern(2, 7), 0);
        let receives = |l: &mut Lanes| [0; 3].map(|_| l.receive(1, 5000, ANY.0, ANY.1));
        let early = (seed % 3 == 0).then(|| receives(&mut l));
        for _ in 0..l.random.below(12) {
            l.step();
        }
        if let Started::Pending(request) = raced {
            l.lanes[0].cancel(request);
            l.lanes[0].cancel(request);
        }
        for _ in 0..l.random.below(12) {
            l.step();
        }
        let [one, two, three] = early.unwrap_or_else(|| receives(&mut l));
        l.settle();
        assert!(l.query(0, first).is_some() && l.query(0, last).is_some());
        assert!(l.got(1, one).0 == pattern(0, 9), "seed {seed}");
        if l.query(0, raced).expect("matched or cancelled").cancelled {
            back += 1;
            assert!(
                l.got(1, two).0 == pattern(2, 7) && l.query(1, three.started).is_none(),
                "seed {seed}"
            );
            assert!(l.lanes[1].cancel(request(three.started)));
        } else {
            received += 1;
            assert!(
                l.got(1, two).0 == pattern(1, len) && l.got(1, three).0 == pattern(2, 7),
                "seed {seed}"
            );
        }
        l.assert_quiet();
    }
    assert!(received > 50 && back > 50, "{received} received, {back} back");
}

#[test]
fn a_cancelled_send_needs_no_receive() {
    let mut l = Lanes::new(2, 0, calm());
    let sends = [0, 1].map(|to| l.send(0, to, Mode::Synchronous, &pattern(to as usize, 40), 0));
    let long = l.send(0, 1, Mode::Standard, &pattern(3, 5000), 0);
    l.settle();
    assert!(l.lanes[0].cancel(request(sends[0])), "to itself");
    assert!(!l.lanes[0].cancel(request(sends[1])) && !l.lanes[0].cancel(request(long)));
    l.settle();
    assert!([sends[0], sends[1], long].into_iter().all(|send| l.query(0, send).unwrap().cancelled));
    // A message that a probe has taken is matched.
    let taken = l.send(0, 1, Mode::Synchronous, &pattern(4, 40), 0);
    l.settle();
    let world = l.worlds[1].point_to_point;
    let (message, _) = l.lanes[1].take_message(world, ANY.0, ANY.1).unwrap().unwrap();
    l.lanes[0].cancel(request(taken));
    l.settle();
    assert!(l.query(0, taken).is_none());
    let data = Owned::new(vec![0; 40]);
    let _ = l.lanes[1].receive_message(message, data.buf()).unwrap();
    l.settle();
    assert!(!l.query(0, taken).unwrap().cancelled && data.into_vec().unwrap() == pattern(4, 40));
    l.assert_quiet();
}

#[test]
fn a_send_whose_communicator_its_receiver_has_freed_can_be_cancelled() {
    for is_early in [true, false] {
        for cancels_first in [true, false] {
            let mut l = Lanes::new(2, 0, calm());
            let teams = [0, 1].map(|me| {
                let lane = &mut l.lanes[me as usize];
                lane.open_team(RankMap::Identity(2), me, ContextId::new(0, 2), true)
            });
            if is_early {
                l.lanes[1].close_team(&teams[1]);
            }
            let data = Owned::new(pattern(0, 40));
            let context = teams[0].point_to_point;
            let send = l.lanes[0].start_send(context, Mode::Synchronous, data.buf(), 1, 0).unwrap();
            if cancels_first {
                assert!(!l.lanes[0].cancel(request(send)));
            }
            l.settle();
            l.lanes[1].close_team(&teams[1]);
            l.lanes[1].progress();
            l.settle();
            if !cancels_first {
                assert!(l.query(0, send).is_none());
                assert!(l.lanes[0].cancel(request(send)));
            }
            assert!(l.query(0, send).unwrap().cancelled);
        }
    }
}
