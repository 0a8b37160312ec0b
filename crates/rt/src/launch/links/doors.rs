//! Letting others in, as many and as long as there is room, and closing connections that nobody needs.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use oxmpi_sys::local;
use rustix::event::epoll;
use rustix::net::Shutdown;

use super::super::launcher::{DOORS, Launcher};
use super::{Links, trusted};
use crate::strangers::{self, AT_ONCE};

/// Connections at most whose other end has not yet said who it is.
const MAX_STRANGERS: usize = 64;
/// How long one that was accepted may take to say who it is.
const GUEST: Duration = Duration::from_secs(5);
/// How long one to which we have connected may: others may be before us.
const HOST: Duration = Duration::from_secs(15);
/// How long nobody is let in when no descriptors are left.
const PAUSE: Duration = Duration::from_millis(100);

/// How long the other end of a connection may take to say who it is.
pub(super) fn patience(we_called: bool) -> Duration {
    if we_called { HOST } else { GUEST }
}

impl Links {
    /// When [`Launcher::look_after_links`] is to be called next.
    pub(in super::super) fn time(&self) -> Option<Instant> {
        let strangers = self.connections.values().filter(|connection| connection.universe.is_none());
        strangers.map(|connection| connection.limit).chain(self.shut).min()
    }
}

impl Launcher<'_> {
    /// Others have connected. All are let in; if there are too many who have not said who they are, the oldest loses its place.
    pub(in super::super) fn welcome_others(&mut self) {
        for at in 0..=self.links.names.len() {
            for _ in 0..AT_ONCE {
                let names = self.links.names.values();
                let Some((_, door)) = self.links.door.iter().chain(names).nth(at) else { break };
                match local::accept(door) {
                    Ok(Some(socket)) => {
                        let Ok(peer) = trusted(&socket) else { continue };
                        self.make_room(MAX_STRANGERS);
                        // If it fails the socket is closed, and the other sees that.
                        let _ = self.connect(socket, peer, (None, None));
                    }
                    Ok(None) => break,
                    // No descriptors are left, or no memory.
                    Err(_) if self.make_room(1) => {}
                    Err(_) => return self.shut_doors(),
                }
            }
        }
    }

    /// If there are `most` strangers that have connected to us one loses its place. Whether one has.
    fn make_room(&mut self, most: usize) -> bool {
        let strangers = self.links.connections.iter();
        let strangers = strangers.filter(|(_, other)| other.universe.is_none() && other.wanted.is_none());
        // Nobody greets here without saying who it is.
        let Some(number) = strangers::loser(strangers.map(|(number, _)| (*number, false)), most) else {
            return false;
        };
        self.lose(number, "others have come since");
        true
    }

    /// Lets nobody in for a while.
    fn shut_doors(&mut self) {
        let doors = self.links.door.iter().chain(self.links.names.values());
        // It fails for one that is not in the set, which is as good.
        doors.for_each(|(_, door)| _ = epoll::delete(&self.events, door));
        self.links.shut = Some(Instant::now() + PAUSE);
    }

    /// Gives up who does not say who it is, and lets others in again.
    pub(in super::super) fn look_after_links(&mut self, now: Instant) {
        if self.links.time().is_none_or(|time| time > now) {
            return;
        }
        if self.links.shut.is_some_and(|shut| shut <= now) {
            self.links.shut = None;
            for (_, door) in self.links.door.iter().chain(self.links.names.values()) {
                // It fails for one that has come meanwhile and is in the set.
                let _ = self.listen(&self.events, door.as_fd(), DOORS, 0);
            }
        }
        let late = self.links.connections.iter();
        let late = late.filter(|(_, connection)| connection.universe.is_none() && connection.limit <= now);
        let late: Vec<u32> = late.map(|(number, _)| *number).collect();
        late.into_iter().for_each(|number| self.lose(number, "it does not say who it is"));
    }

    /// Closes a connection that was made to look up a name if there is another one with the same launcher, of which neither side
    /// thinks the same: one that was not made for a name by the other, or that was kept here. What the other has
    /// written is read before it is gone.
    pub(super) fn close_if_needless(&mut self, number: u32, universe: u64) {
        let lasts = |(other, connection): (&u32, &super::Connection)| {
            *other != number
                && connection.universe == Some(universe)
                && connection.lasts
                && !connection.is_closing
        };
        if !self.links.connections.iter().any(lasts) {
            return;
        }
        let Some(connection) = self.links.connections.get_mut(&number) else { return };
        let is_used = self.links.others.get(&universe).is_some_and(|other| other.connection == Some(number));
        if !is_used && connection.queue.is_empty() {
            connection.is_closing = rustix::net::shutdown(&connection.socket, Shutdown::Write).is_ok();
        }
    }
}
