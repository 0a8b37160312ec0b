//! Memory of safe Rust as buffers of messages: slices, and rectangles of matrices.

use crate::buffer::UserBuf;
use crate::element::{Element, layout_of};
use crate::layout::Layout;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Range, RangeBounds};
use std::sync::Arc;

/// Elements to send: a slice, an array, a vector, or a [`Strided`] part of one.
///
/// # Safety
/// [`buffer`](Buffer::buffer) has [`count`](Buffer::count) elements that may be read while `self`
/// is borrowed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no buffer of a message",
    note = "buffers are slices, arrays and vectors of elements, and `Strided` views of them; a single value is `std::slice::from_ref(&value)`"
)]
pub unsafe trait Buffer {
    type Element: Element;

    fn count(&self) -> usize;

    /// The elements as a buffer.
    ///
    /// # Safety
    /// The buffer is not used after the borrow of `self`, and not written.
    unsafe fn buffer(&self) -> UserBuf;
}

/// Memory to receive into: a slice, an array, a vector (up to its length), or a [`StridedMut`] part
/// of one.
///
/// # Safety
/// [`buffer_mut`](BufferMut::buffer_mut) has the elements of [`buffer`](Buffer::buffer), each once,
/// and they may be written while `self` is borrowed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is nothing to receive into",
    note = "messages are received into slices, arrays and vectors of elements, and `StridedMut` views of them; a single value is `std::slice::from_mut(&mut value)`"
)]
pub unsafe trait BufferMut: Buffer {
    /// The elements as a buffer.
    ///
    /// # Safety
    /// The buffer is not used after the borrow of `self`.
    unsafe fn buffer_mut(&mut self) -> UserBuf;
}

/// `len` elements at `base`. Safety: as [`UserBuf::new`].
#[inline]
pub(crate) unsafe fn elements_at<T: Element>(base: *mut T, len: usize) -> UserBuf {
    if T::SHAPE.is_whole() {
        // SAFETY: as the caller promises; all bytes are data.
        return unsafe { UserBuf::of_size(base.cast(), len, size_of::<T>()) };
    }
    // SAFETY: as the caller promises; the layout names the data bytes.
    unsafe { UserBuf::new(base.cast(), len, &layout_of::<T>()) }
}

// SAFETY: a slice is contiguous elements.
unsafe impl<T: Element> Buffer for [T] {
    type Element = T;

    #[inline]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    unsafe fn buffer(&self) -> UserBuf {
        // SAFETY: it is used while the slice is borrowed; nothing writes to a read-only buffer.
        unsafe { elements_at(self.as_ptr().cast_mut(), self.len()) }.read_only()
    }
}

// SAFETY: as above, and the slice is borrowed exclusively.
unsafe impl<T: Element> BufferMut for [T] {
    #[inline]
    unsafe fn buffer_mut(&mut self) -> UserBuf {
        // SAFETY: the caller uses it while the slice is borrowed; any data bytes are values of T.
        unsafe { elements_at(self.as_mut_ptr(), self.len()) }
    }
}

/// The buffers of types that contain the elements of another buffer.
macro_rules! as_target {
    ($([$($generics:tt)*] $t:ty => $target:ty;)*) => {
        $(
            // SAFETY: it is the buffer of its target, which is borrowed with it.
            unsafe impl<$($generics)*> Buffer for $t {
                type Element = <$target as Buffer>::Element;

                #[inline]
                fn count(&self) -> usize {
                    <$target as Buffer>::count(self)
                }

                #[inline]
                unsafe fn buffer(&self) -> UserBuf {
                    // SAFETY: as the caller promises.
                    unsafe { <$target as Buffer>::buffer(self) }
                }
            }
        )*
    };
}
as_target! {
    [T: Element, const N: usize] [T; N] => [T];
    [T: Element] Vec<T> => [T];
    [T: Element] Box<[T]> => [T];
    [T: Element] Arc<[T]> => [T];
    [B: Buffer + ?Sized] &B => B;
    [B: Buffer + ?Sized] &mut B => B;
}

macro_rules! as_target_mut {
    ($([$($generics:tt)*] $t:ty => $target:ty;)*) => {
        $(
            // SAFETY: it is the buffer of its target, which is borrowed exclusively with it.
            unsafe impl<$($generics)*> BufferMut for $t {
                #[inline]
                unsafe fn buffer_mut(&mut self) -> UserBuf {
                    // SAFETY: as the caller promises.
                    unsafe { <$target as BufferMut>::buffer_mut(self) }
                }
            }
        )*
    };
}
as_target_mut! {
    [T: Element, const N: usize] [T; N] => [T];
    [T: Element] Vec<T> => [T];
    [T: Element] Box<[T]> => [T];
    [B: BufferMut + ?Sized] &mut B => B;
}

/// `rows` rows of `columns` elements of a matrix in row order, `stride` elements apart.
struct Rectangle<T> {
    base: *mut T,
    rows: usize,
    columns: usize,
    stride: usize,
}

impl<T> Clone for Rectangle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Rectangle<T> {}

impl<T> Rectangle<T> {
    #[track_caller]
    fn new(base: *mut T, len: usize, width: usize) -> Rectangle<T> {
        assert!(width > 0 && len.is_multiple_of(width), "{len} elements are no rows of {width}");
        Rectangle { base, rows: len / width, columns: width, stride: width }
    }

    #[track_caller]
    fn part(&self, rows: Range<usize>, columns: Range<usize>) -> Rectangle<T> {
        let fits = |range: &Range<usize>, all| range.start <= range.end && range.end <= all;
        assert!(
            fits(&rows, self.rows) && fits(&columns, self.columns),
            "rows {rows:?} and columns {columns:?} of {} rows of {} columns",
            self.rows,
            self.columns
        );
        // An empty part may begin after the last element; its address is never used.
        let base = self.base.wrapping_add(rows.start * self.stride + columns.start);
        Rectangle { base, rows: rows.len(), columns: columns.len(), stride: self.stride }
    }

    fn count(&self) -> usize {
        self.rows * self.columns
    }

    fn is_empty(&self) -> bool {
        self.rows == 0 || self.columns == 0
    }
}

impl<T: Element> Rectangle<T> {
    /// Safety: as [`UserBuf::new`], for the elements of the rectangle.
    unsafe fn buffer(&self) -> UserBuf {
        if self.is_empty() {
            return UserBuf::empty();
        }
        if self.columns == self.stride || self.rows == 1 {
            // SAFETY: as the caller promises; the rows follow each other.
            return unsafe { elements_at(self.base, self.count()) };
        }
        let step = (self.stride * size_of::<T>()).cast_signed();
        let row = Layout::contiguous(self.columns, &layout_of::<T>());
        let Ok(row) = row.and_then(|row| Layout::resized(0, step, &row)) else {
            // Rows of a slice fit into memory, and T's depth has room for one more level.
            unreachable!("a row of {} {}", self.columns, std::any::type_name::<T>())
        };
        // SAFETY: as the caller promises; the last row ends with its last element.
        unsafe { UserBuf::new(self.base.cast(), self.rows, &Arc::new(row)) }
    }
}

fn range(range: impl RangeBounds<usize>, all: usize) -> Range<usize> {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let start = match range.start_bound() {
        Included(at) => *at,
        Excluded(at) => at.saturating_add(1),
        Unbounded => 0,
    };
    let end = match range.end_bound() {
        Included(at) => at.saturating_add(1),
        Excluded(at) => *at,
        Unbounded => all,
    };
    start..end
}

/// A rectangle of a matrix in row order, to read or send. As a message it is the elements of its
/// rows, without the elements between (the data of MPI_Type_vector).
pub struct Strided<'a, T> {
    part: Rectangle<T>,
    borrowed: PhantomData<&'a [T]>,
}

/// A rectangle to write or receive into; see [`Strided`]. Separate parts can be used at the same
/// time.
pub struct StridedMut<'a, T> {
    part: Rectangle<T>,
    borrowed: PhantomData<&'a mut [T]>,
}

// SAFETY: it is a shared borrow of elements.
unsafe impl<T: Sync> Send for Strided<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Strided<'_, T> {}
// SAFETY: it is an exclusive borrow of elements.
unsafe impl<T: Send> Send for StridedMut<'_, T> {}
// SAFETY: shared, it is a shared borrow of elements.
unsafe impl<T: Sync> Sync for StridedMut<'_, T> {}

impl<T> Clone for Strided<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Strided<'_, T> {}

macro_rules! common {
    ($name:ident) => {
        impl<T> $name<'_, T> {
            /// The number of rows.
            pub fn rows(&self) -> usize {
                self.part.rows
            }

            /// The number of columns.
            pub fn columns(&self) -> usize {
                self.part.columns
            }

            /// A row as a slice. Panics if there is no such row.
            #[track_caller]
            pub fn row(&self, row: usize) -> &[T] {
                let row = self.part.part(row..row + 1, 0..self.part.columns);
                if row.is_empty() {
                    return &[];
                }
                // SAFETY: it lies in the slice that is borrowed, and is shared while `self` is.
                unsafe { std::slice::from_raw_parts(row.base, row.columns) }
            }
        }

        impl<T> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(
                    f,
                    concat!(stringify!($name), "({} x {})"),
                    self.part.rows, self.part.columns
                )
            }
        }

        // SAFETY: the elements lie in the slice that is borrowed.
        unsafe impl<T: Element> Buffer for $name<'_, T> {
            type Element = T;

            fn count(&self) -> usize {
                self.part.count()
            }

            unsafe fn buffer(&self) -> UserBuf {
                // SAFETY: as the caller promises; it is marked read-only.
                unsafe { self.part.buffer() }.read_only()
            }
        }
    };
}
common!(Strided);
common!(StridedMut);

// SAFETY: the elements are in the exclusively borrowed slice, or in this part of it, each once.
unsafe impl<T: Element> BufferMut for StridedMut<'_, T> {
    unsafe fn buffer_mut(&mut self) -> UserBuf {
        // SAFETY: as the caller promises.
        unsafe { self.part.buffer() }
    }
}

impl<'a, T> Strided<'a, T> {
    /// The matrix in `data` with rows of `width` elements. Panics at an incomplete row.
    #[track_caller]
    pub fn new(data: &'a [T], width: usize) -> Strided<'a, T> {
        let part = Rectangle::new(data.as_ptr().cast_mut(), data.len(), width);
        Strided { part, borrowed: PhantomData }
    }

    /// Some rows and columns. Panics if there are fewer.
    #[track_caller]
    pub fn part(
        &self,
        rows: impl RangeBounds<usize>,
        columns: impl RangeBounds<usize>,
    ) -> Strided<'a, T> {
        let part = self.part.part(range(rows, self.part.rows), range(columns, self.part.columns));
        Strided { part, ..*self }
    }

    /// One column. Panics if there is no such column.
    #[track_caller]
    pub fn column(&self, column: usize) -> Strided<'a, T> {
        self.part(.., column..=column)
    }
}

impl<'a, T> StridedMut<'a, T> {
    /// The matrix in `data` with rows of `width` elements. Panics at an incomplete row.
    #[track_caller]
    pub fn new(data: &'a mut [T], width: usize) -> StridedMut<'a, T> {
        StridedMut {
            part: Rectangle::new(data.as_mut_ptr(), data.len(), width),
            borrowed: PhantomData,
        }
    }

    /// Some rows and columns. Panics if there are fewer.
    #[track_caller]
    pub fn part(
        &mut self,
        rows: impl RangeBounds<usize>,
        columns: impl RangeBounds<usize>,
    ) -> StridedMut<'_, T> {
        let part = self.part.part(range(rows, self.part.rows), range(columns, self.part.columns));
        StridedMut { part, borrowed: PhantomData }
    }

    /// One column. Panics if there is no such column.
    #[track_caller]
    pub fn column(&mut self, column: usize) -> StridedMut<'_, T> {
        self.part(.., column..=column)
    }

    /// The elements for reading, while `self` is borrowed.
    pub fn shared(&self) -> Strided<'_, T> {
        Strided { part: self.part, borrowed: PhantomData }
    }

    /// The elements for reading, as long as the matrix is borrowed.
    pub fn into_shared(self) -> Strided<'a, T> {
        Strided { part: self.part, borrowed: PhantomData }
    }

    /// A row as a slice. Panics if there is no such row.
    #[track_caller]
    pub fn row_mut(&mut self, row: usize) -> &mut [T] {
        let row = self.part.part(row..row + 1, 0..self.part.columns);
        if row.is_empty() {
            return &mut [];
        }
        // SAFETY: it lies in the exclusively borrowed part, as long as `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(row.base, row.columns) }
    }

    /// The rows before `row`, and the rows from it on. Panics if there are fewer rows.
    #[track_caller]
    pub fn split_at_row(self, row: usize) -> (StridedMut<'a, T>, StridedMut<'a, T>) {
        let (rows, columns) = (self.part.rows, 0..self.part.columns);
        self.halves((0..row, columns.clone()), (row..rows, columns))
    }

    /// The columns before `column`, and the columns from it on. Panics if there are fewer columns.
    #[track_caller]
    pub fn split_at_column(self, column: usize) -> (StridedMut<'a, T>, StridedMut<'a, T>) {
        let (rows, columns) = (0..self.part.rows, self.part.columns);
        self.halves((rows.clone(), 0..column), (rows, column..columns))
    }

    #[track_caller]
    fn halves(
        self,
        a: (Range<usize>, Range<usize>),
        b: (Range<usize>, Range<usize>),
    ) -> (StridedMut<'a, T>, StridedMut<'a, T>) {
        let part = |(rows, columns)| StridedMut {
            part: self.part.part(rows, columns),
            borrowed: PhantomData,
        };
        (part(a), part(b))
    }
}
