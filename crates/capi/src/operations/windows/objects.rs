//! Groups, hints, names, error handlers and attributes of windows (MPI-5.0 sections 12.2.6 and
//! 12.2.7, 7.7.4, 7.8 and 9.3.2). Test: tests/c/win_objects.c.

use super::WinArgument;
use crate::operations::attributes::{delete, set, value};
use crate::operations::info;
use crate::operations::names::kept;
use crate::state::handlers::HandlerKind;
use crate::state::library::Running;
use crate::state::objects::objects;
use crate::state::predefined::Predefined;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Errhandler, Info as InfoHandle};
use oxmpi_core::window::Facts;
use oxmpi_objects::attribute::{Language, ObjectKind};
use oxmpi_objects::error::Result;
use oxmpi_objects::group::Group;
use oxmpi_objects::info::Info;
use std::ffi::{c_int, c_void};

/// A predefined attribute. The address of MPI_WIN_BASE is the value itself.
fn predefined(facts: &Facts, keyval: c_int) -> Option<Predefined> {
    Some(match keyval {
        abi::MPI_WIN_BASE => Predefined {
            address: std::ptr::with_exposed_provenance(facts.base),
            value: facts.base.cast_signed(),
        },
        abi::MPI_WIN_SIZE => {
            Predefined { address: (&raw const facts.size).cast(), value: facts.size }
        }
        abi::MPI_WIN_DISP_UNIT => (&facts.disp_unit).into(),
        abi::MPI_WIN_CREATE_FLAVOR => (&facts.flavor).into(),
        abi::MPI_WIN_MODEL => (&facts.model).into(),
        _ => return None,
    })
}

pub(crate) fn win_get_group(_: &Running, win: &WinArgument) -> Result<Group> {
    win.group()
}

/// Unknown hints are ignored. Hints about memory have an effect only when a window is made.
pub(crate) fn win_set_info(_: &Running, win: &WinArgument, info: InfoHandle) -> Result<()> {
    win.set_hints(win.hints().updated(&info::given(info)?)?);
    Ok(())
}

/// All known hints with their current values.
pub(crate) fn win_get_info(_: &Running, win: &WinArgument) -> Result<Info> {
    Ok(win.hints().info())
}

/// A longer name is cut.
pub(crate) fn win_set_name(_: &Running, win: &WinArgument, name: &[u8]) -> Result<()> {
    win.set_name(kept(name));
    Ok(())
}

pub(crate) fn win_get_name(_: &Running, win: Option<&WinArgument>) -> Result<Box<[u8]>> {
    Ok(win.map_or_else(|| b"MPI_WIN_NULL".as_slice().into(), |win| win.name()))
}

pub(crate) fn win_set_errhandler(
    _: &Running,
    win: &WinArgument,
    errhandler: Errhandler,
) -> Result<()> {
    win.errhandler_cell().set(objects().errhandlers.attach(errhandler, HandlerKind::Win)?);
    Ok(())
}

/// The program must free the new reference.
pub(crate) fn win_get_errhandler(_: &Running, win: &WinArgument) -> Result<Errhandler> {
    Ok(objects().errhandlers.refer(win.errhandler_cell()))
}

pub(crate) fn win_set_attr(
    language: Language,
    _: &Running,
    win: &WinArgument,
    keyval: c_int,
    value: *mut c_void,
) -> Result<()> {
    set(language, ObjectKind::Win, win.handle, &win.attributes, keyval, value)
}

/// MPI-5.0 section 7.7.4, and section 12.2.6 for the predefined attributes.
pub(crate) fn win_get_attr(
    language: Language,
    _: &Running,
    win: &WinArgument,
    keyval: c_int,
) -> Result<Option<*const c_void>> {
    match predefined(&win.facts, keyval) {
        Some(attribute) => Ok(Some(attribute.seen_by(language))),
        None => value(language, ObjectKind::Win, &win.attributes, keyval),
    }
}

pub(crate) fn win_delete_attr(_: &Running, win: &WinArgument, keyval: c_int) -> Result<()> {
    delete(ObjectKind::Win, win.handle, &win.attributes, keyval)
}
