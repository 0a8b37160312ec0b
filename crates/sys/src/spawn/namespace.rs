//! PID namespaces (pid_namespaces(7)): separate process numbers, for processes whose numbers are
//! taken on this host.
//!
//! [`PidNamespace::start`] starts the first process of a namespace, its *init*: this program under
//! another command word, which calls [`init`]. The init has a mount namespace with its own /proc,
//! so programs in it see processes by their numbers in the namespace. The init ends when the value
//! is dropped or its process is gone; the kernel then kills all processes of the namespace.

use std::ffi::{CStr, c_int};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, geteuid, pidfd_open, pidfd_send_signal, waitid,
};

use super::close_others;

/// The output of [`init`] when the namespace is ready; any other output is the reason of a failure.
const READY: &[u8] = b"ready";

/// A PID namespace in which processes can be started, with its mount namespace.
#[derive(Debug)]
pub struct PidNamespace {
    identity: u64,
    level: usize,
    numbers: File,
    mounts: File,
    /// Root and working directory of the init. A process that enters its mounts loses its own ones.
    root: File,
    directory: File,
    /// The init that this process has started, which lives until this is dropped.
    init: Option<Init>,
}

#[derive(Debug)]
struct Init {
    number: u32,
    process: OwnedFd,
    _life: Option<ChildStdin>,
}

impl PidNamespace {
    /// Makes a namespace below that of this process. `program`, called with `word` and a number,
    /// must call [`init`]. Processes in the namespace get numbers above `above`, unless they
    /// request a number. The calling thread becomes the parent of the init. Errors: the error of
    /// unshare(2), such as EPERM without CAP_SYS_ADMIN; the reason why the init cannot start or
    /// cannot mount its /proc.
    pub fn start(program: &Path, word: &str, above: u32) -> io::Result<PidNamespace> {
        let own = File::open("/proc/thread-self/ns/pid")?;
        // SAFETY: CLONE_NEWPID changes only the namespace of this thread's future children.
        if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut command = Command::new(program);
        command.arg(word).arg(above.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let spawned = command.spawn();
        set_namespace(&own, libc::CLONE_NEWPID)?;
        let mut child = spawned?;
        let process = Pid::from_child(&child);
        let life = child.stdin.take();
        let number = process.as_raw_nonzero().get().cast_unsigned();
        let init = Init { number, process: pidfd_open(process, PidfdFlags::empty())?, _life: life };
        let mut said = Vec::new();
        if let Some(mut output) = child.stdout.take() {
            // The init closes the pipe after its message.
            output.read_to_end(&mut said)?;
        }
        if said != READY {
            drop(init);
            // The namespace has no other process, so the init ends at once.
            let _ = child.wait();
            return Err(io::Error::other(String::from_utf8_lossy(&said).into_owned()));
        }
        let found = PidNamespace::below(&Path::new("/proc").join(number.to_string()))?;
        Ok(PidNamespace { init: Some(init), ..found })
    }

    /// [`PidNamespace::start`] with an init whose number outside of the namespace is none of
    /// `needed`.
    pub fn start_outside_of(
        needed: &[u32],
        (program, word, above): (&Path, &str, u32),
    ) -> io::Result<PidNamespace> {
        // The init of each rejected namespace keeps its number, so the next init gets another.
        let mut others = Vec::new();
        let found = loop {
            let made = PidNamespace::start(program, word, above)?;
            if made.init.as_ref().is_none_or(|init| !needed.contains(&init.number)) {
                break made;
            }
            others.push(made);
        };
        others.into_iter().for_each(PidNamespace::end);
        Ok(found)
    }

    fn end(self) {
        if let Some(init) = &self.init {
            // It fails if the init has ended.
            let _ = pidfd_send_signal(&init.process, Signal::KILL);
            let _ = waitid(WaitId::PidFd(init.process.as_fd()), WaitIdOptions::EXITED);
        }
    }

    /// The namespace of a process; `None` if it is that of this process. The init must be this
    /// program, run by this user: a process that enters a namespace executes the files of its mount
    /// namespace, and must trust its maker. Errors: the process or the init is gone or not visible,
    /// or the init is foreign.
    pub fn of(process: u32) -> io::Result<Option<PidNamespace>> {
        let identity = identity_of(process)?;
        if identity == identity_of(std::process::id())? {
            return Ok(None);
        }
        let level = numbers_of(process)?.len();
        let is_init = |other: &u32| {
            numbers_of(*other).is_ok_and(|all| all.len() == level && all.last() == Some(&1))
                && identity_of(*other).is_ok_and(|other| other == identity)
        };
        let init = processes()?.find(is_init);
        let init = init.ok_or_else(|| {
            io::Error::other("the first process of its PID namespace is not seen")
        })?;
        // Files opened through this directory belong to one process, even if its number is reused.
        let directory = File::open(format!("/proc/{init}"))?;
        let of_init = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
        if let Some(why) = why_foreign(&of_init)? {
            let why = format!(
                "process {process} is in a PID namespace that OxMPI does not enter, as its first process (number {init} here) {why}: \
                 call this from within that namespace"
            );
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let found = PidNamespace::below(&of_init)?;
        if found.identity != identity {
            return Err(io::Error::other(format!("process {init} has become another one")));
        }
        Ok(Some(found))
    }

    fn below(init: &Path) -> io::Result<PidNamespace> {
        let open = |name: &str| File::open(init.join(name));
        let numbers = open("ns/pid")?;
        Ok(PidNamespace {
            identity: numbers.metadata()?.ino(),
            level: numbers_in(&fs::read_to_string(init.join("status"))?).len(),
            numbers,
            mounts: open("ns/mnt")?,
            root: open("root")?,
            directory: open("cwd")?,
            init: None,
        })
    }

    /// Starts a program in the namespace as a child of the calling thread, in a new session.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let own = File::open("/proc/thread-self/ns/pid")?;
        let (mounts, root, directory) =
            (self.mounts.as_raw_fd(), self.root.as_raw_fd(), self.directory.as_raw_fd());
        let enter = move || {
            // SAFETY: system calls of the child on itself between fork and exec, with open
            // descriptors and strings that end with a zero.
            let entered = unsafe {
                libc::setns(mounts, libc::CLONE_NEWNS) == 0
                    && libc::fchdir(root) == 0
                    && libc::chroot(c".".as_ptr()) == 0
                    && libc::fchdir(directory) == 0
            };
            if !entered {
                return Err(io::Error::last_os_error());
            }
            // Outside of its namespace a session has the number 0, which CRIU refuses. setsid(2)
            // fails for the leader of a process group, whose session is its own.
            let _ = rustix::process::setsid();
            Ok(())
        };
        // SAFETY: `enter` makes only system calls: no allocation, no lock.
        unsafe { command.pre_exec(enter) };
        set_namespace(&self.numbers, libc::CLONE_NEWPID)?;
        let spawned = command.spawn();
        set_namespace(&own, libc::CLONE_NEWPID)?;
        spawned
    }

    /// Whether a process is in this namespace, not in one below it.
    pub fn has(&self, process: u32) -> bool {
        identity_of(process).is_ok_and(|identity| identity == self.identity)
    }

    /// The number of a process in this namespace; `None` if it has none or was reaped.
    pub fn number_inside(&self, process: u32) -> Option<u32> {
        numbers_of(process).ok()?.get(self.level - 1).copied()
    }

    /// The number outside of the namespace of the process with the number `inside` in it.
    pub fn number_outside(&self, inside: u32) -> Option<u32> {
        let is_it =
            |process: &u32| self.number_inside(*process) == Some(inside) && self.has(*process);
        processes().ok()?.find(is_it)
    }
}

impl Drop for Init {
    fn drop(&mut self) {
        // It fails if the init has ended. The code that reaps other children of this process reaps
        // it.
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
    }
}

/// The main function of the init of [`PidNamespace::start`]: mounts /proc, and waits until its
/// standard input ends. Returns the exit code.
pub fn init(above: u32) -> i32 {
    // Otherwise inherited pipes would stay open as long as this process.
    close_others(&[]);
    // With SIG_IGN the kernel reaps the orphans that this process inherits.
    // SAFETY: signal(2) with a disposition that runs no code.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    let said = prepare(above);
    let text = said.as_ref().err().map_or_else(|| READY.to_vec(), |text| text.clone().into_bytes());
    let done = io::stdout().write_all(&text).and_then(|()| io::stdout().flush());
    // SAFETY: closes standard output by its number; nothing writes to it from now on.
    unsafe { libc::close(libc::STDOUT_FILENO) };
    if said.is_err() || done.is_err() {
        return 1;
    }
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    0
}

/// Makes the mount namespace and its /proc, and sets the next process number.
fn prepare(above: u32) -> Result<(), String> {
    if std::process::id() != 1 {
        return Err("mpirun or an agent starts this; it is of no use otherwise".into());
    }
    // SAFETY: unshare(2) of the mount namespace in a process with a single thread.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return Err(format!("no mount namespace: {}", io::Error::last_os_error()));
    }
    // Mounts inside stay inside; mounts outside are visible inside.
    mount(c"none", c"/", c"", libc::MS_REC | libc::MS_SLAVE)
        .and_then(|()| {
            mount(c"proc", c"/proc", c"proc", libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC)
        })
        .map_err(|error| format!("no /proc of its own: {error}"))?;
    // Keeps CRIU's own processes off the numbers that the restored processes need.
    fs::write("/proc/sys/kernel/ns_last_pid", above.to_string())
        .map_err(|error| format!("/proc/sys/kernel/ns_last_pid: {error}"))
}

fn mount(what: &CStr, place: &CStr, kind: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    // SAFETY: strings that end with a zero, which the kernel copies; no data.
    let done = unsafe {
        libc::mount(what.as_ptr(), place.as_ptr(), kind.as_ptr(), flags, std::ptr::null())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set_namespace(namespace: &File, kind: c_int) -> io::Result<()> {
    // SAFETY: setns(2) on an open descriptor.
    let done = unsafe { libc::setns(namespace.as_fd().as_raw_fd(), kind) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The kernel's number of a process's PID namespace, unique among the existing ones.
pub fn identity_of(process: u32) -> io::Result<u64> {
    Ok(fs::metadata(format!("/proc/{process}/ns/pid"))?.ino())
}

/// The numbers of a process, from the namespace of this process down to its own (`NSpid` of
/// proc_pid_status(5)).
fn numbers_of(process: u32) -> io::Result<Vec<u32>> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    Ok(numbers_in(&status))
}

/// The reason why the process with this directory in /proc was not made by [`PidNamespace::start`]
/// of this user; `None` if it was.
fn why_foreign(process: &Path) -> io::Result<Option<String>> {
    let file = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    let own = Path::new("/proc/self");
    if file(&process.join("ns/user"))? != file(&own.join("ns/user"))? {
        return Ok(Some("is in another user namespace".into()));
    }
    let (users, user) =
        (users_in(&fs::read_to_string(process.join("status"))?), geteuid().as_raw());
    if users.len() != 4 || users.iter().any(|found| *found != user) {
        return Ok(Some(format!("is not run by user {user}")));
    }
    if file(&process.join("exe"))? != file(&own.join("exe"))? {
        let program = fs::read_link(process.join("exe"))?;
        return Ok(Some(format!("is the program {}", program.display())));
    }
    Ok(None)
}

fn users_in(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    line.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()
}

fn numbers_in(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    line.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()
}

fn processes() -> io::Result<impl Iterator<Item = u32>> {
    let number = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(fs::read_dir("/proc")?.filter_map(number))
}

/// Whether this process has CAP_SYS_ADMIN (capabilities(7)), which namespaces need. The kernel may
/// still refuse.
pub fn may_make_namespaces() -> bool {
    const CAP_SYS_ADMIN: u32 = 21;
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> CAP_SYS_ADMIN & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_process_are_read_from_the_outside_in() {
        assert_eq!(numbers_in("Name:\ta\nNSpid:\t10884\t10837\nNSpgid:\t1\n"), [10884, 10837]);
        assert!(numbers_in("Name:\ta\n").is_empty());
        let own = std::process::id();
        assert_eq!(numbers_of(own).unwrap(), [own]);
    }

    #[test]
    fn this_process_is_in_its_own_namespace() {
        assert!(PidNamespace::of(std::process::id()).unwrap().is_none());
        assert!(PidNamespace::of(u32::MAX).is_err());
    }

    #[test]
    fn a_process_of_another_program_or_user_is_no_init_of_ours() {
        let own = Path::new("/proc/self");
        assert_eq!(why_foreign(own).unwrap(), None);
        let mut child = Command::new("/bin/sleep").arg("60").spawn().unwrap();
        let why = why_foreign(&Path::new("/proc").join(child.id().to_string())).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(why.as_ref().is_some_and(|why| why.starts_with("is the program /")), "{why:?}");
        assert!(why_foreign(Path::new("/proc/no process")).is_err());
        assert_eq!(users_in("Name:\ta\nUid:\t0\t1000\t7\t0\nGid:\t5\n"), [0, 1000, 7, 0]);
    }

    #[test]
    fn a_program_that_is_no_init_is_refused() {
        if !may_make_namespaces() {
            eprintln!("SKIPPED: without CAP_SYS_ADMIN there are no PID namespaces");
            return;
        }
        let error = PidNamespace::start(Path::new("/bin/echo"), "hello", 7).unwrap_err();
        assert_eq!(error.to_string().trim(), "hello 7");
        let error = PidNamespace::start(Path::new("/nonexistent"), "hello", 7).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let output = Command::new("readlink").arg("/proc/self/ns/pid").output().unwrap();
        let own = fs::read_link("/proc/self/ns/pid").unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), own.to_str().unwrap());
    }
}
