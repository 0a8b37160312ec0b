//! How the stream to an agent is opened: as the standard input and output of a program such as ssh,
//! or by a daemon, which starts the agent with its end of a socket.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use oxmpi_sys::spawn::{Process, Program, Signals, spawn};
use rustix::pipe::{PipeFlags, pipe_with};

use oxmpi_daemon::diagnostics::{LogTarget, word_for};
use oxmpi_daemon::stream::Stream;
use oxmpi_daemon::{Running, Universe};
use oxmpi_rt_proto::agent::{AgentStarts, AgentWay, BranchHost, DaemonStarts, StartCommand};

use super::child::host_error;
use super::step::RunningStep;
use crate::launch::{LaunchError, ProgramSearch};

/// How to reach the agent of a host.
#[derive(Clone, Debug)]
pub(crate) enum Opening {
    /// A program that forwards its standard input and output to the agent, as ssh does.
    Command { path: PathBuf, args: Vec<OsString> },
    /// The user's daemon on a node starts the agent.
    Daemon {
        universe: Arc<Universe>,
        node: usize,
        /// The agent's program; `None`: that of the daemon.
        program: Option<PathBuf>,
    },
}

/// How the agents of a job's hosts are started.
#[derive(Clone, Debug, Default)]
pub struct Starts {
    pub command: Option<StartCommand>,
    /// The user's daemons, and the agent's program; `None`: that of the daemon.
    pub daemons: Option<(Arc<Universe>, Option<PathBuf>)>,
}

/// Which agent serves a host of a job.
#[derive(Clone, Debug)]
pub enum HostAgent {
    /// None: it is the host of this process.
    Unneeded,
    /// One that is started in this way.
    Opened(AgentWay),
    /// One that has called this process.
    Called,
}

impl HostAgent {
    /// Whether the host is that of this process.
    pub fn is_unneeded(&self) -> bool {
        matches!(self, HostAgent::Unneeded)
    }
}

/// The daemon's program, in a process that the daemon starts.
const OF_DAEMON: &str = "/proc/self/exe";

/// The process at the other end of a stream.
#[derive(Debug)]
pub(crate) enum Carrier {
    Process(Process),
    Agent(Box<Running>),
    /// None here: the agent has connected by itself.
    Network,
    /// The `srun` that has started this agent and others, which have connected by themselves.
    Step(Rc<RunningStep>),
}

pub(crate) struct OpenedStream {
    pub(crate) stream: Stream,
    /// The error output of the agent, or of the program that opened the stream.
    pub(crate) errors: Stream,
    pub(crate) carrier: Carrier,
}

impl Opening {
    /// Begins to open the stream. A daemon's agent ends when this host has not answered for
    /// `silence`; `patience` is the limit for the daemon's answer.
    pub(crate) fn open(
        &self,
        (silence, patience): (Duration, Duration),
        signals: &Signals,
    ) -> io::Result<OpenedStream> {
        let (path, args) = match self {
            Opening::Command { path, args } => (path, args),
            Opening::Daemon { universe, node, .. } => {
                let program = oxmpi_daemon::Program { patience, ..self.agent(silence) };
                let (running, stdio) = universe.exec(*node, &program).map_err(io::Error::other)?;
                return Ok(OpenedStream {
                    stream: stdio.stream,
                    errors: stdio.errors,
                    carrier: Carrier::Agent(Box::new(running)),
                });
            }
        };
        let (their_input, our_output) = pipe_with(PipeFlags::CLOEXEC)?;
        let (our_input, their_output) = pipe_with(PipeFlags::CLOEXEC)?;
        let (errors, their_errors) = pipe_with(PipeFlags::CLOEXEC)?;
        let env: Vec<CString> = std::env::vars_os()
            .filter_map(|(mut name, value)| {
                name.push("=");
                name.push(value);
                CString::new(name.into_vec()).ok()
            })
            .collect();
        let args = args.iter().map(|word| c_string(word)).collect::<io::Result<Vec<_>>>()?;
        let process = spawn(&Program {
            path: &c_string(path.as_os_str())?,
            args: &args,
            env: &env,
            directory: None,
            fds: &[(their_input.as_fd(), 0), (their_output.as_fd(), 1), (their_errors.as_fd(), 2)],
            mask: signals.before(),
            ignores_none: false,
            open_files: None,
            cpus: None,
            is_tied: true,
        })?;
        let (stream, errors) = (Stream::new(our_input, our_output)?, Stream::over(errors, None)?);
        Ok(OpenedStream { stream, errors, carrier: Carrier::Process(process) })
    }

    /// The command, for the user.
    pub(crate) fn shown(&self) -> String {
        match self {
            Opening::Command { args, .. } => shown(args),
            Opening::Daemon { node, .. } => {
                format!("oxmpi exec n{node} {}", shown(&self.agent(Duration::ZERO).args))
            }
        }
    }

    /// The user's remedy if opening fails.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Opening::Command { .. } => "install ssh, or name the program with --mca plm_rsh_agent",
            Opening::Daemon { .. } => {
                "'oxmpi nodes' shows which daemons answer; 'oxmpi halt' and 'oxmpi boot' start them anew"
            }
        }
    }

    fn agent(&self, silence: Duration) -> oxmpi_daemon::Program {
        let program = match self {
            Opening::Daemon { program: Some(program), .. } => program.as_os_str(),
            // The daemon's child resolves this before execve(2): it names the daemon's file on any
            // host.
            _ => OsStr::new(OF_DAEMON),
        };
        oxmpi_daemon::Program {
            args: [program, "agent".as_ref()]
                .into_iter()
                .chain(word_for(LogTarget::Agent).map(OsStr::new))
                .map(OsString::from)
                .collect(),
            env: Vec::new(),
            directory: "/".into(),
            is_strict: true,
            silence,
            patience: oxmpi_daemon::PATIENCE,
        }
    }
}

impl Starts {
    /// As the parent of this process has sent it.
    pub(crate) fn received(AgentStarts { command, daemons }: AgentStarts) -> Starts {
        let command = command.map(|command| {
            // The program may be at another path here.
            let name = command.args.first().filter(|_| !command.path.exists());
            let found = name.and_then(|name| ProgramSearch::default().find(name).ok());
            StartCommand { path: found.unwrap_or(command.path), ..command }
        });
        let daemons = daemons.and_then(|DaemonStarts { suffix, program }| {
            let universe = Universe::find(&suffix).ok().flatten()?;
            Some((Arc::new(universe), program.map(PathBuf::from)))
        });
        Starts { command, daemons }
    }

    /// For the agents of children.
    pub(crate) fn to_send(&self) -> AgentStarts {
        let daemons = self.daemons.as_ref().map(|(universe, program)| DaemonStarts {
            suffix: universe.suffix().to_string(),
            program: program.clone().map(PathBuf::into_os_string),
        });
        AgentStarts { command: self.command.clone(), daemons }
    }

    /// How the agent of a host is reached.
    pub(crate) fn opening(&self, host: &BranchHost) -> Result<Opening, LaunchError> {
        let opening = match &host.way {
            AgentWay::Command { user } => self.command.as_ref().map(|command| Opening::Command {
                path: command.path.clone(),
                args: command.words(&host.name, user.as_deref()),
            }),
            AgentWay::Daemon { node } => {
                self.daemons.as_ref().map(|(universe, program)| Opening::Daemon {
                    universe: Arc::clone(universe),
                    node: *node as usize,
                    program: program.clone(),
                })
            }
        };
        opening.ok_or_else(|| host_error(&host.name, "no daemon of the user runs here".into()))
    }
}

/// The words of a command, for the user.
pub(super) fn shown(args: &[OsString]) -> String {
    args.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}
