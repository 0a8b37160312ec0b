//! Hints (MPI-5.0, "File Info"): those of the standard and those of ROMIO. Unknown hints and
//! invalid values are ignored, as the standard requires. Hints change only the speed.

use oxmpi_objects::info::Info;

/// The value of a hint such as `romio_cb_read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    Enable,
    Disable,
    /// Enabled where it is likely to be faster.
    Automatic,
}

impl Switch {
    const fn name(self) -> &'static str {
        match self {
            Switch::Enable => "enable",
            Switch::Disable => "disable",
            Switch::Automatic => "automatic",
        }
    }

    fn parse(text: &str) -> Option<Switch> {
        let all = [Switch::Enable, Switch::Disable, Switch::Automatic];
        all.into_iter().find(|switch| switch.name().eq_ignore_ascii_case(text))
    }
}

/// The hints of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hints {
    /// How many ranks read and write in collective accesses (`cb_nodes`).
    pub aggregators: u32,
    /// The bytes of an aggregator's window (`cb_buffer_size`).
    pub aggregate_bytes: u64,
    /// Whether collective reads are two-phase (`romio_cb_read`).
    pub collective_read: Switch,
    /// Whether collective writes are two-phase (`romio_cb_write`).
    pub collective_write: Switch,
    /// Whether reads also read the gaps between pieces (`romio_ds_read`).
    pub sieve_read: Switch,
    /// Whether writes read the gaps between pieces and write them back (`romio_ds_write`).
    pub sieve_write: Switch,
    /// The bytes of a sieving read (`ind_rd_buffer_size`).
    pub read_bytes: u64,
    /// The bytes of a sieving write (`ind_wr_buffer_size`).
    pub write_bytes: u64,
}

pub const WORDS: usize = 8;

/// The upper limit of buffer sizes: a hint must not exhaust the memory.
const LARGEST_BUFFER: u64 = 1 << 30;

impl Hints {
    /// The default hints of a file of `ranks` ranks on a machine with `processors` processors.
    pub fn new(ranks: u32, processors: u32) -> Hints {
        Hints {
            aggregators: ranks.min(processors).max(1),
            aggregate_bytes: 16 << 20,
            collective_read: Switch::Automatic,
            collective_write: Switch::Automatic,
            sieve_read: Switch::Automatic,
            sieve_write: Switch::Automatic,
            read_bytes: 4 << 20,
            write_bytes: 512 << 10,
        }
    }

    /// These hints with the changes of `info`, for a file of `ranks` ranks.
    #[must_use]
    pub fn updated(self, info: &Info, ranks: u32) -> Hints {
        let mut hints = self;
        if let Some(both) = info.hint("collective_buffering").and_then(boolean) {
            let switch = if both { Switch::Enable } else { Switch::Disable };
            (hints.collective_read, hints.collective_write) = (switch, switch);
        }
        for (key, field) in [
            ("romio_cb_read", &mut hints.collective_read),
            ("romio_cb_write", &mut hints.collective_write),
            ("romio_ds_read", &mut hints.sieve_read),
            ("romio_ds_write", &mut hints.sieve_write),
        ] {
            if let Some(switch) = info.hint(key).and_then(Switch::parse) {
                *field = switch;
            }
        }
        for (key, field) in [
            ("cb_buffer_size", &mut hints.aggregate_bytes),
            ("ind_rd_buffer_size", &mut hints.read_bytes),
            ("ind_wr_buffer_size", &mut hints.write_bytes),
        ] {
            if let Some(bytes) = info.hint(key).and_then(positive) {
                *field = bytes.min(LARGEST_BUFFER);
            }
        }
        if let Some(nodes) = info.hint("cb_nodes").and_then(positive) {
            hints.aggregators = u32::try_from(nodes).unwrap_or(u32::MAX).min(ranks);
        }
        hints
    }

    /// All hints with their current values (`MPI_File_get_info`).
    pub fn info(self) -> Info {
        let mut info = Info::new();
        let mut set = |key: &str, value: &str| {
            // Keys and values fit in an info.
            let _ = info.set(key.as_bytes(), value.as_bytes());
        };
        set("cb_buffer_size", &self.aggregate_bytes.to_string());
        set("cb_nodes", &self.aggregators.to_string());
        set("ind_rd_buffer_size", &self.read_bytes.to_string());
        set("ind_wr_buffer_size", &self.write_bytes.to_string());
        set("romio_cb_read", self.collective_read.name());
        set("romio_cb_write", self.collective_write.name());
        set("romio_ds_read", self.sieve_read.name());
        set("romio_ds_write", self.sieve_write.name());
        info
    }

    /// The hints as words.
    pub fn encode(self) -> [u64; WORDS] {
        [
            u64::from(self.aggregators),
            self.aggregate_bytes,
            self.collective_read as u64,
            self.collective_write as u64,
            self.sieve_read as u64,
            self.sieve_write as u64,
            self.read_bytes,
            self.write_bytes,
        ]
    }

    /// The hints of these words. Invalid values are clamped.
    pub fn decode(words: [u64; WORDS]) -> Hints {
        let switch = |word| match word {
            0 => Switch::Enable,
            1 => Switch::Disable,
            _ => Switch::Automatic,
        };
        Hints {
            aggregators: u32::try_from(words[0]).unwrap_or(1).max(1),
            aggregate_bytes: words[1].clamp(1, LARGEST_BUFFER),
            collective_read: switch(words[2]),
            collective_write: switch(words[3]),
            sieve_read: switch(words[4]),
            sieve_write: switch(words[5]),
            read_bytes: words[6].clamp(1, LARGEST_BUFFER),
            write_bytes: words[7].clamp(1, LARGEST_BUFFER),
        }
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn positive(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|n| *n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_hints_are_applied_and_listed() {
        let mut info = Info::new();
        for (key, value) in [
            ("cb_nodes", "99"),
            ("cb_buffer_size", "4096"),
            ("romio_cb_write", "Enable"),
            ("romio_ds_read", "perhaps"),
            ("ind_rd_buffer_size", "-5"),
            ("striping_unit", "7"),
        ] {
            info.set(key.as_bytes(), value.as_bytes()).unwrap();
        }
        let hints = Hints::new(4, 2).updated(&info, 4);
        assert_eq!((hints.aggregators, hints.aggregate_bytes), (4, 4096));
        assert_eq!((hints.collective_write, hints.sieve_read), (Switch::Enable, Switch::Automatic));
        assert_eq!(hints.read_bytes, 4 << 20);
        assert_eq!(Hints::decode(hints.encode()), hints);
        let listed = hints.info();
        assert_eq!(listed.hint("romio_cb_write"), Some("enable"));
        assert_eq!((listed.len(), listed.hint("striping_unit")), (8, None));
        assert_eq!(Hints::new(4, 2).updated(&listed, 4), hints);
        info.set(b"collective_buffering", b"false").unwrap();
        assert_eq!(Hints::new(4, 2).updated(&info, 4).collective_read, Switch::Disable);
    }
}
