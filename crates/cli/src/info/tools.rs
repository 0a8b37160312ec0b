//! The MPI tool information interface (`MPI_T_*`) in words.

use oxmpi_core::tool::categories::Category;
use oxmpi_core::tool::events::{self, ElementType, EventType};
use oxmpi_core::tool::{Bind, Pvar, pvars as table};
use oxmpi_param::Param;

pub(super) fn pvars() -> &'static [Pvar] {
    table::all()
}

pub(super) fn events() -> &'static [EventType] {
    events::all()
}

pub(super) fn bound_to(bind: Bind) -> &'static str {
    match bind {
        Bind::Nothing => "the process",
        Bind::Communicator => "a communicator",
    }
}

pub(super) fn type_name(kind: ElementType) -> &'static str {
    match kind {
        ElementType::Int => "MPI_INT",
        ElementType::Unsigned64 => "MPI_UNSIGNED_LONG_LONG",
    }
}

/// The names in a category: parameters, performance variables, events.
pub(super) fn members(category: Category) -> [Vec<String>; 3] {
    [
        category.params().into_iter().map(|at| Param::all()[at].name.to_string()).collect(),
        category.pvars().into_iter().map(|at| pvars()[at].name.clone()).collect(),
        category.events().into_iter().map(|at| events()[at].name.to_string()).collect(),
    ]
}
