//! Creation and release of windows (MPI-5.0 section 12.2).
//!
//! All functions are collective. A rank with wrong arguments takes part, so that the other ranks do
//! not wait forever.

use super::on_win;
use crate::attributes::delete_attributes;
use crate::errors::{on_comm, outcome};
use crate::info;
use crate::library::{Running, fetch, library, null, put};
use crate::on::On;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Aint, Comm, Info, Win};
use oxmpi_core::Communicator;
use oxmpi_core::window::{Flavor, NewWindow};
use oxmpi_engine::Completion;
use oxmpi_mem::buffer::PlainBuf;
use oxmpi_mem::exposed::Exposed;
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::{MpiError, Result};
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

/// Makes a window. Stores its handle, and the address of its memory if `baseptr` is given.
fn create(
    library: &Running,
    communicator: &Communicator,
    new: Result<NewWindow>,
    baseptr: Option<*mut c_void>,
    win: *mut Win,
) -> Result<()> {
    let new = match baseptr {
        _ if win.is_null() => Err(null("win")),
        Some(place) if place.is_null() => Err(null("baseptr")),
        _ => new,
    };
    let window = library.process.create_window(communicator, new)?;
    if let Some(place) = baseptr {
        let base: *mut c_void = std::ptr::with_exposed_provenance_mut(window.facts.base);
        // SAFETY: the C program passes the address of a pointer.
        unsafe { put(place.cast::<*mut c_void>(), base, "baseptr") }?;
    }
    let window = Arc::new(window);
    let handle = library.windows.insert(Arc::clone(&window)).raw() as Win;
    window.errhandler_cell().set_object(handle);
    // SAFETY: the C program passes a place for a handle.
    unsafe { put(win, handle, "win") }
}

fn create_from(
    function: FuncId,
    (base, size, disp_unit): (*mut c_void, Aint, Aint),
    info: Info,
    comm: Comm,
    win: *mut Win,
) -> c_int {
    on_comm(function, comm, |library, communicator| {
        let new = new_window(Flavor::Create, size, disp_unit, info)
            .and_then(|new| Ok(NewWindow { memory: exposed(library, base, new.size)?, ..new }));
        create(library, communicator, new, None, win)
    })
}

fn allocate(
    function: FuncId,
    flavor: Flavor,
    (size, disp_unit): (Aint, Aint),
    info: Info,
    comm: Comm,
    baseptr: *mut c_void,
    win: *mut Win,
) -> c_int {
    on_comm(function, comm, |library, communicator| {
        create(library, communicator, new_window(flavor, size, disp_unit, info), Some(baseptr), win)
    })
}

fn free(win: *mut Win) -> c_int {
    // SAFETY: the C program passes a place with a handle.
    let handle = match unsafe { fetch(win, "win") } {
        Ok(handle) => handle,
        Err(error) => return outcome(FuncId::MPI_Win_free, None, Err(error)),
    };
    // For an error after the handle is freed, the window's context leads to the handler.
    let mut on = On::Win(handle);
    let result = library().and_then(|library| {
        let window = Arc::clone(&*library.window(handle)?);
        library.process.agree_to_free_window(&window)?;
        let deleted = delete_attributes(handle, &window.attributes);
        let done = library.process.free_window(&window, deleted)?;
        let freed = library.windows.free(Handle::from_raw(handle as u64));
        freed.map_err(|bad| MpiError::new(abi::MPI_ERR_WIN, bad.to_string()))?;
        // SAFETY: `win` is not null, as `fetch` has checked, and holds a handle.
        unsafe { put(win, abi::MPI_WIN_NULL, "win") }?;
        done.inspect_err(|error| {
            let failed = Completion { context: window.context(), ..Completion::EMPTY };
            on = On::Failed(failed, error.class());
        })
    });
    outcome(FuncId::MPI_Win_free, Some(on), result)
}

mpi! {
    /// Test: tests/c/win_create.c.
    fn MPI_Win_create(base: *mut c_void, size: Aint, disp_unit: c_int, info: Info, comm: Comm, win: *mut Win) -> c_int {
        create_from(FuncId::MPI_Win_create, (base, size, disp_unit as Aint), info, comm, win)
    }

    fn MPI_Win_create_c(base: *mut c_void, size: Aint, disp_unit: Aint, info: Info, comm: Comm, win: *mut Win) -> c_int {
        create_from(FuncId::MPI_Win_create_c, (base, size, disp_unit), info, comm, win)
    }

    /// `baseptr` is the address of a pointer. Test: tests/c/win_create.c.
    fn MPI_Win_allocate(size: Aint, disp_unit: c_int, info: Info, comm: Comm, baseptr: *mut c_void, win: *mut Win) -> c_int {
        let what = (size, disp_unit as Aint);
        allocate(FuncId::MPI_Win_allocate, Flavor::Allocate, what, info, comm, baseptr, win)
    }

    fn MPI_Win_allocate_c(size: Aint, disp_unit: Aint, info: Info, comm: Comm, baseptr: *mut c_void, win: *mut Win) -> c_int {
        allocate(FuncId::MPI_Win_allocate_c, Flavor::Allocate, (size, disp_unit), info, comm, baseptr, win)
    }

    /// Test: tests/c/win_shared.c.
    fn MPI_Win_allocate_shared(size: Aint, disp_unit: c_int, info: Info, comm: Comm, baseptr: *mut c_void, win: *mut Win) -> c_int {
        let what = (size, disp_unit as Aint);
        allocate(FuncId::MPI_Win_allocate_shared, Flavor::Shared, what, info, comm, baseptr, win)
    }

    fn MPI_Win_allocate_shared_c(size: Aint, disp_unit: Aint, info: Info, comm: Comm, baseptr: *mut c_void, win: *mut Win) -> c_int {
        allocate(FuncId::MPI_Win_allocate_shared_c, Flavor::Shared, (size, disp_unit), info, comm, baseptr, win)
    }

    /// Test: tests/c/win_dynamic.c.
    fn MPI_Win_create_dynamic(info: Info, comm: Comm, win: *mut Win) -> c_int {
        on_comm(FuncId::MPI_Win_create_dynamic, comm, |library, communicator| {
            create(library, communicator, new_window(Flavor::Dynamic, 0, 1, info), None, win)
        })
    }

    fn MPI_Win_attach(win: Win, base: *mut c_void, size: Aint) -> c_int {
        on_win(FuncId::MPI_Win_attach, win, |library, window| {
            library.process.attach_memory(window, exposed(library, base, bytes(size)?)?)
        })
    }

    fn MPI_Win_detach(win: Win, base: *const c_void) -> c_int {
        on_win(FuncId::MPI_Win_detach, win, |library, window| {
            library.process.detach_memory(window, base.expose_provenance())
        })
    }

    /// Waits for all ranks. An open epoch of one rank is an error on all ranks. Test:
    /// tests/c/win_errors.c.
    fn MPI_Win_free(win: *mut Win) -> c_int {
        free(win)
    }
}

/// # Safety
/// `size` and `baseptr` must be null or places for an address-sized integer and a pointer.
unsafe fn query(
    library: &Running,
    window: &oxmpi_core::window::Window,
    rank: c_int,
    size: *mut Aint,
    baseptr: *mut c_void,
) -> Result<i64> {
    let (base, len, disp_unit) = library.process.shared_query(window, rank)?;
    let base: *mut c_void = std::ptr::with_exposed_provenance_mut(base);
    // SAFETY: by the contract of this function.
    unsafe {
        put(size, len.cast_signed(), "size")?;
        put(baseptr.cast::<*mut c_void>(), base, "baseptr")?;
    }
    Ok(disp_unit)
}

mpi! {
    /// Size 0 for a rank whose memory this process cannot map. Test: tests/c/win_shared.c.
    fn MPI_Win_shared_query(win: Win, rank: c_int, size: *mut Aint, disp_unit: *mut c_int, baseptr: *mut c_void) -> c_int {
        on_win(FuncId::MPI_Win_shared_query, win, |library, window| {
            // SAFETY: the C program passes places for the three results.
            unsafe {
                let unit = query(library, window, rank, size, baseptr)?;
                let unit = c_int::try_from(unit).map_err(|_| {
                    let text = format!("the displacement unit is {unit}: MPI_Win_shared_query_c can return it");
                    MpiError::new(abi::MPI_ERR_VALUE_TOO_LARGE, text)
                })?;
                put(disp_unit, unit, "disp_unit")
            }
        })
    }

    fn MPI_Win_shared_query_c(win: Win, rank: c_int, size: *mut Aint, disp_unit: *mut Aint, baseptr: *mut c_void) -> c_int {
        on_win(FuncId::MPI_Win_shared_query_c, win, |library, window| {
            // SAFETY: the C program passes places for the three results.
            unsafe { put(disp_unit, query(library, window, rank, size, baseptr)? as Aint, "disp_unit") }
        })
    }
}
