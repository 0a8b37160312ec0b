//! Longer eager messages over real sockets, which are lent until the peer has them or they are
//! copied.

use crate::ends::{ProcessConfig, pair, until};
use crate::support::{buffer_of, content};
use oxmpi_fabric::{Body, OutgoingMessage, Sent, Transport as _};
use oxmpi_wire::{Context, Envelope, Frame};

#[test]
fn a_process_with_a_lent_message_copies_it_before_it_sleeps() {
    for plan in [ProcessConfig::new, ProcessConfig::encrypted] {
        copies_before_it_sleeps([plan(), plan()]);
    }
}

fn copies_before_it_sleeps(plans: [ProcessConfig; 2]) {
    let mut ends = pair(&plans);
    until(&mut ends, |ends| ends[0].pushed > 0 || ends[0].send() != Sent::Full);
    until(&mut ends, |ends| ends[1].recorder.next == 1);
    // From now on the peer does not poll, so nothing is acknowledged.
    let end = &mut ends[0];
    let tokens = [41, 42, 43];
    for token in tokens {
        let buffer = buffer_of(&content(token, 10_000), false);
        let envelope = Envelope { context: Context::Local(7), tag: 0 };
        let body = Body::of(&buffer, 0, 10_000);
        let message = OutgoingMessage {
            sequence: 0,
            frame: Frame::Eager { envelope },
            body,
            lent: Some(&buffer),
            token: token.into(),
        };
        assert_eq!(end.tcp.send(1, &message).unwrap(), Sent::Later);
    }
    let mut polls = 0;
    while !end.tcp.before_sleep() {
        end.poll();
        polls += 1;
        assert!(polls < 10, "it never sleeps");
    }
    let gone = end.recorder.sent.iter().filter(|token| **token > 40).count();
    assert_eq!(gone, tokens.len(), "{:?}", end.recorder.sent);
}
