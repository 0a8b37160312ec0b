//! `oxmpi info --allocation`: the allocation of Slurm in which this command runs, as `mpirun` uses
//! it.

use std::fmt::Write as _;

use oxmpi_join::slurm::SlurmAllocation;
use oxmpi_launcher::hosts::step::CALL_OPTION;
use oxmpi_param::Params;

use crate::command::{Stop, failed};
use crate::mpirun::{agents, own_node};

pub(super) fn main(params: &Params) -> Result<i32, Stop> {
    let found = SlurmAllocation::of_environment().map_err(failed)?;
    let Some(allocation) = found else {
        crate::say("No allocation of Slurm: SLURM_JOB_ID and SLURM_JOB_NODELIST are not set.\n");
        return Ok(0);
    };
    let own = own_node(&allocation);
    let mut text = table(&allocation, own);
    let nodes = allocation.nodes.iter().enumerate().filter(|(at, _)| own != Some(*at));
    let others: Vec<&str> = nodes.map(|(_, node)| node.name.as_str()).collect();
    if !others.is_empty() {
        let agent = oxmpi_sys::library::program().map_err(failed)?;
        let step = agents(&others, params, &agent).map_err(|(why, _)| failed(why))?;
        let _ = writeln!(text, "agents:     {step} {CALL_OPTION} INVITATION");
    }
    crate::say(&text);
    Ok(0)
}

fn table(allocation: &SlurmAllocation, own: Option<usize>) -> String {
    let SlurmAllocation { job, nodes, slots_from, .. } = allocation;
    let slots: u64 = nodes.iter().map(|node| u64::from(node.slots)).sum();
    let mut text = format!("job:        {job}\nslots:      {slots}, by {slots_from}\n");
    let width = nodes.iter().map(|node| node.name.len()).max().unwrap_or(0).max(4);
    let _ = writeln!(text, "  {:width$}  slots", "node");
    for (at, node) in nodes.iter().enumerate() {
        let here = if own == Some(at) { "  this host" } else { "" };
        let _ = writeln!(text, "  {:width$}  {:>5}{here}", node.name, node.slots);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_join::slurm::AllocatedNode;

    #[test]
    fn the_table_has_a_row_for_each_node() {
        let node = |name: &str, slots| AllocatedNode { name: name.into(), slots };
        let nodes = vec![node("nodea", 2), node("nodeb", 16)];
        let allocation =
            SlurmAllocation { job: 7, nodes, slots_from: "SLURM_TASKS_PER_NODE", own: None };
        let wanted = "\
job:        7
slots:      18, by SLURM_TASKS_PER_NODE
  node   slots
  nodea      2  this host
  nodeb     16
";
        assert_eq!(table(&allocation, Some(0)), wanted);
    }
}
