//! The memory of the postboxes: a file without a name.

use super::{PostboxArea, PostboxShape};
use oxmpi_sys::nameless;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    ptr::NonNull,
    sync::Arc,
};

/// The reason why a segment with postboxes could not be made or mapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostboxError {
    #[error("{0}")]
    Shape(String),
    #[error("cannot {what} a shared segment of {bytes} bytes: {error}")]
    Kernel { what: &'static str, bytes: u64, error: io::Error },
    #[error("the shared segment is {found} bytes long, not {expected}")]
    Length { found: u64, expected: u64 },
}

struct Mapping {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the value only unmaps its own mapping.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `PostboxArea::map` with this length; no view is left.
        let unmapped = unsafe { munmap(self.at.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}

impl PostboxArea {
    /// Makes an unnamed file of exactly [`PostboxShape::bytes`] bytes, close-on-exec.
    pub fn create(shape: &PostboxShape) -> Result<OwnedFd, PostboxError> {
        shape.check().map_err(PostboxError::Shape)?;
        let bytes = shape.bytes();
        let refused =
            |what| move |error: std::io::Error| PostboxError::Kernel { what, bytes, error };
        let fd = nameless::create("oxmpi-postboxes").map_err(refused("make"))?;
        nameless::set_length(&fd, bytes).map_err(refused("make"))?;
        nameless::seal(&fd).map_err(refused("seal"))?;
        Ok(fd)
    }

    /// Maps a segment. The descriptor is not needed afterwards.
    pub fn map(fd: impl AsFd, shape: PostboxShape) -> Result<PostboxArea, PostboxError> {
        shape.check().map_err(PostboxError::Shape)?;
        let expected = shape.bytes();
        let refused = |what| {
            move |error: rustix::io::Errno| PostboxError::Kernel {
                what,
                bytes: expected,
                error: error.into(),
            }
        };
        let found = rustix::fs::fstat(&fd).map_err(refused("examine"))?.st_size as u64;
        if found != expected {
            return Err(PostboxError::Length { found, expected });
        }
        let bytes = expected as usize;
        let (prot, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let at = unsafe { mmap(std::ptr::null_mut(), bytes, prot, flags, fd, 0) }
            .map_err(refused("map"))?;
        let Some(at) = NonNull::new(at.cast::<u8>()) else {
            return Err(refused("map")(rustix::io::Errno::NOMEM));
        };
        let keep = Arc::new(Mapping { at, bytes });
        // SAFETY: `bytes` bytes, on a page, mapped while `keep` lives. The file was zero at first,
        // and other processes write to it by the rules.
        Ok(unsafe { PostboxArea::from_raw(at, shape, keep) })
    }
}
