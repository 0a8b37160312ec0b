//! Collectives between ranks on threads, compared with the expected results.

use oxmpi::{BitAnd, BitOr, BitXor, Comparison, Max, Min, Op, Product, RequestSet, Sum, threads};
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
                    assert!(
                        world.all_reduce(&mine, op.clone()).unwrap() == first(size),
                        "{op:?} {len}"
                    );
                    let root = size - 1;
                    let reduced = world.reduce(&mine, op.clone(), root).unwrap();
                    assert!(reduced == (me == root).then(|| first(size)), "{op:?} {len}");
                    assert!(
                        world.scan(&mine, op.clone()).unwrap() == first(me + 1),
                        "{op:?} {len}"
                    );
                }
            }
            assert_eq!(
                world.reduce_one(1.5f32, Sum, 0).unwrap(),
                (me == 0).then_some(1.5 * size as f32)
            );
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
        let outcome =
            catch_unwind(AssertUnwindSafe(|| world.all_reduce(&[1, 2], Op::commutative(odd))));
        if let Err(payload) = outcome {
            assert_eq!(payload.downcast_ref::<String>().unwrap(), "no such sum");
        }
        // The communicator still works.
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
        // A message outlives the communicator on which it is sent.
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

#[test]
fn data_move_in_place() {
    for ranks in SIZES {
        threads(ranks, |world| {
            let (me, size) = (world.rank(), world.size());
            for len in LENGTHS {
                let all: Vec<i64> = (0..size).flat_map(|r| values(r, len)).collect();
                // Room for all blocks, with only this rank's block filled.
                let own = || {
                    let mut data = vec![-1; all.len()];
                    data[me as usize * len..][..len].copy_from_slice(&values(me, len));
                    data
                };
                let mut data = own();
                world.all_gather_in_place(&mut data).unwrap();
                assert!(data == all);
                let root = len as i32 % size;
                let mut data = if me == root { own() } else { values(me, len) };
                world.gather_in_place(&mut data, root).unwrap();
                assert!(data == if me == root { all.clone() } else { values(me, len) });
                let mut data = if me == root { all.clone() } else { vec![0; len] };
                world.scatter_in_place(&mut data, root).unwrap();
                assert!(data == if me == root { all.clone() } else { values(me, len) });
                let mut data: Vec<i64> =
                    (0..size).flat_map(|r| values(me * 100 + r, len)).collect();
                let from: Vec<i64> = (0..size).flat_map(|r| values(r * 100 + me, len)).collect();
                world.all_to_all_in_place(&mut data).unwrap();
                assert!(data == from);
            }
        });
    }
}

/// The sums of the values of `ranks`.
fn sums(ranks: std::ops::Range<i32>, len: usize) -> Vec<i64> {
    ranks.fold(vec![0; len], |all, r| all.iter().zip(values(r, len)).map(|(a, b)| a + b).collect())
}

#[test]
fn numbers_are_reduced_in_place() {
    for ranks in SIZES {
        threads(ranks, |world| {
            let (me, size) = (world.rank(), world.size());
            for len in LENGTHS {
                let mine = values(me, len);
                let root = size - 1;
                let mut data = mine.clone();
                world.reduce_in_place(&mut data, Sum, root).unwrap();
                assert!(data == if me == root { sums(0..size, len) } else { mine.clone() });
                let mut data = mine.clone();
                world.all_reduce_in_place(&mut data, Sum).unwrap();
                assert!(data == sums(0..size, len));
                let mut data = mine.clone();
                world.scan_in_place(&mut data, Sum).unwrap();
                assert!(data == sums(0..me + 1, len));
                let mut data = mine.clone();
                world.exclusive_scan_in_place(&mut data, Sum).unwrap();
                assert!(data == if me == 0 { mine.clone() } else { sums(0..me, len) });
                let before = world.exclusive_scan(&mine, Sum).unwrap();
                assert!(before == (me > 0).then(|| sums(0..me, len)));
                // Block r of rank s has the values of rank r + s.
                let blocks: Vec<i64> = (0..size).flat_map(|r| values(r + me, len)).collect();
                let expected = sums(me..me + size, len);
                assert!(world.reduce_scatter_block(&blocks, Sum).unwrap() == expected);
                let (mut data, mut block) = (blocks.clone(), vec![0; len]);
                assert!(world.reduce_scatter_block_in_place(&mut data, Sum).unwrap() == expected);
                world.reduce_scatter_block_into(&blocks, &mut block, Sum).unwrap();
                assert!(block == expected);
            }
        });
    }
}

#[test]
fn immediate_collectives_end_with_their_scope_in_any_order() {
    for ranks in SIZES {
        threads(ranks, |world| {
            let (me, size) = (world.rank(), world.size());
            for len in LENGTHS {
                let (mine, n) = (values(me, len), len * size as usize);
                let all: Vec<i64> = (0..size).flat_map(|r| values(r, len)).collect();
                let to: Vec<i64> = (0..size).flat_map(|r| values(me * 100 + r, len)).collect();
                let from: Vec<i64> = (0..size).flat_map(|r| values(r * 100 + me, len)).collect();
                let root = len as i32 % size;
                let mut broadcast = if me == root { values(9, len) } else { vec![0; len] };
                let mut at_root = vec![0; n];
                let (mut gathered, mut exchanged) = (at_root.clone(), at_root.clone());
                let mut own = at_root.clone();
                own[me as usize * len..][..len].copy_from_slice(&mine);
                let (mut swapped, mut root_own) =
                    (to.clone(), if me == root { own.clone() } else { mine.clone() });
                let mut parts = if me == root { all.clone() } else { vec![0; len] };
                let zeros = vec![0; len];
                let (mut block, mut sum, mut root_sum) =
                    (zeros.clone(), zeros.clone(), zeros.clone());
                let (mut scan, mut before, mut shared) =
                    (zeros.clone(), zeros.clone(), zeros.clone());
                let in_place = [(); 4].map(|()| mine.clone());
                let [mut all_in, mut root_in, mut scan_in, mut before_in] = in_place;
                world
                    .scope(|s| {
                        let mut requests = vec![
                            s.ibarrier()?,
                            s.ibroadcast(&mut broadcast, root)?,
                            s.igather(&mine, &mut at_root, root)?,
                            s.igather_in_place(&mut root_own, root)?,
                            s.iall_gather(&mine, &mut gathered)?,
                            s.iall_gather_in_place(&mut own)?,
                            s.iscatter(&all, &mut block, root)?,
                            s.iscatter_in_place(&mut parts, root)?,
                            s.iall_to_all(&to, &mut exchanged)?,
                            s.iall_to_all_in_place(&mut swapped)?,
                            s.ireduce(&mine, &mut root_sum, Sum, root)?,
                            s.ireduce_in_place(&mut root_in, Op::ordered(|a, b| a + b), root)?,
                            s.iall_reduce(&mine, &mut sum, Op::commutative(|a, b| a + b))?,
                            s.iall_reduce_in_place(&mut all_in, Sum)?,
                            s.ireduce_scatter_block(&to, &mut shared, Max)?,
                            s.iscan(&mine, &mut scan, Op::ordered(|a, b| a + b))?,
                            s.iscan_in_place(&mut scan_in, Sum)?,
                            s.iexclusive_scan(&mine, &mut before, Sum)?,
                            s.iexclusive_scan_in_place(&mut before_in, Sum)?,
                        ];
                        // The loop waits for some requests in reverse order, the scope for the
                        // others.
                        while requests.len() > 6 {
                            requests.pop().map(|r| r.wait()).transpose()?;
                        }
                        requests.into_iter().collect::<RequestSet<_>>().wait_any().unwrap().1
                    })
                    .unwrap();
                let at = |value: &Vec<i64>| if me == root { value.clone() } else { mine.clone() };
                assert!(broadcast == values(9, len));
                assert!(at_root == if me == root { all.clone() } else { vec![0; n] });
                assert!(gathered == all && own == all && root_own == at(&all));
                assert!(block == mine && parts == at(&all));
                assert!(exchanged == from && swapped == from);
                assert!(root_sum == if me == root { sums(0..size, len) } else { zeros.clone() });
                assert!(root_in == at(&sums(0..size, len)));
                assert!(sum == sums(0..size, len) && all_in == sum);
                let largest = |i: usize| (0..size).map(|r| values(r * 100 + me, len)[i]).max();
                assert!(len > 1000 || (0..len).all(|i| Some(shared[i]) == largest(i)));
                assert!(scan == sums(0..me + 1, len) && scan_in == scan);
                assert!(
                    before == sums(0..me, len) && before_in == if me == 0 { mine } else { before }
                );
            }
        });
    }
}

#[test]
fn a_scope_that_fails_completes_its_collectives() {
    threads(2, |world| {
        let (data, mut sum) = ([world.rank() + 1], [0]);
        let failed = world.scope(|s| {
            if world.rank() == 0 {
                // Starts after the other rank has failed.
                world.recv::<u8>(1, 1)?;
                s.iall_reduce(&data, &mut sum, Sum)?;
                return Ok(());
            }
            s.iall_reduce(&data, &mut sum, Sum)?;
            world.send(&[0u8; 2], 1, 0)?;
            let failed = world.recv_into(&mut [0u8; 1], 1, 0);
            world.send(&[0u8], 0, 1)?;
            failed.map(drop)
        });
        assert_eq!(failed.is_err(), world.rank() == 1);
        assert_eq!(sum, [3]);
        world.barrier().unwrap();
    });
}

#[test]
fn a_panic_gives_up_what_its_scope_has_started() {
    threads(2, |world| {
        let copy = world.dup().unwrap();
        let (data, mut sum) = ([world.rank()], [7]);
        if world.rank() == 0 {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                copy.scope(|s| {
                    // Rank 1 never takes part. The memory must be released nevertheless.
                    s.iall_reduce(&data, &mut sum, Op::commutative(|a, b| a + b))?;
                    if data[0] == 0 {
                        panic!("{}", "out of the scope")
                    }
                    Ok(())
                })
            }));
            assert_eq!(outcome.unwrap_err().downcast_ref::<String>().unwrap(), "out of the scope");
        }
        drop(copy);
        assert_eq!(world.all_reduce_one(1, Sum).unwrap(), 2);
    });
}

#[test]
fn a_panic_in_an_immediate_operation_comes_out_of_the_wait() {
    for waited in [true, false] {
        let panicked = threads(2, |world| {
            let (data, mut sum) = ([1; 100], [0; 100]);
            let odd = |_: &i32, _: &i32| -> i32 { panic!("{}", "no such sum") };
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                world.scope(|s| {
                    let request = s.iall_reduce(&data, &mut sum, Op::commutative(odd))?;
                    if waited { request.wait().map(drop) } else { Ok(()) }
                })
            }));
            assert_eq!(world.all_reduce_one(world.rank(), Sum).unwrap(), 1);
            outcome.err().map(|payload| payload.downcast_ref::<String>().cloned().unwrap())
        });
        let said: Vec<String> = panicked.into_iter().flatten().collect();
        assert!(!said.is_empty() && said.iter().all(|text| text == "no such sum"), "{said:?}");
    }
}

#[test]
fn groups_make_communicators() {
    threads(5, |world| {
        let (me, all) = (world.rank(), world.group());
        // Two disjoint groups at the same time; rank 2 is in none.
        let group = if me < 2 { all.include(&[1, 0]) } else { all.include(&[4, 3]) };
        let new = world.create(&group).unwrap();
        assert_eq!(new.is_none(), me == 2);
        if let Some(new) = new {
            assert_eq!(new.rank(), group.rank().unwrap());
            assert_eq!(new.all_gather(&[me]).unwrap(), if me < 2 { [1, 0] } else { [4, 3] });
            assert_eq!(new.group().compare(&group), Comparison::Identical);
            // A group within the new communicator.
            let first = new.create(&new.group().range(..1)).unwrap();
            assert_eq!(first.map(|c| c.size()), (new.rank() == 0).then_some(1));
        }
        assert!(world.create(&all.range(5..)).unwrap().is_none(), "nobody");
        let outsider = catch_unwind(AssertUnwindSafe(|| {
            let few = world.split(Some(me / 4), 0).unwrap().unwrap();
            (few.size() == 1).then(|| few.create(&all).map(drop))
        }));
        assert_eq!(outsider.is_err(), me == 4);
    });
}
