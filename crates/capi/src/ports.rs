//! Connections between jobs by a port, a published name or a socket (MPI-5.0 sections 11.9, 11.10).

use crate::arguments::NewObject;
use crate::errors::{on_comm, on_none};
use crate::info;
use crate::library::{Running, null};
use crate::spawn::why;
use crate::strings::{put_text, text};
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Info};
use oxmpi_core::Communicator;
use oxmpi_core::dynamic::join::{INTRODUCTION, Introduction};
use oxmpi_core::dynamic::meet::{Broker, MeetOptions, PortAnswer};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_rt_client::client::{Client, Meeting, UniverseError};
use oxmpi_sys::socket;
use std::ffi::{c_char, c_int};
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

/// # Safety
/// `string` must be null or a string that lives during the call.
unsafe fn launcher_string(
    string: *const c_char,
    what: &str,
    longest: usize,
    class: c_int,
) -> Result<String> {
    // SAFETY: by the contract of this function.
    let bytes = unsafe { text(string, what) }?;
    let string = String::from_utf8_lossy(bytes).into_owned();
    if string.is_empty() || string.len() > longest || string.contains('\n') {
        let text =
            format!("{what} is '{string}'; it must have 1 to {longest} bytes and no end of a line");
        return Err(MpiError::new(class, text));
    }
    Ok(string)
}

/// # Safety
/// `port_name` must be null or a string that lives during the call.
unsafe fn port_of(port_name: *const c_char) -> Result<String> {
    // SAFETY: by the contract of this function.
    unsafe {
        launcher_string(
            port_name,
            "port_name",
            abi::MPI_MAX_PORT_NAME as usize - 1,
            abi::MPI_ERR_PORT,
        )
    }
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

fn meet(
    library: &'static Running,
    comm: &Communicator,
    (port_name, info, root): (*const c_char, Info, c_int),
    accepts: bool,
    place: *mut Comm,
) -> Result<()> {
    // The other ranks wait for the root, so its broker reports errors of its arguments.
    let is_root = comm.rank() == root;
    let otherwise = (!accepts).then_some(CONNECT_PATIENCE);
    let patience = if is_root { patience(info, otherwise) } else { Ok(None) };
    let way = MeetOptions { accepts, patience: *patience.as_ref().unwrap_or(&None) };
    let made = library.process.meet(comm, root, way, || {
        patience?;
        // SAFETY: the C program passes a string.
        let port = unsafe { port_of(port_name) }?;
        Ok(Box::new(AtPort { client: library.client.clone(), accepts, port }))
    })?;
    unsafe { (made).give(library, place, "newcomm") }
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

mpi! {
    /// All processes of this user on this machine can use the port. Test: tests/c/ports.c.
    fn MPI_Open_port(info: Info, port_name: *mut c_char) -> c_int {
        on_none(FuncId::MPI_Open_port, |library| {
            info::given(info)?;
            if port_name.is_null() {
                return Err(null("port_name"));
            }
            let port = library.client.open_port().map_err(error_of(abi::MPI_ERR_PORT))?;
            // SAFETY: the C program passes room for MPI_MAX_PORT_NAME characters.
            unsafe { put_text(port.as_bytes(), abi::MPI_MAX_PORT_NAME as usize, port_name, "port_name") }
        })
    }

    fn MPI_Close_port(port_name: *const c_char) -> c_int {
        on_none(FuncId::MPI_Close_port, |library| {
            // SAFETY: the C program passes a string.
            let port = unsafe { port_of(port_name) }?;
            library.client.close_port(&port).map_err(error_of(abi::MPI_ERR_PORT))
        })
    }

    /// Waits forever, or for the seconds of the info key "timeout".
    fn MPI_Comm_accept(
        port_name: *const c_char,
        info: Info,
        root: c_int,
        comm: Comm,
        newcomm: *mut Comm,
    ) -> c_int {
        on_comm(FuncId::MPI_Comm_accept, comm, |library, communicator| {
            meet(library, communicator, (port_name, info, root), true, newcomm)
        })
    }

    /// Waits for 60 seconds, or for those of the info key "timeout".
    fn MPI_Comm_connect(
        port_name: *const c_char,
        info: Info,
        root: c_int,
        comm: Comm,
        newcomm: *mut Comm,
    ) -> c_int {
        on_comm(FuncId::MPI_Comm_connect, comm, |library, communicator| {
            meet(library, communicator, (port_name, info, root), false, newcomm)
        })
    }

    /// All processes of this user on this machine see the name; with the info key ompi_global_scope
    /// = false, only those of this mpirun.
    fn MPI_Publish_name(service_name: *const c_char, info: Info, port_name: *const c_char) -> c_int {
        on_none(FuncId::MPI_Publish_name, |library| {
            let everywhere = is_global(info)?;
            // SAFETY: the C program passes strings.
            let (service, port) = unsafe {
                (launcher_string(service_name, "service_name", LONGEST_NAME, abi::MPI_ERR_SERVICE)?, port_of(port_name)?)
            };
            library.client.publish(&service, &port, everywhere).map_err(error_of(abi::MPI_ERR_SERVICE))
        })
    }

    fn MPI_Unpublish_name(service_name: *const c_char, info: Info, port_name: *const c_char) -> c_int {
        on_none(FuncId::MPI_Unpublish_name, |library| {
            info::given(info)?;
            // SAFETY: the C program passes strings.
            let (service, port) = unsafe {
                (launcher_string(service_name, "service_name", LONGEST_NAME, abi::MPI_ERR_SERVICE)?, port_of(port_name)?)
            };
            library.client.unpublish(&service, &port).map_err(error_of(abi::MPI_ERR_SERVICE))
        })
    }

    fn MPI_Lookup_name(service_name: *const c_char, info: Info, port_name: *mut c_char) -> c_int {
        on_none(FuncId::MPI_Lookup_name, |library| {
            info::given(info)?;
            // SAFETY: the C program passes a string.
            let service = unsafe { launcher_string(service_name, "service_name", LONGEST_NAME, abi::MPI_ERR_NAME) }?;
            let port = library.client.look_up(&service).map_err(error_of(abi::MPI_ERR_NAME))?;
            // SAFETY: the C program passes room for MPI_MAX_PORT_NAME characters.
            unsafe { put_text(port.as_bytes(), abi::MPI_MAX_PORT_NAME as usize, port_name, "port_name") }
        })
    }

    /// Test: tests/c/join.c.
    fn MPI_Comm_join(fd: c_int, intercomm: *mut Comm) -> c_int {
        on_none(FuncId::MPI_Comm_join, |library| {
            if intercomm.is_null() {
                return Err(null("intercomm"));
            }
            let made = library.process.join(|mine| introduced(fd, mine))?;
            unsafe { (made).give(library, intercomm, "intercomm") }
        })
    }
}
