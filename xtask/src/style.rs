//! `cargo xtask style`: checks the tree against the rules of `docs/style.md`, which also has the
//! list of words and the list of places that do not follow the rules yet. That list may only become
//! shorter: a place that follows the rules must be taken out of it.

use std::collections::BTreeMap;
use std::fs;

use clap::Args;
use regex_lite::Regex;

use crate::documents;
use crate::root;
use crate::run::{Failure, Run};

const COMMENT_COLUMNS: usize = 100;
/// The most definitions of types with one name in the workspace: at the faces of two crates that
/// share a concept.
const TYPES_OF_A_NAME: usize = 2;
const PRINTED: usize = 500;

/// The rules that `docs/style.md` states in its tables.
#[derive(Debug, PartialEq, Eq)]
struct StyleRules {
    /// Single words, in lower case, with the words to use instead.
    words: BTreeMap<String, String>,
    /// Sequences of words, with the words to use instead.
    phrases: Vec<(String, String)>,
    /// Paths (or beginnings of paths) whose files do not follow the rules yet.
    open_paths: Vec<String>,
    open_types: Vec<String>,
}

impl StyleRules {
    /// Reads the tables of `docs/style.md`: rows of two cells in backticks are words and their
    /// replacements; list entries in backticks are paths (with a slash) or names of types.
    fn read(page: &str) -> Result<StyleRules, Failure> {
        let mut rules = StyleRules {
            words: BTreeMap::new(),
            phrases: Vec::new(),
            open_paths: Vec::new(),
            open_types: Vec::new(),
        };
        for line in page.lines() {
            if let Some(row) = line.strip_prefix("| `") {
                let (words, rest) = row.split_once(" | ").ok_or_else(|| {
                    Failure::new(format!("docs/style.md: a row without a second cell: {line}"))
                })?;
                let instead = rest.trim_end_matches('|').trim();
                for word in words.split(',').map(|word| word.trim().trim_matches('`')) {
                    if word.contains(' ') {
                        rules.phrases.push((word.into(), instead.into()));
                    } else {
                        rules.words.insert(word.into(), instead.into());
                    }
                }
            } else if let Some(entry) = line.strip_prefix("- `")
                && let Some((entry, _)) = entry.split_once('`')
            {
                let open =
                    if entry.contains('/') { &mut rules.open_paths } else { &mut rules.open_types };
                open.push(entry.into());
            }
        }
        if rules.words.is_empty() || rules.phrases.is_empty() {
            return Err(Failure::new("docs/style.md has no table of words"));
        }
        Ok(rules)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Finding {
    line: usize,
    text: String,
}

#[derive(Args, Debug)]
pub(crate) struct StyleOptions {
    /// Print every finding in Rust files whose paths begin with one of these
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<String>,
}

/// Checks the whole tree, or with `paths` prints all findings below them, open or not.
pub(crate) fn style(paths: &[String]) -> Result<(), Failure> {
    let page = fs::read_to_string(root().join("docs/style.md"))
        .map_err(|error| Failure::new(format!("docs/style.md: {error}")))?;
    let rules = StyleRules::read(&page)?;
    let files = Run::new("git").args(["ls-files", "*.rs"]).current_dir(&root()).output()?;
    let files = String::from_utf8_lossy(&files);
    let (mut problems, mut types) = (Vec::new(), BTreeMap::<String, Vec<String>>::new());
    let mut in_open_paths = vec![0; rules.open_paths.len()];
    for path in files.lines() {
        let Ok(text) = fs::read_to_string(root().join(path)) else { continue };
        for name in defined_types(path, &text) {
            types.entry(name).or_default().push(path.into());
        }
        let open = rules.open_paths.iter().position(|open| path.starts_with(open.as_str()));
        let is_wanted = paths.iter().any(|wanted| path.starts_with(wanted.as_str()));
        if paths.is_empty() || is_wanted {
            let found = findings(&rules, path, &text);
            match open {
                Some(place) if paths.is_empty() => in_open_paths[place] += found.len(),
                _ => problems.extend(
                    found.iter().map(|found| format!("{path}:{}: {}", found.line, found.text)),
                ),
            }
        }
    }
    if paths.is_empty() {
        for (place, count) in rules.open_paths.iter().zip(&in_open_paths) {
            if *count == 0 {
                problems.push(format!(
                    "docs/style.md: {place} follows the rules now: take it out of the list"
                ));
            }
        }
        problems.extend(type_problems(&rules, &types));
        problems.extend(documents::findings()?);
    }
    for problem in problems.iter().take(PRINTED) {
        println!("{problem}");
    }
    if problems.is_empty() {
        Ok(())
    } else {
        let count = problems.len();
        Err(Failure::new(format!("{count} findings: docs/style.md has the rules")))
    }
}

/// Names of types with too many definitions, and names in the list without need.
fn type_problems(rules: &StyleRules, types: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut problems = Vec::new();
    for (name, places) in types {
        let is_open = rules.open_types.contains(name);
        if places.len() > TYPES_OF_A_NAME && !is_open {
            problems.push(format!(
                "{name}: {} types have this name: {}",
                places.len(),
                places.join(", ")
            ));
        }
    }
    for name in &rules.open_types {
        if types.get(name).is_none_or(|places| places.len() <= TYPES_OF_A_NAME) {
            problems.push(format!(
                "docs/style.md: {name} follows the rules now: take it out of the list"
            ));
        }
    }
    problems
}

/// The types that product code defines in a file, unit tests left out.
fn defined_types(path: &str, text: &str) -> Vec<String> {
    if !path.contains("/src/") || path.ends_with("tests.rs") {
        return Vec::new();
    }
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let definition = pattern(r"^\s*(?:pub(?:\([a-z]+\))? )?(?:struct|enum|union|trait) (\w+)");
    product
        .lines()
        .filter_map(|line| definition.captures(line))
        .filter_map(|found| found.get(1).map(|name| name.as_str().to_owned()))
        .collect()
}

fn findings(rules: &StyleRules, path: &str, text: &str) -> Vec<Finding> {
    let public = pattern(
        r"^\s*pub (?:unsafe |const |async |extern \S+ )*(?:fn|struct|enum|union|trait|type) (\w+)",
    );
    let (mut found, mut is_documented) = (Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        let mut add = |text: String| found.push(Finding { line: index + 1, text });
        let trimmed = line.trim_start();
        let is_comment = trimmed.starts_with("//");
        for word in words_of(line) {
            if let Some(instead) = rules.words.get(&word) {
                add(format!("'{word}': write {instead}"));
            }
        }
        if is_comment {
            let lower = line.to_lowercase();
            for (phrase, instead) in &rules.phrases {
                if lower.contains(phrase.as_str()) {
                    add(format!("'{phrase}': write {instead}"));
                }
            }
            let columns = line.chars().count();
            if columns > COMMENT_COLUMNS && !line.contains("://") {
                add(format!("a comment of {columns} columns ({COMMENT_COLUMNS} at most)"));
            }
        }
        if let Some(item) = public.captures(line)
            && !is_documented
            && path.contains("/src/")
        {
            add(format!("{} has no documentation", &item[1]));
        }
        // Attributes stand between an item and its documentation, some over several lines.
        is_documented = trimmed.starts_with("///")
            || trimmed.starts_with("#[doc")
            || (is_documented && !trimmed.is_empty() && !ends_item(trimmed));
    }
    found
}

/// Whether a line ends an item, so that documentation before it is of that item.
fn ends_item(line: &str) -> bool {
    !line.starts_with('#') && !line.starts_with(')') && (line.ends_with('}') || line.ends_with(';'))
}

/// The words of a line in lower case; names are cut at underscores and at capitals.
fn words_of(line: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let mut was_lower = false;
    for letter in line.chars() {
        let starts_word = letter.is_uppercase() && was_lower;
        if (!letter.is_alphabetic() || starts_word) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if letter.is_alphabetic() {
            word.extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase();
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

fn pattern(text: &str) -> Regex {
    match Regex::new(text) {
        Ok(pattern) => pattern,
        Err(error) => unreachable!("{text}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
| word | instead |
|---|---|
| `gabble`, `tells on` | says |

- `crates/rt/`
- `Place`
";

    #[test]
    fn the_page_has_words_phrases_and_open_places() {
        let rules = StyleRules::read(PAGE).unwrap();
        assert_eq!(rules.words.get("gabble").map(String::as_str), Some("says"));
        assert_eq!(rules.phrases, [("tells on".to_owned(), "says".to_owned())]);
        assert_eq!(rules.open_paths, ["crates/rt/"]);
        assert_eq!(rules.open_types, ["Place"]);
        assert!(StyleRules::read("no table").is_err());
    }

    #[test]
    fn words_are_found_in_comments_names_and_texts() {
        let rules = StyleRules::read(PAGE).unwrap();
        let lines = |text: &str| {
            findings(&rules, "crates/x/src/a.rs", text).iter().map(|found| found.line).collect()
        };
        let text = "// Gabble.\nfn who_gabble() {}\nstruct GabblePeers;\nlet x = \"was gabble\";\n// gabbleo";
        let found: Vec<usize> = lines(text);
        assert_eq!(found, [1, 2, 3, 4]);
        let found: Vec<usize> = lines("// It tells on you.\n// tells, on");
        assert_eq!(found, [1]);
        let found: Vec<usize> = lines(&format!("// {}\n// http://{0}\n", "x".repeat(98)));
        assert_eq!(found, [1]);
    }

    #[test]
    fn public_items_are_documented() {
        let rules = StyleRules::read(PAGE).unwrap();
        let of = |text: &str| findings(&rules, "crates/x/src/a.rs", text).len();
        assert_eq!(of("/// A.\n#[derive(\n    Debug,\n)]\npub struct A;\n"), 0);
        assert_eq!(of("/// A.\nconst B: u8 = 1;\npub struct A;\n"), 1);
        assert_eq!(of("pub unsafe fn a() {}\n    pub(crate) fn b() {}\n"), 1);
        assert_eq!(of("/// A.\npub struct A {\n    pub b: u8,\n}\n\npub fn c() {}\n"), 1);
    }

    #[test]
    fn names_of_types_are_counted_without_those_of_tests() {
        let text = "pub(crate) struct A;\nenum B {}\n#[cfg(test)]\nmod tests {\n    struct C;\n}\n";
        assert_eq!(defined_types("crates/x/src/a.rs", text), ["A", "B"]);
        assert!(defined_types("crates/x/src/tests.rs", text).is_empty());
        let rules = StyleRules::read(PAGE).unwrap();
        let places = |count: usize| vec!["crates/x/src/a.rs".to_owned(); count];
        let types = BTreeMap::from([("A".into(), places(3)), ("Place".into(), places(2))]);
        let problems = type_problems(&rules, &types);
        assert!(
            problems[0].starts_with("A: 3 types") && problems[1].contains("Place"),
            "{problems:?}"
        );
    }
}
