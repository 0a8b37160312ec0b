//! Tests single copy between two processes in the same relation as two ranks: they are siblings,
//! and the process that is read has allowed its siblings to read.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use oxmpi_sys::single_copy::RemoteProcess;
use oxmpi_sys::tracer;

use super::{Finding, good, note};

/// The argument that starts the process whose memory is read.
pub(super) const SHOWS: &str = "--shows-memory";
pub(super) const READS: &str = "--reads-memory";

const WORD: u64 = 0x6f78_6d70_6920_3a29;

/// Prints the address of a word in this process, and waits until standard input ends.
pub(super) fn show() -> i32 {
    tracer::let_descendants_read(std::os::unix::process::parent_id());
    let word = Box::new(std::hint::black_box(WORD));
    let address = std::ptr::from_ref::<u64>(&word) as usize;
    crate::say(&format!("{} {address} {}\n", std::process::id(), *word));
    let mut rest = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut rest);
    i32::from(std::hint::black_box(*word) != WORD)
}

/// Reads the word of the other process. The exit code is 0 if it has the expected value.
pub(super) fn read(pid: &str, address: &str, word: &str) -> i32 {
    let (Ok(pid), Ok(address), Ok(word)) = (pid.parse(), address.parse(), word.parse()) else {
        return 2;
    };
    i32::from(!RemoteProcess { pid }.probe(address, word))
}

pub(super) fn single_copy() -> Finding {
    match tried() {
        Ok(true) => {
            good("single copy", "processes may read each other's memory (process_vm_readv)")
        }
        Ok(false) => refused(),
        Err(error) => note(
            "single copy",
            format!("it could not be tried: {error}"),
            "'oxmpi doctor' starts itself twice for it",
        ),
    }
}

fn tried() -> std::io::Result<bool> {
    let own = oxmpi_sys::library::program()?;
    let mut shows = Command::new(&own);
    // A program called by another name than oxmpi is another tool, so 'doctor' stands first.
    let mut shows =
        shows.args(["doctor", SHOWS]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    let written = shows.stdout.take().map_or(Ok(0), |out| BufReader::new(out).read_line(&mut line));
    let read = written.and_then(|_| {
        Command::new(&own).args(["doctor", READS]).args(line.split_whitespace()).status()
    });
    drop(shows.stdin.take());
    shows.wait()?;
    Ok(read?.success())
}

fn refused() -> Finding {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let text = "processes may not read each other's memory (process_vm_readv): long messages go through shared memory";
    let remedy = match scope.trim() {
        // Yama allows siblings with ptrace_scope 1, so a container must be the reason.
        "" | "0" | "1" => {
            "in a container, start it with --cap-add SYS_PTRACE or a seccomp profile that allows process_vm_readv"
        }
        _ => {
            "'sysctl kernel.yama.ptrace_scope=1' allows it, or --cap-add SYS_PTRACE for a container"
        }
    };
    note("single copy", text, remedy)
}
