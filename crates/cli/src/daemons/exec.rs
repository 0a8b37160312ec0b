//! `oxmpi exec`, `lamexec`: run a program on some nodes of the universe, and show what all of them say.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use oxmpi_os::poller::{Poller, Ready};
use oxmpi_os::stdio;
use oxmpi_rt::daemon::{self, Ended, Program, Running, UniverseError};
use rustix::net::{RecvFlags, Shutdown, shutdown};

use super::{Command, Stop, failed, main, usage};

pub(crate) const HELP: &str = "\
oxmpi exec, lamexec: run a program that need not use MPI on nodes where you have daemons

  oxmpi exec [OPTIONS] PLACES... PROGRAM ARGUMENTS...
      PLACES                n0-2,5 (nodes), c0-3 (processors), N (each node), C (each processor), h (this node), o (where
                            'oxmpi boot' ran); several words may follow each other
      -x NAME[=VALUE]       hand on a variable; several with commas between them
      -wd DIRECTORY         start there; without it, in the directory of the same name as this one, else at home
      --tag-output          put the node before each line
      --mca NAME VALUE      set a parameter: boot_session_suffix

The program has the environment of the node's daemon. A single one gets the standard input. When this command is interrupted the
programs and their process groups are ended. Exit code: 0 if that of all is; else the first other one, or 128 + its signal.
";

/// Bytes of a line that are kept back until it is complete.
const MAX_LINE: usize = 64 << 10;

/// Answers `oxmpi exec`.
pub(crate) fn exec(args: &[OsString]) -> i32 {
    main("exec", HELP, try_exec(args))
}

/// The command line.
struct Wanted {
    /// What stands before the places, for [`Command::read`].
    common: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    directory: Option<OsString>,
    is_tagged: bool,
    places: Vec<String>,
    words: Vec<OsString>,
}

fn read(args: &[OsString]) -> Result<Wanted, Stop> {
    let mut wanted = Wanted {
        common: Vec::new(),
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
                let names = args.next().ok_or_else(|| usage("-x needs NAME or NAME=VALUE after it"))?;
                let names = names.to_string_lossy().into_owned();
                for name in names.split(',').filter(|name| !name.is_empty()) {
                    wanted.env.push(variable(name)?);
                }
            }
            "-wd" | "--wd" | "-wdir" | "--wdir" => {
                let directory =
                    args.next().ok_or_else(|| usage(format!("{text} needs a directory after it")))?;
                wanted.directory = Some(directory);
            }
            "--tag-output" | "-tag-output" => wanted.is_tagged = true,
            "--mca" | "-mca" | "-ssi" | "--ssi" => {
                wanted.common.extend([Some(arg), args.next(), args.next()].into_iter().flatten())
            }
            "--" => {
                wanted.words.extend(args.by_ref());
            }
            _ if text.starts_with('-') => wanted.common.push(arg),
            _ if daemon::is_notation(&text) => wanted.places.push(text),
            _ => {
                wanted.words.push(arg);
                wanted.words.extend(args.by_ref());
            }
        }
    }
    Ok(wanted)
}

/// Reads `NAME` or `NAME=VALUE`.
fn variable(text: &str) -> Result<(OsString, OsString), Stop> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        None => match std::env::var_os(text) {
            Some(value) => Ok((text.into(), value)),
            None => Err(usage(format!("-x {text}: this variable is not set here; -x {text}=VALUE sets it"))),
        },
        Some(_) => Err(usage(format!("-x {text}: a variable has a name"))),
    }
}

fn try_exec(args: &[OsString]) -> Result<Option<i32>, Stop> {
    let wanted = read(args)?;
    let Some(command) = Command::read(&wanted.common, &[], &["--tag-output"])? else { return Ok(None) };
    if wanted.words.is_empty() {
        return Err(usage("no program to run: write 'oxmpi exec N PROGRAM' ('oxmpi exec --help' explains)"));
    }
    if wanted.places.is_empty() {
        return Err(usage(format!(
            "where shall '{}' run? write N for each node, or n0-2 ('oxmpi exec --help' explains)",
            wanted.words[0].display()
        )));
    }
    let universe = command.universe()?;
    let nodes = universe.nodes();
    let mut places = Vec::new();
    for word in &wanted.places {
        places.extend(daemon::places(word, &nodes, universe.own()).map_err(usage)?);
    }
    let directory = match &wanted.directory {
        Some(directory) => std::path::absolute(directory),
        None => std::env::current_dir(),
    };
    let program = Program {
        args: wanted.words,
        env: wanted.env,
        directory: directory.map_err(|error| failed(format!("where is this? {error}")))?,
        is_strict: wanted.directory.is_some(),
    };
    let mut shows = Vec::new();
    for place in &places {
        let running = universe.exec(place.node, &program).map_err(not_run)?;
        let name = format!("n{} ({})", place.node, nodes[place.node].name);
        let tag = if wanted.is_tagged { format!("[n{}] ", place.node) } else { String::new() };
        shows.push(Show::new(name, &tag, running));
    }
    match &shows[..] {
        [only] => feed(only).map_err(|error| failed(format!("cannot pass on the input: {error}")))?,
        // Nothing more can be done about one that has ended.
        all => all.iter().for_each(|show| _ = shutdown(&show.running.stream, Shutdown::Write)),
    }
    watch(&mut shows).map_err(|error| failed(format!("cannot wait for the programs: {error}")))?;
    Ok(Some(report(&shows, &program.args[0])))
}

/// As a shell does: 127 if there is no such program, 126 if it cannot be run.
fn not_run(error: UniverseError) -> Stop {
    let code = match &error {
        UniverseError::Failed { error, .. } if *error == rustix::io::Errno::NOENT.raw_os_error() => 127,
        UniverseError::Failed { error, .. } if *error != 0 => 126,
        _ => 1,
    };
    Stop(error.to_string(), code)
}

/// Passes on the standard input, to its end or that of the program.
fn feed(only: &Show) -> io::Result<()> {
    let stream = only.running.stream.try_clone()?;
    std::thread::spawn(move || {
        let mut to = std::fs::File::from(stream);
        // If the program does not want it any more, nobody does.
        let _ = io::copy(&mut io::stdin().lock(), &mut to);
        let _ = shutdown(&to, Shutdown::Write);
    });
    Ok(())
}

/// A program whose output is shown.
struct Show {
    name: String,
    running: Running,
    /// Standard output and standard error.
    lines: [Lines; 2],
    ended: Option<Result<Ended, UniverseError>>,
}

struct Lines {
    tag: String,
    /// The line that has begun.
    begun: Vec<u8>,
    is_open: bool,
}

impl Show {
    fn new(name: String, tag: &str, running: Running) -> Show {
        let lines = || Lines { tag: tag.into(), begun: Vec::new(), is_open: true };
        Show { name, running, lines: [lines(), lines()], ended: None }
    }

    fn is_over(&self) -> bool {
        match self.ended {
            None => false,
            // What a lost daemon has started may be there still, and keep the streams.
            Some(Err(_)) => true,
            Some(Ok(_)) => self.lines.iter().all(|lines| !lines.is_open),
        }
    }

    fn fd(&self, which: usize) -> BorrowedFd<'_> {
        match which {
            0 => self.running.stream.as_fd(),
            1 => self.running.errors.as_fd(),
            _ => self.running.end(),
        }
    }
}

impl Lines {
    /// Takes what has come, and returns what can be shown.
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

/// Shows what the programs say until all have ended.
fn watch(shows: &mut [Show]) -> io::Result<()> {
    let poller = Poller::new()?;
    for (number, show) in shows.iter().enumerate() {
        for which in 0..3 {
            poller.add(show.fd(which), (number * 3 + which) as u64, false)?;
        }
    }
    let mut ready = Vec::new();
    let mut bytes = vec![0; 1 << 16];
    while !shows.iter().all(Show::is_over) {
        poller.wait(None);
        poller.look(&mut ready);
        for &Ready { name, .. } in &ready {
            let (show, which) = (&mut shows[name as usize / 3], name as usize % 3);
            if which == 2 {
                poller.remove(show.fd(2));
                show.ended = Some(show.running.wait());
                continue;
            }
            let came = match rustix::net::recv(show.fd(which), &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((n, _)) => n,
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => continue,
                // A program that ends with input unread resets its stream; that is its end.
                Err(_) => 0,
            };
            if came == 0 {
                poller.remove(show.fd(which));
                show.lines[which].is_open = false;
            }
            let text = show.lines[which].take(&bytes[..came]);
            let goes_on = if which == 0 { stdio::say(&text) } else { stdio::pass_error(&text) };
            if !goes_on {
                // The daemons end the programs when this process is gone.
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Says who has not ended well. Returns the exit code.
fn report(shows: &[Show], program: &OsString) -> i32 {
    let mut code = 0;
    for show in shows {
        let (text, own) = match &show.ended {
            Some(Ok(Ended::Exited(0))) => continue,
            Some(Ok(how @ Ended::Exited(exit))) => (format!("exited with code {exit}"), how.code()),
            Some(Ok(how @ Ended::Killed(signal))) => (format!("was killed by signal {signal}"), how.code()),
            Some(Err(error)) => (format!("was lost: {error}"), 1),
            None => continue,
        };
        oxmpi_os::complain!("oxmpi exec: {}: '{}' {text}", show.name, program.display());
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
        let args = ["-x", "A=1,B=2", "n0-1", "C", "--tag-output", "ls", "-x", "N"].map(OsString::from);
        let Ok(wanted) = read(&args) else { panic!("it is well formed") };
        assert_eq!(
            (wanted.places, wanted.is_tagged, wanted.env.len()),
            (vec!["n0-1".into(), "C".into()], true, 2)
        );
        assert_eq!(wanted.words, ["ls", "-x", "N"]);
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
