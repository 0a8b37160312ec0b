//! What one element of a datatype looks like in memory.
//!
//! MPI-5.0 section 5.1 describes a datatype by its *type map*: a list of (basic type, displacement). A [`Layout`] is
//! what copying needs of it: how many bytes there are, where they lie, and how far the next element is. A constructor
//! compiles the program that copies the data, and computes the [`Bounds`]. Whoever wants these alone, as a datatype does that
//! nobody has used yet, computes them alone.
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
use crate::program::{Item, Program, ProgramBuilder};
use std::sync::Arc;

pub use crate::program::Run;

/// How deep types may nest before a constructor refuses: copying and dropping follow the nesting on the stack.
pub const MAX_DEPTH: u32 = 512;

/// Why a layout cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A size or displacement does not fit into the address space.
    #[error("the {what} of the datatype does not fit into {} bits", isize::BITS)]
    Overflow {
        /// Which figure.
        what: &'static str,
    },
    /// The type nests deeper than [`MAX_DEPTH`].
    #[error("datatypes nested more than {MAX_DEPTH} deep are not supported")]
    TooDeep,
}

/// Where the bytes of one element of a datatype lie. Immutable; share it in an [`Arc`].
#[derive(Debug)]
pub struct Layout {
    bounds: Bounds,
    program: Arc<Program>,
}

impl Layout {
    /// `size` bytes in a row, as a basic type is. `align` is the alignment in bytes that C demands.
    ///
    /// # Panics
    /// If `size` exceeds `isize::MAX` or `align` is 0.
    pub fn basic(size: usize, align: usize) -> Layout {
        Layout { bounds: Bounds::basic(size, align), program: Arc::new(Program::of_bytes(size)) }
    }

    /// Checks what no bound tells: how deep the program nests.
    fn new(bounds: Bounds, program: Arc<Program>) -> Result<Layout, LayoutError> {
        if program.depth() > MAX_DEPTH {
            return Err(LayoutError::TooDeep);
        }
        Ok(Layout { bounds, program })
    }

    /// `count` elements in a row, each an extent after the one before (`MPI_Type_contiguous`).
    ///
    /// # Errors
    /// If the size or a bound does not fit, or the type nests too deep.
    pub fn contiguous(count: usize, child: &Layout) -> Result<Layout, LayoutError> {
        Layout::placed(count, child.extent(), 0, child)
    }

    /// `count` blocks of `block` elements, `stride` *bytes* from block to block (`MPI_Type_create_hvector`).
    ///
    /// # Errors
    /// As for [`contiguous`](Self::contiguous).
    pub fn hvector(count: usize, block: usize, stride: isize, child: &Layout) -> Result<Layout, LayoutError> {
        let bounds = child.bounds.hvector(count, block, stride)?;
        let row = Program::repeated(&child.program, block, child.extent(), 0);
        Layout::new(bounds, Program::repeated(&row, count, stride, 0))
    }

    /// `count` elements, `stride` *bytes* from one to the next, the first shifted by `offset` bytes.
    ///
    /// # Errors
    /// As for [`contiguous`](Self::contiguous).
    pub fn placed(count: usize, stride: isize, offset: isize, child: &Layout) -> Result<Layout, LayoutError> {
        let bounds = child.bounds.placed(count, stride, offset)?;
        Layout::new(bounds, Program::repeated(&child.program, count, stride, offset))
    }

    /// Blocks of (elements, displacement in *bytes*) (`MPI_Type_create_hindexed`).
    ///
    /// # Errors
    /// As for [`contiguous`](Self::contiguous).
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
    ///
    /// # Errors
    /// As for [`contiguous`](Self::contiguous).
    pub fn structure<'a>(
        members: impl IntoIterator<IntoIter: Iterator<Item = (usize, isize, &'a Layout)> + Clone>,
    ) -> Result<Layout, LayoutError> {
        let members = members.into_iter();
        let bounds = Bounds::structure(members.clone().map(|(n, offset, child)| (n, offset, &child.bounds)))?;
        let mut program = ProgramBuilder::with_room(members.size_hint().0);
        for (count, displacement, child) in members {
            program.repeat(&child.program, count, child.extent(), displacement);
        }
        Layout::new(bounds, Arc::new(program.finish()))
    }

    /// The same data with other bounds; earlier explicit bounds are forgotten (`MPI_Type_create_resized`).
    ///
    /// # Errors
    /// If `lb + extent` does not fit.
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

    /// The data bytes of one element (`MPI_Type_size`).
    #[inline]
    pub fn size(&self) -> usize {
        self.bounds.size()
    }

    /// The lower bound in bytes.
    #[inline]
    pub fn lb(&self) -> isize {
        self.bounds.lb()
    }

    /// Bytes from one element to the next in an array. May be negative.
    #[inline]
    pub fn extent(&self) -> isize {
        self.bounds.extent()
    }

    /// Where the first data byte lies, from the element's address.
    #[inline]
    pub fn true_lb(&self) -> isize {
        self.bounds.true_lb()
    }

    /// Bytes from the first data byte to after the last.
    #[inline]
    pub fn true_extent(&self) -> isize {
        self.bounds.true_extent()
    }

    /// The alignment in bytes that C would give the element: the largest of its members.
    #[inline]
    pub fn align(&self) -> usize {
        self.bounds.align()
    }

    /// Whether `n` elements at an address are just `n * size` bytes there, for any `n`.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.bounds.lb() == 0
            && self.bounds.extent() == self.bounds.size().cast_signed()
            && (self.bounds.size() == 0 || self.single_block() == Some(0))
    }

    /// Where the only block of one element begins, if all its data are in one.
    #[inline]
    pub fn single_block(&self) -> Option<isize> {
        self.program.single_block()
    }

    /// The runs of the copy program in packed order; `None` if it has repeated groups of several runs.
    pub fn runs(&self) -> Option<Vec<Run>> {
        self.program.runs()
    }

    /// Whether the data are just these (offset, length) blocks, in this order and at no regular pattern. They are few.
    pub(crate) fn has_blocks(&self, blocks: &[(isize, usize)]) -> bool {
        let is = |item: &Item, &(offset, block): &(isize, usize)| matches!(item, Item::Run(r) if r.count == 1 && (r.offset, r.block) == (offset, block));
        let items = self.program.items();
        items.len() == blocks.len() && items.iter().zip(blocks).all(|(item, block)| is(item, block))
    }

    /// The packed bytes of `count` elements.
    ///
    /// # Errors
    /// If they exceed `isize::MAX`.
    #[inline]
    pub fn packed_len(&self, count: usize) -> Result<usize, LayoutError> {
        self.bounds.packed_len(count)
    }

    /// The data of an array of `count` elements lie from the first to before the second figure (bytes from its
    /// address; both 0 if there are no data).
    ///
    /// # Errors
    /// If one of them does not fit.
    pub fn span(&self, count: usize) -> Result<(isize, isize), LayoutError> {
        self.bounds.span(count)
    }

    /// How deep repeated groups nest in the copy program; at most [`MAX_DEPTH`].
    pub fn depth(&self) -> u32 {
        self.program.depth()
    }

    #[inline]
    pub(crate) fn program(&self) -> &Arc<Program> {
        &self.program
    }
}
