//! How the stream to an agent is opened: by a program whose standard input and output it is, or by a daemon, which starts the
//! agent with its end of a socket.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oxmpi_sys::spawn::{Process, Program, Signals, spawn};
use rustix::pipe::{PipeFlags, pipe_with};

use super::stream::Stream;
use crate::daemon::{self, Running, Universe};

/// How the agent of a host is reached.
#[derive(Clone, Debug)]
pub enum Opening {
    /// This program with these arguments (its own name first) passes its standard input and output on to the agent, as ssh
    /// does.
    Command {
        /// The program.
        path: PathBuf,
        /// Its arguments.
        args: Vec<OsString>,
    },
    /// The user's daemon on a node starts the agent.
    Daemon {
        /// All daemons of the user.
        universe: Arc<Universe>,
        /// The node's number.
        node: usize,
        /// The program that becomes the agent; `None`: that which the daemon itself runs.
        program: Option<PathBuf>,
    },
}

/// What the daemon's program is called by a process that the daemon starts.
const OF_DAEMON: &str = "/proc/self/exe";

/// What holds the other end of a stream.
#[derive(Debug)]
pub(crate) enum Carrier {
    /// A process here, which passes the stream on.
    Process(Process),
    /// The agent itself, which a daemon has started.
    Agent(Box<Running>),
}

/// A stream that was just opened.
pub(crate) struct Opened {
    pub(crate) stream: Stream,
    /// What the agent, or who opened the stream, complains about.
    pub(crate) errors: Stream,
    pub(crate) carrier: Carrier,
}

impl Opening {
    /// Begins to open the stream. An agent that a daemon starts ends when this host has not answered for `silence`; the daemon may
    /// take as long as `patience` for an answer.
    ///
    /// # Errors
    /// The program cannot be run, the daemon refuses or is not reached, or the kernel refuses something.
    pub(crate) fn open(
        &self,
        (silence, patience): (Duration, Duration),
        signals: &Signals,
    ) -> io::Result<Opened> {
        let (path, args) = match self {
            Opening::Command { path, args } => (path, args),
            Opening::Daemon { universe, node, .. } => {
                let program = daemon::Program { patience, ..self.agent(silence) };
                let (running, stdio) = universe.exec(*node, &program).map_err(io::Error::other)?;
                return Ok(Opened {
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
        Ok(Opened { stream, errors, carrier: Carrier::Process(process) })
    }

    /// What is done, for a person.
    pub fn shown(&self) -> String {
        let shown =
            |args: &[OsString]| args.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        match self {
            Opening::Command { args, .. } => shown(args),
            Opening::Daemon { node, .. } => {
                format!("oxmpi exec n{node} {}", shown(&self.agent(Duration::ZERO).args))
            }
        }
    }

    /// What the user can do if that fails.
    pub fn remedy(&self) -> &'static str {
        match self {
            Opening::Command { .. } => "install ssh, or name the program with --mca plm_rsh_agent",
            Opening::Daemon { .. } => {
                "'oxmpi nodes' shows which daemons answer; 'oxmpi halt' and 'oxmpi boot' start anew"
            }
        }
    }

    /// What a daemon is to run.
    fn agent(&self, silence: Duration) -> daemon::Program {
        let program = match self {
            Opening::Daemon { program: Some(program), .. } => program.as_os_str(),
            // The daemon's child looks at this before it becomes another program, so it is the daemon's, wherever that lies.
            _ => OsStr::new(OF_DAEMON),
        };
        daemon::Program {
            args: vec![program.into(), "agent".into()],
            env: Vec::new(),
            directory: "/".into(),
            is_strict: true,
            silence,
            patience: daemon::PATIENCE,
        }
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}
