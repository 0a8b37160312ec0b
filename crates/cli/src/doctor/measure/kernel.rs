//! Costs of the kernel's copy (process_vm_readv(2)): this process and a child read each other's
//! memory, first this process alone, then both.

use std::io::{BufRead, BufReader, Error, Read as _, Result, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use oxmpi_fabric::shm::copy_policy::KernelCopyCosts;
use oxmpi_sys::bytes::BytesMut;
use oxmpi_sys::single_copy::RemoteProcess;
use oxmpi_sys::{cpus, tracer};

use super::{BUDGET, preempted};

/// The argument that makes a process the second one of the measurement.
pub(crate) const COPIES: &str = "--copies-memory";

/// Length of the region that is read piece by piece, in bytes: more than a private cache holds.
const REGION_BYTES: usize = 4 << 20;
/// Lengths of a long and of a short read, in bytes.
const LENGTHS: [usize; 2] = [64 << 10, 4 << 10];
/// The second process reads this much longer, so that it covers the measurement of this process.
const MARGIN: Duration = Duration::from_millis(2);

pub(super) struct KernelRun {
    pub(super) costs: KernelCopyCosts,
    pub(super) preemptions: u64,
}

/// Measures with one process on each processor. `None`: the kernel lets neither read the other.
pub(super) fn between(processors: [usize; 2]) -> std::result::Result<Option<KernelRun>, String> {
    // A thread of its own, as the measurement binds its thread to a processor.
    let thread = std::thread::spawn(move || run(processors).map_err(|error| error.to_string()));
    thread.join().map_err(|_| "a thread that measures has died")?
}

fn run([own, other]: [usize; 2]) -> Result<Option<KernelRun>> {
    cpus::set_cpu(own)?;
    // The second process is a child, which Yama (ptrace_scope 1) allows only by this call.
    tracer::let_descendants_read(std::process::id());
    let region = vec![1u8; REGION_BYTES];
    let program = oxmpi_sys::library::program()?;
    let words =
        [COPIES.to_string(), other.to_string(), std::process::id().to_string(), address(&region)];
    let mut child = Command::new(program)
        .arg("doctor")
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (to_child, from_child) = (child.stdin.take(), child.stdout.take());
    let result = match (to_child, from_child) {
        (Some(to_child), Some(from_child)) => {
            talk(child.id(), to_child, BufReader::new(from_child))
        }
        _ => Err(Error::other("no pipes to the other process")),
    };
    child.wait()?;
    drop(region);
    result
}

fn talk(
    pid: u32,
    mut to_child: impl Write,
    mut from_child: impl BufRead,
) -> Result<Option<KernelRun>> {
    let mut next = || {
        let mut line = String::new();
        from_child.read_line(&mut line)?;
        match line.trim().parse::<u64>() {
            Ok(number) => Ok(number),
            Err(_) => Err(Error::other(format!("the other process has said '{}'", line.trim()))),
        }
    };
    let source = RemoteRegion { process: RemoteProcess { pid }, address: next()? };
    if !source.is_readable() {
        return Ok(None);
    }
    let before = preempted();
    let alone = source.read_for(BUDGET)?;
    writeln!(to_child)?;
    to_child.flush()?;
    // The second process sends a line when it begins to read.
    next()?;
    let both = source.read_for(BUDGET)?;
    let preemptions = preempted() - before + next()?;
    let [kib_long, kib_short] = LENGTHS.map(|len| len as f64 / 1024.0);
    let alone_ns = (alone[0] - alone[1]) / (kib_long - kib_short);
    let call_ns = alone[1] - alone_ns * kib_short;
    let both_ns = (both[0] - call_ns) / kib_long;
    Ok(Some(KernelRun { costs: KernelCopyCosts { call_ns, alone_ns, both_ns }, preemptions }))
}

/// Runs the second process: reports the address of its region, and reads the region of the first
/// process when a line comes.
pub(crate) fn other(processor: &str, pid: &str, address_there: &str) -> i32 {
    let (Ok(processor), Ok(pid), Ok(there)) =
        (processor.parse(), pid.parse(), address_there.parse())
    else {
        return 2;
    };
    let source = RemoteRegion { process: RemoteProcess { pid }, address: there };
    let region = vec![1u8; REGION_BYTES];
    tracer::let_descendants_read(pid);
    if let Err(error) = cpus::set_cpu(processor) {
        crate::say(&format!("{error}\n"));
        return 1;
    }
    crate::say(&format!("{}\n", address(&region)));
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line).unwrap_or(0) == 0 {
        return 0;
    }
    let before = preempted();
    crate::say("1\n");
    if let Err(error) = source.read_for(BUDGET + MARGIN) {
        crate::say(&format!("{error}\n"));
        return 1;
    }
    crate::say(&format!("{}\n", preempted() - before));
    // The first process reads this memory until it closes the pipe.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    drop(region);
    0
}

fn address(region: &[u8]) -> String {
    region.as_ptr().expose_provenance().to_string()
}

struct RemoteRegion {
    process: RemoteProcess,
    address: u64,
}

impl RemoteRegion {
    fn is_readable(&self) -> bool {
        self.process.probe(self.address, u64::from_ne_bytes([1; 8]))
    }

    /// Reads the region for `time`. Returns the nanoseconds of a long and of a short read, each of
    /// its best lap.
    fn read_for(&self, time: Duration) -> Result<[f64; 2]> {
        let mut to = vec![0u8; LENGTHS[0]];
        let mut best = [f64::INFINITY; 2];
        let begun = Instant::now();
        for lap in 0.. {
            // At least two laps of each length.
            if lap >= 4 && begun.elapsed() >= time {
                break;
            }
            let which = lap % 2;
            let len = LENGTHS[which];
            // Both lengths have the same number of calls, which keeps laps of short reads short.
            let places = (0..REGION_BYTES).step_by(LENGTHS[0]);
            let (calls, start) = (places.len(), Instant::now());
            for at in places {
                self.process.read(self.address + at as u64, BytesMut::from(&mut to[..len]))?;
            }
            best[which] = best[which].min(start.elapsed().as_nanos() as f64 / calls as f64);
        }
        Ok(best)
    }
}
