//! Access by all ranks at the shared file pointer, in the order of the ranks (MPI-5.0, "Data Access with Shared File
//! Pointers").

use super::agree::verdict;
use super::collective::{Task, bytes_of, words_of};
use crate::process::Process;
use oxmpi_fabric::Fabric;
use oxmpi_plan::{Call, Shared};

impl<F: Fabric + 'static> Process<F> {
    /// All tell each other how much they move; the first rank moves the pointer by all of it and says where it was.
    pub(super) fn tell_shares(&self, task: Box<Task>) {
        let etypes = task.data.packed_len() as u64 / task.shown.view.etype_size();
        let words = [verdict(&task.outcome), etypes];
        self.step_all(task, &words, |process, mut task, came| {
            let all: Vec<u64> = words_of(&came).collect();
            let all = all.as_chunks::<2>().0;
            if let Err(error) = task.settle(all.iter().map(|one| one[0])) {
                return process.end(*task, Err(error));
            }
            let shares = || all.iter().map(|one| one[1]);
            let before = shares().take(task.file.rank() as usize).fold(0, u64::saturating_add);
            // In elementary types from the pointer on, until it is known.
            task.start = before;
            let mut pointer = 0;
            if task.file.rank() == 0 {
                match process.advance_pointer(&task.file, shares().fold(0, u64::saturating_add)) {
                    Ok(at) => pointer = at,
                    Err(error) => task.outcome = Err(error),
                }
            }
            let told = bytes_of(&[verdict(&task.outcome), pointer]);
            let call = Call::Bcast { root: 0, bytes: Shared(told.len()) };
            process.step(task, call, (Vec::new(), told), |process, mut task, came| {
                let mut words = words_of(&came);
                let (class, pointer) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
                if let Err(error) = task.settle([class].into_iter()) {
                    return process.end(*task, Err(error));
                }
                let view = &task.shown.view;
                let start = pointer.saturating_add(task.start).saturating_mul(view.etype_size());
                task.outcome = view.check(start, task.data.packed_len() as u64);
                task.start = start;
                task.move_alone();
                process.conclude(task);
            });
        });
    }
}
