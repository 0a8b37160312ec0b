//! The number of ranks of each program, their hosts, and the commands that start agents there.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oxmpi_daemon::diagnostics::{LogTarget, word_for};
use oxmpi_daemon::{PATIENCE, Universe};
use oxmpi_launcher::hosts::named::{Hosts, NamedHost, NodeOf};
use oxmpi_launcher::hosts::opening::{HostAgent, Starts};
use oxmpi_launcher::hosts::placement::{self, By, HostSlots, PlacementError, RankGroup};
use oxmpi_launcher::launch::{Host, NOT_FOUND, ProgramSearch, Spread};
use oxmpi_param::{Params, Source};
use oxmpi_rt_proto::agent::{AgentWay, StartCommand};
use oxmpi_sys::{cpus, host};

use super::options::{LaunchOptions, ProgramOptions, RankCount};
use super::places::RankPlaces;
use super::{MpirunError, USAGE, allocation, mpirun_error};

/// LAM/MPI's variable for the program that replaces ssh.
const LAM_AGENT: &str = "LAMRSH";

/// The hosts of a program: its own ones, or the hosts of the first program.
fn hosts_of<'o>(program: &'o ProgramOptions, options: &'o LaunchOptions) -> &'o Hosts {
    match (program.hosts.named.is_empty(), options.programs.first()) {
        (true, Some(first)) => &first.hosts,
        _ => &program.hosts,
    }
}

pub(super) fn ranks(
    program: &ProgramOptions,
    options: &LaunchOptions,
    universe: Option<&Universe>,
) -> Result<u32, MpirunError> {
    let hosts = hosts_of(program, options);
    if let Some(places_of_ranks) = places_of_ranks(program, options, universe)? {
        let places = u32::try_from(places_of_ranks.at.len()).unwrap_or(u32::MAX);
        return Ok(if let RankCount::Number(n) = program.count { n } else { places });
    }
    let on_all = |each: u32| {
        let hosts = hosts.used().count().max(1);
        each.checked_mul(u32::try_from(hosts).unwrap_or(u32::MAX)).ok_or_else(|| {
            mpirun_error(USAGE, format!("{each} ranks on each of {hosts} hosts are too many"))
        })
    };
    Ok(match (program.count, program.per_host) {
        (RankCount::Number(n), _) => n,
        (_, Some(each)) => on_all(each)?,
        (RankCount::PerHost, None) => on_all(1)?,
        (RankCount::PerProcessor, None) => hosts.slots().unwrap_or_else(|| slots_of_one(hosts)),
        (RankCount::Unset, None) if hosts.is_implied => 1,
        (RankCount::Unset, None) => hosts.slots().unwrap_or(1),
    })
}

/// Moves the ranks to other hosts and keeps their number.
pub(super) fn move_to(options: &mut LaunchOptions, hosts: &Hosts) -> Result<(), MpirunError> {
    let counts = options.programs.iter().map(|program| ranks(program, options, None));
    let counts = counts.collect::<Result<Vec<u32>, _>>()?;
    for (program, count) in options.programs.iter_mut().zip(counts) {
        (program.count, program.per_host, program.per_host_again) =
            (RankCount::Number(count), None, false);
        program.places.clear();
        program.hosts = hosts.clone();
    }
    Ok(())
}

/// Moves the ranks to the hosts in the lines of an app schema. Fails if it does not fit the job.
pub(super) fn place_by(options: &mut LaunchOptions, schema: &LaunchOptions) -> Result<(), String> {
    let count = |program: &ProgramOptions, options: &LaunchOptions| {
        ranks(program, options, None).map_err(|MpirunError { texts, .. }| texts.join("; "))
    };
    let mut programs = Vec::new();
    let mut lines = schema.programs.iter();
    for program in &options.programs {
        let mut left = count(program, options)?;
        while left > 0 {
            let line = lines
                .next()
                .ok_or_else(|| format!("{left} ranks of '{}' are missing", shown(program)))?;
            if line.words != program.words {
                let (there, wanted) = (shown(line), shown(program));
                return Err(format!(
                    "'{there}' stands where the job has {left} ranks of '{wanted}'"
                ));
            }
            if line.hosts.named.is_empty() {
                return Err(format!("a line of '{}' names no host ('-H NAME')", shown(line)));
            }
            let here = count(line, schema)?;
            left = left.checked_sub(here).ok_or_else(|| {
                format!(
                    "a line has {here} ranks of '{}', of which the job has {left} there",
                    shown(line)
                )
            })?;
            programs.push(ProgramOptions {
                count: RankCount::Number(here),
                per_host: line.per_host,
                per_host_again: line.per_host_again,
                places: line.places.clone(),
                hosts: line.hosts.clone(),
                ..program.clone()
            });
        }
    }
    if let Some(line) = lines.next() {
        return Err(format!(
            "the job has no more ranks, and there is another line of '{}'",
            shown(line)
        ));
    }
    options.programs = programs;
    Ok(())
}

fn shown(program: &ProgramOptions) -> String {
    let words: Vec<_> = program.words.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

fn places_of_ranks(
    program: &ProgramOptions,
    options: &LaunchOptions,
    universe: Option<&Universe>,
) -> Result<Option<RankPlaces>, MpirunError> {
    let (places, hosts) = (&program.places, hosts_of(program, options));
    if places.is_empty() {
        return Ok(None);
    }
    if options.by == By::Node {
        let text = format!(
            "--map-by node: '{}' says already where ranks are; leave one out",
            places.join(" ")
        );
        return Err(mpirun_error(USAGE, text));
    }
    RankPlaces::find(places, hosts, universe).map(Some).map_err(|why| mpirun_error(USAGE, why))
}

/// The slots of one host without stated slots: its processors, if the host is this machine.
fn slots_of_one(hosts: &Hosts) -> u32 {
    if hosts.elsewhere().is_some() { 1 } else { cpus::usable() as u32 }
}

struct JobHost {
    room: HostSlots,
    user: Option<String>,
    node: Option<NodeOf>,
    is_here: bool,
}

/// Places the ranks of all programs; `ranks` has their numbers. Returns `None` if all ranks are on
/// this machine. The second value is the sum of the slots of all hosts, also of hosts without
/// ranks.
pub(super) fn spread(
    options: &LaunchOptions,
    ranks: impl Iterator<Item = u32>,
    params: &Params,
    universe: Option<&Arc<Universe>>,
) -> Result<(Option<Spread>, u32), MpirunError> {
    let mut job = JobHosts::default();
    let mut crowds = Vec::new();
    for (program, ranks) in options.programs.iter().zip(ranks) {
        if let Some(RankPlaces { hosts, at }) =
            places_of_ranks(program, options, universe.map(|universe| &**universe))?
        {
            let places: Vec<usize> =
                hosts.iter().map(|host| job.add(host, host.slots.unwrap_or(1))).collect();
            let hosts = at.iter().map(|at| places[*at]).collect();
            crowds.push(RankGroup { ranks, hosts, per_host: None, is_seated: true });
            continue;
        }
        let hosts = hosts_of(program, options);
        let here = NamedHost { name: "localhost".into(), ..NamedHost::default() };
        let named: Vec<&NamedHost> =
            if hosts.named.is_empty() { vec![&here] } else { hosts.used().collect() };
        let stated = hosts.slots().is_some();
        let mut at = Vec::new();
        for host in named {
            let slots = host.slots.unwrap_or_else(|| if stated { 1 } else { slots_of_one(hosts) });
            let known = job.all.len();
            let place = job.add(host, slots);
            if at.contains(&place) {
                // A list that names a host twice adds its slots.
                let room = &mut job.all[place].room;
                room.slots = room.slots.saturating_add(slots);
                room.max_slots = room
                    .max_slots
                    .zip(host.max_slots)
                    .map(|(one, other)| one.saturating_add(other));
            } else {
                if place < known {
                    // If several programs name a host, the largest of their numbers of slots
                    // counts.
                    let room = &mut job.all[place].room;
                    room.slots = room.slots.max(slots);
                }
                at.push(place);
            }
        }
        let there = u32::try_from(at.len()).unwrap_or(u32::MAX);
        crowds.push(match program.per_host {
            Some(each) if program.per_host_again && ranks > each.saturating_mul(there) => {
                let hosts =
                    at.iter().flat_map(|host| std::iter::repeat_n(*host, each as usize)).collect();
                RankGroup { ranks, hosts, per_host: None, is_seated: true }
            }
            per_host => RankGroup { ranks, hosts: at, per_host, is_seated: false },
        });
    }
    let places = job.all;
    let slots = places.iter().fold(0, |sum: u32, place| sum.saturating_add(place.room.slots));
    let rooms: Vec<HostSlots> = places.iter().map(|place| place.room.clone()).collect();
    // The slots of an allocation are the processors that the job may use.
    let is_allowed = options.allocation.is_none() || options.oversubscribe;
    let may_oversubscribe = is_allowed && !options.no_oversubscribe;
    let nodes = placement::place(&rooms, &crowds, options.by, may_oversubscribe);
    let nodes = nodes.map_err(|error| match error {
        PlacementError::Slots { ranks, slots, hosts } if !is_allowed => {
            let text = format!(
                "{ranks} ranks on {slots} slots of the allocation of Slurm ({hosts}): allocate more, or let ranks share \
                 processors by --oversubscribe"
            );
            mpirun_error(USAGE, text)
        }
        error => mpirun_error(USAGE, error),
    })?;
    let mut used: Vec<usize> = nodes.iter().map(|node| *node as usize).collect();
    used.sort_unstable();
    used.dedup();
    if used.iter().all(|at| places[*at].is_here) {
        return Ok((None, slots));
    }
    if params.mpi_virtual_nodes() > 1 {
        let text = "parameter 'mpi_virtual_nodes': a job on other hosts than this one cannot have virtual nodes";
        return Err(mpirun_error(USAGE, text));
    }
    let step = match options.allocation {
        Some(_) => {
            let others = used.iter().map(|at| &places[*at]).filter(|host| !host.is_here);
            let others: Vec<&str> = others.map(|host| host.room.host.as_str()).collect();
            let step = allocation::agents(&others, params, &agent(options)?);
            Some(step.map_err(|(why, code)| mpirun_error(code, why))?)
        }
        None => None,
    };
    let needs_command = |at: &usize| {
        !places[*at].is_here && step.is_none() && places[*at].node.zip(universe).is_none()
    };
    let command = match used.iter().any(needs_command) {
        true => Some(start_command(options, params)?),
        false => None,
    };
    let hosts = used.iter().map(|at| {
        let JobHost { room, user, node, is_here } = &places[*at];
        let agent = match node.filter(|_| universe.is_some()) {
            _ if *is_here => HostAgent::Unneeded,
            _ if step.is_some() => HostAgent::Called,
            Some(node) => HostAgent::Opened(AgentWay::Daemon { node: node.number as u32 }),
            None => HostAgent::Opened(AgentWay::Command { user: user.clone() }),
        };
        Host { name: room.host.clone(), agent, slots: room.slots }
    });
    let hosts = hosts.collect();
    let nodes = nodes.iter().filter_map(|node| used.binary_search(&(*node as usize)).ok());
    let nodes = nodes.map(|node| node as u32).collect();
    let program = options.prefix.as_ref().map(|prefix| prefix.join("bin/oxmpi"));
    let daemons = universe.map(|universe| (Arc::clone(universe), program));
    let starts = Starts { command, daemons };
    Ok((Some(Spread { hosts, nodes, starts, step }), slots))
}

/// The hosts of a job, each once.
#[derive(Default)]
struct JobHosts {
    all: Vec<JobHost>,
    /// The other hosts by their names in small letters.
    by_name: HashMap<String, usize>,
    here: Option<usize>,
}

impl JobHosts {
    /// The index of a host, which is added if it is new. All names of this machine are one host.
    fn add(&mut self, host: &NamedHost, slots: u32) -> usize {
        let is_here = host.is_here();
        let name = host.name.to_ascii_lowercase();
        let known = if is_here { self.here } else { self.by_name.get(&name).copied() };
        known.unwrap_or_else(|| {
            let new = self.all.len();
            match is_here {
                true => self.here = Some(new),
                false => _ = self.by_name.insert(name, new),
            }
            let name = if is_here { host::name() } else { host.name.clone() };
            let room = HostSlots { host: name, slots, max_slots: host.max_slots };
            self.all.push(JobHost { room, user: host.user.clone(), node: host.node, is_here });
            new
        })
    }
}

/// The command that starts agents on other hosts.
fn start_command(options: &LaunchOptions, params: &Params) -> Result<StartCommand, MpirunError> {
    let (path, mut args) = shell(params)?;
    let words = args.split_off(1);
    if Path::new(&args[0]).file_name() == Some(OsStr::new("ssh")) {
        args.extend(["-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"].map(OsString::from));
    }
    args.extend(words);
    let level = word_for(LogTarget::Agent).map(|level| format!(" {level}")).unwrap_or_default();
    let agent = format!("{} agent{level}", quoted(&agent(options)?)).into();
    Ok(StartCommand { path, args, agent })
}

/// The user's commands for other hosts: choices with colons between them.
fn shells(params: &Params) -> String {
    let is_default = params.iter().any(|(param, _)| {
        param.name == "plm_rsh_agent" && *params.source(param) == Source::Default
    });
    let lam = std::env::var(LAM_AGENT).ok().filter(|text| is_default && !text.trim().is_empty());
    lam.unwrap_or_else(|| params.plm_rsh_agent().to_string())
}

/// The first command that exists: the path of its program, and its words.
fn shell(params: &Params) -> Result<(PathBuf, Vec<OsString>), MpirunError> {
    let text = shells(params);
    let mut last = None;
    for choice in text.split(':') {
        let words: Vec<OsString> = choice.split_whitespace().map(OsString::from).collect();
        let Some(program) = words.first() else { continue };
        match ProgramSearch::default().find(program) {
            Ok(path) => return Ok((path, words)),
            Err((why, _)) => last = Some(why),
        }
    }
    let why = last.unwrap_or_else(|| "it names no program".to_string());
    Err(mpirun_error(NOT_FOUND, format!("parameter 'plm_rsh_agent' ('{text}'): {why}")))
}

/// The first command that exists, as text; if none exists the last one, as the job may not need it.
pub(crate) fn shell_text(params: &Params) -> String {
    let text = shells(params);
    let is_there = |choice: &&str| {
        let program = choice.split_whitespace().next().unwrap_or_default();
        ProgramSearch::default().find(OsStr::new(program)).is_ok()
    };
    let mut choices = text.split(':');
    choices.clone().find(is_there).or(choices.next_back()).unwrap_or_default().to_string()
}

fn agent(options: &LaunchOptions) -> Result<PathBuf, MpirunError> {
    match &options.prefix {
        Some(prefix) => Ok(prefix.join("bin/oxmpi")),
        None => oxmpi_sys::library::program().map_err(|error| {
            mpirun_error(1, format!("cannot find out where this program is: {error}"))
        }),
    }
}

fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=@%".contains(c);
    if text.chars().all(is_plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// Finds the user's daemons. Their nodes are the hosts of a job that names none, and the daemons
/// reach the named hosts among them. Without daemons, or if they do not answer, the options stay as
/// they are.
pub(super) fn enter_universe(
    options: &mut LaunchOptions,
    params: &Params,
) -> Result<Option<Arc<Universe>>, MpirunError> {
    let suffix = crate::daemons::suffix(params).map_err(|why| mpirun_error(USAGE, why))?;
    // The search takes no longer than the job may.
    let patience = super::timeout(options)?.map_or(PATIENCE, |time| time.min(PATIENCE));
    let universe = match Universe::find_within(&suffix, patience) {
        Ok(Some(universe)) => universe,
        Ok(None) => return Ok(None),
        Err(error) => {
            if !options.quiet {
                oxmpi_sys::complain!(
                    "mpirun: warning: the daemons of 'oxmpi boot' are not used: {error}"
                );
            }
            return Ok(None);
        }
    };
    match options.programs.first_mut() {
        Some(first) if first.hosts.named.is_empty() => {
            first.hosts = Hosts::of_universe(&universe).map_err(|why| {
                mpirun_error(
                    USAGE,
                    format!("the nodes of 'oxmpi boot': {why}; --host names others"),
                )
            })?;
        }
        _ => {}
    }
    for program in options.programs.iter_mut().filter(|program| !program.hosts.is_implied) {
        program.hosts.find_nodes(&universe);
    }
    Ok(Some(Arc::new(universe)))
}

pub(super) fn apply_no_local(options: &mut LaunchOptions) -> Result<(), MpirunError> {
    if !options.no_local {
        return Ok(());
    }
    let mut programs = options.programs.iter_mut().enumerate();
    // Programs without hosts of their own are on the hosts of the first.
    match programs.all(|(at, program)| {
        at > 0 && program.hosts.named.is_empty() || program.hosts.leave_out_here()
    }) {
        true => Ok(()),
        false => Err(mpirun_error(
            USAGE,
            "--nolocal: there is no host but this one: name others (--host, --hostfile), or leave it out",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_for_a_shell() {
        assert_eq!(quoted(Path::new("/opt/oxmpi-1/bin/oxmpi")), "/opt/oxmpi-1/bin/oxmpi");
        assert_eq!(quoted(Path::new("/a b/it's")), "'/a b/it'\\''s'");
    }
}
