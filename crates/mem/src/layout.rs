//! The layout of one element of a datatype in memory.
//!
//! MPI-5.0 section 5.1 describes a datatype by its *type map*: a list of (basic type,
//! displacement). A [`Layout`] has the facts that a copy needs: the number of bytes, their
//! addresses, and the distance of elements. A constructor makes the program that copies the data,
//! and computes the [`Bounds`]. A datatype that no call has used yet has only its bounds.
//!
//! ```
//! use oxmpi_mem::layout::Layout;
//! let double = Layout::basic(8, 8);
//! let column = Layout::hvector(1000, 1, 80, &double)?;
//! assert_eq!((column.size(), column.extent()), (8000, 999 * 80 + 8));
//! assert_eq!(column.runs().map(|runs| runs.len()), Some(1));
//! # Ok::<(), oxmpi_mem::layout::LayoutError>(())
//! ```

use crate::bounds::Bounds;
use crate::program::{CopyProgram, Item, ProgramBuilder};
use std::sync::Arc;

pub use crate::program::BlockRun;

/// The deepest nesting of types: copying and dropping recurse on the stack.
pub const MAX_DEPTH: u32 = 512;

/// The reason why a layout cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    #[error("the {what} of the datatype does not fit into {} bits", isize::BITS)]
    Overflow { what: &'static str },
    #[error("datatypes nested more than {MAX_DEPTH} deep are not supported")]
    TooDeep,
}

/// The positions of the bytes of one element of a datatype. Immutable; share it in an [`Arc`].
#[derive(Debug)]
pub struct Layout {
    bounds: Bounds,
    program: Arc<CopyProgram>,
}

impl Layout {
    /// As [`Bounds::basic`]. Panics if `size` exceeds `isize::MAX` or `align` is 0.
    pub fn basic(size: usize, align: usize) -> Layout {
        Layout {
            bounds: Bounds::basic(size, align),
            program: Arc::new(CopyProgram::of_bytes(size)),
        }
    }

    /// Checks the nesting of the program, which is no part of the bounds.
    fn new(bounds: Bounds, program: Arc<CopyProgram>) -> Result<Layout, LayoutError> {
        if program.depth() > MAX_DEPTH {
            return Err(LayoutError::TooDeep);
        }
        Ok(Layout { bounds, program })
    }

    /// `count` elements, each an extent after its predecessor (`MPI_Type_contiguous`). All
    /// constructors fail if the size or a bound does not fit, or if the type nests too deep.
    pub fn contiguous(count: usize, child: &Layout) -> Result<Layout, LayoutError> {
        Layout::placed(count, child.extent(), 0, child)
    }

    /// As [`Bounds::hvector`] (`MPI_Type_create_hvector`).
    pub fn hvector(
        count: usize,
        block: usize,
        stride: isize,
        child: &Layout,
    ) -> Result<Layout, LayoutError> {
        let bounds = child.bounds.hvector(count, block, stride)?;
        let row = CopyProgram::repeated(&child.program, block, child.extent(), 0);
        Layout::new(bounds, CopyProgram::repeated(&row, count, stride, 0))
    }

    /// As [`Bounds::placed`].
    pub fn placed(
        count: usize,
        stride: isize,
        offset: isize,
        child: &Layout,
    ) -> Result<Layout, LayoutError> {
        let bounds = child.bounds.placed(count, stride, offset)?;
        Layout::new(bounds, CopyProgram::repeated(&child.program, count, stride, offset))
    }

    /// As [`Bounds::hindexed`] (`MPI_Type_create_hindexed`).
    pub fn hindexed(
        blocks: impl IntoIterator<IntoIter: Iterator<Item = (usize, isize)> + Clone>,
        child: &Layout,
    ) -> Result<Layout, LayoutError> {
        let blocks = blocks.into_iter();
        let bounds = child.bounds.hindexed(blocks.clone())?;
        let mut program = ProgramBuilder::with_room(blocks.size_hint().0);
        for (count, displacement) in blocks {
            program.repeat(&child.program, count, child.extent(), displacement);
        }
        Layout::new(bounds, Arc::new(program.finish()))
    }

    /// Members of (elements, displacement in *bytes*, type) (`MPI_Type_create_struct`).
    pub fn structure<'a>(
        members: impl IntoIterator<IntoIter: Iterator<Item = (usize, isize, &'a Layout)> + Clone>,
    ) -> Result<Layout, LayoutError> {
        let members = members.into_iter();
        let bounds = Bounds::structure(
            members.clone().map(|(n, offset, child)| (n, offset, &child.bounds)),
        )?;
        let mut program = ProgramBuilder::with_room(members.size_hint().0);
        for (count, displacement, child) in members {
            program.repeat(&child.program, count, child.extent(), displacement);
        }
        Layout::new(bounds, Arc::new(program.finish()))
    }

    /// The same data with new bounds (`MPI_Type_create_resized`).
    pub fn resized(lb: isize, extent: isize, child: &Layout) -> Result<Layout, LayoutError> {
        Ok(Layout { bounds: child.bounds.resized(lb, extent)?, ..child.dup() })
    }

    /// An equal layout that shares the copy program (`MPI_Type_dup`).
    pub fn dup(&self) -> Layout {
        Layout { bounds: self.bounds, program: Arc::clone(&self.program) }
    }

    /// Size and bounds.
    #[inline]
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// See [`Bounds::size`].
    #[inline]
    pub fn size(&self) -> usize {
        self.bounds.size()
    }

    /// See [`Bounds::lb`].
    #[inline]
    pub fn lb(&self) -> isize {
        self.bounds.lb()
    }

    /// See [`Bounds::extent`].
    #[inline]
    pub fn extent(&self) -> isize {
        self.bounds.extent()
    }

    /// See [`Bounds::true_lb`].
    #[inline]
    pub fn true_lb(&self) -> isize {
        self.bounds.true_lb()
    }

    /// See [`Bounds::true_extent`].
    #[inline]
    pub fn true_extent(&self) -> isize {
        self.bounds.true_extent()
    }

    /// See [`Bounds::align`].
    #[inline]
    pub fn align(&self) -> usize {
        self.bounds.align()
    }

    /// Whether `n` elements are `n * size` contiguous bytes at their address, for any `n`.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.bounds.lb() == 0
            && self.bounds.extent() == self.bounds.size().cast_signed()
            && (self.bounds.size() == 0 || self.single_block() == Some(0))
    }

    /// The offset of the data of one element, if they are one block.
    #[inline]
    pub fn single_block(&self) -> Option<isize> {
        self.program.single_block()
    }

    /// The runs in packed order; `None` if groups of several runs are repeated.
    pub fn runs(&self) -> Option<Vec<BlockRun>> {
        self.program.runs()
    }

    /// Whether the data are exactly these (offset, length) blocks, in no regular pattern.
    pub(crate) fn has_blocks(&self, blocks: &[(isize, usize)]) -> bool {
        let is = |item: &Item, &(offset, block): &(isize, usize)| matches!(item, Item::Run(r) if r.count == 1 && (r.offset, r.block) == (offset, block));
        let items = self.program.items();
        items.len() == blocks.len() && items.iter().zip(blocks).all(|(item, block)| is(item, block))
    }

    /// See [`Bounds::packed_len`].
    #[inline]
    pub fn packed_len(&self, count: usize) -> Result<usize, LayoutError> {
        self.bounds.packed_len(count)
    }

    /// See [`Bounds::span`].
    pub fn span(&self, count: usize) -> Result<(isize, isize), LayoutError> {
        self.bounds.span(count)
    }

    /// The nesting of repeated groups in the copy program; at most [`MAX_DEPTH`].
    pub fn depth(&self) -> u32 {
        self.program.depth()
    }

    #[inline]
    pub(crate) fn program(&self) -> &Arc<CopyProgram> {
        &self.program
    }
}
