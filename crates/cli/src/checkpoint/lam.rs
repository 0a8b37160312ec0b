//! `lamcheckpoint`, `lamrestart`, `cr_checkpoint` and `cr_restart`: the names of LAM/MPI and BLCR
//! for `oxmpi checkpoint` and `oxmpi restart`. Their options are translated; options without a
//! counterpart are refused with a sentence.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;

use oxmpi_launcher::checkpoint::{BLCR, OWN, program};
use oxmpi_rt_client::client::RESTART_VARIABLE;

use crate::command::{Stop, answer, failed, sets_parameter, split, usage, words};

pub(crate) const NAMES: [&str; 4] = ["lamcheckpoint", "lamrestart", "cr_checkpoint", "cr_restart"];

pub(crate) const HELP: &str = "\
lamcheckpoint, lamrestart, cr_checkpoint, cr_restart: other names of 'oxmpi checkpoint' and 'oxmpi restart'

  lamcheckpoint [-ssi cr blcr|self] -pid PID      PID is the process number of mpirun
  lamrestart [-ssi cr blcr|self] -ssi cr_blcr_context_file SET
      -ssi cr_restart_args 'ARGS'                 options of 'oxmpi restart'
  lamrestart -ssi cr self -ssi cr_restart_args 'ARGS'
                                                  a new 'mpirun ARGS', such as '--app SET/image/appschema', without a set
  cr_checkpoint [--tree] [--kill] [-d DIR] PID
  cr_restart SET
      -ssi NAME VALUE                             set a parameter: cr_base_dir, cr_keep, cr_files, ...

If a job was started with '-ssi cr blcr', each rank gets an image; for other jobs, and with --tree, there is one image of all processes
with mpirun. CRIU makes them in place of BLCR; in place of a context file there is the directory of a set. There are no images of single
processes. With '-ssi cr self' the program saves its state by its own functions.
";

#[derive(Debug, PartialEq, Eq)]
enum LamAction {
    Help,
    Checkpoint(Vec<String>),
    Restart(Vec<String>),
    /// A new job, whose program restores its state itself.
    Anew(Vec<String>),
}

pub(crate) fn called(name: &str, args: &[OsString]) -> i32 {
    let oxmpi = |verb: &str, words: Vec<String>| {
        crate::oxmpi(
            &[verb.to_string()].into_iter().chain(words).map(OsString::from).collect::<Vec<_>>(),
        )
    };
    let stop = match translated(name, args) {
        Ok(LamAction::Checkpoint(words)) => return oxmpi("checkpoint", words),
        Ok(LamAction::Restart(words)) => return oxmpi("restart", words),
        Ok(LamAction::Help) => {
            crate::say(HELP);
            return 0;
        }
        Ok(LamAction::Anew(words)) => become_mpirun(&words),
        Err(stop) => stop,
    };
    answer(name, Err(stop))
}

/// Continues as an mpirun, since checkpoints find a job by this name. Returns only on failure.
fn become_mpirun(words: &[String]) -> Stop {
    match program() {
        Ok(program) => {
            let error = std::process::Command::new(program).arg0("mpirun").args(words).exec();
            failed(format!("mpirun cannot be started: {error}"))
        }
        Err(text) => failed(text),
    }
}

fn translated(name: &str, args: &[OsString]) -> Result<LamAction, Stop> {
    let is_lam = name.starts_with("lam");
    let restarts = name.ends_with("restart");
    let (mut out, mut subject, mut module) = (Vec::new(), None, None);
    let (mut restart_args, mut is_tree) = (Vec::new(), false);
    let mut args = words(args);
    while let Some(arg) = args.next() {
        let (option, inline) = split(&arg);
        let mut value = |what: &str| {
            let value = inline.clone().or_else(|| args.next());
            value.ok_or_else(|| usage(format!("{option} needs {what} after it")))
        };
        match (option, restarts) {
            ("-h" | "--help" | "-?", _) => return Ok(LamAction::Help),
            ("-v" | "-q" | "--verbose" | "--quiet", _) => {}
            ("-d" | "-debug", _) if is_lam => {}
            ("-pid" | "--pid", false) if is_lam => subject = Some(value("a process number")?),
            ("-T" | "--tree", false) if !is_lam => is_tree = true,
            ("--run", false) | ("--restore-pid", true) if !is_lam => {}
            ("-d" | "--dir", false) if !is_lam => {
                out.extend(["--dir".into(), value("a directory")?])
            }
            ("--kill", false) => out.push("--kill".into()),
            _ if sets_parameter(option) => {
                let (key, text) = (value("a parameter")?, value("a parameter and its value")?);
                match &*key {
                    "cr" => module = Some(module_named(&text)?),
                    "cr_blcr_context_file" if restarts => subject = Some(text),
                    "cr_restart_args" if restarts => {
                        restart_args.extend(text.split_whitespace().map(String::from));
                    }
                    _ => out.extend(["--mca".into(), key, text]),
                }
            }
            _ if option.starts_with('-') => {
                return Err(usage(format!("{arg}: {}", why_not(option))));
            }
            _ if subject.is_some() => return Err(usage(format!("'{arg}': {}", wanted(name)))),
            _ => subject = Some(arg),
        }
    }
    if is_lam && restarts && subject.is_none() && module == Some(OWN) && !restart_args.is_empty() {
        let head =
            ["-x".into(), format!("{RESTART_VARIABLE}=1"), "--mca".into(), "cr".into(), OWN.into()];
        return Ok(LamAction::Anew(head.into_iter().chain(out).chain(restart_args).collect()));
    }
    let subject = subject.ok_or_else(|| usage(wanted(name)))?;
    if restarts {
        out.insert(0, subject);
        out.extend(restart_args);
        return Ok(LamAction::Restart(out));
    }
    let form = match module {
        _ if is_tree => "--tree",
        Some(OWN) => "--self",
        None if is_lam => "--as-chosen",
        _ => "--blcr",
    };
    out.splice(0..0, [form.to_string(), subject]);
    Ok(LamAction::Checkpoint(out))
}

fn wanted(name: &str) -> &'static str {
    match name {
        "lamcheckpoint" => "one process number is needed, that of mpirun: '-pid PID'",
        "lamrestart" => "one set is needed: '-ssi cr_blcr_context_file SET'",
        "cr_checkpoint" => "one process number is needed, that of mpirun",
        _ => "one set is needed, as 'oxmpi checkpoint' has named it",
    }
}

fn module_named(name: &str) -> Result<&'static str, Stop> {
    [BLCR, OWN].into_iter().find(|module| *module == name).ok_or_else(|| {
        usage(format!(
            "-ssi cr {name}: there is no such module for checkpoints, but {BLCR} and {OWN}"
        ))
    })
}

fn why_not(option: &str) -> &'static str {
    match option {
        "-f" | "--file" | "-F" | "--fd" | "-c" | "--cwd" => {
            "a set is a directory, whose name says which job it is of; name the directory for sets with '-d DIR'"
        }
        "-p" | "--pid" | "-g" | "--pgid" | "-s" | "--session" => {
            "an image is one of the whole tree of processes below mpirun, whose number is given alone"
        }
        "--term" | "--abrt" | "--stop" | "--cont" | "-S" | "--signal" => {
            "no signal is sent after a checkpoint; '--kill' ends the job when the set is on disk"
        }
        "--no-restore-pid" | "--no-restore-pgid" | "--no-restore-sid" => {
            "a job gets the process numbers that it had; 'unshare -p -f --mount-proc' gives it a space of numbers of its own"
        }
        _ => "there is no such option ('--help' lists all)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<LamAction, String> {
        let mut words = line.split(' ').map(OsString::from);
        let name = words.next().unwrap().into_string().unwrap();
        translated(&name, &words.collect::<Vec<_>>())
            .map_err(|Stop(text, code)| format!("{code} {text}"))
    }

    #[test]
    fn words_are_translated() {
        let all = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        for (line, to) in [
            ("lamcheckpoint -ssi cr blcr -pid 7", "--blcr 7"),
            ("lamcheckpoint -ssi cr self -pid 7", "--self 7"),
            ("lamcheckpoint -d --pid=7 -ssi cr_base_dir /x", "--as-chosen 7 --mca cr_base_dir /x"),
            ("cr_checkpoint 7", "--blcr 7"),
            ("cr_checkpoint --tree 7", "--tree 7"),
            ("cr_checkpoint -v -T --kill --dir=/x 7", "--tree 7 --kill --dir /x"),
        ] {
            assert_eq!(read(line), Ok(LamAction::Checkpoint(all(to))), "{line}");
        }
        for (line, to) in [
            ("lamrestart -ssi cr blcr -ssi cr_blcr_context_file /s/heat-1.2", "/s/heat-1.2"),
            ("cr_restart -q /s/heat-1.2", "/s/heat-1.2"),
        ] {
            assert_eq!(read(line), Ok(LamAction::Restart(all(to))), "{line}");
        }
        let args: Vec<OsString> = ["-ssi", "cr_restart_args", "--files refuse", "/s"]
            .into_iter()
            .map(OsString::from)
            .collect();
        let found = translated("lamrestart", &args).map_err(|stop| stop.0);
        assert_eq!(found, Ok(LamAction::Restart(all("/s --files refuse"))));
        let args = ["-ssi", "cr", "self", "-ssi", "cr_restart_args", "--app /s/image/appschema"]
            .map(OsString::from);
        let found = translated("lamrestart", &args).map_err(|stop| stop.0);
        let anew = format!("-x {RESTART_VARIABLE}=1 --mca cr self --app /s/image/appschema");
        assert_eq!(found, Ok(LamAction::Anew(all(&anew))));
        assert_eq!(read("cr_restart --help"), Ok(LamAction::Help));
    }

    #[test]
    fn what_has_no_counterpart_is_refused_with_a_sentence() {
        for (line, text) in [
            ("lamcheckpoint -ssi cr bcr -pid 7", "-ssi cr bcr: there is no such module"),
            ("lamcheckpoint -pid", "-pid needs a process number"),
            ("lamcheckpoint", "'-pid PID'"),
            ("lamrestart -ssi cr self", "'-ssi cr_blcr_context_file SET'"),
            ("lamrestart -ssi cr blcr -ssi cr_restart_args x", "'-ssi cr_blcr_context_file SET'"),
            ("lamrestart -ssi cr blcr", "'-ssi cr_blcr_context_file SET'"),
            ("cr_checkpoint -f file 7", "-f: a set is a directory"),
            ("cr_checkpoint -p 7", "-p: an image is one of the whole tree"),
            ("cr_checkpoint --term 7", "'--kill' ends the job"),
            ("cr_checkpoint 7 8", "'8': one process number"),
            ("cr_restart --no-restore-pid x", "process numbers that it had"),
            ("cr_restart --kill x", "no such option"),
            ("cr_restart -ssi cr", "needs a parameter and its value"),
        ] {
            let found = read(line).unwrap_err();
            assert!(found.starts_with("2 ") && found.contains(text), "{line}: {found}");
        }
    }
}
