//! Fortran types of a given precision and range (MPI-5.0 section 19.1.9).
//!
//! Each type has the representation of a predefined type: the smallest sufficient kind of the
//! Fortran compilers on x86-64. The 80-bit kind of some compilers is C's `long double`. The same
//! arguments must give the same handle, so the caller keeps the types.

use super::{Combiner, Datatype};
use crate::error::{MpiError, Result};
use crate::predefined::{PredefinedType, by_handle};
use oxmpi_abi::constants as abi;

/// Decimal digits, decimal exponent, real type and complex type of each kind.
const REALS: [(i32, i32, usize, usize); 4] = [
    (6, 37, abi::MPI_REAL4, abi::MPI_COMPLEX8),
    (15, 307, abi::MPI_REAL8, abi::MPI_COMPLEX16),
    (18, 4931, abi::MPI_LONG_DOUBLE, abi::MPI_C_LONG_DOUBLE_COMPLEX),
    (33, 4931, abi::MPI_REAL16, abi::MPI_COMPLEX32),
];

/// Decimal digits and type of each kind.
const INTEGERS: [(i32, usize); 5] = [
    (2, abi::MPI_INTEGER1),
    (4, abi::MPI_INTEGER2),
    (9, abi::MPI_INTEGER4),
    (18, abi::MPI_INTEGER8),
    (38, abi::MPI_INTEGER16),
];

impl Datatype {
    /// Real numbers of `p` decimal digits and a range of `r` powers of ten
    /// (`MPI_Type_create_f90_real`). One of the two may be `MPI_UNDEFINED`. Fails with
    /// `MPI_ERR_ARG` if no kind is sufficient.
    pub fn f90_real(p: i32, r: i32) -> Result<Datatype> {
        let (real, _) = kind(p, r)?;
        Ok(Datatype::of_library(real, Combiner::F90Real, &[p, r]))
    }

    /// Complex numbers of such reals (`MPI_Type_create_f90_complex`). Fails as
    /// [`f90_real`](Self::f90_real) does.
    pub fn f90_complex(p: i32, r: i32) -> Result<Datatype> {
        let (_, complex) = kind(p, r)?;
        Ok(Datatype::of_library(complex, Combiner::F90Complex, &[p, r]))
    }

    /// Integers of `r` decimal digits (`MPI_Type_create_f90_integer`). Fails as
    /// [`f90_real`](Self::f90_real) does.
    pub fn f90_integer(r: i32) -> Result<Datatype> {
        let found = INTEGERS.iter().find(|(digits, _)| (0..=*digits).contains(&r));
        let integer = found.and_then(|&(_, handle)| by_handle(handle));
        let integer = integer.ok_or_else(|| {
            MpiError::new(
                abi::MPI_ERR_ARG,
                format!("there is no kind of integers with a range r of {r}"),
            )
        })?;
        Ok(Datatype::of_library(integer, Combiner::F90Integer, &[r]))
    }
}

/// The real and complex types of the smallest kind with this precision and range.
fn kind(p: i32, r: i32) -> Result<(&'static PredefinedType, &'static PredefinedType)> {
    let enough = |has: i32, requested: i32| {
        requested == abi::MPI_UNDEFINED || (0..=has).contains(&requested)
    };
    let found = REALS.iter().find(|&&(digits, range, ..)| enough(digits, p) && enough(range, r));
    let both = found.filter(|_| (p, r) != (abi::MPI_UNDEFINED, abi::MPI_UNDEFINED));
    let types =
        both.and_then(|&(_, _, real, complex)| Some((by_handle(real)?, by_handle(complex)?)));
    types.ok_or_else(|| {
        let text = format!(
            "there is no kind of real numbers with a precision p of {p} and a range r of {r}"
        );
        MpiError::new(abi::MPI_ERR_ARG, text)
    })
}
