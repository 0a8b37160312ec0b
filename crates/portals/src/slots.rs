//! Operations that are under way, each in a slot with the memory that Portals may use for it.
//!
//! The number of a slot is what Portals gets as `user_ptr`. It has a part that changes with each use, so an event of an operation that
//! was forgotten finds nothing.

use crate::interface::PutMessage;
use libc::c_void;
use oxmpi_mem::buffer::UserBuf;
use std::ptr::without_provenance_mut;

/// What an operation is, with its memory.
#[derive(Debug)]
pub(crate) enum Work {
    /// A message on its way.
    Put(PutMessage),
    /// A part of a peer's memory that comes, from this packed byte of a buffer on: into memory of its own if the buffer does not lie in
    /// one piece, else straight.
    Get { own: Option<Vec<u8>>, buffer: UserBuf, at: usize },
    /// Memory that a peer may get. It is kept, not looked at.
    Exposed { _buffer: UserBuf },
    /// A posted receive, with memory of its own if the buffer does not lie in one piece.
    Receive { own: Option<Vec<u8>>, buffer: UserBuf },
    /// A search among unexpected messages, whose data are wanted or not.
    Search { takes: bool },
    /// Memory for unexpected messages.
    Block { memory: Vec<u8> },
}

/// An operation.
#[derive(Debug)]
pub(crate) struct Operation<T> {
    /// The caller's name for it; a block has none.
    pub token: Option<T>,
    /// Its memory descriptor or match list entry.
    pub handle: u32,
    pub work: Work,
}

#[derive(Debug)]
struct Place<T> {
    use_number: u32,
    operation: Option<Operation<T>>,
}

/// All operations of an interface.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
    initiated: usize,
}

impl Work {
    /// Whether its event comes into the queue of what this process begins.
    fn is_initiated(&self) -> bool {
        matches!(self, Work::Put(_) | Work::Get { .. } | Work::Exposed { .. })
    }
}

impl<T> Default for Slots<T> {
    fn default() -> Slots<T> {
        Slots { places: Vec::new(), free: Vec::new(), initiated: 0 }
    }
}

impl<T> Slots<T> {
    /// Keeps an operation, under the number that this returns.
    pub(crate) fn insert(&mut self, operation: Operation<T>) -> u64 {
        self.initiated += usize::from(operation.work.is_initiated());
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { use_number: 0, operation: None });
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[at as usize];
        place.use_number = place.use_number.wrapping_add(1);
        place.operation = Some(operation);
        u64::from(place.use_number) << 32 | u64::from(at)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Operation<T>> {
        let place = self.places.get_mut(number as u32 as usize)?;
        if u64::from(place.use_number) == number >> 32 { place.operation.as_mut() } else { None }
    }

    /// Takes an operation out.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Operation<T>> {
        let is_initiated = self.get_mut(number)?.work.is_initiated();
        let place = self.places.get_mut(number as u32 as usize)?;
        self.initiated -= usize::from(is_initiated);
        self.free.push(number as u32);
        place.operation.take()
    }

    /// How many have their event in the queue of what this process begins.
    pub(crate) fn initiated(&self) -> usize {
        self.initiated
    }

    /// The operations with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Operation<T>)> {
        self.places.iter().enumerate().filter_map(|(at, place)| {
            let number = u64::from(place.use_number) << 32 | at as u64;
            place.operation.as_ref().map(|operation| (number, operation))
        })
    }
}

/// What Portals gets for the number of a slot.
pub(crate) fn pointer_of(number: u64) -> *mut c_void {
    without_provenance_mut(number as usize)
}

/// The number that was given to Portals as this.
pub(crate) fn number_of(pointer: *mut c_void) -> u64 {
    pointer.addr() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(token: u8) -> Operation<u8> {
        Operation { token: Some(token), handle: 0, work: Work::Search { takes: false } }
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
