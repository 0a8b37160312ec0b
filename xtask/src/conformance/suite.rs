//! A module of mpi4py's suite. Its tests run in one job; after a test that breaks the job, the
//! remaining tests run in another one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::client::Client;
use super::job::{self, Ending, Limits};
use super::record::{self, Rank, Stop};
use super::results::{JobSetting, Part, Test, Verdict};
use crate::root;
use crate::run::Failure;

const MODULE_LIMIT: Duration = Duration::from_secs(900);
const MOST_HANGS: usize = 10;
/// Broken jobs of one module at most.
const MOST_JOBS: usize = 200;

#[derive(Debug)]
pub(super) struct Suite<'a> {
    pub(super) client: &'a Client,
    pub(super) witness: PathBuf,
    pub(super) directory: &'a Path,
    pub(super) patience: Duration,
}

struct Progress {
    tests: BTreeMap<String, Test>,
    /// The tests that do not run again.
    done: BTreeSet<String>,
    hangs: usize,
}

impl Suite<'_> {
    pub(super) fn run(&self, module: &str, setting: JobSetting) -> Result<Part, Failure> {
        let begin = Instant::now();
        let mut progress = Progress { tests: BTreeMap::new(), done: BTreeSet::new(), hangs: 0 };
        for jobs in 1.. {
            let left = MODULE_LIMIT.saturating_sub(begin.elapsed());
            if !self.job(module, setting, left, &mut progress)? {
                break;
            }
            if progress.hangs >= MOST_HANGS || jobs >= MOST_JOBS || left.is_zero() {
                let text = format!("given up after {jobs} jobs, {} of which hung", progress.hangs);
                progress.add(Test::new(format!("{module}.(rest)"), Verdict::Error, text));
                break;
            }
        }
        let mut part = Part::new(module, setting);
        part.tests = progress.tests.into_values().collect();
        part.seconds = begin.elapsed().as_secs_f64();
        Ok(part)
    }

    /// Runs the remaining tests in one job. Returns whether tests remain after that.
    fn job(
        &self,
        module: &str,
        setting: JobSetting,
        left: Duration,
        progress: &mut Progress,
    ) -> Result<bool, Failure> {
        let name = format!("{module}.{}.{}", setting.ranks, setting.rpi.name());
        let (records, log) = (
            self.directory.join("records").join(&name),
            self.directory.join(format!("{name}.log")),
        );
        // Records of the last run or job.
        let _ = fs::remove_dir_all(&records);
        super::make_directory(&records)?;
        let done = self.directory.join("records").join(format!("{name}.done"));
        let names: Vec<&str> = progress.done.iter().map(String::as_str).collect();
        super::write(&done, &names.join("\n"))?;

        let mut command = self.client.mpirun();
        command.args(["-n", &setting.ranks.to_string()]).args(setting.rpi.arguments());
        command.arg(self.client.python()).arg(root().join("xtask/src/conformance/recorder.py"));
        command.arg(&self.client.suite).arg(&records).arg(&self.witness).arg(&done).arg(module);
        // A slow rank records its stack shortly before it is ended.
        let slow = self.patience.saturating_sub(Duration::from_secs(3));
        command.env("CONFORMANCE_SLOW_SECONDS", slow.as_secs().to_string());
        // For processes that a test spawns.
        command.env("CONFORMANCE_SUITE", &self.client.suite);
        let ending =
            job::run(command, &records, &log, Limits { patience: self.patience, total: left })?;

        let ranks: Vec<Rank> = (0..setting.ranks).map(|rank| Rank::read(&records, rank)).collect();
        Ok(progress.learn(module, &ranks, ending, || job::tail(&log, 12)))
    }
}

impl Progress {
    /// Adds the results of a job. Returns whether tests remain.
    fn learn(
        &mut self,
        module: &str,
        ranks: &[Rank],
        ending: Ending,
        log: impl Fn() -> String,
    ) -> bool {
        let stop = record::stop(ranks);
        let blamed = match &stop {
            Stop::In(test) | Stop::After(test) => Some(test.as_str()),
            _ => None,
        };
        for test in record::merge(ranks, blamed) {
            self.add(test);
        }
        let (verdict, what) = match ending {
            Ending::Stalled => (Verdict::Hung, "nothing happened any more".to_owned()),
            Ending::TimedOut => (Verdict::Hung, "no end within the module's time".to_owned()),
            Ending::Exit(code) => {
                (Verdict::Crashed, format!("the job ended with exit code {code}"))
            }
        };
        self.hangs += usize::from(verdict == Verdict::Hung);
        let setting = match stop {
            Stop::Finished if ending == Ending::Exit(0) => return false,
            Stop::After(_) => return true,
            Stop::In(test) => test,
            Stop::Start => format!("{module}.(start)"),
            Stop::Finished | Stop::Exit => format!("{module}.(exit)"),
        };
        let goes_on = !setting.ends_with(')') && ending != Ending::TimedOut;
        let mut test =
            Test::new(setting, verdict, format!("{what}\n{}{}", record::stacks(ranks), log()));
        if let Some(known) = self.tests.get(&test.name) {
            // Earlier records of a rank explain the rest.
            if known.verdict.is_bad() {
                test.text =
                    format!("{what} after: {}\n{}\n{}", known.reason(), known.text, test.text);
            }
            test.missing = known.missing.clone();
        }
        self.add(test);
        goes_on
    }

    fn add(&mut self, test: Test) {
        self.done.insert(test.name.clone());
        self.tests.insert(test.name.clone(), test);
    }
}
