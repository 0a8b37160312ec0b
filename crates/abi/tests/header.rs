//! The generated `mpi.h`, compiled by real compilers and with `tests/c/abi_assert.c`, which has the
//! same data independently.

#![allow(clippy::unwrap_used)] // test code

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use oxmpi_abi::FuncId;

struct Include(PathBuf);

impl Include {
    fn new(name: &str) -> Include {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("mpi.h"), oxmpi_abi::header()).unwrap();
        Include(path)
    }

    fn check(&self, compiler: &str, options: &[&str], file: &Path) -> Result<(), String> {
        let output = Command::new(compiler)
            .arg("-fsyntax-only")
            .args(options)
            .args(["-Wall", "-Wextra", "-Werror", "-I"])
            .arg(&self.0)
            .arg(file)
            .output()
            .unwrap();
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    fn check_text(
        &self,
        compiler: &str,
        options: &[&str],
        name: &str,
        text: &str,
    ) -> Result<(), String> {
        let file = self.0.join(name);
        fs::write(&file, text).unwrap();
        self.check(compiler, options, &file)
    }
}

impl Drop for Include {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn assertions() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/c/abi_assert.c")
}

/// Uses of constants that the standard allows: in `#if`, `case`, sizes and static initialisers.
const USES: &str = r"
#include <mpi.h>
#if MPI_VERSION < 5 || MPI_ERR_LASTCODE < 100
#error
#endif
static MPI_Comm comm = MPI_COMM_WORLD;
static MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE, MPI_C_COMPLEX};
static char name[MPI_MAX_PROCESSOR_NAME];
enum { ANY = MPI_ANY_SOURCE };
static int which(int code) {
    switch (code) {
    case MPI_ERR_RANK: return 1;
    case MPI_PROC_NULL: return 2;
    default: return ANY;
    }
}
int main(int argc, char **argv) {
    MPI_Status status;
    int length;
    MPI_Init(&argc, &argv);
    MPI_Get_processor_name(name, &length);
    PMPI_Recv(MPI_BOTTOM, 0, types[0], which(argc), MPI_ANY_TAG, comm, &status);
    MPI_Allreduce(MPI_IN_PLACE, &length, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    return status.MPI_SOURCE + status.MPI_TAG + status.MPI_ERROR + MPI_Finalize();
}
";

#[test]
fn the_header_agrees_with_the_standard() {
    let include = Include::new("assert");
    include.check("cc", &["-std=gnu11"], &assertions()).unwrap();
}

#[test]
fn a_wrong_header_is_detected() {
    let include = Include::new("wrong");
    let right = oxmpi_abi::header();
    for (from, to) in [
        ("((MPI_Comm)0x101)", "((MPI_Comm)0x103)"),
        (
            "int PMPI_Send(const void *buf, int count",
            "int PMPI_Send(const void *buf, MPI_Count count",
        ),
        ("int MPI_TAG;\n    int MPI_ERROR;", "int MPI_ERROR;\n    int MPI_TAG;"),
        (
            "typedef void (MPI_User_function)(void *invec",
            "typedef void (MPI_User_function)(const void *invec",
        ),
        ("typedef int64_t MPI_Count", "typedef int32_t MPI_Count"),
    ] {
        assert_eq!(right.matches(from).count(), 1, "{from}");
        fs::write(include.0.join("mpi.h"), right.replace(from, to)).unwrap();
        assert!(include.check("cc", &["-std=gnu11"], &assertions()).is_err(), "not detected: {to}");
    }
}

#[test]
fn c99_programs_compile() {
    let include = Include::new("c99");
    include.check_text("cc", &["-std=c99", "-pedantic"], "uses.c", USES).unwrap();
}

#[test]
fn cxx_programs_compile() {
    if Command::new("g++").arg("--version").output().is_err() {
        eprintln!("no g++ here: the header is not tested with C++");
        return;
    }
    let include = Include::new("cxx");
    for standard in ["-std=c++11", "-std=c++17"] {
        include.check_text("g++", &[standard, "-pedantic"], "uses.cpp", USES).unwrap();
    }
}

/// GCC must not warn that these special addresses are no arrays.
const ADDRESSES: &str = r"
#include <mpi.h>
int main(int argc, char **argv) {
    MPI_Comm graph, child;
    MPI_Status status;
    int flag, one[1] = {0}, two[1] = {1}, *counts = one;
    MPI_Init(&argc, &argv);
    MPI_Dist_graph_create_adjacent(MPI_COMM_SELF, 1, one, MPI_UNWEIGHTED, 1, one, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    MPI_Dist_graph_create_adjacent(
        MPI_COMM_SELF, 0, MPI_WEIGHTS_EMPTY, MPI_WEIGHTS_EMPTY, 0, one, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &graph);
    MPI_Dist_graph_create(MPI_COMM_SELF, 1, one, two, one, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    MPI_Dist_graph_neighbors(graph, 1, one, MPI_UNWEIGHTED, 1, one, MPI_UNWEIGHTED);
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child, MPI_ERRCODES_IGNORE);
    MPI_Comm_spawn_multiple(
        1, &argv[0], MPI_ARGVS_NULL, two, (MPI_Info[1]) {MPI_INFO_NULL}, 0, MPI_COMM_SELF, &child, MPI_ERRCODES_IGNORE);
    MPI_Waitall(0, 0, MPI_STATUSES_IGNORE);
    MPI_Testall(0, 0, &flag, MPI_STATUSES_IGNORE);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, &status, counts, counts, MPI_INT, MPI_COMM_SELF);
    MPI_Alltoallw(MPI_IN_PLACE, 0, 0, 0, MPI_BOTTOM, counts, counts, (MPI_Datatype[1]) {MPI_INT}, MPI_COMM_SELF);
    return MPI_Finalize();
}
";

#[test]
fn special_addresses_cause_no_warnings() {
    let include = Include::new("addresses");
    let object = include.0.join("addresses.o");
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        // Passes after the syntax check make these warnings.
        let options = [
            "-std=c99",
            "-pedantic",
            level,
            "-fno-syntax-only",
            "-c",
            "-o",
            object.to_str().unwrap(),
        ];
        include.check_text("cc", &options, "addresses.c", ADDRESSES).unwrap();
    }
}

#[test]
fn all_functions_are_declared_twice() {
    let header = oxmpi_abi::header();
    for id in FuncId::all() {
        for prefix in ["", "P"] {
            let start = format!("\n{} {prefix}{id}(", id.function().result);
            assert_eq!(header.matches(&start).count(), 1, "{prefix}{id}");
        }
    }
}

/// Each pair of `_toint` and `_fromint` has its Fortran names, unless a program defines
/// OXMPI_MPI_ABI_STRICT.
const FORTRAN: &str = r"
#ifdef BEFORE
#define MPI_Info_c2f(info) 42
#endif
#include <mpi.h>
#ifdef OXMPI_MPI_ABI_STRICT
#ifdef MPI_Comm_c2f
#error
#endif
typedef long MPI_Fint;
static MPI_Fint MPI_Comm_c2f(MPI_Comm comm) { return MPI_Comm_toint(comm); }
int main(void) { return (int) MPI_Comm_c2f(MPI_COMM_WORLD); }
#else
#if !defined(MPI_Comm_c2f) || !defined(PMPI_Comm_f2c) || !defined(MPI_Type_f2c) || !defined(MPI_Status_c2f) || !defined(MPI_Fint)
#error
#endif
int main(void) {
    MPI_Fint status[MPI_F_STATUS_SIZE] = {0};
    MPI_Status from;
    MPI_F08_status modern;
    MPI_Datatype type = MPI_Type_f2c(MPI_Type_c2f(MPI_INT));
    MPI_Comm (*convert)(MPI_Fint) = MPI_Comm_f2c;
    return PMPI_Win_c2f(PMPI_Win_f2c(MPI_Win_c2f(MPI_WIN_NULL))) + MPI_Status_f2c(status, &from) + (type == MPI_INT)
        + MPI_Status_c2f08(&from, &modern) + PMPI_Status_f082c(&modern, &from) + MPI_Status_f082f(&modern, status)
        + PMPI_Status_f2f08(status, &modern) + modern.MPI_TAG
        + (convert(MPI_Comm_c2f(MPI_COMM_SELF)) == MPI_COMM_SELF) + MPI_Op_c2f(MPI_SUM) + MPI_Request_c2f(MPI_REQUEST_NULL)
        + MPI_Group_c2f(MPI_GROUP_EMPTY) + MPI_Info_c2f(MPI_INFO_ENV) + MPI_File_c2f(MPI_FILE_NULL)
        + MPI_Errhandler_c2f(MPI_ERRORS_RETURN) + MPI_Message_c2f(MPI_MESSAGE_NULL) + MPI_Session_c2f(MPI_SESSION_NULL);
}
#endif
";

#[test]
fn fortran_handles_are_inline_and_optional() {
    let include = Include::new("fortran");
    for standard in ["-std=c90", "-std=c99", "-std=gnu17"] {
        for more in [&[][..], &["-DBEFORE"], &["-DOXMPI_MPI_ABI_STRICT"]] {
            // Strict C90 has no 64-bit integers.
            let pedantic = if standard == "-std=c90" { "-Wno-long-long" } else { "-pedantic" };
            let options = [&[standard, pedantic], more].concat();
            include.check_text("cc", &options, "fortran.c", FORTRAN).unwrap();
        }
    }
    if Command::new("g++").arg("--version").output().is_ok() {
        include.check_text("g++", &["-std=c++11", "-pedantic"], "fortran.cpp", FORTRAN).unwrap();
    }
    let header = oxmpi_abi::header();
    let functions = FuncId::all().filter(|id| id.function().name.ends_with("_toint"));
    for kind in functions.map(|id| id.function().name.trim_end_matches("_toint")) {
        for name in ["c2f", "f2c"] {
            for prefix in ["", "P"] {
                let name = format!("\n# define {prefix}{kind}_{name} {prefix}{kind}_{name}\n");
                assert_eq!(header.matches(&name).count(), 1, "{name}");
            }
        }
    }
}
