//! MPI_Comm_join (MPI-5.0 section 11.10.5).

use crate::comm::Communicator;
use crate::process::Process;
use oxmpi_abi::constants as abi;
use oxmpi_engine::RankMap;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_rt_client::universe::ProcessName;
use oxmpi_wire::ContextId;

/// The data that each of the two processes sends to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Introduction {
    name: [u64; ProcessName::WORDS],
    context: u64,
}

const MAGIC: [u8; 8] = *b"OxMPIjn2";
/// The length of an introduction, in bytes.
pub const INTRODUCTION: usize = 40;

impl Introduction {
    /// The bytes to send.
    pub fn encode(&self) -> [u8; INTRODUCTION] {
        let mut bytes = [0; INTRODUCTION];
        bytes[..8].copy_from_slice(&MAGIC);
        let words = self.name.into_iter().chain([self.context]);
        for (word, place) in words.zip(bytes[8..].as_chunks_mut::<8>().0) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// Decodes an introduction; `None` if the bytes are none.
    pub fn decode(bytes: &[u8; INTRODUCTION]) -> Option<Introduction> {
        let [magic, words @ ..] = bytes.as_chunks::<8>().0 else { return None };
        let [a, b, c, context] = *words.first_chunk()?;
        let [a, b, c, context] = [a, b, c, context].map(u64::from_le_bytes);
        (*magic == MAGIC).then_some(Introduction { name: [a, b, c], context })
    }
}

impl<F: Fabric> Process<F> {
    /// An intercommunicator with the process at the other end of a socket (MPI_Comm_join).
    /// `exchange` sends this process's introduction and returns that of the other process.
    pub fn join(
        &self,
        exchange: impl FnOnce(Introduction) -> Result<Introduction>,
    ) -> Result<Communicator> {
        self.reach()?;
        let name = self.names_of(&[self.rank()])?;
        let name = *name
            .first_chunk()
            .ok_or_else(|| MpiError::new(abi::MPI_ERR_INTERN, "this process has no name"))?;
        let mine = Introduction { name, context: self.new_context_ids(3)?.0 };
        let other = exchange(mine)?;
        if other.name == mine.name {
            let text = "the process at the other end of the socket is the calling process";
            return Err(MpiError::new(abi::MPI_ERR_ARG, text));
        }
        let remote = self.numbers_of(&other.name)?;
        let is_first = mine.name < other.name;
        let id = ContextId(if is_first { mine.context } else { other.context });
        let local = (RankMap::new(vec![self.rank()]), 0);
        Ok(self.open_inter(id, local, remote, is_first, self.own()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_introduction_is_decoded_and_noise_is_not() {
        let mine = Introduction { name: [1 << 60, 7, 8], context: 99 };
        assert_eq!(Introduction::decode(&mine.encode()), Some(mine));
        assert_eq!(Introduction::decode(&[0; INTRODUCTION]), None);
    }
}
