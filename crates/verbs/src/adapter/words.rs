//! The words of connections: one that the peer writes, and the source of writes to the peer.

use super::{Adapter, WRITE_WORD};
use crate::arena::RegisteredMemory;
use crate::declarations::{IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE, Sge};
use crate::library::VerbsError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Connections whose words lie in one allocation.
const WORDS: usize = 256;

impl Adapter {
    pub(super) fn new_words(&mut self) -> Result<usize, VerbsError> {
        if self.free_words.is_empty() {
            let region = self.with_room(|it| {
                let device = (&*it.settings.device, it.pd);
                RegisteredMemory::new(&it.library, device, WORDS * 16, IBV_ACCESS_REMOTE_WRITE)
            })?;
            let first = self.words.len() * WORDS * 2;
            self.words.push(region);
            self.free_words.extend((0..WORDS).rev().map(|at| first + 2 * at));
        }
        self.free_words
            .pop()
            .ok_or(VerbsError::Exhausted { device: self.settings.device.clone(), what: "words" })
    }

    pub(super) fn word(&self, at: usize) -> &AtomicU64 {
        let region = &self.words[at / (2 * WORDS)];
        // SAFETY: the region has 2 * WORDS zeroed words, aligned to a page, which this process
        // accesses only as atomics; the device writes one in one piece.
        unsafe { &*region.start.cast::<AtomicU64>().add(at % (2 * WORDS)) }
    }

    pub(super) fn word_address(&self, at: usize) -> (u64, u32) {
        (self.word(at).as_ptr() as u64, self.words[at / (2 * WORDS)].remote_key())
    }

    /// The word of a connection that the peer writes.
    pub fn peer_word(&self, queue_pair: u32) -> u64 {
        self.queue_pairs
            .get(&queue_pair)
            .map_or(0, |pair| self.word(pair.words).load(Ordering::Acquire))
    }

    /// Writes the word of a connection at the peer. Only one write at a time.
    pub fn write_word(&mut self, queue_pair: u32, value: u64) -> Result<(), VerbsError> {
        let Some(pair) = self.queue_pairs.get(&queue_pair) else {
            return Err(self.error("ibv_post_send", libc::ENOTCONN));
        };
        let (word, remote) = (self.word(pair.words + 1), pair.remote.word);
        word.store(value, Ordering::Release);
        let lkey = self.words[pair.words / (2 * WORDS)].local_key();
        let sge = Sge { addr: word.as_ptr() as u64, length: 8, lkey };
        self.post(queue_pair, (IBV_WR_RDMA_WRITE, 0, WRITE_WORD), sge, remote)
    }
}
