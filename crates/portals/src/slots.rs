//! Operations under way, each in a slot with the memory that Portals may use for it.
//!
//! The number of a slot is the `user_ptr` for Portals. A part of the number changes with each use,
//! so that a late event of a removed operation finds nothing.

use crate::interface::PutMessage;
use libc::c_void;
use oxmpi_mem::buffer::UserBuf;
use std::ptr::without_provenance_mut;

#[derive(Debug)]
pub(crate) enum OperationKind {
    Put(PutMessage),
    /// A get into a buffer from this packed byte on; `own` if the buffer is not contiguous.
    Get {
        own: Option<Vec<u8>>,
        buffer: UserBuf,
        at: usize,
    },
    /// Memory that a peer may get, kept alive here.
    Exposed {
        _buffer: UserBuf,
    },
    /// A posted receive, by way of `own` if the buffer is not contiguous.
    Receive {
        own: Option<Vec<u8>>,
        buffer: UserBuf,
    },
    /// A search among unexpected messages; `takes`: the data are wanted.
    Search {
        takes: bool,
    },
    Block {
        memory: Vec<u8>,
    },
}

#[derive(Debug)]
pub(crate) struct PendingOperation<T> {
    /// The caller's name for the operation; `None` for a block.
    pub token: Option<T>,
    /// The memory descriptor or match list entry.
    pub handle: u32,
    pub work: OperationKind,
}

#[derive(Debug)]
struct OperationSlot<T> {
    use_number: u32,
    operation: Option<PendingOperation<T>>,
}

#[derive(Debug)]
pub(crate) struct Slots<T> {
    places: Vec<OperationSlot<T>>,
    free: Vec<u32>,
    initiated: usize,
}

impl OperationKind {
    /// Whether its event comes into the initiator's queue.
    fn is_initiated(&self) -> bool {
        matches!(
            self,
            OperationKind::Put(_) | OperationKind::Get { .. } | OperationKind::Exposed { .. }
        )
    }
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { places: Vec::new(), free: Vec::new(), initiated: 0 }
    }
}

impl<T> Slots<T> {
    pub(crate) fn insert(&mut self, operation: PendingOperation<T>) -> u64 {
        self.initiated += usize::from(operation.work.is_initiated());
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(OperationSlot { use_number: 0, operation: None });
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[at as usize];
        place.use_number = place.use_number.wrapping_add(1);
        place.operation = Some(operation);
        u64::from(place.use_number) << 32 | u64::from(at)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut PendingOperation<T>> {
        let place = self.places.get_mut(number as u32 as usize)?;
        if u64::from(place.use_number) == number >> 32 { place.operation.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<PendingOperation<T>> {
        let is_initiated = self.get_mut(number)?.work.is_initiated();
        let place = self.places.get_mut(number as u32 as usize)?;
        self.initiated -= usize::from(is_initiated);
        self.free.push(number as u32);
        place.operation.take()
    }

    /// The number of operations with an event in the initiator's queue.
    pub(crate) fn initiated(&self) -> usize {
        self.initiated
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &PendingOperation<T>)> {
        self.places.iter().enumerate().filter_map(|(at, place)| {
            let number = u64::from(place.use_number) << 32 | at as u64;
            place.operation.as_ref().map(|operation| (number, operation))
        })
    }
}

pub(crate) fn pointer_of(number: u64) -> *mut c_void {
    without_provenance_mut(number as usize)
}

pub(crate) fn number_of(pointer: *mut c_void) -> u64 {
    pointer.addr() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(token: u8) -> PendingOperation<u8> {
        PendingOperation {
            token: Some(token),
            handle: 0,
            work: OperationKind::Search { takes: false },
        }
    }

    #[test]
    fn a_number_finds_its_operation_until_that_is_taken_out_and_nothing_after() {
        let mut slots = Slots::default();
        let (one, two) = (slots.insert(search(1)), slots.insert(search(2)));
        assert_eq!(number_of(pointer_of(two)), two);
        assert_eq!(slots.remove(one).and_then(|one| one.token), Some(1));
        let three = slots.insert(search(3));
        assert_eq!(three as u32, one as u32, "the place is used again");
        assert!(slots.get_mut(one).is_none() && slots.remove(one).is_none());
        let all: Vec<_> = slots.iter().map(|(number, one)| (number, one.token)).collect();
        assert_eq!(all, [(three, Some(3)), (two, Some(2))]);
    }
}
