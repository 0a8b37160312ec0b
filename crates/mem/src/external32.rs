//! The representation "external32" of basic elements, in files and messages that any machine can
//! read.
//!
//! MPI-5.0 section 14.5.2 defines it: numbers are big-endian, integers in two's complement,
//! floating point in the formats of IEEE 754. The size of a type may differ from its size in memory
//! (C's `long` has 4 bytes, `wchar_t` 2). An [`ExternalElement`] has the conversion of one type.

/// A basic element as `MPI_Get_elements` counts them: a number, or a complex number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExternalElement {
    native: u8,
    external: u8,
    /// 2 for complex elements, else 1.
    numbers: u8,
    conversion: Conversion,
}

/// The change of a number apart from the order of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conversion {
    None,
    Signed,
    Unsigned,
    /// From the x87 format of 80 bits to IEEE binary128.
    Extended,
}

impl ExternalElement {
    /// A number of `bytes` bytes on both sides.
    pub const fn same(bytes: u8) -> ExternalElement {
        ExternalElement { native: bytes, external: bytes, numbers: 1, conversion: Conversion::None }
    }

    /// A signed integer with different sizes in memory and in external32.
    pub const fn signed(native: u8, external: u8) -> ExternalElement {
        ExternalElement { native, external, numbers: 1, conversion: Conversion::Signed }
    }

    /// An unsigned integer with different sizes in memory and in external32.
    pub const fn unsigned(native: u8, external: u8) -> ExternalElement {
        ExternalElement { native, external, numbers: 1, conversion: Conversion::Unsigned }
    }

    /// C's `long double`: 80 bits in 16 bytes of memory, binary128 in external32.
    pub const EXTENDED: ExternalElement =
        ExternalElement { native: 16, external: 16, numbers: 1, conversion: Conversion::Extended };

    /// A complex number of two such numbers.
    pub const fn complex(self) -> ExternalElement {
        ExternalElement { numbers: 2, ..self }
    }

    /// Bytes of an element in memory.
    #[inline]
    pub const fn native_size(&self) -> usize {
        self.native as usize * self.numbers as usize
    }

    /// Bytes of an element in external32.
    #[inline]
    pub const fn external_size(&self) -> usize {
        self.external as usize * self.numbers as usize
    }

    /// Converts all elements to external32. An integer that does not fit loses high bits and keeps
    /// its sign (the advice of the standard).
    pub fn encode(&self, from: &[u8], to: &mut [u8]) {
        self.each(from, self.native, to, self.external, |native, external| match self.conversion {
            Conversion::None => reversed(native, external),
            Conversion::Signed => {
                let negative = native.last().is_some_and(|high| high & 0x80 != 0);
                reversed(&native[..external.len()], external);
                external[0] = (external[0] & 0x7f) | if negative { 0x80 } else { 0 };
            }
            Conversion::Unsigned => reversed(&native[..external.len()], external),
            Conversion::Extended => external.copy_from_slice(&widened(native).to_be_bytes()),
        });
    }

    /// Converts all elements from external32. The padding of a `long double` becomes zero.
    pub fn decode(&self, from: &[u8], to: &mut [u8]) {
        self.each(from, self.external, to, self.native, |external, native| {
            let (low, high) = native.split_at_mut(external.len());
            match self.conversion {
                Conversion::None | Conversion::Unsigned => {
                    reversed(external, low);
                    high.fill(0);
                }
                Conversion::Signed => {
                    reversed(external, low);
                    high.fill(if external[0] & 0x80 != 0 { 0xff } else { 0 });
                }
                Conversion::Extended => {
                    let mut quad = [0; 16];
                    quad.copy_from_slice(external);
                    let (fraction, head) = narrowed(u128::from_be_bytes(quad));
                    low[..8].copy_from_slice(&fraction.to_le_bytes());
                    low[8..10].copy_from_slice(&head.to_le_bytes());
                    low[10..].fill(0);
                }
            }
        });
    }

    fn each(
        &self,
        from: &[u8],
        from_size: u8,
        to: &mut [u8],
        to_size: u8,
        convert: impl Fn(&[u8], &mut [u8]),
    ) {
        let (from_size, to_size) = (usize::from(from_size), usize::from(to_size));
        assert!(
            from.len().is_multiple_of(from_size) && from.len() / from_size * to_size == to.len(),
            "{} bytes of elements of {from_size} are converted to {} of {to_size}",
            from.len(),
            to.len()
        );
        if from_size == 1 && to_size == 1 {
            to.copy_from_slice(from);
            return;
        }
        for (from, to) in from.chunks_exact(from_size).zip(to.chunks_exact_mut(to_size)) {
            convert(from, to);
        }
    }
}

/// The machine is little-endian, as in the standard ABI.
fn reversed(from: &[u8], to: &mut [u8]) {
    for (to, from) in to.iter_mut().zip(from.iter().rev()) {
        *to = *from;
    }
}

const EXPONENT: u16 = 0x7fff;
/// The leading bit of an 80-bit significand, which binary128 does not store.
const INTEGER_BIT: u64 = 1 << 63;
const MORE_BITS: u32 = 112 - 63;
const QUIET: u128 = 1 << 111;

fn widened(native: &[u8]) -> u128 {
    let mut bits = [0; 8];
    bits.copy_from_slice(&native[..8]);
    let significand = u64::from_le_bytes(bits);
    let head = u16::from_le_bytes([native[8], native[9]]);
    let sign = u128::from(head >> 15) << 127;
    let exponent = head & EXPONENT;
    let fraction = u128::from(significand & !INTEGER_BIT) << MORE_BITS;
    let with = |exponent: u16| sign | u128::from(exponent) << 112 | fraction;
    let whole = significand & INTEGER_BIT != 0;
    match (exponent, whole) {
        // A pseudo-denormal (integer bit set) has the least normal exponent.
        (0, true) => with(1),
        (0, false) | (_, true) => with(exponent),
        // An "unnormal", which the x87 unit takes for a NaN.
        (_, false) => sign | u128::from(EXPONENT) << 112 | QUIET,
    }
}

/// The nearest 80-bit number: its significand, and sign with exponent.
fn narrowed(quad: u128) -> (u64, u16) {
    let sign = ((quad >> 127) as u16) << 15;
    let exponent = (quad >> 112) as u16 & EXPONENT;
    let fraction = quad & ((1 << 112) - 1);
    if exponent == EXPONENT {
        let rest = (fraction >> MORE_BITS) as u64;
        // A NaN stays a NaN even if only low bits of its fraction were set.
        let quiet = if fraction != 0 && rest == 0 { 1 << 62 } else { 0 };
        return (INTEGER_BIT | rest | quiet, sign | EXPONENT);
    }
    let kept = (fraction >> MORE_BITS) as u64;
    let lost = fraction & ((1 << MORE_BITS) - 1);
    let half = 1 << (MORE_BITS - 1);
    let up = lost > half || (lost == half && kept & 1 == 1);
    let rounded = kept + u64::from(up);
    let carried = rounded & INTEGER_BIT != 0;
    match (exponent, carried) {
        (0, false) => (rounded, sign),
        (0, true) => (rounded, sign | 1),
        // Rounding has carried to the next power of two, or to infinity.
        (_, true) => (INTEGER_BIT, sign | (exponent + 1)),
        (_, false) => (rounded | INTEGER_BIT, sign | exponent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(element: ExternalElement, native: &[u8]) -> Vec<u8> {
        let mut out = vec![0; native.len() / element.native_size() * element.external_size()];
        element.encode(native, &mut out);
        out
    }

    fn decoded(element: ExternalElement, external: &[u8]) -> Vec<u8> {
        let mut out = vec![0xee; external.len() / element.external_size() * element.native_size()];
        element.decode(external, &mut out);
        out
    }

    #[test]
    fn integers_are_big_endian_and_change_their_size() {
        assert_eq!(encoded(ExternalElement::same(4), &0x0102_0304_i32.to_le_bytes()), [1, 2, 3, 4]);
        let long = ExternalElement::signed(8, 4);
        for value in [0i64, 1, -1, -5, i64::from(i32::MAX), i64::from(i32::MIN)] {
            let external = encoded(long, &value.to_le_bytes());
            assert_eq!(external, (value as i32).to_be_bytes());
            assert_eq!(decoded(long, &external), value.to_le_bytes());
        }
        assert_eq!(encoded(long, &(1i64 << 31).to_le_bytes()), [0, 0, 0, 0]);
        let unsigned = ExternalElement::unsigned(8, 4);
        assert_eq!(decoded(unsigned, &[0xff; 4]), 0xffff_ffff_u64.to_le_bytes());
        let complex = ExternalElement::same(4).complex();
        assert_eq!(encoded(complex, &[1, 2, 3, 4, 5, 6, 7, 8]), [4, 3, 2, 1, 8, 7, 6, 5]);
    }

    fn x87(significand: u64, head: u16) -> Vec<u8> {
        [&significand.to_le_bytes()[..], &head.to_le_bytes(), &[0; 6]].concat()
    }

    #[test]
    fn extended_numbers_become_binary128_and_come_back() {
        // 1, -2, 1/3 rounded, the largest, the least normal and subnormal numbers, infinity, NaN.
        for (significand, head, quad) in [
            (1 << 63, 0x3fff, 0x3fff_u128 << 112),
            (1 << 63, 0xc000, 0xc000 << 112),
            (0xaaaa_aaaa_aaaa_aaab, 0x3ffd, 0x3ffd_5555_5555_5555_5556 << 48),
            (u64::MAX, 0x7ffe, 0x7ffe_ffff_ffff_ffff_fffe << 48),
            (1 << 63, 1, 1 << 112),
            (1, 0, 1 << 49),
            (0, 0, 0),
            (0, 0x8000, 1 << 127),
            (1 << 63, 0x7fff, 0x7fff << 112),
            (3 << 62, 0xffff, 0xffff8 << 108),
        ] {
            let native = x87(significand, head);
            let external = encoded(ExternalElement::EXTENDED, &native);
            assert_eq!(external, quad.to_be_bytes(), "{significand:#x} {head:#x}");
            assert_eq!(decoded(ExternalElement::EXTENDED, &external), native);
        }
    }

    #[test]
    fn binary128_is_rounded_to_the_nearest() {
        let narrow = |quad: u128| decoded(ExternalElement::EXTENDED, &quad.to_be_bytes());
        let one = 0x3fff_u128 << 112;
        let half = 1 << (MORE_BITS - 1);
        assert_eq!(narrow(one | half), x87(1 << 63, 0x3fff));
        assert_eq!(narrow(one | half | 1), x87(1 << 63 | 1, 0x3fff));
        assert_eq!(narrow(one | half | 1 << MORE_BITS), x87(1 << 63 | 2, 0x3fff));
        assert_eq!(narrow((0x4000 << 112) - 1), x87(1 << 63, 0x4000));
        assert_eq!(narrow((0x7fff << 112) - 1), x87(1 << 63, 0x7fff));
        assert_eq!(narrow((1 << 112) - 1), x87(1 << 63, 1));
        assert_eq!(narrow((0x7fff << 112) + 1), x87(3 << 62, 0x7fff));
        // An unnormal number becomes a NaN; the integer bit of a pseudo-denormal number counts.
        assert_eq!(encoded(ExternalElement::EXTENDED, &x87(5, 0x4000))[..3], [0x7f, 0xff, 0x80]);
        assert_eq!(
            encoded(ExternalElement::EXTENDED, &x87(1 << 63, 0)),
            (1u128 << 112).to_be_bytes()
        );
    }
}
