//! Memory of a window, which other processes read and write while its owner uses it.

use crate::buffer::{PlainBuf, UserBuf};
use crate::layout::{Layout, LayoutError};
use crate::memory::Lease;
use oxmpi_sys::bytes::BytesMut;
use oxmpi_sys::memory::Memory;
use std::sync::Arc;

/// Exposed memory of this process, or memory of a peer that is mapped here.
#[derive(Clone, Debug)]
pub struct Exposed {
    plain: PlainBuf,
    /// Keeps the memory mapped; `None` if the program keeps it.
    memory: Option<Memory>,
}

impl From<PlainBuf> for Exposed {
    fn from(plain: PlainBuf) -> Exposed {
        Exposed { plain, memory: None }
    }
}

impl From<Memory> for Exposed {
    fn from(memory: Memory) -> Exposed {
        // SAFETY: the bytes are mapped and writable as long as `memory`, which the value contains.
        let plain = unsafe { PlainBuf::new(memory.start().as_ptr(), memory.len()) };
        Exposed { plain, memory: Some(memory) }
    }
}

impl Exposed {
    pub const NONE: Exposed = Exposed { plain: PlainBuf::EMPTY, memory: None };

    /// The address in this process.
    #[inline]
    pub fn address(&self) -> usize {
        self.plain.start().expose_provenance()
    }

    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.plain.len()
    }

    /// Whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.plain.is_empty()
    }

    /// The memory, unless it belongs to the program.
    pub fn lasting(&self) -> Option<&Memory> {
        self.memory.as_ref().filter(|memory| !memory.is_empty())
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

    /// `count` elements of `layout`, element 0 at `offset`. Fails if some data are outside.
    pub fn elements(
        &self,
        offset: isize,
        count: usize,
        layout: &Arc<Layout>,
    ) -> Result<UserBuf, LayoutError> {
        let outside = LayoutError::Overflow { what: "place in the window" };
        let (from, to) = layout.span(count)?;
        layout.packed_len(count)?;
        let (from, to) =
            (from.checked_add(offset).ok_or(outside)?, to.checked_add(offset).ok_or(outside)?);
        if from < 0 || to > self.len().cast_signed() {
            return Err(outside);
        }
        // SAFETY: all data are inside the bytes of `plain`, which are mapped as long as the program
        // promises, or as the lease keeps them.
        let buffer =
            unsafe { UserBuf::new(self.plain.start().wrapping_offset(offset), count, layout) };
        Ok(match &self.memory {
            Some(memory) => buffer.with_lease(Lease::keep(memory.clone())),
            None => buffer,
        })
    }

    /// `count` elements of `layout`, element 0 at `address`, in several regions of the program's
    /// memory, which may be adjacent. Fails if some data are outside.
    pub fn elements_among(
        regions: &[&Exposed],
        address: usize,
        count: usize,
        layout: &Arc<Layout>,
    ) -> Result<UserBuf, LayoutError> {
        let outside = LayoutError::Overflow { what: "place in the window" };
        let (from, to) = layout.span(count)?;
        let len = layout.packed_len(count)?;
        if address.checked_add_signed(from).and(address.checked_add_signed(to)).is_none() {
            return Err(outside);
        }
        let start = std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: the buffer is returned only if all data are inside the bytes of the regions,
        // which are mapped as long as the program promises.
        let buffer = unsafe { UserBuf::new(start, count, layout) };
        let inside = |at: *mut u8, len: usize| {
            let (mut at, end) = (at.addr(), at.addr() + len);
            while at < end {
                let around =
                    regions.iter().filter(|region| region.memory.is_none()).find_map(|region| {
                        let start = region.address();
                        (start..start + region.len()).contains(&at).then_some(start + region.len())
                    });
                let Some(reached) = around else { return false };
                at = reached;
            }
            true
        };
        for at in (0..len).step_by(CHECKED_AT_ONCE) {
            let mut all = true;
            buffer
                .blocks(at, CHECKED_AT_ONCE.min(len - at), |at, len| all = all && inside(at, len));
            if !all {
                return Err(outside);
            }
        }
        Ok(buffer)
    }
}

/// The number of data bytes after which [`Exposed::elements_among`] checks that all were inside.
const CHECKED_AT_ONCE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_sys::bytes::Bytes;

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
        assert!(
            exposed.elements(-1, 0, &backwards).is_err()
                && exposed.elements(64, 0, &backwards).is_ok()
        );
    }

    #[test]
    fn data_lie_in_several_regions() {
        let mut bytes = vec![0u8; 64];
        let start = bytes.as_mut_ptr();
        // SAFETY: the bytes live longer than the regions.
        let region =
            |at: usize, len| Exposed::from(unsafe { PlainBuf::new(start.wrapping_add(at), len) });
        let (a, b, c) = (region(0, 16), region(16, 8), region(32, 32));
        let (address, all) = (a.address(), [&c, &a, &b]);
        let int = Arc::new(Layout::basic(4, 4));
        let apart = Arc::new(Layout::hindexed([(1, 12), (1, 16), (2, 56)], &int).unwrap());
        let buffer = Exposed::elements_among(&all, address, 1, &apart).unwrap();
        buffer.unpack(0, Bytes::from(&[1; 16]));
        let among = |at: usize, count, layout| {
            Exposed::elements_among(&all, address + at, count, layout).is_ok()
        };
        assert!(among(0, 6, &int) && !among(0, 7, &int), "into the gap");
        assert!(!among(4, 1, &apart), "behind the last one");
        assert!(!among(8, 1, &apart) && !among(28, 2, &int));
        assert!(among(32, 8, &int) && !among(32, 9, &int));
        assert!(Exposed::elements_among(&all, usize::MAX - 8, 4, &int).is_err());
        assert!(
            Exposed::elements_among(&all, 0, 1, &int).is_err()
                && Exposed::elements_among(&[], address, 1, &int).is_err()
        );
        drop(buffer);
        let expected: Vec<u8> =
            (0..64).map(|at| u8::from((12..20).contains(&at) || at >= 56)).collect();
        assert_eq!(bytes, expected);
    }
}
