//! Collective access in two calls (MPI-5.0, "Split Collective Data Access Routines").
//!
//! All functions are collective. Test: tests/c/file_split.c.

use super::{begin, end, kind};
use oxmpi_abi::FuncId;
use oxmpi_abi::types::{Count, Datatype, File, Offset, Status};
use oxmpi_core::file::{Direction, FilePosition as At};
use std::ffi::{c_int, c_void};

mpi! {
    fn MPI_File_read_all_begin(fh: File, buf: *mut c_void, count: c_int, datatype: Datatype) -> c_int {
        begin(FuncId::MPI_File_read_all_begin, fh, kind(Direction::Read, "MPI_File_read_all"), At::Individual, (buf.cast_const(), count.into(), datatype))
    }

    fn MPI_File_read_all_begin_c(fh: File, buf: *mut c_void, count: Count, datatype: Datatype) -> c_int {
        begin(FuncId::MPI_File_read_all_begin_c, fh, kind(Direction::Read, "MPI_File_read_all"), At::Individual, (buf.cast_const(), count, datatype))
    }

    fn MPI_File_read_all_end(fh: File, buf: *mut c_void, status: *mut Status) -> c_int {
        end(FuncId::MPI_File_read_all_end, fh, kind(Direction::Read, "MPI_File_read_all"), (buf.cast(), status))
    }

    fn MPI_File_read_at_all_begin(fh: File, offset: Offset, buf: *mut c_void, count: c_int, datatype: Datatype) -> c_int {
        begin(FuncId::MPI_File_read_at_all_begin, fh, kind(Direction::Read, "MPI_File_read_at_all"), At::Offset(offset), (buf.cast_const(), count.into(), datatype))
    }

    fn MPI_File_read_at_all_begin_c(fh: File, offset: Offset, buf: *mut c_void, count: Count, datatype: Datatype) -> c_int {
        begin(FuncId::MPI_File_read_at_all_begin_c, fh, kind(Direction::Read, "MPI_File_read_at_all"), At::Offset(offset), (buf.cast_const(), count, datatype))
    }

    fn MPI_File_read_at_all_end(fh: File, buf: *mut c_void, status: *mut Status) -> c_int {
        end(FuncId::MPI_File_read_at_all_end, fh, kind(Direction::Read, "MPI_File_read_at_all"), (buf.cast(), status))
    }

    fn MPI_File_read_ordered_begin(fh: File, buf: *mut c_void, count: c_int, datatype: Datatype) -> c_int {
        begin(FuncId::MPI_File_read_ordered_begin, fh, kind(Direction::Read, "MPI_File_read_ordered"), At::Shared, (buf.cast_const(), count.into(), datatype))
    }

    fn MPI_File_read_ordered_begin_c(fh: File, buf: *mut c_void, count: Count, datatype: Datatype) -> c_int {
        begin(FuncId::MPI_File_read_ordered_begin_c, fh, kind(Direction::Read, "MPI_File_read_ordered"), At::Shared, (buf.cast_const(), count, datatype))
    }

    fn MPI_File_read_ordered_end(fh: File, buf: *mut c_void, status: *mut Status) -> c_int {
        end(FuncId::MPI_File_read_ordered_end, fh, kind(Direction::Read, "MPI_File_read_ordered"), (buf.cast(), status))
    }

    fn MPI_File_write_all_begin(fh: File, buf: *const c_void, count: c_int, datatype: Datatype) -> c_int {
        begin(FuncId::MPI_File_write_all_begin, fh, kind(Direction::Write, "MPI_File_write_all"), At::Individual, (buf, count.into(), datatype))
    }

    fn MPI_File_write_all_begin_c(fh: File, buf: *const c_void, count: Count, datatype: Datatype) -> c_int {
        begin(FuncId::MPI_File_write_all_begin_c, fh, kind(Direction::Write, "MPI_File_write_all"), At::Individual, (buf, count, datatype))
    }

    fn MPI_File_write_all_end(fh: File, buf: *const c_void, status: *mut Status) -> c_int {
        end(FuncId::MPI_File_write_all_end, fh, kind(Direction::Write, "MPI_File_write_all"), (buf.cast(), status))
    }

    fn MPI_File_write_at_all_begin(fh: File, offset: Offset, buf: *const c_void, count: c_int, datatype: Datatype) -> c_int {
        begin(FuncId::MPI_File_write_at_all_begin, fh, kind(Direction::Write, "MPI_File_write_at_all"), At::Offset(offset), (buf, count.into(), datatype))
    }

    fn MPI_File_write_at_all_begin_c(fh: File, offset: Offset, buf: *const c_void, count: Count, datatype: Datatype) -> c_int {
        begin(FuncId::MPI_File_write_at_all_begin_c, fh, kind(Direction::Write, "MPI_File_write_at_all"), At::Offset(offset), (buf, count, datatype))
    }

    fn MPI_File_write_at_all_end(fh: File, buf: *const c_void, status: *mut Status) -> c_int {
        end(FuncId::MPI_File_write_at_all_end, fh, kind(Direction::Write, "MPI_File_write_at_all"), (buf.cast(), status))
    }

    fn MPI_File_write_ordered_begin(fh: File, buf: *const c_void, count: c_int, datatype: Datatype) -> c_int {
        begin(FuncId::MPI_File_write_ordered_begin, fh, kind(Direction::Write, "MPI_File_write_ordered"), At::Shared, (buf, count.into(), datatype))
    }

    fn MPI_File_write_ordered_begin_c(fh: File, buf: *const c_void, count: Count, datatype: Datatype) -> c_int {
        begin(FuncId::MPI_File_write_ordered_begin_c, fh, kind(Direction::Write, "MPI_File_write_ordered"), At::Shared, (buf, count, datatype))
    }

    fn MPI_File_write_ordered_end(fh: File, buf: *const c_void, status: *mut Status) -> c_int {
        end(FuncId::MPI_File_write_ordered_end, fh, kind(Direction::Write, "MPI_File_write_ordered"), (buf.cast(), status))
    }
}
