//! What the engine and the services above it see: all peers of a process, whichever transport is the route to each.

use crate::{
    Fetching, LastingMemory, MatchingTransport, Membership, Message, RemoteAccess, Room, Sent, SentNow, Sink,
    Statistics, Taken, Unreachable,
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
    /// Longest body of an eager frame to a peer, bytes.
    fn eager_limit(&mut self, to: u32) -> usize;

    /// Whether all of `buffer` leaves to a peer without being asked for: it is no longer than [`Fabric::eager_limit`] says, and the
    /// peer has room for it.
    fn is_eager(&mut self, to: u32, buffer: &UserBuf) -> bool {
        buffer.packed_len() <= self.eager_limit(to)
    }

    /// The longest standard send to a peer that does not wait for its receiver (MPI-5.0 section 3.4), bytes: what is no longer, and
    /// was announced and not taken, is kept by its sender instead.
    fn standard_limit(&mut self, to: u32) -> usize {
        self.eager_limit(to)
    }

    /// How many bytes of a longer message go with its announcement ([`Frame::Rendezvous`](oxmpi_wire::Frame::Rendezvous)) to a peer, at
    /// most. The receiver has them when it asks for the rest, as such a route makes it do ([`Fetching::Ask`]).
    fn announced_limit(&mut self, _to: u32) -> usize {
        0
    }

    /// Longest body of one [`Frame::Data`](oxmpi_wire::Frame::Data) to a peer, bytes.
    fn piece_limit(&mut self, to: u32) -> usize;

    /// Whether a [`Frame::Data`](oxmpi_wire::Frame::Data) with a body of `len` bytes would leave now.
    fn room_for_piece(&mut self, to: u32, len: usize) -> Room {
        if len <= self.piece_limit(to) { Room::Now } else { Room::Never }
    }

    /// Sends a message, or says that it cannot now.
    ///
    /// # Errors
    /// If the peer cannot be reached at all.
    fn send(&mut self, to: u32, message: &Message<'_>) -> Result<Sent, Unreachable>;

    /// As [`Transport::release`](crate::Transport::release).
    fn release(&mut self, _token: u64) {}

    /// Whether the network matches the messages between this process and a peer by itself: they are not sent in frames then, but by
    /// [`Fabric::matching`].
    fn is_matched(&mut self, _peer: u32) -> bool {
        false
    }

    /// The sends and receives by tag, if the process has a network that matches.
    fn matching(&mut self) -> Option<&mut dyn MatchingTransport> {
        None
    }

    /// Sends a contiguous eager message of a few bytes if that needs no thought: the route is warm, there is room by what is known
    /// of it, and `context` is the receiver's index (`u32::MAX`: the index is unknown, and nothing is
    /// sent). It makes no call itself, so that its caller has no registers to save.
    #[inline]
    fn send_short_now(&mut self, _to: u32, _context: u32, _tag: i32, _bytes: Bytes<'_>) -> SentNow {
        SentNow::No
    }

    /// As [`Fabric::send_short_now`] for eager messages of any length, whose receiver is woken. `sequence` is the message's number
    /// modulo 256, for routes whose messages need it. `false`: nothing happened, use [`Fabric::send`].
    fn send_now(&mut self, to: u32, context: u32, tag: i32, _sequence: u8, bytes: Bytes<'_>) -> bool {
        let sent = self.send_short_now(to, context, tag, bytes);
        if sent == SentNow::Wake {
            self.wake(to);
        }
        sent != SentNow::No
    }

    /// Takes the next message from a peer straight into the buffer of a receive, if that needs no thought: it lies
    /// there whole, in a few bytes beside its header, fits, and is of this context and one of these tags. The
    /// caller has made sure that nothing older of that peer is anywhere else.
    #[inline]
    fn receive_short_now(&mut self, _from: u32, _context: u32, _tags: Tags, _into: BytesMut<'_>) -> Taken {
        Taken::Other
    }

    /// As [`Fabric::receive_short_now`] for eager messages of any length, of which only the beginning may have come.
    fn receive_now(&mut self, from: u32, context: u32, tags: Tags, into: BytesMut<'_>) -> Taken {
        self.receive_short_now(from, context, tags, into)
    }

    /// Hands up what has come. Returns whether anything had.
    fn poll<S: Sink>(&mut self, sink: &mut S) -> bool;

    /// As [`Fabric::poll`], but may leave out a peer whose messages the caller takes itself
    /// ([`Fabric::receive_short_now`]).
    fn poll_except<S: Sink>(&mut self, _peer: u32, sink: &mut S) -> bool {
        self.poll(sink)
    }

    /// As [`Fabric::poll`] for the next `most` short messages of one peer, or less than that of longer ones, where these can be had
    /// without the others. `None`: they cannot.
    #[inline]
    fn poll_peer<S: Sink>(&mut self, _peer: u32, _most: usize, _sink: &mut S) -> Option<bool> {
        None
    }

    /// Whether nothing has come, as far as a short look shows; `false` if only [`Fabric::poll`] can tell.
    #[inline]
    fn is_calm(&self) -> bool {
        false
    }

    /// Whether something from a process has come, or comes soon: looks for it for a moment, and does nothing else. It need not be
    /// a message. `None` at once: a short look cannot tell.
    fn comes_soon(&self, _from: u32) -> Option<bool> {
        None
    }

    /// From now on several threads may call: one of them may sleep while another one receives.
    fn share_among_threads(&mut self) {}

    /// As [`Transport::poll_all_next`](crate::Transport::poll_all_next), of all of them.
    fn poll_all_next(&mut self) {}

    /// As [`Transport::before_sleep`](crate::Transport::before_sleep), of all of them.
    fn before_sleep(&mut self) -> bool {
        true
    }

    /// As [`Transport::sleeps_lightly`](crate::Transport::sleeps_lightly), of any of them.
    fn sleeps_lightly(&self) -> bool {
        false
    }

    /// The process is about to sleep while messages wait for room to this peer: asks the peer to wake it when there
    /// is. Returns whether it will; if not (it cannot, or there is room by now), the sleep must be short.
    fn announce_waiting(&mut self, _peer: u32) -> bool {
        false
    }

    /// Wakes a peer that may sleep.
    fn wake(&mut self, _peer: u32) {}

    /// Whether the launcher counts a process among the dead, which then touches no memory any more. It may be so before
    /// [`Sink::lost`] says it, which stays as it is. `false` if that is not known.
    fn has_died(&mut self, _peer: u32) -> bool {
        false
    }

    /// On which node a process is, if the job is on several; the same number on all processes of the job. `None`: it is not, or
    /// nobody knows of that process.
    fn node(&mut self, _peer: u32) -> Option<u32> {
        None
    }

    /// There are processes of other launchers, some of which may share no memory with this one: sees that it can reach them,
    /// and they it. If the process has to sleep on other descriptors for it than before, or on descriptors at all, on which
    /// ones.
    ///
    /// # Errors
    /// Why it cannot, for a person.
    fn reach_foreign(&mut self) -> Result<Option<Arc<Poller>>, String> {
        Ok(None)
    }
}

/// Messages that stay with their sender until the receiver, which shares memory with it, copies them from there: either of the two may
/// claim one, by the rules of [`oxmpi_shm::announcement`].
pub trait Announcements {
    /// Names a message that will be announced to a peer by its address, so that this process may take it back
    /// ([`Frame::Rendezvous`](oxmpi_wire::Frame::Rendezvous)). `None`: it will not be possible.
    fn open_announcement(&mut self, _to: u32) -> Option<Announcement> {
        None
    }

    /// Takes an announced message back, of which a copy lies at `copy` now. `false`: its receiver has begun to read it.
    fn keep_announcement(&mut self, _announcement: Announcement, _copy: u64) -> bool {
        false
    }

    /// Claims an announced message of this process's own, which its receiver has pulled, to send it.
    fn claim_own(&mut self, _announcement: Announcement) -> OwnClaim {
        OwnClaim::Whole
    }

    /// Adds the next `len` bytes to the `given` ones of a message that this process sends in pieces. `false`: the receiver reads the
    /// rest.
    fn give(&mut self, _announcement: Announcement, _given: usize, _len: usize) -> bool {
        false
    }

    /// Gives no more of a message that this process sends in pieces: the peer shall read the rest.
    fn stop_giving(&mut self, _announcement: Announcement) {}

    /// Whether a peer gives no more of a message that was pulled.
    fn has_stopped_giving(&self, _from: u32, _announcement: Announcement) -> bool {
        false
    }

    /// Takes what a peer has not given yet of a message that was pulled, to read it: how many bytes from the beginning on the peer
    /// gives. `None`: all of them.
    fn take_rest(&mut self, _from: u32, _announcement: Announcement) -> Option<usize> {
        None
    }

    /// Whether a peer waits in the library, and so serves a pull at once: a hint that may be wrong.
    fn is_waiting(&self, _peer: u32) -> bool {
        true
    }

    /// Whether this process waits in the library.
    fn waits_here(&self) -> bool {
        false
    }

    /// An announced message was read, or nobody gets it.
    fn close_announcement(&mut self, _announcement: Announcement) {}

    /// Claims an announced message of a peer before it is read.
    fn claim(&mut self, _from: u32, _announcement: Announcement) -> Claim {
        Claim::Gone
    }
}

/// Access to the memory of peers without their help.
pub trait OneSided {
    /// How to get the `len` bytes of an announced message that lie at `address` in process `from` (0: nobody can read
    /// them there). `both_ways`: this process has announced one to that peer as well.
    fn fetching(&mut self, _from: u32, _address: u64, _len: usize, _both_ways: bool) -> Fetching {
        Fetching::Ask
    }

    /// Whether these bytes of a peer's can be read, as far as is known before it is tried. The first call for a peer may take long.
    fn is_in_reach(&mut self, peer: u32, _address: u64, _len: usize) -> bool {
        self.can_access(peer)
    }

    /// Whether [`OneSided::read`] and [`OneSided::write`] reach any memory of the peer. The first question may take long.
    fn can_access(&mut self, _peer: u32) -> bool {
        false
    }

    /// Reads the peer's memory at `address` (single copy).
    ///
    /// # Errors
    /// If the kernel refuses; nothing can be said then of the content of `into`.
    fn read(&mut self, peer: u32, _address: u64, _into: BytesMut<'_>) -> Result<(), Unreachable> {
        Err(Unreachable { peer, why: "its memory cannot be read over the route to it".into() })
    }

    /// Writes the peer's memory at `address` (single copy).
    ///
    /// # Errors
    /// If the kernel refuses; nothing can be said then of what is there.
    fn write(&mut self, peer: u32, _address: u64, _from: Bytes<'_>) -> Result<(), Unreachable> {
        Err(Unreachable { peer, why: "its memory cannot be written over the route to it".into() })
    }

    /// The heap of a process, to read and write, and where that process has it. `None`: the two share no memory, or the
    /// process uses no heap.
    fn map_heap(&mut self, _peer: u32) -> Option<(u64, Memory)> {
        None
    }

    /// Whether a process may write memory of this one by itself: the two share a node, and it has not finalized. The first
    /// question may take long.
    fn may_write_here(&mut self, _peer: u32) -> bool {
        false
    }

    /// Access to memory of peers by an adapter, if this process has one that can.
    fn remote_access(&mut self) -> Option<&mut dyn RemoteAccess> {
        None
    }

    /// The same, if it reaches memory that this peer opens.
    fn remote_access_to(&mut self, _peer: u32) -> Option<&mut dyn RemoteAccess> {
        None
    }

    /// What hears of this process's own memory that lasts, if an adapter needs memory registered.
    fn lasting_memory(&mut self) -> Option<&mut dyn LastingMemory> {
        None
    }
}

/// Memory that the processes of a team share for their collectives, and what wakes those that wait for a word in it.
pub trait Sections {
    /// Whether a control section may serve a team of these `ranks` peers: they share memory with this process, and are not too
    /// many. All of them find the same.
    fn may_share_section(&mut self, _ranks: u32, _peers: impl Iterator<Item = u32>) -> bool {
        false
    }

    /// Control section `index` of process `leader`, for a team of `ranks`; `None` if these processes share no memory.
    ///
    /// # Errors
    /// If the leader's memory cannot be reached.
    fn control_section(
        &mut self,
        _leader: u32,
        _index: u32,
        _ranks: u32,
    ) -> Result<Option<ControlSection>, Unreachable> {
        Ok(None)
    }

    /// Takes two of this process's own control sections, if two are free: the index of the first, behind which the other one
    /// lies, and the last step that was taken in either.
    fn reserve_control_sections(&mut self) -> Option<(u32, u64)> {
        None
    }

    /// A reserved section is free again: at once if no team got it, else when all `team` ranks of it have left.
    fn release_control_section(&mut self, _index: u32, _team: Option<u32>) {}

    /// What wakes a peer that waits for a word in shared memory. `None`: words wake nobody there.
    fn bell(&mut self, _peer: u32) -> Option<Bell> {
        None
    }

    /// Whether a peer does not run just now, as far as this process knows: who waits for it better gives its processor to
    /// others. A hint that may be wrong.
    fn is_away(&self, _peer: u32) -> bool {
        true
    }
}
