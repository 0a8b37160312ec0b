//! Jobs of several `mpirun`s that connect by a port, a name or a socket, and failures of one of
//! them.

use std::process::Command;

use super::harness::{LaunchedJob, Outcome, Programs, SOON, compile, installed, kill};
use crate::support::skip;

const TRANSPORTS: [&str; 3] = ["shm", "tcp", "lamd"];

fn start(p: &Programs, ranks: u32, transport: &str, arguments: &[&str]) -> LaunchedJob {
    p.start(p.mpirun(ranks, &["--mca", "rpi", transport], "meeting", arguments))
}

fn alone(p: &Programs, arguments: &[&str]) -> LaunchedJob {
    let mut command = Command::new(p.path("meeting"));
    command.args(arguments).arg(p.marker());
    p.start(command)
}

fn is_fine(outcome: &Outcome, role: &str, lines: usize) {
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{outcome:?}");
    assert!(outcome.out.contains(&format!("{role} fine\n")), "{outcome:?}");
    assert_eq!(outcome.out.lines().count(), lines + 1, "{outcome:?}");
}

#[test]
fn clients_connect_one_after_another_and_again() {
    let p = compile(&["jobs/meeting"]);
    for (transport, servers, clients) in
        [("shm", 3, 2), ("tcp", 2, 2), ("shm", 1, 3), ("lamd", 2, 3)]
    {
        let mut server = start(&p, servers, transport, &["server", "4"]);
        let port = server.line();
        for _ in 0..2 {
            is_fine(&start(&p, clients, transport, &["client", &port]).wait(), "client", 0);
        }
        is_fine(&server.end(), "server", 1);
    }
}

#[test]
fn jobs_over_daemons_meet_those_of_all_other_transports() {
    let p = compile(&["jobs/meeting"]);
    for (serving, transport) in [
        ("lamd", "shm"),
        ("shm", "lamd"),
        ("lamd", "tcp"),
        ("tcp", "lamd"),
        ("lamd", "sysv"),
        ("lamd", "crtcp"),
    ] {
        let mut server = start(&p, 3, serving, &["server", "4"]);
        let port = server.line();
        for _ in 0..2 {
            is_fine(&start(&p, 2, transport, &["client", &port]).wait(), "client", 0);
        }
        is_fine(&server.end(), "server", 1);
    }
}

#[test]
fn several_clients_come_at_once() {
    let p = compile(&["jobs/meeting"]);
    for transport in TRANSPORTS {
        let mut server = start(&p, 1, transport, &["server", "6"]);
        let port = server.line();
        let clients: Vec<LaunchedJob> =
            (0..3).map(|_| start(&p, 1, transport, &["client", &port])).collect();
        clients.into_iter().for_each(|client| is_fine(&client.wait(), "client", 0));
        is_fine(&server.end(), "server", 1);
    }
}

#[test]
fn a_name_is_found_by_another_mpirun() {
    let p = compile(&["jobs/meeting"]);
    for transport in TRANSPORTS {
        let name = format!("ocean of {} over {transport}", p.marker());
        let mut publisher = start(&p, 2, transport, &["publisher", &name]);
        assert_eq!(publisher.line(), "published");
        is_fine(&start(&p, 1, transport, &["seeker", &name]).wait(), "seeker", 0);
        is_fine(&publisher.end(), "publisher", 1);
    }
}

#[test]
fn connected_jobs_accept_a_third_together() {
    let p = compile(&["jobs/meeting"]);
    for transport in TRANSPORTS {
        let mut host = start(&p, 2, transport, &["host"]);
        let port = host.line();
        let guest = start(&p, 1, transport, &["guest", &port]);
        assert_eq!(host.line(), "met");
        let third = start(&p, 2, transport, &["third", &port]);
        is_fine(&guest.wait(), "guest", 0);
        is_fine(&third.wait(), "third", 0);
        is_fine(&host.end(), "host", 2);
    }
}

/// Both connected jobs, the processes that they spawn together and alone, and the processes that
/// these spawn.
#[test]
fn connected_jobs_spawn_together_and_their_children_connect_back() {
    let p = compile(&["jobs/mixing"]);
    for (transport, left, right) in [("shm", 1, 1), ("shm", 2, 1), ("tcp", 1, 2)] {
        let start = |ranks, arguments: &[&str]| {
            p.start(p.mpirun(ranks, &["--mca", "rpi", transport], "mixing", arguments))
        };
        let mut host = start(left, &["left"]);
        let port = host.line();
        is_fine(&start(right, &["right", &port]).wait(), "right", 0);
        is_fine(&host.end(), "left", 1);
    }
    let mut command = Command::new(p.path("mixing"));
    command.arg("left").arg(p.marker());
    let mut host = p.start(command);
    let port = host.line();
    is_fine(&p.start(p.mpirun(2, &[], "mixing", &["right", &port])).wait(), "right", 0);
    is_fine(&host.end(), "left", 1);
}

#[test]
fn processes_join_by_a_socket_with_mpirun_and_without() {
    let p = compile(&["jobs/meeting"]);
    for transport in TRANSPORTS {
        let mut joiner = start(&p, 1, transport, &["joiner"]);
        let number = joiner.line();
        is_fine(&start(&p, 1, transport, &["joined", &number]).wait(), "joined", 0);
        is_fine(&joiner.end(), "joiner", 1);
    }
    let mut joiner = alone(&p, &["joiner"]);
    let number = joiner.line();
    is_fine(&alone(&p, &["joined", &number]).wait(), "joined", 0);
    is_fine(&joiner.end(), "joiner", 1);
    let mut joiner = alone(&p, &["joiner"]);
    let number = joiner.line();
    is_fine(&start(&p, 1, "shm", &["joined", &number]).wait(), "joined", 0);
    is_fine(&joiner.end(), "joiner", 1);
}

#[test]
fn a_failure_ends_the_connected_job_of_the_other_mpirun() {
    let p = compile(&["jobs/meeting"]);
    for transport in TRANSPORTS {
        for (how, code, words) in [
            ("kill", 137, "was killed by SIGKILL"),
            ("mpi", 7, "called MPI_Abort"),
            ("code", 3, "exited with code 3"),
        ] {
            let mut server = start(&p, 2, transport, &["stayer"]);
            let port = server.line();
            let client = start(&p, 2, transport, &["goer", &port, how]);
            let launcher = client.child.id();
            client.wait().reports(code, "rank 1 (pid ");
            let outcome = server.end_within(SOON);
            outcome.reports(
                code,
                "a job of another mpirun, with which this one is connected, has failed:",
            );
            assert!(
                outcome.err.contains(&format!("mpirun {launcher}: rank 1 (pid ")),
                "{outcome:?}"
            );
            assert!(outcome.err.contains(words), "{outcome:?}");
        }
    }
}

#[test]
fn a_killed_mpirun_is_noticed_by_the_other() {
    let p = compile(&["jobs/meeting"]);
    for transport in TRANSPORTS {
        for kills_server in [true, false] {
            let mut server = start(&p, 2, transport, &["stayer"]);
            let port = server.line();
            let mut client = start(&p, 2, transport, &["goer", &port, "stays"]);
            server.pids(2);
            client.pids(2);
            let (victim, other) = if kills_server { (server, client) } else { (client, server) };
            let number = victim.child.id();
            kill(number as i32);
            assert_eq!(victim.wait().code, -9);
            let outcome = other.end_within(SOON);
            outcome.reports(
                1,
                "a job of another mpirun, with which this one is connected, has failed:",
            );
            assert!(outcome.err.contains(&format!("mpirun {number} has ended")), "{outcome:?}");
        }
    }
}

#[test]
fn after_a_disconnect_a_death_does_not_concern_the_other() {
    let p = compile(&["jobs/meeting"]);
    for transport in TRANSPORTS {
        let mut server = start(&p, 2, transport, &["stayer", "again"]);
        let port = server.line();
        start(&p, 2, transport, &["leaver", &port]).wait().reports(137, "rank 0 (pid ");
        is_fine(&start(&p, 1, transport, &["third", &port]).wait(), "third", 0);
        is_fine(&server.end(), "stayer", 1);
    }
}

#[test]
fn a_wrong_port_is_an_error_with_the_reason() {
    let p = compile(&["jobs/meeting"]);
    let mut server = start(&p, 1, "shm", &["stayer", "again"]);
    let port = server.line();
    let wrong = |transport: &str, port: &str, words: &str| {
        let outcome = start(&p, 2, transport, &["wrong", port]).wait();
        is_fine(&outcome, "wrong", 1);
        assert!(outcome.out.contains(words), "{words}: {outcome:?}");
    };
    wrong("shm", "nonsense", "there is no port");
    let (head, _) = port.rsplit_once(':').unwrap();
    wrong("shm", &format!("{head}:77"), "there is no port");
    let mut words: Vec<&str> = port.split(':').collect();
    words[2] = "0123456789abcdef";
    wrong("shm", &words.join(":"), "the mpirun that it belonged to has ended");
    kill(server.child.id() as i32);
    assert_eq!(server.end().code, -9);
    wrong("shm", &port, "its mpirun has ended");
}

/// A job that searches for another mpirun is refused at once, and the waiting job is not disturbed.
#[test]
fn a_launcher_that_was_refused_leaves_the_other_alone() {
    let p = compile(&["jobs/meeting"]);
    let mut server = start(&p, 1, "tcp", &["server", "1"]);
    let port = server.line();
    let mut words: Vec<&str> = port.split(':').collect();
    words[2] = "0123456789abcdef";
    is_fine(&start(&p, 1, "tcp", &["wrong", &words.join(":")]).wait(), "wrong", 1);
    is_fine(&start(&p, 1, "shm", &["third", &port]).wait(), "third", 0);
    is_fine(&server.end(), "server", 1);
}

#[test]
fn a_job_that_ends_well_while_it_is_connected_does_no_harm() {
    let p = compile(&["jobs/meeting"]);
    for transport in TRANSPORTS {
        for others in [0, 1] {
            let mut server = start(&p, 1 + others, transport, &["early"]);
            let port = server.line();
            let gate = format!("gate.{transport}.{others}");
            let mut client = start(&p, 1, transport, &["late", &port, &gate]);
            assert_eq!(client.line(), "connected");
            is_fine(&server.wait(), "early", 1);
            p.file(&gate, b"", 0o600);
            is_fine(&client.end(), "late", 1);
        }
    }
}

#[test]
fn looking_up_names_leaves_no_descriptors_open() {
    let p = compile(&["jobs/meeting"]);
    let name = format!("lake of {}", p.marker());
    let mut publisher = start(&p, 1, "shm", &["publisher", &name]);
    assert_eq!(publisher.line(), "published");
    let mut searcher = start(&p, 1, "shm", &["searcher", &name, "gate"]);
    assert_eq!(searcher.line(), "sought");
    let open = |job: &LaunchedJob| {
        std::fs::read_dir(format!("/proc/{}/fd", job.child.id())).unwrap().count()
    };
    let counts = [open(&publisher), open(&searcher)];
    assert!(counts.iter().all(|count| *count < 60), "{counts:?}");
    p.file("gate", b"", 0o600);
    is_fine(&searcher.wait(), "searcher", 1);
    is_fine(&publisher.end(), "publisher", 1);
}

#[test]
fn names_of_another_user_hinder_no_job() {
    if !rustix::process::geteuid().is_root() {
        skip("only root can be another user");
        return;
    }
    let p = compile(&["jobs/meeting", "jobs/squatter"]);
    // In its own network namespace, where no other job of this machine has names. A publisher
    // accepts once, and then its name is gone.
    let script = "set -e
         ip link set lo up 2>/dev/null || :
         until_line() { until grep -qs \"$1\" $2; do sleep 0.01; done; }
         mkfifo in; sleep 50 >in & ./squatter 65534 0 lagoon <in >squat & squatter=$!; until_line taken squat
         mpirun() { \"$MPIRUN\" --timeout 50 --mca rpi shm -n $1 ./meeting \"${@:2}\"; }
         mpirun 2 publisher lagoon >published & publisher=$!; until_line published published
         mpirun 1 searcher lagoon gate >sought & searcher=$!; until_line sought sought
         touch gate; wait $searcher; wait $publisher; cat published sought >&2
         mpirun 2 publisher lagoon >again & publisher=$!; until_line published again
         mpirun 1 seeker lagoon; wait $publisher
         mpirun 1 server 2 >port & server=$!; until_line oxmpi port
         mpirun 2 client $(head -1 port); wait $server
         kill $squatter %1; cat again sought port >&2";
    let mut command = Command::new("unshare");
    command.args(["--net", "bash", "-c", script, p.marker()]).env("MPIRUN", installed("mpirun"));
    let outcome = p.start(command).end();
    assert_eq!(outcome.code, 0, "{outcome:?}");
    for fine in ["seeker fine", "client fine"] {
        assert!(outcome.out.contains(fine), "{fine}: {outcome:?}");
    }
    for fine in ["publisher fine", "searcher fine", "server fine"] {
        assert!(outcome.err.contains(fine), "{fine}: {outcome:?}");
    }
}

/// Each connected launcher has a number at the other one, and a new one may get the number of one
/// that has ended.
#[test]
fn a_client_whose_mpirun_has_the_number_of_an_earlier_one_connects() {
    if !rustix::process::geteuid().is_root() {
        skip("only root makes a network of its own");
        return;
    }
    let p = compile(&["jobs/meeting", "jobs/places"]);
    // In its own network namespace with all numbers taken but two: one for the server, and one for
    // the clients, one after another.
    let script = "set -e
         ip link set lo up 2>/dev/null || :
         until_line() { until grep -qs \"$1\" $2; do sleep 0.01; done; }
         mkfifo in; sleep 50 >in & sleeper=$!; ./places 7 9 <in >places.out & places=$!; until_line taken places.out
         for transport in shm tcp lamd; do
             mpirun() { \"$MPIRUN\" --timeout 20 --mca rpi $transport -n $1 ./meeting \"${@:2}\"; }
             mpirun 2 server 6 >port & server=$!; until_line oxmpi port
             for client in 1 2 3; do mpirun 2 client $(head -1 port); done
             wait $server; cat port; rm port
         done
         kill $places $sleeper";
    let mut command = Command::new("unshare");
    command.args(["--net", "bash", "-c", script, p.marker()]).env("MPIRUN", installed("mpirun"));
    let outcome = p.start(command).end();
    assert_eq!((outcome.code, outcome.err.as_str()), (0, ""), "{outcome:?}");
    assert_eq!(outcome.out.matches("client fine").count(), 9, "{outcome:?}");
    assert_eq!(outcome.out.matches("server fine").count(), 3, "{outcome:?}");
}
