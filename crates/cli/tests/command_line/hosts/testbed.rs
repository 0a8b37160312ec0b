//! Hosts for tests: network namespaces with a name, a /dev/shm and an sshd each, joined by a bridge
//! in another namespace. They are invisible outside, and are removed with the [`Testbed`].

use std::fs;
use std::io::{BufRead as _, BufReader, Lines};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::LinkNameSpaceType;

use crate::support::{TestDirectory, compiled, eldest, installed, root, shell_word, skip};

/// The empty directory that sshd requires.
const PRIVILEGE_SEPARATION: &str = "/run/sshd";
/// The users of the hosts. Root has a home without start files: those of this machine can be slow,
/// and can wait for a lock for a minute.
const USERS: &str = "passwd";
/// Longer than any step of these tests.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Testbed {
    pub(crate) directory: PathBuf,
    /// The configuration of ssh, which is named in a parameter that is split at blanks.
    plain: TestDirectory,
    servers: Vec<Child>,
    has_made_run: bool,
    numbers_itself: bool,
}

#[derive(Clone, Copy)]
pub(crate) struct Machine {
    pub(crate) name: &'static str,
    letter: char,
    pub(crate) address: &'static str,
}

pub(crate) const HEAD: Machine = Machine { name: "head", letter: 'h', address: "10.77.0.10" };
pub(crate) const A: Machine = Machine { name: "nodea", letter: 'a', address: "10.77.0.1" };
pub(crate) const B: Machine = Machine { name: "nodeb", letter: 'b', address: "10.77.0.2" };
/// A directory in that of the testbed. The head has it on its disk; each other host has its own
/// file system there.
pub(crate) const PRIVATE: &str = "private";
const ALL: [Machine; 3] = [HEAD, A, B];

impl Machine {
    pub(crate) fn namespace(self) -> String {
        format!("oxmpi-{}{}", std::process::id(), self.letter)
    }
}

pub(crate) struct Begun {
    pub(crate) child: Child,
    pub(crate) first: Vec<String>,
    pub(crate) lines: Lines<BufReader<ChildStdout>>,
}

impl Begun {
    pub(crate) fn all_end_with(&self, text: &str) {
        assert!(self.first.iter().all(|line| line.ends_with(text)), "{:?}", self.first);
    }

    /// Waits for the end: the exit code, the other lines, and the standard error.
    pub(crate) fn end(self) -> (Option<i32>, Vec<String>, String) {
        // Both at the same time: a job whose errors are not read does not get to the end of its
        // output.
        let errors = std::thread::spawn(move || outcome(self.child.wait_with_output().unwrap()));
        let rest = self.lines.map(|line| line.unwrap()).collect();
        let (code, _, err) = errors.join().unwrap();
        (code, rest, err)
    }
}

pub(crate) fn switch() -> String {
    format!("oxmpi-{}s", std::process::id())
}

pub(crate) fn testbed() -> Option<Testbed> {
    testbed_with(false)
}

pub(crate) fn testbed_with(numbers_itself: bool) -> Option<Testbed> {
    match why_not() {
        None => Some(Testbed::new(numbers_itself)),
        Some(why) => {
            skip(&format!("there are no hosts for this test: {why}"));
            None
        }
    }
}

fn why_not() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root may make network namespaces".into());
    }
    for program in ["ip", "unshare", "ssh", "ssh-keygen", "sshd"] {
        let there = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
            .map(|directory| Path::new(directory).join(program));
        if !there.iter().any(|path| path.exists()) {
            return Some(format!("'{program}' is missing"));
        }
    }
    let name = format!("oxmpi-{}t", std::process::id());
    let made = Command::new("ip").args(["netns", "add", &name]).output().unwrap();
    let _ = Command::new("ip").args(["netns", "del", &name]).output();
    (!made.status.success())
        .then(|| format!("'ip netns add' says: {}", String::from_utf8_lossy(&made.stderr).trim()))
}

pub(crate) fn run(words: &str) {
    let mut words = words.split(' ');
    let output = Command::new(words.next().unwrap()).args(words.clone()).output().unwrap();
    let all: Vec<&str> = words.collect();
    assert!(output.status.success(), "{all:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Testbed {
    fn new(numbers_itself: bool) -> Testbed {
        sweep();
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("oxmpi-hosts-{}", std::process::id()));
        fs::create_dir_all(directory.join(PRIVATE)).unwrap();
        let users = fs::read_to_string("/etc/passwd").unwrap();
        let user = |line: &str| match line.strip_prefix("root:").and_then(|_| line.rsplit_once(':'))
        {
            Some((_, shell)) => format!("root:x:0:0:root:/proc:{shell}\n"),
            None => format!("{line}\n"),
        };
        let users: String = users.lines().map(user).collect();
        fs::write(directory.join(USERS), users).unwrap();
        let has_made_run = fs::create_dir(PRIVILEGE_SEPARATION).is_ok();
        let plain = TestDirectory::new("ssh");
        let mut bed =
            Testbed { directory, plain, servers: Vec::new(), has_made_run, numbers_itself };
        bed.make_network();
        bed.make_keys();
        for machine in [A, B] {
            bed.serve(machine);
        }
        for machine in [A, B] {
            bed.await_server(machine);
        }
        bed
    }

    fn make_network(&self) {
        let switch = switch();
        run(&format!("ip netns add {switch}"));
        run(&format!("ip -n {switch} link add br0 type bridge"));
        run(&format!("ip -n {switch} link set br0 up"));
        for machine in ALL {
            let (name, letter, address) = (machine.namespace(), machine.letter, machine.address);
            run(&format!("ip netns add {name}"));
            run(&format!(
                "ip -n {switch} link add {letter}0 type veth peer name eth0 netns {name}"
            ));
            run(&format!("ip -n {switch} link set {letter}0 master br0 up"));
            run(&format!("ip -n {name} address add {address}/24 dev eth0"));
            run(&format!("ip -n {name} link set eth0 up"));
            run(&format!("ip -n {name} link set lo up"));
        }
    }

    fn make_keys(&self) {
        let at = |name: &str| self.directory.join(name);
        for key in ["host_key", "user_key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(at(key));
            assert!(keygen.status().unwrap().success());
        }
        fs::rename(at("user_key.pub"), at("authorized_keys")).unwrap();
        let directory = self.directory.display();
        let server = format!(
            "Port 2222\nHostKey \"{directory}/host_key\"\nAuthorizedKeysFile \"{directory}/authorized_keys\"\nStrictModes no\nUsePAM \
             no\nPidFile none\nPermitRootLogin yes\nPasswordAuthentication no\nMaxStartups 100\n"
        );
        fs::write(at("sshd_config"), server).unwrap();
        let mut client = format!(
            "Host *\n Port 2222\n User root\n IdentityFile \"{directory}/user_key\"\n IdentitiesOnly yes\n StrictHostKeyChecking no\n \
             UserKnownHostsFile /dev/null\n LogLevel ERROR\n"
        );
        for machine in [A, B] {
            client = format!("Host {}\n HostName {}\n{client}", machine.name, machine.address);
        }
        self.plain.write("ssh_config", &client);
    }

    pub(crate) fn on(&self, machine: Machine, program: &str) -> Command {
        let private = match machine.name {
            name if name == HEAD.name => String::new(),
            _ => format!("mount -t tmpfs t {}; ", shell_word(&self.directory.join(PRIVATE))),
        };
        let users = shell_word(&self.directory.join(USERS));
        let script = format!(
            "hostname {}; mount -t tmpfs t /dev/shm; {private}mount --bind {users} /etc/passwd; \
             exec ip netns exec {} \"$@\"",
            machine.name,
            machine.namespace()
        );
        let mut command = Command::new("unshare");
        command.args([
            "--uts",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            &script,
            "sh",
            program,
        ]);
        command.current_dir(&self.directory);
        command
    }

    fn serve(&mut self, machine: Machine) {
        let mut sshd = match self.numbers_itself {
            true => self.on(machine, "unshare"),
            false => self.on(machine, "env"),
        };
        sshd.args(
            self.numbers_itself
                .then_some(["--pid", "--fork", "--kill-child", "--mount-proc"])
                .iter()
                .flatten(),
        );
        sshd.arg("/usr/sbin/sshd");
        sshd.args(["-D", "-e", "-f"]).arg(self.directory.join("sshd_config"));
        let log = fs::File::create(self.directory.join(format!("{}.log", machine.name))).unwrap();
        sshd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.servers.push(sshd.spawn().unwrap());
    }

    fn await_server(&self, machine: Machine) {
        let end = Instant::now() + LIMIT;
        let log = self.directory.join(format!("{}.log", machine.name));
        while !fs::read_to_string(&log).unwrap().contains("Server listening on") {
            assert!(Instant::now() < end, "sshd: {}", fs::read_to_string(&log).unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn shell(&self) -> String {
        format!("ssh -F {}", self.plain.join("ssh_config").display())
    }

    pub(crate) fn mpirun(&self, words: &[&str]) -> Command {
        let mut command = self.on(HEAD, installed("mpirun").to_str().unwrap());
        command.args(["--timeout", "50", "--mca", "plm_rsh_agent", &self.shell()]).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> (Option<i32>, String, String) {
        outcome(self.mpirun(words).output().unwrap())
    }

    /// Starts `mpirun`, and waits for the first `count` lines.
    pub(crate) fn begin(&self, words: &[&str], count: usize) -> Begun {
        let mut child = self.mpirun(words).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first: Vec<String> = lines.by_ref().take(count).map(|line| line.unwrap()).collect();
        if first.len() < count {
            panic!("{first:?} is all: {:?}", outcome(child.wait_with_output().unwrap()));
        }
        Begun { child, first, lines }
    }

    pub(crate) fn oxmpi_on(
        &self,
        machine: Machine,
        words: &[&str],
    ) -> (Option<i32>, String, String) {
        let mut command = self.on(machine, "timeout");
        command.args(["-k", "1", "50", installed("oxmpi").to_str().unwrap()]).args(words);
        outcome(command.stdin(Stdio::null()).output().unwrap())
    }

    /// Runs `oxmpi` on the head, which must succeed, and returns its standard error.
    fn oxmpi(&self, words: &[&str]) -> String {
        let (code, out, err) = self.oxmpi_on(HEAD, words);
        assert_eq!(code, Some(0), "{words:?}: {out}{err}");
        err
    }

    /// Makes the hosts in `lines` a universe, and returns the report of the steps.
    pub(crate) fn boot(&self, lines: &str) -> String {
        let file = self.directory.join("universe");
        fs::write(&file, lines).unwrap();
        self.oxmpi(&["boot", "-v", "--mca", "plm_rsh_agent", &self.shell(), file.to_str().unwrap()])
    }

    pub(crate) fn halt(&self) {
        self.oxmpi(&["halt"]);
    }

    /// The programs on a host, by their arguments, except its sshd.
    pub(crate) fn processes(&self, machine: Machine) -> Vec<(i32, String)> {
        let all = pids(&machine.namespace()).into_iter().filter_map(|pid| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            Some((pid, words.trim().to_string())).filter(|(_, words)| !words.is_empty())
        });
        all.filter(|(_, words)| !words.contains("sshd")).collect()
    }

    /// Waits until a program with this text among its arguments runs on a host. Of an agent and its
    /// guard this is the agent.
    pub(crate) fn await_process(&self, machine: Machine, text: &str) -> i32 {
        let end = Instant::now() + LIMIT;
        loop {
            let all = self.processes(machine);
            let those = all.iter().filter(|(_, words)| words.contains(text)).map(|(pid, _)| *pid);
            if let Some(pid) = eldest(&those.collect::<Vec<_>>()) {
                return pid;
            }
            assert!(Instant::now() < end, "no '{text}' on {}: {all:?}", machine.name);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// No process of a job is left on any host.
    pub(crate) fn is_clean(&self) {
        let end = Instant::now() + Duration::from_secs(10);
        for machine in ALL {
            loop {
                let left = self.processes(machine);
                if left.is_empty() {
                    break;
                }
                assert!(Instant::now() < end, "left on {}: {left:?}", machine.name);
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// The files of a host in its private directory.
    pub(crate) fn private_files(&self, machine: Machine) -> Vec<PathBuf> {
        let at = [A, B].iter().position(|other| other.name == machine.name).unwrap();
        let root = format!("/proc/{}/root", self.servers[at].id());
        let directory = self.directory.join(PRIVATE);
        let entries =
            fs::read_dir(Path::new(&root).join(directory.strip_prefix("/").unwrap())).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    pub(crate) fn set_link(&self, machine: Machine, is_up: bool) {
        let state = if is_up { "up" } else { "down" };
        run(&format!("ip -n {} link set {}0 {state}", switch(), machine.letter));
    }

    pub(crate) fn take_loopback(&self, machine: Machine) {
        run(&format!("ip -n {} link set lo down", machine.namespace()));
    }

    /// Gives a host one more address, before its own.
    pub(crate) fn put_address_first(&self, machine: Machine, address: &str) {
        let name = machine.namespace();
        run(&format!("ip -n {name} address flush dev eth0"));
        run(&format!("ip -n {name} address add {address}/24 dev eth0"));
        run(&format!("ip -n {name} address add {}/24 dev eth0", machine.address));
    }

    pub(crate) fn compile(&self, name: &str) -> String {
        self.compile_file(&root().join("tests/c").join(name).with_extension("c"))
    }

    pub(crate) fn compile_text(&self, name: &str, text: &str) -> String {
        let source = self.directory.join(name).with_extension("c");
        fs::write(&source, text).unwrap();
        self.compile_file(&source)
    }

    fn compile_file(&self, source: &Path) -> String {
        let program = self.directory.join(source.file_stem().unwrap());
        // Tests find the job's processes by this directory. A test may compile a program again
        // while it runs.
        if !program.exists() {
            fs::copy(compiled(source).unwrap(), &program).unwrap();
        }
        program.to_str().unwrap().to_string()
    }
}

/// Calls `act` in a network namespace. Its sockets stay there.
pub(crate) fn inside<T: Send>(namespace: &str, act: impl FnOnce() -> T + Send) -> T {
    let at = fs::File::open(Path::new("/run/netns").join(namespace)).unwrap();
    let within = || {
        rustix::thread::move_into_link_name_space(at.as_fd(), Some(LinkNameSpaceType::Network))
            .unwrap();
        act()
    };
    std::thread::scope(|scope| scope.spawn(within).join().unwrap())
}

fn sweep() {
    let output = Command::new("ip").args(["netns", "list"]).output().unwrap();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let Some(pid) =
            name.strip_prefix("oxmpi-").map(|rest| rest.trim_end_matches(char::is_alphabetic))
        else {
            continue;
        };
        if pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists() {
            pids(name).into_iter().for_each(kill);
            let _ = Command::new("ip").args(["netns", "del", name]).output();
            let left = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("oxmpi-hosts-{pid}"));
            let _ = fs::remove_dir_all(left);
        }
    }
}

pub(crate) type OutputLines = Box<dyn Iterator<Item = String>>;

pub(crate) fn lines_of(job: &mut Child) -> OutputLines {
    let lines = BufReader::new(job.stdout.take().unwrap()).lines();
    Box::new(lines.map(|line| line.unwrap()))
}

pub(crate) fn outcome(output: Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn pids(namespace: &str) -> Vec<i32> {
    let output = Command::new("ip").args(["netns", "pids", namespace]).output();
    let text = output
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

pub(crate) fn kill(pid: i32) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
}

impl Drop for Testbed {
    fn drop(&mut self) {
        for machine in ALL {
            pids(&machine.namespace()).into_iter().for_each(kill);
        }
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
        for name in ALL.map(Machine::namespace).into_iter().chain([switch()]) {
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
        let _ = fs::remove_dir_all(&self.directory);
        if self.has_made_run {
            let _ = fs::remove_dir(PRIVILEGE_SEPARATION);
        }
    }
}
