//! Memory for the data of unexpected and early messages.

use oxmpi_sys::bytes::Bytes;

/// Vectors whose memory is reused, so that an unexpected message costs no allocation.
#[derive(Debug, Default)]
pub(crate) struct Spare(Vec<Vec<u8>>);

impl Spare {
    const MOST: usize = 64;
    const LONGEST: usize = 4096;

    pub(super) fn collect(&mut self, first: Bytes<'_>, total: usize) -> Vec<u8> {
        let mut data = self.0.pop().unwrap_or_default();
        data.reserve_exact(total);
        first.append_to(&mut data);
        data
    }

    pub(super) fn beginning(&mut self, first: Bytes<'_>) -> Vec<u8> {
        if first.is_empty() { Vec::new() } else { self.collect(first, first.len()) }
    }

    #[inline]
    pub(crate) fn give_back(&mut self, mut data: Vec<u8>) {
        if self.0.len() < Spare::MOST && (1..=Spare::LONGEST).contains(&data.capacity()) {
            data.clear();
            self.0.push(data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_without_memory_are_not_kept() {
        let mut spare = Spare::default();
        let kept = spare.collect(Bytes::from(&[1, 2, 3][..]), 100);
        let memory = kept.as_ptr();
        spare.give_back(kept);
        let nothing = spare.beginning(Bytes::from(&[][..]));
        spare.give_back(nothing);
        let again = spare.collect(Bytes::from(&[4][..]), 50);
        assert_eq!((again.as_ptr(), &again[..]), (memory, &[4][..]));
    }
}
