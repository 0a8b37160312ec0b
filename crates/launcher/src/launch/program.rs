//! Finding the file of a program, as a shell does.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Exit code of a program that exists but cannot be run, as in a shell.
pub const NOT_EXECUTABLE: i32 = 126;
/// Exit code when there is no such program, as in a shell.
pub const NOT_FOUND: i32 = 127;

/// The places where a program is searched, besides PATH.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgramSearch<'a> {
    /// Directories searched before PATH, with colons between them.
    pub path: Option<&'a OsStr>,
    /// The working directory of the program, if not that of this process.
    pub directory: Option<&'a Path>,
}

impl ProgramSearch<'_> {
    /// The file that a shell would run for `name`. An error has the message and the exit code.
    pub fn find(&self, name: &OsStr) -> Result<PathBuf, (String, i32)> {
        let shown = name.display();
        if name.as_encoded_bytes().contains(&b'/') {
            let path = self.beside_directory(name);
            return match std::fs::metadata(&path) {
                Ok(_) if is_executable(&path) => Ok(path),
                Ok(m) if m.is_dir() => {
                    Err((format!("cannot run '{shown}': it is a directory"), NOT_EXECUTABLE))
                }
                Ok(_) => Err((
                    format!("cannot run '{shown}': it is not executable (chmod +x makes it so)"),
                    NOT_EXECUTABLE,
                )),
                Err(error) => Err((format!("cannot run '{shown}': {error}"), NOT_FOUND)),
            };
        }
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
        let before = self.path.into_iter().flat_map(std::env::split_paths);
        let mut candidates =
            before.chain(std::env::split_paths(&path)).map(|dir| self.absolute(dir.join(name)));
        if let Some(found) = candidates.find(|path| is_executable(path)) {
            return Ok(found);
        }
        let here = if Path::new(name).is_file() {
            format!("; there is a './{shown}' here")
        } else {
            String::new()
        };
        let before =
            self.path.map(|path| format!("-path ({}) and ", path.display())).unwrap_or_default();
        Err((
            format!(
                "cannot run '{shown}': no such file in {before}PATH ({}){here}",
                path.display()
            ),
            NOT_FOUND,
        ))
    }

    /// Resolves a relative path from the program's working directory, and then from this one.
    fn beside_directory(&self, name: &OsStr) -> PathBuf {
        let there =
            self.directory.map(|directory| directory.join(name)).filter(|path| path.exists());
        there.unwrap_or_else(|| self.absolute(PathBuf::from(name)))
    }

    /// Makes a path absolute if the program runs in another directory.
    fn absolute(&self, path: PathBuf) -> PathBuf {
        match self.directory {
            Some(_) => std::path::absolute(&path).unwrap_or(path),
            None => path,
        }
    }
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
