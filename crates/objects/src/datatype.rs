//! Datatypes: a layout, its constructor, and the predefined types of its elements.
//!
//! A constructor is a function of `(form, arguments, old type)`. The [`Form`] tells the plain
//! function (counts are `int`) from the `_c` function (counts are `MPI_Count`), since
//! `MPI_Type_get_contents` returns arguments in the same form. A datatype keeps the types from
//! which it was made, so a program may free these at once.
//!
//! Programs make types in inner loops, and use few of them often. So a constructor only checks and
//! records its arguments, and computes size and bounds. Layout and signature are computed at the
//! first use ([`Datatype::layout`], [`Datatype::signature`]).
//! [`Datatype::signature`]).

use crate::attribute::Attributes;
use crate::error::{MpiError, Result};
use crate::predefined::PredefinedType;
use oxmpi_abi::constants as abi;
use oxmpi_mem::bounds::Bounds;
use oxmpi_mem::kernels::Scalar;
use oxmpi_mem::layout::{Layout, LayoutError};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

mod array;
mod construct;
mod contents;
mod definition;
mod external;
mod file;
mod fortran;
mod signature;

pub use array::{ArrayOrder, Distribution};
pub use contents::{Constituents, Contents, ShortList};
pub use external::{check_representation, is_predefined_name};
pub use signature::Signature;

/// A datatype. Only its name, attributes and committed flag change.
#[derive(Debug)]
pub struct Datatype {
    bounds: Bounds,
    contents: Contents,
    basic: Basic,
    layout: OnceLock<Arc<Layout>>,
    signature: OnceLock<Arc<Signature>>,
    /// An upper bound of the nesting of the copy program and the signature, and so of the
    /// recursions that compute them.
    depth: u32,
    committed: AtomicBool,
    name: Mutex<Box<[u8]>>,
    pub attributes: Attributes,
}

#[derive(Clone, Copy, Debug)]
enum Basic {
    /// Predefined, or a Fortran type with the representation of a predefined one.
    Is(&'static PredefinedType),
    Uniform(&'static PredefinedType),
    Mixed,
}

/// The width of the counts of the function that made a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Counts are `int`; displacements are `MPI_Aint`.
    Int,
    /// Counts and displacements are `MPI_Count` (`_c` functions).
    Count,
}

/// The constructor that made a type (MPI-5.0 section 5.1.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Combiner {
    Named = abi::MPI_COMBINER_NAMED,
    Dup = abi::MPI_COMBINER_DUP,
    Contiguous = abi::MPI_COMBINER_CONTIGUOUS,
    Vector = abi::MPI_COMBINER_VECTOR,
    Hvector = abi::MPI_COMBINER_HVECTOR,
    Indexed = abi::MPI_COMBINER_INDEXED,
    Hindexed = abi::MPI_COMBINER_HINDEXED,
    IndexedBlock = abi::MPI_COMBINER_INDEXED_BLOCK,
    HindexedBlock = abi::MPI_COMBINER_HINDEXED_BLOCK,
    Struct = abi::MPI_COMBINER_STRUCT,
    Subarray = abi::MPI_COMBINER_SUBARRAY,
    Darray = abi::MPI_COMBINER_DARRAY,
    F90Real = abi::MPI_COMBINER_F90_REAL,
    F90Complex = abi::MPI_COMBINER_F90_COMPLEX,
    F90Integer = abi::MPI_COMBINER_F90_INTEGER,
    Resized = abi::MPI_COMBINER_RESIZED,
}

impl Combiner {
    /// The ABI's value.
    pub fn to_int(self) -> i32 {
        self as i32
    }

    /// Whether such types belong to the library: they are always committed, and cannot be freed.
    pub fn is_predefined(self) -> bool {
        matches!(
            self,
            Combiner::Named | Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer
        )
    }
}

impl Datatype {
    pub(crate) fn predefined(facts: &'static PredefinedType) -> Datatype {
        let named = Datatype::of_library(facts, Combiner::Named, &[]);
        named.set_name(facts.name.as_bytes());
        named
    }

    fn of_library(
        facts: &'static PredefinedType,
        combiner: Combiner,
        integers: &[i32],
    ) -> Datatype {
        let layout = Arc::new(facts.layout());
        Datatype {
            bounds: *layout.bounds(),
            contents: Contents::of_library(combiner, integers),
            basic: Basic::Is(facts),
            layout: OnceLock::from(layout),
            signature: OnceLock::new(),
            depth: 0,
            committed: AtomicBool::new(true),
            name: Mutex::default(),
            attributes: Attributes::default(),
        }
    }

    /// A second object for the same type, without the name, for `MPI_Type_get_contents`.
    pub fn again(&self) -> Datatype {
        Datatype {
            bounds: self.bounds,
            contents: self.contents.clone(),
            basic: self.basic,
            layout: self.layout.clone(),
            signature: self.signature.clone(),
            depth: self.depth,
            committed: AtomicBool::new(self.is_committed()),
            name: Mutex::default(),
            attributes: Attributes::default(),
        }
    }

    /// Size and bounds of an element.
    #[inline]
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The layout of an element.
    #[inline]
    pub fn layout(&self) -> &Arc<Layout> {
        match self.layout.get() {
            Some(layout) => layout,
            None => self.first_layout(),
        }
    }

    #[cold]
    #[inline(never)]
    fn first_layout(&self) -> &Arc<Layout> {
        self.layout.get_or_init(|| match self.contents.definition().layout(&self.contents.types) {
            Ok(layout) => layout,
            // The constructor has computed the same bounds, and makes the layout itself if the
            // nesting may be too deep.
            Err(error) => unreachable!("the layout of {self}: {error}"),
        })
    }

    /// The signature of an element.
    pub fn signature(&self) -> &Arc<Signature> {
        self.signature.get_or_init(|| match self.basic {
            Basic::Is(facts) => Arc::new(Signature::of(facts.elements())),
            _ => Signature::joined(
                self.contents.elements(self.size()).map(|(n, old)| (n, old.signature())),
            ),
        })
    }

    /// The data bytes of an element.
    #[inline]
    pub fn size(&self) -> usize {
        self.bounds.size()
    }

    /// The constructor and its arguments.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Whether the type belongs to the library, with a permanent handle.
    pub fn is_predefined(&self) -> bool {
        self.contents.combiner.is_predefined()
    }

    /// The properties of a predefined type. A Fortran type of a precision or range has those of the
    /// type with the same representation.
    pub fn facts(&self) -> Option<&'static PredefinedType> {
        match self.basic {
            Basic::Is(facts) => Some(facts),
            _ => None,
        }
    }

    /// The predefined type of all elements, if they have only one.
    pub fn uniform(&self) -> Option<&'static PredefinedType> {
        match self.basic {
            Basic::Is(facts) | Basic::Uniform(facts) => Some(facts),
            Basic::Mixed => None,
        }
    }

    /// The representation of an element, if the type is predefined and has operations.
    pub fn scalar(&self) -> Option<Scalar> {
        self.facts()?.scalar
    }

    /// Whether the type may be used to communicate.
    #[inline]
    pub fn is_committed(&self) -> bool {
        self.committed.load(Ordering::Relaxed)
    }

    /// Allows communication with the type (`MPI_Type_commit`).
    pub fn commit(&self) {
        self.committed.store(true, Ordering::Relaxed);
    }

    /// The name (`MPI_Type_get_name`); empty if none was set.
    pub fn name(&self) -> Box<[u8]> {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the name (`MPI_Type_set_name`).
    pub fn set_name(&self, name: &[u8]) {
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name.into();
    }

    /// Fails with `MPI_ERR_TYPE` if the type is not committed.
    #[inline]
    pub fn check_committed(&self) -> Result<()> {
        if self.is_committed() {
            return Ok(());
        }
        let text =
            format!("{self} is not committed: call MPI_Type_commit before communicating with it");
        Err(MpiError::new(abi::MPI_ERR_TYPE, text))
    }

    /// The count of whole elements in `bytes` received bytes (`MPI_Get_count`). `None` stands for
    /// `MPI_UNDEFINED`: the last element is partial, or the type has no data but bytes came.
    pub fn count_in(&self, bytes: usize) -> Option<usize> {
        match (bytes, self.size()) {
            (0, _) => Some(0),
            (_, 0) => None,
            (bytes, size) => bytes.is_multiple_of(size).then(|| bytes / size),
        }
    }
}

impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        if name.is_empty() {
            write!(f, "a datatype of {} bytes ({:?})", self.size(), self.contents.combiner)
        } else {
            write!(f, "datatype {}", String::from_utf8_lossy(&name))
        }
    }
}

fn layout_error(e: LayoutError) -> MpiError {
    let class = match e {
        LayoutError::Overflow { .. } => abi::MPI_ERR_VALUE_TOO_LARGE,
        LayoutError::TooDeep => abi::MPI_ERR_UNSUPPORTED_OPERATION,
    };
    MpiError::new(class, e.to_string())
}

#[cfg(test)]
mod tests;
