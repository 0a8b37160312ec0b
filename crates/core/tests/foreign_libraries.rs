//! Each library that is opened at run time leaves the signals to the program.
#![allow(clippy::unwrap_used)] // a test may panic anywhere

use oxmpi_cuda::Driver;
use oxmpi_gm::{GmLibrary, OpenPort};
use oxmpi_hcoll::{ContextCreation, Hcoll, HcollCreation, HcollGroup, HcollMembers};
use oxmpi_libfabric::{Endpoint, ProviderQuery};
use std::path::{Path, PathBuf};
use std::process::Command;

fn compiled() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/foreign/library.c");
    let library =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("foreign-{}.so", std::process::id()));
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
    let output = cc.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

/// Handled, ignored and blocked signals (proc_pid_status(5)).
fn signals() -> Vec<String> {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let is_of_signals =
        |line: &&str| ["SigBlk", "SigIgn", "SigCgt"].iter().any(|name| line.starts_with(name));
    status.lines().filter(is_of_signals).map(String::from).collect()
}

fn taken() -> u32 {
    std::env::var("OXMPI_TEST_TAKEN").map_or(0, |count| count.parse().unwrap())
}

fn libfabric(library: &str) {
    let opened = oxmpi_libfabric::Library::open(library).unwrap();
    check("libfabric is opened", 1);
    let mut providers = opened.providers(&ProviderQuery::default()).unwrap();
    check("fi_getinfo", 2);
    let error = Endpoint::<u32, false>::open(&providers.remove(0), 1).unwrap_err();
    assert!(error.to_string().contains("fi_fabric"), "{error}");
    check("fi_fabric", 3);
}

fn verbs(library: &str) {
    let opened = oxmpi_verbs::VerbsLibrary::open(library).unwrap();
    check("libibverbs is opened, and ibv_fork_init", 2);
    assert_eq!(opened.devices(), Ok(Vec::new()), "the error number is that of the call");
    check("ibv_get_device_list", 3);
}

fn ucc(library: &str) {
    let opened = oxmpi_ucc::UccLibrary::open(library).unwrap();
    check("UCC is opened", 1);
    let error = oxmpi_ucc::UccContext::new(&opened, false, "").unwrap_err();
    assert!(error.to_string().contains("ucc_init"), "{error}");
    check("ucc_init", 2);
}

fn hcoll(library: &str) {
    let opened = Hcoll::open(library).unwrap();
    check("HCOLL is opened", 1);
    let group = HcollGroup::new(HcollMembers { rank: 0, processes: vec![0], nodes: vec![0] });
    let mut creation = ContextCreation::begin(&opened, &group).unwrap();
    let error = loop {
        match creation.poll() {
            Ok(HcollCreation::Going(going)) => creation = going,
            Ok(HcollCreation::Made(_)) => panic!("the library refuses to start"),
            Err(error) => break error,
        }
        std::thread::yield_now();
    };
    assert!(error.to_string().contains("hcoll_read_init_opts"), "{error}");
    check("hcoll_init", 2);
}

fn gm(library: &str) {
    let opened = GmLibrary::open(library).unwrap();
    check("GM is opened", 1);
    let error = OpenPort::open(&opened, 0, 0..1, 1000).unwrap_err();
    assert!(error.to_string().contains("gm_init"), "{error}");
    check("gm_init", 2);
}

fn portals(library: &str) {
    let opened = oxmpi_portals::PortalsLibrary::open(library).unwrap();
    check("Portals is opened", 1);
    let error = opened.limits().unwrap_err();
    assert!(error.to_string().contains("PtlInit"), "{error}");
    check("PtlInit", 2);
}

fn cuda(library: &str) {
    let opened = Driver::open(library).unwrap();
    check("the driver is opened", 1);
    let error = opened.initialise().unwrap_err();
    assert!(error.to_string().contains("cuInit"), "{error}");
    check("cuInit", 2);
}

thread_local! {
    /// The signals before a library was opened, and the value of [`taken`].
    static BEFORE: std::cell::RefCell<(Vec<String>, u32)> = std::cell::RefCell::default();
}

/// Checks that signal handlers were installed `times` times, and that the program's signals are in
/// force.
fn check(step: &str, times: u32) {
    BEFORE.with_borrow(|(before, taken_before)| {
        assert_eq!(taken() - taken_before, times, "{step}");
        assert_eq!(&signals(), before, "{step}");
    });
}

#[test]
fn every_library_leaves_the_signals_to_the_program() {
    let library = compiled();
    type OpenAndStart = fn(&str);
    let table: [(&str, OpenAndStart); 7] = [
        ("libfabric", libfabric),
        ("verbs", verbs),
        ("ucc", ucc),
        ("hcoll", hcoll),
        ("gm", gm),
        ("portals", portals),
        ("cuda", cuda),
    ];
    for (name, open_and_start) in table {
        // The loader does not open a library again that it has loaded.
        let own = library.with_extension(name);
        std::fs::copy(&library, &own).unwrap();
        BEFORE.set((signals(), taken()));
        open_and_start(own.to_str().unwrap());
        std::fs::remove_file(own).unwrap();
    }
    std::fs::remove_file(library).unwrap();
}
