//! What the ranks of a file tell each other: numbers, and how it went.

use crate::comm::Communicator;
use crate::process::Process;
use oxmpi_abi::constants as abi;
use oxmpi_abi::errors::{error_class_name, error_class_text};
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};

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
        Ok(self.words_of_all(comm, mine.to_vec())?.as_chunks::<N>().0.to_vec())
    }

    /// The numbers of the first rank.
    pub(super) fn first_tells<const N: usize>(
        &self,
        comm: &Communicator,
        mine: [u64; N],
    ) -> Result<[u64; N]> {
        let said = self.words_of_root(comm, 0, mine.to_vec())?;
        Ok(said.as_chunks::<N>().0.first().copied().unwrap_or(mine))
    }

    /// One outcome for all.
    pub(super) fn agree_on_file<T>(&self, comm: &Communicator, name: &str, mine: Result<T>) -> Result<T> {
        let verdicts = self.tell_all(comm, [verdict(&mine)])?;
        settle(name, verdicts.into_iter().flatten(), mine)
    }
}
