//! Event types and registrations (MPI-5.0 section 15.3.8).
//!
//! There are no hints: info arguments must only be valid, and returned infos are empty.

use super::checks::Result;
use super::enums;
use super::outputs::{found, verbosity};
use super::pvars::{binding, bound};
use super::registered::{Callback, level};
use super::registrations::{self, event_type};
use crate::operations::info;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{
    Aint, Datatype, Info as InfoHandle, TCbSafety, TEnum, TEventCbFunction,
    TEventDroppedCbFunction, TEventFreeCbFunction, TEventRegistration,
};
use oxmpi_core::tool::events::{ElementType, all};
use oxmpi_objects::info::Info;
use oxmpi_param::Level;
use std::ffi::{c_int, c_void};

fn check_info(info: InfoHandle) -> Result<()> {
    info::given(info).map(drop).map_err(|_| abi::MPI_T_ERR_INVALID)
}

const fn datatype(kind: ElementType) -> Datatype {
    match kind {
        ElementType::Int => abi::MPI_INT,
        ElementType::Unsigned64 => abi::MPI_UNSIGNED_LONG_LONG,
    }
}

fn callback_of(registration: TEventRegistration, safety: TCbSafety) -> Result<()> {
    let (registration, level) = (registrations::get(registration)?, level(safety)?);
    if registration.has_callback(level) { Ok(()) } else { Err(abi::MPI_T_ERR_INVALID) }
}

/// Test of this module: tests/c/mpit_events.c.
pub(crate) fn t_event_get_num() -> Result<c_int> {
    Ok(all().len() as c_int)
}

type EventInfo =
    (&'static str, c_int, Vec<Datatype>, Vec<Aint>, c_int, TEnum, Info, &'static str, c_int);

/// The enumeration names the elements.
pub(crate) fn t_event_get_info(event_index: c_int) -> Result<EventInfo> {
    let event = event_type(event_index)?;
    Ok((
        event.name,
        verbosity(Level::User),
        event.elements.iter().map(|element| datatype(element.kind)).collect(),
        event.layout().0.into_iter().map(|place| place as Aint).collect(),
        event.elements.len() as c_int,
        enums::handle(oxmpi_core::tool::enums::find(event.name)),
        Info::new(),
        event.help,
        binding(event.bind),
    ))
}

pub(crate) fn t_event_get_index(name: &str) -> Result<c_int> {
    found(all().iter().position(|event| event.name == name))
}

pub(crate) fn t_event_handle_alloc(
    event_index: c_int,
    obj_handle: *mut c_void,
    info: InfoHandle,
) -> Result<TEventRegistration> {
    let event = event_type(event_index)?;
    check_info(info)?;
    // SAFETY: the C program passes a handle's address, if the event is bound.
    let comm = unsafe { bound(event.bind, obj_handle) }?;
    registrations::add(event, comm)
}

pub(crate) fn t_event_handle_set_info(
    registration: TEventRegistration,
    info: InfoHandle,
) -> Result<()> {
    registrations::get(registration)?;
    check_info(info)
}

pub(crate) fn t_event_handle_get_info(registration: TEventRegistration) -> Result<Info> {
    registrations::get(registration)?;
    Ok(Info::new())
}

/// A null pointer removes the function.
pub(crate) fn t_event_register_callback(
    registration: TEventRegistration,
    cb_safety: TCbSafety,
    info: InfoHandle,
    user_data: *mut c_void,
    function: Option<TEventCbFunction>,
) -> Result<()> {
    let registration = registrations::get(registration)?;
    let level = level(cb_safety)?;
    check_info(info)?;
    let user_data = user_data.expose_provenance();
    registration.set_callback(level, function.map(|function| Callback { function, user_data }));
    Ok(())
}

pub(crate) fn t_event_callback_set_info(
    registration: TEventRegistration,
    cb_safety: TCbSafety,
    info: InfoHandle,
) -> Result<()> {
    callback_of(registration, cb_safety)?;
    check_info(info)
}

pub(crate) fn t_event_callback_get_info(
    registration: TEventRegistration,
    cb_safety: TCbSafety,
) -> Result<Info> {
    callback_of(registration, cb_safety)?;
    Ok(Info::new())
}

pub(crate) fn t_event_set_dropped_handler(
    registration: TEventRegistration,
    function: Option<TEventDroppedCbFunction>,
) -> Result<()> {
    registrations::get(registration)?.set_on_drop(function);
    Ok(())
}

/// The function is called when no other function of the registration runs: at once, or after the
/// callback that makes this call.
pub(crate) fn t_event_handle_free(
    registration: TEventRegistration,
    user_data: *mut c_void,
    function: Option<TEventFreeCbFunction>,
) -> Result<()> {
    let user_data = user_data.expose_provenance();
    registrations::remove(registration, function.map(|function| (function, user_data)))
}
