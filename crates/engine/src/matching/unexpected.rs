//! The unexpected queue of a context: messages that arrived before their receives, in the order of
//! their arrival.
//!
//! A receive is compared with the oldest [`FRONT`] messages, as most receives take messages in
//! about the order of their arrival, and with all messages of a queue of up to [`LINEAR`].
//! Otherwise the search uses an *index* of the receive's class: by source and tag, by tag, or by
//! source; a receive with two wildcards takes the front of the queue. An index takes in new
//! messages only when a receive of its class is searched there, so arrivals and unused classes cost
//! nothing. The entry of a message that has left the queue stays in an index until a later search
//! finds it; the number of an entry distinguishes it from a newer message with the same key.

use super::{ANYBODY, LINEAR, MatchPattern, Unexpected};
use crate::list::List;
use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::ops::{Deref, DerefMut};

#[derive(Debug, Default)]
pub(crate) struct UnexpectedQueue {
    list: List<Unexpected>,
    indices: Option<Box<Indices>>,
}

/// The number of messages that are compared before an index is used.
const FRONT: usize = 4;

#[derive(Debug, Default)]
struct Indices {
    exact: Index<(u32, i32)>,
    by_tag: Index<i32>,
    /// Without messages of the library, which no wildcard matches.
    by_source: Index<u32>,
    waiting: Index<(u32, u64)>,
}

/// The messages of a queue by class, oldest first.
#[derive(Debug)]
struct Index<C> {
    /// First and last entry of each class, as positions in `entries`.
    classes: FxHashMap<C, (u32, u32)>,
    /// Includes messages that have left the queue.
    entries: Vec<Entry>,
    /// All messages with lower numbers are in the index.
    until: u64,
}

/// A message by its number and key in the list, and the position of the next entry of its class.
#[derive(Clone, Copy, Debug)]
struct Entry {
    number: u64,
    key: u32,
    next: u32,
}

const NONE: u32 = u32::MAX;

// The search in an index notices messages that functions of the list have removed.
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
    #[inline]
    pub(crate) fn find_match(&mut self, wanted: MatchPattern) -> Option<u32> {
        let fits = |u: &Unexpected| wanted.fits(u.from, u.tag);
        let is_short = self.list.len() <= LINEAR;
        if is_short || wanted.class() == (ANYBODY, None) {
            return self.list.find(fits);
        }
        self.list.find_among(FRONT, fits).or_else(|| self.search_index(wanted))
    }

    #[inline(never)]
    fn search_index(&mut self, wanted: MatchPattern) -> Option<u32> {
        let UnexpectedQueue { list, indices } = self;
        let Indices { exact, by_tag, by_source, .. } = &mut **indices.get_or_insert_default();
        match wanted.class() {
            (from, Some(tag)) if from != ANYBODY => {
                exact.take_in(list, |u| Some((u.from, u.tag)));
                exact.first(&(from, tag), list)
            }
            (_, Some(tag)) => {
                by_tag.take_in(list, |u| Some(u.tag));
                by_tag.first(&tag, list)
            }
            (from, None) => {
                by_source.take_in(list, |u| (u.tag >= 0).then_some(u.from));
                by_source.first(&from, list)
            }
        }
    }

    /// The message whose sender waits for its match by `request`.
    pub(crate) fn find_waiting(&mut self, from: u32, request: u64) -> Option<u32> {
        let is_it = |u: &Unexpected| u.from == from && u.content.waiting() == Some(request);
        let UnexpectedQueue { list, indices } = self;
        if list.len() <= LINEAR {
            return list.find(is_it);
        }
        let waiting = &mut indices.get_or_insert_default().waiting;
        waiting.take_in(list, |u| u.content.waiting().map(|request| (u.from, request)));
        waiting.first(&(from, request), list).filter(|key| list.get(*key).is_some_and(is_it))
    }
}

impl<C> Default for Index<C> {
    fn default() -> Self {
        Index { classes: FxHashMap::default(), entries: Vec::new(), until: 0 }
    }
}

impl<C: Eq + Hash> Index<C> {
    fn take_in(&mut self, list: &List<Unexpected>, class: impl Fn(&Unexpected) -> Option<C>) {
        let more = list.pushed() - self.until;
        if more == 0 {
            return;
        }
        // More than half of the entries have left. Building the index again costs no more than its
        // first building.
        if self.entries.len() > 2 * list.len() + LINEAR {
            self.classes.clear();
            self.entries.clear();
            self.until = 0;
        }
        for (key, number, message) in list.since(self.until) {
            let Some(class) = class(message) else { continue };
            let place = self.entries.len() as u32;
            self.entries.push(Entry { number, key, next: NONE });
            let (_, last) = self.classes.entry(class).or_insert((place, place));
            let before = std::mem::replace(last, place);
            if before != place
                && let Some(before) = self.entries.get_mut(before as usize)
            {
                before.next = place;
            }
        }
        self.until = list.pushed();
    }

    fn first(&mut self, class: &C, list: &List<Unexpected>) -> Option<u32> {
        let (first, _) = self.classes.get_mut(class)?;
        while let Some(entry) = self.entries.get(*first as usize) {
            if list.number(entry.key) == Some(entry.number) {
                return Some(entry.key);
            }
            *first = entry.next;
        }
        self.classes.remove(class);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SHORT, UnexpectedData};
    use super::*;
    use oxmpi_wire::Tags;
    use proptest::prelude::*;

    fn message(from: u32, tag: i32, request: u64) -> Unexpected {
        let content = match request % 3 {
            0 => UnexpectedData::Short { len: 0, data: [0; SHORT] },
            _ => {
                let announced =
                    oxmpi_wire::Announced { request, length: 1, address: 0, announcement: 0 };
                UnexpectedData::Rendezvous { announced, first: Vec::new() }
            }
        };
        Unexpected { from, tag, content }
    }

    fn wanted(from: u32, tag: i32) -> MatchPattern {
        let source = if from == 3 { ANYBODY } else { from };
        MatchPattern::plain(source, if tag == 3 { Tags::ANY } else { Tags::one(tag - 1) })
    }

    proptest! {
        #[test]
        fn the_first_wanted_is_found(
            steps in prop::collection::vec((0..8u8, 0..4u32, 0..4i32), 0..900),
            pushes in 3..7u8,
        ) {
            let mut queue = UnexpectedQueue::default();
            let mut model: Vec<(u32, u32, i32, u64)> = Vec::new();
            for (number, (kind, from, tag)) in (0u64..).zip(steps) {
                if kind < pushes {
                    let (from, tag) = (from % 3, tag % 3 - 1);
                    let key = queue.push(message(from, tag, number));
                    model.push((key, from, tag, number));
                } else if kind == 7 && number % 5 == 0 {
                    queue.forget_first();
                    if !model.is_empty() { model.remove(0); }
                } else {
                    let wanted = wanted(from, tag);
                    let at = model.iter().position(|(_, from, tag, _)| wanted.fits(*from, *tag));
                    let found = queue.find_match(wanted);
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

    #[test]
    fn an_index_keeps_no_more_than_is_there() {
        let mut queue = UnexpectedQueue::default();
        for n in 0..100_000u64 {
            queue.push(message(0, (n % 500) as i32, n));
            if n >= 200 {
                let key =
                    queue.find_match(MatchPattern::plain(0, Tags::one(((n - 100) % 500) as i32)));
                assert!(queue.remove(key.unwrap()).is_some());
                queue.find_waiting(0, n);
            }
        }
        let Indices { exact, by_tag, by_source, waiting } = &**queue.indices.as_ref().unwrap();
        let most = 2 * 200 + LINEAR + 200;
        assert!(
            exact.entries.len() <= most && waiting.entries.len() <= most,
            "{}",
            exact.entries.len()
        );
        assert!(
            exact.classes.len() <= 500 && waiting.classes.len() <= most,
            "{}",
            waiting.classes.len()
        );
        assert!(by_tag.entries.is_empty() && by_source.entries.is_empty(), "nobody has used them");
        while queue.len() > 1 {
            queue.forget_first();
        }
        assert!(queue.find_match(MatchPattern::plain(0, Tags::one(7))).is_none());
    }
}
