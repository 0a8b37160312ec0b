//! The functions of `libmpi_abi.so.1`, which is loaded with this library.

use crate::interface::is_own_interface;
use crate::shown::foreign_value;
use crate::special::SONAME;
use oxmpi_abi::types::*;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write as _;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

include!(concat!(env!("OUT_DIR"), "/core.rs"));

/// The table of addresses. Nothing changes it after the library is loaded.
pub(crate) static FUNCTIONS: AtomicPtr<FunctionTable> = AtomicPtr::new(ptr::null_mut());

/// The address of a function of the standard ABI.
macro_rules! core {
    ($name:ident) => {
        unsafe { (*$crate::standard::FUNCTIONS.load(::std::sync::atomic::Ordering::Relaxed)).$name }
    };
}
pub(crate) use core;

const LIBRARY: &CStr = c"libmpi_abi.so.1";
/// The fields of the table besides those for the functions of MPI.
const FURTHER_FIELDS: usize = 3;

const TABLE: &CStr = c"oxmpi_functions";

/// Runs when the dynamic linker loads this library, before the program or a library that needs it.
#[used]
#[unsafe(link_section = ".init_array")]
static LOAD: extern "C" fn() = load;

extern "C" fn load() {
    let table = match other_interface() {
        Some(other) => Err(format!(
            "this process has two interfaces of MPI, {other} and {SONAME}: compile the program and \
             its libraries for one of them"
        )),
        None => table(),
    };
    match table {
        Ok(table) => {
            FUNCTIONS.store(table, Ordering::Relaxed);
            core!(show_values_by)(foreign_value);
        }
        Err(reason) => {
            // Nothing else can be done if the line cannot be written.
            let _ = writeln!(std::io::stderr(), "OxMPI: {reason}");
            std::process::exit(1);
        }
    }
}

fn table() -> Result<*mut FunctionTable, String> {
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE;
    // SAFETY: the names are C strings. The table of a library of the same build has this type, and
    // the number of functions is compared first.
    unsafe {
        let library = libc::dlopen(LIBRARY.as_ptr(), flags);
        if library.is_null() {
            return Err(last_error());
        }
        let table = libc::dlsym(library, TABLE.as_ptr()).cast::<FunctionTable>();
        let expected = size_of::<FunctionTable>() / size_of::<usize>() - FURTHER_FIELDS;
        if table.is_null() || (*table).functions != expected {
            let reason = "libmpi_abi.so.1 is not of the same version as";
            return Err(format!("{reason} {SONAME}; install both together"));
        }
        Ok(table)
    }
}

/// The file of another MPI library whose functions all libraries of the process find before those
/// of this one. Libraries that were opened with RTLD_LOCAL are not among them.
fn other_interface() -> Option<String> {
    // SAFETY: the names are C strings, and the address is one that the dynamic linker has returned.
    unsafe {
        let first = libc::dlsym(libc::RTLD_DEFAULT, c"PMPI_Init".as_ptr());
        if first.is_null() {
            return None;
        }
        let mut found: libc::Dl_info = std::mem::zeroed();
        let file = match libc::dladdr(first, &mut found) {
            0 => "another library".to_owned(),
            _ => CStr::from_ptr(found.dli_fname).to_string_lossy().into_owned(),
        };
        (!is_own_interface(first, &file)).then_some(file)
    }
}

fn last_error() -> String {
    // SAFETY: the result is null or a C string.
    unsafe {
        let text = libc::dlerror();
        match text.is_null() {
            true => "libmpi_abi.so.1 cannot be loaded".to_owned(),
            false => CStr::from_ptr(text).to_string_lossy().into_owned(),
        }
    }
}
