//! `cargo xtask docs`: what `docs/` has from the tables of the code is made new.

mod parameters;
mod transports;

use std::fs;
use std::path::Path;

use crate::root;
use crate::run::Failure;

pub(crate) fn docs() -> Result<(), Failure> {
    let docs = root().join("docs");
    write(&docs.join("parameters.md"), &parameters::page())?;
    let transports = docs.join("transports.md");
    write(&transports, &transports::page(&read(&transports)?)?)?;
    let chapter = docs.join("collectives.md");
    let text = read(&chapter)?;
    let text = oxmpi_tune::document::refreshed(&text)
        .map_err(|error| Failure::new(format!("{}: {error}", chapter.display())))?;
    write(&chapter, &text)?;
    let pictures = oxmpi_tune::document::pictures();
    pictures.iter().try_for_each(|(name, picture)| write(&docs.join("img").join(name), picture))
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(Failure::io(format!("cannot read {}", path.display())))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(Failure::io(format!("cannot write {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each name in back ticks that has `/src/` in it is a file or folder of a crate.
    #[test]
    fn the_glossary_names_files_that_are_there() {
        let text = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
        let names = text.split('`').skip(1).step_by(2).filter(|name| name.contains("/src/"));
        let (there, missing): (Vec<_>, Vec<_>) =
            names.partition(|name| root().join("crates").join(name).exists());
        assert!(missing.is_empty() && there.len() > 30, "{missing:?}, {} are there", there.len());
    }
}
