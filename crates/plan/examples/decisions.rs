//! Writes the table of the fixed decisions to the file of its argument: `cargo xtask decisions`.

use oxmpi_plan::Setup;
use oxmpi_plan::decisions::{DECIDED, text};
use std::io::Write;

const HEAD: &str = "\
//! The fixed decisions. Written by `cargo xtask decisions`; do not edit.
//!
//! A row: the largest team, the most bytes => the number of the algorithm, its name, bytes of a
//! segment, fan-out; 0: the algorithm's default.

use super::{ANY, LONG, PLAIN, DecisionTable, DecisionRow, Setup};
use crate::call::Collective;

macro_rules! rows {
    ($($max_size:expr, $max_bytes:expr => $number:literal $name:literal $segment:literal $fan_out:literal;)*) => {
        &[$(DecisionRow {
            max_size: $max_size,
            max_bytes: $max_bytes,
            number: $number,
            #[cfg(test)]
            name: $name,
            segment_bytes: $segment,
            fan_out: $fan_out,
        }),*]
    };
}

pub(super) static PARTS: &[DecisionTable] = &[
";

fn main() -> std::io::Result<()> {
    let name = std::env::args().nth(1).ok_or_else(|| std::io::Error::other("usage: decisions FILE"))?;
    let mut out = Vec::new();
    out.write_all(HEAD.as_bytes())?;
    for name in ["Gatherv", "Scatterv", "Alltoallv", "Neighbor", "InterMove", "InterReduce"] {
        writeln!(
            out,
            "    DecisionTable {{ collective: Collective::{name}, setup: None, commutative: None, powers_of_two: None, rows: PLAIN }},"
        )?;
    }
    let parts = std::thread::scope(|scope| {
        let part = |setup| scope.spawn(move || parts(setup));
        let both = Setup::ALL.map(part);
        both.map(|thread| thread.join().map_err(|_| std::io::Error::other("a thread has panicked")))
    });
    for part in parts {
        out.write_all(part?.as_bytes())?;
    }
    writeln!(out, "];")?;
    std::fs::write(name, out)
}

fn parts(setup: Setup) -> String {
    let mut out = String::new();
    for (collective, differs) in DECIDED {
        for commutative in if differs { &[true, false][..] } else { &[true][..] } {
            let operations = if differs { format!("Some({commutative})") } else { "None".into() };
            for powers in [true, false] {
                let rows = text(setup, collective, *commutative, powers).replace("    ", "            ");
                out += &format!(
                    "    DecisionTable {{\n        collective: Collective::{collective:?},\n        setup: \
                     Some(Setup::{setup:?}),\n        commutative: {operations},\n        powers_of_two: \
                     Some({powers}),\n        rows: rows! {{\n{rows}        }},\n    }},\n"
                );
            }
        }
    }
    out
}
