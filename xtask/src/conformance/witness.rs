//! The witness: a library between a client and OxMPI that records missing functions.
//!
//! Clients swallow `MPI_ERR_UNSUPPORTED_OPERATION`: mpi4py's tests skip or pass
//! when they get it. The witness defines each `MPI_X` as a call of `PMPI_X`, as a tool of the
//! profiling interface does, and records the functions that returned it. It is loaded before the
//! client's own library and made from the table of `oxmpi-abi`.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use oxmpi_abi::FuncId;
use oxmpi_abi::table::FunctionArgument;

use crate::run::{Failure, Run};

/// Records each answer. `witness_take` writes the recorded names and forgets them.
const BODY: &str = r#"
static _Atomic unsigned char answered[COUNT];

static int heard(int code, int function) {
    int class = code;
    if (code == MPI_SUCCESS) return code;
    PMPI_Error_class(code, &class);
    if (class == MPI_ERR_UNSUPPORTED_OPERATION) answered[function] = 1;
    return code;
}

void witness_take(char *names, int room) {
    int used = 0;
    if (room > 0) names[0] = 0;
    for (int i = 0; i < COUNT; ++i)
        if (answered[i]) {
            int left = room - used;
            int wanted = snprintf(names + used, left > 0 ? left : 0, "%s ", NAMES[i]);
            if (wanted >= left) break;
            used += wanted;
            answered[i] = 0;
        }
}
"#;

pub(super) fn build(prefix: &Path, directory: &Path) -> Result<PathBuf, Failure> {
    let source = directory.join("witness.c");
    fs::write(&source, text())
        .map_err(Failure::io(format!("cannot write {}", source.display())))?;
    let library = directory.join("libwitness.so");
    let mpicc = Run::new(prefix.join("bin/mpicc"));
    mpicc
        .args(["-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .show()?;
    Ok(library)
}

/// The functions that can return the error: not functions whose result is no error code, and not
/// the one with arguments that cannot be passed on.
fn functions() -> Vec<FuncId> {
    let answers = |id: &FuncId| {
        let function = id.function();
        function.returns_code() && !function.is_variadic() && id.name() != "MPI_Error_class"
    };
    FuncId::all().filter(answers).collect()
}

fn text() -> String {
    let functions = functions();
    let mut text =
        format!("#include <mpi.h>\n#include <stdio.h>\n#define COUNT {}\n", functions.len());
    text.push_str("static const char *const NAMES[COUNT] = {\n");
    for id in &functions {
        let _ = writeln!(text, "    \"{id}\",");
    }
    text.push_str("};\n");
    text.push_str(BODY);
    for (number, id) in functions.iter().enumerate() {
        let function = id.function();
        let given: Vec<&str> = function.arguments.iter().map(FunctionArgument::name).collect();
        let call = given.join(", ");
        let _ = writeln!(
            text,
            "int {id}({}) {{ return heard(P{id}({call}), {number}); }}",
            function.list(FunctionArgument::declaration)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_that_answers_has_a_witness() {
        let text = text();
        assert!(text.contains(
            "int MPI_Comm_size(MPI_Comm comm, int *size) { return heard(PMPI_Comm_size(comm, size), "
        ));
        assert!(text.contains("return heard(PMPI_Finalize(), "));
        let without = FuncId::all().filter(|id| !text.contains(&format!("heard(P{id}("))).count();
        // Times, address arithmetic, MPI_Pcontrol, MPI_Error_class, conversions of handles and
        // numbers.
        assert_eq!(without, FuncId::all().count() - functions().len());
        assert!((600..FuncId::all().count()).contains(&functions().len()), "{}", functions().len());
    }
}
