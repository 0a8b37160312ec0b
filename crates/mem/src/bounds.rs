//! The size and the bounds of one element of a datatype (MPI-5.0 sections 5.1.6 to 5.1.8).
//!
//! A program can query nothing else of a datatype before it uses the type. So each constructor has
//! its arithmetic here, and the first use computes the [`Layout`](crate::layout::Layout), whose
//! constructors have the same names.

use crate::layout::LayoutError;

/// Size and bounds of an element. The *true* bounds enclose the data. Lower bound and extent
/// include the padding of C compilers and the values of `MPI_Type_create_resized`.
///
/// ```
/// use oxmpi_mem::bounds::Bounds;
/// let column = Bounds::basic(8, 8).hvector(1000, 1, 80)?;
/// assert_eq!((column.size(), column.extent()), (8000, 999 * 80 + 8));
/// # Ok::<(), oxmpi_mem::layout::LayoutError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    size: usize,
    lb: isize,
    ub: isize,
    true_lb: isize,
    true_ub: isize,
    align: usize,
    /// Set by `resized`: such bounds replace those of the data in every type made from this one.
    explicit: bool,
}

impl Bounds {
    /// `size` contiguous bytes, as of a basic type, with the alignment that C demands. Panics if
    /// `size` exceeds `isize::MAX` or `align` is 0.
    pub fn basic(size: usize, align: usize) -> Bounds {
        assert!(
            align > 0 && isize::try_from(size).is_ok(),
            "basic type of {size} bytes aligned to {align}"
        );
        let ub = size.cast_signed();
        Bounds { size, lb: 0, ub, true_lb: 0, true_ub: ub, align, explicit: false }
    }

    /// `count` elements, each an extent after its predecessor (`MPI_Type_contiguous`). Fails if the
    /// size or a bound does not fit. This holds for all constructors.
    #[inline]
    pub fn contiguous(&self, count: usize) -> Result<Bounds, LayoutError> {
        self.placed(count, self.extent(), 0)
    }

    /// `count` blocks of `block` elements, `stride` *bytes* apart (`MPI_Type_create_hvector`).
    #[inline]
    pub fn hvector(
        &self,
        count: usize,
        block: usize,
        stride: isize,
    ) -> Result<Bounds, LayoutError> {
        if count == 0 || block == 0 || self.is_nothing() {
            return Ok(Bounds::NOTHING);
        }
        let elements = product(count, block, "size")?;
        let size = product(elements, self.size, "size")?;
        self.spread(size, shifts_of(self.shifts(block, self.extent(), 0)?, count, stride, 0)?)
    }

    /// `count` elements, `stride` bytes from one to the next, the first shifted by `offset` bytes.
    #[inline]
    pub fn placed(
        &self,
        count: usize,
        stride: isize,
        offset: isize,
    ) -> Result<Bounds, LayoutError> {
        if count == 0 || self.is_nothing() {
            return Ok(Bounds::NOTHING);
        }
        let size = product(count, self.size, "size")?;
        self.spread(size, self.shifts(count, stride, offset)?)
    }

    /// Blocks of (elements, displacement in *bytes*) (`MPI_Type_create_hindexed`).
    pub fn hindexed(
        &self,
        blocks: impl IntoIterator<Item = (usize, isize)>,
    ) -> Result<Bounds, LayoutError> {
        self.blocks(blocks, self.extent(), Ok)
    }

    /// Blocks of (elements, displacement in *elements*) (`MPI_Type_indexed`).
    pub fn indexed(
        &self,
        blocks: impl IntoIterator<Item = (usize, isize)>,
    ) -> Result<Bounds, LayoutError> {
        let extent = self.extent();
        self.blocks(blocks, 1, |(lowest, highest)| {
            let ends = lowest.checked_mul(extent).zip(highest.checked_mul(extent));
            ends.map(|(a, b)| (a.min(b), a.max(b))).ok_or(LayoutError::Overflow { what: "extent" })
        })
    }

    /// Blocks of (elements, displacement), whose elements are `stride` apart; `in_bytes` converts
    /// the least and the greatest shift to bytes. One pass with few instructions for each block,
    /// since a program may make long lists in an inner loop.
    #[inline(always)]
    fn blocks(
        &self,
        blocks: impl IntoIterator<Item = (usize, isize)>,
        stride: isize,
        in_bytes: impl FnOnce((isize, isize)) -> Result<(isize, isize), LayoutError>,
    ) -> Result<Bounds, LayoutError> {
        if self.is_nothing() {
            return Ok(Bounds::NOTHING);
        }
        let (mut elements, mut lowest, mut highest) = (0usize, isize::MAX, isize::MIN);
        let mut fits = true;
        for (count, displacement) in blocks {
            if count == 0 {
                continue;
            }
            // The sum of all counts checks that this count is below isize::MAX.
            let (far, a) = (count - 1).cast_signed().overflowing_mul(stride);
            let (last, b) = displacement.overflowing_add(far);
            let (sum, c) = elements.overflowing_add(count);
            fits &= !(a | b | c);
            elements = sum;
            lowest = lowest.min(displacement).min(last);
            highest = highest.max(displacement).max(last);
        }
        if !fits {
            return Err(LayoutError::Overflow { what: "extent" });
        }
        if elements == 0 {
            return Ok(Bounds::NOTHING);
        }
        let size = product(elements, self.size.max(1), "size")
            .and(product(elements, self.size, "size"))?;
        self.spread(size, in_bytes((lowest, highest))?)
    }

    /// Members of (elements, displacement in *bytes*, bounds) (`MPI_Type_create_struct`).
    pub fn structure<'a>(
        members: impl IntoIterator<Item = (usize, isize, &'a Bounds)>,
    ) -> Result<Bounds, LayoutError> {
        let mut all = Members::default();
        for (count, displacement, member) in members {
            if count > 0 && !member.is_nothing() {
                let shifts = member.shifts(count, member.extent(), displacement)?;
                all.add(member, product(count, member.size, "size")?, shifts)?;
            }
        }
        all.bounds()
    }

    /// The same data with new bounds, which replace earlier explicit ones
    /// (`MPI_Type_create_resized`).
    #[inline]
    pub fn resized(&self, lb: isize, extent: isize) -> Result<Bounds, LayoutError> {
        let ub = lb.checked_add(extent).ok_or(LayoutError::Overflow { what: "upper bound" })?;
        Ok(Bounds { lb, ub, explicit: true, ..*self })
    }

    /// The data bytes of one element (`MPI_Type_size`).
    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }

    /// The lower bound in bytes.
    #[inline]
    pub fn lb(&self) -> isize {
        self.lb
    }

    /// Bytes from one element to the next in an array. May be negative.
    #[inline]
    pub fn extent(&self) -> isize {
        self.ub - self.lb
    }

    /// The offset of the first data byte from the element's address.
    #[inline]
    pub fn true_lb(&self) -> isize {
        self.true_lb
    }

    /// Bytes from the first data byte to the end of the last one.
    #[inline]
    pub fn true_extent(&self) -> isize {
        self.true_ub - self.true_lb
    }

    /// The alignment in bytes that C gives the element: the largest of its members.
    #[inline]
    pub fn align(&self) -> usize {
        self.align
    }

    /// The packed bytes of `count` elements. Fails if they exceed `isize::MAX`.
    #[inline]
    pub fn packed_len(&self, count: usize) -> Result<usize, LayoutError> {
        product(count, self.size, "packed size")
    }

    /// The range of the data of `count` elements, as byte offsets from the address of the array;
    /// (0, 0) without data. Fails if an offset does not fit.
    pub fn span(&self, count: usize) -> Result<(isize, isize), LayoutError> {
        if count == 0 || self.size == 0 {
            return Ok((0, 0));
        }
        shifted((self.true_lb, self.true_ub), self.shifts(count, self.extent(), 0)?)
    }

    const NOTHING: Bounds =
        Bounds { size: 0, lb: 0, ub: 0, true_lb: 0, true_ub: 0, align: 1, explicit: false };

    #[inline(always)]
    fn shifts(
        &self,
        count: usize,
        stride: isize,
        offset: isize,
    ) -> Result<(isize, isize), LayoutError> {
        shifts_of((0, 0), count, stride, offset)
    }

    #[inline(always)]
    fn is_nothing(&self) -> bool {
        self.size == 0 && !self.explicit
    }

    /// The bounds of several copies of this element, which have `size` data bytes together;
    /// `shifts` has the least and the greatest shift.
    #[inline(always)]
    fn spread(&self, size: usize, shifts: (isize, isize)) -> Result<Bounds, LayoutError> {
        let overflow = LayoutError::Overflow { what: "extent" };
        let (lb, ub) = shifted((self.lb, self.ub), shifts)?;
        ub.checked_sub(lb).ok_or(overflow)?;
        if size == 0 {
            return Ok(Bounds { lb, ub, explicit: true, ..Bounds::NOTHING });
        }
        let (true_lb, true_ub) = shifted((self.true_lb, self.true_ub), shifts)?;
        true_ub.checked_sub(true_lb).ok_or(overflow)?;
        Ok(Bounds { size, lb, ub, true_lb, true_ub, align: self.align, explicit: self.explicit })
    }
}

/// The least and the greatest shift of `count` copies, `stride` apart, the first at `offset`; the
/// copied item has shifts in `range` itself.
#[inline(always)]
fn shifts_of(
    range: (isize, isize),
    count: usize,
    stride: isize,
    offset: isize,
) -> Result<(isize, isize), LayoutError> {
    let overflow = LayoutError::Overflow { what: "extent" };
    let steps = isize::try_from(count.saturating_sub(1)).map_err(|_| overflow)?;
    let last =
        steps.checked_mul(stride).and_then(|last| last.checked_add(offset)).ok_or(overflow)?;
    let ends = range.0.checked_add(last.min(offset)).zip(range.1.checked_add(last.max(offset)));
    ends.ok_or(overflow)
}

#[inline(always)]
fn shifted(
    (low, high): (isize, isize),
    shifts: (isize, isize),
) -> Result<(isize, isize), LayoutError> {
    let ends = low.checked_add(shifts.0).zip(high.checked_add(shifts.1));
    ends.ok_or(LayoutError::Overflow { what: "extent" })
}

#[inline(always)]
fn product(a: usize, b: usize, what: &'static str) -> Result<usize, LayoutError> {
    a.checked_mul(b).filter(|&p| isize::try_from(p).is_ok()).ok_or(LayoutError::Overflow { what })
}

#[inline(always)]
fn widen(bounds: &mut Option<(isize, isize)>, by: (isize, isize)) {
    *bounds = Some(bounds.map_or(by, |b| (b.0.min(by.0), b.1.max(by.1))));
}

#[derive(Clone, Copy, Default)]
struct Members {
    size: usize,
    data: Option<(isize, isize)>,
    bounds: Option<(isize, isize)>,
    /// The bounds of all members with explicit bounds.
    marks: Option<(isize, isize)>,
    align: usize,
}

impl Members {
    #[inline(always)]
    fn add(
        &mut self,
        member: &Bounds,
        size: usize,
        shifts: (isize, isize),
    ) -> Result<(), LayoutError> {
        let total = self.size.checked_add(size).filter(|&total| isize::try_from(total).is_ok());
        self.size = total.ok_or(LayoutError::Overflow { what: "size" })?;
        if member.size > 0 {
            widen(&mut self.data, shifted((member.true_lb, member.true_ub), shifts)?);
            widen(&mut self.bounds, shifted((member.lb, member.ub), shifts)?);
            self.align = self.align.max(member.align);
        }
        if member.explicit {
            widen(&mut self.marks, shifted((member.lb, member.ub), shifts)?);
        }
        Ok(())
    }

    /// Explicit bounds replace those of the data (MPI-5.0 section 5.1.6). Without them, the extent
    /// is rounded up to a multiple of the alignment, as a C compiler pads a struct. The standard
    /// rounds in every constructor, from the bounds of the data alone, with the same result for
    /// structs and their arrays. Vectors with strides that no compiler makes stay within their
    /// extent here, and keep an extent that was set, as programs expect.
    fn bounds(self) -> Result<Bounds, LayoutError> {
        let overflow = LayoutError::Overflow { what: "extent" };
        let align = self.align.max(1);
        let (true_lb, true_ub) = self.data.unwrap_or((0, 0));
        true_ub.checked_sub(true_lb).ok_or(overflow)?;
        let (lb, ub) = match self.marks {
            Some(marks) => marks,
            None => {
                let (lb, ub) = self.bounds.unwrap_or((0, 0));
                let extent =
                    ub.checked_sub(lb).ok_or(overflow)?.cast_unsigned().next_multiple_of(align);
                let ub = isize::try_from(extent).ok().and_then(|extent| lb.checked_add(extent));
                (lb, ub.ok_or(overflow)?)
            }
        };
        ub.checked_sub(lb).ok_or(overflow)?;
        let explicit = self.marks.is_some();
        Ok(Bounds { size: self.size, lb, ub, true_lb, true_ub, align, explicit })
    }
}
