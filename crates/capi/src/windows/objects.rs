//! Groups, hints, names, error handlers and attributes of windows (MPI-5.0 sections 12.2.6 and
//! 12.2.7, 7.7.4, 7.8 and 9.3.2). Test: tests/c/win_objects.c.

use super::{on_win, with_win};
use crate::attributes::{delete, get, set, store_found};
use crate::errhandlers::{HandlerKind, attach, refer};
use crate::errors;
use crate::arguments::NewObject;
use crate::info;
use crate::library::{library, null, put};
use crate::names::kept;
use crate::on::On;
use crate::strings::{put_named, text};
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Errhandler, Group, Info, Win};
use oxmpi_core::window::Facts;
use oxmpi_objects::attribute::ObjectKind;
use std::ffi::{c_char, c_int, c_void};

/// The address of a predefined attribute's value; for MPI_WIN_BASE the value itself.
fn predefined(facts: &Facts, keyval: c_int) -> Option<*const c_void> {
    Some(match keyval {
        abi::MPI_WIN_BASE => std::ptr::with_exposed_provenance(facts.base),
        abi::MPI_WIN_SIZE => (&raw const facts.size).cast(),
        abi::MPI_WIN_DISP_UNIT => (&raw const facts.disp_unit).cast(),
        abi::MPI_WIN_CREATE_FLAVOR => (&raw const facts.flavor).cast(),
        abi::MPI_WIN_MODEL => (&raw const facts.model).cast(),
        _ => return None,
    })
}

mpi! {
    fn MPI_Win_get_group(win: Win, group: *mut Group) -> c_int {
        on_win(FuncId::MPI_Win_get_group, win, |library, window| {
            unsafe { (window.group()?).give(library, group, "group") }
        })
    }

    /// Unknown hints are ignored. Hints about memory have an effect only when a window is made.
    fn MPI_Win_set_info(win: Win, info: Info) -> c_int {
        on_win(FuncId::MPI_Win_set_info, win, |_, window| {
            window.set_hints(window.hints().updated(&info::given(info)?)?);
            Ok(())
        })
    }

    /// Returns all known hints with their current values.
    fn MPI_Win_get_info(win: Win, info_used: *mut Info) -> c_int {
        on_win(FuncId::MPI_Win_get_info, win, |_, window| {
            info::give(window.hints().info(), info_used, "info_used")
        })
    }

    /// A longer name is cut.
    fn MPI_Win_set_name(win: Win, win_name: *const c_char) -> c_int {
        on_win(FuncId::MPI_Win_set_name, win, |_, window| {
            // SAFETY: the C program passes a string.
            window.set_name(kept(unsafe { text(win_name, "win_name") }?));
            Ok(())
        })
    }

    /// MPI_WIN_NULL has a name too.
    fn MPI_Win_get_name(win: Win, win_name: *mut c_char, resultlen: *mut c_int) -> c_int {
        if win == abi::MPI_WIN_NULL {
            return errors::on_none(FuncId::MPI_Win_get_name, |_| {
                // SAFETY: the C program passes MPI_MAX_OBJECT_NAME characters and an integer.
                unsafe { put_named(b"MPI_WIN_NULL", abi::MPI_MAX_OBJECT_NAME, win_name, "win_name", resultlen) }
            });
        }
        on_win(FuncId::MPI_Win_get_name, win, |_, window| {
            // SAFETY: the C program passes MPI_MAX_OBJECT_NAME characters and an integer.
            unsafe { put_named(&window.name(), abi::MPI_MAX_OBJECT_NAME, win_name, "win_name", resultlen) }
        })
    }

    fn MPI_Win_set_errhandler(win: Win, errhandler: Errhandler) -> c_int {
        on_win(FuncId::MPI_Win_set_errhandler, win, |_, window| {
            window.errhandler_cell().set(attach(errhandler, HandlerKind::Win)?);
            Ok(())
        })
    }

    /// The program must free the new reference.
    fn MPI_Win_get_errhandler(win: Win, errhandler: *mut Errhandler) -> c_int {
        on_win(FuncId::MPI_Win_get_errhandler, win, |_, window| {
            if errhandler.is_null() {
                return Err(null("errhandler"));
            }
            // SAFETY: the C program passes a place for a handle.
            unsafe { put(errhandler, refer(window.errhandler_cell()), "errhandler") }
        })
    }

    /// MPI-5.0 section 9.5.
    fn MPI_Win_call_errhandler(win: Win, errorcode: c_int) -> c_int {
        let checked = library().and_then(|library| {
            library.window(win)?;
            errors::check_code(errorcode)
        });
        match checked {
            Ok(()) => errors::call_handler(FuncId::MPI_Win_call_errhandler, On::Win(win), errorcode),
            Err(error) => errors::raise(FuncId::MPI_Win_call_errhandler, Some(On::Win(win)), error),
        }
    }

    fn MPI_Win_set_attr(win: Win, win_keyval: c_int, attribute_val: *mut c_void) -> c_int {
        with_win(FuncId::MPI_Win_set_attr, win, |_, window| {
            set(ObjectKind::Win, win, &window.attributes, win_keyval, attribute_val)
        })
    }

    /// MPI-5.0 section 7.7.4, and section 12.2.6 for the predefined attributes.
    fn MPI_Win_get_attr(win: Win, win_keyval: c_int, attribute_val: *mut c_void, flag: *mut c_int) -> c_int {
        on_win(FuncId::MPI_Win_get_attr, win, |_, window| {
            // SAFETY: the C program passes the address of a pointer and a place for an integer.
            unsafe {
                match predefined(&window.facts, win_keyval) {
                    Some(value) => store_found(Some(value), attribute_val, flag),
                    None => get(ObjectKind::Win, &window.attributes, win_keyval, attribute_val, flag),
                }
            }
        })
    }

    fn MPI_Win_delete_attr(win: Win, win_keyval: c_int) -> c_int {
        with_win(FuncId::MPI_Win_delete_attr, win, |_, window| {
            delete(ObjectKind::Win, win, &window.attributes, win_keyval)
        })
    }
}
