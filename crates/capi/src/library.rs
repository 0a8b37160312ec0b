//! The state behind the C functions, and the way from handles to objects.
//!
//! There is one [`Running`], made by the first MPI_Init or MPI_Session_init (module `life`). Between MPI_Init and MPI_Finalize
//! a call finds it with one load; a null pointer means that the World Model is not initialised, or not any more, and that a
//! second look is due: there may be sessions. It is never freed: threads may still be on their way out.

use crate::accelerator::Accelerator;
use crate::context_cache::ContextCache;
use crate::files::Registered;
use crate::fortran_types::FortranTypes;
use crate::memory::OrdinaryMemory;
use crate::objects::locked;
use crate::operations::Kernels;
use crate::predefined::Values;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Datatype as DatatypeHandle, Group as GroupHandle, Op as OpHandle};
use oxmpi_core::file::File;
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
use oxmpi_rt::client::Client;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;

/// The process as a rank.
pub(crate) struct Running {
    pub(crate) process: Process<Routes>,
    pub(crate) client: Arc<Client>,
    /// What its modules are selected from.
    pub(crate) modules: Modules,
    /// Whether what no use of an argument would reveal is looked at (parameter mpi_param_check).
    pub(crate) checks: bool,
    /// Whether operations are carried out only on the datatypes that the standard names (parameter mpi_strict).
    pub(crate) strict: bool,
    /// What is known of buffers on devices.
    pub(crate) accelerator: Accelerator,
    pub(crate) communicators: Table<Arc<Communicator>>,
    /// The contexts of those that are in use.
    pub(crate) contexts: ContextCache,
    pub(crate) files: Table<Arc<File>>,
    pub(crate) groups: Table<Arc<Group>>,
    pub(crate) datatypes: Table<Arc<Datatype>>,
    pub(crate) predefined: Predefined,
    pub(crate) fortran_types: FortranTypes,
    pub(crate) operations: Table<Op>,
    pub(crate) kernels: Kernels,
    pub(crate) windows: Table<Arc<Window>>,
    /// Whether the program has given MPI_COMM_SELF an error handler.
    pub(crate) own_handler_is_set: AtomicBool,
    /// Whether MPI_COMM_WORLD and MPI_COMM_SELF are there for the program: between MPI_Init and MPI_Finalize.
    pub(crate) has_world: AtomicBool,
    /// Whether calls may come from several threads.
    pub(crate) has_threads: AtomicBool,
    /// What MPI_Init was told.
    pub(crate) world: OnceLock<World>,
    /// The thread that made this process a rank.
    pub(crate) first_thread: ThreadId,
    /// What the attributes say that the library sets.
    pub(crate) attribute_values: Values,
    /// What MPI_Alloc_mem gave when the heap had no room.
    pub(crate) ordinary_memory: OrdinaryMemory,
    /// Data representations of the program's.
    pub(crate) representations: Registered,
    /// The communicator with those who have spawned this process's job.
    pub(crate) parent: OnceLock<Comm>,
    /// Sessions that were ever initialised.
    pub(crate) sessions: AtomicU64,
}

/// The World Model.
#[derive(Debug)]
pub(crate) struct World {
    /// The thread level that was granted.
    pub(crate) level: c_int,
    /// The thread level that the program asked for.
    pub(crate) wanted_level: c_int,
    /// The thread that called MPI_Init.
    pub(crate) main_thread: ThreadId,
}

/// Who may call MPI, while it may be closed for a time.
static CALLS: Mutex<Calls> = Mutex::new(Calls { world: None, open: None, is_closed: false });
/// It is closed no more.
static REOPENED: Condvar = Condvar::new();

struct Calls {
    /// What `RUNNING` and `OPEN` are while it is not closed.
    world: Option<&'static Running>,
    open: Option<&'static Running>,
    is_closed: bool,
}

thread_local! {
    /// Whether this thread runs a function for which MPI is closed.
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Between MPI_Init and MPI_Finalize.
static RUNNING: AtomicPtr<Running> = AtomicPtr::new(std::ptr::null_mut());
/// Between these, and while there is a session.
static OPEN: AtomicPtr<Running> = AtomicPtr::new(std::ptr::null_mut());
/// As `OPEN`, but it stays when all is finalised.
static LATEST: AtomicPtr<Running> = AtomicPtr::new(std::ptr::null_mut());
static PHASE: AtomicU8 = AtomicU8::new(BEFORE);

const BEFORE: u8 = 0;
const INITIALIZED: u8 = 1;
const FINALIZED: u8 = 2;
/// In a child that the program has forked off after MPI_Init.
const FORKED: u8 = 3;

/// MPI, if the World Model is initialised and not finalised.
#[inline(always)]
pub(crate) fn running() -> Option<&'static Running> {
    // SAFETY: null, or a leaked box that is never freed.
    unsafe { RUNNING.load(Ordering::Acquire).as_ref() }
}

/// MPI, if it was initialised, also when it is finalised by now: for what it has counted. No message may be sent.
pub(crate) fn latest() -> Option<&'static Running> {
    // SAFETY: as above.
    unsafe { LATEST.load(Ordering::Acquire).as_ref() }
}

/// MPI and the context of a communicator, if a call may try the low-latency path on it. Other communicators, and what is none, take
/// the full path, which notes the context ([`Running::noted`]).
#[inline(always)]
pub(crate) fn at_hand(comm: Comm) -> Option<(&'static Running, u32)> {
    // SAFETY: null, or a leaked box that is never freed.
    let library = unsafe { OPEN.load(Ordering::Acquire).as_ref() }?;
    let context = library.contexts.get(comm)?;
    Some((library, context))
}

/// MPI, or the error that says why there is none.
#[inline(always)]
pub(crate) fn library() -> Result<&'static Running> {
    match running() {
        Some(library) => Ok(library),
        None => without_world(),
    }
}

/// MPI while there is no World Model: for the sessions.
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
        FORKED => "called in a process that was forked off by a rank: only the rank itself may call MPI",
        _ => "called before MPI_Init or MPI_Init_thread, and there is no session",
    };
    Err(MpiError::new(abi::MPI_ERR_OTHER, text))
}

/// Claims the one initialisation. `false`: somebody has done it before.
pub(crate) fn claim_initialization() -> bool {
    PHASE.compare_exchange(BEFORE, INITIALIZED, Ordering::AcqRel, Ordering::Acquire).is_ok()
}

/// Opens the library for the calls of sessions.
pub(crate) fn open(library: &'static Running) {
    LATEST.store(std::ptr::from_ref(library).cast_mut(), Ordering::Release);
    change(|calls| calls.open = Some(library));
}

/// Closes the library for all calls.
pub(crate) fn close() {
    change(|calls| calls.open = None);
}

/// Changes who may call, as far as it is not closed.
fn change(to: impl FnOnce(&mut Calls)) {
    let mut calls = locked(&CALLS);
    to(&mut calls);
    let pointer = |library: Option<&'static Running>| {
        let library = library.filter(|_| !calls.is_closed);
        library.map_or(std::ptr::null_mut(), |library| std::ptr::from_ref(library).cast_mut())
    };
    RUNNING.store(pointer(calls.world), Ordering::Release);
    OPEN.store(pointer(calls.open), Ordering::Release);
}

/// MPI is closed as long as this exists: calls that begin meanwhile wait, but for those of a thread within [`Closed::run`].
#[derive(Debug)]
pub(crate) struct Closed(());

impl Closed {
    /// Closes MPI.
    pub(crate) fn begin() -> Closed {
        change(|calls| calls.is_closed = true);
        Closed(())
    }

    /// Runs a function of the program's: calls that this thread makes are refused.
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

/// Whether this thread runs a function for which MPI is closed.
pub(crate) fn is_inside() -> bool {
    // A thread that is ending runs none.
    IS_INSIDE.try_with(Cell::get).unwrap_or(false)
}

/// MPI for a function for which it is closed: for how its errors are handled.
pub(crate) fn closed() -> Option<&'static Running> {
    latest().filter(|_| is_inside())
}

/// Waits while it is closed for another thread.
#[cold]
pub(crate) fn await_reopening() {
    // In a forked child another thread may have held the lock.
    if is_forked() || is_inside() {
        return;
    }
    let mut calls = locked(&CALLS);
    while calls.is_closed {
        calls = REOPENED.wait(calls).unwrap_or_else(PoisonError::into_inner);
    }
}

/// MPI, if the World Model is initialised and not finalised, for calls that do nothing without it.
pub(crate) fn running_unless_closed() -> Option<&'static Running> {
    running().or_else(|| {
        await_reopening();
        running()
    })
}

/// Opens the World Model for calls.
pub(crate) fn begin_world(library: &'static Running, world: World) {
    // There is one MPI_Init.
    let _ = library.world.set(world);
    library.has_world.store(true, Ordering::Release);
    change(|calls| calls.world = Some(library));
}

/// A forked child has the rank's memory and descriptors but is not the rank: it must not touch the rings. It stores to
/// atomics, which is allowed in a child of any process.
pub(crate) extern "C" fn in_forked_child() {
    PHASE.store(FORKED, Ordering::Release);
    LATEST.store(std::ptr::null_mut(), Ordering::Release);
    RUNNING.store(std::ptr::null_mut(), Ordering::Release);
    OPEN.store(std::ptr::null_mut(), Ordering::Release);
}

/// Whether this process was forked off by a rank.
pub(crate) fn is_forked() -> bool {
    PHASE.load(Ordering::Acquire) == FORKED
}

/// Closes the World Model for calls.
pub(crate) fn end_world(library: &Running) {
    PHASE.store(FINALIZED, Ordering::Release);
    library.has_world.store(false, Ordering::Release);
    [abi::MPI_COMM_WORLD, abi::MPI_COMM_SELF].into_iter().for_each(|comm| library.contexts.forget(comm));
    change(|calls| calls.world = None);
}

/// Whether MPI_Init has completed.
pub(crate) fn is_initialized() -> bool {
    is_finalized() || running().is_some() || !is_forked() && locked(&CALLS).world.is_some()
}

/// Whether MPI_Finalize has completed.
pub(crate) fn is_finalized() -> bool {
    PHASE.load(Ordering::Acquire) == FINALIZED
}

/// A communicator that a call names.
pub(crate) enum CommRef<'a> {
    /// World or self.
    Predefined(&'a Arc<Communicator>),
    /// One that the program made.
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

/// A datatype that a call names.
pub(crate) enum TypeRef<'a> {
    /// One of the standard's.
    Predefined(&'a Arc<Datatype>),
    /// One that the program made.
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

/// As [`TypeRef`], for a call that frees nothing.
pub(crate) enum TypeGlance<'a> {
    /// One of the standard's.
    Predefined(&'a Arc<Datatype>),
    /// One that the program made.
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
    /// The communicator with this handle.
    #[inline(always)]
    pub(crate) fn communicator(&self, comm: Comm) -> Result<CommRef<'_>> {
        match comm {
            abi::MPI_COMM_WORLD if self.has_world() => Ok(CommRef::Predefined(self.process.world())),
            abi::MPI_COMM_SELF if self.has_world() => Ok(CommRef::Predefined(self.process.own())),
            _ => self.made_communicator(comm),
        }
    }

    /// The context of the point-to-point calls on a communicator with this handle, for the calls that follow ([`at_hand`]).
    pub(crate) fn noted(&self, comm: Comm, communicator: &Communicator) -> u32 {
        let context = communicator.team.point_to_point;
        self.contexts.note(comm, context);
        context
    }

    /// Whether the predefined communicators are there for the program.
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

    /// The group with this handle.
    pub(crate) fn group(&self, handle: GroupHandle) -> Result<Arc<Group>> {
        match handle {
            abi::MPI_GROUP_EMPTY => Ok(Arc::new(Group::EMPTY)),
            abi::MPI_GROUP_NULL => Err(MpiError::new(abi::MPI_ERR_GROUP, "the group is MPI_GROUP_NULL")),
            _ => match self.groups.get(Handle::from_raw(handle as u64)) {
                Ok(made) => Ok(made.clone()),
                Err(bad) => Err(MpiError::new(abi::MPI_ERR_GROUP, format!("the group {handle:#x}: {bad}"))),
            },
        }
    }

    /// The datatype with this handle.
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
            Err(bad) => Err(no_datatype(handle, bad)),
        }
    }

    /// As [`Running::datatype`], for a short look.
    ///
    /// # Safety
    /// As for [`Table::glance`]: until the result is dropped this thread frees no datatype, gives up no other reference to one,
    /// and calls no function of the program.
    #[inline(always)]
    pub(crate) unsafe fn glance_at_datatype(&self, handle: DatatypeHandle) -> Result<TypeGlance<'_>> {
        if let Some(datatype) = self.predefined.get(handle as u64) {
            return Ok(TypeGlance::Predefined(datatype));
        }
        // SAFETY: by the contract of this function.
        match unsafe { self.datatypes.glance(Handle::from_raw(handle as u64)) } {
            Ok(made) => Ok(TypeGlance::Made(made)),
            Err(bad) => Err(no_datatype(handle, bad)),
        }
    }

    /// The operation with this handle.
    pub(crate) fn operation(&self, handle: OpHandle) -> Result<Op> {
        if let Some(op) = op::predefined(handle as u64) {
            return Ok(Op::Predefined(op));
        }
        if handle == abi::MPI_OP_NULL {
            return Err(MpiError::new(abi::MPI_ERR_OP, "the operation is MPI_OP_NULL"));
        }
        match self.operations.get(Handle::from_raw(handle as u64)) {
            Ok(made) => Ok(*made),
            Err(bad) => Err(MpiError::new(abi::MPI_ERR_OP, format!("the operation {handle:#x}: {bad}"))),
        }
    }

    /// The memory that (address, count, datatype) name, checked.
    pub(crate) fn buffer(
        &self,
        address: *const c_void,
        count: i64,
        datatype: DatatypeHandle,
    ) -> Result<UserBuf> {
        self.check_address(address)?;
        self.block(address, count, datatype)
    }

    /// How many elements (address, count, datatype) name, checked, and their packed bytes.
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
                format!("count is {count}: so many elements do not fit the address space"),
            )),
        }
    }

    /// MPI_IN_PLACE is no address of data.
    #[inline]
    pub(crate) fn check_address(&self, address: *const c_void) -> Result<()> {
        if self.checks && address as usize == abi::MPI_IN_PLACE {
            return Err(MpiError::new(abi::MPI_ERR_BUFFER, "MPI_IN_PLACE is not allowed for this buffer"));
        }
        Ok(())
    }

    /// As [`Running::buffer`], of a block whose address the program does not give itself, but a displacement to it: an element from
    /// MPI_BOTTOM is no MPI_IN_PLACE.
    pub(crate) fn block(
        &self,
        address: *const c_void,
        count: i64,
        datatype: DatatypeHandle,
    ) -> Result<UserBuf> {
        let datatype = self.datatype(datatype)?;
        let (count, _) = self.check_elements(address, count, &datatype)?;
        // SAFETY: the program names its memory, and leaves it alone until the operation is complete: the standard asks
        // for it (MPI-5.0 section 3.7.2).
        let buffer = unsafe { UserBuf::new(address.cast_mut().cast(), count, datatype.layout()) };
        self.accelerator.placed(buffer)
    }
}

#[cold]
fn no_communicator(comm: Comm, bad: BadHandle) -> MpiError {
    let name = match comm {
        abi::MPI_COMM_WORLD => "MPI_COMM_WORLD",
        abi::MPI_COMM_SELF => "MPI_COMM_SELF",
        abi::MPI_COMM_NULL => return MpiError::new(abi::MPI_ERR_COMM, "the communicator is MPI_COMM_NULL"),
        _ => {
            let text =
                format!("the communicator {comm:#x}: {bad}, or was part of a session that is finalised");
            let text = if matches!(bad, BadHandle::Freed(_)) {
                text
            } else {
                format!("the communicator {comm:#x}: {bad}")
            };
            return MpiError::new(abi::MPI_ERR_COMM, text);
        }
    };
    let text = format!("the communicator is {name}, which is there between MPI_Init and MPI_Finalize only");
    MpiError::new(abi::MPI_ERR_COMM, text)
}

#[cold]
fn no_datatype(handle: DatatypeHandle, bad: BadHandle) -> MpiError {
    if handle == abi::MPI_DATATYPE_NULL {
        return MpiError::new(abi::MPI_ERR_TYPE, "the datatype is MPI_DATATYPE_NULL");
    }
    MpiError::new(abi::MPI_ERR_TYPE, format!("the datatype {handle:#x}: {bad}"))
}

/// What is wrong with a buffer that could be used only wrongly.
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

/// MPI_BOTTOM is a null pointer: it is right for a datatype of absolute addresses, whose bytes lie elsewhere.
fn bytes_lie_at_null(datatype: &Datatype) -> bool {
    datatype.bounds().true_lb().unsigned_abs() < FIRST_PAGE
}

/// So near to a null pointer no memory of a program lies.
pub(crate) const FIRST_PAGE: usize = 4096;

/// A count must not be negative.
#[inline]
pub(crate) fn check_count(count: i64) -> Result<usize> {
    usize::try_from(count)
        .map_err(|_| MpiError::new(abi::MPI_ERR_COUNT, format!("count is {count}; it must not be negative")))
}

/// Writes a result where the program wants it; `what` names the argument.
///
/// # Safety
/// A place that is not null must be valid for writing, which the caller of the C function answers for.
#[inline]
pub(crate) unsafe fn put<T>(place: *mut T, value: T, what: &str) -> Result<()> {
    if place.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null, and valid by the contract of this function.
    unsafe { place.write(value) };
    Ok(())
}

/// Reads an argument that the program passes by address.
///
/// # Safety
/// As [`put`], for reading.
#[inline]
pub(crate) unsafe fn fetch<T: Copy>(place: *const T, what: &str) -> Result<T> {
    if place.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null, and valid by the contract of this function.
    Ok(unsafe { place.read() })
}

/// The error of a null pointer where the program must give an address.
#[cold]
pub(crate) fn null(what: &str) -> MpiError {
    MpiError::new(abi::MPI_ERR_ARG, format!("{what} is a null pointer"))
}

/// An array that the program passes.
///
/// # Safety
/// `first` must be null or point to `count` readable elements that nobody writes during the call.
pub(crate) unsafe fn array<'a, T>(first: *const T, count: usize, what: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(null(what));
    }
    // SAFETY: by the contract of this function.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}
