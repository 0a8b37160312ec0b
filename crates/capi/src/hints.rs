//! What a program promises about a communicator (MPI-5.0 section 7.4.4), and which component shall serve its collectives.

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

/// What the info of a call that makes a communicator says of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// What the program promises.
    pub(crate) hints: CommHints,
    /// The only component that shall serve its collectives.
    pub(crate) component: Option<Component>,
}

impl Wanted {
    /// What a handle's info says.
    ///
    /// # Errors
    /// There is no such info, or as [`Wanted::of`].
    pub(crate) fn given(info: InfoHandle) -> Result<Wanted> {
        Wanted::of(&info::given(info)?)
    }

    /// What an info says.
    ///
    /// # Errors
    /// MPI_ERR_INFO_VALUE if it names a component that is none.
    pub(crate) fn of(info: &Info) -> Result<Wanted> {
        let component = match info.get(MPIX_MCA_COLL_KEY.as_bytes())? {
            None => None,
            Some(name) => {
                let name = String::from_utf8_lossy(name);
                Some(Component::named(name.trim()).map_err(|bad| wrong(&bad.to_string()))?)
            }
        };
        Ok(Wanted { hints: CommHints::default().updated(info), component })
    }
}

fn wrong(why: &str) -> MpiError {
    MpiError::new(abi::MPI_ERR_INFO_VALUE, format!("the info key {MPIX_MCA_COLL_KEY}: {why}"))
}

mpi! {
    /// MPI-5.0 section 7.4.4. Hints that are not known are ignored. Test: tests/c/info_comm.c.
    fn MPI_Comm_set_info(comm: Comm, info: InfoHandle) -> c_int {
        on_comm(FuncId::MPI_Comm_set_info, comm, |_, communicator| {
            let info = info::given(info)?;
            match (Wanted::of(&info)?.component, communicator.component()) {
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

    /// MPI-5.0 section 7.4.4. All known hints with the values that are in force. Test: tests/c/info_comm.c.
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
