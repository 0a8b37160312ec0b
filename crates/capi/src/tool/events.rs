//! Event types and registrations (MPI-5.0 section 15.3.8).
//!
//! There are no hints: info arguments must only be valid, and returned infos are empty.

use super::outputs::{name, put, put_string, put_wanted, verbosity};
use super::pvars::{binding, bound};
use super::registrations::{self, Callback, event_type, level};
use super::sources::give_empty_info;
use super::{Result, call, enums};
use crate::info;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{
    Aint, Datatype, Info as InfoHandle, TCbSafety, TEnum, TEventCbFunction,
    TEventDroppedCbFunction, TEventFreeCbFunction, TEventRegistration,
};
use oxmpi_core::tool::events::{ElementType, all};
use oxmpi_param::Level;
use std::ffi::{c_char, c_int, c_void};

fn check_info(info: InfoHandle) -> Result<()> {
    info::given(info).map(drop).map_err(|_| abi::MPI_T_ERR_INVALID)
}

const fn datatype(kind: ElementType) -> Datatype {
    match kind {
        ElementType::Int => abi::MPI_INT,
        ElementType::Unsigned64 => abi::MPI_UNSIGNED_LONG_LONG,
    }
}

/// Stores the datatypes and displacements of an event's elements, as far as the arrays have room,
/// and the number of elements.
/// # Safety
/// The pointers must be null or valid, the arrays for `num_elements` elements.
unsafe fn put_elements(
    event: &oxmpi_core::tool::events::EventType,
    datatypes: *mut Datatype,
    displacements: *mut Aint,
    num_elements: *mut c_int,
) {
    if num_elements.is_null() {
        return;
    }
    // SAFETY: not null, and valid by the contract of this function.
    let room = usize::try_from(unsafe { num_elements.read() }).unwrap_or(0);
    for (at, (element, place)) in event.elements.iter().zip(event.layout().0).take(room).enumerate()
    {
        // SAFETY: not null, and below the size that the caller has passed.
        unsafe {
            if !datatypes.is_null() {
                datatypes.add(at).write(datatype(element.kind));
            }
            if !displacements.is_null() {
                displacements.add(at).write(place as Aint);
            }
        }
    }
    // SAFETY: not null, and valid by the contract of this function.
    unsafe { num_elements.write(event.elements.len() as c_int) };
}

mpi! {
    /// Test of this module: tests/c/mpit_events.c.
    fn MPI_T_event_get_num(num_events: *mut c_int) -> c_int {
        // SAFETY: the C program passes a place for an integer.
        call(|| unsafe { put(num_events, all().len() as c_int) })
    }

    /// The enumeration names the elements.
    fn MPI_T_event_get_info(
        event_index: c_int,
        name: *mut c_char,
        name_len: *mut c_int,
        verbosity: *mut c_int,
        array_of_datatypes: *mut Datatype,
        array_of_displacements: *mut Aint,
        num_elements: *mut c_int,
        enumtype: *mut TEnum,
        info: *mut InfoHandle,
        desc: *mut c_char,
        desc_len: *mut c_int,
        bind: *mut c_int,
    ) -> c_int {
        call(|| {
            let event = event_type(event_index)?;
            // SAFETY: the C program passes a place for each result that it wants, else null.
            unsafe {
                put_string(event.name, name, name_len);
                put_wanted(verbosity, self::verbosity(Level::User));
                put_elements(event, array_of_datatypes, array_of_displacements, num_elements);
                put_wanted(enumtype, enums::handle(oxmpi_core::tool::enums::find(event.name)));
                put_string(event.help, desc, desc_len);
                put_wanted(bind, binding(event.bind));
            }
            give_empty_info(info)
        })
    }

    fn MPI_T_event_get_index(name: *const c_char, event_index: *mut c_int) -> c_int {
        call(|| {
            // SAFETY: the C program passes a string.
            let name = unsafe { self::name(name) }?;
            let place = all().iter().position(|event| event.name == name);
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(event_index, place.ok_or(abi::MPI_T_ERR_INVALID_NAME)? as c_int) }
        })
    }

    fn MPI_T_event_handle_alloc(
        event_index: c_int,
        obj_handle: *mut c_void,
        info: InfoHandle,
        event_registration: *mut TEventRegistration,
    ) -> c_int {
        call(|| {
            let event = event_type(event_index)?;
            check_info(info)?;
            if event_registration.is_null() {
                return Err(abi::MPI_T_ERR_INVALID);
            }
            // SAFETY: the C program passes a handle's address, if the event is bound.
            let comm = unsafe { bound(event.bind, obj_handle) }?;
            // SAFETY: the C program passes a place for a handle.
            unsafe { put(event_registration, registrations::add(event, comm)?) }
        })
    }

    fn MPI_T_event_handle_set_info(event_registration: TEventRegistration, info: InfoHandle) -> c_int {
        call(|| registrations::get(event_registration).and_then(|_| check_info(info)))
    }

    fn MPI_T_event_handle_get_info(
        event_registration: TEventRegistration,
        info_used: *mut InfoHandle,
    ) -> c_int {
        call(|| {
            registrations::get(event_registration)?;
            if info_used.is_null() { Err(abi::MPI_T_ERR_INVALID) } else { give_empty_info(info_used) }
        })
    }

    /// A null pointer removes the function.
    fn MPI_T_event_register_callback(
        event_registration: TEventRegistration,
        cb_safety: TCbSafety,
        info: InfoHandle,
        user_data: *mut c_void,
        event_cb_function: Option<TEventCbFunction>,
    ) -> c_int {
        call(|| {
            let registration = registrations::get(event_registration)?;
            let level = level(cb_safety)?;
            check_info(info)?;
            let user_data = user_data.expose_provenance();
            let callback = event_cb_function.map(|function| Callback { function, user_data });
            registration.set_callback(level, callback);
            Ok(())
        })
    }

    fn MPI_T_event_callback_set_info(
        event_registration: TEventRegistration,
        cb_safety: TCbSafety,
        info: InfoHandle,
    ) -> c_int {
        call(|| callback_of(event_registration, cb_safety).and_then(|()| check_info(info)))
    }

    fn MPI_T_event_callback_get_info(
        event_registration: TEventRegistration,
        cb_safety: TCbSafety,
        info_used: *mut InfoHandle,
    ) -> c_int {
        call(|| {
            callback_of(event_registration, cb_safety)?;
            if info_used.is_null() { Err(abi::MPI_T_ERR_INVALID) } else { give_empty_info(info_used) }
        })
    }

    fn MPI_T_event_set_dropped_handler(
        event_registration: TEventRegistration,
        dropped_cb_function: Option<TEventDroppedCbFunction>,
    ) -> c_int {
        call(|| {
            registrations::get(event_registration)?.set_on_drop(dropped_cb_function);
            Ok(())
        })
    }

    /// The function is called when no other function of the registration runs: at once, or after
    /// the callback that makes this call.
    fn MPI_T_event_handle_free(
        event_registration: TEventRegistration,
        user_data: *mut c_void,
        free_cb_function: Option<TEventFreeCbFunction>,
    ) -> c_int {
        call(|| {
            let user_data = user_data.expose_provenance();
            registrations::remove(event_registration, free_cb_function.map(|function| (function, user_data)))
        })
    }
}

fn callback_of(registration: TEventRegistration, safety: TCbSafety) -> Result<()> {
    let (registration, level) = (registrations::get(registration)?, level(safety)?);
    if registration.has_callback(level) { Ok(()) } else { Err(abi::MPI_T_ERR_INVALID) }
}
