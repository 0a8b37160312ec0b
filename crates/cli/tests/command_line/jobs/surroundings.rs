//! Narrow surroundings: little or no shared memory, nothing writable, few descriptors, few
//! processors, small buffers.

use std::process::Command;

use super::harness::{Outcome, Programs, SOON, compile, installed, kill};
use crate::support::skip;

/// Runs a shell script with mpirun in $MPIRUN, and the marker as its first argument.
fn script(programs: &Programs, private_mounts: bool, text: &str) -> Command {
    let mut command = Command::new(if private_mounts { "unshare" } else { "sh" });
    if private_mounts {
        command.args(["--mount", "sh"]);
    }
    command.args(["-c", text, "sh"]).arg(programs.directory.file_name().unwrap());
    command.env("MPIRUN", installed("mpirun")).env("OXMPI", installed("oxmpi"));
    command
}

fn may_mount() -> bool {
    let may = Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|s| s.success());
    if !may {
        skip("'unshare --mount' is not permitted here");
    }
    may
}

fn run(programs: &Programs, private_mounts: bool, text: &str) -> Outcome {
    programs.start(script(programs, private_mounts, text)).end()
}

/// The installation has a file with the blocks of the library that valgrind counts as lost.
#[test]
fn valgrind_reports_no_memory_of_the_library() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return skip("there is no valgrind");
    }
    let p = compile(&["jobs/level"]);
    let file = installed("mpirun").with_file_name("../share/oxmpi/valgrind.supp");
    let mut command = Command::new(installed("mpirun"));
    command.args(["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"]);
    command
        .arg(format!("--suppressions={}", file.display()))
        .arg(p.path("level"))
        .args(["3", p.marker()]);
    let outcome = p.start(command).end();
    assert_eq!((outcome.code, outcome.out.as_str(), outcome.err.as_str()), (0, "level 3\n", ""));
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
         \"$MPIRUN\" -n 4 --timeout 50 ./children exit $1 && \"$MPIRUN\" -n 2 --timeout 50 ./p2p_large $1 || exit
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
         \"$MPIRUN\" -n 2 --timeout 50 ./stuck transfer $1 &
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
         exec \"$MPIRUN\" -n 4 --timeout 50 ./children exit $1",
    );
    outcome.is_fine(4, " of 4");
}

#[test]
fn few_descriptors_are_enough_or_the_error_is_clear() {
    let p = compile(&["jobs/many"]);
    run(&p, false, "ulimit -S -n 64; exec \"$MPIRUN\" -n 9 --timeout 50 ./many work $1")
        .is_fine(9, " of 9");
    let outcome = run(&p, false, "ulimit -n 64; exec \"$MPIRUN\" -n 9 --timeout 50 ./many work $1");
    assert_eq!((outcome.code, outcome.out.as_str()), (1, ""), "{outcome:?}");
    let text =
        "mpirun: 9 ranks need 69 open files in mpirun, but its limit is 64: raise the hard limit";
    assert!(outcome.err.starts_with(text), "{outcome:?}");
    run(&p, false, "ulimit -n 69; exec \"$MPIRUN\" -n 9 --timeout 50 ./many work $1")
        .is_fine(9, " of 9");
}

#[test]
fn jobs_run_with_64_open_files_also_over_sockets() {
    let p = compile(&["jobs/many"]);
    run(&p, false, "ulimit -n 64; exec \"$MPIRUN\" -n 8 --timeout 50 ./many work $1")
        .is_fine(8, " of 8");
    run(&p, false, "ulimit -n 64; exec \"$MPIRUN\" -n 2 --mca rpi tcp --timeout 50 ./many work $1")
        .is_fine(2, " of 2");
}

#[test]
fn a_home_that_cannot_be_read_is_left_out_with_a_warning() {
    let p = compile(&["jobs/many"]);
    // Root may read any file, but not a directory of this kind.
    let home = "mkdir -p home/.oxmpi; ln -sf mca-params.conf home/.oxmpi/mca-params.conf; export HOME=\"$PWD/home\";";
    let outcome =
        run(&p, false, &format!("{home} exec \"$MPIRUN\" -n 2 --timeout 50 ./many work $1"));
    assert_eq!((outcome.code, outcome.out.matches(" of 2").count()), (0, 2), "{outcome:?}");
    let said = outcome.err.trim_end();
    assert!(
        said.starts_with("mpirun: warning: parameter file ") && said.lines().count() == 1,
        "{outcome:?}"
    );
    assert!(
        said.contains("/home/.oxmpi/mca-params.conf: Too many levels of symbolic links"),
        "{outcome:?}"
    );
    run(&p, false, &format!("{home} ./many work $1")).is_fine(1, " of 1");
    let report = run(&p, false, &format!("{home} exec \"$OXMPI\" doctor"));
    assert!(report.out.contains("note     parameters     parameter file "), "{report:?}");
    let named = run(
        &p,
        false,
        &format!(
            "{home} OXMPI_PARAM_FILES=$HOME/.oxmpi/mca-params.conf \"$MPIRUN\" -n 2 --timeout 50 ./many work $1"
        ),
    );
    assert!(named.code == 2 && named.err.contains("Too many levels"), "{named:?}");
}

#[test]
fn jobs_run_without_denied_system_calls() {
    let p = compile(&["jobs/deny", "jobs/many", "p2p_large"]);
    for error in [1, 38] {
        for (calls, options) in [
            ("memfd_create", ""),
            ("memfd_create", "--mca rpi usysv"),
            ("memfd_create", "--mca rpi lamd"),
            ("sched_getaffinity", ""),
            ("sched_setaffinity", ""),
            ("sched_getaffinity,sched_setaffinity", ""),
        ] {
            let deny = format!("./deny {error} {calls}");
            let text =
                format!("exec {deny} \"$MPIRUN\" -n 2 --timeout 50 {options} ./many work $1");
            run(&p, false, &text).is_fine(2, " of 2");
            run(&p, false, &format!("exec {deny} ./many work $1")).is_fine(1, " of 1");
        }
        let large = run(
            &p,
            false,
            &format!("exec ./deny {error} memfd_create \"$MPIRUN\" -n 2 ./p2p_large $1"),
        );
        large.is_fine(1, "ok");
    }
}

#[test]
fn the_effects_of_denied_calls_are_reported() {
    let p = compile(&["jobs/deny", "jobs/many"]);
    let bind = "exec ./deny 1 sched_setaffinity \"$MPIRUN\" --bind-to core -n 2 --timeout 50 ./many work $1";
    let outcome = run(&p, false, bind);
    assert_eq!((outcome.code, outcome.out.matches(" of 2").count()), (0, 2), "{outcome:?}");
    let refused =
        "the ranks are not bound: the kernel refuses: sched_setaffinity: Operation not permitted";
    assert!(outcome.err.contains(refused), "{outcome:?}");
    for (call, area) in [("memfd_create", "shared memory"), ("sched_getaffinity", "cores")] {
        let report = run(&p, false, &format!("exec ./deny 1 {call} \"$OXMPI\" doctor"));
        let is_reported = report
            .out
            .lines()
            .any(|line| line.starts_with("note") && line.contains(area) && line.contains(call));
        assert!(is_reported && report.code == 0, "{report:?}");
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_named_by_the_process_that_it_stops() {
    let p = compile(&["jobs/many"]);
    let limit = "'ulimit -f unlimited'";
    for command in ["\"$MPIRUN\" -n 2 --timeout 50 ./many work $1", "./many work $1"] {
        let outcome = run(&p, false, &format!("ulimit -f 8; {command}"));
        assert!(
            outcome.code != 0 && outcome.err.contains("cannot make a segment: it is a file of"),
            "{outcome:?}"
        );
        assert!(outcome.err.contains(limit), "{outcome:?}");
        run(&p, false, &format!("ulimit -f 100000; {command}"))
            .is_fine(1 + usize::from(command.contains("-n 2")), " of ");
    }
    let report = run(&p, false, "ulimit -f 8; exec \"$OXMPI\" doctor");
    assert!(
        report.code == 1
            && report.out.contains("PROBLEM  shared memory")
            && report.out.contains(limit),
        "{report:?}"
    );
}

#[test]
fn without_proc_jobs_run_and_the_installation_is_found() {
    if !may_mount() {
        return;
    }
    let p = compile(&["jobs/many"]);
    let hidden = "mount -t tmpfs tmpfs /proc || exit 99;";
    for options in ["", "--mca rpi tcp", "--mca rpi lamd"] {
        let text = format!("{hidden} exec \"$MPIRUN\" -n 2 --timeout 50 {options} ./many work $1");
        run(&p, true, &text).is_fine(2, " of 2");
    }
    run(&p, true, &format!("{hidden} exec ./many work $1")).is_fine(1, " of 1");
    let report = run(&p, true, &format!("{hidden} exec \"$OXMPI\" info"));
    assert!(!report.out.contains("not installed"), "{report:?}");
}

#[test]
fn without_locked_memory() {
    let p = compile(&["jobs/many"]);
    run(&p, false, "ulimit -l 0; exec \"$MPIRUN\" -n 4 --timeout 50 ./many work $1")
        .is_fine(4, " of 4");
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
        &[
            "shm_inbox_cells",
            "4",
            "shm_ring_slots",
            "4",
            "shm_max_rings",
            "1",
            "single_copy",
            "off",
        ],
    ] {
        let mca: Vec<&str> =
            options.chunks(2).flat_map(|pair| ["--mca", pair[0], pair[1]]).collect();
        for program in ["p2p_basic", "coll_basic"] {
            let outcome = p.run(4, &mca, program, &[]);
            assert_eq!(
                (outcome.code, outcome.out.as_str()),
                (0, "ok\n"),
                "{options:?} {outcome:?}"
            );
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
            assert_eq!(
                (outcome.code, outcome.out.as_str()),
                (0, "ok\n"),
                "{options:?} {outcome:?}"
            );
        }
    }
}

#[test]
fn sockets_use_the_interfaces_that_are_named() {
    let p = compile(&["p2p_basic"]);
    let run = |name: &str, value: &str| {
        p.run(2, &["--mca", "rpi", "tcp", "--mca", name, value], "p2p_basic", &[])
    };
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

mod night {
    use super::*;

    /// In their own network namespaces, whose packets rank 0 makes the kernel refuse.
    #[test]
    #[ignore = "cargo xtask nightly"]
    fn the_end_of_mpi_fails_if_messages_are_lost() {
        let up = "ip link set lo up && exec \"$@\"";
        let may = Command::new("unshare").args(["--net", "sh", "-c", "iptables -L"]).output();
        if !may.is_ok_and(|o| o.status.success()) {
            skip("'unshare --net' or iptables is not permitted here");
            return;
        }
        let p = compile(&["jobs/lost"]);
        let jobs = [("world", "MPI_Finalize"), ("session", "MPI_Session_finalize")].map(
            |(user, function)| {
                let mpirun = p.mpirun(2, &["--mca", "rpi", "tcp"], "lost", &[user]);
                let mut command = Command::new("unshare");
                command.args(["--net", "sh", "-c", up, "sh"]);
                command.arg(mpirun.get_program()).args(mpirun.get_args());
                (p.start(command), function)
            },
        );
        for (job, function) in jobs {
            let outcome = job.end();
            let is_reported = |text: &str| outcome.err.contains(text);
            assert!(
                outcome.code != 0 && is_reported(function) && is_reported("messages are lost"),
                "{outcome:?}"
            );
        }
    }

    /// The other end accepts a connection and resets it with the first bytes: it is no rank. The
    /// job ends within seconds.
    #[test]
    #[ignore = "cargo xtask nightly"]
    fn a_rank_whose_address_resets_each_connection_is_named_with_host_and_address() {
        let rule = "ip link set lo up && iptables -A INPUT -p tcp -m length --length 100:65535 -j REJECT --reject-with tcp-reset";
        let may = Command::new("unshare")
            .args(["--net", "sh", "-c", rule])
            .output()
            .is_ok_and(|o| o.status.success());
        if !may {
            skip("'unshare --net' or iptables is not permitted here");
            return;
        }
        let p = compile(&["p2p_basic"]);
        let mpirun = p.mpirun(2, &["--mca", "rpi", "tcp"], "p2p_basic", &[]);
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", &format!("{rule} && exec \"$@\""), "sh"]);
        command.arg(mpirun.get_program()).args(mpirun.get_args());
        let outcome = p.start(command).end();
        let place = format!(" on interface lo of host {}", oxmpi_sys::host::name());
        for text in [" over sockets: ", "the last address was 127.0.0.1:", &place, "ended the job"]
        {
            assert!(outcome.code != 0 && outcome.err.contains(text), "{text}: {outcome:?}");
        }
    }
}
