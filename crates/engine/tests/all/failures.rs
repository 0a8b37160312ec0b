//! Failed peers, and peers that send malformed frames.

use crate::lanes::{Lanes, calm, pattern, request, rough};
use oxmpi_engine::{Completion, Fault, MatchSource, Mode, TagMatch};
use oxmpi_fabric::SentNow;
use oxmpi_wire::{Context, Envelope, Frame};

const LOST_0: Option<Fault> = Some(Fault::Lost { peer: 0 });
const PENDING_0: Option<Fault> = Some(Fault::Pending { peer: 0 });

fn fault(completion: Option<Completion>) -> Option<Fault> {
    completion.expect("complete").fault
}

#[test]
fn a_death_completes_what_the_dead_would_have_taken_part_in() {
    let mut l = Lanes::new(3, 1, calm());
    let announced = l.send(1, 0, Mode::Standard, &pattern(1, 500), 1);
    let unmatched = l.send(1, 0, Mode::Synchronous, &pattern(1, 5), 1);
    let named = l.receive(1, 10, MatchSource::Process(0), TagMatch::Any);
    let wild = l.receive(1, 10, MatchSource::Any, TagMatch::Is(1));
    let alive = l.receive(1, 10, MatchSource::Process(2), TagMatch::Is(2));
    l.settle();
    l.network.borrow_mut().kill(0);
    l.settle();
    for failed in [announced, unmatched, named.started] {
        assert_eq!(fault(l.query(1, failed)), LOST_0);
    }
    // A receive from MPI_ANY_SOURCE stays posted until it is queried.
    let _ = l.send(2, 1, Mode::Standard, &[2], 2);
    let _ = l.send(2, 1, Mode::Standard, &[1], 1);
    l.settle();
    assert_eq!(l.got(1, alive).0, [2]);
    assert_eq!(l.got(1, wild).0, [1]);
    let wild = l.receive(1, 10, MatchSource::Any, TagMatch::Is(1));
    assert_eq!(fault(l.query(1, wild.started)), LOST_0);
    assert_eq!(l.try_receive(1, 10, MatchSource::Process(0), TagMatch::Any).err(), LOST_0);
    let context = l.worlds[1].point_to_point;
    assert_eq!(l.lanes[1].probe(context, MatchSource::Any, TagMatch::Any).err(), LOST_0);
    assert_eq!(l.lanes[1].probe(context, MatchSource::Process(2), TagMatch::Any), Ok(None));
    let sent = l.start_send(1, 0, Mode::Standard, &oxmpi_mem::memory::Owned::new(vec![1]), 1);
    assert_eq!(sent.err(), LOST_0);
    assert!(l.lanes[1].is_drained());
}

#[test]
fn a_receive_from_any_source_fails_when_it_is_queried() {
    let mut l = Lanes::new(3, 1, calm());
    let wild = l.receive(1, 10, MatchSource::Any, TagMatch::Is(1));
    l.network.borrow_mut().kill(0);
    l.settle();
    let id = request(wild.started);
    assert_eq!(l.lanes[1].peek(id).flatten().and_then(|c| c.fault), LOST_0);
    assert_eq!(fault(l.query(1, wild.started)), LOST_0);
    assert_eq!(l.lanes[1].test(id), None, "it is gone");
    assert!(wild.data.into_vec().is_ok(), "nothing uses its buffer");
    let _ = l.send(2, 1, Mode::Standard, &[7], 1);
    l.settle();
    let named = l.receive(1, 10, MatchSource::Process(2), TagMatch::Is(1));
    assert_eq!(l.got(1, named).0, [7]);
}

#[test]
fn a_receive_from_any_source_may_stay_posted_after_a_reported_failure() {
    let mut l = Lanes::new(3, 1, calm());
    l.lanes[1].keep_vain(true);
    let wild = l.receive(1, 10, MatchSource::Any, TagMatch::Is(1));
    l.network.borrow_mut().kill(0);
    l.settle();
    let id = request(wild.started);
    assert_eq!(l.lanes[1].peek(id).flatten().and_then(|c| c.fault), PENDING_0);
    let said = l.query(1, wild.started).expect("an answer");
    assert_eq!(
        (said.fault, said.stays, said.context),
        (PENDING_0, true, l.worlds[1].point_to_point)
    );
    // The receive stays posted, and reports an acknowledged failure no more.
    l.lanes[1].acknowledge(said.context, 1);
    assert_eq!(l.query(1, wild.started), None);
    let _ = l.send(2, 1, Mode::Standard, &[7], 1);
    l.settle();
    assert_eq!(l.got(1, wild).0, [7]);
}

#[test]
fn nothing_is_under_way_in_a_revoked_context() {
    let mut l = Lanes::new(3, 1, calm());
    let id = l.worlds[1].id;
    let announced = l.send(1, 0, Mode::Standard, &pattern(1, 500), 1);
    let named = l.receive(1, 10, MatchSource::Process(0), TagMatch::Any);
    let wild = l.receive(1, 10, MatchSource::Any, TagMatch::Is(1));
    let _ = l.send(2, 1, Mode::Standard, &[7], 3);
    l.settle();
    assert!(l.lanes[1].note_route(0, 2, 2) && !l.lanes[1].note_route(0, 2, 2));
    assert_eq!(l.lanes[1].process_of(0, 2), Some(2));
    assert!(l.lanes[1].revoke(id));
    assert!(!l.lanes[1].revoke(id), "it was revoked before");
    assert!(l.worlds[1].is_revoked() && l.lanes[1].take_alarm());
    for failed in [announced, named.started, wild.started] {
        assert_eq!(fault(l.query(1, failed)), Some(Fault::Revoked));
    }
    let _ = l.send(2, 1, Mode::Standard, &[8], 3);
    l.settle();
    let revoked = Some(Fault::Revoked);
    for source in [MatchSource::Any, MatchSource::Process(2)] {
        assert_eq!(l.try_receive(1, 10, source, TagMatch::Is(3)).err(), revoked);
        assert_eq!(l.lanes[1].probe(0, source, TagMatch::Any).err(), revoked);
    }
    let data = oxmpi_mem::memory::Owned::new(vec![1]);
    assert_eq!(l.start_send(1, 2, Mode::Standard, &data, 1).err(), revoked);
    assert_eq!(l.start_send(1, 1, Mode::Standard, &data, 1).err(), revoked);
    let bytes = data.buf();
    let bytes = bytes.as_contiguous().expect("in one piece");
    assert!(!l.lanes[1].note_route(0, 2, 2) && l.lanes[1].process_of(0, 2).is_none());
    assert!(
        l.lanes[1].try_send(0, 2, 1, bytes) == SentNow::No && !l.lanes[1].send_now(0, 2, 1, bytes)
    );
    assert!(l.lanes[1].has_unexpected(0));
    assert!(l.lanes[1].is_drained());
    l.lanes[1].send_notice(1, 2, vec![1, 2, 3]);
    l.lanes[2].send_notice(1, 1, pattern(5, 80));
    l.settle();
    let notice = l.lanes[2].take_notice().expect("a notice");
    assert_eq!((notice.context, notice.from, notice.text), (1, 1, vec![1, 2, 3]));
    let notice = l.lanes[1].take_notice().expect("a notice");
    assert_eq!((notice.id, notice.from, notice.text), (id.collective(), 2, pattern(5, 80)));
    assert_eq!(l.lanes[1].take_notice(), None);
}

#[test]
fn what_the_dead_had_sent_is_received_in_order() {
    for seed in 0..50 {
        let mut l = Lanes::new(2, seed, rough());
        // The third message is long: its data are lost with the sender.
        let lengths = [10, 100, 1000, 10];
        for (n, len) in lengths.into_iter().enumerate() {
            let _ = l.send(0, 1, Mode::Buffered, &pattern(n, len), 1);
        }
        while !l.lanes[0].is_drained() && l.network.borrow().now_ns() < 500_000 && l.step() {}
        l.network.borrow_mut().kill(0);
        l.settle();
        for (n, len) in lengths.into_iter().enumerate() {
            match l.try_receive(1, 1000, MatchSource::Process(0), TagMatch::Is(1)) {
                Err(error) => {
                    assert_eq!((Some(error), n > 2), (LOST_0, true), "seed {seed}, message {n}")
                }
                Ok(receive) if n == 2 => assert_eq!(fault(l.query(1, receive.started)), LOST_0),
                Ok(receive) => {
                    assert!(l.got(1, receive).0 == pattern(n, len), "seed {seed}, message {n}")
                }
            }
        }
        assert_eq!(l.nonsense(), 0);
    }
}

#[test]
fn a_death_in_the_middle_of_a_long_message_fails_its_receive() {
    let mut failed = 0;
    for seed in 0..50 {
        let mut l = Lanes::new(2, seed, rough());
        let receive = l.receive(1, 5000, MatchSource::Any, TagMatch::Any);
        let _ = l.send(0, 1, Mode::Standard, &pattern(1, 5000), 1);
        let when = l.random.below(150_000);
        l.network.borrow_mut().kill_after(0, when);
        l.settle();
        match l.query(1, receive.started).expect("complete") {
            Completion { fault: None, .. } => {
                assert_eq!(receive.data.into_vec().unwrap_or_default(), pattern(1, 5000));
            }
            done => {
                assert_eq!(done.fault, LOST_0);
                failed += 1;
            }
        }
    }
    assert!((1..50).contains(&failed), "{failed} of 50 failed");
}

#[test]
fn frames_that_make_no_sense_are_counted_and_do_nothing() {
    let mut l = Lanes::new(3, 1, calm());
    let long = l.send(0, 1, Mode::Standard, &pattern(1, 500), 1);
    let sync = l.send(0, 1, Mode::Synchronous, &pattern(1, 5), 2);
    l.settle();
    let waiting = l.receive(1, 100, MatchSource::Process(0), TagMatch::Is(3));
    let (long_id, sync_id, waiting_id) =
        (request(long).raw(), request(sync).raw(), request(waiting.started).raw());
    let envelope = |index, tag| Envelope { context: Context::Local(index), tag };
    let nonsense = [
        // To the sender: from an unrelated process, for no request, for the wrong protocol.
        (2, 0, Frame::SyncAck { request: sync_id }),
        (2, 0, Frame::Fin { request: long_id }),
        (1, 0, Frame::Fin { request: 1 << 40 | 4097 }),
        (1, 0, Frame::SyncAck { request: 0 }),
        (2, 0, Frame::Pull { request: long_id, receiver: 5000, length: 500, claimed: false }),
        (1, 0, Frame::Pull { request: long_id, receiver: 5000, length: 501, claimed: false }),
        (1, 0, Frame::Pull { request: sync_id, receiver: 5000, length: 5, claimed: false }),
        // To the receiver: data that it has not pulled.
        (0, 1, Frame::Data { receiver: waiting_id, offset: 0 }),
        (0, 1, Frame::Data { receiver: waiting_id, offset: u64::MAX }),
        (2, 1, Frame::Data { receiver: waiting_id, offset: 0 }),
        (0, 1, Frame::Data { receiver: u64::MAX, offset: u64::MAX }),
        // Sequence numbers that were used before, and a context that does not exist.
        (0, 1, Frame::Eager { envelope: envelope(0, 3) }),
        (2, 1, Frame::Eager { envelope: envelope(77, 3) }),
    ];
    for (n, (from, to, frame)) in nonsense.into_iter().enumerate() {
        // With a body that is long enough to arrive in parts.
        let body =
            if frame.matches() || matches!(frame, Frame::Data { .. }) { &[9; 90][..] } else { &[] };
        l.forge(from, to, 0, frame, body);
        l.settle();
        assert_eq!(l.nonsense(), n as u64 + 1, "{frame:?}");
    }
    // The name of an unknown context, and bytes that are no frame.
    l.forge(0, 1, 0, Frame::Learn { id: oxmpi_wire::ContextId(99), index: 5 }, &[]);
    l.network.borrow_mut().forge(0, 1, vec![1, 2, 3]);
    l.network.borrow_mut().forge(0, 1, vec![0xff; 40]);
    l.settle();
    assert_eq!(l.network.borrow().undecodable(), 2);
    for started in [long, sync] {
        assert_eq!(l.query(0, started), None);
    }
    assert_eq!(l.query(1, waiting.started), None);
    let _ = l.send(0, 1, Mode::Standard, &[3], 3);
    let receives = [
        l.receive(1, 500, MatchSource::Process(0), TagMatch::Is(1)),
        l.receive(1, 500, MatchSource::Any, TagMatch::Is(2)),
    ];
    l.settle();
    assert_eq!(l.got(1, waiting).0, [3]);
    for (receive, len) in receives.into_iter().zip([500, 5]) {
        assert_eq!(l.got(1, receive).0, pattern(1, len));
    }
    for started in [long, sync] {
        assert_eq!(fault(l.query(0, started)), None);
    }
}

#[test]
fn a_number_that_comes_twice_counts_once() {
    let envelope = Envelope { context: Context::Local(0), tag: 1 };
    let mut l = Lanes::new(2, 1, calm());
    // Numbers 2 and 1 arrive early, each twice, with other data the second time. Then 0 arrives.
    for (sequence, data) in [(2, 2u8), (1, 1), (2, 92), (1, 91), (0, 0)] {
        l.forge(0, 1, sequence, Frame::Eager { envelope }, &[data; 80]);
        l.settle();
    }
    assert_eq!(l.nonsense(), 2);
    for data in 0..3 {
        let receive = l.receive(1, 80, MatchSource::Any, TagMatch::Is(1));
        assert_eq!(l.got(1, receive).0, [data; 80]);
    }
}
