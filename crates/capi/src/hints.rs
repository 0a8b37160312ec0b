//! What a program promises about a communicator (MPI-5.0 section 7.4.4).

use crate::attributes;
use crate::errors::{on_comm, outcome};
use crate::info;
use crate::unsupported::On;
use oxmpi_abi::FuncId;
use oxmpi_abi::types::{Comm, Info, Request};
use oxmpi_objects::hints::CommHints;
use std::ffi::c_int;

mpi! {
    /// MPI-5.0 section 7.4.4. Hints that are not known are ignored. Test: tests/c/info_comm.c.
    fn MPI_Comm_set_info(comm: Comm, info: Info) -> c_int {
        on_comm(FuncId::MPI_Comm_set_info, comm, |_, communicator| {
            communicator.set_hints(communicator.hints().updated(&info::given(info)?));
            Ok(())
        })
    }

    /// MPI-5.0 section 7.4.4. All known hints with the values that are in force. Test: tests/c/info_comm.c.
    fn MPI_Comm_get_info(comm: Comm, info_used: *mut Info) -> c_int {
        on_comm(FuncId::MPI_Comm_get_info, comm, |_, communicator| {
            info::give(communicator.hints().info(), info_used, "info_used")
        })
    }

    /// MPI-5.0 section 7.4.2. Collective. Test: tests/c/info_comm.c.
    fn MPI_Comm_dup_with_info(comm: Comm, info: Info, newcomm: *mut Comm) -> c_int {
        let hints = info::given(info).map(|info| CommHints::default().updated(&info));
        outcome(FuncId::MPI_Comm_dup_with_info, Some(On::Comm(comm)), attributes::duplicate(comm, hints, newcomm))
    }

    /// MPI-5.0 section 7.4.2. Collective. Test: tests/c/comm_idup.c.
    fn MPI_Comm_idup_with_info(comm: Comm, info: Info, newcomm: *mut Comm, request: *mut Request) -> c_int {
        let result = info::given(info).and_then(|info| {
            attributes::duplicate_later(comm, CommHints::default().updated(&info), newcomm, request)
        });
        outcome(FuncId::MPI_Comm_idup_with_info, Some(On::Comm(comm)), result)
    }
}
