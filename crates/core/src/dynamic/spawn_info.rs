//! The info keys of MPI_Comm_spawn (MPI-5.0 section 11.8.4 "Reserved Keys").

use oxmpi_abi::constants as abi;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::info::Info;
use oxmpi_param::file::{MAX_BYTES, read_at_most};
use oxmpi_param::{ENV_PREFIX, Params};
use oxmpi_rt_client::universe::SpawnCommand;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

const INITIAL_ERRHANDLER: &str = "mpi_initial_errhandler";

/// The command of a spawn with its info. The keys are "wdir", "path", "host", "arch", "soft",
/// "file" (the name of a file with lines KEY = VALUE for keys that the info lacks), "env" (a line
/// NAME=VALUE for each variable) and "mpi_initial_errhandler". Other keys have no effect. Errors:
/// MPI_ERR_ARG if `most` is negative; MPI_ERR_INFO_VALUE for a wrong value; MPI_ERR_SPAWN if there
/// is no machine of this "arch".
pub fn command(
    program: &[u8],
    arguments: Vec<Vec<u8>>,
    most: i32,
    info: &Info,
) -> Result<SpawnCommand> {
    if program.is_empty() {
        return Err(MpiError::new(abi::MPI_ERR_ARG, "the command is an empty string"));
    }
    let Ok(most) = u32::try_from(most) else {
        return Err(MpiError::new(
            abi::MPI_ERR_ARG,
            format!("maxprocs is {most}; it must not be negative"),
        ));
    };
    let info = &with_file(info)?;
    let value = |key: &str| info.get(key.as_bytes()).ok().flatten();
    let text = |key: &str| value(key).map(|value| String::from_utf8_lossy(value).into_owned());
    if let Some(arch) = text("arch")
        && arch != std::env::consts::ARCH
    {
        let here = std::env::consts::ARCH;
        return Err(MpiError::new(
            abi::MPI_ERR_SPAWN,
            format!("arch is '{arch}', and this machine is '{here}'"),
        ));
    }
    let processes = match text("soft") {
        None => most,
        Some(soft) => soft_number(&soft, most)?,
    };
    let mut env = Vec::new();
    for line in value("env")
        .unwrap_or_default()
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        let Some(at) = line.iter().position(|byte| *byte == b'=').filter(|at| *at > 0) else {
            return Err(bad_value(
                "env",
                &String::from_utf8_lossy(line),
                "is not of the form NAME=VALUE",
            ));
        };
        env.push((os(&line[..at]), os(&line[at + 1..])));
    }
    if let Some(handler) = text(INITIAL_ERRHANDLER) {
        if let Err(error) = Params::default().with(INITIAL_ERRHANDLER, &handler) {
            return Err(bad_value(INITIAL_ERRHANDLER, &handler, &error.to_string()));
        }
        env.push((format!("{ENV_PREFIX}{INITIAL_ERRHANDLER}").into(), handler.into()));
    }
    Ok(SpawnCommand {
        program: os(program),
        arguments: arguments.into_iter().map(OsString::from_vec).collect(),
        processes,
        directory: value("wdir").map(os),
        path: value("path").map(os),
        hosts: text("host"),
        env,
    })
}

fn os(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}

fn bad_value(key: &str, value: &str, why: &str) -> MpiError {
    MpiError::new(abi::MPI_ERR_INFO_VALUE, format!("the info's value of '{key}', '{value}', {why}"))
}

fn with_file(info: &Info) -> Result<Info> {
    let mut all = info.clone();
    let Some(name) = info.get(b"file")? else { return Ok(all) };
    let name = Path::new(std::ffi::OsStr::from_bytes(name));
    let wrong = |why: String| bad_value("file", &name.display().to_string(), &why);
    let text = std::fs::File::open(name).and_then(|file| read_at_most(file, MAX_BYTES));
    let text = text.map_err(|error| wrong(format!("cannot be read: {error}")))?;
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let Some(at) = line.iter().position(|byte| *byte == b'=') else {
            return Err(wrong(format!("has a line {number} that is not of the form KEY = VALUE")));
        };
        let (key, value) = (line[..at].trim_ascii(), line[at + 1..].trim_ascii());
        if info.get(key)?.is_none() {
            all.set(key, value)?;
        }
    }
    Ok(all)
}

/// The largest number of processes, at most `most`, in a set such as "1,2:8:2".
fn soft_number(soft: &str, most: u32) -> Result<u32> {
    let mut best = None;
    for part in soft.split(',') {
        let numbers: Option<Vec<i64>> = part.split(':').map(|n| n.trim().parse().ok()).collect();
        let (from, to, step) = match numbers.as_deref() {
            Some([one]) => (*one, *one, 1),
            Some([from, to]) => (*from, *to, 1),
            Some([from, to, step]) if *step != 0 => (*from, *to, *step),
            _ => {
                return Err(bad_value(
                    "soft",
                    soft,
                    "is not of the form 'a', 'a:b' or 'a:b:c', with commas between",
                ));
            }
        };
        // The numbers are `from`, `from` + `step` and so on, up to `to`, as in Fortran; then
        // sorted.
        if [from, to, step].iter().any(|number| i32::try_from(*number).is_err())
            || (to < from) == (step > 0) && to != from
        {
            continue;
        }
        let end = from + (to - from) / step * step;
        let (low, high) = (from.min(end), from.max(end));
        let last = low + (high.min(most.into()) - low).div_euclid(step.abs()) * step.abs();
        if last >= low && last >= 0 {
            best = best.max(Some(last as u32));
        }
    }
    let nothing =
        || bad_value("soft", soft, &format!("has no number up to maxprocs, which is {most}"));
    best.ok_or_else(nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(pairs: &[(&str, &str)]) -> Info {
        let mut info = Info::new();
        pairs.iter().for_each(|(key, value)| info.set(key.as_bytes(), value.as_bytes()).unwrap());
        info
    }

    #[test]
    fn a_soft_number_is_the_largest_that_fits() {
        for (soft, most, best) in [
            ("4", 5, 4),
            ("1:10", 7, 7),
            ("2:10:4", 9, 6),
            ("2:10:4", 10, 10),
            ("10:1:-4", 9, 6),
            ("10:1:-4", 20, 10),
            ("1,3,8", 7, 3),
            (" 1 : 3 ", 2, 2),
            ("0", 4, 0),
        ] {
            assert_eq!(soft_number(soft, most).unwrap(), best, "{soft} up to {most}");
        }
        for bad in ["", "x", "1:", "1:2:0", "1:2:3:4", "5", "3:2", "-3:-1"] {
            assert!(soft_number(bad, 4).unwrap_err().detail().contains(bad), "{bad}");
        }
    }

    #[test]
    fn keys_are_read_and_wrong_values_reported() {
        let pairs = [("wdir", "/tmp"), ("env", "A=b=c\nD="), ("host", "localhost"), ("x", "y")];
        let made = command(b"prog", vec![b"a b".to_vec()], 3, &info(&pairs)).unwrap();
        assert_eq!((made.processes, made.directory), (3, Some("/tmp".into())));
        assert_eq!(made.env, [("A".into(), "b=c".into()), ("D".into(), "".into())]);
        for (key, value, class) in [
            ("env", "=b", abi::MPI_ERR_INFO_VALUE),
            ("mpi_initial_errhandler", "none", abi::MPI_ERR_INFO_VALUE),
            ("arch", "pdp11", abi::MPI_ERR_SPAWN),
            ("file", "/nonexistent", abi::MPI_ERR_INFO_VALUE),
        ] {
            let error = command(b"prog", vec![], 1, &info(&[(key, value)])).unwrap_err();
            assert_eq!(error.class(), class, "{key}");
            assert!(error.detail().contains(value), "{}", error.detail());
        }
        assert_eq!(command(b"prog", vec![], -1, &info(&[])).unwrap_err().class(), abi::MPI_ERR_ARG);
        assert_eq!(command(b"", vec![], 1, &info(&[])).unwrap_err().class(), abi::MPI_ERR_ARG);
    }
}
