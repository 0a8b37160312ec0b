//! The array descriptors that GNU Fortran passes to procedures without BIND(C), from version 9 on.

use crate::sections::ArrayDescriptor;
use std::ffi::{c_int, c_void};

/// The most dimensions of an array.
const MOST: usize = 15;

/// The kind of elements of CLASS(*).
const UNLIMITED: i8 = 10;

#[repr(C)]
struct GnuDimension {
    /// The distance between elements, in units of `span`.
    stride: isize,
    lower_bound: isize,
    upper_bound: isize,
}

/// An array.
#[repr(C)]
pub(crate) struct GnuDescriptor {
    address: *mut c_void,
    _offset: usize,
    element_bytes: usize,
    _version: c_int,
    rank: i8,
    kind: i8,
    _attribute: i16,
    span: isize,
    dimensions: [GnuDimension; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Dimension {
    lower_bound: isize,
    extent: isize,
    step: isize,
}

/// The same array with the descriptor of the Fortran standard, which is [`ArrayDescriptor`].
#[repr(C)]
pub(crate) struct StandardDescriptor {
    address: *mut c_void,
    element_bytes: usize,
    version: c_int,
    rank: u8,
    kind: [u8; 3],
    dimensions: [Dimension; MOST],
}

impl GnuDescriptor {
    pub(crate) unsafe fn standard(&self) -> StandardDescriptor {
        let rank = usize::try_from(self.rank).unwrap_or(0).min(MOST);
        let all = unsafe { std::slice::from_raw_parts(self.dimensions.as_ptr(), rank) };
        let mut standard = StandardDescriptor {
            address: self.address,
            element_bytes: self.element_bytes,
            version: 1,
            rank: rank as u8,
            kind: [0; 3],
            dimensions: [Dimension::default(); MOST],
        };
        // The size of elements of CLASS(*) is that of something else.
        if self.kind == UNLIMITED && self.span > 0 {
            standard.element_bytes = self.span.unsigned_abs();
        }
        let unit = if self.span == 0 { self.element_bytes as isize } else { self.span };
        for (to, from) in standard.dimensions.iter_mut().zip(all) {
            let extent = from.upper_bound.wrapping_sub(from.lower_bound).wrapping_add(1);
            *to = Dimension {
                lower_bound: 0,
                extent: extent.max(0),
                step: from.stride.wrapping_mul(unit),
            };
        }
        if let (Some(last), Some(from)) = (rank.checked_sub(1), all.last()) {
            // An array of unknown size has an upper bound of 0 or -1, by the version. Nothing is
            // lost if an array without elements is taken for one.
            if from.lower_bound == 1 && matches!(from.upper_bound, 0 | -1) {
                standard.dimensions[last].extent = -1;
            }
        }
        standard
    }
}

impl StandardDescriptor {
    pub(crate) fn place(&self) -> *const ArrayDescriptor {
        std::ptr::from_ref(self).cast()
    }
}
