//! Datatypes in a file whose basic types have other sizes (MPI-5.0, "Data Representations"). The
//! same constructors make such a type from the file's basic types. Displacements in elements then
//! follow the new extents, and displacements in bytes stay.

use super::Datatype;
use crate::error::Result;
use crate::predefined::PredefinedType;
use oxmpi_mem::bounds::Bounds;
use oxmpi_mem::layout::Layout;
use std::sync::{Arc, OnceLock};

impl Datatype {
    /// The datatype in a file in which a predefined type has `size_of` bytes. Fails as `size_of`
    /// does, and with `MPI_ERR_VALUE_TOO_LARGE` if a size or extent becomes too large.
    pub fn in_file(
        self: &Arc<Datatype>,
        size_of: &mut dyn FnMut(&'static PredefinedType) -> Result<usize>,
    ) -> Result<Arc<Datatype>> {
        if let Some(facts) = self.facts() {
            let size = size_of(facts)?;
            if (size, size) == (facts.size, facts.extent) {
                return Ok(Arc::clone(self));
            }
            let mut made = self.again();
            made.bounds = Bounds::basic(size, 1);
            made.layout = OnceLock::from(Arc::new(Layout::basic(size, 1)));
            return Ok(Arc::new(made));
        }
        let contents = self.contents();
        let old = contents.types.iter().map(|t| t.in_file(size_of)).collect::<Result<Vec<_>>>()?;
        if old.iter().zip(contents.types.iter()).all(|(a, b)| Arc::ptr_eq(a, b)) {
            return Ok(Arc::clone(self));
        }
        contents.definition().made_of(&old)
    }

    /// The datatype in a file of external32. Fails as [`in_file`](Self::in_file) does.
    pub fn in_external32(self: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        self.in_file(&mut |facts| Ok(facts.elements().into_iter().map(|e| e.external_size()).sum()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ArrayOrder, Form};
    use super::*;
    use crate::predefined::Predefined;
    use oxmpi_abi::constants as abi;

    #[test]
    fn extents_follow_the_sizes_in_the_file() {
        let predefined = Predefined::new();
        let get = |handle: usize| Arc::clone(predefined.get(handle as u64).unwrap());
        let (long, double) = (get(abi::MPI_LONG), get(abi::MPI_DOUBLE));
        for form in [Form::Int, Form::Count] {
            let vector = Datatype::vector(form, 3, 1, 2, &long).unwrap();
            let file = vector.in_external32().unwrap();
            assert_eq!((file.layout().size(), file.layout().extent()), (12, 20));
            let same = Datatype::vector(form, 3, 1, 2, &double).unwrap();
            assert!(Arc::ptr_eq(&same, &same.in_external32().unwrap()));
            let mixed =
                Datatype::structure(form, &[1, 2], &[0, 16], vec![long.clone(), vector.clone()]);
            let file = mixed.unwrap().in_external32().unwrap();
            assert_eq!((file.layout().size(), file.layout().extent()), (28, 16 + 40));
            let box_of = Datatype::subarray(
                form,
                &[4, 6],
                &[2, 3],
                &[1, 2],
                ArrayOrder::from_int(abi::MPI_ORDER_C).unwrap(),
                &long,
            );
            let file = box_of.unwrap().in_external32().unwrap();
            assert_eq!((file.layout().size(), file.layout().extent()), (24, 96));
            assert_eq!(file.layout().true_lb(), (6 + 2) * 4);
            let lists = Datatype::hindexed(form, &[1, 1], &[4, 100], &long).unwrap();
            let file = lists.in_external32().unwrap();
            assert_eq!((file.layout().true_lb(), file.layout().extent()), (4, 100));
        }
    }
}
