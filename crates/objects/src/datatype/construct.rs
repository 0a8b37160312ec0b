//! The constructors (MPI-5.0 section 5.1.2). Counts are `i64` and displacements `isize` in both
//! forms.
//!
//! They fail with `MPI_ERR_COUNT` for a negative argument, with `MPI_ERR_ARG` for arrays of
//! different lengths, and with `MPI_ERR_VALUE_TOO_LARGE` if a size, extent or displacement does not
//! fit in an address. The message names the argument and its value.

use super::contents::{Argument, Constituents};
use super::{Basic, Combiner, Contents, Datatype, Form, layout_error};
use crate::attribute::Attributes;
use crate::error::{MpiError, Result};
use oxmpi_abi::constants as abi;
use oxmpi_mem::bounds::Bounds;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

type Type = Arc<Datatype>;

/// Above this nesting a constructor computes layout and signature at once, since only they reveal
/// types that nest too deep.
const LAZY_DEPTH: u32 = 64;

#[inline]
pub(super) fn basic_of(old: &Datatype) -> Basic {
    match old.uniform() {
        Some(facts) if old.size() > 0 => Basic::Uniform(facts),
        _ => Basic::Mixed,
    }
}

/// The elements of a type made of several types. Types without data do not count.
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
    usize::try_from(value).map_err(|_| {
        MpiError::new(abi::MPI_ERR_COUNT, format!("{name} is {value}; it must not be negative"))
    })
}

/// Checked block lengths. An error has the index of a negative one.
fn lengths<'a>(
    name: &str,
    values: &'a [i64],
) -> Result<impl Iterator<Item = usize> + Clone + use<'a>> {
    if values.iter().fold(0, |signs, value| signs | value) < 0 {
        for (i, &value) in values.iter().enumerate() {
            length(format_args!("{name}[{i}]"), value)?;
        }
    }
    Ok(values.iter().map(|&value| value as usize))
}

fn same_length(count: usize, what: &str, found: usize) -> Result<()> {
    if count == found {
        return Ok(());
    }
    Err(MpiError::new(abi::MPI_ERR_ARG, format!("{count} blocks, but {found} {what}")))
}

fn in_bytes(name: impl fmt::Display, value: i64, old: &Datatype) -> Result<isize> {
    let extent = old.bounds().extent();
    let bytes = isize::try_from(value).ok().and_then(|v| v.checked_mul(extent));
    bytes.ok_or_else(|| {
        let text = format!("{name} is {value} elements of {extent} bytes, too many for an address");
        MpiError::new(abi::MPI_ERR_VALUE_TOO_LARGE, text)
    })
}

/// An error has the index of the first displacement that is too large.
fn indexed_bounds(
    blocks: impl Iterator<Item = usize>,
    displacements: &[i64],
    old: &Datatype,
) -> Result<Bounds> {
    let bounds = old.bounds().indexed(blocks.zip(displacements.iter().map(|&d| d as isize)));
    bounds.map_err(|error| {
        let mut all = displacements.iter().enumerate();
        let named =
            all.find_map(|(i, &d)| in_bytes(format_args!("displacements[{i}]"), d, old).err());
        named.unwrap_or_else(|| layout_error(error))
    })
}

impl Datatype {
    /// `count` elements in a row (`MPI_Type_contiguous`).
    pub fn contiguous(form: Form, count: i64, old: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        let bounds = old.bounds().contiguous(length("count", count)?).map_err(layout_error)?;
        Datatype::of_one(
            bounds,
            1,
            Contents::of_few(form, Combiner::Contiguous, [count], [], old),
            old,
        )
    }

    /// `count` blocks of `block` elements, at distances of `stride` elements (`MPI_Type_vector`).
    pub fn vector(
        form: Form,
        count: i64,
        block: i64,
        stride: i64,
        old: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        let (n, b) = (length("count", count)?, length("blocklength", block)?);
        let bytes = in_bytes("stride", stride, old)?;
        let bounds = old.bounds().hvector(n, b, bytes).map_err(layout_error)?;
        Datatype::of_one(
            bounds,
            2,
            Contents::of_few(form, Combiner::Vector, [count, block, stride], [], old),
            old,
        )
    }

    /// `count` blocks of `block` elements, at distances of `stride` bytes
    /// (`MPI_Type_create_hvector`).
    pub fn hvector(
        form: Form,
        count: i64,
        block: i64,
        stride: isize,
        old: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        let (n, b) = (length("count", count)?, length("blocklength", block)?);
        let bounds = old.bounds().hvector(n, b, stride).map_err(layout_error)?;
        Datatype::of_one(
            bounds,
            2,
            Contents::of_few(form, Combiner::Hvector, [count, block], [stride], old),
            old,
        )
    }

    /// Blocks of `blocks[i]` elements, `displacements[i]` elements from the start
    /// (`MPI_Type_indexed`).
    pub fn indexed(
        form: Form,
        blocks: &[i64],
        displacements: &[i64],
        old: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        same_length(blocks.len(), "displacements", displacements.len())?;
        let bounds = indexed_bounds(lengths("array_of_blocklengths", blocks)?, displacements, old)?;
        let counts = [
            Argument::Count(&[blocks.len() as i64]),
            Argument::Count(blocks),
            Argument::Count(displacements),
        ];
        Datatype::of_lists(bounds, form, Combiner::Indexed, &counts, &[], old)
    }

    /// Blocks of `blocks[i]` elements, `displacements[i]` bytes from the start
    /// (`MPI_Type_create_hindexed`).
    pub fn hindexed(
        form: Form,
        blocks: &[i64],
        displacements: &[isize],
        old: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        same_length(blocks.len(), "displacements", displacements.len())?;
        let lens = lengths("array_of_blocklengths", blocks)?;
        let pairs = lens.zip(displacements.iter().copied());
        let bounds = old.bounds().hindexed(pairs).map_err(layout_error)?;
        let counts = [Argument::Count(&[blocks.len() as i64]), Argument::Count(blocks)];
        Datatype::of_lists(bounds, form, Combiner::Hindexed, &counts, displacements, old)
    }

    /// Blocks of `block` elements each, `displacements[i]` elements from the start
    /// (`MPI_Type_create_indexed_block`).
    pub fn indexed_block(
        form: Form,
        block: i64,
        displacements: &[i64],
        old: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        let b = length("blocklength", block)?;
        let bounds = indexed_bounds(std::iter::repeat(b), displacements, old)?;
        let counts =
            [Argument::Count(&[displacements.len() as i64, block]), Argument::Count(displacements)];
        Datatype::of_lists(bounds, form, Combiner::IndexedBlock, &counts, &[], old)
    }

    /// Blocks of `block` elements each, `displacements[i]` bytes from the start
    /// (`MPI_Type_create_hindexed_block`).
    pub fn hindexed_block(
        form: Form,
        block: i64,
        displacements: &[isize],
        old: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        let b = length("blocklength", block)?;
        let pairs = displacements.iter().map(|&d| (b, d));
        let bounds = old.bounds().hindexed(pairs).map_err(layout_error)?;
        let counts = [Argument::Count(&[displacements.len() as i64, block])];
        Datatype::of_lists(bounds, form, Combiner::HindexedBlock, &counts, displacements, old)
    }

    /// Members of `blocks[i]` elements of `types[i]`, `displacements[i]` bytes from the start
    /// (`MPI_Type_create_struct`).
    pub fn structure(
        form: Form,
        blocks: &[i64],
        displacements: &[isize],
        types: Vec<Arc<Datatype>>,
    ) -> Result<Arc<Datatype>> {
        same_length(blocks.len(), "displacements", displacements.len())?;
        same_length(blocks.len(), "types", types.len())?;
        let lens = lengths("array_of_blocklengths", blocks)?;
        let members = lens.clone().zip(displacements).zip(&types);
        let bounds = Bounds::structure(members.map(|((n, &d), t)| (n, d, t.bounds())))
            .map_err(layout_error)?;
        let basic = common(types.iter().zip(lens).filter(|(_, n)| *n > 0).map(|(t, _)| t));
        let olds = Constituents::Several(types.into_boxed_slice());
        let counts = [Argument::Count(&[blocks.len() as i64]), Argument::Count(blocks)];
        let contents = Contents::of_lists(form, Combiner::Struct, &counts, displacements, olds)?;
        Datatype::new(bounds, contents, basic, 1)
    }

    /// The same data with other bounds (`MPI_Type_create_resized`).
    pub fn resized(
        form: Form,
        lb: isize,
        extent: isize,
        old: &Arc<Datatype>,
    ) -> Result<Arc<Datatype>> {
        let bounds = old.bounds().resized(lb, extent).map_err(|e| {
            layout_error(e).within(format_args!("lb is {lb} and extent is {extent}"))
        })?;
        Datatype::of_one(
            bounds,
            1,
            Contents::of_few(form, Combiner::Resized, [], [lb, extent], old),
            old,
        )
    }

    /// An equal datatype, committed if `old` is (`MPI_Type_dup`).
    pub fn dup(old: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        let dup = Datatype::of_one(
            *old.bounds(),
            1,
            Contents::of_few(Form::Int, Combiner::Dup, [], [], old),
            old,
        )?;
        if old.is_committed() {
            dup.commit();
        }
        Ok(dup)
    }

    /// A type made of one old type. Its copy program nests at most `levels` deeper than that of
    /// `old`.
    #[inline(always)]
    fn of_one(
        bounds: Bounds,
        levels: u32,
        contents: Result<Contents>,
        old: &Type,
    ) -> Result<Arc<Datatype>> {
        Datatype::new(bounds, contents?, basic_of(old), levels)
    }

    fn of_lists(
        bounds: Bounds,
        form: Form,
        combiner: Combiner,
        counts: &[Argument<'_>],
        displacements: &[isize],
        old: &Type,
    ) -> Result<Arc<Datatype>> {
        let types = Constituents::One(Arc::clone(old));
        let contents = Contents::of_lists(form, combiner, counts, displacements, types);
        Datatype::of_one(bounds, 1, contents, old)
    }

    #[inline(always)]
    pub(super) fn new(
        bounds: Bounds,
        contents: Contents,
        basic: Basic,
        levels: u32,
    ) -> Result<Arc<Datatype>> {
        let depth =
            contents.types.iter().map(|old| old.depth).max().unwrap_or(0).saturating_add(levels);
        let made = Arc::new(Datatype {
            bounds,
            contents,
            basic,
            layout: OnceLock::new(),
            signature: OnceLock::new(),
            depth,
            committed: AtomicBool::new(false),
            name: Mutex::default(),
            attributes: Attributes::default(),
        });
        if depth > LAZY_DEPTH { made.used() } else { Ok(made) }
    }

    /// Computes layout and signature of a new type, and checks their depth.
    #[cold]
    #[inline(never)]
    fn used(mut self: Arc<Self>) -> Result<Arc<Datatype>> {
        let layout =
            self.contents.definition().layout(&self.contents.types).map_err(layout_error)?;
        self.signature().check_depth()?;
        let depth = self.signature().depth().max(layout.depth());
        if let Some(made) = Arc::get_mut(&mut self) {
            made.depth = depth;
            made.layout = OnceLock::from(layout);
        }
        Ok(self)
    }
}
