//! Long messages that both sides copy.
//!
//! The receiver opens a share and asks the sender for the data ([`oxmpi_wire::Frame::Pull`]). A sender that is in the
//! library claims pieces and sends them, which is the fastest way while both are there. When nothing has come for a
//! while the sender computes, or cannot keep up: then the receiver claims pieces and reads them from the sender's
//! memory. It says when it has all ([`oxmpi_wire::Frame::Fin`]): until then the sender's buffer is in use.

use super::Lane;
use crate::request::RequestId;
use oxmpi_fabric::Fabric;
use oxmpi_wire::Frame;

/// Length of the pieces that are claimed, bytes. A call of the kernel for less costs more than it copies.
pub(super) const SHARED_PIECE: usize = 64 << 10;

/// How many pieces a message of `len` bytes has.
pub(super) const fn pieces_of(len: usize) -> u32 {
    len.div_ceil(SHARED_PIECE) as u32
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
    /// Whether all pieces are claimed, by whomever.
    pub(super) is_exhausted: bool,
}

impl<F: Fabric> Lane<F> {
    /// Reads a piece of the oldest message that is shared and not exhausted, if nothing has come for long enough.
    #[cold]
    pub(super) fn share(&mut self, came: bool) {
        let Some(at) = self.shares.iter().position(|share| !share.is_exhausted) else { return };
        if self.fabric.is_stalled(self.shares[at].share, came) {
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

    /// Claims and reads a piece. `false`: there was none.
    fn read_piece(&mut self, at: usize) -> bool {
        let Share { receive, from, address, wanted, share, .. } = self.shares[at];
        let me = self.state.me;
        let claimed = self.fabric.claim(me, share, pieces_of(wanted));
        let (Some(piece), Some(work)) = (claimed, self.state.requests.receive_mut(receive)) else {
            self.shares[at].is_exhausted = true;
            return false;
        };
        let start = piece as usize * SHARED_PIECE;
        let len = SHARED_PIECE.min(wanted - start);
        let buffer = work.buffer.clone();
        let read = match buffer.as_contiguous_mut() {
            Some(mut into) => self.fabric.read(from, address + start as u64, into.slice(start, len)),
            None => return false,
        };
        match read {
            Ok(()) => {
                work.stored += len;
                if work.stored == work.expected {
                    self.state.finish_receive(receive);
                    self.work();
                }
            }
            // The memory was readable a moment ago: the process is gone.
            Err(_) => self.state.lose(from),
        }
        true
    }

    /// Ends the share of a receive, if it has one: nobody claims a piece any more, and the sender has its buffer back.
    pub(super) fn unshare(&mut self, receive: RequestId) {
        if let Some(at) = self.shares.iter().position(|share| share.receive == receive) {
            let Share { from, request, share, .. } = self.shares.swap_remove(at);
            self.fabric.end_share(share);
            self.answer(from, Frame::Fin { request });
            if let Some(fetch) = self.deferred.pop_front() {
                self.fetch(fetch);
            }
        }
    }
}
