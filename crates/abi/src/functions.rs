//! The 664 functions of the standard and their numbers.

use crate::extensions::FUNCTIONS;
use std::fmt;

/// A function of the C interface.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// The C name `MPI_X`; the function is also exported as `PMPI_X`.
    pub name: &'static str,
    pub result: &'static str,
    /// The C parameters: types and names, separated by commas, or `void`.
    pub params: &'static str,
}

/// A function beyond the standard; its result is an error code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extension {
    pub(crate) name: &'static str,
    pub(crate) params: &'static str,
}

/// The number of functions, each of which is exported twice.
pub const FUNCTION_COUNT: usize = 664;

/// A function, by its index in the alphabetical table.
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
        if (index as usize) < FUNCTION_COUNT + FUNCTIONS.len() { Some(FuncId(index)) } else { None }
    }

    /// The function with this C name (`MPI_Send`; not `PMPI_Send`).
    pub fn from_name(name: &str) -> Option<FuncId> {
        let (mut low, mut high) = (0, FUNCTION_COUNT as u16);
        while low < high {
            let middle = FuncId(low + (high - low) / 2);
            match middle.name().cmp(name) {
                std::cmp::Ordering::Less => low = middle.0 + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle.0,
            }
        }
        None
    }

    /// The C name.
    pub fn name(self) -> &'static str {
        let at = usize::from(self.0);
        if let Some(extension) = at.checked_sub(FUNCTION_COUNT) {
            return FUNCTIONS[extension].name;
        }
        &table::NAMES[usize::from(table::STARTS[at])..usize::from(table::STARTS[at + 1]) - 1]
    }

    /// All functions of the standard, in order.
    pub fn all() -> impl ExactSizeIterator<Item = FuncId> {
        (0..FUNCTION_COUNT as u16).map(FuncId)
    }

    pub(crate) fn extensions() -> impl ExactSizeIterator<Item = FuncId> {
        let first = FUNCTION_COUNT as u16;
        (first..first + FUNCTIONS.len() as u16).map(FuncId)
    }

    /// The prototype of a function of the standard. A program that calls this links the whole table
    /// (about 90 kB).
    pub fn function(self) -> &'static Function {
        &table::FUNCTIONS[usize::from(self.0)]
    }
}

macro_rules! extensions {
    ($($name:ident = $at:literal)*) => {
        #[allow(non_upper_case_globals)]
        impl FuncId {
            $(
                #[doc = concat!("`", stringify!($name), "`.")]
                pub const $name: FuncId = FuncId(FUNCTION_COUNT as u16 + $at);
            )*
        }
    };
}

extensions! {
    MPIX_Comm_ack_failed = 0
    MPIX_Comm_agree = 1
    MPIX_Comm_get_failed = 2
    MPIX_Comm_iagree = 3
    MPIX_Comm_is_revoked = 4
    MPIX_Comm_ishrink = 5
    MPIX_Comm_revoke = 6
    MPIX_Comm_shrink = 7
    MPIX_File_revoke = 8
    MPIX_Win_get_failed = 9
    MPIX_Win_revoke = 10
    MPIX_Query_cuda_support = 11
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

/// The start of each name in a text of names that end in a newline, and the end of the text.
///
/// One text with 16-bit offsets needs no relocations, unlike a table of string slices, in which the
/// loader relocates each slice at each start of a program.
const fn starts(names: &str) -> [u16; FUNCTION_COUNT + 1] {
    let bytes = names.as_bytes();
    assert!(bytes.len() <= u16::MAX as usize);
    let mut starts = [0; FUNCTION_COUNT + 1];
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() {
        if bytes[at] == b'\n' {
            count += 1;
            starts[count] = at as u16 + 1;
        }
        at += 1;
    }
    assert!(count == FUNCTION_COUNT);
    starts
}

macro_rules! prototypes {
    ($($result:ident $name:ident($params:literal);)*) => {
        pub(super) const NAMES: &str = concat!($(stringify!($name), "\n"),*);
        pub(super) static STARTS: [u16; super::FUNCTION_COUNT + 1] = starts(NAMES);
        pub(super) static FUNCTIONS: [Function; super::FUNCTION_COUNT] = [
            $(Function { name: stringify!($name), result: stringify!($result), params: $params }),*
        ];

        /// The compiler numbers the names of an enumeration.
        #[allow(non_camel_case_types)]
        enum FuncIndex { $($name),* }

        #[allow(non_upper_case_globals)]
        impl FuncId {
            $(
                #[doc = concat!("`", stringify!($result), " ", stringify!($name), "(", $params, ")`")]
                pub const $name: FuncId = FuncId(FuncIndex::$name as u16);
            )*
        }
    };
}

mod table;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_numbers_and_prototypes_agree() {
        assert_eq!(FuncId::all().len(), 664);
        for id in FuncId::all() {
            assert_eq!(id.name(), id.function().name);
            assert_eq!(FuncId::from_name(id.name()), Some(id));
            assert_eq!(FuncId::from_index(id.index()), Some(id));
        }
        assert_eq!(FuncId::MPI_Send.name(), "MPI_Send");
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
            assert!(plain.function().params.contains("MPI_Count count"), "{plain}");
            assert_eq!(plain.function().params, large.function().params);
        }
    }
}
