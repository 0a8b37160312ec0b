//! The representation of data in a file (MPI-5.0, "File Interoperability").
//!
//! "native" and "internal" are the representation in memory. Data in another representation are
//! converted as a whole, before a write or after a read.

use super::FileView;
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
    Native,
    Internal,
    External32,
    Registered(Arc<dyn Conversion>),
}

/// A representation that the program has registered. Its functions belong to the program, so they
/// are called without a lock.
pub trait Conversion: fmt::Debug + Send + Sync {
    fn name(&self) -> &[u8];

    fn size_of(&self, facts: &'static PredefinedType) -> Result<usize>;

    fn write(&self, from: &FileElements, to: BytesMut<'_>) -> Result<()>;

    fn read(&self, from: Bytes<'_>, to: &FileElements, items: usize) -> Result<()>;
}

/// Elements of a datatype in memory.
#[derive(Clone, Debug)]
pub struct FileElements {
    pub buffer: UserBuf,
    pub datatype: Arc<Datatype>,
}

impl Representation {
    /// The name of the representation.
    pub fn name(&self) -> &[u8] {
        match self {
            Representation::Native => b"native",
            Representation::Internal => b"internal",
            Representation::External32 => b"external32",
            Representation::Registered(conversion) => conversion.name(),
        }
    }

    /// The predefined representation of this name, which may be in capitals, as in Fortran.
    pub fn predefined(name: &[u8]) -> Option<Representation> {
        let all = [Representation::Native, Representation::Internal, Representation::External32];
        all.into_iter().find(|representation| is_predefined_name(name, representation.name()))
    }

    fn is_native(&self) -> bool {
        matches!(self, Representation::Native | Representation::Internal)
    }

    /// The datatype with the layout that its data have in the file.
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

#[derive(Debug)]
pub(super) struct ReadBuffer {
    /// The program's own memory, if no conversion is needed.
    pub(super) room: UserBuf,
    convert: Option<(FileElements, Arc<FileView>)>,
}

fn no_memory(bytes: usize) -> MpiError {
    MpiError::new(
        abi::MPI_ERR_NO_MEM,
        format!("no memory for the {bytes} bytes of data to be converted"),
    )
}

fn room_for(bytes: usize) -> Result<UserBuf> {
    Ok(Owned::new(zeros::<u8>(bytes).map_err(|_| no_memory(bytes))?).buf())
}

impl FileView {
    fn file_bytes(&self, elements: &FileElements) -> Result<usize> {
        if self.representation.is_native() {
            return Ok(elements.buffer.packed_len());
        }
        let count = elements.buffer.count();
        let bytes = self.representation.in_file(&elements.datatype)?.size().checked_mul(count);
        bytes.filter(|&n| isize::try_from(n).is_ok()).ok_or_else(|| no_memory(usize::MAX))
    }

    pub(super) fn outgoing(&self, elements: &FileElements) -> Result<UserBuf> {
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

    pub(super) fn incoming(self: &Arc<Self>, elements: FileElements) -> Result<ReadBuffer> {
        if self.representation.is_native() {
            return Ok(ReadBuffer { room: elements.buffer, convert: None });
        }
        let room = room_for(self.file_bytes(&elements)?)?;
        Ok(ReadBuffer { room, convert: Some((elements, Arc::clone(self))) })
    }
}

impl ReadBuffer {
    pub(super) fn deliver(&self, received: u64) -> Result<u64> {
        let Some((elements, shown)) = &self.convert else { return Ok(received) };
        let Some(all) = self.room.as_contiguous() else { return Ok(0) };
        let from = all.slice(0, all.len().min(usize::try_from(received).unwrap_or(usize::MAX)));
        let Representation::Registered(conversion) = &shown.representation else {
            return Ok(elements.datatype.unpack_external_part(from, &elements.buffer) as u64);
        };
        let items = items_in(shown, elements, from.len())?;
        conversion.read(from, elements, items)?;
        Ok(elements.datatype.signature().bytes_of(items).unwrap_or(0) as u64)
    }
}

/// The basic elements in `bytes` of the file; part of one counts only if all are equal.
fn items_in(shown: &FileView, elements: &FileElements, bytes: usize) -> Result<usize> {
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
