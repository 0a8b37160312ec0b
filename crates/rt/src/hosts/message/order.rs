//! The order to make ready for ranks: all that an agent must know to start them.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::VERSION;
use crate::codec::{Reader, Writer};
use crate::launch::{Bind, HeldRank, Images};

/// A variable of an environment.
pub type Variable = (OsString, OsString);

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
    /// Where the agent can hold a lifeline, if it needs one.
    pub lifeline: Option<LifelineOffer>,
    /// They are not started, but restored from their images.
    pub restore: Option<RestoreOrder>,
}

/// How ranks are restored from their images. They stand still until [`super::ToAgent::GoOn`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreOrder {
    /// The set of images.
    pub images: Images,
    /// The mark of a guard in the environment of the ranks.
    pub mark: String,
    /// All marks that processes of the job may have: while one is there, the job runs still.
    pub marks: Vec<String>,
    /// The step by which they notice that they are to go on.
    pub step: u32,
    /// Those of the agent's host.
    pub ranks: Vec<HeldRank>,
}

/// Where an agent can hold a lifeline (`hosts/lifeline.rs`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifelineOffer {
    /// Where the head listens.
    pub addresses: Vec<SocketAddr>,
    /// By which the two know each other.
    pub secret: [u8; 32],
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

impl Order {
    pub(super) fn write(&self, out: &mut Writer) {
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
            Bind::Package => (4, 0),
            Bind::Numa => (5, 0),
        };
        out.number(how);
        out.number(cores);
        out.number(self.report_bindings.into());
        out.list(&self.fed, |out, rank| out.number((*rank).into()));
        out.number(self.lifeline.is_some().into());
        if let Some(LifelineOffer { addresses, secret }) = &self.lifeline {
            out.list(addresses, |out, address| out.bytes(address.to_string().as_bytes()));
            out.bytes(secret);
        }
        out.number(self.restore.is_some().into());
        if let Some(RestoreOrder { images, mark, marks, step, ranks }) = &self.restore {
            images.write(out);
            out.bytes(mark.as_bytes());
            out.list(marks, |out, mark| out.bytes(mark.as_bytes()));
            out.number((*step).into());
            out.list(ranks, |out, rank| rank.write(out));
        }
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Option<Order> {
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
                (4, 0) => Bind::Package,
                (5, 0) => Bind::Numa,
                _ => return None,
            },
            report_bindings: from.bool()?,
            fed: from.list(Reader::word)?,
            lifeline: match from.bool()? {
                true => Some(LifelineOffer {
                    addresses: from.list(|from| address(&from.text()?))?,
                    secret: from.bytes()?.try_into().ok()?,
                }),
                false => None,
            },
            restore: match from.bool()? {
                true => Some(RestoreOrder {
                    images: Images::read(from)?,
                    mark: from.text()?,
                    marks: from.list(Reader::text)?,
                    step: from.word()?,
                    ranks: from.list(HeldRank::read)?,
                }),
                false => None,
            },
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

/// An address as it is written; the same can be written otherwise.
fn address(text: &str) -> Option<SocketAddr> {
    text.parse().ok().filter(|address: &SocketAddr| address.to_string() == text)
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
