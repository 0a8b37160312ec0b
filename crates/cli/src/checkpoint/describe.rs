//! `oxmpi info --checkpoint`: the description of a set.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use oxmpi_checkpoint::manifest::FORMAT;
use oxmpi_checkpoint::ranks;
use oxmpi_checkpoint::set::{Set, SetError};
use oxmpi_launcher::checkpoint::supervise::interval_text;

use super::amount;
use super::restart::with_older;
use crate::command::{Stop, failed};

/// Runs `oxmpi info --checkpoint`: an error if the set is damaged. `sums`: checksums are verified.
pub(crate) fn info(path: &Path, sums: bool) -> Result<i32, Stop> {
    let unusable = |error: SetError| failed(with_older(&error, path, &[path.into()]));
    let set = Set::open(path).map_err(unusable)?;
    set.passed_over.iter().for_each(|why| oxmpi_sys::complain!("oxmpi info: {why}"));
    let state = set.verify(sums);
    crate::say(&text(&set));
    match state {
        Ok(()) if sums => crate::say("whole:      yes, all checksums verified\n"),
        Ok(()) => {
            crate::say("whole:      all lengths are right, checksums not verified (--quick)\n")
        }
        Err(error) => return Err(unusable(error)),
    }
    Ok(0)
}

fn text(set: &Set) -> String {
    let manifest = &set.manifest;
    let (made, job, cost) = (&manifest.made, &manifest.job, &manifest.cost);
    let stood = match cost.pause_s {
        Some(_) if manifest.is_own => "the job went on".into(),
        Some(pause) => format!("the job stood still for {pause:.3} s"),
        None => "the job has ended with it".into(),
    };
    let images = match manifest.ranks {
        _ if manifest.is_own => {
            "none; the program has saved its state, and restores it in a new job"
        }
        Some(_) => "an image of each rank; a new mpirun restores them",
        None => "one of all processes together, mpirun among them",
    };
    let rows = [
        ("set", set.path.display().to_string()),
        ("made", format!("{} on host {}, kernel {}", ago(made.unix_s), made.host, made.kernel)),
        ("program", job.program.clone()),
        ("command", job.command.join(" ")),
        ("directory", job.directory.display().to_string()),
        (
            "ranks",
            format!(
                "{}, {} processes and threads{} (process {})",
                job.ranks,
                job.tasks.len(),
                if manifest.ranks.is_some() { " beside mpirun" } else { " with mpirun" },
                job.mpirun
            ),
        ),
        ("images", images.into()),
        ("app schema", ranks::schema(set).map_or("none".into(), |file| file.display().to_string())),
        ("transport", job.transport.clone()),
        ("size", format!("{} in {} files", amount(manifest.bytes()), manifest.files.len())),
        (
            "took",
            format!(
                "{:.3} s to the image, {:.3} s to the disk; {stood}",
                cost.image_s, cost.sync_s
            ),
        ),
        (
            "open files",
            format!(
                "{} written, {} needed as they were",
                manifest.written.len(),
                manifest.needed.len()
            ),
        ),
        ("versions", format!("OxMPI {}, CRIU {}, format {FORMAT}", made.oxmpi, made.criu)),
    ];
    let mut out = String::new();
    for (name, value) in rows {
        let _ = writeln!(out, "{:11} {value}", format!("{name}:"));
    }
    if let Some(supervision) = &job.supervision {
        let every = supervision
            .every_ms
            .map(|ms| format!("every {} by itself", interval_text(Duration::from_millis(ms))));
        let on_term = supervision.on_term.then(|| "at SIGTERM, which ends the job".to_string());
        let all: Vec<String> = every.into_iter().chain(on_term).collect();
        let _ = writeln!(out, "{:11} {}", "checkpoints:", all.join(", and "));
    }
    for file in &manifest.written {
        let _ = writeln!(out, "  written:  {} ({} bytes)", file.path.display(), file.bytes);
    }
    out
}

fn ago(unix_s: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let seconds = now.saturating_sub(unix_s);
    let (number, unit) = match seconds {
        0..120 => (seconds, "seconds"),
        120..7200 => (seconds / 60, "minutes"),
        7200..172_800 => (seconds / 3600, "hours"),
        _ => (seconds / 86400, "days"),
    };
    format!("{number} {unit} ago (second {unix_s} of Unix time)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_people_say_them() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        assert!(ago(now - 7300).starts_with("2 hours ago"), "{}", ago(now - 7300));
        assert!(ago(now + 50).starts_with("0 seconds ago"));
    }
}
