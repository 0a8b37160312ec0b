//! The memory of each rank after MPI_Init, compared with bounds, because nothing else notices its
//! growth.

use std::path::Path;

use crate::root;
use crate::run::{Failure, Run};

/// Bounds of the memory of a rank of a release build, in KiB: growth of stack and heap in MPI_Init,
/// written data of the library, and resident text. About a third above the measured values.
const BOUNDS: [(&str, u32); 4] = [("stack", 48), ("heap", 64), ("data", 192), ("text", 640)];

/// Runs `tests/c/footprint.c` with the release build that is installed in `prefix`.
pub(crate) fn check(prefix: &Path) -> Result<(), Failure> {
    let program = prefix.join("footprint");
    let source = root().join("tests/c/footprint.c");
    Run::new(prefix.join("bin/mpicc")).args(["-O1", "-o"]).arg(&program).arg(source).show()?;
    let run =
        Run::new(prefix.join("bin/mpirun")).args(["-n", "2", "--timeout", "60"]).arg(&program);
    run.args(BOUNDS.map(|(_, kib)| kib.to_string())).show().map_err(|failure| {
        let bounds = BOUNDS.map(|(what, kib)| format!("{what} {kib}")).join(", ");
        let cure =
            "if it is the text, 'cargo xtask order' may bring functions together that have moved apart";
        Failure::new(format!("{failure}\na rank takes more memory than is wanted ({bounds} KiB): {cure}"))
    })
}
