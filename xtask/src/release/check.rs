//! The wheel in a fresh environment of Python, where its programs run without a compiler, and
//! mpi4py's suite on it with the module that mpi4py's own wheel has for MPICH.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::conformance;
use crate::install::target_directory;
use crate::root;
use crate::run::{Failure, Run};

/// Packages that are installed from their wheels.
const CLIENTS: [&str; 2] = ["mpi4py", "numpy"];

/// The program of the system that the scripts in `bin` call, and the one that ends what hangs.
const SYSTEM_PROGRAMS: [(&str, &str); 2] =
    [("readlink", "/bin/readlink"), ("timeout", "/usr/bin/timeout")];
const LIMIT_S: u32 = 120;

const VERSION_OF_LIBRARY: &str =
    "from mpi4py import MPI; print(MPI.Get_library_version(), MPI.Is_finalized())";

/// A process that no launcher has started starts one, for its child.
const SPAWN: &str = "\
import sys
from mpi4py import MPI
child = 'from mpi4py import MPI; MPI.Comm.Get_parent().send(MPI.COMM_WORLD.size, 0)'
print(MPI.COMM_SELF.Spawn(sys.executable, ['-c', child]).recv())
";

/// The names that are links in an installation find the functions of the libraries.
const OPEN: &str = "\
import ctypes, sys
names = ['libmpi_abi.so.0', 'libmpi_abi.so.1', 'libmpich.so.12', 'libmpi.so.12']
for name in names + ['oxmpi/ranks/libmpi.so']:
    text, length = ctypes.create_string_buffer(8192), ctypes.c_int()
    library = ctypes.CDLL(sys.prefix + '/lib/' + name)
    assert library.MPI_Get_library_version(text, ctypes.byref(length)) == 0, name
    print(text.value.decode().split()[0])
";

/// Packs the installation in `prefix`, and checks the wheel.
pub(crate) fn check(prefix: &Path) -> Result<(), Failure> {
    check_wheel(&super::pack(prefix, &directory())?)
}

fn directory() -> PathBuf {
    target_directory().join("wheel-check")
}

/// Installs a wheel, and runs its programs.
pub(super) fn check_wheel(wheel: &Path) -> Result<(), Failure> {
    let directory = directory();
    let environment = directory.join("venv");
    Run::new("python3").args(["-m", "venv", "--clear"]).arg(&environment).show()?;
    let pip = |words: &[&str]| {
        Run::new(environment.join("bin/python")).args(["-m", "pip", "--quiet"]).args(words)
    };
    pip(&["install", "--only-binary=:all:"]).args(CLIENTS).show()?;
    let before = files_below(&environment)?;
    pip(&["install"]).arg(wheel).show()?;
    let tools = Tools::of(&environment, &directory)?;
    without_compiler(&tools)?;
    with_compiler(&tools, &directory)?;
    conformance::suite_of_wheels(&environment)?;
    pip(&["uninstall", "--yes", "oxmpi"]).show()?;
    let after = files_below(&environment)?;
    let left: Vec<&String> = after.symmetric_difference(&before).collect();
    match left.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(format!("'pip uninstall' leaves or removes {left:?}"))),
    }
}

fn without_compiler(tools: &Tools<'_>) -> Result<(), Failure> {
    let words = ["-n", "4", "--timeout", "60", "python", "-m", "mpi4py.bench", "helloworld"];
    let said = tools.output("mpirun", &words)?;
    let greetings =
        (0..4).map(|rank| format!("Hello, World! I am process {rank} of 4 on ")).zip(said.lines());
    let are_right = greetings.into_iter().all(|(start, line)| line.starts_with(&start));
    expect(said.lines().count() == 4 && are_right, "not 4 greetings", &said)?;
    let said = tools.output("mpiexec", &["-n", "2", "python", "-c", VERSION_OF_LIBRARY])?;
    expect(said.matches("OxMPI").count() == 2, "mpi4py has found another library", &said)?;
    let said = tools.output("python", &["-c", VERSION_OF_LIBRARY])?;
    expect(said.starts_with("OxMPI"), "without mpirun mpi4py has found another library", &said)?;
    let said = tools.output("python", &["-c", SPAWN])?;
    expect(said == "1\n", "no spawned process has replied", &said)?;
    let said = tools.output("python", &["-c", OPEN])?;
    expect(said == "OxMPI\n".repeat(5), "a library does not open", &said)?;
    let said = tools.output("mpicc", &["-show"])?;
    let include = tools.environment.join("include").display().to_string();
    expect(said.contains(&include), "mpicc does not name the header files", &said)?;
    let said = tools.output("oxmpi", &["info"])?;
    let prefix = tools.environment.display().to_string();
    expect(said.contains(&prefix), "oxmpi info does not name the environment", &said)?;
    match tools.run("oxmpi").arg("uninstall").output() {
        Err(failure) if failure.to_string().contains("'pip uninstall oxmpi'") => Ok(()),
        Err(failure) => Err(failure),
        Ok(_) => Err(Failure::new("'oxmpi uninstall' has removed the files of pip")),
    }
}

/// The names for linkers lead to the libraries.
fn with_compiler(tools: &Tools<'_>, directory: &Path) -> Result<(), Failure> {
    let program = directory.join("heat");
    let mpicc = tools.environment.join("bin/mpicc");
    Run::new(mpicc).arg(root().join("examples/heat.c")).arg("-o").arg(&program).show()?;
    let program = program.display().to_string();
    tools.output("mpirun", &["-n", "2", "--timeout", "60", &program]).map(|_| ())
}

fn expect(is_right: bool, text: &str, said: &str) -> Result<(), Failure> {
    if is_right { Ok(()) } else { Err(Failure::new(format!("{text}:\n{said}"))) }
}

/// The programs of an environment, with a PATH that has no compiler.
struct Tools<'e> {
    environment: &'e Path,
    path: String,
}

impl<'e> Tools<'e> {
    fn of(environment: &'e Path, directory: &Path) -> Result<Tools<'e>, Failure> {
        let bin = directory.join("bin");
        for (name, file) in SYSTEM_PROGRAMS {
            let link = bin.join(name);
            super::make_parent(&link)?;
            if !link.exists() {
                symlink(file, &link).map_err(Failure::io(link.display()))?;
            }
        }
        let path = format!("{}:{}", environment.join("bin").display(), bin.display());
        Ok(Tools { environment, path })
    }

    fn run(&self, program: &str) -> Run {
        let program = self.environment.join("bin").join(program);
        Run::new("timeout").arg(LIMIT_S.to_string()).arg(program).env("PATH", &self.path)
    }

    fn output(&self, program: &str, words: &[&str]) -> Result<String, Failure> {
        let said = self.run(program).args(words).output()?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

/// All files below a directory except code that Python has compiled. pip leaves empty directories.
fn files_below(directory: &Path) -> Result<BTreeSet<String>, Failure> {
    let mut found = BTreeSet::new();
    let mut open: Vec<PathBuf> = vec![directory.to_owned()];
    while let Some(place) = open.pop() {
        let entries = fs::read_dir(&place).map_err(Failure::io(place.display()))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            } else if path.extension().is_none_or(|extension| extension != "pyc") {
                found.insert(path.display().to_string());
            }
        }
    }
    Ok(found)
}
