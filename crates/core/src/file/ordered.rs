//! Access by all ranks at the shared file pointer, in the order of the ranks (MPI-5.0, "Data Access
//! with Shared File Pointers").

use super::agree::verdict;
use super::collective::{CollectiveAccess, bytes_of, words_of};
use crate::process::Process;
use oxmpi_fabric::Fabric;
use oxmpi_plan::{Call, Shared};

impl<F: Fabric + 'static> Process<F> {
    pub(super) fn exchange_shares(&self, access: Box<CollectiveAccess>) {
        let etypes = access.data.packed_len() as u64 / access.shown.view.etype_size();
        let words = [verdict(&access.outcome), etypes];
        self.step_all(access, &words, |process, mut access, received| {
            let all: Vec<u64> = words_of(&received).collect();
            let all = all.as_chunks::<2>().0;
            if let Err(error) = access.settle(all.iter().map(|one| one[0])) {
                return process.end(*access, Err(error));
            }
            let shares = || all.iter().map(|one| one[1]);
            let before = shares().take(access.file.rank() as usize).fold(0, u64::saturating_add);
            // Until the pointer is known: in elementary types after the pointer.
            access.start = before;
            let mut pointer = 0;
            if access.file.rank() == 0 {
                match process.advance_pointer(&access.file, shares().fold(0, u64::saturating_add)) {
                    Ok(at) => pointer = at,
                    Err(error) => access.outcome = Err(error),
                }
            }
            let message = bytes_of(&[verdict(&access.outcome), pointer]);
            let call = Call::Bcast { root: 0, bytes: Shared(message.len()) };
            process.step(access, call, (Vec::new(), message), |process, mut access, received| {
                let mut words = words_of(&received);
                let (class, pointer) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
                if let Err(error) = access.settle([class].into_iter()) {
                    return process.end(*access, Err(error));
                }
                let view = &access.shown.view;
                let start = pointer.saturating_add(access.start).saturating_mul(view.etype_size());
                access.outcome = view.check(start, access.data.packed_len() as u64);
                access.start = start;
                access.move_alone();
                process.conclude(access);
            });
        });
    }
}
