//! How long this process is a rank: from the first MPI_Init or MPI_Session_init on, and as long as the World Model or a session
//! has not been finalised (MPI-5.0, "The Sessions Model"). It can be one again later; it is always the same rank.

use crate::accelerator::Accelerator;
use crate::attributes::delete_attributes;
use crate::communicators;
use crate::context_cache::ContextCache;
use crate::errors::end_jobs_through;
use crate::export;
use crate::files::Registered;
use crate::fortran_types::FortranTypes;
use crate::library::{self, Running};
use crate::memory::OrdinaryMemory;
use crate::objects::{locked, objects};
use crate::operations::Kernels;
use crate::predefined::Values;
use crate::tool;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Comm;
use oxmpi_core::Communicator;
use oxmpi_core::buffered::BufferOf;
use oxmpi_core::handler::ErrorHandler;
use oxmpi_core::start::{Started, start_changed};
use oxmpi_mem::table::{SingleThread, Table};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::origin::Origin;
use oxmpi_objects::predefined::Predefined;
use oxmpi_shm::segment::RankState;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// The World Model and the sessions that are initialised and not finalised.
static USERS: Mutex<Users> = Mutex::new(Users { library: None, count: 0, ending: 0, has_left: false });

struct Users {
    /// Made once.
    library: Option<&'static Running>,
    count: usize,
    /// How many of them are being finalised.
    ending: usize,
    /// The peers were told that the program ends.
    has_left: bool,
}

impl Users {
    /// Lets those who watch the process know how far it is.
    fn note_state(&self, library: &Running) {
        let status = library.client.segment().status();
        if library::is_finalized() {
            status.end_world();
        }
        status.set_state(match (self.count, self.ending) {
            (0, _) => RankState::Resting,
            (count, ending) if ending == count => RankState::Finalizing,
            _ => RankState::Initialized,
        });
    }
}

/// The process is a rank from now on, for one user more; with `threads` for calls from several threads. One that was made a rank
/// for one thread is made so by that thread alone: another one would have to know that it is not in the library. Then the process
/// keeps the level it has.
pub(crate) fn enter(threads: bool) -> Result<&'static Running> {
    if library::is_forked() {
        // It has the rank's memory, and is not the rank. Another thread may have held the lock when it was forked off.
        return library::library();
    }
    let mut users = locked(&USERS);
    if users.has_left {
        let text = "called when the program ends: its other processes were told so";
        return Err(MpiError::new(abi::MPI_ERR_OTHER, text));
    }
    let library = match users.library {
        Some(library) => {
            if users.count == 0 {
                library.process.resume();
            }
            library
        }
        None => {
            let library = make(threads)?;
            users.library = Some(library);
            library
        }
    };
    if threads && std::thread::current().id() == library.first_thread {
        library.set_threaded()?;
    }
    users.count += 1;
    users.note_state(library);
    if users.count == 1 {
        library::open(library);
    }
    Ok(library)
}

/// Finalises one user by `end`, which may run the program's callbacks; then there is one less. The last one first waits until
/// all that was sent is with its receivers.
///
/// # Errors
/// Those of `end`: the user stays.
pub(crate) fn exit(library: &'static Running, end: impl FnOnce() -> Result<()>) -> Result<()> {
    if library::is_forked() {
        return end();
    }
    note_ending(library, |ending| ending + 1);
    if let Err(error) = end() {
        note_ending(library, |ending| ending.saturating_sub(1));
        return Err(error);
    }
    let mut is_quiet = false;
    loop {
        let mut users = locked(&USERS);
        if users.count > 1 || is_quiet {
            users.count = users.count.saturating_sub(1);
            users.ending = users.ending.saturating_sub(1);
            match users.count {
                0 => library::close(),
                // One has come meanwhile.
                _ => library.process.resume(),
            }
            users.note_state(library);
            let rests = users.count == 0;
            drop(users);
            if rests {
                library.process.answer_last();
            }
            return Ok(());
        }
        drop(users);
        library.process.rest();
        is_quiet = true;
    }
}

fn note_ending(library: &Running, next: impl FnOnce(usize) -> usize) {
    let mut users = locked(&USERS);
    users.ending = next(users.ending);
    users.note_state(library);
}

/// Whether somebody beside the caller needs the process to be a rank.
pub(crate) fn has_others() -> bool {
    locked(&USERS).count > 1
}

fn make(threads: bool) -> Result<&'static Running> {
    if library::is_forked() {
        return library::library();
    }
    let Started { process, client, checks, strict, accelerator, parent, modules } =
        start_changed(&tool::changes()).map_err(|e| MpiError::new(abi::MPI_ERR_OTHER, e.to_string()))?;
    end_jobs_through(client.clone());
    let accelerator = Accelerator::new(accelerator)?;
    export::report_misuse();
    process.keep_pending(true);
    let attribute_values = Values::new(&client, process.tag_ub());
    let (communicators, groups) = (Table::new(), Table::new());
    let (datatypes, operations, windows) = (Table::new(), Table::new(), Table::new());
    if !threads {
        // SAFETY: the program has promised that one thread calls MPI; others ask `set_threaded` to let them in.
        let promise = unsafe { SingleThread::promise() };
        communicators.set_single_threaded(promise);
        groups.set_single_threaded(promise);
        datatypes.set_single_threaded(promise);
        operations.set_single_threaded(promise);
        windows.set_single_threaded(promise);
    }
    let library: &'static Running = Box::leak(Box::new(Running {
        process,
        client,
        modules,
        checks,
        strict,
        accelerator,
        communicators,
        contexts: ContextCache::new(),
        files: Table::new(),
        groups,
        datatypes,
        predefined: Predefined::new(),
        fortran_types: FortranTypes::default(),
        operations,
        kernels: Kernels::default(),
        windows,
        own_handler_is_set: AtomicBool::new(false),
        has_world: AtomicBool::new(false),
        has_threads: AtomicBool::new(false),
        world: OnceLock::new(),
        first_thread: std::thread::current().id(),
        attribute_values,
        ordinary_memory: OrdinaryMemory::default(),
        representations: Registered::default(),
        parent: OnceLock::new(),
        sessions: AtomicU64::new(0),
    }));
    if let Some(parent) = parent {
        parent.errhandler_cell().set(ErrorHandler::predefined(objects().initial_handler));
        // It is the first to be set.
        let _ = library.parent.set(communicators::enlist(library, parent));
    }
    export::note_calls_in(library.client.segment().status().last_call_cell());
    // SAFETY: the handlers store to atomics, or do what any code of this process may at its end.
    unsafe {
        libc::pthread_atfork(None, None, Some(library::in_forked_child));
        libc::atexit(at_exit);
    }
    Ok(library)
}

/// The program ends: the peers are told that they need not wait for it. If MPI is in use still, they shall not be told: the
/// launcher judges that.
extern "C" fn at_exit() {
    if library::is_forked() {
        return;
    }
    let Ok(mut users) = USERS.try_lock() else { return };
    if let Users { library: Some(library), count: 0, .. } = *users {
        users.has_left = true;
        library.client.segment().status().set_state(RankState::Finalized);
        library.process.take_leave();
    }
}

impl Running {
    /// From now on several threads may call.
    ///
    /// # Errors
    /// If only one might so far, and this is another one.
    pub(crate) fn set_threaded(&self) -> Result<()> {
        if self.has_threads.load(Ordering::Acquire) {
            return Ok(());
        }
        // First: another thread is refused, and may not touch the tables.
        self.process.set_threaded()?;
        self.communicators.set_threaded();
        self.groups.set_threaded();
        self.datatypes.set_threaded();
        self.operations.set_threaded();
        self.windows.set_threaded();
        self.has_threads.store(true, Ordering::Release);
        Ok(())
    }

    /// The communicators that the program has made and that come from there.
    pub(crate) fn communicators_of(&self, origin: Origin) -> Vec<Arc<Communicator>> {
        let all = self.communicators.handles().into_iter();
        let found = all.filter_map(|handle| Some(Arc::clone(&*self.communicators.get(handle).ok()?)));
        found.filter(|comm| comm.origin() == origin).collect()
    }

    /// The handles of all communicators and groups that come from there name nothing any more. The communicators are closed
    /// already.
    pub(crate) fn forget_handles_of(&self, origin: Origin) {
        for handle in self.communicators.handles() {
            if self.communicators.get(handle).is_ok_and(|comm| comm.origin() == origin) {
                self.contexts.forget(handle.raw() as Comm);
                // Nobody frees it meanwhile: the program must not use it.
                let _ = self.communicators.free(handle);
            }
        }
        for handle in self.groups.handles() {
            if self.groups.get(handle).is_ok_and(|group| group.origin() == origin) {
                let _ = self.groups.free(handle);
            }
        }
    }

    /// Ends the World Model (MPI-5.0, "Finalizing MPI"); sessions go on. It is collective over all connected processes
    /// (MPI-5.0, "Releasing Connections"), which is no barrier: what this process has sent is with its receivers, and receives whose
    /// requests were freed are over. It waits for nothing else of the others, so that it ends whatever becomes of them.
    pub(crate) fn end_world(&'static self) -> Result<()> {
        exit(self, || {
            // First of all, while MPI is as usable as ever.
            delete_attributes(abi::MPI_COMM_SELF, &self.process.own().attributes)?;
            // What lasts is done before the program is told that MPI is finalised.
            let mut comms = self.communicators_of(Origin::WORLD);
            if has_others() {
                comms.extend([self.process.world().clone(), self.process.own().clone()]);
                self.process.end_communicators(&comms);
            } else {
                self.process.deliver_all()?;
                comms.iter().for_each(|comm| self.process.close(comm));
            }
            // It fails if there is none.
            let _ = self.process.detach(BufferOf::Process);
            self.forget_handles_of(Origin::WORLD);
            library::end_world(self);
            Ok(())
        })
    }
}
