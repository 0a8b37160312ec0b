//! IEEE binary16, Fortran's `REAL*2`, for which Rust has no type.
//!
//! Sums and products are computed in binary32 and rounded again. The result is exact rounding:
//! binary32 has more than twice the digits, so two roundings give the same as one.

use std::cmp::Ordering;
use std::ops::{Add, Mul, Sub};

/// Sign, 5 bits of exponent, 10 of fraction.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct F16(u16);

const EXPONENT: u16 = 0x7c00;
const FRACTION: u16 = 0x03ff;
const REBIAS: u32 = 127 - 15;

impl F16 {
    fn widened(self) -> f32 {
        let sign = u32::from(self.0 & 0x8000) << 16;
        let (exponent, fraction) =
            (u32::from(self.0 & EXPONENT) >> 10, u32::from(self.0 & FRACTION));
        let magnitude = match exponent {
            // A multiple of the least number, exact in binary32.
            0 => return f32::from_bits((fraction as f32 / (1 << 24) as f32).to_bits() | sign),
            0x1f => 0x7f80_0000 | fraction << 13,
            _ => (exponent + REBIAS) << 23 | fraction << 13,
        };
        f32::from_bits(sign | magnitude)
    }

    /// Rounded to the nearest, ties to even.
    fn narrowed(value: f32) -> F16 {
        let bits = value.to_bits();
        let sign = (bits >> 16) as u16 & 0x8000;
        let magnitude = bits & 0x7fff_ffff;
        if magnitude > 0x7f80_0000 {
            return F16(sign | EXPONENT | 0x0200 | (magnitude >> 13) as u16 & FRACTION);
        }
        // From 65520 on the nearest value is infinity.
        if magnitude >= 0x477f_f000 {
            return F16(sign | EXPONENT);
        }
        let exponent = magnitude >> 23;
        // Below the least normal number, 2^-14, the unit of the fraction is 2^-24.
        let (significand, drop) = if exponent <= REBIAS {
            ((magnitude & 0x007f_ffff) | 0x0080_0000, (13 + REBIAS + 1 - exponent).min(31))
        } else {
            (magnitude - (REBIAS << 23), 13)
        };
        let (kept, lost) = (significand >> drop, significand & ((1 << drop) - 1));
        let half = 1 << (drop - 1);
        let up = lost > half || (lost == half && kept & 1 == 1);
        F16(sign | (kept + u32::from(up)) as u16)
    }
}

macro_rules! by_binary32 {
    ($($trait:ident $method:ident)*) => {
        $(impl $trait for F16 {
            type Output = F16;
            #[inline]
            fn $method(self, other: F16) -> F16 {
                F16::narrowed(self.widened().$method(other.widened()))
            }
        })*
    };
}
by_binary32!(Add add Sub sub Mul mul);

impl PartialEq for F16 {
    fn eq(&self, other: &F16) -> bool {
        self.widened() == other.widened()
    }
}

impl PartialOrd for F16 {
    fn partial_cmp(&self, other: &F16) -> Option<Ordering> {
        self.widened().partial_cmp(&other.widened())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_go_to_binary32_and_back() {
        for bits in 0..=u16::MAX {
            let wide = F16(bits).widened();
            if wide.is_nan() {
                assert!(bits & EXPONENT == EXPONENT && bits & FRACTION != 0, "{bits:#x}");
                assert!(F16::narrowed(wide).widened().is_nan());
            } else {
                assert_eq!(F16::narrowed(wide).0, bits);
            }
        }
        assert_eq!(F16(0x3c00).widened(), 1.0);
        assert_eq!(F16(0x7bff).widened(), 65504.0);
        assert_eq!(F16(0x8001).widened(), -(2.0f32.powi(-24)));
    }

    #[test]
    fn the_nearest_is_taken() {
        // Less than half, half, and more than half of the way between neighbours.
        for bits in 0..0x7bff_u16 {
            let (low, high) = (F16(bits).widened(), F16(bits + 1).widened());
            let middle = (low + high) / 2.0;
            let next = |x: f32, by: i32| f32::from_bits(x.to_bits().wrapping_add_signed(by));
            assert_eq!(F16::narrowed(next(middle, -1)).0, bits);
            assert_eq!(F16::narrowed(middle).0, bits + (bits & 1), "{bits:#x}");
            assert_eq!(F16::narrowed(next(middle, 1)).0, bits + 1);
        }
        assert_eq!(F16::narrowed(65519.9).0, 0x7bff);
        assert_eq!(F16::narrowed(-65520.0).0, 0xfc00);
        assert_eq!(F16::narrowed(1e-30).0, 0);
    }
}
