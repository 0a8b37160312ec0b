//! Infos (MPI-5.0 chapter 10). The functions may be called at any time, by any thread.

use crate::arguments::{NewObject, null, put};
use crate::errors::outcome;
use crate::operations::levels::{level_before_init, level_name};
use crate::state::library::{self, Running};
use crate::state::locked;
use crate::state::objects::objects;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Aint, Count, Info as InfoHandle, Offset};
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::info::Info;
use oxmpi_objects::shown::{ValueKind, bad_handle};
use oxmpi_rt_client::client::Client;
use std::ffi::{CStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

/// The contents of MPI_INFO_ENV from MPI_Init on.
static ENVIRONMENT: OnceLock<Info> = OnceLock::new();

/// `thread_level` is the level that the program has requested.
pub(crate) fn settle_environment(ranks: u32, thread_level: c_int) {
    // MPI_Init succeeds once, so the cell is set once.
    let _ = ENVIRONMENT.set(environment(&own_arguments(), Some(ranks), Some(thread_level)));
}

fn own_arguments() -> Vec<Box<[u8]>> {
    std::env::args_os().map(|word| word.as_bytes().into()).collect()
}

/// The strings of an argument vector.
/// # Safety
/// `argv` must be null or point to `argc` strings, or fewer and a null pointer.
unsafe fn arguments(argc: c_int, argv: *const *mut c_char) -> Vec<Box<[u8]>> {
    let mut words = Vec::new();
    let given = if argv.is_null() { 0 } else { usize::try_from(argc).unwrap_or(0) };
    for n in 0..given {
        // SAFETY: by the contract of this function.
        let word = unsafe { argv.add(n).read() };
        if word.is_null() {
            break;
        }
        // SAFETY: not null, so a string by the contract of this function.
        words.push(unsafe { CStr::from_ptr(word) }.to_bytes().into());
    }
    words
}

/// Facts about the start of this process (MPI-5.0 section 11.2.1). Unknown and too long values are
/// left out.
fn environment(arguments: &[Box<[u8]>], ranks: Option<u32>, thread_level: Option<c_int>) -> Info {
    let mut info = Info::new();
    let mut set = |key: &str, value: Option<&[u8]>| {
        if let Some(value) = value {
            let _ = info.set(key.as_bytes(), value);
        }
    };
    set("command", arguments.first().map(|word| &**word));
    let words = arguments.get(1..).unwrap_or_default().join(&b' ');
    set("argv", (!words.is_empty()).then_some(&*words));
    let ranks = ranks.map(|n| n.to_string());
    set("maxprocs", ranks.as_deref().map(str::as_bytes));
    set("host", Some(oxmpi_sys::host::name().as_bytes()));
    set("arch", Some(std::env::consts::ARCH.as_bytes()));
    let directory = std::env::current_dir().ok();
    set("wdir", directory.as_deref().map(|d| d.as_os_str().as_bytes()));
    set("thread_level", thread_level.and_then(level_name).map(str::as_bytes));
    info
}

/// The number of ranks. Before MPI_Init it is the launcher's number, if there is a launcher.
fn ranks_known() -> Option<u32> {
    library::latest().map(|library| library.process.size()).or_else(Client::ranks_started)
}

/// The requested thread level. Before MPI_Init it is the level that MPI_Init will request.
fn level_known() -> Option<c_int> {
    let requested = library::latest().and_then(|library| Some(library.world.get()?.wanted_level));
    requested.or_else(level_before_init)
}

/// The contents of an info argument; none for MPI_INFO_NULL.
pub(crate) fn given(handle: InfoHandle) -> Result<Info> {
    match handle {
        abi::MPI_INFO_NULL => Ok(Info::new()),
        _ => read(handle, |info| Ok(info.clone())),
    }
}

/// The handle of a new info.
pub(crate) fn enlist(info: Info) -> InfoHandle {
    objects().infos.insert(info.into()).raw() as InfoHandle
}

pub(crate) fn give(info: Info, place: *mut InfoHandle, what: &str) -> Result<()> {
    if place.is_null() {
        return Err(null(what));
    }
    // SAFETY: the C program passes a place for a handle.
    unsafe { put(place, enlist(info), what) }
}

impl NewObject for Info {
    unsafe fn give(self, _: &Running, place: *mut usize, argument: &str) -> Result<()> {
        give(self, place, argument)
    }
}

pub(crate) fn of_int(int: u32) -> u64 {
    objects().infos.from_int(int).raw()
}

fn no_info(handle: InfoHandle, why: impl std::fmt::Display) -> MpiError {
    bad_handle(ValueKind::Info, handle as u64, why)
}

fn read<R>(handle: InfoHandle, query: impl FnOnce(&Info) -> Result<R>) -> Result<R> {
    match handle {
        abi::MPI_INFO_NULL => Err(MpiError::new(abi::MPI_ERR_INFO, "the info is MPI_INFO_NULL")),
        abi::MPI_INFO_ENV => match ENVIRONMENT.get() {
            Some(info) => query(info),
            None => query(&environment(&own_arguments(), ranks_known(), level_known())),
        },
        _ => match objects().infos.get(Handle::from_raw(handle as u64)) {
            Ok(info) => query(&locked(&info)),
            Err(bad) => Err(no_info(handle, bad)),
        },
    }
}

/// Changes the info of a handle. Errors: MPI_ERR_INFO if the handle has none that can be changed.
pub(crate) fn change<R>(
    handle: InfoHandle,
    change: impl FnOnce(&mut Info) -> Result<R>,
) -> Result<R> {
    match handle {
        abi::MPI_INFO_NULL => Err(MpiError::new(abi::MPI_ERR_INFO, "the info is MPI_INFO_NULL")),
        abi::MPI_INFO_ENV => {
            Err(MpiError::new(abi::MPI_ERR_INFO, "MPI_INFO_ENV cannot be changed or freed"))
        }
        _ => match objects().infos.get(Handle::from_raw(handle as u64)) {
            Ok(info) => change(&mut locked(&info)),
            Err(bad) => Err(no_info(handle, bad)),
        },
    }
}

/// Test of this module: tests/c/info_basic.c.
pub(crate) fn info_create() -> Result<InfoHandle> {
    Ok(enlist(Info::new()))
}

/// MPI-5.0 section 11.2.1: the contents of MPI_INFO_ENV, at any time. Without arguments, the
/// command line of the process is used. Tests: tests/c/info_env.c, tests/c/info_env_before_init.c.
/// # Safety
/// See `arguments`; `info` must be null or writable.
pub(crate) unsafe fn info_create_env(
    function: FuncId,
    argc: c_int,
    argv: *mut *mut c_char,
    info: *mut InfoHandle,
) -> c_int {
    // SAFETY: by the contract of this function.
    let mut words = unsafe { arguments(argc, argv) };
    if words.is_empty() {
        words = own_arguments();
    }
    outcome(function, None, give(environment(&words, ranks_known(), level_known()), info, "info"))
}

pub(crate) fn info_dup(info: InfoHandle) -> Result<InfoHandle> {
    Ok(enlist(read(info, |info| Ok(info.clone()))?))
}

pub(crate) fn info_free(info: InfoHandle) -> Result<InfoHandle> {
    change(info, |_| Ok(()))?;
    let freed = objects().infos.free(Handle::from_raw(info as u64));
    freed.map_err(|bad| no_info(info, bad))?;
    Ok(abi::MPI_INFO_NULL)
}

pub(crate) fn info_set(info: InfoHandle, key: &[u8], value: &[u8]) -> Result<()> {
    change(info, |info| info.set(key, value))
}

pub(crate) fn info_delete(info: InfoHandle, key: &[u8]) -> Result<()> {
    change(info, |info| info.delete(key))
}

/// The result is a copy, so that the program's memory is written without locks.
pub(crate) fn info_get_string(info: InfoHandle, key: &[u8]) -> Result<Option<Box<[u8]>>> {
    read(info, |info| Ok(info.get(key)?.map(Into::into)))
}

/// MPI-5.0 section 16 (deprecated).
pub(crate) fn info_get_valuelen(info: InfoHandle, key: &[u8]) -> Result<Option<c_int>> {
    read(info, |info| Ok(info.get(key)?.map(|value| value.len() as c_int)))
}

pub(crate) fn info_get_nkeys(info: InfoHandle) -> Result<c_int> {
    read(info, |info| Ok(info.len() as c_int))
}

pub(crate) fn info_get_nthkey(info: InfoHandle, n: usize) -> Result<Box<[u8]>> {
    read(info, |info| Ok(info.key(n as c_int)?.into()))
}

/// MPI-5.0 section 20.2: the sizes of the types that the ABI leaves open, in bytes.
pub(crate) fn abi_get_info() -> Result<InfoHandle> {
    let sizes = [
        ("mpi_aint_size", size_of::<Aint>()),
        ("mpi_count_size", size_of::<Count>()),
        ("mpi_offset_size", size_of::<Offset>()),
    ];
    let mut made = Info::new();
    for (key, bytes) in sizes {
        made.set(key.as_bytes(), bytes.to_string().as_bytes())?;
    }
    Ok(enlist(made))
}
