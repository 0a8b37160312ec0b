//! The start of a daemon: a child of `oxmpi boot`, until it goes into the background.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;

use oxmpi_sys::net::{self, Listener};
use oxmpi_sys::poller::Poller;
use oxmpi_sys::spawn::{self, Signals};
use oxmpi_sys::stdio::write_all;
use oxmpi_sys::{cpus, host, local};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tracing::{debug, info, warn};

use super::super::channel::SecureChannel;
use super::super::diagnostics::{LogTarget, word_for};
use super::super::links::DaemonPeer;
use super::super::programs::Programs;
use super::super::{check_suffix, socket_name};
use super::{BOOT, DOOR, Daemon, FIRST, LISTENERS, MAGIC, SIGNALS};
use crate::interfaces;
use oxmpi_rt_proto::daemon::{DaemonMessage, Seed, VERSION};

const MAX_ADDRESSES: usize = 8;

pub(super) fn report_to_boot(message: &DaemonMessage) -> io::Result<()> {
    let mut channel = SecureChannel::trusted();
    channel.send(message).map_err(io::Error::other)?;
    write_all(rustix::stdio::stdout(), channel.output())
}

fn read_input(channel: &mut SecureChannel) -> io::Result<bool> {
    let mut bytes = [0; 4096];
    loop {
        match rustix::io::read(rustix::stdio::stdin(), &mut bytes) {
            Ok(n) => {
                channel.feed(&bytes[..n]);
                return Ok(n > 0);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn await_boot(channel: &mut SecureChannel) -> Result<Option<DaemonMessage>, String> {
    let not_boot = "it is started by 'oxmpi boot', not by hand";
    loop {
        match channel.next_message() {
            Ok(Some(message)) => return Ok(Some(message)),
            Ok(None) => {}
            Err(error) => return Err(format!("{not_boot}: {error}")),
        }
        match read_input(channel) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => {
                return Err(format!("{not_boot}: cannot read its standard input: {error}"));
            }
        }
    }
}

fn wrong(message: &DaemonMessage) -> String {
    format!("'oxmpi boot' has sent an unexpected message: {message:?}")
}

pub(super) fn read_seed(boot: &mut SecureChannel) -> Result<Seed, String> {
    // If the output is closed, the input is too.
    let _ = write_all(rustix::stdio::stdout(), MAGIC);
    match await_boot(boot)? {
        Some(DaemonMessage::Seed(seed)) if seed.node < seed.size => Ok(seed),
        Some(other) => Err(wrong(&other)),
        None => {
            Err("it is started by 'oxmpi boot', not by hand: its standard input is empty".into())
        }
    }
}

/// Becomes a daemon with a table of all nodes. `None` if `oxmpi boot` has ended.
pub(super) fn prepare(seed: Seed, boot: &mut SecureChannel) -> Result<Option<Daemon>, String> {
    check_suffix(&seed.suffix)?;
    let door =
        local::bind_stream(&socket_name(&seed.suffix)).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => taken(&seed.suffix),
            _ => format!("cannot take the name of the daemon's socket: {error}"),
        })?;
    let listeners = if seed.size > 1 { listen(&seed)? } else { Vec::new() };
    let addresses = listeners.iter().map(Listener::address).collect::<io::Result<Vec<_>>>();
    let ready = DaemonMessage::Ready {
        version: VERSION,
        host: host::name(),
        cpus: cpus::usable() as u32,
        addresses: addresses
            .map_err(|error| format!("cannot query the address of a socket: {error}"))?,
    };
    let failed = |error: io::Error| format!("cannot answer 'oxmpi boot': {error}");
    debug!(?ready, "listening");
    report_to_boot(&ready).map_err(failed)?;
    let nodes = match await_boot(boot)? {
        Some(DaemonMessage::Table { nodes }) if nodes.len() == seed.size as usize => nodes,
        Some(other) => return Err(wrong(&other)),
        None => return Ok(None),
    };
    let kernel = |error: io::Error| format!("cannot create its poll set: {error}");
    let poller = Poller::new().map_err(kernel)?;
    poller.add(rustix::stdio::stdin(), BOOT, false).map_err(kernel)?;
    for (name, listener) in (LISTENERS..).zip(&listeners) {
        poller.add(listener, name, false).map_err(kernel)?;
    }
    let own = seed.node;
    let mut daemon = Daemon {
        poller,
        seed,
        peers: (0..).zip(nodes).map(|(number, node)| DaemonPeer::new(node, number, own)).collect(),
        connections: BTreeMap::new(),
        next: FIRST,
        door: Some(door),
        listeners,
        shut: BTreeMap::new(),
        boot: None,
        background: None,
        ending: None,
        is_connected: false,
        open_files: raise_open_files(),
    };
    daemon.report_when_connected().map_err(failed)?;
    Ok(Some(daemon))
}

/// The file for the diagnostics of a daemon in the background, whose standard error has no reader.
/// `None` if it writes none, or there can be no file.
fn diagnostics_file() -> Option<File> {
    word_for(LogTarget::Daemon)?;
    let (user, pid) = (rustix::process::geteuid().as_raw(), std::process::id());
    let path = std::env::temp_dir().join(format!("oxmpi-daemon-{user}-{pid}.log"));
    // A new one: another user could have put a link there.
    match OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path) {
        Ok(file) => {
            info!(file = %path.display(), "the daemon goes into the background, its diagnostics to a file");
            Some(file)
        }
        Err(error) => {
            warn!(file = %path.display(), %error, "there is no file for the diagnostics of the daemon");
            None
        }
    }
}

/// The process that has the name of the daemon's socket, for the user.
fn taken(suffix: &str) -> String {
    let own = rustix::process::geteuid().as_raw();
    let holder = local::connect_stream(&socket_name(suffix)).and_then(local::peer);
    match holder {
        Ok(peer) if peer.user != own => format!(
            "user {} has taken the name of the socket that a daemon of user {own} would have on {} (process {}); name another \
             one with '--mca boot_session_suffix WORD' for all commands, and inform the administrator of the machine",
            peer.user,
            host::name(),
            peer.pid
        ),
        _ => format!(
            "a daemon of user {own} runs on {} already, of this universe or of another ('oxmpi halt' there ends it)",
            host::name()
        ),
    }
}

/// Raises the soft limit on open files to the hard one, as each other node takes a descriptor.
/// Returns the former limits if raised.
fn raise_open_files() -> Option<(u64, u64)> {
    let limit = getrlimit(Resource::Nofile);
    let (soft, hard) = (limit.current?, limit.maximum?);
    let raised = Rlimit { current: Some(hard), maximum: Some(hard) };
    // If raising fails, connections beyond the limit fail with an error.
    (soft < hard && setrlimit(Resource::Nofile, raised).is_ok()).then_some((soft, hard))
}

/// Listens at the addresses of this host that other hosts can reach.
fn listen(seed: &Seed) -> Result<Vec<Listener>, String> {
    let there = net::interfaces().map_err(|error| format!("cannot query the networks: {error}"))?;
    let ranked = interfaces::ranked(&there, &seed.include, &seed.exclude, false);
    let ranked = ranked.map_err(|error| error.to_string())?;
    let listen = |address| {
        Listener::bind(address, None)
            .map_err(|error| format!("cannot listen at {address}: {error}"))
    };
    let far: Vec<_> =
        ranked.iter().filter(|interface| !interface.is_loopback).take(MAX_ADDRESSES).collect();
    if far.is_empty() {
        return Err(format!(
            "{} has no network that the other nodes could reach (btl_tcp_if_include '{}', btl_tcp_if_exclude '{}')",
            host::name(),
            seed.include,
            seed.exclude
        ));
    }
    far.into_iter().map(|interface| listen(interface.address)).collect()
}

impl Daemon {
    pub(super) fn read_boot(&mut self) -> Result<bool, String> {
        let Some(mut boot) = self.boot.take() else { return Ok(true) };
        let is_there = read_input(&mut boot).unwrap_or(false);
        match boot.next_message() {
            Ok(Some(DaemonMessage::Go)) => {
                self.boot = Some(boot);
                self.go_into_background()
                    .map_err(|error| format!("cannot go into the background: {error}"))?;
                self.boot = None;
                return Ok(true);
            }
            Ok(None) if is_there => self.boot = Some(boot),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn go_into_background(&mut self) -> io::Result<()> {
        self.poller.remove(rustix::stdio::stdin());
        spawn::detach_session()?;
        rustix::process::chdir("/")?;
        let wanted = [Signal::CHILD, Signal::TERM, Signal::INT, Signal::HUP].map(Signal::as_raw);
        // A signalfd reports the signals of the process that reads it (signalfd(2)), so it is made
        // after the fork.
        let signals = Signals::new(&wanted)?;
        self.poller.add(&signals, SIGNALS, false)?;
        let null =
            rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty())?;
        rustix::stdio::dup2_stdin(&null)?;
        match diagnostics_file() {
            Some(file) => rustix::stdio::dup2_stderr(&file)?,
            None => rustix::stdio::dup2_stderr(&null)?,
        }
        let programs = Programs::new(&self.seed.suffix, self.open_files)?;
        if let Some(door) = &self.door {
            local::listen_on(door)?;
            self.poller.add(door, DOOR, false)?;
        }
        self.background = Some((signals, programs));
        report_to_boot(&DaemonMessage::Gone)?;
        Ok(rustix::stdio::dup2_stdout(&null)?)
    }

    pub(super) fn report_when_connected(&mut self) -> io::Result<()> {
        if self.peers.iter().any(|peer| !peer.is_up()) || self.is_connected {
            return Ok(());
        }
        self.is_connected = true;
        report_to_boot(&DaemonMessage::Connected)
    }
}
