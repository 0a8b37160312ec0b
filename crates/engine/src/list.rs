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
    pub(crate) fn push(&mut self, value: T) -> u32 {
        let node = Node { value: Some(value), before: self.last, after: NONE };
        let key = if self.free == NONE {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            let key = self.free;
            self.free = self.nodes[key as usize].after;
            self.nodes[key as usize] = node;
            key
        };
        match self.last {
            NONE => self.first = key,
            last => self.nodes[last as usize].after = key,
        }
        self.last = key;
        self.len += 1;
        key
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
    pub(crate) fn remove(&mut self, key: u32) -> Option<T> {
        let node = self.nodes.get_mut(key as usize)?;
        let value = node.value.take()?;
        let (before, after) = (node.before, node.after);
        node.after = self.free;
        self.free = key;
        match before {
            NONE => self.first = after,
            b => self.nodes[b as usize].after = after,
        }
        match after {
            NONE => self.last = before,
            a => self.nodes[a as usize].before = before,
        }
        self.len -= 1;
        Some(value)
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
        assert_eq!(list.drain(), [1, 3, 7]);
        assert!(list.is_empty());
    }
}
