//! Connections without a purpose yet.
//!
//! Any process can connect over the network and stay silent. All connections are accepted, so that
//! a legitimate peer does not wait behind such ones, and if there are too many the oldest is closed
//! ([`crate::unauthenticated`]). The listener on the own host is separate: the kernel admits only
//! processes of the user there.

use std::io;
use std::time::{Duration, Instant};

use oxmpi_sys::local;

use super::super::channel::SecureChannel;
use super::{DOOR, Daemon, LISTENERS, PeerSocket, Role};
use crate::unauthenticated::{self, AT_ONCE};

/// The most connections without a purpose, over the network and on the own host each.
const MAX_UNAUTHENTICATED: usize = 64;
/// How long a listener is not polled after descriptors ran out.
const PAUSE: Duration = Duration::from_millis(100);

impl Daemon {
    pub(super) fn welcome_near(&mut self) {
        for _ in 0..AT_ONCE {
            let Some(door) = &self.door else { return };
            match local::accept(door) {
                Ok(Some(socket)) => {
                    let own = rustix::process::geteuid().as_raw();
                    if local::peer(&socket).is_ok_and(|peer| peer.user == own) {
                        self.make_room(true, MAX_UNAUTHENTICATED);
                        self.add(
                            PeerSocket::Near(socket),
                            SecureChannel::trusted(),
                            Role::Unidentified,
                        );
                    }
                }
                Ok(None) => return,
                Err(_) if self.make_room(false, 1) => {}
                Err(_) => return self.shut(DOOR),
            }
        }
    }

    pub(super) fn welcome_far(&mut self, listener: usize) {
        for _ in 0..AT_ONCE {
            match self.listeners[listener].accept() {
                Ok(Some((socket, _))) => {
                    self.make_room(false, MAX_UNAUTHENTICATED);
                    let channel = SecureChannel::acceptor(&self.seed.secret, self.seed.node);
                    self.add(PeerSocket::Far(socket), channel, Role::Unidentified);
                }
                Ok(None) => return,
                Err(_) if self.make_room(false, 1) => {}
                Err(_) => return self.shut(LISTENERS + listener as u64),
            }
        }
    }

    /// If there are `most` connections without a purpose, closes one; returns whether it did.
    fn make_room(&mut self, is_near: bool, most: usize) -> bool {
        let of_kind = self.connections.iter().filter(|(_, connection)| {
            matches!(connection.role, Role::Unidentified)
                && matches!(connection.link, PeerSocket::Near(_)) == is_near
        });
        let all = of_kind.map(|(number, connection)| (*number, connection.channel.has_greeted()));
        let Some(number) = unauthenticated::loser(all, most) else { return false };
        self.lose(number, "newer connections needed its slot");
        true
    }

    fn shut(&mut self, name: u64) {
        match (&self.door, self.listeners.get(name.wrapping_sub(LISTENERS) as usize)) {
            (Some(door), _) if name == DOOR => self.poller.remove(door),
            (_, Some(listener)) => self.poller.remove(listener),
            _ => return,
        }
        self.shut.insert(name, Instant::now() + PAUSE);
    }

    pub(super) fn open_doors(&mut self, now: Instant) -> io::Result<()> {
        for (name, _) in self.shut.extract_if(.., |_, until| *until <= now) {
            match (&self.door, self.listeners.get(name.wrapping_sub(LISTENERS) as usize)) {
                (Some(door), _) if name == DOOR => self.poller.add(door, name, false)?,
                (_, Some(listener)) => self.poller.add(listener, name, false)?,
                _ => {}
            }
        }
        Ok(())
    }
}
