//! Where agents hold their lifelines.
//!
//! An agent that ssh has started knows its head by a stream that is ssh's, and which stays as it is for hours when no answer comes.
//! So it makes one connection more, to a listener of the head's, over which nothing is sent: its kernel asks the head's whether that
//! is there (`hosts/lifeline.rs`). The two know each other by a secret that came over ssh. Where no such connection can be made, jobs
//! go on without. An agent that a daemon has started needs none: it ends with the daemon's connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use oxmpi_sys::net::{self, Listener, Socket};
use oxmpi_wire::Secret;
use rustix::event::epoll;

use super::Launch;
use super::launcher::{LIFELINES, Launcher};
use super::plugs::listeners;
use super::start::draw_secret;
use crate::daemon::channel::Channel;
use crate::daemon::message::{Message, Purpose};
use crate::hosts::lifeline::HEAD;
use crate::hosts::message::LifelineOffer;
use crate::strangers::{self, AT_ONCE};

/// Those who have connected and have not proved who they are, at most, beside one for each agent.
pub(super) const MAX_STRANGERS: usize = 8;
/// The listener among the events; those who have connected have the numbers from 1 on.
const LISTENER: u32 = 0;

/// The lifelines of a launcher.
#[derive(Debug, Default)]
pub(crate) struct Lifelines {
    listener: Option<Listener>,
    secret: Option<Secret>,
    /// How many agents may come.
    agents: usize,
    silence: Duration,
    all: BTreeMap<u32, Guest>,
    next: u32,
}

/// Somebody who has connected.
#[derive(Debug)]
struct Guest {
    socket: Socket,
    channel: Channel,
    /// The node of the agent that has proved to be one.
    node: Option<u32>,
}

impl Lifelines {
    /// Listens for so many agents, if this host has a network where they might reach it. Returns what the agents need to connect.
    pub(crate) fn listen(launch: &Launch, agents: usize) -> (Lifelines, Option<LifelineOffer>) {
        let none = (Lifelines::default(), None);
        if agents == 0 {
            return none;
        }
        let found = listeners(launch, 1, None, false, false).ok().and_then(|mut all| all.pop());
        let (Some((listener, told)), Ok(secret)) = (found, draw_secret()) else { return none };
        // Each is followed by the name of its network.
        let address = |word: &str| word.split('%').next()?.parse::<SocketAddr>().ok();
        let addresses = told.split_whitespace().filter_map(address).collect();
        let lifelines = Lifelines {
            listener: Some(listener),
            secret: Some(Secret(secret)),
            agents,
            silence: Duration::from_secs(launch.params.mpi_agent_silence_s()),
            all: BTreeMap::new(),
            next: LISTENER + 1,
        };
        (lifelines, Some(LifelineOffer { addresses, secret }))
    }

    /// Takes what somebody has said; `None` if it has gone, or is nobody.
    fn hear(&mut self, number: u32) -> Option<()> {
        let silence = self.silence;
        let guest = self.all.get_mut(&number)?;
        let mut bytes = [0; 512];
        loop {
            match guest.socket.receive(&mut bytes) {
                Ok(0) => return None,
                Ok(n) => guest.channel.feed(&bytes[..n]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) => return None,
            }
            match guest.channel.next().ok()? {
                Some(Message::Purpose(Purpose::Peer { node })) if guest.node.is_none() => {
                    guest.node = Some(node);
                    // Where the kernel does not know it, it is ended with the job.
                    let _ = net::end_when_unanswered(&guest.socket, silence);
                }
                Some(_) => return None,
                None => {}
            }
            // The answer to a greeting always has room.
            let sent = guest.socket.send_bytes(guest.channel.output()).ok()?;
            guest.channel.sent(sent);
        }
        Some(())
    }

    /// Accepts a connection, and returns the one that loses its place for that.
    fn add(&mut self, socket: Socket) -> Option<(u32, Option<Guest>)> {
        let channel = Channel::acceptor(self.secret.as_ref()?, HEAD);
        let old = self.loser(self.agents + MAX_STRANGERS).and_then(|number| self.all.remove(&number));
        let number = self.next;
        self.next = self.next.checked_add(1)?;
        self.all.insert(number, Guest { socket, channel, node: None });
        Some((number, old))
    }

    fn loser(&self, most: usize) -> Option<u32> {
        let strangers = self.all.iter().filter(|(_, guest)| guest.node.is_none());
        strangers::loser(strangers.map(|(number, guest)| (*number, guest.channel.has_greeted())), most)
    }

    /// Whether nobody more is to come.
    fn is_complete(&self) -> bool {
        self.all.values().filter(|guest| guest.node.is_some()).count() >= self.agents
    }
}

impl Launcher<'_> {
    /// Begins to let agents in.
    pub(super) fn await_lifelines(&self) -> rustix::io::Result<()> {
        match &self.lifelines.listener {
            Some(listener) => self.listen(&self.events, listener.as_fd(), LIFELINES, LISTENER.into()),
            None => Ok(()),
        }
    }

    /// Somebody has connected, or has said something.
    pub(super) fn lifeline_ready(&mut self, number: u32) {
        if number == LISTENER {
            return self.welcome_lifelines();
        }
        if self.lifelines.hear(number).is_none() {
            // Closing takes it out of the epoll set, too.
            self.lifelines.all.remove(&number);
        }
        if self.lifelines.is_complete() {
            self.lifelines.listener = None;
            self.lifelines.all.retain(|_, guest| guest.node.is_some());
        }
    }

    fn welcome_lifelines(&mut self) {
        for _ in 0..AT_ONCE {
            let Some(listener) = &self.lifelines.listener else { return };
            match listener.accept() {
                Ok(Some((socket, _))) => {
                    let Some((number, old)) = self.lifelines.add(socket) else { return };
                    drop(old);
                    let new = self.lifelines.all.get(&number);
                    let name = epoll::EventData::new_u64(LIFELINES << 32 | u64::from(number));
                    let added =
                        new.map(|guest| epoll::add(&self.events, &guest.socket, name, epoll::EventFlags::IN));
                    if !matches!(added, Some(Ok(()))) {
                        self.lifelines.all.remove(&number);
                    }
                }
                Ok(None) => return,
                // No descriptors are left. Those of strangers are the first to be spared, then the listener.
                Err(_) => match self.lifelines.loser(1) {
                    Some(number) => _ = self.lifelines.all.remove(&number),
                    None => self.lifelines.listener = None,
                },
            }
        }
    }
}
