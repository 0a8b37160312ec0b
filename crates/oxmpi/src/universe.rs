//! This process as a rank of its job, from the start to the end.

use crate::Communicator;
use crate::error::{Error, ErrorKind, Result, settle};
use oxmpi_core::Process;
use oxmpi_core::modules::{LEVEL_VARIABLE, ThreadLevel};
use oxmpi_core::start::{self, StartedProcess};
use oxmpi_core::world::{WorldOptions, world_shared};
use oxmpi_fabric::routes::Routes;
use oxmpi_objects::error::MpiError;
use oxmpi_rt_client::client::Client;
use oxmpi_shm::segment::RankState;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Only the thread that called [`init`] communicates (MPI_THREAD_FUNNELED, MPI-5.0 section 11.6).
#[derive(Debug)]
pub struct Funneled(PhantomData<*const ()>);

/// All threads may communicate at the same time (MPI_THREAD_MULTIPLE).
#[derive(Debug)]
pub struct Multiple(());

/// The thread level. Objects with a level are `Send` and `Sync` if the level is.
pub trait Level: sealed::Sealed + 'static {}

impl Level for Funneled {}
impl Level for Multiple {}

mod sealed {
    /// Keeps other crates from implementing [`Level`](super::Level).
    pub trait Sealed {}
    impl Sealed for super::Funneled {}
    impl Sealed for super::Multiple {}
}

/// This process as a rank.
///
/// It ends by [`finalize`](Universe::finalize) or on drop. Both wait until the receivers have all
/// messages of this rank. A drop during a panic does not wait; `mpirun` then reports this rank and
/// ends the job. `mpirun` also ends the job if a drop finds that messages were lost.
#[derive(Debug)]
pub struct Universe<L: Level = Funneled> {
    process: Arc<Process<Routes>>,
    client: Arc<Client>,
    is_over: bool,
    level: PhantomData<L>,
}

/// Makes this process a rank, for the calling thread only.
///
/// Under `mpirun` the process gets its rank from `mpirun`; otherwise it is rank 0 of 1. A process
/// can call this once, and not again after the end (MPI-5.0 section 11.2).
///
/// # Errors
/// [`ErrorKind::Start`] and [`ErrorKind::AlreadyInitialized`].
pub fn init() -> Result<Universe> {
    Universe::start("init", ThreadLevel::Funneled)
}

/// Makes this process a rank, for all its threads.
///
/// ```
/// let universe = oxmpi::init_threaded()?;
/// let world = universe.world();
/// std::thread::scope(|s| {
///     s.spawn(|| world.recv::<u8>(0, 1).unwrap());
///     s.spawn(|| world.send(&[1u8, 2], 0, 1).unwrap());
/// });
/// # Ok::<(), oxmpi::Error>(())
/// ```
pub fn init_threaded() -> Result<Universe<Multiple>> {
    let universe = Universe::start("init_threaded", ThreadLevel::Multiple)?;
    settle("init_threaded", universe.process.set_threaded())?;
    Ok(universe)
}

impl<L: Level> Universe<L> {
    fn start(operation: &'static str, wanted: ThreadLevel) -> Result<Universe<L>> {
        static CALLED: AtomicBool = AtomicBool::new(false);
        if CALLED.swap(true, Ordering::Relaxed) {
            let text =
                "this process was initialised before; it can be once, and not again after its end";
            return Err(Error::new(ErrorKind::AlreadyInitialized, operation, text));
        }
        let StartedProcess { process, client, modules, .. } =
            start::start().map_err(|e| Error::start(&e))?;
        let level = modules
            .settle(wanted)
            .map_err(|e| Error::new(ErrorKind::Start, operation, e.to_string()))?
            .level;
        if level < wanted && wanted == ThreadLevel::Multiple {
            let text = format!(
                "the thread level is {level} ({LEVEL_VARIABLE}, or the modules); {wanted} is needed"
            );
            return Err(Error::new(ErrorKind::Start, operation, text));
        }
        client.segment().status().set_state(RankState::Initialized);
        Ok(Universe { process: Arc::new(process), client, is_over: false, level: PhantomData })
    }

    /// The communicator of all ranks of the job (MPI_COMM_WORLD).
    pub fn world(&self) -> Communicator<'_, L> {
        Communicator::world(&self.process)
    }

    /// The communicator of this rank alone (MPI_COMM_SELF).
    pub fn own(&self) -> Communicator<'_, L> {
        Communicator::own(&self.process)
    }

    /// Ends this rank's part in the job as soon as the receivers have all its messages
    /// (MPI_Finalize, MPI-5.0 section 11.2.2). Waits for ever if no rank receives a message.
    ///
    /// # Errors
    /// [`ErrorKind::Other`] if messages were lost because a running rank could not be reached.
    /// `mpirun` then treats this rank as not finalized.
    #[track_caller]
    pub fn finalize(mut self) -> Result<()> {
        self.is_over = true;
        settle("finalize", self.end())
    }

    fn end(&self) -> std::result::Result<(), MpiError> {
        let status = self.client.segment().status();
        status.set_state(RankState::Finalizing);
        self.process.drain();
        self.process.check_delivered()?;
        status.set_state(RankState::Finalized);
        self.process.answer_last();
        self.client.leave_manager();
        self.client.report_end();
        Ok(())
    }

    /// Ends the whole job at once: `mpirun` prints `why`, ends all ranks and exits with `code`
    /// (MPI_Abort, MPI-5.0 section 9.7).
    pub fn abort(&self, code: i32, why: &str) -> ! {
        self.client.segment().status().set_state(RankState::Aborting);
        self.client.abort(code, why);
        std::process::exit(code)
    }
}

impl<L: Level> Drop for Universe<L> {
    fn drop(&mut self) {
        if !self.is_over && !std::thread::panicking() {
            // The transport has reported lost messages to the user, and `mpirun` sees that this
            // rank has not finalized.
            let _ = self.end();
        }
    }
}

/// Runs `program` as `ranks` ranks in this process, one thread each, and returns their results by
/// rank. `program` gets the communicator of all ranks.
///
/// Messages use the same shared memory as between processes. This function is for tests and
/// examples: it needs neither `mpirun` nor [`init`], and may be called any number of times.
///
/// ```
/// let ranks = oxmpi::threads(4, |world| world.all_gather(&[world.rank()]).unwrap());
/// assert_eq!(ranks, vec![vec![0, 1, 2, 3]; 4]);
/// ```
///
/// # Panics
/// If there is no memory for a rank. A rank that panics ends the process with code 101, since the
/// other ranks would wait for it.
pub fn threads<R: Send>(ranks: u32, program: impl Fn(&Communicator<'_>) -> R + Sync) -> Vec<R> {
    world_shared(ranks, WorldOptions::default(), |process| program(&Communicator::world(process)))
}
