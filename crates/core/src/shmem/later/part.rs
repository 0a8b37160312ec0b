//! The role of one rank in a nonblocking collective: the data that it gives, needs and copies.

use crate::shmem::moves::packed_copy;
use crate::shmem::spread::spreads;
use oxmpi_engine::Team;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::Result;
use oxmpi_plan::Call;

#[derive(Debug)]
pub(super) struct RankRole {
    /// The buffer, and the offset of its first byte. Blocks for all ranks follow one another.
    pub(super) gives: (UserBuf, usize),
    pub(super) writes: bool,
    pub(super) spreads: bool,
    pub(super) needs: Needs,
    pub(super) output: UserBuf,
    /// The number of ranks, from rank 0 on, whose data are combined.
    pub(super) combined: u32,
    pub(super) in_place: bool,
    pub(super) end: FinalCopy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nobody,
    One(u32),
    Below,
    All,
}

#[derive(Debug)]
pub(super) enum FinalCopy {
    Nothing,
    /// Copies the own block at the offset `at` of `from` to the offset `to` of the output.
    Own {
        from: UserBuf,
        at: usize,
        to: usize,
    },
    Unpack(UserBuf),
}

pub(super) fn of(
    call: &Call,
    (team, bytes): (&Team, usize),
    (input, output): (&UserBuf, &UserBuf),
    combines: bool,
) -> Result<RankRole> {
    let (me, ranks) = (team.rank, team.size());
    let part = RankRole {
        gives: (UserBuf::empty(), 0),
        writes: true,
        spreads: spreads(call.collective()),
        needs: Needs::All,
        output: UserBuf::empty(),
        combined: ranks,
        in_place: false,
        end: FinalCopy::Nothing,
    };
    let own = |at, to| FinalCopy::Own { from: input.clone(), at, to };
    let my_block = me as usize * bytes;
    Ok(match *call {
        Call::Bcast { root, .. } if root == me => {
            RankRole { gives: (output.clone(), 0), needs: Needs::Nobody, ..part }
        }
        Call::Bcast { root, .. } => {
            RankRole { writes: false, needs: Needs::One(root), output: output.clone(), ..part }
        }
        Call::Gather { root, .. } | Call::Reduce { root, .. } if root != me => {
            RankRole { gives: (input.clone(), 0), needs: Needs::Nobody, ..part }
        }
        Call::Gather { in_place: true, .. } => {
            RankRole { writes: false, output: output.clone(), ..part }
        }
        Call::Gather { .. } => {
            RankRole { writes: false, output: output.clone(), end: own(0, my_block), ..part }
        }
        Call::Scatter { root, .. } if root != me => {
            RankRole { writes: false, needs: Needs::One(root), output: output.clone(), ..part }
        }
        Call::Scatter { in_place: true, .. } => {
            RankRole { gives: (input.clone(), 0), needs: Needs::Nobody, ..part }
        }
        Call::Scatter { .. } => {
            let (gives, output, end) = ((input.clone(), 0), output.clone(), own(my_block, 0));
            RankRole { gives, needs: Needs::Nobody, output, end, ..part }
        }
        Call::Allgather { in_place: true, .. } => {
            RankRole { gives: (output.clone(), my_block), output: output.clone(), ..part }
        }
        Call::Allgather { .. } => RankRole {
            gives: (input.clone(), 0),
            output: output.clone(),
            end: own(0, my_block),
            ..part
        },
        Call::Alltoall { in_place: true, .. } => {
            RankRole { gives: (output.clone(), 0), output: output.clone(), ..part }
        }
        Call::Alltoall { .. } => RankRole {
            gives: (input.clone(), 0),
            output: output.clone(),
            end: own(my_block, my_block),
            ..part
        },
        Call::Reduce { in_place, .. }
        | Call::Allreduce { in_place, .. }
        | Call::ReduceScatterBlock { in_place, .. }
        | Call::Scan { in_place, .. }
        | Call::Exscan { in_place, .. }
            if combines =>
        {
            let result = in_one_piece(output)?;
            let given = if in_place { result.clone() } else { in_one_piece(input)? };
            let is_copy = output.as_contiguous().is_none();
            let end = if is_copy { FinalCopy::Unpack(output.clone()) } else { FinalCopy::Nothing };
            let part = RankRole { gives: (given, 0), output: result, in_place, end, ..part };
            combined(call, (me, ranks), bytes, part)
        }
        _ => part,
    })
}

fn combined(call: &Call, (me, ranks): (u32, u32), bytes: usize, part: RankRole) -> RankRole {
    let has_readers = me + 1 < ranks;
    match *call {
        // The root reads its own contribution from its input; in place, from the section.
        Call::Reduce { in_place, .. } => RankRole { writes: in_place, ..part },
        Call::Scan { in_place, .. } if me > 0 => RankRole {
            writes: has_readers || in_place,
            needs: Needs::Below,
            combined: me + 1,
            ..part
        },
        Call::Scan { in_place, .. } => {
            if !in_place {
                part.output.copy_from(0, &part.gives.0, 0, bytes);
            }
            RankRole { needs: Needs::Nobody, ..part }
        }
        Call::Exscan { .. } if me > 0 => {
            RankRole { writes: has_readers, needs: Needs::Below, combined: me, ..part }
        }
        // The standard leaves the result of rank 0 undefined; its buffer stays unchanged.
        Call::Exscan { .. } => RankRole { needs: Needs::Nobody, end: FinalCopy::Nothing, ..part },
        _ => part,
    }
}

fn in_one_piece(buffer: &UserBuf) -> Result<UserBuf> {
    if buffer.as_contiguous().is_some() {
        return Ok(buffer.clone());
    }
    packed_copy(buffer)
}
