//! Mailboxes: requests of an *origin* for operations on memory of a *target* that the origin has
//! not mapped.
//!
//! A target has a mailbox for each origin: a line for a request and a line for its answer. Both are
//! in memory of the target, which polls them whenever it makes progress. A request carries short
//! data in its line; longer data are in a buffer of the origin that the target has mapped. So an
//! operation and its completion cost one line each.
//!
//! ```text
//! request   word 0: 4 x its number + its state     word 1: operation
//!           words 2, 3: place, bytes               words 4 to 7: data
//! answer    word 0: the number                     word 1: status      words 4 to 7: data
//! ```
//!
//! Rules
//! 1. *One at a time.* An origin numbers its requests from 1. It writes a request, and its buffer,
//!    only after the previous request was answered or withdrawn.
//! 2. *Post.* It stores the number to word 0 of the request last (release), then rings the target's
//!    door. The target loads it (acquire) before it reads the rest, or the buffer.
//! 3. *Answer.* The target carries out each request once. Then it stores the number to word 0 of
//!    the answer last (release), and rings the origin's door. The origin loads it (acquire) before
//!    it reads the rest, or the buffer.
//! 4. *Withdraw.* A request may say that it can be withdrawn. Then the target changes its state to
//!    "claimed" before it begins, and the origin changes it to "withdrawn", each by a
//!    compare-exchange with "posted". So only one of them succeeds.

use oxmpi_sys::line::{LINE_BYTES, LINE_WORDS, Line};
#[cfg(not(loom))]
use oxmpi_sys::memory::Memory;
use oxmpi_sys::sync::{AtomicU64, Ordering, fence};
use std::sync::Arc;

pub const CARRIED_WORDS: usize = 4;
pub const CARRIED_BYTES: usize = 8 * CARRIED_WORDS;

const POSTED: u64 = 0;
const CLAIMED: u64 = 1;
const WITHDRAWN: u64 = 2;
const STATES: u64 = 4;

const CARRIED: usize = LINE_WORDS - CARRIED_WORDS;

/// Memory of atomic words.
pub trait Words {
    fn word(&self, index: usize) -> &AtomicU64;
}

impl Words for Arc<[Line]> {
    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        &self[index / LINE_WORDS].words[index % LINE_WORDS]
    }
}

#[cfg(not(loom))]
impl Words for Memory {
    #[inline(always)]
    fn word(&self, index: usize) -> &AtomicU64 {
        Memory::word(self, index)
    }
}

/// A request of an origin. The caller defines the meaning of the words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailboxRequest {
    pub what: u64,
    pub may_be_withdrawn: bool,
    /// The place in the window.
    pub at: u64,
    pub len: u64,
    pub data: [u64; CARRIED_WORDS],
}

/// The result of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub status: u64,
    pub data: [u64; CARRIED_WORDS],
}

const MAY_BE_WITHDRAWN: u64 = 1 << 63;

/// The mailboxes of a target.
#[derive(Clone, Copy, Debug)]
pub struct Mailboxes<'m, W> {
    words: &'m W,
    first: usize,
}

/// Bytes of the mailboxes for `origins` origins.
pub const fn mailbox_bytes(origins: u32) -> usize {
    2 * LINE_BYTES * origins as usize
}

impl<'m, W: Words> Mailboxes<'m, W> {
    /// The mailboxes in zeroed `words` from the word `first` on, which begins a line.
    #[inline]
    pub fn new(words: &'m W, first: usize) -> Mailboxes<'m, W> {
        Mailboxes { words, first }
    }

    #[inline]
    fn request(&self, origin: u32, word: usize) -> &'m AtomicU64 {
        self.words.word(self.first + 2 * LINE_WORDS * origin as usize + word)
    }

    #[inline]
    fn answer_word(&self, origin: u32, word: usize) -> &'m AtomicU64 {
        self.request(origin, LINE_WORDS + word)
    }

    /// Posts a request as `origin`, the caller (rules 1 and 2). Ring the target's door afterwards.
    #[inline]
    pub fn post(&self, origin: u32, number: u64, request: &MailboxRequest) {
        let store = |word, value| self.request(origin, word).store(value, Ordering::Relaxed);
        store(1, request.what | if request.may_be_withdrawn { MAY_BE_WITHDRAWN } else { 0 });
        store(2, request.at);
        store(3, request.len);
        (CARRIED..).zip(request.data).for_each(|(word, data)| store(word, data));
        self.request(origin, 0).store(number * STATES + POSTED, Ordering::Release);
    }

    /// Withdraws a request as `origin`, the caller (rule 4). `false`: the target has claimed it.
    #[inline]
    pub fn withdraw(&self, origin: u32, number: u64) -> bool {
        let is_withdrawn = self.change_state(origin, number, WITHDRAWN);
        // A target that reads a word of the next request as part of this one also finds the new
        // state.
        fence(Ordering::Release);
        is_withdrawn
    }

    #[inline]
    fn change_state(&self, origin: u32, number: u64, state: u64) -> bool {
        let posted = number * STATES + POSTED;
        let (word, next) = (self.request(origin, 0), number * STATES + state);
        word.compare_exchange(posted, next, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The answer to request `number`, if it has arrived (rule 3).
    #[inline]
    pub fn answered(&self, origin: u32, number: u64) -> Option<Answer> {
        if self.answer_word(origin, 0).load(Ordering::Acquire) != number {
            return None;
        }
        let load = |word| self.answer_word(origin, word).load(Ordering::Relaxed);
        Some(Answer { status: load(1), data: std::array::from_fn(|at| load(CARRIED + at)) })
    }

    /// Whether the answer to request `number` has arrived.
    #[inline]
    pub fn is_answered(&self, origin: u32, number: u64) -> bool {
        self.answer_word(origin, 0).load(Ordering::Acquire) == number
    }

    /// Whether an origin has posted a request after number `seen`.
    #[inline]
    pub fn has_posted(&self, origin: u32, seen: u64) -> bool {
        self.request(origin, 0).load(Ordering::Relaxed) / STATES != seen
    }

    /// The request that an origin has posted after number `seen`, and its number; without the
    /// request if it was withdrawn. The target must answer both.
    #[inline]
    pub fn take(&self, origin: u32, seen: u64) -> Option<(u64, Option<MailboxRequest>)> {
        let word = self.request(origin, 0).load(Ordering::Acquire);
        let (number, state) = (word / STATES, word % STATES);
        if number == seen {
            return None;
        }
        let load = |word| self.request(origin, word).load(Ordering::Relaxed);
        let request = MailboxRequest {
            what: load(1) & !MAY_BE_WITHDRAWN,
            may_be_withdrawn: load(1) & MAY_BE_WITHDRAWN != 0,
            at: load(2),
            len: load(3),
            data: std::array::from_fn(|at| load(CARRIED + at)),
        };
        let has_it = match request.may_be_withdrawn {
            true => state == POSTED && self.change_state(origin, number, CLAIMED),
            // Unless the request was withdrawn meanwhile, all words that were read belong to it.
            false => {
                fence(Ordering::Acquire);
                state == POSTED && self.request(origin, 0).load(Ordering::Relaxed) == word
            }
        };
        if !has_it && self.request(origin, 0).load(Ordering::Relaxed) / STATES != number {
            return self.take(origin, seen);
        }
        Some((number, has_it.then_some(request)))
    }

    /// Answers request `number` (rule 3). Ring the origin's door afterwards.
    #[inline]
    pub fn answer(&self, origin: u32, number: u64, answer: &Answer) {
        let store = |word, value| self.answer_word(origin, word).store(value, Ordering::Relaxed);
        store(1, answer.status);
        (CARRIED..).zip(answer.data).for_each(|(word, data)| store(word, data));
        self.answer_word(origin, 0).store(number, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use oxmpi_sys::line::heap_lines;

    #[test]
    fn a_request_is_done_once_or_withdrawn() {
        let lines = heap_lines(6);
        let boxes = Mailboxes::new(&lines, 2 * LINE_WORDS);
        let request =
            MailboxRequest { what: 7, may_be_withdrawn: true, at: 1, len: 2, data: [3, 4, 5, 6] };
        assert_eq!(boxes.take(1, 0), None);
        boxes.post(1, 1, &request);
        assert!(boxes.has_posted(1, 0) && !boxes.has_posted(0, 0));
        assert_eq!(boxes.take(1, 0), Some((1, Some(request))));
        assert!(!boxes.withdraw(1, 1) && boxes.answered(1, 1).is_none());
        let answer = Answer { status: 9, data: [1, 2, 3, 4] };
        boxes.answer(1, 1, &answer);
        assert_eq!((boxes.answered(1, 1), boxes.take(1, 1)), (Some(answer), None));
        boxes.post(1, 2, &request);
        assert!(boxes.withdraw(1, 2));
        assert_eq!(boxes.take(1, 1), Some((2, None)));
        assert_eq!((boxes.take(1, 2), boxes.answered(1, 2)), (None, None));
    }
}
