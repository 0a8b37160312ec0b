//! `cargo xtask conformance --ib`: jobs over `ib` in an emulated machine with soft RoCE devices, which needs no hardware. It shows right
//! results, never speed.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::install::{install, target_directory};
use crate::root;
use crate::run::{Failure, Run};

/// What makes the machine, and what runs in it.
const GUEST: &str = include_str!("guest.sh");
const SCRIPT: &str = include_str!("ib-script.sh");

/// Programs and files that it takes, and the package of Debian that has each.
const NEEDED: [(&str, &str); 8] = [
    ("/usr/bin/qemu-system-x86_64", "qemu-system-x86"),
    ("/bin/busybox", "busybox-static"),
    ("/sbin/depmod", "kmod"),
    ("/usr/bin/cpio", "cpio"),
    ("/usr/bin/rdma", "iproute2"),
    ("/etc/rdma/modules", "rdma-core"),
    ("/etc/libibverbs.d/rxe.driver", "ibverbs-providers"),
    ("/usr/bin/apt-cache", "apt"),
];

/// The C tests that run there, each with 2 ranks: one for each kind of traffic.
const TESTS: [&str; 14] = [
    "coll_basic",
    "coll_exscan",
    "coll_few_bytes",
    "coll_mixed_types",
    "coll_nonblocking",
    "coll_order",
    "p2p_basic",
    "p2p_cancel",
    "p2p_derived",
    "p2p_truncate",
    "win_accumulate",
    "win_lock",
    "win_pscw",
    "win_put_get",
];
/// Those with long messages and with windows, where the adapter has to do the work, and the one whose port is taken down: they run in ways of
/// their own.
const OTHERS: [&str; 3] = ["p2p_remapped", "win_far", "jobs/ib_down"];

/// The longest that the machine runs, seconds.
const LIMIT: &str = "1500";

/// Runs the jobs. `prefix`: an installation to judge instead of a new one.
pub(super) fn run(prefix: Option<&Path>) -> Result<(), Failure> {
    let missing: Vec<_> =
        NEEDED.iter().filter(|(file, _)| !Path::new(file).exists()).map(|(_, package)| *package).collect();
    if !missing.is_empty() {
        println!(
            "conformance --ib is skipped: it needs an emulated machine; apt-get install {}",
            missing.join(" ")
        );
        return Ok(());
    }
    let directory = target_directory().join("conformance/ib");
    let programs = directory.join("programs");
    fs::create_dir_all(&programs).map_err(Failure::io(format!("cannot make {}", programs.display())))?;
    let prefix = match prefix {
        Some(prefix) => prefix.to_owned(),
        None => {
            let made = directory.join("oxmpi");
            install(&made, true)?;
            made
        }
    };
    let heat = (root().join("examples/heat.c"), "heat");
    let tests = TESTS.into_iter().chain(OTHERS).map(|name| {
        let program = name.rsplit('/').next().unwrap_or(name);
        (root().join(format!("tests/c/{name}.c")), program)
    });
    for (source, name) in [heat].into_iter().chain(tests) {
        let compile = Run::new(prefix.join("bin/mpicc")).args(["-O1", "-Wno-unused"]).arg(source);
        compile.arg("-o").arg(programs.join(name)).arg("-lm").arg("-pthread").show()?;
    }
    let (guest, script) = (directory.join("guest.sh"), directory.join("script.sh"));
    let head = format!(
        "PREFIX='{}' PROGRAMS='{}' TESTS='{}'\n",
        prefix.display(),
        programs.display(),
        TESTS.join(" ")
    );
    let write = |file: &Path, text: &str| {
        fs::write(file, text).map_err(Failure::io(format!("cannot write {}", file.display())))
    };
    write(&guest, GUEST)?;
    write(&script, &(head + SCRIPT))?;
    let mut machine = Command::new("bash");
    machine.arg(&guest).arg(directory.join("machine")).arg(&script).env("LIMIT", LIMIT);
    let status = machine.status().map_err(Failure::io("cannot run bash"))?;
    let report = directory.join("machine/out/report");
    println!("{}", fs::read_to_string(&report).unwrap_or_default());
    match status.code() {
        Some(0) => Ok(()),
        Some(125) => {
            Err(Failure::new("the emulated machine has not come to an end: see what it has printed above"))
        }
        _ => Err(Failure::new(format!("jobs over ib have failed: {}", report.display()))),
    }
}
