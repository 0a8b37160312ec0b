//! The fast path of short messages over sockets, without a request.
//!
//! A message in contiguous memory is written before it is retained (rule 1), if no older data wait
//! to be written. A blocking receive reads from the socket of its source. Bytes after its message
//! are *ahead*: received from the kernel, and not processed. The next poll, or the next receive
//! from the same peer, processes them. If the connection ends before that, they count as not
//! received, and the peer sends them again.
//!
//! An encrypted connection has no fast path: `sealed.rs` seals and opens its records.
//!
//! A thread that sleeps on the descriptors would not notice bytes ahead, so a process with several
//! threads does not receive by the fast path.

use super::Tcp;
use super::peer::ConnectionState;
use super::reading::DIRECT;
use super::record::{ALIGNMENT, MAX_LEAD, RECORD_HEADER};
use crate::Taken;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::{Context, Envelope, Frame, HEADER_LEN, MAX_FRAME_LEN, Tags};
use std::io::ErrorKind;

/// The longest message that the fast path writes, in bytes.
const SHORT: usize = 2 << 10;
/// The most bytes of kernel memory that such a message takes until it has arrived.
const KERNEL_MEMORY: usize = 4 << 10;
/// The most bytes before the body of an eager message with the receiver's context index.
const LONGEST_HEAD: usize = RECORD_HEADER + MAX_LEAD + HEADER_LEN;
/// The longest record that is read at once, in bytes. Longer bodies are read directly.
const AT_ONCE: usize = (LONGEST_HEAD + DIRECT).next_multiple_of(ALIGNMENT);

/// Bytes received from one peer and not processed.
#[derive(Debug)]
pub(super) struct Ahead {
    of: u32,
    bytes: Box<[u8]>,
    from: usize,
    to: usize,
}

impl Ahead {
    pub(super) fn new() -> Ahead {
        Ahead { of: 0, bytes: vec![0; AT_ONCE].into_boxed_slice(), from: 0, to: 0 }
    }

    pub(super) fn of(&self) -> Option<u32> {
        (self.from < self.to).then_some(self.of)
    }

    pub(super) fn take(&mut self, of: u32) -> &[u8] {
        if self.of != of {
            return &[];
        }
        let from = std::mem::replace(&mut self.from, self.to);
        &self.bytes[from..self.to]
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.from..self.to]
    }
}

impl Tcp {
    /// With fewer retained records than this number, the kernel's buffers surely have room for a
    /// short record, so that it is not written in part. Only then it is written before it is
    /// retained.
    pub(super) fn records_with_room(buffers: Option<usize>) -> usize {
        buffers.map_or(1, |bytes| bytes / KERNEL_MEMORY)
    }

    /// Writes an eager message at once. `false`: that is not possible, and nothing happened.
    pub(super) fn send_fast(
        &mut self,
        to: u32,
        (context, tag, sequence): (u32, i32, u8),
        body: Bytes<'_>,
    ) -> bool {
        let Some(Some(peer)) = self.peers.get_mut(to as usize) else { return false };
        let ConnectionState::Up(socket) = &peer.state else { return false };
        if body.len() > SHORT.min(self.settings.eager_limit) || peer.is_blocked {
            return false;
        }
        let header = peer.link.header_now(HEADER_LEN, body.len(), self.records_with_room);
        let Some(header) = header else { return false };
        let mut frame = [0; MAX_FRAME_LEN];
        let envelope = Envelope { context: Context::Local(context), tag };
        let frame_len =
            Frame::Eager { envelope }.encode(sequence, peer.source(self.own.rank), &mut frame);
        self.record.clear();
        self.record.extend_from_slice(&header.encode());
        self.record.extend_from_slice(&frame[..frame_len]);
        body.append_to(&mut self.record);
        self.record.resize(self.record.len() + header.padding(), 0);
        let Ok(written) = socket.send_bytes(&self.record) else { return false };
        peer.link.keep_written(&header, &frame[..frame_len], body, written);
        self.sent.add(body.len() as u64);
        if written < self.record.len() {
            // The kernel has less room than expected. The rest is written later.
            peer.is_blocked = true;
            self.write(to);
        }
        true
    }

    /// Takes the next message of a peer into the buffer of a receive, if it matches and fits.
    pub(super) fn receive_fast(
        &mut self,
        from: u32,
        context: u32,
        tags: Tags,
        mut into: BytesMut<'_>,
    ) -> Taken {
        if !self.is_alone || self.ahead.of().is_some_and(|of| of != from) {
            return Taken::Other;
        }
        let Tcp { peers, ahead, .. } = self;
        let Some(Some(peer)) = peers.get_mut(from as usize) else { return Taken::Other };
        let ConnectionState::Up(socket) = &peer.state else { return Taken::Other };
        if !peer.link.is_between() {
            return Taken::Other;
        }
        if ahead.of().is_none() {
            // In most programs the next long message has the same form as the last one.
            let head = peer.link.head().clamp(RECORD_HEADER + HEADER_LEN, LONGEST_HEAD);
            let room = if peer.sends_long { head } else { ahead.bytes.len() };
            match socket.receive(&mut ahead.bytes[..room]) {
                // The next poll finds the end again.
                Ok(0) => return Taken::Other,
                Ok(came) => (ahead.of, ahead.from, ahead.to) = (from, 0, came),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Taken::Nothing,
                Err(_) => return Taken::Other,
            }
            self.note_came(from);
        }
        let Tcp { peers, ahead, .. } = self;
        let Some(Some(peer)) = peers.get_mut(from as usize) else { return Taken::Other };
        let ConnectionState::Up(socket) = &peer.state else { return Taken::Other };
        let Some((header, got, total)) = peer.link.peek(from, ahead.rest()) else {
            return Taken::Other;
        };
        let Frame::Eager { envelope: Envelope { context: Context::Local(index), tag } } = got.frame
        else {
            return Taken::Other;
        };
        let is_wanted = index == context && tags.fit(tag) && total <= into.len();
        if !is_wanted || peer.link.take_acknowledgement(&header).is_err() {
            return Taken::Other;
        }
        let head = header.len() + HEADER_LEN;
        let body = &ahead.rest()[head..];
        let mut stored = body.len().min(total);
        Bytes::from(&body[..stored]).copy_to(into.slice(0, stored));
        ahead.from += head + stored;
        // The padding of the record comes with the end of the body.
        let (mut padding, mut padded) = ([0; ALIGNMENT], 0);
        while stored < total {
            let mut rest = into.slice(stored, total - stored);
            let zeros = &mut padding[..header.padding()];
            let result = match zeros.len() {
                0 => socket.receive_into(&mut rest),
                _ => socket.receive_two(&mut rest, zeros),
            };
            match result {
                Ok(came) if came > 0 => {
                    let now = came.min(total - stored);
                    (stored, padded) = (stored + now, came - now);
                }
                _ => break,
            }
        }
        peer.sends_long = total >= DIRECT;
        peer.failures.over();
        peer.link.take_peeked(&header, stored);
        let (has_gone, owes) = (peer.link.has_gone(), peer.link.owes());
        let is_ahead = ahead.of().is_some();
        match peer.link.take_padding(if is_ahead { ahead.rest() } else { &padding[..padded] }) {
            Ok(taken) if is_ahead => ahead.from += taken,
            Ok(_) => {}
            // The message is good; it is the last one of this connection.
            Err(error) => self.connection_failed(from, &error.into()),
        }
        if has_gone {
            self.news.push(from);
        }
        if owes {
            self.write(from);
        }
        if stored < total {
            Taken::Begun { tag, total, stored }
        } else {
            Taken::Message { tag, len: total }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::{RecordHeader, RecordKind};

    #[test]
    fn bodies_below_the_direct_limit_fit_the_buffer_with_any_lead() {
        for (lead, body) in
            [(0, DIRECT - 1), (MAX_LEAD, DIRECT - 1), (MAX_LEAD, DIRECT - ALIGNMENT)]
        {
            let length = (HEADER_LEN + body) as u32;
            let header = RecordHeader {
                kind: RecordKind::Frame,
                wanted: false,
                number: 0,
                acknowledged: 0,
                length,
                start: 0,
                lead: lead as u8,
            };
            let record = header.len() + length as usize + header.padding();
            assert!(
                record <= Ahead::new().bytes.len(),
                "{record} bytes, of which {lead} are its lead"
            );
        }
    }
}
