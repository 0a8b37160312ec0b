//! Accepting connections of other launchers while there is room, and closing needless ones.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use oxmpi_sys::local;
use rustix::event::epoll;
use rustix::net::Shutdown;

use super::super::launcher::{LAUNCHER_LISTENERS, Launcher};
use super::{LauncherConnection, Links, trusted};
use crate::host::HostLauncher;
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

    fn doors(&self) -> impl Iterator<Item = &OwnedFd> {
        self.door.iter().chain(self.names.values()).map(|(_, door)| door)
    }

    /// Accepts no connections for a time.
    fn shut_doors(&mut self, host: &HostLauncher<'_>) {
        self.doors().for_each(|door| _ = epoll::delete(&host.events, door));
        self.shut = Some(Instant::now() + PAUSE);
    }

    /// Accepts connections again, if that time is over.
    fn open_doors(&mut self, now: Instant, host: &HostLauncher<'_>) {
        if self.shut.take_if(|shut| *shut <= now).is_some() {
            self.doors().for_each(|door| _ = host.listen(door.as_fd(), LAUNCHER_LISTENERS, 0));
        }
    }

    /// The connections whose greeting is late.
    fn late(&self, now: Instant) -> Vec<u32> {
        let is_late = |other: &LauncherConnection| other.universe.is_none() && other.limit <= now;
        let late = self.connections.iter().filter(|(_, connection)| is_late(connection));
        late.map(|(number, _)| *number).collect()
    }

    /// The connection to close, if `most` accepted ones have not greeted.
    fn loser(&self, most: usize) -> Option<u32> {
        let silent = self.connections.iter();
        let silent = silent.filter(|(_, other)| other.universe.is_none() && other.wanted.is_none());
        // A greeting here identifies the peer, so none of these has greeted.
        unauthenticated::loser(silent.map(|(number, _)| (*number, false)), most)
    }

    /// Closes a connection that was made to look up a name, if there is another one with the same
    /// launcher that both sides keep: one that the other side did not make for a lookup, or that
    /// was kept here. The peer's queued messages are read before it ends.
    pub(super) fn close_if_needless(&mut self, number: u32, universe: u64) {
        let lasts = |(other, connection): (&u32, &LauncherConnection)| {
            *other != number
                && connection.universe == Some(universe)
                && connection.lasts
                && !connection.is_closing
        };
        if !self.connections.iter().any(lasts) {
            return;
        }
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let is_used =
            self.others.get(&universe).is_some_and(|other| other.connection == Some(number));
        if !is_used && connection.queue.is_empty() {
            connection.is_closing =
                rustix::net::shutdown(&connection.socket, Shutdown::Write).is_ok();
        }
    }
}

impl Launcher<'_> {
    /// Accepts connections; if too many have not greeted, the oldest is closed.
    pub(in super::super) fn welcome_others(&mut self) {
        for at in 0..=self.links.names.len() {
            for _ in 0..AT_ONCE {
                let Some(door) = self.links.doors().nth(at) else { break };
                match local::accept(door) {
                    Ok(Some(socket)) => {
                        let Ok(peer) = trusted(&socket) else { continue };
                        self.make_room(MAX_UNAUTHENTICATED);
                        // On an error the socket is closed, which the other side sees.
                        let _ = self.links.connect(&self.host, (socket, peer), (None, None));
                    }
                    Ok(None) => break,
                    // No descriptors or no memory are left.
                    Err(_) if self.make_room(1) => {}
                    Err(_) => return self.links.shut_doors(&self.host),
                }
            }
        }
    }

    /// If there are `most` accepted connections without a greeting, closes one; returns whether it
    /// did.
    fn make_room(&mut self, most: usize) -> bool {
        let Some(number) = self.links.loser(most) else { return false };
        self.lose(number, "newer connections needed its slot");
        true
    }

    /// Closes connections whose greeting is late, and accepts connections again.
    pub(in super::super) fn service_links(&mut self, now: Instant) {
        self.links.open_doors(now, &self.host);
        self.links.late(now).into_iter().for_each(|number| self.lose(number, "it does not greet"));
    }
}
