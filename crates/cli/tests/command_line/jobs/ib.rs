//! Jobs over InfiniBand (`--mca rpi ib`) on a machine without a device: refusals, and the output of
//! `oxmpi info --ib`. With devices `cargo xtask conformance --ib` runs such jobs.

use super::harness::{compile, installed, root};
use crate::support::skip;
use std::process::Command;

fn info(params: &[(&str, &str)]) -> String {
    let mut command = Command::new(installed("oxmpi"));
    command.args(["info", "--ib"]).current_dir(root());
    for (name, value) in params {
        command.env(format!("OXMPI_MCA_{name}"), value);
    }
    let output = command.output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Whether this machine has a device: then there are no refusals.
fn has_device() -> bool {
    std::fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some())
}

#[test]
fn the_memory_of_envelopes_is_shown() {
    let text =
        info(&[("rpi_ib_num_envelopes", "10"), ("rpi_ib_tinymsglen", "940"), ("rpi_ib_srq", "0")]);
    assert!(text.contains("10 x 1000 bytes = 10000 bytes for each process"), "{text}");
    assert!(text.contains("in a receive queue of its own"), "{text}");
    assert!(info(&[]).contains("64 x 1084 bytes = 69376 bytes"), "{text}");
    assert!(
        info(&[("rpi_ib_library", "/nonexistent.so")]).contains("64 x 1084 bytes = 69376 bytes")
    );
    assert!(info(&[]).contains("rpi_ib_priority 50"));
    assert!(info(&[("rpi_ib_priority", "0")]).contains("never chosen by itself"));
    assert!(info(&[]).contains("MPI_Put and MPI_Get go by the adapter"));
    let text = info(&[("rpi_ib_rma", "0")]);
    assert!(text.contains("MPI_Put and MPI_Get go by messages (rpi_ib_rma 0)"), "{text}");
    let text = info(&[("rpi_ib_timeout", "33"), ("rpi_ib_shm", "0")]);
    assert!(text.contains("about 33 s") && text.contains("the adapter as well"), "{text}");
}

#[test]
fn missing_libraries_and_devices_are_named() {
    if has_device() {
        skip("this machine has a device under /sys/class/infiniband");
        return;
    }
    let text = info(&[]);
    if text.contains("libibverbs cannot be loaded") {
        assert!(text.contains("install it"), "{text}");
        skip("this machine has no libibverbs.so.1, so no device or port was queried");
    } else {
        let text = info(&[("rpi_ib_hca_id", "mlx9_7")]);
        assert!(text.contains("'mlx9_7'") && text.contains("there is no device"), "{text}");
        let text = info(&[("rpi_ib_port", "7")]);
        assert!(text.contains("port 7") && text.contains("there is no device"), "{text}");
        let text = info(&[("rpi_ib_mtu", "1000")]);
        assert!(text.contains("rpi_ib_mtu is 1000"), "{text}");
    }
    let text = info(&[("rpi_ib_library", "/nonexistent.so")]);
    assert!(text.contains("/nonexistent.so") && text.contains("install it"), "{text}");
    let programs = compile(&["jobs/ofi"]);
    let outcome = programs.run(2, &["--mca", "rpi", "ib"], "ofi", &[]);
    assert_ne!(outcome.code, 0);
    for text in ["/sys/class/infiniband", "libibverbs.so.1", "bring up a port"] {
        assert!(outcome.err.contains(text), "{outcome:?}");
    }
}

/// A unit test of the transport covers a port at one rank and none at another.
#[test]
fn ranks_without_a_port_use_sockets_if_that_is_allowed() {
    if has_device() {
        skip("this machine has a device under /sys/class/infiniband");
        return;
    }
    let programs = compile(&["jobs/ofi"]);
    let options = ["--mca", "rpi", "ib", "--mca", "rpi_ib_shm", "0", "--mca", "rpi_ib_fallback"];
    let outcome = programs.run(4, &[&options[..], &["1"]].concat(), "ofi", &[]);
    assert!(outcome.code == 0 && outcome.out.ends_with("ok\n"), "{outcome:?}");
    assert_eq!(
        outcome.err.matches("has no port, so its ranks use sockets").count(),
        1,
        "{outcome:?}"
    );
    let outcome = programs.run(4, &[&options[..], &["0"]].concat(), "ofi", &[]);
    assert!(outcome.code != 0 && outcome.err.contains("rpi_ib_fallback 1"), "{outcome:?}");
}
