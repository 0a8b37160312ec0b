//! Agreements of the ranks of a file on numbers and outcomes.

use crate::comm::Communicator;
use crate::process::Process;
use oxmpi_abi::constants as abi;
use oxmpi_abi::errors::{error_class_name, error_class_text};
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};

/// An outcome as a number for the other ranks: 0, or the error class.
pub(super) fn verdict<T>(outcome: &Result<T>) -> u64 {
    outcome.as_ref().err().map_or(0, |error| u64::from(error.class().cast_unsigned()))
}

/// Returns the error of the lowest failed rank at all ranks. An error in `mine` keeps its text.
pub(super) fn settle<T>(
    name: &str,
    verdicts: impl IntoIterator<Item = u64>,
    mine: Result<T>,
) -> Result<T> {
    let first = verdicts.into_iter().enumerate().find(|(_, class)| *class != 0);
    let Some((rank, class)) = first else { return mine };
    let class = (class as u32).cast_signed();
    match mine {
        Err(error) if error.class() == class => Err(error),
        Err(error) => Err(MpiError::new(class, error.detail().to_owned())),
        Ok(_) => {
            let what = error_class_name(class).unwrap_or("an error class of the program");
            let text = error_class_text(class).unwrap_or("only that rank has its text");
            let text = format!(
                "the call failed at rank {rank} of the file \"{name}\" with {what}: {text}"
            );
            Err(MpiError::new(class, text))
        }
    }
}

pub(super) fn not_same(name: &str, what: &str, mine: &str) -> MpiError {
    let text = format!(
        "file \"{name}\": {what} is {mine} here and something else at another rank; all ranks must pass the same"
    );
    MpiError::new(abi::MPI_ERR_NOT_SAME, text)
}

impl<F: Fabric> Process<F> {
    pub(super) fn exchange_numbers<const N: usize>(
        &self,
        comm: &Communicator,
        mine: [u64; N],
    ) -> Result<Vec<[u64; N]>> {
        Ok(self.words_of_all(comm, mine.to_vec())?.as_chunks::<N>().0.to_vec())
    }

    pub(super) fn numbers_of_first<const N: usize>(
        &self,
        comm: &Communicator,
        mine: [u64; N],
    ) -> Result<[u64; N]> {
        let words = self.words_of_root(comm, 0, mine.to_vec())?;
        Ok(words.as_chunks::<N>().0.first().copied().unwrap_or(mine))
    }

    pub(super) fn agree_on_file<T>(
        &self,
        comm: &Communicator,
        name: &str,
        mine: Result<T>,
    ) -> Result<T> {
        let verdicts = self.exchange_numbers(comm, [verdict(&mine)])?;
        settle(name, verdicts.into_iter().flatten(), mine)
    }
}
