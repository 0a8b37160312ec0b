//! Views (MPI-5.0, "File Views"), and extents in them ("Datatypes for File Interoperability").

use super::datareps::representation;
use super::on_file;
use crate::fortran_types::handle_of;
use crate::info;
use crate::library::{Running, null, put};
use crate::strings::{put_text, text};
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Aint, Count, Datatype, File, Info, Offset};
use oxmpi_core::file::NewView;
use oxmpi_objects::error::Result;
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// # Safety
/// `datarep` must be null or a string.
unsafe fn new_view(
    library: &Running,
    displacement: Offset,
    (etype, filetype): (Datatype, Datatype),
    datarep: *const c_char,
    info: Info,
) -> Result<NewView> {
    let committed = |handle| {
        let datatype = library.datatype(handle)?;
        datatype.check_committed()?;
        Ok(Arc::clone(&*datatype))
    };
    // SAFETY: by the contract of this function.
    let name = unsafe { text(datarep, "datarep") }?;
    Ok(NewView {
        displacement,
        etype: committed(etype)?,
        filetype: committed(filetype)?,
        representation: representation(library, name)?,
        info: info::given(info)?,
    })
}

mpi! {
    /// Test: tests/c/file_view.c.
    fn MPI_File_set_view(fh: File, disp: Offset, etype: Datatype, filetype: Datatype, datarep: *const c_char, info: Info) -> c_int {
        on_file(FuncId::MPI_File_set_view, fh, |library, file| {
            // SAFETY: the C program passes a string.
            let new = unsafe { new_view(library, disp, (etype, filetype), datarep, info) };
            library.process.set_view(file, new)
        })
    }

    /// The program must free the stored datatypes, except predefined ones.
    fn MPI_File_get_view(fh: File, disp: *mut Offset, etype: *mut Datatype, filetype: *mut Datatype, datarep: *mut c_char) -> c_int {
        on_file(FuncId::MPI_File_get_view, fh, |library, file| {
            for (is_null, what) in
                [(disp.is_null(), "disp"), (etype.is_null(), "etype"), (filetype.is_null(), "filetype")]
            {
                if is_null {
                    return Err(null(what));
                }
            }
            let shown = file.shown();
            // SAFETY: the C program passes places for a number and two handles, and room for the
            // name.
            unsafe {
                put_text(shown.representation.name(), abi::MPI_MAX_DATAREP_STRING as usize, datarep, "datarep")?;
                put(disp, shown.displacement as Offset, "disp")?;
                put(etype, handle_of(library, &shown.etype), "etype")?;
                put(filetype, handle_of(library, &shown.filetype), "filetype")
            }
        })
    }

    /// Test: tests/c/file_datarep.c.
    fn MPI_File_get_type_extent(fh: File, datatype: Datatype, extent: *mut Aint) -> c_int {
        on_file(FuncId::MPI_File_get_type_extent, fh, |library, file| {
            let found = file.type_extent(&*library.datatype(datatype)?)?;
            // SAFETY: the C program passes a place for a number.
            unsafe { put(extent, found as Aint, "extent") }
        })
    }

    fn MPI_File_get_type_extent_c(fh: File, datatype: Datatype, extent: *mut Count) -> c_int {
        on_file(FuncId::MPI_File_get_type_extent_c, fh, |library, file| {
            let found = file.type_extent(&*library.datatype(datatype)?)?;
            // SAFETY: the C program passes a place for a number.
            unsafe { put(extent, found, "extent") }
        })
    }
}
