//! The naive model of a datatype, and random datatypes with their models.

use oxmpi_mem::external32::ExternalElement;
use oxmpi_objects::datatype::{ArrayOrder, Combiner, Datatype, Distribution, Form};
use oxmpi_objects::predefined::{Predefined, all};
use std::sync::Arc;

/// In bytes. Larger types are skipped, so that the model stays fast.
const MOST_BYTES: usize = 4000;

#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }
}

/// One entry for each byte, in the order of the packed form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) bytes: Vec<isize>,
    pub(crate) elements: Vec<ExternalElement>,
    /// Lower and upper bound, if a part was resized.
    marks: Option<(isize, isize)>,
    /// Lower and upper bound of the members with data.
    bounds: Option<(isize, isize)>,
    align: isize,
    /// Whether the type has the padding of a C compiler.
    pub(crate) padded: bool,
}

fn joined(one: Option<(isize, isize)>, (lb, ub): (isize, isize)) -> Option<(isize, isize)> {
    Some(one.map_or((lb, ub), |one| (one.0.min(lb), one.1.max(ub))))
}

impl Model {
    pub(crate) fn true_lb(&self) -> isize {
        self.bytes.iter().copied().min().unwrap_or(0)
    }

    pub(crate) fn true_ub(&self) -> isize {
        self.bytes.iter().copied().max().map_or(0, |last| last + 1)
    }

    pub(crate) fn lb(&self) -> isize {
        self.marks.or(self.bounds).map_or(0, |bounds| bounds.0)
    }

    pub(crate) fn ub(&self) -> isize {
        let padded = || {
            let (lb, mut ub) = self.bounds.unwrap_or((0, 0));
            while self.padded && (ub - lb) % self.align.max(1) != 0 {
                ub += 1;
            }
            ub
        };
        self.marks.map_or_else(padded, |marks| marks.1)
    }

    pub(crate) fn extent(&self) -> isize {
        self.ub() - self.lb()
    }

    /// Adds `count` copies of `child` at distances of its extent, the first at `at`.
    fn add(&mut self, count: i64, at: isize, child: &Model) {
        for i in 0..count as isize {
            self.add_one(at + i * child.extent(), child);
        }
    }

    fn add_one(&mut self, at: isize, child: &Model) {
        self.bytes.extend(child.bytes.iter().map(|byte| byte + at));
        self.elements.extend(&child.elements);
        if !child.bytes.is_empty() {
            self.align = self.align.max(child.align);
            self.bounds = joined(self.bounds, (child.lb() + at, child.ub() + at));
        }
        if let Some((lb, ub)) = child.marks {
            self.marks = joined(self.marks, (lb + at, ub + at));
        }
    }

    pub(crate) fn external(&self, packed: &[u8]) -> Vec<u8> {
        self.converted(
            packed,
            ExternalElement::native_size,
            ExternalElement::external_size,
            ExternalElement::encode,
        )
    }

    pub(crate) fn native(&self, external: &[u8]) -> Vec<u8> {
        self.converted(
            external,
            ExternalElement::external_size,
            ExternalElement::native_size,
            ExternalElement::decode,
        )
    }

    fn converted(
        &self,
        mut from: &[u8],
        from_size: impl Fn(&ExternalElement) -> usize,
        to_size: impl Fn(&ExternalElement) -> usize,
        convert: impl Fn(&ExternalElement, &[u8], &mut [u8]),
    ) -> Vec<u8> {
        let mut out = Vec::new();
        while !from.is_empty() {
            for element in &self.elements {
                let (one, rest) = from.split_at(from_size(element));
                let start = out.len();
                out.resize(start + to_size(element), 0);
                convert(element, one, &mut out[start..]);
                from = rest;
            }
        }
        out
    }
}

fn predefined(random: &mut Random, types: &Predefined) -> (Arc<Datatype>, Model) {
    let facts: Vec<_> = all().collect();
    let facts = facts[random.below(facts.len())];
    let datatype = Arc::clone(types.get(facts.handle.into()).unwrap());
    let mut model = Model { align: facts.align as isize, ..Model::default() };
    datatype.signature().visit(1, &mut |n, element| model.elements.extend(vec![element; n]));
    model.bytes = (0..facts.size as isize).collect();
    if facts.name == "MPI_SHORT_INT" {
        model.bytes = vec![0, 1, 4, 5, 6, 7];
    }
    model.bounds = Some((0, model.true_ub()));
    model.padded = true;
    (datatype, model)
}

/// A random datatype of nesting `depth` and its model; `None` if it is too large for the model.
pub(crate) fn made(
    random: &mut Random,
    types: &Predefined,
    depth: usize,
) -> Option<(Arc<Datatype>, Model)> {
    if depth == 0 {
        return Some(predefined(random, types));
    }
    let form = if random.below(2) == 0 { Form::Int } else { Form::Count };
    let (old, child) = made(random, types, depth - 1)?;
    let mut model = Model::default();
    let extent = child.extent();
    let datatype = match random.below(13) {
        0 => {
            let count = random.between(0, 4);
            model.add(count, 0, &child);
            Datatype::contiguous(form, count, &old)
        }
        1 | 2 => {
            let (count, block, stride) =
                (random.between(0, 3), random.between(0, 3), random.between(-4, 6));
            (0..count).for_each(|i| model.add(block, (i * stride) as isize * extent, &child));
            Datatype::vector(form, count, block, stride, &old)
        }
        3 => {
            let (count, block, stride) =
                (random.between(0, 3), random.between(0, 3), random.between(-50, 90));
            (0..count).for_each(|i| model.add(block, (i * stride) as isize, &child));
            Datatype::hvector(form, count, block, stride as isize, &old)
        }
        4 | 5 => {
            let (blocks, places) = lists(random);
            blocks
                .iter()
                .zip(&places)
                .for_each(|(&n, &at)| model.add(n, at as isize * extent, &child));
            Datatype::indexed(form, &blocks, &places, &old)
        }
        6 => {
            let (blocks, places) = lists(random);
            let places: Vec<isize> = places.iter().map(|&at| at as isize * 7).collect();
            blocks.iter().zip(&places).for_each(|(&n, &at)| model.add(n, at, &child));
            Datatype::hindexed(form, &blocks, &places, &old)
        }
        7 => {
            let (block, places) = (random.between(0, 3), lists(random).1);
            places.iter().for_each(|&at| model.add(block, at as isize * extent, &child));
            Datatype::indexed_block(form, block, &places, &old)
        }
        8 => {
            let (block, places) = (random.between(0, 3), lists(random).1);
            let places: Vec<isize> = places.iter().map(|&at| at as isize * 5).collect();
            places.iter().for_each(|&at| model.add(block, at, &child));
            Datatype::hindexed_block(form, block, &places, &old)
        }
        9 => {
            let (blocks, places) = lists(random);
            let places: Vec<isize> = places.iter().map(|&at| at as isize * 4).collect();
            let members: Vec<_> =
                blocks.iter().map(|_| made(random, types, depth - 1)).collect::<Option<_>>()?;
            for ((&n, &at), (_, member)) in blocks.iter().zip(&places).zip(&members) {
                model.add(n, at, member);
            }
            model.padded = true;
            let olds: Vec<_> = members.into_iter().map(|(datatype, _)| datatype).collect();
            Datatype::structure(form, &blocks, &places, olds)
        }
        10 => {
            let (lb, extent) = (random.between(-20, 20) as isize, random.between(-30, 60) as isize);
            model = Model { marks: Some((lb, lb + extent)), ..child };
            Datatype::resized(form, lb, extent, &old)
        }
        11 => subarray(random, form, &old, &child, &mut model),
        _ => match random.below(4) {
            0 => {
                model = child;
                Datatype::dup(&old)
            }
            _ => darray(random, form, &old, &child, &mut model),
        },
    };
    let datatype = datatype.unwrap();
    (model.bytes.len() <= MOST_BYTES).then_some((datatype, model))
}

fn lists(random: &mut Random) -> (Vec<i64>, Vec<i64>) {
    let n = if random.below(4) == 0 { 8 + random.below(8) } else { random.below(5) };
    (
        (0..n).map(|_| random.between(0, 3)).collect(),
        (0..n).map(|_| random.between(-9, 12)).collect(),
    )
}

fn order(random: &mut Random) -> ArrayOrder {
    if random.below(2) == 0 { ArrayOrder::C } else { ArrayOrder::Fortran }
}

/// Adds the elements of an array of `sizes` for which `mine` is true, in the order of memory. The
/// result has the extent of the array.
fn pick(
    model: &mut Model,
    sizes: &[i64],
    order: ArrayOrder,
    child: &Model,
    mine: impl Fn(&[i64]) -> bool,
) {
    let all: i64 = sizes.iter().product();
    for element in 0..all {
        let mut at = vec![0; sizes.len()];
        let mut rest = element;
        let dimensions: Vec<usize> = match order {
            ArrayOrder::C => (0..sizes.len()).rev().collect(),
            ArrayOrder::Fortran => (0..sizes.len()).collect(),
        };
        for i in dimensions {
            at[i] = rest % sizes[i];
            rest /= sizes[i];
        }
        if mine(&at) {
            model.add_one(element as isize * child.extent(), child);
        }
    }
    model.marks = Some((0, all as isize * child.extent()));
}

fn subarray(
    random: &mut Random,
    form: Form,
    old: &Arc<Datatype>,
    child: &Model,
    model: &mut Model,
) -> oxmpi_objects::error::Result<Arc<Datatype>> {
    let ndims = 1 + random.below(3);
    let sizes: Vec<i64> = (0..ndims).map(|_| random.between(1, 5)).collect();
    let subsizes: Vec<i64> = sizes.iter().map(|&n| random.between(1, n)).collect();
    let starts: Vec<i64> =
        sizes.iter().zip(&subsizes).map(|(n, sub)| random.between(0, n - sub)).collect();
    let order = order(random);
    pick(model, &sizes, order, child, |at| {
        (0..ndims).all(|i| (starts[i]..starts[i] + subsizes[i]).contains(&at[i]))
    });
    Datatype::subarray(form, &sizes, &subsizes, &starts, order, old)
}

fn darray(
    random: &mut Random,
    form: Form,
    old: &Arc<Datatype>,
    child: &Model,
    model: &mut Model,
) -> oxmpi_objects::error::Result<Arc<Datatype>> {
    use oxmpi_abi::constants::*;
    let ndims = 1 + random.below(3);
    let gsizes: Vec<i64> = (0..ndims).map(|_| random.between(1, 7)).collect();
    let distribs: Vec<i32> = (0..ndims)
        .map(|_| {
            [MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC][random.below(3)]
        })
        .collect();
    let psizes: Vec<i32> = distribs
        .iter()
        .map(|&d| if d == MPI_DISTRIBUTE_NONE { 1 } else { random.between(1, 3) as i32 })
        .collect();
    let size: i32 = psizes.iter().product();
    let rank = random.below(size as usize) as i32;
    // The argument, and the block length for which it stands.
    let mut dargs = Vec::new();
    let mut blocks = Vec::new();
    for i in 0..ndims {
        let (n, p) = (gsizes[i], i64::from(psizes[i]));
        let least = (n + p - 1) / p;
        let given = random.below(2) == 0;
        let block = match distribs[i] {
            MPI_DISTRIBUTE_NONE => n,
            MPI_DISTRIBUTE_BLOCK if given => random.between(least, least + 2),
            MPI_DISTRIBUTE_BLOCK => least,
            _ if given => random.between(1, 4),
            _ => 1,
        };
        blocks.push(block);
        let default = !given || distribs[i] == MPI_DISTRIBUTE_NONE;
        dargs.push(if default { MPI_DISTRIBUTE_DFLT_DARG } else { block as i32 });
    }
    let mut coordinates = vec![0; ndims];
    let mut rest = rank;
    for i in (0..ndims).rev() {
        coordinates[i] = i64::from(rest % psizes[i]);
        rest /= psizes[i];
    }
    let order = order(random);
    pick(model, &gsizes, order, child, |at| {
        (0..ndims).all(|i| at[i] / blocks[i] % i64::from(psizes[i]) == coordinates[i])
    });
    let distribution = Distribution {
        size,
        rank,
        gsizes: &gsizes,
        distribs: &distribs,
        dargs: &dargs,
        psizes: &psizes,
        order,
    };
    Datatype::darray(form, &distribution, old)
}

/// Builds the datatype again from its contents, recursively.
pub(crate) fn rebuilt(datatype: &Datatype, types: &Predefined) -> Arc<Datatype> {
    let contents = datatype.contents();
    if contents.combiner == Combiner::Named {
        return Arc::clone(types.get(datatype.facts().unwrap().handle.into()).unwrap());
    }
    let olds: Vec<_> = contents.types.iter().map(|old| rebuilt(old, types)).collect();
    let ints: Vec<i64> = contents.integers.iter().map(|&n| n.into()).collect();
    let form = if contents.counts().is_empty() { Form::Int } else { Form::Count };
    // Displacements, and numbers that are counts in one form and integers in the other.
    let counts: &[i64] = if form == Form::Int { &ints } else { contents.counts() };
    let tail = |from: usize| -> Vec<isize> {
        match form {
            Form::Int => contents.addresses().to_vec(),
            Form::Count => contents.counts()[from..].iter().map(|&n| n as isize).collect(),
        }
    };
    let n = counts.first().map_or(0, |&n| n as usize);
    let new = match contents.combiner {
        Combiner::Contiguous => Datatype::contiguous(form, counts[0], &olds[0]),
        Combiner::Vector => Datatype::vector(form, counts[0], counts[1], counts[2], &olds[0]),
        Combiner::Hvector => Datatype::hvector(form, counts[0], counts[1], tail(2)[0], &olds[0]),
        Combiner::Indexed => Datatype::indexed(form, &counts[1..=n], &counts[n + 1..], &olds[0]),
        Combiner::Hindexed => Datatype::hindexed(form, &counts[1..=n], &tail(n + 1), &olds[0]),
        Combiner::IndexedBlock => Datatype::indexed_block(form, counts[1], &counts[2..], &olds[0]),
        Combiner::HindexedBlock => Datatype::hindexed_block(form, counts[1], &tail(2), &olds[0]),
        Combiner::Struct => Datatype::structure(form, &counts[1..=n], &tail(n + 1), olds),
        Combiner::Resized => Datatype::resized(form, tail(0)[0], tail(0)[1], &olds[0]),
        Combiner::Dup => Datatype::dup(&olds[0]),
        Combiner::Subarray => {
            let n = contents.integers[0] as usize;
            let sizes = if form == Form::Int { &ints[1..=3 * n] } else { contents.counts() };
            let order = ArrayOrder::from_int(*contents.integers.last().unwrap()).unwrap();
            Datatype::subarray(
                form,
                &sizes[..n],
                &sizes[n..2 * n],
                &sizes[2 * n..],
                order,
                &olds[0],
            )
        }
        Combiner::Darray => {
            let (integers, n) = (&contents.integers, contents.integers[2] as usize);
            let (gsizes, at) = match form {
                Form::Int => (&ints[3..3 + n], 3 + n),
                Form::Count => (contents.counts(), 3),
            };
            let distribution = Distribution {
                size: integers[0],
                rank: integers[1],
                gsizes,
                distribs: &integers[at..at + n],
                dargs: &integers[at + n..at + 2 * n],
                psizes: &integers[at + 2 * n..at + 3 * n],
                order: ArrayOrder::from_int(*integers.last().unwrap()).unwrap(),
            };
            Datatype::darray(form, &distribution, &olds[0])
        }
        other => panic!("no random datatype is made by {other:?}"),
    };
    new.unwrap()
}
