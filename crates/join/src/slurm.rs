//! The variables by which Slurm's `srun` describes a step to its tasks (srun(1), "output
//! environment variables").
//!
//! A *step* is the set of processes (*tasks*) that one `srun` has started. [`SlurmStep::read`] is
//! pure: its argument returns the value of a variable. The variables prove nothing: every
//! descendant of a task inherits them, and a user can set them.

mod allocation;
mod lists;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

pub use self::allocation::{
    AllocatedNode, SlurmAllocation, agent_options, is_for_other_step, version,
};
pub use self::lists::{ListError, addresses, counts, hosts, ports};
use crate::JoinError;

/// The most nodes of a step. A list of a few bytes can describe any number.
pub const MOST_NODES: usize = 1 << 16;
/// The most tasks on one node.
const MOST_TASKS: usize = 1 << 20;

/// The step of which this process is a task, or a descendant of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmStep {
    /// SLURM_JOB_ID.
    pub job: u32,
    /// SLURM_STEP_ID.
    pub step: u32,
    /// SLURM_RESTART_COUNT: how often Slurm has begun the batch job anew; 0 without the variable,
    /// which only batch jobs have, and only after the first time.
    pub restart: u32,
    /// SLURM_STEP_NUM_TASKS.
    pub tasks: u32,
    /// SLURM_PROCID: the number of this task in the step.
    pub task: u32,
    /// SLURM_LOCALID: the number of this task among the tasks of its node.
    pub local: u32,
    /// The index of this node in `nodes`.
    pub node: u32,
    /// The names of the nodes (SLURM_STEP_NODELIST). In a heterogeneous step whose components share
    /// a node, its name occurs several times.
    pub nodes: Vec<String>,
    /// The number of tasks on each node (SLURM_STEP_TASKS_PER_NODE).
    pub tasks_per_node: Vec<u32>,
    /// SLURM_STEP_RESV_PORTS: ports of each node that Slurm has given to no other step. Empty
    /// unless the site has MpiParams=ports=, or `srun` the option --resv-ports.
    pub reserved_ports: Vec<u16>,
    /// SLURM_STEP_LAUNCHER_PORT, of `srun` itself. The components of a heterogeneous step have
    /// different ports.
    pub launcher_port: Option<u16>,
    /// The address of the node of `srun` (SLURM_LAUNCH_NODE_IPADDR, SLURM_SRUN_COMM_HOST).
    pub launcher_host: Option<String>,
    /// The addresses of nodes by name (SLURM_NODE_ALIASES), which Slurm before 23.11 gives for
    /// nodes in a cloud.
    pub addresses: Vec<(String, String)>,
}

impl SlurmStep {
    /// The step by the environment of this process; `None`: no `srun` has started it.
    pub fn of_environment() -> Result<Option<SlurmStep>, JoinError> {
        SlurmStep::read(&|name| std::env::var(name).ok())
    }

    /// The step by these variables; `None` without a step: a batch script and `salloc` have a job
    /// only.
    pub fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<SlurmStep>, JoinError> {
        let read = StepVariables { variable };
        if read.text("SLURM_STEP_ID").is_none() || read.text("SLURM_STEP_NODELIST").is_none() {
            return Ok(None);
        }
        let nodes: Vec<String> = read.list("SLURM_STEP_NODELIST", hosts)?.unwrap_or_default();
        let tasks_per_node = match read.list("SLURM_STEP_TASKS_PER_NODE", counts)? {
            Some(list) if list.len() == nodes.len() => list,
            Some(_) => {
                return Err(read.wrong(
                    "SLURM_STEP_TASKS_PER_NODE",
                    "a list for another number of nodes than SLURM_STEP_NODELIST",
                ));
            }
            None => return Err(read.wrong("SLURM_STEP_TASKS_PER_NODE", "missing")),
        };
        let tasks = read.number("SLURM_STEP_NUM_TASKS")?;
        if tasks_per_node.iter().map(|count| u64::from(*count)).sum::<u64>() != u64::from(tasks) {
            return Err(read.wrong(
                "SLURM_STEP_TASKS_PER_NODE",
                "a list with another sum than SLURM_STEP_NUM_TASKS",
            ));
        }
        let task = read.number("SLURM_PROCID")?;
        if task >= tasks {
            return Err(read.wrong("SLURM_PROCID", "not below SLURM_STEP_NUM_TASKS"));
        }
        let numbered = read.number("SLURM_NODEID")?;
        let node = index_of_node(&nodes, read.text("SLURMD_NODENAME").as_deref(), numbered)
            .ok_or_else(|| read.wrong("SLURM_NODEID", "not below the number of nodes"))?;
        Ok(Some(SlurmStep {
            job: read.number("SLURM_JOB_ID")?,
            step: read.number("SLURM_STEP_ID")?,
            restart: read.optional("SLURM_RESTART_COUNT")?.unwrap_or(0),
            tasks,
            task,
            local: read.number("SLURM_LOCALID")?,
            node,
            nodes,
            tasks_per_node,
            reserved_ports: read.list("SLURM_STEP_RESV_PORTS", ports)?.unwrap_or_default(),
            launcher_port: read.optional("SLURM_STEP_LAUNCHER_PORT")?,
            launcher_host: read
                .text("SLURM_LAUNCH_NODE_IPADDR")
                .or_else(|| read.text("SLURM_SRUN_COMM_HOST")),
            addresses: read.list("SLURM_NODE_ALIASES", addresses)?.unwrap_or_default(),
        }))
    }

    /// The step as users type it: `12.0`.
    pub fn shown(&self) -> String {
        format!("{}.{}", self.job, self.step)
    }

    /// The name of a node with its index: `nodea (node 0)`.
    pub fn shown_node(&self, node: u32) -> String {
        match self.nodes.get(node as usize) {
            Some(name) => format!("{name} (node {node})"),
            None => format!("node {node}"),
        }
    }
}

/// The index of this node. In a heterogeneous step Slurm sorts the names of all components, and
/// SLURM_NODEID counts in the old order, so a unique name is the better evidence.
fn index_of_node(nodes: &[String], name: Option<&str>, numbered: u32) -> Option<u32> {
    let are_distinct = nodes.iter().collect::<HashSet<_>>().len() == nodes.len();
    let named = name.filter(|_| are_distinct);
    let found = named.and_then(|name| nodes.iter().position(|node| node == name));
    let index = found.and_then(|index| u32::try_from(index).ok()).unwrap_or(numbered);
    ((index as usize) < nodes.len()).then_some(index)
}

struct StepVariables<'a> {
    variable: &'a dyn Fn(&str) -> Option<String>,
}

impl StepVariables<'_> {
    /// The value of a variable; `None` if it is empty.
    fn text(&self, name: &str) -> Option<String> {
        (self.variable)(name)
            .map(|value| value.trim().to_string())
            .filter(|value| !value.is_empty())
    }

    fn wrong(&self, variable: &'static str, why: &'static str) -> JoinError {
        let value = self.text(variable).unwrap_or_default();
        JoinError::Variable { variable, value, why: why.into() }
    }

    fn optional<T: std::str::FromStr>(&self, name: &'static str) -> Result<Option<T>, JoinError> {
        let Some(value) = self.text(name) else { return Ok(None) };
        value.parse().map(Some).map_err(|_| self.wrong(name, "no number of the allowed size"))
    }

    fn number<T: std::str::FromStr>(&self, name: &'static str) -> Result<T, JoinError> {
        self.optional(name)?.ok_or_else(|| self.wrong(name, "missing"))
    }

    fn list<T>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, ListError>,
    ) -> Result<Option<T>, JoinError> {
        let Some(value) = self.text(name) else { return Ok(None) };
        parse(&value).map(Some).map_err(|error| self.wrong(name, error.0))
    }
}
