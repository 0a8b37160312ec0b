//! Programs of mpi4py that are killed and restarted from checkpoints many times
//! (`tests/conformance/checkpoints.py`).

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::programs::{ForeignLaunch, ForeignProgram};
use crate::criu;
use crate::root;
use crate::run::Failure;

/// Arrays of numpy, and pickled objects.
pub(super) const NUMPY: ForeignProgram = ForeignProgram {
    name: "checkpoint_numpy",
    ranks: &[2, 4],
    limit: Duration::from_secs(300),
    launch: ForeignLaunch::ByItself("python"),
    build: |_, _| Ok(()),
    start: |python, _, _, _| start(python, ["heat.py", "2000"]),
    check,
};

/// A pool of futures, whose threads call MPI.
pub(super) const POOL: ForeignProgram = ForeignProgram {
    name: "checkpoint_pool",
    start: |python, _, _, _| start(python, ["pool.py", "60"]),
    ..NUMPY
};

const CYCLES: u32 = 10;
const SEED: u32 = 1;

fn start(python: &mut Command, [program, argument]: [&str; 2]) -> Result<(), Failure> {
    let scripts = root().join("tests/conformance");
    python.arg(scripts.join("checkpoints.py")).arg(criu::find_or_unpack()?);
    python.args([CYCLES, SEED].map(|number| number.to_string()));
    python.arg(scripts.join(program)).arg(argument);
    Ok(())
}

fn check(output: &str, _: &Path, _: u32) -> Result<(), String> {
    let restarts =
        |line: &str| line.strip_prefix("restarted ")?.split(' ').next()?.parse::<u32>().ok();
    match output.lines().find_map(restarts) {
        Some(times) if times > 0 => Ok(()),
        _ => Err(format!("it was never brought back:\n{output}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_to_come_back() {
        let check = |text: &str| check(text, Path::new(""), 4);
        assert!(check("restarted 10 times, 40 results are right\n").is_ok());
        assert!(check("restarted 0 times, 40 results are right\n").is_err());
        assert!(check("").is_err());
    }
}
