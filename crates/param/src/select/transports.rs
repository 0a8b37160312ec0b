//! What `rpi`, and Open MPI's `pml`, `btl` and `mtl`, say about transports, and `coll` about collectives.

use super::modules::NodeCount;
use super::{Impossible, Job, LevelError};
use crate::components::{Asked, BadName, Component};
use crate::definition::Param;
use crate::module::{BetweenNodes, BtlRule, Module};
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
        "parameter 'rpi' asks for '{asked}' (from {from}), but parameter '{parameter}' is '{list}' (from {list_from}), which leaves \
         it out: leave out one of the two"
    )]
    Contradiction {
        /// The transport.
        asked: String,
        /// Who asks for it.
        from: String,
        /// The parameter whose list leaves it out.
        parameter: &'static str,
        /// The list that leaves it out.
        list: String,
        /// Where that comes from.
        list_from: String,
    },
    /// There is no way from one node to another.
    #[error(
        "parameter 'btl' is '{value}' (from {from}): it leaves out '{way}', by which messages go between nodes, and the job \
         is on {nodes}: {remedy}"
    )]
    Between {
        /// The parameter's value.
        value: String,
        /// Where it comes from.
        from: String,
        /// By what messages go between nodes.
        way: &'static str,
        /// On what the job is.
        nodes: NodeCount,
        /// What to do.
        remedy: String,
    },
    /// Nothing is left.
    #[error(transparent)]
    Impossible(#[from] Impossible),
    /// The variable for the thread level is wrong.
    #[error(transparent)]
    Level(#[from] LevelError),
}

/// A module of Open MPI.
#[derive(Clone, Copy)]
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

const NO_NETWORK: &str = "OxMPI has no transport of this name; 'openib' is InfiniBand, '--mca mtl ofi' goes over the networks of \
                          libfabric, 'tcp' over IP";
const NO_PML: &str = "it is not there; say 'ob1', or leave the parameter out";
const NO_MTL: &str =
    "OxMPI goes over this network by libfabric, if that has a provider for it: '--mca mtl ofi'";

const PML: &[Known] = &[
    here("ob1"),
    here("cm"),
    missing("ucx", NO_PML),
    missing("v", NO_PML),
    missing("monitoring", NO_PML),
    missing("yalla", NO_PML),
    missing("dr", NO_PML),
    missing("crcpw", NO_PML),
];

/// Beside the names of the transports that are here.
const BTL: &[Known] = &[
    here("self"),
    missing("uct", NO_NETWORK),
    missing("ugni", NO_NETWORK),
    missing("usnic", NO_NETWORK),
    missing(
        "smcuda",
        "there is no transport for memory of accelerators yet; 'sm' goes through shared memory",
    ),
];

/// Beside the names of the transports that are here.
const MTL: &[Known] = &[missing("psm2", NO_MTL), missing("psm", NO_MTL), missing("mxm", NO_MTL)];

/// What `mtl` may name.
fn known_mtl() -> Vec<Known> {
    let names = Module::all().iter().flat_map(|module| module.mtl).map(|name| here(name));
    let missing = |one: &&Known| !Module::all().iter().any(|module| module.mtl.contains(&one.name));
    names.chain(MTL.iter().filter(missing).copied()).collect()
}

/// Which transports with a network that matches messages `pml` and `mtl` request and exclude.
fn ask_mtl(pml: Option<&List<'_>>, mtl: Option<&List<'_>>) -> Result<Mtl, SelectError> {
    let matching = || Module::all().iter().copied().filter(|module| !module.mtl.is_empty());
    let leaves = |module: &&'static Module| mtl.is_none_or(|mtl| mtl.has(module.mtl));
    let asks_cm = pml.filter(|pml| pml.has(&["cm"]) && !pml.has(&["ob1"]));
    if let Some(pml) = pml.filter(|pml| !pml.has(&["cm"])) {
        if mtl.is_some_and(|mtl| !mtl.all_but) {
            let why = "it leaves out 'cm', and 'mtl' asks for a network that matches messages: leave out one of the two";
            return Err(pml.wrong(why.into()));
        }
        return Ok(Mtl { asked: None, left_out: matching().collect(), by: Some(pml.text()) });
    }
    let asked = match mtl.filter(|mtl| !mtl.all_but).or(asks_cm) {
        None => None,
        Some(list) => {
            let found: Vec<_> = matching().filter(leaves).collect();
            if found.is_empty() {
                let why = "no transport is left whose network matches messages: leave the parameter out";
                return Err(list.wrong(why.into()));
            }
            Some((found, list.from.clone()))
        }
    };
    let left_out = matching().filter(|module| !leaves(module)).collect();
    Ok(Mtl { asked, left_out, by: mtl.map(List::text) })
}

/// See [`ask_mtl`].
struct Mtl {
    /// The requested transports, and the source of the request.
    asked: Option<Named>,
    /// The excluded transports.
    left_out: Vec<&'static Module>,
    /// The parameter that excludes them, with its value and source.
    by: Option<String>,
}

/// What `btl` may name.
fn known_btl() -> Vec<Known> {
    let names = listed().flat_map(|module| module.btl.names).map(|name| here(name));
    // A transport that is here is no longer missing.
    let missing = |one: &&Known| !listed().any(|module| module.btl.names.contains(&one.name));
    BTL[..1].iter().copied().chain(names).chain(BTL[1..].iter().filter(missing).copied()).collect()
}

/// The transports that Open MPI's lists have a name for.
fn listed() -> impl Iterator<Item = &'static Module> {
    let is_named = |module: &&Module| !module.btl.names.is_empty();
    let is_listed = |module: &&Module| matches!(module.btl.left, BtlRule::Always | BtlRule::OrAsked);
    Module::all().iter().copied().filter(is_named).filter(is_listed)
}

/// The names in Open MPI's lists that need no network but IP.
fn plain_names() -> impl Iterator<Item = &'static str> {
    let is_plain = |module: &&Module| module.btl.left == BtlRule::Always;
    listed().filter(is_plain).filter_map(|module| module.btl.names.first().copied())
}

/// Transports that are asked for by name, and who says so.
type Named = (Vec<&'static Module>, Source);

/// What the parameters ask for.
#[derive(Debug, Default)]
pub(super) struct Ask {
    rpi: Option<Named>,
    /// Which transports a list leaves, and who says so.
    btl: Option<(Left, String)>,
    /// Excluded transports whose network matches messages, and the parameter that excludes them.
    mtl: (Vec<&'static Module>, String),
    /// Which components of collectives a list leaves, and who says so.
    coll: Option<(Asked, String)>,
}

/// What a list of Open MPI's transports leaves. It has one shared memory: a list that has it asks for ours, and one that leaves
/// it out leaves all of it out.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Left {
    /// Names of transports.
    names: Vec<String>,
    /// It says what is left out.
    all_but: bool,
}

impl Left {
    /// Whether the list asks for a transport by its name.
    fn names(&self, module: &Module) -> bool {
        !self.all_but && module.btl.names.iter().any(|name| self.names.iter().any(|one| one == name))
    }

    /// Whether it leaves a transport. Those that only the guide knows are on no list: they need what they are made of.
    fn has(&self, module: &Module, is_asked_for: bool) -> bool {
        let btl = &module.btl;
        // There may be several names for one thing: whoever excludes one of them excludes it.
        let named = btl.names.iter().any(|name| self.names.iter().any(|one| one == name)) != self.all_but;
        let named = btl.names.is_empty() || named;
        match btl.left {
            BtlRule::Always => named,
            BtlRule::AllBut => named && (self.all_but || is_asked_for),
            BtlRule::Asked => named && is_asked_for,
            BtlRule::OrAsked => named || is_asked_for,
        }
    }
}

/// Names of transports with commas between them.
fn names_of(modules: &[&'static Module]) -> String {
    modules.iter().map(|module| module.name).collect::<Vec<_>>().join(",")
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

    /// The parameter with its value and source, for a message.
    fn text(&self) -> String {
        format!("'{}' is '{}' (from {})", self.parameter, self.value, self.from)
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
        if let Some(pml) = pml.as_ref().filter(|pml| !pml.has(&["ob1"]) && !pml.has(&["cm"])) {
            let why = "it leaves out 'ob1' and 'cm', and nothing else is there: leave the parameter out";
            return Err(pml.wrong(why.into()));
        }
        let mtl = List::of("mtl", params.mtl(), from("mtl"), &known_mtl())?;
        let Mtl { asked, left_out, by } = ask_mtl(pml.as_ref(), mtl.as_ref())?;
        let names = Param::find("rpi").map(|param| params.words(param)).unwrap_or_default();
        let named: Vec<_> = names.into_iter().filter_map(Module::named).collect();
        let rpi = (!named.is_empty()).then(|| (named, from("rpi").clone()));
        // What is left of the named transports by another list, which has to leave one.
        let left_by = |list: &List<'_>, rpi: &Named, leaves: &dyn Fn(&'static Module) -> bool| {
            let left: Vec<_> = rpi.0.iter().copied().filter(|module| leaves(module)).collect();
            let contradiction = || SelectError::Contradiction {
                asked: names_of(&rpi.0),
                from: rpi.1.to_string(),
                parameter: list.parameter,
                list: list.value.into(),
                list_from: list.from.to_string(),
            };
            if left.is_empty() { Err(contradiction()) } else { Ok((left, rpi.1.clone())) }
        };
        let rpi = match (rpi, mtl.as_ref().or(pml.as_ref())) {
            (Some(rpi), Some(list)) => Some(left_by(list, &rpi, &|module| {
                !left_out.contains(&module)
                    && asked.as_ref().is_none_or(|(of_mtl, _)| of_mtl.contains(&module))
            })?),
            (rpi, _) => rpi.or(asked),
        };
        let mtl = (left_out, by.unwrap_or_default());
        let coll = ask_coll(params.coll(), from("coll"))?;
        let Some(btl) = List::of("btl", params.btl(), from("btl"), &known_btl())? else {
            return Ok(Ask { rpi, btl: None, mtl, coll });
        };
        if !btl.has(&["self"]) {
            let remedy = "it leaves out 'self', without which a process cannot send to itself";
            return Err(btl.wrong(match btl.all_but {
                true => format!("{remedy}: do not exclude it"),
                false => format!("{remedy}: write 'self,{}'", btl.value),
            }));
        }
        let names = btl.names.iter().map(|name| name.to_string()).collect();
        let left = Left { names, all_but: btl.all_but };
        let rpi = rpi.map(|rpi| left_by(&btl, &rpi, &|module| left.has(module, true))).transpose()?;
        let is_left = |module: &Module| match module.btl.left {
            BtlRule::OrAsked => left.names(module),
            _ => left.has(module, false),
        };
        if !listed().any(is_left) && rpi.is_none() {
            // A process alone needs no way to others.
            if job.ranks == Some(1) {
                return Ok(Ask { rpi, btl: None, mtl, coll });
            }
            let names = plain_names().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(" or ");
            return Err(btl.wrong(format!("it leaves no way from one process to another: add {names}")));
        }
        let goes_itself = |module: &Module| module.between == BetweenNodes::Itself && left.names(module);
        let way = Module::between_nodes().filter(|way| !left.has(way, false));
        let way = way.filter(|_| !listed().any(goes_itself));
        if let (Some(nodes), Some(way)) = (job.nodes, way) {
            let all = plain_names().collect::<Vec<_>>().join(",");
            let way = way.btl.names.first().unwrap_or(&way.name);
            let one_node = match nodes {
                NodeCount::Hosts(_) => "run all ranks on one host",
                NodeCount::Virtual(_) => "have no virtual nodes ('--mca mpi_virtual_nodes 1')",
            };
            return Err(SelectError::Between {
                value: btl.value.into(),
                from: btl.from.to_string(),
                way,
                nodes,
                remedy: format!(
                    "add '{way}' ('--mca btl self,{all}'), leave the parameter out, or {one_node}"
                ),
            });
        }
        let btl = Some((left, btl.text()));
        Ok(Ask { rpi, btl, mtl, coll })
    }

    /// Whether a transport is asked for, or some are.
    pub(super) fn names_transport(&self) -> bool {
        self.rpi.is_some() || self.btl.is_some()
    }

    /// Whether a transport takes part in the selection: one without a priority does so only where it is asked for.
    pub(super) fn considers(&self, module: &Module) -> bool {
        let is_listed = || self.btl.as_ref().is_some_and(|(left, _)| left.names(module));
        module.priority.is_some() || self.asks_for(module) || is_listed()
    }

    /// Whether it is one of those that are asked for by name.
    fn asks_for(&self, module: &Module) -> bool {
        self.rpi.as_ref().is_some_and(|(asked, _)| asked.contains(&module))
    }

    /// Why the parameters leave a transport out, if they do.
    pub(super) fn left_out(&self, module: &'static Module) -> Option<String> {
        let is_asked_for = self.asks_for(module);
        let rpi = self.rpi.as_ref().filter(|_| !is_asked_for);
        let rpi = rpi
            .map(|(asked, from)| format!("'{}' is asked for (parameter 'rpi' from {from})", names_of(asked)));
        let btl = self.btl.as_ref().filter(|(left, _)| !left.has(module, is_asked_for));
        let (left_out, by) = &self.mtl;
        let mtl = left_out.contains(&module).then(|| by.clone());
        rpi.or(mtl).or(btl.map(|(_, text)| text.clone()))
    }

    /// Why the parameters leave out the transport between nodes, if they do. `rpi` says nothing of it: where one of its modules
    /// does not leave the node that is requested, that does.
    pub(super) fn left_out_between(&self) -> Option<String> {
        let way = Module::between_nodes()?;
        self.btl.as_ref().filter(|(left, _)| !left.has(way, false)).map(|(_, text)| text.clone())
    }

    /// Why the parameter `coll` leaves a component out, if it does.
    /// Whether what takes over from the components of collectives is asked for, and needed.
    pub(super) fn asks_base_alone(&self) -> bool {
        let coll = self.coll.as_ref();
        coll.is_some_and(|(asked, _)| asked.has(Component::Base) && !asked.has(Component::Basic))
    }

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
