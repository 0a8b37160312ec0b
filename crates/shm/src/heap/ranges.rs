//! The taken and the free ranges of an area.

use std::collections::BTreeMap;

/// Takes by first fit; adjacent free ranges become one at once.
#[derive(Debug)]
pub(super) struct Ranges {
    free: BTreeMap<usize, usize>,
    taken: BTreeMap<usize, usize>,
}

impl Ranges {
    pub(super) fn new(len: usize) -> Ranges {
        let free = if len > 0 { BTreeMap::from([(0, len)]) } else { BTreeMap::new() };
        Ranges { free, taken: BTreeMap::new() }
    }

    pub(super) fn taken(&self) -> usize {
        self.taken.values().sum()
    }

    /// Takes `len` bytes (not 0) at a multiple of `align`, a power of two; returns their offset.
    pub(super) fn take(&mut self, len: usize, align: usize) -> Option<usize> {
        debug_assert!(len > 0 && align.is_power_of_two());
        let (start, room, at) = self.free.iter().find_map(|(&start, &room)| {
            let at = start.checked_next_multiple_of(align)?;
            let before = at - start;
            (before <= room && len <= room - before).then_some((start, room, at))
        })?;
        self.free.remove(&start);
        let (before, after) = (at - start, room - (at - start) - len);
        if before > 0 {
            self.free.insert(start, before);
        }
        if after > 0 {
            self.free.insert(at + len, after);
        }
        self.taken.insert(at, len);
        Some(at)
    }

    pub(super) fn give_back(&mut self, offset: usize) -> Option<usize> {
        let len = self.taken.remove(&offset)?;
        let (mut start, mut end) = (offset, offset + len);
        if let Some((&before, &room)) = self.free.range(..offset).next_back()
            && before + room == offset
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(room) = self.free.remove(&end) {
            end += room;
        }
        self.free.insert(start, end - start);
        Some(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEN: usize = 10_000;

    #[derive(Clone, Debug)]
    enum Step {
        Take { len: usize, align: u32 },
        GiveBack(prop::sample::Index),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (1..3000usize, 0..12u32).prop_map(|(len, align)| Step::Take { len, align }),
            2 => any::<prop::sample::Index>().prop_map(Step::GiveBack),
        ]
    }

    fn has_room(taken: &BTreeMap<usize, usize>, len: usize, align: usize) -> bool {
        (0..LEN.saturating_sub(len - 1))
            .step_by(align)
            .any(|at| taken.iter().all(|(&start, &other)| at + len <= start || start + other <= at))
    }

    proptest! {
        #[test]
        fn ranges_are_apart_aligned_and_found_if_there_is_room(steps in prop::collection::vec(step(), 0..60)) {
            let mut ranges = Ranges::new(LEN);
            let mut taken = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Take { len, align } => {
                        let align = 1 << align;
                        match ranges.take(len, align) {
                            Some(at) => {
                                prop_assert!(at.is_multiple_of(align) && at + len <= LEN);
                                for (&start, &other) in &taken {
                                    prop_assert!(at + len <= start || start + other <= at, "{at}, {start}");
                                }
                                taken.insert(at, len);
                            }
                            None => prop_assert!(!has_room(&taken, len, align), "{len} bytes at {align}"),
                        }
                    }
                    Step::GiveBack(_) if taken.is_empty() => prop_assert_eq!(ranges.give_back(0), None),
                    Step::GiveBack(which) => {
                        let (&at, &len) = taken.iter().nth(which.index(taken.len())).unwrap();
                        prop_assert_eq!(ranges.give_back(at + 1).is_some(), taken.remove(&(at + 1)).is_some());
                        prop_assert_eq!(ranges.give_back(at), Some(len));
                        prop_assert_eq!(ranges.give_back(at), None);
                        taken.remove(&at);
                    }
                }
            }
            // When all is free again, it is one range.
            taken.keys().for_each(|at| assert!(ranges.give_back(*at).is_some()));
            prop_assert_eq!(ranges.take(LEN, 1), Some(0));
        }
    }

    #[test]
    fn an_area_of_nothing_has_no_room() {
        assert_eq!(Ranges::new(0).take(1, 1), None);
        assert_eq!(Ranges::new(100).take(usize::MAX, 1 << 63), None);
    }
}
