//! Datatypes (MPI-5.0 chapter 5).

use crate::arguments::{NewObject, null, put};
use crate::errors::on_none;
use crate::operations::attributes;
use crate::state::library::Running;
use crate::state::named::OfArgument;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Datatype as Handle;
use oxmpi_mem::table;
use oxmpi_objects::datatype::{Datatype, Form};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::shown::{ValueKind, bad_handle};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

impl NewObject for Arc<Datatype> {
    unsafe fn give(self, library: &Running, place: *mut usize, argument: &str) -> Result<()> {
        let handle = library.datatypes.insert(self).raw() as Handle;
        // SAFETY: by the contract of this function.
        unsafe { put(place, handle, argument) }
    }
}

pub(crate) fn type_contiguous(
    form: Form,
    _: &Running,
    count: i64,
    old: &Arc<Datatype>,
) -> Result<Arc<Datatype>> {
    Datatype::contiguous(form, count, old)
}

pub(crate) fn type_vector(
    form: Form,
    _: &Running,
    count: i64,
    block: i64,
    stride: i64,
    old: &Arc<Datatype>,
) -> Result<Arc<Datatype>> {
    Datatype::vector(form, count, block, stride, old)
}

pub(crate) fn type_create_hvector(
    form: Form,
    _: &Running,
    count: i64,
    block: i64,
    stride: isize,
    old: &Arc<Datatype>,
) -> Result<Arc<Datatype>> {
    Datatype::hvector(form, count, block, stride, old)
}

pub(crate) fn type_indexed(
    form: Form,
    _: &Running,
    blocks: &[i64],
    offsets: &[i64],
    old: &Arc<Datatype>,
) -> Result<Arc<Datatype>> {
    Datatype::indexed(form, blocks, offsets, old)
}

pub(crate) fn type_create_hindexed(
    form: Form,
    _: &Running,
    blocks: &[i64],
    offsets: &[isize],
    old: &Arc<Datatype>,
) -> Result<Arc<Datatype>> {
    Datatype::hindexed(form, blocks, offsets, old)
}

pub(crate) fn type_create_indexed_block(
    form: Form,
    _: &Running,
    block: i64,
    offsets: &[i64],
    old: &Arc<Datatype>,
) -> Result<Arc<Datatype>> {
    Datatype::indexed_block(form, block, offsets, old)
}

pub(crate) fn type_create_hindexed_block(
    form: Form,
    _: &Running,
    block: i64,
    offsets: &[isize],
    old: &Arc<Datatype>,
) -> Result<Arc<Datatype>> {
    Datatype::hindexed_block(form, block, offsets, old)
}

pub(crate) fn type_create_struct(
    form: Form,
    library: &Running,
    blocks: &[i64],
    offsets: &[isize],
    handles: &[Handle],
) -> Result<Arc<Datatype>> {
    let mut types = Vec::with_capacity(handles.len());
    for (at, handle) in handles.iter().enumerate() {
        // SAFETY: nothing is freed and no function of the program called.
        let found = unsafe { library.glance_at_datatype(*handle) };
        let found = found.map_err(|error| error.within(format_args!("array_of_types[{at}]")))?;
        types.push(Arc::clone(&*found));
    }
    Datatype::structure(form, blocks, offsets, types)
}

pub(crate) fn type_create_resized(
    form: Form,
    _: &Running,
    old: &Arc<Datatype>,
    lb: isize,
    extent: isize,
) -> Result<Arc<Datatype>> {
    Datatype::resized(form, lb, extent, old)
}

/// The copy functions of the attributes get the handle.
pub(crate) fn type_dup(function: FuncId, oldtype: Handle, newtype: *mut Handle) -> c_int {
    on_none(function, |library| {
        let old = Arc::clone(&*library.datatype(oldtype).of("oldtype")?);
        if newtype.is_null() {
            return Err(null("newtype"));
        }
        let copied = attributes::copy_attributes(oldtype, &old.attributes)?;
        let made = Datatype::dup(&old)?;
        copied.give_to(&made.attributes);
        // SAFETY: the C program passes a place for a handle.
        unsafe { made.give(library, newtype, "newtype") }
    })
}

pub(crate) fn type_commit(library: &Running, handle: Handle) -> Result<Handle> {
    // SAFETY: nothing is freed and no function of the program called.
    unsafe { library.glance_at_datatype(handle) }?.commit();
    Ok(handle)
}

/// The datatype, if it has attributes that must be deleted before it is freed.
#[inline(always)]
fn with_attributes(library: &Running, handle: Handle) -> Result<Option<Arc<Datatype>>> {
    // SAFETY: nothing is freed and no function of the program called.
    let datatype = unsafe { library.glance_at_datatype(handle) }?;
    if datatype.is_predefined() {
        return Err(MpiError::new(
            abi::MPI_ERR_TYPE,
            format!("{} is predefined and cannot be freed", **datatype),
        ));
    }
    Ok(datatype.attributes.were_set().then(|| Arc::clone(&datatype)))
}

/// Pending operations keep the datatype alive.
pub(crate) fn type_free(library: &Running, handle: Handle) -> Result<Handle> {
    if let Some(known) = with_attributes(library, handle)? {
        attributes::delete_attributes(handle, &known.attributes)?;
    }
    let freed = library.datatypes.free(table::Handle::from_raw(handle as u64));
    freed.map_err(|bad| bad_handle(ValueKind::Datatype, handle as u64, bad))?;
    Ok(abi::MPI_DATATYPE_NULL)
}

pub(crate) fn type_size(_: &Running, datatype: &Datatype) -> Result<i64> {
    Ok(datatype.size() as i64)
}

pub(crate) fn type_get_extent(_: &Running, datatype: &Datatype) -> Result<(isize, isize)> {
    Ok((datatype.bounds().lb(), datatype.bounds().extent()))
}

pub(crate) fn type_get_true_extent(_: &Running, datatype: &Datatype) -> Result<(isize, isize)> {
    Ok((datatype.bounds().true_lb(), datatype.bounds().true_extent()))
}

pub(crate) fn get_address(_: &Running, location: *const c_void) -> Result<isize> {
    Ok(location as isize)
}
