//! The ways of a process of a job: shared memory, or sockets, or memory to the peers of its node and sockets to all others;
//! in place of sockets the daemons. Memory is rings and inboxes, or, to the peers of the own job, postboxes.
//!
//! One type has all, so that there is one library. A peer that is reached over sockets or by a postbox is never granted a ring,
//! so the fast ways may ask rings alone: they say no, as to a cold peer. They are the same instructions as without the others.

mod beside;
mod both;
mod choice;
mod far;
mod others;
mod quiesce;
mod strangers;

use self::beside::Beside;
pub use self::choice::Far;
use self::far::Sockets;
pub use self::far::{AskNodes, Nodes};
use self::others::{Others, Way};
use self::quiesce::Quiescing;
pub use self::quiesce::{Coordinator, Step};
pub use self::strangers::{AskWay, Way as StrangersWay};
use crate::postboxes::Postboxes;
use crate::shm::copy_policy::CopyFacts;
use crate::shm::{self, Shm};
use crate::{Connected, Counts, Fabric, Fetching, Message, Sent, SentNow, Sink, Taken, Unreachable};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_shm::announcement::{Announcement, Claim};
use oxmpi_shm::control_section::ControlSection;
use oxmpi_shm::door::Bell;
use oxmpi_shm::segment::Segment;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_sys::memory::Memory;
use oxmpi_sys::poller::Poller;
use oxmpi_wire::Tags;
use std::collections::VecDeque;
use std::sync::Arc;

/// All ways of one process.
pub struct Ways {
    shm: Shm,
    others: Option<Box<Others>>,
    obituaries: Option<Obituaries>,
    beside: Option<Beside>,
    ask_way: Option<AskWay>,
    /// A short look at the rings and the inbox shows whether there is anything: there are no other ways and no obituaries.
    looks_are_short: bool,
    /// Several threads may call.
    is_shared: bool,
}

impl std::fmt::Debug for Ways {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ways { shm, others, obituaries, beside, .. } = self;
        f.debug_struct("Ways")
            .field("shm", shm)
            .field("others", others)
            .field("obituaries", obituaries)
            .field("beside", beside)
            .finish_non_exhaustive()
    }
}

/// Who has died, by its place in the order of deaths; `None` if the launcher does not say.
pub type Who = Box<dyn FnMut(u32) -> Option<u32> + Send>;

/// How this process hears of deaths: the launcher counts them in the process's segment, and says who they were.
struct Obituaries {
    segment: Arc<Segment>,
    who: Who,
    /// How many deaths have been told.
    heard: u32,
    /// Of whom.
    dead: Vec<u32>,
    /// Processes whose deaths were queried before they were delivered, in the order of deaths.
    ahead: VecDeque<Option<u32>>,
}

impl Obituaries {
    /// Who has died since the last time.
    fn new_dead(&mut self) -> Vec<u32> {
        let mut dead = Vec::new();
        while self.heard != self.segment.status().deaths() {
            // A launcher that does not answer has ended, and so will this process.
            dead.extend(self.ahead.pop_front().unwrap_or_else(|| (self.who)(self.heard)));
            self.heard = self.heard.wrapping_add(1);
        }
        self.dead.extend(&dead);
        dead
    }

    /// Whether a process has died, as far as the launcher counts, of which nothing is told by that.
    fn has_died(&mut self, peer: u32) -> bool {
        let deaths = self.segment.status().deaths().wrapping_sub(self.heard);
        while (self.ahead.len() as u32) < deaths {
            let next = self.heard.wrapping_add(self.ahead.len() as u32);
            self.ahead.push_back((self.who)(next));
        }
        self.dead.contains(&peer) || self.ahead.contains(&Some(peer))
    }
}

impl std::fmt::Debug for Obituaries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Obituaries").field("heard", &self.heard).finish_non_exhaustive()
    }
}

impl Ways {
    /// The ways of a process: sockets or its daemon if it has them, else shared memory.
    pub fn new(shm: Shm, far: Option<Far>) -> Ways {
        let looks_are_short = far.is_none();
        let sockets = far.map(|far| Sockets::new(far, None));
        let others = sockets.map(|sockets| Box::new(Others { sockets: Some(sockets), postboxes: None }));
        Ways { shm, others, obituaries: None, beside: None, ask_way: None, looks_are_short, is_shared: false }
    }

    /// The ways of a process of a job on several nodes: shared memory in its own, sockets to the others.
    pub fn of_nodes(shm: Shm, far: Far, nodes: Nodes) -> Ways {
        let others = Others { sockets: Some(Sockets::new(far, Some(nodes))), postboxes: None };
        let others = Some(Box::new(others));
        Ways {
            shm,
            others,
            obituaries: None,
            beside: None,
            ask_way: None,
            looks_are_short: false,
            is_shared: false,
        }
    }

    /// The same, with postboxes as the way to the peers of the own job on the own node.
    #[must_use]
    pub fn with_postboxes(mut self, postboxes: Postboxes) -> Ways {
        self.others.get_or_insert_default().postboxes = Some(postboxes);
        Ways { looks_are_short: false, ..self }
    }

    /// The same, which know on which nodes processes are, and go over sockets to those of the own node all the same.
    #[must_use]
    pub fn knowing(mut self, nodes: Nodes) -> Ways {
        if let Some(sockets) = self.sockets() {
            sockets.know(nodes);
        }
        self
    }

    fn sockets(&mut self) -> Option<&mut Sockets> {
        self.others.as_mut()?.sockets.as_mut()
    }

    /// The sockets, if they are the way to this peer.
    #[inline]
    fn far(&mut self, peer: u32) -> Option<&mut Far> {
        self.others.as_mut()?.far(peer)
    }

    /// The way to a peer.
    #[inline]
    fn way(&mut self, peer: u32) -> Way<'_> {
        match &mut self.others {
            None => Way::Shm(&mut self.shm),
            Some(others) => others.way(peer, &mut self.shm),
        }
    }

    /// Whether there are peers to which memory is the way.
    fn has_near(&self) -> bool {
        let sockets = self.others.as_ref().and_then(|others| others.sockets.as_ref());
        sockets.is_none_or(|sockets| sockets.nodes().is_some())
    }

    /// The same, which also hear of the deaths that the launcher counts in this process's `segment`.
    #[must_use]
    pub fn with_obituaries(self, segment: Arc<Segment>, who: Who) -> Ways {
        let obituaries =
            Some(Obituaries { segment, who, heard: 0, dead: Vec::new(), ahead: VecDeque::new() });
        Ways { obituaries, looks_are_short: false, ..self }
    }

    /// The same, whose messages stand still when the launcher asks for it in this process's `segment`. Only over sockets.
    #[must_use]
    pub fn with_coordinator(mut self, segment: Arc<Segment>, coordinator: Box<dyn Coordinator>) -> Ways {
        if let Some(sockets) = self.sockets() {
            sockets.quiescing = Some(Quiescing::new(segment, coordinator));
        }
        self
    }

    #[inline]
    fn poll_ways<S: Sink>(&mut self, except: Option<u32>, sink: &mut S) -> bool {
        match (&mut self.others, except) {
            (None, None) => self.shm.poll(sink),
            (None, Some(peer)) => self.shm.poll_except(peer, sink),
            (Some(others), except) => others.poll(&mut self.shm, except, sink),
        }
    }

    /// As [`Ways::poll_ways`], at everything for sure.
    fn poll_all<S: Sink>(&mut self, sink: &mut S) -> bool {
        let near = self.has_near() && self.shm.poll(sink);
        self.others.as_mut().is_some_and(|others| others.poll_all(&mut self.shm, sink)) || near
    }

    /// Whether there are deaths to tell.
    #[inline(always)]
    fn is_in_mourning(&self) -> bool {
        match &self.obituaries {
            None => false,
            Some(Obituaries { segment, heard, .. }) => segment.status().deaths() != *heard,
        }
    }

    /// Tells of the deaths, after everything that the dead had sent.
    #[cold]
    fn mourn<S: Sink>(&mut self, sink: &mut S) {
        let Some(obituaries) = &mut self.obituaries else { return };
        let dead = obituaries.new_dead();
        // Behind what a dead process has left half done others may wait, and behind these more of its own.
        for _ in 0..=dead.len() {
            while self.poll_all(sink) {}
            for peer in &dead {
                self.far(*peer).into_iter().for_each(|far| far.await_end(*peer, sink));
                match self.way(*peer) {
                    Way::Shm(shm) => shm.bury(*peer),
                    Way::Far(far) => far.bury(*peer),
                    Way::Postboxes(postboxes) => {
                        postboxes.bury(*peer);
                        self.shm.bury(*peer);
                    }
                }
            }
        }
        dead.into_iter().for_each(|peer| sink.lost(peer));
    }

    /// What copies through shared memory cost.
    pub fn copy_facts(&self) -> Arc<CopyFacts> {
        self.shm.copy_facts()
    }

    /// Changes how the ways are used from now on: that through shared memory, and the longest eager message over sockets in
    /// bytes.
    pub fn retune(&mut self, shm: shm::Settings, tcp_eager_limit: usize) {
        self.shm.retune(shm);
        if let Some(sockets) = self.sockets() {
            sockets.far.set_eager_limit(tcp_eager_limit);
        }
    }
}

/// A call of the way to a peer, whichever that is.
macro_rules! by_way {
    ($ways:ident, $peer:expr, $way:ident => $call:expr) => {
        match $ways.way($peer) {
            Way::Shm($way) => $call,
            Way::Far($way) => $call,
            Way::Postboxes($way) => $call,
        }
    };
}

impl Fabric for Ways {
    #[inline]
    fn eager_limit(&mut self, to: u32) -> usize {
        by_way!(self, to, way => way.eager_limit(to))
    }

    #[inline]
    fn is_eager(&mut self, to: u32, buffer: &UserBuf) -> bool {
        by_way!(self, to, way => way.is_eager(to, buffer))
    }

    #[inline]
    fn announced_limit(&mut self, to: u32) -> usize {
        by_way!(self, to, way => way.announced_limit(to))
    }

    #[inline]
    fn piece_limit(&mut self, to: u32) -> usize {
        by_way!(self, to, way => way.piece_limit(to))
    }

    #[inline]
    fn send(&mut self, to: u32, message: &Message<'_>) -> Result<Sent, Unreachable> {
        match &mut self.others {
            None => self.shm.send(to, message),
            Some(others) => others.send(&mut self.shm, to, message, None),
        }
    }

    #[inline]
    fn send_piece(
        &mut self,
        to: u32,
        message: &Message<'_>,
        buffer: &UserBuf,
        offset: usize,
    ) -> Result<Sent, Unreachable> {
        by_way!(self, to, way => way.send_piece(to, message, buffer, offset))
    }

    #[inline]
    fn send_whole(&mut self, to: u32, message: &Message<'_>, buffer: &UserBuf) -> Result<Sent, Unreachable> {
        match &mut self.others {
            None => self.shm.send(to, message),
            Some(others) => others.send(&mut self.shm, to, message, Some(buffer)),
        }
    }

    #[inline]
    fn release(&mut self, token: u64) {
        if let Some(sockets) = self.sockets() {
            sockets.far.release(token);
        }
    }

    #[inline(always)]
    fn send_short_now(&mut self, to: u32, context: u32, tag: i32, bytes: Bytes<'_>) -> SentNow {
        self.shm.send_short_now(to, context, tag, bytes)
    }

    #[inline(always)]
    fn send_now(&mut self, to: u32, context: u32, tag: i32, sequence: u8, bytes: Bytes<'_>) -> bool {
        match &mut self.others {
            None => self.shm.send_now(to, context, tag, sequence, bytes),
            Some(others) => match others.straight(to) {
                Some(sockets) => sockets.send_now(to, (context, tag, sequence), bytes),
                None => self.shm.send_now(to, context, tag, sequence, bytes),
            },
        }
    }

    #[inline(always)]
    fn receive_short_now(&mut self, from: u32, context: u32, tags: Tags, into: BytesMut<'_>) -> Taken {
        self.shm.receive_short_now(from, context, tags, into)
    }

    #[inline(always)]
    fn receive_now(&mut self, from: u32, context: u32, tags: Tags, into: BytesMut<'_>) -> Taken {
        match &mut self.others {
            None => self.shm.receive_now(from, context, tags, into),
            Some(others) => match others.straight(from) {
                Some(sockets) => sockets.receive_now(from, context, tags, into),
                None => self.shm.receive_now(from, context, tags, into),
            },
        }
    }

    #[inline]
    fn poll<S: Sink>(&mut self, sink: &mut S) -> bool {
        let came = self.poll_ways(None, sink);
        if self.is_in_mourning() {
            self.mourn(sink);
            return true;
        }
        if let Some(Obituaries { dead, .. }) = &self.obituaries
            && !came
            && !dead.is_empty()
        {
            // What the dead have left half done may lie behind something that a living one had not finished by then.
            return self.shm.skip_dead(dead);
        }
        came
    }

    fn before_sleep(&mut self) -> bool {
        self.sockets().is_none_or(Sockets::before_sleep)
    }

    fn share_among_threads(&mut self) {
        self.is_shared = true;
        if let Some(sockets) = self.sockets() {
            sockets.far.share_among_threads();
        }
    }

    #[inline]
    fn poll_except<S: Sink>(&mut self, peer: u32, sink: &mut S) -> bool {
        // Deaths are told by a look at everything: all that the dead has sent comes first.
        self.poll_ways(Some(peer), sink)
    }

    #[inline]
    fn poll_peer<S: Sink>(&mut self, peer: u32, most: usize, sink: &mut S) -> Option<bool> {
        self.shm.poll_peer(peer, most, sink)
    }

    #[inline(always)]
    fn is_calm(&self) -> bool {
        self.looks_are_short && self.shm.is_calm()
    }

    #[inline(always)]
    fn comes_soon(&self, from: u32) -> Option<bool> {
        self.shm.comes_soon(from)
    }

    fn standard_limit(&mut self, to: u32) -> usize {
        by_way!(self, to, way => way.standard_limit(to))
    }

    fn open_announcement(&mut self, to: u32) -> Option<Announcement> {
        by_way!(self, to, way => way.open_announcement(to))
    }

    fn keep_announcement(&mut self, announcement: Announcement, copy: u64) -> bool {
        self.shm.keep_announcement(announcement, copy)
    }

    fn claim_own(&mut self, announcement: Announcement) -> bool {
        self.shm.claim_own(announcement)
    }

    fn decline(&mut self, announcement: Announcement) {
        self.shm.decline(announcement);
    }

    fn is_declined(&self, from: u32, announcement: Announcement) -> bool {
        self.shm.is_declined(from, announcement)
    }

    fn is_waiting(&self, peer: u32) -> bool {
        self.shm.is_waiting(peer)
    }

    fn close_announcement(&mut self, announcement: Announcement) {
        self.shm.close_announcement(announcement);
    }

    fn claim(&mut self, from: u32, announcement: Announcement) -> Claim {
        by_way!(self, from, way => way.claim(from, announcement))
    }

    fn has_room(&mut self, to: u32, len: usize) -> bool {
        by_way!(self, to, way => way.has_room(to, len))
    }

    fn is_in_reach(&mut self, peer: u32, address: u64, len: usize) -> bool {
        by_way!(self, peer, way => way.is_in_reach(peer, address, len))
    }

    fn fetching(&mut self, from: u32, address: u64, len: usize) -> Fetching {
        by_way!(self, from, way => way.fetching(from, address, len))
    }

    fn read(&mut self, peer: u32, address: u64, into: BytesMut<'_>) -> Result<(), Unreachable> {
        match self.far(peer) {
            None => self.shm.read(peer, address, into),
            Some(tcp) => tcp.read(peer, address, into),
        }
    }

    fn can_access(&mut self, peer: u32) -> bool {
        self.far(peer).is_none() && self.shm.can_access(peer)
    }

    fn write(&mut self, peer: u32, address: u64, from: Bytes<'_>) -> Result<(), Unreachable> {
        match self.far(peer) {
            None => self.shm.write(peer, address, from),
            Some(tcp) => tcp.write(peer, address, from),
        }
    }

    /// Processes of one node can share memory also if they send messages over sockets.
    fn map_heap(&mut self, peer: u32) -> Option<(u64, Memory)> {
        if self.has_near() && self.far(peer).is_some() {
            return None;
        }
        self.shm.map_heap(peer)
    }

    fn may_write_here(&mut self, peer: u32) -> bool {
        if self.has_near() && self.far(peer).is_some() {
            return false;
        }
        self.shm.may_write_here(peer)
    }

    fn may_share_section(&mut self, ranks: u32, mut peers: impl Iterator<Item = u32>) -> bool {
        let is_near =
            self.sockets().is_none() || peers.all(|peer| self.far(peer).is_none() || self.is_beside(peer));
        is_near && self.shm.has_section_for(ranks)
    }

    fn node(&mut self, peer: u32) -> Option<u32> {
        self.sockets()?.node(peer)
    }

    #[inline]
    fn is_away(&self, peer: u32) -> bool {
        self.shm.is_away(peer)
    }

    fn bell(&mut self, peer: u32) -> Option<Bell> {
        match self.far(peer) {
            None => self.shm.bell(peer),
            Some(tcp) => tcp.bell(peer),
        }
    }

    fn control_section(
        &mut self,
        leader: u32,
        index: u32,
        ranks: u32,
    ) -> Result<Option<ControlSection>, Unreachable> {
        if self.is_beside(leader) {
            return self.shm.control_section(leader, index, ranks);
        }
        match self.far(leader) {
            None => self.shm.control_section(leader, index, ranks),
            Some(tcp) => tcp.control_section(leader, index, ranks),
        }
    }

    fn reserve_control_sections(&mut self) -> Option<(u32, u64)> {
        (self.has_near() || self.beside.is_some()).then(|| self.shm.reserve_control_sections())?
    }

    fn release_control_section(&mut self, index: u32, team: Option<u32>) {
        self.shm.release_control_section(index, team);
    }

    fn reach_strangers(&mut self) -> Result<Option<Arc<Poller>>, String> {
        self.ask_for_strangers()
    }

    fn attach(&mut self, peer: u32) {
        match self.far(peer) {
            None => self.shm.attach(peer),
            Some(tcp) => tcp.attach(peer),
        }
    }

    fn settle(&mut self, peer: u32) -> bool {
        match self.far(peer) {
            None => self.shm.settle(peer),
            Some(tcp) => tcp.settle(peer),
        }
    }

    fn detach(&mut self, peer: u32) {
        match self.far(peer) {
            None => self.shm.detach(peer),
            Some(tcp) => tcp.detach(peer),
        }
    }

    fn leave(&mut self) -> bool {
        let near = !self.has_near() || self.shm.leave();
        self.others.as_mut().is_none_or(|others| others.leave()) && near
    }

    fn rest(&mut self) -> bool {
        let near = !self.has_near() || self.shm.rest();
        self.others.as_mut().is_none_or(|others| others.rest()) && near
    }

    fn counts(&mut self) -> Counts {
        match &mut self.others {
            None => self.shm.counts(),
            Some(others) => others.counts(&mut self.shm),
        }
    }

    fn watch_connections(&mut self, watch: bool) {
        if let Some(sockets) = self.sockets() {
            sockets.far.watch_connections(watch);
        }
    }

    fn take_connections(&mut self) -> (Vec<Connected>, u64) {
        match self.sockets() {
            None => self.shm.take_connections(),
            Some(sockets) => sockets.far.take_connections(),
        }
    }

    #[inline]
    fn wake(&mut self, peer: u32) {
        if self.is_beside(peer) {
            return self.shm.wake(peer);
        }
        match self.far(peer) {
            None => self.shm.wake(peer),
            Some(tcp) => tcp.wake(peer),
        }
    }

    fn has_died(&mut self, peer: u32) -> bool {
        self.obituaries.as_mut().is_some_and(|obituaries| obituaries.has_died(peer))
    }

    fn has_left(&mut self, peer: u32) -> bool {
        match self.way(peer) {
            Way::Shm(shm) => shm.has_left(peer),
            Way::Far(tcp) => tcp.has_left(peer),
            Way::Postboxes(postboxes) => postboxes.has_left(peer),
        }
    }

    #[inline]
    fn announce_waiting(&mut self, peer: u32) -> bool {
        let survives = self.obituaries.is_some();
        match self.way(peer) {
            Way::Shm(shm) => shm.announce_waiting(peer),
            Way::Far(tcp) => tcp.announce_waiting(peer),
            // Where failures are survived a peer may end, and empty its postbox no more, with a notice on the way to it.
            Way::Postboxes(postboxes) => postboxes.announce_waiting(peer) && !survives,
        }
    }

    fn sleeps_lightly(&self) -> bool {
        let postboxes = self.others.as_ref().and_then(|others| others.postboxes.as_ref());
        self.obituaries.is_some() && postboxes.is_some_and(|postboxes| !postboxes.is_finished())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_shm::segment::{Boot, SegmentConfig};

    /// Who asks early hears no other deaths, and each once, than who waits to be told.
    #[test]
    fn a_death_can_be_asked_for_before_it_is_told() {
        let config = SegmentConfig { heap_bytes: 0, ..SegmentConfig::default() };
        let created = Segment::create(&Boot { config, ..Boot::on_one_node(3, 0, 8) }).unwrap();
        let segment = Segment::map(created).unwrap();
        let order = [5, 2, 7, 3];
        let mut asked = 0;
        // Of one of them the launcher does not say who it was.
        let who = move |number| {
            assert_eq!(number, asked, "each is asked for once");
            asked += 1;
            Some(order[number as usize]).filter(|dead| *dead != 7)
        };
        let mut obituaries = Obituaries {
            segment: segment.clone(),
            who: Box::new(who),
            heard: 0,
            dead: Vec::new(),
            ahead: VecDeque::new(),
        };
        assert!(!obituaries.has_died(5) && obituaries.new_dead().is_empty());
        segment.status().note_death();
        assert!(obituaries.has_died(5) && !obituaries.has_died(2));
        segment.status().note_death();
        segment.status().note_death();
        assert!(obituaries.has_died(2) && obituaries.has_died(5) && !obituaries.has_died(7));
        segment.status().note_death();
        assert_eq!(obituaries.new_dead(), [5, 2, 3]);
        assert_eq!((obituaries.heard, obituaries.ahead.len()), (4, 0));
        assert!(obituaries.has_died(2) && obituaries.has_died(3) && !obituaries.has_died(7));
        assert_eq!(obituaries.new_dead(), [0; 0]);
    }
}
