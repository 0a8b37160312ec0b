//! `oxmpi doctor --measure`: measures the costs of copies on this machine and writes them to a file
//! that jobs read (`oxmpi_core::copy_costs`).
//!
//! A job never measures. Each figure is the minimum of several runs, as every disturbance makes a
//! run longer.

pub(super) mod kernel;
mod pool;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use oxmpi_core::copy_costs::{self, PLAUSIBLE, Platform, figures, implausible, render};
use oxmpi_fabric::shm::copy_policy::CopyFacts;
use oxmpi_param::{Found, Params};
use oxmpi_sys::{cpus, hardware};

use crate::prefix;

const BUDGET: Duration = Duration::from_millis(3);

/// The most preemptions of a measurement that counts. Runs are short, so most are undisturbed.
const MOST_PREEMPTIONS: u64 = 6;

/// Returns the report, or the reason why no file was written.
pub(super) fn measure() -> Result<String, String> {
    let found = Found::gather(std::env::vars_os(), prefix::find().as_deref());
    let path = target(&found.into_result().map_err(|error| error.to_string())?)?;
    let begun = Instant::now();
    let (platform, sheet) = (Platform::here(), CopyFacts::here());
    let run = run(&sheet)?;
    let took_ms = begun.elapsed().as_millis();
    if run.preemptions > MOST_PREEMPTIONS {
        return Err(format!(
            "this machine is busy: other programs took the processors {} times while it was measured; try again when they have ended",
            run.preemptions
        ));
    }
    let wrong = implausible(&run.facts, &sheet);
    if !wrong.is_empty() {
        let (least, most) = (PLAUSIBLE.start(), PLAUSIBLE.end());
        return Err(format!(
            "these are not {least} to {most} times the built-in figures of {}, and nothing was written: {}. The machine may be busy, or \
             its hypervisor reports a wrong topology: try again",
            sheet.of,
            wrong.join("; ")
        ));
    }
    let not_measured: Vec<&str> = run.not_measured.iter().map(|(name, _)| *name).collect();
    let text = render(&platform, &run.facts, &not_measured);
    write(&path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(report(&platform, &sheet, &run, took_ms)
        + &format!("written to {}: jobs use it from now on\n", path.display()))
}

fn target(params: &Params) -> Result<PathBuf, String> {
    let value = params.shm_copy_costs();
    copy_costs::path(value, std::env::var_os("HOME")).ok_or_else(|| match value {
        "none" => "shm_copy_costs is 'none', so that no job would read a file".to_string(),
        _ => "HOME is not set: name a file with OXMPI_MCA_shm_copy_costs=FILE".to_string(),
    })
}

/// Writes a file atomically: a rename replaces it.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}", std::process::id()));
    let written = std::fs::write(&partial, text).and_then(|()| std::fs::rename(&partial, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    written
}

struct MeasuredFacts {
    facts: CopyFacts,
    /// Figures that are copied from the built-in facts, with the reason.
    not_measured: Vec<(&'static str, &'static str)>,
    preemptions: u64,
}

/// Measures all that this machine allows. The other figures are copied from `sheet`, the built-in
/// facts.
fn run(sheet: &CopyFacts) -> Result<MeasuredFacts, String> {
    let pairs = Pairs::here()?;
    let (mut facts, mut not_measured, mut preemptions) = (sheet.clone(), Vec::new(), 0);
    let mut leave_out = |prefix: &str, why| {
        let names = figures(&mut sheet.clone()).map(|(name, _)| name);
        not_measured.extend(
            names.into_iter().filter(|name| name.starts_with(prefix)).map(|name| (name, why)),
        );
    };
    match pairs.near {
        Some(pair) => {
            let run = pool::between(pair)?;
            (facts.near, facts.past_caches_ns) = (run.costs, run.past_caches_ns);
            preemptions += run.preemptions;
        }
        None => leave_out("near_", "no two cores here are known to share a cache"),
    }
    match pairs.far {
        Some(pair) => {
            let run = pool::between(pair)?;
            facts.far = run.costs;
            // Stores past the caches cost the same for each pair, so the larger figure holds for
            // both.
            facts.past_caches_ns = if pairs.near.is_some() {
                facts.past_caches_ns.max(run.past_caches_ns)
            } else {
                run.past_caches_ns
            };
            preemptions += run.preemptions;
        }
        None => leave_out("far_", "no two cores here are known to share no cache"),
    }
    if pairs.near.or(pairs.far).is_none() {
        leave_out("past_caches_", "the kernel does not say which processors share a cache");
    }
    match kernel::between(pairs.any)? {
        Some(run) => {
            facts.single_copy = run.costs;
            preemptions += run.preemptions;
        }
        None => leave_out("single_copy_", "processes may not read each other's memory here"),
    }
    Ok(MeasuredFacts { facts, not_measured, preemptions })
}

#[derive(Debug, PartialEq, Eq)]
struct Pairs {
    any: [usize; 2],
    near: Option<[usize; 2]>,
    far: Option<[usize; 2]>,
}

impl Pairs {
    fn here() -> Result<Pairs, String> {
        let cores = cpus::bindable_cores().map_err(|error| error.to_string())?;
        let usable = cpus::usable();
        let firsts: Vec<usize> =
            cores.iter().filter_map(|core| core.cpus.first().copied()).collect();
        if usable < 2 {
            return Err(too_few(usable));
        }
        Pairs::of(&firsts, hardware::cache_mates)
    }

    /// Pairs the first of the cores with one that shares a cache (near) and one that does not
    /// (far).
    fn of(
        firsts: &[usize],
        mates: impl FnOnce(usize) -> Option<BTreeSet<usize>>,
    ) -> Result<Pairs, String> {
        let [first, others @ ..] = firsts else { return Err(too_few(0)) };
        let next = *others.first().ok_or_else(|| too_few(1))?;
        let mates = mates(*first);
        let other = |is_near: bool| {
            let mates = mates.as_ref()?;
            others
                .iter()
                .find(|other| mates.contains(other) == is_near)
                .map(|other| [*first, *other])
        };
        Ok(Pairs { any: [*first, next], near: other(true), far: other(false) })
    }
}

fn too_few(cores: usize) -> String {
    format!("it takes two cores to measure, and this process may use {cores}")
}

fn preempted() -> u64 {
    cpus::preemptions().unwrap_or(0)
}

fn report(platform: &Platform, sheet: &CopyFacts, run: &MeasuredFacts, took_ms: u128) -> String {
    let mut out = format!(
        "what copies cost on {platform}: measured in {took_ms} ms (nanoseconds, for each KiB where a length counts)\n"
    );
    let _ = writeln!(out, "  {:<26} {:>9} {:>9}", "", "measured", "built in");
    let (mut facts, mut sheet) = (run.facts.clone(), sheet.clone());
    for ((name, is), (_, of)) in figures(&mut facts).into_iter().zip(figures(&mut sheet)) {
        let _ = match run.not_measured.iter().find(|(other, _)| *other == name) {
            None => writeln!(out, "  {name:<26} {is:>9.1} {of:>9.1}"),
            Some((_, why)) => writeln!(out, "  {name:<26} {:>9} {of:>9.1}  {why}", "-"),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_and_far_follow_the_kernels_cache_topology() {
        let mates = |all: &[usize]| Some(all.iter().copied().collect::<BTreeSet<usize>>());
        let of = |firsts: &[usize], all| Pairs::of(firsts, |_| all);
        let pairs = |any, near, far| Ok(Pairs { any, near, far });
        assert_eq!(of(&[0, 1, 4], mates(&[0, 1, 2, 3])), pairs([0, 1], Some([0, 1]), Some([0, 4])));
        assert_eq!(of(&[0, 1], mates(&[0, 1])), pairs([0, 1], Some([0, 1]), None));
        assert_eq!(of(&[0, 1], mates(&[0])), pairs([0, 1], None, Some([0, 1])));
        assert_eq!(of(&[2, 7], None), pairs([2, 7], None, None));
        for (firsts, many) in [(&[][..], 0), (&[3], 1)] {
            assert_eq!(of(firsts, mates(&[3])), Err(too_few(many)));
        }
    }
}
