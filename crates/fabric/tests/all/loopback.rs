use crate::support::{Recorder, exchange, planned, with_message};
use oxmpi_fabric::transports::loopback::{Loopback, PacketQueues, ROOM};
use oxmpi_fabric::{Membership as _, Sent, Transport as _};
use std::sync::Arc;

const FIRST: u32 = 5;
const MESSAGES: u32 = 3000;

fn queues() -> Arc<PacketQueues> {
    Arc::new(PacketQueues::new(FIRST..FIRST + 2))
}

#[test]
fn messages_between_two_threads_arrive_in_order() {
    let queues = queues();
    std::thread::scope(|scope| {
        for me in [FIRST, FIRST + 1] {
            let (queues, peer) = (queues.clone(), 2 * FIRST + 1 - me);
            scope.spawn(move || exchange(&mut Loopback::new(me, queues), me, peer, MESSAGES));
        }
    });
}

#[test]
fn a_full_queue_takes_nothing_until_its_process_polls() {
    let queues = queues();
    let (mut one, mut other) =
        (Loopback::new(FIRST, queues.clone()), Loopback::new(FIRST + 1, queues));
    let mut send =
        |number| with_message(FIRST, number, |message| one.send(FIRST + 1, message)).unwrap();
    let room = ROOM as u32;
    assert!((0..room).all(|number| send(number) == Sent::Done));
    assert_eq!(send(room), Sent::Full);
    let mut recorder = Recorder::of(FIRST);
    assert!(!other.before_sleep(), "something has come");
    assert!(other.poll(None, &mut recorder) && recorder.next == room);
    assert!(other.before_sleep() && !other.poll(None, &mut recorder));
    assert_eq!(send(room), Sent::Done);
    assert!(one.leave() && other.has_left(FIRST) && !one.has_left(FIRST + 1));
    assert!(
        other.poll(None, &mut recorder) && recorder.next == room + 1,
        "{:?}",
        planned(FIRST, room)
    );
}

#[test]
fn only_ranks_of_the_program_are_reached() {
    let mut own = Loopback::new(FIRST, queues());
    let reached = [FIRST - 1, FIRST, FIRST + 1, FIRST + 2].map(|peer| own.reaches(peer));
    assert_eq!(reached, [false, true, true, false]);
    let error = with_message(FIRST, 0, |message| own.send(FIRST + 2, message)).unwrap_err();
    assert_eq!(error.to_string(), "process 7 cannot be reached: it is no rank of this program");
}
