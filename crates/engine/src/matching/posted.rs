//! The posted receives of a context, in the order of their posting.
//!
//! Up to [`LINEAR`] of them are compared one after the other. Younger ones are in an *index*, each in the bucket of its class: by
//! source and tag, by source, by tag, or those that want anything. A message is compared with the fronts of the four buckets that could
//! want it, and takes the oldest of these. When the others are over, the oldest of the index take their place.

use super::bucket::Bucket;
use super::{ANYBODY, LINEAR, Posted, Wanted};
use crate::queue::Queue;
use crate::request::RequestId;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// The posted receives.
#[derive(Debug, Default)]
pub(crate) struct PostedQueue {
    /// The oldest ones. There is one, if there is any.
    oldest: Queue<Posted, LINEAR>,
    younger: Option<Box<PostedIndex>>,
}

#[derive(Debug, Default)]
struct PostedIndex {
    /// By their numbers, which are counted from `base`; `None`: it has left.
    places: VecDeque<Option<Posted>>,
    base: u64,
    /// How many have not left.
    len: usize,
    /// The numbers of a class in order, with those of receives that have left.
    buckets: FxHashMap<(u32, Option<i32>), Bucket<u64>>,
    entries: usize,
    by_request: FxHashMap<RequestId, u64>,
}

impl PostedQueue {
    #[inline(always)]
    pub(crate) const fn is_empty(&self) -> bool {
        self.oldest.is_empty()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.oldest.len() + self.younger.as_ref().map_or(0, |younger| younger.len)
    }

    /// Appends a receive.
    #[inline(always)]
    pub(crate) fn push(&mut self, posted: Posted) {
        if self.younger.is_some() || !self.oldest.push_now(posted) {
            let Posted { source, tag, mask, request } = posted;
            self.push_slowly(source, tag, mask, request);
        }
    }

    /// The parts of a receive stay in registers where this is called.
    #[cold]
    #[inline(never)]
    fn push_slowly(&mut self, source: u32, tag: i32, mask: i32, request: RequestId) {
        let posted = Posted { source, tag, mask, request };
        if self.younger.is_some() || !self.oldest.push(posted) {
            self.younger.get_or_insert_default().push(posted);
        }
    }

    /// The oldest one.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<&Posted> {
        self.oldest.first()
    }

    /// Takes out the oldest one, if there is one.
    #[inline(always)]
    pub(crate) fn forget_first(&mut self) {
        self.oldest.forget_first();
        self.refill();
    }

    /// Takes out the oldest one that wants a message of this source and tag.
    #[inline]
    pub(crate) fn take_wanting(&mut self, from: u32, tag: i32) -> Option<Posted> {
        if let Some(taken) = self.oldest.take_first(|posted| posted.wanted().fits(from, tag)) {
            self.refill();
            return Some(taken);
        }
        let taken = self.younger.as_mut()?.take_wanting(from, tag);
        self.refill();
        taken
    }

    /// The first receive that wants a message of this source and tag.
    pub(crate) fn first_wanting(&self, from: u32, tag: i32) -> Option<RequestId> {
        self.iter().find(|posted| posted.wanted().fits(from, tag)).map(|posted| posted.request)
    }

    /// Takes out the one of this request.
    pub(crate) fn take_request(&mut self, request: RequestId) -> Option<Posted> {
        let taken = match self.oldest.take_first(|posted| posted.request == request) {
            Some(taken) => Some(taken),
            None => self.younger.as_mut()?.take_request(request),
        };
        self.refill();
        taken
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Posted> + '_ {
        self.oldest.iter().chain(self.younger.iter().flat_map(|younger| younger.iter()))
    }

    /// Takes all of them out, in order.
    pub(crate) fn drain(&mut self) -> Vec<Posted> {
        let all = self.iter().collect();
        *self = PostedQueue::default();
        all
    }

    /// There is one among the oldest, if there is any.
    #[inline(always)]
    fn refill(&mut self) {
        if self.younger.is_some() {
            self.refill_from_younger();
        }
    }

    #[cold]
    #[inline(never)]
    fn refill_from_younger(&mut self) {
        let Some(younger) = &mut self.younger else { return };
        if self.oldest.is_empty() {
            for _ in 0..LINEAR {
                let Some(posted) = younger.take_first() else { break };
                self.oldest.push(posted);
            }
        }
        if younger.len == 0 {
            self.younger = None;
        }
    }
}

impl PostedIndex {
    fn push(&mut self, posted: Posted) {
        let number = self.base + self.places.len() as u64;
        self.places.push_back(Some(posted));
        self.buckets.entry(posted.wanted().class()).or_default().push(number);
        self.by_request.insert(posted.request, number);
        self.entries += 1;
        self.len += 1;
        if self.entries.max(self.places.len()) > 4 * self.len + LINEAR {
            let mut all = PostedIndex::default();
            self.iter().for_each(|posted| all.push(posted));
            *self = all;
        }
    }

    fn iter(&self) -> impl Iterator<Item = Posted> + '_ {
        self.places.iter().flatten().copied()
    }

    fn place(&mut self, number: u64) -> Option<&mut Option<Posted>> {
        self.places.get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    /// Takes out what has a number.
    fn take(&mut self, number: u64) -> Option<Posted> {
        let taken = self.place(number)?.take()?;
        self.by_request.remove(&taken.request);
        self.len -= 1;
        while let Some(None) = self.places.front() {
            self.places.pop_front();
            self.base += 1;
        }
        Some(taken)
    }

    fn take_first(&mut self) -> Option<Posted> {
        // What has left at the front is gone.
        self.take(self.base)
    }

    fn take_request(&mut self, request: RequestId) -> Option<Posted> {
        let number = *self.by_request.get(&request)?;
        self.take(number)
    }

    fn take_wanting(&mut self, from: u32, tag: i32) -> Option<Posted> {
        let classes = [(from, Some(tag)), (ANYBODY, Some(tag)), (from, None), (ANYBODY, None)];
        // No wildcard takes a message of the library.
        let classes = if tag < 0 { &classes[..2] } else { &classes[..] };
        let first = classes.iter().filter_map(|class| self.first_of(*class)).min()?;
        self.take(first)
    }

    /// The oldest of a class that has not left.
    fn first_of(&mut self, class: (u32, Option<i32>)) -> Option<u64> {
        while let Some(&number) = self.buckets.get(&class)?.first() {
            if self.place(number).is_some_and(|place| place.is_some()) {
                return Some(number);
            }
            self.buckets.get_mut(&class)?.forget_first();
            self.entries -= 1;
        }
        self.buckets.remove(&class);
        None
    }
}

impl Wanted {
    /// Source and tag: [`ANYBODY`] and `None` for any.
    #[inline]
    pub(super) fn class(&self) -> (u32, Option<i32>) {
        (self.source, (self.mask == !0).then_some(self.tag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_wire::Tags;
    use proptest::prelude::*;

    fn posted(from: u32, tag: i32, request: u64) -> Posted {
        let Tags { tag, mask } = if tag == 3 { Tags::ANY } else { Tags::one(tag - 1) };
        let source = if from == 3 { ANYBODY } else { from };
        Posted { source, tag, mask, request: RequestId::from_raw(request) }
    }

    proptest! {
        /// Against comparing one after the other.
        #[test]
        fn the_oldest_that_wants_a_message_gets_it(
            steps in prop::collection::vec((0..8u8, 0..4u32, 0..4i32), 0..900),
            pushes in 3..7u8,
        ) {
            let mut queue = PostedQueue::default();
            let mut model: Vec<Posted> = Vec::new();
            let id = |posted: Option<Posted>| posted.map(|posted| posted.request);
            for (number, (kind, from, tag)) in (1u64..).zip(steps) {
                if kind < pushes {
                    queue.push(posted(from, tag, number));
                    model.push(posted(from, tag, number));
                } else if number % 7 == 0 {
                    queue.forget_first();
                    if !model.is_empty() { model.remove(0); }
                } else if number % 5 == 0 && !model.is_empty() {
                    let request = model.remove(number as usize % model.len()).request;
                    prop_assert_eq!(id(queue.take_request(request)), Some(request));
                    prop_assert_eq!(id(queue.take_request(request)), None);
                } else {
                    let (from, tag) = (from % 3, tag % 3 - 1);
                    let at = model.iter().position(|posted| posted.wanted().fits(from, tag));
                    let expected = at.map(|at| model.remove(at));
                    prop_assert_eq!(id(queue.take_wanting(from, tag)), id(expected));
                }
                prop_assert_eq!(queue.len(), model.len());
                prop_assert_eq!(id(queue.first().copied()), id(model.first().copied()));
                prop_assert_eq!(queue.is_empty(), model.is_empty());
            }
            prop_assert!(queue.iter().map(|p| p.request).eq(model.iter().map(|p| p.request)));
            prop_assert_eq!(queue.drain().len(), model.len());
            prop_assert!(queue.is_empty());
        }
    }

    /// The index does not grow with what has been there: counted, not timed.
    #[test]
    fn the_index_keeps_no_more_than_is_there() {
        let mut queue = PostedQueue::default();
        // One that nobody sends anything, before and among the others.
        queue.push(posted(1, 1, 0));
        for n in 1..100_000u64 {
            queue.push(if n == 100 { posted(1, 1, n) } else { posted(0, (n % 2) as i32, n) });
            if n > 200 {
                assert!(queue.take_wanting(0, (n % 2) as i32 - 1).is_some());
            }
        }
        let index = queue.younger.as_ref().unwrap();
        assert!(index.entries <= 4 * 300 + LINEAR, "{}", index.entries);
        assert!(index.places.len() <= 4 * 300 + LINEAR, "{}", index.places.len());
        assert_eq!(index.by_request.len(), index.len);
    }
}
