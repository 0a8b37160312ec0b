//! Jobs on several hosts whose messages go through daemons (rpi lamd).

use std::time::{Duration, Instant};

use super::testbed::{B, Begun, HEAD, LIMIT, Testbed, kill, testbed};
use super::{HELLO, SHRINK, STAY, STREAM};

const LAMD: [&str; 3] = ["--mca", "rpi", "lamd"];

fn lamd<'w>(words: &[&'w str]) -> Vec<&'w str> {
    [&LAMD[..], words].concat()
}

#[test]
fn messages_go_through_daemons_of_several_hosts() {
    let Some(bed) = testbed() else { return };
    let hello = bed.compile_text("hello", HELLO);
    for (hosts, ranks) in [("nodea:2,nodeb:2", 4), ("nodea:2,localhost:1", 3), ("nodeb:2", 2)] {
        let (code, out, err) = bed.run(&lamd(&["-H", hosts, &hello]));
        assert_eq!((code, out.lines().count(), &*err), (Some(0), ranks, ""), "{hosts}");
    }
    for name in ["coll_basic", "p2p_large", "p2p_wildcards", "win_put_get"] {
        let program = bed.compile(name);
        let (code, out, err) = bed.run(&lamd(&["-n", "5", "-H", "nodea:2,nodeb:3", &program]));
        assert!(code == Some(0) && out.lines().last() == Some("ok"), "{name}: {out}{err}");
    }
    bed.is_clean();
}

#[test]
fn messages_cross_hosts_while_programs_compute() {
    let Some(bed) = testbed() else { return };
    let program = bed.compile("jobs/background");
    for what in ["isend", "many", "receiver"] {
        let gate = bed.directory.join(format!("gate.{what}"));
        let words = ["-n", "2", "-H", "nodea,nodeb", &program, what, gate.to_str().unwrap()];
        let (code, out, err) = bed.run(&lamd(&words));
        assert_eq!((code, &*out, &*err), (Some(0), "ok\n", ""), "{what}");
    }
    bed.is_clean();
}

fn start(bed: &Testbed) -> Begun {
    let stay = bed.compile_text("stay", STAY);
    let job = bed.begin(&lamd(&["-n", "4", "-H", "nodea:2,nodeb:2", &stay]), 4);
    job.all_end_with("stays");
    job
}

#[test]
fn a_lost_daemon_or_host_ends_the_job_with_one_report() {
    let Some(bed) = testbed() else { return };
    let job = start(&bed);
    let pid = bed.await_process(B, "oxmpi relay");
    kill(pid);
    let (code, _, err) = job.end();
    assert_eq!(code, Some(137), "{err}");
    // The number as the daemon sees it: the hosts of this test have one space of process numbers.
    let text = format!("the daemon of node 1 (pid {pid}, host nodeb) was killed by SIGKILL");
    assert!(err.contains(&text) && err.contains("4 ranks still running"), "{err}");
    assert_eq!(err.matches("Meaning:").count(), 1, "{err}");
    bed.is_clean();

    let job = start(&bed);
    kill(bed.await_process(B, "oxmpi agent"));
    let (code, _, err) = job.end();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("mpirun: host nodeb is lost, with 2 ranks: "), "{err}");
    assert_eq!(err.matches("Meaning:").count(), 1, "{err}");
    bed.is_clean();

    let mut job = start(&bed);
    kill(bed.await_process(HEAD, "mpirun --timeout"));
    job.child.wait().unwrap();
    bed.is_clean();
}

#[test]
fn others_survive_the_loss_of_a_host_with_its_daemon() {
    let Some(bed) = testbed() else { return };
    let ulfm = bed.compile_text("shrink", SHRINK);
    let words = ["--with-ft", "ulfm", "-n", "5", "-H", "nodea:2,nodeb:2,localhost:1", &ulfm];
    let job = bed.begin(&lamd(&words), 5);
    job.all_end_with("begins");
    kill(bed.await_process(B, "oxmpi agent"));
    let (code, mut out, err) = job.end();
    assert!(
        err.contains("host nodeb is lost, with 2 ranks") && err.contains("the job goes on"),
        "{err}"
    );
    out.sort_unstable();
    let left = ["rank 0: 3 are left", "rank 1: 3 are left", "rank 4: 3 are left"];
    assert_eq!((code, out), (Some(0), left.map(String::from).to_vec()), "{err}");
    bed.is_clean();
}

const ONE_WAY: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, x = 5;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Send(&x, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(&x, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("got %d\n", x);
    }
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn a_daemon_skips_an_unreachable_address_and_reports_it() {
    let Some(bed) = testbed() else { return };
    let program = bed.compile_text("oneway", ONE_WAY);
    bed.put_address_first(B, "10.99.0.2");
    let (code, out, err) = bed.run(&lamd(&["-n", "2", "-H", "nodea,nodeb", &program]));
    assert_eq!((code, &*out), (Some(0), "got 5\n"), "{err}");
    let text = "the daemon of host nodea does not reach the daemon of host nodeb at 10.99.0.2:";
    assert!(err.contains(text) && err.contains("other addresses"), "{err}");
    let words =
        ["--mca", "btl_tcp_if_exclude", "10.99.0.0/16", "-n", "2", "-H", "nodea,nodeb", &program];
    let (code, _, err) = bed.run(&lamd(&words));
    assert_eq!((code, &*err), (Some(0), ""));
    bed.is_clean();
}

#[test]
fn daemons_of_a_job_run_in_a_universe() {
    let Some(bed) = testbed() else { return };
    let hello = bed.compile_text("hello", HELLO);
    bed.boot("head cpu=1\nnodea cpu=2\nnodeb cpu=2\n");
    let (code, out, err) = bed.run(&lamd(&["C", &hello]));
    assert_eq!((code, out.lines().count(), &*err), (Some(0), 5, ""));
    let hosts = ["head", "nodea", "nodeb"].map(|host| out.matches(&format!("on {host}:")).count());
    assert_eq!(hosts, [1, 2, 2], "{out}");
    bed.halt();
    bed.is_clean();
}

mod night {
    use super::*;

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn a_link_that_is_cut_for_a_while_loses_nothing_and_one_that_stays_cut_is_reported() {
        let Some(bed) = testbed() else { return };
        let program = bed.compile_text("stream", STREAM);
        let begin = |limit: &[&str]| {
            let job =
                bed.begin(&[limit, &lamd(&["-n", "2", "-H", "nodea,nodeb", &program])].concat(), 1);
            assert_eq!(job.first, ["begun"]);
            job
        };
        let job = begin(&[]);
        bed.set_link(B, false);
        std::thread::sleep(Duration::from_secs(3));
        bed.set_link(B, true);
        let (code, rest, err) = job.end();
        assert_eq!((code, rest), (Some(0), vec!["ok".to_string()]), "{err}");
        bed.is_clean();

        let job = begin(&["--timeout", "120", "--mca", "mpi_agent_silence_s", "5"]);
        bed.set_link(B, false);
        let began = Instant::now();
        let (code, _, err) = job.end();
        assert!(
            code.is_some_and(|code| ![0, 124].contains(&code)) && began.elapsed() < 2 * LIMIT,
            "{err}"
        );
        assert!(
            err.contains("host nodeb") && err.contains("nothing has come from it for 5 s"),
            "{err}"
        );
        assert_eq!(err.matches("Meaning:").count(), 1, "{err}");
        bed.set_link(B, true);
    }
}
