//! The facts in /proc about a process and its program.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The path of a process's program.
pub fn program_of(pid: u32) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe"))
}

/// The names of the program that runs jobs.
pub const LAUNCHERS: [&str; 2] = ["mpirun", "mpiexec"];
/// The names of the program that restarts jobs.
pub const RESTARTS: [&str; 3] = ["restart", "lamrestart", "cr_restart"];

/// The command line of a process, each word ended by a zero; empty if unreadable.
pub fn command_of(pid: u32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// Whether the program, or its first argument (`oxmpi mpirun`), has one of these names.
pub fn is_named(command: &[u8], names: &[&str]) -> bool {
    let mut words = command.split(|byte| *byte == 0);
    let mut is = || {
        let word = words.next().map(|word| Path::new(std::ffi::OsStr::from_bytes(word)));
        word.and_then(Path::file_name).is_some_and(|name| names.iter().any(|known| name == *known))
    };
    is() || is()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_known_by_their_names() {
        for (command, is) in [
            ("/opt/bin/mpirun\0-n\x004\0", true),
            ("mpiexec\0", true),
            ("oxmpi\0mpirun\0-n\x004\0", true),
            ("oxmpi\0agent\0", false),
            ("./heat\0", false),
            ("", false),
        ] {
            assert_eq!(is_named(command.as_bytes(), &LAUNCHERS), is, "{command}");
        }
    }
}
