//! The daemons of a job whose messages go through daemons (rpi lamd): a relay on each node, which all jobs of this launcher use.
//!
//! A relay is a child of the launcher (`oxmpi relay`), tied to it as ranks are. It has one socket to the launcher, over which it is
//! told what it must know ([`Order`]); what it needs is its node, the sockets of the processes there, and where other relays are.
//! Its end is that of all jobs, with one report.

use std::collections::{BTreeMap, HashSet};
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use oxmpi_os::bytes::Bytes;
use oxmpi_os::net::Listener;
use oxmpi_os::parcel;
use oxmpi_os::spawn::{Process, Program, spawn};
use oxmpi_param::Transport;
use oxmpi_wire::relay::{MAX_ORDER, Notice, Order};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Signal, WaitId, WaitIdOptions, getrlimit, pidfd_send_signal, waitid};

use super::launcher::Launcher;
use super::{LaunchError, start};
use crate::control::Reply;
use crate::job::{Event, Exit};

/// What an event of the launcher's poll set is about.
pub(super) const RELAY: u64 = 20;
pub(super) const RELAY_ENDED: u64 = 21;

/// The word after `oxmpi` that makes a process a relay.
pub const RELAY_WORD: &str = "relay";
/// The number that its socket to the launcher has in a relay.
pub const RELAY_CONTROL: i32 = 63;

/// How long to wait for room for an order.
const ROOM: Duration = Duration::from_secs(1);

/// The relay of one node.
struct Relay {
    process: Process,
    control: OwnedFd,
    runs: bool,
    /// Why it cannot go on, as it has said.
    last_words: Option<String>,
}

/// All relays.
#[derive(Default)]
pub(super) struct Relays {
    of: BTreeMap<u32, Relay>,
    /// The processes that have got their sockets.
    supplied: HashSet<u32>,
}

impl Relay {
    /// Starts the relay of a node. It gets `begin`, and what it listens on if there are others.
    fn start(
        launcher: &Launcher<'_>,
        begin: &Order,
        listener: Option<&Listener>,
    ) -> Result<Relay, LaunchError> {
        let kernel = |what| move |error| LaunchError::Kernel(what, error);
        let (control, theirs) = parcel::pair().map_err(kernel("make a socket pair"))?;
        let path = std::env::current_exe().map_err(kernel("find the program of the daemons"))?;
        let null =
            start::kernel("open /dev/null", rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()))?;
        let run = |error| LaunchError::Run { program: path.clone(), error };
        let text = |bytes: &[u8]| CString::new(bytes).map_err(|error| run(error.into()));
        let env = std::env::vars_os().map(|(mut variable, value)| {
            variable.push("=");
            variable.push(value);
            text(&variable.into_vec())
        });
        let fds = [(null.as_fd(), 0), (null.as_fd(), 1), (theirs.as_fd(), RELAY_CONTROL)];
        let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let process = spawn(&Program {
            path: &text(path.as_os_str().as_bytes())?,
            args: &[text(b"oxmpi")?, text(RELAY_WORD.as_bytes())?],
            env: &env.collect::<Result<Vec<_>, _>>()?,
            directory: None,
            fds: &fds,
            mask: launcher.signals.before(),
            // Files that wait are open.
            open_files: Some((most, most)),
            cpus: None,
            is_tied: true,
        })
        .map_err(run)?;
        // The guard can only be missing if somebody killed it; then the job runs unguarded.
        let _ = launcher.guard.watch(process.pid);
        let relay = Relay { process, control, runs: true, last_words: None };
        parcel::send(&relay.control, &[Bytes::from(&begin.encode()[..])], listener.map(AsFd::as_fd))
            .map_err(kernel("tell a daemon who it is"))?;
        Ok(relay)
    }

    /// Tells it something. It always listens, so that there is room soon; one that does not is as good as dead.
    fn tell(&self, order: &Order, socket: Option<&OwnedFd>) -> std::io::Result<()> {
        let order = order.encode();
        let send = || parcel::send(&self.control, &[Bytes::from(&order[..])], socket.map(AsFd::as_fd));
        match send() {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && self.runs => {
                parcel::wait_for_room(&self.control, ROOM);
                send()
            }
            told => told,
        }
    }
}

impl Relays {
    fn tell_all(&self, order: &Order) {
        for relay in self.of.values() {
            // Its end is reported.
            let _ = relay.tell(order, None);
        }
    }

    /// Ends all.
    pub(super) fn end(&mut self, forget: impl Fn(i32)) {
        for (_, relay) in std::mem::take(&mut self.of) {
            let _ = pidfd_send_signal(&relay.process.pidfd, Signal::KILL);
            forget(relay.process.pid);
            let _ = waitid(WaitId::PidFd(relay.process.pidfd.as_fd()), WaitIdOptions::EXITED);
        }
    }
}

impl Launcher<'_> {
    /// Starts a relay on each node, if the messages of the job go through them.
    pub(super) fn start_relays(&mut self) -> Result<(), LaunchError> {
        if self.launch.transport != Transport::Lamd {
            return Ok(());
        }
        let nodes = self.members.values().map(|member| member.node + 1).max().unwrap_or(1);
        let (job, secret) = (self.universe, self.secret);
        let plugs = if nodes > 1 {
            start::listeners(self.launch, nodes as usize, None, true, true)?
        } else {
            Vec::new()
        };
        let mut plugs = plugs.into_iter();
        let mut addresses = Vec::new();
        for node in 0..nodes {
            let (listener, address) = plugs.next().unzip();
            addresses.extend(address.map(|address| (node, address)));
            let begin = Order::Begin { job, node, nodes, secret };
            let relay = Relay::start(self, &begin, listener.as_ref())?;
            if self.launch.verbose {
                self.print(&format!("mpirun: daemon of node {node}: pid {}\n", relay.process.pid));
            }
            let listened =
                self.listen(&self.events, relay.control.as_fd(), RELAY, node.into()).and_then(|()| {
                    self.listen(&self.events, relay.process.pidfd.as_fd(), RELAY_ENDED, node.into())
                });
            self.relays.of.insert(node, relay);
            start::kernel("watch a daemon", listened)?;
        }
        for (node, addresses) in addresses {
            self.relays.tell_all(&Order::Relay { node, addresses });
        }
        let last = self.members.last_key_value().map_or(0, |(number, _)| number + 1);
        self.tell_places(0, last);
        Ok(())
    }

    /// Tells the relays where processes are: so many from a number on, which are members.
    pub(super) fn tell_places(&self, first: u32, count: u32) {
        let node = |number| self.members.get(&number).map_or(0, |member| member.node);
        let all: Vec<u32> = (first..first.saturating_add(count)).collect();
        for run in all.chunk_by(|a, b| node(*a) == node(*b)) {
            let (first, count) = (run[0], run.len() as u32);
            self.relays.tell_all(&Order::Places { first, count, node: node(first) });
        }
    }

    /// Gives a process its socket to the relay of its node.
    pub(super) fn give_relay(&mut self, rank: u32) {
        let socket = self.connect_to_relay(rank);
        let reply = match &socket {
            Ok(_) => Reply::Relay,
            Err(reason) => Reply::Refused { rank, reason: reason.clone() },
        };
        self.answer(rank, &reply, socket.as_ref().ok().map(AsFd::as_fd));
    }

    fn connect_to_relay(&mut self, rank: u32) -> Result<OwnedFd, String> {
        let node = self.members.get(&rank).map_or(0, |member| member.node);
        let relay = self.relays.of.get(&node).ok_or("the job was started without daemons (rpi lamd)")?;
        if !self.relays.supplied.insert(rank) {
            return Err("it has got its socket to the daemon".into());
        }
        let (theirs, own) = parcel::pair().map_err(|error| error.to_string())?;
        let told = relay.tell(&Order::Process { number: rank }, Some(&theirs));
        told.map_err(|error| format!("the daemon of node {node} does not listen: {error}"))?;
        Ok(own)
    }

    /// A process has ended: its relay passes on what it has sent, before others hear of the end.
    pub(super) fn tell_relay_of_end(&self, rank: u32) {
        let node = self.members.get(&rank).map_or(0, |member| member.node);
        if let Some(relay) = self.relays.of.get(&node) {
            // Its own end is reported.
            let _ = relay.tell(&Order::Ended { number: rank }, None);
        }
    }

    /// Takes what a relay says.
    pub(super) fn hear_relay(&mut self, node: u32) {
        while let Some(relay) = self.relays.of.get_mut(&node) {
            let mut bytes = [0; MAX_ORDER];
            let Ok((n @ 1.., _)) = parcel::receive(&relay.control, &mut bytes) else {
                // At its end, which is heard of.
                if !relay.runs {
                    let _ = rustix::event::epoll::delete(&self.events, &relay.control);
                }
                return;
            };
            match Notice::decode(&bytes[..n]) {
                Ok(Notice::Lost { text }) => relay.last_words = Some(text),
                Ok(Notice::Wrong { number, text }) => {
                    let text = format!("its messages make no sense to the daemon of node {node}: {text}");
                    let seen = self.glimpse(number);
                    self.tell(Event::Abort { rank: number, code: 1, text, seen });
                }
                Err(error) => relay.last_words = Some(error.to_string()),
            }
        }
    }

    /// A relay has ended.
    pub(super) fn relay_ended(&mut self, node: u32) -> rustix::io::Result<()> {
        self.hear_relay(node);
        let Some(relay) = self.relays.of.get_mut(&node) else { return Ok(()) };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let Some(status) = waitid(WaitId::PidFd(relay.process.pidfd.as_fd()), options)? else {
            return Ok(());
        };
        let exit = match status.exit_status() {
            Some(code) => Exit::Code(code),
            None => Exit::Signal(status.terminating_signal().unwrap_or(0)),
        };
        relay.runs = false;
        let (pid, why) = (relay.process.pid, relay.last_words.take());
        rustix::event::epoll::delete(&self.events, &relay.process.pidfd)?;
        let _ = rustix::event::epoll::delete(&self.events, &relay.control);
        self.tell(Event::DaemonEnded { node, pid, exit, why });
        Ok(())
    }
}
