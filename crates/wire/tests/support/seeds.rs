//! Tests with random cases, each from a seed. Tests of several crates include this file.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// Runs `case` with different seeds for OXMPI_FUZZ_SECONDS (default 1), at least once, or once with
/// OXMPI_FUZZ_SEED. A failure prints its seed.
pub(crate) fn each_seed(case: impl Fn(u64)) {
    struct Name(u64);
    impl Drop for Name {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("to see this again: OXMPI_FUZZ_SEED={}", self.0);
            }
        }
    }
    let run = |seed| {
        let _name = Name(seed);
        case(seed);
    };
    if let Some(seed) = number("OXMPI_FUZZ_SEED") {
        return run(seed);
    }
    let end = Instant::now() + Duration::from_secs(number("OXMPI_FUZZ_SECONDS").unwrap_or(1));
    for seed in RandomState::new().hash_one(0) >> 16.. {
        run(seed);
        if Instant::now() >= end {
            return;
        }
    }
}

/// The value of an environment variable.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}
