//! A lane: what may be started, asked and driven. How messages leave it is in [`send`], how receives find theirs in
//! [`receive`], and what the network matches by itself in [`tagged`].

mod cancel;
mod failure;
mod finalizing;
mod keep;
mod receive;
mod send;
mod tagged;

use self::tagged::Unposted;
use crate::arrive::{Copies, Fetch, Spare, State, Todo};
use crate::counts::Tally;
use crate::matching::{Contexts, UNKNOWN};
use crate::notes::Notes;
use crate::request::{Completion, Fault, Found, NO_CONTEXT, Received, RequestId, Requests, Work};
use crate::team::{RankMap, Team};
pub use failure::Notice;
pub use keep::Kept;
use oxmpi_fabric::Fabric;
use oxmpi_wire::ContextId;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// How many short messages may go the fast way before everything is looked at.
const LOOK_EVERY: i32 = 64;

/// So many looks take in whatever lies in inboxes and rings, and end though somebody sends on and on.
const LAST_LOOKS: usize = 1 << 12;

/// One matching domain of one process.
#[derive(Debug)]
pub struct Lane<F> {
    fabric: F,
    pub(crate) state: State,
    /// Peers for which something waits to leave.
    busy: Vec<u32>,
    /// Whether something could leave now: others only had their turn first.
    restless: bool,
    /// A peer was listed of which nobody who sleeps has announced that messages wait for it.
    unannounced: bool,
    /// Standard sends that wait for their receivers, and of which the lane may keep a copy instead.
    keepable: Vec<RequestId>,
    /// Announced messages that were pulled, as their senders waited in the library, or will be, and that are not whole.
    asked: Vec<Asked>,
    /// How much may go the fast way until everything is to be looked at, in short messages.
    until_look: i32,
    /// Whether receives that may wait in vain keep their place.
    keeps_vain: bool,
    /// Receives that wait for room in the network, or for word of their peer, in the order of their posting.
    unposted: Vec<Unposted>,
}

/// An announced message that its sender gives while it waits in the library.
#[derive(Debug)]
struct Asked {
    fetch: Fetch,
    /// Whether its sender was asked, as it waited.
    is_pulled: bool,
    /// Looks in vain until it is read.
    looks: u32,
}

/// What came of [`Lane::receive_now`].
#[derive(Clone, Copy, Debug)]
pub enum Now {
    /// The message is in the buffer.
    Received(Received),
    /// It has begun to come into the buffer: wait for this request.
    Begun(RequestId),
    /// It is not there.
    NotYet,
    /// It cannot be taken like this, or something older must be looked at first: use [`Lane::start_receive`].
    NeverSo,
}

/// What became of a receive that was started by [`Lane::receive_plain`].
#[derive(Clone, Copy, Debug)]
pub enum Posted {
    /// It waits for its message.
    Waits(RequestId),
    /// It has taken its message, without a look at anything else.
    Taken(RequestId),
}

/// Whether the process may sleep while nothing comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// Until somebody rings.
    Long,
    /// For a short time: a peer has no room and cannot say when it has.
    Short,
    /// Not at all: there is something to do.
    Not,
}

impl<F: Fabric> Lane<F> {
    /// The lane of process `me`, without contexts.
    pub fn new(me: u32, mut fabric: F) -> Lane<F> {
        let state = State {
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
            notes: Notes::default(),
            has_sent_all: false,
            ends: false,
            askers: Vec::new(),
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
            asked: Vec::new(),
            until_look: LOOK_EVERY,
            keeps_vain: false,
            unposted: Vec::new(),
        }
    }

    /// The fabric below.
    pub fn fabric(&self) -> &F {
        &self.fabric
    }

    /// The fabric below, to be changed.
    pub fn fabric_mut(&mut self) -> &mut F {
        &mut self.fabric
    }

    /// Opens the pair of contexts of a communicator; the first is the world's ([`WORLD`](crate::WORLD)). With `symmetric`, all
    /// its processes open it as the same indices (world and self, which are opened first); otherwise they learn each other's.
    ///
    /// Messages that came for it before are found in it.
    pub fn open_team(&mut self, map: RankMap, rank: u32, id: ContextId, symmetric: bool) -> Arc<Team> {
        let [point_to_point, collective] = self.adopt_pair(id);
        let team = Arc::new(Team::new(map, rank, id, [point_to_point, collective]));
        for index in [point_to_point, collective] {
            self.settle(index, &team, symmetric);
        }
        team
    }

    /// As [`Lane::open_team`] for an intercommunicator: one pair of contexts of which the point-to-point one is used
    /// between this process and the `remote` ones, the collective one among the processes of `union`. `rank` is this
    /// process's rank in its own group, `union_rank` that among all. Returns the team of each context.
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

    /// From now on a context is this team's.
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

    /// Whether something is under way in the contexts of a team.
    pub fn is_busy(&self, team: &Team) -> bool {
        let ours = |context| context == team.point_to_point || context == team.collective;
        let active = self.state.requests.active(|context, _| ours(context));
        !active.is_empty()
    }

    /// Whether something is under way in the contexts of a team, or may yet be started there.
    pub fn is_used(&self, team: &Team) -> bool {
        self.is_busy(team) || self.state.requests.any_inactive_in([team.point_to_point, team.collective])
    }

    /// Closes a pair of contexts. Receives still posted in them fail as cancelled; unexpected messages are dropped.
    pub fn close_team(&mut self, team: &Team) {
        for index in [team.point_to_point, team.collective] {
            self.close_context(index);
        }
    }

    /// Opens the context of the partitioned messages of a team (MPI-5.0, "Partitioned Point-to-Point Communication"). What came
    /// for it before is found in it. Returns its index.
    pub fn open_partitioned(&mut self, team: &Arc<Team>) -> u32 {
        self.open_extra(team, team.id.partitioned())
    }

    /// As [`Lane::open_partitioned`] for the messages of another library, to which collectives of a team are handed.
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

    /// Whether something is under way in a context.
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
            if let Some(request) = unexpected.what.waiting() {
                self.state.drop_nobodys(unexpected.from, request);
            }
        }
    }

    /// Notes that something was done without a look at everything; `weight` says how many short messages it is worth.
    /// Returns whether such a look is due, so that nothing starves behind the fast ways.
    #[inline(always)]
    pub fn is_look_due(&mut self, weight: i32) -> bool {
        self.until_look -= weight;
        self.until_look <= 0
    }

    /// Whether something happened, since the last such question, for which a sleeping thread may wait: a request was
    /// completed, a message came that a probe may want, or messages wait for room of which a thread that sleeps has not told the
    /// peer: the one that left them may not come back.
    #[inline]
    pub fn take_news(&mut self) -> bool {
        self.state.requests.take_news() | std::mem::take(&mut self.unannounced)
    }

    /// Another thread that sleeps shall look again.
    pub fn note_news(&mut self) {
        self.state.requests.note_news();
    }

    /// Whether nothing has come and nothing waits to be done, as far as a short look shows.
    #[inline(always)]
    pub fn is_calm(&self) -> bool {
        // One comparison for all.
        let waiting = self.state.todo.len() | self.busy.len() | self.state.lost.len();
        waiting == 0 && self.fabric.is_calm()
    }

    /// Whether certainly no message from the rank `source` of a context's team (`None`: from any
    /// rank) is unexpected or has come, and no work waits. False also if the process of the rank is
    /// not noted, or if only a poll could tell.
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

    /// Whether a message may wait in a context that nobody has asked for.
    #[inline(always)]
    pub fn has_unexpected(&self, context: u32) -> bool {
        match self.state.contexts.get(context) {
            Some(context) => !context.unexpected.is_empty() || self.state.is_matching,
            None => true,
        }
    }

    /// As [`Lane::progress`], without the messages of a peer that the caller takes itself, one after the other. (To
    /// take them here would make them unexpected and cost more.)
    pub fn progress_except(&mut self, peer: u32) -> bool {
        self.until_look = LOOK_EVERY;
        let came = self.fabric.poll_except(peer, &mut self.state);
        self.follow(came)
    }

    /// Lets the fabric hand up what comes from the process whose message this request waits for, but no more than receives are
    /// posted: what nobody expects yet is received faster when it is expected. The process from which the message has yet to come;
    /// `None`: it has come, or the request is no posted receive from one process that can be polled alone.
    #[inline]
    pub fn progress_for(&mut self, request: RequestId) -> Option<u32> {
        let (from, context) = self.state.requests.awaited_from(request)?;
        let most = self.state.contexts.get(context)?.posted.len();
        if !self.fabric.poll_peer(from, most, &mut self.state)? {
            return Some(from);
        }
        self.until_look -= 1;
        self.follow(true);
        self.state.requests.awaited_from(request).map(|(from, _)| from)
    }

    /// Lets the fabric hand up what has come, and does what follows from it. Returns whether anything had come, or could
    /// leave at once.
    pub fn progress(&mut self) -> bool {
        self.until_look = LOOK_EVERY;
        let came = self.fabric.poll(&mut self.state);
        self.follow(came)
    }

    /// Takes in all that has come, and does what follows: the process does not look again for some time.
    pub fn look_last(&mut self) {
        let _ = (0..LAST_LOOKS).find(|_| {
            self.fabric.poll_all_next();
            !self.progress()
        });
    }

    /// Does what follows from a poll, after which `came` says whether anything had come.
    #[inline(always)]
    fn follow(&mut self, came: bool) -> bool {
        if came || !self.state.todo.is_empty() || !self.busy.is_empty() {
            self.work();
        }
        if !self.asked.is_empty() {
            self.read_asked(came);
        }
        if !self.unposted.is_empty() {
            self.post_waiting();
        }
        came | self.restless
    }

    /// Does what is due.
    fn work(&mut self) {
        while let Some(todo) = self.state.todo.pop_front() {
            match todo {
                Todo::Answer { to, frame } => self.answer(to, frame),
                // The peer will give the occasion again.
                Todo::Hint { to, frame } => _ = self.hint(to, frame),
                Todo::SayNobodys { to, request } => self.say_nobodys(to, request),
                Todo::SeeWhetherLeft(peer) => self.see_whether_left(peer),
                Todo::SayLast(to, id) => self.say_last(to, id),
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
        // Those that stay listed are no news to a sleeper.
        self.unannounced = unannounced;
    }

    /// Asks for a request: `None` if there is no such request (any more), `Some(None)` if it goes on, and its
    /// completion if it is complete, after which there is no such request.
    #[inline]
    pub fn test(&mut self, request: RequestId) -> Option<Option<Completion>> {
        if request == RequestId::COMPLETE {
            return Some(Some(Completion::EMPTY));
        }
        match self.state.requests.take(request) {
            Found::Stale => None,
            Found::Active => Some(self.test_active(request)),
            Found::Complete(completion) => Some(Some(completion)),
        }
    }

    /// Asks for a request that goes on.
    #[inline(never)]
    fn test_active(&mut self, request: RequestId) -> Option<Completion> {
        if let Some(completion) = self.ask_compound(request, false) {
            return Some(completion);
        }
        if self.is_kept(request) {
            self.state.requests.detach(request);
            return Some(Completion::EMPTY);
        }
        let vain = self.vain(request)?;
        if !vain.stays {
            self.abandon(request);
        }
        Some(vain)
    }

    /// What a receive from anybody says that may wait in vain.
    fn vain(&self, request: RequestId) -> Option<Completion> {
        let peer = self.state.hopeless(request)?;
        let stays = self.keeps_vain;
        let fault = if stays { Fault::Pending { peer } } else { Fault::Lost { peer } };
        let context = self.state.requests.context(request);
        Some(Completion { stays, context, ..Completion::failed(fault) })
    }

    /// Whether a receive from anybody that may wait in vain, because a member has failed, keeps its place when it has said so
    /// ([`Fault::Pending`]): the message may come from another. Otherwise it is over, as it is from the start.
    pub fn keep_vain(&mut self, keeps: bool) {
        self.keeps_vain = keeps;
    }

    /// What a request says that went well; afterwards there is no such request. `None`: it is not like that, and
    /// nothing happened: use [`Lane::test`].
    #[inline(always)]
    pub fn take_good(&mut self, request: RequestId) -> Option<Received> {
        self.state.requests.take_good(request)
    }

    /// Whether there is such a request, complete or not.
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
            Found::Stale => None,
            Found::Active if self.is_kept(request) => Some(Some(Completion::EMPTY)),
            Found::Active => Some(self.ask_compound(request, true).or_else(|| self.vain(request))),
            Found::Complete(completion) => Some(Some(completion)),
        }
    }

    /// The request that an integer stands for ([`oxmpi_mem::table::Int`]), which may be gone.
    pub fn request_of_int(&self, int: u32) -> RequestId {
        self.state.requests.of_int(int)
    }

    /// Lets a request end on its own (MPI_Request_free). Returns whether there was one.
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

    /// Ends a request whatever its state, because what it belongs to has failed. Its buffer is not used any more.
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

    /// Whether this is a request for something above the lane that goes on.
    pub fn is_external(&self, request: RequestId) -> bool {
        self.state.requests.is_external(request)
    }

    /// A request for something above the lane, which says by [`Lane::complete_external`] when it is over.
    pub fn open_external(&mut self) -> RequestId {
        self.state.requests.insert(Work::External)
    }

    /// Completes a request made by [`Lane::open_external`].
    pub fn complete_external(&mut self, request: RequestId, completion: Completion) {
        self.state.requests.complete(request, completion);
    }

    /// Completes a request made by [`Lane::open_external`] of which whoever opened it must be asked. `false`: there is no
    /// such request.
    pub fn complete_generalized(&mut self, request: RequestId) -> bool {
        self.state.requests.complete_generalized(request)
    }

    /// A process is known to have failed: completes everything it would have taken part in.
    pub fn fail(&mut self, process: u32) {
        self.state.lose(process);
    }

    /// Whether nothing of this process waits to leave any more (the drain hook: finalize, checkpoint).
    pub fn is_drained(&self) -> bool {
        self.state.requests.active_sends() == 0 && self.busy.is_empty() && self.state.todo.is_empty()
    }

    /// Packed bytes that the lane keeps for the buffered sends which count in a buffer: that with a number
    /// ([`Lane::set_own_buffer`]), or (`None`) the one of all others. A message without data counts one.
    pub fn buffered_in(&self, owner: Option<u32>) -> usize {
        self.state.requests.buffered_in(owner.unwrap_or(NO_CONTEXT))
    }

    /// The buffered sends that count there and are not complete.
    pub fn buffered_sends(&self, owner: Option<u32>) -> Vec<RequestId> {
        self.state.requests.kept_in(owner.unwrap_or(NO_CONTEXT))
    }

    /// From now on buffered sends of this context count in the buffer with the number `owner`, or else in that of all.
    /// The numbers are the caller's; `u32::MAX` is none.
    pub fn set_own_buffer(&mut self, context: u32, owner: Option<u32>) {
        self.state.requests.set_own_buffer(context, owner);
    }

    /// The requests in the contexts of a team that go on and that somebody may still ask for.
    pub fn held_in(&self, team: &Team) -> usize {
        self.state.requests.held_in([team.point_to_point, team.collective])
    }

    /// Whether a send in the contexts of a team is not complete.
    pub fn is_sending_in(&self, team: &Team) -> bool {
        self.state.requests.is_sending_in([team.point_to_point, team.collective])
    }

    /// Whether a request goes on and nobody will ask for it.
    pub fn is_detached(&self, request: RequestId) -> bool {
        self.state.requests.is_detached(request)
    }

    /// Whether there is such a request.
    pub fn is_known(&self, request: RequestId) -> bool {
        self.state.requests.is_known(request)
    }

    /// The context in which a request takes place, if it has one.
    pub fn context_of(&self, request: RequestId) -> Option<u32> {
        Some(self.state.requests.context(request)).filter(|context| *context != NO_CONTEXT)
    }

    /// Frames that made no sense so far: a defect of a peer, or messages for a communicator that was freed.
    pub fn nonsense(&self) -> u64 {
        self.state.nonsense
    }

    /// Prepares this process for sleep: makes private copies of the sends of `kept`, and requests a
    /// wake-up from the peers whose rings are full.
    pub fn announce_sleep(&mut self, kept: Kept) -> Rest {
        if self.restless || !self.state.todo.is_empty() || self.keep_sends(kept) || self.read_late() {
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
