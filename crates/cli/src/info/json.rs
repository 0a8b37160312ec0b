//! The sections of `oxmpi info` as JSON.

use oxmpi_core::tool::Pvar;
use oxmpi_core::tool::categories::Category;
use oxmpi_core::tool::enums;
use oxmpi_core::tool::events::{EventSource, EventType};
use oxmpi_param::select::SelectionStep;
use oxmpi_param::{ChangeRule, Params, SelectError, Unit, Value};
use oxmpi_param::{Level, Param};
use serde_json::{Map, Value as Json, json};

use super::world::WorldReport;
use super::{InfoArgs, InfoFacts, survey, tools};

pub(super) fn json(options: &InfoArgs, facts: &InfoFacts) -> String {
    let params = &facts.found.params;
    let mut out = Map::new();
    let functions = oxmpi_abi::FuncId::all().len();
    if options.basic {
        out.insert("version".into(), env!("CARGO_PKG_VERSION").into());
        out.insert("prefix".into(), json!(facts.prefix));
        out.insert("interface".into(), "MPI 5.0 standard ABI".into());
        out.insert("library".into(), "libmpi_abi.so.1".into());
        out.insert("functions".into(), functions.into());
    }
    if options.select {
        out.insert("selection".into(), selection(options, params));
    }
    if options.params {
        let all: Vec<Json> = facts.params.iter().map(|param| one(params, param)).collect();
        out.insert("parameters".into(), all.into());
        let ignored: Vec<Json> = facts
            .found
            .ignored
            .iter()
            .map(|i| json!({ "variable": i.variable, "nearest": i.nearest }))
            .collect();
        out.insert("ignored".into(), ignored.into());
        let errors: Vec<Json> = facts.found.errors.iter().map(|e| e.to_string().into()).collect();
        out.insert("errors".into(), errors.into());
    }
    if options.pvars {
        out.insert("pvars".into(), tools::pvars().iter().map(pvar).collect());
    }
    if options.events {
        out.insert("events".into(), tools::events().iter().map(event).collect());
        let sources = EventSource::ALL
            .iter()
            .map(|source| json!({ "name": source.name(), "help": source.help() }));
        out.insert("sources".into(), sources.collect());
    }
    if options.categories {
        out.insert("categories".into(), Category::ALL.iter().map(|one| category(*one)).collect());
    }
    if options.collectives {
        out.insert("collectives".into(), crate::collectives::json());
    }
    for (module, found) in &facts.surveys {
        out.insert(module.name.into(), survey::json(found));
    }
    format!("{:#}\n", Json::Object(out))
}

fn selection(options: &InfoArgs, params: &Params) -> Json {
    let one = |step: &SelectionStep| {
        let drops =
            step.drops.iter().map(|(module, reason)| json!({ "module": module, "reason": reason }));
        json!({ "number": step.number, "text": step.text, "drops": drops.collect::<Vec<_>>() })
    };
    let all = |steps: &[SelectionStep]| steps.iter().map(one).collect::<Vec<_>>();
    match super::selected(params, options.ranks) {
        Ok(found) => json!({
            "rpi": found.rpi,
            "between_nodes": found.between,
            "coll": found.coll,
            "cr": found.cr,
            "thread_level": found.level.name(),
            "steps": all(&found.steps),
            "world": WorldReport::new(params, options.ranks()).map(|world| world.json()),
        }),
        Err(SelectError::NothingLeft(failed)) => {
            json!({ "error": failed.to_string(), "steps": all(&failed.steps) })
        }
        Err(error) => json!({ "error": error.to_string() }),
    }
}

fn pvar(pvar: &Pvar) -> Json {
    let states = pvar.states.and_then(|place| enums::all().get(place));
    let states = states.map(|all| all.items.iter().map(|(_, name)| name).collect::<Vec<_>>());
    json!({
        "name": pvar.name,
        "class": pvar.class.name(),
        "bind": tools::bound_to(pvar.bind),
        "continuous": pvar.class.is_continuous(),
        "category": pvar.category.name(),
        "states": states,
        "level": level(pvar.level),
        "help": pvar.help,
    })
}

fn event(event: &EventType) -> Json {
    let elements: Vec<Json> = event
        .elements
        .iter()
        .map(|element| json!({ "name": element.name, "type": tools::type_name(element.kind) }))
        .collect();
    json!({
        "name": event.name,
        "source": event.source.name(),
        "bind": tools::bound_to(event.bind),
        "elements": elements,
        "help": event.help,
    })
}

fn category(one: Category) -> Json {
    let [params, pvars, events] = tools::members(one);
    let inside: Vec<&str> = one.categories().iter().map(|inside| inside.name()).collect();
    json!({
        "name": one.name(),
        "help": one.help(),
        "categories": inside,
        "parameters": params,
        "pvars": pvars,
        "events": events,
    })
}

fn level(level: Level) -> &'static str {
    match level {
        Level::User => "user",
        Level::Tune => "tune",
        Level::Develop => "develop",
    }
}

fn one(params: &Params, param: &Param) -> Json {
    let value = |value: &Value| match (param.unit, value) {
        (Unit::Choice(_) | Unit::Set { .. } | Unit::Text { .. }, value) => {
            Json::from(param.show(value))
        }
        (_, Value::Number(n)) => Json::from(*n),
        (_, Value::Text(text)) => Json::from(&**text),
    };
    let source = params.source(param);
    let mut object = json!({
        "name": param.name,
        "aliases": param.aliases,
        "type": param.type_name(),
        "value": value(&params.value(param)),
        "default": value(&param.default_value()),
        "source": source.kind(),
        "accepted": param.wanted(),
        "level": level(param.level),
        "change": match param.change {
            ChangeRule::Never => "never",
            ChangeRule::Always => "always",
            ChangeRule::Alike => "always, on all ranks alike",
        },
        "help": param.help,
    });
    if source.kind() != "default" {
        object["where"] = source.to_string().into();
    }
    object
}
