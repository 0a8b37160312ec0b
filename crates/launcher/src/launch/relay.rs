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
use rustix::process::{
    Resource, Signal, WaitId, WaitIdOptions, getrlimit, pidfd_send_signal, waitid,
};

use super::{LaunchError, start};
use crate::job::Exit;

/// The argument of `oxmpi` that makes a process a relay.
pub const RELAY_WORD: &str = "relay";
/// The descriptor number of the socket to the launcher in a relay.
pub const RELAY_CONTROL: i32 = 63;

/// The limit for room for an order.
const ROOM: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct RelayProcess {
    process: Process,
    control: OwnedFd,
    runs: bool,
}

impl RelayProcess {
    /// Starts the relay of a node with the order `begin`, and its listener if there are others.
    pub(crate) fn start(
        signals: &Signals,
        guard: &Guard,
        begin: &Order,
        listener: Option<&Listener>,
    ) -> Result<RelayProcess, LaunchError> {
        let kernel = |what| move |error| LaunchError::Kernel(what, error);
        let (control, theirs) = parcel::pair().map_err(kernel("make a socket pair"))?;
        let path =
            oxmpi_sys::library::program().map_err(kernel("find the program of the daemons"))?;
        let null = start::kernel(
            "open /dev/null",
            rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()),
        )?;
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
            // Descriptors in sent messages count as open files.
            open_files: Some((most, most)),
            cpus: None,
            is_tied: true,
        })
        .map_err(run)?;
        // Fails only if the guard was killed; then the job runs unguarded.
        let _ = guard.watch(process.pid);
        let relay = RelayProcess { process, control, runs: true };
        parcel::send(
            &relay.control,
            &[Bytes::from(&begin.encode()[..])],
            listener.map(AsFd::as_fd),
        )
        .map_err(kernel("send a daemon its first order"))?;
        Ok(relay)
    }

    pub(crate) fn pid(&self) -> i32 {
        self.process.pid
    }

    pub(crate) fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    pub(crate) fn end_seen(&self) -> BorrowedFd<'_> {
        self.process.pidfd.as_fd()
    }

    pub(crate) fn runs(&self) -> bool {
        self.runs
    }

    /// Sends an order. A relay reads all the time, so room comes soon; otherwise it has failed.
    pub(crate) fn send(&self, order: &Order, socket: Option<&OwnedFd>) -> std::io::Result<()> {
        self.pass(&order.encode(), socket)
    }

    pub(crate) fn pass(&self, order: &[u8], socket: Option<&OwnedFd>) -> std::io::Result<()> {
        let send = || parcel::send(&self.control, &[Bytes::from(order)], socket.map(AsFd::as_fd));
        match send() {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && self.runs => {
                parcel::wait_for_room(&self.control, ROOM);
                send()
            }
            sent => sent,
        }
    }

    /// Creates a socket to the relay for a process of its node. The error is for the user.
    pub(crate) fn connect(&self, number: u32) -> Result<OwnedFd, String> {
        let (theirs, own) = parcel::pair().map_err(|error| error.to_string())?;
        let sent = self.send(&Order::Process { number }, Some(&theirs));
        sent.map_err(|error| format!("the daemon of its node does not read: {error}"))?;
        Ok(own)
    }

    /// The next notice, encoded; `None`: none has come.
    pub(crate) fn next_notice(&self) -> Option<Vec<u8>> {
        let mut bytes = [0; MAX_ORDER];
        match parcel::receive(&self.control, &mut bytes) {
            Ok((n @ 1.., _)) => Some(bytes[..n].to_vec()),
            _ => None,
        }
    }

    /// The exit status, once, after the relay has ended.
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

    pub(crate) fn end(self, guard: &Guard) {
        let _ = pidfd_send_signal(&self.process.pidfd, Signal::KILL);
        let _ = guard.forget(self.process.pid);
        let _ = waitid(WaitId::PidFd(self.process.pidfd.as_fd()), WaitIdOptions::EXITED);
    }
}
