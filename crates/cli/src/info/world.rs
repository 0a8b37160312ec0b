//! The components of collectives that serve MPI_COMM_WORLD of a job, and why the others do not
//! ("Selecting a coll Module" of the components guide).

use oxmpi_param::{Accelerator, Params};
use oxmpi_plan::{Collective, Nodes};
use oxmpi_tuned::components::serves;
use oxmpi_tuned::{CommFacts, Component, Components, Form, Stack};
use serde_json::{Value as Json, json};

pub(super) struct WorldReport {
    ranks: u32,
    nodes: u32,
    components: Components,
    stack: Stack,
    ucc: Result<String, String>,
    hcoll: Result<String, String>,
    cuda: (Result<String, String>, Accelerator),
}

impl WorldReport {
    /// A job of `ranks` ranks on one host. `None`: a parameter is invalid; the selection reports
    /// the error.
    pub(super) fn new(params: &Params, ranks: u32) -> Option<WorldReport> {
        let mut components = Components::new(params).ok()?;
        crate::collectives::spread(&mut components, params);
        let ucc = oxmpi_core::find_ucc(params.coll_ucc_library());
        let hcoll = oxmpi_core::find_hcoll(params.coll_hcoll_library());
        let cuda = (oxmpi_core::find_cuda(params.accelerator_cuda_library()), params.accelerator());
        let job = 0..ranks;
        let nodes =
            components.virtual_nodes.as_ref().and_then(|nodes| nodes.nodes(job.clone(), &job));
        let facts =
            CommFacts { ranks, is_inter: false, nodes: nodes.as_ref(), has_control_section: true };
        let stack = Stack::new(&components, &facts, None);
        let nodes = nodes.as_ref().map_or(1, Nodes::how_many);
        Some(WorldReport { ranks, nodes, components, stack, ucc, hcoll, cuda })
    }

    /// All components with their priorities, serving ones first; a component that does not serve
    /// has its reason.
    fn all(&self) -> Vec<(Component, u32, Option<&'static str>)> {
        let mut all: Vec<_> =
            self.stack.members().map(|(component, priority)| (component, priority, None)).collect();
        if self.stack.has_sync() {
            all.push((Component::Sync, self.components.priority(Component::Sync), None));
        }
        if !self.stack.left_out().any(|(component, _)| component == Component::Accelerator) {
            let why = match self.cuda {
                (_, Accelerator::Null) => Some("the parameter accelerator is 'null'"),
                (_, Accelerator::Off) => Some("the parameter accelerator is 'off'"),
                (Err(_), _) => Some("there is no driver of a device here"),
                (Ok(_), _) => None,
            };
            all.push((
                Component::Accelerator,
                self.components.priority(Component::Accelerator),
                why,
            ));
        }
        let dropped = self.stack.left_out();
        all.extend(dropped.map(|(one, why)| (one, self.components.priority(one), Some(why))));
        all
    }

    /// The library of a component that needs one: its version, or the error of the search.
    fn library(&self, component: Component) -> Option<&Result<String, String>> {
        match component {
            Component::Ucc => Some(&self.ucc),
            Component::Hcoll => Some(&self.hcoll),
            Component::Accelerator => Some(&self.cuda.0),
            _ => None,
        }
    }

    pub(super) fn text(&self) -> String {
        let (ranks, nodes) = (self.ranks, self.nodes);
        let plural = |many: u32| if many == 1 { "" } else { "s" };
        let mut out = format!(
            "  MPI_COMM_WORLD, of {ranks} rank{} on {nodes} node{}, queries in this order, and each call takes the first that has the \
             function:\n",
            plural(ranks),
            plural(nodes)
        );
        for (component, priority, dropped) in self.all() {
            let what = match dropped {
                Some(why) => format!("is dropped: {why}"),
                None if component == Component::Sync => {
                    format!("puts barriers around {}", functions(component))
                }
                None if component == Component::Accelerator => {
                    "copies buffers on devices through memory of the host, around what others serve"
                        .to_string()
                }
                None if component == Component::Ftagree => {
                    format!("serves agreements, by {}", self.components.agreement)
                }
                None => format!("serves {}", functions(component)),
            };
            let found = match self.library(component) {
                Some(Ok(found)) => format!(" ({found} is here)"),
                Some(Err(_)) => " (its library is not found)".to_string(),
                None => String::new(),
            };
            out += &format!("    {priority:>2} {:<8} {what}{found}\n", component.name());
        }
        out
    }

    pub(super) fn json(&self) -> Json {
        let one = |(component, priority, dropped): (Component, u32, Option<&str>)| {
            let has = |form| {
                let names =
                    collectives().filter(|one| serves(component, *one, form)).map(Collective::name);
                names.collect::<Vec<_>>()
            };
            let mut out =
                json!({ "component": component.name(), "priority": priority, "dropped": dropped });
            if let Some(library) = self.library(component) {
                out["library"] =
                    json!({ "found": library.as_ref().ok(), "error": library.as_ref().err() });
            }
            if component == Component::Ftagree {
                out["agreement"] = self.components.agreement.to_string().into();
            }
            Form::ALL.iter().for_each(|form| out["serves"][form.name()] = has(*form).into());
            out
        };
        let components: Vec<Json> = self.all().into_iter().map(one).collect();
        json!({ "ranks": self.ranks, "nodes": self.nodes, "components": components })
    }
}

fn collectives() -> impl Iterator<Item = Collective> {
    Collective::ALL
        .into_iter()
        .filter(|collective| !matches!(collective, Collective::InterMove | Collective::InterReduce))
}

fn functions(component: Component) -> String {
    let has = |collective: &Collective| {
        Form::ALL.iter().any(|form| serves(component, *collective, *form))
    };
    let (some, others): (Vec<_>, Vec<_>) = collectives().partition(has);
    let names = match others.is_empty() {
        true => "everything".to_string(),
        false => some.iter().map(|collective| collective.name()).collect::<Vec<_>>().join(", "),
    };
    let forms: Vec<_> = Form::ALL
        .into_iter()
        .filter(|form| some.iter().any(|collective| serves(component, *collective, *form)))
        .map(Form::name)
        .collect();
    match forms.len() {
        3 => names,
        _ => format!("{names} ({} calls)", forms.join(" and ")),
    }
}
