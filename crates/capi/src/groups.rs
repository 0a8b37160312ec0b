//! Groups (MPI-5.0 section 7.3). All functions are local. A group has no error handler. Errors go
//! to the handler of the communicator argument, otherwise to that of MPI_COMM_SELF.

use crate::errors::{on_comm, on_none};
use crate::library::{Running, array, fetch, null, put};
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Group as GroupHandle};
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::{Group, GroupRelation};
use std::ffi::c_int;
use std::sync::Arc;

/// Stores the handle of a new group; an empty group is MPI_GROUP_EMPTY.
pub(crate) fn give(
    library: &Running,
    place: *mut GroupHandle,
    what: &str,
    made: Group,
) -> Result<()> {
    if place.is_null() {
        return Err(null(what));
    }
    let handle = match made.is_empty() {
        true => abi::MPI_GROUP_EMPTY,
        false => library.groups.insert(Arc::new(made)).raw() as GroupHandle,
    };
    // SAFETY: the C program passes a place for a handle.
    unsafe { put(place, handle, what) }
}

fn number(n: c_int) -> Result<usize> {
    usize::try_from(n)
        .map_err(|_| MpiError::new(abi::MPI_ERR_ARG, format!("n is {n}; it must not be negative")))
}

fn combine(
    function: FuncId,
    (one, other): (GroupHandle, GroupHandle),
    newgroup: *mut GroupHandle,
    operation: fn(&Group, &Group) -> Group,
) -> c_int {
    on_none(function, |library| {
        let (one, other) = (library.group(one)?, library.group(other)?);
        one.check_origin(&other, "group2")?;
        give(library, newgroup, "newgroup", operation(&one, &other))
    })
}

/// Makes a group from members of another, by ranks or ranges of ranks.
fn choose<T>(
    function: FuncId,
    group: GroupHandle,
    (n, first, what): (c_int, *const T, &str),
    newgroup: *mut GroupHandle,
    choice: fn(&Group, &[T]) -> Result<Group>,
) -> c_int {
    on_none(function, |library| {
        let group = library.group(group)?;
        // SAFETY: the C program passes an array of `n` entries.
        let chosen = unsafe { array(first, number(n)?, what) }?;
        give(library, newgroup, "newgroup", choice(&group, chosen)?)
    })
}

mpi! {
    fn MPI_Group_size(group: GroupHandle, size: *mut c_int) -> c_int {
        on_none(FuncId::MPI_Group_size, |library| {
            let members = library.group(group)?.size();
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(size, members as c_int, "size") }
        })
    }

    /// MPI_UNDEFINED for a process that is no member.
    fn MPI_Group_rank(group: GroupHandle, rank: *mut c_int) -> c_int {
        on_none(FuncId::MPI_Group_rank, |library| {
            let mine = library.group(group)?.rank_of(library.process.rank());
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(rank, mine.map_or(abi::MPI_UNDEFINED, |rank| rank as c_int), "rank") }
        })
    }

    fn MPI_Group_translate_ranks(
        group1: GroupHandle,
        n: c_int,
        ranks1: *const c_int,
        group2: GroupHandle,
        ranks2: *mut c_int,
    ) -> c_int {
        on_none(FuncId::MPI_Group_translate_ranks, |library| {
            let (from, to) = (library.group(group1)?, library.group(group2)?);
            from.check_origin(&to, "group2")?;
            let n = number(n)?;
            // SAFETY: the C program passes an array of `n` ranks.
            let translated = from.translate(unsafe { array(ranks1, n, "ranks1") }?, &to)?;
            if n > 0 && ranks2.is_null() {
                return Err(null("ranks2"));
            }
            for (i, rank) in translated.into_iter().enumerate() {
                // SAFETY: the C program passes room for `n` ranks, and `i < n`.
                unsafe { put(ranks2.wrapping_add(i), rank, "ranks2") }?;
            }
            Ok(())
        })
    }

    fn MPI_Group_compare(group1: GroupHandle, group2: GroupHandle, result: *mut c_int) -> c_int {
        on_none(FuncId::MPI_Group_compare, |library| {
            let (one, other) = (library.group(group1)?, library.group(group2)?);
            one.check_origin(&other, "group2")?;
            let related = match one.compare(&other) {
                GroupRelation::Identical => abi::MPI_IDENT,
                GroupRelation::Similar => abi::MPI_SIMILAR,
                GroupRelation::Unequal => abi::MPI_UNEQUAL,
            };
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(result, related, "result") }
        })
    }

    /// The local group of an intercommunicator.
    fn MPI_Comm_group(comm: Comm, group: *mut GroupHandle) -> c_int {
        on_comm(FuncId::MPI_Comm_group, comm, |library, communicator| {
            give(library, group, "group", communicator.group()?)
        })
    }

    /// MPI-5.0 section 7.6.1.
    fn MPI_Comm_remote_group(comm: Comm, group: *mut GroupHandle) -> c_int {
        on_comm(FuncId::MPI_Comm_remote_group, comm, |library, communicator| {
            give(library, group, "group", communicator.remote_group()?)
        })
    }

    fn MPI_Group_union(group1: GroupHandle, group2: GroupHandle, newgroup: *mut GroupHandle) -> c_int {
        combine(FuncId::MPI_Group_union, (group1, group2), newgroup, Group::union)
    }

    fn MPI_Group_intersection(group1: GroupHandle, group2: GroupHandle, newgroup: *mut GroupHandle) -> c_int {
        combine(FuncId::MPI_Group_intersection, (group1, group2), newgroup, Group::intersection)
    }

    fn MPI_Group_difference(group1: GroupHandle, group2: GroupHandle, newgroup: *mut GroupHandle) -> c_int {
        combine(FuncId::MPI_Group_difference, (group1, group2), newgroup, Group::difference)
    }

    fn MPI_Group_incl(
        group: GroupHandle,
        n: c_int,
        ranks: *const c_int,
        newgroup: *mut GroupHandle,
    ) -> c_int {
        choose(FuncId::MPI_Group_incl, group, (n, ranks, "ranks"), newgroup, Group::include)
    }

    fn MPI_Group_excl(
        group: GroupHandle,
        n: c_int,
        ranks: *const c_int,
        newgroup: *mut GroupHandle,
    ) -> c_int {
        choose(FuncId::MPI_Group_excl, group, (n, ranks, "ranks"), newgroup, Group::exclude)
    }

    fn MPI_Group_range_incl(
        group: GroupHandle,
        n: c_int,
        ranges: *mut [c_int; 3],
        newgroup: *mut GroupHandle,
    ) -> c_int {
        let ranges = (n, ranges.cast_const(), "ranges");
        choose(FuncId::MPI_Group_range_incl, group, ranges, newgroup, |group, ranges| {
            group.include(&group.expand_ranges(ranges)?)
        })
    }

    fn MPI_Group_range_excl(
        group: GroupHandle,
        n: c_int,
        ranges: *mut [c_int; 3],
        newgroup: *mut GroupHandle,
    ) -> c_int {
        let ranges = (n, ranges.cast_const(), "ranges");
        choose(FuncId::MPI_Group_range_excl, group, ranges, newgroup, |group, ranges| {
            group.exclude(&group.expand_ranges(ranges)?)
        })
    }

    /// MPI_GROUP_EMPTY stays valid.
    fn MPI_Group_free(group: *mut GroupHandle) -> c_int {
        on_none(FuncId::MPI_Group_free, |library| {
            // SAFETY: the C program passes a place with a handle.
            let handle = unsafe { fetch(group, "group") }?;
            if handle != abi::MPI_GROUP_EMPTY {
                library.group(handle)?;
                let freed = library.groups.free(Handle::from_raw(handle as u64));
                freed.map_err(|bad| MpiError::new(abi::MPI_ERR_GROUP, bad.to_string()))?;
            }
            // SAFETY: `group` is not null, as `fetch` has checked, and holds a handle.
            unsafe { put(group, abi::MPI_GROUP_NULL, "group") }
        })
    }
}
