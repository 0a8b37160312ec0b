//! IEEE binary128, Fortran's `REAL*16`, by integer arithmetic, as neither Rust nor the processor
//! has it.
//!
//! A number is split into sign, exponent and a significand with its leading bit. Results have three
//! more bits, of which the last says whether any lower bit was lost. Rounding to the nearest needs
//! no more.

use std::cmp::Ordering;
use std::ops::{Add, Mul, Sub};

/// Sign, 15 bits of exponent, 112 of fraction.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct F128(u128);

const FRACTION_BITS: u32 = 112;
const LEADING: u128 = 1 << FRACTION_BITS;
const SIGN: u128 = 1 << 127;
const INFINITY: u128 = 0x7fff << FRACTION_BITS;
const QUIET: u128 = 1 << (FRACTION_BITS - 1);
const TOP: i32 = 0x7fff;
const BIAS: i32 = 0x3fff;
/// The number of additional low bits of a result before rounding.
const EXTRA: u32 = 3;

/// The value is `significand * 2^(exponent - BIAS - FRACTION_BITS)`.
#[derive(Clone, Copy)]
struct FloatParts {
    negative: bool,
    exponent: i32,
    significand: u128,
}

impl F128 {
    fn magnitude(self) -> u128 {
        self.0 & !SIGN
    }

    fn is_negative(self) -> bool {
        self.0 & SIGN != 0
    }

    fn is_nan(self) -> bool {
        self.magnitude() > INFINITY
    }

    fn quieted(self) -> F128 {
        F128(self.0 | QUIET)
    }

    fn parts(self) -> FloatParts {
        let field = (self.magnitude() >> FRACTION_BITS) as i32;
        let fraction = self.0 & (LEADING - 1);
        let significand = if field == 0 { fraction } else { fraction | LEADING };
        FloatParts { negative: self.is_negative(), exponent: field.max(1), significand }
    }

    fn signed(negative: bool, magnitude: u128) -> F128 {
        F128(magnitude | if negative { SIGN } else { 0 })
    }
}

/// `bits >> by`; the lowest bit of the result says whether a lost bit was set.
fn shifted(bits: u128, by: u32) -> u128 {
    match by {
        0 => bits,
        1..128 => bits >> by | u128::from(bits & ((1 << by) - 1) != 0),
        _ => u128::from(bits != 0),
    }
}

impl FloatParts {
    /// The nearest number, if the significand of `self` has [`EXTRA`] more bits.
    fn rounded(self) -> F128 {
        let FloatParts { negative, mut exponent, mut significand } = self;
        if significand == 0 {
            return F128::signed(negative, 0);
        }
        let leading = LEADING << EXTRA;
        while significand >= leading << 1 {
            significand = shifted(significand, 1);
            exponent += 1;
        }
        // Shift to the leading bit, or as far as the least exponent allows.
        let room = significand.leading_zeros().saturating_sub(leading.leading_zeros());
        let up = room.min((exponent - 1).max(0).cast_unsigned());
        significand <<= up;
        exponent -= up.cast_signed();
        if exponent < 1 {
            significand = shifted(significand, (1 - exponent).cast_unsigned());
            exponent = 1;
        }
        let (kept, lost) = (significand >> EXTRA, significand & ((1 << EXTRA) - 1));
        let half = 1 << (EXTRA - 1);
        let kept = kept + u128::from(lost > half || (lost == half && kept & 1 == 1));
        if exponent >= TOP {
            return F128::signed(negative, INFINITY);
        }
        // The leading bit adds one to the exponent; a carry of the rounding adds one more.
        let field = (exponent - 1).cast_unsigned();
        F128::signed(negative, (u128::from(field) << FRACTION_BITS) + kept)
    }
}

impl Add for F128 {
    type Output = F128;

    fn add(self, other: F128) -> F128 {
        if self.is_nan() {
            return self.quieted();
        }
        if other.is_nan() {
            return other.quieted();
        }
        match (self.magnitude() == INFINITY, other.magnitude() == INFINITY) {
            (true, true) if self.0 != other.0 => return F128(INFINITY | QUIET),
            (true, _) => return self,
            (_, true) => return other,
            _ => {}
        }
        let (large, small) =
            if self.magnitude() >= other.magnitude() { (self, other) } else { (other, self) };
        let (large, small) = (large.parts(), small.parts());
        let distance = (large.exponent - small.exponent).cast_unsigned();
        let (a, b) = (large.significand << EXTRA, shifted(small.significand << EXTRA, distance));
        if large.negative == small.negative {
            return FloatParts { significand: a + b, ..large }.rounded();
        }
        // A difference of 0 is positive.
        FloatParts { significand: a - b, negative: large.negative && a != b, ..large }.rounded()
    }
}

impl Sub for F128 {
    type Output = F128;

    fn sub(self, other: F128) -> F128 {
        self + F128(other.0 ^ SIGN)
    }
}

impl Mul for F128 {
    type Output = F128;

    fn mul(self, other: F128) -> F128 {
        if self.is_nan() {
            return self.quieted();
        }
        if other.is_nan() {
            return other.quieted();
        }
        let negative = self.is_negative() != other.is_negative();
        let (zero, infinite) = (
            self.magnitude() == 0 || other.magnitude() == 0,
            self.magnitude() == INFINITY || other.magnitude() == INFINITY,
        );
        match (zero, infinite) {
            (true, true) => return F128(INFINITY | QUIET),
            (true, false) => return F128::signed(negative, 0),
            (false, true) => return F128::signed(negative, INFINITY),
            (false, false) => {}
        }
        let (a, b) = (normal(self.parts()), normal(other.parts()));
        let (high, low) = product(a.significand, b.significand);
        // The leading bit of the product is at 224 or 225, and moves to 115 or 116.
        let down = FRACTION_BITS - EXTRA;
        let lost = low & ((1 << down) - 1) != 0;
        let significand = high << (128 - down) | low >> down | u128::from(lost);
        FloatParts { negative, exponent: a.exponent + b.exponent - BIAS, significand }.rounded()
    }
}

/// Moves the leading bit to its position. The exponent may become less than the format allows.
fn normal(parts: FloatParts) -> FloatParts {
    let up = parts.significand.leading_zeros() - LEADING.leading_zeros();
    FloatParts {
        significand: parts.significand << up,
        exponent: parts.exponent - up.cast_signed(),
        ..parts
    }
}

fn product(a: u128, b: u128) -> (u128, u128) {
    let halves = |x: u128| (x >> 64, x & u128::from(u64::MAX));
    let ((a1, a0), (b1, b0)) = (halves(a), halves(b));
    let (low, mid1, mid2, high) = (a0 * b0, a1 * b0, a0 * b1, a1 * b1);
    let (carry1, low_mid) = halves(mid1);
    let (carry2, low_mid2) = halves(mid2);
    let (low_high, low_low) = halves(low);
    let (carry3, middle) = halves(low_mid + low_mid2 + low_high);
    (high + carry1 + carry2 + carry3, middle << 64 | low_low)
}

impl PartialEq for F128 {
    fn eq(&self, other: &F128) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for F128 {
    fn partial_cmp(&self, other: &F128) -> Option<Ordering> {
        if self.is_nan() || other.is_nan() {
            return None;
        }
        let value = |x: &F128| {
            let magnitude = x.magnitude().cast_signed();
            if x.is_negative() { -magnitude } else { magnitude }
        };
        Some(value(self).cmp(&value(other)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(value: f64) -> F128 {
        let bits = value.to_bits();
        let field = (bits >> 52 & 0x7ff) as i32;
        assert!(field != 0 && field != 0x7ff || value == 0.0, "{value} is not normal");
        if value == 0.0 {
            return F128::signed(value.is_sign_negative(), 0);
        }
        let exponent = (field - 1023 + BIAS) as u128;
        F128::signed(
            value < 0.0,
            exponent << FRACTION_BITS | u128::from(bits & ((1 << 52) - 1)) << 60,
        )
    }

    #[test]
    fn exact_results_are_those_of_doubles() {
        let values =
            [0.0, -0.0, 1.0, -1.0, 1.5, 3.0, -7.25, 1e9, 6.0e-20, -123456.789, 2.0f64.powi(300)];
        for a in values {
            for b in values {
                // Products of two numbers of at most 26 digits are exact in a double.
                let (short_a, short_b) = (f64::from(a as f32), f64::from(b as f32));
                if short_a.is_finite() && short_b.is_finite() {
                    assert_eq!(
                        (wide(short_a) * wide(short_b)).0,
                        wide(short_a * short_b).0,
                        "{a} * {b}"
                    );
                }
                let sum = a + b;
                if sum - a == b && sum - b == a {
                    assert_eq!((wide(a) + wide(b)).0, wide(sum).0, "{a} + {b}");
                    assert_eq!((wide(sum) - wide(b)).0, wide(sum - b).0, "{sum} - {b}");
                }
                assert_eq!(wide(a).partial_cmp(&wide(b)), a.partial_cmp(&b));
            }
        }
    }

    #[test]
    fn results_are_rounded_to_the_nearest_even() {
        let one = wide(1.0);
        let ulp = F128(((BIAS - 112) as u128) << FRACTION_BITS);
        let half = F128(((BIAS - 113) as u128) << FRACTION_BITS);
        assert_eq!((one + ulp).0, one.0 + 1);
        assert_eq!((one + half).0, one.0);
        assert_eq!((F128(one.0 + 1) + half).0, one.0 + 2);
        assert_eq!((one + F128(half.0 + 1)).0, one.0 + 1);
        // The largest number below one. Its square is 1 - 2 half units, and a rest.
        let below = F128(one.0 - 1);
        assert_eq!((one - half).0, below.0);
        assert_eq!((below * below).0, one.0 - 2);
        let third = F128(0x3ffd_5555_5555_5555_5555_5555_5555_5555);
        assert_eq!((third * wide(3.0)).0, one.0, "1/3 is rounded down, three times it to 1");
    }

    #[test]
    fn the_ends_of_the_range() {
        let (least, largest) = (F128(1), F128(INFINITY - 1));
        let infinity = F128(INFINITY);
        assert_eq!((largest + largest).0, INFINITY);
        assert_eq!((largest * wide(-2.0)).0, INFINITY | SIGN);
        assert!((infinity - infinity).is_nan() && (infinity * wide(0.0)).is_nan());
        assert_eq!((infinity + largest).0, INFINITY);
        assert_eq!((least + least).0, 2);
        assert_eq!((least * wide(0.5)).0, 0);
        assert_eq!((F128(3) * wide(0.5)).0, 2, "half to the even one");
        assert_eq!((F128(LEADING) - least).0, LEADING - 1);
        assert_eq!((F128(LEADING - 1) + least).0, LEADING);
        assert_eq!((F128(LEADING) * wide(0.25)).0, LEADING >> 2);
        assert_eq!((F128(LEADING >> 2) * wide(4.0)).0, LEADING);
        assert_eq!((wide(1.0) - wide(1.0)).0, 0);
        let nan = F128(INFINITY | 1);
        assert!((nan + least).is_nan() && (least * nan).is_nan());
        assert!(nan.partial_cmp(&least).is_none() && F128(SIGN) == F128(0));
    }
}
