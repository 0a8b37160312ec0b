//! Long messages that both sides copy.
//!
//! The receiver opens a share and asks the sender for the data ([`oxmpi_wire::Frame::Pull`]). A sender that is in the
//! library claims pieces and sends them, which is the fastest way while both are there. When nothing has come for a
//! while the sender computes, or cannot keep up: then the receiver claims pieces and reads them from the sender's
//! memory. It says when it has all ([`oxmpi_wire::Frame::Fin`]): until then the sender's buffer is in use.

use super::Lane;
use crate::request::{Completion, Fault, RequestId};
use oxmpi_fabric::Fabric;
use oxmpi_os::bytes::store_fence;
use oxmpi_wire::Frame;
use std::ops::Range;

/// Length of the pieces that are claimed, bytes. A call of the kernel for less costs more than it copies.
pub(super) const SHARED_PIECE: usize = 128 << 10;

/// How many pieces a message of `len` bytes has.
pub(super) const fn pieces_of(len: usize) -> u32 {
    len.div_ceil(SHARED_PIECE) as u32
}

/// Where these pieces of a message of `len` bytes begin and end.
pub(super) fn bytes_of(pieces: Range<u32>, len: usize) -> (usize, usize) {
    let at = |piece: u32| len.min(piece as usize * SHARED_PIECE);
    (at(pieces.start), at(pieces.end))
}

/// A message that this process receives and copies together with its sender.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) receive: RequestId,
    pub(super) from: u32,
    /// The sender's request.
    pub(super) request: u64,
    /// Where the message lies in the sender.
    pub(super) address: u64,
    /// Bytes wanted.
    pub(super) wanted: usize,
    /// The fabric's name for the share.
    pub(super) share: u64,
    /// Whether this side has read both ends of the message.
    pub(super) is_readable: bool,
    /// Whether all pieces are claimed, by whomever, or this side cannot read them.
    pub(super) is_exhausted: bool,
}

impl<F: Fabric> Lane<F> {
    /// Reads a piece of the oldest message that is shared and not exhausted, if none of its data have come for long
    /// enough.
    #[cold]
    pub(super) fn share(&mut self) {
        let came = self.state.shared_came.take();
        let Some(at) = self.shares.iter().position(|share| !share.is_exhausted) else { return };
        let Share { receive, share, .. } = self.shares[at];
        if self.fabric.is_stalled(share, came == Some(receive)) {
            // Having begun it goes on, until something comes.
            self.read_piece(at);
        }
    }

    /// Reads all pieces that nobody has claimed: this process is about to sleep. Whether there were any.
    pub(super) fn share_all(&mut self) -> bool {
        let mut any = false;
        while let Some(at) = self.shares.iter().position(|share| !share.is_exhausted) {
            any |= self.read_piece(at);
        }
        any
    }

    /// Claims and reads a piece. `false`: there was none that this side can read.
    fn read_piece(&mut self, at: usize) -> bool {
        let Share { receive, from, address, wanted, share, .. } = self.shares[at];
        let me = self.state.me;
        let Some(work) = self.state.requests.receive_mut(receive) else {
            self.shares[at].is_exhausted = true;
            return false;
        };
        let buffer = work.buffer.clone();
        let Some(mut into) = buffer.as_contiguous_mut() else { return false };
        if !self.shares[at].is_readable {
            // What was found out of the process need not hold for all its memory. Both ends are tried before anything is
            // claimed: if they cannot be read the sender gives all.
            let last = wanted - 1;
            let readable = self.fabric.read(from, address, into.slice(0, 1)).is_ok()
                && self.fabric.read(from, address + last as u64, into.slice(last, 1)).is_ok();
            self.shares[at].is_readable = readable;
            self.shares[at].is_exhausted = !readable;
            if !readable {
                return false;
            }
        }
        let Some(claimed) = self.fabric.claim(me, share, pieces_of(wanted), 1) else {
            self.shares[at].is_exhausted = true;
            return false;
        };
        let (start, end) = bytes_of(claimed, wanted);
        let len = end - start;
        let Some(work) = self.state.requests.receive_mut(receive) else { return false };
        match self.fabric.read(from, address + start as u64, into.slice(start, len)) {
            Ok(()) => {
                work.stored += len;
                self.state.tally.read_bytes += len as u64;
                if work.stored == work.expected {
                    self.state.finish_receive(receive);
                    self.work();
                }
            }
            // The ends can be read, and this not: the memory has a hole, or the process is going. Nobody else will
            // copy the piece.
            Err(_) => {
                self.state.requests.complete(receive, Completion::failed(Fault::Lost { peer: from }));
                self.unshare(receive);
            }
        }
        true
    }

    /// Ends the share of a receive, if it has one: nobody claims a piece any more, and the sender has its buffer back.
    /// The next one has its turn, and those that waited for a share get one.
    pub(super) fn unshare(&mut self, receive: RequestId) {
        let Some(at) = self.shares.iter().position(|share| share.receive == receive) else { return };
        // A receive that has failed is not fenced yet.
        store_fence();
        let Share { from, request, share, wanted, .. } = self.shares.remove(at);
        self.state.under_way.end(wanted);
        self.fabric.end_share(share);
        self.answer(from, Frame::Fin { request });
        if let Some(next) = self.shares.iter().find(|share| !share.is_exhausted) {
            self.fabric.is_stalled(next.share, true);
        }
        // Some may have been given up meanwhile and open none.
        let open = self.shares.len();
        for _ in 0..self.deferred.len() {
            if self.shares.len() > open {
                break;
            }
            if let Some(fetch) = self.deferred.pop_front() {
                self.state.under_way.end(fetch.wanted);
                self.fetch(fetch);
            }
        }
    }
}
