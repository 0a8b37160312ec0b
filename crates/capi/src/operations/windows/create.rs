//! Creation and release of windows (MPI-5.0 section 12.2).
//!
//! All functions are collective. A rank with wrong arguments takes part, so that the other ranks do
//! not wait forever. Tests: tests/c/win_create.c, tests/c/win_shared.c, tests/c/win_dynamic.c.

use super::WinArgument;
use crate::arguments::{NewObject, fetch, put};
use crate::errors::outcome;
use crate::operations::attributes::delete_attributes;
use crate::operations::info;
use crate::state::library::{Running, library};
use crate::state::named::CommArgument;
use crate::state::named::OfArgument;
use crate::state::on::On;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Aint, Info, Win};
pub(crate) use oxmpi_core::window::Flavor;
use oxmpi_core::window::{NewWindow, Window};
use oxmpi_engine::Completion;
use oxmpi_mem::buffer::PlainBuf;
use oxmpi_mem::exposed::Exposed;
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::shown::{ValueKind, bad_handle};
use oxmpi_objects::window_hints::WindowHints;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

fn bytes(size: Aint) -> Result<usize> {
    usize::try_from(size).map_err(|_| {
        MpiError::new(abi::MPI_ERR_SIZE, format!("size is {size}; it must not be negative"))
    })
}

fn new_window(flavor: Flavor, size: Aint, disp_unit: Aint, info: Info) -> Result<NewWindow> {
    let size = bytes(size)?;
    if disp_unit <= 0 {
        let text = format!("disp_unit is {disp_unit}; it must be positive");
        return Err(MpiError::new(abi::MPI_ERR_DISP, text));
    }
    let hints = WindowHints::default().updated(&info::given(info)?)?;
    Ok(NewWindow { flavor, memory: Exposed::NONE, size, disp_unit: disp_unit as i64, hints })
}

/// Other processes access a window's memory directly, which device memory does not allow.
const NO_WINDOW: &str =
    "a window needs memory of the host: make it of such memory, and copy between the two";

fn exposed(library: &Running, base: *mut c_void, len: usize) -> Result<Exposed> {
    if len > 0 {
        library.check_on_host(base, NO_WINDOW)?;
    }
    if base.is_null() && len > 0 {
        let text = format!("base is a null pointer, with a size of {len} bytes");
        return Err(MpiError::new(abi::MPI_ERR_BASE, text));
    }
    // SAFETY: the program exposes this memory until the window is freed or the memory is detached,
    // as the standard requires (MPI-5.0 section 12.2).
    Ok(Exposed::from(unsafe { PlainBuf::new(base.cast(), len) }))
}

impl NewObject for Window {
    unsafe fn give(self, library: &Running, place: *mut usize, argument: &str) -> Result<()> {
        let window = Arc::new(self);
        let handle = library.windows.insert(Arc::clone(&window)).raw() as Win;
        window.errhandler_cell().set_object(handle);
        // SAFETY: by the contract of this function.
        unsafe { put(place, handle, argument) }
    }
}

pub(crate) fn win_create(
    library: &Running,
    base: *mut c_void,
    size: Aint,
    disp_unit: Aint,
    info: Info,
    comm: &CommArgument,
    places: Result<()>,
) -> Result<Window> {
    let new = places
        .and_then(|()| new_window(Flavor::Create, size, disp_unit, info))
        .and_then(|new| Ok(NewWindow { memory: exposed(library, base, new.size)?, ..new }));
    library.process.create_window(comm, new)
}

/// A window with the address of its memory.
pub(crate) fn win_allocate(
    flavor: Flavor,
    library: &Running,
    size: Aint,
    disp_unit: Aint,
    info: Info,
    comm: &CommArgument,
    places: Result<()>,
) -> Result<(*mut c_void, Window)> {
    let new = places.and_then(|()| new_window(flavor, size, disp_unit, info));
    let window = library.process.create_window(comm, new)?;
    Ok((std::ptr::with_exposed_provenance_mut(window.facts.base), window))
}

pub(crate) fn win_create_dynamic(
    library: &Running,
    info: Info,
    comm: &CommArgument,
    places: Result<()>,
) -> Result<Window> {
    let new = places.and_then(|()| new_window(Flavor::Dynamic, 0, 1, info));
    library.process.create_window(comm, new)
}

pub(crate) fn win_attach(
    library: &Running,
    win: &WinArgument,
    base: *mut c_void,
    size: Aint,
) -> Result<()> {
    library.process.attach_memory(win, exposed(library, base, bytes(size)?)?)
}

pub(crate) fn win_detach(library: &Running, win: &WinArgument, base: *const c_void) -> Result<()> {
    library.process.detach_memory(win, base.expose_provenance())
}

/// Waits for all ranks. An open epoch of one rank is an error on all ranks. Test:
/// tests/c/win_errors.c.
pub(crate) fn win_free(function: FuncId, win: *mut Win) -> c_int {
    // SAFETY: the C program passes a place with a handle.
    let handle = match unsafe { fetch(win, "win") } {
        Ok(handle) => handle,
        Err(error) => return outcome(function, None, Err(error)),
    };
    // For an error after the handle is freed, the window's context leads to the handler.
    let mut on = On::Win(handle);
    let result = library().and_then(|library| {
        let window = Arc::clone(&*library.window(handle).of("win")?);
        library.process.agree_to_free_window(&window)?;
        let deleted = delete_attributes(handle, &window.attributes);
        let done = library.process.free_window(&window, deleted)?;
        let freed = library.windows.free(Handle::from_raw(handle as u64));
        freed.map_err(|bad| bad_handle(ValueKind::Win, handle as u64, bad))?;
        // SAFETY: `win` is not null, as `fetch` has checked, and holds a handle.
        unsafe { put(win, abi::MPI_WIN_NULL, "win") }?;
        done.inspect_err(|error| {
            let failed = Completion { context: window.context(), ..Completion::EMPTY };
            on = On::Failed(failed, error.class());
        })
    });
    outcome(function, Some(on), result)
}

/// Size, displacement unit and address. The size is 0 for a rank whose memory this process cannot
/// map.
pub(crate) fn win_shared_query(
    library: &Running,
    win: &WinArgument,
    rank: c_int,
) -> Result<(Aint, i64, *mut c_void)> {
    let (base, len, disp_unit) = library.process.shared_query(win, rank)?;
    Ok((len.cast_signed(), disp_unit, std::ptr::with_exposed_provenance_mut(base)))
}
