//! Pairs of numbers with predefined operations: complex numbers, and values with an index.

use crate::op::sealed::Represented;
use crate::op::{Arithmetic, Op};
use oxmpi_derive::Element;
use oxmpi_mem::kernels::{self, Scalar};

/// A complex number, for [`Sum`](crate::Sum) and [`Product`](crate::Product).
///
/// ```
/// use oxmpi::{Complex, Product};
/// oxmpi::threads(3, |world| {
///     let i = Complex { re: 0.0, im: 1.0 };
///     assert_eq!(world.all_reduce_one(i, Product).unwrap(), Complex { re: 0.0, im: -1.0 });
/// });
/// ```
#[derive(Element, Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Complex<T> {
    /// The real part.
    pub re: T,
    /// The imaginary part.
    pub im: T,
}

/// A value with its index, for [`MinLoc`] and [`MaxLoc`].
#[derive(Element, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Located<T> {
    /// The compared value.
    pub value: T,
    /// The location, such as a rank.
    pub index: i32,
}

/// The smallest value with its index. Of equal values, the one with the lowest index (MPI_MINLOC,
/// MPI-5.0 section 6.9.4).
///
/// ```
/// use oxmpi::{Located, MinLoc};
/// oxmpi::threads(3, |world| {
///     let mine = Located { value: [2.5, 0.5, 0.5][world.rank() as usize], index: world.rank() };
///     assert_eq!(world.all_reduce_one(mine, MinLoc).unwrap(), Located { value: 0.5, index: 1 });
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinLoc;

/// The largest value with its index. Of equal values, the one with the lowest index (MPI_MAXLOC).
///
/// ```
/// use oxmpi::{Located, MaxLoc};
/// oxmpi::threads(3, |world| {
///     let mine = Located { value: -world.rank() % 2, index: world.rank() };
///     assert_eq!(world.all_reduce_one(mine, MaxLoc).unwrap(), Located { value: 0, index: 0 });
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxLoc;

macro_rules! complex {
    ($($t:ty, $scalar:ident;)*) => {
        $(
            impl Represented for Complex<$t> {
                const SCALAR: Scalar = Scalar::$scalar;
            }
            impl Arithmetic for Complex<$t> {}
        )*
    };
}
complex! { f32, C32; f64, C64; }

macro_rules! located {
    ($($t:ty, $scalar:ident;)*) => {
        $(
            impl From<MinLoc> for Op<Located<$t>> {
                fn from(_: MinLoc) -> Self {
                    Op::kernel(kernels::ReduceOp::MinLoc, Scalar::$scalar)
                }
            }

            impl From<MaxLoc> for Op<Located<$t>> {
                fn from(_: MaxLoc) -> Self {
                    Op::kernel(kernels::ReduceOp::MaxLoc, Scalar::$scalar)
                }
            }
        )*

        #[cfg(test)]
        mod tests {
            use super::*;

            #[test]
            fn the_best_of_each_type_is_found_with_its_place() {
                $(
                    // The third rank has the smallest value, the first and the last the largest.
                    for (ranks, lowest) in [(1, 0), (4, 2), (5, 2)] {
                        crate::threads(ranks, |world| {
                            let me = world.rank();
                            let pairs = |n: usize| -> Vec<Located<$t>> {
                                let value = [7, 3, 1, 7, 7][me as usize] as $t;
                                (0..n).map(|i| Located { value: value + i as $t, index: 10 * me }).collect()
                            };
                            for n in [1, 60] {
                                let least = world.all_reduce(&pairs(n), MinLoc).unwrap();
                                let best = world.all_reduce(&pairs(n), MaxLoc).unwrap();
                                for i in 0..n {
                                    let value = if lowest == 0 { 7 } else { 1 } as $t + i as $t;
                                    assert_eq!(least[i], Located { value, index: 10 * lowest });
                                    assert_eq!(best[i], Located { value: 7 as $t + i as $t, index: 0 });
                                }
                            }
                        });
                    }
                )*
            }
        }
    };
}
located! { i16, I16I32; i32, I32I32; i64, I64I32; f32, F32I32; f64, F64I32; }
