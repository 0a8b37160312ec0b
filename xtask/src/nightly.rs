//! `cargo xtask nightly`: the tests that the everyday run leaves out, in ten shares. Each change
//! runs one share after the everyday run (`.ci/run`). Ten changes in a row have run all of it.
//!
//! Each share has a tenth of the tests in modules `night`, of the fuzzers and of mpi4py's modules,
//! and one longer part of its own ([`own_part`]). A run goes on after a failure, and reports every
//! failure at its end.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::conformance;
use crate::gfortran;
use crate::install::target_directory;
use crate::needs::Needs;
use crate::release;
use crate::run::{Failure, Run};
use crate::soak;
use crate::steps::Steps;
use crate::test::{
    RunOptions, build_tests, fuzz, loom, make_installation, nextest, prefix, prepare, threads,
};

const SHARES: u32 = 10;
/// The share in which the wheel is made, installed and tested. It has no Fortran code.
const WHEEL: u32 = 2;
/// The share in which packages for Debian are made, installed and tested.
const DEBIAN_PACKAGES: u32 = 4;
/// The share in which the Fortran programs run with a newer compiler.
const NEWER_GFORTRAN: u32 = 2;
const FUZZ_SECONDS: u64 = 20;

#[derive(Args, Debug)]
pub(crate) struct NightlyOptions {
    #[command(flatten)]
    run: RunOptions,
    /// Leave out the steps that have passed in an earlier run of the same tree
    #[arg(long)]
    resume: bool,
}

pub(crate) fn share_of(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix("/10").and_then(|number| number.parse().ok());
    number.filter(|number| *number < SHARES).ok_or("it is not one of 0/10, 1/10, ... 9/10".into())
}

#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Passed {
    /// The commit, and the differences from it.
    tree: String,
    steps: BTreeSet<String>,
}

impl Passed {
    fn file() -> PathBuf {
        target_directory().join("nightly.json")
    }

    /// The steps that passed in an earlier run of the same tree, if that run is resumed.
    pub(crate) fn load(is_resumed: bool) -> Result<Passed, Failure> {
        let git = |words: &[&str]| Run::new("git").args(words).output();
        let parts = [git(&["rev-parse", "HEAD"])?, git(&["diff", "HEAD"])?].concat();
        let tree = String::from_utf8_lossy(&parts).into_owned();
        let text = fs::read_to_string(Passed::file()).unwrap_or_default();
        let earlier: Passed = serde_json::from_str(&text).unwrap_or_default();
        let is_same = is_resumed && earlier.tree == tree;
        Ok(if is_same { earlier } else { Passed { tree, steps: BTreeSet::new() } })
    }

    fn add(&mut self, step: String) -> Result<(), Failure> {
        self.steps.insert(step);
        let text = serde_json::to_string(self).map_err(|error| Failure::new(error.to_string()))?;
        fs::write(Passed::file(), text).map_err(Failure::io("what has passed cannot be noted"))
    }
}

pub(crate) fn nightly(options: &NightlyOptions) -> Result<(), Failure> {
    let run = &options.run;
    let mut passed = Passed::load(options.resume)?;
    let mut steps = Steps::new(run.only.clone());
    let needs = steps.need("what the tests need", || {
        let needs = prepare(run.skips())?;
        make_installation(&prefix())?;
        build_tests()?;
        Ok(needs)
    });
    let mut skips = Vec::new();
    if let Some(mut needs) = needs {
        for share in run.share.map_or(0..SHARES, |share| share..share + 1) {
            run_share(&mut steps, &mut needs, share, &mut passed);
        }
        skips = needs.skips();
    }
    steps.conclude(run.json.as_deref(), &skips)
}

/// Runs a share without the steps that have passed, and notes each step that passes.
pub(crate) fn run_share(steps: &mut Steps, needs: &mut Needs, share: u32, passed: &mut Passed) {
    let partition = format!("slice:{}/{SHARES}", share + 1);
    let mut run =
        |part: &str, profile: Option<&str>, act: &mut dyn FnMut() -> Result<(), Failure>| {
            let name = format!("share {share}/{SHARES}: {part}");
            if passed.steps.contains(&name) || !steps.wants(&name) {
                return;
            }
            let is_done = match profile {
                Some(profile) => steps.run_tests(&name, profile, act),
                None => steps.run(&name, act),
            };
            if is_done && let Err(failure) = passed.add(name) {
                println!("{failure}: 'cargo xtask nightly --resume' will repeat this step");
            }
        };
    run("tests of the night", Some("night"), &mut || {
        let night = ["--profile", "night", "--run-ignored", "only", "--partition", &partition];
        needs.environment(nextest().args(night)).args(["--test-threads", &threads()]).show()
    });
    run("fuzzers", Some("fuzz"), &mut || fuzz(FUZZ_SECONDS, Some(&partition)));
    run("mpi4py", None, &mut || conformance::share(&prefix(), share as usize, SHARES as usize));
    if let Some((name, act)) = conformance::below_other_launcher(share) {
        run(name, None, &mut || act(&prefix()));
    }
    for (name, act) in conformance::fortran_codes(share) {
        run(&name, None, &mut || act(&prefix()));
    }
    if share == WHEEL {
        run("the wheel", None, &mut || release::check(&prefix()));
    }
    if share == DEBIAN_PACKAGES {
        run("the packages for Debian", None, &mut || {
            needs.require(release::check_packages(&prefix()))
        });
    }
    if share == NEWER_GFORTRAN {
        let name = format!("Fortran programs with {}", gfortran::COMPILER);
        run(&name, Some("default"), &mut || gfortran::run_programs(needs));
    }
    let (name, mut act) = own_part(share, needs);
    run(name, None, &mut act);
}

type Act<'a> = Box<dyn FnMut() -> Result<(), Failure> + 'a>;

fn own_part(share: u32, needs: &mut Needs) -> (&'static str, Act<'_>) {
    match share {
        0 => ("four threads a rank", Box::new(|| soak::threads(&prefix(), 30))),
        1 => ("simulated worlds", Box::new(|| soak::worlds(Duration::from_secs(60)))),
        2 => (
            "InfiniBand in an emulated machine",
            Box::new(|| needs.require(conformance::infiniband(&prefix()))),
        ),
        3 => ("long series of checkpoints", Box::new(|| soak::checkpoints(needs, 80))),
        4 => ("loom in full", Box::new(|| loom(None))),
        5 => ("random plans", Box::new(|| soak::random_plans(60))),
        6 => ("stress of rings and doors", Box::new(|| soak::stress(60))),
        7 => ("every plan to 64 ranks", Box::new(soak::plans)),
        8 => (
            "mpi4py by its own runner over tcp",
            Box::new(|| conformance::runner_over_tcp(&prefix())),
        ),
        _ => (
            "simulated worlds in which ranks die",
            Box::new(|| soak::deadly_worlds(Duration::from_secs(60))),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read() {
        assert_eq!((share_of("0/10"), share_of("9/10")), (Ok(0), Ok(9)));
        for wrong in ["10/10", "3", "3/1", "-1/10", ""] {
            assert!(share_of(wrong).is_err(), "{wrong}");
        }
    }
}
