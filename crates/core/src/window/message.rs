//! What the processes of a window say to each other where they share no memory.
//!
//! A message is 64-bit words, little-endian, then data: the kind, the number of words behind the second one, these words; the
//! datatype of the target, where there is one, is the last of them ([`Layout::write`]). What has come is checked on the way
//! in: none of it is trusted.

use oxmpi_mem::atomics::Accumulator;
use oxmpi_mem::kernels::{Op, Scalar};
use oxmpi_mem::layout::Layout;
use std::sync::Arc;

/// Where an access goes: `count` elements of `layout`.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Bytes from the beginning of the window's memory; the address, in a dynamic window.
    pub(super) at: i64,
    pub(super) count: usize,
    pub(super) layout: Arc<Layout>,
}

/// How the data of an operation come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// Behind the words.
    Here,
    /// As a message of their own, which has this number.
    Apart(u64),
}

/// A message. `id` numbers what is answered.
#[derive(Debug)]
pub(super) enum Message {
    Put {
        place: Place,
        len: usize,
        data: Data,
    },
    Get {
        place: Place,
        len: usize,
        id: u64,
    },
    Accumulate {
        place: Place,
        len: usize,
        data: Data,
        accumulator: Accumulator,
        fetch: Option<u64>,
    },
    /// The data are the new element and the one to compare with, of `len` bytes each.
    Swap {
        place: Place,
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
    /// Answers `Lock`.
    Granted,
    /// Answers `Lock` if nobody will have the lock any more: this process has died with it.
    Denied {
        process: u32,
    },
    /// Answers `Get`, `Swap` or a fetching `Accumulate`.
    Answer {
        id: u64,
        data: Data,
    },
    /// Answers them if the place is outside of the memory.
    Refused {
        id: u64,
    },
    /// Answers `Flush` and `Unlock`, when all from before is done. `outside`: some of it had a place outside of the memory.
    Done {
        id: u64,
        outside: bool,
    },
}

fn number_of<T: PartialEq>(all: &[T], one: &T) -> u64 {
    all.iter().position(|other| other == one).unwrap_or(all.len()) as u64
}

impl Data {
    /// 0 stands for data that are here; numbers begin with 1.
    fn word(self) -> u64 {
        match self {
            Data::Here => 0,
            Data::Apart(id) => id,
        }
    }

    fn of(word: u64) -> Data {
        if word == 0 { Data::Here } else { Data::Apart(word) }
    }
}

impl Message {
    /// The written form, with room for `data` bytes behind the words; where that room begins.
    pub(super) fn encode(&self, data: usize) -> (Vec<u8>, usize) {
        let mut words = vec![0, 0];
        let mut place_of = None;
        let kind = match self {
            Message::Put { place, len, data } => {
                words.extend([data.word(), *len as u64]);
                place_of = Some(place);
                1
            }
            Message::Get { place, len, id } => {
                words.extend([*id, *len as u64]);
                place_of = Some(place);
                2
            }
            Message::Accumulate { place, len, data, accumulator, fetch } => {
                words.extend([data.word(), *len as u64, fetch.unwrap_or(0)]);
                words.push(number_of(&Op::ALL, &accumulator.op()));
                words.push(number_of(&Scalar::ALL, &accumulator.scalar()));
                place_of = Some(place);
                3
            }
            Message::Swap { place, len, id } => {
                words.extend([*id, *len as u64]);
                place_of = Some(place);
                4
            }
            Message::Lock { exclusive } => {
                words.push(u64::from(*exclusive));
                5
            }
            Message::Unlock { exclusive, id } => {
                words.extend([u64::from(*exclusive), *id]);
                6
            }
            Message::Flush { id } => {
                words.push(*id);
                7
            }
            Message::Post => 8,
            Message::Complete => 9,
            Message::Granted => 10,
            Message::Answer { id, data } => {
                words.extend([*id, data.word()]);
                11
            }
            Message::Refused { id } => {
                words.push(*id);
                12
            }
            Message::Done { id, outside } => {
                words.extend([*id, u64::from(*outside)]);
                13
            }
            Message::Denied { process } => {
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

    /// The message that `bytes` are, and where its data begin. `None`: they are none.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Message, usize)> {
        let (all, _) = bytes.as_chunks::<8>();
        let kind = u64::from_le_bytes(*all.first()?);
        let count = usize::try_from(u64::from_le_bytes(*all.get(1)?)).ok()?;
        let words: Vec<u64> =
            all.get(2..count.checked_add(2)?)?.iter().map(|word| u64::from_le_bytes(*word)).collect();
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
                let (data, len) = (Data::of(next()?), length(next())?);
                let place = place(words, len)?;
                (data != Data::Here || here == len).then_some(Message::Put { place, len, data })?
            }
            2 => {
                let (id, len) = (number(next())?, length(next())?);
                Message::Get { place: place(words, len)?, len, id }
            }
            3 => {
                let (data, len, fetch) = (Data::of(next()?), length(next())?, number(Some(next()?)));
                let (op, scalar) = (Op::ALL.get(next()? as usize)?, Scalar::ALL.get(next()? as usize)?);
                let accumulator = Accumulator::new(*op, *scalar)?;
                let place = place(words, len)?;
                let operands = if *op == Op::NoOp { 0 } else { len };
                let whole = len.is_multiple_of(accumulator.size())
                    && place.layout.size().is_multiple_of(accumulator.size())
                    && (data != Data::Here || here == operands);
                whole.then_some(Message::Accumulate { place, len, data, accumulator, fetch })?
            }
            4 => {
                let (id, len) = (number(next())?, length(next())?);
                let place = place(words, len)?;
                let element = place.count == 1 && place.layout.is_contiguous() && place.layout.size() == len;
                ((1..=16).contains(&len) && here == 2 * len && element).then_some(Message::Swap {
                    place,
                    len,
                    id,
                })?
            }
            5 => Message::Lock { exclusive: next()? != 0 },
            6 => Message::Unlock { exclusive: next()? != 0, id: number(next())? },
            7 => Message::Flush { id: number(next())? },
            8 => Message::Post,
            9 => Message::Complete,
            10 => Message::Granted,
            11 => Message::Answer { id: number(next())?, data: Data::of(next()?) },
            12 => Message::Refused { id: number(next())? },
            13 => Message::Done { id: number(next())?, outside: next()? != 0 },
            14 => Message::Denied { process: u32::try_from(next()?).ok()? },
            _ => return None,
        };
        Some((message, at))
    }
}

/// The place of an access of `len` packed bytes, which must fit it.
fn place(words: &[u64], len: usize) -> Option<Place> {
    let (first, mut words) = words.split_at_checked(2)?;
    let (at, count) = (first[0].cast_signed(), usize::try_from(first[1]).ok()?);
    let layout = Layout::read(&mut words).ok()?;
    let room = layout.packed_len(count).ok()?;
    (words.is_empty() && len <= room).then(|| Place { at, count, layout: Arc::new(layout) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<(Message, usize)> {
        let layout = Arc::new(Layout::hvector(3, 1, 16, &Layout::basic(8, 8)).unwrap());
        let place = Place { at: -7, count: 2, layout };
        let one = Place { at: 8, count: 1, layout: Arc::new(Layout::basic(4, 4)) };
        let accumulator = Accumulator::new(Op::MinLoc, Scalar::I32I32).unwrap();
        let accumulate =
            |data, len, fetch| Message::Accumulate { place: place.clone(), len, data, accumulator, fetch };
        vec![
            (Message::Put { place: place.clone(), len: 40, data: Data::Here }, 40),
            (Message::Put { place: place.clone(), len: 40, data: Data::Apart(3) }, 0),
            (Message::Get { place: place.clone(), len: 48, id: 9 }, 0),
            (accumulate(Data::Here, 16, None), 16),
            (accumulate(Data::Apart(8), 16, Some(5)), 0),
            (Message::Swap { place: one, len: 4, id: 1 }, 8),
            (Message::Lock { exclusive: true }, 0),
            (Message::Unlock { exclusive: false, id: 2 }, 0),
            (Message::Flush { id: 2 }, 0),
            (Message::Post, 0),
            (Message::Complete, 0),
            (Message::Granted, 0),
            (Message::Denied { process: 7 }, 0),
            (Message::Answer { id: 5, data: Data::Here }, 12),
            (Message::Refused { id: 5 }, 0),
            (Message::Done { id: 5, outside: true }, 0),
        ]
    }

    #[test]
    fn messages_come_as_they_went() {
        for (message, data) in all() {
            let (bytes, at) = message.encode(data);
            assert_eq!(bytes.len(), at + data);
            let (decoded, there) = Message::decode(&bytes).unwrap_or_else(|| panic!("{message:?}"));
            assert_eq!(there, at);
            assert_eq!(decoded.encode(data).0, bytes, "{message:?}");
        }
    }

    #[test]
    fn swaps_are_of_one_element() {
        for (count, len) in [(0, 0), (0, 4), (2, 4), (1, 0)] {
            let place = Place { at: 8, count, layout: Arc::new(Layout::basic(4, 4)) };
            let (bytes, _) = Message::Swap { place, len, id: 1 }.encode(2 * len);
            assert!(Message::decode(&bytes).is_none(), "{count} of {len}");
        }
    }

    #[test]
    fn what_is_cut_or_changed_is_refused_or_another_message() {
        for (message, data) in all() {
            let (bytes, at) = message.encode(data);
            for cut in 0..at {
                assert!(Message::decode(&bytes[..cut]).is_none(), "{message:?} cut to {cut}");
            }
            for position in 0..at {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut changed = bytes.clone();
                    changed[position] = value;
                    // It must neither panic nor make a place that its length does not fit.
                    let _ = Message::decode(&changed);
                }
            }
        }
        assert!(Message::decode(&[]).is_none());
    }
}
