//! Collectives that move data.

use super::Served;
use super::limits;
use super::spread;
use super::steps::{CollectivePiece, ExchangeAction, Steps};
use crate::errors::staging_error;
use oxmpi_abi::constants as abi;
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Scratch;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::Call;
use oxmpi_shm::control_section::Stated;
use oxmpi_sys::bytes::{Bytes, BytesMut};

/// Copies packed bytes to the section. It copies past the caches only if `from` is contiguous.
#[inline]
pub(super) fn pack(from: &UserBuf, at: usize, to: BytesMut<'_>, past_caches: bool) {
    match from.as_contiguous() {
        Some(bytes) => give(bytes.slice(at, to.len()), to, past_caches),
        None => from.pack(at, to),
    }
}

/// Copies to `to`, which lies in the section.
#[inline]
pub(super) fn give(from: Bytes<'_>, to: BytesMut<'_>, past_caches: bool) {
    if past_caches { from.copy_past_caches(to) } else { from.copy_over(to) }
}

#[inline]
pub(super) fn unpack(to: &UserBuf, at: usize, from: Bytes<'_>) {
    match to.as_contiguous_mut() {
        Some(mut bytes) => from.copy_to(bytes.slice(at, from.len())),
        None => to.unpack(at, from),
    }
}

pub(super) fn packed_copy(buffer: &UserBuf) -> Result<UserBuf> {
    let room = Scratch::bytes(buffer.packed_len())
        .map_err(|error| MpiError::new(abi::MPI_ERR_NO_MEM, error.to_string()))?;
    room.buf().copy_from(0, buffer, 0, buffer.packed_len());
    buffer.settle().map_err(|fault| staging_error(fault.into()))?;
    Ok(room.buf().clone())
}

/// The other ranks, beginning with the next one, so that not all begin with the same rank.
#[inline]
pub(super) fn others(me: u32, ranks: u32) -> impl Iterator<Item = u32> {
    (1..ranks).map(move |n| if me + n < ranks { me + n } else { me + n - ranks })
}

#[inline]
pub(super) fn run<F: Fabric>(steps: Steps<'_, F>, served: &Served<'_>) -> Result<()> {
    let (input, output) = (&served.buffers.input, &served.buffers.output);
    match *served.call {
        Call::Bcast { root, .. } => steps.bcast(root, served.bytes, output),
        Call::Gather { root, in_place, .. } => {
            steps.gather(&Rooted { root, block: served.bytes, in_place, input, output })
        }
        Call::Scatter { root, in_place, .. } => {
            steps.scatter(&Rooted { root, block: served.bytes, in_place, input, output })
        }
        Call::Allgather { in_place, .. } => steps.allgather(served.bytes, in_place, input, output),
        Call::Alltoall { in_place, .. } => {
            steps.alltoall(served.bytes, if in_place { None } else { Some(input) }, output)
        }
        _ => steps.barrier(),
    }
}

struct Rooted<'a> {
    root: u32,
    block: usize,
    in_place: bool,
    input: &'a UserBuf,
    output: &'a UserBuf,
}

impl<F: Fabric> Steps<'_, F> {
    #[inline]
    pub(super) fn others(&self) -> impl Iterator<Item = u32> + use<F> {
        others(self.me, self.ranks)
    }

    #[inline]
    pub(super) fn place(&self, writer: u32, reader: u32) -> usize {
        spread::place(self.ranks, writer, reader)
    }

    fn barrier(&self) -> Result<()> {
        let step = self.number(1);
        self.wait_until_free(step)?;
        self.publish(step, Stated::Nothing);
        for rank in self.others() {
            self.see(rank, step)?;
        }
        self.all_seen(step);
        self.finish(step);
        Ok(())
    }

    fn bcast(&self, root: u32, bytes: usize, data: &UserBuf) -> Result<()> {
        let pieces = self.pieces_of(bytes);
        if self.me == root {
            return self.give(&pieces, |at, to| self.pack(data, at, to));
        }
        for piece in pieces.all() {
            self.see_piece(root, &pieces, piece, piece.len)?;
            self.section.read(root, piece.step, self.extent(piece.len), |from| {
                unpack(data, piece.at, from)
            });
            self.finish(piece.step);
        }
        self.one_seen(pieces.first);
        Ok(())
    }

    fn gather(&self, &Rooted { root, block, in_place, input, output }: &Rooted<'_>) -> Result<()> {
        let pieces = self.pieces_of(block);
        if self.me != root {
            return self.give(&pieces, |at, to| self.pack(input, at, to));
        }
        // The root copies its own block while the other ranks write.
        let mut copied = if in_place { block } else { 0 };
        let mut copy_own = |most: usize| {
            let len = most.min(block - copied);
            if len > 0 {
                output.copy_from(root as usize * block + copied, input, copied, len);
                copied += len;
            }
            len > 0
        };
        for piece in pieces.all() {
            for rank in self.others() {
                while !self.section.is_published(rank, piece.step) && copy_own(limits::PIECE / 2) {}
                self.see_piece(rank, &pieces, piece, piece.len)?;
                let at = rank as usize * block + piece.at;
                self.section.read(rank, piece.step, self.extent(piece.len), |from| {
                    unpack(output, at, from)
                });
            }
            self.finish(piece.step);
        }
        copy_own(block);
        self.all_seen(pieces.first);
        Ok(())
    }

    fn scatter(&self, &Rooted { root, block, in_place, input, output }: &Rooted<'_>) -> Result<()> {
        // The line of the root has all blocks, or each reader's part of the pool has its block.
        let all = block.saturating_mul(self.ranks as usize - 1);
        let in_line = self.is_short(all);
        let pieces = self.pieces_of(block);
        for piece in pieces.all() {
            let CollectivePiece { step, at, len, .. } = piece;
            if self.me != root {
                self.see_piece(root, &pieces, piece, all)?;
                if in_line {
                    let place = self.place(root, self.me);
                    self.section.read(root, step, all, |from| {
                        unpack(output, at, from.slice(place * len, len))
                    });
                } else {
                    self.read_own_part(step, self.extent(piece.len), |from| {
                        unpack(output, at, from)
                    });
                }
                self.finish(step);
                continue;
            }
            self.wait_until_free(step)?;
            if in_line {
                self.write(step, all, |mut to| {
                    for rank in self.others() {
                        let place = self.place(root, rank);
                        self.pack(input, rank as usize * block + at, to.slice(place * len, len));
                    }
                });
            } else {
                for rank in self.others() {
                    self.section.write_part(rank, step, self.extent(piece.len), |to| {
                        self.pack(input, rank as usize * block + at, to);
                    });
                }
            }
            self.publish_last(step, self.stated_with(piece, all));
        }
        if self.me != root {
            self.one_seen(pieces.first);
        } else if !in_place {
            output.copy_from(0, input, root as usize * block, block);
        }
        Ok(())
    }

    fn allgather(
        &self,
        block: usize,
        in_place: bool,
        input: &UserBuf,
        output: &UserBuf,
    ) -> Result<()> {
        let own = self.me as usize * block;
        let pieces = self.pieces_of(block);
        self.exchange(&pieces, |action, piece| {
            let CollectivePiece { step, at, len, .. } = piece;
            match action {
                ExchangeAction::Write => self.write(step, len, |to| match in_place {
                    true => self.pack(output, own + at, to),
                    false => self.pack(input, at, to),
                }),
                ExchangeAction::CopyOwn if in_place => {}
                ExchangeAction::CopyOwn => output.copy_from(own + at, input, at, len),
                ExchangeAction::Read => {
                    for rank in self.others() {
                        self.see_piece(rank, &pieces, piece, len)?;
                        self.section.read(rank, step, len, |from| {
                            unpack(output, rank as usize * block + at, from)
                        });
                    }
                }
            }
            Ok(())
        })?;
        self.all_seen(pieces.first);
        Ok(())
    }

    /// `input` is `None` for a call in place.
    fn alltoall(&self, block: usize, input: Option<&UserBuf>, output: &UserBuf) -> Result<()> {
        let pieces = self.spread_pieces(block)?;
        self.exchange(&pieces, |action, piece| {
            match (action, input) {
                (ExchangeAction::Write, _) => {
                    let from = input.unwrap_or(output);
                    self.write_spread(block, piece, |at, to| self.pack(from, at, to));
                }
                (ExchangeAction::CopyOwn, None) => {}
                (ExchangeAction::CopyOwn, Some(input)) => {
                    let own = self.me as usize * block + piece.at;
                    output.copy_from(own, input, own, piece.len);
                }
                (ExchangeAction::Read, _) => {
                    for rank in self.others() {
                        self.see_piece(rank, &pieces, piece, self.spread_len(piece))?;
                        let at = rank as usize * block + piece.at;
                        let place = self.place(rank, self.me) * piece.len;
                        self.section.read(rank, piece.step, self.spread_len(piece), |from| {
                            unpack(output, at, from.slice(place, piece.len));
                        });
                    }
                }
            }
            Ok(())
        })?;
        self.all_seen(pieces.first);
        Ok(())
    }

    #[inline]
    fn pack(&self, from: &UserBuf, at: usize, to: BytesMut<'_>) {
        let past_caches = self.goes_past_caches(to.len());
        pack(from, at, to, past_caches);
    }

    /// Writes a piece of each other rank's block. `give` copies the bytes at an offset.
    #[inline]
    pub(super) fn write_spread(
        &self,
        block: usize,
        piece: CollectivePiece,
        give: impl Fn(usize, BytesMut<'_>),
    ) {
        self.write(piece.step, self.spread_len(piece), |mut to| {
            for rank in self.others() {
                let place = self.place(self.me, rank) * piece.len;
                give(rank as usize * block + piece.at, to.slice(place, piece.len));
            }
        });
    }

    #[inline]
    pub(super) fn spread_len(&self, piece: CollectivePiece) -> usize {
        piece.len * (self.ranks as usize - 1)
    }
}
