// The modules that all faces share: each face includes this file.

mod callbacks;
mod convert;
mod failures;
mod fortran_statuses;
mod functions;
mod interface;
mod kinds;
mod removed;
mod results;
mod shown;
mod standard;
mod states;
mod statuses;
mod tool_objects;

pub(crate) use standard::core;

/// Gives functions further names, which a program may define itself.
macro_rules! aliases {
    ($($symbol:expr => $of:expr;)*) => {
        ::std::arch::global_asm!($(
            concat!(".weak ", $symbol),
            concat!(".set ", $symbol, ", ", $of),
        )*);
    };
}
pub(crate) use aliases;
