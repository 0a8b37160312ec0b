//! A queue whose middle can be left: doubly linked, in one vector, without an allocation per element.

const NONE: u32 = u32::MAX;

/// A doubly linked list in a vector. Keys stay valid until their element is removed.
#[derive(Debug)]
pub(crate) struct List<T> {
    nodes: Vec<Node<T>>,
    first: u32,
    last: u32,
    free: u32,
    len: usize,
}

#[derive(Debug)]
struct Node<T> {
    value: Option<T>,
    before: u32,
    after: u32,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        List { nodes: Vec::new(), first: NONE, last: NONE, free: NONE, len: 0 }
    }
}

impl<T> List<T> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// Appends an element and returns its key.
    #[inline(always)]
    pub(crate) fn push(&mut self, value: T) -> u32 {
        if self.free == NONE {
            self.grow();
        }
        let (key, last) = (self.free, self.last);
        let Some(node) = self.nodes.get_mut(key as usize) else { unreachable!("a free node exists") };
        self.free = node.after;
        node.value = Some(value);
        node.before = last;
        node.after = NONE;
        match self.nodes.get_mut(last as usize) {
            Some(before) => before.after = key,
            None => self.first = key,
        }
        self.last = key;
        self.len += 1;
        key
    }

    /// Makes a free node.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.nodes.push(Node { value: None, before: NONE, after: NONE });
        self.free = (self.nodes.len() - 1) as u32;
    }

    /// The first element.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<&T> {
        self.nodes.get(self.first as usize)?.value.as_ref()
    }

    /// The key of the first element.
    #[inline(always)]
    pub(crate) fn first_key(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// The first element, in order, for which `wanted` holds.
    #[inline]
    pub(crate) fn find(&self, mut wanted: impl FnMut(&T) -> bool) -> Option<u32> {
        let mut key = self.first;
        while key != NONE {
            let node = &self.nodes[key as usize];
            if node.value.as_ref().is_some_and(&mut wanted) {
                return Some(key);
            }
            key = node.after;
        }
        None
    }

    pub(crate) fn get(&self, key: u32) -> Option<&T> {
        self.nodes.get(key as usize)?.value.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        self.nodes.get_mut(key as usize)?.value.as_mut()
    }

    /// Takes an element out.
    #[inline(always)]
    pub(crate) fn remove(&mut self, key: u32) -> Option<T> {
        let value = self.nodes.get_mut(key as usize)?.value.take()?;
        self.unlink(key);
        Some(value)
    }

    /// Takes out the first element, which owns nothing that would have to be dropped.
    #[inline(always)]
    pub(crate) fn forget_first(&mut self) {
        let key = self.first;
        let Some(node) = self.nodes.get_mut(key as usize) else { return };
        std::mem::forget(node.value.take());
        let after = node.after;
        node.after = self.free;
        self.free = key;
        self.first = after;
        match self.nodes.get_mut(after as usize) {
            Some(node) => node.before = NONE,
            None => self.last = NONE,
        }
        self.len -= 1;
    }

    /// Takes a node out of the chain and makes it free.
    #[inline(always)]
    fn unlink(&mut self, key: u32) {
        let Some(node) = self.nodes.get_mut(key as usize) else { return };
        let (before, after) = (node.before, node.after);
        node.after = self.free;
        self.free = key;
        // `NONE` is no index.
        match self.nodes.get_mut(before as usize) {
            Some(node) => node.after = after,
            None => self.first = after,
        }
        match self.nodes.get_mut(after as usize) {
            Some(node) => node.before = before,
            None => self.last = before,
        }
        self.len -= 1;
    }

    /// Takes all elements out, in order.
    pub(crate) fn drain(&mut self) -> Vec<T> {
        let mut out = Vec::with_capacity(self.len);
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
        assert_eq!(list.len, 3);
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
}
