//! Communicators.

use crate::error::{Result, settle};
use crate::universe::{Funneled, Level};
use oxmpi_abi::constants as abi;
use oxmpi_core::Process;
use oxmpi_fabric::routes::Routes;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The number of a rank in a communicator, from 0.
pub type Rank = i32;

/// A group of ranks with separate messages (MPI-5.0 chapter 7).
///
/// A communicator cannot outlive its [`Universe`](crate::Universe). On drop it is closed, without
/// the other ranks: operations under way continue.
pub struct Communicator<'u, L: Level = Funneled> {
    pub(crate) process: &'u Arc<Process<Routes>>,
    pub(crate) core: Arc<oxmpi_core::Communicator>,
    /// `None` for the world and self communicators, which stay open.
    _open: Option<OpenCommunicator>,
    level: PhantomData<L>,
}

/// Closes a communicator on drop. It does not borrow from the universe: a destructor counts as a
/// use, so every program would have to drop its communicators before `universe.finalize()`.
struct OpenCommunicator {
    process: Arc<Process<Routes>>,
    core: Arc<oxmpi_core::Communicator>,
}

impl Drop for OpenCommunicator {
    fn drop(&mut self) {
        self.process.close(&self.core);
    }
}

impl<L: Level> fmt::Debug for Communicator<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Communicator")
            .field("rank", &self.rank())
            .field("size", &self.size())
            .finish()
    }
}

impl<'u, L: Level> Communicator<'u, L> {
    pub(crate) fn world(process: &'u Arc<Process<Routes>>) -> Communicator<'u, L> {
        let core = process.world().clone();
        Communicator { process, core, _open: None, level: PhantomData }
    }

    pub(crate) fn own(process: &'u Arc<Process<Routes>>) -> Communicator<'u, L> {
        let core = process.own().clone();
        Communicator { process, core, _open: None, level: PhantomData }
    }

    fn opened(&self, core: oxmpi_core::Communicator) -> Communicator<'u, L> {
        let core = Arc::new(core);
        let open = OpenCommunicator { process: self.process.clone(), core: core.clone() };
        Communicator { process: self.process, core, _open: Some(open), level: PhantomData }
    }

    /// The rank of this process (MPI_Comm_rank).
    pub fn rank(&self) -> Rank {
        self.core.rank()
    }

    /// The number of ranks (MPI_Comm_size).
    pub fn size(&self) -> Rank {
        self.core.size()
    }

    /// A communicator of the same ranks with separate messages (MPI_Comm_dup, MPI-5.0 section
    /// 7.4.2), for libraries whose messages must not mix with those of their callers. All ranks
    /// must call this function.
    ///
    /// ```
    /// oxmpi::threads(2, |world| {
    ///     let library = world.dup().unwrap();
    ///     world.send(&[1], 1 - world.rank(), 0).unwrap();
    ///     assert_eq!(library.iprobe(oxmpi::ANY_SOURCE, oxmpi::ANY_TAG).unwrap(), None);
    ///     world.recv::<i32>(1 - world.rank(), 0).unwrap();
    /// });
    /// ```
    #[track_caller]
    pub fn dup(&self) -> Result<Communicator<'u, L>> {
        settle("dup", self.process.dup(&self.core)).map(|core| self.opened(core))
    }

    /// Makes one communicator for each colour, of the ranks with this colour (MPI_Comm_split,
    /// MPI-5.0 section 7.4.2). Its ranks are ordered by `key`, then by their ranks in this
    /// communicator. All ranks must call this function. A rank without a colour gets no
    /// communicator.
    ///
    /// ```
    /// oxmpi::threads(4, |world| {
    ///     let odd = world.rank() % 2;
    ///     let half = world.split(Some(odd), 0).unwrap().unwrap();
    ///     assert_eq!((half.size(), half.rank()), (2, world.rank() / 2));
    /// });
    /// ```
    ///
    /// # Panics
    /// If the colour is negative, after the other ranks have got their communicators.
    #[track_caller]
    pub fn split(&self, color: Option<i32>, key: i32) -> Result<Option<Communicator<'u, L>>> {
        self.split_as("split", color, key)
    }

    #[track_caller]
    pub(crate) fn split_as(
        &self,
        operation: &'static str,
        color: Option<i32>,
        key: i32,
    ) -> Result<Option<Communicator<'u, L>>> {
        // The core refuses negative colours, except MPI_UNDEFINED, which means no colour.
        let color = color.map_or(abi::MPI_UNDEFINED, |c| if c < 0 { i32::MIN } else { c });
        let new = settle(operation, self.process.split(&self.core, color, key))?;
        Ok(new.map(|core| self.opened(core)))
    }
}
