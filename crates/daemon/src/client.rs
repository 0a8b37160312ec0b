//! Requests of a user's programs to the daemons.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use oxmpi_sys::{local, net};
use oxmpi_wire::Secret;
use tracing::debug;

use super::channel::{ChannelError, SecureChannel};
use super::diagnostics::MessageName;
use super::{Node, ProgramEnd, socket_name};
use crate::stream::Stream;
use oxmpi_rt_proto::daemon::{DaemonMessage, Exec, Purpose, View};

/// The default limit for a daemon to be connected to, and to answer.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// The limit for the end of all daemons.
const HALT_PATIENCE: Duration = Duration::from_secs(30);
const STDIO: u32 = 0;
const ERRORS: u32 = 1;

/// Why a request to a daemon failed.
#[derive(Debug, thiserror::Error)]
pub enum UniverseError {
    #[error("the daemon of {node}: {error}")]
    Io { node: String, error: io::Error },
    #[error(
        "the name of this user's daemon on this host belongs to a process of user {user} (number {pid}): there is no \
         universe that could be trusted"
    )]
    ForeignOwner { user: u32, pid: i32 },
    #[error("the daemon of {node} refuses: {reason}")]
    Refused { node: String, reason: String },
    #[error(
        "the daemon of {node} cannot be authenticated ({what}): it belongs to another universe, or its messages were changed on the way"
    )]
    Forged { node: String, what: String },
    #[error(
        "the daemon of {node} has sent a malformed message ({what}): is it of another version of OxMPI?"
    )]
    Nonsense { node: String, what: String },
    #[error("{node}: {reason}")]
    Failed {
        node: String,
        /// errno, or 0.
        error: i32,
        reason: String,
    },
    #[error("there is no node n{number}; the last one is n{}", size - 1)]
    NoNode { number: usize, size: usize },
}

/// A program to run on a node.
#[derive(Clone, Debug)]
pub struct Program {
    /// The program and its arguments. A program without a `/` is searched in the PATH of `env`.
    pub args: Vec<OsString>,
    /// Variables that replace those of the node's daemon.
    pub env: Vec<(OsString, OsString)>,
    pub directory: PathBuf,
    /// Whether `directory` must exist; otherwise the home directory replaces it.
    pub is_strict: bool,
    /// After this time without an answer of this host's kernel, the daemon ends the program.
    pub silence: Duration,
    /// The limit for each answer of the daemon.
    pub patience: Duration,
}

/// A program that runs on a node. Dropping this ends the program and its process group (SIGTERM,
/// two seconds later SIGKILL).
#[derive(Debug)]
pub struct Running {
    pub pid: u32,
    control: ClientConnection,
}

/// The standard streams of a program on a node.
#[derive(Debug)]
pub struct Stdio {
    pub stream: Stream,
    pub errors: Stream,
}

impl Running {
    /// Waits for the program's end; an error if its daemon ends first, or is lost.
    pub fn wait(&mut self) -> Result<ProgramEnd, UniverseError> {
        match self.control.next(None)? {
            DaemonMessage::Ended { how, .. } => Ok(how),
            other => Err(self.control.nonsense(&other)),
        }
    }

    /// Readable when the program has ended, so that [`Running::wait`] does not wait.
    pub fn end(&self) -> BorrowedFd<'_> {
        self.control.socket.as_fd()
    }
}

/// The daemons of this user.
#[derive(Clone, Debug)]
pub struct Universe {
    suffix: String,
    view: View,
}

impl Universe {
    /// The user's universe with a daemon on this host; `None` if there is none. `suffix`
    /// distinguishes several universes of one user, and is usually empty.
    pub fn find(suffix: &str) -> Result<Option<Universe>, UniverseError> {
        Universe::find_within(suffix, PATIENCE)
    }

    /// As [`Universe::find`], with a limit for the daemon's answer.
    pub fn find_within(
        suffix: &str,
        patience: Duration,
    ) -> Result<Option<Universe>, UniverseError> {
        let named = ("this host".into(), patience);
        let Some(mut control) = ClientConnection::near(named, suffix, &Purpose::Control)? else {
            return Ok(None);
        };
        control.send(&DaemonMessage::Ask)?;
        match control.next(Some(patience))? {
            DaemonMessage::View(view) => Ok(Some(Universe { suffix: suffix.into(), view })),
            other => Err(control.nonsense(&other)),
        }
    }

    /// Distinguishes the universe from others of the same user.
    pub fn suffix(&self) -> &str {
        &self.suffix
    }

    /// The number of this host's node.
    pub fn own(&self) -> usize {
        self.view.own as usize
    }

    /// The nodes, in the order of their numbers.
    pub fn nodes(&self) -> Vec<Node> {
        self.view.nodes.iter().map(|seen| seen.node.clone()).collect()
    }

    /// Why a node's daemon does not answer the local one; `None` if it does.
    pub fn trouble(&self, node: usize) -> Option<&str> {
        self.view.nodes.get(node)?.trouble.as_deref()
    }

    /// Runs a program on a node.
    pub fn exec(&self, node: usize, program: &Program) -> Result<(Running, Stdio), UniverseError> {
        let patience = program.patience;
        let (mut control, id) = self.connect((node, patience), &Purpose::Control)?;
        control.end_when_unanswered(program.silence);
        let stream =
            |stream| self.connect((node, patience), &Purpose::Stream { connection: id, stream });
        let (stream, errors) = (stream(STDIO)?.0.into_stream()?, stream(ERRORS)?.0.into_stream()?);
        control.send(&DaemonMessage::Exec(Exec {
            id: 0,
            stdio: STDIO,
            errors: ERRORS,
            args: program.args.clone(),
            env: program.env.clone(),
            directory: program.directory.clone(),
            is_strict: program.is_strict,
            silence_s: u32::try_from(program.silence.as_secs()).unwrap_or(u32::MAX),
        }))?;
        match control.next(Some(patience))? {
            DaemonMessage::Started { pid, .. } => {
                Ok((Running { pid, control }, Stdio { stream, errors }))
            }
            DaemonMessage::Failed { error, reason, .. } => {
                Err(UniverseError::Failed { node: control.node, error, reason })
            }
            other => Err(control.nonsense(&other)),
        }
    }

    /// Ends all daemons and their programs, so that others can be booted. Returns the numbers of
    /// daemons that have not confirmed.
    pub fn halt(&self) -> Result<Vec<u32>, UniverseError> {
        let (mut control, _) = self.connect((self.own(), PATIENCE), &Purpose::Control)?;
        control.send(&DaemonMessage::Halt)?;
        match control.next(Some(HALT_PATIENCE))? {
            DaemonMessage::Halted { missing } => Ok(missing),
            other => Err(control.nonsense(&other)),
        }
    }

    fn connect(
        &self,
        (node, patience): (usize, Duration),
        purpose: &Purpose,
    ) -> Result<(ClientConnection, u64), UniverseError> {
        let Some(seen) = self.view.nodes.get(node) else {
            return Err(UniverseError::NoNode { number: node, size: self.view.nodes.len() });
        };
        let name = || format!("n{node} ({})", seen.node.name);
        debug!(node, purpose = %MessageName(purpose), "connecting to a daemon");
        let found = if node == self.own() {
            ClientConnection::near((name(), patience), &self.suffix, purpose)?
        } else {
            let named = (name(), node as u32, patience);
            Some(ClientConnection::far(named, &seen.node.addresses, &self.view.secret, purpose)?)
        };
        let gone =
            || UniverseError::Io { node: name(), error: io::ErrorKind::ConnectionRefused.into() };
        let connection = found.ok_or_else(gone)?;
        let id = connection.id;
        Ok((connection, id))
    }
}

#[derive(Debug)]
enum Socket {
    Near(UnixStream),
    Far(TcpStream),
}

impl Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Near(socket) => socket.as_fd(),
            Socket::Far(socket) => socket.as_fd(),
        }
    }

    fn set_patience(&self, time: Option<Duration>) -> io::Result<()> {
        // The socket refuses a limit of zero.
        let time = time.map(|time| time.max(Duration::from_millis(1)));
        match self {
            Socket::Near(socket) => {
                socket.set_read_timeout(time).and(socket.set_write_timeout(time))
            }
            Socket::Far(socket) => {
                socket.set_read_timeout(time).and(socket.set_write_timeout(time))
            }
        }
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Near(socket) => socket.read(bytes),
            Socket::Far(socket) => socket.read(bytes),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Socket::Near(socket) => socket.write_all(bytes),
            Socket::Far(socket) => socket.write_all(bytes),
        }
    }
}

#[derive(Debug)]
struct ClientConnection {
    node: String,
    socket: Socket,
    channel: SecureChannel,
    id: u64,
    patience: Duration,
}

impl ClientConnection {
    fn near(
        (node, patience): (String, Duration),
        suffix: &str,
        purpose: &Purpose,
    ) -> Result<Option<ClientConnection>, UniverseError> {
        let failed = |error| UniverseError::Io { node: node.clone(), error };
        let socket = match local::connect_stream(&socket_name(suffix)) {
            Ok(socket) => socket,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let peer = local::peer(&socket).map_err(failed)?;
        if peer.user != rustix::process::geteuid().as_raw() {
            return Err(UniverseError::ForeignOwner { user: peer.user, pid: peer.pid });
        }
        let socket = Socket::Near(socket.into());
        ClientConnection::introduced((node, patience), socket, SecureChannel::trusted(), purpose)
            .map(Some)
    }

    fn far(
        (node, number, patience): (String, u32, Duration),
        addresses: &[SocketAddr],
        secret: &Secret,
        purpose: &Purpose,
    ) -> Result<ClientConnection, UniverseError> {
        let unknown =
            io::Error::new(io::ErrorKind::AddrNotAvailable, "its addresses are not known");
        let mut failed = UniverseError::Io { node: node.clone(), error: unknown };
        for address in addresses {
            let node = format!("{node} at {address}");
            match TcpStream::connect_timeout(address, patience.max(Duration::from_millis(1))) {
                Ok(socket) => {
                    let channel = SecureChannel::initiator(secret, number).map_err(|error| {
                        UniverseError::Io { node: node.clone(), error: io::Error::other(error) }
                    })?;
                    // Without it small messages are only slower.
                    let _ = socket.set_nodelay(true);
                    let socket = Socket::Far(socket);
                    match ClientConnection::introduced((node, patience), socket, channel, purpose) {
                        // Another program accepts connections there, and closes them.
                        Err(UniverseError::Io { node, error })
                            if error.kind() != io::ErrorKind::TimedOut =>
                        {
                            failed = UniverseError::Io { node, error };
                        }
                        met => return met,
                    }
                }
                Err(error) => failed = UniverseError::Io { node, error },
            }
        }
        Err(failed)
    }

    fn introduced(
        (node, patience): (String, Duration),
        socket: Socket,
        channel: SecureChannel,
        purpose: &Purpose,
    ) -> Result<ClientConnection, UniverseError> {
        let mut connection = ClientConnection { node, socket, channel, id: 0, patience };
        connection.send(&DaemonMessage::Purpose(purpose.clone()))?;
        match connection.next(Some(patience))? {
            DaemonMessage::Accepted { connection: id } => connection.id = id,
            other => return Err(connection.nonsense(&other)),
        }
        Ok(connection)
    }

    fn failed(&self, error: io::Error) -> UniverseError {
        let error = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::new(
                io::ErrorKind::TimedOut,
                format!("it does not answer within {:?}", self.patience),
            ),
            _ => error,
        };
        UniverseError::Io { node: self.node.clone(), error }
    }

    fn nonsense(&self, message: &DaemonMessage) -> UniverseError {
        match message {
            DaemonMessage::Refused { reason } => {
                UniverseError::Refused { node: self.node.clone(), reason: reason.clone() }
            }
            other => {
                UniverseError::Nonsense { node: self.node.clone(), what: format!("{other:?}") }
            }
        }
    }

    fn send(&mut self, message: &DaemonMessage) -> Result<(), UniverseError> {
        let long = |error: ChannelError| UniverseError::Io {
            node: self.node.clone(),
            error: io::Error::other(error),
        };
        self.channel.send(message).map_err(long)?;
        self.flush()
    }

    fn flush(&mut self) -> Result<(), UniverseError> {
        let output = self.channel.output().to_vec();
        self.channel.sent(output.len());
        let sent = self
            .socket
            .set_patience(Some(self.patience))
            .and_then(|()| self.socket.write_all(&output));
        sent.map_err(|error| self.failed(error))
    }

    fn next(&mut self, patience: Option<Duration>) -> Result<DaemonMessage, UniverseError> {
        let mut bytes = [0; 1 << 14];
        loop {
            // Only the bytes of one message, so that [`Running::end`] reports the next one.
            let next = self.channel.next_message();
            self.flush()?;
            match next {
                Ok(Some(message)) => return Ok(message),
                Ok(None) => {}
                Err(error) => {
                    let (node, what) = (self.node.clone(), error.to_string());
                    return Err(match error {
                        ChannelError::Forged(_) => UniverseError::Forged { node, what },
                        _ => UniverseError::Nonsense { node, what },
                    });
                }
            }
            let room = self.channel.wanted().min(bytes.len());
            let read = self
                .socket
                .set_patience(patience)
                .and_then(|()| self.socket.read(&mut bytes[..room]));
            match read {
                Ok(0) => {
                    let text = match (self.id, &self.socket) {
                        (0, Socket::Far(_)) => {
                            "it has closed the connection at once: it belongs to another universe, or the greeting was \
                             changed on the way"
                        }
                        _ => "it has closed the connection",
                    };
                    return Err(self.failed(io::Error::new(io::ErrorKind::UnexpectedEof, text)));
                }
                Ok(n) => self.channel.feed(&bytes[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    fn into_stream(self) -> Result<Stream, UniverseError> {
        let stream = match self.socket {
            Socket::Near(socket) => Stream::over(socket.into(), None),
            Socket::Far(socket) => Stream::over(socket.into(), Some(self.channel)),
        };
        stream.map_err(|error| UniverseError::Io { node: self.node, error })
    }

    /// Ends the connection when the other host's kernel stops answering. On the streams of a
    /// program this would take a stopped program for a lost one, once its buffers are full.
    fn end_when_unanswered(&self, silence: Duration) {
        if let Socket::Far(socket) = &self.socket {
            let _ = net::end_when_unanswered(socket, silence);
        }
    }
}
