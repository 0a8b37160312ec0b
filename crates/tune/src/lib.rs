//! `oxmpi tune`: finds out which algorithm of each collective is the fastest here, or by a model of a machine, and writes it
//! down as a rules file with a picture.
//!
//! | module | what it is |
//! |---|---|
//! | [`question`] | what is compared: calls, and the ways to serve each |
//! | [`bout`] | the comparison of the ways to serve one call, round by round: pure |
//! | [`campaign`] | all comparisons, one after the other: pure |
//! | [`state`] | the file in which a campaign is kept as it goes: pure |
//! | [`verdict`] | who won, and whether it is worth a rule; rules out of it |
//! | [`rank`], [`job`] | the program that measures, as a rank of a job, and the job |
//! | [`simulate`] | what the ways cost by a model: the walk of the plans, or formulas |
//! | [`formula`], [`model`] | what each algorithm costs, as a formula |
//! | [`picture`] | the winners over sizes and ranks, as SVG |
//! | [`command`], [`options`] | the command and its words |
//! | [`document`] | tables and pictures of the chapter on collectives |
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic where nobody reads

pub mod bout;
pub mod campaign;
pub mod command;
pub mod document;
pub mod formula;
pub mod job;
pub mod model;
pub mod options;
pub mod picture;
pub mod question;
pub mod rank;
pub mod simulate;
pub mod state;
pub mod verdict;
