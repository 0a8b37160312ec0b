//! How processes of other launchers reach those of this one that share no memory with them.
//!
//! Two processes of different launchers use memory if both launchers have all theirs on this machine, and none has sockets;
//! else sockets, wherever the two are. A launcher says in its greeting which it is. Who has no sockets, or listens where the
//! others are not, gets what it needs when it first has to do with them: it asks ([`crate::control::Request::Abroad`]), and may
//! have to be told by a word in its segment that it should, as it can be sought before it knows by whom.

use std::os::fd::AsFd;

use oxmpi_shm::segment::Segment;
use oxmpi_sys::net::Listener;
use oxmpi_sys::poller::{new_alarm, raise_alarm};

use super::answers::INCARNATION;
use super::launcher::Launcher;
use super::plugs::{Plug, listeners};
use super::{Launch, LaunchError};
use crate::client::NOWHERE;
use crate::control::Reply;

/// On what a process can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// Memory.
    Memory,
    /// Sockets of its host's own network.
    Loopback,
    /// Sockets of all networks of its host.
    Networks,
}

/// Where processes of other launchers connect.
#[derive(Debug)]
pub(crate) struct Abroad {
    reach: Reach,
    /// The socket, until the rank asks for it.
    pub(crate) listener: Option<Listener>,
    address: String,
}

impl Plug {
    /// Where a process of another launcher finds the rank.
    pub(crate) fn address_abroad(&self) -> &str {
        self.abroad.as_ref().map_or(&self.address, |abroad| &abroad.address)
    }

    /// New listeners at new addresses, in place of those that its process gives up: `own` is where processes of its launcher
    /// connect.
    ///
    /// # Errors
    /// The kernel gives no more. The old ones are forgotten then, too.
    pub(crate) fn renew(&mut self, own: Plug, launch: &Launch) -> Result<(), LaunchError> {
        (self.listener, self.address) = (own.listener, own.address);
        if let Some(old) = self.abroad.take() {
            self.abroad = Abroad::new(launch, old.reach)?;
        }
        Ok(())
    }
}

impl Abroad {
    fn new(launch: &Launch, reach: Reach) -> Result<Option<Abroad>, LaunchError> {
        let is_one_host = reach == Reach::Loopback;
        let made =
            listeners(launch, 1, Some(launch.params.socket_buffers()), is_one_host, is_one_host)?.pop();
        Ok(made.map(|(listener, address)| Abroad { reach, listener: Some(listener), address }))
    }
}

/// Sees that a running rank of this host, which has a `plug` or none and is reached on `own` by the processes of its launcher,
/// can be reached on `need` as well. One that does not know that is told by its segment (`is_told`).
///
/// # Errors
/// Why not: there is no such network, or the kernel gives no sockets.
pub(crate) fn reach_abroad(
    (segment, plug): (&Segment, &mut Option<Plug>),
    launch: &Launch,
    (own, need): (Reach, Reach),
    is_told: bool,
) -> Result<(), String> {
    if widen(plug, launch, (own, need)).map_err(|error| error.to_string())? && is_told {
        segment.status().note_sought();
        segment.ring_after_death(|| plug.iter().for_each(|plug| raise_alarm(&plug.alarm)));
    }
    Ok(())
}

/// What a rank is answered that asks for the next socket on which processes of other launchers reach it, and that socket.
pub(crate) fn give_abroad(
    rank: u32,
    plug: Option<&mut Plug>,
    secret: &[u8; 32],
) -> (Reply, Option<Listener>) {
    let listener = plug.and_then(|plug| plug.abroad.as_mut()?.listener.take());
    let reply = match &listener {
        None => Reply::Done { number: 0, text: String::new() },
        Some(_) => Reply::listener(rank, true, (INCARNATION, secret)),
    };
    (reply, listener)
}

/// Gives a rank what it needs to be reached on `need`; returns whether something was made.
fn widen(plug: &mut Option<Plug>, launch: &Launch, (own, need): (Reach, Reach)) -> Result<bool, LaunchError> {
    // Of those whose messages go through daemons nobody listens, wherever these are.
    let listens = plug.as_ref().is_some_and(|plug| !plug.address.is_empty());
    let own = if listens { own } else { Reach::Memory };
    let has = plug.as_ref().and_then(|plug| plug.abroad.as_ref()).map_or(own, |abroad| abroad.reach.max(own));
    if has >= need {
        return Ok(false);
    }
    let made = Abroad::new(launch, need)?;
    let plug = match plug {
        Some(plug) => plug,
        None => {
            let alarm = new_alarm().map_err(|e| LaunchError::Kernel("make an alarm (eventfd)", e))?;
            plug.insert(Plug { alarm, listener: None, address: String::new(), abroad: None })
        }
    };
    plug.abroad = made;
    Ok(plug.abroad.is_some())
}

impl Launcher<'_> {
    /// Whether memory is the only way of all our processes, and all are on this host.
    pub(super) fn is_near(&self) -> bool {
        !self.boot.sockets && !self.is_spread()
    }

    /// Whether processes of ours are on other hosts.
    pub(super) fn is_spread(&self) -> bool {
        let hosts = self.launch.spread.iter().flat_map(|spread| &spread.hosts);
        hosts.into_iter().any(|host| host.opening.is_some())
    }

    /// On what our processes reach each other.
    fn own_reach(&self) -> Reach {
        match (self.boot.sockets, &self.launch.spread) {
            (false, _) => Reach::Memory,
            (true, None) => Reach::Loopback,
            (true, Some(_)) => Reach::Networks,
        }
    }

    /// Sees that a process of this host can be reached on `need`. One that does not know that is told.
    fn reach_member_abroad(&mut self, wanted: u32, need: Reach, is_told: bool) -> Result<(), String> {
        let own = self.own_reach();
        let Some(member) = self.members.get_mut(&wanted).filter(|member| member.running) else {
            return Ok(());
        };
        let Some(rank) = &member.rank else { return Ok(()) };
        reach_abroad((&rank.segment, &mut member.plug), self.launch, (own, need), is_told)
    }

    /// A process of another launcher asks where one of this host is: sees that it can get there.
    pub(super) fn reach_for(&mut self, asker: u32, wanted: u32) -> Result<(), String> {
        match self.reach_of(asker) {
            Some(need) => self.reach_member_abroad(wanted, need, true),
            None => Ok(()),
        }
    }

    /// Gives a process of this host the next socket on which those of other launchers reach it; as soon as it is known what
    /// they need.
    pub(super) fn give_abroad(&mut self, rank: u32) {
        let Some(need) = self.reach_of_all() else { return self.wait_for_greetings(rank) };
        if let Err(reason) = self.reach_member_abroad(rank, need, false) {
            return self.answer(rank, &Reply::Refused { rank, reason }, None);
        }
        let plug = self.members.get_mut(&rank).and_then(|member| member.plug.as_mut());
        let (reply, listener) = give_abroad(rank, plug, &self.secret);
        self.answer(rank, &reply, listener.as_ref().map(AsFd::as_fd));
    }

    /// On which node a process is, as process `asker` sees it: those of other launchers with which it shares memory are on its
    /// own.
    pub(super) fn node_for(&self, asker: u32, number: u32) -> u32 {
        match self.members.get(&number) {
            Some(member) => member.node,
            None if self.reach_of(number) == Some(Reach::Memory) => {
                self.members.get(&asker).map_or(NOWHERE, |member| member.node)
            }
            None => NOWHERE,
        }
    }
}
