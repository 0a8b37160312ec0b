//! What a datatype is like in a file whose basic types have other sizes (MPI-5.0, "Data Representations").
//!
//! The type is made again by the same constructors of the types in the file: displacements in elements follow their
//! extents, displacements in bytes stay as they are.

use super::{Combiner, Contents, Datatype, Distribution, Form, Order};
use crate::error::{MpiError, Result};
use crate::predefined::PredefinedType;
use oxmpi_abi::constants as abi;
use oxmpi_mem::layout::Layout;
use std::sync::Arc;

/// Arguments in the order of MPI_Type_get_contents.
struct Arguments<'a> {
    contents: &'a Contents,
    /// How many of the counts are used up.
    counts: usize,
    /// How many displacements are.
    addresses: usize,
    integers: usize,
}

impl Arguments<'_> {
    fn lost() -> MpiError {
        MpiError::new(abi::MPI_ERR_INTERN, "a datatype does not know its arguments any more")
    }

    fn form(&self) -> Form {
        if self.contents.fits_int() { Form::Int } else { Form::Count }
    }

    /// The next argument that is an `int` in both forms.
    fn integer(&mut self) -> Result<i32> {
        let value = self.contents.integers.get(self.integers).copied().ok_or_else(Arguments::lost)?;
        self.integers += 1;
        Ok(value)
    }

    /// The next count.
    fn count(&mut self) -> Result<i64> {
        if self.form() == Form::Int {
            return self.integer().map(i64::from);
        }
        let value = self.contents.counts().get(self.counts).copied().ok_or_else(Arguments::lost)?;
        self.counts += 1;
        Ok(value)
    }

    fn all_counts(&mut self, n: i64) -> Result<Vec<i64>> {
        (0..n).map(|_| self.count()).collect()
    }

    /// The next displacement in bytes, after all counts.
    fn address(&mut self) -> Result<isize> {
        if self.form() == Form::Count {
            return self.count().map(|n| n as isize);
        }
        let value = self.contents.addresses().get(self.addresses).copied().ok_or_else(Arguments::lost)?;
        self.addresses += 1;
        Ok(value)
    }

    fn all_addresses(&mut self, n: i64) -> Result<Vec<isize>> {
        (0..n).map(|_| self.address()).collect()
    }
}

impl Datatype {
    /// The datatype in a file where a predefined type has as many bytes as `size_of` says.
    ///
    /// # Errors
    /// Those of `size_of`; class `MPI_ERR_VALUE_TOO_LARGE` if a size or an extent becomes too large.
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
            made.layout = Arc::new(Layout::basic(size, 1));
            return Ok(Arc::new(made));
        }
        let contents = self.contents();
        let old = contents.types.iter().map(|t| t.in_file(size_of)).collect::<Result<Vec<_>>>()?;
        if old.iter().zip(contents.types.iter()).all(|(a, b)| Arc::ptr_eq(a, b)) {
            return Ok(Arc::clone(self));
        }
        made_again(contents, &old)
    }

    /// The datatype in a file of external32.
    ///
    /// # Errors
    /// As [`in_file`](Self::in_file).
    pub fn in_external32(self: &Arc<Datatype>) -> Result<Arc<Datatype>> {
        self.in_file(&mut |facts| Ok(facts.elements().into_iter().map(|e| e.external_size()).sum()))
    }
}

/// The type that the same constructor makes of these types.
fn made_again(contents: &Contents, types: &[Arc<Datatype>]) -> Result<Arc<Datatype>> {
    let mut a = Arguments { contents, counts: 0, addresses: 0, integers: 0 };
    let form = a.form();
    let old = types.first().ok_or_else(Arguments::lost)?;
    match contents.combiner {
        Combiner::Named | Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer => {
            Err(Arguments::lost())
        }
        Combiner::Dup => Datatype::dup(old),
        Combiner::Contiguous => Datatype::contiguous(form, a.count()?, old),
        Combiner::Vector => Datatype::vector(form, a.count()?, a.count()?, a.count()?, old),
        Combiner::Hvector => {
            let (count, block) = (a.count()?, a.count()?);
            Datatype::hvector(form, count, block, a.address()?, old)
        }
        Combiner::Indexed => {
            let n = a.count()?;
            let blocks = a.all_counts(n)?;
            Datatype::indexed(form, &blocks, &a.all_counts(n)?, old)
        }
        Combiner::Hindexed => {
            let n = a.count()?;
            let blocks = a.all_counts(n)?;
            Datatype::hindexed(form, &blocks, &a.all_addresses(n)?, old)
        }
        Combiner::IndexedBlock => {
            let (n, block) = (a.count()?, a.count()?);
            Datatype::indexed_block(form, block, &a.all_counts(n)?, old)
        }
        Combiner::HindexedBlock => {
            let (n, block) = (a.count()?, a.count()?);
            Datatype::hindexed_block(form, block, &a.all_addresses(n)?, old)
        }
        Combiner::Struct => {
            let n = a.count()?;
            let blocks = a.all_counts(n)?;
            Datatype::structure(form, &blocks, &a.all_addresses(n)?, types)
        }
        Combiner::Resized => {
            let (lb, extent) = (a.address()?, a.address()?);
            Datatype::resized(form, lb, extent, old)
        }
        Combiner::Subarray => {
            let n = i64::from(a.integer()?);
            let (sizes, subsizes, starts) = (a.all_counts(n)?, a.all_counts(n)?, a.all_counts(n)?);
            Datatype::subarray(form, &sizes, &subsizes, &starts, Order::from_int(a.integer()?)?, old)
        }
        Combiner::Darray => {
            let (size, rank, n) = (a.integer()?, a.integer()?, i64::from(a.integer()?));
            let gsizes = a.all_counts(n)?;
            let mut integers = |n: i64| (0..n).map(|_| a.integer()).collect::<Result<Vec<i32>>>();
            let (distribs, dargs) = (integers(n)?, integers(n)?);
            let psizes = integers(n)?;
            let order = Order::from_int(a.integer()?)?;
            let array = Distribution {
                size,
                rank,
                gsizes: &gsizes,
                distribs: &distribs,
                dargs: &dargs,
                psizes: &psizes,
                order,
            };
            Datatype::darray(form, &array, old)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predefined::Predefined;

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
            let mixed = Datatype::structure(form, &[1, 2], &[0, 16], &[long.clone(), vector.clone()]);
            let file = mixed.unwrap().in_external32().unwrap();
            assert_eq!((file.layout().size(), file.layout().extent()), (28, 16 + 40));
            let box_of = Datatype::subarray(
                form,
                &[4, 6],
                &[2, 3],
                &[1, 2],
                Order::from_int(abi::MPI_ORDER_C).unwrap(),
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
