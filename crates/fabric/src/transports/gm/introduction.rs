//! Introductions: the body of [`Frame::Meet`](oxmpi_wire::Frame::Meet), which two processes
//! exchange over sockets before they send by GM.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | the node, by its identifier in the whole network |
//! | 4..8 | number of the port |
//! | 8..12 | key of the peer's messages |
//! | 12..16 | number of buffers provided for the peer; all bits set: not counted |
//! | 16..20 | the longest message, bytes |
//! | 20..28 | address of the word that the peer writes |

const LEN: usize = 28;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GmIntroduction {
    pub(super) address: (u32, u32),
    pub(super) key: u32,
    pub(super) granted: u32,
    pub(super) message: u32,
    pub(super) word: u64,
}

impl GmIntroduction {
    pub(super) fn encode(&self) -> [u8; LEN] {
        let GmIntroduction { address, key, granted, message, word } = self;
        let mut out = [0; LEN];
        for (at, number) in [address.0, address.1, *key, *granted, *message].into_iter().enumerate()
        {
            out[4 * at..4 * at + 4].copy_from_slice(&number.to_le_bytes());
        }
        out[20..].copy_from_slice(&word.to_le_bytes());
        out
    }

    pub(super) fn decode(body: &[u8]) -> Option<GmIntroduction> {
        let (numbers, word) = body.split_first_chunk::<20>()?;
        let mut fields = [0; 5];
        for (field, bytes) in fields.iter_mut().zip(numbers.as_chunks::<4>().0) {
            *field = u32::from_le_bytes(*bytes);
        }
        let [node, port, key, granted, message] = fields;
        let word = u64::from_le_bytes(word.try_into().ok()?);
        (granted > 0).then_some(GmIntroduction {
            address: (node, port),
            key,
            granted,
            message,
            word,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_introduction_survives_the_wire(address: (u32, u32), key: u32, granted in 1u32.., message: u32, word: u64) {
            let one = GmIntroduction { address, key, granted, message, word };
            prop_assert_eq!(GmIntroduction::decode(&one.encode()), Some(one));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let is_one = GmIntroduction::decode(&bytes).is_some();
            prop_assert!(!is_one || bytes.len() == LEN);
        }
    }
}
