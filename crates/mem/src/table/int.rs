//! Handles as integers of 32 bits, for Fortran and for tools (`MPI_*_toint`, `MPI_*_fromint`).
//!
//! An integer has the index of the slot and the low bits of the generation, as far as they fit:
//!
//! | bit 31 | bits 30 to 19 | bits 18 to 0 |
//! |---|---|---|
//! | 0 | the lowest 12 bits of the generation | the index, below 2^19 |
//! | 1 | the rest: the index, from 2^19 on | |
//!
//! Predefined handles, which are below 4096 and have no generation, are equal to their integers.
//! With up to half a million objects of a kind at a time, an integer names one object until its
//! slot has been used 4096 more times. For an object with a higher index, the integer names the
//! current object of the slot.

use super::Handle;

const INDEX_BITS: u32 = 19;
const GENERATION_BITS: u32 = 31 - INDEX_BITS;
const LONG: u32 = 1 << 31;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

/// A handle as an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Int {
    pub index: u32,
    /// The lowest bits of the generation, if the index leaves room for them.
    generation: Option<u32>,
}

impl Handle {
    /// The result of `MPI_*_toint`.
    #[inline]
    pub const fn to_int(self) -> u32 {
        let index = self.index();
        if index < 1 << INDEX_BITS {
            (self.generation() & GENERATION_MASK) << INDEX_BITS | index
        } else {
            LONG | index
        }
    }
}

impl Int {
    /// Splits an integer into its parts.
    #[inline]
    pub const fn new(int: u32) -> Int {
        if int & LONG == 0 {
            let index = int & ((1 << INDEX_BITS) - 1);
            Int { index, generation: Some(int >> INDEX_BITS) }
        } else {
            Int { index: int & !LONG, generation: None }
        }
    }

    /// The handle of the latest object with this integer, if the slot has generation `now`.
    #[inline]
    pub const fn handle(self, now: u32) -> Handle {
        let generation = match self.generation {
            None => now,
            Some(low) => now.wrapping_sub(now.wrapping_sub(low) & GENERATION_MASK),
        };
        Handle::from_raw((generation as u64) << 32 | self.index as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_integer_stands_for_its_handle() {
        for index in [4096, 5000, (1 << 19) - 1] {
            for generation in [0, 1, 4095, 4096, 77_777, u32::MAX] {
                let handle = Handle::from_raw(u64::from(generation) << 32 | index);
                let int = Int::new(handle.to_int());
                assert_eq!(u64::from(int.index), index);
                for later in [0, 1, 4095] {
                    assert_eq!(
                        int.handle(generation.wrapping_add(later)),
                        handle,
                        "{handle} {later}"
                    );
                }
                assert_ne!(int.handle(generation.wrapping_add(4096)), handle);
            }
        }
    }

    #[test]
    fn predefined_handles_are_their_own_integers() {
        for raw in [0, 1, 0x101, 4095] {
            assert_eq!(u64::from(Handle::from_raw(raw).to_int()), raw);
            assert_eq!(u64::from(Int::new(raw as u32).index), raw);
        }
    }

    #[test]
    fn beyond_half_a_million_the_slot_counts() {
        for index in [1 << 19, (1 << 30) + 4095] {
            let int = Handle::from_raw(9 << 32 | index).to_int();
            assert!(int & LONG != 0);
            assert_eq!(Int::new(int).handle(11), Handle::from_raw(11 << 32 | index));
        }
    }
}
