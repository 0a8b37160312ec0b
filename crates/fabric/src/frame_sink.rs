use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::{Announced, ContextId, Envelope, Frame, Received};

/// Receives the frames and events of a transport. Each kind of frame has its function, so that the
/// kind is tested only once.
///
/// `total` is the length of the whole body. `first` is the part of it that has arrived, which may
/// be empty. [`FrameSink::more`] follows with the rest.
pub trait FrameSink {
    fn eager(
        &mut self,
        from: u32,
        sequence: u8,
        envelope: Envelope,
        total: usize,
        first: Bytes<'_>,
    );
    fn eager_sync(
        &mut self,
        from: u32,
        sequence: u8,
        envelope: Envelope,
        request: u64,
        total: usize,
        first: Bytes<'_>,
    );
    /// `first` is the complete beginning of the message that goes with the announcement.
    fn rendezvous(
        &mut self,
        from: u32,
        sequence: u8,
        envelope: Envelope,
        announced: Announced,
        first: Bytes<'_>,
    );
    fn sync_ack(&mut self, from: u32, request: u64);
    fn pull(&mut self, from: u32, request: u64, receiver: u64, length: u64, claimed: bool);
    fn fin(&mut self, from: u32, request: u64);
    fn withdraw(&mut self, from: u32, request: u64, number: u64);
    fn withdrawn(&mut self, from: u32, request: u64);
    fn ask_last(&mut self, _from: u32, _id: ContextId) {}
    fn last(&mut self, _from: u32, _id: ContextId, _number: u64) {}
    fn data(&mut self, from: u32, receiver: u64, offset: u64, total: usize, first: Bytes<'_>);
    fn learn(&mut self, from: u32, id: ContextId, index: u32);
    fn ask_index(&mut self, _from: u32, _id: ContextId) {}
    /// Only for a transport that exchanges its addresses over another transport.
    fn meet(&mut self, _from: u32, _wants_answer: bool, _total: usize, _first: Bytes<'_>) {}
    /// The next part of the body that `from` has begun last; it begins at `offset`.
    fn more(&mut self, from: u32, offset: usize, part: Bytes<'_>);
    /// Contiguous memory for the next `len` bytes of that body, from `offset` on. A transport may
    /// store only some of them, at the beginning. `None`: use [`FrameSink::more`].
    fn place(&mut self, _from: u32, _offset: usize, _len: usize) -> Option<BytesMut<'_>> {
        None
    }
    /// As [`FrameSink::place`], for an adapter that stores all bytes later. It may use the buffer
    /// until [`FrameSink::placed`], or until [`Transport::release`](crate::Transport::release) of
    /// the receive's token.
    fn place_lent(&mut self, _from: u32, _offset: usize, _len: usize) -> Option<UserBuf> {
        None
    }
    /// `bytes` bytes are stored in the memory of [`FrameSink::place`]; [`FrameSink::more`] does not
    /// get them.
    fn placed(&mut self, _from: u32, _offset: usize, _bytes: usize) {}
    /// A send that returned [`Sent::Later`](crate::Sent::Later) is complete.
    fn sent(&mut self, token: u64);
    /// A receive posted with [`MatchingTransport::trecv`](crate::MatchingTransport::trecv) is
    /// complete: a message of `length` bytes has come, and the buffer has as much of it as fits.
    fn received(&mut self, _token: u64, _from: u32, _tag: i32, _length: u64) {}
    /// A receive was cancelled ([`tcancel`](crate::MatchingTransport::tcancel)) before a match.
    fn not_received(&mut self, _token: u64) {}
    /// The peer has left in good order: nothing more comes from it.
    fn left(&mut self, _peer: u32) {}
    /// The peer is lost; nothing more comes from it.
    fn lost(&mut self, peer: u32);
}

/// Hands a decoded frame to its function of `sink`. Returns a frame that is for the transport
/// itself.
#[inline]
pub fn dispatch<S: FrameSink + ?Sized>(
    from: u32,
    got: &Received,
    total: usize,
    first: Bytes<'_>,
    sink: &mut S,
) -> Option<Frame> {
    match got.frame {
        Frame::Eager { envelope } => sink.eager(from, got.sequence, envelope, total, first),
        Frame::EagerSync { envelope, request } => {
            sink.eager_sync(from, got.sequence, envelope, request, total, first)
        }
        Frame::Rendezvous { envelope, announced } => {
            sink.rendezvous(from, got.sequence, envelope, announced, first)
        }
        Frame::SyncAck { request } => sink.sync_ack(from, request),
        Frame::Pull { request, receiver, length, claimed } => {
            sink.pull(from, request, receiver, length, claimed)
        }
        Frame::Fin { request } => sink.fin(from, request),
        Frame::Withdraw { request, number } => sink.withdraw(from, request, number),
        Frame::Withdrawn { request } => sink.withdrawn(from, request),
        Frame::AskLast { id } => sink.ask_last(from, id),
        Frame::Last { id, number } => sink.last(from, id, number),
        Frame::Data { receiver, offset } => sink.data(from, receiver, offset, total, first),
        Frame::Learn { id, index } => sink.learn(from, id, index),
        Frame::AskIndex { id } => sink.ask_index(from, id),
        Frame::Meet { wants_answer } => sink.meet(from, wants_answer, total, first),
        own @ (Frame::RingGrant { .. }
        | Frame::RingOpen { .. }
        | Frame::Pooled { .. }
        | Frame::AskArrived { .. }
        | Frame::Arrived { .. }
        | Frame::Matched { .. }
        | Frame::InParts { .. }
        | Frame::AskParts { .. }
        | Frame::DataAt { .. }
        | Frame::DataRead { .. }) => return Some(own),
    }
    None
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Accepts all frames, and counts the bytes of eager bodies.
    #[derive(Default)]
    pub(crate) struct CountingSink {
        value: Option<u8>,
        pub(crate) bytes: usize,
    }

    impl CountingSink {
        pub(crate) fn of(value: u8) -> CountingSink {
            CountingSink { value: Some(value), bytes: 0 }
        }

        fn note(&mut self, part: Bytes<'_>) {
            if let Some(value) = self.value {
                assert!(part.to_vec().iter().all(|byte| *byte == value));
            }
            self.bytes += part.len();
        }
    }

    impl FrameSink for CountingSink {
        fn eager(&mut self, _: u32, _: u8, _: Envelope, _: usize, first: Bytes<'_>) {
            self.note(first);
        }
        fn eager_sync(&mut self, _: u32, _: u8, _: Envelope, _: u64, _: usize, _: Bytes<'_>) {}
        fn rendezvous(&mut self, _: u32, _: u8, _: Envelope, _: Announced, _: Bytes<'_>) {}
        fn sync_ack(&mut self, _: u32, _: u64) {}
        fn pull(&mut self, _: u32, _: u64, _: u64, _: u64, _: bool) {}
        fn fin(&mut self, _: u32, _: u64) {}
        fn withdraw(&mut self, _: u32, _: u64, _: u64) {}
        fn withdrawn(&mut self, _: u32, _: u64) {}
        fn data(&mut self, _: u32, _: u64, _: u64, _: usize, _: Bytes<'_>) {}
        fn learn(&mut self, _: u32, _: ContextId, _: u32) {}
        fn more(&mut self, _: u32, _: usize, part: Bytes<'_>) {
            self.note(part);
        }
        fn sent(&mut self, _: u64) {}
        fn lost(&mut self, _: u32) {}
    }
}
