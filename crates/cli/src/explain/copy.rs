//! `oxmpi explain copy`: the protocol by which a message goes from one process of this node to
//! another.

use crate::command::{Settings, Stop, bytes};
use oxmpi_core::copy_costs::{self, CopyCosts};
use oxmpi_core::start::shm_settings;
use oxmpi_fabric::shm::copy_policy::{
    CopyDecision, CopyFacts, CopyPlan, Protocol, Proximity, Streaming, Traffic, predict,
};
use oxmpi_fabric::shm::{ShmSettings, SingleCopyMode};
use oxmpi_rt_client::client::segment_config;
use oxmpi_shm::pool::PoolShape;
use oxmpi_sys::bytes::CopyKind;
use serde_json::{Value as Json, json};
use std::fmt::Write as _;
use std::sync::Arc;

struct CopyQuery {
    bytes: usize,
    settings: ShmSettings,
    /// The source of the facts; `None` for the facts of another processor (`--processor`).
    costs: Option<CopyCosts>,
    pool: PoolShape,
    json: bool,
}

impl CopyQuery {
    /// The file of measured facts, and the reason if it is not used.
    fn file(&self) -> Option<(String, Option<String>)> {
        let costs = self.costs.as_ref()?;
        Some((
            costs.file.as_ref()?.display().to_string(),
            costs.unused.as_ref().map(ToString::to_string),
        ))
    }
}

/// Explain how a message goes between two processes of this node
///
/// The answer depends on single_copy, shm_pool_bytes, shm_pool_from_bytes and
/// shm_eager_limit_bytes, and on facts about the processor, built in or measured (shm_copy_costs,
/// 'oxmpi doctor --measure'). Messages do not change these facts.
#[derive(Debug, clap::Args)]
pub(super) struct CopyArgs {
    /// Bytes of the message; suffixes k, m
    #[arg(long, value_name = "N", value_parser = bytes)]
    bytes: usize,
    /// Whether the two processors share a cache
    #[arg(long, value_name = "WORD", default_value = "unknown", value_enum)]
    place: Place,
    /// The processes may not read each other's memory
    #[arg(long)]
    denied: bool,
    /// Use the built-in facts for this processor, such as 'Intel family 6', instead of this
    /// machine's
    #[arg(long, value_name = "NAME", value_parser = processor)]
    processor: Option<CopyFacts>,
    #[command(flatten)]
    settings: Settings,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Place {
    Near,
    Far,
    Unknown,
}

fn processor(name: &str) -> Result<CopyFacts, String> {
    CopyFacts::all_built_in().find(|facts| facts.of.eq_ignore_ascii_case(name)).ok_or_else(|| {
        let known: Vec<_> = CopyFacts::all_built_in().map(|facts| facts.of).collect();
        format!("there are sheets of {}", known.join(", "))
    })
}

pub(super) fn explain(args: &CopyArgs) -> Result<String, Stop> {
    let params = args.settings.parameters()?;
    let costs = if args.processor.is_none() { Some(copy_costs::find(&params)) } else { None };
    let facts = costs.as_ref().map(|costs| costs.facts.clone()).or(args.processor.clone());
    let mut settings = shm_settings(&params, Arc::new(facts.unwrap_or_else(CopyFacts::here)));
    settings.proximity = match args.place {
        Place::Near => Proximity::Near,
        Place::Far => Proximity::Far,
        Place::Unknown => Proximity::Unknown,
    };
    if args.denied {
        settings.single_copy = SingleCopyMode::Off;
    }
    let pool = segment_config(&params, false).pool_shape();
    let query = CopyQuery { bytes: args.bytes, settings, costs, pool, json: args.json };
    let plan = query.settings.plan(query.pool.bytes > 0);
    Ok(if query.json { in_json(&query, &plan) } else { in_text(&query, &plan) })
}

fn words_of(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Ring => "in the ring",
        Protocol::Pool(CopyKind::Plain) => "through the sender's pool, by plain copies",
        Protocol::Pool(CopyKind::Streaming) => {
            "through the sender's pool, copied in past the caches"
        }
        Protocol::SingleCopy => "copied by its receiver from the sender's memory",
        Protocol::Mapped => "copied by its receiver from its own mapping of the sender's memory",
    }
}

const LONGER: [Protocol; 4] = [
    Protocol::Pool(CopyKind::Plain),
    Protocol::Pool(CopyKind::Streaming),
    Protocol::SingleCopy,
    Protocol::Mapped,
];

/// The protocol of a message that its receiver may pull. `None`: the message is not longer than the
/// eager limit.
fn pulled(query: &CopyQuery, plan: &CopyPlan, traffic: Traffic) -> Option<Protocol> {
    let is_long = query.bytes > query.settings.eager_limit;
    is_long.then(|| plan.of_pulled(query.bytes, traffic).protocol)
}

fn in_text(query: &CopyQuery, plan: &CopyPlan) -> String {
    let CopyQuery { bytes, settings: ShmSettings { facts, proximity, eager_limit, .. }, .. } =
        query;
    let CopyDecision { protocol, piece_bytes, .. } = plan.of(*bytes);
    let processors = match proximity {
        Proximity::Near => "share a cache",
        Proximity::Far => "share no cache",
        Proximity::Unknown => "may or may not share a cache",
    };
    let mut out = format!(
        "{bytes} bytes between two processes whose processors {processors}: {}\n",
        words_of(protocol)
    );
    if matches!(protocol, Protocol::Pool(_)) {
        let _ = writeln!(out, "  pieces:   {} bytes", (piece_bytes as usize).min((*bytes).max(1)));
    }
    let is_mapped = protocol == Protocol::SingleCopy || plan.is_mapped(*bytes);
    let in_heap = if is_mapped { Protocol::Mapped } else { protocol };
    let _ = writeln!(out, "  in memory of MPI_Alloc_mem: {}", words_of(in_heap));
    let long = [Traffic::OneWay, Traffic::TwoWay].map(|it| pulled(query, plan, it));
    if let [Some(alone), Some(with_another)] = long {
        let _ =
            writeln!(out, "  one way:  {}, while its sender waits in the library", words_of(alone));
        let _ = writeln!(
            out,
            "  both:     {}, if one goes back at the same time",
            words_of(with_another)
        );
        if long.iter().flatten().any(|protocol| matches!(protocol, Protocol::Pool(_))) {
            let Streaming { piece_bytes, share_bytes } = Streaming::new(&query.pool);
            let _ = writeln!(
                out,
                "  at once:  {piece_bytes} bytes; at most {share_bytes} bytes for one receiver lie in the pool, and it copies the rest from its sender's memory"
            );
        }
    }
    let _ = writeln!(
        out,
        "  waits:    {}",
        if bytes > eager_limit {
            "a standard send waits for its receiver (it is longer than shm_eager_limit_bytes)"
        } else if protocol == Protocol::SingleCopy {
            "a standard send does not wait for its receiver: a process that waits for no message takes it back"
        } else {
            "a standard send does not wait for its receiver"
        }
    );
    let _ =
        writeln!(out, "  facts:    {} (nanoseconds, for each KiB where a length counts)", facts.of);
    if let Some((file, unused)) = query.file() {
        let _ = match unused {
            Some(error) => writeln!(out, "  file:     {file} is not used: {error}"),
            None => writeln!(out, "  file:     {file}"),
        };
    }
    for (name, distance) in [("near", facts.near), ("far", facts.far)] {
        let _ = writeln!(
            out,
            "    {name:<5} line {:.0}, copy in {:.0}, copy out {:.0}; past the caches {:.0} and {:.0}",
            distance.line_ns,
            distance.in_ns,
            distance.out_ns,
            distance.in_past_caches_ns,
            distance.out_past_caches_ns
        );
    }
    let single = facts.single_copy;
    let _ = writeln!(
        out,
        "    past the caches {:.0} more; the receiver's copy {:.0}, and {:.0} alone, {:.0} in both directions",
        facts.past_caches_ns, single.call_ns, single.alone_ns, single.both_ns
    );
    for (traffic, of) in [
        (Traffic::TwoWay, "messages in both directions"),
        (Traffic::OneWay, "one in pieces one way"),
    ] {
        let head = format!("predicted for {of}, us:");
        let _ = writeln!(out, "  {head:<40} {:>9} {:>9}", "near", "far");
        for protocol in LONGER {
            let [near, far] = predicted(query, traffic, protocol).map(|ns| ns / 1000.0);
            let words = words_of(protocol).trim_start_matches("copied ");
            let _ = writeln!(out, "    {words:<38} {near:>9.2} {far:>9.2}");
        }
    }
    out
}

/// The predicted nanoseconds between near and between far processors.
fn predicted(query: &CopyQuery, traffic: Traffic, protocol: Protocol) -> [f64; 2] {
    [Proximity::Near, Proximity::Far].map(|proximity| {
        predict(&query.settings.facts, (proximity, traffic), protocol, query.bytes)
    })
}

fn in_json(query: &CopyQuery, plan: &CopyPlan) -> String {
    let time = |protocol| {
        let [near, far] = predicted(query, Traffic::TwoWay, protocol);
        json!({ "way": words_of(protocol), "near_ns": near, "far_ns": far })
    };
    let times: Vec<Json> = LONGER.into_iter().map(time).collect();
    let (facts, way) = (&query.settings.facts.of, words_of(plan.of(query.bytes).protocol));
    let one_way = pulled(query, plan, Traffic::OneWay).map(words_of);
    let (file, unused) = query.file().unzip();
    let answer = json!({
        "bytes": query.bytes, "facts": facts, "file": file, "unused": unused.flatten(), "way": way, "one_way": one_way,
        "predicted": times
    });
    format!("{answer:#}\n")
}
