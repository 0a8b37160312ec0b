//! The choice among the algorithms of a collective.
//!
//! The choice depends only on shared knowledge, so it is the same on all ranks, and it obeys
//! restrictions, so it is legal. The cost model computes the table of choices
//! ([`decisions`](crate::decisions)).

mod fixed;

use std::fmt;

use crate::call::Collective;
use crate::decisions::Candidate;
use crate::knowledge::Shared;
use crate::table::{AlgorithmId, Parameters, by_number, first};

/// Whether the ranks of a team share processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Setup {
    #[default]
    Dedicated,
    Oversubscribed,
}

impl Setup {
    pub const ALL: [Setup; 2] = [Setup::Dedicated, Setup::Oversubscribed];
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Setup::Dedicated => "a processor for each rank",
            Setup::Oversubscribed => "more ranks than processors",
        })
    }
}

/// An algorithm that is legal for the call, the same on all ranks.
///
/// `bytes`: [`Call::count`](crate::Call::count) in bytes. `commutative`:
/// [`Call::commutative`](crate::Call::commutative).
#[must_use]
pub fn choose(
    collective: Collective,
    size: u32,
    bytes: Shared<usize>,
    commutative: bool,
) -> AlgorithmId {
    choose_within(collective, size, bytes, commutative).algorithm
}

/// A choice, and the bounds within which it stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub algorithm: AlgorithmId,
    /// Bytes of a segment; 0: the algorithm's default.
    pub segment_bytes: usize,
    /// 0: the algorithm's default.
    pub fan_out: u32,
    /// The largest team of the table's row; `u32::MAX`: any.
    pub max_size: u32,
    /// The most bytes of the table's row; `usize::MAX`: any number.
    pub max_bytes: usize,
    pub setup: Setup,
    /// The numbers of ranks of the table's row: powers of two, all other numbers, or both (`None`).
    pub powers_of_two: Option<bool>,
}

impl Chosen {
    /// The parameters for a plan whose unit has `unit` bytes.
    #[must_use]
    pub fn parameters(&self, unit: usize) -> Parameters {
        let Chosen { algorithm, segment_bytes, fan_out, .. } = *self;
        Candidate { algorithm, segment_bytes, fan_out }.parameters(unit)
    }
}

/// [`choose`] with the parameters and the bounds of the choice, for ranks with a processor each.
#[must_use]
pub fn choose_within(
    collective: Collective,
    size: u32,
    bytes: Shared<usize>,
    commutative: bool,
) -> Chosen {
    choose_on(Shared(Setup::Dedicated), collective, size, bytes, commutative)
}

/// [`choose_within`] for this `setup`.
#[must_use]
pub fn choose_on(
    setup: Shared<Setup>,
    collective: Collective,
    size: u32,
    bytes: Shared<usize>,
    commutative: bool,
) -> Chosen {
    let setup = setup.0;
    let is_it = |part: &&DecisionTable| {
        part.collective == collective
            && part.setup.is_none_or(|other| other == setup)
            && part.commutative.is_none_or(|other| other == commutative)
            && part.powers_of_two.is_none_or(|other| other == size.is_power_of_two())
    };
    let found = fixed::PARTS.iter().filter(is_it).find_map(|part| {
        let row =
            part.rows().iter().find(|row| size <= row.max_size && bytes.0 <= row.max_bytes)?;
        Some((row, part.powers_of_two))
    });
    // Only a part without rows has no such row. A test checks that the rows of other parts end with
    // a row without bounds.
    let (row, powers_of_two) = found.unwrap_or((&DecisionRow::LAST, None));
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

/// The decisions for a collective. Without rows the first algorithm is chosen, which needs no
/// lengths that the ranks do not share.
#[derive(Clone, Copy, Debug)]
struct DecisionTable {
    collective: Collective,
    /// `None`: for any number of processors.
    setup: Option<Setup>,
    /// `None`: for all operations.
    commutative: Option<bool>,
    /// Numbers of ranks that are powers of two, or all others; `None`: both.
    powers_of_two: Option<bool>,
    /// The rows of this part in [`fixed::ROWS`], by ascending size, then by ascending length. The
    /// first row that fits counts.
    rows_begin: usize,
    rows_end: usize,
}

impl DecisionTable {
    const NONE: DecisionTable = DecisionTable {
        collective: Collective::Barrier,
        setup: None,
        commutative: None,
        powers_of_two: None,
        rows_begin: 0,
        rows_end: 0,
    };

    fn rows(&self) -> &'static [DecisionRow] {
        fixed::ROWS.get(self.rows_begin..self.rows_end).unwrap_or_default()
    }
}

/// The decision for teams of at most `max_size` ranks and at most `max_bytes`.
#[derive(Clone, Copy, Debug)]
struct DecisionRow {
    max_size: u32,
    max_bytes: usize,
    number: u8,
    segment_bytes: u32,
    fan_out: u16,
}

impl DecisionRow {
    const LAST: DecisionRow =
        DecisionRow { max_size: ANY, max_bytes: LONG, number: 1, segment_bytes: 0, fan_out: 0 };
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
        let lines =
            text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("part "));
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
            let key = |row: &DecisionRow| (row.max_size, row.max_bytes);
            assert!(
                part.rows().windows(2).all(|pair| key(&pair[0]) < key(&pair[1])),
                "{}",
                part.collective
            );
        }
        for collective in Collective::ALL {
            assert!(fixed::PARTS.iter().any(|part| part.collective == collective), "{collective}");
        }
    }

    /// The table is the output of `cargo xtask decisions`. Checks small teams; all teams if
    /// `OXMPI_PLAN_SWEEP` is `all`.
    #[test]
    fn the_table_agrees_with_the_model() {
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
                        smaller =
                            decisions::decide(setup, collective, *commutative, class, &smaller);
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
