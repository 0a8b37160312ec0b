//! Writes rules files, for tuners and converters.

use crate::collectives::TUNABLE;
use crate::json::VERSION;
use crate::rules::{CommRules, Distribution, Matching, MessageRule, Rules, SizeRange};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The reason why rules cannot be written in a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotWrite {
    #[error("{collective}: only a rules file in JSON can require a distribution of ranks")]
    Distribution { collective: &'static str },
    #[error("{collective}: a rules file of version 1 cannot set a maximal number of requests")]
    MaxRequests { collective: &'static str },
}

/// A version of the form with numbers only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// All releases of Open MPI read version 1.
    One,
    /// Has a maximal number of requests; Open MPI reads version 2 from 5.0.7 on.
    Two,
}

/// A rule for messages from this number of bytes on; `None`: the fixed decisions.
type MessageStep = (u64, Option<MessageRule>);

impl Rules {
    /// The rules as a file of version 1 or 2. Ranges with an upper end become steps.
    pub fn to_classic(&self, version: Version) -> Result<String, CannotWrite> {
        let written = self.collectives.iter().filter(|rules| !rules.is_empty()).count();
        let mut out = String::new();
        if version == Version::Two {
            out += "rule-file-version-2\n";
        }
        out += &format!("{written}  # collectives\n");
        for (row, rules) in
            TUNABLE.iter().zip(&self.collectives).filter(|(_, rules)| !rules.is_empty())
        {
            let collective = row.collective.name();
            if rules.iter().any(|rules| rules.distribution != Distribution::Any) {
                return Err(CannotWrite::Distribution { collective });
            }
            let steps = self.comm_steps(rules);
            out += &format!("{}  # {collective}; message size: {}\n", row.id, row.measure.phrase());
            out += &format!("{}  # communicator sizes\n", steps.len());
            for (ranks, steps) in steps {
                out += &format!("{ranks}  # ranks\n{}  # message sizes\n", steps.len());
                for (bytes, rule) in steps {
                    let algorithm = rule.and_then(|rule| rule.algorithm);
                    let number = algorithm.map_or(0, |id| id.algorithm().number);
                    let (fan_out, segment) =
                        rule.map_or((0, 0), |rule| (rule.fan_out, rule.segment_bytes));
                    let _ = write!(out, "{bytes} {number} {fan_out} {segment}");
                    match (version, rule.and_then(|rule| rule.max_requests)) {
                        (Version::One, Some(_)) => {
                            return Err(CannotWrite::MaxRequests { collective });
                        }
                        (Version::Two, Some(max_requests)) => _ = write!(out, " {max_requests}"),
                        (_, None) => {}
                    }
                    let name = algorithm.map_or("fixed rules", |id| id.algorithm().name);
                    out += &format!("  # {name}\n");
                }
            }
        }
        Ok(out)
    }

    /// The rules as a file in JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let named: Vec<_> = TUNABLE
            .iter()
            .zip(&self.collectives)
            .filter(|(_, rules)| !rules.is_empty())
            .map(|(row, rules)| {
                let comms: Vec<_> = match self.matching {
                    Matching::First => rules.iter().map(json_comm).collect(),
                    Matching::NearestLower => {
                        self.comm_ranges(rules).iter().map(json_comm).collect()
                    }
                };
                format!("    \"{}\": [\n{}\n    ]", row.json, comms.join(",\n"))
            })
            .collect();
        let collectives = if named.is_empty() {
            "{}".to_string()
        } else {
            format!("{{\n{}\n  }}", named.join(",\n"))
        };
        format!(
            "{{\n  \"rule_file_version\": {VERSION},\n  \"module\": \"tuned\",\n  \"collectives\": {collectives}\n}}\n"
        )
    }

    /// The rules as steps, each from a number of ranks on, with steps from a number of bytes on.
    fn comm_steps(&self, rules: &[CommRules]) -> Vec<(u64, Vec<MessageStep>)> {
        let edges = edges(rules.iter().map(|rules| rules.ranks));
        let step = |ranks| {
            let comm = self
                .pick(rules.iter().filter(|rules| rules.ranks.contains(ranks)), |rules| {
                    rules.ranks
                });
            (ranks, comm.map_or_else(|| vec![(0, None)], |comm| self.message_steps(comm)))
        };
        edges.into_iter().map(step).collect()
    }

    fn message_steps(&self, comm: &CommRules) -> Vec<MessageStep> {
        let fitting = |bytes| comm.messages.iter().filter(move |rule| rule.sizes.contains(bytes));
        let edges = edges(comm.messages.iter().map(|rule| rule.sizes));
        edges
            .into_iter()
            .map(|bytes| (bytes, self.pick(fitting(bytes), |rule| rule.sizes).copied()))
            .collect()
    }

    /// The rules as ranges that do not overlap.
    fn comm_ranges(&self, rules: &[CommRules]) -> Vec<CommRules> {
        let steps = self.comm_steps(rules);
        let end = |next: Option<u64>| next.map_or(u64::MAX, |next| next - 1);
        let comm = |(at, (ranks, messages)): (usize, &(u64, Vec<MessageStep>))| CommRules {
            ranks: SizeRange { min: *ranks, max: end(steps.get(at + 1).map(|step| step.0)) },
            distribution: Distribution::Any,
            messages: messages
                .iter()
                .enumerate()
                .filter_map(|(at, (bytes, rule))| {
                    let sizes = SizeRange {
                        min: *bytes,
                        max: end(messages.get(at + 1).map(|step| step.0)),
                    };
                    Some(MessageRule { sizes, ..(*rule)? })
                })
                .collect(),
        };
        steps.iter().enumerate().map(comm).collect()
    }
}

/// The bounds of all ranges, and 0.
fn edges(ranges: impl Iterator<Item = SizeRange>) -> BTreeSet<u64> {
    let both = ranges.flat_map(|range| [Some(range.min), range.max.checked_add(1)]);
    both.flatten().chain([0]).collect()
}

fn json_comm(rules: &CommRules) -> String {
    let mut members = json_range("comm_size", rules.ranks);
    if let Some((word, _)) = Distribution::WORDS.iter().find(|(_, distribution)| {
        *distribution == rules.distribution && *distribution != Distribution::Any
    }) {
        members.push(format!("\"comm_rank_distribution\": \"{word}\""));
    }
    let messages: Vec<_> = rules.messages.iter().map(json_message).collect();
    let messages = match messages.is_empty() {
        true => "[]".to_string(),
        false => format!("[\n          {}\n        ]", messages.join(",\n          ")),
    };
    members.push(format!("\"rules\": {messages}"));
    format!("      {{\n        {}\n      }}", members.join(",\n        "))
}

fn json_message(rule: &MessageRule) -> String {
    let mut members = json_range("msg_size", rule.sizes);
    members.push(match rule.algorithm {
        Some(id) => format!("\"alg\": \"{}\"", id.algorithm().name),
        None => "\"alg\": 0".to_string(),
    });
    for (name, value) in [
        ("faninout", Some(u64::from(rule.fan_out)).filter(|n| *n != 0)),
        ("seg_size", Some(rule.segment_bytes).filter(|n| *n != 0)),
        ("reqs", rule.max_requests.map(u64::from)),
    ] {
        members.extend(value.map(|value| format!("\"{name}\": {value}")));
    }
    format!("{{ {} }}", members.join(", "))
}

fn json_range(name: &str, range: SizeRange) -> Vec<String> {
    let end = |size: u64| if size == u64::MAX { "\"inf\"".to_string() } else { size.to_string() };
    vec![
        format!("\"{name}_min\": {}", end(range.min)),
        format!("\"{name}_max\": {}", end(range.max)),
    ]
}
