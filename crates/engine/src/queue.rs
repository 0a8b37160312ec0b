//! A queue in a circular vector, for small elements without keys. Most elements leave at the front.

/// A queue of at most `MOST` elements, a power of two of at least 8. When an element leaves from
/// the middle, the shorter side moves up, so removal costs no more than the search.
#[derive(Debug)]
pub(crate) struct Queue<T, const MOST: usize> {
    /// Empty, or a power of two of places. Free places contain former elements.
    places: Vec<T>,
    /// The number of the first element; its place is the number modulo the number of places.
    head: usize,
    tail: usize,
}

impl<T, const MOST: usize> Default for Queue<T, MOST> {
    fn default() -> Self {
        Queue { places: Vec::new(), head: 0, tail: 0 }
    }
}

impl<T: Copy, const MOST: usize> Queue<T, MOST> {
    const FEWEST_PLACES: usize = 8;

    #[inline(always)]
    pub(crate) const fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    pub(crate) const fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head)
    }

    #[inline(always)]
    const fn place(&self, number: usize) -> usize {
        number & self.places.len().wrapping_sub(1)
    }

    pub(crate) fn push(&mut self, element: T) -> bool {
        self.push_now(element) || self.push_with_more_places(element)
    }

    /// Appends an element if a place is free. Otherwise returns `false` and changes nothing.
    #[inline(always)]
    pub(crate) fn push_now(&mut self, element: T) -> bool {
        if self.len() == self.places.len() {
            return false;
        }
        let place = self.place(self.tail);
        if let Some(free) = self.places.get_mut(place) {
            *free = element;
            self.tail = self.tail.wrapping_add(1);
        }
        true
    }

    fn push_with_more_places(&mut self, element: T) -> bool {
        if self.places.len() == MOST {
            return false;
        }
        let number = (2 * self.places.len()).max(Self::FEWEST_PLACES);
        let mut places = Vec::with_capacity(number);
        places.extend(self.iter());
        (self.head, self.tail) = (0, places.len() + 1);
        places.resize(number, element);
        self.places = places;
        true
    }

    #[inline(always)]
    pub(crate) fn first(&self) -> Option<&T> {
        if self.is_empty() { None } else { self.places.get(self.place(self.head)) }
    }

    #[inline(always)]
    pub(crate) fn forget_first(&mut self) {
        self.head = self.head.wrapping_add(usize::from(!self.is_empty()));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        (0..self.len()).map(|at| self.places[self.place_of(at)])
    }

    pub(crate) fn take_first(&mut self, mut wanted: impl FnMut(&T) -> bool) -> Option<T> {
        let at = self.iter().position(|element| wanted(&element))?;
        let last = self.len() - 1;
        let taken = self.places[self.place_of(at)];
        if at <= last / 2 {
            (0..at).rev().for_each(|before| self.copy(before, before + 1));
            self.head = self.head.wrapping_add(1);
        } else {
            (at..last).for_each(|gap| self.copy(gap + 1, gap));
            self.tail = self.tail.wrapping_sub(1);
        }
        Some(taken)
    }

    const fn place_of(&self, at: usize) -> usize {
        self.place(self.head.wrapping_add(at))
    }

    fn copy(&mut self, from: usize, to: usize) {
        let (from, to) = (self.place_of(from), self.place_of(to));
        self.places[to] = self.places[from];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_is_none_while_there_is_no_place() {
        let mut queue = Queue::<u32, 64>::default();
        assert!(queue.is_empty() && queue.first().is_none());
        queue.forget_first();
        assert_eq!((queue.len(), queue.take_first(|_| true)), (0, None));
    }

    proptest! {
        #[test]
        fn elements_leave_from_anywhere_and_the_order_stays(
            steps in prop::collection::vec((0..4u8, 0..20u32), 0..200),
            start in prop_oneof![Just(0), Just(usize::MAX - 3)],
        ) {
            let mut queue = Queue::<u32, 16> { head: start, tail: start, ..Queue::default() };
            let mut model = std::collections::VecDeque::new();
            for (number, (kind, which)) in (0u32..).zip(steps) {
                match kind {
                    0 | 1 => {
                        prop_assert_eq!(queue.push(number), model.len() < 16);
                        if model.len() < 16 {
                            model.push_back(number);
                        }
                    }
                    2 => {
                        queue.forget_first();
                        model.pop_front();
                    }
                    _ => {
                        let wanted = model.get(which as usize).copied();
                        let taken = queue.take_first(|element| Some(*element) == wanted);
                        prop_assert_eq!(taken, model.remove(which as usize));
                    }
                }
                prop_assert_eq!(queue.first(), model.front());
                prop_assert_eq!(queue.len(), model.len());
                prop_assert!(queue.iter().eq(model.iter().copied()));
            }
        }
    }
}
