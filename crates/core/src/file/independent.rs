//! Access by one rank (MPI-5.0, "Data Access with Explicit Offsets", "... Individual File
//! Pointers", "... Shared File Pointers").
//!
//! A nonblocking access is carried out at once. Its request is complete when the call returns.

use super::representation::FileElements;
use super::{Direction, File, FilePosition, FileView};
use crate::process::Process;
use oxmpi_engine::{Completion, RequestId};
use oxmpi_fabric::Fabric;
use oxmpi_io::transfer;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::{MpiError, Result};

pub(super) fn completion(bytes: u64) -> Completion {
    Completion { bytes, ..Completion::EMPTY }
}

impl File {
    pub(super) fn transfer(
        &self,
        shown: &FileView,
        direction: Direction,
        start: u64,
        data: &UserBuf,
    ) -> Result<u64> {
        let rules = self.rules(direction);
        let (result, doing) = match direction {
            Direction::Read => {
                (transfer::read(&self.store, &shown.view, start, data, rules), "reading")
            }
            Direction::Write => {
                self.note_write();
                (transfer::write(&self.store, &shown.view, start, data, rules), "writing")
            }
        };
        result.map(|bytes| bytes as u64).map_err(|error| self.error(doing, error.into()))
    }

    /// Reads or writes (MPI_File_read_at, MPI_File_write and related calls).
    ///
    /// Errors: MPI_ERR_ACCESS, MPI_ERR_READ_ONLY or MPI_ERR_UNSUPPORTED_OPERATION if the access
    /// mode does not allow it; MPI_ERR_ARG for a wrong offset, or if the data are not whole
    /// elementary types; errors of the system and of the program's conversion.
    pub fn access<F: Fabric>(
        &self,
        process: &Process<F>,
        direction: Direction,
        at: FilePosition,
        elements: FileElements,
    ) -> Result<Completion> {
        self.check_access(direction, at)?;
        let shown = self.shown();
        match direction {
            Direction::Read => {
                let incoming = shown.incoming(elements)?;
                let bytes = incoming.room.packed_len() as u64;
                let start = self.claim(process, &shown, at, self.whole_etypes(&shown, bytes)?)?;
                let received = self.transfer(&shown, direction, start, &incoming.room)?;
                incoming.deliver(received).map(completion)
            }
            Direction::Write => {
                let data = shown.outgoing(&elements)?;
                let bytes = data.packed_len() as u64;
                let start = self.claim(process, &shown, at, self.whole_etypes(&shown, bytes)?)?;
                let written = self.transfer(&shown, direction, start, &data)?;
                // Through a view without data, no bytes are written.
                let all = written == bytes;
                Ok(completion(if all { elements.buffer.packed_len() as u64 } else { 0 }))
            }
        }
    }
}

impl<F: Fabric> Process<F> {
    /// [`File::access`] with a request, which is complete (MPI_File_iread_at and related calls).
    pub fn start_file_access(
        &self,
        file: &File,
        direction: Direction,
        at: FilePosition,
        elements: FileElements,
    ) -> Result<RequestId> {
        let completion = file.access(self, direction, at, elements)?;
        Ok(self.enter(|domain| domain.completed(completion)))
    }
}

impl File {
    pub(super) fn failed(&self, error: &MpiError) -> Completion {
        Completion { context: self.comm.team.collective, ..Completion::failed(self.fault(error)) }
    }
}
