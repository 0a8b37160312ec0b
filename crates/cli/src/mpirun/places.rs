//! Ranks at named places of a job's hosts: `n0-3`, `c1`, and the rest of the guide's notation.

use oxmpi_daemon::{Node, Universe, places};
use oxmpi_sys::cpus;

use oxmpi_launcher::hosts::named::{Hosts, NamedHost};

#[derive(Clone, Debug)]
pub(super) struct RankPlaces {
    pub(super) hosts: Vec<NamedHost>,
    /// An index of `hosts` for each rank. More ranks begin again with the first.
    pub(super) at: Vec<usize>,
}

impl RankPlaces {
    /// Resolves places on these hosts, or on this machine if there are none. Fails if a place does
    /// not exist.
    pub(super) fn find(
        words: &[String],
        hosts: &Hosts,
        universe: Option<&Universe>,
    ) -> Result<RankPlaces, String> {
        let mut all: Vec<NamedHost> = Vec::new();
        let here = NamedHost { name: "localhost".into(), ..NamedHost::default() };
        let named =
            if hosts.named.is_empty() { std::slice::from_ref(&here) } else { &hosts.named[..] };
        let stated = hosts.slots().is_some();
        for host in named {
            let is_here = host.is_here();
            let slots = host.slots.unwrap_or(match () {
                () if stated => 1,
                () if is_here => cpus::usable() as u32,
                () => 1,
            });
            let is_same = |other: &&mut NamedHost| {
                if is_here { other.is_here() } else { other.name.eq_ignore_ascii_case(&host.name) }
            };
            match all.iter_mut().find(is_same) {
                Some(known) => known.slots = known.slots.map(|sum| sum.saturating_add(slots)),
                None => all.push(NamedHost { slots: Some(slots), ..host.clone() }),
            }
        }
        let origin = universe
            .and_then(|universe| universe.nodes().into_iter().position(|node| node.is_origin));
        let nodes: Vec<Node> = all
            .iter()
            .map(|host| Node {
                name: host.name.clone(),
                cpus: host.slots.unwrap_or(1),
                is_scheduled: !host.is_left_out,
                is_origin: match host.node {
                    Some(node) => Some(node.number) == origin,
                    None => host.is_here(),
                },
                addresses: Vec::new(),
            })
            .collect();
        let names = || all.iter().map(|host| &*host.name).collect::<Vec<_>>().join(", ");
        let own = all.iter().position(NamedHost::is_here);
        let mut at = Vec::new();
        for word in words {
            if word == "h" && own.is_none() {
                return Err(format!("'h': this host is not among those of the job: {}", names()));
            }
            let found = places(word, &nodes, own.unwrap_or(0))
                .map_err(|error| format!("{error} (nodes, from n0: {})", names()))?;
            if found.is_empty() {
                return Err(format!(
                    "'{word}': the node of 'oxmpi boot' is not among the hosts: {}",
                    names()
                ));
            }
            at.extend(found.into_iter().map(|place| place.node));
        }
        Ok(RankPlaces { hosts: all, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(words: &[&str], hosts: &str) -> Result<Vec<usize>, String> {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        let hosts = Hosts::of_file(hosts).unwrap_or_default();
        RankPlaces::find(&words, &hosts, None).map(|places_of_ranks| places_of_ranks.at)
    }

    #[test]
    fn words_name_the_hosts_of_a_file() {
        // Addresses that no host has. Names would be resolved.
        let file = "240.0.0.1 cpu=2\n240.0.0.2 schedule=no\n240.0.0.3 cpu=2\n240.0.0.1\n";
        assert_eq!(at(&["n0,2"], file), Ok(vec![0, 2]));
        assert_eq!(
            at(&["n1"], file),
            Ok(vec![1]),
            "schedule=no does not matter to a host that is named"
        );
        assert_eq!(at(&["c2-4", "n0"], file), Ok(vec![0, 2, 2, 0]), "a host on two lines is one");
        assert_eq!(at(&["C", "N"], file), Ok(vec![0, 0, 0, 2, 2, 0, 2]));
        let error = at(&["n1-3"], file).unwrap_err();
        assert!(
            error.starts_with(
                "'n1-3': there is no node n3; the last one is n2 (nodes, from n0: 240.0.0.1"
            ),
            "{error}"
        );
        let error = at(&["c5"], file).unwrap_err();
        assert!(error.starts_with("'c5': there is no processor c5; there are 5"), "{error}");
        assert!(at(&["h"], file).unwrap_err().contains("'h': this host is not among"));
        assert!(at(&["o"], file).unwrap_err().contains("'o'"));
    }

    #[test]
    fn without_hosts_this_machine_is_the_only_node() {
        assert_eq!(at(&["n0", "h", "o", "N"], ""), Ok(vec![0; 4]));
        assert!(at(&["n1"], "").unwrap_err().contains("there is no node n1; the last one is n0"));
        let cpus = cpus::usable();
        assert!(at(&[&format!("c{cpus}")], "").unwrap_err().contains("there is no processor"));
    }
}
