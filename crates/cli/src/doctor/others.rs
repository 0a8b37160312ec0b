//! Other MPI libraries that shadow this one.

use std::path::{Path, PathBuf};

use super::{Finding, good, note, problem};

/// The programs that must come from one installation.
const PROGRAMS: [&str; 4] = ["mpirun", "mpiexec", "mpicc", "mpicxx"];
/// The library, by the name under which programs load it.
const LIBRARY: &str = "libmpi_abi.so.1";

pub(super) fn programs(prefix: Option<&Path>) -> Vec<Finding> {
    let Some(bin) = prefix.and_then(|prefix| prefix.join("bin").canonicalize().ok()) else {
        return vec![note(
            "installation",
            "this program is not installed: it does not lie in a directory 'bin'",
            "'cargo xtask install --prefix DIR' installs it",
        )];
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    judge(&bin, &std::env::split_paths(&path).collect::<Vec<_>>())
}

fn judge(bin: &Path, path: &[PathBuf]) -> Vec<Finding> {
    let first =
        |name: &str| path.iter().map(|directory| directory.join(name)).find(|file| file.is_file());
    let is_own = |file: &Path| {
        file.parent().and_then(|there| there.canonicalize().ok()).is_some_and(|there| there == *bin)
    };
    let found: Vec<(&str, Option<PathBuf>)> =
        PROGRAMS.into_iter().map(|name| (name, first(name))).collect();
    let own = found.iter().filter(|(_, file)| file.as_deref().is_some_and(is_own)).count();
    let others: Vec<String> = found
        .iter()
        .filter_map(|(name, file)| Some((name, file.as_deref().filter(|file| !is_own(file))?)))
        .map(|(name, file)| format!("{name} is {}", file.display()))
        .collect();
    let first = format!("put this installation first: PATH={}:$PATH", bin.display());
    match (own, others.is_empty()) {
        (_, true) if own == PROGRAMS.len() => {
            vec![good("programs", "mpirun and mpicc in PATH are of this installation")]
        }
        (_, true) => {
            vec![note("programs", "mpirun or mpicc of this installation is not in PATH", first)]
        }
        (0, false) => {
            vec![note(
                "programs",
                format!("another MPI library is in PATH: {}", others.join(", ")),
                first,
            )]
        }
        (_, false) => {
            let text = format!(
                "two MPI libraries are mixed in PATH: {}, the rest is of this one",
                others.join(", ")
            );
            vec![problem("programs", text, first)]
        }
    }
}

pub(super) fn libraries(prefix: Option<&Path>) -> Vec<Finding> {
    let mut found = Vec::new();
    let preloaded = std::env::var("LD_PRELOAD").unwrap_or_default();
    if preloaded.contains("libmpi") {
        let text = format!("LD_PRELOAD names an MPI library: {preloaded}");
        found.push(problem(
            "libraries",
            text,
            "unset LD_PRELOAD, unless it is a tool for libmpi_abi.so.1",
        ));
    }
    let own = prefix.and_then(|prefix| prefix.join("lib").join(LIBRARY).canonicalize().ok());
    let path = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let there = std::env::split_paths(&path)
        .map(|directory| directory.join(LIBRARY))
        .find(|file| file.is_file());
    if let Some(file) = there.filter(|file| own.is_some() && file.canonicalize().ok() != own) {
        // mpirun puts its own library directory first, so only programs that run without mpirun are
        // affected.
        let text = format!("LD_LIBRARY_PATH leads to another {LIBRARY}: {}", file.display());
        found.push(problem(
            "libraries",
            text,
            "programs that are started without mpirun get it: take it out of LD_LIBRARY_PATH",
        ));
    }
    if found.is_empty() {
        found.push(good(
            "libraries",
            format!("no other {LIBRARY} is in LD_LIBRARY_PATH or LD_PRELOAD"),
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;

    #[test]
    fn mixed_installations_are_found() {
        let root = std::env::temp_dir().join(format!("oxmpi-doctor-{}", std::process::id()));
        let make = |directory: &str, names: &[&str]| {
            let directory = root.join(directory);
            std::fs::create_dir_all(&directory).unwrap();
            names.iter().for_each(|name| std::fs::write(directory.join(name), "").unwrap());
            directory.canonicalize().unwrap()
        };
        let own = make("own", &PROGRAMS);
        let (whole, part, none) =
            (make("whole", &PROGRAMS), make("part", &["mpicc"]), make("none", &[]));
        for (path, severity, text) in [
            (vec![&none, &own, &whole], Severity::Good, "of this installation"),
            (vec![&whole, &own], Severity::Note, "another MPI library is in PATH: mpirun is "),
            (vec![&part, &own], Severity::Problem, "mixed in PATH: mpicc is "),
            (vec![&none], Severity::Note, "is not in PATH"),
        ] {
            let path: Vec<PathBuf> = path.into_iter().cloned().collect();
            let found = judge(&own, &path);
            assert_eq!((found.len(), found[0].severity), (1, severity), "{found:?}");
            assert!(found[0].text.contains(text), "{found:?}");
        }
        std::fs::remove_dir_all(&root).unwrap();
    }
}
