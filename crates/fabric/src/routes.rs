//! The transports of one process, and the route to each of its peers.
//!
//! Shared memory is known by its type; the others are `dyn` [`Transport`]. The pure function
//! [`choose`] decides the route to a peer once, at first contact, from the node of the peer and the
//! reach of each transport. It prefers transports through memory for the own job (postboxes), then
//! shared memory, then transports whose polls cost system calls, in the order of their addition.
//!
//! A peer with another route never gets a ring. The fast calls try only the rings, so they return
//! the same for such a peer as for a cold one, and take the same instructions as in a process
//! without other transports.

mod choice;
mod deaths;
mod foreign;
mod nodes;
mod quiesce;

pub use self::choice::{Reach, Route, choose};
pub use self::deaths::AskDeath;
use self::deaths::Deaths;
pub use self::foreign::{Addition, AskAddition};
use self::nodes::PeerNode;
pub use self::nodes::{AskNodes, Nodes};
use self::quiesce::Quiescing;
pub use self::quiesce::{Coordinator, QuiesceStep};
use crate::shm::copy_policy::CopyFacts;
use crate::shm::{self, Shm};
use crate::{
    Announcements, Connected, Counts, Fabric, Fetching, FrameSink, InUse, LastingMemory,
    MatchingTransport, Membership, OneSided, OutgoingMessage, RemoteAccess, Room, Sections, Sent,
    SentNow, Statistics, Taken, Transport, Unreachable,
};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_shm::announcement::{Announcement, Claim, OwnClaim};
use oxmpi_shm::control_section::ControlSection;
use oxmpi_shm::door::Bell;
use oxmpi_shm::segment::Segment;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_sys::memory::Memory;
use oxmpi_sys::poller::Poller;
use oxmpi_wire::Tags;
use std::ops::Range;
use std::sync::Arc;

/// While nothing arrives, there are this many polls of shared memory before a poll of the sockets,
/// which is a system call. While messages arrive through memory, there are [`POLLS`].
const POLLS_IN_VAIN: u32 = 4;
const POLLS: u32 = 64;

#[derive(Debug)]
struct Other {
    transport: Box<dyn Transport>,
    reach: Reach,
}

/// All transports of one process.
pub struct Routes {
    shm: Shm,
    /// The peers whose messages go through shared memory.
    memory: Reach,
    /// Sorted: transports whose polls cost no system call come first.
    others: Vec<Other>,
    /// The number of `others` whose polls cost no system call.
    cheap: usize,
    matching: Option<u8>,
    /// By rank; empty without `others`.
    table: Vec<Option<Route>>,
    /// `None`: all processes are on this node.
    nodes: Option<Nodes>,
    is_on_nodes: bool,
    /// The ranks of the own job that use control sections on their node, whatever their route.
    sections_of: Option<Range<u32>>,
    deaths: Option<Deaths>,
    quiescing: Option<Quiescing>,
    ask_addition: Option<AskAddition>,
    polls: u32,
    /// Whether a check of shared memory alone shows that nothing has arrived and no process has
    /// died.
    can_check_quickly: bool,
    is_shared: bool,
}

impl std::fmt::Debug for Routes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Routes { shm, memory, others, nodes, deaths, .. } = self;
        f.debug_struct("Routes")
            .field("shm", shm)
            .field("memory", memory)
            .field("others", others)
            .field("nodes", nodes)
            .field("deaths", deaths)
            .finish_non_exhaustive()
    }
}

impl Routes {
    /// Routes of a process that shares memory with all its peers.
    pub fn new(shm: Shm) -> Routes {
        Routes {
            shm,
            memory: Reach::Everybody,
            others: Vec::new(),
            cheap: 0,
            matching: None,
            table: Vec::new(),
            nodes: None,
            is_on_nodes: false,
            sections_of: None,
            deaths: None,
            quiescing: None,
            ask_addition: None,
            polls: 0,
            can_check_quickly: true,
            is_shared: false,
        }
    }

    /// Restricts shared memory to the peers in `reach`.
    #[must_use]
    pub fn with_memory(self, reach: Reach) -> Routes {
        Routes { memory: reach, ..self }
    }

    /// Adds a transport for the peers in `reach`.
    #[must_use]
    pub fn with(mut self, transport: Box<dyn Transport>, reach: Reach) -> Routes {
        self.add(transport, reach);
        self
    }

    /// Adds the nodes of the launcher's processes. Without them all processes count as being on
    /// this node. A transport that does not reach other launchers needs them.
    #[must_use]
    pub fn with_nodes(self, nodes: Nodes) -> Routes {
        Routes { nodes: Some(nodes), ..self }
    }

    /// As [`Routes::with_nodes`], for a job on several nodes.
    #[must_use]
    pub fn on_nodes(self, nodes: Nodes) -> Routes {
        Routes { is_on_nodes: true, ..self.with_nodes(nodes) }
    }

    /// Lets the ranks `job` use the control sections of their node although another transport
    /// carries their messages. Their bells raise alarms
    /// ([`PeerSegments::with_alarms`](crate::peer_segments::PeerSegments::with_alarms)). Of a
    /// process of another job it is unknown whether it has an alarm.
    #[must_use]
    pub fn with_sections_of(self, job: Range<u32>) -> Routes {
        Routes { sections_of: Some(job), ..self }
    }

    /// Reports the deaths that the launcher counts in this process's `segment`.
    #[must_use]
    pub fn with_deaths(self, segment: Arc<Segment>, query: AskDeath) -> Routes {
        Routes { deaths: Some(Deaths::new(segment, query)), can_check_quickly: false, ..self }
    }

    /// Lets the launcher quiesce messages by `segment`, if a transport has
    /// [`Connections`](crate::Connections).
    #[must_use]
    pub fn with_coordinator(
        self,
        segment: Arc<Segment>,
        coordinator: Box<dyn Coordinator>,
    ) -> Routes {
        Routes { quiescing: Some(Quiescing::new(segment, coordinator)), ..self }
    }

    fn add(&mut self, transport: Box<dyn Transport>, reach: Reach) {
        let other = Other { transport, reach };
        if other.transport.polls_kernel() {
            self.others.push(other);
        } else {
            debug_assert!(self.table.is_empty(), "routes name the others by their places");
            self.others.insert(self.cheap, other);
            self.cheap += 1;
        }
        self.matching = (0..)
            .zip(&mut self.others)
            .find_map(|(at, other)| other.transport.matching().map(|_| at));
        self.can_check_quickly = false;
    }

    #[inline]
    fn route(&mut self, peer: u32) -> Route {
        if self.others.is_empty() {
            return Route::Memory;
        }
        match self.table.get(peer as usize) {
            Some(Some(route)) => *route,
            _ => self.choose_route(peer),
        }
    }

    #[cold]
    fn choose_route(&mut self, peer: u32) -> Route {
        let place = self.nodes.as_mut().map_or(PeerNode::Here, |nodes| nodes.place(peer));
        let offers =
            self.others.iter().enumerate().filter(|(_, other)| other.transport.reaches(peer));
        let mut offers: Vec<_> =
            offers.map(|(at, other)| (Route::Other(at as u8), other.reach)).collect();
        let cheap = offers.iter().take_while(|(route, _)| self.is_cheap(*route)).count();
        offers.insert(cheap, (Route::Memory, self.memory));
        match choose(place, offers.iter().copied()) {
            Some(route) => {
                self.note(peer, route);
                route
            }
            // The last offer returns the error, unless another transport is added first.
            None => offers.last().map_or(Route::Memory, |(route, _)| *route),
        }
    }

    fn note(&mut self, peer: u32, route: Route) {
        let at = peer as usize;
        if self.table.len() <= at {
            self.table.resize(at + 1, None);
        }
        self.table[at] = Some(route);
    }

    fn is_cheap(&self, route: Route) -> bool {
        matches!(route, Route::Other(at) if usize::from(at) < self.cheap)
    }

    #[inline]
    fn other(&mut self, at: u8) -> &mut dyn Transport {
        &mut *self.others[usize::from(at)].transport
    }

    #[inline]
    fn other_to(&mut self, peer: u32) -> Option<&mut dyn Transport> {
        match self.route(peer) {
            Route::Memory => None,
            Route::Other(at) => Some(self.other(at)),
        }
    }

    /// Whether this process and a peer share memory: by the route or by the node.
    fn shares_memory(&mut self, peer: u32) -> bool {
        if self.memory == Reach::Nobody { self.is_here(peer) } else { self.is_near(peer) }
    }

    /// Whether messages with a peer go through memory.
    #[inline]
    fn is_near(&mut self, peer: u32) -> bool {
        let route = self.route(peer);
        route == Route::Memory || self.is_cheap(route)
    }

    fn is_here(&mut self, peer: u32) -> bool {
        self.nodes.as_mut().is_none_or(|nodes| nodes.place(peer) == PeerNode::Here)
    }

    fn has_sections(&mut self, peer: u32) -> bool {
        let is_in_job = self.sections_of.as_ref().is_some_and(|job| job.contains(&peer));
        is_in_job && self.is_here(peer)
    }

    fn for_all(&mut self, mut action: impl FnMut(&mut dyn Transport) -> bool) -> bool {
        let mut yes = true;
        for other in &mut self.others {
            yes &= action(&mut *other.transport);
        }
        yes
    }

    #[inline]
    fn poll_routes<S: FrameSink>(&mut self, except: Option<u32>, sink: &mut S) -> bool {
        if self.others.is_empty() {
            return self.shm.poll(except, sink);
        }
        let came = self.memory != Reach::Nobody && self.shm.poll(except, sink);
        self.poll_others(except, came, sink)
    }

    /// Polls `others`. `came`: something has arrived through shared memory.
    fn poll_others(
        &mut self,
        except: Option<u32>,
        mut came: bool,
        sink: &mut dyn FrameSink,
    ) -> bool {
        let (cheap, dear) = self.others.split_at_mut(self.cheap);
        for other in &mut *cheap {
            came |= other.transport.poll(except, sink);
        }
        let are_alone = self.memory == Reach::Nobody && cheap.is_empty();
        if dear.is_empty() || !(are_alone || is_poll_due(&mut self.polls, came)) {
            return came;
        }
        if self.quiescing.as_ref().is_some_and(Quiescing::is_requested) {
            self.quiesce(sink);
            return true;
        }
        for other in dear {
            came |= other.transport.poll(except, sink);
        }
        came
    }

    fn poll_all<S: FrameSink>(&mut self, sink: &mut S) -> bool {
        let mut came = self.memory != Reach::Nobody && self.shm.poll(None, sink);
        for other in &mut self.others {
            came |= other.transport.poll(None, sink);
        }
        came
    }

    /// Reports deaths after everything that the dead processes had sent.
    #[cold]
    fn report_deaths<S: FrameSink>(&mut self, sink: &mut S) {
        let Some(deaths) = &mut self.deaths else { return };
        let dead = deaths.take_new();
        // Frames of living processes may wait behind a half-written frame of a dead process.
        for _ in 0..=dead.len() {
            while self.poll_all(sink) {}
            for peer in &dead {
                if let Some(other) = self.other_to(*peer) {
                    other.await_end(*peer, sink);
                    other.remove_failed(*peer);
                }
                if self.is_near(*peer) {
                    self.shm.remove_failed(*peer);
                }
            }
        }
        dead.into_iter().for_each(|peer| sink.lost(peer));
    }

    /// The copy costs and the copy policy of shared memory.
    pub fn copy_facts(&self) -> Arc<CopyFacts> {
        self.shm.copy_facts()
    }

    /// Changes the settings of shared memory, and the eager limit of the sockets in bytes.
    pub fn retune(&mut self, shm: shm::ShmSettings, tcp_eager_limit: usize) {
        self.shm.retune(shm);
        for other in &mut self.others {
            other.transport.set_eager_limit(tcp_eager_limit);
        }
    }
}

/// Whether a poll that costs a system call is due; `polls` counts since the last such poll.
#[inline]
fn is_poll_due(polls: &mut u32, came: bool) -> bool {
    *polls += if came { 1 } else { POLLS / POLLS_IN_VAIN };
    let is_due = *polls >= POLLS;
    if is_due {
        *polls = 0;
    }
    is_due
}

impl Fabric for Routes {
    #[inline]
    fn eager_limit(&mut self, to: u32) -> usize {
        match self.route(to) {
            Route::Memory => self.shm.eager_limit(to),
            Route::Other(at) => self.other(at).limits(to).eager,
        }
    }

    #[inline]
    fn is_eager(&mut self, to: u32, buffer: &UserBuf) -> bool {
        match self.route(to) {
            Route::Memory => self.shm.is_eager(to, buffer),
            Route::Other(at) => buffer.packed_len() <= self.other(at).limits(to).eager,
        }
    }

    fn standard_limit(&mut self, to: u32) -> usize {
        match self.route(to) {
            Route::Memory => self.shm.standard_limit(),
            Route::Other(at) => self.other(at).limits(to).eager,
        }
    }

    #[inline]
    fn announced_limit(&mut self, to: u32) -> usize {
        self.other_to(to).map_or(0, |other| other.limits(to).announced)
    }

    #[inline]
    fn piece_limit(&mut self, to: u32) -> usize {
        match self.route(to) {
            Route::Memory => self.shm.piece_limit(to),
            Route::Other(at) => self.other(at).piece_limit(to),
        }
    }

    fn room_for_piece(&mut self, to: u32, len: usize) -> Room {
        match self.route(to) {
            Route::Memory => self.shm.room_for_piece(to, len),
            Route::Other(at) if len <= self.other(at).piece_limit(to) => Room::Now,
            Route::Other(_) => Room::Never,
        }
    }

    #[inline]
    fn send(&mut self, to: u32, message: &OutgoingMessage<'_>) -> Result<Sent, Unreachable> {
        match self.route(to) {
            Route::Memory => self.shm.send(to, message),
            Route::Other(at) => self.other(at).send(to, message),
        }
    }

    fn is_matched(&mut self, peer: u32) -> bool {
        self.matching.is_some()
            && self
                .other_to(peer)
                .and_then(|other| other.matching())
                .is_some_and(|network| network.matches(peer))
    }

    fn matching(&mut self) -> Option<&mut dyn MatchingTransport> {
        self.other(self.matching?).matching()
    }

    #[inline]
    fn release(&mut self, token: u64) {
        for other in &mut self.others {
            other.transport.release(token);
        }
    }

    #[inline(always)]
    fn send_short_now(&mut self, to: u32, context: u32, tag: i32, bytes: Bytes<'_>) -> SentNow {
        self.shm.send_short_now(to, context, tag, bytes)
    }

    #[inline(always)]
    fn send_now(
        &mut self,
        to: u32,
        context: u32,
        tag: i32,
        sequence: u8,
        bytes: Bytes<'_>,
    ) -> bool {
        match self.route(to) {
            Route::Memory => self.shm.send_now(to, context, tag, bytes),
            // While messages are quiesced, none may leave by this path.
            Route::Other(at) => {
                self.quiescing.is_none()
                    && self.other(at).send_now(to, context, tag, sequence, bytes)
            }
        }
    }

    #[inline(always)]
    fn receive_short_now(
        &mut self,
        from: u32,
        context: u32,
        tags: Tags,
        into: BytesMut<'_>,
    ) -> Taken {
        self.shm.receive_short_now(from, context, tags, into)
    }

    #[inline(always)]
    fn receive_now(&mut self, from: u32, context: u32, tags: Tags, into: BytesMut<'_>) -> Taken {
        match self.route(from) {
            Route::Memory => self.shm.receive_now(from, context, tags, into),
            Route::Other(_) if self.quiescing.is_some() => Taken::Other,
            Route::Other(at) => self.other(at).receive_now(from, context, tags, into),
        }
    }

    #[inline]
    fn poll<S: FrameSink>(&mut self, sink: &mut S) -> bool {
        let came = self.poll_routes(None, sink);
        let Some(deaths) = &self.deaths else { return came };
        if deaths.are_new() {
            self.report_deaths(sink);
            return true;
        }
        if !came && !deaths.dead().is_empty() {
            // A half-written frame may lie behind a frame that a living process has finished only
            // now.
            return self.shm.skip_dead(deaths.dead());
        }
        came
    }

    #[inline]
    fn poll_except<S: FrameSink>(&mut self, peer: u32, sink: &mut S) -> bool {
        // [`Fabric::poll`] reports deaths, after everything that the dead process has sent.
        self.poll_routes(Some(peer), sink)
    }

    #[inline]
    fn poll_peer<S: FrameSink>(&mut self, peer: u32, most: usize, sink: &mut S) -> Option<bool> {
        self.shm.poll_peer(peer, most, sink)
    }

    #[inline(always)]
    fn is_calm(&self) -> bool {
        self.can_check_quickly && self.shm.is_calm()
    }

    #[inline(always)]
    fn comes_soon(&self, from: u32) -> Option<bool> {
        self.shm.comes_soon(from)
    }

    fn share_among_threads(&mut self) {
        self.is_shared = true;
        for other in &mut self.others {
            other.transport.share_among_threads();
        }
    }

    fn poll_all_next(&mut self) {
        self.polls = POLLS;
        for other in &mut self.others {
            other.transport.poll_all_next();
        }
    }

    /// Any transport may wake the process or forbid the sleep, so the next poll is of all.
    fn before_sleep(&mut self) -> bool {
        self.polls = POLLS;
        self.for_all(|other| other.before_sleep())
    }

    fn sleeps_lightly(&self) -> bool {
        self.others.iter().any(|other| other.transport.sleeps_lightly())
    }

    #[inline]
    fn announce_waiting(&mut self, peer: u32) -> bool {
        match self.route(peer) {
            Route::Memory => self.shm.announce_waiting(peer),
            Route::Other(at) => self.other(at).announce_waiting(peer),
        }
    }

    #[inline]
    fn wake(&mut self, peer: u32) {
        if self.is_near(peer) || self.has_sections(peer) {
            self.shm.wake(peer);
        }
    }

    fn has_died(&mut self, peer: u32) -> bool {
        self.deaths.as_mut().is_some_and(|deaths| deaths.has_died(peer))
    }

    fn node(&mut self, peer: u32) -> Option<u32> {
        self.nodes.as_mut().filter(|_| self.is_on_nodes)?.node(peer)
    }

    fn reach_foreign(&mut self) -> Result<Option<Arc<Poller>>, String> {
        self.add_for_foreign()
    }
}

impl Announcements for Routes {
    fn open_announcement(&mut self, to: u32) -> Option<Announcement> {
        match self.route(to) {
            Route::Memory => self.shm.open_announcement(to),
            Route::Other(_) => None,
        }
    }

    fn keep_announcement(&mut self, announcement: Announcement, copy: u64) -> bool {
        self.shm.keep_announcement(announcement, copy)
    }

    fn claim_own(&mut self, announcement: Announcement) -> OwnClaim {
        self.shm.claim_own(announcement)
    }

    fn give(&mut self, announcement: Announcement, given: usize, len: usize) -> bool {
        self.shm.give(announcement, given, len)
    }

    fn stop_giving(&mut self, announcement: Announcement) {
        self.shm.stop_giving(announcement);
    }

    fn has_stopped_giving(&self, from: u32, announcement: Announcement) -> bool {
        self.shm.has_stopped_giving(from, announcement)
    }

    fn take_rest(&mut self, from: u32, announcement: Announcement) -> Option<usize> {
        self.shm.take_rest(from, announcement)
    }

    fn is_waiting(&self, peer: u32) -> bool {
        self.shm.is_waiting(peer)
    }

    fn waits_here(&self) -> bool {
        self.shm.waits_here()
    }

    fn close_announcement(&mut self, announcement: Announcement) {
        self.shm.close_announcement(announcement);
    }

    fn claim(&mut self, from: u32, announcement: Announcement) -> Claim {
        match self.route(from) {
            Route::Memory => self.shm.claim(from, announcement),
            Route::Other(_) => Claim::Gone,
        }
    }
}

impl OneSided for Routes {
    fn fetching(&mut self, from: u32, address: u64, len: usize, is_two_way: bool) -> Fetching {
        match self.route(from) {
            Route::Memory => self.shm.fetching(from, address, len, is_two_way),
            Route::Other(_) => Fetching::Ask,
        }
    }

    fn is_in_reach(&mut self, peer: u32, address: u64, len: usize) -> bool {
        self.route(peer) == Route::Memory && self.shm.is_in_reach(peer, address, len)
    }

    fn can_access(&mut self, peer: u32) -> bool {
        self.is_near(peer) && self.shm.can_read(peer)
    }

    fn read(&mut self, peer: u32, address: u64, into: BytesMut<'_>) -> Result<(), Unreachable> {
        if self.is_near(peer) { self.shm.read(peer, address, into) } else { Err(is_apart(peer)) }
    }

    fn write(&mut self, peer: u32, address: u64, from: Bytes<'_>) -> Result<(), Unreachable> {
        if self.is_near(peer) { self.shm.write(peer, address, from) } else { Err(is_apart(peer)) }
    }

    /// Processes of one node can share memory even if their messages go over sockets.
    fn map_heap(&mut self, peer: u32) -> Option<(u64, Memory)> {
        if self.shares_memory(peer) { self.shm.map_heap(peer) } else { None }
    }

    fn may_write_here(&mut self, peer: u32) -> bool {
        self.shares_memory(peer) && self.shm.may_write_here(peer)
    }

    fn remote_access(&mut self) -> Option<&mut dyn RemoteAccess> {
        self.others.iter_mut().find_map(|other| other.transport.remote_access())
    }

    fn remote_access_to(&mut self, peer: u32) -> Option<&mut dyn RemoteAccess> {
        let Route::Other(at) = self.route(peer) else { return None };
        let access = self.other(at).remote_access()?;
        access.reaches_memory(peer).then_some(access)
    }

    fn lasting_memory(&mut self) -> Option<&mut dyn LastingMemory> {
        self.others.iter_mut().find_map(|other| other.transport.lasting_memory())
    }
}

fn is_apart(peer: u32) -> Unreachable {
    Unreachable { peer, why: "it shares no memory with this process".into() }
}

impl Sections for Routes {
    fn may_share_section(&mut self, ranks: u32, mut peers: impl Iterator<Item = u32>) -> bool {
        let are_near = self.others.is_empty()
            || peers.all(|peer| self.is_near(peer) || self.has_sections(peer));
        are_near && self.shm.has_section_for(ranks)
    }

    fn control_section(
        &mut self,
        leader: u32,
        index: u32,
        ranks: u32,
    ) -> Result<Option<ControlSection>, Unreachable> {
        if self.is_near(leader) || self.has_sections(leader) {
            return self.shm.control_section(leader, index, ranks);
        }
        Ok(None)
    }

    fn reserve_control_sections(&mut self) -> Option<(u32, u64)> {
        let are_used = self.memory != Reach::Nobody || self.sections_of.is_some();
        are_used.then(|| self.shm.reserve_control_sections())?
    }

    fn release_control_section(&mut self, index: u32, team: Option<u32>) {
        self.shm.release_control_section(index, team);
    }

    fn bell(&mut self, peer: u32) -> Option<Bell> {
        if self.is_near(peer) { self.shm.bell(peer) } else { None }
    }

    #[inline]
    fn is_away(&self, peer: u32) -> bool {
        self.shm.is_away(peer)
    }
}

impl Membership for Routes {
    fn has_left(&mut self, peer: u32) -> bool {
        match self.route(peer) {
            Route::Memory => self.shm.has_left(peer),
            Route::Other(at) => self.other(at).has_left(peer),
        }
    }

    fn has_ended(&mut self, peer: u32) -> bool {
        match self.route(peer) {
            Route::Memory => self.shm.has_ended(peer),
            Route::Other(at) => self.other(at).has_ended(peer),
        }
    }

    fn attach(&mut self, peer: u32) {
        match self.route(peer) {
            Route::Memory => self.shm.attach(peer),
            Route::Other(at) => self.other(at).attach(peer),
        }
    }

    fn settle(&mut self, peer: u32) -> bool {
        self.other_to(peer).is_none_or(|other| other.settle(peer))
    }

    fn detach(&mut self, peer: u32) {
        match self.route(peer) {
            Route::Memory => self.shm.detach(peer),
            Route::Other(at) => self.other(at).detach(peer),
        }
    }

    /// If the job continues after failures, an unreachable peer counts as dead.
    fn lost_messages(&mut self) -> Option<String> {
        if self.deaths.is_some() {
            return None;
        }
        self.others.iter_mut().find_map(|other| other.transport.lost_messages())
    }

    fn leave(&mut self) -> bool {
        self.for_all(|other| other.leave())
    }

    fn rest(&mut self) -> bool {
        self.for_all(|other| other.rest())
    }
}

impl Statistics for Routes {
    fn count(&mut self, counts: &mut Counts) {
        let has_memory = self.memory != Reach::Nobody || self.cheap > 0;
        if has_memory {
            self.shm.count(counts);
        }
        for other in &mut self.others {
            other.transport.count(counts);
        }
        counts.paths = match (has_memory, self.cheap < self.others.len()) {
            (true, true) => InUse::Both,
            (true, false) => InUse::Memory,
            (false, _) => InUse::Sockets,
        };
    }

    fn watch_connections(&mut self, watch: bool) {
        for other in &mut self.others {
            other.transport.watch_connections(watch);
        }
    }

    fn take_connections(&mut self) -> (Vec<Connected>, u64) {
        let (mut all, mut missed) = (Vec::new(), 0);
        for other in &mut self.others {
            let (connections, more) = other.transport.take_connections();
            all.extend(connections);
            missed += more;
        }
        (all, missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_polled_first_after_a_sleep() {
        let mut polls = 0;
        for _ in 0..3 {
            assert!(
                !is_poll_due(&mut polls, true),
                "other things come, and polls of sockets are rare"
            );
            polls = POLLS;
            assert!(is_poll_due(&mut polls, false));
        }
    }
}
