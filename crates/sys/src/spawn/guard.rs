//! The process that sees to the ranks when the launcher is killed and cannot: a fork of it, with its whole life.

use super::{errno, marked};
use crate::net;
use crate::semaphore;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

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
        Guard::start_with(new_mark()?, None)
    }

    /// The same in place of a guard before, of which processes have the `mark` in their environment: they were restored from images.
    ///
    /// # Errors
    /// As [`Guard::start`].
    pub fn start_again(mark: &str) -> io::Result<Guard> {
        Guard::start_with(format!("{GUARD_VARIABLE}={mark}"), None)
    }

    /// The same for the launcher of a process that it has not started: when the launcher is gone without having said farewell
    /// while that process uses MPI, the guard says so and ends the process: by SIGTERM, and after [`WARD_GRACE_MS`] by
    /// SIGKILL. `has_left` says whether the process is done with MPI: the guard asks it once, in the fork, so it may read memory
    /// that this process has mapped now, and shall use no descriptor and not panic.
    ///
    /// # Errors
    /// As [`Guard::start`].
    pub fn start_for(ward: BorrowedFd<'_>, has_left: &dyn Fn() -> bool) -> io::Result<Guard> {
        Guard::start_with(new_mark()?, Some(Ward { process: ward.as_raw_fd(), has_left }))
    }

    fn start_with(mark: String, ward: Option<Ward<'_>>) -> io::Result<Guard> {
        if std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "a guard cannot be forked from a process with threads",
            ));
        }
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

/// What processes under a new guard have in their environment.
fn new_mark() -> io::Result<String> {
    let mut number = [0; 8];
    net::fill_random(&mut number)?;
    Ok(format!("{GUARD_VARIABLE}={:016x}", u64::from_ne_bytes(number)))
}

/// Who is not the launcher's child, and ends with it all the same.
struct Ward<'a> {
    /// A descriptor of the process.
    process: RawFd,
    /// Whether it is done with MPI.
    has_left: &'a dyn Fn() -> bool,
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
            && !(ward.has_left)()
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
