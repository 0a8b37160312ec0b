//! The variables by which Slurm describes an allocation to `salloc`, a batch script, or the tasks
//! of `srun`, and the command that starts a process on its nodes.

use super::{StepVariables, counts, hosts};
use crate::JoinError;

/// The version of Slurm from which on `srun` has `--external-launcher`.
const EXTERNAL_LAUNCHER: (u32, u32) = (23, 11);

/// The nodes that Slurm has given to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmAllocation {
    /// SLURM_JOB_ID.
    pub job: u32,
    pub nodes: Vec<AllocatedNode>,
    /// The variable from which the slots of the nodes follow.
    pub slots_from: &'static str,
    /// The node of this process (SLURMD_NODENAME). `None` below `salloc`, which can run on a host
    /// that is no node.
    pub own: Option<String>,
}

/// A node of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocatedNode {
    pub name: String,
    /// The number of ranks for which the job has resources there; at least 1.
    pub slots: u32,
}

impl SlurmAllocation {
    /// The allocation by the environment of this process; `None`: there is none.
    pub fn of_environment() -> Result<Option<SlurmAllocation>, JoinError> {
        SlurmAllocation::read(&|name| std::env::var(name).ok())
    }

    /// The allocation by these variables. The slots of a node are its tasks, or without tasks its
    /// processors divided by those of a task.
    pub fn read(
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<SlurmAllocation>, JoinError> {
        let read = StepVariables { variable };
        let Some(job) = read.optional("SLURM_JOB_ID")? else { return Ok(None) };
        let names = match read.list("SLURM_JOB_NODELIST", hosts)? {
            Some(names) => names,
            None => match read.list("SLURM_NODELIST", hosts)? {
                Some(names) => names,
                None => return Ok(None),
            },
        };
        if read.optional::<u32>("SLURM_HET_SIZE")?.is_some_and(|components| components > 1) {
            return Err(JoinError::Unable {
                manager: format!("mpirun in Slurm's job {job}"),
                call: "place ranks on the components of a heterogeneous job (SLURM_HET_SIZE)",
                remedy: "start the program with 'srun', or allocate one component",
            });
        }
        // Within a step on a part of the nodes, this list is that of the step.
        let tasks = read.list("SLURM_TASKS_PER_NODE", counts)?;
        let (slots, slots_from) = match tasks.filter(|tasks| tasks.len() == names.len()) {
            Some(tasks) => (tasks, "SLURM_TASKS_PER_NODE"),
            None => {
                let variable = "SLURM_JOB_CPUS_PER_NODE";
                let cpus = read.list(variable, counts)?.filter(|cpus| cpus.len() == names.len());
                let cpus = cpus.ok_or_else(|| {
                    read.wrong(variable, "not a list with a number for each node of the job")
                })?;
                let each = read.optional::<u32>("SLURM_CPUS_PER_TASK")?.unwrap_or(1).max(1);
                (cpus.into_iter().map(|cpus| cpus / each).collect(), variable)
            }
        };
        let node = |(name, slots): (String, u32)| AllocatedNode { name, slots: slots.max(1) };
        Ok(Some(SlurmAllocation {
            job,
            nodes: names.into_iter().zip(slots).map(node).collect(),
            slots_from,
            own: read.text("SLURMD_NODENAME"),
        }))
    }

    /// The index of a node by its name, or by the first part of its name where that is unique.
    pub fn find(&self, name: &str) -> Option<usize> {
        let is_same = |node: &AllocatedNode| node.name.eq_ignore_ascii_case(name);
        self.nodes.iter().position(is_same).or_else(|| {
            let first = |name: &str| name.split('.').next().unwrap_or_default().to_lowercase();
            let mut found =
                self.nodes.iter().enumerate().filter(|(_, node)| first(&node.name) == first(name));
            found.next().filter(|_| found.next().is_none()).map(|(index, _)| index)
        })
    }

    /// The names of the nodes, for the user.
    pub fn names(&self) -> String {
        const SHOWN: usize = 8;
        let names = self.nodes.iter().take(SHOWN).map(|node| node.name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        match self.nodes.len().saturating_sub(SHOWN) {
            0 => names,
            more => format!("{names} and {more} more"),
        }
    }
}

/// The version in the answer of `srun --version`: `slurm-wlm 22.05.8` is 22.05.
pub fn version(answer: &str) -> Option<(u32, u32)> {
    let mut numbers = answer.split_whitespace().nth(1)?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The options by which `srun` of this version starts one process on each of these nodes, beside
/// all other steps of the job. `survives`: the other processes go on when a node is lost.
pub fn agent_options(version: (u32, u32), nodes: &[&str], survives: bool) -> Vec<String> {
    let number = nodes.len();
    let mut options = vec![
        format!("--nodes={number}"),
        format!("--nodelist={}", nodes.join(",")),
        format!("--ntasks={number}"),
        "--ntasks-per-node=1".to_string(),
        "--mpi=none".to_string(),
        "--cpu-bind=none".to_string(),
    ];
    let shares = match version >= EXTERNAL_LAUNCHER {
        true => "--external-launcher",
        false => "--overlap",
    };
    options.push(shares.to_string());
    match survives {
        true => options.extend(["--no-kill", "--kill-on-bad-exit=0"].map(String::from)),
        false => options.push("--kill-on-bad-exit=1".to_string()),
    }
    options
}

/// Whether `srun` takes an option from this variable that is for the ranks, or for another step,
/// and not for the step of the agents.
pub fn is_for_other_step(name: &str) -> bool {
    const BEGINNINGS: [&str; 6] = [
        "SLURM_CPU_BIND",
        "SLURM_MEM",
        "SLURM_GPU",
        "SLURM_NTASKS_PER_",
        "SLURM_STDOUTMODE",
        "SLURM_STDERRMODE",
    ];
    const NAMES: [&str; 8] = [
        "SLURM_DISTRIBUTION",
        "SLURM_EXACT",
        "SLURM_EXPORT_ENV",
        "SLURM_HINT",
        // It would put the number of the process before each line.
        "SLURM_LABELIO",
        "SLURM_THREADS_PER_CORE",
        "SLURM_WAIT",
        "SLURM_WHOLE",
    ];
    let is_of_srun = name.starts_with("SLURM_") || name.starts_with("SRUN_");
    is_of_srun && name.ends_with("_PER_TASK")
        || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<SlurmAllocation>, JoinError> {
        let value = |name: &str| variables.iter().find(|(of, _)| *of == name);
        SlurmAllocation::read(&|name| value(name).map(|(_, value)| value.to_string()))
    }

    fn slots(variables: &[(&str, &str)]) -> (Vec<u32>, &'static str) {
        let job = [("SLURM_JOB_ID", "12"), ("SLURM_JOB_NODELIST", "n[1-3]")];
        let found = read(&[&job[..], variables].concat()).unwrap().unwrap();
        (found.nodes.iter().map(|node| node.slots).collect(), found.slots_from)
    }

    #[test]
    fn slots_are_tasks_or_processors_divided_by_those_of_a_task() {
        let cpus = ("SLURM_JOB_CPUS_PER_NODE", "8(x2),4");
        let each = ("SLURM_CPUS_PER_TASK", "3");
        let tasks = |list| ("SLURM_TASKS_PER_NODE", list);
        assert_eq!(slots(&[tasks("2(x3)"), cpus]), (vec![2, 2, 2], "SLURM_TASKS_PER_NODE"));
        assert_eq!(slots(&[tasks("2,1(x2)"), each]), (vec![2, 1, 1], "SLURM_TASKS_PER_NODE"));
        assert_eq!(slots(&[cpus]), (vec![8, 8, 4], "SLURM_JOB_CPUS_PER_NODE"));
        assert_eq!(slots(&[cpus, each]), (vec![2, 2, 1], "SLURM_JOB_CPUS_PER_NODE"));
        assert_eq!(slots(&[cpus, ("SLURM_CPUS_PER_TASK", "16")]).0, [1, 1, 1]);
        // The list of a step on one node.
        assert_eq!(slots(&[tasks("1"), cpus]).0, [8, 8, 4]);
    }

    #[test]
    fn an_allocation_has_a_job_and_nodes() {
        let job = ("SLURM_JOB_ID", "7");
        let tasks = ("SLURM_TASKS_PER_NODE", "1(x2)");
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[job, tasks]), Ok(None));
        assert_eq!(read(&[("SLURM_JOB_NODELIST", "a,b"), tasks]), Ok(None));
        let own = ("SLURMD_NODENAME", "b");
        let found = read(&[job, ("SLURM_NODELIST", "a,b"), tasks, own]).unwrap().unwrap();
        assert_eq!((found.job, found.names().as_str(), found.own), (7, "a, b", Some("b".into())));
        for wrong in [
            vec![job, ("SLURM_JOB_NODELIST", "a[1-"), tasks],
            vec![job, ("SLURM_JOB_NODELIST", "a[1-3]"), tasks],
            vec![job, ("SLURM_JOB_NODELIST", "a,b"), tasks, ("SLURM_HET_SIZE", "2")],
            vec![("SLURM_JOB_ID", "x"), ("SLURM_JOB_NODELIST", "a")],
        ] {
            assert!(read(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn nodes_are_found_by_their_names_and_unique_first_parts() {
        let list = |nodes: &str| {
            let tasks = format!("1(x{})", nodes.split(',').count());
            let variables = [
                ("SLURM_JOB_ID", "7"),
                ("SLURM_JOB_NODELIST", nodes),
                ("SLURM_TASKS_PER_NODE", &tasks),
            ];
            read(&variables).unwrap().unwrap()
        };
        let two = list("a,b.x");
        assert_eq!(
            ["A", "a.y", "b", "b.x", "b.y", "c"].map(|name| two.find(name)),
            [Some(0), Some(0), Some(1), Some(1), Some(1), None]
        );
        assert_eq!((list("a.x,a.y").find("a"), list("a.x,a.y").find("a.y")), (None, Some(1)));
    }

    #[test]
    fn the_version_decides_how_the_step_shares_the_nodes() {
        assert_eq!(version("slurm-wlm 22.05.8\n"), Some((22, 5)));
        assert_eq!(version("slurm 23.11.10-2"), Some((23, 11)));
        assert_eq!(version("slurm"), None);
        let line = |version, survives| agent_options(version, &["a", "b"], survives).join(" ");
        let both =
            "--nodes=2 --nodelist=a,b --ntasks=2 --ntasks-per-node=1 --mpi=none --cpu-bind=none";
        assert_eq!(line((22, 5), false), format!("{both} --overlap --kill-on-bad-exit=1"));
        assert_eq!(
            line((23, 11), true),
            format!("{both} --external-launcher --no-kill --kill-on-bad-exit=0")
        );
        assert!(line((24, 5), false).contains("--external-launcher"));
    }

    #[test]
    fn variables_for_ranks_are_not_for_the_agents() {
        for name in [
            "SLURM_CPU_BIND_TYPE",
            "SLURM_CPUS_PER_TASK",
            "SRUN_CPUS_PER_TASK",
            "SLURM_MEM_PER_NODE",
            "SLURM_GPUS_ON_NODE",
            "SLURM_EXPORT_ENV",
            "SLURM_LABELIO",
        ] {
            assert!(is_for_other_step(name), "{name}");
        }
        for name in ["SLURM_JOB_ID", "SLURM_CONF", "SLURM_NTASKS", "MY_CPUS_PER_TASK", "PATH"] {
            assert!(!is_for_other_step(name), "{name}");
        }
    }
}
