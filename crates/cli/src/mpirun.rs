//! `mpirun`: reads its command line, finds the programs and hands the job to [`oxmpi_rt::launch`].

mod options;

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use oxmpi_abi::FuncId;
use oxmpi_param::Params;
use oxmpi_rt::launch::{self, App, Launch, LaunchError};

use self::options::{Command, Options, Program};
use crate::prefix;

/// Exit code for a command line that is wrong.
const USAGE: i32 = 2;
/// Exit code when a program is there but cannot be run, as in a shell.
const NOT_EXECUTABLE: i32 = 126;
/// Exit code when there is no such program, as in a shell.
const NOT_FOUND: i32 = 127;

pub(crate) fn main(args: &[OsString]) -> i32 {
    let options = match options::parse(args) {
        Ok(Command::Run(options)) => options,
        Ok(Command::Help) => {
            crate::say(&options::help());
            return 0;
        }
        Ok(Command::Version) => {
            crate::say(concat!("mpirun (OxMPI) ", env!("CARGO_PKG_VERSION"), "\n"));
            return 0;
        }
        Err(error) => return complain(&error.to_string(), USAGE),
    };
    let params = match params(&options) {
        Ok(params) => params,
        Err(error) => return complain(&error, USAGE),
    };
    let mut apps = Vec::new();
    for program in &options.programs {
        match app(program) {
            Ok(app) => apps.push(app),
            Err((text, code)) => return complain(&text, code),
        }
    }
    let mut env: Vec<(OsString, OsString)> = options.env.clone();
    env.extend(
        options
            .mca
            .iter()
            .map(|(name, value)| (format!("{}{name}", oxmpi_param::ENV_PREFIX).into(), value.into())),
    );
    let launch = Launch {
        apps,
        env,
        params,
        tag_output: options.tag_output,
        timeout: options.timeout,
        library_directory: prefix::library_directory(),
        call_name: |call| FuncId::from_index(call.checked_sub(1)?).map(FuncId::name),
    };
    match launch::run(&launch) {
        Ok(code) => code,
        Err(error @ LaunchError::Run { .. }) => complain(&error.to_string(), NOT_EXECUTABLE),
        Err(error) => complain(&error.to_string(), 1),
    }
}

fn complain(text: &str, code: i32) -> i32 {
    eprintln!("mpirun: {text}");
    code
}

/// The parameters that the ranks will see: the environment's, changed by `-x` and `--mca`.
fn params(options: &Options) -> Result<Params, String> {
    let changed = options.env.iter().map(|(key, _)| key);
    let inherited: Vec<_> =
        std::env::vars_os().filter(|(key, _)| !changed.clone().any(|c| c == key)).collect();
    let mut params = Params::from_vars(inherited.iter().chain(&options.env).map(|(k, v)| (k, v)))
        .map_err(|e| e.to_string())?;
    for (name, value) in &options.mca {
        params.set(name, value).map_err(|e| format!("--mca {name} {value}: {e}"))?;
    }
    Ok(params)
}

fn app(program: &Program) -> Result<App, (String, i32)> {
    let name = &program.words[0];
    let path = find(name)?;
    Ok(App { ranks: program.ranks, path, args: program.words.clone(), env: program.env.clone() })
}

/// The file that a shell would run for `name`; if there is none, the complaint and the exit code.
fn find(name: &OsStr) -> Result<PathBuf, (String, i32)> {
    let shown = name.display();
    if name.as_encoded_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match std::fs::metadata(&path) {
            Ok(_) if is_executable(&path) => Ok(path),
            Ok(m) if m.is_dir() => Err((format!("cannot run '{shown}': it is a directory"), NOT_EXECUTABLE)),
            Ok(_) => Err((
                format!("cannot run '{shown}': it is not executable (chmod +x makes it so)"),
                NOT_EXECUTABLE,
            )),
            Err(error) => Err((format!("cannot run '{shown}': {error}"), NOT_FOUND)),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    if let Some(found) = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|p| is_executable(p)) {
        return Ok(found);
    }
    let here =
        if Path::new(name).is_file() { format!("; there is a './{shown}' here") } else { String::new() };
    Err((format!("cannot run '{shown}': no such file in PATH ({}){here}", path.display()), NOT_FOUND))
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
