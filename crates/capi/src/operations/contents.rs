//! The constructor arguments of a datatype, and its name (MPI-5.0 sections 5.1.13 and 7.8).

use crate::arguments::Places;
use crate::operations::fortran_types::handle_of;
use crate::operations::names::kept;
use crate::state::library::{Running, TypeRef};
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Aint, Count, Datatype as Handle};
use oxmpi_objects::datatype::{Combiner, Contents, Datatype};
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::c_int;

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

fn check_room<T>(name: &str, room: &Places<T>, there: usize) -> Result<()> {
    if room.len() >= there {
        return Ok(());
    }
    let text = format!("{name} is {}, but there are {there}", room.len());
    Err(MpiError::new(abi::MPI_ERR_ARG, text))
}

/// Copies of the arguments that are datatypes. Datatypes of the program get new handles, so the
/// caller makes all checks before.
fn types(library: &Running, contents: &Contents) -> impl Iterator<Item = Handle> {
    contents.types.iter().map(|datatype| handle_of(library, datatype))
}

pub(crate) fn type_get_envelope(
    _: &Running,
    datatype: &Datatype,
) -> Result<(c_int, c_int, c_int, c_int)> {
    let contents = in_ints(datatype)?;
    let (integers, addresses) = (contents.integers.len(), contents.addresses().len());
    let types = contents.types.len();
    Ok((integers as c_int, addresses as c_int, types as c_int, contents.combiner.to_int()))
}

pub(crate) fn type_get_envelope_c(
    _: &Running,
    datatype: &Datatype,
) -> Result<(Count, Count, Count, Count, c_int)> {
    let contents = datatype.contents();
    Ok((
        contents.integers.len() as Count,
        contents.addresses().len() as Count,
        contents.counts().len() as Count,
        contents.types.len() as Count,
        contents.combiner.to_int(),
    ))
}

/// The program must free the stored types, except predefined ones.
pub(crate) fn type_get_contents(
    library: &Running,
    datatype: TypeRef<'_>,
    integers: Places<c_int>,
    addresses: Places<Aint>,
    datatypes: Places<Handle>,
) -> Result<()> {
    check_made(&datatype)?;
    let contents = in_ints(&datatype)?;
    check_room("max_integers", &integers, contents.integers.len())?;
    check_room("max_addresses", &addresses, contents.addresses().len())?;
    check_room("max_datatypes", &datatypes, contents.types.len())?;
    integers.put(contents.integers.iter().copied());
    addresses.put(contents.addresses().iter().copied());
    datatypes.put(types(library, contents));
    Ok(())
}

pub(crate) fn type_get_contents_c(
    library: &Running,
    datatype: TypeRef<'_>,
    integers: Places<c_int>,
    addresses: Places<Aint>,
    large_counts: Places<Count>,
    datatypes: Places<Handle>,
) -> Result<()> {
    check_made(&datatype)?;
    let contents = datatype.contents();
    check_room("max_integers", &integers, contents.integers.len())?;
    check_room("max_addresses", &addresses, contents.addresses().len())?;
    check_room("max_large_counts", &large_counts, contents.counts().len())?;
    check_room("max_datatypes", &datatypes, contents.types.len())?;
    integers.put(contents.integers.iter().copied());
    addresses.put(contents.addresses().iter().copied());
    large_counts.put(contents.counts().iter().copied());
    datatypes.put(types(library, contents));
    Ok(())
}

/// MPI_DATATYPE_NULL has a name too.
pub(crate) fn type_get_name(_: &Running, datatype: Option<TypeRef<'_>>) -> Result<Box<[u8]>> {
    Ok(datatype.map_or_else(|| Box::from(*b"MPI_DATATYPE_NULL"), |datatype| datatype.name()))
}

/// A name longer than MPI_MAX_OBJECT_NAME is cut.
pub(crate) fn type_set_name(_: &Running, datatype: TypeRef<'_>, name: &[u8]) -> Result<()> {
    datatype.set_name(kept(name));
    Ok(())
}
