//! Where the shared file pointer of an open file lies, and how it is moved.
//!
//! Usually it is a number in a small file that all ranks have open ([`SharedPointer`]): no other process takes part when it is moved.
//! A job of which each rank is imaged by itself (`cr blcr`) can have nothing in common but messages: there the first rank of the file
//! has the number, in a window of one word, and the others reach it by MPI_Fetch_and_op. They wait for the first rank to call MPI.

use super::{File, error_of};
use crate::comm::Communicator;
use crate::process::Process;
use crate::window::{Accumulate, At, Flavor, How, NewWindow, Window};
use oxmpi_abi::constants as abi;
use oxmpi_fabric::Fabric;
use oxmpi_io::shared::SharedPointer;
use oxmpi_mem::atomics::Accumulator;
use oxmpi_mem::exposed::Exposed;
use oxmpi_mem::kernels::{Op, Scalar};
use oxmpi_mem::layout::Layout;
use oxmpi_mem::memory::Owned;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::window_hints::WindowHints;
use std::sync::Arc;

/// The rank that has the number, if it is in a window.
const OWNER: i32 = 0;
/// Bytes of the number.
const WORD: usize = size_of::<u64>();

/// The shared file pointer of a file, in elementary types of the view.
#[derive(Debug)]
pub(super) enum Pointer {
    /// In memory or a file that all ranks have.
    Common(SharedPointer),
    /// In the memory of one rank.
    Window(Box<Window>),
}

/// A change of the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    To(u64),
    By(u64),
}

impl<F: Fabric> Process<F> {
    /// A pointer in a window, with this value. Collective.
    pub(super) fn pointer_in_window(&self, comm: &Communicator, value: u64) -> Result<Pointer> {
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
            self.change_word(&window, Change::To(value))?;
        }
        // No rank moves it before it has its value.
        self.first_tells(comm, [0])?;
        Ok(Pointer::Window(Box::new(window)))
    }

    /// Ends the use of the pointer of a file that is closed by all ranks. Collective.
    pub(super) fn release_pointer(&self, file: &File) -> Result<()> {
        match &file.shared {
            Pointer::Common(_) => Ok(()),
            Pointer::Window(window) => {
                self.unlock_all_window(window)?;
                self.free_window(window, Ok(()))?
            }
        }
    }

    /// The same without the other ranks, of which one has failed.
    pub(super) fn abandon_pointer(&self, file: &File) {
        if let Pointer::Window(window) = &file.shared {
            self.abandon_window(window);
        }
    }

    /// Where the pointer of any file is.
    pub(super) fn current_shared_position(&self, file: &File) -> Result<u64> {
        let doing = "asking for the shared pointer of";
        self.change_pointer(file, Change::Nothing, doing)
    }

    /// Puts it somewhere.
    pub(super) fn move_pointer_to(&self, file: &File, value: u64) -> Result<()> {
        self.change_pointer(file, Change::To(value), "moving the shared pointer of").map(drop)
    }

    /// Moves it forward; where it was.
    pub(super) fn advance_pointer(&self, file: &File, by: u64) -> Result<u64> {
        self.change_pointer(file, Change::By(by), "moving the shared pointer of")
    }

    fn change_pointer(&self, file: &File, change: Change, doing: &str) -> Result<u64> {
        match &file.shared {
            Pointer::Common(pointer) => match change {
                Change::Nothing => pointer.get(),
                Change::To(value) => pointer.set(value).map(|()| value),
                Change::By(by) => pointer.advance(by),
            }
            .map_err(|failure| error_of(&file.name, doing, failure)),
            Pointer::Window(window) => self.change_word(window, change).map_err(|error| {
                MpiError::new(
                    error.class(),
                    format!("{doing} the file \"{}\": {}", file.name, error.detail()),
                )
            }),
        }
    }

    /// Changes the word of a window that is locked for all; what it was before.
    fn change_word(&self, window: &Window, change: Change) -> Result<u64> {
        let (op, operand) = match change {
            Change::Nothing => (Op::NoOp, 0),
            Change::To(value) => (Op::Replace, value),
            Change::By(by) => (Op::Sum, by),
        };
        let Some(accumulator) = Accumulator::new(op, Scalar::U64) else {
            return Err(MpiError::new(abi::MPI_ERR_INTERN, "a word cannot be accumulated to"));
        };
        let (operand, mut before) = (Owned::new(vec![operand]), Owned::new(vec![0_u64]));
        let what = Accumulate { operands: operand.buf(), fetch: Some(before.buf()), accumulator };
        let layout = Arc::new(Layout::basic(WORD, WORD));
        self.accumulate(window, what, &At { rank: OWNER, disp: 0, count: 1, layout }, How::Plain)?;
        self.flush_window(window, OWNER)?;
        let before = before.as_slice().and_then(|words| words.first().copied());
        before
            .ok_or_else(|| MpiError::new(abi::MPI_ERR_INTERN, "an access that is complete holds its buffer"))
    }
}
