//! The records to one peer, retained until the peer has acknowledged them.

use super::RecordError;
use super::kept::{Copies, Data, Kept, Notice};
use super::record::{ALIGNMENT, MAX_LEAD, Point, RECORD_HEADER, RecordHeader, RecordKind};
use crate::Body;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Frame, MAX_FRAME_LEN};
use std::collections::VecDeque;

/// The most records that are retained for one peer.
const MAX_RECORDS: usize = 4096;
/// Bodies of at least this length get a lead (`record.rs`).
const ALIGN_FROM: usize = 4 << 10;
static ZEROS: [u8; ALIGNMENT] = [0; ALIGNMENT];

/// The data that are being written.
#[derive(Debug)]
struct Writing {
    /// A header with the zeros behind it, of a record or alone; or the zeros behind a record.
    head: [u8; RECORD_HEADER + MAX_LEAD],
    len: usize,
    /// The number of its bytes that are written.
    done: usize,
    is_record: bool,
    /// Zeros behind the record.
    padding: usize,
}

impl Writing {
    fn of(header: &RecordHeader) -> Writing {
        let mut head = [0; RECORD_HEADER + MAX_LEAD];
        head[..RECORD_HEADER].copy_from_slice(&header.encode());
        let (is_record, padding) = (header.kind == RecordKind::Frame, header.padding());
        let (len, padding) = if is_record { (header.len(), padding) } else { (header.len() + padding, 0) };
        Writing { head, len, done: 0, is_record, padding }
    }

    fn padding(zeros: usize) -> Writing {
        Writing { head: [0; RECORD_HEADER + MAX_LEAD], len: zeros, done: 0, is_record: false, padding: 0 }
    }
}

/// One direction, to a peer.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    kept: VecDeque<Kept>,
    /// The number of the oldest retained record.
    first: u64,
    /// The retained record that is being written, or is written next.
    current: usize,
    /// Bytes of it that are written, or that the peer has.
    at: usize,
    writing: Option<Writing>,
    /// The end of everything that was ever written: the peer may have received it all.
    written: Point,
    /// The point of the peer when the connection began.
    resumed: Point,
    copies: Copies,
    /// Records whose senders wait for a copy or an acknowledgement.
    lent: usize,
    ask: bool,
    bye: bool,
    /// The end of the records for which an acknowledgement was requested.
    asked: u64,
    /// The end of the records that the peer needs: all but hints.
    needed: u64,
    stage: Vec<u8>,
    /// Tokens of complete messages.
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

impl Outgoing {
    /// Whether another message would be taken: everything before it is written, and not too much is
    /// retained.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.writing.is_none()
            && self.current == self.kept.len()
            && self.kept.len() < MAX_RECORDS
            && self.copies.may_take(len)
    }

    /// Takes a message and copies its body. It is complete once it is written.
    pub(super) fn push(&mut self, frame: Frame, sequence: u8, me: u32, body: &Body<'_>, token: u64) {
        let data = self.copies.take(body);
        self.keep(frame, sequence, me, Data::Copied(data), Notice::Written(token));
    }

    /// Whether a short message may be written before it is retained: nothing else waits to be
    /// written, and fewer than `most` records are retained, so that the kernel has room for another
    /// one.
    pub(super) fn is_free(&self, most: usize) -> bool {
        self.kept.len() < most && self.is_written()
    }

    pub(super) fn next_number(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// Retains a short message of whose record the kernel has the first `written` bytes. Its
    /// completion is not reported. [`Outgoing::is_free`] was true before.
    pub(super) fn keep_written(
        &mut self,
        header: &RecordHeader,
        frame: &[u8],
        body: Bytes<'_>,
        written: usize,
    ) {
        let mut bytes = [0; MAX_FRAME_LEN];
        bytes[..frame.len()].copy_from_slice(frame);
        let data = Data::Copied(self.copies.take(&Body::Bytes(body)));
        self.append(Kept { frame: bytes, frame_len: frame.len(), data, notice: Notice::Never }, true);
        self.writing = Some(Writing::of(header));
        self.wrote(written);
    }

    /// Takes a message whose body stays in its buffer until the peer has it; then it is complete.
    pub(super) fn lend(
        &mut self,
        frame: Frame,
        me: u32,
        (buffer, offset, len): (UserBuf, usize, usize),
        token: u64,
    ) {
        self.keep(frame, 0, me, Data::Lent { buffer, offset, len }, Notice::Acknowledged(token));
    }

    /// As [`Outgoing::lend`], for an eager message of `len` bytes, which a copy completes as well
    /// ([`Outgoing::copy_oldest`]).
    pub(super) fn lend_whole(
        &mut self,
        frame: Frame,
        sequence: u8,
        me: u32,
        (buffer, len): (UserBuf, usize),
        token: u64,
    ) {
        self.lent += 1;
        self.keep(frame, sequence, me, Data::Lent { buffer, offset: 0, len }, Notice::Copied(token));
    }

    /// The number of messages of [`Outgoing::lend_whole`] that are incomplete.
    pub(super) fn lent(&self) -> usize {
        self.lent
    }

    /// The oldest of these if it is written and may be copied: its place, and its token.
    fn oldest_to_copy(&self) -> Option<(usize, u64)> {
        if self.lent == 0 {
            return None;
        }
        let found =
            self.kept.iter().take(self.current).enumerate().find_map(|(at, kept)| match kept.notice {
                Notice::Copied(token) => Some((at, token)),
                _ => None,
            });
        found.filter(|(at, _)| self.copies.may_take(self.kept[*at].data.len()))
    }

    /// Copies that one. Returns whether there is one.
    pub(super) fn copy_oldest(&mut self) -> bool {
        let Some((at, token)) = self.oldest_to_copy() else { return false };
        self.copy(at);
        self.gone.push(token);
        true
    }

    /// Replaces the data of a lent record by a copy, without a report.
    fn copy(&mut self, at: usize) {
        let kept = &mut self.kept[at];
        let Data::Lent { buffer, offset, len } = &kept.data else { return };
        let data = Data::Copied(self.copies.take(&Body::of(buffer, *offset, *len)));
        self.lent -= usize::from(matches!(kept.notice, Notice::Copied(_)));
        (kept.data, kept.notice) = (data, Notice::Never);
    }

    fn keep(&mut self, frame: Frame, sequence: u8, me: u32, data: Data, notice: Notice) {
        let mut bytes = [0; MAX_FRAME_LEN];
        let frame_len = frame.encode(sequence, me, &mut bytes);
        let is_needed = !frame.is_hint();
        self.append(Kept { frame: bytes, frame_len, data, notice }, is_needed);
    }

    /// Retains a record; hints are not needed.
    fn append(&mut self, kept: Kept, is_needed: bool) {
        self.kept.push_back(kept);
        if is_needed {
            self.needed = self.next_number();
        }
    }

    /// Whether everything is written.
    pub(super) fn is_written(&self) -> bool {
        self.writing.is_none() && self.current == self.kept.len() && !self.ask && !self.bye
    }

    /// The number of records that the peer has acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.first
    }

    pub(super) fn is_acknowledged(&self) -> bool {
        self.kept.is_empty()
    }

    /// Whether the peer has everything that it needs: it lacks hints at most.
    pub(super) fn has_delivered(&self) -> bool {
        self.first >= self.needed
    }

    /// The newest message was written at once: its completion is not reported.
    pub(super) fn take_notice_back(&mut self) {
        self.gone.pop();
    }

    /// Requests an acknowledgement of everything, once.
    pub(super) fn ask(&mut self) {
        let end = self.next_number();
        if !self.kept.is_empty() && self.asked < end {
            (self.ask, self.asked) = (true, end);
        }
    }

    pub(super) fn say_bye(&mut self) {
        self.bye = true;
    }

    /// The next bytes to write. `owed`: an acknowledgement is sent even if there is nothing else;
    /// `say` returns the number of received records, for a header that is made now.
    pub(super) fn pending(&mut self, owed: bool, say: impl FnOnce() -> u64) -> Option<Pieces<'_>> {
        let Outgoing { writing, kept, current, at, stage, .. } = self;
        let record = kept.get(*current).map(|kept| (kept, kept.rest(*at, stage)));
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
            let kept = record.as_ref().map(|(kept, _)| *kept);
            *writing = Some(Writing::of(&RecordHeader {
                kind,
                wanted: kept.is_some_and(|kept| matches!(kept.notice, Notice::Acknowledged(_))),
                number: kept.map_or(0, |_| self.first + *current as u64),
                acknowledged: say(),
                length: kept.map_or(0, |kept| kept.len() as u32),
                start: kept.map_or(0, |_| *at as u32),
                lead: record.as_ref().map_or(0, |(_, (frame, data))| lead(frame, data)),
            }));
        }
        let writing = writing.as_ref()?;
        let head = Bytes::from(&writing.head[writing.done..writing.len]);
        let Some((kept, (frame, data))) = record.filter(|_| writing.is_record) else {
            return Some(Pieces([head, Bytes::empty(), Bytes::empty(), Bytes::empty()]));
        };
        let is_all = *at + frame.len() + data.len() == kept.len();
        let padding = Bytes::from(&ZEROS[..if is_all { writing.padding } else { 0 }]);
        Some(Pieces([head, frame, data, padding]))
    }

    /// `bytes` bytes of [`Outgoing::pending`] are written.
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
        let Some(kept) = self.kept.get_mut(self.current) else { return };
        let now = bytes.min(kept.len() - self.at);
        self.at += now;
        if is_head_done && self.at == kept.len() {
            if let Notice::Written(token) = kept.notice {
                kept.notice = Notice::Never;
                self.gone.push(token);
            }
            // The peer has the record without the zeros behind it.
            let zeros = writing.padding;
            (self.writing, self.at) = ((zeros > 0).then(|| Writing::padding(zeros)), 0);
            self.current += 1;
            self.wrote(bytes - now);
        }
        self.written =
            self.written.max(Point { records: self.first + self.current as u64, bytes: self.at as u32 });
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

    /// Drops the records before this one.
    fn drop_until(&mut self, records: u64) {
        while self.first < records {
            let Some(kept) = self.kept.pop_front() else { break };
            self.first += 1;
            self.current = self.current.saturating_sub(1);
            self.drop_kept(kept);
        }
    }

    /// A new connection begins, whose other side has received up to `point`: everything behind it
    /// is written again. Returns whether that is more than at the beginning of the connection
    /// before. Fails if the point is impossible.
    pub(super) fn resume(&mut self, point: Point) -> Result<bool, RecordError> {
        // A peer with a lower point than before has given the connection up; it cannot have more
        // than was ever written.
        let error = RecordError::Resume { point, first: self.first, written: self.written };
        if point > self.written || point.records < self.first {
            return Err(error);
        }
        self.drop_until(point.records);
        let whole = self.kept.front().map_or(0, Kept::len);
        if point.bytes != 0 && point.bytes as usize >= whole {
            return Err(error);
        }
        (self.current, self.at, self.writing) = (0, point.bytes as usize, None);
        (self.ask, self.asked) = (false, self.first);
        Ok(point > std::mem::replace(&mut self.resumed, point))
    }

    /// Drops everything: the peer has left as it should and so takes nothing more, or it is lost
    /// (`is_lost`). Then incomplete messages stay incomplete: their senders learn of the loss.
    pub(super) fn clear(&mut self, is_lost: bool) {
        while let Some(mut kept) = self.kept.pop_front() {
            self.first += 1;
            if is_lost {
                self.lent -= usize::from(matches!(kept.notice, Notice::Copied(_)));
                kept.notice = Notice::Never;
            }
            self.drop_kept(kept);
        }
        (self.current, self.at, self.writing) = (0, 0, None);
        (self.ask, self.bye) = (false, false);
    }

    /// Stops using the buffers of a message: copies the data that are still needed.
    pub(super) fn release(&mut self, token: u64) {
        for at in 0..self.kept.len() {
            if matches!(self.kept[at].notice, Notice::Acknowledged(of) | Notice::Copied(of) if of == token) {
                self.copy(at);
            }
        }
    }

    fn drop_kept(&mut self, kept: Kept) {
        if let Notice::Written(token) | Notice::Acknowledged(token) | Notice::Copied(token) = kept.notice {
            self.gone.push(token);
        }
        self.lent -= usize::from(matches!(kept.notice, Notice::Copied(_)));
        if let Data::Copied(bytes) = kept.data {
            self.copies.give_back(bytes);
        }
    }
}

/// The number of zeros before the rest of a record with which its data have the same offset to a
/// cache line in the stream as in memory.
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
    fn what_was_kept_for_a_lost_peer_is_not_said_to_be_gone() {
        for is_lost in [false, true] {
            let mut out = Outgoing::default();
            let body = Body::Bytes(Bytes::from(b"body"));
            out.push(Frame::Learn { id: oxmpi_wire::ContextId::new(0, 0), index: 0 }, 0, 0, &body, 7);
            out.clear(is_lost);
            assert!(out.is_acknowledged());
            assert_eq!(out.gone, if is_lost { vec![] } else { vec![7] });
        }
    }

    /// Ten thousand bytes lent whole, with the token 5, and written.
    fn lent() -> (Outgoing, UserBuf) {
        let buffer = oxmpi_mem::memory::Owned::new(vec![7_u8; 10_000]).buf();
        let mut out = Outgoing::default();
        let frame = Frame::Learn { id: oxmpi_wire::ContextId::new(0, 0), index: 0 };
        out.lend_whole(frame, 0, 0, (buffer.clone(), 10_000), 5);
        assert!(!out.copy_oldest(), "it is not written");
        let all = out.pending(false, || 0).unwrap().len();
        out.wrote(all);
        assert!(out.is_written() && out.gone.is_empty() && out.lent() == 1);
        (out, buffer)
    }

    #[test]
    fn what_was_lent_is_written_again_from_its_copy() {
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
            assert!(again.len() == 10_000 && again.iter().all(|byte| *byte == 7), "what was there then");
            assert!(out.lent() == 0 && !out.copy_oldest());
        }
    }

    #[test]
    fn a_connection_of_which_something_came_is_told_by_the_next_one() {
        let (mut out, _buffer) = lent();
        let mut resume = |bytes| out.resume(Point { records: 0, bytes }).unwrap();
        assert_eq!([0, 5000, 5000, 5001].map(&mut resume), [false, true, false, true]);
    }

    #[test]
    fn what_was_lent_and_acknowledged_needs_no_copy() {
        let (mut out, _buffer) = lent();
        out.acknowledge(1).unwrap();
        assert_eq!(out.gone, [5]);
        assert!(out.lent() == 0 && out.copies.is_empty() && !out.copy_oldest() && out.is_acknowledged());
        let (mut out, _buffer) = lent();
        out.clear(true);
        assert!(out.lent() == 0 && out.gone.is_empty());
    }
}
