//! The objects whose addresses are the predefined handles, and the tables that convert them.
//!
//! An executable may have a copy of an object (a copy relocation), whose address the dynamic linker
//! then gives to this library too. So the tables are filled when the library is loaded.

use crate::kinds::{MARKS, REFUSED};
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// An object. Its content has no meaning.
pub(crate) struct Object {
    address: *const u8,
    /// The handle in the standard ABI, unless the constant is removed.
    handle: Option<usize>,
    /// The place of the type in the list of types of handles.
    kind: usize,
    /// The integer of the handle in Fortran, or -1.
    fortran: c_int,
}

// SAFETY: the table is constant, and nobody reads what is at the addresses.
unsafe impl Sync for Object {}

include!(concat!(env!("OUT_DIR"), "/objects.rs"));

/// A power of two, twice the number of objects at least.
const SLOTS: usize = 256;

/// More than all predefined handles of the standard ABI.
const HANDLES: usize = 4096;

/// A table from addresses to handles: open addressing, with a free place behind each run.
struct ByAddress([(AtomicUsize, AtomicUsize); SLOTS]);

impl ByAddress {
    /// The place at which the search for an address begins.
    #[inline(always)]
    fn start(address: usize) -> usize {
        // Objects are at multiples of 32. The factor is the golden ratio, which spreads them.
        (address >> 5).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - SLOTS.ilog2())
    }

    fn insert(&self, address: usize, handle: usize) {
        let mut at = Self::start(address);
        while let Some((place, value)) = self.0.get(at) {
            if [0, address].contains(&place.load(Ordering::Relaxed)) {
                place.store(address, Ordering::Relaxed);
                value.store(handle, Ordering::Relaxed);
                return;
            }
            at = (at + 1) % SLOTS;
        }
    }

    #[inline(always)]
    fn find(&self, address: usize) -> Option<usize> {
        let mut at = Self::start(address);
        loop {
            let (place, value) = self.0.get(at)?;
            match place.load(Ordering::Relaxed) {
                found if found == address => return Some(value.load(Ordering::Relaxed)),
                0 => return None,
                _ => at = (at + 1) % SLOTS,
            }
        }
    }
}

/// The handles of the standard ABI by address.
static BY_ADDRESS: ByAddress =
    ByAddress([const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; SLOTS]);

/// The addresses by the handle of the standard ABI.
static ADDRESSES: [AtomicUsize; HANDLES] = [const { AtomicUsize::new(0) }; HANDLES];

/// The integers in Fortran by the handle of the standard ABI, plus 1.
static FORTRAN: [AtomicI32; HANDLES] = [const { AtomicI32::new(0) }; HANDLES];

/// Runs when the dynamic linker loads this library.
#[used]
#[unsafe(link_section = ".init_array")]
static FILL: extern "C" fn() = fill;

extern "C" fn fill() {
    // The first object with a handle is the one that the library returns.
    for object in OBJECTS.iter().rev() {
        let Some(handle) = object.handle else { continue };
        BY_ADDRESS.insert(object.address.addr(), handle);
        if let Some(address) = ADDRESSES.get(handle) {
            address.store(object.address.addr(), Ordering::Relaxed);
        }
        if object.fortran >= 0
            && let Some(fortran) = FORTRAN.get(handle)
        {
            fortran.store(object.fortran + 1, Ordering::Relaxed);
        }
    }
}

/// Whether a number is no address of a program, but a handle of an object that a program has made.
#[inline(always)]
fn is_made(foreign: usize) -> bool {
    foreign >> 47 != 0
}

/// The kind of handles whose numbers in the standard ABI could be addresses: those of requests and
/// messages, and predefined ones that have no object here.
const MARK: usize = MARKS;

/// The handle in the standard ABI.
#[inline(always)]
pub(crate) fn input(foreign: usize) -> usize {
    if !is_made(foreign) {
        match BY_ADDRESS.find(foreign) {
            Some(handle) => handle,
            None => refused(foreign),
        }
    } else if foreign & MARK == MARK {
        foreign & !MARK
    } else {
        foreign
    }
}

#[cold]
#[inline(never)]
fn refused(foreign: usize) -> usize {
    foreign & !MARKS | REFUSED
}

/// The handle in this ABI. Those of objects that the program makes are the same.
#[inline(always)]
pub(crate) fn foreign(handle: usize) -> usize {
    if handle < HANDLES { predefined(handle) } else { handle }
}

/// The address of the object of a predefined handle, or a marked number.
#[inline(always)]
fn predefined(handle: usize) -> usize {
    match ADDRESSES.get(handle).map_or(0, |address| address.load(Ordering::Relaxed)) {
        0 => handle | MARK,
        address => address,
    }
}

/// As [`input`], for requests and messages.
#[inline(always)]
pub(crate) fn marked_input(foreign: usize) -> usize {
    if foreign & MARK == MARK {
        return foreign & !MARK;
    }
    match BY_ADDRESS.find(foreign) {
        Some(handle) => handle,
        None => refused(foreign),
    }
}

/// As [`foreign`], for requests and messages.
#[inline(always)]
pub(crate) fn marked_foreign(handle: usize) -> usize {
    if handle < HANDLES { predefined(handle) } else { handle | MARK }
}

/// The integer in Fortran of a predefined handle of the standard ABI.
pub(crate) fn fortran_of(handle: usize) -> Option<c_int> {
    let integer = FORTRAN.get(handle)?.load(Ordering::Relaxed) - 1;
    (integer >= 0).then_some(integer)
}

/// The address of the object of a type (its place in the list of types) with this integer.
pub(crate) fn of_fortran(kind: usize, integer: c_int) -> Option<usize> {
    let is_it = |object: &&Object| object.kind == kind && object.fortran == integer;
    OBJECTS.iter().find(is_it).map(|object| object.address.addr())
}
