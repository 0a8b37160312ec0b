//! The records of one direction: reads them from bytes in pieces of any length, and delivers their
//! content.

use super::RecordError;
use super::record::{Point, RECORD_HEADER, RecordHeader, RecordKind};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Frame, HEADER_LEN, MAX_FRAME_LEN, Received};

/// Receives the content of records.
pub trait RecordSink {
    /// The frame of a record, and the part of its body that has arrived; `total` is the length of
    /// the whole body. Fails if the frame is not allowed over sockets.
    fn frame(&mut self, got: &Received, total: usize, first: Bytes<'_>) -> Result<(), RecordError>;
    fn more(&mut self, offset: usize, part: Bytes<'_>);
    /// `bytes` bytes of the body, from `offset` on, are stored in the memory of their receive.
    fn placed(&mut self, offset: usize, bytes: usize);
    /// The peer has received `records` records. Fails if fewer were sent.
    fn acknowledged(&mut self, records: u64) -> Result<(), RecordError>;
    fn bye(&mut self);
}

/// A record whose frame was delivered and whose body is incomplete.
#[derive(Clone, Copy, Debug)]
struct Begun {
    frame: u32,
    length: u32,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The header, with the number of its bytes that have arrived.
    RecordHeader(usize),
    /// As above, and the length of the record.
    Frame(usize, u32),
    Body,
    /// Frame and body of a record that has arrived before: the number of missing bytes.
    Again(u32),
}

/// The state of one direction.
#[derive(Debug)]
pub struct IncomingRecords {
    point: Point,
    begun: Option<Begun>,
    newest: u32,
    stage: Stage,
    /// Zeros before the stage.
    zeros: usize,
    /// Whether the peer leaves after these zeros.
    is_goodbye: bool,
    /// Zeros behind the arriving record.
    padding: usize,
    /// Bytes before the body of the newest record.
    head: usize,
    header: [u8; RECORD_HEADER],
    frame: [u8; MAX_FRAME_LEN],
    unacknowledged_bytes: usize,
    unacknowledged_records: u32,
    wanted: bool,
    /// The sender waits for the acknowledgement of the arriving record.
    wanted_when_whole: bool,
    /// The number of early records that were delivered after the point was stated: they come again.
    again: u64,
}

/// An acknowledgement is due after this number of bytes.
const ACK_BYTES: usize = 256 << 10;
/// An acknowledgement is due after this number of records.
const ACK_RECORDS: u32 = 256;

impl Default for IncomingRecords {
    fn default() -> Self {
        IncomingRecords {
            point: Point::default(),
            begun: None,
            newest: 0,
            stage: Stage::RecordHeader(0),
            zeros: 0,
            is_goodbye: false,
            padding: 0,
            head: 0,
            header: [0; RECORD_HEADER],
            frame: [0; MAX_FRAME_LEN],
            unacknowledged_bytes: 0,
            unacknowledged_records: 0,
            wanted: false,
            wanted_when_whole: false,
            again: 0,
        }
    }
}

impl IncomingRecords {
    /// The received point of the direction.
    pub fn point(&self) -> Point {
        self.point
    }

    /// A number of records that is never larger than the number that the peer has written.
    pub(super) fn acknowledged(&self) -> u64 {
        self.point.records - self.again
    }

    /// Whether an acknowledgement is due.
    pub fn owes(&self) -> bool {
        self.wanted
            || self.unacknowledged_bytes >= ACK_BYTES
            || self.unacknowledged_records >= ACK_RECORDS
    }

    /// Makes an acknowledgement due, if any record is unacknowledged.
    pub fn owe(&mut self) {
        self.wanted |= self.unacknowledged_records > 0;
    }

    /// The number of received records, for an acknowledgement that is sent now.
    pub fn say(&mut self) -> u64 {
        (self.unacknowledged_bytes, self.unacknowledged_records, self.wanted) = (0, 0, false);
        self.acknowledged()
    }

    /// Begins a new connection: drops incomplete data of the old one.
    pub fn restart(&mut self) {
        (self.stage, self.zeros, self.is_goodbye) = (Stage::RecordHeader(0), 0, false);
        self.again = 0;
    }

    /// Takes the next record, which is complete. After an error the record counts as not received.
    pub(super) fn take_early(
        &mut self,
        record: &[u8],
        upper: &mut impl RecordSink,
    ) -> Result<(), RecordError> {
        let again = self.again;
        self.restart();
        let taken = self.take(record, upper);
        if taken.is_err() {
            self.restart();
        }
        self.again = again + u64::from(taken.is_ok());
        taken
    }

    /// The missing part of a begun body: its offset in the body, and its length.
    pub fn missing(&self) -> Option<(usize, usize)> {
        let begun =
            self.begun.as_ref().filter(|_| matches!(self.stage, Stage::Body) && self.zeros == 0)?;
        Some((
            (self.point.bytes - begun.frame) as usize,
            (begun.length - self.point.bytes) as usize,
        ))
    }

    /// `bytes` bytes, at most [`IncomingRecords::missing`], were stored in the memory of the
    /// receive.
    pub fn placed(&mut self, bytes: usize, upper: &mut impl RecordSink) {
        let Some((offset, left)) = self.missing() else { return };
        debug_assert!(bytes <= left, "{bytes} of {left}");
        upper.placed(offset, bytes);
        self.count(bytes);
    }

    /// The length of the newest complete record in bytes; 0 if there is none.
    pub fn newest(&self) -> usize {
        self.newest as usize
    }

    /// The bytes before the body of the newest record: header, lead and frame.
    pub(super) fn head(&self) -> usize {
        self.head
    }

    /// Whether no record is incomplete.
    pub fn is_between(&self) -> bool {
        matches!(self.stage, Stage::RecordHeader(0)) && self.zeros == 0 && self.begun.is_none()
    }

    /// The header and the frame at the beginning of `bytes`, if they belong to an eager message
    /// with the receiver's context index of which no part was taken.
    pub fn peek(&self, bytes: &[u8]) -> Option<(RecordHeader, Received)> {
        let (header, rest) = bytes.split_first_chunk::<RECORD_HEADER>()?;
        let header = RecordHeader::decode(header).ok()?;
        let is_next = self.is_between()
            && (header.kind, header.number, header.start)
                == (RecordKind::Frame, self.point.records, 0);
        let (lead, rest) = rest.split_at_checked(header.lead.into())?;
        if !is_next || rest.len() < HEADER_LEN || lead.iter().any(|byte| *byte != 0) {
            return None;
        }
        let got = Frame::decode(&rest[..HEADER_LEN]).ok()?;
        matches!(got.frame, Frame::Eager { .. }).then_some((header, got))
    }

    /// Takes the frame of [`IncomingRecords::peek`], and the first `stored` bytes of its body.
    pub fn take_peeked(&mut self, header: &RecordHeader, stored: usize) {
        self.wanted_when_whole = header.wanted;
        self.begun = Some(Begun { frame: HEADER_LEN as u32, length: header.length });
        self.stage = Stage::Body;
        (self.padding, self.head) = (header.padding(), header.len() + HEADER_LEN);
        self.point.bytes = HEADER_LEN as u32;
        self.count(stored);
    }

    /// Takes the next bytes of the connection. After an error the connection is unusable.
    pub fn take(
        &mut self,
        mut bytes: &[u8],
        upper: &mut impl RecordSink,
    ) -> Result<(), RecordError> {
        while !bytes.is_empty() {
            bytes = match self.stage {
                _ if self.zeros > 0 => {
                    let rest = self.take_zeros(bytes)?;
                    if self.zeros == 0 && std::mem::take(&mut self.is_goodbye) {
                        upper.bye();
                    }
                    rest
                }
                Stage::RecordHeader(have) => self.take_header(have, bytes, upper)?,
                Stage::Frame(have, length) => self.take_frame(have, length, bytes, upper)?,
                Stage::Body => self.take_body(bytes, upper),
                Stage::Again(left) => self.skip(left, bytes),
            };
        }
        Ok(())
    }

    /// Takes the zeros at the beginning. Returns the bytes behind them.
    pub(super) fn take_zeros<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], RecordError> {
        let (zeros, rest) = bytes.split_at(bytes.len().min(self.zeros));
        if let Some(other) = zeros.iter().find(|byte| **byte != 0) {
            return Err(RecordError::Padding(*other));
        }
        self.zeros -= zeros.len();
        Ok(rest)
    }

    fn take_header<'b>(
        &mut self,
        have: usize,
        bytes: &'b [u8],
        upper: &mut impl RecordSink,
    ) -> Result<&'b [u8], RecordError> {
        let (now, rest) = bytes.split_at(bytes.len().min(RECORD_HEADER - have));
        self.header[have..have + now.len()].copy_from_slice(now);
        if have + now.len() < RECORD_HEADER {
            self.stage = Stage::RecordHeader(have + now.len());
            return Ok(rest);
        }
        self.stage = Stage::RecordHeader(0);
        let header = RecordHeader::decode(&self.header)?;
        upper.acknowledged(header.acknowledged)?;
        self.zeros = header.padding();
        match header.kind {
            RecordKind::Frame => {
                (self.padding, self.zeros) = (self.zeros, header.lead.into());
                self.head = header.len();
                self.begin(&header)?;
            }
            RecordKind::Ack => {}
            RecordKind::Ask => self.wanted = true,
            // The zeros come first, so that no unread bytes stay in this side's kernel.
            RecordKind::Bye => self.is_goodbye = true,
        }
        Ok(rest)
    }

    fn begin(&mut self, header: &RecordHeader) -> Result<(), RecordError> {
        let is_again = self.again > 0;
        let (records, bytes) = if is_again {
            (self.acknowledged(), 0)
        } else {
            (self.point.records, self.point.bytes)
        };
        let begun = self.begun.filter(|_| !is_again);
        let same = begun.is_none_or(|begun| begun.length == header.length);
        if header.number != records || header.start != bytes || !same {
            return Err(RecordError::Place {
                records,
                bytes,
                number: header.number,
                start: header.start,
            });
        }
        self.wanted_when_whole = header.wanted;
        self.stage = match begun {
            _ if is_again => Stage::Again(header.length),
            Some(_) => Stage::Body,
            None => Stage::Frame(0, header.length),
        };
        Ok(())
    }

    fn skip<'b>(&mut self, left: u32, bytes: &'b [u8]) -> &'b [u8] {
        let (now, rest) = bytes.split_at(bytes.len().min(left as usize));
        let left = left - now.len() as u32;
        self.stage = Stage::Again(left);
        self.unacknowledged_bytes += now.len();
        if left == 0 {
            self.again -= 1;
            self.unacknowledged_records += 1;
            self.wanted |= std::mem::take(&mut self.wanted_when_whole);
            (self.stage, self.zeros) = (Stage::RecordHeader(0), self.padding);
        }
        rest
    }

    fn take_frame<'b>(
        &mut self,
        have: usize,
        length: u32,
        bytes: &'b [u8],
        upper: &mut impl RecordSink,
    ) -> Result<&'b [u8], RecordError> {
        let needed = if have < HEADER_LEN {
            HEADER_LEN
        } else {
            HEADER_LEN + usize::from(u16::from_le_bytes([self.frame[2], self.frame[3]]))
        };
        if needed > MAX_FRAME_LEN || needed > length as usize {
            return Err(RecordError::Length { length, frame: needed });
        }
        let (now, rest) = bytes.split_at(bytes.len().min(needed - have));
        self.frame[have..have + now.len()].copy_from_slice(now);
        let have = have + now.len();
        self.stage = Stage::Frame(have, length);
        if have < HEADER_LEN {
            return Ok(rest);
        }
        let needed = HEADER_LEN + usize::from(u16::from_le_bytes([self.frame[2], self.frame[3]]));
        if have < needed {
            return Ok(rest);
        }
        let got = Frame::decode(&self.frame[..have])?;
        let total = length as usize - have;
        let (first, rest) = rest.split_at(rest.len().min(total));
        upper.frame(&got, total, Bytes::from(first))?;
        self.begun = Some(Begun { frame: have as u32, length });
        self.stage = Stage::Body;
        self.head += have;
        self.point.bytes = have as u32;
        self.count(first.len());
        Ok(rest)
    }

    fn take_body<'b>(&mut self, bytes: &'b [u8], upper: &mut impl RecordSink) -> &'b [u8] {
        let Some(begun) = self.begun else { return &[] };
        let left = (begun.length - self.point.bytes) as usize;
        let (part, rest) = bytes.split_at(bytes.len().min(left));
        upper.more((self.point.bytes - begun.frame) as usize, Bytes::from(part));
        self.count(part.len());
        rest
    }

    fn count(&mut self, bytes: usize) {
        self.unacknowledged_bytes += bytes;
        self.point.bytes += bytes as u32;
        if self.begun.is_some_and(|begun| begun.length == self.point.bytes) {
            self.point = Point { records: self.point.records + 1, bytes: 0 };
            self.unacknowledged_records += 1;
            self.wanted |= std::mem::take(&mut self.wanted_when_whole);
            self.newest = self.begun.take().map_or(0, |begun| begun.length);
            (self.stage, self.zeros) = (Stage::RecordHeader(0), self.padding);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::ALIGNMENT;
    use super::*;
    use oxmpi_wire::ContextId;

    /// The calls with an offset in the body, or the total length, and a length.
    #[derive(Default)]
    struct Seen(Vec<(&'static str, usize, usize)>);

    impl RecordSink for Seen {
        fn frame(
            &mut self,
            _: &Received,
            total: usize,
            first: Bytes<'_>,
        ) -> Result<(), RecordError> {
            self.0.push(("frame", total, first.len()));
            Ok(())
        }

        fn more(&mut self, offset: usize, part: Bytes<'_>) {
            self.0.push(("more", offset, part.len()));
        }

        fn placed(&mut self, offset: usize, bytes: usize) {
            self.0.push(("placed", offset, bytes));
        }

        fn acknowledged(&mut self, _: u64) -> Result<(), RecordError> {
            Ok(())
        }

        fn bye(&mut self) {}
    }

    #[test]
    fn a_body_may_be_stored_past_this() {
        let mut frame = [0; MAX_FRAME_LEN];
        let len = Frame::Learn { id: ContextId::new(0, 0), index: 0 }.encode(0, 0, &mut frame);
        let length = len as u32 + 100;
        let header = RecordHeader {
            kind: RecordKind::Frame,
            wanted: true,
            number: 0,
            acknowledged: 0,
            length,
            start: 0,
            lead: 5,
        };
        let padding = header.padding();
        assert_eq!((RECORD_HEADER + 5 + len + 100 + padding) % ALIGNMENT, 0);
        let header = header.encode();
        let (mut came, mut seen) = (IncomingRecords::default(), Seen::default());
        assert_eq!(came.missing(), None);
        came.take(&header, &mut seen).unwrap();
        came.take(&[0; 5], &mut seen).unwrap();
        assert_eq!(came.missing(), None, "the frame is not here");
        came.take(&frame[..len], &mut seen).unwrap();
        assert_eq!(came.missing(), Some((0, 100)));
        came.take(&[0; 30], &mut seen).unwrap();
        came.placed(50, &mut seen);
        assert_eq!(came.missing(), Some((80, 20)));
        assert!(!came.owes());
        came.placed(20, &mut seen);
        assert_eq!((came.missing(), came.point()), (None, Point { records: 1, bytes: 0 }));
        assert!(came.owes() && !came.is_between());
        assert_eq!(came.take_zeros(&vec![0; padding + 2]).map(<[u8]>::len), Ok(2));
        assert!(came.is_between());
        assert_eq!(
            seen.0,
            [("frame", 100, 0), ("more", 0, 30), ("placed", 30, 50), ("placed", 80, 20)]
        );
    }

    #[test]
    fn padding_must_be_zeros() {
        let header = RecordHeader {
            kind: RecordKind::Ack,
            wanted: false,
            number: 0,
            acknowledged: 0,
            length: 0,
            start: 0,
            lead: 0,
        };
        let mut bytes = header.encode().to_vec();
        bytes.resize(RECORD_HEADER + header.padding(), 0);
        assert_eq!(bytes.len(), ALIGNMENT);
        let (mut came, mut seen) = (IncomingRecords::default(), Seen::default());
        for _ in 0..3 {
            came.take(&bytes, &mut seen).unwrap();
        }
        bytes[50] = 0x4f;
        assert_eq!(came.take(&bytes, &mut seen), Err(RecordError::Padding(0x4f)));
        let lead =
            RecordHeader { lead: ALIGNMENT as u8, length: 100, kind: RecordKind::Frame, ..header };
        assert!(matches!(RecordHeader::decode(&lead.encode()), Err(RecordError::Header(_))));
    }
}
