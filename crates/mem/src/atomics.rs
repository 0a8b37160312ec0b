//! Accumulates: operations on elements that other processes and threads change at the same time.
//!
//! Rules
//! 1. An element of 1, 2, 4 or 8 bytes without padding, at a multiple of its size, is changed by an
//!    atomic instruction. A call for several elements changes all elements of an aligned word of 8
//!    bytes by one instruction, as an atomic instruction costs the same for each length. The
//!    processor orders atomic instructions of different lengths on the same bytes.
//! 2. Every other element is changed under the *element lock*, a word of the process that owns the
//!    window ([`robust_lock`](oxmpi_shm::robust_lock)).
//! 3. The choice between rules 1 and 2 depends only on the element and its address in the window.
//!    All processes agree on the address modulo 8, since memory is mapped at multiples of a page.
//!    So all accumulates of one datatype to an element are atomic with each other.
//! 4. A call for several elements also holds the element lock, but changes each element by rule 1,
//!    since a call for one element does not take the lock. So another such call sees a change of up
//!    to a cache line as a whole. The standard promises this only for each element.
//! 5. A long call releases the lock at some boundaries of cache lines.
//! 6. Plain instructions change elements that only one thread can change: memory mapped only in a
//!    process with one thread ([`Accumulator::apply_alone`]).
//! 7. A thread never waits while it holds the element lock. A process that dies with the lock
//!    leaves elements half changed; the next process acquires the lock.

mod instruction;

pub use instruction::Instruction;

use crate::buffer::UserBuf;
use crate::kernels::{Loop, ReduceOp, Scalar, kernel};
use crate::layout::Layout;
use crate::memory::{Scratch, ScratchError};
use oxmpi_shm::robust_lock::RobustGuard;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// An operation on elements of one predefined type, carried out atomically.
#[derive(Clone, Copy, Debug)]
pub struct Accumulator {
    op: ReduceOp,
    scalar: Scalar,
    run: Loop,
    size: usize,
    extent: usize,
}

/// The most packed bytes that are changed before the lock is released.
const PART_BYTES: usize = 4 << 10;

const LINE_BYTES: usize = 64;

macro_rules! atomic_elements {
    ($name:ident, $atomic:ty, $word:ty) => {
        /// Changes `n` elements, or `n` words of several elements each (rule 1). Safety: `n` of
        /// them are readable at `left` (none for [`ReduceOp::NoOp`]), and writable and aligned at
        /// `right`; `old` is null or writable for `n` of them.
        #[inline]
        unsafe fn $name(a: &Accumulator, left: *const u8, right: *mut u8, old: *mut u8, n: usize) {
            const SIZE: usize = size_of::<$word>();
            for i in 0..n {
                // SAFETY: element `i` of the `n`, aligned, so it can be used as an atomic. A plain
                // access of the program at the same time is an error of the program (MPI-5.0
                // section 12.7).
                unsafe {
                    let element = &*right.add(i * SIZE).cast::<$atomic>();
                    let operand = || left.add(i * SIZE).cast::<$word>().read_unaligned();
                    let before = match a.op {
                        ReduceOp::NoOp => element.load(Ordering::SeqCst),
                        ReduceOp::Replace => element.swap(operand(), Ordering::SeqCst),
                        ReduceOp::Sum if a.size == SIZE && a.is_integer() => {
                            element.fetch_add(operand(), Ordering::SeqCst)
                        }
                        ReduceOp::Band => element.fetch_and(operand(), Ordering::SeqCst),
                        ReduceOp::Bor => element.fetch_or(operand(), Ordering::SeqCst),
                        ReduceOp::Bxor => element.fetch_xor(operand(), Ordering::SeqCst),
                        _ => {
                            let mut now = element.load(Ordering::Relaxed);
                            loop {
                                let mut new = now;
                                (a.run)(
                                    left.add(i * SIZE),
                                    (&raw mut new).cast(),
                                    SIZE >> a.size.trailing_zeros(),
                                );
                                match element.compare_exchange_weak(
                                    now,
                                    new,
                                    Ordering::SeqCst,
                                    Ordering::Relaxed,
                                ) {
                                    Ok(before) => break before,
                                    Err(other) => now = other,
                                }
                            }
                        }
                    };
                    if !old.is_null() {
                        old.add(i * SIZE).cast::<$word>().write_unaligned(before);
                    }
                }
            }
        }
    };
}
atomic_elements!(atomic_1, AtomicU8, u8);
atomic_elements!(atomic_2, AtomicU16, u16);
atomic_elements!(atomic_4, AtomicU32, u32);
atomic_elements!(atomic_8, AtomicU64, u64);

impl Accumulator {
    /// `None` if `op` is not defined for `scalar`, or has no kernel.
    #[inline]
    pub fn new(op: ReduceOp, scalar: Scalar) -> Option<Accumulator> {
        let (size, extent) = scalar.size_extent();
        Some(Accumulator { op, scalar, run: kernel(op, scalar)?.as_loop(), size, extent })
    }

    /// The operation.
    pub fn op(&self) -> ReduceOp {
        self.op
    }

    /// The representation of the elements.
    pub fn scalar(&self) -> Scalar {
        self.scalar
    }

    /// Packed bytes of one element.
    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether elements have no padding.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.size == self.extent
    }

    /// Whether the elements are integers.
    #[inline(always)]
    pub fn is_integer(&self) -> bool {
        use Scalar::*;
        matches!(self.scalar, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
    }

    #[inline(always)]
    fn is_atomic_at(&self, address: usize) -> bool {
        self.is_plain() && self.size <= 8 && address.is_multiple_of(self.size)
    }

    /// Changes contiguous elements without padding; their old values go to `old`. `lock` acquires
    /// the element lock and is called only if the lock is needed. Panics if the elements have
    /// padding, if the lengths differ, or if they are not multiples of the element's length. `left`
    /// may be empty for [`ReduceOp::NoOp`].
    #[inline]
    pub fn apply<'l>(
        &self,
        left: Bytes<'_>,
        mut right: BytesMut<'_>,
        old: Option<BytesMut<'_>>,
        lock: impl FnMut() -> RobustGuard<'l>,
    ) {
        let len = right.len();
        let operands = left.len() == len || self.op == ReduceOp::NoOp;
        let room = old.as_ref().is_none_or(|old| old.len() == len);
        assert!(
            self.is_plain() && operands && room && len.is_multiple_of(self.size),
            "{} bytes of elements of {} are accumulated to {len}",
            left.len(),
            self.size
        );
        let old = old.map_or(std::ptr::null_mut(), |mut old| old.as_mut_ptr());
        let right = right.as_mut_ptr();
        // SAFETY: all views are mapped for `len` bytes.
        unsafe {
            if len != self.size || !self.change_one(left.as_ptr(), right, old) {
                self.change_in_parts(left.as_ptr(), right, old, len / self.size, lock);
            }
        }
    }

    /// As [`Accumulator::apply`], for elements that no other thread changes meanwhile (rule 6).
    pub fn apply_alone(&self, left: Bytes<'_>, mut right: BytesMut<'_>, old: Option<BytesMut<'_>>) {
        let len = right.len();
        let operands = left.len() == len || self.op == ReduceOp::NoOp;
        assert!(
            self.is_plain() && operands && len.is_multiple_of(self.size),
            "{} bytes of elements of {} are accumulated to {len}",
            left.len(),
            self.size
        );
        if let Some(old) = old {
            right.as_bytes().copy_to(old);
        }
        if self.op != ReduceOp::NoOp {
            // SAFETY: both views are mapped for `len` bytes, which are whole elements.
            unsafe { (self.run)(left.as_ptr(), right.as_mut_ptr(), len / self.size) };
        }
    }

    /// Changes one element by an atomic instruction (rule 1). `false`: there is no such
    /// instruction, and nothing has changed. Safety: as for `atomic_8` with one element, but
    /// `right` may have any alignment.
    #[inline(always)]
    unsafe fn change_one(&self, left: *const u8, right: *mut u8, old: *mut u8) -> bool {
        // SAFETY: by the contract of this function; the alignment was checked.
        unsafe {
            match self.size {
                8 if self.is_atomic_at(right.addr()) => atomic_8(self, left, right, old, 1),
                4 if self.is_atomic_at(right.addr()) => atomic_4(self, left, right, old, 1),
                2 if self.is_atomic_at(right.addr()) => atomic_2(self, left, right, old, 1),
                1 => atomic_1(self, left, right, old, 1),
                _ => return false,
            }
        }
        true
    }

    /// Changes elements under the element lock (rules 2 and 4). Safety: as for `atomic_8`, but
    /// `right` may have any alignment.
    unsafe fn change(&self, left: *const u8, right: *mut u8, old: *mut u8, n: usize) {
        let in_word = 8 / self.size;
        if in_word < 2 || n < in_word || !self.is_atomic_at(right.addr()) {
            // SAFETY: by the contract of this function.
            return unsafe { self.change_each(left, right, old, n) };
        }
        let before = right.addr().wrapping_neg() % 8 / self.size;
        let words = (n - before) / in_word;
        let behind = before + words * in_word;
        let at = |elements: usize| {
            let offset = elements * self.size;
            let from = if self.op == ReduceOp::NoOp { left } else { left.wrapping_add(offset) };
            (
                from,
                right.wrapping_add(offset),
                if old.is_null() { old } else { old.wrapping_add(offset) },
            )
        };
        let ((left_words, right_words, old_words), (left_rest, right_rest, old_rest)) =
            (at(before), at(behind));
        // SAFETY: by the contract of this function: the `n` elements are those before the first
        // word, in whole words, and after the last word; the words are aligned.
        unsafe {
            self.change_each(left, right, old, before);
            atomic_8(self, left_words, right_words, old_words, words);
            self.change_each(left_rest, right_rest, old_rest, n - behind);
        }
    }

    /// As [`Accumulator::change`], element by element. Safety: as for [`Accumulator::change`].
    unsafe fn change_each(&self, left: *const u8, right: *mut u8, old: *mut u8, n: usize) {
        // SAFETY: by the contract of this function; the alignment was checked.
        unsafe {
            match self.size {
                8 if self.is_atomic_at(right.addr()) => atomic_8(self, left, right, old, n),
                4 if self.is_atomic_at(right.addr()) => atomic_4(self, left, right, old, n),
                2 if self.is_atomic_at(right.addr()) => atomic_2(self, left, right, old, n),
                1 => atomic_1(self, left, right, old, n),
                size => {
                    if !old.is_null() {
                        old.copy_from(right, n * size);
                    }
                    (self.run)(left, right, n);
                }
            }
        }
    }

    /// As [`Accumulator::change`], but releases the lock after each part (rule 5). Safety: the
    /// same.
    #[inline(never)]
    unsafe fn change_in_parts<'l>(
        &self,
        left: *const u8,
        right: *mut u8,
        old: *mut u8,
        n: usize,
        mut lock: impl FnMut() -> RobustGuard<'l>,
    ) {
        let mut at = 0;
        while at < n {
            let offset = at * self.size;
            let until_boundary = PART_BYTES - right.addr().wrapping_add(offset) % LINE_BYTES;
            let part = (until_boundary / self.size).max(1).min(n - at);
            let _held = lock();
            // SAFETY: by the contract of this function: these are `part` of the `n` elements.
            unsafe {
                let left = if self.op == ReduceOp::NoOp { left } else { left.add(offset) };
                let old = if old.is_null() { old } else { old.add(offset) };
                self.change(left, right.add(offset), old, part);
            }
            at += part;
        }
    }

    /// Changes the elements of `target` from packed byte `from` on. The length is that of `old`, or
    /// that of `left` without `old`. Old values go to `old`. `lock` is as in
    /// [`Accumulator::apply`]. Fails if there is no memory for a copy of elements with padding.
    /// Panics as [`Accumulator::apply`] does, except that elements may have padding, and if
    /// `target` has too few elements.
    pub fn accumulate<'l>(
        &self,
        left: Bytes<'_>,
        target: &UserBuf,
        from: usize,
        mut old: Option<BytesMut<'_>>,
        mut lock: impl FnMut() -> RobustGuard<'l>,
    ) -> Result<(), ScratchError> {
        let len = old.as_ref().map_or(left.len(), |old| old.len());
        self.check_operands(left.len(), target, from, len);
        if !self.is_plain() {
            return self.padded(left, target, from, old, lock);
        }
        if let Some(mut whole) = target.as_contiguous_mut() {
            self.apply(left, whole.slice(from, len), old, lock);
            return Ok(());
        }
        let (mut done, mut held, mut with_lock) = (0, None, 0);
        target.blocks(from, len, |block, bytes| {
            let operand = if self.op == ReduceOp::NoOp {
                left.as_ptr()
            } else {
                left.slice(done, bytes).as_ptr()
            };
            let old = old
                .as_mut()
                .map_or(std::ptr::null_mut(), |old| old.slice(done, bytes).as_mut_ptr());
            // SAFETY: `bytes` bytes are mapped at the block, and are whole elements: a layout never
            // cuts an element without padding, and `from` and `len` are multiples of its size.
            // Operands and old values are slices of these lengths.
            unsafe {
                if len == self.size && self.change_one(operand, block, old) {
                } else if bytes > PART_BYTES {
                    held = None;
                    self.change_in_parts(operand, block, old, bytes / self.size, &mut lock);
                } else {
                    // Short blocks share one acquisition of the lock.
                    if with_lock + bytes > PART_BYTES {
                        (held, with_lock) = (None, 0);
                    }
                    held.get_or_insert_with(&mut lock);
                    with_lock += bytes;
                    self.change(operand, block, old, bytes / self.size);
                }
            }
            done += bytes;
        });
        Ok(())
    }

    fn check_operands(&self, operands: usize, target: &UserBuf, from: usize, len: usize) {
        let total = target.packed_len();
        assert!(
            from <= total && len <= total - from && len.is_multiple_of(self.size),
            "packed bytes {from}+{len} of {total}, elements of {}",
            self.size
        );
        assert!(operands == len || self.op == ReduceOp::NoOp, "{operands} bytes for {len}");
    }

    /// Accumulates to a copy of elements with padding under the lock, then copies it back.
    fn padded<'l>(
        &self,
        left: Bytes<'_>,
        target: &UserBuf,
        from: usize,
        mut old: Option<BytesMut<'_>>,
        mut lock: impl FnMut() -> RobustGuard<'l>,
    ) -> Result<(), ScratchError> {
        let len = old.as_ref().map_or(left.len(), |old| old.len());
        let most = (PART_BYTES / self.size).min(len / self.size);
        let layout = self.element_layout();
        let (operands, values) = (Scratch::new(most, &layout)?, Scratch::new(most, &layout)?);
        let packed = Scratch::bytes(most * self.size)?;
        let mut at = 0;
        while at < len {
            let bytes = (most * self.size).min(len - at);
            if self.op != ReduceOp::NoOp {
                operands.buf().unpack(0, left.slice(at, bytes));
            }
            let Some(mut room) = packed.buf().as_contiguous_mut() else { break };
            let _held = lock();
            target.pack(from + at, room.slice(0, bytes));
            if let Some(old) = &mut old {
                room.slice(0, bytes).as_bytes().copy_to(old.slice(at, bytes));
            }
            values.buf().unpack(0, room.slice(0, bytes).as_bytes());
            // SAFETY: both scratch rooms have these elements with their padding, except that of the
            // last element, and the loop does not touch padding.
            unsafe {
                (self.run)(operands.buf().as_ptr(), values.buf().as_ptr(), bytes / self.size)
            };
            values.buf().pack(0, room.slice(0, bytes));
            target.unpack(from + at, room.slice(0, bytes).as_bytes());
            at += bytes;
        }
        Ok(())
    }

    fn element_layout(&self) -> Arc<Layout> {
        let blocks: &[(usize, isize)] =
            if self.scalar == Scalar::I16I32 { &[(2, 0), (4, 4)] } else { &[] };
        let byte = Layout::basic(1, 1);
        let element = match blocks {
            [] => Ok(Layout::basic(self.size, 1)),
            blocks => Layout::hindexed(blocks.iter().copied(), &byte),
        };
        let resized =
            element.and_then(|element| Layout::resized(0, self.extent.cast_signed(), &element));
        Arc::new(resized.unwrap_or_else(|_| Layout::basic(self.size, 1)))
    }
}

/// Replaces one element by `new` if it is equal to `compare`; the old value goes to `old`. Atomic
/// with accumulates to elements of this size. `lock` is as in [`Accumulator::apply`]. Panics if the
/// four lengths differ or exceed 16 bytes.
#[inline]
pub fn compare_and_swap<'l>(
    new: Bytes<'_>,
    compare: Bytes<'_>,
    mut element: BytesMut<'_>,
    old: BytesMut<'_>,
    mut lock: impl FnMut() -> RobustGuard<'l>,
) {
    let len = element.len();
    assert!(
        new.len() == len && compare.len() == len && old.len() == len && len <= 16,
        "a comparison of {len} bytes with {}",
        compare.len()
    );
    let at = element.as_mut_ptr();
    macro_rules! swap {
        ($atomic:ty, $word:ty) => {{
            // SAFETY: all four views are mapped and of this length; the element is aligned.
            let before = unsafe {
                let expected = compare.as_ptr().cast::<$word>().read_unaligned();
                let wanted = new.as_ptr().cast::<$word>().read_unaligned();
                let element = &*at.cast::<$atomic>();
                match element.compare_exchange(expected, wanted, Ordering::SeqCst, Ordering::SeqCst)
                {
                    Ok(before) | Err(before) => before,
                }
            };
            Bytes::from(&before.to_ne_bytes()).copy_to(old);
        }};
    }
    match len {
        8 if at.addr().is_multiple_of(8) => swap!(AtomicU64, u64),
        4 if at.addr().is_multiple_of(4) => swap!(AtomicU32, u32),
        2 if at.addr().is_multiple_of(2) => swap!(AtomicU16, u16),
        1 => swap!(AtomicU8, u8),
        _ => {
            let (mut before, mut expected) = ([0u8; 16], [0u8; 16]);
            compare.copy_to(BytesMut::from(&mut expected[..len]));
            let _held = lock();
            element.as_bytes().copy_to(BytesMut::from(&mut before[..len]));
            if before == expected {
                new.copy_to(element);
            }
            Bytes::from(&before[..len]).copy_to(old);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::lend_mut;

    fn held_by_0(lock: &AtomicU64) -> RobustGuard<'_> {
        RobustGuard::acquire(lock, 0, |_| false)
    }

    #[test]
    fn threads_lose_nothing_for_any_elements() {
        const EACH: u64 = 2000;
        // All threads change an integer at 0, a float at 8, an unaligned integer at 17 and a
        // complex number at 32.
        let memory = oxmpi_sys::memory::Memory::zeroed(64, 64).unwrap();
        let lock = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let sum = |scalar, at, len, one: &[u8]| {
                            let accumulator = Accumulator::new(ReduceOp::Sum, scalar).unwrap();
                            let right = memory.bytes(at, len).unwrap();
                            accumulator.apply(Bytes::from(one), right, None, || held_by_0(&lock));
                        };
                        sum(Scalar::I64, 0, 8, &1i64.to_ne_bytes());
                        sum(Scalar::F64, 8, 8, &1f64.to_ne_bytes());
                        sum(Scalar::I64, 17, 8, &1i64.to_ne_bytes());
                        sum(
                            Scalar::C64,
                            32,
                            16,
                            &[1f64.to_ne_bytes(), 2f64.to_ne_bytes()].concat(),
                        );
                    }
                });
            }
        });
        let word =
            |at| <[u8; 8]>::try_from(memory.bytes(at, 8).unwrap().as_bytes().to_vec()).unwrap();
        assert_eq!(u64::from_ne_bytes(word(0)), 4 * EACH);
        assert_eq!(f64::from_ne_bytes(word(8)), 4.0 * EACH as f64);
        assert_eq!(u64::from_ne_bytes(word(17)), 4 * EACH);
        assert_eq!(f64::from_ne_bytes(word(40)), 8.0 * EACH as f64);
    }

    /// A call for several elements changes words while other threads change elements (rule 1).
    #[test]
    fn words_of_small_elements_lose_nothing() {
        const EACH: u64 = 20_000;
        let memory = oxmpi_sys::memory::Memory::zeroed(64, 64).unwrap();
        let lock = AtomicU64::new(0);
        let sum = Accumulator::new(ReduceOp::Sum, Scalar::U8).unwrap();
        let max = Accumulator::new(ReduceOp::Max, Scalar::U16).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..EACH {
                    let right = memory.bytes(1, 17).unwrap();
                    sum.apply(Bytes::from(&[1; 17]), right, None, || held_by_0(&lock));
                    let right = memory.bytes(32, 8).unwrap();
                    let round = (round as u16).to_ne_bytes();
                    let rounds = [round, [0; 2], round, [0; 2]].concat();
                    max.apply(Bytes::from(&rounds[..]), right, None, || held_by_0(&lock));
                }
            });
            for round in 0..EACH {
                let right = memory.bytes((round % 19) as usize, 1).unwrap();
                sum.apply(Bytes::from(&[1]), right, None, || held_by_0(&lock));
                let right = memory.bytes(34, 2).unwrap();
                max.apply(Bytes::from(&(round as u16).to_ne_bytes()), right, None, || {
                    held_by_0(&lock)
                });
            }
        });
        for (at, byte) in memory.bytes(0, 19).unwrap().as_bytes().to_vec().into_iter().enumerate() {
            let singly = (EACH + 18 - at as u64) / 19;
            let in_words = if (1..18).contains(&at) { EACH } else { 0 };
            assert_eq!(byte, (singly + in_words) as u8, "byte {at}");
        }
        let last = (EACH as u16 - 1).to_ne_bytes();
        assert_eq!(
            memory.bytes(32, 8).unwrap().as_bytes().to_vec(),
            [last, last, last, [0; 2]].concat()
        );
    }

    #[test]
    fn words_of_small_elements_change_as_the_elements_do() {
        let lock = AtomicU64::new(0);
        let operands: Vec<u8> = (0..64u8).map(|i| i.wrapping_mul(89) ^ 0x5a).collect();
        for (op, scalar) in
            ReduceOp::ALL.iter().flat_map(|op| Scalar::ALL.map(|scalar| (*op, scalar)))
        {
            let Some(accumulator) =
                Accumulator::new(op, scalar).filter(|a| a.is_plain() && a.size < 8)
            else {
                continue;
            };
            let size = accumulator.size;
            for (first, n) in
                (0..8 / size).flat_map(|first| (1..=40 / size).map(move |n| (first, n)))
            {
                let case = format!("{n} times {op:?} of {scalar:?} from element {first} on");
                let memory = oxmpi_sys::memory::Memory::zeroed(64, 64).unwrap();
                let start: Vec<u8> = (0..64u8).map(|i| i.wrapping_mul(151) ^ 0x33).collect();
                Bytes::from(&start[..]).copy_to(memory.bytes(0, 64).unwrap());
                let (from, len) = (first * size, n * size);
                let given = if op == ReduceOp::NoOp { 0 } else { len };
                let (left, mut old) = (Bytes::from(&operands[..given]), vec![0; len]);
                let right = memory.bytes(from, len).unwrap();
                accumulator
                    .apply(left, right, Some(BytesMut::from(&mut old[..])), || held_by_0(&lock));
                let mut after = start.clone();
                accumulator.apply_alone(left, BytesMut::from(&mut after[from..from + len]), None);
                assert_eq!(memory.bytes(0, 64).unwrap().as_bytes().to_vec(), after, "{case}");
                assert_eq!(old, start[from..from + len], "{case}");
            }
        }
    }

    #[test]
    fn a_long_call_holds_the_lock_for_each_part() {
        const PARTS: usize = 3;
        let memory = oxmpi_sys::memory::Memory::zeroed(PARTS * PART_BYTES, LINE_BYTES).unwrap();
        let (lock, mut acquired) = (AtomicU64::new(0), 0);
        let accumulator = Accumulator::new(ReduceOp::Sum, Scalar::C64).unwrap();
        let right = memory.bytes(0, PARTS * PART_BYTES).unwrap();
        accumulator.apply(Bytes::from(&[0; PARTS * PART_BYTES][..]), right, None, || {
            acquired += 1;
            held_by_0(&lock)
        });
        assert_eq!(acquired, PARTS);
    }

    #[test]
    fn derived_elements_and_old_values() {
        let lock = AtomicU64::new(0);
        let int = Layout::basic(4, 4);
        let every_other = Arc::new(Layout::hvector(3, 1, 8, &int).unwrap());
        let mut target = [10i32, 11, 12, 13, 14, 15];
        let mut old = [0u8; 8];
        lend_mut(&mut target, |buffer| {
            let strided = buffer.cast(1, &every_other).unwrap();
            let accumulator = Accumulator::new(ReduceOp::Max, Scalar::I32).unwrap();
            let left: Vec<u8> = [5i32, 100].iter().flat_map(|v| v.to_ne_bytes()).collect();
            let old = BytesMut::from(&mut old[..]);
            accumulator
                .accumulate(Bytes::from(&left[..]), &strided, 4, Some(old), || held_by_0(&lock))
                .unwrap();
        });
        assert_eq!(target, [10, 11, 12, 13, 100, 15]);
        assert_eq!(old[..4], 12i32.to_ne_bytes());
        assert_eq!(old[4..], 14i32.to_ne_bytes());
    }

    #[test]
    fn pairs_keep_their_padding() {
        let lock = AtomicU64::new(0);
        let accumulator = Accumulator::new(ReduceOp::MaxLoc, Scalar::I16I32).unwrap();
        let layout = accumulator.element_layout();
        let mut target = vec![7u8; 16];
        target[0..2].copy_from_slice(&1i16.to_ne_bytes());
        target[8..10].copy_from_slice(&9i16.to_ne_bytes());
        let mut left = Vec::new();
        for (value, index) in [(3i16, 30i32), (4, 40)] {
            left.extend(value.to_ne_bytes());
            left.extend(index.to_ne_bytes());
        }
        lend_mut(&mut target, |buffer| {
            let pairs = buffer.cast(2, &layout).unwrap();
            accumulator
                .accumulate(Bytes::from(&left[..]), &pairs, 0, None, || held_by_0(&lock))
                .unwrap();
        });
        assert_eq!(target[..8], [3, 0, 7, 7, 30, 0, 0, 0]);
        assert_eq!(target[8..], [9, 0, 7, 7, 7, 7, 7, 7]);
    }

    #[test]
    fn compare_and_swap_of_every_length() {
        let lock = AtomicU64::new(0);
        for (at, len) in [(0, 1), (2, 2), (4, 4), (8, 8), (16, 16), (33, 8)] {
            let memory = oxmpi_sys::memory::Memory::zeroed(64, 64).unwrap();
            let (new, zero, mut old) = ([5u8; 16], [0u8; 16], [9u8; 16]);
            for expected in [0u8, 5] {
                let element = memory.bytes(at, len).unwrap();
                let (new, compare) = (Bytes::from(&new[..len]), Bytes::from(&zero[..len]));
                compare_and_swap(new, compare, element, BytesMut::from(&mut old[..len]), || {
                    held_by_0(&lock)
                });
                assert_eq!(old[..len], vec![expected; len]);
            }
            assert_eq!(memory.bytes(at, len).unwrap().as_bytes().to_vec(), vec![5; len]);
        }
    }

    #[test]
    fn calls_for_several_elements_are_seen_as_a_whole() {
        const ROUNDS: usize = 20_000;
        let memory = oxmpi_sys::memory::Memory::zeroed(16 << 10, 64).unwrap();
        let lock = AtomicU64::new(0);
        let done = std::sync::atomic::AtomicBool::new(false);
        let apart = Arc::new(Layout::hvector(2, 32, 4096, &Layout::basic(1, 1)).unwrap());
        let replace = Accumulator::new(ReduceOp::Replace, Scalar::U8).unwrap();
        let read = Accumulator::new(ReduceOp::NoOp, Scalar::U8).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..ROUNDS {
                    let value = [round as u8; 64];
                    for at in [8, 4096 - 32] {
                        let target = memory.bytes(at, 64).unwrap();
                        replace.apply(Bytes::from(&value), target, None, || held_by_0(&lock));
                    }
                    let target = crate::exposed::Exposed::from(memory.clone())
                        .elements(8192, 1, &apart)
                        .unwrap();
                    replace
                        .accumulate(Bytes::from(&value), &target, 0, None, || held_by_0(&lock))
                        .unwrap();
                }
                done.store(true, Ordering::Release);
            });
            let mut old = [0u8; 64];
            let mut long = vec![0u8; 6000];
            let is_whole = |bytes: &[u8]| bytes.iter().all(|byte| *byte == bytes[0]);
            while !done.load(Ordering::Acquire) {
                for at in [8, 4096 - 32] {
                    let target = memory.bytes(at, 64).unwrap();
                    read.apply(Bytes::empty(), target, Some(BytesMut::from(&mut old[..])), || {
                        held_by_0(&lock)
                    });
                    assert!(is_whole(&old), "{old:?} at {at}");
                }
                let target = crate::exposed::Exposed::from(memory.clone())
                    .elements(8192, 1, &apart)
                    .unwrap();
                let room = Some(BytesMut::from(&mut old[..]));
                read.accumulate(Bytes::empty(), &target, 0, room, || held_by_0(&lock)).unwrap();
                assert!(is_whole(&old), "{old:?} of two pieces");
                // A longer call sees a change within one cache line or part as a whole.
                let target = memory.bytes(1, 6000).unwrap();
                let room = Some(BytesMut::from(&mut long[..]));
                read.apply(Bytes::empty(), target, room, || held_by_0(&lock));
                assert!(is_whole(&long[7..71]), "{:?}", &long[7..71]);
            }
        });
        assert_eq!(lock.into_inner(), 0);
    }
}
