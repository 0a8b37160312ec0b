//! What one rank does of a nonblocking collective: what it gives, whose data it needs, and where they go.

use crate::shmem::moves::packed_copy;
use crate::shmem::spread::spreads;
use oxmpi_engine::Team;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::Result;
use oxmpi_plan::Call;

/// A rank's part of a call.
#[derive(Debug)]
pub(super) struct Part {
    /// What it writes, if it does, and the byte at which that begins; of a call that spreads, a block for each rank.
    pub(super) gives: (UserBuf, usize),
    pub(super) writes: bool,
    /// What is written in a step has a piece for each other rank.
    pub(super) spreads: bool,
    pub(super) needs: Needs,
    /// What it needs goes there, or is combined there.
    pub(super) output: UserBuf,
    /// The data of so many ranks, from rank 0 on, are combined.
    pub(super) combined: u32,
    /// What it gives lies where the result is made.
    pub(super) in_place: bool,
    pub(super) end: End,
}

/// Whose data a rank needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nobody,
    One(u32),
    /// Those of all lower ranks.
    Below,
    All,
}

/// What is left to be done when all has been read.
#[derive(Debug)]
pub(super) enum End {
    Nothing,
    /// The block of this rank that begins at a byte of this buffer goes to a byte of the output.
    Own {
        from: UserBuf,
        at: usize,
        to: usize,
    },
    /// What was combined in one piece goes there.
    Unpack(UserBuf),
}

/// What a rank does of a call whose buffers these are; its blocks, or vector, have so many bytes.
///
/// # Errors
/// There is no temporary space.
pub(super) fn of(
    call: &Call,
    (team, bytes): (&Team, usize),
    (input, output): (&UserBuf, &UserBuf),
    combines: bool,
) -> Result<Part> {
    let (me, ranks) = (team.rank, team.size());
    // As of a barrier.
    let part = Part {
        gives: (UserBuf::empty(), 0),
        writes: true,
        spreads: spreads(call.collective()),
        needs: Needs::All,
        output: UserBuf::empty(),
        combined: ranks,
        in_place: false,
        end: End::Nothing,
    };
    let own = |at, to| End::Own { from: input.clone(), at, to };
    let my_block = me as usize * bytes;
    Ok(match *call {
        Call::Bcast { root, .. } if root == me => {
            Part { gives: (output.clone(), 0), needs: Needs::Nobody, ..part }
        }
        Call::Bcast { root, .. } => {
            Part { writes: false, needs: Needs::One(root), output: output.clone(), ..part }
        }
        Call::Gather { root, .. } | Call::Reduce { root, .. } if root != me => {
            Part { gives: (input.clone(), 0), needs: Needs::Nobody, ..part }
        }
        Call::Gather { in_place: true, .. } => Part { writes: false, output: output.clone(), ..part },
        Call::Gather { .. } => Part { writes: false, output: output.clone(), end: own(0, my_block), ..part },
        Call::Scatter { root, .. } if root != me => {
            Part { writes: false, needs: Needs::One(root), output: output.clone(), ..part }
        }
        Call::Scatter { in_place: true, .. } => {
            Part { gives: (input.clone(), 0), needs: Needs::Nobody, ..part }
        }
        Call::Scatter { .. } => {
            let (gives, output, end) = ((input.clone(), 0), output.clone(), own(my_block, 0));
            Part { gives, needs: Needs::Nobody, output, end, ..part }
        }
        Call::Allgather { in_place: true, .. } => {
            Part { gives: (output.clone(), my_block), output: output.clone(), ..part }
        }
        Call::Allgather { .. } => {
            Part { gives: (input.clone(), 0), output: output.clone(), end: own(0, my_block), ..part }
        }
        Call::Alltoall { in_place: true, .. } => {
            Part { gives: (output.clone(), 0), output: output.clone(), ..part }
        }
        Call::Alltoall { .. } => {
            Part { gives: (input.clone(), 0), output: output.clone(), end: own(my_block, my_block), ..part }
        }
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
            let end = if is_copy { End::Unpack(output.clone()) } else { End::Nothing };
            let part = Part { gives: (given, 0), output: result, in_place, end, ..part };
            combined(call, (me, ranks), bytes, part)
        }
        _ => part,
    })
}

/// Who gives and who needs what of a collective that combines.
fn combined(call: &Call, (me, ranks): (u32, u32), bytes: usize, part: Part) -> Part {
    let has_readers = me + 1 < ranks;
    match *call {
        // The root reads its own where it is; in place the section has the only copy.
        Call::Reduce { in_place, .. } => Part { writes: in_place, ..part },
        Call::Scan { in_place, .. } if me > 0 => {
            Part { writes: has_readers || in_place, needs: Needs::Below, combined: me + 1, ..part }
        }
        // Rank 0 has what it gives.
        Call::Scan { in_place, .. } => {
            if !in_place {
                part.output.copy_from(0, &part.gives.0, 0, bytes);
            }
            Part { needs: Needs::Nobody, ..part }
        }
        Call::Exscan { .. } if me > 0 => {
            Part { writes: has_readers, needs: Needs::Below, combined: me, ..part }
        }
        // Rank 0 gets nothing: what lies there stays.
        Call::Exscan { .. } => Part { needs: Needs::Nobody, end: End::Nothing, ..part },
        _ => part,
    }
}

/// A buffer whose bytes lie in one piece: this one, or a copy.
fn in_one_piece(buffer: &UserBuf) -> Result<UserBuf> {
    if buffer.as_contiguous().is_some() {
        return Ok(buffer.clone());
    }
    packed_copy(buffer)
}
