//! The rules of a file, and the search for the rule of a call.

use crate::collectives::{TUNABLE, Tunable, index_of};
use crate::position::{Position, Problem, RulesError, Warning};
use crate::{classic, json};
use oxmpi_param::nearest::nearest;
use oxmpi_plan::table::{algorithms, by_name, by_number};
use oxmpi_plan::{AlgorithmId, Collective};

/// The rule that applies if several match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// The rule with the greatest lower bound (versions 1 and 2).
    NearestLower,
    /// The first rule in the file (JSON).
    First,
}

/// How the ranks of a communicator are spread over nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Distribution {
    #[default]
    Any,
    OnePerNode,
    SingleNode,
}

impl Distribution {
    /// The words in rules files and on the command line.
    pub const WORDS: [(&'static str, Distribution); 3] = [
        ("any", Distribution::Any),
        ("one-per-node", Distribution::OnePerNode),
        ("single-node", Distribution::SingleNode),
    ];
}

/// A range of sizes that includes both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeRange {
    pub min: u64,
    /// `u64::MAX`: no upper end.
    pub max: u64,
}

impl SizeRange {
    /// All sizes from `min` on.
    #[must_use]
    pub const fn from(min: u64) -> SizeRange {
        SizeRange { min, max: u64::MAX }
    }

    /// Whether a size lies in the range.
    #[must_use]
    pub const fn contains(self, size: u64) -> bool {
        self.min <= size && size <= self.max
    }
}

/// The algorithm for messages of a range of sizes, and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageRule {
    /// In bytes.
    pub sizes: SizeRange,
    /// `None`: the fixed decisions choose.
    pub algorithm: Option<AlgorithmId>,
    /// Fan-out of trees and chains; 0: the algorithm's default.
    pub fan_out: u32,
    /// Bytes of a segment; 0: the algorithm's default.
    pub segment_bytes: u64,
    /// The largest number of outstanding requests; 0: the algorithm's default; `None`: not set by
    /// the rule.
    pub max_requests: Option<u32>,
    pub at: Position,
}

/// The rules for communicators of a range of sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommRules {
    pub ranks: SizeRange,
    pub distribution: Distribution,
    pub messages: Vec<MessageRule>,
}

/// The rules of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub file: String,
    pub matching: Matching,
    /// By the indices of [`TUNABLE`].
    pub collectives: [Vec<CommRules>; TUNABLE.len()],
}

/// A parsed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedRules {
    pub rules: Rules,
    pub warnings: Vec<Warning>,
}

impl Rules {
    /// A file without rules.
    pub fn new(file: impl Into<String>, matching: Matching) -> Rules {
        Rules { file: file.into(), matching, collectives: Default::default() }
    }

    /// Parses a file: JSON if it begins with a brace, otherwise version 1 or 2. `file` is its name
    /// in messages.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<ParsedRules, RulesError> {
        let named = |Problem { at, text }| RulesError { file: file.to_string(), at, problem: text };
        let text = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let before = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
                let line = before.matches('\n').count() + 1;
                let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
                let text = "expected text in UTF-8, found other bytes";
                return Err(named(Problem::new(Position { line, column }, text)));
            }
        };
        let start = text.trim_start_matches('\u{feff}').trim_start();
        let mut notes = Vec::new();
        let rules = match start.starts_with('{') {
            true => json::parse(file, text, &mut notes),
            false => classic::parse(file, text, &mut notes),
        };
        let warn = |Problem { at, text }| Warning { file: file.to_string(), at, text };
        Ok(ParsedRules {
            rules: rules.map_err(named)?,
            warnings: notes.into_iter().map(warn).collect(),
        })
    }

    /// Whether the file has rules for a collective.
    #[must_use]
    pub fn mentions(&self, collective: Collective) -> bool {
        index_of(collective).is_some_and(|index| !self.collectives[index].is_empty())
    }

    /// The rule for a communicator and a message size: first selects the rules of the communicator,
    /// then the rule of the message size among them.
    #[must_use]
    pub fn find(
        &self,
        collective: Collective,
        ranks: u32,
        distribution: Distribution,
        message_size: u64,
    ) -> Option<(&CommRules, &MessageRule)> {
        let all = &self.collectives[index_of(collective)?];
        let fits = |rules: &&CommRules| {
            (rules.distribution == Distribution::Any || rules.distribution == distribution)
                && rules.ranks.contains(u64::from(ranks))
        };
        let comm = self.pick(all.iter().filter(fits), |rules| rules.ranks)?;
        let fitting = comm.messages.iter().filter(|rule| rule.sizes.contains(message_size));
        Some((comm, self.pick(fitting, |rule| rule.sizes)?))
    }

    pub(crate) fn pick<'a, T>(
        &self,
        mut fitting: impl Iterator<Item = &'a T>,
        range: impl Fn(&T) -> SizeRange,
    ) -> Option<&'a T> {
        match self.matching {
            Matching::First => fitting.next(),
            // Of several items with the same bound, the last one in the file applies.
            Matching::NearestLower => fitting.max_by_key(|item| range(item).min),
        }
    }
}

/// An algorithm by its number or name; `None` for 0 and "ignore", which mean the fixed decisions.
pub fn algorithm_of(collective: Collective, text: &str) -> Result<Option<AlgorithmId>, String> {
    let text = text.trim();
    if text == "0" || text == "ignore" {
        return Ok(None);
    }
    let number = text.parse().ok().and_then(|number| by_number(collective, number));
    if let Some(found) = number.or_else(|| by_name(collective, text)) {
        return Ok(Some(found));
    }
    let rows = || algorithms(collective).map(AlgorithmId::algorithm);
    let hint = nearest(text, rows().map(|row| row.name))
        .filter(|_| !text.starts_with(|c: char| c.is_ascii_digit()));
    let hint = hint.map(|name| format!(" (did you mean '{name}'?)")).unwrap_or_default();
    let known: Vec<_> = rows().map(|row| format!("{} {}", row.number, row.name)).collect();
    Err(format!(
        "'{text}' is no algorithm of {collective}{hint}: expected 0 (fixed rules), {}",
        known.join(", ")
    ))
}

pub(crate) fn tunable_of_id(id: u64) -> Option<&'static Tunable> {
    TUNABLE.iter().find(|row| u64::from(row.id) == id)
}
