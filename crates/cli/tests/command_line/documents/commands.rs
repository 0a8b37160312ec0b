//! The commands in README.md and the pages of `docs/`. The first word behind the backticks of a
//! fence is its language. In a fence `sh` each line is a command. In a fence `console` each line
//! that begins with `$ ` is one, and the lines behind it are lines of its output; `...` stands for
//! further ones. A second word gives the time of the commands:
//!
//! - none: in the everyday run;
//! - `night`: in the nightly run;
//! - `norun: REASON`: never.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{TestDirectory, compiled, installed, root};

const LIMIT_S: &str = "60";

const WITHOUT_COMMANDS: [&str; 4] = ["text", "c", "rust", "json"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Everyday,
    Night,
    Never,
}

#[derive(Debug, PartialEq, Eq)]
struct ShownCommand {
    line: usize,
    when: When,
    text: String,
    output: Vec<String>,
}

/// The commands of a document, in order.
///
/// # Errors
/// A fence without a language, a command in a fence of another language, or an unknown second word.
fn shown_commands(page: &str) -> Result<Vec<ShownCommand>, String> {
    let mut shown: Vec<ShownCommand> = Vec::new();
    let mut fence: Option<(&str, When)> = None;
    let mut continues = false;
    for (index, line) in page.lines().enumerate() {
        let (line, number) = (line.trim_start(), index + 1);
        if let Some(info) = line.strip_prefix("```") {
            fence = match fence {
                Some(_) => None,
                None => {
                    Some(language_and_time(info).map_err(|why| format!("line {number}: {why}"))?)
                }
            };
            continues = false;
            continue;
        }
        let Some((language, when)) = fence else { continue };
        let prompted = line.strip_prefix("$ ");
        if WITHOUT_COMMANDS.contains(&language) {
            if prompted.is_some() {
                return Err(format!(
                    "line {number}: a command in a fence '{language}': write 'console'"
                ));
            }
            continue;
        }
        if language == "console" && !continues && prompted.is_none() {
            if let Some(last) = shown.last_mut().filter(|_| !line.is_empty() && line != "...") {
                last.output.push(line.into());
            }
            continue;
        }
        let text = prompted.filter(|_| language == "console").unwrap_or(line);
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        match shown.last_mut().filter(|_| continues) {
            Some(last) => last.text += &format!("\n{text}"),
            None => shown.push(ShownCommand {
                line: number,
                when,
                text: text.into(),
                output: Vec::new(),
            }),
        }
        continues = text.ends_with('\\');
    }
    Ok(shown)
}

fn language_and_time(info: &str) -> Result<(&str, When), String> {
    let (language, time) = info.trim().split_once(' ').unwrap_or((info.trim(), ""));
    let when = match time.trim() {
        "" => When::Everyday,
        "night" => When::Night,
        other => match other.strip_prefix("norun:") {
            Some(reason) if !reason.trim().is_empty() => When::Never,
            _ => return Err(format!("'{other}' is neither 'night' nor 'norun: REASON'")),
        },
    };
    if !["sh", "console"].contains(&language) && !WITHOUT_COMMANDS.contains(&language) {
        return Err(format!(
            "a fence of language '{language}': write sh, console, text, c, rust or json"
        ));
    }
    Ok((language, when))
}

fn documents() -> Vec<PathBuf> {
    let pages = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut documents: Vec<PathBuf> =
        pages.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    documents.push(root().join("README.md"));
    documents.sort();
    documents
}

/// A home with an installation in `oxmpi`, and files of the names that the documents use.
struct Home(TestDirectory);

impl Home {
    fn new(name: &str) -> Home {
        let home = TestDirectory::new(name);
        let hello = root().join("examples/hello.c");
        fs::copy(&hello, home.join("program.c")).unwrap();
        fs::copy(compiled(&hello).unwrap(), home.join("program")).unwrap();
        fs::write(home.join("hosts"), "localhost slots=4\n").unwrap();
        fs::write(home.join("fast.conf"), "localhost 127.0.0.1\n").unwrap();
        fs::write(home.join("my.conf"), "rule-file-version-2\n1\n3\n1\n2\n1\n0 2 0 0 0\n").unwrap();
        let prefix = installed("mpirun").parent().unwrap().parent().unwrap().to_owned();
        std::os::unix::fs::symlink(prefix, home.join("oxmpi")).unwrap();
        Home(home)
    }

    fn run(&self, shown: &ShownCommand) -> Result<(), String> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories =
            [self.0.join("oxmpi/bin")].into_iter().chain(std::env::split_paths(&path));
        let mut shell = Command::new("timeout");
        shell
            .args(["-k", "1", LIMIT_S, "bash", "-c", &shown.text])
            .current_dir(&self.0)
            .stdin(Stdio::null());
        shell.env("HOME", &self.0).env("PATH", std::env::join_paths(directories).unwrap());
        let output = shell.output().map_err(|error| error.to_string())?;
        let printed = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let failed = |why: String| {
            format!("line {}: {}: {why}: {}", shown.line, shown.text, printed.concat())
        };
        if !output.status.success() {
            return Err(failed(output.status.to_string()));
        }
        let is_printed = |line: &&String| {
            printed.iter().any(|text| text.lines().any(|one| one.trim() == **line))
        };
        match shown.output.iter().find(|line| !is_printed(line)) {
            Some(missing) => Err(failed(format!("it does not print '{missing}'"))),
            None => Ok(()),
        }
    }
}

fn run_all(when: When) {
    let home = Home::new(if when == When::Night { "documents-night" } else { "documents" });
    let (mut failed, mut count) = (Vec::new(), 0);
    for document in documents() {
        let name = document.strip_prefix(root()).unwrap_or(Path::new("")).display().to_string();
        let shown = shown_commands(&fs::read_to_string(&document).unwrap());
        let shown = shown.unwrap_or_else(|why| panic!("{name}, {why}"));
        for shown in shown.iter().filter(|shown| shown.when == when) {
            count += 1;
            failed.extend(home.run(shown).err().map(|why| format!("{name}, {why}")));
        }
    }
    assert!(
        failed.is_empty() && count > 0,
        "{} of {count} commands fail:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

#[test]
fn every_command_of_a_document_runs() {
    run_all(When::Everyday);
}

#[test]
fn fences_have_a_language_and_say_when_their_commands_run() {
    let page = "```sh\na \\\n  b # why\n# not\n\nc\n```\n  ```console night\n  $ d\n  out\n  ...\n  ```\n\
                ```sh norun: slow\ne\n```\n$ f\n";
    let command = |line, when, text: &str, output: &[&str]| ShownCommand {
        line,
        when,
        text: text.into(),
        output: output.iter().map(|line| (*line).to_owned()).collect(),
    };
    let found = shown_commands(page).unwrap();
    let wanted = [
        command(2, When::Everyday, "a \\\nb # why", &[]),
        command(6, When::Everyday, "c", &[]),
        command(9, When::Night, "d", &["out"]),
        command(14, When::Never, "e", &[]),
    ];
    assert_eq!(found, wanted);
    for wrong in ["```\na\n```", "```sh later\na\n```", "```sh norun:\na\n```", "```text\n$ a\n```"]
    {
        let why = shown_commands(wrong).unwrap_err();
        assert!(why.starts_with("line "), "{wrong}: {why}");
    }
}

mod night {
    use super::*;

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn longer_commands_of_a_document_run() {
        run_all(When::Night);
    }
}
