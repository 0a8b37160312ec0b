//! Types of safe Rust whose values are messages, and which of their bytes are data.
//!
//! An [`ElementShape`] has the data bytes at compile time. Padding may be uninitialised and is
//! never read. A type without padding is [whole](ElementShape::is_whole) and is sent as contiguous
//! bytes; each other type has one [`Layout`].

use crate::layout::{Layout, LayoutError, MAX_DEPTH};
use std::any::TypeId;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::num::{Saturating, Wrapping};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// A type whose values can be sent and received: numbers, arrays and tuples of such types, and
/// structs of such types by `#[derive(Element)]`.
///
/// Types for which some patterns of bits are no values (`bool`, `char`, enums) are excluded, since
/// a message could contain such a pattern. Send a number instead and check it after the receive.
///
/// # Safety
/// [`SHAPE`](Element::SHAPE) is the shape of this type: each of its data bytes is initialised in
/// every value of the type, and every pattern of data bytes, with any padding, is a value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an element of a message",
    label = "not an element",
    note = "elements are numbers, arrays and tuples of elements, and structs with `#[derive(Element)]`",
    note = "`bool`, `char` and enums are not: not every pattern of bits is a value; send a number (such as `u8::from(flag)`) and check it where it arrives",
    note = "references, `Vec` and `String` are not: their data lie elsewhere; send the data themselves"
)]
pub unsafe trait Element: Copy + Send + Sync + 'static {
    const SHAPE: ElementShape;
}

/// A type whose bytes are all data.
///
/// # Safety
/// Its shape is [whole](ElementShape::is_whole).
pub unsafe trait Plain: Element {}

macro_rules! plain {
    ($($t:ty)*) => {
        $(
            // SAFETY: a primitive number: all bit patterns are valid and it has no padding.
            unsafe impl Element for $t {
                const SHAPE: ElementShape = ElementShape::whole::<$t>();
            }
            // SAFETY: as above.
            unsafe impl Plain for $t {}
        )*
    };
}
plain!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64);

// SAFETY: elements of an array follow each other, each at its size.
unsafe impl<T: Element, const N: usize> Element for [T; N] {
    const SHAPE: ElementShape = ElementShape::array::<T>(N);
}

// SAFETY: elements of an array follow each other without padding.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

// SAFETY: it has no bytes.
unsafe impl Element for () {
    const SHAPE: ElementShape = ElementShape::whole::<()>();
}

// SAFETY: it has no bytes.
unsafe impl<T: ?Sized + Send + Sync + 'static> Element for PhantomData<T> {
    const SHAPE: ElementShape = ElementShape::whole::<()>();
}

// SAFETY: a transparent struct has the representation of its only member.
unsafe impl<T: Element> Element for Wrapping<T> {
    const SHAPE: ElementShape = T::SHAPE;
}

// SAFETY: as for `Wrapping`.
unsafe impl<T: Element> Element for Saturating<T> {
    const SHAPE: ElementShape = T::SHAPE;
}

macro_rules! tuples {
    ($(($($t:ident $n:tt),+))*) => {
        $(
            // SAFETY: these are all members, at the offsets that the compiler gives.
            unsafe impl<$($t: Element),+> Element for ($($t,)+) {
                const SHAPE: ElementShape = ElementShape::structure::<Self>(&[$(Member::of::<$t>(std::mem::offset_of!(Self, $n))),+]);
            }
        )*
    };
}
tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}

/// The data bytes of a value.
#[derive(Clone, Copy, Debug)]
pub struct ElementShape {
    size: usize,
    data: usize,
    align: usize,
    depth: u32,
    parts: ShapeParts,
}

#[derive(Clone, Copy, Debug)]
enum ShapeParts {
    Whole,
    Array { count: usize, element: &'static ElementShape },
    Members(&'static [Member]),
}

/// A member of a struct.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    offset: usize,
    shape: ElementShape,
}

impl Member {
    /// A member of type `T` at `offset` bytes from the start of the struct.
    pub const fn of<T: Element>(offset: usize) -> Member {
        Member { offset, shape: T::SHAPE }
    }

    const fn end(&self) -> usize {
        self.offset + self.shape.size
    }
}

impl ElementShape {
    /// The shape of a `T` without padding.
    pub const fn whole<T>() -> ElementShape {
        let size = size_of::<T>();
        ElementShape {
            size,
            data: size,
            align: align_of::<T>(),
            depth: 0,
            parts: ShapeParts::Whole,
        }
    }

    const fn array<T: Element>(count: usize) -> ElementShape {
        let element = const { &T::SHAPE };
        let parts = if element.is_whole() {
            ShapeParts::Whole
        } else {
            ShapeParts::Array { count, element }
        };
        let (size, data) = (count * size_of::<T>(), count * element.data);
        ElementShape { size, data, align: element.align, depth: element.depth + 1, parts }.checked()
    }

    /// The shape of a struct `T`. Panics at compile time if members overlap or lie outside of `T`.
    pub const fn structure<T>(members: &'static [Member]) -> ElementShape {
        let (size, mut data, mut depth, mut at) = (size_of::<T>(), 0, 0, 0);
        while at < members.len() {
            let member = &members[at];
            assert!(member.end() <= size, "a member lies outside of its struct");
            let mut before = 0;
            while before < at {
                let other = &members[before];
                assert!(
                    member.end() <= other.offset || other.end() <= member.offset,
                    "members overlap"
                );
                before += 1;
            }
            data += member.shape.data;
            if member.shape.depth > depth {
                depth = member.shape.depth;
            }
            at += 1;
        }
        // Members that fill the struct leave no padding.
        let parts = if data == size { ShapeParts::Whole } else { ShapeParts::Members(members) };
        ElementShape { size, data, align: align_of::<T>(), depth: depth + 1, parts }.checked()
    }

    const fn checked(self) -> ElementShape {
        assert!(self.depth < MAX_DEPTH, "the type nests too deep for a message");
        self
    }

    /// The number of data bytes in a value, which are sent.
    #[inline]
    pub const fn data_bytes(&self) -> usize {
        self.data
    }

    /// Whether all bytes are data.
    #[inline]
    pub const fn is_whole(&self) -> bool {
        matches!(self.parts, ShapeParts::Whole)
    }

    fn layout(&self) -> Result<Layout, LayoutError> {
        match self.parts {
            ShapeParts::Whole => Ok(Layout::basic(self.size, self.align)),
            ShapeParts::Array { count, element } => Layout::contiguous(count, &element.layout()?),
            ShapeParts::Members(members) => {
                let layouts: Result<Vec<Layout>, _> =
                    members.iter().map(|m| m.shape.layout()).collect();
                let layouts = layouts?;
                let members = members
                    .iter()
                    .zip(&layouts)
                    .map(|(m, layout)| (1, m.offset.cast_signed(), layout));
                Layout::resized(0, self.size.cast_signed(), &Layout::structure(members)?)
            }
        }
    }
}

/// The layout of a type, made once in a process.
pub fn layout_of<T: Element>() -> Arc<Layout> {
    static MADE: OnceLock<RwLock<HashMap<TypeId, Arc<Layout>>>> = OnceLock::new();
    let (made, id) = (MADE.get_or_init(RwLock::default), TypeId::of::<T>());
    if let Some(layout) = made.read().unwrap_or_else(PoisonError::into_inner).get(&id) {
        return layout.clone();
    }
    let Ok(layout) = T::SHAPE.layout() else {
        // The depth was checked when the shape was made, and the sizes are of an existing type.
        unreachable!("the layout of {} cannot be made", std::any::type_name::<T>())
    };
    made.write()
        .unwrap_or_else(PoisonError::into_inner)
        .entry(id)
        .or_insert(Arc::new(layout))
        .clone()
}
