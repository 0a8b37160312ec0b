//! Programs under other launchers, or of another MPI library: they never run silently as jobs of
//! one rank, and correct ones are not refused.

use std::io::Read as _;
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::io::{FdFlags, fcntl_setfd};

use super::harness::{Outcome, Programs, compile, installed};
use crate::support::prefix;

fn alone(p: &Programs, env: &[(&str, &str)], arguments: &[&str]) -> Outcome {
    let mut command = Command::new(p.path("world"));
    command.args(arguments).arg(p.marker()).envs(env.iter().copied());
    p.start(command).end()
}

fn is_alone(outcome: &Outcome, lines_of_stderr: usize) {
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "rank 0 of 1\n"), "{outcome:?}");
    assert_eq!(outcome.err.lines().count(), lines_of_stderr, "{outcome:?}");
}

fn is_refused(outcome: &Outcome, parts: &[&str]) {
    assert!(outcome.code != 0 && !outcome.out.contains("rank"), "{outcome:?}");
    let parts = parts.iter().chain(&["PROGRAM", "OXMPI_MCA_mpi_allow_singletons=1"]);
    parts.for_each(|part| assert!(outcome.err.contains(part), "{part}: {outcome:?}"));
}

#[test]
fn variables_of_a_batch_script_make_a_singleton_and_one_line() {
    let p = compile(&["jobs/world"]);
    is_alone(&alone(&p, &[], &[]), 0);
    is_alone(&alone(&p, &[("SLURM_NTASKS", "1")], &[]), 0);
    let outcome = alone(&p, &[("SLURM_NTASKS", "4")], &[]);
    is_alone(&outcome, 1);
    assert!(
        outcome.err.contains("SLURM_NTASKS=4") && outcome.err.contains("mpirun -n 4"),
        "{outcome:?}"
    );
    is_alone(&alone(&p, &[("SLURM_NTASKS", "4"), ("OXMPI_MCA_mpi_allow_singletons", "1")], &[]), 0);
    is_alone(&alone(&p, &[("PMI_FD", "0"), ("PMI_SIZE", "4")], &[]), 1);
    let gone = [
        ("PMIX_NAMESPACE", "a"),
        ("PMIX_SERVER_URI2", "a.0;tcp4://127.0.0.1:1"),
        ("OMPI_COMM_WORLD_SIZE", "4"),
    ];
    is_alone(&alone(&p, &gone, &[]), 1);
    let elsewhere = [("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_TASK_PID", "1999999999")];
    is_alone(&alone(&p, &elsewhere, &[]), 1);
}

#[test]
fn variables_of_a_batch_script_do_not_change_a_job() {
    let p = compile(&["jobs/world"]);
    let mut command = p.mpirun(2, &[], "world", &[]);
    command.env("SLURM_NTASKS", "4").env("SLURM_STEP_NUM_TASKS", "4");
    p.start(command).end().is_fine(2, "of 2");
}

/// The manager of one process, which ends at the first request, and the process's end of the
/// socket, which programs inherit.
fn pmi_manager() -> UnixStream {
    let (mut manager, task) = UnixStream::pair().unwrap();
    fcntl_setfd(&task, FdFlags::empty()).unwrap();
    std::thread::spawn(move || manager.read(&mut [0; 64]));
    task
}

#[test]
fn a_task_of_pmi_is_refused_and_its_own_job_is_not() {
    let p = compile(&["jobs/world"]);
    let tasks = [pmi_manager(), pmi_manager(), pmi_manager()];
    let sockets = tasks.each_ref().map(|task| task.as_raw_fd().to_string());
    let env = |task: usize| [("PMI_FD", &*sockets[task]), ("PMI_SIZE", "4"), ("PMI_RANK", "1")];
    let found = [&*format!("PMI_FD={}", sockets[0]), "PMI_SIZE=4", "mpirun -n 4"];
    is_refused(&alone(&p, &env(0), &[]), &found);
    let by_session = alone(&p, &env(1), &["session"]);
    assert_eq!((by_session.code, by_session.out.as_str()), (3, "no session\n"), "{by_session:?}");
    let env = env(2);
    is_alone(&alone(&p, &[&env[..], &[("OXMPI_MCA_mpi_allow_singletons", "1")]].concat(), &[]), 0);
    is_alone(&alone(&p, &[env[0], ("PMI_SIZE", "1")], &[]), 0);
    let mut command = p.mpirun(2, &[], "world", &[]);
    command.envs(env);
    p.start(command).end().is_fine(2, "of 2");
}

#[test]
fn a_task_of_pmix_is_refused() {
    let p = compile(&["jobs/world"]);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("a.0;tcp4://{}", server.local_addr().unwrap());
    // It accepts connections, and closes them.
    std::thread::spawn(move || while server.accept().is_ok() {});
    let env = [("PMIX_NAMESPACE", "a"), ("PMIX_RANK", "0"), ("PMIX_SERVER_URI41", &*uri)];
    is_refused(&alone(&p, &env, &[]), &["PMIx server", "several processes", "mpirun -n N"]);
    let four = [&env[..], &[("OMPI_COMM_WORLD_SIZE", "4")]].concat();
    is_refused(&alone(&p, &four, &[]), &["OMPI_COMM_WORLD_SIZE=4", "mpirun -n 4"]);
    let one = [&env[..], &[("OMPI_COMM_WORLD_SIZE", "1")]].concat();
    is_alone(&alone(&p, &one, &[]), 0);
}

#[test]
fn a_task_of_slurm_is_refused() {
    let p = compile(&["jobs/world"]);
    let run = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("export SLURM_TASK_PID=$$; {script}"), "sh", p.marker()]);
        p.start(command).end()
    };
    let found = ["SLURM_STEP_NUM_TASKS=3", "mpirun -n 3"];
    is_refused(&run("export SLURM_STEP_NUM_TASKS=3; exec ./world $1"), &found);
    is_refused(&run("export SLURM_STEP_NUM_TASKS=3; ./world $1; exit $?"), &found);
    is_alone(&run("export SLURM_STEP_NUM_TASKS=1; ./world $1; exit $?"), 0);
    is_alone(&run("export SLURM_NTASKS=3; ./world $1; exit $?"), 1);
}

#[test]
fn ranks_do_not_inherit_the_identity_of_mpirun_under_another_launcher() {
    let p = compile(&[]);
    let mut command = Command::new(installed("mpirun"));
    command.args(["-n", "1", "--timeout", "50", "sh", "-c", "env", p.marker()]);
    let others = [
        "PMI_FD",
        "PMI_RANK",
        "PMIX_RANK",
        "PMI2_A",
        "OMPI_COMM_WORLD_NODE_RANK",
        "HYDI_CONTROL_FD",
    ];
    command.envs(others.map(|name| (name, "7"))).env("SLURM_NTASKS", "7").env("OMPI_MCA_x", "7");
    let outcome = p.start(command).end();
    let has = |name: &str| outcome.out.lines().any(|line| line.starts_with(&format!("{name}=")));
    assert!(!others.iter().any(|name| has(name)), "{outcome:?}");
    assert!(has("SLURM_NTASKS") && has("OMPI_MCA_x") && has("OMPI_COMM_WORLD_RANK"), "{outcome:?}");
}

fn of_other_library(p: &Programs, library: &str, linker: &str) {
    let source =
        p.file("other.c", b"int MPI_Initialized(int *flag) { *flag = 0; return 0; }\n", 0o644);
    let program = b"int MPI_Initialized(int *), puts(const char *);\nint main(void) { int f; puts(\"ran\"); return MPI_Initialized(&f); }\n";
    let program = p.file("main.c", program, 0o644);
    let cc = |arguments: &[&str]| {
        let done = Command::new("cc").args(arguments).current_dir(&p.directory).status().unwrap();
        assert!(done.success(), "cc {arguments:?}");
    };
    let soname = format!("-Wl,-soname,{library}");
    cc(&["-shared", "-fPIC", source.to_str().unwrap(), "-o", library, &soname]);
    cc(&[program.to_str().unwrap(), library, linker, "-o", "foreign"]);
}

/// Paths that the dynamic linker searches behind LD_LIBRARY_PATH, and in front of it.
const RUNPATH: &str = "-Wl,--enable-new-dtags,-rpath,$ORIGIN";
const RPATH: &str = "-Wl,--disable-new-dtags,-rpath,$ORIGIN";

#[test]
fn a_program_of_another_mpi_library_is_refused() {
    let p = compile(&[]);
    for (library, owner) in [("libmpi_cray.so.12", "Cray MPICH"), ("libmpt.so", "HPE MPT")] {
        of_other_library(&p, library, RUNPATH);
        let outcome = p.run(2, &[], "foreign", &[]);
        assert_eq!((outcome.code, outcome.out.as_str()), (1, ""), "{outcome:?}");
        for part in ["foreign", library, owner, "mpicc", "mpi_allow_singletons"] {
            assert!(outcome.err.contains(part), "{part}: {outcome:?}");
        }
        p.run(2, &["--mca", "mpi_allow_singletons", "1"], "foreign", &[]).is_fine(2, "ran");
    }
    // No MPI library, libraries of the installation, and a C++ library that calls one of them.
    for library in ["libmpimodel.so.40", "libmpi.so.12", "libmpi.so.40", "libmpicxx.so.12"] {
        of_other_library(&p, library, RUNPATH);
        p.run(2, &[], "foreign", &[]).is_fine(2, "ran");
    }
    p.file("script", b"#!/bin/sh\necho script\n", 0o755);
    p.run(2, &[], "script", &[]).is_fine(2, "script");
}

#[test]
fn a_program_whose_own_path_leads_to_another_library_is_refused() {
    let p = compile(&[]);
    of_other_library(&p, "libmpi.so.40", RPATH);
    let outcome = p.run(2, &[], "foreign", &[]);
    assert_eq!((outcome.code, outcome.out.as_str()), (1, ""), "{outcome:?}");
    for part in ["foreign", "/libmpi.so.40", "DT_RPATH", "patchelf", "mpi_allow_singletons"] {
        assert!(outcome.err.contains(part), "{part}: {outcome:?}");
    }
    p.run(2, &["--mca", "mpi_allow_singletons", "1"], "foreign", &[]).is_fine(2, "ran");
}

#[test]
fn no_foreign_leaves_the_library_path() {
    let p = compile(&[]);
    p.file("variables", b"#!/bin/sh\necho set: $LD_LIBRARY_PATH $MPI4PY_LIBMPI\n", 0o755);
    let variables = |options: &[&str]| {
        let outcome = p.run(1, options, "variables", &[]);
        assert!(outcome.code == 0 && outcome.out.starts_with("set:"), "{outcome:?}");
        outcome.out
    };
    assert!(variables(&[]).contains("libmpi.so.12"));
    let own = prefix().join("lib").display().to_string();
    assert!(!variables(&["--no-foreign"]).contains(&own));
    of_other_library(&p, "libmpi.so.40", RUNPATH);
    let outcome = p.run(2, &["--mca", "mpi_foreign", "0"], "foreign", &[]);
    assert_eq!((outcome.code, outcome.out.as_str()), (1, ""), "{outcome:?}");
    assert!(outcome.err.contains("libmpi.so.40"), "{outcome:?}");
}

/// A program that opens `libmpi.so`, without a version, and takes it for Open MPI's.
const OPENER: &[u8] = b"#include <dlfcn.h>\n#include <stdio.h>\n\
    int main(int argc, char **argv) {\n\
        void *mpi = dlopen(\"libmpi.so\", RTLD_NOW | RTLD_GLOBAL);\n\
        if (!mpi) return puts(dlerror()), 2;\n\
        int (*init)(int *, char ***) = dlsym(mpi, \"MPI_Init\");\n\
        int (*size)(void *, int *) = dlsym(mpi, \"MPI_Comm_size\");\n\
        int (*version)(char *, int *) = dlsym(mpi, \"MPI_Get_library_version\");\n\
        int (*finalize)(void) = dlsym(mpi, \"MPI_Finalize\");\n\
        int ranks, length, rc = init(&argc, &argv);\n\
        char text[8192];\n\
        rc |= size(dlsym(mpi, \"ompi_mpi_comm_world\"), &ranks) | version(text, &length);\n\
        printf(\"%d ranks, %s\\n\", ranks, text);\n\
        return rc | finalize();\n\
    }\n";

fn compile_opener() -> Programs {
    let p = compile(&[]);
    p.file("opener.c", OPENER, 0o644);
    let words = ["opener.c", "-o", "opener"];
    assert!(Command::new("cc").args(words).current_dir(&p.directory).status().unwrap().success());
    p
}

#[test]
fn a_rank_that_opens_libmpi_so_gets_the_abi_of_open_mpi() {
    let p = compile_opener();
    p.run(2, &[], "opener", &[]).is_fine(2, "2 ranks, OxMPI");
}

#[test]
fn a_program_that_names_its_library_opens_none_of_another_abi() {
    let p = compile(&[]);
    let program = b"#include <stdio.h>\n#include <stdlib.h>\n\
        int main(void) { return puts(getenv(\"LD_LIBRARY_PATH\")) < 0; }\n";
    p.file("shown.c", program, 0o644);
    let path = |library: &str| {
        let done = Command::new("cc")
            .args(["shown.c", "-o", "shown", "-Wl,--no-as-needed", library, "-L"])
            .arg(prefix().join("lib"))
            .current_dir(&p.directory)
            .status();
        assert!(done.unwrap().success());
        p.run(1, &[], "shown", &[]).out
    };
    assert!(path("-lc").contains("/oxmpi/ranks:"));
    for library in ["-l:libmpi_abi.so.1", "-l:libmpi.so.40"] {
        let path = path(library);
        assert!(path.contains("/lib") && !path.contains("/oxmpi/ranks"), "{path}");
    }
}

#[test]
fn the_text_of_the_version_is_that_of_the_user() {
    let p = compile_opener();
    let text = ["--mca", "mpi_library_version", "MPICH Version: 4.1.0"];
    p.run(2, &text, "opener", &[]).is_fine(2, "2 ranks, MPICH Version: 4.1.0");
}

#[test]
fn a_process_with_two_interfaces_of_mpi_is_refused() {
    let p = compile(&[]);
    let text =
        b"int MPI_Initialized(int *); int part(void) { int f; return MPI_Initialized(&f); }\n";
    let part = p.file("part.c", text, 0o644);
    let main = p.file("main.c", b"int part(void);\nint main(void) { return part(); }\n", 0o644);
    let lib = prefix().join("lib");
    let (lib, part, main) = (lib.to_str().unwrap(), part.to_str().unwrap(), main.to_str().unwrap());
    let cc = |arguments: &[&str]| {
        let done = Command::new("cc")
            .args(arguments)
            .args(["-L", lib])
            .current_dir(&p.directory)
            .status()
            .unwrap();
        assert!(done.success());
    };
    cc(&["-shared", "-fPIC", part, "-o", "libpart.so", "-Wl,--no-as-needed", "-l:libmpi.so.12"]);
    for first in ["libmpi.so.40", "libmpi_abi.so.1"] {
        let first_library = format!("-l:{first}");
        let path = format!("-Wl,-rpath,$ORIGIN,-rpath-link,{lib}");
        cc(&[main, "-o", "mixed", "-Wl,--no-as-needed", &first_library, "libpart.so", &path]);
        let outcome = p.run(1, &[], "mixed", &[]);
        assert_eq!(outcome.code, 1, "{outcome:?}");
        for part in [first, "libmpi.so.12", "two interfaces"] {
            assert!(outcome.err.contains(part), "{part}: {outcome:?}");
        }
    }
}

#[test]
fn a_rank_that_has_loaded_another_library_is_named() {
    let p = compile(&[]);
    of_other_library(&p, "libmpi_cray.so.12", RUNPATH);
    // The library comes with a file that needs it, and a script starts the program.
    let opener = b"#include <dlfcn.h>\n#include <unistd.h>\n\
        int main(void) { void *all = dlopen(\"./part.so\", RTLD_NOW); sleep(2); return !all; }\n";
    p.file("opener.c", opener, 0o644);
    p.file(
        "part.c",
        b"int MPI_Initialized(int *); int part(void) { return MPI_Initialized(0); }\n",
        0o644,
    );
    p.file("script", b"#!/bin/sh\n./opener; exit $?\n", 0o755);
    let library = p.directory.join("libmpi_cray.so.12");
    let library = library.to_str().unwrap();
    for words in [
        &["-shared", "-fPIC", "part.c", library, "-o", "part.so", RUNPATH][..],
        &["opener.c", "-o", "opener"],
    ] {
        assert!(
            Command::new("cc").args(words).current_dir(&p.directory).status().unwrap().success()
        );
    }
    let outcome = p.run(2, &[], "script", &[]);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    for part in ["rank ", library, "part.so", "Cray MPICH", "Next:"] {
        assert!(outcome.err.contains(part), "{part}: {outcome:?}");
    }
    assert_eq!(outcome.err.matches("has loaded").count(), 1, "{outcome:?}");
    let allowed = ["--mca", "mpi_allow_singletons", "1"];
    assert!(!p.run(2, &allowed, "script", &[]).err.contains("has loaded"));
}
