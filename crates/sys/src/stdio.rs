//! What a command says on its standard output and error: without a panic where that is full or where nobody reads it, and without
//! silence about it.
//!
//! Rust ignores SIGPIPE and its macros panic when they cannot print. What is said here is written, or noted as lost; [`end`] reports
//! that, and gives the exit code: as other commands have it, 1 for a full disk, and for a pipe that nobody reads that of
//! SIGPIPE and no word.

use std::fmt;
use std::io::{self, Write as _};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};

/// The exit code for output that nobody reads: what a shell has for a program that SIGPIPE has killed.
pub const UNREAD_CODE: i32 = 128 + libc::SIGPIPE;

/// The first error, and of which output.
static LOST: Mutex<Option<(&str, io::Error)>> = Mutex::new(None);

/// Whether the standard output and error were closed when the program was loaded: Rust puts /dev/null there before main, and what goes
/// there would be lost without a word.
static CLOSED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

#[used]
// SAFETY: the loader calls the functions of this section, of which this is one, once, before main.
#[unsafe(link_section = ".init_array")]
static NOTE_CLOSED: extern "C" fn() = note_closed;

extern "C" fn note_closed() {
    for (closed, fd) in CLOSED.iter().zip([libc::STDOUT_FILENO, libc::STDERR_FILENO]) {
        // SAFETY: it only asks for the flags of a number that may be a descriptor.
        closed.store(unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0, Ordering::Relaxed);
    }
}

/// Lets writing to an output fail that was closed when the program was started.
pub fn begin() {
    let Ok(null) = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return;
    };
    let [out, err] = CLOSED.each_ref().map(|closed| closed.load(Ordering::Relaxed));
    // What is read-only is as bad to write to as what is closed.
    if out {
        let _ = rustix::stdio::dup2_stdout(&null);
    }
    if err {
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// Writes all of it. Rust's own takes what a closed output refuses for written.
pub fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether an error of an output means that nobody reads it any more.
pub fn is_unread(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Writes to the standard output, now. Whether that may go on: not if nobody reads it any more.
pub fn say(bytes: &[u8]) -> bool {
    note("standard output", write_all(rustix::stdio::stdout(), bytes))
}

/// The same on the standard error, of what others have said; for one's own words there is [`complain`](crate::complain!).
pub fn pass_error(bytes: &[u8]) -> bool {
    note("standard error", write_all(rustix::stdio::stderr(), bytes))
}

fn note(output: &'static str, written: io::Result<()>) -> bool {
    let Err(error) = written else { return true };
    let goes_on = !is_unread(&error);
    LOST.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((output, error));
    goes_on
}

/// Writes to the standard error. If that fails there is nobody to tell.
pub fn complain(text: fmt::Arguments<'_>) {
    // In one piece, so that what others write does not get between.
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// A line on the standard error, as `eprintln!` writes it; but it never panics.
#[macro_export]
macro_rules! complain {
    ($($words:tt)*) => {
        $crate::stdio::complain(format_args!("{}\n", format_args!($($words)*)))
    };
}

/// The exit code of a command that would end with `code`, when what it has said is counted: it has not ended well if that is lost.
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
