//! The predefined datatypes: handle, name, size, representation, and the category by which operations accept them.
//!
//! Sizes are those of C and Fortran compilers on x86-64 Linux: `long double` is the x87 format in 16 bytes, Fortran's
//! default kinds have 4 and 8 bytes. MPI-5.0 Annex A.1.1, values from the chapter on the application binary interface.

use crate::datatype::Datatype;
use oxmpi_mem::kernels::Scalar;
use oxmpi_mem::layout::Layout;
use std::sync::Arc;

/// The groups of types by which section 6.9.2 says what an operation is defined for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Category {
    /// Integers of C.
    CInteger,
    /// Integers of Fortran.
    FortranInteger,
    /// Floating point of both.
    FloatingPoint,
    /// Truth values of both.
    Logical,
    /// Complex numbers of both.
    Complex,
    /// `MPI_BYTE`.
    Byte,
    /// `MPI_AINT`, `MPI_OFFSET`, `MPI_COUNT`.
    MultiLanguage,
    /// Value and index.
    Pair,
    /// Characters and `MPI_PACKED`: for communication alone.
    Other,
}

/// What is known of a predefined datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PredefinedType {
    /// The ABI's handle value.
    pub handle: u16,
    /// The name in C.
    pub name: &'static str,
    /// The data bytes.
    pub size: usize,
    /// Bytes from element to element.
    pub extent: usize,
    /// Alignment in C, in bytes.
    pub align: usize,
    /// What operations take it for.
    pub category: Category,
    /// How it is represented; `None` where no operation is defined.
    pub scalar: Option<Scalar>,
}

/// `MPI_DATATYPE_NULL`, the lowest value (this and the values below are to be taken from `oxmpi_abi`).
const FIRST: u64 = 0x200;
/// One more than the highest value, `MPI_COMPLEX32`.
const END: usize = 0x2ec - 0x200;

macro_rules! types {
    ($($category:ident { $($handle:literal $name:ident $scalar:ident align $align:literal;)* })*) => {
        /// All predefined datatypes on which operations are defined.
        const ARITHMETIC: &[PredefinedType] = &[$($(
            PredefinedType {
                handle: $handle,
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
        0x208 MPI_SHORT I16 align 2;
        0x209 MPI_INT I32 align 4;
        0x20a MPI_LONG I64 align 8;
        0x20b MPI_LONG_LONG I64 align 8;
        0x20c MPI_UNSIGNED_SHORT U16 align 2;
        0x20d MPI_UNSIGNED U32 align 4;
        0x20e MPI_UNSIGNED_LONG U64 align 8;
        0x20f MPI_UNSIGNED_LONG_LONG U64 align 8;
        0x240 MPI_INT8_T I8 align 1;
        0x241 MPI_UINT8_T U8 align 1;
        0x244 MPI_SIGNED_CHAR I8 align 1;
        0x245 MPI_UNSIGNED_CHAR U8 align 1;
        0x248 MPI_INT16_T I16 align 2;
        0x249 MPI_UINT16_T U16 align 2;
        0x250 MPI_INT32_T I32 align 4;
        0x251 MPI_UINT32_T U32 align 4;
        0x258 MPI_INT64_T I64 align 8;
        0x259 MPI_UINT64_T U64 align 8;
    }
    FortranInteger {
        0x219 MPI_INTEGER I32 align 4;
        0x2c1 MPI_INTEGER1 I8 align 1;
        0x2c9 MPI_INTEGER2 I16 align 2;
        0x2d1 MPI_INTEGER4 I32 align 4;
        0x2d9 MPI_INTEGER8 I64 align 8;
        0x2e1 MPI_INTEGER16 I128 align 16;
    }
    FloatingPoint {
        0x210 MPI_FLOAT F32 align 4;
        0x214 MPI_DOUBLE F64 align 8;
        0x220 MPI_LONG_DOUBLE F80 align 16;
        0x21a MPI_REAL F32 align 4;
        0x21c MPI_DOUBLE_PRECISION F64 align 8;
        0x2ca MPI_REAL2 F16 align 2;
        0x2d2 MPI_REAL4 F32 align 4;
        0x2da MPI_REAL8 F64 align 8;
        0x2e2 MPI_REAL16 F128 align 16;
    }
    Logical {
        0x218 MPI_LOGICAL Bool32 align 4;
        0x238 MPI_C_BOOL Bool8 align 1;
        0x239 MPI_CXX_BOOL Bool8 align 1;
        0x2c0 MPI_LOGICAL1 Bool8 align 1;
        0x2c8 MPI_LOGICAL2 Bool16 align 2;
        0x2d0 MPI_LOGICAL4 Bool32 align 4;
        0x2d8 MPI_LOGICAL8 Bool64 align 8;
        0x2e0 MPI_LOGICAL16 Bool128 align 16;
    }
    Complex {
        0x212 MPI_C_FLOAT_COMPLEX C32 align 4;
        0x213 MPI_CXX_FLOAT_COMPLEX C32 align 4;
        0x216 MPI_C_DOUBLE_COMPLEX C64 align 8;
        0x217 MPI_CXX_DOUBLE_COMPLEX C64 align 8;
        0x224 MPI_C_LONG_DOUBLE_COMPLEX C80 align 16;
        0x225 MPI_CXX_LONG_DOUBLE_COMPLEX C80 align 16;
        0x21b MPI_COMPLEX C32 align 4;
        0x21d MPI_DOUBLE_COMPLEX C64 align 8;
        0x2d3 MPI_COMPLEX4 C16 align 2;
        0x2db MPI_COMPLEX8 C32 align 4;
        0x2e3 MPI_COMPLEX16 C64 align 8;
        0x2eb MPI_COMPLEX32 C128 align 16;
    }
    Byte {
        0x247 MPI_BYTE U8 align 1;
    }
    MultiLanguage {
        0x201 MPI_AINT I64 align 8;
        0x202 MPI_COUNT I64 align 8;
        0x203 MPI_OFFSET I64 align 8;
    }
    Pair {
        0x228 MPI_FLOAT_INT F32I32 align 4;
        0x229 MPI_DOUBLE_INT F64I32 align 8;
        0x22a MPI_LONG_INT I64I32 align 8;
        0x22b MPI_2INT I32I32 align 4;
        0x22c MPI_SHORT_INT I16I32 align 4;
        0x22d MPI_LONG_DOUBLE_INT F80I32 align 16;
        0x230 MPI_2REAL F32F32 align 4;
        0x231 MPI_2DOUBLE_PRECISION F64F64 align 8;
        0x232 MPI_2INTEGER I32I32 align 4;
    }
}

/// The predefined datatypes that are for communication alone.
const COMMUNICATED: &[PredefinedType] = &[
    opaque(0x207, "MPI_PACKED", 1),
    opaque(0x21e, "MPI_CHARACTER", 1),
    opaque(0x23c, "MPI_WCHAR", 4),
    opaque(0x243, "MPI_CHAR", 1),
];

const fn opaque(handle: u16, name: &'static str, size: usize) -> PredefinedType {
    PredefinedType { handle, name, size, extent: size, align: size, category: Category::Other, scalar: None }
}

/// All predefined datatypes.
pub fn all() -> impl Iterator<Item = &'static PredefinedType> {
    ARITHMETIC.iter().chain(COMMUNICATED)
}

/// One process's predefined datatypes: their names and attributes may be set, so they are no global state.
#[derive(Debug)]
pub struct Predefined {
    types: Box<[Option<Arc<Datatype>>; END]>,
}

impl Default for Predefined {
    fn default() -> Self {
        Predefined::new()
    }
}

impl Predefined {
    /// All of them, with their initial names.
    pub fn new() -> Predefined {
        let mut types = Box::new([const { None }; END]);
        for facts in all() {
            types[usize::from(facts.handle) - FIRST as usize] = Some(Arc::new(Datatype::predefined(facts)));
        }
        Predefined { types }
    }

    /// The datatype with this handle value: a subtraction and a load. `None` for `MPI_DATATYPE_NULL` and values that are no
    /// predefined datatype.
    #[inline]
    pub fn get(&self, handle: u64) -> Option<&Arc<Datatype>> {
        self.types.get(usize::try_from(handle.wrapping_sub(FIRST)).ok()?)?.as_ref()
    }
}

impl PredefinedType {
    /// The layout in memory; a pair is a struct of C.
    pub(crate) fn layout(&self) -> Layout {
        let (first, second, second_at) = match self.scalar {
            Some(Scalar::I16I32) => (2, 4, 4),
            Some(Scalar::F64I32 | Scalar::I64I32) => (8, 4, 8),
            Some(Scalar::F80I32) => (16, 4, 16),
            _ => return Layout::basic(self.size, self.align),
        };
        let (first, second) = (Layout::basic(first, self.align.min(first)), Layout::basic(second, 4));
        let pair = Layout::structure([(1, 0, &first), (1, second_at, &second)]);
        pair.unwrap_or_else(|_| Layout::basic(self.size, self.align))
    }
}

impl PredefinedType {
    /// The representation, or for types without arithmetic one of the same size, to copy by.
    pub(crate) fn copied_as(&self) -> Option<Scalar> {
        self.scalar.or(match self.size {
            1 => Some(Scalar::U8),
            4 => Some(Scalar::U32),
            _ => None,
        })
    }
}
