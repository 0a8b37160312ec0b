//! Operations of reductions (MPI-5.0 section 6.9), and calls of the user's functions.

use crate::errors::on_none;
use crate::library::{Running, fetch, null, put};
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Count, Datatype, Op as OpHandle, UserFunction, UserFunctionC};
use oxmpi_coll::{Area, Combine, Memory, UserReduction};
use oxmpi_core::Process;
use oxmpi_core::process::UserCall;
use oxmpi_fabric::routes::Routes;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::kernels::Kernel;
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::op::{self, Op, kernel_for};
use std::ffi::{c_int, c_void};
use std::sync::{Arc, OnceLock};

/// The code that combines elements: a kernel, or the user's function with its datatype.
pub(crate) struct Combining {
    pub(crate) combine: Combine,
    pub(crate) call: Option<UserCall>,
    pub(crate) commutative: bool,
}

/// A cache of kernels for predefined operations on predefined datatypes. A program uses few
/// kernels, so entries are never replaced.
#[derive(Default)]
pub(crate) struct Kernels([OnceLock<(OpHandle, Datatype, Kernel)>; 16]);

impl Kernels {
    #[inline(always)]
    fn slot(&self, op: OpHandle, datatype: Datatype) -> &OnceLock<(OpHandle, Datatype, Kernel)> {
        // Programs often use neighbouring handles, which must get different entries.
        &self.0[(op.wrapping_mul(5) ^ datatype) % self.0.len()]
    }

    /// The kernel of a predefined operation on a predefined datatype, if cached.
    #[inline(always)]
    pub(crate) fn known(&self, op: OpHandle, datatype: Datatype) -> Option<&Kernel> {
        match self.slot(op, datatype).get() {
            Some((of, on, kernel)) if *of == op && *on == datatype => Some(kernel),
            _ => None,
        }
    }
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
    let op = library.operation(op)?;
    let commutative = op.is_commutative();
    let Op::User { function, large_count, .. } = op else {
        // Replace and no-op have no kernel; only accumulates allow them.
        let kernel = kernel_for(&op, &**library.datatype(datatype)?, library.strict)?;
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
                .map_err(|bad| MpiError::new(abi::MPI_ERR_TYPE, bad.to_string()))?,
        ),
    };
    let call: UserCall = Arc::new(move |reduction: &UserReduction| {
        let _held = &held;
        call_user(function, large_count, reduction, datatype);
    });
    Ok(Combining { combine: Combine::User, call: Some(call), commutative })
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

fn create(
    library: &Running,
    function: usize,
    commute: c_int,
    large_count: bool,
    op: *mut OpHandle,
) -> Result<()> {
    if function == 0 {
        return Err(null("user_fn"));
    }
    if op.is_null() {
        return Err(null("op"));
    }
    let made = Op::User { function, commutative: commute != 0, large_count };
    let handle = library.operations.insert(made);
    // SAFETY: the C program passes a place for a handle.
    unsafe { put(op, handle.raw() as OpHandle, "op") }
}

fn reduce_local(
    library: &'static Running,
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: i64,
    datatype: Datatype,
    op: OpHandle,
) -> Result<()> {
    let combining = combining(library, op, datatype)?;
    let left = library.buffer(inbuf, count, datatype)?;
    let right = library.buffer(inoutbuf, count, datatype)?;
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

mpi! {
    fn MPI_Reduce_local(inbuf: *const c_void, inoutbuf: *mut c_void, count: c_int, datatype: Datatype, op: OpHandle) -> c_int {
        on_none(FuncId::MPI_Reduce_local, |library| reduce_local(library, inbuf, inoutbuf, count.into(), datatype, op))
    }

    fn MPI_Reduce_local_c(inbuf: *const c_void, inoutbuf: *mut c_void, count: Count, datatype: Datatype, op: OpHandle) -> c_int {
        on_none(FuncId::MPI_Reduce_local_c, |library| reduce_local(library, inbuf, inoutbuf, count, datatype, op))
    }

    fn MPI_Op_create(user_fn: Option<UserFunction>, commute: c_int, op: *mut OpHandle) -> c_int {
        on_none(FuncId::MPI_Op_create, |library| {
            create(library, user_fn.map_or(0, |f| f as usize), commute, false, op)
        })
    }

    fn MPI_Op_create_c(user_fn: Option<UserFunctionC>, commute: c_int, op: *mut OpHandle) -> c_int {
        on_none(FuncId::MPI_Op_create_c, |library| {
            create(library, user_fn.map_or(0, |f| f as usize), commute, true, op)
        })
    }

    /// Pending reductions keep the function.
    fn MPI_Op_free(op: *mut OpHandle) -> c_int {
        on_none(FuncId::MPI_Op_free, |library| {
            // SAFETY: the C program passes a place with a handle.
            let handle = unsafe { fetch(op, "op") }?;
            if let Some(predefined) = op::predefined(handle as u64) {
                let name = op::name(predefined);
                return Err(MpiError::new(abi::MPI_ERR_OP, format!("{name} is predefined and cannot be freed")));
            }
            library.operation(handle)?;
            let freed = library.operations.free(Handle::from_raw(handle as u64));
            freed.map_err(|bad| MpiError::new(abi::MPI_ERR_OP, bad.to_string()))?;
            // SAFETY: `op` is not null, as `fetch` has checked, and holds a handle.
            unsafe { put(op, abi::MPI_OP_NULL, "op") }
        })
    }

    fn MPI_Op_commutative(op: OpHandle, commute: *mut c_int) -> c_int {
        on_none(FuncId::MPI_Op_commutative, |library| {
            let commutative = library.operation(op)?.is_commutative();
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(commute, c_int::from(commutative), "commute") }
        })
    }
}
