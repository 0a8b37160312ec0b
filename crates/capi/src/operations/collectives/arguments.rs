//! Arguments of collectives: blocks of different lengths, and the buffers of reductions.

use crate::arguments::{BufferArgs, BufferNames, array};
use crate::state::library::{FIRST_PAGE, Running};
use crate::state::named::OfArgument;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Aint, Count, Datatype, Op};
use oxmpi_coll::BlockList;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::Blocks;
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

    pub(super) fn read(self, how_many: usize, what: &str) -> Result<Vec<i64>> {
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

pub(super) fn together(lengths: impl Iterator<Item = usize>, counts: &str) -> Result<Blocks> {
    Blocks::new(lengths).ok_or_else(|| {
        let text = format!("the {counts} are together more than the address space has room for");
        MpiError::new(abi::MPI_ERR_COUNT, text)
    })
}

#[derive(Clone, Copy)]
pub(crate) struct ReductionArgs {
    pub(crate) send: *const c_void,
    pub(crate) receive: *mut c_void,
    pub(crate) count: i64,
    pub(crate) datatype: Datatype,
    pub(crate) op: Op,
    /// For the buffer to send, and for the one to receive.
    pub(crate) names: &'static [BufferNames; 2],
}

impl ReductionArgs {
    pub(crate) fn send(&self) -> BufferArgs {
        BufferArgs {
            address: self.send,
            count: self.count,
            datatype: self.datatype,
            names: &self.names[0],
        }
    }

    pub(crate) fn receive(&self) -> BufferArgs {
        BufferArgs {
            address: self.receive,
            count: self.count,
            datatype: self.datatype,
            names: &self.names[1],
        }
    }
}

/// Fails unless a sent block has the length of its receive block.
pub(crate) fn check_blocks(sent: usize, received: usize) -> Result<()> {
    if sent == received {
        return Ok(());
    }
    let class = if sent > received { abi::MPI_ERR_TRUNCATE } else { abi::MPI_ERR_COUNT };
    Err(MpiError::new(
        class,
        format!(
            "the send arguments name {sent} bytes, the receive arguments {received} bytes for each block"
        ),
    ))
}
