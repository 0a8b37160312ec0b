//! The interface of the engine to all peers of a process, whichever transport is the route to each.

use crate::{
    Fetching, FrameSink, LastingMemory, MatchingTransport, Membership, OutgoingMessage,
    RemoteAccess, Room, Sent, SentNow, Statistics, Taken, Unreachable,
};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_shm::announcement::{Announcement, Claim, OwnClaim};
use oxmpi_shm::control_section::ControlSection;
use oxmpi_shm::door::Bell;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_sys::memory::Memory;
use oxmpi_sys::poller::Poller;
use oxmpi_wire::Tags;
use std::sync::Arc;

/// All peers of a process.
pub trait Fabric: Announcements + OneSided + Sections + Membership + Statistics {
    /// The longest body of an eager frame to a peer, in bytes.
    fn eager_limit(&mut self, to: u32) -> usize;

    /// Whether `buffer` is within [`Fabric::eager_limit`], and the peer has room for it.
    fn is_eager(&mut self, to: u32, buffer: &UserBuf) -> bool {
        buffer.packed_len() <= self.eager_limit(to)
    }

    /// The longest standard send to a peer that completes without its receiver (MPI-5.0 section
    /// 3.4), in bytes: the sender makes a private copy of an announced message of at most this
    /// length that the receiver has not taken.
    fn standard_limit(&mut self, to: u32) -> usize {
        self.eager_limit(to)
    }

    /// The number of bytes at the beginning of a longer message that go with its announcement
    /// ([`Frame::Rendezvous`](oxmpi_wire::Frame::Rendezvous)) to a peer. The receiver has them when
    /// it requests the rest: the route of such a message returns [`Fetching::Ask`].
    fn announced_limit(&mut self, _to: u32) -> usize {
        0
    }

    /// The longest body of one [`Frame::Data`](oxmpi_wire::Frame::Data) to a peer, in bytes.
    fn piece_limit(&mut self, to: u32) -> usize;

    /// Whether a [`Frame::Data`](oxmpi_wire::Frame::Data) of `len` bytes would leave now.
    fn room_for_piece(&mut self, to: u32, len: usize) -> Room {
        if len <= self.piece_limit(to) { Room::Now } else { Room::Never }
    }

    /// Sends a message, or returns that there is no room now.
    fn send(&mut self, to: u32, message: &OutgoingMessage<'_>) -> Result<Sent, Unreachable>;

    /// As [`Transport::release`](crate::Transport::release).
    fn release(&mut self, _token: u64) {}

    /// Whether the network matches the messages with a peer: see [`Fabric::matching`].
    fn is_matched(&mut self, _peer: u32) -> bool {
        false
    }

    /// The interface for sends and receives by tag, if the process has a network that matches.
    fn matching(&mut self) -> Option<&mut dyn MatchingTransport> {
        None
    }

    /// Sends a contiguous eager message of a few bytes if the route is warm and known to have room.
    /// `context` is the receiver's index of the context; with `u32::MAX` (unknown) nothing is sent.
    /// It calls no function, so that its caller has no registers to save.
    #[inline]
    fn send_short_now(&mut self, _to: u32, _context: u32, _tag: i32, _bytes: Bytes<'_>) -> SentNow {
        SentNow::No
    }

    /// As [`Fabric::send_short_now`] for eager messages of any length; it also wakes the receiver.
    /// `sequence` is the message's number modulo 256, for routes whose messages need it. `false`:
    /// nothing happened, use [`Fabric::send`].
    fn send_now(
        &mut self,
        to: u32,
        context: u32,
        tag: i32,
        _sequence: u8,
        bytes: Bytes<'_>,
    ) -> bool {
        let sent = self.send_short_now(to, context, tag, bytes);
        if sent == SentNow::Wake {
            self.wake(to);
        }
        sent != SentNow::No
    }

    /// Copies the next message of a peer into the buffer of a receive if the message is complete,
    /// lies in a few bytes after its header, fits, and has this context and one of these tags. The
    /// caller has made sure that no older message of that peer waits elsewhere.
    #[inline]
    fn receive_short_now(
        &mut self,
        _from: u32,
        _context: u32,
        _tags: Tags,
        _into: BytesMut<'_>,
    ) -> Taken {
        Taken::Other
    }

    /// As [`Fabric::receive_short_now`] for any length; only the beginning may have arrived.
    fn receive_now(&mut self, from: u32, context: u32, tags: Tags, into: BytesMut<'_>) -> Taken {
        self.receive_short_now(from, context, tags, into)
    }

    /// Hands arrived frames to `sink`. Returns whether there were any.
    fn poll<S: FrameSink>(&mut self, sink: &mut S) -> bool;

    /// As [`Fabric::poll`], but may leave out a peer whose messages the caller takes itself.
    fn poll_except<S: FrameSink>(&mut self, _peer: u32, sink: &mut S) -> bool {
        self.poll(sink)
    }

    /// As [`Fabric::poll`] for `most` short messages of one peer. `None`: it has no queue of its
    /// own.
    #[inline]
    fn poll_peer<S: FrameSink>(&mut self, _peer: u32, _most: usize, _sink: &mut S) -> Option<bool> {
        None
    }

    /// Whether a quick check shows that nothing has arrived.
    #[inline]
    fn is_calm(&self) -> bool {
        false
    }

    /// Polls for a moment whether anything of a process arrives, which need not be a message; it
    /// takes nothing. `None` at once: a quick check cannot find that out.
    fn comes_soon(&self, _from: u32) -> Option<bool> {
        None
    }

    /// From now on several threads may call: one of them may sleep while another one receives.
    fn share_among_threads(&mut self) {}

    /// As [`Transport::poll_all_next`](crate::Transport::poll_all_next), for all transports.
    fn poll_all_next(&mut self) {}

    /// As [`Transport::before_sleep`](crate::Transport::before_sleep), for all transports.
    fn before_sleep(&mut self) -> bool {
        true
    }

    /// As [`Transport::sleeps_lightly`](crate::Transport::sleeps_lightly), for any transport.
    fn sleeps_lightly(&self) -> bool {
        false
    }

    /// The process is about to sleep while messages to this peer wait for room: requests a wake-up.
    /// `false`: the peer cannot wake it, or has room by now: the sleep must be short.
    fn announce_waiting(&mut self, _peer: u32) -> bool {
        false
    }

    fn wake(&mut self, _peer: u32) {}

    /// Whether the launcher counts a process among the dead, which accesses no memory any more.
    /// This may be earlier than [`FrameSink::lost`] reports it. `false` if that is unknown.
    fn has_died(&mut self, _peer: u32) -> bool {
        false
    }

    /// The node of a process, the same number everywhere. `None`: one node, or unknown.
    fn node(&mut self, _peer: u32) -> Option<u32> {
        None
    }

    /// Makes processes of other launchers reachable, some of which share no memory with this
    /// process. Returns the poller if from now on the process has to sleep on other descriptors.
    fn reach_foreign(&mut self) -> Result<Option<Arc<Poller>>, String> {
        Ok(None)
    }
}

/// Messages that stay with the sender until the receiver copies them ([`oxmpi_shm::announcement`]).
pub trait Announcements {
    /// Announces a message so that this process may take it back
    /// ([`Frame::Rendezvous`](oxmpi_wire::Frame::Rendezvous)). `None`: it cannot.
    fn open_announcement(&mut self, _to: u32) -> Option<Announcement> {
        None
    }

    /// Takes back an announced message with a private copy at `copy`. `false`: it is being read.
    fn keep_announcement(&mut self, _announcement: Announcement, _copy: u64) -> bool {
        false
    }

    /// Claims an announced message of this process that its receiver has pulled, to send it.
    fn claim_own(&mut self, _announcement: Announcement) -> OwnClaim {
        OwnClaim::Whole
    }

    /// Adds `len` bytes to the `given` ones of a message in pieces. `false`: the peer reads the
    /// rest.
    fn give(&mut self, _announcement: Announcement, _given: usize, _len: usize) -> bool {
        false
    }

    /// Ends the pieces of a message: the receiver shall read the rest.
    fn stop_giving(&mut self, _announcement: Announcement) {}

    /// Whether a peer has ended the pieces of a message that this process has pulled.
    fn has_stopped_giving(&self, _from: u32, _announcement: Announcement) -> bool {
        false
    }

    /// Claims the part of a pulled message that the sender has not sent yet, to read it. Returns
    /// the number of bytes from the beginning on that the sender sends; `None`: the whole message.
    fn take_rest(&mut self, _from: u32, _announcement: Announcement) -> Option<usize> {
        None
    }

    /// Whether a peer waits in the library, and so serves a pull at once: a hint that may be wrong.
    fn is_waiting(&self, _peer: u32) -> bool {
        true
    }

    fn waits_here(&self) -> bool {
        false
    }

    /// Closes an announcement whose message was read or will not be received.
    fn close_announcement(&mut self, _announcement: Announcement) {}

    /// Claims an announced message of a peer before it is read.
    fn claim(&mut self, _from: u32, _announcement: Announcement) -> Claim {
        Claim::Gone
    }
}

/// Access to the memory of peers without their help.
pub trait OneSided {
    /// How to get the `len` bytes of an announced message at `address` (0: not readable) in process
    /// `from`. `is_two_way`: this process has announced one to that peer, too.
    fn fetching(&mut self, _from: u32, _address: u64, _len: usize, _is_two_way: bool) -> Fetching {
        Fetching::Ask
    }

    /// Whether these bytes of a peer can probably be read. The first call for a peer may take long.
    fn is_in_reach(&mut self, peer: u32, _address: u64, _len: usize) -> bool {
        self.can_access(peer)
    }

    /// Whether any memory of the peer can be read and written. The first call may take long.
    fn can_access(&mut self, _peer: u32) -> bool {
        false
    }

    /// Reads the peer's memory at `address` (single copy).
    ///
    /// # Errors
    /// The kernel refuses. The content of `into` is undefined then.
    fn read(&mut self, peer: u32, _address: u64, _into: BytesMut<'_>) -> Result<(), Unreachable> {
        Err(Unreachable { peer, why: "its memory cannot be read over the route to it".into() })
    }

    /// Writes the peer's memory at `address` (single copy).
    ///
    /// # Errors
    /// The kernel refuses. The content of the peer's memory is undefined then.
    fn write(&mut self, peer: u32, _address: u64, _from: Bytes<'_>) -> Result<(), Unreachable> {
        Err(Unreachable { peer, why: "its memory cannot be written over the route to it".into() })
    }

    /// Maps the heap of a process for reading and writing; returns also its address in that
    /// process. `None`: the two share no memory, or the process uses no heap.
    fn map_heap(&mut self, _peer: u32) -> Option<(u64, Memory)> {
        None
    }

    /// Whether a process may write memory of this one: both share a node, and run.
    fn may_write_here(&mut self, _peer: u32) -> bool {
        false
    }

    /// Access to memory of peers by an adapter, if this process has such an adapter.
    fn remote_access(&mut self) -> Option<&mut dyn RemoteAccess> {
        None
    }

    /// As [`OneSided::remote_access`], if it reaches memory that this peer opens.
    fn remote_access_to(&mut self, _peer: u32) -> Option<&mut dyn RemoteAccess> {
        None
    }

    /// The registrations of lasting memory of this process, if an adapter needs memory registered.
    fn lasting_memory(&mut self) -> Option<&mut dyn LastingMemory> {
        None
    }
}

/// Memory that a team shares for its collectives, and the bells of processes that wait there.
pub trait Sections {
    /// Whether a control section may serve a team of these `ranks` peers: they share memory with
    /// this process, and one section has room for them. The result is the same on all of them.
    fn may_share_section(&mut self, _ranks: u32, _peers: impl Iterator<Item = u32>) -> bool {
        false
    }

    /// Control section `index` of process `leader` for `ranks`; `None`: they share no memory.
    fn control_section(
        &mut self,
        _leader: u32,
        _index: u32,
        _ranks: u32,
    ) -> Result<Option<ControlSection>, Unreachable> {
        Ok(None)
    }

    /// Reserves two of this process's control sections, if two are free. Returns the index of the
    /// first (the second follows it), and the last step taken in either.
    fn reserve_control_sections(&mut self) -> Option<(u32, u64)> {
        None
    }

    /// Frees a reserved section: at once if `team` is `None`, else when all `team` ranks left it.
    fn release_control_section(&mut self, _index: u32, _team: Option<u32>) {}

    /// The bell of a peer that waits for a word in shared memory, if words wake it.
    fn bell(&mut self, _peer: u32) -> Option<Bell> {
        None
    }

    /// Whether a peer does not run now, as far as this process knows, so that a process that waits
    /// for it should yield its processor. A hint that may be wrong.
    fn is_away(&self, _peer: u32) -> bool {
        true
    }
}
