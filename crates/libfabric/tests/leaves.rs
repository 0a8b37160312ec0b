//! Resources of the process that libfabric keeps after it was started and its endpoint closed.
#![allow(clippy::unwrap_used)] // a test may panic anywhere

use oxmpi_libfabric::{Endpoint, Library, ProviderQuery};
use std::collections::BTreeMap;

/// Threads, descriptors with their targets, and variables.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    threads: usize,
    descriptors: BTreeMap<String, String>,
    environment: BTreeMap<String, String>,
    signals: Vec<String>,
}

fn left() -> Left {
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|entry| {
        // The descriptor of this directory is closed when its reading ends.
        let what = std::fs::read_link(entry.path()).ok()?.display().to_string();
        let is_own = what.ends_with("/fd") && what.starts_with("/proc/");
        (!is_own).then(|| (entry.file_name().to_string_lossy().into_owned(), what))
    });
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let is_of_signals =
        |line: &&str| ["SigBlk", "SigIgn", "SigCgt"].iter().any(|name| line.starts_with(name));
    Left {
        threads: std::fs::read_dir("/proc/self/task").unwrap().count(),
        descriptors: descriptors.collect(),
        environment: std::env::vars().collect(),
        signals: status.lines().filter(is_of_signals).map(String::from).collect(),
    }
}

#[test]
fn libfabric_leaves_nothing_but_its_code() {
    let before = left();
    let Ok(library) = Library::open("libfabric.so.1") else {
        eprintln!("skipped: this machine has no libfabric.so.1");
        return;
    };
    assert_eq!(left(), before, "opened");
    let providers = library.providers(&ProviderQuery::default()).unwrap();
    let started = left();
    assert_eq!(started, before, "fi_getinfo");
    let provider = providers.iter().find(|provider| provider.name == "tcp;ofi_rxm").unwrap();
    drop(Endpoint::<u32, false>::open(provider, 1).unwrap());
    assert_eq!(left(), before, "an endpoint was open");
}
