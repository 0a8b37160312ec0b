//! A universe as an observer on the network sees it, and attacks on it.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use oxmpi_rt_client::client::Client;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, recv, socket_with, sockopt,
};

use super::testbed::{A, B, HEAD, LIMIT, Machine, inside, run, switch, testbed};

const MAGIC: &[u8] = b"OxMPI daemon 004";
const UNIVERSE: &str = "head schedule=no\nnodea cpu=1\nnodeb cpu=1\n";

fn address(said: &str, machine: Machine) -> SocketAddr {
    let (_, rest) = said.split_once(&format!("listens at {}:", machine.address)).unwrap();
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    format!("{}:{port}", machine.address).parse().unwrap()
}

fn has(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

struct Capture {
    is_over: Arc<AtomicBool>,
    bytes: JoinHandle<Vec<u8>>,
}

impl Capture {
    fn begin() -> Capture {
        let packets = inside(&switch(), || {
            // All protocols (packet(7): in network byte order).
            let all = Protocol::from_raw(NonZeroU32::new(u32::from(3u16.to_be())).unwrap());
            let socket = socket_with(
                AddressFamily::PACKET,
                SocketType::RAW,
                SocketFlags::CLOEXEC,
                Some(all),
            )
            .unwrap();
            sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20).unwrap();
            sockopt::set_socket_timeout(
                &socket,
                sockopt::Timeout::Recv,
                Some(Duration::from_millis(50)),
            )
            .unwrap();
            socket
        });
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let bytes = std::thread::spawn(move || {
            let (mut all, mut packet) = (Vec::new(), vec![0; 1 << 17]);
            loop {
                match recv(&packets, &mut packet[..], RecvFlags::empty()) {
                    Ok((n, _)) => all.extend_from_slice(&packet[..n]),
                    Err(_) if over.load(Ordering::Relaxed) => return all,
                    Err(_) => {}
                }
            }
        });
        Capture { is_over, bytes }
    }

    fn end(self) -> Vec<u8> {
        self.is_over.store(true, Ordering::Relaxed);
        self.bytes.join().unwrap()
    }
}

/// Not a test, but the program of the ranks of the next test: prints the secret of its job.
#[test]
#[ignore = "it is a rank of another test"]
fn tells_the_secret_of_its_job() {
    if let Ok(Some(rank)) = Client::from_env() {
        let secret: String =
            rank.listener().unwrap().secret.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("\nsecret {secret}");
    }
}

#[test]
fn nothing_of_a_job_in_a_universe_can_be_read_on_the_network() {
    let Some(bed) = testbed() else { return };
    let program = bed.directory.join("a-name-that-no-other-program-has");
    std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &program).unwrap();
    let program = program.to_str().unwrap();
    let capture = Capture::begin();
    bed.boot(UNIVERSE);
    let variable = "A_VARIABLE=a-value-that-nobody-else-has";
    let test = ["--exact", "hosts::wire::tells_the_secret_of_its_job", "--ignored", "--nocapture"];
    let (code, out, err) = bed.run(&[&["-x", variable, "C", program], &test[..]].concat());
    assert_eq!(code, Some(0), "{out}{err}");
    let words =
        ["exec", "-x", variable, "n1", "sh", "-c", "cat /proc/self/environ; echo $A_VARIABLE >&2"];
    let (code, out_of_exec, _) = bed.oxmpi_on(HEAD, &words);
    assert!(code == Some(0) && out_of_exec.contains("a-value-that"), "{out_of_exec}");
    bed.halt();
    let captured = capture.end();
    let secrets: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix("secret ")).collect();
    assert!(secrets.len() == 2 && secrets[0] == secrets[1] && secrets[0].len() == 64, "{out}");
    let byte = |at: usize| u8::from_str_radix(&secrets[0][at..at + 2], 16).unwrap();
    let raw: Vec<u8> = (0..64).step_by(2).map(byte).collect();

    assert!(has(&captured, MAGIC), "{} bytes, of which none is of a daemon", captured.len());
    for needle in [
        &b"a-name-that"[..],
        b"a-value-that",
        b"A_VARIABLE",
        b"tells_the_secret",
        secrets[0].as_bytes(),
        &raw,
    ] {
        assert!(!has(&captured, needle), "'{}' can be read", needle.escape_ascii());
    }
    bed.is_clean();
}

#[derive(Clone, Copy, Debug)]
enum Meddling {
    Listen,
    Change {
        to_daemon: bool,
        at: usize,
    },
    /// Leads connections to the daemon of another node.
    Lead(SocketAddr),
}

/// The bytes that the client of one connection has sent.
type Sent = Arc<Mutex<Vec<u8>>>;

struct Between {
    meddling: Arc<Mutex<Meddling>>,
    /// One entry for each connection. The thread of a connection keeps its own entry, since it can
    /// still pass bytes after the list was emptied.
    connections: Arc<Mutex<Vec<Sent>>>,
}

impl Between {
    /// Takes the host's address on the network: the daemon keeps it on its own host alone.
    fn begin(machine: Machine, daemon: SocketAddr) -> Between {
        let (name, address) = (machine.namespace(), machine.address);
        run(&format!("ip -n {name} address flush dev eth0"));
        run(&format!("ip -n {name} address add {address}/24 dev lo"));
        run(&format!("ip -n {} address add {address}/24 dev br0", switch()));
        for other in [HEAD, A] {
            run(&format!("ip -n {} neigh flush all", other.namespace()));
        }
        let listener = inside(&switch(), || TcpListener::bind(daemon).unwrap());
        let meddling = Arc::new(Mutex::new(Meddling::Listen));
        let connections = Arc::new(Mutex::new(Vec::new()));
        let between = Between { meddling: meddling.clone(), connections: connections.clone() };
        // The thread ends with the process of the test.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let how = *meddling.lock().unwrap();
                let upstream = match how {
                    Meddling::Lead(other) => inside(&switch(), || TcpStream::connect(other)),
                    _ => inside(&name, || TcpStream::connect(daemon)),
                };
                let (client, upstream) = (client.unwrap(), upstream.unwrap());
                let sent = Sent::default();
                connections.lock().unwrap().push(sent.clone());
                let change = |wanted: bool| match how {
                    Meddling::Change { to_daemon, at } if to_daemon == wanted => Some(at),
                    _ => None,
                };
                let (to, from) = (change(true), change(false));
                let ends = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
                std::thread::spawn(move || {
                    pass(client, upstream, to, |bytes| {
                        sent.lock().unwrap().extend_from_slice(bytes)
                    });
                });
                std::thread::spawn(move || pass(ends.1, ends.0, from, |_| ()));
            }
        });
        between
    }

    fn meddle(&self, how: Meddling) {
        *self.meddling.lock().unwrap() = how;
        self.connections.lock().unwrap().clear();
    }

    /// The bytes that each client has sent since the last call of `meddle`.
    fn sent(&self) -> Vec<Vec<u8>> {
        let connections = self.connections.lock().unwrap();
        connections.iter().map(|sent| sent.lock().unwrap().clone()).collect()
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, change: Option<usize>, note: impl Fn(&[u8])) {
    let (mut at, mut bytes) = (0, [0; 4096]);
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        if let Some(place) =
            change.and_then(|place| place.checked_sub(at)).filter(|place| *place < n)
        {
            bytes[place] ^= 0x10;
        }
        at += n;
        note(&bytes[..n]);
        if to.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = (to.shutdown(Shutdown::Write), from.shutdown(Shutdown::Read));
}

#[test]
fn an_attacker_on_the_network_can_start_and_change_nothing() {
    let Some(bed) = testbed() else { return };
    let said = bed.boot(UNIVERSE);
    let (daemon, other) = (address(&said, B), address(&said, A));
    let between = Between::begin(B, daemon);
    let file: PathBuf = bed.directory.join("was-here");
    let touch = |file: &Path| bed.oxmpi_on(HEAD, &["exec", "n2", "touch", file.to_str().unwrap()]);
    let (code, _, err) = touch(&file);
    assert!(code == Some(0) && file.exists(), "{err}");
    fs::remove_file(&file).unwrap();
    let recorded = between.sent();
    assert!(recorded.len() == 3 && recorded.iter().all(|sent| sent.starts_with(MAGIC)));

    let mut replayed: Vec<TcpStream> = recorded
        .iter()
        .map(|sent| {
            let mut socket = inside(&B.namespace(), || TcpStream::connect(daemon).unwrap());
            socket.set_read_timeout(Some(LIMIT)).unwrap();
            socket.write_all(sent).unwrap();
            socket
        })
        .collect();
    for socket in &mut replayed {
        let mut answer = Vec::new();
        // The daemon closes the connection with unread bytes, which makes a reset.
        let _ = socket.read_to_end(&mut answer);
        assert!(answer.len() <= 48, "no more than a greeting, but {} bytes", answer.len());
    }
    assert!(!file.exists());

    // Changed bytes in the magic, the greeting, the length of the first record, the purpose and the
    // order; then another daemon of the same universe.
    let to_daemon = [3, 40, 65, 70, 95, 130].map(|at| Meddling::Change { to_daemon: true, at });
    let from_daemon = [10, 49, 50, 60].map(|at| Meddling::Change { to_daemon: false, at });
    for how in [&to_daemon[..], &from_daemon, &[Meddling::Lead(other)]].concat() {
        between.meddle(how);
        let (code, _, err) = touch(&file);
        assert!(
            code == Some(1) && err.contains("n2 (nodeb)") && err.contains("changed on the way"),
            "{how:?}: {err}"
        );
        assert!(!file.exists(), "{how:?}: {err}");
    }

    between.meddle(Meddling::Change { to_daemon: false, at: 50_000 });
    let (code, out, err) = bed.oxmpi_on(HEAD, &["exec", "n2", "head", "-c", "100000", "/dev/zero"]);
    assert!(code == Some(1) && err.contains("were changed on the way"), "{err}");
    assert!(out.len() < 50_000 && out.bytes().all(|byte| byte == 0));
    between.meddle(Meddling::Listen);
    let (code, out, err) = bed.oxmpi_on(HEAD, &["exec", "n2", "head", "-c", "100000", "/dev/zero"]);
    assert_eq!((code, out.len(), &*err), (Some(0), 100_000, ""));
}

#[test]
fn a_thousand_silent_connections_delay_no_call() {
    let Some(bed) = testbed() else { return };
    let daemon = address(&bed.boot(UNIVERSE), B);
    let is_over = AtomicBool::new(false);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let times = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let flood = || {
            inside(&A.namespace(), || {
                let connect = || TcpStream::connect_timeout(&daemon, Duration::from_secs(1));
                let mut all: Vec<_> = (0..1000).map(|_| connect()).collect();
                for at in (0..all.len()).cycle() {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    all[at] = connect();
                    std::thread::sleep(Duration::from_millis(1));
                }
            })
        };
        let flooding = scope.spawn(flood);
        std::thread::sleep(Duration::from_secs(1));
        for _ in 0..5 {
            // From the head over the network, and through the socket of the host itself.
            for (machine, words) in [(HEAD, ["exec", "n2", "true"]), (B, ["exec", "h", "true"])] {
                let began = Instant::now();
                let (code, _, err) = bed.oxmpi_on(machine, &words);
                times.lock().unwrap().push((machine.name, began.elapsed(), code, err));
            }
        }
        is_over.store(true, Ordering::Relaxed);
        flooding.join().unwrap();
    });
    let times = times.into_inner().unwrap();
    // A call takes hundredths of a second. If unauthenticated connections kept others out it would
    // take many seconds.
    let is_well = |(_, time, code, _): &(&str, Duration, Option<i32>, String)| {
        *code == Some(0) && *time < Duration::from_secs(2)
    };
    assert!(times.iter().all(is_well), "{times:?}");
    bed.halt();
    bed.is_clean();
}
