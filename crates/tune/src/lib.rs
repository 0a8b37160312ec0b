//! `oxmpi tune`: finds the fastest algorithm of each collective on this machine, or by a model of a
//! machine, and writes a rules file and a picture.
//!
//! [`campaign`] compares all calls of [`calls`], one [`comparison`] after another: `tune-rank`
//! ([`rank`]) in a [`job`] measures, or [`simulate`] computes the times. [`state`] keeps the
//! measurements of a campaign in a file, and [`winner`] makes rules from the results.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic if the reader has closed the pipe

pub mod calls;
pub mod campaign;
pub mod command;
pub mod comparison;
pub mod document;
pub mod formula;
pub mod job;
pub mod model;
pub mod options;
pub mod picture;
pub mod rank;
pub mod simulate;
pub mod state;
pub mod winner;
