//! Hosts as users name them: in lists and in files of several formats.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read as _;
use std::net::{IpAddr, ToSocketAddrs};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use oxmpi_daemon::Universe;
use oxmpi_param::nearest::nearest;
use oxmpi_sys::host;
use oxmpi_sys::net::OwnAddresses;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::polling::timespec;

/// The hosts of a job, in the order in which they are named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    pub named: Vec<NamedHost>,
    /// No option names the hosts: they are those of the user's daemons.
    pub is_implied: bool,
}

/// A host as a list or a file names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedHost {
    pub name: String,
    pub slots: Option<u32>,
    pub max_slots: Option<u32>,
    /// The login name on this host, if it differs from the user's own.
    pub user: Option<String>,
    /// No ranks are placed on this host.
    pub is_left_out: bool,
    pub node: Option<NodeOf>,
}

/// The number of a host among the nodes of a universe, and whether it is this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeOf {
    pub number: usize,
    pub is_here: bool,
}

impl NamedHost {
    /// Whether the host is this machine. For a node its daemon decides, as the same name can mean
    /// another machine on the host that has booted the universe.
    pub fn is_here(&self) -> bool {
        self.node.map_or_else(|| is_here(&self.name), |node| node.is_here)
    }
}

impl Hosts {
    /// The nodes of a universe, with a slot for each processor. Nodes with `schedule=no` get no
    /// ranks.
    pub fn of_universe(universe: &Universe) -> Result<Hosts, String> {
        let named = universe.nodes().into_iter().enumerate().map(|(number, node)| NamedHost {
            name: node.name,
            slots: Some(node.cpus),
            is_left_out: !node.is_scheduled,
            node: Some(NodeOf { number, is_here: number == universe.own() }),
            ..NamedHost::default()
        });
        Ok(Hosts { is_implied: true, ..Hosts::new(named.collect())? })
    }

    /// Finds the hosts that are nodes of a universe. This machine needs no daemon, and a host with
    /// another login name has none.
    pub fn find_nodes(&mut self, universe: &Universe) {
        let nodes = universe.nodes();
        for host in self.named.iter_mut().filter(|host| host.user.is_none() && !is_here(&host.name))
        {
            let number = nodes.iter().position(|node| node.name.eq_ignore_ascii_case(&host.name));
            host.node = number.map(|number| NodeOf { number, is_here: number == universe.own() });
        }
    }

    /// Reads a list with commas between the hosts.
    pub fn of_list(text: &str) -> Result<Hosts, String> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        Hosts::new(names.map(named).collect::<Result<Vec<_>, _>>()?)
    }

    /// Reads the hosts of an option of `oxmpi restart`.
    pub fn given(option: &str, value: &str) -> Result<Hosts, String> {
        if option != "--hostfile" {
            return Hosts::of_list(value);
        }
        let text = std::fs::read_to_string(value).map_err(|error| error.to_string())?;
        Hosts::of_file(&text).map_err(|(line, why)| match line {
            Some(line) => format!("line {line}: {why}"),
            None => why,
        })
    }

    /// Reads the lines of a host file: `NAME`, `NAME:4`, or `NAME slots=4 max-slots=8`; also those
    /// of LAM/MPI's boot schema, `NAME cpu=4 user=NAME schedule=no`. Errors begin with the line's
    /// number.
    pub fn of_file(text: &str) -> Result<Hosts, (Option<usize>, String)> {
        let mut all = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(first) = words.next() else { continue };
            let host = named(first).and_then(|mut host| {
                words.try_for_each(|word| key(&mut host, word))?;
                Ok(host)
            });
            all.push(host.map_err(|why| (Some(number), why))?);
        }
        Hosts::new(all).map_err(|why| (None, why))
    }

    fn new(named: Vec<NamedHost>) -> Result<Hosts, String> {
        let slots = named.iter().map(|host| host.slots.unwrap_or(1));
        slots.into_iter().try_fold(0, u32::checked_add).ok_or("too many slots")?;
        let limits = named.iter().map(|host| host.max_slots.unwrap_or(0));
        limits.into_iter().try_fold(0, u32::checked_add).ok_or("too many slots (max-slots)")?;
        match named.iter().any(|host| !host.is_left_out) {
            true => Ok(Hosts { named, is_implied: false }),
            false if named.is_empty() => Err("no host is named".to_string()),
            false => Err("all hosts are left out (schedule=no)".to_string()),
        }
    }

    /// The names as the user has written them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.iter().map(|host| host.name.as_str())
    }

    /// The hosts that get ranks.
    pub fn used(&self) -> impl Iterator<Item = &NamedHost> {
        self.named.iter().filter(|host| !host.is_left_out)
    }

    /// Leaves out this machine. Returns whether another host remains.
    pub fn leave_out_here(&mut self) -> bool {
        self.named
            .iter_mut()
            .filter(|host| host.is_here())
            .for_each(|host| host.is_left_out = true);
        self.used().next().is_some()
    }

    /// The sum of the slots, if a host states slots or there is more than one host.
    pub fn slots(&self) -> Option<u32> {
        let stated = self.used().count() > 1 || self.used().any(|host| host.slots.is_some());
        stated.then(|| self.used().map(|host| host.slots.unwrap_or(1)).sum())
    }

    /// The first host that gets ranks and is not this machine.
    pub fn elsewhere(&self) -> Option<&str> {
        self.used().find(|host| !host.is_here()).map(|host| host.name.as_str())
    }
}

/// Reads `NAME` or `NAME:4`; `[::1]:4` for addresses with colons.
fn named(text: &str) -> Result<NamedHost, String> {
    let (name, slots) = match text.rsplit_once(':') {
        Some((name, slots)) if text.starts_with('[') && name.ends_with(']') => (name, Some(slots)),
        Some((name, slots)) if !name.contains(':') => (name, Some(slots)),
        _ => (text, None),
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    if name.is_empty() {
        return Err(format!("'{text}' names no host"));
    }
    // ssh would take the name for an option, and some options of ssh run commands.
    if name.starts_with('-') {
        return Err(format!("'{text}' names no host: the name of a host does not begin with '-'"));
    }
    if name.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(format!("{text:?} names no host: there is white space in it"));
    }
    let slots = slots.map(|slots| number(slots, text)).transpose()?;
    Ok(NamedHost { name: name.to_string(), slots, ..NamedHost::default() })
}

/// Reads `slots=4` and the other settings behind a name.
fn key(host: &mut NamedHost, word: &str) -> Result<(), String> {
    let known = ["slots", "max-slots", "max_slots", "cpu", "count", "user", "schedule"];
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    match key {
        "slots" | "cpu" | "count" => host.slots = Some(number(value, word)?),
        "max-slots" | "max_slots" => host.max_slots = Some(number(value, word)?),
        "user" if value.is_empty() => return Err(format!("'{word}' names no user")),
        "user" => host.user = Some(value.to_string()),
        "schedule" => match value {
            "yes" => host.is_left_out = false,
            "no" => host.is_left_out = true,
            _ => return Err(format!("'{word}' is neither schedule=yes nor schedule=no")),
        },
        _ => {
            let hint =
                nearest(key, known).map(|n| format!(" (did you mean '{n}='?)")).unwrap_or_default();
            return Err(format!(
                "'{word}' is none of slots=N, max-slots=N, cpu=N, user=NAME, schedule=yes|no{hint}"
            ));
        }
    }
    Ok(())
}

fn number(text: &str, of: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|&n| n > 0)
        .ok_or_else(|| format!("'{of}': '{text}' is not a number of slots, 1 or more"))
}

/// Whether a name or an address means this machine. A name is resolved once in the life of this
/// process: a resolver that does not answer takes seconds each time.
pub fn is_here(name: &str) -> bool {
    resolve(std::iter::once(name));
    known().get(name).is_some_and(|name| name.is_here)
}

/// The name whose resolution has taken longest, if a resolver was needed.
pub fn slowest() -> Option<(String, Duration)> {
    let known = known();
    let slowest = known.iter().max_by_key(|(_, resolved)| resolved.took);
    slowest.filter(|(_, resolved)| !resolved.took.is_zero()).map(|(n, r)| (n.clone(), r.took))
}

#[derive(Clone, Copy, Default)]
struct ResolvedName {
    is_here: bool,
    /// Zero if no resolver was needed.
    took: Duration,
}

/// The resolved names.
fn known() -> MutexGuard<'static, HashMap<String, ResolvedName>> {
    static KNOWN: LazyLock<Mutex<HashMap<String, ResolvedName>>> = LazyLock::new(Mutex::default);
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The longest wait for the resolver, for all names together. A name without an answer by then
/// means another machine; the start program (ssh) resolves it again and reports why it cannot.
const RESOLVER_LIMIT: Duration = Duration::from_secs(10);

/// Resolves the names for [`is_here`], all at once.
pub fn resolve<'a>(names: impl Iterator<Item = &'a str>) {
    let new: BTreeSet<&str> = {
        let known = known();
        names.filter(|name| !known.contains_key(*name)).collect()
    };
    if new.is_empty() {
        return;
    }
    let (at_hand, others): (Vec<&str>, Vec<&str>) =
        new.into_iter().partition(|name| is_at_hand(name));
    let began = Instant::now();
    let answers = if others.is_empty() { BTreeMap::new() } else { resolved_by_child(&others) };
    let (mut known, own) = (known(), OwnAddresses::read());
    for name in at_hand {
        let is_here = means_this_machine(name, &own);
        known.insert(name.to_string(), ResolvedName { is_here, took: Duration::ZERO });
    }
    for (at, name) in others.into_iter().enumerate() {
        let unanswered = || ResolvedName { is_here: false, took: began.elapsed() };
        let resolved = answers.get(&at).copied().unwrap_or_else(unanswered);
        tracing::info!(host = name, is_here = resolved.is_here, took = ?resolved.took, "resolved a name");
        known.insert(name.to_string(), resolved);
    }
}

/// The first argument of the process that resolves names.
pub const RESOLVER_WORD: &str = "resolve-hosts";

/// The answers about the names, by their indexes. getaddrinfo(3) cannot be cancelled, and a
/// launcher must have one thread when it forks its guard. Therefore a child has the threads.
fn resolved_by_child(names: &[&str]) -> BTreeMap<usize, ResolvedName> {
    let began = Instant::now();
    let mut found = BTreeMap::new();
    let started = oxmpi_sys::library::program().and_then(|program| {
        let mut command = Command::new(program);
        command.arg(RESOLVER_WORD).args(names);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()
    });
    // Without a child, all names mean other machines, which the start program may still reach.
    let Ok(mut child) = started else { return found };
    if let Some(mut output) = child.stdout.take() {
        let (end, mut text, mut part) = (began + RESOLVER_LIMIT, Vec::new(), [0; 512]);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&timespec(left))) {
                Ok(0) => break,
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(_) => break,
            }
            match output.read(&mut part) {
                Ok(0) | Err(_) => break,
                Ok(bytes) => text.extend_from_slice(&part[..bytes]),
            }
            let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            let lines: Vec<u8> = text.drain(..whole).collect();
            for line in String::from_utf8_lossy(&lines).lines() {
                let answer = line
                    .split_once(' ')
                    .and_then(|(at, is_here)| Some((at.parse().ok()?, is_here.parse().ok()?)));
                let took = began.elapsed();
                found.extend(answer.map(|(at, is_here)| (at, ResolvedName { is_here, took })));
            }
        }
    }
    // The child may still wait for the resolver.
    let _ = child.kill();
    let _ = child.wait();
    found
}

/// Runs the process that resolves names: prints the index of each name and whether the name means
/// this machine, as soon as that is known.
pub fn resolver(names: &[&str]) -> i32 {
    let own = OwnAddresses::read();
    at_once(
        names,
        |name| means_this_machine(name, &own),
        |at, is_here| {
            oxmpi_sys::stdio::say(format!("{at} {is_here}\n").as_bytes());
        },
    );
    0
}

/// Calls `found` for the index of each name with the result of `is_so`. Each name has a thread of
/// its own, as a resolver may take seconds for each.
fn at_once(
    names: &[&str],
    is_so: impl Fn(&str) -> bool + Sync,
    found: impl Fn(usize, bool) + Sync,
) {
    thread::scope(|scope| {
        for (at, name) in names.iter().enumerate() {
            let (is_so, found) = (&is_so, &found);
            let run = move || found(at, is_so(name));
            if thread::Builder::new().spawn_scoped(scope, run).is_err() {
                break; // the limit of threads: the remaining names mean other machines
            }
        }
    });
}

/// Whether a name is known without a resolver.
fn is_at_hand(name: &str) -> bool {
    name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || name.eq_ignore_ascii_case(&host::name())
}

/// Whether a name or an address means this machine, whose addresses are `own`.
fn means_this_machine(name: &str, own: &OwnAddresses) -> bool {
    match name.parse() {
        Ok(address) => own.has(address),
        Err(_) if is_at_hand(name) => true,
        Err(_) => (name, 0).to_socket_addrs().is_ok_and(|mut all| all.any(|one| own.has(one.ip()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn slots_are_summed_where_they_are_stated() {
        let names =
            |hosts: &Hosts| hosts.used().map(|host| &*host.name).collect::<Vec<_>>().join(" ");
        let of = |text| Hosts::of_list(text).map(|hosts| (names(&hosts), hosts.slots()));
        assert_eq!(of("localhost"), Ok(("localhost".into(), None)));
        assert_eq!(of("localhost:4"), Ok(("localhost".into(), Some(4))));
        assert_eq!(of("a, b:2,a"), Ok(("a b a".into(), Some(4))));
        assert_eq!(of("::1"), Ok(("::1".into(), None)));
        assert_eq!(of("[::1]:3"), Ok(("::1".into(), Some(3))));
        assert!(of("a:0").unwrap_err().contains("'0' is not a number of slots"));
        assert!(
            of("a:x").is_err()
                && of(":4").is_err()
                && of(",").is_err()
                && of("a:4294967295,a").is_err()
        );
    }

    #[test]
    fn names_that_ssh_reads_as_options_are_refused() {
        for text in ["-oProxyCommand=true", "a,-F/dev/null", "[-v]:2"] {
            let error = Hosts::of_list(text).unwrap_err();
            assert!(error.contains("does not begin with '-'"), "{error}");
        }
        assert!(Hosts::of_list("a b").unwrap_err().contains("white space"));
        let (line, error) = Hosts::of_file("a\n-oProxyCommand=true slots=2\n").unwrap_err();
        assert!(line == Some(2) && error.contains("'-oProxyCommand=true'"), "{error}");
    }

    #[test]
    fn a_host_file_has_one_host_on_a_line() {
        let file = "# ours\nlocalhost slots=2 max-slots=4 # two\n\nlocalhost:3 max_slots=3\n";
        let hosts = Hosts::of_file(file).unwrap();
        assert_eq!(
            (hosts.named.len(), hosts.slots(), hosts.named[1].max_slots),
            (2, Some(5), Some(3))
        );
        let hosts = Hosts::of_file("localhost\n").unwrap();
        assert_eq!((hosts.slots(), hosts.named[0].max_slots), (None, None));
        let (line, e) = Hosts::of_file("\nlocalhost slot=4").unwrap_err();
        assert!(line == Some(2) && e.ends_with("(did you mean 'slots='?)"), "{e}");
        assert_eq!(Hosts::of_file("# none\n").unwrap_err(), (None, "no host is named".to_string()));
    }

    #[test]
    fn the_lines_of_a_boot_schema_are_understood() {
        let hosts =
            Hosts::of_file("head schedule=no\nn1 cpu=2 user=ann\nn2 schedule=yes\n").unwrap();
        assert_eq!(hosts.slots(), Some(3));
        let users: Vec<_> = hosts.used().map(|host| (&*host.name, host.user.as_deref())).collect();
        assert_eq!(users, [("n1", Some("ann")), ("n2", None)]);
        for (line, why) in [
            ("a schedule=maybe", "'schedule=maybe' is neither schedule=yes nor schedule=no"),
            ("a user=", "'user=' names no user"),
            ("a cpu=0", "'cpu=0': '0' is not a number of slots, 1 or more"),
        ] {
            assert_eq!(Hosts::of_file(line).unwrap_err(), (Some(1), why.to_string()));
        }
        let (_, why) = Hosts::of_file("a schedule=no").unwrap_err();
        assert_eq!(why, "all hosts are left out (schedule=no)");
    }

    #[test]
    fn this_machine_is_known_by_its_names_and_addresses() {
        for name in ["localhost", "LOCALHOST", "127.0.0.1", &oxmpi_sys::host::name()] {
            assert!(is_here(name), "{name}");
        }
        // Addresses for documentation (RFC 5737), a name that never resolves (RFC 6761), the
        // unspecified address.
        for name in ["192.0.2.1", "nowhere.invalid", "0.0.0.0"] {
            assert!(!is_here(name), "{name}");
        }
        assert_eq!(Hosts::of_list("localhost,192.0.2.1").unwrap().elsewhere(), Some("192.0.2.1"));
    }

    /// Sixty names cost one limit of time, and not sixty: the threads wait for each other here.
    #[test]
    fn all_names_are_resolved_at_once() {
        static TOGETHER: Barrier = Barrier::new(60);
        let names: Vec<String> = (0..60).map(|at| format!("n{at}.invalid")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let is_seventh = |name: &str| {
            TOGETHER.wait();
            name == "n7.invalid"
        };
        let found = Mutex::new(Vec::new());
        at_once(&names, is_seventh, |at, is_so| found.lock().unwrap().push((at, is_so)));
        let mut found = found.into_inner().unwrap();
        found.sort_unstable();
        let wanted: Vec<_> = (0..60).map(|at| (at, at == 7)).collect();
        assert_eq!(found, wanted);
    }
}
