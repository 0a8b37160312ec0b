//! The parts of this machine on which the calling thread may run, from sysfs.

use crate::cpus;
use std::collections::BTreeSet;
use std::path::Path;

const SYSTEM: &str = "/sys/devices/system";

/// The model of a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// As CPUID spells it: `AuthenticAMD`, `GenuineIntel` and so on.
    pub vendor: String,
    /// With the extended family.
    pub family: u32,
    /// With the extended model.
    pub model: u32,
}

/// The model of this processor (CPUID); `None` on processors other than x86-64.
#[cfg(target_arch = "x86_64")]
pub fn processor() -> Option<Processor> {
    use std::arch::x86_64::__cpuid;
    let named = __cpuid(0);
    let vendor: Vec<u8> =
        [named.ebx, named.edx, named.ecx].into_iter().flat_map(u32::to_le_bytes).collect();
    let about = __cpuid(1);
    let bits = |from: u32, count: u32| about.eax >> from & ((1 << count) - 1);
    let (family, model) = (bits(8, 4), bits(4, 4));
    let (extended_family, extended_model) = (bits(20, 8), bits(16, 4));
    Some(Processor {
        vendor: String::from_utf8_lossy(&vendor).into_owned(),
        family: if family == 15 { family + extended_family } else { family },
        model: if matches!(family, 6 | 15) { model + (extended_model << 4) } else { model },
    })
}

/// `None`: only x86-64 processors report their model.
#[cfg(not(target_arch = "x86_64"))]
pub fn processor() -> Option<Processor> {
    None
}

/// A kind of part, such as a package or a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachinePart {
    /// hwloc's name of the kind: `Machine`, `Package`, `NUMANode`, `L3Cache`, `Core` and so on.
    pub kind: String,
    /// Whether one part of this kind contains all processors on which the calling thread may run.
    pub is_single: bool,
}

/// All kinds of parts in sysfs. `Machine` is always present.
pub fn parts() -> Vec<MachinePart> {
    let allowed: BTreeSet<usize> = cpus::allowed().unwrap_or_default().into_iter().collect();
    parts_in(Path::new(SYSTEM), &allowed)
}

fn parts_in(system: &Path, allowed: &BTreeSet<usize>) -> Vec<MachinePart> {
    let mut parts = vec![MachinePart { kind: "Machine".to_owned(), is_single: true }];
    let Some(first) = allowed.first() else { return parts };
    let mut add = |kind: &str, members: BTreeSet<usize>| {
        // A list without the processor belongs to another part, or is broken.
        if members.contains(first) && parts.iter().all(|part| part.kind != kind) {
            parts.push(MachinePart {
                kind: kind.to_owned(),
                is_single: allowed.is_subset(&members),
            });
        }
    };
    let cpu = system.join(format!("cpu/cpu{first}"));
    add("Package", list(&cpu.join("topology/package_cpus_list")));
    for node in entries(&system.join("node"), "node") {
        add("NUMANode", list(&node.join("cpulist")));
    }
    for cache in entries(&cpu.join("cache"), "index") {
        let read = |name: &str| std::fs::read_to_string(cache.join(name)).unwrap_or_default();
        if read("type").trim() != "Instruction" {
            add(&format!("L{}Cache", read("level").trim()), list(&cache.join("shared_cpu_list")));
        }
    }
    add("Core", list(&cpu.join("topology/core_cpus_list")));
    add("PU", BTreeSet::from([*first]));
    parts
}

/// The processors that share a data cache with `cpu`, itself included; `None` without sysfs.
pub fn cache_mates(cpu: usize) -> Option<BTreeSet<usize>> {
    cache_mates_in(Path::new(SYSTEM), cpu)
}

fn cache_mates_in(system: &Path, cpu: usize) -> Option<BTreeSet<usize>> {
    let caches = entries(&system.join(format!("cpu/cpu{cpu}/cache")), "index").into_iter();
    let of_data = caches.filter(|cache| {
        std::fs::read_to_string(cache.join("type")).is_ok_and(|kind| kind.trim() != "Instruction")
    });
    let mates: BTreeSet<usize> =
        of_data.flat_map(|cache| list(&cache.join("shared_cpu_list"))).collect();
    mates.contains(&cpu).then_some(mates)
}

/// The directories in `directory` whose names are `prefix` and a number, sorted by number.
fn entries(directory: &Path, prefix: &str) -> Vec<std::path::PathBuf> {
    let number =
        |path: &Path| path.file_name()?.to_str()?.strip_prefix(prefix)?.parse::<usize>().ok();
    let all = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<_> =
        all.filter_map(|entry| Some((number(&entry.path())?, entry.path()))).collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// The numbers in a file such as `0-3,8,10-11`; empty if there is no such file.
fn list(file: &Path) -> BTreeSet<usize> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (from.parse::<usize>().ok()?, to.parse::<usize>().ok()?);
        // No kernel supports 2^20 processors: a larger number means that the list is broken.
        (to < 1 << 20).then_some(from..=to)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn parts_are_single_if_all_processors_are_in_one() {
        let system = std::env::temp_dir().join(format!("oxmpi-hardware-{}", std::process::id()));
        write(&system.join("cpu/cpu2/topology/package_cpus_list"), "0-7\n");
        write(&system.join("cpu/cpu2/topology/core_cpus_list"), "2,6\n");
        write(&system.join("cpu/cpu2/cache/index0/level"), "1\n");
        write(&system.join("cpu/cpu2/cache/index0/type"), "Data\n");
        write(&system.join("cpu/cpu2/cache/index0/shared_cpu_list"), "2,6\n");
        write(&system.join("cpu/cpu2/cache/index3/level"), "3\n");
        write(&system.join("cpu/cpu2/cache/index3/type"), "Unified\n");
        write(&system.join("cpu/cpu2/cache/index3/shared_cpu_list"), "0-3\n");
        write(&system.join("node/node0/cpulist"), "0-1,4-5\n");
        write(&system.join("node/node1/cpulist"), "2-3,6-7\n");
        let of = |allowed: &[usize]| {
            let parts = parts_in(&system, &allowed.iter().copied().collect());
            parts.into_iter().map(|part| (part.kind, part.is_single)).collect::<Vec<_>>()
        };
        let want = |single: [bool; 7]| {
            let kinds = ["Machine", "Package", "NUMANode", "L1Cache", "L3Cache", "Core", "PU"];
            kinds.map(str::to_owned).into_iter().zip(single).collect::<Vec<_>>()
        };
        assert_eq!(of(&[2, 6]), want([true, true, true, true, false, true, false]));
        assert_eq!(of(&[2]), want([true; 7]));
        assert_eq!(of(&[2, 3]), want([true, true, true, false, true, false, false]));
        assert_eq!(of(&[2, 8]), want([true, false, false, false, false, false, false]));
        assert_eq!(of(&[]), want([true; 7])[..1]);
        write(&system.join("cpu/cpu2/cache/index1/type"), "Instruction\n");
        write(&system.join("cpu/cpu2/cache/index1/shared_cpu_list"), "0-7\n");
        assert_eq!(cache_mates_in(&system, 2), Some(BTreeSet::from([0, 1, 2, 3, 6])));
        assert_eq!(cache_mates_in(&system, 3), None);
        std::fs::remove_dir_all(&system).unwrap();
    }

    #[test]
    fn this_machine_is_one() {
        let parts = parts();
        assert_eq!(parts[0], MachinePart { kind: "Machine".to_owned(), is_single: true });
        let pu = parts.iter().find(|part| part.kind == "PU").unwrap();
        assert_eq!(pu.is_single, cpus::allowed().unwrap().len() == 1);
    }
}
