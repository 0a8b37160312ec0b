//! Parts of arrays of several dimensions (MPI-5.0 sections 5.1.3 and 5.1.4): a box cut out, and what one process holds of
//! an array that is distributed as High Performance Fortran does it.
//!
//! Both are built from the dimension whose neighbours lie side by side to the one whose neighbours lie farthest apart. The
//! result is as large as the whole array, so that arrays of it are arrays of whole arrays.

use super::contents::Argument;
use super::{Combiner, Contents, Datatype, Form, layout_error};
use crate::error::{MpiError, Result};
use oxmpi_abi::constants as abi;
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
    fn dimensions(self, count: usize) -> impl Iterator<Item = usize> {
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
struct Blocks {
    first: i64,
    length: i64,
    distance: i64,
    count: i64,
    rest: i64,
}

impl Blocks {
    /// These blocks of `child`, whose elements are `extent` bytes apart.
    fn layout(self, extent: isize, child: &Layout) -> Result<Layout, LayoutError> {
        let overflow = LayoutError::Overflow { what: "extent" };
        let bytes = |elements: i64| extent.checked_mul(elements as isize).ok_or(overflow);
        let row = |length: i64| Layout::hvector(length as usize, 1, extent, child);
        let length = if self.count > 0 { self.length } else { 0 };
        let blocks = Layout::hvector(self.count as usize, 1, bytes(self.distance)?, &row(length)?)?;
        let first = bytes(self.first)?;
        if self.rest == 0 {
            return Layout::structure([(1, first, &blocks)]);
        }
        let after = bytes(self.distance)?.checked_mul(self.count as isize).ok_or(overflow)?;
        let rest = row(self.rest)?;
        let rest_at = first.checked_add(after).ok_or(overflow)?;
        Layout::structure([(1, first, &blocks), (1, rest_at, &rest)])
    }
}

/// The layout of blocks along dimensions, each given with the whole length, from the densest on.
fn boxed(dimensions: impl Iterator<Item = (i64, Blocks)>, old: &Datatype) -> Result<Layout> {
    let too_large = || layout_error(LayoutError::Overflow { what: "extent" });
    let mut layout = old.layout().dup();
    let mut extent = layout.extent();
    for (length, blocks) in dimensions {
        layout = blocks.layout(extent, &layout).map_err(layout_error)?;
        extent = extent.checked_mul(length as isize).ok_or_else(too_large)?;
    }
    Layout::resized(0, extent, &layout).map_err(layout_error)
}

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
        let blocks = |i: usize| Blocks { first: starts[i], count: 0, rest: subsizes[i], ..Blocks::default() };
        let layout = boxed(order.dimensions(ndims).map(|i| (sizes[i], blocks(i))), old)?;
        let arguments = [
            Argument::Int(&[ndims as i32]),
            Argument::Count(sizes),
            Argument::Count(subsizes),
            Argument::Count(starts),
            Argument::Int(&[order.to_int()]),
        ];
        Datatype::derived(layout, Contents::of_arguments(form, Combiner::Subarray, &arguments, old)?)
    }

    /// What one process of a grid holds of a distributed array (`MPI_Type_create_darray`).
    ///
    /// # Errors
    /// Class `MPI_ERR_ARG` if the distribution is none; `MPI_ERR_VALUE_TOO_LARGE` if the array does not fit into the
    /// address space.
    pub fn darray(form: Form, array: &Distribution<'_>, old: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        let ndims = array.gsizes.len();
        let coordinates = array.coordinates()?;
        let blocks: Vec<Blocks> =
            (0..ndims).map(|i| array.blocks(i, coordinates[i])).collect::<Result<_>>()?;
        let dimensions = array.order.dimensions(ndims).map(|i| (array.gsizes[i], blocks[i]));
        let layout = boxed(dimensions, old)?;
        let arguments = [
            Argument::Int(&[array.size, array.rank, ndims as i32]),
            Argument::Count(array.gsizes),
            Argument::Int(array.distribs),
            Argument::Int(array.dargs),
            Argument::Int(array.psizes),
            Argument::Int(&[array.order.to_int()]),
        ];
        Datatype::derived(layout, Contents::of_arguments(form, Combiner::Darray, &arguments, old)?)
    }
}

impl Distribution<'_> {
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
