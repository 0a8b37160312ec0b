//! Parts of arrays of several dimensions (MPI-5.0 sections 5.1.3 and 5.1.4): a box cut out, and what one process holds of
//! an array that is distributed as High Performance Fortran does it.
//!
//! Both are built from the dimension whose neighbours lie side by side to the one whose neighbours lie farthest apart. The
//! result is as large as the whole array, so that arrays of it are arrays of whole arrays.

use super::construct::basic_of;
use super::contents::{Argument, Constituents};
use super::{Combiner, Contents, Datatype, Form, layout_error};
use crate::error::{MpiError, Result};
use oxmpi_abi::constants as abi;
use oxmpi_mem::bounds::Bounds;
use oxmpi_mem::layout::{Layout, LayoutError};
use std::sync::Arc;

/// Which dimension's neighbours lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last one's (`MPI_ORDER_C`).
    C,
    /// The first one's (`MPI_ORDER_FORTRAN`).
    Fortran,
}

impl Order {
    /// The order with this value of the ABI.
    ///
    /// # Errors
    /// Class `MPI_ERR_ARG` if there is none.
    pub fn from_int(order: i32) -> Result<Order> {
        match order {
            abi::MPI_ORDER_C => Ok(Order::C),
            abi::MPI_ORDER_FORTRAN => Ok(Order::Fortran),
            _ => bad(format!("order is {order}, neither MPI_ORDER_C nor MPI_ORDER_FORTRAN")),
        }
    }

    /// The ABI's value.
    pub fn to_int(self) -> i32 {
        match self {
            Order::C => abi::MPI_ORDER_C,
            Order::Fortran => abi::MPI_ORDER_FORTRAN,
        }
    }

    /// The dimensions from the densest on.
    fn dimensions(self, count: usize) -> impl Iterator<Item = usize> + Clone {
        (0..count).map(move |i| if self == Order::C { count - 1 - i } else { i })
    }
}

/// How the array of a [`Datatype::darray`] is distributed, as the program says it; one entry for each dimension.
#[derive(Clone, Copy, Debug)]
pub struct Distribution<'a> {
    /// Processes in the grid.
    pub size: i32,
    /// Which of them.
    pub rank: i32,
    /// Elements of the whole array.
    pub gsizes: &'a [i64],
    /// How each dimension is distributed (`MPI_DISTRIBUTE_BLOCK`, ...).
    pub distribs: &'a [i32],
    /// The lengths of blocks, or `MPI_DISTRIBUTE_DFLT_DARG`.
    pub dargs: &'a [i32],
    /// Processes along each dimension.
    pub psizes: &'a [i32],
    /// Which dimension's neighbours lie side by side.
    pub order: Order,
}

fn bad<T>(text: String) -> Result<T> {
    Err(MpiError::new(abi::MPI_ERR_ARG, text))
}

/// What the blocks along a dimension are: where the first begins, their length and distance, how many there are, and
/// the length of a shorter one after these. All in elements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blocks {
    first: i64,
    length: i64,
    distance: i64,
    count: i64,
    rest: i64,
}

/// What a part of an array is worked out for: a layout, or bounds alone.
pub(super) trait Element: Sized {
    /// Bytes from one to the next.
    fn extent(&self) -> isize;

    /// `count` of them, `stride` bytes from one to the next, the first at `offset`.
    fn placed(&self, count: usize, stride: isize, offset: isize) -> Result<Self, LayoutError>;

    /// This and another one.
    fn and(&self, next: &Self) -> Result<Self, LayoutError>;

    /// The same with other bounds.
    fn resized(&self, lb: isize, extent: isize) -> Result<Self, LayoutError>;
}

impl Element for Bounds {
    fn extent(&self) -> isize {
        self.extent()
    }

    fn placed(&self, count: usize, stride: isize, offset: isize) -> Result<Self, LayoutError> {
        self.placed(count, stride, offset)
    }

    fn and(&self, next: &Self) -> Result<Self, LayoutError> {
        Bounds::structure([(1, 0, self), (1, 0, next)])
    }

    fn resized(&self, lb: isize, extent: isize) -> Result<Self, LayoutError> {
        self.resized(lb, extent)
    }
}

impl Element for Layout {
    fn extent(&self) -> isize {
        self.extent()
    }

    fn placed(&self, count: usize, stride: isize, offset: isize) -> Result<Self, LayoutError> {
        Layout::placed(count, stride, offset, self)
    }

    fn and(&self, next: &Self) -> Result<Self, LayoutError> {
        Layout::structure([(1, 0, self), (1, 0, next)])
    }

    fn resized(&self, lb: isize, extent: isize) -> Result<Self, LayoutError> {
        Layout::resized(lb, extent, self)
    }
}

impl Blocks {
    /// These blocks of `child`, whose elements are `extent` bytes apart.
    fn of<E: Element>(self, extent: isize, child: &E) -> Result<E, LayoutError> {
        let overflow = LayoutError::Overflow { what: "extent" };
        let bytes = |elements: i64| extent.checked_mul(elements as isize).ok_or(overflow);
        let first = bytes(self.first)?;
        if self.count == 0 {
            return child.placed(self.rest as usize, extent, first);
        }
        let distance = bytes(self.distance)?;
        let block = child.placed(self.length as usize, extent, 0)?;
        let blocks = block.placed(self.count as usize, distance, first)?;
        if self.rest == 0 {
            return Ok(blocks);
        }
        let behind = distance.checked_mul(self.count as isize).and_then(|all| first.checked_add(all));
        blocks.and(&child.placed(self.rest as usize, extent, behind.ok_or(overflow)?)?)
    }
}

/// The blocks along dimensions, each given with the whole length, from the densest on; as large as the array.
pub(super) fn in_array<E: Element>(
    dimensions: impl Iterator<Item = (i64, Blocks)>,
    old: &E,
) -> Result<E, LayoutError> {
    let mut extent = old.extent();
    let mut made: Option<E> = None;
    for (length, blocks) in dimensions {
        made = Some(blocks.of(extent, made.as_ref().unwrap_or(old))?);
        extent = extent.checked_mul(length as isize).ok_or(LayoutError::Overflow { what: "extent" })?;
    }
    made.as_ref().unwrap_or(old).resized(0, extent)
}

/// The dimensions of a box in an array.
pub(super) fn part(
    sizes: &[i64],
    subsizes: &[i64],
    starts: &[i64],
    order: Order,
) -> impl Iterator<Item = (i64, Blocks)> {
    let blocks = |i: usize| Blocks { first: starts[i], rest: subsizes[i], ..Blocks::default() };
    order.dimensions(sizes.len()).map(move |i| (sizes[i], blocks(i)))
}

/// How many levels of a copy program so many dimensions add at most.
fn levels(ndims: usize) -> u32 {
    u32::try_from(ndims).unwrap_or(u32::MAX).saturating_mul(LEVELS)
}

/// Those of a dimension: a block, the blocks, and these with a shorter one.
const LEVELS: u32 = 3;

impl Datatype {
    /// A box of `subsizes` that begins at `starts` in an array of `sizes` (`MPI_Type_create_subarray`).
    ///
    /// # Errors
    /// Class `MPI_ERR_ARG` if there are no dimensions or the box does not lie within the array; `MPI_ERR_VALUE_TOO_LARGE`
    /// if the array does not fit into the address space.
    pub fn subarray(
        form: Form,
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: Order,
        old: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        let ndims = sizes.len();
        if ndims == 0 || subsizes.len() != ndims || starts.len() != ndims {
            return bad(format!("ndims is {ndims}; there must be one size, subsize and start for each"));
        }
        for (i, &size) in sizes.iter().enumerate() {
            let (subsize, start) = (subsizes[i], starts[i]);
            if size < 1 {
                return bad(format!("array_of_sizes[{i}] is {size}; it must be positive"));
            }
            if !(1..=size).contains(&subsize) {
                return bad(format!("array_of_subsizes[{i}] is {subsize}; it must be from 1 to {size}"));
            }
            if !(0..=size - subsize).contains(&start) {
                return bad(format!(
                    "array_of_starts[{i}] is {start}; it must be from 0 to {}",
                    size - subsize
                ));
            }
        }
        let bounds = in_array(part(sizes, subsizes, starts, order), old.bounds()).map_err(layout_error)?;
        let arguments = [
            Argument::Int(&[ndims as i32]),
            Argument::Count(sizes),
            Argument::Count(subsizes),
            Argument::Count(starts),
            Argument::Int(&[order.to_int()]),
        ];
        let contents = Contents::of_lists(
            form,
            Combiner::Subarray,
            &arguments,
            &[],
            Constituents::One(Arc::clone(old)),
        )?;
        Datatype::new(bounds, contents, basic_of(old), levels(ndims))
    }

    /// What one process of a grid holds of a distributed array (`MPI_Type_create_darray`).
    ///
    /// # Errors
    /// Class `MPI_ERR_ARG` if the distribution is none; `MPI_ERR_VALUE_TOO_LARGE` if the array does not fit into the
    /// address space.
    pub fn darray(form: Form, array: &Distribution<'_>, old: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        let ndims = array.gsizes.len();
        let dimensions = array.dimensions()?;
        let bounds = in_array(dimensions.into_iter(), old.bounds()).map_err(layout_error)?;
        let arguments = [
            Argument::Int(&[array.size, array.rank, ndims as i32]),
            Argument::Count(array.gsizes),
            Argument::Int(array.distribs),
            Argument::Int(array.dargs),
            Argument::Int(array.psizes),
            Argument::Int(&[array.order.to_int()]),
        ];
        let contents =
            Contents::of_lists(form, Combiner::Darray, &arguments, &[], Constituents::One(Arc::clone(old)))?;
        Datatype::new(bounds, contents, basic_of(old), levels(ndims))
    }
}

impl Distribution<'_> {
    /// The length of each dimension and the blocks of the process along it, from the densest on.
    pub(super) fn dimensions(&self) -> Result<Vec<(i64, Blocks)>> {
        let coordinates = self.coordinates()?;
        let blocks: Vec<Blocks> =
            coordinates.iter().enumerate().map(|(i, &at)| self.blocks(i, at)).collect::<Result<_>>()?;
        Ok(self.order.dimensions(blocks.len()).map(|i| (self.gsizes[i], blocks[i])).collect())
    }

    /// Where the process is in the grid: row by row in either order of the array.
    fn coordinates(&self) -> Result<Vec<i64>> {
        let ndims = self.gsizes.len();
        if ndims == 0 || [self.distribs.len(), self.dargs.len(), self.psizes.len()] != [ndims; 3] {
            return bad(format!("ndims is {ndims}; there must be one entry for each in all arrays"));
        }
        if self.size < 1 || !(0..self.size).contains(&self.rank) {
            return bad(format!("rank is {} of a size of {}", self.rank, self.size));
        }
        if let Some(i) = self.psizes.iter().position(|&n| n < 1) {
            return bad(format!("array_of_psizes[{i}] is {}; it must be positive", self.psizes[i]));
        }
        let grid = self.psizes.iter().try_fold(1i32, |product, &n| product.checked_mul(n));
        if grid != Some(self.size) {
            return bad(format!("the grid of {:?} processes has not the size {}", self.psizes, self.size));
        }
        let mut rest = self.rank;
        let mut coordinates = vec![0; ndims];
        for (at, &n) in coordinates.iter_mut().zip(self.psizes).rev() {
            *at = i64::from(rest % n);
            rest /= n;
        }
        Ok(coordinates)
    }

    /// The blocks along dimension `i` of the process at `place` there.
    fn blocks(&self, i: usize, place: i64) -> Result<Blocks> {
        let (all, processes) = (self.gsizes[i], i64::from(self.psizes[i]));
        if all < 1 {
            return bad(format!("array_of_gsizes[{i}] is {all}; it must be positive"));
        }
        let default = self.dargs[i] == abi::MPI_DISTRIBUTE_DFLT_DARG;
        let given = i64::from(self.dargs[i]);
        if !default && given < 1 && self.distribs[i] != abi::MPI_DISTRIBUTE_NONE {
            return bad(format!("array_of_dargs[{i}] is {given}; it must be positive"));
        }
        let length = match self.distribs[i] {
            abi::MPI_DISTRIBUTE_BLOCK if default => (all - 1) / processes + 1,
            abi::MPI_DISTRIBUTE_BLOCK if given.saturating_mul(processes) < all => {
                return bad(format!(
                    "array_of_dargs[{i}] is {given}: {processes} blocks of it do not hold {all} elements"
                ));
            }
            abi::MPI_DISTRIBUTE_CYCLIC if default => 1,
            abi::MPI_DISTRIBUTE_BLOCK | abi::MPI_DISTRIBUTE_CYCLIC => given,
            abi::MPI_DISTRIBUTE_NONE if processes == 1 => all,
            abi::MPI_DISTRIBUTE_NONE => {
                return bad(format!(
                    "array_of_psizes[{i}] is {processes}; a dimension that is not distributed has 1"
                ));
            }
            other => return bad(format!("array_of_distribs[{i}] is {other}, which is no distribution")),
        };
        // Block number b, of `length` but for the last one, belongs to the process at b modulo `processes`.
        let (whole, last) = (all / length, all % length);
        let mine_of = |blocks: i64| if blocks > place { (blocks - place - 1) / processes + 1 } else { 0 };
        let mine_is_last = last > 0 && whole % processes == place;
        let first = place.checked_mul(length).unwrap_or(all).min(all);
        let distance = processes.checked_mul(length).unwrap_or(all).min(all);
        let rest = if mine_is_last { last } else { 0 };
        Ok(Blocks { first, length, distance, count: mine_of(whole), rest })
    }
}
