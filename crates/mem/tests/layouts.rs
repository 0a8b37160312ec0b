//! Layouts whose bounds are easy to get wrong, and numbers near the limits.

use oxmpi_mem::layout::{BlockRun, Layout, LayoutError};
use oxmpi_mem::memory::{Owned, Scratch, lend, lend_many, lend_mut, view, zeros};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::sync::Arc;

fn double() -> Layout {
    Layout::basic(8, 8)
}

fn bounds(l: &Layout) -> (isize, isize, isize, isize) {
    (l.lb(), l.extent(), l.true_lb(), l.true_extent())
}

#[test]
fn a_struct_is_padded_as_c_does() {
    let char = Layout::basic(1, 1);
    let s = Layout::structure([(1, 0, &double()), (1, 8, &char)]).unwrap();
    assert_eq!((s.size(), bounds(&s)), (9, (0, 16, 0, 9)));
    let reversed = Layout::structure([(1, 0, &char), (1, 8, &double())]).unwrap();
    assert_eq!((reversed.size(), bounds(&reversed)), (9, (0, 16, 0, 16)));
    let three = Layout::contiguous(3, &s).unwrap();
    assert_eq!((three.size(), bounds(&three)), (27, (0, 48, 0, 41)));
    assert!(!s.is_contiguous());
}

#[test]
fn bounds_may_be_negative() {
    let back = Layout::hvector(3, 1, -16, &double()).unwrap();
    assert_eq!((back.size(), bounds(&back)), (24, (-32, 40, -32, 40)));
    let shrinking = Layout::resized(0, -8, &double()).unwrap();
    let row = Layout::contiguous(3, &shrinking).unwrap();
    assert_eq!((row.true_lb(), row.true_extent()), (-16, 24));
}

#[test]
fn resized_of_resized_forgets_the_first() {
    let once = Layout::resized(-8, 64, &double()).unwrap();
    let twice = Layout::resized(-4, 32, &once).unwrap();
    assert_eq!(bounds(&twice), (-4, 32, 0, 8));
    // Explicit bounds of a member replace those of the data of the others.
    let s = Layout::structure([(1, 0, &twice), (1, 100, &double())]).unwrap();
    assert_eq!(bounds(&s), (-4, 32, 0, 108));
    let back = Layout::resized(0, 8, &twice).unwrap();
    assert!(back.is_contiguous() && !twice.is_contiguous());
}

#[test]
fn regular_patterns_are_one_run() {
    let vector = Layout::hvector(1000, 1, 16, &double()).unwrap();
    assert_eq!(
        vector.runs(),
        Some(vec![BlockRun { offset: 0, block: 8, count: 1000, stride: 16 }])
    );
    let contiguous = Layout::contiguous(1000, &Layout::contiguous(10, &double()).unwrap()).unwrap();
    assert_eq!(
        contiguous.runs(),
        Some(vec![BlockRun { offset: 0, block: 80_000, count: 1, stride: 0 }])
    );
    assert!(contiguous.is_contiguous());
    let indexed = Layout::hindexed((0..500).map(|i| (1, i * 24)), &double()).unwrap();
    assert_eq!(
        indexed.runs(),
        Some(vec![BlockRun { offset: 0, block: 8, count: 500, stride: 24 }])
    );
    let touching = Layout::hindexed([(1, 0), (1, 16), (2, 24)], &double()).unwrap();
    assert_eq!(touching.runs().map(|r| r.len()), Some(2));
    let filled = Layout::hvector(10, 2, 16, &double()).unwrap();
    assert!(filled.is_contiguous());
    let plane = Layout::hvector(10, 1, 160, &Layout::resized(0, 160, &vector).unwrap()).unwrap();
    assert_eq!(plane.size(), 80_000);
}

#[test]
fn irregular_blocks_are_lists_and_what_is_regular_among_them_is_not() {
    let place = |i: usize| (i * i + 2 * i).cast_signed() * 8;
    let run = |offset, block, count, stride| BlockRun { offset, block, count, stride };
    let equal = Layout::hindexed((0..100).map(|i| (1, place(i))), &double()).unwrap();
    let runs = equal.runs().unwrap();
    assert_eq!((runs.len(), runs[3]), (100, run(place(3), 8, 1, 0)));
    let several = Layout::hindexed((0..100).map(|i| (1 + i % 2, place(i))), &double()).unwrap();
    assert_eq!(several.runs().unwrap()[3], run(place(3), 16, 1, 0));
    // 9 irregular blocks, 50 regular ones, 9 irregular ones.
    let places =
        (1..10).map(place).chain((0..50).map(|i| 10_000 + 24 * i)).chain((40..49).map(place));
    let mixed = Layout::hindexed(places.map(|at| (1, at)), &double()).unwrap();
    assert_eq!(mixed.runs().unwrap()[9], run(10_000, 8, 50, 24));
    assert_eq!(mixed.runs().unwrap().len(), 19);
    // Repeated and shifted, between other members.
    let all = [(1, 5, &Layout::basic(1, 1)), (2, 64, &equal), (1, 200_000, &several)];
    let whole = Layout::structure(all).unwrap();
    assert_eq!((whole.size(), whole.true_lb(), whole.runs()), (1 + 1600 + 1200, 5, None));
}

#[test]
fn bounds_alone_are_those_of_the_layout() {
    let (old, list) =
        (Layout::resized(-8, 24, &double()).unwrap(), [(2, 5), (0, 1 << 40), (3, -7)]);
    let in_bytes = list.map(|(n, at)| (n, at * old.extent()));
    let indexed = Layout::hindexed(in_bytes, &old).unwrap();
    assert_eq!(old.bounds().indexed(list).unwrap(), *indexed.bounds());
    assert_eq!(old.bounds().hindexed(in_bytes).unwrap(), *indexed.bounds());
    let back = Layout::resized(0, -24, &old).unwrap();
    let indexed = Layout::hindexed(list.map(|(n, at)| (n, at * -24)), &back).unwrap();
    assert_eq!(back.bounds().indexed(list).unwrap(), *indexed.bounds());
    for bad in [vec![(1, isize::MAX)], vec![(2, isize::MAX / 24)], vec![(usize::MAX, 0), (1, 0)]] {
        assert!(old.bounds().indexed(bad).is_err());
    }
    assert!(old.bounds().hindexed([(1 << 62, 0), (1 << 62, 0)]).is_err());
    let empty = Layout::contiguous(0, &old).unwrap();
    assert_eq!(empty.bounds().hindexed([(9, isize::MAX)]).unwrap(), *empty.bounds());
}

#[test]
fn nothing_is_a_datatype_too() {
    let none = Layout::contiguous(0, &double()).unwrap();
    assert_eq!((none.size(), bounds(&none)), (0, (0, 0, 0, 0)));
    assert!(none.is_contiguous());
    let spaced = Layout::resized(-8, 24, &none).unwrap();
    let row = Layout::contiguous(4, &spaced).unwrap();
    assert_eq!((row.size(), bounds(&row)), (0, (-8, 96, 0, 0)));
    let scratch = Scratch::new(1 << 40, &Arc::new(row)).unwrap();
    scratch.buf().pack(0, BytesMut::from(&mut [][..]));
    assert_eq!((scratch.buf().packed_len(), scratch.buf().as_contiguous().unwrap().len()), (0, 0));
    assert_eq!(Layout::structure([]).unwrap().size(), 0);
    assert_eq!(Layout::hindexed([(0, 5), (0, -5)], &double()).unwrap().size(), 0);
}

#[test]
fn counts_beyond_31_bits_are_arithmetic() {
    let big = Layout::contiguous(1 << 40, &double()).unwrap();
    assert_eq!((big.size(), big.extent()), (1 << 43, 1 << 43));
    let s = Layout::structure([(1, 0, &double()), (1, 8, &Layout::basic(1, 1))]).unwrap();
    let many = Layout::contiguous(1 << 40, &s).unwrap();
    assert_eq!((many.size(), many.extent()), (9 << 40, 16 << 40));
    let wide = Layout::hvector(1 << 20, 1, 1 << 42, &double()).unwrap();
    assert_eq!(wide.extent(), ((1 << 20) - 1) * (1 << 42) + 8);
    assert_eq!(wide.packed_len(1 << 40), Err(LayoutError::Overflow { what: "packed size" }));
}

#[test]
fn what_does_not_fit_is_an_error() {
    let overflow = |what| LayoutError::Overflow { what };
    let big = Layout::contiguous(1 << 59, &double()).unwrap();
    assert_eq!(Layout::contiguous(2, &big).unwrap_err(), overflow("size"));
    assert_eq!(Layout::contiguous(usize::MAX, &double()).unwrap_err(), overflow("size"));
    assert_eq!(
        Layout::hvector(3, 1, isize::MAX / 2 + 1, &double()).unwrap_err(),
        overflow("extent")
    );
    assert_eq!(Layout::hvector(2, 1, isize::MAX, &double()).unwrap_err(), overflow("extent"));
    assert_eq!(
        Layout::hindexed([(1, isize::MIN), (1, 100)], &double()).unwrap_err(),
        overflow("extent")
    );
    assert_eq!(Layout::resized(isize::MAX, 1, &double()).unwrap_err(), overflow("upper bound"));
    assert_eq!(big.packed_len(4).unwrap_err(), overflow("packed size"));
    let one = Layout::hindexed([(1, isize::MAX - 8)], &double()).unwrap();
    assert_eq!(Layout::resized(isize::MIN, 0, &one).unwrap().extent(), 0);
    assert!(Layout::structure([(1, isize::MIN, &Layout::resized(0, 8, &one).unwrap())]).is_ok());
}

#[test]
fn nesting_has_a_limit_and_an_error() {
    let pair = Layout::structure([(1, 0, &double()), (1, 8, &Layout::basic(1, 1))]).unwrap();
    let mut deep = pair.dup();
    let error = (0..100_000).find_map(|_| {
        // Irregular blocks, too many to be copied into the next program.
        let blocks = (0..70).map(|i| (1, i * i));
        let blocks = Layout::hindexed(blocks, &pair).unwrap();
        match Layout::structure([(1, 0, &deep), (1, 0, &blocks)]) {
            Ok(next) => deep = next,
            Err(e) => return Some(e),
        }
        None
    });
    assert_eq!(error, Some(LayoutError::TooDeep));
    let scratch = Scratch::new(1, &Arc::new(deep)).unwrap();
    let mut out = vec![1; scratch.buf().packed_len()];
    scratch.buf().pack(0, BytesMut::from(&mut out[..]));
    assert!(out.iter().all(|&b| b == 0));
    let mut wrapped = pair;
    for _ in 0..100_000 {
        wrapped = Layout::contiguous(1, &wrapped).unwrap();
        wrapped = Layout::hindexed([(1, 8)], &wrapped).unwrap();
    }
    assert_eq!((wrapped.size(), wrapped.true_lb()), (9, 800_000));
    assert_eq!(wrapped.runs().map(|runs| (runs.len(), runs[0].offset)), Some((1, 800_000)));
}

#[test]
fn lent_slices_are_packed_and_written() {
    let numbers = [1u32, 2, 3, 4];
    let mut out = [0u32; 4];
    lend(&numbers, |from| {
        lend_mut(&mut out, |to| {
            assert_eq!((from.count(), from.element_size(), from.packed_len()), (4, 4, 16));
            to.copy_from(4, &from, 8, 8);
        });
    });
    assert_eq!(out, [0, 3, 4, 0]);
}

#[test]
fn many_slices_are_lent_for_one_scope() {
    let numbers = [1u16, 2, 3];
    let mut out = [[0u16; 2]; 3];
    let sum = lend_many(|lender| {
        let from = lender.lend(&numbers);
        let to: Vec<_> = out.iter_mut().map(|o| lender.lend_mut(o)).collect();
        for (at, to) in to.iter().enumerate() {
            to.copy_from(2, &from, at * 2, 2);
        }
        numbers.iter().sum::<u16>()
    });
    assert_eq!(view(&numbers).to_vec(), [1u16, 2, 3].map(u16::to_ne_bytes).as_flattened());
    assert_eq!((out, sum), ([[0, 1], [0, 2], [0, 3]], 6));
}

#[test]
fn zeros_are_made_or_refused() {
    assert_eq!(zeros::<u32>(3).unwrap(), [0, 0, 0]);
    assert_eq!(zeros::<f64>(0).unwrap(), [0.0; 0]);
    assert_eq!(zeros::<[u64; 0]>(usize::MAX).unwrap().len(), usize::MAX);
    assert!(zeros::<u64>(usize::MAX).is_err());
    assert!(zeros::<u8>(isize::MAX as usize).is_err());
}

#[test]
#[should_panic(expected = "lent for reading is written")]
fn a_slice_lent_for_reading_is_not_written() {
    lend(&[1u8], |buf| buf.unpack(0, Bytes::from(&[2])));
}

#[test]
#[should_panic(expected = "packed bytes 3+2 of a buffer of 4")]
fn packing_past_the_end_is_refused() {
    lend(&[1u32], |buf| buf.pack(3, BytesMut::from(&mut [0, 0][..])));
}

#[test]
fn an_owned_vector_comes_back_when_nobody_uses_it() {
    let mut owned = Owned::new(vec![1u16, 2, 3]);
    let buf = owned.buf();
    assert!(owned.as_slice().is_none());
    let owned = owned.into_vec().err().unwrap();
    std::thread::spawn(move || buf.unpack(2, Bytes::from(&[9, 0]))).join().unwrap();
    assert_eq!(owned.into_vec().ok().unwrap(), [1, 9, 3]);
    assert_eq!(Owned::new(Vec::<u64>::new()).into_vec().ok().unwrap(), []);
    let kept = Owned::new(vec![7u8]).buf();
    assert_eq!(kept.as_contiguous().unwrap().to_vec(), [7]);
}

#[test]
#[ignore = "aborts: run by a_kept_loan_ends_the_process"]
fn keeps_a_loan() {
    let _kept = lend(&[1u8], |buf| buf);
}

#[test]
#[ignore = "aborts: run by a_kept_loan_ends_the_process"]
fn keeps_one_of_many() {
    let _kept = lend_many(|lender| [lender.lend(&[1u8]), lender.lend(&[2u8])]);
}

#[test]
fn a_kept_loan_ends_the_process() {
    for test in ["keeps_a_loan", "keeps_one_of_many"] {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .output()
            .unwrap();
        assert!(!child.status.success());
        let text = String::from_utf8_lossy(&child.stderr).into_owned();
        assert!(text.contains("still in use after it"), "{text}");
    }
}
