//! Memory of the program that the device uses for one message: peers read it ([`Adapter::expose`]),
//! or reads from peers store into it ([`Adapter::register`]).
//!
//! A region holds its buffer, and thereby the mapping, until it is deregistered, which is possible
//! only when no read into it and no write from it is under way. Until then a peer may read exposed
//! memory at any time, and the program does not write it. A region of lasting memory (`lasting.rs`)
//! shares the registration of that memory, and loses it when the memory is forgotten.
//!
//! Each region has a *check*, a word that peers may read. The process that exposes a region stores
//! a number there that it never uses again, and clears it when the memory no longer has the
//! message. A peer that reads the memory, and the check after that, knows by the number that the
//! message was still there.

use super::{Adapter, READ};
use crate::arena::RegisteredMemory;
use crate::declarations::{
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_SEND_FENCE, IBV_WR_RDMA_READ, Mr, Sge,
};
use crate::library::{VerbsError, VerbsLibrary};
use libc::c_int;
use oxmpi_mem::buffer::UserBuf;
use std::collections::HashMap;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

const CHECKS: usize = 512;

/// The number of a region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RegionId(pub u32);

/// Exposed memory for a peer: addresses with remote keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteMemory {
    pub memory: (u64, u32),
    pub check: (u64, u32),
}

#[derive(Debug)]
pub(super) struct RegisteredRegion {
    /// Null if its memory was forgotten.
    mr: *mut Mr,
    /// The start of the lasting memory whose registration this is.
    of: Option<usize>,
    /// Keeps the memory mapped.
    buffer: UserBuf,
    start: u64,
    len: usize,
    check: usize,
    /// The number of reads into it and writes from it that are under way.
    pub(super) uses: u32,
}

#[derive(Debug, Default)]
pub(super) struct Regions {
    regions: HashMap<u32, RegisteredRegion>,
    next: u32,
    checks: Vec<RegisteredMemory>,
    free_checks: Vec<usize>,
}

impl Regions {
    pub(super) fn use_ended(&mut self, region: RegionId) {
        if let Some(region) = self.regions.get_mut(&region.0) {
            region.uses = region.uses.saturating_sub(1);
        }
    }

    pub(super) fn is_used(&mut self, region: RegionId) {
        if let Some(region) = self.regions.get_mut(&region.0) {
            region.uses += 1;
        }
    }

    /// The scatter/gather element for `len` bytes of a region from `offset` on, if they lie in it.
    pub(super) fn part(&self, region: RegionId, (offset, len): (usize, u32)) -> Option<Sge> {
        let known = self.regions.get(&region.0).filter(|known| !known.mr.is_null())?;
        offset.checked_add(len as usize).filter(|end| *end <= known.len)?;
        // SAFETY: the library's description of a registered region.
        let lkey = unsafe { (*known.mr).lkey };
        Some(Sge { addr: known.start + offset as u64, length: len, lkey })
    }

    pub(super) fn of(&self, start: usize) -> impl Iterator<Item = &RegisteredRegion> {
        self.regions.values().filter(move |region| region.of == Some(start))
    }

    pub(super) fn is_of(&self, region: RegionId, start: usize) -> bool {
        self.regions.get(&region.0).is_some_and(|region| region.of == Some(start))
    }

    pub(super) fn lose_memory(&mut self, start: usize) {
        for region in self.regions.values_mut().filter(|region| region.of == Some(start)) {
            (region.mr, region.of, region.len) = (null_mut(), None, 0);
            region.buffer = UserBuf::empty();
        }
    }

    /// Deregisters everything.
    ///
    /// # Safety
    /// No operation of the device is under way, and none follows.
    pub(super) unsafe fn free(&mut self, library: &VerbsLibrary) {
        for (_, region) in self.regions.drain() {
            region.end(library);
        }
        for checks in &mut self.checks {
            // SAFETY: the caller guarantees that no operation is under way.
            unsafe { checks.free(library) };
        }
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        let checks = &self.checks[at / CHECKS];
        // SAFETY: it has CHECKS zeroed words, aligned to a page, which this process accesses only
        // as atomics; the device reads or writes one in one piece.
        unsafe { &*checks.start.cast::<AtomicU64>().add(at % CHECKS) }
    }
}

impl RegisteredRegion {
    /// Ends the registration. If the device refuses, the buffer is kept for ever.
    fn end(self, library: &VerbsLibrary) {
        if self.of.is_some() || self.mr.is_null() {
            return;
        }
        // SAFETY: it is registered, and deregistered once.
        if unsafe { (library.symbols.ibv_dereg_mr)(self.mr) } != 0 {
            std::mem::forget(self.buffer);
        }
    }
}

impl Adapter {
    /// Registers a contiguous buffer, which peers may read from now on. Fails if the limit on
    /// locked memory (`ulimit -l`) is reached, or if the device refuses the buffer.
    pub fn expose(&mut self, buffer: &UserBuf) -> Result<RegionId, VerbsError> {
        self.add(buffer, IBV_ACCESS_REMOTE_READ)
    }

    /// Registers a contiguous buffer as the destination of reads. Panics if it is read-only.
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
        let region = RegisteredRegion {
            mr,
            of,
            buffer: buffer.clone(),
            start: start as u64,
            len,
            check,
            uses: 0,
        };
        self.regions.regions.insert(self.regions.next, region);
        Ok(RegionId(self.regions.next))
    }

    fn new_check(&mut self) -> Result<usize, VerbsError> {
        if self.regions.free_checks.is_empty() {
            let checks = self.with_room(|it| {
                let device = (&*it.settings.device, it.pd);
                RegisteredMemory::new(&it.library, device, CHECKS * 8, IBV_ACCESS_REMOTE_READ)
            })?;
            let first = self.regions.checks.len() * CHECKS;
            self.regions.checks.push(checks);
            self.regions.free_checks.extend((first..first + CHECKS).rev());
        }
        let device = self.settings.device.clone();
        self.regions.free_checks.pop().ok_or(VerbsError::Exhausted { device, what: "checks" })
    }

    /// Ends a region. Returns `false` and does nothing while an operation of it is under way.
    pub fn deregister(&mut self, region: RegionId) -> bool {
        let ended =
            self.regions.regions.extract_if(|at, known| *at == region.0 && known.uses == 0).next();
        if let Some((_, region)) = ended {
            self.regions.free_checks.push(region.check);
            if let Some(start) = region.of {
                self.lasting.unused(start);
            }
            region.end(&self.library);
        }
        !self.regions.regions.contains_key(&region.0)
    }

    /// The addresses of an exposed region for a peer; `None` if its memory was forgotten.
    pub fn exposed(&self, region: RegionId) -> Option<RemoteMemory> {
        let known = self.regions.regions.get(&region.0).filter(|known| !known.mr.is_null());
        let RegisteredRegion { mr, start, check, .. } = known?;
        // SAFETY: the library's description of a registered region.
        let key = unsafe { (**mr).rkey };
        let word = self.regions.word(*check).as_ptr() as u64;
        Some(RemoteMemory {
            memory: (*start, key),
            check: (word, self.regions.checks[check / CHECKS].remote_key()),
        })
    }

    /// Stores the check of a region.
    pub fn set_check(&mut self, region: RegionId, value: u64) {
        if let Some(region) = self.regions.regions.get(&region.0) {
            self.regions.word(region.check).store(value, Ordering::SeqCst);
        }
    }

    /// The check of a region, or the result of [`Adapter::read_check`].
    pub fn check_of(&self, region: RegionId) -> u64 {
        let region = self.regions.regions.get(&region.0);
        region.map_or(0, |region| self.regions.word(region.check).load(Ordering::Acquire))
    }

    /// Reads `len` bytes of a peer's memory, at an address with its key, into a region of
    /// [`Adapter::register`] from `offset` on. Ends with
    /// [`AdapterOperation::Read`](super::AdapterOperation::Read).
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

    /// Reads the check at a peer into that of a region ([`Adapter::check_of`]), after all earlier
    /// reads on the connection.
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
