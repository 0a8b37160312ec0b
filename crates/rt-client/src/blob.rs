//! Byte strings that are too long for a control message: sent as a nameless file.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use oxmpi_sys::nameless;
use rustix::fs::fstat;

/// In bytes: a limit against faulty senders.
const LONGEST: u64 = 64 << 20;

/// Writes a new file.
pub fn write(bytes: &[u8]) -> io::Result<OwnedFd> {
    let fd = nameless::create("oxmpi-blob")?;
    nameless::check_length(bytes.len() as u64)?;
    let mut written = 0;
    while written < bytes.len() {
        written += rustix::io::pwrite(&fd, &bytes[written..], written as u64)?;
    }
    Ok(fd)
}

/// Reads such a file. `InvalidData` if it is too long, or shrinks meanwhile.
pub fn read(fd: impl AsFd) -> io::Result<Vec<u8>> {
    let bad = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let len = fstat(&fd)?.st_size as u64;
    if len > LONGEST {
        return Err(bad(format!("{len} bytes are handed over; at most {LONGEST} are taken")));
    }
    let mut bytes = vec![0; len as usize];
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pread(&fd, &mut bytes[done..], done as u64)? {
            0 => return Err(bad(format!("{done} bytes came instead of {len}"))),
            n => done += n,
        }
    }
    Ok(bytes)
}
