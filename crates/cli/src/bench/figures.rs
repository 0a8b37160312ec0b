//! The quantities that are measured, and the lines in which rank 0 reports them.

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Measurement {
    Latency,
    Bandwidth,
    Overlap,
    Idle,
}

impl Measurement {
    pub(crate) const ALL: [Measurement; 4] =
        [Measurement::Latency, Measurement::Bandwidth, Measurement::Overlap, Measurement::Idle];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Measurement::Latency => "latency",
            Measurement::Bandwidth => "bandwidth",
            Measurement::Overlap => "overlap",
            Measurement::Idle => "idle",
        }
    }

    pub(crate) fn sizes(self) -> &'static [usize] {
        match self {
            Measurement::Latency => &[0, 8, 1 << 10, 8 << 10, 64 << 10, 1 << 20],
            Measurement::Bandwidth => &[4 << 10, 64 << 10, 1 << 20, 4 << 20],
            Measurement::Overlap => &[8 << 10, 1 << 20, 8 << 20],
            Measurement::Idle => &[],
        }
    }
}

/// The times of a transfer alone, of computing alone, and of both at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Overlap {
    pub(crate) transfer_us: f64,
    pub(crate) computing_us: f64,
    pub(crate) both_us: f64,
}

impl Overlap {
    /// The hidden share of the shorter part: 0 if both together take as long as one after the
    /// other, 1 if they take only as long as the longer part.
    pub(crate) fn hidden(&self) -> f64 {
        let shorter = self.transfer_us.min(self.computing_us);
        if shorter <= 0.0 {
            return 0.0;
        }
        ((self.transfer_us + self.computing_us - self.both_us) / shorter).clamp(0.0, 1.0)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Bytes, and half a round trip in microseconds.
    pub(crate) latency: Vec<(u64, f64)>,
    /// Bytes, and megabytes (10^6) a second.
    pub(crate) bandwidth: Vec<(u64, f64)>,
    pub(crate) overlap: Vec<(u64, Overlap)>,
    /// CPU seconds per second of a waiting rank.
    pub(crate) idle: Option<f64>,
}

/// The first word of a line with a figure. All other lines of a job's output are skipped.
const FIGURE: &str = "oxmpi-bench";

pub(crate) fn line(what: Measurement, bytes: usize, values: &[f64]) -> String {
    let values: Vec<String> = values.iter().map(|value| format!(" {value:.6}")).collect();
    format!("{FIGURE} {} {bytes}{}\n", what.name(), values.concat())
}

impl Figures {
    pub(crate) fn parse(text: &str) -> Figures {
        let mut all = Figures::default();
        text.lines().for_each(|line| _ = all.take(line));
        all
    }

    fn take(&mut self, line: &str) -> Option<()> {
        let mut words = line.strip_prefix(FIGURE)?.split_whitespace();
        let (what, bytes) = (words.next()?, words.next()?.parse().ok()?);
        let values: Vec<f64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        match (what, &values[..]) {
            ("latency", [us]) => self.latency.push((bytes, *us)),
            ("bandwidth", [rate]) => self.bandwidth.push((bytes, *rate)),
            ("overlap", &[transfer_us, computing_us, both_us]) => {
                self.overlap.push((bytes, Overlap { transfer_us, computing_us, both_us }));
            }
            ("idle", [share]) => self.idle = Some(*share),
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_survive_the_line_format() {
        let text = line(Measurement::Latency, 8, &[0.25])
            + "something else\n"
            + &line(Measurement::Overlap, 8192, &[2.0, 2.5, 3.0])
            + &line(Measurement::Idle, 0, &[0.001])
            + "oxmpi-bench latency 8 x\n";
        let all = Figures::parse(&text);
        assert_eq!((all.latency.as_slice(), all.idle), (&[(8, 0.25)][..], Some(0.001)));
        assert_eq!(all.overlap[0].1.hidden(), 0.75);
    }

    #[test]
    fn hidden_share_lies_between_zero_and_one() {
        let overlap = |both_us| Overlap { transfer_us: 4.0, computing_us: 5.0, both_us }.hidden();
        assert_eq!([9.0, 12.0, 7.0, 5.0, 4.9].map(overlap), [0.0, 0.0, 0.5, 1.0, 1.0]);
        assert_eq!(Overlap { transfer_us: 0.0, computing_us: 1.0, both_us: 1.0 }.hidden(), 0.0);
    }
}
