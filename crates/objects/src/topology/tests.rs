use super::*;
use oxmpi_abi::constants as abi;
use proptest::prelude::*;

fn grid(dims: &[i32], periods: &[bool]) -> Cartesian {
    Cartesian::new(dims, periods).unwrap()
}

#[test]
fn coordinates_are_row_major() {
    let grid = grid(&[2, 3, 4], &[false, true, false]);
    assert_eq!((grid.size(), grid.coords(0), grid.coords(23)), (24, vec![0, 0, 0], vec![1, 2, 3]));
    assert_eq!(grid.coords(17), [1, 1, 1]);
    assert_eq!(grid.rank(&[1, -2, 1]), Ok(17));
    assert_eq!(grid.rank(&[1, 4 + 3, 1]), Ok(17));
    assert_eq!(grid.rank(&[2, 0, 0]).unwrap_err().class(), abi::MPI_ERR_ARG);
    assert_eq!(grid.rank(&[0, 0, -1]).unwrap_err().class(), abi::MPI_ERR_ARG);
}

#[test]
fn a_grid_without_dimensions_is_one_rank() {
    let grid = grid(&[], &[]);
    assert_eq!((grid.size(), grid.coords(0), grid.rank(&[])), (1, vec![], Ok(0)));
    assert!(grid.shift(0, 0, 1).is_err());
}

#[test]
fn shifts_end_at_borders_and_wrap_in_periods() {
    let grid = grid(&[3, 4], &[false, true]);
    assert_eq!(grid.shift(0, 0, 1), Ok((None, Some(4))));
    assert_eq!(grid.shift(0, 0, -1), Ok((Some(4), None)));
    assert_eq!(grid.shift(0, 0, 3), Ok((None, None)));
    assert_eq!(grid.shift(0, 1, 1), Ok((Some(3), Some(1))));
    assert_eq!(grid.shift(5, 1, -6), Ok((Some(7), Some(7))));
    assert_eq!(grid.shift(5, 0, 0), Ok((Some(5), Some(5))));
    assert_eq!(grid.shift(5, 0, i32::MIN), Ok((None, None)));
    assert_eq!(grid.shift(5, 2, 1).unwrap_err().class(), abi::MPI_ERR_DIMS);
    assert_eq!(grid.shift(5, -1, 1).unwrap_err().class(), abi::MPI_ERR_DIMS);
}

#[test]
fn wrong_grids_and_graphs_are_refused() {
    assert_eq!(Cartesian::new(&[2, 0], &[true; 2]).unwrap_err().class(), abi::MPI_ERR_DIMS);
    assert_eq!(Cartesian::new(&[65536, 65536], &[true; 2]).unwrap_err().class(), abi::MPI_ERR_DIMS);
    assert_eq!(check_index(&[2, 1]).unwrap_err().class(), abi::MPI_ERR_ARG);
    assert_eq!(check_index(&[-1]).unwrap_err().class(), abi::MPI_ERR_ARG);
    assert_eq!(Graph::new(&[1, 2], &[1, 2]).unwrap_err().class(), abi::MPI_ERR_ARG);
    let graph = Graph::new(&[1, 1, 3], &[1, 0, 0]).unwrap();
    assert_eq!([0, 1, 2].map(|node| graph.neighbors(node).unwrap()), [&[1][..], &[], &[0, 0]]);
    assert_eq!(graph.neighbors(3), None);
}

#[test]
fn parts_of_a_grid_keep_the_order() {
    let grid = grid(&[2, 3, 4], &[false, true, false]);
    let remain = [true, false, true];
    let part = grid.sub(&remain);
    assert_eq!((part.dims(), part.periods(), part.size()), (&[2, 4][..], &[false, false][..], 8));
    assert_eq!(grid.sub_place(&remain, 17), (1, 5));
    assert_eq!(grid.sub(&[false; 3]).size(), 1);
    assert_eq!(grid.sub_place(&[false; 3], 17), (17, 0));
}

fn dims(nodes: i32, dims: &[i32]) -> Result<Vec<i32>, i32> {
    let mut dims = dims.to_vec();
    dims_create(nodes, &mut dims).map(|()| dims).map_err(|error| error.class())
}

#[test]
fn dimensions_are_balanced() {
    for (nodes, given, wanted) in [
        (6, &[0, 0][..], &[3, 2][..]),
        (7, &[0, 0], &[7, 1]),
        (6, &[0, 3, 0], &[2, 3, 1]),
        (12, &[0, 0, 0], &[3, 2, 2]),
        (16, &[0, 0, 0], &[4, 2, 2]),
        (72, &[0, 0, 0], &[6, 4, 3]),
        (1000, &[0, 0], &[40, 25]),
        (1 << 30, &[0, 0, 0], &[1 << 10, 1 << 10, 1 << 10]),
        (2_147_483_647, &[0, 0, 0], &[2_147_483_647, 1, 1]),
        (1, &[], &[]),
        (24, &[2, 3, 4], &[2, 3, 4]),
        (1, &[0; 40], &[1; 40]),
    ] {
        assert_eq!(dims(nodes, given).unwrap(), wanted, "{nodes} {given:?}");
    }
}

#[test]
fn dimensions_that_do_not_fit_are_refused() {
    for (nodes, given) in [(7, &[0, 3, 0][..]), (4, &[2, 3]), (2, &[]), (4, &[-1, 0]), (4, &[8, 0])]
    {
        assert_eq!(dims(nodes, given), Err(abi::MPI_ERR_DIMS), "{nodes} {given:?}");
    }
    assert_eq!(dims(0, &[0]), Err(abi::MPI_ERR_ARG));
    assert_eq!(dims(-4, &[0]), Err(abi::MPI_ERR_ARG));
}

/// The smallest difference between the largest and the smallest of `how_many` factors, by trying
/// all.
fn least_difference(number: i32, how_many: usize, (low, high): (i32, i32)) -> Option<i32> {
    if how_many == 0 {
        return (number == 1).then_some(high - low);
    }
    let divisors = (1..)
        .take_while(|d| d * d <= number)
        .filter(|d| number % d == 0)
        .flat_map(|d| [d, number / d]);
    // Not increasing: the last is the smallest.
    divisors
        .filter(|d| *d <= low)
        .filter_map(|d| {
            least_difference(number / d, how_many - 1, (d, if high == 0 { d } else { high }))
        })
        .min()
}

#[test]
fn dimensions_are_as_close_as_they_can_be() {
    let with_given = [
        (&[0, 0][..], 1),
        (&[0, 0, 0], 1),
        (&[0, 0, 0, 0], 1),
        (&[0, 3, 0], 3),
        (&[2, 0, 0, 0], 2),
    ];
    for nodes in (1..2000).chain((2000..20_000).step_by(60)).chain([19_600, 19_656, 18_480, 17_640])
    {
        for (given, factor) in with_given {
            let made = dims(nodes * factor, given).unwrap();
            let free: Vec<i32> = given
                .iter()
                .zip(&made)
                .filter(|(given, _)| **given == 0)
                .map(|(_, made)| *made)
                .collect();
            assert!(free.is_sorted_by(|a, b| a >= b), "{nodes}: {made:?}");
            assert_eq!(made.iter().product::<i32>(), nodes * factor);
            let least = least_difference(nodes, free.len(), (nodes, 0)).unwrap();
            assert_eq!(free[0] - free[free.len() - 1], least, "{nodes}: {made:?}");
        }
    }
}

#[test]
fn many_dimensions_of_a_number_with_many_divisors_take_no_time() {
    for how_many in 1..40 {
        let made = dims(2_095_133_040, &vec![0; how_many]).unwrap();
        assert_eq!(made.iter().map(|dim| i64::from(*dim)).product::<i64>(), 2_095_133_040);
    }
}

proptest! {
    /// A rank's message along an edge is the one that its neighbour expects: the negative direction
    /// of one is the positive direction of the other, with any periods.
    #[test]
    fn edges_of_grids_match(dims in prop::collection::vec(1..4_i32, 0..4), periods in any::<[bool; 4]>()) {
        let grid = grid(&dims, &periods[..dims.len()]);
        let size = grid.size() as u32;
        let topology = Topology::Cartesian(grid);
        for from in 0..size {
            for to in 0..size {
                let sent: Vec<_> = topology.destinations(from).into_iter().filter(|s| s.peer == Some(to)).collect();
                let received: Vec<_> = topology.sources(to).into_iter().filter(|s| s.peer == Some(from)).collect();
                prop_assert_eq!(sent.len(), received.len());
                for (sent, received) in sent.iter().zip(&received) {
                    prop_assert_eq!(sent.block ^ 1, received.block);
                }
            }
        }
    }
}
