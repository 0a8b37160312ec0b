//! The functions of the interface and their numbers.

use crate::table::{self, Function};
use std::fmt;

include!(concat!(env!("OUT_DIR"), "/functions.rs"));

/// A function, by its place in the list of [`table::functions`].
///
/// Each MPI call stores this number, so that a report on a failed process can name the last call.
/// The numbers are valid within one build of the library only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FuncId(u16);

impl FuncId {
    /// Below [`FUNCTION_COUNT`] for functions of the standard; functions beyond the standard
    /// follow.
    #[inline]
    pub const fn index(self) -> u16 {
        self.0
    }

    /// The function with this index; `None` for an invalid index.
    pub const fn from_index(index: u16) -> Option<FuncId> {
        if (index as usize) < COUNT { Some(FuncId(index)) } else { None }
    }

    /// The function with this C name (`MPI_Send`; not `PMPI_Send`).
    pub fn from_name(name: &str) -> Option<FuncId> {
        (0..COUNT as u16).map(FuncId).find(|id| id.name() == name)
    }

    /// The C name.
    pub fn name(self) -> &'static str {
        let at = usize::from(self.0);
        &NAMES[usize::from(STARTS[at])..usize::from(STARTS[at + 1]) - 1]
    }

    /// All functions of the standard, in order.
    pub fn all() -> impl ExactSizeIterator<Item = FuncId> {
        (0..FUNCTION_COUNT as u16).map(FuncId)
    }

    /// All functions beyond the standard, in order.
    pub fn extensions() -> impl ExactSizeIterator<Item = FuncId> {
        (FUNCTION_COUNT as u16..COUNT as u16).map(FuncId)
    }

    /// The facts of the table. A program that calls this links the texts of the table.
    pub fn function(self) -> &'static Function {
        &table::functions()[usize::from(self.0)]
    }
}

impl fmt::Display for FuncId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for FuncId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const COUNT: usize = FUNCTION_COUNT + EXTENSION_COUNT;

/// The start of each name, and the end of the text.
///
/// One text with 16-bit offsets needs no relocations, unlike a table of string slices, in which the
/// loader relocates each slice at each start of a program.
static STARTS: [u16; COUNT + 1] = starts(NAMES);

const fn starts(names: &str) -> [u16; COUNT + 1] {
    let bytes = names.as_bytes();
    assert!(bytes.len() <= u16::MAX as usize);
    let mut starts = [0; COUNT + 1];
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() {
        if bytes[at] == b'\n' {
            count += 1;
            starts[count] = at as u16 + 1;
        }
        at += 1;
    }
    assert!(count == COUNT);
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_numbers_and_prototypes_agree() {
        assert_eq!(FuncId::all().len(), 664);
        for id in FuncId::all().chain(FuncId::extensions()) {
            assert_eq!(id.name(), id.function().name);
            assert_eq!(FuncId::from_name(id.name()), Some(id));
            assert_eq!(FuncId::from_index(id.index()), Some(id));
        }
        assert_eq!(FuncId::MPI_Send.name(), "MPI_Send");
        assert_eq!(FuncId::MPIX_Comm_agree.name(), "MPIX_Comm_agree");
        assert_eq!(FuncId::from_name("PMPI_Send"), None);
        assert_eq!(FuncId::from_index(u16::MAX), None);
    }

    #[test]
    fn names_are_sorted_and_unique() {
        let names: Vec<_> = FuncId::all().map(FuncId::name).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
    }

    /// In MPI-5.0 both forms of these functions have large counts and the same prototype.
    #[test]
    fn partitioned_forms_have_large_counts() {
        for (plain, large) in [
            (FuncId::MPI_Psend_init, FuncId::MPI_Psend_init_c),
            (FuncId::MPI_Precv_init, FuncId::MPI_Precv_init_c),
        ] {
            let (plain, large) = (plain.function().prototype(), large.function().prototype());
            assert!(plain.contains("MPI_Count count"), "{plain}");
            assert_eq!(plain.replace("init(", "init_c("), large);
        }
    }
}
