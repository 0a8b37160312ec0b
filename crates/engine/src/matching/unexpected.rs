//! The unexpected queue of a context: messages that came before their receives, in the order of their arrival.
//!
//! Up to [`LINEAR`] of them are compared one after the other. Those that come when there are more are in an *index* as well, by
//! source and tag, by source, and by tag: a receive of any of these three classes takes the front of one bucket of it, and one
//! that wants anything at the front of the queue. What leaves the queue stays in the index until somebody comes across it
//! there; numbers tell it from what is in its place now.

use super::bucket::Bucket;
use super::{ANYBODY, LINEAR, Unexpected, Wanted};
use crate::list::List;
use rustc_hash::FxHashMap;
use std::ops::{Deref, DerefMut};

/// The unexpected queue.
#[derive(Debug, Default)]
pub(crate) struct UnexpectedQueue {
    list: List<Unexpected>,
    /// Of the messages from number [`UnexpectedIndex::begin`] on, which are the last ones of the list.
    index: Option<Box<UnexpectedIndex>>,
}

/// Where a message is in the list, and its number there.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u32,
    number: u64,
}

/// Source and tag of the messages in a bucket: [`ANYBODY`] and `None` are all of them.
type Class = (u32, Option<i32>);

#[derive(Debug)]
struct UnexpectedIndex {
    begin: u64,
    buckets: FxHashMap<Class, Bucket<Entry>>,
    /// How many entries the buckets have, with those of messages that have left.
    entries: usize,
    /// The messages for whose match their sender waits, by sender and request.
    waiting: FxHashMap<(u32, u64), Entry>,
}

// Whatever is taken out of the list is found missing by the index.
impl Deref for UnexpectedQueue {
    type Target = List<Unexpected>;

    fn deref(&self) -> &List<Unexpected> {
        &self.list
    }
}

impl DerefMut for UnexpectedQueue {
    fn deref_mut(&mut self) -> &mut List<Unexpected> {
        &mut self.list
    }
}

impl UnexpectedQueue {
    /// Appends a message and returns its key.
    #[inline]
    pub(crate) fn push(&mut self, message: Unexpected) -> u32 {
        let key = self.list.push(message);
        if self.index.is_some() || self.list.len() > LINEAR {
            self.index(key);
        }
        key
    }

    /// The first message that a receive wants.
    #[inline]
    pub(crate) fn find_wanted(&mut self, wanted: Wanted) -> Option<u32> {
        let UnexpectedQueue { list, index } = self;
        let Some(index) = index else { return list.find(|u| wanted.fits(u.from, u.tag)) };
        if wanted.class() == (ANYBODY, None) {
            return list.find(|u| wanted.fits(u.from, u.tag));
        }
        let older = list.find_before(index.begin, |u| wanted.fits(u.from, u.tag));
        older.or_else(|| index.first_of(wanted.class(), list))
    }

    /// The message of a process for whose match this request of its waits.
    pub(crate) fn find_waiting(&self, from: u32, request: u64) -> Option<u32> {
        let is_it = |u: &Unexpected| u.from == from && u.what.waiting() == Some(request);
        let Some(index) = &self.index else { return self.list.find(is_it) };
        self.list.find_before(index.begin, is_it).or_else(|| {
            let entry = index.waiting.get(&(from, request)).filter(|entry| self.list.has(entry))?;
            self.list.get(entry.key).is_some_and(is_it).then_some(entry.key)
        })
    }

    /// Notes the newest message in the index, which is made if there is none.
    #[cold]
    #[inline(never)]
    fn index(&mut self, key: u32) {
        let UnexpectedQueue { list, index } = self;
        if list.len() <= LINEAR / 2 {
            *index = None;
            return;
        }
        let Some(entry) = list.number(key).map(|number| Entry { key, number }) else { return };
        let index = index.get_or_insert_with(|| Box::new(UnexpectedIndex::new(entry.number)));
        index.add(entry, list);
        // A message has at most three entries: most of these are of messages that have left.
        if index.entries > 8 * list.len() {
            **index = UnexpectedIndex::of(list, index.begin);
        }
    }
}

impl List<Unexpected> {
    fn has(&self, entry: &Entry) -> bool {
        self.number(entry.key) == Some(entry.number)
    }
}

impl UnexpectedIndex {
    fn new(begin: u64) -> UnexpectedIndex {
        UnexpectedIndex { begin, buckets: FxHashMap::default(), entries: 0, waiting: FxHashMap::default() }
    }

    /// The index of the messages from number `begin` on.
    fn of(list: &List<Unexpected>, begin: u64) -> UnexpectedIndex {
        let mut index = UnexpectedIndex::new(begin);
        for (key, number) in list.keys().filter(|(_, number)| *number >= begin) {
            index.add(Entry { key, number }, list);
        }
        index
    }

    fn add(&mut self, entry: Entry, list: &List<Unexpected>) {
        let Some(Unexpected { from, tag, what }) = list.get(entry.key) else { return };
        let classes = [(*from, Some(*tag)), (ANYBODY, Some(*tag)), (*from, None)];
        // No wildcard takes a message of the library.
        for class in &classes[..if *tag < 0 { 2 } else { 3 }] {
            self.buckets.entry(*class).or_default().push(entry);
            self.entries += 1;
        }
        if let Some(request) = what.waiting() {
            self.waiting.insert((*from, request), entry);
        }
    }

    /// The oldest message of a class that is still in the list.
    fn first_of(&mut self, class: Class, list: &List<Unexpected>) -> Option<u32> {
        let bucket = self.buckets.get_mut(&class)?;
        while let Some(entry) = bucket.first() {
            if list.has(entry) {
                return Some(entry.key);
            }
            bucket.forget_first();
            self.entries -= 1;
        }
        self.buckets.remove(&class);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Message, SHORT};
    use super::*;
    use oxmpi_wire::Tags;
    use proptest::prelude::*;

    fn message(from: u32, tag: i32, request: u64) -> Unexpected {
        let what = match request % 3 {
            0 => Message::Short { len: 0, data: [0; SHORT] },
            _ => {
                let announced = oxmpi_wire::Announced { request, length: 1, address: 0, announcement: 0 };
                Message::Rendezvous { announced, first: Vec::new() }
            }
        };
        Unexpected { from, tag, what }
    }

    fn wanted(from: u32, tag: i32) -> Wanted {
        let source = if from == 3 { ANYBODY } else { from };
        Wanted::plain(source, if tag == 3 { Tags::ANY } else { Tags::one(tag - 1) })
    }

    proptest! {
        /// Against comparing one after the other.
        #[test]
        fn the_first_wanted_is_found(
            steps in prop::collection::vec((0..8u8, 0..4u32, 0..4i32), 0..900),
            pushes in 3..7u8,
        ) {
            let mut queue = UnexpectedQueue::default();
            let mut model: Vec<(u32, u32, i32, u64)> = Vec::new();
            for (number, (kind, from, tag)) in (0u64..).zip(steps) {
                if kind < pushes {
                    // Tag -1 is one of the library's.
                    let (from, tag) = (from % 3, tag % 3 - 1);
                    let key = queue.push(message(from, tag, number));
                    model.push((key, from, tag, number));
                } else if kind == 7 && number % 5 == 0 {
                    queue.forget_first();
                    if !model.is_empty() { model.remove(0); }
                } else {
                    let wanted = wanted(from, tag);
                    let at = model.iter().position(|(_, from, tag, _)| wanted.fits(*from, *tag));
                    let found = queue.find_wanted(wanted);
                    prop_assert_eq!(found, at.map(|at| model[at].0));
                    if let Some(at) = at && kind != 6 {
                        let (key, .., request) = model.remove(at);
                        let waits = queue.find_waiting(wanted_source(&queue, key), request);
                        prop_assert_eq!(waits, (request % 3 != 0).then_some(key));
                        prop_assert!(queue.remove(key).is_some());
                        prop_assert_eq!(queue.find_waiting(0, request), None);
                    }
                }
                prop_assert_eq!(queue.len(), model.len());
                prop_assert_eq!(queue.first().is_none(), model.is_empty());
            }
        }
    }

    fn wanted_source(queue: &UnexpectedQueue, key: u32) -> u32 {
        queue.get(key).map_or(u32::MAX, |message| message.from)
    }

    /// The steps of the index grow with the messages, not with their square: counted, not timed.
    #[test]
    fn the_index_keeps_no_more_than_is_there() {
        let mut queue = UnexpectedQueue::default();
        for n in 0..100_000u64 {
            queue.push(message(0, (n % 500) as i32, n));
            if n >= 200 {
                // Nothing is ever looked up in the buckets of the other classes.
                let key = queue.find_wanted(Wanted::plain(0, Tags::one(((n - 200) % 500) as i32)));
                assert!(queue.remove(key.unwrap()).is_some());
            }
        }
        let index = queue.index.as_ref().unwrap();
        assert!(index.entries <= 8 * 201 + 3, "{} entries of {} messages", index.entries, queue.len());
        assert!(index.waiting.len() <= 8 * 201, "{} waiting", index.waiting.len());
        while queue.len() > 1 {
            queue.forget_first();
        }
        queue.push(message(0, 1, 0));
        assert!(queue.index.is_none(), "few are compared one after the other again");
    }
}
