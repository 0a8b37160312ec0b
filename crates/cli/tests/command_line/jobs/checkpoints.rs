//! Jobs that are imaged as a whole, lost, and restarted: over each transport, at random moments,
//! with crashes between any two steps.
//!
//! The tests need CRIU and the rights to use it. Each test has its own network namespace, so that
//! the ports of a job stay free while it is away.

mod files;
mod gm;
mod interrupted;
mod others;
mod own;
mod ranks;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use oxmpi_checkpoint::tree::session_of;
use rustix::process::{Pid, Signal, kill_process};

use super::harness::{Programs, compile, installed, kill, processes_with};
use crate::support::{TestDirectory, behind, criu, eldest, shell_word};

/// Longer than any step of these tests on the slowest machine.
const LIMIT: Duration = Duration::from_secs(90);

struct Sandbox {
    criu: PathBuf,
    holder: Child,
    programs: Programs,
}

impl Sandbox {
    fn new(programs: &[&str]) -> Option<Sandbox> {
        let criu = criu()?;
        let mut holder = Command::new("unshare")
            .args(["-n", "sh", "-c", "ip link set lo up && echo up && exec sleep 600"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n", "a network of its own");
        Some(Sandbox { criu, holder, programs: compile(programs) })
    }

    /// A program of the installation, in the network namespace.
    fn command(&self, program: &str) -> Command {
        let is_outside = session_of(std::process::id()).unwrap() == 0;
        // CRIU images no process of a session that began outside its container, in which these
        // tests may run.
        let mut command = Command::new(if is_outside { "setsid" } else { "nsenter" });
        command.args(is_outside.then_some("nsenter"));
        command
            .arg(format!("--net=/proc/{}/ns/net", self.holder.id()))
            .arg("--")
            .arg(installed(program));
        command.env("OXMPI_MCA_cr_base_dir", self.sets()).env("OXMPI_MCA_cr_blcr_criu", &self.criu);
        command
            .env("OXMPI_PARAM_FILES", "none")
            .current_dir(&self.programs.directory)
            .stdin(Stdio::null());
        command
    }

    fn oxmpi(&self, args: &[&str]) -> Command {
        let mut command = self.command("oxmpi");
        command.args(args);
        command
    }

    fn sets(&self) -> PathBuf {
        self.programs.directory.join("sets")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.sets()).into_iter().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn start(&self, options: &[&str], program: &str, args: &[&str]) -> ImagedJob<'_> {
        self.start_by(self.command("mpirun"), options, program, args)
    }

    fn start_by(
        &self,
        mut command: Command,
        options: &[&str],
        program: &str,
        args: &[&str],
    ) -> ImagedJob<'_> {
        let out = self.programs.directory.join("out");
        let file = File::create(&out).unwrap();
        command.args(["-n", "4", "--timeout", "85"]).args(options);
        command.arg(self.programs.path(program)).args(args).arg(self.programs.marker());
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        ImagedJob { sandbox: self, out, child }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        processes_of(self.programs.marker()).into_iter().for_each(kill_if_there);
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn processes_of(marker: &str) -> Vec<i32> {
    processes_with(marker).iter().filter_map(|line| line.split_once(':')?.0.parse().ok()).collect()
}

fn kill_if_there(pid: i32) {
    // The process may have ended, or be a zombie of another parent.
    let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
}

struct ImagedJob<'a> {
    sandbox: &'a Sandbox,
    out: PathBuf,
    child: Child,
}

impl ImagedJob<'_> {
    fn mpirun(&self) -> String {
        self.child.id().to_string()
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.out).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn await_line(&mut self, word: &str) {
        let (start, before) = (Instant::now(), self.text().matches(word).count());
        while self.text().matches(word).count() <= before {
            assert!(start.elapsed() < LIMIT, "no line '{word}':\n{}", self.text());
            assert!(
                self.child.try_wait().unwrap().is_none(),
                "the job has ended:\n{}",
                self.text()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn await_that(&mut self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < LIMIT, "{what}:\n{}{}", self.text(), restarted(self.sandbox));
            assert!(
                self.child.try_wait().unwrap().is_none(),
                "the job has ended:\n{}",
                self.text()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until a restarted job prints something. False: the job ended before.
    fn goes_on(&mut self) -> bool {
        let (start, before) = (Instant::now(), self.text().len());
        while self.child.try_wait().unwrap().is_none() {
            // The restart first cuts off the output after the checkpoint.
            if self.text().len() > before {
                return true;
            }
            assert!(start.elapsed() < LIMIT, "no job comes back: {}", restarted(self.sandbox));
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }

    fn end(mut self) -> (i32, String) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let code = status.code().unwrap_or_else(|| {
                    -std::os::unix::process::ExitStatusExt::signal(&status).unwrap()
                });
                return (code, self.text());
            }
            assert!(start.elapsed() < LIMIT, "the job does not end:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills all processes of the job at once, as a loss of the machine would.
    fn lose(mut self) {
        let marker = self.sandbox.programs.marker();
        while !processes_of(marker).is_empty() {
            processes_of(marker).into_iter().for_each(kill_if_there);
        }
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

fn run(mut command: Command) -> Output {
    command.output().unwrap()
}

fn with(mut command: Command, args: &[&str]) -> Command {
    command.args(args);
    command
}

/// The command of a [`Sandbox`] without some capabilities inside of its network namespace.
fn without_capabilities(capabilities: &str, like: &Command) -> Command {
    let before = like.get_args().position(|word| word == "--").unwrap() + 1;
    let mut command = Command::new(like.get_program());
    command.args(like.get_args().take(before));
    command.args(["setpriv", "--bounding-set", capabilities, "--inh-caps", capabilities]);
    command.args(like.get_args().skip(before)).current_dir(like.get_current_dir().unwrap());
    command
        .envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdin(Stdio::null());
    command
}

fn words(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn set_of(output: &Output) -> String {
    assert!(output.status.success(), "{}", words(output));
    String::from_utf8_lossy(&output.stdout).lines().next().unwrap().to_string()
}

/// The command failed with this code and these texts.
fn refused(output: &Output, code: i32, texts: &[&str]) {
    let said = words(output);
    assert_eq!(output.status.code(), Some(code), "{said}");
    texts.iter().for_each(|text| assert!(said.contains(text), "not '{text}' in: {said}"));
}

/// The lines in which rank 0 prints results: each must be printed once, in order.
fn results(out: &str) -> Vec<&str> {
    let is_result = |line: &&str| {
        ["step ", "round ", "sum ", "whole"].iter().any(|word| line.starts_with(word))
    };
    out.lines().filter(is_result).collect()
}

/// Random whole numbers. A failing test prints the seed.
struct Random(u64);

impl Random {
    fn new() -> Random {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        println!("seed {now}");
        Random(now | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn nap(&mut self, ms: u64) {
        std::thread::sleep(Duration::from_micros(self.below(ms * 1000)));
    }
}

/// The number of restarts of a job: `cargo xtask soak` sets a larger one.
fn cycles() -> u32 {
    std::env::var("OXMPI_CHECKPOINT_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// A job has checkpoints at random moments; after each it is lost a little later, and restarted.
/// Its results must be those of the job without checkpoints.
fn comes_back(transport: &str, program: &str, args: &[&str]) {
    comes_back_by(&["--tree"], &["--mca", "rpi", transport], program, args);
}

/// As [`comes_back`], with these words for `oxmpi checkpoint` and these options for mpirun.
fn comes_back_by(words: &[&str], options: &[&str], program: &str, args: &[&str]) {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat", "jobs/cr_traffic"]) else { return };
    let request = [&["checkpoint"], words].concat();
    let (code, alone) = sandbox.start(options, program, args).end();
    assert_eq!(code, 0, "{alone}");
    let (mut random, mut restarts) = (Random::new(), 0);
    while restarts < cycles() {
        let mut job = sandbox.start(options, program, args);
        let mut mpirun = job.mpirun();
        // MPI_Init of a rank does not wait for the other ranks.
        let has_begun =
            |job: &ImagedJob<'_>| (0..4).all(|rank| job.text().contains(&format!("rank {rank} ")));
        job.await_that("not all ranks have begun", has_begun);
        for _ in 0..2 {
            random.nap(250);
            let ends = random.below(3) == 0;
            let words: &[&str] = if ends { &["--kill"] } else { &[] };
            let output = run(sandbox.oxmpi(&[&request[..], &[&mpirun], words].concat()));
            // All ranks have begun, so an mpirun that does not run its job ends it.
            let too_late =
                ["has called MPI_Finalize", "No such", "has ended meanwhile", "or ending it"];
            if too_late.iter().any(|text| self::words(&output).contains(text)) {
                break;
            }
            let set = set_of(&output);
            if !ends {
                random.nap(150);
            }
            job.lose();
            restarts += 1;
            job = restart(&sandbox, &set, &[]);
            mpirun = job.mpirun();
            if !job.goes_on() {
                break;
            }
        }
        let (code, out) = job.end();
        assert_eq!(code, 0, "{out}\n{}", restarted(&sandbox));
        assert_eq!(results(&out), results(&alone), "{}", restarted(&sandbox));
    }
}

fn restart<'a>(sandbox: &'a Sandbox, set: &str, options: &[&str]) -> ImagedJob<'a> {
    restart_by(sandbox, sandbox.oxmpi(&[&["restart", set], options].concat()))
}

/// Restarts a set by this command. Its own output goes to a file, the output of the job to the file
/// that the job has open.
fn restart_by(sandbox: &Sandbox, mut command: Command) -> ImagedJob<'_> {
    let own = File::create(sandbox.programs.path("restarted")).unwrap();
    let child = command.stdout(own.try_clone().unwrap()).stderr(own).spawn().unwrap();
    ImagedJob { sandbox, out: sandbox.programs.path("out"), child }
}

fn restarted(sandbox: &Sandbox) -> String {
    fs::read_to_string(sandbox.programs.directory.join("restarted")).unwrap_or_default()
}

/// Enough steps and rounds for a checkpoint before the end.
const HEAT: [&str; 2] = ["300", "6000"];
const TRAFFIC: [&str; 3] = ["250", "7", "data"];

macro_rules! comes_back {
    ($($name:ident: $transport:literal;)*) => {
        $(mod $name {
            #[test]
            fn heat_comes_back() {
                super::comes_back($transport, "cr_heat", &super::HEAT);
            }

            #[test]
            fn traffic_comes_back() {
                super::comes_back($transport, "cr_traffic", &super::TRAFFIC);
            }
        })*
    };
}

comes_back! {
    shm: "shm";
    usysv: "usysv";
    sysv: "sysv";
    tcp: "tcp";
    lamd: "lamd";
    crtcp: "crtcp";
}

/// The process that makes a set is killed at each step: the process of the command if the job goes
/// on, the one that CRIU calls if the job is to end. The job goes on, with the old or the new set.
fn survives_crashes(options: &[&str], form: &[&str]) {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let mut job = sandbox.start(options, "cr_heat", &["6000", "6000"]);
    job.await_line("step");
    let (mpirun, pause) = (job.mpirun(), sandbox.programs.path("pause"));
    let checkpoint =
        |more: &[&str]| sandbox.oxmpi(&[&["checkpoint", &mpirun], form, more].concat());
    let mut newest = set_of(&run(checkpoint(&[])));
    for ends in [false, true] {
        for step in ["begun", "imaged", "synced", "sealed", "renamed", "published", "retired"] {
            let mut command = checkpoint(&["--mca", "cr_keep", "0"]);
            command.args(ends.then_some("--kill"));
            command.env("OXMPI_CHECKPOINT_PAUSE", format!("{step}:{}", pause.display()));
            let mut tool = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let mut victim = None;
            job.await_that("the step is not reached", |_| {
                victim = fs::read_to_string(&pause).ok().and_then(|text| text.parse().ok());
                victim.is_some()
            });
            if form.is_empty() {
                // Images of ranks that are to end are written to disk while the ranks are stopped.
                let still = ranks::ranks_of(&sandbox).into_iter().all(ranks::is_stopped);
                assert_eq!(still, ends && step != "begun", "{step}");
            }
            kill(victim.unwrap());
            assert!(!tool.wait().unwrap().success(), "{step}");
            fs::remove_file(&pause).unwrap();
            job.await_line("step");
            let is_new = ["renamed", "published", "retired"].contains(&step);
            let name = newest.rsplit_once('.').unwrap().0.to_string();
            let output = run(sandbox.oxmpi(&["info", "--checkpoint", &name]));
            assert!(output.status.success(), "{step}: {}", words(&output));
            let is_old = words(&output).contains(&format!("{newest}\n"));
            assert_eq!(is_old, !is_new, "{step}: {}", words(&output));
            newest = set_of(&run(checkpoint(&["--mca", "cr_keep", "0"])));
            assert_eq!(
                sandbox.names(),
                [newest.rsplit('/').next().unwrap()],
                "{step} leaves something"
            );
        }
    }
    job.lose();
    let mut job = restart(&sandbox, &newest, &[]);
    job.await_line("step");
    job.lose();
}

#[test]
fn a_crash_at_any_step_leaves_the_old_set_or_the_new_one() {
    survives_crashes(&[], &["--tree"]);
}

fn numbers(sandbox: &Sandbox) -> Vec<u64> {
    let number = |name: &String| name.rsplit_once('.')?.1.parse().ok();
    let mut all: Vec<u64> = set_names(sandbox).iter().filter_map(number).collect();
    all.sort_unstable();
    all
}

fn set_names(sandbox: &Sandbox) -> Vec<String> {
    sandbox.names().into_iter().filter(|name| !name.starts_with('.')).collect()
}

fn await_nobody(sandbox: &Sandbox) {
    let start = Instant::now();
    while !processes_of(sandbox.programs.marker()).is_empty() {
        assert!(start.elapsed() < LIMIT, "{:?}", processes_with(sandbox.programs.marker()));
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_job_is_checkpointed_at_intervals_also_after_a_restart() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let args = ["700", "6000"];
    let (code, alone) = sandbox.start(&[], "cr_heat", &args).end();
    assert_eq!(code, 0, "{alone}");
    let mut job = sandbox.start(&["--every", "0.3s", "--mca", "cr_keep", "1"], "cr_heat", &args);
    job.await_that("no third set", |_| numbers(&sandbox).last().is_some_and(|last| *last >= 3));
    let (report, name) =
        (job.text(), sandbox.sets().join(set_names(&sandbox)[0].rsplit_once('.').unwrap().0));
    let line =
        format!("mpirun: the job is checkpointed every 0.3s; 'oxmpi restart {}'", name.display());
    assert_eq!(report.matches(&line).count(), 1, "{report}");
    job.lose();
    let last = numbers(&sandbox).pop().unwrap();
    let described = run(sandbox.oxmpi(&["info", "--checkpoint", name.to_str().unwrap()]));
    assert!(words(&described).contains("every 0.3s by itself"), "{}", words(&described));
    let mut job = restart(&sandbox, name.to_str().unwrap(), &[]);
    job.await_that("no set after the restart", |_| {
        numbers(&sandbox).last().is_some_and(|new| *new > last)
    });
    set_of(&run(sandbox.oxmpi(&["checkpoint", "--tree", &job.mpirun()])));
    let (code, out) = job.end();
    assert_eq!((code, results(&out)), (0, results(&alone)), "{}", restarted(&sandbox));
    let report = restarted(&sandbox);
    assert!(report.contains("oxmpi restart: the job is checkpointed every 0.3s"), "{report}");
    let count = numbers(&sandbox).len();
    assert!(count == 2, "the newest set and one before it: {:?}", sandbox.names());
}

#[test]
fn the_supervisor_takes_the_signals_and_requests_of_mpirun() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let heat = ["2000", "6000"];
    let mut job = sandbox.start(&["--every", "1h"], "cr_heat", &heat);
    job.await_line("step");
    let set = set_of(&run(sandbox.oxmpi(&["checkpoint", "--tree", &job.mpirun()])));
    job.signal(Signal::KILL);
    await_nobody(&sandbox);
    job.lose();
    let mut job = restart(&sandbox, &set, &[]);
    assert!(job.goes_on(), "{}", restarted(&sandbox));
    job.signal(Signal::KILL);
    await_nobody(&sandbox);
    job.lose();
    // A signal reaches the job once, also after a restart that changes the interval. The jobs below
    // truncate the output file, so the set is not restarted after them.
    let mut job = restart(&sandbox, &set, &["--every", "none"]);
    assert!(job.goes_on(), "{}", restarted(&sandbox));
    job.signal(Signal::INT);
    let (code, out) = job.end();
    assert_eq!(
        (code, out.matches("mpirun: SIGINT").count()),
        (130, 1),
        "{out}\n{}",
        restarted(&sandbox)
    );
    await_nobody(&sandbox);
    let grouped = |mut command: Command| {
        // setsid(1) makes a process group as well, and would fork in a group leader.
        if session_of(std::process::id()).unwrap() != 0 {
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
        }
        command
    };
    for signal in [Signal::TERM, Signal::INT] {
        let mut job = sandbox.start_by(
            grouped(sandbox.command("mpirun")),
            &["--every", "1h"],
            "cr_heat",
            &heat,
        );
        job.await_line("step");
        rustix::process::kill_process_group(Pid::from_child(&job.child), signal).unwrap();
        let (code, out) = job.end();
        assert_eq!(code, 128 + signal.as_raw(), "{out}");
        assert_eq!(out.matches("mpirun: SIG").count(), 1, "{out}");
    }
}

#[test]
fn failed_checkpoints_are_reported_once_and_wrong_settings_at_the_start() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let options = ["--every", "0.2s", "--mca", "cr_blcr_options", "--no-such-option"];
    let (code, out) = sandbox.start(&options, "cr_heat", &["500", "6000"]).end();
    assert_eq!(code, 0, "{out}");
    let report = "mpirun: there is no new set, and the job goes on: ";
    assert_eq!(out.matches(report).count(), 1, "{out}");
    assert!(out.contains("; the next one is made in 0.2s\n"), "{out}");
    assert!(sandbox.names().is_empty(), "{:?}", sandbox.names());
    let refused_at = |options: &[&str], code: i32, text: &str| {
        let mut command = sandbox.command("mpirun");
        command.args(options).args(["echo", "started"]);
        let output = run(command);
        refused(&output, code, &[text]);
        assert!(!words(&output).contains("started\n"), "{}", words(&output));
    };
    for wrong in ["0", "30x", "m", "-5s", "1e12h", ""] {
        refused_at(&["--every", wrong], 2, "not a time of 0.1s or more");
    }
    refused_at(
        &["--every", "1h", "--mca", "cr_blcr_criu", "/nonexistent/criu"],
        2,
        "names /nonexistent/criu",
    );
    refused_at(
        &["--checkpoint-on-term", "--mca", "cr_base_dir", "/proc/no"],
        2,
        "/proc/no cannot be used",
    );
    refused_at(&["--every", "1h", "-H", "a.invalid"], 2, "--every: an image of the whole tree");
    refused_at(
        &["-nw", "--every", "1h", "--mca", "cr_blcr_criu", "/nonexistent/criu"],
        2,
        "names /nonexistent/criu",
    );
}

#[test]
fn sigterm_makes_a_checkpoint_and_ends_the_job_on_request() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let args = ["600", "6000"];
    let (code, alone) = sandbox.start(&[], "cr_heat", &args).end();
    assert_eq!(code, 0, "{alone}");
    let mut job = sandbox.start(&["--checkpoint-on-term"], "cr_heat", &args);
    job.await_line("step");
    job.signal(Signal::TERM);
    let (code, out) = job.end();
    assert_eq!(code, 75, "{out}");
    await_nobody(&sandbox);
    let set = sandbox.sets().join(&set_names(&sandbox)[0]).display().to_string();
    let line = |name, set| {
        format!(
            "{name}: SIGTERM: the job was checkpointed and has ended; 'oxmpi restart {set}' brings it back\n"
        )
    };
    assert!(out.ends_with(&line("mpirun", &set)), "{out}");
    let mut job = restart(&sandbox, &set, &[]);
    assert!(job.goes_on(), "{}", restarted(&sandbox));
    job.signal(Signal::TERM);
    let (code, out) = job.end();
    assert_eq!(code, 75, "{out} {}", restarted(&sandbox));
    let set = set.replace(".1", ".2");
    assert_eq!(numbers(&sandbox), [1, 2]);
    assert!(restarted(&sandbox).ends_with(&line("oxmpi restart", &set)), "{}", restarted(&sandbox));
    let (code, out) = restart(&sandbox, &set, &[]).end();
    assert_eq!((code, results(&out)), (0, results(&alone)), "{}", restarted(&sandbox));
}

#[test]
fn sigterm_ends_a_job_that_cannot_be_checkpointed_and_the_second_one_at_once() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let mut command = sandbox.command("mpirun");
    command.args(["-n", "2", "--checkpoint-on-term", "sh", "-c", "echo up; exec sleep 80"]);
    let mut job = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    // It stays open for the other rank's line.
    let mut out = BufReader::new(job.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    kill_process(Pid::from_child(&job), Signal::TERM).unwrap();
    let output = job.wait_with_output().unwrap();
    let why = "mpirun: SIGTERM: no checkpoint can be made, and the job ends without one: rank 0 has not called MPI_Init";
    refused(&output, 143, &[why, "mpirun: SIGTERM"]);
    let mut command = sandbox.command("mpirun");
    let pause = sandbox.programs.path("pause");
    command.env("OXMPI_CHECKPOINT_PAUSE", format!("begun:{}", pause.display()));
    let mut job =
        sandbox.start_by(command, &["--checkpoint-on-term"], "cr_heat", &["6000", "6000"]);
    job.await_line("step");
    job.signal(Signal::TERM);
    job.await_that("no checkpoint is begun", |_| pause.exists());
    // A second signal within this time counts as the same one, as both the process group and mpirun
    // may get it.
    std::thread::sleep(Duration::from_millis(700));
    job.signal(Signal::TERM);
    let start = Instant::now();
    let (code, out) = job.end();
    assert_eq!(code, 143, "{out}");
    assert!(
        start.elapsed() < Duration::from_secs(10) && out.contains("SIGTERM once more"),
        "{out}"
    );
    await_nobody(&sandbox);
    assert!(numbers(&sandbox).is_empty(), "{:?}", sandbox.names());
}

#[test]
fn a_module_for_checkpoints_is_selected_with_what_it_needs() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat", "jobs/level"]) else { return };
    let report = |options: &[&str]| {
        let command =
            with(sandbox.command("mpirun"), &["-n", "2", "--mca", "mpi_show_select", "1"]);
        let command = with(command, options);
        let output = run(with(command, &[sandbox.programs.path("level").to_str().unwrap(), "0"]));
        assert!(output.status.success(), "{}", words(&output));
        words(&output)
    };
    let by_cr = report(&["--mca", "cr", "blcr"]);
    assert!(by_cr.contains("level 2\n") && by_cr.contains("rpi crtcp is selected"), "{by_cr}");
    assert!(by_cr.contains("8. cr blcr is selected"), "{by_cr}");
    let named = report(&["--mca", "cr", "blcr", "--mca", "rpi", "shm"]);
    assert!(
        named.contains("rpi shm is selected") && named.contains("8. cr blcr is selected"),
        "{named}"
    );
    let by_itself = report(&["--mca", "rpi", "crtcp"]);
    assert!(
        by_itself.contains("cr blcr is dropped: it runs from MPI_THREAD_SERIALIZED on"),
        "{by_itself}"
    );
    let none = report(&["--mca", "cr", "none"]);
    assert!(
        none.contains("rpi shm is selected") && none.contains("cr blcr is dropped: 'cr' is 'none'"),
        "{none}"
    );
    let refuses = |options: &[&str], code, text: &str| {
        let mut command = sandbox.command("mpirun");
        command.args(["-n", "2"]).args(options).args(["echo", "started"]);
        let output = run(command);
        refused(&output, code, &[text]);
        assert!(!words(&output).contains("started\n"), "{}", words(&output));
    };
    refuses(&["--mca", "cr", "self"], 2, "parameter 'cr' is 'self': symbol lookup failed");
    refuses(&["--mca", "cr", "bcr"], 2, "'bcr'");
    refuses(
        &["--mca", "cr", "blcr", "--mca", "cr_blcr_criu", "/nonexistent/criu"],
        2,
        "names /nonexistent/criu",
    );
    refuses(
        &["--mca", "cr", "blcr", "--mca", "rpi", "tcp", "-H", "a.invalid"],
        2,
        "parameter 'cr' is 'blcr': an image of the whole tree",
    );
    let hosts = ["--mca", "cr", "blcr", "--mca", "rpi", "tcp", "-H", "a.invalid,b.invalid"];
    refuses(&hosts, 2, "parameter 'cr' is 'blcr': an image of the whole tree");
    let mut job = sandbox.start(&["--mca", "cr", "blcr"], "cr_heat", &["2000", "6000"]);
    job.await_line("step");
    let set = set_of(&run(sandbox.oxmpi(&["checkpoint", &job.mpirun()])));
    job.lose();
    let mut job = restart(&sandbox, &set, &[]);
    job.await_line("step");
    job.lose();
    for name in ["laminfo", "ompi_info"] {
        let said = words(&run(sandbox.command(name)));
        for (module, state) in [
            ("rpi: crtcp", "yes"),
            ("rpi: shm", "whole jobs on one host"),
            ("cr: blcr", "yes"),
            ("cr: self", "yes"),
        ] {
            let is_it = |line: &&str| line.contains(&format!("MCA {module} (priority"));
            let line = said.lines().find(is_it).unwrap_or_default();
            assert!(line.ends_with(&format!("checkpoint/restart: {state})")), "{module}: {said}");
        }
    }
}

#[test]
fn a_criu_that_is_too_old_or_lacks_a_capability_is_named_at_the_start() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let old = sandbox.programs.file(
        "old",
        b"#!/bin/sh\n[ $1 = --version ] || echo dumped\necho 'Version: 4.1.1'\n",
        0o755,
    );
    let old = ["--mca", "cr_blcr_criu", old.to_str().unwrap()];
    let mut job = sandbox.start(&[], "cr_heat", &["2000", "6000"]);
    job.await_line("step");
    let (pid, by_cr) = (job.mpirun(), ["-n", "1", "--mca", "cr", "blcr"]);
    let started = ["echo", "started"];
    for (command, code) in [
        (with(sandbox.command("mpirun"), &[&by_cr[..], &old, &started].concat()), 2),
        (sandbox.oxmpi(&[&["checkpoint", "--tree", &pid], &old[..]].concat()), 1),
    ] {
        let output = run(command);
        refused(
            &output,
            code,
            &["/old is CRIU 4.1.1, which is too old", "CRIU 4.2 or newer is needed:\n"],
        );
        assert!(!words(&output).contains("started\n"), "{}", words(&output));
    }
    for (like, code) in [
        (with(sandbox.command("mpirun"), &[&by_cr[..], &started].concat()), 2),
        (sandbox.oxmpi(&["checkpoint", "--tree", &pid]), 1),
    ] {
        let output = run(without_capabilities("-sys_admin,-checkpoint_restore", &like));
        refused(
            &output,
            code,
            &["CRIU cannot work here: ", "CAP_CHECKPOINT_RESTORE", "'sudo setcap "],
        );
        assert!(!words(&output).contains("started\n"), "{}", words(&output));
    }
    assert!(sandbox.names().is_empty(), "{:?}", sandbox.names());
    job.lose();
}

#[test]
fn a_checkpoint_goes_where_the_parameters_of_its_job_say() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let options =
        ["--mca", "cr", "blcr", "--mca", "cr_base_dir", "own = 1", "--mca", "cr_keep", "0"];
    let mut job = sandbox.start(&options, "cr_heat", &["2000", "6000"]);
    job.await_line("step");
    let tool = |options: &[&str]| {
        let mut command = sandbox.oxmpi(&["checkpoint"]);
        command.args(options).arg(job.mpirun()).current_dir("/");
        command.env_remove("OXMPI_MCA_cr_base_dir").env_remove("OXMPI_MCA_cr_blcr_criu");
        set_of(&run(command))
    };
    let own = sandbox.programs.directory.join("own = 1").canonicalize().unwrap();
    for options in [&[][..], &["--tree"], &["--mca", "cr_keep", "1"]] {
        let set = tool(options);
        assert!(Path::new(&set).starts_with(&own), "{set}");
    }
    let sets = fs::read_dir(&own)
        .unwrap()
        .filter(|entry| !entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with('.'));
    // The newest set, and the one before it, as the tool's `cr_keep` says.
    assert_eq!(sets.count(), 2);
    let there = sandbox.sets().join("there");
    let named = tool(&["--dir", there.to_str().unwrap()]);
    assert!(Path::new(&named).starts_with(&there), "the option of the tool counts: {named}");
    job.signal(Signal::TERM);
    job.end();
}

#[test]
fn the_commands_of_the_guide_make_sets_and_bring_them_back() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let args = ["500", "6000"];
    let (code, alone) = sandbox.start(&[], "cr_heat", &args).end();
    assert_eq!(code, 0, "{alone}");
    let by = |name: &str, words: &[&str]| {
        let mut command = sandbox.command(name);
        command.args(words);
        command
    };
    let mut job = sandbox.start(&[], "cr_heat", &args);
    job.await_line("step");
    let pid = job.mpirun();
    let set = set_of(&run(by("lamcheckpoint", &["-pid", &pid])));
    assert!(!Path::new(&set).join("image/rank.0").exists(), "one image of all: {set}");
    let own = by("lamcheckpoint", &["-ssi", "cr", "self", "-pid", &pid]);
    refused(&run(own), 2, &["the job was started without 'cr self'"]);
    refused(
        &run(by("cr_checkpoint", &["-f", "file", &pid])),
        2,
        &["cr_checkpoint: -f: a set is a directory"],
    );
    let there = sandbox.sets().join("there").display().to_string();
    let set = set_of(&run(by("cr_checkpoint", &["-d", &there, "--kill", &pid])));
    assert!(set.starts_with(&there), "{set}");
    job.lose();
    let mut job = restart_by(&sandbox, by("cr_restart", &[&set]));
    assert!(job.goes_on(), "{}", restarted(&sandbox));
    job.lose();
    let words = [
        "-ssi",
        "cr",
        "blcr",
        "-ssi",
        "cr_blcr_context_file",
        &set,
        "-ssi",
        "cr_restart_args",
        "--files cut",
    ];
    let (code, out) = restart_by(&sandbox, by("lamrestart", &words)).end();
    assert_eq!((code, results(&out)), (0, results(&alone)), "{}", restarted(&sandbox));
}

#[test]
fn a_full_disk_is_reported_and_leaves_the_job_and_the_old_set() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let small = sandbox.programs.directory.join("small");
    fs::create_dir(&small).unwrap();
    let mount = |args: &[&str]| {
        Command::new(args[0]).args(&args[1..]).arg(&small).status().unwrap().success()
    };
    assert!(mount(&["mount", "-t", "tmpfs", "-o", "size=3m", "none"]), "a small disk");
    let mut job = sandbox.start(&[], "cr_heat", &["2000", "6000"]);
    job.await_line("step");
    let dir = small.to_str().unwrap();
    let full = run(sandbox.oxmpi(&["checkpoint", "--tree", &job.mpirun(), "--dir", dir]));
    let left = fs::read_dir(&small).unwrap().count();
    let unmounted = mount(&["umount"]);
    refused(
        &full,
        1,
        &["there is no new set, and the job goes on", "o space left on device", "'--dir DIR'"],
    );
    assert_eq!((left, unmounted), (0, true));
    job.await_line("step");
    let set = set_of(&run(sandbox.oxmpi(&["checkpoint", "--tree", "--kill", &job.mpirun()])));
    job.lose();
    let mut job = restart(&sandbox, &set, &[]);
    job.await_line("step");
    job.lose();
}

#[test]
fn a_damaged_set_is_refused_by_the_name_of_its_file() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let mut job = sandbox.start(&[], "cr_heat", &["2000", "6000"]);
    job.await_line("step");
    let old = set_of(&run(sandbox.oxmpi(&["checkpoint", "--tree", &job.mpirun()])));
    let new = set_of(&run(sandbox.oxmpi(&["checkpoint", "--tree", "--kill", &job.mpirun()])));
    job.lose();
    let page = Path::new(&new).join("image/pages-1.img");
    let mut bytes = fs::read(&page).unwrap();
    bytes[1000] ^= 4;
    fs::write(&page, &bytes).unwrap();
    for command in [vec!["restart", &new], vec!["info", "--checkpoint", &new]] {
        refused(&run(sandbox.oxmpi(&command)), 1, &["image/pages-1.img is damaged: its contents"]);
    }
    refused(
        &run(sandbox.oxmpi(&["restart", "/nonexistent/heat-1.1"])),
        1,
        &["/nonexistent/heat-1.1: there is no such set"],
    );
    fs::write(Path::new(&new).join("manifest"), "oxmpi checkpoint, format 99, blake3 0\n").unwrap();
    refused(&run(sandbox.oxmpi(&["restart", &new])), 1, &["/manifest: it has format 99"]);
    let mut job = restart(&sandbox, &old, &[]);
    job.await_line("step");
    job.lose();
}

#[test]
fn files_that_have_grown_are_cut_back_or_refused_and_others_are_refused() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let mut job = sandbox.start(&[], "cr_heat", &["2000", "6000"]);
    job.await_line("step");
    let set = set_of(&run(sandbox.oxmpi(&["checkpoint", "--tree", "--kill", &job.mpirun()])));
    job.lose();
    let (out, aside) = (sandbox.programs.path("out"), sandbox.programs.path("aside"));
    let was = fs::read(&out).unwrap();
    let grow = || File::options().append(true).open(&out).unwrap().write_all(b"more\n").unwrap();
    grow();
    refused(
        &run(sandbox.oxmpi(&["restart", &set, "--files", "refuse"])),
        1,
        &["/out has grown from", "--files cut"],
    );
    assert_eq!(fs::read(&out).unwrap().len(), was.len() + 5, "a refusal changes nothing");
    fs::rename(&out, &aside).unwrap();
    refused(
        &run(sandbox.oxmpi(&["restart", &set])),
        1,
        &["/out was open in the job, and is not there"],
    );
    fs::write(&out, was.iter().map(|byte| byte ^ 1).collect::<Vec<u8>>()).unwrap();
    refused(
        &run(sandbox.oxmpi(&["restart", &set])),
        1,
        &["/out is another file than at the checkpoint"],
    );
    fs::rename(&aside, &out).unwrap();
    File::options().write(true).open(&out).unwrap().set_len(3).unwrap();
    refused(&run(sandbox.oxmpi(&["restart", &set])), 1, &["/out has 3 bytes, and had"]);
    fs::write(&out, &was).unwrap();
    refused(
        &run(sandbox.oxmpi(&["restart", &set, "--mca", "cr_files", "refuse"])),
        1,
        &["/out was written to since"],
    );
    grow();
    let program = sandbox.programs.path("cr_heat");
    fs::copy(&program, &aside).unwrap();
    fs::write(&program, "another build").unwrap();
    refused(
        &run(sandbox.oxmpi(&["restart", &set])),
        1,
        &["/cr_heat is another build than at the checkpoint"],
    );
    fs::rename(&aside, &program).unwrap();
    let mut job = restart(&sandbox, &set, &["--files", "cut"]);
    job.await_line("step");
    assert!(restarted(&sandbox).contains(&format!("/out is cut back to {} bytes", was.len())));
    assert!(!job.text().contains("more"));
    job.lose();
}

/// Restarts a job with these options of mpirun twice: once it ends with its own exit code, once by
/// a signal. `file`: how its ranks open their file; `form`: which images are made.
fn keeps_code_signals_and_streams(options: &[&str], file: &str, form: &[&str]) {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_traffic"]) else { return };
    let mut command = sandbox.command("mpirun");
    command
        .args(["-n", "4", "--timeout", "85"])
        .args(options)
        .arg(sandbox.programs.path("cr_traffic"));
    command.args(["200", "3", file, "7", sandbox.programs.marker()]);
    let mut job = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(job.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("round 10 ")));
    let pid = job.id().to_string();
    let set = set_of(&run(sandbox.oxmpi(&[&["checkpoint"], form, &["--kill", &pid]].concat())));
    job.wait().unwrap();
    let output = run(sandbox.oxmpi(&["restart", &set]));
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(7), "{}", words(&output));
    assert!(out.contains("whole, sum") && !out.contains("round 10 "), "{out}");
    assert!(!words(&output).contains("output goes on in"), "{}", words(&output));
    let mut job = sandbox
        .oxmpi(&["restart", &set])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::from_child(&job);
    let mut lines = BufReader::new(job.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("round ")));
    kill_process(pid, Signal::TERM).unwrap();
    let rest: Vec<String> = lines.collect();
    let output = job.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{rest:?} {}", words(&output));
    assert!(words(&output).contains("mpirun: SIGTERM"), "{}", words(&output));
    await_nobody(&sandbox);
}

#[test]
fn the_exit_code_the_signals_and_the_streams_are_those_of_the_job() {
    keeps_code_signals_and_streams(&[], "data", &["--tree"]);
}

/// Like a session under `nsenter` or `bwrap` in a container: its leader is invisible there.
#[test]
fn a_session_from_outside_is_reported_and_a_restart_makes_its_own() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let mut command = sandbox.command("oxmpi");
    let script = r#"
        start() { rm -f out; "$@" -n 2 --timeout 85 "$heat" 600 6000 "$mark" > out 2>&1 & job=$!; until grep -qs '^step 20 ' out; do sleep 0.01; done; }
        start "$mpirun"
        "$oxmpi" checkpoint --tree $job; echo "code $?"
        kill $job; wait $job
        start setsid "$mpirun"
        "$oxmpi" checkpoint --tree --kill $job; echo "code $?"
        wait $job
        "$oxmpi" restart sets/*.1; echo "code $?"; tail -n 1 out"#;
    command.env("oxmpi", installed("oxmpi")).env("mpirun", installed("mpirun"));
    command.env("heat", sandbox.programs.path("cr_heat")).env("mark", sandbox.programs.marker());
    let mut inside = Command::new("nsenter");
    inside.arg(format!("--net=/proc/{}/ns/net", sandbox.holder.id()));
    inside.args([
        "--",
        "unshare",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-c",
        script,
    ]);
    inside
        .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdin(Stdio::null());
    inside.current_dir(&sandbox.programs.directory);
    let output = run(inside);
    let text = words(&output);
    assert!(
        text.contains("begun outside of this container") && text.contains("setsid --wait mpirun"),
        "{text}"
    );
    let codes: Vec<_> = text.lines().filter(|line| line.starts_with("code ")).collect();
    assert_eq!(codes, ["code 1", "code 0", "code 0"], "{text}");
    assert!(text.lines().any(|line| line.starts_with("sum ")), "{text}");
}

#[test]
fn a_job_with_a_terminal_goes_on_without_one() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let mpirun = installed("mpirun").display().to_string();
    let line = format!(
        "set -m; {} -n 4 --timeout 85 {} 600 6000 {}; true",
        shell_word(Path::new(&mpirun)),
        shell_word(&sandbox.programs.path("cr_heat")),
        sandbox.programs.marker()
    );
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--net=/proc/{}/ns/net", sandbox.holder.id()))
        .args(["--", "script", "-qfec"])
        .arg(line);
    command
        .arg("/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .current_dir(&sandbox.programs.directory);
    let mut shell = command.spawn().unwrap();
    let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.starts_with("step 20 ")));
    let all = processes_with(sandbox.programs.marker());
    let of_mpirun = all
        .iter()
        .filter(|line| line.split_once(": ").is_some_and(|(_, args)| args.starts_with(&mpirun)));
    let pids: Vec<i32> =
        of_mpirun.map(|line| line.split_once(':').unwrap().0.parse().unwrap()).collect();
    let pid = eldest(&pids).unwrap().to_string();
    let set = set_of(&run(sandbox.oxmpi(&["checkpoint", "--tree", "--kill", &pid])));
    shell.wait().unwrap();
    let output = run(sandbox.oxmpi(&["restart", &set]));
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && out.contains("\nsum ") && !out.contains('\r'),
        "{}",
        words(&output)
    );
}

#[test]
fn jobs_that_cannot_be_checkpointed_are_reported_with_the_remedy() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat", "jobs/cr_left"]) else { return };
    let own = std::process::id().to_string();
    let ask = |pid: &str, more: &[&str]| {
        run(sandbox.oxmpi(&[&["checkpoint", "--tree", pid], more].concat()))
    };
    refused(&ask(&own, &[]), 1, &["not mpirun of this installation"]);
    refused(&ask("nobody", &[]), 2, &["'nobody': not the number of a process"]);
    let mut job = sandbox.start(&[], "cr_heat", &["2000", "6000"]);
    job.await_line("step");
    let mpirun = job.mpirun();
    let without = format!("'mpirun --mca cr blcr'); 'oxmpi checkpoint --tree {mpirun}'");
    refused(&run(sandbox.oxmpi(&["checkpoint", &mpirun])), 2, &[&without]);
    let ranks = processes_with(sandbox.programs.marker());
    let rank =
        ranks.iter().find(|line| !line.contains("mpirun")).unwrap().split_once(':').unwrap().0;
    refused(&ask(rank, &[]), 1, &[&format!("its mpirun is process {mpirun}")]);
    refused(
        &ask(&mpirun, &["--mca", "cr_blcr_criu", "/nonexistent/criu"]),
        1,
        &["cr_blcr_criu names /nonexistent/criu"],
    );
    let mut outside = Command::new(installed("oxmpi"));
    outside.args(["checkpoint", "--tree", &mpirun, "--mca", "cr_blcr_criu"]).arg(&sandbox.criu);
    refused(
        &run(outside),
        1,
        &["another network namespace", &format!("nsenter --net=/proc/{mpirun}/ns/net")],
    );
    let odd = ask(&mpirun, &["--mca", "cr_blcr_options", "--no-such-option"]);
    refused(&odd, 1, &["there is no new set, and the job goes on"]);
    refused(
        &ask(&mpirun, &["--dir", "/proc/nonexistent"]),
        1,
        &["/proc/nonexistent cannot be used", "cr_base_dir"],
    );
    let mut missing = Command::new("nsenter");
    missing.arg(format!("--net=/proc/{}/ns/net", sandbox.holder.id()));
    missing
        .args(["--", "/usr/bin/env", "PATH=/nonexistent", "OXMPI_PARAM_FILES=none"])
        .arg(installed("oxmpi"));
    missing.args(["checkpoint", "--tree", &mpirun, "--mca", "cr_blcr_criu", ""]);
    if !["/usr/sbin/criu", "/sbin/criu"].iter().any(|file| Path::new(file).exists()) {
        refused(
            &run(missing),
            1,
            &[
                "no program 'criu' in PATH (/nonexistent",
                "CRIU 4.2 or newer is needed:\n",
                "cr_blcr_criu",
            ],
        );
    }
    let there = sandbox.programs.directory.join("there");
    let base = ["--mca", "cr_base_dir", there.to_str().unwrap(), "--mca", "cr_keep", "1"];
    let sets: Vec<String> = (0..3).map(|_| set_of(&ask(&mpirun, &base))).collect();
    assert_eq!(
        sets.iter().map(|set| Path::new(set).exists()).collect::<Vec<_>>(),
        [false, true, true]
    );
    let advice = run(sandbox.oxmpi(&[&["checkpoint", "--advise", "3600"], &base[..3]].concat()));
    assert!(
        words(&advice).contains("by Daly's formula, for a machine that fails every 3600 s"),
        "{}",
        words(&advice)
    );
    refused(&run(sandbox.oxmpi(&["checkpoint", "--advise"])), 1, &["what one costs is not known"]);
    refused(&run(sandbox.oxmpi(&["restart", &sets[2]])), 1, &["these are in use", "mpirun"]);
    assert!(sandbox.names().is_empty(), "{:?}", sandbox.names());
    job.lose();
    let left = sandbox.programs.path("cr_left").display().to_string();
    for (program, reason) in [
        (["sleep", "60"], "rank 0 has not called MPI_Init yet: try again when it has"),
        ([&left, sandbox.programs.marker()], "rank 1 has called MPI_Finalize"),
    ] {
        let mut job = sandbox.command("mpirun");
        job.args(["-n", "2"]).args(program).stdout(Stdio::null()).stderr(Stdio::null());
        let mut job = job.spawn().unwrap();
        let start = Instant::now();
        loop {
            let output = ask(&job.id().to_string(), &[]);
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
}
