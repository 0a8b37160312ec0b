//! How a process gets a launcher of its own installation: a singleton when it first needs one, and
//! the first process of a host in another launcher's job.
//!
//! The process starts `mpirun` with an option that is not for users and passes two descriptors: a
//! singleton its segment and a control socket. That `mpirun` is not a child of the program, which
//! therefore never sees it in wait(2). It ends after all processes of the job. That of a singleton
//! ends them itself if the singleton ends without MPI_Finalize.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::sync::PoisonError;

use oxmpi_sys::descriptor::Descriptor;
use oxmpi_sys::spawn::{Program, SignalMask, spawn};
use oxmpi_sys::{fdpass, library};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::foreign::is_of_other_launcher;

use super::{
    BOOT_VARIABLE, CONTROL_NUMBER, Client, SEGMENT_NUMBER, UniverseError, WAY_IN_VARIABLE,
};

/// The option by which a singleton starts its launcher.
pub const SERVE_OPTION: &str = "--serve-singleton";

impl Client {
    pub(super) fn need_launcher(&self) -> Result<(), UniverseError> {
        let _getting = self.getting_launcher.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_singleton() {
            return Ok(());
        }
        let (ours, theirs) = fdpass::pair()?;
        let segment = self.segment_file()?;
        let fds = [(segment.as_fd(), SEGMENT_NUMBER), (theirs.as_fd(), CONTROL_NUMBER)];
        start_mpirun(SERVE_OPTION, fds).map_err(UniverseError::NoLauncher)?;
        self.begin_service(Descriptor::new(ours)?);
        Ok(())
    }
}

/// Starts the `mpirun` of this installation with an option and two descriptors. Its standard input
/// is empty. The error is for users.
pub(super) fn start_mpirun(option: &str, fds: [(BorrowedFd<'_>, i32); 2]) -> Result<(), String> {
    let prefix = library::prefix().ok_or_else(|| {
        "the library does not lie in an installation, where mpirun would be".to_string()
    })?;
    // In a wheel bin/mpirun is a script.
    let mpirun = prefix.join("bin/oxmpi");
    start_with(&mpirun, option, fds).map_err(|error| {
        let is_limit = error.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error());
        let remedy = match is_limit {
            true => "; the limit on open files must be 64 or more (ulimit -n)",
            false => "",
        };
        format!("{}: {error}{remedy}", mpirun.display())
    })
}

fn start_with(
    mpirun: &Path,
    option: &str,
    [first, second]: [(BorrowedFd<'_>, i32); 2],
) -> io::Result<()> {
    let is_passed = |name: &OsStr| {
        let is_ours = name == BOOT_VARIABLE || name == WAY_IN_VARIABLE;
        !is_ours && !is_of_other_launcher(&name.to_string_lossy())
    };
    let env: Vec<CString> = std::env::vars_os()
        .filter(|(name, _)| is_passed(name))
        .filter_map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            CString::new(name.into_vec()).ok()
        })
        .collect();
    let null = File::open("/dev/null")?;
    let process = spawn(&Program {
        path: &CString::new(mpirun.as_os_str().as_bytes())?,
        args: &[c"mpirun".to_owned(), CString::new(option)?],
        env: &env,
        directory: None,
        fds: &[(null.as_fd(), 0), first, second],
        mask: &SignalMask::none(),
        ignores_none: false,
        open_files: None,
        cpus: None,
        // The launcher ends by itself, and not with the thread that started it.
        is_tied: false,
    })?;
    // The started process forks and ends, so that the launcher is an orphan.
    match waitid(WaitId::PidFd(process.pidfd.as_fd()), WaitIdOptions::EXITED) {
        // A program that ignores SIGCHLD gets no exit status.
        Err(rustix::io::Errno::CHILD) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(status) => match status.and_then(|status| status.exit_status()) {
            Some(0) => Ok(()),
            code => Err(io::Error::other(format!("it ended with {code:?}"))),
        },
    }
}
