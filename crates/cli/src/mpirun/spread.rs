//! How many ranks run a program, on which hosts they are, and how their agents are reached.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oxmpi_param::{Params, Source};
use oxmpi_rt::daemon::{PATIENCE, Universe};
use oxmpi_rt::hosts::opening::Opening;
use oxmpi_rt::hosts::placement::{self, By, HostSlots, RankGroup};
use oxmpi_rt::launch::{Host, Spread};
use oxmpi_sys::{cpus, host};

use super::hosts::{Hosts, Named, NodeOf};
use super::options::{Count, Options, Program};
use super::places::Seats;
use super::{NOT_FOUND, Search, Stop, USAGE, stop};

/// The variable by which LAM/MPI is told what to use in place of ssh.
const LAM_AGENT: &str = "LAMRSH";

/// The hosts of a program: its own, or those of the first if it names none.
fn hosts_of<'o>(program: &'o Program, options: &'o Options) -> &'o Hosts {
    match (program.hosts.named.is_empty(), options.programs.first()) {
        (true, Some(first)) => &first.hosts,
        _ => &program.hosts,
    }
}

/// How many ranks run a program.
pub(super) fn ranks(program: &Program, options: &Options, universe: Option<&Universe>) -> Result<u32, Stop> {
    let hosts = hosts_of(program, options);
    if let Some(seats) = seats(program, options, universe)? {
        let places = u32::try_from(seats.at.len()).unwrap_or(u32::MAX);
        return Ok(if let Count::Number(n) = program.count { n } else { places });
    }
    let on_all = |each: u32| {
        let hosts = hosts.used().count().max(1);
        each.checked_mul(u32::try_from(hosts).unwrap_or(u32::MAX))
            .ok_or_else(|| stop(USAGE, format!("{each} ranks on each of {hosts} hosts are too many")))
    };
    Ok(match (program.count, program.per_host) {
        (Count::Number(n), _) => n,
        (_, Some(each)) => on_all(each)?,
        (Count::PerHost, None) => on_all(1)?,
        (Count::PerProcessor, None) => hosts.slots().unwrap_or_else(|| slots_of_one(hosts)),
        (Count::Unsaid, None) if hosts.is_implied => 1,
        (Count::Unsaid, None) => hosts.slots().unwrap_or(1),
    })
}

/// Has as many ranks as before on other hosts.
pub(super) fn move_to(options: &mut Options, hosts: &Hosts) -> Result<(), Stop> {
    let counts = options.programs.iter().map(|program| ranks(program, options, None));
    let counts = counts.collect::<Result<Vec<u32>, _>>()?;
    for (program, count) in options.programs.iter_mut().zip(counts) {
        (program.count, program.per_host, program.per_host_again) = (Count::Number(count), None, false);
        program.places.clear();
        program.hosts = hosts.clone();
    }
    Ok(())
}

/// Has the same ranks on the hosts that the lines of an app schema name for them.
///
/// # Errors
/// The schema is not one of this job.
pub(super) fn place_by(options: &mut Options, schema: &Options) -> Result<(), String> {
    let count = |program: &Program, options: &Options| {
        ranks(program, options, None).map_err(|Stop { texts, .. }| texts.join("; "))
    };
    let mut programs = Vec::new();
    let mut lines = schema.programs.iter();
    for program in &options.programs {
        let mut left = count(program, options)?;
        while left > 0 {
            let line =
                lines.next().ok_or_else(|| format!("{left} ranks of '{}' are missing", shown(program)))?;
            if line.words != program.words {
                let (there, wanted) = (shown(line), shown(program));
                return Err(format!("'{there}' stands where the job has {left} ranks of '{wanted}'"));
            }
            if line.hosts.named.is_empty() {
                return Err(format!("a line of '{}' names no host ('-H NAME')", shown(line)));
            }
            let here = count(line, schema)?;
            left = left.checked_sub(here).ok_or_else(|| {
                format!("a line has {here} ranks of '{}', of which the job has {left} there", shown(line))
            })?;
            programs.push(Program {
                count: Count::Number(here),
                per_host: line.per_host,
                per_host_again: line.per_host_again,
                places: line.places.clone(),
                hosts: line.hosts.clone(),
                ..program.clone()
            });
        }
    }
    if let Some(line) = lines.next() {
        return Err(format!("the job has no more ranks, and there is another line of '{}'", shown(line)));
    }
    options.programs = programs;
    Ok(())
}

/// A program and its arguments, for people.
fn shown(program: &Program) -> String {
    let words: Vec<_> = program.words.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// Where the ranks of a program are, if that is said of each.
fn seats(program: &Program, options: &Options, universe: Option<&Universe>) -> Result<Option<Seats>, Stop> {
    let (places, hosts) = (&program.places, hosts_of(program, options));
    if places.is_empty() {
        return Ok(None);
    }
    if options.by == By::Node {
        let text =
            format!("--map-by node: '{}' says already where ranks are; leave one out", places.join(" "));
        return Err(stop(USAGE, text));
    }
    Seats::find(places, hosts, universe).map(Some).map_err(|why| stop(USAGE, why))
}

/// The slots of the one host whose slots nobody has stated: its processors, if it is this machine.
fn slots_of_one(hosts: &Hosts) -> u32 {
    if hosts.elsewhere().is_some() { 1 } else { cpus::usable() as u32 }
}

/// A host of the job.
struct Place {
    room: HostSlots,
    user: Option<String>,
    node: Option<NodeOf>,
    is_here: bool,
}

/// Places the ranks of all programs, which are so many. `None`: all are on this machine. The number is that of the slots of all hosts,
/// whether they have ranks or not.
pub(super) fn spread(
    options: &Options,
    ranks: impl Iterator<Item = u32>,
    params: &Params,
    universe: Option<&Arc<Universe>>,
) -> Result<(Option<Spread>, u32), Stop> {
    let mut places: Vec<Place> = Vec::new();
    let mut crowds = Vec::new();
    for (program, ranks) in options.programs.iter().zip(ranks) {
        if let Some(Seats { hosts, at }) = seats(program, options, universe.map(|universe| &**universe))? {
            let places: Vec<usize> =
                hosts.iter().map(|host| add(&mut places, host, host.slots.unwrap_or(1))).collect();
            let hosts = at.iter().map(|at| places[*at]).collect();
            crowds.push(RankGroup { ranks, hosts, per_host: None, is_seated: true });
            continue;
        }
        let hosts = hosts_of(program, options);
        let here = Named { name: "localhost".into(), ..Named::default() };
        let named: Vec<&Named> = if hosts.named.is_empty() { vec![&here] } else { hosts.used().collect() };
        let stated = hosts.slots().is_some();
        let mut at = Vec::new();
        for host in named {
            let slots = host.slots.unwrap_or_else(|| if stated { 1 } else { slots_of_one(hosts) });
            let known = places.len();
            let place = add(&mut places, host, slots);
            if at.contains(&place) {
                // Named once more: that many more.
                let room = &mut places[place].room;
                room.slots = room.slots.saturating_add(slots);
                room.max_slots =
                    room.max_slots.zip(host.max_slots).map(|(one, other)| one.saturating_add(other));
            } else {
                if place < known {
                    // Of several programs that name it, the largest number counts.
                    places[place].room.slots = places[place].room.slots.max(slots);
                }
                at.push(place);
            }
        }
        let there = u32::try_from(at.len()).unwrap_or(u32::MAX);
        crowds.push(match program.per_host {
            Some(each) if program.per_host_again && ranks > each.saturating_mul(there) => {
                let hosts = at.iter().flat_map(|host| std::iter::repeat_n(*host, each as usize)).collect();
                RankGroup { ranks, hosts, per_host: None, is_seated: true }
            }
            per_host => RankGroup { ranks, hosts: at, per_host, is_seated: false },
        });
    }
    let slots = places.iter().fold(0, |sum: u32, place| sum.saturating_add(place.room.slots));
    let rooms: Vec<HostSlots> = places.iter().map(|place| place.room.clone()).collect();
    let nodes = placement::place(&rooms, &crowds, options.by, !options.no_oversubscribe)
        .map_err(|error| stop(USAGE, error))?;
    let used: Vec<usize> = (0..places.len()).filter(|at| nodes.contains(&(*at as u32))).collect();
    if used.iter().all(|at| places[*at].is_here) {
        return Ok((None, slots));
    }
    if params.mpi_virtual_nodes() > 1 {
        let text =
            "parameter 'mpi_virtual_nodes': a job on other hosts than this one cannot have virtual nodes";
        return Err(stop(USAGE, text));
    }
    let hosts = used.iter().map(|at| {
        let Place { room, user, node, is_here } = &places[*at];
        let opening = match (is_here, node.zip(universe)) {
            (true, _) => None,
            (false, Some((node, universe))) => Some(Opening::Daemon {
                universe: Arc::clone(universe),
                node: node.number,
                program: options.prefix.as_ref().map(|prefix| prefix.join("bin/oxmpi")),
            }),
            (false, None) => Some(opening(options, params, &room.host, user.as_deref())?),
        };
        Ok(Host { name: room.host.clone(), opening, slots: room.slots })
    });
    let hosts = hosts.collect::<Result<Vec<_>, Stop>>()?;
    let nodes = nodes.iter().filter_map(|node| used.iter().position(|at| *at == *node as usize));
    Ok((Some(Spread { hosts, nodes: nodes.map(|node| node as u32).collect() }), slots))
}

/// The place of a host among all, where it is added if it is new. All names of this machine are one host.
fn add(places: &mut Vec<Place>, host: &Named, slots: u32) -> usize {
    let here = host.is_here();
    let known = places.iter().position(|place| {
        if here { place.is_here } else { !place.is_here && place.room.host.eq_ignore_ascii_case(&host.name) }
    });
    match known {
        Some(at) => at,
        None => {
            let name = if here { host::name() } else { host.name.clone() };
            let room = HostSlots { host: name, slots, max_slots: host.max_slots };
            places.push(Place { room, user: host.user.clone(), node: host.node, is_here: here });
            places.len() - 1
        }
    }
}

/// How the agent of a host is reached.
fn opening(options: &Options, params: &Params, host: &str, user: Option<&str>) -> Result<Opening, Stop> {
    let (program, words) = shell(params)?;
    let path = Search { path: None, directory: None }.find(&program).map_err(|(text, code)| {
        let text = format!("host '{host}': {text}; it is what 'plm_rsh_agent' says how to reach other hosts");
        stop(code, text)
    })?;
    let mut args: Vec<OsString> = vec![program.clone()];
    let is_ssh = Path::new(&program).file_name() == Some(OsStr::new("ssh"));
    if is_ssh {
        args.extend(["-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"].map(OsString::from));
    }
    args.extend(words);
    if let Some(user) = user {
        args.extend(["-l".into(), user.into()]);
    }
    args.push(host.into());
    args.push(format!("{} agent", quoted(&agent(options)?)).into());
    Ok(Opening::Command { path, args })
}

/// What the user says how to reach other hosts: choices with colons between them.
fn shells(params: &Params) -> String {
    let is_default = params
        .iter()
        .any(|(param, _)| param.name == "plm_rsh_agent" && *params.source(param) == Source::Default);
    let lam = std::env::var(LAM_AGENT).ok().filter(|text| is_default && !text.trim().is_empty());
    lam.unwrap_or_else(|| params.plm_rsh_agent().to_string())
}

/// The program that reaches other hosts, and its options.
fn shell(params: &Params) -> Result<(OsString, Vec<OsString>), Stop> {
    let text = shells(params);
    let mut last = None;
    for choice in text.split(':') {
        let mut words = choice.split_whitespace().map(OsString::from);
        let Some(program) = words.next() else { continue };
        match (Search { path: None, directory: None }).find(&program) {
            Ok(_) => return Ok((program, words.collect())),
            Err((why, _)) => last = Some(why),
        }
    }
    let why = last.unwrap_or_else(|| "it names no program".to_string());
    Err(stop(NOT_FOUND, format!("parameter 'plm_rsh_agent' ('{text}'): {why}")))
}

/// The same as one text, for who can do without until another host is there: if no choice is there, the last one.
pub(crate) fn shell_text(params: &Params) -> String {
    let text = shells(params);
    let is_there = |choice: &&str| {
        let program = choice.split_whitespace().next().unwrap_or_default();
        (Search { path: None, directory: None }).find(OsStr::new(program)).is_ok()
    };
    let mut choices = text.split(':');
    choices.clone().find(is_there).or(choices.next_back()).unwrap_or_default().to_string()
}

/// The agent's program on other hosts.
fn agent(options: &Options) -> Result<PathBuf, Stop> {
    match &options.prefix {
        Some(prefix) => Ok(prefix.join("bin/oxmpi")),
        None => oxmpi_sys::library::program()
            .map_err(|error| stop(1, format!("cannot find out where this program is: {error}"))),
    }
}

/// A path as one word for a shell.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=@%".contains(c);
    if text.chars().all(is_plain) { text.into_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// The user's daemons, if there are some: hosts that nobody has named are theirs, and those of others among them are reached by
/// them. Else, or if they do not answer, everything stays as it is.
pub(super) fn enter_universe(options: &mut Options, params: &Params) -> Result<Option<Arc<Universe>>, Stop> {
    let suffix = crate::daemons::suffix(params).map_err(|why| stop(USAGE, why))?;
    // Nobody waits longer for a daemon than for the job.
    let patience = super::timeout(options)?.map_or(PATIENCE, |time| time.min(PATIENCE));
    let universe = match Universe::find_within(&suffix, patience) {
        Ok(Some(universe)) => universe,
        Ok(None) => return Ok(None),
        Err(error) => {
            if !options.quiet {
                oxmpi_sys::complain!("mpirun: warning: the daemons of 'oxmpi boot' are not used: {error}");
            }
            return Ok(None);
        }
    };
    match options.programs.first_mut() {
        Some(first) if first.hosts.named.is_empty() => {
            first.hosts = Hosts::of_universe(&universe).map_err(|why| {
                stop(USAGE, format!("the nodes of 'oxmpi boot': {why}; --host names others"))
            })?;
        }
        _ => {}
    }
    for program in options.programs.iter_mut().filter(|program| !program.hosts.is_implied) {
        program.hosts.find_nodes(&universe);
    }
    Ok(Some(Arc::new(universe)))
}

/// Leaves out this machine, if the command line says so.
pub(super) fn heed_no_local(options: &mut Options) -> Result<(), Stop> {
    if !options.no_local {
        return Ok(());
    }
    let mut programs = options.programs.iter_mut().enumerate();
    // Programs without hosts of their own are on those of the first.
    match programs
        .all(|(at, program)| at > 0 && program.hosts.named.is_empty() || program.hosts.leave_out_here())
    {
        true => Ok(()),
        false => Err(stop(
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
