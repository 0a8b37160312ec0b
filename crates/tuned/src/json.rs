//! Rules files in JSON, as Open MPI reads them from version 6 on
//! (`tuned_dynamic_file_schema.json`).

mod rules;
mod syntax;

pub(crate) use rules::{VERSION, parse};
