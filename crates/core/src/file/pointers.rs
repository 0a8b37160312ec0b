//! File pointers (MPI-5.0, "Seeking", "File Positions").

use super::agree::{not_same, verdict};
use super::{File, FilePosition, FileView, agree, locked};
use crate::process::Process;
use oxmpi_abi::constants as abi;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::shown::{self, ValueKind};

impl File {
    /// The individual file pointer, in elementary types (MPI_File_get_position).
    pub fn position(&self) -> Result<u64> {
        self.check_random(FilePosition::Individual)?;
        Ok(*locked(&self.position))
    }

    /// The offset in the file for an offset in the view (MPI_File_get_byte_offset).
    pub fn byte_offset(&self, offset: i64) -> Result<u64> {
        self.check_random(FilePosition::Offset(offset))?;
        let shown = self.shown();
        let start = self.in_bytes(&shown, self.checked_offset(offset)?)?;
        shown.view.check(start, 0)?;
        let too_large = || {
            self.refused(
                abi::MPI_ERR_ARG,
                &format!("offset is {offset}, more than a file can have"),
            )
        };
        shown.view.offset_of(start).ok_or_else(too_large)
    }

    fn end(&self, shown: &FileView) -> Result<u64> {
        Ok(shown.view.data_before(self.size()?).div_ceil(shown.view.etype_size()))
    }

    fn target(&self, offset: i64, whence: i32, here: impl FnOnce() -> Result<u64>) -> Result<u64> {
        let base = match whence {
            abi::MPI_SEEK_SET => 0,
            abi::MPI_SEEK_CUR => here()?,
            abi::MPI_SEEK_END => self.end(&self.shown())?,
            _ => {
                let whence = shown::number(ValueKind::Whence, whence);
                let why = format!(
                    "whence is {whence}; it must be MPI_SEEK_SET, MPI_SEEK_CUR or MPI_SEEK_END"
                );
                return Err(self.refused(abi::MPI_ERR_ARG, &why));
            }
        };
        base.checked_add_signed(offset).ok_or_else(|| {
            let why = format!(
                "offset is {offset}, counted from {base}: this is before the beginning of the view"
            );
            self.refused(abi::MPI_ERR_ARG, &why)
        })
    }

    /// Moves the individual file pointer (MPI_File_seek).
    pub fn seek(&self, offset: i64, whence: i32) -> Result<()> {
        self.check_random(FilePosition::Individual)?;
        let mut position = locked(&self.position);
        let here = *position;
        *position = self.target(offset, whence, || Ok(here))?;
        Ok(())
    }
}

impl<F: Fabric> Process<F> {
    /// The shared file pointer, in elementary types (MPI_File_get_position_shared).
    pub fn shared_position(&self, file: &File) -> Result<u64> {
        file.check_seekable()?;
        self.current_shared_position(file)
    }

    /// Moves the shared file pointer (MPI_File_seek_shared). Collective.
    pub fn seek_shared(&self, file: &File, offset: i64, whence: i32) -> Result<()> {
        file.check_seekable()?;
        let all =
            self.exchange_numbers(&file.comm, [offset as u64, u64::from(whence.cast_unsigned())])?;
        if all.iter().any(|one| one != &all[0]) {
            let mine = format!("{offset} with whence {whence}");
            return Err(not_same(&file.name, "offset", &mine));
        }
        // All ranks are in this call, so no rank uses the pointer before rank 0 moves it.
        let moved = if file.rank() == 0 {
            file.target(offset, whence, || self.shared_position(file))
                .and_then(|target| self.move_pointer_to(file, target))
        } else {
            // Only rank 0 has the pointer. The other arguments are wrong at all ranks.
            let is_relative = whence == abi::MPI_SEEK_CUR;
            if is_relative { Ok(()) } else { file.target(offset, whence, || Ok(0)).map(drop) }
        };
        self.outcome_of_first(file, moved)
    }

    pub(super) fn outcome_of_first(&self, file: &File, mine: Result<()>) -> Result<()> {
        let [class] = self.numbers_of_first(&file.comm, [verdict(&mine)])?;
        agree::settle(&file.name, [class], mine)
    }

    pub(super) fn rewind(&self, file: &File) -> Result<(), MpiError> {
        *locked(&file.position) = 0;
        match file.rank() {
            // An error of this class means that the file has no shared pointer.
            0 => self.move_pointer_to(file, 0).or_else(|error| match error.class() {
                abi::MPI_ERR_UNSUPPORTED_OPERATION => Ok(()),
                _ => Err(error),
            }),
            _ => Ok(()),
        }
    }
}
