//! Reduction kernels: `right <- left op right` on arrays of one basic type.
//!
//! [`kernel`] finds the loop for a predefined operation and the representation of an element. The
//! crate `objects` decides for which *datatypes* an operation is defined (MPI-5.0 section 6.9.2).
//! On x86-64 the compiler makes two loops of one generic function, for the base instruction set and
//! for AVX2. Their results have the same bits, since no loop reassociates or fuses.
//!
//! Elements are read and written at any alignment. Padding (of the value-and-index pairs of
//! `MPI_MINLOC`) is neither read nor written.

mod element;
mod extended;
mod half;
mod quad;
mod simple;

use crate::buffer::UserBuf;
use crate::memory::{Scratch, ScratchError};
use oxmpi_sys::bytes::{Bytes, BytesMut};

/// The representation of a basic element in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    F16,
    F32,
    F64,
    /// The x87 format of 80 bits in 16 bytes, C's `long double`. Kernels on x86-64 only.
    F80,
    F128,
    C16,
    /// Two binary32, real part first.
    C32,
    C64,
    C80,
    C128,
    /// Truth value in 1 byte (C `bool`, Fortran `LOGICAL*1`): 0 is false, any other value is true.
    Bool8,
    Bool16,
    /// Fortran's default `LOGICAL`.
    Bool32,
    Bool64,
    Bool128,
    F32I32,
    /// `struct { double; int; }`: 12 bytes in 16.
    F64I32,
    /// `struct { long; int; }`: 12 bytes in 16.
    I64I32,
    I32I32,
    /// `struct { short; int; }`: 2 bytes, 2 of padding, 4 bytes.
    I16I32,
    /// `struct { long double; int; }`: 20 bytes (of which 6 unused) in 32.
    F80I32,
    /// Two `REAL`, the index as a number.
    F32F32,
    /// Two `DOUBLE PRECISION`, the index as a number.
    F64F64,
}

impl Scalar {
    pub const ALL: [Scalar; 32] = {
        use Scalar::*;
        [
            I8, I16, I32, I64, I128, U8, U16, U32, U64, F16, F32, F64, F80, F128, C16, C32, C64,
            C80, C128, Bool8, Bool16, Bool32, Bool64, Bool128, F32I32, F64I32, I64I32, I32I32,
            I16I32, F80I32, F32F32, F64F64,
        ]
    };
}

/// A predefined operation (MPI-5.0 section 6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Integers wrap around, as for `Prod`.
    Sum,
    Prod,
    Min,
    Max,
    Band,
    Bor,
    Bxor,
    /// Gives 0 or 1, as do `Lor` and `Lxor`.
    Land,
    Lor,
    Lxor,
    /// The smaller value; of equal values the lower index.
    MinLoc,
    /// The larger value; of equal values the lower index.
    MaxLoc,
    Replace,
    NoOp,
}

impl ReduceOp {
    pub const ALL: [ReduceOp; 14] = {
        use ReduceOp::*;
        [Sum, Prod, Min, Max, Band, Bor, Bxor, Land, Lor, Lxor, MinLoc, MaxLoc, Replace, NoOp]
    };
}

/// The loop over `n` elements each; `left` and `right` are the same memory or do not overlap.
pub type Loop = unsafe fn(left: *const u8, right: *mut u8, n: usize);

type LoopApart = unsafe fn(left: *const u8, right: *const u8, result: *mut u8, n: usize);

#[derive(Clone, Copy, Debug)]
struct Loops {
    onto: Loop,
    apart: Option<LoopApart>,
}

/// A reduction loop and its elements.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    run: Loop,
    apart: Option<LoopApart>,
    size: usize,
    extent: usize,
    is_exact: bool,
    op: ReduceOp,
    scalar: Scalar,
}

/// The reason why a kernel cannot reduce two buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReduceError {
    #[error("the operands of a reduction have {left} and {right} packed bytes")]
    Lengths { left: usize, right: usize },
    #[error("{bytes} packed bytes are not a number of elements of {size} bytes")]
    Partial { bytes: usize, size: usize },
    #[error("elements of {size} bytes in {extent} cannot be reduced inside a derived datatype")]
    Padded { size: usize, extent: usize },
    #[error(transparent)]
    Scratch(#[from] ScratchError),
}

/// The kernel of `op` for `scalar`, if it is defined and available (see [`Scalar`]).
pub fn kernel(op: ReduceOp, scalar: Scalar) -> Option<Kernel> {
    let (size, extent) = scalar.size_extent();
    let loops = match op {
        ReduceOp::NoOp => Loops { onto: nothing, apart: None },
        ReduceOp::Replace => element::replace(scalar)?,
        _ => element::arithmetic(op, scalar)?,
    };
    // The result would have unspecified bytes in the padding.
    let apart = loops.apart.filter(|_| !scalar.has_padding());
    Some(Kernel {
        run: loops.onto,
        apart,
        size,
        extent,
        is_exact: is_exact(op, scalar),
        op,
        scalar,
    })
}

/// Whether the result does not depend on the grouping of contributions. Floating-point sums and
/// products are rounded at each step; all other operations are exact.
fn is_exact(op: ReduceOp, scalar: Scalar) -> bool {
    use Scalar::*;
    let is_floating = matches!(scalar, F16 | F32 | F64 | F80 | F128 | C16 | C32 | C64 | C80 | C128);
    !(is_floating && matches!(op, ReduceOp::Sum | ReduceOp::Prod))
}

/// Safety: none needed: it does nothing.
unsafe fn nothing(_: *const u8, _: *mut u8, _: usize) {}

impl Scalar {
    const fn has_padding(self) -> bool {
        use Scalar::*;
        matches!(self, F80 | C80 | F80I32 | F64I32 | I64I32 | I16I32)
    }

    /// The packed bytes of an element and the bytes from one to the next in an array.
    pub const fn size_extent(self) -> (usize, usize) {
        match self {
            Scalar::I8 | Scalar::U8 | Scalar::Bool8 => (1, 1),
            Scalar::I16 | Scalar::U16 | Scalar::F16 | Scalar::Bool16 => (2, 2),
            Scalar::I32 | Scalar::U32 | Scalar::F32 | Scalar::C16 | Scalar::Bool32 => (4, 4),
            Scalar::I64 | Scalar::U64 | Scalar::F64 | Scalar::C32 | Scalar::Bool64 => (8, 8),
            Scalar::I128 | Scalar::F80 | Scalar::F128 | Scalar::C64 | Scalar::Bool128 => (16, 16),
            Scalar::C80 | Scalar::C128 => (32, 32),
            Scalar::F32I32 | Scalar::I32I32 | Scalar::F32F32 => (8, 8),
            Scalar::F64I32 | Scalar::I64I32 => (12, 16),
            Scalar::I16I32 => (6, 8),
            Scalar::F80I32 => (20, 32),
            Scalar::F64F64 => (16, 16),
        }
    }
}

impl Kernel {
    /// The operation and the elements.
    pub fn kind(&self) -> (ReduceOp, Scalar) {
        (self.op, self.scalar)
    }

    /// Whether every grouping of contributions gives the same bits.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// The bare loop, for callers that check the memory themselves.
    #[inline]
    pub fn as_loop(&self) -> Loop {
        self.run
    }

    /// The packed bytes of an element.
    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes from one element to the next.
    #[inline]
    pub fn extent(&self) -> usize {
        self.extent
    }

    /// Reduces contiguous elements with their padding. Panics at different or partial lengths.
    #[inline]
    pub fn apply(&self, left: Bytes<'_>, mut right: BytesMut<'_>) {
        let len = left.len();
        // A shift, as all extents are powers of two, and a division would cost as much as a short
        // reduction.
        let elements = len >> self.extent.trailing_zeros();
        assert!(
            len == right.len() && elements * self.extent == len,
            "operands of {len} and {} bytes for elements of {}",
            right.len(),
            self.extent
        );
        // SAFETY: both views are mapped for `len` bytes, which are this many elements.
        unsafe { (self.run)(left.as_ptr(), right.as_mut_ptr(), elements) }
    }

    /// As [`Kernel::apply`], but `result <- left op right`; the result may replace `right`.
    #[inline]
    pub fn apply_apart(&self, left: Bytes<'_>, right: Bytes<'_>, mut result: BytesMut<'_>) {
        let (len, is_apart) = (left.len(), right.as_ptr() != result.as_mut_ptr().cast_const());
        let elements = len >> self.extent.trailing_zeros();
        match self.apart {
            Some(apart) if is_apart => {
                assert!(
                    len == right.len() && len == result.len() && elements * self.extent == len,
                    "operands of {len} and {} bytes, a result of {}, for elements of {}",
                    right.len(),
                    result.len(),
                    self.extent
                );
                // SAFETY: all views are mapped for `len` bytes, which are this many elements.
                unsafe { apart(left.as_ptr(), right.as_ptr(), result.as_mut_ptr(), elements) }
            }
            _ => {
                if is_apart {
                    right.copy_to(result.reborrow());
                }
                self.apply(left, result);
            }
        }
    }

    /// `right <- left op right` for the packed elements of two buffers: in place, or in parts
    /// through a copy for a derived type. Panics if `right` is read-only.
    pub fn reduce(&self, left: &UserBuf, right: &UserBuf) -> Result<(), ReduceError> {
        let bytes = left.packed_len();
        if bytes != right.packed_len() {
            return Err(ReduceError::Lengths { left: bytes, right: right.packed_len() });
        }
        if !bytes.is_multiple_of(self.size) {
            return Err(ReduceError::Partial { bytes, size: self.size });
        }
        if bytes == 0 {
            return Ok(());
        }
        if self.size == self.extent {
            return self.reduce_packed(left, right, bytes);
        }
        let padded = ReduceError::Padded { size: self.size, extent: self.extent };
        let array = |buf: &UserBuf| {
            let short_int = self.extent == 8;
            let blocks: &[_] = if short_int { &[(0, 2), (4, 4)] } else { &[(0, self.size)] };
            buf.is_array_of(blocks, self.extent).then(|| buf.as_ptr()).ok_or(padded)
        };
        let (from, to) = (array(left)?, array(right)?);
        right.assert_writable();
        // SAFETY: both are arrays of this many elements, mapped as their makers have promised, and
        // `right` is writable. The loop does not touch padding, which may be unmapped after the
        // last element.
        unsafe { (self.run)(from, to, bytes / self.size) }
        Ok(())
    }

    fn reduce_packed(
        &self,
        left: &UserBuf,
        right: &UserBuf,
        bytes: usize,
    ) -> Result<(), ReduceError> {
        if let (Some(left), Some(right)) = (left.as_contiguous(), right.as_contiguous_mut()) {
            self.apply(left, right);
            return Ok(());
        }
        let part = (PART_BYTES / self.size).max(1) * self.size;
        let room = Scratch::bytes(2 * part.min(bytes))?;
        let (a, b) = (
            room.buf().elements(0, part.min(bytes)),
            room.buf().elements(part.min(bytes), part.min(bytes)),
        );
        let mut at = 0;
        while at < bytes {
            let n = part.min(bytes - at);
            let (a, b) = (a.elements(0, n), b.elements(0, n));
            a.copy_from(0, left, at, n);
            b.copy_from(0, right, at, n);
            if let (Some(a), Some(b)) = (a.as_contiguous(), b.as_contiguous_mut()) {
                self.apply(a, b);
            }
            right.copy_from(at, &b, 0, n);
            at += n;
        }
        Ok(())
    }
}

/// In packed bytes. Copies of both operands then stay in the first-level cache.
const PART_BYTES: usize = 8 << 10;

#[cfg(test)]
mod tests;
