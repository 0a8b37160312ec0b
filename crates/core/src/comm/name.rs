//! Names of new communicators, and the broadcast of a name.

use super::{CommShape, Communicator, Heritage, words};
use crate::Process;
use crate::choice::nodes_of;
use crate::failure::check_alive;
use crate::process::{Domain, Then};
use crate::shmem::Control;
use oxmpi_coll::{Buffers, Combine};
use oxmpi_engine::{RankMap, RequestId, Team};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Owned;
use oxmpi_objects::error::Result;
use oxmpi_plan::{Call, Shared};
use oxmpi_sys::bytes::BytesMut;
use oxmpi_wire::ContextId;
use std::sync::Arc;

/// The name of a new communicator: its context, and the index and generation of the first of two
/// control sections of its lowest rank. An intercommunicator also has the next two contexts, for
/// its groups, and no section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(super) id: ContextId,
    section: Option<(u32, u64)>,
}

impl Name {
    pub(super) const WORDS: usize = 3;
    const BYTES: usize = 8 * Name::WORDS;
    const NO_SECTION: u64 = u64::MAX;
    pub(super) const NONE: Name = Name::of_inter(ContextId(0));

    pub(crate) const fn of_inter(id: ContextId) -> Name {
        Name { id, section: None }
    }

    pub(super) fn encode(&self) -> [u64; Name::WORDS] {
        let (index, generation) =
            self.section.map_or((Name::NO_SECTION, 0), |(i, g)| (u64::from(i), g));
        [self.id.0, index, generation]
    }

    pub(super) fn decode(words: &[u64], n: usize) -> Name {
        let word = |at: usize| words.get(n + at).copied().unwrap_or(0);
        let index = u32::try_from(word(1)).ok().filter(|index| *index < u32::MAX);
        Name { id: ContextId(word(0)), section: index.map(|index| (index, word(2))) }
    }
}

#[derive(Debug)]
pub(crate) struct Naming {
    pub(super) request: RequestId,
    broadcast: NameBroadcast,
}

#[derive(Clone, Debug)]
struct NameBroadcast {
    words: UserBuf,
    mine: Option<Name>,
}

impl NameBroadcast {
    fn name(&self) -> Name {
        let mut bytes = [0u8; Name::BYTES];
        self.words.pack(0, BytesMut::from(&mut bytes[..]));
        Name::decode(&words(&bytes), 0)
    }
}

impl<F: Fabric> Process<F> {
    /// Draws a name for an intercommunicator, or for a communicator of a team's processes in which
    /// this process has the lowest rank.
    pub(super) fn new_name(&self, team: &Team, inter: bool) -> Result<Name> {
        if inter {
            return Ok(Name::of_inter(self.new_context_ids(3)?));
        }
        let id = self.new_context_ids(1)?;
        // All processes must use a control section alike, but processes of other launchers can have
        // other parameters.
        if !self.are_near(&team.map) {
            return Ok(Name { id, section: None });
        }
        let mut domain = self.domain.lock();
        // After a failure no communicator is made; see `release_name`.
        let section = match check_alive(&domain.lane, team) {
            Ok(()) => domain.lane.fabric_mut().reserve_control_sections(),
            Err(_) => None,
        };
        Ok(Name { id, section })
    }

    /// Releases a name that no process uses: it was sent to none, or all processes decide so.
    ///
    /// A name whose broadcast a failure has interrupted stays reserved: some processes may use its
    /// control section until they learn of the failure, and the next team would take those words
    /// for its own.
    pub(super) fn release_name(&self, name: Name) {
        self.domain.lock().release_name(name);
    }

    fn new_broadcast(&self, team: &Team, inter: bool) -> Result<NameBroadcast> {
        let mine = if team.rank == 0 { Some(self.new_name(team, inter)?) } else { None };
        let words = Owned::new(mine.unwrap_or(Name::NONE).encode().to_vec()).buf();
        Ok(NameBroadcast { words, mine })
    }

    fn start_broadcast(
        &self,
        at: (&Arc<Team>, i32),
        broadcast: NameBroadcast,
        then: Option<Then<F>>,
    ) -> Result<Naming> {
        let buffers =
            Buffers { input: UserBuf::empty(), output: broadcast.words.clone(), element: None };
        let call = Call::Bcast { root: 0, bytes: Shared(Name::BYTES) };
        match self.start_in(at, call, buffers, Combine::Nothing, None, then) {
            Ok(request) => Ok(Naming { request, broadcast }),
            Err(error) => {
                broadcast.mine.into_iter().for_each(|name| self.release_name(name));
                Err(error)
            }
        }
    }

    pub(super) fn start_naming(&self, at: (&Arc<Team>, i32), inter: bool) -> Result<Naming> {
        self.start_broadcast(at, self.new_broadcast(at.0, inter)?, None)
    }

    /// [`Process::start_naming`], which makes the communicator and passes it to `deliver` just
    /// before the request is complete.
    pub(super) fn start_naming_then(
        &self,
        at: (&Arc<Team>, i32),
        (shape, heritage): (CommShape, Heritage),
        deliver: impl FnOnce(&mut Domain<F>, Communicator) + Send + 'static,
    ) -> Result<RequestId> {
        let broadcast = self.new_broadcast(at.0, shape.is_inter())?;
        let received = broadcast.clone();
        // After a failure here the name stays reserved; see `release_name`.
        let then: Then<F> = Box::new(move |domain, outcome| {
            if outcome.is_ok() {
                let made = domain.open(shape, received.name(), heritage);
                deliver(domain, made);
            }
        });
        self.start_broadcast(at, broadcast, Some(then)).map(|naming| naming.request)
    }

    pub(super) fn finish_naming(
        &self,
        naming: &Naming,
        shape: CommShape,
        heritage: Heritage,
    ) -> Communicator {
        self.domain.lock().open(shape, naming.broadcast.name(), heritage)
    }

    pub(super) fn wait_for_name(
        &self,
        naming: &Naming,
        shape: CommShape,
        heritage: Heritage,
    ) -> Result<Communicator> {
        // After a failure here the name stays reserved; see `release_name`.
        self.wait(naming.request)?;
        Ok(self.finish_naming(naming, shape, heritage))
    }
}

impl<F: Fabric> Domain<F> {
    pub(crate) fn open(
        &mut self,
        shape: CommShape,
        name: Name,
        heritage: Heritage,
    ) -> Communicator {
        self.reap();
        let mut communicator = match shape {
            CommShape::Intra { map, rank } => {
                let control = match (map.process(0), name.section) {
                    (Some(leader), Some((index, generation))) if self.may_share_section(&map) => {
                        // Processes of other jobs may have another value.
                        let is_oversubscribed =
                            self.is_oversubscribed && self.choice.is_of_job(&map);
                        Some(Control::pair(leader, index, generation, is_oversubscribed))
                    }
                    _ => None,
                };
                if control.is_none() && rank == 0 {
                    self.release_name(name);
                }
                let team = self.lane.open_team(map, rank, name.id, false);
                Communicator::new(team, heritage, control)
            }
            CommShape::Inter(shape) => {
                let (team, inter) = shape.open(&mut self.lane, name.id);
                Communicator::new_inter(team, inter, heritage)
            }
        };
        let map = &communicator.collective_team().map;
        let nodes = nodes_of(self.lane.fabric_mut(), map, self.choice.job());
        if !self.choice.is_of_job(map) {
            communicator.forget_component();
        }
        communicator.set_nodes(nodes);
        self.note_handler(&communicator);
        self.note_opened(communicator.union());
        self.note_origin(&communicator);
        self.choice.report_components(&communicator);
        for process in self.foreign.bound(&communicator) {
            self.lane.fabric_mut().attach(process);
        }
        communicator
    }

    pub(crate) fn open_unshared(
        &mut self,
        shape: CommShape,
        id: ContextId,
        heritage: Heritage,
    ) -> Communicator {
        self.open(shape, Name { id, section: None }, heritage)
    }

    pub(crate) fn may_share_section(&mut self, map: &RankMap) -> bool {
        let all = (0..map.size()).filter_map(|rank| map.process(rank));
        self.lane.fabric_mut().may_share_section(map.size(), all)
    }

    fn release_name(&mut self, name: Name) {
        if let Some((index, _)) = name.section {
            for index in [index, index + 1] {
                self.lane.fabric_mut().release_control_section(index, None);
            }
        }
    }
}
