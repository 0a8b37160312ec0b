//! The exports of the built library, and their use by programs and tools.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use oxmpi_abi::FuncId;

/// Cargo builds it into the directory of this test program.
fn library() -> PathBuf {
    let path = std::env::current_exe().unwrap().with_file_name("libmpi_abi.so");
    assert!(path.exists(), "{} is not built", path.display());
    path
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}{errors}", output.status);
    text
}

/// Laid out like an installation; removed on drop.
struct Installation(PathBuf);

impl Installation {
    fn new(name: &str) -> Installation {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("mpi.h"), oxmpi_abi::header()).unwrap();
        for link in ["libmpi_abi.so.1", "libmpi_abi.so"] {
            symlink(library(), path.join(link)).unwrap();
        }
        Installation(path)
    }

    fn run(&self, name: &str, source: &str) -> String {
        let (file, program) = (self.0.join(format!("{name}.c")), self.0.join(name));
        fs::write(&file, source).unwrap();
        output(
            Command::new("cc")
                .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-I"])
                .arg(&self.0)
                .arg("-o")
                .arg(&program)
                .arg(&file)
                .arg("-L")
                .arg(&self.0)
                .args(["-lmpi_abi", "-Wl,-rpath"])
                .arg(&self.0),
        );
        output(&mut Command::new(&program))
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The names of a function in the listing of `nm`.
fn both_names(id: FuncId) -> [String; 2] {
    [format!("W {id}"), format!("T P{id}")]
}

#[test]
fn exports_are_those_of_the_standard() {
    let standard: BTreeSet<String> = FuncId::all().flat_map(both_names).collect();
    assert_eq!(standard.len(), 2 * 664);
    let extensions = FuncId::extensions().flat_map(both_names);
    let kinds = FuncId::all().filter_map(|id| id.name().strip_suffix("_toint"));
    let fortran = kinds.flat_map(|kind| {
        ["", "P"]
            .into_iter()
            .flat_map(move |p| ["c2f", "f2c"].map(|to| format!("W {p}{kind}_{to}")))
    });
    let of_status =
        ["W MPI_Status_c2f", "T PMPI_Status_c2f", "W MPI_Status_f2c", "W PMPI_Status_f2c"];
    let fortran = fortran.chain(of_status.map(String::from));
    // The table of addresses for this installation's libraries for other ABIs.
    let table = ["D oxmpi_functions".to_owned()];
    let expected: BTreeSet<String> =
        standard.into_iter().chain(extensions).chain(fortran).chain(table).collect();
    let listing = output(Command::new("nm").args(["-D", "--defined-only"]).arg(library()));
    let found: BTreeSet<String> =
        listing.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect();
    let missing: Vec<_> = expected.difference(&found).collect();
    let surplus: Vec<_> = found.difference(&expected).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing {missing:?}, surplus {surplus:?}");
}

#[test]
fn the_loader_needs_only_libraries_of_the_system() {
    let dynamic = output(Command::new("readelf").args(["-d", "-W"]).arg(library()));
    let system =
        ["libc.so", "libgcc_s.so", "libm.so", "libpthread.so", "libdl.so", "librt.so", "ld-linux"];
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    for line in needed {
        assert!(system.iter().any(|name| line.contains(&format!("[{name}"))), "{line}");
    }
    // The undefined symbols belong to the system, not to MPI.
    let open = output(Command::new("nm").args(["-D", "--undefined-only"]).arg(library()));
    assert!(!open.contains("MPI"), "{open}");
}

#[test]
fn both_names_are_the_same_code() {
    let listing = output(Command::new("readelf").args(["--dyn-syms", "-W"]).arg(library()));
    let mut places = std::collections::BTreeMap::new();
    for line in listing.lines() {
        let fields: Vec<_> = line.split_whitespace().collect();
        let [_, place, size, kind, _, _, section, name, ..] = fields[..] else { continue };
        if section != "UND" && (name.contains("MPI_") || name.contains("MPIX_")) {
            assert_eq!(kind, "FUNC", "{name}");
            places.insert(name.to_owned(), (place.to_owned(), size.to_owned()));
        }
    }
    for id in FuncId::all().chain(FuncId::extensions()) {
        assert_eq!(places[id.name()], places[&format!("P{id}")], "{id}");
    }
}

#[test]
fn the_soname_is_that_of_the_standard() {
    let dynamic = output(Command::new("readelf").args(["-d", "-W"]).arg(library()));
    assert!(dynamic.contains("Library soname: [libmpi_abi.so.1]"), "{dynamic}");
}

#[test]
fn a_program_can_put_its_own_function_before_ours() {
    let installation = Installation::new("interpose");
    let printed = installation.run(
        "interpose",
        r#"
        #include <mpi.h>
        #include <stdio.h>

        static int calls;

        int MPI_Get_version(int *version, int *subversion) {
            ++calls;
            return PMPI_Get_version(version, subversion);
        }
        int MPI_Barrier(MPI_Comm comm) {
            ++calls;
            return PMPI_Barrier(comm);
        }

        int main(void) {
            int version = 0, subversion = -1;
            int code;
            MPI_Init(NULL, NULL);
            MPI_Get_version(&version, &subversion);
            code = MPI_Barrier(MPI_COMM_WORLD);
            MPI_Finalize();
            /* The library may or may not have a barrier; that it answers is what counts here. */
            printf("%d calls, %s, MPI %d.%d\n", calls,
                   code == MPI_SUCCESS || code == MPI_ERR_UNSUPPORTED_OPERATION ? "answered" : "refused",
                   version, subversion);
            return 0;
        }
        "#,
    );
    assert_eq!(printed, "2 calls, answered, MPI 5.0\n");
}

#[test]
fn a_preloaded_tool_sees_the_calls_of_a_program() {
    let installation = Installation::new("preload");
    let tool = installation.0.join("tool.so");
    let source = installation.0.join("tool.c");
    fs::write(
        &source,
        "#include <mpi.h>\nint MPI_Comm_toint(MPI_Comm comm) { return 1000 + PMPI_Comm_toint(comm); }\n",
    )
    .unwrap();
    output(
        Command::new("cc")
            .args(["-shared", "-fPIC", "-I"])
            .arg(&installation.0)
            .arg("-o")
            .arg(&tool)
            .arg(&source),
    );
    let program = "#include <mpi.h>\n#include <stdio.h>\n\
        int main(void) { printf(\"%d\\n\", MPI_Comm_toint(MPI_COMM_WORLD)); return 0; }\n";
    assert_eq!(installation.run("plain", program), "257\n");
    // LD_PRELOAD is split at blanks; a relative path has none.
    let mut preloaded = Command::new(installation.0.join("plain"));
    let printed = output(preloaded.env("LD_PRELOAD", "./tool.so").current_dir(&installation.0));
    assert_eq!(printed, "1257\n");
}

#[test]
fn functions_without_state_work() {
    let installation = Installation::new("stateless");
    let printed = installation.run(
        "stateless",
        r#"
        #include <mpi.h>
        #include <stdio.h>
        #include <string.h>

        #define CHECK(condition) \
            do { if (!(condition)) { printf("line %d: %s\n", __LINE__, #condition); } } while (0)

        int main(void) {
            char text[MPI_MAX_LIBRARY_VERSION_STRING];
            int length = 0, a = 0, b = 0;
            CHECK(MPI_Get_library_version(text, &length) == MPI_SUCCESS);
            CHECK(length == (int) strlen(text) && strncmp(text, "OxMPI 0.1.0", 11) == 0);
            CHECK(MPI_Abi_get_version(&a, &b) == MPI_SUCCESS && a == 1 && b == 0);

            double start = MPI_Wtime();
            CHECK(MPI_Wtick() > 0 && MPI_Wtime() >= start);

            CHECK(MPI_Aint_add((MPI_Aint) 40, 2) == 42 && MPI_Aint_diff(40, 42) == -2);

            CHECK(MPI_Error_class(MPI_ERR_RANK, &a) == MPI_SUCCESS && a == MPI_ERR_RANK);
            CHECK(MPI_Error_class(MPI_T_ERR_INVALID, &a) == MPI_SUCCESS && a == MPI_T_ERR_INVALID);

            MPI_Status status;
            CHECK(MPI_Status_set_source(&status, 3) == MPI_SUCCESS && status.MPI_SOURCE == 3);
            CHECK(MPI_Status_set_tag(&status, 4) == MPI_SUCCESS && status.MPI_TAG == 4);
            CHECK(MPI_Status_set_error(&status, 5) == MPI_SUCCESS && status.MPI_ERROR == 5);
            CHECK(MPI_Status_get_source(&status, &a) == MPI_SUCCESS && a == 3);
            CHECK(MPI_Status_get_tag(&status, &a) == MPI_SUCCESS && a == 4);
            CHECK(MPI_Status_get_error(&status, &a) == MPI_SUCCESS && a == 5);

            CHECK(MPI_Type_toint(MPI_DOUBLE) == 0x214 && MPI_Type_fromint(0x214) == MPI_DOUBLE);
            CHECK(MPI_Op_fromint(MPI_Op_toint(MPI_SUM)) == MPI_SUM);
            CHECK(MPI_Win_fromint(-1) != MPI_WIN_NULL);
            puts("done");
            return 0;
        }
        "#,
    );
    assert_eq!(printed, "done\n");
}
