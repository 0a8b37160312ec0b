//! The relay of one node, as a child of the launcher or of an agent.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use oxmpi_sys::bytes::Bytes;
use oxmpi_sys::net::Listener;
use oxmpi_sys::parcel;
use oxmpi_sys::spawn::{Guard, Process, Program, Signals, spawn};
use oxmpi_wire::relay::{MAX_ORDER, Order};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Signal, WaitId, WaitIdOptions, getrlimit, pidfd_send_signal, waitid};

use super::{LaunchError, start};
use crate::job::Exit;

/// The word after `oxmpi` that makes a process a relay.
pub const RELAY_WORD: &str = "relay";
/// The number that its socket to the launcher has in a relay.
pub const RELAY_CONTROL: i32 = 63;

/// How long to wait for room for an order.
const ROOM: Duration = Duration::from_secs(1);

/// The relay of one node, which this process has started.
#[derive(Debug)]
pub(crate) struct Relay {
    process: Process,
    control: OwnedFd,
    runs: bool,
}

impl Relay {
    /// Starts the relay of a node. It gets `begin`, and what it listens on if there are others.
    pub(crate) fn start(
        signals: &Signals,
        guard: &Guard,
        begin: &Order,
        listener: Option<&Listener>,
    ) -> Result<Relay, LaunchError> {
        let kernel = |what| move |error| LaunchError::Kernel(what, error);
        let (control, theirs) = parcel::pair().map_err(kernel("make a socket pair"))?;
        let path = oxmpi_sys::library::program().map_err(kernel("find the program of the daemons"))?;
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
            mask: signals.before(),
            ignores_none: false,
            // Files that wait are open.
            open_files: Some((most, most)),
            cpus: None,
            is_tied: true,
        })
        .map_err(run)?;
        // The guard can only be missing if somebody killed it; then the job runs unguarded.
        let _ = guard.watch(process.pid);
        let relay = Relay { process, control, runs: true };
        parcel::send(&relay.control, &[Bytes::from(&begin.encode()[..])], listener.map(AsFd::as_fd))
            .map_err(kernel("tell a daemon who it is"))?;
        Ok(relay)
    }

    pub(crate) fn pid(&self) -> i32 {
        self.process.pid
    }

    /// Readable when it has said something.
    pub(crate) fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Readable when it has ended.
    pub(crate) fn end_seen(&self) -> BorrowedFd<'_> {
        self.process.pidfd.as_fd()
    }

    pub(crate) fn runs(&self) -> bool {
        self.runs
    }

    /// Tells it something. It always listens, so that there is room soon; one that does not is as good as dead.
    pub(crate) fn tell(&self, order: &Order, socket: Option<&OwnedFd>) -> std::io::Result<()> {
        self.pass(&order.encode(), socket)
    }

    /// The same of an order that is encoded.
    pub(crate) fn pass(&self, order: &[u8], socket: Option<&OwnedFd>) -> std::io::Result<()> {
        let send = || parcel::send(&self.control, &[Bytes::from(order)], socket.map(AsFd::as_fd));
        match send() {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && self.runs => {
                parcel::wait_for_room(&self.control, ROOM);
                send()
            }
            told => told,
        }
    }

    /// Makes a socket to it for a process of its node.
    ///
    /// # Errors
    /// Why there is none, for a person.
    pub(crate) fn connect(&self, number: u32) -> Result<OwnedFd, String> {
        let (theirs, own) = parcel::pair().map_err(|error| error.to_string())?;
        let told = self.tell(&Order::Process { number }, Some(&theirs));
        told.map_err(|error| format!("the daemon of its node does not listen: {error}"))?;
        Ok(own)
    }

    /// The next that it has said, if there is something: an encoded notice.
    pub(crate) fn hear(&self) -> Option<Vec<u8>> {
        let mut bytes = [0; MAX_ORDER];
        match parcel::receive(&self.control, &mut bytes) {
            Ok((n @ 1.., _)) => Some(bytes[..n].to_vec()),
            _ => None,
        }
    }

    /// How it has ended, if it has and this was not asked before.
    pub(crate) fn take_end(&mut self) -> rustix::io::Result<Option<Exit>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let Some(status) = waitid(WaitId::PidFd(self.process.pidfd.as_fd()), options)? else {
            return Ok(None);
        };
        self.runs = false;
        Ok(Some(match status.exit_status() {
            Some(code) => Exit::Code(code),
            None => Exit::Signal(status.terminating_signal().unwrap_or(0)),
        }))
    }

    /// Ends it.
    pub(crate) fn end(self, guard: &Guard) {
        let _ = pidfd_send_signal(&self.process.pidfd, Signal::KILL);
        // If the guard is gone it kills nobody.
        let _ = guard.forget(self.process.pid);
        let _ = waitid(WaitId::PidFd(self.process.pidfd.as_fd()), WaitIdOptions::EXITED);
    }
}
