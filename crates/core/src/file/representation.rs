//! How data look in a file (MPI-5.0, "File Interoperability").
//!
//! "native" is what is in memory, and so is "internal"; "external32" is what all machines read; a program can register
//! representations of its own. Data in another representation are converted as a whole, before they are written or after
//! they were read.

use super::Shown;
use oxmpi_abi::constants as abi;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::{Owned, zeros};
use oxmpi_objects::datatype::{Datatype, is_predefined_name};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::predefined::PredefinedType;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::fmt;
use std::sync::Arc;

/// A data representation.
#[derive(Clone, Debug)]
pub enum Representation {
    /// As in memory.
    Native,
    /// As this library likes it: as in memory.
    Internal,
    /// As all machines read it.
    External32,
    /// As the program says.
    Registered(Arc<dyn Conversion>),
}

/// A representation that a program has registered. Its functions are the program's, and nothing is locked when they are called.
pub trait Conversion: fmt::Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &[u8];

    /// Bytes of a predefined type in the file.
    ///
    /// # Errors
    /// The program's.
    fn size_of(&self, facts: &'static PredefinedType) -> Result<usize>;

    /// Converts all elements; `to` has as many bytes as they have in the file.
    ///
    /// # Errors
    /// The program's.
    fn write(&self, from: &Elements, to: BytesMut<'_>) -> Result<()>;

    /// Converts the first `items` basic elements of those in `from`.
    ///
    /// # Errors
    /// The program's.
    fn read(&self, from: Bytes<'_>, to: &Elements, items: usize) -> Result<()>;
}

/// Elements of a datatype in memory.
#[derive(Clone, Debug)]
pub struct Elements {
    /// Where they are.
    pub buffer: UserBuf,
    /// What they are.
    pub datatype: Arc<Datatype>,
}

impl Representation {
    /// Its name.
    pub fn name(&self) -> &[u8] {
        match self {
            Representation::Native => b"native",
            Representation::Internal => b"internal",
            Representation::External32 => b"external32",
            Representation::Registered(conversion) => conversion.name(),
        }
    }

    /// The standard's representation of this name, which may be spelled in capitals throughout, as programs that come from
    /// Fortran do.
    pub fn predefined(name: &[u8]) -> Option<Representation> {
        let all = [Representation::Native, Representation::Internal, Representation::External32];
        all.into_iter().find(|representation| is_predefined_name(name, representation.name()))
    }

    fn is_native(&self) -> bool {
        matches!(self, Representation::Native | Representation::Internal)
    }

    /// What a datatype is like in the file.
    ///
    /// # Errors
    /// The program's, of a registered representation; MPI_ERR_VALUE_TOO_LARGE.
    pub fn in_file(&self, datatype: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        match self {
            Representation::Native | Representation::Internal => Ok(Arc::clone(datatype)),
            Representation::External32 => datatype.in_external32(),
            Representation::Registered(conversion) => {
                datatype.in_file(&mut |facts| conversion.size_of(facts))
            }
        }
    }
}

/// Room for data as they come from the file.
#[derive(Debug)]
pub(super) struct Incoming {
    /// The room: the program's own memory if nothing has to be converted.
    pub(super) room: UserBuf,
    convert: Option<(Elements, Arc<Shown>)>,
}

fn no_memory(bytes: usize) -> MpiError {
    MpiError::new(abi::MPI_ERR_NO_MEM, format!("no memory for the {bytes} bytes of data to be converted"))
}

fn room_for(bytes: usize) -> Result<UserBuf> {
    Ok(Owned::new(zeros::<u8>(bytes).map_err(|_| no_memory(bytes))?).buf())
}

impl Shown {
    /// Bytes in the file of these elements.
    fn file_bytes(&self, elements: &Elements) -> Result<usize> {
        if self.representation.is_native() {
            return Ok(elements.buffer.packed_len());
        }
        let count = elements.buffer.count();
        let bytes = self.representation.in_file(&elements.datatype)?.size().checked_mul(count);
        bytes.filter(|&n| isize::try_from(n).is_ok()).ok_or_else(|| no_memory(usize::MAX))
    }

    /// The elements as they are written to the file.
    pub(super) fn outgoing(&self, elements: &Elements) -> Result<UserBuf> {
        if self.representation.is_native() {
            return Ok(elements.buffer.clone());
        }
        let room = room_for(self.file_bytes(elements)?)?;
        if let Some(to) = room.as_contiguous_mut() {
            match &self.representation {
                Representation::Registered(conversion) => conversion.write(elements, to)?,
                _ => elements.datatype.pack_external(&elements.buffer, to),
            }
        }
        Ok(room)
    }

    /// Room for elements from the file.
    pub(super) fn incoming(self: &Arc<Self>, elements: Elements) -> Result<Incoming> {
        if self.representation.is_native() {
            return Ok(Incoming { room: elements.buffer, convert: None });
        }
        let room = room_for(self.file_bytes(&elements)?)?;
        Ok(Incoming { room, convert: Some((elements, Arc::clone(self))) })
    }
}

impl Incoming {
    /// So many bytes have come from the file: brings them to the program. How many bytes they are there.
    pub(super) fn deliver(&self, came: u64) -> Result<u64> {
        let Some((elements, shown)) = &self.convert else { return Ok(came) };
        let Some(all) = self.room.as_contiguous() else { return Ok(0) };
        let from = all.slice(0, all.len().min(usize::try_from(came).unwrap_or(usize::MAX)));
        let Representation::Registered(conversion) = &shown.representation else {
            return Ok(elements.datatype.unpack_external_part(from, &elements.buffer) as u64);
        };
        let items = items_in(shown, elements, from.len())?;
        conversion.read(from, elements, items)?;
        Ok(elements.datatype.signature().bytes_of(items).unwrap_or(0) as u64)
    }
}

/// How many basic elements so many bytes of the file are: those of whole elements, and of a type of equal ones also parts.
fn items_in(shown: &Shown, elements: &Elements, bytes: usize) -> Result<usize> {
    let per_element = elements.datatype.signature().elements();
    let size = shown.representation.in_file(&elements.datatype)?.size();
    let whole = bytes.checked_div(size).unwrap_or(0);
    let rest = if elements.datatype.uniform().is_some() {
        (bytes % size.max(1)) * per_element / size.max(1)
    } else {
        0
    };
    Ok(whole * per_element + rest)
}
