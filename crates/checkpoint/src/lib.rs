//! Checkpoints of whole jobs: what is on disk, how it gets there whole or not at all, and how CRIU is driven.
//!
//! A *set* is a directory that holds one image of a job's process tree, `mpirun` included, or one image of each of its ranks; and a
//! *manifest* that says what belongs to it. A set is made in a temporary directory and published by one rename, after everything in it is on disk: whoever finds a
//! set finds a whole one.
//!
//! ```text
//! BASE/heat-3f9c2a10.1/          the set: PROGRAM-JOB.NUMBER
//!     manifest                   a line with the format and the checksum of the rest; then JSON (manifest.rs)
//!     image/                     what CRIU has written, as it is; of a job that was imaged rank by rank (ranks.rs):
//!     image/rank.N/              that of one rank
//!     image/mpirun, environment  what its mpirun has said of itself, and had in its environment
//! BASE/heat-3f9c2a10.tails/      what restarts have cut off files of the job (tails.rs)
//! BASE/.oxmpi-heat-3f9c2a10.tmp-PID/   one that is being made: image/ and work/ (commit.rs)
//! BASE/.oxmpi-heat-3f9c2a10.1.old      one that is being removed
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`manifest`] | what a set says of itself: pure |
//! | [`set`] | sets by their names, found and verified |
//! | `trust` | whose directories and files are: nothing of another user is used |
//! | [`commit`] | how a set is published, step by step |
//! | [`files`] | the files that a job has open: recorded, and judged before a restart |
//! | [`devices`] | descriptors that were opened in another mount namespace |
//! | `content` | checksums of what files had at a checkpoint |
//! | [`tails`] | what restarts have cut off files, and how it is put back |
//! | [`tree`] | the processes of a job |
//! | [`machine`] | what a machine must have for an image to go on |
//! | [`making`] | a checkpoint from the question to the set |
//! | [`ranks`] | the same with an image of each rank by itself |
//! | [`origins`] | whose process numbers need a PID namespace where they go on: pure |
//! | [`restart`] | what is checked before a restart, and how it is done |
//! | [`criu`] | the command lines of CRIU, and what its log says |
//! | [`advice`] | how often to checkpoint: pure |
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic where nobody reads

pub mod advice;
pub mod commit;
mod content;
pub mod criu;
pub mod devices;
pub mod files;
pub mod machine;
pub mod making;
pub mod manifest;
pub mod origins;
pub mod ranks;
pub mod restart;
pub mod set;
pub mod tails;
pub mod tree;
mod trust;
