//! What the ranks of a file tell each other: numbers, and how it went.

use crate::comm::{Communicator, taken};
use crate::process::Process;
use oxmpi_abi::constants as abi;
use oxmpi_abi::errors::{error_class_name, error_class_text};
use oxmpi_coll::{Buffers, Combine};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Owned;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{Call, Shared};

/// The class of an outcome, 0 if it is good: what ranks tell each other of it.
pub(super) fn verdict<T>(outcome: &Result<T>) -> u64 {
    outcome.as_ref().err().map_or(0, |error| u64::from(error.class().cast_unsigned()))
}

/// What all return, given the verdicts of all: the error of the lowest rank that has one. This rank tells its own in full.
pub(super) fn settle<T>(name: &str, verdicts: impl IntoIterator<Item = u64>, mine: Result<T>) -> Result<T> {
    let first = verdicts.into_iter().enumerate().find(|(_, class)| *class != 0);
    let Some((rank, class)) = first else { return mine };
    let class = (class as u32).cast_signed();
    match mine {
        Err(error) if error.class() == class => Err(error),
        Err(error) => Err(MpiError::new(class, error.detail().to_owned())),
        Ok(_) => {
            let what = error_class_name(class).unwrap_or("an error of the program's");
            let text = error_class_text(class).unwrap_or("no more is known here");
            let text = format!("the call failed at rank {rank} of the file \"{name}\" with {what}: {text}");
            Err(MpiError::new(class, text))
        }
    }
}

/// The error of ranks that have passed different values.
pub(super) fn not_same(name: &str, what: &str, mine: &str) -> MpiError {
    let text = format!(
        "file \"{name}\": {what} is {mine} here and something else at another rank; all must pass the same"
    );
    MpiError::new(abi::MPI_ERR_NOT_SAME, text)
}

impl<F: Fabric> Process<F> {
    /// The numbers of all ranks, in their order.
    pub(super) fn tell_all<const N: usize>(
        &self,
        comm: &Communicator,
        mine: [u64; N],
    ) -> Result<Vec<[u64; N]>> {
        if comm.team.size() == 1 {
            return Ok(vec![mine]);
        }
        let (input, output) = (Owned::new(mine.to_vec()), Owned::new(vec![0_u64; N * comm.size() as usize]));
        let buffers = Buffers { input: input.buf(), output: output.buf(), element: None };
        self.run_own(
            comm,
            Call::Allgather { block: Shared(8 * N), in_place: false },
            buffers,
            Combine::Nothing,
        )?;
        Ok(taken(output)?.as_chunks::<N>().0.to_vec())
    }

    /// The numbers of the first rank.
    pub(super) fn first_tells<const N: usize>(
        &self,
        comm: &Communicator,
        mine: [u64; N],
    ) -> Result<[u64; N]> {
        if comm.team.size() == 1 {
            return Ok(mine);
        }
        let output = Owned::new(mine.to_vec());
        let buffers = Buffers { input: UserBuf::empty(), output: output.buf(), element: None };
        self.run_own(comm, Call::Bcast { root: 0, bytes: Shared(8 * N) }, buffers, Combine::Nothing)?;
        Ok(taken(output)?.as_chunks::<N>().0.first().copied().unwrap_or(mine))
    }

    /// Waits for all ranks.
    pub(super) fn meet_at_file(&self, comm: &Communicator) -> Result<()> {
        let buffers = Buffers { input: UserBuf::empty(), output: UserBuf::empty(), element: None };
        self.run_own(comm, Call::Barrier, buffers, Combine::Nothing)
    }

    /// One outcome for all.
    pub(super) fn agree_on_file<T>(&self, comm: &Communicator, name: &str, mine: Result<T>) -> Result<T> {
        let verdicts = self.tell_all(comm, [verdict(&mine)])?;
        settle(name, verdicts.into_iter().flatten(), mine)
    }
}
