//! The modules of this program, a row each, and the selection for a job.

use super::transports::{ModuleRequests, SelectError};
use super::{Framework, ModuleRow, ModuleSelection, SelectionRequest, ThreadLevel, decide};
use crate::components::Component;
use crate::module::{BetweenNodes, Module, SocketParams};
use crate::registry::Params;
use std::fmt;

/// The facts about a job before its modules are selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    pub ranks: Option<u32>,
    /// The reason why the job cannot have sockets.
    pub no_sockets: Option<String>,
    /// The reason why messages cannot go through daemons.
    pub no_daemons: Option<String>,
    pub nodes: Option<NodeCount>,
}

/// The nodes of a job on several nodes: their kind and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeCount {
    Hosts(usize),
    /// Nodes on one host (`mpi_virtual_nodes`).
    Virtual(u32),
}

impl NodeCount {
    /// The virtual nodes of a job of `ranks` processes (`None`: several), if there are several.
    pub fn virtual_ones(params: &Params, ranks: Option<u32>) -> Option<NodeCount> {
        let nodes = params.mpi_virtual_nodes().min(ranks.unwrap_or(u32::MAX));
        (nodes > 1).then_some(NodeCount::Virtual(nodes))
    }
}

impl fmt::Display for NodeCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeCount::Hosts(hosts) => write!(f, "{hosts} hosts"),
            NodeCount::Virtual(nodes) => {
                write!(f, "{nodes} virtual nodes (parameter 'mpi_virtual_nodes')")
            }
        }
    }
}

/// The kernel's buffer of a socket in bytes unless a parameter sets it. With a shorter buffer a
/// stream of messages often waits for the receiver's program.
const SOCKET_BUFFERS: usize = 1 << 20;
/// With a shorter buffer a connection waits for timers: one segment of the loopback does not fit.
pub const LEAST_SOCKET_BUFFERS: usize = 32 << 10;

impl ModuleSelection {
    /// The selected transport.
    pub fn transport(&self) -> &'static Module {
        Module::named(self.rpi).unwrap_or_else(Module::first)
    }
}

fn rows(params: &Params, job: &Job, requests: &ModuleRequests) -> Vec<ModuleRow> {
    let route = Module::between_nodes();
    // 'blcr' makes images of whole jobs over any transport. A transport that allows no other images
    // is selected only on request.
    let for_cr = params.cr().filter(|_| !requests.names_transport());
    let left_out_for_cr = |module: &Module| {
        let cr = for_cr.filter(|_| !module.checkpoints)?;
        Some(format!(
            "cr {cr} is requested, which uses it only if 'rpi' names it, for images of whole jobs on one host"
        ))
    };
    let left_out =
        |module: &'static Module| requests.left_out(module).or_else(|| left_out_for_cr(module));
    let row = |module: &'static Module| ModuleRow {
        framework: Framework::Rpi,
        name: module.name,
        priority: module.priority(params),
        lowest: module.lowest,
        highest: module.highest,
        checkpoints: module.can_rest(params) || module.images && params.cr().is_some(),
        left_out: left_out(module),
        // Excluded modules are not searched for on this machine.
        unavailable: match left_out(module) {
            Some(_) => (module.unavailable)(job),
            None => module.refusal(params, job),
        },
        between: route.filter(|_| module.between == BetweenNodes::Another).map(|route| route.name),
    };
    let transports = Module::all().iter().map(|module| row(module));
    let between = route.map(|route| ModuleRow {
        framework: Framework::Between,
        checkpoints: true,
        left_out: requests.left_out_between(),
        between: None,
        ..row(route)
    });
    // Whether a component serves a communicator is decided when the communicator is made.
    let components = Component::all().chain(requests.names_base_alone().then_some(Component::Base));
    let coll = components.map(|component| ModuleRow {
        framework: Framework::Coll,
        name: component.name(),
        priority: component.priority(params),
        lowest: ThreadLevel::Single,
        highest: ThreadLevel::Multiple,
        checkpoints: !matches!(component, Component::Ucc | Component::Hcoll),
        left_out: requests.left_out_of_coll(component),
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
            [requested, ..] if requested != *name => {
                Some(format!("'{requested}' is requested (parameter 'cr')"))
            }
            _ => None,
        },
        unavailable: unavailable(job),
        between: None,
    });
    transports.chain(between).chain(coll).chain(cr).collect()
}

type Unavailable = fn(&Job) -> Option<String>;

/// The modules for checkpoints: names, priorities, and the check for a job.
const CR: [(&str, u32, Unavailable); 2] = [
    // mpirun checks whether the transport of a job on several hosts supports images of each rank.
    ("blcr", 50, |_| None),
    ("self", 25, |_| None),
];

impl Params {
    /// Selects the modules of a job whose program requests this thread level. The environment may
    /// replace the level ([`ThreadLevel::from_env`]). Errors: the parameters `rpi`, `pml`, `btl`,
    /// `mtl` and `coll` name unknown modules or contradict each other, no module is left, or the
    /// variable is wrong.
    pub fn select(&self, job: &Job, level: ThreadLevel) -> Result<ModuleSelection, SelectError> {
        let (level, by) = match ThreadLevel::from_env()? {
            Some((level, variable)) => (level, format!("environment variable {variable}")),
            None => (level, "as the program requests".to_string()),
        };
        let requests = ModuleRequests::of(self, job)?;
        let nodes = job.nodes.map(|nodes| nodes.to_string());
        let mut rows = rows(self, job, &requests);
        let is_considered =
            |name| Module::named(name).is_none_or(|module| requests.considers(module));
        rows.retain(|row| row.framework != Framework::Rpi || is_considered(row.name));
        Ok(decide(&rows, &SelectionRequest { level, by, cr: self.cr(), nodes })?)
    }

    /// The reason why the parameters exclude sockets between processes without shared memory, as a
    /// text for users.
    pub fn no_way_between(&self) -> Option<String> {
        ModuleRequests::of(self, &Job::default()).ok()?.left_out_between()
    }

    /// All modules, without any request.
    pub fn modules(&self, job: &Job) -> Vec<ModuleRow> {
        rows(self, job, &ModuleRequests::default())
    }

    /// The parameters of the sockets between processes: those of the transport in use, or of the
    /// one between nodes.
    pub fn sockets(&self) -> Option<&'static SocketParams> {
        let route = || Module::between_nodes()?.sockets.as_ref();
        self.rpi().sockets.as_ref().or_else(route)
    }

    /// The eager limit of sockets in bytes, by the parameter of the transport in use. An odd number
    /// is rounded up: LAM/MPI's default of 65535 bytes just misses the commonest length.
    pub fn sockets_short(&self) -> usize {
        self.sockets().map_or(0, |of| self.count(of.short)).next_multiple_of(2)
    }

    /// The kernel's buffer of each socket in bytes, by the parameters of the transport in use.
    pub fn sockets_buffers(&self) -> usize {
        let requested = self.sockets().map_or(-1, |of| self.number(of.buffers));
        usize::try_from(requested).unwrap_or_else(|_| self.sockets_short().max(SOCKET_BUFFERS))
    }

    /// [`Params::sockets_buffers`], but at least [`LEAST_SOCKET_BUFFERS`].
    pub fn socket_buffers(&self) -> usize {
        self.sockets_buffers().max(LEAST_SOCKET_BUFFERS)
    }

    /// The transport of a job's messages by the parameters alone; the first one if the parameters
    /// contradict each other, which [`Params::select`] reports.
    pub fn rpi(&self) -> &'static Module {
        let found = self.select(&Job::default(), ThreadLevel::Single);
        found.map_or_else(|_| Module::first(), |found| found.transport())
    }
}
