//! The constructors (MPI-5.0 section 5.1.2).
//!
//! Counts come as `i64` and displacements as `isize` in both forms; whoever calls in [`Form::Int`] has widened `int`s.

use super::contents::Constituents;
use super::{Basic, Combiner, Contents, Datatype, Form, layout_error};
use crate::attribute::Attributes;
use crate::error::{MpiError, Result};
use oxmpi_abi::constants as abi;
use oxmpi_mem::layout::{LAZY_DEPTH, Layout};
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

type Type = Arc<Datatype>;

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

fn length(name: impl fmt::Display, value: i64) -> Result<usize> {
    usize::try_from(value)
        .map_err(|_| MpiError::new(abi::MPI_ERR_COUNT, format!("{name} is {value}; it must not be negative")))
}

/// Block lengths, each named by its index if it is negative.
fn lengths<'a>(name: &str, values: &'a [i64]) -> Result<impl Iterator<Item = usize> + Clone + use<'a>> {
    for (i, &value) in values.iter().enumerate() {
        length(format_args!("{name}[{i}]"), value)?;
    }
    Ok(values.iter().map(|&value| value as usize))
}

fn same_length(count: usize, what: &str, found: usize) -> Result<()> {
    if count == found {
        return Ok(());
    }
    Err(MpiError::new(abi::MPI_ERR_ARG, format!("{count} blocks, but {found} {what}")))
}

/// `value` elements of `old` in bytes.
fn in_bytes(name: impl fmt::Display, value: i64, old: &Datatype) -> Result<isize> {
    let bytes = isize::try_from(value).ok().and_then(|v| v.checked_mul(old.layout().extent()));
    bytes.ok_or_else(|| {
        let text =
            format!("{name} is {value} elements of {} bytes, too many for an address", old.layout().extent());
        MpiError::new(abi::MPI_ERR_VALUE_TOO_LARGE, text)
    })
}

fn all_in_bytes<'a>(
    name: &str,
    values: &'a [i64],
    old: &Datatype,
) -> Result<impl Iterator<Item = isize> + use<'a>> {
    for (i, &value) in values.iter().enumerate() {
        in_bytes(format_args!("{name}[{i}]"), value, old)?;
    }
    let extent = old.layout().extent();
    Ok(values.iter().map(move |&value| value as isize * extent))
}

impl Datatype {
    /// `count` elements in a row (`MPI_Type_contiguous`).
    ///
    /// # Errors
    /// An argument is negative (class `MPI_ERR_COUNT`), arrays differ in length (`MPI_ERR_ARG`), or a size, extent or
    /// displacement does not fit into an address (`MPI_ERR_VALUE_TOO_LARGE`). The text names the argument and its value. This
    /// holds for all constructors.
    pub fn contiguous(form: Form, count: i64, old: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        let layout = Layout::contiguous(length("count", count)?, old.layout()).map_err(layout_error)?;
        Datatype::of_one(layout, form, Combiner::Contiguous, [count], &[], old)
    }

    /// `count` blocks of `block` elements, `stride` elements from block to block (`MPI_Type_vector`).
    ///
    /// # Errors
    /// As for [`contiguous`](Self::contiguous).
    pub fn vector(
        form: Form,
        count: i64,
        block: i64,
        stride: i64,
        old: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        let (n, b) = (length("count", count)?, length("blocklength", block)?);
        let bytes = in_bytes("stride", stride, old)?;
        let layout = Layout::hvector(n, b, bytes, old.layout()).map_err(layout_error)?;
        Datatype::of_one(layout, form, Combiner::Vector, [count, block, stride], &[], old)
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
    ) -> Result<Arc<Datatype>> {
        let (n, b) = (length("count", count)?, length("blocklength", block)?);
        let layout = Layout::hvector(n, b, stride, old.layout()).map_err(layout_error)?;
        Datatype::of_one(layout, form, Combiner::Hvector, [count, block], &[stride], old)
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
    ) -> Result<Arc<Datatype>> {
        same_length(blocks.len(), "displacements", displacements.len())?;
        let lens = lengths("blocklengths", blocks)?;
        let bytes = all_in_bytes("displacements", displacements, old)?;
        let layout = Layout::hindexed(lens.zip(bytes), old.layout()).map_err(layout_error)?;
        let counts = counted(blocks).chain(displacements.iter().copied());
        Datatype::of_one(layout, form, Combiner::Indexed, counts, &[], old)
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
    ) -> Result<Arc<Datatype>> {
        same_length(blocks.len(), "displacements", displacements.len())?;
        let lens = lengths("blocklengths", blocks)?;
        let pairs = lens.zip(displacements.iter().copied());
        let layout = Layout::hindexed(pairs, old.layout()).map_err(layout_error)?;
        Datatype::of_one(layout, form, Combiner::Hindexed, counted(blocks), displacements, old)
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
    ) -> Result<Arc<Datatype>> {
        let b = length("blocklength", block)?;
        let bytes = all_in_bytes("displacements", displacements, old)?;
        let layout = Layout::hindexed(bytes.map(|d| (b, d)), old.layout()).map_err(layout_error)?;
        let counts = [displacements.len() as i64, block].into_iter().chain(displacements.iter().copied());
        Datatype::of_one(layout, form, Combiner::IndexedBlock, counts, &[], old)
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
    ) -> Result<Arc<Datatype>> {
        let b = length("blocklength", block)?;
        let pairs = displacements.iter().map(|&d| (b, d));
        let layout = Layout::hindexed(pairs, old.layout()).map_err(layout_error)?;
        let counts = [displacements.len() as i64, block];
        Datatype::of_one(layout, form, Combiner::HindexedBlock, counts, displacements, old)
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
    ) -> Result<Arc<Datatype>> {
        same_length(blocks.len(), "displacements", displacements.len())?;
        same_length(blocks.len(), "types", types.len())?;
        let lens = lengths("blocklengths", blocks)?;
        let members = lens.clone().zip(displacements).zip(types);
        let members = members.map(|((n, &d), t)| (n, d, &**t.layout()));
        let layout = Layout::structure(members).map_err(layout_error)?;
        let basic = common(types.iter().zip(lens).filter(|(_, n)| *n > 0).map(|(t, _)| t));
        let olds = Constituents::Several(types.into());
        let contents = Contents::new(form, Combiner::Struct, counted(blocks), displacements, olds)?;
        Datatype::new(layout.into(), contents, basic)
    }

    /// The same data with other bounds (`MPI_Type_create_resized`).
    ///
    /// # Errors
    /// As for [`contiguous`](Self::contiguous).
    pub fn resized(form: Form, lb: isize, extent: isize, old: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        let layout = Layout::resized(lb, extent, old.layout())
            .map_err(|e| layout_error(e).within(format_args!("lb is {lb} and extent is {extent}")))?;
        Datatype::of_one(layout, form, Combiner::Resized, [], &[lb, extent], old)
    }

    /// An equal datatype, committed if `old` is (`MPI_Type_dup`).
    ///
    /// # Errors
    /// None in fact; the type is that of the other constructors.
    pub fn dup(old: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        let layout = Arc::clone(old.layout());
        let dup = Datatype::of_one(layout, Form::Int, Combiner::Dup, [], &[], old)?;
        if old.is_committed() {
            dup.commit();
        }
        Ok(dup)
    }

    /// The type that a constructor has made of the one old one.
    #[inline(always)]
    fn of_one(
        layout: impl Into<Arc<Layout>>,
        form: Form,
        combiner: Combiner,
        counts: impl IntoIterator<IntoIter: Iterator<Item = i64> + Clone>,
        displacements: &[isize],
        old: &Type,
    ) -> Result<Arc<Datatype>> {
        let types = Constituents::One(Arc::clone(old));
        let contents = Contents::new(form, combiner, counts.into_iter(), displacements, types)?;
        Datatype::derived(layout, contents)
    }

    /// A type whose elements are all of the old types.
    #[inline(always)]
    pub(super) fn derived(layout: impl Into<Arc<Layout>>, contents: Contents) -> Result<Arc<Datatype>> {
        let basic = common(contents.types.iter());
        Datatype::new(layout.into(), contents, basic)
    }

    #[inline(always)]
    fn new(layout: Arc<Layout>, contents: Contents, basic: Basic) -> Result<Arc<Datatype>> {
        let depth = contents.types.iter().map(|old| old.depth() + 1).max().unwrap_or(0);
        let made = Arc::new(Datatype {
            layout,
            contents,
            basic,
            signature: OnceLock::new(),
            depth,
            committed: AtomicBool::new(false),
            name: Mutex::default(),
            attributes: Attributes::default(),
        });
        if depth > LAZY_DEPTH {
            made.signature().check_depth()?;
        }
        Ok(made)
    }
}

/// Block lengths after their number.
fn counted(blocks: &[i64]) -> impl Iterator<Item = i64> + Clone {
    std::iter::once(blocks.len() as i64).chain(blocks.iter().copied())
}
