//! `mpirun` in an allocation of Slurm: the nodes of the allocation are the hosts of the job, and
//! one `srun` starts their agents.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use oxmpi_daemon::diagnostics::{LogTarget, word_for};
use oxmpi_join::slurm::{SlurmAllocation, agent_options, is_for_other_step, version};
use oxmpi_launcher::hosts::named::{Hosts, NamedHost, NodeOf, is_here};
use oxmpi_launcher::hosts::step::AgentStep;
use oxmpi_launcher::launch::ProgramSearch;
use oxmpi_param::Params;
use oxmpi_sys::host;

use super::options::LaunchOptions;
use super::{MpirunError, USAGE, mpirun_error};

/// The remedy for a host that is not a node of the allocation.
const WITHOUT: &str = "'env -u SLURM_JOB_ID mpirun ...' starts a job outside of it, by ssh";

/// Finds the allocation of this process. Its nodes are the hosts of a job that names none; named
/// hosts must be among its nodes.
pub(super) fn enter(options: &mut LaunchOptions) -> Result<(), MpirunError> {
    let found = SlurmAllocation::of_environment();
    let Some(allocation) = found.map_err(|error| mpirun_error(USAGE, error))? else {
        return Ok(());
    };
    let own = own_node(&allocation);
    let may_oversubscribe = options.oversubscribe;
    for (at, program) in options.programs.iter_mut().enumerate() {
        if program.hosts.named.is_empty() {
            // The other programs have the hosts of the first.
            if at == 0 {
                program.hosts.named = all(&allocation, own);
            }
            continue;
        }
        let chosen = select(&program.hosts, &allocation, own, may_oversubscribe);
        program.hosts.named = chosen.map_err(|why| mpirun_error(USAGE, why))?;
    }
    options.allocation = Some(allocation);
    Ok(())
}

/// The index of this host's node. `None`: this host is no node of the allocation, as the one where
/// `salloc` runs.
pub(crate) fn own_node(allocation: &SlurmAllocation) -> Option<usize> {
    match &allocation.own {
        Some(name) => allocation.find(name),
        None => allocation.find(&host::name()),
    }
}

fn all(allocation: &SlurmAllocation, own: Option<usize>) -> Vec<NamedHost> {
    let nodes = allocation.nodes.iter().enumerate();
    let host = nodes.map(|(number, node)| NamedHost {
        name: node.name.clone(),
        slots: Some(node.slots),
        node: Some(NodeOf { number, is_here: own == Some(number) }),
        ..NamedHost::default()
    });
    host.collect()
}

/// The named hosts as nodes of the allocation. A host that is named once without slots has those of
/// its node.
fn select(
    hosts: &Hosts,
    allocation: &SlurmAllocation,
    own: Option<usize>,
    may_oversubscribe: bool,
) -> Result<Vec<NamedHost>, String> {
    let shown =
        format!("the allocation of Slurm's job {} ({})", allocation.job, allocation.names());
    let find = |host: &NamedHost| {
        let found = allocation.find(&host.name).or_else(|| own.filter(|_| is_here(&host.name)));
        found.ok_or_else(|| format!("host '{}' is not in {shown}; {WITHOUT}", host.name))
    };
    let found = hosts.named.iter().map(find).collect::<Result<Vec<usize>, String>>()?;
    let mut given = vec![0u32; allocation.nodes.len()];
    let mut chosen = Vec::new();
    for (host, number) in hosts.named.iter().zip(&found) {
        let node = &allocation.nodes[*number];
        let is_once = found.iter().filter(|other| *other == number).count() == 1;
        let slots = host.slots.unwrap_or(if is_once { node.slots } else { 1 });
        given[*number] = given[*number].saturating_add(slots);
        if given[*number] > node.slots && !may_oversubscribe {
            return Err(format!(
                "{} slots on host '{}', which has {} in {shown}: --oversubscribe allows more",
                given[*number], node.name, node.slots
            ));
        }
        chosen.push(NamedHost {
            name: node.name.clone(),
            slots: Some(slots),
            node: Some(NodeOf { number: *number, is_here: own == Some(*number) }),
            ..host.clone()
        });
    }
    Ok(chosen)
}

/// The variables about tasks, which programs read too. The agents, whose `srun` must not read them,
/// cannot pass them on.
pub(super) fn variables_of_ranks() -> impl Iterator<Item = (OsString, OsString)> {
    let is_one = |name: &str| is_for_other_step(name) && name.ends_with("_PER_TASK");
    std::env::vars_os().filter(move |(name, _)| name.to_str().is_some_and(is_one))
}

/// The command that starts the agents of these nodes. `agent`: the program.
pub(crate) fn agents(
    nodes: &[&str],
    params: &Params,
    agent: &Path,
) -> Result<AgentStep, (String, i32)> {
    let find = |name: &str| ProgramSearch::default().find(OsStr::new(name));
    let (srun, path) = (find("srun")?, find("env")?);
    let answer = Command::new(&srun).arg("--version").output();
    let failed = |why: &str| (format!("'{} --version' {why}", srun.display()), 1);
    let answer = answer.map_err(|error| failed(&format!("cannot be run: {error}")))?;
    let text = String::from_utf8_lossy(&answer.stdout);
    let version = version(&text).ok_or_else(|| {
        let errors = String::from_utf8_lossy(&answer.stderr);
        failed(&format!("names no version: {}{}", text.trim(), errors.trim()))
    })?;
    let mut args = vec![OsString::from("env")];
    let names = std::env::vars_os().map(|(name, _)| name);
    let removed = names.filter(|name| name.to_str().is_some_and(is_for_other_step));
    removed.for_each(|name| args.extend(["-u".into(), name]));
    let survives = params.mpi_ft_enable() || params.cr().is_some();
    let words = params.plm_slurm_args().split_whitespace().map(String::from);
    args.push(srun.into());
    args.extend(agent_options(version, nodes, survives).into_iter().chain(words).map(Into::into));
    args.extend([agent.into(), OsString::from("agent")]);
    args.extend(word_for(LogTarget::Agent).map(OsString::from));
    Ok(AgentStep { path, args })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocation() -> SlurmAllocation {
        let variables = [
            ("SLURM_JOB_ID", "12"),
            // Names that no resolver knows (RFC 6761).
            ("SLURM_JOB_NODELIST", "n[1-3].invalid"),
            ("SLURM_TASKS_PER_NODE", "2(x2),1"),
        ];
        let value = |name: &str| variables.iter().find(|(of, _)| *of == name);
        let read = SlurmAllocation::read(&|name| value(name).map(|(_, text)| text.to_string()));
        read.unwrap().unwrap()
    }

    fn shown(hosts: &[NamedHost]) -> String {
        let host = |host: &NamedHost| {
            let here = if host.is_here() { "*" } else { "" };
            format!("{}:{}{here}", host.name.replace(".invalid", ""), host.slots.unwrap_or(0))
        };
        hosts.iter().map(host).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn all_nodes_are_hosts_and_named_hosts_are_a_part_of_them() {
        let allocation = allocation();
        assert_eq!(shown(&all(&allocation, Some(1))), "n1:2 n2:2* n3:1");
        let chosen = |list: &str, may| {
            let hosts = Hosts::of_list(list).unwrap();
            select(&hosts, &allocation, Some(0), may).map(|chosen| shown(&chosen))
        };
        assert_eq!(chosen("n3,n1", false).unwrap(), "n3:1 n1:2*");
        assert_eq!(chosen("N2.invalid:1,localhost", false).unwrap(), "n2:1 n1:2*");
        assert_eq!(chosen("n2,n2", false).unwrap(), "n2:1 n2:1");
        let error = chosen("n2,n4.invalid", false).unwrap_err();
        assert!(
            error.starts_with("host 'n4.invalid' is not in the allocation of Slurm's job 12 (n1."),
            "{error}"
        );
        for list in ["n3:2", "n3,n3", "n1:2,n1"] {
            let error = chosen(list, false).unwrap_err();
            assert!(error.contains("--oversubscribe allows more"), "{list}: {error}");
        }
        assert_eq!(chosen("n3:4", true).unwrap(), "n3:4");
        let elsewhere = Hosts::of_list("localhost").unwrap();
        assert!(select(&elsewhere, &allocation, None, false).unwrap_err().contains("is not in"));
    }
}
