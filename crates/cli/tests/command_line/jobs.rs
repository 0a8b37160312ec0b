//! Whole jobs that do not go well, by the installed `mpirun` and library: ranks that die, wrong calls, a launcher that
//! is killed, narrow surroundings. The C programs lie in `tests/c/jobs`.
//!
//! What is promised: the job ends soon, with the right code and one report, and nothing is left of it.

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
mod ucc;
