//! The terminal of a restored job: that of `oxmpi restart`, or a new one whose output is passed on.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use oxmpi_checkpoint::manifest::Stream;
use rustix::fs::{Mode, OFlags, open};
use rustix::process::ioctl_tiocsctty;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// The other end of a new terminal, if there is one.
pub(super) struct Terminal(Option<OwnedFd>);

fn places(streams: &[Stream; 3]) -> Vec<BorrowedFd<'static>> {
    let own = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    streams
        .iter()
        .zip(own)
        .filter(|(stream, _)| **stream == Stream::Terminal)
        .map(|(_, own)| own)
        .collect()
}

/// Whether a job needs a new terminal, which only the leader of a session without one can make.
pub(super) fn needs_new(streams: &[Stream; 3]) -> bool {
    !places(streams).iter().all(BorrowedFd::is_terminal)
}

impl Terminal {
    pub(super) fn none() -> Terminal {
        Terminal(None)
    }

    pub(super) fn of(streams: &[Stream; 3]) -> io::Result<(Option<OwnedFd>, Terminal)> {
        if !needs_new(streams) {
            let first = places(streams).first().map(BorrowedFd::try_clone_to_owned).transpose()?;
            return Ok((first, Terminal(None)));
        }
        let other = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&other)?;
        unlockpt(&other)?;
        let name = ptsname(&other, Vec::new())?;
        let job = open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
        // Of this session; CRIU sets the group of the job in the foreground.
        ioctl_tiocsctty(&job)?;
        rustix::io::ioctl_fionbio(&other, true)?;
        Ok((Some(job), Terminal(Some(other))))
    }

    pub(super) fn output(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|fd| fd.as_fd())
    }

    pub(super) fn pass_on(&mut self) {
        let mut buffer = [0; 4096];
        while let Some(other) = &self.0 {
            match rustix::io::read(other, &mut buffer) {
                Ok(n @ 1..) => _ = oxmpi_sys::stdio::say(&lines(&buffer[..n])),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return,
                // No process has it open any more.
                Ok(0) | Err(_) => self.0 = None,
            }
        }
    }
}

/// Line ends of a file, and not of a terminal.
fn lines(output: &[u8]) -> Vec<u8> {
    output.iter().copied().filter(|byte| *byte != b'\r').collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_without_a_terminal_gets_none() {
        let streams = [Stream::File, Stream::File, Stream::Outside("pipe:[1]".into())];
        let (job, terminal) = Terminal::of(&streams).unwrap();
        assert!(job.is_none() && terminal.output().is_none() && !needs_new(&streams));
        assert_eq!(lines(b"a\r\nb\r\n"), b"a\nb\n");
    }
}
