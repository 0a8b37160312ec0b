//! Shared memory: the default path between processes of one node.
//!
//! Each process has one segment, into which the others write. A *cold* peer leaves its frames in the segment's one
//! inbox; after some messages the receiver grants it a *pair ring* of its own, as long as there are any left. So an idle
//! process polls little, and memory does not grow with the square of the ranks.
//!
//! Rules (beside those of the ring, the inbox and the door in `oxmpi_os`)
//!
//! 1. A frame for a cold peer is in one cell of the inbox, with its body, or, if that is longer, behind word where that lies in the
//!    sender's pool ([`Frame::Pooled`]). Without room there it is announced.
//! 2. The receiver counts the cells of each peer. After `ring_after` of them it takes a free ring and sends
//!    [`Frame::RingGrant`].
//! 3. The sender's first frame in the ring is [`Frame::RingOpen`] with the number of cells that it has put into the inbox.
//!    The receiver lets it lie until it has seen so many: thus nothing in the ring overtakes the inbox, and the sender
//!    never goes back to the inbox.
//! 4. In the ring, eager messages whose context index has 16 bits need no frame: at most 56 bytes lie in their slot,
//!    longer ones in chunks. All others are a frame in a slot of its own, with its body in chunks behind it.
//! 5. Chunks lie in a pool if they are many and it has room (the sender's; the receiver's, of an answer), else in the data
//!    ring. So a receiver maps the peer's segment before it grants a ring.
//! 6. After each publication the sender rings the peer's bell, but after a notice only when it is about to wait for room.
//! 7. An announced message that lies whole in the sender's heap is copied by the receiver alone, from its own mapping of
//!    that heap, which it makes at the first such message. This needs no permission to read the sender's memory.
//! 8. Of two processes that have rings for each other, the one that comes first in the order of jobs and their processes opens the
//!    exchange line between them (rule 14 of the ring).

mod calls;
mod incoming;
mod outgoing;
mod parting;
mod sections;
mod shares;
#[cfg(test)]
mod tests;

use self::incoming::{RingIn, decode};
use self::outgoing::{Out, Path};
use self::parting::Parted;
use self::sections::Sections;
use self::shares::Shares;
use crate::postboxes::Neighbour;
use crate::{Body, Fabric, Message, Sent, SentNow, Sink, Unreachable, dispatch};
use oxmpi_os::barrier::BarrierKind;
use oxmpi_os::bytes::Bytes;
use oxmpi_os::clock;
use oxmpi_os::door::Bell;
use oxmpi_os::inbox::{CELL_PAYLOAD, InboxReceiver};
use oxmpi_os::poller::raise_alarm;
use oxmpi_os::pool::{CopyChoice, Pool, PoolView, SlowCopies};
use oxmpi_os::ring::{INLINE_MAX, RingReceiver, RingSender};
use oxmpi_os::segment::Segment;
use oxmpi_os::single_copy::RemoteProcess;
use oxmpi_wire::{Frame, MAX_FRAME_LEN, Received};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// The longest piece of an announced message, bytes: short enough that others get their turn.
const PIECE: usize = 128 << 10;
/// The same if it is spread, over the larger part of the pool, and there is room: from one to the next a sender
/// takes as long as for 16 KiB.
const SPREAD_PIECES: [usize; 2] = [512 << 10, 256 << 10];

/// A stream counts as over when so many times the limit ([`Settings::past_caches_from`]) was laid in the pool while less was under
/// way: between two windows of messages that is one limit at the end of the first, and at most one at the beginning of the second.
const STREAM_LASTS: u64 = 3;

/// A message that answers one, while nothing else is under way, is eager if it is no longer than so many times the limit:
/// there is no stream of them that would drive itself out of the caches.
const ANSWER_FACTOR: usize = 4;

/// The longest message in bytes that is fetched with a look at its ring, which may find the first of a stream: one of 1 KiB lost
/// a sixth. (For a look for one message alone see `incoming`.)
const FETCHED_FOR_ANY: usize = 512;
/// With more rings than so many nothing is fetched: what their last messages were is not worth the nearest cache.
const FETCHING_RINGS: usize = 8;

/// Messages, and parts of longer ones, taken from one ring before the others get their turn.
const BURST: usize = 32;

/// How this process uses shared memory.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Longest eager message, bytes.
    pub eager_limit: usize,
    /// Messages through the inbox before a peer is granted a ring.
    pub ring_after: u64,
    /// Bytes from which a message goes through the sender's pool.
    pub pool_from: usize,
    /// A plain copy into the pool that takes longer, in nanoseconds per KiB, is slow: the next ones are streamed.
    pub slow_copy_ns_per_kib: u64,
    /// The same of a copy to lines of the pool that are written again soon: the next messages are spread.
    pub slow_copy_in_first_part_ns_per_kib: u64,
    /// The laps of the pool after which it is tried again at most how streams of short messages had better be laid there; 0: never.
    pub trial_laps: u32,
    /// Whether to read other processes' memory.
    pub single_copy: bool,
    /// How long a receiver waits for a part of a long message before it reads one itself, nanoseconds.
    pub patience_ns: u64,
    /// How many bytes of long messages that come at once are stored past the caches.
    pub past_caches_from: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            eager_limit: 256 << 10,
            ring_after: 2,
            pool_from: 1 << 10,
            slow_copy_ns_per_kib: CopyChoice::SLOW_NS_PER_KIB,
            slow_copy_in_first_part_ns_per_kib: CopyChoice::SLOW_NS_PER_KIB_REUSED,
            trial_laps: 2048,
            single_copy: true,
            patience_ns: 50_000,
            past_caches_from: 8 << 20,
        }
    }
}

/// Opens the segment of a process; the error is for a person.
pub type Open = Box<dyn FnMut(u32) -> Result<Opened, String> + Send>;

/// A segment, as it was handed over.
#[derive(Debug)]
pub struct Opened {
    /// Its descriptor.
    pub fd: OwnedFd,
    /// Whose it is, if it belongs to another launcher.
    pub other: Option<Stranger>,
}

/// A process of another launcher, where numbers of processes are others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stranger {
    /// Names all jobs of its launcher.
    pub job: u64,
    /// Its number there.
    pub number: u32,
    /// This process's number there.
    pub known_as: u32,
}

/// Opens the alarm of a process that may sleep on descriptors, if it has one.
pub type OpenAlarm = Arc<dyn Fn(u32) -> Option<OwnedFd> + Send + Sync>;

/// The way of one process to all processes of its node.
pub struct Shm {
    me: u32,
    own: Arc<Segment>,
    kind: BarrierKind,
    settings: Settings,
    /// Longest eager message that travels beside its header, bytes.
    inline_limit: usize,
    /// How long to wait for a part of a long message, ticks.
    patience: u64,
    open: Open,
    /// In a job with sockets.
    open_alarm: Option<OpenAlarm>,
    /// Where the longer messages of this process lie.
    pool: Option<Pool>,
    inbox: InboxReceiver,
    /// By process index; made at first contact.
    links: Vec<Option<Box<Link>>>,
    /// Peers that have a ring in our segment; the place is the ring's number.
    granted: Vec<u32>,
    /// Peers to which a ring shall be granted as soon as there is room to say so.
    grants: VecDeque<(u32, u32)>,
    /// Our own control sections.
    sections: Sections,
    /// Pieces that were streamed into the pools of control sections.
    streamed: Arc<AtomicU64>,
    /// The copies that we share with senders.
    shares: Shares,
    /// Bytes copied from peers' heaps.
    heap_bytes: u64,
    /// Peers that are dead, of which something may not be read yet.
    buried: Vec<u32>,
    /// Processes of other jobs that this one has parted with.
    parted: Box<Parted>,
}

/// What is kept about one peer.
#[derive(Debug, Default)]
struct Link {
    out: Option<Out>,
    /// Frames it has put into our inbox.
    cells_in: u64,
    /// Messages that match, from it, modulo 256.
    matched_in: u8,
    /// The ring in our segment that it was granted.
    ring_in: Option<RingIn>,
    can_read: Option<bool>,
    /// Its heap cannot be mapped.
    is_heap_refused: bool,
}

/// What is kept about a peer; made if there is nothing yet.
#[inline]
fn link_of(links: &mut Vec<Option<Box<Link>>>, peer: u32) -> &mut Link {
    let at = peer as usize;
    if links.len() <= at {
        links.resize_with(at + 1, || None);
    }
    links[at].get_or_insert_default()
}

/// How to send a message of `len` bytes to a peer, if contact was made, and its pool, if they may lie there as an answer.
#[inline(always)]
fn out_and_pool_of(
    links: &mut [Option<Box<Link>>],
    peer: u32,
    len: usize,
) -> Option<(&mut Out, Option<&mut PoolView>)> {
    let Link { out, ring_in, .. } = &mut **links.get_mut(peer as usize)?.as_mut()?;
    let out = out.as_mut()?;
    let theirs = ring_in.as_mut().and_then(|ring| ring.receiver.pool_to_answer(len, out.is_in_turn()));
    Some((out, theirs))
}

/// As [`out_and_pool_of`], for a message that is sent now.
#[inline(always)]
fn sending_to(
    links: &mut [Option<Box<Link>>],
    peer: u32,
    len: usize,
) -> Option<(&mut Out, Option<&mut PoolView>)> {
    let Link { out, matched_in, .. } = &mut **links.get_mut(peer as usize)?.as_mut()?;
    out.as_mut()?.see(*matched_in);
    out_and_pool_of(links, peer, len)
}

/// How to send to a peer, if contact was made.
#[inline(always)]
fn out_of(links: &mut [Option<Box<Link>>], peer: u32) -> Option<&mut Out> {
    links.get_mut(peer as usize)?.as_mut()?.out.as_mut()
}

impl Shm {
    /// Whether there is room in the ring to a peer that was not known of.
    #[cold]
    fn finds_credits(&mut self, to: u32) -> bool {
        match out_of(&mut self.links, to) {
            Some(Out { path: Path::Ring(ring), .. }) => ring.finds_credits(),
            _ => false,
        }
    }

    /// Wakes the receiver of what was sent so, if it sleeps.
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
    /// The way of the process that owns `own`. `open` opens others' segments.
    pub fn new(own: Arc<Segment>, kind: BarrierKind, settings: Settings, open: Open) -> Shm {
        let boot = *own.boot();
        let mut pool = own.pool().map(Pool::new);
        // Where processes take turns on a processor, laps take as long as the turns do.
        if settings.trial_laps > 0 && !boot.oversubscribed {
            pool = pool.map(|pool| pool.with_trials(settings.trial_laps));
        }
        Shm {
            me: boot.rank,
            inbox: InboxReceiver::new(own.inbox()),
            pool,
            own,
            kind,
            inline_limit: settings.eager_limit.min(INLINE_MAX),
            patience: clock::ticks_of_ns(settings.patience_ns),
            settings,
            open,
            open_alarm: None,
            links: Vec::new(),
            granted: Vec::new(),
            grants: VecDeque::new(),
            sections: Sections::new(&boot.config),
            streamed: Arc::default(),
            shares: Shares::default(),
            heap_bytes: 0,
            buried: Vec::new(),
            parted: Box::default(),
        }
    }

    /// The same, to peers that may sleep on descriptors: who rings one raises its alarm.
    #[must_use]
    pub fn with_alarms(self, open: OpenAlarm) -> Shm {
        Shm { open_alarm: Some(open), ..self }
    }

    fn bell_of(&self, peer: u32, segment: &Arc<Segment>) -> Bell {
        let bell = Bell::new(segment, self.kind_with(segment));
        let Some(open) = self.open_alarm.clone() else { return bell };
        // Asked for at the first sleep of the peer's; most are awake whenever somebody rings.
        let alarm = OnceLock::new();
        bell.with_alarm(Arc::new(move || {
            // A request that fails is made again at the next sleep.
            if let Some(alarm) = alarm.get().or_else(|| open(peer).map(|opened| alarm.get_or_init(|| opened)))
            {
                raise_alarm(alarm);
            }
        }))
    }

    /// Changes how this process uses shared memory from now on. What slow copies are stays as it was, and when ways are tried.
    pub fn retune(&mut self, settings: Settings) {
        self.inline_limit = settings.eager_limit.min(INLINE_MAX);
        self.patience = clock::ticks_of_ns(settings.patience_ns);
        let Settings { slow_copy_ns_per_kib, slow_copy_in_first_part_ns_per_kib, trial_laps, .. } =
            self.settings;
        self.settings =
            Settings { slow_copy_ns_per_kib, slow_copy_in_first_part_ns_per_kib, trial_laps, ..settings };
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

    /// Makes contact: maps the peer's segment.
    #[cold]
    fn connect(&mut self, peer: u32) -> Result<&mut Out, Unreachable> {
        let unreachable = |why: String| Unreachable { peer, why };
        let Opened { fd, other } = (self.open)(peer).map_err(unreachable)?;
        let segment = Segment::map(&fd).map_err(|e| unreachable(e.to_string()))?;
        let (own, its) = (self.own.boot(), segment.boot());
        let is_ours = Stranger { job: own.job_id, number: peer, known_as: self.me };
        let Stranger { job, number, known_as } = other.unwrap_or(is_ours);
        if its.job_id != job || its.rank != number {
            return Err(unreachable(format!(
                "its segment says process {} of job {:x}, not process {number} of job {job:x}",
                its.rank, its.job_id
            )));
        }
        let bell = self.bell_of(peer, &segment);
        let opens_exchange = (own.job_id, own.rank) < (its.job_id, its.rank);
        let out = Out::new(segment, bell, known_as, opens_exchange, self.copy_choice());
        Ok(self.link(peer).out.insert(out))
    }

    /// What others need of a peer: contact is made.
    pub(crate) fn neighbour(&mut self, peer: u32) -> Result<Neighbour, Unreachable> {
        if self.out(peer).is_none() {
            self.connect(peer)?;
        }
        match self.out(peer) {
            Some(out) => Ok(Neighbour { segment: out.segment.clone(), bell: out.bell.clone() }),
            None => Err(Unreachable { peer, why: "no contact was made".into() }),
        }
    }

    /// How copies into a pool are made, of which nothing is known yet.
    fn copy_choice(&self) -> CopyChoice {
        let ticks = clock::ticks_of_ns;
        let slow = SlowCopies {
            reused: ticks(self.settings.slow_copy_in_first_part_ns_per_kib),
            anywhere: ticks(self.settings.slow_copy_ns_per_kib),
        };
        CopyChoice::new(slow, CopyChoice::PAUSE)
    }

    /// The barriers between this process and a peer. Those of one launcher use the same; with one of another that has the fence
    /// on both sides so does this process, whose own heavy side is a fence at least.
    fn kind_with(&self, its: &Segment) -> BarrierKind {
        match self.kind {
            BarrierKind::Asymmetric if !its.boot().asymmetric => BarrierKind::Symmetric,
            kind => kind,
        }
    }

    /// The longest body that can go to a peer now, no more than `wanted` being asked for: what the pool takes, if it has
    /// room, and else what the way to the peer takes by itself.
    fn longest_body(&mut self, to: u32, wanted: usize) -> usize {
        let Some(Out { path: Path::Ring(ring), .. }) = out_of(&mut self.links, to) else {
            let in_cell = CELL_PAYLOAD - MAX_FRAME_LEN;
            let Some(pool) = self.pool.as_mut().filter(|_| wanted > in_cell) else { return in_cell };
            // Where one lies that just exceeds the cell, in the larger part of the pool alone, there must be room at any rate; then
            // there is for a block.
            let shape = pool.shape();
            let longest = wanted.min(shape.max_message());
            return if !pool.room_for(in_cell + 1) {
                in_cell
            } else if pool.room_for(longest) {
                longest
            } else {
                longest.min(shape.block_bytes as usize)
            };
        };
        match &mut self.pool {
            Some(pool) if wanted > ring.max_data() => {
                let pooled = wanted.min(ring.max_pooled(&pool.shape()));
                if pooled > ring.max_data() && pool.room_for(pooled) { pooled } else { ring.max_data() }
            }
            _ => ring.max_data(),
        }
    }

    /// Whether a peer is behind, so that a message of `len` bytes had better wait until it asks: where there are more ranks than
    /// processors, and two blocks of the pool or more lie there for the peer, as many as the message takes. When it has a processor
    /// again it finds all of them at once, and what its program does not want yet it has to copy to fresh memory, which takes ten times as
    /// long as to copy. Shorter messages are hardly worth it, and streams of longer ones to posted receives take half as long again
    /// if they are asked for.
    #[inline]
    fn is_behind(&mut self, peer: u32, len: usize) -> bool {
        let Some(pool) = &self.pool else { return false };
        let block = pool.shape().block_bytes as usize;
        (block + 1..=2 * block).contains(&len)
            && self.own.boot().oversubscribed
            && pool.blocks_for(peer) >= 2
            && self.can_read(peer)
    }

    /// Whether a peer can send pieces of a message of `len` bytes that is shared: by its ring, and through its pool.
    fn may_give(&mut self, peer: u32, len: usize) -> bool {
        let slots = self.own.boot().config.ring_slots;
        let Some(Some(link)) = self.links.get(peer as usize) else { return false };
        let (Some(_), Some(out)) = (&link.ring_in, &link.out) else { return false };
        let pool = out.segment.boot().config.pool_shape();
        let by_slots = slots as usize / 2 * pool.block_bytes as usize / 2;
        pool.max_message().min(by_slots) >= len.min(PIECE)
    }

    /// Whether this process may read the peer's memory: found out by a real read between the two.
    fn can_read(&mut self, peer: u32) -> bool {
        if !self.settings.single_copy {
            return false;
        }
        if let Some(known) = self.link(peer).can_read {
            return known;
        }
        if self.out(peer).is_none() && self.connect(peer).is_err() {
            return false;
        }
        let Some(out) = self.out_mut(peer) else { return false };
        let Some(pid) = out.segment.status().pid() else { return false };
        let readable = out.segment.is_readable_in(RemoteProcess { pid });
        out.pid = pid;
        self.link(peer).can_read = Some(readable);
        readable
    }

    /// Whether these bytes lie in the peer's heap, and that is mapped here (rule 7).
    fn is_in_heap(&mut self, peer: u32, address: u64, len: usize) -> bool {
        if self.out(peer).is_none() && self.connect(peer).is_err() {
            return false;
        }
        let Some(Some(link)) = self.links.get_mut(peer as usize) else { return false };
        let Some(Out { segment, .. }) = &link.out else { return false };
        if !segment.is_in_heap(address, len) || link.is_heap_refused {
            return false;
        }
        if !segment.has_heap() {
            let mapped = (self.open)(peer).is_ok_and(|opened| segment.map_heap(opened.fd).is_ok());
            link.is_heap_refused = !mapped;
        }
        !link.is_heap_refused
    }

    /// Sends a frame of the path itself.
    fn send_own(&mut self, to: u32, frame: Frame) -> Result<Sent, Unreachable> {
        self.send(to, &Message { sequence: 0, frame, body: Body::NONE, token: 0 })
    }

    /// Rules 2 and 5.
    fn consider_ring(&mut self, peer: u32) {
        let Some(index) = self.free_ring() else { return };
        if self.out(peer).is_none() && self.connect(peer).is_err() {
            return;
        }
        let kind = self.out(peer).map_or(self.kind, |out| self.kind_with(&out.segment));
        let mut receiver = RingReceiver::new(self.own.ring(index, kind));
        let theirs = self.out(peer).and_then(|out| Some(PoolView::new(out.segment.pool()?, out.known_as)));
        if let Some(pool) = theirs {
            receiver.set_pool(pool);
            receiver.complain_above(clock::ticks_of_ns(self.settings.slow_copy_ns_per_kib));
        }
        if let Some(pool) = &self.pool {
            receiver.set_own_pool(pool.own_view(peer));
        }
        self.link(peer).ring_in = Some(RingIn::new(receiver));
        self.note_ring(index, peer);
        self.grants.push_back((peer, index));
    }

    /// A peer grants us a ring of its segment (rule 3).
    fn use_ring(&mut self, peer: u32, ring: u32) {
        let Some(kind) = self.out(peer).map(|out| self.kind_with(&out.segment)) else { return };
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
    fn poll_rings_and_inbox<S: Sink>(&mut self, except: Option<u32>, sink: &mut S) -> bool {
        let mut any = false;
        let fetched = if self.granted.len() <= FETCHING_RINGS { FETCHED_FOR_ANY } else { 0 };
        for at in 0..self.granted.len() {
            let from = self.granted[at];
            if Some(from) == except {
                continue;
            }
            let Some(Some(link)) = self.links.get_mut(from as usize) else { continue };
            let seen = link.poll(from, fetched, sink);
            any |= seen.any;
            if seen.has_news {
                link.see_release();
            }
            if let Some(granted) = seen.granted {
                self.use_ring(from, granted);
            }
        }
        any |= self.poll_inbox(sink);
        while let Some(&(peer, ring)) = self.grants.front() {
            if self.send_own(peer, Frame::RingGrant { ring }) == Ok(Sent::Full) {
                break;
            }
            // Gone; or the peer cannot be reached, and will not use the ring.
            self.grants.pop_front();
        }
        any
    }

    /// Skips what comes next if one of these, *which must be known to be dead*, has not finished it. Whether it was so.
    pub(crate) fn skip_dead(&mut self, dead: &[u32]) -> bool {
        self.forget_buried();
        let next = self.inbox.claimed_by();
        next.is_some_and(|producer| dead.contains(&producer) && self.inbox.skip_dead(producer))
    }

    /// Gives up what a peer has left, *which must be known to be dead*: what it has not finished, and what was sent to it.
    pub(crate) fn bury(&mut self, peer: u32) {
        while self.inbox.skip_dead(peer) {}
        self.buried.push(peer);
        self.forget_buried();
        self.grants.retain(|(to, _)| *to != peer);
    }

    /// Frees what the pool has for peers that are buried, as soon as all that they have sent is read: answers lie there.
    fn forget_buried(&mut self) {
        let Shm { buried, links, pool: Some(pool), .. } = self else { return };
        buried.retain(|peer| {
            let link = links.get(*peer as usize).and_then(Option::as_ref);
            let is_read =
                link.and_then(|link| link.ring_in.as_ref()).is_none_or(|ring| ring.receiver.is_empty());
            if is_read {
                pool.forget(*peer);
            }
            !is_read
        });
    }

    fn poll_inbox<S: Sink>(&mut self, sink: &mut S) -> bool {
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
                    Some(Frame::Pooled { pieces }) => pooled = decode(body).map(|inner| (inner, pieces)),
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

    /// A message whose body lies in the pool of its sender, a cold peer (rule 1). If that cannot be read the peer is lost.
    #[cold]
    fn take_pooled<S: Sink>(&mut self, from: u32, message: &Received, pieces: [(u32, u32); 2], sink: &mut S) {
        if self.out(from).is_none() && self.connect(from).is_err() {
            return sink.lost(from);
        }
        let pool = self.out(from).and_then(|out| Some(PoolView::new(out.segment.pool()?, out.known_as)));
        let Some(mut pool) = pool else { return sink.lost(from) };
        let pieces = pieces.map(|(position, len)| (position, len as usize));
        let [Some(first), Some(rest)] = pieces.map(|(position, len)| pool.bytes(position, len)) else {
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

    /// Whether segments have control sections for so many ranks.
    pub(crate) fn has_section_for(&self, ranks: u32) -> bool {
        let config = &self.own.boot().config;
        config.control_sections > 0 && ranks <= config.control_section_ranks
    }
}
