//! Writes the entry points of the library from the table of functions.

use oxmpi_abi::fortran::{F08_HANDLES, procedures};
use oxmpi_abi::table::{Function, FunctionForm};
use oxmpi_face_build::FortranFace;
use oxmpi_fortran_build::{F08, SpecialVariable};

/// The COMMON blocks of its `mpif.h`, each with one special argument.
const BLOCKS: [(&str, &str, usize); 9] = [
    ("MPI_BOTTOM", "mpi_fortran_bottom_", 4),
    ("MPI_IN_PLACE", "mpi_fortran_in_place_", 4),
    ("MPI_ARGV_NULL", "mpi_fortran_argv_null_", 1),
    ("MPI_ARGVS_NULL", "mpi_fortran_argvs_null_", 1),
    ("MPI_ERRCODES_IGNORE", "mpi_fortran_errcodes_ignore_", 4),
    ("MPI_STATUS_IGNORE", "mpi_fortran_status_ignore_", 24),
    ("MPI_STATUSES_IGNORE", "mpi_fortran_statuses_ignore_", 24),
    ("MPI_UNWEIGHTED", "mpi_fortran_unweighted_", 4),
    ("MPI_WEIGHTS_EMPTY", "mpi_fortran_weights_empty_", 4),
];

/// The types of MPI_SIZEOF and their sizes. A complex type has the name of its parts.
const SIZES: [(&str, usize); 12] = [
    ("character", 1),
    ("complex32", 8),
    ("complex64", 16),
    ("complex128", 32),
    ("int8", 1),
    ("int16", 2),
    ("int32", 4),
    ("int64", 8),
    ("logical", 4),
    ("real32", 4),
    ("real64", 8),
    ("real128", 16),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Open MPI 5 has them in another module.
    let operators = ["mpi_f08_types", "mpi_types"].into_iter().flat_map(|module| {
        F08_HANDLES.iter().flat_map(move |handle| {
            let word = handle.trim_start_matches("MPI_").to_lowercase();
            let name = |end| format!("__{module}_MOD_ompi_{word}_op_{end}");
            [(name("eq"), true), (name("ne"), false)]
        })
    });
    // A procedure for each rank.
    let ranks: Vec<_> =
        (1..=15).map(|rank| format!("r{rank}")).chain(["scalar".to_owned()]).collect();
    let sizes = SIZES.iter().flat_map(|(kind, bytes)| {
        ranks.iter().flat_map(move |rank| {
            let symbol = format!("mpi_sizeof_{kind}_{rank}_");
            [(format!("p{symbol}"), *bytes), (symbol, *bytes)]
        })
    });
    // The names of persistent collectives before they were in the standard.
    let is_older = |function: &Function| {
        function.form == FunctionForm::Persistent && function.entry.is.contains(&"collective")
    };
    let older = procedures().iter().filter(|procedure| procedure.function.is_some_and(is_older));
    let aliases = older.flat_map(|procedure| {
        let name = procedure.name.to_lowercase();
        ["", "p"].into_iter().flat_map(move |prefix| {
            let of = format!("{prefix}{name}_");
            let older = format!("{prefix}{}", name.replacen("mpi_", "mpix_", 1));
            [(of.clone(), format!("{older}_")), (of, format!("{older}_f08_"))]
        })
    });
    let of_statuses = ["mpi_status_f2f08_", "mpi_status_f082f_"]
        .map(|name| (name.to_owned(), format!("{name}f08_")));
    oxmpi_face_build::write_fortran(&FortranFace {
        constants: oxmpi_abi::foreign::OPEN_MPI,
        soname: "libmpi_mpifh.so.40",
        key_difference: 0,
        special: &BLOCKS.map(|(name, symbol, bytes)| SpecialVariable::of(name, symbol, bytes)),
        f08: F08::Addresses,
        operators: &operators.collect::<Vec<_>>(),
        sizes: &sizes.collect::<Vec<_>>(),
        aliases: &aliases.chain(of_statuses).collect::<Vec<_>>(),
        exports: &["mpi_*", "pmpi_*", "mpix_*", "pmpix_*", "MPI_*", "PMPI_*", "__mpi_*"],
    })
}
