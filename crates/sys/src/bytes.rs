//! Views of memory that other threads or processes may write at the same time.
//!
//! The data of a message are in a buffer of the user, which another thread of the program may
//! (wrongly) write, or in a segment that another process maps. A `&[u8]` would promise the compiler
//! that no other code writes them. [`Bytes`] and [`BytesMut`] promise only that the memory stays
//! mapped for their lifetime. A copy panics if the lengths differ; a slice panics if it exceeds the
//! view.

mod long;
mod vectors;

pub use crate::hint::store_fence;
use std::marker::PhantomData;

/// How bytes are copied into memory from which another process will read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    /// Through the caches: fast unless the written lines lie in another core's private cache.
    Plain,
    /// Past the caches, see [`Bytes::copy_to_streaming`].
    Streaming,
}

/// Below this length, in bytes, [`Bytes::copy_to`] uses only register moves and the C library.
pub const PLAIN_COPY_BYTES: usize = long::STRING_BYTES;

/// Readable memory of `len` bytes that stays mapped for `'a`. Its content may change at any time.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a> {
    ptr: *const u8,
    len: usize,
    _lent: PhantomData<&'a u8>,
}

/// Writable memory of `len` bytes that stays mapped for `'a`.
#[derive(Debug)]
pub struct BytesMut<'a> {
    ptr: *mut u8,
    len: usize,
    _lent: PhantomData<&'a mut u8>,
}

impl<'a> Bytes<'a> {
    /// A view of `len` bytes at `ptr`.
    ///
    /// # Safety
    /// The bytes must be readable for all of `'a` (`ptr` may be anything if `len` is 0).
    #[inline]
    pub const unsafe fn from_raw(ptr: *const u8, len: usize) -> Self {
        Bytes { ptr, len, _lent: PhantomData }
    }

    /// An empty view.
    #[inline]
    pub const fn empty() -> Self {
        Bytes { ptr: std::ptr::null(), len: 0, _lent: PhantomData }
    }

    /// The address of the first byte.
    #[inline]
    pub const fn as_ptr(&self) -> *const u8 {
        self.ptr
    }

    /// The length in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether the view has no bytes.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The `len` bytes from `offset` on.
    #[inline(always)]
    pub fn slice(&self, offset: usize, len: usize) -> Bytes<'a> {
        if offset > self.len || len > self.len - offset {
            no_slice(offset, len, self.len);
        }
        Bytes { ptr: self.ptr.wrapping_add(offset), len, _lent: PhantomData }
    }

    /// Copies all bytes to `to`.
    #[inline(always)]
    pub fn copy_to(&self, to: BytesMut<'_>) {
        assert_eq!(self.len, to.len, "copy between views of different lengths");
        // Inline for the two most frequent lengths: a call of memmove costs as much as a whole
        // small message.
        match self.len {
            // SAFETY: both views are mapped for their lifetimes and have 8 bytes.
            8 => unsafe {
                to.ptr.cast::<u64>().write_unaligned(self.ptr.cast::<u64>().read_unaligned())
            },
            // SAFETY: both views are mapped for their lifetimes and have 4 bytes.
            4 => unsafe {
                to.ptr.cast::<u32>().write_unaligned(self.ptr.cast::<u32>().read_unaligned())
            },
            _ => self.copy_any(to),
        }
    }

    /// Copies all bytes to the beginning of `to`; `false` if `to` is shorter.
    #[inline(always)]
    pub fn copy_if_it_fits(&self, to: BytesMut<'_>) -> bool {
        if self.len > to.len {
            return false;
        }
        self.copy_to(BytesMut { ptr: to.ptr, len: self.len, _lent: PhantomData });
        true
    }

    /// [`copy_to`](Self::copy_to) for memory that another processor has read last. Long copies use
    /// the processor's string instruction, which does not fetch the lines that it overwrites; the C
    /// library uses it only for some alignments. Where this instruction is slow (`long::is_slow`),
    /// vectors copy instead.
    #[inline]
    pub fn copy_over(&self, to: BytesMut<'_>) {
        if self.len < long::SHARED_BYTES {
            return self.copy_to(to);
        }
        assert_eq!(self.len, to.len, "copy between views of different lengths");
        // SAFETY: both views are mapped for their lifetimes and equally long.
        unsafe { long::copy(self.ptr, to.ptr, self.len) }
    }

    /// [`copy_to`](Self::copy_to) with vectors for long copies. The string instruction is slower at
    /// reading data that a near processor has just written.
    #[inline]
    pub fn copy_by_vectors(&self, to: BytesMut<'_>) {
        if self.len < long::STRING_BYTES {
            return self.copy_to(to);
        }
        assert_eq!(self.len, to.len, "copy between views of different lengths");
        // SAFETY: both views are mapped for their lifetimes and equally long.
        unsafe { vectors::copy(self.ptr, to.ptr, self.len, CopyKind::Plain) }
    }

    #[inline(never)]
    fn copy_any(&self, to: BytesMut<'_>) {
        if self.len >= long::LONG_BYTES || long::is_slow(self.ptr, to.ptr, self.len) {
            // SAFETY: both views are mapped for their lifetimes and equally long.
            return unsafe { long::copy(self.ptr, to.ptr, self.len) };
        }
        // SAFETY: both views are mapped for their lifetimes and equally long. `copy` and not
        // `copy_nonoverlapping`: an erroneous program may send from memory that it receives into.
        unsafe { std::ptr::copy(self.ptr, to.ptr, self.len) }
    }

    /// Copies all bytes to `to` by stores that do not fetch the written lines into the cache, on
    /// processors that have such stores. They are *not ordered* with later stores, not even with a
    /// release store: call [`store_fence`] before publishing the bytes to another thread.
    #[inline]
    pub fn copy_to_streaming(&self, to: BytesMut<'_>) {
        assert_eq!(self.len, to.len, "copy between views of different lengths");
        // SAFETY: both views are mapped for their lifetimes and equally long.
        unsafe { vectors::copy(self.ptr, to.ptr, self.len, CopyKind::Streaming) }
    }

    /// [`copy_to_streaming`](Self::copy_to_streaming), then [`store_fence`]: later stores become
    /// visible after the copied bytes.
    pub fn copy_past_caches(&self, to: BytesMut<'_>) {
        self.copy_to_streaming(to);
        store_fence();
    }

    /// Copies all bytes to `to` in the manner of `kind`.
    #[inline]
    pub fn copy_by(&self, kind: CopyKind, to: BytesMut<'_>) {
        match kind {
            CopyKind::Plain => self.copy_to(to),
            CopyKind::Streaming => self.copy_to_streaming(to),
        }
    }

    /// The bytes as a new vector.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.append_to(&mut out);
        out
    }

    /// Appends the bytes to a vector.
    pub fn append_to(&self, to: &mut Vec<u8>) {
        to.reserve(self.len);
        let before = to.len();
        // SAFETY: the vector has room for `len` more bytes; all are written before they count.
        unsafe {
            self.copy_to(BytesMut::from_raw(to.as_mut_ptr().add(before), self.len));
            to.set_len(before + self.len);
        }
    }
}

impl<'a> BytesMut<'a> {
    /// A view of `len` bytes at `ptr`.
    ///
    /// # Safety
    /// The bytes must be writable for all of `'a` (`ptr` may be anything if `len` is 0), and no `&`
    /// or `&mut` may refer to them meanwhile.
    #[inline]
    pub const unsafe fn from_raw(ptr: *mut u8, len: usize) -> Self {
        BytesMut { ptr, len, _lent: PhantomData }
    }

    /// The address of the first byte.
    #[inline]
    pub const fn as_mut_ptr(&mut self) -> *mut u8 {
        self.ptr
    }

    /// The length in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether the view has no bytes.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The view for a shorter lifetime.
    #[inline]
    pub const fn reborrow(&mut self) -> BytesMut<'_> {
        BytesMut { ptr: self.ptr, len: self.len, _lent: PhantomData }
    }

    /// The `len` bytes from `offset` on.
    #[inline(always)]
    pub fn slice(&mut self, offset: usize, len: usize) -> BytesMut<'_> {
        if offset > self.len || len > self.len - offset {
            no_slice(offset, len, self.len);
        }
        BytesMut { ptr: self.ptr.wrapping_add(offset), len, _lent: PhantomData }
    }

    /// [`BytesMut::slice`] that consumes the view and keeps its lifetime.
    #[inline]
    pub fn into_slice(self, offset: usize, len: usize) -> BytesMut<'a> {
        if offset > self.len || len > self.len - offset {
            no_slice(offset, len, self.len);
        }
        BytesMut { ptr: self.ptr.wrapping_add(offset), len, _lent: PhantomData }
    }

    /// A readable view of the same bytes.
    #[inline]
    pub const fn as_bytes(&self) -> Bytes<'_> {
        Bytes { ptr: self.ptr, len: self.len, _lent: PhantomData }
    }
}

impl<'a> From<&'a [u8]> for Bytes<'a> {
    #[inline]
    fn from(s: &'a [u8]) -> Self {
        Bytes { ptr: s.as_ptr(), len: s.len(), _lent: PhantomData }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Bytes<'a> {
    #[inline]
    fn from(s: &'a [u8; N]) -> Self {
        Bytes::from(&s[..])
    }
}

impl<'a> From<&'a mut [u8]> for BytesMut<'a> {
    #[inline]
    fn from(s: &'a mut [u8]) -> Self {
        BytesMut { ptr: s.as_mut_ptr(), len: s.len(), _lent: PhantomData }
    }
}

#[cold]
#[inline(never)]
fn no_slice(offset: usize, len: usize, of: usize) -> ! {
    panic!("slice of {len} at {offset} in {of}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_copies_to_its_place() {
        let from = [1u8, 2, 3, 4];
        let mut to = [0u8; 4];
        Bytes::from(&from).slice(1, 2).copy_to(BytesMut::from(&mut to[..]).slice(2, 2));
        assert_eq!(to, [0, 0, 2, 3]);
        assert!(!Bytes::from(&from).copy_if_it_fits(BytesMut::from(&mut to[..3])));
        assert!(Bytes::from(&from[..3]).copy_if_it_fits(BytesMut::from(&mut to[..])));
        assert_eq!(to, [1, 2, 3, 3]);
        assert_eq!(Bytes::from(&from).slice(4, 0).to_vec(), []);
    }

    #[test]
    #[should_panic(expected = "slice of 2 at 3 in 4")]
    fn a_slice_past_the_end_is_refused() {
        let _ = Bytes::from(&[0u8; 4]).slice(3, 2);
    }

    #[test]
    fn a_long_copy_writes_each_byte_and_no_other() {
        let long = long::LONG_BYTES;
        let from: Vec<u8> = (0..long + 200).map(|at| (at * 7 / 3) as u8).collect();
        for (start, len) in [(0, long), (1, long + 63), (64, long + 1), (100, long - 1)] {
            let mut to = vec![0xaau8; long + 200];
            Bytes::from(&from[..])
                .slice(start / 2, len)
                .copy_to(BytesMut::from(&mut to[..]).slice(start, len));
            assert_eq!(to[start..start + len], from[start / 2..start / 2 + len]);
            assert!(to[..start].iter().chain(&to[start + len..]).all(|&byte| byte == 0xaa));
        }
        let mut both = from.clone();
        let at = both.as_mut_ptr();
        // SAFETY: the vector is not used otherwise while these views are.
        unsafe { Bytes::from_raw(at, long).copy_to(BytesMut::from_raw(at.add(100), long)) };
        assert_eq!(both[100..100 + long], from[..long]);
        // At alignments for which the string instruction is slow.
        for (behind, len) in [(16, long), (63, long), (16, 2048), (1, 2049)] {
            let mut both = from.clone();
            let at = both.as_mut_ptr();
            // SAFETY: the vector is not used otherwise while these views are.
            unsafe { Bytes::from_raw(at, len).copy_to(BytesMut::from_raw(at.add(behind), len)) };
            assert_eq!(both[behind..behind + len], from[..len]);
        }
    }

    #[test]
    fn a_copy_to_any_place_in_a_line_writes_each_byte_and_no_other() {
        const PAGE: usize = 4096;
        let from: Vec<u8> = (0..3 * PAGE).map(|at| (at * 7 / 3) as u8).collect();
        let mut to = vec![0xaa_u8; 4 * PAGE];
        let start = to.as_ptr().addr();
        for behind in [0, 1, 8, 16, 40, 63, 64, PAGE - 16] {
            for (source, len) in [(0, 2047), (5, 2048), (16, 2 * PAGE + 3), (64, 9001)] {
                // The destination begins `behind` bytes after the source, modulo a page.
                let source_address = from.as_ptr().addr() + source;
                let place = (source_address + behind).wrapping_sub(start) % PAGE;
                let hindered = len >= 2048 && (1..64).contains(&behind);
                assert_eq!(long::is_slow(&from[source], &to[place], len), hindered);
                for copy in [Bytes::copy_to, Bytes::copy_by_vectors] {
                    let bytes = Bytes::from(&from[..]).slice(source, len);
                    copy(&bytes, BytesMut::from(&mut to[..]).slice(place, len));
                    assert_eq!(to[place..place + len], from[source..source + len]);
                    assert!(to[..place].iter().chain(&to[place + len..]).all(|&byte| byte == 0xaa));
                    to.fill(0xaa);
                }
            }
        }
    }

    #[test]
    fn a_streaming_copy_writes_each_byte_and_no_other() {
        let from: Vec<u8> = (0..1000).map(|at| at as u8).collect();
        for (start, len) in
            (0..70).flat_map(|start| [0, 1, 63, 64, 65, 127, 200, 640, 800].map(|len| (start, len)))
        {
            let mut to = [0xaau8; 1000];
            let source = Bytes::from(&from[..]).slice(start / 2, len);
            source.copy_by(CopyKind::Streaming, BytesMut::from(&mut to[..]).slice(start, len));
            assert_eq!(to[start..start + len], from[start / 2..start / 2 + len]);
            assert!(to[..start].iter().chain(&to[start + len..]).all(|&byte| byte == 0xaa));
        }
    }
}
