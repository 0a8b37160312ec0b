//! How a function gets out of this library under its two names.

use crate::errors;
use oxmpi_abi::FuncId;
use oxmpi_sys::lock::LockError;
use std::sync::atomic::{AtomicPtr, AtomicU16, Ordering};

/// Where calls are noted before the launcher's page is known, and when there is no launcher.
static NOWHERE: AtomicU16 = AtomicU16::new(0);

/// Where the number of the last call is noted: a page that the launcher can read, so that it can say what a rank did
/// when it died.
static NOTE: AtomicPtr<AtomicU16> = AtomicPtr::new((&raw const NOWHERE).cast_mut());

/// From now on calls are noted there, the one that is being made (MPI_Init) among them.
pub(crate) fn note_calls_in(cell: &'static AtomicU16) {
    cell.store(NOWHERE.load(Ordering::Relaxed), Ordering::Relaxed);
    NOTE.store(std::ptr::from_ref(cell).cast_mut(), Ordering::Release);
}

/// Notes that the program has entered a function: its number in the table plus one, because 0 means none. One plain
/// store: it is on the path of every call.
#[inline(always)]
pub(crate) fn entered(id: u16) {
    // SAFETY: it points to `NOWHERE` or to what `note_calls_in` was given; both live for ever.
    unsafe { &*NOTE.load(Ordering::Relaxed) }.store(id + 1, Ordering::Relaxed);
}

/// Lies in the frame of every function and goes only when that is left by unwinding. Exceptions of C++ that a function of the
/// program's has thrown pass through to the program; a panic of the library's own ends the process, also where the program
/// would catch it.
pub(crate) struct EndsPanics;

impl Drop for EndsPanics {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The words of the panic have been said.
            std::process::abort();
        }
    }
}

/// A panic for which the program is to blame ends the job with one report, instead of the words for a fault of the library.
pub(crate) fn report_misuse() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let misuse =
            panic.payload_as_str().filter(|text| LockError::ALL.iter().any(|e| e.to_string() == *text));
        let Some(text) = misuse else { return before(panic) };
        let call = FuncId::all().nth(usize::from(last_call()).wrapping_sub(1));
        errors::end_job(1, &call.map_or_else(|| text.to_owned(), |call| format!("{call}: {text}")));
    }));
}

/// The number of the last call, as [`entered`] has noted it.
fn last_call() -> u16 {
    // SAFETY: as in `entered`.
    unsafe { &*NOTE.load(Ordering::Relaxed) }.load(Ordering::Relaxed)
}

/// Defines functions of the interface: `fn MPI_X(argument: Type, ...) -> Result { body }`, any number of them.
///
/// The body becomes an `unsafe extern "C-unwind"` function, exported as `PMPI_X` with the weak name `MPI_X`; inside the crate it is
/// called `MPI_X`. It starts by noting the call ([`entered`]). Its type must be that of the standard, with the aliases of
/// [`oxmpi_abi::types`]; any other type is an error of the compiler that names the function. Pointers are
/// nullable, callbacks are `Option<...>`.
///
/// Write `fn MPI_X(` at the start of a line: the build script looks for it there ([`oxmpi_abi::coverage`]).
///
/// The caller of every such function is a C program, which answers for the pointers being what the standard asks for; a
/// `// SAFETY:` comment in a body may refer to that.
macro_rules! mpi {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty $body:block
    )*) => { $(
        $(#[$meta])*
        #[allow(non_snake_case)]
        // SAFETY: the symbol is one that the standard reserves for MPI libraries.
        #[unsafe(export_name = concat!("P", stringify!($name)))]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
            $crate::export::entered(const { ::oxmpi_abi::FuncId::$name.index() });
            let ends = $crate::export::EndsPanics;
            let body = move || -> $result { $body };
            let result = body();
            ::std::mem::forget(ends);
            result
        }

        const _: $crate::signatures::$name = $name;

        // The weak name must be made in the object file that defines the strong one; a module is never split between two.
        ::std::arch::global_asm!(
            concat!(".weak ", stringify!($name)),
            concat!(".set ", stringify!($name), ", P", stringify!($name)),
        );
    )* };
}

/// As [`mpi!`], for functions beyond the standard ([`oxmpi_abi::extensions`]): they have one name, `MPIX_X`.
macro_rules! mpix {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> c_int $body:block
    )*) => { $(
        $(#[$meta])*
        #[allow(non_snake_case)]
        // SAFETY: the symbol begins with a prefix that the standard leaves to extensions.
        #[unsafe(export_name = stringify!($name))]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> ::std::ffi::c_int {
            $crate::export::entered(const { ::oxmpi_abi::FuncId::$name.index() });
            let ends = $crate::export::EndsPanics;
            let body = move || -> ::std::ffi::c_int { $body };
            let result = body();
            ::std::mem::forget(ends);
            result
        }
    )* };
}
