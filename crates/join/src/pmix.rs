//! PMIx, by the library `libpmix.so.2`, opened at run time: Slurm's plugin pmix, Open MPI's
//! `mpirun`, and PRRTE's `prterun`.
//!
//! The library finds the server by the variables that the launcher has set, and talks to it over a
//! connection and threads of its own. A process has at most one connection: a second `PMIx_Init`
//! in a process with threads is not safe.
//!
//! Facts, each tried with the libraries 4.2.2 and 5.0.11 under Slurm 22.05 (server 4.2.2) and
//! prterun (server 5.0.11):
//!
//! - Each library works with each server. A client without the file system or the MUNGE of the
//!   server falls back to other modules by itself.
//! - Without PMIX_IMMEDIATE, `get` of a value that does not exist waits for it. Under Slurm it
//!   waits forever if the rank is on another node, whatever PMIX_TIMEOUT is. With PMIX_IMMEDIATE
//!   the server answers from its own values. So a fence collects all values
//!   (PMIX_COLLECT_DATA), and `get` is immediate.
//! - Slurm's server has no `PMIx_Spawn`.

mod declarations;
mod waiting;

use std::ffi::CString;
use std::fmt;
use std::ptr::null;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oxmpi_sys::foreign::{ForeignLibrary, LibraryError, LibraryTexts, keep_signals, text};

use self::declarations::{
    ByteObject, COLLECT_DATA, Data, ERR_NOT_FOUND, ERR_TIMEOUT, GLOBAL, IMMEDIATE, JOB_SIZE,
    OPERATION_SUCCEEDED, PmixInfo, PmixSymbols, PmixValue, Proc, RANK_WILDCARD, SUCCESS, Status,
    TYPE_BYTE_OBJECT,
};
use self::waiting::{TakenAnswer, limited, on_status, on_value, run};
use crate::manager::{Deadline, JoinError, ProcessManager, check_key};

/// The limit for `PMIx_Init`, which waits for the server of this node only.
const INIT_PATIENCE: Duration = Duration::from_secs(20);
/// The limit for calls that end something.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// The limit for a query about the own job.
const PATIENCE: Duration = Duration::from_secs(30);
static PMIX: LibraryTexts = LibraryTexts {
    name: "PMIx",
    needed: "PMIx of version 3, 4 or 5",
    remedy: "install it (Debian: libpmix2), or name its file by the parameter pmix_library",
};

/// Whether this process has called `PMIx_Init` here.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// The library, loaded into this program.
#[derive(Debug)]
struct PmixLibrary {
    symbols: PmixSymbols,
    library: ForeignLibrary,
}

impl PmixLibrary {
    fn open(file: &str) -> Result<Arc<PmixLibrary>, LibraryError> {
        let library = ForeignLibrary::open(&PMIX, file)?;
        let symbols = PmixSymbols::of(&library)?;
        let opened = PmixLibrary { symbols, library };
        let version = opened.version();
        match version.split('.').next().and_then(|major| major.parse().ok()) {
            Some(3_u32..) => Ok(Arc::new(opened)),
            _ => Err(opened.library.unfit(format!("is PMIx '{version}': version 3 is needed"))),
        }
    }

    /// As `4.2.2rc2`, of a text such as `OpenPMIx 4.2.2rc2 (PMIx Standard: 4.2, ...)`.
    fn version(&self) -> String {
        // SAFETY: the function returns a constant string, and may be called at any time.
        version_in(&unsafe { text((self.symbols.PMIx_Get_version)()) })
    }

    fn why(&self, status: Status) -> String {
        // SAFETY: the function returns a constant string for each number.
        let name = unsafe { text((self.symbols.PMIx_Error_string)(status)) };
        format!("{name} ({status})")
    }
}

fn version_in(text: &str) -> String {
    let mut words = text.split(|c: char| c.is_whitespace() || c == ',');
    words.find(|word| word.starts_with(|c: char| c.is_ascii_digit())).unwrap_or(text).to_string()
}

/// A process manager that speaks PMIx.
pub struct Pmix {
    library: Arc<PmixLibrary>,
    me: Proc,
    job: String,
    size: u32,
}

impl fmt::Debug for Pmix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pmix({}, rank {} of {})", self.job, self.me.rank, self.size)
    }
}

impl Pmix {
    /// Connects with the server of this process. `file` is the library as the loader of programs
    /// takes it. Threads of the library run from then on.
    pub fn connect(file: &str) -> Result<Pmix, JoinError> {
        let library = PmixLibrary::open(file)?;
        if HAS_BEGUN.swap(true, Ordering::AcqRel) {
            let why = "this process has called it before, and PMIx allows one connection only";
            return Err(PMIX.call_failed("PMIx_Init", why).into());
        }
        let symbols = library.symbols;
        let remedy = "library and server may not fit: try PMIX_MCA_gds=hash and \
                      PMIX_MCA_psec=native in the environment, or another way in \
                      ('srun --mpi=pmi2')";
        let init = move || {
            let mut me = Proc::EMPTY;
            // SAFETY: the structure is writable, and has the size of the header; there are no
            // attributes.
            let status = keep_signals(|| unsafe { (symbols.PMIx_Init)(&mut me, null(), 0) });
            (status, me)
        };
        let manager = shown(&library, None);
        let (status, me) =
            limited(Deadline::after(INIT_PATIENCE), &manager, "PMIx_Init", remedy, init)?;
        if status != SUCCESS {
            let why = format!("fails: {}; {remedy}", library.why(status));
            return Err(PMIX.call_failed("PMIx_Init", why).into());
        }
        let mut pmix = Pmix { library, me, job: me.job(), size: 0 };
        pmix.size = match pmix.fetch(pmix.all(), JOB_SIZE.to_owned(), PATIENCE)? {
            TakenAnswer::Number(size) if me.rank < size => size,
            other => {
                let call = "the size of the job".to_string();
                let answer = format!("{other:?} for rank {}", me.rank);
                return Err(JoinError::Answer { manager: pmix.shown(), call, answer });
            }
        };
        Ok(pmix)
    }

    /// All processes of the job.
    fn all(&self) -> Proc {
        Proc { rank: RANK_WILDCARD, ..self.me }
    }

    /// A value; [`TakenAnswer::Nothing`] if the server does not have it.
    fn fetch(&self, of: Proc, key: CString, limit: Duration) -> Result<TakenAnswer, JoinError> {
        let symbols = self.library.symbols;
        let arguments = Box::new((of, key, PmixInfo::is_set(IMMEDIATE)));
        let deadline = Deadline::after(limit);
        let ended = run(arguments, deadline, |(of, key, info), outcome| {
            // SAFETY: the arguments live until the callback, which gets the outcome once.
            unsafe { (symbols.PMIx_Get_nb)(of, key.as_ptr(), info, 1, on_value, outcome) }
        });
        match ended {
            None => Err(deadline.passed(&self.shown(), "PMIx_Get")),
            Some((SUCCESS, taken)) => Ok(taken),
            Some((ERR_NOT_FOUND, _)) => Ok(TakenAnswer::Nothing),
            Some((status, _)) => Err(self.failed("PMIx_Get", status)),
        }
    }

    fn failed(&self, call: &str, status: Status) -> JoinError {
        let why = self.library.why(status);
        JoinError::Refused { manager: self.shown(), call: call.into(), why }
    }

    fn check(&self, call: &str, status: Status) -> Result<(), JoinError> {
        match status {
            SUCCESS | OPERATION_SUCCEEDED => Ok(()),
            status => Err(self.failed(call, status)),
        }
    }

    fn text(&self, text: &str) -> Result<CString, JoinError> {
        CString::new(text).map_err(|_| JoinError::Key {
            manager: self.shown(),
            key: text.replace('\0', "?"),
            why: "it contains a zero byte",
        })
    }
}

fn shown(library: &PmixLibrary, job: Option<&str>) -> String {
    let of = job.map(|job| format!(" of {job}")).unwrap_or_default();
    format!("the PMIx server{of} ({} {})", library.library.file(), library.version())
}

/// The name under which a value stands; keys that begin with `pmix` belong to the standard.
fn full_key(key: &str) -> String {
    format!("oxmpi.{key}")
}

impl ProcessManager for Pmix {
    fn shown(&self) -> String {
        shown(&self.library, Some(&self.job))
    }

    fn rank(&self) -> u32 {
        self.me.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn job(&self) -> &str {
        &self.job
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), JoinError> {
        check_key(key, || self.shown())?;
        let key = self.text(&full_key(key))?;
        let mut data = Data { words: [0; 3] };
        data.bo = ByteObject { bytes: value.as_ptr().cast_mut().cast(), size: value.len() };
        let value = PmixValue { kind: TYPE_BYTE_OBJECT, data };
        // SAFETY: the key ends with a zero. The library copies the value, and only reads it.
        let status =
            unsafe { (self.library.symbols.PMIx_Put)(GLOBAL, key.as_ptr(), &raw const value) };
        self.check("PMIx_Put", status)
    }

    fn fence(&mut self, limit: Duration) -> Result<(), JoinError> {
        let symbols = self.library.symbols;
        let deadline = Deadline::after(limit);
        // SAFETY: the call has no arguments, and the library is initialised.
        let commit = move || unsafe { (symbols.PMIx_Commit)() };
        let remedy = "end the job and start it again";
        let status = limited(deadline, &self.shown(), "PMIx_Commit", remedy, commit)?;
        self.check("PMIx_Commit", status)?;
        let arguments = Box::new((self.all(), PmixInfo::is_set(COLLECT_DATA)));
        let ended = run(arguments, deadline, |(all, info), outcome| {
            // SAFETY: the arguments live until the callback, which gets the outcome once.
            unsafe { (symbols.PMIx_Fence_nb)(all, 1, info, 1, on_status, outcome) }
        });
        match ended {
            None | Some((ERR_TIMEOUT, _)) => Err(deadline.fence_passed(&self.shown())),
            Some((status, _)) => self.check("PMIx_Fence", status),
        }
    }

    fn get(&mut self, rank: u32, key: &str, limit: Duration) -> Result<Option<Vec<u8>>, JoinError> {
        let full = self.text(&full_key(key))?;
        match self.fetch(Proc { rank, ..self.me }, full, limit)? {
            TakenAnswer::Bytes(value) => Ok(Some(value)),
            TakenAnswer::Nothing => Ok(None),
            other => Err(JoinError::Answer {
                manager: self.shown(),
                call: format!("PMIx_Get of {key}"),
                answer: format!("{other:?}"),
            }),
        }
    }

    fn abort(&mut self, code: i32, text: &str) -> JoinError {
        let symbols = self.library.symbols;
        let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
        // SAFETY: the text ends with a zero; without a list the call is for all processes.
        let abort = move || unsafe { (symbols.PMIx_Abort)(code, text.as_ptr(), null(), 0) };
        let deadline = Deadline::after(END_PATIENCE);
        let remedy = "end the launcher";
        match limited(deadline, &self.shown(), "PMIx_Abort", remedy, abort) {
            Ok(SUCCESS | OPERATION_SUCCEEDED) => JoinError::Aborted { manager: self.shown(), code },
            Ok(status) => self.failed("PMIx_Abort", status),
            Err(error) => error,
        }
    }

    fn leave(self: Box<Self>) -> Result<(), JoinError> {
        let symbols = self.library.symbols;
        // SAFETY: the library is initialised, and this is its last call.
        let finalize = move || unsafe { (symbols.PMIx_Finalize)(null(), 0) };
        let deadline = Deadline::after(END_PATIENCE);
        let remedy = "the process can end without it";
        let status = limited(deadline, &self.shown(), "PMIx_Finalize", remedy, finalize)?;
        self.check("PMIx_Finalize", status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_their_texts() {
        let new = "OpenPMIx 4.2.2rc2 (PMIx Standard: 4.2, Stable ABI: 0.0, Provisional ABI: 0.0)";
        assert_eq!(version_in(new), "4.2.2rc2");
        assert_eq!(version_in("OpenPMIx 3.2.3, repo rev: v3.2.3 (PMIx Standard: 3)"), "3.2.3");
        assert_eq!(version_in("nothing"), "nothing");
    }

    #[test]
    fn a_missing_library_and_another_library_are_errors_with_the_remedy() {
        let error = Pmix::connect("/nonexistent/libpmix.so.2").unwrap_err().to_string();
        assert!(error.contains("pmix_library") && error.contains("libpmix2"), "{error}");
        let other = Pmix::connect("libc.so.6").unwrap_err().to_string();
        assert!(other.contains("PMIx_Get_version") && other.contains("no PMIx"), "{other}");
    }
}
