//! `oxmpi info --NAME`: the survey of a transport that needs more than the kernel.

use oxmpi_fabric::{Constructor, Survey};
use oxmpi_param::{Module, Params};
use serde_json::{Value, json};
use std::fmt::Write as _;

#[cfg(test)]
pub(super) fn names() -> Vec<&'static str> {
    let surveyed = Module::all()
        .iter()
        .filter(|module| Constructor::of(module).is_some_and(|made| made.survey.is_some()));
    surveyed.map(|module| module.name).collect()
}

/// The survey of a transport, if it has one. An error is a message for the user.
pub(crate) fn survey(module: &Module, params: &Params) -> Option<Result<Survey, String>> {
    Constructor::of(module)?.survey.map(|survey| survey(params))
}

pub(super) fn text(module: &Module, found: &Result<Survey, String>) -> String {
    let found = match found {
        Ok(found) => found,
        Err(why) => return format!("{}: {why}\n", module.name),
    };
    let mut out = format!("{}: {}\n", module.name, found.title);
    let widths: Vec<usize> = (0..found.columns.len())
        .map(|at| {
            found
                .rows
                .iter()
                .map(|row| row[at].len())
                .chain([found.columns[at].len()])
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: String =
            cells.zip(&widths).map(|(cell, width)| format!("  {cell:width$}")).collect();
        let _ = writeln!(out, "{}", padded.trim_end());
    };
    line(&mut found.columns.iter().copied());
    for row in &found.rows {
        line(&mut row.iter().map(String::as_str));
    }
    let _ = match &found.choice {
        Ok(choice) => writeln!(out, "a job on this host would use {choice}"),
        Err(why) => writeln!(out, "a job on this host would use none: {why}"),
    };
    out
}

pub(super) fn json(found: &Result<Survey, String>) -> Value {
    let found = match found {
        Ok(found) => found,
        Err(why) => return json!({ "error": why }),
    };
    let row = |row: &Vec<String>| -> Value {
        let cells = found.columns.iter().zip(row);
        Value::Object(
            cells
                .map(|(name, cell)| (name.replace(' ', "_"), Value::from(cell.as_str())))
                .collect(),
        )
    };
    let rows: Vec<Value> = found.rows.iter().map(row).collect();
    match &found.choice {
        Ok(choice) => json!({ "found": found.title, "rows": rows, "choice": choice }),
        Err(why) => json!({ "found": found.title, "rows": rows, "error": why }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(choice: Result<String, String>) -> Result<Survey, String> {
        let rows = vec![vec!["a;b".into(), "64".into()], vec!["shm".into(), "no: why".into()]];
        Ok(Survey {
            title: "libfabric 1.2".into(),
            choice,
            columns: &["provider", "tag bits"],
            rows,
        })
    }

    #[test]
    fn a_survey_shows_its_table_and_its_choice() {
        let module = Module::named("ofi").unwrap();
        assert_eq!(
            text(module, &found(Ok("a;b".into()))),
            "ofi: libfabric 1.2\n  provider  tag bits\n  a;b       64\n  shm       no: why\na job on this host would use a;b\n"
        );
        assert!(text(module, &found(Err("none".into()))).ends_with("would use none: none\n"));
        assert_eq!(text(module, &Err("it is not there".into())), "ofi: it is not there\n");
        let value = json(&found(Ok("a;b".into())));
        assert_eq!(
            (&value["rows"][0]["tag_bits"], &value["choice"]),
            (&"64".into(), &"a;b".into())
        );
    }
}
