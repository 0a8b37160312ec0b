//! The table of performance variables (MPI-5.0 section 15.3.7).

use super::categories::Category;
use super::enums;
use oxmpi_param::Level;
use oxmpi_plan::{AlgorithmId, Collective, table};
use std::sync::LazyLock;

/// The class of a variable (MPI-5.0 section 15.3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    State,
    Level,
    Size,
    Percentage,
    HighWatermark,
    Counter,
    Aggregate,
    Timer,
}

impl Class {
    /// Whether handles are always started, since they count nothing.
    pub const fn is_continuous(self) -> bool {
        matches!(self, Class::State | Class::Level | Class::Size | Class::Percentage)
    }

    /// Whether handles show a high-water mark.
    pub const fn is_mark(self) -> bool {
        matches!(self, Class::HighWatermark)
    }

    /// The zero of the class.
    pub const fn zero(self) -> Value {
        match self {
            Class::State => Value::State(0),
            Class::Percentage | Class::Timer => Value::Real(0.0),
            _ => Value::Count(0),
        }
    }

    /// The name for `oxmpi info`.
    pub const fn name(self) -> &'static str {
        match self {
            Class::State => "state",
            Class::Level => "level",
            Class::Size => "size",
            Class::Percentage => "percentage",
            Class::HighWatermark => "highwatermark",
            Class::Counter => "counter",
            Class::Aggregate => "aggregate",
            Class::Timer => "timer",
        }
    }
}

/// The value of a variable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    Count(u64),
    Real(f64),
    State(i32),
}

impl Value {
    pub(super) fn plus(self, other: Value) -> Value {
        match (self, other) {
            (Value::Count(a), Value::Count(b)) => Value::Count(a.wrapping_add(b)),
            (Value::Real(a), Value::Real(b)) => Value::Real(a + b),
            _ => self,
        }
    }

    pub(super) fn minus(self, other: Value) -> Value {
        match (self, other) {
            (Value::Count(a), Value::Count(b)) => Value::Count(a.wrapping_sub(b)),
            (Value::Real(a), Value::Real(b)) => Value::Real(a - b),
            _ => self,
        }
    }

    pub(super) fn max(self, other: Value) -> Value {
        match (self, other) {
            (Value::Count(a), Value::Count(b)) => Value::Count(a.max(b)),
            _ => self,
        }
    }
}

/// The object to which a handle is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bind {
    Nothing,
    Communicator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    Shm,
    Tcp,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Quantity {
    MessagesSent(Medium),
    BytesSent(Medium),
    MessagesReceived(Medium),
    BytesReceived(Medium),
    OwnMessages,
    OwnBytes,
    EagerSent,
    RendezvousSent,
    RendezvousReceived,
    TaggedSent,
    TaggedReceived,
    CompletionReads,
    RdmaBytes,
    RdmaBytesWritten,
    RdmaAtomics,
    AuxiliaryBytes,
    ContextPairs,
    NetworkFramesSent,
    NetworkFramesReceived,
    Unexpected,
    UnexpectedMatched,
    UnexpectedNow,
    PostedNow,
    RequestsNow,
    BufferedNow,
    Nonsense,
    CommUnexpected,
    CommUnexpectedPeak,
    CommPosted,
    CommCollectives,
    Rings,
    InboxFrames,
    PoolSize,
    PoolUsed,
    PoolPart,
    PieceBytes,
    SingleCopyBytes,
    HeapCopyBytes,
    PostboxSegment,
    PostboxPool,
    PostboxPoolUsed,
    PooledPieces,
    BoxedPieces,
    PostboxPauses,
    HeapSize,
    HeapUsed,
    Connections,
    ConnectionsMade,
    ConnectionsRemade,
    Sleeps,
    Asleep,
    Transport,
    Small(Collective),
    Calls(AlgorithmId),
    LastAlgorithm(Collective),
}

/// One performance variable.
#[derive(Debug)]
pub struct Pvar {
    /// Unique in all classes.
    pub name: String,
    pub class: Class,
    pub bind: Bind,
    pub level: Level,
    pub category: Category,
    pub help: String,
    /// The index of the enumeration of its states in [`enums::all`].
    pub states: Option<usize>,
    pub(super) quantity: Quantity,
}

/// All performance variables.
pub fn all() -> &'static [Pvar] {
    static ALL: LazyLock<Vec<Pvar>> = LazyLock::new(|| {
        let mut all: Vec<Pvar> = TABLE.iter().map(Row::pvar).collect();
        all.extend(SMALL.iter().map(|(collective, what)| Pvar {
            name: format!("coll_{collective}_control_section_calls"),
            class: Class::Counter,
            bind: Bind::Nothing,
            level: Level::Tune,
            category: Category::Collectives,
            help: format!("{what} through shared memory (shmem), past all algorithms."),
            states: None,
            quantity: Quantity::Small(*collective),
        }));
        for collective in Collective::ALL {
            let states = enums::find(&enums::of_collective(collective));
            all.push(Pvar {
                name: enums::of_collective(collective),
                class: Class::State,
                bind: Bind::Nothing,
                level: Level::Tune,
                category: Category::Collectives,
                help: format!(
                    "The algorithm of the last collective of the kind {collective} that was started."
                ),
                states,
                quantity: Quantity::LastAlgorithm(collective),
            });
            for id in table::algorithms(collective) {
                let row = id.algorithm();
                all.push(Pvar {
                    name: format!("coll_{collective}_{}_calls", row.name),
                    class: Class::Counter,
                    bind: Bind::Nothing,
                    level: Level::Tune,
                    category: Category::Collectives,
                    help: format!("Collectives by the algorithm {id}: {}.", row.description),
                    states: None,
                    quantity: Quantity::Calls(id),
                });
            }
        }
        all
    });
    &ALL
}

struct Row(&'static str, Class, Bind, Level, Category, Quantity, &'static str);

impl Row {
    fn pvar(&self) -> Pvar {
        let Row(name, class, bind, level, category, quantity, help) = *self;
        let states = matches!(quantity, Quantity::Transport)
            .then(|| enums::find(enums::TRANSPORTS))
            .flatten();
        Pvar {
            name: name.into(),
            class,
            bind,
            level,
            category,
            help: help.into(),
            states,
            quantity,
        }
    }
}

use Bind::{Communicator, Nothing};
use Class::{Aggregate, Counter, HighWatermark, Level as InUse, Percentage, Size, State, Timer};
use Level::{Develop, Tune, User};

#[rustfmt::skip] // a table
const TABLE: &[Row] = &[
    Row("transport", State, Nothing, User, Category::Messages, Quantity::Transport,
        "The transports of messages between processes: shared memory, sockets, or both in a job on several nodes."),
    Row("shm_messages_sent", Counter, Nothing, User, Category::Shm, Quantity::MessagesSent(Medium::Shm),
        "Messages sent through shared memory, those of collectives included."),
    Row("shm_bytes_sent", Aggregate, Nothing, User, Category::Shm, Quantity::BytesSent(Medium::Shm),
        "Bytes of the messages sent through shared memory."),
    Row("shm_messages_received", Counter, Nothing, User, Category::Shm, Quantity::MessagesReceived(Medium::Shm),
        "Messages that have arrived through shared memory, or were announced, received or not."),
    Row("shm_bytes_received", Aggregate, Nothing, User, Category::Shm, Quantity::BytesReceived(Medium::Shm),
        "Bytes of the messages that have arrived through shared memory, or were announced."),
    Row("shm_rings_granted", InUse, Nothing, Tune, Category::Shm, Quantity::Rings,
        "Rings that this process has granted to peers, of shm_max_rings."),
    Row("shm_inbox_frames", Counter, Nothing, Tune, Category::Shm, Quantity::InboxFrames,
        "Frames that have arrived through the inbox, which all peers without a ring share."),
    Row("shm_pool_size", Size, Nothing, Tune, Category::Shm, Quantity::PoolSize,
        "Bytes of this process's pool, through which its longer messages go."),
    Row("shm_pool_used", InUse, Nothing, Tune, Category::Shm, Quantity::PoolUsed,
        "Bytes of the pool that wait for their receivers."),
    Row("shm_pool_utilization", Percentage, Nothing, Tune, Category::Shm, Quantity::PoolPart,
        "The part of the pool that waits for receivers, from 0 to 1."),
    Row("shm_piece_bytes", Aggregate, Nothing, User, Category::Shm, Quantity::PieceBytes,
        "Bytes of long messages that this process has sent in pieces through its pool."),
    Row("shm_single_copy_bytes", Aggregate, Nothing, User, Category::Shm, Quantity::SingleCopyBytes,
        "Bytes that this process has read straight from the memory of its peers."),
    Row("shm_heap_copy_bytes", Aggregate, Nothing, User, Category::Shm, Quantity::HeapCopyBytes,
        "Bytes that this process has copied from its peers' memory of MPI_Alloc_mem."),
    Row("postbox_segment_size", Size, Nothing, Tune, Category::Shm, Quantity::PostboxSegment,
        "Bytes of the segment that the ranks of a node share over usysv and sysv."),
    Row("postbox_pool_size", Size, Nothing, Tune, Category::Shm, Quantity::PostboxPool,
        "Bytes of the pool in the segment that the ranks of a node share over usysv and sysv."),
    Row("postbox_pool_used", InUse, Nothing, Tune, Category::Shm, Quantity::PostboxPoolUsed,
        "Bytes of the postbox pool that wait for their receivers, from all senders."),
    Row("postbox_pieces_pooled", Counter, Nothing, Tune, Category::Shm, Quantity::PooledPieces,
        "Pieces of long messages that this process has sent through the postbox pool."),
    Row("postbox_pieces_boxed", Counter, Nothing, Tune, Category::Shm, Quantity::BoxedPieces,
        "Pieces of long messages that this process has sent through postboxes, because the pool had no room."),
    Row("postbox_pauses", Counter, Nothing, Tune, Category::Shm, Quantity::PostboxPauses,
        "Times that this process has yielded its core because a postbox was full or the lock of the pool was taken."),
    Row("tcp_messages_sent", Counter, Nothing, User, Category::Tcp, Quantity::MessagesSent(Medium::Tcp),
        "Messages sent over sockets, those of collectives included."),
    Row("tcp_bytes_sent", Aggregate, Nothing, User, Category::Tcp, Quantity::BytesSent(Medium::Tcp),
        "Bytes of the messages sent over sockets."),
    Row("tcp_messages_received", Counter, Nothing, User, Category::Tcp, Quantity::MessagesReceived(Medium::Tcp),
        "Messages that have arrived over sockets, or were announced, received or not."),
    Row("tcp_bytes_received", Aggregate, Nothing, User, Category::Tcp, Quantity::BytesReceived(Medium::Tcp),
        "Bytes of the messages that have arrived over sockets, or were announced."),
    Row("tcp_connections", InUse, Nothing, User, Category::Tcp, Quantity::Connections,
        "Connections to other processes."),
    Row("tcp_connections_made", Counter, Nothing, User, Category::Tcp, Quantity::ConnectionsMade,
        "Connections that were made, including repeated ones."),
    Row("tcp_connections_remade", Counter, Nothing, User, Category::Tcp, Quantity::ConnectionsRemade,
        "Connections that broke and were made again."),
    Row("self_messages", Counter, Nothing, User, Category::Messages, Quantity::OwnMessages,
        "Messages of this process to itself."),
    Row("self_bytes", Aggregate, Nothing, User, Category::Messages, Quantity::OwnBytes,
        "Bytes of the messages of this process to itself."),
    Row("eager_messages_sent", Counter, Nothing, User, Category::Messages, Quantity::EagerSent,
        "Messages to other processes whose data left with their envelope."),
    Row("rendezvous_messages_sent", Counter, Nothing, User, Category::Messages, Quantity::RendezvousSent,
        "Messages to other processes that were announced, and whose data follow after the match."),
    Row("rendezvous_messages_received", Counter, Nothing, User, Category::Messages, Quantity::RendezvousReceived,
        "Announced messages whose receive was found."),
    Row("tagged_messages_sent", Counter, Nothing, User, Category::Messages, Quantity::TaggedSent,
        "Messages sent over a network that matches them itself (mtl)."),
    Row("tagged_messages_received", Counter, Nothing, User, Category::Messages, Quantity::TaggedReceived,
        "Messages that the network has matched with receives of this process (mtl)."),
    Row("tagged_completion_reads", Counter, Nothing, Tune, Category::Messages, Quantity::CompletionReads,
        "Reads of the network's completion queue with at least one completion: fewer than messages, if several arrive together."),
    Row("tagged_context_pairs", InUse, Nothing, Tune, Category::Messages, Quantity::ContextPairs,
        "Pairs of transmit and receive contexts that are open for communicators (mtl_ofi_thread_grouping)."),
    Row("tagged_frames_sent", Counter, Nothing, Tune, Category::Messages, Quantity::NetworkFramesSent,
        "Frames sent over a network that matches messages: one-sided accesses, partitioned messages, and the library's own."),
    Row("tagged_frames_received", Counter, Nothing, Tune, Category::Messages, Quantity::NetworkFramesReceived,
        "Frames received over a network that matches messages (mtl)."),
    Row("rdma_bytes_read", Aggregate, Nothing, User, Category::Messages, Quantity::RdmaBytes,
        "Bytes of long messages and of MPI_Get that the adapter of this process has read from the memory of others (rpi ib, and rpi gm with rpi_gm_cr)."),
    Row("rdma_bytes_written", Aggregate, Nothing, User, Category::Messages, Quantity::RdmaBytesWritten,
        "Bytes that the adapter of this process has written into the memory of others: of MPI_Put into windows (rpi ib), of long messages into receive buffers (rpi gm)."),
    Row("rdma_atomics", Counter, Nothing, User, Category::Messages, Quantity::RdmaAtomics,
        "Atomic operations that adapters have carried out on windows for this process (rpi ib)."),
    Row("rdma_bytes_copied", Aggregate, Nothing, User, Category::Messages, Quantity::AuxiliaryBytes,
        "Bytes of long messages that this process has copied into the adapter's buffers to send them (rpi gm)."),
    Row("unexpected_messages", Counter, Nothing, User, Category::Messages, Quantity::Unexpected,
        "Messages that arrived before their receive."),
    Row("unexpected_messages_matched", Counter, Nothing, User, Category::Messages, Quantity::UnexpectedMatched,
        "Messages that arrived before their receive and were matched."),
    Row("unexpected_queue_length", InUse, Nothing, User, Category::Messages, Quantity::UnexpectedNow,
        "Messages that wait for their receive."),
    Row("posted_queue_length", InUse, Nothing, User, Category::Messages, Quantity::PostedNow,
        "Receives that wait for their message."),
    Row("comm_unexpected_queue_length", InUse, Communicator, User, Category::Messages, Quantity::CommUnexpected,
        "Messages of the communicator, without those of collectives, that wait for their receive."),
    Row("comm_unexpected_queue_peak", HighWatermark, Communicator, User, Category::Messages,
        Quantity::CommUnexpectedPeak,
        "The most messages of the communicator, without those of collectives, that waited for their receive at a time."),
    Row("comm_posted_queue_length", InUse, Communicator, User, Category::Messages, Quantity::CommPosted,
        "Receives on the communicator that wait for their message."),
    Row("comm_collectives", Counter, Communicator, User, Category::Collectives, Quantity::CommCollectives,
        "Collectives started on the communicator."),
    Row("requests", InUse, Nothing, User, Category::Messages, Quantity::RequestsNow,
        "Requests that exist: active ones, persistent ones, and complete ones that the program has not completed yet."),
    Row("buffered_bytes", InUse, Nothing, User, Category::Messages, Quantity::BufferedNow,
        "Bytes of buffered sends in the library's memory."),
    Row("frames_without_sense", Counter, Nothing, Develop, Category::Messages, Quantity::Nonsense,
        "Frames that this process could not use: a defect of a peer, or messages for a freed communicator."),
    Row("alloc_mem_size", Size, Nothing, User, Category::Memory, Quantity::HeapSize,
        "Bytes of memory for MPI_Alloc_mem, which peers can copy from."),
    Row("alloc_mem_used", InUse, Nothing, User, Category::Memory, Quantity::HeapUsed,
        "Bytes of memory for MPI_Alloc_mem that are in use."),
    Row("sleeps", Counter, Nothing, Tune, Category::Waiting, Quantity::Sleeps,
        "Times that a waiting thread of this process has slept."),
    Row("time_asleep", Timer, Nothing, Tune, Category::Waiting, Quantity::Asleep,
        "For how long the threads of this process have slept because they waited, seconds."),
];

/// The collectives that shared memory serves without an algorithm, in the words of the help texts.
const SMALL: [(Collective, &str); 11] = [
    (Collective::Barrier, "Barriers"),
    (Collective::Bcast, "Broadcasts"),
    (Collective::Gather, "Gathers"),
    (Collective::Scatter, "Scatters"),
    (Collective::Allgather, "All-gathers"),
    (Collective::Alltoall, "All-to-alls"),
    (Collective::Reduce, "Reductions to a root"),
    (Collective::Allreduce, "Allreduces"),
    (Collective::ReduceScatterBlock, "Reductions scattered in blocks of one length"),
    (Collective::Scan, "Inclusive prefix reductions"),
    (Collective::Exscan, "Exclusive prefix reductions"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_is_well_defined() {
        for (at, pvar) in all().iter().enumerate() {
            assert!(
                pvar.help.ends_with('.') && !pvar.help.contains("  "),
                "{}: {}",
                pvar.name,
                pvar.help
            );
            assert!(
                !all()[..at].iter().any(|other| other.name == pvar.name),
                "{} twice",
                pvar.name
            );
            assert_eq!(pvar.states.is_some(), pvar.class == Class::State, "{}", pvar.name);
        }
    }
}
