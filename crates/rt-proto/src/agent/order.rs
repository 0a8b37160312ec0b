//! The order to prepare ranks: all that an agent needs to start them.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use super::VERSION;
use crate::held::{HeldRank, Images};
use crate::process::Bind;
use oxmpi_rt_client::codec::{FieldReader, FieldWriter};

/// A variable of an environment.
pub type Variable = (OsString, OsString);

/// The ranks that an agent is to start, and the facts about the other ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentOrder {
    /// Identifies all jobs of the head.
    pub universe: u64,
    pub node: u32,
    /// The number of the first process of the job; the others follow.
    pub base: u32,
    /// Whether the jobs of the head are on several hosts.
    pub several: bool,
    /// The number of failed processes so far.
    pub deaths: u32,
    /// The last step of a quiescence that was requested.
    pub step: u32,
    pub sockets: bool,
    pub nodes: Vec<u32>,
    /// Ranks are numbered in this order.
    pub apps: Vec<OrderedProgram>,
    /// Variables for all ranks; they replace inherited ones.
    pub env: Vec<Variable>,
    pub secret: [u8; 32],
    pub hostmap: Vec<(String, String)>,
    pub bind: Bind,
    pub report_bindings: bool,
    /// The ranks whose standard input the head sends.
    pub fed: Vec<u32>,
    pub lifeline: Option<LifelineOffer>,
    /// Restores the ranks from images in place of starting them.
    pub restore: Option<RestoreOrder>,
}

/// How ranks are restored. They stay stopped until [`super::ToAgent::GoOn`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreOrder {
    pub images: Images,
    pub mark: String,
    /// All marks that processes of the job may have: while a process has one, the job still runs.
    pub marks: Vec<String>,
    /// The quiescence step by which the ranks notice that they continue.
    pub step: u32,
    pub ranks: Vec<HeldRank>,
}

/// How an agent can connect a lifeline (`hosts/lifeline.rs`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifelineOffer {
    pub addresses: Vec<SocketAddr>,
    pub secret: [u8; 32],
}

/// A program of an [`AgentOrder`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderedProgram {
    pub ranks: u32,
    /// As the head has found it.
    pub path: PathBuf,
    pub args: Vec<OsString>,
    /// Variables that the ranks inherit from the head; `None`: those of the agent.
    pub inherited: Option<Vec<Variable>>,
    pub env: Vec<Variable>,
    pub directory: PathBuf,
}

impl AgentOrder {
    pub(crate) fn write(&self, out: &mut FieldWriter) {
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

    pub(crate) fn read(from: &mut FieldReader<'_>) -> Option<AgentOrder> {
        from.word().filter(|version| *version == VERSION)?;
        Some(AgentOrder {
            universe: from.number()?,
            node: from.word()?,
            base: from.word()?,
            several: from.bool()?,
            deaths: from.word()?,
            step: from.word()?,
            sockets: from.bool()?,
            nodes: from.list(FieldReader::word)?,
            apps: from.list(OrderedProgram::read)?,
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
            fed: from.list(FieldReader::word)?,
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
                    marks: from.list(FieldReader::text)?,
                    step: from.word()?,
                    ranks: from.list(HeldRank::read)?,
                }),
                false => None,
            },
        })
    }
}

impl OrderedProgram {
    fn write(&self, out: &mut FieldWriter) {
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

    fn read(from: &mut FieldReader<'_>) -> Option<OrderedProgram> {
        Some(OrderedProgram {
            ranks: from.word()?,
            path: from.os_string()?.into(),
            args: from.list(FieldReader::os_string)?,
            inherited: if from.bool()? { Some(read_variables(from)?) } else { None },
            env: read_variables(from)?,
            directory: from.os_string()?.into(),
        })
    }
}

/// An address in its canonical form; other forms are refused.
fn address(text: &str) -> Option<SocketAddr> {
    text.parse().ok().filter(|address: &SocketAddr| address.to_string() == text)
}

fn write_variables(out: &mut FieldWriter, all: &[Variable]) {
    out.list(all, |out, (name, value)| {
        out.bytes(name.as_bytes());
        out.bytes(value.as_bytes());
    });
}

fn read_variables(from: &mut FieldReader<'_>) -> Option<Vec<Variable>> {
    from.list(|from| from.os_string().zip(from.os_string()))
}
