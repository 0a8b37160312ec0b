//! The choice among the algorithms of a collective.
//!
//! It reads shared knowledge only, so that all ranks choose alike, and looks at restrictions, so that what it chooses
//! is legal. What it chooses stands in a table, which the cost model has worked out ([`decisions`](crate::decisions)).

mod fixed;

use std::fmt;

use crate::call::Collective;
use crate::decisions::Candidate;
use crate::knowledge::Shared;
use crate::table::{AlgorithmId, Parameters, by_number, first};

/// What is known of the processors of a team.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Setup {
    /// Each rank has a processor.
    #[default]
    Roomy,
    /// There are more ranks than processors.
    Crowded,
}

impl Setup {
    /// Both.
    pub const ALL: [Setup; 2] = [Setup::Roomy, Setup::Crowded];
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Setup::Roomy => "a processor for each rank",
            Setup::Crowded => "more ranks than processors",
        })
    }
}

/// Chooses an algorithm that is legal for any such call.
///
/// `bytes` is what [`Call::count`](crate::Call::count) counts, in bytes: the whole vector of a broadcast, reduction or scan,
/// one block of the other collectives. `commutative` is [`Call::commutative`](crate::Call::commutative). All arguments are the
/// same on all ranks, and so is the choice.
#[must_use]
pub fn choose(collective: Collective, size: u32, bytes: Shared<usize>, commutative: bool) -> AlgorithmId {
    choose_within(collective, size, bytes, commutative).algorithm
}

/// A choice, and up to where it is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The algorithm.
    pub algorithm: AlgorithmId,
    /// Bytes of a segment; 0 leaves it to the algorithm.
    pub segment_bytes: usize,
    /// The fan-out; 0 leaves it to the algorithm.
    pub fan_out: u32,
    /// The largest team for which the table names it here; `u32::MAX`: any.
    pub max_size: u32,
    /// The most bytes for which it does; `usize::MAX`: any number.
    pub max_bytes: usize,
    /// For which processors it does.
    pub setup: Setup,
    /// Whether it does for numbers of ranks that are powers of two, or for all others; none: for both.
    pub powers_of_two: Option<bool>,
}

impl Chosen {
    /// As a plan takes it, whose unit has so many bytes.
    #[must_use]
    pub fn parameters(&self, unit: usize) -> Parameters {
        let Chosen { algorithm, segment_bytes, fan_out, .. } = *self;
        Candidate { algorithm, segment_bytes, fan_out }.parameters(unit)
    }
}

/// As [`choose`], with what led to the choice and what is said to the algorithm, for a processor for each rank.
#[must_use]
pub fn choose_within(collective: Collective, size: u32, bytes: Shared<usize>, commutative: bool) -> Chosen {
    choose_on(Shared(Setup::Roomy), collective, size, bytes, commutative)
}

/// As [`choose_within`], for these processors.
#[must_use]
pub fn choose_on(
    setup: Shared<Setup>,
    collective: Collective,
    size: u32,
    bytes: Shared<usize>,
    commutative: bool,
) -> Chosen {
    let setup = setup.0;
    let is_it = |part: &&Part| {
        part.collective == collective
            && part.setup.is_none_or(|other| other == setup)
            && part.commutative.is_none_or(|other| other == commutative)
            && part.powers_of_two.is_none_or(|other| other == size.is_power_of_two())
    };
    let found = fixed::PARTS.iter().filter(is_it).find_map(|part| {
        let row = part.rows().iter().find(|row| size <= row.max_size && bytes.0 <= row.max_bytes)?;
        Some((row, part.powers_of_two))
    });
    // Of a part without rows, where there is nothing to choose. The rows of each other part end with
    // one without bounds, which a test checks.
    let (row, powers_of_two) = found.unwrap_or((&Row::LAST, None));
    Chosen {
        algorithm: by_number(collective, row.number).unwrap_or_else(|| first(collective)),
        segment_bytes: row.segment_bytes as usize,
        fan_out: u32::from(row.fan_out),
        max_size: row.max_size,
        max_bytes: row.max_bytes,
        setup,
        powers_of_two,
    }
}

/// The decisions for a collective. A part without rows leaves the first algorithm, which needs no
/// knowledge of lengths that the ranks do not share.
#[derive(Clone, Copy, Debug)]
struct Part {
    collective: Collective,
    /// `None`: for any number of processors.
    setup: Option<Setup>,
    /// `None`: for all operations.
    commutative: Option<bool>,
    /// Numbers of ranks that are powers of two, or all others; `None`: both.
    powers_of_two: Option<bool>,
    /// Its rows in the table of all rows, by ascending size, then by ascending length. The first that
    /// fits counts.
    rows_begin: usize,
    rows_end: usize,
}

impl Part {
    const NONE: Part = Part {
        collective: Collective::Barrier,
        setup: None,
        commutative: None,
        powers_of_two: None,
        rows_begin: 0,
        rows_end: 0,
    };

    fn rows(&self) -> &'static [Row] {
        fixed::ROWS.get(self.rows_begin..self.rows_end).unwrap_or_default()
    }
}

/// The decision for teams of at most `max_size` ranks and at most `max_bytes`.
#[derive(Clone, Copy, Debug)]
struct Row {
    max_size: u32,
    max_bytes: usize,
    number: u8,
    segment_bytes: u32,
    fan_out: u16,
}

impl Row {
    const LAST: Row = Row { max_size: ANY, max_bytes: LONG, number: 1, segment_bytes: 0, fan_out: 0 };
}

const ANY: u32 = u32::MAX;
const LONG: usize = usize::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions;

    #[test]
    fn every_row_names_an_algorithm_and_the_last_one_always_fits() {
        let text = std::str::from_utf8(fixed::TEXT).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("part "));
        let names: Vec<&str> = lines.map(|line| line.split(' ').nth(3).unwrap()).collect();
        assert_eq!(names.len(), fixed::ROWS.len());
        assert!(fixed::ROWS.len() > 1000, "the table has a thousand rows");
        for part in &fixed::PARTS {
            for (row, name) in part.rows().iter().zip(&names[part.rows_begin..]) {
                let id = by_number(part.collective, row.number).unwrap();
                assert_eq!(id.algorithm().name, *name, "{}", part.collective);
            }
            let Some(last) = part.rows().last() else { continue };
            assert_eq!((last.max_size, last.max_bytes), (ANY, LONG), "{}", part.collective);
            let key = |row: &Row| (row.max_size, row.max_bytes);
            assert!(part.rows().windows(2).all(|pair| key(&pair[0]) < key(&pair[1])), "{}", part.collective);
        }
        for collective in Collective::ALL {
            assert!(fixed::PARTS.iter().any(|part| part.collective == collective), "{collective}");
        }
    }

    /// What `cargo xtask decisions` would write, for teams small enough to find out quickly; for all of them if
    /// `OXMPI_PLAN_SWEEP` is `all`.
    #[test]
    fn the_table_is_what_the_model_says() {
        let thorough = std::env::var_os("OXMPI_PLAN_SWEEP").is_some_and(|sweep| sweep == "all");
        for setup in Setup::ALL {
            for (collective, differs) in decisions::DECIDED {
                for commutative in if differs { &[true, false][..] } else { &[true][..] } {
                    let mut smaller = Vec::new();
                    for class in [true, false].into_iter().flat_map(decisions::classes) {
                        if class.min > 16 && !thorough {
                            continue;
                        }
                        if class.min == 3 {
                            smaller.clear();
                        }
                        let mut from = 0;
                        smaller = decisions::decide(setup, collective, *commutative, class, &smaller);
                        for decided in &smaller {
                            for bytes in [from, decided.max_bytes] {
                                let chosen = choose_on(
                                    Shared(setup),
                                    collective,
                                    class.min,
                                    Shared(bytes),
                                    *commutative,
                                );
                                let Chosen { algorithm, segment_bytes, fan_out, .. } = chosen;
                                let found = Candidate { algorithm, segment_bytes, fan_out };
                                assert_eq!(
                                    found, decided.candidate,
                                    "{collective} of {} ranks, {bytes} bytes, {setup}: cargo xtask decisions",
                                    class.min
                                );
                            }
                            from = decided.max_bytes.saturating_add(1);
                        }
                    }
                }
            }
        }
    }
}
