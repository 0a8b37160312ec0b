//! Programs of other MPI libraries: under `mpirun` each of their processes would be a job of one
//! rank, without an error.
//!
//! Such a program names its library in the dynamic section (ELF, DT_NEEDED). A script, a static
//! program, and a program that loads its MPI library later name none, and are run. So are programs
//! for which this installation has a library of that name.

use std::fs::File;
use std::path::Path;

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader, ProgramHeader as _};
use object::read::{ReadCache, ReadRef, StringTable};
use object::{Endianness, FileKind};

use super::LaunchError;

/// The prefix of this library's names, and of all libraries with the standard ABI, whose programs
/// run here.
pub(super) const STANDARD: &str = "libmpi_abi.so";

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

/// Refuses a program that is linked against another MPI library, not against one of the standard
/// ABI or of this installation, whose libraries are in `own`.
pub(super) fn refuse(program: &Path, own: Option<&Path>) -> Result<(), LaunchError> {
    let is_own = |name: &String| own.is_some_and(|own| own.join(name).exists());
    let names = needed(program);
    let Some((library, owner)) = other_of(names, is_own) else { return Ok(()) };
    Err(LaunchError::OtherLibrary { program: program.to_path_buf(), library, owner })
}

pub(super) fn is_standard(program: &Path) -> bool {
    needed(program).iter().any(|name| name.starts_with(STANDARD))
}

fn other_of(
    needed: Vec<String>,
    is_own: impl Fn(&String) -> bool,
) -> Option<(String, &'static str)> {
    if needed.iter().any(|name| name.starts_with(STANDARD)) {
        return None;
    }
    needed.into_iter().filter(|name| !is_own(name)).find_map(|name| {
        let (_, owner) = OTHERS.iter().find(|(other, _)| name.starts_with(other))?;
        Some((name, *owner))
    })
}

/// The libraries that a program names; empty if it is not an ELF file, or unreadable.
fn needed(program: &Path) -> Vec<String> {
    let Ok(file) = File::open(program) else { return Vec::new() };
    let data = ReadCache::new(file);
    let names = match FileKind::parse(&data) {
        Ok(FileKind::Elf64) => needed_by::<FileHeader64<Endianness>, _>(&data),
        Ok(FileKind::Elf32) => needed_by::<FileHeader32<Endianness>, _>(&data),
        _ => return Vec::new(),
    };
    names.unwrap_or_default()
}

fn needed_by<'data, Elf, R>(data: R) -> object::Result<Vec<String>>
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
        return Ok(Vec::new());
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
    let Some(place) = place else { return Ok(Vec::new()) };
    let strings = StringTable::new(data, place, place.saturating_add(size));
    let offsets = entries.iter().filter(|(tag, _)| *tag == elf::DT_NEEDED);
    let names = offsets.filter_map(|(_, offset)| strings.get(u32::try_from(*offset).ok()?).ok());
    Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
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
        let own = needed(&std::env::current_exe().unwrap());
        assert!(own.iter().any(|name| name.starts_with("libc.so")), "{own:?}");
        let directory = std::env::temp_dir().join(format!("oxmpi-needed-{}", std::process::id()));
        let whole = std::fs::read("/bin/sh").unwrap();
        for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF", &whole[..64], &whole[..whole.len() / 2]]
        {
            std::fs::write(&directory, bytes).unwrap();
            needed(&directory);
        }
        std::fs::remove_file(&directory).unwrap();
        assert_eq!(needed(&directory), Vec::<String>::new());
    }
}
