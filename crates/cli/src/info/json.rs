//! The facts as JSON for programs.

use oxmpi_param::registry::{Level, Param};
use oxmpi_param::{Params, Unit, Value};
use serde_json::{Map, Value as Json, json};

use super::{Asked, Facts, MISSING};

pub(super) fn json(asked: &Asked, facts: &Facts) -> String {
    let params = &facts.found.params;
    let mut out = Map::new();
    let functions = oxmpi_abi::FuncId::all().len();
    if asked.basic {
        out.insert("version".into(), env!("CARGO_PKG_VERSION").into());
        out.insert("prefix".into(), json!(facts.prefix));
        out.insert("interface".into(), "MPI 5.0 standard ABI".into());
        out.insert("library".into(), "libmpi_abi.so.1".into());
        out.insert("functions".into(), json!({ "all": functions, "present": functions - MISSING.len() }));
    }
    if asked.select {
        let selection = params.selection();
        let candidates: Vec<Json> = selection
            .candidates
            .iter()
            .map(|c| json!({ "name": c.transport.name(), "priority": c.priority, "reason": c.reason }))
            .collect();
        out.insert(
            "transport".into(),
            json!({ "chosen": selection.chosen.name(), "candidates": candidates }),
        );
    }
    if asked.params {
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
    if asked.collectives {
        out.insert("collectives".into(), crate::collectives::json());
    }
    if asked.missing {
        out.insert("missing".into(), json!(MISSING));
    }
    format!("{:#}\n", Json::Object(out))
}

fn one(params: &Params, param: &Param) -> Json {
    let value = |value: &Value| match (param.unit, value) {
        (Unit::Choice(_) | Unit::Text { .. }, value) => Json::from(param.show(value)),
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
        "level": match param.level {
            Level::User => "user",
            Level::Tune => "tune",
            Level::Develop => "develop",
        },
        "help": param.help,
    });
    if source.kind() != "default" {
        object["where"] = source.to_string().into();
    }
    object
}
