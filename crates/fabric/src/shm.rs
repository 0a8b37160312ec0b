//! Shared memory: the default path between processes of one node.
//!
//! Each process has one segment, into which its peers write. A *cold* peer writes its frames into
//! the inbox of the segment. After some messages the receiver grants it a *pair ring*, if one is
//! free. So an idle process polls little, and memory does not grow with the square of the number of
//! ranks.
//!
//! Rules (besides those of the ring, the inbox and the door in `oxmpi_shm`)
//!
//! 1. A frame for a cold peer lies in one cell of the inbox. Its body follows in the cell, or, if
//!    it is too long, lies in the sender's pool ([`Frame::Pooled`]). If the pool has no room, the
//!    message is announced.
//! 2. The receiver counts the cells of each peer. After `ring_after` cells it takes a free ring and
//!    sends [`Frame::RingGrant`].
//! 3. The sender's first frame in the ring is [`Frame::RingOpen`] with the number of cells that it
//!    has put into the inbox. The receiver leaves this frame in the ring until it has received that
//!    number of cells: nothing in the ring overtakes the inbox, and the sender never returns to the
//!    inbox.
//! 4. In the ring, an eager message whose context index has 16 bits needs no frame: at most 56
//!    bytes lie in its slot, more bytes in chunks. Every other message is a frame in a slot, with
//!    its body in chunks behind it.
//! 5. Many chunks lie in the sender's pool if it has room; otherwise chunks lie in the data ring.
//!    So a receiver maps the peer's segment before it grants a ring.
//! 6. After each publication the sender rings the peer's bell.
//! 7. If an announced message lies in the sender's heap, the receiver copies it from its own
//!    mapping of that heap, which it makes at the first such message. This needs no permission to
//!    read the sender's memory.
//! 8. A message for which a single copy is faster ([`copy_policy`]) is announced with its address,
//!    even if it is short; in the sender's heap a single copy is faster for more lengths. The
//!    sender of a standard send can take the message back (rules of [`oxmpi_shm::announcement`]).
//! 9. An announced message for which two copies are faster goes through the pool in pieces, however
//!    long it is, while both processes wait in the library. At most a share of the pool
//!    ([`copy_policy::Streaming`]) holds pieces for one peer. When the sender leaves the library,
//!    or finds the pool full of data for others, the receiver reads the rest by rule 8.

mod calls;
pub mod copy_policy;
mod incoming;
mod module;
mod outgoing;
mod parting;
mod sections;
#[cfg(test)]
mod tests;

pub use self::copy_policy::SingleCopyMode;
use self::copy_policy::{Capabilities, CopyFacts, CopyPlan, Protocol, Proximity, Streaming};
use self::incoming::{RingIn, decode};
use self::outgoing::{Out, Path};
use self::parting::Parted;
use self::sections::SectionTable;
use crate::peer_segments::{PeerSegment, PeerSegments};
use crate::{Body, FrameSink, OutgoingMessage, Sent, SentNow, Unreachable, dispatch};
use oxmpi_shm::announcement::AnnouncementSender;
use oxmpi_shm::inbox::{CELL_PAYLOAD, InboxReceiver};
use oxmpi_shm::pool::{Pool, PoolView};
use oxmpi_shm::ring::{INLINE_MAX, RingReceiver, RingSender};
use oxmpi_shm::segment::Segment;
use oxmpi_sys::bytes::Bytes;
use oxmpi_sys::single_copy::RemoteProcess;
use oxmpi_wire::{Frame, MAX_FRAME_LEN, Received};
use std::collections::VecDeque;
use std::sync::Arc;

/// The number of messages, or parts of messages, taken from one ring before the next ring.
const BURST: usize = 32;

/// The settings of shared memory in this process.
#[derive(Debug, Clone)]
pub struct ShmSettings {
    pub eager_limit: usize,
    /// The number of messages through the inbox after which a peer is granted a ring.
    pub ring_after: u64,
    /// The shortest message that goes through the sender's pool, in bytes.
    pub pool_from: usize,
    pub single_copy: SingleCopyMode,
    pub facts: Arc<CopyFacts>,
    pub proximity: Proximity,
}

impl Default for ShmSettings {
    fn default() -> Self {
        ShmSettings {
            eager_limit: 256 << 10,
            ring_after: 2,
            pool_from: 1 << 10,
            single_copy: SingleCopyMode::Auto,
            facts: Arc::new(CopyFacts::built_in("", 0)),
            proximity: Proximity::Unknown,
        }
    }
}

impl ShmSettings {
    /// The protocols to a peer that may read the sender's memory; `has_pool`: the sender has a
    /// pool.
    pub fn plan(&self, has_pool: bool) -> CopyPlan {
        let (ring_below, single_copy) = (self.pool_from, self.single_copy);
        CopyPlan::new(
            &self.facts,
            self.proximity,
            Capabilities { ring_below, pool: has_pool, single_copy },
        )
    }
}

/// The transport of one process to the processes of its node.
pub struct Shm {
    me: u32,
    own: Arc<Segment>,
    peer_segments: PeerSegments,
    settings: ShmSettings,
    plan: Arc<CopyPlan>,
    /// The longest eager message without a header, in bytes.
    inline_limit: usize,
    pool: Option<Pool>,
    streaming: Streaming,
    /// Bytes of pulled messages that went through the pool.
    piece_bytes: u64,
    inbox: InboxReceiver,
    /// By rank; `None` before the first contact.
    links: Vec<Option<Box<Link>>>,
    /// The peers with a ring in the own segment, by the number of the ring.
    granted: Vec<u32>,
    /// Peers with their rings, for [`Frame::RingGrant`] frames that wait for room.
    grants: VecDeque<(u32, u32)>,
    sections: SectionTable,
    announcements: AnnouncementSender,
    heap_bytes: u64,
    parted: Box<Parted>,
}

#[derive(Debug, Default)]
struct Link {
    out: Option<Out>,
    /// Frames of the peer in the own inbox.
    cells_in: u64,
    /// The number of the peer's messages that match, modulo 256.
    matched_in: u8,
    ring_in: Option<RingIn>,
    can_read: Option<bool>,
    is_heap_refused: bool,
}

#[inline]
fn link_of(links: &mut Vec<Option<Box<Link>>>, peer: u32) -> &mut Link {
    let at = peer as usize;
    if links.len() <= at {
        links.resize_with(at + 1, || None);
    }
    links[at].get_or_insert_default()
}

#[inline(always)]
fn out_of(links: &mut [Option<Box<Link>>], peer: u32) -> Option<&mut Out> {
    links.get_mut(peer as usize)?.as_mut()?.out.as_mut()
}

impl Shm {
    #[cold]
    fn finds_credits(&mut self, to: u32) -> bool {
        match out_of(&mut self.links, to) {
            Some(Out { path: Path::Ring(ring), .. }) => ring.finds_credits(),
            _ => false,
        }
    }

    #[inline]
    fn wake_after(&mut self, sent: SentNow, to: u32) {
        if sent == SentNow::Wake {
            self.wake(to);
        }
    }
}

impl std::fmt::Debug for Shm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shm")
            .field("me", &self.me)
            .field("rings", &self.granted.len())
            .finish_non_exhaustive()
    }
}

impl Shm {
    /// The transport of a process to its node.
    pub fn new(peer_segments: PeerSegments, settings: ShmSettings) -> Shm {
        let own = peer_segments.own().clone();
        let boot = *own.boot();
        Shm {
            me: boot.rank,
            inbox: InboxReceiver::new(own.inbox()),
            pool: own.pool().map(Pool::new),
            streaming: Streaming::new(&boot.config.pool_shape()),
            piece_bytes: 0,
            announcements: AnnouncementSender::new(own.announcements()),
            own,
            peer_segments,
            inline_limit: settings.eager_limit.min(INLINE_MAX),
            plan: Arc::new(settings.plan(boot.config.pool_bytes > 0)),
            settings,
            links: Vec::new(),
            granted: Vec::new(),
            grants: VecDeque::new(),
            sections: SectionTable::new(&boot.config),
            heap_bytes: 0,
            parted: Box::default(),
        }
    }

    pub(crate) fn copy_facts(&self) -> Arc<CopyFacts> {
        self.settings.facts.clone()
    }

    /// Changes the settings from now on.
    pub fn retune(&mut self, settings: ShmSettings) {
        self.inline_limit = settings.eager_limit.min(INLINE_MAX);
        self.plan = Arc::new(settings.plan(self.pool.is_some()));
        self.settings = settings;
        for out in self.links.iter_mut().flatten().filter_map(|link| link.out.as_mut()) {
            out.plan = self.plan.clone();
        }
    }

    #[inline]
    fn link(&mut self, peer: u32) -> &mut Link {
        link_of(&mut self.links, peer)
    }

    #[inline]
    fn out(&self, peer: u32) -> Option<&Out> {
        self.links.get(peer as usize)?.as_ref()?.out.as_ref()
    }

    #[inline]
    fn out_mut(&mut self, peer: u32) -> Option<&mut Out> {
        out_of(&mut self.links, peer)
    }

    #[cold]
    fn connect(&mut self, peer: u32) -> Result<&mut Out, Unreachable> {
        let PeerSegment { segment, bell, known_as } = self.peer_segments.connect(peer)?;
        let out = Out::new(segment, bell, known_as, self.plan.clone());
        Ok(self.link(peer).out.insert(out))
    }

    fn contact(&mut self, peer: u32) -> Result<&mut Out, Unreachable> {
        if self.out(peer).is_none() {
            return self.connect(peer);
        }
        self.out_mut(peer).ok_or_else(|| calls::no_contact(peer))
    }

    /// The longest body, at most `wanted` bytes: through the pool if it has room, else in the ring
    /// or inbox.
    fn longest_body(&mut self, to: u32, wanted: usize) -> usize {
        let by_itself = match out_of(&mut self.links, to) {
            Some(Out { path: Path::Ring(ring), .. }) => ring.max_data(),
            _ => CELL_PAYLOAD - MAX_FRAME_LEN,
        };
        let Some(pool) = self.pool.as_mut().filter(|_| wanted > by_itself) else {
            return by_itself;
        };
        let longest = wanted.min(pool.shape().max_message());
        if longest > by_itself && pool.room_for(longest) { longest } else { by_itself }
    }

    /// Whether a message is announced for the receiver's copy, even if it is short: [`copy_policy`]
    /// decides, if the two may read each other's memory as far as this process knows.
    #[inline]
    fn is_for_single_copy(&mut self, peer: u32, bytes: Bytes<'_>) -> bool {
        let Some(out) = out_of(&mut self.links, peer) else { return false };
        let (len, plan) = (bytes.len(), &out.plan);
        let is_announced = plan.of(len).protocol == Protocol::SingleCopy
            || plan.is_mapped(len) && self.own.is_in_heap(bytes.as_ptr().addr() as u64, len);
        is_announced && self.can_read(peer)
    }

    /// Whether this process may read the peer's memory; a real read, made once, decides.
    pub(crate) fn can_read(&mut self, peer: u32) -> bool {
        if self.settings.single_copy == SingleCopyMode::Off {
            return false;
        }
        if let Some(known) = self.link(peer).can_read {
            return known;
        }
        self.probe(peer)
    }

    #[cold]
    fn probe(&mut self, peer: u32) -> bool {
        let Ok(out) = self.contact(peer) else { return false };
        let Some(pid) = out.segment.status().pid() else { return false };
        let readable = out.segment.is_readable_in(RemoteProcess { pid });
        out.pid = pid;
        self.link(peer).can_read = Some(readable);
        readable
    }

    /// Whether these bytes lie in the peer's heap, and the heap is mapped here (rule 7).
    fn is_in_heap(&mut self, peer: u32, address: u64, len: usize) -> bool {
        if self.contact(peer).is_err() {
            return false;
        }
        let Some(Some(link)) = self.links.get_mut(peer as usize) else { return false };
        let Some(Out { segment, .. }) = &link.out else { return false };
        if !segment.is_in_heap(address, len) || link.is_heap_refused {
            return false;
        }
        if !segment.has_heap() {
            link.is_heap_refused = !self.peer_segments.map_heap(peer, segment);
        }
        !link.is_heap_refused
    }

    fn send_own(&mut self, to: u32, frame: Frame) -> Result<Sent, Unreachable> {
        self.send(to, &OutgoingMessage::new(frame, Body::NONE))
    }

    /// Grants a ring to a peer by rules 2 and 5.
    fn consider_ring(&mut self, peer: u32) {
        let Some(index) = self.free_ring() else { return };
        if self.contact(peer).is_err() {
            return;
        }
        let kind = self
            .out(peer)
            .map_or(self.peer_segments.kind(), |out| self.peer_segments.kind_with(&out.segment));
        let mut receiver = RingReceiver::new(self.own.ring(index, kind));
        if let Some(pool) = self.out(peer).and_then(|out| out.segment.pool()) {
            receiver.set_pool(PoolView::new(pool));
        }
        self.link(peer).ring_in = Some(RingIn::new(receiver));
        self.note_ring(index, peer);
        self.grants.push_back((peer, index));
    }

    fn use_ring(&mut self, peer: u32, ring: u32) {
        let Some(kind) = self.out(peer).map(|out| self.peer_segments.kind_with(&out.segment))
        else {
            return;
        };
        let Some(out) = self.out_mut(peer) else { return };
        if ring >= out.segment.boot().config.max_rings || matches!(out.path, Path::Ring(_)) {
            return;
        }
        let mut sender = RingSender::new(out.segment.ring(ring, kind));
        let mut bytes = [0; MAX_FRAME_LEN];
        let len = Frame::RingOpen { cells: out.cells }.encode(0, 0, &mut bytes);
        if sender.try_send_frame(Bytes::from(&bytes[..len])) {
            out.path = Path::Ring(sender);
            out.bell.ring();
        }
    }

    #[inline(always)]
    fn poll_ring<S: FrameSink>(&mut self, from: u32, most: usize, sink: &mut S) -> bool {
        let Some(Some(link)) = self.links.get_mut(from as usize) else { return false };
        let seen = link.poll(from, most, sink);
        if seen.wakes {
            link.ring_bell();
        }
        if let Some(granted) = seen.granted {
            self.use_ring(from, granted);
        }
        seen.any
    }

    #[inline(always)]
    fn poll_rings_and_inbox<S: FrameSink>(&mut self, except: Option<u32>, sink: &mut S) -> bool {
        let mut any = false;
        for at in 0..self.granted.len() {
            let from = self.granted[at];
            if Some(from) == except {
                continue;
            }
            any |= self.poll_ring(from, BURST, sink);
        }
        any |= self.poll_inbox(sink);
        while let Some(&(peer, ring)) = self.grants.front() {
            if self.send_own(peer, Frame::RingGrant { ring }) == Ok(Sent::Full) {
                break;
            }
            // The grant has left, or the peer is unreachable and will not use the ring.
            self.grants.pop_front();
        }
        any
    }

    /// Skips the next cell of the inbox if one of these processes, *which must be known to be
    /// dead*, has not finished it. Returns whether it skipped a cell.
    pub(crate) fn skip_dead(&mut self, dead: &[u32]) -> bool {
        let next = self.inbox.claimed_by();
        next.is_some_and(|producer| dead.contains(&producer) && self.inbox.skip_dead(producer))
    }

    /// Removes the unfinished cells of a peer, *which must be known to be dead*, and messages to
    /// it.
    pub(crate) fn remove_failed(&mut self, peer: u32) {
        while self.inbox.skip_dead(peer) {}
        if let Some(pool) = &mut self.pool {
            pool.forget(peer);
        }
        self.grants.retain(|(to, _)| *to != peer);
    }

    fn poll_inbox<S: FrameSink>(&mut self, sink: &mut S) -> bool {
        let mut any = false;
        for _ in 0..BURST {
            let Some(cell) = self.inbox.peek() else { break };
            any = true;
            let (from, bytes) = (cell.producer, cell.bytes);
            let link = link_of(&mut self.links, from);
            link.cells_in += 1;
            let (mut granted, mut pooled) = (None, None);
            if let Some(got) = decode(bytes) {
                let body = bytes.slice(got.body_at, bytes.len() - got.body_at);
                match dispatch(from, &got, body.len(), body, sink) {
                    Some(Frame::RingGrant { ring }) => granted = Some(ring),
                    Some(Frame::Pooled { pieces }) => {
                        pooled = decode(body).map(|inner| (inner, pieces))
                    }
                    _ => {}
                }
                let message = pooled.map_or(got.frame, |(inner, _)| inner.frame);
                link.matched_in = link.matched_in.wrapping_add(u8::from(message.matches()));
            }
            let hot = link.cells_in >= self.settings.ring_after && link.ring_in.is_none();
            self.inbox.release();
            if let Some((message, pieces)) = pooled {
                self.take_pooled(from, &message, pieces, sink);
            }
            if hot {
                self.consider_ring(from);
            }
            if let Some(ring) = granted {
                self.use_ring(from, ring);
            }
        }
        any
    }

    /// Takes a message that a cold peer has put into its pool (rule 1). The peer is lost if the
    /// pool is unreadable.
    #[cold]
    fn take_pooled<S: FrameSink>(
        &mut self,
        from: u32,
        message: &Received,
        pieces: [(u32, u32); 2],
        sink: &mut S,
    ) {
        let pool = self.contact(from).ok().and_then(|out| out.segment.pool());
        let Some(mut pool) = pool.map(PoolView::new) else { return sink.lost(from) };
        let pieces = pieces.map(|(position, len)| (position, len as usize));
        let [Some(first), Some(rest)] = pieces.map(|(position, len)| pool.bytes(position, len))
        else {
            return sink.lost(from);
        };
        if first.is_empty() {
            return sink.lost(from);
        }
        dispatch(from, message, first.len() + rest.len(), first, sink);
        if !rest.is_empty() {
            sink.more(from, first.len(), rest);
        }
        for (position, len) in pieces {
            if len > 0 {
                pool.free(position, len);
            }
        }
    }

    pub(crate) fn has_section_for(&self, ranks: u32) -> bool {
        let config = &self.own.boot().config;
        config.control_sections > 0 && ranks <= config.control_section_ranks
    }
}
