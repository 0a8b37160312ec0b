//! Reaching processes of this launcher from processes of other launchers that share no memory with
//! them.
//!
//! Two processes of different launchers communicate through memory if both launchers have all
//! processes on this machine and no sockets; otherwise through sockets, wherever the two are. A
//! launcher's greeting states this. A process without sockets, or with listeners that the others
//! cannot reach, gets a further listener when it first communicates with them: it requests one
//! ([`oxmpi_rt_client::control::Request::Abroad`]). As peers can need it before it knows of them, a
//! word in its segment makes it send that request.

use std::os::fd::AsFd;

use oxmpi_shm::segment::Segment;
use oxmpi_sys::net::Listener;
use oxmpi_sys::poller::{new_alarm, raise_alarm};

use super::answers::INCARNATION;
use super::launcher::Launcher;
use super::plugs::{Plug, listeners};
use super::{Launch, LaunchError};
use oxmpi_rt_client::client::NOWHERE;
use oxmpi_rt_client::control::Reply;

/// The means by which a process is reachable, in increasing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    Memory,
    Loopback,
    Networks,
}

#[derive(Debug)]
pub(crate) struct Abroad {
    reach: Reach,
    /// The socket, until the rank requests it.
    pub(crate) listener: Option<Listener>,
    address: String,
}

impl Plug {
    pub(crate) fn address_abroad(&self) -> &str {
        self.abroad.as_ref().map_or(&self.address, |abroad| &abroad.address)
    }

    /// Replaces the listeners that the process closes by new ones; `own` is for processes of its
    /// launcher. After an error the old ones are dropped too.
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
        let of = (&launch.params, &launch.hostmap);
        let buffers = Some(launch.params.socket_buffers());
        let made = listeners(of, 1, buffers, is_one_host, is_one_host)?.pop();
        Ok(made.map(|(listener, address)| Abroad { reach, listener: Some(listener), address }))
    }
}

/// Makes a running rank of this host, which its own launcher's processes reach on `own`, reachable
/// on `need` too. With `notifies` a word in its segment makes the rank request the listener.
pub(crate) fn reach_abroad(
    (segment, plug): (&Segment, &mut Option<Plug>),
    launch: &Launch,
    (own, need): (Reach, Reach),
    notifies: bool,
) -> Result<(), String> {
    if widen(plug, launch, (own, need)).map_err(|error| error.to_string())? && notifies {
        segment.status().note_sought();
        segment.ring_after_death(|| plug.iter().for_each(|plug| raise_alarm(&plug.alarm)));
    }
    Ok(())
}

/// The answer to a rank's request for its next listener for other launchers, and the listener.
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

/// Creates a listener if `need` requires one; returns whether one was created.
fn widen(
    plug: &mut Option<Plug>,
    launch: &Launch,
    (own, need): (Reach, Reach),
) -> Result<bool, LaunchError> {
    // Ranks whose messages go through daemons have no listener.
    let listens = plug.as_ref().is_some_and(|plug| !plug.address.is_empty());
    let own = if listens { own } else { Reach::Memory };
    let has = plug
        .as_ref()
        .and_then(|plug| plug.abroad.as_ref())
        .map_or(own, |abroad| abroad.reach.max(own));
    if has >= need {
        return Ok(false);
    }
    let made = Abroad::new(launch, need)?;
    let plug = match plug {
        Some(plug) => plug,
        None => {
            let alarm =
                new_alarm().map_err(|e| LaunchError::Kernel("make an alarm (eventfd)", e))?;
            plug.insert(Plug { alarm, listener: None, address: String::new(), abroad: None })
        }
    };
    plug.abroad = made;
    Ok(plug.abroad.is_some())
}

impl Launcher<'_> {
    pub(super) fn is_near(&self) -> bool {
        !self.boot.sockets && !self.is_spread()
    }

    pub(super) fn is_spread(&self) -> bool {
        let hosts = self.launch.spread.iter().flat_map(|spread| &spread.hosts);
        hosts.into_iter().any(|host| !host.agent.is_unneeded())
    }

    fn own_reach(&self) -> Reach {
        match (self.boot.sockets, &self.launch.spread) {
            (false, _) => Reach::Memory,
            (true, None) => Reach::Loopback,
            (true, Some(_)) => Reach::Networks,
        }
    }

    /// Makes a process of this host reachable on `need`, and notifies it if `notifies`.
    fn reach_member_abroad(
        &mut self,
        wanted: u32,
        need: Reach,
        notifies: bool,
    ) -> Result<(), String> {
        let own = self.own_reach();
        self.host.widen(wanted, (own, need), notifies)
    }

    /// Makes a process of this host reachable for a process of another launcher.
    pub(super) fn reach_for(&mut self, asker: u32, wanted: u32) -> Result<(), String> {
        match self.links.reach_of(asker) {
            Some(need) => self.reach_member_abroad(wanted, need, true),
            None => Ok(()),
        }
    }

    /// Gives a process of this host its next listener for other launchers, as soon as their
    /// greetings state what they need.
    pub(super) fn give_abroad(&mut self, rank: u32) {
        let Some(need) = self.links.reach_of_all() else {
            return self.links.wait_for_greetings(rank);
        };
        if let Err(reason) = self.reach_member_abroad(rank, need, false) {
            return self.answer(rank, &Reply::Refused { rank, reason }, None);
        }
        let (reply, listener) = self.host.ranks.give_abroad(rank, &self.secret);
        self.answer(rank, &reply, listener.as_ref().map(AsFd::as_fd));
    }

    /// The node of a process as process `asker` sees it: a process of another launcher with shared
    /// memory is on the asker's node.
    pub(super) fn node_for(&self, asker: u32, number: u32) -> u32 {
        match self.members.get(number) {
            Some(member) => member.node,
            None if self.links.reach_of(number) == Some(Reach::Memory) => {
                self.members.node(asker).unwrap_or(NOWHERE)
            }
            None => NOWHERE,
        }
    }
}
