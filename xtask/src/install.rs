//! `cargo xtask install`: builds and lays out an installation.
//!
//! ```text
//! bin/oxmpi                   the program; mpirun, mpiexec, mpicc, mpicxx, mpic++, mpiCC, mpifort,
//!                             mpif90, mpif77, ompi_info, laminfo, lamboot, lamhalt, lamnodes,
//!                             lamexec, lamcheckpoint, lamrestart, cr_checkpoint, cr_restart are
//!                             links to it
//! lib/libmpi_abi.so.1         the library, with links libmpi_abi.so, libmpi_abi.so.0, libmpi.so
//! lib/pkgconfig/oxmpi.pc      for pkg-config, with links mpi.pc, mpich.pc, ompi-c.pc and others
//! lib/pkgconfig/oxmpi-fort.pc  for mpif.h, and oxmpi-fort-COMPILER.pc with modules
//! lib/libmpifort_oxmpi.so.1   the entry points of Fortran, with the link libmpifort_oxmpi.so
//! lib/libmpi.so.12            for programs built for MPICH, with the link libmpich.so.12
//! lib/libmpi.so.40            for programs built for Open MPI
//! lib/libmpifort.so.12        for Fortran programs built for MPICH, with the link
//!                             libmpichfort.so.12
//! lib/libmpi_mpifh.so.40      for Fortran programs built for Open MPI, with links for its modules
//! lib/oxmpi/modules           Fortran modules that mpifort has compiled, a directory each
//! lib/oxmpi/ranks/libmpi.so   a link to libmpi.so.40 for ranks that open a library of this name
//! include/mpi.h               generated from the tables of crates/abi
//! include/mpi-ext.h           functions beyond MPI-5.0, from the same tables
//! include/mpif.h              for Fortran, from the same tables
//! share/oxmpi/mpi.f90         the source of module mpi, which mpifort compiles
//! include/mpi_compat.h        names that MPI removed; include/compat/mpi.h includes both headers,
//!                             for mpicc -mpi-compat
//! share/man/man1, man7        manual pages: mpirun, mpicc, oxmpi, oxmpi-VERB, oxmpi-params, links
//! share/man/man3              a manual page for each function, with links for its forms
//! share/bash-completion, zsh, fish/vendor_completions.d    completions of mpirun and oxmpi
//! share/doc/oxmpi             the pages of docs/, which manual pages name
//! share/doc/oxmpi/functions   the pages of the functions as HTML, a file for each chapter
//! share/oxmpi/valgrind.supp   suppressions for the library's memory
//! share/oxmpi/installed       the list of these files, for 'oxmpi uninstall'
//! etc/oxmpi-mca-params.conf   parameters for all users; never overwritten
//! ```
//!
//! strip(1), if it exists, removes debug information from programs and library. All links and paths
//! are relative to their files, so the directory may be moved.

mod manifest;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use clap::Args;

use self::manifest::Manifest;
use crate::root;
use crate::run::{Failure, Run};

#[rustfmt::skip] // a table
const PROGRAM_LINKS: [&str; 19] = [
    "mpirun", "mpiexec", "mpicc", "mpicxx", "mpic++", "mpiCC", "mpifort", "mpif90", "mpif77",
    "ompi_info", "laminfo", "lamboot", "lamhalt", "lamnodes", "lamexec", "lamcheckpoint",
    "lamrestart", "cr_checkpoint", "cr_restart",
];
const LIBRARY: &str = "libmpi_abi.so.1";
const LIBRARY_LINKS: [&str; 3] = ["libmpi_abi.so", "libmpi_abi.so.0", "libmpi.so"];
/// The library that ranks find by the name `libmpi.so`. Programs that open it know the ABI of Open
/// MPI, but not that of MPI-5.0, which the same name in `lib` has for linkers.
const LIBRARY_OF_RANKS: (&str, &str) = ("lib/oxmpi/ranks/libmpi.so", "../../libmpi.so.40");
const FORTRAN_LIBRARY: &str = "libmpifort_oxmpi.so.1";
const FORTRAN_LIBRARY_LINK: &str = "libmpifort_oxmpi.so";

/// The libraries for programs built for other MPIs: the package, the file that Cargo builds, the
/// file of the installation, and links to it. Names with `gfortran` are Debian's.
const FACES: [(&str, &str, &str, &[&str]); 4] = [
    ("oxmpi-face-mpich", "libmpi_mpich.so", "libmpi.so.12", &["libmpich.so.12"]),
    (
        "oxmpi-face-mpich-fortran",
        "libmpifort_mpich.so",
        "libmpifort.so.12",
        &["libmpichfort.so.12"],
    ),
    ("oxmpi-face-openmpi", "libmpi_openmpi.so", "libmpi.so.40", &[]),
    (
        "oxmpi-face-openmpi-fortran",
        "libmpi_mpifh_openmpi.so",
        "libmpi_mpifh.so.40",
        &[
            "libmpi_mpifh-gfortran.so.40",
            "libmpi_usempi_ignore_tkr.so.40",
            "libmpi_usempi_ignore_tkr-gfortran.so.40",
            "libmpi_usempif08.so.40",
            "libmpi_usempif08-gfortran.so.40",
        ],
    ),
];

#[rustfmt::skip] // a table
const SHARED_DIRECTORIES: [&str; 9] = [
    "share/oxmpi", "share/doc/oxmpi/img", "share/doc/oxmpi/functions", "share/man/man1",
    "share/man/man3", "share/man/man7",
    "share/bash-completion/completions", "share/zsh/site-functions",
    "share/fish/vendor_completions.d",
];
/// The manual pages, which `oxmpi man` prints.
#[rustfmt::skip] // a table
const PAGES: [(&str, &str); 21] = [
    ("mpirun", "1"), ("mpicc", "1"), ("ompi_info", "1"), ("lamcheckpoint", "1"), ("oxmpi", "1"),
    ("oxmpi-info", "1"), ("oxmpi-bench", "1"), ("oxmpi-doctor", "1"), ("oxmpi-explain", "1"),
    ("oxmpi-tune", "1"), ("oxmpi-boot", "1"), ("oxmpi-nodes", "1"), ("oxmpi-exec", "1"),
    ("oxmpi-halt", "1"), ("oxmpi-quiesce", "1"), ("oxmpi-checkpoint", "1"), ("oxmpi-restart", "1"),
    ("oxmpi-man", "1"), ("oxmpi-completions", "1"), ("oxmpi-uninstall", "1"),
    ("oxmpi-params", "7"),
];
/// The page, and another name for it.
#[rustfmt::skip] // a table
const PAGE_LINKS: [(&str, &str); 15] = [
    ("mpicc.1", "mpifort.1"), ("mpicc.1", "mpif90.1"), ("mpicc.1", "mpif77.1"),
    ("mpirun.1", "mpiexec.1"), ("mpicc.1", "mpicxx.1"), ("mpicc.1", "mpic++.1"),
    ("mpicc.1", "mpiCC.1"), ("ompi_info.1", "laminfo.1"), ("oxmpi-boot.1", "lamboot.1"),
    ("oxmpi-halt.1", "lamhalt.1"), ("oxmpi-nodes.1", "lamnodes.1"), ("oxmpi-exec.1", "lamexec.1"),
    ("lamcheckpoint.1", "lamrestart.1"), ("lamcheckpoint.1", "cr_checkpoint.1"),
    ("lamcheckpoint.1", "cr_restart.1"),
];
/// The completions, which `oxmpi completions` prints: shell, command, path.
const COMPLETIONS: [(&str, &str, &str); 6] = [
    ("bash", "mpirun", "share/bash-completion/completions/mpirun"),
    ("bash", "oxmpi", "share/bash-completion/completions/oxmpi"),
    ("zsh", "mpirun", "share/zsh/site-functions/_mpirun"),
    ("zsh", "oxmpi", "share/zsh/site-functions/_oxmpi"),
    ("fish", "mpirun", "share/fish/vendor_completions.d/mpirun.fish"),
    ("fish", "oxmpi", "share/fish/vendor_completions.d/oxmpi.fish"),
];

const COMPAT: &str = include_str!("../../crates/cli/include/mpi_compat.h");
const SUPPRESSIONS: &str = include_str!("install/valgrind.supp");
const COMPAT_MPI: &str = include_str!("../../crates/cli/include/compat/mpi.h");

/// The file for `pkg-config oxmpi`, which finds the prefix from its own place. pkgconf 1.8 escapes
/// a blank in the prefix only in the first word with `-Wl,`.
const PKG_CONFIG: &str = "\
prefix=${pcfiledir}/../..
includedir=${prefix}/include
libdir=${prefix}/lib

Name: OxMPI
Description: An MPI library with the standard ABI of MPI-5.0
Version: @VERSION@
Cflags: -I${includedir}
Libs: -L${libdir} -Wl,--enable-new-dtags,-rpath,${libdir} -lmpi_abi
";

/// The names that build systems request from pkg-config (Meson: `ompi-c`, `mpich`), which would
/// find another MPI of the machine otherwise.
const PKG_CONFIG_LINKS: [&str; 6] = ["mpi", "mpi-c", "mpi-cxx", "mpich", "ompi-c", "ompi-cxx"];

const PARAMETERS: &str = "\
# Parameters of OxMPI for all users of this installation: lines of the form NAME = VALUE.
# 'oxmpi info --params' lists them. What a user sets in ~/.oxmpi/mca-params.conf, in the environment (OXMPI_MCA_NAME)
# or with 'mpirun --mca NAME VALUE' is stronger.
";

#[derive(Args, Debug)]
pub(crate) struct InstallOptions {
    /// The directory of the installation
    #[arg(long, value_name = "DIR")]
    pub(crate) prefix: PathBuf,
    /// Install a debug build
    #[arg(long)]
    pub(crate) debug: bool,
    /// Compile the Fortran modules for these compilers now, such as gfortran,flang-19
    #[arg(long, value_name = "COMPILERS", value_delimiter = ',')]
    pub(crate) fortran: Vec<String>,
}

/// The packages whose programs and libraries are installed.
pub(crate) fn packages() -> impl Iterator<Item = &'static str> {
    ["oxmpi-cli", "oxmpi-capi", "oxmpi-fortran"]
        .into_iter()
        .chain(FACES.iter().map(|(package, ..)| *package))
}

impl InstallOptions {
    pub(crate) fn build(&self) -> Build<'static> {
        Build { release: !self.debug, ..Build::default() }
    }
}

/// How the programs and libraries are built.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Build<'b> {
    pub(crate) release: bool,
    /// Files of an older glibc to link with.
    pub(crate) glibc: Option<&'b Path>,
    /// Whether the installed files have debug information.
    pub(crate) keeps_debug: bool,
}

impl Build<'_> {
    pub(crate) fn release() -> Build<'static> {
        Build { release: true, ..Build::default() }
    }

    /// Builds the packages. Returns the directory of their files.
    fn run(self) -> Result<PathBuf, Failure> {
        let packages = packages().flat_map(|package| ["-p", package]);
        let mut cargo = Run::cargo().args(["build", "--locked"]).args(packages);
        let mut built = target_directory();
        if self.release {
            cargo = cargo.arg("--release");
        }
        if let Some(glibc) = self.glibc {
            // With a target, programs that the build itself runs are linked as always.
            let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
            let place = glibc.display();
            // This machine's libgcc_s needs functions of its own glibc.
            let arguments =
                [format!("-B{place}"), format!("-L{place}"), "-Wl,--allow-shlib-undefined".into()];
            let flags = arguments.map(|argument| format!("'-Clink-arg={argument}'")).join(", ");
            let flags = format!("target.{target}.rustflags=[{flags}]");
            cargo = cargo.args(["--target", &target, "--config", &flags]);
            built.push(target);
        }
        cargo.show()?;
        Ok(built.join(if self.release { "release" } else { "debug" }))
    }
}

pub(crate) fn install(prefix: &Path, build: Build<'_>) -> Result<(), Failure> {
    let built = build.run()?;
    let copy = |from: &Path, to: &Path| copy(from, to, build.keeps_debug);
    let mut manifest = Manifest::open(prefix);
    let directories = [
        "bin",
        "lib",
        "lib/pkgconfig",
        "lib/oxmpi/modules",
        "lib/oxmpi/ranks",
        "include",
        "include/compat",
        "etc",
    ];
    for directory in directories.into_iter().chain(SHARED_DIRECTORIES) {
        manifest.directory(directory)?;
    }
    copy(&built.join("oxmpi"), &prefix.join("bin/oxmpi"))?;
    copy(&built.join("libmpi_abi.so"), &prefix.join("lib").join(LIBRARY))?;
    copy(&built.join("libmpifort_oxmpi.so"), &prefix.join("lib").join(FORTRAN_LIBRARY))?;
    link(FORTRAN_LIBRARY, &prefix.join("lib").join(FORTRAN_LIBRARY_LINK))?;
    manifest.file(&format!("lib/{FORTRAN_LIBRARY}"));
    manifest.file(&format!("lib/{FORTRAN_LIBRARY_LINK}"));
    for (_, file, library, links) in FACES {
        copy(&built.join(file), &prefix.join("lib").join(library))?;
        manifest.file(&format!("lib/{library}"));
        for name in links {
            link(library, &prefix.join("lib").join(name))?;
            manifest.file(&format!("lib/{name}"));
        }
    }
    let (name, target) = LIBRARY_OF_RANKS;
    link(target, &prefix.join(name))?;
    manifest.file(name);
    manifest.file("bin/oxmpi");
    manifest.file(&format!("lib/{LIBRARY}"));
    for name in PROGRAM_LINKS {
        link("oxmpi", &prefix.join("bin").join(name))?;
        manifest.file(&format!("bin/{name}"));
    }
    for name in LIBRARY_LINKS {
        link(LIBRARY, &prefix.join("lib").join(name))?;
        manifest.file(&format!("lib/{name}"));
    }
    let pkg_config = PKG_CONFIG.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    let for_fortran = fortran_package("Fortran", None);
    for (name, text) in [
        ("include/mpi.h", oxmpi_abi::header().as_str()),
        ("include/mpi-ext.h", oxmpi_abi::extensions::header().as_str()),
        ("include/mpif.h", oxmpi_abi::fortran::header().as_str()),
        ("share/oxmpi/mpi.f90", oxmpi_abi::fortran::modules().as_str()),
        ("include/mpi_compat.h", COMPAT),
        ("include/compat/mpi.h", COMPAT_MPI),
        ("lib/pkgconfig/oxmpi.pc", &pkg_config),
        ("lib/pkgconfig/oxmpi-fort.pc", &for_fortran),
        ("share/oxmpi/valgrind.supp", SUPPRESSIONS),
    ] {
        write(&prefix.join(name), text)?;
        manifest.file(name);
    }
    for name in PKG_CONFIG_LINKS {
        let name = format!("lib/pkgconfig/{name}.pc");
        link("oxmpi.pc", &prefix.join(&name))?;
        manifest.file(&name);
    }
    write_pages(prefix, &mut manifest)?;
    write_functions(prefix, &mut manifest)?;
    copy_chapters(prefix, &mut manifest)?;
    let parameters = prefix.join("etc/oxmpi-mca-params.conf");
    if !parameters.exists() {
        write(&parameters, PARAMETERS)?;
    }
    manifest.config("etc/oxmpi-mca-params.conf", PARAMETERS);
    manifest.write()?;
    println!("installed in {}", prefix.display());
    Ok(())
}

/// Lets the installed `mpifort` compile its modules, and writes a file for pkg-config for each
/// compiler.
pub(crate) fn make_modules(prefix: &Path, compilers: &[String]) -> Result<(), Failure> {
    let absolute = |path: &Path| std::path::absolute(path).map_err(Failure::io("no prefix"));
    let mpifort = absolute(&prefix.join("bin/mpifort"))?;
    let mut manifest = Manifest::open(prefix);
    for compiler in compilers {
        let words = [format!("-fc={compiler}"), "-showme:libdirs".into()];
        let shown = Run::new(&mpifort).args(words).output()?;
        let shown = String::from_utf8_lossy(&shown).into_owned();
        let directories = shown.split_once("/lib/oxmpi/modules/");
        let Some(key) = directories.and_then(|(_, rest)| rest.split(['"', '\'', ' ']).next())
        else {
            let text = format!("the modules for {compiler} are not below the prefix: {shown}");
            return Err(Failure::new(text));
        };
        let directory = prefix.join("lib/oxmpi/modules").join(key);
        println!("modules for {compiler}: {}", directory.display());
        let options = fs::read_to_string(directory.join("options.txt")).unwrap_or_default();
        let name = format!("lib/pkgconfig/oxmpi-fort-{}.pc", short_name(compiler));
        write(&prefix.join(&name), &fortran_package(compiler, Some((key, &options))))?;
        manifest.file(&name);
    }
    manifest.write()
}

/// `/opt/bin/gfortran -m64` is `gfortran`.
fn short_name(compiler: &str) -> &str {
    let program = compiler.split_whitespace().next().unwrap_or_default();
    program.rsplit('/').next().unwrap_or_default()
}

/// A file for pkg-config. `oxmpi-fort` has the libraries and `mpif.h` for every compiler;
/// `oxmpi-fort-COMPILER` has a directory of modules too, with options that programs need. Another
/// version of the compiler cannot read these modules, and says so.
fn fortran_package(compiler: &str, modules: Option<(&str, &str)>) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let (mut directory, mut compile, mut link) = (String::new(), String::new(), String::new());
    let (mut content, mut library) = ("mpif.h", "");
    if let Some((key, options)) = modules {
        directory = format!("moduledir=${{prefix}}/lib/oxmpi/modules/{key}\n");
        compile = options.lines().map(|option| format!("{option} ")).collect();
        compile += "-I${moduledir} ";
        link += "-L${moduledir} ";
        content = "mpif.h, modules mpi and mpi_f08";
        library = "-lmpifort_oxmpi_modules ";
    }
    format!(
        "\
prefix=${{pcfiledir}}/../..
includedir=${{prefix}}/include
libdir=${{prefix}}/lib
{directory}
Name: OxMPI for {compiler}
Description: {content} of OxMPI
Version: {version}
Cflags: {compile}-I${{includedir}}
Libs: {link}-L${{libdir}} -Wl,--enable-new-dtags,-rpath,${{libdir}} {library}-lmpifort_oxmpi -lmpi_abi
"
    )
}

fn copy_chapters(prefix: &Path, manifest: &mut Manifest) -> Result<(), Failure> {
    for (from, to, ending) in
        [("docs", "share/doc/oxmpi", "md"), ("docs/img", "share/doc/oxmpi/img", "svg")]
    {
        let directory = root().join(from);
        let entries =
            fs::read_dir(&directory).map_err(Failure::io(format!("no {}", directory.display())))?;
        for path in entries.flatten().map(|entry| entry.path()) {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if path.extension().is_some_and(|found| found == ending) {
                let name = format!("{to}/{name}");
                let copied = fs::copy(&path, prefix.join(&name));
                copied.map_err(Failure::io(format!("cannot write {name}")))?;
                manifest.file(&name);
            }
        }
    }
    Ok(())
}

fn write_pages(prefix: &Path, manifest: &mut Manifest) -> Result<(), Failure> {
    let oxmpi = prefix.canonicalize().map_err(Failure::io("no prefix"))?.join("bin/oxmpi");
    let mut made = |args: &[&str], to: &str| {
        let text = Run::new(&oxmpi).args(args).output()?;
        fs::write(prefix.join(to), text).map_err(Failure::io(format!("cannot write {to}")))?;
        manifest.file(to);
        Ok(())
    };
    for (name, section) in PAGES {
        made(&["man", name], &format!("share/man/man{section}/{name}.{section}"))?;
    }
    for (shell, command, to) in COMPLETIONS {
        made(&["completions", shell, command], to)?;
    }
    for (page, name) in PAGE_LINKS {
        link(page, &prefix.join("share/man/man1").join(name))?;
        manifest.file(&format!("share/man/man1/{name}"));
    }
    let completions = "share/bash-completion/completions";
    link("mpirun", &prefix.join(completions).join("mpiexec"))?;
    manifest.file(&format!("{completions}/mpiexec"));
    Ok(())
}

/// The manual page of each function, and the chapters of functions as HTML.
fn write_functions(prefix: &Path, manifest: &mut Manifest) -> Result<(), Failure> {
    for chapter in oxmpi_abi::table::chapters() {
        let html = format!("share/doc/oxmpi/functions/{}.html", chapter.file);
        write(&prefix.join(&html), &oxmpi_abi::pages::html(chapter))?;
        manifest.file(&html);
        for entry in &chapter.entries {
            let page = format!("{}.3", entry.name);
            let path = format!("share/man/man3/{page}");
            write(&prefix.join(&path), &oxmpi_abi::pages::page(entry).roff())?;
            manifest.file(&path);
            for form in entry.functions().iter().skip(1) {
                let path = format!("share/man/man3/{}.3", form.name);
                link(&page, &prefix.join(&path))?;
                manifest.file(&path);
            }
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(Failure::io(format!("cannot write {}", path.display())))
}

pub(crate) fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// Replaces `to` by a copy of `from`, in one step, so that programs that run from it go on with the
/// old file.
fn copy(from: &Path, to: &Path, keeps_debug: bool) -> Result<(), Failure> {
    let new = to.with_extension("new");
    let copied = fs::copy(from, &new).and_then(|_| {
        // A file with debug information works as well, but is longer. Names of functions stay, for
        // backtraces and profilers.
        if !keeps_debug {
            Run::new("strip").arg("--strip-debug").arg(std::path::absolute(&new)?).succeeds();
        }
        fs::rename(&new, to)
    });
    copied.map_err(Failure::io(format!("cannot copy {} to {}", from.display(), to.display())))
}

fn link(to: &str, at: &Path) -> Result<(), Failure> {
    // The file may not exist; errors show in the next step.
    let _ = fs::remove_file(at);
    symlink(to, at).map_err(Failure::io(format!("cannot link {} to {to}", at.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_of_a_compiler_has_its_modules() {
        let plain = fortran_package("Fortran", None);
        assert!(!plain.contains("modules") && plain.contains("\nCflags: -I${includedir}\n"));
        let package = fortran_package("/opt/gfortran -m64", Some(("gfortran-1", "-fa\n-fb\n")));
        for line in [
            "moduledir=${prefix}/lib/oxmpi/modules/gfortran-1",
            "Name: OxMPI for /opt/gfortran -m64",
            "Cflags: -fa -fb -I${moduledir} -I${includedir}",
        ] {
            assert!(package.lines().any(|found| found == line), "{line}\n{package}");
        }
        assert!(package.ends_with(" -lmpifort_oxmpi_modules -lmpifort_oxmpi -lmpi_abi\n"));
        assert_eq!(short_name("/opt/gfortran -m64"), "gfortran");
    }
}
