//! The start-up protocol between `mpirun` and processes: this test program runs itself as the
//! ranks.

use std::process::{Command, Stdio};

use oxmpi_rt_client::client::{Client, Directory as _, DirectoryError};
use oxmpi_shm::segment::{RankState, Segment};

use crate::support::texts;

const ROLE: &str = "OXMPI_TEST_ROLE";

/// The program of a rank, which the other tests start. Without a role the test does nothing.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    if role == "child" {
        assert!(
            Client::from_env().unwrap().is_none(),
            "a process that a rank starts is not the rank"
        );
        println!("child-is-single");
        return;
    }
    let me: u32 = std::env::var("OXMPI_COMM_WORLD_RANK").unwrap().parse().unwrap();
    if role == "absent" && me == 0 {
        return;
    }
    let client = Client::from_env().unwrap().expect("mpirun started this process");
    let boot = *client.segment().boot();
    assert_eq!(boot.rank, me);
    assert!(Client::from_env().unwrap().is_none(), "a rank can be taken only once");
    let status = client.segment().status();
    status.set_state(RankState::Initialized);
    let forever = || loop {
        std::thread::park();
    };
    match role.as_str() {
        "peers" => {
            for peer in 0..boot.size {
                let segment = Segment::map(client.open_peer(peer).unwrap().0).unwrap();
                assert_eq!((segment.boot().rank, segment.boot().job_id), (peer, boot.job_id));
            }
            let error = client.open_peer(boot.size).unwrap_err();
            assert!(matches!(error, DirectoryError::Refused { .. }), "{error}");
            assert!(error.to_string().contains("the job has 4 ranks"), "{error}");
            client.say("the same from all");
            println!("all-peers-seen");
        }
        "parent" => {
            let me = std::env::current_exe().unwrap();
            let child = Command::new(me)
                .args(["--exact", "boot::role", "--nocapture"])
                .env(ROLE, "child")
                .status()
                .unwrap();
            assert!(child.success());
        }
        "abort" if me == 1 => {
            client.abort(42, "wrong input");
            forever();
        }
        "leave" if me == 1 => {
            status.set_last_call(oxmpi_abi::FuncId::from_name("MPI_Recv").unwrap().index() + 1);
            std::process::exit(0);
        }
        _ => forever(),
    }
    status.set_state(RankState::Finalized);
}

fn run(role: &str, ranks: &str) -> (i32, String, String) {
    let me = std::env::current_exe().unwrap();
    let mut mpirun = Command::new(env!("CARGO_BIN_EXE_oxmpi"));
    mpirun.args(["mpirun", "-n", ranks, "--timeout", "20"]).arg(me);
    mpirun.args(["--exact", "boot::role", "--nocapture"]).env(ROLE, role).stdin(Stdio::null());
    texts(&mpirun.output().unwrap())
}

#[test]
fn ranks_open_each_others_segments() {
    let (code, out, err) = run("peers", "4");
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(out.matches("all-peers-seen").count(), 4);
    assert_eq!(err, "mpirun: the same from all\n");
}

#[test]
fn a_process_started_by_a_rank_is_a_singleton() {
    let (code, out, err) = run("parent", "2");
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(out.matches("child-is-single").count(), 2);
}

#[test]
fn an_abort_ends_the_job_with_its_code_and_text() {
    let (code, _, err) = run("abort", "3");
    assert_eq!(code, 42);
    assert!(
        err.starts_with("mpirun: rank 1 (pid ") && err.contains("ended the job:\nwrong input\n"),
        "{err}"
    );
    assert_eq!(err.matches("mpirun:").count(), 1, "{err}");
}

#[test]
fn leaving_without_finalize_is_reported_with_the_last_call() {
    let (code, _, err) = run("leave", "3");
    assert_eq!(code, 1);
    assert!(err.contains("without calling MPI_Finalize; its last MPI call was MPI_Recv"), "{err}");
}

#[test]
fn a_rank_that_never_calls_init_is_reported() {
    let (code, _, err) = run("absent", "3");
    assert_eq!(code, 1);
    assert!(err.contains("rank 0") && err.contains("without ever calling MPI_Init"), "{err}");
}

#[test]
fn without_a_launcher_a_process_is_no_client() {
    if std::env::var_os("OXMPI_BOOT").is_none() {
        assert!(Client::from_env().unwrap().is_none());
    }
}
