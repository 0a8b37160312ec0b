//! `cargo xtask docs`: what is made of tables in `docs/` is made new.

use std::fs;

use crate::root;
use crate::run::Failure;

pub(crate) fn docs() -> Result<(), Failure> {
    let docs = root().join("docs");
    let chapter = docs.join("collectives.md");
    let cannot = |what: &str| Failure::io(format!("cannot {what} {}", chapter.display()));
    let text = fs::read_to_string(&chapter).map_err(cannot("read"))?;
    let text = oxmpi_tune::document::refreshed(&text)
        .map_err(|error| Failure::new(format!("{}: {error}", chapter.display())))?;
    fs::write(&chapter, text).map_err(cannot("write"))?;
    for (name, picture) in oxmpi_tune::document::pictures() {
        let path = docs.join("img").join(name);
        fs::write(&path, picture).map_err(Failure::io(format!("cannot write {}", path.display())))?;
    }
    Ok(())
}
