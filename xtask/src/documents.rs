//! The part of `cargo xtask style` that checks the documents: every relative link, path and verb
//! in them exists, and their lines are short.

use std::fs;
use std::path::Path;

use clap::CommandFactory as _;

use crate::run::{Failure, Run};
use crate::{CommandLine, root};

/// The longest line outside of tables, in characters.
const COLUMNS: usize = 100;
/// The longest cell of a table in PARITY.md, in characters.
const CELL: usize = 200;
/// Directories at the root of the project that paths in documents begin with.
const TOP: [&str; 8] = ["crates", "docs", "xtask", "tests", "bench", "examples", ".ci", ".config"];
/// Directories of a crate: documents name `engine/src/lane.rs` without `crates/`.
const OF_CRATE: [&str; 4] = ["src", "tests", "examples", "build.rs"];

pub(crate) fn findings() -> Result<Vec<String>, Failure> {
    let files =
        Run::new("git").args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"]);
    let files = files.output()?;
    let mut found = Vec::new();
    for path in String::from_utf8_lossy(&files).lines() {
        // A deleted file is listed until the deletion is committed.
        let Ok(text) = fs::read_to_string(root().join(path)) else { continue };
        found.extend(
            findings_in(path, &text).into_iter().map(|(line, why)| format!("{path}:{line}: {why}")),
        );
    }
    Ok(found)
}

/// The findings in one document: number of the line, and what is wrong there.
fn findings_in(path: &str, text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_fence = false;
    for (index, line) in text.lines().enumerate() {
        let mut add = |why: String| found.push((index + 1, why));
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
            continue;
        }
        for verb in verbs(line).filter(|verb| !has_verb(verb)) {
            add(format!("'cargo xtask {verb}' does not exist"));
        }
        if in_fence {
            continue;
        }
        let is_row = line.starts_with('|');
        let columns = line.chars().count();
        if columns > COLUMNS && !is_row && !line.contains("://") && !line.contains("![") {
            add(format!("a line of {columns} columns ({COLUMNS} at most)"));
        }
        if path == "PARITY.md" && is_row {
            for cell in
                line.split(" | ").map(|cell| cell.chars().count()).filter(|cell| *cell > CELL)
            {
                add(format!("a cell of {cell} characters ({CELL} at most)"));
            }
        }
        for link in links(line).filter(|link| !leads_somewhere(path, text, link)) {
            add(format!("the link '{link}' leads nowhere"));
        }
        for name in quoted(line).filter(|name| is_path(name) && !is_there(path, name)) {
            add(format!("'{name}' does not exist"));
        }
    }
    found
}

fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The words behind `cargo xtask` in a line, options left out.
fn verbs(line: &str) -> impl Iterator<Item = &str> {
    let rests = line.split("cargo xtask ").skip(1);
    rests
        .filter_map(|rest| rest.split(|letter: char| !letter.is_ascii_lowercase()).next())
        .filter(|verb| !verb.is_empty())
}

fn has_verb(verb: &str) -> bool {
    CommandLine::command().find_subcommand(verb).is_some()
}

fn leads_somewhere(path: &str, text: &str, link: &str) -> bool {
    if link.contains("://") {
        return true;
    }
    let (file, anchor) =
        link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let directory = Path::new(path).parent().unwrap_or(Path::new(""));
    let other = if file.is_empty() {
        Some(text.to_owned())
    } else {
        read(&directory.join(file), path, file)
    };
    match (other, anchor) {
        (Some(_), None) => true,
        (Some(other), Some(anchor)) => {
            other.lines().any(|line| line.starts_with('#') && anchor_of(line) == anchor)
        }
        (None, _) => false,
    }
}

/// The text of a linked file; empty for a directory or a picture.
fn read(target: &Path, path: &str, file: &str) -> Option<String> {
    // The pages of the transports are parts of docs/transports.md, and link from there.
    let is_part = path.starts_with("crates/");
    let target = if is_part { Path::new("docs").join(file) } else { target.to_path_buf() };
    let target = root().join(target);
    target.exists().then(|| fs::read_to_string(target).unwrap_or_default())
}

fn anchor_of(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// Whether a text between back ticks is the path of a file of the project. Capitals in a component
/// stand for a name (`crates/NAME`), except in README.md and its like.
fn is_path(name: &str) -> bool {
    let mut parts = name.split('/');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    let is_plain =
        !name.contains(|letter: char| letter.is_whitespace() || "*<>{}$()…".contains(letter));
    let stands_for_name = |part: &str| {
        let stem = part.split('.').next().unwrap_or_default();
        stem.len() > 1 && stem.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
    };
    let has_name = name.split('/').any(|part| stands_for_name(part) && part != "README.md");
    let is_rooted = TOP.contains(&first) && second.is_some();
    let is_of_crate = second.is_some_and(|second| OF_CRATE.contains(&second));
    is_plain && !has_name && (is_rooted || is_of_crate)
}

/// Whether the file is there, from the root, from `crates/`, or from the directory of the document.
fn is_there(path: &str, name: &str) -> bool {
    let directory = Path::new(path).parent().unwrap_or(Path::new(""));
    [Path::new(""), Path::new("crates"), directory]
        .iter()
        .any(|from| root().join(from).join(name).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_paths_and_verbs_exist() {
        let page = "\
# A page
[here](#a-page) [there](docs/style.md#words) `xtask/src/documents.rs` `engine/src/lane.rs` https://x/y
[gone](docs/none.md) [nowhere](docs/style.md#none) `crates/none/src/lib.rs` `engine/src/none.rs`
`crates/NAME/src/x.rs` `shm/pool` `docs/*.md` run `cargo xtask style` or `cargo xtask none`
";
        let found = findings_in("README.md", page);
        let (lines, texts): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        assert_eq!(lines, [3, 3, 3, 3, 4], "{texts:?}");
        assert!(texts[4].contains("'cargo xtask none'"), "{texts:?}");
    }

    #[test]
    fn lines_and_cells_are_short() {
        let long = "x".repeat(COLUMNS + 1);
        let page = format!("{long}\n| {long} |\n```text\n{long}\n```\n");
        assert_eq!(
            findings_in("docs/a.md", &page).iter().map(|found| found.0).collect::<Vec<_>>(),
            [1]
        );
        let row = format!("| a | {} |\n", "x".repeat(CELL + 1));
        assert_eq!(findings_in("PARITY.md", &row).len(), 1);
    }

    #[test]
    fn headings_have_the_anchors_of_github() {
        assert_eq!(anchor_of("## `usysv` and `sysv`"), "usysv-and-sysv");
        assert_eq!(anchor_of("### What it costs, and why"), "what-it-costs-and-why");
    }
}
