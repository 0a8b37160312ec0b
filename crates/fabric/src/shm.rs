//! Shared memory: the default path between processes of one node.
//!
//! Each process has one segment, into which the others write. A *cold* peer leaves its frames in the segment's one
//! inbox; after some messages the receiver grants it a *pair ring* of its own, as long as there are any left. So an idle
//! process polls little, and memory does not grow with the square of the ranks.
//!
//! Rules (beside those of the ring, the inbox and the door in `oxmpi_os`)
//!
//! 1. A frame for a cold peer, with its body, fits one cell of the inbox; what is longer is announced.
//! 2. The receiver counts the cells of each peer. After `ring_after` of them it takes a free ring and sends
//!    [`Frame::RingGrant`].
//! 3. The sender's first frame in the ring is [`Frame::RingOpen`] with the number of cells that it has put into the inbox.
//!    The receiver lets it lie until it has seen so many: thus nothing in the ring overtakes the inbox, and the sender
//!    never goes back to the inbox.
//! 4. In the ring, messages of at most 56 bytes whose context index has 16 bits lie in their slot; longer ones
//!    in the data ring, by chunks. The context number 0xffff says that a frame stands before the data, and the tag
//!    then is its length.
//! 5. After each publication the sender rings the peer's bell.

mod sections;

use self::sections::Sections;
use crate::{Body, Fabric, Message, Sent, Sink, Taken, Unreachable, dispatch};
use oxmpi_os::barrier::BarrierKind;
use oxmpi_os::bytes::{Bytes, BytesMut};
use oxmpi_os::control_section::ControlSection;
use oxmpi_os::door::Bell;
use oxmpi_os::inbox::{CELL_PAYLOAD, InboxReceiver, InboxSender};
use oxmpi_os::ring::{INLINE_MAX, RingReceiver, RingSender, Slot};
use oxmpi_os::segment::Segment;
use oxmpi_os::single_copy::RemoteProcess;
use oxmpi_wire::{Context, Envelope, Frame, MAX_FRAME_LEN, Received};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The context number that says: a frame stands before the data (rule 4).
const FRAMED: u16 = u16::MAX;

/// Slots taken from one ring before the others get their turn.
const BURST: usize = 32;

/// How this process uses shared memory.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Longest eager message to a peer with a ring, bytes.
    pub eager_limit: usize,
    /// Messages through the inbox before a peer is granted a ring.
    pub ring_after: u64,
    /// Whether to read other processes' memory.
    pub single_copy: bool,
}

/// Opens the segment of a process of this job; the error is for a person.
pub type Open = Box<dyn FnMut(u32) -> Result<OwnedFd, String> + Send>;

/// The way of one process to all processes of its node.
pub struct Shm {
    me: u32,
    own: Arc<Segment>,
    kind: BarrierKind,
    settings: Settings,
    /// Longest eager message that travels beside its header, bytes.
    inline_limit: usize,
    open: Open,
    inbox: InboxReceiver,
    /// By process index; made at first contact.
    links: Vec<Option<Box<Link>>>,
    /// Peers that have a ring in our segment; the place is the ring's number.
    granted: Vec<u32>,
    /// Peers to which a ring shall be granted as soon as there is room to say so.
    grants: VecDeque<(u32, u32)>,
    /// Our own control sections.
    sections: Sections,
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
}

/// How to send to a peer.
#[derive(Debug)]
struct Out {
    segment: Arc<Segment>,
    bell: Bell,
    path: Path,
    /// Frames we have put into its inbox.
    cells: u64,
    /// Its process number, once it is known that its memory may be read.
    pid: u32,
}

#[derive(Debug)]
enum Path {
    Inbox(InboxSender),
    Ring(RingSender),
}

/// A ring in our segment, from one peer.
#[derive(Debug)]
struct RingIn {
    receiver: RingReceiver,
    /// Length of the frame before the data that are coming in chunks (rule 4).
    frame_len: usize,
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
        Shm {
            me: boot.rank,
            inbox: InboxReceiver::new(own.inbox()),
            own,
            kind,
            inline_limit: settings.eager_limit.min(INLINE_MAX),
            settings,
            open,
            links: Vec::new(),
            granted: Vec::new(),
            grants: VecDeque::new(),
            sections: Sections::new(&boot.config),
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
        self.links.get_mut(peer as usize)?.as_mut()?.out.as_mut()
    }

    /// Makes contact: maps the peer's segment.
    #[cold]
    fn connect(&mut self, peer: u32) -> Result<&mut Out, Unreachable> {
        let unreachable = |why: String| Unreachable { peer, why };
        let fd = (self.open)(peer).map_err(unreachable)?;
        let segment = Segment::map(&fd).map_err(|e| unreachable(e.to_string()))?;
        let (own, its) = (self.own.boot(), segment.boot());
        if its.job_id != own.job_id || its.rank != peer {
            return Err(unreachable(format!(
                "its segment says process {} of job {:x}, not process {peer} of job {:x}",
                its.rank, its.job_id, own.job_id
            )));
        }
        let out = Out {
            bell: Bell::new(&segment, self.kind),
            path: Path::Inbox(InboxSender::new(segment.inbox())),
            cells: 0,
            pid: 0,
            segment,
        };
        Ok(self.link(peer).out.insert(out))
    }

    /// Sends a frame of the path itself.
    fn send_own(&mut self, to: u32, frame: Frame) -> Result<Sent, Unreachable> {
        self.send(to, &Message { sequence: 0, frame, body: Body::NONE, token: 0 })
    }

    /// Rule 2.
    fn consider_ring(&mut self, peer: u32) {
        let index = self.granted.len() as u32;
        if index >= self.own.boot().config.max_rings {
            return;
        }
        let receiver = RingReceiver::new(self.own.ring(index, self.kind));
        self.link(peer).ring_in = Some(RingIn { receiver, frame_len: 0 });
        self.granted.push(peer);
        self.grants.push_back((peer, index));
    }

    /// A peer grants us a ring of its segment (rule 3).
    fn use_ring(&mut self, peer: u32, ring: u32) {
        let kind = self.kind;
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
        for at in 0..self.granted.len() {
            let from = self.granted[at];
            if Some(from) == except {
                continue;
            }
            let Some(Some(link)) = self.links.get_mut(from as usize) else { continue };
            let seen = link.poll(from, sink);
            any |= seen.any;
            if seen.credits_wanted
                && let Some(out) = self.out(from)
            {
                out.bell.ring();
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

    fn poll_inbox<S: Sink>(&mut self, sink: &mut S) -> bool {
        let mut any = false;
        for _ in 0..BURST {
            let Some(cell) = self.inbox.peek() else { break };
            any = true;
            let (from, bytes) = (cell.producer, cell.bytes);
            let link = link_of(&mut self.links, from);
            link.cells_in += 1;
            let mut own = None;
            if let Some(got) = decode(bytes) {
                link.matched_in = link.matched_in.wrapping_add(u8::from(got.frame.matches()));
                let body = bytes.slice(got.body_at, bytes.len() - got.body_at);
                own = dispatch(from, &got, body.len(), body, sink);
            }
            let hot = link.cells_in >= self.settings.ring_after && link.ring_in.is_none();
            self.inbox.release();
            if hot {
                self.consider_ring(from);
            }
            if let Some(Frame::RingGrant { ring }) = own {
                self.use_ring(from, ring);
            }
        }
        any
    }
}

/// Reads a frame from shared memory: copied first, because its writer could still change it.
#[inline]
fn decode(bytes: Bytes<'_>) -> Option<Received> {
    let mut copy = [0; MAX_FRAME_LEN];
    let len = bytes.len().min(MAX_FRAME_LEN);
    bytes.slice(0, len).copy_to(BytesMut::from(&mut copy[..len]));
    Frame::decode(&copy[..len]).ok()
}

impl Link {
    /// Hands up what lies in the ring of this peer, `from`.
    #[inline]
    fn poll<S: Sink>(&mut self, from: u32, sink: &mut S) -> Seen {
        let mut seen = Seen::default();
        let Link { ring_in: Some(RingIn { receiver, frame_len }), matched_in, cells_in, .. } = self else {
            return seen;
        };
        for _ in 0..BURST {
            let Some(slot) = receiver.peek() else { break };
            match slot {
                Slot::Inline { tag, context, bytes } => {
                    let envelope = Envelope { context: Context::Local(u32::from(context)), tag };
                    sink.eager(from, count(matched_in), envelope, bytes.len(), bytes);
                }
                Slot::Chunk { tag, context, total, offset, bytes } => {
                    if offset > 0 {
                        sink.more(from, offset - *frame_len, bytes);
                    } else if context == FRAMED {
                        *frame_len = (tag.max(0) as usize).min(bytes.len());
                        if let Some(got) = decode(bytes.slice(0, *frame_len)) {
                            let first = bytes.slice(*frame_len, bytes.len() - *frame_len);
                            dispatch(from, &numbered(matched_in, got), total - *frame_len, first, sink);
                        }
                    } else {
                        *frame_len = 0;
                        let envelope = Envelope { context: Context::Local(u32::from(context)), tag };
                        sink.eager(from, count(matched_in), envelope, total, bytes);
                    }
                }
                Slot::Frame { bytes } => {
                    if let Some(got) = decode(bytes) {
                        if let Frame::RingOpen { cells } = got.frame
                            && *cells_in < cells
                        {
                            break;
                        }
                        let body = bytes.slice(got.body_at, bytes.len() - got.body_at);
                        let own = dispatch(from, &numbered(matched_in, got), body.len(), body, sink);
                        if let Some(Frame::RingGrant { ring }) = own {
                            seen.granted = Some(ring);
                        }
                    }
                }
            }
            seen.any = true;
            seen.credits_wanted |= receiver.release();
        }
        seen
    }

    /// Takes the message that lies in the ring, or begins with what lies there, into `into`, if it is of this context
    /// and tag and fits.
    fn take(&mut self, context: u32, tag: Option<i32>, mut into: BytesMut<'_>) -> (Taken, bool) {
        let Some(RingIn { receiver, frame_len }) = &mut self.ring_in else { return (Taken::Other, false) };
        let (its_tag, total, mut stored) = match receiver.peek() {
            None => return (Taken::Nothing, false),
            // A frame, or a chunk of a message that has begun to come to somebody else.
            Some(Slot::Frame { .. } | Slot::Chunk { offset: 1.., .. }) => return (Taken::Other, false),
            Some(
                Slot::Inline { tag: its_tag, context: its_context, .. }
                | Slot::Chunk { tag: its_tag, context: its_context, .. },
            ) if u32::from(its_context) != context
                || its_context == FRAMED
                || tag.is_some_and(|tag| tag != its_tag) =>
            {
                return (Taken::Other, false);
            }
            Some(Slot::Inline { tag, bytes, .. }) => {
                if !bytes.copy_if_it_fits(into.reborrow()) {
                    return (Taken::Other, false);
                }
                (tag, bytes.len(), bytes.len())
            }
            Some(Slot::Chunk { tag, total, bytes, .. }) => {
                if total > into.len() {
                    return (Taken::Other, false);
                }
                bytes.copy_to(into.slice(0, bytes.len()));
                (tag, total, bytes.len())
            }
        };
        *frame_len = 0;
        self.matched_in = self.matched_in.wrapping_add(1);
        let mut credits_wanted = receiver.release();
        // The sender publishes all chunks of a message in a row, so the next one is a copy away, unless the sender has
        // lost its processor.
        let mut patience = PATIENCE;
        while stored < total {
            let Some(Slot::Chunk { offset, bytes, .. }) = receiver.peek() else {
                if patience == 0 {
                    return (Taken::Begun { tag: its_tag, total, stored }, credits_wanted);
                }
                patience -= 1;
                std::hint::spin_loop();
                continue;
            };
            bytes.copy_to(into.slice(offset, bytes.len()));
            stored += bytes.len();
            credits_wanted |= receiver.release();
            patience = PATIENCE;
        }
        (Taken::Message { tag: its_tag, len: total }, credits_wanted)
    }
}

/// How many looks for the next chunk of a message that has begun before others get their turn.
const PATIENCE: u32 = 200;

/// Counts a message that matches: its number modulo 256.
#[inline(always)]
fn count(matched_in: &mut u8) -> u8 {
    let sequence = *matched_in;
    *matched_in = sequence.wrapping_add(1);
    sequence
}

/// Gives a frame that matches its number: in a ring it is not on the wire.
fn numbered(matched_in: &mut u8, got: Received) -> Received {
    if got.frame.matches() { Received { sequence: count(matched_in), ..got } } else { got }
}

/// What one look into a ring has shown.
#[derive(Default)]
struct Seen {
    any: bool,
    /// The sender waits for credits and has got some.
    credits_wanted: bool,
    /// The sender grants us a ring.
    granted: Option<u32>,
}

impl Out {
    fn send(&mut self, me: u32, message: &Message<'_>) -> bool {
        let len = message.body.len();
        let gone = match &mut self.path {
            Path::Inbox(inbox) => {
                let mut frame = [0; MAX_FRAME_LEN];
                let frame_len = message.frame.encode(message.sequence, me, &mut frame);
                let gone = inbox.try_send(me, frame_len + len, |mut cell| {
                    Bytes::from(&frame[..frame_len]).copy_to(cell.slice(0, frame_len));
                    message.body.fill(0, cell.slice(frame_len, len));
                });
                self.cells += u64::from(gone);
                gone
            }
            Path::Ring(ring) => match message.frame {
                Frame::Eager { envelope: Envelope { context: Context::Local(index), tag } }
                    if index < u32::from(FRAMED) =>
                {
                    let index = index as u16;
                    match message.body {
                        Body::Bytes(bytes) if len <= INLINE_MAX => ring.try_send_inline(tag, index, bytes),
                        _ if len <= INLINE_MAX => {
                            let mut packed = [0; INLINE_MAX];
                            message.body.fill(0, BytesMut::from(&mut packed[..len]));
                            ring.try_send_inline(tag, index, Bytes::from(&packed[..len]))
                        }
                        _ => ring.try_send_data(tag, index, len, |at, chunk| message.body.fill(at, chunk)),
                    }
                }
                frame => send_framed(ring, frame, &message.body, message.sequence, me),
            },
        };
        if gone {
            self.bell.ring();
        }
        gone
    }
}

/// A frame with its body in a ring (rule 4).
fn send_framed(ring: &mut RingSender, frame: Frame, body: &Body<'_>, sequence: u8, me: u32) -> bool {
    let mut bytes = [0; MAX_FRAME_LEN];
    let frame_len = frame.encode(sequence, me, &mut bytes);
    let len = body.len();
    if frame_len + len <= INLINE_MAX {
        body.fill(0, BytesMut::from(&mut bytes[frame_len..frame_len + len]));
        return ring.try_send_frame(Bytes::from(&bytes[..frame_len + len]));
    }
    ring.try_send_data(frame_len as i32, FRAMED, frame_len + len, |at, mut chunk| {
        // The frame lies in the first chunk: chunks are longer than frames.
        let frame_part = frame_len.saturating_sub(at);
        if frame_part > 0 {
            Bytes::from(&bytes[..frame_len]).copy_to(chunk.slice(0, frame_part));
        }
        let data = chunk.len() - frame_part;
        body.fill(at + frame_part - frame_len, chunk.slice(frame_part, data));
    })
}

impl Fabric for Shm {
    #[inline]
    fn eager_limit(&self, to: u32) -> usize {
        match self.out(to) {
            Some(Out { path: Path::Ring(ring), .. }) => {
                self.settings.eager_limit.min(ring.max_data() - MAX_FRAME_LEN)
            }
            _ => self.settings.eager_limit.min(CELL_PAYLOAD - MAX_FRAME_LEN),
        }
    }

    fn piece_limit(&self, to: u32) -> usize {
        match self.out(to) {
            Some(Out { path: Path::Ring(ring), .. }) => ring.max_data() - MAX_FRAME_LEN,
            _ => CELL_PAYLOAD - MAX_FRAME_LEN,
        }
    }

    fn send(&mut self, to: u32, message: &Message<'_>) -> Result<Sent, Unreachable> {
        let me = self.me;
        let out = match self.links.get_mut(to as usize) {
            Some(Some(link)) if link.out.is_some() => link.out.as_mut(),
            _ => None,
        };
        let gone = match out {
            Some(out) => out.send(me, message),
            None => self.connect(to)?.send(me, message),
        };
        Ok(if gone { Sent::Done } else { Sent::Full })
    }

    #[inline(always)]
    fn send_short_now(&mut self, to: u32, context: u32, tag: i32, bytes: Bytes<'_>) -> bool {
        let limit = self.inline_limit;
        let Some(Out { path: Path::Ring(ring), bell, .. }) = self.out_mut(to) else { return false };
        if context >= u32::from(FRAMED) || bytes.len() > limit {
            return false;
        }
        let gone = ring.try_send_inline(tag, context as u16, bytes);
        if gone {
            bell.ring();
        }
        gone
    }

    fn send_now(&mut self, to: u32, context: u32, tag: i32, bytes: Bytes<'_>) -> bool {
        if bytes.len() <= INLINE_MAX {
            return self.send_short_now(to, context, tag, bytes);
        }
        let limit = self.settings.eager_limit;
        let Some(Out { path: Path::Ring(ring), bell, .. }) = self.out_mut(to) else { return false };
        if context >= u32::from(FRAMED) || bytes.len() > limit.min(ring.max_data()) {
            return false;
        }
        let gone = ring.try_send_data(tag, context as u16, bytes.len(), |at, chunk| {
            bytes.slice(at, chunk.len()).copy_to(chunk)
        });
        if gone {
            bell.ring();
        }
        gone
    }

    #[inline(always)]
    fn receive_short_now(&mut self, from: u32, context: u32, tag: Option<i32>, into: BytesMut<'_>) -> Taken {
        let Some(Some(link)) = self.links.get_mut(from as usize) else { return Taken::Other };
        let Some(RingIn { receiver, .. }) = &mut link.ring_in else { return Taken::Other };
        let Some((its_tag, its_context, bytes)) = receiver.peek_inline() else { return Taken::Other };
        let len = bytes.len();
        if u32::from(its_context) != context || tag.is_some_and(|tag| tag != its_tag) {
            return Taken::Other;
        }
        if !bytes.copy_if_it_fits(into) {
            return Taken::Other;
        }
        link.matched_in = link.matched_in.wrapping_add(1);
        if receiver.release() {
            self.wake(from);
        }
        Taken::Message { tag: its_tag, len }
    }

    fn receive_now(&mut self, from: u32, context: u32, tag: Option<i32>, into: BytesMut<'_>) -> Taken {
        let Some(Some(link)) = self.links.get_mut(from as usize) else { return Taken::Other };
        let (taken, credits_wanted) = link.take(context, tag, into);
        if credits_wanted {
            self.wake(from);
        }
        taken
    }

    #[inline]
    fn poll<S: Sink>(&mut self, sink: &mut S) -> bool {
        self.poll_rings_and_inbox(None, sink)
    }

    fn poll_except<S: Sink>(&mut self, peer: u32, sink: &mut S) -> bool {
        self.poll_rings_and_inbox(Some(peer), sink)
    }

    #[inline(always)]
    fn is_calm(&self) -> bool {
        for from in &self.granted {
            if let Some(Some(link)) = self.links.get(*from as usize)
                && let Some(ring) = &link.ring_in
                && !ring.receiver.is_empty()
            {
                return false;
            }
        }
        self.inbox.is_empty() && self.grants.is_empty()
    }

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

    fn read(&mut self, peer: u32, address: u64, into: BytesMut<'_>) -> Result<(), Unreachable> {
        let Some(out) = self.out(peer) else {
            return Err(Unreachable { peer, why: "no contact was made yet".into() });
        };
        RemoteProcess { pid: out.pid }
            .read(address, into)
            .map_err(|e| Unreachable { peer, why: format!("reading its memory at {address:#x} failed: {e}") })
    }

    fn control_section(
        &mut self,
        leader: u32,
        index: u32,
        ranks: u32,
    ) -> Result<Option<ControlSection>, Unreachable> {
        let kind = self.kind;
        let segment = if leader == self.me {
            &self.own
        } else {
            if self.out(leader).is_none() {
                self.connect(leader)?;
            }
            match self.out(leader) {
                Some(out) => &out.segment,
                None => return Ok(None),
            }
        };
        let config = &segment.boot().config;
        let there = index < config.control_sections && ranks <= config.control_section_ranks;
        Ok(there.then(|| segment.control_section(index, ranks, kind)))
    }

    fn reserve_control_section(&mut self, ranks: u32) -> Option<(u32, u64)> {
        self.sections.reserve(&self.own, ranks, self.kind)
    }

    fn release_control_section(&mut self, index: u32, team: Option<u32>) {
        self.sections.release(index, team);
    }

    fn wake(&mut self, peer: u32) {
        if self.out(peer).is_none() && self.connect(peer).is_err() {
            return;
        }
        if let Some(out) = self.out(peer) {
            out.bell.ring();
        }
    }

    fn announce_waiting(&mut self, peer: u32) -> bool {
        match self.out_mut(peer) {
            Some(Out { path: Path::Ring(ring), .. }) => !ring.want_credits(),
            // Many may wait for one inbox; it does not know whom to wake.
            _ => false,
        }
    }
}
