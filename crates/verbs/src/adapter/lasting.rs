//! Memory whose owner announces its end ([`Adapter::keep`], [`Adapter::forget`]), such as that of
//! MPI_Alloc_mem.
//!
//! It is registered as a whole with its first region, and stays registered until it is forgotten.
//! Locked memory is limited: if a registration fails for lack of memory, registrations without a
//! region are released, the least recently used first. Memory that is too long for one registration
//! is registered in parts, for each region anew, as other memory is.

use super::Adapter;
use super::regions::RegionId;
use crate::declarations::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, Mr};
use crate::library::{VerbsError, VerbsLibrary};
use libc::{c_int, c_void};
use oxmpi_mem::buffer::UserBuf;
use std::collections::BTreeMap;
use std::ptr::null_mut;

/// The access of messages: peers read the memory, and reads from peers store into it.
const MESSAGES: c_int = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;

#[derive(Debug)]
struct LastingMemory {
    /// Keeps the memory mapped.
    buffer: UserBuf,
    len: usize,
    /// Null while it is not registered.
    mr: *mut Mr,
    access: c_int,
    regions: u32,
    /// The sequence number of its last region.
    used: u64,
    /// Whether the device has refused the whole memory when no other was registered.
    is_too_long: bool,
}

impl LastingMemory {
    /// Ends the registration. If the device refuses, the memory stays mapped for ever.
    fn deregister(&mut self, library: &VerbsLibrary) {
        if self.mr.is_null() {
            return;
        }
        // SAFETY: it is registered, and deregistered once.
        if unsafe { (library.symbols.ibv_dereg_mr)(self.mr) } != 0 {
            std::mem::forget(self.buffer.clone());
        }
        self.mr = null_mut();
    }
}

#[derive(Debug, Default)]
pub(super) struct LastingMemories {
    all: BTreeMap<usize, LastingMemory>,
    uses: u64,
}

impl LastingMemories {
    fn around(&mut self, start: usize, len: usize) -> Option<(usize, &mut LastingMemory)> {
        let (at, lasting) = self.all.range_mut(..=start).next_back()?;
        (len <= lasting.len.saturating_sub(start - at)).then_some((*at, lasting))
    }

    /// A region of the memory was removed.
    pub(super) fn unused(&mut self, start: usize) {
        if let Some(lasting) = self.all.get_mut(&start) {
            lasting.regions = lasting.regions.saturating_sub(1);
        }
    }

    /// Releases the least recently used registration without a region, if there is one.
    fn give_up_one(&mut self, library: &VerbsLibrary) -> bool {
        let unused = self.all.values_mut().filter(|one| !one.mr.is_null() && one.regions == 0);
        let oldest = unused.min_by_key(|one| one.used);
        oldest.map(|lasting| lasting.deregister(library)).is_some()
    }

    pub(super) fn free(&mut self, library: &VerbsLibrary) {
        for mut lasting in std::mem::take(&mut self.all).into_values() {
            lasting.deregister(library);
        }
    }
}

impl Adapter {
    /// Declares that contiguous memory stays in place until [`Adapter::forget`], so that regions of
    /// it share one registration. Memory that overlaps known memory is ignored.
    pub fn keep(&mut self, memory: &UserBuf) {
        let Some(bytes) = memory.as_contiguous().filter(|bytes| !bytes.is_empty()) else { return };
        let (start, len) = (bytes.as_ptr().addr(), bytes.len());
        let before = self.lasting.all.range(..start.saturating_add(len)).next_back();
        if before.is_some_and(|(at, known)| at.saturating_add(known.len) > start) {
            return;
        }
        let buffer = memory.clone();
        let (mr, access, regions, used, is_too_long) = (null_mut(), 0, 0, 0, false);
        self.lasting
            .all
            .insert(start, LastingMemory { buffer, len, mr, access, regions, used, is_too_long });
    }

    /// Ends the registration of the memory at `start`, so that later reads of peers fail. Returns
    /// `false` and does nothing while a read into it is under way; `true` also if no such memory is
    /// known.
    pub fn forget(&mut self, start: usize) -> bool {
        if self.regions.of(start).any(|region| region.uses > 0) {
            return false;
        }
        if let Some(mut lasting) = self.lasting.all.remove(&start) {
            self.regions.lose_memory(start);
            lasting.deregister(&self.library);
        }
        true
    }

    /// Whether a region belongs to the memory at `start`.
    pub fn is_of(&self, region: RegionId, start: usize) -> bool {
        self.regions.is_of(region, start)
    }

    /// A registration for a region of these bytes with at least this access, and the start of the
    /// lasting memory that it belongs to.
    pub(super) fn registration(
        &mut self,
        (start, len): (*const u8, usize),
        access: c_int,
    ) -> Result<(*mut Mr, Option<usize>), VerbsError> {
        if let Some(found) = self.lasting_registration(start.addr(), len, access) {
            return Ok(found);
        }
        let made = self.register_memory((start, len), access)?;
        Ok((made, None))
    }

    fn lasting_registration(
        &mut self,
        start: usize,
        len: usize,
        access: c_int,
    ) -> Option<(*mut Mr, Option<usize>)> {
        self.lasting.uses += 1;
        let used = self.lasting.uses;
        let (at, lasting) = self.lasting.around(start, len)?;
        if lasting.mr.is_null() {
            if lasting.is_too_long {
                return None;
            }
            let whole = (lasting.buffer.as_ptr().cast_const(), lasting.len);
            let made = self.register_memory(whole, access | MESSAGES);
            let is_alone = self.lasting.all.values().all(|one| one.mr.is_null());
            let lasting = self.lasting.all.get_mut(&at)?;
            match made {
                Ok(mr) => (lasting.mr, lasting.access) = (mr, access | MESSAGES),
                Err(_) => {
                    lasting.is_too_long = is_alone;
                    return None;
                }
            }
        }
        let lasting = self.lasting.all.get_mut(&at)?;
        if access & !lasting.access != 0 {
            return None;
        }
        lasting.used = used;
        lasting.regions += 1;
        Some((lasting.mr, Some(at)))
    }

    /// Registers memory; unused registrations make room for it.
    fn register_memory(
        &mut self,
        (start, len): (*const u8, usize),
        access: c_int,
    ) -> Result<*mut Mr, VerbsError> {
        self.with_room(|it| {
            let symbols = it.library.symbols;
            // SAFETY: the domain is open, and the region, or the lasting memory, holds the buffer
            // and so its mapping. The device writes there only by `read`, into regions of
            // `register`, and for peers with keys of `open_to_peers`: callers of both guarantee
            // that writes are allowed.
            let mr = unsafe {
                (symbols.ibv_reg_mr)(it.pd, start.cast_mut().cast::<c_void>(), len, access)
            };
            it.made("ibv_reg_mr", mr)
        })
    }

    /// Repeats `make`, which locks memory, while it fails and a registration can be released.
    pub(super) fn with_room<T>(
        &mut self,
        mut make: impl FnMut(&mut Adapter) -> Result<T, VerbsError>,
    ) -> Result<T, VerbsError> {
        loop {
            match make(self) {
                Err(error)
                    if error.is_out_of_memory() && self.lasting.give_up_one(&self.library) => {}
                made => return made,
            }
        }
    }
}
