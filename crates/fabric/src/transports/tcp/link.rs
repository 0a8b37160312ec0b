//! A link: both directions between two processes, over any number of connections. It is a state
//! machine without input and output (rules 1 to 3 of the module).

use super::incoming::{IncomingRecords, RecordSink};
use super::outgoing::{OutgoingRecords, Pieces};
use super::record::{Point, RecordHeader, RecordKind};
use super::{RecordError, body_fits, is_ours};
use crate::{FrameSink, OutgoingMessage, Traffic, dispatch};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{HEADER_LEN, Received};

/// The state of one peer's traffic.
#[derive(Debug, Default)]
pub struct Link {
    out: OutgoingRecords,
    came: IncomingRecords,
    has_left: bool,
    received: Traffic,
}

/// Delivers received content, and passes acknowledgements to the other direction.
struct LinkSink<'a> {
    from: u32,
    out: &'a mut OutgoingRecords,
    has_left: &'a mut bool,
    received: &'a mut Traffic,
    sink: &'a mut dyn FrameSink,
}

impl RecordSink for LinkSink<'_> {
    fn frame(&mut self, got: &Received, total: usize, first: Bytes<'_>) -> Result<(), RecordError> {
        if !is_ours(self.from, got.source, &got.frame) {
            return Err(RecordError::Foreign);
        }
        self.received.note(&got.frame, total);
        dispatch(self.from, got, total, first, self.sink);
        Ok(())
    }

    fn more(&mut self, offset: usize, part: Bytes<'_>) {
        self.sink.more(self.from, offset, part);
    }

    fn placed(&mut self, offset: usize, bytes: usize) {
        self.sink.placed(self.from, offset, bytes);
    }

    fn acknowledged(&mut self, records: u64) -> Result<(), RecordError> {
        self.out.acknowledge(records)
    }

    fn bye(&mut self) {
        *self.has_left = true;
    }
}

impl Link {
    /// Whether a message with a body of `len` bytes would be taken.
    pub fn has_room(&self, len: usize) -> bool {
        self.out.has_room(len)
    }

    /// Takes a message and copies its body.
    pub fn push(&mut self, me: u32, message: &OutgoingMessage<'_>) {
        debug_assert!(body_fits(&message.body));
        self.out.push(message.frame, message.sequence, me, &message.body, message.token);
    }

    /// The header of a record with a frame and a body of these lengths, which is written at once
    /// and given to [`Link::keep_written`]. `None`: it must wait, because `most` records are
    /// retained or unwritten data exist.
    pub(super) fn header_now(
        &self,
        frame: usize,
        body: usize,
        most: usize,
    ) -> Option<RecordHeader> {
        if !self.out.is_free(most) {
            return None;
        }
        let header = RecordHeader {
            kind: RecordKind::Frame,
            wanted: false,
            number: self.out.next_number(),
            acknowledged: self.came.acknowledged(),
            length: (frame + body) as u32,
            start: 0,
            lead: 0,
        };
        Some(header)
    }

    /// Retains a message after the kernel took `written` bytes of its record, perhaps 0.
    pub(super) fn keep_written(
        &mut self,
        header: &RecordHeader,
        frame: &[u8],
        body: Bytes<'_>,
        written: usize,
    ) {
        self.came.say();
        self.out.keep_written(header, frame, body, written);
    }

    /// As [`IncomingRecords::peek`], with the length of the body.
    pub(super) fn peek(&self, from: u32, bytes: &[u8]) -> Option<(RecordHeader, Received, usize)> {
        let (header, got) = self.came.peek(bytes)?;
        let total = (header.length as usize).checked_sub(HEADER_LEN)?;
        is_ours(from, got.source, &got.frame).then_some((header, got, total))
    }

    /// Takes the acknowledgement in a header. After an error nothing has changed.
    pub(super) fn take_acknowledgement(
        &mut self,
        header: &RecordHeader,
    ) -> Result<(), RecordError> {
        self.out.acknowledge(header.acknowledged)
    }

    /// Takes the message of [`Link::peek`], whose first `stored` bytes are in the receive's memory.
    pub(super) fn take_peeked(&mut self, header: &RecordHeader, stored: usize) {
        self.received.add((header.length as usize).saturating_sub(HEADER_LEN) as u64);
        self.came.take_peeked(header, stored);
    }

    /// As [`IncomingRecords::take_zeros`]; returns the number of zeros.
    pub(super) fn take_padding(&mut self, bytes: &[u8]) -> Result<usize, RecordError> {
        self.came.take_zeros(bytes).map(|rest| bytes.len() - rest.len())
    }

    pub(super) fn head(&self) -> usize {
        self.came.head()
    }

    pub(super) fn newest(&self) -> usize {
        self.came.newest()
    }

    pub(super) fn is_between(&self) -> bool {
        self.came.is_between()
    }

    pub(super) fn has_gone(&self) -> bool {
        !self.out.gone.is_empty()
    }

    pub(super) fn owes(&self) -> bool {
        self.came.owes()
    }

    /// Takes a piece of an announced message: `len` packed bytes of a buffer, from an offset on.
    pub fn lend(&mut self, me: u32, message: &OutgoingMessage<'_>, piece: (UserBuf, usize, usize)) {
        self.out.lend(message.frame, me, piece, message.token);
    }

    /// Lends an eager message until the peer has it, or [`Link::copy_oldest`] has copied it.
    pub fn lend_whole(&mut self, me: u32, message: &OutgoingMessage<'_>, buffer: UserBuf) {
        debug_assert!(body_fits(&message.body));
        self.out.lend_whole(
            message.frame,
            message.sequence,
            me,
            (buffer, message.body.len()),
            message.token,
        );
    }

    /// The number of incomplete messages of [`Link::lend_whole`].
    pub fn lent(&self) -> usize {
        self.out.lent()
    }

    /// Copies and so completes the oldest of them, if it is written. Returns whether it did.
    pub fn copy_oldest(&mut self) -> bool {
        self.out.copy_oldest()
    }

    /// Whether the newest message of [`Link::push`] is written; then it is not reported later.
    pub fn took_newest(&mut self) -> bool {
        let written = self.out.is_written();
        if written {
            self.out.take_notice_back();
        }
        written
    }

    /// The next bytes for the connection.
    pub fn pending(&mut self) -> Option<Pieces<'_>> {
        let owed = self.came.owes();
        let came = &mut self.came;
        self.out.pending(owed, || came.say())
    }

    /// `bytes` bytes of [`Link::pending`] are written.
    pub fn wrote(&mut self, bytes: usize) {
        self.out.wrote(bytes);
    }

    /// Whether everything is written.
    pub fn is_written(&self) -> bool {
        self.out.is_written()
    }

    /// Makes an acknowledgement due, even for few records.
    pub fn owe(&mut self) {
        self.came.owe();
    }

    /// Whether everything is written, acknowledgements included.
    pub fn is_settled(&self) -> bool {
        self.out.is_written() && !self.came.owes()
    }

    /// Whether the peer has everything.
    pub fn is_acknowledged(&self) -> bool {
        self.out.is_acknowledged()
    }

    /// Whether the peer has all records that it needs.
    pub fn has_delivered(&self) -> bool {
        self.out.has_delivered()
    }

    /// Requests an acknowledgement from the peer.
    pub fn ask(&mut self) {
        self.out.ask();
    }

    /// Sends a goodbye after all records.
    pub fn say_bye(&mut self) {
        self.out.say_bye();
    }

    pub(super) fn received(&self) -> Traffic {
        self.received
    }

    /// Whether the peer has said goodbye.
    pub fn has_left(&self) -> bool {
        self.has_left
    }

    /// Takes bytes of process `from`. After an error the connection is unusable.
    pub fn take(
        &mut self,
        from: u32,
        bytes: &[u8],
        sink: &mut dyn FrameSink,
    ) -> Result<(), RecordError> {
        let Link { out, came, has_left, received } = self;
        let mut hands = LinkSink { from, out, has_left, received, sink };
        came.take(bytes, &mut hands)
    }

    /// Takes a record of process `from` before a connection is used, and delivers it if it is the
    /// next record. Returns whether it is. After an error it counts as not received.
    pub fn take_early(
        &mut self,
        from: u32,
        record: &[u8],
        sink: &mut dyn FrameSink,
    ) -> Result<bool, RecordError> {
        let header = record.first_chunk().ok_or(RecordError::Early(record.len()))?;
        let header = RecordHeader::decode(header)?;
        let len = header.len() + header.length as usize + header.padding();
        if header.kind != RecordKind::Frame || header.start != 0 || len != record.len() {
            return Err(RecordError::Early(record.len()));
        }
        if self.came.point() != (Point { records: header.number, bytes: 0 }) {
            return Ok(false);
        }
        let Link { out, came, has_left, received } = self;
        let mut hands = LinkSink { from, out, has_left, received, sink };
        came.take_early(record, &mut hands).map(|()| true)
    }

    /// The points of both directions. Requests for an acknowledgement do not change them.
    pub(super) fn progress(&self) -> (Point, u64) {
        (self.came.point(), self.out.acknowledged())
    }

    pub(super) fn has_received(&self) -> bool {
        self.came.point().records > 0
    }

    pub(super) fn has_written_only(&self, records: u64) -> bool {
        self.out.next_number() == records && self.out.is_written()
    }

    /// The missing part of a begun body: its offset in the body, and its length.
    pub fn missing(&self) -> Option<(usize, usize)> {
        self.came.missing()
    }

    /// `bytes` bytes, at most [`Link::missing`], were stored in the memory of the receive.
    pub fn placed(&mut self, from: u32, bytes: usize, sink: &mut dyn FrameSink) {
        let Link { out, came, has_left, received } = self;
        let mut hands = LinkSink { from, out, has_left, received, sink };
        came.placed(bytes, &mut hands);
    }

    /// The received point for a new connection. Drops incomplete data of the old one.
    pub fn point(&mut self) -> Point {
        self.came.restart();
        self.came.point()
    }

    /// Uses a new connection. Returns whether the peer has received anything over the old one.
    pub fn resume(&mut self, point: Point) -> Result<bool, RecordError> {
        self.out.resume(point)
    }

    /// The peer has ended: drops all records. Messages to a lost peer stay incomplete.
    pub fn clear(&mut self, is_lost: bool) {
        self.out.clear(is_lost);
    }

    /// The buffers of this message may no longer be used.
    pub fn release(&mut self, token: u64) {
        self.out.release(token);
    }

    /// Reports complete messages.
    pub fn tell_gone(&mut self, sink: &mut dyn FrameSink) {
        for token in self.out.gone.drain(..) {
            sink.sent(token);
        }
    }
}
