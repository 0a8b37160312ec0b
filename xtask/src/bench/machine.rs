//! The facts about the machine in a report.

use std::fs;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    /// The processors that this process may use.
    pub(crate) cores: u32,
    pub(crate) kernel: String,
    /// The load average over the last minute at the beginning of each round: our own launches count
    /// from the second on.
    pub(crate) loads: Vec<f64>,
}

impl Machine {
    pub(crate) fn here() -> Machine {
        let cpuinfo = read("/proc/cpuinfo");
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Machine {
            processor: value(&cpuinfo, "model name").unwrap_or(std::env::consts::ARCH).to_owned(),
            cores: cores.try_into().unwrap_or(u32::MAX),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            loads: Vec::new(),
        }
    }

    pub(crate) fn note_load(&mut self) {
        let load = read("/proc/loadavg");
        self.loads.extend(load.split(' ').next().and_then(|load| load.parse::<f64>().ok()));
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix(':'))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_processor_is_found() {
        let text = "processor\t: 0\nmodel name\t: A 3000 CPU\nmodel name\t: A 3000 CPU\n";
        assert_eq!(super::value(text, "model name"), Some("A 3000 CPU"));
        assert_eq!(super::value(text, "model"), None);
    }
}
