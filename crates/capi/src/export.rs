//! Export of functions under their two names.

use crate::errors;
use oxmpi_abi::FuncId;
use oxmpi_sys::lock::LockError;
use std::sync::atomic::{AtomicPtr, AtomicU16, Ordering};

/// The cell for calls without a launcher, and before its page is mapped.
static NOWHERE: AtomicU16 = AtomicU16::new(0);

/// The cell for the number of the current call. The launcher reads it to report the last call of a
/// rank that died.
static NOTE: AtomicPtr<AtomicU16> = AtomicPtr::new((&raw const NOWHERE).cast_mut());

/// Sets the cell for calls, and copies the current call (MPI_Init) to it.
pub(crate) fn note_calls_in(cell: &'static AtomicU16) {
    cell.store(NOWHERE.load(Ordering::Relaxed), Ordering::Relaxed);
    NOTE.store(std::ptr::from_ref(cell).cast_mut(), Ordering::Release);
}

/// Notes a call by its number plus one; 0 means no call. This is one plain store, since every call
/// makes it.
#[inline(always)]
pub(crate) fn entered(id: u16) {
    // SAFETY: a pointer to `NOWHERE` or to the argument of `note_calls_in`, which live forever.
    unsafe { &*NOTE.load(Ordering::Relaxed) }.store(id + 1, Ordering::Relaxed);
}

/// A guard in the frame of every function; its drop runs only while the function unwinds. C++
/// exceptions of the program pass through. A panic of the library ends the process, even if the
/// program would catch it.
pub(crate) struct EndsPanics;

impl Drop for EndsPanics {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The panic hook has printed the message.
            std::process::abort();
        }
    }
}

/// Makes a panic that the program has caused (a wrong thread) an error of the job.
pub(crate) fn report_misuse() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let misuse = panic
            .payload_as_str()
            .filter(|text| LockError::ALL.iter().any(|e| e.to_string() == *text));
        let Some(text) = misuse else { return before(panic) };
        let call = FuncId::all().nth(usize::from(last_call()).wrapping_sub(1));
        errors::end_job(1, &call.map_or_else(|| text.to_owned(), |call| format!("{call}: {text}")));
    }));
}

fn last_call() -> u16 {
    // SAFETY: a pointer to `NOWHERE` or to the argument of `note_calls_in`, which live forever.
    unsafe { &*NOTE.load(Ordering::Relaxed) }.load(Ordering::Relaxed)
}

/// Defines functions of the interface, each as `fn MPI_X(argument: Type, ...) -> Result { body }`.
///
/// The body becomes an `unsafe extern "C-unwind"` function that first notes the call ([`entered`]).
/// It is exported as `PMPI_X` with the weak name `MPI_X`; inside the crate its name is `MPI_X`. The
/// compiler checks that its type is that of the standard, with the aliases of [`oxmpi_abi::types`].
/// Pointers are nullable, and callbacks are `Option<...>`.
///
/// `fn MPI_X(` must stand at the start of a line, where the build script finds it
/// ([`oxmpi_abi::coverage`]).
///
/// The calling C program guarantees that its pointers are valid as the standard requires. Unsafe
/// blocks in bodies rely on this guarantee.
macro_rules! mpi {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $result:ty $body:block
    )*) => { $(
        $(#[$meta])*
        #[allow(non_snake_case)]
        // SAFETY: the standard reserves the symbol for MPI libraries.
        #[unsafe(export_name = concat!("P", stringify!($name)))]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
            $crate::export::entered(const { ::oxmpi_abi::FuncId::$name.index() });
            let ends = $crate::export::EndsPanics;
            let body = move || -> $result { $body };
            let result = body();
            ::std::mem::forget(ends);
            result
        }

        // The weak name must be in the object file of the strong name. A module is never split
        // between two object files.
        ::std::arch::global_asm!(
            concat!(".weak ", stringify!($name)),
            concat!(".set ", stringify!($name), ", P", stringify!($name)),
        );
    )* };
}

/// Defines functions beyond the standard ([`oxmpi_abi::extensions`]), which are exported only as
/// `MPIX_X`; otherwise like [`mpi!`].
macro_rules! mpix {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> c_int $body:block
    )*) => { $(
        $(#[$meta])*
        #[allow(non_snake_case)]
        // SAFETY: the standard leaves symbols with this prefix to extensions.
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
