//! Jobs with an image of each rank, over crtcp, which a new mpirun restarts.

use super::*;

/// Options for an image of each rank.
pub(super) const BY_RANK: [&str; 3] = ["--mca", "cr", "blcr"];

const OWN_FILE: [&str; 3] = ["250", "7", "own:data"];

pub(super) fn ranks_of(sandbox: &Sandbox) -> Vec<i32> {
    let all = processes_with(sandbox.programs.marker());
    let program = format!(": {}", sandbox.programs.path("cr_").display());
    let ranks = all.iter().filter(|line| line.contains(&program) && !line.contains("mpirun"));
    ranks.map(|line| line.split_once(':').unwrap().0.parse().unwrap()).collect()
}

pub(super) fn is_stopped(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

#[test]
fn heat_comes_back() {
    comes_back_by(&[], &BY_RANK, "cr_heat", &HEAT);
}

#[test]
fn traffic_comes_back() {
    comes_back_by(&[], &BY_RANK, "cr_traffic", &TRAFFIC);
}

#[test]
fn encrypted_traffic_comes_back() {
    let options = [&BY_RANK[..], &["--mca", "mpi_encrypt", "1"]].concat();
    comes_back_by(&[], &options, "cr_traffic", &OWN_FILE);
}

#[test]
fn each_rank_has_an_image_and_the_job_can_end_with_it() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let (code, alone) = sandbox.start(&BY_RANK, "cr_heat", &["300", "6000"]).end();
    assert_eq!(code, 0, "{alone}");
    let mut job = sandbox.start(&BY_RANK, "cr_heat", &["300", "6000"]);
    job.await_line("step");
    let pid = job.mpirun();
    let output = run(sandbox.oxmpi(&["checkpoint", &pid]));
    let set = set_of(&output);
    assert!(
        words(&output).contains(" of 4 ranks in ") && words(&output).contains(" s and goes on")
    );
    let entries = fs::read_dir(Path::new(&set).join("image")).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(
        names,
        ["appschema", "environment", "mpirun", "rank.0", "rank.1", "rank.2", "rank.3"]
    );
    job.await_line("step");
    let set = set_of(&run(sandbox.oxmpi(&["checkpoint", "--kill", &pid])));
    let (code, out) = job.end();
    assert_eq!(code, 75, "{out}");
    let report = format!(
        "mpirun: the job was checkpointed and has ended; 'oxmpi restart {set}' brings it back\n"
    );
    assert!(out.ends_with(&report), "{out}");
    let described = words(&run(sandbox.oxmpi(&["info", "--checkpoint", &set])));
    assert!(
        described.contains("an image of each rank") && described.contains("whole:      yes"),
        "{described}"
    );
    let (code, out) = restart(&sandbox, &set, &[]).end();
    assert_eq!((code, results(&out)), (0, results(&alone)), "{out}{}", restarted(&sandbox));
    await_nobody(&sandbox);
}

/// A rank need not call MPI. Its unread input and its unfinished lines are in the set.
#[test]
fn a_rank_that_computes_is_imaged_with_input_and_unfinished_lines() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_busy"]) else { return };
    let input = sandbox.programs.path("input");
    fs::write(&input, "1\n20\n300\n").unwrap();
    let is_busy = |pid: &i32| {
        let used = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
        used.split(' ')
            .next()
            .and_then(|ns| ns.parse::<u64>().ok())
            .is_some_and(|ns| ns > 400_000_000)
    };
    for stdin in [&[][..], &["-stdin", "all"]] {
        let mut command = sandbox.command("mpirun");
        command.stdin(File::open(&input).unwrap());
        let options = [&BY_RANK[..], &["--tag-output"], stdin].concat();
        let begun = Instant::now();
        let mut job = sandbox.start_by(command, &options, "cr_busy", &["3000"]);
        job.await_that("no rank computes", |_| ranks_of(&sandbox).iter().any(is_busy));
        let set = set_of(&run(sandbox.oxmpi(&["checkpoint", "--kill", &job.mpirun()])));
        let (code, out) = job.end();
        assert!(code == 75 && !out.contains("begins"), "it has waited for a call: {out}");
        let there = begun.elapsed();
        std::thread::sleep(Duration::from_secs(4));
        let begun = Instant::now();
        let mut job = restart(&sandbox, &set, &[]);
        job.await_that("nobody runs", |_| ranks_of(&sandbox).iter().any(is_busy));
        // The time between checkpoint and restart does not count as waiting.
        std::thread::sleep(Duration::from_millis(200));
        job.signal(Signal::USR1);
        job.await_that("nothing is said of waits", |job| job.text().contains("waiting for rank 1"));
        let since =
            job.text().split(" since ").nth(1).unwrap().split(' ').next().unwrap().to_string();
        let most = there + begun.elapsed();
        assert!(since.parse::<u64>().unwrap() <= most.as_secs() + 1, "{most:?}: {}", job.text());
        let (code, out) = job.end();
        assert_eq!(code, 0, "{out}{}", restarted(&sandbox));
        let lines = out.lines().filter(|line| line.ends_with(" begins a line and ends it")).count();
        assert!(lines == 4 && out.contains("] sum 18844, lines 321\n"), "{out}");
    }
}

#[test]
fn files_with_the_output_of_ranks_are_cut_back() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let (code, alone) = sandbox.start(&BY_RANK, "cr_heat", &["300", "6000"]).end();
    assert_eq!(code, 0, "{alone}");
    let options = [&BY_RANK[..], &["--output-filename", "files"]].concat();
    let mut job = sandbox.start(&options, "cr_heat", &["300", "6000"]);
    job.await_line("step");
    let set = set_of(&run(sandbox.oxmpi(&["checkpoint", &job.mpirun()])));
    job.await_line("step");
    job.lose();
    let file = sandbox.programs.directory.join("files/rank.0/stdout");
    let (code, out) = restart(&sandbox, &set, &[]).end();
    assert_eq!(code, 0, "{out}{}", restarted(&sandbox));
    assert!(
        restarted(&sandbox).contains("files/rank.0/stdout is cut back to "),
        "{}",
        restarted(&sandbox)
    );
    assert_eq!(results(&fs::read_to_string(file).unwrap()), results(&alone));
    assert_eq!(results(&out), results(&alone));
}

#[test]
fn a_restart_of_ranks_that_fails_says_rank_host_and_reason() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let directory = TestDirectory::new("remote");
    let remote = directory.remote_shell();
    let mut command = sandbox.command("mpirun");
    // The restart has the environment of the job.
    command.env("OXMPI_MCA_plm_rsh_agent", &remote).env("OXMPI_MCA_btl_tcp_if_include", "lo");
    let mut job = sandbox.start_by(command, &BY_RANK, "cr_heat", &["2000", "6000"]);
    job.await_line("step");
    let set = set_of(&run(sandbox.oxmpi(&["checkpoint", "--kill", &job.mpirun()])));
    job.lose();
    let was = fs::read(sandbox.programs.path("out")).unwrap();
    let text = format!(
        "#!/bin/sh\ncase \"$1 $*\" in restore*rank.1*) ;; *) exec {} \"$@\";; esac\nwhile [ \"$1\" != -W ]; do shift; done\n\
         [ -e {} ] && kill -9 $$\n\
         echo '(00.1) 1: Error (criu/files.c:1): The data (all) is gone' > \"$2/restore.log\"; exit 1\n",
        shell_word(&sandbox.criu),
        shell_word(&sandbox.programs.path("dies"))
    );
    let fails = sandbox.programs.file("fails", text.as_bytes(), 0o755);
    let fails = ["--mca", "cr_blcr_criu", fails.to_str().unwrap()];
    let hosts = ["--host", "a.invalid:4"];
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for (options, host) in [(&[][..], &*own), (&hosts, "a.invalid")] {
        for (reason, dies) in
            [("has failed (CRIU: The data (all) is gone)", false), ("was ended by signal 9", true)]
        {
            dies.then(|| File::create(sandbox.programs.path("dies")).unwrap());
            let output = run(sandbox.oxmpi(&[&["restart", &set], &fails[..], options].concat()));
            refused(&output, 1, &[&format!("mpirun: host '{host}': rank 1: CRIU "), reason]);
            assert_eq!(words(&output).matches("mpirun: ").count(), 1, "{}", words(&output));
            let _ = fs::remove_file(sandbox.programs.path("dies"));
        }
    }
    let is = fs::read(sandbox.programs.path("out")).unwrap();
    assert_eq!(String::from_utf8_lossy(&is), String::from_utf8_lossy(&was));
    await_nobody(&sandbox);
}

#[test]
fn the_commands_of_the_guide_make_an_image_of_each_rank_where_cr_blcr_is_chosen() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let mut job = sandbox.start(&BY_RANK, "cr_heat", &["2000", "6000"]);
    job.await_line("step");
    let pid = job.mpirun();
    let by_rank = |set: &str| Path::new(set).join("image/rank.0").is_dir();
    for (name, words, is_by_rank) in [
        ("lamcheckpoint", &["-ssi", "cr", "blcr", "-pid", &pid][..], true),
        ("lamcheckpoint", &["-pid", &pid], true),
        ("cr_checkpoint", &["--tree", &pid], false),
        ("cr_checkpoint", &["--kill", &pid], true),
    ] {
        let set = set_of(&run(with(sandbox.command(name), words)));
        assert_eq!(by_rank(&set), is_by_rank, "{name} {words:?}");
        assert_eq!(
            Path::new(&set).join("image/appschema").exists(),
            is_by_rank,
            "{name} {words:?}"
        );
    }
    job.lose();
}

/// A shell in a container may have such a descriptor: here the namespace is made after the
/// descriptor was opened.
#[test]
fn a_device_of_another_mount_namespace_comes_back_and_a_file_is_named() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let start = |opened: &str, options: &[&str]| {
        let like = sandbox.command("mpirun");
        // sh may accept only descriptors up to 9.
        let script =
            format!("exec {opened}; exec unshare -m sh -c 'exec \"$@\" >> out 2>&1' sh \"$@\"");
        sandbox.start_by(
            behind(&["bash", "-c", &script, "sh"], &like),
            options,
            "cr_heat",
            &["2000", "6000"],
        )
    };
    let checkpoint = |job: &ImagedJob<'_>, options: &[&str]| {
        let like = sandbox.oxmpi(&[&["checkpoint"], options, &[&job.mpirun()]].concat());
        run(behind(&["nsenter", &format!("--mount=/proc/{}/ns/mnt", job.mpirun()), "--"], &like))
    };
    for (options, form) in [(&BY_RANK[..], &["--kill"][..]), (&[], &["--tree", "--kill"])] {
        let mut job = start("10< /dev/null 12> /dev/full", options);
        job.await_line("step");
        let set = set_of(&checkpoint(&job, form));
        job.lose();
        let mut job = restart(&sandbox, &set, &[]);
        assert!(job.goes_on(), "{}", restarted(&sandbox));
        let rank = ranks_of(&sandbox)[0];
        let of = |number: u32| fs::read_link(format!("/proc/{rank}/fd/{number}")).unwrap();
        assert_eq!((of(10), of(12)), ("/dev/null".into(), "/dev/full".into()));
        job.await_line("step");
        job.lose();
    }
    let mut job = start("11< /etc/passwd", &BY_RANK);
    job.await_line("step");
    for form in [&[][..], &["--tree"]] {
        let report =
            "has descriptor 11 open, /etc/passwd, which was opened in another mount namespace";
        refused(&checkpoint(&job, form), 1, &["there is no new set", report, "'mpirun ... 11>&-'"]);
    }
    job.lose();
}

#[test]
fn the_file_of_further_output_is_reported() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let (out, directory) =
        (sandbox.programs.path("out"), sandbox.programs.directory.display().to_string());
    let whole = format!("oxmpi restart: output goes on in {}\n", out.display());
    let of_ranks = format!(
        "oxmpi restart: output goes on in {directory}/f/rank.*/stdout, errors in {directory}/f/rank.*/stderr\n"
    );
    let file = sandbox.programs.directory.join("f/rank.0/stdout");
    let nocopy = [&BY_RANK[..], &["--output-filename", "f:nocopy"]].concat();
    let gate = sandbox.programs.path("gate");
    for (options, form, (first, report)) in
        [(&[][..], &["--tree"][..], (&out, &whole)), (&nocopy, &[], (&file, &of_ranks))]
    {
        let mut job = sandbox.start(options, "cr_heat", &["60", "1000", gate.to_str().unwrap()]);
        job.await_that("no step", |_| {
            fs::read_to_string(first).is_ok_and(|text| text.contains("step"))
        });
        let set = set_of(&run(
            sandbox.oxmpi(&[&["checkpoint"], form, &["--kill", &job.mpirun()]].concat())
        ));
        job.end();
        File::create(&gate).unwrap();
        let output = run(sandbox.oxmpi(&["restart", &set]));
        assert!(output.status.success(), "{}", words(&output));
        assert_eq!(words(&output).matches("goes on in").count(), 1, "{}", words(&output));
        assert!(words(&output).contains(report), "{}", words(&output));
        assert!(fs::read_to_string(first).unwrap().contains("sum "), "{}", first.display());
        fs::remove_file(&gate).unwrap();
    }
}

#[test]
fn the_exit_code_the_signals_and_the_streams_are_those_of_the_job_too() {
    keeps_code_signals_and_streams(&BY_RANK, "own:data", &[]);
}

#[test]
fn a_crash_of_the_tool_lets_the_ranks_go_on() {
    survives_crashes(&BY_RANK, &[]);
}

fn criu_after(sandbox: &Sandbox, line: &str) -> PathBuf {
    let criu = shell_word(&sandbox.criu);
    let script = format!("#!/bin/sh\n[ \"$1\" = dump ] && {line}\nexec {criu} \"$@\"\n");
    sandbox.programs.file("criu_after", script.as_bytes(), 0o755)
}

#[test]
fn a_job_that_ends_during_its_image_is_reported() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let mut job = sandbox.start(&[], "cr_heat", &["6000", "6000"]);
    job.await_line("step");
    let mut request = sandbox.oxmpi(&["checkpoint", "--tree", &job.mpirun()]);
    request
        .env("OXMPI_MCA_cr_blcr_criu", criu_after(&sandbox, &format!("kill -9 {}", job.mpirun())));
    refused(&run(request), 1, &["there is no new set: the job has ended meanwhile (CRIU "]);
    job.lose();
}

#[test]
fn a_signal_during_the_images_ends_the_job_without_a_set() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let mut job = sandbox.start(&BY_RANK, "cr_heat", &["6000", "6000"]);
    job.await_line("step");
    let slow = criu_after(&sandbox, "sleep 1");
    let mut request = sandbox.oxmpi(&["checkpoint", &job.mpirun()]);
    request.env("OXMPI_MCA_cr_blcr_criu", &slow).stdout(Stdio::piped()).stderr(Stdio::piped());
    let tool = request.spawn().unwrap();
    job.await_that("they do not stand still", |_| {
        let ranks = ranks_of(&sandbox);
        ranks.len() == 4 && ranks.into_iter().all(is_stopped)
    });
    refused(
        &run(sandbox.oxmpi(&["quiesce", &job.mpirun()])),
        1,
        &["images of the job are being made"],
    );
    job.signal(Signal::TERM);
    refused(&tool.wait_with_output().unwrap(), 1, &["there is no new set"]);
    let (code, out) = job.end();
    assert!(code == 143 && out.contains("mpirun: SIGTERM"), "{code} {out}");
    assert!(sandbox.names().is_empty(), "{:?}", sandbox.names());
    await_nobody(&sandbox);
}

#[test]
fn a_job_is_imaged_rank_by_rank_at_intervals_and_at_sigterm() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let args = ["700", "6000"];
    let (code, alone) = sandbox.start(&BY_RANK, "cr_heat", &args).end();
    assert_eq!(code, 0, "{alone}");
    let options =
        [&BY_RANK[..], &["--every", "0.4s", "--checkpoint-on-term", "--mca", "cr_keep", "1"]]
            .concat();
    let mut job = sandbox.start(&options, "cr_heat", &args);
    job.await_that("no second set", |_| numbers(&sandbox).last().is_some_and(|last| *last >= 2));
    job.lose();
    let name = sandbox
        .sets()
        .join(set_names(&sandbox)[0].rsplit_once('.').unwrap().0)
        .display()
        .to_string();
    let last = numbers(&sandbox).pop().unwrap();
    let mut job = restart(&sandbox, &name, &[]);
    job.await_that("no set after the restart", |_| {
        numbers(&sandbox).last().is_some_and(|new| *new > last)
    });
    job.signal(Signal::TERM);
    let (code, out) = job.end();
    let report = restarted(&sandbox);
    assert_eq!(code, 75, "{out}{report}");
    assert!(
        report.contains("oxmpi restart: SIGTERM: the job was checkpointed and has ended; "),
        "{report}"
    );
    await_nobody(&sandbox);
    let set = format!("{name}.{}", numbers(&sandbox).pop().unwrap());
    let mut job = restart(&sandbox, &set, &["--every", "none"]);
    assert!(job.goes_on());
    job.signal(Signal::KILL);
    await_nobody(&sandbox);
    job.lose();
    let (code, out) = restart(&sandbox, &set, &["--every", "none"]).end();
    assert_eq!((code, results(&out)), (0, results(&alone)), "{out}{}", restarted(&sandbox));
}

#[test]
fn jobs_that_cannot_be_imaged_by_rank_are_reported() {
    let Some(sandbox) =
        Sandbox::new(&["jobs/cr_heat", "jobs/cr_left", "jobs/cr_shared", "jobs/quiesced_port"])
    else {
        return;
    };
    let heat = sandbox.programs.path("cr_heat").display().to_string();
    let left = sandbox.programs.path("cr_left").display().to_string();
    let port = sandbox.programs.path("quiesced_port").display().to_string();
    let (marker, file) =
        (sandbox.programs.marker(), sandbox.programs.path("port").display().to_string());
    let script = format!(
        "'{heat}' 2000 6000 {marker} & sleep 1; if [ $OXMPI_COMM_WORLD_RANK = 0 ]; then '{}' checkpoint $PPID; \
         else sleep 2; fi; kill $!",
        installed("oxmpi").display()
    );
    let mut command = sandbox.command("mpirun");
    command.args(["-n", "2", "--timeout", "60"]).args(BY_RANK).args(["sh", "-c", &script]);
    let output = run(command);
    assert!(
        words(&output).contains("a process of the job cannot ask for it"),
        "{}",
        words(&output)
    );
    for (program, reason) in [
        (&["sleep", "60"][..], "rank 0 has not called MPI_Init yet: try again when it has"),
        (&[&left, marker], "rank 1 has called MPI_Finalize"),
        (&[&port, "0", &file, marker], "a port is open (MPI_Open_port)"),
    ] {
        let mut job = sandbox.command("mpirun");
        job.args(["-n", "2"])
            .args(BY_RANK)
            .args(program)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut job = job.spawn().unwrap();
        let start = Instant::now();
        loop {
            let output = run(sandbox.oxmpi(&["checkpoint", &job.id().to_string()]));
            if words(&output).contains(reason) {
                assert_eq!(output.status.code(), Some(1));
                break;
            }
            assert!(start.elapsed() < LIMIT, "{}", words(&output));
            std::thread::sleep(Duration::from_millis(10));
        }
        job.kill().unwrap();
        job.wait().unwrap();
    }
    let mut job = sandbox.start(&BY_RANK, "cr_shared", &[]);
    job.await_line("shared");
    let together = "ranks 0 and 1 share memory (a shared window, MPI_Win_allocate_shared";
    refused(&run(sandbox.oxmpi(&["checkpoint", &job.mpirun()])), 1, &[together, "(--tree)"]);
    let set = set_of(&run(sandbox.oxmpi(&["checkpoint", "--tree", "--kill", &job.mpirun()])));
    job.lose();
    let on_one = "--host a.invalid: the set has one image of all processes together";
    refused(&run(sandbox.oxmpi(&["restart", &set, "--host", "a.invalid"])), 2, &[on_one]);
    let (code, out) = restart(&sandbox, &set, &[]).end();
    assert!(code == 0 && out.contains("whole"), "{code} {out}{}", restarted(&sandbox));
    refused(
        &run(with(
            sandbox.command("mpirun"),
            &["--oxmpi-resume", "/nonexistent", "-n", "2", "true"],
        )),
        1,
        &["--oxmpi-resume is for 'oxmpi restart', not for you: /nonexistent/plan"],
    );
}

/// Another host with the same directory: another name, network and PID namespace.
#[test]
fn a_job_goes_on_on_another_host() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_traffic"]) else { return };
    let (code, alone) = sandbox.start(&BY_RANK, "cr_traffic", &OWN_FILE).end();
    assert_eq!(code, 0, "{alone}");
    let mut job = sandbox.start(&BY_RANK, "cr_traffic", &OWN_FILE);
    job.await_line("round");
    let set = set_of(&run(sandbox.oxmpi(&["checkpoint", &job.mpirun()])));
    job.lose();
    let mut inside = Command::new("unshare");
    inside.args(["--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]);
    inside.arg("ip link set lo up && hostname elsewhere && setsid --wait \"$0\" restart \"$1\"");
    inside
        .arg(installed("oxmpi"))
        .arg(&set)
        .stdin(Stdio::null())
        .current_dir(&sandbox.programs.directory);
    inside.env("OXMPI_MCA_cr_blcr_criu", &sandbox.criu).env("OXMPI_PARAM_FILES", "none");
    let output = run(inside);
    let report = words(&output);
    assert!(
        output.status.success() && report.contains("and goes on here, on elsewhere"),
        "{report}"
    );
    let out = fs::read_to_string(sandbox.programs.path("out")).unwrap();
    assert_eq!(results(&out), results(&alone), "{report}");
}

fn take_number(number: u32) -> std::process::Child {
    let start = Instant::now();
    // Another process may still have to reap the last process with this number.
    while start.elapsed() < LIMIT {
        fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string()).unwrap();
        let mut child = Command::new("sleep").arg("100").stdin(Stdio::null()).spawn().unwrap();
        if child.id() == number {
            return child;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("process number {number} is not to be had");
}

/// The ranks keep their numbers in a PID namespace. Without the right to make one the restart is
/// refused.
#[test]
fn ranks_whose_numbers_are_taken_go_on_in_a_namespace() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_traffic"]) else { return };
    let args = ["600", "7", "own:data"];
    let (code, alone) = sandbox.start(&BY_RANK, "cr_traffic", &args).end();
    assert_eq!(code, 0, "{alone}");
    let mut job = sandbox.start(&BY_RANK, "cr_traffic", &args);
    job.await_line("round");
    let rank = ranks_of(&sandbox)[0].cast_unsigned();
    let set = set_of(&run(sandbox.oxmpi(&["checkpoint", &job.mpirun()])));
    refused(&run(sandbox.oxmpi(&["restart", &set])), 1, &["the job runs still: ", "(cr_traffic)"]);
    job.lose();
    await_nobody(&sandbox);
    let mut holder = take_number(rank);
    let like = sandbox.oxmpi(&["restart", &set]);
    let named = format!("these are in use: {rank} (sleep)");
    let command = without_capabilities("-sys_admin", &like);
    refused(
        &run(command),
        1,
        &[&named, "unshare -p -f --mount-proc oxmpi restart SET", "CAP_SYS_ADMIN"],
    );
    let mut job = restart(&sandbox, &set, &[]);
    assert!(job.goes_on(), "{}", restarted(&sandbox));
    assert!(ranks_of(&sandbox).len() == 4 && holder.try_wait().unwrap().is_none());
    let said = format!(
        "ranks 0, 1, 2, 3 go on in a PID namespace, as their process numbers are in use: {rank} (sleep)"
    );
    assert!(
        job.text().contains(&said) || restarted(&sandbox).contains(&said),
        "{}{}",
        job.text(),
        restarted(&sandbox)
    );
    let set = set_of(&run(sandbox.oxmpi(&["checkpoint", &job.mpirun()])));
    job.await_line("round");
    job.lose();
    await_nobody(&sandbox);
    let (code, out) = restart(&sandbox, &set, &[]).end();
    assert_eq!((code, results(&out)), (0, results(&alone)), "{out}{}", restarted(&sandbox));
    await_nobody(&sandbox);
    holder.kill().unwrap();
    holder.wait().unwrap();
}
