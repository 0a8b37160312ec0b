//! The modules of this program, a row each, and what a job gets of them.

use super::transports::{Ask, SelectError};
use super::{Decision, Framework, ModuleRow, SelectionRequest, ThreadLevel, decide};
use crate::components::Component;
use crate::module::{BetweenNodes, Module, SocketParams};
use crate::registry::Params;
use std::fmt;

/// What is known of a job before its modules are selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// How many processes it starts with, if that is known.
    pub ranks: Option<u32>,
    /// Why it cannot have sockets, if it cannot.
    pub no_sockets: Option<String>,
    /// Why its messages cannot go through daemons, if they cannot.
    pub no_daemons: Option<String>,
    /// On which nodes it is, if these are several.
    pub nodes: Option<NodeCount>,
}

/// Several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeCount {
    /// So many hosts.
    Hosts(usize),
    /// So many nodes on one host, as the parameter `mpi_virtual_nodes` says.
    Virtual(u32),
}

impl NodeCount {
    /// The virtual nodes of a job of so many processes by the parameters, if there are several; `None`: of several processes.
    pub fn virtual_ones(params: &Params, ranks: Option<u32>) -> Option<NodeCount> {
        let nodes = params.mpi_virtual_nodes().min(ranks.unwrap_or(u32::MAX));
        (nodes > 1).then_some(NodeCount::Virtual(nodes))
    }
}

impl fmt::Display for NodeCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeCount::Hosts(hosts) => write!(f, "{hosts} hosts"),
            NodeCount::Virtual(nodes) => write!(f, "{nodes} virtual nodes (parameter 'mpi_virtual_nodes')"),
        }
    }
}

/// Bytes that the kernel buffers for a socket at least if nothing else is asked for. With less a stream of messages waits for the
/// receiver's program all the time.
const SOCKET_BUFFERS: usize = 1 << 20;
/// With less a connection waits for the kernel's timers, as one segment of the loopback does not fit.
pub const LEAST_SOCKET_BUFFERS: usize = 32 << 10;

impl Decision {
    /// The transport that is used.
    pub fn transport(&self) -> &'static Module {
        Module::named(self.rpi).unwrap_or_else(Module::first)
    }
}

/// The rows for a job of which this is asked.
fn rows(params: &Params, job: &Job, ask: &Ask) -> Vec<ModuleRow> {
    let way = Module::between_nodes();
    // An image of a whole job does not depend on its transport; but by itself none is chosen over which there is no other.
    let for_cr = params.cr().filter(|_| !ask.names_transport());
    let left_out_for_cr = |module: &Module| {
        let cr = for_cr.filter(|_| !module.checkpoints)?;
        Some(format!(
            "cr {cr} is asked for, which uses it only if 'rpi' names it, for images of whole jobs on one host"
        ))
    };
    let left_out = |module: &'static Module| ask.left_out(module).or_else(|| left_out_for_cr(module));
    let row = |module: &'static Module| ModuleRow {
        framework: Framework::Rpi,
        name: module.name,
        priority: module.priority(params),
        lowest: module.lowest,
        highest: module.highest,
        checkpoints: module.can_rest(params) || module.images && params.cr().is_some(),
        left_out: left_out(module),
        // What is left out in any case is not searched for on this machine.
        unavailable: match left_out(module) {
            Some(_) => (module.unavailable)(job),
            None => module.refusal(params, job),
        },
        between: way.filter(|_| module.between == BetweenNodes::Another).map(|way| way.name),
    };
    let transports = Module::all().iter().map(|module| row(module));
    let between = way.map(|way| ModuleRow {
        framework: Framework::Between,
        checkpoints: true,
        left_out: ask.left_out_between(),
        between: None,
        ..row(way)
    });
    // Which of these are for a communicator is found out when it is made.
    let components = Component::all().chain(ask.asks_base_alone().then_some(Component::Base));
    let coll = components.map(|component| ModuleRow {
        framework: Framework::Coll,
        name: component.name(),
        priority: component.priority(params),
        lowest: ThreadLevel::Single,
        highest: ThreadLevel::Multiple,
        checkpoints: !matches!(component, Component::Ucc | Component::Hcoll),
        left_out: ask.left_out_of_coll(component),
        unavailable: None,
        between: None,
    });
    let cr = CR.iter().map(|(name, priority, unavailable)| ModuleRow {
        framework: Framework::Cr,
        name,
        priority: *priority,
        lowest: ThreadLevel::Serialized,
        highest: ThreadLevel::Multiple,
        checkpoints: true,
        left_out: match params.cr_names()[..] {
            _ if params.cr_is_off() => Some("'cr' is 'none'".into()),
            [] if *name == "self" => Some("it is used only if 'cr' names it".into()),
            [asked, ..] if asked != *name => Some(format!("'{asked}' is asked for (parameter 'cr')")),
            _ => None,
        },
        unavailable: unavailable(job),
        between: None,
    });
    transports.chain(between).chain(coll).chain(cr).collect()
}

/// Why a module cannot be used in a job, if it cannot.
type Unavailable = fn(&Job) -> Option<String>;

/// The modules for checkpoints: their names, priorities, and why a job cannot use them.
const CR: [(&str, u32, Unavailable); 2] = [
    // Whether the transport of a job on several hosts is one that images of each rank are made of, mpirun says.
    ("blcr", 50, |_| None),
    ("self", 25, |_| None),
];

impl Params {
    /// Selects the modules of a job whose program asks for this thread level, unless the environment says another one
    /// ([`ThreadLevel::from_env`]).
    ///
    /// # Errors
    /// The parameters `rpi`, `pml`, `btl`, `mtl` and `coll` name what is not there or contradict each other, nothing is left,
    /// or the variable is wrong.
    pub fn select(&self, job: &Job, level: ThreadLevel) -> Result<Decision, SelectError> {
        let (level, by) = match ThreadLevel::from_env()? {
            Some((level, variable)) => (level, format!("environment variable {variable}")),
            None => (level, "as the program asks".to_string()),
        };
        let ask = Ask::of(self, job)?;
        let nodes = job.nodes.map(|nodes| nodes.to_string());
        let mut rows = rows(self, job, &ask);
        let is_considered = |name| Module::named(name).is_none_or(|module| ask.considers(module));
        rows.retain(|row| row.framework != Framework::Rpi || is_considered(row.name));
        Ok(decide(&rows, &SelectionRequest { level, by, cr: self.cr(), nodes })?)
    }

    /// Why the parameters leave out sockets as the way to processes with which no memory is shared, if they do; for a person.
    pub fn no_way_between(&self) -> Option<String> {
        Ask::of(self, &Job::default()).ok()?.left_out_between()
    }

    /// All modules, whatever is asked for.
    pub fn modules(&self, job: &Job) -> Vec<ModuleRow> {
        rows(self, job, &Ask::default())
    }

    /// The parameters of the sockets between processes: those of the transport in use, or of the one between nodes.
    pub fn sockets(&self) -> Option<&'static SocketParams> {
        let way = || Module::between_nodes()?.sockets.as_ref();
        self.rpi().sockets.as_ref().or_else(way)
    }

    /// The longest message, in bytes, that sockets carry before its receive is known to be posted, by the parameter of the
    /// transport in use. An odd number counts as the next even one: the guide's default of 65535 bytes just misses the commonest
    /// length there is.
    pub fn sockets_short(&self) -> usize {
        self.sockets().map_or(0, |of| self.count(of.short)).next_multiple_of(2)
    }

    /// Bytes that the kernel shall buffer for each socket, by the parameters of the transport in use.
    pub fn sockets_buffers(&self) -> usize {
        let asked = self.sockets().map_or(-1, |of| self.number(of.buffers));
        usize::try_from(asked).unwrap_or_else(|_| self.sockets_short().max(SOCKET_BUFFERS))
    }

    /// As [`Params::sockets_buffers`], and not fewer than sockets need to work.
    pub fn socket_buffers(&self) -> usize {
        self.sockets_buffers().max(LEAST_SOCKET_BUFFERS)
    }

    /// The transport of a job's messages, as far as parameters alone say it; the first of all if they make no sense, which
    /// [`Params::select`] tells.
    pub fn rpi(&self) -> &'static Module {
        let found = self.select(&Job::default(), ThreadLevel::Single);
        found.map_or_else(|_| Module::first(), |found| found.transport())
    }
}
