//! The two libraries: what parameters say about them, and what a process and its communicators have of each.

use super::Handed;
use super::creation::TeamInMaking;
use super::hcoll::{GroupInMaking, HcollProcess};
use oxmpi_engine::Lane;
use oxmpi_fabric::Fabric;
use oxmpi_hcoll::{Hcoll, HcollContext};
use oxmpi_tuned::Component;
use oxmpi_ucc::{UccContext, UccLibrary};
use std::fmt;
use std::time::Duration;

/// What parameters say about the libraries.
#[derive(Clone, Debug, Default)]
pub struct HandedSettings {
    /// Of UCC.
    pub ucc: LibrarySettings,
    /// Of HCOLL.
    pub hcoll: LibrarySettings,
    /// The number of this job.
    pub job: u32,
}

/// What parameters say about one of them.
#[derive(Clone, Debug, Default)]
pub struct LibrarySettings {
    /// Its file (`coll_ucc_library`, `coll_hcoll_library`).
    pub library: String,
    /// The layers that it may use (`coll_ucc_cls`).
    pub layers: String,
    /// How much is said (`coll_ucc_verbose`, `coll_hcoll_verbose`).
    pub verbose: u32,
}

/// A library to which collectives are handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CollLibrary {
    Ucc,
    Hcoll,
}

impl CollLibrary {
    /// That of a component.
    pub(crate) fn of(component: Component) -> Option<CollLibrary> {
        match component {
            Component::Ucc => Some(CollLibrary::Ucc),
            Component::Hcoll => Some(CollLibrary::Hcoll),
            _ => None,
        }
    }

    /// The component that hands collectives to it.
    pub(crate) fn component(self) -> Component {
        match self {
            CollLibrary::Ucc => Component::Ucc,
            CollLibrary::Hcoll => Component::Hcoll,
        }
    }

    /// What it has for each communicator, in its own words.
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

/// What this process has of both libraries, each once a collective was handed to it.
#[derive(Debug, Default)]
pub(crate) struct HandedLibraries {
    ucc: Option<Box<Handed>>,
    hcoll: Option<Box<Handed>>,
}

impl HandedLibraries {
    /// What there is of one.
    pub(crate) fn of(&mut self, library: CollLibrary) -> &mut Option<Box<Handed>> {
        match library {
            CollLibrary::Ucc => &mut self.ucc,
            CollLibrary::Hcoll => &mut self.hcoll,
        }
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Handed> {
        [&mut self.ucc, &mut self.hcoll].into_iter().flatten().map(Box::as_mut)
    }

    /// How long a process may sleep at most; `None`: none of them has anything to do.
    pub(crate) fn nap(&self) -> Option<Duration> {
        [&self.ucc, &self.hcoll].into_iter().flatten().filter_map(|handed| handed.nap()).min()
    }

    /// The process sends nothing more: from now on others may close their connections.
    pub(crate) fn leave(&mut self) {
        self.all().for_each(Handed::leave);
    }

    /// Whether a library still sends something in the communicator of this collective context.
    pub(crate) fn is_busy(&self, context: u32) -> bool {
        [&self.ucc, &self.hcoll].into_iter().flatten().any(|handed| handed.is_busy(context))
    }

    /// The communicator of this collective context is gone, and nothing is under way in it.
    pub(crate) fn forget<F: Fabric>(&mut self, context: u32, lane: &mut Lane<F>) {
        self.all().for_each(|handed| handed.forget(context, lane));
    }
}

/// What a process has of a library, to which all its teams belong.
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

/// A team that was made.
pub(super) enum MadeTeam {
    Ucc(oxmpi_ucc::UccTeam),
    Hcoll(HcollContext),
}

impl MadeTeam {
    /// Leaves it to its library for good, whatever is under way in it.
    pub(super) fn abandon(self) {
        match self {
            MadeTeam::Ucc(team) => team.abandon(),
            MadeTeam::Hcoll(context) => context.abandon(),
        }
    }
}

/// A team in the making.
pub(super) enum InMaking {
    Ucc(TeamInMaking),
    Hcoll(GroupInMaking),
}

impl InMaking {
    pub(super) fn new(library: CollLibrary) -> InMaking {
        match library {
            CollLibrary::Ucc => InMaking::Ucc(TeamInMaking::default()),
            CollLibrary::Hcoll => InMaking::Hcoll(GroupInMaking::default()),
        }
    }

    pub(super) fn number(&self) -> Option<u64> {
        match self {
            InMaking::Ucc(making) => making.number(),
            InMaking::Hcoll(_) => None,
        }
    }

    pub(super) fn release<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        match self {
            InMaking::Ucc(making) => making.release(lane),
            InMaking::Hcoll(making) => making.release(lane),
        }
    }
}

/// What there is of the library UCC under this name (`coll_ucc_library`): its version and file.
///
/// # Errors
/// It cannot be used, and why.
pub fn find_ucc(library: &str) -> Result<String, String> {
    let found = UccLibrary::open(library).and_then(|found| found.find_modules().map(|()| found.to_string()));
    found.map_err(|error| error.to_string())
}

/// What there is of the library HCOLL under this name (`coll_hcoll_library`): its version and file.
///
/// # Errors
/// It cannot be used, and why.
pub fn find_hcoll(library: &str) -> Result<String, String> {
    Hcoll::open(library).map(|library| library.to_string()).map_err(|error| error.to_string())
}
