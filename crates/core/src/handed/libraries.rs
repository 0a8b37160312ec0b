//! UCC and HCOLL: their parameters, and their state in a process and in its communicators.

use super::Handed;
use super::creation::UccTeamInCreation;
use super::hcoll::{HcollContextInCreation, HcollProcess};
use oxmpi_engine::Lane;
use oxmpi_fabric::Fabric;
use oxmpi_hcoll::{Hcoll, HcollContext};
use oxmpi_tuned::Component;
use oxmpi_ucc::{UccContext, UccLibrary};
use std::fmt;
use std::time::Duration;

/// The parameters of both libraries.
#[derive(Clone, Debug, Default)]
pub struct HandedSettings {
    pub ucc: LibrarySettings,
    pub hcoll: LibrarySettings,
    pub job: u32,
}

/// The parameters of one library.
#[derive(Clone, Debug, Default)]
pub struct LibrarySettings {
    /// The file of the library (`coll_ucc_library`, `coll_hcoll_library`).
    pub library: String,
    /// The layers that UCC may use (`coll_ucc_cls`).
    pub layers: String,
    pub verbose: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CollLibrary {
    Ucc,
    Hcoll,
}

impl CollLibrary {
    pub(crate) fn of(component: Component) -> Option<CollLibrary> {
        match component {
            Component::Ucc => Some(CollLibrary::Ucc),
            Component::Hcoll => Some(CollLibrary::Hcoll),
            _ => None,
        }
    }

    pub(crate) fn component(self) -> Component {
        match self {
            CollLibrary::Ucc => Component::Ucc,
            CollLibrary::Hcoll => Component::Hcoll,
        }
    }

    pub(super) fn team(self) -> &'static str {
        match self {
            CollLibrary::Ucc => "team",
            CollLibrary::Hcoll => "context",
        }
    }
}

impl fmt::Display for CollLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CollLibrary::Ucc => "UCC",
            CollLibrary::Hcoll => "HCOLL",
        })
    }
}

#[derive(Debug, Default)]
pub(crate) struct HandedLibraries {
    ucc: Option<Box<Handed>>,
    hcoll: Option<Box<Handed>>,
}

impl HandedLibraries {
    pub(crate) fn of(&mut self, library: CollLibrary) -> &mut Option<Box<Handed>> {
        match library {
            CollLibrary::Ucc => &mut self.ucc,
            CollLibrary::Hcoll => &mut self.hcoll,
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Handed> {
        [&mut self.ucc, &mut self.hcoll].into_iter().flatten().map(Box::as_mut)
    }

    pub(crate) fn nap(&self) -> Option<Duration> {
        [&self.ucc, &self.hcoll].into_iter().flatten().filter_map(|handed| handed.nap()).min()
    }

    pub(crate) fn leave(&mut self) {
        self.all().for_each(Handed::leave);
    }

    pub(crate) fn is_busy(&self, context: u32) -> bool {
        [&self.ucc, &self.hcoll].into_iter().flatten().any(|handed| handed.is_busy(context))
    }

    pub(crate) fn forget<F: Fabric>(&mut self, context: u32, lane: &mut Lane<F>) {
        self.all().for_each(|handed| handed.forget(context, lane));
    }
}

pub(super) enum Backend {
    Ucc(UccContext),
    Hcoll(HcollProcess),
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Backend::Ucc(context) => context.library().fmt(f),
            Backend::Hcoll(process) => process.library().fmt(f),
        }
    }
}

pub(super) enum MadeTeam {
    Ucc(oxmpi_ucc::UccTeam),
    Hcoll(HcollContext),
}

impl MadeTeam {
    /// Leaves the team to its library for good, with all calls that are under way in it.
    pub(super) fn abandon(self) {
        match self {
            MadeTeam::Ucc(team) => team.abandon(),
            MadeTeam::Hcoll(context) => context.abandon(),
        }
    }
}

pub(super) enum TeamInCreation {
    Ucc(UccTeamInCreation),
    Hcoll(HcollContextInCreation),
}

impl TeamInCreation {
    pub(super) fn new(library: CollLibrary) -> TeamInCreation {
        match library {
            CollLibrary::Ucc => TeamInCreation::Ucc(UccTeamInCreation::default()),
            CollLibrary::Hcoll => TeamInCreation::Hcoll(HcollContextInCreation::default()),
        }
    }

    pub(super) fn number(&self) -> Option<u64> {
        match self {
            TeamInCreation::Ucc(creation) => creation.number(),
            TeamInCreation::Hcoll(_) => None,
        }
    }

    pub(super) fn release<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        match self {
            TeamInCreation::Ucc(creation) => creation.release(lane),
            TeamInCreation::Hcoll(creation) => creation.release(lane),
        }
    }
}

/// The version and file of the UCC library with this name, or the reason why it cannot be used.
pub fn find_ucc(library: &str) -> Result<String, String> {
    let found = UccLibrary::open(library)
        .and_then(|found| found.find_modules().map(|()| found.to_string()));
    found.map_err(|error| error.to_string())
}

/// The version and file of the HCOLL library with this name, or the reason why it cannot be used.
pub fn find_hcoll(library: &str) -> Result<String, String> {
    Hcoll::open(library).map(|library| library.to_string()).map_err(|error| error.to_string())
}
