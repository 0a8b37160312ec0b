//! The agents of a job in an allocation of Slurm. One `srun` starts them on all other hosts, as a
//! step of the allocation, and each calls the head.
//!
//! The streams of `srun` are not encrypted, so they carry public keys only: the invitation of the
//! head is the last word of the command, and each agent prints a line with its number in the step,
//! its node and its key. By these keys [`super::callers`] recognises the agents.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::str::FromStr;
use std::time::{Duration, Instant};

use oxmpi_sys::host;
use oxmpi_sys::spawn::Signals;
use oxmpi_wire::keys::PublicKey;
use rustix::event::{PollFd, PollFlags};
use tracing::info;

use super::agent::{Agent, leave_stdio};
use super::branches::PATIENCE;
use super::callers::{Callers, Invitation, call, key_pair};
use super::child::{Child, host_error};
use super::head::{Watch, interrupted};
use super::opening::{Opening, shown};
use crate::launch::{Deadline, Launch, LaunchError, kernel};
use crate::polling::wait_for;

/// The option of an agent that calls, before its invitation.
pub const CALL_OPTION: &str = "--call";
/// The beginning of the line by which an agent of a step announces its key.
const ANNOUNCEMENT: &str = "OXMPI-AGENT-KEY ";

/// The command that starts the agents of all other hosts. The invitation is added to it.
#[derive(Clone, Debug)]
pub struct AgentStep {
    pub path: PathBuf,
    pub args: Vec<OsString>,
}

/// The limit for the end of `srun` after its agents.
const ENDING: Duration = Duration::from_secs(2);
/// How long `srun` may take to report the end of an agent, after the end of its stream.
pub(super) const REPORTING: Duration = Duration::from_millis(300);

/// The command, for the user.
impl fmt::Display for AgentStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(&self.args))
    }
}

/// The `srun` of a step whose agents have called.
#[derive(Debug)]
pub(crate) struct RunningStep {
    pub(crate) srun: Child,
}

impl Drop for RunningStep {
    /// The agents end with their streams, and `srun` by itself after them. A signal would make it
    /// report that the step was cancelled.
    fn drop(&mut self) {
        self.srun.await_exit(ENDING);
    }
}

/// An agent of a step, by its own line.
#[derive(Debug, PartialEq, Eq)]
struct Announcement {
    /// Its number in the step.
    number: u32,
    node: String,
    key: PublicKey,
}

impl fmt::Display for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{ANNOUNCEMENT}{} {} {}", self.number, self.node, self.key)
    }
}

impl FromStr for Announcement {
    type Err = ();

    fn from_str(line: &str) -> Result<Announcement, ()> {
        let words = line.strip_prefix(ANNOUNCEMENT).ok_or(())?;
        let mut words = words.split_whitespace();
        let mut next = || words.next().ok_or(());
        let (number, node, key) = (next()?, next()?.to_string(), next()?);
        let (number, key) = (number.parse().map_err(|_| ())?, key.parse().map_err(|_| ())?);
        Ok(Announcement { number, node, key })
    }
}

impl AgentStep {
    /// Starts the agents of these hosts, each with the number of its node in the job, and waits
    /// until all have called.
    pub(crate) fn open(
        &self,
        hosts: Vec<(u32, String)>,
        launch: &Launch,
        (signals, deadline): Watch<'_>,
    ) -> Result<Vec<Child>, LaunchError> {
        let Some((node, name)) = hosts.first().cloned() else { return Ok(Vec::new()) };
        let (callers, invitation) = Callers::listen(&launch.params, &launch.hostmap)?;
        let mut args = self.args.clone();
        args.extend([CALL_OPTION.into(), OsString::from(invitation.to_string())]);
        let opening = Opening::Command { path: self.path.clone(), args };
        let limits = (Duration::ZERO, Duration::ZERO);
        let srun = Child::open((node, name), &opening, limits, signals)?;
        let began = Instant::now();
        let mut starting =
            StartingStep { hosts, callers, srun, announced: BTreeMap::new(), called: Vec::new() };
        while !starting.advance()? {
            let left = PATIENCE.saturating_sub(began.elapsed());
            if let Some(Deadline { time, .. }) = deadline.filter(|end| end.left().is_zero()) {
                return Err(LaunchError::TimedOut { time, text: starting.missing() });
            }
            if left.is_zero() {
                return Err(host_error(&starting.srun.host, starting.missing()));
            }
            starting.wait(signals, deadline.map_or(left, |end| end.left().min(left)))?;
            if let Some(number) = interrupted(signals) {
                return Err(LaunchError::Interrupted(number));
            }
        }
        info!(agents = starting.called.len(), took = ?began.elapsed(), "the agents have called");
        Ok(starting.into_children())
    }
}

/// A step some of whose agents have not called.
struct StartingStep {
    /// The hosts whose agents have not called.
    hosts: Vec<(u32, String)>,
    callers: Callers,
    srun: Child,
    /// The node of the agent with each number in the step.
    announced: BTreeMap<u32, String>,
    called: Vec<Child>,
}

impl StartingStep {
    /// Handles all that has come, without waiting. Returns whether all agents have called.
    fn advance(&mut self) -> Result<bool, LaunchError> {
        self.srun.read_errors();
        let ended = self.srun.read();
        self.read_announcements();
        // A caller can come before its line.
        self.callers.serve();
        for caller in self.callers.take_arrived() {
            let node = self.announced.get(&caller.number);
            let at = self.hosts.iter().position(|(_, name)| Some(name) == node);
            let Some(at) = at else { continue };
            let (node, name) = self.hosts.remove(at);
            self.called.push(Child::called((node, name), caller.stream));
        }
        let Some((_, missing)) = self.hosts.first() else { return Ok(true) };
        self.srun.host.clone_from(missing);
        match ended {
            Some(error) => Err(self.srun.why_ended(error)),
            None => Ok(false),
        }
    }

    /// Reads the lines of the agents. A site's prologue can print others.
    fn read_announcements(&mut self) {
        let came = self.srun.stream.came();
        let Some(end) = came.iter().rposition(|byte| *byte == b'\n') else { return };
        let lines = String::from_utf8_lossy(self.srun.stream.take(end + 1)).into_owned();
        for Announcement { number, node, key } in lines.lines().filter_map(|line| line.parse().ok())
        {
            if self.hosts.iter().any(|(_, name)| *name == node) {
                self.announced.insert(number, node);
                self.callers.know(number, Some(key));
            }
        }
    }

    /// The text about agents that have not called.
    fn missing(&self) -> String {
        let others = match self.hosts.len() {
            0 | 1 => String::new(),
            all => format!(" (and those of {} other hosts)", all - 1),
        };
        let said = match self.srun.said_text() {
            said if said.is_empty() => said,
            said => format!(", which said:\n    {said}"),
        };
        format!(
            "the agent there{others} has not called mpirun; started by '{}'{said}\n  Next:    see that this host accepts \
             connections from there; btl_tcp_if_include selects the networks whose addresses the agents get",
            self.srun.shown
        )
    }

    fn wait(&self, signals: &Signals, left: Duration) -> Result<(), LaunchError> {
        let next = self.callers.next_limit();
        let next = next.map(|limit| limit.saturating_duration_since(Instant::now()));
        let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
        self.srun.poll_into(&mut fds);
        self.callers.poll_into(&mut fds);
        let left = next.map_or(left, |next| next.min(left));
        kernel("wait for the agents on other hosts", wait_for(&mut fds, Some(left))).map(drop)
    }

    fn into_children(mut self) -> Vec<Child> {
        let errors = self.srun.errors.take();
        let step = Rc::new(RunningStep { srun: self.srun });
        let mut children = self.called;
        children.iter_mut().for_each(|child| child.note_step(&step));
        // The error output is that of all agents.
        children.iter_mut().take(1).zip(errors).for_each(|(child, of)| child.errors = Some(of));
        children
    }
}

/// Serves the head that has sent the invitation, as the agent of this node of Slurm; returns the
/// exit status.
pub fn serve_invited(
    invitation: &str,
    library_directory: Option<PathBuf>,
) -> Result<i32, LaunchError> {
    let invitation: Invitation = invitation
        .parse()
        .map_err(|error| LaunchError::Join(format!("the invitation of mpirun: {error}")))?;
    let keys = key_pair()?;
    let number = std::env::var("SLURM_PROCID").ok().and_then(|number| number.parse().ok());
    let number = number.ok_or_else(|| {
        LaunchError::Join("SLURM_PROCID is not set: srun starts such an agent".into())
    })?;
    let node = std::env::var("SLURMD_NODENAME").unwrap_or_else(|_| host::name());
    let line = Announcement { number, node: node.clone(), key: keys.public() }.to_string();
    let signals = crate::launch::prepare(false)?;
    oxmpi_sys::stdio::say(line.as_bytes());
    leave_stdio()?;
    let stream = call(&invitation, number, &keys, &node, PATIENCE)
        .map_err(|error| LaunchError::Kernel("reach mpirun", error))?;
    Agent::new(library_directory, &signals, stream)?.run()
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_wire::keys::KeyPair;

    #[test]
    fn the_line_of_an_agent_is_read_and_other_lines_are_not() {
        let key = KeyPair::generate().unwrap().public();
        let agent = Announcement { number: 3, node: "nodeb".into(), key };
        let line = agent.to_string();
        assert_eq!(line.trim_end().parse(), Ok(agent));
        for other in [
            "",
            "slurm prolog: welcome",
            "OXMPI-AGENT-KEY ",
            "OXMPI-AGENT-KEY 3 nodeb 00",
            &format!("OXMPI-AGENT-KEY x nodeb {key}"),
            &format!("0: {line}"),
        ] {
            assert_eq!(other.parse::<Announcement>(), Err(()), "{other}");
        }
    }
}
