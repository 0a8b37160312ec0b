//! A daemon: one thread, one loop, which sleeps until something is to be done.
//!
//! It begins as a child of `oxmpi boot` or of the agent that this has started, hears over its standard input what it is, and
//! says over its standard output how far it is; when all daemons are connected it goes into the background. If its input
//! ends before, it ends.

mod beginning;
mod ending;
mod strangers;
mod streams;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use oxmpi_sys::net::{Listener, Socket};
use oxmpi_sys::poller::{Interest, Poller, Ready};
use oxmpi_sys::spawn::Signals;
use rustix::process::Signal;

use self::beginning::{prepare, read_seed, tell_boot};
use self::ending::Ending;
use super::channel::{Channel, ChannelError};
use super::links::Peer;
use super::message::{Message, Purpose, Seed, Seen, View};
use super::passage::Passage;
use super::programs::Programs;

/// What a daemon writes to its standard output before its messages: what a login shell has said comes before it.
pub(super) const MAGIC: &[u8] = b"\noxmpi-daemon-1\n";

/// How long somebody who has connected may take to say what for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes that wait for one reader at most.
const MAX_OUTPUT: usize = 16 << 20;

// Names in the poller; connections have numbers from `FIRST`, and the program at the other end of one has the same with a bit more.
const DOOR: u64 = 0;
const SIGNALS: u64 = 1;
const BOOT: u64 = 2;
const LISTENERS: u64 = 3;
const FIRST: u64 = 100;
const PROGRAM: u64 = 1 << 62;

/// The two kinds of sockets.
pub(super) enum Link {
    /// Of a process of this user on this host.
    Near(OwnedFd),
    /// Of who knows the secret.
    Far(Socket),
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Link::Near(socket) => socket.as_fd(),
            Link::Far(socket) => socket.as_fd(),
        }
    }
}

/// What a connection is.
pub(super) enum Role {
    /// It has not said.
    Stranger,
    /// We connect to that node's daemon.
    Dialling(u32),
    /// We have, and wait for its answer.
    Asking(u32),
    /// The link with that node's daemon.
    Peer(u32),
    /// A program of the user's, with the streams that it has made.
    Control(BTreeMap<u32, Held>),
    /// It becomes a stream of that connection when our answer is out.
    Stream(u64, u32),
    /// It is one, and waits for its program. Nobody listens to it.
    Held(u64, u32),
    /// It passes on what a program writes and is to read.
    Passing(Passage),
}

/// A stream that waits for its program.
pub(super) enum Held {
    /// It will be the program's own.
    Near(OwnedFd),
    /// The connection of this number will be passed on.
    Far(u64),
}

/// A connection.
pub(super) struct Connection {
    pub(super) link: Link,
    pub(super) channel: Channel,
    pub(super) role: Role,
    /// When it is given up.
    pub(super) limit: Option<Instant>,
    /// Whether it ends when all is sent.
    is_closing: bool,
    /// Whether the poller tells of room to write.
    is_full: bool,
    /// For what the poller waits on both sides of a passage.
    interests: [Interest; 2],
}

/// A daemon.
pub(super) struct Daemon {
    pub(super) poller: Poller,
    pub(super) seed: Seed,
    pub(super) peers: Vec<Peer>,
    pub(super) connections: BTreeMap<u64, Connection>,
    next: u64,
    /// Where this host's programs knock, under the name of the user's daemon; `None` at its end.
    door: Option<OwnedFd>,
    listeners: Vec<Listener>,
    /// Who is not let in before when, as there were no descriptors.
    shut: BTreeMap<u64, Instant>,
    /// What `oxmpi boot` says, as long as it does.
    boot: Option<Channel>,
    /// Since it has gone into the background.
    background: Option<(Signals, Programs)>,
    ending: Option<Ending>,
    /// Whether `oxmpi boot` knows that all are connected.
    is_connected: bool,
    /// The limit on open files from before it was raised.
    open_files: Option<(u64, u64)>,
}

/// Acts as a daemon. Returns the exit code.
pub fn serve() -> i32 {
    let mut boot = Channel::trusted();
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
    match daemon.run() {
        Ok(code) => code,
        Err(text) if daemon.boot.is_some() => complain(text),
        Err(_) => 1,
    }
}

/// Tells `oxmpi boot` what is wrong. Returns the exit code.
fn complain(reason: String) -> i32 {
    // If it has gone it does not want to know.
    let _ = tell_boot(&Message::Trouble { reason });
    1
}

impl Daemon {
    fn run(&mut self) -> Result<i32, String> {
        let mut ready = Vec::new();
        loop {
            let now = Instant::now();
            self.look_after(now)?;
            if self.is_over(now) {
                self.finish();
                return Ok(0);
            }
            let time = self.time().map(|time| time.saturating_duration_since(Instant::now()));
            self.poller.wait(time);
            self.poller.look(&mut ready);
            for &Ready { name, readable, writable } in &ready {
                match name {
                    DOOR => self.welcome_near(),
                    SIGNALS => self.hear_signals(),
                    BOOT => {
                        if !self.hear_boot()? {
                            return Ok(1);
                        }
                    }
                    name if name & PROGRAM != 0 => self.pass(name & !PROGRAM),
                    name if name >= FIRST => self.attend(name, readable, writable),
                    name => self.welcome_far((name - LISTENERS) as usize),
                }
            }
            if self.boot.is_some() {
                self.tell_when_connected().map_err(|error| format!("cannot answer 'oxmpi boot': {error}"))?;
            }
        }
    }

    /// When [`Daemon::look_after`] is to be called.
    fn time(&self) -> Option<Instant> {
        let limits = self.connections.values().filter_map(|connection| connection.limit);
        let programs = self.background.as_ref().and_then(|(_, programs)| programs.time());
        let ending = self.ending.as_ref().map(|ending| ending.limit);
        limits.chain(programs).chain(ending).chain(self.shut.values().copied()).chain(self.dial_time()).min()
    }

    /// Does what is due.
    fn look_after(&mut self, now: Instant) -> Result<(), String> {
        let late = self.connections.iter().filter(|(_, c)| c.limit.is_some_and(|limit| limit <= now));
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

    fn hear_signals(&mut self) {
        let Some((signals, programs)) = &mut self.background else { return };
        let mut is_to_end = false;
        while let Ok(Some(signal)) = signals.next() {
            is_to_end |= signal != Signal::CHILD.as_raw();
        }
        let ended = programs.reap();
        for (connection, id, how) in ended {
            self.tell(connection, &Message::Ended { id, how });
        }
        if is_to_end {
            self.end();
        }
    }

    /// Adds a connection and returns its number.
    pub(super) fn add(&mut self, link: Link, channel: Channel, role: Role) -> Option<u64> {
        let number = self.next;
        let (is_full, interests) = (matches!(role, Role::Dialling(_)), <[Interest; 2]>::default());
        self.poller.add(&link, number, is_full).ok()?;
        self.next += 1;
        let limit = Some(Instant::now() + PATIENCE);
        let connection = Connection { link, channel, role, limit, is_closing: false, is_full, interests };
        self.connections.insert(number, connection);
        Some(number)
    }

    /// Sees to a connection that is ready.
    fn attend(&mut self, number: u64, readable: bool, writable: bool) {
        if self.connections.get(&number).is_some_and(|connection| matches!(connection.role, Role::Passing(_)))
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
        // Some rounds only, so that others have their turn; what is left is told again.
        for _ in 0..16 {
            let Some(connection) = self.connections.get_mut(&number) else { return };
            match rustix::net::recv(&connection.link, &mut bytes, rustix::net::RecvFlags::DONTWAIT) {
                Ok((0, _)) => return self.lose(number, "it has ended"),
                Ok((n, _)) => connection.channel.feed(&bytes[..n]),
                Err(rustix::io::Errno::AGAIN) => return,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return self.lose(number, &io::Error::from(error).to_string()),
            }
            while let Some(connection) = self.connections.get_mut(&number) {
                if matches!(connection.role, Role::Held(..)) {
                    return;
                }
                match connection.channel.next() {
                    Ok(Some(message)) => self.hear(number, message),
                    Ok(None) => break,
                    Err(error) => return self.refuse(number, &error),
                }
            }
        }
    }

    /// Ends a connection whose other end says what makes no sense.
    fn refuse(&mut self, number: u64, error: &ChannelError) {
        let text = error.to_string();
        if self.connections.get(&number).is_some_and(|connection| connection.channel.is_open()) {
            self.answer_last(number, format!("what it was told is not understood: {text}"));
        } else {
            self.lose(number, &text);
        }
    }

    /// Refuses, and ends the connection.
    fn answer_last(&mut self, number: u64, reason: String) {
        self.tell(number, &Message::Refused { reason });
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.is_closing = true;
        }
        self.flush(number);
    }

    /// Says something.
    pub(super) fn tell(&mut self, number: u64, message: &Message) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let sent = connection.channel.send(message);
        if sent.is_err() || connection.channel.output().len() > MAX_OUTPUT {
            return self.lose(number, "it does not read what it is told");
        }
        self.flush(number);
    }

    /// Sends what there is room for.
    pub(super) fn flush(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if matches!(connection.role, Role::Dialling(_) | Role::Held(..) | Role::Passing(_)) {
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
            // It fails for no descriptor that is in the set.
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

    fn hear(&mut self, number: u64, message: Message) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if connection.is_closing {
            return;
        }
        let is_near = matches!(connection.link, Link::Near(_));
        let role = match &connection.role {
            Role::Stranger => 0,
            Role::Control(_) => 1,
            Role::Asking(_) => 2,
            Role::Peer(_) => 3,
            Role::Dialling(_) | Role::Stream(..) | Role::Held(..) | Role::Passing(_) => 4,
        };
        match (role, message) {
            (0, Message::Purpose(purpose)) => self.introduce(number, purpose),
            (1, Message::Ask) if is_near => {
                let view = Message::View(self.view());
                self.tell(number, &view);
            }
            (1, Message::Ask) => {
                let reason = "what a daemon knows is told on its own host only".to_string();
                self.tell(number, &Message::Refused { reason });
            }
            (1, Message::Exec(exec)) => self.exec(number, &exec),
            (1, Message::Halt) => self.halt_all(number),
            (2, message) => self.answered(number, message),
            (3, Message::Halt) => self.halt_from(number),
            (_, other) => {
                let what = format!("{other:?}");
                let what = &what[..what.floor_char_boundary(60)];
                self.answer_last(number, format!("'{what}' makes no sense here"));
            }
        }
    }

    /// Somebody says what its connection is for.
    fn introduce(&mut self, number: u64, purpose: Purpose) {
        if self.background.is_none() && !matches!(purpose, Purpose::Peer { .. }) {
            return self.answer_last(number, "the universe is being booted".into());
        }
        if self.ending.is_some() {
            return self.answer_last(number, "the universe is being halted".into());
        }
        let role = match purpose {
            Purpose::Control => Role::Control(BTreeMap::new()),
            Purpose::Stream { connection, stream } => match self.connections.get(&connection) {
                Some(Connection { role: Role::Control(streams), .. }) if !streams.contains_key(&stream) => {
                    Role::Stream(connection, stream)
                }
                _ => {
                    return self
                        .answer_last(number, format!("stream {stream} of connection {connection} is none"));
                }
            },
            Purpose::Peer { node } => return self.welcome_peer(number, node),
        };
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.limit = match role {
                Role::Stream(..) => connection.limit,
                _ => None,
            };
            connection.role = role;
        }
        self.tell(number, &Message::Accepted { connection: number });
    }

    fn view(&self) -> View {
        let seen = |peer: &Peer| Seen { node: peer.node.clone(), trouble: peer.trouble() };
        View {
            own: self.seed.node,
            secret: self.seed.secret.clone(),
            nodes: self.peers.iter().map(seen).collect(),
        }
    }

    /// A connection has ended, or is to.
    pub(super) fn lose(&mut self, number: u64, why: &str) {
        let Some(connection) = self.connections.remove(&number) else { return };
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
            Role::Dialling(node) | Role::Asking(node) => self.not_reached(node, why),
            Role::Peer(node) => {
                self.unlink(node, number, why);
                if let Some(ending) = &mut self.ending
                    && ending.waiting.remove(&node)
                {
                    ending.missing.insert(node);
                }
            }
            Role::Held(of, stream) => {
                if let Some(Connection { role: Role::Control(streams), .. }) = self.connections.get_mut(&of) {
                    streams.remove(&stream);
                }
            }
            Role::Passing(passage) => self.poller.remove(passage.program()),
            Role::Stranger | Role::Stream(..) => {}
        }
    }
}
