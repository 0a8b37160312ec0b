//! What `rpi`, and Open MPI's `pml`, `btl` and `mtl`, say about transports, and `coll` about collectives.

use super::modules::Nodes;
use super::{Impossible, Job, LevelError};
use crate::choices::Transport;
use crate::components::{Asked, BadName, Component};
use crate::definition::{Param, Value};
use crate::nearest::nearest;
use crate::registry::Params;
use crate::source::Source;

/// Why no transport can be selected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// A list of modules is wrong.
    #[error("parameter '{parameter}' is '{value}' (from {from}): {why}")]
    List {
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        value: String,
        /// Where it comes from.
        from: Source,
        /// What is wrong, and what to do.
        why: String,
    },
    /// Two parameters exclude each other.
    #[error(
        "parameter 'rpi' asks for '{asked}' (from {from}), but parameter 'btl' is '{list}' (from {list_from}), which leaves \
         it out: leave out one of the two"
    )]
    Contradiction {
        /// The transport.
        asked: &'static str,
        /// Who asks for it.
        from: String,
        /// The list that leaves it out.
        list: String,
        /// Where that comes from.
        list_from: String,
    },
    /// There is no way from one node to another.
    #[error(
        "parameter '{parameter}' is '{value}' (from {from}): it leaves out 'tcp', by which messages go between nodes, and the job \
         is on {nodes}: add 'tcp' ('--mca btl self,sm,tcp'), leave the parameter out, or {one_node}"
    )]
    Between {
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        value: String,
        /// Where it comes from.
        from: Source,
        /// On what the job is.
        nodes: Nodes,
        /// How it is on one node.
        one_node: &'static str,
    },
    /// Nothing is left.
    #[error(transparent)]
    Impossible(#[from] Impossible),
    /// The variable for the thread level is wrong.
    #[error(transparent)]
    Level(#[from] LevelError),
}

/// A module of Open MPI.
struct Known {
    name: &'static str,
    /// What to do, if it is not there.
    missing: Option<&'static str>,
}

const fn here(name: &'static str) -> Known {
    Known { name, missing: None }
}

const fn missing(name: &'static str, remedy: &'static str) -> Known {
    Known { name, missing: Some(remedy) }
}

const NO_NETWORK: &str = "there is no transport for this network yet; 'tcp' goes over IP";
const NO_PML: &str = "it is not there; say 'ob1', or leave the parameter out";
const NO_MTL: &str =
    "there is no MTL yet; leave the parameter out, and say '--mca btl self,sm' or '--mca btl self,tcp'";
const NO_CM: &str = "it needs an MTL, and there is none yet; say 'ob1', or leave the parameter out";

const PML: &[Known] = &[
    here("ob1"),
    missing("cm", NO_CM),
    missing("ucx", NO_PML),
    missing("v", NO_PML),
    missing("monitoring", NO_PML),
    missing("yalla", NO_PML),
    missing("dr", NO_PML),
    missing("crcpw", NO_PML),
];

const BTL: &[Known] = &[
    here("self"),
    here("sm"),
    here("vader"),
    here("shm"),
    here("tcp"),
    missing("openib", NO_NETWORK),
    missing("uct", NO_NETWORK),
    missing("ofi", NO_NETWORK),
    missing("ugni", NO_NETWORK),
    missing("usnic", NO_NETWORK),
    missing("portals4", NO_NETWORK),
    missing(
        "smcuda",
        "there is no transport for memory of accelerators yet; 'sm' goes through shared memory",
    ),
];

const MTL: &[Known] = &[
    missing("ofi", NO_MTL),
    missing("psm2", NO_MTL),
    missing("psm", NO_MTL),
    missing("portals4", NO_MTL),
    missing("mxm", NO_MTL),
];

/// What the parameters ask for.
#[derive(Debug, Default)]
pub(super) struct Ask {
    rpi: Option<(Transport, Source)>,
    /// Which transports a list leaves, and who says so.
    btl: Option<(Left, String)>,
    /// Which components of collectives a list leaves, and who says so.
    coll: Option<(Asked, String)>,
}

/// What a list of Open MPI's transports leaves. It has one shared memory: a list that has it asks for ours, and one that leaves
/// it out leaves all of it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    shared_memory: bool,
    sockets: bool,
    /// It says what is left out.
    all_but: bool,
}

impl Left {
    /// Whether it leaves a transport. Those that only the guide knows are on no list: they need what they are made of.
    fn has(self, transport: Transport, is_asked_for: bool) -> bool {
        match transport {
            Transport::Shm => self.shared_memory,
            Transport::Usysv | Transport::Sysv => self.shared_memory && (self.all_but || is_asked_for),
            Transport::Tcp => self.sockets,
            Transport::Crtcp => self.sockets && is_asked_for,
            Transport::Lamd => self.all_but || is_asked_for,
        }
    }
}

/// A list of modules: `a,b`, or `^a,b` for all but these.
struct List<'p> {
    parameter: &'static str,
    value: &'p str,
    from: &'p Source,
    all_but: bool,
    names: Vec<&'p str>,
}

impl<'p> List<'p> {
    /// The value of a parameter, if it says anything.
    fn of(
        parameter: &'static str,
        value: &'p str,
        from: &'p Source,
        known: &[Known],
    ) -> Result<Option<Self>, SelectError> {
        let value = value.trim();
        if value.is_empty() {
            return Ok(None);
        }
        let (all_but, words) = match value.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, value),
        };
        let names = words.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        let list = List { parameter, value, from, all_but, names };
        list.check(known)?;
        Ok(Some(list))
    }

    fn check(&self, known: &[Known]) -> Result<(), SelectError> {
        if self.names.is_empty() {
            return Err(
                self.wrong("it names nothing: leave it out, or write names with commas between them".into())
            );
        }
        for name in &self.names {
            if name.starts_with('^') {
                return Err(
                    self.wrong("a '^' stands in front of the whole list, and means all but these".into())
                );
            }
            let Some(found) = known.iter().find(|one| one.name == *name) else {
                let hint = nearest(name, known.iter().map(|one| one.name));
                let hint = hint.map(|hint| format!("; did you mean '{hint}'?")).unwrap_or_default();
                let there: Vec<_> =
                    known.iter().filter(|one| one.missing.is_none()).map(|one| one.name).collect();
                let there = if there.is_empty() { "none yet".to_string() } else { there.join(", ") };
                return Err(self
                    .wrong(format!("there is no module '{name}'{hint} ('{}' has {there})", self.parameter)));
            };
            // To leave out what is not there is fine.
            if let (false, Some(remedy)) = (self.all_but, found.missing) {
                return Err(self.wrong(format!("'{name}': {remedy}")));
            }
        }
        Ok(())
    }

    fn has(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.names.contains(name)) != self.all_but
    }

    fn wrong(&self, why: String) -> SelectError {
        SelectError::List {
            parameter: self.parameter,
            value: self.value.into(),
            from: self.from.clone(),
            why,
        }
    }
}

impl Ask {
    pub(super) fn of(params: &Params, job: &Job) -> Result<Ask, SelectError> {
        let from = |name| Param::find(name).map_or(&Source::Default, |param| params.source(param));
        let pml = List::of("pml", params.pml(), from("pml"), PML)?;
        if let Some(pml) = pml.filter(|pml| !pml.has(&["ob1"])) {
            return Err(
                pml.wrong("it leaves out 'ob1', and nothing else is there: leave the parameter out".into())
            );
        }
        List::of("mtl", params.mtl(), from("mtl"), MTL)?;
        let rpi = match (Param::find("rpi").map(|param| params.value(param)), from("rpi")) {
            (_, Source::Default) | (None, _) => None,
            (Some(Value::Number(place)), from) => usize::try_from(place)
                .ok()
                .and_then(|at| Transport::ALL.get(at))
                .map(|one| (*one, from.clone())),
            (Some(Value::Text(_)), _) => None,
        };
        let coll = ask_coll(params.coll(), from("coll"))?;
        let Some(btl) = List::of("btl", params.btl(), from("btl"), BTL)? else {
            return Ok(Ask { rpi, btl: None, coll });
        };
        if !btl.has(&["self"]) {
            let remedy = "it leaves out 'self', without which a process cannot send to itself";
            return Err(btl.wrong(match btl.all_but {
                true => format!("{remedy}: do not exclude it"),
                false => format!("{remedy}: write 'self,{}'", btl.value),
            }));
        }
        let left =
            Left { shared_memory: btl.has_shared_memory(), sockets: btl.has(&["tcp"]), all_but: btl.all_but };
        if let Some((asked, from)) = rpi.as_ref().filter(|(asked, _)| !left.has(*asked, true)) {
            return Err(SelectError::Contradiction {
                asked: asked.name(),
                from: from.to_string(),
                list: btl.value.into(),
                list_from: btl.from.to_string(),
            });
        }
        if !left.shared_memory && !left.sockets && rpi.is_none() {
            // A process alone needs no way to others.
            if job.ranks == Some(1) {
                return Ok(Ask { rpi, btl: None, coll });
            }
            return Err(btl.wrong("it leaves no way from one process to another: add 'sm' or 'tcp'".into()));
        }
        if let Some(nodes) = job.nodes.filter(|_| !left.sockets) {
            return Err(SelectError::Between {
                parameter: btl.parameter,
                value: btl.value.into(),
                from: btl.from.clone(),
                nodes,
                one_node: match nodes {
                    Nodes::Hosts(_) => "run all ranks on one host",
                    Nodes::Virtual(_) => "have no virtual nodes ('--mca mpi_virtual_nodes 1')",
                },
            });
        }
        let btl = Some((left, format!("'btl' is '{}' (from {})", btl.value, btl.from)));
        Ok(Ask { rpi, btl, coll })
    }

    /// Why the parameters leave a transport out, if they do.
    pub(super) fn left_out(&self, transport: Transport) -> Option<String> {
        let rpi = self.rpi.as_ref().filter(|(asked, _)| *asked != transport);
        let rpi =
            rpi.map(|(asked, from)| format!("'{}' is asked for (parameter 'rpi' from {from})", asked.name()));
        let is_asked_for = self.rpi.as_ref().is_some_and(|(asked, _)| *asked == transport);
        let btl = self.btl.as_ref().filter(|(left, _)| !left.has(transport, is_asked_for));
        rpi.or(btl.map(|(_, text)| text.clone()))
    }

    /// Why the parameters leave out sockets as the way between nodes, if they do. `rpi` says nothing of it: where one of its modules
    /// does not leave the node that is requested, sockets do.
    pub(super) fn left_out_between(&self) -> Option<String> {
        self.btl.as_ref().filter(|(left, _)| !left.sockets).map(|(_, text)| text.clone())
    }

    /// Why the parameter `coll` leaves a component out, if it does.
    pub(super) fn left_out_of_coll(&self, component: Component) -> Option<String> {
        self.coll.as_ref().filter(|(asked, _)| !asked.has(component)).map(|(_, text)| text.clone())
    }
}

/// What `coll` says, if it says anything.
fn ask_coll(value: &str, from: &Source) -> Result<Option<(Asked, String)>, SelectError> {
    let wrong = |bad: BadName| SelectError::List {
        parameter: "coll",
        value: value.into(),
        from: from.clone(),
        why: bad.to_string(),
    };
    let asked = Asked::parse(value).map_err(wrong)?;
    Ok((asked != Asked::ALL).then(|| (asked, format!("'coll' is '{value}' (from {from})"))))
}

impl List<'_> {
    /// Open MPI has had several names for shared memory: whoever excludes one of them excludes it.
    fn has_shared_memory(&self) -> bool {
        self.has(&["sm", "vader", "shm"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::select::ThreadLevel;

    fn params(pairs: &[(&'static str, &str)]) -> Params {
        let mut params = Params::default();
        for (name, value) in pairs {
            params.set_from(name, value, Source::CommandLine(format!("--mca {name} {value}"))).unwrap();
        }
        params
    }

    fn chosen(pairs: &[(&'static str, &str)]) -> Result<Transport, String> {
        let found = params(pairs).select(&Job { ranks: Some(2), ..Job::default() }, ThreadLevel::Single);
        found.map(|found| found.transport()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_spellings_of_open_mpi_select_what_they_say() {
        use Transport::{Crtcp, Shm, Tcp};
        for (pairs, transport) in [
            (&[("btl", "self,sm,tcp")][..], Shm),
            (&[("btl", "self,vader")], Shm),
            (&[("btl", " tcp , self ")], Tcp),
            (&[("btl", "^tcp")], Shm),
            (&[("btl", "^sm")], Tcp),
            (&[("btl", "^vader,openib")], Tcp),
            (&[("btl", "^openib")], Shm),
            (&[("btl", "")], Shm),
            (&[("pml", "ob1"), ("btl", "tcp,self")], Tcp),
            (&[("pml", "^ucx"), ("mtl", "^ofi")], Shm),
            (&[("rpi", "tcp"), ("btl", "self,sm,tcp")], Tcp),
            (&[("rpi", "crtcp"), ("btl", "self,tcp")], Crtcp),
            (&[("rpi_tcp_priority", "99"), ("btl", "self,sm")], Shm),
        ] {
            assert_eq!(chosen(pairs), Ok(transport), "{pairs:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_reason_source_and_remedy() {
        for (pairs, texts) in [
            (
                &[("btl", "sm,tcp")][..],
                &["'btl' is 'sm,tcp' (from --mca btl sm,tcp)", "write 'self,sm,tcp'"][..],
            ),
            (&[("btl", "^self")], &["leaves out 'self'"]),
            (&[("btl", "self")], &["leaves no way", "add 'sm' or 'tcp'"]),
            (&[("btl", "^sm,tcp")], &["leaves no way"]),
            (&[("btl", "self,openib")], &["'openib'", "'tcp' goes over IP"]),
            (&[("btl", "self,tpc")], &["no module 'tpc'", "did you mean 'tcp'"]),
            (&[("btl", "self,^tcp")], &["in front of the whole list"]),
            (&[("btl", "^")], &["names nothing"]),
            (&[("pml", "cm")], &["needs an MTL", "'ob1'"]),
            (&[("pml", "^ob1")], &["leaves out 'ob1'"]),
            (&[("mtl", "ofi")], &["no MTL yet", "--mca btl self,tcp"]),
            (&[("mtl", "oif")], &["did you mean 'ofi'", "has none yet"]),
            (
                &[("rpi", "tcp"), ("btl", "self,sm")],
                &["asks for 'tcp' (from --mca rpi tcp)", "'btl' is 'self,sm' (from --mca btl self,sm)"],
            ),
        ] {
            let error = chosen(pairs).unwrap_err();
            assert!(texts.iter().all(|text| error.contains(text)), "{pairs:?}: {error}");
        }
    }

    #[test]
    fn a_job_on_several_nodes_needs_a_way_between_them() {
        let lists = ["^tcp", "self,sm", "self,vader", "^tcp,openib"];
        let hosts = (Nodes::Hosts(3), "3 hosts", "run all ranks on one host");
        let virtual_ones = (Nodes::Virtual(2), "2 virtual nodes", "--mca mpi_virtual_nodes 1");
        for (nodes, texts) in [hosts, virtual_ones].map(|(nodes, one, two)| (nodes, [one, two])) {
            let job = Job { ranks: Some(4), nodes: Some(nodes), ..Job::default() };
            let select = |pairs: &[(&'static str, &str)]| params(pairs).select(&job, ThreadLevel::Single);
            for list in lists {
                for more in [None, Some(("rpi", "shm")), Some(("rpi", "lamd")), Some(("pml", "ob1"))] {
                    let pairs: Vec<_> = [("btl", list)].into_iter().chain(more).collect();
                    if (list, more) == ("self,sm", Some(("rpi", "lamd"))) {
                        continue; // the two exclude each other on one node as well
                    }
                    let error = select(&pairs).unwrap_err().to_string();
                    let said = format!("'btl' is '{list}' (from --mca btl {list})");
                    let [on, remedy] = texts;
                    for text in [on, remedy, "leaves out 'tcp'", "--mca btl self,sm,tcp", &said] {
                        assert!(error.contains(text), "{pairs:?}: {error}");
                    }
                }
            }
            for pairs in [
                &[][..],
                &[("btl", "self,sm,tcp")],
                &[("btl", "^openib")],
                &[("btl", "self,tcp")],
                &[("rpi", "shm")],
                &[("rpi", "usysv")],
                &[("rpi", "lamd")],
            ] {
                let found = select(pairs).unwrap();
                let between = (!matches!(found.transport(), Transport::Tcp)).then_some("tcp");
                assert_eq!(found.between, between, "{pairs:?}");
            }
            let none = Job { no_sockets: Some("there is no network".into()), ..job.clone() };
            let error = params(&[]).select(&none, ThreadLevel::Single).unwrap_err().to_string();
            assert!(error.contains("between which messages go by tcp: there is no network"), "{error}");
        }
        for list in lists {
            let found = params(&[("btl", list)]).select(&Job::default(), ThreadLevel::Single).unwrap();
            assert_eq!((found.transport(), found.between), (Transport::Shm, None), "{list}");
            let why = format!("'btl' is '{list}' (from --mca btl {list})");
            assert!(found.steps[1].drops.contains(&("between nodes tcp".into(), why)), "{list}");
        }
    }

    #[test]
    fn one_process_needs_no_way_to_others() {
        let alone = Job { ranks: Some(1), ..Job::default() };
        assert!(params(&[("btl", "self")]).select(&alone, ThreadLevel::Single).is_ok());
        assert!(params(&[("btl", "self")]).select(&Job::default(), ThreadLevel::Single).is_err());
    }
}
