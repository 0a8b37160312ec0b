//! The layers of this crate: a file imports from its own layer and from lower ones, and no files
//! import each other in a circle. The page at the head of `src/lib.rs` describes the layers.
//!
//! The test reads paths that begin with `crate`, `super`, `self` or a child module. It cannot see
//! calls of methods.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The layers from the lowest up: the first parts of the paths of their modules.
const LAYERS: [&str; 5] = ["state", "errors", "arguments", "operations", "face"];

/// The parts of a module's path below the crate.
type Module = Vec<String>;

/// The texts of the files, by their modules.
type Sources = BTreeMap<Module, String>;

fn parts(path: &str) -> Module {
    path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn read(folder: &Path, module: &Module, sources: &mut Sources) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let mut inner = module.clone();
        if !matches!(name, "lib" | "mod") {
            inner.push(name.to_owned());
        }
        if path.is_dir() {
            read(&path, &inner, sources);
        } else {
            sources.insert(inner, fs::read_to_string(&path).unwrap());
        }
    }
}

/// The name of the module that a line at the first column begins within its file.
fn begun(line: &str) -> Option<&str> {
    line.split_once("mod ").filter(|(before, _)| before.is_empty() || before.starts_with("pub"))?;
    line.strip_suffix(" {")?.split(' ').next_back()
}

/// The modules of other files that a file names.
fn imports(sources: &Sources, module: &Module, text: &str) -> BTreeSet<Module> {
    let (mut found, mut at, mut code) = (BTreeSet::new(), module.clone(), String::new());
    let mut flush = |code: &mut String, at: &Module| {
        for path in paths(code) {
            found.extend(target(sources, at, &path));
        }
        code.clear();
    };
    for line in text.lines().take_while(|line| *line != "#[cfg(test)]") {
        if let Some(name) = begun(line) {
            flush(&mut code, &at);
            at.push(name.to_owned());
        } else if line == "}" && at.len() > module.len() {
            flush(&mut code, &at);
            at.pop();
        } else if !line.trim_start().starts_with("//") {
            code.push_str(line);
            code.push('\n');
        }
    }
    flush(&mut code, &at);
    found.remove(module);
    found
}

/// All paths with `::` in a text. A group of imports in braces is one path for each name.
fn paths(code: &str) -> Vec<Module> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let (mut found, mut groups, mut path) = (Vec::new(), Vec::<Module>::new(), Module::new());
    let mut rest = code.trim_start();
    while let Some(letter) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("::") {
            rest = after;
            if let Some(after) = rest.strip_prefix('{') {
                groups.push(path.clone());
                rest = after;
            }
        } else if is_part(letter) {
            let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
            path.push(rest[..end].to_owned());
            rest = &rest[end..];
            if !rest.starts_with("::") {
                found.push(std::mem::take(&mut path));
                path = groups.last().cloned().unwrap_or_default();
            }
        } else {
            match letter {
                '*' => found.push(std::mem::take(&mut path)),
                '}' => _ = groups.pop(),
                _ => {}
            }
            path = groups.last().cloned().unwrap_or_default();
            rest = &rest[letter.len_utf8()..];
        }
    }
    found.retain(|path| path.len() > 1);
    found
}

/// The module of a file that a path in the module `at` leads into.
fn target(sources: &Sources, at: &Module, path: &[String]) -> Option<Module> {
    let mut from = at.clone();
    let mut rest = path;
    match path[0].as_str() {
        "crate" => {
            from.clear();
            rest = &path[1..];
        }
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                from.pop();
                rest = &rest[1..];
            }
        }
        child => {
            from.push(child.to_owned());
            sources.get(&from)?;
            rest = &path[1..];
        }
    }
    from.extend(rest.iter().cloned());
    while !sources.contains_key(&from) {
        from.pop()?;
    }
    Some(from)
}

fn layer(module: &Module) -> usize {
    let Some(first) = module.first() else { return LAYERS.len() };
    let found = LAYERS.iter().position(|layer| layer == first);
    found.unwrap_or_else(|| panic!("{}: the module is in none of the layers", module.join("::")))
}

/// The first circle that is reached from the end of `path`.
fn circle(
    edges: &BTreeMap<&Module, BTreeSet<Module>>,
    path: &mut Vec<Module>,
    done: &mut BTreeSet<Module>,
) -> Option<String> {
    let last = path.last()?.clone();
    for next in edges.get(&last).into_iter().flatten() {
        if let Some(start) = path.iter().position(|module| module == next) {
            let around = path[start..].iter().chain([next]);
            return Some(around.map(|module| module.join("::")).collect::<Vec<_>>().join(" -> "));
        }
        if !done.contains(next) {
            path.push(next.clone());
            if let Some(found) = circle(edges, path, done) {
                return Some(found);
            }
            path.pop();
        }
    }
    done.insert(last);
    None
}

fn problems(sources: &Sources) -> Vec<String> {
    let edges: BTreeMap<_, _> =
        sources.iter().map(|(module, text)| (module, imports(sources, module, text))).collect();
    let mut found = Vec::new();
    for (module, imports) in &edges {
        for upper in imports.iter().filter(|import| layer(import) > layer(module)) {
            let upper = if upper.is_empty() { "lib.rs".to_owned() } else { upper.join("::") };
            found.push(format!("{} imports from an upper layer: {upper}", module.join("::")));
        }
    }
    let mut done = BTreeSet::new();
    found.extend(edges.keys().find_map(|module| {
        circle(&edges, &mut vec![(*module).clone()], &mut done)
            .map(|circle| format!("these modules import each other: {circle}"))
    }));
    found
}

#[test]
fn files_import_from_their_layer_and_lower_ones_without_a_circle() {
    let mut sources = Sources::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &Module::new(), &mut sources);
    assert!(LAYERS.iter().all(|layer| sources.contains_key(&parts(layer))), "{:?}", sources.keys());
    let problems = problems(&sources);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn problems_of(files: &[(&str, &str)]) -> Vec<String> {
    problems(&files.iter().map(|(path, text)| (parts(path), (*text).to_owned())).collect())
}

#[test]
fn wrong_imports_are_found() {
    let state = ("state", "pub(crate) mod on;\n");
    let upper = problems_of(&[
        state,
        ("state::on", "// crate::errors::a\nuse crate::{\n    errors::raise,\n};\n"),
        ("errors", "use crate::state::on::On;\n"),
    ]);
    assert_eq!(upper[0], "state::on imports from an upper layer: errors");
    assert_eq!(upper[1], "these modules import each other: errors -> state::on -> errors");
    let circle = problems_of(&[
        ("operations::tool", "mod hub;\nfn a() {\n    hub::b();\n}\n"),
        ("operations::tool::hub", "use super::checks::{self, Result};\n"),
        ("operations::tool::checks", "fn c() -> super::Result<()> {}\n"),
    ]);
    let around = "operations::tool -> operations::tool::hub -> operations::tool::checks";
    assert_eq!(circle, [format!("these modules import each other: {around} -> operations::tool")]);
    let right = problems_of(&[
        ("", "mod state;\nuse crate::face::a;\n"),
        state,
        ("state::on", "use super::Lock;\n#[cfg(test)]\nmod tests {\n    use crate::face::a;\n}\n"),
        ("face", "use crate::operations::all::*;\n"),
        ("operations", "pub(crate) mod all {\n    pub(crate) use super::p2p::*;\n}\n"),
        ("operations::p2p", "use crate::state::{Lock, on::On};\nfn a(b: Vec<On>) {}\n"),
    ]);
    assert!(right.is_empty(), "{right:?}");
}
