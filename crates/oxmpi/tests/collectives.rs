//! Collectives between ranks on threads, against what they should give.

use oxmpi::{BitAnd, BitOr, BitXor, Max, Min, Op, Product, Sum, threads};
use std::panic::{AssertUnwindSafe, catch_unwind};

const SIZES: [u32; 5] = [1, 2, 3, 4, 7];
const LENGTHS: [usize; 5] = [0, 1, 5, 1000, 30_000];

fn values(rank: i32, len: usize) -> Vec<i64> {
    (0..len as i64).map(|i| (i * 31 + i64::from(rank) * 17) % 1009 - 500).collect()
}

#[test]
fn data_move_where_they_should() {
    for ranks in SIZES {
        threads(ranks, |world| {
            let (me, size) = (world.rank(), world.size());
            for len in LENGTHS {
                let mine = values(me, len);
                let all: Vec<i64> = (0..size).flat_map(|r| values(r, len)).collect();
                assert!(world.all_gather(&mine).unwrap() == all);
                let root = len as i32 % size;
                let gathered = world.gather(&mine, root).unwrap();
                assert!(gathered == (me == root).then(|| all.clone()));
                let mut block = vec![0; len];
                world.scatter(gathered.as_deref().unwrap_or_default(), &mut block, root).unwrap();
                assert!(block == mine);
                let mut data = if me == root { values(99, len) } else { vec![0; len] };
                world.broadcast(&mut data, root).unwrap();
                assert!(data == values(99, len));
                let to: Vec<i64> = (0..size).flat_map(|r| values(me * 100 + r, len)).collect();
                let from: Vec<i64> = (0..size).flat_map(|r| values(r * 100 + me, len)).collect();
                assert!(world.all_to_all(&to).unwrap() == from);
                world.barrier().unwrap();
            }
        });
    }
}

#[test]
fn numbers_are_reduced() {
    for ranks in SIZES {
        threads(ranks, |world| {
            let (me, size) = (world.rank(), world.size());
            type Case = (Op<i64>, fn(i64, i64) -> i64);
            let cases: [Case; 7] = [
                (Sum.into(), i64::wrapping_add),
                (Product.into(), i64::wrapping_mul),
                (Min.into(), i64::min),
                (Max.into(), i64::max),
                (BitAnd.into(), |a, b| a & b),
                (BitOr.into(), |a, b| a | b),
                (BitXor.into(), |a, b| a ^ b),
            ];
            for len in LENGTHS {
                let mine = values(me, len);
                for (op, combine) in &cases {
                    let first = |n: i32| {
                        (1..n).fold(values(0, len), |all, r| {
                            all.iter().zip(values(r, len)).map(|(a, b)| combine(*a, b)).collect()
                        })
                    };
                    assert!(world.all_reduce(&mine, op.clone()).unwrap() == first(size), "{op:?} {len}");
                    let root = size - 1;
                    let reduced = world.reduce(&mine, op.clone(), root).unwrap();
                    assert!(reduced == (me == root).then(|| first(size)), "{op:?} {len}");
                    assert!(world.scan(&mine, op.clone()).unwrap() == first(me + 1), "{op:?} {len}");
                }
            }
            assert_eq!(world.reduce_one(1.5f32, Sum, 0).unwrap(), (me == 0).then_some(1.5 * size as f32));
        });
    }
}

#[test]
fn the_programs_own_operations_keep_their_order() {
    // 2 x 2 matrices modulo 2^32: associative, not commutative.
    fn product(a: &[u32; 4], b: &[u32; 4]) -> [u32; 4] {
        let at = |i: usize, j: usize| {
            a[2 * i].wrapping_mul(b[j]).wrapping_add(a[2 * i + 1].wrapping_mul(b[2 + j]))
        };
        [at(0, 0), at(0, 1), at(1, 0), at(1, 1)]
    }
    let of = |rank: i32, i: usize| [1 + rank as u32, 2, 3 + i as u32, 5];
    for ranks in SIZES {
        threads(ranks, |world| {
            for len in [1, 1000] {
                let mine: Vec<[u32; 4]> = (0..len).map(|i| of(world.rank(), i)).collect();
                let all: Vec<[u32; 4]> = (0..len)
                    .map(|i| (1..world.size()).fold(of(0, i), |left, r| product(&left, &of(r, i))))
                    .collect();
                assert_eq!(world.all_reduce(&mine, Op::ordered(product)).unwrap(), all);
                let root = world.size() / 2;
                let reduced = world.reduce(&mine, Op::ordered(product), root).unwrap();
                assert_eq!(reduced, (world.rank() == root).then_some(all));
            }
        });
    }
}

#[test]
fn a_panic_in_an_operation_comes_out_after_the_reduction() {
    threads(2, |world| {
        let odd = |_: &i32, _: &i32| -> i32 { panic!("{}", "no such sum") };
        let outcome = catch_unwind(AssertUnwindSafe(|| world.all_reduce(&[1, 2], Op::commutative(odd))));
        if let Err(payload) = outcome {
            assert_eq!(payload.downcast_ref::<String>().unwrap(), "no such sum");
        }
        // Everything is still in order.
        assert_eq!(world.all_reduce_one(world.rank(), Sum).unwrap(), 1);
    });
}

#[test]
fn communicators_are_apart() {
    threads(4, |world| {
        let me = world.rank();
        let copy = world.dup().unwrap();
        let half = world.split(Some(me % 2), -me).unwrap().unwrap();
        assert_eq!((half.size(), half.rank()), (2, 1 - me / 2), "the larger rank comes first");
        let few = world.split((me == 3).then_some(0), 0).unwrap();
        assert_eq!(few.map(|c| c.size()), (me == 3).then_some(1));
        // The same tag and partner in different communicators.
        let (right, left) = ((me + 1) % 4, (me + 3) % 4);
        world.send(&[1], right, 0).unwrap();
        copy.send(&[2], right, 0).unwrap();
        assert_eq!(copy.recv::<i32>(left, 0).unwrap().0, [2]);
        assert_eq!(world.recv::<i32>(left, 0).unwrap().0, [1]);
        assert_eq!(half.all_gather(&[me]).unwrap(), [2 + me % 2, me % 2]);
        // A message outlives the communicator it is sent on.
        let sent = copy.issend(vec![3; 50_000], right, 1).unwrap();
        if me % 2 == 0 {
            drop(half);
            assert_eq!(copy.recv::<i32>(left, 1).unwrap().0, [3; 50_000]);
            drop(copy);
        } else {
            assert_eq!(copy.recv::<i32>(left, 1).unwrap().0, [3; 50_000]);
        }
        sent.wait().unwrap();
        for _ in 0..100 {
            assert_eq!(world.dup().unwrap().all_reduce_one(1, Sum).unwrap(), 4);
        }
    });
}
