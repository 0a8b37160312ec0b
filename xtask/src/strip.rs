//! Programs and libraries without what only debuggers of this project read: line tables and types (`.debug_*`). Names of functions stay
//! (`.symtab`): backtraces, profilers and `cargo xtask order` have them.
//!
//! Sections that are loaded stay where they are, in the file as in memory. Those behind them that are kept move up, and the table of
//! sections behind them.

/// A section of an ELF file of 64 bits, little endian (System V ABI, "Section Header").
#[derive(Clone, Copy, Debug)]
struct Section {
    name: u32,
    kind: u32,
    flags: u64,
    offset: u64,
    size: u64,
    link: u32,
    info: u32,
    align: u64,
}

const FILE_HEADER: usize = 64;
const SECTION_HEADER: usize = 64;
/// SHT_NOBITS: it has no bytes in the file.
const NO_BITS: u32 = 8;
/// SHF_ALLOC: it is loaded.
const LOADED: u64 = 2;
/// SHF_INFO_LINK: `info` is the number of a section.
const INFO_IS_SECTION: u64 = 0x40;

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let mut all = [0; 8];
    all[..N].copy_from_slice(bytes.get(at..at.checked_add(N)?)?);
    Some(u64::from_le_bytes(all))
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + N].copy_from_slice(&value.to_le_bytes()[..N]);
}

/// The file without its sections for debuggers; `None` if it is not laid out as it should be, or has none.
pub(crate) fn without_debug_sections(file: &[u8]) -> Option<Vec<u8>> {
    let is_elf64 = file.starts_with(b"\x7fELF\x02\x01");
    let (table, count) = (number::<8>(file, 40)? as usize, number::<2>(file, 60)? as usize);
    let names_at = number::<2>(file, 62)? as usize;
    if !is_elf64 || number::<2>(file, 58)? as usize != SECTION_HEADER || count == 0 || names_at >= count {
        return None;
    }
    let sections = (0..count).map(|at| Section::read(file, table + at * SECTION_HEADER));
    let sections: Vec<Section> = sections.collect::<Option<_>>()?;
    let names = sections[names_at].bytes(file)?;
    let is_dropped = |section: &Section| {
        let name = names.get(section.name as usize..).unwrap_or_default();
        section.flags & LOADED == 0 && (name.starts_with(b".debug_") || name.starts_with(b".zdebug_"))
    };
    let has_bytes = |section: &&Section| section.kind != NO_BITS;
    let loaded = sections.iter().filter(|section| section.flags & LOADED != 0).filter(has_bytes);
    let loaded_end = loaded.map(|section| section.offset + section.size).max()?.max(FILE_HEADER as u64);
    // What is kept moves up only over what is dropped.
    let first = sections.iter().position(is_dropped)?;
    let others_lie_behind = sections[1..]
        .iter()
        .filter(|section| section.flags & LOADED == 0 && section.size > 0)
        .all(|section| section.offset >= loaded_end);
    // Symbols name the sections that they lie in, all of which must keep their numbers.
    let loaded_come_first = sections[first..].iter().all(|section| section.flags & LOADED == 0);
    if !others_lie_behind || !loaded_come_first {
        return None;
    }
    let mut moved = Vec::with_capacity(count);
    let mut kept = 0;
    for section in &sections {
        moved.push((!is_dropped(section)).then_some(kept));
        kept += u32::from(!is_dropped(section));
    }
    let new_number = |old: u32| moved.get(old as usize).copied().flatten();
    let mut out = file.get(..loaded_end as usize)?.to_vec();
    let mut headers = Vec::new();
    for (at, section) in sections.iter().enumerate().filter(|(at, _)| moved[*at].is_some()) {
        let from = table + at * SECTION_HEADER;
        let mut header = file.get(from..from + SECTION_HEADER)?.to_vec();
        if section.flags & LOADED == 0 && section.kind != 0 {
            out.resize(out.len().next_multiple_of(section.align.max(1) as usize), 0);
            put::<8>(&mut header, 24, out.len() as u64);
            out.extend_from_slice(section.bytes(file)?);
        }
        put::<4>(&mut header, 40, new_number(section.link)?.into());
        if section.flags & INFO_IS_SECTION != 0 {
            put::<4>(&mut header, 44, new_number(section.info)?.into());
        }
        headers.extend(header);
    }
    out.resize(out.len().next_multiple_of(8), 0);
    let table = out.len() as u64;
    out.extend(headers);
    put::<8>(&mut out, 40, table);
    put::<2>(&mut out, 60, kept.into());
    put::<2>(&mut out, 62, new_number(names_at as u32)?.into());
    Some(out)
}

impl Section {
    fn read(file: &[u8], at: usize) -> Option<Section> {
        Some(Section {
            name: number::<4>(file, at)? as u32,
            kind: number::<4>(file, at + 4)? as u32,
            flags: number::<8>(file, at + 8)?,
            offset: number::<8>(file, at + 24)?,
            size: number::<8>(file, at + 32)?,
            link: number::<4>(file, at + 40)? as u32,
            info: number::<4>(file, at + 44)? as u32,
            align: number::<8>(file, at + 48)?,
        })
    }

    fn bytes<'f>(&self, file: &'f [u8]) -> Option<&'f [u8]> {
        if self.kind == NO_BITS {
            return Some(&[]);
        }
        file.get(self.offset as usize..usize::try_from(self.offset.checked_add(self.size)?).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test itself: it runs without its debug sections, and knows the names of its functions.
    #[test]
    fn a_program_without_debug_sections_runs_and_knows_its_functions() {
        const INNER: &str = "OXMPI_STRIPPED_TEST";
        if std::env::var_os(INNER).is_some() {
            println!("{}", std::backtrace::Backtrace::force_capture());
            return;
        }
        let own = std::fs::read("/proc/self/exe").unwrap();
        let stripped = without_debug_sections(&own).unwrap();
        assert!(stripped.len() < own.len() * 2 / 3, "{} of {} bytes", stripped.len(), own.len());
        assert_eq!(without_debug_sections(&stripped), None, "nothing is left to drop");
        let program = std::env::temp_dir().join(format!("oxmpi-stripped-{}", std::process::id()));
        std::fs::write(&program, stripped).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        let name = "strip::tests::a_program_without_debug_sections_runs_and_knows_its_functions";
        let output = std::process::Command::new(&program)
            .args(["--exact", name, "--nocapture"])
            .env(INNER, "1")
            .output();
        std::fs::remove_file(&program).unwrap();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("a_program_without_debug_sections"), "{text}");
        for nonsense in [&b""[..], b"#!/bin/sh\n", &own[..70], &own[..own.len() / 2]] {
            assert_eq!(without_debug_sections(nonsense), None);
        }
    }
}
