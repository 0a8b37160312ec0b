//! The evidence of another launcher: environment variables, and whether the launcher that set them
//! is live.
//!
//! Variables alone prove nothing: every batch script sets them, and all its programs inherit them.
//!
//! | protocol | evidence | evidence that it is live |
//! |---|---|---|
//! | PMI-1 | PMI_RANK, PMI_SIZE | PMI_FD is a socket with an open peer |
//! | | PMI_ID | the address in PMI_PORT accepts |
//! | PMIx | PMIX_NAMESPACE, PMIX_RANK | a server of PMIX_SERVER_URI* accepts |
//! | none (Slurm) | SLURM_STEP_NUM_TASKS | SLURM_TASK_PID is this process or an ancestor |
//!
//! [`Evidence::gather`] reads the system; [`Evidence::managers`] is pure.

use std::fmt;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::process::id;
use std::time::Duration;

use oxmpi_sys::process_stat::line_of;
use oxmpi_sys::spawn::is_live_socket;

use crate::pmi1::Pmi1Address;

/// The limit for a manager on this machine to accept.
const PATIENCE: Duration = Duration::from_millis(500);

/// The variables of launchers, as far as they have usable values, and the live parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    pub pmi: PmiEvidence,
    pub pmix: PmixEvidence,
    pub slurm: SlurmEvidence,
    /// The variable with which another launcher has started this process or an ancestor as one of
    /// several processes, if this process has no such variable, and its value if it is known.
    pub emptied: Option<(&'static str, Option<u32>)>,
    /// The rank by any launcher.
    pub task_rank: Option<u32>,
    /// This process and its ancestors, without an `mpirun` of ours.
    pub line: Vec<i32>,
    pub is_below_mpirun: bool,
}

/// The evidence of a manager that speaks PMI-1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PmiEvidence {
    pub size: Option<u32>,
    pub rank: Option<u32>,
    /// PMI_FD, if it is a socket with a peer.
    pub open_socket: Option<RawFd>,
    /// PMI_FD, if it is no such socket, and the launcher that has set it still runs.
    pub closed_socket: Option<RawFd>,
    /// PMI_PORT and PMI_ID, if something listens there.
    pub port: Option<(String, u32)>,
}

/// The evidence of a server that speaks PMIx.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PmixEvidence {
    /// OMPI_COMM_WORLD_SIZE.
    pub size: Option<u32>,
    /// The address of a server that accepts.
    pub server: Option<String>,
    /// Whether the server is that of a step of Slurm, by the name of the job.
    pub is_of_slurm: bool,
}

/// The evidence of a task of `srun`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlurmEvidence {
    /// SLURM_NTASKS: of the allocation or the step.
    pub tasks: Option<u32>,
    /// SLURM_STEP_NUM_TASKS.
    pub step_tasks: Option<u32>,
    /// SLURM_TASK_PID.
    pub task: Option<i32>,
}

/// A live manager of this process. Displayed, it is the evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveManager {
    Pmi1(Pmi1Address),
    /// `named`: the variable with the size of the job, and the size.
    Pmix {
        server: String,
        named: Option<(&'static str, u32)>,
    },
    /// A task of `srun` without a protocol.
    Slurm {
        tasks: u32,
        task: i32,
    },
}

impl LiveManager {
    /// The number of processes of the job, if the variables name it.
    pub fn tasks(&self) -> Option<u32> {
        match self {
            LiveManager::Pmi1(Pmi1Address::Inherited { size, .. }) => Some(*size),
            LiveManager::Pmi1(Pmi1Address::Port { .. }) => None,
            LiveManager::Pmix { named, .. } => named.map(|(_, size)| size),
            LiveManager::Slurm { tasks, .. } => Some(*tasks),
        }
    }
}

impl fmt::Display for LiveManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LiveManager::Pmi1(Pmi1Address::Inherited { descriptor, size, .. }) => {
                write!(f, "PMI_SIZE={size}, and PMI_FD={descriptor} is an open socket")
            }
            LiveManager::Pmi1(Pmi1Address::Port { address, id }) => {
                write!(f, "PMI_ID={id}, and a manager listens at PMI_PORT={address}")
            }
            LiveManager::Pmix { server, named } => {
                if let Some((name, size)) = named {
                    write!(f, "{name}={size}, and ")?;
                }
                write!(f, "a PMIx server answers at {server}")
            }
            LiveManager::Slurm { tasks, task } => {
                write!(f, "SLURM_STEP_NUM_TASKS={tasks}, and SLURM_TASK_PID={task} is this task")
            }
        }
    }
}

impl Evidence {
    /// Reads the variables and tries the managers. `mpirun`: the process of our own launcher that
    /// has started this one, if there is one. Below it only later evidence counts.
    pub fn gather(mpirun: Option<u32>) -> Evidence {
        let (line, is_below_mpirun) = line_of(id(), mpirun);
        let socket: Option<RawFd> = number("PMI_FD");
        let (open_socket, dead_socket) = match socket {
            Some(socket) if is_live_socket(socket) => (Some(socket), None),
            other => (None, other),
        };
        Evidence {
            pmi: PmiEvidence {
                size: number("PMI_SIZE"),
                rank: number("PMI_RANK"),
                open_socket,
                closed_socket: dead_socket
                    .filter(|_| !is_below_mpirun && has_starter(&line, "PMI_FD=")),
                port: pmi_port(),
            },
            // Below our mpirun, our mpirun has set this variable.
            pmix: PmixEvidence {
                size: number("OMPI_COMM_WORLD_SIZE").filter(|_| !is_below_mpirun),
                server: pmix_server(),
                is_of_slurm: std::env::var("PMIX_NAMESPACE")
                    .is_ok_and(|name| name.starts_with("slurm.pmix.")),
            },
            slurm: SlurmEvidence {
                tasks: number("SLURM_NTASKS"),
                step_tasks: number("SLURM_STEP_NUM_TASKS"),
                task: number("SLURM_TASK_PID"),
            },
            emptied: if SIZES.iter().any(|name| std::env::var_os(name).is_some()) {
                None
            } else {
                let of_ancestor = line.iter().skip(1).find_map(size_of_job);
                let of_parent = || Some((variable_of_launcher(*line.get(1)?)?, None));
                of_ancestor.map(|(name, size)| (name, Some(size))).or_else(of_parent)
            },
            task_rank: ["PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"]
                .into_iter()
                .find_map(number),
            line,
            is_below_mpirun,
        }
    }

    /// The live managers, the closest launcher first. Launchers close the sockets of others when
    /// they start a program, and do not take away addresses; so a socket is closer than an address.
    pub fn managers(&self) -> Vec<LiveManager> {
        let Evidence { pmi, pmix, slurm, .. } = self;
        let mut managers = Vec::new();
        if let (Some(size), Some(descriptor)) = (pmi.size, pmi.open_socket) {
            let rank = pmi.rank;
            managers.push(LiveManager::Pmi1(Pmi1Address::Inherited { descriptor, rank, size }));
        }
        if let Some((address, id)) = pmi.port.clone() {
            managers.push(LiveManager::Pmi1(Pmi1Address::Port { address, id }));
        }
        if let Some(server) = pmix.server.clone() {
            // The launcher with the server sets the first variable, if it is Open MPI's.
            // A server within a step of Slurm may have any number of processes.
            let of_step = slurm.step_tasks.filter(|_| pmix.is_of_slurm);
            let named = [("OMPI_COMM_WORLD_SIZE", pmix.size), ("SLURM_STEP_NUM_TASKS", of_step)];
            let named = named.into_iter().find_map(|(name, size)| Some((name, size?)));
            managers.push(LiveManager::Pmix { server, named });
        }
        // Process 1 is an ancestor of all processes, and is not started by srun.
        if let (Some(tasks), Some(task @ 2..)) = (slurm.step_tasks, slurm.task)
            && self.line.contains(&task)
        {
            managers.push(LiveManager::Slurm { tasks, task });
        }
        managers
    }
}

/// The processes that start programs for a launcher, by name (15 characters), with that variable.
const LAUNCHERS: [(&str, &str); 4] = [
    ("hydra_pmi_proxy", "PMI_SIZE"),
    ("slurmstepd", "SLURM_STEP_NUM_TASKS"),
    ("prted", "OMPI_COMM_WORLD_SIZE"),
    ("prterun", "OMPI_COMM_WORLD_SIZE"),
];

/// The variables with the number of processes of a job.
const SIZES: [&str; 3] = ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"];

/// The variable with which a process sets the size of a job for its children, if it is known as a
/// launcher's by its name.
fn variable_of_launcher(process: i32) -> Option<&'static str> {
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    LAUNCHERS.into_iter().find(|(known, _)| *known == name.trim_end()).map(|(_, name)| name)
}

/// The variable with which a launcher has started a process as one of several.
fn size_of_job(process: &i32) -> Option<(&'static str, u32)> {
    let all = std::fs::read(format!("/proc/{process}/environ")).ok()?;
    let value = |name: &str| {
        let mut all = all.split(|byte| *byte == 0).filter_map(|one| std::str::from_utf8(one).ok());
        all.find_map(|one| one.strip_prefix(name)?.strip_prefix('=')?.parse::<u32>().ok())
    };
    SIZES.into_iter().find_map(|name| Some((name, value(name).filter(|size| *size > 1)?)))
}

/// Whether the launcher runs that has set this variable (with its `=`) for this process or an
/// ancestor: it is the first ancestor without the variable.
fn has_starter(line: &[i32], variable: &str) -> bool {
    let has_variable = |process: &i32| {
        // The environment of another user's process cannot be read: a launcher may be root's.
        let all = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        all.split(|byte| *byte == 0).any(|one| one.starts_with(variable.as_bytes()))
    };
    let starter = line.iter().skip(1).find(|process| !has_variable(process));
    starter.is_some_and(|process| variable_of_launcher(*process).is_some())
}

fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok()?.trim().parse().ok()
}

fn pmi_port() -> Option<(String, u32)> {
    let (address, id) = (std::env::var("PMI_PORT").ok()?, number("PMI_ID")?);
    let mut resolved = address.to_socket_addrs().ok()?;
    resolved.any(|address| Address::Tcp(address).takes_connections()).then_some((address, id))
}

fn pmix_server() -> Option<String> {
    // Clients of a server have this variable.
    std::env::var_os("PMIX_NAMESPACE")?;
    let mut tried = Vec::new();
    // A server sets one variable for each version of its protocol: PMIX_SERVER_URI2,
    // PMIX_SERVER_URI41 and so on.
    for (name, value) in std::env::vars_os() {
        if !name.to_string_lossy().starts_with("PMIX_SERVER_URI") {
            continue;
        }
        let Some(address) = value.to_str().and_then(address_in) else { continue };
        if !tried.contains(&address) {
            if address.takes_connections() {
                return Some(address.to_string());
            }
            tried.push(address);
        }
    }
    None
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Tcp(SocketAddr),
    Unix(String),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(address) => write!(f, "{address}"),
            Address::Unix(path) => write!(f, "{path}"),
        }
    }
}

impl Address {
    /// Only connects: managers drop a connection that ends without a greeting.
    fn takes_connections(&self) -> bool {
        match self {
            Address::Tcp(address) => TcpStream::connect_timeout(address, PATIENCE).is_ok(),
            Address::Unix(path) => UnixStream::connect(path).is_ok(),
        }
    }
}

/// Finds the address in a server's name: `NAMESPACE.RANK;tcp4://127.0.0.1:4711`,
/// `tcp6://[::1]:4711`, or, in version 1, `NAMESPACE:RANK:/a/path`.
fn address_in(uri: &str) -> Option<Address> {
    for scheme in ["tcp4://", "tcp6://"] {
        if let Some((_, rest)) = uri.split_once(scheme) {
            let address = rest.split([';', ',']).next().unwrap_or(rest);
            // Some servers write IPv6 addresses without brackets.
            let bracketed = address
                .rsplit_once(':')
                .and_then(|(host, port)| format!("[{host}]:{port}").parse().ok());
            return address.parse().ok().or(bracketed).map(Address::Tcp);
        }
    }
    let (_, path) = uri.split_once(":/")?;
    Some(Address::Unix(format!("/{path}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_closest_launcher_comes_first() {
        let managers = |evidence: &Evidence| -> Vec<String> {
            evidence.managers().iter().map(LiveManager::to_string).collect()
        };
        let mut evidence = Evidence::default();
        assert!(evidence.managers().is_empty());
        evidence.slurm = SlurmEvidence { tasks: Some(4), step_tasks: Some(3), task: Some(20) };
        assert!(evidence.managers().is_empty(), "a variable of a batch script");
        evidence.line = vec![30, 20, 10];
        let slurm = "SLURM_STEP_NUM_TASKS=3, and SLURM_TASK_PID=20 is this task";
        assert_eq!(managers(&evidence), [slurm]);
        evidence.pmix.server = Some("127.0.0.1:7".into());
        let of_other = "a PMIx server answers at 127.0.0.1:7";
        assert_eq!(managers(&evidence), [of_other, slurm], "prterun within a step");
        evidence.pmix.is_of_slurm = true;
        let by_slurm = "SLURM_STEP_NUM_TASKS=3, and a PMIx server answers at 127.0.0.1:7";
        assert_eq!(managers(&evidence), [by_slurm, slurm]);
        evidence.pmix.size = Some(2);
        assert_eq!(evidence.managers()[0].tasks(), Some(2));
        evidence.pmi.port = Some(("h:9".into(), 1));
        evidence.pmi.size = Some(5);
        let port = "PMI_ID=1, and a manager listens at PMI_PORT=h:9";
        assert_eq!(managers(&evidence)[0], port);
        assert_eq!(evidence.managers()[0].tasks(), None);
        evidence.pmi.open_socket = Some(7);
        let all = managers(&evidence);
        assert_eq!(all[..2], ["PMI_SIZE=5, and PMI_FD=7 is an open socket", port]);
        assert_eq!((all.len(), evidence.managers()[0].tasks()), (4, Some(5)));
        evidence.slurm.task = Some(1);
        evidence.line = vec![30, 1];
        assert_eq!(managers(&evidence).len(), 3, "process 1 is no task");
    }

    #[test]
    fn a_server_is_found_in_its_name() {
        let tcp = |text: &str| Some(Address::Tcp(text.parse().unwrap()));
        assert_eq!(address_in("prterun-h-77@0.0;tcp4://127.0.0.1:34567"), tcp("127.0.0.1:34567"));
        assert_eq!(address_in("a.0;tcp4://10.0.0.1:1;more"), tcp("10.0.0.1:1"));
        assert_eq!(address_in("a.0;tcp6://[::1]:9"), tcp("[::1]:9"));
        assert_eq!(address_in("a.0;tcp6://fe80::1:9"), tcp("[fe80::1]:9"));
        assert_eq!(address_in("pmix-server:88:/tmp/a:b"), Some(Address::Unix("/tmp/a:b".into())));
        assert_eq!((address_in(""), address_in("a.0;tcp4://nonexistent")), (None, None));
    }

    #[test]
    fn a_server_counts_while_it_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        assert!(address.takes_connections());
        drop(listener);
        assert!(!address.takes_connections());
        assert!(!Address::Unix("/nonexistent/socket".into()).takes_connections());
    }
}
