//! `oxmpi info --launched-by`: the launcher that has started this process, by its process manager.
//!
//! Each process leaves its host under a key, waits for the others, and the first one prints what
//! all have left. So the table shows that the processes are one job.

use std::fmt::Write as _;
use std::time::Duration;

use oxmpi_join::evidence::{Evidence, LiveManager};
use oxmpi_join::{JoinError, JoinSettings, ProcessManager, connect};
use oxmpi_param::Params;
use oxmpi_rt_client::client::join_settings;
use oxmpi_rt_client::foreign::{LAUNCHER_VARIABLE, evidence};

use crate::command::{Stop, failed};

/// The limit for all processes of the job to come, and for each value.
const PATIENCE: Duration = Duration::from_secs(30);
const KEY: &str = "launched-by";

pub(super) fn main(params: &Params) -> Result<i32, Stop> {
    let evidence = evidence();
    let managers = evidence.managers();
    let Some(found) = managers.first() else {
        crate::say(&nothing(&evidence, std::env::var(LAUNCHER_VARIABLE).ok()));
        return Ok(0);
    };
    let text = table(found, params).map_err(|error| {
        let rank = evidence.task_rank.map(|rank| format!(", rank {rank}")).unwrap_or_default();
        failed(format!("found: {found}{rank}; {error}"))
    })?;
    crate::say(&text);
    Ok(0)
}

/// The sentence for a process without a live manager. `mpirun`: the process of our own launcher.
fn nothing(evidence: &Evidence, mpirun: Option<String>) -> String {
    match mpirun.filter(|_| evidence.is_below_mpirun) {
        Some(mpirun) => format!("OxMPI's mpirun (process {mpirun}) has started this process.\n"),
        None => {
            "No launcher of several processes has started this one: no process manager of srun, \
             mpiexec or prterun is live here.\n"
                .into()
        }
    }
}

/// The text of this process: of the first one a table of all, of the others nothing. Without a
/// manager, the first process of each node stands for all of the node.
fn table(found: &LiveManager, params: &Params) -> Result<String, JoinError> {
    let settings = JoinSettings { limit: PATIENCE, ..join_settings(params) };
    let Some(mut manager) = connect(found, &settings)? else { return Ok(String::new()) };
    let own = format!("{} {}", std::process::id(), oxmpi_sys::host::name());
    manager.put(KEY, own.as_bytes())?;
    manager.fence(PATIENCE)?;
    let text = match manager.rank() {
        0 => described(found, manager.as_mut())?,
        _ => String::new(),
    };
    manager.leave()?;
    Ok(text)
}

fn described(found: &LiveManager, manager: &mut dyn ProcessManager) -> Result<String, JoinError> {
    let (shown, job, size) = (manager.shown(), manager.job().to_string(), manager.size());
    let (all, each) = match found {
        LiveManager::Slurm { .. } => ("nodes:    ", "node"),
        _ => ("processes:", "rank"),
    };
    let mut text = format!(
        "manager:    {shown}\nevidence:   {found}\njob:        {job}\n{all}  {size}\n  {each}  process  host\n"
    );
    for rank in 0..size {
        let value = manager.get(rank, KEY, PATIENCE)?;
        let value = value.map(|value| String::from_utf8_lossy(&value).into_owned());
        let both = value.as_deref().and_then(|value| value.split_once(' '));
        let (process, host) = both.unwrap_or(("-", "has left no value"));
        let _ = writeln!(text, "  {rank:>4}  {process:>7}  {host}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_a_launcher_gets_one_sentence() {
        let mut evidence = Evidence::default();
        let alone = nothing(&evidence, Some("7".into()));
        assert!(alone.starts_with("No launcher") && alone.lines().count() == 1, "{alone}");
        evidence.is_below_mpirun = true;
        let below = nothing(&evidence, Some("7".into()));
        assert_eq!(below, "OxMPI's mpirun (process 7) has started this process.\n");
    }
}
