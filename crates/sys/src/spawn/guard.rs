//! The process that ends the ranks when the launcher is killed: a fork of the launcher.

use super::{errno, marked};
use crate::net;
use crate::semaphore;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// A process that outlives the launcher for a moment. When the launcher has ended without
/// [`Guard::dismiss`], the guard kills all watched process groups and all processes with its mark
/// in their environment, and removes the launcher's semaphores.
#[derive(Debug)]
pub struct Guard {
    pid: i32,
    pipe: OwnedFd,
    mark: String,
}

/// The environment variable with the guard's mark.
pub const GUARD_VARIABLE: &str = "OXMPI_GUARD";

pub const MAX_GUARDED: usize = 8192;

/// Marks the number of a single process. Linux's numbers are below 2^22.
const SINGLE: i32 = 1 << 30;

impl Guard {
    /// Starts the guard: a fork of this process, which must have no other thread.
    pub fn start() -> io::Result<Guard> {
        Guard::start_with(new_mark()?, None)
    }

    /// Starts a guard with the `mark` of an earlier guard, for processes that were restored from
    /// images with this mark in their environment.
    pub fn start_again(mark: &str) -> io::Result<Guard> {
        Guard::start_with(format!("{GUARD_VARIABLE}={mark}"), None)
    }

    /// Starts a guard for the launcher of a process that the launcher has not started. If the
    /// launcher ends without [`Guard::dismiss`] while that process uses MPI, the guard prints a
    /// message and ends the process: by SIGTERM, and by SIGKILL after [`WARD_GRACE_MS`]. The guard
    /// calls `has_left` once, in the fork, for whether the process has finished MPI. `has_left` may
    /// read memory that is mapped now, but must use no descriptor and not panic.
    pub fn start_for(ward: BorrowedFd<'_>, has_left: &dyn Fn() -> bool) -> io::Result<Guard> {
        Guard::start_with(new_mark()?, Some(Ward { process: ward.as_raw_fd(), has_left }))
    }

    fn start_with(mark: String, ward: Option<Ward<'_>>) -> io::Result<Guard> {
        // A joined thread stays in /proc until the kernel has released it.
        let has_threads =
            || std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1);
        let start = Instant::now();
        while has_threads() && start.elapsed() < JOINED_LIMIT {
            std::thread::yield_now();
        }
        if has_threads() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "a guard cannot be forked from a process with threads",
            ));
        }
        let (read, pipe) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let launcher = std::process::id().cast_signed();
        // SAFETY: this process has a single thread, so the child's memory is consistent; the child
        // runs only `guard`, which never returns.
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

    /// The value of [`GUARD_VARIABLE`] for processes under this guard and their descendants: a
    /// number that no other guard has.
    pub fn mark(&self) -> &str {
        self.mark.split_once('=').map_or("", |(_, value)| value)
    }

    /// Puts a process group under guard. Its leader must not be reaped before [`Guard::dismiss`] or
    /// [`Guard::forget`], so that no other process gets its number.
    pub fn watch(&self, group: i32) -> io::Result<()> {
        rustix::io::write(&self.pipe, &group.to_ne_bytes())?;
        Ok(())
    }

    /// Puts a single process under guard, which leads no group of this launcher. When it has ended,
    /// call [`Guard::forget_one`]: another process may get its number.
    pub fn watch_one(&self, process: i32) -> io::Result<()> {
        self.watch(process | SINGLE)
    }

    /// Takes a single process out of guard.
    pub fn forget_one(&self, process: i32) -> io::Result<()> {
        self.forget(process | SINGLE)
    }

    /// Takes a process group out of guard. Call it when no process of the group is left; its leader
    /// may then be reaped.
    pub fn forget(&self, group: i32) -> io::Result<()> {
        self.watch(-group)
    }

    /// Ends the guard: the launcher has ended all processes itself.
    pub fn dismiss(self) {
        // It fails only if the guard is gone.
        let _ = rustix::io::write(&self.pipe, &0i32.to_ne_bytes());
        // SAFETY: waits for a child of this process; no status is stored.
        unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
    }
}

fn new_mark() -> io::Result<String> {
    let mut number = [0; 8];
    net::fill_random(&mut number)?;
    Ok(format!("{GUARD_VARIABLE}={:016x}", u64::from_ne_bytes(number)))
}

/// A process that the launcher has not started, and that ends with it.
struct Ward<'a> {
    process: RawFd,
    has_left: &'a dyn Fn() -> bool,
}

/// Between SIGTERM and SIGKILL for a process whose launcher was killed.
pub const WARD_GRACE_MS: i32 = 400;

const WARD_TEXT: &[u8] = b"mpirun: this process, which was started without mpirun, had an mpirun of \
its own for MPI_Comm_spawn and MPI_Comm_connect. That mpirun was killed, and the processes that it had \
started were ended with it. MPI cannot go on here without them, so this process is ended too.\n";

fn guard(pipe: RawFd, mark: &str, launcher: i32, ward: Option<&Ward<'_>>) -> ! {
    let mut groups = [0i32; MAX_GUARDED];
    let mut known = 0;
    // SAFETY: system calls of a process on its own descriptors and on the watched groups. The
    // launcher keeps the leaders of these groups unreaped, so that no other process has their
    // numbers.
    unsafe {
        // A new session: signals of the terminal to the launcher's group do not reach the guard.
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, marked::GUARD_NAME.as_ptr());
        // The guard must not keep pipes of other processes open.
        libc::dup2(pipe, 0);
        if let Some(ward) = ward {
            // Standard error stays open as well.
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
            let is_single = group & SINGLE != 0;
            libc::kill(if is_single { group & !SINGLE } else { -group }, libc::SIGKILL);
        }
        marked::kill_all(mark);
        clear_semaphores(launcher);
        if let Some(ward) = ward
            && !(ward.has_left)()
        {
            let signal =
                |number: c_int| libc::syscall(libc::SYS_pidfd_send_signal, 1, number, 0, 0);
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

/// Removes the semaphores of a dead launcher. Its processes may still be ending, so it tries again.
fn clear_semaphores(launcher: i32) {
    for _ in 0..SEMAPHORE_POLLS {
        if semaphore::remove_abandoned(Some(launcher)) == 0 {
            return;
        }
        std::thread::sleep(SEMAPHORE_POLL_INTERVAL);
    }
}

/// The longest wait until joined threads have left /proc.
const JOINED_LIMIT: Duration = Duration::from_secs(1);

/// A limit, since sets of other launchers stay and the guard cannot distinguish them.
const SEMAPHORE_POLLS: u32 = 100;
const SEMAPHORE_POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(10);
