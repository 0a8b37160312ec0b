//! Messages that the network matches, mixed with messages that the lane matches. Ranks 0 and 1 are
//! one node, 2 and 3 another.

use crate::lanes::{self, Lanes, calm, pattern, request};
use oxmpi_engine::{Completion, Fault, MatchSource, Mode, RankMap, Started, TagMatch};
use oxmpi_fabric::sim::LinkFaults;
use oxmpi_mem::memory::Owned;
use oxmpi_wire::ContextId;

const LOST_2: Option<Fault> = Some(Fault::Lost { peer: 2 });

fn two_nodes() -> Lanes {
    Lanes::new(4, 1, LinkFaults { matched_beyond: Some(2), ..calm() })
}

fn any(l: &mut Lanes) -> lanes::Receive {
    l.receive(0, 10, MatchSource::Any, TagMatch::Is(1))
}

#[test]
fn two_messages_get_two_receives_from_any_source() {
    for (first, second) in [(1, 2), (2, 1), (0, 2), (2, 0)] {
        let mut l = two_nodes();
        let receives = [any(&mut l), any(&mut l)];
        let _ = l.send(first, 0, Mode::Standard, &[first as u8], 1);
        let _ = l.send(second, 0, Mode::Standard, &[second as u8], 1);
        l.settle();
        let mut came = receives.map(|receive| l.got(0, receive).0[0]);
        came.sort_unstable();
        let mut sent = [first as u8, second as u8];
        sent.sort_unstable();
        assert_eq!(came, sent);
        l.assert_quiet();
    }
}

#[test]
fn the_network_may_have_matched_what_another_message_wants() {
    let mut l = two_nodes();
    let receive = any(&mut l);
    // The message reaches the network first, but the lane has not polled it when the other message
    // arrives.
    let _ = l.send(2, 0, Mode::Standard, &[2], 1);
    let _ = l.send(0, 0, Mode::Standard, &[0], 1);
    l.settle();
    assert_eq!(l.got(0, receive).1, 0, "its own is there at once");
    let later = any(&mut l);
    l.settle();
    assert_eq!(l.got(0, later).1, 2);
    l.assert_quiet();
}

#[test]
fn a_named_source_is_left_to_the_network_and_a_long_message_is_cut() {
    let mut l = two_nodes();
    let receive = l.receive(0, 10, MatchSource::Process(3), TagMatch::Any);
    let _ = l.send(1, 0, Mode::Standard, &[1], 1);
    let _ = l.send(3, 0, Mode::Standard, &pattern(3, 30), 4);
    l.settle();
    let done = l.query(0, receive.started).expect("complete");
    assert_eq!((done.source, done.tag, done.bytes), (3, 4, 10));
    assert_eq!(done.fault, Some(Fault::Truncated { length: 30, room: 10 }));
    assert_eq!(receive.data.into_vec().ok(), Some(pattern(3, 10)));
    let other = any(&mut l);
    assert_eq!(l.got(0, other).1, 1);
    l.assert_quiet();
}

#[test]
fn a_synchronous_send_waits_for_its_match_in_the_network() {
    let mut l = two_nodes();
    let sent = l.send(2, 0, Mode::Synchronous, &[7], 1);
    l.settle();
    assert_eq!(l.query(2, sent), None);
    // The message has left, and the network cannot withdraw it.
    assert!(!l.lanes[2].cancel(request(sent)));
    let receive = any(&mut l);
    l.settle();
    assert_eq!(l.query(2, sent), Some(Completion::EMPTY));
    assert_eq!(l.got(0, receive).0, [7]);
    l.assert_quiet();
}

#[test]
fn a_receive_is_cancelled_or_has_its_message() {
    let mut l = two_nodes();
    let cancelled = any(&mut l);
    let id = request(cancelled.started);
    assert!(!l.lanes[0].cancel(id), "the network says it later");
    l.settle();
    assert!(l.query(0, cancelled.started).is_some_and(|done| done.cancelled));
    assert!(cancelled.data.into_vec().is_ok(), "nothing uses its buffer");

    // By then the receive has a message of the own node.
    let contested = any(&mut l);
    let _ = l.send(0, 0, Mode::Standard, &[5], 1);
    assert!(!l.lanes[0].cancel(request(contested.started)));
    l.settle();
    assert_eq!(l.got(0, contested).0, [5]);
    l.assert_quiet();
}

#[test]
fn a_probe_finds_what_waits_in_the_network_and_takes_it_out() {
    let mut l = two_nodes();
    let context = l.worlds[0].point_to_point;
    let _ = l.send(2, 0, Mode::Standard, &[1], 1);
    let _ = l.send(2, 0, Mode::Standard, &[2], 1);
    assert_eq!(l.lanes[0].probe(context, MatchSource::Any, TagMatch::Any), Ok(None));
    l.settle();
    for source in [MatchSource::Any, MatchSource::Process(2)] {
        let found =
            l.lanes[0].probe(context, source, TagMatch::Is(1)).unwrap().expect("it is there");
        assert_eq!((found.source, found.tag, found.bytes), (2, 1, 1));
    }
    assert_eq!(l.lanes[0].probe(context, MatchSource::Process(3), TagMatch::Any), Ok(None));
    let (message, _) = l.lanes[0]
        .take_message(context, MatchSource::Any, TagMatch::Any)
        .unwrap()
        .expect("it is there");
    let second = any(&mut l);
    let data = Owned::new(vec![0xee; 10]);
    let first = l.lanes[0].receive_message(message, data.buf()).expect("it was taken");
    l.settle();
    assert_eq!(l.got(0, second).0, [2]);
    assert_eq!(l.got(0, lanes::Receive { started: first, data }).0, [1]);
    l.assert_quiet();
}

#[test]
fn a_sender_requests_the_index_of_its_receiver() {
    let mut l = two_nodes();
    // Rank 0 has one more context, so its index of the next one differs.
    l.lanes[0].open_team(RankMap::Identity(4), 0, ContextId::new(0, 9), false);
    let team = l.lanes[2].open_team(RankMap::Identity(4), 2, ContextId::new(0, 5), false);
    let data = Owned::new(vec![9u8]);
    let sent: Vec<_> = (0..3)
        .map(|tag| {
            l.lanes[2].start_send(team.point_to_point, Mode::Standard, data.buf(), 0, tag).unwrap()
        })
        .collect();
    l.settle();
    assert!(sent.into_iter().all(|sent| l.query(2, sent).is_some()));
    let own = l.lanes[0].open_team(RankMap::Identity(4), 0, ContextId::new(0, 5), false);
    assert_ne!(own.point_to_point, team.point_to_point);
    for tag in 0..3 {
        let data = Owned::new(vec![0xee; 4]);
        let started = l.lanes[0]
            .start_receive(own.point_to_point, data.buf(), MatchSource::Any, TagMatch::Any)
            .unwrap();
        l.settle();
        assert_eq!(l.got(0, lanes::Receive { started, data }), (vec![9], 2, tag));
    }
    l.assert_quiet();
}

#[test]
fn a_death_ends_what_names_the_dead_and_nothing_that_had_come() {
    let mut l = two_nodes();
    let came = l.receive(0, 10, MatchSource::Process(2), TagMatch::Is(1));
    let named = l.receive(0, 10, MatchSource::Process(2), TagMatch::Is(2));
    let wild = any(&mut l);
    let unmatched = l.send(0, 2, Mode::Synchronous, &[1], 1);
    let _ = l.send(2, 0, Mode::Standard, &[1], 1);
    let _ = l.send(2, 0, Mode::Standard, &[3], 3);
    l.settle();
    l.network.borrow_mut().kill(2);
    l.settle();
    assert_eq!(l.got(0, came).0, [1]);
    for failed in [named.started, unmatched] {
        assert_eq!(l.query(0, failed).expect("complete").fault, LOST_2);
    }
    assert!(named.data.into_vec().is_ok(), "nothing uses its buffer");
    let late = l.receive(0, 10, MatchSource::Process(2), TagMatch::Is(3));
    l.settle();
    assert_eq!(l.got(0, late).0, [3]);
    assert_eq!(l.try_receive(0, 10, MatchSource::Process(2), TagMatch::Any).err(), LOST_2);
    assert_eq!(l.query(0, wild.started).expect("complete").fault, LOST_2);
    assert!(wild.data.into_vec().is_ok(), "nothing uses its buffer");
    assert_eq!(l.start_send(0, 2, Mode::Standard, &Owned::new(vec![1]), 1).err(), LOST_2);
    assert!(l.lanes[0].is_drained());
}

#[test]
fn receives_in_a_revoked_communicator_are_taken_back_from_the_network() {
    let mut l = two_nodes();
    let receives = [any(&mut l), l.receive(0, 10, MatchSource::Process(3), TagMatch::Any)];
    let id = l.worlds[0].id;
    assert!(l.lanes[0].revoke(id));
    for receive in receives {
        assert_eq!(l.query(0, receive.started).expect("complete").fault, Some(Fault::Revoked));
        assert!(receive.data.into_vec().is_ok(), "nothing uses its buffer");
    }
    let _ = l.send(3, 0, Mode::Standard, &[1], 1);
    l.settle();
    assert_eq!(l.try_receive(0, 10, MatchSource::Any, TagMatch::Any).err(), Some(Fault::Revoked));
    assert_eq!(l.nonsense(), 0);
}

#[test]
fn a_context_that_keeps_to_frames_is_matched_here() {
    let mut l = two_nodes();
    for lane in &mut l.lanes {
        lane.keep_to_frames(0);
    }
    let before = l.network.borrow().frames();
    let Started::Complete(_) = l.send(2, 0, Mode::Standard, &[4], 1) else { panic!("it is eager") };
    l.settle();
    assert_eq!(l.network.borrow().frames(), before + 1);
    let receive = any(&mut l);
    assert_eq!(l.got(0, receive).0, [4], "it was here, and no poll was needed");
    l.assert_quiet();
}
