//! The messages of daemons: with each other, with the programs of their user, and with `oxmpi
//! boot`. Pure encoding and decoding.
//!
//! A message is a byte with its kind, and its fields: numbers little endian; fields of variable
//! length have their length (4 bytes) in front. The side that connects sends its [`Purpose`] first;
//! the answer is [`DaemonMessage::Accepted`] or [`DaemonMessage::Refused`].

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use oxmpi_wire::Secret;

/// A node of a universe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// Processors to run ranks on.
    pub cpus: u32,
    /// Whether `N` and `C` include the node.
    pub is_scheduled: bool,
    /// Whether `oxmpi boot` ran on it.
    pub is_origin: bool,
    /// The addresses of its daemon for other daemons; empty if there are none.
    pub addresses: Vec<SocketAddr>,
}

/// The end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    Exited(i32),
    Killed(i32),
}

impl ProgramEnd {
    /// The exit status as a shell reports it: 128 + the signal's number.
    pub fn code(self) -> i32 {
        match self {
            ProgramEnd::Exited(code) => code,
            ProgramEnd::Killed(signal) => 128 + signal,
        }
    }
}

/// Daemons and programs of one universe come from one installation.
pub const VERSION: u32 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Requests of the user's program.
    Control,
    /// A standard stream, after the answer, of a program that a control connection will start.
    Stream {
        /// The number of the control connection, from [`DaemonMessage::Accepted`].
        connection: u64,
        stream: u32,
    },
    /// A link with another daemon.
    Peer { node: u32 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    pub id: u32,
    pub stdio: u32,
    pub errors: u32,
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub directory: PathBuf,
    /// Whether `directory` must exist; otherwise the home directory replaces it.
    pub is_strict: bool,
    /// After this time without an answer of the requester's host, the program ends.
    pub silence_s: u32,
}

#[derive(Clone, Debug)]
pub struct Seed {
    pub secret: Secret,
    pub node: u32,
    pub size: u32,
    pub suffix: String,
    pub include: String,
    pub exclude: String,
}

impl PartialEq for Seed {
    fn eq(&self, other: &Seed) -> bool {
        let fields = |seed: &Seed| {
            (seed.node, seed.size, seed.suffix.clone(), seed.include.clone(), seed.exclude.clone())
        };
        self.secret.0 == other.secret.0 && fields(self) == fields(other)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    pub node: Node,
    /// Why its daemon does not answer; `None`: it answers.
    pub trouble: Option<String>,
}

#[derive(Clone, Debug)]
pub struct View {
    pub own: u32,
    pub secret: Secret,
    pub nodes: Vec<NodeView>,
}

impl PartialEq for View {
    fn eq(&self, other: &View) -> bool {
        (self.own, &self.nodes, self.secret.0) == (other.own, &other.nodes, other.secret.0)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum DaemonMessage {
    /// The first message of each connection.
    Purpose(Purpose),
    Accepted {
        connection: u64,
    },
    Refused {
        reason: String,
    },
    Ask,
    View(View),
    /// Runs a program. Answered by [`DaemonMessage::Started`] or [`DaemonMessage::Failed`], and
    /// later by [`DaemonMessage::Ended`].
    Exec(Exec),
    Started {
        id: u32,
        pid: u32,
    },
    Failed {
        id: u32,
        /// errno, or 0.
        error: i32,
        reason: String,
    },
    Ended {
        id: u32,
        how: ProgramEnd,
    },
    /// From a program: ends the universe; answered by [`DaemonMessage::Halted`]. From another
    /// daemon: ends this one; answered by the same message after all its programs.
    Halt,
    Halted {
        missing: Vec<u32>,
    },
    Seed(Seed),
    /// From a new daemon: its addresses.
    Ready {
        version: u32,
        host: String,
        cpus: u32,
        addresses: Vec<SocketAddr>,
    },
    Table {
        nodes: Vec<Node>,
    },
    Connected,
    /// To a new daemon: go into the background. Answered by [`DaemonMessage::Gone`].
    Go,
    Gone,
    Trouble {
        reason: String,
    },
}

/// Malformed bytes; the kind that they claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of kind {0} makes no sense")]
pub struct Nonsense(pub u8);

impl DaemonMessage {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            DaemonMessage::Purpose(Purpose::Control) => MessageWriter::new(1).u32(0).0,
            DaemonMessage::Purpose(Purpose::Stream { connection, stream }) => {
                MessageWriter::new(1).u32(1).u64(*connection).u32(*stream).0
            }
            DaemonMessage::Purpose(Purpose::Peer { node }) => {
                MessageWriter::new(1).u32(2).u32(*node).0
            }
            DaemonMessage::Accepted { connection } => MessageWriter::new(2).u64(*connection).0,
            DaemonMessage::Refused { reason } => MessageWriter::new(3).text(reason).0,
            DaemonMessage::Ask => MessageWriter::new(4).0,
            DaemonMessage::View(View { own, secret, nodes }) => {
                MessageWriter::new(5)
                    .u32(*own)
                    .array(&secret.0)
                    .list(nodes, |to, seen| {
                        to.node(&seen.node).option(seen.trouble.as_deref(), MessageWriter::text)
                    })
                    .0
            }
            DaemonMessage::Exec(exec) => {
                MessageWriter::new(6)
                    .u32(exec.id)
                    .u32(exec.stdio)
                    .u32(exec.errors)
                    .list(&exec.args, |to, arg| to.os(arg))
                    .list(&exec.env, |to, (name, value)| to.os(name).os(value))
                    .os(exec.directory.as_os_str())
                    .u32(exec.is_strict.into())
                    .u32(exec.silence_s)
                    .0
            }
            DaemonMessage::Started { id, pid } => MessageWriter::new(7).u32(*id).u32(*pid).0,
            DaemonMessage::Failed { id, error, reason } => {
                MessageWriter::new(8).u32(*id).u32(error.cast_unsigned()).text(reason).0
            }
            DaemonMessage::Ended { id, how } => {
                let (kind, number) = match how {
                    ProgramEnd::Exited(code) => (0, *code),
                    ProgramEnd::Killed(signal) => (1, *signal),
                };
                MessageWriter::new(9).u32(*id).u32(kind).u32(number.cast_unsigned()).0
            }
            DaemonMessage::Halt => MessageWriter::new(10).0,
            DaemonMessage::Halted { missing } => {
                MessageWriter::new(11).list(missing, |to, node| to.u32(*node)).0
            }
            DaemonMessage::Seed(seed) => {
                MessageWriter::new(12)
                    .array(&seed.secret.0)
                    .u32(seed.node)
                    .u32(seed.size)
                    .text(&seed.suffix)
                    .text(&seed.include)
                    .text(&seed.exclude)
                    .0
            }
            DaemonMessage::Ready { version, host, cpus, addresses } => {
                let to = MessageWriter::new(13).u32(*version).text(host).u32(*cpus);
                to.list(addresses, |to, address| to.address(*address)).0
            }
            DaemonMessage::Table { nodes } => {
                MessageWriter::new(14).list(nodes, MessageWriter::node).0
            }
            DaemonMessage::Connected => MessageWriter::new(15).0,
            DaemonMessage::Go => MessageWriter::new(16).0,
            DaemonMessage::Gone => MessageWriter::new(17).0,
            DaemonMessage::Trouble { reason } => MessageWriter::new(18).text(reason).0,
        }
    }

    /// Reads a message; an error for bytes that [`DaemonMessage::encode`] cannot have written.
    pub fn decode(bytes: &[u8]) -> Result<DaemonMessage, Nonsense> {
        let Some((&kind, rest)) = bytes.split_first() else { return Err(Nonsense(0)) };
        let mut from = MessageReader(rest);
        let message = from.message(kind).filter(|_| from.0.is_empty());
        message.ok_or(Nonsense(kind))
    }
}

struct MessageWriter(Vec<u8>);

impl MessageWriter {
    fn new(kind: u8) -> MessageWriter {
        MessageWriter(vec![kind])
    }

    fn u32(self, value: u32) -> MessageWriter {
        self.array(&value.to_le_bytes())
    }

    fn u64(self, value: u64) -> MessageWriter {
        self.array(&value.to_le_bytes())
    }

    fn array(mut self, bytes: &[u8]) -> MessageWriter {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A longer field is cut; the channel refuses such a message as a whole.
    fn bytes(self, bytes: &[u8]) -> MessageWriter {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.u32(len).array(&bytes[..len as usize])
    }

    fn text(self, text: &str) -> MessageWriter {
        self.bytes(text.as_bytes())
    }

    fn os(self, text: &OsStr) -> MessageWriter {
        self.bytes(text.as_bytes())
    }

    fn option<T>(
        self,
        value: Option<T>,
        write: impl FnOnce(MessageWriter, T) -> MessageWriter,
    ) -> MessageWriter {
        let to = self.u32(value.is_some().into());
        match value {
            Some(value) => write(to, value),
            None => to,
        }
    }

    fn list<T>(
        self,
        list: &[T],
        write: impl Fn(MessageWriter, &T) -> MessageWriter,
    ) -> MessageWriter {
        list.iter().fold(self.u32(list.len() as u32), write)
    }

    fn address(self, address: SocketAddr) -> MessageWriter {
        match address.ip() {
            IpAddr::V4(v4) => self.bytes(&v4.octets()),
            IpAddr::V6(v6) => self.bytes(&v6.octets()),
        }
        .u32(address.port().into())
    }

    fn node(self, node: &Node) -> MessageWriter {
        let flags = u32::from(node.is_scheduled) | u32::from(node.is_origin) << 1;
        let to = self.text(&node.name).u32(node.cpus).u32(flags);
        to.list(&node.addresses, |to, address| to.address(*address))
    }
}

struct MessageReader<'a>(&'a [u8]);

impl MessageReader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_le_bytes)
    }

    fn bool(&mut self) -> Option<bool> {
        match self.u32()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = self.u32()? as usize;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes.to_vec())
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?).ok()
    }

    fn os(&mut self) -> Option<OsString> {
        self.bytes().map(OsString::from_vec)
    }

    /// Every element has at least a byte, which limits the length of a list.
    fn list<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let len = self.u32()? as usize;
        if len > self.0.len() {
            return None;
        }
        (0..len).map(|_| read(self)).collect()
    }

    fn address(&mut self) -> Option<SocketAddr> {
        let bytes = self.bytes()?;
        let ip = match bytes.len() {
            4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
            _ => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        };
        Some(SocketAddr::new(ip, u16::try_from(self.u32()?).ok()?))
    }

    fn node(&mut self) -> Option<Node> {
        let (name, cpus, flags) = (self.text()?, self.u32()?, self.u32()?);
        let addresses = self.list(Self::address)?;
        let is = |bit: u32| flags >> bit & 1 != 0;
        (flags < 4).then(|| Node { name, cpus, is_scheduled: is(0), is_origin: is(1), addresses })
    }

    fn purpose(&mut self) -> Option<Purpose> {
        Some(match self.u32()? {
            0 => Purpose::Control,
            1 => Purpose::Stream { connection: self.u64()?, stream: self.u32()? },
            2 => Purpose::Peer { node: self.u32()? },
            _ => return None,
        })
    }

    fn exec(&mut self) -> Option<Exec> {
        Some(Exec {
            id: self.u32()?,
            stdio: self.u32()?,
            errors: self.u32()?,
            args: self.list(Self::os)?,
            env: self.list(|from| from.os().zip(from.os()))?,
            directory: self.os()?.into(),
            is_strict: self.bool()?,
            silence_s: self.u32()?,
        })
    }

    fn view(&mut self) -> Option<View> {
        let (own, secret) = (self.u32()?, Secret(self.array()?));
        let nodes = self.list(|from| {
            let node = from.node()?;
            let trouble = if from.bool()? { Some(from.text()?) } else { None };
            Some(NodeView { node, trouble })
        })?;
        ((own as usize) < nodes.len()).then_some(View { own, secret, nodes })
    }

    fn message(&mut self, kind: u8) -> Option<DaemonMessage> {
        Some(match kind {
            1 => DaemonMessage::Purpose(self.purpose()?),
            2 => DaemonMessage::Accepted { connection: self.u64()? },
            3 => DaemonMessage::Refused { reason: self.text()? },
            4 => DaemonMessage::Ask,
            5 => DaemonMessage::View(self.view()?),
            6 => DaemonMessage::Exec(self.exec()?),
            7 => DaemonMessage::Started { id: self.u32()?, pid: self.u32()? },
            8 => {
                DaemonMessage::Failed { id: self.u32()?, error: self.i32()?, reason: self.text()? }
            }
            9 => {
                let (id, is_killed, number) = (self.u32()?, self.bool()?, self.i32()?);
                DaemonMessage::Ended {
                    id,
                    how: if is_killed {
                        ProgramEnd::Killed(number)
                    } else {
                        ProgramEnd::Exited(number)
                    },
                }
            }
            10 => DaemonMessage::Halt,
            11 => DaemonMessage::Halted { missing: self.list(Self::u32)? },
            12 => DaemonMessage::Seed(Seed {
                secret: Secret(self.array()?),
                node: self.u32()?,
                size: self.u32()?,
                suffix: self.text()?,
                include: self.text()?,
                exclude: self.text()?,
            }),
            13 => DaemonMessage::Ready {
                version: self.u32()?,
                host: self.text()?,
                cpus: self.u32()?,
                addresses: self.list(Self::address)?,
            },
            14 => DaemonMessage::Table { nodes: self.list(Self::node)? },
            15 => DaemonMessage::Connected,
            16 => DaemonMessage::Go,
            17 => DaemonMessage::Gone,
            18 => DaemonMessage::Trouble { reason: self.text()? },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(name: &str, port: u16) -> Node {
        Node {
            name: name.into(),
            cpus: 3,
            is_scheduled: port.is_multiple_of(2),
            is_origin: true,
            addresses: vec![
                SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
                SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 1),
            ],
        }
    }

    proptest! {
        #[test]
        fn a_message_comes_back(number: u32, long: u64, port: u16, secret: [u8; 32], text in ".{0,20}", yes: bool) {
            let nodes = vec![node(&text, port), node("b", 0)];
            let seen = nodes.iter().map(|node| NodeView { node: node.clone(), trouble: yes.then(|| text.clone()) });
            let exec = Exec {
                id: number,
                stdio: 1,
                errors: 2,
                args: vec![text.clone().into(), "".into()],
                env: vec![("A".into(), text.clone().into())],
                directory: "/tmp".into(),
                is_strict: yes,
                silence_s: number,
            };
            let seed = Seed {
                secret: Secret(secret),
                node: number,
                size: 7,
                suffix: text.clone(),
                include: String::new(),
                exclude: text.clone(),
            };
            for message in [
                DaemonMessage::Purpose(Purpose::Control),
                DaemonMessage::Purpose(Purpose::Stream { connection: long, stream: number }),
                DaemonMessage::Purpose(Purpose::Peer { node: number }),
                DaemonMessage::Accepted { connection: long },
                DaemonMessage::Refused { reason: text.clone() },
                DaemonMessage::Ask,
                DaemonMessage::View(View { own: 1, secret: Secret(secret), nodes: seen.collect() }),
                DaemonMessage::Exec(exec),
                DaemonMessage::Started { id: number, pid: 1 },
                DaemonMessage::Failed { id: number, error: -1, reason: text.clone() },
                DaemonMessage::Ended { id: number, how: ProgramEnd::Exited(3) },
                DaemonMessage::Ended { id: number, how: ProgramEnd::Killed(9) },
                DaemonMessage::Halt,
                DaemonMessage::Halted { missing: vec![number, 0] },
                DaemonMessage::Seed(seed),
                DaemonMessage::Ready { version: 1, host: text.clone(), cpus: number, addresses: nodes[0].addresses.clone() },
                DaemonMessage::Table { nodes: nodes.clone() },
                DaemonMessage::Connected,
                DaemonMessage::Go,
                DaemonMessage::Gone,
                DaemonMessage::Trouble { reason: text.clone() },
            ] {
                prop_assert_eq!(DaemonMessage::decode(&message.encode()), Ok(message));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            kind in 0u8..20,
            rest in proptest::collection::vec(prop_oneof![3 => 0u8..3, 1 => any::<u8>()], 0..90),
        ) {
            let bytes = [vec![kind], rest].concat();
            if let Ok(message) = DaemonMessage::decode(&bytes) {
                prop_assert_eq!(message.encode(), bytes);
            }
        }
    }
}
