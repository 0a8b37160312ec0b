//! `oxmpi explain`: which algorithm serves a collective, how a message is copied, and why.

mod copy;

use crate::collectives;
use crate::command::{Settings, Stop, bytes, did_you_mean, usage, within};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use oxmpi_core::shmem::limits::{fits_later, has_room, serves, serves_later};
use oxmpi_param::{Module, Source};
use oxmpi_plan::table::{Parameter, algorithms, by_name};
use oxmpi_plan::{Algorithm, Collective, PlanUnit, Restriction, Setup};
use oxmpi_rt_client::client::control_section_pool;
use oxmpi_shm::control_section::PoolSegments;
use oxmpi_tuned::selection::refusal;
use oxmpi_tuned::settings::Settings as TunedSettings;
use oxmpi_tuned::stack::{basic, smp_reason, smp_segment};
use oxmpi_tuned::{
    AlgorithmDecision, CallFacts, CollectiveFacts, CommFacts, Component, Distribution, Form,
    IllegalForced, Reason, Reduction, Stack, Unserved,
};
use serde_json::{Value as Json, json};

/// Explain which algorithm serves a collective, or how a message is copied, and why
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct ExplainArgs {
    #[command(subcommand)]
    query: Query,
}

#[derive(Debug, clap::Subcommand)]
enum Query {
    Coll(CollArgs),
    Copy(copy::CopyArgs),
}

/// Explain which algorithm serves a collective
///
/// Which component serves depends on coll, coll_NAME_priority, coll_base_associative,
/// coll_smp_virtual_nodes, mpi_virtual_nodes and rpi. The component tuned reads in this order: the
/// parameter coll_tuned_COLLECTIVE_algorithm, the rules file, the fixed rules.
#[derive(Debug, clap::Args)]
struct CollArgs {
    /// The collective as in MPI, in any form: allreduce, MPI_Iallreduce, MPI_Allreduce_init
    ///
    /// 'inter_move' and 'inter_reduce' are the collectives of intercommunicators that move data,
    /// and that reduce.
    #[arg(value_parser = named)]
    collective: NamedCollective,
    /// Ranks of the communicator
    #[arg(long, value_name = "N", value_parser = |text: &str| within(text, 1..=i32::MAX as u64))]
    ranks: u64,
    /// Bytes of the vector, or of one block; suffixes k, m
    ///
    /// The whole vector of bcast, reduce, allreduce, scan and exscan, one block (on the average) of
    /// the others. For a barrier, gatherv, scatterv, alltoallv and alltoallw, neighbourhoods and
    /// intercommunicators the choice does not depend on it.
    #[arg(long, value_name = "N", default_value = "0", value_parser = bytes)]
    bytes: usize,
    /// Bytes of one element
    #[arg(long, value_name = "N", default_value = "1")]
    #[arg(value_parser = |text: &str| within(text, 1..=i32::MAX as u64))]
    type_size: u64,
    /// The operation is not commutative
    #[arg(long)]
    noncommutative: bool,
    /// There are more ranks than processors, as 'mpirun' finds for a job
    #[arg(long)]
    oversubscribed: bool,
    /// The operation is a sum or product of floating-point numbers, or one of the program
    #[arg(long)]
    inexact: bool,
    /// How the ranks are spread over nodes
    #[arg(long, value_name = "WORD", default_value = "single-node", value_parser = distribution())]
    distribution: Distribution,
    /// Rules of this file, as if coll_tuned_dynamic_rules_filename named it
    #[arg(long, value_name = "FILE")]
    rules: Option<String>,
    #[command(flatten)]
    settings: Settings,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn distribution() -> impl TypedValueParser<Value = Distribution> {
    let words = PossibleValuesParser::new(Distribution::WORDS.map(|(word, _)| word));
    words.map(|word| {
        let found = Distribution::WORDS.into_iter().find(|(known, _)| *known == word);
        found.map_or_else(Distribution::default, |(_, distribution)| distribution)
    })
}

/// A collective by MPI's name in any form.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedCollective {
    collective: Collective,
    /// The name in lower case of MPI's collective, if another collective's algorithms serve it.
    alias: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct CollectiveQuery {
    facts: CollectiveFacts,
    distribution: Distribution,
    alias: Option<String>,
    /// Whether the grouping of contributions does not change the result.
    is_exact: bool,
    json: bool,
}

impl CollectiveQuery {
    fn new(args: &CollArgs) -> CollectiveQuery {
        let NamedCollective { collective, alias } = args.collective.clone();
        let setup = if args.oversubscribed { Setup::Oversubscribed } else { Setup::Dedicated };
        let facts = |bytes| {
            let (ranks, type_size) = (args.ranks as u32, args.type_size as usize);
            CollectiveFacts::new(collective, ranks, bytes, type_size, !args.noncommutative)
                .on(setup)
        };
        // The choice ignores a length that only some ranks know.
        let facts = if facts(args.bytes).knows_bytes() { facts(args.bytes) } else { facts(0) };
        let (distribution, is_exact) = (args.distribution, !args.inexact);
        CollectiveQuery { facts, distribution, alias, is_exact, json: args.json }
    }
}

/// Runs `oxmpi explain`. Returns 1 if a forced algorithm cannot serve the call.
pub(crate) fn main(args: &ExplainArgs) -> Result<i32, Stop> {
    let args = match &args.query {
        Query::Coll(args) => args,
        Query::Copy(args) => {
            crate::say(&copy::explain(args)?);
            return Ok(0);
        }
    };
    let query = CollectiveQuery::new(args);
    let (settings, job_facts) = settings(args)?;
    settings
        .warnings
        .iter()
        .for_each(|warning| oxmpi_sys::complain!("oxmpi explain: warning: {warning}"));
    let decision = settings.selection.decide_on(&query.facts, query.distribution);
    let served = served(&query, (&settings, &job_facts), &decision);
    let format = if query.json { in_json } else { in_text };
    crate::say(&format(&query, &decision, &served));
    Ok(i32::from(decision.is_err() || served.by.iter().any(|(_, by)| by.is_err())))
}

struct JobFacts {
    associative: Option<bool>,
    rpi: &'static Module,
    has_memory: bool,
    pool: PoolSegments,
}

fn settings(args: &CollArgs) -> Result<(TunedSettings, JobFacts), Stop> {
    let mut params = args.settings.parameters()?;
    let mut set = |name: &str, value: &str| {
        let source = Source::CommandLine(format!("--rules {value}"));
        params.set_from(name, value, source).map_err(usage)
    };
    if let Some(file) = &args.rules {
        set("coll_tuned_use_dynamic_rules", "1")?;
        set("coll_tuned_dynamic_rules_filename", file)?;
    }
    let mut settings = TunedSettings::new(&params, collectives::read_rules).map_err(usage)?;
    collectives::spread(&mut settings.components, &params);
    let pool = control_section_pool(&params);
    let (associative, rpi) = (params.coll_base_associative(), params.rpi());
    Ok((settings, JobFacts { associative, rpi, has_memory: rpi.shares_sections(&params), pool }))
}

struct Served {
    by: Vec<(Form, Result<Component, Unserved>)>,
    /// The algorithm and its reason, for a blocking call that a component other than tuned serves.
    other: Option<(&'static Algorithm, String)>,
    /// The transport, if only its lack of shared memory keeps the call from shmem.
    without_memory: Option<&'static Module>,
}

fn served(
    query: &CollectiveQuery,
    (settings, job_facts): (&TunedSettings, &JobFacts),
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
        Ok(component @ (Component::Basic | Component::Base)) => basic(components, facts, reduction)
            .map(|id| (id, format!("the crossovers of {component}"))),
        Ok(Component::Smp) => {
            by_name(facts.collective, "smp").zip(nodes.as_ref()).map(|(id, nodes)| {
                let segment = smp_segment(components, facts, nodes, id);
                (id, format!("{}, by smp", smp_reason(nodes, segment)))
            })
        }
        _ => None,
    };
    let is_without = !has_memory && is_small(facts, decision, Form::Blocking, &pool);
    let without_memory = is_without.then_some(rpi);
    Served { by, other: other.map(|(id, why)| (id.algorithm(), why)), without_memory }
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

fn named(name: &str) -> Result<NamedCollective, String> {
    let lower = name.to_ascii_lowercase();
    let plain = lower.strip_prefix("mpi_").unwrap_or(&lower);
    let plain = plain.strip_suffix("_init").unwrap_or(plain);
    let find = |plain: &str| {
        let own = Collective::ALL.into_iter().find(|collective| collective.name() == plain);
        let own = own.map(|collective| NamedCollective { collective, alias: None });
        own.or_else(|| {
            let (alias, collective) = ALIASES.into_iter().find(|(alias, _)| *alias == plain)?;
            Some(NamedCollective { collective, alias: Some(alias.to_string()) })
        })
    };
    find(plain).or_else(|| find(plain.strip_prefix('i')?)).ok_or_else(|| {
        let all = || {
            Collective::ALL.map(Collective::name).into_iter().chain(ALIASES.map(|(alias, _)| alias))
        };
        let known = all().collect::<Vec<_>>().join(", ");
        format!("there is no such collective{} (there are {known})", did_you_mean(plain, all()))
    })
}

/// The algorithms of the collective, with the restrictions that forbid them.
fn candidates(
    facts: &CollectiveFacts,
) -> impl Iterator<Item = (&'static Algorithm, Option<Restriction>)> {
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
        out += &format!(
            "  message size:  {message_size} in rules files ({phrase}); collective {}\n",
            row.id
        );
    }
    out += "  algorithms:\n";
    for (row, restriction) in candidates(facts) {
        let verdict =
            restriction.map_or_else(|| "legal".to_string(), |why| format!("illegal: {why}"));
        out += &format!("    {:>2} {:<24} {verdict}\n", row.number, row.name);
    }
    let forms: Vec<_> = served
        .by
        .iter()
        .filter(|(_, by)| *by == Ok(Component::Shmem))
        .map(|(form, _)| form.name())
        .collect();
    if let Some(most) = forms.last() {
        let forms = if forms.len() > 1 { "blocking and nonblocking" } else { most };
        out += &format!(
            "  Calls ({forms}) with this number of bytes on one node go through shared memory (shmem) instead. Exceptions: nonblocking \
             calls and reduce_scatter_block with an operation of the user.\n"
        );
    }
    if let Some(rpi) = served.without_memory {
        out += &format!(
            "  Over rpi {} a job has no shared memory for collectives (shmem).\n",
            rpi.name
        );
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

/// The settings for the algorithm; `true`: the algorithm uses it.
fn algorithm_settings(decision: &AlgorithmDecision<'_>) -> [(&'static str, u64, bool); 3] {
    let (row, tuning) = (decision.algorithm.algorithm(), decision.tuning);
    let uses = |any: &[Parameter]| any.iter().any(|parameter| row.parameters.contains(parameter));
    [
        ("segment size", tuning.segment_bytes, uses(&[Parameter::Segment])),
        (
            "fan-out",
            u64::from(tuning.fan_out),
            uses(&[Parameter::TreeFanout, Parameter::ChainFanout]),
        ),
        ("max requests", u64::from(tuning.max_requests), uses(&[Parameter::MaxRequests])),
    ]
}

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
            out["algorithm"] =
                json!({ "id": row.number, "name": row.name, "description": row.description });
            out["reason"] = why.as_str().into();
            out["by"] = "component".into();
        }
        Ok(decision) => {
            let row = decision.algorithm.algorithm();
            out["algorithm"] =
                json!({ "id": row.number, "name": row.name, "description": row.description });
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
        let words: Vec<_> =
            ["explain"].into_iter().chain(line.split_whitespace()).map(Into::into).collect();
        match crate::command::parse::<crate::Oxmpi>(&words).map_err(|error| error.to_string())?.verb
        {
            crate::Verb::Explain(ExplainArgs { query: Query::Coll(args) }) => {
                Ok(CollectiveQuery::new(&args))
            }
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn a_query_is_parsed() {
        let line = "coll MPI_Allreduce --ranks 64 --bytes 4k --type-size 8 --noncommutative --json";
        let question = query(line).unwrap();
        assert_eq!(question.facts, CollectiveFacts::new(Collective::Allreduce, 64, 4096, 8, false));
        assert!(question.json);
        let question =
            query("coll bcast --ranks 2 --mca a b --rules f --distribution any").unwrap();
        assert_eq!(question.distribution, Distribution::Any);
    }

    #[test]
    fn errors_name_the_wrong_argument() {
        for (line, wanted) in [
            ("call bcast", "unknown word 'call'; did you mean 'coll'?"),
            ("coll bcats --ranks 2", "'bcats': there is no such collective; did you mean 'bcast'?"),
            ("coll bcast", "--ranks is needed"),
            ("coll bcast --ranks", "--ranks needs a value"),
            ("coll bcast --ranks 0", "--ranks 0: expected a whole number from 1 to 2147483647"),
            ("coll bcast --ranks 2 --bytes 99999999999999m", "expected a whole number"),
            ("coll bcast --rank 2", "unknown option '--rank'; did you mean '--ranks'?"),
            (
                "coll bcast --ranks 2 --distribution x",
                "--distribution x: expected any, one-per-node, ",
            ),
            ("coll bcast --ranks 2 --mca x", "--mca needs 2 values after it"),
            ("copy", "--bytes is needed"),
            ("copy --bytes 1 --place away", "--place away: expected near, far, unknown"),
            ("copy --bytes 1 --processor abacus", "--processor abacus: there are sheets of "),
        ] {
            let error = query(line).unwrap_err();
            assert!(error.contains(wanted), "{line}: {error}");
        }
    }
}
