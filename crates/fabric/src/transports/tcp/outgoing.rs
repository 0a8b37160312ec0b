//! The records to one peer, which are retained until the peer has acknowledged them.

use super::RecordError;
use super::record::{ALIGNMENT, MAX_LEAD, Point, RECORD_HEADER, RecordHeader, RecordKind};
use super::retained::{CompletionPoint, Copies, RecordBody, RetainedRecord};
use crate::Body;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Frame, MAX_FRAME_LEN};
use std::collections::VecDeque;

const MAX_RECORDS: usize = 4096;
/// Bodies of at least this length get a lead (`record.rs`).
const ALIGN_FROM: usize = 4 << 10;
static ZEROS: [u8; ALIGNMENT] = [0; ALIGNMENT];

#[derive(Debug)]
struct Writing {
    /// A header with the zeros behind it, alone or of a record; or the zeros behind a record.
    head: [u8; RECORD_HEADER + MAX_LEAD],
    len: usize,
    done: usize,
    is_record: bool,
    padding: usize,
}

impl Writing {
    fn of(header: &RecordHeader) -> Writing {
        let mut head = [0; RECORD_HEADER + MAX_LEAD];
        head[..RECORD_HEADER].copy_from_slice(&header.encode());
        let (is_record, padding) = (header.kind == RecordKind::Frame, header.padding());
        let (len, padding) =
            if is_record { (header.len(), padding) } else { (header.len() + padding, 0) };
        Writing { head, len, done: 0, is_record, padding }
    }

    fn padding(zeros: usize) -> Writing {
        Writing {
            head: [0; RECORD_HEADER + MAX_LEAD],
            len: zeros,
            done: 0,
            is_record: false,
            padding: 0,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct OutgoingRecords {
    retained: VecDeque<RetainedRecord>,
    /// The number of the oldest retained record.
    first: u64,
    /// The index in `retained` of the record that is written now or next.
    current: usize,
    /// Bytes of this record that are written, or that the peer has.
    at: usize,
    writing: Option<Writing>,
    /// The end of everything that was ever written; the peer may have received it.
    written: Point,
    /// The point of the peer at the beginning of the connection.
    resumed: Point,
    copies: Copies,
    /// The number of records whose senders wait for a copy or an acknowledgement.
    lent: usize,
    ask: bool,
    bye: bool,
    /// An acknowledgement was requested up to this record.
    requested: u64,
    /// The end of the records that the peer needs: all except hints.
    needed: u64,
    stage: Vec<u8>,
    pub(super) gone: Vec<u64>,
}

/// The next bytes to write.
#[derive(Debug)]
pub struct Pieces<'a>([Bytes<'a>; 4]);

impl<'a> Pieces<'a> {
    /// The pieces, some of which may be empty.
    pub fn as_slice(&self) -> &[Bytes<'a>] {
        &self.0
    }

    /// The total length in bytes.
    pub fn len(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl OutgoingRecords {
    /// Whether everything is written, and not too much is retained.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.writing.is_none()
            && self.current == self.retained.len()
            && self.retained.len() < MAX_RECORDS
            && self.copies.may_take(len)
    }

    pub(super) fn push(
        &mut self,
        frame: Frame,
        sequence: u8,
        me: u32,
        body: &Body<'_>,
        token: u64,
    ) {
        let data = self.copies.take(body);
        self.keep(frame, sequence, me, RecordBody::Copied(data), CompletionPoint::Written(token));
    }

    /// Whether a short message may be written before it is retained: nothing waits, and the kernel
    /// has room, as fewer than `most` records are retained.
    pub(super) fn is_free(&self, most: usize) -> bool {
        self.retained.len() < most && self.is_written()
    }

    pub(super) fn next_number(&self) -> u64 {
        self.first + self.retained.len() as u64
    }

    /// Retains a short message of which the kernel already has `written` bytes.
    pub(super) fn keep_written(
        &mut self,
        header: &RecordHeader,
        frame: &[u8],
        body: Bytes<'_>,
        written: usize,
    ) {
        let mut bytes = [0; MAX_FRAME_LEN];
        bytes[..frame.len()].copy_from_slice(frame);
        let data = RecordBody::Copied(self.copies.take(&Body::Bytes(body)));
        self.append(
            RetainedRecord {
                frame: bytes,
                frame_len: frame.len(),
                data,
                completes: CompletionPoint::Never,
            },
            true,
        );
        self.writing = Some(Writing::of(header));
        self.wrote(written);
    }

    /// Takes a message whose body stays in its buffer. It is complete when the peer has it.
    pub(super) fn lend(
        &mut self,
        frame: Frame,
        me: u32,
        (buffer, offset, len): (UserBuf, usize, usize),
        token: u64,
    ) {
        self.keep(
            frame,
            0,
            me,
            RecordBody::Lent { buffer, offset, len },
            CompletionPoint::Acknowledged(token),
        );
    }

    /// Lends an eager message, which [`OutgoingRecords::copy_oldest`] completes, too.
    pub(super) fn lend_whole(
        &mut self,
        frame: Frame,
        sequence: u8,
        me: u32,
        (buffer, len): (UserBuf, usize),
        token: u64,
    ) {
        self.lent += 1;
        self.keep(
            frame,
            sequence,
            me,
            RecordBody::Lent { buffer, offset: 0, len },
            CompletionPoint::Copied(token),
        );
    }

    pub(super) fn lent(&self) -> usize {
        self.lent
    }

    fn oldest_to_copy(&self) -> Option<(usize, u64)> {
        if self.lent == 0 {
            return None;
        }
        let found =
            self.retained.iter().take(self.current).enumerate().find_map(|(at, retained)| {
                match retained.completes {
                    CompletionPoint::Copied(token) => Some((at, token)),
                    _ => None,
                }
            });
        found.filter(|(at, _)| self.copies.may_take(self.retained[*at].data.len()))
    }

    pub(super) fn copy_oldest(&mut self) -> bool {
        let Some((at, token)) = self.oldest_to_copy() else { return false };
        self.copy(at);
        self.gone.push(token);
        true
    }

    fn copy(&mut self, at: usize) {
        let retained = &mut self.retained[at];
        let RecordBody::Lent { buffer, offset, len } = &retained.data else { return };
        let data = RecordBody::Copied(self.copies.take(&Body::of(buffer, *offset, *len)));
        self.lent -= usize::from(matches!(retained.completes, CompletionPoint::Copied(_)));
        (retained.data, retained.completes) = (data, CompletionPoint::Never);
    }

    fn keep(
        &mut self,
        frame: Frame,
        sequence: u8,
        me: u32,
        data: RecordBody,
        completes: CompletionPoint,
    ) {
        let mut bytes = [0; MAX_FRAME_LEN];
        let frame_len = frame.encode(sequence, me, &mut bytes);
        let is_needed = !frame.is_hint();
        self.append(RetainedRecord { frame: bytes, frame_len, data, completes }, is_needed);
    }

    fn append(&mut self, retained: RetainedRecord, is_needed: bool) {
        self.retained.push_back(retained);
        if is_needed {
            self.needed = self.next_number();
        }
    }

    pub(super) fn is_written(&self) -> bool {
        self.writing.is_none() && self.current == self.retained.len() && !self.ask && !self.bye
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.first
    }

    pub(super) fn is_acknowledged(&self) -> bool {
        self.retained.is_empty()
    }

    /// Whether the peer has everything that it needs.
    pub(super) fn has_delivered(&self) -> bool {
        self.first >= self.needed
    }

    pub(super) fn take_notice_back(&mut self) {
        self.gone.pop();
    }

    pub(super) fn ask(&mut self) {
        let end = self.next_number();
        if !self.retained.is_empty() && self.requested < end {
            (self.ask, self.requested) = (true, end);
        }
    }

    pub(super) fn say_bye(&mut self) {
        self.bye = true;
    }

    /// The next bytes to write. `owed`: an acknowledgement is due. `say` returns the number of
    /// received records for a new header.
    pub(super) fn pending(&mut self, owed: bool, say: impl FnOnce() -> u64) -> Option<Pieces<'_>> {
        let OutgoingRecords { writing, retained, current, at, stage, .. } = self;
        let record = retained.get(*current).map(|retained| (retained, retained.rest(*at, stage)));
        if writing.is_none() {
            let kind = match record {
                Some(_) => RecordKind::Frame,
                None if self.bye => RecordKind::Bye,
                None if self.ask => RecordKind::Ask,
                None if owed => RecordKind::Ack,
                None => return None,
            };
            match kind {
                RecordKind::Bye => (self.bye, self.ask) = (false, false),
                RecordKind::Ask => self.ask = false,
                RecordKind::Frame | RecordKind::Ack => {}
            }
            let retained = record.as_ref().map(|(retained, _)| *retained);
            *writing = Some(Writing::of(&RecordHeader {
                kind,
                wanted: retained.is_some_and(|retained| {
                    matches!(retained.completes, CompletionPoint::Acknowledged(_))
                }),
                number: retained.map_or(0, |_| self.first + *current as u64),
                acknowledged: say(),
                length: retained.map_or(0, |retained| retained.len() as u32),
                start: retained.map_or(0, |_| *at as u32),
                lead: record.as_ref().map_or(0, |(_, (frame, data))| lead(frame, data)),
            }));
        }
        let writing = writing.as_ref()?;
        let head = Bytes::from(&writing.head[writing.done..writing.len]);
        let Some((retained, (frame, data))) = record.filter(|_| writing.is_record) else {
            return Some(Pieces([head, Bytes::empty(), Bytes::empty(), Bytes::empty()]));
        };
        let is_all = *at + frame.len() + data.len() == retained.len();
        let padding = Bytes::from(&ZEROS[..if is_all { writing.padding } else { 0 }]);
        Some(Pieces([head, frame, data, padding]))
    }

    pub(super) fn wrote(&mut self, mut bytes: usize) {
        let Some(writing) = &mut self.writing else { return };
        let head = bytes.min(writing.len - writing.done);
        writing.done += head;
        bytes -= head;
        let is_head_done = writing.done == writing.len;
        if !writing.is_record {
            if is_head_done {
                self.writing = None;
            }
            return;
        }
        let Some(retained) = self.retained.get_mut(self.current) else { return };
        let now = bytes.min(retained.len() - self.at);
        self.at += now;
        if is_head_done && self.at == retained.len() {
            if let CompletionPoint::Written(token) = retained.completes {
                retained.completes = CompletionPoint::Never;
                self.gone.push(token);
            }
            // The peer has the record even without the zeros behind it.
            let zeros = writing.padding;
            (self.writing, self.at) = ((zeros > 0).then(|| Writing::padding(zeros)), 0);
            self.current += 1;
            self.wrote(bytes - now);
        }
        self.written = self
            .written
            .max(Point { records: self.first + self.current as u64, bytes: self.at as u32 });
    }

    /// The peer has `records` complete records. Fails if fewer were written.
    pub(super) fn acknowledge(&mut self, records: u64) -> Result<(), RecordError> {
        let written = self.first + self.current as u64;
        if records > written {
            return Err(RecordError::Acknowledged { records, written });
        }
        self.drop_until(records);
        Ok(())
    }

    fn drop_until(&mut self, records: u64) {
        while self.first < records {
            let Some(retained) = self.retained.pop_front() else { break };
            self.first += 1;
            self.current = self.current.saturating_sub(1);
            self.drop_kept(retained);
        }
    }

    /// A new connection begins, whose other side has received everything up to `point`; the rest is
    /// written again. Returns whether the point is higher than for the connection before. Fails if
    /// the point is impossible.
    pub(super) fn resume(&mut self, point: Point) -> Result<bool, RecordError> {
        // A point before the retained records was acknowledged; a point behind `written` was never
        // written.
        let error = RecordError::Resume { point, first: self.first, written: self.written };
        if point > self.written || point.records < self.first {
            return Err(error);
        }
        self.drop_until(point.records);
        let whole = self.retained.front().map_or(0, RetainedRecord::len);
        if point.bytes != 0 && point.bytes as usize >= whole {
            return Err(error);
        }
        (self.current, self.at, self.writing) = (0, point.bytes as usize, None);
        (self.ask, self.requested) = (false, self.first);
        Ok(point > std::mem::replace(&mut self.resumed, point))
    }

    /// Drops all records. A peer that has left in good order takes nothing more, so their messages
    /// are complete. Messages to a lost peer stay incomplete (`is_lost`): the loss is reported to
    /// their senders.
    pub(super) fn clear(&mut self, is_lost: bool) {
        while let Some(mut retained) = self.retained.pop_front() {
            self.first += 1;
            if is_lost {
                self.lent -= usize::from(matches!(retained.completes, CompletionPoint::Copied(_)));
                retained.completes = CompletionPoint::Never;
            }
            self.drop_kept(retained);
        }
        (self.current, self.at, self.writing) = (0, 0, None);
        (self.ask, self.bye) = (false, false);
    }

    pub(super) fn release(&mut self, token: u64) {
        for at in 0..self.retained.len() {
            if matches!(self.retained[at].completes, CompletionPoint::Acknowledged(of) | CompletionPoint::Copied(of) if of == token)
            {
                self.copy(at);
            }
        }
    }

    fn drop_kept(&mut self, retained: RetainedRecord) {
        if let CompletionPoint::Written(token)
        | CompletionPoint::Acknowledged(token)
        | CompletionPoint::Copied(token) = retained.completes
        {
            self.gone.push(token);
        }
        self.lent -= usize::from(matches!(retained.completes, CompletionPoint::Copied(_)));
        if let RecordBody::Copied(bytes) = retained.data {
            self.copies.give_back(bytes);
        }
    }
}

/// The zeros that give the data the same offset to a cache line in the stream as in memory.
fn lead(frame: &Bytes<'_>, data: &Bytes<'_>) -> u8 {
    if data.len() < ALIGN_FROM {
        return 0;
    }
    (data.as_ptr().addr().wrapping_sub(RECORD_HEADER + frame.len()) % ALIGNMENT) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_to_a_lost_peer_are_not_reported_as_complete() {
        for is_lost in [false, true] {
            let mut out = OutgoingRecords::default();
            let body = Body::Bytes(Bytes::from(b"body"));
            out.push(
                Frame::Learn { id: oxmpi_wire::ContextId::new(0, 0), index: 0 },
                0,
                0,
                &body,
                7,
            );
            out.clear(is_lost);
            assert!(out.is_acknowledged());
            assert_eq!(out.gone, if is_lost { vec![] } else { vec![7] });
        }
    }

    /// Ten thousand bytes, lent whole with token 5 and written.
    fn lent() -> (OutgoingRecords, UserBuf) {
        let buffer = oxmpi_mem::memory::Owned::new(vec![7_u8; 10_000]).buf();
        let mut out = OutgoingRecords::default();
        let frame = Frame::Learn { id: oxmpi_wire::ContextId::new(0, 0), index: 0 };
        out.lend_whole(frame, 0, 0, (buffer.clone(), 10_000), 5);
        assert!(!out.copy_oldest(), "it is not written");
        let all = out.pending(false, || 0).unwrap().len();
        out.wrote(all);
        assert!(out.is_written() && out.gone.is_empty() && out.lent() == 1);
        (out, buffer)
    }

    #[test]
    fn a_lent_message_is_written_again_from_its_copy() {
        for is_released in [false, true] {
            let (mut out, buffer) = lent();
            if is_released {
                out.release(5);
            } else {
                assert!(out.copy_oldest());
            }
            assert_eq!(out.gone, if is_released { vec![] } else { vec![5] });
            buffer.unpack(0, Bytes::from(&[1; 10_000][..]));
            assert!(!out.resume(Point::default()).unwrap());
            let again = out.pending(false, || 0).unwrap().as_slice()[2].to_vec();
            assert!(
                again.len() == 10_000 && again.iter().all(|byte| *byte == 7),
                "what was there then"
            );
            assert!(out.lent() == 0 && !out.copy_oldest());
        }
    }

    #[test]
    fn a_connection_that_brought_something_is_recognised_by_the_next_one() {
        let (mut out, _buffer) = lent();
        let mut resume = |bytes| out.resume(Point { records: 0, bytes }).unwrap();
        assert_eq!([0, 5000, 5000, 5001].map(&mut resume), [false, true, false, true]);
    }

    #[test]
    fn an_acknowledged_lent_message_needs_no_copy() {
        let (mut out, _buffer) = lent();
        out.acknowledge(1).unwrap();
        assert_eq!(out.gone, [5]);
        assert!(
            out.lent() == 0 && out.copies.is_empty() && !out.copy_oldest() && out.is_acknowledged()
        );
        let (mut out, _buffer) = lent();
        out.clear(true);
        assert!(out.lent() == 0 && out.gone.is_empty());
    }
}
