//! Rust types as layouts: the bytes between members are neither read nor written.

use oxmpi_mem::element::{Element, ElementShape, Member, layout_of};
use oxmpi_mem::memory::{lend, lend_buffer, lend_buffer_mut, lend_mut};
use oxmpi_mem::regions::{Strided, StridedMut};
use std::mem::offset_of;

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Padded {
    a: u8,
    b: u32,
    c: u8,
}

// SAFETY: these are all members, at their offsets.
unsafe impl Element for Padded {
    const SHAPE: ElementShape = ElementShape::structure::<Padded>(&[
        Member::of::<u8>(offset_of!(Padded, a)),
        Member::of::<u32>(offset_of!(Padded, b)),
        Member::of::<u8>(offset_of!(Padded, c)),
    ]);
}

/// The memory of two values whose padding is 0xaa.
#[repr(C, align(4))]
struct Memory([u8; 24]);

const VALUE: [u8; 12] = [1, 0xaa, 0xaa, 0xaa, 2, 3, 4, 5, 6, 0xaa, 0xaa, 0xaa];

impl Memory {
    fn values(&mut self) -> &mut [Padded] {
        // SAFETY: the memory is aligned for two values, and any data bytes are values.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), 2) }
    }
}

#[test]
fn padding_is_neither_read_nor_written() {
    let mut memory = Memory([0; 24]);
    memory.0[..12].copy_from_slice(&VALUE);
    memory.0[12..].copy_from_slice(&VALUE);
    let mut packed = [0u8; 12];
    lend(memory.values(), |from| {
        assert_eq!((from.count(), from.element_size(), from.extent()), (2, 6, 12));
        assert!(from.as_contiguous().is_none());
        lend_mut(&mut packed, |to| to.copy_from(0, &from, 0, 12));
    });
    assert_eq!(packed, [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]);
    lend(&[9u8; 12], |from| lend_mut(memory.values(), |to| to.copy_from(0, &from, 0, 12)));
    let after = VALUE.map(|byte| if byte == 0xaa { 0xaa } else { 9 });
    assert_eq!(memory.0.as_chunks::<12>().0, [after; 2]);
}

#[test]
fn shapes_know_their_data() {
    const { assert!(Padded::SHAPE.data_bytes() == 6 && !Padded::SHAPE.is_whole()) };
    const { assert!(<[Padded; 3]>::SHAPE.data_bytes() == 18) };
    const { assert!(<[u16; 5]>::SHAPE.is_whole() && <(f64, f64)>::SHAPE.is_whole()) };
    const { assert!(<(u8, u64)>::SHAPE.data_bytes() == 9 && !<(u8, u64)>::SHAPE.is_whole()) };
    const { assert!(<[(u8, u64); 0]>::SHAPE.data_bytes() == 0) };
    let layout = layout_of::<[Padded; 3]>();
    assert_eq!((layout.size(), layout.extent(), layout.lb()), (18, 36, 0));
    assert!(std::sync::Arc::ptr_eq(&layout, &layout_of::<[Padded; 3]>()), "it is made once");
    assert!(layout_of::<u32>().is_contiguous());
}

#[test]
fn rectangles_are_their_elements_row_by_row() {
    let mut matrix: Vec<u16> = (0..20).collect();
    let mut packed = [0u16; 6];
    lend_buffer(&Strided::new(&matrix, 5).part(1..3, 2..), |from| {
        lend_mut(&mut packed, |to| to.copy_from(0, &from, 0, 12));
    });
    assert_eq!(packed, [7, 8, 9, 12, 13, 14]);
    let (mut left, mut right) = StridedMut::new(&mut matrix, 5).split_at_column(2);
    lend(&[100u16; 8], |from| lend_buffer_mut(&mut left, |to| to.copy_from(0, &from, 0, 16)));
    lend(&[200u16; 3], |from| {
        lend_buffer_mut(&mut right.part(3.., ..), |to| to.copy_from(0, &from, 0, 6))
    });
    assert_eq!(right.row(0), [2, 3, 4]);
    let row = |n| [100, 100, n, n + 1, n + 2];
    assert_eq!(matrix.as_chunks::<5>().0, [row(2), row(7), row(12), [100, 100, 200, 200, 200]]);
    let rows = StridedMut::new(&mut matrix, 5).split_at_row(3);
    assert_eq!((rows.0.rows(), rows.1.rows(), rows.1.row(0)[4]), (3, 1, 200));
}

#[test]
#[should_panic(expected = "20 elements are no rows of 6")]
fn rows_are_whole() {
    Strided::new(&[0u8; 20], 6);
}

#[test]
#[should_panic(expected = "rows 1..3 and columns 2..6 of 4 rows of 5 columns")]
fn a_part_lies_inside() {
    Strided::new(&[0u8; 20], 5).part(1..3, 2..6);
}
