//! Jobs over the guide's postboxes, usysv and sysv: the effect of their parameters, and their
//! remains.

use rustix::process::Signal;

use super::harness::{SOON, await_sleep, compile};

#[test]
fn postboxes_and_pools_of_any_size_lose_nothing() {
    let p = compile(&["postboxes", "p2p_derived"]);
    for options in [
        &["rpi", "usysv", "rpi_ssi_usysv_short", "64", "rpi_usysv_shmpoolsize", "64k"][..],
        &["rpi", "sysv", "rpi_ssi_sysv_short", "100", "rpi_ssi_sysv_shmpoolsize", "64k"],
        &["rpi", "sysv", "rpi_sysv_shmpoolsize", "64k", "rpi_sysv_pollyield", "0"],
        &["rpi", "usysv", "rpi_usysv_shmmaxalloc", "4000", "rpi_usysv_readlockpoll", "0"],
        &["rpi", "usysv", "rpi_usysv_pollyield", "0", "rpi_usysv_writelockpoll", "0"],
        &["rpi", "sysv", "rpi_ssi_sysv_shmmaxalloc", "1m", "rpi_sysv_shmpoolsize", "0"],
        &["rpi", "usysv", "mpi_virtual_nodes", "2"],
        &["rpi", "sysv", "mpi_virtual_nodes", "3", "rpi_tcp_short", "1000"],
        &["rpi", "sysv", "rpi_sysv_semaphores", "1", "rpi_sysv_shmpoolsize", "64k"],
        &[
            "rpi",
            "sysv",
            "rpi_ssi_sysv_semaphores",
            "1",
            "rpi_ssi_sysv_short",
            "100",
            "rpi_sysv_pollyield",
            "0",
        ],
        &["rpi_usysv_priority", "90"],
        &["rpi_sysv_priority", "90"],
    ] {
        let mca: Vec<&str> =
            options.chunks(2).flat_map(|pair| ["--mca", pair[0], pair[1]]).collect();
        for (ranks, program) in [(4, "postboxes"), (7, "postboxes"), (2, "p2p_derived")] {
            let outcome = p.run(ranks, &mca, program, &[]);
            assert_eq!(
                (outcome.code, outcome.out.as_str()),
                (0, "ok\n"),
                "{options:?} {outcome:?}"
            );
        }
    }
}

#[test]
fn the_segment_is_gone_when_mpirun_is_killed() {
    let p = compile(&["jobs/stuck"]);
    for transport in ["usysv", "sysv"] {
        let mut job = p.start(p.mpirun(4, &["--mca", "rpi", transport], "stuck", &["recv"]));
        let pids = job.pids(4);
        for &pid in pids.values() {
            await_sleep(pid);
        }
        // The segment has no name in a file system: it is reachable only through a process that
        // maps it.
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", pids[&0])).unwrap();
        assert!(maps.contains("/memfd:oxmpi-postboxes (deleted)"), "{maps}");
        let shared = std::fs::read_dir("/dev/shm").map_or(0, |files| {
            let names = files.flatten().map(|file| file.file_name().to_string_lossy().into_owned());
            names.filter(|name| name.contains("oxmpi")).count()
        });
        assert_eq!(shared, 0);
        job.signal(Signal::KILL);
        job.end_within(SOON);
        for pid in pids.values() {
            assert!(
                !std::path::Path::new(&format!("/proc/{pid}/exe")).exists(),
                "rank {pid} has it still"
            );
        }
    }
}
