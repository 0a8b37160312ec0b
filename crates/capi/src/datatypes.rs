//! Datatypes (MPI-5.0 chapter 5).
//!
//! The plain forms count in `int`, the `_c` forms in `MPI_Count`.

use crate::attributes;
use crate::errors::on_none;
use crate::library::{Running, array, check_count, fetch, null, put};
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Aint, Count, Datatype as Handle};
use oxmpi_mem::bounds::Bounds;
use oxmpi_mem::table;
use oxmpi_objects::datatype::{Datatype, Form, ShortList};
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

fn give(library: &Running, place: *mut Handle, made: Result<Arc<Datatype>>) -> Result<()> {
    if place.is_null() {
        return Err(null("newtype"));
    }
    let handle = library.datatypes.insert(made?);
    // SAFETY: the C program passes a place for a handle.
    unsafe { put(place, handle.raw() as Handle, "newtype") }
}

pub(crate) fn derive(
    function: FuncId,
    old: Handle,
    new: *mut Handle,
    make: impl FnOnce(&Arc<Datatype>) -> Result<Arc<Datatype>>,
) -> c_int {
    on_none(function, |library| {
        // SAFETY: a constructor frees nothing and calls no function of the program.
        let made = make(&*unsafe { library.glance_at_datatype(old) }?);
        give(library, new, made)
    })
}

pub(crate) type Widened = ShortList<i64, 16>;

/// An array of numbers, widened to 64 bits.
/// # Safety
/// `first` must be null or point to `count` numbers.
pub(crate) unsafe fn numbers<T: Copy + Into<i64>>(
    first: *const T,
    count: i64,
    what: &str,
) -> Result<Widened> {
    let count = check_count(count)?;
    // SAFETY: by the contract of this function.
    Ok(unsafe { array(first, count, what) }?.iter().map(|n| (*n).into()).collect())
}

/// An array of displacements in bytes.
/// # Safety
/// `first` must be null or point to `count` numbers.
unsafe fn displacements<'a>(first: *const Aint, count: i64, what: &str) -> Result<&'a [isize]> {
    let count = check_count(count)?;
    // SAFETY: by the contract of this function; MPI_Count and MPI_Aint are both 64 bits here.
    unsafe { array(first, count, what) }
}

fn put_bounds<T: Copy>(
    function: FuncId,
    datatype: Handle,
    (first, second): (*mut T, *mut T),
    pair_of: fn(&Bounds) -> (T, T),
) -> c_int {
    on_none(function, |library| {
        // SAFETY: `pair_of` frees nothing and calls no function of the program.
        let (one, two) = pair_of(unsafe { library.glance_at_datatype(datatype) }?.bounds());
        // SAFETY: the C program passes places for two numbers.
        unsafe {
            put(first, one, "lb")?;
            put(second, two, "extent")
        }
    })
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

/// # Safety
/// Each array must be null or point to `count` elements.
#[inline(always)]
unsafe fn structure<T: Copy + Into<i64>>(
    (function, form): (FuncId, Form),
    count: i64,
    blocks: *const T,
    offsets: *const Aint,
    types: *const Handle,
    new: *mut Handle,
) -> c_int {
    on_none(function, |library| {
        // SAFETY: by the contract of this function.
        let (blocks, offsets, handles) = unsafe {
            let blocks = numbers(blocks, count, "array_of_blocklengths")?;
            let offsets = displacements(offsets, count, "array_of_displacements")?;
            let handles = array(types, blocks.len(), "array_of_types")?;
            (blocks, offsets, handles)
        };
        let mut types = Vec::with_capacity(handles.len());
        for handle in handles {
            // SAFETY: nothing is freed and no function of the program called.
            types.push(Arc::clone(&*unsafe { library.glance_at_datatype(*handle) }?));
        }
        give(library, new, Datatype::structure(form, &blocks, offsets, types))
    })
}

mpi! {
    fn MPI_Type_contiguous(count: c_int, oldtype: Handle, newtype: *mut Handle) -> c_int {
        derive(FuncId::MPI_Type_contiguous, oldtype, newtype, |old| Datatype::contiguous(Form::Int, i64::from(count), old))
    }

    fn MPI_Type_vector(count: c_int, blocklength: c_int, stride: c_int, oldtype: Handle, newtype: *mut Handle) -> c_int {
        derive(FuncId::MPI_Type_vector, oldtype, newtype, |old| {
            Datatype::vector(Form::Int, i64::from(count), i64::from(blocklength), i64::from(stride), old)
        })
    }

    fn MPI_Type_create_hvector(count: c_int, blocklength: c_int, stride: Aint, oldtype: Handle, newtype: *mut Handle) -> c_int {
        derive(FuncId::MPI_Type_create_hvector, oldtype, newtype, |old| {
            Datatype::hvector(Form::Int, i64::from(count), i64::from(blocklength), stride, old)
        })
    }

    fn MPI_Type_indexed(count: c_int, array_of_blocklengths: *const c_int, array_of_displacements: *const c_int, oldtype: Handle, newtype: *mut Handle) -> c_int {
        derive(FuncId::MPI_Type_indexed, oldtype, newtype, |old| {
            // SAFETY: the C program passes arrays of `count` numbers.
            let (blocks, offsets) = unsafe {
                (numbers(array_of_blocklengths, i64::from(count), "array_of_blocklengths")?, numbers(array_of_displacements, i64::from(count), "array_of_displacements")?)
            };
            Datatype::indexed(Form::Int, &blocks, &offsets, old)
        })
    }

    fn MPI_Type_create_hindexed(count: c_int, array_of_blocklengths: *const c_int, array_of_displacements: *const Aint, oldtype: Handle, newtype: *mut Handle) -> c_int {
        derive(FuncId::MPI_Type_create_hindexed, oldtype, newtype, |old| {
            // SAFETY: the C program passes arrays of `count` numbers.
            let (blocks, offsets) = unsafe {
                (numbers(array_of_blocklengths, i64::from(count), "array_of_blocklengths")?, displacements(array_of_displacements, i64::from(count), "array_of_displacements")?)
            };
            Datatype::hindexed(Form::Int, &blocks, offsets, old)
        })
    }

    fn MPI_Type_create_indexed_block(count: c_int, blocklength: c_int, array_of_displacements: *const c_int, oldtype: Handle, newtype: *mut Handle) -> c_int {
        derive(FuncId::MPI_Type_create_indexed_block, oldtype, newtype, |old| {
            // SAFETY: the C program passes an array of `count` numbers.
            let offsets = unsafe { numbers(array_of_displacements, i64::from(count), "array_of_displacements") }?;
            Datatype::indexed_block(Form::Int, i64::from(blocklength), &offsets, old)
        })
    }

    fn MPI_Type_create_hindexed_block(count: c_int, blocklength: c_int, array_of_displacements: *const Aint, oldtype: Handle, newtype: *mut Handle) -> c_int {
        derive(FuncId::MPI_Type_create_hindexed_block, oldtype, newtype, |old| {
            // SAFETY: the C program passes an array of `count` numbers.
            let offsets = unsafe { displacements(array_of_displacements, i64::from(count), "array_of_displacements") }?;
            Datatype::hindexed_block(Form::Int, i64::from(blocklength), offsets, old)
        })
    }

    fn MPI_Type_create_struct(count: c_int, array_of_blocklengths: *const c_int, array_of_displacements: *const Aint, array_of_types: *const Handle, newtype: *mut Handle) -> c_int {
        // SAFETY: the C program passes arrays of `count` elements.
        unsafe { structure((FuncId::MPI_Type_create_struct, Form::Int), count.into(), array_of_blocklengths, array_of_displacements, array_of_types, newtype) }
    }

    fn MPI_Type_create_resized(oldtype: Handle, lb: Aint, extent: Aint, newtype: *mut Handle) -> c_int {
        derive(FuncId::MPI_Type_create_resized, oldtype, newtype, |old| {
            Datatype::resized(Form::Int, lb, extent, old)
        })
    }

    fn MPI_Type_contiguous_c(count: Count, oldtype: Handle, newtype: *mut Handle) -> c_int {
        derive(FuncId::MPI_Type_contiguous_c, oldtype, newtype, |old| Datatype::contiguous(Form::Count, count, old))
    }

    fn MPI_Type_vector_c(count: Count, blocklength: Count, stride: Count, oldtype: Handle, newtype: *mut Handle) -> c_int {
        derive(FuncId::MPI_Type_vector_c, oldtype, newtype, |old| {
            Datatype::vector(Form::Count, count, blocklength, stride, old)
        })
    }

    fn MPI_Type_create_hvector_c(count: Count, blocklength: Count, stride: Count, oldtype: Handle, newtype: *mut Handle) -> c_int {
        derive(FuncId::MPI_Type_create_hvector_c, oldtype, newtype, |old| {
            Datatype::hvector(Form::Count, count, blocklength, stride as isize, old)
        })
    }

    fn MPI_Type_indexed_c(count: Count, array_of_blocklengths: *const Count, array_of_displacements: *const Count, oldtype: Handle, newtype: *mut Handle) -> c_int {
        derive(FuncId::MPI_Type_indexed_c, oldtype, newtype, |old| {
            // SAFETY: the C program passes arrays of `count` numbers.
            let (blocks, offsets) = unsafe {
                (numbers(array_of_blocklengths, count, "array_of_blocklengths")?, numbers(array_of_displacements, count, "array_of_displacements")?)
            };
            Datatype::indexed(Form::Count, &blocks, &offsets, old)
        })
    }

    fn MPI_Type_create_hindexed_c(count: Count, array_of_blocklengths: *const Count, array_of_displacements: *const Count, oldtype: Handle, newtype: *mut Handle) -> c_int {
        derive(FuncId::MPI_Type_create_hindexed_c, oldtype, newtype, |old| {
            // SAFETY: the C program passes arrays of `count` numbers.
            let (blocks, offsets) = unsafe {
                (numbers(array_of_blocklengths, count, "array_of_blocklengths")?, displacements(array_of_displacements.cast(), count, "array_of_displacements")?)
            };
            Datatype::hindexed(Form::Count, &blocks, offsets, old)
        })
    }

    fn MPI_Type_create_indexed_block_c(count: Count, blocklength: Count, array_of_displacements: *const Count, oldtype: Handle, newtype: *mut Handle) -> c_int {
        derive(FuncId::MPI_Type_create_indexed_block_c, oldtype, newtype, |old| {
            // SAFETY: the C program passes an array of `count` numbers.
            let offsets = unsafe { numbers(array_of_displacements, count, "array_of_displacements") }?;
            Datatype::indexed_block(Form::Count, blocklength, &offsets, old)
        })
    }

    fn MPI_Type_create_hindexed_block_c(count: Count, blocklength: Count, array_of_displacements: *const Count, oldtype: Handle, newtype: *mut Handle) -> c_int {
        derive(FuncId::MPI_Type_create_hindexed_block_c, oldtype, newtype, |old| {
            // SAFETY: the C program passes an array of `count` numbers.
            let offsets = unsafe { displacements(array_of_displacements.cast(), count, "array_of_displacements") }?;
            Datatype::hindexed_block(Form::Count, blocklength, offsets, old)
        })
    }

    fn MPI_Type_create_struct_c(count: Count, array_of_blocklengths: *const Count, array_of_displacements: *const Count, array_of_types: *const Handle, newtype: *mut Handle) -> c_int {
        // SAFETY: the C program passes arrays of `count` elements; MPI_Count and MPI_Aint have 64
        // bits.
        unsafe { structure((FuncId::MPI_Type_create_struct_c, Form::Count), count, array_of_blocklengths, array_of_displacements.cast(), array_of_types, newtype) }
    }

    fn MPI_Type_create_resized_c(oldtype: Handle, lb: Count, extent: Count, newtype: *mut Handle) -> c_int {
        derive(FuncId::MPI_Type_create_resized_c, oldtype, newtype, |old| {
            Datatype::resized(Form::Count, lb as isize, extent as isize, old)
        })
    }

    fn MPI_Type_dup(oldtype: Handle, newtype: *mut Handle) -> c_int {
        on_none(FuncId::MPI_Type_dup, |library| {
            let old = Arc::clone(&*library.datatype(oldtype)?);
            if newtype.is_null() {
                return Err(null("newtype"));
            }
            let copied = attributes::copy_attributes(oldtype, &old.attributes)?;
            let made = Datatype::dup(&old)?;
            copied.give_to(&made.attributes);
            give(library, newtype, Ok(made))
        })
    }

    fn MPI_Type_commit(datatype: *mut Handle) -> c_int {
        on_none(FuncId::MPI_Type_commit, |library| {
            // SAFETY: the C program passes a place with a handle.
            let handle = unsafe { fetch(datatype, "datatype") }?;
            // SAFETY: nothing is freed and no function of the program called.
            unsafe { library.glance_at_datatype(handle) }?.commit();
            Ok(())
        })
    }

    /// Pending operations keep the datatype alive.
    fn MPI_Type_free(datatype: *mut Handle) -> c_int {
        on_none(FuncId::MPI_Type_free, |library| {
            // SAFETY: the C program passes a place with a handle.
            let handle = unsafe { fetch(datatype, "datatype") }?;
            if let Some(known) = with_attributes(library, handle)? {
                attributes::delete_attributes(handle, &known.attributes)?;
            }
            let freed = library.datatypes.free(table::Handle::from_raw(handle as u64));
            freed.map_err(|bad| MpiError::new(abi::MPI_ERR_TYPE, bad.to_string()))?;
            // SAFETY: `datatype` is not null, as `fetch` has checked, and holds a handle.
            unsafe { put(datatype, abi::MPI_DATATYPE_NULL, "datatype") }
        })
    }

    /// MPI_UNDEFINED if the size does not fit in an int.
    fn MPI_Type_size(datatype: Handle, size: *mut c_int) -> c_int {
        on_none(FuncId::MPI_Type_size, |library| {
            // SAFETY: nothing is freed and no function of the program called.
            let bytes = unsafe { library.glance_at_datatype(datatype) }?.size();
            // SAFETY: the C program passes a place for a number.
            unsafe { put(size, c_int::try_from(bytes).unwrap_or(abi::MPI_UNDEFINED), "size") }
        })
    }

    fn MPI_Type_size_c(datatype: Handle, size: *mut Count) -> c_int {
        on_none(FuncId::MPI_Type_size_c, |library| {
            // SAFETY: nothing is freed and no function of the program called.
            let bytes = unsafe { library.glance_at_datatype(datatype) }?.size();
            // SAFETY: the C program passes a place for a number.
            unsafe { put(size, bytes as Count, "size") }
        })
    }

    fn MPI_Type_size_x(datatype: Handle, size: *mut Count) -> c_int {
        on_none(FuncId::MPI_Type_size_x, |library| {
            // SAFETY: nothing is freed and no function of the program called.
            let bytes = unsafe { library.glance_at_datatype(datatype) }?.size();
            // SAFETY: the C program passes a place for a number.
            unsafe { put(size, bytes as Count, "size") }
        })
    }

    fn MPI_Type_get_extent(datatype: Handle, lb: *mut Aint, extent: *mut Aint) -> c_int {
        put_bounds(FuncId::MPI_Type_get_extent, datatype, (lb, extent), |b| (b.lb(), b.extent()))
    }

    fn MPI_Type_get_true_extent(datatype: Handle, true_lb: *mut Aint, true_extent: *mut Aint) -> c_int {
        put_bounds(FuncId::MPI_Type_get_true_extent, datatype, (true_lb, true_extent), |b| (b.true_lb(), b.true_extent()))
    }

    fn MPI_Type_get_extent_c(datatype: Handle, lb: *mut Count, extent: *mut Count) -> c_int {
        put_bounds(FuncId::MPI_Type_get_extent_c, datatype, (lb, extent), |b| (b.lb() as Count, b.extent() as Count))
    }

    fn MPI_Type_get_true_extent_c(datatype: Handle, true_lb: *mut Count, true_extent: *mut Count) -> c_int {
        put_bounds(FuncId::MPI_Type_get_true_extent_c, datatype, (true_lb, true_extent), |b| (b.true_lb() as Count, b.true_extent() as Count))
    }

    fn MPI_Type_get_extent_x(datatype: Handle, lb: *mut Count, extent: *mut Count) -> c_int {
        put_bounds(FuncId::MPI_Type_get_extent_x, datatype, (lb, extent), |b| (b.lb() as Count, b.extent() as Count))
    }

    fn MPI_Type_get_true_extent_x(datatype: Handle, true_lb: *mut Count, true_extent: *mut Count) -> c_int {
        put_bounds(FuncId::MPI_Type_get_true_extent_x, datatype, (true_lb, true_extent), |b| (b.true_lb() as Count, b.true_extent() as Count))
    }

    fn MPI_Get_address(location: *const c_void, address: *mut Aint) -> c_int {
        on_none(FuncId::MPI_Get_address, |_| {
            // SAFETY: the C program passes a place for an address.
            unsafe { put(address, location as Aint, "address") }
        })
    }

}
