//! Writes the entry points of the library from the table of functions.

use oxmpi_abi::fortran::{F08_HANDLES, Procedure, f08_procedures};
use oxmpi_face_build::FortranFace;
use oxmpi_fortran_build::{F08, SpecialVariable};

/// Variables of module `mpi_f08`, each of which is one special argument. The names are those of GNU
/// Fortran.
const VARIABLES: [(&str, &str, usize); 10] = [
    ("MPI_BOTTOM", "MPIR_F08_MPI_BOTTOM", 4),
    ("MPI_IN_PLACE", "MPIR_F08_MPI_IN_PLACE", 4),
    ("MPI_STATUS_IGNORE", "MPIR_F08_MPI_STATUS_IGNORE_OBJ", 20),
    ("MPI_STATUSES_IGNORE", "MPIR_F08_MPI_STATUSES_IGNORE_OBJ", 20),
    ("MPI_ARGV_NULL", "__mpi_f08_link_constants_MOD_mpi_argv_null", 1),
    ("MPI_ARGVS_NULL", "__mpi_f08_link_constants_MOD_mpi_argvs_null", 1),
    ("MPI_ERRCODES_IGNORE", "__mpi_f08_link_constants_MOD_mpi_errcodes_ignore", 4),
    ("MPI_UNWEIGHTED", "__mpi_f08_link_constants_MOD_mpi_unweighted", 4),
    ("MPI_WEIGHTS_EMPTY", "__mpi_f08_link_constants_MOD_mpi_weights_empty", 4),
    ("MPI_BUFFER_AUTOMATIC", "__mpi_f08_link_constants_MOD_mpi_buffer_automatic", 4),
];

/// The procedures of MPI_SIZEOF in module `mpi`, for scalars, and the sizes. Those for arrays end
/// with `v`.
#[rustfmt::skip] // a table
const SIZES: [(&str, usize); 16] = [
    ("ch", 1), ("cx", 8), ("d", 8), ("i", 4), ("i1", 1), ("i2", 2), ("i8", 8), ("l", 4), ("r", 4),
    // Since 4.2 the names have the sizes.
    ("ch1", 1), ("cx8", 8), ("cx16", 16), ("i4", 4), ("l4", 4), ("r4", 4), ("r8", 8),
];

/// Those in module `mpi_f08`.
const F08_SIZES: [(&str, usize); 12] = [
    ("character", 1),
    ("logical", 4),
    ("xcomplex32", 8),
    ("xcomplex64", 16),
    ("xcomplex128", 32),
    ("xint8", 1),
    ("xint16", 2),
    ("xint32", 4),
    ("xint64", 8),
    ("xreal32", 4),
    ("xreal64", 8),
    ("xreal128", 16),
];

/// The names since 4.2 of the procedures of module `mpi_f08` with large counts.
fn large_names() -> impl Iterator<Item = (String, String)> {
    let plain = |procedure: &Procedure| {
        let plain = procedure.name.strip_prefix("MPI_")?.strip_suffix("_c")?;
        Some((plain.to_lowercase(), if procedure.has_choice() { "_f08ts" } else { "_f08" }))
    };
    let names = |(plain, end): (String, &'static str)| {
        ["mpi", "pmpir"].map(|prefix| {
            (format!("{prefix}_{plain}{end}_large_"), format!("{prefix}_{plain}_c{end}_"))
        })
    };
    f08_procedures().iter().filter_map(plain).flat_map(names)
}

/// The COMMON blocks of its `mpif.h`, and the variables of module `mpi_f08`.
fn special() -> Vec<SpecialVariable> {
    let block = |symbol, bytes, arguments: &[_]| {
        let arguments = arguments.to_vec();
        SpecialVariable { symbol, bytes, arguments }
    };
    let first = [("MPI_BOTTOM", 0), ("MPI_IN_PLACE", 4), ("MPI_STATUS_IGNORE", 8)];
    let blocks = [
        block("mpipriv1_", 28, &first),
        block("mpipriv2_", 24, &[("MPI_STATUSES_IGNORE", 0), ("MPI_ERRCODES_IGNORE", 20)]),
        block("mpiprivc_", 2, &[("MPI_ARGVS_NULL", 0), ("MPI_ARGV_NULL", 1)]),
        block("mpifcmb5_", 4, &[("MPI_UNWEIGHTED", 0)]),
        block("mpifcmb9_", 4, &[("MPI_WEIGHTS_EMPTY", 0)]),
        block("mpifcmba_", 4, &[("MPI_BUFFER_AUTOMATIC", 0)]),
    ];
    let variables = VARIABLES.map(|(name, symbol, bytes)| SpecialVariable::of(name, symbol, bytes));
    blocks.into_iter().chain(variables).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let operators = F08_HANDLES.iter().flat_map(|handle| {
        let word = handle.trim_start_matches("MPI_").to_lowercase();
        let in_f08 = ["eq", "neq", "f08_eq_f", "f08_neq_f", "f_eq_f08", "f_neq_f08"]
            .map(|end| (format!("__mpi_f08_types_MOD_mpi_{word}_{end}"), !end.contains("neq")));
        let in_mpi = ["eq", "neq"]
            .map(|end| (format!("__mpi_constants_MOD_{word}{end}"), !end.contains("neq")));
        in_f08.into_iter().chain(in_mpi)
    });
    let sizes = SIZES.iter().flat_map(|(kind, bytes)| {
        ["", "v"].map(|end| (format!("__mpi_sizeofs_MOD_mpi_sizeof_{kind}{end}"), *bytes))
    });
    let f08_sizes = F08_SIZES
        .iter()
        .map(|(kind, bytes)| (format!("__mpi_f08_types_MOD_mpi_sizeof_{kind}"), *bytes));
    let aliases = ["mpi_status_f2f08", "mpi_status_f082f"]
        .map(|name| (format!("{name}_"), format!("__mpi_f08_types_MOD_{name}")));
    oxmpi_face_build::write_fortran(&FortranFace {
        constants: oxmpi_abi::foreign::MPICH,
        soname: "libmpifort.so.12",
        // A predefined key in Fortran is that of C and 1: C has the address of its value.
        key_difference: 1,
        special: &special(),
        f08: F08::GnuDescriptors,
        operators: &operators.collect::<Vec<_>>(),
        sizes: &sizes.chain(f08_sizes).collect::<Vec<_>>(),
        aliases: &aliases.into_iter().chain(large_names()).collect::<Vec<_>>(),
        exports: &[
            "mpi_*",
            "pmpi_*",
            "pmpir_*",
            "MPI_*",
            "PMPI_*",
            "PMPIR_*",
            "MPIR_F08_*",
            "mpipriv*",
            "mpifcmb*",
            "__mpi_*",
        ],
    })
}
