//! Export of functions under their two names.

/// Defines functions of the interface, each as `fn MPI_X(argument: Type, ...) -> Result { body }`.
///
/// The body becomes an `unsafe extern "C-unwind"` function that first notes the call
/// (`call_note::entered`). It is exported as `PMPI_X` with the weak name `MPI_X`; inside the crate
/// its name is `MPI_X`. The compiler checks that its type is that of the standard, with the aliases
/// of [`oxmpi_abi::types`]. Pointers are nullable, and callbacks are `Option<...>`.
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
        // SAFETY: the standard reserves the symbol for MPI libraries, or leaves it to extensions.
        #[unsafe(export_name = concat!("P", stringify!($name)))]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $result {
            $crate::state::call_note::entered(const { ::oxmpi_abi::FuncId::$name.index() });
            let ends = ::oxmpi_foreign::EndsPanics;
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
