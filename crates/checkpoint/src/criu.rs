//! CRIU: its program, its command lines, and the reasons of failures in its log.
//!
//! TCP connections are not in an image (`--tcp-close`). A restored rank finds them ended and makes
//! new ones. The records of a connection are numbered, so lost records are sent again. Therefore no
//! firewall rule has to hold back packets while an image is made. Such a rule would need iptables
//! or nft and a capability, and would cut the job's connections for good if CRIU were killed.

mod getting;
mod log;
mod message;
mod queues;
mod sockets;
mod stats;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use oxmpi_sys::spawn::may_make_namespaces;
use rustix::io::{FdFlags, fcntl_setfd};

use self::getting::{advice, is_new_enough};
pub use self::log::{CriuFailure, reason};
pub use self::queues::has_descriptor_under_way;
pub use self::sockets::close_sockets;
pub use self::stats::pause_s;
use crate::manifest::Stream;
use crate::trust::Folder;

/// The longest unnamed file in an image: CRIU accepts no more.
const GHOST_LIMIT: &str = "4095M";
/// CRIU's output before it has a log, in the directory for logs.
pub const OUTPUT: &str = "criu.out";
const DUMP_LOG: &str = "dump.log";
const RESTORE_LOG: &str = "restore.log";

/// The reason why CRIU cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CriuError {
    #[error(
        "images of processes are made by CRIU, and there is no program 'criu' in PATH ({path}); if it is somewhere else, name it with \
         the parameter cr_blcr_criu ('--mca cr_blcr_criu /DIR/criu'). {}",
        advice()
    )]
    NotInPath { path: String },
    #[error("the parameter cr_blcr_criu names {}, which {why}", program.display())]
    Unusable { program: PathBuf, why: String },
    #[error(
        "{} is CRIU {version}, which is too old: older versions fail on newer kernels; name a newer one with the parameter cr_blcr_criu \
         ('--mca cr_blcr_criu /DIR/criu'). {}", program.display(), advice()
    )]
    TooOld { program: PathBuf, version: String },
    #[error(
        "CRIU cannot work here: '{} check' says '{why}'; {}name another one with the parameter cr_blcr_criu",
        program.display(), log::remedy_of_check(program, why)
    )]
    Check { program: PathBuf, why: String },
}

/// An installed CRIU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Criu {
    pub program: PathBuf,
    pub version: String,
    pub options: Vec<String>,
    /// Whether this process has all rights of root.
    pub is_root: bool,
}

impl Criu {
    /// Finds the program `configured`; if empty, the first 'criu' in PATH or root's directories.
    pub fn find(configured: &str, options: &str) -> Result<Criu, CriuError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = match configured {
            "" => find_in(&path)?,
            // CRIU may be started in another directory, so the path becomes absolute. A name
            // without a slash is searched in PATH.
            named if named.contains('/') => {
                let failed = |error| CriuError::Unusable {
                    program: named.into(),
                    why: format!("has no absolute path: {error}"),
                };
                std::path::absolute(named).map_err(failed)?
            }
            named => PathBuf::from(named),
        };
        let unusable = |why: String| CriuError::Unusable { program: program.clone(), why };
        let output = Command::new(&program).arg("--version").stdin(Stdio::null()).output();
        let output = output.map_err(|error| unusable(format!("cannot be run: {error}")))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = version_in(&text).ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            unusable(format!(
                "is not CRIU: its answer to --version is '{}{}'",
                text.trim(),
                errors.trim()
            ))
        })?;
        if !is_new_enough(&version) {
            return Err(CriuError::TooOld { program, version });
        }
        let options = options.split_ascii_whitespace().map(String::from).collect();
        Ok(Criu { program, version, options, is_root: is_root() })
    }

    /// The command that makes an image of a process tree. CRIU calls `action` between its steps.
    /// Unless `ends`, the processes continue afterwards.
    pub fn dump(
        &self,
        process: u32,
        places: &Places<'_>,
        streams: &[Stream],
        ends: bool,
    ) -> Command {
        let mut command = self.command("dump", places, DUMP_LOG);
        command.args(["-t", &process.to_string(), "--ghost-limit", GHOST_LIMIT]);
        if !ends {
            command.arg("--leave-running");
        }
        for stream in streams {
            if let Stream::Outside(name) = stream
                && !name.starts_with("pipe:")
            {
                command.args(["--external", &dumped_name(name)]);
            }
        }
        command.args(&self.options);
        // A new group, so that ^C in the terminal does not kill CRIU while it traces the processes.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command
    }

    /// The command that restores an image as children of its caller, with the descriptors `given`
    /// in place of streams.
    pub fn restore(&self, places: &Places<'_>, given: &[(i32, &Stream)]) -> Command {
        let mut command = self.command("restore", places, RESTORE_LOG);
        command.args(["--restore-detached", "--restore-sibling"]);
        let mut names = Vec::new();
        for (number, stream) in given {
            if let Stream::Outside(name) = stream
                && !names.contains(&name)
            {
                names.push(name);
                if let Some(external) = restored_name(name) {
                    command.args(["--external", &external]);
                }
                command.args(["--inherit-fd", &format!("fd[{number}]:{name}")]);
            }
        }
        command.args(&self.options);
        command
    }

    fn command(&self, what: &str, places: &Places<'_>, log: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(what).arg("-D").arg(places.image).arg("-W").arg(places.work);
        command.args(["-o", log, "-v2", "--shell-job", "--tcp-close", "--skip-in-flight"]);
        command.args(["--ext-unix-sk", "--file-locks"]);
        if !self.is_root {
            command.arg("--unprivileged");
        }
        if let Some(action) = places.action {
            command.arg("--action-script").arg(action);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs CRIU's check of this kernel and of the rights of this process.
    pub fn check(&self) -> Result<(), CriuError> {
        let mut command = Command::new(&self.program);
        command.arg("check").args((!self.is_root).then_some("--unprivileged")).stdin(Stdio::null());
        let failed = |why: String| CriuError::Check { program: self.program.clone(), why };
        let output = command.output().map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let lines = said
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.contains("Warn  ("));
        Err(failed(lines.collect::<Vec<_>>().join("; ")))
    }

    /// Why CRIU could not restore an image, in words.
    pub fn failed_restore(&self, work: &Path, status: ExitStatus) -> CriuFailure {
        match status.signal() {
            Some(signal) => CriuFailure {
                text: format!(
                    "CRIU {} ({}) was ended by signal {signal}",
                    self.version,
                    self.program.display()
                ),
                quoted: String::new(),
            },
            None => self.failure(work, false),
        }
    }

    /// The reason of a failure in CRIU's log, in words.
    pub fn failure(&self, work: &Path, is_dump: bool) -> CriuFailure {
        let read = |name: &str| {
            let bytes = std::fs::read(work.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let log = read(if is_dump { DUMP_LOG } else { RESTORE_LOG });
        reason(&log, &read(OUTPUT), &self.program, &self.version)
    }
}

/// Whether CRIU can run without `--unprivileged`. In some containers root lacks the rights for it.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root() && may_make_namespaces()
}

/// Sends CRIU's output to a file in `work`: a pipe would end CRIU together with the pipe's reader.
pub(crate) fn log_output(command: &mut Command, work: &Path) -> io::Result<()> {
    let output = std::fs::File::create(work.join(OUTPUT))?;
    command.stdout(output.try_clone()?).stderr(output);
    Ok(())
}

/// Directories and the action program of one run of CRIU.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    pub image: &'a Path,
    pub work: &'a Path,
    pub action: Option<&'a Path>,
}

/// A checked directory that CRIU inherits as a descriptor. A path could lead to another directory
/// by the time CRIU opens it.
#[derive(Debug)]
pub(crate) struct InheritedFolder {
    _fd: OwnedFd,
    path: PathBuf,
}

impl InheritedFolder {
    pub(crate) fn new(folder: Folder) -> io::Result<InheritedFolder> {
        let fd = OwnedFd::from(folder);
        fcntl_setfd(&fd, FdFlags::empty())?;
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd()).into();
        Ok(InheritedFolder { _fd: fd, path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The stream of a process's descriptor. Fails if /proc cannot be read.
pub fn stream_of(process: u32, number: u32) -> std::io::Result<Stream> {
    let path = format!("/proc/{process}/fd/{number}");
    let link = match std::fs::read_link(&path) {
        Ok(link) => link.to_string_lossy().into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Stream::File),
        Err(error) => return Err(error),
    };
    if link.starts_with("pipe:") || link.starts_with("socket:") {
        return Ok(Stream::Outside(link));
    }
    if link.starts_with("/dev/pts/") || link.starts_with("/dev/tty") || link == "/dev/console" {
        return Ok(Stream::Terminal);
    }
    Ok(Stream::File)
}

fn dumped_name(name: &str) -> String {
    match name.strip_prefix("socket:[") {
        Some(number) => format!("unix[{number}"),
        None => name.to_string(),
    }
}

/// The name for `--external` of a restart; only sockets need one.
fn restored_name(name: &str) -> Option<String> {
    name.starts_with("socket:").then(|| dumped_name(name))
}

fn version_in(text: &str) -> Option<String> {
    let version = text.lines().find_map(|line| line.strip_prefix("Version:"))?.trim();
    (!version.is_empty()).then(|| version.to_string())
}

fn find_in(path: &OsStr) -> Result<PathBuf, CriuError> {
    let is_program = |file: &PathBuf| {
        let executable = |metadata: std::fs::Metadata| metadata.permissions().mode() & 0o111 != 0;
        file.is_file() && std::fs::metadata(file).is_ok_and(executable)
    };
    let directories = std::env::split_paths(path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let all: Vec<PathBuf> = directories.collect();
    let searched: Vec<OsString> =
        all.iter().map(|directory| directory.clone().into_os_string()).collect();
    all.into_iter().map(|directory| directory.join("criu")).find(is_program).ok_or_else(|| {
        CriuError::NotInPath { path: searched.join(OsStr::new(":")).to_string_lossy().into_owned() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn criu(is_root: bool) -> Criu {
        Criu {
            program: "/x/criu".into(),
            version: "4.2.1".into(),
            options: vec!["-v4".into()],
            is_root,
        }
    }

    fn words(command: &Command) -> String {
        command.get_args().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_command_line_of_an_image() {
        let streams = ["pipe:[1]", "socket:[2]"].map(|name| Stream::Outside(name.into()));
        let places =
            Places { image: Path::new("/i"), work: Path::new("/w"), action: Some(Path::new("/a")) };
        assert_eq!(
            words(&criu(false).dump(7, &places, &streams, false)),
            "dump -D /i -W /w -o dump.log -v2 --shell-job --tcp-close --skip-in-flight --ext-unix-sk --file-locks --unprivileged \
             --action-script /a -t 7 --ghost-limit 4095M --leave-running --external unix[2] -v4"
        );
        assert!(
            !words(&criu(true).dump(7, &places, &[], true)).contains("-running --unprivileged")
        );
    }

    #[test]
    fn the_command_line_of_a_restart() {
        let streams =
            ["pipe:[1]", "pipe:[1]", "socket:[2]"].map(|name| Stream::Outside(name.into()));
        let given: Vec<_> = [5, 6, 7].into_iter().zip(&streams).collect();
        let places = Places { image: Path::new("/i"), work: Path::new("/w"), action: None };
        assert_eq!(
            words(&criu(true).restore(&places, &given)),
            "restore -D /i -W /w -o restore.log -v2 --shell-job --tcp-close --skip-in-flight --ext-unix-sk --file-locks \
             --restore-detached --restore-sibling --inherit-fd fd[5]:pipe:[1] --external unix[2] --inherit-fd fd[7]:socket:[2] -v4"
        );
    }

    #[test]
    fn a_program_that_is_not_there_or_not_criu_is_reported_with_the_remedy() {
        let text = find_in(OsStr::new("/nonexistent:/none")).map_err(|error| error.to_string());
        if let Err(text) = text {
            assert!(text.contains("/nonexistent:/none") && text.contains("cr_blcr_criu"), "{text}");
            assert!(text.contains("CRIU 4.2 or newer is needed:\n  "), "{text}");
        }
        let text = Criu::find("/nonexistent/criu", "").unwrap_err().to_string();
        assert!(
            text.contains("names /nonexistent/criu, which cannot be run: No such file"),
            "{text}"
        );
        let text = Criu::find("/bin/echo", "").unwrap_err().to_string();
        assert!(text.contains("/bin/echo, which is not CRIU"), "{text}");
        let text = Criu::find("criu-that-is-nowhere", "").unwrap_err().to_string();
        assert!(
            text.contains("cr_blcr_criu names criu-that-is-nowhere, which cannot be run"),
            "{text}"
        );
        assert_eq!(version_in("Version: 4.2.1\nGitID: v4\n"), Some("4.2.1".into()));
        assert_eq!((version_in("criu"), version_in("Version: \n")), (None, None));
    }

    /// A program that pretends to be CRIU of a version, and whose check fails.
    fn program(name: &str, version: &str) -> (PathBuf, Result<Criu, CriuError>) {
        let path = std::env::temp_dir().join(format!("oxmpi-criu-{}-{name}", std::process::id()));
        let text = format!(
            "#!/bin/sh\n[ $1 = --version ] && echo 'Version: {version}' && exit 0\n\
             echo 'Warn  (criu/x.c:1): nothing'; echo 'CRIU needs to have the CAP_CHECKPOINT_RESTORE capability: '; exit 1\n"
        );
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let found = Criu::find(&path.to_string_lossy(), "");
        (path, found)
    }

    #[test]
    fn a_program_that_is_too_old_or_lacks_a_capability_is_reported_with_the_remedy() {
        for version in ["3.17.1", "4.1"] {
            let (path, found) = program("old", version);
            let text = found.unwrap_err().to_string();
            let wanted = format!("{} is CRIU {version}, which is too old", path.display());
            assert!(
                text.starts_with(&wanted) && text.contains("CRIU 4.2 or newer is needed:\n  "),
                "{text}"
            );
            std::fs::remove_file(path).unwrap();
        }
        let (path, found) = program("new", "4.2");
        let text = found.unwrap().check().unwrap_err().to_string();
        let quoted = "check' says 'CRIU needs to have the CAP_CHECKPOINT_RESTORE capability:'; ";
        let remedy =
            format!("'sudo setcap cap_checkpoint_restore,cap_setpcap+eip {}'", path.display());
        assert!(
            text.contains(quoted) && text.contains(&remedy) && text.contains("as root"),
            "{text}"
        );
        std::fs::remove_file(path).unwrap();
    }
}
