//! The agent that starts a program on another host: ssh, or a replacement.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::diagnostics::{LogTarget, word_for};
use super::schema::Host;

/// The limit of ssh to connect, in seconds.
const CONNECT: &str = "ConnectTimeout=20";

/// The agent's command line up to the host. `agent` is the user's setting: a program and options.
fn words(agent: &str, user: Option<&str>) -> Vec<String> {
    let mut words: Vec<String> = agent.split_whitespace().map(String::from).collect();
    if words
        .first()
        .is_some_and(|program| Path::new(program).file_name().is_some_and(|name| name == "ssh"))
    {
        // There is no terminal for questions.
        words.extend(["-x", "-o", "BatchMode=yes", "-o", CONNECT].map(String::from));
    }
    words.extend(user.into_iter().flat_map(|user| ["-l".to_string(), user.to_string()]));
    words
}

/// The command that runs `program daemon` on a host, and its text for the user.
pub(super) fn command(
    agent: &str,
    host: &Host,
    program: &Path,
) -> Result<(Command, String), String> {
    let mut all = words(agent, host.user.as_deref());
    if all.is_empty() {
        return Err(
            "the parameter 'plm_rsh_agent' names no program that could start another there".into(),
        );
    }
    let program = match &host.prefix {
        Some(prefix) => PathBuf::from(prefix).join("bin/oxmpi"),
        None => program.to_path_buf(),
    };
    all.push(host.name.clone());
    let mut remote = OsString::from("exec ");
    remote.push(quoted(&program)?);
    remote.push(" daemon");
    word_for(LogTarget::Daemon).into_iter().for_each(|level| remote.push(format!(" {level}")));
    let shown = format!("{} \"{}\"", all.join(" "), remote.display());
    let mut command = Command::new(&all[0]);
    command.args(&all[1..]).arg(remote);
    Ok((command, shown))
}

fn quoted(path: &Path) -> Result<String, String> {
    let text =
        path.to_str().ok_or_else(|| format!("the path '{}' is not UTF-8", path.display()))?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(is_plain) {
        return Ok(text.into());
    }
    Ok(format!("'{}'", text.replace('\'', "'\\''")))
}

pub(super) fn remedy(agent: &str, host: &Host, code: Option<i32>) -> String {
    let connect = words(agent, host.user.as_deref()).join(" ");
    match code {
        Some(255) => format!("check that '{connect} {} true' works without a password", host.name),
        Some(126 | 127) => format!(
            "install OxMPI on {0} in the same place as here, or say where it is: '{0} prefix=/DIRECTORY' in the file of hosts",
            host.name
        ),
        _ => format!("check that '{connect} {} true' works and prints nothing", host.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_is_not_interactive_and_the_program_is_one_word() {
        let host = Host { user: Some("me".into()), ..Host::new("b") };
        let (_, shown) = command("ssh -p 22", &host, Path::new("/opt/a b/bin/oxmpi")).unwrap();
        let wanted = "ssh -p 22 -x -o BatchMode=yes -o ConnectTimeout=20 -l me b \"exec '/opt/a b/bin/oxmpi' daemon\"";
        assert_eq!(shown, wanted);
        let host = Host { prefix: Some("/p".into()), ..Host::new("b") };
        assert_eq!(
            command("my-rsh", &host, Path::new("/x")).unwrap().1,
            "my-rsh b \"exec /p/bin/oxmpi daemon\""
        );
        assert!(command(" ", &host, Path::new("/x")).is_err());
        assert_eq!(quoted(Path::new("a'b")).unwrap(), "'a'\\''b'");
        assert!(remedy("ssh", &host, Some(255)).contains("'ssh -x -o BatchMode=yes"));
    }
}
