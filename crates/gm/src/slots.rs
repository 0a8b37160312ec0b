use std::collections::HashMap;
use std::slice;

/// The number of a slot: memory for one message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct GmSlot(pub u32);

#[derive(Debug)]
struct SlotMemory {
    start: *mut u8,
    is_lent: bool,
}

#[derive(Debug)]
pub(crate) struct Slots {
    len: usize,
    places: Vec<SlotMemory>,
    by_address: HashMap<usize, GmSlot>,
}

impl Slots {
    /// Slots of `len` bytes, none yet.
    pub(crate) fn new(len: usize) -> Slots {
        Slots { len, places: Vec::new(), by_address: HashMap::new() }
    }

    pub(crate) fn slot_len(&self) -> usize {
        self.len
    }

    /// The distance between slots in bytes: no cache line belongs to two slots.
    pub(crate) fn stride(&self) -> usize {
        self.len.next_multiple_of(64)
    }

    /// Adds `count` slots.
    ///
    /// # Safety
    /// At `start` there are `count` times [`Slots::stride`] zeroed bytes, which nothing else uses
    /// as long as this value lives.
    pub(crate) unsafe fn add(&mut self, start: *mut u8, count: usize) -> Vec<GmSlot> {
        let first = self.places.len();
        for at in 0..count {
            // SAFETY: the address lies within the caller's memory.
            let start = unsafe { start.add(at * self.stride()) };
            self.by_address.insert(start as usize, GmSlot((first + at) as u32));
            self.places.push(SlotMemory { start, is_lent: false });
        }
        (first..first + count).map(|at| GmSlot(at as u32)).collect()
    }

    pub(crate) fn at(&self, address: usize) -> Option<GmSlot> {
        self.by_address.get(&address).copied()
    }

    /// The bytes of a slot; none while GM has it.
    pub(crate) fn slot(&self, slot: GmSlot) -> &[u8] {
        match self.places.get(slot.0 as usize) {
            // SAFETY: GM does not have the slot, so only `slot_mut` changes its bytes.
            Some(place) if !place.is_lent => unsafe {
                slice::from_raw_parts(place.start, self.len)
            },
            _ => &[],
        }
    }

    /// The writable bytes of a slot; none while GM has it.
    pub(crate) fn slot_mut(&mut self, slot: GmSlot) -> &mut [u8] {
        match self.places.get(slot.0 as usize) {
            // SAFETY: GM does not have the slot, and `self` is borrowed mutably.
            Some(place) if !place.is_lent => unsafe {
                slice::from_raw_parts_mut(place.start, self.len)
            },
            _ => &mut [],
        }
    }

    /// Gives a slot to GM and returns its address; `None` if GM already has the slot.
    pub(crate) fn lend(&mut self, slot: GmSlot) -> Option<*mut u8> {
        let place = self.places.get_mut(slot.0 as usize).filter(|place| !place.is_lent)?;
        place.is_lent = true;
        Some(place.start)
    }

    pub(crate) fn take_back(&mut self, slot: GmSlot) {
        if let Some(place) = self.places.get_mut(slot.0 as usize) {
            place.is_lent = false;
        }
    }
}
