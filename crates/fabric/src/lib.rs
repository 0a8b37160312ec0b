//! The way to a peer.
//!
//! A [`Fabric`] moves frames between processes. It knows nothing of communicators, matching or requests: the engine
//! above gives it a [`Message`] (a frame and a body) for a peer, and polls it for what has come, which the fabric
//! hands up through a [`Sink`], one entry for each kind of frame. Peers are named by their process index in the job.
//!
//! What a fabric promises:
//!
//! 1. Frames that match carry the sequence number the engine gave them. They may arrive in any order when several
//!    paths lead to a peer; the engine puts them back. The oldest that has not arrived and the newest one to the same
//!    peer are at most 127 apart.
//! 2. [`Sent::Done`] means that the message is on the wire or in the peer's memory, not in a private buffer that
//!    waits for credits; no callback follows. [`Sent::Later`] means that it will be, and that [`Sink::sent`] says
//!    when. [`Sent::Full`] means that nothing was taken.
//! 3. A long body may come up in parts: the entry of its frame has the first, [`Sink::more`] has the others, in order.
//!    Until the last part has come nothing else with a body comes from the same peer.
//! 4. A peer that is gone is reported once by [`Sink::lost`], after everything that it had sent.
//!
//! Modules: [`shm`] for processes of one node, [`postboxes`] for the same in the manner of the guide, [`tcp`] for sockets,
//! [`lamd`] for messages through daemons, [`ways`] for a process that may have several, [`sim`] for a virtual network with a
//! seed.
#![forbid(unsafe_code)]

mod counts;
pub mod lamd;
pub mod postboxes;
pub mod shm;
pub mod sim;
pub mod tcp;
pub mod ways;

pub use counts::{Connected, Counts, InUse, Traffic};

use oxmpi_mem::buffer::UserBuf;
use oxmpi_shm::announcement::{Announcement, Claim};
use oxmpi_shm::control_section::ControlSection;
use oxmpi_shm::door::Bell;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_sys::memory::Memory;
use oxmpi_sys::poller::Poller;
use oxmpi_wire::{Announced, ContextId, Envelope, Frame, Received, Tags};
use std::sync::Arc;

/// The user data that follow a frame.
#[derive(Clone, Copy)]
pub enum Body<'a> {
    /// They lie in one piece.
    Bytes(Bytes<'a>),
    /// They are the packed bytes `offset..offset + len` of a buffer of any layout.
    Packed {
        /// The buffer.
        buffer: &'a UserBuf,
        /// First packed byte.
        offset: usize,
        /// Number of packed bytes.
        len: usize,
    },
}

impl<'a> Body<'a> {
    /// No data.
    pub const NONE: Body<'static> = Body::Bytes(Bytes::empty());

    /// The packed bytes `offset..offset + len` of `buffer`, in one piece if they lie so.
    #[inline]
    pub fn of(buffer: &'a UserBuf, offset: usize, len: usize) -> Body<'a> {
        match buffer.as_contiguous() {
            Some(bytes) => Body::Bytes(bytes.slice(offset, len)),
            None => Body::Packed { buffer, offset, len },
        }
    }

    /// Number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Body::Bytes(b) => b.len(),
            Body::Packed { len, .. } => *len,
        }
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the bytes from `from` on into `to`, which they fill.
    #[inline]
    pub fn fill(&self, from: usize, to: BytesMut<'_>) {
        match self {
            Body::Bytes(b) => b.slice(from, to.len()).copy_to(to),
            Body::Packed { buffer, offset, .. } => buffer.pack(offset + from, to),
        }
    }
}

/// One frame to be sent, with its body.
pub struct Message<'a> {
    /// Sequence number modulo 256, for frames that match.
    pub sequence: u8,
    /// The frame.
    pub frame: Frame,
    /// The data behind it.
    pub body: Body<'a>,
    /// What [`Sink::sent`] is told if the answer is [`Sent::Later`].
    pub token: u64,
}

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// It is gone, the body may be changed; no callback follows.
    Done,
    /// It was taken; the body may not be changed before [`Sink::sent`] says so.
    Later,
    /// Nothing was taken: there is no room now.
    Full,
}

/// What became of a message that leaves at once, or not ([`Fabric::send_short_now`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SentNow {
    /// Nothing happened: use [`Fabric::send_now`] or [`Fabric::send`].
    No,
    /// It is gone.
    Done,
    /// It is gone, and the receiver sleeps: [`Fabric::wake`] it.
    Wake,
}

/// What [`Fabric::receive_now`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// The message, which is now in the buffer.
    Message {
        /// Its tag.
        tag: i32,
        /// Its length, bytes.
        len: usize,
    },
    /// The beginning of the message, which is now in the buffer; the rest comes by [`Sink::more`].
    Begun {
        /// Its tag.
        tag: i32,
        /// Its length, bytes.
        total: usize,
        /// Bytes that are in the buffer.
        stored: usize,
    },
    /// Nothing yet.
    Nothing,
    /// Something for which [`Fabric::poll`] must be asked.
    Other,
}

/// How to get the data of an announced message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fetching {
    /// By reading the sender's memory ([`Fabric::read`]).
    Read,
    /// By asking for them.
    Ask,
}

/// A peer that cannot be reached.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("process {peer} cannot be reached: {why}")]
pub struct Unreachable {
    /// Its index.
    pub peer: u32,
    /// The reason, for a person.
    pub why: String,
}

/// A way to all peers of a process.
pub trait Fabric {
    /// Longest body of an eager frame to a peer, bytes.
    fn eager_limit(&mut self, to: u32) -> usize;

    /// Whether all of `buffer` had better leave to a peer without being asked for: it is no longer than
    /// [`Fabric::eager_limit`] says, and the peer has room for it.
    fn is_eager(&mut self, to: u32, buffer: &UserBuf) -> bool {
        buffer.packed_len() <= self.eager_limit(to)
    }

    /// The longest standard send to a peer that does not wait for its receiver (MPI-5.0 section 3.4), bytes: what is no longer, and
    /// was announced and not taken, is kept by its sender instead.
    fn standard_limit(&mut self, to: u32) -> usize {
        self.eager_limit(to)
    }

    /// Names a message that will be announced to a peer by its address, so that this process may take it back
    /// ([`Frame::Rendezvous`]). `None`: it will not be possible.
    fn open_announcement(&mut self, _to: u32) -> Option<Announcement> {
        None
    }

    /// Takes an announced message back, of which a copy lies at `copy` now. `false`: its receiver has begun to read it.
    fn keep_announcement(&mut self, _announcement: Announcement, _copy: u64) -> bool {
        false
    }

    /// Claims an announced message of this process's own, to send it. `false`: its receiver has claimed it, and reads it.
    fn claim_own(&mut self, _announcement: Announcement) -> bool {
        true
    }

    /// Declines a peer's pull of an announced message: the peer shall read it.
    fn decline(&mut self, _announcement: Announcement) {}

    /// Whether a peer has declined the pull of an announced message.
    fn is_declined(&self, _from: u32, _announcement: Announcement) -> bool {
        false
    }

    /// Whether a peer waits in the library, and so serves a pull at once: a hint that may be wrong.
    fn is_waiting(&self, _peer: u32) -> bool {
        true
    }

    /// An announced message was read, or nobody gets it.
    fn close_announcement(&mut self, _announcement: Announcement) {}

    /// Claims an announced message of a peer before it is read.
    fn claim(&mut self, _from: u32, _announcement: Announcement) -> Claim {
        Claim::Gone
    }

    /// How many bytes of a longer message go with its announcement ([`Frame::Rendezvous`]) to a peer, at most. The receiver has
    /// them when it asks for the rest, as such a path makes it do ([`Fetching::Ask`]).
    fn announced_limit(&mut self, _to: u32) -> usize {
        0
    }

    /// Longest body of one [`Frame::Data`] to a peer, bytes.
    fn piece_limit(&mut self, to: u32) -> usize;

    /// Whether a frame with a body of `len` bytes, longer than [`Fabric::piece_limit`] perhaps, would leave now as a whole.
    fn has_room(&mut self, to: u32, len: usize) -> bool {
        len <= self.piece_limit(to)
    }

    /// Sends a message, or says that it cannot now.
    ///
    /// # Errors
    /// If the peer cannot be reached at all.
    fn send(&mut self, to: u32, message: &Message<'_>) -> Result<Sent, Unreachable>;

    /// As [`Fabric::send`], for a piece of an announced message: the packed bytes of `buffer` from `offset` on, of which
    /// `message` has the body. If the answer is [`Sent::Later`] the path may use the buffer until [`Sink::sent`] says
    /// that it does not any more, or [`Fabric::release`] is called.
    ///
    /// # Errors
    /// As [`Fabric::send`].
    #[inline]
    fn send_piece(
        &mut self,
        to: u32,
        message: &Message<'_>,
        _buffer: &UserBuf,
        _offset: usize,
    ) -> Result<Sent, Unreachable> {
        self.send(to, message)
    }

    /// As [`Fabric::send`], for an eager message whose body is all of `buffer`. If the answer is [`Sent::Later`] the path may use
    /// the buffer until [`Sink::sent`] says that it does not any more, or [`Fabric::release`] is called.
    ///
    /// # Errors
    /// As [`Fabric::send`].
    #[inline]
    fn send_whole(&mut self, to: u32, message: &Message<'_>, _buffer: &UserBuf) -> Result<Sent, Unreachable> {
        self.send(to, message)
    }

    /// The buffers of messages with this token may not be used any more, though they are perhaps not gone.
    fn release(&mut self, _token: u64) {}

    /// Sends a contiguous eager message of a few bytes if that needs no thought: the path is warm, there is room by what is known
    /// of it, and `context` is the receiver's index. One straight line without a call, so that whoever makes a call on it has
    /// nothing to save.
    #[inline]
    fn send_short_now(&mut self, _to: u32, _context: u32, _tag: i32, _bytes: Bytes<'_>) -> SentNow {
        SentNow::No
    }

    /// As [`Fabric::send_short_now`] for eager messages of any length, whose receiver is woken. `sequence` is the message's number
    /// modulo 256, for paths whose messages need it. `false`: nothing happened, use [`Fabric::send`].
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

    /// From now on several threads may call: one of them may sleep while another one receives.
    fn share_among_threads(&mut self) {}

    /// The process will sleep after the look that was in vain: whatever comes from now on wakes it. `false`: it must not, as
    /// something has come already, which the next look hands up.
    fn before_sleep(&mut self) -> bool {
        true
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

    /// How to get the `len` bytes of an announced message that lie at `address` in process `from` (0: nobody can read
    /// them there).
    fn fetching(&mut self, _from: u32, _address: u64, _len: usize) -> Fetching {
        Fetching::Ask
    }

    /// Whether these bytes of a peer's can be read, as far as is known before it is tried. The first call for a peer may take long.
    fn is_in_reach(&mut self, peer: u32, _address: u64, _len: usize) -> bool {
        self.can_access(peer)
    }

    /// Reads the peer's memory at `address` (single copy).
    ///
    /// # Errors
    /// If the kernel refuses; nothing can be said then of the content of `into`.
    fn read(&mut self, peer: u32, _address: u64, _into: BytesMut<'_>) -> Result<(), Unreachable> {
        Err(Unreachable { peer, why: "this path has no access to another process's memory".into() })
    }

    /// Whether [`Fabric::read`] and [`Fabric::write`] reach any memory of the peer. The first question may take long.
    fn can_access(&mut self, _peer: u32) -> bool {
        false
    }

    /// Writes the peer's memory at `address` (single copy).
    ///
    /// # Errors
    /// If the kernel refuses; nothing can be said then of what is there.
    fn write(&mut self, peer: u32, _address: u64, _from: Bytes<'_>) -> Result<(), Unreachable> {
        Err(Unreachable { peer, why: "this path has no access to another process's memory".into() })
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

    /// Whether the peer matches nothing any more of what this process has sent it so far: its program has finalised MPI. What
    /// it had sent by then has come with the next poll. `false` if this process does not know.
    fn has_left(&mut self, _peer: u32) -> bool {
        false
    }

    /// Whether the launcher counts a process among the dead, which then touches no memory any more. It may be so before
    /// [`Sink::lost`] says it, which stays as it is. `false` if that is not known.
    fn has_died(&mut self, _peer: u32) -> bool {
        false
    }

    /// What wakes a peer that waits for a word in shared memory. `None`: words wake nobody there.
    fn bell(&mut self, _peer: u32) -> Option<Bell> {
        None
    }

    /// Whether a peer does not run just now, as far as this process knows: who waits for it better gives its processor to
    /// others. A hint that may be wrong.
    fn is_away(&self, _peer: u32) -> bool {
        true
    }

    /// Whether a control section may serve a team of these `ranks` peers: they share memory with this process, and are not too
    /// many. All of them find the same.
    fn may_share_section(&mut self, _ranks: u32, _peers: impl Iterator<Item = u32>) -> bool {
        false
    }

    /// On which node a process is, if the job is on several; the same number on all processes of the job. `None`: it is not, or
    /// nobody knows of that process.
    fn node(&mut self, _peer: u32) -> Option<u32> {
        None
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

    /// There are processes of other launchers, some of which may share no memory with this one: sees that it can reach them,
    /// and they it. If the process has to sleep on other descriptors for it than before, or on descriptors at all, on which
    /// ones.
    ///
    /// # Errors
    /// Why it cannot, for a person.
    fn reach_strangers(&mut self) -> Result<Option<Arc<Poller>>, String> {
        Ok(None)
    }

    /// This process has a communicator with a process of another job now.
    fn attach(&mut self, _peer: u32) {}

    /// This process gives up its last communicator with a process of another job: whether that has all that it needs, or is
    /// gone. If not, poll and ask again.
    fn settle(&mut self, _peer: u32) -> bool {
        true
    }

    /// This process has no communicator with a process of another job any more: neither waits for the other, until
    /// [`Fabric::attach`].
    fn detach(&mut self, _peer: u32) {}

    /// The process sends nothing more: sees that all it has sent arrives, and then takes leave of its peers. Returns
    /// whether that is done; if not, poll and ask again.
    fn leave(&mut self) -> bool {
        true
    }

    /// The process sends nothing for some time, and may not look either: sees that all it has sent arrives, and that its
    /// peers know what it has received. Returns whether that is done; if not, poll and ask again. Unlike after
    /// [`Fabric::leave`] everything can go on later.
    fn rest(&mut self) -> bool {
        true
    }

    /// What this path can say of itself in numbers, for tools.
    fn counts(&mut self) -> Counts {
        Counts::default()
    }

    /// From now on connections that are made are noted for [`Fabric::take_connections`], or no longer.
    fn watch_connections(&mut self, _watch: bool) {}

    /// Takes the connections that were made since the last time, the oldest first, and how many were not noted because
    /// too many waited already.
    fn take_connections(&mut self) -> (Vec<Connected>, u64) {
        (Vec::new(), 0)
    }

    /// Wakes a peer that may sleep.
    fn wake(&mut self, _peer: u32) {}

    /// Whether data that the path has taken wait for room, and nobody may wake this process when there is some: its sleep must be
    /// short.
    fn sleeps_lightly(&self) -> bool {
        false
    }

    /// The process is about to sleep while messages wait for room to this peer: asks the peer to wake it when there
    /// is. Returns whether it will; if not (it cannot, or there is room by now), the sleep must be short.
    fn announce_waiting(&mut self, _peer: u32) -> bool {
        false
    }
}

/// Where a fabric hands up what has come; one entry for each kind of frame, so that nobody asks twice.
///
/// `total` is the length of the whole body, `first` the part that is here: all, some or nothing of it. [`Sink::more`] follows with
/// the rest.
pub trait Sink {
    /// [`Frame::Eager`].
    fn eager(&mut self, from: u32, sequence: u8, envelope: Envelope, total: usize, first: Bytes<'_>);
    /// [`Frame::EagerSync`].
    fn eager_sync(
        &mut self,
        from: u32,
        sequence: u8,
        envelope: Envelope,
        request: u64,
        total: usize,
        first: Bytes<'_>,
    );
    /// [`Frame::Rendezvous`], with the beginning of the message if that came with it, which is all here.
    fn rendezvous(
        &mut self,
        from: u32,
        sequence: u8,
        envelope: Envelope,
        announced: Announced,
        first: Bytes<'_>,
    );
    /// [`Frame::SyncAck`].
    fn sync_ack(&mut self, from: u32, request: u64);
    /// [`Frame::Pull`].
    fn pull(&mut self, from: u32, request: u64, receiver: u64, length: u64, claimed: bool);
    /// [`Frame::Fin`].
    fn fin(&mut self, from: u32, request: u64);
    /// [`Frame::Withdraw`].
    fn withdraw(&mut self, from: u32, request: u64, number: u64);
    /// [`Frame::Withdrawn`].
    fn withdrawn(&mut self, from: u32, request: u64);
    /// [`Frame::Data`].
    fn data(&mut self, from: u32, receiver: u64, offset: u64, total: usize, first: Bytes<'_>);
    /// [`Frame::Learn`].
    fn learn(&mut self, from: u32, id: ContextId, index: u32);
    /// The next part of the body of which `from` sent the first part last; it begins at `offset`.
    fn more(&mut self, from: u32, offset: usize, part: Bytes<'_>);
    /// Where the next bytes of that body go, the first of them at `offset`: memory for `len` bytes, of which a path may store
    /// some at the beginning. `None`: nowhere in one piece, they are to be handed up by [`Sink::more`].
    fn place(&mut self, _from: u32, _offset: usize, _len: usize) -> Option<BytesMut<'_>> {
        None
    }
    /// So many bytes were stored where [`Sink::place`] had said, as if [`Sink::more`] had handed them up.
    fn placed(&mut self, _from: u32, _offset: usize, _bytes: usize) {}
    /// A message for which the answer was [`Sent::Later`] is gone.
    fn sent(&mut self, token: u64);
    /// The peer has left as it should: it matches nothing any more ([`Fabric::has_left`]), and nothing more comes from it.
    fn left(&mut self, _peer: u32) {}
    /// The peer is gone; nothing more comes from it.
    fn lost(&mut self, peer: u32);
}

/// Hands a decoded frame to its entry. Frames of the path itself (`RingGrant`, `RingOpen`, `Pooled`) are given back.
#[inline]
pub fn dispatch<S: Sink>(
    from: u32,
    got: &Received,
    total: usize,
    first: Bytes<'_>,
    sink: &mut S,
) -> Option<Frame> {
    match got.frame {
        Frame::Eager { envelope } => sink.eager(from, got.sequence, envelope, total, first),
        Frame::EagerSync { envelope, request } => {
            sink.eager_sync(from, got.sequence, envelope, request, total, first)
        }
        Frame::Rendezvous { envelope, announced } => {
            sink.rendezvous(from, got.sequence, envelope, announced, first)
        }
        Frame::SyncAck { request } => sink.sync_ack(from, request),
        Frame::Pull { request, receiver, length, claimed } => {
            sink.pull(from, request, receiver, length, claimed)
        }
        Frame::Fin { request } => sink.fin(from, request),
        Frame::Withdraw { request, number } => sink.withdraw(from, request, number),
        Frame::Withdrawn { request } => sink.withdrawn(from, request),
        Frame::Data { receiver, offset } => sink.data(from, receiver, offset, total, first),
        Frame::Learn { id, index } => sink.learn(from, id, index),
        own @ (Frame::RingGrant { .. } | Frame::RingOpen { .. } | Frame::Pooled { .. }) => return Some(own),
    }
    None
}
