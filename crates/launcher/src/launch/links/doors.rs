//! Accepting connections of other launchers while there is room, and closing needless ones.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use oxmpi_sys::local;
use rustix::event::epoll;
use rustix::net::Shutdown;

use super::super::launcher::{LAUNCHER_LISTENERS, Launcher};
use super::{Links, trusted};
use oxmpi_daemon::unauthenticated::{self, AT_ONCE};

/// The most connections without a greeting.
const MAX_UNAUTHENTICATED: usize = 64;
/// The limit for the greeting of a connection that we have accepted.
const GUEST: Duration = Duration::from_secs(5);
/// The limit for the greeting after we have connected: the other side may serve earlier connections
/// first.
const HOST: Duration = Duration::from_secs(15);
/// How long no connection is accepted after descriptors ran out.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) fn patience(we_called: bool) -> Duration {
    if we_called { HOST } else { GUEST }
}

impl Links {
    pub(in super::super) fn time(&self) -> Option<Instant> {
        let silent = self.connections.values().filter(|connection| connection.universe.is_none());
        silent.map(|connection| connection.limit).chain(self.shut).min()
    }
}

impl Launcher<'_> {
    /// Accepts connections; if too many have not greeted, the oldest is closed.
    pub(in super::super) fn welcome_others(&mut self) {
        for at in 0..=self.links.names.len() {
            for _ in 0..AT_ONCE {
                let names = self.links.names.values();
                let Some((_, door)) = self.links.door.iter().chain(names).nth(at) else { break };
                match local::accept(door) {
                    Ok(Some(socket)) => {
                        let Ok(peer) = trusted(&socket) else { continue };
                        self.make_room(MAX_UNAUTHENTICATED);
                        // On an error the socket is closed, which the other side sees.
                        let _ = self.connect(socket, peer, (None, None));
                    }
                    Ok(None) => break,
                    // No descriptors or no memory are left.
                    Err(_) if self.make_room(1) => {}
                    Err(_) => return self.shut_doors(),
                }
            }
        }
    }

    /// If there are `most` accepted connections without a greeting, closes one; returns whether it
    /// did.
    fn make_room(&mut self, most: usize) -> bool {
        let silent = self.links.connections.iter();
        let silent = silent.filter(|(_, other)| other.universe.is_none() && other.wanted.is_none());
        // A greeting here identifies the peer, so none of these has greeted.
        let Some(number) = unauthenticated::loser(silent.map(|(number, _)| (*number, false)), most)
        else {
            return false;
        };
        self.lose(number, "newer connections needed its slot");
        true
    }

    fn shut_doors(&mut self) {
        let doors = self.links.door.iter().chain(self.links.names.values());
        doors.for_each(|(_, door)| _ = epoll::delete(&self.host.events, door));
        self.links.shut = Some(Instant::now() + PAUSE);
    }

    /// Closes connections whose greeting is late, and accepts connections again.
    pub(in super::super) fn service_links(&mut self, now: Instant) {
        if self.links.time().is_none_or(|time| time > now) {
            return;
        }
        if self.links.shut.is_some_and(|shut| shut <= now) {
            self.links.shut = None;
            for (_, door) in self.links.door.iter().chain(self.links.names.values()) {
                let _ = self.host.listen(door.as_fd(), LAUNCHER_LISTENERS, 0);
            }
        }
        let late = self.links.connections.iter();
        let late =
            late.filter(|(_, connection)| connection.universe.is_none() && connection.limit <= now);
        let late: Vec<u32> = late.map(|(number, _)| *number).collect();
        late.into_iter().for_each(|number| self.lose(number, "it does not greet"));
    }

    /// Closes a connection that was made to look up a name, if there is another one with the same
    /// launcher that both sides keep: one that the other side did not make for a lookup, or that
    /// was kept here. The peer's queued messages are read before it ends.
    pub(super) fn close_if_needless(&mut self, number: u32, universe: u64) {
        let lasts = |(other, connection): (&u32, &super::LauncherConnection)| {
            *other != number
                && connection.universe == Some(universe)
                && connection.lasts
                && !connection.is_closing
        };
        if !self.links.connections.iter().any(lasts) {
            return;
        }
        let Some(connection) = self.links.connections.get_mut(&number) else { return };
        let is_used =
            self.links.others.get(&universe).is_some_and(|other| other.connection == Some(number));
        if !is_used && connection.queue.is_empty() {
            connection.is_closing =
                rustix::net::shutdown(&connection.socket, Shutdown::Write).is_ok();
        }
    }
}
