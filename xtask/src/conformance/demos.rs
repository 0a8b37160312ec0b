//! mpi4py's demos that judge an MPI library: pools of processes, `mpi4py.run`, all kinds of start
//! and end, and how mpi4py recognises the launcher. And its suite as its users run it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::client::MPI4PY;
use super::programs::{ForeignLaunch, ForeignProgram};
use crate::run::{Failure, Run};

/// The demos take seconds; a pool whose workers do not start waits for ever.
const LIMIT: Duration = Duration::from_secs(90);

/// Pools of workers: one rank spawns them; of several ranks, the others are the workers.
pub(super) const FUTURES: ForeignProgram = ForeignProgram {
    name: "demo_futures",
    ranks: &[1, 2],
    limit: LIMIT,
    launch: ForeignLaunch::Mpirun,
    build: |_, _| Ok(()),
    start: |mpirun, client, _, _| {
        mpirun.arg(client.python()).arg(client.demo("futures/test_futures.py"));
        Ok(())
    },
    check: check_unittest,
};

/// The same under the module that makes all ranks but one workers.
pub(super) const FUTURES_MODULE: ForeignProgram = ForeignProgram {
    name: "demo_futures_module",
    ranks: &[1, 2],
    start: |mpirun, client, _, _| {
        mpirun
            .arg(client.python())
            .args(["-m", "mpi4py.futures"])
            .arg(client.demo("futures/test_futures.py"));
        Ok(())
    },
    ..FUTURES
};

/// Jobs of `mpi4py.run`, which ends a job when one of its ranks has failed.
pub(super) const TEST_RUN: ForeignProgram = ForeignProgram {
    name: "demo_test_run",
    ranks: &[2],
    launch: ForeignLaunch::ByItself("python"),
    start: |python, client, _, _| {
        python.arg(client.demo("test-run/test_run.py")).arg("-v");
        Ok(())
    },
    ..FUTURES
};

/// All levels of threads, all handlers of errors; ending before, after and without mpi4py.
pub(super) const INIT_FINI: ForeignProgram = ForeignProgram {
    name: "demo_init_fini",
    ranks: &[2],
    launch: ForeignLaunch::ByItself("sh"),
    start: |shell, client, _, _| start_script(shell, &client.demo("init-fini/run.sh")),
    check: check_init_fini,
    ..FUTURES
};

/// mpi4py must warn of a launcher that does not belong to the library, and of no other.
pub(super) const CHECK_MPIEXEC: ForeignProgram = ForeignProgram {
    name: "demo_check_mpiexec",
    ranks: &[2],
    launch: ForeignLaunch::ByItself("sh"),
    start: |shell, client, _, _| {
        // The script takes a library with an `ompi_info` in PATH for Open MPI.
        shell.env("MPIEXEC", client.installed("mpiexec"));
        shell.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        start_script(shell, &client.demo("check-mpiexec/run.sh"))
    },
    check: check_mpiexec,
    ..FUTURES
};

/// The suite by its own runner, one job for all modules, with an mpi4py that was built as users
/// build it: a plain `pip install`, which does not know `mpi-ext.h` and makes other calls in its
/// place. Only the compiler's optimizations are left out.
pub(super) const RUNNER: ForeignProgram = ForeignProgram {
    name: "mpi4py_runner",
    ranks: &[2],
    limit: Duration::from_secs(600),
    build: build_plain,
    start: |mpirun, client, made, _| {
        mpirun.arg(plain(made).join("bin/python")).arg(client.suite.join("main.py"));
        for module in super::LONG_AND_LOCAL {
            mpirun.args(["-e", module]);
        }
        Ok(())
    },
    ..FUTURES
};

/// The same with mpi4py's wheel, in the environment that is the prefix.
pub(super) const OF_WHEELS: ForeignProgram = ForeignProgram {
    name: "mpi4py_wheel",
    build: |_, _| Ok(()),
    start: |mpirun, client, _, _| {
        mpirun.arg(client.installed("python")).arg(client.suite.join("main.py"));
        Ok(())
    },
    ..RUNNER
};

/// [`OF_WHEELS`] with the module that mpi4py's wheel has for Open MPI.
pub(super) const OF_WHEELS_OPEN_MPI: ForeignProgram = ForeignProgram {
    name: "mpi4py_wheel_openmpi",
    start: |mpirun, client, made, ranks| {
        let library = client.installed("../lib/libmpi.so.40");
        mpirun.env("MPI4PY_LIBMPI", library);
        (OF_WHEELS.start)(mpirun, client, made, ranks)
    },
    ..OF_WHEELS
};

/// [`RUNNER`] below other launchers.
pub(super) const BELOW_PMI2: ForeignProgram = ForeignProgram {
    name: "mpi4py_below_srun_pmi2",
    launch: ForeignLaunch::Srun("pmi2"),
    ..RUNNER
};
pub(super) const BELOW_PMIX: ForeignProgram = ForeignProgram {
    name: "mpi4py_below_srun_pmix",
    launch: ForeignLaunch::Srun("pmix"),
    ..RUNNER
};
pub(super) const BELOW_NONE: ForeignProgram = ForeignProgram {
    name: "mpi4py_below_srun_none",
    launch: ForeignLaunch::Srun("none"),
    ..RUNNER
};
pub(super) const BELOW_HYDRA: ForeignProgram =
    ForeignProgram { name: "mpi4py_below_hydra", launch: ForeignLaunch::Hydra, ..RUNNER };

fn plain(made: &Path) -> PathBuf {
    made.join("mpi4py-plain")
}

fn build_plain(prefix: &Path, made: &Path) -> Result<(), Failure> {
    let environment = plain(made);
    let (mark, header) = (environment.join("built-for"), prefix.join("include/mpi.h"));
    let header = std::fs::read_to_string(&header)
        .map_err(Failure::io(format!("cannot read {}", header.display())))?;
    let wanted = format!("mpi4py {MPI4PY}\n{header}");
    if std::fs::read_to_string(&mark).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    Run::new("python3").args(["-m", "venv", "--clear"]).arg(&environment).show()?;
    Run::new(environment.join("bin/pip"))
        .args(["install", "--quiet", "--no-cache-dir", "--no-binary", "mpi4py"])
        .args([&format!("mpi4py=={MPI4PY}"), "numpy"])
        .env("MPI4PY_BUILD_MPICC", prefix.join("bin/mpicc"))
        .env("CFLAGS", "-O0")
        .show()?;
    super::write(&mark, &wanted)
}

fn start_script(shell: &mut Command, script: &Path) -> Result<(), Failure> {
    shell.arg(script);
    Ok(())
}

/// Python's test runner prints its verdict behind the number of tests.
fn check_unittest(output: &str, _: &Path, _: u32) -> Result<(), String> {
    let run = output
        .lines()
        .find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse::<u32>().ok());
    let good = output.lines().any(|line| line == "OK" || line.starts_with("OK ("))
        && !output.contains("FAILED (");
    match run {
        Some(run) if run > 0 && good => Ok(()),
        _ => Err(format!("no verdict, or a bad one:\n{output}")),
    }
}

/// The shell shows each command; it stops at the first that fails.
fn check_init_fini(output: &str, _: &Path, _: u32) -> Result<(), String> {
    let jobs =
        output.lines().filter(|line| line.starts_with("+ ") && line.contains("/test_")).count();
    if jobs >= 24 { Ok(()) } else { Err(format!("only {jobs} jobs:\n{output}")) }
}

/// The shell ends with the first command that fails. Commands in pipelines are shown to their
/// readers only.
fn check_mpiexec(output: &str, _: &Path, _: u32) -> Result<(), String> {
    let shown = output.lines().any(|line| line.starts_with("+ ") && line.contains("mpiexec -n 2"));
    if shown { Ok(()) } else { Err(format!("it has not found mpiexec:\n{output}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_read() {
        let check = |text: &str| check_unittest(text, Path::new(""), 1);
        assert!(check("...\n----\nRan 54 tests in 2.2s\n\nOK\n").is_ok());
        assert!(check("...\nRan 54 tests in 2.2s\n\nOK (skipped=3)\n").is_ok());
        assert!(check("...\nRan 54 tests in 2.2s\n\nFAILED (errors=1)\n").is_err());
        assert!(check("Ran 0 tests in 0.0s\n\nOK\n").is_err());
        assert!(check("").is_err());
    }

    #[test]
    fn a_script_must_have_come_to_its_end() {
        let jobs = |n: usize| "+ mpiexec -n 2 python init-fini/test_0.py errors=abort\n".repeat(n);
        assert!(check_init_fini(&jobs(24), Path::new(""), 2).is_ok());
        assert!(check_init_fini(&jobs(14), Path::new(""), 2).is_err());
        assert!(
            check_mpiexec(
                "+ env mpiexec -n 2 python -c from mpi4py import MPI\n",
                Path::new(""),
                2
            )
            .is_ok()
        );
        assert!(check_mpiexec("+ command -v mpiexec\n", Path::new(""), 2).is_err());
    }
}
