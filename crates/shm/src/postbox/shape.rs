//! The sizes of a segment with postboxes, and the offsets of its parts.

use oxmpi_sys::line::{LINE_BYTES, LINE_WORDS};

pub const MOST_RANKS: u32 = 4096;
pub const MOST_SHORT: u64 = 1 << 30;
pub const MOST_POOL: u64 = 1 << 36;

const MAP_WORDS: usize = LINE_WORDS;
const MAP_BITS: u64 = 64 * MAP_WORDS as u64;

/// The sizes of a segment with postboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostboxShape {
    /// N.
    pub ranks: u32,
    /// S: bytes of data in a postbox.
    pub short: u64,
    /// P: bytes of the pool.
    pub pool: u64,
}

impl PostboxShape {
    /// Bytes of a whole segment.
    pub const fn bytes(&self) -> u64 {
        let line = LINE_BYTES as u64;
        2 * line + self.boxes() * (self.short + line) + self.pool
    }

    /// Checks the sizes; the error is a text for the user with the value.
    pub fn check(&self) -> Result<(), String> {
        let PostboxShape { ranks, short, pool } = *self;
        if !(1..=MOST_RANKS).contains(&ranks) {
            return Err(format!(
                "postboxes for {ranks} processes of a node: 1 to {MOST_RANKS} can have them"
            ));
        }
        if short == 0 || short > MOST_SHORT {
            return Err(format!("postboxes of {short} bytes: 1 to {MOST_SHORT} are possible"));
        }
        if pool > MOST_POOL {
            return Err(format!("a pool of {pool} bytes: at most {MOST_POOL} are possible"));
        }
        Ok(())
    }

    pub(super) const fn boxes(&self) -> u64 {
        let ranks = self.ranks as u64;
        ranks * (ranks - 1)
    }

    pub(super) const fn index(&self, from: u32, to: u32) -> u64 {
        let of_sender = if to > from { to - 1 } else { to };
        from as u64 * (self.ranks as u64 - 1) + of_sender as u64
    }

    pub(super) const fn pool_at(&self) -> u64 {
        self.boxes() * self.short
    }

    pub(super) const fn block(&self) -> u64 {
        let least = self.pool.div_ceil(MAP_BITS).next_multiple_of(LINE_BYTES as u64);
        if least == 0 { LINE_BYTES as u64 } else { least }
    }

    pub(super) const fn blocks(&self) -> u64 {
        self.pool / self.block()
    }
}
