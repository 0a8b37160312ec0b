//! The routes of messages in the tree of agents, and the answers of whole branches.
//!
//! The head is the root. It has started the agents of some hosts, and they have started the agents
//! of the others: a *branch* is an agent with all agents below it. A message on its way down names
//! its receivers, and one on its way up the host that has sent it, so that the agents between
//! forward the bytes of a message without reading them.

use serde::{Deserialize, Serialize};

use super::Seen;
use oxmpi_rt_client::codec;
use std::ffi::OsString;
use std::path::PathBuf;

/// The agents that a message on its way down is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Receivers {
    /// The agent at the other end of the stream alone.
    Child,
    /// All agents of the branch.
    All,
    /// The agents of these hosts, by their numbers, ascending.
    Nodes(Vec<u32>),
}

impl Receivers {
    /// Whether the agent of a host is among them, if the message has come to its branch.
    pub fn has(&self, node: u32) -> bool {
        match self {
            Receivers::Child => false,
            Receivers::All => true,
            Receivers::Nodes(nodes) => nodes.binary_search(&node).is_ok(),
        }
    }
}

/// The envelope of a message on its way down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DownRoute {
    pub to: Receivers,
    /// Whether each receiver answers with a [`super::FromAgent::Report`] of this round: then the
    /// agents between make one report of those of their branches.
    pub round: Option<BranchRound>,
    /// Numbers the messages of the head that agents keep for branches whose parent may be lost; 0:
    /// it is not kept.
    pub number: u64,
}

/// The envelope of a message on its way up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpRoute {
    /// The host of the sender.
    pub node: u32,
    /// Whether the next agent reads the message; otherwise the head alone does.
    pub is_for_parent: bool,
    /// The bytes of output in it, which count for the window of each stream.
    pub output: u32,
    /// Numbers the messages of the sender that it keeps until the head has them; 0: it is not kept.
    pub number: u64,
}

/// The question to which a branch answers with one report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum BranchRound {
    /// Have all agents of the branch started?
    Reached,
    /// Are the ranks of the job that begins with this process prepared?
    Ready { base: u32 },
    /// Do the ranks of this job run?
    Started { base: u32 },
    /// How far have the processes come? Numbers the questions.
    Seen { query: u64 },
}

/// The answer of a branch, in which the lists of its hosts are joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchReport {
    /// The host that has taken longest, and its time in nanoseconds.
    pub slowest: Option<(u64, u32)>,
    /// The addresses of prepared ranks; empty ones without sockets.
    pub addresses: Vec<(u32, String)>,
    /// The addresses of the relays, by host, if the job has any.
    pub relays: Vec<(u32, String)>,
    /// The hosts that have no access to the images that are to be restored:
    /// [`super::ToAgent::Piece`] must bring them.
    pub wants_images: Vec<u32>,
    /// Running ranks and their processes.
    pub pids: Vec<(u32, u32)>,
    /// The states that have changed since the host has last sent them.
    pub seen: Vec<(u32, Seen)>,
    /// The hosts that have not answered in time.
    pub silent: Vec<u32>,
}

impl BranchReport {
    /// Joins the report of another part of the branch to this one.
    pub fn add(&mut self, other: BranchReport) {
        self.slowest = self.slowest.max(other.slowest);
        self.addresses.extend(other.addresses);
        self.relays.extend(other.relays);
        self.wants_images.extend(other.wants_images);
        self.pids.extend(other.pids);
        self.seen.extend(other.seen);
        self.silent.extend(other.silent);
    }
}

/// The place of an agent in the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// The number of the agent's own host.
    pub node: u32,
    /// The most agents that one agent starts.
    pub fan_out: u32,
    /// Empty without hosts below it.
    pub starts: AgentStarts,
    /// The hosts below it, whose agents this agent starts, itself or through others.
    pub hosts: Vec<BranchHost>,
}

/// A host of a [`Branch`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchHost {
    pub node: u32,
    /// As the user has named it.
    pub name: String,
    pub way: AgentWay,
}

/// How the agent of a host is started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AgentWay {
    /// By [`AgentStarts::command`].
    Command {
        /// The login name there, if it differs from the user's own.
        user: Option<String>,
    },
    /// By the user's daemon on this node of [`AgentStarts::daemons`].
    Daemon { node: u32 },
}

/// What the starts of all agents of a job have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStarts {
    pub command: Option<StartCommand>,
    pub daemons: Option<DaemonStarts>,
}

/// A program such as ssh, which starts an agent on a host and forwards its standard input and
/// output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartCommand {
    /// On the host of the head.
    #[serde(with = "codec::path")]
    pub path: PathBuf,
    /// The program's name and its options.
    pub args: Vec<OsString>,
    /// The agent's command, which follows the name of the host.
    pub agent: OsString,
}

/// The user's daemons, as starters of agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonStarts {
    /// The suffix of their universe.
    pub suffix: String,
    /// The agent's program; `None`: that of the daemon.
    pub program: Option<OsString>,
}

impl StartCommand {
    /// The words of the command for a host.
    pub fn words(&self, host: &str, user: Option<&str>) -> Vec<OsString> {
        let user = user.into_iter().flat_map(|user| ["-l", user]);
        let options = self.args.iter().cloned().chain(user.map(OsString::from));
        options.chain([host.into(), self.agent.clone()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_joins_lists_and_keeps_the_slowest_host() {
        let report = |node, took| BranchReport {
            slowest: Some((took, node)),
            pids: vec![(node, 7)],
            ..BranchReport::default()
        };
        let mut all = report(3, 20);
        all.add(report(1, 30));
        all.add(BranchReport { silent: vec![9], ..BranchReport::default() });
        assert_eq!((all.slowest, all.pids.len(), all.silent), (Some((30, 1)), 2, vec![9]));
    }

    #[test]
    fn a_message_for_the_child_alone_has_no_other_receiver() {
        let nodes = Receivers::Nodes(vec![2, 5]);
        assert_eq!([2, 3, 5].map(|node| nodes.has(node)), [true, false, true]);
        assert!(Receivers::All.has(3) && !Receivers::Child.has(3));
    }
}
