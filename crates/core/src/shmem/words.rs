//! What two ranks give each other as words (rule 15 of `oxmpi_os::control_section`): blocking collectives with at most
//! [`WORD_BYTES`] bytes for a rank.
//!
//! They are exchanged if each rank has some for the other, in an allreduce say, and *passed* if only one has: by the root of a
//! broadcast or scatter, to that of a gather or reduction. Who has passed the last one does not pass the next as a word: it need not wait
//! for who takes it, and would have to with so few places for words, so it goes by a segment, of which there are more. Both ranks know
//! alike which it is.

use super::moves::unpack;
use super::steps::Steps;
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::kernels::Kernel;
use oxmpi_objects::error::Result;
use oxmpi_os::bytes::{Bytes, BytesMut};
use oxmpi_os::clock::ticks;
use oxmpi_os::control_section::{WORD_BYTES, WORD_TURNS};
use oxmpi_os::first_look::FirstLook;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The bytes of a word, of which the first ones are somebody's.
pub(super) type Word = [u8; WORD_BYTES];

/// A word that begins with these bytes.
#[inline(always)]
pub(super) fn word(bytes: Bytes<'_>) -> Word {
    let mut word = Word::default();
    bytes.copy_to(BytesMut::from(&mut word[..bytes.len()]));
    word
}

/// A word that begins with `len` packed bytes of a buffer, from `at` on.
fn packed_word(buffer: &UserBuf, at: usize, len: usize) -> Word {
    let mut word = Word::default();
    buffer.pack(at, BytesMut::from(&mut word[..len]));
    word
}

/// What two ranks know alike of their words.
#[derive(Debug)]
pub(super) struct Words {
    /// Whose turn it is among the places for words.
    turn: AtomicU32,
    /// Who has passed the last one; [`NOBODY`] if words were exchanged since.
    passed_by: AtomicU32,
    /// When this rank has passed the last one, in ticks, and when it looks for the one that is passed in answer to that.
    passed_at: AtomicU64,
    first_look: FirstLook,
}

const NOBODY: u32 = u32::MAX;

impl Default for Words {
    fn default() -> Words {
        Words {
            turn: AtomicU32::new(0),
            passed_by: AtomicU32::new(NOBODY),
            passed_at: AtomicU64::new(0),
            first_look: FirstLook::default(),
        }
    }
}

impl Words {
    /// The place of the next words.
    #[inline(always)]
    fn next(&self) -> u32 {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(if turn + 1 == WORD_TURNS { 0 } else { turn + 1 }, Ordering::Relaxed);
        turn
    }

    /// The place of those that are exchanged next.
    #[inline(always)]
    fn next_exchange(&self) -> u32 {
        self.passed_by.store(NOBODY, Ordering::Relaxed);
        self.next()
    }

    /// Begins to pass something. Whether it is a word: `writer` has not passed the last one.
    #[inline(always)]
    fn begin_pass(&self, writer: u32) -> bool {
        let passes = self.passed_by.load(Ordering::Relaxed) != writer;
        if passes {
            self.passed_by.store(writer, Ordering::Relaxed);
        }
        passes
    }
}

impl<F: Fabric> Steps<'_, F> {
    /// Whether so many bytes for each rank are given as words, in a collective in which each of two ranks waits for the other.
    #[inline(always)]
    pub(super) fn exchanges_words(&self, bytes: usize) -> bool {
        self.ranks == 2 && bytes <= WORD_BYTES
    }

    /// Begins a collective in which `writer` has so many bytes for the other one of two ranks, who alone waits. Whether they are passed as a
    /// word.
    #[inline(always)]
    pub(super) fn begins_pass(&self, writer: u32, bytes: usize) -> bool {
        self.exchanges_words(bytes) && self.control.words.begin_pass(writer)
    }

    /// Gives the other one a word for a step, in an exchange; its place.
    #[inline(always)]
    pub(super) fn give_word(&self, step: u64, mine: Word) -> u32 {
        let turn = self.control.words.next_exchange();
        self.section.give_word(self.me, turn, step, u64::from_ne_bytes(mine));
        self.wake();
        turn
    }

    /// Passes the other one a word for a step, with which this rank is done then.
    #[inline(always)]
    pub(super) fn pass_word(&self, step: u64, mine: Word) {
        self.section.give_word(self.me, self.control.words.next(), step, u64::from_ne_bytes(mine));
        // Behind the word: it takes time that the word takes as well.
        self.control.words.passed_at.store(ticks(), Ordering::Relaxed);
        self.finish(step);
    }

    /// Takes the word that the other one gives in an exchange, from its place.
    #[inline(always)]
    pub(super) fn take_word(&self, step: u64, turn: u32) -> Result<Word> {
        // It may have come with the line that this rank has written to.
        let theirs = match self.section.take_word(1 - self.me, turn, step) {
            Some(theirs) => theirs,
            None => self.await_word(step, turn, |_| false)?,
        };
        // If the other one sleeps until this is done it is a collective further on, which cannot end without this rank's next one: that
        // wakes it. To ask for it here takes a sixth of an exchange.
        self.section.finish(self.me, step);
        self.all_seen(step);
        Ok(theirs.to_ne_bytes())
    }

    /// Takes the word that the other one passes.
    #[inline(always)]
    pub(super) fn take_passed_word(&self, step: u64) -> Result<Word> {
        let words = &self.control.words;
        let passed_at = words.passed_at.load(Ordering::Relaxed);
        let theirs = self.await_word(step, words.next(), |is_there| match self.control.is_crowded {
            true => is_there(),
            false => words.first_look.finds::<false>(passed_at, is_there),
        })?;
        self.finish(step);
        self.all_seen(step);
        Ok(theirs.to_ne_bytes())
    }

    /// Waits for a word, after a first look by `finds`, which is told how to look.
    #[inline(never)]
    fn await_word(&self, step: u64, turn: u32, finds: impl FnOnce(&dyn Fn() -> bool) -> bool) -> Result<u64> {
        let (other, theirs) = (1 - self.me, Cell::new(0));
        let is_there = || {
            let word = self.section.take_word(other, turn, step);
            word.inspect(|word| theirs.set(*word)).is_some()
        };
        if !finds(&is_there) {
            self.wait_for_rank(other, step, is_there)?;
        }
        Ok(theirs.get())
    }

    /// Exchanges words for the only step of a collective.
    pub(super) fn exchange_words(&self, mine: Word) -> Result<Word> {
        let step = self.number(1);
        let turn = self.give_word(step, mine);
        self.take_word(step, turn)
    }

    /// As [`Steps::exchange_words`], of `block` packed bytes of `given`, for some of `output`; each begins at some byte.
    pub(super) fn exchange_blocks(
        &self,
        (given, from): (&UserBuf, usize),
        (output, to): (&UserBuf, usize),
        block: usize,
    ) -> Result<()> {
        let theirs = self.exchange_words(packed_word(given, from, block))?;
        unpack(output, to, Bytes::from(&theirs[..block]));
        Ok(())
    }

    /// As [`Steps::exchange_blocks`], where `writer` alone gives its block, and the other one alone takes it.
    pub(super) fn pass_block(
        &self,
        writer: u32,
        (given, from): (&UserBuf, usize),
        (output, to): (&UserBuf, usize),
        block: usize,
    ) -> Result<()> {
        let step = self.number(1);
        if self.me == writer {
            self.pass_word(step, packed_word(given, from, block));
        } else {
            let theirs = self.take_passed_word(step)?;
            unpack(output, to, Bytes::from(&theirs[..block]));
        }
        Ok(())
    }

    /// Combines this rank's own with what the other one has given for that, in the order of the ranks.
    #[inline(always)]
    pub(super) fn combine_words(&self, kernel: &Kernel, own: Word, theirs: Word, result: BytesMut<'_>) {
        let len = result.len();
        debug_assert!(len <= WORD_BYTES);
        let [first, second] = if self.me == 0 { [&own, &theirs] } else { [&theirs, &own] };
        // Predefined operations are commutative: what was combined before may be on the right.
        let (left, right) = (Bytes::from(&second[..len]), Bytes::from(&first[..len]));
        if len == kernel.extent() {
            kernel.apply_to_one(left, right, result);
        } else {
            kernel.apply_apart(left, right, result);
        }
    }
}
