//! Starting processes, and making sure that they end: the launcher's interface to the kernel.
//!
//! - [`spawn`] starts a program. The child borrows the launcher's memory until it calls execve(2),
//!   as with vfork(2): the cost does not depend on the launcher's size, and a failed execve is an
//!   ordinary error.
//! - [`Signals`] makes signals pollable, so that a launcher needs no handler.
//! - [`relay`] passes signals on to a child that gets the same signals from elsewhere.
//! - [`Guard`] is a small process that kills the ranks when the launcher is killed.
//! - [`PidNamespace`] has process numbers that are independent of this host's.
//! - [`take_inherited`] takes the descriptors that the launcher has passed to a program.

mod guard;
mod inherited;
mod marked;
mod namespace;
mod relayed;
mod signals;

pub use self::guard::{GUARD_VARIABLE, Guard, MAX_GUARDED, WARD_GRACE_MS};
pub use self::inherited::{
    close_others, inherited_is_control, inherited_is_segment, is_live_socket, take_inherited,
};
pub use self::namespace::{PidNamespace, identity_of, init, may_make_namespaces};
pub use self::relayed::{RELAYED, relay, stand_ins, stands_for};
pub use self::signals::{
    IGNORABLE, SignalMask, Signals, survive_by_default, unignore_children, without_signals,
};

use self::signals::{full_mask, set_mask};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A program to start.
#[derive(Debug)]
pub struct Program<'a> {
    pub path: &'a CStr,
    /// The program's own name is the first.
    pub args: &'a [CString],
    /// `NAME=value` each.
    pub env: &'a [CString],
    /// The working directory; `None`: the launcher's.
    pub directory: Option<&'a CStr>,
    /// Descriptors of the launcher, each with its number in the program. The program also inherits
    /// other descriptors without close-on-exec.
    pub fds: &'a [(BorrowedFd<'a>, RawFd)],
    pub mask: &'a SignalMask,
    /// Whether no signal is ignored at the start. If `false`, the program ignores the signals that
    /// the launcher was started to ignore, except SIGPIPE and SIGCHLD ([`unignore_children`]).
    pub ignores_none: bool,
    /// The limit on open files (soft, hard); `None`: the launcher's.
    pub open_files: Option<(u64, u64)>,
    /// The processors: bit `n % 64` of word `n / 64` is processor `n`; `None`: the launcher's.
    pub cpus: Option<&'a [u64]>,
    /// Whether the kernel kills the program when the thread that has started it ends.
    pub is_tied: bool,
}

/// A started process, the leader of its own process group.
#[derive(Debug)]
pub struct Process {
    /// Also the id of the process group.
    pub pid: i32,
    /// Becomes readable when the process ends (pidfd_open(2)).
    pub pidfd: OwnedFd,
}

const LAST_SIGNAL: c_int = 64;
pub const MAX_FDS: usize = 8;

/// The data of the child between clone and execve, in memory shared with the launcher.
struct Child<'a> {
    program: &'a Program<'a>,
    argv: *const *const c_char,
    envp: *const *const c_char,
    parent: libc::pid_t,
    error: c_int,
}

/// Starts a program. Errors: the error of clone(2), of placing the descriptors, or of execve(2),
/// such as `NotFound`, `PermissionDenied`, or ENOEXEC for a script without "#!".
pub fn spawn(program: &Program<'_>) -> io::Result<Process> {
    const STACK: usize = 64 << 10;
    if program.fds.len() > MAX_FDS || program.fds.iter().any(|&(_, to)| to < 0) {
        let text =
            format!("at most {MAX_FDS} descriptors can be handed to a program, numbered from 0");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let argv = null_terminated(program.args);
    let envp = null_terminated(program.env);
    // SAFETY: getpid(2) has no preconditions.
    let parent = unsafe { libc::getpid() };
    let mut child = Child { program, argv: argv.as_ptr(), envp: envp.as_ptr(), parent, error: 0 };
    let mut stack: Vec<u128> = Vec::with_capacity(STACK / size_of::<u128>());
    let mut pidfd: c_int = -1;

    // No signal may run a handler in the child while it shares the launcher's memory.
    let old = set_mask(libc::SIG_BLOCK, &full_mask())?;
    // SAFETY: `stack` has STACK bytes, aligned to 16, and grows down from its end. `child`, and
    // everything to which it points, lives until clone returns, which is after the child has called
    // execve or _exit (CLONE_VFORK). The child runs only `run_child`, which makes only system
    // calls. With CLONE_PIDFD the kernel stores through the fifth argument, which points to a
    // c_int.
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
    let clone_error = io::Error::last_os_error();
    set_mask(libc::SIG_SETMASK, &old.0)?;
    if pid < 0 {
        return Err(clone_error);
    }
    // SAFETY: the kernel has just created this descriptor, close-on-exec.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    if child.error != 0 {
        // SAFETY: waits for a child of this process, which has called _exit; no status is stored.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
        return Err(io::Error::from_raw_os_error(child.error));
    }
    Ok(Process { pid, pidfd })
}

extern "C" fn run_child(arg: *mut c_void) -> c_int {
    // SAFETY: `spawn` passes a pointer to its `Child`, and sleeps until execve or _exit.
    let child = unsafe { &mut *arg.cast::<Child<'_>>() };
    child.error = prepare_and_exec(child);
    // SAFETY: ends the child without running any exit handler of the launcher.
    unsafe { libc::_exit(127) }
}

/// Returns the errno of the failed call. Makes system calls only: no allocation, no lock.
fn prepare_and_exec(child: &Child<'_>) -> c_int {
    let program = child.program;
    // SAFETY: system calls of a process on itself; pointers refer to values here or in `child`.
    unsafe {
        if libc::setpgid(0, 0) != 0 {
            return errno();
        }
        if program.is_tied && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
            return errno();
        }
        if program.is_tied && libc::getppid() != child.parent {
            return libc::ESRCH; // the launcher died before prctl, so its death would not kill this process
        }
        // First all descriptors move away from the numbers that the program will use, so that none
        // is overwritten too early. They move to the lowest free numbers, as the limit on open
        // files may allow no higher ones.
        let is_target = |number| program.fds.iter().any(|&(_, to)| to == number);
        let mut moved = [-1; MAX_FDS];
        for (moved, &(from, _)) in moved.iter_mut().zip(program.fds) {
            *moved = from.as_raw_fd();
            let mut lowest = 0;
            while is_target(*moved) {
                *moved = libc::fcntl(from.as_raw_fd(), libc::F_DUPFD_CLOEXEC, lowest);
                if *moved < 0 {
                    return errno();
                }
                lowest = *moved + 1;
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
        // Rust programs ignore SIGPIPE, and execve would pass that on.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        if program.ignores_none {
            for signal in 1..=LAST_SIGNAL {
                // It fails for SIGKILL, SIGSTOP and the signals of the C library, which are never
                // ignored.
                libc::signal(signal, libc::SIG_DFL);
            }
        }
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

/// Continues this process as a child that no other process waits for: forks, and the parent exits
/// at once with code 0. The child leads its own process group.
pub fn detach() -> io::Result<()> {
    detach_with(|| rustix::process::setpgid(None, None))
}

/// [`detach`] with a new session for the child, so that no terminal sends signals to it.
pub fn detach_session() -> io::Result<()> {
    detach_with(|| rustix::process::setsid().map(drop))
}

fn detach_with(lead: impl FnOnce() -> rustix::io::Result<()>) -> io::Result<()> {
    match fork()? {
        None => Ok(lead()?),
        // SAFETY: ends the parent without running any exit handler.
        Some(_) => unsafe { libc::_exit(0) },
    }
}

/// Forks. Returns the number of the child in the parent, `None` in the child. The kernel kills the
/// child when the parent ends.
pub fn split() -> io::Result<Option<rustix::process::Pid>> {
    use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
    let parent = getpid();
    let child = fork()?;
    if child.is_none() {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(parent) {
            // SAFETY: the parent ended before prctl took effect; this ends the child without
            // running any exit handler.
            unsafe { libc::_exit(0) };
        }
    }
    Ok(child)
}

fn fork() -> io::Result<Option<rustix::process::Pid>> {
    if std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1) {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a process with threads cannot be forked",
        ));
    }
    // SAFETY: this process has a single thread, so the child's memory is consistent.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(rustix::process::Pid::from_raw(child)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{WaitIdOptions, waitid};
    use std::os::fd::AsFd as _;

    fn run(args: &[&str], fds: &[(BorrowedFd<'_>, RawFd)]) -> io::Result<i32> {
        run_on(args, fds, None)
    }

    fn run_on(
        args: &[&str],
        fds: &[(BorrowedFd<'_>, RawFd)],
        cpus: Option<&[u64]>,
    ) -> io::Result<i32> {
        let args: Vec<CString> = args.iter().map(|a| CString::new(*a).unwrap()).collect();
        let mask = SignalMask::none();
        let program = Program {
            path: &args[0],
            args: &args,
            env: &[c"A=b".to_owned()],
            directory: Some(c"/"),
            fds,
            mask: &mask,
            ignores_none: true,
            open_files: None,
            cpus,
            is_tied: true,
        };
        let process = spawn(&program)?;
        let status =
            waitid(rustix::process::WaitId::PidFd(process.pidfd.as_fd()), WaitIdOptions::EXITED)?;
        Ok(status.and_then(|s| s.exit_status()).unwrap_or(-1))
    }

    #[test]
    fn a_program_gets_its_arguments_environment_directory_and_group() {
        assert_eq!(
            run(&["/bin/sh", "-c", "test $A = b && test $PWD = / && exit $1", "sh", "7"], &[])
                .unwrap(),
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
        let fds = [(a_read.as_fd(), b_read.as_raw_fd()), (b_read.as_fd(), a_read.as_raw_fd())];
        let script = format!(
            "read x <&{}; read y <&{}; test $x$y = ab",
            b_read.as_raw_fd(),
            a_read.as_raw_fd()
        );
        assert_eq!(run(&["/bin/bash", "-c", &script], &fds).unwrap(), 0);
    }

    #[test]
    fn a_missing_program_is_an_error_and_leaves_no_child() {
        assert_eq!(run(&["/nonexistent"], &[]).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(run(&["/etc/passwd"], &[]).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
