//! The representation "external32": what each basic element becomes in a file or message that any machine can read.
//!
//! MPI-5.0 section 14.5.2 fixes it: all numbers big-endian, integers in two's complement, floating point in the formats of
//! IEEE 754, and a size for each type that may differ from the one in memory (C's `long` has 4 bytes, `wchar_t` 2). An
//! [`Element`] says how one type is converted; [`Element::encode`] and [`Element::decode`] do it for an array.

/// A basic element of a datatype, as `MPI_Get_elements` counts them: a number, or a complex number as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// Bytes of one number in memory.
    native: u8,
    /// Bytes of one number in external32.
    external: u8,
    /// Numbers in an element: 2 for complex ones.
    numbers: u8,
    conversion: Conversion,
}

/// What happens to a number beside the order of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conversion {
    /// Nothing: both sides have the same size.
    None,
    /// A signed integer changes its size.
    Signed,
    /// An unsigned integer changes its size.
    Unsigned,
    /// The x87 format of 80 bits and IEEE binary128.
    Extended,
}

impl Element {
    /// A number of `bytes` bytes on both sides.
    pub const fn same(bytes: u8) -> Element {
        Element { native: bytes, external: bytes, numbers: 1, conversion: Conversion::None }
    }

    /// A signed integer of other sizes in memory and outside.
    pub const fn signed(native: u8, external: u8) -> Element {
        Element { native, external, numbers: 1, conversion: Conversion::Signed }
    }

    /// An unsigned integer of other sizes in memory and outside.
    pub const fn unsigned(native: u8, external: u8) -> Element {
        Element { native, external, numbers: 1, conversion: Conversion::Unsigned }
    }

    /// C's `long double`: 80 bits in 16 bytes of memory, binary128 outside.
    pub const EXTENDED: Element =
        Element { native: 16, external: 16, numbers: 1, conversion: Conversion::Extended };

    /// A complex number of two such.
    pub const fn complex(self) -> Element {
        Element { numbers: 2, ..self }
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

    /// From memory to external32, as many elements as `from` holds.
    ///
    /// An integer that does not fit loses high bits and keeps its sign, as the standard advises.
    ///
    /// # Panics
    /// If the lengths are not those of the same number of elements.
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

    /// From external32 to memory, as many elements as `from` holds. Of a `long double` the padding becomes zero.
    ///
    /// # Panics
    /// If the lengths are not those of the same number of elements.
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

    /// Does something with each number of both sides.
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

/// Copies the bytes of a number in the other order. The machine is little-endian, as the standard ABI's are.
fn reversed(from: &[u8], to: &mut [u8]) {
    for (to, from) in to.iter_mut().zip(from.iter().rev()) {
        *to = *from;
    }
}

const EXPONENT: u16 = 0x7fff;
/// The bit of an 80-bit number that says "1." and that binary128 leaves out.
const INTEGER_BIT: u64 = 1 << 63;
/// Bits that the fraction of binary128 has more.
const MORE_BITS: u32 = 112 - 63;
const QUIET: u128 = 1 << 111;

/// An 80-bit number as binary128, which has all of them.
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
        // A fraction below the least normal number that has the bit nevertheless: that least exponent.
        (0, true) => with(1),
        (0, false) | (_, true) => with(exponent),
        // No number of this format: the unit itself takes these for "not a number".
        (_, false) => sign | u128::from(EXPONENT) << 112 | QUIET,
    }
}

/// A binary128 number as an 80-bit one, rounded to the nearest: its significand, and sign with exponent.
fn narrowed(quad: u128) -> (u64, u16) {
    let sign = ((quad >> 127) as u16) << 15;
    let exponent = (quad >> 112) as u16 & EXPONENT;
    let fraction = quad & ((1 << 112) - 1);
    if exponent == EXPONENT {
        let rest = (fraction >> MORE_BITS) as u64;
        // A number's absence stays one even if all its bits were low ones.
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
        // The next power of two, or infinity.
        (_, true) => (INTEGER_BIT, sign | (exponent + 1)),
        (_, false) => (rounded | INTEGER_BIT, sign | exponent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(element: Element, native: &[u8]) -> Vec<u8> {
        let mut out = vec![0; native.len() / element.native_size() * element.external_size()];
        element.encode(native, &mut out);
        out
    }

    fn decoded(element: Element, external: &[u8]) -> Vec<u8> {
        let mut out = vec![0xee; external.len() / element.external_size() * element.native_size()];
        element.decode(external, &mut out);
        out
    }

    #[test]
    fn integers_are_big_endian_and_change_their_size() {
        assert_eq!(encoded(Element::same(4), &0x0102_0304_i32.to_le_bytes()), [1, 2, 3, 4]);
        let long = Element::signed(8, 4);
        for value in [0i64, 1, -1, -5, i64::from(i32::MAX), i64::from(i32::MIN)] {
            let external = encoded(long, &value.to_le_bytes());
            assert_eq!(external, (value as i32).to_be_bytes());
            assert_eq!(decoded(long, &external), value.to_le_bytes());
        }
        // What does not fit keeps its sign.
        assert_eq!(encoded(long, &(1i64 << 31).to_le_bytes()), [0, 0, 0, 0]);
        let unsigned = Element::unsigned(8, 4);
        assert_eq!(decoded(unsigned, &[0xff; 4]), 0xffff_ffff_u64.to_le_bytes());
        let complex = Element::same(4).complex();
        assert_eq!(encoded(complex, &[1, 2, 3, 4, 5, 6, 7, 8]), [4, 3, 2, 1, 8, 7, 6, 5]);
    }

    /// A significand and a sign with exponent in 16 bytes.
    fn x87(significand: u64, head: u16) -> Vec<u8> {
        [&significand.to_le_bytes()[..], &head.to_le_bytes(), &[0; 6]].concat()
    }

    #[test]
    fn extended_numbers_become_binary128_and_come_back() {
        // 1, -2, 1/3 rounded, the largest, the least normal and subnormal ones, infinity, not a number.
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
            let external = encoded(Element::EXTENDED, &native);
            assert_eq!(external, quad.to_be_bytes(), "{significand:#x} {head:#x}");
            assert_eq!(decoded(Element::EXTENDED, &external), native);
        }
    }

    #[test]
    fn binary128_is_rounded_to_the_nearest() {
        let narrow = |quad: u128| decoded(Element::EXTENDED, &quad.to_be_bytes());
        let one = 0x3fff_u128 << 112;
        let half = 1 << (MORE_BITS - 1);
        assert_eq!(narrow(one | half), x87(1 << 63, 0x3fff));
        assert_eq!(narrow(one | half | 1), x87(1 << 63 | 1, 0x3fff));
        assert_eq!(narrow(one | half | 1 << MORE_BITS), x87(1 << 63 | 2, 0x3fff));
        assert_eq!(narrow((0x4000 << 112) - 1), x87(1 << 63, 0x4000));
        assert_eq!(narrow((0x7fff << 112) - 1), x87(1 << 63, 0x7fff));
        assert_eq!(narrow((1 << 112) - 1), x87(1 << 63, 1));
        assert_eq!(narrow((0x7fff << 112) + 1), x87(3 << 62, 0x7fff));
        // What the unit takes for no number is none outside either; a superfluous bit is used.
        assert_eq!(encoded(Element::EXTENDED, &x87(5, 0x4000))[..3], [0x7f, 0xff, 0x80]);
        assert_eq!(encoded(Element::EXTENDED, &x87(1 << 63, 0)), (1u128 << 112).to_be_bytes());
    }
}
