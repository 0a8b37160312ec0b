//! The sections of `oxmpi info` as text.

use oxmpi_core::tool::Pvar;
use oxmpi_core::tool::categories::Category;
use oxmpi_core::tool::enums;
use oxmpi_core::tool::events::EventType;
use oxmpi_param::{Level, Param};
use oxmpi_param::{Params, SelectError, foreign};

use super::world::WorldReport;
use super::{InfoArgs, InfoFacts, survey, tools};

pub(super) fn text(options: &InfoArgs, facts: &InfoFacts) -> String {
    let mut out = String::new();
    let functions = oxmpi_abi::FuncId::all().len();
    if options.basic {
        let prefix = facts.prefix.as_deref().unwrap_or("not installed");
        out += &format!(
            "OxMPI {}\n\
             prefix:      {prefix}\n\
             interface:   MPI 5.0 standard ABI (libmpi_abi.so.1)\n\
             functions:   {functions}\n",
            env!("CARGO_PKG_VERSION")
        );
    }
    if options.select {
        out += &selection(options, &facts.found.params);
    }
    if options.params {
        out += "parameters ('mpirun --mca NAME VALUE' or OXMPI_MCA_NAME=VALUE; 'oxmpi info --help' has all methods):\n";
        for param in &facts.params {
            out += &one(&facts.found.params, param);
        }
        if options.only.is_none() {
            out += &ignored(facts);
        }
    }
    if options.pvars {
        out += "performance variables (MPI_T_pvar_*):\n";
        tools::pvars().iter().for_each(|one| out += &pvar(one));
    }
    if options.events {
        out += "events (MPI_T_event_*):\n";
        tools::events().iter().for_each(|one| out += &event(one));
    }
    if options.categories {
        out += "categories (MPI_T_category_*):\n";
        Category::ALL.iter().for_each(|one| out += &category(*one));
    }
    if options.collectives {
        out += &if options.parsable {
            crate::collectives::parsable()
        } else {
            crate::collectives::text()
        };
    }
    for (module, found) in &facts.surveys {
        out += &survey::text(module, found);
    }
    out
}

fn pvar(pvar: &Pvar) -> String {
    let states = pvar.states.and_then(|place| enums::all().get(place));
    let states = states.map(|all| {
        let names: Vec<&str> = all.items.iter().map(|(_, name)| name.as_str()).collect();
        format!("; one of {}", names.join(", "))
    });
    format!(
        "  {}\n      {} of {}{}; category {}\n      {}\n",
        pvar.name,
        pvar.class.name(),
        tools::bound_to(pvar.bind),
        states.unwrap_or_default(),
        pvar.category.name(),
        pvar.help
    )
}

fn event(event: &EventType) -> String {
    let elements: Vec<&str> = event.elements.iter().map(|element| element.name).collect();
    format!(
        "  {}\n      of {}; source {}; tells {}\n      {}\n",
        event.name,
        tools::bound_to(event.bind),
        event.source.name(),
        elements.join(", "),
        event.help
    )
}

fn category(one: Category) -> String {
    let mut out = format!("  {}\n      {}\n", one.name(), one.help());
    let inside: Vec<String> =
        one.categories().iter().map(|inside| inside.name().to_string()).collect();
    let [params, pvars, events] = tools::members(one);
    let all =
        [("categories", inside), ("parameters", params), ("pvars", pvars), ("events", events)];
    for (what, names) in all.into_iter().filter(|(_, names)| !names.is_empty()) {
        out += &format!("      {what}: {}\n", names.join(", "));
    }
    out
}

fn selection(options: &InfoArgs, params: &Params) -> String {
    let processes = match options.ranks {
        None => "several processes".to_string(),
        Some(1) => "1 process".to_string(),
        Some(many) => format!("{many} processes"),
    };
    let mut out = format!("selection of modules, for a job of {processes}:\n");
    let (steps, is_selected) = match super::selected(params, options.ranks) {
        Ok(found) => {
            let coll = found.coll.join(", ");
            let cr = found.cr.map(|cr| format!(", cr {cr}")).unwrap_or_default();
            out += &format!("  rpi {}, coll {coll}{cr}, {}\n", found.rpi, found.level);
            (found.steps, true)
        }
        Err(SelectError::NothingLeft(failed)) => (failed.steps, false),
        Err(_) => (Vec::new(), false), // reported with the other errors
    };
    steps.iter().for_each(|step| out += &format!("  {}\n", step.to_string().replace('\n', "\n  ")));
    if let Some(world) = WorldReport::new(params, options.ranks()).filter(|_| is_selected) {
        out += &world.text();
    }
    out
}

fn one(params: &Params, param: &Param) -> String {
    let quoted = |value| {
        let text = param.show(&value);
        if text.is_empty() { "''".to_string() } else { text }
    };
    let level = match param.level {
        Level::User => "for users",
        Level::Tune => "for tuning",
        Level::Develop => "for work on OxMPI itself",
    };
    let aliases = match param.aliases {
        [] => String::new(),
        names => format!("; also named {}", names.join(", ")),
    };
    format!(
        "  {} = {}\n      from: {}; default {}; {}; {level}; {}{aliases}\n      {}\n",
        param.name,
        quoted(params.value(param)),
        params.source(param),
        quoted(param.default_value()),
        param.wanted(),
        param.change.when(),
        param.help,
    )
}

fn ignored(facts: &InfoFacts) -> String {
    let mut out = String::new();
    if !facts.found.ignored.is_empty() {
        out +=
            "ignored, as OxMPI has no such parameters (they are taken to be meant for Open MPI):\n";
    }
    for ignored in &facts.found.ignored {
        let name =
            ignored.variable.strip_prefix(oxmpi_param::FOREIGN_ENV_PREFIX).unwrap_or_default();
        let hint = match (ignored.nearest, foreign::instead_of(name)) {
            (Some(nearest), _) => format!(": did you mean '{nearest}'?"),
            (None, Some(instead)) => format!(": {instead}"),
            (None, None) => String::new(),
        };
        out += &format!("  {}{hint}\n", ignored.variable);
    }
    out
}
