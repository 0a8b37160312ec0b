//! Communicator contexts: the matching of messages and receives in MPI order (MPI-5.0 section 3.5).
//!
//! A context has its posted receives in the order of posting ([`posted`]) and its unexpected
//! messages in the order of arrival ([`unexpected`]). A message takes the first receive that fits,
//! and a receive the first message that fits. So two messages of one sender with the same tag never
//! overtake each other, with or without wildcards.

mod bucket;
mod posted;
mod unexpected;

use crate::request::{MatchSource, RequestId, TagMatch};
use crate::team::Team;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::{Announced, Context as Name, ContextId, Tags};
use posted::PostedQueue;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use unexpected::UnexpectedQueue;

/// In place of the index of a process: any process. As a signed number it is MPI_ANY_SOURCE of the
/// ABI.
pub const ANYBODY: u32 = u32::MAX;
/// In place of the index of a process or context: unknown.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// Up to this number, the posted receives or unexpected messages of a context are compared one
/// after another. More of them are found by an index.
const LINEAR: usize = 64;

/// The tag of a *notice*, a message about the communicator itself ([`crate::Lane::take_notice`]) in
/// its collective context. No receive matches it, as no collective has this tag.
pub const NOTICE_TAG: i32 = i32::MAX;
/// No process: the sender of the message that closes the fast paths of a revoked context. No
/// receive from MPI_ANY_SOURCE matches its negative tag.
const NOBODY: u32 = u32::MAX - 1;

#[derive(Debug, Default)]
pub(crate) struct Revocation {
    pub(crate) requests: Vec<RequestId>,
    /// Sender and key of the unexpected messages that were dropped.
    pub(crate) dropped: Vec<(u32, u32)>,
}

pub(crate) fn is_notice(context: ContextId, tag: i32) -> bool {
    tag == NOTICE_TAG && context.is_collective()
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PostedReceive {
    source: u32,
    tag: i32,
    mask: i32,
    pub(crate) request: RequestId,
}

impl PostedReceive {
    /// `None` for any tag.
    pub(crate) fn tag(&self) -> Option<i32> {
        (self.mask == Tags::one(self.tag).mask).then_some(self.tag)
    }

    #[inline(always)]
    fn pattern(&self) -> MatchPattern {
        MatchPattern { source: self.source, tag: self.tag, mask: self.mask }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MatchPattern {
    source: u32,
    tag: i32,
    mask: i32,
}

impl MatchPattern {
    #[inline]
    pub(crate) fn new(source: MatchSource, tag: TagMatch) -> MatchPattern {
        let source = match source {
            MatchSource::Any => ANYBODY,
            MatchSource::Process(p) => p,
        };
        MatchPattern::plain(source, tag.into())
    }

    #[inline(always)]
    pub(crate) fn plain(source: u32, tags: Tags) -> MatchPattern {
        MatchPattern { source, tag: tags.tag, mask: tags.mask }
    }

    #[inline(always)]
    pub(crate) fn fits(&self, from: u32, tag: i32) -> bool {
        (self.source == from || self.source == ANYBODY) && (self.tag ^ tag) & self.mask == 0
    }
}

#[derive(Debug)]
pub(crate) struct Unexpected {
    pub(crate) from: u32,
    pub(crate) tag: i32,
    pub(crate) content: UnexpectedData,
}

/// The longest message, in bytes, whose data are stored with its envelope.
pub(crate) const SHORT: usize = 56;

#[derive(Debug)]
pub(crate) enum UnexpectedData {
    /// The whole data of a short message, whose sender does not wait for the match.
    Short { len: u8, data: [u8; SHORT] },
    /// The data that have arrived, and the sender's request if the sender waits for the match.
    Eager { data: Vec<u8>, total: usize, sync: Option<u64> },
    Rendezvous {
        announced: Announced,
        /// The beginning of the message, which came with the announcement.
        first: Vec<u8>,
    },
    /// A send of this process to itself; its request has the data.
    Own { request: RequestId, length: usize },
    /// A message that a matched probe has taken, whose data are still in the network.
    InNetwork { name: u64, length: u64 },
    /// The data were lost with the sender. The message stays queued, so that the receive that
    /// matches it fails instead of getting a later message.
    Broken { length: u64 },
}

impl UnexpectedData {
    /// The message, if `bytes` are all its data and at most [`SHORT`] bytes.
    #[inline(always)]
    pub(crate) fn short(bytes: Bytes<'_>) -> Option<UnexpectedData> {
        let mut data = [0; SHORT];
        let len = bytes.len() as u8;
        bytes
            .copy_if_it_fits(BytesMut::from(&mut data[..]))
            .then_some(UnexpectedData::Short { len, data })
    }

    pub(crate) fn needs_sender(&self) -> bool {
        match self {
            UnexpectedData::Eager { data, total, .. } => data.len() < *total,
            UnexpectedData::Rendezvous { .. } => true,
            UnexpectedData::Short { .. }
            | UnexpectedData::Own { .. }
            | UnexpectedData::InNetwork { .. }
            | UnexpectedData::Broken { .. } => false,
        }
    }

    /// The request of another process that waits for the match.
    pub(crate) fn waiting(&self) -> Option<u64> {
        match *self {
            UnexpectedData::Eager { sync, .. } => sync,
            UnexpectedData::Rendezvous { announced, .. } => Some(announced.request),
            UnexpectedData::Short { .. }
            | UnexpectedData::Own { .. }
            | UnexpectedData::InNetwork { .. }
            | UnexpectedData::Broken { .. } => None,
        }
    }

    /// In bytes.
    pub(crate) fn length(&self) -> u64 {
        match self {
            UnexpectedData::Short { len, .. } => u64::from(*len),
            UnexpectedData::Eager { total, .. } => *total as u64,
            UnexpectedData::Rendezvous { announced, .. } => announced.length,
            UnexpectedData::Own { length, .. } => *length as u64,
            UnexpectedData::InNetwork { length, .. } | UnexpectedData::Broken { length } => *length,
        }
    }
}

/// The process and the index of a rank of a context's team.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankRoute {
    /// [`UNKNOWN`] until [`Context::note_route`].
    pub(crate) process: u32,
    /// The process's index of the context; [`UNKNOWN`] until it is learned.
    pub(crate) index: u32,
}

impl RankRoute {
    const UNKNOWN: RankRoute = RankRoute { process: UNKNOWN, index: UNKNOWN };
}

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) id: ContextId,
    /// `None` if messages have arrived before this process has created the communicator.
    pub(crate) team: Option<Arc<Team>>,
    /// Whether all processes have the same index for the context (world and self).
    pub(crate) symmetric: bool,
    pub(crate) revoked: bool,
    is_open: bool,
    /// Whether this process has finalised since it opened the context, and sends nothing more
    /// there.
    pub(crate) is_finalized: bool,
    /// The program knows of the first `acknowledged` lost members: they no longer end receives from
    /// MPI_ANY_SOURCE.
    pub(crate) acknowledged: usize,
    /// The index of the context in each process, by process index, as far as it is known.
    remote: Vec<u32>,
    /// The routes of the ranks that were used, by rank. Empty in a revoked context.
    routes: Vec<RankRoute>,
    pub(crate) posted: PostedQueue,
    pub(crate) unexpected: UnexpectedQueue,
    /// Whether all messages go in frames, even where the network matches.
    pub(crate) keeps_to_frames: bool,
    /// Processes from which the index was requested ([`oxmpi_wire::Frame::AskIndex`]).
    pub(crate) index_requested: Vec<u32>,
    /// A receive that the network may have matched, while a message for it has arrived in a frame.
    /// Nothing else is matched in the context until the result is known.
    pub(crate) contested: Option<Contest>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Contest {
    pub(crate) receive: RequestId,
    /// The unexpected message that the receive gets if the network gives it none.
    pub(crate) key: u32,
    /// Set if the sender of that message withdraws it meanwhile.
    pub(crate) withdrawal: Option<Withdrawal>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Withdrawal {
    Own(RequestId),
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
            index_requested: Vec::new(),
            contested: None,
        }
    }

    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.posted.is_empty() && self.unexpected.is_empty()
    }

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

    #[inline(always)]
    pub(crate) fn route(&self, rank: i32) -> Option<RankRoute> {
        // Converted to an unsigned number, a negative rank exceeds all ranks.
        self.routes.get(rank as u32 as usize).copied()
    }

    /// Records the route of a rank for later calls, without an index if its messages go by tag.
    /// Returns whether the route is new.
    pub(crate) fn note_route(
        &mut self,
        own_index: u32,
        rank: u32,
        process: u32,
        by_tag: bool,
    ) -> bool {
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

    /// Revokes the context; nothing happens if it was revoked before. A message that no receive can
    /// match stays in the context for ever: it closes the fast paths, which need a context without
    /// messages, at no cost to them.
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
        // Notices keep their keys, as the rest of a long notice may still arrive.
        let id = self.id;
        let mut dropped = Vec::new();
        while let Some(key) = self.unexpected.find(|u| !is_notice(id, u.tag)) {
            dropped.extend(self.unexpected.remove(key).map(|message| (message.from, key)));
        }
        let bolt = Unexpected {
            from: NOBODY,
            tag: i32::MIN,
            content: UnexpectedData::Short { len: 0, data: [0; SHORT] },
        };
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
    pub(crate) fn post(&mut self, wanted: MatchPattern, request: RequestId) {
        let MatchPattern { source, tag, mask } = wanted;
        self.posted.push(PostedReceive { source, tag, mask, request });
    }

    pub(crate) fn unpost(&mut self, request: RequestId) -> bool {
        self.posted.take_request(request).is_some()
    }

    #[inline(always)]
    pub(crate) fn oldest_posted(&self, from: u32, tag: i32) -> Option<RequestId> {
        let oldest = self.posted.first()?;
        oldest.pattern().fits(from, tag).then_some(oldest.request)
    }

    #[inline]
    pub(crate) fn take_posted(&mut self, from: u32, tag: i32) -> Option<RequestId> {
        self.posted.take_matching(from, tag).map(|posted| posted.request)
    }

    pub(crate) fn find_unexpected(&mut self, wanted: MatchPattern) -> Option<u32> {
        self.unexpected.find_match(wanted)
    }

    /// The rank of a process in the context's team; -1 if it has none.
    #[inline(always)]
    pub(crate) fn rank_of(&self, process: u32) -> i32 {
        let Some(team) = &self.team else { return -1 };
        match team.map.rank(process) {
            Some(rank) => rank as i32,
            None => -1,
        }
    }
}

/// Freed indices that are not reused yet, so that a late message for a freed communicator does not
/// reach a new one.
const RETIRED: usize = 1024;

/// The index of the context that a lane opens first, the same in all processes: the point-to-point
/// context of the world.
pub const WORLD: u32 = 0;

#[derive(Debug)]
pub(crate) struct Contexts {
    /// Context [`WORLD`], separate so that fast paths need no search. No envelope names it before
    /// it is opened.
    world: Context,
    others: Vec<Context>,
    is_world_open: bool,
    by_id: HashMap<ContextId, u32>,
    retired: VecDeque<u32>,
    before: QueueTraffic,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueTraffic {
    pub(crate) came: u64,
    /// Messages that were matched or withdrawn.
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

    /// As [`Contexts::get`], for calls that need a route, which only an open context has.
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

    /// The index of a context. If a message arrives before its communicator is created here, the
    /// context is created.
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

    /// Removes a context with its contents. The world's context stays, empty.
    pub(crate) fn retire(&mut self, index: u32) -> Option<Context> {
        if let Some(context) = self.get(index) {
            self.before += QueueTraffic::of(&context.unexpected);
        }
        let Some(other) = index.checked_sub(1) else {
            let id = self.world.id;
            return Some(std::mem::replace(&mut self.world, Context::new(id)));
        };
        let context = self.others.get_mut(other as usize).filter(|context| context.is_open)?;
        let context =
            std::mem::replace(context, Context { is_open: false, ..Context::new(context.id) });
        self.by_id.remove(&context.id);
        self.retired.push_back(index);
        Some(context)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Context> {
        std::iter::once(&self.world).chain(self.others.iter().filter(|context| context.is_open))
    }

    /// The context and key of an unexpected message whose sender waits for its match by `request`.
    pub(crate) fn find_waiting(&mut self, from: u32, request: u64) -> Option<(u32, u32)> {
        let others = (WORLD + 1..).zip(&mut self.others).filter(|(_, context)| context.is_open);
        let mut all = std::iter::once((WORLD, &mut self.world)).chain(others);
        all.find_map(|(index, context)| {
            Some((index, context.unexpected.find_waiting(from, request)?))
        })
    }

    pub(crate) fn traffic(&self) -> QueueTraffic {
        self.iter().fold(self.before, |mut all, context| {
            all += QueueTraffic::of(&context.unexpected);
            all
        })
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Context> {
        std::iter::once(&mut self.world)
            .chain(self.others.iter_mut().filter(|context| context.is_open))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_receive_that_wants_a_message_gets_it() {
        let mut c = Context::new(ContextId::new(0, 1));
        let id = |n| RequestId::from_raw(n);
        c.post(MatchPattern::new(MatchSource::Any, TagMatch::Is(5)), id(1));
        c.post(MatchPattern::new(MatchSource::Process(2), TagMatch::Any), id(2));
        c.post(MatchPattern::new(MatchSource::Process(2), TagMatch::Is(5)), id(3));
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
        c.post(MatchPattern::new(MatchSource::Any, TagMatch::Any), id(1));
        c.post(MatchPattern::plain(2, Tags::ANY), id(2));
        c.post(MatchPattern::new(MatchSource::Process(2), TagMatch::Is(!5)), id(3));
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
