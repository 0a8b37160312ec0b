//! Operations of reductions, and the datatypes for which each is defined (MPI-5.0 section 6.9).

use crate::datatype::Datatype;
use crate::error::{MpiError, Result};
use crate::predefined::{Category, PredefinedType, is_word};
use oxmpi_abi::constants as abi;
use oxmpi_mem::atomics::{Accumulator, Instruction};
use oxmpi_mem::kernels::{self, Kernel};

pub use oxmpi_mem::kernels::ReduceOp as PredefinedOp;

/// An operation of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Predefined(PredefinedOp),
    User {
        /// The function's address. The C interface knows its type and calls it.
        function: usize,
        commutative: bool,
        /// Whether the function takes an `MPI_Count` (`MPI_Op_create_c`).
        large_count: bool,
        /// The number of an extra argument that the C interface keeps for the function, or 0.
        state: u64,
    },
}

const OPS: [(usize, PredefinedOp, &str); 14] = [
    (abi::MPI_SUM, PredefinedOp::Sum, "MPI_SUM"),
    (abi::MPI_MIN, PredefinedOp::Min, "MPI_MIN"),
    (abi::MPI_MAX, PredefinedOp::Max, "MPI_MAX"),
    (abi::MPI_PROD, PredefinedOp::Prod, "MPI_PROD"),
    (abi::MPI_BAND, PredefinedOp::Band, "MPI_BAND"),
    (abi::MPI_BOR, PredefinedOp::Bor, "MPI_BOR"),
    (abi::MPI_BXOR, PredefinedOp::Bxor, "MPI_BXOR"),
    (abi::MPI_LAND, PredefinedOp::Land, "MPI_LAND"),
    (abi::MPI_LOR, PredefinedOp::Lor, "MPI_LOR"),
    (abi::MPI_LXOR, PredefinedOp::Lxor, "MPI_LXOR"),
    (abi::MPI_MINLOC, PredefinedOp::MinLoc, "MPI_MINLOC"),
    (abi::MPI_MAXLOC, PredefinedOp::MaxLoc, "MPI_MAXLOC"),
    (abi::MPI_REPLACE, PredefinedOp::Replace, "MPI_REPLACE"),
    (abi::MPI_NO_OP, PredefinedOp::NoOp, "MPI_NO_OP"),
];

/// The predefined operation with this handle value; `None` for `MPI_OP_NULL` and other values.
pub fn predefined(handle: u64) -> Option<PredefinedOp> {
    OPS.iter().find(|op| op.0 as u64 == handle).map(|op| op.1)
}

/// The processor's instruction for a predefined operation on an integer ([`is_word`]). Operation
/// and datatype are handle values.
#[inline(always)]
pub fn instruction(op: u64, datatype: u64) -> Option<Instruction> {
    let instruction = match op as usize {
        abi::MPI_SUM => Instruction::Add,
        abi::MPI_NO_OP => Instruction::Load,
        abi::MPI_REPLACE => Instruction::Swap,
        abi::MPI_BAND => Instruction::And,
        abi::MPI_BOR => Instruction::Or,
        abi::MPI_BXOR => Instruction::Xor,
        _ => return None,
    };
    is_word(datatype).then_some(instruction)
}

/// The name in C.
pub fn name(op: PredefinedOp) -> &'static str {
    OPS.iter().find(|o| o.1 == op).map_or("an operation", |o| o.2)
}

impl Op {
    /// Whether operands may be exchanged.
    pub fn is_commutative(&self) -> bool {
        match self {
            // MPI_REPLACE and MPI_NO_OP choose one of two values by their order.
            Op::Predefined(op) => !matches!(op, PredefinedOp::Replace | PredefinedOp::NoOp),
            Op::User { commutative, .. } => *commutative,
        }
    }
}

/// Whether the standard defines the operation for a category: the table in MPI-5.0 section 6.9.2,
/// and all predefined types for `MPI_REPLACE` and `MPI_NO_OP` (section 12.3.4).
pub fn is_defined(op: PredefinedOp, category: Category) -> bool {
    use Category::*;
    match op {
        PredefinedOp::Max | PredefinedOp::Min => {
            matches!(category, CInteger | FortranInteger | FloatingPoint | MultiLanguage)
        }
        PredefinedOp::Sum | PredefinedOp::Prod => {
            matches!(category, CInteger | FortranInteger | FloatingPoint | Complex | MultiLanguage)
        }
        PredefinedOp::Land | PredefinedOp::Lor | PredefinedOp::Lxor => {
            matches!(category, CInteger | Logical)
        }
        PredefinedOp::Band | PredefinedOp::Bor | PredefinedOp::Bxor => {
            matches!(category, CInteger | FortranInteger | Byte | MultiLanguage)
        }
        PredefinedOp::MinLoc | PredefinedOp::MaxLoc => category == Pair,
        PredefinedOp::Replace | PredefinedOp::NoOp => true,
    }
}

/// Whether the library carries out the operation for a category. With `strict` (parameter
/// mpi_strict), only what the standard defines. Without `strict`, also what other libraries accept:
/// `MPI_CHAR` as C's `char`, and logical operations on `MPI_AINT`, `MPI_OFFSET` and `MPI_COUNT`.
#[inline]
pub fn is_supported(op: PredefinedOp, category: Category, strict: bool) -> bool {
    is_defined(op, category) || !strict && is_supported_by_others(op, category)
}

fn is_supported_by_others(op: PredefinedOp, category: Category) -> bool {
    match category {
        Category::Char => is_defined(op, Category::CInteger),
        Category::MultiLanguage => {
            matches!(op, PredefinedOp::Land | PredefinedOp::Lor | PredefinedOp::Lxor)
        }
        _ => false,
    }
}

/// The kernel of `op` for elements of `datatype`. Fails with `MPI_ERR_OP` for a user's operation,
/// for `MPI_REPLACE` and `MPI_NO_OP`, for a derived datatype, and where [`is_supported`] is false.
/// Fails with `MPI_ERR_UNSUPPORTED_OPERATION` if this processor has no arithmetic on the
/// representation.
pub fn kernel_for(op: &Op, datatype: &Datatype, strict: bool) -> Result<Kernel> {
    let op = predefined_of(op)?;
    if matches!(op, PredefinedOp::Replace | PredefinedOp::NoOp) {
        let text =
            format!("{} is for one-sided accumulates only (MPI-5.0 section 12.3.4)", name(op));
        return Err(MpiError::new(abi::MPI_ERR_OP, text));
    }
    let Some(facts) = datatype.facts() else {
        let text = format!(
            "{} is defined for predefined datatypes only, not for {datatype}; create an operation with MPI_Op_create for it",
            name(op)
        );
        return Err(MpiError::new(abi::MPI_ERR_OP, text));
    };
    kernel_of(op, facts, strict)
}

/// The accumulate of `op` on elements of `datatype` (MPI-5.0 section 12.3.4), all of one predefined
/// datatype. Fails as [`kernel_for`] does.
pub fn accumulator_for(op: &Op, datatype: &Datatype, strict: bool) -> Result<Accumulator> {
    let op = predefined_of(op)?;
    let Some(facts) = datatype.uniform() else { return Err(mixed(op, datatype)) };
    if !is_supported(op, facts.category, strict) {
        return Err(undefined(op, facts));
    }
    let accumulator = facts.copied_as().and_then(|scalar| Accumulator::new(op, scalar));
    accumulator.ok_or_else(|| not_there(op, facts))
}

#[cold]
fn mixed(op: PredefinedOp, datatype: &Datatype) -> MpiError {
    let text = format!(
        "{} needs elements of one predefined datatype, and {datatype} has several",
        name(op)
    );
    MpiError::new(abi::MPI_ERR_OP, text)
}

#[cold]
fn undefined(op: PredefinedOp, facts: &PredefinedType) -> MpiError {
    let mut text =
        format!("{} is not defined for {} (MPI-5.0 section 6.9.2)", name(op), facts.name);
    if is_supported_by_others(op, facts.category) {
        text += "; with the parameter mpi_strict 0 it is carried out all the same";
    }
    MpiError::new(abi::MPI_ERR_OP, text)
}

#[cold]
fn not_there(op: PredefinedOp, facts: &PredefinedType) -> MpiError {
    let text = format!("{} of {} is not supported on this processor", name(op), facts.name);
    MpiError::new(abi::MPI_ERR_UNSUPPORTED_OPERATION, text)
}

fn predefined_of(op: &Op) -> Result<PredefinedOp> {
    match op {
        Op::Predefined(op) => Ok(*op),
        Op::User { .. } => Err(MpiError::new(
            abi::MPI_ERR_OP,
            "an operation made by MPI_Op_create has no built-in kernel",
        )),
    }
}

fn kernel_of(op: PredefinedOp, facts: &PredefinedType, strict: bool) -> Result<Kernel> {
    if !is_supported(op, facts.category, strict) {
        return Err(undefined(op, facts));
    }
    let kernel = facts.copied_as().and_then(|scalar| kernels::kernel(op, scalar));
    kernel.ok_or_else(|| not_there(op, facts))
}

#[cfg(test)]
mod tests;
