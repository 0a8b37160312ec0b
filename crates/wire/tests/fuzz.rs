//! Fuzz tests of frames. OXMPI_FUZZ_SECONDS (default 1): the duration; OXMPI_FUZZ_SEED: replays one
//! case.
#![allow(clippy::unwrap_used)] // a panic fails the test

#[path = "support/random.rs"]
mod random;
#[path = "support/seeds.rs"]
mod seeds;

use oxmpi_wire::{Frame, HEADER_LEN, MAX_FRAME_LEN, WireError};
use random::Random;

fn fuzz(case: impl Fn(&mut Random)) {
    seeds::each_seed(|seed| case(&mut Random(seed)));
}

/// Bytes of any length, often with a valid kind and length of the extension.
fn bytes(random: &mut Random) -> Vec<u8> {
    const KINDS: [u8; 13] = [0, 1, 2, 8, 9, 10, 0x10, 0x11, 0x12, 0x13, 0x20, 0x30, 0x31];
    let len = random.below(2 * MAX_FRAME_LEN);
    let mut bytes: Vec<u8> = (0..len).map(|_| random.draw() as u8).collect();
    if let Some(head) = bytes.first_chunk_mut::<HEADER_LEN>() {
        head[1] = match random.below(4) {
            0 => random.draw() as u8,
            _ => KINDS[random.below(KINDS.len())],
        };
        if random.below(4) > 0 {
            (head[2], head[3]) = (8 * random.below(6) as u8, 0);
        }
    }
    bytes
}

#[test]
fn any_bytes_are_a_frame_that_encodes_the_same_or_an_error() {
    fuzz(|random| {
        let bytes = bytes(random);
        match Frame::decode(&bytes) {
            Ok(got) => {
                assert!((HEADER_LEN..=bytes.len().min(MAX_FRAME_LEN)).contains(&got.body_at));
                let mut again = [0; MAX_FRAME_LEN];
                let len = got.frame.encode(got.sequence, got.source, &mut again);
                assert_eq!(len, got.body_at);
                assert_eq!(Frame::decode(&again[..len]), Ok(got));
                let cut = Frame::decode(&bytes[..got.body_at - 1]);
                assert!(matches!(cut, Err(WireError::Short { .. })), "{cut:?}");
            }
            Err(WireError::Short { needed, got, .. }) => {
                assert!(got < needed && got == bytes.len())
            }
            Err(WireError::Kind(kind)) => assert_eq!(bytes[1], kind),
            Err(WireError::Extension { kind, needed, got }) => {
                assert!(bytes[1] == kind && needed != got);
            }
        }
    });
}
