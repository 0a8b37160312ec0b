//! The state behind the C functions, and lookups of handles.
//!
//! The first MPI_Init or MPI_Session_init makes the only [`Running`] (module `operations::life`).
//! Between MPI_Init and MPI_Finalize a call finds it by one load. Outside of the World Model the
//! loaded pointer is null, and a second lookup checks for sessions. The object is never freed,
//! since other threads may still use it.

use crate::state::accelerator::Accelerator;
use crate::state::context_cache::ContextCache;
use crate::state::fortran::FortranTypes;
use crate::state::kernels::Kernels;
use crate::state::locked;
use crate::state::memory::OrdinaryMemory;
use crate::state::predefined::AttributeValues;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{
    Comm, Datatype as DatatypeHandle, File as FileHandle, Group as GroupHandle, Op as OpHandle, Win,
};
use oxmpi_core::file::{Conversion, File};
use oxmpi_core::handler::HandlerCell;
use oxmpi_core::modules::Modules;
use oxmpi_core::window::Window;
use oxmpi_core::{Communicator, Process};
use oxmpi_fabric::routes::Routes;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::table::{BadHandle, Glance, Handle, Ref, Table};
use oxmpi_objects::datatype::Datatype;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;
use oxmpi_objects::op::{self, Op};
use oxmpi_objects::predefined::Predefined;
use oxmpi_objects::shown::{ValueKind, bad_handle};
use oxmpi_rt_client::client::Client;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;

pub(crate) struct Running {
    pub(crate) process: Process<Routes>,
    pub(crate) client: Arc<Client>,
    /// The selected modules and the candidates.
    pub(crate) modules: Modules,
    /// Whether arguments are checked for errors that their use would not reveal (mpi_param_check).
    pub(crate) checks: bool,
    /// Whether operations accept only the datatypes that the standard names (mpi_strict).
    pub(crate) strict: bool,
    pub(crate) accelerator: Accelerator,
    pub(crate) communicators: Table<Arc<Communicator>>,
    pub(crate) contexts: ContextCache,
    pub(crate) files: Table<Arc<File>>,
    pub(crate) groups: Table<Arc<Group>>,
    pub(crate) datatypes: Table<Arc<Datatype>>,
    pub(crate) predefined: Predefined,
    pub(crate) fortran_types: FortranTypes,
    pub(crate) operations: Table<Op>,
    pub(crate) kernels: Kernels,
    pub(crate) windows: Table<Arc<Window>>,
    pub(crate) own_handler_is_set: AtomicBool,
    /// Whether the program may use MPI_COMM_WORLD and MPI_COMM_SELF.
    pub(crate) has_world: AtomicBool,
    pub(crate) has_threads: AtomicBool,
    pub(crate) world: OnceLock<WorldModel>,
    pub(crate) first_thread: ThreadId,
    pub(crate) attribute_values: AttributeValues,
    /// Memory of MPI_Alloc_mem that did not fit in the heap.
    pub(crate) ordinary_memory: OrdinaryMemory,
    pub(crate) representations: RegisteredDatareps,
    /// The communicator to the parents of a spawned job.
    pub(crate) parent: OnceLock<Comm>,
    pub(crate) sessions: AtomicU64,
}

/// Data representations of the program. They exist until the process ends.
#[derive(Default)]
pub(crate) struct RegisteredDatareps(pub(crate) Mutex<Vec<Arc<dyn Conversion>>>);

#[derive(Debug)]
pub(crate) struct WorldModel {
    pub(crate) level: c_int,
    pub(crate) wanted_level: c_int,
    pub(crate) main_thread: ThreadId,
}

/// The pointers for calls, and whether MPI is closed.
static CALLS: Mutex<CallGate> = Mutex::new(CallGate { world: None, open: None, is_closed: false });
/// Signalled when MPI is open again.
static REOPENED: Condvar = Condvar::new();

struct CallGate {
    /// The values of `RUNNING` and `OPEN` while MPI is not closed.
    world: Option<&'static Running>,
    open: Option<&'static Running>,
    is_closed: bool,
}

thread_local! {
    /// Whether this thread runs a function for which MPI is closed.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Set between MPI_Init and MPI_Finalize.
static RUNNING: AtomicPtr<Running> = AtomicPtr::new(std::ptr::null_mut());
/// Set between MPI_Init and MPI_Finalize, and while a session exists.
static OPEN: AtomicPtr<Running> = AtomicPtr::new(std::ptr::null_mut());
/// Set from the first initialisation on.
static LATEST: AtomicPtr<Running> = AtomicPtr::new(std::ptr::null_mut());
static PHASE: AtomicU8 = AtomicU8::new(BEFORE);

const BEFORE: u8 = 0;
const INITIALIZED: u8 = 1;
const FINALIZED: u8 = 2;
/// In a child that the program has forked after MPI_Init.
const FORKED: u8 = 3;

/// MPI, if the World Model is initialised and not finalised.
#[inline(always)]
pub(crate) fn running() -> Option<&'static Running> {
    // SAFETY: null, or a leaked box that is never freed.
    unsafe { RUNNING.load(Ordering::Acquire).as_ref() }
}

/// MPI, if it was ever initialised, for its counters. No message may be sent.
pub(crate) fn latest() -> Option<&'static Running> {
    // SAFETY: null, or a leaked box that is never freed.
    unsafe { LATEST.load(Ordering::Acquire).as_ref() }
}

/// MPI and the context of a communicator, for the low-latency path. `None` for invalid handles and
/// for communicators that are not cached; the full path then caches the context
/// ([`Running::noted`]).
#[inline(always)]
pub(crate) fn at_hand(comm: Comm) -> Option<(&'static Running, u32)> {
    // SAFETY: null, or a leaked box that is never freed.
    let library = unsafe { OPEN.load(Ordering::Acquire).as_ref() }?;
    let context = library.contexts.get(comm)?;
    Some((library, context))
}

/// MPI, or the error of a call outside of its lifetime.
#[inline(always)]
pub(crate) fn library() -> Result<&'static Running> {
    match running() {
        Some(library) => Ok(library),
        None => without_world(),
    }
}

/// MPI without the World Model, for sessions.
#[cold]
fn without_world() -> Result<&'static Running> {
    if is_inside() {
        let text = "called by a function that the program has for checkpoints (cr self): MPI is closed until it returns";
        return Err(MpiError::new(abi::MPI_ERR_OTHER, text));
    }
    await_reopening();
    // SAFETY: null, or a leaked box that is never freed.
    if let Some(library) = unsafe { OPEN.load(Ordering::Acquire).as_ref() } {
        return Ok(library);
    }
    let text = match PHASE.load(Ordering::Acquire) {
        FINALIZED => "called after MPI_Finalize, and there is no session",
        FORKED => {
            "called in a process that was forked off by a rank: only the rank itself may call MPI"
        }
        _ => "called before MPI_Init or MPI_Init_thread, and there is no session",
    };
    Err(MpiError::new(abi::MPI_ERR_OTHER, text))
}

/// Returns `false` if MPI was initialised before.
pub(crate) fn claim_initialization() -> bool {
    PHASE.compare_exchange(BEFORE, INITIALIZED, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Opens the library for calls of sessions.
pub(crate) fn open(library: &'static Running) {
    LATEST.store(std::ptr::from_ref(library).cast_mut(), Ordering::Release);
    change(|calls| calls.open = Some(library));
}

pub(crate) fn close() {
    change(|calls| calls.open = None);
}

/// Changes the pointers for calls, which are null while MPI is closed.
fn change(to: impl FnOnce(&mut CallGate)) {
    let mut calls = locked(&CALLS);
    to(&mut calls);
    let pointer = |library: Option<&'static Running>| {
        let library = library.filter(|_| !calls.is_closed);
        library.map_or(std::ptr::null_mut(), |library| std::ptr::from_ref(library).cast_mut())
    };
    RUNNING.store(pointer(calls.world), Ordering::Release);
    OPEN.store(pointer(calls.open), Ordering::Release);
}

/// MPI is closed while this object exists. New calls wait, except calls inside [`Closed::run`],
/// which fail.
#[derive(Debug)]
pub(crate) struct Closed(());

impl Closed {
    pub(crate) fn begin() -> Closed {
        change(|calls| calls.is_closed = true);
        Closed(())
    }

    /// Runs a function of the program; its calls of MPI fail.
    pub(crate) fn run<T>(&self, function: impl FnOnce() -> T) -> T {
        IS_INSIDE.set(true);
        let result = function();
        IS_INSIDE.set(false);
        result
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        if !is_forked() {
            change(|calls| calls.is_closed = false);
            REOPENED.notify_all();
        }
    }
}

pub(crate) fn is_inside() -> bool {
    // A thread whose variables are gone runs no such function.
    IS_INSIDE.try_with(Cell::get).unwrap_or(false)
}

/// MPI for error handling inside a function for which MPI is closed.
pub(crate) fn closed() -> Option<&'static Running> {
    latest().filter(|_| is_inside())
}

/// Waits while another thread keeps MPI closed.
#[cold]
pub(crate) fn await_reopening() {
    // In a forked child, the lock's owner may not exist.
    if is_forked() || is_inside() {
        return;
    }
    let mut calls = locked(&CALLS);
    while calls.is_closed {
        calls = REOPENED.wait(calls).unwrap_or_else(PoisonError::into_inner);
    }
}

/// MPI, if the World Model is initialised and not finalised. Waits while MPI is closed.
pub(crate) fn running_unless_closed() -> Option<&'static Running> {
    running().or_else(|| {
        await_reopening();
        running()
    })
}

pub(crate) fn begin_world(library: &'static Running, world: WorldModel) {
    // MPI_Init succeeds once, so the cell is set once.
    let _ = library.world.set(world);
    library.has_world.store(true, Ordering::Release);
    change(|calls| calls.world = Some(library));
}

/// Marks a forked child, which has the rank's memory and descriptors but must not use the rings.
/// Only stores to atomics, which are allowed in a forked child of a process with threads.
pub(crate) extern "C" fn in_forked_child() {
    PHASE.store(FORKED, Ordering::Release);
    LATEST.store(std::ptr::null_mut(), Ordering::Release);
    RUNNING.store(std::ptr::null_mut(), Ordering::Release);
    OPEN.store(std::ptr::null_mut(), Ordering::Release);
}

pub(crate) fn is_forked() -> bool {
    PHASE.load(Ordering::Acquire) == FORKED
}

pub(crate) fn end_world(library: &Running) {
    PHASE.store(FINALIZED, Ordering::Release);
    library.has_world.store(false, Ordering::Release);
    [abi::MPI_COMM_WORLD, abi::MPI_COMM_SELF]
        .into_iter()
        .for_each(|comm| library.contexts.forget(comm));
    change(|calls| calls.world = None);
}

pub(crate) fn is_initialized() -> bool {
    is_finalized() || running().is_some() || !is_forked() && locked(&CALLS).world.is_some()
}

pub(crate) fn is_finalized() -> bool {
    PHASE.load(Ordering::Acquire) == FINALIZED
}

pub(crate) enum CommRef<'a> {
    /// MPI_COMM_WORLD or MPI_COMM_SELF.
    Predefined(&'a Arc<Communicator>),
    Made(Ref<'a, Arc<Communicator>>),
}

impl Deref for CommRef<'_> {
    type Target = Arc<Communicator>;
    #[inline(always)]
    fn deref(&self) -> &Arc<Communicator> {
        match self {
            CommRef::Predefined(c) => c,
            CommRef::Made(c) => c,
        }
    }
}

pub(crate) enum TypeRef<'a> {
    Predefined(&'a Arc<Datatype>),
    Made(Ref<'a, Arc<Datatype>>),
}

impl Deref for TypeRef<'_> {
    type Target = Arc<Datatype>;
    #[inline(always)]
    fn deref(&self) -> &Arc<Datatype> {
        match self {
            TypeRef::Predefined(t) => t,
            TypeRef::Made(t) => t,
        }
    }
}

pub(crate) enum TypeGlance<'a> {
    Predefined(&'a Arc<Datatype>),
    Made(Glance<'a, Arc<Datatype>>),
}

impl Deref for TypeGlance<'_> {
    type Target = Arc<Datatype>;
    #[inline(always)]
    fn deref(&self) -> &Arc<Datatype> {
        match self {
            TypeGlance::Predefined(t) => t,
            TypeGlance::Made(t) => t,
        }
    }
}

impl Running {
    pub(crate) fn level(&self) -> c_int {
        let world = self.world.get().map_or(abi::MPI_THREAD_SINGLE, |world| world.level);
        if self.has_threads.load(Ordering::Acquire) { abi::MPI_THREAD_MULTIPLE } else { world }
    }

    /// # Errors
    /// MPI was initialised for another thread only.
    pub(crate) fn set_threaded(&self) -> Result<()> {
        if self.has_threads.load(Ordering::Acquire) {
            return Ok(());
        }
        // This call refuses wrong threads, which must not touch the tables.
        self.process.set_threaded()?;
        self.communicators.set_threaded();
        self.groups.set_threaded();
        self.datatypes.set_threaded();
        self.operations.set_threaded();
        self.windows.set_threaded();
        self.has_threads.store(true, Ordering::Release);
        Ok(())
    }

    #[inline(always)]
    pub(crate) fn communicator(&self, comm: Comm) -> Result<CommRef<'_>> {
        match comm {
            abi::MPI_COMM_WORLD if self.has_world() => {
                Ok(CommRef::Predefined(self.process.world()))
            }
            abi::MPI_COMM_SELF if self.has_world() => Ok(CommRef::Predefined(self.process.own())),
            _ => self.made_communicator(comm),
        }
    }

    /// Caches the context of a communicator for [`at_hand`], and returns it.
    pub(crate) fn noted(&self, comm: Comm, communicator: &Communicator) -> u32 {
        let context = communicator.team.point_to_point;
        self.contexts.note(comm, context);
        context
    }

    #[inline(always)]
    fn has_world(&self) -> bool {
        self.has_world.load(Ordering::Relaxed)
    }

    #[inline(never)]
    fn made_communicator(&self, comm: Comm) -> Result<CommRef<'_>> {
        match self.communicators.get(Handle::from_raw(comm as u64)) {
            Ok(made) => Ok(CommRef::Made(made)),
            Err(bad) => Err(no_communicator(comm, bad)),
        }
    }

    pub(crate) fn group(&self, handle: GroupHandle) -> Result<Arc<Group>> {
        match handle {
            abi::MPI_GROUP_EMPTY => Ok(Arc::new(Group::EMPTY)),
            _ => match self.groups.get(Handle::from_raw(handle as u64)) {
                Ok(made) => Ok(made.clone()),
                Err(bad) => Err(bad_handle(ValueKind::Group, handle as u64, bad)),
            },
        }
    }

    #[inline(always)]
    pub(crate) fn datatype(&self, handle: DatatypeHandle) -> Result<TypeRef<'_>> {
        match self.predefined.get(handle as u64) {
            Some(datatype) => Ok(TypeRef::Predefined(datatype)),
            None => self.made_datatype(handle),
        }
    }

    #[inline(never)]
    fn made_datatype(&self, handle: DatatypeHandle) -> Result<TypeRef<'_>> {
        match self.datatypes.get(Handle::from_raw(handle as u64)) {
            Ok(made) => Ok(TypeRef::Made(made)),
            Err(bad) => Err(bad_handle(ValueKind::Datatype, handle as u64, bad)),
        }
    }

    /// The datatype with this handle, without a reference count.
    /// # Safety
    /// The contract of [`Table::glance`]: while the result exists, this thread frees no datatype,
    /// drops no other reference to one, and calls no function of the program.
    #[inline(always)]
    pub(crate) unsafe fn glance_at_datatype(
        &self,
        handle: DatatypeHandle,
    ) -> Result<TypeGlance<'_>> {
        if let Some(datatype) = self.predefined.get(handle as u64) {
            return Ok(TypeGlance::Predefined(datatype));
        }
        // SAFETY: by the contract of this function.
        match unsafe { self.datatypes.glance(Handle::from_raw(handle as u64)) } {
            Ok(made) => Ok(TypeGlance::Made(made)),
            Err(bad) => Err(bad_handle(ValueKind::Datatype, handle as u64, bad)),
        }
    }

    pub(crate) fn operation(&self, handle: OpHandle) -> Result<Op> {
        if let Some(op) = op::predefined(handle as u64) {
            return Ok(Op::Predefined(op));
        }
        match self.operations.get(Handle::from_raw(handle as u64)) {
            Ok(made) => Ok(*made),
            Err(bad) => Err(bad_handle(ValueKind::Op, handle as u64, bad)),
        }
    }

    pub(crate) fn window(&self, win: Win) -> Result<Ref<'_, Arc<Window>>> {
        let found = self.windows.get(Handle::from_raw(win as u64));
        found.map_err(|bad| bad_handle(ValueKind::Win, win as u64, bad))
    }

    pub(crate) fn file(&self, handle: FileHandle) -> Result<Arc<File>> {
        match self.files.get(Handle::from_raw(handle as u64)) {
            Ok(file) => Ok(Arc::clone(&*file)),
            Err(bad) => Err(bad_handle(ValueKind::File, handle as u64, bad)),
        }
    }

    pub(crate) fn file_handler(&self, handle: FileHandle) -> Option<Arc<HandlerCell>> {
        self.files
            .get(Handle::from_raw(handle as u64))
            .ok()
            .map(|file| Arc::clone(file.errhandler_cell()))
    }

    pub(crate) fn buffer(
        &self,
        address: *const c_void,
        count: i64,
        datatype: DatatypeHandle,
    ) -> Result<UserBuf> {
        self.check_address(address)?;
        self.block(address, count, datatype)
    }

    /// Checks (address, count, datatype). Returns the number of elements and their packed bytes.
    #[inline]
    pub(crate) fn check_elements(
        &self,
        address: *const c_void,
        count: i64,
        datatype: &Datatype,
    ) -> Result<(usize, usize)> {
        let count = check_count(count)?;
        if self.checks {
            check_buffer(address, count, datatype)?;
        }
        match datatype.bounds().packed_len(count) {
            Ok(bytes) => Ok((count, bytes)),
            Err(_) => Err(MpiError::new(
                abi::MPI_ERR_COUNT,
                format!("count is {count}: elements of this number do not fit the address space"),
            )),
        }
    }

    /// Data must not be at MPI_IN_PLACE.
    #[inline]
    pub(crate) fn check_address(&self, address: *const c_void) -> Result<()> {
        if self.checks && address as usize == abi::MPI_IN_PLACE {
            return Err(MpiError::new(
                abi::MPI_ERR_BUFFER,
                "MPI_IN_PLACE is not allowed for this buffer",
            ));
        }
        Ok(())
    }

    /// The memory of a block at an argument plus a displacement. The sum may equal MPI_IN_PLACE for
    /// an element relative to MPI_BOTTOM.
    pub(crate) fn block(
        &self,
        address: *const c_void,
        count: i64,
        datatype: DatatypeHandle,
    ) -> Result<UserBuf> {
        let datatype = self.datatype(datatype)?;
        let (count, _) = self.check_elements(address, count, &datatype)?;
        // SAFETY: the program does not access its memory until the operation is complete, as the
        // standard requires (MPI-5.0 section 3.7.2).
        let buffer = unsafe { UserBuf::new(address.cast_mut().cast(), count, datatype.layout()) };
        self.accelerator.placed(buffer)
    }
}

#[cold]
fn no_communicator(comm: Comm, bad: BadHandle) -> MpiError {
    if comm == abi::MPI_COMM_WORLD || comm == abi::MPI_COMM_SELF {
        let why = "it is there between MPI_Init and MPI_Finalize only";
        return bad_handle(ValueKind::Comm, comm as u64, why);
    }
    let or = match bad {
        BadHandle::Freed => ", or was part of a session that is finalised",
        _ => "",
    };
    bad_handle(ValueKind::Comm, comm as u64, format!("{bad}{or}"))
}

/// Finds errors of a buffer that its use would not reveal.
fn check_buffer(address: *const c_void, count: usize, datatype: &Datatype) -> Result<()> {
    datatype.check_committed()?;
    if address.is_null() && count > 0 && datatype.size() > 0 && bytes_lie_at_null(datatype) {
        return Err(MpiError::new(
            abi::MPI_ERR_BUFFER,
            format!("the buffer is a null pointer, with a count of {count}"),
        ));
    }
    Ok(())
}

/// Whether the bytes of a datatype lie near address 0. The null pointer MPI_BOTTOM is valid for a
/// datatype of absolute addresses.
fn bytes_lie_at_null(datatype: &Datatype) -> bool {
    datatype.bounds().true_lb().unsigned_abs() < FIRST_PAGE
}

/// All memory of a program has higher addresses.
pub(crate) const FIRST_PAGE: usize = 4096;

#[inline]
pub(crate) fn check_count(count: i64) -> Result<usize> {
    usize::try_from(count).map_err(|_| {
        MpiError::new(abi::MPI_ERR_COUNT, format!("count is {count}; it must not be negative"))
    })
}
