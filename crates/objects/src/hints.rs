//! Promises of a program about a communicator, by info hints (MPI-5.0 section 7.4.4). Unknown hints
//! and invalid values are ignored, as the standard requires. A promise does not change the results
//! of a correct program.

use crate::info::Info;

/// The promises for a communicator, in one byte for an atomic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommHints(u8);

/// A promise of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Assertion {
    NoAnyTag = 1,
    NoAnySource = 2,
    /// Each message is as long as its receive buffer.
    ExactLength = 4,
    /// Messages need not be matched in the order in which they were sent.
    AllowOvertaking = 8,
}

const KEYS: [(&str, Assertion); 4] = [
    ("mpi_assert_no_any_tag", Assertion::NoAnyTag),
    ("mpi_assert_no_any_source", Assertion::NoAnySource),
    ("mpi_assert_exact_length", Assertion::ExactLength),
    ("mpi_assert_allow_overtaking", Assertion::AllowOvertaking),
];

impl CommHints {
    /// The hints with these bits.
    pub const fn from_bits(bits: u8) -> CommHints {
        CommHints(bits)
    }

    /// The hints as bits.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether the program makes this promise.
    pub const fn asserts(self, assertion: Assertion) -> bool {
        self.0 & assertion as u8 != 0
    }

    /// These hints with the changes of `info`.
    #[must_use]
    pub fn updated(self, info: &Info) -> CommHints {
        let mut bits = self.0;
        for (key, assertion) in KEYS {
            match info.hint(key) {
                Some("true") => bits |= assertion as u8,
                Some("false") => bits &= !(assertion as u8),
                _ => {}
            }
        }
        CommHints(bits)
    }

    /// All hints with their current values (`MPI_Comm_get_info`).
    pub fn info(self) -> Info {
        let mut info = Info::new();
        for (key, assertion) in KEYS {
            let value = if self.asserts(assertion) { "true" } else { "false" };
            // Keys and values fit in an info.
            let _ = info.set(key.as_bytes(), value.as_bytes());
        }
        info
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_come_back_as_they_were_set() {
        let mut info = Info::new();
        info.set(b"mpi_assert_exact_length", b"true").unwrap();
        info.set(b"mpi_assert_no_any_tag", b"perhaps").unwrap();
        info.set(b"colour", b"true").unwrap();
        let hints = CommHints::default().updated(&info);
        assert!(hints.asserts(Assertion::ExactLength) && !hints.asserts(Assertion::NoAnyTag));
        assert_eq!(hints.info().len(), KEYS.len());
        assert_eq!(hints.info().hint("mpi_assert_exact_length"), Some("true"));
        assert_eq!(hints.info().hint("mpi_assert_no_any_source"), Some("false"));
        assert_eq!(CommHints::default().updated(&hints.info()), hints);
        info.set(b"mpi_assert_exact_length", b"false").unwrap();
        assert_eq!(hints.updated(&info), CommHints::default());
    }
}
