//! Two processes that share a socket of the program's (MPI-5.0 section 11.10.5).

use crate::comm::Communicator;
use crate::process::Process;
use oxmpi_abi::constants as abi;
use oxmpi_engine::RankMap;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_wire::ContextId;

/// What each tells the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// Names all jobs of its launcher.
    pub universe: u64,
    /// Its number.
    pub process: u32,
    /// A context that it has thought of.
    context: u64,
}

/// The first bytes of an introduction.
const MAGIC: [u8; 8] = *b"OxMPIjn1";
/// Bytes of an introduction.
pub const INTRODUCTION: usize = 32;

impl Introduction {
    /// As bytes.
    pub fn encode(&self) -> [u8; INTRODUCTION] {
        let mut bytes = [0; INTRODUCTION];
        bytes[..8].copy_from_slice(&MAGIC);
        for (word, at) in [self.universe, self.process.into(), self.context].into_iter().zip([8, 16, 24]) {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// What [`Introduction::encode`] has written; `None` if it was something else.
    pub fn decode(bytes: &[u8; INTRODUCTION]) -> Option<Introduction> {
        let [magic, universe, process, context] = bytes.as_chunks::<8>().0 else { return None };
        let process = u32::try_from(u64::from_le_bytes(*process)).ok()?;
        let (universe, context) = (u64::from_le_bytes(*universe), u64::from_le_bytes(*context));
        (*magic == MAGIC).then_some(Introduction { universe, process, context })
    }
}

impl<F: Fabric> Process<F> {
    /// An intercommunicator with the process at the other end of a socket (MPI_Comm_join). `exchange` sends what this process
    /// says and returns what the other has said. `None`: it belongs to another launcher, and cannot be reached.
    ///
    /// # Errors
    /// What `exchange` says; MPI_ERR_ARG if the other is this process itself.
    pub fn join(
        &self,
        universe: u64,
        exchange: impl FnOnce(Introduction) -> Result<Introduction>,
    ) -> Result<Option<Communicator>> {
        let mine = Introduction { universe, process: self.rank(), context: self.new_context_ids(3)?.0 };
        let other = exchange(mine)?;
        if other.universe != universe {
            return Ok(None);
        }
        if other.process == mine.process {
            let text = "the process at the other end of the socket is the calling one";
            return Err(MpiError::new(abi::MPI_ERR_ARG, text));
        }
        let is_first = mine.process < other.process;
        let id = ContextId(if is_first { mine.context } else { other.context });
        let local = (RankMap::new(vec![mine.process]), 0);
        Ok(Some(self.open_inter(id, local, vec![other.process], is_first, self.own())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_introduction_comes_back_and_noise_does_not() {
        let mine = Introduction { universe: 1 << 60, process: 7, context: 99 };
        assert_eq!(Introduction::decode(&mine.encode()), Some(mine));
        assert_eq!(Introduction::decode(&[0; INTRODUCTION]), None);
    }
}
