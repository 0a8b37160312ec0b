//! Hints of a program about a window (MPI-5.0 section 12.2.1).

use crate::error::{MpiError, Result};
use crate::info::Info;
use oxmpi_abi::constants as abi;

/// The hints of a window. They are promises: results are right without them too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowHints {
    pub no_locks: bool,
    /// The promised order of accumulates (`accumulate_ordering`). The library keeps every order.
    ordering: String,
    /// The promised operations (`accumulate_ops`). The library allows all.
    same_op: bool,
    /// The bytes in which accumulates may be split (`mpi_accumulate_granularity`); 0 for whole
    /// elements.
    granularity: u64,
    pub same_size: bool,
    pub same_disp_unit: bool,
    /// Whether the parts of shared memory need not be adjacent (`alloc_shared_noncontig`).
    pub noncontiguous: bool,
    /// The alignment of allocated memory, in bytes (`mpi_minimum_memory_alignment`).
    pub alignment: usize,
}

/// In bytes, without a hint.
const ALIGNMENT: usize = 64;

impl Default for WindowHints {
    fn default() -> WindowHints {
        WindowHints {
            no_locks: false,
            ordering: "rar,raw,war,waw".into(),
            same_op: false,
            granularity: 0,
            same_size: false,
            same_disp_unit: false,
            noncontiguous: false,
            alignment: ALIGNMENT,
        }
    }
}

impl WindowHints {
    /// These hints with the changes of `info`. Unknown keys and invalid values are ignored, except
    /// that an alignment that is no power of two fails with MPI_ERR_INFO_VALUE.
    pub fn updated(mut self, info: &Info) -> Result<WindowHints> {
        for (key, hint) in [
            ("no_locks", &mut self.no_locks),
            ("same_size", &mut self.same_size),
            ("same_disp_unit", &mut self.same_disp_unit),
            ("alloc_shared_noncontig", &mut self.noncontiguous),
        ] {
            match info.hint(key) {
                Some("true") => *hint = true,
                Some("false") => *hint = false,
                _ => {}
            }
        }
        if let Some(ordering) = info.hint("accumulate_ordering") {
            let known = |word: &str| matches!(word.trim(), "rar" | "raw" | "war" | "waw");
            if ordering == "none" || ordering.split(',').all(known) {
                self.ordering = ordering.into();
            }
        }
        match info.hint("accumulate_ops") {
            Some("same_op") => self.same_op = true,
            Some("same_op_no_op") => self.same_op = false,
            _ => {}
        }
        if let Some(bytes) =
            info.hint("mpi_accumulate_granularity").and_then(|v| v.trim().parse().ok())
        {
            self.granularity = bytes;
        }
        if let Some(wanted) = info.hint("mpi_minimum_memory_alignment") {
            let align = wanted.trim().parse::<usize>().ok().filter(|align| align.is_power_of_two());
            let Some(align) = align else {
                let text =
                    format!("mpi_minimum_memory_alignment is {wanted}; it must be a power of two");
                return Err(MpiError::new(abi::MPI_ERR_INFO_VALUE, text));
            };
            self.alignment = align.max(ALIGNMENT);
        }
        Ok(self)
    }

    /// Whether accumulates may be split into words (`mpi_accumulate_granularity` of 1 to 8).
    pub fn has_short_accumulates(&self) -> bool {
        (1..=8).contains(&self.granularity)
    }

    /// All hints with their current values (`MPI_Win_get_info`).
    pub fn info(&self) -> Info {
        let mut info = Info::new();
        let mut set = |key: &str, value: &str| {
            // Keys fit in an info; values came from an info or are shorter.
            let _ = info.set(key.as_bytes(), value.as_bytes());
        };
        let truth = |value: bool| if value { "true" } else { "false" };
        set("no_locks", truth(self.no_locks));
        set("accumulate_ordering", &self.ordering);
        set("accumulate_ops", if self.same_op { "same_op" } else { "same_op_no_op" });
        set("mpi_accumulate_granularity", &self.granularity.to_string());
        set("same_size", truth(self.same_size));
        set("same_disp_unit", truth(self.same_disp_unit));
        set("alloc_shared_noncontig", truth(self.noncontiguous));
        set("mpi_minimum_memory_alignment", &self.alignment.to_string());
        info
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accumulates_of_up_to_a_word_are_short() {
        for (bytes, are_short) in
            [("0", false), ("1", true), ("8", true), ("9", false), ("-1", false)]
        {
            let mut info = Info::new();
            info.set(b"mpi_accumulate_granularity", bytes.as_bytes()).unwrap();
            let hints = WindowHints::default().updated(&info).unwrap();
            assert_eq!(hints.has_short_accumulates(), are_short, "{bytes}");
        }
        assert!(!WindowHints::default().has_short_accumulates());
    }

    #[test]
    fn hints_come_back_as_they_were_set() {
        let mut info = Info::new();
        info.set(b"no_locks", b"true").unwrap();
        info.set(b"accumulate_ordering", b"rar,waw").unwrap();
        info.set(b"accumulate_ops", b"same_op").unwrap();
        info.set(b"mpi_minimum_memory_alignment", b"4096").unwrap();
        info.set(b"same_size", b"perhaps").unwrap();
        let hints = WindowHints::default().updated(&info).unwrap();
        assert!(hints.no_locks && !hints.same_size && hints.alignment == 4096);
        let shown = hints.info();
        assert_eq!(shown.hint("accumulate_ordering"), Some("rar,waw"));
        assert_eq!(shown.hint("same_size"), Some("false"));
        assert_eq!(WindowHints::default().updated(&shown).unwrap(), hints);
        info.set(b"mpi_minimum_memory_alignment", b"48").unwrap();
        assert_eq!(hints.updated(&info).unwrap_err().class(), abi::MPI_ERR_INFO_VALUE);
    }
}
