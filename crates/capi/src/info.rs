//! Infos (MPI-5.0 chapter 10). The functions may be called at any time, by any thread.

use crate::arguments::NewObject;
use crate::environment::level_before_init;
use crate::errors::outcome;
use crate::library::{self, Running, fetch, null, put};
use crate::objects::{locked, objects};
use crate::strings::{put_text, text};
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Aint, Count, Info as InfoHandle, Offset};
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::info::Info;
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

pub(crate) fn level_name(level: c_int) -> Option<&'static str> {
    Some(match level {
        abi::MPI_THREAD_SINGLE => "MPI_THREAD_SINGLE",
        abi::MPI_THREAD_FUNNELED => "MPI_THREAD_FUNNELED",
        abi::MPI_THREAD_SERIALIZED => "MPI_THREAD_SERIALIZED",
        abi::MPI_THREAD_MULTIPLE => "MPI_THREAD_MULTIPLE",
        _ => return None,
    })
}

/// The contents of an info argument; none for MPI_INFO_NULL.
pub(crate) fn given(handle: InfoHandle) -> Result<Info> {
    match handle {
        abi::MPI_INFO_NULL => Ok(Info::new()),
        _ => read(handle, |info| Ok(info.clone())),
    }
}

pub(crate) fn give(info: Info, place: *mut InfoHandle, what: &str) -> Result<()> {
    if place.is_null() {
        return Err(null(what));
    }
    let handle = objects().infos.insert(info.into());
    // SAFETY: the C program passes a place for a handle.
    unsafe { put(place, handle.raw() as InfoHandle, what) }
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
    MpiError::new(abi::MPI_ERR_INFO, format!("the info {handle:#x}: {why}"))
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

/// A copy of a value, so that the program's memory is written without locks.
/// # Safety
/// `key` must be null or a string.
unsafe fn value_of(info: InfoHandle, key: *const c_char) -> Result<Option<Box<[u8]>>> {
    // SAFETY: by the contract of this function.
    let key = unsafe { text(key, "key") }?;
    read(info, |info| Ok(info.get(key)?.map(Into::into)))
}

mpi! {
    /// Test of this module: tests/c/info_basic.c.
    fn MPI_Info_create(info: *mut InfoHandle) -> c_int {
        outcome(FuncId::MPI_Info_create, None, give(Info::new(), info, "info"))
    }

    /// MPI-5.0 section 11.2.1: the contents of MPI_INFO_ENV, at any time. Without arguments, the
    /// command line of the process is used. Tests: tests/c/info_env.c,
    /// tests/c/info_env_before_init.c.
    fn MPI_Info_create_env(argc: c_int, argv: *mut *mut c_char, info: *mut InfoHandle) -> c_int {
        // SAFETY: the C program passes the arguments of main, or none.
        let mut words = unsafe { arguments(argc, argv) };
        if words.is_empty() {
            words = own_arguments();
        }
        let made = environment(&words, ranks_known(), level_known());
        outcome(FuncId::MPI_Info_create_env, None, give(made, info, "info"))
    }

    fn MPI_Info_dup(info: InfoHandle, newinfo: *mut InfoHandle) -> c_int {
        let result = read(info, |info| Ok(info.clone())).and_then(|copy| give(copy, newinfo, "newinfo"));
        outcome(FuncId::MPI_Info_dup, None, result)
    }

    fn MPI_Info_free(info: *mut InfoHandle) -> c_int {
        outcome(FuncId::MPI_Info_free, None, (|| {
            // SAFETY: the C program passes a place with a handle.
            let handle = unsafe { fetch(info, "info") }?;
            change(handle, |_| Ok(()))?;
            let freed = objects().infos.free(Handle::from_raw(handle as u64));
            freed.map_err(|bad| no_info(handle, bad))?;
            // SAFETY: `info` is not null, as `fetch` has checked, and holds a handle.
            unsafe { put(info, abi::MPI_INFO_NULL, "info") }
        })())
    }

    fn MPI_Info_set(info: InfoHandle, key: *const c_char, value: *const c_char) -> c_int {
        // SAFETY: the C program passes strings.
        let strings = unsafe { text(key, "key").and_then(|key| Ok((key, text(value, "value")?))) };
        let result = strings.and_then(|(key, value)| change(info, |info| info.set(key, value)));
        outcome(FuncId::MPI_Info_set, None, result)
    }

    fn MPI_Info_delete(info: InfoHandle, key: *const c_char) -> c_int {
        // SAFETY: the C program passes a string.
        let key = unsafe { text(key, "key") };
        outcome(FuncId::MPI_Info_delete, None, key.and_then(|key| change(info, |info| info.delete(key))))
    }

    /// `buflen` becomes the size for the whole value with its closing zero. A longer value is cut.
    fn MPI_Info_get_string(
        info: InfoHandle,
        key: *const c_char,
        buflen: *mut c_int,
        value: *mut c_char,
        flag: *mut c_int,
    ) -> c_int {
        outcome(FuncId::MPI_Info_get_string, None, (|| {
            // SAFETY: the C program passes a string, room for `buflen` characters, and two
            // integers.
            unsafe {
                let found = value_of(info, key)?;
                let room = fetch(buflen, "buflen")?;
                let Ok(size) = usize::try_from(room) else {
                    return Err(MpiError::new(abi::MPI_ERR_ARG, format!("buflen is {room}; it must not be negative")));
                };
                if let Some(found) = &found {
                    if size > 0 {
                        put_text(found, size, value, "value")?;
                    }
                    put(buflen, found.len() as c_int + 1, "buflen")?;
                }
                put(flag, c_int::from(found.is_some()), "flag")
            }
        })())
    }

    /// MPI-5.0 section 16 (deprecated). `value` has room for `valuelen` characters and a closing
    /// zero. A longer value is cut.
    fn MPI_Info_get(info: InfoHandle, key: *const c_char, valuelen: c_int, value: *mut c_char, flag: *mut c_int) -> c_int {
        outcome(FuncId::MPI_Info_get, None, (|| {
            let Ok(size) = usize::try_from(valuelen) else {
                let text = format!("valuelen is {valuelen}; it must not be negative");
                return Err(MpiError::new(abi::MPI_ERR_ARG, text));
            };
            // SAFETY: the C program passes a string, room for `valuelen + 1` characters, and an
            // integer.
            unsafe {
                let found = value_of(info, key)?;
                if let Some(found) = &found {
                    put_text(found, size + 1, value, "value")?;
                }
                put(flag, c_int::from(found.is_some()), "flag")
            }
        })())
    }

    /// MPI-5.0 section 16 (deprecated). The length does not count the closing zero.
    fn MPI_Info_get_valuelen(info: InfoHandle, key: *const c_char, valuelen: *mut c_int, flag: *mut c_int) -> c_int {
        outcome(FuncId::MPI_Info_get_valuelen, None, (|| {
            // SAFETY: the C program passes a string and places for two integers.
            unsafe {
                let found = value_of(info, key)?;
                if let Some(found) = &found {
                    put(valuelen, found.len() as c_int, "valuelen")?;
                }
                put(flag, c_int::from(found.is_some()), "flag")
            }
        })())
    }

    fn MPI_Info_get_nkeys(info: InfoHandle, nkeys: *mut c_int) -> c_int {
        let count = read(info, |info| Ok(info.len() as c_int));
        // SAFETY: the C program passes a place for an integer.
        outcome(FuncId::MPI_Info_get_nkeys, None, count.and_then(|n| unsafe { put(nkeys, n, "nkeys") }))
    }

    fn MPI_Info_get_nthkey(info: InfoHandle, n: c_int, key: *mut c_char) -> c_int {
        let found = read(info, |info| Ok(Box::<[u8]>::from(info.key(n)?)));
        // SAFETY: the C program passes room for MPI_MAX_INFO_KEY characters.
        let result = found.and_then(|found| unsafe { put_text(&found, abi::MPI_MAX_INFO_KEY as usize, key, "key") });
        outcome(FuncId::MPI_Info_get_nthkey, None, result)
    }

    /// MPI-5.0 section 20.2: the sizes of the types that the ABI leaves open, in bytes.
    fn MPI_Abi_get_info(info: *mut InfoHandle) -> c_int {
        let sizes = [
            ("mpi_aint_size", size_of::<Aint>()),
            ("mpi_count_size", size_of::<Count>()),
            ("mpi_offset_size", size_of::<Offset>()),
        ];
        let mut made = Info::new();
        for (key, bytes) in sizes {
            // Keys and values fit in an info.
            let _ = made.set(key.as_bytes(), bytes.to_string().as_bytes());
        }
        outcome(FuncId::MPI_Abi_get_info, None, give(made, info, "info"))
    }
}
