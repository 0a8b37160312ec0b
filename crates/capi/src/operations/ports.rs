//! Connections between jobs by a port, a published name or a socket (MPI-5.0 sections 11.9, 11.10).

use crate::operations::info;
use crate::operations::spawn::why;
use crate::state::library::Running;
use crate::state::named::CommArgument;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::Info;
use oxmpi_core::Communicator;
use oxmpi_core::dynamic::join::{INTRODUCTION, Introduction};
use oxmpi_core::dynamic::meet::{Broker, MeetOptions, PortAnswer};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_rt_client::client::{Client, Meeting, UniverseError};
use oxmpi_sys::socket;
use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

/// How long MPI_Comm_connect waits for an accept, unless the info has "timeout".
const CONNECT_PATIENCE: Duration = Duration::from_secs(60);
/// How long MPI_Comm_join waits for the other process.
const JOIN_PATIENCE: Duration = Duration::from_secs(60);
/// In bytes.
const LONGEST_NAME: usize = 1024;

fn error_of(class: c_int) -> impl Fn(UniverseError) -> MpiError {
    move |error| MpiError::new(class, why(error))
}

fn launcher_string(bytes: &[u8], what: &str, longest: usize, class: c_int) -> Result<String> {
    let string = String::from_utf8_lossy(bytes).into_owned();
    if string.is_empty() || string.len() > longest || string.contains('\n') {
        let text =
            format!("{what} is '{string}'; it must have 1 to {longest} bytes and no end of a line");
        return Err(MpiError::new(class, text));
    }
    Ok(string)
}

fn port_of(port_name: &[u8]) -> Result<String> {
    let longest = abi::MPI_MAX_PORT_NAME as usize - 1;
    launcher_string(port_name, "port_name", longest, abi::MPI_ERR_PORT)
}

fn service_of(service_name: &[u8], class: c_int) -> Result<String> {
    launcher_string(service_name, "service_name", LONGEST_NAME, class)
}

/// The launcher, as the broker of one port.
struct AtPort {
    client: Arc<Client>,
    accepts: bool,
    port: String,
}

impl Broker for AtPort {
    fn reach(&self) -> Result<()> {
        self.client.reach().map_err(error_of(abi::MPI_ERR_PORT))
    }

    fn go(&self, words: &[u64]) -> Result<PortAnswer> {
        let going = self
            .client
            .meet(self.accepts, &self.port, words)
            .map_err(error_of(abi::MPI_ERR_PORT))?;
        Ok(match going {
            Meeting::Waits { ticket } => PortAnswer::Waits(ticket),
            Meeting::Met { words } => PortAnswer::Meets(words),
        })
    }

    fn sought(&self) -> u32 {
        self.client.segment().status().sought()
    }

    fn waits(&self, ticket: u32, back: bool) -> Result<bool> {
        let (client, port) = (&self.client, &self.port);
        let waits = if back { client.give_back(ticket, port) } else { client.waits(ticket, port) };
        waits.map_err(error_of(abi::MPI_ERR_PORT))
    }
}

/// The time limit in an info.
fn patience(info: Info, otherwise: Option<Duration>) -> Result<Option<Duration>> {
    let info = info::given(info)?;
    let Some(text) = info.hint("timeout") else { return Ok(otherwise) };
    match text
        .trim()
        .parse::<f64>()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    {
        Some(time) => Ok(Some(time)),
        None => {
            let text = format!("the info's value of 'timeout', '{text}', is no number of seconds");
            Err(MpiError::new(abi::MPI_ERR_INFO_VALUE, text))
        }
    }
}

/// Whether other launchers get the name too.
fn is_global(info: Info) -> Result<bool> {
    let info = info::given(info)?;
    match info.hint("ompi_global_scope") {
        None | Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(other) => {
            let text = format!(
                "the info's value of 'ompi_global_scope', '{other}', is neither true nor false"
            );
            Err(MpiError::new(abi::MPI_ERR_INFO_VALUE, text))
        }
    }
}

fn meet<'a>(
    library: &'static Running,
    comm: &Communicator,
    port_name: impl FnOnce() -> Result<&'a [u8]>,
    (info, root, accepts): (Info, c_int, bool),
) -> Result<Communicator> {
    // The other ranks wait for the root, so its broker reports errors of its arguments.
    let is_root = comm.rank() == root;
    let otherwise = (!accepts).then_some(CONNECT_PATIENCE);
    let patience = if is_root { patience(info, otherwise) } else { Ok(None) };
    let way = MeetOptions { accepts, patience: *patience.as_ref().unwrap_or(&None) };
    library.process.meet(comm, root, way, || {
        patience?;
        let port = port_of(port_name()?)?;
        Ok(Box::new(AtPort { client: library.client.clone(), accepts, port }))
    })
}

fn introduced(fd: c_int, mine: Introduction) -> Result<Introduction> {
    let mut bytes = [0; INTRODUCTION];
    socket::exchange(fd, &mine.encode(), &mut bytes, JOIN_PATIENCE).map_err(|error| {
        MpiError::new(
            abi::MPI_ERR_OTHER,
            format!("the exchange over descriptor {fd} failed: {error}"),
        )
    })?;
    let text = || {
        format!("what came over descriptor {fd} is not from MPI_Comm_join of this version of OxMPI")
    };
    Introduction::decode(&bytes).ok_or_else(|| MpiError::new(abi::MPI_ERR_OTHER, text()))
}

/// All processes of this user on this machine can use the port. Test: tests/c/ports.c.
pub(crate) fn open_port(library: &Running, info: Info) -> Result<String> {
    info::given(info)?;
    library.client.open_port().map_err(error_of(abi::MPI_ERR_PORT))
}

pub(crate) fn close_port(library: &Running, port_name: &[u8]) -> Result<()> {
    library.client.close_port(&port_of(port_name)?).map_err(error_of(abi::MPI_ERR_PORT))
}

/// Waits forever, or for the seconds of the info key "timeout".
pub(crate) fn comm_accept<'a>(
    library: &'static Running,
    port_name: impl FnOnce() -> Result<&'a [u8]>,
    info: Info,
    root: c_int,
    comm: &CommArgument,
) -> Result<Communicator> {
    meet(library, comm, port_name, (info, root, true))
}

/// Waits for 60 seconds, or for those of the info key "timeout".
pub(crate) fn comm_connect<'a>(
    library: &'static Running,
    port_name: impl FnOnce() -> Result<&'a [u8]>,
    info: Info,
    root: c_int,
    comm: &CommArgument,
) -> Result<Communicator> {
    meet(library, comm, port_name, (info, root, false))
}

/// All processes of this user on this machine see the name; with the info key ompi_global_scope =
/// false, only those of this mpirun.
pub(crate) fn publish_name(
    library: &Running,
    service_name: &[u8],
    info: Info,
    port_name: &[u8],
) -> Result<()> {
    let everywhere = is_global(info)?;
    let service = service_of(service_name, abi::MPI_ERR_SERVICE)?;
    let published = library.client.publish(&service, &port_of(port_name)?, everywhere);
    published.map_err(error_of(abi::MPI_ERR_SERVICE))
}

pub(crate) fn unpublish_name(
    library: &Running,
    service_name: &[u8],
    info: Info,
    port_name: &[u8],
) -> Result<()> {
    info::given(info)?;
    let service = service_of(service_name, abi::MPI_ERR_SERVICE)?;
    let unpublished = library.client.unpublish(&service, &port_of(port_name)?);
    unpublished.map_err(error_of(abi::MPI_ERR_SERVICE))
}

pub(crate) fn lookup_name(library: &Running, service_name: &[u8], info: Info) -> Result<String> {
    info::given(info)?;
    let service = service_of(service_name, abi::MPI_ERR_NAME)?;
    library.client.look_up(&service).map_err(error_of(abi::MPI_ERR_NAME))
}

/// Test: tests/c/join.c.
pub(crate) fn comm_join(library: &Running, fd: c_int) -> Result<Communicator> {
    library.process.join(|mine| introduced(fd, mine))
}
