use super::peer::{ConnectionFailure, ConnectionState, FailureKind, TcpPeer};
use super::{PEER, Pieces, Tcp};
use crate::Unreachable;
use oxmpi_sys::net::{Refusal, Socket};
use std::time::Duration;

const STARVED: Duration = Duration::from_millis(10);

impl Tcp {
    /// Whether a message of `len` bytes may go to a peer now; if not, makes sure that it may later.
    pub(super) fn may_send(&mut self, to: u32, len: usize) -> Result<bool, Unreachable> {
        match &mut self.peer(to).state {
            ConnectionState::Apart => {
                self.connect(to);
                Ok(false)
            }
            ConnectionState::Lost(why) => Err(Unreachable { peer: to, why: why.clone() }),
            ConnectionState::Connecting { .. }
            | ConnectionState::Greeting { .. }
            | ConnectionState::Pause { .. } => Ok(false),
            ConnectionState::Left => Ok(true),
            ConnectionState::Up(_) | ConnectionState::Sealed(_) => {
                let peer = self.peer(to);
                if peer.link.has_room(len) {
                    return Ok(!peer.is_blocked);
                }
                if peer.link.is_written() {
                    // The peer may not know that an acknowledgement is needed.
                    peer.link.ask();
                    self.write(to);
                }
                Ok(false)
            }
        }
    }

    /// A copied message may also go before the greeting is complete.
    pub(super) fn may_send_copy(&mut self, to: u32, len: usize) -> Result<bool, Unreachable> {
        Ok(self.may_send(to, len)? || self.peer(to).takes_early(len))
    }

    /// Writes the newest message to a peer: to the connection, or early during a greeting.
    pub(super) fn write_newest(&mut self, to: u32) {
        let Tcp { peers, record, .. } = self;
        let Some(Some(peer)) = peers.get_mut(to as usize) else { return };
        let TcpPeer { state: ConnectionState::Greeting { socket, greeting, .. }, link, .. } =
            &mut **peer
        else {
            return self.write(to);
        };
        let Some(pieces) = link.pending() else { return };
        let all = pieces.len();
        greeting.early(pieces.as_slice(), record);
        match socket.send_bytes(record) {
            Ok(sent) if sent == record.len() => link.wrote(all),
            // Whatever the result of the greeting, the rest would have to follow.
            Ok(_) => {
                let why = "the kernel takes a short message in part".into();
                self.connection_failed(to, &ConnectionFailure { why, kind: FailureKind::Silent });
            }
            // The message is written when the connection is used. The next poll finds an end.
            Err(_) => {}
        }
    }

    /// If writing fails, the connection is still read to its end, so that no data are lost.
    pub(super) fn write(&mut self, at: u32) {
        let (own, start) = (self.own.rank, self.start);
        let mut starved_until = None;
        let Some(Some(peer)) = self.peers.get_mut(at as usize) else { return };
        let ConnectionState::Up(socket) = &peer.state else { return self.write_sealed(at) };
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
                        // The next poll reads the end; an event for writing would come at once.
                        Refusal::Ended => peer.is_broken = true,
                        // The poller has no event for this.
                        Refusal::NoMemory => starved_until = Some(start.elapsed() + STARVED),
                        Refusal::BadAddress => {
                            let text = bad_address(own, at, &pieces);
                            (self.tell)(&text);
                            // The kernel's SIGSEGV does the same if the program reads there itself.
                            std::process::abort();
                        }
                        Refusal::Other => return self.connection_failed(at, &error.into()),
                    }
                }
            }
        }
        if peer.is_blocked || peer.wants_room || peer.starved_until.is_some() {
            self.await_room(at, starved_until);
        }
    }

    fn write_sealed(&mut self, at: u32) {
        let start = self.start;
        let mut starved_until = None;
        let Tcp { peers, plain, .. } = self;
        let Some(Some(peer)) = peers.get_mut(at as usize) else { return };
        let TcpPeer { state: ConnectionState::Sealed(sealed), link, is_blocked, is_broken, .. } =
            &mut **peer
        else {
            return;
        };
        while !*is_blocked {
            if sealed.is_sent() {
                let Some(pieces) = link.pending() else { break };
                if let Err(error) = sealed.seal(&pieces, plain) {
                    return self.connection_failed(at, &error.into());
                }
            }
            match sealed.send() {
                // Only now: the engine must know of incomplete messages (rule 2).
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
                        Refusal::BadAddress | Refusal::Other => {
                            return self.connection_failed(at, &error.into());
                        }
                    }
                }
            }
        }
        self.await_room(at, starved_until);
    }

    /// `starved_until`: the kernel has no memory; tries again at that time.
    fn await_room(&mut self, at: u32, starved_until: Option<Duration>) {
        let Some(Some(peer)) = self.peers.get_mut(at as usize) else { return };
        peer.starved_until = starved_until;
        let wants = peer.is_blocked && !peer.is_broken && starved_until.is_none();
        if wants != peer.wants_room {
            peer.wants_room = wants;
            if self.recent.out() == Some(at) {
                self.watch_all();
            } else if let Some(socket) = peer.state.connection() {
                // This fails only for a descriptor that was not added.
                let _ = self.poller.change(socket, PEER | u64::from(at), wants);
            }
        }
        if let Some(time) = starved_until {
            self.wake_at(time);
        }
    }
}

fn bad_address(own: u32, at: u32, pieces: &Pieces<'_>) -> String {
    // Only this piece is the user's memory.
    let [_, _, data, _] = pieces.as_slice() else { return String::new() };
    format!(
        "rank {own} cannot send to rank {at}: the buffer of the message is not readable memory ({} bytes at {:p})",
        data.len(),
        data.as_ptr()
    )
}
