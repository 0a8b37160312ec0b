//! Running commands, with errors that name the command.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Failure {
        Failure(text.into())
    }

    pub(crate) fn io(what: impl fmt::Display) -> impl FnOnce(std::io::Error) -> Failure {
        move |error| Failure(format!("{what}: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A command to be run in the project's directory.
pub(crate) struct Run(Command);

impl Run {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Run {
        let mut command = Command::new(program);
        command.current_dir(crate::root());
        Run(command)
    }

    pub(crate) fn cargo() -> Run {
        Run::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Run {
        self.0.arg(arg);
        self
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Run {
        self.0.args(args);
        self
    }

    pub(crate) fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Run {
        self.0.env(key, value);
        self
    }

    pub(crate) fn current_dir(mut self, directory: &Path) -> Run {
        self.0.current_dir(directory);
        self
    }

    /// Prints the command, runs it without a standard input, and fails if it does.
    pub(crate) fn show(mut self) -> Result<(), Failure> {
        println!("$ {}", self.text());
        let status = self
            .0
            .stdin(Stdio::null())
            .status()
            .map_err(Failure::io(format!("cannot run '{}'", self.text())))?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure(format!("'{}' failed: {status}", self.text())))
        }
    }

    pub(crate) fn output(mut self) -> Result<Vec<u8>, Failure> {
        let output =
            self.0.output().map_err(Failure::io(format!("cannot run '{}'", self.text())))?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(Failure(format!(
                "'{}' failed: {}",
                self.text(),
                String::from_utf8_lossy(&output.stderr)
            ))),
        }
    }

    /// Runs the command without output. Returns whether it succeeded.
    pub(crate) fn succeeds(mut self) -> bool {
        self.0.output().is_ok_and(|output| output.status.success())
    }

    fn text(&self) -> String {
        let words = std::iter::once(self.0.get_program()).chain(self.0.get_args());
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }
}
