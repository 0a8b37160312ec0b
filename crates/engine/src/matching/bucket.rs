//! A bucket of an index: most have one entry, for which nothing is allocated.

use std::collections::VecDeque;

/// Entries in their order.
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
    /// Appends an entry.
    pub(super) fn push(&mut self, entry: T) {
        match self.first {
            None => self.first = Some(entry),
            Some(_) => self.others.push_back(entry),
        }
    }

    /// The oldest entry.
    pub(super) fn first(&self) -> Option<&T> {
        self.first.as_ref()
    }

    /// Takes out the oldest entry, if there is one.
    pub(super) fn forget_first(&mut self) {
        self.first = self.others.pop_front();
    }
}
