//! `docs/transports.md`: the pages of the transports, each from its folder, with the tables that `oxmpi bench` has written.

use std::fs;
use std::path::{Path, PathBuf};

use oxmpi_param::Module;

use crate::root;
use crate::run::Failure;

/// Where the folders of transports are, and where those folders may be.
const FOLDERS: [&str; 2] = ["crates/fabric/src", "crates/fabric/src/transports"];

/// The page from what it was: what stands above the first section stays, and so do tables and sections of what is no transport.
pub(super) fn page(old: &str) -> Result<String, Failure> {
    let mut sections = old.split("\n## ");
    let mut out = sections.next().unwrap_or_default().trim_end().to_string();
    let sections: Vec<(&str, &str)> = sections.filter_map(|section| section.split_once('\n')).collect();
    for module in Module::all() {
        let path = folder_page(module.name)?;
        let text =
            fs::read_to_string(&path).map_err(Failure::io(format!("cannot read {}", path.display())))?;
        let table = table(old, module.name).map_or(String::new(), |table| format!("\n{table}\n"));
        out += &format!("\n\n## `{}`\n\n{}\n{table}", module.name, text.trim());
        out.truncate(out.trim_end().len());
    }
    let is_module = |title: &str| Module::all().iter().any(|module| title == format!("`{}`", module.name));
    for (title, text) in sections.iter().filter(|(title, _)| !is_module(title)) {
        out += &format!("\n\n## {title}\n{}", text.trim_end());
    }
    Ok(out + "\n")
}

/// The page in the folder of a transport: `NAME.md`.
fn folder_page(name: &str) -> Result<PathBuf, Failure> {
    let folders = FOLDERS.iter().flat_map(|folder| fs::read_dir(root().join(folder)).into_iter().flatten());
    let mut pages = folders.flatten().map(|folder| folder.path().join(format!("{name}.md")));
    let missing = || Failure::new(format!("the folder of the transport '{name}' has no page {name}.md"));
    pages.find(|page: &PathBuf| Path::exists(page)).ok_or_else(missing)
}

/// What `oxmpi bench` has measured of a transport, with its markers.
fn table<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let (start, end) = (format!("<!-- bench {name} -->"), format!("<!-- end bench {name} -->"));
    let from = page.find(&start)?;
    let len = page[from..].find(&end)? + end.len();
    Some(&page[from..from + len])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_what_the_folders_say() {
        let old = fs::read_to_string(root().join("docs/transports.md")).unwrap();
        assert_eq!(page(&old).unwrap(), old, "'cargo xtask docs' writes it");
        assert!(Module::all().iter().all(|module| old.contains(&format!("\n## `{}`\n", module.name))));
    }
}
