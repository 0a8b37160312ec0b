//! The time for which a job was frozen, from CRIU's file `stats-dump`: two magic numbers, a length,
//! and a message in the encoding of Protocol Buffers.

use std::path::Path;

use super::message::{Field, field};

const STATS: &str = "stats-dump";
const HEADER: usize = 12;
/// The message `dump` in `stats_entry`.
const DUMP: u64 = 1;
/// The field `frozen_time` of `dump`, in microseconds.
const FROZEN: u64 = 2;

/// Seconds, if the file exists in `directory`.
pub fn pause_s(directory: &Path) -> Option<f64> {
    pause_in(&std::fs::read(directory.join(STATS)).ok()?)
}

fn pause_in(file: &[u8]) -> Option<f64> {
    let Field::Bytes(dump) = field(file.get(HEADER..)?, DUMP)? else { return None };
    match field(dump, FROZEN)? {
        Field::Number(us) => Some(us as f64 / 1e6),
        Field::Bytes(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_time_is_found() {
        let header = [0; HEADER];
        // dump { freezing_time: 300, frozen_time: 250000 }
        let message = [0x0a, 7, 0x08, 0xac, 0x02, 0x10, 0x90, 0xa1, 0x0f];
        assert_eq!(pause_in(&[&header[..], &message].concat()), Some(0.25));
        assert_eq!(pause_in(&[&header[..], &message[..5]].concat()), None);
        assert_eq!(pause_in(&[]), None);
    }

    proptest! {
        #[test]
        fn no_file_makes_it_panic(file in any::<Vec<u8>>()) {
            let _ = pause_in(&file);
        }
    }
}
