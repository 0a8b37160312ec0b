//! Checkpoints of whole jobs: the files on disk, their atomic publication, and the control of CRIU.
//!
//! A *set* is a directory with a *manifest*, which lists its files, and images: one image of a
//! job's process tree, `mpirun` included, or one image of each rank. A set is made in a temporary
//! directory and published by one rename after all its files are on disk. So each directory with
//! the name of a set is complete.
//!
//! ```text
//! BASE/heat-3f9c2a10.1/          the set: PROGRAM-JOB.NUMBER
//!     manifest                   format and checksum, then JSON (manifest.rs)
//!     image/                     CRIU's files; of a job with an image of each rank (ranks.rs):
//!     image/rank.N/              the files of one rank
//!     image/mpirun, environment  mpirun's own state, and its environment
//! BASE/heat-3f9c2a10.tails/      the parts that restarts have cut off files of the job (tails.rs)
//! BASE/.oxmpi-heat-3f9c2a10.tmp-PID/   a draft: image/ and work/ (commit.rs)
//! BASE/.oxmpi-heat-3f9c2a10.1.old      a set that is being removed
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`manifest`] | the description of a set: pure |
//! | [`set`] | sets by their names, found and verified |
//! | `trust` | owners of directories and files: files of other users are refused |
//! | [`commit`] | the publication of a set, step by step |
//! | [`files`] | the files that a job has open: recorded, and judged before a restart |
//! | [`devices`] | descriptors that were opened in another mount namespace |
//! | `content` | checksums of the files' contents at a checkpoint |
//! | [`tails`] | the parts that restarts have cut off files, and their return |
//! | [`tree`] | the processes of a job |
//! | [`machine`] | the features of a machine that an image needs |
//! | [`making`] | a checkpoint from the request to the set |
//! | [`ranks`] | the same with an image of each rank |
//! | [`origins`] | which process numbers need a PID namespace at a restart: pure |
//! | [`restart`] | the checks before a restart, and the restart |
//! | [`criu`] | the command lines of CRIU, and the failures in its log |
//! | [`advice`] | the best interval of checkpoints: pure |
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // These macros panic without a reader.

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
