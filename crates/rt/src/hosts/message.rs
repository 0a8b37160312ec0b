//! The messages between `mpirun`, the head, and the agent that it has started on another host: pure encoding and decoding.
//!
//! They travel over a stream of bytes in each direction. The agent's begins with a line, [`greeting`]; what a login script prints
//! before it is not ours. From then on each message has its length in front, 4 bytes, little endian; a byte says its kind; the
//! rest is as in the module `codec`. A process is named by its number among all of the head.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use crate::codec::{Reader, Writer};
use crate::job::{Exit, Stage};
use crate::launch::Bind;

/// The version of this protocol. Both sides come from one installation; a difference means that they do not.
pub const VERSION: u32 = 4;
/// The longest message in bytes: a limit against senders that are wrong.
pub const MAX_MESSAGE: usize = 128 << 20;
/// How the line begins with which an agent says that it is there.
const GREETING: &str = "OXMPI-AGENT ";
/// What may come before it.
const MAX_NOISE: usize = 64 << 10;

/// A variable of an environment.
pub type Variable = (OsString, OsString);

/// What the head tells an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToAgent {
    /// Make ready for these ranks. Answered by [`FromAgent::Ready`] or [`FromAgent::Failed`].
    Order(Box<Order>),
    /// Start them. Answered by [`FromAgent::Started`] or [`FromAgent::Failed`].
    Go,
    /// The job from this number on does not start: nothing of it is left.
    Abandon {
        /// The number of its first process.
        base: u32,
    },
    /// The spawned job that has these numbers is over: nothing of its processes is kept but what others may ask for.
    Bury {
        /// The number of its first process.
        base: u32,
        /// How many it had.
        size: u32,
    },
    /// Nobody will ask for these processes any more.
    Forget {
        /// The number of the first.
        base: u32,
        /// How many they were.
        size: u32,
    },
    /// What a process has asked is answered so.
    Answer {
        /// Its number.
        rank: u32,
        /// The reply of [`crate::control`], encoded.
        reply: Vec<u8>,
        /// The contents of the descriptor beside it, if there is one.
        blob: Option<Vec<u8>>,
    },
    /// Send a signal to processes.
    Signal {
        /// Its number.
        number: i32,
        /// The processes.
        ranks: Vec<u32>,
    },
    /// Something for the relay of the agent's host (rpi lamd).
    Relay {
        /// The order of `oxmpi_wire::relay`, encoded.
        order: Vec<u8>,
    },
    /// So many more processes have died, which the others survive.
    Died {
        /// How many.
        count: u32,
    },
    /// Messages stand still: all processes shall take this step.
    Step {
        /// Its number.
        number: u32,
        /// Whether it is to end connections: each needs a new listener for it.
        closes: bool,
    },
    /// How far are the processes? Answered by [`FromAgent::Seen`].
    Look,
    /// Where can this process be reached? Answered by [`FromAgent::Answer`].
    Where {
        /// Who asks.
        asker: u32,
        /// The process.
        rank: u32,
    },
    /// Standard input for a process.
    Input {
        /// The process.
        rank: u32,
        /// The bytes; none: its end.
        bytes: Vec<u8>,
    },
    /// So many bytes of output were printed, and so many more may be sent.
    Taken {
        /// How many.
        bytes: u64,
    },
    /// Everything is over: kill what is left, and end.
    End,
}

/// What an agent tells the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromAgent {
    /// Everything is made for the ranks; nothing runs yet.
    Ready {
        /// Where each can be reached.
        addresses: Vec<(u32, String)>,
        /// Where the relay of the host can be reached; empty if there is none.
        relay: String,
    },
    /// The ranks run.
    Started {
        /// Their process numbers there.
        pids: Vec<(u32, u32)>,
    },
    /// The ranks cannot be started, and none of them is left.
    Failed {
        /// The number of the first process of the job.
        base: u32,
        /// Whether it is the program that cannot be run.
        is_program: bool,
        /// Why, for a person.
        text: String,
    },
    /// The relay of the agent's host says something.
    Relay {
        /// The notice of `oxmpi_wire::relay`, encoded.
        notice: Vec<u8>,
    },
    /// It has ended.
    RelayEnded {
        /// Its process number.
        pid: u32,
        /// How.
        exit: Exit,
    },
    /// Something for the user, in whole lines.
    Text {
        /// It.
        text: String,
    },
    /// A process asks, or says something.
    Request {
        /// The process.
        rank: u32,
        /// The request of [`crate::control`], encoded.
        request: Vec<u8>,
        /// The contents of the descriptor beside it, if there is one.
        blob: Option<Vec<u8>>,
        /// How far the process is.
        seen: Seen,
    },
    /// What a process wrote.
    Output {
        /// The process.
        rank: u32,
        /// Whether to standard error.
        is_error: bool,
        /// The bytes; none: the process has closed it.
        bytes: Vec<u8>,
    },
    /// A process has ended.
    Exited {
        /// The process.
        rank: u32,
        /// How.
        exit: Exit,
        /// How far it was.
        seen: Seen,
    },
    /// How far the processes are.
    Seen(Vec<(u32, Seen)>),
    /// Where a process can be reached.
    Answer {
        /// Who has asked.
        asker: u32,
        /// The reply of [`crate::control`], encoded.
        reply: Vec<u8>,
    },
    /// A process has taken so much of its standard input.
    InputTaken {
        /// The process.
        rank: u32,
        /// How many bytes.
        bytes: u64,
    },
    /// The agent is there still; it says so from time to time.
    Alive,
}

/// What can be read of a rank from the header page of its segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The process id; 0 if not known.
    pub pid: u32,
    /// How far it has come.
    pub stage: Stage,
    /// The number of the MPI function that it called last; 0 if it called none.
    pub last_call: u16,
    /// Whether it has left MPI for now, and may come back.
    pub rests: bool,
}

/// The ranks that an agent is to start, and what it needs to know of all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Names all jobs of the head.
    pub universe: u64,
    /// Which of the nodes the agent's host is.
    pub node: u32,
    /// The number of the first process of the job; each other one has the next.
    pub base: u32,
    /// Whether the jobs of the head are on several hosts.
    pub several: bool,
    /// How many processes have died before.
    pub deaths: u32,
    /// The last step that was asked for on the way to where messages stand still.
    pub step: u32,
    /// Whether ranks get sockets.
    pub sockets: bool,
    /// On which node each rank of the job is.
    pub nodes: Vec<u32>,
    /// The programs; ranks are numbered through in this order.
    pub apps: Vec<Program>,
    /// Variables for all ranks, stronger than what they inherit.
    pub env: Vec<Variable>,
    /// By which processes of the job prove who they are.
    pub secret: [u8; 32],
    /// Hosts, and the addresses that they tell in place of their own.
    pub hostmap: Vec<(String, String)>,
    /// What ranks are bound to.
    pub bind: Bind,
    /// Whether a line for each rank says what it is bound to.
    pub report_bindings: bool,
    /// The ranks whose standard input the head sends.
    pub fed: Vec<u32>,
}

/// A program of an [`Order`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// How many ranks run it, on all hosts.
    pub ranks: u32,
    /// The file as the head has found it.
    pub path: PathBuf,
    /// Its arguments, its own name first.
    pub args: Vec<OsString>,
    /// Variables that its ranks inherit from the head, if not those of the agent.
    pub inherited: Option<Vec<Variable>>,
    /// Variables for its ranks alone.
    pub env: Vec<Variable>,
    /// The directory to start in.
    pub directory: PathBuf,
}

/// Why a stream is none of an agent, or of a head.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The other side is of another version.
    #[error(
        "it is of OxMPI {found}, and this is {own}: name the directory of the same installation there with --prefix, or \
         install the same version"
    )]
    Version {
        /// What it says.
        found: String,
        /// What we say.
        own: String,
    },
    /// It is no agent.
    #[error("it does not speak as an agent does, but says: {0}")]
    NoAgent(String),
    /// A message that nobody has encoded.
    #[error("a message of kind {kind} with {length} bytes makes no sense")]
    Nonsense {
        /// Its kind.
        kind: u8,
        /// Its length in bytes.
        length: usize,
    },
}

fn own_version() -> String {
    format!("{} (agents {VERSION})", env!("CARGO_PKG_VERSION"))
}

/// The line with which an agent begins.
pub fn greeting() -> String {
    format!("{GREETING}{}\n", own_version())
}

/// Looks for the line in what has come. `None`: it may come yet. Else how many bytes come before what follows it.
///
/// # Errors
/// The line is of another version, or something else has come.
pub fn find_greeting(bytes: &[u8]) -> Result<Option<usize>, StreamError> {
    let mut at = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let end = at + line.len();
        if let Some(version) = line.strip_prefix(GREETING.as_bytes()) {
            let Some(version) = version.strip_suffix(b"\n") else { return Ok(None) };
            let (found, own) = (String::from_utf8_lossy(version).into_owned(), own_version());
            return if found == own { Ok(Some(end)) } else { Err(StreamError::Version { found, own }) };
        }
        at = end;
    }
    if bytes.len() > MAX_NOISE {
        return Err(StreamError::NoAgent(shown(bytes)));
    }
    Ok(None)
}

/// The beginning of what has come in place of a greeting.
pub fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]);
    text.trim().chars().map(|c| if c.is_control() && c != '\n' { '.' } else { c }).collect()
}

/// The next message of a stream, without its length: how many bytes it takes with it. `None` if it has not come whole.
///
/// # Errors
/// It claims to be longer than messages are, or empty.
pub fn next(bytes: &[u8]) -> Result<Option<usize>, StreamError> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > MAX_MESSAGE {
        return Err(StreamError::Nonsense { kind: rest.first().copied().unwrap_or(0), length });
    }
    Ok((rest.len() >= length).then_some(4 + length))
}

mod kind {
    pub(super) const ORDER: u8 = 1;
    pub(super) const GO: u8 = 2;
    pub(super) const ANSWER: u8 = 3;
    pub(super) const SIGNAL: u8 = 4;
    pub(super) const DIED: u8 = 5;
    pub(super) const LOOK: u8 = 6;
    pub(super) const WHERE: u8 = 7;
    pub(super) const INPUT: u8 = 8;
    pub(super) const TAKEN: u8 = 9;
    pub(super) const END: u8 = 10;
    pub(super) const TO_RELAY: u8 = 11;
    pub(super) const STEP: u8 = 12;
    pub(super) const ABANDON: u8 = 13;
    pub(super) const BURY: u8 = 14;
    pub(super) const FORGET: u8 = 15;
    pub(super) const READY: u8 = 65;
    pub(super) const STARTED: u8 = 66;
    pub(super) const FAILED: u8 = 67;
    pub(super) const TEXT: u8 = 68;
    pub(super) const REQUEST: u8 = 69;
    pub(super) const OUTPUT: u8 = 70;
    pub(super) const EXITED: u8 = 71;
    pub(super) const SEEN: u8 = 72;
    pub(super) const FOUND: u8 = 73;
    pub(super) const INPUT_TAKEN: u8 = 74;
    pub(super) const ALIVE: u8 = 75;
    pub(super) const OF_RELAY: u8 = 76;
    pub(super) const RELAY_ENDED: u8 = 77;
}

/// A message of this kind, with its length.
fn framed(kind: u8, write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut out = Writer::default();
    write(&mut out);
    let rest = out.into_bytes();
    let mut bytes = Vec::with_capacity(5 + rest.len());
    bytes.extend((rest.len() as u32 + 1).to_le_bytes());
    bytes.push(kind);
    bytes.extend(rest);
    bytes
}

/// Reads one message, which has its length in front.
fn read<T>(bytes: &[u8], read: impl FnOnce(u8, &mut Reader<'_>) -> Option<T>) -> Result<T, StreamError> {
    let (kind, rest) = match bytes {
        [_, _, _, _, kind, rest @ ..] => (*kind, rest),
        _ => return Err(StreamError::Nonsense { kind: 0, length: bytes.len() }),
    };
    let mut from = Reader::new(rest);
    let message = read(kind, &mut from).filter(|_| from.is_empty());
    message.ok_or(StreamError::Nonsense { kind, length: bytes.len() })
}

fn range(out: &mut Writer, base: u32, size: u32) {
    out.number(base.into());
    out.number(size.into());
}

impl ToAgent {
    /// As bytes, the length in front.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ToAgent::Order(order) => framed(kind::ORDER, |out| order.write(out)),
            ToAgent::Go => framed(kind::GO, |_| {}),
            ToAgent::Abandon { base } => framed(kind::ABANDON, |out| out.number((*base).into())),
            ToAgent::Bury { base, size } => framed(kind::BURY, |out| range(out, *base, *size)),
            ToAgent::Forget { base, size } => framed(kind::FORGET, |out| range(out, *base, *size)),
            ToAgent::Answer { rank, reply, blob } => framed(kind::ANSWER, |out| {
                out.number((*rank).into());
                out.bytes(reply);
                out.option(blob.as_deref());
            }),
            ToAgent::Signal { number, ranks } => framed(kind::SIGNAL, |out| {
                out.number(number.cast_unsigned().into());
                out.list(ranks, |out, rank| out.number((*rank).into()));
            }),
            ToAgent::Relay { order } => framed(kind::TO_RELAY, |out| out.bytes(order)),
            ToAgent::Died { count } => framed(kind::DIED, |out| out.number((*count).into())),
            ToAgent::Step { number, closes } => framed(kind::STEP, |out| {
                out.number((*number).into());
                out.number((*closes).into());
            }),
            ToAgent::Look => framed(kind::LOOK, |_| {}),
            ToAgent::Where { asker, rank } => framed(kind::WHERE, |out| {
                out.number((*asker).into());
                out.number((*rank).into());
            }),
            ToAgent::Input { rank, bytes } => framed(kind::INPUT, |out| {
                out.number((*rank).into());
                out.bytes(bytes);
            }),
            ToAgent::Taken { bytes } => framed(kind::TAKEN, |out| out.number(*bytes)),
            ToAgent::End => framed(kind::END, |_| {}),
        }
    }

    /// Reads a message that a head sent, its length in front.
    ///
    /// # Errors
    /// Anything that [`ToAgent::encode`] cannot have made.
    pub fn decode(bytes: &[u8]) -> Result<ToAgent, StreamError> {
        read(bytes, |kind, from| {
            Some(match kind {
                kind::ORDER => ToAgent::Order(Box::new(Order::read(from)?)),
                kind::GO => ToAgent::Go,
                kind::ABANDON => ToAgent::Abandon { base: from.word()? },
                kind::BURY => ToAgent::Bury { base: from.word()?, size: from.word()? },
                kind::FORGET => ToAgent::Forget { base: from.word()?, size: from.word()? },
                kind::ANSWER => {
                    ToAgent::Answer { rank: from.word()?, reply: from.bytes()?, blob: from.option()? }
                }
                kind::SIGNAL => {
                    ToAgent::Signal { number: from.word()?.cast_signed(), ranks: from.list(Reader::word)? }
                }
                kind::TO_RELAY => ToAgent::Relay { order: from.bytes()? },
                kind::DIED => ToAgent::Died { count: from.word()? },
                kind::STEP => ToAgent::Step { number: from.word()?, closes: from.bool()? },
                kind::LOOK => ToAgent::Look,
                kind::WHERE => ToAgent::Where { asker: from.word()?, rank: from.word()? },
                kind::INPUT => ToAgent::Input { rank: from.word()?, bytes: from.bytes()? },
                kind::TAKEN => ToAgent::Taken { bytes: from.number()? },
                kind::END => ToAgent::End,
                _ => return None,
            })
        })
    }
}

impl FromAgent {
    /// As bytes, the length in front.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            FromAgent::Ready { addresses, relay } => framed(kind::READY, |out| {
                out.list(addresses, |out, (rank, address)| {
                    out.number((*rank).into());
                    out.bytes(address.as_bytes());
                });
                out.bytes(relay.as_bytes());
            }),
            FromAgent::Started { pids } => framed(kind::STARTED, |out| {
                out.list(pids, |out, (rank, pid)| {
                    out.number((*rank).into());
                    out.number((*pid).into());
                });
            }),
            FromAgent::Failed { base, is_program, text } => framed(kind::FAILED, |out| {
                out.number((*base).into());
                out.number((*is_program).into());
                out.bytes(text.as_bytes());
            }),
            FromAgent::Relay { notice } => framed(kind::OF_RELAY, |out| out.bytes(notice)),
            FromAgent::RelayEnded { pid, exit } => framed(kind::RELAY_ENDED, |out| {
                out.number((*pid).into());
                write_exit(out, *exit);
            }),
            FromAgent::Text { text } => framed(kind::TEXT, |out| out.bytes(text.as_bytes())),
            FromAgent::Request { rank, request, blob, seen } => framed(kind::REQUEST, |out| {
                out.number((*rank).into());
                out.bytes(request);
                out.option(blob.as_deref());
                seen.write(out);
            }),
            FromAgent::Output { rank, is_error, bytes } => framed(kind::OUTPUT, |out| {
                out.number((*rank).into());
                out.number((*is_error).into());
                out.bytes(bytes);
            }),
            FromAgent::Exited { rank, exit, seen } => framed(kind::EXITED, |out| {
                out.number((*rank).into());
                write_exit(out, *exit);
                seen.write(out);
            }),
            FromAgent::Seen(all) => framed(kind::SEEN, |out| {
                out.list(all, |out, (rank, seen)| {
                    out.number((*rank).into());
                    seen.write(out);
                });
            }),
            FromAgent::Answer { asker, reply } => framed(kind::FOUND, |out| {
                out.number((*asker).into());
                out.bytes(reply);
            }),
            FromAgent::InputTaken { rank, bytes } => framed(kind::INPUT_TAKEN, |out| {
                out.number((*rank).into());
                out.number(*bytes);
            }),
            FromAgent::Alive => framed(kind::ALIVE, |_| {}),
        }
    }

    /// Reads a message that an agent sent, its length in front.
    ///
    /// # Errors
    /// Anything that [`FromAgent::encode`] cannot have made.
    pub fn decode(bytes: &[u8]) -> Result<FromAgent, StreamError> {
        read(bytes, |kind, from| {
            Some(match kind {
                kind::READY => FromAgent::Ready {
                    addresses: from.list(|from| from.word().zip(from.text()))?,
                    relay: from.text()?,
                },
                kind::OF_RELAY => FromAgent::Relay { notice: from.bytes()? },
                kind::RELAY_ENDED => FromAgent::RelayEnded { pid: from.word()?, exit: read_exit(from)? },
                kind::STARTED => FromAgent::Started { pids: from.list(|from| from.word().zip(from.word()))? },
                kind::FAILED => {
                    FromAgent::Failed { base: from.word()?, is_program: from.bool()?, text: from.text()? }
                }
                kind::TEXT => FromAgent::Text { text: from.text()? },
                kind::REQUEST => FromAgent::Request {
                    rank: from.word()?,
                    request: from.bytes()?,
                    blob: from.option()?,
                    seen: Seen::read(from)?,
                },
                kind::OUTPUT => {
                    FromAgent::Output { rank: from.word()?, is_error: from.bool()?, bytes: from.bytes()? }
                }
                kind::EXITED => {
                    FromAgent::Exited { rank: from.word()?, exit: read_exit(from)?, seen: Seen::read(from)? }
                }
                kind::SEEN => FromAgent::Seen(from.list(|from| from.word().zip(Seen::read(from)))?),
                kind::FOUND => FromAgent::Answer { asker: from.word()?, reply: from.bytes()? },
                kind::INPUT_TAKEN => FromAgent::InputTaken { rank: from.word()?, bytes: from.number()? },
                kind::ALIVE => FromAgent::Alive,
                _ => return None,
            })
        })
    }
}

impl Seen {
    fn write(&self, out: &mut Writer) {
        out.number(self.pid.into());
        out.number(match self.stage {
            Stage::Untouched => 0,
            Stage::Initialized => 1,
            Stage::Finalized => 2,
            Stage::Finalizing => 3,
        });
        out.number(self.last_call.into());
        out.number(self.rests.into());
    }

    fn read(from: &mut Reader<'_>) -> Option<Seen> {
        let pid = from.word()?;
        let stage = match from.number()? {
            0 => Stage::Untouched,
            1 => Stage::Initialized,
            2 => Stage::Finalized,
            3 => Stage::Finalizing,
            _ => return None,
        };
        Some(Seen { pid, stage, last_call: from.number()?.try_into().ok()?, rests: from.bool()? })
    }
}

fn write_exit(out: &mut Writer, exit: Exit) {
    let (how, number) = match exit {
        Exit::Code(code) => (0, code),
        Exit::Signal(signal) => (1, signal),
        Exit::Unknown => (2, 0),
    };
    out.number(how);
    out.number(number.cast_unsigned().into());
}

fn read_exit(from: &mut Reader<'_>) -> Option<Exit> {
    Some(match (from.number()?, from.word()?.cast_signed()) {
        (0, code) => Exit::Code(code),
        (1, signal) => Exit::Signal(signal),
        (2, 0) => Exit::Unknown,
        _ => return None,
    })
}

fn write_variables(out: &mut Writer, all: &[Variable]) {
    out.list(all, |out, (name, value)| {
        out.bytes(name.as_bytes());
        out.bytes(value.as_bytes());
    });
}

fn read_variables(from: &mut Reader<'_>) -> Option<Vec<Variable>> {
    from.list(|from| from.os_string().zip(from.os_string()))
}

impl Order {
    fn write(&self, out: &mut Writer) {
        out.number(VERSION.into());
        out.number(self.universe);
        out.number(self.node.into());
        out.number(self.base.into());
        out.number(self.several.into());
        out.number(self.deaths.into());
        out.number(self.step.into());
        out.number(self.sockets.into());
        out.list(&self.nodes, |out, node| out.number((*node).into()));
        out.list(&self.apps, |out, app| app.write(out));
        write_variables(out, &self.env);
        out.bytes(&self.secret);
        out.list(&self.hostmap, |out, (host, address)| {
            out.bytes(host.as_bytes());
            out.bytes(address.as_bytes());
        });
        let (how, cores) = match self.bind {
            Bind::Split => (0, 0),
            Bind::None => (1, 0),
            Bind::HardwareThread => (2, 0),
            Bind::Cores(cores) => (3, cores as u64),
        };
        out.number(how);
        out.number(cores);
        out.number(self.report_bindings.into());
        out.list(&self.fed, |out, rank| out.number((*rank).into()));
    }

    fn read(from: &mut Reader<'_>) -> Option<Order> {
        from.word().filter(|version| *version == VERSION)?;
        Some(Order {
            universe: from.number()?,
            node: from.word()?,
            base: from.word()?,
            several: from.bool()?,
            deaths: from.word()?,
            step: from.word()?,
            sockets: from.bool()?,
            nodes: from.list(Reader::word)?,
            apps: from.list(Program::read)?,
            env: read_variables(from)?,
            secret: from.bytes()?.try_into().ok()?,
            hostmap: from.list(|from| from.text().zip(from.text()))?,
            bind: match (from.number()?, from.number()?) {
                (0, 0) => Bind::Split,
                (1, 0) => Bind::None,
                (2, 0) => Bind::HardwareThread,
                (3, cores) => Bind::Cores(usize::try_from(cores).ok()?),
                _ => return None,
            },
            report_bindings: from.bool()?,
            fed: from.list(Reader::word)?,
        })
    }
}

impl Program {
    fn write(&self, out: &mut Writer) {
        out.number(self.ranks.into());
        out.bytes(self.path.as_os_str().as_bytes());
        out.list(&self.args, |out, word| out.bytes(word.as_bytes()));
        out.number(self.inherited.is_some().into());
        if let Some(inherited) = &self.inherited {
            write_variables(out, inherited);
        }
        write_variables(out, &self.env);
        out.bytes(self.directory.as_os_str().as_bytes());
    }

    fn read(from: &mut Reader<'_>) -> Option<Program> {
        Some(Program {
            ranks: from.word()?,
            path: from.os_string()?.into(),
            args: from.list(Reader::os_string)?,
            inherited: if from.bool()? { Some(read_variables(from)?) } else { None },
            env: read_variables(from)?,
            directory: from.os_string()?.into(),
        })
    }
}

#[cfg(test)]
mod tests;
