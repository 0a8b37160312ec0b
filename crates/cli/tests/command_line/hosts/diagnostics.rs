//! Events of agents, and the times of a start on several hosts.

use std::process::Stdio;

use super::HELLO;
use super::testbed::{HEAD, outcome, testbed};
use crate::support::{TestDirectory, installed, sorted};

/// The way to `nodeb` is slow, and so is a program on `nodea` before its MPI_Init.
#[test]
fn an_agents_events_name_its_host_and_a_table_the_slowest_host() {
    let Some(bed) = testbed() else { return };
    let hello = bed.compile_text("hello", HELLO);
    let slow = TestDirectory::new("slow");
    let shell = bed.shell();
    let script =
        format!("#!/bin/sh\ncase \"$*\" in *nodeb*) sleep 1;; esac\nexec {shell} \"$@\"\n");
    let shell = slow.script("shell", &script);
    let late = format!("case `hostname` in nodea) sleep 1;; esac; exec {hello}");
    let mut mpirun = bed.on(HEAD, installed("mpirun").to_str().unwrap());
    mpirun.args(["--timeout", "50", "--display", "times", "--mca", "plm_rsh_agent"]).arg(shell);
    mpirun.args(["-n", "4", "-H", "nodea:2,nodeb:2", "sh", "-c", &late]).stdin(Stdio::null());
    mpirun.env("OXMPI_LOG", "agent=trace,launcher=debug");
    let (code, out, err) = outcome(mpirun.output().unwrap());
    assert_eq!(code, Some(0), "{err}");
    let out = sorted(&out);
    assert!(out.len() == 4 && out[3] == "rank 3 of 4 on nodeb: sum 6, 2 here", "{out:?}");

    let has = |text: &str| err.lines().any(|line| line.contains(text));
    for (rank, host) in [(0, "nodea"), (1, "nodea"), (2, "nodeb"), (3, "nodeb")] {
        assert!(has(&format!(" DEBUG agent {host}: a rank has ended rank={rank} pid=")), "{err}");
        let called =
            format!(" launcher head: a rank has called MPI_Init rank={rank} host=\"{host}\"");
        assert!(has(&called), "{err}");
    }
    assert!(has(" TRACE agent nodeb: from mpirun kind=Go"), "{err}");
    assert!(has(" agent nodea: the agent ends"), "{err}");
    // Every line is whole.
    let table = [
        "mpirun: the start of 4 ranks has taken ",
        "  phase ",
        "  resolve ",
        "  agents ",
        "  segments ",
        "  exec ",
        "  first contact ",
    ];
    let is_whole = |line: &str| {
        let time = line.split(' ').next().unwrap_or_default();
        time.parse::<f64>().is_ok() || table.iter().any(|begin| line.starts_with(begin))
    };
    assert!(err.lines().all(is_whole), "{err}");

    let row = |begin: &str| err.lines().find(|line| line.starts_with(begin)).unwrap();
    assert!(row("  agents ").contains("  nodeb ("), "{err}");
    assert!(row("  first contact ").contains("  nodea ("), "{err}");
    bed.is_clean();
}
