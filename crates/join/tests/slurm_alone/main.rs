//! The meeting of a step's nodes with real daemons of MUNGE: Debian's package `munge`. Each node of
//! these tests is a thread with an address of 127.0.0.0/8 and a `munged` of its own. Processes of a
//! second user need root. Where these are missing, the tests fail, unless OXMPI_TEST_ALLOW_SKIPS is
//! set.
#![allow(clippy::unwrap_used)] // a test may panic anywhere

mod attacker;
mod cluster;
mod srun;

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use cluster::Cluster;
use oxmpi_join::munge::{LIBRARY, Munge, MungeError};
use oxmpi_join::slurm::SlurmStep;
use oxmpi_join::{JoinError, ProcessManager, SlurmAlone};

const LIMIT: Duration = Duration::from_secs(60);

/// A task of a step on `nodes` nodes, whose processes use these ports first.
fn step(number: u32, nodes: u32, node: u32, ports: &[u16]) -> SlurmStep {
    SlurmStep {
        // Other runs of this test may be at work.
        job: std::process::id(),
        step: number,
        restart: 0,
        tasks: nodes,
        task: node,
        local: 0,
        node,
        nodes: (1..=nodes).map(|last| format!("127.0.0.{last}")).collect(),
        tasks_per_node: vec![1; nodes as usize],
        reserved_ports: ports.to_vec(),
        launcher_port: None,
        launcher_host: None,
        addresses: Vec::new(),
    }
}

/// Free ports, most probably. The kernel gives them to no connection.
fn ports(count: usize) -> Vec<u16> {
    static TESTS: AtomicU32 = AtomicU32::new(0);
    // Other processes and tests begin elsewhere.
    let test = std::process::id() * 31 + TESTS.fetch_add(1, Ordering::Relaxed) * 97;
    let is_free = |port: &u16| TcpListener::bind(("0.0.0.0", *port)).is_ok();
    (10_000 + (test % 9_000) as u16..).filter(is_free).take(count).collect()
}

/// Meetings that fail at a limit of time. Under load the nodes come late, so a longer limit is
/// tried before the text of one is wrong.
fn fail_at_limits(check: impl Fn(Duration) -> Result<(), String>) {
    let mut results = [1, 5, 25].map(Duration::from_secs).into_iter().map(check);
    assert!(results.any(|result| result.inspect_err(|text| eprintln!("{text}")).is_ok()));
}

fn meet(cluster: &Cluster, step: &SlurmStep, limit: Duration) -> Result<SlurmAlone, JoinError> {
    SlurmAlone::meet(step, LIBRARY, Some(&cluster.socket(step.node)), limit)
}

/// Passes a value of each node to each other one.
fn talk(mut manager: SlurmAlone, step: &SlurmStep) -> (String, [u8; 32]) {
    assert_eq!((manager.rank(), manager.size() as usize), (step.node, step.nodes.len()));
    for round in 0..2u8 {
        manager.put(&format!("card{round}"), &[round, step.node as u8]).unwrap();
        manager.fence(LIMIT).unwrap();
        for rank in 0..manager.size() {
            let value = manager.get(rank, &format!("card{round}"), LIMIT).unwrap();
            assert_eq!(value, Some(vec![round, rank as u8]));
        }
    }
    assert_eq!(manager.get(0, "card2", LIMIT), Ok(None));
    let (job, secret) = (manager.job().to_string(), manager.secret().unwrap().0);
    Box::new(manager).leave().unwrap();
    (job, secret)
}

/// All nodes of a step meet and talk, in threads; the last one comes late by this time. Returns the
/// name of the job and the secret.
fn talk_all(cluster: &Cluster, all: &[SlurmStep], late: Duration) -> (String, [u8; 32]) {
    thread::scope(|scope| {
        let process = |step: &SlurmStep| {
            if step.node + 1 == step.tasks {
                thread::sleep(late);
            }
            talk(meet(cluster, step, LIMIT).unwrap(), step)
        };
        let threads: Vec<_> = all.iter().map(|step| scope.spawn(move || process(step))).collect();
        let results: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
        results[0].clone()
    })
}

fn steps(number: u32, nodes: u32, ports: &[u16]) -> Vec<SlurmStep> {
    (0..nodes).map(|node| step(number, nodes, node, ports)).collect()
}

#[test]
fn all_nodes_meet_share_values_and_leave() {
    let Some(cluster) = Cluster::start() else { return };
    let (first, secret) = talk_all(&cluster, &steps(0, 4, &[]), Duration::ZERO);
    // A second program of the same step.
    let (second, other) = talk_all(&cluster, &steps(0, 4, &[]), Duration::ZERO);
    assert!(first != second && secret != other);
    assert!(first.starts_with(&format!("slurm-{}.0-", std::process::id())), "{first}");
}

#[test]
fn steps_at_the_same_ports_never_meet() {
    let Some(cluster) = Cluster::start() else { return };
    let ports = ports(4);
    let (cluster, ports) = (&cluster, &ports);
    thread::scope(|scope| {
        let all: Vec<_> = (0..3)
            .map(|number| {
                scope.spawn(move || talk_all(cluster, &steps(number, 3, ports), Duration::ZERO).0)
            })
            .collect();
        for (number, job) in all.into_iter().enumerate() {
            let job = job.join().unwrap();
            assert!(job.starts_with(&format!("slurm-{}.{number}-", std::process::id())), "{job}");
        }
    });
}

#[test]
fn the_port_is_free_once_all_nodes_are_here() {
    let Some(cluster) = Cluster::start() else { return };
    let ports = ports(1);
    let all = steps(0, 2, &ports);
    thread::scope(|scope| {
        let member = scope.spawn(|| meet(&cluster, &all[1], LIMIT).unwrap());
        let hub = meet(&cluster, &all[0], LIMIT).unwrap();
        assert!(TcpListener::bind(("0.0.0.0", ports[0])).is_ok());
        drop((hub, member.join().unwrap()));
    });
}

#[test]
fn one_node_needs_no_munge() {
    let mut manager = SlurmAlone::meet(&step(0, 1, 0, &[]), "no library", None, LIMIT).unwrap();
    manager.put("a", b"b").unwrap();
    manager.fence(LIMIT).unwrap();
    assert_eq!(manager.get(0, "a", LIMIT).unwrap().unwrap(), b"b");
    for key in ["", "a b", "a=b", &"k".repeat(41)] {
        assert!(matches!(manager.put(key, b""), Err(JoinError::Key { .. })), "{key}");
    }
    Box::new(manager).leave().unwrap();
}

#[test]
fn a_failed_node_and_an_abort_end_the_fences_of_the_others() {
    let Some(cluster) = Cluster::start() else { return };
    let ports = ports(2);
    let meet_all = |number| {
        thread::scope(|scope| {
            let all: Vec<_> = steps(number, 3, &ports)
                .into_iter()
                .map(|step| scope.spawn(|| meet(&cluster, &{ step }, LIMIT).unwrap()))
                .collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        })
    };
    type Ending = fn(SlurmAlone);
    let endings: [(Ending, &str); 3] = [
        (|manager| drop(manager), "127.0.0.2 (node 1) is gone (the connection has ended)"),
        (
            |mut manager| {
                let error = manager.abort(3, "a text");
                assert!(matches!(error, JoinError::Aborted { code: 3, .. }));
            },
            "127.0.0.2 (node 1) aborts with code 3: a text",
        ),
        (|manager| Box::new(manager).leave().unwrap(), "127.0.0.2 (node 1) has left"),
    ];
    for (number, (end, why)) in endings.into_iter().enumerate() {
        let mut all = meet_all(number as u32);
        end(all.remove(1));
        let (hub, others) = all.split_at_mut(1);
        thread::scope(|scope| {
            for manager in [&mut hub[0], &mut others[0]] {
                scope.spawn(move || {
                    let begin = Instant::now();
                    let text = manager.fence(LIMIT).unwrap_err().to_string();
                    assert!(text.contains(why) && begin.elapsed() < LIMIT / 2, "{text}");
                });
            }
        });
    }
}

#[test]
fn the_text_at_the_limit_names_the_nodes_that_are_here_and_the_missing_ones() {
    let Some(cluster) = Cluster::start() else { return };
    let all = steps(0, 3, &ports(2));
    fail_at_limits(|limit| {
        let texts = thread::scope(|scope| {
            let threads: Vec<_> = all[..2]
                .iter()
                .map(|step| scope.spawn(|| meet(&cluster, step, limit).unwrap_err().to_string()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let late = format!("is not complete within {} s", limit.as_secs());
        let parts = [
            "here: 127.0.0.1 (node 0), 127.0.0.2 (node 1)",
            "missing: 127.0.0.3 (node 2)",
            "the meeting of the nodes",
            &late,
            "srun --mpi=pmi2",
        ];
        let wrong = texts.into_iter().find(|text| !parts.iter().all(|part| text.contains(part)));
        wrong.map_or(Ok(()), Err)
    });
    // A member without the hub: it does not wait for ever.
    let text = meet(&cluster, &all[2], Duration::ZERO).unwrap_err().to_string();
    assert!(text.contains("127.0.0.1 (node 0) has not been reached"), "{text}");
    assert!(text.contains("Connection refused"), "{text}");
}

#[test]
fn a_missing_daemon_and_other_keys_are_named() {
    let Some(cluster) = Cluster::start() else { return };
    let two = steps(0, 2, &ports(2));
    let nowhere = cluster.directory().join("nowhere");
    let error = SlurmAlone::meet(&two[0], LIBRARY, Some(&nowhere), LIMIT).unwrap_err();
    assert!(error.to_string().contains("systemctl start munge"), "{error}");
    let error = SlurmAlone::meet(&two[0], "libmunge.so.99", None, LIMIT).unwrap_err();
    assert!(error.to_string().contains("libmunge2"), "{error}");
    // The nodes are of two clusters.
    let Some(other) = Cluster::start() else { return };
    fail_at_limits(|limit| {
        thread::scope(|scope| {
            scope.spawn(|| {
                let text = meet(&other, &two[1], limit).unwrap_err().to_string();
                assert!(text.contains("has not been reached"), "{text}");
            });
            let text = meet(&cluster, &two[0], limit).unwrap_err().to_string();
            if text.contains("different keys of MUNGE") { Ok(()) } else { Err(text) }
        })
    });
}

#[test]
fn credentials_are_opened_once_for_their_user_and_in_time() {
    let Some(cluster) = Cluster::start() else { return };
    let on = |node| Munge::open(LIBRARY, Some(&cluster.socket(node))).unwrap();
    let (a, b) = (on(0), on(1));
    let own = a.decode(&a.encode(b"", None, 60).unwrap()).unwrap();
    assert!(own.payload.is_empty() && own.made > 1_600_000_000 && own.opened >= own.made);
    assert_eq!(own.uid, rustix::process::geteuid().as_raw());
    let credential = a.encode(b"a\0secret", Some(own.uid), 60).unwrap();
    assert!(credential.starts_with("MUNGE:"));
    assert_eq!(b.decode(&credential).unwrap().payload, b"a\0secret");
    assert_eq!(b.decode(&credential), Err(MungeError::Replayed));
    assert_eq!(a.decode(&credential).unwrap().payload, b"a\0secret", "it is new on the other node");
    let other = a.encode(b"secret", Some(own.uid + 1), 60).unwrap();
    assert_eq!(a.decode(&other), Err(MungeError::Unauthorized));
    for text in ["", "MUNGE::", "a\0b", &credential[..credential.len() - 9]] {
        assert!(matches!(a.decode(text), Err(MungeError::Invalid(_))), "{text}");
    }
    let short = a.encode(b"secret", None, 1).unwrap();
    thread::sleep(Duration::from_millis(2500));
    let Err(MungeError::Expired(times)) = b.decode(&short) else { panic!("it has expired") };
    assert!(times.uid == own.uid && times.opened >= times.made + 2, "{times:?}");
}
