use crate::{
    Connected, Counts, FrameSink, MatchingTransport, OutgoingMessage, RemoteAccess, Sent, Taken,
    Unreachable,
};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_sys::net::Listener;
use oxmpi_wire::Tags;
use std::fmt::Debug;
use std::io;

/// The longest messages to a peer, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The longest body of an eager frame.
    pub eager: usize,
    /// The longest beginning of a longer message that goes with its announcement
    /// ([`Frame::Rendezvous`](oxmpi_wire::Frame::Rendezvous)).
    pub announced: usize,
}

/// Moves frames between this process and its peers, in both directions.
///
/// The transports of a process are chosen when it starts; [`Routes`](crate::routes::Routes) decides
/// which of them is the route to a peer. The head of this crate has the promises of a transport.
/// Shared memory is no `Transport`: a call through a table would take too much time there.
pub trait Transport: Membership + Statistics + Debug + Send {
    /// The name by which the user selects the transport.
    fn name(&self) -> &'static str;

    /// Whether a poll costs a system call. Such a transport is polled less often if there are
    /// others, and is the route to a peer only if shared memory is not
    /// ([`Offer::memory`](crate::Offer::memory)).
    fn polls_kernel(&self) -> bool {
        true
    }

    fn reaches(&self, _peer: u32) -> bool {
        true
    }

    fn limits(&self, to: u32) -> Limits;

    /// The longest body of the next [`Frame::Data`](oxmpi_wire::Frame::Data) to a peer, in bytes.
    fn piece_limit(&mut self, to: u32) -> usize;

    fn send(&mut self, to: u32, message: &OutgoingMessage<'_>) -> Result<Sent, Unreachable>;

    /// Sends a contiguous eager message if that is possible at once. `context` is the receiver's
    /// index, `sequence` the number modulo 256. `false`: nothing happened, use [`Transport::send`].
    fn send_now(
        &mut self,
        _to: u32,
        _context: u32,
        _tag: i32,
        _sequence: u8,
        _bytes: Bytes<'_>,
    ) -> bool {
        false
    }

    /// Copies the next message of a peer into the buffer of a receive if it is eager, has this
    /// context and one of these tags, and fits. Of a long message only the beginning may have
    /// arrived. The caller guarantees that no older message of the peer waits elsewhere.
    fn receive_now(
        &mut self,
        _from: u32,
        _context: u32,
        _tags: Tags,
        _into: BytesMut<'_>,
    ) -> Taken {
        Taken::Other
    }

    /// The transport may no longer use buffers lent with messages of this token, or posted with it
    /// by [`MatchingTransport::trecv`].
    fn release(&mut self, _token: u64) {}

    /// Hands arrived frames to `sink`. It may leave out the peer `except`, whose messages the
    /// caller takes itself ([`Transport::receive_now`]). Returns whether any frame had arrived.
    fn poll(&mut self, except: Option<u32>, sink: &mut dyn FrameSink) -> bool;

    /// The next poll shall poll everything at any cost, as it is the last one for some time.
    fn poll_all_next(&mut self) {}

    /// The process will sleep after a poll in vain: anything that arrives from now on must wake it.
    /// `false`: it must not sleep, as something has already arrived, which the next poll delivers.
    fn before_sleep(&mut self) -> bool {
        true
    }

    /// Whether the sleep of the process must be short: data of [`Sent::Later`] wait for room, or
    /// nothing wakes the process when something arrives.
    fn sleeps_lightly(&self) -> bool {
        false
    }

    /// The process is about to sleep while messages to this peer wait for room. Returns whether
    /// room wakes it; if not, the sleep must be short.
    fn announce_waiting(&mut self, _peer: u32) -> bool {
        false
    }

    /// From now on several threads may call: one may sleep while another one receives.
    fn share_among_threads(&mut self) {}

    /// Changes the longest eager message, in bytes, if the transport has such a setting.
    fn set_eager_limit(&mut self, _bytes: usize) {}

    /// Sends and receives by tag, if its network matches.
    fn matching(&mut self) -> Option<&mut dyn MatchingTransport> {
        None
    }

    /// The connections, if they can be closed and made again.
    fn connections(&mut self) -> Option<&mut dyn Connections> {
        None
    }

    /// Access to the memory of peers without their help, if the adapter can do that.
    fn remote_access(&mut self) -> Option<&mut dyn RemoteAccess> {
        None
    }

    /// The registrations of lasting memory, if the adapter needs memory registered.
    fn lasting_memory(&mut self) -> Option<&mut dyn LastingMemory> {
        None
    }
}

/// Registrations of memory that stays until this process frees it, such as that of MPI_Alloc_mem.
/// An adapter may keep such a registration for the next message. The transport does not learn when
/// other memory is freed.
pub trait LastingMemory {
    /// This contiguous memory stays until [`LastingMemory::forget_memory`].
    fn keep_memory(&mut self, memory: &UserBuf);

    /// The memory at this address is freed: when this returns, no adapter accesses it.
    fn forget_memory(&mut self, start: usize);
}

/// Peers come, leave and die. The launcher also reports deaths ([`FrameSink::lost`]).
pub trait Membership {
    /// Whether the program of the peer has finalised MPI, so that nothing is matched there any
    /// more. Everything that the peer had sent arrives with the next poll. `false`: this is
    /// unknown.
    fn has_left(&mut self, _peer: u32) -> bool {
        false
    }

    /// As [`Membership::has_left`], and no other session of the peer's program follows.
    fn has_ended(&mut self, peer: u32) -> bool {
        self.has_left(peer)
    }

    /// This process now has a communicator with a process of another job.
    fn attach(&mut self, _peer: u32) {}

    /// This process gives up its last communicator with a process of another job. Returns whether
    /// the peer has everything that it needs, or is lost. If not, poll and call again.
    fn settle(&mut self, _peer: u32) -> bool {
        true
    }

    /// This process has no communicator with the peer any more: neither waits for the other.
    fn detach(&mut self, _peer: u32) {}

    /// The process sends nothing more: makes sure that all its messages arrive, and notifies its
    /// peers that it leaves. Returns whether that is done; if not, poll and call again.
    fn leave(&mut self) -> bool {
        true
    }

    /// The process sends nothing for some time, and may not poll: makes sure that all its messages
    /// arrive, and that its peers know what it has received. Returns whether that is done; if not,
    /// poll and call again.
    fn rest(&mut self) -> bool {
        true
    }

    /// The reason why messages that had counted as sent were lost: a running peer was unreachable.
    fn lost_messages(&mut self) -> Option<String> {
        None
    }

    /// The launcher reports this peer as dead: delivers the frames that it has sent, if polls do
    /// not.
    fn await_end(&mut self, _peer: u32, _sink: &mut dyn FrameSink) {}

    /// Removes the state of a peer, *which must be known to be dead*.
    fn remove_failed(&mut self, _peer: u32) {}
}

/// The statistics of a transport, for tools.
pub trait Statistics {
    /// Adds the transport's numbers to `counts`.
    fn count(&mut self, _counts: &mut Counts) {}

    /// The transport's numbers alone.
    fn counts(&mut self) -> Counts {
        let mut counts = Counts::default();
        self.count(&mut counts);
        counts
    }

    /// Starts or stops recording new connections for [`Statistics::take_connections`].
    fn watch_connections(&mut self, _watch: bool) {}

    /// Takes the recorded connections, oldest first, and the number of unrecorded ones.
    fn take_connections(&mut self) -> (Vec<Connected>, u64) {
        (Vec::new(), 0)
    }
}

/// Connections that can be closed while no message is under way, and made again later.
pub trait Connections {
    /// Lets others connect to this `listener`, too.
    fn listen_also(&mut self, listener: Listener) -> io::Result<()>;

    fn listeners(&self) -> usize;

    /// Makes sure that all messages sent arrive. Returns whether that is done; if not, poll and
    /// call again. From then on no process reacts to the end of a connection. The caller sends
    /// nothing before [`Connections::resume`].
    fn quiesce(&mut self) -> bool;

    /// Ends all connections and listeners, after all processes were quiesced.
    fn give_up_connections(&mut self, sink: &mut dyn FrameSink);

    /// As [`Connections::give_up_connections`], in a process restored from an image. An image
    /// contains no connections: messages under way are sent again over new ones.
    fn give_up_lost_connections(&mut self, sink: &mut dyn FrameSink);

    /// Makes connections possible again, and requests the addresses of peers anew. Others connect
    /// to the `listeners`, one for each former one ([`Connections::listeners`]).
    fn listen_anew(&mut self, listeners: Vec<Listener>) -> io::Result<()>;

    /// The process may send again: opens all objects that an image cannot contain.
    fn resume(&mut self) -> Result<(), String> {
        Ok(())
    }
}
