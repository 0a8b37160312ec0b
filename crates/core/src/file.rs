//! Files (MPI-5.0, chapter "I/O").
//!
//! A [`File`] is a file of the system, opened by each rank for itself, a private duplicate of the communicator for what the
//! ranks have to agree about, and a view. What concerns one rank only is in the crate `oxmpi_io`.
//!
//! | module | calls |
//! |---|---|
//! | `open` | open, close, delete |
//! | `settings` | size, info, view, atomicity, sync |
//! | `pointers` | the individual and the shared file pointer |
//! | `shared_pointer` | where the shared file pointer lies |
//! | `independent` | access by one rank |
//! | `collective`, `two_phase`, `ordered` | access by all ranks: a chain of collectives, nonblocking in all forms |
//! | `split` | collective access in two calls |
//! | `representation` | how data look in a file |
//!
//! **Errors of collective calls.** A rank on which a call is wrong takes part in it all the same, and all ranks tell each
//! other at the end how it went: so all return an error of the same class, and nobody waits for ever.

mod agree;
mod collective;
mod independent;
mod open;
mod ordered;
mod pointers;
mod representation;
mod settings;
mod shared_pointer;
mod split;
mod two_phase;

pub use open::{Open, delete_file};
pub use representation::{Conversion, Elements, Representation};
pub use settings::NewView;
pub use split::SplitKind;

use crate::comm::Communicator;
use crate::handler::HandlerCell;
use crate::process::Process;
use collective::Place;
use oxmpi_abi::constants as abi;
use oxmpi_engine::Fault;
use oxmpi_fabric::Fabric;
use oxmpi_io::failure::IoFailure;
use oxmpi_io::hints::Hints;
use oxmpi_io::mode::Mode;
use oxmpi_io::posix::PosixFile;
use oxmpi_io::transfer::TransferRules;
use oxmpi_io::view::View;
use oxmpi_objects::datatype::Datatype;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;
use shared_pointer::Pointer;
use split::Split;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An open file.
#[derive(Debug)]
pub struct File {
    /// Of this file alone.
    comm: Communicator,
    store: PosixFile,
    name: String,
    mode: Mode,
    hints: Mutex<Hints>,
    shown: Mutex<Arc<Shown>>,
    /// The individual file pointer, elementary types.
    position: Mutex<u64>,
    shared: Pointer,
    atomic: AtomicBool,
    /// The collective access that has begun and not ended.
    split: Mutex<Option<Split>>,
    /// Whether this process has written since the last sync.
    dirty: AtomicBool,
}

/// A view with what it was made of.
#[derive(Debug)]
pub struct Shown {
    pub(crate) view: View,
    /// Bytes from the beginning of the file.
    pub displacement: u64,
    /// The elementary type.
    pub etype: Arc<Datatype>,
    /// The filetype.
    pub filetype: Arc<Datatype>,
    /// How data look in the file.
    pub representation: Representation,
}

/// Which way data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the file.
    Read,
    /// To the file.
    Write,
}

/// By what an access is made that needs an exact offset, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// An explicit offset, elementary types of the view.
    Offset(i64),
    /// The individual file pointer.
    Individual,
    /// The shared file pointer. Of a collective access: in the order of the ranks.
    Shared,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl File {
    /// The place of its error handler.
    pub fn errhandler_cell(&self) -> &Arc<HandlerCell> {
        self.comm.errhandler_cell()
    }

    /// Its processes (MPI_File_get_group).
    ///
    /// # Errors
    /// None that can happen, see [`Communicator::group`].
    pub fn group(&self) -> Result<Group> {
        self.comm.group()
    }

    /// The communicator of this file alone.
    pub(crate) fn communicator(&self) -> &Communicator {
        &self.comm
    }

    /// The access mode (MPI_File_get_amode).
    pub fn amode(&self) -> i32 {
        self.mode.bits()
    }

    /// The view (MPI_File_get_view).
    pub fn shown(&self) -> Arc<Shown> {
        Arc::clone(&locked(&self.shown))
    }

    /// The hints in force (MPI_File_get_info).
    pub fn hints(&self) -> Hints {
        *locked(&self.hints)
    }

    /// Whether accesses are atomic (MPI_File_get_atomicity).
    pub fn is_atomic(&self) -> bool {
        self.atomic.load(Ordering::Relaxed)
    }

    /// The length of the file, bytes (MPI_File_get_size).
    ///
    /// # Errors
    /// The system's.
    pub fn size(&self) -> Result<u64> {
        self.store.size().map_err(|failure| self.error("asking for the size of", failure))
    }

    fn ranks(&self) -> u32 {
        self.comm.team.size()
    }

    fn rank(&self) -> u32 {
        self.comm.team.rank
    }

    /// An error with what was being done to which file.
    fn error(&self, doing: &str, failure: IoFailure) -> MpiError {
        error_of(&self.name, doing, failure)
    }

    fn refused(&self, class: i32, why: &str) -> MpiError {
        MpiError::new(class, format!("file \"{}\": {why}", self.name))
    }

    /// The fault of a request that failed with this error, which is noted.
    fn fault(&self, error: &MpiError) -> Fault {
        Fault::File { class: error.class(), note: self.comm.errhandler_cell().note(error.detail()) }
    }

    fn rules(&self, direction: Direction) -> TransferRules {
        match direction {
            Direction::Read => TransferRules::reading(&self.hints(), self.is_atomic()),
            Direction::Write => TransferRules::writing(&self.hints(), self.mode.reads(), self.is_atomic()),
        }
    }

    /// Whether the access is one that the mode allows.
    fn check_access(&self, direction: Direction, at: At) -> Result<()> {
        match direction {
            Direction::Read if !self.mode.reads() => {
                return Err(self.refused(abi::MPI_ERR_ACCESS, "it is open for writing only"));
            }
            Direction::Write if !self.mode.writes() => {
                return Err(self.refused(abi::MPI_ERR_READ_ONLY, "it is open for reading only"));
            }
            _ => {}
        }
        self.check_random(at)
    }

    /// A file that was opened with MPI_MODE_SEQUENTIAL is accessed by the shared pointer only.
    fn check_random(&self, at: At) -> Result<()> {
        if at == At::Shared {
            Ok(())
        } else {
            self.not_if_sequential("only its shared file pointer can be used")
        }
    }

    /// Nobody may ask where the shared file pointer of such a file is, or move it ("Shared File Pointers").
    fn check_seekable(&self) -> Result<()> {
        self.not_if_sequential("nobody can move its shared file pointer or ask where it is")
    }

    /// Refuses what MPI_MODE_SEQUENTIAL excludes; `so` is what follows from it.
    fn not_if_sequential(&self, so: &str) -> Result<()> {
        if !self.mode.is_sequential() {
            return Ok(());
        }
        let why = format!("it was opened with MPI_MODE_SEQUENTIAL, so {so}");
        Err(self.refused(abi::MPI_ERR_UNSUPPORTED_OPERATION, &why))
    }

    /// So many bytes of the file as elementary types.
    fn whole_etypes(&self, shown: &Shown, bytes: u64) -> Result<u64> {
        let etype = shown.view.etype_size();
        if bytes.is_multiple_of(etype) {
            return Ok(bytes / etype);
        }
        let why = format!(
            "the access has {bytes} bytes, which is no multiple of the {etype} bytes of the elementary type"
        );
        Err(self.refused(abi::MPI_ERR_ARG, &why))
    }

    /// Where an access begins in the stream of the view, after moving the pointer that it uses by so many elementary types.
    fn claim<F: Fabric>(&self, process: &Process<F>, shown: &Shown, at: At, etypes: u64) -> Result<u64> {
        let first = match at {
            At::Offset(offset) => self.checked_offset(offset)?,
            At::Individual => {
                let mut position = locked(&self.position);
                let first = *position;
                shown
                    .view
                    .check(self.in_bytes(shown, first)?, etypes.saturating_mul(shown.view.etype_size()))?;
                *position = first.saturating_add(etypes);
                first
            }
            At::Shared => process.advance_pointer(self, etypes)?,
        };
        let start = self.in_bytes(shown, first)?;
        shown.view.check(start, etypes.saturating_mul(shown.view.etype_size()))?;
        Ok(start)
    }

    /// An explicit offset, elementary types.
    fn checked_offset(&self, offset: i64) -> Result<u64> {
        u64::try_from(offset).map_err(|_| {
            self.refused(abi::MPI_ERR_ARG, &format!("offset is {offset}; it must not be negative"))
        })
    }

    fn in_bytes(&self, shown: &Shown, etypes: u64) -> Result<u64> {
        etypes.checked_mul(shown.view.etype_size()).ok_or_else(|| {
            let why = format!("{etypes} elementary types are more bytes than an offset can tell");
            self.refused(abi::MPI_ERR_ARG, &why)
        })
    }

    fn note_write(&self) {
        self.dirty.store(true, Ordering::Relaxed);
    }
}

fn error_of(name: &str, doing: &str, failure: IoFailure) -> MpiError {
    MpiError::new(failure.class, format!("{doing} the file \"{name}\": {failure}"))
}

impl From<At> for Place {
    fn from(at: At) -> Place {
        match at {
            At::Shared => Place::Ordered,
            at => Place::Known(at),
        }
    }
}
