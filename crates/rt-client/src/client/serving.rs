//! How a singleton gets a launcher when it first needs one.
//!
//! The singleton starts `mpirun --serve-singleton` of its own installation and passes its segment
//! and a control socket. That `mpirun` is not a child of the program, which therefore never sees it
//! in wait(2). It ends after all processes of the job, and ends them itself if the singleton ends
//! without MPI_Finalize.

use std::ffi::CString;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::sync::PoisonError;

use oxmpi_sys::descriptor::Descriptor;
use oxmpi_sys::spawn::{Program, SignalMask, spawn};
use oxmpi_sys::{fdpass, library};
use rustix::process::{WaitId, WaitIdOptions, waitid};

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
        let prefix = library::prefix().ok_or_else(|| {
            let text = "the library does not lie in an installation, where mpirun would be";
            UniverseError::NoLauncher(text.into())
        })?;
        let control = self.start_launcher(&prefix.join("bin/mpirun"))?;
        self.begin_service(Descriptor::new(control)?);
        Ok(())
    }

    fn start_launcher(&self, mpirun: &Path) -> Result<std::os::fd::OwnedFd, UniverseError> {
        let failed = |error: std::io::Error| {
            UniverseError::NoLauncher(format!("{}: {error}", mpirun.display()))
        };
        let (ours, theirs) = fdpass::pair().map_err(failed)?;
        let path = CString::new(mpirun.as_os_str().as_bytes()).map_err(|e| failed(e.into()))?;
        let args =
            [c"mpirun".to_owned(), CString::new(SERVE_OPTION).map_err(|e| failed(e.into()))?];
        let env: Vec<CString> = std::env::vars_os()
            .filter(|(name, _)| name != BOOT_VARIABLE && name != WAY_IN_VARIABLE)
            .filter_map(|(mut name, value)| {
                name.push("=");
                name.push(value);
                CString::new(name.into_vec()).ok()
            })
            .collect();
        let null = rustix::fs::open(
            "/dev/null",
            rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )
        .map_err(|e| failed(e.into()))?;
        let segment = self.segment_file().map_err(failed)?;
        let program = Program {
            path: &path,
            args: &args,
            env: &env,
            directory: None,
            fds: &[
                (null.as_fd(), 0),
                (segment.as_fd(), SEGMENT_NUMBER),
                (theirs.as_fd(), CONTROL_NUMBER),
            ],
            mask: &SignalMask::none(),
            ignores_none: false,
            open_files: None,
            cpus: None,
            // The launcher ends by itself, and not with the thread that started it.
            is_tied: false,
        };
        let process = spawn(&program).map_err(failed)?;
        // The started process forks and ends, so that the launcher is an orphan.
        match waitid(WaitId::PidFd(process.pidfd.as_fd()), WaitIdOptions::EXITED) {
            // A program that ignores SIGCHLD gets no exit status.
            Err(rustix::io::Errno::CHILD) => Ok(ours),
            Err(error) => Err(failed(error.into())),
            Ok(status) => match status.and_then(|status| status.exit_status()) {
                Some(0) => Ok(ours),
                code => {
                    let text = format!("{} ended with {code:?}", mpirun.display());
                    Err(UniverseError::NoLauncher(text))
                }
            },
        }
    }
}
