//! `docs/transports.md`: the pages of the transports, each from its folder, with the tables of
//! `oxmpi bench`.

use std::fs;
use std::path::{Path, PathBuf};

use oxmpi_param::Module;

use crate::support::root;

const FOLDERS: [&str; 2] = ["crates/fabric/src", "crates/fabric/src/transports"];

/// The new page. The text above the first section stays, as do tables and sections that are of no
/// transport.
fn page(old: &str) -> String {
    let mut sections = old.split("\n## ");
    let mut out = sections.next().unwrap_or_default().trim_end().to_string();
    let sections: Vec<(&str, &str)> =
        sections.filter_map(|section| section.split_once('\n')).collect();
    for module in Module::all() {
        let text = fs::read_to_string(folder_page(module.name)).unwrap();
        let table = table(old, module.name).map_or(String::new(), |table| format!("\n{table}\n"));
        out += &format!("\n\n## `{}`\n\n{}\n{table}", module.name, text.trim());
        out.truncate(out.trim_end().len());
    }
    let is_module =
        |title: &str| Module::all().iter().any(|module| title == format!("`{}`", module.name));
    for (title, text) in sections.iter().filter(|(title, _)| !is_module(title)) {
        out += &format!("\n\n## {title}\n{}", text.trim_end());
    }
    out + "\n"
}

fn folder_page(name: &str) -> PathBuf {
    let folders =
        FOLDERS.iter().flat_map(|folder| fs::read_dir(root().join(folder)).into_iter().flatten());
    let mut pages = folders.flatten().map(|folder| folder.path().join(format!("{name}.md")));
    let found = pages.find(|page: &PathBuf| Path::exists(page));
    found.unwrap_or_else(|| panic!("the folder of the transport '{name}' has no page {name}.md"))
}

fn table<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let (start, end) = (format!("<!-- bench {name} -->"), format!("<!-- end bench {name} -->"));
    let from = page.find(&start)?;
    let len = page[from..].find(&end)? + end.len();
    Some(&page[from..from + len])
}

#[test]
fn the_page_has_the_texts_of_the_folders() {
    let page = page(&fs::read_to_string(super::docs("transports.md")).unwrap());
    super::is_current("transports.md", &page);
    assert!(Module::all().iter().all(|module| page.contains(&format!("\n## `{}`\n", module.name))));
}
