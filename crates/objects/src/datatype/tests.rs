use super::*;
use crate::predefined::{Category, Predefined, all};
use oxmpi_abi::constants as abi;

fn get(handle: u64) -> Arc<Datatype> {
    Arc::clone(Predefined::new().get(handle).unwrap())
}

fn double() -> Arc<Datatype> {
    get(0x214)
}

fn bounds(t: &Datatype) -> (usize, isize, isize) {
    let (now, later) = (*t.bounds(), *t.layout().bounds());
    assert_eq!(now, later, "{t}");
    (t.size(), now.lb(), now.extent())
}

#[test]
fn predefined_types_have_the_sizes_of_c_and_fortran() {
    let p = Predefined::new();
    assert_eq!(all().count(), 70);
    for facts in all() {
        let t = p.get(facts.handle.into()).unwrap();
        assert_eq!(bounds(t), (facts.size, 0, facts.extent.cast_signed()), "{t}");
        assert_eq!((&*t.name(), t.is_committed()), (facts.name.as_bytes(), true));
        let fixed_size = matches!(facts.handle, 0x240..0x260 | 0x2c0..0x2f0);
        if fixed_size {
            assert_eq!(facts.size, 1 << (facts.handle >> 3 & 7), "{t}");
        }
        if facts.category != Category::Pair {
            assert_eq!(facts.size, facts.extent, "{t}");
        }
    }
    for none in [0, 0x1ff, 0x200, 0x204, 0x2ec, u64::MAX, 1 << 32 | 0x209] {
        assert!(p.get(none).is_none());
    }
}

#[test]
fn pair_types_are_structs_of_c() {
    for (handle, size, extent, true_extent) in [
        (0x228, 8, 8, 8),
        (0x229, 12, 16, 12),
        (0x22a, 12, 16, 12),
        (0x22b, 8, 8, 8),
        (0x22c, 6, 8, 8),
        (0x22d, 20, 32, 20),
    ] {
        let t = get(handle);
        assert_eq!((bounds(&t), t.layout().true_extent()), ((size, 0, extent), true_extent), "{t}");
    }
}

#[test]
fn constructors_give_the_bounds_of_the_standard() {
    let old = double();
    let vector = Datatype::vector(Form::Int, 3, 2, -4, &old).unwrap();
    assert_eq!(bounds(&vector), (48, -64, 80));
    let indexed = Datatype::indexed(Form::Int, &[3, 1], &[4, 0], &old).unwrap();
    assert_eq!(bounds(&indexed), (32, 0, 56));
    let blocks = Datatype::indexed_block(Form::Int, 2, &[5, 1], &old).unwrap();
    assert_eq!(bounds(&blocks), (32, 8, 48));
    let s = Datatype::structure(Form::Int, &[1, 1], &[0, 8], vec![double(), get(0x243)]).unwrap();
    assert_eq!(bounds(&s), (9, 0, 16));
    let resized = Datatype::resized(Form::Int, -3, 20, &s).unwrap();
    let twice = Datatype::resized(Form::Int, 0, 9, &resized).unwrap();
    assert_eq!((bounds(&twice), twice.layout().true_extent()), ((9, 0, 9), 9));
    let dup = Datatype::dup(&twice).unwrap();
    assert_eq!((bounds(&dup), dup.is_committed()), ((9, 0, 9), false));
    assert!(dup.check_committed().is_err());
    dup.commit();
    assert!(dup.check_committed().is_ok());
}

#[test]
fn contents_are_what_the_program_gave() {
    let old = double();
    let t = Datatype::hindexed(Form::Int, &[1, 2], &[-8, 80], &old).unwrap();
    let c = t.contents();
    assert_eq!(
        (c.combiner.to_int(), &c.integers[..], c.addresses()),
        (107, &[2, 1, 2][..], &[-8, 80][..])
    );
    let t = Datatype::hindexed(Form::Count, &[1, 2], &[-8, 80], &old).unwrap();
    let c = t.contents();
    assert_eq!((c.counts(), c.integers.len(), c.addresses().len()), (&[2, 1, 2, -8, 80][..], 0, 0));
    assert!(Arc::ptr_eq(&c.types[0], &old));
    let t = Datatype::indexed_block(Form::Int, 3, &[7, 9], &old).unwrap();
    assert_eq!(t.contents().integers[..], [2, 3, 7, 9]);
    let t = Datatype::vector(Form::Int, 3, 2, -4, &old).unwrap();
    assert_eq!(t.contents().integers[..], [3, 2, -4]);
}

#[test]
fn errors_name_the_argument_and_its_value() {
    let old = double();
    let text = |r: Result<Arc<Datatype>>| {
        let e = r.unwrap_err();
        (e.class(), e.to_string())
    };
    assert_eq!(
        text(Datatype::contiguous(Form::Int, -1, &old)),
        (abi::MPI_ERR_COUNT, "count is -1; it must not be negative".into())
    );
    assert_eq!(
        text(Datatype::indexed(Form::Int, &[1, -7], &[0, 0], &old)).1,
        "array_of_blocklengths[1] is -7; it must not be negative"
    );
    let (class, text1) = text(Datatype::vector(Form::Count, 2, 1, i64::MAX / 4, &old));
    assert_eq!(
        (class, text1.contains("stride is 2305843009213693951 elements of 8 bytes")),
        (abi::MPI_ERR_VALUE_TOO_LARGE, true)
    );
    assert_eq!(
        text(Datatype::contiguous(Form::Count, i64::MAX, &old)).0,
        abi::MPI_ERR_VALUE_TOO_LARGE
    );
    assert_eq!(text(Datatype::contiguous(Form::Int, 1 << 40, &get(0x243))).0, abi::MPI_ERR_COUNT);
    assert_eq!(text(Datatype::structure(Form::Int, &[1], &[0], vec![])).0, abi::MPI_ERR_ARG);
}

#[test]
fn large_counts_are_arithmetic() {
    let t = Datatype::contiguous(Form::Count, 1 << 33, &double()).unwrap();
    assert_eq!(bounds(&t), (1 << 36, 0, 1 << 36));
    assert_eq!(t.count_in(3 << 36), Some(3));
    assert_eq!(t.count_in((3 << 36) + 1), None);
    let none = Datatype::contiguous(Form::Int, 0, &double()).unwrap();
    assert_eq!((none.count_in(0), none.count_in(1)), (Some(0), None));
}

/// A struct of a struct and a vector of it. The result has all types, and the last one again.
fn nested() -> (Vec<Arc<Datatype>>, Arc<Datatype>) {
    let pair =
        Datatype::structure(Form::Int, &[1, 1], &[0, 12], vec![double(), get(0x209)]).unwrap();
    let indexed = Datatype::indexed(Form::Int, &[1, 2, 1], &[0, 2, 9], &pair).unwrap();
    let both = vec![Arc::clone(&indexed), double()];
    let outer = Datatype::structure(Form::Count, &[2, 0], &[8, 0], both).unwrap();
    let last = Datatype::vector(Form::Count, 3, 2, 5, &outer).unwrap();
    (vec![pair, indexed, outer, Arc::clone(&last)], last)
}

#[test]
fn a_type_that_is_only_made_and_committed_makes_nothing_else() {
    let (all, last) = nested();
    for t in &all {
        t.commit();
        assert!(t.check_committed().is_ok() && t.size() > 0 && t.bounds().true_extent() > 0);
        assert!(
            t.again().contents().types.len() + t.contents().integers.len() > 0
                && t.uniform().is_none()
        );
    }
    let untouched = |all: &[Arc<Datatype>]| {
        all.iter().all(|t| t.layout.get().is_none() && t.signature.get().is_none())
    };
    assert!(untouched(&all));
    drop(all);
    assert_eq!((last.signature().elements(), last.layout().runs().is_some()), (6 * 8 * 2, false));
    assert_eq!(last.layout().bounds(), last.bounds());
}

#[test]
fn a_dup_shares_the_layout_and_another_object_for_the_same_type_may_make_it_again() {
    let (_, last) = nested();
    let dup = Datatype::dup(&last).unwrap();
    let before = last.again();
    assert!(
        Arc::ptr_eq(dup.layout(), last.layout())
            && Arc::ptr_eq(last.again().layout(), last.layout())
    );
    assert_eq!(
        (before.layout().runs(), before.layout().bounds()),
        (last.layout().runs(), last.bounds())
    );
}

#[test]
fn arrays_of_many_dimensions_are_made_or_refused() {
    let array = |n: usize, old: &Arc<Datatype>| {
        Datatype::subarray(Form::Int, &vec![2; n], &vec![1; n], &vec![1; n], ArrayOrder::C, old)
    };
    let of_30 = array(30, &double()).unwrap();
    assert_eq!((of_30.size(), of_30.bounds().true_lb()), (8, ((1 << 30) - 1) * 8));
    assert!(of_30.layout.get().is_some() && of_30.depth == 0);
    assert!(array(20, &double()).unwrap().layout.get().is_none());
    assert_eq!(array(80, &double()).unwrap_err().class(), abi::MPI_ERR_VALUE_TOO_LARGE);
    let pair =
        Datatype::structure(Form::Int, &[1, 1], &[0, 12], vec![double(), get(0x209)]).unwrap();
    let blocks = |old: &Arc<Datatype>| {
        let places: Vec<i64> = (0..70).map(|i| i * i).collect();
        Datatype::structure(
            Form::Int,
            &[1, 1],
            &[0, 0],
            vec![Arc::clone(old), Datatype::indexed_block(Form::Int, 1, &places, &pair)?],
        )
    };
    let mut deep = Arc::clone(&pair);
    let error = (0..100_000).find_map(|_| match blocks(&deep) {
        Ok(next) => {
            deep = next;
            None
        }
        Err(error) => Some(error),
    });
    assert_eq!(error.map(|e| e.class()), Some(abi::MPI_ERR_UNSUPPORTED_OPERATION));
    assert_eq!(deep.layout().bounds(), deep.bounds());
}

#[test]
fn threads_may_be_the_first_users_at_once() {
    for _ in 0..100 {
        let (all, _) = nested();
        std::thread::scope(|scope| {
            for first in 0..4 {
                let all = &all;
                scope.spawn(move || {
                    let elements = [2, 8, 16, 96];
                    for (t, n) in all.iter().zip(elements).cycle().skip(first).take(4) {
                        assert_eq!(
                            (t.signature().elements(), t.external_size(1)),
                            (n, Some(n * 6))
                        );
                        assert_eq!(t.layout().bounds(), t.bounds());
                    }
                });
            }
        });
    }
}

#[test]
fn a_long_chain_of_types_is_used_and_freed() {
    let mut last = Arc::clone(&nested().0[0]);
    for _ in 0..20_000 {
        last = Datatype::resized(Form::Int, 0, 16, &last).unwrap();
        last = Datatype::dup(&last).unwrap();
        last = Datatype::hindexed(Form::Int, &[1], &[16], &last).unwrap();
    }
    assert_eq!((last.signature().elements(), last.layout().true_lb()), (2, 320_000));
    assert!(last.layout().runs().is_some());
}

#[test]
fn elements_of_one_type_are_recognised() {
    let old = double();
    let vector = Datatype::vector(Form::Int, 3, 2, 4, &old).unwrap();
    assert_eq!(vector.uniform().unwrap().name, "MPI_DOUBLE");
    assert!(vector.facts().is_none() && vector.scalar().is_none());
    let both = vec![Arc::clone(&vector), get(0x209)];
    assert!(
        Datatype::structure(Form::Int, &[1, 1], &[0, 200], both.clone())
            .unwrap()
            .uniform()
            .is_none()
    );
    assert!(Datatype::structure(Form::Int, &[1, 0], &[0, 200], both).unwrap().uniform().is_some());
}

#[test]
fn the_table_of_plain_sizes_says_what_the_layouts_say() {
    use crate::predefined::{Predefined, all, plain_size};
    let types = Predefined::new();
    for facts in all() {
        let handle = u64::from(facts.handle);
        let layout = types.get(handle).unwrap().layout().clone();
        let plain = layout.is_contiguous().then(|| layout.size());
        assert_eq!(plain_size(handle), plain, "{}", facts.name);
    }
    assert_eq!([0, 511, 4096, u64::MAX].map(plain_size), [None; 4]);
}
