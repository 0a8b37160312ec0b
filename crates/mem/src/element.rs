//! Types of safe Rust whose values are messages: which of their bytes are data.
//!
//! A [`Shape`] says that at compile time. The bytes between the members of a struct are padding: they may be uninitialised,
//! so nothing reads them. A type without padding is [whole](Shape::is_whole) and travels as it lies; for others there is a
//! [`Layout`], made once for each type.

use crate::layout::{Layout, LayoutError, MAX_DEPTH};
use std::any::TypeId;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::num::{Saturating, Wrapping};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// A type whose values can be sent and received: numbers, arrays and tuples of such types, and structs of such types by
/// `#[derive(Element)]`.
///
/// Not among them are types for which not every pattern of bits is a value (`bool`, `char`, enums): a message
/// could bring one that is none. Send a number instead and check it where it arrives.
///
/// # Safety
/// [`SHAPE`](Element::SHAPE) is the shape of this type: each of its data bytes is initialised in every value of the type,
/// and any pattern of them, whatever the other bytes are, is a value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an element of a message",
    label = "not an element",
    note = "elements are numbers, arrays and tuples of elements, and structs with `#[derive(Element)]`",
    note = "`bool`, `char` and enums are not: not every pattern of bits is a value; send a number (such as `u8::from(flag)`) and check it where it arrives",
    note = "references, `Vec` and `String` are not: their data lie elsewhere; send the data themselves"
)]
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// Where the data bytes of a value lie.
    const SHAPE: Shape;
}

/// A type that is nothing but its bytes.
///
/// # Safety
/// All bytes are data: its shape is [whole](Shape::is_whole).
pub unsafe trait Plain: Element {}

macro_rules! plain {
    ($($t:ty)*) => {
        $(
            // SAFETY: a primitive number: all bit patterns are valid and it has no padding.
            unsafe impl Element for $t {
                const SHAPE: Shape = Shape::whole::<$t>();
            }
            // SAFETY: as above.
            unsafe impl Plain for $t {}
        )*
    };
}
plain!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64);

// SAFETY: elements of an array follow each other, each at its size.
unsafe impl<T: Element, const N: usize> Element for [T; N] {
    const SHAPE: Shape = Shape::array::<T>(N);
}

// SAFETY: elements of an array follow each other without padding.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

// SAFETY: it has no bytes.
unsafe impl Element for () {
    const SHAPE: Shape = Shape::whole::<()>();
}

// SAFETY: it has no bytes.
unsafe impl<T: ?Sized + Send + Sync + 'static> Element for PhantomData<T> {
    const SHAPE: Shape = Shape::whole::<()>();
}

// SAFETY: a transparent struct is as its only member.
unsafe impl<T: Element> Element for Wrapping<T> {
    const SHAPE: Shape = T::SHAPE;
}

// SAFETY: as for `Wrapping`.
unsafe impl<T: Element> Element for Saturating<T> {
    const SHAPE: Shape = T::SHAPE;
}

macro_rules! tuples {
    ($(($($t:ident $n:tt),+))*) => {
        $(
            // SAFETY: these are all members, and the compiler says where they lie.
            unsafe impl<$($t: Element),+> Element for ($($t,)+) {
                const SHAPE: Shape = Shape::structure::<Self>(&[$(Member::of::<$t>(std::mem::offset_of!(Self, $n))),+]);
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

/// Which bytes of a value are data.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of the value.
    size: usize,
    /// Bytes of data.
    data: usize,
    align: usize,
    depth: u32,
    parts: Parts,
}

#[derive(Clone, Copy, Debug)]
enum Parts {
    /// All bytes are data.
    Whole,
    Array {
        count: usize,
        element: &'static Shape,
    },
    Members(&'static [Member]),
}

/// A member of a struct.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    offset: usize,
    shape: Shape,
}

impl Member {
    /// A member of type `T` at this many bytes from the start of the struct.
    pub const fn of<T: Element>(offset: usize) -> Member {
        Member { offset, shape: T::SHAPE }
    }

    const fn end(&self) -> usize {
        self.offset + self.shape.size
    }
}

impl Shape {
    /// All bytes of a `T` are data.
    pub const fn whole<T>() -> Shape {
        let size = size_of::<T>();
        Shape { size, data: size, align: align_of::<T>(), depth: 0, parts: Parts::Whole }
    }

    const fn array<T: Element>(count: usize) -> Shape {
        let element = const { &T::SHAPE };
        let parts = if element.is_whole() { Parts::Whole } else { Parts::Array { count, element } };
        let (size, data) = (count * size_of::<T>(), count * element.data);
        Shape { size, data, align: element.align, depth: element.depth + 1, parts }.checked()
    }

    /// The data bytes of a `T` are those of its members.
    ///
    /// # Panics
    /// At compile time, if the members overlap or lie outside of a `T`: then they are not those of a struct.
    pub const fn structure<T>(members: &'static [Member]) -> Shape {
        let (size, mut data, mut depth, mut at) = (size_of::<T>(), 0, 0, 0);
        while at < members.len() {
            let member = &members[at];
            assert!(member.end() <= size, "a member lies outside of its struct");
            let mut before = 0;
            while before < at {
                let other = &members[before];
                assert!(member.end() <= other.offset || other.end() <= member.offset, "members overlap");
                before += 1;
            }
            data += member.shape.data;
            if member.shape.depth > depth {
                depth = member.shape.depth;
            }
            at += 1;
        }
        // Members that fill the struct leave no padding.
        let parts = if data == size { Parts::Whole } else { Parts::Members(members) };
        Shape { size, data, align: align_of::<T>(), depth: depth + 1, parts }.checked()
    }

    const fn checked(self) -> Shape {
        assert!(self.depth < MAX_DEPTH, "the type nests too deep for a message");
        self
    }

    /// The bytes of data in a value: what travels.
    #[inline]
    pub const fn data_bytes(&self) -> usize {
        self.data
    }

    /// Whether all bytes are data.
    #[inline]
    pub const fn is_whole(&self) -> bool {
        matches!(self.parts, Parts::Whole)
    }

    fn layout(&self) -> Result<Layout, LayoutError> {
        match self.parts {
            Parts::Whole => Ok(Layout::basic(self.size, self.align)),
            Parts::Array { count, element } => Layout::contiguous(count, &element.layout()?),
            Parts::Members(members) => {
                let layouts: Result<Vec<Layout>, _> = members.iter().map(|m| m.shape.layout()).collect();
                let layouts = layouts?;
                let members =
                    members.iter().zip(&layouts).map(|(m, layout)| (1, m.offset.cast_signed(), layout));
                Layout::resized(0, self.size.cast_signed(), &Layout::structure(members)?)
            }
        }
    }
}

/// The layout of a type. It is a fact about the type, so it is made once in a program.
pub fn layout_of<T: Element>() -> Arc<Layout> {
    static MADE: OnceLock<RwLock<HashMap<TypeId, Arc<Layout>>>> = OnceLock::new();
    let (made, id) = (MADE.get_or_init(RwLock::default), TypeId::of::<T>());
    if let Some(layout) = made.read().unwrap_or_else(PoisonError::into_inner).get(&id) {
        return layout.clone();
    }
    let Ok(layout) = T::SHAPE.layout() else {
        // The depth was checked when the shape was made, and all figures are those of a type that exists.
        unreachable!("the layout of {} cannot be made", std::any::type_name::<T>())
    };
    made.write().unwrap_or_else(PoisonError::into_inner).entry(id).or_insert(Arc::new(layout)).clone()
}
