//! Writing to sockets: as much as there is room for, and what follows if there is none.

use super::peer::{Failure, FailureKind, TcpPeer, Way};
use super::{PEER, Pieces, Tcp};
use crate::Unreachable;
use oxmpi_sys::net::{Refusal, Socket};
use std::time::Duration;

/// How long to wait when the kernel has no memory to send.
const STARVED: Duration = Duration::from_millis(10);

impl Tcp {
    /// Whether a message of `len` bytes may go to a peer now; if not, sees that it will some time.
    pub(super) fn may_send(&mut self, to: u32, len: usize) -> Result<bool, Unreachable> {
        match &mut self.peer(to).way {
            Way::Apart => {
                self.connect(to);
                Ok(false)
            }
            Way::Lost(why) => Err(Unreachable { peer: to, why: why.clone() }),
            Way::Connecting { .. } | Way::Greeting { .. } | Way::Pause { .. } => Ok(false),
            Way::Left => Ok(true),
            Way::Up(_) | Way::Sealed(_) => {
                let peer = self.peer(to);
                if peer.link.has_room(len) {
                    return Ok(!peer.is_blocked);
                }
                if peer.link.is_written() {
                    // Too much is kept: the peer may not know that somebody waits for its word.
                    peer.link.ask();
                    self.write(to);
                }
                Ok(false)
            }
        }
    }

    /// As [`Tcp::may_send`], for a message that is copied: it may go before the greeting is over as well.
    pub(super) fn may_send_copy(&mut self, to: u32, len: usize) -> Result<bool, Unreachable> {
        Ok(self.may_send(to, len)? || self.peer(to).takes_early(len))
    }

    /// Writes the newest message to a peer: to the connection, or early to one that is greeted.
    pub(super) fn write_newest(&mut self, to: u32) {
        let Tcp { peers, record, .. } = self;
        let Some(Some(peer)) = peers.get_mut(to as usize) else { return };
        let TcpPeer { way: Way::Greeting { socket, greeting, .. }, link, .. } = &mut **peer else {
            return self.write(to);
        };
        let Some(pieces) = link.pending() else { return };
        let all = pieces.len();
        greeting.early(pieces.as_slice(), record);
        match socket.send_bytes(record) {
            Ok(sent) if sent == record.len() => link.wrote(all),
            // A part of it would have to be followed by the rest, whatever comes of the greeting.
            Ok(_) => {
                let why = "the kernel takes a short message in part".into();
                self.cut(to, &Failure { why, kind: FailureKind::Silent });
            }
            // No room: the message is written when the connection is used. An end is found by the next poll.
            Err(_) => {}
        }
    }

    /// Writes what is to be written to a peer, as far as there is room. A connection that cannot be written is read to
    /// its end, so that what came before is not lost.
    pub(super) fn write(&mut self, at: u32) {
        let (own, start) = (self.own.rank, self.start);
        let mut starved_until = None;
        let Some(Some(peer)) = self.peers.get_mut(at as usize) else { return };
        let Way::Up(socket) = &peer.way else { return self.write_sealed(at) };
        while !peer.is_blocked
            && let Some(pieces) = peer.link.pending()
        {
            let all = pieces.len();
            match socket.send(pieces.as_slice()) {
                Ok(sent) => {
                    peer.link.wrote(sent);
                    peer.is_blocked = sent < all;
                }
                Err(error) => {
                    peer.is_blocked = true;
                    match Socket::refusal(&error) {
                        Refusal::Full => {}
                        // The next look reads the end of it; without an event for writing, which would come at once.
                        Refusal::Ended => peer.is_broken = true,
                        // Nor is an event awaited here.
                        Refusal::NoMemory => starved_until = Some(start.elapsed() + STARVED),
                        Refusal::BadAddress => {
                            let text = bad_address(own, at, &pieces);
                            (self.tell)(&text);
                            // As if the program had read there itself.
                            std::process::abort();
                        }
                        Refusal::Other => return self.cut(at, &error.into()),
                    }
                }
            }
        }
        if peer.is_blocked || peer.wants_room || peer.starved_until.is_some() {
            self.await_room(at, starved_until);
        }
    }

    /// As [`Tcp::write`], to an encrypted connection, if there is one.
    fn write_sealed(&mut self, at: u32) {
        let start = self.start;
        let mut starved_until = None;
        let Tcp { peers, plain, .. } = self;
        let Some(Some(peer)) = peers.get_mut(at as usize) else { return };
        let TcpPeer { way: Way::Sealed(sealed), link, is_blocked, is_broken, .. } = &mut **peer else {
            return;
        };
        while !*is_blocked {
            if sealed.is_sent() {
                let Some(pieces) = link.pending() else { break };
                if let Err(error) = sealed.seal(&pieces, plain) {
                    return self.cut(at, &error.into());
                }
            }
            match sealed.send() {
                // Not before: what the kernel has not got whole the engine must know of (rule 2).
                Ok(written) => {
                    link.wrote(written);
                    *is_blocked = !sealed.is_sent();
                }
                Err(error) => {
                    *is_blocked = true;
                    match Socket::refusal(&error) {
                        Refusal::Full => {}
                        Refusal::Ended => *is_broken = true,
                        Refusal::NoMemory => starved_until = Some(start.elapsed() + STARVED),
                        Refusal::BadAddress | Refusal::Other => return self.cut(at, &error.into()),
                    }
                }
            }
        }
        self.await_room(at, starved_until);
    }

    /// Has the poller tell of room if the kernel takes no more of what is for a peer; if it has no memory, asks again then.
    fn await_room(&mut self, at: u32, starved_until: Option<Duration>) {
        let Some(Some(peer)) = self.peers.get_mut(at as usize) else { return };
        peer.starved_until = starved_until;
        let wants = peer.is_blocked && !peer.is_broken && starved_until.is_none();
        if wants != peer.wants_room {
            peer.wants_room = wants;
            if self.watched.out() == Some(at) {
                self.watch_all();
            } else if let Some(socket) = peer.way.connection() {
                // It fails only if the descriptor is not there, and it is.
                let _ = self.poller.change(socket, PEER | u64::from(at), wants);
            }
        }
        if let Some(time) = starved_until {
            self.wake_at(time);
        }
    }
}

/// What is told when bytes that are to be sent cannot be read.
fn bad_address(own: u32, at: u32, pieces: &Pieces<'_>) -> String {
    // Only this piece is the user's.
    let [_, _, data, _] = pieces.as_slice() else { return String::new() };
    format!(
        "rank {own} cannot send to rank {at}: the buffer of the message is not readable memory ({} bytes at {:p})",
        data.len(),
        data.as_ptr()
    )
}
