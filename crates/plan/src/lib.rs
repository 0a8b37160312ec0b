//! Collectives as plans.
//!
//! A *plan* is the list of steps of one rank in one collective call: sends, receives, copies and
//! reductions. An algorithm is written once, as a [`Generator`] that yields [`PlanStep`]s one by
//! one, for the blocking, nonblocking and persistent forms of its collective, the verifier, and a
//! simulator. It knows its rank, the size of the team, the root and the counts, and nothing of
//! memory, networks or time.
//!
//! ```
//! use oxmpi_plan::{Call, Generator, TeamMember, Parameters, Shared, choose, make};
//!
//! let call = Call::Bcast { root: 0, bytes: Shared(100) };
//! let algorithm = choose(call.collective(), 4, Shared(100), true);
//! let mut plan = make(algorithm, TeamMember { rank: 3, size: 4 }, &call, &Parameters::default())?;
//! while let Some(step) = plan.next() {
//!     println!("{step:?}");
//! }
//! # Ok::<(), oxmpi_plan::PlanError>(())
//! ```
//!
//! Read [`ir`] first: the instruction set, and the rules between a generator and its executor.
//! [`table`] lists the algorithms with their restrictions, [`choose`] selects one by [`decisions`],
//! and [`verify`] runs all ranks of a plan symbolically to find its faults.
#![forbid(unsafe_code)]

mod algorithms;
pub mod blocks;
mod burst;
pub mod call;
mod choice;
pub mod cost;
pub mod decisions;
pub mod edges;
pub mod ir;
pub mod knowledge;
mod nodes;
mod plan;
mod shape;
pub mod table;
mod trees;
pub mod verify;

pub use blocks::Blocks;
pub use call::{Call, Collective, Groups, InterCollective, InterRole, TeamMember};
pub use choice::{Chosen, Setup, choose, choose_on, choose_within};
pub use edges::{Edge, Edges};
pub use ir::{Action, After, Generator, PlanBuffer, PlanStep, PlanUnit, Span};
pub use knowledge::{Paired, RootOnly, Shared};
pub use nodes::Nodes;
pub use plan::AnyPlan;
pub use table::segment_bytes;
pub use table::{
    ALGORITHMS, Algorithm, AlgorithmId, Parameter, Parameters, PlanError, Restriction, make,
    make_on,
};
