use super::{MESSAGES, Mailbox, Rank, TURNS, planned, settings, world};
use crate::transports::ib::fake::FakeSockets;
use crate::transports::ib::without_port::WithoutPort;
use crate::{Body, Membership, OutgoingMessage, Sent, Transport};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Context, Envelope, Frame};

fn send(from: &mut WithoutPort, number: u32) -> bool {
    let body = planned(1, number);
    let body = Body::Bytes(Bytes::from(&body[..]));
    let envelope = Envelope { context: Context::Local(1), tag: number as i32 };
    let frame = Frame::Eager { envelope };
    let message = OutgoingMessage { sequence: number as u8, frame, body, lent: None, token: 0 };
    from.send(0, &message).unwrap() == Sent::Done
}

/// Process 0 sends `counts[0]` messages to process 1, which has no port and sends `counts[1]`.
fn run(seed: u64, shared: Option<u32>, counts: [u32; 2]) -> Rank {
    let (world, [mut rank, _]) = world(seed, settings(4, shared));
    world.with(|world| world.has_port = [true, false]);
    let mut other = WithoutPort::new(Box::new(FakeSockets { world: world.clone(), me: 1 }));
    let (mut mailbox, mut sent, mut turns) = (Mailbox::default(), 0, 0);
    loop {
        let has_all = rank.mailbox.came.len() == counts[1] as usize
            && mailbox.came.len() == counts[0] as usize;
        if has_all && rank.ib.leave() & other.leave() {
            break;
        }
        while rank.sent < counts[0] && rank.send_next() {} // at most `counts[0]` turns
        while sent < counts[1] && send(&mut other, sent) {
            sent += 1;
        }
        rank.poll();
        other.poll(None, &mut mailbox);
        turns += 1;
        assert!(turns < TURNS, "seed {seed}: nothing moves");
    }
    rank.check(1, counts[1]);
    let expected: Vec<_> =
        (0..counts[0]).map(|number| (number as i32, planned(0, number))).collect();
    assert_eq!(mailbox.came, expected);
    assert!(rank.mailbox.lost.is_empty() && mailbox.lost.is_empty());
    // The envelopes posted for the peer are for others.
    assert!(rank.ib.peers.iter().all(Option::is_none));
    assert_eq!(rank.ib.posted, rank.ib.spare);
    rank
}

#[test]
fn messages_to_and_from_a_process_without_a_port_go_over_sockets() {
    for seed in 0..40 {
        let shared = (seed % 2 == 0).then_some(64);
        for counts in [[MESSAGES; 2], [MESSAGES, 0]] {
            let mut rank = run(seed, shared, counts);
            for _ in 0..200 {
                rank.poll();
            }
            assert!(rank.ib.numbers.is_empty() && rank.ib.broken.is_empty());
        }
        // A receiver needs no port.
        assert_eq!(run(seed, shared, [0, MESSAGES]).ib.posted, 0);
    }
}
