//! Memory of the program that interfaces read or write for one message: gm_put() takes bytes from a region and writes them into one of the
//! target, gm_get() reads them there.
//!
//! A region holds the buffer, whose memory is mapped as long as that exists, until nothing that was begun with it is under way. GM registers
//! whole pages, and counts how often a page is registered, so regions may overlap.

use crate::declarations::GM_LOW_PRIORITY;
use crate::library::GmError;
use crate::port::{GmOperation, GmTarget, OpenPort, WordId, callback};
use libc::{c_ulong, c_void};
use oxmpi_mem::buffer::UserBuf;
use std::collections::HashMap;

/// Names a region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GmRegion(pub u32);

#[derive(Debug)]
struct Region {
    /// Its memory stays mapped as long as this exists.
    _buffer: UserBuf,
    start: *mut u8,
    len: usize,
    /// What was begun with it and is under way.
    uses: u32,
    is_registered: bool,
}

/// All regions of a port.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    regions: HashMap<u32, Region>,
    next: u32,
}

impl Regions {
    /// Something that was begun with a region is over.
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
    /// Registers a buffer in one piece: this interface reads it for [`OpenPort::put`] and writes it for [`OpenPort::get`], and peers that
    /// know its address do the reverse.
    ///
    /// # Errors
    /// GM refuses it: as a rule there is not so much memory that may be pinned.
    pub fn register(&mut self, buffer: &UserBuf) -> Result<GmRegion, GmError> {
        let Some(bytes) = buffer.as_contiguous().filter(|bytes| !bytes.is_empty()) else {
            return Err(GmError::Exhausted { port: self.number(), what: "memory in one piece" });
        };
        let (start, len) = (bytes.as_ptr().cast_mut(), bytes.len());
        let library = self.library().clone();
        // SAFETY: the port is open, and the memory is mapped as long as the region holds its buffer. What is written there are answers to
        // `get`, and puts of peers that have been given the address: whoever gives it away has promised that it may be written.
        let status =
            unsafe { (library.symbols.register_memory)(self.raw(), start.cast::<c_void>(), len as c_ulong) };
        library.check("gm_register_memory", status)?;
        let regions = self.regions();
        regions.next = regions.next.wrapping_add(1);
        let region = Region { _buffer: buffer.clone(), start, len, uses: 0, is_registered: true };
        let name = regions.next;
        regions.regions.insert(name, region);
        Ok(GmRegion(name))
    }

    /// Ends a region: no interface reads or writes its memory by the address that it had. What was begun with it ends all the same.
    pub fn deregister(&mut self, region: GmRegion) {
        let raw = self.raw();
        let deregister = self.library().symbols.deregister_memory;
        let Some(known) = self.regions().regions.get_mut(&region.0).filter(|known| known.is_registered)
        else {
            return;
        };
        known.is_registered = false;
        // SAFETY: it was registered with these arguments, and is mapped still.
        unsafe { deregister(raw, known.start.cast::<c_void>(), known.len as c_ulong) };
        if known.uses == 0 {
            self.regions().regions.remove(&region.0);
        }
    }

    /// The address of a region, for peers; 0: there is none.
    pub fn region_address(&self, region: GmRegion) -> u64 {
        self.known_regions().regions.get(&region.0).map_or(0, |known| known.start as u64)
    }

    /// Writes all of a region into memory of a peer's that is registered there, at this address. It takes a send token.
    ///
    /// # Errors
    /// There is no token, or no such region.
    pub fn put(&mut self, label: u32, to: GmTarget, region: GmRegion, address: u64) -> Result<(), GmError> {
        let (start, len) = self.use_region(region)?;
        let context = self.record_for(region, label, GmOperation::Put(region))?;
        let put = self.library().symbols.put;
        // SAFETY: the region is registered and holds its memory until the callback; the record stays.
        unsafe {
            put(self.raw(), start, address, len, GM_LOW_PRIORITY, to.node, to.port, callback, context);
        }
        Ok(())
    }

    /// Fills a region from memory of a peer's that is registered there, at this address. It takes a send token.
    ///
    /// # Errors
    /// There is no token, or no such region.
    pub fn get(&mut self, label: u32, to: GmTarget, region: GmRegion, address: u64) -> Result<(), GmError> {
        let (start, len) = self.use_region(region)?;
        let context = self.record_for(region, label, GmOperation::Get(region))?;
        let get = self.library().symbols.get;
        // SAFETY: as for `put`; the caller of `register` lets it be written.
        unsafe {
            get(self.raw(), address, start, len, GM_LOW_PRIORITY, to.node, to.port, callback, context);
        }
        Ok(())
    }

    /// Reads a word of a peer's into one of this process's own, where [`OpenPort::word`] finds it. It takes a send token. One at a time
    /// for each word, which no peer writes.
    ///
    /// # Errors
    /// There is no token, or no such word.
    pub fn get_word(&mut self, label: u32, to: GmTarget, word: WordId, address: u64) -> Result<(), GmError> {
        let place = self.word_address(word);
        if place == 0 {
            return Err(GmError::Exhausted { port: self.number(), what: "words" });
        }
        let context = self.record(label, GmOperation::GetWord(word))?;
        let get = self.library().symbols.get;
        // SAFETY: eight bytes in GM's memory, which lives as long as the port; the record stays.
        unsafe {
            let into = place as *mut c_void;
            get(self.raw(), address, into, 8, GM_LOW_PRIORITY, to.node, to.port, callback, context);
        }
        Ok(())
    }

    /// Where a region lies. One that was ended has no memory for anything new.
    fn use_region(&mut self, region: GmRegion) -> Result<(*mut c_void, c_ulong), GmError> {
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
