//! Starting the daemons of a universe: all, or none.
//!
//! Each daemon reads its configuration from the standard input of its agent
//! ([`DaemonMessage::Seed`]) and answers with its addresses ([`DaemonMessage::Ready`]). Then each
//! gets the table of all ([`DaemonMessage::Table`]), and they connect with each other
//! ([`DaemonMessage::Connected`]). At last they go into the background ([`DaemonMessage::Go`],
//! [`DaemonMessage::Gone`]). Until then a daemon ends when its input does, so a failure leaves no
//! daemon behind.

use std::io::{Read, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use oxmpi_sys::net;
use oxmpi_wire::Secret;
use tracing::info;

use super::channel::SecureChannel;
use super::client::{Universe, UniverseError};
use super::diagnostics::{LogTarget, word_for};
use super::schema::Host;
use super::serve::MAGIC;
use super::{Node, agent};
use oxmpi_rt_proto::daemon::{DaemonMessage, Seed, VERSION};

/// The limit for agents to end when their work is over.
const FAREWELL: Duration = Duration::from_secs(5);
/// The most bytes of an agent's standard error that are kept.
const MAX_ERRORS: usize = 16 << 10;
/// The most bytes of output of a login shell before the daemon's.
const MAX_NOISE: usize = 1 << 20;

/// A host for a daemon.
#[derive(Clone, Debug)]
pub struct Wish {
    pub host: Host,
    pub is_here: bool,
}

/// A universe to boot.
#[derive(Clone, Debug)]
pub struct Boot {
    pub hosts: Vec<Wish>,
    /// The program that starts others on remote hosts, with options (`plm_rsh_agent`).
    pub agent: String,
    pub suffix: String,
    pub include: String,
    pub exclude: String,
    /// The local file with `oxmpi daemon`.
    pub program: PathBuf,
    /// The limit for all daemons together.
    pub timeout: Duration,
}

/// Why there is no universe. No daemon is left.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    #[error(
        "it is booted already, with {}: 'oxmpi nodes' lists them, 'oxmpi halt' ends them",
        list(nodes)
    )]
    Already { nodes: Vec<Node> },
    #[error(
        "this host ('{own}') is not among the hosts: add a line '{own}' to the file of hosts, or '{own} schedule=no' if no \
         ranks shall run here"
    )]
    NotHere { own: String },
    #[error("'{first}' and '{second}' are both this host: leave one out")]
    Twice { first: String, second: String },
    #[error("n{number} ({host}): {why}")]
    Host { number: usize, host: String, why: String },
    #[error(
        "after {timeout:?} still no answer from {hosts}: check that they can be reached, or give them more time (--timeout)"
    )]
    Timeout { timeout: Duration, hosts: String },
    #[error("cannot {0}: {1}")]
    Kernel(&'static str, std::io::Error),
    #[error(transparent)]
    Universe(#[from] UniverseError),
}

fn list(nodes: &[Node]) -> String {
    let names: Vec<&str> = nodes.iter().take(4).map(|node| node.name.as_str()).collect();
    let more = if nodes.len() > names.len() { ", ..." } else { "" };
    let plural = if nodes.len() == 1 { "" } else { "s" };
    format!("{} node{plural} ({}{more})", nodes.len(), names.join(", "))
}

/// Starts all daemons, with progress for `say`; returns the nodes. An error leaves none.
pub fn boot(boot: &Boot, say: &mut dyn FnMut(&str)) -> Result<Vec<Node>, BootError> {
    let mut here = boot.hosts.iter().filter(|wish| wish.is_here).map(|wish| wish.host.name.clone());
    let first = here.next().ok_or_else(|| BootError::NotHere { own: oxmpi_sys::host::name() })?;
    if let Some(second) = here.next() {
        return Err(BootError::Twice { first, second });
    }
    if let Some(universe) = Universe::find(&boot.suffix)? {
        return Err(BootError::Already { nodes: universe.nodes() });
    }
    let say: &mut dyn FnMut(&str) = &mut |text: &str| {
        info!("{text}");
        say(text);
    };
    let mut secret = [0; 32];
    net::fill_random(&mut secret).map_err(|error| BootError::Kernel("draw a secret", error))?;
    let (events, received) = channel();
    let mut booting =
        Booting { boot, daemons: Vec::new(), received, limit: Instant::now() + boot.timeout };
    for number in 0..boot.hosts.len() {
        booting.start(number, &Secret(secret), &events, say)?;
    }
    let nodes = booting.boot(say)?;
    booting.farewell();
    Ok(nodes)
}

enum BootEvent {
    Said(DaemonMessage),
    /// The daemon's output has ended, or is malformed.
    Silent(Option<String>),
}

struct Daemon {
    child: Child,
    input: Option<ChildStdin>,
    /// The command line, if an agent has started the daemon.
    shown: Option<String>,
    errors: Receiver<Vec<u8>>,
}

struct Booting<'a> {
    boot: &'a Boot,
    daemons: Vec<Daemon>,
    received: Receiver<(usize, BootEvent)>,
    limit: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BootStep {
    Ready,
    Connected,
    Gone,
}

impl Booting<'_> {
    fn failed(&self, number: usize, why: String) -> BootError {
        BootError::Host { number, host: self.boot.hosts[number].host.name.clone(), why }
    }

    fn start(
        &mut self,
        number: usize,
        secret: &Secret,
        events: &Sender<(usize, BootEvent)>,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), BootError> {
        let wish = &self.boot.hosts[number];
        let (mut command, shown) = if wish.is_here {
            let mut command = Command::new(&self.boot.program);
            command.arg("daemon").args(word_for(LogTarget::Daemon));
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
            let remedy =
                if wish.is_here { "" } else { " (the parameter plm_rsh_agent names another)" };
            self.failed(number, format!("cannot run '{}': {error}{remedy}", program.display()))
        })?;
        let (input, output, errors) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (keep, kept) = channel();
        let events = events.clone();
        thread::spawn(move || listen(number, output, &events));
        thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(errors) = errors {
                read_errors(errors, &mut bytes);
            }
            // Fails if nobody waits for it any more.
            let _ = keep.send(bytes);
        });
        self.daemons.push(Daemon { child, input, shown, errors: kept });
        self.send(
            number,
            &DaemonMessage::Seed(Seed {
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

    fn send(&mut self, number: usize, message: &DaemonMessage) {
        let mut channel = SecureChannel::trusted();
        if channel.send(message).is_ok()
            && let Some(input) = &mut self.daemons[number].input
        {
            let _ = input.write_all(channel.output()).and_then(|()| input.flush());
        }
    }

    fn send_all(&mut self, message: &DaemonMessage) {
        (0..self.daemons.len()).for_each(|number| self.send(number, message));
    }

    fn boot(&mut self, say: &mut dyn FnMut(&str)) -> Result<Vec<Node>, BootError> {
        let mut ready: Vec<(u32, Vec<SocketAddr>)> = vec![(0, Vec::new()); self.daemons.len()];
        let mut texts = Vec::new();
        self.await_all(BootStep::Ready, &mut |number, message| {
            if let DaemonMessage::Ready { host, cpus, addresses, .. } = message {
                let at: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
                let at = if at.is_empty() {
                    "on its own host only".into()
                } else {
                    format!("at {}", at.join(", "))
                };
                texts.push(format!(
                    "n{number}: its daemon runs on {host}, {cpus} processors, listens {at}"
                ));
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
        self.send_all(&DaemonMessage::Table { nodes: nodes.clone() });
        self.await_all(BootStep::Connected, &mut |_, _| ())?;
        say("all daemons are connected with each other");
        self.send_all(&DaemonMessage::Go);
        if let Err(error) = self.await_all(BootStep::Gone, &mut |_, _| ()) {
            // Daemons in the background do not read their input any more.
            if let Ok(Some(universe)) = Universe::find(&self.boot.suffix) {
                let _ = universe.halt();
            }
            return Err(error);
        }
        Ok(nodes)
    }

    fn await_all(
        &mut self,
        step: BootStep,
        take: &mut dyn FnMut(usize, DaemonMessage),
    ) -> Result<(), BootError> {
        let mut missing: Vec<usize> = (0..self.daemons.len()).collect();
        while !missing.is_empty() {
            let left = self.limit.saturating_duration_since(Instant::now());
            let (number, event) = match self.received.recv_timeout(left) {
                Ok(received) => received,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let name = |number: &usize| {
                        format!("n{number} ({})", self.boot.hosts[*number].host.name)
                    };
                    let hosts = missing.iter().map(name).collect::<Vec<_>>().join(", ");
                    return Err(BootError::Timeout { timeout: self.boot.timeout, hosts });
                }
            };
            match event {
                BootEvent::Said(DaemonMessage::Trouble { reason }) => {
                    return Err(self.failed(number, reason));
                }
                BootEvent::Said(DaemonMessage::Ready { version, .. }) if version != VERSION => {
                    let why = format!(
                        "the OxMPI there is of another version: its daemons have protocol version {version}, those of this host {VERSION}"
                    );
                    return Err(self.failed(number, why));
                }
                BootEvent::Said(message) if step_of(&message) == Some(step) => {
                    missing.retain(|other| *other != number);
                    take(number, message);
                }
                BootEvent::Said(other) => {
                    return Err(self.failed(
                        number,
                        format!("its daemon has sent an unexpected message: {other:?}"),
                    ));
                }
                // A daemon in the background has closed its output.
                BootEvent::Silent(None) if !missing.contains(&number) && step == BootStep::Gone => {
                }
                BootEvent::Silent(why) => return Err(self.post_mortem(number, why)),
            }
        }
        Ok(())
    }

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
        let command =
            daemon.shown.as_deref().map_or("the daemon".into(), |shown| format!("'{shown}'"));
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

    fn farewell(&mut self) {
        let limit = Instant::now() + FAREWELL;
        for daemon in &mut self.daemons {
            daemon.input = None;
        }
        for daemon in &mut self.daemons {
            if ended(&mut daemon.child, limit).is_none() {
                let _ = daemon.child.kill();
                let _ = daemon.child.wait();
            }
            if word_for(LogTarget::Daemon).is_some() {
                // The thread that prints them sends at their end.
                let _ = daemon.errors.recv_timeout(FAREWELL);
            }
        }
    }
}

impl Drop for Booting<'_> {
    fn drop(&mut self) {
        self.farewell();
    }
}

fn step_of(message: &DaemonMessage) -> Option<BootStep> {
    match message {
        DaemonMessage::Ready { .. } => Some(BootStep::Ready),
        DaemonMessage::Connected => Some(BootStep::Connected),
        DaemonMessage::Gone => Some(BootStep::Gone),
        _ => None,
    }
}

fn ended(child: &mut Child, limit: Instant) -> Option<std::process::ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < limit => thread::sleep(Duration::from_millis(5)),
            Ok(status) => return status,
            Err(_) => return None,
        }
    }
}

/// Reads the standard error of an agent to its end. Diagnostics are printed at once; output without
/// an error is not.
fn read_errors(mut errors: impl Read, kept: &mut Vec<u8>) {
    let has_diagnostics = word_for(LogTarget::Daemon).is_some();
    let mut bytes = [0; 4096];
    loop {
        let n = match errors.read(&mut bytes) {
            Ok(n @ 1..) => n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Ok(0) | Err(_) => return,
        };
        if has_diagnostics {
            oxmpi_sys::stdio::pass_error(&bytes[..n]);
        }
        let room = MAX_ERRORS - kept.len();
        kept.extend_from_slice(&bytes[..n.min(room)]);
    }
}

fn listen(number: usize, output: Option<impl Read>, events: &Sender<(usize, BootEvent)>) {
    let end = output.and_then(|mut output| read_messages(number, &mut output, events).err());
    let _ = events.send((number, BootEvent::Silent(end)));
}

fn read_messages(
    number: usize,
    output: &mut impl Read,
    events: &Sender<(usize, BootEvent)>,
) -> Result<(), String> {
    let mut channel = SecureChannel::trusted();
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
                    return Err("no daemon has answered, but a program there prints a lot".into());
                }
            }
            None => channel.feed(&bytes[..n]),
        }
        while noise.is_none()
            && let Some(message) = channel.next_message().map_err(|error| error.to_string())?
        {
            if events.send((number, BootEvent::Said(message))).is_err() {
                return Ok(());
            }
        }
    }
}
