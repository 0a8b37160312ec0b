//! The constructors (MPI-5.0 section 5.1.2).
//!
//! Counts come as `i64` and displacements as `isize` in both forms; whoever calls in [`Form::Int`] has widened `int`s.

use super::{Basic, Combiner, Contents, Datatype, Form, Signature, layout_error};
use crate::attribute::Attributes;
use crate::error::{MpiError, Result};
use oxmpi_abi::constants as abi;
use oxmpi_mem::layout::Layout;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

type Type = Arc<Datatype>;

/// A constructor's arguments, on the way to [`Contents`].
struct Made<'a> {
    form: Form,
    combiner: Combiner,
    counts: Vec<i64>,
    displacements: &'a [isize],
    types: Vec<Type>,
}

/// What an argument is in C as far as the form says.
pub(super) enum Argument<'a> {
    /// `int` in both forms.
    Int(&'a [i32]),
    /// `int` or `MPI_Count`.
    Count(&'a [i64]),
}

impl Contents {
    /// The contents of a type whose arguments come in this order.
    pub(super) fn of_arguments(
        form: Form,
        combiner: Combiner,
        arguments: &[Argument<'_>],
        old: &Type,
    ) -> Result<Contents> {
        let types = vec![Arc::clone(old)];
        let (addresses, counts) = (Vec::new(), Vec::new());
        let mut contents = Contents { combiner, integers: Vec::new(), addresses, counts, types };
        for argument in arguments {
            match (argument, form) {
                (Argument::Int(values), _) => contents.integers.extend_from_slice(values),
                (Argument::Count(values), Form::Int) => contents.integers.append(&mut narrow(values)?),
                (Argument::Count(values), Form::Count) => contents.counts.extend_from_slice(values),
            }
        }
        Ok(contents)
    }
}

/// Counts of the plain form, which come widened.
fn narrow(counts: &[i64]) -> Result<Vec<i32>> {
    let to_int = |&n: &i64| {
        let too_large = || MpiError::new(abi::MPI_ERR_COUNT, format!("count {n} does not fit into an int"));
        i32::try_from(n).map_err(|_| too_large())
    };
    counts.iter().map(to_int).collect()
}

impl Made<'_> {
    /// The type made of the only old one.
    fn datatype(self, layout: Layout) -> Result<Datatype> {
        Datatype::derived(layout, self.contents()?)
    }

    fn contents(self) -> Result<Contents> {
        let (mut integers, mut addresses, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        match self.form {
            Form::Int => {
                integers = narrow(&self.counts)?;
                addresses = self.displacements.to_vec();
            }
            Form::Count => {
                counts = self.counts;
                counts.extend(self.displacements.iter().map(|&d| d as i64));
            }
        }
        Ok(Contents { combiner: self.combiner, integers, addresses, counts, types: self.types })
    }
}

/// The elements of a type made of these; types without data do not matter.
fn common<'a>(types: impl Iterator<Item = &'a Type>) -> Basic {
    let mut found = None;
    for t in types.filter(|t| t.size() > 0) {
        match (t.uniform(), found) {
            (Some(facts), None) => found = Some(facts),
            (Some(facts), Some(before)) if facts.handle == before.handle => {}
            _ => return Basic::Mixed,
        }
    }
    found.map_or(Basic::Mixed, Basic::Uniform)
}

fn length(name: &str, value: i64) -> Result<usize> {
    usize::try_from(value)
        .map_err(|_| MpiError::new(abi::MPI_ERR_COUNT, format!("{name} is {value}; it must not be negative")))
}

/// Block lengths, each named by its index if it is negative.
fn lengths(name: &str, values: &[i64]) -> Result<Vec<usize>> {
    values.iter().enumerate().map(|(i, &v)| length(&format!("{name}[{i}]"), v)).collect()
}

fn same_length(count: usize, what: &str, found: usize) -> Result<()> {
    if count == found {
        return Ok(());
    }
    Err(MpiError::new(abi::MPI_ERR_ARG, format!("{count} blocks, but {found} {what}")))
}

/// `value` elements of `old` in bytes.
fn in_bytes(name: &str, value: i64, old: &Datatype) -> Result<isize> {
    let bytes = isize::try_from(value).ok().and_then(|v| v.checked_mul(old.layout().extent()));
    bytes.ok_or_else(|| {
        let text =
            format!("{name} is {value} elements of {} bytes, too many for an address", old.layout().extent());
        MpiError::new(abi::MPI_ERR_VALUE_TOO_LARGE, text)
    })
}

fn all_in_bytes(name: &str, values: &[i64], old: &Datatype) -> Result<Vec<isize>> {
    values.iter().enumerate().map(|(i, &v)| in_bytes(&format!("{name}[{i}]"), v, old)).collect()
}

fn with_count(values: &[&[i64]]) -> Vec<i64> {
    let count = values.first().map_or(0, |v| v.len()) as i64;
    std::iter::once(count).chain(values.iter().flat_map(|v| v.iter().copied())).collect()
}

impl Datatype {
    /// `count` elements in a row (`MPI_Type_contiguous`).
    ///
    /// # Errors
    /// An argument is negative (class `MPI_ERR_COUNT`), arrays differ in length (`MPI_ERR_ARG`), or a size, extent or
    /// displacement does not fit into an address (`MPI_ERR_VALUE_TOO_LARGE`). The text names the argument and its value. This
    /// holds for all constructors.
    pub fn contiguous(form: Form, count: i64, old: &Arc<Datatype>) -> Result<Datatype> {
        let layout = Layout::contiguous(length("count", count)?, old.layout()).map_err(layout_error)?;
        let types = vec![Arc::clone(old)];
        Made { form, combiner: Combiner::Contiguous, counts: vec![count], displacements: &[], types }
            .datatype(layout)
    }

    /// `count` blocks of `block` elements, `stride` elements from block to block (`MPI_Type_vector`).
    ///
    /// # Errors
    /// As for [`contiguous`](Self::contiguous).
    pub fn vector(form: Form, count: i64, block: i64, stride: i64, old: &Arc<Datatype>) -> Result<Datatype> {
        let (n, b) = (length("count", count)?, length("blocklength", block)?);
        let bytes = in_bytes("stride", stride, old)?;
        let layout = Layout::hvector(n, b, bytes, old.layout()).map_err(layout_error)?;
        let counts = vec![count, block, stride];
        let types = vec![Arc::clone(old)];
        Made { form, combiner: Combiner::Vector, counts, displacements: &[], types }.datatype(layout)
    }

    /// `count` blocks of `block` elements, `stride` bytes from block to block (`MPI_Type_create_hvector`).
    ///
    /// # Errors
    /// As for [`contiguous`](Self::contiguous).
    pub fn hvector(
        form: Form,
        count: i64,
        block: i64,
        stride: isize,
        old: &Arc<Datatype>,
    ) -> Result<Datatype> {
        let (n, b) = (length("count", count)?, length("blocklength", block)?);
        let layout = Layout::hvector(n, b, stride, old.layout()).map_err(layout_error)?;
        let counts = vec![count, block];
        let types = vec![Arc::clone(old)];
        Made { form, combiner: Combiner::Hvector, counts, displacements: &[stride], types }.datatype(layout)
    }

    /// Blocks of `blocks[i]` elements, `displacements[i]` elements from the start (`MPI_Type_indexed`).
    ///
    /// # Errors
    /// As for [`contiguous`](Self::contiguous).
    pub fn indexed(
        form: Form,
        blocks: &[i64],
        displacements: &[i64],
        old: &Arc<Datatype>,
    ) -> Result<Datatype> {
        same_length(blocks.len(), "displacements", displacements.len())?;
        let lens = lengths("blocklengths", blocks)?;
        let bytes = all_in_bytes("displacements", displacements, old)?;
        let layout = Layout::hindexed(lens.into_iter().zip(bytes), old.layout()).map_err(layout_error)?;
        let counts = with_count(&[blocks, displacements]);
        let types = vec![Arc::clone(old)];
        Made { form, combiner: Combiner::Indexed, counts, displacements: &[], types }.datatype(layout)
    }

    /// Blocks of `blocks[i]` elements, `displacements[i]` bytes from the start (`MPI_Type_create_hindexed`).
    ///
    /// # Errors
    /// As for [`contiguous`](Self::contiguous).
    pub fn hindexed(
        form: Form,
        blocks: &[i64],
        displacements: &[isize],
        old: &Arc<Datatype>,
    ) -> Result<Datatype> {
        same_length(blocks.len(), "displacements", displacements.len())?;
        let lens = lengths("blocklengths", blocks)?;
        let pairs = lens.into_iter().zip(displacements.iter().copied());
        let layout = Layout::hindexed(pairs, old.layout()).map_err(layout_error)?;
        let counts = with_count(&[blocks]);
        let types = vec![Arc::clone(old)];
        Made { form, combiner: Combiner::Hindexed, counts, displacements, types }.datatype(layout)
    }

    /// Blocks of `block` elements each, `displacements[i]` elements from the start (`MPI_Type_create_indexed_block`).
    ///
    /// # Errors
    /// As for [`contiguous`](Self::contiguous).
    pub fn indexed_block(
        form: Form,
        block: i64,
        displacements: &[i64],
        old: &Arc<Datatype>,
    ) -> Result<Datatype> {
        let b = length("blocklength", block)?;
        let bytes = all_in_bytes("displacements", displacements, old)?;
        let layout =
            Layout::hindexed(bytes.into_iter().map(|d| (b, d)), old.layout()).map_err(layout_error)?;
        let mut counts = vec![displacements.len() as i64, block];
        counts.extend(displacements);
        let types = vec![Arc::clone(old)];
        Made { form, combiner: Combiner::IndexedBlock, counts, displacements: &[], types }.datatype(layout)
    }

    /// Blocks of `block` elements each, `displacements[i]` bytes from the start (`MPI_Type_create_hindexed_block`).
    ///
    /// # Errors
    /// As for [`contiguous`](Self::contiguous).
    pub fn hindexed_block(
        form: Form,
        block: i64,
        displacements: &[isize],
        old: &Arc<Datatype>,
    ) -> Result<Datatype> {
        let b = length("blocklength", block)?;
        let pairs = displacements.iter().map(|&d| (b, d));
        let layout = Layout::hindexed(pairs, old.layout()).map_err(layout_error)?;
        let counts = vec![displacements.len() as i64, block];
        let types = vec![Arc::clone(old)];
        Made { form, combiner: Combiner::HindexedBlock, counts, displacements, types }.datatype(layout)
    }

    /// Members of `blocks[i]` elements of `types[i]`, `displacements[i]` bytes from the start (`MPI_Type_create_struct`).
    ///
    /// # Errors
    /// As for [`contiguous`](Self::contiguous).
    pub fn structure(
        form: Form,
        blocks: &[i64],
        displacements: &[isize],
        types: &[Arc<Datatype>],
    ) -> Result<Datatype> {
        same_length(blocks.len(), "displacements", displacements.len())?;
        same_length(blocks.len(), "types", types.len())?;
        let lens = lengths("blocklengths", blocks)?;
        let members = lens.iter().zip(displacements).zip(types);
        let members = members.map(|((&n, &d), t)| (n, d, &**t.layout()));
        let layout = Layout::structure(members).map_err(layout_error)?;
        let used = types.iter().zip(&lens).filter(|(_, n)| **n > 0);
        let signature = Signature::joined(used.clone().map(|(t, n)| (*n, t.signature())))?;
        let basic = common(used.map(|(t, _)| t));
        let counts = with_count(&[blocks]);
        let made = Made { form, combiner: Combiner::Struct, counts, displacements, types: types.to_vec() };
        Ok(Datatype::new(layout, signature, made.contents()?, basic))
    }

    /// The same data with other bounds (`MPI_Type_create_resized`).
    ///
    /// # Errors
    /// As for [`contiguous`](Self::contiguous).
    pub fn resized(form: Form, lb: isize, extent: isize, old: &Arc<Datatype>) -> Result<Datatype> {
        let layout = Layout::resized(lb, extent, old.layout())
            .map_err(|e| layout_error(e).within(format_args!("lb is {lb} and extent is {extent}")))?;
        let displacements = &[lb, extent];
        let types = vec![Arc::clone(old)];
        Made { form, combiner: Combiner::Resized, counts: vec![], displacements, types }.datatype(layout)
    }

    /// An equal datatype, committed if `old` is (`MPI_Type_dup`).
    ///
    /// # Errors
    /// None in fact; the type is that of the other constructors.
    pub fn dup(old: &Arc<Datatype>) -> Result<Datatype> {
        let made = Made {
            form: Form::Int,
            combiner: Combiner::Dup,
            counts: vec![],
            displacements: &[],
            types: vec![Arc::clone(old)],
        };
        let mut dup = made.datatype(old.layout().dup())?;
        dup.layout = Arc::clone(old.layout());
        dup.committed = AtomicBool::new(old.is_committed());
        Ok(dup)
    }

    /// A type whose elements are all of the one old type: as many as its layout has room for.
    pub(super) fn derived(layout: Layout, contents: Contents) -> Result<Datatype> {
        let basic = common(contents.types.iter());
        let part =
            |old: &Type| (layout.size().checked_div(old.size()).unwrap_or(0), Arc::clone(old.signature()));
        let parts: Vec<_> = contents.types.iter().map(part).collect();
        let signature = Signature::joined(parts.iter().map(|(count, part)| (*count, part)))?;
        Ok(Datatype::new(layout, signature, contents, basic))
    }

    fn new(layout: Layout, signature: Arc<Signature>, contents: Contents, basic: Basic) -> Datatype {
        Datatype {
            layout: Arc::new(layout),
            signature,
            contents: Arc::new(contents),
            basic,
            committed: AtomicBool::new(false),
            name: Mutex::default(),
            attributes: Attributes::default(),
        }
    }
}
