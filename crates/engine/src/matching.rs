//! Communicator contexts: where messages and receives find each other, in MPI order (MPI-5.0 section 3.5).
//!
//! A context keeps the posted receives in the order of their posting ([`posted`]) and the unexpected messages in the order of
//! their arrival ([`unexpected`]). A message takes the first receive that wants it, a receive the first message that fits: so two messages of one
//! sender with the same tag never overtake each other, whatever wildcards are in play.

mod bucket;
mod posted;
mod unexpected;

use crate::request::{RequestId, Source, TagMatch};
use crate::team::Team;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::{Announced, Context as Name, ContextId, Tags};
use posted::PostedQueue;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use unexpected::UnexpectedQueue;

/// In the place of a process: any. (As a signed number it is MPI_ANY_SOURCE of the ABI.)
pub const ANYBODY: u32 = u32::MAX;
/// In the place of a process or an index: not known.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// So many posted receives or unexpected messages of a context are compared one after the other. What there is beyond is looked
/// up.
const LINEAR: usize = 64;

/// The tag of a *notice*: a message about the communicator itself ([`crate::Lane::take_notice`]), in its collective context.
/// No receive wants it there: no collective has this tag.
pub const NOTICE_TAG: i32 = i32::MAX;
/// The sender of what bars a revoked context: no process. (A receive from anybody names a tag that is not negative.)
const NOBODY: u32 = u32::MAX - 1;

/// What was in a context that is revoked.
#[derive(Debug, Default)]
pub(crate) struct Revocation {
    /// Its posted receives.
    pub(crate) requests: Vec<RequestId>,
    /// The messages that were dropped: from whom, and their places among the unexpected ones.
    pub(crate) dropped: Vec<(u32, u32)>,
}

/// Whether a message in the context of this name is a notice.
pub(crate) fn is_notice(context: ContextId, tag: i32) -> bool {
    tag == NOTICE_TAG && context.is_collective()
}

/// A receive that waits for its message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posted {
    source: u32,
    tag: i32,
    mask: i32,
    pub(crate) request: RequestId,
}

impl Posted {
    /// The tag that it wants; `None`: any.
    pub(crate) fn tag(&self) -> Option<i32> {
        (self.mask == Tags::one(self.tag).mask).then_some(self.tag)
    }

    #[inline(always)]
    fn wanted(&self) -> Wanted {
        Wanted { source: self.source, tag: self.tag, mask: self.mask }
    }
}

/// Source and tag that a receive or probe wants, ready to be compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    source: u32,
    tag: i32,
    mask: i32,
}

impl Wanted {
    #[inline]
    pub(crate) fn new(source: Source, tag: TagMatch) -> Wanted {
        let source = match source {
            Source::Any => ANYBODY,
            Source::Process(p) => p,
        };
        Wanted::plain(source, tag.into())
    }

    /// As [`Wanted::new`], from a process or [`ANYBODY`].
    #[inline(always)]
    pub(crate) fn plain(source: u32, tags: Tags) -> Wanted {
        Wanted { source, tag: tags.tag, mask: tags.mask }
    }

    #[inline(always)]
    pub(crate) fn fits(&self, from: u32, tag: i32) -> bool {
        (self.source == from || self.source == ANYBODY) && (self.tag ^ tag) & self.mask == 0
    }
}

/// A message that nobody had asked for when it came.
#[derive(Debug)]
pub(crate) struct Unexpected {
    pub(crate) from: u32,
    pub(crate) tag: i32,
    pub(crate) what: Message,
}

/// The longest message whose data are kept beside its envelope, bytes.
pub(crate) const SHORT: usize = 56;

/// What is here of an unexpected message.
#[derive(Debug)]
pub(crate) enum Message {
    /// Its few data, all of them: nobody waits for its match.
    Short {
        /// How many there are.
        len: u8,
        /// The data.
        data: [u8; SHORT],
    },
    /// Its data, as far as they have come, and the sender's request if that waits for the match.
    Eager {
        /// The data so far.
        data: Vec<u8>,
        /// Length of the whole message.
        total: usize,
        /// The sender's request in synchronous mode.
        sync: Option<u64>,
    },
    /// Its announcement.
    Rendezvous {
        /// Where it is.
        announced: Announced,
        /// What came with the announcement: its beginning.
        first: Vec<u8>,
    },
    /// A send of this process to itself, which still has the data.
    Own {
        /// The send.
        request: RequestId,
        /// Length of the message, bytes.
        length: usize,
    },
    /// A message that a probe has taken out of the network, which still has the data.
    InNetwork {
        /// Its name there.
        name: u64,
        /// Length of the message, bytes.
        length: u64,
    },
    /// A message whose data went down with its sender. It keeps its place: the receive that wants it fails, instead
    /// of getting a later message.
    Broken {
        /// Length of the message, bytes.
        length: u64,
    },
}

impl Message {
    /// A message of a few bytes, if these are all of them and so few.
    #[inline(always)]
    pub(crate) fn short(bytes: Bytes<'_>) -> Option<Message> {
        let mut data = [0; SHORT];
        let len = bytes.len() as u8;
        bytes.copy_if_it_fits(BytesMut::from(&mut data[..])).then_some(Message::Short { len, data })
    }

    /// Whether it needs its sender to be received.
    pub(crate) fn needs_sender(&self) -> bool {
        match self {
            Message::Eager { data, total, .. } => data.len() < *total,
            Message::Rendezvous { .. } => true,
            Message::Short { .. }
            | Message::Own { .. }
            | Message::InNetwork { .. }
            | Message::Broken { .. } => false,
        }
    }

    /// The request with which another process waits for its match.
    pub(crate) fn waiting(&self) -> Option<u64> {
        match *self {
            Message::Eager { sync, .. } => sync,
            Message::Rendezvous { announced, .. } => Some(announced.request),
            Message::Short { .. }
            | Message::Own { .. }
            | Message::InNetwork { .. }
            | Message::Broken { .. } => None,
        }
    }

    /// Length of the whole message, bytes.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Message::Short { len, .. } => u64::from(*len),
            Message::Eager { total, .. } => *total as u64,
            Message::Rendezvous { announced, .. } => announced.length,
            Message::Own { length, .. } => *length as u64,
            Message::InNetwork { length, .. } | Message::Broken { length } => *length,
        }
    }
}

/// Where a rank of a context's team is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankRoute {
    /// Its process, which is no process as long as nobody has needed it.
    pub(crate) process: u32,
    /// What that process calls the context, which is no index as long as it is not known.
    pub(crate) index: u32,
}

impl RankRoute {
    const UNKNOWN: RankRoute = RankRoute { process: UNKNOWN, index: UNKNOWN };
}

/// One communicator context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) id: ContextId,
    /// Unknown while messages have come for a communicator that this process has not created yet.
    pub(crate) team: Option<Arc<Team>>,
    /// All processes call it by the same index (world and self).
    pub(crate) symmetric: bool,
    /// Nobody may talk in it any more.
    pub(crate) revoked: bool,
    /// It is in use; else it is an empty place.
    is_open: bool,
    /// This process has finalised since it opened it: it sends nothing more in it.
    pub(crate) is_finalized: bool,
    /// How many of its lost members, in the order in which their loss was heard, are known to the program: they do not keep
    /// it from receiving from anybody.
    pub(crate) acknowledged: usize,
    /// What each process calls it, as far as learnt, by process index.
    remote: Vec<u32>,
    /// Where the ranks are that were sent to or received from, by rank. Empty if the context was revoked.
    routes: Vec<RankRoute>,
    pub(crate) posted: PostedQueue,
    pub(crate) unexpected: UnexpectedQueue,
    /// Its messages go in frames, also where the network matches.
    pub(crate) keeps_to_frames: bool,
    /// Processes that were asked for their index ([`oxmpi_wire::Frame::AskIndex`]).
    pub(crate) asked: Vec<u32>,
    /// A receive that the network may have matched, and for which a message has come here: until that is known nothing is
    /// matched here.
    pub(crate) contested: Option<Contest>,
}

/// A receive that two may have matched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contest {
    pub(crate) receive: RequestId,
    /// The unexpected message that it gets if the network gives it up.
    pub(crate) key: u32,
    /// Who wants the message back meanwhile, if its sender does.
    pub(crate) withdrawal: Option<Withdrawal>,
}

/// Who wants a message back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Withdrawal {
    /// A send of this process to itself.
    Own(RequestId),
    /// Another process, whose request this is.
    Of(u32, u64),
}

impl Context {
    fn new(id: ContextId) -> Context {
        Context {
            id,
            team: None,
            symmetric: false,
            revoked: false,
            is_open: true,
            is_finalized: false,
            acknowledged: 0,
            remote: Vec::new(),
            routes: Vec::new(),
            posted: PostedQueue::default(),
            unexpected: UnexpectedQueue::default(),
            keeps_to_frames: false,
            asked: Vec::new(),
            contested: None,
        }
    }

    /// Whether no receive and no message waits here.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.posted.is_empty() && self.unexpected.is_empty()
    }

    /// How to name this context to a process.
    #[inline(always)]
    pub(crate) fn name_for(&self, own_index: u32, peer: u32) -> Name {
        if self.symmetric {
            return Name::Local(own_index);
        }
        match self.remote.get(peer as usize) {
            Some(&index) if index != UNKNOWN => Name::Local(index),
            _ => Name::Global(self.id),
        }
    }

    /// Where a rank is, if it has been needed before ([`Context::note_route`]).
    #[inline(always)]
    pub(crate) fn route(&self, rank: i32) -> Option<RankRoute> {
        // A negative number, which names no rank, is larger than any.
        self.routes.get(rank as u32 as usize).copied()
    }

    /// Notes where a rank is, for the calls that follow; one whose messages go by tag has no index there. Whether it was not known.
    pub(crate) fn note_route(&mut self, own_index: u32, rank: u32, process: u32, by_tag: bool) -> bool {
        if self.revoked {
            return false;
        }
        let index = match self.name_for(own_index, process) {
            Name::Local(index) if !by_tag => index,
            _ => UNKNOWN,
        };
        let at = rank as usize;
        if self.routes.len() <= at {
            self.routes.resize(at + 1, RankRoute::UNKNOWN);
        }
        let before = std::mem::replace(&mut self.routes[at], RankRoute { process, index });
        before.process != process || before.index != index
    }

    /// Nobody may talk in the context any more. Says nothing if it was revoked before.
    ///
    /// A message that nobody can receive stays in it for ever: so the fast ways, which want a quiet context, are shut at no
    /// cost to them.
    pub(crate) fn revoke(&mut self) -> Revocation {
        if std::mem::replace(&mut self.revoked, true) {
            return Revocation::default();
        }
        if let Some(team) = &self.team {
            team.set_revoked();
        }
        self.symmetric = false;
        self.contested = None;
        self.remote = Vec::new();
        self.routes = Vec::new();
        // Notices keep their places: the rest of a long one may still be coming.
        let id = self.id;
        let mut dropped = Vec::new();
        while let Some(key) = self.unexpected.find(|u| !is_notice(id, u.tag)) {
            dropped.extend(self.unexpected.remove(key).map(|message| (message.from, key)));
        }
        let bolt =
            Unexpected { from: NOBODY, tag: i32::MIN, what: Message::Short { len: 0, data: [0; SHORT] } };
        self.unexpected.push(bolt);
        Revocation {
            requests: self.posted.drain().into_iter().map(|posted| posted.request).collect(),
            dropped,
        }
    }

    pub(crate) fn learn(&mut self, peer: u32, index: u32) {
        if self.revoked {
            return; // the fast way to it stays shut
        }
        let at = peer as usize;
        if self.remote.len() <= at {
            self.remote.resize(at + 1, UNKNOWN);
        }
        self.remote[at] = index;
    }

    #[inline(always)]
    pub(crate) fn post(&mut self, wanted: Wanted, request: RequestId) {
        let Wanted { source, tag, mask } = wanted;
        self.posted.push(Posted { source, tag, mask, request });
    }

    /// Takes a receive out of the posted ones. Whether it was there.
    pub(crate) fn unpost(&mut self, request: RequestId) -> bool {
        self.posted.take_request(request).is_some()
    }

    /// The oldest posted receive, if it wants a message of this source and tag.
    #[inline(always)]
    pub(crate) fn oldest_posted(&self, from: u32, tag: i32) -> Option<RequestId> {
        let oldest = self.posted.first()?;
        oldest.wanted().fits(from, tag).then_some(oldest.request)
    }

    /// Takes the first posted receive that wants a message of this source and tag.
    #[inline]
    pub(crate) fn take_posted(&mut self, from: u32, tag: i32) -> Option<RequestId> {
        self.posted.take_wanting(from, tag).map(|posted| posted.request)
    }

    /// The first unexpected message that a receive wants.
    pub(crate) fn find_unexpected(&mut self, wanted: Wanted) -> Option<u32> {
        self.unexpected.find_wanted(wanted)
    }

    /// Rank of a process in the context's team, -1 if it has none.
    #[inline(always)]
    pub(crate) fn rank_of(&self, process: u32) -> i32 {
        let Some(team) = &self.team else { return -1 };
        match team.map.rank(process) {
            Some(rank) => rank as i32,
            None => -1,
        }
    }
}

/// How many freed indices are kept back, so that a late message to a freed communicator does not find a new one.
const RETIRED: usize = 1024;

/// The index of the context that a lane opens first: the point-to-point context of the world, which all processes call
/// so.
pub const WORLD: u32 = 0;

/// All contexts of a lane.
#[derive(Debug)]
pub(crate) struct Contexts {
    /// Context [`WORLD`]: here, so that the fast ways find it without a look-up. Until it is opened nobody names it.
    world: Context,
    /// The others, of which `WORLD + 1` is the first.
    others: Vec<Context>,
    is_world_open: bool,
    by_id: HashMap<ContextId, u32>,
    retired: VecDeque<u32>,
    /// What went through the unexpected messages of contexts that are closed.
    before: QueueTraffic,
}

/// What went through a queue of unexpected messages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueTraffic {
    /// Messages that came before their receive.
    pub(crate) came: u64,
    /// Those of them that were matched, or that their sender has withdrawn.
    pub(crate) matched: u64,
}

impl QueueTraffic {
    fn of(queue: &UnexpectedQueue) -> QueueTraffic {
        QueueTraffic { came: queue.pushed(), matched: queue.removed() }
    }
}

impl std::ops::AddAssign for QueueTraffic {
    fn add_assign(&mut self, more: QueueTraffic) {
        self.came += more.came;
        self.matched += more.matched;
    }
}

impl Default for Contexts {
    fn default() -> Contexts {
        Contexts {
            world: Context::new(ContextId(u64::MAX)),
            others: Vec::new(),
            is_world_open: false,
            by_id: HashMap::new(),
            retired: VecDeque::new(),
            before: QueueTraffic::default(),
        }
    }
}

impl Contexts {
    #[inline(always)]
    pub(crate) fn get(&self, index: u32) -> Option<&Context> {
        match index.checked_sub(1) {
            None => Some(&self.world),
            Some(other) => self.others.get(other as usize).filter(|context| context.is_open),
        }
    }

    /// As [`Contexts::get`], for calls that need a route there: a context that is not open has none.
    #[inline(always)]
    pub(crate) fn with_routes(&self, index: u32) -> Option<&Context> {
        match index.checked_sub(1) {
            None => Some(&self.world),
            Some(other) => self.others.get(other as usize),
        }
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Context> {
        match index.checked_sub(1) {
            None => Some(&mut self.world),
            Some(other) => self.others.get_mut(other as usize).filter(|context| context.is_open),
        }
    }

    pub(crate) fn index_of(&self, id: ContextId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    /// The index of a context, which is made if a message came for it before the communicator was created here.
    pub(crate) fn adopt(&mut self, id: ContextId) -> u32 {
        if let Some(index) = self.index_of(id) {
            return index;
        }
        let index = if !self.is_world_open {
            self.is_world_open = true;
            self.world = Context::new(id);
            WORLD
        } else {
            let free = if self.retired.len() > RETIRED { self.retired.pop_front() } else { None };
            let index = free.unwrap_or_else(|| {
                self.others.push(Context::new(id));
                self.others.len() as u32
            });
            self.others[index as usize - 1] = Context::new(id);
            index
        };
        self.by_id.insert(id, index);
        index
    }

    /// Forgets a context with all that is in it. The world's is emptied and stays.
    pub(crate) fn retire(&mut self, index: u32) -> Option<Context> {
        if let Some(context) = self.get(index) {
            self.before += QueueTraffic::of(&context.unexpected);
        }
        let Some(other) = index.checked_sub(1) else {
            let id = self.world.id;
            return Some(std::mem::replace(&mut self.world, Context::new(id)));
        };
        let context = self.others.get_mut(other as usize).filter(|context| context.is_open)?;
        let context = std::mem::replace(context, Context { is_open: false, ..Context::new(context.id) });
        self.by_id.remove(&context.id);
        self.retired.push_back(index);
        Some(context)
    }

    /// All that are open.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Context> {
        std::iter::once(&self.world).chain(self.others.iter().filter(|context| context.is_open))
    }

    /// The unexpected message of a process for whose match this request of its waits: its context and its key there.
    pub(crate) fn find_waiting(&mut self, from: u32, request: u64) -> Option<(u32, u32)> {
        let others = (WORLD + 1..).zip(&mut self.others).filter(|(_, context)| context.is_open);
        let mut all = std::iter::once((WORLD, &mut self.world)).chain(others);
        all.find_map(|(index, context)| Some((index, context.unexpected.find_waiting(from, request)?)))
    }

    /// What went through all queues of unexpected messages so far.
    pub(crate) fn traffic(&self) -> QueueTraffic {
        self.iter().fold(self.before, |mut all, context| {
            all += QueueTraffic::of(&context.unexpected);
            all
        })
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Context> {
        std::iter::once(&mut self.world).chain(self.others.iter_mut().filter(|context| context.is_open))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_receive_that_wants_a_message_gets_it() {
        let mut c = Context::new(ContextId::new(0, 1));
        let id = |n| RequestId::from_raw(n);
        c.post(Wanted::new(Source::Any, TagMatch::Is(5)), id(1));
        c.post(Wanted::new(Source::Process(2), TagMatch::Any), id(2));
        c.post(Wanted::new(Source::Process(2), TagMatch::Is(5)), id(3));
        assert_eq!(c.take_posted(2, 5), Some(id(1)));
        assert_eq!(c.take_posted(3, 5), None);
        assert_eq!(c.take_posted(2, 5), Some(id(2)));
        assert_eq!(c.take_posted(2, 4), None);
        assert_eq!(c.take_posted(2, 5), Some(id(3)));
    }

    #[test]
    fn a_route_is_known_when_it_was_noted_and_until_the_context_is_revoked() {
        let mut c = Context::new(ContextId::new(0, 1));
        let route = |c: &Context, rank| c.route(rank).map(|route| (route.process, route.index));
        assert!([-1, 0, i32::MIN].iter().all(|rank| route(&c, *rank).is_none()));
        // What process 9, of rank 2, calls the context is not known yet.
        assert!(c.note_route(4, 2, 9, false) && !c.note_route(4, 2, 9, false));
        assert_eq!((route(&c, 2), route(&c, 1)), (Some((9, UNKNOWN)), Some((UNKNOWN, UNKNOWN))));
        c.learn(9, 7);
        assert!(c.note_route(4, 2, 9, false));
        assert_eq!(route(&c, 2), Some((9, 7)));
        c.symmetric = true;
        assert!(c.note_route(4, 0, 3, false));
        assert_eq!(route(&c, 0), Some((3, 4)));
        c.revoke();
        assert!(!c.note_route(4, 2, 9, false) && route(&c, 2).is_none());
    }

    #[test]
    fn a_wildcard_takes_no_message_of_the_library() {
        let mut c = Context::new(ContextId::new(0, 1));
        let id = |n| RequestId::from_raw(n);
        c.post(Wanted::new(Source::Any, TagMatch::Any), id(1));
        c.post(Wanted::plain(2, Tags::ANY), id(2));
        c.post(Wanted::new(Source::Process(2), TagMatch::Is(!5)), id(3));
        assert_eq!(c.take_posted(2, !5), Some(id(3)));
        assert_eq!(c.take_posted(2, i32::MIN), None);
        assert_eq!(c.take_posted(2, i32::MAX), Some(id(1)));
        assert_eq!(c.take_posted(2, 0), Some(id(2)));
    }

    #[test]
    fn an_index_is_not_reused_soon() {
        let mut all = Contexts::default();
        assert_eq!(all.adopt(ContextId::new(0, 0)), WORLD);
        let first = all.adopt(ContextId::new(0, 1));
        assert_eq!(all.adopt(ContextId::new(0, 1)), first);
        all.retire(first);
        assert_ne!(all.adopt(ContextId::new(0, 2)), first);
        assert!(all.get(first).is_none());
    }
}
