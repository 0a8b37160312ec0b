//! The predefined datatypes: handle, name, size, representation, and category for operations. Sizes
//! are those of C and Fortran compilers on x86-64 Linux: `long double` is the x87 format in 16
//! bytes, and Fortran's default kinds have 4 and 8 bytes. Source: MPI-5.0 Annex A.1.1, and the
//! chapter on the application binary interface.

use crate::datatype::Datatype;
use oxmpi_abi::constants as abi;
use oxmpi_mem::external32::ExternalElement;
use oxmpi_mem::kernels::Scalar;
use oxmpi_mem::layout::Layout;
use std::ffi::c_char;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

/// The groups of types for which MPI-5.0 section 6.9.2 defines operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    CInteger,
    FortranInteger,
    FloatingPoint,
    Logical,
    Complex,
    Byte,
    /// `MPI_AINT`, `MPI_OFFSET`, `MPI_COUNT`.
    MultiLanguage,
    /// Value and index.
    Pair,
    /// `MPI_CHAR`, in the standard for communication only; treated as C's `char`
    /// ([`crate::op::is_supported`]).
    Char,
    Other,
}

/// The properties of a predefined datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredefinedType {
    pub handle: u16,
    pub name: &'static str,
    pub size: usize,
    /// The distance of two elements in bytes.
    pub extent: usize,
    pub align: usize,
    pub category: Category,
    /// `None` if no operation is defined.
    pub scalar: Option<Scalar>,
}

const FIRST: u64 = abi::MPI_DATATYPE_NULL as u64;
const END: usize = abi::MPI_COMPLEX32 - abi::MPI_DATATYPE_NULL + 1;

// Of two synonyms, the table has the one to which the standard refers.
macro_rules! types {
    ($($category:ident { $($name:ident $scalar:ident align $align:literal;)* })*) => {
        const ARITHMETIC: &[PredefinedType] = &[$($(
            PredefinedType {
                handle: abi::$name as u16,
                name: stringify!($name),
                size: Scalar::$scalar.size_extent().0,
                extent: Scalar::$scalar.size_extent().1,
                align: $align,
                category: Category::$category,
                scalar: Some(Scalar::$scalar),
            },
        )*)*];
    };
}

types! {
    CInteger {
        MPI_SHORT I16 align 2;
        MPI_INT I32 align 4;
        MPI_LONG I64 align 8;
        MPI_LONG_LONG_INT I64 align 8;
        MPI_UNSIGNED_SHORT U16 align 2;
        MPI_UNSIGNED U32 align 4;
        MPI_UNSIGNED_LONG U64 align 8;
        MPI_UNSIGNED_LONG_LONG U64 align 8;
        MPI_INT8_T I8 align 1;
        MPI_UINT8_T U8 align 1;
        MPI_SIGNED_CHAR I8 align 1;
        MPI_UNSIGNED_CHAR U8 align 1;
        MPI_INT16_T I16 align 2;
        MPI_UINT16_T U16 align 2;
        MPI_INT32_T I32 align 4;
        MPI_UINT32_T U32 align 4;
        MPI_INT64_T I64 align 8;
        MPI_UINT64_T U64 align 8;
    }
    FortranInteger {
        MPI_INTEGER I32 align 4;
        MPI_INTEGER1 I8 align 1;
        MPI_INTEGER2 I16 align 2;
        MPI_INTEGER4 I32 align 4;
        MPI_INTEGER8 I64 align 8;
        MPI_INTEGER16 I128 align 16;
    }
    FloatingPoint {
        MPI_FLOAT F32 align 4;
        MPI_DOUBLE F64 align 8;
        MPI_LONG_DOUBLE F80 align 16;
        MPI_REAL F32 align 4;
        MPI_DOUBLE_PRECISION F64 align 8;
        MPI_REAL2 F16 align 2;
        MPI_REAL4 F32 align 4;
        MPI_REAL8 F64 align 8;
        MPI_REAL16 F128 align 16;
    }
    Logical {
        MPI_LOGICAL Bool32 align 4;
        MPI_C_BOOL Bool8 align 1;
        MPI_CXX_BOOL Bool8 align 1;
        MPI_LOGICAL1 Bool8 align 1;
        MPI_LOGICAL2 Bool16 align 2;
        MPI_LOGICAL4 Bool32 align 4;
        MPI_LOGICAL8 Bool64 align 8;
        MPI_LOGICAL16 Bool128 align 16;
    }
    Complex {
        MPI_C_COMPLEX C32 align 4;
        MPI_CXX_FLOAT_COMPLEX C32 align 4;
        MPI_C_DOUBLE_COMPLEX C64 align 8;
        MPI_CXX_DOUBLE_COMPLEX C64 align 8;
        MPI_C_LONG_DOUBLE_COMPLEX C80 align 16;
        MPI_CXX_LONG_DOUBLE_COMPLEX C80 align 16;
        MPI_COMPLEX C32 align 4;
        MPI_DOUBLE_COMPLEX C64 align 8;
        MPI_COMPLEX4 C16 align 2;
        MPI_COMPLEX8 C32 align 4;
        MPI_COMPLEX16 C64 align 8;
        MPI_COMPLEX32 C128 align 16;
    }
    Byte {
        MPI_BYTE U8 align 1;
    }
    MultiLanguage {
        MPI_AINT I64 align 8;
        MPI_COUNT I64 align 8;
        MPI_OFFSET I64 align 8;
    }
    Pair {
        MPI_FLOAT_INT F32I32 align 4;
        MPI_DOUBLE_INT F64I32 align 8;
        MPI_LONG_INT I64I32 align 8;
        MPI_2INT I32I32 align 4;
        MPI_SHORT_INT I16I32 align 4;
        MPI_LONG_DOUBLE_INT F80I32 align 16;
        MPI_2REAL F32F32 align 4;
        MPI_2DOUBLE_PRECISION F64F64 align 8;
        MPI_2INTEGER I32I32 align 4;
    }
}

/// The predefined datatypes for communication only.
const COMMUNICATED: &[PredefinedType] = &[
    opaque(abi::MPI_PACKED, "MPI_PACKED", 1),
    opaque(abi::MPI_CHARACTER, "MPI_CHARACTER", 1),
    opaque(abi::MPI_WCHAR, "MPI_WCHAR", 4),
    PredefinedType {
        category: Category::Char,
        // The sign of C's `char` depends on the processor.
        scalar: Some(if c_char::MIN == 0 { Scalar::U8 } else { Scalar::I8 }),
        ..opaque(abi::MPI_CHAR, "MPI_CHAR", 1)
    },
];

const fn opaque(handle: usize, name: &'static str, size: usize) -> PredefinedType {
    PredefinedType {
        handle: handle as u16,
        name,
        size,
        extent: size,
        align: size,
        category: Category::Other,
        scalar: None,
    }
}

/// All predefined datatypes.
pub fn all() -> impl Iterator<Item = &'static PredefinedType> {
    ARITHMETIC.iter().chain(COMMUNICATED)
}

/// The predefined datatype with this handle value.
pub fn by_handle(handle: usize) -> Option<&'static PredefinedType> {
    all().find(|facts| usize::from(facts.handle) == handle)
}

/// The Fortran type of `size` bytes in a class (`MPI_TYPECLASS_INTEGER`, ...).
pub fn by_size(class: i32, size: i32) -> Option<&'static PredefinedType> {
    let types: &[usize] = match class {
        abi::MPI_TYPECLASS_INTEGER => &[
            abi::MPI_INTEGER1,
            abi::MPI_INTEGER2,
            abi::MPI_INTEGER4,
            abi::MPI_INTEGER8,
            abi::MPI_INTEGER16,
        ],
        abi::MPI_TYPECLASS_REAL => {
            &[abi::MPI_REAL2, abi::MPI_REAL4, abi::MPI_REAL8, abi::MPI_REAL16]
        }
        abi::MPI_TYPECLASS_COMPLEX => {
            &[abi::MPI_COMPLEX4, abi::MPI_COMPLEX8, abi::MPI_COMPLEX16, abi::MPI_COMPLEX32]
        }
        abi::MPIX_TYPECLASS_LOGICAL => &[
            abi::MPI_LOGICAL1,
            abi::MPI_LOGICAL2,
            abi::MPI_LOGICAL4,
            abi::MPI_LOGICAL8,
            abi::MPI_LOGICAL16,
        ],
        _ => return None,
    };
    let size = usize::try_from(size).ok()?;
    types.iter().filter_map(|&handle| by_handle(handle)).find(|facts| facts.size == size)
}

const PAIRS: [(usize, usize, usize); 9] = [
    (abi::MPI_FLOAT, abi::MPI_INT, abi::MPI_FLOAT_INT),
    (abi::MPI_DOUBLE, abi::MPI_INT, abi::MPI_DOUBLE_INT),
    (abi::MPI_LONG, abi::MPI_INT, abi::MPI_LONG_INT),
    (abi::MPI_INT, abi::MPI_INT, abi::MPI_2INT),
    (abi::MPI_SHORT, abi::MPI_INT, abi::MPI_SHORT_INT),
    (abi::MPI_LONG_DOUBLE, abi::MPI_INT, abi::MPI_LONG_DOUBLE_INT),
    (abi::MPI_REAL, abi::MPI_REAL, abi::MPI_2REAL),
    (abi::MPI_DOUBLE_PRECISION, abi::MPI_DOUBLE_PRECISION, abi::MPI_2DOUBLE_PRECISION),
    (abi::MPI_INTEGER, abi::MPI_INTEGER, abi::MPI_2INTEGER),
];

/// The type of pairs of a value and an index. All are handle values.
pub fn pair_of(value: usize, index: usize) -> Option<&'static PredefinedType> {
    let pair = PAIRS.iter().find(|pair| (pair.0, pair.1) == (value, index))?;
    by_handle(pair.2)
}

/// The element size of each predefined datatype without gaps, by handle value minus [`FIRST`]; 0
/// for others.
static PLAIN_SIZES: [AtomicU8; END] = {
    let mut sizes = [const { AtomicU8::new(0) }; END];
    let mut at = 0;
    while at < ARITHMETIC.len() + COMMUNICATED.len() {
        let facts = if at < ARITHMETIC.len() {
            &ARITHMETIC[at]
        } else {
            &COMMUNICATED[at - ARITHMETIC.len()]
        };
        if facts.is_plain() {
            sizes[facts.handle as usize - FIRST as usize] = AtomicU8::new(facts.size as u8);
        }
        at += 1;
    }
    sizes
};

/// The element size of a predefined datatype without gaps, by handle value; `None` for other
/// datatypes. Every short message takes this path of a subtraction and a load.
#[inline(always)]
pub fn plain_size(handle: u64) -> Option<usize> {
    match usize::from(PLAIN_SIZES.get(handle.wrapping_sub(FIRST) as usize)?.load(Ordering::Relaxed))
    {
        0 => None,
        size => Some(size),
    }
}

/// Empties the table of [`plain_size`], so that every call takes the full path. This serves buffers
/// outside of the process's own memory, without a further instruction in the path of short
/// messages.
pub fn forget_plain_sizes() {
    PLAIN_SIZES.iter().for_each(|size| size.store(0, Ordering::Relaxed));
}

/// Whether each predefined datatype is an integer for [`is_word`], by handle value minus [`FIRST`].
static WORDS: [bool; END] = {
    let mut words = [false; END];
    let mut at = 0;
    while at < ARITHMETIC.len() {
        let facts = &ARITHMETIC[at];
        let integer = matches!(
            (facts.category, facts.scalar),
            (
                Category::CInteger | Category::FortranInteger | Category::MultiLanguage,
                Some(Scalar::I32 | Scalar::I64 | Scalar::U32 | Scalar::U64)
            )
        );
        words[facts.handle as usize - FIRST as usize] = integer && facts.is_plain();
        at += 1;
    }
    words
};

/// Whether a predefined datatype, by handle value, is an integer of 4 or 8 bytes with sum, bitwise
/// operations and replacement (MPI-5.0 section 6.9.2). These operations are one instruction.
#[inline(always)]
pub fn is_word(handle: u64) -> bool {
    WORDS.get(handle.wrapping_sub(FIRST) as usize).is_some_and(|is| *is)
}

/// The predefined datatypes of one process. They are no global state, since names and attributes
/// can be set. Each is made at its first use, since a program uses few.
#[derive(Debug)]
pub struct Predefined {
    types: Box<[OnceLock<Arc<Datatype>>; END]>,
}

impl Default for Predefined {
    fn default() -> Self {
        Predefined::new()
    }
}

impl Predefined {
    /// The datatypes with their initial names.
    pub fn new() -> Predefined {
        Predefined { types: Box::new([const { OnceLock::new() }; END]) }
    }

    /// The datatype with this handle value; `None` for `MPI_DATATYPE_NULL` and other values.
    #[inline]
    pub fn get(&self, handle: u64) -> Option<&Arc<Datatype>> {
        let place = self.types.get(usize::try_from(handle.wrapping_sub(FIRST)).ok()?)?;
        place.get().or_else(|| made(place, handle))
    }
}

#[cold]
fn made(place: &OnceLock<Arc<Datatype>>, handle: u64) -> Option<&Arc<Datatype>> {
    let facts = all().find(|facts| u64::from(facts.handle) == handle)?;
    Some(place.get_or_init(|| Arc::new(Datatype::predefined(facts))))
}

impl PredefinedType {
    const fn is_plain(&self) -> bool {
        let gaps = matches!(
            self.scalar,
            Some(Scalar::I16I32 | Scalar::F64I32 | Scalar::I64I32 | Scalar::F80I32)
        );
        !gaps && self.size == self.extent
    }

    /// A pair has the layout of a C struct.
    pub(crate) fn layout(&self) -> Layout {
        let (first, second, second_at) = match self.scalar {
            Some(Scalar::I16I32) => (2, 4, 4),
            Some(Scalar::F64I32 | Scalar::I64I32) => (8, 4, 8),
            Some(Scalar::F80I32) => (16, 4, 16),
            _ => return Layout::basic(self.size, self.align),
        };
        let (first, second) =
            (Layout::basic(first, self.align.min(first)), Layout::basic(second, 4));
        let pair = Layout::structure([(1, 0, &first), (1, second_at, &second)]);
        pair.unwrap_or_else(|_| Layout::basic(self.size, self.align))
    }
}

impl PredefinedType {
    /// The representation for copies. A type without arithmetic has that of a number of the same
    /// size.
    pub(crate) fn copied_as(&self) -> Option<Scalar> {
        self.scalar.or(match self.size {
            1 => Some(Scalar::U8),
            4 => Some(Scalar::U32),
            _ => None,
        })
    }

    /// The basic elements for `MPI_Get_elements`: two in a pair. Sizes in external32 are those of
    /// MPI-5.0 section 14.5.2.
    pub(crate) fn elements(&self) -> Vec<ExternalElement> {
        let long = ExternalElement::signed(8, 4);
        match usize::from(self.handle) {
            abi::MPI_LONG => return vec![long],
            abi::MPI_UNSIGNED_LONG => return vec![ExternalElement::unsigned(8, 4)],
            abi::MPI_LONG_INT => return vec![long, ExternalElement::same(4)],
            abi::MPI_WCHAR => return vec![ExternalElement::unsigned(4, 2)],
            _ => {}
        }
        let size = self.size as u8;
        match self.scalar {
            Some(Scalar::F80) => vec![ExternalElement::EXTENDED],
            Some(Scalar::C80) => vec![ExternalElement::EXTENDED.complex()],
            Some(Scalar::F80I32) => vec![ExternalElement::EXTENDED, ExternalElement::same(4)],
            Some(Scalar::C16 | Scalar::C32 | Scalar::C64 | Scalar::C128) => {
                vec![ExternalElement::same(size / 2).complex()]
            }
            Some(Scalar::F32I32 | Scalar::I32I32 | Scalar::F32F32 | Scalar::F64F64) => {
                vec![ExternalElement::same(size / 2); 2]
            }
            Some(Scalar::F64I32 | Scalar::I64I32 | Scalar::I16I32) => {
                vec![ExternalElement::same(size - 4), ExternalElement::same(4)]
            }
            _ => vec![ExternalElement::same(size)],
        }
    }
}
