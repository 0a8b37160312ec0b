//! Introductions: the body of [`Frame::Meet`](oxmpi_wire::Frame::Meet), which two processes
//! exchange over sockets before they connect.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | number of the queue pair |
//! | 4..8 | number of its first packet |
//! | 8..12 | local identifier of the port |
//! | 12..28 | global identifier of the port |
//! | 28..36 | address of the word that the peer writes |
//! | 36..40 | its remote key |
//! | 40..44 | number of envelopes posted for the peer |
//! | 44..48 | the length of an envelope |
//! | 48..52 | reads that this queue pair serves at the same time |
//! | 52..56 | number of the connection between the two, from 1 |
//! | 56..64 | envelopes received from the peer over earlier connections |
//! | 64..72 | number of these that were posted again |

use oxmpi_verbs::LocalEnd;

const LEN: usize = 72;

/// The connection number of a process without a port; the other fields are 0.
pub(super) const WITHOUT_PORT: u32 = u32::MAX - 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IbIntroduction {
    pub(super) end: LocalEnd,
    pub(super) granted: u32,
    pub(super) envelope: u32,
    pub(super) connection: u32,
    pub(super) taken: u64,
    pub(super) freed: u64,
}

impl IbIntroduction {
    pub(super) const WITHOUT_PORT: IbIntroduction = IbIntroduction {
        end: LocalEnd {
            queue_pair: 0,
            first_packet: 0,
            lid: 0,
            gid: [0; 16],
            word: (0, 0),
            reads: 0,
        },
        granted: 1,
        envelope: 0,
        connection: WITHOUT_PORT,
        taken: 0,
        freed: 0,
    };

    pub(super) fn encode(&self) -> [u8; LEN] {
        let IbIntroduction { end, granted, envelope, connection, taken, freed } = self;
        let mut out = [0; LEN];
        out[..4].copy_from_slice(&end.queue_pair.to_le_bytes());
        out[4..8].copy_from_slice(&end.first_packet.to_le_bytes());
        out[8..12].copy_from_slice(&u32::from(end.lid).to_le_bytes());
        out[12..28].copy_from_slice(&end.gid);
        out[28..36].copy_from_slice(&end.word.0.to_le_bytes());
        out[36..40].copy_from_slice(&end.word.1.to_le_bytes());
        out[40..44].copy_from_slice(&granted.to_le_bytes());
        out[44..48].copy_from_slice(&envelope.to_le_bytes());
        out[48..52].copy_from_slice(&u32::from(end.reads).to_le_bytes());
        out[52..56].copy_from_slice(&connection.to_le_bytes());
        out[56..64].copy_from_slice(&taken.to_le_bytes());
        out[64..].copy_from_slice(&freed.to_le_bytes());
        out
    }

    pub(super) fn decode(body: &[u8]) -> Option<IbIntroduction> {
        fn number(rest: &mut &[u8]) -> Option<u32> {
            let (number, left) = rest.split_first_chunk::<4>()?;
            *rest = left;
            Some(u32::from_le_bytes(*number))
        }
        let rest = &mut &body[..];
        let (queue_pair, first_packet) = (number(rest)?, number(rest)?);
        let lid = u16::try_from(number(rest)?).ok()?;
        let (gid, left) = rest.split_first_chunk::<16>()?;
        let (address, left) = left.split_first_chunk::<8>()?;
        *rest = left;
        let word = (u64::from_le_bytes(*address), number(rest)?);
        let (granted, envelope) = (number(rest)?, number(rest)?);
        let reads = u8::try_from(number(rest)?).ok()?;
        let connection = number(rest)?;
        let (taken, left) = rest.split_first_chunk::<8>()?;
        let (freed, left) = left.split_first_chunk::<8>()?;
        let (taken, freed) = (u64::from_le_bytes(*taken), u64::from_le_bytes(*freed));
        *rest = left;
        let end = LocalEnd { queue_pair, first_packet, lid, gid: *gid, word, reads };
        (rest.is_empty() && granted > 0).then_some(IbIntroduction {
            end,
            granted,
            envelope,
            connection,
            taken,
            freed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_introduction_survives_the_wire(numbers: [u32; 4], lid: u16, gid: [u8; 16], address: u64, granted in 1u32.., reads: u8, connection: u32, counts: [u64; 2]) {
            let [queue_pair, first_packet, key, envelope] = numbers;
            let end = LocalEnd { queue_pair, first_packet, lid, gid, word: (address, key), reads };
            let [taken, freed] = counts;
            let one = IbIntroduction { end, granted, envelope, connection, taken, freed };
            prop_assert_eq!(IbIntroduction::decode(&one.encode()), Some(one));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let is_one = IbIntroduction::decode(&bytes).is_some();
            prop_assert!(!is_one || bytes.len() == LEN);
        }
    }
}
