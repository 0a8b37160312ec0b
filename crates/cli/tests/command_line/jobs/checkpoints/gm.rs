//! Jobs over Myrinet's GM with an image of each rank (`rpi_gm_cr 1`), by the emulation in
//! `tests/gm-emulation`: the ports are closed for the images, and opened again after them and after
//! a restart.

use super::*;
use crate::jobs::harness::compiled_library;

fn over_emulation(library: &str) -> [&str; 12] {
    let [a, b, c] = ["--mca"; 3];
    [a, "rpi", "gm", b, "rpi_gm_library", library, c, "rpi_gm_cr", "1", "--mca", "cr", "blcr"]
}

fn library() -> String {
    compiled_library("gm-emulation/gm.c", "libgm-of-tests.so").display().to_string()
}

#[test]
fn heat_comes_back() {
    let library = library();
    comes_back_by(&[], &over_emulation(&library), "cr_heat", &["150", "6000"]);
}

#[test]
fn traffic_comes_back() {
    let library = library();
    comes_back_by(&[], &over_emulation(&library), "cr_traffic", &["60", "7", "data"]);
}

#[test]
fn a_job_goes_on_with_other_ports() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let library = library();
    let args = ["150", "6000"];
    let (code, alone) = sandbox.start(&over_emulation(&library), "cr_heat", &args).end();
    assert_eq!(code, 0, "{alone}");
    let mut job = sandbox.start(&over_emulation(&library), "cr_heat", &args);
    job.await_line("step");
    let set = set_of(&run(sandbox.oxmpi(&["checkpoint", "--kill", &job.mpirun()])));
    let (code, out) = job.end();
    assert_eq!(code, 75, "{out}");
    let other = sandbox.programs.directory.join("other");
    let mut command = sandbox.command("mpirun");
    command
        .args(["-n", "2"])
        .args(over_emulation(&library))
        .arg(sandbox.programs.path("cr_heat"))
        .args(["6000", "60"]);
    let output = File::create(&other).unwrap();
    let mut holder = command.stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
    let start = Instant::now();
    while !fs::read_to_string(&other).unwrap().contains("step") {
        assert!(start.elapsed() < LIMIT, "the other job does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (code, out) = restart(&sandbox, &set, &[]).end();
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!((code, results(&out)), (0, results(&alone)), "{out}{}", restarted(&sandbox));
}

/// Without the parameter rank images are refused. With it `oxmpi quiesce` also closes and opens the
/// ports.
#[test]
fn quiesce_over_gm_needs_the_parameter() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let library = library();
    let with_switch = &over_emulation(&library)[..9];
    let mut job = sandbox.start(&with_switch[..6], "cr_heat", &["6000", "6000"]);
    job.await_line("step");
    let texts = ["'gm'", "'--mca rpi_gm_cr 1' or '--mca rpi crtcp'"];
    refused(&run(sandbox.oxmpi(&["quiesce", &job.mpirun()])), 1, &texts);
    job.lose();
    let mut job = sandbox.start(with_switch, "cr_heat", &["6000", "6000"]);
    job.await_line("step");
    let output = run(sandbox.oxmpi(&["quiesce", &job.mpirun()]));
    assert!(
        words(&output).contains("the messages of 4 processes stood still"),
        "{}",
        words(&output)
    );
    job.await_line("step");
    job.lose();
}
