//! Memory, limits, cores and clock of this machine.

use std::fs::read_to_string;
use std::os::fd::OwnedFd;

use oxmpi_os::cpus;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::process::{Resource, getrlimit};

use super::{Finding, good, note, problem};

/// Bytes that are tried out: less than any rank's segment.
const TRIED_BYTES: u64 = 1 << 20;

/// Whether shared memory can be made as ranks need it. They use no file, so the size of /dev/shm does not matter.
pub(super) fn memory() -> Finding {
    let make = || -> std::io::Result<()> {
        let fd: OwnedFd = memfd_create("oxmpi", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, TRIED_BYTES)?;
        // Memory is given when it is written, and a limit shows then.
        let written = rustix::io::write(&fd, &[1; 65536])?;
        if written == 65536 {
            Ok(())
        } else {
            Err(std::io::Error::other(format!("{written} of 65536 bytes were written")))
        }
    };
    match make() {
        Ok(()) => good("shared memory", "memory for segments can be made (memfd); /dev/shm is not used"),
        Err(error) => problem(
            "shared memory",
            format!("no memory for segments (memfd_create): {error}"),
            "in a container, allow memfd_create in its seccomp profile and raise its limit of memory; see 'ulimit -f'",
        ),
    }
}

pub(super) fn limits() -> Vec<Finding> {
    let show = |limit: Option<u64>| limit.map_or("unlimited".to_string(), |limit| limit.to_string());
    let files = getrlimit(Resource::Nofile);
    let text = format!("open files: {} now, {} at most", show(files.current), show(files.maximum));
    // mpirun has some descriptors for each rank, and raises its own limit as far as it may.
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
        Some(most) if most < 1024 => {
            note("limits", text, "jobs of many ranks need more: 'ulimit -u', or pids.max of the container")
        }
        _ => good("limits", text),
    };
    let locked = show(getrlimit(Resource::Memlock).current);
    let pinned = good("limits", format!("locked memory: {locked} bytes; no transport of OxMPI pins memory"));
    vec![open, started, pinned]
}

pub(super) fn cores() -> Vec<Finding> {
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
            format!("the kernel does not tell its clock: {error}"),
            "nothing, if jobs are fast enough",
        ),
    }
}
