//! Access at explicit offsets (MPI-5.0, "Data Access with Explicit Offsets").
//!
//! `_all` forms are collective. Test: tests/c/file_basic.c.

use super::{access, collective, start, start_collective};
use oxmpi_abi::FuncId;
use oxmpi_abi::types::{Count, Datatype, File, Offset, Request, Status};
use oxmpi_core::file::{Direction, FilePosition as At};
use std::ffi::{c_int, c_void};

mpi! {
    fn MPI_File_iread_at(fh: File, offset: Offset, buf: *mut c_void, count: c_int, datatype: Datatype, request: *mut Request) -> c_int {
        start(FuncId::MPI_File_iread_at, fh, (Direction::Read, At::Offset(offset)), (buf.cast_const(), count.into(), datatype), request)
    }

    fn MPI_File_iread_at_c(fh: File, offset: Offset, buf: *mut c_void, count: Count, datatype: Datatype, request: *mut Request) -> c_int {
        start(FuncId::MPI_File_iread_at_c, fh, (Direction::Read, At::Offset(offset)), (buf.cast_const(), count, datatype), request)
    }

    fn MPI_File_iread_at_all(fh: File, offset: Offset, buf: *mut c_void, count: c_int, datatype: Datatype, request: *mut Request) -> c_int {
        start_collective(FuncId::MPI_File_iread_at_all, fh, (Direction::Read, At::Offset(offset)), (buf.cast_const(), count.into(), datatype), request)
    }

    fn MPI_File_iread_at_all_c(fh: File, offset: Offset, buf: *mut c_void, count: Count, datatype: Datatype, request: *mut Request) -> c_int {
        start_collective(FuncId::MPI_File_iread_at_all_c, fh, (Direction::Read, At::Offset(offset)), (buf.cast_const(), count, datatype), request)
    }

    fn MPI_File_iwrite_at(fh: File, offset: Offset, buf: *const c_void, count: c_int, datatype: Datatype, request: *mut Request) -> c_int {
        start(FuncId::MPI_File_iwrite_at, fh, (Direction::Write, At::Offset(offset)), (buf, count.into(), datatype), request)
    }

    fn MPI_File_iwrite_at_c(fh: File, offset: Offset, buf: *const c_void, count: Count, datatype: Datatype, request: *mut Request) -> c_int {
        start(FuncId::MPI_File_iwrite_at_c, fh, (Direction::Write, At::Offset(offset)), (buf, count, datatype), request)
    }

    fn MPI_File_iwrite_at_all(fh: File, offset: Offset, buf: *const c_void, count: c_int, datatype: Datatype, request: *mut Request) -> c_int {
        start_collective(FuncId::MPI_File_iwrite_at_all, fh, (Direction::Write, At::Offset(offset)), (buf, count.into(), datatype), request)
    }

    fn MPI_File_iwrite_at_all_c(fh: File, offset: Offset, buf: *const c_void, count: Count, datatype: Datatype, request: *mut Request) -> c_int {
        start_collective(FuncId::MPI_File_iwrite_at_all_c, fh, (Direction::Write, At::Offset(offset)), (buf, count, datatype), request)
    }

    fn MPI_File_read_at(fh: File, offset: Offset, buf: *mut c_void, count: c_int, datatype: Datatype, status: *mut Status) -> c_int {
        access(FuncId::MPI_File_read_at, fh, (Direction::Read, At::Offset(offset)), (buf.cast_const(), count.into(), datatype), status)
    }

    fn MPI_File_read_at_c(fh: File, offset: Offset, buf: *mut c_void, count: Count, datatype: Datatype, status: *mut Status) -> c_int {
        access(FuncId::MPI_File_read_at_c, fh, (Direction::Read, At::Offset(offset)), (buf.cast_const(), count, datatype), status)
    }

    fn MPI_File_read_at_all(fh: File, offset: Offset, buf: *mut c_void, count: c_int, datatype: Datatype, status: *mut Status) -> c_int {
        collective(FuncId::MPI_File_read_at_all, fh, (Direction::Read, At::Offset(offset)), (buf.cast_const(), count.into(), datatype), status)
    }

    fn MPI_File_read_at_all_c(fh: File, offset: Offset, buf: *mut c_void, count: Count, datatype: Datatype, status: *mut Status) -> c_int {
        collective(FuncId::MPI_File_read_at_all_c, fh, (Direction::Read, At::Offset(offset)), (buf.cast_const(), count, datatype), status)
    }

    fn MPI_File_write_at(fh: File, offset: Offset, buf: *const c_void, count: c_int, datatype: Datatype, status: *mut Status) -> c_int {
        access(FuncId::MPI_File_write_at, fh, (Direction::Write, At::Offset(offset)), (buf, count.into(), datatype), status)
    }

    fn MPI_File_write_at_c(fh: File, offset: Offset, buf: *const c_void, count: Count, datatype: Datatype, status: *mut Status) -> c_int {
        access(FuncId::MPI_File_write_at_c, fh, (Direction::Write, At::Offset(offset)), (buf, count, datatype), status)
    }

    fn MPI_File_write_at_all(fh: File, offset: Offset, buf: *const c_void, count: c_int, datatype: Datatype, status: *mut Status) -> c_int {
        collective(FuncId::MPI_File_write_at_all, fh, (Direction::Write, At::Offset(offset)), (buf, count.into(), datatype), status)
    }

    fn MPI_File_write_at_all_c(fh: File, offset: Offset, buf: *const c_void, count: Count, datatype: Datatype, status: *mut Status) -> c_int {
        collective(FuncId::MPI_File_write_at_all_c, fh, (Direction::Write, At::Offset(offset)), (buf, count, datatype), status)
    }
}
