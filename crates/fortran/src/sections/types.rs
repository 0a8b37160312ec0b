//! Datatypes that describe sections.

use super::descriptor::{ArrayDescriptor, Stride};
use crate::c;
use crate::arguments::PREDEFINED;
use crate::types::{Count, Datatype};
use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

/// The places of the data of a datatype, in bytes.
pub(super) struct DatatypeFacts {
    pub(super) datatype: Datatype,
    pub(super) size: Count,
    lower: Count,
    pub(super) extent: Count,
    true_lower: Count,
    true_extent: Count,
}

impl DatatypeFacts {
    /// # Errors
    /// The code, after the error handler was called for a bad handle.
    pub(super) unsafe fn of(datatype: Datatype) -> Result<DatatypeFacts, c_int> {
        let mut facts =
            DatatypeFacts { datatype, size: 0, lower: 0, extent: 0, true_lower: 0, true_extent: 0 };
        let DatatypeFacts { size, lower, extent, true_lower, true_extent, .. } = &mut facts;
        unsafe {
            checked(c::PMPI_Type_size_c(datatype, size))?;
            checked(c::PMPI_Type_get_extent_c(datatype, lower, extent))?;
            checked(c::PMPI_Type_get_true_extent_c(datatype, true_lower, true_extent))?;
        }
        Ok(facts)
    }

    /// The first byte and the end behind the last byte of `count` elements.
    pub(super) fn span(&self, count: Count) -> (i64, i64) {
        if count <= 0 || self.size == 0 {
            return (0, 0);
        }
        let last = self.extent.saturating_mul(count - 1);
        let (begin, end) = (last.min(0), last.max(0).saturating_add(self.true_extent));
        (self.true_lower.saturating_add(begin), self.true_lower.saturating_add(end))
    }

    /// The elements of the datatype in the section, if they have no gaps and each element of the
    /// array has a whole number of them.
    pub(super) fn levels_of(&self, array: &ArrayDescriptor) -> Option<Vec<Stride>> {
        let is_dense = self.lower == 0
            && self.true_lower == 0
            && self.extent == self.size
            && self.true_extent == self.size;
        (is_dense && array.element_bytes() % self.size == 0).then(|| array.strides(self.size))
    }
}

fn checked(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}

/// A datatype that this library has made.
pub(super) struct SectionType(Datatype);

impl SectionType {
    pub(super) fn handle(&self) -> Datatype {
        self.0
    }
}

impl Drop for SectionType {
    fn drop(&mut self) {
        // SAFETY: the handle is that of a datatype, and nothing else frees it.
        unsafe { c::PMPI_Type_free(&mut self.0) };
    }
}

/// How the elements of a section become a datatype.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SectionForm {
    /// The first elements, one after another, which the datatype covers.
    First(Count),
    /// One block, and the distance of the next one as the extent.
    Repeated,
}

struct CachedType {
    key: (Datatype, SectionForm, Vec<Stride>),
    of: Arc<SectionType>,
}

/// The datatypes of the sections that were used last. Those on datatypes of the program are not
/// kept, because a handle may be used again for another datatype.
static CACHE: Mutex<Vec<CachedType>> = Mutex::new(Vec::new());

/// A program uses a few sections again and again: the boundaries of its fields.
const CACHED: usize = 64;

/// A datatype of the first `count` elements of a section.
/// # Errors
/// The code of a failed call, after the error handler was called.
pub(super) unsafe fn message(
    datatype: Datatype,
    levels: &[Stride],
    count: Count,
) -> Result<Arc<SectionType>, c_int> {
    unsafe {
        cached(datatype, SectionForm::First(count), levels, || first(datatype, levels, count))
    }
}

/// A datatype whose repetitions are the blocks of `count` elements, if they lie at equal
/// distances, and the number of its repetitions in a block.
/// # Errors
/// The code of a failed call, after the error handler was called.
pub(super) unsafe fn equal_distances(
    datatype: Datatype,
    levels: &[Stride],
    count: Count,
) -> Result<Option<(Arc<SectionType>, Count)>, c_int> {
    let Some((last, inner)) = levels.split_last() else { return Ok(None) };
    let elements: i64 = inner.iter().map(|stride| stride.count).product();
    if count % elements != 0 || last.step <= 0 {
        return Ok(None);
    }
    let make = || unsafe {
        let block = first(datatype, inner, elements)?;
        made(|new| c::PMPI_Type_create_resized_c(block.0, 0, last.step, new))
    };
    let of = unsafe { cached(datatype, SectionForm::Repeated, levels, make) }?;
    Ok(Some((of, count / elements)))
}

unsafe fn cached(
    datatype: Datatype,
    form: SectionForm,
    levels: &[Stride],
    make: impl FnOnce() -> Result<SectionType, c_int>,
) -> Result<Arc<SectionType>, c_int> {
    let commit = |mut of: SectionType| {
        checked(unsafe { c::PMPI_Type_commit(&mut of.0) })?;
        Ok(Arc::new(of))
    };
    if datatype >= PREDEFINED {
        return commit(make()?);
    }
    let is_same = |cached: &CachedType| {
        cached.key.0 == datatype && cached.key.1 == form && cached.key.2 == levels
    };
    {
        let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = cache.iter().position(is_same) {
            let of = Arc::clone(&cache[at].of);
            // The section that was used last comes first.
            cache[..=at].rotate_right(1);
            return Ok(of);
        }
    }
    // A failed call may call an error handler of the program, so the lock is not held.
    let of = commit(make()?)?;
    let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    cache.insert(0, CachedType { key: (datatype, form, levels.to_vec()), of: Arc::clone(&of) });
    let old = (cache.len() > CACHED).then(|| cache.pop());
    drop(cache);
    drop(old);
    Ok(of)
}

unsafe fn made(make: impl FnOnce(*mut Datatype) -> c_int) -> Result<SectionType, c_int> {
    let mut new = 0;
    checked(make(&mut new))?;
    Ok(SectionType(new))
}

/// The first `count` elements of nested repetitions.
unsafe fn first(datatype: Datatype, levels: &[Stride], count: Count) -> Result<SectionType, c_int> {
    let Some((last, inner)) = levels.split_last() else {
        return unsafe { made(|new| c::PMPI_Type_dup(datatype, new)) };
    };
    let elements: i64 = inner.iter().map(|stride| stride.count).product();
    let (whole, rest) = (count / elements, count % elements);
    unsafe {
        let part = |count| -> Result<SectionType, c_int> { first(datatype, inner, count) };
        if whole == 0 {
            return part(rest);
        }
        let block = part(elements)?;
        let blocks = made(|new| c::PMPI_Type_create_hvector_c(whole, 1, last.step, block.0, new))?;
        if rest == 0 {
            return Ok(blocks);
        }
        let end = part(rest)?;
        made(|new| {
            let displacements = [0, whole * last.step];
            let (lengths, types) = ([1, 1], [blocks.0, end.0]);
            c::PMPI_Type_create_struct_c(
                2,
                lengths.as_ptr(),
                displacements.as_ptr(),
                types.as_ptr(),
                new,
            )
        })
    }
}
