//! What a new communicator is called, and how its processes come to know it.

use super::{Communicator, Heritage, Shape, words};
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

/// What a new communicator is called: its context, and the first of two control sections of its lowest rank. An intercommunicator
/// has the next two contexts as well, for its two groups, and no section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(super) id: ContextId,
    section: Option<(u32, u64)>,
}

impl Name {
    /// Words of its written form, and their bytes.
    pub(super) const WORDS: usize = 3;
    const BYTES: usize = 8 * Name::WORDS;
    const NO_SECTION: u64 = u64::MAX;
    /// Stands where a name is written and there is none.
    pub(super) const NONE: Name = Name::of_inter(ContextId(0));

    /// The name of an intercommunicator, from the first of its three contexts.
    pub(crate) const fn of_inter(id: ContextId) -> Name {
        Name { id, section: None }
    }

    pub(super) fn encode(&self) -> [u64; Name::WORDS] {
        let (index, generation) = self.section.map_or((Name::NO_SECTION, 0), |(i, g)| (u64::from(i), g));
        [self.id.0, index, generation]
    }

    /// The name that begins with the `n`th word.
    pub(super) fn decode(words: &[u64], n: usize) -> Name {
        let word = |at: usize| words.get(n + at).copied().unwrap_or(0);
        let index = u32::try_from(word(1)).ok().filter(|index| *index < u32::MAX);
        Name { id: ContextId(word(0)), section: index.map(|index| (index, word(2))) }
    }
}

/// The first rank of a team tells the others how a new communicator is called.
#[derive(Debug)]
pub(crate) struct Naming {
    /// Complete when it is told.
    pub(super) request: RequestId,
    told: Told,
}

#[derive(Clone, Debug)]
struct Told {
    words: UserBuf,
    /// What this process has thought of, if it is the first.
    mine: Option<Name>,
}

impl Told {
    fn name(&self) -> Name {
        let mut bytes = [0u8; Name::BYTES];
        self.words.pack(0, BytesMut::from(&mut bytes[..]));
        Name::decode(&words(&bytes), 0)
    }
}

impl<F: Fabric> Process<F> {
    /// A name for a communicator of processes of this team, of which this one is the lowest; or for an intercommunicator.
    pub(super) fn new_name(&self, team: &Team, inter: bool) -> Result<Name> {
        if inter {
            return Ok(Name::of_inter(self.new_context_ids(3)?));
        }
        let id = self.new_context_ids(1)?;
        // What is in a control section all processes must do alike, and those of another launcher can have other parameters.
        if !self.are_near(&team.map) {
            return Ok(Name { id, section: None });
        }
        let mut domain = self.domain.lock();
        // Where a process has failed already there will be no communicator: see `release_name`.
        let section = match check_alive(&domain.lane, team) {
            Ok(()) => domain.lane.fabric_mut().reserve_control_sections(),
            Err(_) => None,
        };
        Ok(Name { id, section })
    }

    /// No communicator got this name, at any process: nobody was told of it, or all decide alike.
    ///
    /// A name that was being told when a process failed is never released. Some may have heard it, use its control section
    /// until they learn of the failure, and leave words there that the next team would take for its own. Such a section stays
    /// taken, as does that of a communicator of which a process has died.
    pub(super) fn release_name(&self, name: Name) {
        self.domain.lock().release_name(name);
    }

    fn to_be_told(&self, team: &Team, inter: bool) -> Result<Told> {
        let mine = if team.rank == 0 { Some(self.new_name(team, inter)?) } else { None };
        let words = Owned::new(mine.unwrap_or(Name::NONE).encode().to_vec()).buf();
        Ok(Told { words, mine })
    }

    fn tell(&self, at: (&Arc<Team>, i32), told: Told, then: Option<Then<F>>) -> Result<Naming> {
        let buffers = Buffers { input: UserBuf::empty(), output: told.words.clone(), element: None };
        let call = Call::Bcast { root: 0, bytes: Shared(Name::BYTES) };
        match self.start_in(at, call, buffers, Combine::Nothing, None, then) {
            Ok(request) => Ok(Naming { request, told }),
            Err(error) => {
                told.mine.into_iter().for_each(|name| self.release_name(name));
                Err(error)
            }
        }
    }

    /// The first rank of the team thinks of a name and tells it to the others.
    pub(super) fn start_naming(&self, at: (&Arc<Team>, i32), inter: bool) -> Result<Naming> {
        self.tell(at, self.to_be_told(at.0, inter)?, None)
    }

    /// As [`Process::start_naming`]; the communicator is made when its name is told, just before the request is
    /// complete. `deliver` is called by whoever makes progress, with the lane locked.
    pub(super) fn start_naming_then(
        &self,
        at: (&Arc<Team>, i32),
        (shape, heritage): (Shape, Heritage),
        deliver: impl FnOnce(Communicator) + Send + 'static,
    ) -> Result<RequestId> {
        let told = self.to_be_told(at.0, shape.is_inter())?;
        let heard = told.clone();
        // If it fails the name is not released: see `release_name`.
        let then: Then<F> = Box::new(move |domain, outcome| {
            if outcome.is_ok() {
                deliver(domain.open(shape, heard.name(), heritage));
            }
        });
        self.tell(at, told, Some(then)).map(|naming| naming.request)
    }

    /// As [`Process::start_naming_then`]; the communicator is closed as soon as it is made.
    pub(super) fn start_naming_for_others(
        &self,
        at: (&Arc<Team>, i32),
        (shape, heritage): (Shape, Heritage),
    ) -> Result<RequestId> {
        let told = self.to_be_told(at.0, shape.is_inter())?;
        let heard = told.clone();
        // If it fails the name is not released: see `release_name`.
        let then: Then<F> = Box::new(move |domain, outcome| {
            if outcome.is_ok() {
                let made = domain.open(shape, heard.name(), heritage);
                domain.closing.extend(made.teams().cloned());
                domain.foreign.released(&made);
            }
        });
        self.tell(at, told, Some(then)).map(|naming| naming.request)
    }

    /// The communicator, when the request is complete.
    pub(super) fn finish_naming(&self, naming: &Naming, shape: Shape, heritage: Heritage) -> Communicator {
        self.domain.lock().open(shape, naming.told.name(), heritage)
    }

    /// Waits until the name is told, and makes the communicator.
    pub(super) fn wait_for_name(
        &self,
        naming: &Naming,
        shape: Shape,
        heritage: Heritage,
    ) -> Result<Communicator> {
        // If that fails the name is not released: see `release_name`.
        self.wait(naming.request)?;
        Ok(self.finish_naming(naming, shape, heritage))
    }
}

impl<F: Fabric> Domain<F> {
    /// Makes the communicator of this name.
    pub(crate) fn open(&mut self, shape: Shape, name: Name, heritage: Heritage) -> Communicator {
        self.reap();
        let mut communicator = match shape {
            Shape::Intra { map, rank } => {
                let control = match (map.process(0), name.section) {
                    (Some(leader), Some((index, generation))) if self.may_share_section(&map) => {
                        // Processes of another job may have been told something else.
                        let is_crowded = self.is_crowded && self.choice.is_of_job(&map);
                        Some(Control::pair(leader, index, generation, is_crowded))
                    }
                    _ => None,
                };
                if control.is_none() && rank == 0 {
                    self.release_name(name);
                }
                let team = self.lane.open_team(map, rank, name.id, false);
                Communicator::new(team, heritage, control)
            }
            Shape::Inter(shape) => {
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
        self.choice.tell_of(&communicator);
        for process in self.foreign.bound(&communicator) {
            self.lane.fabric_mut().attach(process);
        }
        communicator
    }

    /// As [`Domain::open`], from the first of its contexts: a communicator without a control section.
    pub(crate) fn open_unshared(&mut self, shape: Shape, id: ContextId, heritage: Heritage) -> Communicator {
        self.open(shape, Name { id, section: None }, heritage)
    }

    /// Whether a control section may serve these processes.
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
