//! How a function gets out of this library under its two names.

use std::sync::atomic::{AtomicU32, Ordering};

/// The function that the program called last, by its number in the table ([`oxmpi_abi::FuncId`]); all ones before
/// the first call.
///
/// 32 bits for a number of 16: a store of a 16-bit constant is slow to decode on some processors.
static LAST_CALL: AtomicU32 = AtomicU32::new(u32::MAX);

/// Notes that the program has entered a function. One plain store: it is on the path of every call.
#[inline(always)]
pub(crate) fn entered(id: u16) {
    LAST_CALL.store(u32::from(id), Ordering::Relaxed);
}

/// Defines functions of the interface: `fn MPI_X(argument: Type, ...) -> Result { body }`, any number of them.
///
/// The body becomes an `unsafe extern "C"` function, exported as `PMPI_X` with the weak name `MPI_X`; inside the crate it is
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
        pub(crate) unsafe extern "C" fn $name($($arg: $type),*) -> $result {
            $crate::export::entered(const { ::oxmpi_abi::FuncId::$name.index() });
            $body
        }

        const _: $crate::signatures::$name = $name;

        // The weak name must be made in the object file that defines the strong one; a module is never split between two.
        ::std::arch::global_asm!(
            concat!(".weak ", stringify!($name)),
            concat!(".set ", stringify!($name), ", P", stringify!($name)),
        );
    )* };
}
