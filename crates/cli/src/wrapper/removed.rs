//! Watching what a compiler says for names that MPI has no more.

use std::ffi::OsStr;
use std::io::{IsTerminal as _, Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Runs a compiler, whose words on standard error are passed on as they come. If it fails after words about removed names, a
/// line follows that says what helps. Its exit code; a signal that has ended it ends this process too.
pub(super) fn run(name: &str, command: &mut Command) -> std::io::Result<i32> {
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let found = child.stderr.take().map(|mut said| {
        let (sender, found) = mpsc::channel();
        std::thread::spawn(move || {
            // Whoever waits may have gone.
            let _ = sender.send(pass_on(&mut said));
        });
        found
    });
    let status = child.wait()?;
    let heard = found.and_then(|found| found.recv_timeout(LAST_WORDS_WITHIN).ok());
    let Heard { found, is_within_line } = heard.unwrap_or_default();
    if !status.success() && !found.is_empty() {
        oxmpi_sys::complain!(
            "{}{name}: MPI-3.0 removed {}; '{name} -mpi-compat' has {}, as has OXMPI_MPI_COMPAT=1 in the environment",
            if is_within_line { "\n" } else { "" },
            found.join(", "),
            if found.len() == 1 { "it" } else { "them" }
        );
    }
    Ok(code(status))
}

/// Whether a compiler needs the option that says that its output goes to a terminal, as it does not see that, and knows the option.
pub(super) fn takes_colours(program: &OsStr) -> bool {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("GCC_COLORS").is_none_or(|value| !value.is_empty())
        && std::env::var_os("TERM").is_some_and(|value| value != "dumb");
    wanted && std::io::stderr().is_terminal() && is_gcc_or_clang(program)
}

fn is_gcc_or_clang(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or_default();
    // Such as x86_64-linux-gnu-gcc-14.
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    ["gcc", "g++", "clang", "clang++"].iter().any(|known| plain.rsplit('-').next() == Some(known))
}

fn code(status: ExitStatus) -> i32 {
    let Some(signal) = status.signal() else { return status.code().unwrap_or(1) };
    if let Some(signal) = rustix::process::Signal::from_named_raw(signal) {
        // Whoever has run us sees what it would have seen of the compiler. Does not come back if the signal ends us.
        let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
    }
    128 + signal
}

/// What was heard of a compiler.
#[derive(Debug, Default)]
struct Heard {
    /// Names that were removed.
    found: Vec<&'static str>,
    /// Whether its last line has no end.
    is_within_line: bool,
}

/// Passes on all that comes.
fn pass_on(said: &mut impl Read) -> Heard {
    let mut found = Vec::new();
    let mut line = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        let read = match said.read(&mut bytes) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        // Nobody may be there to hear it; the compiler goes on all the same.
        let _ = std::io::stderr().write_all(&bytes[..read]);
        for part in bytes[..read].split_inclusive(|byte| *byte == b'\n') {
            if line.len() < LONGEST_LINE {
                line.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                note_names(&line, &mut found);
                line.clear();
            }
        }
    }
    note_names(&line, &mut found);
    Heard { found, is_within_line: !line.is_empty() }
}

/// Notes the removed names of a line.
fn note_names(line: &[u8], found: &mut Vec<&'static str>) {
    let text = without_escapes(&String::from_utf8_lossy(line));
    for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        // Whoever has a profiling function asks for the same header.
        let word = word.strip_prefix('P').unwrap_or(word);
        if let Some(name) = REMOVED.iter().find(|name| **name == word)
            && !found.contains(name)
        {
            found.push(name);
        }
    }
}

/// A text without the sequences that colour it.
fn without_escapes(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        // A sequence ends with its first letter.
        let end = part.find(|c: char| c.is_ascii_alphabetic()).map_or(part.len(), |at| at + 1);
        plain.push_str(&part[end..]);
    }
    plain
}

/// What `mpi_compat.h` declares.
const REMOVED: [&str; 11] = [
    "MPI_Address",
    "MPI_Errhandler_create",
    "MPI_Errhandler_get",
    "MPI_Errhandler_set",
    "MPI_Handler_function",
    "MPI_Type_extent",
    "MPI_Type_hindexed",
    "MPI_Type_hvector",
    "MPI_Type_lb",
    "MPI_Type_struct",
    "MPI_Type_ub",
];

/// Bytes of a line in which names are looked for.
const LONGEST_LINE: usize = 64 << 10;

/// How long the end of the compiler's words is awaited after its end: something that it has left behind (a server of a compiler's
/// cache) may keep the pipe open.
const LAST_WORDS_WITHIN: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<&'static str> {
        let mut found = Vec::new();
        text.lines().for_each(|line| note_names(line.as_bytes(), &mut found));
        found
    }

    #[test]
    fn names_are_found_in_the_words_of_compilers_and_linkers() {
        let gcc = "a.c:3:5: \x1b[01;31m\x1b[Kerror: \x1b[m\x1b[Kimplicit declaration of function \u{2018}\x1b[01m\x1b[KMPI_Address\x1b[m\x1b[K\u{2019}";
        assert_eq!(names(gcc), ["MPI_Address"]);
        assert_eq!(names("a.c:(.text+0x1f): undefined reference to `MPI_Type_struct'"), ["MPI_Type_struct"]);
        assert_eq!(
            names("use of undeclared identifier 'MPI_Type_ub'\nMPI_Type_ub MPI_Type_lb"),
            ["MPI_Type_ub", "MPI_Type_lb"]
        );
        assert_eq!(names("MPI_Get_address MPI_Type_create_struct my_MPI_Address MPI_Type_extents"), [""; 0]);
    }

    #[test]
    fn they_are_those_of_the_header() {
        let header = include_str!("../../include/mpi_compat.h");
        let functions = header.lines().filter_map(|line| line.strip_prefix("OXMPI_COMPAT int "));
        let types =
            header.lines().filter_map(|line| line.strip_prefix("typedef MPI_Comm_errhandler_function "));
        let mut there: Vec<_> =
            functions.chain(types).filter_map(|rest| rest.split(['(', ';']).next()).collect();
        there.sort_unstable();
        assert_eq!(there, REMOVED);
    }

    #[test]
    fn only_compilers_that_know_the_option_are_told_of_a_terminal() {
        for known in ["gcc", "/usr/bin/x86_64-linux-gnu-g++-14", "clang-19", "clang++"] {
            assert!(is_gcc_or_clang(OsStr::new(known)), "{known}");
        }
        for other in ["nvc", "tcc", "my-cc", "ccache", ""] {
            assert!(!is_gcc_or_clang(OsStr::new(other)), "{other}");
        }
    }
}
