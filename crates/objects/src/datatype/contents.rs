//! The constructor and arguments of a type, for `MPI_Type_get_contents` (MPI-5.0 section 5.1.13).
//! Every type records them and few are queried. So the few numbers of most constructors are stored
//! in the type itself.

use super::{Combiner, Datatype, Form};
use crate::error::{MpiError, Result};
use oxmpi_abi::constants as abi;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The constructor of a type and its arguments.
#[derive(Clone, Debug)]
pub struct Contents {
    pub combiner: Combiner,
    /// Counts of [`Form::Int`], and arguments that are `int` in both forms.
    pub integers: ShortList<i32, 11>,
    wide: WideArguments,
    pub types: Constituents,
}

#[derive(Clone, Debug)]
enum WideArguments {
    /// Displacements of [`Form::Int`].
    Addresses(ShortList<isize, 4>),
    /// Counts, then displacements, of [`Form::Count`].
    Counts(ShortList<i64, 4>),
}

pub(super) enum Argument<'a> {
    /// `int` in both forms.
    Int(&'a [i32]),
    /// `int` or `MPI_Count`.
    Count(&'a [i64]),
}

impl Contents {
    pub(super) fn of_library(combiner: Combiner, integers: &[i32]) -> Contents {
        let (integers, wide) =
            (integers.iter().copied().collect(), WideArguments::Addresses(ShortList::default()));
        Contents { combiner, integers, wide, types: Constituents::None }
    }

    /// Fails with `MPI_ERR_COUNT` if a count of the plain form does not fit in an `int`.
    #[inline(always)]
    pub(super) fn of_few<const C: usize, const D: usize>(
        form: Form,
        combiner: Combiner,
        counts: [i64; C],
        displacements: [isize; D],
        old: &Arc<Datatype>,
    ) -> Result<Contents> {
        let (integers, wide) = match form {
            Form::Int => {
                check_ints(&counts)?;
                let integers = ShortList::of(counts.map(|n| n as i32));
                (integers, WideArguments::Addresses(ShortList::of(displacements)))
            }
            Form::Count => {
                let all = ShortList::filled(C + D, |all| {
                    all[..C].copy_from_slice(&counts);
                    all[C..].copy_from_slice(&displacements.map(|d| d as i64));
                });
                (ShortList::default(), WideArguments::Counts(all))
            }
        };
        Ok(Contents { combiner, integers, wide, types: Constituents::One(Arc::clone(old)) })
    }

    /// The arguments in this order, then the displacements. Fails as [`of_few`](Self::of_few) does.
    pub(super) fn of_lists(
        form: Form,
        combiner: Combiner,
        arguments: &[Argument<'_>],
        displacements: &[isize],
        types: Constituents,
    ) -> Result<Contents> {
        let mut fits = Ok(());
        let length = arguments.iter().map(|argument| argument.integers(form)).sum();
        let integers = ShortList::filled(length, |mut rest| {
            for argument in arguments {
                let place;
                (place, rest) = rest.split_at_mut(argument.integers(form));
                match argument {
                    Argument::Int(values) => place.copy_from_slice(values),
                    Argument::Count(values) => {
                        place.iter_mut().zip(*values).for_each(|(place, &n)| *place = n as i32);
                        if !place.is_empty() && fits.is_ok() {
                            fits = check_ints(values);
                        }
                    }
                }
            }
        });
        fits?;
        let wide = match form {
            Form::Int => WideArguments::Addresses(ShortList::filled(displacements.len(), |all| {
                all.copy_from_slice(displacements);
            })),
            Form::Count => {
                let length =
                    arguments.iter().map(|argument| argument.counts().len()).sum::<usize>();
                WideArguments::Counts(ShortList::filled(
                    length + displacements.len(),
                    |mut rest| {
                        for argument in arguments {
                            let place;
                            (place, rest) = rest.split_at_mut(argument.counts().len());
                            place.copy_from_slice(argument.counts());
                        }
                        rest.iter_mut()
                            .zip(displacements)
                            .for_each(|(place, &d)| *place = d as i64);
                    },
                ))
            }
        };
        Ok(Contents { combiner, integers, wide, types })
    }

    /// The displacements of [`Form::Int`].
    pub fn addresses(&self) -> &[isize] {
        match &self.wide {
            WideArguments::Addresses(addresses) => addresses,
            WideArguments::Counts(_) => &[],
        }
    }

    /// The counts, then the displacements, of [`Form::Count`].
    pub fn counts(&self) -> &[i64] {
        match &self.wide {
            WideArguments::Addresses(_) => &[],
            WideArguments::Counts(counts) => counts,
        }
    }

    /// Whether no argument was an `MPI_Count`.
    pub fn fits_int(&self) -> bool {
        matches!(self.wide, WideArguments::Addresses(_))
    }

    /// The old types, each with the number of its elements in this type of `size` bytes.
    pub(super) fn elements(&self, size: usize) -> impl Iterator<Item = (usize, &Arc<Datatype>)> {
        let count = move |(i, old): (usize, &Arc<Datatype>)| match self.combiner {
            Combiner::Struct if self.fits_int() => self.integers[i + 1] as usize,
            Combiner::Struct => self.counts()[i + 1] as usize,
            _ => size.checked_div(old.size()).unwrap_or(0),
        };
        self.types.iter().enumerate().map(move |(i, old)| (count((i, old)), old))
    }
}

#[inline(always)]
fn check_ints(counts: &[i64]) -> Result<()> {
    let changed = counts.iter().fold(0, |changed, &n| changed | (n ^ i64::from(n as i32)));
    if changed == 0 { Ok(()) } else { Err(no_int(counts)) }
}

#[cold]
fn no_int(counts: &[i64]) -> MpiError {
    let n = counts.iter().find(|&&n| i32::try_from(n).is_err()).copied().unwrap_or_default();
    MpiError::new(abi::MPI_ERR_COUNT, format!("count {n} does not fit into an int"))
}

impl Argument<'_> {
    fn integers(&self, form: Form) -> usize {
        match (self, form) {
            (Argument::Int(values), _) => values.len(),
            (Argument::Count(values), Form::Int) => values.len(),
            (Argument::Count(_), Form::Count) => 0,
        }
    }

    fn counts(&self) -> &[i64] {
        match self {
            Argument::Int(_) => &[],
            Argument::Count(values) => values,
        }
    }
}

impl Drop for Contents {
    /// Frees nested types one after another. A program may nest types without limit, and a
    /// recursion would overflow the stack.
    fn drop(&mut self) {
        let mut waiting = Vec::new();
        let mut types = std::mem::take(&mut self.types);
        loop {
            let mut free = |one: Arc<Datatype>| {
                if let Some(mut datatype) = Arc::into_inner(one) {
                    waiting.push(std::mem::take(&mut datatype.contents.types));
                }
            };
            match types {
                Constituents::None => {}
                Constituents::One(one) => free(one),
                Constituents::Several(all) => all.into_iter().for_each(free),
            }
            match waiting.pop() {
                Some(next) => types = next,
                None => return,
            }
        }
    }
}

/// The types that a type was made from.
#[derive(Clone, Debug, Default)]
pub enum Constituents {
    #[default]
    None,
    One(Arc<Datatype>),
    Several(Box<[Arc<Datatype>]>),
}

impl Deref for Constituents {
    type Target = [Arc<Datatype>];

    fn deref(&self) -> &[Arc<Datatype>] {
        match self {
            Constituents::None => &[],
            Constituents::One(one) => std::slice::from_ref(one),
            Constituents::Several(types) => types,
        }
    }
}

/// Up to `N` numbers need no allocation. A clone is cheap.
#[derive(Clone)]
pub struct ShortList<T, const N: usize>(Storage<T, N>);

#[derive(Clone)]
enum Storage<T, const N: usize> {
    Inline { len: u8, values: [T; N] },
    Shared(Arc<[T]>),
}

impl<T: Copy + Default, const N: usize> Default for ShortList<T, N> {
    fn default() -> Self {
        ShortList(Storage::Inline { len: 0, values: [T::default(); N] })
    }
}

impl<T: Copy + Default, const N: usize> ShortList<T, N> {
    #[inline(always)]
    fn of<const M: usize>(numbers: [T; M]) -> Self {
        ShortList::filled(M, |all| all.copy_from_slice(&numbers))
    }

    #[inline(always)]
    fn filled(len: usize, fill: impl FnOnce(&mut [T])) -> Self {
        if len <= N {
            let mut values = [T::default(); N];
            fill(&mut values[..len]);
            return ShortList(Storage::Inline { len: len as u8, values });
        }
        let mut values: Arc<[T]> = std::iter::repeat_n(T::default(), len).collect();
        if let Some(all) = Arc::get_mut(&mut values) {
            fill(all);
        }
        ShortList(Storage::Shared(values))
    }
}

impl<T: Copy + Default, const N: usize> FromIterator<T> for ShortList<T, N> {
    #[inline]
    fn from_iter<I: IntoIterator<Item = T>>(from: I) -> Self {
        let from = from.into_iter();
        if from.size_hint().1.is_none_or(|most| most > N) {
            return ShortList(Storage::Shared(from.collect()));
        }
        let (mut values, mut len) = ([T::default(); N], 0);
        for (place, value) in values.iter_mut().zip(from) {
            *place = value;
            len += 1;
        }
        ShortList(Storage::Inline { len, values })
    }
}

impl<T, const N: usize> Deref for ShortList<T, N> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Storage::Inline { len, values } => &values[..usize::from(*len)],
            Storage::Shared(values) => values,
        }
    }
}

impl<T: PartialEq, const N: usize> PartialEq for ShortList<T, N> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: fmt::Debug, const N: usize> fmt::Debug for ShortList<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
