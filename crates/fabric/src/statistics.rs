use oxmpi_wire::Frame;
use std::iter::Sum;
use std::ops::AddAssign;

/// Totals since the start of the process, and current values; 0 if no transport has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub paths: InUse,
    /// Messages sent over sockets, if other messages go through memory.
    pub far_sent: Traffic,
    /// Reads of a matching network's completion queue that have returned completions.
    pub completion_reads: u64,
    /// Open pairs of transmit and receive contexts of a matching network.
    pub context_pairs: u64,
    pub network_frames_sent: u64,
    pub network_frames_received: u64,
    /// Bytes of long messages and of MPI_Get that the adapter has read from peers.
    pub rdma_bytes: u64,
    /// Bytes of MPI_Put and of long messages that the adapter has written to peers.
    pub rdma_bytes_written: u64,
    /// Atomic operations of this process on windows, carried out by adapters.
    pub rdma_atomics: u64,
    /// Bytes of long messages that were copied for the adapter, although it could have read them in
    /// place.
    pub auxiliary_bytes: u64,
    /// Messages received over sockets, if other messages go through memory.
    pub far_received: Traffic,
    /// Peers with a ring in the segment of this process.
    pub rings: u64,
    /// Frames received in the inbox of this process.
    pub inbox_frames: u64,
    pub pool_bytes: u64,
    pub pool_used: u64,
    /// Bytes of long messages that went through the pool in pieces.
    pub piece_bytes: u64,
    /// Bytes copied from the heaps of peers (memory of MPI_Alloc_mem).
    pub heap_bytes: u64,
    /// Bytes of the segment with the postboxes of the node.
    pub postbox_bytes: u64,
    pub postbox_pool_bytes: u64,
    /// Bytes of the postbox pool in use, by any process of the node.
    pub postbox_pool_used: u64,
    /// Pieces of long messages that went through the postbox pool.
    pub pooled_pieces: u64,
    /// Pieces of long messages that went through postboxes.
    pub boxed_pieces: u64,
    /// Pauses because a postbox was full or the lock of the pool was taken.
    pub pauses: u64,
    pub connections: u64,
    pub connections_made: u64,
    /// Connections to a peer that had one before.
    pub connections_remade: u64,
}

/// The paths that messages of the process take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InUse {
    #[default]
    Memory,
    Sockets,
    /// Shared memory to the peers of this node, sockets to the others.
    Both,
}

/// Messages with an envelope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub messages: u64,
    pub bytes: u64,
}

impl Traffic {
    #[inline]
    pub(crate) fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }

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
    pub peer: u32,
    /// The number of earlier connections to the peer.
    pub before: u32,
}
