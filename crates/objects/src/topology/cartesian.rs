//! Grids (MPI-5.0 section 8.5.1).

use super::NeighborBlock;
use crate::error::{MpiError, Result};
use oxmpi_abi::constants as abi;

/// A grid of ranks in row-major order: the last coordinate varies fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cartesian {
    dims: Vec<i32>,
    periods: Vec<bool>,
    size: i32,
}

impl Cartesian {
    /// A grid of these dimensions; without dimensions it has one rank. Fails with `MPI_ERR_DIMS` if
    /// a dimension is not positive, if there are more ranks than a communicator can have, or if the
    /// numbers of periods and dimensions differ.
    pub fn new(dims: &[i32], periods: &[bool]) -> Result<Cartesian> {
        if dims.len() != periods.len() {
            let text = format!("{} dimensions with {} periods", dims.len(), periods.len());
            return Err(MpiError::new(abi::MPI_ERR_DIMS, text));
        }
        if let Some((index, dim)) = dims.iter().enumerate().find(|(_, dim)| **dim < 1) {
            let text = format!("dims[{index}] is {dim}; it must be positive");
            return Err(MpiError::new(abi::MPI_ERR_DIMS, text));
        }
        let size =
            dims.iter().try_fold(1_i32, |size, dim| size.checked_mul(*dim)).ok_or_else(|| {
                let text = format!(
                    "a grid of the dimensions {dims:?} has more ranks than a communicator can have"
                );
                MpiError::new(abi::MPI_ERR_DIMS, text)
            })?;
        Ok(Cartesian { dims: dims.to_vec(), periods: periods.to_vec(), size })
    }

    /// The number of ranks.
    pub fn size(&self) -> i32 {
        self.size
    }

    /// The number of ranks along each dimension.
    pub fn dims(&self) -> &[i32] {
        &self.dims
    }

    /// Whether each dimension is periodic.
    pub fn periods(&self) -> &[bool] {
        &self.periods
    }

    /// The coordinates of a rank.
    pub fn coords(&self, rank: u32) -> Vec<i32> {
        let mut rest = i64::from(rank);
        let mut coords: Vec<i32> = self
            .dims
            .iter()
            .rev()
            .map(|dim| {
                let coord = rest % i64::from(*dim);
                rest /= i64::from(*dim);
                coord as i32
            })
            .collect();
        coords.reverse();
        coords
    }

    /// The rank with these coordinates. A coordinate may have any value in a periodic dimension.
    /// Fails with `MPI_ERR_ARG` for a coordinate outside of another dimension.
    pub fn rank(&self, coords: &[i32]) -> Result<u32> {
        let mut rank = 0_i64;
        for (index, ((dim, periodic), coord)) in
            self.dims.iter().zip(&self.periods).zip(coords).enumerate()
        {
            let inside = if *periodic { coord.rem_euclid(*dim) } else { *coord };
            if !(0..*dim).contains(&inside) {
                let text = format!(
                    "coords[{index}] is {coord}; the dimension is not periodic and goes from 0 to {}",
                    dim - 1
                );
                return Err(MpiError::new(abi::MPI_ERR_ARG, text));
            }
            rank = rank * i64::from(*dim) + i64::from(inside);
        }
        Ok(rank as u32)
    }

    /// Source and destination of a shift by `displacement` along a dimension. `None` stands for a
    /// rank beyond the end of a dimension that is not periodic. Fails with `MPI_ERR_DIMS` without
    /// such a dimension.
    pub fn shift(
        &self,
        rank: u32,
        direction: i32,
        displacement: i32,
    ) -> Result<(Option<u32>, Option<u32>)> {
        let dimension =
            usize::try_from(direction).ok().filter(|direction| *direction < self.dims.len());
        let Some(dimension) = dimension else {
            let text =
                format!("direction is {direction}; the grid has {} dimensions", self.dims.len());
            return Err(MpiError::new(abi::MPI_ERR_DIMS, text));
        };
        let displacement = i64::from(displacement);
        Ok((self.at(rank, dimension, -displacement), self.at(rank, dimension, displacement)))
    }

    fn at(&self, rank: u32, dimension: usize, displacement: i64) -> Option<u32> {
        let dim = i64::from(self.dims[dimension]);
        let stride: i64 = self.dims[dimension + 1..].iter().map(|dim| i64::from(*dim)).product();
        let here = i64::from(rank) / stride % dim;
        let there = here + displacement;
        let there = if self.periods[dimension] { there.rem_euclid(dim) } else { there };
        (0..dim).contains(&there).then(|| (i64::from(rank) + (there - here) * stride) as u32)
    }

    /// The neighbours of a rank: for each dimension first the negative one.
    pub(super) fn neighbors(&self, rank: u32) -> Vec<NeighborBlock> {
        (0..2 * self.dims.len())
            .map(|block| {
                let displacement = if block % 2 == 0 { -1 } else { 1 };
                NeighborBlock { peer: self.at(rank, block / 2, displacement), block }
            })
            .collect()
    }

    /// The grid of the dimensions with `remain` (`MPI_Cart_sub`). Panics unless `remain` has one
    /// entry per dimension.
    pub fn sub(&self, remain: &[bool]) -> Cartesian {
        assert_eq!(self.dims.len(), remain.len(), "an answer for each dimension");
        let kept = |index: &usize| remain[*index];
        let dims: Vec<i32> = (0..remain.len()).filter(kept).map(|index| self.dims[index]).collect();
        let periods = (0..remain.len()).filter(kept).map(|index| self.periods[index]).collect();
        let size = dims.iter().product();
        Cartesian { dims, periods, size }
    }

    /// The number of the subgrid of [`Cartesian::sub`] that contains a rank, and the rank in it.
    /// Panics as [`Cartesian::sub`] does.
    pub fn sub_place(&self, remain: &[bool], rank: u32) -> (i32, i32) {
        assert_eq!(self.dims.len(), remain.len(), "an answer for each dimension");
        let (mut grid, mut within) = (0, 0);
        for ((coord, dim), remains) in self.coords(rank).iter().zip(&self.dims).zip(remain) {
            let number = if *remains { &mut within } else { &mut grid };
            *number = *number * dim + coord;
        }
        (grid, within)
    }
}
