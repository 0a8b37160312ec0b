//! Groups (MPI-5.0 section 7.3). All functions are local. A group has no error handler. Errors go
//! to the handler of the communicator argument, otherwise to that of MPI_COMM_SELF.

use crate::arguments::{NewObject, Places, put};
use crate::state::library::Running;
use crate::state::named::CommArgument;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Group as GroupHandle;
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::Result;
use oxmpi_objects::group::{Group, GroupRelation};
use oxmpi_objects::shown::{ValueKind, bad_handle};
use std::ffi::c_int;
use std::sync::Arc;

/// An empty group is MPI_GROUP_EMPTY.
impl NewObject for Group {
    unsafe fn give(self, library: &Running, place: *mut usize, argument: &str) -> Result<()> {
        let handle = match self.is_empty() {
            true => abi::MPI_GROUP_EMPTY,
            false => library.groups.insert(Arc::new(self)).raw() as GroupHandle,
        };
        // SAFETY: by the contract of this function.
        unsafe { put(place, handle, argument) }
    }
}

pub(crate) fn group_size(_: &Running, group: Arc<Group>) -> Result<c_int> {
    Ok(group.size() as c_int)
}

/// MPI_UNDEFINED for a process that is no member.
pub(crate) fn group_rank(library: &Running, group: Arc<Group>) -> Result<c_int> {
    let rank = group.rank_of(library.process.rank());
    Ok(rank.map_or(abi::MPI_UNDEFINED, |rank| rank as c_int))
}

pub(crate) fn group_translate_ranks(
    _: &Running,
    group1: Arc<Group>,
    ranks1: &[c_int],
    group2: Arc<Group>,
    ranks2: Places<c_int>,
) -> Result<()> {
    group1.check_origin(&group2, "group2")?;
    ranks2.put(group1.translate(ranks1, &group2)?);
    Ok(())
}

pub(crate) fn group_compare(_: &Running, group1: Arc<Group>, group2: Arc<Group>) -> Result<c_int> {
    group1.check_origin(&group2, "group2")?;
    Ok(match group1.compare(&group2) {
        GroupRelation::Identical => abi::MPI_IDENT,
        GroupRelation::Similar => abi::MPI_SIMILAR,
        GroupRelation::Unequal => abi::MPI_UNEQUAL,
    })
}

/// The local group of an intercommunicator.
pub(crate) fn comm_group(_: &Running, comm: &CommArgument) -> Result<Group> {
    comm.group()
}

pub(crate) fn comm_remote_group(_: &Running, comm: &CommArgument) -> Result<Group> {
    comm.remote_group()
}

pub(crate) fn group_union(_: &Running, group1: Arc<Group>, group2: Arc<Group>) -> Result<Group> {
    group1.check_origin(&group2, "group2")?;
    Ok(group1.union(&group2))
}

pub(crate) fn group_intersection(
    _: &Running,
    group1: Arc<Group>,
    group2: Arc<Group>,
) -> Result<Group> {
    group1.check_origin(&group2, "group2")?;
    Ok(group1.intersection(&group2))
}

pub(crate) fn group_difference(
    _: &Running,
    group1: Arc<Group>,
    group2: Arc<Group>,
) -> Result<Group> {
    group1.check_origin(&group2, "group2")?;
    Ok(group1.difference(&group2))
}

pub(crate) fn group_incl(_: &Running, group: Arc<Group>, ranks: &[c_int]) -> Result<Group> {
    group.include(ranks)
}

pub(crate) fn group_excl(_: &Running, group: Arc<Group>, ranks: &[c_int]) -> Result<Group> {
    group.exclude(ranks)
}

pub(crate) fn group_range_incl(
    _: &Running,
    group: Arc<Group>,
    ranges: &[[c_int; 3]],
) -> Result<Group> {
    group.include(&group.expand_ranges(ranges)?)
}

pub(crate) fn group_range_excl(
    _: &Running,
    group: Arc<Group>,
    ranges: &[[c_int; 3]],
) -> Result<Group> {
    group.exclude(&group.expand_ranges(ranges)?)
}

/// MPI_GROUP_EMPTY stays valid.
pub(crate) fn group_free(library: &Running, group: GroupHandle) -> Result<GroupHandle> {
    if group != abi::MPI_GROUP_EMPTY {
        library.group(group)?;
        let freed = library.groups.free(Handle::from_raw(group as u64));
        freed.map_err(|bad| bad_handle(ValueKind::Group, group as u64, bad))?;
    }
    Ok(abi::MPI_GROUP_NULL)
}
