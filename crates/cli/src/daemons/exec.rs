//! `oxmpi exec`, `lamexec`: runs a program on some nodes of the universe and shows the output of
//! all.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use oxmpi_daemon::{Program, ProgramEnd, Running, Stdio, Stream, UniverseError};
use oxmpi_sys::stdio;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::universe;
use crate::command::{Settings, Stop, did_you_mean, failed, usage};

/// Run a program that need not use MPI on nodes where you have daemons
///
/// oxmpi exec [OPTIONS] PLACES... PROGRAM ARGUMENTS...
///
/// PLACES are n0-2,5 (nodes), c0-3 (processors), N (each node), C (each processor), h (this node),
/// o (where 'oxmpi boot' ran); several words may follow each other.
///
/// The options: '-x NAME[=VALUE]' passes a variable on, several with commas between them; '-wd
/// DIRECTORY' starts there, otherwise in the directory of the same name as this one, else at home;
/// '--tag-output' puts the node before each line; '--mca NAME VALUE' sets a parameter:
/// boot_session_suffix.
///
/// The program has the environment of the node's daemon. A single program gets the standard input.
/// When this command is interrupted the programs and their process groups are ended. The exit code
/// is 0 if all programs exit with 0; else the first other code, or 128 + the number of the signal
/// that ended the program. LAM/MPI's name for this command is lamexec.
#[derive(Debug, clap::Args)]
#[command(override_usage = "oxmpi exec [OPTIONS] PLACES... PROGRAM [ARGUMENTS]...")]
pub(crate) struct ExecArgs {
    /// Options, places, the program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

/// The longest unfinished line that waits for its end, in bytes.
const MAX_LINE: usize = 64 << 10;

struct ExecOptions {
    settings: Settings,
    env: Vec<(OsString, OsString)>,
    directory: Option<OsString>,
    is_tagged: bool,
    places: Vec<String>,
    words: Vec<OsString>,
}

fn read(args: &[OsString]) -> Result<ExecOptions, Stop> {
    let mut options = ExecOptions {
        settings: Settings::default(),
        env: Vec::new(),
        directory: None,
        is_tagged: false,
        places: Vec::new(),
        words: Vec::new(),
    };
    let mut args = args.iter().cloned();
    while let Some(arg) = args.next() {
        let text = arg.to_string_lossy().into_owned();
        match text.as_str() {
            "-x" => {
                let names =
                    args.next().ok_or_else(|| usage("-x needs NAME or NAME=VALUE after it"))?;
                let names = names.to_string_lossy().into_owned();
                for name in names.split(',').filter(|name| !name.is_empty()) {
                    options.env.push(variable(name)?);
                }
            }
            "-wd" | "--wd" | "-wdir" | "--wdir" => {
                let directory = args
                    .next()
                    .ok_or_else(|| usage(format!("{text} needs a directory after it")))?;
                options.directory = Some(directory);
            }
            "--tag-output" | "-tag-output" => options.is_tagged = true,
            "--mca" | "-mca" | "-ssi" | "--ssi" => {
                let (Some(name), Some(value)) = (args.next(), args.next()) else {
                    return Err(usage(format!("{text} needs a parameter and its value after it")));
                };
                options.settings.push(&name.to_string_lossy(), &value.to_string_lossy());
            }
            "--" => {
                options.words.extend(args.by_ref());
            }
            _ if text.starts_with('-') => {
                let hint = did_you_mean(&text, ["-x", "-wd", "--tag-output", "--mca", "--help"]);
                return Err(usage(format!("unknown option '{text}'{hint}")));
            }
            _ if oxmpi_daemon::is_notation(&text) => options.places.push(text),
            _ => {
                options.words.push(arg);
                options.words.extend(args.by_ref());
            }
        }
    }
    Ok(options)
}

/// Reads `NAME` or `NAME=VALUE`. `NAME` alone takes the value of this process.
fn variable(text: &str) -> Result<(OsString, OsString), Stop> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        None => match std::env::var_os(text) {
            Some(value) => Ok((text.into(), value)),
            None => Err(usage(format!(
                "-x {text}: this variable is not set here; -x {text}=VALUE sets it"
            ))),
        },
        Some(_) => Err(usage(format!("-x {text}: the name of the variable is missing"))),
    }
}

pub(crate) fn exec(args: &ExecArgs) -> Result<i32, Stop> {
    let options = read(&args.words)?;
    if options.words.is_empty() {
        return Err(usage(
            "no program to run: write 'oxmpi exec N PROGRAM' ('oxmpi exec --help' explains)",
        ));
    }
    if options.places.is_empty() {
        return Err(usage(format!(
            "no node is named for '{}': write N for each node, or n0-2 ('oxmpi exec --help' explains)",
            options.words[0].display()
        )));
    }
    let params = options.settings.parameters()?;
    let universe = universe(&options.settings)?;
    let nodes = universe.nodes();
    let mut places = Vec::new();
    for word in &options.places {
        places.extend(oxmpi_daemon::places(word, &nodes, universe.own()).map_err(usage)?);
    }
    let directory = match &options.directory {
        Some(directory) => std::path::absolute(directory),
        None => std::env::current_dir(),
    };
    let program = Program {
        args: options.words,
        env: options.env,
        directory: directory
            .map_err(|error| failed(format!("cannot read the working directory: {error}")))?,
        is_strict: options.directory.is_some(),
        silence: Duration::from_secs(params.mpi_agent_silence_s()),
        patience: oxmpi_daemon::PATIENCE,
    };
    let mut shows = Vec::new();
    for place in &places {
        let (running, stdio) = universe.exec(place.node, &program).map_err(not_run)?;
        let name = format!("n{} ({})", place.node, nodes[place.node].name);
        let tag = if options.is_tagged { format!("[n{}] ", place.node) } else { String::new() };
        shows.push(Show::new(name, &tag, running, stdio));
    }
    let is_fed = shows.len() == 1;
    if !is_fed {
        shows.iter_mut().for_each(|show| show.stdio.stream.finish());
    }
    watch(&mut shows, is_fed)
        .map_err(|error| failed(format!("cannot wait for the programs: {error}")))?;
    Ok(report(&shows, &program.args[0]))
}

/// The exit codes of a shell: 127 if there is no such program, 126 if it cannot be run.
fn not_run(error: UniverseError) -> Stop {
    let code = match &error {
        UniverseError::Failed { error, .. }
            if *error == rustix::io::Errno::NOENT.raw_os_error() =>
        {
            127
        }
        UniverseError::Failed { error, .. } if *error != 0 => 126,
        _ => 1,
    };
    Stop(error.to_string(), code)
}

struct Show {
    name: String,
    running: Running,
    stdio: Stdio,
    lines: [Lines; 2],
    ended: Option<Result<ProgramEnd, UniverseError>>,
}

struct Lines {
    tag: String,
    /// The start of an unfinished line.
    begun: Vec<u8>,
    is_open: bool,
}

impl Show {
    fn new(name: String, tag: &str, running: Running, stdio: Stdio) -> Show {
        let lines = || Lines { tag: tag.into(), begun: Vec::new(), is_open: true };
        Show { name, running, stdio, lines: [lines(), lines()], ended: None }
    }

    fn is_over(&self) -> bool {
        match self.ended {
            None => false,
            // Processes of a lost daemon may still run and keep the streams open.
            Some(Err(_)) => true,
            Some(Ok(_)) => self.lines.iter().all(|lines| !lines.is_open),
        }
    }

    /// Shows new bytes of one stream. Returns `false` if nobody reads the output of this command.
    fn show_stream(&mut self, which: usize, stream: fn(&mut Stdio) -> &mut Stream) -> bool {
        let stream = stream(&mut self.stdio);
        let read = stream.read();
        self.lines[which].is_open = matches!(read, Ok(true));
        let came = stream.came().len();
        let text = self.lines[which].take(stream.take(came));
        let goes_on = if which == 0 { stdio::say(&text) } else { stdio::pass_error(&text) };
        match read {
            // The kernel resets the stream of a program that ends with unread input: a normal end.
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => {
                self.ended = Some(Err(UniverseError::Io { node: self.name.clone(), error }));
            }
            _ => {}
        }
        goes_on
    }
}

impl Lines {
    /// Adds `bytes`, and returns the complete lines with their tags.
    fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.begun.extend_from_slice(bytes);
        let end = match self.begun.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => at + 1,
            None if self.begun.len() >= MAX_LINE || !self.is_open => self.begun.len(),
            None => 0,
        };
        let rest = self.begun.split_off(end);
        let whole = std::mem::replace(&mut self.begun, rest);
        if self.tag.is_empty() {
            return whole;
        }
        let lines = whole.split_inclusive(|byte| *byte == b'\n');
        lines.flat_map(|line| [self.tag.as_bytes(), line].concat()).collect()
    }
}

#[derive(Clone, Copy)]
enum Polled {
    Input,
    /// The stream to the program accepts bytes again.
    Writable(usize),
    Output(usize),
    Errors(usize),
    End(usize),
}

/// Shows the output of the programs until all have ended. With `is_fed` the only program gets the
/// standard input.
fn watch(shows: &mut [Show], mut is_fed: bool) -> io::Result<()> {
    let mut bytes = vec![0; 1 << 16];
    while !shows.iter().all(Show::is_over) {
        let mut awaited = Vec::new();
        let mut fds = Vec::new();
        let stdin = rustix::stdio::stdin();
        let mut wait = |fd, flags, what| {
            fds.push(PollFd::from_borrowed_fd(fd, flags));
            awaited.push(what);
        };
        for (at, show) in shows.iter().enumerate() {
            let Stdio { stream, errors } = &show.stdio;
            let [out, err] = &show.lines;
            if out.is_open {
                wait(stream.input(), PollFlags::IN, Polled::Output(at));
                if stream.is_behind() {
                    wait(stream.output(), PollFlags::OUT, Polled::Writable(at));
                } else if is_fed && show.ended.is_none() {
                    wait(stdin, PollFlags::IN, Polled::Input);
                }
            }
            if err.is_open {
                wait(errors.input(), PollFlags::IN, Polled::Errors(at));
            }
            if show.ended.is_none() {
                wait(show.running.end(), PollFlags::IN, Polled::End(at));
            }
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let ready: Vec<Polled> =
            awaited.iter().zip(ready).filter(|(_, ready)| *ready).map(|(what, _)| *what).collect();
        for what in ready {
            let mut goes_on = true;
            match what {
                Polled::Input => is_fed = feed(&mut shows[0].stdio.stream, &mut bytes),
                Polled::Writable(at) => shows[at].stdio.stream.flush(),
                Polled::Output(at) => goes_on = shows[at].show_stream(0, |stdio| &mut stdio.stream),
                Polled::Errors(at) => goes_on = shows[at].show_stream(1, |stdio| &mut stdio.errors),
                Polled::End(at) if shows[at].ended.is_some() => {}
                Polled::End(at) => shows[at].ended = Some(shows[at].running.wait()),
            }
            if !goes_on {
                // The daemons end the programs when this process ends.
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Passes on a part of the standard input. Returns whether more may follow.
fn feed(to: &mut Stream, bytes: &mut [u8]) -> bool {
    match rustix::io::read(rustix::stdio::stdin(), &mut *bytes) {
        Err(Errno::AGAIN | Errno::INTR) => true,
        Ok(0) | Err(_) => {
            to.finish();
            false
        }
        Ok(n) => {
            to.post(&bytes[..n]);
            to.flush();
            true
        }
    }
}

fn report(shows: &[Show], program: &OsString) -> i32 {
    let mut code = 0;
    for show in shows {
        let (text, own) = match &show.ended {
            Some(Ok(ProgramEnd::Exited(0))) | None => continue,
            Some(Ok(end)) => {
                let text = match end {
                    ProgramEnd::Exited(exit) => format!("exited with code {exit}"),
                    ProgramEnd::Killed(signal) => format!("was killed by signal {signal}"),
                };
                (text, end.code())
            }
            Some(Err(error)) => (format!("was lost: {error}"), 1),
        };
        oxmpi_sys::complain!("oxmpi exec: {}: '{}' {text}", show.name, program.display());
        if code == 0 {
            code = own;
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_before_the_program_and_options_before_that() {
        let args =
            ["-x", "A=1,B=2", "n0-1", "C", "--tag-output", "ls", "-x", "N"].map(OsString::from);
        let Ok(options) = read(&args) else { panic!("the command line is well formed") };
        assert_eq!(
            (options.places, options.is_tagged, options.env.len()),
            (vec!["n0-1".into(), "C".into()], true, 2)
        );
        assert_eq!(options.words, ["ls", "-x", "N"]);
        assert!(read(&["-x".into()]).is_err() && read(&["-x".into(), "=1".into()]).is_err());
    }

    #[test]
    fn lines_are_shown_whole_with_their_tag() {
        let mut lines = Lines { tag: "[n1] ".into(), begun: vec![], is_open: true };
        assert_eq!(lines.take(b"ab"), b"");
        assert_eq!(lines.take(b"c\nd\ne"), b"[n1] abc\n[n1] d\n");
        lines.is_open = false;
        assert_eq!(lines.take(b""), b"[n1] e");
    }
}
