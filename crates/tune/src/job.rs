//! The job that measures: `mpirun` of this installation, asked and answered through pipes.

use crate::bout::Ask;
use crate::campaign::Answer;
use crate::rank::{parse_answer, question_line};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A job of ranks that measure. It ends when this is dropped.
#[derive(Debug)]
pub struct Job {
    ranks: u32,
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Job {
    /// Starts one by `oxmpi`, the program that has `mpirun` and `tune-rank` in it. It is ended after `timeout_seconds` if
    /// it hangs.
    ///
    /// # Errors
    /// If `mpirun` cannot be started.
    pub fn start(
        oxmpi: &Path,
        ranks: u32,
        mca: &[(String, String)],
        timeout_seconds: u64,
    ) -> Result<Job, String> {
        let mut command = Command::new(oxmpi);
        command.args(["mpirun", "-n", &ranks.to_string(), "--timeout", &timeout_seconds.to_string()]);
        // What is tuned already must not be measured as the fixed choice.
        command.args(["--mca", "coll_tuned_use_dynamic_rules", "0"]);
        for (name, value) in mca {
            command.args(["--mca", name, value]);
        }
        command.arg(oxmpi).arg("tune-rank").stdin(Stdio::piped()).stdout(Stdio::piped());
        let failed = |error: std::io::Error| format!("cannot start {} mpirun: {error}", oxmpi.display());
        let mut child = command.spawn().map_err(failed)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(questions), Some(answers)) => {
                Ok(Job { ranks, child, questions: Some(questions), answers: BufReader::new(answers) })
            }
            _ => Err("mpirun has no pipes".to_string()),
        }
    }

    /// How many ranks it has.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The job has ended.
    pub fn answer(&mut self, ask: &Ask) -> Result<Answer, String> {
        let line = question_line(ask);
        let sent =
            self.questions.as_mut().map(|pipe| pipe.write_all(line.as_bytes()).and_then(|()| pipe.flush()));
        if !matches!(sent, Some(Ok(()))) {
            return Err(self.ended());
        }
        loop {
            let mut line = String::new();
            match self.answers.read_line(&mut line) {
                Ok(0) => return Err(self.ended()),
                Err(error) => {
                    return Err(format!("cannot read what the job of {} ranks says: {error}", self.ranks));
                }
                Ok(_) => {}
            }
            match parse_answer(&line) {
                Some(answer) => return Ok(answer),
                None => oxmpi_sys::stdio::complain(format_args!("{line}")),
            }
        }
    }

    fn ended(&mut self) -> String {
        self.questions = None;
        let how = match self.child.wait() {
            Ok(status) => match status.code() {
                Some(code) => format!("mpirun has ended with code {code}"),
                None => "mpirun was killed".to_string(),
            },
            Err(error) => error.to_string(),
        };
        format!("the job of {} ranks has ended while it measured: {how}", self.ranks)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // The ranks end with their questions.
        self.questions = None;
        let _ = self.child.wait();
    }
}
