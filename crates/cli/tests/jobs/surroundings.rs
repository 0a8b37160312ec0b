//! Narrow surroundings: no shared memory directory to speak of, nothing writable, few descriptors, few processors,
//! small buffers.

use std::process::Command;

use crate::harness::{Outcome, Programs, SOON, compile, installed, kill};

/// Runs a shell script; it finds mpirun in $MPIRUN, and the marker as its first argument.
fn script(programs: &Programs, private_mounts: bool, text: &str) -> Command {
    let mut command = Command::new(if private_mounts { "unshare" } else { "sh" });
    if private_mounts {
        command.args(["--mount", "sh"]);
    }
    command.args(["-c", text, "sh"]).arg(programs.directory.file_name().unwrap());
    command.env("MPIRUN", installed("mpirun"));
    command
}

/// Whether mounts of our own are permitted; says so if not.
fn may_mount() -> bool {
    let may = Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|s| s.success());
    if !may {
        eprintln!("skipped: 'unshare --mount' is not permitted here");
    }
    may
}

fn run(programs: &Programs, private_mounts: bool, text: &str) -> Outcome {
    programs.start(script(programs, private_mounts, text)).end()
}

#[test]
fn a_tiny_dev_shm_is_not_needed() {
    if !may_mount() {
        return;
    }
    let p = compile(&["jobs/children", "p2p_large"]);
    let outcome = run(
        &p,
        true,
        "mount -t tmpfs -o size=64k tmpfs /dev/shm || exit 99
         $MPIRUN -n 4 --timeout 50 ./children exit $1 && $MPIRUN -n 2 --timeout 50 ./p2p_large $1 || exit
         test -z \"$(ls -A /dev/shm)\" && echo nothing left",
    );
    assert!(outcome.code == 0 && outcome.out.ends_with("ok\nnothing left\n"), "{outcome:?}");
}

#[test]
fn a_killed_job_leaves_no_file_in_dev_shm() {
    if !may_mount() {
        return;
    }
    let p = compile(&["jobs/stuck"]);
    let mut job = p.start(script(
        &p,
        true,
        "mount -t tmpfs -o size=64k tmpfs /dev/shm || exit 99
         $MPIRUN -n 2 --timeout 50 ./stuck transfer $1 &
         echo rank 99 $!; wait
         test -z \"$(ls -A /dev/shm)\" && echo nothing left",
    ));
    kill(job.pids(3)[&99]);
    let outcome = job.end_within(SOON);
    assert!(outcome.code == 0 && outcome.out.ends_with("nothing left\n"), "{outcome:?}");
}

#[test]
fn nothing_needs_to_be_writable() {
    if !may_mount() {
        return;
    }
    let p = compile(&["jobs/children"]);
    let outcome = run(
        &p,
        true,
        "for d in / /tmp /var/tmp /run /dev/shm; do
             mountpoint -q $d && { mount -o remount,ro,bind $d || exit 99; }
         done
         if touch /tmp/$1 /dev/shm/$1 2>/dev/null; then exit 98; fi
         unset TMPDIR HOME
         exec $MPIRUN -n 4 --timeout 50 ./children exit $1",
    );
    outcome.is_fine(4, " of 4");
}

#[test]
fn few_descriptors_are_enough_or_the_error_is_clear() {
    let p = compile(&["jobs/many"]);
    // The soft limit is raised by mpirun for itself.
    run(&p, false, "ulimit -S -n 64; exec $MPIRUN -n 8 --timeout 50 ./many work $1").is_fine(8, " of 8");
    let outcome = run(&p, false, "ulimit -n 64; exec $MPIRUN -n 8 --timeout 50 ./many work $1");
    assert_eq!((outcome.code, outcome.out.as_str()), (1, ""), "{outcome:?}");
    let text = "mpirun: 8 ranks need 72 open files in mpirun, but its limit is 64: raise the hard limit";
    assert!(outcome.err.starts_with(text), "{outcome:?}");
    run(&p, false, "ulimit -n 72; exec $MPIRUN -n 8 --timeout 50 ./many work $1").is_fine(8, " of 8");
}

#[test]
fn without_locked_memory() {
    let p = compile(&["jobs/many"]);
    run(&p, false, "ulimit -l 0; exec $MPIRUN -n 4 --timeout 50 ./many work $1").is_fine(4, " of 4");
}

#[test]
fn many_ranks_on_few_processors() {
    let p = compile(&["jobs/many"]);
    p.run(64, &[], "many", &["work"]).is_fine(64, " of 64");
    p.run(64, &["--mca", "rpi", "tcp"], "many", &["work"]).is_fine(64, " of 64");
    p.run(200, &[], "many", &["init"]).is_fine(200, " of 200");
}

#[test]
fn many_ranks_end_right_after_their_first_messages() {
    let p = compile(&["finalize_learn"]);
    p.run(60, &[], "finalize_learn", &[]).is_fine(1, "ok");
    p.run(60, &["--mca", "rpi", "tcp"], "finalize_learn", &[]).is_fine(1, "ok");
}

#[test]
fn small_buffers_lose_nothing() {
    let p = compile(&["p2p_basic", "coll_basic"]);
    for options in [
        &["single_copy", "off"][..],
        &["shm_ring_slots", "256", "shm_ring_data_bytes", "512k", "shm_pool_bytes", "256k"],
        &["shm_inbox_cells", "4"],
        &["shm_ring_slots", "4"],
        &["shm_ring_data_bytes", "32k"],
        &["shm_max_rings", "0"],
        &["shm_max_rings", "1"],
        &["shm_eager_limit_bytes", "0"],
        &["shm_ring_after", "0"],
        &["shm_inbox_cells", "4", "shm_ring_slots", "4", "shm_max_rings", "1", "single_copy", "off"],
    ] {
        let mca: Vec<&str> = options.chunks(2).flat_map(|pair| ["--mca", pair[0], pair[1]]).collect();
        for program in ["p2p_basic", "coll_basic"] {
            let outcome = p.run(4, &mca, program, &[]);
            assert_eq!((outcome.code, outcome.out.as_str()), (0, "ok\n"), "{options:?} {outcome:?}");
        }
    }
}

#[test]
fn sockets_of_any_size_lose_nothing() {
    let p = compile(&["p2p_basic", "coll_basic"]);
    for options in [
        &["rpi_tcp_short", "0"][..],
        &["rpi_tcp_short", "1m"],
        &["rpi_tcp_sockbuf", "0"],
        &["rpi_tcp_sockbuf", "4m", "rpi_tcp_short", "200k"],
    ] {
        let mut mca = vec!["--mca", "rpi", "tcp"];
        mca.extend(options.chunks(2).flat_map(|pair| ["--mca", pair[0], pair[1]]));
        for program in ["p2p_basic", "coll_basic"] {
            let outcome = p.run(4, &mca, program, &[]);
            assert_eq!((outcome.code, outcome.out.as_str()), (0, "ok\n"), "{options:?} {outcome:?}");
        }
    }
}

#[test]
fn sockets_use_the_interfaces_that_are_named() {
    let p = compile(&["p2p_basic"]);
    let run =
        |name: &str, value: &str| p.run(2, &["--mca", "rpi", "tcp", "--mca", name, value], "p2p_basic", &[]);
    for include in ["lo", "127.0.0.0/8"] {
        run("btl_tcp_if_include", include).is_fine(1, "ok");
    }
    for name in ["btl_tcp_if_include", "btl_tcp_if_exclude"] {
        let outcome = run(name, "lo, nosuch9");
        assert_eq!((outcome.code, outcome.out.as_str()), (2, ""), "{outcome:?}");
        let text = format!(
            "rpi tcp: parameter '{name}': this host has no interface 'nosuch9'; it has lo (127.0.0.1/8)"
        );
        assert!(outcome.err.contains(&text), "{outcome:?}");
    }
}
