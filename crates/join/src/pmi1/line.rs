//! PmiLines of PMI-1, as bytes: pure.
//!
//! A line is `cmd=NAME`, then pairs KEY=VALUE, separated by blanks. The program sends a line and
//! the manager answers by a line. Only `mcmd=spawn` takes several lines, one for each pair, up to
//! `endcmd`.

/// A line from the manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PmiAnswer {
    pub(super) command: String,
    pairs: Vec<(String, String)>,
}

impl PmiAnswer {
    /// Reads a line without its end. `None`: it does not begin with a command.
    pub(super) fn parse(line: &str) -> Option<PmiAnswer> {
        // A value may contain '=', but no blank.
        let mut pairs = line.split_ascii_whitespace().filter_map(|pair| pair.split_once('='));
        let (_, command) = pairs.next().filter(|(key, _)| *key == "cmd")?;
        let pairs = pairs.map(|(key, value)| (key.to_string(), value.to_string())).collect();
        Some(PmiAnswer { command: command.to_string(), pairs })
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub(super) fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        self.text(key)?.parse().ok()
    }

    /// The manager's reason if it has refused the request. A line without a result code is a
    /// success: Intel's Hydra leaves it out in some answers.
    pub(super) fn refusal(&self) -> Option<String> {
        let code = self.text("rc").filter(|code| *code != "0")?;
        Some(match self.text("msg") {
            Some(text) => format!("{text} (rc={code})"),
            None => format!("rc={code}"),
        })
    }
}

/// Whether a text can be a value in a line: no blanks, no control characters, and not empty.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The bytes after the first end of a line, which stay in `unread`, and the line before it.
pub(super) fn take_line(unread: &mut Vec<u8>) -> Option<String> {
    let end = unread.iter().position(|byte| *byte == b'\n')?;
    let rest = unread.split_off(end + 1);
    let mut line = std::mem::replace(unread, rest);
    line.truncate(end);
    Some(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn answers_of_real_managers_are_read() {
        let answer = |line| PmiAnswer::parse(line).unwrap();
        // Slurm 22.05, MPICH 5.0 and Intel MPI 2021.19.
        let slurm = answer("cmd=get_result rc=0 value=(vector,(0,2,1))");
        assert_eq!((slurm.refusal(), slurm.text("value")), (None, Some("(vector,(0,2,1))")));
        assert_eq!(answer("cmd=get_result rc=1").refusal().unwrap(), "rc=1");
        let intel = answer("cmd=get_result rc=-1 msg=key_missing_not_found value=unknown");
        assert_eq!(intel.refusal().unwrap(), "key_missing_not_found (rc=-1)");
        let maxes = answer("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=4096");
        assert_eq!((maxes.refusal(), maxes.number("vallen_max")), (None, Some(4096)));
        assert_eq!(answer("cmd=put_result rc=0 value=a=b").text("value"), Some("a=b"));
        assert_eq!(answer("cmd=barrier_out tag=0").command, "barrier_out");
        assert_eq!(PmiAnswer::parse("rc=0 cmd=barrier_out"), None);
        assert_eq!((PmiAnswer::parse(""), PmiAnswer::parse("barrier_out")), (None, None));
    }

    #[test]
    fn lines_are_taken_one_by_one() {
        let mut unread = b"cmd=a\n\ncmd=b".to_vec();
        assert_eq!(take_line(&mut unread).unwrap(), "cmd=a");
        assert_eq!(take_line(&mut unread).unwrap(), "");
        assert_eq!((take_line(&mut unread), unread.as_slice()), (None, b"cmd=b".as_slice()));
    }

    #[test]
    fn words_have_no_blanks() {
        assert!(is_word("a=b") && !is_word("a b") && !is_word("") && !is_word("a\n"));
    }

    proptest! {
        #[test]
        fn no_line_panics(bytes: Vec<u8>) {
            let mut unread = bytes.clone();
            while let Some(line) = take_line(&mut unread) {
                if let Some(answer) = PmiAnswer::parse(&line) {
                    let _ = (answer.refusal(), answer.number::<u32>("rc"));
                }
            }
            prop_assert!(!unread.contains(&b'\n'));
        }

        #[test]
        fn a_pair_comes_back(key in "[a-z_]{1,9}", value in "[!-~]{1,30}") {
            let answer = PmiAnswer::parse(&format!("cmd=x {key}={value} more=1")).unwrap();
            prop_assert_eq!(answer.text(&key), Some(value.as_str()));
        }
    }
}
