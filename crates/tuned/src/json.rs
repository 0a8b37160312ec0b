//! Rules files in JSON, as Open MPI reads them from its version 6 on (its
//! `tuned_dynamic_file_schema.json`).

mod rules;
mod syntax;

pub(crate) use rules::{VERSION, parse};
