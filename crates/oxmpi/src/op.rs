//! Operations for reductions (MPI-5.0 section 6.9).

use crate::message::size_of_element;
use oxmpi_coll::{Combine, UserReduction};
use oxmpi_core::process::UserCall;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::element::Element;
use oxmpi_mem::kernels::{self, Scalar};
use oxmpi_mem::memory::{lend, lend_mut, zeros};
use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// A type for sums and products: a [`Number`] or a [`Complex`](crate::Complex) number.
pub trait Arithmetic: Element + sealed::Represented {}

/// A number with the predefined operations: every primitive number except `u128`.
pub trait Number: Arithmetic {}

/// A [`Number`] with bitwise operations.
pub trait Integer: Number {}

pub(crate) mod sealed {
    /// A type that the kernels can combine.
    pub trait Represented {
        const SCALAR: oxmpi_mem::kernels::Scalar;
    }
}

macro_rules! numbers {
    ($($t:ty, $scalar:ident;)*) => {
        $(
            impl sealed::Represented for $t {
                const SCALAR: Scalar = Scalar::$scalar;
            }
            impl Arithmetic for $t {}
            impl Number for $t {}
        )*
    };
}
numbers! {
    i8, I8; i16, I16; i32, I32; i64, I64; i128, I128;
    u8, U8; u16, U16; u32, U32; u64, U64;
    f32, F32; f64, F64;
}

#[cfg(target_pointer_width = "64")]
numbers! { isize, I64; usize, U64; }
#[cfg(target_pointer_width = "32")]
numbers! { isize, I32; usize, U32; }

macro_rules! integers {
    ($($t:ty)*) => { $(impl Integer for $t {})* };
}
integers!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 usize);

/// An operation on elements of type `T`. The predefined operations convert to it: [`Sum`],
/// [`Product`], [`Min`], [`Max`], [`BitAnd`], [`BitOr`], [`BitXor`], [`MinLoc`](crate::MinLoc),
/// [`MaxLoc`](crate::MaxLoc).
#[derive(Clone)]
pub struct Op<T> {
    kind: OpKind<T>,
}

#[derive(Clone)]
enum OpKind<T> {
    Kernel(kernels::ReduceOp, Scalar),
    Function { function: Arc<Function<T>>, commutative: bool },
}

type Function<T> = dyn Fn(&T, &T) -> T + Send + Sync;

impl<T> fmt::Debug for Op<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            OpKind::Kernel(op, _) => write!(f, "Op({op:?})"),
            OpKind::Function { commutative, .. } => {
                write!(f, "Op(function, commutative: {commutative})")
            }
        }
    }
}

impl<T: Element> Op<T> {
    /// An associative and commutative function of the program.
    ///
    /// ```
    /// use oxmpi::Op;
    /// let length = |v: &[f64; 2]| v[0].hypot(v[1]);
    /// let longer = move |a: &[f64; 2], b: &[f64; 2]| if length(a) < length(b) { *b } else { *a };
    /// oxmpi::threads(3, |world| {
    ///     let vector = [f64::from(world.rank()), 1.0];
    ///     assert_eq!(world.all_reduce_one(vector, Op::commutative(longer)).unwrap(), [2.0, 1.0]);
    /// });
    /// ```
    ///
    /// If the function panics, this rank completes the reduction and then panics. The results of
    /// other ranks are undefined.
    pub fn commutative(function: impl Fn(&T, &T) -> T + Send + Sync + 'static) -> Op<T> {
        Op { kind: OpKind::Function { function: Arc::new(function), commutative: true } }
    }

    /// [`commutative`](Op::commutative) for an associative function of the operands in the order of
    /// ranks.
    ///
    /// ```
    /// use oxmpi::Op;
    /// // Functions x -> a x + b, composed in the order of ranks.
    /// let after = |f: &[i64; 2], g: &[i64; 2]| [g[0] * f[0], g[0] * f[1] + g[1]];
    /// oxmpi::threads(3, |world| {
    ///     let mine = [2, i64::from(world.rank())];
    ///     assert_eq!(world.all_reduce_one(mine, Op::ordered(after)).unwrap(), [8, 4]);
    /// });
    /// ```
    pub fn ordered(function: impl Fn(&T, &T) -> T + Send + Sync + 'static) -> Op<T> {
        Op { kind: OpKind::Function { function: Arc::new(function), commutative: false } }
    }

    pub(crate) fn kernel(op: kernels::ReduceOp, scalar: Scalar) -> Op<T> {
        Op { kind: OpKind::Kernel(op, scalar) }
    }

    pub(crate) fn is_commutative(&self) -> bool {
        match self.kind {
            OpKind::Kernel(..) => true,
            OpKind::Function { commutative, .. } => commutative,
        }
    }

    pub(crate) fn lower(self) -> Lowered {
        match self.kind {
            OpKind::Kernel(op, scalar) => {
                let Some(kernel) = kernels::kernel(op, scalar) else {
                    // A test checks that each conversion below has a kernel.
                    unreachable!("no kernel for {op:?} of {scalar:?}")
                };
                Lowered { combine: Combine::Kernel(kernel), user: None, panic: Panic::default() }
            }
            OpKind::Function { function, .. } => {
                let panic = Panic::default();
                let user = guarded(function, panic.clone());
                Lowered { combine: Combine::User, user: Some(user), panic }
            }
        }
    }
}

pub(crate) struct Lowered {
    pub(crate) combine: Combine,
    pub(crate) user: Option<UserCall>,
    pub(crate) panic: Panic,
}

/// A panic of the program's function, kept until the reduction has ended.
#[derive(Clone, Default)]
pub(crate) struct Panic(Arc<Mutex<Option<Box<dyn Any + Send>>>>);

impl Panic {
    pub(crate) fn resume(&self) {
        let payload = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(payload) = payload {
            resume_unwind(payload);
        }
    }

    fn keep(&self, payload: Box<dyn Any + Send>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
    }
}

/// Calls `function` on buffers, and keeps its panics: a panic must not leave a reduction half done.
fn guarded<T: Element>(function: Arc<Function<T>>, panic: Panic) -> UserCall {
    Arc::new(move |reduction: &UserReduction| {
        let combined = catch_unwind(AssertUnwindSafe(|| {
            let left: Vec<T> = values(&reduction.left);
            let mut right: Vec<T> = values(&reduction.right);
            for (left, right) in left.iter().zip(&mut right) {
                *right = function(left, right);
            }
            lend(&right, |from| reduction.right.copy_from(0, &from, 0, from.packed_len()));
        }));
        if let Err(payload) = combined {
            panic.keep(payload);
        }
    })
}

/// Copies the elements, since the buffers are unaligned and shared.
fn values<T: Element>(buffer: &UserBuf) -> Vec<T> {
    let mut all = match zeros(buffer.packed_len() / size_of_element::<T>()) {
        Ok(all) => all,
        Err(error) => panic!("no room to reduce in: {error}"),
    };
    lend_mut(&mut all, |to| to.copy_from(0, buffer, 0, to.packed_len()));
    all
}

macro_rules! predefined {
    ($($(#[$doc:meta])* $name:ident, $op:ident, $bound:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name;

            impl<T: $bound> From<$name> for Op<T> {
                fn from(_: $name) -> Op<T> {
                    Op::kernel(kernels::ReduceOp::$op, T::SCALAR)
                }
            }
        )*

        #[cfg(test)]
        mod tests {
            use super::*;

            fn of<T: Integer>() {
                $(assert!(matches!(Op::<T>::from($name).lower().combine, Combine::Kernel(_)));)*
            }

            #[test]
            fn every_operation_on_every_number_has_a_kernel() {
                of::<i8>(); of::<i16>(); of::<i32>(); of::<i64>(); of::<i128>(); of::<isize>();
                of::<u8>(); of::<u16>(); of::<u32>(); of::<u64>(); of::<usize>();
                for op in [Op::<f32>::from(Sum), Product.into(), Min.into(), Max.into()] {
                    assert!(matches!(op.lower().combine, Combine::Kernel(_)));
                }
                for op in [Op::<crate::Complex<f32>>::from(Sum), Product.into()] {
                    assert!(matches!(op.lower().combine, Combine::Kernel(_)));
                }
                for op in [Op::<f64>::from(Sum), Product.into(), Min.into(), Max.into()] {
                    assert!(matches!(op.lower().combine, Combine::Kernel(_)));
                }
            }
        }
    };
}
predefined! {
    /// The sum; integers wrap around (MPI_SUM).
    Sum, Sum, Arithmetic;
    /// The product; integers wrap around (MPI_PROD).
    Product, Prod, Arithmetic;
    /// The smallest value (MPI_MIN).
    Min, Min, Number;
    /// The largest value (MPI_MAX).
    Max, Max, Number;
    /// Bitwise and (MPI_BAND).
    BitAnd, Band, Integer;
    /// Bitwise or (MPI_BOR).
    BitOr, Bor, Integer;
    /// Bitwise exclusive or (MPI_BXOR).
    BitXor, Bxor, Integer;
}
