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

    /// Whether `buffer` is within [`Fabric::eager_limit`] and finds room at the peer.
    fn is_eager(&mut self, to: u32, buffer: &UserBuf) -> bool {
        buffer.packed_len() <= self.eager_limit(to)
    }

    /// The longest standard send to a peer that completes without its receiver (MPI-5.0 section
    /// 3.4), in bytes. If the receiver has not taken an announced message of at most this length,
    /// the sender makes a private copy of it.
    fn standard_limit(&mut self, to: u32) -> usize {
        self.eager_limit(to)
    }

    /// The number of bytes at the beginning of a longer message that go with its announcement
    /// ([`Frame::Rendezvous`](oxmpi_wire::Frame::Rendezvous)) to a peer. The receiver has them
    /// before it requests the rest, so the route of such a message returns [`Fetching::Ask`].
    fn announced_limit(&mut self, _to: u32) -> usize {
        0
    }

    /// The longest body of one [`Frame::Data`](oxmpi_wire::Frame::Data) to a peer, in bytes.
    fn piece_limit(&mut self, to: u32) -> usize;

    /// Whether a [`Frame::Data`](oxmpi_wire::Frame::Data) with `len` bytes would leave now.
    fn room_for_piece(&mut self, to: u32, len: usize) -> Room {
        if len <= self.piece_limit(to) { Room::Now } else { Room::Never }
    }

    fn send(&mut self, to: u32, message: &OutgoingMessage<'_>) -> Result<Sent, Unreachable>;

    fn release(&mut self, _token: u64) {}

    /// Whether the network matches the messages with a peer ([`Fabric::matching`]).
    fn is_matched(&mut self, _peer: u32) -> bool {
        false
    }

    /// The interface of a network that matches messages, if the process has one.
    fn matching(&mut self) -> Option<&mut dyn MatchingTransport> {
        None
    }

    /// Sends a contiguous eager message of a few bytes if the route is warm and known to have room.
    /// `context` is the receiver's index of the context; with `u32::MAX` (unknown) nothing is sent.
    /// The implementation calls no function, so its caller need not save registers.
    #[inline]
    fn send_short_now(&mut self, _to: u32, _context: u32, _tag: i32, _bytes: Bytes<'_>) -> SentNow {
        SentNow::No
    }

    /// As [`Fabric::send_short_now`] for eager messages of any length; it also wakes the receiver.
    /// `sequence` is the message's number modulo 256, for routes that send it. `false`: nothing
    /// happened, use [`Fabric::send`].
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
    /// caller guarantees that no older message of the peer waits elsewhere.
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

    /// Hands arrived frames to `sink`. Returns whether any had arrived.
    fn poll<S: FrameSink>(&mut self, sink: &mut S) -> bool;

    /// As [`Fabric::poll`]; it may leave out a peer whose messages the caller takes itself.
    fn poll_except<S: FrameSink>(&mut self, _peer: u32, sink: &mut S) -> bool {
        self.poll(sink)
    }

    /// As [`Fabric::poll`] for `most` short messages of one peer. `None`: the peer has no queue of
    /// its own.
    #[inline]
    fn poll_peer<S: FrameSink>(&mut self, _peer: u32, _most: usize, _sink: &mut S) -> Option<bool> {
        None
    }

    /// Whether a quick check shows that nothing has arrived.
    #[inline]
    fn is_calm(&self) -> bool {
        false
    }

    /// Polls for a moment whether anything arrives from a process, message or not, and takes
    /// nothing. `None` at once: a quick check cannot find out.
    fn comes_soon(&self, _from: u32) -> Option<bool> {
        None
    }

    /// From now on several threads may call: one may sleep while another one receives.
    fn share_among_threads(&mut self) {}

    fn poll_all_next(&mut self) {}

    fn before_sleep(&mut self) -> bool {
        true
    }

    fn sleeps_lightly(&self) -> bool {
        false
    }

    /// The process is about to sleep while messages to this peer wait for room: requests a wake-up.
    /// `false`: the sleep must be short, because the peer cannot wake the process, or has room by
    /// now.
    fn announce_waiting(&mut self, _peer: u32) -> bool {
        false
    }

    fn wake(&mut self, _peer: u32) {}

    /// Whether the launcher counts a process among the dead, which access no memory. This may be
    /// earlier than [`FrameSink::lost`]. `false` if that is unknown.
    fn has_died(&mut self, _peer: u32) -> bool {
        false
    }

    /// The node of a process, the same number in all processes. `None`: unknown, or there is one
    /// node.
    fn node(&mut self, _peer: u32) -> Option<u32> {
        None
    }

    /// Makes processes of other launchers reachable, of which some share no memory with this
    /// process. Returns a poller if the process must sleep on its descriptors from now on.
    fn reach_foreign(&mut self) -> Result<Option<Arc<Poller>>, String> {
        Ok(None)
    }
}

/// Messages that stay with the sender until the receiver copies them ([`oxmpi_shm::announcement`]).
pub trait Announcements {
    /// Announces a message that this process can take back
    /// ([`Frame::Rendezvous`](oxmpi_wire::Frame::Rendezvous)). `None`: that is impossible.
    fn open_announcement(&mut self, _to: u32) -> Option<Announcement> {
        None
    }

    /// Takes back an announced message with a private copy at `copy`. `false`: the receiver reads
    /// it.
    fn keep_announcement(&mut self, _announcement: Announcement, _copy: u64) -> bool {
        false
    }

    /// Claims a message of this process whose data the receiver has pulled, to send them.
    fn claim_own(&mut self, _announcement: Announcement) -> OwnClaim {
        OwnClaim::Whole
    }

    /// Adds `len` bytes to the `given` bytes of a message that goes in pieces. `false`: the peer
    /// reads the rest.
    fn give(&mut self, _announcement: Announcement, _given: usize, _len: usize) -> bool {
        false
    }

    /// Ends the pieces of a message: the receiver reads the rest.
    fn stop_giving(&mut self, _announcement: Announcement) {}

    /// Whether a peer has ended the pieces of a message, so that this process reads the rest.
    fn has_stopped_giving(&self, _from: u32, _announcement: Announcement) -> bool {
        false
    }

    /// Claims the part of a pulled message that the sender has not sent, to read it. Returns the
    /// number of bytes at the beginning that the sender sends; `None`: the whole message.
    fn take_rest(&mut self, _from: u32, _announcement: Announcement) -> Option<usize> {
        None
    }

    /// Whether a peer waits in the library, and so answers a pull at once: a hint that may be
    /// wrong.
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
    /// The path of the `len` bytes of an announced message at `address` (0: not readable) in
    /// process `from`. `is_two_way`: this process has announced a message to that peer, too.
    fn fetching(&mut self, _from: u32, _address: u64, _len: usize, _is_two_way: bool) -> Fetching {
        Fetching::Ask
    }

    /// Whether this process can probably read these bytes of a peer. The first call for a peer may
    /// take long.
    fn is_in_reach(&mut self, peer: u32, _address: u64, _len: usize) -> bool {
        self.can_access(peer)
    }

    /// Whether this process can read and write any memory of the peer. The first call may take
    /// long.
    fn can_access(&mut self, _peer: u32) -> bool {
        false
    }

    /// Reads the peer's memory at `address` (single copy).
    ///
    /// # Errors
    /// The kernel refuses. Then the content of `into` is undefined.
    fn read(&mut self, peer: u32, _address: u64, _into: BytesMut<'_>) -> Result<(), Unreachable> {
        Err(Unreachable { peer, why: "its memory cannot be read over the route to it".into() })
    }

    /// Writes the peer's memory at `address` (single copy).
    ///
    /// # Errors
    /// The kernel refuses. Then the content of the peer's memory is undefined.
    fn write(&mut self, peer: u32, _address: u64, _from: Bytes<'_>) -> Result<(), Unreachable> {
        Err(Unreachable { peer, why: "its memory cannot be written over the route to it".into() })
    }

    /// Maps the heap of a process for reading and writing. Returns its address in that process,
    /// too. `None`: the two share no memory, or the process uses no heap.
    fn map_heap(&mut self, _peer: u32) -> Option<(u64, Memory)> {
        None
    }

    /// Whether a process may write memory of this one: both run, on one node.
    fn may_write_here(&mut self, _peer: u32) -> bool {
        false
    }

    /// Access to memory of peers by an adapter, if this process has one that can do it.
    fn remote_access(&mut self) -> Option<&mut dyn RemoteAccess> {
        None
    }

    /// As [`OneSided::remote_access`], if the adapter reaches memory that this peer opens.
    fn remote_access_to(&mut self, _peer: u32) -> Option<&mut dyn RemoteAccess> {
        None
    }

    /// The registrations of lasting memory of this process, if an adapter needs memory registered.
    fn lasting_memory(&mut self) -> Option<&mut dyn LastingMemory> {
        None
    }
}

/// Memory that a team shares for its collectives, and the bells of processes that wait for it.
pub trait Sections {
    /// Whether a control section may serve a team of these `ranks` peers: they share memory with
    /// this process, and a section has room for them. All of them get the same result.
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
    /// first (the second follows it), and the number of the last step in either.
    fn reserve_control_sections(&mut self) -> Option<(u32, u64)> {
        None
    }

    /// Frees a reserved section: at once if `team` is `None`, else when all `team` ranks have left
    /// it.
    fn release_control_section(&mut self, _index: u32, _team: Option<u32>) {}

    /// The bell of a peer that waits for a word in shared memory, if words wake the peer.
    fn bell(&mut self, _peer: u32) -> Option<Bell> {
        None
    }

    /// Whether a peer does not run now, as far as this process knows. A process that waits for the
    /// peer should then yield its processor. A hint that may be wrong.
    fn is_away(&self, _peer: u32) -> bool {
        true
    }
}
