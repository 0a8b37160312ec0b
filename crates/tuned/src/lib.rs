//! The choice of an algorithm for a collective call, with its reason: the `tuned` component of Open
//! MPI's guide.
//!
//! There are three modes. *Forced*: a parameter (`coll_tuned_allreduce_algorithm`) names the
//! algorithm. *Dynamic*: a rules file (`coll_tuned_dynamic_rules_filename`) names an algorithm for
//! each range of communicator and message sizes. *Fixed*: the decisions of [`oxmpi_plan::choose`].
//! A [`Selection`] tries the modes in this order and reports the one that has chosen. All ranks of
//! a call have the same input, so they choose the same algorithm.
//!
//! ```
//! use oxmpi_plan::Collective;
//! use oxmpi_tuned::{CollectiveFacts, Rules, Selection};
//!
//! let file = "1 # collectives\n2 # allreduce\n1 # sizes\n4 # ranks\n2 # rules\n0 0 0 0\n\
//!             1024 4 0 0\n";
//! let read = Rules::parse("my.conf", file.as_bytes())?;
//! let selection = Selection::default().with_rules(read.rules);
//! let facts = CollectiveFacts::new(Collective::Allreduce, 8, 4096, 8, true);
//! let decision = selection.decide(&facts)?;
//! assert_eq!(decision.algorithm.algorithm().name, "ring");
//! let reason = decision.reason.to_string();
//! assert_eq!(reason, "the rule at my.conf:7:1 (from 4 ranks and 1024 bytes on)");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate reads no files and prints nothing.
#![forbid(unsafe_code)]

pub mod agreement;
mod classic;
pub mod collectives;
pub mod components;
pub mod handed;
mod json;
mod position;
pub mod rules;
pub mod selection;
pub mod settings;
pub mod stack;
pub mod write;

pub use agreement::AgreementSettings;
pub use collectives::{CollectiveFacts, Measure, Tunable};
pub use components::{Component, Components, Form};
pub use position::{Position, RulesError, Warning};
pub use rules::{Distribution, ParsedRules, Rules};
pub use selection::{AlgorithmDecision, IllegalForced, Reason, Selection, Tuning};
pub use stack::{CallFacts, CommFacts, Reduction, Stack, Unserved};
