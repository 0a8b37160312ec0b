//! Starting processes, and seeing that they end: what a launcher needs of the kernel.
//!
//! - [`spawn`] starts a program. The child borrows the launcher's memory until it calls execve(2) (as vfork(2) does),
//!   so the cost does not depend on the launcher's size; a failed execve comes back as an ordinary error.
//! - [`Signals`] turns signals into something to poll, so that a launcher needs no handler.
//! - [`Guard`] is a tiny process that kills the ranks when the launcher itself is killed and cannot.
//! - [`take_inherited`] is the other end: a started program takes the descriptors that were put there for it.

mod marked;

use crate::net;
use crate::segment::{RankState, Segment};
use crate::semaphore;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A set of signals that a thread does not want to be interrupted by.
#[derive(Clone, Copy)]
pub struct SignalMask(libc::sigset_t);

impl SignalMask {
    /// No signal.
    pub fn none() -> SignalMask {
        SignalMask(mask_of(&[]))
    }
}

impl std::fmt::Debug for SignalMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SignalMask")
    }
}

/// A program to start.
#[derive(Debug)]
pub struct Program<'a> {
    /// The file to execute.
    pub path: &'a CStr,
    /// Its arguments, its own name first.
    pub args: &'a [CString],
    /// Its environment, `NAME=value` each.
    pub env: &'a [CString],
    /// The directory to start in, if not the launcher's.
    pub directory: Option<&'a CStr>,
    /// Descriptors of the launcher, and the numbers that they get in the program. All others that are not
    /// close-on-exec stay as they are.
    pub fds: &'a [(BorrowedFd<'a>, RawFd)],
    /// The signal mask to start with.
    pub mask: &'a SignalMask,
    /// The limit on open files to start with (soft, hard), if not the launcher's.
    pub open_files: Option<(u64, u64)>,
    /// The processors to run on, if not the launcher's: bit `n % 64` of word `n / 64` is processor `n`.
    pub cpus: Option<&'a [u64]>,
    /// Whether the kernel kills it when the thread that started it ends.
    pub is_tied: bool,
}

/// A started process. It is the leader of a process group of its own.
#[derive(Debug)]
pub struct Process {
    /// Its process id, which is also the id of its group.
    pub pid: i32,
    /// Becomes readable when it ends (pidfd_open(2)).
    pub pidfd: OwnedFd,
}

/// Numbers that a program's descriptors can get lie below this; they are moved above it before they are put in place.
const SCRATCH: RawFd = 64;
/// Descriptors that a program can be given at most.
pub const MAX_FDS: usize = 8;

/// What the child needs between clone and execve. It lies in memory that both share.
struct Child<'a> {
    program: &'a Program<'a>,
    argv: *const *const c_char,
    envp: *const *const c_char,
    parent: libc::pid_t,
    /// Set if execve, or something before it, failed.
    error: c_int,
}

/// Starts a program.
///
/// # Errors
/// What clone(2) or execve(2) say, such as `NotFound`, `PermissionDenied`, or ENOEXEC for a script without "#!";
/// also what stops the descriptors from being put in their places.
pub fn spawn(program: &Program<'_>) -> io::Result<Process> {
    const STACK: usize = 64 << 10;
    if program.fds.len() > MAX_FDS || program.fds.iter().any(|&(_, to)| !(0..SCRATCH).contains(&to)) {
        let text =
            format!("at most {MAX_FDS} descriptors, numbered below {SCRATCH}, can be handed to a program");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let argv = null_terminated(program.args);
    let envp = null_terminated(program.env);
    // SAFETY: getpid(2) has no preconditions.
    let parent = unsafe { libc::getpid() };
    let mut child = Child { program, argv: argv.as_ptr(), envp: envp.as_ptr(), parent, error: 0 };
    let mut stack: Vec<u128> = Vec::with_capacity(STACK / size_of::<u128>());
    let mut pidfd: c_int = -1;

    // No signal may run a handler in the child while it shares our memory.
    let old = set_mask(libc::SIG_BLOCK, &full_mask())?;
    // SAFETY: `stack` has STACK bytes, aligned to 16, and grows down from its end; `child` and all that it points to
    // live until clone returns, which is not before the child has called execve or _exit (CLONE_VFORK). The child
    // runs `run_child` alone, which keeps to system calls. With CLONE_PIDFD the kernel stores through the fifth
    // argument, which points to a c_int.
    let pid = unsafe {
        let top = stack.as_mut_ptr().cast::<u8>().add(STACK).cast::<c_void>();
        libc::clone(
            run_child,
            top,
            libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD,
            (&raw mut child).cast::<c_void>(),
            &raw mut pidfd,
        )
    };
    let cloned = io::Error::last_os_error();
    set_mask(libc::SIG_SETMASK, &old.0)?;
    if pid < 0 {
        return Err(cloned);
    }
    // SAFETY: the kernel has just made this descriptor for us; it is close-on-exec.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    if child.error != 0 {
        // SAFETY: waits for our own child, which has called _exit; no status is wanted.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
        return Err(io::Error::from_raw_os_error(child.error));
    }
    Ok(Process { pid, pidfd })
}

/// The child: on a stack of its own in the launcher's memory.
extern "C" fn run_child(arg: *mut c_void) -> c_int {
    // SAFETY: `spawn` passes a pointer to its `Child`, and sleeps until we are done with it.
    let child = unsafe { &mut *arg.cast::<Child<'_>>() };
    child.error = prepare_and_exec(child);
    // SAFETY: ends the child without running anything of the launcher's.
    unsafe { libc::_exit(127) }
}

/// Returns the error number if something failed. System calls only: no allocation, no lock.
fn prepare_and_exec(child: &Child<'_>) -> c_int {
    let program = child.program;
    // SAFETY: plain system calls of one process on itself; pointers are to values that live here or in `child`.
    unsafe {
        if libc::setpgid(0, 0) != 0 {
            return errno();
        }
        if program.is_tied && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
            return errno();
        }
        if program.is_tied && libc::getppid() != child.parent {
            return libc::ESRCH; // the launcher died before prctl: nobody would kill us
        }
        // First all out of the way, then each into its place, so that none is overwritten before its turn.
        let mut moved = [-1; MAX_FDS];
        for (moved, &(from, _)) in moved.iter_mut().zip(program.fds) {
            *moved = from.as_raw_fd();
            if *moved < SCRATCH {
                *moved = libc::fcntl(*moved, libc::F_DUPFD_CLOEXEC, SCRATCH);
            }
            if *moved < 0 {
                return errno();
            }
        }
        for (moved, &(_, to)) in moved.iter().zip(program.fds) {
            if libc::dup2(*moved, to) < 0 {
                return errno();
            }
        }
        if let Some((soft, hard)) = program.open_files {
            let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &limit) != 0 {
                return errno();
            }
        }
        if let Some(cpus) = program.cpus
            && libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(cpus), cpus.as_ptr()) != 0
        {
            return errno();
        }
        if let Some(directory) = program.directory
            && libc::chdir(directory.as_ptr()) != 0
        {
            return errno();
        }
        // Rust programs ignore SIGPIPE, and execve would hand that on.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_SETMASK, &program.mask.0, std::ptr::null_mut());
        libc::execve(program.path.as_ptr(), child.argv, child.envp);
        errno()
    }
}

fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

fn null_terminated(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
}

fn full_mask() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: sigfillset(3) initialises the set and cannot fail on a valid pointer.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        set.assume_init()
    }
}

fn mask_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: sigemptyset(3) initialises the set; sigaddset(3) refuses numbers that are no signals.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for &signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}

/// Changes the calling thread's mask and returns the old one.
fn set_mask(how: c_int, set: &libc::sigset_t) -> io::Result<SignalMask> {
    let mut old = std::mem::MaybeUninit::uninit();
    // SAFETY: both sets are valid; the old one is written on success.
    let failed = unsafe { libc::pthread_sigmask(how, set, old.as_mut_ptr()) };
    if failed != 0 {
        return Err(io::Error::from_raw_os_error(failed));
    }
    // SAFETY: just written.
    Ok(SignalMask(unsafe { old.assume_init() }))
}

/// Signals as something to poll and read. While it lives, they are blocked in the thread that made it.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    before: SignalMask,
}

impl Signals {
    /// Blocks `signals` in this thread (and those it will start) and collects them.
    ///
    /// # Errors
    /// What signalfd(2) says, such as too many open files.
    pub fn new(signals: &[i32]) -> io::Result<Signals> {
        let set = mask_of(signals);
        let before = set_mask(libc::SIG_BLOCK, &set)?;
        // SAFETY: `set` is valid; -1 asks for a new descriptor, which nobody else owns.
        let fd = unsafe {
            let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                let error = io::Error::last_os_error();
                set_mask(libc::SIG_SETMASK, &before.0)?;
                return Err(error);
            }
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Signals { fd, before })
    }

    /// The mask from before: what a started program should have.
    pub fn before(&self) -> &SignalMask {
        &self.before
    }

    /// The next signal that came, if one did.
    ///
    /// # Errors
    /// What read(2) says, except that nothing is there.
    pub fn next(&self) -> io::Result<Option<i32>> {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.fd, &mut info) {
            Ok(n) if n == info.len() => {
                // The first field of signalfd_siginfo is ssi_signo, a u32 (signalfd(2)).
                Ok(Some(u32::from_ne_bytes([info[0], info[1], info[2], info[3]]).cast_signed()))
            }
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // Nothing to be done if it fails; it cannot with a valid mask.
        let _ = set_mask(libc::SIG_SETMASK, &self.before.0);
    }
}

/// A process that outlives the launcher for a moment: when the launcher is gone without having said farewell, it
/// kills the process groups that it was told of, and all processes that have its mark in their environment, and removes their
/// semaphores.
#[derive(Debug)]
pub struct Guard {
    pid: i32,
    pipe: OwnedFd,
    mark: String,
}

/// The environment variable with the guard's mark.
pub const GUARD_VARIABLE: &str = "OXMPI_GUARD";

/// Groups that a guard can watch.
pub const MAX_GUARDED: usize = 8192;

impl Guard {
    /// Starts the guard: a fork of this process, which must have no other thread.
    ///
    /// # Errors
    /// What pipe2(2) or fork(2) say; `Unsupported` if this process has threads.
    pub fn start() -> io::Result<Guard> {
        Guard::start_with(None)
    }

    /// The same for the launcher of a process that it has not started: when the launcher is gone without having said farewell
    /// while that process uses MPI, the guard says so and ends the process: by SIGTERM, and after [`WARD_GRACE_MS`] by
    /// SIGKILL.
    ///
    /// # Errors
    /// As [`Guard::start`].
    pub fn start_for(ward: BorrowedFd<'_>, segment: &Segment) -> io::Result<Guard> {
        Guard::start_with(Some(Ward { process: ward.as_raw_fd(), segment }))
    }

    fn start_with(ward: Option<Ward<'_>>) -> io::Result<Guard> {
        if std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "a guard cannot be forked from a process with threads",
            ));
        }
        let mut number = [0; 8];
        net::fill_random(&mut number)?;
        let mark = format!("{GUARD_VARIABLE}={:016x}", u64::from_ne_bytes(number));
        let (read, pipe) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let launcher = std::process::id().cast_signed();
        // SAFETY: this process has a single thread, so the child's memory is consistent; it runs `guard` alone, which
        // never returns.
        let pid = unsafe {
            let pid = libc::fork();
            if pid == 0 {
                guard(read.as_raw_fd(), &mark, launcher, ward.as_ref());
            }
            pid
        };
        if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(Guard { pid, pipe, mark }) }
    }

    /// The guard's process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What a process shall have for [`GUARD_VARIABLE`] in its environment, so that it and what it starts is under guard,
    /// wherever it goes: a number that no other guard has.
    pub fn mark(&self) -> &str {
        self.mark.split_once('=').map_or("", |(_, value)| value)
    }

    /// Puts a process group under guard. It must not be waited for (reaped) before [`Guard::dismiss`], so that its
    /// number stays its own.
    ///
    /// # Errors
    /// What write(2) says, such as a broken pipe if somebody killed the guard.
    pub fn watch(&self, group: i32) -> io::Result<()> {
        rustix::io::write(&self.pipe, &group.to_ne_bytes())?;
        Ok(())
    }

    /// Takes a process group out of guard, so that it may be reaped: nothing is left of it.
    ///
    /// # Errors
    /// As [`Guard::watch`].
    pub fn forget(&self, group: i32) -> io::Result<()> {
        self.watch(-group)
    }

    /// Ends the guard: the launcher has seen to everything itself.
    pub fn dismiss(self) {
        // A failure means that the guard is gone already.
        let _ = rustix::io::write(&self.pipe, &0i32.to_ne_bytes());
        // SAFETY: waits for our own child; no status is wanted.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

/// Who is not the launcher's child, and ends with it all the same.
struct Ward<'a> {
    /// A descriptor of the process.
    process: RawFd,
    /// Its segment.
    segment: &'a Segment,
}

/// How long a process has between SIGTERM and SIGKILL when its launcher was killed, milliseconds.
pub const WARD_GRACE_MS: i32 = 400;

/// What the guard says then.
const WARD_TEXT: &[u8] =
    b"mpirun: the mpirun that a process started without mpirun had got for spawning or connecting was \
killed, and the processes that it had started with it; so this process is ended as well.\n";

/// The guard's whole life.
fn guard(pipe: RawFd, mark: &str, launcher: i32, ward: Option<&Ward<'_>>) -> ! {
    let mut groups = [0i32; MAX_GUARDED];
    let mut known = 0;
    // SAFETY: system calls of a process on its own descriptors and on the groups that it was told of. The launcher
    // keeps the leaders of those groups unreaped, so that their numbers belong to nobody else.
    unsafe {
        // A session of its own: what the terminal sends to the launcher's group does not end the guard.
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, marked::GUARD_NAME.as_ptr());
        // It must not keep anybody's pipe open.
        libc::dup2(pipe, 0);
        if let Some(ward) = ward {
            // Standard error stays as well.
            libc::dup2(ward.process, 1);
        }
        let from = if ward.is_some() { 3u32 } else { 1 };
        libc::syscall(libc::SYS_close_range, from, u32::MAX, 0u32);
        loop {
            let mut group = 0i32;
            match libc::read(0, (&raw mut group).cast(), 4) {
                4 if group == 0 => libc::_exit(0),
                4 if group < 0 => {
                    let mut at = 0;
                    while at < known {
                        if groups[at] == -group {
                            known -= 1;
                            groups[at] = groups[known];
                        } else {
                            at += 1;
                        }
                    }
                }
                4 if known < MAX_GUARDED => {
                    groups[known] = group;
                    known += 1;
                }
                4 => {}
                -1 if errno() == libc::EINTR => {}
                _ => break,
            }
        }
        for &group in &groups[..known] {
            libc::kill(-group, libc::SIGKILL);
        }
        marked::kill_all(mark);
        clear_semaphores(launcher);
        if let Some(ward) = ward
            && ward.segment.status().state() != RankState::Finalized
        {
            let signal = |number: c_int| libc::syscall(libc::SYS_pidfd_send_signal, 1, number, 0, 0);
            if signal(libc::SIGTERM) == 0 {
                libc::write(2, WARD_TEXT.as_ptr().cast(), WARD_TEXT.len());
                let mut ended = libc::pollfd { fd: 1, events: libc::POLLIN, revents: 0 };
                if libc::poll(&raw mut ended, 1, WARD_GRACE_MS) == 0 {
                    signal(libc::SIGKILL);
                }
            }
        }
        libc::_exit(0)
    }
}

/// Removes the semaphores of a launcher that is gone, and of its processes, which may be ending still.
fn clear_semaphores(launcher: i32) {
    for _ in 0..LOOKS_AT_SEMAPHORES {
        if semaphore::remove_abandoned(Some(launcher)) == 0 {
            return;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// Other launchers may have semaphores as well: the guard does not know whose those are that stay.
const LOOKS_AT_SEMAPHORES: u32 = 100;
const BETWEEN_LOOKS: std::time::Duration = std::time::Duration::from_millis(10);

/// Lets this process go on as a child of nobody who knows it: a fork, of which the parent ends at once with code 0. The
/// child leads a process group of its own.
///
/// # Errors
/// What fork(2) says; `Unsupported` if this process has threads.
pub fn detach() -> io::Result<()> {
    detach_with(|| rustix::process::setpgid(None, None))
}

/// As [`detach`], and the child leads a session of its own: no terminal has a say in its life.
///
/// # Errors
/// As there.
pub fn detach_session() -> io::Result<()> {
    detach_with(|| rustix::process::setsid().map(drop))
}

fn detach_with(lead: impl FnOnce() -> rustix::io::Result<()>) -> io::Result<()> {
    if std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a process with threads cannot detach itself",
        ));
    }
    // SAFETY: this process has a single thread, so the child's memory is consistent. The parent ends without running
    // anything more.
    unsafe {
        match libc::fork() {
            -1 => Err(io::Error::last_os_error()),
            0 => Ok(lead()?),
            _ => libc::_exit(0),
        }
    }
}

/// Closes all descriptors but the standard ones and `kept`: those that a program has inherited without being meant to.
pub fn close_others(kept: &[RawFd]) {
    let mut from = 3;
    let mut kept: Vec<RawFd> = kept.iter().copied().filter(|number| *number > 2).collect();
    kept.sort_unstable();
    for end in kept.into_iter().map(|number| number - 1).chain([RawFd::MAX]) {
        if from <= end {
            // SAFETY: close_range(2) on our own descriptors; called at the start of a program, when nothing in it has opened any.
            unsafe { libc::syscall(libc::SYS_close_range, from, end, 0u32) };
        }
        from = end.saturating_add(2);
    }
}

/// Takes a descriptor that this program was started with, and makes it close-on-exec. `None` if there is none of this
/// number, or if it is close-on-exec already: then it was taken before, or belongs to something in this process that
/// opened it (everything written in Rust opens close-on-exec).
pub fn take_inherited(number: RawFd) -> Option<OwnedFd> {
    if number <= 2 {
        return None; // the standard descriptors belong to the program
    }
    // SAFETY: fcntl(2) on a number that is no descriptor fails and does nothing else. The descriptor becomes ours only
    // if it lacks close-on-exec, which nothing that owns a descriptor in Rust leaves out.
    unsafe {
        let flags = libc::fcntl(number, libc::F_GETFD);
        if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
            return None;
        }
        if libc::fcntl(number, libc::F_SETFD, flags | libc::FD_CLOEXEC) < 0 {
            return None;
        }
        Some(OwnedFd::from_raw_fd(number))
    }
}

/// Whether descriptor `number` is open and not close-on-exec, and a file without a name, as a memfd is.
pub fn inherited_is_segment(number: RawFd) -> bool {
    inherited_mode(number).is_some_and(|s| s.st_mode & libc::S_IFMT == libc::S_IFREG && s.st_nlink == 0)
}

/// Whether descriptor `number` is open and not close-on-exec, and a socket that keeps message boundaries.
pub fn inherited_is_control(number: RawFd) -> bool {
    if inherited_mode(number).is_none_or(|s| s.st_mode & libc::S_IFMT != libc::S_IFSOCK) {
        return false;
    }
    let mut kind: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `kind`.
    let failed = unsafe {
        libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_TYPE, (&raw mut kind).cast(), &raw mut length)
    };
    failed == 0 && kind == libc::SOCK_SEQPACKET
}

fn inherited_mode(number: RawFd) -> Option<libc::stat> {
    let mut stat = std::mem::MaybeUninit::uninit();
    // SAFETY: fcntl(2) and fstat(2) fail on a number that is no descriptor; fstat fills `stat` if it succeeds.
    unsafe {
        let flags = libc::fcntl(number, libc::F_GETFD);
        if flags < 0 || flags & libc::FD_CLOEXEC != 0 || libc::fstat(number, stat.as_mut_ptr()) != 0 {
            return None;
        }
        Some(stat.assume_init())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{WaitIdOptions, waitid};

    fn run(args: &[&str], fds: &[(BorrowedFd<'_>, RawFd)]) -> io::Result<i32> {
        run_on(args, fds, None)
    }

    fn run_on(args: &[&str], fds: &[(BorrowedFd<'_>, RawFd)], cpus: Option<&[u64]>) -> io::Result<i32> {
        let args: Vec<CString> = args.iter().map(|a| CString::new(*a).unwrap()).collect();
        let mask = SignalMask(mask_of(&[]));
        let program = Program {
            path: &args[0],
            args: &args,
            env: &[c"A=b".to_owned()],
            directory: Some(c"/"),
            fds,
            mask: &mask,
            open_files: None,
            cpus,
            is_tied: true,
        };
        let process = spawn(&program)?;
        let status = waitid(rustix::process::WaitId::PidFd(process.pidfd.as_fd()), WaitIdOptions::EXITED)?;
        Ok(status.and_then(|s| s.exit_status()).unwrap_or(-1))
    }

    #[test]
    fn a_program_gets_its_arguments_environment_directory_and_group() {
        assert_eq!(
            run(&["/bin/sh", "-c", "test $A = b && test $PWD = / && exit $1", "sh", "7"], &[]).unwrap(),
            7
        );
        let own_group = "test $(cut -d' ' -f5 /proc/$$/stat) = $$";
        assert_eq!(run(&["/bin/sh", "-c", own_group], &[]).unwrap(), 0);
    }

    #[test]
    fn a_program_runs_on_the_processors_that_it_is_given() {
        let cpu = *crate::cpus::allowed().unwrap().last().unwrap();
        let mut mask = vec![0u64; cpu / 64 + 1];
        mask[cpu / 64] = 1 << (cpu % 64);
        let script = "grep -q \"^Cpus_allowed_list:[[:space:]]*$1$\" /proc/self/status";
        let args = ["/bin/sh", "-c", script, "sh", &cpu.to_string()];
        assert_eq!(run_on(&args, &[], Some(&mask)).unwrap(), 0);
        let error = run_on(&args, &[], Some(&[0])).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "no processor at all");
    }

    #[test]
    fn descriptors_that_would_overwrite_each_other_arrive() {
        let (a_read, a_write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let (b_read, b_write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        rustix::io::write(&a_write, b"a\n").unwrap();
        rustix::io::write(&b_write, b"b\n").unwrap();
        // Crosswise: each goes to the number of the other.
        let fds = [(a_read.as_fd(), b_read.as_raw_fd()), (b_read.as_fd(), a_read.as_raw_fd())];
        let script =
            format!("read x <&{}; read y <&{}; test $x$y = ab", b_read.as_raw_fd(), a_read.as_raw_fd());
        assert_eq!(run(&["/bin/bash", "-c", &script], &fds).unwrap(), 0);
    }

    #[test]
    fn a_missing_program_is_an_error_and_leaves_no_child() {
        assert_eq!(run(&["/nonexistent"], &[]).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(run(&["/etc/passwd"], &[]).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn signals_can_be_read_and_the_mask_comes_back() {
        let signals = Signals::new(&[libc::SIGUSR1]).unwrap();
        assert_eq!(signals.next().unwrap(), None);
        // SAFETY: sends a signal, blocked here, to this thread.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGUSR1) };
        assert_eq!(signals.next().unwrap(), Some(libc::SIGUSR1));
        drop(signals);
        let now = set_mask(libc::SIG_BLOCK, &mask_of(&[])).unwrap();
        // SAFETY: asks whether a signal is in a valid set.
        assert_eq!(unsafe { libc::sigismember(&now.0, libc::SIGUSR1) }, 0);
    }

    #[test]
    fn only_an_inheritable_descriptor_is_taken_and_only_once() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(take_inherited(file.as_raw_fd()).is_none(), "close-on-exec: somebody's");
        assert!(
            take_inherited(1).is_none() && take_inherited(-1).is_none() && take_inherited(9999).is_none()
        );
        // SAFETY: a new descriptor, close-on-exec not set, as an exec would leave it.
        let number = unsafe { libc::dup(file.as_raw_fd()) };
        let taken = take_inherited(number).unwrap();
        assert!(take_inherited(number).is_none());
        drop(taken);
    }
}
