//! What a program promises about a communicator (MPI-5.0 section 7.4.4).

use crate::errors::on_comm;
use crate::info;
use oxmpi_abi::FuncId;
use oxmpi_abi::types::{Comm, Info};
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
}
