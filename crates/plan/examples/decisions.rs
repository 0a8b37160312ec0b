//! Writes the table of the fixed decisions to the file of its argument: `cargo xtask decisions`.

use oxmpi_plan::Setup;
use oxmpi_plan::decisions::{DECIDED, text};
use std::io::Write;

const HEAD: &str = "\
# The fixed decisions. `cargo xtask decisions` writes this file; do not edit it.
#
# part COLLECTIVE PROCESSORS OPERATIONS RANKS: a dedicated processor for each rank or fewer
# processors (oversubscribed), commutative operations or others, numbers of ranks that are powers of
# two or others; - is any.
# Rows of a part: at most RANKS, at most BYTES, number and name of the algorithm, bytes of a segment,
# fan-out. - is no bound; 0 leaves segment and fan-out to the algorithm. The first row that fits counts.
";

fn main() -> std::io::Result<()> {
    let usage = || std::io::Error::other("usage: decisions FILE");
    let name = std::env::args().nth(1).ok_or_else(usage)?;
    let mut out = Vec::new();
    out.write_all(HEAD.as_bytes())?;
    // These have one algorithm, or lengths that the ranks do not share.
    for name in ["gatherv", "scatterv", "alltoallv", "neighbor", "inter_move", "inter_reduce"] {
        writeln!(out, "part {name} - - -")?;
    }
    let parts = std::thread::scope(|scope| {
        let part = |setup| scope.spawn(move || parts(setup));
        let both = Setup::ALL.map(part);
        both.map(|thread| thread.join().map_err(|_| std::io::Error::other("a thread has panicked")))
    });
    for part in parts {
        out.write_all(part?.as_bytes())?;
    }
    std::fs::write(name, out)
}

fn parts(setup: Setup) -> String {
    let processors = match setup {
        Setup::Dedicated => "dedicated",
        Setup::Oversubscribed => "oversubscribed",
    };
    let mut out = String::new();
    for (collective, differs) in DECIDED {
        for commutative in if differs { &[true, false][..] } else { &[true][..] } {
            let operations = match (differs, commutative) {
                (false, _) => "-",
                (true, true) => "commutative",
                (true, false) => "others",
            };
            for (powers, ranks) in [(true, "powers_of_two"), (false, "others")] {
                let rows = text(setup, collective, *commutative, powers);
                out += &format!("part {collective} {processors} {operations} {ranks}\n{rows}");
            }
        }
    }
    out
}
