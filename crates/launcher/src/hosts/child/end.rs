//! The end of an agent, and why it ended too early.

use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::super::opening::Carrier;
use super::super::step::REPORTING;
use super::{Child, host_error};
use crate::launch::LaunchError;
use crate::polling::{timespec, wait_for};
use oxmpi_daemon::ProgramEnd;
use oxmpi_rt_proto::agent::{FromAgent, Receivers, ToAgent};

/// The limit for the exit of a process that has closed its end of the stream.
const ENDING: Duration = Duration::from_secs(2);

impl Child {
    /// The local process that forwards the stream, if there is one.
    pub(crate) fn carrier(&self) -> Option<i32> {
        match &self.carrier {
            Carrier::Process(process) => Some(process.pid),
            Carrier::Step(step) => step.srun.carrier(),
            Carrier::Agent(_) | Carrier::Network => None,
        }
    }

    /// Waits for the end of the local process, `limit` at most. Returns whether it has ended.
    pub(crate) fn await_exit(&self, limit: Duration) -> bool {
        let Carrier::Process(process) = &self.carrier else { return false };
        let mut ended = [PollFd::new(&process.pidfd, PollFlags::IN)];
        poll(&mut ended, Some(&timespec(limit))) == Ok(1)
    }

    /// The last error output, for the user.
    pub(crate) fn said_text(&self) -> String {
        String::from_utf8_lossy(&self.said).trim().replace('\n', "\n    ")
    }

    pub(crate) fn why_ended(&mut self, error: Option<io::Error>) -> LaunchError {
        let how = self.how_ended(error);
        let said = self.said_text();
        let words =
            if said.is_empty() { oxmpi_rt_proto::agent::shown(self.stream.came()) } else { said };
        let words =
            if words.is_empty() { String::new() } else { format!(" and said:\n    {words}") };
        let host = &self.host;
        let next = match how {
            Some(CarrierExit::Code(127 | 126)) => {
                "install OxMPI on that host at the same path, or name its directory there with --prefix"
                    .to_string()
            }
            Some(CarrierExit::Code(255)) => format!(
                "see that 'ssh {host} true' works from here without a password, or name another program with --mca \
                 plm_rsh_agent"
            ),
            _ => "try that command by hand; it should print a line that begins with OXMPI-AGENT".to_string(),
        };
        let how = how.map_or("has closed the stream".to_string(), |exit| exit.to_string());
        host_error(
            host,
            format!(
                "cannot start an agent there: '{}' {how}{words}\n  Next:    {next}",
                self.shown
            ),
        )
    }

    fn how_ended(&mut self, error: Option<io::Error>) -> Option<CarrierExit> {
        if let Carrier::Step(step) = &self.carrier {
            let step = Rc::clone(step);
            // The output is that of all agents, and one of them is enough to wait for it.
            let limit = if self.errors.is_some() { REPORTING } else { Duration::ZERO };
            let exit = step.srun.await_exit(limit).then(|| step.srun.exit()).flatten();
            self.read_errors();
            return exit.or(error.map(|error| CarrierExit::Error(error.to_string())));
        }
        if let Some(error) = error {
            return Some(CarrierExit::Error(error.to_string()));
        }
        let end = Instant::now() + ENDING;
        let ended = match &self.carrier {
            Carrier::Process(process) => PollFd::new(&process.pidfd, PollFlags::IN),
            Carrier::Agent(running) => PollFd::from_borrowed_fd(running.end(), PollFlags::IN),
            Carrier::Network | Carrier::Step(_) => return None,
        };
        let has_ended = poll(&mut [ended], Some(&timespec(ENDING))) == Ok(1);
        while self.errors.is_some() && Instant::now() < end && !self.read_errors().is_empty() {}
        match &mut self.carrier {
            Carrier::Agent(running) if has_ended => Some(match running.wait() {
                Ok(ProgramEnd::Exited(code)) => CarrierExit::Code(code),
                Ok(ProgramEnd::Killed(signal)) => CarrierExit::Signal(signal),
                Err(error) => CarrierExit::Error(error.to_string()),
            }),
            _ => self.exit(),
        }
    }

    /// How the local process has ended.
    fn exit(&self) -> Option<CarrierExit> {
        let Carrier::Process(process) = &self.carrier else { return None };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::PidFd(process.pidfd.as_fd()), options).ok()??;
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Some(CarrierExit::Code(code)),
            (None, Some(signal)) => Some(CarrierExit::Signal(signal)),
            _ => None,
        }
    }

    /// Why the stream has ended while ranks run, for the user.
    pub(crate) fn why_lost(&mut self, error: Option<io::Error>) -> String {
        let how = self.how_ended(error);
        let how = how
            .map_or("the stream has ended".to_string(), |exit| format!("'{}' {exit}", self.shown));
        let said = self.said_text();
        if said.is_empty() { how } else { format!("{how}; its last output:\n    {said}") }
    }

    /// Orders all agents to end, and waits for that. Calls `said` with texts for the user.
    pub(crate) fn end_all(all: &mut Vec<Child>, mut said: impl FnMut(&str)) {
        all.iter_mut().for_each(|far| far.post(&ToAgent::End, Receivers::All, None));
        let end = Instant::now() + 2 * ENDING;
        let mut left: Vec<&mut Child> = all.iter_mut().collect();
        while !left.is_empty() {
            left.retain_mut(|far| {
                far.stream.flush();
                far.read_errors();
                let goes_on = matches!(far.stream.read(), Ok(true));
                while let Ok(Some(message)) = far.next() {
                    if let Ok((_, FromAgent::Text { text })) = message.read() {
                        said(&text);
                    }
                }
                goes_on
            });
            let time = end.saturating_duration_since(Instant::now());
            if left.is_empty() || time.is_zero() {
                break;
            }
            let mut fds = Vec::new();
            left.iter().for_each(|far| far.poll_into(&mut fds));
            if wait_for(&mut fds, Some(time)).is_err() {
                break;
            }
        }
        all.clear();
    }
}

impl Drop for Child {
    /// Ends the process that forwards the stream; the agent sees the end of its stream, and ends. A
    /// daemon ends an agent that it has started.
    fn drop(&mut self) {
        if let Carrier::Process(process) = &self.carrier {
            let runs_after = |limit| {
                wait_for(&mut [PollFd::new(&process.pidfd, PollFlags::IN)], Some(limit)) == Ok(true)
            };
            let group = rustix::process::Pid::from_raw(process.pid);
            if let Some(group) = group.filter(|_| runs_after(Duration::ZERO)) {
                let _ = kill_process_group(group, Signal::TERM);
                if runs_after(ENDING) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
            }
            let _ = waitid(WaitId::PidFd(process.pidfd.as_fd()), WaitIdOptions::EXITED);
        }
    }
}

enum CarrierExit {
    Code(i32),
    Signal(i32),
    Error(String),
}

impl std::fmt::Display for CarrierExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CarrierExit::Code(code) => write!(f, "ended with exit code {code}"),
            CarrierExit::Signal(signal) => write!(f, "was killed by signal {signal}"),
            CarrierExit::Error(error) => write!(f, "cannot be read any more: {error}"),
        }
    }
}
