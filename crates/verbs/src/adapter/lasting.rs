//! Memory that stays where it is until its owner says that it goes ([`Adapter::keep`], [`Adapter::forget`]), such as that of MPI_Alloc_mem.
//!
//! It is registered as a whole with the first region of it, and stays registered until it is forgotten. What may be locked is limited: if a
//! registration fails for lack of memory, those without a region are given up, the one unused for longest first. Memory that is too long
//! to be registered at all is registered in parts, for each region anew, as any other.

use super::Adapter;
use super::regions::RegionId;
use crate::declarations::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, Mr};
use crate::library::{Library, VerbsError};
use libc::{c_int, c_void};
use oxmpi_mem::buffer::UserBuf;
use std::collections::BTreeMap;
use std::ptr::null_mut;

/// What messages need: peers read the memory, and what is read from peers is stored there.
const MESSAGES: c_int = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;

#[derive(Debug)]
struct Lasting {
    /// It stays mapped as long as this exists.
    buffer: UserBuf,
    len: usize,
    /// Null while it is not registered.
    mr: *mut Mr,
    access: c_int,
    /// Regions of it.
    regions: u32,
    /// When the last of them was made.
    used: u64,
    /// The device has refused to register it as a whole when no other such memory was registered.
    is_too_long: bool,
}

impl Lasting {
    /// A device that still knows the memory keeps it mapped for ever.
    fn deregister(&mut self, library: &Library) {
        if self.mr.is_null() {
            return;
        }
        // SAFETY: it is registered, and this is its end.
        if unsafe { (library.symbols.dereg_mr)(self.mr) } != 0 {
            std::mem::forget(self.buffer.clone());
        }
        self.mr = null_mut();
    }
}

/// All such memory of an adapter, by where it begins.
#[derive(Debug, Default)]
pub(super) struct LastingMemories {
    all: BTreeMap<usize, Lasting>,
    uses: u64,
}

impl LastingMemories {
    /// The memory that has all of these bytes.
    fn around(&mut self, start: usize, len: usize) -> Option<(usize, &mut Lasting)> {
        let (at, lasting) = self.all.range_mut(..=start).next_back()?;
        (len <= lasting.len.saturating_sub(start - at)).then_some((*at, lasting))
    }

    /// A region of it is gone.
    pub(super) fn unused(&mut self, start: usize) {
        if let Some(lasting) = self.all.get_mut(&start) {
            lasting.regions = lasting.regions.saturating_sub(1);
        }
    }

    /// Gives up the registration that has been without a region for longest. Whether there was one.
    fn give_up_one(&mut self, library: &Library) -> bool {
        let unused = self.all.values_mut().filter(|one| !one.mr.is_null() && one.regions == 0);
        let oldest = unused.min_by_key(|one| one.used);
        oldest.map(|lasting| lasting.deregister(library)).is_some()
    }

    /// Deregisters everything.
    pub(super) fn free(&mut self, library: &Library) {
        for mut lasting in std::mem::take(&mut self.all).into_values() {
            lasting.deregister(library);
        }
    }
}

impl Adapter {
    /// This memory, in one piece, stays where it is until [`Adapter::forget`]: it need not be registered anew for each region. Memory that
    /// overlaps some that is known already is not kept.
    pub fn keep(&mut self, memory: &UserBuf) {
        let Some(bytes) = memory.as_contiguous().filter(|bytes| !bytes.is_empty()) else { return };
        let (start, len) = (bytes.as_ptr().addr(), bytes.len());
        let before = self.lasting.all.range(..start.saturating_add(len)).next_back();
        if before.is_some_and(|(at, known)| at.saturating_add(known.len) > start) {
            return;
        }
        let buffer = memory.clone();
        let (mr, access, regions, used, is_too_long) = (null_mut(), 0, 0, 0, false);
        self.lasting.all.insert(start, Lasting { buffer, len, mr, access, regions, used, is_too_long });
    }

    /// The memory that begins there goes: the device knows nothing of it any more, and peers that still read it fail. `false`: a read into it
    /// is under way, and nothing happened. `true` also if no such memory is known.
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

    /// Whether a region is of the memory that begins there.
    pub fn is_of(&self, region: RegionId, start: usize) -> bool {
        self.regions.is_of(region, start)
    }

    /// The registration for a region of these bytes, with this access at least, and where the memory begins whose registration it is.
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

    /// Registers memory, for which registrations that nothing uses make room.
    fn register_memory(
        &mut self,
        (start, len): (*const u8, usize),
        access: c_int,
    ) -> Result<*mut Mr, VerbsError> {
        self.with_room(|it| {
            let symbols = it.library.symbols;
            // SAFETY: the domain is open, and the memory is mapped as long as the region, or what is kept of it, holds its buffer. The
            // device writes there only by `read`, which is given regions of `register`, and for peers, which are given keys of
            // `open_to_peers`: callers of both have promised that the memory may be written.
            let mr = unsafe { (symbols.reg_mr)(it.pd, start.cast_mut().cast::<c_void>(), len, access) };
            it.made("ibv_reg_mr", mr)
        })
    }

    /// Tries to make something that takes memory which may be locked, until it is made or no registration is left that nothing uses.
    pub(super) fn with_room<T>(
        &mut self,
        mut make: impl FnMut(&mut Adapter) -> Result<T, VerbsError>,
    ) -> Result<T, VerbsError> {
        loop {
            match make(self) {
                Err(error) if error.is_out_of_memory() && self.lasting.give_up_one(&self.library) => {}
                made => return made,
            }
        }
    }
}
