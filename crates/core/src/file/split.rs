//! Collective access in two calls (MPI-5.0, "Split Collective Data Access Routines"). A file has
//! at most one at a time.

use super::representation::FileElements;
use super::{Direction, File, FilePosition, locked};
use crate::process::Process;
use oxmpi_abi::constants as abi;
use oxmpi_engine::{Completion, RequestId};
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use std::sync::Arc;

/// A pair of functions of a split access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitKind {
    pub direction: Direction,
    /// The name of the two functions without `_begin` and `_end`.
    pub name: &'static str,
}

#[derive(Debug)]
pub(super) struct SplitAccess {
    kind: SplitKind,
    address: Option<usize>,
    request: RequestId,
}

impl File {
    fn split_error(&self, why: &str) -> MpiError {
        self.refused(abi::MPI_ERR_OTHER, why)
    }

    pub(super) fn check_no_split(&self) -> Result<()> {
        match &*locked(&self.split) {
            None => Ok(()),
            Some(split) => Err(self.split_error(&format!(
                "{}_begin was called: call its _end first",
                split.kind.name
            ))),
        }
    }
}

impl<F: Fabric + 'static> Process<F> {
    /// Begins a split access (MPI_File_write_all_begin and related calls). A file has at most one.
    pub fn begin_split(
        &self,
        file: &Arc<File>,
        kind: SplitKind,
        at: FilePosition,
        elements: Result<FileElements>,
    ) -> Result<()> {
        // A rank with an open split access takes part with an error, since the other ranks wait for
        // it.
        let elements = file.check_no_split().and(elements);
        let address = elements
            .as_ref()
            .ok()
            .filter(|elements| !elements.buffer.is_empty())
            .map(|elements| elements.buffer.as_ptr() as usize);
        let request = self.start_file_collective(file, kind.direction, at, elements)?;
        *locked(&file.split) = Some(SplitAccess { kind, address, request });
        Ok(())
    }

    /// Ends a split access (MPI_File_write_all_end and related calls) with the buffer of its
    /// beginning.
    pub fn end_split(&self, file: &File, kind: SplitKind, address: usize) -> Result<Completion> {
        let request = {
            let mut split = locked(&file.split);
            match split.take() {
                Some(begun) if begun.kind == kind && begun.address.is_none_or(|a| a == address) => {
                    begun.request
                }
                other => {
                    let why = match &other {
                        Some(begun) if begun.kind == kind => {
                            format!(
                                "{}_begin was called with another buffer than its _end",
                                kind.name
                            )
                        }
                        Some(begun) => {
                            format!("{}_begin was called, not {}_begin", begun.kind.name, kind.name)
                        }
                        None => format!("{}_begin was not called before its _end", kind.name),
                    };
                    *split = other;
                    return Err(file.split_error(&why));
                }
            }
        };
        self.wait(request)
    }
}
