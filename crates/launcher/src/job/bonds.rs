//! Which jobs are connected (MPI-5.0 section 11.10.4).
//!
//! A process that has a communicator with processes of other jobs is *bound* by it. Two jobs are
//! connected while a process of either is bound to the other, or both are connected with a third. A
//! disconnect is collective: all processes have reported their release before any of them
//! continues.

use std::collections::{HashMap, HashSet};

/// By process and communicator: the jobs in the communicator, by the numbers of their first
/// processes.
#[derive(Debug, Default)]
pub(super) struct Bonds(HashMap<(u32, u64), Vec<u32>>);

impl Bonds {
    /// Notes that a process has a communicator with these jobs. Repetition is harmless.
    pub(super) fn bind(&mut self, process: u32, bond: u64, worlds: Vec<u32>) {
        self.0.insert((process, bond), worlds);
    }

    pub(super) fn of(&self, process: u32, bond: u64) -> &[u32] {
        self.0.get(&(process, bond)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn release(&mut self, process: u32, bond: u64) {
        self.0.remove(&(process, bond));
    }

    pub(super) fn forget_process(&mut self, process: u32) {
        self.0.retain(|(bound, _), _| *bound != process);
    }

    pub(super) fn is_bound(&self, bond: u64) -> bool {
        self.0.keys().any(|(_, other)| *other == bond)
    }

    pub(super) fn is_bound_to(&self, world: u32) -> bool {
        self.0.values().any(|worlds| worlds.contains(&world))
    }

    /// All jobs that are connected with `world`, itself first, through jobs that `live`.
    pub(super) fn connected(
        &self,
        world: u32,
        world_of: impl Fn(u32) -> Option<u32>,
        live: impl Fn(u32) -> bool,
    ) -> Vec<u32> {
        let (mut found, mut seen) = (vec![world], HashSet::from([world]));
        let mut at = 0;
        while let Some(world) = found.get(at).copied() {
            at += 1;
            for ((process, _), worlds) in &self.0 {
                let Some(own) = world_of(*process) else { continue };
                if own == world || worlds.contains(&world) {
                    let others = worlds.iter().copied().chain([own]);
                    found.extend(others.filter(|other| live(*other) && seen.insert(*other)));
                }
            }
        }
        found
    }
}
