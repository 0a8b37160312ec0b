//! The best interval between checkpoints, from their cost and the machine's failure rate.
//!
//! Young's interval is `sqrt(2 C M)` for a cost `C` and a mean time between failures `M`. Daly's
//! estimate of higher order holds also where `C` is no longer small compared with `M`: `sqrt(2 C M)
//! (1 + sqrt(C / 2M) / 3 + (C / 2M) / 9) - C` for `C < 2M`, else `M` (J. T. Daly, "A higher order
//! estimate of the optimum checkpoint interval for restart dumps", FGCS 22, 2006).

/// The best time of computing between two checkpoints, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub young_s: f64,
    pub daly_s: f64,
    /// The fraction of time lost to checkpoints and repeated work, with Daly's interval.
    pub lost: f64,
}

/// The interval for checkpoints that stop the job for `cost_s` on a machine that fails every
/// `mtbf_s`; `None` unless both times are positive.
pub fn interval(cost_s: f64, mtbf_s: f64) -> Option<Interval> {
    let is_time = |seconds: f64| seconds.is_finite() && seconds > 0.0;
    if !is_time(cost_s) || !is_time(mtbf_s) {
        return None;
    }
    let young_s = (2.0 * cost_s * mtbf_s).sqrt();
    let part = cost_s / (2.0 * mtbf_s);
    let daly_s =
        if part < 1.0 { young_s * (1.0 + part.sqrt() / 3.0 + part / 9.0) - cost_s } else { mtbf_s };
    // To first order: one checkpoint per interval, and half an interval of repeated work per
    // failure.
    let lost = (cost_s / (daly_s + cost_s) + (daly_s + cost_s) / (2.0 * mtbf_s)).min(1.0);
    Some(Interval { young_s, daly_s, lost })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_papers() {
        // Daly's example: a cost of 5 minutes, a failure every 6 hours.
        let found = interval(300.0, 21600.0).unwrap();
        assert!((found.young_s - 3600.0).abs() < 1e-6, "{found:?}");
        assert!((3300.0..3500.0).contains(&found.daly_s), "{found:?}");
        assert_eq!(interval(100.0, 40.0).unwrap().daly_s, 40.0);
        assert_eq!(
            (interval(0.0, 1.0), interval(1.0, -1.0), interval(f64::NAN, 1.0)),
            (None, None, None)
        );
    }

    #[test]
    fn a_cheaper_checkpoint_is_made_more_often_and_loses_less() {
        let (dear, cheap) = (interval(60.0, 86400.0).unwrap(), interval(0.5, 86400.0).unwrap());
        assert!(cheap.daly_s < dear.daly_s && cheap.lost < dear.lost, "{cheap:?} {dear:?}");
    }
}
