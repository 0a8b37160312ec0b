//! Programs of other MPI libraries: under `mpirun` each of their processes would be a job of one
//! rank, without an error.
//!
//! Such a program names its library in the dynamic section (ELF, DT_NEEDED). A script, a static
//! program, and a program that loads its MPI library later name none, and are run. So are programs
//! for which this installation has a library of that name, unless they find another one first.

use std::fs::File;
use std::path::{Path, PathBuf};

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader, ProgramHeader as _};
use object::read::{ReadCache, ReadRef, StringTable};
use object::{Endianness, FileKind};

use super::LaunchError;

/// The prefix of this library's names, and of all libraries with the standard ABI, whose programs
/// run here.
pub(crate) const STANDARD: &str = "libmpi_abi.so";

/// Prefixes of other MPI libraries' names, longer ones first, and their owners. 12 is the ABI
/// number of MPICH and compatible libraries, and was once Open MPI's.
const OTHERS: [(&str, &str); 11] = [
    ("libmpi.so.12", "MPICH, Intel MPI or another library of the MPICH ABI"),
    ("libmpi.so.", "Open MPI"),
    ("libmpi_mpifh.so.", "Open MPI"),
    ("libmpi_usempi", "Open MPI"),
    ("libmpi_cxx.so.", "Open MPI"),
    ("libmpich", "MPICH"),
    ("libmpifort.so.", "MPICH, Intel MPI or another library of the MPICH ABI"),
    ("libmpicxx.so.", "MPICH, Intel MPI or another library of the MPICH ABI"),
    ("libmpi_cray.so.", "Cray MPICH"),
    ("libmpi_gnu", "Cray MPICH"),
    ("libmpt.so", "HPE MPT"),
];

/// The C++ libraries of other MPIs, which call their C library and may be used with ours.
const CXX: [&str; 3] = ["libmpi_cxx.so.40", "libmpicxx.so.12", "libmpichcxx.so.12"];

/// Refuses a program that is linked against another MPI library, not against one of the standard
/// ABI or of this installation, whose libraries are in `own`.
pub(super) fn refuse(program: &Path, own: Option<&Path>) -> Result<(), LaunchError> {
    let is_own = |name: &str| own.is_some_and(|own| own.join(name).exists());
    let Dynamic { needed, first_paths } = Dynamic::of(program);
    let own_names = needed.iter().filter(|name| is_own(name));
    let found_first = own_names.filter_map(|name| found_in(&first_paths, name, program)).next();
    if let (Some(library), Some(own)) = (found_first, own)
        && library.parent().and_then(|place| place.canonicalize().ok()) != own.canonicalize().ok()
    {
        let (program, own) = (program.to_path_buf(), own.to_path_buf());
        return Err(LaunchError::OtherLibraryFirst { program, library, own });
    }
    let serves = |name: &String| is_own(name) || CXX.contains(&name.as_str()) && own.is_some();
    let Some((library, owner)) = other_of(needed, serves) else { return Ok(()) };
    Err(LaunchError::OtherLibrary { program: program.to_path_buf(), library, owner })
}

pub(crate) fn is_standard(program: &Path) -> bool {
    Dynamic::of(program).needed.iter().any(|name| name.starts_with(STANDARD))
}

/// Whether a program names an MPI library, of any owner. Another program may open one later.
pub(super) fn names_mpi(program: &Path) -> bool {
    let is_mpi = |name: &String| name.starts_with(STANDARD) || owner_of(name).is_some();
    Dynamic::of(program).needed.iter().any(is_mpi)
}

/// The file of this name in the first of the directories that has one (ld.so(8)).
fn found_in(directories: &str, name: &str, program: &Path) -> Option<PathBuf> {
    let origin = program.parent().unwrap_or(Path::new(".")).to_string_lossy();
    let files = directories.split(':').filter(|directory| !directory.is_empty()).map(|directory| {
        let directory = directory.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
        Path::new(&directory).join(name)
    });
    files.into_iter().find(|file| file.exists())
}

fn other_of(
    needed: Vec<String>,
    is_own: impl Fn(&String) -> bool,
) -> Option<(String, &'static str)> {
    if needed.iter().any(|name| name.starts_with(STANDARD)) {
        return None;
    }
    needed.into_iter().filter(|name| !is_own(name)).find_map(|name| {
        let owner = owner_of(&name)?;
        Some((name, owner))
    })
}

/// The other MPI to which a library of this name belongs.
pub(super) fn owner_of(name: &str) -> Option<&'static str> {
    let name = without_digest(name);
    OTHERS.iter().find(|(other, _)| name.starts_with(other)).map(|(_, owner)| *owner)
}

/// The name of a library without the eight digits that auditwheel adds to it in a wheel:
/// `libmpi-617ed1d0.so.40` was `libmpi.so.40`.
fn without_digest(name: &str) -> String {
    let is_digest = |part: &str| part.len() == 8 && part.chars().all(|c| c.is_ascii_hexdigit());
    let parts = name.split_once(".so").and_then(|(before, after)| {
        let (before, digest) = before.rsplit_once('-')?;
        is_digest(digest).then(|| format!("{before}.so{after}"))
    });
    parts.unwrap_or_else(|| name.to_owned())
}

/// What the dynamic section of a program says.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Dynamic {
    /// The names of libraries.
    pub(super) needed: Vec<String>,
    /// The directories that are searched before LD_LIBRARY_PATH: DT_RPATH, unless there is a
    /// DT_RUNPATH.
    first_paths: String,
}

impl Dynamic {
    /// Empty if the program is not an ELF file, or unreadable.
    pub(super) fn of(program: &Path) -> Dynamic {
        let Ok(file) = File::open(program) else { return Dynamic::default() };
        let data = ReadCache::new(file);
        let found = match FileKind::parse(&data) {
            Ok(FileKind::Elf64) => dynamic_of::<FileHeader64<Endianness>, _>(&data),
            Ok(FileKind::Elf32) => dynamic_of::<FileHeader32<Endianness>, _>(&data),
            _ => return Dynamic::default(),
        };
        found.unwrap_or_default()
    }
}

fn dynamic_of<'data, Elf, R>(data: R) -> object::Result<Dynamic>
where
    Elf: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let header = Elf::parse(data)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, data)?;
    let mut entries = Vec::new();
    for segment in segments {
        for entry in segment.dynamic(endian, data)?.unwrap_or_default() {
            entries.push((entry.d_tag(endian), entry.d_val(endian).into()));
        }
    }
    let value =
        |tag| entries.iter().find(|(found, _)| *found == tag).map(|(_, value): &(_, u64)| *value);
    let (Some(address), Some(size)) = (value(elf::DT_STRTAB), value(elf::DT_STRSZ)) else {
        return Ok(Dynamic::default());
    };
    // The address of the string table is that in memory; the file offset follows from the segment
    // loaded there.
    let place = segments.iter().find_map(|segment| {
        let start: u64 = segment.p_vaddr(endian).into();
        let length: u64 = segment.p_filesz(endian).into();
        let offset: u64 = segment.p_offset(endian).into();
        let within = address.checked_sub(start).filter(|within| *within < length)?;
        (segment.p_type(endian) == elf::PT_LOAD).then_some(offset.checked_add(within)?)
    });
    let Some(place) = place else { return Ok(Dynamic::default()) };
    let strings = StringTable::new(data, place, place.saturating_add(size));
    let texts = |tag| {
        let offsets = entries.iter().filter(move |(found, _)| *found == tag);
        let texts = offsets.filter_map(|(_, at)| strings.get(u32::try_from(*at).ok()?).ok());
        texts.map(|text| String::from_utf8_lossy(text).into_owned())
    };
    let first_paths = match value(elf::DT_RUNPATH) {
        Some(_) => String::new(),
        None => texts(elf::DT_RPATH).next().unwrap_or_default(),
    };
    Ok(Dynamic { needed: texts(elf::DT_NEEDED).collect(), first_paths })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_libraries_are_known_by_their_names() {
        let other = |names: &[&str]| {
            let names = names.iter().map(ToString::to_string).collect();
            other_of(names, |name| name == "libmpich.so.77")
        };
        let whose = |names: &[&str]| other(names).map(|(_, owner)| owner);
        assert_eq!(
            other(&["libc.so.6", "libmpi.so.40"]),
            Some(("libmpi.so.40".into(), "Open MPI"))
        );
        assert!(
            whose(&["libmpi.so.12"]).is_some_and(|owner| owner.starts_with("MPICH, Intel MPI"))
        );
        assert_eq!(whose(&["libmpich.so.12"]), Some("MPICH"));
        assert_eq!(whose(&["libmpi_mpifh.so.40", "libm.so.6"]), Some("Open MPI"));
        // Libraries in wheels.
        assert_eq!(whose(&["libmpi-617ed1d0.so.40"]), Some("Open MPI"));
        assert_eq!(whose(&["libmpi-d26c8c51.so.12.3.1"]), whose(&["libmpi.so.12"]));
        assert_eq!(other(&["libmpi-parts.so.40", "libmpi-617ed1d0-x.so.40"]), None);
        // The standard ABI, also beside another library, and similar names.
        for ours in
            [&["libmpi_abi.so.1"][..], &["libmpi_abi.so.0"], &["libmpi_abi.so.1", "libmpi.so.40"]]
        {
            assert_eq!(other(ours), None, "{ours:?}");
        }
        assert_eq!(other(&["libmpi.so", "libmpimodel.so.1", "libmpifr.so.0"]), None);
        // A library of the installation.
        assert_eq!(other(&["libmpich.so.77"]), None);
        assert_eq!(whose(&["libmpich.so.77", "libmpi.so.40"]), Some("Open MPI"));
    }

    #[test]
    fn a_programs_libraries_are_read_and_other_files_have_none() {
        let own = Dynamic::of(&std::env::current_exe().unwrap()).needed;
        assert!(own.iter().any(|name| name.starts_with("libc.so")), "{own:?}");
        let directory = std::env::temp_dir().join(format!("oxmpi-needed-{}", std::process::id()));
        let whole = std::fs::read("/bin/sh").unwrap();
        for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", &whole[..64], &whole[..whole.len() / 2]]
        {
            std::fs::write(&directory, bytes).unwrap();
            Dynamic::of(&directory);
        }
        std::fs::remove_file(&directory).unwrap();
        assert_eq!(Dynamic::of(&directory), Dynamic::default());
    }
}
