//! Which ranks know a value: all ranks, the root, or the two ranks of a message.
//!
//! A rank that chooses an algorithm by a value that other ranks do not know deadlocks the team. So
//! a selection takes [`Shared`] values, and cannot get a value of the root by accident.

/// A value that the MPI standard requires to be the same on all ranks of the call.
///
/// The caller promises this: `Shared(count * size)` is right for a broadcast, whose ranks must
/// agree on the signature, and wrong for one part of a `gatherv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Shared<T>(pub T);

impl<T> Shared<T> {
    /// A value that is computed only from a shared value is shared.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Shared<U> {
        Shared(f(self.0))
    }
}

/// A value that only the root uses, such as the counts of `MPI_Gatherv`. On other ranks the
/// argument may be garbage and is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RootOnly<T>(Option<T>);

impl<T> RootOnly<T> {
    /// The value, at the root.
    pub const fn at_root(value: T) -> Self {
        Self(Some(value))
    }

    /// No value: this rank is not the root.
    #[must_use]
    pub const fn elsewhere() -> Self {
        Self(None)
    }

    /// The value, if this rank is the root.
    pub const fn get(&self) -> Option<&T> {
        self.0.as_ref()
    }
}

/// A value that only the two ranks of a message share, such as one count of `MPI_Alltoallv`. No
/// choice of an algorithm may depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Paired<T>(pub T);
