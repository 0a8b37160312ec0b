//! Categories of parameters, performance variables and events (MPI-5.0 section 15.3.9). They do not
//! change while a program runs.

use super::{events, pvars};
use oxmpi_param::Param;
use oxmpi_param::module::{Module, Supplies};

/// A category of the tool interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Category {
    General,
    Transports,
    Shm,
    Tcp,
    Messages,
    Collectives,
    Memory,
    Waiting,
}

use Category::{Collectives, General, Memory, Messages, Shm, Tcp, Transports, Waiting};

const PARAMS: &[(&str, Category)] = &[
    ("shm_heap_", Memory),
    ("shm_", Shm),
    ("single_copy", Shm),
    ("btl_tcp_", Tcp),
    ("rpi", Transports),
    ("btl", Transports),
    ("mtl", Transports),
    ("pml", Transports),
    ("wait_", Waiting),
    ("coll_", Collectives),
];

impl Category {
    /// All categories, in the order of their indices.
    pub const ALL: [Category; 8] =
        [General, Transports, Shm, Tcp, Messages, Collectives, Memory, Waiting];

    /// The name in the tool interface.
    pub const fn name(self) -> &'static str {
        match self {
            General => "general",
            Transports => "transports",
            Shm => "shm",
            Tcp => "tcp",
            Messages => "messages",
            Collectives => "collectives",
            Memory => "memory",
            Waiting => "waiting",
        }
    }

    /// The description in the tool interface.
    pub const fn help(self) -> &'static str {
        match self {
            General => "Parameters and variables of no other category.",
            Transports => "The transports of messages between processes.",
            Shm => "Shared memory within a host.",
            Tcp => "Sockets.",
            Messages => "Point-to-point messages: protocols, queues, requests.",
            Collectives => "Collectives and their algorithms.",
            Memory => "Memory from MPI_Alloc_mem.",
            Waiting => "How processes wait.",
        }
    }

    /// The subcategories.
    pub const fn categories(self) -> &'static [Category] {
        match self {
            Transports => &[Shm, Tcp],
            _ => &[],
        }
    }

    /// The category of a parameter.
    pub fn of_param(param: &Param) -> Category {
        if let Some(module) = Module::of_param(param) {
            return match module.needs {
                Supplies::Postboxes(_) => Shm,
                _ if module.sockets.is_some() => Tcp,
                _ => Transports,
            };
        }
        let found = PARAMS.iter().find(|(prefix, _)| param.name.starts_with(prefix));
        found.map_or(General, |(_, category)| *category)
    }

    /// The category of an event type.
    pub const fn of_event(event: &events::EventType) -> Category {
        match event.source {
            events::EventSource::Messages => Messages,
            events::EventSource::Sockets => Tcp,
            events::EventSource::Collectives => Collectives,
        }
    }

    /// The indices of the parameters.
    pub fn params(self) -> Vec<usize> {
        places(Param::all().iter().map(|param| Category::of_param(param) == self))
    }

    /// The indices of the performance variables.
    pub fn pvars(self) -> Vec<usize> {
        places(pvars::all().iter().map(|pvar| pvar.category == self))
    }

    /// The indices of the event types.
    pub fn events(self) -> Vec<usize> {
        places(events::all().iter().map(|event| Category::of_event(event) == self))
    }
}

fn places(is_in: impl Iterator<Item = bool>) -> Vec<usize> {
    is_in.enumerate().filter_map(|(at, is_in)| is_in.then_some(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_in_one_category() {
        let all = |of: fn(Category) -> Vec<usize>| {
            let mut all: Vec<_> = Category::ALL.into_iter().flat_map(of).collect();
            all.sort_unstable();
            all
        };
        assert!(all(Category::params).into_iter().eq(0..Param::all().len()));
        assert!(all(Category::pvars).into_iter().eq(0..pvars::all().len()));
        assert!(all(Category::events).into_iter().eq(0..events::all().len()));
        for (at, category) in Category::ALL.into_iter().enumerate() {
            assert_eq!(category as usize, at);
        }
    }
}
