//! C's `long double` on x86-64: the 80-bit format of the x87 unit, for which Rust has no type.
//!
//! Each operation is a few instructions on memory operands. A store writes 10 bytes. In arrays the
//! 6 bytes of padding are copied as well, as an assignment of a C compiler may do.

use super::element::KernelElement;
use super::simple::{Combine, Max, Min, Prod, Sum};
use std::cmp::Ordering;

pub(super) const AVAILABLE: bool = cfg!(target_arch = "x86_64");

#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(super) struct F80([u8; 10]);

#[derive(Clone, Copy)]
pub(super) struct C80 {
    re: F80,
    im: F80,
}

impl KernelElement for F80 {
    const EXTENT: usize = 16;
    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: readable as the caller promises.
        F80(unsafe { at.cast::<[u8; 10]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: writable as the caller promises.
        unsafe { at.cast::<[u8; 10]>().write_unaligned(self.0) }
    }
}

impl KernelElement for C80 {
    const EXTENT: usize = 32;
    #[inline(always)]
    unsafe fn load(at: *const u8) -> Self {
        // SAFETY: readable as the caller promises.
        unsafe { C80 { re: F80::load(at), im: F80::load(at.wrapping_add(16)) } }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut u8) {
        // SAFETY: writable as the caller promises.
        unsafe {
            self.re.store(at);
            self.im.store(at.wrapping_add(16));
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x87 {
    use super::F80;
    use std::arch::asm;

    macro_rules! binary {
        ($name:ident, $instruction:literal) => {
            #[inline]
            pub(super) fn $name(a: F80, b: F80) -> F80 {
                let mut result = F80([0; 10]);
                // SAFETY: reads and writes three locals, and leaves the register stack empty.
                unsafe {
                    asm!(
                        "fld tbyte ptr [{a}]",
                        "fld tbyte ptr [{b}]",
                        $instruction,
                        "fstp tbyte ptr [{r}]",
                        a = in(reg) a.0.as_ptr(),
                        b = in(reg) b.0.as_ptr(),
                        r = in(reg) result.0.as_mut_ptr(),
                        out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                        out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                        options(nostack),
                    );
                }
                result
            }
        };
    }
    binary!(add, "faddp st(1), st");
    binary!(mul, "fmulp st(1), st");
    binary!(sub, "fsubp st(1), st");

    /// Whether `a > b`; false if one is a NaN.
    #[inline]
    pub(super) fn greater(a: F80, b: F80) -> bool {
        let above: u8;
        // SAFETY: reads the 10 bytes of two locals, and leaves the register stack empty.
        unsafe {
            asm!(
                "fld tbyte ptr [{b}]",
                "fld tbyte ptr [{a}]",
                "fcomip st, st(1)",
                "seta {above}",
                "fstp st(0)",
                a = in(reg) a.0.as_ptr(),
                b = in(reg) b.0.as_ptr(),
                above = out(reg_byte) above,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack, readonly),
            );
        }
        above != 0
    }
}

/// Never called: without the x87 format there are no such kernels ([`AVAILABLE`]).
#[cfg(not(target_arch = "x86_64"))]
mod x87 {
    use super::F80;
    pub(super) fn add(_: F80, b: F80) -> F80 {
        b
    }
    pub(super) fn mul(_: F80, b: F80) -> F80 {
        b
    }
    pub(super) fn sub(_: F80, b: F80) -> F80 {
        b
    }
    pub(super) fn greater(_: F80, _: F80) -> bool {
        false
    }
}

impl PartialEq for F80 {
    fn eq(&self, other: &F80) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for F80 {
    fn partial_cmp(&self, other: &F80) -> Option<Ordering> {
        if x87::greater(*self, *other) {
            Some(Ordering::Greater)
        } else if x87::greater(*other, *self) {
            Some(Ordering::Less)
        } else if self.is_nan() || other.is_nan() {
            None
        } else {
            Some(Ordering::Equal)
        }
    }
}

impl F80 {
    fn is_nan(self) -> bool {
        let exponent = u16::from_le_bytes([self.0[8], self.0[9]]) & 0x7fff;
        let fraction = self.0[..7].iter().any(|&b| b != 0) || self.0[7] & 0x7f != 0;
        exponent == 0x7fff && fraction
    }
}

impl Combine<F80> for Sum {
    fn combine(a: F80, b: F80) -> F80 {
        x87::add(a, b)
    }
}

impl Combine<F80> for Prod {
    fn combine(a: F80, b: F80) -> F80 {
        x87::mul(a, b)
    }
}

impl Combine<F80> for Min {
    fn combine(a: F80, b: F80) -> F80 {
        if a < b { a } else { b }
    }
}

impl Combine<F80> for Max {
    fn combine(a: F80, b: F80) -> F80 {
        if a > b { a } else { b }
    }
}

impl Combine<C80> for Sum {
    fn combine(a: C80, b: C80) -> C80 {
        C80 { re: x87::add(a.re, b.re), im: x87::add(a.im, b.im) }
    }
}

impl Combine<C80> for Prod {
    fn combine(a: C80, b: C80) -> C80 {
        C80 {
            re: x87::sub(x87::mul(a.re, b.re), x87::mul(a.im, b.im)),
            im: x87::add(x87::mul(a.re, b.im), x87::mul(a.im, b.re)),
        }
    }
}
