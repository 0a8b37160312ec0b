//! The names beyond MPI-5.0, which begin with `MPIX_` and are declared in `mpi-ext.h`.
//!
//! With User-Level Failure Mitigation, the proposal of the MPI Forum's fault tolerance working
//! group, a program can continue after process failures. The other names select the component for
//! the collectives of a communicator, report the support of CUDA memory, and keep an extra argument
//! for functions of the program, which the Fortran interface needs.

use crate::callbacks::EXTENSION_CALLBACKS;
use crate::errors::ErrorClass;
use crate::functions::FuncId;
use crate::table::FunctionArgument;
use std::ffi::c_int;
use std::fmt::Write;

classes! {
    MPIX_ERR_PROC_FAILED = 901, "a process that the operation needs has failed";
    MPIX_ERR_PROC_FAILED_PENDING = 902, "a process has failed that might have sent the message; the receive still waits";
    MPIX_ERR_REVOKED = 903, "the communicator, window or file was revoked";
}

/// The key of a predefined attribute of communicators. The value names the only collective
/// component for communicators derived from this one (Open MPI's components guide, "Selecting a
/// coll Module").
pub const MPIX_MCA_COLL: c_int = 1000;

/// The key of a predefined attribute of communicators: the parameter coll_base_associative for
/// reductions (the same guide: it "may be set by environment variables, command line switches, or
/// attributes on MPI communicators").
pub const MPIX_COLL_BASE_ASSOCIATIVE: c_int = 1001;

/// The key of an info for calls that make a communicator. The value names the only collective
/// component for the communicator.
pub const MPIX_MCA_COLL_KEY: &str = "mpix_mca_coll";

/// The text of `mpi-ext.h`.
pub fn header() -> String {
    let mut text = String::from(
        "/* Names of OxMPI beyond MPI-5.0. Generated from the tables of crates/abi. */\n\
         #ifndef OXMPI_MPI_EXT_H\n#define OXMPI_MPI_EXT_H\n\n#include <mpi.h>\n\n\
         /* User-Level Failure Mitigation. */\n#define MPIX_HAVE_FT 1\n\n",
    );
    for class in ERROR_CLASSES {
        let _ = writeln!(text, "#define {:<29} {}", class.name, class.class);
    }
    let _ = write!(
        text,
        "\n/* Attribute key: a char *, the name of the only component that serves the collectives of communicators derived\n   \
         from this one. The value is read when it is set. */\n\
         #define MPIX_MCA_COLL {MPIX_MCA_COLL}\n#define MPI_MCA_COLL MPIX_MCA_COLL\n\n\
         /* Attribute key: a char *, \"0\", \"1\" or \"unset\", the parameter coll_base_associative of all further reductions of\n   \
         this communicator. All ranks set the same value, which is read when it is set. */\n\
         #define MPIX_COLL_BASE_ASSOCIATIVE {MPIX_COLL_BASE_ASSOCIATIVE}\n\n\
         /* Buffers may be in the memory of a CUDA device. MPIX_Query_cuda_support() is 1 if this process supports it, which\n   \
         depends on the machine and the parameter accelerator; else 0. */\n#define MPIX_CUDA_AWARE_SUPPORT 1\n\n\
         /* Info key for calls that make a communicator: the name of the only component that serves its collectives. */\n\
         #define MPIX_MCA_COLL_KEY \"{MPIX_MCA_COLL_KEY}\"\n"
    );
    text += "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n\
             /* Functions that a program passes to the library, with an extra argument. */\n";
    for callback in &EXTENSION_CALLBACKS {
        let _ =
            writeln!(text, "typedef {} ({})({});", callback.result, callback.name, callback.params);
    }
    text.push('\n');
    for prefix in ["", "P"] {
        for id in FuncId::extensions() {
            let list = id.function().list(FunctionArgument::pointer_declaration);
            let _ = writeln!(text, "int {prefix}{id}({list});");
        }
    }
    text += "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_all_functions() {
        let header = header();
        for id in FuncId::extensions() {
            assert!(header.contains(&format!("\nint {id}(")), "{id}");
            assert!(header.contains(&format!("\nint P{id}(")), "{id}");
        }
        assert!(header.contains("#define MPIX_MCA_COLL 1000\n"));
        assert!(header.contains("#define MPIX_ERR_REVOKED              903\n"), "{header}");
    }
}
