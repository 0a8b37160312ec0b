//! The encoding of notices about a communicator, in little endian words of 8 bytes:
//! | word | revoke, revoked | contribution, own, round | decision, parting, known |
//! |---|---|---|---|
//! | 0 | 1, 4 | 2, 8, 7 | 3, 6, 5 |
//! | 1 | name of the context pair | number of the agreement | number of the agreement |
//! | 2 | | flag | flag, and 2^32 if there is news |
//! | 3 | | name | name |
//! | 4 | | `lacks` | `settled` |
//! | 5- | | failed, acknowledged; of a round also contributors, round | deciding rank, failed |
//!
//! A process that has the communicator answers a revocation by sending the revocation to all
//! members. A process without the communicator answers the sender with *revoked*. From the answers
//! each member knows which processes will no longer act in the communicator.

use super::agreement::{AgreementMessage, Contribution, Decision, RoundState};
use super::ranks::RankSet;
use oxmpi_wire::ContextId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Text {
    Revoke(ContextId),
    /// A process without the communicator answers a revocation with this.
    Revoked(ContextId),
    Agreement(AgreementMessage),
}

const REVOKE: u64 = 1;
const CONTRIBUTION: u64 = 2;
const DECISION: u64 = 3;
const REVOKED: u64 = 4;
const KNOWN: u64 = 5;
const PARTING: u64 = 6;
const ROUND: u64 = 7;
const OWN: u64 = 8;
const NEWS: u64 = 1 << 32;

impl Text {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let words = match self {
            Text::Revoke(id) => vec![REVOKE, id.0],
            Text::Revoked(id) => vec![REVOKED, id.0],
            Text::Agreement(AgreementMessage::Contribution(number, c)) => {
                contribution_words(CONTRIBUTION, *number, c)
            }
            Text::Agreement(AgreementMessage::Own(number, c)) => {
                contribution_words(OWN, *number, c)
            }
            Text::Agreement(AgreementMessage::Round(number, round, state)) => {
                let all = contribution_words(ROUND, *number, &state.all);
                [&all, state.contributors.words(), &[*round]].concat()
            }
            Text::Agreement(AgreementMessage::Decision(number, d)) => {
                decision_words(DECISION, *number, d)
            }
            Text::Agreement(AgreementMessage::Parting(number, d)) => {
                decision_words(PARTING, *number, d)
            }
            Text::Agreement(AgreementMessage::Known(number, d)) => {
                decision_words(KNOWN, *number, d)
            }
        };
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Whether a process sends this notice only after the receiver's contribution to the agreement:
    /// a decision, or a round after the first. The size of the communicator is not needed.
    pub(crate) fn follows_contribution(bytes: &[u8]) -> bool {
        let word = |bytes: Option<&[u8; 8]>| bytes.map(|word| u64::from_le_bytes(*word));
        match word(bytes.first_chunk()) {
            Some(DECISION | PARTING | KNOWN) => true,
            Some(ROUND) => word(bytes.last_chunk()).is_some_and(|round| round > 1),
            _ => false,
        }
    }

    /// Decodes a notice in a communicator of `size` processes; `None` for other bytes.
    pub(crate) fn decode(bytes: &[u8], size: u32) -> Option<Text> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (&[kind, first, ref rest @ ..], n) = (&words[..], RankSet::words_for(size)) else {
            return None;
        };
        match (kind, rest) {
            (REVOKE, []) => Some(Text::Revoke(ContextId(first))),
            (REVOKED, []) => Some(Text::Revoked(ContextId(first))),
            (CONTRIBUTION | OWN | ROUND, [flag, name, lacks, sets @ ..])
                if sets.len() == if kind == ROUND { 3 * n + 1 } else { 2 * n } =>
            {
                let (failed, sets) = sets.split_at(n);
                let (acknowledged, rest) = sets.split_at(n);
                let all = Contribution {
                    flag: u32::try_from(*flag).ok()?,
                    name: *name,
                    failed: RankSet::from_words(failed, size)?,
                    acknowledged: RankSet::from_words(acknowledged, size)?,
                    lacks: *lacks,
                };
                Some(Text::Agreement(match rest {
                    [contributors @ .., round] => {
                        let contributors = RankSet::from_words(contributors, size)?;
                        AgreementMessage::Round(first, *round, RoundState { contributors, all })
                    }
                    [] if kind == OWN => AgreementMessage::Own(first, all),
                    [] => AgreementMessage::Contribution(first, all),
                }))
            }
            (DECISION | PARTING | KNOWN, [flag, name, settled, by, failed @ ..])
                if flag & !NEWS <= u64::from(u32::MAX) =>
            {
                let decision = Decision {
                    flag: *flag as u32,
                    name: *name,
                    failed: RankSet::from_words(failed, size)?,
                    news: flag & NEWS != 0,
                    settled: *settled,
                    by: u32::try_from(*by).ok()?,
                };
                Some(Text::Agreement(match kind {
                    KNOWN => AgreementMessage::Known(first, decision),
                    PARTING => AgreementMessage::Parting(first, decision),
                    _ => AgreementMessage::Decision(first, decision),
                }))
            }
            _ => None,
        }
    }
}

fn contribution_words(kind: u64, number: u64, c: &Contribution) -> Vec<u64> {
    let head = [kind, number, u64::from(c.flag), c.name, c.lacks];
    [&head, c.failed.words(), c.acknowledged.words()].concat()
}

fn decision_words(kind: u64, number: u64, d: &Decision) -> Vec<u64> {
    let flag = u64::from(d.flag) | if d.news { NEWS } else { 0 };
    [&[kind, number, flag, d.name, d.settled, d.by.into()], d.failed.words()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(size: u32) -> impl Strategy<Value = Text> {
        let set = move |bits: u64| {
            let mut set = RankSet::empty(size);
            (0..size).filter(|rank| bits >> (rank % 64) & 1 == 1).for_each(|rank| set.insert(rank));
            set
        };
        (0..8, any::<u64>(), any::<u32>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>())
            .prop_map(move |(kind, number, flag, name, one, two, before)| {
                let all = Contribution {
                    flag,
                    name,
                    failed: set(one),
                    acknowledged: set(two),
                    lacks: before,
                };
                let (news, by) = (two & 1 == 1, before as u32);
                let decision = Decision { flag, name, failed: set(one), news, settled: before, by };
                Text::Agreement(match kind {
                    0 => return Text::Revoke(ContextId(number)),
                    3 => return Text::Revoked(ContextId(number)),
                    1 => AgreementMessage::Contribution(number, all),
                    2 => AgreementMessage::Round(
                        number,
                        one,
                        RoundState { contributors: set(!two), all },
                    ),
                    4 => AgreementMessage::Known(number, decision),
                    6 => AgreementMessage::Own(number, all),
                    5 => AgreementMessage::Parting(number, decision),
                    _ => AgreementMessage::Decision(number, decision),
                })
            })
    }

    proptest! {
        #[test]
        fn a_notice_is_decoded((size, text) in (1u32..200).prop_flat_map(|size| (Just(size), texts(size)))) {
            prop_assert_eq!(Text::decode(&text.encode(), size), Some(text));
        }

        #[test]
        fn any_bytes_are_refused_or_decode_to_a_canonical_notice(
            kind in 0u64..10, rest in proptest::collection::vec(any::<u8>(), 0..64), size in 1u32..130,
        ) {
            let bytes = [&kind.to_le_bytes()[..], &rest].concat();
            if let Some(text) = Text::decode(&bytes, size) {
                prop_assert_eq!(text.encode(), bytes);
            }
        }
    }
}
