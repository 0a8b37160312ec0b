//! The procedures that MPI-3.0 removed and old programs call. Addresses and extents are INTEGERs
//! in them.

use super::{FortranArgument, FortranType, Procedure};

use FortranType::{Choice, External, Integer};

type Facts = (&'static str, FortranType, &'static str);

/// Each with the C function that replaces it, and its arguments.
const REMOVED: [(&str, &str, &[Facts]); 10] = [
    ("MPI_Address", "MPI_Get_address", &[("location", Choice, "(*)"), ("address", Integer, "")]),
    (
        "MPI_Errhandler_create",
        "MPI_Comm_create_errhandler",
        &[("handler_function", External, ""), ("errhandler", Integer, "")],
    ),
    (
        "MPI_Errhandler_get",
        "MPI_Comm_get_errhandler",
        &[("comm", Integer, ""), ("errhandler", Integer, "")],
    ),
    (
        "MPI_Errhandler_set",
        "MPI_Comm_set_errhandler",
        &[("comm", Integer, ""), ("errhandler", Integer, "")],
    ),
    (
        "MPI_Type_extent",
        "MPI_Type_get_extent",
        &[("datatype", Integer, ""), ("extent", Integer, "")],
    ),
    (
        "MPI_Type_hindexed",
        "MPI_Type_create_hindexed",
        &[
            ("count", Integer, ""),
            ("array_of_blocklengths", Integer, "(*)"),
            ("array_of_displacements", Integer, "(*)"),
            ("oldtype", Integer, ""),
            ("newtype", Integer, ""),
        ],
    ),
    (
        "MPI_Type_hvector",
        "MPI_Type_create_hvector",
        &[
            ("count", Integer, ""),
            ("blocklength", Integer, ""),
            ("stride", Integer, ""),
            ("oldtype", Integer, ""),
            ("newtype", Integer, ""),
        ],
    ),
    (
        "MPI_Type_lb",
        "MPI_Type_get_extent",
        &[("datatype", Integer, ""), ("displacement", Integer, "")],
    ),
    (
        "MPI_Type_struct",
        "MPI_Type_create_struct",
        &[
            ("count", Integer, ""),
            ("array_of_blocklengths", Integer, "(*)"),
            ("array_of_displacements", Integer, "(*)"),
            ("array_of_types", Integer, "(*)"),
            ("newtype", Integer, ""),
        ],
    ),
    (
        "MPI_Type_ub",
        "MPI_Type_get_extent",
        &[("datatype", Integer, ""), ("displacement", Integer, "")],
    ),
];

pub(super) fn procedures() -> impl Iterator<Item = Procedure> {
    REMOVED.iter().map(|&(name, callee, arguments)| {
        let arguments = arguments.iter().map(|&(name, fortran_type, dimensions)| FortranArgument {
            name,
            fortran_type,
            dimensions,
            c: None,
        });
        Procedure {
            name,
            callee,
            result: None,
            arguments: arguments.collect(),
            has_ierror: true,
            function: None,
            is_removed: true,
        }
    })
}
