//! The operations on one element, for numbers, truth values and pairs.

use super::half::F16;
use super::quad::F128;

pub(super) trait Combine<E> {
    fn combine(left: E, right: E) -> E;
}

macro_rules! operations {
    ($($name:ident)*) => { $(pub(super) struct $name;)* };
}
operations!(Sum Prod Min Max Band Bor Bxor Land Lor Lxor MinLoc MaxLoc Replace);

impl<E> Combine<E> for Replace {
    #[inline(always)]
    fn combine(left: E, _: E) -> E {
        left
    }
}

macro_rules! combine {
    ($op:ident, $($t:ty)*, |$a:ident, $b:ident| $result:expr) => {
        $(impl Combine<$t> for $op {
            #[inline(always)]
            fn combine($a: $t, $b: $t) -> $t {
                $result
            }
        })*
    };
}

macro_rules! integers {
    ($($t:ty)*) => {
        combine!(Sum, $($t)*, |a, b| a.wrapping_add(b));
        combine!(Prod, $($t)*, |a, b| a.wrapping_mul(b));
        combine!(Min, $($t)*, |a, b| if a < b { a } else { b });
        combine!(Max, $($t)*, |a, b| if a > b { a } else { b });
        combine!(Band, $($t)*, |a, b| a & b);
        combine!(Bor, $($t)*, |a, b| a | b);
        combine!(Bxor, $($t)*, |a, b| a ^ b);
        combine!(Land, $($t)*, |a, b| ((a != 0) & (b != 0)).into());
        combine!(Lor, $($t)*, |a, b| ((a != 0) | (b != 0)).into());
        combine!(Lxor, $($t)*, |a, b| ((a != 0) ^ (b != 0)).into());
    };
}
integers!(i8 i16 i32 i64 i128 u8 u16 u32 u64 u128);

combine!(Sum, f32 f64 F16 F128, |a, b| a + b);
combine!(Prod, f32 f64 F16 F128, |a, b| a * b);
combine!(Min, f32 f64 F16 F128, |a, b| if a < b { a } else { b });
combine!(Max, f32 f64 F16 F128, |a, b| if a > b { a } else { b });

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Complex<F> {
    re: F,
    im: F,
}

combine!(Sum, Complex<f32> Complex<f64> Complex<F16> Complex<F128>, |a, b| Complex {
    re: a.re + b.re,
    im: a.im + b.im,
});
combine!(Prod, Complex<f32> Complex<f64> Complex<F16> Complex<F128>, |a, b| Complex {
    re: a.re * b.re - a.im * b.im,
    im: a.re * b.im + a.im * b.re,
});

#[derive(Clone, Copy)]
pub(super) struct ValueIndex<V, I> {
    pub(super) value: V,
    pub(super) index: I,
}

impl<V: PartialOrd + Copy, I: PartialOrd + Copy> Combine<ValueIndex<V, I>> for MinLoc {
    #[inline(always)]
    fn combine(a: ValueIndex<V, I>, b: ValueIndex<V, I>) -> ValueIndex<V, I> {
        if a.value < b.value || (a.value == b.value && a.index < b.index) { a } else { b }
    }
}

impl<V: PartialOrd + Copy, I: PartialOrd + Copy> Combine<ValueIndex<V, I>> for MaxLoc {
    #[inline(always)]
    fn combine(a: ValueIndex<V, I>, b: ValueIndex<V, I>) -> ValueIndex<V, I> {
        if a.value > b.value || (a.value == b.value && a.index < b.index) { a } else { b }
    }
}
