//! The version of glibc that the files of a wheel need, which is the number in the tag of its
//! platform (`manylinux_2_34`, PEP 600).

use std::fs;
use std::path::Path;

use object::elf::FileHeader64;
use object::read::elf::{Dyn as _, FileHeader as _, SectionHeader as _};
use object::{Endianness, elf};

use crate::run::Failure;

/// Libraries that PEP 600 expects on each system and of which the project needs some. The loader is
/// one of them.
const SYSTEM: [&str; 6] =
    ["libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1"];
const LOADER: &str = "ld-linux-";
/// The libraries of the wheel.
const OWN: &str = "libmpi";
/// The newest version of libgcc's symbols that all these systems have.
const LIBGCC: (u32, u32) = (4, 8);

/// The newest version 2.N of glibc that some files need.
#[derive(Debug, Default)]
pub(super) struct GlibcNeed {
    minor: u32,
}

impl GlibcNeed {
    pub(super) fn minor(&self) -> u32 {
        self.minor
    }

    /// Adds what a file needs. A file that is no ELF file needs nothing.
    pub(super) fn add(&mut self, path: &Path) -> Result<(), Failure> {
        if !is_elf(path)? {
            return Ok(());
        }
        let bytes = fs::read(path).map_err(Failure::io(path.display()))?;
        let failed = |error: String| Failure::new(format!("{}: {error}", path.display()));
        let (libraries, versions) = needed(&bytes).map_err(|error| failed(error.to_string()))?;
        for library in libraries {
            let is_there = SYSTEM.contains(&library.as_str())
                || library.starts_with(LOADER)
                || library.starts_with(OWN);
            if !is_there {
                return Err(failed(format!("{library} is not on every system")));
            }
        }
        for version in versions {
            match minor_of(&version) {
                Some(minor) => self.minor = self.minor.max(minor),
                None => return Err(failed(format!("no system is known to have {version}"))),
            }
        }
        Ok(())
    }
}

/// N of the version `GLIBC_2.N`; 0 for a version of libgcc that all systems have.
fn minor_of(version: &str) -> Option<u32> {
    let (library, number) = version.split_once('_')?;
    let mut parts = number.split('.').map(str::parse::<u32>);
    let (major, minor) = (parts.next()?.ok()?, parts.next()?.ok()?);
    match library {
        "GLIBC" if major == 2 => Some(minor),
        "GCC" if (major, minor) <= LIBGCC => Some(0),
        _ => None,
    }
}

fn is_elf(path: &Path) -> Result<bool, Failure> {
    use std::io::Read as _;
    let mut start = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(4).read_to_end(&mut start));
    read.map_err(Failure::io(path.display()))?;
    Ok(start == elf::ELFMAG)
}

/// The libraries that a file names, and the versions of symbols that it needs.
fn needed(bytes: &[u8]) -> object::Result<(Vec<String>, Vec<String>)> {
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let (mut libraries, mut versions) = (Vec::new(), Vec::new());
    for section in sections.iter() {
        let Some((entries, link)) = section.dynamic(endian, bytes)? else { continue };
        let strings = sections.strings(endian, bytes, link)?;
        for entry in entries.iter().filter(|entry| entry.d_tag.get(endian) == elf::DT_NEEDED) {
            libraries.push(text(entry.string(endian, strings)?));
        }
    }
    if let Some((mut needs, link)) = sections.gnu_verneed(endian, bytes)? {
        let strings = sections.strings(endian, bytes, link)?;
        while let Some((_, mut entries)) = needs.next()? {
            while let Some(entry) = entries.next()? {
                versions.push(text(entry.name(endian, strings)?));
            }
        }
    }
    Ok((libraries, versions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(minor_of("GLIBC_2.34"), Some(34));
        assert_eq!(minor_of("GLIBC_2.2.5"), Some(2));
        assert_eq!(minor_of("GCC_4.2.0"), Some(0));
        for unknown in ["GCC_13.0.0", "GLIBC_ABI_DT_RELR", "GLIBC_3.0", "GLIBCXX_3.4.29", "x"] {
            assert_eq!(minor_of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn this_program_needs_a_version_of_glibc() {
        let mut need = GlibcNeed::default();
        need.add(&std::env::current_exe().unwrap()).unwrap();
        assert!((17..100).contains(&need.minor()), "2.{}", need.minor());
        let mut none = GlibcNeed::default();
        none.add(Path::new("/proc/self/status")).unwrap();
        assert_eq!(none.minor(), 0);
    }
}
