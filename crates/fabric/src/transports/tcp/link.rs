//! A link: both directions between two processes, over as many connections as it takes. A pure state machine: bytes in,
//! bytes out (rules 1 to 3 of the module).

use super::incoming::{Incoming, Upper};
use super::outgoing::{Outgoing, Pieces};
use super::record::{Point, RecordHeader, RecordKind};
use super::{RecordError, body_fits, is_ours};
use crate::{Message, Sink, Traffic, dispatch};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{HEADER_LEN, Received};

/// What is kept of one peer's traffic.
#[derive(Debug, Default)]
pub struct Link {
    out: Outgoing,
    came: Incoming,
    /// The peer has said goodbye.
    has_left: bool,
    /// The messages that have come.
    received: Traffic,
}

/// Hands up what comes, and notes what it says of the other direction.
struct Hands<'a> {
    from: u32,
    out: &'a mut Outgoing,
    has_left: &'a mut bool,
    received: &'a mut Traffic,
    sink: &'a mut dyn Sink,
}

impl Upper for Hands<'_> {
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
    pub fn push(&mut self, me: u32, message: &Message<'_>) {
        debug_assert!(body_fits(&message.body));
        self.out.push(message.frame, message.sequence, me, &message.body, message.token);
    }

    /// The header of a record with a frame and a body of so many bytes, for a message to be written at once; `None`: it must
    /// wait for something, or `most` records are kept. Then [`Link::keep_written`].
    pub(super) fn header_now(&self, frame: usize, body: usize, most: usize) -> Option<RecordHeader> {
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

    /// Keeps a message, of whose record `written` bytes are written, none of them if it is not taken at all.
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

    /// The message at the beginning of `bytes`, the next ones of the connection, as [`Incoming::peek`], and the length of its
    /// body.
    pub(super) fn peek(&self, from: u32, bytes: &[u8]) -> Option<(RecordHeader, Received, usize)> {
        let (header, got) = self.came.peek(bytes)?;
        let total = (header.length as usize).checked_sub(HEADER_LEN)?;
        is_ours(from, got.source, &got.frame).then_some((header, got, total))
    }

    /// Takes in what a header says of the other direction.
    ///
    /// # Errors
    /// If that cannot be; nothing has happened then.
    pub(super) fn heed(&mut self, header: &RecordHeader) -> Result<(), RecordError> {
        self.out.acknowledge(header.acknowledged)
    }

    /// Takes what [`Link::peek`] has shown, and the first `stored` bytes of the body, which are where they belong.
    pub(super) fn take_peeked(&mut self, header: &RecordHeader, stored: usize) {
        self.received.add((header.length as usize).saturating_sub(HEADER_LEN) as u64);
        self.came.take_peeked(header, stored);
    }

    /// Takes the zeros behind a record, with which `bytes`, the next ones of the connection, begin. Returns how many were there.
    ///
    /// # Errors
    /// If there are other bytes in their place.
    pub(super) fn take_padding(&mut self, bytes: &[u8]) -> Result<usize, RecordError> {
        self.came.take_zeros(bytes).map(|rest| bytes.len() - rest.len())
    }

    /// Bytes of the newest record up to its body.
    pub(super) fn head(&self) -> usize {
        self.came.head()
    }

    /// Length of the newest record that has come whole, bytes.
    pub(super) fn newest(&self) -> usize {
        self.came.newest()
    }

    /// Whether no record has come in part.
    pub(super) fn is_between(&self) -> bool {
        self.came.is_between()
    }

    /// Whether messages are gone of which nobody was told.
    pub(super) fn has_gone(&self) -> bool {
        !self.out.gone.is_empty()
    }

    /// Whether the peer is to be told now what has come.
    pub(super) fn owes(&self) -> bool {
        self.came.owes()
    }

    /// Takes a piece of an announced message: `len` packed bytes of a buffer from an offset on.
    pub fn lend(&mut self, me: u32, message: &Message<'_>, piece: (UserBuf, usize, usize)) {
        self.out.lend(message.frame, me, piece, message.token);
    }

    /// Takes an eager message whose body stays where it is, in the buffer, until the peer has it or it was copied by
    /// [`Link::copy_oldest`]. Then it is gone.
    pub fn lend_whole(&mut self, me: u32, message: &Message<'_>, buffer: UserBuf) {
        debug_assert!(body_fits(&message.body));
        self.out.lend_whole(message.frame, message.sequence, me, (buffer, message.body.len()), message.token);
    }

    /// How many messages taken by [`Link::lend_whole`] are not gone.
    pub fn lent(&self) -> usize {
        self.out.lent()
    }

    /// Copies the oldest of these, if it is written: then it is gone. Returns whether it did.
    pub fn copy_oldest(&mut self) -> bool {
        self.out.copy_oldest()
    }

    /// Whether the newest message, taken by [`Link::push`], is written; then nobody is told of it later.
    pub fn took_newest(&mut self) -> bool {
        let written = self.out.is_written();
        if written {
            self.out.take_notice_back();
        }
        written
    }

    /// What to write next to the connection.
    pub fn pending(&mut self) -> Option<Pieces<'_>> {
        let owed = self.came.owes();
        let came = &mut self.came;
        self.out.pending(owed, || came.say())
    }

    /// So many bytes of what [`Link::pending`] said are written.
    pub fn wrote(&mut self, bytes: usize) {
        self.out.wrote(bytes);
    }

    /// Whether everything is written.
    pub fn is_written(&self) -> bool {
        self.out.is_written()
    }

    /// The peer is to be told what has come, soon, even if that is little.
    pub fn owe(&mut self) {
        self.came.owe();
    }

    /// Whether everything is written, what has come told as well.
    pub fn is_settled(&self) -> bool {
        self.out.is_written() && !self.came.owes()
    }

    /// Whether the peer has everything.
    pub fn is_acknowledged(&self) -> bool {
        self.out.is_acknowledged()
    }

    /// Whether the peer has everything that it needs.
    pub fn has_delivered(&self) -> bool {
        self.out.has_delivered()
    }

    /// Asks the peer to say what it has.
    pub fn ask(&mut self) {
        self.out.ask();
    }

    /// Says goodbye, after everything else.
    pub fn say_bye(&mut self) {
        self.out.say_bye();
    }

    /// The messages that have come.
    pub(super) fn received(&self) -> Traffic {
        self.received
    }

    /// Whether the peer has said goodbye.
    pub fn has_left(&self) -> bool {
        self.has_left
    }

    /// Takes bytes that came from process `from` and hands up what they say.
    ///
    /// # Errors
    /// If they make no sense; the connection is of no use then.
    pub fn take(&mut self, from: u32, bytes: &[u8], sink: &mut dyn Sink) -> Result<(), RecordError> {
        let Link { out, came, has_left, received } = self;
        let mut hands = Hands { from, out, has_left, received, sink };
        came.take(bytes, &mut hands)
    }

    /// Takes a record of process `from` that has come before a connection is used, and hands it up, if it is the next one. Whether
    /// it is.
    ///
    /// # Errors
    /// If it makes no sense; it has not come then.
    pub fn take_early(&mut self, from: u32, record: &[u8], sink: &mut dyn Sink) -> Result<bool, RecordError> {
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
        let mut hands = Hands { from, out, has_left, received, sink };
        came.take_early(record, &mut hands).map(|()| true)
    }

    /// How far both directions have come. What comes and changes nothing of it, such as an answer to a question, comes also where
    /// nothing else gets through.
    pub(super) fn progress(&self) -> (Point, u64) {
        (self.came.point(), self.out.acknowledged())
    }

    /// Whether any record has come whole.
    pub(super) fn has_received(&self) -> bool {
        self.came.point().records > 0
    }

    /// Whether these are all records there were, and everything is written.
    pub(super) fn has_written_only(&self, records: u64) -> bool {
        self.out.next_number() == records && self.out.is_written()
    }

    /// The part of a body that has begun to come and is not here: where it begins in the body, and its length.
    pub fn missing(&self) -> Option<(usize, usize)> {
        self.came.missing()
    }

    /// Bytes that came from process `from` were stored where they belong, no more than [`Link::missing`] says.
    pub fn placed(&mut self, from: u32, bytes: usize, sink: &mut dyn Sink) {
        let Link { out, came, has_left, received } = self;
        let mut hands = Hands { from, out, has_left, received, sink };
        came.placed(bytes, &mut hands);
    }

    /// Up to where this side has received: what the peer must be told before a new connection is used. What is still
    /// to come of an older one is forgotten.
    pub fn point(&mut self) -> Point {
        self.came.restart();
        self.came.point()
    }

    /// A new connection is used; the peer has received up to `point`. Whether that is more than when the connection before began.
    ///
    /// # Errors
    /// If that cannot be.
    pub fn resume(&mut self, point: Point) -> Result<bool, RecordError> {
        self.out.resume(point)
    }

    /// The peer is gone: nothing is kept for it. If it is lost, what is not gone yet is not said to be.
    pub fn clear(&mut self, is_lost: bool) {
        self.out.clear(is_lost);
    }

    /// The buffers of this message may not be used any more.
    pub fn release(&mut self, token: u64) {
        self.out.release(token);
    }

    /// Tells which messages are gone.
    pub fn tell_gone(&mut self, sink: &mut dyn Sink) {
        for token in self.out.gone.drain(..) {
            sink.sent(token);
        }
    }
}
