//! Conversions between the arguments of Fortran and of C.
//!
//! A Fortran program guarantees that the addresses it passes are those of variables as the
//! standard describes the arguments. All unsafe functions and blocks here rely on this guarantee.
#![allow(clippy::undocumented_unsafe_blocks)] // one reason for all of them, above

pub(crate) mod request;

use crate::c;
use crate::abi;
use crate::types::Status;
pub(crate) use oxmpi_foreign::{Handles, PendingHandles, Room, UNSET, Whole};
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

include!(concat!(env!("OUT_DIR"), "/sentinels.rs"));

/// The start value of an index or a number that a function may store.
pub(crate) const UNSET_INDEX: c_int = c_int::MIN;

/// Handles below this value are predefined.
pub(crate) const PREDEFINED: usize = 4096;

/// Stores a result. `ierror` of a C caller may be null.
#[inline(always)]
pub(crate) unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        unsafe { place.write(value) };
    }
}

#[inline(always)]
fn is(address: *const c_void, sentinel: *const c_char) -> bool {
    ptr::eq(address, sentinel.cast())
}

/// The address of a choice argument.
#[inline(always)]
pub(crate) fn choice_address(address: *mut c_void) -> *mut c_void {
    if is_bottom(address) {
        ptr::without_provenance_mut(abi::MPI_BOTTOM)
    } else if is_in_place(address) {
        ptr::without_provenance_mut(abi::MPI_IN_PLACE)
    } else {
        address
    }
}

/// The address of a buffer for buffered sends.
pub(crate) fn attached_address(address: *mut c_void) -> *mut c_void {
    match is_buffer_automatic(address) {
        true => ptr::without_provenance_mut(abi::MPI_BUFFER_AUTOMATIC),
        false => choice_address(address),
    }
}

/// The place of a status, whose eight integers are those of C.
#[inline(always)]
pub(crate) fn status_place(place: *mut Status) -> *mut Status {
    let is_ignored = is_status_ignore(place.cast()) || is_statuses_ignore(place.cast());
    if is_ignored { ptr::null_mut() } else { place }
}

pub(crate) fn statuses_place(places: *mut Status) -> *mut Status {
    status_place(places)
}

pub(crate) fn codes_place(places: *mut c_int) -> *mut c_int {
    match is_errcodes_ignore(places.cast()) {
        true => ptr::null_mut(),
        false => places,
    }
}

pub(crate) fn weights_place(weights: *mut c_int) -> *mut c_int {
    if is_unweighted(weights.cast()) {
        ptr::without_provenance_mut(abi::MPI_UNWEIGHTED)
    } else if is_weights_empty(weights.cast()) {
        ptr::without_provenance_mut(abi::MPI_WEIGHTS_EMPTY)
    } else {
        weights
    }
}

/// Stores the index of a request, which C counts from 0.
pub(crate) unsafe fn put_index(place: *mut c_int, index: c_int) {
    match index {
        UNSET_INDEX => {}
        abi::MPI_UNDEFINED => unsafe { put(place, index) },
        _ => unsafe { put(place, index + 1) },
    }
}

/// Counts the first `count` indices from 1, and stores their number.
pub(crate) unsafe fn put_indices(indices: *mut c_int, count: c_int, place: *mut c_int) {
    if count == UNSET_INDEX {
        return;
    }
    for at in 0..usize::try_from(count).unwrap_or(0) {
        unsafe { *indices.add(at) += 1 };
    }
    unsafe { put(place, count) };
}

/// Communicators that the C library stores when a duplication completes.
pub(crate) static PENDING: PendingHandles<c_int> = PendingHandles::new();

/// Stores the communicators of completed duplications.
#[inline(always)]
pub(crate) fn settle() {
    PENDING.settle(|place, handle| unsafe { comm::output(place, handle) });
}

macro_rules! handles {
    ($($word:ident $of:ident;)*) => { $(
        pub(crate) mod $word {
            //! The conversions of one kind of handle.
            #![allow(dead_code)]
            use super::*;

            #[inline(always)]
            pub(crate) unsafe fn input(place: *const c_int) -> usize {
                unsafe { of(*place) }
            }

            pub(crate) use crate::integers::$of::{number, of};

            /// Stores a handle that the C function has stored.
            #[inline(always)]
            pub(crate) unsafe fn output(place: *mut c_int, handle: usize) {
                if handle != UNSET {
                    unsafe { put(place, number(handle)) };
                }
            }

            pub(crate) unsafe fn read(numbers: *const c_int, count: impl Whole) -> Handles {
                Handles::new(count, |at| unsafe { of(*numbers.add(at)) })
            }

            pub(crate) unsafe fn unset(_: *const c_int, count: impl Whole) -> Handles {
                Handles::new(count, |_| UNSET)
            }

            /// Stores the handles that the C function has stored or left.
            pub(crate) unsafe fn give(numbers: *mut c_int, handles: &Handles) {
                for (at, handle) in handles.all().iter().enumerate() {
                    unsafe { output(numbers.add(at), *handle) };
                }
            }
        }
    )* };
}

handles! {
    comm comm;
    datatype datatype;
    errhandler errhandler;
    file file;
    group group;
    info info;
    message message;
    op op;
    request_numbers request;
    session session;
    win win;
}

/// The number of processes with which a collective call exchanges data. The C function reports a
/// bad communicator.
pub(crate) unsafe fn ranks_of(place: *const c_int) -> c_int {
    let (mut is_inter, mut count) = (0, 0);
    unsafe {
        let comm = comm::input(place);
        if comm == abi::MPI_COMM_NULL || c::PMPI_Comm_test_inter(comm, &mut is_inter) != 0 {
            return 0;
        }
        let code = match is_inter {
            0 => c::PMPI_Comm_size(comm, &mut count),
            _ => c::PMPI_Comm_remote_size(comm, &mut count),
        };
        if code == 0 { count } else { 0 }
    }
}

/// Which part a process has in a collective operation with a root.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RootPlace {
    /// It is the root.
    Root,
    /// It is the root on an intercommunicator, and has no data of the other kind.
    FarRoot,
    /// It is in the group of the root, and has no data.
    Idle,
    Other,
}

pub(crate) unsafe fn root_place(place: *const c_int, root: c_int) -> RootPlace {
    let mut is_inter = 0;
    let comm = unsafe { comm::input(place) };
    match root {
        abi::MPI_ROOT => RootPlace::FarRoot,
        abi::MPI_PROC_NULL => RootPlace::Idle,
        // The C function reports a bad communicator.
        _ if comm == abi::MPI_COMM_NULL => RootPlace::Other,
        _ => unsafe {
            let code = c::PMPI_Comm_test_inter(comm, &mut is_inter);
            match code == 0 && is_inter == 0 && rank_in(place) == root {
                true => RootPlace::Root,
                false => RootPlace::Other,
            }
        },
    }
}

/// The rank of this process, or MPI_PROC_NULL in a bad communicator.
pub(crate) unsafe fn rank_in(place: *const c_int) -> c_int {
    let mut rank = abi::MPI_PROC_NULL;
    unsafe {
        let comm = comm::input(place);
        match comm != abi::MPI_COMM_NULL && c::PMPI_Comm_rank(comm, &mut rank) == 0 {
            true => rank,
            false => abi::MPI_PROC_NULL,
        }
    }
}

/// The number of processes in the group of this process. The C function reports a bad
/// communicator.
pub(crate) unsafe fn size_of_comm(place: *const c_int) -> c_int {
    let mut size = 0;
    unsafe {
        let comm = comm::input(place);
        match comm != abi::MPI_COMM_NULL && c::PMPI_Comm_size(comm, &mut size) == 0 {
            true => size,
            false => 0,
        }
    }
}

pub(crate) unsafe fn sources_of(comm: *const c_int) -> c_int {
    unsafe { neighbors_of(comm) }.0
}

pub(crate) unsafe fn destinations_of(comm: *const c_int) -> c_int {
    unsafe { neighbors_of(comm) }.1
}

/// The numbers of sources and destinations of this process in the topology.
unsafe fn neighbors_of(place: *const c_int) -> (c_int, c_int) {
    let (mut kind, mut sources, mut destinations) = (abi::MPI_UNDEFINED, 0, 0);
    unsafe {
        let comm = comm::input(place);
        if comm == abi::MPI_COMM_NULL {
            return (0, 0);
        }
        let mut code = c::PMPI_Topo_test(comm, &mut kind);
        match kind {
            abi::MPI_CART => {
                code |= c::PMPI_Cartdim_get(comm, &mut sources);
                sources *= 2;
                destinations = sources;
            }
            abi::MPI_GRAPH => {
                let mut rank = 0;
                code |= c::PMPI_Comm_rank(comm, &mut rank);
                code |= c::PMPI_Graph_neighbors_count(comm, rank, &mut sources);
                destinations = sources;
            }
            abi::MPI_DIST_GRAPH => {
                let mut weighted = 0;
                code |= c::PMPI_Dist_graph_neighbors_count(
                    comm,
                    &mut sources,
                    &mut destinations,
                    &mut weighted,
                );
            }
            _ => {}
        }
        if code == 0 { (sources, destinations) } else { (0, 0) }
    }
}

/// A C string made of a CHARACTER argument.
pub(crate) struct Text(Vec<u8>);

impl Text {
    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.len() <= 1
    }
}

unsafe fn characters<'a>(start: *const c_char, len: usize) -> &'a [u8] {
    match start.is_null() || len > isize::MAX as usize {
        true => &[],
        false => unsafe { std::slice::from_raw_parts(start.cast(), len) },
    }
}

fn closed(bytes: &[u8]) -> Text {
    let mut text = Vec::with_capacity(bytes.len() + 1);
    text.extend_from_slice(bytes);
    text.push(0);
    Text(text)
}

fn without_padding(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte != b' ').map_or(0, |at| at + 1);
    bytes.get(..end).unwrap_or(bytes)
}

/// The characters without trailing blanks.
pub(crate) unsafe fn trimmed(start: *const c_char, len: usize) -> Text {
    closed(without_padding(unsafe { characters(start, len) }))
}

/// The characters without leading and trailing blanks.
pub(crate) unsafe fn stripped(start: *const c_char, len: usize) -> Text {
    let bytes = without_padding(unsafe { characters(start, len) });
    let begin = bytes.iter().position(|byte| *byte != b' ').unwrap_or(0);
    closed(bytes.get(begin..).unwrap_or(bytes))
}
