//! The processors that this process may use.

use std::io;

/// The numbers of the processors on which the calling thread may run (sched_getaffinity(2)).
pub fn allowed() -> io::Result<Vec<usize>> {
    // The kernel refuses a set smaller than its own, whose size it does not report.
    let mut words = 16;
    loop {
        let mut set = vec![0u64; words];
        // SAFETY: the kernel writes at most `words * 8` bytes to `set`.
        let written =
            unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, words * 8, set.as_mut_ptr()) };
        if written >= 0 {
            let cpus = 0..words * 64;
            return Ok(cpus.filter(|cpu| set[cpu / 64] >> (cpu % 64) & 1 != 0).collect());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) || words >= 1 << 16 {
            return Err(error);
        }
        words *= 2;
    }
}

/// The number of processors whose time this process may use: those of [`allowed`], or fewer if its
/// control group has a quota. At least 1.
pub fn usable() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The number of times that the kernel has taken the processor from the calling thread
/// (proc_pid_status(5)); `None` if the kernel does not report it.
pub fn preemptions() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:")?.trim().parse().ok())
}

/// A core: processors that share execution units and first-level caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Core {
    /// The package (socket) number.
    pub package: usize,
    /// The number of the nearest NUMA node.
    pub numa: usize,
    /// The processors of this core on which the calling thread may run, in ascending order.
    pub cpus: Vec<usize>,
}

/// [`cores`], after a check that the calling thread may be bound: a seccomp profile can forbid
/// that.
pub fn bindable_cores() -> io::Result<Vec<Core>> {
    let named =
        |call| move |error: io::Error| io::Error::new(error.kind(), format!("{call}: {error}"));
    let cores = cores().map_err(named("sched_getaffinity"))?;
    let mut set = Vec::new();
    cores.iter().flat_map(|core| &core.cpus).for_each(|cpu| add(&mut set, *cpu));
    bind(&set).map_err(named("sched_setaffinity"))?;
    Ok(cores)
}

/// The cores on which the calling thread may run, sorted by package. Errors: as [`allowed`].
/// Without topology files in sysfs each processor counts as a core.
pub fn cores() -> io::Result<Vec<Core>> {
    let mut cores = cores_of(&allowed()?, |cpu, name| {
        std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}")).ok()
    });
    let nodes = numa_nodes();
    for core in &mut cores {
        let of_core =
            |(_, cpus): &&(usize, Vec<usize>)| core.cpus.iter().any(|cpu| cpus.contains(cpu));
        core.numa = nodes.iter().find(of_core).map_or(0, |(node, _)| *node);
    }
    Ok(cores)
}

fn numa_nodes() -> Vec<(usize, Vec<usize>)> {
    let Ok(entries) = std::fs::read_dir("/sys/devices/system/node") else { return Vec::new() };
    let of_entry = |entry: std::fs::DirEntry| {
        let node = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        Some((node, numbers(&std::fs::read_to_string(entry.path().join("cpulist")).ok()?)))
    };
    entries.flatten().filter_map(of_entry).collect()
}

/// Groups processors into cores. `read` returns a topology file of one processor of each core.
fn cores_of(allowed: &[usize], read: impl Fn(usize, &str) -> Option<String>) -> Vec<Core> {
    let mut cores: Vec<Core> = Vec::new();
    let mut done = std::collections::BTreeSet::new();
    for &cpu in allowed {
        if !done.insert(cpu) {
            continue;
        }
        let siblings = read(cpu, "core_cpus_list").or_else(|| read(cpu, "thread_siblings_list"));
        let siblings = siblings.map(|list| numbers(&list)).unwrap_or_default();
        let mut cpus: Vec<usize> = siblings
            .into_iter()
            .filter(|s| allowed.contains(s) && (*s == cpu || done.insert(*s)))
            .collect();
        if !cpus.contains(&cpu) {
            cpus.push(cpu);
        }
        cpus.sort_unstable();
        // Machines without packages have -1 in this file.
        let package =
            read(cpu, "physical_package_id").and_then(|id| id.trim().parse().ok()).unwrap_or(0);
        cores.push(Core { package, numa: 0, cpus });
    }
    cores.sort_by_key(|core| core.package);
    cores
}

/// The numbers of a list such as `0-2,8`.
fn numbers(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse::<usize>().ok()?)
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Binds the calling thread, and threads that it starts later, to one processor. Errors:
/// `InvalidInput` if there is no such processor or this process may not use it.
pub fn set_cpu(cpu: usize) -> io::Result<()> {
    let mut set = Vec::new();
    add(&mut set, cpu);
    bind(&set).map_err(|error| {
        io::Error::new(error.kind(), format!("cannot bind to processor {cpu}: {error}"))
    })
}

/// Bit `n % 64` of word `n / 64` is processor `n`.
fn add(set: &mut Vec<u64>, cpu: usize) {
    if set.len() <= cpu / 64 {
        set.resize(cpu / 64 + 1, 0);
    }
    set[cpu / 64] |= 1 << (cpu % 64);
}

fn bind(set: &[u64]) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of_val(set)` bytes from `set`.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(set), set.as_ptr()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_bind_to_each_allowed_processor() {
        let all = allowed().unwrap();
        assert!(!all.is_empty() && (1..=all.len()).contains(&usable()));
        for cpu in all {
            std::thread::spawn(move || {
                set_cpu(cpu).unwrap();
                assert_eq!(allowed().unwrap(), [cpu]);
            })
            .join()
            .unwrap();
        }
    }

    #[test]
    fn processors_are_grouped_by_core_and_package() {
        // Two packages of two cores of two processors, in the numbering that the kernel uses.
        let read = |cpu: usize, name: &str| match name {
            "core_cpus_list" => Some(format!("{},{}\n", cpu % 4, cpu % 4 + 4)),
            "physical_package_id" => Some(format!("{}\n", cpu % 2)),
            _ => None,
        };
        let core = |package, cpus: &[usize]| Core { package, numa: 0, cpus: cpus.to_vec() };
        assert_eq!(
            cores_of(&[0, 1, 2, 3, 4, 5, 6, 7], read),
            [core(0, &[0, 4]), core(0, &[2, 6]), core(1, &[1, 5]), core(1, &[3, 7])]
        );
        assert_eq!(cores_of(&[1, 4], read), [core(0, &[4]), core(1, &[1])]);
        assert_eq!(cores_of(&[3, 9], |_, _| None), [core(0, &[3]), core(0, &[9])]);
        assert_eq!(numbers("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(numbers("x,-,3-1"), []);
    }

    #[test]
    fn every_allowed_processor_belongs_to_one_core() {
        let mut all: Vec<usize> = cores().unwrap().into_iter().flat_map(|core| core.cpus).collect();
        all.sort_unstable();
        assert_eq!(all, allowed().unwrap());
    }

    #[test]
    fn the_kernel_counts_preemptions() {
        let before = preemptions().unwrap();
        assert!(preemptions().unwrap() >= before);
    }

    #[test]
    fn a_processor_that_is_not_there_is_named() {
        let error = set_cpu(60_000).unwrap_err();
        assert!(error.to_string().contains("60000"), "{error}");
    }
}
