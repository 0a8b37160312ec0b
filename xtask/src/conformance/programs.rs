//! The other programs: mpi4py's benchmarks and demos, NetPIPE, HPCC, ferrompi and HDF5, each with a
//! check of its output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::client::Client;
use super::job::{self, Ending, Limits};
use super::results::{JobSetting, Part, Test, Verdict};
use super::{checkpoints, debian, demos, ferrompi, hdf5};
use crate::pypi;
use crate::root;
use crate::run::{Failure, Run};

/// The time limit of a program without its own.
pub(super) const LIMIT: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) struct ForeignProgram {
    pub(super) name: &'static str,
    pub(super) ranks: &'static [u32],
    pub(super) limit: Duration,
    pub(super) launch: ForeignLaunch,
    /// Builds the program in a directory, if needed. A failed build is a fault of OxMPI.
    pub(super) build: fn(&Path, &Path) -> Result<(), Failure>,
    /// Adds the program and its arguments to the command, and makes its input files.
    pub(super) start: Start,
    pub(super) check: fn(&str, &Path, u32) -> Result<(), String>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ForeignLaunch {
    /// `mpirun`, with the number of ranks and the route.
    Mpirun,
    /// `srun` with this protocol, on two nodes.
    Srun(&'static str),
    /// The launcher of MPICH.
    Hydra,
    /// A program that starts `mpirun` by itself. The environment has the route.
    ByItself(&'static str),
}

const HELLOWORLD: ForeignProgram = ForeignProgram {
    name: "bench_helloworld",
    ranks: &[4],
    limit: LIMIT,
    launch: ForeignLaunch::Mpirun,
    build: |_, _| Ok(()),
    start: |mpirun, client, _, _| {
        mpirun.arg(client.python()).args(["-m", "mpi4py.bench", "helloworld"]);
        Ok(())
    },
    check: check_helloworld,
};

pub(super) const PROGRAMS: [ForeignProgram; 16] = [
    HELLOWORLD,
    ForeignProgram {
        name: "bench_ringtest",
        start: |mpirun, client, _, _| {
            let options = "-m mpi4py.bench ringtest -l 200 -n 4096";
            mpirun.arg(client.python()).args(options.split(' '));
            Ok(())
        },
        check: check_ringtest,
        ..HELLOWORLD
    },
    // NetPIPE has two ranks: further ranks leave its loop after the first size, and the two wait
    // for them for ever.
    netpipe("netpipe", |mpirun, _, made, _| start_netpipe(mpirun, made, &[])),
    // Receives are posted in advance and from MPI_ANY_SOURCE.
    netpipe("netpipe_any", |mpirun, _, made, _| start_netpipe(mpirun, made, &["-a", "-z"])),
    netpipe("netpipe_sync", |mpirun, _, made, _| start_netpipe(mpirun, made, &["-S"])),
    ForeignProgram {
        name: "hpcc",
        ranks: &[2, 4],
        build: build_hpcc,
        start: start_hpcc,
        check: check_hpcc,
        ..HELLOWORLD
    },
    demos::FUTURES,
    demos::FUTURES_MODULE,
    demos::TEST_RUN,
    demos::INIT_FINI,
    demos::CHECK_MPIEXEC,
    demos::RUNNER,
    checkpoints::NUMPY,
    checkpoints::POOL,
    ferrompi::EXAMPLES,
    hdf5::TESTPHDF5,
];

pub(super) type Start = fn(&mut Command, &Client, &Path, JobSetting) -> Result<(), Failure>;

const fn netpipe(name: &'static str, start: Start) -> ForeignProgram {
    let (build, check) = (build_netpipe, check_netpipe);
    ForeignProgram { name, ranks: &[2], build, start, check, ..HELLOWORLD }
}

impl ForeignProgram {
    /// Runs the program once. `made` is the directory where it was built.
    pub(super) fn run(
        &self,
        client: &Client,
        made: &Path,
        directory: &Path,
        setting: JobSetting,
    ) -> Result<Part, Failure> {
        let begin = Instant::now();
        let name = format!("{}.{}.{}", self.name, setting.ranks, setting.rpi.name());
        let own = directory.join("records").join(&name);
        let _ = fs::remove_dir_all(&own);
        super::make_directory(&own)?;
        let log = directory.join(format!("{name}.log"));
        let mut command = match self.launch {
            ForeignLaunch::Mpirun => {
                let mut command = client.mpirun();
                command.args(["-n", &setting.ranks.to_string()]).args(setting.rpi.arguments());
                command
            }
            ForeignLaunch::Srun(protocol) => {
                let mut command = client.command(&root().join("tests/slurm/two-nodes.sh"));
                command.args(["srun", "-N2", "-n", &setting.ranks.to_string()]);
                command.arg(format!("--mpi={protocol}"));
                command
            }
            ForeignLaunch::Hydra => {
                let mut command = client.command(&pypi::HYDRA.find_or_install()?);
                command.args(["-n", &setting.ranks.to_string()]);
                command
            }
            ForeignLaunch::ByItself(program) => {
                let mut command = client.command(Path::new(program));
                command.env("OXMPI_MCA_rpi", setting.rpi.name()).env("PYTHON", client.python());
                command.env("NP", setting.ranks.to_string());
                command
            }
        };
        command.current_dir(&own);
        (self.start)(&mut command, client, made, setting)?;
        let ending =
            job::run(command, &own, &log, Limits { patience: self.limit, total: self.limit })?;
        let output = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
        let (verdict, text) = match ending {
            Ending::Exit(0) => match (self.check)(&output, &own, setting.ranks) {
                Ok(()) => (Verdict::Passed, String::new()),
                Err(text) => (Verdict::Failed, text),
            },
            Ending::Exit(code) => {
                (Verdict::Crashed, format!("exit code {code}\n{}", job::tail(&log, 12)))
            }
            _ => (
                Verdict::Hung,
                format!("no end after {} s\n{}", self.limit.as_secs(), job::tail(&log, 12)),
            ),
        };
        let mut part = Part::new(self.name, setting);
        part.tests.push(Test::new(self.name, verdict, text));
        part.seconds = begin.elapsed().as_secs_f64();
        Ok(part)
    }

    /// Builds the program in `directory`, unless that was done with this `mpi.h`.
    pub(super) fn make(&self, prefix: &Path, directory: &Path) -> Result<(), Failure> {
        let header = prefix.join("include/mpi.h");
        let header = fs::read_to_string(&header)
            .map_err(Failure::io(format!("cannot read {}", header.display())))?;
        let mark = directory.join(format!("{}.built-for", self.name));
        if fs::read_to_string(&mark).is_ok_and(|found| found == header) {
            return Ok(());
        }
        (self.build)(prefix, directory)?;
        super::write(&mark, &header)
    }

    pub(super) fn not_made(&self, failure: &Failure, setting: JobSetting) -> Part {
        let mut part = Part::new(self.name, setting);
        part.tests.push(Test::new(
            self.name,
            Verdict::Error,
            format!("cannot be built: {failure}"),
        ));
        part
    }
}

fn check_helloworld(output: &str, _: &Path, ranks: u32) -> Result<(), String> {
    let expected =
        (0..ranks).map(|rank| format!("Hello, World! I am process {rank} of {ranks} on "));
    let lines: Vec<&str> = output.lines().collect();
    let right = lines.len() == ranks as usize
        && lines.iter().zip(expected).all(|(line, start)| line.starts_with(&start));
    if right { Ok(()) } else { Err(format!("not {ranks} greetings in order:\n{output}")) }
}

fn check_ringtest(output: &str, _: &Path, ranks: u32) -> Result<(), String> {
    let right = output.starts_with("time for 200 loops = ")
        && output.trim_end().ends_with(&format!("({ranks} processes, 4096 bytes)"));
    if right { Ok(()) } else { Err(format!("not one line about {ranks} processes:\n{output}")) }
}

/// Sizes from 4 bytes to 4 MiB, each with its neighbours. The line of each says that the data were
/// right.
fn check_netpipe(output: &str, _: &Path, _: u32) -> Result<(), String> {
    let sizes: Vec<&str> =
        output.lines().filter(|line| line.contains(" bytes ") && line.contains("-->")).collect();
    if let Some(bad) = sizes.iter().find(|line| !line.ends_with("Integrity check passed")) {
        return Err(format!("not verified: {bad}\n{output}"));
    }
    let largest = sizes.last().and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    match largest {
        Some(bytes) if bytes >= 4_000_000 && sizes.len() >= 30 => Ok(()),
        _ => Err(format!(
            "only {} sizes, the last one {}",
            sizes.len(),
            sizes.last().unwrap_or(&"none")
        )),
    }
}

fn build_netpipe(prefix: &Path, directory: &Path) -> Result<(), Failure> {
    let source = debian::source("netpipe", directory)?.join("src");
    Run::new(prefix.join("bin/mpicc"))
        .args(["-O1", "-w", "-DMPI", "-I"])
        .arg(&source)
        .args(["netpipe.c", "mpi.c"].map(|file| source.join(file)))
        .arg("-o")
        .arg(directory.join("NPmpi"))
        .show()
}

/// With -i NetPIPE checks each byte and takes no times; sizes and repetitions are bounded.
fn start_netpipe(mpirun: &mut Command, made: &Path, mode: &[&str]) -> Result<(), Failure> {
    mpirun
        .arg(made.join("NPmpi"))
        .args(["-i", "-n", "5", "-u", "4200000", "-o", "netpipe.out"])
        .args(mode);
    Ok(())
}

/// How HPCC is compiled. It calls two functions that MPI-3 removed: MPI_Address and
/// MPI_Type_struct.
const HPCC_MAKE: &str = "\
SHELL = /bin/sh
CD = cd
MKDIR = mkdir -p
RM = rm -f
ARCH = oxmpi
TOPdir = ../../..
INCdir = $(TOPdir)/include
LIBdir = $(TOPdir)/lib/$(ARCH)
HPLlib = $(LIBdir)/libhpl.a
HPL_INCLUDES = -I$(INCdir) -I$(INCdir)/$(ARCH) -I@BLAS_INCLUDE@
HPL_LIBS = $(HPLlib) @BLAS@ -lm
HPL_DEFS = -DHPL_CALL_CBLAS $(HPL_INCLUDES)
CC = @MPICC@ -mpi-compat
CCNOOPT = $(HPL_DEFS) -w
CCFLAGS = $(HPL_DEFS) -O1 -w
LINKER = @MPICC@
LINKFLAGS = -O1
ARCHIVER = ar
ARFLAGS = r
RANLIB = echo
";

fn build_hpcc(prefix: &Path, directory: &Path) -> Result<(), Failure> {
    let source = debian::source("hpcc", directory)?;
    let blas = debian::package("libopenblas-serial-dev", directory)?;
    let [library, include] = ["lib", "include"].map(|kind| blas.join("usr").join(kind));
    let [library, include] =
        [debian::find(&library, "libopenblas.a")?, debian::find(&include, "cblas.h")?];
    let include = include.parent().map(Path::to_owned).unwrap_or_default();
    let make = HPCC_MAKE
        .replace("@BLAS_INCLUDE@", &include.to_string_lossy())
        .replace("@BLAS@", &library.to_string_lossy())
        .replace("@MPICC@", &prefix.join("bin/mpicc").to_string_lossy());
    super::write(&source.join("hpl/Make.oxmpi"), &make)?;
    Run::new("make").arg("-C").arg(&source).args(["--quiet", "arch=oxmpi"]).show()?;
    // HPCC's makefile continues after errors.
    let program = source.join("hpcc");
    fs::rename(&program, directory.join("hpcc"))
        .map_err(Failure::io(format!("{} was not linked", program.display())))
}

/// The example's input with a smaller matrix, and a grid for all ranks.
fn start_hpcc(
    mpirun: &mut Command,
    _: &Client,
    made: &Path,
    setting: JobSetting,
) -> Result<(), Failure> {
    let example = debian::unpacked("hpcc", made)?.join("_hpccinf.txt");
    let text = fs::read_to_string(&example)
        .map_err(Failure::io(format!("cannot read {}", example.display())))?;
    let rows = setting.ranks / 2;
    let text: String = text
        .lines()
        .map(|line| match line.split_whitespace().last() {
            Some("Ns") => "600 Ns\n".to_owned(),
            Some("Ps") => format!("{rows} Ps\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    let directory: PathBuf = mpirun.get_current_dir().map(Path::to_owned).unwrap_or_default();
    super::write(&directory.join("hpccinf.txt"), &text)?;
    mpirun.arg(made.join("hpcc"));
    Ok(())
}

/// The summary reports success, no residual is too large, and no update of the tables was lost.
fn check_hpcc(_: &str, directory: &Path, ranks: u32) -> Result<(), String> {
    let text = fs::read_to_string(directory.join("hpccoutf.txt"))
        .map_err(|error| format!("no output: {error}"))?;
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.ok_or_else(|| format!("no {name} in the summary:\n{text}"))
    };
    if value("Success")? != "1" || value("CommWorldProcs")? != ranks.to_string() {
        return Err(format!("no success with {ranks} ranks:\n{text}"));
    }
    // Five transpositions (those by another clock may be too short to be printed), and the solved
    // equations.
    let passed = |start: &str| {
        text.lines().filter(|line| line.starts_with(start) && line.contains(" PASSED")).count()
    };
    let (transposed, solved) = (passed("WALL"), passed("||Ax-b||"));
    if transposed < 5 || solved < 1 || text.contains("FAILED") {
        return Err(format!(
            "{transposed} of 5 transpositions and {solved} of 1 solution passed:\n{text}"
        ));
    }
    for name in ["MPIRandomAccess_LCG_Errors", "MPIRandomAccess_Errors"] {
        if value(name)? != "0" {
            return Err(format!("{name} is not 0:\n{text}"));
        }
    }
    let error: f64 =
        value("MPIFFT_maxErr")?.parse().map_err(|error| format!("MPIFFT_maxErr: {error}"))?;
    if (0.0..1e-9).contains(&error) { Ok(()) } else { Err(format!("MPIFFT_maxErr={error}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_must_be_complete_and_in_order() {
        let good =
            "Hello, World! I am process 0 of 2 on a.\nHello, World! I am process 1 of 2 on a.\n";
        assert!(check_helloworld(good, Path::new(""), 2).is_ok());
        assert!(check_helloworld(good, Path::new(""), 3).is_err());
        let swapped: Vec<_> = good.lines().rev().collect();
        assert!(check_helloworld(&swapped.join("\n"), Path::new(""), 2).is_err());
    }

    #[test]
    fn netpipe_must_have_verified_all_sizes() {
        let line =
            |size: u64, verdict: &str| format!(" 9: {size:7} bytes  5 times -->  {verdict}\n");
        let good: String =
            (0..40).map(|i| line(i * 107_000 + 5, "Integrity check passed")).collect();
        assert!(check_netpipe(&good, Path::new(""), 2).is_ok());
        let bad =
            good.clone() + &line(4_194_304, "Integrity check failed: Expecting 1 but received 2");
        assert!(check_netpipe(&bad, Path::new(""), 2).is_err());
        let short: String = good.lines().take(35).map(|line| format!("{line}\n")).collect();
        assert!(check_netpipe(&short, Path::new(""), 2).is_err());
    }

    #[test]
    fn hpcc_must_have_passed_everything() {
        let directory = std::env::temp_dir().join(format!("xtask-hpcc-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let good = "WALL 200 PASSED\n".repeat(5)
            + "||Ax-b||_oo/(eps)= 0.006 ...... PASSED\nSuccess=1\nCommWorldProcs=2\nMPIRandomAccess_LCG_Errors=0\nMPIRandomAccess_Errors=0\nMPIFFT_maxErr=1.5e-15\n";
        let check = |text: &str| {
            fs::write(directory.join("hpccoutf.txt"), text).unwrap();
            check_hpcc("", &directory, 2)
        };
        assert_eq!(check(&good), Ok(()));
        for (from, to) in [
            ("Success=1", "Success=0"),
            ("Procs=2", "Procs=1"),
            ("LCG_Errors=0", "LCG_Errors=7"),
            ("1.5e-15", "0.5"),
            ("1.5e-15", "nan"),
            ("1.5e-15", "-1"),
            ("WALL 200 PASSED\nWALL", "WALL"),
            ("...... PASSED", "...... FAILED"),
            ("||Ax-b||_oo/(eps)= 0.006 ...... PASSED", ""),
        ] {
            assert!(check(&good.replace(from, to)).is_err(), "{from} -> {to}");
        }
        fs::remove_dir_all(directory).unwrap();
    }
}
