//! What is measured, and the lines in which rank 0 tells it.

/// One thing that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Latency,
    Bandwidth,
    Overlap,
    Idle,
}

impl What {
    pub(crate) const ALL: [What; 4] = [What::Latency, What::Bandwidth, What::Overlap, What::Idle];

    pub(crate) fn name(self) -> &'static str {
        match self {
            What::Latency => "latency",
            What::Bandwidth => "bandwidth",
            What::Overlap => "overlap",
            What::Idle => "idle",
        }
    }

    /// The lengths of its messages, bytes.
    pub(crate) fn sizes(self) -> &'static [usize] {
        match self {
            What::Latency => &[0, 8, 1 << 10, 8 << 10, 64 << 10, 1 << 20],
            What::Bandwidth => &[4 << 10, 64 << 10, 1 << 20, 4 << 20],
            What::Overlap => &[8 << 10, 1 << 20, 8 << 20],
            What::Idle => &[],
        }
    }
}

/// How much of a transfer is hidden behind computing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Overlap {
    /// The transfer alone, microseconds.
    pub(crate) transfer_us: f64,
    /// The computing alone, microseconds.
    pub(crate) computing_us: f64,
    /// Both together, microseconds.
    pub(crate) both_us: f64,
}

impl Overlap {
    /// The hidden part: 0 if both together take as long as one after the other, 1 if they take as long as the longer one.
    pub(crate) fn hidden(&self) -> f64 {
        let shorter = self.transfer_us.min(self.computing_us);
        if shorter <= 0.0 {
            return 0.0;
        }
        ((self.transfer_us + self.computing_us - self.both_us) / shorter).clamp(0.0, 1.0)
    }
}

/// All figures of one job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Bytes, and half a round trip in microseconds.
    pub(crate) latency: Vec<(u64, f64)>,
    /// Bytes, and megabytes (10^6) a second.
    pub(crate) bandwidth: Vec<(u64, f64)>,
    /// Bytes, and the overlap.
    pub(crate) overlap: Vec<(u64, Overlap)>,
    /// CPU seconds per second of a rank that waits.
    pub(crate) idle: Option<f64>,
}

/// The first word of a figure; whatever else a job prints is none.
const FIGURE: &str = "oxmpi-bench";

/// A figure in a line.
pub(crate) fn line(what: What, bytes: usize, values: &[f64]) -> String {
    let values: Vec<String> = values.iter().map(|value| format!(" {value:.6}")).collect();
    format!("{FIGURE} {} {bytes}{}\n", what.name(), values.concat())
}

impl Figures {
    /// Takes the figures out of what a job has printed.
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
    fn figures_are_read_as_they_are_told() {
        let text = line(What::Latency, 8, &[0.25])
            + "something else\n"
            + &line(What::Overlap, 8192, &[2.0, 2.5, 3.0])
            + &line(What::Idle, 0, &[0.001])
            + "oxmpi-bench latency 8 x\n";
        let all = Figures::parse(&text);
        assert_eq!((all.latency.as_slice(), all.idle), (&[(8, 0.25)][..], Some(0.001)));
        assert_eq!(all.overlap[0].1.hidden(), 0.75);
    }

    #[test]
    fn what_is_hidden_lies_between_nothing_and_all() {
        let overlap = |both_us| Overlap { transfer_us: 4.0, computing_us: 5.0, both_us }.hidden();
        assert_eq!([9.0, 12.0, 7.0, 5.0, 4.9].map(overlap), [0.0, 0.0, 0.5, 1.0, 1.0]);
        assert_eq!(Overlap { transfer_us: 0.0, computing_us: 1.0, both_us: 1.0 }.hidden(), 0.0);
    }
}
