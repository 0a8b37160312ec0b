//! The array descriptor that a compiler passes to a procedure with BIND(C).
//!
//! The fields stand at the same places with GNU Fortran and flang. `mpifort` runs a program that
//! calls [`oxmpi_reads_descriptor`], and makes a module without descriptors for other compilers.

use std::ffi::{c_int, c_void};

/// A dimension of an array.
#[repr(C)]
struct ArrayDimension {
    _lower_bound: isize,
    /// The number of elements; -1 in the last dimension of an array of unknown size.
    extent: isize,
    /// The distance between elements in bytes.
    step: isize,
}

/// An array: the C descriptor `CFI_cdesc_t`.
#[repr(C)]
pub(crate) struct ArrayDescriptor {
    address: *mut c_void,
    element_bytes: usize,
    _version: c_int,
    rank: u8,
    element_type: [u8; 3],
    dimensions: [ArrayDimension; 0],
}

/// Elements at equal distances, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stride {
    pub(super) count: i64,
    pub(super) step: i64,
}

impl ArrayDescriptor {
    pub(crate) fn address(&self) -> *mut c_void {
        self.address
    }

    pub(crate) fn element_bytes(&self) -> i64 {
        i64::try_from(self.element_bytes).unwrap_or(i64::MAX)
    }

    /// The attribute, the type and its kind of GNU Fortran; the type, the attribute and more of
    /// flang.
    pub(crate) fn element_type(&self) -> [u8; 3] {
        self.element_type
    }

    #[inline(always)]
    fn dimensions(&self) -> &[ArrayDimension] {
        // SAFETY: `rank` dimensions follow.
        unsafe { std::slice::from_raw_parts(self.dimensions.as_ptr(), self.rank.into()) }
    }

    /// Whether the elements lie one after another, so that the address says all.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        let mut distance = self.element_bytes as isize;
        for dimension in self.dimensions() {
            if dimension.step != distance && dimension.extent != 1 {
                return dimension.extent == -1;
            }
            distance = distance.wrapping_mul(dimension.extent);
        }
        true
    }

    /// Whether elements do not overlap. GNU Fortran 12 passes a section of CLASS(*) with the size
    /// of the whole array as that of an element.
    pub(crate) fn is_sound(&self) -> bool {
        let bytes = self.element_bytes;
        let overlaps = |one: &ArrayDimension| one.extent > 1 && one.step.unsigned_abs() < bytes;
        !self.dimensions().iter().any(overlaps)
    }

    /// The size of all elements.
    pub(crate) fn bytes(&self) -> i64 {
        let extents = self.dimensions().iter().map(|dimension| dimension.extent as i64);
        extents.fold(self.element_bytes(), |bytes, extent| bytes.saturating_mul(extent.max(0)))
    }

    /// The elements as nested repetitions of a unit that divides them, the innermost first. Those
    /// that can be are joined.
    pub(super) fn strides(&self, unit: i64) -> Vec<Stride> {
        let mut strides = vec![Stride { count: self.element_bytes() / unit, step: unit }];
        for dimension in self.dimensions().iter().filter(|dimension| dimension.extent != 1) {
            let next = Stride { count: dimension.extent as i64, step: dimension.step as i64 };
            match strides.last_mut() {
                Some(last) if last.count == 1 => *last = next,
                Some(last) if last.step.wrapping_mul(last.count) == next.step => {
                    last.count *= next.count;
                }
                _ => strides.push(next),
            }
        }
        strides
    }
}

/// Whether the descriptor is that of the array section that `mpifort` passes: INTEGERs of 4 bytes,
/// `whole(2:6:2, 5:1:-3)` of an array with 7 rows and 5 columns. `assumed` is an array of 2 rows
/// and a number of columns that the compiler does not know, and `scalar` no array.
#[unsafe(no_mangle)]
unsafe extern "C" fn oxmpi_reads_descriptor(
    section: *const ArrayDescriptor,
    assumed: *const ArrayDescriptor,
    scalar: *const ArrayDescriptor,
    whole: *const c_int,
) -> c_int {
    // SAFETY: the program passes three descriptors, of whatever layout, and an array. The sizes
    // and ranks are compared first, so that nothing behind a descriptor is read.
    unsafe {
        let all = [(section, 2), (assumed, 2), (scalar, 0)];
        let is_right = all.iter().all(|(array, rank)| {
            !array.is_null() && (**array).rank == *rank && (**array).element_bytes == 4
        });
        if !is_right {
            return 0;
        }
        let shape = |array: *const ArrayDescriptor| {
            let of = |dimension: &ArrayDimension| (dimension.extent, dimension.step);
            (*array).dimensions().iter().map(of).collect::<Vec<_>>()
        };
        let first = whole.wrapping_add(4 * 7 + 1);
        let is_section = std::ptr::eq((*section).address, first.cast())
            && shape(section) == [(3, 8), (2, -3 * 7 * 4)];
        let is_assumed = std::ptr::eq((*assumed).address, whole.cast())
            && matches!(shape(assumed)[..], [(2, 4), (-1, _)]);
        c_int::from(is_section && is_assumed)
    }
}
