//! Handles: integers of 32 bits, and pointers for files.
//!
//! Predefined handles are constants of both ABIs. Others stand for the integers of
//! `MPI_*_toint`: bit 31 is set, which no integer of an object below half a million has, and the
//! integers above, which have that bit, have bit 30 alone in place of the highest six bits. No
//! predefined handle of MPICH has such a number: those with bit 31 have small low bits, which are
//! no index of an object.

use crate::convert::*;
use crate::core;
use oxmpi_abi::constants as abi;
pub(crate) use oxmpi_foreign::{Handles, PendingHandles, Room, UNSET, Whole};
use std::ffi::c_int;
use std::ptr;

/// A handle that the library refuses: the number itself, which is in its error, unless it is so low
/// that it could be a handle of the library.
fn bad(foreign: c_int) -> usize {
    let bits = foreign.cast_unsigned();
    if bits & LONG_MASK != 0 { bits as usize } else { 4095 }
}

const TOP: u32 = 1 << 31;
const LONG: u32 = 1 << 30;
const LONG_MASK: u32 = !0 << 26;

/// Communicators that the library stores when a duplication completes.
pub(crate) static PENDING: PendingHandles = PendingHandles::new();

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

#[inline(always)]
fn int_of(foreign: c_int) -> Option<c_int> {
    let bits = foreign.cast_unsigned();
    if bits & TOP != 0 {
        Some((bits & !TOP).cast_signed())
    } else if bits & LONG_MASK == LONG {
        Some((bits & !LONG_MASK | TOP).cast_signed())
    } else {
        None
    }
}

#[inline(always)]
fn foreign_of(int: c_int) -> c_int {
    let bits = int.cast_unsigned();
    let foreign = if bits & TOP == 0 { bits | TOP } else { bits & !TOP | LONG };
    foreign.cast_signed()
}

macro_rules! handles {
    ($($word:ident $type:ty, $input:ident $output:ident, $from:expr, $to:expr;)*) => { $(
        pub(crate) mod $word {
            //! The conversions of one kind of handle.
            #![allow(dead_code)]
            use super::*;

            /// The handle in the other ABI.
            pub(crate) type Foreign = $type;

            #[inline(always)]
            pub(crate) fn input(foreign: Foreign) -> usize {
                match $input(foreign as i64) {
                    Some(handle) => handle,
                    None => unsafe { $from(foreign) },
                }
            }

            #[inline(always)]
            pub(crate) fn foreign(handle: usize) -> Foreign {
                match $output(handle) {
                    Some(foreign) => foreign as Foreign,
                    None => unsafe { $to(handle) },
                }
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

macro_rules! by_int {
    ($($word:ident $input:ident $output:ident $from:ident $to:ident;)*) => {
        handles! { $(
            $word c_int, $input $output,
            |foreign| int_of(foreign).map_or_else(|| bad(foreign), |int| core!($from)(int)),
            |handle| foreign_of(core!($to)(handle));
        )* }
    };
}

by_int! {
    comm predefined_comm_in predefined_comm_out MPI_Comm_fromint MPI_Comm_toint;
    datatype predefined_datatype_in predefined_datatype_out MPI_Type_fromint MPI_Type_toint;
    errhandler predefined_errhandler_in predefined_errhandler_out
        MPI_Errhandler_fromint MPI_Errhandler_toint;
    group predefined_group_in predefined_group_out MPI_Group_fromint MPI_Group_toint;
    info predefined_info_in predefined_info_out MPI_Info_fromint MPI_Info_toint;
    message predefined_message_in predefined_message_out MPI_Message_fromint MPI_Message_toint;
    op predefined_op_in predefined_op_out MPI_Op_fromint MPI_Op_toint;
    request predefined_request_in predefined_request_out MPI_Request_fromint MPI_Request_toint;
    session predefined_session_in predefined_session_out MPI_Session_fromint MPI_Session_toint;
    win predefined_win_in predefined_win_out MPI_Win_fromint MPI_Win_toint;
}

handles! {
    file usize, predefined_file_in predefined_file_out,
        |foreign: usize| if foreign < 4096 { 4095 } else { foreign },
        |handle: usize| handle;
}

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
