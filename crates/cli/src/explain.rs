//! `oxmpi explain`: which algorithm serves a collective, how a message is copied, and why.

mod copy;

use std::ffi::OsString;

use crate::{collectives, prefix};
use oxmpi_core::shmem::limits::{fits_later, has_room, serves, serves_later};
use oxmpi_param::nearest::nearest;
use oxmpi_param::{Found, Module, Params, Source};
use oxmpi_plan::table::{Parameter, algorithms, by_name};
use oxmpi_plan::{Algorithm, Collective, PlanUnit, Restriction, Setup};
use oxmpi_rt::client::control_section_pool;
use oxmpi_shm::control_section::PoolSegments;
use oxmpi_tuned::selection::refusal;
use oxmpi_tuned::settings::Settings;
use oxmpi_tuned::stack::{basic, smp_reason, smp_segment};
use oxmpi_tuned::{
    AlgorithmDecision, CallFacts, CollectiveFacts, CommFacts, Component, Distribution, Form, IllegalForced,
    Reason, Reduction, Stack, Unserved,
};
use serde_json::{Value as Json, json};

pub(crate) const HELP: &str = "\
oxmpi explain coll COLLECTIVE: which algorithm serves a collective, and why
oxmpi explain copy --bytes N: how a message goes between two processes of this node, and why

With coll:

  COLLECTIVE             as in MPI, in any form: allreduce, MPI_Iallreduce, MPI_Allreduce_init; 'inter_move' and
                         'inter_reduce' are those of intercommunicators that move data, and that reduce
  --ranks N              ranks of the communicator (needed)
  --bytes N              bytes of the whole vector of bcast, reduce, allreduce, scan and exscan, of one block (on the
                         average) of the others; suffixes k, m (0); for a barrier, gatherv, scatterv, alltoallv and w,
                         neighbourhoods and intercommunicators the choice does not depend on it
  --type-size N          bytes of one element (1)
  --noncommutative       the operation is not commutative
  --oversubscribed       there are more ranks than processors, as 'mpirun' finds for a job (one processor for each)
  --inexact              it is a sum or product of floating-point numbers, or the program's
  --distribution WORD    how the ranks are spread: single-node, one-per-node or any (single-node)
  --rules FILE           rules of this file, as if it were set by coll_tuned_dynamic_rules_filename
  --mca NAME VALUE       this parameter, beside those of the environment and the files ('oxmpi info --help')
  --json                 as JSON

Which component serves depends on coll, coll_NAME_priority, coll_base_associative, coll_smp_virtual_nodes,
mpi_virtual_nodes and rpi. The component tuned reads in this order: the parameter coll_tuned_COLLECTIVE_algorithm, the rules
file, the fixed rules.

With copy:

  --bytes N              bytes of the message; suffixes k, m (needed)
  --place WORD           whether the two processors share a cache: near, far or unknown (unknown)
  --denied               the processes may not read each other's memory
  --processor NAME       by the facts built in for this processor, such as 'Intel family 6' (default: those of this machine)
  --mca NAME VALUE, --json   as above

It depends on single_copy, shm_pool_bytes, shm_pool_from_bytes and shm_eager_limit_bytes, and on facts about the processor alone, built in
or measured (shm_copy_costs, 'oxmpi doctor --measure'): nothing is learnt from messages.
";

#[derive(Clone, Debug, PartialEq, Eq)]
struct CollectiveQuery {
    facts: CollectiveFacts,
    distribution: Distribution,
    /// The name in lower case of MPI's collective, if another collective's algorithms serve it.
    alias: Option<String>,
    /// Whether the grouping of contributions does not change the result.
    is_exact: bool,
    rules: Option<String>,
    mca: Vec<(String, String)>,
    json: bool,
}

/// Runs `oxmpi explain ARGS`. Returns 1 if a forced algorithm cannot serve the call, 2 if an
/// argument or a parameter is wrong.
pub(crate) fn main(args: &[OsString]) -> i32 {
    let words: Vec<String> = args.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    if words.is_empty() || words.iter().any(|w| w == "--help" || w == "-h") {
        crate::say(HELP);
        return 0;
    }
    if words[0] == "copy" {
        return match copy::explain(words[1..].iter().map(String::as_str)) {
            Ok(text) => {
                crate::say(&text);
                0
            }
            Err(text) => {
                oxmpi_sys::complain!("oxmpi explain: {text}");
                2
            }
        };
    }
    let query = parse(&words);
    match query.and_then(|query| Ok((settings(&query)?, query))) {
        Ok(((settings, job_facts), query)) => {
            settings
                .warnings
                .iter()
                .for_each(|warning| oxmpi_sys::complain!("oxmpi explain: warning: {warning}"));
            let decision = settings.selection.decide_on(&query.facts, query.distribution);
            let served = served(&query, (&settings, &job_facts), &decision);
            let format = if query.json { in_json } else { in_text };
            crate::say(&format(&query, &decision, &served));
            i32::from(decision.is_err() || served.by.iter().any(|(_, by)| by.is_err()))
        }
        Err(text) => {
            oxmpi_sys::complain!("oxmpi explain: {text}");
            2
        }
    }
}

struct JobFacts {
    associative: Option<bool>,
    rpi: &'static Module,
    has_memory: bool,
    pool: PoolSegments,
}

/// The settings of the component tuned, and the facts of the job.
fn settings(query: &CollectiveQuery) -> Result<(Settings, JobFacts), String> {
    let found = Found::gather(std::env::vars_os(), prefix::find().as_deref());
    let mut params: Params = found.into_result().map_err(|error| error.to_string())?;
    let mut set = |name: &str, value: &str, source: String| {
        params.set_from(name, value, Source::CommandLine(source)).map_err(|error| error.to_string())
    };
    for (name, value) in &query.mca {
        set(name, value, format!("--mca {name} {value}"))?;
    }
    if let Some(file) = &query.rules {
        let source = format!("--rules {file}");
        set("coll_tuned_use_dynamic_rules", "1", source.clone())?;
        set("coll_tuned_dynamic_rules_filename", file, source)?;
    }
    let mut settings = Settings::new(&params, collectives::read_rules).map_err(|error| error.to_string())?;
    collectives::spread(&mut settings.components, &params);
    let pool = control_section_pool(&params);
    let (associative, rpi) = (params.coll_base_associative(), params.rpi());
    Ok((settings, JobFacts { associative, rpi, has_memory: rpi.shares_sections(&params), pool }))
}

/// The components that serve the call.
struct Served {
    by: Vec<(Form, Result<Component, Unserved>)>,
    /// The algorithm of a blocking call that another component than tuned serves, and the reason
    /// for it.
    other: Option<(&'static Algorithm, String)>,
    /// The transport, if it keeps a call for shared memory from using it.
    without_memory: Option<&'static Module>,
}

fn served(
    query: &CollectiveQuery,
    (settings, job_facts): (&Settings, &JobFacts),
    decision: &Result<AlgorithmDecision<'_>, IllegalForced>,
) -> Served {
    let (facts, components) = (&query.facts, &settings.components);
    let JobFacts { associative, rpi, has_memory, pool } = *job_facts;
    let job = 0..facts.ranks;
    let nodes = components.virtual_nodes.as_ref().and_then(|nodes| nodes.nodes(job.clone(), &job));
    let comm = CommFacts {
        ranks: facts.ranks,
        is_inter: matches!(facts.collective, Collective::InterMove | Collective::InterReduce),
        nodes: nodes.as_ref(),
        has_control_section: has_memory,
    };
    let stack = Stack::new(components, &comm, None);
    let reduces = oxmpi_plan::table::unit(facts.collective) == PlanUnit::Elements;
    let reduction = reduces.then_some(Reduction { is_exact: query.is_exact, associative });
    // The same conditions as in the library: ranks may have data, and only operations of the user
    // may be noncommutative.
    let needs_data = !matches!(
        facts.collective,
        Collective::Barrier | Collective::Gatherv | Collective::Scatterv | Collective::Alltoallv
    );
    let can_hand_over = (facts.bytes > 0 || !needs_data) && (!reduces || facts.commutative);
    let is_named = !matches!(decision, Ok(AlgorithmDecision { reason: Reason::Fixed(_), .. }));
    let by = |form| {
        let is_small = is_small(facts, decision, form, &pool);
        let call = CallFacts { facts, form, is_small, is_named, reduction, can_hand_over };
        (form, stack.pick(&call, nodes.as_ref()))
    };
    let by: Vec<_> = Form::ALL.map(by).into();
    let other = match by[0].1 {
        Ok(component @ (Component::Basic | Component::Base)) => {
            basic(components, facts, reduction).map(|id| (id, format!("the crossovers of {component}")))
        }
        Ok(Component::Smp) => by_name(facts.collective, "smp").zip(nodes.as_ref()).map(|(id, nodes)| {
            let segment = smp_segment(components, facts, nodes, id);
            (id, format!("{}, by smp", smp_reason(nodes, segment)))
        }),
        _ => None,
    };
    let is_without = !has_memory && is_small(facts, decision, Form::Blocking, &pool);
    let without_memory = is_without.then_some(rpi);
    Served { by, other: other.map(|(id, why)| (id.algorithm(), why)), without_memory }
}

fn parse(words: &[String]) -> Result<CollectiveQuery, String> {
    let mut words = words.iter().map(String::as_str);
    match words.next() {
        Some("coll") => {}
        other => {
            return Err(format!(
                "expected 'coll' or 'copy', found '{}' ('oxmpi explain --help')",
                other.unwrap_or("")
            ));
        }
    }
    let name = words.next().ok_or("expected the name of a collective behind 'coll'")?;
    let (collective, alias) = named(name)?;
    let (mut ranks, mut bytes, mut type_size, mut commutative) = (None, 0, 1, true);
    let (mut rules, mut mca, mut json) = (None, Vec::new(), false);
    let (mut distribution, mut is_exact, mut setup) = (Distribution::SingleNode, true, Setup::Dedicated);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value behind it"));
        match word {
            "--ranks" => ranks = Some(number(word, value()?, 1..=i32::MAX as u64)? as u32),
            "--bytes" => bytes = number(word, value()?, 0..=isize::MAX as u64)? as usize,
            "--type-size" => type_size = number(word, value()?, 1..=i32::MAX as u64)? as usize,
            "--noncommutative" => commutative = false,
            "--inexact" => is_exact = false,
            "--oversubscribed" => setup = Setup::Oversubscribed,
            "--distribution" => {
                distribution = match value()? {
                    "single-node" => Distribution::SingleNode,
                    "one-per-node" => Distribution::OnePerNode,
                    "any" => Distribution::Any,
                    other => {
                        let known = "single-node, one-per-node or any";
                        return Err(format!("--distribution {other}: expected {known}"));
                    }
                };
            }
            "--rules" => rules = Some(value()?.to_string()),
            "--mca" => {
                let name = value()?.to_string();
                mca.push((name, words.next().ok_or("--mca needs a name and a value behind it")?.to_string()));
            }
            "--json" => json = true,
            other => {
                let known =
                    ["--ranks", "--bytes", "--type-size", "--noncommutative", "--distribution", "--rules"];
                let hint = nearest(
                    other,
                    known.into_iter().chain(["--inexact", "--oversubscribed", "--mca", "--json", "--help"]),
                );
                let hint = hint.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
                return Err(format!("unknown word '{other}'{hint} ('oxmpi explain --help' lists all)"));
            }
        }
    }
    let ranks = ranks.ok_or("--ranks is missing")?;
    let facts = |bytes| CollectiveFacts::new(collective, ranks, bytes, type_size, commutative).on(setup);
    // Bytes that not all ranks know cannot take part in the choice.
    let facts = if facts(bytes).knows_bytes() { facts(bytes) } else { facts(0) };
    Ok(CollectiveQuery { facts, distribution, alias, is_exact, rules, mca, json })
}

/// MPI's collectives that the algorithms of another one serve, or that have another name here.
const ALIASES: [(&str, Collective); 6] = [
    ("alltoallw", Collective::Alltoallv),
    ("neighbor_allgather", Collective::Neighbor),
    ("neighbor_allgatherv", Collective::Neighbor),
    ("neighbor_alltoall", Collective::Neighbor),
    ("neighbor_alltoallv", Collective::Neighbor),
    ("neighbor_alltoallw", Collective::Neighbor),
];

/// Finds a collective by MPI's name, in any form. The second value is the plain name if it differs
/// from the collective's.
fn named(name: &str) -> Result<(Collective, Option<String>), String> {
    let lower = name.to_ascii_lowercase();
    let plain = lower.strip_prefix("mpi_").unwrap_or(&lower);
    let plain = plain.strip_suffix("_init").unwrap_or(plain);
    let find = |plain: &str| {
        let own = Collective::ALL.into_iter().find(|collective| collective.name() == plain);
        let alias = || ALIASES.into_iter().find(|(alias, _)| *alias == plain);
        own.map(|own| (own, None)).or_else(|| alias().map(|(alias, of)| (of, Some(alias.to_string()))))
    };
    find(plain).or_else(|| find(plain.strip_prefix('i')?)).ok_or_else(|| {
        let all = || Collective::ALL.map(Collective::name).into_iter().chain(ALIASES.map(|(alias, _)| alias));
        let hint = nearest(plain, all());
        let hint = hint.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
        let known = all().collect::<Vec<_>>().join(", ");
        format!("there is no collective '{name}'{hint} (there are {known})")
    })
}

fn number(word: &str, text: &str, limits: std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let (digits, factor) = match (word, lower.strip_suffix('k'), lower.strip_suffix('m')) {
        ("--bytes", Some(digits), _) => (digits, 1 << 10),
        ("--bytes", _, Some(digits)) => (digits, 1 << 20),
        _ => (lower.as_str(), 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    number.filter(|number| limits.contains(number)).ok_or_else(|| {
        format!("{word} {text}: expected a whole number from {} to {}", limits.start(), limits.end())
    })
}

/// The algorithms of the collective, with the restrictions that forbid them.
fn candidates(facts: &CollectiveFacts) -> impl Iterator<Item = (&'static Algorithm, Option<Restriction>)> {
    algorithms(facts.collective).map(|id| (id.algorithm(), refusal(id, facts)))
}

fn in_text(
    query: &CollectiveQuery,
    decision: &Result<AlgorithmDecision<'_>, IllegalForced>,
    served: &Served,
) -> String {
    let facts = &query.facts;
    let CollectiveFacts { collective, ranks, bytes, message_size, .. } = facts;
    let name = match &query.alias {
        None => collective.to_string(),
        Some(alias) => format!("{alias} (as {collective})"),
    };
    let bytes = if facts.knows_bytes() { format!(", {bytes} bytes") } else { String::new() };
    let reduces = oxmpi_plan::table::unit(*collective) == PlanUnit::Elements;
    let operation = match (reduces, facts.commutative) {
        (false, _) => "",
        (true, true) => ", commutative operation",
        (true, false) => ", operation not commutative",
    };
    let mut out = format!("{name}: {ranks} ranks{bytes}{operation}, {}\n", facts.setup);
    match decision {
        Ok(_) if served.by[0].1.is_err() => {}
        Ok(_) if let Some((row, why)) = &served.other => {
            out += &format!("  algorithm:     {} {}: {}\n", row.number, row.name, row.description);
            out += &format!("  chosen by:     {why}\n");
        }
        Ok(decision) => {
            let row = decision.algorithm.algorithm();
            out += &format!("  algorithm:     {} {}: {}\n", row.number, row.name, row.description);
            out += &format!("  chosen by:     {}\n", decision.reason);
            for (label, is_used) in [("with:", true), ("not used:", false)] {
                let said = listed_settings(decision, is_used);
                if !said.is_empty() {
                    out += &format!("  {label:<14} {}\n", said.join(", "));
                }
            }
            if let Some(refused) = &decision.refused {
                out += &format!("  passed over:   {refused}\n");
            }
        }
        Err(illegal) => out += &format!("  error:         {illegal}\n"),
    }
    let by = served.by.iter().map(|(form, by)| match by {
        Ok(component) => format!("{component} ({})", form.name()),
        Err(_) => format!("none ({})", form.name()),
    });
    out += &format!("  component:     {}\n", by.collect::<Vec<_>>().join(", "));
    for unserved in served.by.iter().filter_map(|(_, by)| by.as_ref().err()) {
        out += &format!("  error:         {unserved}\n");
    }
    if let Some(row) = collectives::tunable(*collective) {
        let phrase = row.measure.phrase();
        out += &format!("  message size:  {message_size} in rules files ({phrase}); collective {}\n", row.id);
    }
    out += "  algorithms:\n";
    for (row, restriction) in candidates(facts) {
        let verdict = restriction.map_or_else(|| "legal".to_string(), |why| format!("illegal: {why}"));
        out += &format!("    {:>2} {:<24} {verdict}\n", row.number, row.name);
    }
    let forms: Vec<_> =
        served.by.iter().filter(|(_, by)| *by == Ok(Component::Shmem)).map(|(form, _)| form.name()).collect();
    if let Some(most) = forms.last() {
        let forms = if forms.len() > 1 { "blocking and nonblocking" } else { most };
        out += &format!(
            "  Calls ({forms}) with this number of bytes on one node go through shared memory (shmem) instead; nonblocking ones and \
             reduce_scatter_block not with an operation of the user.\n"
        );
    }
    if let Some(rpi) = served.without_memory {
        out += &format!("  Over rpi {} a job has no shared memory for collectives (shmem).\n", rpi.name);
    }
    out
}

fn is_small(
    facts: &CollectiveFacts,
    decision: &Result<AlgorithmDecision<'_>, IllegalForced>,
    form: Form,
    pool: &PoolSegments,
) -> bool {
    let CollectiveFacts { collective, ranks, bytes, .. } = *facts;
    let segment_bytes = pool.bytes_for(ranks);
    let fits = match form {
        Form::Blocking => serves(collective, ranks, bytes),
        Form::Nonblocking => {
            serves_later(collective, ranks, bytes)
                && fits_later(collective, ranks, bytes, (segment_bytes, u64::from(pool.count)))
        }
        Form::Persistent => false,
    };
    // A noncommutative operation is always one of the user.
    let by_users = form == Form::Blocking && collective != Collective::ReduceScatterBlock;
    fits && has_room(segment_bytes, ranks)
        && (facts.commutative || by_users)
        && matches!(decision, Ok(AlgorithmDecision { reason: Reason::Fixed(_), .. }))
}

/// The settings for the algorithm, and whether the algorithm uses each.
fn algorithm_settings(decision: &AlgorithmDecision<'_>) -> [(&'static str, u64, bool); 3] {
    let (row, tuning) = (decision.algorithm.algorithm(), decision.tuning);
    let uses = |any: &[Parameter]| any.iter().any(|parameter| row.parameters.contains(parameter));
    [
        ("segment size", tuning.segment_bytes, uses(&[Parameter::Segment])),
        ("fan-out", u64::from(tuning.fan_out), uses(&[Parameter::TreeFanout, Parameter::ChainFanout])),
        ("max requests", u64::from(tuning.max_requests), uses(&[Parameter::MaxRequests])),
    ]
}

/// The settings that the algorithm uses, or the ones that it does not use.
fn listed_settings(decision: &AlgorithmDecision<'_>, is_used: bool) -> Vec<String> {
    let all = algorithm_settings(decision).into_iter();
    let listed = all.filter(|(_, value, uses)| *value > 0 && *uses == is_used);
    listed.map(|(name, value, _)| format!("{name} {value}")).collect()
}

fn in_json(
    query: &CollectiveQuery,
    decision: &Result<AlgorithmDecision<'_>, IllegalForced>,
    served: &Served,
) -> String {
    let facts = &query.facts;
    let all: Vec<Json> = candidates(facts)
        .map(|(row, why)| {
            json!({ "id": row.number, "name": row.name, "refusal": why.map(|why| why.to_string()) })
        })
        .collect();
    let mut out = json!({
        "collective": facts.collective.name(),
        "ranks": facts.ranks,
        "bytes": facts.bytes,
        "message_size": facts.message_size,
        "commutative": facts.commutative,
        "oversubscribed": facts.setup == Setup::Oversubscribed,
        "algorithms": all,
        "control_section": served.by[0].1 == Ok(Component::Shmem),
    });
    for (form, by) in &served.by {
        let by = by.as_ref().map_or_else(|unserved| unserved.to_string(), ToString::to_string);
        out["components"][form.name()] = by.into();
    }
    match decision {
        Ok(_) if let Some((row, why)) = &served.other => {
            out["algorithm"] = json!({ "id": row.number, "name": row.name, "description": row.description });
            out["reason"] = why.as_str().into();
            out["by"] = "component".into();
        }
        Ok(decision) => {
            let row = decision.algorithm.algorithm();
            out["algorithm"] = json!({ "id": row.number, "name": row.name, "description": row.description });
            out["reason"] = decision.reason.to_string().into();
            out["by"] = match decision.reason {
                Reason::Forced(_) => "parameter",
                Reason::Rule { .. } => "rule",
                Reason::Fixed(_) => "fixed",
            }
            .into();
            for (name, value, _) in algorithm_settings(decision) {
                out[name.replace([' ', '-'], "_")] = value.into();
            }
            out["not_used"] = listed_settings(decision, false).into();
            out["passed_over"] = decision.refused.map(|refused| refused.to_string()).into();
        }
        Err(illegal) => out["error"] = illegal.to_string().into(),
    }
    format!("{out:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(line: &str) -> Result<CollectiveQuery, String> {
        parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_query_is_parsed() {
        let question =
            query("coll MPI_Allreduce --ranks 64 --bytes 4k --type-size 8 --noncommutative --json").unwrap();
        assert_eq!(question.facts, CollectiveFacts::new(Collective::Allreduce, 64, 4096, 8, false));
        assert!(question.json);
        let question = query("coll bcast --ranks 2 --mca a b --rules f --distribution any").unwrap();
        assert_eq!((question.rules.as_deref(), question.distribution), (Some("f"), Distribution::Any));
        assert_eq!(question.mca, [("a".to_string(), "b".to_string())]);
    }

    #[test]
    fn errors_name_the_wrong_argument() {
        for (line, wanted) in [
            ("call bcast", "expected 'coll' or 'copy', found 'call'"),
            ("coll", "expected the name of a collective"),
            ("coll bcats --ranks 2", "there is no collective 'bcats'; did you mean 'bcast'?"),
            ("coll bcast", "--ranks is missing"),
            ("coll bcast --ranks", "--ranks needs a value"),
            ("coll bcast --ranks 0", "--ranks 0: expected a whole number from 1 to 2147483647"),
            ("coll bcast --ranks 2 --bytes 99999999999999m", "expected a whole number"),
            ("coll bcast --rank 2", "unknown word '--rank'; did you mean '--ranks'?"),
            ("coll bcast --ranks 2 --distribution x", "expected single-node, one-per-node or any"),
            ("coll bcast --ranks 2 --mca x", "--mca needs a name and a value"),
        ] {
            let error = query(line).unwrap_err();
            assert!(error.contains(wanted), "{line}: {error}");
        }
    }
}
