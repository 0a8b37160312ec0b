//! The messages of daemons: with each other, with the programs of their user, and with `oxmpi boot`. Pure encoding and decoding.
//!
//! A message is a byte that says its kind, and its fields: numbers little endian, and what has a length with that in front, four
//! bytes. Who has connected says first what for ([`Purpose`]), and is answered by [`Message::Accepted`] or
//! [`Message::Refused`].

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use oxmpi_wire::Secret;

use super::{Ended, Node};

/// The version of these messages. Daemons and programs of one universe come from one installation.
pub(crate) const VERSION: u32 = 2;

/// What a connection is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A program of the user's asks.
    Control,
    /// After the answer, the connection is standard input and output, or standard error, of a program that a control
    /// connection will ask for.
    Stream {
        /// The control connection, as [`Message::Accepted`] has named it.
        connection: u64,
        /// Names the stream there.
        stream: u32,
    },
    /// Another daemon.
    Peer {
        /// Its number.
        node: u32,
    },
}

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exec {
    /// Names it on its connection.
    pub(crate) id: u32,
    /// The stream that becomes its standard input and output.
    pub(crate) stdio: u32,
    /// The stream that becomes its standard error.
    pub(crate) errors: u32,
    /// The program and its arguments.
    pub(crate) args: Vec<OsString>,
    /// Variables that are stronger than the daemon's.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Where to start it.
    pub(crate) directory: PathBuf,
    /// Whether it must start there; else the home directory will do.
    pub(crate) is_strict: bool,
    /// After how many seconds without an answer of the host of who asks the connection, and the program with it, ends.
    pub(crate) silence_s: u32,
}

/// What a new daemon is told first.
#[derive(Clone, Debug)]
pub(crate) struct Seed {
    /// The secret of all daemons of the universe.
    pub(crate) secret: Secret,
    /// The number of this one.
    pub(crate) node: u32,
    /// How many there will be.
    pub(crate) size: u32,
    /// Tells universes of one user apart.
    pub(crate) suffix: String,
    /// `btl_tcp_if_include`: the networks to listen on.
    pub(crate) include: String,
    /// `btl_tcp_if_exclude`: those not to.
    pub(crate) exclude: String,
}

impl PartialEq for Seed {
    fn eq(&self, other: &Seed) -> bool {
        let fields = |seed: &Seed| {
            (seed.node, seed.size, seed.suffix.clone(), seed.include.clone(), seed.exclude.clone())
        };
        self.secret.0 == other.secret.0 && fields(self) == fields(other)
    }
}

/// A node as a daemon sees it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// What it is.
    pub(crate) node: Node,
    /// Why its daemon does not answer; `None`: it does.
    pub(crate) trouble: Option<String>,
}

/// What a daemon knows.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// The number of its own node.
    pub(crate) own: u32,
    /// The secret of the universe.
    pub(crate) secret: Secret,
    /// All nodes, in the order of their numbers.
    pub(crate) nodes: Vec<Seen>,
}

impl PartialEq for View {
    fn eq(&self, other: &View) -> bool {
        (self.own, &self.nodes, self.secret.0) == (other.own, &other.nodes, other.secret.0)
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    /// What the connection is for. The first on each.
    Purpose(Purpose),
    /// The answer to it.
    Accepted {
        /// Names the connection.
        connection: u64,
    },
    /// There will be no connection, or what was asked will not be done.
    Refused {
        /// Why, for a person.
        reason: String,
    },
    /// What do you know? Answered by [`Message::View`].
    Ask,
    /// What a daemon knows.
    View(View),
    /// Run a program. Answered by [`Message::Started`] or [`Message::Failed`], and later by [`Message::Ended`].
    Exec(Exec),
    /// It runs.
    Started {
        /// Its name.
        id: u32,
        /// Its process.
        pid: u32,
    },
    /// It does not run.
    Failed {
        /// Its name.
        id: u32,
        /// The number of the error, or 0.
        error: i32,
        /// Why, for a person.
        reason: String,
    },
    /// It has ended.
    Ended {
        /// Its name.
        id: u32,
        /// How.
        how: Ended,
    },
    /// To a daemon, from a program: end the universe; answered by [`Message::Halted`]. From another daemon: end; answered by
    /// the same when nothing is left.
    Halt,
    /// All have ended but these.
    Halted {
        /// Their numbers.
        missing: Vec<u32>,
    },
    /// To a new daemon: what it is.
    Seed(Seed),
    /// From a new daemon: it can be reached.
    Ready {
        /// The version of its messages.
        version: u32,
        /// The name of its host.
        host: String,
        /// Processors that it may use.
        cpus: u32,
        /// Where it listens.
        addresses: Vec<SocketAddr>,
    },
    /// To a new daemon: all nodes.
    Table {
        /// In the order of their numbers.
        nodes: Vec<Node>,
    },
    /// From a new daemon: it is connected with all others.
    Connected,
    /// To a new daemon: go on without `oxmpi boot`. Answered by [`Message::Gone`].
    Go,
    /// From a new daemon: it has gone into the background.
    Gone,
    /// From a new daemon: it cannot go on.
    Trouble {
        /// Why, for a person.
        reason: String,
    },
}

/// The bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message of kind {0} makes no sense")]
pub(crate) struct Nonsense(pub(crate) u8);

impl Message {
    /// As bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Message::Purpose(Purpose::Control) => Writer::new(1).u32(0).0,
            Message::Purpose(Purpose::Stream { connection, stream }) => {
                Writer::new(1).u32(1).u64(*connection).u32(*stream).0
            }
            Message::Purpose(Purpose::Peer { node }) => Writer::new(1).u32(2).u32(*node).0,
            Message::Accepted { connection } => Writer::new(2).u64(*connection).0,
            Message::Refused { reason } => Writer::new(3).text(reason).0,
            Message::Ask => Writer::new(4).0,
            Message::View(View { own, secret, nodes }) => {
                Writer::new(5)
                    .u32(*own)
                    .array(&secret.0)
                    .list(nodes, |to, seen| to.node(&seen.node).option(seen.trouble.as_deref(), Writer::text))
                    .0
            }
            Message::Exec(exec) => {
                Writer::new(6)
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
            Message::Started { id, pid } => Writer::new(7).u32(*id).u32(*pid).0,
            Message::Failed { id, error, reason } => {
                Writer::new(8).u32(*id).u32(error.cast_unsigned()).text(reason).0
            }
            Message::Ended { id, how } => {
                let (kind, number) = match how {
                    Ended::Exited(code) => (0, *code),
                    Ended::Killed(signal) => (1, *signal),
                };
                Writer::new(9).u32(*id).u32(kind).u32(number.cast_unsigned()).0
            }
            Message::Halt => Writer::new(10).0,
            Message::Halted { missing } => Writer::new(11).list(missing, |to, node| to.u32(*node)).0,
            Message::Seed(seed) => {
                Writer::new(12)
                    .array(&seed.secret.0)
                    .u32(seed.node)
                    .u32(seed.size)
                    .text(&seed.suffix)
                    .text(&seed.include)
                    .text(&seed.exclude)
                    .0
            }
            Message::Ready { version, host, cpus, addresses } => {
                let to = Writer::new(13).u32(*version).text(host).u32(*cpus);
                to.list(addresses, |to, address| to.address(*address)).0
            }
            Message::Table { nodes } => Writer::new(14).list(nodes, Writer::node).0,
            Message::Connected => Writer::new(15).0,
            Message::Go => Writer::new(16).0,
            Message::Gone => Writer::new(17).0,
            Message::Trouble { reason } => Writer::new(18).text(reason).0,
        }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// Anything that [`Message::encode`] cannot have made.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Message, Nonsense> {
        let Some((&kind, rest)) = bytes.split_first() else { return Err(Nonsense(0)) };
        let mut from = Reader(rest);
        let message = from.message(kind).filter(|_| from.0.is_empty());
        message.ok_or(Nonsense(kind))
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn new(kind: u8) -> Writer {
        Writer(vec![kind])
    }

    fn u32(self, value: u32) -> Writer {
        self.array(&value.to_le_bytes())
    }

    fn u64(self, value: u64) -> Writer {
        self.array(&value.to_le_bytes())
    }

    fn array(mut self, bytes: &[u8]) -> Writer {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Whole messages are limited, so a length fits 32 bits; what does not is cut, and the channel refuses it.
    fn bytes(self, bytes: &[u8]) -> Writer {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.u32(len).array(&bytes[..len as usize])
    }

    fn text(self, text: &str) -> Writer {
        self.bytes(text.as_bytes())
    }

    fn os(self, text: &OsStr) -> Writer {
        self.bytes(text.as_bytes())
    }

    fn option<T>(self, value: Option<T>, write: impl FnOnce(Writer, T) -> Writer) -> Writer {
        let to = self.u32(value.is_some().into());
        match value {
            Some(value) => write(to, value),
            None => to,
        }
    }

    fn list<T>(self, list: &[T], write: impl Fn(Writer, &T) -> Writer) -> Writer {
        list.iter().fold(self.u32(list.len() as u32), write)
    }

    fn address(self, address: SocketAddr) -> Writer {
        match address.ip() {
            IpAddr::V4(v4) => self.bytes(&v4.octets()),
            IpAddr::V6(v6) => self.bytes(&v6.octets()),
        }
        .u32(address.port().into())
    }

    fn node(self, node: &Node) -> Writer {
        let flags = u32::from(node.is_scheduled) | u32::from(node.is_origin) << 1;
        let to = self.text(&node.name).u32(node.cpus).u32(flags);
        to.list(&node.addresses, |to, address| to.address(*address))
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
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

    /// Every element has a byte at least, so a list cannot have more than there are bytes.
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
            Some(Seen { node, trouble })
        })?;
        ((own as usize) < nodes.len()).then_some(View { own, secret, nodes })
    }

    fn message(&mut self, kind: u8) -> Option<Message> {
        Some(match kind {
            1 => Message::Purpose(self.purpose()?),
            2 => Message::Accepted { connection: self.u64()? },
            3 => Message::Refused { reason: self.text()? },
            4 => Message::Ask,
            5 => Message::View(self.view()?),
            6 => Message::Exec(self.exec()?),
            7 => Message::Started { id: self.u32()?, pid: self.u32()? },
            8 => Message::Failed { id: self.u32()?, error: self.i32()?, reason: self.text()? },
            9 => {
                let (id, is_killed, number) = (self.u32()?, self.bool()?, self.i32()?);
                Message::Ended {
                    id,
                    how: if is_killed { Ended::Killed(number) } else { Ended::Exited(number) },
                }
            }
            10 => Message::Halt,
            11 => Message::Halted { missing: self.list(Self::u32)? },
            12 => Message::Seed(Seed {
                secret: Secret(self.array()?),
                node: self.u32()?,
                size: self.u32()?,
                suffix: self.text()?,
                include: self.text()?,
                exclude: self.text()?,
            }),
            13 => Message::Ready {
                version: self.u32()?,
                host: self.text()?,
                cpus: self.u32()?,
                addresses: self.list(Self::address)?,
            },
            14 => Message::Table { nodes: self.list(Self::node)? },
            15 => Message::Connected,
            16 => Message::Go,
            17 => Message::Gone,
            18 => Message::Trouble { reason: self.text()? },
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
            let seen = nodes.iter().map(|node| Seen { node: node.clone(), trouble: yes.then(|| text.clone()) });
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
                Message::Purpose(Purpose::Control),
                Message::Purpose(Purpose::Stream { connection: long, stream: number }),
                Message::Purpose(Purpose::Peer { node: number }),
                Message::Accepted { connection: long },
                Message::Refused { reason: text.clone() },
                Message::Ask,
                Message::View(View { own: 1, secret: Secret(secret), nodes: seen.collect() }),
                Message::Exec(exec),
                Message::Started { id: number, pid: 1 },
                Message::Failed { id: number, error: -1, reason: text.clone() },
                Message::Ended { id: number, how: Ended::Exited(3) },
                Message::Ended { id: number, how: Ended::Killed(9) },
                Message::Halt,
                Message::Halted { missing: vec![number, 0] },
                Message::Seed(seed),
                Message::Ready { version: 1, host: text.clone(), cpus: number, addresses: nodes[0].addresses.clone() },
                Message::Table { nodes: nodes.clone() },
                Message::Connected,
                Message::Go,
                Message::Gone,
                Message::Trouble { reason: text.clone() },
            ] {
                prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            kind in 0u8..20,
            rest in proptest::collection::vec(prop_oneof![3 => 0u8..3, 1 => any::<u8>()], 0..90),
        ) {
            let bytes = [vec![kind], rest].concat();
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(message.encode(), bytes);
            }
        }
    }
}
