//! What comes back to the owner of a pool: answers in its own blocks (rule 9).

use super::area::{PoolArea, Span};
use crate::{
    bytes::Bytes,
    sync::{AtomicU32, Mutex, MutexGuard, Ordering},
};
use std::sync::Arc;

/// Of how many processes the owner keeps blocks for its next message.
const MOST: usize = 4;

/// The blocks in which answers came and which are kept for the next messages to those who sent them. They are in the owner's
/// process, where the views note them and the pool takes them, all under one lock of the engine's.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// How many processes have some: so that a pool without any asks no more than that.
    count: AtomicU32,
    /// By process, the latest last.
    kept: Mutex<Vec<(u32, Span)>>,
}

impl Answers {
    fn lock(&self) -> MutexGuard<'_, Vec<(u32, Span)>> {
        self.kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Keeps the blocks of an answer of process `from`.
    fn keep(&self, from: u32, span: Span, area: &PoolArea) {
        let mut kept = self.lock();
        let before = kept.iter().position(|(whose, _)| *whose == from).map(|at| kept.remove(at).1);
        let joined = area.join(before, span);
        if let Some(before) = before.filter(|before| before.first != joined.first) {
            area.free(before);
        }
        if kept.len() == MOST {
            area.free(kept.remove(0).1);
        }
        kept.push((from, joined));
        self.count.store(kept.len() as u32, Ordering::Relaxed);
    }

    /// Takes blocks for a message of `len` bytes to process `to` out of those that it has answered in, and frees what is left of
    /// them.
    #[inline]
    pub(super) fn take(&self, len: usize, to: u32, area: &PoolArea) -> Option<Span> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut kept = self.lock();
        let at = kept.iter().position(|(whose, _)| *whose == to)?;
        let span = kept.remove(at).1;
        self.count.store(kept.len() as u32, Ordering::Relaxed);
        let split = area.split_last(span, len);
        if let Some(left) = split.map_or(Some(span), |(_, left)| left) {
            area.free(left);
        }
        split.map(|(last, _)| last)
    }

    /// Whether there are blocks of answers of this process.
    pub(super) fn has(&self, of: u32) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && self.lock().iter().any(|(whose, _)| *whose == of)
    }

    /// Frees all blocks. Whether there were any.
    pub(super) fn free_all(&self, area: &PoolArea) -> bool {
        let are_any = self.count.load(Ordering::Relaxed) > 0;
        if are_any {
            self.lock().drain(..).for_each(|(_, span)| area.free(span));
            self.count.store(0, Ordering::Relaxed);
        }
        are_any
    }
}

/// The receiving side of the owner's: for the answers of one process.
#[derive(Debug)]
pub struct OwnView {
    from: u32,
    answers: Arc<Answers>,
    area: PoolArea,
}

impl OwnView {
    pub(super) const fn new(from: u32, answers: Arc<Answers>, area: PoolArea) -> OwnView {
        OwnView { from, answers, area }
    }

    /// The `len` bytes of a piece at `position`; none if no piece lies there (rule 3).
    #[inline]
    pub(crate) fn bytes(&self, position: u32, len: usize) -> Option<Bytes<'_>> {
        self.area.bytes(position, len)
    }

    /// Keeps the blocks in which the piece of `len` bytes at `position` lies, of whose blocks it is the last one.
    #[inline]
    pub(crate) fn keep(&self, position: u32, len: usize) {
        self.answers.keep(self.from, self.area.span(position, len), &self.area);
    }
}
