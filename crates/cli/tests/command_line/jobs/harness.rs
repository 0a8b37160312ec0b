//! Starts jobs and checks how they end. Each job has its own word among its arguments, by which its
//! processes are found.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{PARENT, STARTED, STATE, compiled, stat_of};
pub(crate) use crate::support::{compiled_library, installed, processes_with, root};

/// Longer than any job on the slowest machine.
const LIMIT: Duration = Duration::from_secs(60);
/// The limit for the end of a job. The promise is one second; the machine may be busy.
pub(crate) const SOON: Duration = Duration::from_secs(5);

/// A directory with the compiled programs of one test, removed with the value.
pub(crate) struct Programs {
    pub(crate) directory: PathBuf,
    marker: String,
}

/// Compiles `tests/c/NAME.c`. The programs have the last part of their names.
pub(crate) fn compile(names: &[&str]) -> Programs {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let marker =
        format!("oxmpi-jobs-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&marker);
    std::fs::create_dir_all(&directory).unwrap();
    let programs = Programs { directory, marker };
    for name in names {
        let source = root().join("tests/c").join(name).with_extension("c");
        let made = compiled(&source).unwrap();
        // Tests find the job's processes by this directory in their arguments, and some overwrite
        // the program.
        std::fs::copy(made, programs.path(name)).unwrap();
    }
    programs
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Programs {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name.rsplit('/').next().unwrap())
    }

    pub(crate) fn marker(&self) -> &str {
        &self.marker
    }

    pub(crate) fn file(&self, name: &str, text: &[u8], mode: u32) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(self.path(name), text).unwrap();
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
        self.path(name)
    }

    pub(crate) fn compile_text(&self, name: &str, text: &str) {
        let source = self.file(&format!("{name}.c"), text.as_bytes(), 0o644);
        let status =
            Command::new(installed("mpicc")).arg(source).arg("-o").arg(self.path(name)).status();
        assert!(status.unwrap().success());
    }

    /// `mpirun -n RANKS OPTIONS PROGRAM ARGUMENTS MARKER`.
    pub(crate) fn mpirun(
        &self,
        ranks: u32,
        options: &[&str],
        program: &str,
        arguments: &[&str],
    ) -> Command {
        let mut command = Command::new(installed("mpirun"));
        command.args(["-n", &ranks.to_string(), "--timeout", "50"]).args(options);
        command.arg(self.path(program)).args(arguments).arg(&self.marker);
        command
    }

    /// Starts a command. It must have the marker among its arguments.
    pub(crate) fn start(&self, mut command: Command) -> LaunchedJob {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.current_dir(&self.directory).spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let (sender, lines) = channel();
        let out = std::thread::spawn(move || {
            let mut all = String::new();
            for line in BufReader::new(out).lines() {
                let line = line.unwrap();
                all += &line;
                all += "\n";
                let _ = sender.send(line); // the test may have dropped the receiver
            }
            all
        });
        let err = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            BufReader::new(err).read_to_end(&mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        });
        LaunchedJob { child, out: Some(out), err: Some(err), lines, marker: self.marker.clone() }
    }

    pub(crate) fn run(
        &self,
        ranks: u32,
        options: &[&str],
        program: &str,
        arguments: &[&str],
    ) -> Outcome {
        self.start(self.mpirun(ranks, options, program, arguments)).end()
    }
}

pub(crate) struct LaunchedJob {
    pub(crate) child: Child,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
    lines: Receiver<String>,
    marker: String,
}

#[derive(Debug)]
pub(crate) struct Outcome {
    /// The exit code, or minus the number of the signal that killed the launcher.
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl LaunchedJob {
    pub(crate) fn line(&mut self) -> String {
        self.lines.recv_timeout(LIMIT).unwrap_or_else(|e| {
            let _ = self.child.kill();
            let err = self.err.take().map(|e| e.join().unwrap());
            panic!("no line came: {e}\n{}", err.unwrap_or_default())
        })
    }

    pub(crate) fn pids(&mut self, ranks: u32) -> HashMap<u32, i32> {
        let mut pids = HashMap::new();
        while pids.len() < ranks as usize {
            let line = self.line();
            let mut words = line.split(' ').skip_while(|w| *w != "rank").skip(1);
            if let (Some(rank), Some(pid)) = (words.next(), words.next()) {
                pids.insert(rank.parse().unwrap(), pid.parse().unwrap());
            }
        }
        pids
    }

    /// The children of the launcher, in the order of their starts. Not by
    /// `/proc/PID/task/PID/children`, which leaves out some while others end (proc_pid_task(5)).
    pub(crate) fn children(&self) -> Vec<i32> {
        let launcher = self.child.id().to_string();
        let mut children = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap() {
            let name = entry.unwrap().file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            // The process has ended meanwhile.
            let Some(stat) = stat_of(pid) else { continue };
            if stat[PARENT] == launcher {
                children.push((stat[STARTED].parse::<u64>().unwrap(), pid));
            }
        }
        children.sort_unstable();
        children.into_iter().map(|(_, pid)| pid).collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end of `mpirun` alone, while other jobs of the test go on.
    pub(crate) fn wait(self) -> Outcome {
        self.end_of_launcher(LIMIT)
    }

    /// Waits for the end of the job and of all its processes.
    pub(crate) fn end(self) -> Outcome {
        self.end_within(LIMIT)
    }

    /// As [`LaunchedJob::end`], with a time limit.
    pub(crate) fn end_within(self, limit: Duration) -> Outcome {
        let (start, marker) = (Instant::now(), self.marker.clone());
        let outcome = self.end_of_launcher(limit);
        while !processes_with(&marker).is_empty() {
            let left = processes_with(&marker);
            assert!(start.elapsed() < limit.max(SOON), "left behind: {left:?}\n{outcome:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        let shared: Vec<_> =
            std::fs::read_dir("/dev/shm").unwrap().flatten().map(|e| e.file_name()).collect();
        assert!(
            !shared.iter().any(|n| n.to_string_lossy().contains("oxmpi")),
            "in /dev/shm: {shared:?}"
        );
        outcome
    }

    fn end_of_launcher(mut self, limit: Duration) -> Outcome {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > limit {
                let left = processes_with(&self.marker);
                self.child.kill().unwrap();
                panic!("mpirun did not end within {limit:?}: {left:?}\n{}", self.texts().1);
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let code = status.code().unwrap_or_else(|| {
            -std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or(0)
        });
        let (out, err) = self.texts();
        Outcome { code, out, err }
    }

    fn texts(&mut self) -> (String, String) {
        let text = |t: Option<JoinHandle<String>>| t.map(|t| t.join().unwrap()).unwrap_or_default();
        (text(self.out.take()), text(self.err.take()))
    }
}

impl Drop for LaunchedJob {
    fn drop(&mut self) {
        // The test has failed. The launcher's guard ends the ranks.
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Outcome {
    /// The job ended with `code` and one report, which has `begin` after "mpirun: ".
    pub(crate) fn reports(&self, code: i32, begin: &str) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.err.starts_with(&format!("mpirun: {begin}")), "not '{begin}': {self:?}");
        self.reports_once();
    }

    /// There is one report, with the job's code in it.
    pub(crate) fn reports_once(&self) {
        assert_eq!(self.err.matches("mpirun:").count(), 1, "{self:?}");
        let end = format!("\n  The job ends with exit code {}", self.code);
        assert_eq!(self.err.matches(&end).count(), 1, "{self:?}");
    }

    /// The job succeeded: `lines` lines of output contain `text`, and there is no other output.
    pub(crate) fn is_fine(&self, lines: usize, text: &str) {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{self:?}");
        assert_eq!(self.out.matches(text).count(), lines, "{self:?}");
        assert_eq!(self.out.lines().count(), lines, "{self:?}");
    }
}

pub(crate) fn named(rank: u32, pid: i32) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    format!("rank {rank} (pid {pid}, host {})", host.trim())
}

pub(crate) fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

pub(crate) fn await_sleep(pid: i32) {
    let start = Instant::now();
    loop {
        let stat = stat_of(pid).unwrap();
        if stat[STATE] == "S" {
            return;
        }
        assert!(start.elapsed() < LIMIT, "process {pid} does not sleep: {stat:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
