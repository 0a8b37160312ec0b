//! Operations on one integer by one instruction of the processor (rule 1), for counters, tickets
//! and flags of programs (MPI_Fetch_and_op).

use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// An atomic instruction, which returns the old value of the element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instruction {
    Load,
    Swap,
    /// Modulo 2 to the power of the element's bits.
    Add,
    And,
    Or,
    Xor,
}

impl Instruction {
    /// Changes an integer of 4 or 8 bytes by `operand`, which [`Instruction::Load`] does not read;
    /// the old value goes to `old`. `false`: the lengths differ or are others, or the element is
    /// not aligned, and nothing has changed; [`Accumulator::apply`](super::Accumulator::apply)
    /// gives the same result.
    #[inline(always)]
    pub fn apply(
        self,
        operand: Bytes<'_>,
        mut element: BytesMut<'_>,
        mut old: BytesMut<'_>,
    ) -> bool {
        let len = element.len();
        let at = element.as_mut_ptr();
        if old.len() != len || (operand.len() != len && self != Instruction::Load) {
            return false;
        }
        macro_rules! run {
            ($atomic:ty, $word:ty) => {{
                // SAFETY: the views are mapped and of this length (except an operand that is not
                // read), and the element is aligned. A plain access of the program at the same time
                // is an error of the program.
                unsafe {
                    let element = &*at.cast::<$atomic>();
                    let operand = || operand.as_ptr().cast::<$word>().read_unaligned();
                    let before = match self {
                        Instruction::Load => element.load(Ordering::SeqCst),
                        Instruction::Swap => element.swap(operand(), Ordering::SeqCst),
                        Instruction::Add => element.fetch_add(operand(), Ordering::SeqCst),
                        Instruction::And => element.fetch_and(operand(), Ordering::SeqCst),
                        Instruction::Or => element.fetch_or(operand(), Ordering::SeqCst),
                        Instruction::Xor => element.fetch_xor(operand(), Ordering::SeqCst),
                    };
                    old.as_mut_ptr().cast::<$word>().write_unaligned(before);
                }
                true
            }};
        }
        match len {
            8 if at.addr().is_multiple_of(8) => run!(AtomicU64, u64),
            4 if at.addr().is_multiple_of(4) => run!(AtomicU32, u32),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_does_what_it_says() {
        use Instruction::*;
        let memory = oxmpi_sys::memory::Memory::zeroed(64, 64).unwrap();
        let (operand, mut old) = ([0b0110u8, 0, 0, 0, 0, 0, 0, 0], [0u8; 8]);
        for len in [4, 8] {
            let after =
                [(Swap, 0b0110), (Add, 0b1100), (And, 0b0100), (Or, 0b0110), (Xor, 0), (Load, 0)];
            let mut before = 0;
            for (instruction, after) in after {
                let operand = Bytes::from(&operand[..if instruction == Load { 0 } else { len }]);
                let element = memory.bytes(16, len).unwrap();
                assert!(instruction.apply(operand, element, BytesMut::from(&mut old[..len])));
                assert_eq!(old[0], before, "{instruction:?}");
                assert_eq!(
                    memory.bytes(16, 1).unwrap().as_bytes().to_vec(),
                    [after],
                    "{instruction:?}"
                );
                before = after;
            }
        }
        for (at, len) in [(2, 4), (4, 8), (0, 2), (0, 0)] {
            let element = memory.bytes(at, len).unwrap();
            assert!(!Add.apply(
                Bytes::from(&operand[..len]),
                element,
                BytesMut::from(&mut old[..len])
            ));
        }
        let element = memory.bytes(0, 8).unwrap();
        assert!(!Add.apply(Bytes::from(&operand[..4]), element, BytesMut::from(&mut old[..])));
    }
}
