//! The licences of the crates of others that are compiled into the programs and libraries.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::install;
use crate::run::{Failure, Run};

/// How the names of files with licences begin.
const FILES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// The parts of `cargo metadata` that are needed.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<LinkedCrate>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct LinkedCrate {
    id: String,
    name: String,
    version: String,
    /// The registry; none for the project's own crates.
    source: Option<String>,
    license: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<ResolvedCrate>,
}

#[derive(Deserialize)]
struct ResolvedCrate {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    /// None for crates that are linked; `build` and `dev` for the others.
    kind: Option<String>,
}

/// Copies the files with licences into a directory for each crate, and writes `crates.txt`, which
/// names the crates and their licences.
pub(super) fn copy(directory: &Path) -> Result<(), Failure> {
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let words = ["metadata", "--format-version", "1", "--locked", "--filter-platform", &target];
    let text = Run::cargo().args(words).output()?;
    let metadata: Metadata = serde_json::from_slice(&text)
        .map_err(|error| Failure::new(format!("cargo metadata: {error}")))?;
    let mut list = String::new();
    for package in linked(&metadata) {
        let licence = package.license.as_deref().unwrap_or("see the files");
        let name = format!("{}-{}", package.name, package.version);
        list += &format!("{name}: {licence}\n");
        let found = files(package)?;
        if found.is_empty() && package.license.is_none() {
            return Err(Failure::new(format!("{name} has no licence")));
        }
        for file in found {
            let to = directory.join(&name).join(file.file_name().unwrap_or_default());
            super::copy(&file, &to)?;
        }
    }
    super::write(&directory.join("crates.txt"), &list)
}

/// The crates of others that the packages of the installation link, by name and version.
fn linked(metadata: &Metadata) -> Vec<&LinkedCrate> {
    let packages: BTreeMap<&str, &LinkedCrate> =
        metadata.packages.iter().map(|package| (package.id.as_str(), package)).collect();
    let nodes: BTreeMap<&str, &ResolvedCrate> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let is_installed =
        |package: &&LinkedCrate| install::packages().any(|name| name == package.name);
    let mut left: Vec<&str> =
        metadata.packages.iter().filter(is_installed).map(|package| package.id.as_str()).collect();
    let mut seen: BTreeSet<&str> = left.iter().copied().collect();
    while let Some(id) = left.pop() {
        for dependency in nodes.get(id).iter().flat_map(|node| &node.deps) {
            let is_linked = dependency.dep_kinds.iter().any(|kind| kind.kind.is_none());
            if is_linked && seen.insert(&dependency.pkg) {
                left.push(&dependency.pkg);
            }
        }
    }
    let mut linked: Vec<&LinkedCrate> =
        seen.iter().filter_map(|id| packages.get(id).copied()).collect();
    linked.retain(|package| package.source.is_some());
    linked.sort_by_key(|package| (&package.name, &package.version));
    linked
}

fn files(package: &LinkedCrate) -> Result<Vec<PathBuf>, Failure> {
    let directory = package.manifest_path.parent().unwrap_or(&package.manifest_path);
    let entries = fs::read_dir(directory).map_err(Failure::io(directory.display()))?;
    let is_licence = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        path.is_file() && FILES.iter().any(|start| name.starts_with(start))
    };
    let mut files: Vec<_> =
        entries.flatten().map(|entry| entry.path()).filter(is_licence).collect();
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_that_are_linked_are_found_through_others() {
        let text = r#"{"packages": [
            {"id": "own", "name": "oxmpi-cli", "version": "1", "source": null, "license": null, "manifest_path": "/"},
            {"id": "a", "name": "a", "version": "1", "source": "registry", "license": "MIT", "manifest_path": "/"},
            {"id": "b", "name": "b", "version": "2", "source": "registry", "license": "MIT", "manifest_path": "/"},
            {"id": "t", "name": "test", "version": "1", "source": "registry", "license": "MIT", "manifest_path": "/"}],
            "resolve": {"nodes": [
            {"id": "own", "deps": [{"pkg": "a", "dep_kinds": [{"kind": null}]}, {"pkg": "t", "dep_kinds": [{"kind": "dev"}]}]},
            {"id": "a", "deps": [{"pkg": "b", "dep_kinds": [{"kind": "build"}, {"kind": null}]}]},
            {"id": "b", "deps": []}, {"id": "t", "deps": []}]}}"#;
        let metadata = serde_json::from_str(text).unwrap();
        let names: Vec<_> = linked(&metadata).iter().map(|package| package.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
