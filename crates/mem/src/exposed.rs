//! Memory that a process exposes in a window: bytes that others read and write while it uses them itself.

use crate::buffer::{PlainBuf, UserBuf};
use crate::layout::{Layout, LayoutError};
use crate::memory::Lease;
use oxmpi_os::bytes::BytesMut;
use oxmpi_os::memory::Memory;
use std::sync::Arc;

/// Exposed memory: the program's own, or a peer's that is mapped here.
#[derive(Clone, Debug)]
pub struct Exposed {
    plain: PlainBuf,
    /// What keeps it mapped, if it is not the program that does.
    memory: Option<Memory>,
}

impl From<PlainBuf> for Exposed {
    /// The program's memory, for which it has promised what [`PlainBuf::new`] asks for.
    fn from(plain: PlainBuf) -> Exposed {
        Exposed { plain, memory: None }
    }
}

impl From<Memory> for Exposed {
    fn from(memory: Memory) -> Exposed {
        // SAFETY: the bytes are mapped and writable as long as `memory`, which lies beside the value.
        let plain = unsafe { PlainBuf::new(memory.start().as_ptr(), memory.len()) };
        Exposed { plain, memory: Some(memory) }
    }
}

impl Exposed {
    /// No memory.
    pub const NONE: Exposed = Exposed { plain: PlainBuf::EMPTY, memory: None };

    /// Where it begins in this process.
    #[inline]
    pub fn address(&self) -> usize {
        self.plain.start().expose_provenance()
    }

    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.plain.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.plain.is_empty()
    }

    /// The `len` bytes from `offset` on, if they lie inside.
    #[inline(always)]
    pub fn bytes(&self, offset: usize, len: usize) -> Option<BytesMut<'_>> {
        let room = self.plain.len();
        if offset > room || len > room - offset {
            return None;
        }
        // SAFETY: inside of the bytes that `plain` names, which are mapped while `self` lives.
        Some(unsafe { BytesMut::from_raw(self.plain.start().wrapping_add(offset), len) })
    }

    /// `count` elements of `layout`, element 0 at `offset`. The buffer keeps the memory mapped.
    ///
    /// # Errors
    /// If their data do not all lie inside.
    pub fn elements(
        &self,
        offset: isize,
        count: usize,
        layout: &Arc<Layout>,
    ) -> Result<UserBuf, LayoutError> {
        let outside = LayoutError::Overflow { what: "place in the window" };
        let (from, to) = layout.span(count)?;
        layout.packed_len(count)?;
        let (from, to) = (from.checked_add(offset).ok_or(outside)?, to.checked_add(offset).ok_or(outside)?);
        if from < 0 || to > self.len().cast_signed() {
            return Err(outside);
        }
        // SAFETY: all data lie inside of the bytes that `plain` names; these are mapped as long as the program promises, or
        // as the lease keeps them.
        let buffer = unsafe { UserBuf::new(self.plain.start().wrapping_offset(offset), count, layout) };
        Ok(match &self.memory {
            Some(memory) => buffer.with_lease(Lease::keep(memory.clone())),
            None => buffer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_os::bytes::Bytes;

    #[test]
    fn elements_lie_inside_or_not_at_all() {
        let exposed = Exposed::from(Memory::zeroed(64, 8).unwrap());
        let int = Layout::basic(4, 4);
        let backwards = Arc::new(Layout::hvector(3, 1, -8, &int).unwrap());
        assert!(exposed.elements(15, 1, &backwards).is_err());
        let buffer = exposed.elements(16, 1, &backwards).unwrap();
        buffer.unpack(0, Bytes::from(&[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]));
        drop(buffer);
        assert_eq!(exposed.bytes(0, 1).unwrap().as_bytes().to_vec(), [3]);
        assert!(exposed.elements(60, 1, &Arc::new(int)).is_ok());
        assert!(exposed.elements(61, 1, &Arc::new(Layout::basic(4, 4))).is_err());
        assert!(exposed.elements(isize::MAX, 1, &Arc::new(Layout::basic(4, 4))).is_err());
        assert!(exposed.elements(-1, 0, &backwards).is_err() && exposed.elements(64, 0, &backwards).is_ok());
    }
}
