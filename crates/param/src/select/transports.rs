//! Reads the lists of modules in `rpi`, in Open MPI's `pml`, `btl` and `mtl`, and in `coll`.

use super::modules::NodeCount;
use super::{Job, LevelError, NothingLeft};
use crate::components::{BadName, Component, ComponentSet};
use crate::definition::Param;
use crate::module::{BetweenNodes, BtlRule, Module};
use crate::nearest::nearest;
use crate::registry::Params;
use crate::source::Source;

/// The reason why no modules can be selected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    #[error("parameter '{parameter}' is '{value}' (from {from}): {why}")]
    List { parameter: &'static str, value: String, from: Source, why: String },
    #[error(
        "parameter 'rpi' requests '{requested}' (from {from}), but parameter '{parameter}' is '{list}' (from {list_from}), which leaves \
         it out: leave out one of the two"
    )]
    Contradiction {
        requested: String,
        from: String,
        /// The parameter whose list excludes the transport.
        parameter: &'static str,
        list: String,
        list_from: String,
    },
    #[error(
        "parameter 'btl' is '{value}' (from {from}): it leaves out '{route}', by which messages go between nodes, and the job \
         is on {nodes}: {remedy}"
    )]
    Between { value: String, from: String, route: &'static str, nodes: NodeCount, remedy: String },
    #[error(transparent)]
    NothingLeft(#[from] NothingLeft),
    #[error(transparent)]
    Level(#[from] LevelError),
}

#[derive(Clone, Copy)]
struct ForeignModule {
    name: &'static str,
    /// The remedy, if OxMPI does not have the module.
    missing: Option<&'static str>,
}

const fn here(name: &'static str) -> ForeignModule {
    ForeignModule { name, missing: None }
}

const fn missing(name: &'static str, remedy: &'static str) -> ForeignModule {
    ForeignModule { name, missing: Some(remedy) }
}

const NO_NETWORK: &str = "OxMPI has no transport of this name; 'openib' is InfiniBand, '--mca mtl ofi' goes over the networks of \
                          libfabric, 'tcp' over IP";
const NO_PML: &str = "it is not there; say 'ob1', or leave the parameter out";
const NO_MTL: &str =
    "OxMPI goes over this network by libfabric, if that has a provider for it: '--mca mtl ofi'";

const PML: &[ForeignModule] = &[
    here("ob1"),
    here("cm"),
    missing("ucx", NO_PML),
    missing("v", NO_PML),
    missing("monitoring", NO_PML),
    missing("yalla", NO_PML),
    missing("dr", NO_PML),
    missing("crcpw", NO_PML),
];

/// Besides the names of the linked transports.
const BTL: &[ForeignModule] = &[
    here("self"),
    missing("uct", NO_NETWORK),
    missing("ugni", NO_NETWORK),
    missing("usnic", NO_NETWORK),
    missing(
        "smcuda",
        "there is no transport for memory of accelerators yet; 'sm' goes through shared memory",
    ),
];

/// Besides the names of the linked transports.
const MTL: &[ForeignModule] =
    &[missing("psm2", NO_MTL), missing("psm", NO_MTL), missing("mxm", NO_MTL)];

fn known_mtl() -> Vec<ForeignModule> {
    let names = Module::all().iter().flat_map(|module| module.mtl).map(|name| here(name));
    let missing =
        |one: &&ForeignModule| !Module::all().iter().any(|module| module.mtl.contains(&one.name));
    names.chain(MTL.iter().filter(missing).copied()).collect()
}

/// The transports with a matching network that `pml` and `mtl` request and exclude.
fn request_mtl(pml: Option<&List<'_>>, mtl: Option<&List<'_>>) -> Result<MtlRequest, SelectError> {
    let matching = || Module::all().iter().copied().filter(|module| !module.mtl.is_empty());
    let leaves = |module: &&'static Module| mtl.is_none_or(|mtl| mtl.has(module.mtl));
    let requests_cm = pml.filter(|pml| pml.has(&["cm"]) && !pml.has(&["ob1"]));
    if let Some(pml) = pml.filter(|pml| !pml.has(&["cm"])) {
        if mtl.is_some_and(|mtl| !mtl.all_but) {
            let why = "it leaves out 'cm', and 'mtl' requests a network that matches messages: leave out one of the two";
            return Err(pml.wrong(why.into()));
        }
        return Ok(MtlRequest {
            requested: None,
            left_out: matching().collect(),
            by: Some(pml.text()),
        });
    }
    let requested = match mtl.filter(|mtl| !mtl.all_but).or(requests_cm) {
        None => None,
        Some(list) => {
            let found: Vec<_> = matching().filter(leaves).collect();
            if found.is_empty() {
                let why =
                    "no transport is left whose network matches messages: leave the parameter out";
                return Err(list.wrong(why.into()));
            }
            Some((found, list.from.clone()))
        }
    };
    let left_out = matching().filter(|module| !leaves(module)).collect();
    Ok(MtlRequest { requested, left_out, by: mtl.map(List::text) })
}

struct MtlRequest {
    requested: Option<RequestedTransports>,
    left_out: Vec<&'static Module>,
    by: Option<String>,
}

fn known_btl() -> Vec<ForeignModule> {
    let names = listed().flat_map(|module| module.btl.names).map(|name| here(name));
    // A linked transport is not missing.
    let missing =
        |one: &&ForeignModule| !listed().any(|module| module.btl.names.contains(&one.name));
    BTL[..1].iter().copied().chain(names).chain(BTL[1..].iter().filter(missing).copied()).collect()
}

/// The transports that have names in Open MPI's lists.
fn listed() -> impl Iterator<Item = &'static Module> {
    let is_named = |module: &&Module| !module.btl.names.is_empty();
    let is_listed =
        |module: &&Module| matches!(module.btl.left, BtlRule::Always | BtlRule::ListedOrRequested);
    Module::all().iter().copied().filter(is_named).filter(is_listed)
}

/// The names in Open MPI's lists that need no network but IP.
fn plain_names() -> impl Iterator<Item = &'static str> {
    let is_plain = |module: &&Module| module.btl.left == BtlRule::Always;
    listed().filter(is_plain).filter_map(|module| module.btl.names.first().copied())
}

/// The transports that a parameter requests by name, and the source of the request.
type RequestedTransports = (Vec<&'static Module>, Source);

#[derive(Debug, Default)]
pub(super) struct ModuleRequests {
    rpi: Option<RequestedTransports>,
    btl: Option<(BtlList, String)>,
    /// Excluded transports whose network matches messages, and the parameter that excludes them.
    mtl: (Vec<&'static Module>, String),
    coll: Option<(ComponentSet, String)>,
}

/// The parameter `btl`, a list of Open MPI's transports. Open MPI has one component for shared
/// memory, `sm`: a list with `sm` keeps all shared-memory transports of OxMPI, and a list without
/// `sm` excludes all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BtlList {
    names: Vec<String>,
    all_but: bool,
}

impl BtlList {
    fn names(&self, module: &Module) -> bool {
        !self.all_but
            && module.btl.names.iter().any(|name| self.names.iter().any(|one| one == name))
    }

    /// Whether the list keeps a transport. Transports that only LAM/MPI has are in no list: they
    /// need the transports that they consist of.
    fn has(&self, module: &Module, is_requested: bool) -> bool {
        let btl = &module.btl;
        // A transport may have several names: excluding one of them excludes it.
        let named =
            btl.names.iter().any(|name| self.names.iter().any(|one| one == name)) != self.all_but;
        let named = btl.names.is_empty() || named;
        match btl.left {
            BtlRule::Always => named,
            BtlRule::AllBut => named && (self.all_but || is_requested),
            BtlRule::Requested => named && is_requested,
            BtlRule::ListedOrRequested => named || is_requested,
        }
    }
}

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
    fn of(
        parameter: &'static str,
        value: &'p str,
        from: &'p Source,
        known: &[ForeignModule],
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

    fn check(&self, known: &[ForeignModule]) -> Result<(), SelectError> {
        if self.names.is_empty() {
            return Err(self.wrong(
                "it names nothing: leave it out, or write names with commas between them".into(),
            ));
        }
        for name in &self.names {
            if name.starts_with('^') {
                return Err(self.wrong(
                    "a '^' stands in front of the whole list, and means all but these".into(),
                ));
            }
            let Some(found) = known.iter().find(|one| one.name == *name) else {
                let hint = nearest(name, known.iter().map(|one| one.name));
                let hint = hint.map(|hint| format!("; did you mean '{hint}'?")).unwrap_or_default();
                let there: Vec<_> =
                    known.iter().filter(|one| one.missing.is_none()).map(|one| one.name).collect();
                let there =
                    if there.is_empty() { "none yet".to_string() } else { there.join(", ") };
                return Err(self.wrong(format!(
                    "there is no module '{name}'{hint} ('{}' has {there})",
                    self.parameter
                )));
            };
            // A module that OxMPI does not have may be excluded.
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

impl ModuleRequests {
    pub(super) fn of(params: &Params, job: &Job) -> Result<ModuleRequests, SelectError> {
        let from = |name| Param::find(name).map_or(&Source::Default, |param| params.source(param));
        let pml = List::of("pml", params.pml(), from("pml"), PML)?;
        if let Some(pml) = pml.as_ref().filter(|pml| !pml.has(&["ob1"]) && !pml.has(&["cm"])) {
            let why =
                "it leaves out 'ob1' and 'cm', and nothing else is there: leave the parameter out";
            return Err(pml.wrong(why.into()));
        }
        let mtl = List::of("mtl", params.mtl(), from("mtl"), &known_mtl())?;
        let MtlRequest { requested, left_out, by } = request_mtl(pml.as_ref(), mtl.as_ref())?;
        let names = Param::find("rpi").map(|param| params.words(param)).unwrap_or_default();
        let named: Vec<_> = names.into_iter().filter_map(Module::named).collect();
        let rpi = (!named.is_empty()).then(|| (named, from("rpi").clone()));
        // The named transports that another list keeps, which must keep at least one.
        let left_by = |list: &List<'_>,
                       rpi: &RequestedTransports,
                       leaves: &dyn Fn(&'static Module) -> bool| {
            let left: Vec<_> = rpi.0.iter().copied().filter(|module| leaves(module)).collect();
            let contradiction = || SelectError::Contradiction {
                requested: names_of(&rpi.0),
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
                    && requested.as_ref().is_none_or(|(of_mtl, _)| of_mtl.contains(&module))
            })?),
            (rpi, _) => rpi.or(requested),
        };
        let mtl = (left_out, by.unwrap_or_default());
        let coll = parse_coll(params.coll(), from("coll"))?;
        let Some(btl) = List::of("btl", params.btl(), from("btl"), &known_btl())? else {
            return Ok(ModuleRequests { rpi, btl: None, mtl, coll });
        };
        if !btl.has(&["self"]) {
            let remedy = "it leaves out 'self', without which a process cannot send to itself";
            return Err(btl.wrong(match btl.all_but {
                true => format!("{remedy}: do not exclude it"),
                false => format!("{remedy}: write 'self,{}'", btl.value),
            }));
        }
        let names = btl.names.iter().map(|name| name.to_string()).collect();
        let left = BtlList { names, all_but: btl.all_but };
        let rpi =
            rpi.map(|rpi| left_by(&btl, &rpi, &|module| left.has(module, true))).transpose()?;
        let is_left = |module: &Module| match module.btl.left {
            BtlRule::ListedOrRequested => left.names(module),
            _ => left.has(module, false),
        };
        if !listed().any(is_left) && rpi.is_none() {
            // A single process needs no transport to others.
            if job.ranks == Some(1) {
                return Ok(ModuleRequests { rpi, btl: None, mtl, coll });
            }
            let names =
                plain_names().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(" or ");
            return Err(
                btl.wrong(format!("it leaves no way from one process to another: add {names}"))
            );
        }
        let goes_itself =
            |module: &Module| module.between == BetweenNodes::Itself && left.names(module);
        let route = Module::between_nodes().filter(|route| !left.has(route, false));
        let route = route.filter(|_| !listed().any(goes_itself));
        if let (Some(nodes), Some(route)) = (job.nodes, route) {
            let all = plain_names().collect::<Vec<_>>().join(",");
            let route = route.btl.names.first().unwrap_or(&route.name);
            let one_node = match nodes {
                NodeCount::Hosts(_) => "run all ranks on one host",
                NodeCount::Virtual(_) => "have no virtual nodes ('--mca mpi_virtual_nodes 1')",
            };
            return Err(SelectError::Between {
                value: btl.value.into(),
                from: btl.from.to_string(),
                route,
                nodes,
                remedy: format!(
                    "add '{route}' ('--mca btl self,{all}'), leave the parameter out, or {one_node}"
                ),
            });
        }
        let btl = Some((left, btl.text()));
        Ok(ModuleRequests { rpi, btl, mtl, coll })
    }

    pub(super) fn names_transport(&self) -> bool {
        self.rpi.is_some() || self.btl.is_some()
    }

    /// Whether a transport takes part in the selection: without a priority only on request.
    pub(super) fn considers(&self, module: &Module) -> bool {
        let is_listed = || self.btl.as_ref().is_some_and(|(left, _)| left.names(module));
        module.priority.is_some() || self.requests(module) || is_listed()
    }

    fn requests(&self, module: &Module) -> bool {
        self.rpi.as_ref().is_some_and(|(requested, _)| requested.contains(&module))
    }

    pub(super) fn left_out(&self, module: &'static Module) -> Option<String> {
        let is_requested = self.requests(module);
        let rpi = self.rpi.as_ref().filter(|_| !is_requested);
        let rpi = rpi.map(|(requested, from)| {
            format!("'{}' is requested (parameter 'rpi' from {from})", names_of(requested))
        });
        let btl = self.btl.as_ref().filter(|(left, _)| !left.has(module, is_requested));
        let (left_out, by) = &self.mtl;
        let mtl = left_out.contains(&module).then(|| by.clone());
        rpi.or(mtl).or(btl.map(|(_, text)| text.clone()))
    }

    /// The reason why the parameters exclude the transport between nodes. `rpi` does not exclude
    /// it: a requested module that does not leave the node needs it.
    pub(super) fn left_out_between(&self) -> Option<String> {
        let route = Module::between_nodes()?;
        self.btl.as_ref().filter(|(left, _)| !left.has(route, false)).map(|(_, text)| text.clone())
    }

    /// Whether `coll` names `base` but not `basic`.
    pub(super) fn names_base_alone(&self) -> bool {
        let coll = self.coll.as_ref();
        coll.is_some_and(|(requested, _)| {
            requested.has(Component::Base) && !requested.has(Component::Basic)
        })
    }

    pub(super) fn left_out_of_coll(&self, component: Component) -> Option<String> {
        self.coll
            .as_ref()
            .filter(|(requested, _)| !requested.has(component))
            .map(|(_, text)| text.clone())
    }
}

/// Reads `coll`; `None` if it excludes nothing.
fn parse_coll(value: &str, from: &Source) -> Result<Option<(ComponentSet, String)>, SelectError> {
    let wrong = |bad: BadName| SelectError::List {
        parameter: "coll",
        value: value.into(),
        from: from.clone(),
        why: bad.to_string(),
    };
    let requested = ComponentSet::parse(value).map_err(wrong)?;
    Ok((requested != ComponentSet::ALL)
        .then(|| (requested, format!("'coll' is '{value}' (from {from})"))))
}
