//! `oxmpi checkpoint --advise`: the best interval, by the costs of the last sets.

use std::path::{Path, PathBuf};

use oxmpi_checkpoint::advice::interval;
use oxmpi_checkpoint::manifest::MANIFEST;
use oxmpi_checkpoint::set::{Set, SetError};

use crate::command::{Stop, failed};

const DAY_S: f64 = 86400.0;
const MOST: usize = 10;

/// Reads a mean time between failures, in seconds.
pub(super) fn mean_time(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok().filter(|time| time.is_finite() && *time > 0.0);
    seconds.ok_or_else(|| "not a number of seconds above 0".to_string())
}

/// Advises by the sets in `base`.
pub(super) fn advise(mean_time_s: Option<f64>, base: PathBuf) -> Result<i32, Stop> {
    let mtbf_s = mean_time_s.unwrap_or(DAY_S);
    let mut sets = sets_in(&base);
    sets.sort_by_key(|set| std::cmp::Reverse(set.manifest.made.unix_s));
    // A job that ended with its checkpoint was not held.
    let mut costs: Vec<f64> =
        sets.iter().filter_map(|set| set.manifest.cost.pause_s).take(MOST).collect();
    costs.sort_by(f64::total_cmp);
    let Some(cost_s) = costs.get(costs.len() / 2).copied() else {
        return Err(failed(format!(
            "there is no set in {} of a job that went on, so what one costs is not known: make one with 'oxmpi checkpoint --tree \
             PID', or name the directory with '--dir DIR'",
            base.display()
        )));
    };
    let found = interval(cost_s, mtbf_s).ok_or_else(|| {
        failed(format!("a job stood still for {cost_s} s: nothing follows from that"))
    })?;
    crate::say(&format!(
        "checkpoint every {:.0} s\n  by Daly's formula, for a machine that fails every {mtbf_s} s; by Young's {:.0} s\n  a \
         checkpoint stops the job for {cost_s:.3} s (median of the last {} in {})\n  {:.2} % of the time goes into checkpoints and \
         work that is done again\n",
        found.daly_s,
        found.young_s,
        costs.len(),
        base.display(),
        found.lost * 100.0
    ));
    Ok(0)
}

fn sets_in(base: &Path) -> Vec<Set> {
    let entries = std::fs::read_dir(base).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_hidden =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let sets = entries.filter(|path| !is_hidden(path) && path.join(MANIFEST).is_file());
    let open = |path: PathBuf| match Set::open(&path) {
        Ok(set) => Some(set),
        Err(SetError::Distrust(why)) => {
            oxmpi_sys::complain!("oxmpi checkpoint: {} is passed over: {why}", path.display());
            None
        }
        Err(_) => None,
    };
    sets.filter_map(open).collect()
}
