//! Searches the messages of a compiler for names that MPI has removed.

use std::ffi::OsStr;
use std::io::{IsTerminal as _, Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Runs a compiler and passes its standard error on at once. If it fails after messages about
/// removed names, a line with the remedy follows. Returns its exit code. If a signal ends the
/// compiler, it ends this process too.
pub(super) fn run(name: &str, command: &mut Command) -> std::io::Result<i32> {
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let found = child.stderr.take().map(|mut said| {
        let (sender, found) = mpsc::channel();
        std::thread::spawn(move || {
            // The receiver may have stopped waiting.
            let _ = sender.send(pass_on(&mut said));
        });
        found
    });
    let status = child.wait()?;
    let messages = found.and_then(|found| found.recv_timeout(LAST_WORDS_WITHIN).ok());
    let CompilerMessages { found, is_within_line } = messages.unwrap_or_default();
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

/// Whether the compiler needs and knows the option for coloured messages. The compiler writes to a
/// pipe and cannot see the terminal.
pub(super) fn takes_colours(program: &OsStr) -> bool {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("GCC_COLORS").is_none_or(|value| !value.is_empty())
        && std::env::var_os("TERM").is_some_and(|value| value != "dumb");
    wanted && std::io::stderr().is_terminal() && is_gcc_or_clang(program)
}

fn is_gcc_or_clang(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or_default();
    // The name may have a target and a version, such as x86_64-linux-gnu-gcc-14.
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    ["gcc", "g++", "clang", "clang++"].iter().any(|known| plain.rsplit('-').next() == Some(known))
}

fn code(status: ExitStatus) -> i32 {
    let Some(signal) = status.signal() else { return status.code().unwrap_or(1) };
    if let Some(signal) = rustix::process::Signal::from_named_raw(signal) {
        // The caller sees the same signal as from the compiler. The call does not return if the
        // signal ends this process.
        let _ = rustix::process::kill_process(rustix::process::getpid(), signal);
    }
    128 + signal
}

#[derive(Debug, Default)]
struct CompilerMessages {
    found: Vec<&'static str>,
    is_within_line: bool,
}

fn pass_on(said: &mut impl Read) -> CompilerMessages {
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
        // A failed write to standard error must not stop the compiler.
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
    CompilerMessages { found, is_within_line: !line.is_empty() }
}

fn note_names(line: &[u8], found: &mut Vec<&'static str>) {
    let text = without_escapes(&String::from_utf8_lossy(line));
    for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
        // Profiling functions (PMPI_) come from the same header.
        let word = word.strip_prefix('P').unwrap_or(word);
        if let Some(name) = REMOVED.iter().find(|name| **name == word)
            && !found.contains(name)
        {
            found.push(name);
        }
    }
}

fn without_escapes(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        // An escape sequence ends with its first letter.
        let end = part.find(|c: char| c.is_ascii_alphabetic()).map_or(part.len(), |at| at + 1);
        plain.push_str(&part[end..]);
    }
    plain
}

/// The names that `mpi_compat.h` declares.
#[rustfmt::skip] // a table
const REMOVED: [&str; 11] = [
    "MPI_Address", "MPI_Errhandler_create", "MPI_Errhandler_get", "MPI_Errhandler_set",
    "MPI_Handler_function", "MPI_Type_extent", "MPI_Type_hindexed", "MPI_Type_hvector",
    "MPI_Type_lb", "MPI_Type_struct", "MPI_Type_ub",
];

/// The part of a line that is searched, in bytes.
const LONGEST_LINE: usize = 64 << 10;

/// The longest wait for the end of the compiler's messages after its exit. A process that it leaves
/// behind, such as the server of a compiler cache, may keep the pipe open.
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
    fn names_are_found_in_messages_of_compilers_and_linkers() {
        let gcc = "a.c:3:5: \x1b[01;31m\x1b[Kerror: \x1b[m\x1b[Kimplicit declaration of function \u{2018}\x1b[01m\x1b[KMPI_Address\x1b[m\x1b[K\u{2019}";
        assert_eq!(names(gcc), ["MPI_Address"]);
        assert_eq!(
            names("a.c:(.text+0x1f): undefined reference to `MPI_Type_struct'"),
            ["MPI_Type_struct"]
        );
        assert_eq!(
            names("use of undeclared identifier 'MPI_Type_ub'\nMPI_Type_ub MPI_Type_lb"),
            ["MPI_Type_ub", "MPI_Type_lb"]
        );
        assert_eq!(
            names("MPI_Get_address MPI_Type_create_struct my_MPI_Address MPI_Type_extents"),
            [""; 0]
        );
    }

    #[test]
    fn names_are_those_of_the_header() {
        let header = include_str!("../../include/mpi_compat.h");
        let functions = header.lines().filter_map(|line| line.strip_prefix("OXMPI_COMPAT int "));
        let types = header
            .lines()
            .filter_map(|line| line.strip_prefix("typedef MPI_Comm_errhandler_function "));
        let mut there: Vec<_> =
            functions.chain(types).filter_map(|rest| rest.split(['(', ';']).next()).collect();
        there.sort_unstable();
        assert_eq!(there, REMOVED);
    }

    #[test]
    fn colour_options_go_only_to_compilers_that_know_them() {
        for known in ["gcc", "/usr/bin/x86_64-linux-gnu-g++-14", "clang-19", "clang++"] {
            assert!(is_gcc_or_clang(OsStr::new(known)), "{known}");
        }
        for other in ["nvc", "tcc", "my-cc", "ccache", ""] {
            assert!(!is_gcc_or_clang(OsStr::new(other)), "{other}");
        }
    }
}
