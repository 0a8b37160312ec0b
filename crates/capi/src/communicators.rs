//! Communicators (MPI-5.0 chapter 7).
//!
//! A collective call with wrong arguments takes part as far as it can, so that other ranks do not
//! wait forever. For example, a null pointer for the result is reported only after the communicator
//! was made and freed again.

use crate::attributes;
use crate::duplicates;
use crate::errhandlers::{self, HandlerKind};
use crate::errors::{on_comm, outcome};
use crate::hints::CommInfo;
use crate::info;
use crate::library::{Running, fetch, library, null, put};
use crate::on::On;
use crate::strings;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Errhandler, Group as GroupHandle, Info};
use oxmpi_core::Communicator;
use oxmpi_core::comm::{CommComparison, Peer, SHARED_MEMORY};
use oxmpi_core::handler::ErrorHandler;
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;
use std::ffi::{c_char, c_int};
use std::sync::Arc;

/// Enters a new communicator in the table, and its handle in its error handler.
pub(crate) fn enlist(library: &Running, made: Communicator) -> Comm {
    let made = Arc::new(made);
    let handle = library.communicators.insert(Arc::clone(&made)).raw() as Comm;
    made.errhandler_cell().set_object(handle);
    handle
}

pub(crate) fn give(
    library: &Running,
    place: *mut Comm,
    what: &str,
    made: Communicator,
) -> Result<()> {
    if place.is_null() {
        library.process.close(&made);
        return Err(null(what));
    }
    let handle = enlist(library, made);
    // SAFETY: the C program passes a place for a handle.
    unsafe { put(place, handle, what) }
}

/// Stores MPI_COMM_NULL if this process is no member.
fn give_if_any(library: &Running, place: *mut Comm, made: Option<Communicator>) -> Result<()> {
    match made {
        Some(made) => give(library, place, "newcomm", made),
        // SAFETY: the C program passes a place for a handle.
        None => unsafe { put(place, abi::MPI_COMM_NULL, "newcomm") },
    }
}

/// The string by which simultaneous creations of communicators differ.
/// # Safety
/// `stringtag` must be null or a string that lives during the call.
unsafe fn string_tag<'a>(stringtag: *const c_char) -> Result<&'a [u8]> {
    // SAFETY: by the contract of this function.
    let tag = unsafe { strings::text(stringtag, "stringtag") }?;
    if tag.len() >= abi::MPI_MAX_STRINGTAG_LEN as usize {
        let text = format!(
            "stringtag has {} characters; at most {} fit",
            tag.len(),
            abi::MPI_MAX_STRINGTAG_LEN - 1
        );
        return Err(MpiError::new(abi::MPI_ERR_ARG, text));
    }
    Ok(tag)
}

/// Checks that a group comes from the session of the communicator.
fn check_origin(communicator: &Communicator, group: Arc<Group>) -> Result<Arc<Group>> {
    if !group.is_empty() {
        communicator.origin().check_same(group.origin(), abi::MPI_ERR_GROUP, "the group")?;
    }
    Ok(group)
}

/// Runs a call that makes a communicator from groups. Its errors go to the new communicator's error
/// handler.
fn on_creation(
    function: FuncId,
    errhandler: Errhandler,
    call: impl FnOnce(&'static Running, ErrorHandler) -> Result<()>,
) -> c_int {
    let result = library()
        .and_then(|library| call(library, errhandlers::attach(errhandler, HandlerKind::Comm)?));
    outcome(function, Some(On::Creation(errhandler)), result)
}

#[derive(Clone, Copy)]
enum Release {
    Free,
    Disconnect,
}

fn end(function: FuncId, comm: *mut Comm, how: Release) -> c_int {
    // SAFETY: the C program passes a place with a handle.
    let handle = match unsafe { fetch(comm, "comm") } {
        Ok(handle) => handle,
        Err(error) => return outcome(function, None, Err(error)),
    };
    let result = library().and_then(|library| {
        if handle == abi::MPI_COMM_WORLD || handle == abi::MPI_COMM_SELF {
            let text = "a predefined communicator cannot be freed or disconnected";
            return Err(MpiError::new(abi::MPI_ERR_COMM, text));
        }
        let communicator = Arc::clone(&*library.communicator(handle)?);
        attributes::delete_attributes(handle, &communicator.attributes)?;
        match how {
            Release::Free => library.process.close(&communicator),
            Release::Disconnect => library.process.disconnect(&communicator),
        }
        library.contexts.forget(handle);
        let freed = library.communicators.free(Handle::from_raw(handle as u64));
        freed.map_err(|bad| MpiError::new(abi::MPI_ERR_COMM, bad.to_string()))?;
        // SAFETY: `comm` is not null, as `fetch` has checked, and holds a handle.
        unsafe { put(comm, abi::MPI_COMM_NULL, "comm") }
    });
    outcome(function, Some(On::Comm(handle)), result)
}

/// The info key for the kind of hardware by which a communicator is split.
const RESOURCE_TYPE: &str = "mpi_hw_resource_type";

/// The resource in an info by which a communicator is split.
fn resource(info: &oxmpi_objects::info::Info, split_type: c_int) -> Option<&str> {
    let set =
        info.hint("mpi_pset_name").filter(|_| split_type == abi::MPI_COMM_TYPE_RESOURCE_GUIDED);
    set.or_else(|| info.hint(RESOURCE_TYPE))
}

mpi! {
    fn MPI_Comm_rank(comm: Comm, rank: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Comm_rank, comm, |_, communicator| {
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(rank, communicator.rank(), "rank") }
        })
    }

    fn MPI_Comm_size(comm: Comm, size: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Comm_size, comm, |_, communicator| {
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(size, communicator.size(), "size") }
        })
    }

    fn MPI_Comm_dup(comm: Comm, newcomm: *mut Comm) -> c_int {
        let result = duplicates::duplicate(comm, Ok(CommInfo::default()), newcomm);
        outcome(FuncId::MPI_Comm_dup, Some(On::Comm(comm)), result)
    }

    fn MPI_Comm_split(comm: Comm, color: c_int, key: c_int, newcomm: *mut Comm) -> c_int {
        on_comm(FuncId::MPI_Comm_split, comm, |library, communicator| {
            give_if_any(library, newcomm, library.process.split(communicator, color, key)?)
        })
    }

    fn MPI_Comm_split_type(
        comm: Comm,
        split_type: c_int,
        key: c_int,
        info: Info,
        newcomm: *mut Comm,
    ) -> c_int {
        on_comm(FuncId::MPI_Comm_split_type, comm, |library, communicator| {
            let wanted = info::given(info).and_then(|info| Ok((CommInfo::of(&info)?, info)));
            let (how, component, resource) = match &wanted {
                Ok((wanted, info)) => (split_type, wanted.component, resource(info, split_type)),
                // The other ranks must not wait for this rank.
                Err(_) => (abi::MPI_UNDEFINED, None, None),
            };
            let made = library.process.split_type_served_by(communicator, (how, key), resource, component)?;
            let hints = wanted?.0.hints;
            made.iter().for_each(|made| made.set_hints(hints));
            let may_change = ![abi::MPI_INFO_NULL, abi::MPI_INFO_ENV].contains(&info);
            if made.is_some() && split_type == abi::MPI_COMM_TYPE_HW_UNGUIDED && may_change {
                // MPI-5.0 section 7.4.2 "Communicator Constructors".
                info::change(info, |info| info.set(RESOURCE_TYPE.as_bytes(), SHARED_MEMORY.as_bytes()))?;
            }
            give_if_any(library, newcomm, made)
        })
    }

    fn MPI_Comm_create(comm: Comm, group: GroupHandle, newcomm: *mut Comm) -> c_int {
        on_comm(FuncId::MPI_Comm_create, comm, |library, communicator| {
            let group = library.group(group).and_then(|group| check_origin(communicator, group));
            let made = library.process.create(communicator, group.as_deref().unwrap_or(&Group::EMPTY))?;
            group?;
            give_if_any(library, newcomm, made)
        })
    }

    /// Test: tests/c/comm_from_group.c.
    fn MPI_Comm_create_from_group(
        group: GroupHandle,
        stringtag: *const c_char,
        info: Info,
        errhandler: Errhandler,
        newcomm: *mut Comm,
    ) -> c_int {
        on_creation(FuncId::MPI_Comm_create_from_group, errhandler, |library, handler| {
            // SAFETY: the C program passes a string.
            let tag = unsafe { string_tag(stringtag) }?;
            let CommInfo { hints, component } = CommInfo::given(info)?;
            let group = library.group(group)?;
            let made = library.process.create_from_group(&group, tag, (handler, component))?;
            if let Some(made) = &made {
                made.set_hints(hints);
            }
            give_if_any(library, newcomm, made)
        })
    }

    /// Test: tests/c/comm_from_group.c.
    fn MPI_Intercomm_create_from_groups(
        local_group: GroupHandle,
        local_leader: c_int,
        remote_group: GroupHandle,
        remote_leader: c_int,
        stringtag: *const c_char,
        info: Info,
        errhandler: Errhandler,
        newintercomm: *mut Comm,
    ) -> c_int {
        on_creation(FuncId::MPI_Intercomm_create_from_groups, errhandler, |library, handler| {
            // SAFETY: the C program passes a string.
            let tag = unsafe { string_tag(stringtag) }?;
            let CommInfo { hints, component } = CommInfo::given(info)?;
            let (local, remote) = (library.group(local_group)?, library.group(remote_group)?);
            let (local, remote) = ((&*local, local_leader), (&*remote, remote_leader));
            let made = library.process.intercomm_create_from_groups(local, remote, tag, (handler, component))?;
            made.set_hints(hints);
            give(library, newintercomm, "newintercomm", made)
        })
    }

    fn MPI_Comm_create_group(comm: Comm, group: GroupHandle, tag: c_int, newcomm: *mut Comm) -> c_int {
        on_comm(FuncId::MPI_Comm_create_group, comm, |library, communicator| {
            let group = check_origin(communicator, library.group(group)?)?;
            give_if_any(library, newcomm, library.process.create_group(communicator, &group, tag)?)
        })
    }

    fn MPI_Comm_compare(comm1: Comm, comm2: Comm, result: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Comm_compare, comm1, |library, communicator| {
            let related = match communicator.compare(&*library.communicator(comm2)?)? {
                CommComparison::Identical => abi::MPI_IDENT,
                CommComparison::Congruent => abi::MPI_CONGRUENT,
                CommComparison::Similar => abi::MPI_SIMILAR,
                CommComparison::Unequal => abi::MPI_UNEQUAL,
            };
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(result, related, "result") }
        })
    }

    fn MPI_Comm_test_inter(comm: Comm, flag: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Comm_test_inter, comm, |_, communicator| {
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(flag, c_int::from(communicator.is_inter()), "flag") }
        })
    }

    fn MPI_Comm_remote_size(comm: Comm, size: *mut c_int) -> c_int {
        on_comm(FuncId::MPI_Comm_remote_size, comm, |_, communicator| {
            communicator.check_inter()?;
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(size, communicator.remote_size(), "size") }
        })
    }

    /// `peer_comm`, `remote_leader` and `tag` are significant only at the leaders.
    fn MPI_Intercomm_create(
        local_comm: Comm,
        local_leader: c_int,
        peer_comm: Comm,
        remote_leader: c_int,
        tag: c_int,
        newintercomm: *mut Comm,
    ) -> c_int {
        on_comm(FuncId::MPI_Intercomm_create, local_comm, |library, communicator| {
            let leads = communicator.rank() == local_leader;
            let peer = || {
                let peer = library.communicator(peer_comm)?;
                communicator.check_origin(&peer, "peer_comm").map(|()| peer)
            };
            let (comm, wrong) = match leads.then(peer).transpose() {
                Ok(comm) => (comm, None),
                Err(error) => (None, Some(error)),
            };
            // The leader must pass its error on to its group.
            let peer = match wrong {
                None => Ok(comm.as_ref().map(|comm| Peer { comm, leader: remote_leader, tag })),
                Some(error) => Err(error),
            };
            let made = library.process.intercomm_create(communicator, local_leader, peer)?;
            give(library, newintercomm, "newintercomm", made)
        })
    }

    fn MPI_Intercomm_merge(intercomm: Comm, high: c_int, newintracomm: *mut Comm) -> c_int {
        on_comm(FuncId::MPI_Intercomm_merge, intercomm, |library, communicator| {
            let made = library.process.merge(communicator, high != 0)?;
            give(library, newintracomm, "newintracomm", made)
        })
    }

    /// Pending operations continue.
    fn MPI_Comm_free(comm: *mut Comm) -> c_int {
        end(FuncId::MPI_Comm_free, comm, Release::Free)
    }

    /// MPI-5.0 section 11.10.4. Waits for pending operations.
    fn MPI_Comm_disconnect(comm: *mut Comm) -> c_int {
        end(FuncId::MPI_Comm_disconnect, comm, Release::Disconnect)
    }
}
