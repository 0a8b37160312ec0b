//! A bucket of an index. With a single entry, as most buckets have, it needs no allocation.

use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Bucket<T> {
    first: Option<T>,
    others: VecDeque<T>,
}

impl<T> Default for Bucket<T> {
    fn default() -> Self {
        Bucket { first: None, others: VecDeque::new() }
    }
}

impl<T> Bucket<T> {
    pub(super) fn push(&mut self, entry: T) {
        match self.first {
            None => self.first = Some(entry),
            Some(_) => self.others.push_back(entry),
        }
    }

    pub(super) fn first(&self) -> Option<&T> {
        self.first.as_ref()
    }

    pub(super) fn forget_first(&mut self) {
        self.first = self.others.pop_front();
    }
}
