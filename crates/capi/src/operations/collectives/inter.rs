//! Collectives of intercommunicators (MPI-5.0 section 6.2.3): the data of each group go to the
//! other group.
//!
//! The root argument gives the role of a rank. MPI_ROOT means the root, MPI_PROC_NULL a rank
//! without data, and a rank number a member of the group without the root. Arguments that a role
//! does not need are not read. MPI_IN_PLACE is not allowed.

use super::arguments::{BlockArgs, ReductionArgs, lengths};
use super::run::{movement_of, run_plan};
use crate::arguments::{BufferArgs, CallForm};
use crate::operations::ops::combining;
use crate::state::library::{Running, check_count};
use oxmpi_abi::constants as abi;
use oxmpi_coll::{Area, Memory};
use oxmpi_core::Communicator;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::shown::{self, ValueKind};
use oxmpi_plan::{
    Blocks, Call, Groups, InterCollective, InterRole, Paired, RootOnly, Shared, TeamMember,
};
use std::ffi::c_int;

#[derive(Clone, Copy)]
pub(super) struct IntercommCall<'a> {
    pub(super) library: &'static Running,
    pub(super) comm: &'a Communicator,
    pub(super) groups: Groups,
    pub(super) form: CallForm,
}

/// The description of a call on an intercommunicator; `None` for an intracommunicator.
pub(super) fn across<'a>(
    library: &'static Running,
    comm: &'a Communicator,
    form: CallForm,
) -> Option<IntercommCall<'a>> {
    comm.groups().map(|groups| IntercommCall { library, comm, groups, form })
}

/// The blocks of the remote group: consecutive and of one length, or a list.
pub(super) enum RemoteBlocks {
    Even(BufferArgs),
    Uneven(BlockArgs),
}

impl RemoteBlocks {
    fn place(&self, library: &Running, ranks: usize) -> Result<(Area, Blocks)> {
        match self {
            RemoteBlocks::Even(named) => {
                let buffer = named.blocks(library, ranks as i32)?;
                let blocks = even(buffer.packed_len() / ranks.max(1), ranks)?;
                Ok((buffer.into(), blocks))
            }
            RemoteBlocks::Uneven(named) => {
                let list = named.list(library, ranks, |_| true)?;
                let blocks = lengths(&list, named.names)?;
                Ok((Area::Blocks(list), blocks))
            }
        }
    }
}

fn even(length: usize, how_many: usize) -> Result<Blocks> {
    Blocks::new(std::iter::repeat_n(length, how_many)).ok_or_else(|| {
        let text =
            format!("{how_many} blocks of {length} are more than the address space has room for");
        MpiError::new(abi::MPI_ERR_COUNT, text)
    })
}

fn nothing() -> Area {
    UserBuf::empty().into()
}

impl IntercommCall<'_> {
    fn me(&self) -> TeamMember {
        TeamMember {
            rank: self.comm.collective_team().rank,
            size: self.comm.collective_team().size(),
        }
    }

    fn remote(&self) -> usize {
        self.groups.remote(self.me()).len()
    }

    fn part(&self, root: c_int) -> Result<InterRole> {
        let remote = self.groups.remote(self.me());
        match root {
            abi::MPI_ROOT => Ok(InterRole::Root),
            abi::MPI_PROC_NULL => Ok(InterRole::Idle),
            _ => match u32::try_from(root).ok().filter(|root| (*root as usize) < remote.len()) {
                Some(root) => Ok(InterRole::Leaf { root: remote.start + root }),
                None => {
                    let root = shown::number(ValueKind::Rank, root);
                    let text = format!(
                        "root is {root}; it must be MPI_ROOT, MPI_PROC_NULL, or a rank of the remote group, 0 to {}",
                        remote.len() - 1
                    );
                    Err(MpiError::new(abi::MPI_ERR_ROOT, text))
                }
            },
        }
    }

    fn moves(&self, what: InterCollective, buffers: (Area, Area)) -> Result<()> {
        let call = Call::Inter { groups: self.groups, what };
        movement_of(self.library, self.comm, call, buffers, self.form)
    }

    pub(super) fn bcast(&self, data: BufferArgs, root: c_int) -> Result<()> {
        let part = self.part(root)?;
        let data =
            if part == InterRole::Idle { UserBuf::empty() } else { data.buffer(self.library)? };
        let what = InterCollective::Bcast { part, bytes: Paired(data.packed_len()) };
        let buffers = if part == InterRole::Root {
            (data.into(), nothing())
        } else {
            (nothing(), data.into())
        };
        self.moves(what, buffers)
    }

    pub(super) fn gather(
        &self,
        send: BufferArgs,
        receive: &RemoteBlocks,
        root: c_int,
    ) -> Result<()> {
        let part = self.part(root)?;
        let (input, output, mine, all) = self.rooted(part, send, receive)?;
        self.moves(InterCollective::Gather { part, mine, all }, (input, output))
    }

    pub(super) fn scatter(
        &self,
        send: &RemoteBlocks,
        receive: BufferArgs,
        root: c_int,
    ) -> Result<()> {
        let part = self.part(root)?;
        let (output, input, mine, all) = self.rooted(part, receive, send)?;
        self.moves(InterCollective::Scatter { part, mine, all }, (input, output))
    }

    /// Returns the leaf's buffer, the root's buffer, the length of the leaf's data, and the lengths
    /// of the root's blocks.
    fn rooted(
        &self,
        part: InterRole,
        leaf: BufferArgs,
        root: &RemoteBlocks,
    ) -> Result<(Area, Area, Paired<usize>, RootOnly<Blocks>)> {
        match part {
            InterRole::Root => {
                let (all, blocks) = root.place(self.library, self.remote())?;
                Ok((nothing(), all, Paired(0), RootOnly::at_root(blocks)))
            }
            InterRole::Leaf { .. } => {
                let mine = leaf.buffer(self.library)?;
                let len = mine.packed_len();
                Ok((mine.into(), nothing(), Paired(len), RootOnly::elsewhere()))
            }
            InterRole::Idle => Ok((nothing(), nothing(), Paired(0), RootOnly::elsewhere())),
        }
    }

    pub(super) fn allgather(&self, send: BufferArgs, receive: &RemoteBlocks) -> Result<()> {
        let input = send.buffer(self.library)?;
        let (output, remote) = receive.place(self.library, self.remote())?;
        let what =
            InterCollective::Allgather { mine: Paired(input.packed_len()), remote: Paired(remote) };
        self.moves(what, (input.into(), output))
    }

    pub(super) fn alltoall(&self, send: &RemoteBlocks, receive: &RemoteBlocks) -> Result<()> {
        let (input, send) = send.place(self.library, self.remote())?;
        let (output, receive) = receive.place(self.library, self.remote())?;
        self.moves(
            InterCollective::Alltoall { send: Paired(send), receive: Paired(receive) },
            (input, output),
        )
    }

    pub(super) fn reduce(&self, r: ReductionArgs, root: c_int) -> Result<()> {
        let part = self.part(root)?;
        let (input, output) = match part {
            InterRole::Root => (nothing(), r.receive().buffer(self.library)?.into()),
            InterRole::Leaf { .. } => (r.send().buffer(self.library)?.into(), nothing()),
            InterRole::Idle => (nothing(), nothing()),
        };
        if part == InterRole::Idle {
            // A rank with MPI_PROC_NULL may have no valid operation, so it takes part as in a
            // broadcast.
            return self.moves(InterCollective::Bcast { part, bytes: Paired(0) }, (input, output));
        }
        let count = Paired(check_count(r.count)?);
        self.combines(r, (input, output), |commutative| InterCollective::Reduce {
            part,
            count,
            commutative,
        })
    }

    pub(super) fn allreduce(&self, r: ReductionArgs) -> Result<()> {
        let (input, output) = (r.send().buffer(self.library)?, r.receive().buffer(self.library)?);
        let count = Shared(check_count(r.count)?);
        self.combines(r, (input.into(), output.into()), |commutative| InterCollective::Allreduce {
            count,
            commutative,
        })
    }

    /// `counts` are the elements for each rank of the local group.
    pub(super) fn reduce_scatter(&self, r: ReductionArgs, counts: &[usize]) -> Result<()> {
        let blocks = Blocks::new(counts.iter().copied()).ok_or_else(|| {
            let text = "the recvcounts are together too many";
            MpiError::new(abi::MPI_ERR_COUNT, text)
        })?;
        let index = self.me().rank - self.groups.local(self.me()).start;
        let mine = blocks.length(index as usize) as i64;
        let input =
            ReductionArgs { count: blocks.total() as i64, ..r }.send().buffer(self.library)?;
        let output = ReductionArgs { count: mine, ..r }.receive().buffer(self.library)?;
        self.combines(r, (input.into(), output.into()), |commutative| {
            InterCollective::ReduceScatter { local: Paired(blocks), commutative }
        })
    }

    fn combines(
        &self,
        r: ReductionArgs,
        (input, output): (Area, Area),
        what: impl FnOnce(bool) -> InterCollective,
    ) -> Result<()> {
        let how = combining(self.library, r.op, r.datatype)?;
        let element = Some(self.library.datatype(r.datatype)?.layout().clone());
        let call = Call::Inter { groups: self.groups, what: what(how.commutative) };
        run_plan(self.library, self.comm, call, Memory { input, output, element }, how, self.form)
    }
}
