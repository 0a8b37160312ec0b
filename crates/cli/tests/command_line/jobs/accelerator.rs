//! Buffers in device memory, by a driver that the tests compile (`tests/accelerator/libcuda.c`): a
//! load or store in its device memory ends the program. `tests/gpu.sh` runs the same program with a
//! real driver.

use super::harness::{Outcome, Programs, compile, compiled_library};
use std::process::Command;

fn prepared() -> (Programs, String) {
    let programs = compile(&["jobs/accelerator"]);
    let driver = compiled_library("accelerator/libcuda.c", "libcuda.so.1").display().to_string();
    (programs, driver)
}

fn run(
    (programs, driver): &(Programs, String),
    ranks: u32,
    options: &[&str],
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Outcome {
    let options = [&["--mca", "accelerator_cuda_library", driver], options].concat();
    let mut command = programs.mpirun(ranks, &options, "accelerator", arguments);
    command.env("OXMPI_TEST_CUDA", driver).envs(variables.iter().copied());
    programs.start(command).end()
}

fn is_well(outcome: &Outcome) {
    assert_eq!((outcome.code, outcome.out.as_str()), (0, "ok\n"), "{outcome:?}");
}

#[test]
fn messages_and_collectives_of_devices_arrive() {
    let prepared = prepared();
    for options in [&[][..], &["--mca", "rpi", "tcp"], &["--mca", "rpi", "usysv"]] {
        is_well(&run(&prepared, 2, options, &["all"], &[]));
    }
    is_well(&run(&prepared, 4, &[], &["all"], &[]));
    is_well(&run(&prepared, 3, &["--mca", "rpi", "tcp", "--mca", "coll", "^shmem"], &["all"], &[]));
    is_well(&run(&prepared, 2, &["--mca", "accelerator", "cuda"], &["all"], &[]));
    is_well(&run(&prepared, 2, &[], &["threads"], &[("FAKE_CUDA_OLD", "1")]));
}

#[test]
fn unserved_calls_are_errors_with_the_reason() {
    let prepared = prepared();
    is_well(&run(&prepared, 2, &["--mca", "accelerator", "null"], &["null"], &[]));
    is_well(&run(&prepared, 2, &["--mca", "coll", "^accelerator"], &["unasked"], &[]));
    is_well(&run(&prepared, 2, &[], &["copies"], &[]));
    is_well(&run(&prepared, 2, &[], &["context"], &[("FAKE_CUDA_NO_CONTEXT", "1")]));
    for transport in ["shm", "tcp"] {
        is_well(&run(&prepared, 2, &["--mca", "rpi", transport], &["receives"], &[]));
    }
}

#[test]
fn a_missing_required_driver_ends_the_job() {
    let prepared = prepared();
    let wanted = ["--mca", "accelerator", "cuda"];
    let outcome = run(&prepared, 1, &wanted, &["all"], &[("FAKE_CUDA_NO_DEVICE", "1")]);
    assert!(outcome.code != 0 && outcome.err.contains("CUDA_ERROR_NO_DEVICE (100)"), "{outcome:?}");
    let without = (prepared.0, "/nonexistent/libcuda.so.1".to_string());
    let outcome = run(&without, 2, &wanted, &["all"], &[]);
    assert_ne!(outcome.code, 0, "{outcome:?}");
    for text in
        ["/nonexistent/libcuda.so.1", "No such file", "accelerator_cuda_library", "with 'auto'"]
    {
        assert!(outcome.err.contains(text), "{text}: {outcome:?}");
    }
    let outcome = run(&without, 2, &[], &["all"], &[]);
    assert!(
        outcome.code == 0 && outcome.out.starts_with("skipped: /nonexistent/libcuda.so.1"),
        "{outcome:?}"
    );
}

#[test]
fn programs_can_ask_whether_devices_are_served() {
    let prepared = prepared();
    for (value, support) in [("auto", "1"), ("cuda", "1"), ("null", "0"), ("off", "0")] {
        is_well(&run(&prepared, 1, &["--mca", "accelerator", value], &["support", support], &[]));
    }
}

#[test]
fn info_and_doctor_say_which_driver_there_is() {
    let (_programs, driver) = prepared();
    let said = |arguments: &[&str], name: &str| {
        let mut command = Command::new(crate::support::installed("oxmpi"));
        let output = command
            .args(arguments)
            .env("OXMPI_MCA_accelerator_cuda_library", name)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let select = ["info", "--select", "--ranks", "2"];
    let found = said(&select, &driver);
    assert!(
        found.contains("78 accelerator copies buffers") && found.contains("CUDA driver 12.4 ("),
        "{found}"
    );
    let missing = said(&select, "/nonexistent/libcuda.so.1");
    assert!(
        missing.contains(
            "accelerator is dropped: there is no driver of a device here (its library is not found)"
        ),
        "{missing}"
    );
    let found = said(&["doctor"], &driver);
    assert!(found.contains("CUDA driver 12.4 ("), "{found}");
    let missing = said(&["doctor"], "/nonexistent/libcuda.so.1");
    assert!(missing.contains("'/nonexistent/libcuda.so.1'"), "{missing}");
}
