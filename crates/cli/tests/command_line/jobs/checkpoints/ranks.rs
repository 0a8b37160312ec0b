//! Jobs of which each rank is imaged by itself, over crtcp, and brought back by a new mpirun.

use super::*;

/// What makes the images of a job be those of its ranks.
pub(super) const BY_RANK: [&str; 3] = ["--mca", "cr", "blcr"];

/// As [`TRAFFIC`], and each rank opens the file by itself.
const OWN_FILE: [&str; 3] = ["250", "7", "own:data"];

/// The processes of a job that are ranks, by their marker.
pub(super) fn ranks_of(place: &Place) -> Vec<i32> {
    let all = processes_with(place.programs.marker());
    let program = format!(": {}", place.programs.path("cr_").display());
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

/// Keys and numbers of an old connection are not used again.
#[test]
fn encrypted_traffic_comes_back() {
    let options = [&BY_RANK[..], &["--mca", "mpi_encrypt", "1"]].concat();
    comes_back_by(&[], &options, "cr_traffic", &OWN_FILE);
}

/// The images are those of the ranks, and mpirun has none.
#[test]
fn each_rank_has_an_image_and_the_job_can_end_with_it() {
    let Some(place) = Place::new(&["jobs/cr_heat"]) else { return };
    let (code, alone) = place.start(&BY_RANK, "cr_heat", &["300", "6000"]).end();
    assert_eq!(code, 0, "{alone}");
    let mut job = place.start(&BY_RANK, "cr_heat", &["300", "6000"]);
    job.await_line("step");
    let pid = job.mpirun();
    let output = run(place.oxmpi(&["checkpoint", &pid]));
    let set = set_of(&output);
    assert!(words(&output).contains(" of 4 ranks in ") && words(&output).contains(" s and goes on"));
    let entries = fs::read_dir(Path::new(&set).join("image")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["appschema", "environment", "mpirun", "rank.0", "rank.1", "rank.2", "rank.3"]);
    job.await_line("step");
    // Now it ends with it, and says so.
    let set = set_of(&run(place.oxmpi(&["checkpoint", "--kill", &pid])));
    let (code, out) = job.end();
    assert_eq!(code, 75, "{out}");
    let told =
        format!("mpirun: the job was checkpointed and has ended; 'oxmpi restart {set}' brings it back\n");
    assert!(out.ends_with(&told), "{out}");
    let described = words(&run(place.oxmpi(&["info", "--checkpoint", &set])));
    assert!(
        described.contains("an image of each rank") && described.contains("whole:      yes"),
        "{described}"
    );
    let (code, out) = restart(&place, &set, &[]).end();
    assert_eq!((code, results(&out)), (0, results(&alone)), "{out}{}", restarted(&place));
    await_nobody(&place);
}

/// Nobody has to call MPI; what a rank has not read of its input, and lines without an end, are in the set.
#[test]
fn a_rank_that_computes_is_imaged_with_input_and_unfinished_lines() {
    let Some(place) = Place::new(&["jobs/cr_busy"]) else { return };
    let input = place.programs.path("input");
    fs::write(&input, "1\n20\n300\n").unwrap();
    let is_busy = |pid: &i32| {
        let used = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
        used.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).is_some_and(|ns| ns > 400_000_000)
    };
    for stdin in [&[][..], &["-stdin", "all"]] {
        let mut command = place.command("mpirun");
        command.stdin(File::open(&input).unwrap());
        let options = [&BY_RANK[..], &["--tag-output"], stdin].concat();
        let begun = Instant::now();
        let mut job = place.start_by(command, &options, "cr_busy", &["3000"]);
        job.await_that("no rank computes", |_| ranks_of(&place).iter().any(is_busy));
        let set = set_of(&run(place.oxmpi(&["checkpoint", "--kill", &job.mpirun()])));
        let (code, out) = job.end();
        assert!(code == 75 && !out.contains("begins"), "it has waited for a call: {out}");
        let there = begun.elapsed();
        std::thread::sleep(Duration::from_secs(4));
        let begun = Instant::now();
        let mut job = restart(&place, &set, &[]);
        job.await_that("nobody runs", |_| ranks_of(&place).iter().any(is_busy));
        // Who waits has not waited for longer by having been away.
        std::thread::sleep(Duration::from_millis(200));
        job.signal(Signal::USR1);
        job.await_that("nothing is said of waits", |job| job.text().contains("waiting for rank 1"));
        let since = job.text().split(" since ").nth(1).unwrap().split(' ').next().unwrap().to_string();
        let most = there + begun.elapsed();
        assert!(since.parse::<u64>().unwrap() <= most.as_secs() + 1, "{most:?}: {}", job.text());
        let (code, out) = job.end();
        assert_eq!(code, 0, "{out}{}", restarted(&place));
        let lines = out.lines().filter(|line| line.ends_with(" begins a line and ends it")).count();
        assert!(lines == 4 && out.contains("] sum 18844, lines 321\n"), "{out}");
    }
}

/// Output that goes to files of its own is cut back with all others.
#[test]
fn files_with_the_output_of_ranks_are_cut_back() {
    let Some(place) = Place::new(&["jobs/cr_heat"]) else { return };
    let (code, alone) = place.start(&BY_RANK, "cr_heat", &["300", "6000"]).end();
    assert_eq!(code, 0, "{alone}");
    let options = [&BY_RANK[..], &["--output-filename", "files"]].concat();
    let mut job = place.start(&options, "cr_heat", &["300", "6000"]);
    job.await_line("step");
    let set = set_of(&run(place.oxmpi(&["checkpoint", &job.mpirun()])));
    job.await_line("step");
    job.lose();
    let file = place.programs.directory.join("files/rank.0/stdout");
    let (code, out) = restart(&place, &set, &[]).end();
    assert_eq!(code, 0, "{out}{}", restarted(&place));
    assert!(restarted(&place).contains("files/rank.0/stdout is cut back to "), "{}", restarted(&place));
    assert_eq!(results(&fs::read_to_string(file).unwrap()), results(&alone));
    assert_eq!(results(&out), results(&alone));
}

/// The files of the job do not get the reason: the terminal does, with the rank and its host.
#[test]
fn a_restart_of_ranks_that_fails_says_rank_host_and_reason() {
    let Some(place) = Place::new(&["jobs/cr_heat"]) else { return };
    let remote = place.programs.file("remote", b"#!/bin/sh\nshift; exec sh -c \"$*\"\n", 0o755);
    let mut command = place.command("mpirun");
    // The restart has the environment of the job.
    command.env("OXMPI_MCA_plm_rsh_agent", &remote).env("OXMPI_MCA_btl_tcp_if_include", "lo");
    let mut job = place.start_by(command, &BY_RANK, "cr_heat", &["2000", "6000"]);
    job.await_line("step");
    let set = set_of(&run(place.oxmpi(&["checkpoint", "--kill", &job.mpirun()])));
    job.lose();
    let was = fs::read(place.programs.path("out")).unwrap();
    let text = format!(
        "#!/bin/sh\ncase \"$1 $*\" in restore*rank.1*) ;; *) exec {} \"$@\";; esac\nwhile [ \"$1\" != -W ]; do shift; done\n\
         [ -e {} ] && kill -9 $$\n\
         echo '(00.1) 1: Error (criu/files.c:1): The data (all) is gone' > \"$2/restore.log\"; exit 1\n",
        place.criu.display(),
        place.programs.path("dies").display()
    );
    let fails = place.programs.file("fails", text.as_bytes(), 0o755);
    let fails = ["--mca", "cr_blcr_criu", fails.to_str().unwrap()];
    let hosts = ["--host", "a.invalid:4"];
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    for (options, host) in [(&[][..], &*own), (&hosts, "a.invalid")] {
        for (reason, dies) in
            [("has failed (CRIU: The data (all) is gone)", false), ("was ended by signal 9", true)]
        {
            dies.then(|| File::create(place.programs.path("dies")).unwrap());
            let output = run(place.oxmpi(&[&["restart", &set], &fails[..], options].concat()));
            refused(&output, 1, &[&format!("mpirun: host '{host}': rank 1: CRIU "), reason]);
            assert_eq!(words(&output).matches("mpirun: ").count(), 1, "{}", words(&output));
            let _ = fs::remove_file(place.programs.path("dies"));
        }
    }
    let is = fs::read(place.programs.path("out")).unwrap();
    assert_eq!(String::from_utf8_lossy(&is), String::from_utf8_lossy(&was));
    await_nobody(&place);
}

#[test]
fn the_commands_of_the_guide_make_an_image_of_each_rank_where_cr_blcr_is_chosen() {
    let Some(place) = Place::new(&["jobs/cr_heat"]) else { return };
    let mut job = place.start(&BY_RANK, "cr_heat", &["2000", "6000"]);
    job.await_line("step");
    let pid = job.mpirun();
    let by_rank = |set: &str| Path::new(set).join("image/rank.0").is_dir();
    for (name, words, is_by_rank) in [
        ("lamcheckpoint", &["-ssi", "cr", "blcr", "-pid", &pid][..], true),
        ("lamcheckpoint", &["-pid", &pid], true),
        ("cr_checkpoint", &["--tree", &pid], false),
        ("cr_checkpoint", &["--kill", &pid], true),
    ] {
        let set = set_of(&run(with(place.command(name), words)));
        assert_eq!(by_rank(&set), is_by_rank, "{name} {words:?}");
        assert_eq!(Path::new(&set).join("image/appschema").exists(), is_by_rank, "{name} {words:?}");
    }
    job.lose();
}

/// As a shell has one that was entered into a container: here the namespace is made after the descriptor was opened.
#[test]
fn a_device_of_another_mount_namespace_comes_back_and_a_file_is_named() {
    let Some(place) = Place::new(&["jobs/cr_heat"]) else { return };
    let start = |opened: &str, options: &[&str]| {
        let like = place.command("mpirun");
        let mut command = Command::new("bash"); // sh may know descriptors to 9 alone
        let script = format!("exec {opened}; exec unshare -m sh -c 'exec \"$@\" >> out 2>&1' sh \"$@\"");
        command
            .args(["-c", &script, "sh"])
            .arg(like.get_program())
            .args(like.get_args())
            .stdin(Stdio::null());
        command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(&place.programs.directory);
        place.start_by(command, options, "cr_heat", &["2000", "6000"])
    };
    let checkpoint = |job: &Running<'_>, options: &[&str]| {
        let like = place.oxmpi(&[&["checkpoint"], options, &[&job.mpirun()]].concat());
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", job.mpirun())).arg("--");
        command.arg(like.get_program()).args(like.get_args()).stdin(Stdio::null());
        command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
        run(command)
    };
    for (options, form) in [(&BY_RANK[..], &["--kill"][..]), (&[], &["--tree", "--kill"])] {
        let mut job = start("10< /dev/null 12> /dev/full", options);
        job.await_line("step");
        let set = set_of(&checkpoint(&job, form));
        job.lose();
        let mut job = restart(&place, &set, &[]);
        assert!(job.goes_on(), "{}", restarted(&place));
        let rank = ranks_of(&place)[0];
        let of = |number: u32| fs::read_link(format!("/proc/{rank}/fd/{number}")).unwrap();
        assert_eq!((of(10), of(12)), ("/dev/null".into(), "/dev/full".into()));
        job.await_line("step");
        job.lose();
    }
    let mut job = start("11< /etc/passwd", &BY_RANK);
    job.await_line("step");
    for form in [&[][..], &["--tree"]] {
        let told = "has descriptor 11 open, /etc/passwd, which was opened in another mount namespace";
        refused(&checkpoint(&job, form), 1, &["there is no new set", told, "'mpirun ... 11>&-'"]);
    }
    job.lose();
}

/// The restart says in which files the output goes on.
#[test]
fn output_that_goes_on_in_a_file_is_told() {
    let Some(place) = Place::new(&["jobs/cr_heat"]) else { return };
    let (out, directory) = (place.programs.path("out"), place.programs.directory.display().to_string());
    let whole = format!("oxmpi restart: output goes on in {}\n", out.display());
    let of_ranks = format!(
        "oxmpi restart: output goes on in {directory}/f/rank.*/stdout, errors in {directory}/f/rank.*/stderr\n"
    );
    let file = place.programs.directory.join("f/rank.0/stdout");
    let nocopy = [&BY_RANK[..], &["--output-filename", "f:nocopy"]].concat();
    let gate = place.programs.path("gate");
    for (options, form, (first, told)) in
        [(&[][..], &["--tree"][..], (&out, &whole)), (&nocopy, &[], (&file, &of_ranks))]
    {
        let mut job = place.start(options, "cr_heat", &["60", "1000", gate.to_str().unwrap()]);
        job.await_that("no step", |_| fs::read_to_string(first).is_ok_and(|text| text.contains("step")));
        let set = set_of(&run(place.oxmpi(&[&["checkpoint"], form, &["--kill", &job.mpirun()]].concat())));
        job.end();
        File::create(&gate).unwrap();
        let output = run(place.oxmpi(&["restart", &set]));
        assert!(output.status.success(), "{}", words(&output));
        assert_eq!(words(&output).matches("goes on in").count(), 1, "{}", words(&output));
        assert!(words(&output).contains(told), "{}", words(&output));
        assert!(fs::read_to_string(first).unwrap().contains("sum "), "{}", first.display());
        fs::remove_file(&gate).unwrap();
    }
}

#[test]
fn the_exit_code_the_signals_and_the_streams_are_those_of_the_job_too() {
    keeps_code_signals_and_streams(&BY_RANK, "own:data", &[]);
}

/// The tool is killed at each step; the ranks go on, and the old set or the new one is there.
#[test]
fn a_crash_of_who_asks_lets_the_ranks_go_on() {
    let Some(place) = Place::new(&["jobs/cr_heat"]) else { return };
    let mut job = place.start(&BY_RANK, "cr_heat", &["6000", "6000"]);
    job.await_line("step");
    let (mpirun, pause) = (job.mpirun(), place.programs.path("pause"));
    let mut newest = set_of(&run(place.oxmpi(&["checkpoint", &mpirun])));
    for ends in [false, true] {
        for step in ["begun", "imaged", "synced", "sealed", "renamed", "published", "retired"] {
            let mut command = place.oxmpi(&["checkpoint", &mpirun, "--mca", "cr_keep", "0"]);
            command.args(ends.then_some("--kill"));
            command.env("OXMPI_CHECKPOINT_PAUSE", format!("{step}:{}", pause.display()));
            let mut asked = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let mut victim = None;
            job.await_that("the step is not reached", |_| {
                victim = fs::read_to_string(&pause).ok().and_then(|text| text.parse().ok());
                victim.is_some()
            });
            // While the images of a job that is to end are made safe, nothing goes on.
            let still = ranks_of(&place).into_iter().all(is_stopped);
            assert_eq!(still, ends && step != "begun", "{step}");
            kill(victim.unwrap());
            assert!(!asked.wait().unwrap().success(), "{step}");
            fs::remove_file(&pause).unwrap();
            job.await_line("step");
            let is_new = ["renamed", "published", "retired"].contains(&step);
            let name = newest.rsplit_once('.').unwrap().0.to_string();
            let output = run(place.oxmpi(&["info", "--checkpoint", &name]));
            assert!(output.status.success(), "{step}: {}", words(&output));
            let is_old = words(&output).contains(&format!("{newest}\n"));
            assert_eq!(is_old, !is_new, "{step}: {}", words(&output));
            newest = set_of(&run(place.oxmpi(&["checkpoint", &mpirun, "--mca", "cr_keep", "0"])));
            assert_eq!(place.names(), [newest.rsplit('/').next().unwrap()], "{step} leaves something");
        }
    }
    job.lose();
    let mut job = restart(&place, &newest, &[]);
    job.await_line("step");
    job.lose();
}

/// A program in the place of CRIU that runs a line of shell before CRIU makes an image.
fn criu_after(place: &Place, line: &str) -> PathBuf {
    let path = place.programs.path("criu_after");
    let script = format!("#!/bin/sh\n[ \"$1\" = dump ] && {line}\nexec '{}' \"$@\"\n", place.criu.display());
    fs::write(&path, script).unwrap();
    assert!(Command::new("chmod").arg("+x").arg(&path).status().unwrap().success());
    path
}

/// A job that ends while CRIU makes its image is not said to go on.
#[test]
fn a_job_that_ends_under_the_image_is_told() {
    let Some(place) = Place::new(&["jobs/cr_heat"]) else { return };
    let mut job = place.start(&[], "cr_heat", &["6000", "6000"]);
    job.await_line("step");
    let mut asks = place.oxmpi(&["checkpoint", "--tree", &job.mpirun()]);
    asks.env("OXMPI_MCA_cr_blcr_criu", criu_after(&place, &format!("kill -9 {}", job.mpirun())));
    refused(&run(asks), 1, &["there is no new set: the job has ended meanwhile (CRIU "]);
    job.lose();
}

/// A signal for the job comes while its images are made: it counts, and the images do not.
#[test]
fn a_signal_meanwhile_ends_the_job_and_makes_no_set() {
    let Some(place) = Place::new(&["jobs/cr_heat"]) else { return };
    let mut job = place.start(&BY_RANK, "cr_heat", &["6000", "6000"]);
    job.await_line("step");
    let slow = criu_after(&place, "sleep 1");
    let mut asks = place.oxmpi(&["checkpoint", &job.mpirun()]);
    asks.env("OXMPI_MCA_cr_blcr_criu", &slow).stdout(Stdio::piped()).stderr(Stdio::piped());
    let asked = asks.spawn().unwrap();
    job.await_that("they do not stand still", |_| {
        let ranks = ranks_of(&place);
        ranks.len() == 4 && ranks.into_iter().all(is_stopped)
    });
    refused(&run(place.oxmpi(&["quiesce", &job.mpirun()])), 1, &["images of the job are being made"]);
    job.signal(Signal::TERM);
    refused(&asked.wait_with_output().unwrap(), 1, &["there is no new set"]);
    let (code, out) = job.end();
    assert!(code == 143 && out.contains("mpirun: SIGTERM"), "{code} {out}");
    assert!(place.names().is_empty(), "{:?}", place.names());
    await_nobody(&place);
}

#[test]
fn a_job_is_imaged_rank_by_rank_at_intervals_and_at_sigterm() {
    let Some(place) = Place::new(&["jobs/cr_heat"]) else { return };
    let args = ["700", "6000"];
    let (code, alone) = place.start(&BY_RANK, "cr_heat", &args).end();
    assert_eq!(code, 0, "{alone}");
    let options =
        [&BY_RANK[..], &["--every", "0.4s", "--checkpoint-on-term", "--mca", "cr_keep", "1"]].concat();
    let mut job = place.start(&options, "cr_heat", &args);
    job.await_that("no second set", |_| numbers(&place).last().is_some_and(|last| *last >= 2));
    job.lose();
    let name = place.sets().join(set_names(&place)[0].rsplit_once('.').unwrap().0).display().to_string();
    let last = numbers(&place).pop().unwrap();
    let mut job = restart(&place, &name, &[]);
    job.await_that("no set after the restart", |_| numbers(&place).last().is_some_and(|new| *new > last));
    job.signal(Signal::TERM);
    let (code, out) = job.end();
    let told = restarted(&place);
    assert_eq!(code, 75, "{out}{told}");
    assert!(told.contains("oxmpi restart: SIGTERM: the job was checkpointed and has ended; "), "{told}");
    await_nobody(&place);
    let set = format!("{name}.{}", numbers(&place).pop().unwrap());
    let mut job = restart(&place, &set, &["--every", "none"]);
    // Whoever kills what brings it back kills the job.
    assert!(job.goes_on());
    job.signal(Signal::KILL);
    await_nobody(&place);
    job.lose();
    let (code, out) = restart(&place, &set, &["--every", "none"]).end();
    assert_eq!((code, results(&out)), (0, results(&alone)), "{out}{}", restarted(&place));
}

/// Each error says what helps.
#[test]
fn what_cannot_be_imaged_rank_by_rank_is_told() {
    let Some(place) = Place::new(&["jobs/cr_heat", "jobs/cr_left", "jobs/cr_shared", "jobs/quiesced_port"])
    else {
        return;
    };
    let heat = place.programs.path("cr_heat").display().to_string();
    let left = place.programs.path("cr_left").display().to_string();
    let port = place.programs.path("quiesced_port").display().to_string();
    let (marker, file) = (place.programs.marker(), place.programs.path("port").display().to_string());
    // A process of the job cannot stop itself.
    let script = format!(
        "'{heat}' 2000 6000 {marker} & sleep 1; if [ $OXMPI_COMM_WORLD_RANK = 0 ]; then '{}' checkpoint $PPID; \
         else sleep 2; fi; kill $!",
        installed("oxmpi").display()
    );
    let mut command = place.command("mpirun");
    command.args(["-n", "2", "--timeout", "60"]).args(BY_RANK).args(["sh", "-c", &script]);
    let output = run(command);
    assert!(words(&output).contains("a process of the job cannot ask for it"), "{}", words(&output));
    for (program, reason) in [
        (&["sleep", "60"][..], "rank 0 has not called MPI_Init yet: try again when it has"),
        (&[&left, marker], "rank 1 has called MPI_Finalize"),
        (&[&port, "0", &file, marker], "a port is open (MPI_Open_port)"),
    ] {
        let mut job = place.command("mpirun");
        job.args(["-n", "2"]).args(BY_RANK).args(program).stdout(Stdio::null()).stderr(Stdio::null());
        let mut job = job.spawn().unwrap();
        let start = Instant::now();
        loop {
            let output = run(place.oxmpi(&["checkpoint", &job.id().to_string()]));
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
    // Nor can memory that they have in common.
    let mut job = place.start(&BY_RANK, "cr_shared", &[]);
    job.await_line("shared");
    let together = "ranks 0 and 1 share memory (a shared window, MPI_Win_allocate_shared";
    refused(&run(place.oxmpi(&["checkpoint", &job.mpirun()])), 1, &[together, "(--tree)"]);
    let set = set_of(&run(place.oxmpi(&["checkpoint", "--tree", "--kill", &job.mpirun()])));
    job.lose();
    let on_one = "--host a.invalid: the set has one image of all processes together";
    refused(&run(place.oxmpi(&["restart", &set, "--host", "a.invalid"])), 2, &[on_one]);
    let (code, out) = restart(&place, &set, &[]).end();
    assert!(code == 0 && out.contains("whole"), "{code} {out}{}", restarted(&place));
    refused(
        &run(with(place.command("mpirun"), &["--oxmpi-resume", "/nonexistent", "-n", "2", "true"])),
        1,
        &["--oxmpi-resume is for 'oxmpi restart', not for you: /nonexistent/plan"],
    );
}

/// Another host that has the directory as well: with a name, a network and process numbers of its own.
#[test]
fn a_job_goes_on_on_another_host() {
    let Some(place) = Place::new(&["jobs/cr_traffic"]) else { return };
    let (code, alone) = place.start(&BY_RANK, "cr_traffic", &OWN_FILE).end();
    assert_eq!(code, 0, "{alone}");
    let mut job = place.start(&BY_RANK, "cr_traffic", &OWN_FILE);
    job.await_line("round");
    let set = set_of(&run(place.oxmpi(&["checkpoint", &job.mpirun()])));
    job.lose();
    let mut inside = Command::new("unshare");
    inside.args(["--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]);
    inside.arg("ip link set lo up && hostname elsewhere && setsid --wait \"$0\" restart \"$1\"");
    inside.arg(installed("oxmpi")).arg(&set).stdin(Stdio::null()).current_dir(&place.programs.directory);
    inside.env("OXMPI_MCA_cr_blcr_criu", &place.criu).env("OXMPI_PARAM_FILES", "none");
    let output = run(inside);
    let told = words(&output);
    assert!(output.status.success() && told.contains("and goes on here, on elsewhere"), "{told}");
    let out = fs::read_to_string(place.programs.path("out")).unwrap();
    assert_eq!(results(&out), results(&alone), "{told}");
}

/// Takes a process number for a process that sleeps.
fn take_number(number: u32) -> std::process::Child {
    let start = Instant::now();
    // The process that had it last is reaped by another one.
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

/// The ranks keep their numbers in a PID namespace, and all else is as ever; without the right to make one that is refused.
#[test]
fn ranks_whose_numbers_are_taken_go_on_in_a_namespace() {
    let Some(place) = Place::new(&["jobs/cr_traffic"]) else { return };
    let args = ["600", "7", "own:data"];
    let (code, alone) = place.start(&BY_RANK, "cr_traffic", &args).end();
    assert_eq!(code, 0, "{alone}");
    let mut job = place.start(&BY_RANK, "cr_traffic", &args);
    job.await_line("round");
    let rank = ranks_of(&place)[0].cast_unsigned();
    let set = set_of(&run(place.oxmpi(&["checkpoint", &job.mpirun()])));
    // While it runs it does not come back a second time.
    refused(&run(place.oxmpi(&["restart", &set])), 1, &["the job runs still: ", "(cr_traffic)"]);
    job.lose();
    await_nobody(&place);
    let mut holder = take_number(rank);
    let like = place.oxmpi(&["restart", &set]);
    let mut command = Command::new(like.get_program());
    let before = like.get_args().position(|word| word == "--").unwrap() + 1;
    command.args(like.get_args().take(before));
    command.args(["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]);
    command.args(like.get_args().skip(before)).stdin(Stdio::null());
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let named = format!("these are in use: {rank} (sleep)");
    refused(&run(command), 1, &[&named, "unshare -p -f --mount-proc oxmpi restart SET", "CAP_SYS_ADMIN"]);
    let mut job = restart(&place, &set, &[]);
    assert!(job.goes_on(), "{}", restarted(&place));
    assert!(ranks_of(&place).len() == 4 && holder.try_wait().unwrap().is_none());
    let said = format!(
        "ranks 0, 1, 2, 3 go on in a PID namespace, as their process numbers are in use: {rank} (sleep)"
    );
    assert!(
        job.text().contains(&said) || restarted(&place).contains(&said),
        "{}{}",
        job.text(),
        restarted(&place)
    );
    // As before, from within.
    let set = set_of(&run(place.oxmpi(&["checkpoint", &job.mpirun()])));
    job.await_line("round");
    job.lose();
    await_nobody(&place);
    let (code, out) = restart(&place, &set, &[]).end();
    assert_eq!((code, results(&out)), (0, results(&alone)), "{out}{}", restarted(&place));
    await_nobody(&place);
    holder.kill().unwrap();
    holder.wait().unwrap();
}
