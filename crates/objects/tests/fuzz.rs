//! Random nested datatypes against a naive model: a list with the offset of every byte, as MPI-5.0
//! section 5.1 defines a type map. `OXMPI_FUZZ_SECONDS` (default 1) is the run time. Each datatype
//! has its own seed, which a failure prints; `OXMPI_FUZZ_SEED=n` runs one seed.

#![allow(clippy::unwrap_used, reason = "a test's own helpers")]

mod model;
#[path = "../../wire/tests/support/seeds.rs"]
mod seeds;

use model::{Model, Random, made, rebuilt};
use oxmpi_mem::buffer::{Cursor, UserBuf};
use oxmpi_mem::memory::lend_mut;
use oxmpi_objects::datatype::{Datatype, Form};
use oxmpi_objects::predefined::Predefined;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::sync::Arc;

/// In bytes; larger arrays are not copied.
const MOST_MEMORY: isize = 1 << 20;

#[test]
fn random_datatypes_equal_the_model() {
    let types = Predefined::new();
    seeds::each_seed(|seed| try_one(seed, &types));
}

fn try_one(seed: u64, types: &Predefined) {
    let mut random = Random::new(seed);
    let depth = random.below(5);
    let Some((datatype, model)) = made(&mut random, types, depth) else { return };
    describes(&datatype, &model);
    let same = rebuilt(&datatype, types);
    describes(&same, &model);
    assert_eq!(same.contents().combiner, datatype.contents().combiner);
    assert_eq!(same.contents().integers, datatype.contents().integers);
    assert_eq!(same.contents().addresses(), datatype.contents().addresses());
    assert_eq!(same.contents().counts(), datatype.contents().counts());
    counts_elements(&mut random, &datatype, &model);
    moves_bytes(&mut random, &datatype, &model);
}

fn describes(datatype: &Datatype, model: &Model) {
    let layout = datatype.layout();
    assert_eq!(layout.bounds(), datatype.bounds(), "bounds before the first use and after it");
    assert_eq!(layout.size(), model.bytes.len(), "size");
    assert_eq!((layout.lb(), layout.extent()), (model.lb(), model.extent()), "lb and extent");
    assert_eq!(
        (layout.true_lb(), layout.true_extent()),
        (model.true_lb(), model.true_ub() - model.true_lb()),
        "true lb and extent"
    );
    assert_eq!(datatype.signature().elements(), model.elements.len(), "basic elements");
    let external: usize = model.elements.iter().map(|e| e.external_size()).sum();
    assert_eq!(datatype.external_size(3), Some(3 * external), "bytes in external32");
    let plain = model.lb() == 0
        && model.ub() == model.bytes.len() as isize
        && model.bytes.iter().enumerate().all(|(i, &at)| at == i as isize);
    assert_eq!(layout.is_contiguous(), plain, "contiguous");
}

fn counts_elements(random: &mut Random, datatype: &Datatype, model: &Model) {
    let signature = datatype.signature();
    let (size, each) = (model.bytes.len(), model.elements.len());
    if size == 0 {
        assert_eq!((signature.elements_in(0), signature.elements_in(5)), (Some(0), None));
        return;
    }
    let (whole, part) = (random.below(4), random.below(each));
    let part_bytes: usize = model.elements[..part].iter().map(|e| e.native_size()).sum();
    let bytes = whole * size + part_bytes;
    assert_eq!(signature.elements_in(bytes), Some(whole * each + part));
    assert_eq!(signature.bytes_of(whole * each + part), Some(bytes));
    if model.elements[part].native_size() > 1 {
        assert_eq!(signature.elements_in(bytes + 1), None);
    }
}

fn moves_bytes(random: &mut Random, datatype: &Arc<Datatype>, model: &Model) {
    let count = 1 + random.below(4) as isize;
    let of_element = |element| model.bytes.iter().map(move |at| at + element * model.extent());
    let mut places: Vec<isize> = (0..count).flat_map(of_element).collect();
    let (Some(&low), Some(&high)) = (places.iter().min(), places.iter().max()) else { return };
    if high - low > MOST_MEMORY {
        return;
    }
    // The array as one element, moved so that its lowest byte is at the start of the memory.
    let array = Datatype::hindexed(Form::Count, &[count as i64], &[-low], datatype).unwrap();
    places.iter_mut().for_each(|at| *at -= low);
    let mut memory: Vec<u8> = (low..=high).map(|_| random.next() as u8).collect();
    let expected: Vec<u8> = places.iter().map(|&at| memory[at as usize]).collect();
    let mut external = vec![0; array.external_size(1).unwrap()];
    on(&mut memory, &array, |buffer| {
        let mut packed = vec![0; expected.len()];
        buffer.pack(0, BytesMut::from(&mut packed[..]));
        assert_eq!(packed, expected, "packed");
        let from = random.below(packed.len());
        let mut part = vec![0; 1 + random.below(packed.len() - from)];
        buffer.pack(from, BytesMut::from(&mut part[..]));
        assert_eq!(part, expected[from..from + part.len()], "packed in part");
        array.pack_external(&buffer, BytesMut::from(&mut external[..]));
        assert_eq!(external, model.external(&expected), "external32");
    });

    // The result of a receive into overlapping elements is undefined.
    let mut distinct = places.clone();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() != places.len() {
        return;
    }
    let new: Vec<u8> = expected.iter().map(|_| random.next() as u8).collect();
    let mut wanted = memory.clone();
    places.iter().zip(&new).for_each(|(&at, &byte)| wanted[at as usize] = byte);
    on(&mut memory, &array, |buffer| {
        let mut cursor = Cursor::default();
        while cursor.offset() < new.len() {
            let (from, n) = (cursor.offset(), 1 + random.below(new.len() - cursor.offset()));
            buffer.unpack_next(&mut cursor, Bytes::from(&new[from..from + n]));
        }
    });
    assert_eq!(memory, wanted, "unpacked");

    let native = model.native(&external);
    places.iter().zip(&native).for_each(|(&at, &byte)| wanted[at as usize] = byte);
    on(&mut memory, &array, |buffer| array.unpack_external(Bytes::from(&external[..]), &buffer));
    assert_eq!(memory, wanted, "unpacked from external32");
}

fn on(memory: &mut [u8], datatype: &Datatype, f: impl FnOnce(UserBuf)) {
    lend_mut(memory, |bytes| f(bytes.cast(1, datatype.layout()).unwrap()));
}
