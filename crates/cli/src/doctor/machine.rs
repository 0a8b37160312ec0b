//! Memory, limits, control group, cores and clock of this machine.

use std::fs::read_to_string;
use std::os::fd::OwnedFd;

use oxmpi_param::Params;
use oxmpi_rt_client::client::Client;
use oxmpi_sys::{cpus, nameless};
use rustix::process::{Resource, getrlimit};

use super::{Finding, good, note, problem};

/// The length of the test allocation in bytes: less than any rank's segment.
const TRIED_BYTES: u64 = 1 << 20;

/// Checks that the kernel gives memory for segments. They have no file, so the size of /dev/shm
/// does not matter.
pub(super) fn memory() -> Finding {
    let make = || -> std::io::Result<()> {
        Client::singleton(&Params::default()).map_err(std::io::Error::other)?;
        let fd: OwnedFd = nameless::create("oxmpi")?;
        nameless::set_length(&fd, TRIED_BYTES)?;
        // The kernel allocates pages at the first write, so a memory limit shows only then.
        let written = rustix::io::write(&fd, &[1; 65536])?;
        if written == 65536 {
            Ok(())
        } else {
            Err(std::io::Error::other(format!("{written} of 65536 bytes were written")))
        }
    };
    match make() {
        Ok(()) => match nameless::denied() {
            None => good(
                "shared memory",
                "memory for segments can be made (memfd); /dev/shm is not used",
            ),
            Some(error) => note(
                "shared memory",
                format!(
                    "memfd_create is denied ({error}): segments are files without a name in /dev/shm, TMPDIR or /tmp"
                ),
                "jobs need room there, or die of SIGBUS; in a container, allow memfd_create in its seccomp profile",
            ),
        },
        Err(error) => problem(
            "shared memory",
            format!("no memory for segments: {error}"),
            "in a container, allow memfd_create in its seccomp profile and raise its limit of memory; see 'ulimit -f'",
        ),
    }
}

/// The limits of this process. `has_fabric`: jobs on several hosts use a network whose adapter
/// accesses the memory of processes.
pub(super) fn limits(has_fabric: bool) -> Vec<Finding> {
    let show =
        |limit: Option<u64>| limit.map_or("unlimited".to_string(), |limit| limit.to_string());
    let files = getrlimit(Resource::Nofile);
    let text = format!("open files: {} now, {} at most", show(files.current), show(files.maximum));
    // mpirun holds some descriptors for each rank, and raises its soft limit up to the hard one.
    let open = match files.maximum {
        Some(most) if most < 4096 => note(
            "limits",
            text,
            "jobs of many ranks need more: raise the hard limit ('ulimit -Hn', limits.conf)",
        ),
        _ => good("limits", text),
    };
    let processes = getrlimit(Resource::Nproc).current;
    let text = format!("processes: {}", show(processes));
    let started = match processes {
        Some(most) if most < 1024 => note(
            "limits",
            text,
            "jobs of many ranks need more: 'ulimit -u', or pids.max of the container",
        ),
        _ => good("limits", text),
    };
    let locked = getrlimit(Resource::Memlock).current;
    let text = format!(
        "locked memory: {} bytes; the transports ib, gm, ofi and portals4 lock some",
        show(locked)
    );
    let pinned = match locked {
        Some(_) if has_fabric => note(
            "limits",
            text,
            "jobs over the network of this host need more: 'ulimit -l unlimited', limits.conf",
        ),
        _ => good("limits", text),
    };
    vec![open, started, pinned, file_size(), control_group()]
}

/// The least file size limit in bytes at which a rank's segment has its full length.
const WHOLE_SEGMENT: u64 = 2 << 30;

/// The kernel counts a memfd as a file, so this limit shortens segments too.
fn file_size() -> Finding {
    match getrlimit(Resource::Fsize).current {
        Some(most) if most < WHOLE_SEGMENT => note(
            "limits",
            format!(
                "size of files: {most} bytes, which holds for a rank's segment too: MPI_Alloc_mem has less room"
            ),
            "raise it: 'ulimit -f unlimited'",
        ),
        most => {
            let most = most.map_or("unlimited".to_string(), |most| format!("{most} bytes"));
            good("limits", format!("size of files: {most}, enough for segments"))
        }
    }
}

/// The least memory of a control group that is enough for some ranks, in bytes.
const LITTLE_MEMORY: u64 = 512 << 20;
/// The least number of processes and threads of a control group that is enough for some ranks.
const FEW_PROCESSES: u64 = 256;

/// The limits of a container or a batch system for memory and processes (cgroups(7), version 2).
fn control_group() -> Finding {
    let group = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = group.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let (memory, processes) = (lowest(path, "memory.max"), lowest(path, "pids.max"));
    judge_group(memory, processes)
}

/// The lowest limit of a group and its ancestors. `None`: no group has a limit.
fn lowest(path: &str, file: &str) -> Option<u64> {
    let root = std::path::Path::new("/sys/fs/cgroup");
    let own = root.join(path.trim_start_matches('/'));
    let groups = own.ancestors().take_while(|group| group.starts_with(root));
    groups.filter_map(|group| read_to_string(group.join(file)).ok()?.trim().parse().ok()).min()
}

fn judge_group(memory: Option<u64>, processes: Option<u64>) -> Finding {
    let show = |limit: Option<u64>, unit: &str| {
        limit.map_or("no limit".to_string(), |most| format!("{most}{unit}"))
    };
    let text = format!(
        "control group: memory {}, processes {}",
        show(memory, " bytes"),
        show(processes, "")
    );
    if memory.is_some_and(|most| most < LITTLE_MEMORY) {
        return note(
            "limits",
            text,
            "segments count as memory of the ranks, which are killed when it runs out: raise memory.max ('--memory' of a container)",
        );
    }
    if processes.is_some_and(|most| most < FEW_PROCESSES) {
        return note(
            "limits",
            text,
            "jobs of many ranks need more: raise pids.max ('--pids-limit' of a container)",
        );
    }
    good("limits", text)
}

pub(super) fn cores() -> Vec<Finding> {
    if let Err(error) = cpus::bindable_cores() {
        return vec![note(
            "cores",
            format!("the kernel keeps ranks from being bound to cores: {error}"),
            "jobs run unbound; in a container, allow sched_getaffinity and sched_setaffinity in its seccomp profile",
        )];
    }
    let (allowed, usable) = (cpus::allowed().map_or(0, |all| all.len()), cpus::usable());
    let cores = cpus::cores().map_or(0, |all| all.len());
    let text = format!("{allowed} processors of {cores} cores may be used");
    if usable < allowed {
        let text = format!("{text}, but a control group leaves the time of {usable}");
        return vec![note(
            "cores",
            text,
            "ranks are not bound to cores then, and more ranks than that take turns: raise cpu.max, or start fewer ranks",
        )];
    }
    vec![good("cores", text)]
}

pub(super) fn clock() -> Finding {
    let source = read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    match source.as_deref().map(str::trim) {
        Ok("tsc" | "arch_sys_counter" | "kvm-clock" | "hyperv_clocksource_tsc_page") => good(
            "clock",
            format!("the kernel's clock is '{}', which is fast", source.unwrap_or_default().trim()),
        ),
        Ok(other) => note(
            "clock",
            format!("the kernel's clock is '{other}': reading the time takes a system call"),
            "MPI_Wtime and waiting are slower; see 'clocksource=tsc' and 'tsc=reliable' of the kernel",
        ),
        Err(error) => note(
            "clock",
            format!("the kernel does not report its clock: {error}"),
            "nothing, if jobs are fast enough",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;

    #[test]
    fn tight_control_groups_are_reported() {
        assert_eq!(judge_group(None, None).severity, Severity::Good);
        for (memory, processes, word) in [
            (Some(1 << 20), None, "memory.max"),
            (None, Some(10), "pids.max"),
            (Some(1), Some(1), "memory.max"),
        ] {
            let found = judge_group(memory, processes);
            assert_eq!(found.severity, Severity::Note);
            assert!(found.remedy.as_deref().unwrap_or_default().contains(word), "{found:?}");
        }
    }
}
