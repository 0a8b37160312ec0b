//! `oxmpi explain copy`: how a message goes from one process of this node to another, and why.

use super::number;
use crate::prefix;
use oxmpi_fabric::shm::copy_policy::{CopyPlan, Facts, Place, Possible, Way, predict};
use oxmpi_os::bytes::CopyKind;
use oxmpi_param::{Found, Params, SingleCopy, Source};
use serde_json::{Value as Json, json};
use std::fmt::Write as _;

/// What to explain.
struct Asked {
    bytes: usize,
    place: Place,
    may_read: bool,
    facts: Facts,
    params: Params,
    json: bool,
}

/// The answer to `oxmpi explain copy WORDS`.
///
/// # Errors
/// If a word or parameter is wrong.
pub(super) fn explain<'a>(words: impl Iterator<Item = &'a str>) -> Result<String, String> {
    let asked = parse(words)?;
    let possible = Possible {
        ring_below: asked.params.shm_pool_from_bytes(),
        pool: asked.params.shm_pool_bytes() > 0,
        single_copy: match asked.params.single_copy() {
            SingleCopy::Off => None,
            _ if !asked.may_read => None,
            SingleCopy::Auto => Some(false),
            SingleCopy::On => Some(true),
        },
    };
    let decision = CopyPlan::new(&asked.facts, asked.place, possible).of(asked.bytes);
    let limit = asked.params.shm_eager_limit_bytes();
    Ok(if asked.json {
        in_json(&asked, decision.way)
    } else {
        in_text(&asked, decision.way, decision.piece_bytes, limit)
    })
}

fn parse<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Asked, String> {
    let found = Found::gather(std::env::vars_os(), prefix::find().as_deref());
    let mut params: Params = found.into_result().map_err(|error| error.to_string())?;
    let (mut bytes, mut place, mut may_read, mut facts, mut json) =
        (None, Place::Unknown, true, Facts::here(), false);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value behind it"));
        match word {
            "--bytes" => bytes = Some(number(word, value()?, 0..=isize::MAX as u64)? as usize),
            "--place" => {
                place = match value()? {
                    "near" => Place::Near,
                    "far" => Place::Far,
                    "unknown" => Place::Unknown,
                    other => return Err(format!("--place {other}: expected near, far or unknown")),
                }
            }
            "--denied" => may_read = false,
            "--processor" => {
                let name = value()?;
                let all = || Facts::all_built_in().map(|facts| facts.of.into_owned());
                facts = Facts::all_built_in().find(|facts| facts.of.eq_ignore_ascii_case(name)).ok_or_else(
                    || {
                        format!(
                            "--processor {name}: there are sheets of {}",
                            all().collect::<Vec<_>>().join(", ")
                        )
                    },
                )?;
            }
            "--mca" => {
                let name = value()?.to_string();
                let value = words.next().ok_or("--mca needs a name and a value behind it")?;
                let source = Source::CommandLine(format!("--mca {name} {value}"));
                params.set_from(&name, value, source).map_err(|error| error.to_string())?;
            }
            "--json" => json = true,
            other => return Err(format!("unknown word '{other}' behind 'copy' ('oxmpi explain --help')")),
        }
    }
    let bytes = bytes.ok_or("--bytes is needed: the length of the message")?;
    Ok(Asked { bytes, place, may_read, facts, params, json })
}

fn words_of(way: Way) -> &'static str {
    match way {
        Way::Ring => "in the ring",
        Way::Pool(CopyKind::Plain) => "through the sender's pool, by plain copies",
        Way::Pool(CopyKind::Streaming) => "through the sender's pool, copied in past the caches",
        Way::SingleCopy => "copied by its receiver from the sender's memory",
    }
}

const WAYS: [Way; 3] = [Way::Pool(CopyKind::Plain), Way::Pool(CopyKind::Streaming), Way::SingleCopy];

fn in_text(asked: &Asked, way: Way, piece: u32, limit: usize) -> String {
    let Asked { bytes, place, facts, .. } = asked;
    let place = match place {
        Place::Near => "share a cache",
        Place::Far => "share no cache",
        Place::Unknown => "are near or far, nobody knows",
    };
    let mut out =
        format!("{bytes} bytes between two processes whose processors {place}: {}\n", words_of(way));
    if matches!(way, Way::Pool(_)) {
        let _ = writeln!(out, "  pieces:   {} bytes", (piece as usize).min((*bytes).max(1)));
    }
    let _ = writeln!(
        out,
        "  waits:    {}",
        if *bytes > limit {
            "a standard send waits for its receiver (it is longer than shm_eager_limit_bytes)"
        } else if way == Way::SingleCopy {
            "a standard send does not wait for its receiver: it takes the message back"
        } else {
            "a standard send does not wait for its receiver"
        }
    );
    let _ = writeln!(out, "  facts:    {} (nanoseconds, for each KiB where a length counts)", facts.of);
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
        "    past the caches {:.0} more; the receiver's copy {:.0}, and {:.0} alone, {:.0} both ways",
        facts.past_caches_ns, single.call_ns, single.alone_ns, single.both_ns
    );
    let _ = writeln!(out, "  predicted for messages both ways, us:       near       far");
    for way in WAYS {
        let [near, far] = [Place::Near, Place::Far].map(|place| predict(facts, place, way, *bytes) / 1000.0);
        let _ =
            writeln!(out, "    {:<38} {near:>9.2} {far:>9.2}", words_of(way).trim_start_matches("copied "));
    }
    out
}

fn in_json(asked: &Asked, way: Way) -> String {
    let times: Vec<Json> = WAYS
        .into_iter()
        .map(|way| {
            let [near, far] =
                [Place::Near, Place::Far].map(|place| predict(&asked.facts, place, way, asked.bytes));
            json!({ "way": words_of(way), "near_ns": near, "far_ns": far })
        })
        .collect();
    let answer =
        json!({ "bytes": asked.bytes, "facts": asked.facts.of, "way": words_of(way), "predicted": times });
    format!("{answer:#}\n")
}
