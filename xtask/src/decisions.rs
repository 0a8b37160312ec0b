//! `cargo xtask decisions`: the table of the fixed decisions, computed again by the cost model.

use clap::Args;

use crate::root;
use crate::run::{Failure, Run};

const TABLE: &str = "crates/plan/src/choice/fixed.txt";
/// The new table is written here first: an interrupted run leaves the old one alone.
const NEW: &str = "target/decisions.txt";

#[derive(Args, Debug)]
pub(crate) struct DecisionsOptions {
    /// Compare the decisions with the committed ones, which stay
    #[arg(long)]
    check: bool,
}

pub(crate) fn decisions(options: &DecisionsOptions) -> Result<(), Failure> {
    make()?;
    if !options.check {
        std::fs::copy(root().join(NEW), root().join(TABLE))
            .map_err(Failure::io(format!("copying {NEW} to {TABLE}")))?;
        println!("written: {TABLE}");
        return Ok(());
    }
    let read = |name: &str| {
        std::fs::read(root().join(name)).map_err(Failure::io(format!("reading {name}")))
    };
    if read(NEW)? != read(TABLE)? {
        return Err(Failure::new(format!(
            "{TABLE} is not what the cost model says, which is in {NEW}: 'cargo xtask decisions' writes it"
        )));
    }
    println!("{TABLE} is what the cost model says");
    Ok(())
}

fn make() -> Result<(), Failure> {
    std::fs::create_dir_all(root().join("target")).map_err(Failure::io("making target"))?;
    let example =
        ["run", "--locked", "--release", "-p", "oxmpi-plan", "--example", "decisions", "--", NEW];
    Run::cargo().args(example).show()
}
