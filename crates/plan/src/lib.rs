//! To be written.
#![forbid(unsafe_code)]
