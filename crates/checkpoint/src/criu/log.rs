//! The reason of a failure in CRIU's log, as a sentence with the remedy.

use std::path::Path;

/// A failure of CRIU: a sentence, and CRIU's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CriuFailure {
    pub text: String,
    pub quoted: String,
}

type Known = (&'static str, &'static str);

/// More specific phrases come first.
const KNOWN: [Known; 13] = [
    (
        "No space left on device",
        "the disk is full: make room, or name a directory on another disk with '--dir DIR'",
    ),
    (
        "Disk quota exceeded",
        "the disk quota is used up: make room, or name another directory with '--dir DIR'",
    ),
    (
        "File too large",
        "the limit on the size of files is too low for the image: raise it ('ulimit -f unlimited')",
    ),
    ("CAP_CHECKPOINT_RESTORE", CAPABILITY),
    ("Can't fork for", "a process number that the job needs is in use"),
    (
        "Can't bind inet socket",
        "a port that the job listened at is in use: wait for its end, at most a minute, and try again",
    ),
    ("has bad size", "a file that the job has open has another length than at the checkpoint"),
    (
        "Can't dump half of stream unix connection",
        "a process of the job is connected with one outside of it by a local socket",
    ),
    (
        "Can't dump ghost file",
        "a file that the job has open and that has no name any more is too large for the image",
    ),
    (
        "is already traced",
        "a debugger or another checkpoint holds a process of the job: try again when it has ended",
    ),
    ("Unable to interrupt task", CAPABILITY),
    ("Unable to drop capability", CAPABILITY),
    ("Operation not permitted", CAPABILITY),
];

/// Replaced by a sentence with the command.
const CAPABILITY: &str = "CRIU lacks a capability";

/// The reason in the log, or in the output of CRIU (`program`) before it had a log.
pub fn reason(log: &str, output: &str, program: &Path, version: &str) -> CriuFailure {
    // CRIU's lines about limits on open files are warnings.
    let in_log = log.lines().filter(|line| line.contains("Error (") && !line.contains("rlimit"));
    let in_output = output.lines().filter(|line| !line.is_empty() && !line.contains("Warn  ("));
    let errors: Vec<&str> = in_log.chain(in_output).collect();
    let meant = KNOWN.iter().find_map(|(words, meaning)| {
        let line = errors.iter().find(|line| line.contains(words))?;
        Some((*line, *meaning))
    });
    let (line, text) = match (meant, errors.first()) {
        (Some((line, CAPABILITY)), _) => {
            let text = format!("{CAPABILITY}: {}", remedy_of_rights(program));
            (line, text)
        }
        (Some((line, meaning)), _) => (line, meaning.to_string()),
        (None, Some(line)) => (*line, format!("CRIU {version} ({}) has failed", program.display())),
        (None, None) => {
            let text = format!(
                "CRIU {version} ({}) has failed without a message in its log",
                program.display()
            );
            return CriuFailure { text, quoted: String::new() };
        }
    };
    CriuFailure { text, quoted: words_of(line) }
}

/// The command that gives CRIU its rights.
pub(super) fn remedy_of_rights(program: &Path) -> String {
    format!(
        "'sudo setcap cap_checkpoint_restore,cap_setpcap+eip {}' gives it the rights that it needs, as root has them; in a container, \
         start that with '--cap-add CHECKPOINT_RESTORE'",
        program.display()
    )
}

/// The remedy for a failed check of this host, as the beginning of a sentence.
pub(super) fn remedy_of_check(program: &Path, why: &str) -> String {
    match ["CAP_", "ermitted"].iter().any(|word| why.contains(word)) {
        true => format!("{}, or ", remedy_of_rights(program)),
        false => String::new(),
    }
}

/// The message of a log line, without time, process and source position.
fn words_of(line: &str) -> String {
    let words = line.split_once("Error (").and_then(|(_, rest)| rest.split_once("):"));
    words.map_or(line, |(_, words)| words).trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(log: &str) -> CriuFailure {
        reason(log, "", Path::new("/usr/sbin/criu"), "4.2.1")
    }

    #[test]
    fn the_first_known_cause_is_reported() {
        let log = "(00.1) Warn  (criu/x.c:1): y\n(00.2)  12: Error (criu/cr-restore.c:1237): Can't fork for 16421: File exists\n\
                   (00.3) Error (criu/cr-restore.c:2331): Restoring FAILED.\n";
        let failure = of(log);
        assert_eq!(failure.text, "a process number that the job needs is in use");
        assert_eq!(failure.quoted, "Can't fork for 16421: File exists");
        let full = of(
            "(00.2) Error (criu/image.c:1): a\n(00.3) Error (criu/bfd.c:2): Write failed: No space left on device\n",
        );
        assert!(full.text.starts_with("the disk is full: make room"), "{full:?}");
    }

    #[test]
    fn a_capability_that_is_missing_comes_with_the_command() {
        let log = "(00.0) Error (criu/crtools.c:1): CRIU needs to have the CAP_SYS_ADMIN or the CAP_CHECKPOINT_RESTORE capability: \n";
        let text = of(log).text;
        let before =
            "CRIU needs to have the CAP_SYS_ADMIN or the CAP_CHECKPOINT_RESTORE capability: \n";
        assert_eq!(reason("", before, Path::new("/usr/sbin/criu"), "4.2.1").text, text);
        assert!(
            text.contains("sudo setcap cap_checkpoint_restore,cap_setpcap+eip /usr/sbin/criu"),
            "{text}"
        );
    }

    #[test]
    fn what_is_not_known_is_quoted() {
        let failure = of(
            "(00.0) Error (criu/rlimit.c:1): Can't set rlimit\n(00.1) Error (criu/a.c:2): The moon (full): is up\n",
        );
        assert_eq!(
            (failure.text.as_str(), failure.quoted.as_str()),
            ("CRIU 4.2.1 (/usr/sbin/criu) has failed", "The moon (full): is up")
        );
        assert_eq!(of("").quoted, "");
    }
}
