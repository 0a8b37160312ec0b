//! `docs/functions.md`: every function, from the table, with the tests that call it.

use std::collections::BTreeSet;

use crate::support::root;

/// The programs of `tests/c`: the name of each, and the names in its text.
fn programs() -> Vec<(String, BTreeSet<String>)> {
    let files = std::fs::read_dir(root().join("tests/c")).unwrap();
    let mut programs = Vec::new();
    for path in files.map(|entry| entry.unwrap().path()) {
        // `abi_assert` only declares the functions.
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.ends_with(".c") && name != "abi_assert.c" {
            let text = std::fs::read_to_string(&path).unwrap();
            let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let names = words.filter(|word| word.starts_with("MPI")).map(str::to_owned).collect();
            programs.push((path.file_stem().unwrap().to_str().unwrap().to_owned(), names));
        }
    }
    programs
}

#[test]
fn the_page_of_functions_is_current() {
    let programs = programs();
    let page = oxmpi_abi::pages::markdown(|function| {
        let calling = programs.iter().filter(|(_, names)| names.contains(&function.name));
        calling.map(|(name, _)| name.clone()).collect()
    });
    super::is_current("functions.md", &page);
}
