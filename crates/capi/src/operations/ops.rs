//! Operations of reductions (MPI-5.0 section 6.9), and calls of the user's functions.

use crate::arguments::{BufferArgs, NewObject, null, put};
use crate::errors::on_none;
use crate::state::extra_state::ExtraState;
use crate::state::library::Running;
use crate::state::named::OfArgument;
use crate::state::objects::objects;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{
    Count, Datatype, DestructorFunction, Op as OpHandle, UserFunction, UserFunctionC, UserFunctionX,
};
use oxmpi_coll::{Area, Combine, Memory, UserReduction};
use oxmpi_core::Process;
use oxmpi_core::process::UserCall;
use oxmpi_fabric::routes::Routes;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::op::{self, Op, kernel_for};
use oxmpi_objects::shown::{ValueKind, bad_handle};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// The code that combines elements: a kernel, or the user's function with its datatype.
pub(crate) struct Combining {
    pub(crate) combine: Combine,
    pub(crate) call: Option<UserCall>,
    pub(crate) commutative: bool,
}

pub(crate) fn combining(
    library: &'static Running,
    op: OpHandle,
    datatype: Datatype,
) -> Result<Combining> {
    if let Some(kernel) = library.kernels.known(op, datatype) {
        return Ok(Combining { combine: Combine::Kernel(*kernel), call: None, commutative: true });
    }
    let handle = op;
    let op = library.operation(op).of("op")?;
    let commutative = op.is_commutative();
    let Op::User { function, large_count, state, .. } = op else {
        // Replace and no-op have no kernel; only accumulates allow them.
        let kernel =
            kernel_for(&op, &**library.datatype(datatype).of("datatype")?, library.strict)?;
        if library.predefined.get(datatype as u64).is_some() {
            library.kernels.slot(handle, datatype).get_or_init(|| (handle, datatype, kernel));
        }
        return Ok(Combining { combine: Combine::Kernel(kernel), call: None, commutative });
    };
    // The function may query the datatype even if the program has freed it.
    let held = match library.predefined.get(datatype as u64) {
        Some(_) => None,
        None => Some(
            library
                .datatypes
                .hold(Handle::from_raw(datatype as u64))
                .map_err(|bad| bad_handle(ValueKind::Datatype, datatype as u64, bad))
                .of("datatype")?,
        ),
    };
    let state = objects().operation_states.get(state);
    let call: UserCall = Arc::new(move |reduction: &UserReduction| {
        let _held = &held;
        match &state {
            Some(state) => call_user_with(function, state, reduction, datatype),
            None => call_user(function, large_count, reduction, datatype),
        }
    });
    Ok(Combining { combine: Combine::User, call: Some(call), commutative })
}

/// See [`call_user`].
fn call_user_with(
    function: usize,
    state: &ExtraState,
    reduction: &UserReduction,
    datatype: Datatype,
) {
    let left = reduction.left.as_ptr().cast::<c_void>();
    let right = reduction.right.as_ptr().cast::<c_void>();
    // SAFETY: the argument of MPIX_Op_create_x is a pointer to such a function.
    let function: UserFunctionX = unsafe { std::mem::transmute::<usize, UserFunctionX>(function) };
    let len = reduction.left.count() as Count;
    // SAFETY: both buffers have `len` elements of the datatype, and no other code uses them.
    unsafe { function(left, right, len, datatype, state.pointer()) };
}

/// The caller must hold no lock and no borrow of the library's state.
fn call_user(function: usize, large_count: bool, reduction: &UserReduction, datatype: Datatype) {
    let left = reduction.left.as_ptr().cast::<c_void>();
    let right = reduction.right.as_ptr().cast::<c_void>();
    let count = reduction.left.count();
    let mut datatype = datatype;
    if large_count {
        let mut len = count as Count;
        // SAFETY: the argument of MPI_Op_create_c is a pointer to such a function.
        let function: UserFunctionC =
            unsafe { std::mem::transmute::<usize, UserFunctionC>(function) };
        // SAFETY: both buffers have `len` elements of the datatype, and no other code uses them.
        unsafe { function(left, right, &mut len, &mut datatype) };
        return;
    }
    // SAFETY: the argument of MPI_Op_create is a pointer to such a function.
    let function: UserFunction = unsafe { std::mem::transmute::<usize, UserFunction>(function) };
    let (mut done, extent) = (0, reduction.left.extent());
    while done < count {
        let part = (count - done).min(c_int::MAX as usize);
        let at = extent.wrapping_mul(done as isize);
        let mut len = part as c_int;
        // SAFETY: both buffers have `part` elements from `done` on, and no other code uses them.
        unsafe {
            function(
                left.wrapping_byte_offset(at),
                right.wrapping_byte_offset(at),
                &mut len,
                &mut datatype,
            )
        };
        done += part;
    }
}

/// A function of the program that combines elements.
pub(crate) trait CombiningFunction {
    /// Whether it takes an `MPI_Count`.
    const IS_LARGE: bool;
    fn address(self) -> usize;
}

impl CombiningFunction for UserFunction {
    const IS_LARGE: bool = false;

    fn address(self) -> usize {
        self as usize
    }
}

impl CombiningFunction for UserFunctionC {
    const IS_LARGE: bool = true;

    fn address(self) -> usize {
        self as usize
    }
}

impl NewObject for Op {
    unsafe fn give(self, library: &Running, place: *mut usize, argument: &str) -> Result<()> {
        let handle = library.operations.insert(self).raw() as OpHandle;
        // SAFETY: by the contract of this function.
        unsafe { put(place, handle, argument) }
    }
}

pub(crate) fn op_create<F: CombiningFunction>(
    _: &Running,
    user_fn: Option<F>,
    commutative: bool,
) -> Result<Op> {
    let function = user_fn.ok_or_else(|| null("user_fn"))?.address();
    Ok(Op::User { function, commutative, large_count: F::IS_LARGE, state: 0 })
}

/// Test: tests/c/extra_state.c.
pub(crate) fn op_create_with(
    _: &Running,
    user_fn: Option<UserFunctionX>,
    destructor: Option<DestructorFunction>,
    commutative: bool,
    extra_state: *mut c_void,
) -> Result<Op> {
    let function = user_fn.ok_or_else(|| null("user_fn_x"))? as usize;
    let state = objects().operation_states.insert(ExtraState::new(extra_state, destructor));
    Ok(Op::User { function, commutative, large_count: true, state })
}

/// The cache of kernels finds an operation by its handle.
pub(crate) fn reduce_local(
    function: FuncId,
    input: BufferArgs,
    inout: BufferArgs,
    op: OpHandle,
) -> c_int {
    on_none(function, |library| combine(library, input, inout, op))
}

fn combine(
    library: &'static Running,
    input: BufferArgs,
    inout: BufferArgs,
    op: OpHandle,
) -> Result<()> {
    let (count, combining) = (input.count, combining(library, op, input.datatype)?);
    let (left, right) = (input.buffer(library)?, inout.buffer(library)?);
    if left.as_ptr() == right.as_ptr() && !left.as_ptr().is_null() && !left.is_empty() {
        return Err(MpiError::new(abi::MPI_ERR_BUFFER, "inbuf and inoutbuf are the same memory"));
    }
    if left.is_on_device() || right.is_on_device() {
        let memory = Memory { input: left.into(), output: right.into(), element: None };
        return Process::<Routes>::run_staged(memory, |memory| {
            match (memory.input, memory.output) {
                (Area::Whole(left), Area::Whole(right)) => {
                    combine_here(combining, count, left, right)
                }
                // Staging keeps the shape of each area.
                _ => Ok(()),
            }
        });
    }
    combine_here(combining, count, left, right)
}

fn combine_here(combining: Combining, count: i64, left: UserBuf, right: UserBuf) -> Result<()> {
    match (combining.combine, combining.call) {
        (Combine::Kernel(kernel), _) => {
            kernel.reduce(&left, &right).map_err(|e| MpiError::new(abi::MPI_ERR_OP, e.to_string()))
        }
        (_, Some(call)) => {
            if count > 0 {
                call(&UserReduction { left, right });
            }
            Ok(())
        }
        (_, None) => Ok(()),
    }
}

/// Pending reductions keep the function.
pub(crate) fn op_free(library: &Running, handle: OpHandle) -> Result<OpHandle> {
    if let Some(predefined) = op::predefined(handle as u64) {
        let text = format!("op is {}, which is predefined", op::name(predefined));
        return Err(MpiError::new(abi::MPI_ERR_OP, text));
    }
    let op = library.operation(handle).of("op")?;
    let freed = library.operations.free(Handle::from_raw(handle as u64));
    freed.map_err(|bad| bad_handle(ValueKind::Op, handle as u64, bad))?;
    if let Op::User { state, .. } = op {
        drop(objects().operation_states.remove(state));
    }
    Ok(abi::MPI_OP_NULL)
}

pub(crate) fn op_commutative(_: &Running, op: Op) -> Result<bool> {
    Ok(op.is_commutative())
}
