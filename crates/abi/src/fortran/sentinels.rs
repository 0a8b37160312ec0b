//! Special arguments, which the library recognises by their addresses.
//!
//! Each is a COMMON block of its own. A block has the same address in all parts of a program, by
//! whatever interface they name it, and in the library, which defines it with the same size. The
//! names of blocks have no underscore, because compilers add one or two of them to names that do.

/// A special argument.
#[derive(Clone, Copy, Debug)]
pub struct Sentinel {
    /// The name of the variable.
    pub name: &'static str,
    /// The name of the COMMON block.
    pub block: &'static str,
    /// The type.
    pub fortran_type: &'static str,
    /// The dimensions, with parentheses.
    pub dimensions: &'static str,
    /// The size of the block.
    pub bytes: usize,
}

const fn integers(
    name: &'static str,
    block: &'static str,
    dimensions: &'static str,
    bytes: usize,
) -> Sentinel {
    Sentinel { name, block, fortran_type: "INTEGER", dimensions, bytes }
}

const fn characters(name: &'static str, block: &'static str, dimensions: &'static str) -> Sentinel {
    Sentinel { name, block, fortran_type: "CHARACTER", dimensions, bytes: 1 }
}

/// All special arguments.
pub const SENTINELS: [Sentinel; 10] = [
    integers("MPI_BOTTOM", "oxmpibottom", "", 4),
    integers("MPI_IN_PLACE", "oxmpiinplace", "", 4),
    integers("MPI_BUFFER_AUTOMATIC", "oxmpiautomatic", "", 4),
    integers("MPI_STATUS_IGNORE", "oxmpistatusignore", "(MPI_STATUS_SIZE)", 32),
    integers("MPI_STATUSES_IGNORE", "oxmpistatusesignore", "(MPI_STATUS_SIZE,1)", 32),
    integers("MPI_ERRCODES_IGNORE", "oxmpierrcodesignore", "(1)", 4),
    integers("MPI_UNWEIGHTED", "oxmpiunweighted", "(1)", 4),
    integers("MPI_WEIGHTS_EMPTY", "oxmpiweightsempty", "(1)", 4),
    characters("MPI_ARGV_NULL", "oxmpiargvnull", "(1)"),
    characters("MPI_ARGVS_NULL", "oxmpiargvsnull", "(1,1)"),
];
