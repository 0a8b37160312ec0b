//! Jobs whose ranks go on on other hosts, from images of each rank.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::testbed::{A, B, HEAD, LIMIT, Machine, PRIVATE, Testbed, lines_of, outcome, testbed};
use crate::support::{criu, installed, shell_word};

const ROUNDS: &str = "200";
const SEED: &str = "5";
const COMMON: &str = "data";

fn mpirun(
    bed: &Testbed,
    criu: &Path,
    options: &[&str],
    (program, rounds): (&str, &str),
) -> Command {
    mpirun_with(bed, criu, options, &[program, rounds, SEED, COMMON])
}

/// As [`mpirun`], with a program and its arguments.
pub(crate) fn mpirun_with(
    bed: &Testbed,
    criu: &Path,
    options: &[&str],
    program: &[&str],
) -> Command {
    // CRIU images no process of a session that began outside its container, in which these tests
    // may run.
    let mut command = bed.on(HEAD, "sh");
    // Open files must be of the host itself.
    command.args(["-c", "exec setsid \"$0\" \"$@\" < /dev/null"]);
    let (shell, criu) = (bed.shell(), criu.to_str().unwrap());
    command.arg(installed("mpirun")).args(["--timeout", "100", "--mca", "plm_rsh_agent", &shell]);
    command.args(["-n", "4", "--mca", "cr", "blcr", "--mca", "cr_base_dir", "sets"]);
    command.args(["--mca", "cr_blcr_criu", criu]);
    command.args(options).args(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn checkpoint(
    bed: &Testbed,
    criu: &Path,
    (pid, base): (u32, &str),
    options: &[&str],
) -> String {
    // The tool enters the namespaces of the host: those of the test are of no host.
    let pid = pid.to_string();
    let mut ask = Command::new("nsenter");
    ask.args(["--target", &pid, "--net", "--uts", "--mount"]).arg(installed("oxmpi"));
    ask.args(["checkpoint", &pid]).args(options).arg("--dir").arg(bed.directory.join(base));
    let (code, out, err) =
        outcome(ask.arg("--mca").arg("cr_blcr_criu").arg(criu).output().unwrap());
    assert_eq!(code, Some(0), "{out}{err}");
    out
}

pub(crate) fn results(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.starts_with("round ") || line.starts_with("whole")).collect()
}

/// `oxmpi restart` on the head.
pub(crate) fn restart_command(bed: &Testbed, criu: &Path, words: &[&str]) -> Command {
    let mut command = bed.on(HEAD, "setsid");
    command
        .arg(installed("oxmpi"))
        .arg("restart")
        .args(words)
        .arg("--mca")
        .arg("cr_blcr_criu")
        .arg(criu);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Restarts a set with these options. Also returns the number of the job's processes on each host
/// meanwhile.
fn restart(
    bed: &Testbed,
    criu: &Path,
    words: &[&str],
    program: &str,
) -> (Option<i32>, String, String, [usize; 3]) {
    let mut child = restart_command(bed, criu, words).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = lines_of(&mut child);
    let first = lines.next().unwrap_or_default();
    let of_job = |machine: Machine| {
        let all = bed.processes(machine);
        all.iter().filter(|(_, words)| words.starts_with(program)).count()
    };
    let there = [HEAD, A, B].map(of_job);
    let rest: Vec<String> = lines.collect();
    let (code, _, err) = outcome(child.wait_with_output().unwrap());
    (code, format!("{first}\n{}\n", rest.join("\n")), err, there)
}

#[test]
fn jobs_on_several_hosts_are_imaged_and_go_on_on_other_hosts() {
    let Some((bed, criu)) = testbed().zip(criu()) else { return };
    go_on_elsewhere(&bed, &criu, "sets", "32");
}

/// Half of the ranks are on a host that is lost, and later the others on another one. Sets are made
/// in the directory `base`; one agent starts at most `fan_out` others.
fn go_on_elsewhere(bed: &Testbed, criu: &Path, base: &str, fan_out: &str) {
    let program = bed.compile("jobs/cr_traffic");
    let tree = ["--mca", "mpi_agent_fan_out", fan_out];
    let spread = [&["-H", "nodea:2,nodeb:2", "-stdin", "0"][..], &tree].concat();
    let (code, alone, err) =
        outcome(mpirun(bed, criu, &spread, (&program, "400")).output().unwrap());
    assert_eq!(code, Some(0), "{alone}{err}");
    let (mut all, mut said) = (Vec::new(), PathBuf::new());
    let mut job = mpirun(bed, criu, &spread, (&program, "400")).spawn().unwrap();
    for hosts in ["nodea:4", "localhost:1,nodea:1,nodeb:2", "nodea:2,nodeb:2"] {
        let mut lines = lines_of(&mut job);
        let mut next = || {
            let Some(line) = lines.next() else {
                let said = std::fs::read_to_string(&said);
                panic!("the job has ended before it is to go on on {hosts}: {all:?} {said:?}");
            };
            let is_round = line.starts_with("round ");
            all.push(line);
            is_round
        };
        while !next() {}
        // The job goes on after the first set.
        let report = checkpoint(bed, criu, (job.id(), base), &[]);
        assert!(report.contains(" of 4 ranks in ") && report.contains("and goes on"), "{report}");
        while !next() {}
        let report = checkpoint(bed, criu, (job.id(), base), &["--kill"]);
        all.extend(lines);
        let (code, _, err) = outcome(job.wait_with_output().unwrap());
        assert_eq!(code, Some(75), "{hosts} {err}");
        bed.is_clean();
        let set = report.lines().next().unwrap();
        // From now on this file is open in the job.
        said = bed.directory.join(format!("said.{}", hosts.len()));
        let said = std::fs::File::create(&said).unwrap();
        let mut command = restart_command(bed, criu, &[set, "--host", hosts]);
        command.stderr(said);
        job = command.spawn().unwrap();
    }
    let (code, out, _) = outcome(job.wait_with_output().unwrap());
    let said = std::fs::read_to_string(said).unwrap();
    assert_eq!(code, Some(0), "{out}{said}");
    let text = format!("{}\n{out}", all.join("\n"));
    assert_eq!(results(&text), results(&alone), "{said}");
    bed.is_clean();
}

/// Each host has its own file under the path that the ranks write to. The job writes more before it
/// is lost.
#[test]
fn files_that_other_hosts_have_are_cut_back_there() {
    let Some((bed, criu)) = testbed().zip(criu()) else { return };
    let program = bed.compile("jobs/cr_traffic");
    let (file, other) = (format!("private:{PRIVATE}/data"), format!("private:{PRIVATE}/alone"));
    let words = |file| [&*program, "150", SEED, file];
    let spread = ["-H", "nodea:2,nodeb:2"];
    let (code, alone, err) =
        outcome(mpirun_with(&bed, &criu, &spread, &words(&other)).output().unwrap());
    assert_eq!(code, Some(0), "{alone}{err}");
    let mut job = mpirun_with(&bed, &criu, &spread, &words(&file)).spawn().unwrap();
    let mut lines = lines_of(&mut job);
    let mut before = Vec::new();
    while !before.last().is_some_and(|line: &String| line.starts_with("round ")) {
        before.push(lines.next().unwrap());
    }
    let report = checkpoint(&bed, &criu, (job.id(), "sets"), &[]);
    let set = report.lines().next().unwrap().to_string();
    for _ in 0..3 {
        while !lines.next().unwrap().starts_with("round ") {}
    }
    job.kill().unwrap();
    drop(lines);
    job.wait().unwrap();
    bed.is_clean();
    let refuse = [&set, "--host", "nodea:2,nodeb:2", "--files", "refuse"];
    let (code, out, err, _) = restart(&bed, &criu, &refuse, &program);
    assert!(code == Some(1) && err.contains("cr_files is 'refuse'"), "{code:?} {out}{err}");
    bed.is_clean();
    let (code, after, err, there) =
        restart(&bed, &criu, &[&set, "--host", "nodea:2,nodeb:2"], &program);
    assert_eq!((code, there), (Some(0), [0, 2, 2]), "{after}{err}");
    for host in ["nodea", "nodeb"] {
        let is_it = |line: &str| {
            line.contains("/data is cut back to ") && line.ends_with(&format!(" on {host}"))
        };
        assert!(err.lines().any(is_it), "{host}: {err}");
    }
    let whole =
        |text: &str| text.lines().find(|line| line.starts_with("whole")).map(str::to_string);
    assert!(whole(&after).is_some() && whole(&after) == whole(&alone), "{after}{err}");
    bed.is_clean();
}

/// A restart finds running ranks of agents as well as those of the launcher, and leaves files
/// unchanged.
#[test]
fn a_job_that_runs_on_other_hosts_is_not_restarted_beside_itself() {
    let Some((bed, criu)) = testbed().zip(criu()) else { return };
    let program = bed.compile("jobs/cr_traffic");
    let mut job =
        mpirun(&bed, &criu, &["-H", "nodea:2,nodeb:2"], (&program, "4000")).spawn().unwrap();
    let mut lines = lines_of(&mut job);
    let await_round = |lines: &mut dyn Iterator<Item = String>| {
        while !lines.next().unwrap().starts_with("round ") {}
    };
    await_round(&mut lines);
    let report = checkpoint(&bed, &criu, (job.id(), "sets"), &[]);
    let set = report.lines().next().unwrap();
    for words in [&[set][..], &[set, "--host", "nodea:4"], &[set, "--host", "nodeb:1,nodea:3"]] {
        let (code, out, err, there) = restart(&bed, &criu, words, &program);
        assert!(
            code == Some(1) && err.contains("the job runs still: "),
            "{words:?} {code:?} {out}{err}"
        );
        assert!(!err.contains("is cut back"), "{words:?} {err}");
        assert_eq!(there, [0, 2, 2], "{words:?} {err}");
        await_round(&mut lines);
    }
    // In a new PID namespace the launcher does not see their processes, but the agents do.
    let mut command = bed.on(B, "unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "setsid", "--wait"]);
    command.arg(installed("oxmpi")).args([
        "restart",
        set,
        "--host",
        "nodea:4",
        "--mca",
        "cr_blcr_criu",
    ]);
    let (code, out, err) = outcome(command.arg(&criu).stdin(Stdio::null()).output().unwrap());
    let is_said = err.contains("host 'nodea'") && err.contains("the job runs still: ");
    assert!(code == Some(1) && is_said && !err.contains("is cut back"), "{code:?} {out}{err}");
    await_round(&mut lines);
    job.kill().unwrap();
    lines.for_each(drop);
    job.wait().unwrap();
    bed.is_clean();
}

#[test]
fn a_host_without_criu_is_named_before_the_job_starts() {
    let Some((bed, criu)) = testbed().zip(criu()) else { return };
    let program = bed.compile("jobs/cr_traffic");
    let own = bed.directory.join(PRIVATE).join("criu");
    std::fs::write(&own, format!("#!/bin/sh\nexec {} \"$@\"\n", shell_word(&criu))).unwrap();
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).unwrap();
    let job =
        |hosts| outcome(mpirun(&bed, &own, &["-H", hosts], (&program, "10")).output().unwrap());
    let (code, out, err) = job("localhost:2,nodeb:2");
    assert_eq!((code, &*out), (Some(1), ""), "{err}");
    assert!(err.contains("host 'nodeb'") && err.contains(own.to_str().unwrap()), "{err}");
    let (code, out, err) = job("localhost:4");
    assert_eq!(code, Some(0), "{out}{err}");
    bed.is_clean();
}

/// Functions of the program are called on all hosts, over a named transport, and the job goes on on
/// one of the hosts.
#[test]
fn programs_on_several_hosts_save_their_state() {
    let Some((bed, criu)) = testbed().zip(criu()) else { return };
    let program = bed.compile("jobs/cr_own");
    let mut command = bed.on(HEAD, installed("mpirun").to_str().unwrap());
    command.args([
        "--timeout",
        "100",
        "--mca",
        "plm_rsh_agent",
        &bed.shell(),
        "-H",
        "nodea:2,nodeb:2",
    ]);
    command.args([
        "--mca",
        "cr",
        "self",
        "--mca",
        "cr_self_user_prefix",
        "own",
        "--mca",
        "rpi",
        "tcp",
    ]);
    command.args(["-n", "4", &program, "1500", "1000"]).stdin(Stdio::null());
    let mut job = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = lines_of(&mut job);
    while !lines.next().unwrap().starts_with("round ") {}
    let report = checkpoint(&bed, &criu, (job.id(), "sets"), &[]);
    assert!(report.contains("the program has saved its state"), "{report}");
    while !lines.next().unwrap().starts_with("round ") {}
    let report = checkpoint(&bed, &criu, (job.id(), "sets"), &["--kill"]);
    drop(lines);
    let (code, _, err) = outcome(job.wait_with_output().unwrap());
    assert_eq!(code, Some(75), "{err}");
    bed.is_clean();
    let (code, out, err, there) =
        restart(&bed, &criu, &[report.lines().next().unwrap(), "--host", "nodea:4"], &program);
    assert_eq!((code, there), (Some(0), [0, 4, 0]), "{out}{err}");
    assert!(
        out.contains(&format!("sum {}\n", 10 * 1500 * 1501 / 2)) && !out.contains("after round 0,"),
        "{out}"
    );
    bed.is_clean();
}

mod night {
    use super::*;

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn ranks_go_on_on_other_hosts() {
        let Some((bed, criu)) = testbed().zip(criu()) else { return };
        let program = bed.compile("jobs/cr_traffic");
        let (code, alone, err) =
            outcome(mpirun(&bed, &criu, &[], (&program, ROUNDS)).output().unwrap());
        assert_eq!(code, Some(0), "{alone}{err}");
        let mut job = mpirun(&bed, &criu, &[], (&program, ROUNDS)).spawn().unwrap();
        let mut lines = lines_of(&mut job);
        let mut before: Vec<String> = Vec::new();
        while !before.last().is_some_and(|line| line.starts_with("round ")) {
            before.push(lines.next().unwrap());
        }
        let out = checkpoint(&bed, &criu, (job.id(), "sets"), &["--kill"]);
        let set = out.lines().next().unwrap().to_string();
        before.extend(lines);
        assert_eq!(job.wait().unwrap().code(), Some(75));
        let before = before.join("\n");
        let hostfile = bed.directory.join("hosts").display().to_string();
        std::fs::write(&hostfile, "nodeb slots=4\n").unwrap();
        let schema = std::fs::read_to_string(Path::new(&set).join("image/appschema")).unwrap();
        let line = schema.lines().find(|line| !line.starts_with('#')).unwrap();
        let word = shell_word(Path::new(&program));
        let run = line.split_once(&word).map(|(_, args)| format!("{word}{args}")).unwrap();
        assert_eq!(line, format!("-n 4 -H {}:4 {run}", HEAD.name), "{schema}");
        let edited = bed.directory.join("schema").display().to_string();
        std::fs::write(
            &edited,
            format!("-n 1 -H nodeb {run}\n-n 2 -H nodea:2 {run}\n-n 1 -H nodeb {run}\n"),
        )
        .unwrap();
        for (words, wanted) in [
            (["-H", "nodea:4"], [0, 4, 0]),
            (["--hostfile", &hostfile], [0, 0, 4]),
            (["--host", "nodea:2,nodeb:2"], [0, 2, 2]),
            (["--host", "localhost:1,nodea:2,nodeb:1"], [1, 2, 1]),
            (["--host", "localhost:4"], [4, 0, 0]),
            (["--app", &edited], [0, 2, 2]),
        ] {
            let start = Instant::now();
            let (code, after, err, there) =
                restart(&bed, &criu, &[&[&*set], &words[..]].concat(), &program);
            assert_eq!(code, Some(0), "{words:?} {after}{err}");
            assert_eq!(there, wanted, "{words:?} {err}");
            let all = format!("{before}\n{after}");
            assert_eq!(results(&all), results(&alone), "{words:?} {err}");
            assert!(start.elapsed() < LIMIT, "{words:?}");
            bed.is_clean();
        }
        let (code, _, err, _) = restart(&bed, &criu, &[&set, "-H", "nodea,host.invalid"], &program);
        assert!(code == Some(1) && err.contains("host 'host.invalid'"), "{code:?} {err}");
        for (lines, wanted) in [
            (format!("-n 3 -H nodea:3 {run}"), "1 ranks of"),
            (format!("-n 5 -H nodea:5 {run}"), "a line has 5 ranks of"),
            (format!("-n 4 -H nodea:4 {run}\n-n 1 -H nodea:1 {run}"), "the job has no more ranks"),
            (format!("-n 4 {run}"), "names no host"),
            ("-n 4 -H nodea:4 ./other".to_string(), "'./other' stands where the job has 4 ranks"),
        ] {
            std::fs::write(&edited, lines).unwrap();
            let (code, _, err, _) = restart(&bed, &criu, &[&set, "--app", &edited], &program);
            assert!(
                code == Some(2) && err.contains(wanted) && err.contains(&edited),
                "{code:?} {err}"
            );
        }
        let aside = bed.directory.join("aside");
        std::fs::rename(Path::new(&set).join("image/rank.3"), &aside).unwrap();
        let (code, _, err, _) = restart(&bed, &criu, &[&set, "-H", "nodea:4"], &program);
        assert!(
            code == Some(1) && err.contains("rank.3/") && err.contains("is damaged"),
            "{code:?} {err}"
        );
        bed.is_clean();
    }

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn images_go_to_the_head_where_hosts_share_no_directory_for_sets() {
        images_go_to_the_head("32");
    }

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn images_go_to_the_head_through_another_host() {
        images_go_to_the_head("1");
    }

    /// Hosts share no directory for sets.
    fn images_go_to_the_head(fan_out: &str) {
        let Some((bed, criu)) = testbed().zip(criu()) else { return };
        go_on_elsewhere(&bed, &criu, PRIVATE, fan_out);
        assert!([A, B].iter().all(|machine| bed.private_files(*machine).is_empty()));
        let names = std::fs::read_dir(bed.directory.join(PRIVATE)).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        let is_set = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("cr_traffic-");
        assert!(names.iter().all(is_set), "{names:?}");
    }
}
