//! Polls and reads of sockets.
//!
//! As soon as the header of a long message is known, the kernel copies its data into the memory of
//! the receive. So if a peer sends long messages, each read takes only a little more than these
//! data: the next header.

use super::peer::{ConnectionFailure, ConnectionState, TcpPeer};
use super::{BUFFER, GREETING, LISTENER, Link, PEER, Tcp};
use crate::FrameSink;
use oxmpi_sys::net::{Refusal, Socket};
use oxmpi_sys::poller::CLOCK;
use std::io::ErrorKind;

/// The number of reads from a peer before other peers get their turn.
const READS: usize = 4;
/// A body that lacks at least this number of bytes is received into the memory of its receive.
pub(super) const DIRECT: usize = 16 << 10;
/// After a body of this length the next one is expected to be long, too.
const LONG: usize = 32 << 10;
/// The bytes that are read together with such a body, and before a body that is expected to be
/// long.
const BESIDE: usize = 4 << 10;
const _: () = assert!(BESIDE <= BUFFER);

impl Tcp {
    /// The peer that has sent last, if a poll of its socket alone is enough now.
    pub(super) fn last_alone(&self) -> Option<u32> {
        let at = self.recent.last?;
        let peer = self.peers.get(at as usize)?.as_ref()?;
        // If the socket is blocked, the poller must report room.
        (self.recent.was_polled_lately() && !peer.is_blocked && peer.state.connection().is_some())
            .then_some(at)
    }

    pub(super) fn poll_peer(&mut self, at: u32, sink: &mut dyn FrameSink) -> bool {
        if !self.read(at, sink) {
            return false;
        }
        self.note_came(at);
        self.write(at);
        if let Some(peer) = self.known(at) {
            peer.link.tell_gone(sink);
        }
        self.tell_news(sink);
        true
    }

    /// Reads all data of a dead peer, which may have connected and sent early records.
    pub(crate) fn read_to_end(&mut self, at: u32, sink: &mut dyn FrameSink) {
        self.poll_descriptors(None, sink);
        while self.poll_peer(at, sink) {}
    }

    /// Polls all descriptors, but reads no data of the peer `except`.
    pub(super) fn poll_descriptors(
        &mut self,
        except: Option<u32>,
        sink: &mut dyn FrameSink,
    ) -> bool {
        self.recent.note_poll();
        let mut ready = std::mem::take(&mut self.ready);
        self.poller.look(&mut ready);
        let out = self.recent.out().filter(|at| Some(*at) != except);
        let mut any = out.is_some_and(|at| self.poll_peer(at, sink));
        for one in &mut ready {
            if one.name & PEER == PEER
                && Some(one.name as u32) == except
                && self.is_up(one.name as u32)
            {
                one.readable = false;
            }
            let index = one.name & u64::from(u32::MAX);
            match one.name & !u64::from(u32::MAX) {
                LISTENER => self.on_listener(sink),
                GREETING => self.on_greeting(index, sink),
                PEER => self.on_peer(index as u32, *one, sink),
                _ if one.name == CLOCK => {}
                // A descriptor of another transport, which uses the same poller and polls the
                // descriptor.
                _ => continue,
            }
            any |= one.readable | one.writable;
        }
        // The clock comes last: data that have arrived in time count, even after a long time
        // without a poll.
        if ready.iter().any(|one| one.name == CLOCK) {
            self.on_clock();
        }
        self.ready = ready;
        self.tell_news(sink);
        any
    }

    /// Returns whether any data have come, or the connection has ended.
    pub(super) fn read(&mut self, at: u32, sink: &mut dyn FrameSink) -> bool {
        let Some(Some(peer)) = self.peers.get_mut(at as usize) else { return false };
        let ConnectionState::Up(socket) = &peer.state else { return self.read_sealed(at, sink) };
        let before = peer.link.progress();
        let ahead = self.ahead.take(at);
        let mut any = !ahead.is_empty();
        let mut end = peer.link.take(at, ahead, sink).err().map(ConnectionFailure::from);
        for _ in 0..READS {
            if end.is_some() {
                break;
            }
            let beside = if peer.sends_long { BESIDE } else { BUFFER };
            let read = read_once(at, socket, &mut peer.link, &mut self.buffer[..beside], sink);
            let Read { came, room, placed } = match read {
                Ok(Some(read)) => read,
                Ok(None) => break,
                Err(ReadError::Failed(why)) => {
                    (any, end) = (true, Some(why));
                    break;
                }
                Err(ReadError::BadAddress(text)) => {
                    (self.tell)(&format!("rank {} {text}", self.own.rank));
                    // The kernel's SIGSEGV does the same if the program writes there itself.
                    std::process::abort();
                }
            };
            any = true;
            let is_missing = peer.link.missing().is_some_and(|(_, left)| left >= DIRECT);
            peer.sends_long = is_missing || placed && peer.sends_long || peer.link.newest() >= LONG;
            if came < room {
                break;
            }
        }
        if peer.link.progress() != before {
            peer.failures.over();
        }
        if peer.link.has_left() || end.is_some() {
            self.read_last(at, end);
        }
        any
    }

    fn read_last(&mut self, at: u32, end: Option<ConnectionFailure>) {
        if self.known(at).is_some_and(|peer| peer.link.has_left()) {
            self.end_connection(at, ConnectionState::Left);
        } else if let Some(failure) = end {
            self.connection_failed(at, &failure);
        }
    }

    fn read_sealed(&mut self, at: u32, sink: &mut dyn FrameSink) -> bool {
        let Tcp { peers, buffer, plain, .. } = self;
        let Some(Some(peer)) = peers.get_mut(at as usize) else { return false };
        let TcpPeer { state: ConnectionState::Sealed(sealed), link, failures, .. } = &mut **peer
        else {
            return false;
        };
        let (mut any, mut end, before) = (false, None, link.progress());
        for _ in 0..READS {
            let read = sealed.receive(buffer, plain, |plain| link.take(at, plain, sink));
            match read {
                Ok(None) => break,
                Ok(Some(is_full)) => {
                    any = true;
                    if !is_full {
                        break;
                    }
                }
                Err(failure) => {
                    (any, end) = (true, Some(failure));
                    break;
                }
            }
        }
        if link.progress() != before {
            failures.over();
        }
        if link.has_left() || end.is_some() {
            self.read_last(at, end);
        }
        any
    }
}

struct Read {
    came: usize,
    room: usize,
    placed: bool,
}

enum ReadError {
    Failed(ConnectionFailure),
    /// The memory of a receive does not exist. The text continues a sentence.
    BadAddress(String),
}

fn read_once(
    at: u32,
    socket: &Socket,
    link: &mut Link,
    buffer: &mut [u8],
    sink: &mut dyn FrameSink,
) -> Result<Option<Read>, ReadError> {
    let missing = link.missing().filter(|(_, left)| *left >= DIRECT);
    let place = missing.and_then(|(offset, left)| sink.place(at, offset, left));
    let (result, direct) = match place {
        None => (socket.receive(buffer), 0),
        Some(mut place) => {
            let result = socket.receive_two(&mut place, buffer);
            if let Err(error) = &result
                && Socket::refusal(error) == Refusal::BadAddress
            {
                return Err(ReadError::BadAddress(format!(
                    "cannot receive from rank {at}: the buffer of the receive is not writable memory ({} bytes at {:p})",
                    place.len(),
                    place.as_bytes().as_ptr()
                )));
            }
            (result, place.len())
        }
    };
    let came = match result {
        Ok(0) => return Err(ReadError::Failed(ConnectionFailure::closed())),
        Ok(came) => came,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(ReadError::Failed(error.into())),
    };
    let placed = came.min(direct);
    if placed > 0 {
        link.placed(at, placed, sink);
    }
    let taken = link.take(at, &buffer[..came - placed], sink);
    taken.map_err(|error| ReadError::Failed(error.into()))?;
    Ok(Some(Read { came, room: direct + buffer.len(), placed: placed > 0 }))
}
