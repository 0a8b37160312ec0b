//! Balanced grids (`MPI_Dims_create`, MPI-5.0 section 8.5.2).

use crate::error::{MpiError, Result};
use oxmpi_abi::constants as abi;

/// Fills in the dimensions that are 0, so that the grid has `nodes` ranks. They are as close to each other as the divisors
/// allow: the largest is as small as it can be, then the second, and so on; and they do not increase.
///
/// # Errors
/// Class `MPI_ERR_ARG` if there is no node. Class `MPI_ERR_DIMS` if a dimension is negative, or the number of nodes is
/// not a multiple of the dimensions that are given, or differs from them if all are.
pub fn dims_create(nodes: i32, dims: &mut [i32]) -> Result<()> {
    if nodes < 1 {
        return Err(MpiError::new(abi::MPI_ERR_ARG, format!("nnodes is {nodes}; it must be positive")));
    }
    if let Some((index, dim)) = dims.iter().enumerate().find(|(_, dim)| **dim < 0) {
        let text = format!("dims[{index}] is {dim}; it must not be negative");
        return Err(MpiError::new(abi::MPI_ERR_DIMS, text));
    }
    let given: i128 = dims
        .iter()
        .filter(|dim| **dim > 0)
        .fold(1_i128, |product, dim| product.saturating_mul(i128::from(*dim)));
    let free = dims.iter().filter(|dim| **dim == 0).count();
    let nodes = i128::from(nodes);
    let fits = if free == 0 { given == nodes } else { nodes % given == 0 };
    if !fits {
        let text = format!("nnodes is {nodes}, which the dimensions {dims:?} cannot make");
        return Err(MpiError::new(abi::MPI_ERR_DIMS, text));
    }
    let rest = (nodes / given) as i32;
    let mut factors = balanced(rest, free).into_iter();
    for dim in dims.iter_mut().filter(|dim| **dim == 0) {
        *dim = factors.next().unwrap_or(1);
    }
    Ok(())
}

/// `how_many` factors of `number`, not increasing, the first as small as possible, then the second, and so on.
fn balanced(number: i32, how_many: usize) -> Vec<i32> {
    let divisors: Vec<i32> = {
        let small = (1..).take_while(|d| i64::from(*d) * i64::from(*d) <= i64::from(number));
        let mut all: Vec<i32> = small.filter(|d| number % d == 0).flat_map(|d| [d, number / d]).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let mut factors = Vec::with_capacity(how_many);
    if factor(number, how_many, number, &divisors, &mut factors) { factors } else { vec![1; how_many] }
}

/// Appends the best factors of `number` that are at most `limit`; false if there are none.
fn factor(number: i32, how_many: usize, limit: i32, divisors: &[i32], factors: &mut Vec<i32>) -> bool {
    let enough = |largest: i32| {
        let mut product = 1_i64;
        // More factors than bits change nothing, unless they are 1.
        (0..how_many.min(32)).any(|_| {
            product = product.saturating_mul(i64::from(largest));
            product >= i64::from(number)
        })
    };
    if number == 1 {
        factors.extend(std::iter::repeat_n(1, how_many));
        return true;
    }
    if how_many == 0 || !enough(limit) {
        return false;
    }
    for largest in divisors.iter().copied().take_while(|d| *d <= limit) {
        if number % largest != 0 || !enough(largest) {
            continue;
        }
        factors.push(largest);
        if factor(number / largest, how_many - 1, largest, divisors, factors) {
            return true;
        }
        factors.pop();
    }
    false
}
