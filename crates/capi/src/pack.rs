//! Packing by the program (MPI-5.0 sections 5.2 and 5.3), in this machine's representation or in
//! "external32", which all machines read.

use crate::errors::{on_comm, on_none};
use crate::library::{Running, check_count, fetch, null, put};
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Aint, Comm, Count, Datatype as Handle};
use oxmpi_mem::buffer::{PlainBuf, UserBuf};
use oxmpi_objects::datatype::check_representation;
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::{CStr, c_char, c_int, c_void};

struct PackedBuffer<T> {
    start: *mut c_void,
    size: i64,
    position: *mut T,
    /// The argument names of size and buffer for error texts.
    names: [&'static str; 2],
}

/// (address, count, datatype).
type UnpackedBuffer = (*const c_void, i64, Handle);

impl<T: Copy + Into<i64> + TryFrom<i64>> PackedBuffer<T> {
    /// The next `bytes` bytes, and the position after them.
    /// # Safety
    /// `position` must be null or point to a number; `start` must be null or have `size` bytes.
    unsafe fn next(&self, bytes: usize) -> Result<(PlainBuf, T)> {
        let [size_name, buffer_name] = self.names;
        // SAFETY: by the contract of this function.
        let position: i64 = unsafe { fetch(self.position, "position") }?.into();
        let wrong = |text: String| Err(MpiError::new(abi::MPI_ERR_ARG, text));
        if self.size < 0 {
            return wrong(format!("{size_name} is {}; it must not be negative", self.size));
        }
        if !(0..=self.size).contains(&position) {
            return wrong(format!(
                "position is {position}; it must be from 0 to {size_name}, {}",
                self.size
            ));
        }
        let room = (self.size - position) as usize;
        if bytes > room {
            let text = format!(
                "{bytes} bytes are needed, but {size_name} leaves {room} after position {position}"
            );
            return Err(MpiError::new(abi::MPI_ERR_TRUNCATE, text));
        }
        if self.start.is_null() && bytes > 0 {
            return Err(null(buffer_name));
        }
        let start = self.start.cast::<u8>().wrapping_add(position as usize);
        // `T` is the type of `size`, which is at least the result.
        let Ok(after) = T::try_from(position + bytes as i64) else {
            return wrong(format!("position {position} plus {bytes} is too large"));
        };
        // SAFETY: by the contract of this function, within its size.
        Ok((unsafe { PlainBuf::new(start, bytes) }, after))
    }
}

/// # Safety
/// The contract of [`PackedBuffer::next`]; the buffers are the program's.
unsafe fn pack<T: Copy + Into<i64> + TryFrom<i64>>(
    library: &Running,
    from: UnpackedBuffer,
    to: &PackedBuffer<T>,
) -> Result<()> {
    let (address, count, datatype) = from;
    if library.watches_devices() {
        // SAFETY: by the contract of this function.
        return unsafe { pack_from_anywhere(library, from, to) };
    }
    library.check_address(address)?;
    // SAFETY: nothing is freed and no function of the program called.
    let datatype = unsafe { library.glance_at_datatype(datatype) }?;
    let (_, bytes) = library.check_elements(address, count, &datatype)?;
    // SAFETY: by the contract of this function; the program names its memory.
    let after = unsafe {
        let (room, after) = to.next(bytes)?;
        datatype.layout().pack(address.cast(), room.bytes_mut());
        after
    };
    // SAFETY: `position` is not null, as `next` has checked.
    unsafe { put(to.position, after, "position") }
}

/// # Safety
/// The contract of [`pack`].
unsafe fn unpack<T: Copy + Into<i64> + TryFrom<i64>>(
    library: &Running,
    from: &PackedBuffer<T>,
    to: UnpackedBuffer,
) -> Result<()> {
    let (address, count, datatype) = to;
    if library.watches_devices() {
        // SAFETY: by the contract of this function.
        return unsafe { unpack_to_anywhere(library, from, to) };
    }
    library.check_address(address)?;
    // SAFETY: nothing is freed and no function of the program called.
    let datatype = unsafe { library.glance_at_datatype(datatype) }?;
    let (_, bytes) = library.check_elements(address, count, &datatype)?;
    // SAFETY: by the contract of this function; the program names its memory.
    let after = unsafe {
        let (data, after) = from.next(bytes)?;
        datatype.layout().unpack(address.cast_mut().cast(), data.bytes());
        after
    };
    // SAFETY: `position` is not null, as `next` has checked.
    unsafe { put(from.position, after, "position") }
}

/// Packs data that may be in device memory.
/// # Safety
/// The contract of [`pack`].
unsafe fn pack_from_anywhere<T: Copy + Into<i64> + TryFrom<i64>>(
    library: &Running,
    (address, count, datatype): UnpackedBuffer,
    to: &PackedBuffer<T>,
) -> Result<()> {
    let data = library.buffer(address, count, datatype)?;
    // SAFETY: by the contract of this function.
    let (room, after) = unsafe { to.next(data.packed_len()) }?;
    let room = library.accelerator.placed(room.into())?;
    copy_settled(&room, &data)?;
    // SAFETY: `position` is not null, as `next` has checked.
    unsafe { put(to.position, after, "position") }
}

/// Unpacks data to memory that may be on a device.
/// # Safety
/// The contract of [`pack`].
unsafe fn unpack_to_anywhere<T: Copy + Into<i64> + TryFrom<i64>>(
    library: &Running,
    from: &PackedBuffer<T>,
    (address, count, datatype): UnpackedBuffer,
) -> Result<()> {
    let room = library.buffer(address, count, datatype)?;
    // SAFETY: by the contract of this function.
    let (data, after) = unsafe { from.next(room.packed_len()) }?;
    let data = library.accelerator.placed(data.into())?;
    copy_settled(&room, &data)?;
    // SAFETY: `position` is not null, as `next` has checked.
    unsafe { put(from.position, after, "position") }
}

fn copy_settled(to: &UserBuf, from: &UserBuf) -> Result<()> {
    to.copy_from(0, from, 0, to.packed_len());
    from.settle().and(to.settle()).map_err(|fault| oxmpi_core::staging_error(fault.into()))
}

const NO_EXTERNAL: &str = "external32 is made in memory of the host alone: copy the data there";

fn packed_size(library: &Running, count: i64, datatype: Handle) -> Result<i64> {
    let datatype = library.datatype(datatype)?;
    let bytes = datatype.bounds().packed_len(check_count(count)?);
    bytes.map(|bytes| bytes as i64).map_err(|_| too_many(count))
}

fn too_many(count: i64) -> MpiError {
    let text =
        format!("incount is {count}: the packed bytes of these elements do not fit into 64 bits");
    MpiError::new(abi::MPI_ERR_VALUE_TOO_LARGE, text)
}

/// Only "external32" is a valid name.
/// # Safety
/// `name` must be null or a string with its closing zero.
unsafe fn check_datarep(name: *const c_char) -> Result<()> {
    if name.is_null() {
        return Err(null("datarep"));
    }
    // SAFETY: by the contract of this function.
    check_representation(unsafe { CStr::from_ptr(name) }.to_bytes())
}

fn external_size(library: &Running, count: i64, datatype: Handle) -> Result<i64> {
    let datatype = library.datatype(datatype)?;
    let bytes = datatype.external_size(check_count(count)?);
    bytes.map(|bytes| bytes as i64).ok_or_else(|| too_many(count))
}

/// # Safety
/// The contracts of [`pack`] and [`check_datarep`].
unsafe fn pack_external<T: Copy + Into<i64> + TryFrom<i64>>(
    library: &Running,
    datarep: *const c_char,
    (address, count, handle): UnpackedBuffer,
    to: &PackedBuffer<T>,
) -> Result<()> {
    // SAFETY: by the contract of this function.
    unsafe { check_datarep(datarep) }?;
    let from = library.on_host(library.buffer(address, count, handle)?, NO_EXTERNAL)?;
    library.check_on_host(to.start, NO_EXTERNAL)?;
    let bytes = external_size(library, count, handle)?;
    // SAFETY: by the contract of this function.
    let (room, after) = unsafe { to.next(bytes as usize) }?;
    library.datatype(handle)?.pack_external(&from, room.bytes_mut());
    // SAFETY: `position` is not null, as `next` has checked.
    unsafe { put(to.position, after, "position") }
}

/// # Safety
/// The contracts of [`pack`] and [`check_datarep`].
unsafe fn unpack_external<T: Copy + Into<i64> + TryFrom<i64>>(
    library: &Running,
    datarep: *const c_char,
    from: &PackedBuffer<T>,
    (address, count, handle): UnpackedBuffer,
) -> Result<()> {
    // SAFETY: by the contract of this function.
    unsafe { check_datarep(datarep) }?;
    let to: UserBuf = library.on_host(library.buffer(address, count, handle)?, NO_EXTERNAL)?;
    library.check_on_host(from.start, NO_EXTERNAL)?;
    let bytes = external_size(library, count, handle)?;
    // SAFETY: by the contract of this function.
    let (data, after) = unsafe { from.next(bytes as usize) }?;
    library.datatype(handle)?.unpack_external(data.bytes(), &to);
    // SAFETY: `position` is not null, as `next` has checked.
    unsafe { put(from.position, after, "position") }
}

fn outgoing<T, S: Into<i64>>(start: *mut c_void, size: S, position: *mut T) -> PackedBuffer<T> {
    PackedBuffer { start, size: size.into(), position, names: ["outsize", "outbuf"] }
}

fn incoming<T, S: Into<i64>>(start: *const c_void, size: S, position: *mut T) -> PackedBuffer<T> {
    PackedBuffer {
        start: start.cast_mut(),
        size: size.into(),
        position,
        names: ["insize", "inbuf"],
    }
}

mpi! {
    fn MPI_Pack(inbuf: *const c_void, incount: c_int, datatype: Handle, outbuf: *mut c_void, outsize: c_int, position: *mut c_int, comm: Comm) -> c_int {
        on_comm(FuncId::MPI_Pack, comm, |library, _| {
            // SAFETY: the C program passes its buffers and a position.
            unsafe { pack(library, (inbuf, incount.into(), datatype), &outgoing(outbuf, outsize, position)) }
        })
    }

    fn MPI_Pack_c(inbuf: *const c_void, incount: Count, datatype: Handle, outbuf: *mut c_void, outsize: Count, position: *mut Count, comm: Comm) -> c_int {
        on_comm(FuncId::MPI_Pack_c, comm, |library, _| {
            // SAFETY: the C program passes its buffers and a position.
            unsafe { pack(library, (inbuf, incount, datatype), &outgoing(outbuf, outsize, position)) }
        })
    }

    fn MPI_Unpack(inbuf: *const c_void, insize: c_int, position: *mut c_int, outbuf: *mut c_void, outcount: c_int, datatype: Handle, comm: Comm) -> c_int {
        on_comm(FuncId::MPI_Unpack, comm, |library, _| {
            // SAFETY: the C program passes its buffers and a position.
            unsafe { unpack(library, &incoming(inbuf, insize, position), (outbuf, outcount.into(), datatype)) }
        })
    }

    fn MPI_Unpack_c(inbuf: *const c_void, insize: Count, position: *mut Count, outbuf: *mut c_void, outcount: Count, datatype: Handle, comm: Comm) -> c_int {
        on_comm(FuncId::MPI_Unpack_c, comm, |library, _| {
            // SAFETY: the C program passes its buffers and a position.
            unsafe { unpack(library, &incoming(inbuf, insize, position), (outbuf, outcount, datatype)) }
        })
    }

    /// MPI_UNDEFINED if the size does not fit in an int.
    fn MPI_Pack_size(incount: c_int, datatype: Handle, comm: Comm, size: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Pack_size, comm, |library, _| {
            let bytes = packed_size(library, incount.into(), datatype)?;
            // SAFETY: the C program passes a place for a number.
            unsafe { put(size, c_int::try_from(bytes).unwrap_or(abi::MPI_UNDEFINED), "size") }
        })
    }

    fn MPI_Pack_size_c(incount: Count, datatype: Handle, comm: Comm, size: *mut Count) -> c_int {
        on_comm(FuncId::MPI_Pack_size_c, comm, |library, _| {
            // SAFETY: the C program passes a place for a number.
            unsafe { put(size, packed_size(library, incount, datatype)?, "size") }
        })
    }

    fn MPI_Pack_external(datarep: *const c_char, inbuf: *const c_void, incount: c_int, datatype: Handle, outbuf: *mut c_void, outsize: Aint, position: *mut Aint) -> c_int {
        on_none(FuncId::MPI_Pack_external, |library| {
            // SAFETY: the C program passes a string, buffers and a position; MPI_Aint and MPI_Count
            // have 64 bits.
            unsafe { pack_external(library, datarep, (inbuf, incount.into(), datatype), &outgoing(outbuf, outsize as Count, position.cast::<Count>())) }
        })
    }

    fn MPI_Pack_external_c(datarep: *const c_char, inbuf: *const c_void, incount: Count, datatype: Handle, outbuf: *mut c_void, outsize: Count, position: *mut Count) -> c_int {
        on_none(FuncId::MPI_Pack_external_c, |library| {
            // SAFETY: the C program passes a string, its buffers and a position.
            unsafe { pack_external(library, datarep, (inbuf, incount, datatype), &outgoing(outbuf, outsize, position)) }
        })
    }

    fn MPI_Unpack_external(datarep: *const c_char, inbuf: *const c_void, insize: Aint, position: *mut Aint, outbuf: *mut c_void, outcount: c_int, datatype: Handle) -> c_int {
        on_none(FuncId::MPI_Unpack_external, |library| {
            // SAFETY: the C program passes a string, buffers and a position; MPI_Aint and MPI_Count
            // have 64 bits.
            unsafe { unpack_external(library, datarep, &incoming(inbuf, insize as Count, position.cast::<Count>()), (outbuf, outcount.into(), datatype)) }
        })
    }

    fn MPI_Unpack_external_c(datarep: *const c_char, inbuf: *const c_void, insize: Count, position: *mut Count, outbuf: *mut c_void, outcount: Count, datatype: Handle) -> c_int {
        on_none(FuncId::MPI_Unpack_external_c, |library| {
            // SAFETY: the C program passes a string, its buffers and a position.
            unsafe { unpack_external(library, datarep, &incoming(inbuf, insize, position), (outbuf, outcount, datatype)) }
        })
    }

    fn MPI_Pack_external_size(datarep: *const c_char, incount: c_int, datatype: Handle, size: *mut Aint) -> c_int {
        on_none(FuncId::MPI_Pack_external_size, |library| {
            // SAFETY: the C program passes a string and a place for a number.
            unsafe {
                check_datarep(datarep)?;
                put(size, external_size(library, incount.into(), datatype)? as Aint, "size")
            }
        })
    }

    fn MPI_Pack_external_size_c(datarep: *const c_char, incount: Count, datatype: Handle, size: *mut Count) -> c_int {
        on_none(FuncId::MPI_Pack_external_size_c, |library| {
            // SAFETY: the C program passes a string and a place for a number.
            unsafe {
                check_datarep(datarep)?;
                put(size, external_size(library, incount, datatype)?, "size")
            }
        })
    }
}
