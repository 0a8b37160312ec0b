//! Sets of the ranks of a team.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RankSet {
    words: Vec<u64>,
}

impl RankSet {
    pub(crate) fn empty(size: u32) -> RankSet {
        RankSet { words: vec![0; RankSet::words_for(size)] }
    }

    pub(crate) fn words_for(size: u32) -> usize {
        (size as usize).div_ceil(64)
    }

    /// The set with these bits; `None` if a bit is no rank of a team of `size`.
    pub(crate) fn from_words(words: &[u64], size: u32) -> Option<RankSet> {
        let last = size as usize % 64;
        let spare = if last == 0 { 0 } else { u64::MAX << last };
        let fits = words.len() == RankSet::words_for(size)
            && words.last().is_none_or(|word| word & spare == 0);
        fits.then(|| RankSet { words: words.to_vec() })
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    pub(crate) fn insert(&mut self, rank: u32) {
        if let Some(word) = self.words.get_mut(rank as usize / 64) {
            *word |= 1 << (rank % 64);
        }
    }

    pub(crate) fn contains(&self, rank: u32) -> bool {
        self.words.get(rank as usize / 64).is_some_and(|word| word >> (rank % 64) & 1 == 1)
    }

    pub(crate) fn unite(&mut self, other: &RankSet) {
        self.words.iter_mut().zip(&other.words).for_each(|(mine, theirs)| *mine |= theirs);
    }

    pub(crate) fn intersect(&mut self, other: &RankSet) {
        self.words.iter_mut().zip(&other.words).for_each(|(mine, theirs)| *mine &= theirs);
    }

    pub(crate) fn is_within(&self, other: &RankSet) -> bool {
        self.words.iter().zip(&other.words).all(|(mine, theirs)| mine & !theirs == 0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        (0..64 * self.words.len() as u32).filter(|rank| self.contains(*rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_that_are_no_rank_are_refused() {
        for size in [1, 63, 64, 65, 128, 130] {
            let mut set = RankSet::empty(size);
            set.insert(size - 1);
            assert_eq!(RankSet::from_words(set.words(), size), Some(set.clone()), "{size}");
            assert_eq!(set.iter().collect::<Vec<_>>(), [size - 1]);
            let mut words = set.words().to_vec();
            if size % 64 != 0 {
                words[size as usize / 64] |= 1 << (size % 64);
                assert_eq!(RankSet::from_words(&words, size), None, "{size}");
            }
            words.push(0);
            assert_eq!(RankSet::from_words(&words, size), None, "{size}");
        }
    }
}
