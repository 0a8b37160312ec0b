//! Single copy, tried between two processes as two ranks would: neither is the other's parent, and who is read has said that its
//! siblings may.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use oxmpi_sys::single_copy::RemoteProcess;
use oxmpi_sys::tracer;

use super::{Finding, good, note};

/// The word with which the process starts whose memory is read.
pub(super) const SHOWS: &str = "--shows-memory";
/// The word with which the reader starts.
pub(super) const READS: &str = "--reads-memory";

/// What lies in the memory that is read.
const WORD: u64 = 0x6f78_6d70_6920_3a29;

/// Says where a word is in this process, and stays until nobody needs it.
pub(super) fn show() -> i32 {
    tracer::let_descendants_read(std::os::unix::process::parent_id());
    let word = Box::new(std::hint::black_box(WORD));
    let address = std::ptr::from_ref::<u64>(&word) as usize;
    crate::say(&format!("{} {address} {}\n", std::process::id(), *word));
    let mut rest = Vec::new();
    // It ends when whoever has started it closes its input, or ends.
    let _ = std::io::stdin().read_to_end(&mut rest);
    i32::from(std::hint::black_box(*word) != WORD)
}

/// Reads that word: exit code 0 if it is there.
pub(super) fn read(pid: &str, address: &str, word: &str) -> i32 {
    let (Ok(pid), Ok(address), Ok(word)) = (pid.parse(), address.parse(), word.parse()) else { return 2 };
    i32::from(!RemoteProcess { pid }.probe(address, word))
}

pub(super) fn single_copy() -> Finding {
    match tried() {
        Ok(true) => good("single copy", "processes may read each other's memory (process_vm_readv)"),
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
    // By its own name the program would be something else.
    let mut shows = shows.args(["doctor", SHOWS]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    let told = shows.stdout.take().map_or(Ok(0), |out| BufReader::new(out).read_line(&mut line));
    let read =
        told.and_then(|_| Command::new(&own).args(["doctor", READS]).args(line.split_whitespace()).status());
    drop(shows.stdin.take());
    shows.wait()?;
    Ok(read?.success())
}

fn refused() -> Finding {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let text = "processes may not read each other's memory (process_vm_readv): long messages go through shared memory";
    let remedy = match scope.trim() {
        // With 1 siblings may.
        "" | "0" | "1" => {
            "in a container, start it with --cap-add SYS_PTRACE or a seccomp profile that allows process_vm_readv"
        }
        _ => "'sysctl kernel.yama.ptrace_scope=1' allows it, or --cap-add SYS_PTRACE for a container",
    };
    note("single copy", text, remedy)
}
