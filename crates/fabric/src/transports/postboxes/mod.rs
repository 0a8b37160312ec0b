//! Postboxes: the modules usysv and sysv of the components guide, for the processes of one job on
//! one node.
//!
//! The processes share one segment (`oxmpi_shm::postbox`), in which each ordered pair has a
//! postbox. S, the most bytes of data in a postbox, is the module's parameter for short messages.
//!
//! Rules (besides those of the postboxes)
//!
//! 1. All frames of a pair go through its postbox, in order. An eager message has at most 2S bytes
//!    of data, and goes in one packet or two. Data that find no room are copied, and leave when the
//!    receiver has emptied the postbox ([`Sent::Later`]).
//! 2. A longer message is announced with its first S bytes. When the receiver has requested it, the
//!    rest goes in pieces of at most `max_alloc` bytes through the pool, from which the receiver
//!    copies.
//! 3. If the pool has no room, or its lock is taken for too long, a piece of at most S bytes goes
//!    through the postbox.
//! 4. A sender rings the receiver's bell after each post. A receiver that empties a postbox rings a
//!    waiting sender.
//! 5. A sender that finds the postbox full polls it `write_polls` times, and then pauses once.
//!    Until it has posted something it does not pause again: it waits for a ring, like any process.
//!    It waits in the same way for the lock of the pool.

mod incoming;
mod module;
mod outgoing;

use self::incoming::PostboxIn;
use self::outgoing::PostboxOut;
use crate::peer_segments::{PeerSegment, PeerSegments};
use crate::{
    Counts, FrameSink, Limits, Membership, OutgoingMessage, Sent, Statistics, Transport,
    Unreachable,
};
use oxmpi_shm::postbox::PostboxArea;
use oxmpi_shm::segment::RankState;
use oxmpi_sys::pause::Pause;
use oxmpi_sys::semaphore::Semaphore;
use oxmpi_wire::Frame;

/// The settings of the postboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostboxSettings {
    /// The most bytes of the pool for one piece of a long message.
    pub max_alloc: usize,
    /// The number of polls of a sender before it pauses.
    pub write_polls: u32,
    pub pause: Pause,
    /// Whether a process sleeps for the lock of the pool (sysv) or polls it (usysv).
    pub sleeps: bool,
    pub lock: Option<Semaphore>,
    /// Whether the job survives failures: a notice may wait in the postbox of an ended peer.
    pub survives: bool,
}

/// The transport of one process to the other processes of its job on its node.
#[derive(Debug)]
pub struct Postboxes {
    members: Vec<u32>,
    place: u32,
    area: PostboxArea,
    peer_segments: PeerSegments,
    settings: PostboxSettings,
    /// By place; `None` at the own place.
    peers: Vec<Option<PostboxPeer>>,
    /// The places of peers to which copied data have not left.
    unfinished: Vec<usize>,
    gone: Vec<u64>,
    counters: PostboxCounts,
}

#[derive(Debug)]
struct PostboxPeer {
    number: u32,
    out: PostboxOut,
    incoming: PostboxIn,
    segment_of_peer: Option<PeerSegment>,
    /// The peer gets a ring as soon as its segment is mapped.
    is_to_be_rung: bool,
    is_dead: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PostboxCounts {
    pooled_pieces: u64,
    boxed_pieces: u64,
    pauses: u64,
}

impl Postboxes {
    /// The transport of process `me` through `area` to `members`: all processes of its job on its
    /// node, `me` included, in rising order. Fails with a text for the user if `area` is not for
    /// these members.
    pub fn new(
        me: u32,
        members: Vec<u32>,
        (area, peer_segments): (PostboxArea, PeerSegments),
        settings: PostboxSettings,
    ) -> Result<Postboxes, String> {
        let place = members.iter().position(|member| *member == me);
        let ranks = area.shape().ranks;
        let (Some(place), true) = (place, members.len() == ranks as usize && members.is_sorted())
        else {
            return Err(format!(
                "the shared segment is for {ranks} processes, and those of process {me}'s node are {members:?}"
            ));
        };
        let own = place as u32;
        let peer = |(at, number): (u32, &u32)| {
            (at != own).then(|| PostboxPeer {
                number: *number,
                out: PostboxOut::new(area.sender(own, at)),
                incoming: PostboxIn::new(area.receiver(at, own)),
                segment_of_peer: None,
                is_to_be_rung: false,
                is_dead: false,
            })
        };
        let peers = (0..).zip(&members).map(peer).collect();
        let (unfinished, gone, counters) = (Vec::new(), Vec::new(), PostboxCounts::default());
        Ok(Postboxes {
            place: own,
            members,
            area,
            peer_segments,
            settings,
            peers,
            unfinished,
            gone,
            counters,
        })
    }

    #[inline]
    fn place_of(&self, peer: u32) -> Option<usize> {
        let first = *self.members.first()?;
        let at = peer.wrapping_sub(first) as usize;
        // In most jobs the ranks of a node are consecutive.
        if self.members.get(at) == Some(&peer) {
            Some(at)
        } else {
            self.members.binary_search(&peer).ok()
        }
    }

    #[inline]
    fn peer_mut(&mut self, number: u32) -> Option<&mut PostboxPeer> {
        let at = self.place_of(number)?;
        self.peers.get_mut(at)?.as_mut()
    }

    #[inline]
    fn meet(&mut self, number: u32) -> Result<(), Unreachable> {
        match self.peer_mut(number) {
            Some(PostboxPeer { segment_of_peer: None, .. }) => self.connect(number),
            _ => Ok(()),
        }
    }

    #[cold]
    fn connect(&mut self, number: u32) -> Result<(), Unreachable> {
        let segment_of_peer = self.peer_segments.connect(number)?;
        if let Some(peer) = self.peer_mut(number) {
            if std::mem::take(&mut peer.is_to_be_rung) {
                segment_of_peer.bell.ring();
            }
            peer.segment_of_peer = Some(segment_of_peer);
        }
        Ok(())
    }

    /// Rings peers whose segments could not be mapped before.
    fn ring_unmet(&mut self) {
        for at in 0..self.peers.len() {
            let Some(PostboxPeer { number, is_to_be_rung: true, .. }) = self.peers[at] else {
                continue;
            };
            if self.connect(number).is_err()
                && let Some(peer) = &mut self.peers[at]
            {
                peer.is_to_be_rung = false;
            }
        }
    }

    fn finish(&mut self) {
        let Postboxes { unfinished, peers, gone, .. } = self;
        unfinished.retain(|at| {
            let Some(Some(peer)) = peers.get_mut(*at) else { return false };
            let left = peer.out.flush();
            if left.has_posted {
                peer.ring();
            }
            gone.extend(left.token);
            if left.is_unfinished && peer.is_over() {
                gone.extend(peer.out.drop_rest());
                return false;
            }
            left.is_unfinished
        });
    }

    fn is_finished(&self) -> bool {
        self.unfinished.is_empty()
    }
}

impl PostboxPeer {
    fn ring(&mut self) {
        match &self.segment_of_peer {
            Some(segment_of_peer) => segment_of_peer.bell.ring(),
            None => self.is_to_be_rung = true,
        }
    }

    /// A finalized program gets only late notices, which it does not take out of a full postbox.
    fn is_over(&self) -> bool {
        let is_over = |segment_of_peer: &PeerSegment| {
            segment_of_peer.segment.status().state() == RankState::Finalized
        };
        self.is_dead || self.segment_of_peer.as_ref().is_some_and(is_over)
    }
}

fn unknown(peer: u32) -> Unreachable {
    Unreachable { peer, why: "it has no postbox in the shared segment of this node".into() }
}

impl Transport for Postboxes {
    fn name(&self) -> &'static str {
        if self.settings.sleeps { "sysv" } else { "usysv" }
    }

    fn polls_kernel(&self) -> bool {
        false
    }

    /// Processes of other jobs have no postboxes here, and no process has one for itself.
    fn reaches(&self, peer: u32) -> bool {
        self.place_of(peer).is_some_and(|at| at != self.place as usize)
    }

    #[inline]
    fn limits(&self, _to: u32) -> Limits {
        let short = self.area.shape().short as usize;
        Limits { eager: 2 * short, announced: short }
    }

    fn piece_limit(&mut self, to: u32) -> usize {
        let (short, most) = (self.area.shape().short as usize, self.settings.max_alloc);
        let shuns_pool = self.peer_mut(to).is_none_or(|peer| peer.out.shuns_pool);
        match if shuns_pool { 0 } else { self.area.room(most) } {
            // If the pool is nearly full, a piece that fits into the postbox does not use it.
            room if room < most.min(short) => short,
            0 => short,
            room => room,
        }
    }

    fn send(&mut self, to: u32, message: &OutgoingMessage<'_>) -> Result<Sent, Unreachable> {
        self.meet(to)?;
        let Some(at) = self.place_of(to) else { return Err(unknown(to)) };
        let (me, place) = (self.members[self.place as usize], self.place);
        let Postboxes { peers, area, settings, counters, gone, unfinished, .. } = self;
        let Some(Some(peer)) = peers.get_mut(at) else { return Err(unknown(to)) };
        let left = peer.out.flush();
        gone.extend(left.token);
        let mut has_posted = left.has_posted;
        let sent = if left.is_unfinished || !peer.out.wait(settings, counters) {
            Sent::Full
        } else {
            let sent = match message.frame {
                Frame::Data { .. } => {
                    peer.out.send_piece(me, message, (area, place), settings, counters)
                }
                _ => peer.out.send(me, message),
            };
            has_posted |= sent != Sent::Full;
            sent
        };
        if sent == Sent::Later && !unfinished.contains(&at) {
            unfinished.push(at);
        }
        if has_posted {
            peer.ring();
        }
        Ok(if sent == Sent::Full && peer.is_over() { Sent::Done } else { sent })
    }

    fn poll(&mut self, _except: Option<u32>, sink: &mut dyn FrameSink) -> bool {
        let mut any = false;
        for peer in self.peers.iter_mut().flatten() {
            let PostboxPeer { number, incoming, .. } = peer;
            let seen = incoming.poll(*number, &self.area, sink);
            any |= seen.any;
            if seen.sender_waits {
                peer.ring();
            }
        }
        if !self.unfinished.is_empty() {
            self.finish();
        }
        for token in self.gone.drain(..) {
            any = true;
            sink.sent(token);
        }
        if any {
            self.ring_unmet();
        }
        any
    }

    fn sleeps_lightly(&self) -> bool {
        self.settings.survives && !self.is_finished()
    }

    fn announce_waiting(&mut self, peer: u32) -> bool {
        let survives = self.settings.survives;
        self.peer_mut(peer).is_some_and(|peer| peer.out.want_room()) && !survives
    }
}

impl Membership for Postboxes {
    fn has_left(&mut self, peer: u32) -> bool {
        let segment_of_peer = self.peer_mut(peer).and_then(|peer| peer.segment_of_peer.as_ref());
        segment_of_peer.is_some_and(|segment_of_peer| segment_of_peer.segment.status().has_left())
    }

    fn has_ended(&mut self, peer: u32) -> bool {
        let segment_of_peer = self.peer_mut(peer).and_then(|peer| peer.segment_of_peer.as_ref());
        segment_of_peer.is_some_and(|segment_of_peer| {
            segment_of_peer.segment.status().state() == RankState::Finalized
        })
    }

    fn leave(&mut self) -> bool {
        self.is_finished()
    }

    fn rest(&mut self) -> bool {
        self.is_finished()
    }

    /// If the peer held the lock of the pool, frees the lock. Drops the data that the peer has not
    /// taken.
    fn remove_failed(&mut self, number: u32) {
        let Some(at) = self.place_of(number) else { return };
        self.area.break_lock(at as u32);
        let Some(Some(peer)) = self.peers.get_mut(at) else { return };
        peer.is_dead = true;
        let PostboxPeer { out, .. } = peer;
        self.gone.extend(out.give_up());
        self.unfinished.retain(|other| *other != at);
    }
}

impl Statistics for Postboxes {
    fn count(&mut self, counts: &mut Counts) {
        let PostboxCounts { pooled_pieces, boxed_pieces, pauses } = self.counters;
        counts.postbox_bytes += self.area.shape().bytes();
        counts.postbox_pool_bytes += self.area.shape().pool;
        counts.postbox_pool_used += self.area.taken();
        counts.pooled_pieces += pooled_pieces;
        counts.boxed_pieces += boxed_pieces;
        counts.pauses += pauses;
    }
}
