//! The time of this process as a rank. It begins with the first MPI_Init or MPI_Session_init, and
//! ends when the World Model and all sessions are finalised (MPI-5.0, "The Sessions Model"). The
//! process can become the same rank again later.

use crate::errors::{end_jobs_through, report_misuse};
use crate::operations::attributes::delete_attributes;
use crate::operations::communicators;
use crate::operations::tool;
use crate::state::accelerator::Accelerator;
use crate::state::call_note;
use crate::state::context_cache::ContextCache;
use crate::state::fortran::FortranTypes;
use crate::state::kernels::Kernels;
use crate::state::library::{self, RegisteredDatareps, Running};
use crate::state::locked;
use crate::state::memory::OrdinaryMemory;
use crate::state::objects::{ObjectKind, objects, table};
use crate::state::predefined::AttributeValues;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Comm;
use oxmpi_core::Communicator;
use oxmpi_core::buffered::BufferOf;
use oxmpi_core::handler::ErrorHandler;
use oxmpi_core::start::{StartedProcess, start_changed};
use oxmpi_mem::table::SingleThread;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::origin::Origin;
use oxmpi_objects::predefined::Predefined;
use oxmpi_shm::segment::RankState;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};

/// The World Model and the sessions are the users of the rank, until they are finalised.
static USERS: Mutex<RankUsers> =
    Mutex::new(RankUsers { library: None, count: 0, ending: 0, has_left: false });

struct RankUsers {
    library: Option<&'static Running>,
    count: usize,
    ending: usize,
    /// Whether the peers know that the program ends.
    has_left: bool,
}

impl RankUsers {
    /// Publishes the state of the process for the launcher and its tools.
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
        if self.count == 0 {
            library.client.leave_manager();
        }
    }
}

/// Adds a user of the rank. The first user makes the process a rank. `threads` requests calls from
/// several threads. If the process was made a rank for one thread, only that thread can open it for
/// others: another thread cannot know whether the first one is in the library. Otherwise the
/// process keeps its level.
pub(crate) fn enter(threads: bool) -> Result<&'static Running> {
    if library::is_forked() {
        // A forked child is not the rank, and its copy of the lock may be locked forever.
        return library::library();
    }
    let mut users = locked(&USERS);
    if users.has_left {
        let text = "called when the program ends: its peers have been notified of the end";
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

/// Finalises one user by `end`, which may run the program's callbacks. The last user first waits
/// until the receivers have its messages.
/// # Errors
/// If `end` fails, the user remains.
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
                // Another user was added meanwhile.
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

pub(crate) fn has_others() -> bool {
    locked(&USERS).count > 1
}

fn make(threads: bool) -> Result<&'static Running> {
    if library::is_forked() {
        return library::library();
    }
    let StartedProcess { process, client, checks, strict, accelerator, parent, modules } =
        start_changed(&tool::changes())
            .map_err(|e| MpiError::new(abi::MPI_ERR_OTHER, e.to_string()))?;
    end_jobs_through(client.clone());
    let accelerator = Accelerator::new(accelerator)?;
    report_misuse();
    process.keep_pending(true);
    let attribute_values = AttributeValues::new(&client, process.tag_ub());
    let (communicators, groups) = (table(ObjectKind::Comm), table(ObjectKind::Group));
    let (datatypes, operations) = (table(ObjectKind::Datatype), table(ObjectKind::Op));
    let windows = table(ObjectKind::Win);
    if !threads {
        // SAFETY: the program has promised that one thread calls MPI. Other threads must first call
        // `set_threaded`.
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
        files: table(ObjectKind::File),
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
        representations: RegisteredDatareps::default(),
        parent: OnceLock::new(),
        sessions: AtomicU64::new(0),
    }));
    if let Some(parent) = parent {
        parent.errhandler_cell().set(ErrorHandler::predefined(objects().initial_handler));
        // The cell is new.
        let _ = library.parent.set(communicators::enlist(library, parent));
    }
    call_note::note_calls_in(library.client.segment().status().last_call_cell());
    // SAFETY: the handlers only store to atomics, or run code that may run at the process's end.
    unsafe {
        libc::pthread_atfork(None, None, Some(library::in_forked_child));
        libc::atexit(at_exit);
    }
    Ok(library)
}

/// At the end of the program, informs the peers that they need not wait for this process. While MPI
/// is in use they are not notified, since the launcher judges that end.
extern "C" fn at_exit() {
    if library::is_forked() {
        return;
    }
    let Ok(mut users) = USERS.try_lock() else { return };
    if let RankUsers { library: Some(library), count: 0, .. } = *users {
        users.has_left = true;
        library.client.segment().status().set_state(RankState::Finalized);
        library.process.take_leave();
        library.client.report_end();
    }
}

impl Running {
    /// The program's communicators that come from `origin`.
    pub(crate) fn communicators_of(&self, origin: Origin) -> Vec<Arc<Communicator>> {
        let all = self.communicators.handles().into_iter();
        let found =
            all.filter_map(|handle| Some(Arc::clone(&*self.communicators.get(handle).ok()?)));
        found.filter(|comm| comm.origin() == origin).collect()
    }

    /// Invalidates the handles of all communicators and groups from `origin`. The communicators are
    /// already closed.
    pub(crate) fn forget_handles_of(&self, origin: Origin) {
        for handle in self.communicators.handles() {
            if self.communicators.get(handle).is_ok_and(|comm| comm.origin() == origin) {
                self.contexts.forget(handle.raw() as Comm);
                // The program must not use the handle any more, so no other thread frees it.
                let _ = self.communicators.free(handle);
            }
        }
        for handle in self.groups.handles() {
            if self.groups.get(handle).is_ok_and(|group| group.origin() == origin) {
                let _ = self.groups.free(handle);
            }
        }
    }

    /// Ends the World Model (MPI-5.0, "Finalizing MPI"); sessions continue. The call is collective
    /// over all connected processes (MPI-5.0, "Releasing Connections"), but no barrier. It waits
    /// until the receivers have the messages of this process, and receives of freed requests are
    /// complete. It waits for nothing else, so a failed peer cannot block it.
    pub(crate) fn end_world(&'static self) -> Result<()> {
        exit(self, || {
            // The delete functions may still use MPI.
            delete_attributes(abi::MPI_COMM_SELF, &self.process.own().attributes)?;
            // Long operations come before MPI_Finalized returns true.
            let mut comms = self.communicators_of(Origin::WORLD);
            if has_others() {
                comms.extend([self.process.world().clone(), self.process.own().clone()]);
                self.process.end_communicators(&comms);
            } else {
                self.process.deliver_all()?;
                comms.iter().for_each(|comm| self.process.close(comm));
            }
            // Without an attached buffer the call fails, which is no error here.
            let _ = self.process.detach(BufferOf::Process);
            self.forget_handles_of(Origin::WORLD);
            library::end_world(self);
            Ok(())
        })
    }
}
