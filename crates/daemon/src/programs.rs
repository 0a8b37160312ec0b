//! The programs that a daemon has started: each leads a process group, and ends with the connection
//! of its request and with the daemon.
//!
//! Rules
//! 1. A group that is to end gets SIGTERM, and [`GRACE`] later SIGKILL. When the leader has ended,
//!    the rest of its group is killed at once.
//! 2. A leader is reaped only after its group was killed and removed from the guard, so that no
//!    other group can get its number before.
//! 3. A process that has left its group becomes the daemon's child when its parents have ended (the
//!    daemon is a subreaper), and is killed when the daemon ends. If the daemon is killed itself,
//!    its guard kills the groups.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use oxmpi_sys::spawn::{self, Guard, MAX_GUARDED, SignalMask};
use rustix::fs::{Access, access};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, set_child_subreaper,
    waitid,
};

use super::ProgramEnd;
use crate::orphans::children_where;
use oxmpi_rt_proto::daemon::Exec;

/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);

pub(super) struct Programs {
    guard: Option<Guard>,
    /// By the process id of the leader.
    running: BTreeMap<i32, RunningProgram>,
    suffix: String,
    /// The limits on open files for programs: those with which the daemon started.
    open_files: Option<(u64, u64)>,
}

struct RunningProgram {
    process: spawn::Process,
    /// The connection of the request, and the program's number there.
    connection: u64,
    id: u32,
    limit: Option<Instant>,
}

pub(super) struct ExecFailure {
    /// errno, or 0.
    pub(super) error: i32,
    pub(super) reason: String,
}

impl Programs {
    /// Prepares this process for starting programs. It must have no other thread.
    pub(super) fn new(suffix: &str, open_files: Option<(u64, u64)>) -> io::Result<Programs> {
        set_child_subreaper(Some(rustix::process::getpid()))?;
        let guard = Some(Guard::start()?);
        Ok(Programs { guard, running: BTreeMap::new(), suffix: suffix.into(), open_files })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    pub(super) fn start(
        &mut self,
        connection: u64,
        exec: &Exec,
        stdio: BorrowedFd<'_>,
        errors: BorrowedFd<'_>,
    ) -> Result<i32, ExecFailure> {
        let fail = |error: i32, reason: String| ExecFailure { error, reason };
        let of = |what: String| {
            move |error: io::Error| ExecFailure {
                error: error.raw_os_error().unwrap_or(0),
                reason: format!("{what}: {error}"),
            }
        };
        let Some(guard) = &self.guard else {
            return Err(fail(0, "the guard process of the daemon was killed: boot again".into()));
        };
        if self.running.len() >= MAX_GUARDED {
            return Err(fail(
                0,
                format!("the daemon runs {MAX_GUARDED} programs already, and no more than that"),
            ));
        }
        let Some(name) = exec.args.first().filter(|name| !name.is_empty()) else {
            return Err(fail(0, "no program is named".into()));
        };
        let mut env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        if !self.suffix.is_empty() {
            // Commands of the program use this universe.
            env.insert(
                format!("{}boot_session_suffix", oxmpi_param::ENV_PREFIX).into(),
                (&self.suffix).into(),
            );
        }
        env.extend(exec.env.iter().cloned());
        let directory = directory(exec, env.get(OsStr::new("HOME")))?;
        let path = find(name, env.get(OsStr::new("PATH")), &directory)?;
        let c = |text: &[u8]| {
            CString::new(text)
                .map_err(|_| fail(0, format!("'{}' has a zero byte", text.escape_ascii())))
        };
        let args = exec.args.iter().map(|arg| c(arg.as_bytes())).collect::<Result<Vec<_>, _>>()?;
        let env =
            env.iter().map(|(name, value)| c(&[name.as_bytes(), b"=", value.as_bytes()].concat()));
        let env = env.collect::<Result<Vec<_>, _>>()?;
        let process = spawn::spawn(&spawn::Program {
            path: &c(path.as_os_str().as_bytes())?,
            args: &args,
            env: &env,
            directory: Some(&c(directory.as_os_str().as_bytes())?),
            fds: &[(stdio, 0), (stdio, 1), (errors, 2)],
            mask: &SignalMask::none(),
            ignores_none: true,
            open_files: self.open_files,
            cpus: None,
            is_tied: true,
        })
        .map_err(of(format!("cannot run '{}'", path.display())))?;
        let pid = process.pid;
        self.running.insert(pid, RunningProgram { process, connection, id: exec.id, limit: None });
        if let Err(error) = guard.watch(pid) {
            self.guard = None;
            signal(pid, Signal::KILL);
            return Err(fail(
                0,
                format!("the guard process of the daemon was killed ({error}): boot again"),
            ));
        }
        Ok(pid)
    }

    /// Reaps ended processes; returns the connection, number and end of each program.
    pub(super) fn reap(&mut self) -> Vec<(u64, u32, ProgramEnd)> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let (mut ended, mut leaders) = (Vec::new(), Vec::new());
        for (pid, running) in &self.running {
            let leader = WaitId::PidFd(running.process.pidfd.as_fd());
            let Ok(Some(status)) = waitid(leader, options | WaitIdOptions::NOWAIT) else {
                continue;
            };
            let how = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => ProgramEnd::Exited(code),
                (None, signal) => ProgramEnd::Killed(signal.unwrap_or(0)),
            };
            ended.push((running.connection, running.id, how));
            leaders.push(*pid);
        }
        for pid in &leaders {
            signal(*pid, Signal::KILL);
            // Fails if the guard is gone, which then has no list.
            let _ = self.guard.as_ref().map(|guard| guard.forget(*pid));
            if let Some(running) = self.running.remove(pid) {
                // The leader has ended, so this does not wait.
                let _ = waitid(WaitId::PidFd(running.process.pidfd.as_fd()), options);
            }
        }
        if leaders.is_empty() {
            // Then the ended process was an orphan.
            for pid in children_where(|state| state == 'Z') {
                if !self.running.contains_key(&pid.as_raw_pid()) {
                    let _ = waitid(WaitId::Pid(pid), options);
                }
            }
        }
        ended
    }

    /// Begins to end the programs of a connection, or all (rule 1).
    pub(super) fn end(&mut self, of: Option<u64>) {
        let limit = Instant::now() + GRACE;
        for (pid, running) in &mut self.running {
            if of.is_none_or(|connection| connection == running.connection)
                && running.limit.is_none()
            {
                running.limit = Some(limit);
                signal(*pid, Signal::TERM);
            }
        }
    }

    pub(super) fn time(&self) -> Option<Instant> {
        self.running.values().filter_map(|running| running.limit).min()
    }

    pub(super) fn kill_late(&mut self, now: Instant) {
        for (pid, running) in &mut self.running {
            if running.limit.is_some_and(|limit| limit <= now) {
                signal(*pid, Signal::KILL);
                // A process that the kernel still keeps is killed again later.
                running.limit = Some(now + GRACE);
            }
        }
    }

    /// Kills all remaining processes, and ends the guard.
    pub(super) fn finish(mut self) {
        let guard = self.guard.as_ref().map(Guard::pid);
        self.running.keys().for_each(|pid| signal(*pid, Signal::KILL));
        // Each killed process may leave children to this process.
        loop {
            let children: Vec<Pid> = children_where(|_| true)
                .into_iter()
                .filter(|pid| Some(pid.as_raw_pid()) != guard)
                .collect();
            if children.is_empty() {
                break;
            }
            for pid in children {
                let _ = kill_process(pid, Signal::KILL);
                let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
            }
        }
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
    }
}

/// Sends a signal to a group whose leader is not reaped.
fn signal(group: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(group) {
        let _ = kill_process_group(pid, signal);
    }
}

fn directory(exec: &Exec, home: Option<&OsString>) -> Result<PathBuf, ExecFailure> {
    match std::fs::metadata(&exec.directory) {
        Ok(found) if found.is_dir() => Ok(exec.directory.clone()),
        other if exec.is_strict => {
            let why = other.map_or_else(|error| error.to_string(), |_| "it is no directory".into());
            Err(ExecFailure {
                error: 0,
                reason: format!("cannot start in '{}': {why}", exec.directory.display()),
            })
        }
        _ => Ok(home.map_or_else(|| "/".into(), PathBuf::from)),
    }
}

/// The file that a shell would run for `name`.
fn find(name: &OsStr, path: Option<&OsString>, directory: &Path) -> Result<PathBuf, ExecFailure> {
    let is_executable = |path: &Path| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    let not_found = rustix::io::Errno::NOENT.raw_os_error();
    if name.as_bytes().contains(&b'/') {
        return Ok(directory.join(name));
    }
    let path = path.map_or(OsStr::new("/usr/bin:/bin"), |path| path);
    let mut candidates = std::env::split_paths(path).map(|entry| directory.join(entry).join(name));
    candidates.find(|path| is_executable(path)).ok_or_else(|| ExecFailure {
        error: not_found,
        reason: format!(
            "cannot run '{}': no such file in PATH ({})",
            name.display(),
            path.display()
        ),
    })
}
