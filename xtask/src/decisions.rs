//! `cargo xtask decisions`: the table of the fixed decisions, worked out again by the cost model.

use crate::run::{Failure, Run};

const TABLE: &str = "crates/plan/src/choice/fixed.rs";

pub(crate) fn decisions() -> Result<(), Failure> {
    let example = ["run", "--locked", "--release", "-p", "oxmpi-plan", "--example", "decisions", "--", TABLE];
    Run::cargo().args(example).show()?;
    println!("written: {TABLE}");
    Ok(())
}
