//! The members of rules files in JSON.

use super::syntax::{JsonMember, JsonNode, JsonValue, parse as parse_json};
use crate::collectives::{TUNABLE, UNTUNED};
use crate::position::Problem;
use crate::rules::{
    CommRules, Distribution, Matching, MessageRule, Rules, SizeRange, algorithm_of,
};
use oxmpi_param::nearest::nearest;
use oxmpi_plan::Collective;

pub(crate) const VERSION: u64 = 3;

pub(crate) fn parse(file: &str, text: &str, notes: &mut Vec<Problem>) -> Result<Rules, Problem> {
    let root = parse_json(text)?;
    let members =
        object(&root, "an object", &["$schema", "rule_file_version", "module", "collectives"])?;
    let version = needed(&root, members, "rule_file_version")?;
    if integer(version, "the version 3")? != VERSION {
        let text = format!("expected the version {VERSION}, found {}", version.value.shown());
        return Err(Problem::new(version.at, text));
    }
    let module = needed(&root, members, "module")?;
    if !matches!(&module.value, JsonValue::Text(text) if text == "tuned") {
        return Err(expected(module, "the module \"tuned\""));
    }
    let collectives = needed(&root, members, "collectives")?;
    let tuned = TUNABLE.iter().map(|row| row.json);
    let known: Vec<_> = tuned.chain(UNTUNED.iter().map(|(_, name)| *name)).collect();
    let mut rules = Rules::new(file, Matching::First);
    for JsonMember { at, name, node } in
        object(collectives, "an object with a member for each collective", &known)?
    {
        match TUNABLE.iter().position(|row| row.json == name) {
            Some(index) => {
                rules.collectives[index] = list(node, "a list of rules for communicators")?
                    .iter()
                    .map(|node| comm_rules(node, TUNABLE[index].collective, notes))
                    .collect::<Result<_, _>>()?;
            }
            None => {
                let text =
                    format!("{name} has no algorithms to choose from; its rules are ignored");
                notes.push(Problem::new(*at, text));
            }
        }
    }
    Ok(rules)
}

fn comm_rules(
    node: &JsonNode,
    collective: Collective,
    notes: &mut Vec<Problem>,
) -> Result<CommRules, Problem> {
    let known = ["comm_size_min", "comm_size_max", "comm_rank_distribution", "rules"];
    let members = object(node, "an object with rules for communicators", &known)?;
    let distribution = match find(members, "comm_rank_distribution") {
        None => Distribution::Any,
        Some(node) => {
            let word = Distribution::WORDS
                .into_iter()
                .find(|(word, _)| matches!(&node.value, JsonValue::Text(text) if text == word));
            word.ok_or_else(|| expected(node, "\"any\", \"one-per-node\" or \"single-node\""))?.1
        }
    };
    let ranks = range(members, ("comm_size_min", "comm_size_max"), notes)?;
    let mut messages = Vec::new();
    for node in list(needed(node, members, "rules")?, "a list of rules for messages")? {
        messages.extend(message_rule(node, collective, notes)?);
    }
    Ok(CommRules { ranks, distribution, messages })
}

/// Parses a rule; `None` if the rule is ignored.
fn message_rule(
    node: &JsonNode,
    collective: Collective,
    notes: &mut Vec<Problem>,
) -> Result<Option<MessageRule>, Problem> {
    let known = ["msg_size_min", "msg_size_max", "alg", "reqs", "faninout", "seg_size", "bine_imp"];
    let members = object(node, "an object with a rule for messages", &known)?;
    let sizes = range(members, ("msg_size_min", "msg_size_max"), notes)?;
    let named = needed(node, members, "alg")?;
    let name = match &named.value {
        JsonValue::Text(text) | JsonValue::Number(text) => text,
        _ => return Err(expected(named, "the number or the name of an algorithm")),
    };
    let rule = MessageRule {
        sizes,
        algorithm: None,
        fan_out: small(members, "faninout")?.unwrap_or(0),
        segment_bytes: find(members, "seg_size")
            .map_or(Ok(0), |node| integer(node, "a segment size"))?,
        max_requests: small(members, "reqs")?,
        at: node.at,
    };
    if let Some(node) = find(members, "bine_imp") {
        let text = "bine_imp is ignored: there are no Bine algorithms".to_string();
        notes.push(Problem::new(node.at, text));
    }
    match algorithm_of(collective, name) {
        Ok(algorithm) => Ok(Some(MessageRule { algorithm, ..rule })),
        Err(text) => {
            notes.push(Problem::new(named.at, format!("{text}; the rule is ignored")));
            Ok(None)
        }
    }
}

fn range(
    members: &[JsonMember],
    (min, max): (&str, &str),
    notes: &mut Vec<Problem>,
) -> Result<SizeRange, Problem> {
    let end = |name, default| find(members, name).map_or(Ok(default), integer_or_inf);
    let range = SizeRange { min: end(min, 0)?, max: end(max, u64::MAX)? };
    if range.min > range.max
        && let Some(node) = find(members, max)
    {
        let text =
            format!("{max} is {}, which is less than {min}: the rule fits nothing", range.max);
        notes.push(Problem::new(node.at, text));
    }
    Ok(range)
}

fn find<'a>(members: &'a [JsonMember], name: &str) -> Option<&'a JsonNode> {
    members.iter().find(|member| member.name == name).map(|member| &member.node)
}

fn needed<'a>(
    whole: &JsonNode,
    members: &'a [JsonMember],
    name: &str,
) -> Result<&'a JsonNode, Problem> {
    find(members, name).ok_or_else(|| {
        Problem::new(whole.at, format!("expected a member \"{name}\" in this object, found none"))
    })
}

fn expected(node: &JsonNode, what: &str) -> Problem {
    Problem::new(node.at, format!("expected {what}, found {}", node.value.shown()))
}

/// The members of an object. Fails at an unknown or repeated member.
fn object<'a>(node: &'a JsonNode, what: &str, known: &[&str]) -> Result<&'a [JsonMember], Problem> {
    let JsonValue::Object(members) = &node.value else { return Err(expected(node, what)) };
    for (index, JsonMember { at, name, .. }) in members.iter().enumerate() {
        if !known.contains(&name.as_str()) {
            let hint = nearest(name, known.iter().copied());
            let hint = hint.map(|name| format!(" (did you mean \"{name}\"?)")).unwrap_or_default();
            let text =
                format!("expected one of the members {}, found \"{name}\"{hint}", known.join(", "));
            return Err(Problem::new(*at, text));
        }
        if find(&members[..index], name).is_some() {
            return Err(Problem::new(
                *at,
                format!("expected each member once, found \"{name}\" again"),
            ));
        }
    }
    Ok(members)
}

fn list<'a>(node: &'a JsonNode, what: &str) -> Result<&'a [JsonNode], Problem> {
    match &node.value {
        JsonValue::List(nodes) => Ok(nodes),
        _ => Err(expected(node, what)),
    }
}

fn integer(node: &JsonNode, what: &str) -> Result<u64, Problem> {
    let number = match &node.value {
        JsonValue::Number(text) => text.parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| expected(node, &format!("{what}, a whole number from 0 on")))
}

fn integer_or_inf(node: &JsonNode) -> Result<u64, Problem> {
    match &node.value {
        JsonValue::Text(text) if ["inf", "INF", "Inf"].contains(&text.as_str()) => Ok(u64::MAX),
        _ => integer(node, "a size or \"inf\""),
    }
}

fn small(members: &[JsonMember], name: &str) -> Result<Option<u32>, Problem> {
    let Some(node) = find(members, name) else { return Ok(None) };
    match u32::try_from(integer(node, name)?) {
        Ok(number) => Ok(Some(number)),
        Err(_) => Err(expected(node, &format!("{name} up to {}", u32::MAX))),
    }
}
