//! Memory of the program that interfaces read or write: gm_put() copies a region into a region of
//! the target, and gm_get() copies a region of the target into a region.
//!
//! A region holds its buffer, and so keeps it mapped, until no operation uses it. GM registers
//! whole pages and counts the registrations of each page, so regions may overlap.

use crate::library::GmError;
use crate::port::{GmOperation, GmTarget, OpenPort, WordId};
use libc::{c_ulong, c_void};
use oxmpi_mem::buffer::UserBuf;
use std::collections::HashMap;

/// The number of a region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GmRegion(pub u32);

#[derive(Debug)]
struct RegisteredBuffer {
    _buffer: UserBuf,
    start: *mut u8,
    len: usize,
    /// The number of its operations under way.
    uses: u32,
    is_registered: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Regions {
    regions: HashMap<u32, RegisteredBuffer>,
    next: u32,
}

impl Regions {
    pub(crate) fn ended(&mut self, region: GmRegion) {
        if let Some(known) = self.regions.get_mut(&region.0) {
            known.uses = known.uses.saturating_sub(1);
            if known.uses == 0 && !known.is_registered {
                self.regions.remove(&region.0);
            }
        }
    }
}

impl OpenPort {
    /// Registers a contiguous buffer. [`OpenPort::put`] reads it and [`OpenPort::get`] writes it.
    /// Peers that have its address may read and write it, too.
    ///
    /// # Errors
    /// GM refuses it, usually because the limit on pinned memory is reached.
    pub fn register(&mut self, buffer: &UserBuf) -> Result<GmRegion, GmError> {
        let Some(bytes) = buffer.as_contiguous().filter(|bytes| !bytes.is_empty()) else {
            return Err(GmError::Exhausted { port: self.number(), what: "memory in one piece" });
        };
        let (start, len) = (bytes.as_ptr().cast_mut(), bytes.len());
        let library = self.library().clone();
        // SAFETY: the port is open, and the region's buffer keeps the memory mapped. Only results
        // of `get` are written there, and puts of peers that got the address: the caller that
        // passes the address on guarantees that writes are allowed.
        let status = unsafe {
            (library.symbols.gm_register_memory)(self.raw(), start.cast::<c_void>(), len as c_ulong)
        };
        library.check("gm_register_memory", status)?;
        let regions = self.regions();
        regions.next = regions.next.wrapping_add(1);
        let region =
            RegisteredBuffer { _buffer: buffer.clone(), start, len, uses: 0, is_registered: true };
        let name = regions.next;
        regions.regions.insert(name, region);
        Ok(GmRegion(name))
    }

    /// Ends a region: its address is invalid for peers. Its operations under way still end.
    pub fn deregister(&mut self, region: GmRegion) {
        let raw = self.raw();
        let deregister = self.library().symbols.gm_deregister_memory;
        let Some(known) =
            self.regions().regions.get_mut(&region.0).filter(|known| known.is_registered)
        else {
            return;
        };
        known.is_registered = false;
        // SAFETY: it was registered with these arguments, and is still mapped.
        unsafe { deregister(raw, known.start.cast::<c_void>(), known.len as c_ulong) };
        if known.uses == 0 {
            self.regions().regions.remove(&region.0);
        }
    }

    /// The address of a region, for peers; 0 if there is no such region.
    pub fn region_address(&self, region: GmRegion) -> u64 {
        self.known_regions().regions.get(&region.0).map_or(0, |known| known.start as u64)
    }

    /// Writes a region into registered memory of a peer at `address`. It takes a send token.
    pub fn put(
        &mut self,
        label: u32,
        to: GmTarget,
        region: GmRegion,
        address: u64,
    ) -> Result<(), GmError> {
        let (start, len) = self.region_memory(region)?;
        let context = self.record_for(region, label, GmOperation::Put(region))?;
        // SAFETY: the region holds its registered memory until the callback; the record stays.
        unsafe { self.begin_put(to, (start, len), address, context) };
        Ok(())
    }

    /// Fills a region from registered memory of a peer at `address`. It takes a send token.
    pub fn get(
        &mut self,
        label: u32,
        to: GmTarget,
        region: GmRegion,
        address: u64,
    ) -> Result<(), GmError> {
        let (start, len) = self.region_memory(region)?;
        let context = self.record_for(region, label, GmOperation::Get(region))?;
        // SAFETY: the region is registered and holds its memory until the callback; the record
        // stays. The caller of `register` allows writes.
        unsafe { self.begin_get(to, (start, len), address, context) };
        Ok(())
    }

    /// Reads a word of a peer into a word of this process ([`OpenPort::word`]) that no peer writes.
    /// It takes a send token. For each word, one read at a time may be under way.
    pub fn get_word(
        &mut self,
        label: u32,
        to: GmTarget,
        word: WordId,
        address: u64,
    ) -> Result<(), GmError> {
        let place = self.word_address(word);
        if place == 0 {
            return Err(GmError::Exhausted { port: self.number(), what: "words" });
        }
        let context = self.record(label, GmOperation::GetWord(word))?;
        // SAFETY: eight bytes in GM's memory, which lives as long as the port; the record stays.
        unsafe { self.begin_get(to, (place as *mut c_void, 8), address, context) };
        Ok(())
    }

    fn region_memory(&mut self, region: GmRegion) -> Result<(*mut c_void, c_ulong), GmError> {
        let exhausted = GmError::Exhausted { port: self.number(), what: "regions" };
        let known = self.regions().regions.get(&region.0).filter(|known| known.is_registered);
        known.map(|known| (known.start.cast(), known.len as c_ulong)).ok_or(exhausted)
    }

    fn record_for(
        &mut self,
        region: GmRegion,
        label: u32,
        operation: GmOperation,
    ) -> Result<*mut c_void, GmError> {
        let context = self.record(label, operation)?;
        if let Some(known) = self.regions().regions.get_mut(&region.0) {
            known.uses += 1;
        }
        Ok(context)
    }
}
