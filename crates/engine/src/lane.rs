//! A lane and its operations: sends ([`send`]), receives ([`receive`]), and messages that the
//! network matches ([`tagged`]).

mod cancel;
mod failure;
mod finalizing;
mod keep;
mod receive;
mod send;
mod tagged;

use self::tagged::Unposted;
use crate::arrive::{Copies, Fetch, LaneState, Spare, Todo};
use crate::counts::Tally;
use crate::matching::{Contexts, UNKNOWN};
use crate::notes::NoteQueue;
use crate::request::{
    Completion, Fault, NO_CONTEXT, Received, RequestId, RequestLookup, Requests, Work,
};
use crate::team::{RankMap, Team};
pub use failure::TeamNotice;
pub use keep::CopiedSends;
use oxmpi_fabric::Fabric;
use oxmpi_wire::ContextId;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The number of short messages on the fast path after which everything is polled.
const POLL_EVERY: i32 = 64;

/// Enough polls to take in everything in inboxes and rings. The limit holds even if a peer sends
/// without pause.
const LAST_POLLS: usize = 1 << 12;

/// One matching domain of one process.
#[derive(Debug)]
pub struct Lane<F> {
    fabric: F,
    pub(crate) state: LaneState,
    busy: Vec<u32>,
    /// Whether more of a backlog could leave at once, because the last flush only ended its share.
    restless: bool,
    /// Whether a peer in `busy` does not know yet that messages wait for room.
    unannounced: bool,
    keepable: Vec<RequestId>,
    /// Unfinished announced messages that were pulled, or will be pulled if their senders wait.
    pulled: Vec<PulledMessage>,
    until_poll: i32,
    keeps_hopeless: bool,
    /// Receives that wait for room in the network, or until their peer is met, in order.
    unposted: Vec<Unposted>,
}

#[derive(Debug)]
struct PulledMessage {
    fetch: Fetch,
    is_pulled: bool,
    /// Polls without news after which the receiver reads the message itself.
    polls: u32,
}

/// The result of [`Lane::receive_now`].
#[derive(Clone, Copy, Debug)]
pub enum Now {
    Received(Received),
    /// The beginning of the message is in the buffer; the request completes with the rest.
    Begun(RequestId),
    NotYet,
    /// This path cannot serve the receive: use [`Lane::start_receive`].
    NeverSo,
}

/// The result of [`Lane::receive_plain`].
#[derive(Clone, Copy, Debug)]
pub enum StartedReceive {
    Waits(RequestId),
    /// The receive has taken its message without a poll.
    Taken(RequestId),
}

/// Whether the process may sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// Until a peer rings.
    Long,
    /// For a short time: a peer without room cannot report when there is room.
    Short,
    Not,
}

impl<F: Fabric> Lane<F> {
    /// The lane of process `me`, without contexts.
    pub fn new(me: u32, mut fabric: F) -> Lane<F> {
        let state = LaneState {
            me,
            peers: Vec::new(),
            contexts: Contexts::default(),
            requests: Requests::new(),
            todo: VecDeque::new(),
            lost: Vec::new(),
            nonsense: 0,
            spare: Spare::default(),
            copies: Copies::default(),
            notices: VecDeque::new(),
            alarm: false,
            tally: Tally::default(),
            notes: NoteQueue::default(),
            has_sent_all: false,
            ends: false,
            last_requests: Vec::new(),
            last_messages: HashMap::new(),
            is_matching: fabric.matching().is_some(),
            last_tagged: fabric.matching().map_or(u32::MAX, |network| network.last_context()),
        };
        Lane {
            fabric,
            state,
            busy: Vec::new(),
            restless: false,
            unannounced: false,
            keepable: Vec::new(),
            pulled: Vec::new(),
            until_poll: POLL_EVERY,
            keeps_hopeless: false,
            unposted: Vec::new(),
        }
    }

    /// The fabric below.
    pub fn fabric(&self) -> &F {
        &self.fabric
    }

    /// The fabric below, mutable.
    pub fn fabric_mut(&mut self) -> &mut F {
        &mut self.fabric
    }

    /// Opens the pair of contexts of a communicator. The first pair is the world's
    /// ([`WORLD`](crate::WORLD)). With `symmetric`, all processes open the pair with the same
    /// indices (world and self, which are opened first); otherwise the processes learn each other's
    /// indices. The new contexts have the messages that arrived before.
    pub fn open_team(
        &mut self,
        map: RankMap,
        rank: u32,
        id: ContextId,
        symmetric: bool,
    ) -> Arc<Team> {
        let [point_to_point, collective] = self.adopt_pair(id);
        let team = Arc::new(Team::new(map, rank, id, [point_to_point, collective]));
        for index in [point_to_point, collective] {
            self.settle(index, &team, symmetric);
        }
        team
    }

    /// Opens the pair of contexts of an intercommunicator: the point-to-point context is between
    /// this process and the `remote` ones, the collective context among the processes of `union`.
    /// `rank` is this process's rank in its own group, `union_rank` its rank in the union. Returns
    /// the team of each context.
    pub fn open_inter_team(
        &mut self,
        (remote, rank): (RankMap, u32),
        (union, union_rank): (RankMap, u32),
        id: ContextId,
    ) -> (Arc<Team>, Arc<Team>) {
        let [point_to_point, collective] = self.adopt_pair(id);
        let team = |map, rank| Arc::new(Team::new(map, rank, id, [point_to_point, collective]));
        let (remote, union) = (team(remote, rank), team(union, union_rank));
        self.settle(point_to_point, &remote, false);
        self.settle(collective, &union, false);
        (remote, union)
    }

    fn adopt_pair(&mut self, id: ContextId) -> [u32; 2] {
        [id, id.collective()].map(|id| self.state.contexts.adopt(id))
    }

    fn settle(&mut self, index: u32, team: &Arc<Team>, symmetric: bool) {
        if self.state.is_matching
            && index <= self.state.last_tagged
            && let Some(network) = self.fabric.matching()
        {
            network.open_context(index);
        }
        if let Some(context) = self.state.contexts.get_mut(index) {
            context.team = Some(team.clone());
            if context.revoked {
                team.set_revoked();
            }
            context.symmetric = symmetric;
        }
    }

    /// Whether a request is active in the contexts of a team.
    pub fn is_busy(&self, team: &Team) -> bool {
        let ours = |context| context == team.point_to_point || context == team.collective;
        let active = self.state.requests.active(|context, _| ours(context));
        !active.is_empty()
    }

    /// Whether a request of the contexts of a team is active, or is persistent and may be started
    /// again.
    pub fn is_used(&self, team: &Team) -> bool {
        self.is_busy(team)
            || self.state.requests.any_inactive_in([team.point_to_point, team.collective])
    }

    /// Closes a pair of contexts. Posted receives fail as cancelled; unexpected messages are
    /// dropped.
    pub fn close_team(&mut self, team: &Team) {
        for index in [team.point_to_point, team.collective] {
            self.close_context(index);
        }
    }

    /// Opens the context of the partitioned messages of a team (MPI-5.0, "Partitioned
    /// Point-to-Point Communication"). Returns its index. It has the messages that arrived before.
    pub fn open_partitioned(&mut self, team: &Arc<Team>) -> u32 {
        self.open_extra(team, team.id.partitioned())
    }

    /// Opens the context for messages of another library that serves collectives of the team.
    /// Returns its index.
    pub fn open_handed(&mut self, team: &Arc<Team>) -> u32 {
        self.open_extra(team, team.id.handed())
    }

    fn open_extra(&mut self, team: &Arc<Team>, id: ContextId) -> u32 {
        let index = self.state.contexts.adopt(id);
        self.settle(index, team, false);
        self.keep_to_frames(index);
        if team.is_revoked() {
            self.state.revoke(index);
        }
        index
    }

    /// Whether a request is active in a context.
    pub fn is_context_busy(&self, index: u32) -> bool {
        !self.state.requests.active(|context, _| context == index).is_empty()
    }

    /// Closes one context, as [`Lane::close_team`].
    pub fn close_context(&mut self, index: u32) {
        if self.state.is_matching {
            self.take_back_receives(index);
        }
        let Some(mut context) = self.state.contexts.retire(index) else { return };
        for posted in context.posted.drain() {
            let cancelled = Completion { cancelled: true, ..Completion::EMPTY };
            self.state.requests.complete(posted.request, cancelled);
        }
        for unexpected in context.unexpected.drain() {
            if let Some(request) = unexpected.content.waiting() {
                self.state.drop_unmatchable(unexpected.from, request);
            }
        }
    }

    /// Counts an operation on a fast path, worth `weight` short messages. Returns whether
    /// everything must be polled, so that no peer starves.
    #[inline(always)]
    pub fn is_look_due(&mut self, weight: i32) -> bool {
        self.until_poll -= weight;
        self.until_poll <= 0
    }

    /// Whether, since the last call, an event has happened for which a sleeping thread may wait: a
    /// request was completed, a message arrived that a probe may match, or messages wait for room
    /// and their peer does not know it.
    #[inline]
    pub fn take_news(&mut self) -> bool {
        self.state.requests.take_news() | std::mem::take(&mut self.unannounced)
    }

    /// Makes another sleeping thread poll again.
    pub fn note_news(&mut self) {
        self.state.requests.note_news();
    }

    /// Whether nothing has arrived and no work is due, as far as a short check shows.
    #[inline(always)]
    pub fn is_calm(&self) -> bool {
        // One comparison for three lengths.
        let waiting = self.state.todo.len() | self.busy.len() | self.state.lost.len();
        waiting == 0 && self.fabric.is_calm()
    }

    /// Whether certainly no message from the rank `source` of a context's team (`None`: from any
    /// rank) is unexpected or has arrived, and no work is due. `false` also if the process of the
    /// rank is not noted, or if only a poll could show a message.
    #[inline(always)]
    pub fn has_none(&self, context: u32, source: Option<i32>) -> bool {
        let Some(own) = self.state.contexts.get(context) else { return false };
        if let Some(source) = source {
            // No closures here: the compiler makes calls of them.
            let Some(route) = own.route(source) else { return false };
            if route.process == UNKNOWN {
                return false;
            }
        }
        own.unexpected.is_empty() && !self.state.is_matching && self.is_calm()
    }

    /// Whether a message without a receive may be in a context.
    #[inline(always)]
    pub fn has_unexpected(&self, context: u32) -> bool {
        match self.state.contexts.get(context) {
            Some(context) => !context.unexpected.is_empty() || self.state.is_matching,
            None => true,
        }
    }

    /// As [`Lane::progress`], without the messages of a peer that the caller receives itself, one
    /// after another. Here they would become unexpected, which costs more.
    pub fn progress_except(&mut self, peer: u32) -> bool {
        self.until_poll = POLL_EVERY;
        let came = self.fabric.poll_except(peer, &mut self.state);
        self.follow(came)
    }

    /// Delivers messages of the process for whose message this request waits, at most as many as
    /// receives are posted: a message that arrives before its receive costs more. Returns the
    /// process if the message has yet to come. `None`: the message has come, or the request is not
    /// a posted receive from one process that can be polled alone.
    #[inline]
    pub fn progress_for(&mut self, request: RequestId) -> Option<u32> {
        let (from, context) = self.state.requests.awaited_from(request)?;
        let most = self.state.contexts.get(context)?.posted.len();
        if !self.fabric.poll_peer(from, most, &mut self.state)? {
            return Some(from);
        }
        self.until_poll -= 1;
        self.follow(true);
        self.state.requests.awaited_from(request).map(|(from, _)| from)
    }

    /// Delivers everything that has arrived, and does the work that follows. Returns whether
    /// anything had arrived or can leave at once.
    pub fn progress(&mut self) -> bool {
        self.until_poll = POLL_EVERY;
        let came = self.fabric.poll(&mut self.state);
        self.follow(came)
    }

    /// Takes in everything that has arrived, before a long time without progress.
    pub fn look_last(&mut self) {
        let _ = (0..LAST_POLLS).find(|_| {
            self.fabric.poll_all_next();
            !self.progress()
        });
    }

    #[inline(always)]
    fn follow(&mut self, came: bool) -> bool {
        if came || !self.state.todo.is_empty() || !self.busy.is_empty() {
            self.work();
        }
        if !self.pulled.is_empty() {
            self.continue_pulled(came);
        }
        if !self.unposted.is_empty() {
            self.post_waiting();
        }
        came | self.restless
    }

    fn work(&mut self) {
        while let Some(todo) = self.state.todo.pop_front() {
            match todo {
                Todo::Answer { to, frame } => self.answer(to, frame),
                // A later event will repeat a hint that was lost.
                Todo::Hint { to, frame } => _ = self.hint(to, frame),
                Todo::NotifyUnmatchable { to, request } => self.notify_unmatchable(to, request),
                Todo::CheckLeft(peer) => self.check_left(peer),
                Todo::SendLast(to, id) => self.send_last(to, id),
                Todo::Fetch(fetch) => self.fetch(fetch),
                Todo::Flush(to) => self.flush(to),
                Todo::Contest(receive) => self.contest(receive),
                Todo::EndLost { request, peer } => self.end_lost(request, peer),
            }
        }
        self.restless = false;
        let unannounced = self.unannounced;
        for to in std::mem::take(&mut self.busy) {
            self.state.peer(to).listed = false;
            self.flush(to);
        }
        // Peers that were listed before are no news to a sleeping thread.
        self.unannounced = unannounced;
    }

    /// Queries a request. `None`: it does not exist. `Some(None)`: it is active. Otherwise its
    /// completion, after which the request no longer exists.
    #[inline]
    pub fn test(&mut self, request: RequestId) -> Option<Option<Completion>> {
        if request == RequestId::COMPLETE {
            return Some(Some(Completion::EMPTY));
        }
        match self.state.requests.take(request) {
            RequestLookup::Stale => None,
            RequestLookup::Active => Some(self.test_active(request)),
            RequestLookup::Complete(completion) => Some(Some(completion)),
        }
    }

    #[inline(never)]
    fn test_active(&mut self, request: RequestId) -> Option<Completion> {
        if let Some(completion) = self.query_compound(request, false) {
            return Some(completion);
        }
        if self.is_kept(request) {
            self.state.requests.detach(request);
            return Some(Completion::EMPTY);
        }
        let hopeless = self.hopeless(request)?;
        if !hopeless.stays {
            self.abandon(request);
        }
        Some(hopeless)
    }

    fn hopeless(&self, request: RequestId) -> Option<Completion> {
        let peer = self.state.hopeless(request)?;
        let stays = self.keeps_hopeless;
        let fault = if stays { Fault::Pending { peer } } else { Fault::Lost { peer } };
        let context = self.state.requests.context(request);
        Some(Completion { stays, context, ..Completion::failed(fault) })
    }

    /// With `keeps`, a receive from MPI_ANY_SOURCE stays posted after it has reported a failed
    /// member by [`Fault::Pending`], as another member may send the message. By default such a
    /// receive ends.
    pub fn keep_vain(&mut self, keeps: bool) {
        self.keeps_hopeless = keeps;
    }

    /// Takes the result of a request that succeeded, which then no longer exists. `None`: the
    /// request is active, failed or cancelled, and unchanged: use [`Lane::test`].
    #[inline(always)]
    pub fn take_good(&mut self, request: RequestId) -> Option<Received> {
        self.state.requests.take_good(request)
    }

    /// Whether the request exists and the program has not freed it.
    #[inline(always)]
    pub fn knows(&self, request: RequestId) -> bool {
        request == RequestId::COMPLETE || self.state.requests.knows(request)
    }

    /// As [`Lane::test`], but the request stays (MPI-5.0 section 3.7.6, MPI_Request_get_status).
    pub fn peek(&mut self, request: RequestId) -> Option<Option<Completion>> {
        if request == RequestId::COMPLETE {
            return Some(Some(Completion::EMPTY));
        }
        match self.state.requests.find(request) {
            RequestLookup::Stale => None,
            RequestLookup::Active if self.is_kept(request) => Some(Some(Completion::EMPTY)),
            RequestLookup::Active => {
                Some(self.query_compound(request, true).or_else(|| self.hopeless(request)))
            }
            RequestLookup::Complete(completion) => Some(Some(completion)),
        }
    }

    /// The request with this integer ([`oxmpi_mem::table::Int`]); it need not exist any more.
    pub fn request_of_int(&self, int: u32) -> RequestId {
        self.state.requests.of_int(int)
    }

    /// Frees a request, whose operation continues (MPI_Request_free). Returns whether it existed.
    pub fn detach(&mut self, request: RequestId) -> bool {
        if let Some(parts) = self.parts(request) {
            for part in parts.into_iter().flatten() {
                self.state.requests.detach(part);
            }
            self.state.requests.dissolve(request);
            return true;
        }
        request == RequestId::COMPLETE || self.state.requests.detach(request)
    }

    /// Ends a request in any state, because the operation that contains it has failed. The lane
    /// then does not use its buffer.
    pub fn abandon(&mut self, request: RequestId) {
        if let Some(parts) = self.parts(request) {
            parts.into_iter().flatten().for_each(|part| self.abandon(part));
            return self.state.requests.dissolve(request);
        }
        self.fabric.release(request.raw());
        if self.state.is_matching {
            self.withdraw_receive(request);
        }
        self.state.unpost(request);
        self.state.requests.complete(request, Completion { cancelled: true, ..Completion::EMPTY });
        self.state.requests.forget(request);
    }

    /// Whether a request is active and was made by [`Lane::open_external`].
    pub fn is_external(&self, request: RequestId) -> bool {
        self.state.requests.is_external(request)
    }

    /// Makes a request for an operation above the lane ([`Lane::complete_external`]).
    pub fn open_external(&mut self) -> RequestId {
        self.state.requests.insert(Work::External)
    }

    /// Completes a request made by [`Lane::open_external`].
    pub fn complete_external(&mut self, request: RequestId, completion: Completion) {
        self.state.requests.complete(request, completion);
    }

    /// Completes a request of [`Lane::open_external`] whose completion comes from functions of the
    /// caller (generalized requests). `false`: there is no such request.
    pub fn complete_generalized(&mut self, request: RequestId) -> bool {
        self.state.requests.complete_generalized(request)
    }

    /// Records the failure of a process: all operations that depend on it complete.
    pub fn fail(&mut self, process: u32) {
        self.state.lose(process);
    }

    /// Whether no message of this process waits to leave.
    pub fn is_drained(&self) -> bool {
        self.state.requests.active_sends() == 0
            && self.busy.is_empty()
            && self.state.todo.is_empty()
    }

    /// Packed bytes that the lane keeps for buffered sends of the buffer `owner`
    /// ([`Lane::set_own_buffer`]), or with `None` of the common buffer. A message without data
    /// counts one byte.
    pub fn buffered_in(&self, owner: Option<u32>) -> usize {
        self.state.requests.buffered_in(owner.unwrap_or(NO_CONTEXT))
    }

    /// The incomplete buffered sends of the buffer `owner`, or with `None` of the common one.
    pub fn buffered_sends(&self, owner: Option<u32>) -> Vec<RequestId> {
        self.state.requests.kept_in(owner.unwrap_or(NO_CONTEXT))
    }

    /// Assigns the buffered sends of a context to the buffer `owner`, or with `None` to the common
    /// one. The caller chooses the numbers, except `u32::MAX`.
    pub fn set_own_buffer(&mut self, context: u32, owner: Option<u32>) {
        self.state.requests.set_own_buffer(context, owner);
    }

    /// Active requests in the contexts of a team that the program has not freed.
    pub fn held_in(&self, team: &Team) -> usize {
        self.state.requests.held_in([team.point_to_point, team.collective])
    }

    /// Whether a send in the contexts of a team is incomplete.
    pub fn is_sending_in(&self, team: &Team) -> bool {
        self.state.requests.is_sending_in([team.point_to_point, team.collective])
    }

    /// Whether a request is active and the program has freed it.
    pub fn is_detached(&self, request: RequestId) -> bool {
        self.state.requests.is_detached(request)
    }

    /// Whether the request exists, freed or not.
    pub fn is_known(&self, request: RequestId) -> bool {
        self.state.requests.is_known(request)
    }

    /// The context of a request, if it has one.
    pub fn context_of(&self, request: RequestId) -> Option<u32> {
        Some(self.state.requests.context(request)).filter(|context| *context != NO_CONTEXT)
    }

    /// The number of malformed frames: faults of peers, or messages for a freed communicator.
    pub fn nonsense(&self) -> u64 {
        self.state.nonsense
    }

    /// Prepares this process for sleep: makes private copies of the sends of `copied`, and requests
    /// a ring from the peers without room.
    pub fn announce_sleep(&mut self, copied: CopiedSends) -> Rest {
        if self.restless
            || !self.state.todo.is_empty()
            || self.keep_sends(copied)
            || self.read_late()
        {
            return Rest::Not;
        }
        let is_light = self.fabric.sleeps_lightly() || self.waits_for_room();
        let mut rest = if is_light { Rest::Short } else { Rest::Long };
        for at in 0..self.busy.len() {
            if !self.fabric.announce_waiting(self.busy[at]) {
                rest = Rest::Short;
            }
        }
        self.unannounced = false;
        if self.fabric.before_sleep() { rest } else { Rest::Not }
    }
}
