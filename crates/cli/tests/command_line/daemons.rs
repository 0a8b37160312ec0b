//! The user's daemons: `oxmpi boot`, `nodes`, `exec`, `halt`. Each test has its own universe
//! (`boot_session_suffix`). Tests with several hosts have network namespaces, for which they need
//! root. Every command has a time limit.

use std::fs;
use std::io::Write as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{TestDirectory, await_that, eldest, skip, texts};

const LIMIT: Duration = Duration::from_secs(60);
const OXMPI: &str = env!("CARGO_BIN_EXE_oxmpi");

struct Universe {
    suffix: String,
    directory: TestDirectory,
}

impl Universe {
    fn new(name: &str) -> Universe {
        let suffix = format!("{name}-{}", std::process::id());
        Universe { suffix, directory: TestDirectory::new(name) }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-k", "1", &LIMIT.as_secs().to_string()]).args(words);
        command.env("OXMPI_MCA_boot_session_suffix", &self.suffix).stdin(Stdio::null());
        command
    }

    fn oxmpi(&self, words: &[&str]) -> (i32, String, String) {
        run(self.command(&[&[OXMPI], words].concat()))
    }

    fn name(&self) -> String {
        format!("oxmpi-daemon-{}-{}", rustix::process::geteuid().as_raw(), self.suffix)
    }

    fn socket(&self) -> UnixStream {
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(self.name()).unwrap()).unwrap()
    }

    fn daemons(&self) -> Vec<i32> {
        let marker = format!("OXMPI_MCA_boot_session_suffix={}\0", self.suffix);
        processes(|directory| {
            let has = |file: &str, text: &str| {
                let bytes = fs::read(directory.join(file)).unwrap_or_default();
                bytes.windows(text.len()).any(|window| window == text.as_bytes())
            };
            has("environ", &marker) && has("cmdline", "\0daemon\0")
        })
    }
}

impl Drop for Universe {
    fn drop(&mut self) {
        let _ = self.command(&[OXMPI, "halt"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

fn run(mut command: Command) -> (i32, String, String) {
    texts(&command.output().unwrap())
}

fn processes(is_wanted: impl Fn(&PathBuf) -> bool) -> Vec<i32> {
    let pid = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        is_wanted(&entry.path()).then_some(pid)
    };
    fs::read_dir("/proc").unwrap().flatten().filter_map(pid).collect()
}

fn with_argument(marker: &str) -> Vec<i32> {
    processes(|directory| {
        let args = fs::read(directory.join("cmdline")).unwrap_or_default();
        args.split(|byte| *byte == 0).any(|arg| arg == marker.as_bytes())
    })
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

/// The argument of a sleep(1), in seconds, which no other process has.
fn marker(number: u32) -> String {
    format!("{}.{number}", 100_000 + std::process::id())
}

#[test]
fn a_universe_of_one_host_is_booted_listed_used_and_halted() {
    let universe = Universe::new("one");
    let (code, _, err) = universe.oxmpi(&["nodes"]);
    assert!(code == 1 && err.contains("'oxmpi boot' starts some"), "{err}");
    let (code, out, err) = universe.oxmpi(&["boot"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("booted: 1 node, "), "{out}");
    let (code, _, err) = universe.oxmpi(&["boot"]);
    assert!(code == 1 && err.contains("it is booted already, with 1 node"), "{err}");

    let host = oxmpi_sys::host::name();
    let cpus = oxmpi_sys::cpus::usable();
    assert_eq!(universe.oxmpi(&["nodes"]).1, format!("n0\t{host}:{cpus}:origin,this_node\n"));
    assert_eq!(universe.oxmpi(&["nodes", "-n", "-c", "-i", "o"]).1, "127.0.0.1:origin,this_node\n");
    let here = universe.directory.to_str().unwrap();
    let (code, out, err) = universe.oxmpi(&[
        "exec",
        "-wd",
        here,
        "C",
        "--tag-output",
        "-x",
        "A=b",
        "sh",
        "-c",
        "pwd; echo $A >&2",
    ]);
    assert_eq!((code, out), (0, format!("[n0] {here}\n").repeat(cpus)));
    assert_eq!(err, "[n0] b\n".repeat(cpus));
    assert_eq!(universe.oxmpi(&["exec", "n0", "sh", "-c", "exit 3"]).0, 3);
    assert_eq!(universe.oxmpi(&["exec", "n0", "sh", "-c", "kill -9 $$"]).0, 137);
    let (code, _, err) = universe.oxmpi(&["exec", "n0", "no-such-program"]);
    assert!(
        code == 127 && err.contains("cannot run 'no-such-program': no such file in PATH"),
        "{err}"
    );
    assert_eq!(universe.oxmpi(&["exec", "n0", "/etc/passwd"]).0, 126);
    let (code, _, err) = universe.oxmpi(&["exec", "-wd", "/no/such", "n0", "true"]);
    assert!(code == 1 && err.contains("cannot start in '/no/such'"), "{err}");
    let (code, _, err) = universe.oxmpi(&["exec", "n1", "true"]);
    assert!(code == 2 && err.contains("there is no node n1"), "{err}");
    assert_eq!((universe.oxmpi(&["exec", "true"]).0, universe.oxmpi(&["exec", "n0"]).0), (2, 2));

    assert_eq!(universe.oxmpi(&["halt", "-v"]).1, format!("n0 ({host}): halted\n"));
    assert_eq!(universe.oxmpi(&["halt"]).0, 1);
    await_that("no daemon is left", || universe.daemons().is_empty());
}

#[test]
fn when_a_universe_is_halted_another_can_be_booted_at_once() {
    let universe = Universe::new("again");
    for round in 0..20 {
        let (code, _, err) = universe.oxmpi(&["boot"]);
        assert_eq!((code, err.as_str()), (0, ""), "round {round}");
        // A command starts more slowly than the old daemon ends, so this is done in the process of
        // the test.
        let found = oxmpi_daemon::Universe::find(&universe.suffix).unwrap().unwrap();
        assert!(found.halt().unwrap().is_empty());
        oxmpi_sys::local::bind_stream(&universe.name()).unwrap();
    }
}

#[test]
fn universes_with_different_suffixes_are_separate() {
    let (one, other) = (Universe::new("first"), Universe::new("second"));
    assert_eq!(one.oxmpi(&["boot"]).0, 0);
    let nodes = |universe: &Universe| universe.oxmpi(&["nodes"]).0;
    assert_eq!((nodes(&one), nodes(&other)), (0, 1));
    // The option has the same effect before and after the command.
    let said = ["--mca", "boot_session_suffix", &*one.suffix];
    assert_eq!(other.oxmpi(&[&["nodes"], &said[..]].concat()).0, 0);
    assert_eq!(other.oxmpi(&["halt"]).0, 1);
    assert_eq!((other.oxmpi(&["boot"]).0, nodes(&one), nodes(&other)), (0, 0, 0));
    assert_eq!((one.oxmpi(&["halt"]).0, nodes(&one), nodes(&other)), (0, 1, 0));
}

#[test]
fn the_command_names_of_lam_work() {
    let universe = Universe::new("lam");
    let lam = |name: &str, words: &[&str]| {
        let link = universe.directory.join(name);
        let _ = std::os::unix::fs::symlink(OXMPI, &link);
        run(universe.command(&[&[link.to_str().unwrap()], words].concat()))
    };
    assert_eq!(lam("lamboot", &[]).0, 0);
    assert!(lam("lamnodes", &[]).1.ends_with("origin,this_node\n"));
    assert_eq!(lam("lamexec", &["h", "echo", "N"]).1, "N\n");
    assert!(lam("lamhalt", &["--help"]).1.contains("lamhalt"));
    let (code, _, err) = lam("lamhalt", &["--verbos"]);
    assert!(code == 2 && err.contains("did you mean '--verbose'"), "{err}");
    assert_eq!(lam("lamhalt", &[]).0, 0);
}

#[test]
fn programs_end_with_their_client_and_with_their_daemon() {
    let universe = Universe::new("ends");
    assert_eq!(universe.oxmpi(&["boot"]).0, 0);
    let [first, second, third, fourth] = [1, 2, 3, 4].map(marker);
    let start = |script: &str, awaited: &str| {
        let child = universe
            .command(&[OXMPI, "exec", "n0", "sh", "-c", script])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        await_that("it runs", || !with_argument(awaited).is_empty());
        child
    };
    let mut client = start(&format!("trap '' TERM; sleep {first} & sleep {first}"), &first);
    let clients = processes(|directory| {
        fs::read_to_string(directory.join("cmdline"))
            .is_ok_and(|args| args.starts_with(OXMPI) && args.contains(&first))
    });
    clients.into_iter().for_each(kill);
    client.wait().unwrap();
    await_that("the group has ended", || with_argument(&first).is_empty());
    let (code, ..) =
        universe.oxmpi(&["exec", "n0", "sh", "-c", &format!("sleep {second} >/dev/null 2>&1 &")]);
    assert_eq!(code, 0);
    await_that("the rest has ended", || with_argument(&second).is_empty());
    let mut client = start(&format!("setsid sleep {third} & sleep {third}"), &third);
    await_that("both run", || with_argument(&third).len() == 2);
    assert_eq!(universe.oxmpi(&["halt"]).0, 0);
    assert!(with_argument(&third).is_empty() && !client.wait().unwrap().success());
    assert_eq!(universe.oxmpi(&["boot"]).0, 0);
    let mut client = start(&format!("sleep {fourth} & sleep {fourth}"), &fourth);
    kill(eldest(&universe.daemons()).unwrap());
    assert_eq!(client.wait().unwrap().code(), Some(1));
    await_that("the groups have ended", || with_argument(&fourth).is_empty());
    await_that("the guard has ended", || universe.daemons().is_empty());
    assert_eq!(universe.oxmpi(&["nodes"]).0, 1);
    assert_eq!(universe.oxmpi(&["boot"]).0, 0);
}

#[test]
fn garbage_is_refused_and_an_idle_daemon_sleeps() {
    use std::io::Read as _;
    let universe = Universe::new("garbage");
    assert_eq!(universe.oxmpi(&["boot"]).0, 0);
    let mut cat = universe.command(&[OXMPI, "exec", "n0", "cat"]);
    let mut cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = cat.stdin.take().unwrap();
    input.write_all(b"before\n").unwrap();
    let mut bytes = *b"before\n";
    cat.stdout.as_mut().unwrap().read_exact(&mut bytes).unwrap();
    let mut seed = 12345u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u8
    };
    for round in 0..200 {
        let mut socket = universe.socket();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        let mut garbage: Vec<u8> = (0..round % 50 + 5).map(|_| random()).collect();
        if round % 2 == 0 {
            let length = (garbage.len() - 4) as u32;
            garbage[..4].copy_from_slice(&length.to_le_bytes());
            garbage[4] %= 20;
        }
        // The daemon may refuse the frame before it has read all of it.
        let _ = socket.write_all(&garbage);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let _ = socket.read_to_end(&mut Vec::new());
    }
    input.write_all(b"after\n").unwrap();
    drop(input);
    let output = cat.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(0), b"after\n".to_vec()));

    let daemon = eldest(&universe.daemons()).unwrap();
    let switches = || {
        let status = fs::read_to_string(format!("/proc/{daemon}/status")).unwrap();
        let is_switch = |line: &&str| line.starts_with("voluntary_ctxt_switches");
        status.lines().find(is_switch).unwrap().to_string()
    };
    // After the last event of this test the daemon sleeps until the next one.
    await_that("nothing wakes it", || {
        let before = switches();
        std::thread::sleep(Duration::from_millis(300));
        switches() == before
    });
}

#[test]
fn a_file_of_hosts_is_read_before_anything_starts() {
    let universe = Universe::new("file");
    let file = universe.directory.join("hosts");
    let name = file.to_str().unwrap();
    let boot = |text: &str, words: &[&str]| {
        fs::write(&file, text).unwrap();
        universe.oxmpi(&[&["boot", name], words].concat())
    };
    let (code, _, err) = boot("localhost\nother cpus=2\n", &[]);
    assert!(code == 2 && err.contains(&format!("{name}: line 2: 'cpus=2' is none of")), "{err}");
    let (code, _, err) = boot("192.0.2.1\n", &[]);
    assert!(code == 2 && err.contains("is not among the hosts: add a line"), "{err}");
    let (code, _, err) = boot("localhost\n127.0.0.1\n", &[]);
    assert!(code == 2 && err.contains("'localhost' and '127.0.0.1' are both this host"), "{err}");
    let (code, _, err) =
        boot("localhost\n192.0.2.1\n", &["--mca", "plm_rsh_agent", "/no/such/agent"]);
    assert!(code == 1 && err.contains("n1 (192.0.2.1): cannot run '/no/such/agent'"), "{err}");
    assert!(err.contains("no daemon is left running"), "{err}");
    let (code, _, err) = boot("localhost\n", &["--mca", "boot_session_suffix", "a/b"]);
    assert!(code == 2 && err.contains("'a/b' is not at most 64 letters"), "{err}");
    assert!(universe.oxmpi(&["boot", "/no/such/file"]).2.contains("/no/such/file: No such file"));
    await_that("nothing is left", || universe.daemons().is_empty());
    // With cpu= and schedule=. A user cannot start the program of a daemon by hand.
    assert_eq!(boot("localhost cpu=3 schedule=no\n", &[]).0, 0);
    assert_eq!(universe.oxmpi(&["nodes"]).1, "n0\tlocalhost:3:origin,this_node,no_schedule\n");
    assert!(universe.oxmpi(&["exec", "N", "true"]).2.contains("all nodes have schedule=no"));
    let (code, _, err) = universe.oxmpi(&["daemon"]);
    assert!(code == 1 && err.contains("started by 'oxmpi boot', not by hand"), "{err}");
}

#[test]
fn a_daemons_events_go_to_boot_and_then_to_a_file() {
    let universe = Universe::new("events");
    let temporary = universe.directory.to_path_buf();
    let oxmpi = |words: &[&str]| {
        let mut command = universe.command(&[&[OXMPI], words].concat());
        run({
            command.env("OXMPI_LOG", "daemon=info").env("TMPDIR", &temporary);
            command
        })
    };
    let (code, _, err) = oxmpi(&["boot"]);
    assert!(code == 0 && err.contains(": the daemon has started node=0 nodes=1\n"), "{err}");
    let (_, file) = err.rsplit_once("file=").unwrap();
    assert_eq!(oxmpi(&["exec", "n0", "true"]).0, 0);
    assert_eq!(oxmpi(&["halt"]).0, 0);
    let text = fs::read_to_string(file.lines().next().unwrap()).unwrap();
    let events = ["starting a program number=", "a program has ended", "the daemon ends"];
    assert!(events.iter().all(|event| text.contains(event)), "{text}");
    let mut command = universe.command(&[OXMPI, "nodes"]);
    command.env("OXMPI_LOG", "deamon=info");
    let (code, _, err) = run(command);
    assert!(code == 2 && err.contains("OXMPI_LOG: 'deamon=info' is neither"), "{err}");
}

/// Hosts: network namespaces, connected by a bridge in one more. `ip netns exec` takes the place of
/// ssh.
struct Hosts {
    universe: Universe,
    names: Vec<String>,
}

impl Hosts {
    fn new(name: &str, count: usize) -> Option<Hosts> {
        let universe = Universe::new(name);
        let base = format!("oxd{}", std::process::id());
        let bridge = format!("{base}x");
        let names: Vec<String> = (0..count).map(|i| format!("{base}n{i}")).collect();
        if !rustix::process::geteuid().is_root() || !ip(&format!("netns add {bridge}")) {
            skip("network namespaces need root and ip(8)");
            return None;
        }
        let hosts = Hosts { universe, names };
        let mut all = vec![
            format!("-n {bridge} link add name switch type bridge"),
            format!("-n {bridge} link set switch up"),
        ];
        for (i, name) in hosts.names.iter().enumerate() {
            all.extend([
                format!("netns add {name}"),
                format!("link add eth0 netns {name} type veth peer name p{i} netns {bridge}"),
                format!("-n {bridge} link set p{i} master switch up"),
                format!("-n {name} addr add 10.93.7.1{i}/24 dev eth0"),
                format!("-n {name} link set eth0 up"),
                format!("-n {name} link set lo up"),
            ]);
        }
        all.iter().for_each(|words| assert!(ip(words), "ip {words}"));
        let agent = "#!/bin/sh\necho \"Welcome to $1, guest\"\nhost=$1; shift\nunset OXMPI_MCA_boot_session_suffix\nexec ip netns exec $host sh -c \"$*\"\n";
        hosts.universe.directory.script("agent", agent);
        Some(hosts)
    }

    fn agent(&self) -> PathBuf {
        self.universe.directory.join("agent")
    }

    fn on(&self, host: usize, words: &[&str]) -> (i32, String, String) {
        let mut command =
            self.universe.command(&[&["ip", "netns", "exec", &self.names[host]], words].concat());
        command.env("OXMPI_MCA_plm_rsh_agent", self.agent());
        run(command)
    }

    fn oxmpi(&self, host: usize, words: &[&str]) -> (i32, String, String) {
        self.on(host, &[&[OXMPI], words].concat())
    }

    /// The first host is named by its address, as it must recognize itself; the others by names for
    /// the agent.
    fn boot(&self, more: &str) -> (i32, String, String) {
        let file = self.universe.directory.join("hosts");
        let others =
            self.names[1..].iter().map(|name| format!("{name} cpu=2\n")).collect::<String>();
        fs::write(&file, format!("10.93.7.10 cpu=1\n{others}{more}")).unwrap();
        self.oxmpi(0, &["boot", "-v", file.to_str().unwrap()])
    }

    fn processes(&self, host: usize) -> Vec<i32> {
        let output =
            Command::new("ip").args(["netns", "pids", &self.names[host]]).output().unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| line.trim().parse().unwrap())
            .collect()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in 0..self.names.len() {
            self.processes(host).into_iter().filter_map(rustix::process::Pid::from_raw).for_each(
                |pid| {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                },
            );
            ip(&format!("netns del {}", self.names[host]));
        }
        ip(&format!("netns del oxd{}x", std::process::id()));
    }
}

fn ip(words: &str) -> bool {
    let output = Command::new("ip").args(words.split_whitespace()).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn daemons_on_several_hosts_are_one_universe() {
    let Some(hosts) = Hosts::new("several", 3) else { return };
    let (code, out, err) = hosts.boot("");
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("booted: 3 nodes, 5 processors"), "{out}");
    let [_, second, third] = &hosts.names[..] else { panic!("three") };
    let wanted = format!("n0\t10.93.7.10:1:origin\nn1\t{second}:2:this_node\nn2\t{third}:2:\n");
    assert_eq!(hosts.oxmpi(1, &["nodes"]), (0, wanted, String::new()));
    let (code, out, err) =
        hosts.oxmpi(2, &["exec", "N", "c4", "ip", "-o", "-4", "addr", "show", "dev", "eth0"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let mut addresses: Vec<&str> = out
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("10.93.7.1")?.strip_suffix("/24"))
        .collect();
    addresses.sort_unstable();
    assert_eq!(addresses, ["0", "1", "2", "2"]);
    // A program on another host gets its universe, and the resource limits of the daemon.
    let script = "echo $OXMPI_MCA_boot_session_suffix; ulimit -n";
    let there = hosts.oxmpi(1, &["exec", "n2", "sh", "-c", script]).1;
    assert_eq!(there, hosts.on(1, &["sh", "-c", script]).1);
    assert!(there.starts_with(&hosts.universe.suffix), "{there}");
    let script = format!("head -c 3000000 /dev/zero | '{OXMPI}' exec n2 cat | wc -c");
    assert_eq!(hosts.on(0, &["sh", "-c", &script]).1.trim(), "3000000");

    let port = err_port(&err_of_boot(&hosts), "10.93.7.12");
    let knock = |bytes: &str| {
        let script = format!(
            "exec 3<>/dev/tcp/10.93.7.12/{port}; printf '{bytes}' >&3; timeout 20 cat <&3 | wc -c"
        );
        hosts.on(0, &["bash", "-c", &script]).1.trim().to_string()
    };
    let (noise, hello) =
        ("GET / HTTP/1.0\\r\\n\\r\\n", format!("OxMPI daemon 002{}", "\\x41".repeat(48)));
    assert_eq!((knock(noise), knock(&hello)), ("0".into(), "0".into()));
    assert_eq!(hosts.oxmpi(0, &["exec", "n2", "true"]).0, 0);

    // After a daemon is killed all others know, and the programs under it have ended.
    let sleep = marker(7);
    let mut client = hosts.universe.command(&[
        "ip",
        "netns",
        "exec",
        &hosts.names[0],
        OXMPI,
        "exec",
        "n1",
        "sleep",
        &sleep,
    ]);
    let mut client = client.stderr(Stdio::null()).spawn().unwrap();
    await_that("it runs", || with_argument(&sleep).len() > 1 && hosts.processes(1).len() == 3);
    kill(eldest(&hosts.processes(1)).unwrap());
    assert_eq!(client.wait().unwrap().code(), Some(1));
    for host in [0, 2] {
        let is_noticed = || hosts.oxmpi(host, &["nodes", "n1"]).1.ends_with(":2:no_answer\n");
        await_that("its end is noticed", is_noticed);
    }
    await_that("nothing is left on its host", || hosts.processes(1).is_empty());
    let (code, _, err) = hosts.oxmpi(2, &["halt"]);
    assert!(code == 1 && err.contains(&format!("n1 ({second})")), "{err}");
    await_that("nothing is left", || (0..3).all(|host| hosts.processes(host).is_empty()));
}

/// Data between a client and a program on another host wait for a slow reader, and are not queued
/// in a daemon.
#[test]
fn streams_over_the_network_wait_and_end_as_a_socket_does() {
    let Some(hosts) = Hosts::new("streams", 2) else { return };
    let (code, _, err) = hosts.boot("");
    assert_eq!(code, 0, "{err}");
    let script =
        format!("printf abc | '{OXMPI}' exec n1 sh -c 'cat; echo and more; echo errors >&2'");
    assert_eq!(hosts.on(0, &["sh", "-c", &script]), (0, "abcand more\n".into(), "errors\n".into()));
    let script = format!("yes | '{OXMPI}' exec n1 sh -c 'head -c 10; exit 5'");
    let (code, out, _) = hosts.on(0, &["sh", "-c", &script]);
    assert_eq!((code, &*out), (5, "y\ny\ny\ny\ny\n"));
    // A program that reads nothing, and one whose output is not read for a while.
    let daemon = eldest(&hosts.processes(1)).unwrap();
    let peak = || {
        let status = fs::read_to_string(format!("/proc/{daemon}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let before = peak();
    let script = format!(
        "'{OXMPI}' exec n1 sh -c 'sleep 1; head -c 20000000' </dev/zero | wc -c; \
         '{OXMPI}' exec n1 head -c 20000000 /dev/zero | (sleep 1; wc -c)"
    );
    let (code, out, err) = hosts.on(0, &["sh", "-c", &script]);
    assert_eq!((code, &*out, &*err), (0, "20000000\n20000000\n", ""));
    assert!(peak() < before + 4096, "from {before} to {} kB", peak());
    let script = format!(
        "('{OXMPI}' exec n1 sh -c 'head -c 1000000 /dev/zero; sleep 100' 2>/dev/null | wc -c) & sleep 0.5; '{OXMPI}' halt; wait"
    );
    let (code, out, err) = hosts.on(0, &["sh", "-c", &script]);
    assert_eq!((code, &*out, &*err), (0, "1000000\n", ""));
    await_that("nothing is left", || (0..2).all(|host| hosts.processes(host).is_empty()));
}

#[test]
fn mpirun_starts_ranks_on_the_nodes_of_the_universe_by_the_daemons() {
    let Some(hosts) = Hosts::new("ranks", 3) else { return };
    let (code, _, err) = hosts.boot(&format!("{} schedule=no\n", hosts.names[2]));
    assert_eq!(code, 0, "{err}");
    // The agent cannot be started, so only the daemons lead to the hosts.
    let mpirun = |host: usize, words: &[&str]| {
        let always = ["mpirun", "--timeout", "50", "--mca", "plm_rsh_agent", "/no/such/agent"];
        let (code, out, err) = hosts.oxmpi(host, &[&always, words].concat());
        let address =
            |word: &str| Some(word.strip_prefix("10.93.7.1")?.strip_suffix("/24")?.to_string());
        let mut nodes: Vec<String> = out.split_whitespace().filter_map(address).collect();
        nodes.sort_unstable();
        (code, nodes.concat(), err)
    };
    let program = ["ip", "-o", "-4", "addr", "show", "dev", "eth0"];
    let on = |host: usize, words: &[&str]| {
        let (code, nodes, err) = mpirun(host, &[words, &program].concat());
        assert_eq!((code, err.as_str()), (0, ""), "{words:?}");
        nodes
    };
    // One processor on the first host, two on the second; the third takes ranks only if it is
    // named.
    assert_eq!((on(0, &["C"]), on(0, &["N"]), on(0, &[])), ("011".into(), "01".into(), "0".into()));
    assert_eq!((on(0, &["-np", "4"]), on(0, &["-np", "2"])), ("0011".into(), "01".into()));
    assert_eq!(
        (on(2, &["C"]), on(1, &["-n", "3", "--map-by", "node"])),
        ("011".into(), "011".into())
    );
    let third = format!("{}:2,10.93.7.10", hosts.names[2]);
    assert_eq!(on(0, &["--host", &third]), "022");
    let (code, _, err) = mpirun(0, &["-np", "3", "sh", "-c", "exit 7"]);
    assert!(code == 7, "{code} {err}");
    assert_eq!(mpirun(0, &["-np", "3", "-prefix", "/no/such", "true"]).0, 1);
    let sleep = marker(9);
    let words = ["ip", "netns", "exec", &hosts.names[0], OXMPI, "mpirun", "C", "sleep", &sleep];
    let mut job = hosts.universe.command(&words).stderr(Stdio::null()).spawn().unwrap();
    await_that("it runs", || with_argument(&sleep).len() >= 4 && hosts.processes(1).len() >= 6);
    let is_mpirun = |directory: &PathBuf| {
        let words = fs::read(directory.join("cmdline")).unwrap_or_default();
        words.starts_with(format!("{OXMPI}\0mpirun\0C\0sleep\0{sleep}").as_bytes())
    };
    processes(is_mpirun).into_iter().for_each(kill);
    job.wait().unwrap();
    await_that("only daemons are left", || (0..3).all(|host| hosts.processes(host).len() == 2));
    kill(eldest(&hosts.processes(1)).unwrap());
    await_that("its end is noticed", || {
        hosts.oxmpi(0, &["nodes", "n1"]).1.ends_with(":no_answer\n")
    });
    let (code, _, err) = mpirun(0, &["C", "true"]);
    assert!(
        code == 1 && err.contains("'oxmpi exec n1 ") && err.contains("'oxmpi nodes' shows"),
        "{err}"
    );
    assert_eq!(hosts.oxmpi(0, &["halt"]).0, 1);
    await_that("nothing is left", || (0..3).all(|host| hosts.processes(host).is_empty()));
    assert_eq!(on(0, &["-np", "2"]), "00");
}

fn err_of_boot(hosts: &Hosts) -> String {
    assert_eq!(hosts.oxmpi(1, &["halt"]).0, 0);
    await_that("all have ended", || (0..3).all(|host| hosts.processes(host).is_empty()));
    let (code, _, err) = hosts.boot("");
    assert_eq!(code, 0, "{err}");
    err
}

fn err_port(err: &str, address: &str) -> u16 {
    let (_, port) = err.split_once(&format!("listens at {address}:")).unwrap();
    port.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[test]
fn if_one_host_fails_no_daemon_is_left() {
    let Some(hosts) = Hosts::new("fails", 2) else { return };
    let (code, _, err) = hosts.boot("oxd-no-such-host\n");
    assert_eq!(code, 1);
    assert!(err.contains("n2 (oxd-no-such-host): '") && err.contains("ended with code"), "{err}");
    assert!(
        err.contains("Cannot open network namespace") && err.contains("no daemon is left running"),
        "{err}"
    );
    await_that("nothing is left", || (0..2).all(|host| hosts.processes(host).is_empty()));
    let (code, _, err) = hosts.boot(&format!("{} prefix=/no/such\n", hosts.names[1]));
    assert!(
        code == 1 && err.contains("/no/such/bin/oxmpi") && err.contains("prefix=/DIRECTORY"),
        "{err}"
    );
    assert!(ip(&format!("-n {} link set eth0 down", hosts.names[1])));
    let (code, _, err) = hosts.boot("");
    assert!(code == 1 && err.contains("n1 ("), "{err}");
    await_that("nothing is left", || (0..2).all(|host| hosts.processes(host).is_empty()));
    assert!(ip(&format!("-n {} link set eth0 up", hosts.names[1])));
    assert_eq!(hosts.boot("").0, 0);
    assert_eq!(hosts.oxmpi(0, &["halt"]).0, 0);
}
