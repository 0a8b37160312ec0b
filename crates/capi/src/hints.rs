//! Assertions about a communicator (MPI-5.0 section 7.4.4), and the component of its collectives.

use crate::errors::on_comm;
use crate::info;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::extensions::MPIX_MCA_COLL_KEY;
use oxmpi_abi::types::{Comm, Info as InfoHandle};
use oxmpi_core::Component;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::hints::CommHints;
use oxmpi_objects::info::Info;
use std::ffi::c_int;

/// The settings of a new communicator from an info.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CommInfo {
    pub(crate) hints: CommHints,
    /// The only component that may serve its collectives.
    pub(crate) component: Option<Component>,
}

impl CommInfo {
    /// # Errors
    /// The handle is invalid, or [`CommInfo::of`] fails.
    pub(crate) fn given(info: InfoHandle) -> Result<CommInfo> {
        CommInfo::of(&info::given(info)?)
    }

    /// # Errors
    /// MPI_ERR_INFO_VALUE for an unknown component.
    pub(crate) fn of(info: &Info) -> Result<CommInfo> {
        let component = match info.get(MPIX_MCA_COLL_KEY.as_bytes())? {
            None => None,
            Some(name) => {
                let name = String::from_utf8_lossy(name);
                Some(Component::named(name.trim()).map_err(|bad| wrong(&bad.to_string()))?)
            }
        };
        Ok(CommInfo { hints: CommHints::default().updated(info), component })
    }
}

fn wrong(why: &str) -> MpiError {
    MpiError::new(abi::MPI_ERR_INFO_VALUE, format!("the info key {MPIX_MCA_COLL_KEY}: {why}"))
}

mpi! {
    /// Unknown hints are ignored. Test: tests/c/info_comm.c.
    fn MPI_Comm_set_info(comm: Comm, info: InfoHandle) -> c_int {
        on_comm(FuncId::MPI_Comm_set_info, comm, |_, communicator| {
            let info = info::given(info)?;
            match (CommInfo::of(&info)?.component, communicator.component()) {
                (Some(wanted), served) if served != Some(wanted) => {
                    let now = served.map_or("those that the parameters name", Component::name);
                    return Err(wrong(&format!(
                        "'{wanted}' is wanted, but the components of a communicator ({now}) are fixed when it is made: \
                         give it to MPI_Comm_dup_with_info, or set the attribute MPIX_MCA_COLL of the parent"
                    )));
                }
                _ => communicator.set_hints(communicator.hints().updated(&info)),
            }
            Ok(())
        })
    }

    /// Returns all known hints with their current values. Test: tests/c/info_comm.c.
    fn MPI_Comm_get_info(comm: Comm, info_used: *mut InfoHandle) -> c_int {
        on_comm(FuncId::MPI_Comm_get_info, comm, |_, communicator| {
            let mut info = communicator.hints().info();
            if let Some(component) = communicator.component() {
                info.set(MPIX_MCA_COLL_KEY.as_bytes(), component.name().as_bytes())?;
            }
            info::give(info, info_used, "info_used")
        })
    }
}
