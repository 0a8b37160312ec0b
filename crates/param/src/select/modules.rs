//! The modules of this library, a row each, and what a job gets of them.

use super::transports::{Ask, SelectError};
use super::{Decision, Framework, Row, ThreadLevel, Wish, decide};
use crate::choices::Transport;
use crate::components::Component;
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
    pub nodes: Option<Nodes>,
}

/// Several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// So many hosts.
    Hosts(usize),
    /// So many nodes on one host, as the parameter `mpi_virtual_nodes` says.
    Virtual(u32),
}

impl Nodes {
    /// The virtual nodes of a job of so many processes by the parameters, if there are several; `None`: of several processes.
    pub fn virtual_ones(params: &Params, ranks: Option<u32>) -> Option<Nodes> {
        let nodes = params.mpi_virtual_nodes().min(ranks.unwrap_or(u32::MAX));
        (nodes > 1).then_some(Nodes::Virtual(nodes))
    }
}

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Nodes::Hosts(hosts) => write!(f, "{hosts} hosts"),
            Nodes::Virtual(nodes) => write!(f, "{nodes} virtual nodes (parameter 'mpi_virtual_nodes')"),
        }
    }
}

/// The name of sockets as the way between nodes.
const SOCKETS: &str = "tcp";

/// A transport's row: what does not depend on the job.
struct Fixed {
    transport: Transport,
    lowest: ThreadLevel,
    highest: ThreadLevel,
    priority: fn(&Params) -> u32,
    unavailable: fn(&Job) -> Option<String>,
    /// What carries its messages between nodes, if that is something else.
    between: Option<&'static str>,
}

const TRANSPORTS: [Fixed; 6] = [
    Fixed {
        transport: Transport::Shm,
        lowest: ThreadLevel::Single,
        highest: ThreadLevel::Multiple,
        priority: Params::rpi_shm_priority,
        unavailable: |_| None,
        between: Some(SOCKETS),
    },
    Fixed {
        transport: Transport::Tcp,
        lowest: ThreadLevel::Single,
        highest: ThreadLevel::Multiple,
        priority: Params::rpi_tcp_priority,
        unavailable: |job| job.no_sockets.clone(),
        between: None,
    },
    Fixed {
        transport: Transport::Usysv,
        lowest: ThreadLevel::Single,
        highest: ThreadLevel::Multiple,
        priority: Params::rpi_usysv_priority,
        unavailable: |_| None,
        between: Some(SOCKETS),
    },
    Fixed {
        transport: Transport::Sysv,
        lowest: ThreadLevel::Single,
        highest: ThreadLevel::Multiple,
        priority: Params::rpi_sysv_priority,
        unavailable: |_| None,
        between: Some(SOCKETS),
    },
    Fixed {
        transport: Transport::Crtcp,
        lowest: ThreadLevel::Single,
        highest: ThreadLevel::Multiple,
        priority: Params::rpi_crtcp_priority,
        unavailable: |job| job.no_sockets.clone(),
        between: None,
    },
    Fixed {
        transport: Transport::Lamd,
        lowest: ThreadLevel::Single,
        highest: ThreadLevel::Multiple,
        priority: Params::rpi_lamd_priority,
        unavailable: |job| job.no_daemons.clone(),
        between: Some(SOCKETS),
    },
];

/// Bytes that the kernel buffers for a socket at least if nothing else is asked for. With less a stream of messages waits for the
/// receiver's program all the time.
const SOCKET_BUFFERS: usize = 1 << 20;

impl Transport {
    /// All, in the order of the words of `rpi`.
    pub const ALL: [Transport; 6] = [
        Transport::Shm,
        Transport::Tcp,
        Transport::Usysv,
        Transport::Sysv,
        Transport::Crtcp,
        Transport::Lamd,
    ];

    /// The name that the parameter `rpi` has for it.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Shm => "shm",
            Transport::Tcp => "tcp",
            Transport::Usysv => "usysv",
            Transport::Sysv => "sysv",
            Transport::Crtcp => "crtcp",
            Transport::Lamd => "lamd",
        }
    }

    /// Whether messages to all peers go over sockets, those of the own host included: to the peer, or to a daemon.
    pub fn is_over_sockets(self) -> bool {
        matches!(self, Transport::Tcp | Transport::Crtcp | Transport::Lamd)
    }

    /// Whether its connections can be given up, and made again, while a job runs.
    pub fn can_quiesce(self) -> bool {
        matches!(self, Transport::Crtcp)
    }
}

impl Decision {
    /// The transport that is used.
    pub fn transport(&self) -> Transport {
        Transport::ALL.into_iter().find(|one| one.name() == self.rpi).unwrap_or(Transport::Shm)
    }
}

/// The rows for a job of which this is asked.
fn rows(params: &Params, job: &Job, ask: &Ask) -> Vec<Row> {
    let transports = TRANSPORTS.iter().map(|fixed| Row {
        framework: Framework::Rpi,
        name: fixed.transport.name(),
        priority: (fixed.priority)(params),
        lowest: fixed.lowest,
        highest: fixed.highest,
        checkpoints: fixed.transport.can_quiesce(),
        left_out: ask.left_out(fixed.transport),
        unavailable: (fixed.unavailable)(job),
        between: fixed.between,
    });
    let between = Row {
        framework: Framework::Between,
        name: SOCKETS,
        priority: params.rpi_tcp_priority(),
        lowest: ThreadLevel::Single,
        highest: ThreadLevel::Multiple,
        checkpoints: true,
        left_out: ask.left_out_between(),
        unavailable: job.no_sockets.clone(),
        between: None,
    };
    // Which of these are for a communicator is found out when it is made.
    let coll = Component::all().map(|component| Row {
        framework: Framework::Coll,
        name: component.name(),
        priority: component.priority(params),
        lowest: ThreadLevel::Single,
        highest: ThreadLevel::Multiple,
        checkpoints: true,
        left_out: ask.left_out_of_coll(component),
        unavailable: None,
        between: None,
    });
    transports.chain([between]).chain(coll).collect()
}

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
        Ok(decide(&rows(self, job, &ask), &Wish { level, by, cr: None, nodes })?)
    }

    /// Why the parameters leave out sockets as the way to processes with which no memory is shared, if they do; for a person.
    pub fn no_way_between(&self) -> Option<String> {
        Ask::of(self, &Job::default()).ok()?.left_out_between()
    }

    /// All modules, whatever is asked for.
    pub fn modules(&self, job: &Job) -> Vec<Row> {
        rows(self, job, &Ask::default())
    }

    /// The longest message, in bytes, that sockets carry before its receive is known to be posted, by the parameter of the
    /// transport in use. An odd number counts as the next even one: the guide's default of 65535 bytes just misses the commonest
    /// length there is.
    pub fn sockets_short(&self) -> usize {
        let bytes = match self.rpi() {
            Transport::Crtcp => self.rpi_crtcp_short(),
            _ => self.rpi_tcp_short(),
        };
        bytes.next_multiple_of(2)
    }

    /// Bytes that the kernel shall buffer for each socket, by the parameters of the transport in use.
    pub fn sockets_buffers(&self) -> usize {
        let asked = match self.rpi() {
            Transport::Crtcp => self.rpi_crtcp_sockbuf(),
            _ => self.rpi_tcp_sockbuf(),
        };
        usize::try_from(asked).unwrap_or_else(|_| self.sockets_short().max(SOCKET_BUFFERS))
    }

    /// The way that the messages of a job take, as far as parameters alone say it; shared memory if they make no sense, which
    /// [`Params::select`] tells.
    pub fn rpi(&self) -> Transport {
        self.select(&Job::default(), ThreadLevel::Single).map_or(Transport::Shm, |found| found.transport())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_asked_for_is_chosen_and_otherwise_the_highest_priority() {
        let with = |name, value| Params::default().with(name, value).unwrap();
        assert_eq!(Params::default().rpi(), Transport::Shm);
        assert_eq!(with("rpi", "tcp").rpi(), Transport::Tcp);
        assert_eq!(with("rpi", "crtcp").rpi(), Transport::Crtcp);
        assert_eq!(with("rpi", "lamd").rpi(), Transport::Lamd);
        assert_eq!(with("rpi_ssi_lamd_priority", "61").rpi(), Transport::Lamd);
        assert_eq!(with("rpi_tcp_priority", "60").rpi(), Transport::Shm, "the first of equals");
        assert_eq!(with("rpi_tcp_priority", "61").rpi(), Transport::Tcp);
        assert_eq!(with("rpi_shm_priority", "39").rpi(), Transport::Usysv);
        let fewer = with("rpi_shm_priority", "19").with("rpi_usysv_priority", "19").unwrap();
        assert_eq!(fewer.rpi(), Transport::Sysv);
        let fewer = fewer.with("rpi_sysv_priority", "0").unwrap();
        assert_eq!(fewer.rpi(), Transport::Crtcp);
        assert_eq!(fewer.with("rpi_crtcp_priority", "0").unwrap().rpi(), Transport::Tcp);
        assert_eq!(with("rpi_usysv_priority", "61").rpi(), Transport::Usysv);
        assert_eq!(
            (with("rpi", "usysv").rpi(), with("rpi", "sysv").rpi()),
            (Transport::Usysv, Transport::Sysv)
        );
        assert_eq!(with("rpi_tcp_priority", "61").with("rpi", "shm").unwrap().rpi(), Transport::Shm);
    }

    #[test]
    fn sockets_have_the_limits_of_the_transport_in_use() {
        let all = [("rpi_tcp_short", "100"), ("rpi_crtcp_short", "200"), ("rpi_tcp_sockbuf", "300")];
        let all =
            all.into_iter().fold(Params::default(), |all, (name, value)| all.with(name, value).unwrap());
        let limits = |params: &Params| (params.sockets_short(), params.sockets_buffers());
        assert_eq!(limits(&all), (100, 300), "those of tcp, also between hosts");
        let all = all.with("rpi", "crtcp").unwrap();
        assert_eq!(limits(&all), (200, 1 << 20), "no buffers are asked for");
        let long = all.clone().with("rpi_crtcp_short", "2m").unwrap();
        assert_eq!(limits(&long), (2 << 20, 2 << 20), "no buffers are asked for: as many as a short message");
        assert_eq!(limits(&all.with("rpi_crtcp_sockbuf", "400").unwrap()), (200, 400));
    }

    #[test]
    fn what_cannot_be_used_leaves_its_place_or_ends_the_job() {
        let job = Job { no_sockets: Some("there is no network".into()), ..Job::default() };
        let preferring = Params::default().with("rpi_tcp_priority", "61").unwrap();
        let found = preferring.select(&job, ThreadLevel::Multiple).unwrap();
        assert_eq!((found.transport(), found.level), (Transport::Shm, ThreadLevel::Multiple));
        for transport in ["rpi tcp", "rpi crtcp"] {
            let drop = (transport.to_string(), "there is no network".to_string());
            assert!(found.steps[1].drops.contains(&drop), "{:?}", found.steps[1].drops);
        }
        let asking = Params::default().with("rpi", "tcp").unwrap();
        let error = asking.select(&job, ThreadLevel::Single).unwrap_err().to_string();
        assert!(
            error.contains("this job: rpi tcp: there is no network") && !error.contains("rpi shm"),
            "{error}"
        );
    }
}
