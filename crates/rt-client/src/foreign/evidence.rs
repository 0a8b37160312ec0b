//! The evidence of another launcher: environment variables, and whether the launcher that set them
//! is live.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::id;
use std::time::Duration;

use oxmpi_sys::process_stat::line_of;
use oxmpi_sys::spawn::is_live_socket;

use crate::lost::LAUNCHER_VARIABLE;

/// The limit for a PMIx server on this machine to accept.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    pub(super) pmi: Pmi,
    pub(super) pmix: Pmix,
    pub(super) slurm: Slurm,
    pub(super) task_rank: Option<u32>,
    /// This process and its ancestors, without an `mpirun` of ours.
    pub(super) line: Vec<i32>,
    pub(super) is_below_mpirun: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pmi {
    pub(super) size: Option<u32>,
    /// PMI_FD, if it is a socket with a peer.
    pub(super) open_socket: Option<i32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pmix {
    /// OMPI_COMM_WORLD_SIZE.
    pub(super) size: Option<u32>,
    pub(super) server: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Slurm {
    /// SLURM_NTASKS: of the allocation or the step.
    pub(super) tasks: Option<u32>,
    /// SLURM_STEP_NUM_TASKS.
    pub(super) step_tasks: Option<u32>,
    /// SLURM_TASK_PID.
    pub(super) task: Option<i32>,
}

impl Evidence {
    pub(super) fn gather() -> Evidence {
        let (line, is_below_mpirun) = line_of(id(), number(LAUNCHER_VARIABLE));
        Evidence {
            pmi: Pmi {
                size: number("PMI_SIZE"),
                open_socket: number("PMI_FD").filter(|socket| is_live_socket(*socket)),
            },
            // Below our mpirun, our mpirun has set this variable.
            pmix: Pmix {
                size: number("OMPI_COMM_WORLD_SIZE").filter(|_| !is_below_mpirun),
                server: pmix_server(),
            },
            slurm: Slurm {
                tasks: number("SLURM_NTASKS"),
                step_tasks: number("SLURM_STEP_NUM_TASKS"),
                task: number("SLURM_TASK_PID"),
            },
            task_rank: ["PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"]
                .into_iter()
                .find_map(number),
            line,
            is_below_mpirun,
        }
    }
}

fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok()?.trim().parse().ok()
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
    /// Only connects: a server drops a connection that ends without a greeting.
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
