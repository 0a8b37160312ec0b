//! A command's standard output and error: no panic if a write fails, and no silent loss.
//!
//! Rust ignores SIGPIPE, and its macros panic when they cannot print. The functions here write, or
//! record the loss. [`end`] reports it and returns the exit code of other commands: 1 for a full
//! disk; for a pipe without a reader that of SIGPIPE, without a message.

use std::fmt;
use std::io::{self, Write as _};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags};

/// The exit code for output without a reader: shells return it for a program killed by SIGPIPE.
pub const UNREAD_CODE: i32 = 128 + libc::SIGPIPE;

static LOST: Mutex<Option<(&str, io::Error)>> = Mutex::new(None);

/// Whether standard output and error were closed when the program was loaded. Rust opens /dev/null
/// in their place before main, and output would be lost silently.
static CLOSED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

#[used]
// SAFETY: the loader calls each function of this section once, before main.
#[unsafe(link_section = ".init_array")]
static NOTE_CLOSED: extern "C" fn() = note_closed;

extern "C" fn note_closed() {
    for (closed, fd) in CLOSED.iter().zip([libc::STDOUT_FILENO, libc::STDERR_FILENO]) {
        // SAFETY: F_GETFD only reads the flags of a number that may be a descriptor.
        closed.store(unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0, Ordering::Relaxed);
    }
}

/// Makes writes fail to an output that was closed when the program was started.
pub fn begin() {
    let Ok(null) = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    else {
        return;
    };
    let [out, err] = CLOSED.each_ref().map(|closed| closed.load(Ordering::Relaxed));
    // A write to a read-only descriptor fails as a write to a closed one.
    if out {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
    if err {
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// Writes all bytes. Rust's own function counts bytes as written that a closed output refuses.
pub fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(fd, bytes))?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Waits until the reader of a pipe has taken all bytes, or the limit is over. Returns at once if
/// the output is no pipe.
pub fn await_reader(output: BorrowedFd<'_>, limit: Duration) {
    let stat = rustix::fs::fstat(output);
    let is_pipe = stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_fifo());
    let has_unread = || rustix::io::ioctl_fionread(output).is_ok_and(|unread| unread > 0);
    let begin = Instant::now();
    while is_pipe && has_unread() && begin.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether an error of an output means that its reader is gone.
pub fn is_unread(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Writes to standard output, unbuffered. Returns `false` if its reader is gone.
pub fn say(bytes: &[u8]) -> bool {
    note("standard output", write_all(rustix::stdio::stdout(), bytes))
}

/// [`say`] for output of other programs on standard error; for the command's own messages use
/// [`complain`](crate::complain!).
pub fn pass_error(bytes: &[u8]) -> bool {
    note("standard error", write_all(rustix::stdio::stderr(), bytes))
}

fn note(output: &'static str, written: io::Result<()>) -> bool {
    let Err(error) = written else { return true };
    let goes_on = !is_unread(&error);
    LOST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((output, error));
    goes_on
}

/// Writes to standard error. An error is ignored: it could not be reported.
pub fn complain(text: fmt::Arguments<'_>) {
    // One write, so that output of other processes does not come between.
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// `eprintln!` that never panics.
#[macro_export]
macro_rules! complain {
    ($($words:tt)*) => {
        $crate::stdio::complain(format_args!("{}\n", format_args!($($words)*)))
    };
}

/// The exit code of a command that would end with `code`, after a check for lost output.
pub fn end(name: &str, code: i32) -> i32 {
    let lost = LOST.lock().unwrap_or_else(PoisonError::into_inner).take();
    match lost {
        Some((_, error)) if is_unread(&error) && code == 0 => UNREAD_CODE,
        Some((output, error)) if !is_unread(&error) => {
            complain!("{name}: cannot write the {output}: {error}");
            if code == 0 { 1 } else { code }
        }
        _ => code,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    #[test]
    fn a_wait_for_a_reader_ends_when_it_has_read_or_is_late() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let wait = |limit| {
            let begin = Instant::now();
            await_reader(write.as_fd(), limit);
            begin.elapsed() >= limit
        };
        let (short, long) = (Duration::from_millis(5), Duration::from_secs(60));
        assert!(!wait(long), "there is nothing to read");
        write_all(write.as_fd(), b"text").unwrap();
        assert!(wait(short), "nobody has read the text");
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| rustix::io::read(&read, &mut [0; 8][..]));
            assert!(!wait(long));
            assert_eq!(reader.join().unwrap(), Ok(4));
        });
    }
}
