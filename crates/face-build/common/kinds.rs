//! The conversions of each kind of handle, in arrays too, and the lengths of arrays that only a
//! communicator gives.

use crate::core;
use crate::handles::comm;
use oxmpi_abi::constants as abi;
pub(crate) use oxmpi_foreign::{Handles, PendingHandles, Room, UNSET, Whole};
use std::ffi::c_int;
use std::ptr;

/// The bits of a handle that tell its kind.
pub(crate) const MARKS: usize = 0xf << 60;

/// The kind of no object: the library refuses such a handle, and shows the lower bits, which are
/// the number that the program has passed.
pub(crate) const REFUSED: usize = 0xe << 60;

/// Communicators that the library stores when a duplication completes.
pub(crate) static PENDING: PendingHandles<comm::Foreign> = PendingHandles::new();

/// Stores the communicators of completed duplications.
#[inline(always)]
pub(crate) fn settle() {
    PENDING.settle(|place, handle| unsafe { comm::output(place, handle) });
}

/// The address of an array for the C function: null if the caller's is.
pub(crate) fn array_place(is_null: bool, handles: &mut Handles) -> *mut usize {
    if is_null { ptr::null_mut() } else { handles.as_mut_ptr() }
}

pub(crate) fn handle_place(is_null: bool, place: *mut usize) -> *mut usize {
    if is_null { ptr::null_mut() } else { place }
}

/// Writes a module for each kind of handle, from its type in the other ABI and the functions that
/// convert a handle to the standard ABI and back.
macro_rules! handles {
    ($($word:ident $type:ty, $input:expr, $foreign:expr;)*) => { $(
        pub(crate) mod $word {
            //! The conversions of one kind of handle.
            #![allow(dead_code)]
            use super::*;

            /// The handle in the other ABI.
            pub(crate) type Foreign = $type;

            #[inline(always)]
            pub(crate) fn input(foreign: Foreign) -> usize {
                $input(foreign)
            }

            #[inline(always)]
            pub(crate) fn foreign(handle: usize) -> Foreign {
                $foreign(handle)
            }

            /// The handle at a place; a null place is refused by the C function.
            #[inline(always)]
            pub(crate) unsafe fn at(place: *const Foreign) -> usize {
                if place.is_null() { UNSET } else { input(unsafe { *place }) }
            }

            /// Stores a handle that the C function has stored.
            #[inline(always)]
            pub(crate) unsafe fn output(place: *mut Foreign, handle: usize) {
                if handle != UNSET && !place.is_null() {
                    unsafe { place.write(foreign(handle)) };
                }
            }

            pub(crate) unsafe fn read(places: *const Foreign, count: impl Whole) -> Handles {
                let count = if places.is_null() { 0 } else { count.whole() };
                Handles::new(count, |at| input(unsafe { *places.add(at) }))
            }

            pub(crate) unsafe fn unset(_: *const Foreign, count: impl Whole) -> Handles {
                Handles::new(count, |_| UNSET)
            }

            /// Stores the handles that the C function has stored or left.
            pub(crate) unsafe fn give(places: *mut Foreign, handles: &Handles) {
                if !places.is_null() {
                    for (at, handle) in handles.all().iter().enumerate() {
                        unsafe { output(places.add(at), *handle) };
                    }
                }
            }
        }
    )* };
}
pub(crate) use handles;

/// The number of processes with which a collective call exchanges data. The C function reports a
/// bad communicator.
pub(crate) fn ranks_of(comm: comm::Foreign) -> c_int {
    let comm = comm::input(comm);
    if comm == abi::MPI_COMM_NULL {
        return 0;
    }
    let (mut is_inter, mut count) = (0, 0);
    unsafe {
        if core!(MPI_Comm_test_inter)(comm, &mut is_inter) != 0 {
            return 0;
        }
        let code = match is_inter {
            0 => core!(MPI_Comm_size)(comm, &mut count),
            _ => core!(MPI_Comm_remote_size)(comm, &mut count),
        };
        if code == 0 { count } else { 0 }
    }
}

/// Whether this process is the root of a call, whose arguments count. The C function reports a bad
/// communicator or root.
pub(crate) fn is_root(comm: comm::Foreign, root: c_int) -> bool {
    let comm = comm::input(comm);
    let mut rank = 0;
    comm != abi::MPI_COMM_NULL && unsafe { core!(MPI_Comm_rank)(comm, &mut rank) } == 0 && rank == root
}

pub(crate) fn sources_of(comm: comm::Foreign) -> c_int {
    neighbors_of(comm).0
}

pub(crate) fn destinations_of(comm: comm::Foreign) -> c_int {
    neighbors_of(comm).1
}

/// The numbers of sources and destinations of this process in the topology.
fn neighbors_of(comm: comm::Foreign) -> (c_int, c_int) {
    let comm = comm::input(comm);
    let (mut kind, mut sources, mut destinations) = (abi::MPI_UNDEFINED, 0, 0);
    if comm == abi::MPI_COMM_NULL {
        return (0, 0);
    }
    unsafe {
        let mut code = core!(MPI_Topo_test)(comm, &mut kind);
        match kind {
            abi::MPI_CART => {
                code |= core!(MPI_Cartdim_get)(comm, &mut sources);
                sources *= 2;
                destinations = sources;
            }
            abi::MPI_GRAPH => {
                let mut rank = 0;
                code |= core!(MPI_Comm_rank)(comm, &mut rank);
                code |= core!(MPI_Graph_neighbors_count)(comm, rank, &mut sources);
                destinations = sources;
            }
            abi::MPI_DIST_GRAPH => {
                let mut weighted = 0;
                code |= core!(MPI_Dist_graph_neighbors_count)(
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
