//! What transports can say of themselves in numbers, for tools.

use oxmpi_wire::Frame;
use std::iter::Sum;
use std::ops::AddAssign;

/// Everything since the process has started, and what there is now. What no transport of it has is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Which ways the messages go.
    pub ways: InUse,
    /// What went over sockets, if not all did.
    pub far_sent: Traffic,
    /// Reads of a matching network's queue of completions that have brought some.
    pub completion_reads: u64,
    /// Pairs of transmit and receive contexts of it that are open.
    pub context_pairs: u64,
    /// Frames that were sent over such a network.
    pub network_frames_sent: u64,
    /// Those that came over it.
    pub network_frames_received: u64,
    /// Bytes of long messages and of MPI_Get that this process's adapter has read from the memory of peers.
    pub rdma_bytes: u64,
    /// Bytes of MPI_Put and of long messages that it has written there.
    pub rdma_bytes_written: u64,
    /// Atomic operations that adapters have carried out on windows for it.
    pub rdma_atomics: u64,
    /// Bytes of long messages that this process has copied into buffers of its adapter to send them, where that could have read them in the
    /// program's memory.
    pub auxiliary_bytes: u64,
    /// What came over sockets, if not all did.
    pub far_received: Traffic,
    /// Peers that have a ring of their own in this process's segment now.
    pub rings: u64,
    /// Frames that have come through this process's inbox.
    pub inbox_frames: u64,
    /// Bytes of this process's pool.
    pub pool_bytes: u64,
    /// Bytes of it that are taken now.
    pub pool_used: u64,
    /// Bytes of long messages that this process has sent in pieces through it.
    pub piece_bytes: u64,
    /// Bytes copied from the heaps of peers (what MPI_Alloc_mem gave there).
    pub heap_bytes: u64,
    /// Bytes of the segment with postboxes that the processes of the job on this node share.
    pub postbox_bytes: u64,
    /// Bytes of the pool in it.
    pub postbox_pool_bytes: u64,
    /// Bytes of that pool that are taken now, by whomever.
    pub postbox_pool_used: u64,
    /// Pieces of long messages that this process has sent through that pool.
    pub pooled_pieces: u64,
    /// Pieces of long messages that it has sent through postboxes.
    pub boxed_pieces: u64,
    /// Pauses that it has made because a postbox was full, or the lock of the pool not to be had.
    pub pauses: u64,
    /// Connections over which messages can go now.
    pub connections: u64,
    /// Connections that were made.
    pub connections_made: u64,
    /// Those of them that were made again, to a peer to which there had been one.
    pub connections_remade: u64,
}

/// Which ways are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InUse {
    /// Shared memory.
    #[default]
    Memory,
    /// Sockets.
    Sockets,
    /// Shared memory to the peers of this node, sockets to the others.
    Both,
}

/// Messages with an envelope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How many.
    pub messages: u64,
    /// The bytes of their data.
    pub bytes: u64,
}

impl Traffic {
    /// Counts a message whose data are so many bytes.
    #[inline]
    pub(crate) fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }

    /// Counts a frame with a body of `len` bytes, if it has an envelope.
    pub(crate) fn note(&mut self, frame: &Frame, len: usize) {
        match frame {
            Frame::Eager { .. } | Frame::EagerSync { .. } => self.add(len as u64),
            Frame::Rendezvous { announced, .. } => self.add(announced.length),
            _ => {}
        }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, more: Traffic) {
        self.messages += more.messages;
        self.bytes += more.bytes;
    }
}

impl Sum for Traffic {
    fn sum<I: Iterator<Item = Traffic>>(all: I) -> Traffic {
        all.fold(Traffic::default(), |mut sum, more| {
            sum += more;
            sum
        })
    }
}

/// A connection that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected {
    /// To this process.
    pub peer: u32,
    /// How many there were to it before.
    pub before: u32,
}
