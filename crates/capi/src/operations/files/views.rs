//! Views (MPI-5.0, "File Views"), and extents in them ("Datatypes for File Interoperability").
//! Tests: tests/c/file_view.c, tests/c/file_datarep.c.

use super::datareps::representation;
use crate::operations::fortran_types::handle_of;
use crate::operations::info;
use crate::state::library::{Running, TypeRef};
use oxmpi_abi::types::{Datatype as TypeHandle, Info, Offset};
use oxmpi_core::file::{File, NewView};
use oxmpi_objects::datatype::Datatype;
use oxmpi_objects::error::Result;
use std::sync::Arc;

fn committed(datatype: Result<TypeRef<'_>>) -> Result<Arc<Datatype>> {
    let datatype = datatype?;
    datatype.check_committed()?;
    Ok(Arc::clone(&*datatype))
}

pub(crate) fn file_set_view(
    library: &Running,
    file: &File,
    disp: Offset,
    etype: Result<TypeRef<'_>>,
    filetype: Result<TypeRef<'_>>,
    datarep: Result<&[u8]>,
    info: Info,
) -> Result<()> {
    let new = (|| {
        Ok(NewView {
            displacement: disp,
            etype: committed(etype)?,
            filetype: committed(filetype)?,
            representation: representation(library, datarep?)?,
            info: info::given(info)?,
        })
    })();
    library.process.set_view(file, new)
}

/// The displacement, the datatypes and the representation. The program frees the datatypes.
pub(crate) fn file_get_view(
    library: &Running,
    file: &File,
) -> Result<(u64, TypeHandle, TypeHandle, Box<[u8]>)> {
    let shown = file.shown();
    let name = shown.representation.name().into();
    let [etype, filetype] = [&shown.etype, &shown.filetype].map(|shown| handle_of(library, shown));
    Ok((shown.displacement, etype, filetype, name))
}

pub(crate) fn file_get_type_extent(_: &Running, file: &File, datatype: TypeRef<'_>) -> Result<i64> {
    file.type_extent(&datatype)
}
