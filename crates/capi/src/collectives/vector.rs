//! Collectives with blocks of different lengths (MPI-5.0 sections 6.5 to 6.8 and 6.10.2): the v and
//! w forms. A buffer is a list of blocks, each with a displacement, a count and possibly a
//! datatype. Arguments that are significant only at the root are not read at other ranks.

use super::inter::RemoteBlocks;
use super::reductions::ReductionArgs;
use super::{across, check_blocks, movement_of, run_plan, short};
use crate::arguments::{BufferArgs, CallForm, OfArgument};
use crate::errors::{on_comm, outcome};
use crate::library::{FIRST_PAGE, Running, array, check_count};
use crate::on::On;
use crate::operations::combining;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Aint, Comm, Count, Datatype};
use oxmpi_coll::{Area, BlockList, Memory};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{Blocks, Call, Paired, RootOnly, Shared};
use std::ffi::{c_int, c_void};

/// An array argument, in the number type of the function's form.
#[derive(Clone, Copy)]
pub(crate) enum NumberArray {
    Int(*const c_int),
    Count(*const Count),
    Aint(*const Aint),
}

enum NumberSlice<'a> {
    Int(&'a [c_int]),
    Count(&'a [Count]),
    Aint(&'a [Aint]),
}

impl NumberSlice<'_> {
    #[inline(always)]
    fn at(&self, index: usize) -> i64 {
        match self {
            NumberSlice::Int(numbers) => i64::from(numbers[index]),
            NumberSlice::Count(numbers) => numbers[index],
            NumberSlice::Aint(numbers) => numbers[index] as i64,
        }
    }
}

impl NumberArray {
    /// The first `how_many` elements; `what` names the argument in errors.
    fn listed<'a>(self, how_many: usize, what: &str) -> Result<NumberSlice<'a>> {
        // SAFETY: the C program passes an array with a number for each rank or neighbour.
        unsafe {
            Ok(match self {
                NumberArray::Int(first) => NumberSlice::Int(array(first, how_many, what)?),
                NumberArray::Count(first) => NumberSlice::Count(array(first, how_many, what)?),
                NumberArray::Aint(first) => NumberSlice::Aint(array(first, how_many, what)?),
            })
        }
    }

    fn read(self, how_many: usize, what: &str) -> Result<Vec<i64>> {
        let listed = self.listed(how_many, what)?;
        Ok((0..how_many).map(|index| listed.at(index)).collect())
    }
}

#[derive(Clone, Copy)]
pub(crate) enum BlockTypes {
    /// One datatype for all blocks; displacements count its extent.
    One(Datatype),
    /// A datatype for each block; displacements count bytes.
    Each(*const Datatype),
}

/// The names of the arguments of a buffer of blocks.
pub(crate) struct BlockNames {
    pub(crate) address: &'static str,
    pub(crate) counts: &'static str,
    pub(crate) displacements: &'static str,
    pub(crate) types: &'static str,
}

#[derive(Clone, Copy)]
pub(crate) struct BlockArgs {
    pub(crate) address: *const c_void,
    pub(crate) counts: NumberArray,
    pub(crate) displacements: NumberArray,
    pub(crate) types: BlockTypes,
    pub(crate) names: &'static BlockNames,
}

impl BlockArgs {
    pub(crate) fn is_in_place(&self) -> bool {
        self.address as usize == abi::MPI_IN_PLACE
    }

    /// The memory of `how_many` blocks. Blocks for which `is_used` is false are empty, and their
    /// arguments are not read.
    pub(crate) fn list(
        &self,
        library: &Running,
        how_many: usize,
        is_used: impl Fn(usize) -> bool,
    ) -> Result<BlockList> {
        let counts = self.counts.listed(how_many, self.names.counts)?;
        let displacements = self.displacements.listed(how_many, self.names.displacements)?;
        let types = match self.types {
            BlockTypes::One(_) => &[],
            // SAFETY: the C program passes an array with a datatype for each rank or neighbour.
            BlockTypes::Each(first) => unsafe { array(first, how_many, self.names.types) }?,
        };
        let block = |index: usize| {
            if !is_used(index) {
                return Ok(UserBuf::empty());
            }
            let (count, displacement) = (counts.at(index), displacements.at(index));
            let (datatype, unit) = match self.types {
                BlockTypes::One(datatype) => {
                    let found = library.datatype(datatype).of(self.names.types)?;
                    (datatype, found.bounds().extent())
                }
                // Programs leave the datatypes of empty blocks unset.
                BlockTypes::Each(_) if count == 0 && types[index] == abi::MPI_DATATYPE_NULL => {
                    return Ok(UserBuf::empty());
                }
                BlockTypes::Each(_) => (types[index], 1),
            };
            let offset = unit.wrapping_mul(displacement as isize);
            self.block(library, count, offset, datatype).map_err(|error| {
                let argument = self.argument_of(index, error.class());
                error.within(argument)
            })
        };
        let mut blocks = Vec::with_capacity(how_many);
        for index in 0..how_many {
            blocks.push(block(index)?);
        }
        Ok(BlockList::new(blocks))
    }

    /// The argument that caused an error of this class in a block.
    fn argument_of(&self, index: usize, class: c_int) -> String {
        match self.types {
            _ if class == abi::MPI_ERR_BUFFER => self.names.address.to_owned(),
            _ if class != abi::MPI_ERR_TYPE => format!("{}[{index}]", self.names.counts),
            BlockTypes::One(_) => self.names.types.to_owned(),
            BlockTypes::Each(_) => format!("{}[{index}]", self.names.types),
        }
    }

    fn block(
        &self,
        library: &Running,
        count: i64,
        offset: isize,
        datatype: Datatype,
    ) -> Result<UserBuf> {
        // A displacement from MPI_IN_PLACE or null is an error. From MPI_BOTTOM, a displacement in
        // bytes is an absolute address.
        let absolute =
            matches!(self.types, BlockTypes::Each(_)) && offset.unsigned_abs() >= FIRST_PAGE;
        if self.is_in_place() || (self.address.is_null() && !absolute) {
            library.buffer(self.address, count, datatype)?;
        }
        library.block(self.address.wrapping_byte_offset(offset), count, datatype)
    }
}

pub(crate) fn lengths(list: &BlockList, names: &BlockNames) -> Result<Blocks> {
    together(list.lengths(), names.counts)
}

fn together(lengths: impl Iterator<Item = usize>, counts: &str) -> Result<Blocks> {
    Blocks::new(lengths).ok_or_else(|| {
        let text = format!("the {counts} are together more than the address space has room for");
        MpiError::new(abi::MPI_ERR_COUNT, text)
    })
}

/// Memory for an argument that is not significant at this rank.
fn no_blocks() -> Area {
    UserBuf::empty().into()
}

pub(crate) fn gatherv(
    function: FuncId,
    send: BufferArgs,
    receive: BlockArgs,
    root: c_int,
    comm: Comm,
    form: CallForm,
) -> c_int {
    if matches!(form, CallForm::Blocking)
        && let Some(done) = short::gatherv(send, &receive, root, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, form) {
            return across.gather(send, &RemoteBlocks::Uneven(receive), root);
        }
        let root = communicator.root(root)?;
        let at_root = root == communicator.team.rank;
        let in_place = at_root && send.is_in_place();
        let input = if in_place { UserBuf::empty() } else { send.buffer(library)? };
        let (output, all) = if at_root {
            let list = receive.list(library, communicator.size() as usize, |_| true)?;
            let all = RootOnly::at_root(lengths(&list, receive.names)?);
            (Area::Blocks(list), all)
        } else {
            (no_blocks(), RootOnly::elsewhere())
        };
        let call = Call::Gatherv { root, mine: Paired(input.packed_len()), all, in_place };
        movement_of(library, communicator, call, (input.into(), output), form)
    })
}

pub(crate) fn scatterv(
    function: FuncId,
    send: BlockArgs,
    receive: BufferArgs,
    root: c_int,
    comm: Comm,
    form: CallForm,
) -> c_int {
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, form) {
            return across.scatter(&RemoteBlocks::Uneven(send), receive, root);
        }
        let root = communicator.root(root)?;
        let at_root = root == communicator.team.rank;
        let in_place = at_root && receive.is_in_place();
        let output = if in_place { UserBuf::empty() } else { receive.buffer(library)? };
        let (input, all) = if at_root {
            let list = send.list(library, communicator.size() as usize, |_| true)?;
            let all = RootOnly::at_root(lengths(&list, send.names)?);
            (Area::Blocks(list), all)
        } else {
            (no_blocks(), RootOnly::elsewhere())
        };
        let call = Call::Scatterv { root, mine: Paired(output.packed_len()), all, in_place };
        movement_of(library, communicator, call, (input, output.into()), form)
    })
}

pub(crate) fn allgatherv(
    function: FuncId,
    send: BufferArgs,
    receive: BlockArgs,
    comm: Comm,
    form: CallForm,
) -> c_int {
    if matches!(form, CallForm::Blocking)
        && let Some(done) = short::allgatherv(send, &receive, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, form) {
            return across.allgather(send, &RemoteBlocks::Uneven(receive));
        }
        let in_place = send.is_in_place();
        let list = receive.list(library, communicator.size() as usize, |_| true)?;
        let blocks = lengths(&list, receive.names)?;
        let input = if in_place { UserBuf::empty() } else { send.buffer(library)? };
        if !in_place {
            check_blocks(input.packed_len(), blocks.length(communicator.team.rank as usize))?;
        }
        let call = Call::Allgatherv { blocks: Shared(blocks), in_place };
        movement_of(library, communicator, call, (input.into(), Area::Blocks(list)), form)
    })
}

pub(crate) fn alltoallv(
    function: FuncId,
    send: BlockArgs,
    receive: BlockArgs,
    comm: Comm,
    form: CallForm,
) -> c_int {
    if matches!(form, CallForm::Blocking)
        && let Some(done) = short::alltoallv(&send, &receive, comm)
    {
        return outcome(function, Some(On::Comm(comm)), done);
    }
    on_comm(function, comm, |library, communicator| {
        if let Some(across) = across(library, communicator, form) {
            return across.alltoall(&RemoteBlocks::Uneven(send), &RemoteBlocks::Uneven(receive));
        }
        let size = communicator.size() as usize;
        let in_place = send.is_in_place();
        let output = receive.list(library, size, |_| true)?;
        let receive = lengths(&output, receive.names)?;
        let (input, send) = if in_place {
            (no_blocks(), receive.clone())
        } else {
            let input = send.list(library, size, |_| true)?;
            let lengths = lengths(&input, send.names)?;
            (Area::Blocks(input), lengths)
        };
        let call = Call::Alltoallv { send: Paired(send), receive: Paired(receive), in_place };
        movement_of(library, communicator, call, (input, Area::Blocks(output)), form)
    })
}

/// `counts` are the elements of each rank's block; `r.count` is not used.
pub(crate) fn reduce_scatter(
    function: FuncId,
    r: ReductionArgs,
    counts: NumberArray,
    comm: Comm,
    form: CallForm,
) -> c_int {
    on_comm(function, comm, |library, communicator| {
        let counts = counts.read(communicator.size() as usize, "recvcounts")?;
        let element = |(index, count): (usize, &i64)| {
            check_count(*count).map_err(|error| error.within(format!("recvcounts[{index}]")))
        };
        let counts = counts.iter().enumerate().map(element).collect::<Result<Vec<_>>>()?;
        if let Some(across) = across(library, communicator, form) {
            return across.reduce_scatter(r, &counts);
        }
        let in_place = r.send().is_in_place();
        let how = combining(library, r.op, r.datatype)?;
        let blocks = together(counts.into_iter(), "recvcounts")?;
        let all = ReductionArgs { count: blocks.total() as i64, ..r };
        let mine =
            ReductionArgs { count: blocks.length(communicator.team.rank as usize) as i64, ..r };
        let input = if in_place { UserBuf::empty() } else { all.send().buffer(library)? };
        let output = if in_place { all.receive() } else { mine.receive() }.buffer(library)?;
        let element = Some(library.datatype(r.datatype)?.layout().clone());
        let memory = Memory { input: input.into(), output: output.into(), element };
        let call =
            Call::ReduceScatter { blocks: Shared(blocks), commutative: how.commutative, in_place };
        run_plan(library, communicator, call, memory, how, form)
    })
}
