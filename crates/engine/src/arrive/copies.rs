//! Memory for private copies of sends whose programs reuse their buffers early.

use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Owned;

/// Blocks that no send needs any more. New memory would cost more than the copy, as the kernel
/// clears its pages.
#[derive(Debug, Default)]
pub(crate) struct Copies(Vec<Owned<u8>>);

impl Copies {
    /// The number of cached blocks, and the length in bytes of the longest one.
    const MOST: usize = 16;
    const LONGEST: usize = 256 << 10;

    pub(crate) fn copy_of(&mut self, buffer: &UserBuf) -> UserBuf {
        let len = buffer.packed_len();
        let block = match self.free_block(len) {
            Some(at) => self.0[at].buf(),
            None => self.new_block(len),
        };
        let copy = block.elements(0, len);
        if let Some(to) = copy.as_contiguous_mut() {
            buffer.pack(0, to);
        }
        copy
    }

    fn free_block(&mut self, len: usize) -> Option<usize> {
        let blocks = self.0.iter_mut().enumerate();
        let free = blocks.filter_map(|(at, block)| {
            (block.as_slice()?.len() >= len).then_some((block.len(), at))
        });
        free.min().map(|(_, at)| at)
    }

    fn new_block(&mut self, len: usize) -> UserBuf {
        if len > Copies::LONGEST {
            return Owned::new(vec![0u8; len]).buf();
        }
        let block = Owned::new(vec![0; len.next_power_of_two()]);
        let buf = block.buf();
        if self.0.len() < Copies::MOST {
            self.0.push(block);
            return buf;
        }
        for other in &mut self.0 {
            if other.len() < len && other.as_slice().is_some() {
                *other = block;
                break;
            }
        }
        buf
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(len: usize, value: u8) -> UserBuf {
        Owned::new(vec![value; len]).buf()
    }

    fn address(buf: &UserBuf) -> usize {
        buf.as_ptr() as usize
    }

    #[test]
    fn a_block_is_used_again_when_its_copy_is_gone_and_not_before() {
        let mut copies = Copies::default();
        let first = copies.copy_of(&data(1000, 1));
        let second = copies.copy_of(&data(900, 2));
        let bytes = |buf: &UserBuf| buf.as_contiguous().map(|bytes| bytes.to_vec());
        assert_eq!((bytes(&first), bytes(&second)), (Some(vec![1; 1000]), Some(vec![2; 900])));
        assert_ne!(address(&first), address(&second));
        let was = address(&first);
        let clone = first.clone();
        drop(first);
        assert_ne!(address(&copies.copy_of(&data(10, 3))), was);
        drop(clone);
        let again = copies.copy_of(&data(1024, 4));
        assert_eq!((address(&again), bytes(&again)), (was, Some(vec![4; 1024])));
    }

    #[test]
    fn few_and_short_ones_are_kept() {
        let mut copies = Copies::default();
        let used: Vec<UserBuf> = (0..100).map(|n| copies.copy_of(&data(500, n))).collect();
        assert_eq!(copies.0.len(), Copies::MOST);
        assert!(
            used.iter()
                .enumerate()
                .all(|(n, buf)| buf.as_contiguous().unwrap().to_vec() == [n as u8; 500])
        );
        drop(used);
        let longer = copies.copy_of(&data(5000, 1));
        assert!(copies.0.len() == Copies::MOST && copies.0.iter().any(|block| block.len() == 8192));
        drop(longer);
        drop(copies.copy_of(&data(Copies::LONGEST + 1, 1)));
        assert!(copies.0.iter().all(|block| block.len() <= Copies::LONGEST));
        assert_eq!(copies.copy_of(&data(0, 1)).packed_len(), 0);
    }
}
