//! `cargo xtask conformance --ib`: jobs over `ib` in an emulated machine with soft RoCE devices,
//! which needs no hardware. It shows right results, never speed. Each part has its own machine,
//! so that a part that hangs ends no other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use super::client::Client;
use super::options::name_of;
use crate::install::{Build, install, target_directory};
use crate::packages;
use crate::root;
use crate::run::{Failure, Run};

/// The scripts that make the machine, and that run in it.
const GUEST: &str = include_str!("guest.sh");
const SCRIPT: &str = include_str!("ib-script.sh");

/// Programs and files that the machine needs, each with its Debian package.
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
#[rustfmt::skip] // a table
const TESTS: [&str; 14] = [
    "coll_basic", "coll_exscan", "coll_few_bytes", "coll_mixed_types", "coll_nonblocking",
    "coll_order", "p2p_basic", "p2p_cancel", "p2p_derived", "p2p_truncate", "win_accumulate",
    "win_lock", "win_pscw", "win_put_get",
];
/// The tests with options of their own: long messages and windows, which the adapter serves, and a
/// port that is taken down.
const OTHERS: [&str; 5] = ["p2p_remapped", "win_far", "win_words", "win_atomics", "jobs/ib_down"];

/// mpi4py's modules that run there: point-to-point and collective communication.
#[rustfmt::skip] // a table
const MODULES: [&str; 18] = [
    "test_p2p_buf", "test_p2p_buf_matched", "test_p2p_buf_part", "test_p2p_obj",
    "test_p2p_obj_matched", "test_cco_buf", "test_cco_buf_inter", "test_cco_nb_buf",
    "test_cco_nb_vec", "test_cco_ngh_buf", "test_cco_ngh_obj", "test_cco_obj",
    "test_cco_obj_inter", "test_cco_pr_buf", "test_cco_pr_ngh_buf", "test_cco_pr_vec",
    "test_cco_vec", "test_cco_vec_inter",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum IbPart {
    /// Some of each kind, for every change; the others run if --ib names none
    Short,
    /// Short messages with every MTU, few envelopes and both kinds of receive queues
    Basic,
    /// Long messages, which the adapter reads
    Long,
    /// Windows, to which the adapter puts, from which it gets, and whose words it changes
    Windows,
    /// Ports that are taken down, before the first message and in the middle of one
    Ports,
    /// The C tests
    Tests,
    /// Modules of mpi4py with 2 ranks
    #[value(name = "mpi4py_2")]
    Mpi4py2,
    /// Modules of mpi4py with 4 ranks
    #[value(name = "mpi4py_4")]
    Mpi4py4,
}

impl IbPart {
    fn needs_mpi4py(self) -> bool {
        matches!(self, IbPart::Mpi4py2 | IbPart::Mpi4py4)
    }

    fn limit(self) -> u32 {
        match self {
            IbPart::Short => 900,
            IbPart::Mpi4py2 | IbPart::Mpi4py4 => 3 * 3600,
            IbPart::Basic | IbPart::Long | IbPart::Windows | IbPart::Ports | IbPart::Tests => 1500,
        }
    }
}

enum PartEnd {
    Well,
    /// Some jobs have failed.
    Badly(String),
    /// The machine did not end, so the results are unknown.
    Unknown(String),
}

fn missing() -> Vec<&'static str> {
    NEEDED
        .iter()
        .filter(|(file, _)| !Path::new(file).exists())
        .map(|(_, package)| *package)
        .collect()
}

/// The short part, of the installation in `prefix`; missing packages are installed.
pub(crate) fn short(prefix: &Path) -> Result<(), Failure> {
    let needed = missing();
    if !needed.is_empty() {
        packages::install(&needed)?;
    }
    let (directory, head) = prepare(prefix, &[IbPart::Short])?;
    match run_part(IbPart::Short, &directory, &head)? {
        PartEnd::Well => Ok(()),
        PartEnd::Badly(why) | PartEnd::Unknown(why) => Err(Failure::new(why)),
    }
}

/// Runs parts of the jobs; without `parts`, all but the short one. `prefix`: an installation to
/// judge instead of a new one.
pub(super) fn run(prefix: Option<&Path>, parts: &[IbPart]) -> Result<(), Failure> {
    let all: Vec<_> =
        IbPart::value_variants().iter().copied().filter(|part| *part != IbPart::Short).collect();
    let parts = if parts.is_empty() { &all } else { parts };
    let missing = missing();
    if !missing.is_empty() {
        return Err(Failure::new(format!(
            "conformance --ib needs an emulated machine: apt-get install {}",
            missing.join(" ")
        )));
    }
    let prefix = match prefix {
        Some(prefix) => prefix.to_owned(),
        None => {
            let made = target_directory().join("conformance/ib/oxmpi");
            install(&made, Build::release())?;
            made
        }
    };
    let (directory, head) = prepare(&prefix, parts)?;
    let mut failed = Vec::new();
    for part in parts {
        match run_part(*part, &directory, &head)? {
            PartEnd::Well => {}
            PartEnd::Badly(why) | PartEnd::Unknown(why) => failed.push(why),
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::new(failed.join("\n"))) }
}

/// Compiles the programs of these parts. Returns the directory of the machine, and the variables of
/// its script.
fn prepare(prefix: &Path, parts: &[IbPart]) -> Result<(PathBuf, String), Failure> {
    let directory = target_directory().join("conformance/ib");
    let programs = directory.join("programs");
    super::make_directory(&programs)?;
    compile(prefix, &programs)?;
    let mut head = format!(
        "PREFIX='{}' PROGRAMS='{}' TESTS='{}' MODULES='{}'\n",
        prefix.display(),
        programs.display(),
        TESTS.join(" "),
        MODULES.join(" ")
    );
    if parts.iter().any(|part| part.needs_mpi4py()) {
        let client = Client::prepare(prefix, &root().join("target/conformance"))?;
        head +=
            &format!("PYTHON='{}' SUITE='{}'\n", client.python().display(), client.suite.display());
    }
    super::write(&directory.join("guest.sh"), GUEST)?;
    Ok((directory, head))
}

fn compile(prefix: &Path, programs: &Path) -> Result<(), Failure> {
    let heat = (root().join("examples/heat.c"), "heat");
    let tests = TESTS.into_iter().chain(OTHERS).map(|name| {
        let program = name.rsplit('/').next().unwrap_or(name);
        (root().join(format!("tests/c/{name}.c")), program)
    });
    for (source, name) in [heat].into_iter().chain(tests) {
        let compile = Run::new(prefix.join("bin/mpicc")).args(["-O1", "-Wno-unused"]).arg(source);
        compile.arg("-o").arg(programs.join(name)).arg("-lm").arg("-pthread").show()?;
    }
    Ok(())
}

/// Runs one part in a machine of its own. `head`: variables of the script.
fn run_part(part: IbPart, directory: &Path, head: &str) -> Result<PartEnd, Failure> {
    // Also the name of the function in the script.
    let name = name_of(part);
    let script: PathBuf = directory.join(format!("{name}.sh"));
    super::write(&script, &format!("{head}PART={name}\n{SCRIPT}"))?;
    let report = directory.join("machine/out/report");
    // The files may be those of another part.
    let _ = fs::remove_file(&report);
    let mut machine = Command::new("bash");
    machine.arg(directory.join("guest.sh")).arg(directory.join("machine")).arg(&script);
    let status = machine.env("LIMIT", part.limit().to_string()).status();
    let status = status.map_err(Failure::io("cannot run bash"))?;
    let text = fs::read_to_string(&report).unwrap_or_default();
    println!("{name}:\n{text}");
    let kept = directory.join(format!("{name}.report"));
    super::write(&kept, &text)?;
    Ok(match status.code() {
        Some(0) => PartEnd::Well,
        Some(125) => PartEnd::Unknown(format!(
            "{name}: the emulated machine has not come to an end: see what it has printed above"
        )),
        _ => PartEnd::Badly(format!("{name}: jobs over ib have failed: {}", kept.display())),
    })
}
