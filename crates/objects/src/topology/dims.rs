//! Balanced grids (`MPI_Dims_create`, MPI-5.0 section 8.5.2).

use crate::error::{MpiError, Result};
use oxmpi_abi::constants as abi;

/// Sets the dimensions that are 0, so that the grid has `nodes` ranks. The new dimensions do not
/// increase, and their largest and smallest differ as little as possible. Fails with `MPI_ERR_ARG`
/// if `nodes` is not positive. Fails with `MPI_ERR_DIMS` if a dimension is negative, or the given
/// dimensions do not divide `nodes`.
pub fn dims_create(nodes: i32, dims: &mut [i32]) -> Result<()> {
    if nodes < 1 {
        return Err(MpiError::new(
            abi::MPI_ERR_ARG,
            format!("nnodes is {nodes}; it must be positive"),
        ));
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

/// `how_many` factors of `number` that do not increase, with the smallest difference between the
/// first and the last. Among equally good lists, the one with the smallest first factor.
fn balanced(number: i32, how_many: usize) -> Vec<i32> {
    // All further factors are 1.
    let count = how_many.min(32);
    let divisors = divisors(number);
    let mut best: Option<(i32, Vec<i32>)> = None;
    for largest in
        divisors.iter().copied().filter(|largest| power(*largest, count) >= i64::from(number))
    {
        let least = best.as_ref().map_or(i32::MAX, |(least, _)| *least);
        let Some((difference, factors)) = closest(number, count, largest, least, &divisors) else {
            continue;
        };
        best = Some((difference, factors));
        if difference == 0 {
            break;
        }
    }
    let mut factors = best.map_or_else(Vec::new, |(_, factors)| factors);
    factors.resize(how_many, 1);
    factors
}

/// The list of factors with first factor `largest` and the greatest possible last factor, and the
/// difference of the two, if it is below `least`.
fn closest(
    number: i32,
    count: usize,
    largest: i32,
    least: i32,
    divisors: &[i32],
) -> Option<(i32, Vec<i32>)> {
    let rest = number / largest;
    if count < 2 {
        return (rest == 1).then(|| (0, vec![largest]));
    }
    let may_be_last = |last: i32| rest % last == 0 && power(last, count - 1) <= i64::from(rest);
    let up_to_largest = &divisors[..divisors.partition_point(|d| *d <= largest)];
    let lasts = up_to_largest.iter().rev().copied().take_while(|last| largest - last < least);
    lasts.filter(|last| may_be_last(*last)).find_map(|last| {
        let mut factors = vec![largest];
        if !between(rest / last, count - 2, (last, largest), divisors, &mut factors) {
            return None;
        }
        factors.push(last);
        Some((largest - last, factors))
    })
}

/// Appends `count` factors of `number` that do not increase and lie within the limits. Returns
/// `false` if there are none.
fn between(
    number: i32,
    count: usize,
    (low, high): (i32, i32),
    divisors: &[i32],
    factors: &mut Vec<i32>,
) -> bool {
    if count == 0 {
        return number == 1;
    }
    if power(low, count) > i64::from(number) {
        return false;
    }
    let within =
        &divisors[divisors.partition_point(|d| *d < low)..divisors.partition_point(|d| *d <= high)];
    for largest in within.iter().copied().filter(|d| number % d == 0) {
        if power(largest, count) < i64::from(number) {
            continue;
        }
        factors.push(largest);
        if between(number / largest, count - 1, (low, largest), divisors, factors) {
            return true;
        }
        factors.pop();
    }
    false
}

fn divisors(number: i32) -> Vec<i32> {
    let small = (1..).take_while(|d| i64::from(*d) * i64::from(*d) <= i64::from(number));
    let mut all: Vec<i32> =
        small.filter(|d| number % d == 0).flat_map(|d| [d, number / d]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn power(base: i32, exponent: usize) -> i64 {
    i64::from(base).saturating_pow(exponent as u32)
}
