//! Rules files of versions 1 and 2: numbers, separated by blanks and comments.
//!
//! ```text
//! rule-file-version-2        the first word of the file; without it the version is 1
//! collectives                and for each collective:
//!   id comm-sizes              and for each communicator size:
//!     ranks rules                and for each rule:
//!       bytes algorithm fan-out segment-size [max-requests]
//! ```
//!
//! Line ends count as blanks, with one exception: the optional last number of version 2 belongs to
//! the rule if it is in the line of the number before it. A comment goes from `#` to the end of the
//! line.

use crate::collectives::{TUNABLE, UNTUNED, index_of};
use crate::position::{Position, Problem, TextCursor};
use crate::rules::{
    CommRules, Distribution, Matching, MessageRule, Rules, SizeRange, algorithm_of, tunable_of_id,
};

const VERSION: &str = "rule-file-version-";

pub(crate) fn parse(file: &str, text: &str, notes: &mut Vec<Problem>) -> Result<Rules, Problem> {
    let mut words = RuleWords { cursor: TextCursor::new(text), last_line: 0 };
    let version = version(&mut words, notes)?;
    let mut parser =
        ClassicParser { words, version, notes, rules: Rules::new(file, Matching::NearestLower) };
    parser.collectives()?;
    Ok(parser.rules)
}

/// The version in the first word of the file; 1 if the word is no version.
fn version(words: &mut RuleWords<'_>, notes: &mut Vec<Problem>) -> Result<u64, Problem> {
    let mut ahead = *words;
    let Some((at, number)) =
        ahead.next().and_then(|word| Some((word.at, word.text.strip_prefix(VERSION)?)))
    else {
        return Ok(1);
    };
    let Some(version) = decimal(number).filter(|version| *version >= 1) else {
        let text = format!("expected a version from 1 on behind '{VERSION}', found '{number}'");
        return Err(Problem::new(at, text));
    };
    if version > 2 {
        notes.push(Problem::new(
            at,
            format!("version {version} is not known; it is read as version 2"),
        ));
    }
    *words = ahead;
    Ok(version)
}

struct ClassicParser<'a, 'n> {
    words: RuleWords<'a>,
    version: u64,
    notes: &'n mut Vec<Problem>,
    rules: Rules,
}

impl ClassicParser<'_, '_> {
    fn note(&mut self, at: Position, text: String) {
        self.notes.push(Problem::new(at, text));
    }

    fn collectives(&mut self) -> Result<(), Problem> {
        let (_, count) = self.words.number("the number of collectives")?;
        for _ in 0..count {
            self.collective()?;
        }
        if let Some(word) = self.words.next() {
            let text = format!(
                "expected the end of the file behind {count} collectives, found '{}'; the rest is ignored",
                word.text
            );
            self.note(word.at, text);
        }
        Ok(())
    }

    fn collective(&mut self) -> Result<(), Problem> {
        let (at, id) = self.words.number("the number of a collective")?;
        let index = match tunable_of_id(id).and_then(|row| index_of(row.collective)) {
            Some(index) => Some(index),
            None => {
                match UNTUNED.iter().find(|(other, _)| u64::from(*other) == id) {
                    Some((_, name)) => {
                        self.note(
                        at,
                        format!("{name} ({id}) has no algorithms to choose from; its rules are ignored"),
                    );
                        None
                    }
                    None => {
                        let known: Vec<_> = TUNABLE
                            .iter()
                            .map(|row| format!("{} {}", row.id, row.collective))
                            .collect();
                        let text = format!(
                            "expected the number of a collective, found {id} (there are {})",
                            known.join(", ")
                        );
                        return Err(Problem::new(at, text));
                    }
                }
            }
        };
        if let Some(index) = index
            && !self.rules.collectives[index].is_empty()
        {
            let name = TUNABLE[index].collective;
            self.note(at, format!("{name} has rules already; these are added to them"));
        }
        let (_, sizes) = self.words.number("the number of communicator sizes")?;
        let mut before = None;
        for _ in 0..sizes {
            let rules = self.comm_size(index, &mut before)?;
            if let Some(index) = index {
                self.rules.collectives[index].push(rules);
            }
        }
        Ok(())
    }

    fn comm_size(
        &mut self,
        index: Option<usize>,
        before: &mut Option<u64>,
    ) -> Result<CommRules, Problem> {
        let (at, ranks) = self.words.number("a communicator size")?;
        if let Some(last) = before.filter(|last| *last >= ranks) {
            self.note(at, format!("communicator sizes should ascend: {ranks} is behind {last}"));
        }
        *before = Some(ranks);
        let (at, count) = self.words.number("the number of message sizes")?;
        if count == 0 {
            self.note(at, format!("there is no rule for {ranks} ranks: the fixed rules choose"));
        }
        let mut messages: Vec<MessageRule> = Vec::new();
        for _ in 0..count {
            let rule = self.message_size(index)?;
            let size = rule.sizes.min;
            match messages.last().map(|last| last.sizes.min) {
                None if size > 0 => {
                    let text = format!(
                        "there is no rule for message size 0: below {size} bytes the fixed rules choose"
                    );
                    self.note(rule.at, text);
                }
                Some(last) if last >= size => {
                    self.note(
                        rule.at,
                        format!("message sizes should ascend: {size} is behind {last}"),
                    );
                }
                _ => {}
            }
            messages.push(rule);
        }
        Ok(CommRules { ranks: SizeRange::from(ranks), distribution: Distribution::Any, messages })
    }

    fn message_size(&mut self, index: Option<usize>) -> Result<MessageRule, Problem> {
        let before = self.words.last_line;
        let (at, bytes) = self.words.number("a message size")?;
        let is_first = before < at.line;
        let (algorithm_at, algorithm) = self.words.number("the number of an algorithm")?;
        let fan_out = self.words.small("a fan-out (topology)")?;
        let (last, segment_bytes) = self.words.number("a segment size")?;
        let mut max_requests = None;
        if self.words.is_in_line(last.line) {
            if self.version >= 2 {
                max_requests = Some(self.words.small("a maximal number of requests")?);
                self.end_of_rule(last.line, "expected the end of the line behind five numbers")?;
            } else if at.line == last.line && is_first {
                // Version 1 allows several rules in a line, but a rule and one more number is most
                // likely a mistake.
                if self.words.numbers_in_line(last.line) == 1 {
                    let text = "expected the end of the line behind four numbers (a maximal number of requests needs \
                                'rule-file-version-2' in the first line)";
                    self.end_of_rule(last.line, text)?;
                }
            }
        }
        let algorithm = match index
            .map(|index| algorithm_of(TUNABLE[index].collective, &algorithm.to_string()))
        {
            Some(Err(text)) => {
                self.note(algorithm_at, format!("{text}; the fixed rules choose instead"));
                None
            }
            found => found.and_then(Result::ok).flatten(),
        };
        Ok(MessageRule {
            sizes: SizeRange::from(bytes),
            algorithm,
            fan_out,
            segment_bytes,
            max_requests,
            at,
        })
    }

    fn end_of_rule(&self, line: usize, expected: &str) -> Result<(), Problem> {
        let mut ahead = self.words;
        match ahead.next().filter(|word| word.at.line == line) {
            Some(word) => Err(Problem::new(word.at, format!("{expected}, found '{}'", word.text))),
            None => Ok(()),
        }
    }
}

#[derive(Clone, Copy)]
struct RuleWord<'a> {
    text: &'a str,
    at: Position,
}

#[derive(Clone, Copy)]
struct RuleWords<'a> {
    cursor: TextCursor<'a>,
    last_line: usize,
}

impl<'a> RuleWords<'a> {
    fn next(&mut self) -> Option<RuleWord<'a>> {
        loop {
            self.cursor.take_while(char::is_whitespace);
            let at = self.cursor.at();
            match self.cursor.peek()? {
                '#' => _ = self.cursor.take_while(|c| c != '\n'),
                _ => {
                    let text = self.cursor.take_while(|c| !c.is_whitespace() && c != '#');
                    self.last_line = at.line;
                    return Some(RuleWord { text, at });
                }
            }
        }
    }

    fn is_in_line(mut self, line: usize) -> bool {
        self.next().is_some_and(|word| word.at.line == line)
    }

    fn numbers_in_line(mut self, line: usize) -> usize {
        std::iter::from_fn(|| self.next()).take_while(|word| word.at.line == line).count()
    }

    fn number(&mut self, what: &str) -> Result<(Position, u64), Problem> {
        let Some(word) = self.next() else {
            return Err(Problem::new(
                self.cursor.at(),
                format!("expected {what}, found the end of the file"),
            ));
        };
        match decimal(word.text) {
            Some(number) => Ok((word.at, number)),
            None => {
                let text = format!("expected {what}, a number from 0 on, found '{}'", word.text);
                Err(Problem::new(word.at, text))
            }
        }
    }

    fn small(&mut self, what: &str) -> Result<u32, Problem> {
        let (at, number) = self.number(what)?;
        u32::try_from(number).map_err(|_| {
            Problem::new(at, format!("expected {what} up to {}, found {number}", u32::MAX))
        })
    }
}

fn decimal(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
