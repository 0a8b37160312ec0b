//! The messages of a window, for processes that share no memory.
//!
//! A message is 64-bit words, little-endian, then data. The first word is the kind, the second the
//! number of words that follow. If the message has a datatype of the target, it is last among the
//! words ([`Layout::write`]). The receiver trusts no word and checks all.

use oxmpi_mem::atomics::Accumulator;
use oxmpi_mem::kernels::{ReduceOp, Scalar};
use oxmpi_mem::layout::Layout;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub(super) struct TargetPlace {
    pub(super) at: i64,
    pub(super) count: usize,
    pub(super) layout: Arc<Layout>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageData {
    Here,
    /// The data are a message of their own with this number.
    Apart(u64),
}

/// In each variant, `id` is the number of a message that needs an answer.
#[derive(Debug)]
pub(super) enum RmaMessage {
    Put {
        place: TargetPlace,
        len: usize,
        data: MessageData,
    },
    Get {
        place: TargetPlace,
        len: usize,
        id: u64,
    },
    Accumulate {
        place: TargetPlace,
        len: usize,
        data: MessageData,
        accumulator: Accumulator,
        fetch: Option<u64>,
    },
    /// Its data are the new element and the element to compare with, `len` bytes each.
    Swap {
        place: TargetPlace,
        len: usize,
        id: u64,
    },
    Lock {
        exclusive: bool,
    },
    Unlock {
        exclusive: bool,
        id: u64,
    },
    Flush {
        id: u64,
    },
    Post,
    Complete,
    Granted,
    /// Answers `Lock` if no rank gets the lock any more, since this process failed with it.
    Denied {
        process: u32,
    },
    Answer {
        id: u64,
        data: MessageData,
    },
    /// Answers `Get`, `Swap` or a fetching `Accumulate` outside the exposed memory.
    Refused {
        id: u64,
    },
    /// Answers `Flush` and `Unlock`. `outside`: an operation was outside the exposed memory.
    Done {
        id: u64,
        outside: bool,
    },
}

fn number_of<T: PartialEq>(all: &[T], one: &T) -> u64 {
    all.iter().position(|other| other == one).unwrap_or(all.len()) as u64
}

impl MessageData {
    /// 0 stands for `Here`, since numbers begin with 1.
    fn word(self) -> u64 {
        match self {
            MessageData::Here => 0,
            MessageData::Apart(id) => id,
        }
    }

    fn of(word: u64) -> MessageData {
        if word == 0 { MessageData::Here } else { MessageData::Apart(word) }
    }
}

impl RmaMessage {
    pub(super) fn encode(&self, data: usize) -> (Vec<u8>, usize) {
        let mut words = vec![0, 0];
        let mut place_of = None;
        let kind = match self {
            RmaMessage::Put { place, len, data } => {
                words.extend([data.word(), *len as u64]);
                place_of = Some(place);
                1
            }
            RmaMessage::Get { place, len, id } => {
                words.extend([*id, *len as u64]);
                place_of = Some(place);
                2
            }
            RmaMessage::Accumulate { place, len, data, accumulator, fetch } => {
                words.extend([data.word(), *len as u64, fetch.unwrap_or(0)]);
                words.push(number_of(&ReduceOp::ALL, &accumulator.op()));
                words.push(number_of(&Scalar::ALL, &accumulator.scalar()));
                place_of = Some(place);
                3
            }
            RmaMessage::Swap { place, len, id } => {
                words.extend([*id, *len as u64]);
                place_of = Some(place);
                4
            }
            RmaMessage::Lock { exclusive } => {
                words.push(u64::from(*exclusive));
                5
            }
            RmaMessage::Unlock { exclusive, id } => {
                words.extend([u64::from(*exclusive), *id]);
                6
            }
            RmaMessage::Flush { id } => {
                words.push(*id);
                7
            }
            RmaMessage::Post => 8,
            RmaMessage::Complete => 9,
            RmaMessage::Granted => 10,
            RmaMessage::Answer { id, data } => {
                words.extend([*id, data.word()]);
                11
            }
            RmaMessage::Refused { id } => {
                words.push(*id);
                12
            }
            RmaMessage::Done { id, outside } => {
                words.extend([*id, u64::from(*outside)]);
                13
            }
            RmaMessage::Denied { process } => {
                words.push(u64::from(*process));
                14
            }
        };
        if let Some(place) = place_of {
            words.extend([place.at.cast_unsigned(), place.count as u64]);
            place.layout.write(&mut words);
        }
        words[0] = kind;
        words[1] = words.len() as u64 - 2;
        let at = 8 * words.len();
        let mut bytes = Vec::with_capacity(at + data);
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.resize(at + data, 0);
        (bytes, at)
    }

    /// The message and the offset of its data; `None` if `bytes` are no message.
    pub(super) fn decode(bytes: &[u8]) -> Option<(RmaMessage, usize)> {
        let (all, _) = bytes.as_chunks::<8>();
        let kind = u64::from_le_bytes(*all.first()?);
        let count = usize::try_from(u64::from_le_bytes(*all.get(1)?)).ok()?;
        let words: Vec<u64> = all
            .get(2..count.checked_add(2)?)?
            .iter()
            .map(|word| u64::from_le_bytes(*word))
            .collect();
        let at = 8 * (count + 2);
        let here = bytes.len() - at;
        let mut words = &words[..];
        let mut next = || {
            let (first, rest) = words.split_first()?;
            words = rest;
            Some(*first)
        };
        let number = |id: Option<u64>| id.filter(|id| *id != 0);
        let length = |word: Option<u64>| isize::try_from(word?).ok().map(isize::cast_unsigned);
        let message = match kind {
            1 => {
                let (data, len) = (MessageData::of(next()?), length(next())?);
                let place = place(words, len)?;
                (data != MessageData::Here || here == len).then_some(RmaMessage::Put {
                    place,
                    len,
                    data,
                })?
            }
            2 => {
                let (id, len) = (number(next())?, length(next())?);
                RmaMessage::Get { place: place(words, len)?, len, id }
            }
            3 => {
                let (data, len, fetch) =
                    (MessageData::of(next()?), length(next())?, number(Some(next()?)));
                let (op, scalar) =
                    (ReduceOp::ALL.get(next()? as usize)?, Scalar::ALL.get(next()? as usize)?);
                let accumulator = Accumulator::new(*op, *scalar)?;
                let place = place(words, len)?;
                let operands = if *op == ReduceOp::NoOp { 0 } else { len };
                let whole = len.is_multiple_of(accumulator.size())
                    && place.layout.size().is_multiple_of(accumulator.size())
                    && (data != MessageData::Here || here == operands);
                whole.then_some(RmaMessage::Accumulate { place, len, data, accumulator, fetch })?
            }
            4 => {
                let (id, len) = (number(next())?, length(next())?);
                let place = place(words, len)?;
                let element =
                    place.count == 1 && place.layout.is_contiguous() && place.layout.size() == len;
                ((1..=16).contains(&len) && here == 2 * len && element)
                    .then_some(RmaMessage::Swap { place, len, id })?
            }
            5 => RmaMessage::Lock { exclusive: next()? != 0 },
            6 => RmaMessage::Unlock { exclusive: next()? != 0, id: number(next())? },
            7 => RmaMessage::Flush { id: number(next())? },
            8 => RmaMessage::Post,
            9 => RmaMessage::Complete,
            10 => RmaMessage::Granted,
            11 => RmaMessage::Answer { id: number(next())?, data: MessageData::of(next()?) },
            12 => RmaMessage::Refused { id: number(next())? },
            13 => RmaMessage::Done { id: number(next())?, outside: next()? != 0 },
            14 => RmaMessage::Denied { process: u32::try_from(next()?).ok()? },
            _ => return None,
        };
        Some((message, at))
    }
}

/// The target memory of an access; `None` if `len` packed bytes do not fit.
fn place(words: &[u64], len: usize) -> Option<TargetPlace> {
    let (first, mut words) = words.split_at_checked(2)?;
    let (at, count) = (first[0].cast_signed(), usize::try_from(first[1]).ok()?);
    let layout = Layout::read(&mut words).ok()?;
    let room = layout.packed_len(count).ok()?;
    (words.is_empty() && len <= room).then(|| TargetPlace { at, count, layout: Arc::new(layout) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<(RmaMessage, usize)> {
        let layout = Arc::new(Layout::hvector(3, 1, 16, &Layout::basic(8, 8)).unwrap());
        let place = TargetPlace { at: -7, count: 2, layout };
        let one = TargetPlace { at: 8, count: 1, layout: Arc::new(Layout::basic(4, 4)) };
        let accumulator = Accumulator::new(ReduceOp::MinLoc, Scalar::I32I32).unwrap();
        let accumulate = |data, len, fetch| RmaMessage::Accumulate {
            place: place.clone(),
            len,
            data,
            accumulator,
            fetch,
        };
        vec![
            (RmaMessage::Put { place: place.clone(), len: 40, data: MessageData::Here }, 40),
            (RmaMessage::Put { place: place.clone(), len: 40, data: MessageData::Apart(3) }, 0),
            (RmaMessage::Get { place: place.clone(), len: 48, id: 9 }, 0),
            (accumulate(MessageData::Here, 16, None), 16),
            (accumulate(MessageData::Apart(8), 16, Some(5)), 0),
            (RmaMessage::Swap { place: one, len: 4, id: 1 }, 8),
            (RmaMessage::Lock { exclusive: true }, 0),
            (RmaMessage::Unlock { exclusive: false, id: 2 }, 0),
            (RmaMessage::Flush { id: 2 }, 0),
            (RmaMessage::Post, 0),
            (RmaMessage::Complete, 0),
            (RmaMessage::Granted, 0),
            (RmaMessage::Denied { process: 7 }, 0),
            (RmaMessage::Answer { id: 5, data: MessageData::Here }, 12),
            (RmaMessage::Refused { id: 5 }, 0),
            (RmaMessage::Done { id: 5, outside: true }, 0),
        ]
    }

    #[test]
    fn messages_survive_encoding() {
        for (message, data) in all() {
            let (bytes, at) = message.encode(data);
            assert_eq!(bytes.len(), at + data);
            let (decoded, there) =
                RmaMessage::decode(&bytes).unwrap_or_else(|| panic!("{message:?}"));
            assert_eq!(there, at);
            assert_eq!(decoded.encode(data).0, bytes, "{message:?}");
        }
    }

    #[test]
    fn swaps_are_of_one_element() {
        for (count, len) in [(0, 0), (0, 4), (2, 4), (1, 0)] {
            let place = TargetPlace { at: 8, count, layout: Arc::new(Layout::basic(4, 4)) };
            let (bytes, _) = RmaMessage::Swap { place, len, id: 1 }.encode(2 * len);
            assert!(RmaMessage::decode(&bytes).is_none(), "{count} of {len}");
        }
    }

    #[test]
    fn cut_messages_are_refused_and_changed_ones_do_no_harm() {
        for (message, data) in all() {
            let (bytes, at) = message.encode(data);
            for cut in 0..at {
                assert!(RmaMessage::decode(&bytes[..cut]).is_none(), "{message:?} cut to {cut}");
            }
            for position in 0..at {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut changed = bytes.clone();
                    changed[position] = value;
                    // Decoding must neither panic nor return a place that is too small.
                    let _ = RmaMessage::decode(&changed);
                }
            }
        }
        assert!(RmaMessage::decode(&[]).is_none());
    }
}
