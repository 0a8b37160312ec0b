//! The constructor arguments of a datatype, and its name (MPI-5.0 sections 5.1.13 and 7.8).

use crate::errors::on_none;
use crate::fortran_types::handle_of;
use crate::library::{Running, null, put};
use crate::strings::put_named;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Aint, Count, Datatype as Handle};
use oxmpi_objects::datatype::{Combiner, Contents, Datatype};
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::{CStr, c_char, c_int};

/// The contents for a function without `_c`: an error if an argument was an `MPI_Count`.
fn in_ints(datatype: &Datatype) -> Result<&Contents> {
    let contents = datatype.contents();
    if contents.fits_int() {
        return Ok(contents);
    }
    let text = format!(
        "{datatype} was made with arguments of type MPI_Count: call the function that ends in _c"
    );
    Err(MpiError::new(abi::MPI_ERR_TYPE, text))
}

/// Predefined datatypes have no contents.
fn check_made(datatype: &Datatype) -> Result<()> {
    if datatype.contents().combiner == Combiner::Named {
        let text = format!("{datatype} is predefined: it was not made of anything");
        return Err(MpiError::new(abi::MPI_ERR_TYPE, text));
    }
    Ok(())
}

fn check_room(name: &str, room: Count, there: usize) -> Result<()> {
    if usize::try_from(room).is_ok_and(|room| room >= there) {
        return Ok(());
    }
    Err(MpiError::new(abi::MPI_ERR_ARG, format!("{name} is {room}, but there are {there}")))
}

/// Copies an array to the program's memory.
/// # Safety
/// `place` must be null or have room for the values.
unsafe fn put_all<T: Copy>(place: *mut T, values: &[T], what: &str) -> Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    if place.is_null() {
        return Err(null(what));
    }
    // SAFETY: by the contract of this function.
    unsafe { place.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
    Ok(())
}

/// Stores the datatypes of the contents. Datatypes of the program get new handles, so the caller
/// makes all checks before.
/// # Safety
/// `place` must be null or have room for the handles.
unsafe fn put_types(library: &Running, place: *mut Handle, contents: &Contents) -> Result<()> {
    if contents.types.is_empty() {
        return Ok(());
    }
    if place.is_null() {
        return Err(null("array_of_datatypes"));
    }
    let handles: Vec<Handle> = contents.types.iter().map(|t| handle_of(library, t)).collect();
    // SAFETY: by the contract of this function.
    unsafe { put_all(place, &handles, "array_of_datatypes") }
}

mpi! {
    fn MPI_Type_get_envelope(datatype: Handle, num_integers: *mut c_int, num_addresses: *mut c_int, num_datatypes: *mut c_int, combiner: *mut c_int) -> c_int {
        on_none(FuncId::MPI_Type_get_envelope, |library| {
            let datatype = library.datatype(datatype)?;
            let contents = in_ints(&datatype)?;
            // SAFETY: the C program passes places for four numbers.
            unsafe {
                put(num_integers, contents.integers.len() as c_int, "num_integers")?;
                put(num_addresses, contents.addresses().len() as c_int, "num_addresses")?;
                put(num_datatypes, contents.types.len() as c_int, "num_datatypes")?;
                put(combiner, contents.combiner.to_int(), "combiner")
            }
        })
    }

    fn MPI_Type_get_envelope_c(datatype: Handle, num_integers: *mut Count, num_addresses: *mut Count, num_large_counts: *mut Count, num_datatypes: *mut Count, combiner: *mut c_int) -> c_int {
        on_none(FuncId::MPI_Type_get_envelope_c, |library| {
            let datatype = library.datatype(datatype)?;
            let contents = datatype.contents();
            // SAFETY: the C program passes places for five numbers.
            unsafe {
                put(num_integers, contents.integers.len() as Count, "num_integers")?;
                put(num_addresses, contents.addresses().len() as Count, "num_addresses")?;
                put(num_large_counts, contents.counts().len() as Count, "num_large_counts")?;
                put(num_datatypes, contents.types.len() as Count, "num_datatypes")?;
                put(combiner, contents.combiner.to_int(), "combiner")
            }
        })
    }

    /// The program must free the stored types, except predefined ones.
    fn MPI_Type_get_contents(datatype: Handle, max_integers: c_int, max_addresses: c_int, max_datatypes: c_int, array_of_integers: *mut c_int, array_of_addresses: *mut Aint, array_of_datatypes: *mut Handle) -> c_int {
        on_none(FuncId::MPI_Type_get_contents, |library| {
            let datatype = library.datatype(datatype)?;
            check_made(&datatype)?;
            let contents = in_ints(&datatype)?;
            check_room("max_integers", max_integers.into(), contents.integers.len())?;
            check_room("max_addresses", max_addresses.into(), contents.addresses().len())?;
            check_room("max_datatypes", max_datatypes.into(), contents.types.len())?;
            // SAFETY: the C program passes arrays of the lengths that were checked above.
            unsafe {
                put_all(array_of_integers, &contents.integers, "array_of_integers")?;
                put_all(array_of_addresses, contents.addresses(), "array_of_addresses")?;
                put_types(library, array_of_datatypes, contents)
            }
        })
    }

    fn MPI_Type_get_contents_c(datatype: Handle, max_integers: Count, max_addresses: Count, max_large_counts: Count, max_datatypes: Count, array_of_integers: *mut c_int, array_of_addresses: *mut Aint, array_of_large_counts: *mut Count, array_of_datatypes: *mut Handle) -> c_int {
        on_none(FuncId::MPI_Type_get_contents_c, |library| {
            let datatype = library.datatype(datatype)?;
            check_made(&datatype)?;
            let contents = datatype.contents();
            check_room("max_integers", max_integers, contents.integers.len())?;
            check_room("max_addresses", max_addresses, contents.addresses().len())?;
            check_room("max_large_counts", max_large_counts, contents.counts().len())?;
            check_room("max_datatypes", max_datatypes, contents.types.len())?;
            // SAFETY: the C program passes arrays of the lengths that were checked above.
            unsafe {
                put_all(array_of_integers, &contents.integers, "array_of_integers")?;
                put_all(array_of_addresses, contents.addresses(), "array_of_addresses")?;
                put_all(array_of_large_counts, contents.counts(), "array_of_large_counts")?;
                put_types(library, array_of_datatypes, contents)
            }
        })
    }

    /// MPI_DATATYPE_NULL has a name too.
    fn MPI_Type_get_name(datatype: Handle, type_name: *mut c_char, resultlen: *mut c_int) -> c_int {
        on_none(FuncId::MPI_Type_get_name, |library| {
            let name = match datatype {
                abi::MPI_DATATYPE_NULL => Box::from(&b"MPI_DATATYPE_NULL"[..]),
                _ => library.datatype(datatype)?.name(),
            };
            // SAFETY: the C program passes MPI_MAX_OBJECT_NAME characters and an integer.
            unsafe { put_named(&name, abi::MPI_MAX_OBJECT_NAME, type_name, "type_name", resultlen) }
        })
    }

    /// A name longer than MPI_MAX_OBJECT_NAME is cut.
    fn MPI_Type_set_name(datatype: Handle, type_name: *const c_char) -> c_int {
        on_none(FuncId::MPI_Type_set_name, |library| {
            let datatype = library.datatype(datatype)?;
            if type_name.is_null() {
                return Err(null("type_name"));
            }
            // SAFETY: the C program passes a string with its closing zero.
            let name = unsafe { CStr::from_ptr(type_name) }.to_bytes();
            let longest = abi::MPI_MAX_OBJECT_NAME as usize - 1;
            datatype.set_name(&name[..name.len().min(longest)]);
            Ok(())
        })
    }
}
