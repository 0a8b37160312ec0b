use crate::Body;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::MAX_FRAME_LEN;

/// The most copied bytes that are retained for one peer; a single message may be longer.
const MAX_COPIED: usize = 4 << 20;
/// The number of bytes of a layout with gaps that are packed at a time.
const STAGE: usize = 64 << 10;
/// The most cached vectors, and the most bytes of one.
const CACHED_COPIES: usize = 16;
const CACHED_COPY_BYTES: usize = 128 << 10;

#[derive(Debug)]
pub(super) enum RecordBody {
    Copied(Vec<u8>),
    Lent { buffer: UserBuf, offset: usize, len: usize },
}

/// The event that completes the sender's message; the number is its token.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(super) enum CompletionPoint {
    Never,
    /// The kernel has all bytes.
    Written(u64),
    Acknowledged(u64),
    /// The peer has the record, or it was written and copied.
    Copied(u64),
}

#[derive(Debug)]
pub(super) struct RetainedRecord {
    pub(super) frame: [u8; MAX_FRAME_LEN],
    pub(super) frame_len: usize,
    pub(super) data: RecordBody,
    pub(super) completes: CompletionPoint,
}

impl RecordBody {
    pub(super) fn len(&self) -> usize {
        match self {
            RecordBody::Copied(bytes) => bytes.len(),
            RecordBody::Lent { len, .. } => *len,
        }
    }
}

impl RetainedRecord {
    pub(super) fn len(&self) -> usize {
        self.frame_len + self.data.len()
    }

    /// The rest of frame and body behind the first `at` bytes. The rest of a layout with gaps is
    /// packed into `stage` as far as it fits.
    pub(super) fn rest<'a>(&'a self, at: usize, stage: &'a mut Vec<u8>) -> (Bytes<'a>, Bytes<'a>) {
        let frame = Bytes::from(&self.frame[self.frame_len.min(at)..self.frame_len]);
        let from = at.saturating_sub(self.frame_len);
        let data = match &self.data {
            RecordBody::Copied(bytes) => Bytes::from(&bytes[from..]),
            RecordBody::Lent { buffer, offset, len } => match buffer.as_contiguous() {
                Some(bytes) => bytes.slice(offset + from, len - from),
                None => {
                    stage.resize(STAGE, 0);
                    let now = STAGE.min(len - from);
                    buffer.pack(offset + from, BytesMut::from(&mut stage[..now]));
                    Bytes::from(&stage[..now])
                }
            },
        };
        (frame, data)
    }
}

#[derive(Debug, Default)]
pub(super) struct Copies {
    bytes: usize,
    cache: Vec<Vec<u8>>,
}

impl Copies {
    pub(super) fn take(&mut self, body: &Body<'_>) -> Vec<u8> {
        let mut data = self.cache.pop().unwrap_or_default();
        match body {
            Body::Bytes(bytes) => bytes.append_to(&mut data),
            Body::Packed { len, .. } => {
                data.resize(*len, 0);
                body.fill(0, BytesMut::from(&mut data[..]));
            }
        }
        self.bytes += data.len();
        data
    }

    pub(super) fn may_take(&self, len: usize) -> bool {
        self.bytes == 0 || self.bytes + len <= MAX_COPIED
    }

    pub(super) fn give_back(&mut self, mut copy: Vec<u8>) {
        self.bytes -= copy.len();
        if self.cache.len() < CACHED_COPIES && copy.capacity() <= CACHED_COPY_BYTES {
            copy.clear();
            self.cache.push(copy);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}
