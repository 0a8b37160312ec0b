//! The operations that all process managers can do, and their failures.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use oxmpi_sys::foreign::LibraryError;

/// A connection with the process manager that has started this process as one of several.
pub trait ProcessManager: Debug + Send {
    /// The manager in the texts for users: `PMI-1 (PMI_FD 14)`.
    fn shown(&self) -> String;

    /// The number of this process in the job.
    fn rank(&self) -> u32;

    /// The number of processes in the job; at least one.
    fn size(&self) -> u32;

    /// The name of the job: the same in all its processes, and another one in each other job or
    /// step.
    fn job(&self) -> &str;

    /// Leaves a value under a key, which all processes can read after the next fence. Each key
    /// takes one value in a job: managers refuse the second one, or forget the first one. A key
    /// has at most [`LONGEST_KEY`] bytes, letters, digits, `-`, `_` and `.`.
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), JoinError>;

    /// Waits until all processes of the job have called this function.
    fn fence(&mut self, limit: Duration) -> Result<(), JoinError>;

    /// The value under a key that the process `rank` has left before the last fence; `None` if it
    /// has left none there.
    fn get(&mut self, rank: u32, key: &str, limit: Duration) -> Result<Option<Vec<u8>>, JoinError>;

    /// Has the manager end all processes of the job. The launcher ends with this code if it can,
    /// and prints the text if it prints texts. This process is usually ended as well; if the
    /// function returns, the caller ends the process.
    fn abort(&mut self, code: i32, text: &str) -> JoinError;

    /// Takes leave: from then on the end of this process is no failure, and other programs of this
    /// process can have the manager, if it takes several.
    fn leave(self: Box<Self>) -> Result<(), JoinError>;
}

/// In bytes. Managers allow 64 bytes at least, of which some serve to number the parts of a long
/// value.
pub const LONGEST_KEY: usize = 40;

/// Checks that all managers take a key.
pub(crate) fn check_key(key: &str, manager: impl FnOnce() -> String) -> Result<(), JoinError> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if (1..=LONGEST_KEY).contains(&key.len()) && key.bytes().all(is_fine) {
        return Ok(());
    }
    let why = "a key has letters, digits, '-', '_' and '.', 40 at most";
    Err(JoinError::Key { manager: manager(), key: key.to_string(), why })
}

/// The end of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub(crate) end: Instant,
    given: Duration,
}

impl Deadline {
    pub(crate) fn after(given: Duration) -> Deadline {
        // A year for a duration that no clock reaches.
        let given = given.min(Duration::from_secs(365 * 24 * 3600));
        Deadline { end: Instant::now() + given, given }
    }

    /// The error of a request that has got no answer.
    pub(crate) fn passed(self, manager: &str, call: &str) -> JoinError {
        let remedy = "end the job and start it again";
        self.late(manager, call, remedy)
    }

    /// The error of a fence that other processes have not reached.
    pub(crate) fn fence_passed(self, manager: &str) -> JoinError {
        let remedy = "some processes of the job have not called it: every process that the \
                      launcher starts must be an MPI program";
        self.late(manager, "fence", remedy)
    }

    pub(crate) fn late(self, manager: &str, call: &str, remedy: &'static str) -> JoinError {
        JoinError::Late {
            manager: manager.to_string(),
            call: call.to_string(),
            seconds: self.given.as_secs_f32(),
            remedy,
        }
    }
}

/// The failure of a way into a job; its text is for users.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum JoinError {
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// A variable of the launcher has no usable value.
    #[error(
        "the launcher has set {variable}={value}, which is {why}: is a variable of another job exported?"
    )]
    Variable { variable: &'static str, value: String, why: String },
    /// The manager has refused a call.
    #[error("{manager} refuses '{call}': {why}")]
    Refused { manager: String, call: String, why: String },
    /// An answer that this protocol does not have there.
    #[error("{manager} answers '{call}' by '{answer}', which cannot be understood")]
    Answer { manager: String, call: String, answer: String },
    /// The manager is gone.
    #[error(
        "the connection with {manager} has ended during '{call}' ({why}): the launcher has ended, or ends this job"
    )]
    Gone { manager: String, call: String, why: String },
    #[error("{manager} has not answered '{call}' within {seconds} s; {remedy}")]
    Late { manager: String, call: String, seconds: f32, remedy: &'static str },
    /// Without a manager, some processes have not come in time. `found` names all of them.
    #[error("{manager}: {call} is not complete within {seconds} s ({found}); {remedy}")]
    Incomplete {
        manager: String,
        call: &'static str,
        seconds: f32,
        found: String,
        remedy: &'static str,
    },
    /// Without a manager, a process that takes part in no further call. `why` follows its name.
    #[error("{manager}: {call} cannot end, as {process} {why}")]
    Lost { manager: String, call: &'static str, process: String, why: String },
    /// The manager, or OxMPI below it, does not have this operation.
    #[error("{manager} cannot {call}; {remedy}")]
    Unable { manager: String, call: &'static str, remedy: &'static str },
    /// A key or a value that no manager takes: a fault of the caller.
    #[error("'{key}' cannot be left with {manager}: {why}")]
    Key { manager: String, key: String, why: &'static str },
    /// The process has called [`ProcessManager::abort`], and still runs.
    #[error("{manager} was requested to end the job with code {code}")]
    Aborted { manager: String, code: i32 },
}
