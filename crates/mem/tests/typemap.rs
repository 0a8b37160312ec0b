//! Layouts and packing against a naive model: the type map of MPI-5.0 section 5.1, one entry per
//! byte.

#![allow(clippy::unwrap_used, reason = "a test's own helpers")]

use oxmpi_mem::buffer::Cursor;
use oxmpi_mem::layout::Layout;
use oxmpi_mem::memory::{Owned, Scratch};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Recipe {
    Basic(usize),
    Contiguous(usize, Box<Recipe>),
    Vector(usize, usize, isize, Box<Recipe>),
    Indexed(Vec<(usize, isize)>, Box<Recipe>),
    Struct(Vec<(usize, isize, Recipe)>),
    Resized(isize, isize, Box<Recipe>),
    Dup(Box<Recipe>),
}

impl Recipe {
    fn layout(&self) -> Layout {
        match self {
            Recipe::Basic(size) => Layout::basic(*size, 1 << size.trailing_zeros()),
            Recipe::Contiguous(n, t) => Layout::contiguous(*n, &t.layout()).unwrap(),
            Recipe::Vector(n, block, stride, t) => {
                Layout::hvector(*n, *block, *stride, &t.layout()).unwrap()
            }
            Recipe::Indexed(blocks, t) => {
                Layout::hindexed(blocks.iter().copied(), &t.layout()).unwrap()
            }
            Recipe::Struct(members) => {
                let members: Vec<_> =
                    members.iter().map(|(n, at, t)| (*n, *at, t.layout())).collect();
                Layout::structure(members.iter().map(|(n, at, t)| (*n, *at, t))).unwrap()
            }
            Recipe::Resized(lb, extent, t) => Layout::resized(*lb, *extent, &t.layout()).unwrap(),
            Recipe::Dup(t) => t.layout().dup(),
        }
    }
}

/// The type map: the position of each packed byte, and the markers.
#[derive(Clone, Default, Debug)]
struct TypeMap {
    bytes: Vec<isize>,
    /// (lower bound, upper bound) of explicit bounds.
    marks: Vec<(isize, isize)>,
    bounds: Vec<(isize, isize)>,
    align: isize,
    /// Whether it is padded as by a C compiler.
    padded: bool,
}

impl TypeMap {
    fn lb(&self) -> isize {
        let lowest_mark = self.marks.iter().map(|m| m.0).min();
        lowest_mark.or(self.bounds.iter().map(|b| b.0).min()).unwrap_or(0)
    }

    fn ub(&self) -> isize {
        if let Some(mark) = self.marks.iter().map(|m| m.1).max() {
            return mark;
        }
        let Some(mut ub) = self.bounds.iter().map(|b| b.1).max() else { return 0 };
        while self.padded && (ub - self.lb()) % self.align != 0 {
            ub += 1;
        }
        ub
    }

    fn add(&mut self, count: usize, stride: isize, at: isize, child: &TypeMap) {
        for i in 0..count as isize {
            self.bytes.extend(child.bytes.iter().map(|b| b + at + i * stride));
            let by = at + i * stride;
            self.marks.extend(child.marks.iter().map(|m| (m.0 + by, m.1 + by)));
            if !child.bytes.is_empty() {
                self.align = self.align.max(child.align);
                self.bounds.push((child.lb() + by, child.ub() + by));
            }
        }
    }

    fn of(recipe: &Recipe) -> TypeMap {
        let mut map = TypeMap { align: 1, ..TypeMap::default() };
        match recipe {
            Recipe::Basic(size) => {
                map.bytes = (0..*size as isize).collect();
                map.bounds = vec![(0, *size as isize)];
                map.align = 1 << size.trailing_zeros();
            }
            Recipe::Contiguous(n, t) => {
                let t = TypeMap::of(t);
                map.add(*n, t.ub() - t.lb(), 0, &t);
            }
            Recipe::Vector(n, block, stride, t) => {
                let t = TypeMap::of(t);
                for i in 0..*n as isize {
                    map.add(*block, t.ub() - t.lb(), i * stride, &t);
                }
            }
            Recipe::Indexed(blocks, t) => {
                let t = TypeMap::of(t);
                blocks.iter().for_each(|&(n, at)| map.add(n, t.ub() - t.lb(), at, &t));
            }
            Recipe::Struct(members) => {
                map.padded = true;
                for (n, at, t) in members {
                    let t = TypeMap::of(t);
                    map.add(*n, t.ub() - t.lb(), *at, &t);
                }
            }
            Recipe::Resized(lb, extent, t) => {
                map = TypeMap::of(t);
                map.marks = vec![(*lb, lb + extent)];
            }
            Recipe::Dup(t) => map = TypeMap::of(t),
        }
        map
    }
}

fn recipes() -> impl Strategy<Value = Recipe> {
    let basic = prop::sample::select(vec![1usize, 2, 3, 4, 5, 8, 12, 16, 24, 40, 100])
        .prop_map(Recipe::Basic);
    basic.prop_recursive(4, 24, 3, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let block = (0usize..4, -60isize..200);
        let equal = (1usize..3, prop::collection::vec(-90isize..300, 6..24))
            .prop_map(|(n, places)| places.into_iter().map(|at| (n, at)).collect::<Vec<_>>());
        let blocks = prop_oneof![
            3 => prop::collection::vec(block.clone(), 0..6),
            1 => prop::collection::vec(block, 6..24),
            1 => equal,
        ];
        prop_oneof![
            (0usize..6, boxed.clone()).prop_map(|(n, t)| Recipe::Contiguous(n, t)),
            (0usize..6, 0usize..4, -60isize..200, boxed.clone())
                .prop_map(|(n, block, stride, t)| Recipe::Vector(n, block, stride, t)),
            (blocks, boxed.clone()).prop_map(|(b, t)| Recipe::Indexed(b, t)),
            prop::collection::vec((0usize..3, -60isize..200, inner), 0..4).prop_map(Recipe::Struct),
            (-40isize..40, -40isize..150, boxed.clone())
                .prop_map(|(lb, e, t)| Recipe::Resized(lb, e, t)),
            boxed.prop_map(Recipe::Dup),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) })]

    #[test]
    fn bounds_equal_those_of_the_type_map(recipe in recipes()) {
        let (layout, map) = (recipe.layout(), TypeMap::of(&recipe));
        prop_assert_eq!(layout.size(), map.bytes.len());
        prop_assert_eq!((layout.lb(), layout.extent()), (map.lb(), map.ub() - map.lb()));
        let first = map.bytes.iter().copied().min().unwrap_or(0);
        let last = map.bytes.iter().copied().max().map_or(0, |b| b + 1);
        prop_assert_eq!((layout.true_lb(), layout.true_extent()), (first, last - first));
        if layout.is_contiguous() {
            prop_assert!(map.bytes.iter().enumerate().all(|(i, &b)| b == i as isize));
        }
    }

    #[test]
    fn what_another_process_reads_is_the_same_layout(recipe in recipes()) {
        let layout = recipe.layout();
        let mut words = Vec::new();
        layout.write(&mut words);
        let read = Layout::read(&mut &words[..]).unwrap();
        prop_assert_eq!((read.lb(), read.extent(), read.size()), (layout.lb(), layout.extent(), layout.size()));
        prop_assert_eq!((read.true_lb(), read.true_extent()), (layout.true_lb(), layout.true_extent()));
        // Adjacent blocks may be joined in one layout and not in the other.
        let bytes = |layout: &Layout| -> Vec<isize> {
            layout.blocks_from(0).flat_map(|b| b.offset..b.offset + b.len.cast_signed()).collect()
        };
        prop_assert_eq!(bytes(&read), bytes(&layout));
    }

    #[test]
    fn blocks_are_found_from_any_packed_byte(recipe in recipes(), from in 0.0f64..1.0) {
        let (layout, map) = (recipe.layout(), TypeMap::of(&recipe));
        let from = (from * map.bytes.len() as f64) as usize;
        let bytes: Vec<isize> =
            layout.blocks_from(from).flat_map(|b| b.offset..b.offset + b.len.cast_signed()).collect();
        prop_assert_eq!(&bytes[..], &map.bytes[from..]);
        if let Some(order) = layout.order() {
            let mut distinct = map.bytes.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert!(!order.disjoint || distinct.len() == map.bytes.len());
            prop_assert_eq!(order.end, distinct.last().copied().map_or(0, |last| last + 1));
        }
    }

    #[test]
    fn any_packed_range_equals_the_naive_one(
        recipe in recipes(),
        count in prop_oneof![4 => 0usize..7, 1 => 200usize..300],
        cuts in prop::collection::vec(0.0f64..1.0, 0..6),
    ) {
        let (layout, map) = (Arc::new(recipe.layout()), TypeMap::of(&recipe));
        let extent = layout.extent();
        let places: Vec<isize> =
            (0..count as isize).flat_map(|e| map.bytes.iter().map(move |b| b + e * extent)).collect();
        prop_assume!(places.len() < 100_000);
        let (from, to) = layout.span(count).unwrap();
        prop_assert_eq!(from, places.iter().copied().min().unwrap_or(0));
        prop_assert_eq!(to, places.iter().copied().max().map_or(0, |b| b + 1));

        // A user's memory with known bytes, seen through the layout.
        let guard = 64;
        let memory: Vec<u8> = (0..(to - from) as usize + 2 * guard).map(|i| (i % 251) as u8).collect();
        let owned = Owned::new(memory.clone());
        let window = owned.buf().elements(guard, (to - from) as usize);
        let shifted = Arc::new(Layout::structure([(1, -from, &*layout)]).unwrap());
        let shifted = Arc::new(Layout::resized(layout.lb(), extent, &shifted).unwrap());
        let buf = window.cast(count, &shifted).unwrap();
        let naive: Vec<u8> = places.iter().map(|p| memory[guard + (p - from) as usize]).collect();
        prop_assert_eq!(buf.packed_len(), naive.len());

        let mut cuts: Vec<usize> = cuts.iter().map(|c| (c * naive.len() as f64) as usize).collect();
        cuts.extend([0, naive.len()]);
        cuts.sort_unstable();
        // In order by one cursor, and each part alone, last first.
        let mut cursor = Cursor::default();
        let mut packed = vec![0; naive.len()];
        for w in cuts.windows(2) {
            buf.pack_next(&mut cursor, BytesMut::from(&mut packed[w[0]..w[1]]));
        }
        prop_assert_eq!(&packed, &naive);
        for w in cuts.windows(2).rev() {
            let mut part = vec![0; w[1] - w[0]];
            buf.pack(w[0], BytesMut::from(&mut part[..]));
            prop_assert_eq!(&part[..], &naive[w[0]..w[1]]);
        }

        // Unpacking writes only these bytes. (Where data overlap, any of the values may win.)
        let unique = { let mut p = places.clone(); p.sort_unstable(); p.windows(2).all(|w| w[0] != w[1]) };
        let fresh: Vec<u8> = (0..naive.len()).map(|i| 255 - (i % 249) as u8).collect();
        let mut cursor = Cursor::default();
        for w in cuts.windows(2) {
            buf.unpack_next(&mut cursor, Bytes::from(&fresh[w[0]..w[1]]));
        }
        let scratch = Scratch::new(count, &layout).unwrap();
        for w in cuts.windows(2).rev() {
            scratch.buf().unpack(w[0], Bytes::from(&fresh[w[0]..w[1]]));
        }
        let again = Scratch::new(count, &layout).unwrap();
        again.buf().copy_from(0, scratch.buf(), 0, naive.len());
        if unique {
            let mut back = vec![0; fresh.len()];
            again.buf().pack(0, BytesMut::from(&mut back[..]));
            prop_assert_eq!(&back, &fresh);
        }
        drop((buf, window));
        let after = owned.into_vec().map_err(|_| TestCaseError::fail("still in use"))?;
        let mut written = vec![false; after.len()];
        for (i, p) in places.iter().enumerate() {
            let at = guard + (p - from) as usize;
            written[at] = true;
            if unique {
                prop_assert_eq!(after[at], fresh[i]);
            }
        }
        prop_assert!((0..after.len()).all(|i| written[i] || after[i] == memory[i]));
    }

    #[test]
    fn elements_are_parts_of_the_packed_form(recipe in recipes(), start in 0usize..4, len in 0usize..4) {
        let layout = Arc::new(recipe.layout());
        let all = Scratch::new(7, &layout).unwrap();
        let fresh: Vec<u8> = (0..all.buf().packed_len()).map(|i| (i % 249) as u8).collect();
        all.buf().unpack(0, Bytes::from(&fresh[..]));
        let mut whole = vec![0; fresh.len()];
        all.buf().pack(0, BytesMut::from(&mut whole[..]));
        let part = all.buf().elements(start, len);
        let mut packed = vec![0; part.packed_len()];
        part.pack(0, BytesMut::from(&mut packed[..]));
        prop_assert_eq!(&packed[..], &whole[start * layout.size()..][..packed.len()]);
        if let Some(bytes) = part.as_contiguous() {
            prop_assert_eq!(bytes.to_vec(), packed);
        }
    }
}
