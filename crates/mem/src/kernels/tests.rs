use super::*;
use crate::layout::Layout;
use crate::memory::{Owned, lend, lend_mut};
use Scalar::*;
use std::sync::Arc;

/// Runs a kernel at an odd address, onto the right operand and into separate memory.
fn run(op: ReduceOp, scalar: Scalar, left: &[u8], right: &[u8]) -> Vec<u8> {
    let mut out = vec![0u8; right.len() + 1];
    out[1..].copy_from_slice(right);
    let kernel = kernel(op, scalar).unwrap();
    kernel.apply(Bytes::from(left), BytesMut::from(&mut out[1..]));
    let mut apart = vec![0x5a_u8; right.len() + 1];
    kernel.apply_apart(Bytes::from(left), Bytes::from(right), BytesMut::from(&mut apart[1..]));
    assert_eq!(apart[1..], out[1..], "{op:?} of {scalar:?}, apart");
    let same = Owned::new(right.to_vec());
    let buffer = same.buf();
    let (operand, result) = (buffer.as_contiguous().unwrap(), buffer.as_contiguous_mut().unwrap());
    kernel.apply_apart(Bytes::from(left), operand, result);
    drop(buffer);
    assert_eq!(
        same.into_vec().ok().unwrap(),
        out[1..],
        "{op:?} of {scalar:?}, where the right operand lies"
    );
    out.remove(0);
    out
}

macro_rules! against_naive {
    ($t:ty, $scalar:expr, [$($op:ident => |$a:ident, $b:ident| $naive:expr),* $(,)?]) => {{
        // Lengths around the width of vector registers, with a remainder.
        for n in [0usize, 1, 7, 67] {
            let left: Vec<$t> = (0..n).map(|i| ((i * 37 + 11) % 101) as $t).collect();
            let right: Vec<$t> = (0..n).map(|i| ((i * 53 + 5) % 103) as $t).collect();
            let bytes = |v: &[$t]| v.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>();
            $({
                let naive: Vec<$t> = left.iter().zip(&right).map(|(&$a, &$b)| $naive).collect();
                let found = run(ReduceOp::$op, $scalar, &bytes(&left), &bytes(&right));
                assert_eq!(found, bytes(&naive), "{:?} of {:?}", ReduceOp::$op, $scalar);
            })*
        }
    }};
}

macro_rules! integers_against_naive {
    ($($t:ty, $scalar:expr;)*) => {
        $(against_naive!($t, $scalar, [
            Sum => |a, b| a.wrapping_add(b),
            Prod => |a, b| a.wrapping_mul(b),
            Min => |a, b| a.min(b),
            Max => |a, b| a.max(b),
            Band => |a, b| a & b,
            Bor => |a, b| a | b,
            Bxor => |a, b| a ^ b,
            Land => |a, b| <$t>::from(a != 0 && b != 0),
            Lor => |a, b| <$t>::from(a != 0 || b != 0),
            Lxor => |a, b| <$t>::from((a != 0) != (b != 0)),
            Replace => |a, _b| a,
            NoOp => |_a, b| b,
        ]);)*
    };
}

#[test]
fn integers_equal_the_naive_result() {
    integers_against_naive!(i8, I8; i16, I16; i32, I32; i64, I64; i128, I128; u8, U8; u16, U16; u32, U32; u64, U64;);
}

#[test]
fn floats_equal_the_naive_result() {
    against_naive!(f32, F32, [Sum => |a, b| a + b, Prod => |a, b| a * b, Min => |a, b| a.min(b), Max => |a, b| a.max(b)]);
    against_naive!(f64, F64, [Sum => |a, b| a + b, Prod => |a, b| a * b, Min => |a, b| a.min(b), Max => |a, b| a.max(b)]);
}

#[test]
fn truth_values_become_0_or_1() {
    against_naive!(u8, Bool8, [
        Land => |a, b| u8::from(a != 0 && b != 0),
        Lor => |a, b| u8::from(a != 0 || b != 0),
        Lxor => |a, b| u8::from((a != 0) != (b != 0)),
    ]);
    assert_eq!(run(ReduceOp::Lxor, Bool32, &[4, 0, 0, 0], &[0, 0, 0, 0]), [1, 0, 0, 0]);
    assert_eq!(run(ReduceOp::Land, Bool128, &[9; 16], &[2; 16]), 1u128.to_ne_bytes());
}

#[test]
fn complex_numbers_multiply() {
    let bytes = |v: [f64; 2]| v.map(f64::to_ne_bytes).concat();
    assert_eq!(
        run(ReduceOp::Prod, C64, &bytes([1.0, 2.0]), &bytes([3.0, 4.0])),
        bytes([-5.0, 10.0])
    );
    assert_eq!(run(ReduceOp::Sum, C64, &bytes([1.0, 2.0]), &bytes([3.0, 4.0])), bytes([4.0, 6.0]));
    assert!(kernel(ReduceOp::Min, C64).is_none() && kernel(ReduceOp::Band, F64).is_none());
}

/// A small integer as an 80-bit float in 16 bytes, with padding bytes `pad`.
fn f80(value: i64, pad: u8) -> Vec<u8> {
    let mut out = vec![pad; 16];
    out[..10].fill(0);
    if value != 0 {
        let magnitude = value.unsigned_abs();
        let shift = magnitude.leading_zeros();
        out[..8].copy_from_slice(&(magnitude << shift).to_le_bytes());
        let exponent = (16383 + 63 - shift as u16) | if value < 0 { 0x8000 } else { 0 };
        out[8..10].copy_from_slice(&exponent.to_le_bytes());
    }
    out
}

#[test]
#[cfg(target_arch = "x86_64")]
fn long_doubles_compute_and_keep_their_padding() {
    let (a, b) = (f80(-3, 0xaa), f80(5, 0xbb));
    for (op, result) in [
        (ReduceOp::Sum, 2),
        (ReduceOp::Prod, -15),
        (ReduceOp::Min, -3),
        (ReduceOp::Max, 5),
        (ReduceOp::Replace, -3),
    ] {
        let pad = if op == ReduceOp::Replace { 0xaa } else { 0xbb };
        assert_eq!(run(op, F80, &a, &b), f80(result, pad), "{op:?}");
    }
    let complex = |re, im| [f80(re, 1), f80(im, 1)].concat();
    assert_eq!(run(ReduceOp::Prod, C80, &complex(1, 2), &complex(3, 4)), complex(-5, 10));
    let pair =
        |value, index: i32| [f80(value, 1), index.to_ne_bytes().to_vec(), vec![1; 12]].concat();
    assert_eq!(run(ReduceOp::MaxLoc, F80I32, &pair(7, 9), &pair(7, 3)), pair(7, 3));
    assert_eq!(run(ReduceOp::MaxLoc, F80I32, &pair(8, 9), &pair(7, 3)), pair(8, 9));
}

#[test]
fn pairs_take_the_lowest_index_and_leave_the_padding() {
    let short_int = |v: i16, i: i32, pad: u8| {
        [v.to_ne_bytes().to_vec(), vec![pad; 2], i.to_ne_bytes().to_vec()].concat()
    };
    let double_int = |v: f64, i: i32, pad: u8| {
        [v.to_ne_bytes().to_vec(), i.to_ne_bytes().to_vec(), vec![pad; 4]].concat()
    };
    for op in [ReduceOp::MinLoc, ReduceOp::MaxLoc] {
        assert_eq!(run(op, I16I32, &short_int(5, 3, 1), &short_int(5, 2, 9)), short_int(5, 2, 9));
        assert_eq!(run(op, I16I32, &short_int(5, 1, 1), &short_int(5, 2, 9)), short_int(5, 1, 9));
        assert_eq!(
            run(op, F64I32, &double_int(5., 3, 1), &double_int(5., 2, 9)),
            double_int(5., 2, 9)
        );
    }
    assert_eq!(
        run(ReduceOp::MinLoc, F64I32, &double_int(4., 3, 1), &double_int(5., 2, 9)),
        double_int(4., 3, 9)
    );
    assert_eq!(
        run(ReduceOp::MaxLoc, F64I32, &double_int(4., 3, 1), &double_int(5., 2, 9)),
        double_int(5., 2, 9)
    );
    assert_eq!(
        run(ReduceOp::Replace, I16I32, &short_int(4, 3, 1), &short_int(5, 2, 9)),
        short_int(4, 3, 9)
    );
    let reals = |v: f32, i: f32| [v.to_ne_bytes(), i.to_ne_bytes()].concat();
    assert_eq!(run(ReduceOp::MinLoc, F32F32, &reals(1., 8.), &reals(1., 4.)), reals(1., 4.));
}

#[test]
fn every_kernel_leaves_other_memory_alone() {
    let scalars = [
        I8, I16, I32, I64, I128, U8, U16, U32, U64, F16, F32, F64, F80, F128, C16, C32, C64, C80,
        C128, Bool8, Bool16, Bool32, Bool64, Bool128, F32I32, F64I32, I64I32, I32I32, I16I32,
        F80I32, F32F32, F64F64,
    ];
    for (op, scalar) in ReduceOp::ALL.iter().flat_map(|&op| scalars.map(|s| (op, s))) {
        let Some(kernel) = kernel(op, scalar) else { continue };
        let len = 3 * kernel.extent();
        let left = vec![0; len];
        let mut right = vec![0x5a; len + 64];
        right[32..32 + len].fill(0);
        kernel.apply(Bytes::from(&left[..]), BytesMut::from(&mut right[32..32 + len]));
        assert!(
            right[..32].iter().chain(&right[32 + len..]).all(|&b| b == 0x5a),
            "{op:?} of {scalar:?}"
        );
    }
}

#[test]
fn buffers_of_any_layout_are_reduced() {
    let sum = kernel(ReduceOp::Sum, I32).unwrap();
    let column = Arc::new(Layout::hvector(3000, 1, 8, &Layout::basic(4, 4)).unwrap());
    let left: Vec<i32> = (0..3000).collect();
    let mut right = vec![1i32; 6000];
    lend(&left, |left| {
        lend_mut(&mut right, |right| {
            let column = right.elements(0, 5999).cast(1, &column);
            let column = column.unwrap();
            sum.reduce(&left, &column).unwrap();
            assert_eq!(
                sum.reduce(&left, &right),
                Err(ReduceError::Lengths { left: 12000, right: 24000 })
            );
        });
    });
    assert!((0..3000).all(|i| right[2 * i] == 1 + i as i32 && right[2 * i + 1] == 1));
}

#[test]
fn pairs_are_reduced_where_they_lie() {
    let members = [(1, 0, &Layout::basic(2, 2)), (1, 4, &Layout::basic(4, 4))];
    let short_int = Arc::new(Layout::structure(members).unwrap());
    let max = kernel(ReduceOp::MaxLoc, I16I32).unwrap();
    let (a, b) = (Scratch::new(5, &short_int).unwrap(), Scratch::new(5, &short_int).unwrap());
    a.buf().unpack(6, Bytes::from(&[7, 0, 1, 0, 0, 0]));
    max.reduce(a.buf(), b.buf()).unwrap();
    let mut out = [0; 30];
    b.buf().pack(0, BytesMut::from(&mut out[..]));
    assert_eq!(out[..12], [0, 0, 0, 0, 0, 0, 7, 0, 1, 0, 0, 0]);
    let other = Arc::new(Layout::resized(0, 8, &Layout::basic(6, 2)).unwrap());
    let other = Scratch::new(5, &other).unwrap();
    assert_eq!(max.reduce(other.buf(), b.buf()), Err(ReduceError::Padded { size: 6, extent: 8 }));
}
