//! The parts of `docs/` that come from tables of the code: each test compares one file with its
//! table. `cargo xtask docs` sets OXMPI_WRITE_DOCS, and the tests then write the files instead.
//! `commands` runs the commands in documents.

mod commands;
mod functions;
mod messages;
mod parameters;
mod transports;

use std::fs;
use std::path::PathBuf;

// The transports register parameters and pages.
use oxmpi_fabric as _;

use crate::support::root;

fn docs(name: &str) -> PathBuf {
    root().join("docs").join(name)
}

fn is_current(name: &str, wanted: &str) {
    let file = docs(name);
    if std::env::var_os("OXMPI_WRITE_DOCS").is_some() {
        fs::write(&file, wanted).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/{name} is not what the tables of the code say: 'cargo xtask docs' writes it"
    );
}

#[test]
fn the_chapter_on_collectives_has_the_tables_and_pictures_of_the_plans() {
    let chapter = fs::read_to_string(docs("collectives.md")).unwrap();
    is_current("collectives.md", &oxmpi_tune::document::refreshed(&chapter).unwrap());
    for (name, picture) in oxmpi_tune::document::pictures() {
        is_current(&format!("img/{name}"), &picture);
        assert!(picture.len() < 20_000, "{name}");
        assert!(chapter.contains(&format!("(img/{name})")));
    }
}
