//! One-sided communication (MPI-5.0 chapter 12).

pub(crate) mod access;
pub(crate) mod create;
pub(crate) mod objects;
pub(crate) mod synchronize;

use crate::errors::outcome;
use crate::state::library::{Running, library, running};
use crate::state::named::Named;
use crate::state::named::OfArgument;
use crate::state::on::On;
use oxmpi_abi::FuncId;
use oxmpi_abi::types::Win;
use oxmpi_core::window::Window;
use oxmpi_mem::table::{Glance, Handle, Ref};
use oxmpi_objects::error::Result;
use std::ffi::c_int;
use std::sync::Arc;

/// The library and a window, for straight lines ([`oxmpi_core::window`]), which call no function of
/// the program and free nothing.
#[inline(always)]
fn at_hand(win: Win) -> Option<(&'static Running, Glance<'static, Arc<Window>>)> {
    let library = running()?;
    // SAFETY: a straight line frees nothing, calls no function of the program, and drops the window
    // before a full poll.
    let window = unsafe { library.windows.glance(Handle::from_raw(win as u64)) };
    Some((library, window.ok()?))
}

/// The window of a call.
pub(crate) type WinArgument = Named<Ref<'static, Arc<Window>>>;

#[inline]
pub(crate) fn on_win(
    function: FuncId,
    win: Win,
    argument: &'static str,
    call: impl FnOnce(&'static Running, &WinArgument) -> Result<()>,
) -> c_int {
    let result = (|| {
        let library = library()?;
        call(library, &Named { handle: win, object: library.window(win).of(argument)? })
    })();
    outcome(function, Some(On::Win(win)), result)
}
