//! The posted receives of a context, in the order of their posting.
//!
//! The oldest [`LINEAR`] receives are compared one after another. Younger receives are in an
//! *index*, each in the bucket of its class: source and tag, source, tag, or any message. A message
//! is compared with the front of the four buckets that could match it, and takes the oldest of
//! these. When older receives leave, the oldest of the index replace them.

use super::bucket::Bucket;
use super::{ANYBODY, LINEAR, MatchPattern, PostedReceive};
use crate::queue::Queue;
use crate::request::RequestId;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

#[derive(Debug, Default)]
pub(crate) struct PostedQueue {
    /// Empty only if there are no posted receives.
    oldest: Queue<PostedReceive, LINEAR>,
    younger: Option<Box<PostedIndex>>,
}

#[derive(Debug, Default)]
struct PostedIndex {
    /// By number from `base` on; `None` if the receive has left.
    places: VecDeque<Option<PostedReceive>>,
    base: u64,
    len: usize,
    /// The numbers of each class in order. They may include receives that have left.
    buckets: FxHashMap<(u32, Option<i32>), Bucket<u64>>,
    entries: usize,
    by_request: FxHashMap<RequestId, u64>,
}

impl PostedQueue {
    #[inline(always)]
    pub(crate) const fn is_empty(&self) -> bool {
        self.oldest.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.oldest.len() + self.younger.as_ref().map_or(0, |younger| younger.len)
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, posted: PostedReceive) {
        if self.younger.is_some() || !self.oldest.push_now(posted) {
            let PostedReceive { source, tag, mask, request } = posted;
            self.push_slowly(source, tag, mask, request);
        }
    }

    #[cold]
    #[inline(never)]
    fn push_slowly(&mut self, source: u32, tag: i32, mask: i32, request: RequestId) {
        let posted = PostedReceive { source, tag, mask, request };
        if self.younger.is_some() || !self.oldest.push(posted) {
            self.younger.get_or_insert_default().push(posted);
        }
    }

    #[inline(always)]
    pub(crate) fn first(&self) -> Option<&PostedReceive> {
        self.oldest.first()
    }

    #[inline(always)]
    pub(crate) fn forget_first(&mut self) {
        self.oldest.forget_first();
        self.refill();
    }

    #[inline]
    pub(crate) fn take_matching(&mut self, from: u32, tag: i32) -> Option<PostedReceive> {
        if let Some(taken) = self.oldest.take_first(|posted| posted.pattern().fits(from, tag)) {
            self.refill();
            return Some(taken);
        }
        let taken = self.younger.as_mut()?.take_matching(from, tag);
        self.refill();
        taken
    }

    pub(crate) fn first_matching(&self, from: u32, tag: i32) -> Option<RequestId> {
        self.iter().find(|posted| posted.pattern().fits(from, tag)).map(|posted| posted.request)
    }

    pub(crate) fn take_request(&mut self, request: RequestId) -> Option<PostedReceive> {
        let taken = match self.oldest.take_first(|posted| posted.request == request) {
            Some(taken) => Some(taken),
            None => self.younger.as_mut()?.take_request(request),
        };
        self.refill();
        taken
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = PostedReceive> + '_ {
        self.oldest.iter().chain(self.younger.iter().flat_map(|younger| younger.iter()))
    }

    pub(crate) fn drain(&mut self) -> Vec<PostedReceive> {
        let all = self.iter().collect();
        *self = PostedQueue::default();
        all
    }

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
    fn push(&mut self, posted: PostedReceive) {
        let number = self.base + self.places.len() as u64;
        self.places.push_back(Some(posted));
        self.buckets.entry(posted.pattern().class()).or_default().push(number);
        self.by_request.insert(posted.request, number);
        self.entries += 1;
        self.len += 1;
        if self.entries.max(self.places.len()) > 4 * self.len + LINEAR {
            let mut all = PostedIndex::default();
            self.iter().for_each(|posted| all.push(posted));
            *self = all;
        }
    }

    fn iter(&self) -> impl Iterator<Item = PostedReceive> + '_ {
        self.places.iter().flatten().copied()
    }

    fn place(&mut self, number: u64) -> Option<&mut Option<PostedReceive>> {
        self.places.get_mut(usize::try_from(number.checked_sub(self.base)?).ok()?)
    }

    fn take(&mut self, number: u64) -> Option<PostedReceive> {
        let taken = self.place(number)?.take()?;
        self.by_request.remove(&taken.request);
        self.len -= 1;
        while let Some(None) = self.places.front() {
            self.places.pop_front();
            self.base += 1;
        }
        Some(taken)
    }

    fn take_first(&mut self) -> Option<PostedReceive> {
        // `base` has a receive, as `take` removes empty places at the front.
        self.take(self.base)
    }

    fn take_request(&mut self, request: RequestId) -> Option<PostedReceive> {
        let number = *self.by_request.get(&request)?;
        self.take(number)
    }

    fn take_matching(&mut self, from: u32, tag: i32) -> Option<PostedReceive> {
        let classes = [(from, Some(tag)), (ANYBODY, Some(tag)), (from, None), (ANYBODY, None)];
        // No wildcard matches a message of the library.
        let classes = if tag < 0 { &classes[..2] } else { &classes[..] };
        let first = classes.iter().filter_map(|class| self.first_of(*class)).min()?;
        self.take(first)
    }

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

impl MatchPattern {
    /// Source and tag; [`ANYBODY`] and `None` for wildcards.
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

    fn posted(from: u32, tag: i32, request: u64) -> PostedReceive {
        let Tags { tag, mask } = if tag == 3 { Tags::ANY } else { Tags::one(tag - 1) };
        let source = if from == 3 { ANYBODY } else { from };
        PostedReceive { source, tag, mask, request: RequestId::from_raw(request) }
    }

    proptest! {
        #[test]
        fn the_oldest_that_wants_a_message_gets_it(
            steps in prop::collection::vec((0..8u8, 0..4u32, 0..4i32), 0..900),
            pushes in 3..7u8,
        ) {
            let mut queue = PostedQueue::default();
            let mut model: Vec<PostedReceive> = Vec::new();
            let id = |posted: Option<PostedReceive>| posted.map(|posted| posted.request);
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
                    let at = model.iter().position(|posted| posted.pattern().fits(from, tag));
                    let expected = at.map(|at| model.remove(at));
                    prop_assert_eq!(id(queue.take_matching(from, tag)), id(expected));
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

    #[test]
    fn the_index_keeps_no_more_than_is_there() {
        let mut queue = PostedQueue::default();
        // Two receives that never match, before and among the others.
        queue.push(posted(1, 1, 0));
        for n in 1..100_000u64 {
            queue.push(if n == 100 { posted(1, 1, n) } else { posted(0, (n % 2) as i32, n) });
            if n > 200 {
                assert!(queue.take_matching(0, (n % 2) as i32 - 1).is_some());
            }
        }
        let index = queue.younger.as_ref().unwrap();
        assert!(index.entries <= 4 * 300 + LINEAR, "{}", index.entries);
        assert!(index.places.len() <= 4 * 300 + LINEAR, "{}", index.places.len());
        assert_eq!(index.by_request.len(), index.len);
    }
}
