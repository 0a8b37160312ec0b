//! The distance between the two cores of a figure.
//!
//! The host of a virtual machine may move its cores every few seconds: sometimes they share a
//! cache, sometimes not. Messages between two ranks then cost three times as much or more, and a
//! median over both is meaningless.

use serde::{Deserialize, Serialize};

/// Microseconds of a cache line from one core to the other. On all measured machines: 0.03 to 0.08
/// between cores that share a cache, 0.2 to 0.3 between others. The limits leave room on either
/// side. Between the limits, the cores were moved while the line was timed.
const NEAR_BELOW: f64 = 0.12;
const FAR_ABOVE: f64 = 0.15;
/// A machine has both kinds of samples if one in this number is of the rarer kind: fewer are
/// disturbances.
const FEWEST: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Distance {
    Near,
    Far,
    /// The cores were moved meanwhile, or are neither near nor far.
    Between,
}

impl Distance {
    /// By the microseconds of a line before and after the figure.
    pub(crate) fn of(line: [f64; 2]) -> Distance {
        if line.iter().all(|&time| time < NEAR_BELOW) {
            Distance::Near
        } else if line.iter().all(|&time| time > FAR_ABOVE) {
            Distance::Far
        } else {
            Distance::Between
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Distance::Near => "near",
            Distance::Far => "far",
            Distance::Between => "between",
        }
    }
}

/// The distances by which samples are distinguished: near and far if the machine has both, else
/// none.
pub(crate) fn distinguished(samples: impl Iterator<Item = Distance>) -> &'static [Distance] {
    let (mut near, mut far) = (0, 0);
    for distance in samples {
        match distance {
            Distance::Near => near += 1,
            Distance::Far => far += 1,
            Distance::Between => {}
        }
    }
    let least: usize = std::cmp::min(near, far);
    if least > 0 && least * FEWEST >= near + far { &[Distance::Near, Distance::Far] } else { &[] }
}

#[cfg(test)]
mod tests {
    use super::Distance::{Between, Far, Near};
    use super::*;

    #[test]
    fn the_programs_have_the_same_limits() {
        let header = include_str!("../../../bench/line.h");
        for (name, limit) in [("NEAR_BELOW", NEAR_BELOW), ("FAR_ABOVE", FAR_ABOVE)] {
            assert!(header.contains(&format!("#define {name} {limit}\n")), "{name}");
        }
    }

    #[test]
    fn both_times_of_a_line_decide() {
        for (line, distance) in [
            ([0.06, 0.08], Near),
            ([0.22, 0.25], Far),
            ([0.06, 0.25], Between),
            ([0.25, 0.06], Between),
            ([0.13, 0.13], Between),
        ] {
            assert_eq!(Distance::of(line), distance, "{line:?}");
        }
    }

    #[test]
    fn a_machine_of_one_distance_tells_nothing_apart() {
        assert!(distinguished([].into_iter()).is_empty());
        assert!(distinguished([Far; 9].into_iter()).is_empty());
        assert!(distinguished([Between; 9].into_iter()).is_empty());
        // One far sample among near ones is a disturbance.
        assert!(distinguished([Near; 40].into_iter().chain([Far])).is_empty());
        assert_eq!(distinguished([Near, Near, Between, Far].into_iter()), [Near, Far]);
    }
}
