//! Communicators (MPI-5.0 chapter 7).
//!
//! A collective call with wrong arguments takes part as far as it can, so that other ranks do not
//! wait forever. For example, a null pointer for the result is reported only after the communicator
//! was made and freed again.

use crate::arguments::{NewObject, null, put};
use crate::operations::attributes;
use crate::operations::hints::CommInfo;
use crate::operations::info;
use crate::state::handlers::HandlerKind;
use crate::state::library::{CommRef, Running};
use crate::state::named::{CommArgument, OfArgument};
use crate::state::objects::objects;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Errhandler, Group as GroupHandle, Info};
use oxmpi_core::Communicator;
use oxmpi_core::comm::{CommComparison, Peer, SHARED_MEMORY};
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;
use oxmpi_objects::shown::{ValueKind, bad_handle};
use std::ffi::c_int;
use std::sync::Arc;

/// Enters a new communicator in the table, and its handle in its error handler.
pub(crate) fn enlist(library: &Running, made: Communicator) -> Comm {
    let made = Arc::new(made);
    let handle = library.communicators.insert(Arc::clone(&made)).raw() as Comm;
    made.errhandler_cell().set_object(handle);
    handle
}

impl NewObject for Communicator {
    unsafe fn give(self, library: &Running, place: *mut usize, argument: &str) -> Result<()> {
        if place.is_null() {
            library.process.close(&self);
            return Err(null(argument));
        }
        // SAFETY: by the contract of this function.
        unsafe { put(place, enlist(library, self), argument) }
    }
}

/// Without a communicator the handle is MPI_COMM_NULL: this process is no member.
impl NewObject for Option<Communicator> {
    unsafe fn give(self, library: &Running, place: *mut usize, argument: &str) -> Result<()> {
        // SAFETY: by the contract of this function.
        unsafe {
            match self {
                Some(made) => made.give(library, place, argument),
                None => put(place, abi::MPI_COMM_NULL, argument),
            }
        }
    }
}

/// The string by which simultaneous creations of communicators differ.
fn string_tag(tag: &[u8]) -> Result<&[u8]> {
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

#[derive(Clone, Copy)]
enum Release {
    Free,
    Disconnect,
}

fn end(library: &Running, handle: Comm, how: Release) -> Result<Comm> {
    if handle == abi::MPI_COMM_WORLD || handle == abi::MPI_COMM_SELF {
        let text = "comm is predefined: it cannot be freed or disconnected";
        return Err(MpiError::new(abi::MPI_ERR_COMM, text));
    }
    let communicator = Arc::clone(&*library.communicator(handle).of("comm")?);
    attributes::delete_attributes(handle, &communicator.attributes)?;
    match how {
        Release::Free => library.process.close(&communicator),
        Release::Disconnect => library.process.disconnect(&communicator),
    }
    library.contexts.forget(handle);
    let freed = library.communicators.free(Handle::from_raw(handle as u64));
    freed.map_err(|bad| bad_handle(ValueKind::Comm, handle as u64, bad))?;
    Ok(abi::MPI_COMM_NULL)
}

/// The info key for the kind of hardware by which a communicator is split.
const RESOURCE_TYPE: &str = "mpi_hw_resource_type";

/// The resource in an info by which a communicator is split.
fn resource(info: &oxmpi_objects::info::Info, split_type: c_int) -> Option<&str> {
    let set =
        info.hint("mpi_pset_name").filter(|_| split_type == abi::MPI_COMM_TYPE_RESOURCE_GUIDED);
    set.or_else(|| info.hint(RESOURCE_TYPE))
}

pub(crate) fn comm_rank(_: &Running, comm: &CommArgument) -> Result<c_int> {
    Ok(comm.rank())
}

pub(crate) fn comm_size(_: &Running, comm: &CommArgument) -> Result<c_int> {
    Ok(comm.size())
}

pub(crate) fn comm_split(
    library: &Running,
    comm: &CommArgument,
    color: c_int,
    key: c_int,
) -> Result<Option<Communicator>> {
    library.process.split(comm, color, key)
}

pub(crate) fn comm_split_type(
    library: &Running,
    comm: &CommArgument,
    split_type: c_int,
    key: c_int,
    info: Info,
) -> Result<Option<Communicator>> {
    let wanted = info::given(info).and_then(|info| Ok((CommInfo::of(&info)?, info)));
    let (how, component, resource) = match &wanted {
        Ok((wanted, info)) => (split_type, wanted.component, resource(info, split_type)),
        // The other ranks must not wait for this rank.
        Err(_) => (abi::MPI_UNDEFINED, None, None),
    };
    let made = library.process.split_type_served_by(comm, (how, key), resource, component)?;
    let hints = wanted?.0.hints;
    made.iter().for_each(|made| made.set_hints(hints));
    let may_change = ![abi::MPI_INFO_NULL, abi::MPI_INFO_ENV].contains(&info);
    if made.is_some() && split_type == abi::MPI_COMM_TYPE_HW_UNGUIDED && may_change {
        // MPI-5.0 section 7.4.2 "Communicator Constructors".
        info::change(info, |info| info.set(RESOURCE_TYPE.as_bytes(), SHARED_MEMORY.as_bytes()))?;
    }
    Ok(made)
}

pub(crate) fn comm_create(
    library: &Running,
    comm: &CommArgument,
    group: Result<Arc<Group>>,
) -> Result<Option<Communicator>> {
    let group = group.and_then(|group| check_origin(comm, group));
    let made = library.process.create(comm, group.as_deref().unwrap_or(&Group::EMPTY))?;
    group.map(|_| made)
}

/// Test: tests/c/comm_from_group.c. Errors go to the new communicator's error handler.
pub(crate) fn comm_create_from_group(
    library: &Running,
    group: Result<Arc<Group>>,
    stringtag: Result<&[u8]>,
    info: Info,
    errhandler: Errhandler,
) -> Result<Option<Communicator>> {
    let handler = objects().errhandlers.attach(errhandler, HandlerKind::Comm)?;
    let tag = stringtag.and_then(string_tag)?;
    let CommInfo { hints, component } = CommInfo::given(info)?;
    let made = library.process.create_from_group(&*group?, tag, (handler, component))?;
    if let Some(made) = &made {
        made.set_hints(hints);
    }
    Ok(made)
}

/// Test: tests/c/comm_from_group.c.
#[allow(clippy::too_many_arguments)]
pub(crate) fn intercomm_create_from_groups(
    library: &Running,
    local_group: Result<Arc<Group>>,
    local_leader: c_int,
    remote_group: GroupHandle,
    remote_leader: c_int,
    stringtag: Result<&[u8]>,
    info: Info,
    errhandler: Errhandler,
) -> Result<Communicator> {
    let handler = objects().errhandlers.attach(errhandler, HandlerKind::Comm)?;
    let tag = stringtag.and_then(string_tag)?;
    let CommInfo { hints, component } = CommInfo::given(info)?;
    let (local, remote) = (local_group?, library.group(remote_group).of("remote_group")?);
    let (local, remote) = ((&*local, local_leader), (&*remote, remote_leader));
    let made =
        library.process.intercomm_create_from_groups(local, remote, tag, (handler, component))?;
    made.set_hints(hints);
    Ok(made)
}

pub(crate) fn comm_create_group(
    library: &Running,
    comm: &CommArgument,
    group: Result<Arc<Group>>,
    tag: c_int,
) -> Result<Option<Communicator>> {
    library.process.create_group(comm, &*check_origin(comm, group?)?, tag)
}

pub(crate) fn comm_compare(_: &Running, comm1: &CommArgument, comm2: CommRef<'_>) -> Result<c_int> {
    Ok(match comm1.compare(&comm2)? {
        CommComparison::Identical => abi::MPI_IDENT,
        CommComparison::Congruent => abi::MPI_CONGRUENT,
        CommComparison::Similar => abi::MPI_SIMILAR,
        CommComparison::Unequal => abi::MPI_UNEQUAL,
    })
}

pub(crate) fn comm_test_inter(_: &Running, comm: &CommArgument) -> Result<bool> {
    Ok(comm.is_inter())
}

pub(crate) fn comm_remote_size(_: &Running, comm: &CommArgument) -> Result<c_int> {
    comm.check_inter()?;
    Ok(comm.remote_size())
}

pub(crate) fn intercomm_create(
    library: &Running,
    comm: &CommArgument,
    local_leader: c_int,
    peer_comm: Comm,
    remote_leader: c_int,
    tag: c_int,
) -> Result<Communicator> {
    let leads = comm.rank() == local_leader;
    let peer = || {
        let peer = library.communicator(peer_comm).of("peer_comm")?;
        comm.check_origin(&peer, "peer_comm").map(|()| peer)
    };
    let (peer, wrong) = match leads.then(peer).transpose() {
        Ok(peer) => (peer, None),
        Err(error) => (None, Some(error)),
    };
    // The leader must pass its error on to its group.
    let peer = match wrong {
        None => Ok(peer.as_ref().map(|comm| Peer { comm, leader: remote_leader, tag })),
        Some(error) => Err(error),
    };
    library.process.intercomm_create(comm, local_leader, peer)
}

pub(crate) fn intercomm_merge(
    library: &Running,
    intercomm: &CommArgument,
    high: bool,
) -> Result<Communicator> {
    library.process.merge(intercomm, high)
}

/// Pending operations continue.
pub(crate) fn comm_free(library: &Running, comm: Comm) -> Result<Comm> {
    end(library, comm, Release::Free)
}

/// Waits for pending operations.
pub(crate) fn comm_disconnect(library: &Running, comm: Comm) -> Result<Comm> {
    end(library, comm, Release::Disconnect)
}
