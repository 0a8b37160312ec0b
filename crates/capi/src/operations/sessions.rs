//! Sessions (MPI-5.0, "The Sessions Model").
//!
//! A session is the [`Origin`] of communicators and groups, which end with it. All sessions and the
//! World Model have the same rank (module `operations::life`).

use crate::arguments::strings::text;
use crate::arguments::{NewObject, put};
use crate::errors::outcome;
use crate::operations::info;
use crate::operations::levels::level_name;
use crate::operations::life;
use crate::state::handlers::HandlerKind;
use crate::state::library::{Running, library};
use crate::state::named::OfArgument;
use crate::state::objects::objects;
use crate::state::on::On;
use crate::state::sessions::Session;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{
    Errhandler, Group as GroupHandle, Info as InfoHandle, Session as SessionHandle,
};
use oxmpi_core::comm::ProcessSet;
use oxmpi_core::handler::HandlerCell;
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;
use oxmpi_objects::info::Info;
use oxmpi_objects::origin::Origin;
use oxmpi_objects::shown::{ValueKind, bad_handle};
use std::ffi::{c_char, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The kinds that every session has (MPI-5.0, "Memory Allocation Kinds").
const MEMORY_KINDS: [&[u8]; 2] = [b"mpi", b"system"];
/// The kinds that a session has on request.
const MORE_MEMORY_KINDS: [&[u8]; 1] = [b"mpi:alloc_mem"];

const THREAD_LEVEL: &str = "thread_level";
const MEMORY_KINDS_KEY: &str = "mpi_memory_alloc_kinds";

pub(crate) fn of_int(int: u32) -> u64 {
    objects().sessions.from_int(int).raw()
}

pub(crate) fn on_session(
    function: FuncId,
    handle: SessionHandle,
    argument: &'static str,
    call: impl FnOnce(&'static Running, &Session) -> Result<()>,
) -> c_int {
    let result =
        objects().session(handle).of(argument).and_then(|session| call(library()?, &session));
    outcome(function, Some(On::Session(handle)), result)
}

fn wanted_level(info: &Info) -> Result<Option<c_int>> {
    let Some(value) = info.get(THREAD_LEVEL.as_bytes())? else { return Ok(None) };
    let levels = abi::MPI_THREAD_SINGLE..=abi::MPI_THREAD_MULTIPLE;
    let mut known =
        levels.filter(|level| level_name(*level).is_some_and(|name| name.as_bytes() == value));
    known.next().map(Some).ok_or_else(|| {
        let value = String::from_utf8_lossy(value);
        let text = format!(
            "thread_level is \"{value}\"; it must be MPI_THREAD_SINGLE, ... or MPI_THREAD_MULTIPLE"
        );
        MpiError::new(abi::MPI_ERR_INFO_VALUE, text)
    })
}

/// The thread level of a session, at most that of the process. MPI_THREAD_SINGLE and
/// MPI_THREAD_FUNNELED allow the same thread.
fn granted_level(wanted: Option<c_int>, of_process: c_int) -> c_int {
    let most = of_process.max(abi::MPI_THREAD_FUNNELED);
    wanted.filter(|wanted| *wanted <= most).unwrap_or(of_process)
}

/// The kinds of every session, then the known ones of those requested.
fn memory_kinds(info: &Info) -> Result<Box<[u8]>> {
    let wanted = info.get(MEMORY_KINDS_KEY.as_bytes())?.unwrap_or_default();
    let granted =
        wanted.split(|byte| *byte == b',').filter(|kind| MORE_MEMORY_KINDS.contains(kind));
    Ok(MEMORY_KINDS.into_iter().chain(granted).collect::<Vec<_>>().join(&b',').into())
}

/// Any thread may call it at any time. Test: tests/c/session_cycles.c.
pub(crate) fn session_init(info: InfoHandle, errhandler: Errhandler) -> Result<SessionHandle> {
    let handler = objects().errhandlers.attach(errhandler, HandlerKind::Session)?;
    let info = info::given(info)?;
    let (wanted, memory_kinds) = (wanted_level(&info)?, memory_kinds(&info)?);
    // Any thread may make the first session, and other threads may make more (MPI-5.0: the call is
    // always safe), so the process is opened for several threads. A process with one MPI thread is
    // opened if a session of that thread requests it.
    let is_first = library().is_err();
    let threads = wanted.map_or(is_first, |level| is_first || level >= abi::MPI_THREAD_SERIALIZED);
    let library = life::enter(threads)?;
    let session = Arc::new(Session {
        origin: Origin::of_session(library.sessions.fetch_add(1, Ordering::Relaxed)),
        errhandler: HandlerCell::new(handler),
        level: granted_level(wanted, library.level()),
        memory_kinds,
        is_ending: AtomicBool::new(false),
    });
    let handle = objects().sessions.insert(session.clone()).raw() as SessionHandle;
    session.errhandler.set_object(handle);
    Ok(handle)
}

/// Disconnects the remaining communicators. On an error, as with pending requests, the session
/// remains. Test: tests/c/session_live.c.
pub(crate) fn session_finalize(handle: SessionHandle) -> Result<SessionHandle> {
    let session = objects().session(handle)?;
    let library = library()?;
    if session.is_ending.swap(true, Ordering::AcqRel) {
        let text = "another thread finalises the session";
        return Err(MpiError::new(abi::MPI_ERR_SESSION, text));
    }
    let comms = library.communicators_of(session.origin);
    let ended = life::exit(library, || {
        library.process.end_session(session.origin, &comms, !life::has_others())?;
        library.forget_handles_of(session.origin);
        Ok(())
    });
    if let Err(error) = ended {
        session.is_ending.store(false, Ordering::Release);
        return Err(error);
    }
    let freed = objects().sessions.free(Handle::from_raw(handle as u64));
    freed.map_err(|bad| bad_handle(ValueKind::Session, handle as u64, bad))?;
    Ok(abi::MPI_SESSION_NULL)
}

fn process_set(library: &Running, name: &[u8]) -> Result<Group> {
    let name = String::from_utf8_lossy(name);
    match ProcessSet::named(&name) {
        Some(ProcessSet::World) => library.process.world().group(),
        Some(ProcessSet::Own) => Group::contiguous(library.process.rank(), 1),
        None => {
            let sets = ProcessSet::ALL.map(ProcessSet::name).join(" and ");
            let text = format!("pset_name is \"{name}\"; the process sets are {sets}");
            Err(MpiError::new(abi::MPI_ERR_ARG, text))
        }
    }
}

/// Test of process sets: tests/c/session_psets.c.
pub(crate) fn session_get_num_psets(_: &Running, _: &Session, info: InfoHandle) -> Result<c_int> {
    info::given(info)?;
    Ok(ProcessSet::ALL.len() as c_int)
}

pub(crate) fn session_get_nth_pset(
    _: &Running,
    _: &Session,
    info: InfoHandle,
    n: c_int,
) -> Result<&'static str> {
    info::given(info)?;
    let set = usize::try_from(n).ok().and_then(|n| ProcessSet::ALL.get(n));
    set.map(|set| set.name()).ok_or_else(|| {
        let text =
            format!("n is {n}; there are {} process sets, counted from 0", ProcessSet::ALL.len());
        MpiError::new(abi::MPI_ERR_ARG, text)
    })
}

/// MPI-5.0, "Runtime Query Functions": the granted settings.
pub(crate) fn session_get_info(_: &Running, session: &Session) -> Result<InfoHandle> {
    let mut used = Info::new();
    let level = level_name(session.level).unwrap_or_default();
    used.set(THREAD_LEVEL.as_bytes(), level.as_bytes())?;
    used.set(MEMORY_KINDS_KEY.as_bytes(), &session.memory_kinds)?;
    Ok(info::enlist(used))
}

/// MPI-5.0, "Runtime Query Functions": `mpi_size` is the number of processes.
pub(crate) fn session_get_pset_info(
    library: &Running,
    _: &Session,
    pset_name: &[u8],
) -> Result<InfoHandle> {
    let mut known = Info::new();
    known.set(b"mpi_size", process_set(library, pset_name)?.size().to_string().as_bytes())?;
    Ok(info::enlist(known))
}

/// If there is no such process set, the handle becomes MPI_GROUP_NULL.
/// # Safety
/// `pset_name` must be null or a string, `newgroup` null or writable.
pub(crate) unsafe fn group_from_session_pset(
    function: FuncId,
    session: SessionHandle,
    pset_name: *const c_char,
    newgroup: *mut GroupHandle,
) -> c_int {
    on_session(function, session, "session", |library, session| {
        // SAFETY: by the contract of this function.
        unsafe {
            let name = text(pset_name, "pset_name")?;
            let set = process_set(library, name).inspect_err(|_| {
                // The caller gets the first error.
                let _ = put(newgroup, abi::MPI_GROUP_NULL, "newgroup");
            })?;
            set.from_origin(session.origin).give(library, newgroup, "newgroup")
        }
    })
}

/// MPI-5.0 section 9.3.4. Test: tests/c/session_errors.c.
pub(crate) fn session_set_errhandler(
    _: &Running,
    session: &Session,
    errhandler: Errhandler,
) -> Result<()> {
    session.errhandler.set(objects().errhandlers.attach(errhandler, HandlerKind::Session)?);
    Ok(())
}

/// MPI-5.0 section 9.3.4. The program must free the new reference.
pub(crate) fn session_get_errhandler(_: &Running, session: &Session) -> Result<Errhandler> {
    Ok(objects().errhandlers.refer(&session.errhandler))
}
