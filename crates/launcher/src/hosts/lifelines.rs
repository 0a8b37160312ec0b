//! The listener for the lifelines of children: of the agents with a stream to this process.
//!
//! An agent that ssh has started has only ssh's stream to its parent, which does not notice for
//! hours that answers are missing. In the stream of an agent that has called, output can wait for a
//! stopped parent as long as for a lost one. So both make one more, idle connection to the parent,
//! whose kernel answers keepalive probes (module `lifeline`). Both sides authenticate with a secret
//! that came by the stream. Without such a connection jobs run without this check. An agent that a
//! daemon has started needs none: it ends with the daemon's connection.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use oxmpi_sys::net::{self, Listener, Socket};
use oxmpi_wire::Secret;
use rustix::event::epoll;

use super::child::Child;
use super::encrypted::EncryptedSocket;
use super::lifeline::HEAD;
use crate::launch::Launch;
use crate::launch::parts::{draw_secret, listen_for_agents};
use oxmpi_daemon::channel::SecureChannel;
use oxmpi_daemon::stream::Stream;
use oxmpi_daemon::unauthenticated::{self, AT_ONCE};
use oxmpi_rt_proto::agent::{LifelineOffer, OfferedLifelines, Receivers, ToAgent};
use oxmpi_rt_proto::daemon::{DaemonMessage, Purpose};

/// The most unauthenticated connections, beside one for each agent.
pub(crate) const MAX_UNAUTHENTICATED: usize = 8;
/// The listener's number among the events; connections have numbers from 1 on.
const LISTENER: u32 = 0;

#[derive(Debug, Default)]
pub(crate) struct Lifelines {
    listener: Option<Listener>,
    secret: Option<Secret>,
    agents: usize,
    silence: Duration,
    all: BTreeMap<u32, Guest>,
    next: u32,
    /// Whether agents whose parent is lost may come until the end.
    adopts: bool,
    arrived: Vec<StrandedArrival>,
}

/// An agent whose parent is lost.
#[derive(Debug)]
pub(crate) struct StrandedArrival {
    /// The number of the last message of the head that it has.
    pub(crate) number: u64,
    /// The hosts of its branch, its own first.
    pub(crate) nodes: Vec<u32>,
    pub(crate) stream: Stream,
    since: Instant,
}

#[derive(Debug)]
struct Guest {
    link: EncryptedSocket,
    /// The node of the agent, once it is authenticated.
    node: Option<u32>,
}

impl Lifelines {
    /// Listens for children, and offers the lifelines that they need. `adopter` is the way to this
    /// process's own parent. Returns the way to this process too.
    pub(crate) fn offer_to(
        launch: &Launch,
        children: Vec<&mut Child>,
        adopter: Option<&LifelineOffer>,
    ) -> (Lifelines, Option<LifelineOffer>) {
        let adopts = launch.params.mpi_ft_enable() && !children.is_empty();
        let agents = match adopts {
            // All agents of a branch may come at once.
            true => children.iter().map(|child| child.hosts.len()).sum(),
            false => children.iter().filter(|child| child.needs_lifeline()).count(),
        };
        let (lifelines, offer) = Lifelines::listen(launch, agents, adopts);
        for child in children {
            let is_needed = child.needs_lifeline();
            if let Some(parent) = offer.clone().filter(|_| is_needed || adopts) {
                let adopter = adopter.filter(|_| adopts).cloned();
                let offered = OfferedLifelines { parent, is_needed, adopter };
                child.post(&ToAgent::Lifeline(offered), Receivers::Child, None);
            }
        }
        (lifelines, offer)
    }

    /// Listens for `agents` agents, if they may reach a network of this host; returns the offer.
    fn listen(launch: &Launch, agents: usize, adopts: bool) -> (Lifelines, Option<LifelineOffer>) {
        let none = (Lifelines::default(), None);
        if agents == 0 && !adopts {
            return none;
        }
        let found = listen_for_agents(&launch.params, &launch.hostmap);
        let (Ok((listener, addresses)), Ok(secret)) = (found, draw_secret()) else { return none };
        let lifelines = Lifelines {
            listener: Some(listener),
            secret: Some(Secret(secret)),
            agents,
            silence: Duration::from_secs(launch.params.mpi_agent_silence_s()),
            all: BTreeMap::new(),
            next: LISTENER + 1,
            adopts,
            arrived: Vec::new(),
        };
        (lifelines, Some(LifelineOffer { addresses, secret }))
    }

    /// Handles a connection's data; `None`: it has ended or is not an agent's.
    fn read(&mut self, number: u32, events: &OwnedFd) -> Option<()> {
        let silence = self.silence;
        let guest = self.all.get_mut(&number)?;
        loop {
            match guest.link.next().ok()? {
                Some(DaemonMessage::Purpose(Purpose::Peer { node })) if guest.node.is_none() => {
                    guest.node = Some(node);
                    // A kernel without this option keeps the lifeline until the job ends.
                    let _ = net::end_when_unanswered(&guest.link.socket, silence);
                }
                Some(DaemonMessage::Purpose(Purpose::Stranded { number: last, nodes, .. }))
                    if self.adopts && guest.node.is_none() =>
                {
                    return self.note_arrival((number, events), last, nodes);
                }
                Some(_) => return None,
                None => return Some(()),
            }
        }
    }

    /// The connection becomes the stream of an agent.
    fn note_arrival(
        &mut self,
        (guest, events): (u32, &OwnedFd),
        number: u64,
        nodes: Vec<u32>,
    ) -> Option<()> {
        let Guest { link, .. } = self.all.remove(&guest)?;
        // The stream keeps the socket open, and the kernel would go on to report events.
        epoll::delete(events, &link.socket).ok()?;
        let stream = link.into_stream(Some(self.silence)).ok()?;
        self.arrived.push(StrandedArrival { number, nodes, stream, since: Instant::now() });
        Some(())
    }

    /// The agents that have come since the last call.
    pub(crate) fn take_arrived(&mut self) -> Vec<StrandedArrival> {
        std::mem::take(&mut self.arrived)
    }

    /// An agent may come before the loss of its parent is noticed here.
    pub(crate) fn keep_for_later(&mut self, arrival: StrandedArrival) {
        if arrival.since.elapsed() < 2 * self.silence {
            self.arrived.push(arrival);
        }
    }

    /// Adds a connection, and returns its number with the connection that it displaces.
    fn add(&mut self, socket: Socket) -> Option<(u32, Option<Guest>)> {
        let channel = SecureChannel::acceptor(self.secret.as_ref()?, HEAD);
        let old = self
            .loser(self.agents + MAX_UNAUTHENTICATED)
            .and_then(|number| self.all.remove(&number));
        let number = self.next;
        self.next = self.next.checked_add(1)?;
        self.all.insert(number, Guest { link: EncryptedSocket { socket, channel }, node: None });
        Some((number, old))
    }

    fn loser(&self, most: usize) -> Option<u32> {
        let candidates = self.all.iter().filter(|(_, guest)| guest.node.is_none());
        unauthenticated::loser(
            candidates.map(|(number, guest)| (*number, guest.link.channel.has_greeted())),
            most,
        )
    }

    fn is_complete(&self) -> bool {
        self.all.values().filter(|guest| guest.node.is_some()).count() >= self.agents
    }

    /// Begins to listen for events, whose data are `name` and a number.
    pub(crate) fn watch(&self, events: &OwnedFd, name: u64) -> rustix::io::Result<()> {
        match &self.listener {
            Some(listener) => {
                let data = epoll::EventData::new_u64(name | u64::from(LISTENER));
                epoll::add(events, listener.as_fd(), data, epoll::EventFlags::IN)
            }
            None => Ok(()),
        }
    }

    /// Handles an event with this number.
    pub(crate) fn ready(&mut self, number: u32, events: &OwnedFd, name: u64) {
        if number == LISTENER {
            return self.welcome(events, name);
        }
        if self.read(number, events).is_none() {
            self.all.remove(&number);
        }
        if self.is_complete() && !self.adopts {
            self.listener = None;
            self.all.retain(|_, guest| guest.node.is_some());
        }
    }

    fn welcome(&mut self, events: &OwnedFd, name: u64) {
        for _ in 0..AT_ONCE {
            let Some(listener) = &self.listener else { return };
            match listener.accept() {
                Ok(Some((socket, _))) => {
                    let Some((number, old)) = self.add(socket) else { return };
                    drop(old);
                    let new = self.all.get(&number);
                    let data = epoll::EventData::new_u64(name | u64::from(number));
                    let added = new.map(|guest| {
                        epoll::add(events, &guest.link.socket, data, epoll::EventFlags::IN)
                    });
                    if !matches!(added, Some(Ok(()))) {
                        self.all.remove(&number);
                    }
                }
                Ok(None) => return,
                // Without descriptors, unauthenticated connections are closed first, then the
                // listener.
                Err(_) => match self.loser(1) {
                    Some(number) => _ = self.all.remove(&number),
                    None => self.listener = None,
                },
            }
        }
    }
}
