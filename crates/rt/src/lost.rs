//! Why a process under `mpirun` finds no descriptors, and so is a job of one rank.
//!
//! Usually because a rank started it, which is as it should be. But if a program between `mpirun` and this process has
//! closed all descriptors (Python's subprocess does), no process will ever be the rank, and N jobs of one rank run where
//! one of N was wanted. The results are wrong without an error, so that is worth a word.

use std::fs::OpenOptions;
use std::process::id;

use oxmpi_shm::segment::Segment;

use crate::client::SIZE_VARIABLE;
use crate::foreign::parent_of;

/// The environment variable with the launcher's process number.
pub(crate) const LAUNCHER_VARIABLE: &str = "OXMPI_LAUNCHER";

/// Ancestors that are looked at.
const GENERATIONS: usize = 64;

/// What to say to the user, if a program in between has closed the descriptors. Only rank 0 says it.
pub(crate) fn warning(segment: i32, control: i32) -> Option<String> {
    let variable = |name| std::env::var(name).ok();
    let launcher = variable(LAUNCHER_VARIABLE)?.parse().ok()?;
    if variable("OXMPI_COMM_WORLD_RANK")? != "0" || !is_lost(launcher, segment) {
        return None;
    }
    let size = variable(SIZE_VARIABLE)?;
    Some(format!(
        "OxMPI: warning: mpirun has started {size} ranks, but this process (pid {}) is a job of one, because a program \
         between the two has closed the descriptors {segment} and {control}.\n  Next:    leave them open: in Python \
         subprocess.run(..., close_fds=False); or start mpirun inside that program.",
        id()
    ))
}

/// Whether the rank is nobody: this process should have been it, or an ancestor still has the segment for somebody.
fn is_lost(launcher: u32, segment: i32) -> bool {
    let mut process = id();
    for _ in 0..GENERATIONS {
        let number = format!("/proc/{process}/fd/{segment}");
        let held = OpenOptions::new().read(true).write(true).open(number);
        if let Some(held) = held.ok().and_then(|file| Segment::map(file).ok()) {
            return held.status().pid().is_none();
        }
        match parent_of(process) {
            Some(parent) if parent == launcher => return process == id(),
            Some(parent) => process = parent,
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_right_below_the_launcher_should_have_been_the_rank() {
        assert!(is_lost(std::os::unix::process::parent_id(), 62));
        assert!(!is_lost(u32::MAX, 9990), "no ancestor has the segment");
    }
}
