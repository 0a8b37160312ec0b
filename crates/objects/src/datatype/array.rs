//! Parts of arrays of several dimensions (MPI-5.0 sections 5.1.3 and 5.1.4): a subarray, and one
//! process's part of an array that is distributed as in High Performance Fortran.
//!
//! Both are built dimension by dimension, beginning with the one of adjacent elements. The result
//! has the extent of the whole array, so consecutive elements of it lie in consecutive arrays.

use super::construct::basic_of;
use super::contents::{Argument, Constituents};
use super::{Combiner, Contents, Datatype, Form, layout_error};
use crate::error::{MpiError, Result};
use crate::shown::{self, ValueKind};
use oxmpi_abi::constants as abi;
use oxmpi_mem::bounds::Bounds;
use oxmpi_mem::layout::{Layout, LayoutError};
use std::sync::Arc;

/// The dimension with adjacent elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum ArrayOrder {
    /// The last one (`MPI_ORDER_C`).
    C = abi::MPI_ORDER_C,
    /// The first one (`MPI_ORDER_FORTRAN`).
    Fortran = abi::MPI_ORDER_FORTRAN,
}

impl ArrayOrder {
    /// The order with this ABI value. Fails with `MPI_ERR_ARG` for other values.
    pub fn from_int(order: i32) -> Result<ArrayOrder> {
        match order {
            abi::MPI_ORDER_C => Ok(ArrayOrder::C),
            abi::MPI_ORDER_FORTRAN => Ok(ArrayOrder::Fortran),
            _ => {
                let order = shown::number(ValueKind::Order, order);
                bad(format!("order is {order}, neither MPI_ORDER_C nor MPI_ORDER_FORTRAN"))
            }
        }
    }

    /// The ABI's value.
    pub fn to_int(self) -> i32 {
        self as i32
    }

    fn dimensions(self, count: usize) -> impl Iterator<Item = usize> + Clone {
        (0..count).map(move |i| if self == ArrayOrder::C { count - 1 - i } else { i })
    }
}

/// The distribution of an array, as the arguments of MPI_Type_create_darray. Lists have one entry
/// per dimension.
#[derive(Clone, Copy, Debug)]
pub struct Distribution<'a> {
    pub size: i32,
    pub rank: i32,
    pub gsizes: &'a [i64],
    /// The kind of distribution (`MPI_DISTRIBUTE_BLOCK`, ...).
    pub distribs: &'a [i32],
    /// The lengths of blocks, or `MPI_DISTRIBUTE_DFLT_DARG`.
    pub dargs: &'a [i32],
    pub psizes: &'a [i32],
    pub order: ArrayOrder,
}

fn bad<T>(text: String) -> Result<T> {
    Err(MpiError::new(abi::MPI_ERR_ARG, text))
}

/// The blocks of one dimension, in elements: `count` blocks of `length` at distances of `distance`,
/// the first at `first`, then one block of `rest`. A subarray has only the block of `rest`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DimensionBlocks {
    first: i64,
    length: i64,
    distance: i64,
    count: i64,
    rest: i64,
}

/// A layout, or bounds alone, from which a part of an array is built.
pub(super) trait ArrayPart: Sized {
    fn extent(&self) -> isize;

    /// `count` copies at distances of `stride` bytes, the first at `offset`.
    fn placed(&self, count: usize, stride: isize, offset: isize) -> Result<Self, LayoutError>;

    fn and(&self, next: &Self) -> Result<Self, LayoutError>;

    fn resized(&self, lb: isize, extent: isize) -> Result<Self, LayoutError>;
}

impl ArrayPart for Bounds {
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

impl ArrayPart for Layout {
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

impl DimensionBlocks {
    /// The blocks of this dimension, filled with copies of `child` at distances of `extent` bytes.
    fn of<E: ArrayPart>(self, extent: isize, child: &E) -> Result<E, LayoutError> {
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
        let behind =
            distance.checked_mul(self.count as isize).and_then(|all| first.checked_add(all));
        blocks.and(&child.placed(self.rest as usize, extent, behind.ok_or(overflow)?)?)
    }
}

/// Builds the selected part of an array of `old`. `dimensions` has the length and the blocks of
/// each dimension, beginning with the one of adjacent elements. The result has the extent of the
/// whole array.
pub(super) fn in_array<E: ArrayPart>(
    dimensions: impl Iterator<Item = (i64, DimensionBlocks)>,
    old: &E,
) -> Result<E, LayoutError> {
    let mut extent = old.extent();
    let mut made: Option<E> = None;
    for (length, blocks) in dimensions {
        made = Some(blocks.of(extent, made.as_ref().unwrap_or(old))?);
        extent =
            extent.checked_mul(length as isize).ok_or(LayoutError::Overflow { what: "extent" })?;
    }
    made.as_ref().unwrap_or(old).resized(0, extent)
}

pub(super) fn part(
    sizes: &[i64],
    subsizes: &[i64],
    starts: &[i64],
    order: ArrayOrder,
) -> impl Iterator<Item = (i64, DimensionBlocks)> {
    let blocks = |i: usize| DimensionBlocks {
        first: starts[i],
        rest: subsizes[i],
        ..DimensionBlocks::default()
    };
    order.dimensions(sizes.len()).map(move |i| (sizes[i], blocks(i)))
}

fn levels(ndims: usize) -> u32 {
    u32::try_from(ndims).unwrap_or(u32::MAX).saturating_mul(LEVELS)
}

/// The nesting of one dimension: a block, the run of blocks, and a shorter last block.
const LEVELS: u32 = 3;

impl Datatype {
    /// A box of `subsizes` at `starts` in an array of `sizes` (`MPI_Type_create_subarray`). Fails
    /// with `MPI_ERR_ARG` without dimensions or for a box outside of the array, and with
    /// `MPI_ERR_VALUE_TOO_LARGE` for an array larger than the address space.
    pub fn subarray(
        form: Form,
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: ArrayOrder,
        old: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        let ndims = sizes.len();
        if ndims == 0 || subsizes.len() != ndims || starts.len() != ndims {
            return bad(format!(
                "ndims is {ndims}: it must be positive, with one size, subsize and start for each dimension"
            ));
        }
        for (i, &size) in sizes.iter().enumerate() {
            let (subsize, start) = (subsizes[i], starts[i]);
            if size < 1 {
                return bad(format!("array_of_sizes[{i}] is {size}; it must be positive"));
            }
            if !(1..=size).contains(&subsize) {
                return bad(format!(
                    "array_of_subsizes[{i}] is {subsize}; it must be from 1 to {size}"
                ));
            }
            if !(0..=size - subsize).contains(&start) {
                return bad(format!(
                    "array_of_starts[{i}] is {start}; it must be from 0 to {}",
                    size - subsize
                ));
            }
        }
        let bounds =
            in_array(part(sizes, subsizes, starts, order), old.bounds()).map_err(layout_error)?;
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

    /// One process's part of a distributed array (`MPI_Type_create_darray`). Fails with
    /// `MPI_ERR_ARG` for an invalid distribution, and with `MPI_ERR_VALUE_TOO_LARGE` for an array
    /// larger than the address space.
    pub fn darray(
        form: Form,
        array: &Distribution<'_>,
        old: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
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
        let contents = Contents::of_lists(
            form,
            Combiner::Darray,
            &arguments,
            &[],
            Constituents::One(Arc::clone(old)),
        )?;
        Datatype::new(bounds, contents, basic_of(old), levels(ndims))
    }
}

impl Distribution<'_> {
    pub(super) fn dimensions(&self) -> Result<Vec<(i64, DimensionBlocks)>> {
        let coordinates = self.coordinates()?;
        let blocks: Vec<DimensionBlocks> = coordinates
            .iter()
            .enumerate()
            .map(|(i, &at)| self.blocks(i, at))
            .collect::<Result<_>>()?;
        Ok(self.order.dimensions(blocks.len()).map(|i| (self.gsizes[i], blocks[i])).collect())
    }

    /// The coordinates of the process in the grid, which is in row-major order for both array
    /// orders.
    fn coordinates(&self) -> Result<Vec<i64>> {
        let ndims = self.gsizes.len();
        if ndims == 0 || [self.distribs.len(), self.dargs.len(), self.psizes.len()] != [ndims; 3] {
            return bad(format!(
                "ndims is {ndims}: it must be positive, with one entry for each dimension in all arrays"
            ));
        }
        if self.size < 1 || !(0..self.size).contains(&self.rank) {
            return bad(format!("rank is {} of a size of {}", self.rank, self.size));
        }
        if let Some(i) = self.psizes.iter().position(|&n| n < 1) {
            return bad(format!("array_of_psizes[{i}] is {}; it must be positive", self.psizes[i]));
        }
        let grid = self.psizes.iter().try_fold(1i32, |product, &n| product.checked_mul(n));
        if grid != Some(self.size) {
            return bad(format!(
                "the grid of {:?} processes has not the size {}",
                self.psizes, self.size
            ));
        }
        let mut rest = self.rank;
        let mut coordinates = vec![0; ndims];
        for (at, &n) in coordinates.iter_mut().zip(self.psizes).rev() {
            *at = i64::from(rest % n);
            rest /= n;
        }
        Ok(coordinates)
    }

    fn blocks(&self, i: usize, place: i64) -> Result<DimensionBlocks> {
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
                    "array_of_dargs[{i}] is {given}: {processes} processes with one block of {given} each cannot hold array_of_gsizes[{i}] = {all} elements"
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
            other => {
                let other = shown::number(ValueKind::Distribution, other);
                return bad(format!("array_of_distribs[{i}] is {other}, which is no distribution"));
            }
        };
        // The array is cut into blocks of `length`; the last may be shorter. Block b belongs to the
        // process with coordinate b modulo `processes`.
        let (whole, last) = (all / length, all % length);
        let mine_of =
            |blocks: i64| if blocks > place { (blocks - place - 1) / processes + 1 } else { 0 };
        let mine_is_last = last > 0 && whole % processes == place;
        let first = place.checked_mul(length).unwrap_or(all).min(all);
        let distance = processes.checked_mul(length).unwrap_or(all).min(all);
        let rest = if mine_is_last { last } else { 0 };
        Ok(DimensionBlocks { first, length, distance, count: mine_of(whole), rest })
    }
}
