//! Assertions about a communicator (MPI-5.0 section 7.4.4), and the component of its collectives.

use crate::operations::info;
use crate::state::library::Running;
use crate::state::named::CommArgument;
use oxmpi_abi::constants as abi;
use oxmpi_abi::extensions::MPIX_MCA_COLL_KEY;
use oxmpi_abi::types::Info as InfoHandle;
use oxmpi_core::Component;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::hints::CommHints;
use oxmpi_objects::info::Info;

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

/// Unknown hints are ignored. Test: tests/c/info_comm.c.
pub(crate) fn comm_set_info(_: &Running, comm: &CommArgument, info: InfoHandle) -> Result<()> {
    let info = info::given(info)?;
    match (CommInfo::of(&info)?.component, comm.component()) {
        (Some(wanted), served) if served != Some(wanted) => {
            let now = served.map_or("those that the parameters name", Component::name);
            return Err(wrong(&format!(
                "'{wanted}' is wanted, but the components of a communicator ({now}) are fixed when it is made: \
                 give it to MPI_Comm_dup_with_info, or set the attribute MPIX_MCA_COLL of the parent"
            )));
        }
        _ => comm.set_hints(comm.hints().updated(&info)),
    }
    Ok(())
}

/// Returns all known hints with their current values. Test: tests/c/info_comm.c.
pub(crate) fn comm_get_info(_: &Running, comm: &CommArgument) -> Result<InfoHandle> {
    let mut info = comm.hints().info();
    if let Some(component) = comm.component() {
        info.set(MPIX_MCA_COLL_KEY.as_bytes(), component.name().as_bytes())?;
    }
    Ok(info::enlist(info))
}
