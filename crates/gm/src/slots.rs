//! Memory that GM has allocated, divided into slots of one length.

use std::collections::HashMap;
use std::slice;

/// A piece of memory for one message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GmSlot(pub u32);

#[derive(Debug)]
struct Place {
    start: *mut u8,
    /// GM has it.
    is_lent: bool,
}

/// All slots of a port.
#[derive(Debug)]
pub(crate) struct Slots {
    len: usize,
    places: Vec<Place>,
    by_address: HashMap<usize, GmSlot>,
}

impl Slots {
    /// None yet; each will be so many bytes long.
    pub(crate) fn new(len: usize) -> Slots {
        Slots { len, places: Vec::new(), by_address: HashMap::new() }
    }

    pub(crate) fn slot_len(&self) -> usize {
        self.len
    }

    /// From one slot to the next, bytes: no cache line belongs to two.
    pub(crate) fn stride(&self) -> usize {
        self.len.next_multiple_of(64)
    }

    /// Adds `count` slots, and says which.
    ///
    /// # Safety
    /// There are `count` times [`Slots::stride`] bytes of zeros at `start`, which nothing else uses as long as this value lives.
    pub(crate) unsafe fn add(&mut self, start: *mut u8, count: usize) -> Vec<GmSlot> {
        let first = self.places.len();
        for at in 0..count {
            // SAFETY: it lies within the memory that the caller speaks of.
            let start = unsafe { start.add(at * self.stride()) };
            self.by_address.insert(start as usize, GmSlot((first + at) as u32));
            self.places.push(Place { start, is_lent: false });
        }
        (first..first + count).map(|at| GmSlot(at as u32)).collect()
    }

    /// Which slot begins at an address.
    pub(crate) fn at(&self, address: usize) -> Option<GmSlot> {
        self.by_address.get(&address).copied()
    }

    /// The bytes of a slot; none while GM has it.
    pub(crate) fn slot(&self, slot: GmSlot) -> &[u8] {
        match self.places.get(slot.0 as usize) {
            // SAFETY: GM does not have it, so its bytes change by `slot_mut` alone.
            Some(place) if !place.is_lent => unsafe { slice::from_raw_parts(place.start, self.len) },
            _ => &[],
        }
    }

    /// As [`Slots::slot`], to be filled.
    pub(crate) fn slot_mut(&mut self, slot: GmSlot) -> &mut [u8] {
        match self.places.get(slot.0 as usize) {
            // SAFETY: as for `slot`; this value is borrowed for as long.
            Some(place) if !place.is_lent => unsafe { slice::from_raw_parts_mut(place.start, self.len) },
            _ => &mut [],
        }
    }

    /// The address of a slot, which GM has from now on. `None`: it has it already.
    pub(crate) fn lend(&mut self, slot: GmSlot) -> Option<*mut u8> {
        let place = self.places.get_mut(slot.0 as usize).filter(|place| !place.is_lent)?;
        place.is_lent = true;
        Some(place.start)
    }

    /// GM does not have it any more.
    pub(crate) fn take_back(&mut self, slot: GmSlot) {
        if let Some(place) = self.places.get_mut(slot.0 as usize) {
            place.is_lent = false;
        }
    }
}
