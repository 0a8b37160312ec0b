//! Access with the shared file pointer (MPI-5.0, "Data Access with Shared File Pointers").
//!
//! `_ordered` forms are collective. Test: tests/c/file_shared.c.

use super::{access, collective, start};
use oxmpi_abi::FuncId;
use oxmpi_abi::types::{Count, Datatype, File, Request, Status};
use oxmpi_core::file::{Direction, FilePosition as At};
use std::ffi::{c_int, c_void};

mpi! {
    fn MPI_File_iread_shared(fh: File, buf: *mut c_void, count: c_int, datatype: Datatype, request: *mut Request) -> c_int {
        start(FuncId::MPI_File_iread_shared, fh, (Direction::Read, At::Shared), (buf.cast_const(), count.into(), datatype), request)
    }

    fn MPI_File_iread_shared_c(fh: File, buf: *mut c_void, count: Count, datatype: Datatype, request: *mut Request) -> c_int {
        start(FuncId::MPI_File_iread_shared_c, fh, (Direction::Read, At::Shared), (buf.cast_const(), count, datatype), request)
    }

    fn MPI_File_iwrite_shared(fh: File, buf: *const c_void, count: c_int, datatype: Datatype, request: *mut Request) -> c_int {
        start(FuncId::MPI_File_iwrite_shared, fh, (Direction::Write, At::Shared), (buf, count.into(), datatype), request)
    }

    fn MPI_File_iwrite_shared_c(fh: File, buf: *const c_void, count: Count, datatype: Datatype, request: *mut Request) -> c_int {
        start(FuncId::MPI_File_iwrite_shared_c, fh, (Direction::Write, At::Shared), (buf, count, datatype), request)
    }

    fn MPI_File_read_ordered(fh: File, buf: *mut c_void, count: c_int, datatype: Datatype, status: *mut Status) -> c_int {
        collective(FuncId::MPI_File_read_ordered, fh, (Direction::Read, At::Shared), (buf.cast_const(), count.into(), datatype), status)
    }

    fn MPI_File_read_ordered_c(fh: File, buf: *mut c_void, count: Count, datatype: Datatype, status: *mut Status) -> c_int {
        collective(FuncId::MPI_File_read_ordered_c, fh, (Direction::Read, At::Shared), (buf.cast_const(), count, datatype), status)
    }

    fn MPI_File_read_shared(fh: File, buf: *mut c_void, count: c_int, datatype: Datatype, status: *mut Status) -> c_int {
        access(FuncId::MPI_File_read_shared, fh, (Direction::Read, At::Shared), (buf.cast_const(), count.into(), datatype), status)
    }

    fn MPI_File_read_shared_c(fh: File, buf: *mut c_void, count: Count, datatype: Datatype, status: *mut Status) -> c_int {
        access(FuncId::MPI_File_read_shared_c, fh, (Direction::Read, At::Shared), (buf.cast_const(), count, datatype), status)
    }

    fn MPI_File_write_ordered(fh: File, buf: *const c_void, count: c_int, datatype: Datatype, status: *mut Status) -> c_int {
        collective(FuncId::MPI_File_write_ordered, fh, (Direction::Write, At::Shared), (buf, count.into(), datatype), status)
    }

    fn MPI_File_write_ordered_c(fh: File, buf: *const c_void, count: Count, datatype: Datatype, status: *mut Status) -> c_int {
        collective(FuncId::MPI_File_write_ordered_c, fh, (Direction::Write, At::Shared), (buf, count, datatype), status)
    }

    fn MPI_File_write_shared(fh: File, buf: *const c_void, count: c_int, datatype: Datatype, status: *mut Status) -> c_int {
        access(FuncId::MPI_File_write_shared, fh, (Direction::Write, At::Shared), (buf, count.into(), datatype), status)
    }

    fn MPI_File_write_shared_c(fh: File, buf: *const c_void, count: Count, datatype: Datatype, status: *mut Status) -> c_int {
        access(FuncId::MPI_File_write_shared_c, fh, (Direction::Write, At::Shared), (buf, count, datatype), status)
    }
}
