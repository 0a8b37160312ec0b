//! Memory of the program that the device uses for one message: peers read it ([`Adapter::expose`]), or what was read from them is stored there
//! ([`Adapter::register`]).
//!
//! A region holds the buffer, whose memory is mapped as long as that exists, until the device does not know it any more. It is deregistered
//! only when no read into it and no write out of it is under way. What is exposed may be read by a peer at any time before that, and is not written. A region of
//! memory that lasts (`lasting.rs`) shares the registration of that with others, and has none any more when the memory is forgotten.
//!
//! Each region has a *check*, a word that peers may read. Who exposes a region writes a number there that it never uses again, and clears it
//! when what lies in the memory is not the message any more. Who has read the memory, and after that the check, knows by that number that
//! the message was still there.

use super::{Adapter, READ};
use crate::arena::Registered;
use crate::declarations::{
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_SEND_FENCE, IBV_WR_RDMA_READ, Mr, Sge,
};
use crate::library::{Library, VerbsError};
use libc::c_int;
use oxmpi_mem::buffer::UserBuf;
use std::collections::HashMap;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// Checks that lie in one piece of memory.
const CHECKS: usize = 512;

/// Names a region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RegionId(pub u32);

/// Where a peer finds what is exposed to it: addresses with remote keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteMemory {
    /// The memory.
    pub memory: (u64, u32),
    /// Its check.
    pub check: (u64, u32),
}

#[derive(Debug)]
pub(super) struct Region {
    /// Null if its memory was forgotten.
    mr: *mut Mr,
    /// Where the memory begins whose registration this is, if it is not the region's own.
    of: Option<usize>,
    /// Its memory stays mapped as long as this exists.
    buffer: UserBuf,
    start: u64,
    len: usize,
    check: usize,
    /// Reads into it and writes out of it that are under way.
    pub(super) uses: u32,
}

/// All regions of an adapter.
#[derive(Debug, Default)]
pub(super) struct Regions {
    regions: HashMap<u32, Region>,
    next: u32,
    checks: Vec<Registered>,
    free_checks: Vec<usize>,
}

impl Regions {
    /// The device does not use a region for one of the reads or writes any more.
    pub(super) fn use_ended(&mut self, region: RegionId) {
        if let Some(region) = self.regions.get_mut(&region.0) {
            region.uses = region.uses.saturating_sub(1);
        }
    }

    /// The device uses a region for one more read or write.
    pub(super) fn is_used(&mut self, region: RegionId) {
        if let Some(region) = self.regions.get_mut(&region.0) {
            region.uses += 1;
        }
    }

    /// What the device is given for `len` bytes of a region from `offset` on, if they lie in it.
    pub(super) fn part(&self, region: RegionId, (offset, len): (usize, u32)) -> Option<Sge> {
        let known = self.regions.get(&region.0).filter(|known| !known.mr.is_null())?;
        offset.checked_add(len as usize).filter(|end| *end <= known.len)?;
        // SAFETY: the library's description of a region that is registered.
        let lkey = unsafe { (*known.mr).lkey };
        Some(Sge { addr: known.start + offset as u64, length: len, lkey })
    }

    /// The regions of memory that begins there.
    pub(super) fn of(&self, start: usize) -> impl Iterator<Item = &Region> {
        self.regions.values().filter(move |region| region.of == Some(start))
    }

    pub(super) fn is_of(&self, region: RegionId, start: usize) -> bool {
        self.regions.get(&region.0).is_some_and(|region| region.of == Some(start))
    }

    /// The memory that begins there is forgotten.
    pub(super) fn lose_memory(&mut self, start: usize) {
        for region in self.regions.values_mut().filter(|region| region.of == Some(start)) {
            (region.mr, region.of, region.len) = (null_mut(), None, 0);
            region.buffer = UserBuf::empty();
        }
    }

    /// Deregisters everything.
    ///
    /// # Safety
    /// No operation of the device is under way, and there will be none.
    pub(super) unsafe fn free(&mut self, library: &Library) {
        for (_, region) in self.regions.drain() {
            region.end(library);
        }
        for checks in &mut self.checks {
            // SAFETY: as the caller says.
            unsafe { checks.free(library) };
        }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        let checks = &self.checks[at / CHECKS];
        // SAFETY: there are CHECKS words of zeros in it, aligned as a page, which are accessed as atomics alone on this side; the device
        // reads or writes one in one piece.
        unsafe { &*checks.start.cast::<AtomicU64>().add(at % CHECKS) }
    }
}

impl Region {
    /// Deregisters it. A device that still knows its memory keeps the buffer for ever.
    fn end(self, library: &Library) {
        if self.of.is_some() || self.mr.is_null() {
            return;
        }
        // SAFETY: it is registered, and this is its end.
        if unsafe { (library.symbols.dereg_mr)(self.mr) } != 0 {
            std::mem::forget(self.buffer);
        }
    }
}

impl Adapter {
    /// Registers a buffer in one piece, which peers may read from now on.
    ///
    /// # Errors
    /// The memory that a process may lock is exhausted (`ulimit -l`), or the device refuses it.
    pub fn expose(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError> {
        self.add(buffer, IBV_ACCESS_REMOTE_READ)
    }

    /// Registers a buffer in one piece, into which this process reads.
    ///
    /// # Errors
    /// As for [`Adapter::expose`].
    ///
    /// # Panics
    /// If the buffer is read-only.
    pub fn register(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError> {
        let _ = buffer.as_contiguous_mut();
        self.add(buffer, IBV_ACCESS_LOCAL_WRITE)
    }

    pub(super) fn add(&mut self, buffer: &UserBuf, access: c_int) -> Result<RegionId, VerbsError> {
        let Some(bytes) = buffer.as_contiguous().filter(|bytes| !bytes.is_empty()) else {
            return Err(self.error("ibv_reg_mr", libc::EINVAL));
        };
        let (start, len) = (bytes.as_ptr(), bytes.len());
        let check = self.new_check()?;
        let made = self.registration((start, len), access);
        let (mr, of) = made.inspect_err(|_| self.regions.free_checks.push(check))?;
        self.regions.word(check).store(0, Ordering::Release);
        self.regions.next = self.regions.next.wrapping_add(1);
        let region = Region { mr, of, buffer: buffer.clone(), start: start as u64, len, check, uses: 0 };
        self.regions.regions.insert(self.regions.next, region);
        Ok(RegionId(self.regions.next))
    }

    fn new_check(&mut self) -> Result<usize, VerbsError> {
        if self.regions.free_checks.is_empty() {
            let checks = self.with_room(|it| {
                let device = (&*it.settings.device, it.pd);
                Registered::new(&it.library, device, CHECKS * 8, IBV_ACCESS_REMOTE_READ)
            })?;
            let first = self.regions.checks.len() * CHECKS;
            self.regions.checks.push(checks);
            self.regions.free_checks.extend((first..first + CHECKS).rev());
        }
        let device = self.settings.device.clone();
        self.regions.free_checks.pop().ok_or(VerbsError::Exhausted { device, what: "checks" })
    }

    /// Ends a region. `false`: a read into it or a write out of it is under way, and nothing happened.
    pub fn deregister(&mut self, region: RegionId) -> bool {
        let ended = self.regions.regions.extract_if(|at, known| *at == region.0 && known.uses == 0).next();
        if let Some((_, region)) = ended {
            self.regions.free_checks.push(region.check);
            if let Some(start) = region.of {
                self.lasting.unused(start);
            }
            region.end(&self.library);
        }
        !self.regions.regions.contains_key(&region.0)
    }

    /// Where a peer finds a region that is exposed. `None`: there is none, or its memory was forgotten.
    pub fn exposed(&self, region: RegionId) -> Option<RemoteMemory> {
        let known = self.regions.regions.get(&region.0).filter(|known| !known.mr.is_null());
        let Region { mr, start, check, .. } = known?;
        // SAFETY: the library's description of a region that is registered.
        let key = unsafe { (**mr).rkey };
        let word = self.regions.word(*check).as_ptr() as u64;
        Some(RemoteMemory {
            memory: (*start, key),
            check: (word, self.regions.checks[check / CHECKS].remote_key()),
        })
    }

    /// Writes the check of a region.
    pub fn set_check(&mut self, region: RegionId, value: u64) {
        if let Some(region) = self.regions.regions.get(&region.0) {
            self.regions.word(region.check).store(value, Ordering::SeqCst);
        }
    }

    /// The check of a region, which [`Adapter::read_check`] has read there.
    pub fn check_of(&self, region: RegionId) -> u64 {
        let region = self.regions.regions.get(&region.0);
        region.map_or(0, |region| self.regions.word(region.check).load(Ordering::Acquire))
    }

    /// Reads `len` bytes of a peer's memory, at an address with its key, into a region of [`Adapter::register`] from `offset` on. They are
    /// there with [`Operation::Read`](super::Operation::Read).
    ///
    /// # Errors
    /// They do not lie in the region, or what the library says.
    pub fn read(
        &mut self,
        queue_pair: u32,
        region: RegionId,
        (offset, len): (usize, u32),
        from: (u64, u32),
    ) -> Result<(), VerbsError> {
        let Some(sge) = self.regions.part(region, (offset, len)) else {
            return Err(self.error("ibv_post_send", libc::EINVAL));
        };
        self.post_read(queue_pair, region, (0, sge), from)
    }

    /// Reads the check at a peer into that of a region ([`Adapter::check_of`]), after all that is read on the connection by now.
    ///
    /// # Errors
    /// What the library says.
    pub fn read_check(
        &mut self,
        queue_pair: u32,
        region: RegionId,
        from: (u64, u32),
    ) -> Result<(), VerbsError> {
        let Some(known) = self.regions.regions.get(&region.0) else {
            return Err(self.error("ibv_post_send", libc::EINVAL));
        };
        let lkey = self.regions.checks[known.check / CHECKS].local_key();
        let sge = Sge { addr: self.regions.word(known.check).as_ptr() as u64, length: 8, lkey };
        self.post_read(queue_pair, region, (IBV_SEND_FENCE, sge), from)
    }

    fn post_read(
        &mut self,
        queue_pair: u32,
        region: RegionId,
        (flags, sge): (libc::c_uint, Sge),
        from: (u64, u32),
    ) -> Result<(), VerbsError> {
        let name = READ | u64::from(region.0);
        self.post(queue_pair, (IBV_WR_RDMA_READ, flags, name), sge, from)?;
        self.regions.is_used(region);
        Ok(())
    }
}
