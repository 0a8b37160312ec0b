//! The job that measures: `mpirun` of this installation, connected by pipes.

use crate::campaign::Answer;
use crate::comparison::MeasuringRound;
use crate::rank::{parse_answer, request_line};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A job of measuring ranks. Dropping it ends the job.
#[derive(Debug)]
pub struct MeasuringJob {
    ranks: u32,
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl MeasuringJob {
    /// Starts a job by `oxmpi`, the program with the commands `mpirun` and `tune-rank`. `mpirun`
    /// ends the job after `timeout_seconds`.
    pub fn start(
        oxmpi: &Path,
        ranks: u32,
        mca: &[(String, String)],
        timeout_seconds: u64,
    ) -> Result<MeasuringJob, String> {
        let mut command = Command::new(oxmpi);
        command.args([
            "mpirun",
            "-n",
            &ranks.to_string(),
            "--timeout",
            &timeout_seconds.to_string(),
        ]);
        // Dynamic rules would change the fixed choice, which is measured too.
        command.args(["--mca", "coll_tuned_use_dynamic_rules", "0"]);
        for (name, value) in mca {
            command.args(["--mca", name, value]);
        }
        command.arg(oxmpi).arg("tune-rank").stdin(Stdio::piped()).stdout(Stdio::piped());
        let failed =
            |error: std::io::Error| format!("cannot start {} mpirun: {error}", oxmpi.display());
        let mut child = command.spawn().map_err(failed)?;
        match (child.stdin.take(), child.stdout.take()) {
            (Some(questions), Some(answers)) => Ok(MeasuringJob {
                ranks,
                child,
                questions: Some(questions),
                answers: BufReader::new(answers),
            }),
            _ => Err("mpirun has no pipes".to_string()),
        }
    }

    /// The number of its ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Measures a round.
    pub fn answer(&mut self, round: &MeasuringRound) -> Result<Answer, String> {
        let line = request_line(round);
        let sent = self
            .questions
            .as_mut()
            .map(|pipe| pipe.write_all(line.as_bytes()).and_then(|()| pipe.flush()));
        if !matches!(sent, Some(Ok(()))) {
            return Err(self.ended());
        }
        loop {
            let mut line = String::new();
            match self.answers.read_line(&mut line) {
                Ok(0) => return Err(self.ended()),
                Err(error) => {
                    return Err(format!(
                        "cannot read the output of the job of {} ranks: {error}",
                        self.ranks
                    ));
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

impl Drop for MeasuringJob {
    fn drop(&mut self) {
        // The ranks end at the end of their input.
        self.questions = None;
        let _ = self.child.wait();
    }
}
