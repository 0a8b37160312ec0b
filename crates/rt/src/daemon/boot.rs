//! Starting the daemons of a universe: all, or none.
//!
//! Each daemon is told over the standard input of its agent what it is ([`Message::Seed`]) and answers where it can be reached
//! ([`Message::Ready`]). When all have, each is told of all ([`Message::Table`]), and they connect with each other
//! ([`Message::Connected`]). When all are connected they go into the background ([`Message::Go`], [`Message::Gone`]). Until then
//! a daemon ends when its input does: so if anything fails, nothing is left.

use std::io::{Read, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use oxmpi_sys::net;
use oxmpi_wire::Secret;

use super::channel::Channel;
use super::client::{Universe, UniverseError};
use super::message::{Message, Seed, VERSION};
use super::schema::Host;
use super::serve::MAGIC;
use super::{Node, agent};

/// How long agents have to end when their work is over.
const FAREWELL: Duration = Duration::from_secs(5);
/// Bytes of an agent's standard error that are kept.
const MAX_ERRORS: usize = 16 << 10;
/// Bytes that a login shell may say before the daemon speaks.
const MAX_NOISE: usize = 1 << 20;

/// A host that shall have a daemon.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Which.
    pub host: Host,
    /// Whether it is this host.
    pub is_here: bool,
}

/// A universe to boot.
#[derive(Clone, Debug)]
pub struct Boot {
    /// Its hosts, one of which is this one.
    pub hosts: Vec<Wish>,
    /// The program that starts others there, with options (`plm_rsh_agent`).
    pub agent: String,
    /// Tells universes of one user apart; usually empty.
    pub suffix: String,
    /// `btl_tcp_if_include`: networks of the daemons.
    pub include: String,
    /// `btl_tcp_if_exclude`: networks not to use.
    pub exclude: String,
    /// The file that has `oxmpi daemon`, here.
    pub program: PathBuf,
    /// How long all may take.
    pub timeout: Duration,
}

/// Why there is no universe. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// There is one already.
    #[error("it is booted already, with {}: 'oxmpi nodes' lists them, 'oxmpi halt' ends them", list(nodes))]
    Already {
        /// Its nodes.
        nodes: Vec<Node>,
    },
    /// This host is not among the hosts.
    #[error(
        "this host ('{own}') is not among the hosts: add a line '{own}' to the file of hosts, or '{own} schedule=no' if no \
         ranks shall run here"
    )]
    NotHere {
        /// Its name.
        own: String,
    },
    /// This host is there more than once, by several names.
    #[error("'{first}' and '{second}' are both this host: leave one out")]
    Twice {
        /// A name.
        first: String,
        /// Another.
        second: String,
    },
    /// A daemon could not be started.
    #[error("n{number} ({host}): {why}")]
    Host {
        /// Its number.
        number: usize,
        /// Its host.
        host: String,
        /// What has happened, and what to do.
        why: String,
    },
    /// It took too long.
    #[error(
        "after {timeout:?} still no answer from {hosts}: check that they can be reached, or give them more time (--timeout)"
    )]
    Timeout {
        /// How long.
        timeout: Duration,
        /// Who is missing.
        hosts: String,
    },
    /// The kernel refused something.
    #[error("cannot {0}: {1}")]
    Kernel(&'static str, std::io::Error),
    /// What is there does not behave.
    #[error(transparent)]
    Universe(#[from] UniverseError),
}

fn list(nodes: &[Node]) -> String {
    let names: Vec<&str> = nodes.iter().take(4).map(|node| node.name.as_str()).collect();
    let more = if nodes.len() > names.len() { ", ..." } else { "" };
    let plural = if nodes.len() == 1 { "" } else { "s" };
    format!("{} node{plural} ({}{more})", nodes.len(), names.join(", "))
}

/// Starts all daemons, and says how far it is. Returns the nodes.
///
/// # Errors
/// If one cannot be started: then none is.
pub fn boot(boot: &Boot, say: &mut dyn FnMut(&str)) -> Result<Vec<Node>, BootError> {
    let mut here = boot.hosts.iter().filter(|wish| wish.is_here).map(|wish| wish.host.name.clone());
    let first = here.next().ok_or_else(|| BootError::NotHere { own: oxmpi_sys::host::name() })?;
    if let Some(second) = here.next() {
        return Err(BootError::Twice { first, second });
    }
    if let Some(universe) = Universe::find(&boot.suffix)? {
        return Err(BootError::Already { nodes: universe.nodes() });
    }
    let mut secret = [0; 32];
    net::fill_random(&mut secret).map_err(|error| BootError::Kernel("draw a secret", error))?;
    let (events, heard) = channel();
    let mut booting = Booting { boot, daemons: Vec::new(), heard, limit: Instant::now() + boot.timeout };
    for number in 0..boot.hosts.len() {
        booting.start(number, &Secret(secret), &events, say)?;
    }
    let nodes = booting.boot(say)?;
    booting.farewell();
    Ok(nodes)
}

/// What is heard of a daemon.
enum Event {
    Said(Message),
    /// Its output has ended, or makes no sense.
    Silent(Option<String>),
}

/// A daemon that comes up.
struct Daemon {
    child: Child,
    input: Option<ChildStdin>,
    /// The command line, if an agent has started it.
    shown: Option<String>,
    errors: Receiver<Vec<u8>>,
}

struct Booting<'a> {
    boot: &'a Boot,
    daemons: Vec<Daemon>,
    heard: Receiver<(usize, Event)>,
    limit: Instant,
}

/// What a daemon can be waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Ready,
    Connected,
    Gone,
}

impl Booting<'_> {
    fn failed(&self, number: usize, why: String) -> BootError {
        BootError::Host { number, host: self.boot.hosts[number].host.name.clone(), why }
    }

    /// Starts a daemon and tells it what it is.
    fn start(
        &mut self,
        number: usize,
        secret: &Secret,
        events: &Sender<(usize, Event)>,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), BootError> {
        let wish = &self.boot.hosts[number];
        let (mut command, shown) = if wish.is_here {
            let mut command = Command::new(&self.boot.program);
            command.arg("daemon");
            (command, None)
        } else {
            let command = agent::command(&self.boot.agent, &wish.host, &self.boot.program);
            let (command, shown) = command.map_err(|why| self.failed(number, why))?;
            (command, Some(shown))
        };
        let how = shown.as_deref().map_or("here".into(), |shown| format!("by '{shown}'"));
        say(&format!("n{number} ({}): starting {how}", wish.host.name));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = command.get_program().to_os_string();
        let mut child = command.spawn().map_err(|error| {
            let remedy = if wish.is_here { "" } else { " (the parameter plm_rsh_agent names another)" };
            self.failed(number, format!("cannot run '{}': {error}{remedy}", program.display()))
        })?;
        let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (keep, kept) = channel();
        let events = events.clone();
        thread::spawn(move || listen(number, output, &events));
        thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(errors) = errors {
                // What has come before an error counts too.
                let _ = errors.take(MAX_ERRORS as u64).read_to_end(&mut bytes);
            }
            // Nobody may want it.
            let _ = keep.send(bytes);
        });
        self.daemons.push(Daemon { child, input, shown, errors: kept });
        self.tell(
            number,
            &Message::Seed(Seed {
                secret: secret.clone(),
                node: number as u32,
                size: self.boot.hosts.len() as u32,
                suffix: self.boot.suffix.clone(),
                include: self.boot.include.clone(),
                exclude: self.boot.exclude.clone(),
            }),
        );
        Ok(())
    }

    /// Says something to a daemon. If it has ended, its output says so.
    fn tell(&mut self, number: usize, message: &Message) {
        let mut channel = Channel::trusted();
        if channel.send(message).is_ok()
            && let Some(input) = &mut self.daemons[number].input
        {
            let _ = input.write_all(channel.output()).and_then(|()| input.flush());
        }
    }

    fn tell_all(&mut self, message: &Message) {
        (0..self.daemons.len()).for_each(|number| self.tell(number, message));
    }

    fn boot(&mut self, say: &mut dyn FnMut(&str)) -> Result<Vec<Node>, BootError> {
        let mut ready: Vec<(u32, Vec<SocketAddr>)> = vec![(0, Vec::new()); self.daemons.len()];
        let mut texts = Vec::new();
        self.await_all(Step::Ready, &mut |number, message| {
            if let Message::Ready { host, cpus, addresses, .. } = message {
                let at: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
                let at = if at.is_empty() {
                    "on its own host only".into()
                } else {
                    format!("at {}", at.join(", "))
                };
                texts.push(format!("n{number}: its daemon runs on {host}, {cpus} processors, listens {at}"));
                ready[number] = (cpus, addresses);
            }
        })?;
        texts.iter().for_each(|text| say(text));
        let node = |(wish, (cpus, addresses)): (&Wish, (u32, Vec<SocketAddr>))| Node {
            name: wish.host.name.clone(),
            cpus: wish.host.cpus.unwrap_or(cpus),
            is_scheduled: wish.host.is_scheduled,
            is_origin: wish.is_here,
            addresses,
        };
        let nodes: Vec<Node> = self.boot.hosts.iter().zip(ready).map(node).collect();
        self.tell_all(&Message::Table { nodes: nodes.clone() });
        self.await_all(Step::Connected, &mut |_, _| ())?;
        say("all daemons are connected with each other");
        self.tell_all(&Message::Go);
        if let Err(error) = self.await_all(Step::Gone, &mut |_, _| ()) {
            // Those that have gone do not hear the end of their input any more.
            if let Ok(Some(universe)) = Universe::find(&self.boot.suffix) {
                let _ = universe.halt();
            }
            return Err(error);
        }
        Ok(nodes)
    }

    /// Waits until all have said something.
    fn await_all(&mut self, step: Step, take: &mut dyn FnMut(usize, Message)) -> Result<(), BootError> {
        let mut missing: Vec<usize> = (0..self.daemons.len()).collect();
        while !missing.is_empty() {
            let left = self.limit.saturating_duration_since(Instant::now());
            let (number, event) = match self.heard.recv_timeout(left) {
                Ok(heard) => heard,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let name = |number: &usize| format!("n{number} ({})", self.boot.hosts[*number].host.name);
                    let hosts = missing.iter().map(name).collect::<Vec<_>>().join(", ");
                    return Err(BootError::Timeout { timeout: self.boot.timeout, hosts });
                }
            };
            match event {
                Event::Said(Message::Trouble { reason }) => return Err(self.failed(number, reason)),
                Event::Said(Message::Ready { version, .. }) if version != VERSION => {
                    let why = format!(
                        "the OxMPI there is another one: its daemons speak version {version}, those of this host {VERSION}"
                    );
                    return Err(self.failed(number, why));
                }
                Event::Said(message) if step_of(&message) == Some(step) => {
                    missing.retain(|other| *other != number);
                    take(number, message);
                }
                Event::Said(other) => {
                    return Err(
                        self.failed(number, format!("its daemon says what makes no sense: {other:?}"))
                    );
                }
                // When it has gone, it has closed its output.
                Event::Silent(None) if !missing.contains(&number) && step == Step::Gone => {}
                Event::Silent(why) => return Err(self.post_mortem(number, why)),
            }
        }
        Ok(())
    }

    /// Why a daemon, or its agent, has ended.
    fn post_mortem(&mut self, number: usize, why: Option<String>) -> BootError {
        let daemon = &mut self.daemons[number];
        daemon.input = None;
        let status = ended(&mut daemon.child, Instant::now() + FAREWELL);
        let errors = daemon.errors.recv_timeout(Duration::from_millis(500)).unwrap_or_default();
        let errors = String::from_utf8_lossy(&errors);
        let code = status.and_then(|status| status.code());
        let status = match (status, code) {
            (_, Some(code)) => format!("ended with code {code}"),
            (Some(status), None) => format!("was ended ({status})"),
            (None, None) => "does not end".into(),
        };
        let command = daemon.shown.as_deref().map_or("the daemon".into(), |shown| format!("'{shown}'"));
        let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
        let mut text = format!("{command} {status}{why}");
        for line in errors.lines().filter(|line| !line.trim().is_empty()) {
            text.push_str(&format!("\n    {line}"));
        }
        if daemon.shown.is_some() {
            let host = &self.boot.hosts[number].host;
            text.push_str(&format!("\n  {}", agent::remedy(&self.boot.agent, host, code)));
        }
        self.failed(number, text)
    }

    /// Waits for the agents, whose work is over.
    fn farewell(&mut self) {
        let limit = Instant::now() + FAREWELL;
        for daemon in &mut self.daemons {
            daemon.input = None;
        }
        for daemon in &mut self.daemons {
            if ended(&mut daemon.child, limit).is_none() {
                // It fails if it has ended.
                let _ = daemon.child.kill();
                let _ = daemon.child.wait();
            }
        }
    }
}

impl Drop for Booting<'_> {
    fn drop(&mut self) {
        self.farewell();
    }
}

fn step_of(message: &Message) -> Option<Step> {
    match message {
        Message::Ready { .. } => Some(Step::Ready),
        Message::Connected => Some(Step::Connected),
        Message::Gone => Some(Step::Gone),
        _ => None,
    }
}

/// How a child has ended, if it does before `limit`.
fn ended(child: &mut Child, limit: Instant) -> Option<std::process::ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < limit => thread::sleep(Duration::from_millis(5)),
            Ok(status) => return status,
            Err(_) => return None,
        }
    }
}

/// Passes on what a daemon says.
fn listen(number: usize, output: Option<impl Read>, events: &Sender<(usize, Event)>) {
    let end = output.and_then(|mut output| hear(number, &mut output, events).err());
    // Nobody may want it.
    let _ = events.send((number, Event::Silent(end)));
}

fn hear(number: usize, output: &mut impl Read, events: &Sender<(usize, Event)>) -> Result<(), String> {
    let mut channel = Channel::trusted();
    let mut noise = Some(Vec::new());
    let mut bytes = [0; 4096];
    loop {
        let n = match output.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.to_string()),
        };
        match &mut noise {
            Some(before) => {
                before.extend_from_slice(&bytes[..n]);
                if let Some(at) = before.windows(MAGIC.len()).position(|window| window == MAGIC) {
                    channel.feed(&before[at + MAGIC.len()..]);
                    noise = None;
                } else if before.len() > MAX_NOISE {
                    return Err("no daemon speaks there, but somebody says a lot".into());
                }
            }
            None => channel.feed(&bytes[..n]),
        }
        while noise.is_none()
            && let Some(message) = channel.next().map_err(|error| error.to_string())?
        {
            if events.send((number, Event::Said(message))).is_err() {
                return Ok(());
            }
        }
    }
}
