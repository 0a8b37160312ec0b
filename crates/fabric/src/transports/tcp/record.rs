//! Records: the form of frames and their bodies in the bytes of a connection.
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0 | mark | 0x4f: detects a lost position early |
//! | 1 | kind | 1 a frame with its body, 2 acknowledgement, 3 request for one, 4 goodbye |
//! | 2 | flags | 1: acknowledge this soon |
//! | 3 | lead | zeros between this header and the frame, at most 63 |
//! | 4..8 | | zero |
//! | 8..16 | number | of the record in its direction, from 0 (kind 1), else 0 |
//! | 16..24 | acknowledged | number of complete records received of the other direction |
//! | 24..28 | length | bytes of frame and body |
//! | 28..32 | start | number of these bytes that an earlier connection has delivered |
//!
//! Zeros behind the body, or behind a header without a body, fill up to a multiple of [`ALIGNMENT`]
//! bytes. So all records begin at such a multiple on any connection, and the lead gives a long body
//! the same offset to it as in the sender's memory. The kernel copies a body to its pages, and from
//! there to the receiver's memory. It copies at half the speed if the two ends have different
//! offsets to a cache line (measured on the loopback: half a round trip of 64 KiB takes 24.1
//! instead of 18.2 us between processors without a common cache).

use super::RecordError;
use oxmpi_wire::HEADER_LEN;

pub const RECORD_HEADER: usize = 32;
/// Records with their padding have a multiple of this number of bytes: a line of most caches.
pub const ALIGNMENT: usize = 64;
pub(super) const MAX_LEAD: usize = ALIGNMENT - 1;

const MARK: u8 = 0x4f;
const FLAG_WANTED: u8 = 1;

/// The kind of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    Frame,
    Ack,
    Ask,
    /// The sender sends nothing more, and takes nothing more.
    Bye,
}

/// The header of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHeader {
    pub kind: RecordKind,
    /// Whether the sender waits for the acknowledgement of this record.
    pub wanted: bool,
    /// 0 for records that are not frames.
    pub number: u64,
    /// The number of received records of the other direction.
    pub acknowledged: u64,
    /// Bytes of frame and body.
    pub length: u32,
    /// The number of these bytes that an earlier connection has delivered.
    pub start: u32,
    /// Zeros behind the header, at most 63.
    pub lead: u8,
}

impl RecordHeader {
    /// The header as bytes.
    pub fn encode(&self) -> [u8; RECORD_HEADER] {
        let mut out = [0; RECORD_HEADER];
        out[0] = MARK;
        out[1] = match self.kind {
            RecordKind::Frame => 1,
            RecordKind::Ack => 2,
            RecordKind::Ask => 3,
            RecordKind::Bye => 4,
        };
        out[2] = if self.wanted { FLAG_WANTED } else { 0 };
        out[3] = self.lead;
        out[8..16].copy_from_slice(&self.number.to_le_bytes());
        out[16..24].copy_from_slice(&self.acknowledged.to_le_bytes());
        out[24..28].copy_from_slice(&self.length.to_le_bytes());
        out[28..32].copy_from_slice(&self.start.to_le_bytes());
        out
    }

    /// Fails with [`RecordError::Header`] for bytes that [`RecordHeader::encode`] cannot make.
    pub fn decode(bytes: &[u8; RECORD_HEADER]) -> Result<RecordHeader, RecordError> {
        let wrong = || RecordError::Header(u64::from_le_bytes(word(bytes, 0)));
        let kind = match bytes[1] {
            1 => RecordKind::Frame,
            2 => RecordKind::Ack,
            3 => RecordKind::Ask,
            4 => RecordKind::Bye,
            _ => return Err(wrong()),
        };
        let header = RecordHeader {
            kind,
            wanted: bytes[2] & FLAG_WANTED != 0,
            number: u64::from_le_bytes(word(bytes, 8)),
            acknowledged: u64::from_le_bytes(word(bytes, 16)),
            length: u32::from_le_bytes(word(bytes, 24)),
            start: u32::from_le_bytes(word(bytes, 28)),
            lead: bytes[3],
        };
        let fits = match kind {
            RecordKind::Frame => {
                header.length as usize >= HEADER_LEN && header.start < header.length.max(1)
            }
            _ => {
                (header.number, header.length, header.start, header.lead, header.wanted)
                    == (0, 0, 0, 0, false)
            }
        };
        let is_alone = usize::from(header.lead) <= MAX_LEAD && bytes[4..8] == [0; 4];
        if bytes[0] != MARK || bytes[2] & !FLAG_WANTED != 0 || !is_alone || !fits {
            return Err(wrong());
        }
        Ok(header)
    }

    pub(super) fn len(&self) -> usize {
        RECORD_HEADER + usize::from(self.lead)
    }

    pub(super) fn padding(&self) -> usize {
        let len = self.len() + (self.length - self.start) as usize;
        len.next_multiple_of(ALIGNMENT) - len
    }
}

fn word<const N: usize>(bytes: &[u8; RECORD_HEADER], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// The received end of a direction; each side states it when a connection is made again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Point {
    pub records: u64,
    /// The bytes of frame and body of the next record that were delivered.
    pub bytes: u32,
}
