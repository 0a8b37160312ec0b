//! Debian's packages of an installation, which lies in `/usr/lib/oxmpi`.
//!
//! | Package | Files |
//! |---|---|
//! | `liboxmpi1` | the libraries that programs need |
//! | `oxmpi` | `mpirun` and the other tools, completions, manual pages of section 1, parameters |
//! | `liboxmpi-dev` | compiler wrappers, headers, pkg-config, manual pages of section 3 |
//! | `oxmpi-doc` | the documents |
//! | `oxmpi-dbg` | debug symbols, found by build IDs |
//!
//! `/usr/bin` has `mpirun.oxmpi` and `mpicc.oxmpi`. `update-alternatives` gives the usual names
//! (`mpirun`, `mpicc`), below the priorities of Open MPI (50) and MPICH (40).

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use super::needs::GlibcNeed;
use super::{LIST, VERSION, copy, make_parent, write};
use crate::run::{Failure, Run};

/// The prefix of the installed packages.
const PREFIX: &str = "usr/lib/oxmpi";
const PRIORITY: u32 = 30;
const IN_PLACE_OF_LIST: &str = "by apt remove oxmpi liboxmpi1\n";
const PARAMETERS: &str = "etc/oxmpi-mca-params.conf";
const MAINTAINER: &str = "The OxMPI developers <oxmpi@localhost>";

/// A package: its name, what it depends on besides the others, and its description.
struct DebianPackage {
    name: &'static str,
    section: &'static str,
    /// The other packages that it needs.
    needs: &'static [&'static str],
    recommends: &'static str,
    description: &'static str,
}

const PACKAGES: [DebianPackage; 5] = [
    DebianPackage {
        name: "liboxmpi1",
        section: "libs",
        needs: &[],
        recommends: "oxmpi",
        description: "MPI library with the standard ABI of MPI-5.0\n \
             It also runs programs that were built for MPICH, Intel MPI and Open MPI.",
    },
    DebianPackage {
        name: "oxmpi",
        section: "net",
        needs: &["liboxmpi1"],
        recommends: "openssh-client",
        description: "MPI launcher and tools of OxMPI\n mpirun starts parallel programs.",
    },
    DebianPackage {
        name: "liboxmpi-dev",
        section: "libdevel",
        needs: &["liboxmpi1", "oxmpi"],
        recommends: "gcc",
        description: "compiler wrappers and headers of OxMPI\n \
             mpicc, mpicxx and mpifort compile programs with MPI.",
    },
    DebianPackage {
        name: "oxmpi-doc",
        section: "doc",
        needs: &[],
        recommends: "",
        description: "documents of OxMPI\n The functions of MPI, parameters, and guides.",
    },
    DebianPackage {
        name: "oxmpi-dbg",
        section: "debug",
        needs: &["liboxmpi1"],
        recommends: "",
        description: "debug symbols of OxMPI\n Debuggers find them by the build IDs of the files.",
    },
];

/// The package of a file of the installation.
fn package_of(name: &str) -> &'static str {
    const WRAPPERS: [&str; 7] =
        ["mpicc", "mpicxx", "mpic++", "mpiCC", "mpifort", "mpif77", "mpif90"];
    let (directory, file) = name.rsplit_once('/').unwrap_or(("", name));
    let is_of_developers = name.starts_with("include/")
        || name.starts_with("lib/pkgconfig/")
        || name.starts_with("share/man/man3/")
        || directory == "lib" && file.ends_with(".so")
        || name.starts_with("bin/") && WRAPPERS.contains(&file)
        || ["share/oxmpi/mpi.f90", "share/oxmpi/valgrind.supp"].contains(&name);
    match name {
        _ if is_of_developers => "liboxmpi-dev",
        _ if name.starts_with("lib/") => "liboxmpi1",
        _ if name.starts_with("share/doc/") => "oxmpi-doc",
        _ => "oxmpi",
    }
}

/// Makes the packages of an installation in the directory `out`. Returns their files.
pub(super) fn pack(prefix: &Path, out: &Path) -> Result<Vec<PathBuf>, Failure> {
    let stage = out.join("deb-stage");
    if stage.exists() {
        fs::remove_dir_all(&stage).map_err(Failure::io(stage.display()))?;
    }
    let list = prefix.join(LIST);
    let list = fs::read_to_string(&list).map_err(Failure::io(list.display()))?;
    let mut glibc = GlibcNeed::default();
    for name in list.lines().filter_map(|line| line.strip_prefix("file ")).chain([PARAMETERS]) {
        let (from, to) = (prefix.join(name), stage.join(package_of(name)).join(PREFIX).join(name));
        match fs::read_link(&from) {
            _ if name == LIST => write(&to, IN_PLACE_OF_LIST)?,
            Ok(target) => {
                make_parent(&to)?;
                symlink(target, &to).map_err(Failure::io(to.display()))?;
            }
            Err(_) => copy(&from, &to)?,
        }
        if !to.is_symlink() {
            glibc.add(&to)?;
            split_symbols(&to, &stage)?;
        }
    }
    // The loader finds the library of the standard ABI by its name.
    let link = stage.join("liboxmpi1/usr/lib").join(multiarch()).join("libmpi_abi.so.1");
    make_parent(&link)?;
    symlink("/usr/lib/oxmpi/lib/libmpi_abi.so.1", &link).map_err(Failure::io(link.display()))?;
    for (package, name) in [("oxmpi", "oxmpi")].into_iter().chain(own_names()) {
        let end = if name == "oxmpi" { "" } else { ".oxmpi" };
        let link = stage.join(package).join(format!("usr/bin/{name}{end}"));
        make_parent(&link)?;
        symlink(format!("../lib/oxmpi/bin/{name}"), &link).map_err(Failure::io(link.display()))?;
    }
    let made = PACKAGES.iter().map(|package| build(package, &stage, out, glibc.minor()));
    let made: Result<Vec<PathBuf>, Failure> = made.collect();
    fs::remove_dir_all(&stage).map_err(Failure::io(stage.display()))?;
    made
}

fn multiarch() -> String {
    format!("{}-linux-gnu", std::env::consts::ARCH)
}

/// Moves the debug symbols of an ELF file to the package for them.
fn split_symbols(file: &Path, stage: &Path) -> Result<(), Failure> {
    let head = fs::read(file).map_err(Failure::io(file.display()))?;
    if !head.starts_with(b"\x7fELF") {
        return Ok(());
    }
    let notes = Run::new("readelf").args(["-n", "--wide"]).arg(file).output()?;
    let notes = String::from_utf8_lossy(&notes).into_owned();
    let id = notes.split("Build ID: ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let objcopy = |words: &[&str]| Run::new("objcopy").args(words).arg(file);
    if let Some((start, end)) = id.and_then(|id| id.split_at_checked(2)) {
        let symbols = stage.join(format!("oxmpi-dbg/usr/lib/debug/.build-id/{start}/{end}.debug"));
        make_parent(&symbols)?;
        objcopy(&["--only-keep-debug"]).arg(&symbols).show()?;
    }
    objcopy(&["--strip-unneeded"]).show()
}

fn build(
    package: &DebianPackage,
    stage: &Path,
    out: &Path,
    glibc: u32,
) -> Result<PathBuf, Failure> {
    let directory = stage.join(package.name);
    let mut needs: Vec<String> =
        package.needs.iter().map(|name| format!("{name} (= {VERSION})")).collect();
    if ["liboxmpi1", "oxmpi"].contains(&package.name) {
        needs.push(format!("libc6 (>= 2.{glibc}), libgcc-s1"));
    }
    let architecture = match std::env::consts::ARCH {
        _ if package.name == "oxmpi-doc" => "all",
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => return Err(Failure::new(format!("Debian's name for {other} is not known"))),
    };
    let DebianPackage { name, section, recommends, description, .. } = package;
    let mut control = format!(
        "Package: {name}\nVersion: {VERSION}\nArchitecture: {architecture}\nSection: {section}\n\
         Priority: optional\nMaintainer: {MAINTAINER}\n"
    );
    for (field, value) in [("Depends", needs.join(", ")), ("Recommends", (*recommends).to_owned())]
    {
        if !value.is_empty() {
            control += &format!("{field}: {value}\n");
        }
    }
    control += &format!("Description: {description}\n");
    let about = directory.join("DEBIAN");
    write(&about.join("control"), &control)?;
    if *name == "oxmpi" {
        write(&about.join("conffiles"), &format!("/{PREFIX}/{PARAMETERS}\n"))?;
    }
    write_alternatives(name, &about)?;
    let licences = directory.join("usr/share/doc").join(name);
    super::licences::copy(&licences.join("crates"))?;
    for file in super::LICENCES {
        copy(&crate::root().join(file), &licences.join(file))?;
    }
    let file = out.join(format!("{name}_{VERSION}_{architecture}.deb"));
    Run::new("dpkg-deb")
        .args(["--root-owner-group", "--build"])
        .arg(&directory)
        .arg(&file)
        .show()?;
    Ok(file)
}

/// The names of `/usr/bin` that a package offers: the group, its first name, and further names.
fn alternatives(package: &str) -> Option<(&'static str, &'static str, &'static [&'static str])> {
    match package {
        "oxmpi" => Some(("mpirun", "mpirun", &["mpiexec"])),
        "liboxmpi-dev" => {
            Some(("mpi", "mpicc", &["mpic++", "mpicxx", "mpiCC", "mpif77", "mpif90", "mpifort"]))
        }
        _ => None,
    }
}

/// The programs that `/usr/bin` has under a second name (`mpirun.oxmpi`) too, because another MPI
/// may have the usual one, and their packages.
fn own_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    PACKAGES.iter().flat_map(|package| {
        let (first, others) = match alternatives(package.name) {
            Some((_, first, others)) => (Some(first), others),
            None => (None, &[][..]),
        };
        first.into_iter().chain(others.iter().copied()).map(|name| (package.name, name))
    })
}

fn write_alternatives(package: &str, about: &Path) -> Result<(), Failure> {
    let Some((group, first, others)) = alternatives(package) else { return Ok(()) };
    let of = |name: &str| format!("/{PREFIX}/bin/{name}");
    let mut install =
        format!("update-alternatives --install /usr/bin/{first} {group} {} {PRIORITY}", of(first));
    for name in others {
        install += &format!(" \\\n    --slave /usr/bin/{name} {name} {}", of(name));
    }
    let scripts = [
        ("postinst", format!("[ \"$1\" != configure ] || {install}\n")),
        (
            "prerm",
            // The modules of mpifort are made when a compiler is first used.
            format!(
                "[ \"$1\" = upgrade ] || update-alternatives --remove {group} {}\n\
                 rm -rf /{PREFIX}/lib/oxmpi\n",
                of(first)
            ),
        ),
    ];
    for (name, text) in scripts {
        let path = about.join(name);
        write(&path, &format!("#!/bin/sh\nset -e\n{text}"))?;
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, executable).map_err(Failure::io(path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_its_package() {
        for (name, package) in [
            ("bin/mpirun", "oxmpi"),
            ("bin/mpicc", "liboxmpi-dev"),
            ("lib/libmpi_abi.so", "liboxmpi-dev"),
            ("lib/libmpi_abi.so.1", "liboxmpi1"),
            ("lib/libmpi.so.12", "liboxmpi1"),
            ("lib/oxmpi/ranks/libmpi.so", "liboxmpi1"),
            ("lib/pkgconfig/mpi.pc", "liboxmpi-dev"),
            ("share/man/man1/mpirun.1", "oxmpi"),
            ("share/man/man3/MPI_Send.3", "liboxmpi-dev"),
            ("share/doc/oxmpi/ranks.md", "oxmpi-doc"),
            (LIST, "oxmpi"),
            (PARAMETERS, "oxmpi"),
        ] {
            assert_eq!(package_of(name), package, "{name}");
        }
    }
}
