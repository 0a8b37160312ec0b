//! The storage of the shared file pointer of an open file.
//!
//! Usually it is a number in a small file that all ranks have open ([`SharedPointer`]). If ranks
//! can share only messages (`cr blcr`), rank 0 has the number in a window of one word, and
//! MPI_Fetch_and_op needs calls of rank 0 to complete.

use super::{File, error_of};
use crate::comm::Communicator;
use crate::process::Process;
use crate::window::{AccessCompletion, Accumulate, Flavor, NewWindow, TargetAccess, Window};
use oxmpi_abi::constants as abi;
use oxmpi_fabric::Fabric;
use oxmpi_io::shared::SharedPointer;
use oxmpi_mem::atomics::Accumulator;
use oxmpi_mem::exposed::Exposed;
use oxmpi_mem::kernels::{ReduceOp, Scalar};
use oxmpi_mem::layout::Layout;
use oxmpi_mem::memory::Owned;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::window_hints::WindowHints;
use std::sync::Arc;

/// The rank that has the number if it is in a window.
const OWNER: i32 = 0;
const WORD: usize = size_of::<u64>();

#[derive(Debug)]
pub(super) enum SharedFilePointer {
    Common(SharedPointer),
    Window(Box<Window>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PointerUpdate {
    Nothing,
    To(u64),
    By(u64),
}

impl<F: Fabric> Process<F> {
    pub(super) fn pointer_in_window(
        &self,
        comm: &Communicator,
        value: u64,
    ) -> Result<SharedFilePointer> {
        let new = NewWindow {
            flavor: Flavor::Allocate,
            memory: Exposed::NONE,
            size: if comm.team.rank == 0 { WORD } else { 0 },
            disp_unit: WORD as i64,
            hints: WindowHints::default(),
        };
        let window = self.create_window(comm, Ok(new))?;
        self.lock_all_window(&window, abi::MPI_MODE_NOCHECK)?;
        if comm.team.rank == 0 {
            self.change_word(&window, PointerUpdate::To(value))?;
        }
        // No rank may move the pointer before it has its value.
        self.numbers_of_first(comm, [0])?;
        Ok(SharedFilePointer::Window(Box::new(window)))
    }

    pub(super) fn release_pointer(&self, file: &File) -> Result<()> {
        match &file.shared {
            SharedFilePointer::Common(_) => Ok(()),
            SharedFilePointer::Window(window) => {
                self.unlock_all_window(window)?;
                self.free_window(window, Ok(()))?
            }
        }
    }

    pub(super) fn abandon_pointer(&self, file: &File) {
        if let SharedFilePointer::Window(window) = &file.shared {
            self.abandon_window(window);
        }
    }

    pub(super) fn current_shared_position(&self, file: &File) -> Result<u64> {
        let doing = "reading the shared pointer of";
        self.change_pointer(file, PointerUpdate::Nothing, doing)
    }

    pub(super) fn move_pointer_to(&self, file: &File, value: u64) -> Result<()> {
        self.change_pointer(file, PointerUpdate::To(value), "moving the shared pointer of")
            .map(drop)
    }

    pub(super) fn advance_pointer(&self, file: &File, by: u64) -> Result<u64> {
        self.change_pointer(file, PointerUpdate::By(by), "moving the shared pointer of")
    }

    fn change_pointer(&self, file: &File, update: PointerUpdate, doing: &str) -> Result<u64> {
        match &file.shared {
            SharedFilePointer::Common(pointer) => match update {
                PointerUpdate::Nothing => pointer.get(),
                PointerUpdate::To(value) => pointer.set(value).map(|()| value),
                PointerUpdate::By(by) => pointer.advance(by),
            }
            .map_err(|failure| error_of(&file.name, doing, failure)),
            SharedFilePointer::Window(window) => {
                self.change_word(window, update).map_err(|error| {
                    MpiError::new(
                        error.class(),
                        format!("{doing} the file \"{}\": {}", file.name, error.detail()),
                    )
                })
            }
        }
    }

    fn change_word(&self, window: &Window, update: PointerUpdate) -> Result<u64> {
        let (op, operand) = match update {
            PointerUpdate::Nothing => (ReduceOp::NoOp, 0),
            PointerUpdate::To(value) => (ReduceOp::Replace, value),
            PointerUpdate::By(by) => (ReduceOp::Sum, by),
        };
        let Some(accumulator) = Accumulator::new(op, Scalar::U64) else {
            return Err(MpiError::new(abi::MPI_ERR_INTERN, "a word cannot be accumulated to"));
        };
        let (operand, mut before) = (Owned::new(vec![operand]), Owned::new(vec![0_u64]));
        let what = Accumulate { operands: operand.buf(), fetch: Some(before.buf()), accumulator };
        let layout = Arc::new(Layout::basic(WORD, WORD));
        self.accumulate(
            window,
            what,
            &TargetAccess { rank: OWNER, disp: 0, count: 1, layout },
            AccessCompletion::Plain,
        )?;
        self.flush_window(window, OWNER)?;
        let before = before.as_slice().and_then(|words| words.first().copied());
        before.ok_or_else(|| {
            MpiError::new(abi::MPI_ERR_INTERN, "a complete access still has its buffer")
        })
    }
}
