//! Attacks by a second user against the meeting. The attacker is this program as another user.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use oxmpi_join::munge::{LIBRARY, Munge};

use super::cluster::{Cluster, skip};
use super::{LIMIT, ports, steps, talk_all};

/// The user `nobody` of Linux.
const NOBODY: u32 = 65_534;
/// The variables by which this program learns that it is the attacker.
const ATTACK: &str = "OXMPI_TEST_ATTACK";
const SOCKET: &str = "OXMPI_TEST_ATTACK_MUNGE";
const PORTS: &str = "OXMPI_TEST_ATTACK_PORTS";
const MAGIC: &[u8; 16] = b"OxMPI nodes 0001";

/// The attacker's program, which ends with this value.
struct Attacker {
    child: Child,
    directory: PathBuf,
}

impl Attacker {
    /// Starts an attack at these ports, of which the last one is the hub's, and waits until it
    /// holds the others.
    fn start(cluster: &Cluster, attack: &str, ports: &[u16]) -> Attacker {
        let directory = cluster.directory().join(attack);
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
        // The build directory may be closed to other users.
        let program = directory.join("attacker");
        // By a program of its own: a file that this process has open for writing cannot be run, nor
        // while a process has inherited the descriptor.
        let copied =
            Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status();
        assert!(copied.unwrap().success());
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let list: Vec<String> = ports.iter().map(u16::to_string).collect();
        let child = Command::new(&program)
            .args(["--exact", "attacker::program_of_the_second_user", "--nocapture"])
            .env(ATTACK, attack)
            .env(SOCKET, cluster.socket(0))
            .env(PORTS, list.join(","))
            .current_dir(&directory)
            .stdin(Stdio::null())
            .uid(NOBODY)
            .gid(NOBODY)
            .spawn()
            .unwrap();
        let attacker = Attacker { child, directory };
        attacker.wait_for("ready");
        attacker
    }

    /// The content of a file of the attacker, once it exists.
    fn wait_for(&self, name: &str) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            if let Ok(text) = fs::read_to_string(self.directory.join(name)) {
                return text;
            }
            assert!(Instant::now() < end, "the attacker has not written '{name}'");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip("a second user needs root");
    }
    is_root
}

/// A meeting at three ports, of which the attacker holds two, so the hub takes the third. The
/// attacker has half a second until the last node comes.
fn meet_under(attack: &str, check: impl FnOnce(&Attacker)) {
    if !is_root() {
        return;
    }
    let Some(cluster) = Cluster::start() else { return };
    let ports = ports(3);
    let attacker = Attacker::start(&cluster, attack, &ports);
    talk_all(&cluster, &steps(0, 3, &ports), Duration::from_millis(500));
    check(&attacker);
}

#[test]
fn a_silent_process_at_the_port_does_not_stop_the_meeting() {
    meet_under("silent", |_| {});
}

#[test]
fn a_process_that_answers_for_the_hub_is_skipped() {
    meet_under("answer", |_| {});
}

#[test]
fn a_credential_is_closed_to_the_second_user_and_cannot_be_passed_on() {
    meet_under("relay", |attacker| {
        let unmunged = attacker.wait_for("unmunged");
        assert_eq!(unmunged, "a credential is for another user");
        // The hub has answered nothing.
        assert_eq!(attacker.wait_for("relayed"), "0");
    });
}

#[test]
fn many_connections_with_and_without_credentials_do_not_stop_the_meeting() {
    meet_under("flood", |attacker| {
        assert_eq!(attacker.wait_for("own"), "0", "the hub answers no other user");
    });
}

/// The program of the attacker; for the runner of tests it does nothing.
#[test]
fn program_of_the_second_user() {
    let Ok(attack) = std::env::var(ATTACK) else { return };
    assert_eq!(rustix::process::geteuid().as_raw(), NOBODY);
    let socket = PathBuf::from(std::env::var(SOCKET).unwrap());
    let munge = Munge::open(LIBRARY, Some(&socket)).unwrap();
    let ports: Vec<u16> =
        std::env::var(PORTS).unwrap().split(',').map(|port| port.parse().unwrap()).collect();
    let (hub, held) = ports.split_last().unwrap();
    let listeners: Vec<TcpListener> =
        held.iter().map(|port| TcpListener::bind(("0.0.0.0", *port)).unwrap()).collect();
    let (sender, accepted) = channel();
    for listener in listeners {
        let sender = sender.clone();
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                sender.send(stream).unwrap();
            }
        });
    }
    fs::write("ready", "").unwrap();
    let mut held = Vec::new();
    match attack.as_str() {
        "silent" => held.extend(accepted),
        "answer" => {
            for mut stream in accepted {
                let mut first = [0; 18];
                stream.read_exact(&mut first).unwrap();
                // Root is the user of the meeting.
                let credential = munge.encode(&[7; 80], Some(0), 60).unwrap();
                let _ = stream.write_all(&message(&credential));
                held.push(stream);
            }
        }
        "relay" => {
            for mut stream in accepted {
                let credential = credential_of(&mut stream);
                write("unmunged", munge.decode(&credential).unwrap_err());
                write("relayed", answer_of_hub(*hub, &message(&credential)));
                held.push(stream);
            }
        }
        "flood" => {
            let own = message(&munge.encode(&[7; 80], Some(0), 60).unwrap());
            loop {
                let mut all: Vec<TcpStream> =
                    (0..100).filter_map(|_| TcpStream::connect(("127.0.0.1", *hub)).ok()).collect();
                if let Some(stream) = all.first_mut() {
                    let _ = stream.write_all(&own);
                    write("own", answer_length(stream));
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
        other => panic!("unknown attack {other}"),
    }
}

/// A file with this text, at once as a whole.
fn write(name: &str, text: impl ToString) {
    let new = Path::new(name).with_extension("new");
    fs::write(&new, text.to_string()).unwrap();
    fs::rename(new, name).unwrap();
}

fn message(credential: &str) -> Vec<u8> {
    let length = (credential.len() as u16).to_le_bytes();
    [MAGIC, &length[..], credential.as_bytes()].concat()
}

/// The credential that a member has sent to the attacker.
fn credential_of(stream: &mut TcpStream) -> String {
    let mut head = [0; 18];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head[..16], MAGIC);
    let mut credential = vec![0; usize::from(u16::from_le_bytes([head[16], head[17]]))];
    stream.read_exact(&mut credential).unwrap();
    String::from_utf8(credential).unwrap()
}

/// The number of bytes that the hub answers before it closes the connection.
fn answer_of_hub(port: u16, bytes: &[u8]) -> usize {
    let end = Instant::now() + LIMIT;
    loop {
        // The hub may not listen yet.
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
            stream.write_all(bytes).unwrap();
            return answer_length(&mut stream);
        }
        assert!(Instant::now() < end);
        thread::sleep(Duration::from_millis(5));
    }
}

fn answer_length(stream: &mut TcpStream) -> usize {
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut answer = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut answer);
    answer.len()
}
