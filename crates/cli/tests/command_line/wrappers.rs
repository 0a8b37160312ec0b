//! `mpicc` and `mpicxx` with real compilers, pkg-config and CMake, which `cargo xtask test`
//! installs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{TestDirectory, prefix, texts};

struct BlankDirectory(TestDirectory);

impl BlankDirectory {
    fn new(name: &str) -> BlankDirectory {
        BlankDirectory(TestDirectory::new(&format!("wrappers {name}")))
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        self.0.write(name, text)
    }

    /// A copy of the installation in this directory, whose path has a blank.
    fn installation(&self) -> PathBuf {
        let to = self.0.join("prefix");
        let copied = Command::new("cp").arg("-a").arg(prefix()).arg(&to).status().unwrap();
        assert!(copied.success());
        to
    }
}

fn tool(prefix: &Path, name: &str) -> Command {
    let mut command = Command::new(prefix.join("bin").join(name));
    for variable in ["OXMPI_CC", "OMPI_CC", "MPICH_CC", "OXMPI_CXX", "OMPI_CXX", "MPICH_CXX"] {
        command.env_remove(variable);
    }
    command
}

fn ok(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}; 'cargo xtask test' installs it"));
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && err.is_empty(),
        "{command:?}: {}\n{out}\n{err}",
        output.status
    );
    out.into_owned()
}

fn runs(prefix: &Path, program: &Path) -> String {
    let mut mpirun = tool(prefix, "mpirun");
    ok(mpirun.args(["-n", "2", "--timeout", "60"]).arg(program))
}

const SUM_C: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    rank++;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 1)
        printf("sum %d\n", sum);
    MPI_Finalize();
    return 0;
}
"#;

const SUM_CXX: &str = r#"
#include <mpi.h>
#include <iostream>
#include <vector>
static void maximum(void *in, void *inout, int *len, MPI_Datatype *)
{
    const int *a = static_cast<const int *>(in);
    int *b = static_cast<int *>(inout);
    for (int i = 0; i < *len; i++)
        b[i] = a[i] > b[i] ? a[i] : b[i];
}
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Op op = MPI_OP_NULL;
    MPI_Op_create(maximum, 1, &op);
    std::vector<int> own(3, rank + 1), all(3);
    MPI_Allreduce(own.data(), all.data(), 3, MPI_INT, op, MPI_COMM_WORLD);
    MPI_Op_free(&op);
    if (rank == 0)
        std::cout << "maximum " << all[2] << std::endl;
    MPI_Finalize();
}
"#;

const EXCEPTIONS: &str = r#"
#include <mpi.h>
#include <cstdio>
#include <stdexcept>
static int key, combined;
static void op(void *, void *, int *, MPI_Datatype *)
{
    if (combined++ == 0) throw std::runtime_error("operation");
}
static int copy(MPI_Comm, int, void *, void *, void *, int *) { throw std::runtime_error("copy"); }
static bool keep = true;
static int remove(MPI_Comm, int, void *, void *)
{
    if (keep) throw std::runtime_error("delete");
    return MPI_SUCCESS;
}
static void handler(MPI_Comm *, int *, ...) { throw std::runtime_error("handler"); }
template <class Call> static void caught(Call call)
{
    try {
        call();
        std::printf("nothing\n");
    } catch (std::exception &error) {
        std::printf("%s\n", error.what());
    }
}
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int one = 1, two = 2, flag = 0, size = 0;
    void *value;
    MPI_Op sum;
    MPI_Op_create(op, 1, &sum);
    caught([&] { MPI_Reduce_local(&one, &two, 1, MPI_INT, sum); });
    caught([&] { combined = 0; MPI_Scan(&one, &two, 1, MPI_INT, sum, MPI_COMM_WORLD); });
    MPI_Comm copied;
    MPI_Comm_create_keyval(copy, remove, &key, nullptr);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &one);
    caught([&] { MPI_Comm_dup(MPI_COMM_WORLD, &copied); });
    caught([&] { MPI_Comm_delete_attr(MPI_COMM_WORLD, key); });
    MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &flag);
    keep = false;
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Errhandler throws;
    MPI_Comm_create_errhandler(handler, &throws);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, throws);
    caught([&] { MPI_Send(&one, 1, MPI_INT, 99, 0, MPI_COMM_WORLD); });
    /* All goes on. */
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &two, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    std::printf("attribute %d, sum %s\n", flag, two == size ? "right" : "wrong");
    MPI_Finalize();
}
"#;

#[test]
fn exceptions_of_cxx_pass_through() {
    let scratch = BlankDirectory::new("exceptions");
    let prefix = prefix();
    let (source, program) =
        (scratch.write("exceptions.cc", EXCEPTIONS), scratch.0.join("exceptions"));
    ok(tool(&prefix, "mpicxx").args(["-std=c++11", "-Wall"]).arg(&source).arg("-o").arg(&program));
    for (ranks, rpi) in [("1", "usysv"), ("2", "usysv"), ("2", "tcp")] {
        let mut mpirun = tool(&prefix, "mpirun");
        let out =
            ok(mpirun.args(["-n", ranks, "--timeout", "60", "--mca", "rpi", rpi]).arg(&program));
        let mut seen: Vec<&str> = out.lines().collect();
        seen.sort_unstable();
        // The first rank of a scan combines nothing.
        let mut wanted = vec!["nothing", "operation"];
        for _ in 0..ranks.parse::<usize>().unwrap() {
            wanted.extend(["copy", "delete", "handler", "operation", "attribute 1, sum right"]);
        }
        if ranks == "1" {
            wanted.remove(1);
        }
        wanted.sort_unstable();
        assert_eq!(seen, wanted, "{ranks} ranks, rpi {rpi}");
    }
}

const WARNINGS: &[&str] = &["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

#[test]
fn c_and_cxx_compile_without_warnings_and_run_where_paths_have_blanks() {
    let scratch = BlankDirectory::new("compile");
    let prefix = scratch.installation();
    let c = scratch.write("a file.c", SUM_C);
    let cxx = scratch.write("a file.cc", SUM_CXX);
    for (wrapper, standard, source, text) in [
        ("mpicc", "-std=c99", &c, "sum 3\n"),
        ("mpicxx", "-std=c++11", &cxx, "maximum 2\n"),
        ("mpic++", "-std=c++17", &cxx, "maximum 2\n"),
        ("mpiCC", "-std=c++11", &cxx, "maximum 2\n"),
    ] {
        let program = scratch.0.join("a program");
        ok(tool(&prefix, wrapper).args(WARNINGS).arg(standard).arg(source).arg("-o").arg(&program));
        assert_eq!(runs(&prefix, &program), text, "{wrapper}");
        let object = scratch.0.join("an object.o");
        ok(tool(&prefix, wrapper).arg(standard).arg("-c").arg(source).arg("-o").arg(&object));
        ok(tool(&prefix, wrapper).arg(&object).arg("-o").arg(&program));
        assert_eq!(runs(&prefix, &program), text, "{wrapper} in two steps");
    }
    let preprocessed = ok(tool(&prefix, "mpicc").arg("-E").arg(&c));
    assert!(preprocessed.contains("int MPI_Allreduce("));
}

/// Build systems search for functions with their own declarations, for pkg-config packages under
/// several names, and for Fortran. Without Fortran here they take that of another MPI.
#[test]
fn build_systems_find_this_installation_and_no_other() {
    let scratch = BlankDirectory::new("build");
    let mut source = String::new();
    let kinds =
        "Comm Errhandler File Group Info Message Op Request Session Status Type Win".split(' ');
    let names = kinds.flat_map(|kind| ["c2f", "f2c"].map(|to| format!("MPI_{kind}_{to}")));
    let calls: Vec<_> =
        names.map(|name| (format!("char {name}();\n"), format!("{name}() + "))).collect();
    calls.iter().for_each(|(declaration, _)| source += declaration);
    source += "int main(void) { return ";
    calls.iter().for_each(|(_, call)| source += call);
    scratch.write("conftest.c", &(source + "0; }\n"));
    ok(tool(&prefix(), "mpicc")
        .args(["-std=gnu17", "conftest.c", "-o", "conftest"])
        .current_dir(&scratch.0));
    // PETSc's configure knows a GNU compiler by this.
    let help = ok(tool(&prefix(), "mpifort").args(["-fc=gfortran", "--help"]));
    assert!(help.contains("-print-libgcc-file-name"), "{help}");
    let flags = |name: &str| {
        let mut command = Command::new("pkg-config");
        command.args(["--libs", name]).env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"));
        ok(&mut command)
    };
    for name in ["mpi", "mpi-c", "mpi-cxx", "mpich", "ompi-c", "ompi-cxx"] {
        assert_eq!(flags(name), flags("oxmpi"), "{name}");
    }
    for (name, args, text) in [
        ("mpifort", &["-fdefault-integer-8", "a.f90"][..], "need a default INTEGER of 4 bytes"),
        ("mpif90", &["-r8", "-fc=no-compiler", "a.f90"], "cannot run the Fortran compiler"),
        ("mpif77", &["-fno-underscoring", "a.f"], "-fno-underscoring: "),
        ("mpicc", &["-static", "a.c"], "-static: OxMPI is a shared library alone"),
    ] {
        let output = tool(&prefix(), name).args(args).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(1) && err.contains(text) && err.lines().count() == 1,
            "{name}: {err}"
        );
    }
}

#[test]
fn programs_have_names_that_no_other_mpi_has() {
    let scratch = BlankDirectory::new("own names");
    for name in ["mpicc", "mpirun", "oxmpi"] {
        let link = scratch.0.join(format!("{name}.oxmpi"));
        std::os::unix::fs::symlink(prefix().join("bin").join(name), &link).unwrap();
        let version = if name == "mpicc" { "-showme:version" } else { "--version" };
        let said = ok(Command::new(&link).arg(version));
        assert!(said.contains("OxMPI") || said.contains("oxmpi"), "{said}");
        assert!(name == "oxmpi" || said.starts_with(name), "{said}");
    }
}

#[test]
fn a_shell_can_use_the_shown_words() {
    let scratch = BlankDirectory::new("shown");
    let prefix = scratch.installation();
    scratch.write("a.c", SUM_C);
    let program = scratch.0.join("a");
    let show = |words: &[&str]| ok(tool(&prefix, "mpicc").args(words)).trim_end().to_string();
    for line in [
        format!("{} a.c -o a {}", show(&["-compile_info"]), show(&["-showme:link"])),
        format!(
            "{} {} a.c -o a {}",
            show(&["-showme:command"]),
            show(&["-showme:compile"]),
            show(&["-showme:link"])
        ),
        show(&["a.c", "-o", "a", "-show"]),
        show(&["-showme", "a.c", "-o", "a"]),
    ] {
        ok(Command::new("sh").arg("-c").arg(&line).current_dir(&scratch.0));
        assert_eq!(runs(&prefix, &program), "sum 3\n", "{line}");
        std::fs::remove_file(&program).unwrap();
    }
    assert!(show(&["-showme:version"]).starts_with("mpicc: OxMPI "));
    let mut pkg_config = Command::new("pkg-config");
    pkg_config
        .args(["--cflags", "--libs", "oxmpi"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let pkg_config = ok(&mut pkg_config);
    ok(Command::new("sh")
        .arg("-c")
        .arg(format!("cc a.c -o a {pkg_config}"))
        .current_dir(&scratch.0));
    assert_eq!(runs(&prefix, &program), "sum 3\n");
}

const SUM_FORTRAN: &str = "\
program sums
  implicit none
  include 'mpif.h'
  integer :: rank, total, ierror
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Allreduce(rank + 1, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (rank == 0) print '(a, i0)', 'sum ', total
  call MPI_Finalize(ierror)
end program
";

#[test]
fn pkg_config_knows_the_fortran_libraries() {
    let scratch = BlankDirectory::new("fortran package");
    let prefix = scratch.installation();
    scratch.write("a.f90", SUM_FORTRAN);
    let mut pkg_config = Command::new("pkg-config");
    pkg_config
        .args(["--cflags", "--libs", "oxmpi-fort"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let line = format!("gfortran a.f90 -o a {}", ok(&mut pkg_config));
    ok(Command::new("sh").arg("-c").arg(&line).current_dir(&scratch.0));
    assert_eq!(runs(&prefix, &scratch.0.join("a")), "sum 3\n", "{line}");
}

#[test]
fn another_compiler_can_be_named_and_a_missing_one_is_reported() {
    let scratch = BlankDirectory::new("named");
    let source =
        scratch.write("a.c", "#ifndef MARK\n#error the other compiler was not used\n#endif\n");
    let compiler = scratch.write("my cc", "#!/bin/sh\nexec cc -DMARK \"$@\"\n");
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(&compiler, mode).unwrap();
    let compile = || {
        let mut command = tool(&prefix(), "mpicc");
        command.arg("-fsyntax-only").arg(&source);
        command
    };
    ok(compile().arg(format!("-cc={}", compiler.display())));
    for variable in ["OXMPI_CC", "OMPI_CC", "MPICH_CC"] {
        ok(compile().env(variable, &compiler));
    }
    assert!(!compile().output().unwrap().status.success());
    let output = compile().env("OMPI_CC", "no-such-compiler -x").output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(127));
    assert!(
        err.starts_with(
            "mpicc: cannot run the compiler 'no-such-compiler' (named by the environment variable OMPI_CC):"
        ),
        "{err}"
    );
}

const OLD: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
struct pair { double d; char c; };
static void check(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "wrong: %s\n", what);
        exit(1);
    }
}
int main(int argc, char **argv)
{
    int lengths[2] = {1, 1};
    int back;
    struct pair p, from;
    MPI_Aint where[2], start, extent, lb, ub;
    MPI_Datatype types[2] = {MPI_DOUBLE, MPI_CHAR};
    MPI_Datatype type, rows;
    MPI_Errhandler handler;
    MPI_Status status, copy;
    MPI_Fint f_status[MPI_F_STATUS_SIZE];
    MPI_Fint world;
    MPI_Init(&argc, &argv);
    p.d = 1.5;
    p.c = 'x';
    MPI_Address(&p, &start);
    MPI_Address(&p.d, &where[0]);
    MPI_Address(&p.c, &where[1]);
    where[0] -= start;
    where[1] -= start;
    check(where[1] == (MPI_Aint) offsetof(struct pair, c), "MPI_Address");
    MPI_Type_struct(2, lengths, where, types, &type);
    MPI_Type_commit(&type);
    MPI_Type_extent(type, &extent);
    MPI_Type_lb(type, &lb);
    MPI_Type_ub(type, &ub);
    check(extent == (MPI_Aint) sizeof(struct pair) && lb == 0 && ub == extent, "extent, lb, ub");
    MPI_Sendrecv(&p, 1, type, 0, 7, &from, 1, type, 0, 7, MPI_COMM_SELF, &status);
    check(from.d == 1.5 && from.c == 'x', "what MPI_Type_struct describes");
    MPI_Status_c2f(&status, f_status);
    check(f_status[MPI_F_TAG] == 7 && f_status[MPI_F_SOURCE] == 0, "MPI_Status_c2f");
    MPI_Status_f2c(f_status, &copy);
    MPI_Get_count(&copy, type, &back);
    check(back == 1 && copy.MPI_TAG == 7, "MPI_Status_f2c");
    MPI_Type_hvector(2, 1, 64, MPI_INT, &rows);
    MPI_Type_extent(rows, &extent);
    check(extent == 64 + (MPI_Aint) sizeof(int), "MPI_Type_hvector");
    MPI_Type_free(&rows);
    MPI_Type_hindexed(2, lengths, where, MPI_CHAR, &rows);
    MPI_Type_extent(rows, &extent);
    check(extent == (MPI_Aint) offsetof(struct pair, c) + 1, "MPI_Type_hindexed");
    MPI_Type_free(&rows);
    check(MPI_Type_f2c(MPI_Type_c2f(type)) == type, "MPI_Type_c2f");
    MPI_Type_free(&type);
    world = MPI_Comm_c2f(MPI_COMM_WORLD);
    check(MPI_Comm_f2c(world) == MPI_COMM_WORLD, "MPI_Comm_c2f");
    check(MPI_Op_f2c(MPI_Op_c2f(MPI_SUM)) == MPI_SUM, "MPI_Op_c2f");
    MPI_Errhandler_set(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Errhandler_get(MPI_COMM_WORLD, &handler);
    check(handler == MPI_ERRORS_RETURN, "MPI_Errhandler_set, MPI_Errhandler_get");
    MPI_Finalize();
    printf("ok\n");
    return 0;
}
"#;

#[test]
fn removed_names_are_there_on_request() {
    let scratch = BlankDirectory::new("compat");
    let old = scratch.write("old.c", OLD);
    let program = scratch.0.join("old");
    let compile = |wrapper: &str, language: &str, more: &[&str]| {
        let mut command = tool(&prefix(), wrapper);
        command.args(WARNINGS).args(more).args(["-x", language]).arg(&old).arg("-o").arg(&program);
        command
    };
    for (wrapper, language, standard) in
        [("mpicc", "c", "-std=c99"), ("mpicc", "c", "-std=gnu17"), ("mpicxx", "c++", "-std=c++11")]
    {
        ok(&mut compile(wrapper, language, &["-mpi-compat", standard]));
        assert_eq!(runs(&prefix(), &program), "ok\nok\n", "{wrapper} {standard}");
    }
    // Without the option these names do not exist. The wrapper adds a hint after the errors of the
    // compiler.
    for wrapper in ["mpicc", "mpicxx"] {
        let (language, options): (_, &[&str]) = match wrapper {
            "mpicc" => ("c", &["-Werror=implicit-function-declaration"]),
            _ => ("c++", &[]),
        };
        let without = compile(wrapper, language, options).output().unwrap();
        let err = String::from_utf8_lossy(&without.stderr);
        let (last, compiler) = (err.lines().next_back().unwrap(), err.lines().next().unwrap());
        assert_eq!(without.status.code(), Some(1));
        assert!(compiler.contains("old.c") && err.contains("error:"), "{err}");
        assert!(
            last.starts_with(&format!("{wrapper}: MPI-3.0 removed MPI_Address, "))
                && last.contains("MPI_Type_struct, ")
                && last.contains(&format!("'{wrapper} -mpi-compat' has them")),
            "{err}"
        );
    }
    // A build system can set a variable instead, as it may pass the wrapper's options to the
    // compiler itself.
    ok(compile("mpicc", "c", &[]).env("OXMPI_MPI_COMPAT", "1"));
    let off = compile("mpicc", "c", &[]).env("OXMPI_MPI_COMPAT", "0").output().unwrap();
    assert!(!off.status.success(), "OXMPI_MPI_COMPAT=0 is no request");
    let bound =
        scratch.write("bound.c", "#include <mpi.h>\nMPI_Datatype types[] = {MPI_INT, MPI_UB};\n");
    let output = tool(&prefix(), "mpicc").args(["-mpi-compat", "-c"]).arg(bound).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains("use_MPI_Type_create_resized"), "{err}");
}

const FORTRAN: &str = r#"
#include <mpi.h>
#include <stdio.h>
#ifndef MPI_Comm_c2f
#error there is no MPI_Comm_c2f
#endif
int main(int argc, char **argv)
{
    MPI_Fint world;
    MPI_Init(&argc, &argv);
    world = MPI_Comm_c2f(MPI_COMM_WORLD);
    if (MPI_Comm_f2c(world) == MPI_COMM_WORLD && MPI_Type_f2c(MPI_Type_c2f(MPI_INT)) == MPI_INT)
        printf("ok\n");
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn integers_of_fortran_are_there_unless_the_interface_is_to_be_strict() {
    let scratch = BlankDirectory::new("fortran");
    let source = scratch.write("fortran.c", FORTRAN);
    let program = scratch.0.join("fortran");
    for (wrapper, language) in [("mpicc", "c"), ("mpicxx", "c++")] {
        let compile = |more: &[&str]| {
            let mut command = tool(&prefix(), wrapper);
            command
                .args(WARNINGS)
                .args(more)
                .args(["-x", language])
                .arg(&source)
                .arg("-o")
                .arg(&program);
            command
        };
        ok(&mut compile(&[]));
        assert_eq!(runs(&prefix(), &program), "ok\nok\n", "{wrapper}");
        // The object file uses names of the binary interface alone.
        let symbols = ok(Command::new("nm").arg("-u").arg(&program));
        assert!(symbols.contains("MPI_Comm_toint") && !symbols.contains("c2f"), "{symbols}");
        ok(&mut compile(&["-mpi-compat"]));
        let strict = compile(&["-mpi-abi-strict"]).output().unwrap();
        let err = String::from_utf8_lossy(&strict.stderr);
        assert!(!strict.status.success() && err.contains("there is no MPI_Comm_c2f"), "{err}");
        assert!(!err.contains("-mpi-compat"), "{err}");
    }
    let shown = ok(tool(&prefix(), "mpicc").arg("-showme:compile"));
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.args(["--cflags", "oxmpi"]).env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"));
    for options in [shown, ok(&mut pkg_config)] {
        // The shell reads the quotes around a path with blanks.
        let line = format!("cc -fsyntax-only {} \"$1\"", options.trim());
        ok(Command::new("sh").args(["-c", &line, "sh"]).arg(&source));
    }
}

#[test]
fn output_and_exit_code_of_a_compiler_are_passed_on() {
    let scratch = BlankDirectory::new("passed");
    let source = scratch.write("a.c", "int main(void) { return 0; }\n");
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    let compile = |script: &str| {
        let compiler = scratch.write("cc", script);
        std::fs::set_permissions(&compiler, mode.clone()).unwrap();
        let mut command = tool(&prefix(), "mpicc");
        command.arg(format!("-cc={}", compiler.display())).arg("-c").arg(&source).output().unwrap()
    };
    let output =
        compile("#!/bin/sh\nprintf 'a \\377 MPI_Address\\nno end' >&2\necho out\nexit 7\n");
    assert_eq!(output.status.code(), Some(7));
    let expected = b"a \xff MPI_Address\nno end\nmpicc: MPI-3.0 removed MPI_Address; ";
    assert!(output.stderr.starts_with(expected) && output.stdout == b"out\n", "{output:?}");
    let output = compile("#!/bin/sh\necho warning: MPI_Address >&2\n");
    assert_eq!(
        (output.status.code(), &output.stderr[..]),
        (Some(0), &b"warning: MPI_Address\n"[..])
    );
    let output = compile("#!/bin/sh\nkill -TERM $$\n");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&output.status),
        Some(15),
        "{output:?}"
    );
    // A background process of the compiler with its standard error delays the wrapper only a
    // little.
    let started = std::time::Instant::now();
    let output = compile("#!/bin/sh\nsleep 30 >/dev/null </dev/null &\necho $! >&1\nexit 3\n");
    assert_eq!(output.status.code(), Some(3));
    let left = String::from_utf8(output.stdout).unwrap();
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
    Command::new("kill").arg(left.trim()).status().unwrap();
}

const CMAKE: &str = r#"
cmake_minimum_required(VERSION 3.13)
project(sums C CXX)
find_package(MPI REQUIRED)
if(NOT MPI_C_VERSION_MAJOR EQUAL 5)
  message(FATAL_ERROR "another MPI was found: ${MPI_C_VERSION}")
endif()
add_executable(sum_c sum.c)
target_link_libraries(sum_c MPI::MPI_C)
add_executable(sum_cxx sum.cc)
target_link_libraries(sum_cxx MPI::MPI_CXX)
enable_testing()
add_test(NAME sum COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 2 ${MPIEXEC_PREFLAGS} $<TARGET_FILE:sum_c>)
"#;

#[test]
fn cmake_finds_us_in_path_and_by_mpi_home() {
    let scratch = BlankDirectory::new("cmake");
    let prefix = scratch.installation();
    scratch.write("source/CMakeLists.txt", CMAKE);
    scratch.write("source/sum.c", SUM_C);
    scratch.write("source/sum.cc", SUM_CXX);
    let path = format!("{}:{}", prefix.join("bin").display(), std::env::var("PATH").unwrap());
    for (how, key, value) in
        [("path", "PATH", path.clone()), ("home", "MPI_HOME", prefix.display().to_string())]
    {
        let build = scratch.0.join(how);
        let mut cmake = Command::new("cmake");
        cmake.arg("-S").arg(scratch.0.join("source")).arg("-B").arg(&build).env(key, &value);
        let found = ok(&mut cmake);
        let mpirun = prefix.join("bin/mpi").display().to_string();
        let cache = std::fs::read_to_string(build.join("CMakeCache.txt")).unwrap();
        let executable = cache.lines().find(|line| line.starts_with("MPIEXEC_EXECUTABLE")).unwrap();
        assert!(executable.contains(&mpirun), "{executable}\n{found}");
        ok(Command::new("cmake").arg("--build").arg(&build));
        assert_eq!(ok(&mut Command::new(build.join("sum_c"))), "sum 1\n");
        assert_eq!(runs(&prefix, &build.join("sum_cxx")), "maximum 2\n");
        let tests = ok(Command::new("ctest").arg("--test-dir").arg(&build));
        assert!(tests.contains("100% tests passed"), "{tests}");
    }
}

const ERRHANDLER: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int class, error, byte = 0;
    MPI_Errhandler world, self;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &world);
    MPI_Comm_get_errhandler(MPI_COMM_SELF, &self);
    printf("%d %d %d\n", world == MPI_ERRORS_RETURN, world == MPI_ERRORS_ABORT, world == self);
    fflush(stdout);
    error = MPI_Send(&byte, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    MPI_Error_class(error, &class);
    printf("returned %d\n", class == MPI_ERR_RANK);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn a_job_starts_with_the_requested_error_handler() {
    let scratch = BlankDirectory::new("errhandler");
    let source = scratch.write("a.c", ERRHANDLER);
    let program = scratch.0.join("a");
    ok(tool(&prefix(), "mpicc").arg(source).arg("-o").arg(&program));
    let run = |name: &str| {
        let mut mpirun = tool(&prefix(), "mpirun");
        let output = mpirun.args(["-initial-errhandler", name]).arg(&program).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(run("mpi_errors_return"), (Some(0), "1 0 1\nreturned 1\n".into(), String::new()));
    let (code, out, err) = run("mpi_errors_abort");
    assert!(code != Some(0) && out == "0 1 1\n" && err.contains("MPI_ERR_RANK"), "{out} {err}");
    assert_eq!(run("mpi_errors_are_fatal").1, "0 0 1\n");
    let (code, _, err) = run("mpi_errors_retrun");
    assert_eq!(code, Some(2));
    assert!(err.contains("did you mean 'mpi_errors_return'?"), "{err}");
    let mut alone = Command::new(&program);
    assert_eq!(
        ok(alone.env("OXMPI_MCA_mpi_initial_errhandler", "mpi_errors_return")),
        "1 0 1\nreturned 1\n"
    );
}

fn all_below(prefix: &Path) -> Vec<String> {
    let found = ok(Command::new("find").arg(prefix).args(["!", "-type", "d", "-printf", "%P\\n"]));
    let mut found: Vec<String> = found.lines().map(str::to_owned).collect();
    found.sort_unstable();
    found
}

#[test]
fn uninstall_removes_the_files_of_the_installation_and_no_others() {
    let scratch = BlankDirectory::new("uninstall");
    let prefix = scratch.installation();
    let before = all_below(&prefix);
    let listed = ok(tool(&prefix, "oxmpi").args(["uninstall", "--list"]));
    for name in &before {
        let path = prefix.join(name).display().to_string();
        assert!(listed.lines().any(|line| line == path), "{path} is in no list:\n{listed}");
    }
    assert_eq!(all_below(&prefix), before, "a list removes nothing");
    scratch.write("prefix/bin/mine", "");
    scratch.write("prefix/share/man/man1/other.1", "");
    scratch.write("prefix/etc/oxmpi-mca-params.conf", "rpi = tcp\n");
    let said = ok(tool(&prefix, "oxmpi").arg("uninstall"));
    assert!(
        said.contains("kept, as somebody has changed it: ") && said.contains("removed "),
        "{said}"
    );
    assert_eq!(
        all_below(&prefix),
        ["bin/mine", "etc/oxmpi-mca-params.conf", "share/man/man1/other.1"]
    );
    assert!(!prefix.join("include").exists() && prefix.join("share/man/man1").exists());
}

#[test]
fn uninstall_leaves_the_files_of_a_package_to_its_manager() {
    let scratch = BlankDirectory::new("uninstall-package");
    let prefix = scratch.installation();
    scratch.write("prefix/share/oxmpi/installed", "by pip uninstall oxmpi\n");
    let before = all_below(&prefix);
    for words in [&["uninstall"][..], &["uninstall", "--list"]] {
        let output = tool(&prefix, "oxmpi").args(words).output().unwrap();
        let (code, out, err) = texts(&output);
        assert!(err.contains("'pip uninstall oxmpi' removes them"), "{err}");
        assert_eq!((code, &*out), (1, ""));
    }
    assert_eq!(all_below(&prefix), before);
}

#[test]
fn an_installation_has_no_tables_for_debuggers_and_knows_its_functions() {
    // Sizes of a debug build, which would be four times as long with these tables.
    for (name, most) in [("bin/oxmpi", 22 << 20), ("lib/libmpi_abi.so.1", 13 << 20)] {
        let file = prefix().join(name);
        let sections = ok(Command::new("readelf").args(["-S", "-W"]).arg(&file));
        assert!(
            !sections.contains(" .debug_info ") && sections.contains(" .symtab "),
            "{name}: {sections}"
        );
        let length = std::fs::metadata(&file).unwrap().len();
        assert!(length < most, "{name}: {length} bytes");
    }
}

#[test]
fn manual_pages_name_files_that_are_installed() {
    let pages = prefix().join("share/man");
    let files = ["man1", "man7"].map(|section| std::fs::read_dir(pages.join(section)).unwrap());
    let files = files.into_iter().flatten().map(|entry| entry.unwrap().path());
    let text: String =
        files.map(|page| std::fs::read_to_string(page).unwrap().replace('\\', "")).collect();
    assert!(!text.contains("docs/"), "docs/ is not installed");
    let chapters: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || "(),;".contains(c))
        .filter(|word| word.ends_with(".md") || word.ends_with(".md."))
        .collect();
    assert!(chapters.len() >= 2, "{chapters:?}");
    for chapter in chapters {
        let chapter = chapter.trim_end_matches('.');
        assert!(prefix().join("share/doc/oxmpi").join(chapter).exists(), "{chapter}");
    }
}
