//! Compares the generated `mpi.h` with that of another library with the MPI-5.0 ABI: all functions,
//! types and constants.
//!
//! The other header is MPICH's `mpi_abi.h` of the PyPI package `mpich`. `cargo xtask test` installs
//! it in `target/mpich` and names the header in OXMPI_TEST_MPICH_HEADER.

#![allow(clippy::unwrap_used)] // test code

mod declarations;

use declarations::{Declarations, declarations};
use std::fs;
use std::path::{Path, PathBuf};

struct Difference {
    /// The name that differs; `PMPI_` names differ in the same way.
    name: &'static str,
    ours: Option<&'static str>,
    theirs: Option<&'static str>,
}

macro_rules! tag {
    ($name:literal) => {
        Difference {
            name: concat!("MPI_T_", $name),
            ours: Some(concat!("struct MPI_ABI_T_", $name, " *")),
            theirs: Some(concat!("struct MPI_T_", $name, "_t *")),
        }
    };
}

/// All differences, each with its reason. An entry without a difference must be removed.
const JUSTIFIED: &[Difference] = &[
    // MPI-5.0, ABI chapter, lists these symbols; MPICH does not export them.
    Difference {
        name: "MPI_Precv_init_c",
        ours: Some(
            "int (void *, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Info, MPI_Request *)",
        ),
        theirs: None,
    },
    Difference {
        name: "MPI_Psend_init_c",
        ours: Some(
            "int (const void *, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm, MPI_Info, MPI_Request *)",
        ),
        theirs: None,
    },
    // The structs behind the handles of the tool interface. Ours have the names of the MPI Forum's
    // header. The names occur only in symbols of C++ functions with such a parameter.
    tag!("cvar_handle"),
    tag!("enum"),
    tag!("event_instance"),
    tag!("event_registration"),
    tag!("pvar_handle"),
    tag!("pvar_session"),
];

/// A missing header fails the test.
fn other_header() -> PathBuf {
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/mpich/include/mpi_abi.h");
    let header = std::env::var_os("OXMPI_TEST_MPICH_HEADER").map_or_else(own, PathBuf::from);
    assert!(
        header.is_file(),
        "there is no {}: run 'cargo xtask test', or 'python3 -m venv target/mpich' and 'target/mpich/bin/pip install mpich==5.0.2'",
        header.display()
    );
    header
}

fn read(name: &str, text: &str) -> Declarations {
    let place = format!("{name}-{}.h", std::process::id());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(place);
    fs::write(&file, text).unwrap();
    let found = declarations(&file);
    fs::remove_file(&file).unwrap();
    found
}

fn differences<'a>(
    ours: &'a Declarations,
    theirs: &'a Declarations,
) -> Vec<(&'a str, Option<&'a str>, Option<&'a str>)> {
    let only_theirs = theirs.keys().filter(|name| !ours.contains_key(*name));
    let both = ours.keys().chain(only_theirs).map(|name| {
        (name.as_str(), ours.get(name).map(String::as_str), theirs.get(name).map(String::as_str))
    });
    both.filter(|(_, ours, theirs)| ours != theirs).collect()
}

#[test]
fn the_header_agrees_with_that_of_another_library() {
    let (ours, theirs) = (read("ours", &oxmpi_abi::header()), declarations(&other_header()));
    let found = differences(&ours, &theirs);
    let is_listed = |difference: &&(&str, Option<&str>, Option<&str>)| {
        let (name, ours, theirs) = difference;
        let name = name.strip_prefix('P').unwrap_or(name);
        JUSTIFIED
            .iter()
            .any(|known| (known.name, known.ours, known.theirs) == (name, *ours, *theirs))
    };
    let new: Vec<String> = found
        .iter()
        .filter(|difference| !is_listed(difference))
        .map(|(name, ours, theirs)| format!("{name}\n  ours:   {ours:?}\n  theirs: {theirs:?}"))
        .collect();
    assert!(new.is_empty(), "{} differences without a reason:\n{}", new.len(), new.join("\n"));
    for known in JUSTIFIED {
        let is_there = found.contains(&(known.name, known.ours, known.theirs));
        assert!(
            is_there,
            "{} has no longer the listed difference: remove it from the list",
            known.name
        );
    }
}

/// Names of parameters, spaces, and arrays written as pointers are no differences.
#[test]
fn wrong_declarations_are_found() {
    let right = oxmpi_abi::header();
    let ours = read("right", &right);
    for (from, to, name) in [
        (
            "int MPI_Send(const void *buf, int count",
            "int MPI_Send(const void *buf, MPI_Count count",
            "MPI_Send",
        ),
        ("int MPI_Send(const void *buf", "int MPI_Send(void *buf", "MPI_Send"),
        (
            "int PMPI_Init(int *argc, char ***argv)",
            "int PMPI_Init(int *argc, char **argv)",
            "PMPI_Init",
        ),
        ("int MPI_T_init_thread(int required, int *provided);", "", "MPI_T_init_thread"),
        ("double MPI_Wtime(", "float MPI_Wtime(", "MPI_Wtime"),
        (
            "int MPI_Group_range_incl(MPI_Group group, int n, int (*ranges)[3]",
            "int MPI_Group_range_incl(MPI_Group group, int n, int (*ranges)[2]",
            "MPI_Group_range_incl",
        ),
        (
            "typedef void (MPI_User_function)(void *invec",
            "typedef void (MPI_User_function)(const void *invec",
            "MPI_User_function",
        ),
        ("int MPI_TAG;\n    int MPI_ERROR;", "int MPI_ERROR;\n    int MPI_TAG;", "MPI_Status"),
        ("typedef int64_t MPI_Offset;", "typedef int32_t MPI_Offset;", "MPI_Offset"),
        (
            "typedef struct MPI_ABI_Comm *MPI_Comm;",
            "typedef struct MPI_ABI_Win *MPI_Comm;",
            "MPI_Comm",
        ),
        ("((MPI_Comm)0x101)", "((MPI_Comm)0x103)", "MPI_COMM_WORLD"),
        ("((MPI_Comm)0x102)", "((MPI_Win)0x102)", "MPI_COMM_SELF"),
        ("((MPI_Offset) -1)", "((MPI_Offset) 1)", "MPI_DISPLACEMENT_CURRENT"),
        (
            " MPI_T_CB_REQUIRE_THREAD_SAFE = 15",
            " MPI_T_CB_REQUIRE_THREAD_SAFE = 16",
            "MPI_T_CB_REQUIRE_THREAD_SAFE",
        ),
        ("\n#define MPI_H_ABI", "\n#define MPI_H_ABI\n#define MPI_NEW (-7)", "MPI_NEW"),
    ] {
        assert_eq!(right.matches(from).count(), 1, "{from}");
        let other = read("wrong", &right.replace(from, to));
        let found: Vec<&str> = differences(&ours, &other).iter().map(|(name, ..)| *name).collect();
        assert_eq!(found, [name], "{to}");
    }
    for (from, to) in [
        ("int MPI_Send(const void *buf,", "extern int MPI_Send( void const* other ,"),
        (
            "int MPI_Group_range_incl(MPI_Group group, int n, int (*ranges)[3]",
            "int MPI_Group_range_incl(MPI_Group, int, int each[][3]",
        ),
        (
            "int MPI_Waitany(int count, MPI_Request *array_of_requests,",
            "int MPI_Waitany(const int count, MPI_Request array[],",
        ),
        ("typedef void (MPI_User_function)(", "typedef void MPI_User_function("),
        ("((MPI_Comm)0x101)", "((MPI_Comm)257)"),
    ] {
        assert_eq!(right.matches(from).count(), 1, "{from}");
        assert_eq!(differences(&ours, &read("alike", &right.replace(from, to))), [], "{to}");
    }
    assert_eq!(
        ours.keys().filter(|name| name.starts_with("PMPI_")).count(),
        oxmpi_abi::FuncId::all().len()
    );
}
