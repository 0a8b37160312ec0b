//! Who has connected and has not said what for.
//!
//! Anybody can connect over the network, and say nothing. All are let in as they come, so that who has business here does not wait
//! behind them, and when there are too many the oldest loses its place ([`crate::strangers`]). The door on the own host is apart:
//! only processes of the user come in there, as the kernel says who they are.

use std::io;
use std::time::{Duration, Instant};

use oxmpi_sys::local;

use super::super::channel::Channel;
use super::{DOOR, Daemon, LISTENERS, Link, Role};
use crate::strangers::{self, AT_ONCE};

/// Strangers at most, over the network and on the own host.
const MAX_STRANGERS: usize = 64;
/// How long nobody is let in at a door when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

impl Daemon {
    /// Somebody on this host has connected.
    pub(super) fn welcome_near(&mut self) {
        for _ in 0..AT_ONCE {
            let Some(door) = &self.door else { return };
            match local::accept(door) {
                Ok(Some(socket)) => {
                    let own = rustix::process::geteuid().as_raw();
                    if local::peer(&socket).is_ok_and(|peer| peer.user == own) {
                        self.make_room(true, MAX_STRANGERS);
                        self.add(Link::Near(socket), Channel::trusted(), Role::Stranger);
                    }
                }
                Ok(None) => return,
                Err(_) if self.make_room(false, 1) => {}
                Err(_) => return self.shut(DOOR),
            }
        }
    }

    /// Somebody has connected over the network.
    pub(super) fn welcome_far(&mut self, listener: usize) {
        for _ in 0..AT_ONCE {
            match self.listeners[listener].accept() {
                Ok(Some((socket, _))) => {
                    self.make_room(false, MAX_STRANGERS);
                    let channel = Channel::acceptor(&self.seed.secret, self.seed.node);
                    self.add(Link::Far(socket), channel, Role::Stranger);
                }
                Ok(None) => return,
                Err(_) if self.make_room(false, 1) => {}
                Err(_) => return self.shut(LISTENERS + listener as u64),
            }
        }
    }

    /// If there are `most` strangers of a kind one loses its place. Whether one has.
    fn make_room(&mut self, is_near: bool, most: usize) -> bool {
        let of_kind = self.connections.iter().filter(|(_, connection)| {
            matches!(connection.role, Role::Stranger) && matches!(connection.link, Link::Near(_)) == is_near
        });
        let all = of_kind.map(|(number, connection)| (*number, connection.channel.has_greeted()));
        let Some(number) = strangers::loser(all, most) else { return false };
        self.lose(number, "others have come since");
        true
    }

    /// Lets nobody in at a door for a while: no descriptors are left, or no memory.
    fn shut(&mut self, name: u64) {
        match (&self.door, self.listeners.get(name.wrapping_sub(LISTENERS) as usize)) {
            (Some(door), _) if name == DOOR => self.poller.remove(door),
            (_, Some(listener)) => self.poller.remove(listener),
            _ => return,
        }
        self.shut.insert(name, Instant::now() + PAUSE);
    }

    /// Lets others in again where it is time.
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
