//! Handles: integers of 32 bits, and pointers for files.
//!
//! Predefined handles are constants of both ABIs. Others stand for the integers of
//! `MPI_*_toint`: bit 31 is set, which no integer of an object below half a million has, and the
//! integers above, which have that bit, have bit 30 alone in place of the highest six bits. No
//! predefined handle of MPICH has such a number: those with bit 31 have small low bits, which are
//! no index of an object.

use crate::convert::*;
use crate::core;
pub(crate) use crate::kinds::*;
use std::ffi::c_int;

const TOP: u32 = 1 << 31;
const LONG: u32 = 1 << 30;
const LONG_MASK: u32 = !0 << 26;

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

macro_rules! by_int {
    ($($word:ident $input:ident $output:ident $from:ident $to:ident;)*) => {
        handles! { $(
            $word c_int,
            |foreign| match $input(i64::from(foreign)) {
                Some(handle) => handle,
                None => match int_of(foreign) {
                    Some(int) => unsafe { core!($from)(int) },
                    None => REFUSED | foreign.cast_unsigned() as usize,
                },
            },
            |handle| match $output(handle) {
                Some(foreign) => foreign as c_int,
                None => foreign_of(unsafe { core!($to)(handle) }),
            };
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
    file usize,
    |foreign: usize| match predefined_file_in(foreign as i64) {
        Some(handle) => handle,
        None if foreign < 4096 => REFUSED | foreign,
        None => foreign,
    },
    |handle| predefined_file_out(handle).map_or(handle, |foreign| foreign as usize);
}
