//! Which algorithm serves a collective call, and why: the `tuned` component of Open MPI's guide.
//!
//! There are three modes. *Forced*: a parameter (`coll_tuned_allreduce_algorithm`) names the algorithm. *Dynamic*: a rules
//! file (`coll_tuned_dynamic_rules_filename`) names one for each range of communicator and message sizes. *Fixed*: the
//! cut-offs of [`oxmpi_plan::choose`]. A [`Selection`] asks them in this order and says which of them has spoken. It looks
//! at nothing but what all ranks of the call know alike, so all of them choose alike.
//!
//! ```
//! use oxmpi_plan::Collective;
//! use oxmpi_tuned::{Facts, Rules, Selection};
//!
//! let file = "1 # collectives\n2 # allreduce\n1 # comm sizes\n4 # ranks\n2 # rules\n0 0 0 0\n1024 4 0 0\n";
//! let read = Rules::parse("my.conf", file.as_bytes())?;
//! let selection = Selection::default().with_rules(read.rules);
//! let decision = selection.decide(&Facts::new(Collective::Allreduce, 8, 4096, 8, true))?;
//! assert_eq!(decision.algorithm.algorithm().name, "ring");
//! assert_eq!(decision.reason.to_string(), "the rule at my.conf:7:1 (from 4 ranks and 1024 bytes on)");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`agreement`] | how processes agree |
//! | [`collectives`] | the collectives that may be tuned: numbers, names, what a message size is |
//! | [`components`] | the components of collectives, and which are asked |
//! | [`handed`] | what is handed to another library |
//! | [`stack`] | those of one communicator, and which serves a call |
//! | [`rules`] | rules as a value, and how they are searched |
//! | `classic`, `json` | the forms of a rules file |
//! | [`mod@write`] | rules as a file |
//! | [`selection`] | forced, dynamic, fixed |
//! | [`settings`] | a selection from parameters |
//!
//! Nothing here reads a file or prints.
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
pub use collectives::{Facts, Measure, Tunable};
pub use components::{Component, Components, Form};
pub use position::{Position, RulesError, Warning};
pub use rules::{Distribution, Read, Rules};
pub use selection::{Decision, IllegalForced, Reason, Selection, Tuning};
pub use stack::{CallFacts, CommFacts, Reduction, Stack, Unserved};
