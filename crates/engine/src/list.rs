//! A queue whose elements can leave from anywhere: doubly linked, in one vector, without an
//! allocation for each element.

const NONE: u32 = u32::MAX;

/// A doubly linked list in a vector. A key stays valid until its element is removed.
#[derive(Debug)]
pub(crate) struct List<T> {
    nodes: Vec<Node<T>>,
    first: u32,
    last: u32,
    free: u32,
    /// Free nodes from before [`List::restart_peak`], used when `free` is empty.
    reserve: u32,
    given: usize,
    /// Tools read the differences of these counts.
    pushed: u64,
    removed: u64,
}

#[derive(Debug)]
struct Node<T> {
    value: Option<T>,
    /// The number of elements that were appended before it.
    number: u64,
    /// Undefined for the first node.
    before: u32,
    after: u32,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        List {
            nodes: Vec::new(),
            first: NONE,
            last: NONE,
            free: NONE,
            reserve: NONE,
            given: 0,
            pushed: 0,
            removed: 0,
        }
    }
}

impl<T> List<T> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, value: T) -> u32 {
        if self.free == NONE {
            self.grow();
        }
        let (key, last) = (self.free, self.last);
        let Some(node) = self.nodes.get_mut(key as usize) else {
            unreachable!("a free node exists")
        };
        self.free = node.after;
        node.value = Some(value);
        node.number = self.pushed;
        node.before = last;
        node.after = NONE;
        match self.nodes.get_mut(last as usize) {
            Some(before) => before.after = key,
            None => self.first = key,
        }
        self.last = key;
        self.pushed += 1;
        key
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.given += 1;
        if let Some(node) = self.nodes.get_mut(self.reserve as usize) {
            (self.free, self.reserve) = (self.reserve, node.after);
            node.after = NONE;
            return;
        }
        self.nodes.push(Node { value: None, number: 0, before: NONE, after: NONE });
        self.free = (self.nodes.len() - 1) as u32;
    }

    pub(crate) fn len(&self) -> usize {
        (self.pushed - self.removed) as usize
    }

    pub(crate) fn pushed(&self) -> u64 {
        self.pushed
    }

    pub(crate) fn removed(&self) -> u64 {
        self.removed
    }

    /// The highest length since [`List::restart_peak`]. A node is made, or taken from the reserve,
    /// only when all others are in use, so the number of given nodes is the peak.
    pub(crate) fn peak(&self) -> usize {
        self.given
    }

    pub(crate) fn restart_peak(&mut self) {
        while let Some(node) = self.nodes.get_mut(self.free as usize) {
            let after = std::mem::replace(&mut node.after, self.reserve);
            self.reserve = std::mem::replace(&mut self.free, after);
            self.given -= 1;
        }
    }

    #[inline(always)]
    pub(crate) fn first(&self) -> Option<&T> {
        self.nodes.get(self.first as usize)?.value.as_ref()
    }

    #[inline]
    pub(crate) fn find(&self, wanted: impl FnMut(&T) -> bool) -> Option<u32> {
        self.find_among(usize::MAX, wanted)
    }

    #[inline]
    pub(crate) fn find_among(
        &self,
        most: usize,
        mut wanted: impl FnMut(&T) -> bool,
    ) -> Option<u32> {
        let mut key = self.first;
        for _ in 0..most {
            let node = self.nodes.get(key as usize)?;
            if node.value.as_ref().is_some_and(&mut wanted) {
                return Some(key);
            }
            key = node.after;
        }
        None
    }

    /// The number of elements that were appended before this one; unique for each element.
    pub(crate) fn number(&self, key: u32) -> Option<u64> {
        let node = self.nodes.get(key as usize)?;
        node.value.as_ref().map(|_| node.number)
    }

    pub(crate) fn since(&self, number: u64) -> impl Iterator<Item = (u32, u64, &T)> {
        let mut key = self.first;
        let mut later = self.last;
        // From the end, as many older elements may be in front.
        while let Some(node) = self.nodes.get(later as usize).filter(|node| node.number >= number) {
            key = later;
            if later == self.first {
                break;
            }
            later = node.before;
        }
        let is_any = self.nodes.get(key as usize).is_some_and(|node| node.number >= number);
        std::iter::successors(is_any.then_some(key), |key| {
            Some(self.nodes.get(*key as usize)?.after)
        })
        .map_while(|key| self.nodes.get(key as usize).map(|node| (key, node)))
        .filter_map(|(key, node)| Some((key, node.number, node.value.as_ref()?)))
    }

    pub(crate) fn get(&self, key: u32) -> Option<&T> {
        self.nodes.get(key as usize)?.value.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        self.nodes.get_mut(key as usize)?.value.as_mut()
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.nodes.iter_mut().filter_map(|node| node.value.as_mut())
    }

    #[inline(always)]
    pub(crate) fn remove(&mut self, key: u32) -> Option<T> {
        let value = self.nodes.get_mut(key as usize)?.value.take()?;
        self.unlink(key);
        Some(value)
    }

    /// Removes the first element without dropping it, so the element must own nothing.
    #[inline(always)]
    pub(crate) fn forget_first(&mut self) {
        let key = self.first;
        let Some(node) = self.nodes.get_mut(key as usize) else { return };
        std::mem::forget(node.value.take());
        let after = node.after;
        node.after = self.free;
        self.free = key;
        self.first = after;
        if after == NONE {
            self.last = NONE;
        }
        self.removed += 1;
    }

    #[inline(always)]
    fn unlink(&mut self, key: u32) {
        let Some(node) = self.nodes.get_mut(key as usize) else { return };
        let (before, after) = (node.before, node.after);
        node.after = self.free;
        self.free = key;
        if key == self.first {
            self.first = after;
        } else if let Some(node) = self.nodes.get_mut(before as usize) {
            node.after = after;
        }
        match self.nodes.get_mut(after as usize) {
            Some(node) => node.before = before,
            None => self.last = if self.first == NONE { NONE } else { before },
        }
        self.removed += 1;
    }

    pub(crate) fn drain(&mut self) -> Vec<T> {
        let mut out = Vec::with_capacity(self.len());
        while self.first != NONE {
            out.extend(self.remove(self.first));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_leave_from_anywhere_and_the_order_stays() {
        let mut list = List::default();
        let keys: Vec<u32> = (0..5).map(|v| list.push(v)).collect();
        assert_eq!(list.remove(keys[2]), Some(2));
        assert_eq!(list.remove(keys[2]), None);
        assert_eq!(list.remove(keys[0]), Some(0));
        assert_eq!(list.remove(keys[4]), Some(4));
        let again = list.push(7);
        assert_eq!(list.find(|v| *v > 3), Some(again));
        assert_eq!((list.len(), list.pushed(), list.removed()), (3, 6, 3));
        list.forget_first();
        assert_eq!(list.first(), Some(&3));
        assert_eq!(list.drain(), [3, 7]);
        assert!(list.is_empty());
        list.forget_first();
        let only = list.push(9);
        list.forget_first();
        assert!(list.is_empty());
        assert_eq!(list.push(10), only);
        assert_eq!(list.drain(), [10]);
    }

    #[test]
    fn the_first_one_leaves_wherever_its_forerunner_has_gone() {
        let mut list = List::default();
        let keys: Vec<u32> = (0..3).map(|v| list.push(v)).collect();
        list.forget_first();
        assert_eq!(list.push(3), keys[0]);
        assert_eq!(list.remove(keys[1]), Some(1));
        assert_eq!(list.remove(keys[0]), Some(3));
        assert_eq!(list.remove(keys[2]), Some(2));
        assert!(list.is_empty());
        list.push(4);
        list.push(5);
        assert_eq!(list.drain(), [4, 5]);
    }

    #[test]
    fn the_peak_is_that_since_its_restart() {
        let mut list = List::default();
        (0..5).for_each(|v| _ = list.push(v));
        (0..3).for_each(|_| list.forget_first());
        assert_eq!((list.len(), list.peak()), (2, 5));
        list.restart_peak();
        assert_eq!(list.peak(), 2);
        list.push(5);
        list.forget_first();
        list.push(6);
        assert_eq!((list.len(), list.peak()), (3, 3));
        (0..4).for_each(|v| _ = list.push(v));
        assert_eq!((list.len(), list.peak()), (7, 7));
        assert_eq!(list.drain(), [4, 5, 6, 0, 1, 2, 3]);
        list.restart_peak();
        list.restart_peak();
        assert_eq!((list.len(), list.peak()), (0, 0));
        list.push(8);
        assert_eq!((list.drain(), list.peak()), (vec![8], 1));
    }
}
