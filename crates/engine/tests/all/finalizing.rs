//! Receives whose requests were freed, when their process finalises.

use crate::lanes::{Lanes, Receive, pattern, request, rough};
use oxmpi_engine::{MatchSource, Mode, RankMap, Started, TagMatch};
use oxmpi_mem::memory::Owned;
use oxmpi_wire::ContextId;

fn freed(l: &mut Lanes, room: usize, source: MatchSource, tag: i32) -> Receive {
    let receive = l.receive(0, room, source, TagMatch::Is(tag));
    assert!(l.lanes[0].detach(request(receive.started)));
    receive
}

/// Whether each of the processes `at` has finalised, after all events.
fn finalize(l: &mut Lanes, at: &[usize]) -> Vec<bool> {
    let mut ends = vec![false; at.len()];
    for _ in 0..4 {
        for (at, end) in at.iter().zip(&mut ends) {
            let lane = &mut l.lanes[*at];
            *end = *end || lane.is_drained() && lane.are_receives_over();
        }
        l.settle();
    }
    ends
}

#[test]
fn they_go_on_until_their_messages_have_come() {
    for seed in 0..40 {
        for len in [0, 90, 5000] {
            let mut l = Lanes::new(3, seed, rough());
            let of_one = freed(&mut l, len, MatchSource::Process(1), 1);
            let of_any = freed(&mut l, len, MatchSource::Any, 2);
            assert_eq!(finalize(&mut l, &[0, 2]), [false, true]);
            let sent =
                [1, 2].map(|tag| l.send(1, 0, Mode::Standard, &pattern(tag, len), tag as i32));
            l.settle();
            assert!(
                sent.into_iter().all(|sent| l.query(1, sent).is_some()),
                "seed {seed}, {len} bytes"
            );
            assert_eq!(finalize(&mut l, &[0]), [true], "seed {seed}, {len} bytes");
            for (n, receive) in [of_one, of_any].into_iter().enumerate() {
                assert_eq!(receive.data.into_vec().ok(), Some(pattern(n + 1, len)));
            }
            l.assert_quiet();
        }
    }
}

/// The last message may arrive after its sender's report that it was the last.
#[test]
fn they_are_given_up_when_no_sender_is_left() {
    for seed in 0..40 {
        let mut l = Lanes::new(3, seed, rough());
        let in_vain = [MatchSource::Process(1), MatchSource::Any, MatchSource::Process(0)];
        let in_vain = in_vain.map(|source| freed(&mut l, 10, source, 1));
        let served = freed(&mut l, 10, MatchSource::Any, 2);
        assert_eq!(finalize(&mut l, &[0, 2]), [false, true]);
        let _ = l.send(1, 0, Mode::Standard, &pattern(2, 10), 2);
        assert_eq!(finalize(&mut l, &[0, 1, 2]), [true; 3], "seed {seed}");
        assert_eq!(served.data.into_vec().ok(), Some(pattern(2, 10)), "seed {seed}");
        for receive in in_vain {
            assert_eq!(receive.data.into_vec().ok(), Some(vec![0xee; 10]), "given back, untouched");
        }
        l.assert_quiet();
    }
}

/// A process that finalises does not answer for a communicator of a later session. After `resume`
/// it still answers for earlier communicators.
#[test]
fn a_process_answers_for_what_it_has_created() {
    let mut l = Lanes::new(2, 1, rough());
    let (id, map) = (ContextId::new(0, 5), || RankMap::Identity(2));
    let of_world = freed(&mut l, 10, MatchSource::Process(1), 1);
    let team = l.lanes[0].open_team(map(), 0, id, false);
    let place = Owned::new(vec![0_u8; 5000]);
    let receive = l.lanes[0]
        .start_receive(team.point_to_point, place.buf(), MatchSource::Any, TagMatch::Is(3))
        .unwrap();
    assert!(l.lanes[0].detach(request(receive)));
    assert_eq!(finalize(&mut l, &[1]), [true], "the other has nothing to wait for");
    assert_eq!(finalize(&mut l, &[0]), [false]);
    l.lanes[1].resume();
    let team = l.lanes[1].open_team(map(), 1, id, false);
    assert_eq!(finalize(&mut l, &[0]), [false]);
    assert_eq!(
        of_world.data.into_vec().ok(),
        Some(vec![0xee; 10]),
        "the world of the other is over"
    );
    let data = Owned::new(pattern(7, 5000));
    let sent =
        l.lanes[1].start_send(team.point_to_point, Mode::Standard, data.buf(), 0, 3).unwrap();
    l.settle();
    assert!(matches!(sent, Started::Complete(_)) || l.query(1, sent).is_some());
    assert_eq!(finalize(&mut l, &[0, 1]), [true, true]);
    assert_eq!(place.into_vec().ok(), Some(pattern(7, 5000)));
    l.assert_quiet();
}
