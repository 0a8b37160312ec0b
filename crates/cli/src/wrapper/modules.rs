//! The Fortran modules of this installation, compiled for one compiler.
//!
//! A compiled module can be read only by the compiler that made it, so `mpifort` compiles the
//! source when a compiler is first used. The directory of the result has a name made of all that
//! the result depends on: the source, the compiler's place and version, and the options that change
//! default kinds. The directory is below the prefix or, if the installer has made no place there or
//! the place cannot be written, below the user's cache. It gets its name when it is complete, in
//! one step that works on network file systems, so parallel builds can make the same directory: the
//! first one stays. A lock, where the file system has locks, lets the others wait.
//!
//! The compiler is refused if its default kinds are not those of the library's datatypes.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use oxmpi_abi::fortran::KIND_CHECKS;

/// The directory below the prefix.
pub(crate) const IN_PREFIX: &str = "lib/oxmpi/modules";

/// The source below the prefix.
const SOURCE: &str = "share/oxmpi/mpi.f90";

/// The file of a compiled directory that describes it.
const DESCRIPTION: &str = "compiler.txt";

/// Options that change default kinds or the target, by their beginnings: those of GCC, of Intel,
/// flang and NVIDIA, of NAG, and of IBM. GCC takes `--default-real-8` for `-fdefault-real-8`.
#[rustfmt::skip] // a table
const KIND_OPTIONS: [&str; 30] = [
    "-fdefault-", "-fno-default-", "--default-", "--no-default-", "-finteger-4-", "--integer-4-",
    "-freal-4-", "--real-4-", "-freal-8-", "--real-8-", "-m32", "-m64", "-mx32", "-mabi=",
    "-i2", "-i4", "-i8", "-r4", "-r8", "-r16", "-integer-size", "-real-size", "-double-size",
    "-fpscomp", "-standard-semantics", "-Mr8", "-Mi8", "-q", "-kind=", "-double",
];

/// Options that change the names of procedures and COMMON blocks.
const NAME_OPTIONS: [&str; 3] = ["-fno-underscoring", "--no-underscoring", "-names"];

/// Options of Intel's compiler whose value is the next argument.
const OPTIONS_WITH_VALUE: [&str; 5] =
    ["-assume", "-double-size", "-fpscomp", "-integer-size", "-real-size"];

/// The file of a compiled directory with options for the compiler, one in each line.
const OPTIONS: &str = "options.txt";

/// The library of the directory that has the constants of the modules which are objects in memory:
/// handles of module `mpi_f08`.
pub(super) const MODULE_LIBRARY: &str = "mpifort_oxmpi_modules";

/// Options that the wrapper adds if the compiler knows them. With mpif.h a procedure has arguments
/// of several types, which GNU Fortran 10 and later refuses within one file without this option.
const WANTED_OPTIONS: [&str; 1] = ["-fallow-argument-mismatch"];

/// The compiled modules for a compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CompiledModules {
    pub(super) directory: PathBuf,
    /// Options that programs need.
    pub(super) options: Vec<OsString>,
}

impl CompiledModules {
    fn read(directory: PathBuf) -> CompiledModules {
        let options = fs::read_to_string(directory.join(OPTIONS)).unwrap_or_default();
        CompiledModules { directory, options: options.lines().map(OsString::from).collect() }
    }
}

/// The modules for a compiler, which are made if they do not exist.
/// # Errors
/// A sentence or more for the user.
pub(super) fn made(
    name: &str,
    compiler: &[OsString],
    from: &str,
    args: &[OsString],
    prefix: &Path,
) -> Result<CompiledModules, String> {
    let [program, first @ ..] = compiler else {
        return Err("the name of the compiler is empty".into());
    };
    let args = with_files(&[first, args].concat());
    let options = options(&args);
    if let Some(option) = options.iter().find(|option| changes_names(option)) {
        return Err(format!(
            "{}: the library's special arguments (MPI_IN_PLACE, MPI_STATUS_IGNORE) have names with \
             an underscore behind them; leave the option out",
            shown(option)
        ));
    }
    let kinds = options.into_iter().filter(|option| begins(option, &KIND_OPTIONS));
    let kinds: Vec<OsString> = kinds.flatten().cloned().collect();
    let mut command = Command::new(program);
    command.args(first).arg("--version").stdin(Stdio::null());
    let version = command.output().map_err(|error| missing(program, from, &error))?;
    let version = [version.stdout, version.stderr].concat();
    let source_path = prefix.join(SOURCE);
    let source = fs::read_to_string(&source_path).map_err(|error| {
        format!("{}: {error}; the installation is incomplete", source_path.display())
    })?;

    let place = in_path(program).and_then(|path| path.canonicalize().ok());
    let mut hasher = DefaultHasher::new();
    (compiler, &place, &kinds, &version, &source, WANTED_OPTIONS).hash(&mut hasher);
    let base = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let key = format!("{base}-{:016x}", hasher.finish());
    // A wheel has no such directory: 'pip uninstall' would leave the modules behind.
    let installed = Some(prefix.join(IN_PREFIX)).filter(|directory| directory.is_dir());
    let stores: Vec<PathBuf> = installed.into_iter().chain(cache()).collect();
    let is_complete = |directory: &Path| directory.join(DESCRIPTION).exists();
    if let Some(found) = stores.iter().map(|store| store.join(&key)).find(|path| is_complete(path))
    {
        return Ok(CompiledModules::read(found));
    }

    let mut failure = String::from("there is no home directory");
    for store in &stores {
        let directory = store.join(&key);
        let lock = lock(store, &key);
        if is_complete(&directory) {
            return Ok(CompiledModules::read(directory));
        }
        if lock.is_some() {
            remove_abandoned(store, &key);
        }
        let part = match scratch(store, &key) {
            Ok(part) => part,
            Err(error) => {
                failure = format!("{}: {error}", store.display());
                continue;
            }
        };
        let description = format!(
            "{}\n{}\n{}",
            shown(compiler),
            shown(&kinds),
            String::from_utf8_lossy(&version)
        );
        if io::stderr().is_terminal() {
            let title = String::from_utf8_lossy(&version);
            let title = title.lines().next().unwrap_or_default();
            oxmpi_sys::complain!("{name}: compiling the MPI modules for {title} (once)");
        }
        // The compiler runs in another directory.
        let program = match Path::new(program).components().count() {
            0 | 1 => program.clone(),
            _ => std::path::absolute(program)
                .map_or_else(|_| program.clone(), PathBuf::into_os_string),
        };
        let program = program.as_os_str();
        let build = ModuleBuild { name, program, first, kinds: &kinds, directory: &part.0, prefix };
        build.all(&source)?;
        let written = fs::write(part.0.join(DESCRIPTION), description);
        written.map_err(|error| format!("{}: {error}", part.0.display()))?;
        permit_as(store, &part.0).map_err(|error| format!("{}: {error}", part.0.display()))?;
        return match fs::rename(&part.0, &directory) {
            Ok(()) => Ok(CompiledModules::read(directory)),
            // Another process was faster.
            Err(_) if is_complete(&directory) => Ok(CompiledModules::read(directory)),
            Err(error) => Err(format!("{}: {error}", directory.display())),
        };
    }
    Err(format!(
        "there is no place for the compiled modules ({failure}); XDG_CACHE_HOME=DIR names one"
    ))
}

/// The arguments, each option with its value.
fn options(args: &[OsString]) -> Vec<&[OsString]> {
    let (mut all, mut rest) = (Vec::new(), args);
    while let Some(first) = rest.first() {
        let has_value = rest.len() > 1 && OPTIONS_WITH_VALUE.iter().any(|option| first == option);
        let (option, others) = rest.split_at(if has_value { 2 } else { 1 });
        all.push(option);
        rest = others;
    }
    all
}

fn begins(option: &[OsString], beginnings: &[&str]) -> bool {
    let text = shown(option);
    beginnings.iter().any(|beginning| text.starts_with(beginning))
}

/// The value of `-assume` is a list.
fn changes_names(option: &[OsString]) -> bool {
    begins(option, &NAME_OPTIONS)
        || begins(option, &["-assume"]) && shown(option).contains("nounderscore")
}

/// The arguments, with the words of the files that they name (`@FILE`) behind them.
fn with_files(args: &[OsString]) -> Vec<OsString> {
    let mut all = args.to_vec();
    for arg in args {
        let Some(file) = arg.to_str().and_then(|text| text.strip_prefix('@')) else { continue };
        // The compiler reports a file that cannot be read.
        let text = fs::read_to_string(file).unwrap_or_default();
        let quotes = ['"', '\''];
        all.extend(text.split_whitespace().map(|word| word.trim_matches(quotes).into()));
    }
    all
}

fn missing(program: &OsStr, from: &str, error: &io::Error) -> String {
    format!(
        "cannot run the Fortran compiler '{}' ({from}): {error}; install one, such as gfortran",
        program.display()
    )
}

/// The file of a program, as the shell finds it.
pub(super) fn in_path(program: impl AsRef<OsStr>) -> Option<PathBuf> {
    let program = Path::new(program.as_ref());
    if program.components().count() > 1 {
        return Some(program.into());
    }
    let is_program = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(is_program)
}

fn shown(words: &[OsString]) -> String {
    words.join(OsStr::new(" ")).to_string_lossy().into_owned()
}

/// The directory for modules in the user's cache.
fn cache() -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(absolute);
    let home = || std::env::home_dir().filter(absolute).map(|home| home.join(".cache"));
    named.or_else(home).map(|directory| directory.join("oxmpi/modules"))
}

/// A directory that is removed unless it gets another name.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A new directory of this process. Processes of different hosts may have the same number.
fn scratch(store: &Path, key: &str) -> io::Result<Scratch> {
    for attempt in 0..100 {
        let path = store.join(format!(".{key}.{}.{attempt}", std::process::id()));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return result.map(|()| Scratch(path)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Removes the directories of processes that were killed. Another host may not see the lock, so
/// directories that may still be in use stay.
fn remove_abandoned(store: &Path, key: &str) {
    const IN_USE: Duration = Duration::from_hours(1);
    let is_abandoned = |entry: &fs::DirEntry| {
        let age = entry.metadata().and_then(|data| data.modified()).map(|time| time.elapsed());
        entry.file_name().to_string_lossy().starts_with(&format!(".{key}."))
            && age.is_ok_and(|age| age.is_ok_and(|age| age > IN_USE))
    };
    let Ok(entries) = fs::read_dir(store) else { return };
    for entry in entries.flatten().filter(is_abandoned) {
        // The file of the lock is no directory and stays.
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// Lets all who may read the directory of all modules read this one, whatever the umask is.
fn permit_as(store: &Path, directory: &Path) -> io::Result<()> {
    let readers = fs::metadata(store)?.permissions().mode() & 0o055;
    let permit = |path: &Path, own, others| {
        let mode = fs::metadata(path)?.permissions().mode() & 0o7700 | own | others;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
    };
    for entry in fs::read_dir(directory)? {
        permit(&entry?.path(), 0o600, readers & 0o044)?;
    }
    permit(directory, 0o700, readers)
}

/// Waits until no other process makes the same directory. Without a lock both make it.
fn lock(store: &Path, key: &str) -> Option<File> {
    fs::create_dir_all(store).ok()?;
    let file = File::create(store.join(format!(".{key}.lock"))).ok()?;
    file.lock().ok()?;
    Some(file)
}

/// The compilation of the modules in a directory.
struct ModuleBuild<'a> {
    /// The name of the wrapper.
    name: &'a str,
    program: &'a OsStr,
    first: &'a [OsString],
    kinds: &'a [OsString],
    directory: &'a Path,
    prefix: &'a Path,
}

/// A program that ends well if the library can read the compiler's array descriptors.
const DESCRIPTOR_PROBE: &str = "\
program probe
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    function reads(section, assumed, scalar, whole) bind(c, name=\"oxmpi_reads_descriptor\")
      import
      type(*), dimension(..) :: section, assumed, scalar
      integer(c_int) :: whole(*), reads
    end function reads
  end interface
  integer(c_int) :: whole(7,5)
  call ask(whole)
contains
  subroutine ask(assumed)
    integer(c_int) :: assumed(2,*)
    if (reads(whole(2:6:2,5:1:-3), assumed, whole(1,1), whole) /= 1) error stop 3
  end subroutine ask
end program probe
";

/// The exit code of the program if the library cannot.
const OTHER_DESCRIPTORS: i32 = 3;

/// Programs that make libraries of objects.
const ARCHIVERS: [&str; 2] = ["ar", "llvm-ar"];

impl ModuleBuild<'_> {
    fn all(&self, source: &str) -> Result<(), String> {
        self.check_kinds()?;
        let source = self.for_compiler(source)?;
        // The objects are for shared libraries too.
        let mut output = self.compile_with(&["-fPIC"], "mpi.f90", &source)?;
        if !output.status.success() {
            output = self.compile("mpi.f90", &source)?;
        }
        if !output.status.success() {
            return Err(self.failed("the MPI modules", &output));
        }
        self.make_library()?;
        let mut options = String::new();
        for option in WANTED_OPTIONS {
            let mut command = self.command();
            command.args([option, "-Werror", "-c", "probe.f90"]);
            if self.output(command)?.status.success() {
                options += &format!("{option}\n");
            }
        }
        let path = self.directory.join(OPTIONS);
        fs::write(&path, options).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn compile(&self, file: &str, source: &str) -> Result<Output, String> {
        self.compile_with(&[], file, source)
    }

    fn compile_with(&self, options: &[&str], file: &str, source: &str) -> Result<Output, String> {
        let path = self.directory.join(file);
        fs::write(&path, source).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut command = self.command();
        command.args(options).args(["-c", file]);
        self.output(command)
    }

    fn make_library(&self) -> Result<(), String> {
        let mut failure = String::new();
        for archiver in ARCHIVERS {
            let mut command = Command::new(archiver);
            command.arg("rcs").arg(format!("lib{MODULE_LIBRARY}.a")).arg("mpi.o");
            command.current_dir(self.directory).stdin(Stdio::null());
            failure = match command.output() {
                Ok(output) if output.status.success() => return Ok(()),
                Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
                Err(error) => error.to_string(),
            };
        }
        Err(format!(
            "'{}' cannot make a library of the modules: {failure}",
            ARCHIVERS.join("' or '")
        ))
    }

    /// Whether the library can read the array descriptors of this compiler. A program passes some.
    /// If it cannot be made and run, a line says so: the library then copies array sections.
    fn has_descriptors(&self) -> Result<bool, String> {
        let lib = self.prefix.join("lib");
        let name = "descriptors.f90";
        let path = self.directory.join(name);
        fs::write(&path, DESCRIPTOR_PROBE)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let mut command = self.command();
        command.args([name, "-o", "descriptors", "-lmpifort_oxmpi"]);
        command.arg(format!("-L{}", lib.display()));
        let made = self.output(command)?;
        if !made.status.success() {
            self.warn("makes no program with array descriptors", &made.stderr);
            return Ok(false);
        }
        let mut probe = Command::new(self.directory.join("descriptors"));
        let output = probe.env("LD_LIBRARY_PATH", &lib).stdin(Stdio::null()).output();
        let error = match output {
            Ok(output) if output.status.success() => return Ok(true),
            // The program has found other descriptors.
            Ok(output) if output.status.code() == Some(OTHER_DESCRIPTORS) => return Ok(false),
            Ok(output) => output.stderr,
            Err(error) => error.to_string().into_bytes(),
        };
        self.warn("makes programs that do not run here", &error);
        Ok(false)
    }

    fn warn(&self, what: &str, error: &[u8]) {
        let error = String::from_utf8_lossy(error);
        let reason = error.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        oxmpi_sys::complain!(
            "{}: warning: '{}' {what} ({}), so module mpi_f08 copies array sections",
            self.name,
            self.program.display(),
            reason.trim()
        );
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.args(self.first).args(self.kinds).current_dir(self.directory);
        command
    }

    fn output(&self, mut command: Command) -> Result<Output, String> {
        let output = command.stdin(Stdio::null()).output();
        output.map_err(|error| missing(self.program, "named before", &error))
    }

    fn compiles(&self, declarations: &str) -> Result<Output, String> {
        self.compile("probe.f90", &format!("program probe\n  {declarations}\nend program probe\n"))
    }

    fn failed(&self, what: &str, output: &Output) -> String {
        format!(
            "'{}' cannot compile {what}:\n{}{}",
            self.program.display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    }

    fn check_kinds(&self) -> Result<(), String> {
        let parameter =
            |at: usize| format!("integer, parameter :: c{at} = {}", KIND_CHECKS[at].expression);
        let all: Vec<String> = (0..KIND_CHECKS.len()).map(parameter).collect();
        if self.compiles(&all.join("\n  "))?.status.success() {
            return Ok(());
        }
        let plain = self.compiles("integer :: i = 1\n  print *, i")?;
        if !plain.status.success() {
            return Err(self.failed("a program of two lines", &plain));
        }
        let mut wrong = Vec::new();
        for (at, check) in KIND_CHECKS.iter().enumerate() {
            if !self.compiles(&parameter(at))?.status.success() {
                wrong.push(check.needs);
            }
        }
        let options = shown(self.kinds);
        Err(format!(
            "the Fortran datatypes of the library need {}, and '{}{}{options}' differs: data would \
             be wrong, so nothing is compiled",
            wrong.join(" and "),
            self.program.display(),
            if options.is_empty() { "" } else { " " },
        ))
    }

    /// The source without the lines for other compilers.
    fn for_compiler(&self, source: &str) -> Result<String, String> {
        let mut known: Vec<(String, bool)> = Vec::new();
        let (mut text, mut is_kept) = (String::with_capacity(source.len()), true);
        for line in source.lines() {
            if let Some(wanted) = line.strip_prefix("!OXMPI IF ") {
                let found = known.iter().find(|(name, _)| name == wanted).map(|(_, has)| *has);
                is_kept = match found {
                    Some(has) => has,
                    None => {
                        let has = match wanted {
                            "DESCRIPTORS" => self.has_descriptors()?,
                            _ => self
                                .compiles(&format!("{wanted} :: x\n  print *, x"))?
                                .status
                                .success(),
                        };
                        known.push((wanted.into(), has));
                        has
                    }
                };
            } else if line == "!OXMPI ELSE" {
                is_kept = !is_kept;
            } else if line == "!OXMPI END" {
                is_kept = true;
            } else if is_kept {
                text += line;
                text.push('\n');
            }
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_for_kinds_are_found_with_their_values() {
        let args = ["-O2", "-real-size", "64", "-assume", "byterecl", "-fno-default-real-8"];
        let args = args.map(OsString::from);
        let all = options(&args);
        let is_kind = |option: &&[OsString]| begins(option, &KIND_OPTIONS);
        let kinds: Vec<_> = all.iter().copied().filter(is_kind).collect();
        assert_eq!(kinds, [&args[1..3], &args[5..]]);
        assert!(!all.iter().any(|option| changes_names(option)));
        let names = ["-assume", "byterecl,nounderscore"].map(OsString::from);
        assert!(changes_names(options(&names)[0]));
    }

    #[test]
    fn abandoned_directories_are_removed_and_results_can_be_read() {
        let store = std::env::temp_dir().join(format!("oxmpi modules {}", std::process::id()));
        let old = store.join(".gfortran-1.77.0");
        let new = store.join(".gfortran-1.78.0");
        let other = store.join(".flang-2.77.0");
        for directory in [&old, &new, &other] {
            fs::create_dir_all(directory).unwrap();
            fs::write(directory.join("mpi.mod"), "").unwrap();
        }
        let two_hours_ago = std::time::SystemTime::now() - Duration::from_hours(2);
        for directory in [&old, &other] {
            File::open(directory).unwrap().set_modified(two_hours_ago).unwrap();
        }
        remove_abandoned(&store, "gfortran-1");
        assert!(!old.exists() && new.exists() && other.exists());

        let set = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        set(&new, 0o700);
        set(&new.join("mpi.mod"), 0o600);
        for (of_store, directory, file) in [(0o755, 0o755, 0o644), (0o750, 0o750, 0o640)] {
            set(&store, of_store);
            permit_as(&store, &new).unwrap();
            assert_eq!((mode(&new), mode(&new.join("mpi.mod"))), (directory, file));
        }
        fs::remove_dir_all(&store).unwrap();
    }
}
