//! Registered memory, divided into slots of one length.

use crate::adapter::SlotId;
use crate::declarations::{IBV_ACCESS_LOCAL_WRITE, Mr, Opaque, Sge};
use crate::library::{VerbsError, VerbsLibrary, last_errno};
use libc::{c_int, c_void};
use std::ptr::null_mut;
use std::slice;

/// Memory of this process that a device may access.
#[derive(Debug)]
pub(crate) struct RegisteredMemory {
    pub(crate) start: *mut u8,
    len: usize,
    mr: *mut Mr,
}

impl RegisteredMemory {
    /// `len` zeroed bytes, which the device may read and write, and peers as `access` permits.
    pub(crate) fn new(
        library: &VerbsLibrary,
        (device, pd): (&str, *mut Opaque),
        len: usize,
        access: c_int,
    ) -> Result<RegisteredMemory, VerbsError> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(null_mut(), len, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(library.error(device, "mmap", last_errno()));
        }
        // SAFETY: the domain is open, and the memory belongs to this value until it is
        // deregistered.
        let mr = unsafe {
            (library.symbols.ibv_reg_mr)(pd, start, len, IBV_ACCESS_LOCAL_WRITE | access)
        };
        if mr.is_null() {
            let errno = last_errno();
            // SAFETY: the mapping was made above, and nothing uses it.
            unsafe { libc::munmap(start, len) };
            return Err(library.error(device, "ibv_reg_mr", errno));
        }
        Ok(RegisteredMemory { start: start.cast(), len, mr })
    }

    /// Deregisters and unmaps it.
    ///
    /// # Safety
    /// No operation of the device that is under way uses it.
    pub(crate) unsafe fn free(&mut self, library: &VerbsLibrary) {
        // SAFETY: it is registered and mapped once; the caller guarantees that nothing uses it.
        unsafe {
            if (library.symbols.ibv_dereg_mr)(self.mr) == 0 {
                libc::munmap(self.start.cast::<c_void>(), self.len);
            }
        }
    }

    pub(crate) fn local_key(&self) -> u32 {
        // SAFETY: the library's description of a registered region.
        unsafe { (*self.mr).lkey }
    }

    pub(crate) fn remote_key(&self) -> u32 {
        // SAFETY: the library's description of a registered region.
        unsafe { (*self.mr).rkey }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SlotState {
    Own,
    Posted,
}

#[derive(Debug, Default)]
pub(crate) struct Arena {
    pub(crate) slot_len: usize,
    per_region: usize,
    pub(crate) regions: Vec<RegisteredMemory>,
    states: Vec<SlotState>,
}

impl Arena {
    pub(crate) fn new(slot_len: usize, per_region: usize) -> Arena {
        Arena { slot_len, per_region, regions: Vec::new(), states: Vec::new() }
    }

    pub(crate) fn grow(
        &mut self,
        region: impl FnOnce(usize) -> Result<RegisteredMemory, VerbsError>,
    ) -> Result<Vec<SlotId>, VerbsError> {
        self.regions.push(region(self.slot_len * self.per_region)?);
        let first = self.states.len();
        self.states.resize(first + self.per_region, SlotState::Own);
        Ok((first..self.states.len()).map(|at| SlotId(at as u32)).collect())
    }

    fn place(&self, slot: SlotId) -> Option<(&RegisteredMemory, *mut u8)> {
        let at = slot.0 as usize;
        let region = self.regions.get(at / self.per_region)?;
        let offset = at % self.per_region * self.slot_len;
        // SAFETY: the region has `per_region` slots, so the offset lies within it.
        Some((region, unsafe { region.start.add(offset) }))
    }

    fn is_own(&self, slot: SlotId) -> bool {
        self.states.get(slot.0 as usize) == Some(&SlotState::Own)
    }

    /// The bytes of a slot; none while the device has it.
    pub(crate) fn slot(&self, slot: SlotId) -> &[u8] {
        match self.place(slot) {
            // SAFETY: the slot lies within its region, and the device does not have it, so only
            // `slot_mut` changes its bytes.
            Some((_, start)) if self.is_own(slot) => unsafe {
                slice::from_raw_parts(start, self.slot_len)
            },
            _ => &[],
        }
    }

    /// The writable bytes of a slot; none while the device has it.
    pub(crate) fn slot_mut(&mut self, slot: SlotId) -> &mut [u8] {
        match self.place(slot) {
            // SAFETY: the slot lies within its region, the device does not have it, and the arena
            // is borrowed mutably.
            Some((_, start)) if self.is_own(slot) => unsafe {
                slice::from_raw_parts_mut(start, self.slot_len)
            },
            _ => &mut [],
        }
    }

    /// Gives the first `len` bytes of a slot to the device; `None` if the device has it already.
    pub(crate) fn lend(&mut self, slot: SlotId, len: usize) -> Option<Sge> {
        if !self.is_own(slot) {
            return None;
        }
        let (region, start) = self.place(slot)?;
        let sge = Sge {
            addr: start as u64,
            length: len.min(self.slot_len) as u32,
            lkey: region.local_key(),
        };
        self.states[slot.0 as usize] = SlotState::Posted;
        Some(sge)
    }

    pub(crate) fn take_back(&mut self, slot: SlotId) {
        if let Some(state) = self.states.get_mut(slot.0 as usize) {
            *state = SlotState::Own;
        }
    }
}
