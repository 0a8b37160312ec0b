//! Match bits and header data.
//!
//! | bits of a message | meaning |
//! |---|---|
//! | 0..32 | the MPI tag; the library's tags are negative, and MPI_ANY_TAG does not match them |
//! | 32..34 | the protocol ([`PortalsProtocol`]) |
//! | 34..52 | the sender's rank |
//! | 52..64 | the receiver's index of the context |
//!
//! Header data are 0, or belong to an announcement: 20 bits for the number under which the sender
//! exposes the message, and 44 bits for its length. The match bits of a get are that number and, in
//! the lowest bit, a mark for the last get.

use oxmpi_portals::MatchCriteria;
use oxmpi_wire::Tags;

pub(super) const LAST_PROCESS: u32 = (1 << 18) - 1;
pub(super) const LAST_CONTEXT: u32 = (1 << 12) - 1;
/// The most announced messages at a time.
pub(super) const NUMBERS: u32 = 1 << 20;
pub(super) const LONGEST: u64 = (1 << 44) - 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PortalsProtocol {
    Plain,
    /// The whole message. Its sender waits for an empty get, which the receiver makes after the
    /// match.
    Synchronous,
    /// The announcement of a message that its receiver gets.
    Announced,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MessageLabel {
    pub(super) context: u32,
    pub(super) source: u32,
    pub(super) protocol: PortalsProtocol,
    pub(super) tag: i32,
}

const SOURCE_AT: u32 = 34;
const CONTEXT_AT: u32 = 52;
const PROTOCOL: u64 = 3 << 32;
const SOURCE: u64 = (LAST_PROCESS as u64) << SOURCE_AT;

impl MessageLabel {
    pub(super) fn encode(self) -> u64 {
        u64::from(self.context & LAST_CONTEXT) << CONTEXT_AT
            | u64::from(self.source & LAST_PROCESS) << SOURCE_AT
            | (self.protocol as u64) << 32
            | u64::from(self.tag.cast_unsigned())
    }

    pub(super) fn decode(bits: u64) -> MessageLabel {
        let protocol = match bits >> 32 & 3 {
            0 => PortalsProtocol::Plain,
            1 => PortalsProtocol::Synchronous,
            _ => PortalsProtocol::Announced,
        };
        MessageLabel {
            context: (bits >> CONTEXT_AT) as u32,
            source: (bits >> SOURCE_AT) as u32 & LAST_PROCESS,
            protocol,
            tag: (bits as u32).cast_signed(),
        }
    }
}

/// Matches messages of a context from this process (`None`: from any), with these tags.
pub(super) fn wanted(context: u32, from: Option<u32>, tags: Tags) -> MatchCriteria {
    let source = from.unwrap_or(0);
    let label = MessageLabel { context, source, protocol: PortalsProtocol::Plain, tag: tags.tag };
    let any_source = if from.is_none() { SOURCE } else { 0 };
    let ignored = PROTOCOL | any_source | u64::from(!tags.mask.cast_unsigned());
    MatchCriteria { bits: label.encode(), ignored }
}

pub(super) fn announcement(number: u32, length: u64) -> u64 {
    length << 20 | u64::from(number)
}

pub(super) fn announced(header: u64) -> (u32, u64) {
    (header as u32 & (NUMBERS - 1), header >> 20)
}

pub(super) fn of_get(number: u32, is_last: bool) -> u64 {
    u64::from(number) << 1 | u64::from(is_last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use PortalsProtocol::{Announced, Plain, Synchronous};

    fn label(context: u32, source: u32, protocol: PortalsProtocol, tag: i32) -> MessageLabel {
        MessageLabel { context, source, protocol, tag }
    }

    #[test]
    fn encoded_fields_are_decoded() {
        for protocol in [Plain, Synchronous, Announced] {
            for (context, source, tag) in
                [(0, 0, 0), (LAST_CONTEXT, LAST_PROCESS, i32::MAX), (7, 9, -3)]
            {
                let one = label(context, source, protocol, tag);
                assert_eq!(MessageLabel::decode(one.encode()), one);
            }
        }
        assert_eq!(announced(announcement(NUMBERS - 1, LONGEST)), (NUMBERS - 1, LONGEST));
        assert_ne!(of_get(5, true), of_get(5, false));
    }

    #[test]
    fn a_receive_matches_only_its_messages() {
        let takes = |MatchCriteria { bits, ignored }, one: MessageLabel| {
            (bits ^ one.encode()) & !ignored == 0
        };
        let one = wanted(5, Some(9), Tags::one(3));
        for protocol in [Plain, Synchronous, Announced] {
            assert!(takes(one, label(5, 9, protocol, 3)));
        }
        for other in [label(4, 9, Plain, 3), label(5, 8, Plain, 3), label(5, 9, Plain, 4)] {
            assert!(!takes(one, other), "{other:?}");
        }
        let any = wanted(5, None, Tags::ANY);
        assert!(
            takes(any, label(5, 0, Plain, 0))
                && takes(any, label(5, LAST_PROCESS, Announced, i32::MAX))
        );
        assert!(!takes(any, label(5, 7, Plain, -3)), "a tag of the library's");
        let own = wanted(5, None, Tags::one(-3));
        assert!(takes(own, label(5, 7, Plain, -3)) && !takes(own, label(5, 7, Plain, 3)));
    }
}
