use crate::{FrameSink, dispatch};
use oxmpi_shm::postbox::{Packet, PostboxArea, PostboxReceiver};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::Frame;

/// Packets taken from one postbox before the next one: a sender may post without a pause.
const BURST: usize = 4;

#[derive(Debug)]
pub(super) struct PostboxIn {
    receiver: PostboxReceiver,
    /// The number of bytes of the last frame's body that have arrived.
    at: usize,
}

#[derive(Default)]
pub(super) struct PostboxPoll {
    pub(super) any: bool,
    pub(super) sender_waits: bool,
}

impl PostboxIn {
    pub(super) fn new(receiver: PostboxReceiver) -> PostboxIn {
        PostboxIn { receiver, at: 0 }
    }

    #[inline]
    pub(super) fn poll(
        &mut self,
        from: u32,
        area: &PostboxArea,
        sink: &mut dyn FrameSink,
    ) -> PostboxPoll {
        let mut seen = PostboxPoll::default();
        for _ in 0..BURST {
            let Some(packet) = self.receiver.peek() else { break };
            seen.any = true;
            match packet {
                Packet::Frame { frame, total, first } => {
                    self.at = first.len();
                    hand_up(from, &frame, total, first, sink);
                    seen.sender_waits |= self.receiver.release();
                }
                Packet::More(part) => {
                    let at = self.at;
                    self.at += part.len();
                    sink.more(from, at, part);
                    seen.sender_waits |= self.receiver.release();
                }
                Packet::Pooled { frame, row } => {
                    // While this row is copied, the sender may fill the next row.
                    seen.sender_waits |= self.receiver.release();
                    let data = area.row(&row);
                    hand_up(from, &frame, data.len(), data, sink);
                    area.free_row(row);
                }
                Packet::Nonsense => seen.sender_waits |= self.receiver.release(),
            }
        }
        seen
    }
}

fn hand_up(from: u32, frame: &[u8], total: usize, first: Bytes<'_>, sink: &mut dyn FrameSink) {
    if let Ok(got) = Frame::decode(frame) {
        let _ = dispatch(from, &got, total, first, sink);
    }
}
