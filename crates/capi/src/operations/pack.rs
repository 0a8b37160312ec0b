//! Packing by the program (MPI-5.0 sections 5.2 and 5.3), in this machine's representation or in
//! "external32", which all machines read.

use crate::arguments::BufferArgs;
use crate::arguments::length;
use crate::state::library::{Running, TypeRef};
use crate::state::named::CommArgument;
use crate::state::named::OfArgument;
use oxmpi_abi::constants as abi;
use oxmpi_mem::buffer::{PlainBuf, UserBuf};
use oxmpi_objects::datatype::{Datatype, check_representation};
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::c_void;

struct PackedBuffer {
    start: *const c_void,
    size: i64,
    position: i64,
    /// The argument names of size and buffer for error texts.
    names: [&'static str; 2],
}

impl PackedBuffer {
    fn outgoing(start: *const c_void, size: i64, position: i64) -> PackedBuffer {
        PackedBuffer { start, size, position, names: ["outsize", "outbuf"] }
    }

    fn incoming(start: *const c_void, size: i64, position: i64) -> PackedBuffer {
        PackedBuffer { start, size, position, names: ["insize", "inbuf"] }
    }

    /// The next `bytes` bytes, and the position after them.
    fn next(&self, bytes: usize) -> Result<(PlainBuf, i64)> {
        let PackedBuffer { size, position, names: [size_name, buffer_name], .. } = *self;
        let wrong = |text: String| Err(MpiError::new(abi::MPI_ERR_ARG, text));
        if size < 0 {
            return wrong(format!("{size_name} is {size}; it must not be negative"));
        }
        if !(0..=size).contains(&position) {
            return wrong(format!(
                "position is {position}; it must be from 0 to {size_name}, {size}"
            ));
        }
        let room = (size - position) as usize;
        if bytes > room {
            let text = format!(
                "{bytes} bytes are needed, but {size_name} leaves {room} after position {position}"
            );
            return Err(MpiError::new(abi::MPI_ERR_TRUNCATE, text));
        }
        if self.start.is_null() && bytes > 0 {
            let text = format!("{buffer_name} is a null pointer");
            return Err(MpiError::new(abi::MPI_ERR_BUFFER, text));
        }
        let start = self.start.cast_mut().cast::<u8>().wrapping_add(position as usize);
        // SAFETY: the C program passes memory of `size` bytes.
        Ok((unsafe { PlainBuf::new(start, bytes) }, position + bytes as i64))
    }
}

pub(crate) fn pack(
    library: &Running,
    from: BufferArgs,
    outbuf: *mut c_void,
    outsize: i64,
    position: i64,
    _: &CommArgument,
) -> Result<i64> {
    let to = PackedBuffer::outgoing(outbuf, outsize, position);
    if library.watches_devices() {
        return pack_from_anywhere(library, from, &to);
    }
    // SAFETY: nothing is freed and no function of the program called.
    let datatype = unsafe { library.glance_at_datatype(from.datatype) }.of(from.names.datatype)?;
    let bytes = from.check(library, &datatype)?;
    let (room, after) = to.next(bytes)?;
    // SAFETY: the C program passes the memory of the elements.
    unsafe { datatype.layout().pack(from.address.cast(), room.bytes_mut()) };
    Ok(after)
}

pub(crate) fn unpack(
    library: &Running,
    inbuf: *const c_void,
    insize: i64,
    position: i64,
    to: BufferArgs,
    _: &CommArgument,
) -> Result<i64> {
    let from = PackedBuffer::incoming(inbuf, insize, position);
    if library.watches_devices() {
        return unpack_to_anywhere(library, &from, to);
    }
    // SAFETY: nothing is freed and no function of the program called.
    let datatype = unsafe { library.glance_at_datatype(to.datatype) }.of(to.names.datatype)?;
    let bytes = to.check(library, &datatype)?;
    let (data, after) = from.next(bytes)?;
    // SAFETY: the C program passes the memory of the elements.
    unsafe { datatype.layout().unpack(to.address.cast_mut().cast(), data.bytes()) };
    Ok(after)
}

/// Packs data that may be in device memory.
fn pack_from_anywhere(library: &Running, from: BufferArgs, to: &PackedBuffer) -> Result<i64> {
    let data = from.buffer(library)?;
    let (room, after) = to.next(data.packed_len())?;
    let room = library.accelerator.placed(room.into())?;
    copy_settled(&room, &data)?;
    Ok(after)
}

/// Unpacks data to memory that may be on a device.
fn unpack_to_anywhere(library: &Running, from: &PackedBuffer, to: BufferArgs) -> Result<i64> {
    let room = to.buffer(library)?;
    let (data, after) = from.next(room.packed_len())?;
    let data = library.accelerator.placed(data.into())?;
    copy_settled(&room, &data)?;
    Ok(after)
}

fn copy_settled(to: &UserBuf, from: &UserBuf) -> Result<()> {
    to.copy_from(0, from, 0, to.packed_len());
    from.settle().and(to.settle()).map_err(|fault| oxmpi_core::staging_error(fault.into()))
}

const NO_EXTERNAL: &str = "external32 is made in memory of the host alone: copy the data there";

pub(crate) fn pack_size(
    _: &Running,
    count: i64,
    datatype: TypeRef<'_>,
    _: &CommArgument,
) -> Result<i64> {
    let bytes = datatype.bounds().packed_len(length(count, "incount", abi::MPI_ERR_COUNT)?);
    bytes.map(|bytes| bytes as i64).map_err(|_| too_many(count))
}

fn too_many(count: i64) -> MpiError {
    let text =
        format!("incount is {count}: the packed bytes of these elements do not fit into 64 bits");
    MpiError::new(abi::MPI_ERR_VALUE_TOO_LARGE, text)
}

fn external_size(count: i64, datatype: &Datatype) -> Result<isize> {
    let bytes = datatype.external_size(length(count, "incount", abi::MPI_ERR_COUNT)?);
    bytes.map(|bytes| bytes as isize).ok_or_else(|| too_many(count))
}

/// Only "external32" is a valid name.
pub(crate) fn pack_external(
    library: &Running,
    datarep: &[u8],
    from: BufferArgs,
    outbuf: *mut c_void,
    outsize: isize,
    position: isize,
) -> Result<isize> {
    check_representation(datarep)?;
    let data = library.on_host(from.buffer(library)?, NO_EXTERNAL)?;
    library.check_on_host(outbuf, NO_EXTERNAL)?;
    let datatype = library.datatype(from.datatype)?;
    let bytes = external_size(from.count, &datatype)?;
    let to = PackedBuffer::outgoing(outbuf, outsize as i64, position as i64);
    let (room, after) = to.next(bytes as usize)?;
    datatype.pack_external(&data, room.bytes_mut());
    Ok(after as isize)
}

pub(crate) fn unpack_external(
    library: &Running,
    datarep: &[u8],
    inbuf: *const c_void,
    insize: isize,
    position: isize,
    to: BufferArgs,
) -> Result<isize> {
    check_representation(datarep)?;
    let room: UserBuf = library.on_host(to.buffer(library)?, NO_EXTERNAL)?;
    library.check_on_host(inbuf, NO_EXTERNAL)?;
    let datatype = library.datatype(to.datatype)?;
    let bytes = external_size(to.count, &datatype)?;
    let from = PackedBuffer::incoming(inbuf, insize as i64, position as i64);
    let (data, after) = from.next(bytes as usize)?;
    datatype.unpack_external(data.bytes(), &room);
    Ok(after as isize)
}

pub(crate) fn pack_external_size(
    _: &Running,
    datarep: &[u8],
    count: i64,
    datatype: TypeRef<'_>,
) -> Result<isize> {
    check_representation(datarep)?;
    external_size(count, &datatype)
}
