//! Access with the individual file pointer (MPI-5.0, "Data Access with Individual File Pointers").
//!
//! `_all` forms are collective. Test: tests/c/file_basic.c.

use super::{access, collective, start, start_collective};
use oxmpi_abi::FuncId;
use oxmpi_abi::types::{Count, Datatype, File, Request, Status};
use oxmpi_core::file::{Direction, FilePosition as At};
use std::ffi::{c_int, c_void};

mpi! {
    fn MPI_File_iread(fh: File, buf: *mut c_void, count: c_int, datatype: Datatype, request: *mut Request) -> c_int {
        start(FuncId::MPI_File_iread, fh, (Direction::Read, At::Individual), (buf.cast_const(), count.into(), datatype), request)
    }

    fn MPI_File_iread_c(fh: File, buf: *mut c_void, count: Count, datatype: Datatype, request: *mut Request) -> c_int {
        start(FuncId::MPI_File_iread_c, fh, (Direction::Read, At::Individual), (buf.cast_const(), count, datatype), request)
    }

    fn MPI_File_iread_all(fh: File, buf: *mut c_void, count: c_int, datatype: Datatype, request: *mut Request) -> c_int {
        start_collective(FuncId::MPI_File_iread_all, fh, (Direction::Read, At::Individual), (buf.cast_const(), count.into(), datatype), request)
    }

    fn MPI_File_iread_all_c(fh: File, buf: *mut c_void, count: Count, datatype: Datatype, request: *mut Request) -> c_int {
        start_collective(FuncId::MPI_File_iread_all_c, fh, (Direction::Read, At::Individual), (buf.cast_const(), count, datatype), request)
    }

    fn MPI_File_iwrite(fh: File, buf: *const c_void, count: c_int, datatype: Datatype, request: *mut Request) -> c_int {
        start(FuncId::MPI_File_iwrite, fh, (Direction::Write, At::Individual), (buf, count.into(), datatype), request)
    }

    fn MPI_File_iwrite_c(fh: File, buf: *const c_void, count: Count, datatype: Datatype, request: *mut Request) -> c_int {
        start(FuncId::MPI_File_iwrite_c, fh, (Direction::Write, At::Individual), (buf, count, datatype), request)
    }

    fn MPI_File_iwrite_all(fh: File, buf: *const c_void, count: c_int, datatype: Datatype, request: *mut Request) -> c_int {
        start_collective(FuncId::MPI_File_iwrite_all, fh, (Direction::Write, At::Individual), (buf, count.into(), datatype), request)
    }

    fn MPI_File_iwrite_all_c(fh: File, buf: *const c_void, count: Count, datatype: Datatype, request: *mut Request) -> c_int {
        start_collective(FuncId::MPI_File_iwrite_all_c, fh, (Direction::Write, At::Individual), (buf, count, datatype), request)
    }

    fn MPI_File_read(fh: File, buf: *mut c_void, count: c_int, datatype: Datatype, status: *mut Status) -> c_int {
        access(FuncId::MPI_File_read, fh, (Direction::Read, At::Individual), (buf.cast_const(), count.into(), datatype), status)
    }

    fn MPI_File_read_c(fh: File, buf: *mut c_void, count: Count, datatype: Datatype, status: *mut Status) -> c_int {
        access(FuncId::MPI_File_read_c, fh, (Direction::Read, At::Individual), (buf.cast_const(), count, datatype), status)
    }

    fn MPI_File_read_all(fh: File, buf: *mut c_void, count: c_int, datatype: Datatype, status: *mut Status) -> c_int {
        collective(FuncId::MPI_File_read_all, fh, (Direction::Read, At::Individual), (buf.cast_const(), count.into(), datatype), status)
    }

    fn MPI_File_read_all_c(fh: File, buf: *mut c_void, count: Count, datatype: Datatype, status: *mut Status) -> c_int {
        collective(FuncId::MPI_File_read_all_c, fh, (Direction::Read, At::Individual), (buf.cast_const(), count, datatype), status)
    }

    fn MPI_File_write(fh: File, buf: *const c_void, count: c_int, datatype: Datatype, status: *mut Status) -> c_int {
        access(FuncId::MPI_File_write, fh, (Direction::Write, At::Individual), (buf, count.into(), datatype), status)
    }

    fn MPI_File_write_c(fh: File, buf: *const c_void, count: Count, datatype: Datatype, status: *mut Status) -> c_int {
        access(FuncId::MPI_File_write_c, fh, (Direction::Write, At::Individual), (buf, count, datatype), status)
    }

    fn MPI_File_write_all(fh: File, buf: *const c_void, count: c_int, datatype: Datatype, status: *mut Status) -> c_int {
        collective(FuncId::MPI_File_write_all, fh, (Direction::Write, At::Individual), (buf, count.into(), datatype), status)
    }

    fn MPI_File_write_all_c(fh: File, buf: *const c_void, count: Count, datatype: Datatype, status: *mut Status) -> c_int {
        collective(FuncId::MPI_File_write_all_c, fh, (Direction::Write, At::Individual), (buf, count, datatype), status)
    }
}
