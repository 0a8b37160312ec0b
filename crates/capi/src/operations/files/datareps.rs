//! Data representations of the program (MPI-5.0, "User-Defined Data Representations").
//! Test: tests/c/file_datarep.c.

use crate::arguments::null;
use crate::operations::fortran_types::handle_of;
use crate::state::library::Running;
use crate::state::locked;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{
    Aint, Count, DatarepConversionFunction, DatarepConversionFunctionC, DatarepExtentFunction,
};
use oxmpi_core::file::{Conversion, FileElements, Representation};
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::predefined::PredefinedType;
use oxmpi_objects::shown::{self, ValueKind};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Converter {
    /// MPI_CONVERSION_FN_NULL: file and memory have the same representation.
    None,
    Int(DatarepConversionFunction),
    Count(DatarepConversionFunctionC),
}

impl From<DatarepConversionFunction> for Converter {
    fn from(function: DatarepConversionFunction) -> Converter {
        Converter::Int(function)
    }
}

impl From<DatarepConversionFunctionC> for Converter {
    fn from(function: DatarepConversionFunctionC) -> Converter {
        Converter::Count(function)
    }
}

struct UserConversion {
    name: Box<[u8]>,
    read: Converter,
    write: Converter,
    extent: DatarepExtentFunction,
    extra_state: usize,
    library: &'static Running,
}

impl std::fmt::Debug for UserConversion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserConversion")
            .field("name", &String::from_utf8_lossy(&self.name))
            .finish_non_exhaustive()
    }
}

impl UserConversion {
    fn failed(&self, what: &str, code: c_int) -> MpiError {
        let text = format!(
            "{what} of the data representation \"{}\" returned {}",
            String::from_utf8_lossy(&self.name),
            shown::number(ValueKind::Code, code)
        );
        // The program's function may return an error code of the program.
        let class =
            if crate::errors::check_code(code).is_ok() { code } else { abi::MPI_ERR_CONVERSION };
        MpiError::new(class, text)
    }

    fn convert(
        &self,
        converter: Converter,
        elements: &FileElements,
        file: *mut c_void,
        items: usize,
    ) -> Result<()> {
        let handle = handle_of(self.library, &elements.datatype);
        let (memory, extra) = (elements.buffer.as_ptr().cast(), self.extra_state as *mut c_void);
        let mut done = 0;
        let mut code = abi::MPI_SUCCESS;
        match converter {
            Converter::None => {}
            Converter::Count(function) => {
                // SAFETY: the function gets the program's buffer, and one for `items` elements of
                // the file.
                code = unsafe { function(memory, handle, items as Count, file, 0, extra) };
            }
            Converter::Int(function) => {
                // An int counts no more elements, so there are several calls with one file buffer.
                while done < items && code == abi::MPI_SUCCESS {
                    let n = (items - done).min(c_int::MAX as usize);
                    // SAFETY: the function gets the program's buffer, and one for `items` elements
                    // of the file.
                    code =
                        unsafe { function(memory, handle, n as c_int, file, done as i64, extra) };
                    done += n;
                }
            }
        }
        if !elements.datatype.is_predefined() {
            // `handle_of` has made this handle for the call.
            let _ = self.library.datatypes.free(Handle::from_raw(handle as u64));
        }
        if code == abi::MPI_SUCCESS {
            Ok(())
        } else {
            Err(self.failed("the conversion function", code))
        }
    }

    /// Without a conversion, file and memory must have data of the same length.
    fn check_plain(&self, file: usize, memory: usize) -> Result<()> {
        if file == memory {
            return Ok(());
        }
        let text = format!(
            "the data representation \"{}\" has no conversion function, but {memory} bytes of memory are {file} bytes of the file",
            String::from_utf8_lossy(&self.name)
        );
        Err(MpiError::new(abi::MPI_ERR_CONVERSION, text))
    }
}

impl Conversion for UserConversion {
    fn name(&self) -> &[u8] {
        &self.name
    }

    fn size_of(&self, facts: &'static PredefinedType) -> Result<usize> {
        let mut extent: Aint = 0;
        // SAFETY: the function of the program gets a place for its result.
        let code = unsafe {
            (self.extent)(facts.handle.into(), &mut extent, self.extra_state as *mut c_void)
        };
        if code != abi::MPI_SUCCESS {
            return Err(self.failed("the extent function", code));
        }
        usize::try_from(extent)
            .map_err(|_| self.failed("the extent function, by an extent,", extent as c_int))
    }

    fn write(&self, from: &FileElements, mut to: BytesMut<'_>) -> Result<()> {
        if let Converter::None = self.write {
            self.check_plain(to.len(), from.buffer.packed_len())?;
            from.buffer.pack(0, to);
            return Ok(());
        }
        let items = from.buffer.count() * from.datatype.signature().elements();
        self.convert(self.write, from, to.as_mut_ptr().cast(), items)
    }

    fn read(&self, from: Bytes<'_>, to: &FileElements, items: usize) -> Result<()> {
        if let Converter::None = self.read {
            let bytes = to.datatype.signature().bytes_of(items).unwrap_or(0);
            if bytes > from.len() {
                self.check_plain(from.len(), bytes)?;
            }
            to.buffer.unpack(0, from.slice(0, bytes));
            return Ok(());
        }
        // The parameter is a mutable pointer, but a read conversion does not write to the file
        // buffer.
        self.convert(self.read, to, from.as_ptr().cast_mut().cast(), items)
    }
}

pub(super) fn representation(library: &Running, name: &[u8]) -> Result<Representation> {
    if let Some(known) = Representation::predefined(name) {
        return Ok(known);
    }
    let registered = locked(&library.representations.0);
    match registered.iter().find(|conversion| conversion.name() == name) {
        Some(conversion) => Ok(Representation::Registered(Arc::clone(conversion))),
        None => {
            let text = format!(
                "the data representation \"{}\" is not known",
                String::from_utf8_lossy(name)
            );
            Err(MpiError::new(abi::MPI_ERR_UNSUPPORTED_DATAREP, text))
        }
    }
}

pub(crate) fn register_datarep<F: Into<Converter>>(
    library: &'static Running,
    name: &[u8],
    read_function: Option<F>,
    write_function: Option<F>,
    extent: Option<DatarepExtentFunction>,
    extra_state: *mut c_void,
) -> Result<()> {
    let limit = abi::MPI_MAX_DATAREP_STRING as usize;
    if name.is_empty() || name.len() >= limit {
        let text =
            format!("datarep has {} characters; it must have 1 to {}", name.len(), limit - 1);
        return Err(MpiError::new(abi::MPI_ERR_ARG, text));
    }
    let extent = extent.ok_or_else(|| null("dtype_file_extent_fn"))?;
    let mut registered = locked(&library.representations.0);
    let known = Representation::predefined(name).is_some()
        || registered.iter().any(|known| known.name() == name);
    if known {
        let text = format!(
            "the data representation \"{}\" is there already",
            String::from_utf8_lossy(name)
        );
        return Err(MpiError::new(abi::MPI_ERR_DUP_DATAREP, text));
    }
    registered.push(Arc::new(UserConversion {
        name: name.into(),
        read: read_function.map_or(Converter::None, F::into),
        write: write_function.map_or(Converter::None, F::into),
        extent,
        extra_state: extra_state as usize,
        library,
    }));
    Ok(())
}
