//! A daemon: one thread with one loop over events.
//!
//! A daemon begins as a child of `oxmpi boot` or of its agent, reads its configuration from
//! standard input, and reports its progress on standard output; when all daemons are connected it
//! goes into the background. If its input ends before, the daemon ends.

mod beginning;
mod ending;
mod streams;
mod unauthenticated;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use oxmpi_sys::net::{Listener, Socket};
use oxmpi_sys::poller::{Interest, Poller, Ready};
use oxmpi_sys::spawn::Signals;
use rustix::process::Signal;
use tracing::{debug, info, trace, warn};

use self::beginning::{prepare, read_seed, report_to_boot};
use self::ending::HaltState;
use super::channel::{ChannelError, SecureChannel};
use super::diagnostics::MessageName;
use super::links::DaemonPeer;
use super::passage::Passage;
use super::programs::Programs;
use oxmpi_rt_proto::daemon::{DaemonMessage, NodeView, Purpose, Seed, View};

/// Separates a daemon's messages on standard output from earlier output of a login shell.
pub(super) const MAGIC: &[u8] = b"\noxmpi-daemon-1\n";

/// The limit for a new connection to send its purpose.
const PATIENCE: Duration = Duration::from_secs(5);
/// The most bytes that wait for one reader.
const MAX_OUTPUT: usize = 16 << 20;

// Event names. Connections have numbers from `FIRST`; the program behind a connection has its
// number with the bit `PROGRAM`.
const DOOR: u64 = 0;
const SIGNALS: u64 = 1;
const BOOT: u64 = 2;
const LISTENERS: u64 = 3;
const FIRST: u64 = 100;
const PROGRAM: u64 = 1 << 62;

pub(super) enum PeerSocket {
    Near(OwnedFd),
    /// To a peer that must have the secret.
    Far(Socket),
}

impl AsFd for PeerSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            PeerSocket::Near(socket) => socket.as_fd(),
            PeerSocket::Far(socket) => socket.as_fd(),
        }
    }
}

pub(super) enum Role {
    /// The purpose is not known yet.
    Unidentified,
    /// This daemon is connecting to that node's daemon.
    Dialling(u32),
    /// This daemon has connected, and waits for the answer.
    Greeting(u32),
    Peer(u32),
    /// The requests of a program of the user's, with its streams.
    Control(BTreeMap<u32, PendingStream>),
    /// Becomes a stream of that connection when the answer is sent.
    Stream(u64, u32),
    /// A stream that waits for its program. Not polled.
    Parked(u64, u32),
    /// Forwards a stream of a running program.
    Passing(Passage),
}

pub(super) enum PendingStream {
    /// The socket that the program inherits.
    Near(OwnedFd),
    /// The number of the connection to be forwarded.
    Far(u64),
}

pub(super) struct DaemonConnection {
    pub(super) link: PeerSocket,
    pub(super) channel: SecureChannel,
    pub(super) role: Role,
    /// When the connection is closed, if it has made no progress.
    pub(super) limit: Option<Instant>,
    /// Whether the connection closes when all output is sent.
    is_closing: bool,
    is_full: bool,
    /// The poll interests on both sides of a passage.
    interests: [Interest; 2],
}

pub(super) struct Daemon {
    pub(super) poller: Poller,
    pub(super) seed: Seed,
    pub(super) peers: Vec<DaemonPeer>,
    pub(super) connections: BTreeMap<u64, DaemonConnection>,
    next: u64,
    /// The listener under the name of the user's daemon; `None` at the end.
    door: Option<OwnedFd>,
    listeners: Vec<Listener>,
    /// Listeners that are not polled until then, as no descriptors were left.
    shut: BTreeMap<u64, Instant>,
    /// The channel of `oxmpi boot`, until the daemon is in the background.
    boot: Option<SecureChannel>,
    /// Once the daemon is in the background.
    background: Option<(Signals, Programs)>,
    ending: Option<HaltState>,
    is_connected: bool,
    /// The limits on open files before they were raised.
    open_files: Option<(u64, u64)>,
}

/// Runs a daemon; returns the exit status.
pub fn serve() -> i32 {
    let mut boot = SecureChannel::trusted();
    let seed = match read_seed(&mut boot) {
        Ok(seed) => seed,
        Err(text) => {
            oxmpi_sys::complain!("oxmpi daemon: {text}");
            return 1;
        }
    };
    let mut daemon = match prepare(seed, &mut boot) {
        Ok(Some(daemon)) => daemon,
        Ok(None) => return 1,
        Err(text) => return complain(text),
    };
    daemon.boot = Some(boot);
    info!(node = daemon.seed.node, nodes = daemon.peers.len(), "the daemon has started");
    match daemon.run() {
        Ok(code) => code,
        Err(text) if daemon.boot.is_some() => complain(text),
        Err(_) => 1,
    }
}

fn complain(reason: String) -> i32 {
    let _ = report_to_boot(&DaemonMessage::Trouble { reason });
    1
}

impl Daemon {
    fn run(&mut self) -> Result<i32, String> {
        let mut ready = Vec::new();
        loop {
            let now = Instant::now();
            self.handle_due(now)?;
            if self.is_over(now) {
                info!("the daemon ends");
                self.finish();
                return Ok(0);
            }
            let time = self.time().map(|time| time.saturating_duration_since(Instant::now()));
            self.poller.wait(time);
            self.poller.look(&mut ready);
            for &Ready { name, readable, writable } in &ready {
                match name {
                    DOOR => self.welcome_near(),
                    SIGNALS => self.read_signals(),
                    BOOT => {
                        if !self.read_boot()? {
                            return Ok(1);
                        }
                    }
                    name if name & PROGRAM != 0 => self.pass(name & !PROGRAM),
                    name if name >= FIRST => self.attend(name, readable, writable),
                    name => self.welcome_far((name - LISTENERS) as usize),
                }
            }
            if self.boot.is_some() {
                self.report_when_connected()
                    .map_err(|error| format!("cannot answer 'oxmpi boot': {error}"))?;
            }
        }
    }

    fn time(&self) -> Option<Instant> {
        let limits = self.connections.values().filter_map(|connection| connection.limit);
        let programs = self.background.as_ref().and_then(|(_, programs)| programs.time());
        let ending = self.ending.as_ref().map(|ending| ending.limit);
        limits
            .chain(programs)
            .chain(ending)
            .chain(self.shut.values().copied())
            .chain(self.dial_time())
            .min()
    }

    fn handle_due(&mut self, now: Instant) -> Result<(), String> {
        let late =
            self.connections.iter().filter(|(_, c)| c.limit.is_some_and(|limit| limit <= now));
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        late.into_iter().for_each(|number| self.lose(number, "it does not answer in time"));
        if let Some((_, programs)) = &mut self.background {
            programs.kill_late(now);
        }
        self.open_doors(now).map_err(|error| format!("cannot listen again: {error}"))?;
        if self.ending.is_none() {
            self.dial_due(now);
        }
        if self.boot.is_some()
            && let Some((number, trouble)) = self.broken_peer()
        {
            let name = &self.peers[number as usize].node.name;
            return Err(format!("no connection with n{number} ({name}): {trouble}"));
        }
        Ok(())
    }

    fn read_signals(&mut self) {
        let Some((signals, programs)) = &mut self.background else { return };
        let mut is_to_end = false;
        while let Ok(Some(signal)) = signals.next() {
            debug!(signal, "got a signal");
            is_to_end |= signal != Signal::CHILD.as_raw();
        }
        let ended = programs.reap();
        for (connection, id, how) in ended {
            info!(connection, id, ?how, "a program has ended");
            self.send(connection, &DaemonMessage::Ended { id, how });
        }
        if is_to_end {
            self.end();
        }
    }

    pub(super) fn add(
        &mut self,
        link: PeerSocket,
        channel: SecureChannel,
        role: Role,
    ) -> Option<u64> {
        let number = self.next;
        let (is_full, interests) = (matches!(role, Role::Dialling(_)), <[Interest; 2]>::default());
        self.poller.add(&link, number, is_full).ok()?;
        self.next += 1;
        let limit = Some(Instant::now() + PATIENCE);
        let connection =
            DaemonConnection { link, channel, role, limit, is_closing: false, is_full, interests };
        debug!(number, is_near = matches!(connection.link, PeerSocket::Near(_)), "a connection");
        self.connections.insert(number, connection);
        Some(number)
    }

    fn attend(&mut self, number: u64, readable: bool, writable: bool) {
        if self
            .connections
            .get(&number)
            .is_some_and(|connection| matches!(connection.role, Role::Passing(_)))
        {
            return self.pass(number);
        }
        if writable && !self.dialled(number) {
            return;
        }
        if readable {
            self.read(number);
        }
        self.flush(number);
    }

    fn read(&mut self, number: u64) {
        let mut bytes = [0; 1 << 14];
        // Limited, so that other events are served; the poller reports the rest again.
        for _ in 0..16 {
            let Some(connection) = self.connections.get_mut(&number) else { return };
            match rustix::net::recv(&connection.link, &mut bytes, rustix::net::RecvFlags::DONTWAIT)
            {
                Ok((0, _)) => return self.lose(number, "it has ended"),
                Ok((n, _)) => connection.channel.feed(&bytes[..n]),
                Err(rustix::io::Errno::AGAIN) => return,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return self.lose(number, &io::Error::from(error).to_string()),
            }
            while let Some(connection) = self.connections.get_mut(&number) {
                if matches!(connection.role, Role::Parked(..)) {
                    return;
                }
                match connection.channel.next_message() {
                    Ok(Some(message)) => self.handle_message(number, message),
                    Ok(None) => break,
                    Err(error) => return self.refuse(number, &error),
                }
            }
        }
    }

    fn refuse(&mut self, number: u64, error: &ChannelError) {
        let text = error.to_string();
        warn!(number, error = text, "a connection is refused");
        if self.connections.get(&number).is_some_and(|connection| connection.channel.is_open()) {
            self.answer_last(number, format!("it has received a malformed message: {text}"));
        } else {
            self.lose(number, &text);
        }
    }

    /// Refuses, and closes the connection after the answer.
    fn answer_last(&mut self, number: u64, reason: String) {
        info!(number, reason, "a request is refused");
        self.send(number, &DaemonMessage::Refused { reason });
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.is_closing = true;
        }
        self.flush(number);
    }

    pub(super) fn send(&mut self, number: u64, message: &DaemonMessage) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        trace!(number, kind = %MessageName(message), "sends a message");
        let sent = connection.channel.send(message);
        if sent.is_err() || connection.channel.output().len() > MAX_OUTPUT {
            return self.lose(number, "it does not read its messages");
        }
        self.flush(number);
    }

    pub(super) fn flush(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if matches!(connection.role, Role::Dialling(_) | Role::Parked(..) | Role::Passing(_)) {
            return;
        }
        let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
        while !connection.channel.output().is_empty() {
            match rustix::net::send(&connection.link, connection.channel.output(), flags) {
                Ok(n) => connection.channel.sent(n),
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return self.lose(number, &io::Error::from(error).to_string()),
            }
        }
        let is_full = !connection.channel.output().is_empty();
        if is_full != connection.is_full {
            connection.is_full = is_full;
            let _ = self.poller.change(&connection.link, number, is_full);
        }
        if is_full {
            return;
        }
        if connection.is_closing {
            return self.lose(number, "it was refused");
        }
        if let Role::Stream(of, stream) = connection.role {
            self.become_stream(number, of, stream);
        }
    }

    fn handle_message(&mut self, number: u64, message: DaemonMessage) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if connection.is_closing {
            return;
        }
        trace!(number, kind = %MessageName(&message), "got a message");
        let is_near = matches!(connection.link, PeerSocket::Near(_));
        let role = match &connection.role {
            Role::Unidentified => 0,
            Role::Control(_) => 1,
            Role::Greeting(_) => 2,
            Role::Peer(_) => 3,
            Role::Dialling(_) | Role::Stream(..) | Role::Parked(..) | Role::Passing(_) => 4,
        };
        match (role, message) {
            (0, DaemonMessage::Purpose(purpose)) => self.introduce(number, purpose),
            (1, DaemonMessage::Ask) if is_near => {
                let view = DaemonMessage::View(self.view());
                self.send(number, &view);
            }
            (1, DaemonMessage::Ask) => {
                let reason = "a daemon answers this only to processes on its own host".to_string();
                self.send(number, &DaemonMessage::Refused { reason });
            }
            (1, DaemonMessage::Exec(exec)) => self.exec(number, &exec),
            (1, DaemonMessage::Halt) => self.halt_all(number),
            (2, message) => self.answered(number, message),
            (3, DaemonMessage::Halt) => self.halt_from(number),
            (_, other) => {
                let what = format!("{other:?}");
                let what = &what[..what.floor_char_boundary(60)];
                self.answer_last(number, format!("'{what}' is unexpected here"));
            }
        }
    }

    fn introduce(&mut self, number: u64, purpose: Purpose) {
        debug!(number, purpose = %MessageName(&purpose), "a connection has a purpose");
        if self.background.is_none() && !matches!(purpose, Purpose::Peer { .. }) {
            return self.answer_last(number, "the universe is being booted".into());
        }
        if self.ending.is_some() {
            return self.answer_last(number, "the universe is being halted".into());
        }
        let role = match purpose {
            Purpose::Control => Role::Control(BTreeMap::new()),
            Purpose::Stream { connection, stream } => match self.connections.get(&connection) {
                Some(DaemonConnection { role: Role::Control(streams), .. })
                    if !streams.contains_key(&stream) =>
                {
                    Role::Stream(connection, stream)
                }
                _ => {
                    return self.answer_last(
                        number,
                        format!("stream {stream} of connection {connection} does not exist, or is in use"),
                    );
                }
            },
            Purpose::Peer { node } => return self.welcome_peer(number, node),
            Purpose::Stranded { node, .. } => {
                let reason = format!("a daemon takes no agent over (that of host {node})");
                return self.answer_last(number, reason);
            }
            Purpose::Caller { host } => {
                let reason = format!("a daemon takes no agent over (that of host '{host}')");
                return self.answer_last(number, reason);
            }
        };
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.limit = match role {
                Role::Stream(..) => connection.limit,
                _ => None,
            };
            connection.role = role;
        }
        self.send(number, &DaemonMessage::Accepted { connection: number });
    }

    fn view(&self) -> View {
        let seen =
            |peer: &DaemonPeer| NodeView { node: peer.node.clone(), trouble: peer.trouble() };
        View {
            own: self.seed.node,
            secret: self.seed.secret.clone(),
            nodes: self.peers.iter().map(seen).collect(),
        }
    }

    pub(super) fn lose(&mut self, number: u64, why: &str) {
        let Some(connection) = self.connections.remove(&number) else { return };
        debug!(number, why, "a connection has ended");
        self.poller.remove(&connection.link);
        match connection.role {
            Role::Control(streams) => {
                self.drop_streams(number, streams);
                if let Some((_, programs)) = &mut self.background {
                    programs.end(Some(number));
                }
                if let Some(ending) = &mut self.ending {
                    ending.clients.retain(|client| *client != number);
                }
            }
            Role::Dialling(node) | Role::Greeting(node) => self.not_reached(node, why),
            Role::Peer(node) => {
                self.unlink(node, number, why);
                if let Some(ending) = &mut self.ending
                    && ending.waiting.remove(&node)
                {
                    ending.missing.insert(node);
                }
            }
            Role::Parked(of, stream) => {
                if let Some(DaemonConnection { role: Role::Control(streams), .. }) =
                    self.connections.get_mut(&of)
                {
                    streams.remove(&stream);
                }
            }
            Role::Passing(passage) => self.poller.remove(passage.program()),
            Role::Unidentified | Role::Stream(..) => {}
        }
    }
}
