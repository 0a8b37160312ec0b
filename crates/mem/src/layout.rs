//! What one element of a datatype looks like in memory.
//!
//! MPI-5.0 section 5.1 describes a datatype by its *type map*: a list of (basic type, displacement). A [`Layout`] is
//! what copying needs of it: how many bytes there are, where they lie, and how far the next element is. A constructor
//! computes size and bounds; the program that copies the data is compiled when it is first wanted. A layout has
//! two pairs of bounds: the *true* ones enclose the data; lower bound and extent also count the padding that C
//! compilers add and what `MPI_Type_create_resized` asked for.
//!
//! ```
//! use oxmpi_mem::layout::Layout;
//! let double = Layout::basic(8, 8);
//! let column = Layout::hvector(1000, 1, 80, &double)?;
//! assert_eq!((column.size(), column.extent()), (8000, 999 * 80 + 8));
//! assert_eq!(column.runs().map(|runs| runs.len()), Some(1));
//! # Ok::<(), oxmpi_mem::layout::LayoutError>(())
//! ```

use crate::deferred::{Pattern, Placed};
use crate::program::{Item, Program};
use std::sync::{Arc, OnceLock};

pub use crate::program::Run;

/// How deep types may nest before a constructor refuses: copying and dropping follow the nesting on the stack.
pub const MAX_DEPTH: u32 = 512;

/// How deep types may nest before a constructor does at once what else the first use does: that follows the nesting too,
/// and only it finds out whether [`MAX_DEPTH`] is exceeded.
pub const LAZY_DEPTH: u32 = 64;

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
    pattern: Pattern,
    /// The program of `pattern`, since the first use.
    program: OnceLock<Arc<Program>>,
}

impl Layout {
    /// `size` bytes in a row, as a basic type is. `align` is the alignment in bytes that C demands.
    ///
    /// # Panics
    /// If `size` exceeds `isize::MAX` or `align` is 0.
    pub fn basic(size: usize, align: usize) -> Layout {
        assert!(align > 0 && isize::try_from(size).is_ok(), "basic type of {size} bytes aligned to {align}");
        let ub = size.cast_signed();
        let run = Run { offset: 0, block: size, count: 1, stride: 0 };
        let pattern = if size == 0 { Pattern::Empty } else { Pattern::Run(run) };
        Layout::new(Bounds { size, lb: 0, ub, true_lb: 0, true_ub: ub, explicit: false, align }, pattern)
    }

    #[inline]
    fn new(bounds: Bounds, pattern: Pattern) -> Layout {
        Layout { bounds, pattern, program: OnceLock::new() }
    }

    /// `count` elements in a row, each an extent after the one before (`MPI_Type_contiguous`).
    ///
    /// # Errors
    /// If the size or a bound does not fit, or the type nests too deep.
    #[inline]
    pub fn contiguous(count: usize, child: &Layout) -> Result<Layout, LayoutError> {
        let bounds = child.bounds.repeated(count, child.extent())?;
        Ok(Layout::new(bounds, child.pattern.repeated(count, child.extent(), 0)?))
    }

    /// `count` blocks of `block` elements, `stride` *bytes* from block to block (`MPI_Type_create_hvector`).
    ///
    /// # Errors
    /// As for [`contiguous`](Self::contiguous).
    #[inline]
    pub fn hvector(count: usize, block: usize, stride: isize, child: &Layout) -> Result<Layout, LayoutError> {
        let bounds = child.bounds.repeated(block, child.extent())?.repeated(count, stride)?;
        Ok(Layout::new(bounds, child.pattern.grid((count, stride), (block, child.extent()))?))
    }

    /// Blocks of (elements, displacement in *bytes*) (`MPI_Type_create_hindexed`).
    ///
    /// # Errors
    /// As for [`contiguous`](Self::contiguous).
    pub fn hindexed(
        blocks: impl IntoIterator<Item = (usize, isize)>,
        child: &Layout,
    ) -> Result<Layout, LayoutError> {
        let blocks = blocks.into_iter();
        let mut bounds = Gathered::default();
        let mut list = Vec::with_capacity(blocks.size_hint().0);
        for (count, displacement) in blocks {
            bounds.add(count, child.extent(), displacement, &child.bounds)?;
            list.push((count, displacement));
        }
        Ok(Layout::new(bounds.bounds(1)?, Pattern::blocks(list, child.extent(), &child.pattern)?))
    }

    /// Members of (elements, displacement in *bytes*, type) (`MPI_Type_create_struct`).
    ///
    /// # Errors
    /// As for [`contiguous`](Self::contiguous).
    pub fn structure<'a>(
        members: impl IntoIterator<Item = (usize, isize, &'a Layout)>,
    ) -> Result<Layout, LayoutError> {
        let members = members.into_iter();
        let mut bounds = Gathered::default();
        let mut list = Vec::with_capacity(members.size_hint().0);
        for (count, offset, child) in members {
            bounds.add(count, child.extent(), offset, &child.bounds)?;
            list.push(Placed { count, stride: child.extent(), offset, pattern: child.pattern.clone() });
        }
        Ok(Layout::new(bounds.bounds(bounds.align)?, Pattern::several(list)?))
    }

    /// The same data with other bounds; earlier explicit bounds are forgotten (`MPI_Type_create_resized`).
    ///
    /// # Errors
    /// If `lb + extent` does not fit.
    #[inline]
    pub fn resized(lb: isize, extent: isize, child: &Layout) -> Result<Layout, LayoutError> {
        let ub = lb.checked_add(extent).ok_or(LayoutError::Overflow { what: "upper bound" })?;
        let bounds = Bounds { lb, ub, explicit: true, ..child.bounds };
        Ok(Layout { bounds, ..child.dup() })
    }

    /// An equal layout that shares the copy program (`MPI_Type_dup`).
    #[inline]
    pub fn dup(&self) -> Layout {
        Layout { bounds: self.bounds, pattern: self.pattern.clone(), program: self.program.clone() }
    }

    /// The data bytes of one element (`MPI_Type_size`).
    #[inline]
    pub fn size(&self) -> usize {
        self.bounds.size
    }

    /// The lower bound in bytes.
    #[inline]
    pub fn lb(&self) -> isize {
        self.bounds.lb
    }

    /// Bytes from one element to the next in an array. May be negative.
    #[inline]
    pub fn extent(&self) -> isize {
        self.bounds.ub - self.bounds.lb
    }

    /// Where the first data byte lies, from the element's address.
    #[inline]
    pub fn true_lb(&self) -> isize {
        self.bounds.true_lb
    }

    /// Bytes from the first data byte to after the last.
    #[inline]
    pub fn true_extent(&self) -> isize {
        self.bounds.true_ub - self.bounds.true_lb
    }

    /// The alignment in bytes that C would give the element: the largest of its members.
    #[inline]
    pub fn align(&self) -> usize {
        self.bounds.align
    }

    /// Whether `n` elements at an address are just `n * size` bytes there, for any `n`.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.bounds.lb == 0
            && self.bounds.ub == self.bounds.size.cast_signed()
            && (self.bounds.size == 0 || self.single_block() == Some(0))
    }

    /// Where the only block of one element begins, if all its data are in one.
    #[inline]
    pub fn single_block(&self) -> Option<isize> {
        match &self.pattern {
            Pattern::Empty => None,
            Pattern::Run(run) => (run.count == 1).then_some(run.offset),
            Pattern::Deferred(_) => self.program().single_block(),
        }
    }

    /// Whether the copy program is there, or is so simple that there is nothing to compile.
    pub fn is_compiled(&self) -> bool {
        self.pattern.is_compiled()
    }

    /// The runs of the copy program in packed order; `None` if it has repeated groups of several runs.
    pub fn runs(&self) -> Option<Vec<Run>> {
        self.program()
            .items()
            .iter()
            .map(|item| match item {
                Item::Run(run) => Some(*run),
                Item::Repeat(_) => None,
            })
            .collect()
    }

    /// Whether the data are just these (offset, length) blocks, in this order and at no regular pattern.
    pub(crate) fn has_blocks(&self, blocks: &[(isize, usize)]) -> bool {
        let is = |item: &Item, &(offset, block): &(isize, usize)| matches!(item, Item::Run(r) if r.count == 1 && (r.offset, r.block) == (offset, block));
        let items = self.program().items();
        items.len() == blocks.len() && items.iter().zip(blocks).all(|(item, block)| is(item, block))
    }

    /// The packed bytes of `count` elements.
    ///
    /// # Errors
    /// If they exceed `isize::MAX`.
    pub fn packed_len(&self, count: usize) -> Result<usize, LayoutError> {
        product(count, self.bounds.size, "packed size")
    }

    /// The data of an array of `count` elements lie from the first to before the second figure (bytes from its
    /// address; both 0 if there are no data).
    ///
    /// # Errors
    /// If one of them does not fit.
    pub fn span(&self, count: usize) -> Result<(isize, isize), LayoutError> {
        if count == 0 || self.bounds.size == 0 {
            return Ok((0, 0));
        }
        spread((self.bounds.true_lb, self.bounds.true_ub), count, self.extent(), 0)
    }

    #[inline]
    pub(crate) fn program(&self) -> &Program {
        self.shared_program()
    }

    #[inline]
    pub(crate) fn shared_program(&self) -> &Arc<Program> {
        match self.program.get() {
            Some(program) => program,
            None => self.first_use(),
        }
    }

    /// The copy program, if it has been used before: for where nothing else may cost anything.
    #[inline]
    pub(crate) fn used_program(&self) -> Option<&Program> {
        self.program.get().map(|program| &**program)
    }

    #[cold]
    #[inline(never)]
    fn first_use(&self) -> &Arc<Program> {
        self.program.get_or_init(|| self.pattern.program())
    }
}

/// The bounds of `count` copies of something with bounds `b`, `stride` apart, the first shifted by `offset`.
#[inline(always)]
fn spread(
    b: (isize, isize),
    count: usize,
    stride: isize,
    offset: isize,
) -> Result<(isize, isize), LayoutError> {
    let overflow = LayoutError::Overflow { what: "extent" };
    let steps = isize::try_from(count.saturating_sub(1)).map_err(|_| overflow)?;
    let last = steps.checked_mul(stride).ok_or(overflow)?;
    let shift =
        |at: isize, by: isize| at.checked_add(by).and_then(|at| at.checked_add(offset)).ok_or(overflow);
    Ok((shift(b.0, last.min(0))?, shift(b.1, last.max(0))?))
}

#[inline(always)]
fn product(a: usize, b: usize, what: &'static str) -> Result<usize, LayoutError> {
    a.checked_mul(b).filter(|&p| isize::try_from(p).is_ok()).ok_or(LayoutError::Overflow { what })
}

#[inline(always)]
fn widen(bounds: &mut Option<(isize, isize)>, by: (isize, isize)) {
    *bounds = Some(bounds.map_or(by, |b| (b.0.min(by.0), b.1.max(by.1))));
}

/// Size and bounds of an element.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    size: usize,
    lb: isize,
    ub: isize,
    true_lb: isize,
    true_ub: isize,
    /// Whether lb and ub were set by `resized`: then they win over the data wherever the type is used.
    explicit: bool,
    align: usize,
}

impl Bounds {
    /// Those of `count` elements, `stride` bytes apart.
    #[inline(always)]
    fn repeated(&self, count: usize, stride: isize) -> Result<Bounds, LayoutError> {
        let mut gathered = Gathered::default();
        gathered.add(count, stride, 0, self)?;
        gathered.bounds(1)
    }
}

/// Gathers the bounds of members.
#[derive(Clone, Copy, Default)]
struct Gathered {
    size: usize,
    /// From the first data byte to after the last.
    data: Option<(isize, isize)>,
    /// From the lowest bound of what has data to the highest.
    bounds: Option<(isize, isize)>,
    /// The same of what has bounds that a program has set.
    marks: Option<(isize, isize)>,
    align: usize,
}

impl Gathered {
    #[inline(always)]
    fn add(&mut self, count: usize, stride: isize, offset: isize, child: &Bounds) -> Result<(), LayoutError> {
        if count == 0 {
            return Ok(());
        }
        let size = product(count, child.size, "size")?;
        self.size = self
            .size
            .checked_add(size)
            .filter(|&s| isize::try_from(s).is_ok())
            .ok_or(LayoutError::Overflow { what: "size" })?;
        if child.size > 0 {
            let (data, bounds) = ((child.true_lb, child.true_ub), (child.lb, child.ub));
            let there = spread(data, count, stride, offset)?;
            widen(&mut self.data, there);
            let there = if bounds == data { there } else { spread(bounds, count, stride, offset)? };
            widen(&mut self.bounds, there);
            self.align = self.align.max(child.align);
        }
        if child.explicit {
            widen(&mut self.marks, spread((child.lb, child.ub), count, stride, offset)?);
        }
        Ok(())
    }

    /// The bounds follow MPI-5.0 section 5.1.6: explicit marks win over those of the members. Without any, the extent is
    /// rounded up to a multiple of `align`, as a C compiler pads a struct. (The standard's text asks for that of every
    /// constructor, and takes bounds from the data alone. For a struct and its arrays it is the same. For vectors whose
    /// strides no compiler would make, what is done here is what programs expect: they lie within their extent, and
    /// have the one that they were given.)
    #[inline(always)]
    fn bounds(self, align: usize) -> Result<Bounds, LayoutError> {
        let overflow = LayoutError::Overflow { what: "extent" };
        let (true_lb, true_ub) = self.data.unwrap_or((0, 0));
        true_ub.checked_sub(true_lb).ok_or(overflow)?;
        let (lb, ub) = match self.marks {
            Some(marks) => marks,
            None => {
                let (lb, ub) = self.bounds.unwrap_or((0, 0));
                let extent =
                    ub.checked_sub(lb).ok_or(overflow)?.cast_unsigned().next_multiple_of(align.max(1));
                let ub = isize::try_from(extent).ok().and_then(|extent| lb.checked_add(extent));
                (lb, ub.ok_or(overflow)?)
            }
        };
        ub.checked_sub(lb).ok_or(overflow)?;
        let explicit = self.marks.is_some();
        Ok(Bounds { size: self.size, lb, ub, true_lb, true_ub, explicit, align: self.align.max(1) })
    }
}
