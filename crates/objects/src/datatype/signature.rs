//! Type signatures: the basic elements of a datatype, in the order of its type map (MPI-5.0 section
//! 5.1). A [`Signature`] is a short program with repetitions, as a layout is for bytes. It counts
//! the basic elements in received bytes, and drives conversions to other representations.

use crate::error::{MpiError, Result};
use oxmpi_abi::constants as abi;
use oxmpi_mem::external32::ExternalElement;
use oxmpi_mem::layout::MAX_DEPTH;
use std::sync::Arc;

/// The basic elements of one element of a datatype.
#[derive(Debug, Default)]
pub struct Signature {
    items: Box<[Item]>,
    bytes: usize,
    external_bytes: usize,
    elements: usize,
    depth: u32,
}

#[derive(Clone, Debug)]
enum Item {
    Elements(usize, ExternalElement),
    Repeat(usize, Arc<Signature>),
}

/// A signature of up to this number of items is copied into a signature that uses it once. Longer
/// signatures are shared.
const INLINE_ITEMS: usize = 64;

impl Item {
    fn bytes(&self) -> usize {
        match self {
            Item::Elements(n, element) => n * element.native_size(),
            Item::Repeat(n, body) => n * body.bytes,
        }
    }

    fn elements(&self) -> usize {
        match self {
            Item::Elements(n, _) => *n,
            Item::Repeat(n, body) => n * body.elements,
        }
    }

    fn external_bytes(&self) -> usize {
        match self {
            Item::Elements(n, element) => n * element.external_size(),
            Item::Repeat(n, body) => n * body.external_bytes,
        }
    }

    fn times(&self, count: usize) -> Item {
        match self {
            Item::Elements(n, element) => Item::Elements(n * count, *element),
            Item::Repeat(n, body) => Item::Repeat(n * count, Arc::clone(body)),
        }
    }
}

impl Signature {
    pub(crate) fn of(elements: impl IntoIterator<Item = ExternalElement>) -> Signature {
        let mut builder = Builder::default();
        elements.into_iter().for_each(|element| builder.push(Item::Elements(1, element)));
        builder.signature()
    }

    pub(crate) fn joined<'a>(
        parts: impl IntoIterator<Item = (usize, &'a Arc<Signature>)>,
    ) -> Arc<Signature> {
        let mut builder = Builder::default();
        let mut parts = parts.into_iter().peekable();
        while let Some((count, part)) = parts.next() {
            if count == 1 && builder.items.is_empty() && parts.peek().is_none() {
                return Arc::clone(part);
            }
            builder.add(count, part);
        }
        Arc::new(builder.signature())
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Fails with `MPI_ERR_UNSUPPORTED_OPERATION` if the signature nests too deep.
    pub(crate) fn check_depth(&self) -> Result<()> {
        if self.depth <= MAX_DEPTH {
            return Ok(());
        }
        let text = format!("datatypes nested more than {MAX_DEPTH} deep are not supported");
        Err(MpiError::new(abi::MPI_ERR_UNSUPPORTED_OPERATION, text))
    }

    /// The bytes of all elements in external32, at most those in memory.
    pub fn external_bytes(&self) -> usize {
        self.external_bytes
    }

    /// The count of basic elements.
    pub fn elements(&self) -> usize {
        self.elements
    }

    /// The number of basic elements in the first `bytes` packed bytes of an array. `None` if the
    /// last one is partial, or the signature is empty.
    pub fn elements_in(&self, bytes: usize) -> Option<usize> {
        if bytes == 0 {
            return Some(0);
        }
        let whole = bytes.checked_div(self.bytes)?;
        let (mut rest, mut elements) = (bytes % self.bytes, whole * self.elements);
        for item in &self.items {
            if rest < item.bytes() {
                return match item {
                    Item::Elements(_, element) => rest
                        .is_multiple_of(element.native_size())
                        .then(|| elements + rest / element.native_size()),
                    Item::Repeat(_, body) => Some(elements + body.elements_in(rest)?),
                };
            }
            rest -= item.bytes();
            elements += item.elements();
        }
        Some(elements)
    }

    /// The packed bytes of the first `elements` basic elements of an array. `None` if the signature
    /// is empty, or the bytes do not fit in an address.
    pub fn bytes_of(&self, elements: usize) -> Option<usize> {
        if elements == 0 {
            return Some(0);
        }
        let whole = elements.checked_div(self.elements)?;
        let mut rest = elements % self.elements;
        let mut bytes = whole.checked_mul(self.bytes)?;
        for item in &self.items {
            if rest < item.elements() {
                let part = match item {
                    Item::Elements(_, element) => rest * element.native_size(),
                    Item::Repeat(_, body) => body.bytes_of(rest)?,
                };
                return bytes.checked_add(part).filter(|&n| isize::try_from(n).is_ok());
            }
            rest -= item.elements();
            bytes = bytes.checked_add(item.bytes())?;
        }
        isize::try_from(bytes).is_ok().then_some(bytes)
    }

    /// Calls `visitor` for the basic elements of `count` elements, in runs of equal ones.
    pub fn visit(&self, count: usize, visitor: &mut impl FnMut(usize, ExternalElement)) {
        if let [Item::Elements(n, element)] = *self.items {
            if count > 0 {
                visitor(n * count, element);
            }
            return;
        }
        for _ in 0..count {
            for item in &self.items {
                match item {
                    Item::Elements(n, element) => visitor(*n, *element),
                    Item::Repeat(n, body) => body.visit(*n, visitor),
                }
            }
        }
    }
}

#[derive(Default)]
struct Builder {
    items: Vec<Item>,
    depth: u32,
}

impl Builder {
    fn add(&mut self, count: usize, part: &Arc<Signature>) {
        if count == 0 || part.bytes == 0 {
            return;
        }
        match &*part.items {
            [only] => self.push(only.times(count)),
            items if count == 1 && items.len() <= INLINE_ITEMS => {
                items.iter().for_each(|item| self.push(item.clone()));
            }
            _ => self.push(Item::Repeat(count, Arc::clone(part))),
        }
    }

    fn push(&mut self, item: Item) {
        if let Item::Repeat(_, body) = &item {
            self.depth = self.depth.max(body.depth + 1);
        }
        match (self.items.last_mut(), &item) {
            (Some(Item::Elements(before, a)), Item::Elements(n, b)) if a == b => *before += n,
            (Some(Item::Repeat(before, a)), Item::Repeat(n, b)) if Arc::ptr_eq(a, b) => {
                *before += n
            }
            _ => self.items.push(item),
        }
    }

    fn signature(self) -> Signature {
        Signature {
            bytes: self.items.iter().map(Item::bytes).sum(),
            external_bytes: self.items.iter().map(Item::external_bytes).sum(),
            elements: self.items.iter().map(Item::elements).sum(),
            depth: self.depth,
            items: self.items.into_boxed_slice(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: ExternalElement = ExternalElement::same(4);
    const DOUBLE: ExternalElement = ExternalElement::same(8);

    #[test]
    fn parts_of_elements_are_counted() {
        let pair = Arc::new(Signature::of([DOUBLE, INT]));
        let three = Signature::joined([(3, &pair), (2, &Arc::new(Signature::of([INT])))]);
        assert_eq!((three.elements(), three.bytes), (8, 44));
        // The order is d i d i d i i i, and again.
        let ends = [8, 12, 20, 24, 32, 36, 40, 44, 52, 56];
        for (elements, bytes) in std::iter::once(0).chain(ends).enumerate() {
            assert_eq!(three.elements_in(bytes), Some(elements), "{bytes} bytes");
            assert_eq!(three.bytes_of(elements), Some(bytes), "{elements} elements");
        }
        assert_eq!((three.elements_in(10), three.elements_in(47)), (None, None));
        assert_eq!(three.bytes_of(usize::MAX), None);
        let none = Signature::default();
        assert_eq!(
            (none.elements_in(0), none.elements_in(1), none.bytes_of(1)),
            (Some(0), None, None)
        );
    }

    #[test]
    fn equal_neighbours_are_one_run() {
        let int = Arc::new(Signature::of([INT]));
        let many = Signature::joined([(1 << 40, &int), (5, &int)]);
        let mut runs = Vec::new();
        many.visit(2, &mut |n, element| runs.push((n, element)));
        assert_eq!(runs, [((1 << 41) + 10, INT)]);
        let pair = Arc::new(Signature::of([DOUBLE, INT]));
        let nested = Signature::joined([(2, &pair), (1, &int)]);
        runs.clear();
        nested.visit(1, &mut |n, element| runs.push((n, element)));
        assert_eq!(runs, [(1, DOUBLE), (1, INT), (1, DOUBLE), (1, INT), (1, INT)]);
    }

    #[test]
    fn too_deep_a_nest_is_refused() {
        let singles = [INT, DOUBLE].map(|element| Arc::new(Signature::of([element])));
        let many: Vec<_> =
            singles.iter().cycle().take(INLINE_ITEMS + 1).map(|one| (1, one)).collect();
        let mut t = Signature::joined(many.clone());
        for depth in 1..=MAX_DEPTH {
            t = Signature::joined(std::iter::once((1, &t)).chain(many.clone()));
            t.check_depth().unwrap();
            assert_eq!(t.depth, depth);
        }
        let error = Signature::joined(std::iter::once((1, &t)).chain(many.clone()))
            .check_depth()
            .unwrap_err();
        assert_eq!(error.class(), abi::MPI_ERR_UNSUPPORTED_OPERATION);
    }
}
