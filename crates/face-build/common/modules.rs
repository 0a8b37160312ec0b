// The modules that all faces share: each face includes this file.

mod callbacks;
mod convert;
mod failures;
mod functions;
mod kinds;
mod removed;
mod standard;
mod statuses;
mod tool_objects;

/// The address of a function of the standard ABI.
macro_rules! core {
    ($name:ident) => {
        unsafe { (*$crate::standard::FUNCTIONS.load(::std::sync::atomic::Ordering::Relaxed)).$name }
    };
}
pub(crate) use core;

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
