//! What a user's programs ask of the daemons.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use oxmpi_sys::{local, net};
use oxmpi_wire::Secret;

use super::channel::{Channel, ChannelError};
use super::message::{Exec, Message, Purpose, View};
use super::{Ended, Node, socket_name};
use crate::hosts::stream::Stream;

/// How long a daemon may take to answer, and to be connected to, if nobody says otherwise.
pub const PATIENCE: Duration = Duration::from_secs(15);
/// How long the end of all may take.
const HALT_PATIENCE: Duration = Duration::from_secs(30);
/// The streams of a program, by name.
const STDIO: u32 = 0;
const ERRORS: u32 = 1;

/// Why a daemon does not do what it should.
#[derive(Debug, thiserror::Error)]
pub enum UniverseError {
    /// It cannot be reached, or is silent.
    #[error("the daemon of {node}: {error}")]
    Io {
        /// Its node.
        node: String,
        /// What is wrong.
        error: io::Error,
    },
    /// Somebody else's process has taken the name of this user's daemon.
    #[error(
        "the name of this user's daemon on this host belongs to a process of user {user} (number {pid}): there is no \
         universe that could be trusted"
    )]
    Stranger {
        /// Whose.
        user: u32,
        /// Which.
        pid: i32,
    },
    /// It has refused.
    #[error("the daemon of {node} refuses: {reason}")]
    Refused {
        /// Its node.
        node: String,
        /// Why.
        reason: String,
    },
    /// What came is not from it.
    #[error(
        "the daemon of {node} is not there, or what it has said was changed on the way ({what}): it belongs to another universe,          or somebody on the network takes its place"
    )]
    Forged {
        /// Its node.
        node: String,
        /// What is wrong.
        what: String,
    },
    /// It says what makes no sense.
    #[error("the daemon of {node} says what makes no sense ({what}): is it of another version of OxMPI?")]
    Nonsense {
        /// Its node.
        node: String,
        /// What.
        what: String,
    },
    /// A program does not run.
    #[error("{node}: {reason}")]
    Failed {
        /// The node.
        node: String,
        /// The number of the error (errno), or 0.
        error: i32,
        /// Why.
        reason: String,
    },
    /// There is no such node.
    #[error("there is no node n{number}; the last one is n{}", size - 1)]
    NoNode {
        /// Its number.
        number: usize,
        /// How many there are.
        size: usize,
    },
}

/// A program to run on a node.
#[derive(Clone, Debug)]
pub struct Program {
    /// It and its arguments. Without a `/` it is looked for in the PATH that it will have.
    pub args: Vec<OsString>,
    /// Variables that are stronger than those of the node's daemon.
    pub env: Vec<(OsString, OsString)>,
    /// Where to start it, an absolute path.
    pub directory: PathBuf,
    /// Whether it must start there. Else, if there is no such directory, it starts in the home directory.
    pub is_strict: bool,
    /// After how long without an answer from this host, as its kernel gives, the daemon of another ends it.
    pub silence: Duration,
    /// How long the daemon may take for each answer.
    pub patience: Duration,
}

/// A program that runs on a node. When this is dropped, the program and its process group are ended (SIGTERM, two seconds later
/// SIGKILL).
#[derive(Debug)]
pub struct Running {
    /// Its process id on its node.
    pub pid: u32,
    control: Connection,
}

/// The standard streams of a program that runs on a node.
#[derive(Debug)]
pub struct Stdio {
    /// Its standard input and output.
    pub stream: Stream,
    /// Its standard error.
    pub errors: Stream,
}

impl Running {
    /// Waits for its end.
    ///
    /// # Errors
    /// If its daemon ends before it, or is lost.
    pub fn wait(&mut self) -> Result<Ended, UniverseError> {
        match self.control.next(None)? {
            Message::Ended { how, .. } => Ok(how),
            other => Err(self.control.nonsense(&other)),
        }
    }

    /// Becomes readable when it has ended: then [`Running::wait`] does not wait.
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
    /// The universe of this user that has a daemon on this host; `None` if there is none. `suffix` tells universes of one user
    /// apart, and is usually empty.
    ///
    /// # Errors
    /// If there is something that does not behave as a daemon.
    pub fn find(suffix: &str) -> Result<Option<Universe>, UniverseError> {
        Universe::find_within(suffix, PATIENCE)
    }

    /// The same, if its daemon answers within `patience`.
    ///
    /// # Errors
    /// As there.
    pub fn find_within(suffix: &str, patience: Duration) -> Result<Option<Universe>, UniverseError> {
        let named = ("this host".into(), patience);
        let Some(mut control) = Connection::near(named, suffix, &Purpose::Control)? else {
            return Ok(None);
        };
        control.send(&Message::Ask)?;
        match control.next(Some(patience))? {
            Message::View(view) => Ok(Some(Universe { suffix: suffix.into(), view })),
            other => Err(control.nonsense(&other)),
        }
    }

    /// The number of this host's node.
    pub fn own(&self) -> usize {
        self.view.own as usize
    }

    /// The nodes, in the order of their numbers.
    pub fn nodes(&self) -> Vec<Node> {
        self.view.nodes.iter().map(|seen| seen.node.clone()).collect()
    }

    /// Why a node's daemon does not answer the one here; `None` if it does.
    pub fn trouble(&self, node: usize) -> Option<&str> {
        self.view.nodes.get(node)?.trouble.as_deref()
    }

    /// Runs a program on a node.
    ///
    /// # Errors
    /// If the node's daemon cannot be reached, or cannot run it.
    pub fn exec(&self, node: usize, program: &Program) -> Result<(Running, Stdio), UniverseError> {
        let patience = program.patience;
        let (mut control, id) = self.connect((node, patience), &Purpose::Control)?;
        control.end_when_unanswered(program.silence);
        let stream = |stream| self.connect((node, patience), &Purpose::Stream { connection: id, stream });
        let (stream, errors) = (stream(STDIO)?.0.into_stream()?, stream(ERRORS)?.0.into_stream()?);
        control.send(&Message::Exec(Exec {
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
            Message::Started { pid, .. } => Ok((Running { pid, control }, Stdio { stream, errors })),
            Message::Failed { error, reason, .. } => {
                Err(UniverseError::Failed { node: control.node, error, reason })
            }
            other => Err(control.nonsense(&other)),
        }
    }

    /// Ends all daemons and what they have started: others can be booted then. Returns the numbers of those that did not say that
    /// they have.
    ///
    /// # Errors
    /// If the daemon of this host does not answer.
    pub fn halt(&self) -> Result<Vec<u32>, UniverseError> {
        let (mut control, _) = self.connect((self.own(), PATIENCE), &Purpose::Control)?;
        control.send(&Message::Halt)?;
        match control.next(Some(HALT_PATIENCE))? {
            Message::Halted { missing } => Ok(missing),
            other => Err(control.nonsense(&other)),
        }
    }

    /// A connection with a node's daemon, and its number there.
    fn connect(
        &self,
        (node, patience): (usize, Duration),
        purpose: &Purpose,
    ) -> Result<(Connection, u64), UniverseError> {
        let Some(seen) = self.view.nodes.get(node) else {
            return Err(UniverseError::NoNode { number: node, size: self.view.nodes.len() });
        };
        let name = || format!("n{node} ({})", seen.node.name);
        let found = if node == self.own() {
            Connection::near((name(), patience), &self.suffix, purpose)?
        } else {
            let named = (name(), node as u32, patience);
            Some(Connection::far(named, &seen.node.addresses, &self.view.secret, purpose)?)
        };
        let gone = || UniverseError::Io { node: name(), error: io::ErrorKind::ConnectionRefused.into() };
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
        // Zero would be refused.
        let time = time.map(|time| time.max(Duration::from_millis(1)));
        match self {
            Socket::Near(socket) => socket.set_read_timeout(time).and(socket.set_write_timeout(time)),
            Socket::Far(socket) => socket.set_read_timeout(time).and(socket.set_write_timeout(time)),
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

/// A connection with a daemon, which waits for answers.
#[derive(Debug)]
struct Connection {
    node: String,
    socket: Socket,
    channel: Channel,
    /// Its number at the daemon.
    id: u64,
    /// How long the daemon may take to take what is sent.
    patience: Duration,
}

impl Connection {
    /// With the daemon of this host, if there is one.
    fn near(
        (node, patience): (String, Duration),
        suffix: &str,
        purpose: &Purpose,
    ) -> Result<Option<Connection>, UniverseError> {
        let failed = |error| UniverseError::Io { node: node.clone(), error };
        let socket = match local::connect_stream(&socket_name(suffix)) {
            Ok(socket) => socket,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let peer = local::peer(&socket).map_err(failed)?;
        if peer.user != rustix::process::geteuid().as_raw() {
            return Err(UniverseError::Stranger { user: peer.user, pid: peer.pid });
        }
        let socket = Socket::Near(socket.into());
        Connection::introduced((node, patience), socket, Channel::trusted(), purpose).map(Some)
    }

    fn far(
        (node, number, patience): (String, u32, Duration),
        addresses: &[SocketAddr],
        secret: &Secret,
        purpose: &Purpose,
    ) -> Result<Connection, UniverseError> {
        let unknown = io::Error::new(io::ErrorKind::AddrNotAvailable, "its addresses are not known");
        let mut failed = UniverseError::Io { node: node.clone(), error: unknown };
        for address in addresses {
            let node = format!("{node} at {address}");
            match TcpStream::connect_timeout(address, patience.max(Duration::from_millis(1))) {
                Ok(socket) => {
                    let channel = Channel::initiator(secret, number).map_err(|error| UniverseError::Io {
                        node: node.clone(),
                        error: io::Error::other(error),
                    })?;
                    // It only makes small messages slower.
                    let _ = socket.set_nodelay(true);
                    let socket = Socket::Far(socket);
                    match Connection::introduced((node, patience), socket, channel, purpose) {
                        // Something else accepts connections there, and closes them.
                        Err(UniverseError::Io { node, error }) if error.kind() != io::ErrorKind::TimedOut => {
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
        channel: Channel,
        purpose: &Purpose,
    ) -> Result<Connection, UniverseError> {
        let mut connection = Connection { node, socket, channel, id: 0, patience };
        connection.send(&Message::Purpose(purpose.clone()))?;
        match connection.next(Some(patience))? {
            Message::Accepted { connection: id } => connection.id = id,
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

    fn nonsense(&self, message: &Message) -> UniverseError {
        match message {
            Message::Refused { reason } => {
                UniverseError::Refused { node: self.node.clone(), reason: reason.clone() }
            }
            other => UniverseError::Nonsense { node: self.node.clone(), what: format!("{other:?}") },
        }
    }

    fn send(&mut self, message: &Message) -> Result<(), UniverseError> {
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
        let sent =
            self.socket.set_patience(Some(self.patience)).and_then(|()| self.socket.write_all(&output));
        sent.map_err(|error| self.failed(error))
    }

    /// The next message.
    fn next(&mut self, patience: Option<Duration>) -> Result<Message, UniverseError> {
        let mut bytes = [0; 1 << 14];
        loop {
            // Only what belongs to the next message, so that [`Running::end`] tells of the one behind it.
            let next = self.channel.next();
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
            let read = self.socket.set_patience(patience).and_then(|()| self.socket.read(&mut bytes[..room]));
            match read {
                Ok(0) => {
                    let text = match (self.id, &self.socket) {
                        (0, Socket::Far(_)) => {
                            "it has closed the connection at once: it belongs to another universe, or what it was told was \
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

    /// What was accepted as a stream of a program.
    fn into_stream(self) -> Result<Stream, UniverseError> {
        let stream = match self.socket {
            Socket::Near(socket) => Stream::over(socket.into(), None),
            Socket::Far(socket) => Stream::over(socket.into(), Some(self.channel)),
        };
        stream.map_err(|error| UniverseError::Io { node: self.node, error })
    }

    /// Ends with the other host, whose kernel answers as long as it is there. The same over the streams of a program would take
    /// one that is stopped for one that is gone, when what it was sent fills its buffers.
    fn end_when_unanswered(&self, silence: Duration) {
        if let Socket::Far(socket) = &self.socket {
            // Where the kernel does not know it, a host that is gone is noticed later.
            let _ = net::end_when_unanswered(socket, silence);
        }
    }
}
