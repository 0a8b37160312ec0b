//! Hosts as users name them. There is one for now: this machine.

use std::net::ToSocketAddrs;

use oxmpi_os::net::is_own;
use oxmpi_param::nearest::nearest;

/// The hosts that were named, and their slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hosts {
    pub(crate) names: Vec<String>,
    /// The sum of the slots, if any were stated, or if a host was named more than once.
    pub(crate) slots: Option<u32>,
    /// The sum of the largest numbers of slots (`max-slots`), if all hosts have one.
    pub(crate) max_slots: Option<u32>,
}

/// A host as it was named.
struct Named {
    name: String,
    slots: Option<u32>,
    max_slots: Option<u32>,
}

impl Hosts {
    /// Reads `a,b:4`.
    pub(crate) fn of_list(text: &str) -> Result<Hosts, String> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        let named = names.map(named).collect::<Result<Vec<_>, _>>()?;
        if named.is_empty() { Err("no host is named".to_string()) } else { Hosts::sum(named) }
    }

    /// Reads the lines of a host file: `NAME`, `NAME:4`, or `NAME slots=4 max-slots=8`.
    pub(crate) fn of_file(text: &str) -> Result<Hosts, String> {
        let mut all = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(first) = words.next() else { continue };
            let host = named(first).and_then(|mut host| {
                words.try_for_each(|word| key(&mut host, word))?;
                Ok(host)
            });
            all.push(host.map_err(|why| format!("line {number}: {why}"))?);
        }
        if all.is_empty() { Err("no host is named".to_string()) } else { Hosts::sum(all) }
    }

    fn sum(named: Vec<Named>) -> Result<Hosts, String> {
        let stated = named.len() > 1 || named.iter().any(|host| host.slots.is_some());
        let total = |numbers: Vec<u32>| {
            let sum = numbers.into_iter().try_fold(0, u32::checked_add);
            sum.ok_or_else(|| "too many slots".to_string())
        };
        let slots = total(named.iter().map(|host| host.slots.unwrap_or(1)).collect())?;
        let limits: Option<Vec<u32>> = named.iter().map(|host| host.max_slots).collect();
        let max_slots = limits.map(total).transpose()?;
        let names = named.into_iter().map(|host| host.name).collect();
        Ok(Hosts { names, slots: stated.then_some(slots), max_slots })
    }

    /// The first host that is not this machine.
    pub(crate) fn elsewhere(&self) -> Option<&str> {
        self.names.iter().map(String::as_str).find(|name| !is_here(name))
    }
}

/// Reads `NAME` or `NAME:4`; `[::1]:4` for addresses with colons.
fn named(text: &str) -> Result<Named, String> {
    let (name, slots) = match text.rsplit_once(':') {
        Some((name, slots)) if text.starts_with('[') && name.ends_with(']') => (name, Some(slots)),
        Some((name, slots)) if !name.contains(':') => (name, Some(slots)),
        _ => (text, None),
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    if name.is_empty() {
        return Err(format!("'{text}' names no host"));
    }
    let slots = slots.map(|slots| number(slots, text)).transpose()?;
    Ok(Named { name: name.to_string(), slots, max_slots: None })
}

/// Reads `slots=4`.
fn key(host: &mut Named, word: &str) -> Result<(), String> {
    let known = ["slots", "max-slots", "max_slots"];
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    match key {
        "slots" | "cpu" | "count" => host.slots = Some(number(value, word)?),
        "max-slots" | "max_slots" => host.max_slots = Some(number(value, word)?),
        _ => {
            let hint = nearest(key, known).map(|n| format!(" (did you mean '{n}=N'?)")).unwrap_or_default();
            return Err(format!("'{word}' is neither slots=N nor max-slots=N{hint}"));
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

/// Whether a name or an address is this machine: one can only bind a socket to an address of one's own.
pub(crate) fn is_here(name: &str) -> bool {
    let own = oxmpi_os::host::name();
    if name.eq_ignore_ascii_case("localhost") || name.eq_ignore_ascii_case(&own) {
        return true;
    }
    if let Ok(address) = name.parse() {
        return is_own(address);
    }
    (name, 0).to_socket_addrs().is_ok_and(|mut addresses| addresses.any(|address| is_own(address.ip())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_summed_where_they_are_stated() {
        let of = |text| Hosts::of_list(text).map(|hosts| (hosts.names.join(" "), hosts.slots));
        assert_eq!(of("localhost"), Ok(("localhost".into(), None)));
        assert_eq!(of("localhost:4"), Ok(("localhost".into(), Some(4))));
        assert_eq!(of("a, b:2,a"), Ok(("a b a".into(), Some(4))));
        assert_eq!(of("::1"), Ok(("::1".into(), None)));
        assert_eq!(of("[::1]:3"), Ok(("::1".into(), Some(3))));
        assert!(of("a:0").unwrap_err().contains("'0' is not a number of slots"));
        assert!(of("a:x").is_err() && of(":4").is_err() && of(",").is_err() && of("a:4294967295,a").is_err());
    }

    #[test]
    fn a_host_file_has_one_host_on_a_line() {
        let hosts =
            Hosts::of_file("# ours\nlocalhost slots=2 max-slots=4 # two\n\nlocalhost:3 max_slots=3\n")
                .unwrap();
        assert_eq!((hosts.names.len(), hosts.slots, hosts.max_slots), (2, Some(5), Some(7)));
        let hosts = Hosts::of_file("localhost\n").unwrap();
        assert_eq!((hosts.slots, hosts.max_slots), (None, None));
        let e = Hosts::of_file("\nlocalhost slot=4").unwrap_err();
        assert_eq!(e, "line 2: 'slot=4' is neither slots=N nor max-slots=N (did you mean 'slots=N'?)");
        assert_eq!(Hosts::of_file("# none\n").unwrap_err(), "no host is named");
    }

    #[test]
    fn this_machine_is_known_by_its_names_and_addresses() {
        for name in ["localhost", "LOCALHOST", "127.0.0.1", &oxmpi_os::host::name()] {
            assert!(is_here(name), "{name}");
        }
        // Addresses for documentation (RFC 5737), a name that never resolves (RFC 6761), no address at all.
        for name in ["192.0.2.1", "nowhere.invalid", "0.0.0.0"] {
            assert!(!is_here(name), "{name}");
        }
        assert_eq!(Hosts::of_list("localhost,192.0.2.1").unwrap().elsewhere(), Some("192.0.2.1"));
    }
}
