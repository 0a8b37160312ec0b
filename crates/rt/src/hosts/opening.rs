//! How the stream to an agent is opened: by a program whose standard input and output it is.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use oxmpi_os::spawn::{Process, Program, Signals, spawn};
use rustix::pipe::{PipeFlags, pipe_with};

use super::stream::Stream;

/// How the agent of a host is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// This program with these arguments (its own name first) passes its standard input and output on to the agent, as ssh
    /// does.
    Command {
        /// The program.
        path: PathBuf,
        /// Its arguments.
        args: Vec<OsString>,
    },
}

/// A stream that was just opened.
pub(crate) struct Opened {
    pub(crate) stream: Stream,
    /// What the agent, or who opened the stream, complains about.
    pub(crate) errors: Option<OwnedFd>,
    /// The process that passes the stream on, if there is one.
    pub(crate) process: Option<Process>,
}

impl Opening {
    /// Begins to open the stream.
    ///
    /// # Errors
    /// The program cannot be run, or the kernel refuses something.
    pub(crate) fn open(&self, signals: &Signals) -> io::Result<Opened> {
        let Opening::Command { path, args } = self;
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
            open_files: None,
            cpus: None,
            is_tied: true,
        })?;
        rustix::fs::fcntl_setfl(&errors, rustix::fs::OFlags::NONBLOCK)?;
        let stream = Stream::new(our_input, our_output)?;
        Ok(Opened { stream, errors: Some(errors), process: Some(process) })
    }

    /// What is done, for a person.
    pub fn shown(&self) -> String {
        let Opening::Command { args, .. } = self;
        args.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}
