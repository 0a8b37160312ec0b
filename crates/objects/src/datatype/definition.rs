//! The constructor call of a type, read from its [`Contents`]. From this call the layout is
//! computed at the first use, and the same type can be made from other old types.

use super::array::{self, ArrayOrder, Distribution};
use super::{Combiner, Contents, Datatype, Form};
use crate::error::Result;
use oxmpi_mem::layout::{Layout, LayoutError};
use std::sync::Arc;

pub(super) struct Definition {
    form: Form,
    constructor: Constructor,
}

enum Constructor {
    /// A type of the library.
    Given,
    Dup,
    Contiguous {
        count: i64,
    },
    Vector {
        count: i64,
        block: i64,
        stride: i64,
    },
    Hvector {
        count: i64,
        block: i64,
        stride: isize,
    },
    Indexed {
        blocks: Vec<i64>,
        displacements: Vec<i64>,
    },
    Hindexed {
        blocks: Vec<i64>,
        displacements: Vec<isize>,
    },
    IndexedBlock {
        block: i64,
        displacements: Vec<i64>,
    },
    HindexedBlock {
        block: i64,
        displacements: Vec<isize>,
    },
    Struct {
        blocks: Vec<i64>,
        displacements: Vec<isize>,
    },
    Resized {
        lb: isize,
        extent: isize,
    },
    Subarray {
        sizes: Vec<i64>,
        subsizes: Vec<i64>,
        starts: Vec<i64>,
        order: ArrayOrder,
    },
    Darray(Darray),
}

struct Darray {
    size: i32,
    rank: i32,
    gsizes: Vec<i64>,
    distribs: Vec<i32>,
    dargs: Vec<i32>,
    psizes: Vec<i32>,
    order: ArrayOrder,
}

impl Darray {
    fn distribution(&self) -> Distribution<'_> {
        Distribution {
            size: self.size,
            rank: self.rank,
            gsizes: &self.gsizes,
            distribs: &self.distribs,
            dargs: &self.dargs,
            psizes: &self.psizes,
            order: self.order,
        }
    }
}

/// Arguments in the order of MPI_Type_get_contents.
struct Arguments<'a> {
    form: Form,
    integers: std::slice::Iter<'a, i32>,
    counts: std::slice::Iter<'a, i64>,
    addresses: std::slice::Iter<'a, isize>,
}

impl Arguments<'_> {
    fn integer(&mut self) -> i32 {
        self.integers.next().copied().unwrap_or_else(|| lost())
    }

    fn all_integers(&mut self, n: usize) -> Vec<i32> {
        (0..n).map(|_| self.integer()).collect()
    }

    fn order(&mut self) -> ArrayOrder {
        ArrayOrder::from_int(self.integer()).unwrap_or_else(|_| lost())
    }

    fn count(&mut self) -> i64 {
        match self.form {
            Form::Int => self.integer().into(),
            Form::Count => self.counts.next().copied().unwrap_or_else(|| lost()),
        }
    }

    fn all_counts(&mut self, n: usize) -> Vec<i64> {
        (0..n).map(|_| self.count()).collect()
    }

    fn address(&mut self) -> isize {
        match self.form {
            Form::Int => self.addresses.next().copied().unwrap_or_else(|| lost()),
            Form::Count => self.count() as isize,
        }
    }

    fn all_addresses(&mut self, n: usize) -> Vec<isize> {
        (0..n).map(|_| self.address()).collect()
    }
}

/// Each constructor records all its arguments.
fn lost() -> ! {
    unreachable!("a datatype does not know its arguments any more")
}

impl Contents {
    pub(super) fn definition(&self) -> Definition {
        let form = if self.fits_int() { Form::Int } else { Form::Count };
        let mut a = Arguments {
            form,
            integers: self.integers.iter(),
            counts: self.counts().iter(),
            addresses: self.addresses().iter(),
        };
        let constructor = match self.combiner {
            Combiner::Named | Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer => {
                Constructor::Given
            }
            Combiner::Dup => Constructor::Dup,
            Combiner::Contiguous => Constructor::Contiguous { count: a.count() },
            Combiner::Vector => {
                Constructor::Vector { count: a.count(), block: a.count(), stride: a.count() }
            }
            Combiner::Hvector => {
                Constructor::Hvector { count: a.count(), block: a.count(), stride: a.address() }
            }
            Combiner::Indexed => {
                let n = a.count() as usize;
                Constructor::Indexed { blocks: a.all_counts(n), displacements: a.all_counts(n) }
            }
            Combiner::Hindexed => {
                let n = a.count() as usize;
                Constructor::Hindexed { blocks: a.all_counts(n), displacements: a.all_addresses(n) }
            }
            Combiner::IndexedBlock => {
                let n = a.count() as usize;
                Constructor::IndexedBlock { block: a.count(), displacements: a.all_counts(n) }
            }
            Combiner::HindexedBlock => {
                let n = a.count() as usize;
                Constructor::HindexedBlock { block: a.count(), displacements: a.all_addresses(n) }
            }
            Combiner::Struct => {
                let n = a.count() as usize;
                Constructor::Struct { blocks: a.all_counts(n), displacements: a.all_addresses(n) }
            }
            Combiner::Resized => Constructor::Resized { lb: a.address(), extent: a.address() },
            Combiner::Subarray => {
                let n = a.integer() as usize;
                Constructor::Subarray {
                    sizes: a.all_counts(n),
                    subsizes: a.all_counts(n),
                    starts: a.all_counts(n),
                    order: a.order(),
                }
            }
            Combiner::Darray => {
                let (size, rank, n) = (a.integer(), a.integer(), a.integer() as usize);
                Constructor::Darray(Darray {
                    size,
                    rank,
                    gsizes: a.all_counts(n),
                    distribs: a.all_integers(n),
                    dargs: a.all_integers(n),
                    psizes: a.all_integers(n),
                    order: a.order(),
                })
            }
        };
        Definition { form, constructor }
    }
}

fn pairs<'a>(
    blocks: &'a [i64],
    displacements: impl Iterator<Item = isize> + Clone + 'a,
) -> impl Iterator<Item = (usize, isize)> + Clone + 'a {
    blocks.iter().map(|&n| n as usize).zip(displacements)
}

impl Definition {
    /// The constructor has checked the arguments.
    pub(super) fn layout(&self, types: &[Arc<Datatype>]) -> Result<Arc<Layout>, LayoutError> {
        let Some(first) = types.first() else {
            return Layout::structure([]).map(Arc::new);
        };
        let old = first.layout();
        let extent = old.extent();
        // A block without elements may have any displacement, so the product may overflow.
        let in_bytes = |elements: &i64| (*elements as isize).wrapping_mul(extent);
        let layout = match &self.constructor {
            Constructor::Given | Constructor::Dup => return Ok(Arc::clone(old)),
            Constructor::Contiguous { count } => Layout::contiguous(*count as usize, old),
            Constructor::Vector { count, block, stride } => {
                Layout::hvector(*count as usize, *block as usize, in_bytes(stride), old)
            }
            Constructor::Hvector { count, block, stride } => {
                Layout::hvector(*count as usize, *block as usize, *stride, old)
            }
            Constructor::Indexed { blocks, displacements } => {
                Layout::hindexed(pairs(blocks, displacements.iter().map(in_bytes)), old)
            }
            Constructor::Hindexed { blocks, displacements } => {
                Layout::hindexed(pairs(blocks, displacements.iter().copied()), old)
            }
            Constructor::IndexedBlock { block, displacements } => {
                Layout::hindexed(displacements.iter().map(|d| (*block as usize, in_bytes(d))), old)
            }
            Constructor::HindexedBlock { block, displacements } => {
                Layout::hindexed(displacements.iter().map(|d| (*block as usize, *d)), old)
            }
            Constructor::Struct { blocks, displacements } => {
                let members = pairs(blocks, displacements.iter().copied()).zip(types);
                Layout::structure(members.map(|((n, d), t)| (n, d, &**t.layout())))
            }
            Constructor::Resized { lb, extent } => Layout::resized(*lb, *extent, old),
            Constructor::Subarray { sizes, subsizes, starts, order } => {
                array::in_array(array::part(sizes, subsizes, starts, *order), &**old)
            }
            Constructor::Darray(array) => match array.distribution().dimensions() {
                Ok(dimensions) => array::in_array(dimensions.into_iter(), &**old),
                Err(_) => lost(),
            },
        };
        layout.map(Arc::new)
    }

    pub(super) fn made_of(&self, types: &[Arc<Datatype>]) -> Result<Arc<Datatype>> {
        let form = self.form;
        let old = || types.first().unwrap_or_else(|| lost());
        match &self.constructor {
            Constructor::Given => Ok(Arc::clone(old())),
            Constructor::Dup => Datatype::dup(old()),
            Constructor::Contiguous { count } => Datatype::contiguous(form, *count, old()),
            Constructor::Vector { count, block, stride } => {
                Datatype::vector(form, *count, *block, *stride, old())
            }
            Constructor::Hvector { count, block, stride } => {
                Datatype::hvector(form, *count, *block, *stride, old())
            }
            Constructor::Indexed { blocks, displacements } => {
                Datatype::indexed(form, blocks, displacements, old())
            }
            Constructor::Hindexed { blocks, displacements } => {
                Datatype::hindexed(form, blocks, displacements, old())
            }
            Constructor::IndexedBlock { block, displacements } => {
                Datatype::indexed_block(form, *block, displacements, old())
            }
            Constructor::HindexedBlock { block, displacements } => {
                Datatype::hindexed_block(form, *block, displacements, old())
            }
            Constructor::Struct { blocks, displacements } => {
                Datatype::structure(form, blocks, displacements, types.to_vec())
            }
            Constructor::Resized { lb, extent } => Datatype::resized(form, *lb, *extent, old()),
            Constructor::Subarray { sizes, subsizes, starts, order } => {
                Datatype::subarray(form, sizes, subsizes, starts, *order, old())
            }
            Constructor::Darray(array) => Datatype::darray(form, &array.distribution(), old()),
        }
    }
}
