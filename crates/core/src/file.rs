//! Files (MPI-5.0, chapter "I/O").
//!
//! A [`File`] has a file of the system, which each rank opens for itself, a private duplicate of
//! the communicator, and a view. The crate `oxmpi_io` has the parts that concern one rank alone.
//!
//! A rank whose collective call is wrong takes part, and all ranks exchange their outcomes at the
//! end. So all ranks return an error of the same class, and no rank waits for ever.

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

pub use open::{OpenArguments, delete_file};
pub use representation::{Conversion, FileElements, Representation};
pub use settings::NewView;
pub use split::SplitKind;

use crate::comm::Communicator;
use crate::handler::HandlerCell;
use crate::process::Process;
use collective::CollectivePosition;
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
use shared_pointer::SharedFilePointer;
use split::SplitAccess;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An open file (MPI_File).
#[derive(Debug)]
pub struct File {
    comm: Communicator,
    store: PosixFile,
    name: String,
    mode: Mode,
    hints: Mutex<Hints>,
    shown: Mutex<Arc<FileView>>,
    /// In elementary types.
    position: Mutex<u64>,
    shared: SharedFilePointer,
    atomic: AtomicBool,
    split: Mutex<Option<SplitAccess>>,
    dirty: AtomicBool,
}

/// A view with its arguments (MPI_File_set_view).
#[derive(Debug)]
pub struct FileView {
    pub(crate) view: View,
    /// In bytes from the beginning of the file.
    pub displacement: u64,
    pub etype: Arc<Datatype>,
    pub filetype: Arc<Datatype>,
    pub representation: Representation,
}

/// The direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
}

/// The position of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePosition {
    /// An explicit offset, in elementary types of the view.
    Offset(i64),
    Individual,
    Shared,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl File {
    /// The cell of the error handler.
    pub fn errhandler_cell(&self) -> &Arc<HandlerCell> {
        self.comm.errhandler_cell()
    }

    /// The processes (MPI_File_get_group).
    pub fn group(&self) -> Result<Group> {
        self.comm.group()
    }

    pub(crate) fn communicator(&self) -> &Communicator {
        &self.comm
    }

    /// The access mode (MPI_File_get_amode).
    pub fn amode(&self) -> i32 {
        self.mode.bits()
    }

    /// The view (MPI_File_get_view).
    pub fn shown(&self) -> Arc<FileView> {
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

    /// The length of the file in bytes (MPI_File_get_size).
    pub fn size(&self) -> Result<u64> {
        self.store.size().map_err(|failure| self.error("reading the size of", failure))
    }

    fn ranks(&self) -> u32 {
        self.comm.team.size()
    }

    fn rank(&self) -> u32 {
        self.comm.team.rank
    }

    fn error(&self, doing: &str, failure: IoFailure) -> MpiError {
        error_of(&self.name, doing, failure)
    }

    fn refused(&self, class: i32, why: &str) -> MpiError {
        MpiError::new(class, format!("file \"{}\": {why}", self.name))
    }

    fn fault(&self, error: &MpiError) -> Fault {
        Fault::File { class: error.class(), note: self.comm.errhandler_cell().note(error.detail()) }
    }

    fn rules(&self, direction: Direction) -> TransferRules {
        match direction {
            Direction::Read => TransferRules::reading(&self.hints(), self.is_atomic()),
            Direction::Write => {
                TransferRules::writing(&self.hints(), self.mode.reads(), self.is_atomic())
            }
        }
    }

    fn check_access(&self, direction: Direction, at: FilePosition) -> Result<()> {
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

    fn check_random(&self, at: FilePosition) -> Result<()> {
        if at == FilePosition::Shared {
            Ok(())
        } else {
            self.not_if_sequential("only its shared file pointer can be used")
        }
    }

    /// With MPI_MODE_SEQUENTIAL the program cannot move the shared pointer.
    fn check_seekable(&self) -> Result<()> {
        self.not_if_sequential("its shared file pointer cannot be moved or read")
    }

    /// Refuses a call that MPI_MODE_SEQUENTIAL excludes. `so` is the consequence, for the message.
    fn not_if_sequential(&self, so: &str) -> Result<()> {
        if !self.mode.is_sequential() {
            return Ok(());
        }
        let why = format!("it was opened with MPI_MODE_SEQUENTIAL, so {so}");
        Err(self.refused(abi::MPI_ERR_UNSUPPORTED_OPERATION, &why))
    }

    fn whole_etypes(&self, shown: &FileView, bytes: u64) -> Result<u64> {
        let etype = shown.view.etype_size();
        if bytes.is_multiple_of(etype) {
            return Ok(bytes / etype);
        }
        let why = format!(
            "the access has {bytes} bytes, which is no multiple of the {etype} bytes of the elementary type"
        );
        Err(self.refused(abi::MPI_ERR_ARG, &why))
    }

    /// Moves the pointer of an access. Returns the first byte in the view's stream.
    fn claim<F: Fabric>(
        &self,
        process: &Process<F>,
        shown: &FileView,
        at: FilePosition,
        etypes: u64,
    ) -> Result<u64> {
        let first = match at {
            FilePosition::Offset(offset) => self.checked_offset(offset)?,
            FilePosition::Individual => {
                let mut position = locked(&self.position);
                let first = *position;
                shown.view.check(
                    self.in_bytes(shown, first)?,
                    etypes.saturating_mul(shown.view.etype_size()),
                )?;
                *position = first.saturating_add(etypes);
                first
            }
            FilePosition::Shared => process.advance_pointer(self, etypes)?,
        };
        let start = self.in_bytes(shown, first)?;
        shown.view.check(start, etypes.saturating_mul(shown.view.etype_size()))?;
        Ok(start)
    }

    fn checked_offset(&self, offset: i64) -> Result<u64> {
        u64::try_from(offset).map_err(|_| {
            self.refused(abi::MPI_ERR_ARG, &format!("offset is {offset}; it must not be negative"))
        })
    }

    fn in_bytes(&self, shown: &FileView, etypes: u64) -> Result<u64> {
        etypes.checked_mul(shown.view.etype_size()).ok_or_else(|| {
            let why =
                format!("{etypes} elementary types have more bytes than an offset can express");
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

impl From<FilePosition> for CollectivePosition {
    fn from(at: FilePosition) -> CollectivePosition {
        match at {
            FilePosition::Shared => CollectivePosition::Ordered,
            at => CollectivePosition::Known(at),
        }
    }
}
