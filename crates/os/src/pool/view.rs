//! The receiving side of a pool.

use super::{
    area::{Again, PoolArea, PoolShape, Span, holder},
    touched::Touched,
};
use crate::bytes::{Bytes, BytesMut};

/// The receiving side, of a peer's pool: any number of them, one in each process.
#[derive(Debug)]
pub struct PoolView {
    /// This process as a holder, if it can be one.
    reader: Option<u32>,
    /// What it has freed last, if it has claimed nothing since (rule 9).
    read: Option<Span>,
    touched: Touched,
    area: PoolArea,
}

impl PoolView {
    /// A view of a peer's pool for the process that has this number there.
    pub fn new(area: PoolArea, known_as: u32) -> PoolView {
        PoolView { reader: holder(known_as), read: None, touched: Touched::new(&area), area }
    }

    /// The pool's sizes.
    pub(crate) const fn shape(&self) -> PoolShape {
        self.area.shape
    }

    /// As [`Pool::note_use`], for this process's own pages of the pool.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn note_use(&mut self, position: u32, len: usize) -> bool {
        self.touched.note(&self.area, position, len)
    }

    /// The `len` bytes of a piece at `position`; none if no piece lies there (rule 3).
    #[inline]
    pub fn bytes(&self, position: u32, len: usize) -> Option<Bytes<'_>> {
        self.area.bytes(position, len)
    }

    /// Frees the blocks in which the piece of `len` bytes at `position` lies, of whose blocks it is the last one (rule 4).
    #[inline]
    pub fn free(&mut self, position: u32, len: usize) {
        let span = self.area.span(position, len);
        self.area.free(span);
        self.read = Some(self.area.join(self.read, span));
    }

    /// Whether something was read here that was not yet answered, and a sender whose own pool has this shape may answer here
    /// (rule 9).
    pub fn may_answer(&self, shape: PoolShape) -> bool {
        self.read.is_some() && self.area.shape == shape
    }

    /// Claims blocks that were freed last for an answer of `len` bytes, if there are so many and they still are free. Whatever is
    /// sent next is no answer (rule 9).
    #[inline]
    pub(crate) fn claim(&mut self, len: usize) -> Option<Again> {
        let (last, _) = self.area.split_last(self.read.take()?, len)?;
        self.area.claim(last, self.reader?).then(|| self.area.again(last, len))
    }

    /// `len` bytes at `position` to write: of blocks that were claimed and whose slot is not yet published.
    #[inline]
    pub(crate) fn piece(&mut self, position: u32, len: usize) -> BytesMut<'_> {
        // SAFETY: claimed, says the caller.
        unsafe { self.area.piece(position, len) }
    }
}
