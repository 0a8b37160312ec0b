//! Whole jobs that fail, by the installed `mpirun` and library: failing ranks, wrong calls, a
//! killed launcher, narrow surroundings. The C programs are in `tests/c/jobs`.
//!
//! The promise: the job ends soon, with the right code and one report, and no process or file of it
//! is left.

mod accelerator;
mod agreements;
mod checkpoints;
mod components;
mod crowd;
mod daemons;
mod deaths;
mod errors;
mod forced;
mod generations;
mod gm;
mod hangs;
mod harness;
mod hcoll;
mod ib;
mod launcher;
mod lost;
mod mpiruns;
mod observed;
mod ofi;
mod other_launchers;
mod parameters;
mod portals4;
mod postboxes;
mod programs;
mod quiesce;
mod selection;
mod semaphores;
mod served;
mod spawned;
mod surroundings;
mod survivors;
mod tree;
mod ucc;
