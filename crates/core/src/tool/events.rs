//! The table of event types (MPI-5.0 section 15.3.8).

use super::pvars::Bind;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum EventKind {
    /// A receive or matched probe took a message from the unexpected queue.
    UnexpectedMatched,
    CommUnexpectedMatched,
    RendezvousSent,
    RendezvousReceived,
    PeerLost,
    Connected,
    Reconnected,
    Collective,
}

/// The type of an element of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// MPI_INT, 4 bytes.
    Int,
    /// MPI_UNSIGNED_LONG_LONG, 8 bytes.
    Unsigned64,
}

impl ElementType {
    /// The size and alignment in bytes.
    pub const fn size(self) -> usize {
        match self {
            ElementType::Int => 4,
            ElementType::Unsigned64 => 8,
        }
    }
}

/// One element of an event type.
#[derive(Debug)]
pub struct EventElement {
    pub name: &'static str,
    pub kind: ElementType,
}

/// The source of events. A tool receives the events of one source in the order of their times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum EventSource {
    Messages,
    Sockets,
    Collectives,
}

impl EventSource {
    /// All sources, in the order of their indices.
    pub const ALL: [EventSource; 3] =
        [EventSource::Messages, EventSource::Sockets, EventSource::Collectives];

    /// The name in the tool interface.
    pub const fn name(self) -> &'static str {
        match self {
            EventSource::Messages => "messages",
            EventSource::Sockets => "sockets",
            EventSource::Collectives => "collectives",
        }
    }

    /// The description in the tool interface.
    pub const fn help(self) -> &'static str {
        match self {
            EventSource::Messages => "Matching and the protocols of point-to-point messages.",
            EventSource::Sockets => "Connections to other processes over sockets.",
            EventSource::Collectives => "Collectives, when they are started.",
        }
    }
}

/// One type of event.
#[derive(Debug)]
pub struct EventType {
    pub kind: EventKind,
    pub name: &'static str,
    pub bind: Bind,
    pub source: EventSource,
    pub elements: &'static [EventElement],
    pub help: &'static str,
}

impl EventType {
    /// The offset of each element and the length of an instance, in bytes, as in a C structure.
    pub fn layout(&self) -> (Vec<usize>, usize) {
        let mut at = 0_usize;
        let places = self.elements.iter().map(|element| {
            let start = at.next_multiple_of(element.kind.size());
            at = start + element.kind.size();
            start
        });
        (places.collect(), at)
    }
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: EventKind,
    /// The time when the process noticed the event, in nanoseconds of [`oxmpi_sys::clock::now_ns`].
    pub time_ns: u64,
    pub context: Option<u32>,
    /// In the order of the type's elements; unused places are 0.
    pub elements: [i64; 4],
}

const fn int(name: &'static str) -> EventElement {
    EventElement { name, kind: ElementType::Int }
}

const fn bytes(name: &'static str) -> EventElement {
    EventElement { name, kind: ElementType::Unsigned64 }
}

/// All event types, in the order of [`EventKind`].
pub const fn all() -> &'static [EventType] {
    TABLE
}

const TABLE: &[EventType] = &[
    EventType {
        kind: EventKind::UnexpectedMatched,
        name: "unexpected_message_matched",
        bind: Bind::Nothing,
        source: EventSource::Messages,
        elements: &[int("source"), int("tag"), bytes("bytes")],
        help: "A receive or a matched probe took a message that had come before it. The source is a rank of \
               MPI_COMM_WORLD. Messages of collectives are among them.",
    },
    EventType {
        kind: EventKind::CommUnexpectedMatched,
        name: "comm_unexpected_message_matched",
        bind: Bind::Communicator,
        source: EventSource::Messages,
        elements: &[int("source"), int("tag"), bytes("bytes")],
        help: "A receive or a matched probe took a message of the communicator that had come before it. The source is a \
               rank of the communicator.",
    },
    EventType {
        kind: EventKind::RendezvousSent,
        name: "rendezvous_begun",
        bind: Bind::Nothing,
        source: EventSource::Messages,
        elements: &[int("dest"), int("tag"), bytes("bytes")],
        help: "A long message was announced to its receiver, a rank of MPI_COMM_WORLD: its data leave when the \
               receive is known.",
    },
    EventType {
        kind: EventKind::RendezvousReceived,
        name: "rendezvous_matched",
        bind: Bind::Nothing,
        source: EventSource::Messages,
        elements: &[int("source"), int("tag"), bytes("bytes")],
        help: "The receive of an announced message was found, and the transfer of its data begins. The source is a rank of \
               MPI_COMM_WORLD.",
    },
    EventType {
        kind: EventKind::PeerLost,
        name: "process_lost",
        bind: Bind::Nothing,
        source: EventSource::Messages,
        elements: &[int("rank")],
        help: "A process is lost: no message comes from it or goes to it any more.",
    },
    EventType {
        kind: EventKind::Connected,
        name: "connection_made",
        bind: Bind::Nothing,
        source: EventSource::Sockets,
        elements: &[int("rank")],
        help: "The first connection to a process was made.",
    },
    EventType {
        kind: EventKind::Reconnected,
        name: "connection_remade",
        bind: Bind::Nothing,
        source: EventSource::Sockets,
        elements: &[int("rank"), int("before")],
        help: "A connection to a process was made again, after this number of earlier connections.",
    },
    EventType {
        kind: EventKind::Collective,
        name: "collective_started",
        bind: Bind::Nothing,
        source: EventSource::Collectives,
        elements: &[int("collective"), int("algorithm"), int("ranks"), bytes("count")],
        help: "A collective was started: its place among the variables coll_*_algorithm, the number of its \
               algorithm, the ranks that take part, and its count (of bytes, or of elements of a reduction). \
               Collectives through shared memory (shmem) use no algorithm and cause no event.",
    },
];

/// The event type of this kind.
pub const fn of(kind: EventKind) -> &'static EventType {
    &TABLE[kind as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        for (at, event) in all().iter().enumerate() {
            assert_eq!(event.kind as usize, at, "{}", event.name);
            assert!(event.help.ends_with('.') && event.elements.len() <= 4, "{}", event.name);
            assert!(!all()[..at].iter().any(|other| other.name == event.name), "{}", event.name);
        }
    }

    #[test]
    fn elements_lie_as_in_c() {
        assert_eq!(of(EventKind::UnexpectedMatched).layout(), (vec![0, 4, 8], 16));
        assert_eq!(of(EventKind::Collective).layout(), (vec![0, 4, 8, 16], 24));
        assert_eq!(of(EventKind::PeerLost).layout(), (vec![0], 4));
    }
}
