//! The loop over elements, and the table of loops.

use super::extended::{self, F80};
use super::half::F16;
use super::quad::F128;
use super::simple::*;
use super::{Loops, ReduceOp, Scalar};

pub(super) trait KernelElement: Copy {
    const EXTENT: usize;

    /// Safety: the element at `at` is readable, padding excepted.
    unsafe fn load(at: *const u8) -> Self;

    /// Safety: the element at `at` is writable, padding excepted.
    unsafe fn store(self, at: *mut u8);
}

macro_rules! whole_elements {
    ($($t:ty)*) => {
        $(impl KernelElement for $t {
            const EXTENT: usize = size_of::<$t>();
            #[inline(always)]
            unsafe fn load(at: *const u8) -> Self {
                // SAFETY: readable as the caller promises; any bytes are a value of this type.
                unsafe { at.cast::<$t>().read_unaligned() }
            }
            #[inline(always)]
            unsafe fn store(self, at: *mut u8) {
                // SAFETY: writable as the caller promises.
                unsafe { at.cast::<$t>().write_unaligned(self) }
            }
        })*
    };
}
whole_elements!(i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 F16 F128);
whole_elements!(Complex<f32> Complex<f64> Complex<F16> Complex<F128>);

/// C's `struct { V value; I index; }`, for its extent and the offset of the index.
#[repr(C)]
struct InC<V, I> {
    value: V,
    index: I,
}

impl<V: KernelElement, I: KernelElement> KernelElement for ValueIndex<V, I> {
    const EXTENT: usize = size_of::<InC<V, I>>();
    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: both fields lie in the element, which is readable as the caller promises.
        unsafe {
            ValueIndex {
                value: V::load(at),
                index: I::load(at.wrapping_add(std::mem::offset_of!(InC<V, I>, index))),
            }
        }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: as for `load`, writable.
        unsafe {
            self.value.store(at);
            self.index.store(at.wrapping_add(std::mem::offset_of!(InC<V, I>, index)));
        }
    }
}

/// `n` times `right <- left op right`. Safety: `n` elements are readable at `left` and writable at
/// `right`, padding excepted.
#[inline(always)]
unsafe fn each<E: KernelElement, O: Combine<E>>(left: *const u8, right: *mut u8, n: usize) {
    for i in 0..n {
        let (left, right) = (left.wrapping_add(i * E::EXTENT), right.wrapping_add(i * E::EXTENT));
        // SAFETY: element `i` of the `n`, as the caller promises.
        unsafe { O::combine(E::load(left), E::load(right)).store(right) }
    }
}

/// Safety: as [`each`].
unsafe fn base<E: KernelElement, O: Combine<E>>(left: *const u8, right: *mut u8, n: usize) {
    // SAFETY: as the caller promises.
    unsafe { each::<E, O>(left, right, n) }
}

/// Safety: as [`each`], and the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<E: KernelElement, O: Combine<E>>(left: *const u8, right: *mut u8, n: usize) {
    // SAFETY: as the caller promises.
    unsafe { each::<E, O>(left, right, n) }
}

/// [`each`] with a separate result. Safety: `n` elements are readable at `left` and `right`, and
/// writable at `result`, padding excepted.
#[inline(always)]
unsafe fn each_apart<E: KernelElement, O: Combine<E>>(
    left: *const u8,
    right: *const u8,
    result: *mut u8,
    n: usize,
) {
    // The most frequent length, without the preparations of a vectorised loop.
    if n == 1 {
        // SAFETY: the only element, as the caller promises.
        return unsafe { O::combine(E::load(left), E::load(right)).store(result) };
    }
    for i in 0..n {
        let at = i * E::EXTENT;
        let (left, right) = (left.wrapping_add(at), right.wrapping_add(at));
        // SAFETY: element `i` of the `n`, as the caller promises.
        unsafe { O::combine(E::load(left), E::load(right)).store(result.wrapping_add(at)) }
    }
}

/// Safety: as [`each_apart`].
unsafe fn base_apart<E: KernelElement, O: Combine<E>>(
    left: *const u8,
    right: *const u8,
    result: *mut u8,
    n: usize,
) {
    // SAFETY: as the caller promises.
    unsafe { each_apart::<E, O>(left, right, result, n) }
}

/// Safety: as [`each_apart`], and the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2_apart<E: KernelElement, O: Combine<E>>(
    left: *const u8,
    right: *const u8,
    result: *mut u8,
    n: usize,
) {
    // SAFETY: as the caller promises.
    unsafe { each_apart::<E, O>(left, right, result, n) }
}

fn best<E: KernelElement, O: Combine<E>>() -> Loops {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return Loops { onto: avx2::<E, O>, apart: Some(avx2_apart::<E, O>) };
    }
    Loops { onto: base::<E, O>, apart: Some(base_apart::<E, O>) }
}

fn integer<E: KernelElement>(op: ReduceOp) -> Option<Loops>
where
    Sum: Combine<E>,
    Prod: Combine<E>,
    Min: Combine<E>,
    Max: Combine<E>,
    Band: Combine<E>,
    Bor: Combine<E>,
    Bxor: Combine<E>,
    Land: Combine<E>,
    Lor: Combine<E>,
    Lxor: Combine<E>,
{
    Some(match op {
        ReduceOp::Band => best::<E, Band>(),
        ReduceOp::Bor => best::<E, Bor>(),
        ReduceOp::Bxor => best::<E, Bxor>(),
        ReduceOp::Land | ReduceOp::Lor | ReduceOp::Lxor => return truth::<E>(op),
        _ => return float::<E>(op),
    })
}

fn truth<E: KernelElement>(op: ReduceOp) -> Option<Loops>
where
    Land: Combine<E>,
    Lor: Combine<E>,
    Lxor: Combine<E>,
{
    Some(match op {
        ReduceOp::Land => best::<E, Land>(),
        ReduceOp::Lor => best::<E, Lor>(),
        ReduceOp::Lxor => best::<E, Lxor>(),
        _ => return None,
    })
}

fn float<E: KernelElement>(op: ReduceOp) -> Option<Loops>
where
    Sum: Combine<E>,
    Prod: Combine<E>,
    Min: Combine<E>,
    Max: Combine<E>,
{
    Some(match op {
        ReduceOp::Min => best::<E, Min>(),
        ReduceOp::Max => best::<E, Max>(),
        _ => return complex::<E>(op),
    })
}

fn complex<E: KernelElement>(op: ReduceOp) -> Option<Loops>
where
    Sum: Combine<E>,
    Prod: Combine<E>,
{
    Some(match op {
        ReduceOp::Sum => best::<E, Sum>(),
        ReduceOp::Prod => best::<E, Prod>(),
        _ => return None,
    })
}

fn pair<V: KernelElement + PartialOrd, I: KernelElement + PartialOrd>(
    op: ReduceOp,
) -> Option<Loops> {
    Some(match op {
        ReduceOp::MinLoc => best::<ValueIndex<V, I>, MinLoc>(),
        ReduceOp::MaxLoc => best::<ValueIndex<V, I>, MaxLoc>(),
        _ => return None,
    })
}

pub(super) fn arithmetic(op: ReduceOp, scalar: Scalar) -> Option<Loops> {
    match scalar {
        Scalar::I8 => integer::<i8>(op),
        Scalar::I16 => integer::<i16>(op),
        Scalar::I32 => integer::<i32>(op),
        Scalar::I64 => integer::<i64>(op),
        Scalar::I128 => integer::<i128>(op),
        Scalar::U8 => integer::<u8>(op),
        Scalar::U16 => integer::<u16>(op),
        Scalar::U32 => integer::<u32>(op),
        Scalar::U64 => integer::<u64>(op),
        Scalar::F32 => float::<f32>(op),
        Scalar::F64 => float::<f64>(op),
        Scalar::C32 => complex::<Complex<f32>>(op),
        Scalar::C64 => complex::<Complex<f64>>(op),
        Scalar::Bool8 => truth::<u8>(op),
        Scalar::Bool16 => truth::<u16>(op),
        Scalar::Bool32 => truth::<u32>(op),
        Scalar::Bool64 => truth::<u64>(op),
        Scalar::Bool128 => truth::<u128>(op),
        Scalar::F32I32 => pair::<f32, i32>(op),
        Scalar::F64I32 => pair::<f64, i32>(op),
        Scalar::I64I32 => pair::<i64, i32>(op),
        Scalar::I32I32 => pair::<i32, i32>(op),
        Scalar::I16I32 => pair::<i16, i32>(op),
        Scalar::F32F32 => pair::<f32, f32>(op),
        Scalar::F64F64 => pair::<f64, f64>(op),
        Scalar::F80 | Scalar::C80 | Scalar::F80I32 if !extended::AVAILABLE => None,
        Scalar::F80 => float::<F80>(op),
        Scalar::C80 => complex::<extended::C80>(op),
        Scalar::F80I32 => pair::<F80, i32>(op),
        Scalar::F16 => float::<F16>(op),
        Scalar::F128 => float::<F128>(op),
        Scalar::C16 => complex::<Complex<F16>>(op),
        Scalar::C128 => complex::<Complex<F128>>(op),
    }
}

/// The loop of `MPI_REPLACE`: copies whole elements, so that a signal handler sees none half
/// written.
pub(super) fn replace(scalar: Scalar) -> Option<Loops> {
    Some(match scalar {
        Scalar::F64I32 | Scalar::I64I32 => best::<ValueIndex<i64, i32>, Replace>(),
        Scalar::I16I32 => best::<ValueIndex<i16, i32>, Replace>(),
        Scalar::F80I32 => best::<ValueIndex<F80, i32>, Replace>(),
        _ => match scalar.size_extent() {
            (1, 1) => best::<u8, Replace>(),
            (2, 2) => best::<u16, Replace>(),
            (4, 4) => best::<u32, Replace>(),
            (8, 8) => best::<u64, Replace>(),
            (16, 16) => best::<u128, Replace>(),
            (32, 32) => best::<extended::C80, Replace>(),
            _ => return None,
        },
    })
}
