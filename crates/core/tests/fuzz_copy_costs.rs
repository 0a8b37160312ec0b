//! Random files of copy costs, for OXMPI_FUZZ_SECONDS (default 1). OXMPI_FUZZ_SEED repeats one
//! case.
#![allow(clippy::unwrap_used)] // a failure is the test's

#[path = "../../wire/tests/support/random.rs"]
mod random;
#[path = "../../wire/tests/support/seeds.rs"]
mod seeds;

use oxmpi_core::copy_costs::{CostsError, Platform, figures, parse, render};
use oxmpi_fabric::shm::copy_policy::{
    Capabilities, CopyFacts, CopyPlan, Proximity, SingleCopyMode,
};
use random::Random;

fn file(random: &mut Random) -> Vec<u8> {
    let mut facts = CopyFacts::built_in("", 0);
    for (_, figure) in figures(&mut facts) {
        *figure = [0.0, 0.04, 22.0, 1e9][random.below(4)] * random.below(3) as f64;
    }
    let mut bytes = render(&Platform::here(), &facts, &["near_in_ns"]).into_bytes();
    for _ in 0..random.below(4) {
        let at = random.below(bytes.len().max(1)).min(bytes.len());
        let to = (at + random.below(40)).min(bytes.len());
        match random.below(4) {
            0 if at < to => bytes[at] = random.draw() as u8,
            1 => drop(bytes.drain(at..to)),
            2 => {
                let again = bytes[at..to].to_vec();
                bytes.splice(at..at, again);
            }
            3 => bytes.truncate(at),
            _ => {}
        }
    }
    bytes
}

#[test]
fn an_error_names_an_existing_line_and_valid_costs_have_a_protocol_for_all_lengths() {
    seeds::each_seed(|seed| {
        let bytes = file(&mut Random(seed));
        let lines = bytes.split(|byte| *byte == b'\n').count();
        match parse(&bytes) {
            Ok((platform, mut facts)) => {
                assert!(
                    figures(&mut facts).iter().all(|(_, figure)| (0.0..=1e9).contains(&**figure))
                );
                let capabilities = Capabilities {
                    ring_below: 1 << 10,
                    pool: true,
                    single_copy: SingleCopyMode::Auto,
                };
                let plan = CopyPlan::new(&facts, Proximity::Unknown, capabilities);
                assert!(
                    (0..31).all(|magnitude| plan.of(1 << magnitude).piece_bytes.is_power_of_two())
                );
                assert_eq!(
                    parse(render(&platform, &facts, &[]).as_bytes()).map(|(of, _)| of),
                    Ok(platform)
                );
            }
            Err(CostsError::Line { line, .. }) => assert!((1..=lines).contains(&line)),
            Err(CostsError::Missing(_)) => {}
            Err(other) => panic!("{other}"),
        }
    });
}
