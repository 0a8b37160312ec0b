//! Starting processes (MPI-5.0 section 11.8).

use crate::arguments::present;
use crate::arguments::strings;
use crate::arguments::{NewObject, array};
use crate::errors::on_comm;
use crate::operations::info;
use crate::state::library::Running;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Info};
use oxmpi_core::Communicator;
use oxmpi_core::dynamic::spawn::{Children, Parents, failed};
use oxmpi_core::dynamic::spawn_info;
use oxmpi_mem::table::Handle;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_rt_client::client::UniverseError;
use oxmpi_rt_client::universe::{Parent, Spawn, SpawnCommand};
use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::path::PathBuf;

/// The words of an argument vector, which lacks the program's name.
/// # Safety
/// `argv` must be null or point to strings with a null pointer behind the last.
unsafe fn words(argv: *mut *mut c_char) -> Result<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    if argv as usize == abi::MPI_ARGV_NULL {
        return Ok(words);
    }
    loop {
        // SAFETY: no null pointer has come yet, so there is another element.
        let word = unsafe { argv.add(words.len()).read() };
        if word.is_null() {
            return Ok(words);
        }
        // SAFETY: a string by the contract of this function.
        words.push(unsafe { strings::text(word, "argv") }?.to_vec());
    }
}

thread_local! {
    static SPAWNED_CODES: Cell<c_int> = const { Cell::new(0) };
}

/// The number of error codes that the thread's last call has stored. A library for another ABI
/// converts them, and only the root knows their number from the arguments.
pub(crate) unsafe extern "C" fn spawned_codes() -> c_int {
    SPAWNED_CODES.get()
}

/// Spawns the processes of `commands`, which is called only at the root and also returns the
/// requested numbers of processes.
fn spawn(
    library: &'static Running,
    comm: &Communicator,
    root: c_int,
    place: *mut Comm,
    codes: *mut c_int,
    commands: impl FnOnce() -> Result<(Vec<SpawnCommand>, Vec<c_int>)>,
) -> Result<()> {
    // Without a place for the communicator, the children would have no parents.
    let commands = || present(place, "intercomm").and_then(|()| commands());
    let start = |parents| match commands() {
        Ok((commands, most)) => start(library, commands, &most, parents),
        Err(error) => Err((error, Vec::new())),
    };
    let spawned = library.process.spawn(comm, root, start)?;
    present(place, "intercomm")?;
    if codes as usize != abi::MPI_ERRCODES_IGNORE {
        for (at, code) in spawned.codes.iter().enumerate() {
            // SAFETY: the C program passes room for a code of each requested process.
            unsafe { codes.add(at).write(*code) };
        }
        SPAWNED_CODES.set(c_int::try_from(spawned.codes.len()).unwrap_or(c_int::MAX));
    }
    // SAFETY: the C program passes a place for a handle.
    unsafe { spawned.made?.give(library, place, "intercomm") }
}

fn start(
    library: &Running,
    commands: Vec<SpawnCommand>,
    most: &[c_int],
    Parents { context, processes }: Parents,
) -> std::result::Result<Children, (MpiError, Vec<i32>)> {
    let wanted = || most.iter().map(|n| usize::try_from(*n).unwrap_or(0));
    let counts: Vec<usize> = commands.iter().map(|command| command.processes as usize).collect();
    let directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let spawn =
        Spawn { commands, directory, parent: Parent { context, processes, ..Parent::default() } };
    match library.client.spawn(&spawn) {
        Ok((first, size)) => {
            let mut codes = Vec::new();
            for (wanted, started) in wanted().zip(counts) {
                codes.extend(
                    (0..wanted)
                        .map(|n| if n < started { abi::MPI_SUCCESS } else { abi::MPI_ERR_SPAWN }),
                );
            }
            Ok(Children { first, size, codes })
        }
        Err(error) => Err((failed(why(error)), vec![abi::MPI_ERR_SPAWN; wanted().sum()])),
    }
}

pub(crate) fn why(error: UniverseError) -> String {
    error.to_string()
}

/// Test: tests/c/spawn.c.
/// # Safety
/// The contract of the C interface.
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn comm_spawn(
    function: FuncId,
    command: *const c_char,
    argv: *mut *mut c_char,
    maxprocs: c_int,
    info: Info,
    root: c_int,
    comm: Comm,
    intercomm: *mut Comm,
    array_of_errcodes: *mut c_int,
) -> c_int {
    SPAWNED_CODES.set(0);
    on_comm(function, comm, |library, comm| {
        spawn(library, comm, root, intercomm, array_of_errcodes, || {
            // SAFETY: the C program passes a string, and strings with a final null pointer.
            let (command, words) = unsafe { (strings::text(command, "command")?, words(argv)?) };
            let command = spawn_info::command(command, words, maxprocs, &info::given(info)?)?;
            Ok((vec![command], vec![maxprocs]))
        })
    })
}

/// Test: tests/c/spawn_multiple.c.
/// # Safety
/// The contract of the C interface.
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn comm_spawn_multiple(
    function: FuncId,
    count: c_int,
    array_of_commands: *mut *mut c_char,
    array_of_argv: *mut *mut *mut c_char,
    array_of_maxprocs: *const c_int,
    array_of_info: *const Info,
    root: c_int,
    comm: Comm,
    intercomm: *mut Comm,
    array_of_errcodes: *mut c_int,
) -> c_int {
    SPAWNED_CODES.set(0);
    on_comm(function, comm, |library, comm| {
        spawn(library, comm, root, intercomm, array_of_errcodes, || {
            let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0) else {
                let text = format!("count is {count}; it must be at least 1");
                return Err(MpiError::new(abi::MPI_ERR_ARG, text));
            };
            // SAFETY: the C program passes arrays of `count` elements.
            let (programs, most, infos) = unsafe {
                (
                    array(array_of_commands.cast_const(), count, "array_of_commands")?,
                    array(array_of_maxprocs, count, "array_of_maxprocs")?,
                    array(array_of_info, count, "array_of_info")?,
                )
            };
            let mut commands = Vec::new();
            for (at, ((program, most), info)) in programs.iter().zip(most).zip(infos).enumerate() {
                let argv = if array_of_argv as usize == abi::MPI_ARGVS_NULL {
                    std::ptr::null_mut()
                } else {
                    // SAFETY: the C program passes an array of `count` argument vectors.
                    unsafe { array_of_argv.add(at).read() }
                };
                // SAFETY: the C program passes a string, and strings with a final null pointer.
                let (program, words) =
                    unsafe { (strings::text(*program, "array_of_commands")?, words(argv)?) };
                commands.push(spawn_info::command(program, words, *most, &info::given(*info)?)?);
            }
            Ok((commands, most.to_vec()))
        })
    })
}

/// MPI_COMM_NULL if the job was not spawned or the communicator was freed.
pub(crate) fn comm_get_parent(library: &Running) -> Result<Comm> {
    let is_there =
        |handle: &Comm| library.communicators.get(Handle::from_raw(*handle as u64)).is_ok();
    Ok(library.parent.get().copied().filter(is_there).unwrap_or(abi::MPI_COMM_NULL))
}
