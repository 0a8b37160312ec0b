//! Runs launch lines one after another, on one Slurm cluster or on this host, and checks after each
//! that no process, shared memory or socket of its job is left.

use std::process::{Command, Stdio};

use crate::support::launchers::{Launcher, two_nodes};
use crate::support::{TestDirectory, compiled, root, shell_word};

pub(super) const SLURM: [Launcher; 3] =
    [Launcher::Srun("pmi2"), Launcher::Srun("pmix"), Launcher::Srun("none")];
pub(super) const LOCAL: [Launcher; 3] = [Launcher::Hydra, Launcher::HydraAtPort, Launcher::Prterun];

/// Runs each line of the file `commands`; the results are in files with the number of the line.
/// The environment of each job names the job, so that its processes are found.
const RUNNER: &str = r#"
number=0
while IFS= read -r line; do
    OXMPI_TEST_JOB=$PWD.$number timeout 100 sh -c "$line" >$number.out 2>$number.err </dev/null
    echo $? >$number.code
    $on_each_node sh ./left $PWD.$number >$number.left 2>&1 </dev/null
    number=$((number + 1))
done <commands
"#;

/// Prints the remains of a job on this node, if there are some after five seconds. A cluster has
/// shared memory and sockets of its own.
const LEFT: &str = r#"
for _ in $(seq 250); do
    left=$(grep -alz "^OXMPI_TEST_JOB=$1$" /proc/[0-9]*/environ 2>/dev/null)
    if [ -n "$on_each_node" ]; then
        left="$left $(ls /dev/shm) $(grep -o '@oxmpi.*' /proc/net/unix)"
    fi
    [ -n "$(echo $left)" ] || exit 0
    sleep 0.02
done
echo "$(hostname): $left"
"#;

/// Prints the processes of the job on this node whose words match a pattern of the shell.
const PROCESSES: &str = r#"
for file in $(grep -alz "^OXMPI_TEST_JOB=$OXMPI_TEST_JOB$" /proc/[0-9]*/environ 2>/dev/null); do
    process=${file#/proc/}
    process=${process%/environ}
    words=$(tr '\0' ' ' <"/proc/$process/cmdline")
    case ${words% } in $1) echo "$process" ;; esac
done
"#;

/// The result of a launch line.
#[derive(Debug)]
pub(super) struct Ran {
    #[allow(dead_code)] // for the text of a failed check
    line: String,
    pub(super) code: i32,
    pub(super) out: String,
    pub(super) err: String,
}

impl Ran {
    /// The job has succeeded, and its programs have printed this number of lines `ok`, and nothing
    /// else.
    pub(super) fn is_fine(&self, oks: usize) {
        self.has_succeeded();
        assert_eq!(self.out, "ok\n".repeat(oks), "{self:?}");
    }

    /// The job has succeeded without an error of its programs.
    pub(super) fn has_succeeded(&self) {
        // Slurm waits for the end of the job before, and the library PMIx 4.2 prints the other line
        // under prterun 5.
        let usual = ["srun: job ", "PMIX ERROR: PMIX_ERR_UNPACK"];
        let is_usual = |line: &&str| usual.iter().any(|text| line.contains(text));
        let errors = self.err.lines().filter(|line| !is_usual(line));
        assert_eq!((self.code, errors.count()), (0, 0), "{self:?}");
    }

    pub(super) fn says(&self, parts: &[&str]) {
        parts.iter().for_each(|part| assert!(self.err.contains(part), "{part}: {self:?}"));
    }
}

/// The launch line of four processes, without the program. `None`: this machine does not have the
/// launcher, which was reported.
pub(super) fn line(launcher: Launcher) -> Option<String> {
    let command = launcher.command(4)?;
    let program = (!launcher.is_on_two_nodes()).then(|| command.get_program());
    let words = program.into_iter().chain(command.get_args());
    Some(words.map(|word| shell_word(word.as_ref())).collect::<Vec<_>>().join(" "))
}

/// The launch lines of launchers with each of these ends, in the order of the launchers.
pub(super) fn lines(launchers: &[Launcher], ends: &[&str]) -> Vec<String> {
    let begins = launchers.iter().filter_map(|launcher| line(*launcher));
    begins.flat_map(|begin| ends.iter().map(move |end| format!("{begin} {end}"))).collect()
}

/// Runs lines on the nodes of a new cluster. Each C program of `tests/c` is in the variable with
/// its name. `None`: this machine can make no cluster, which was reported.
pub(super) fn run_on_cluster(programs: &[&str], lines: &[String]) -> Option<Vec<Ran>> {
    let mut command = two_nodes()?;
    command.args(["bash", "runner"]);
    command.env("on_each_node", "srun -N2 --ntasks-per-node=1 --mpi=none --overlap");
    Some(run(command, programs, lines))
}

/// Runs lines on this host.
pub(super) fn run_here(programs: &[&str], lines: &[String]) -> Vec<Ran> {
    let mut command = Command::new("bash");
    command.arg("runner");
    run(command, programs, lines)
}

fn run(mut command: Command, programs: &[&str], lines: &[String]) -> Vec<Ran> {
    let directory = TestDirectory::new("launched-by");
    directory.write("runner", RUNNER);
    directory.write("left", LEFT);
    directory.write("processes", PROCESSES);
    directory.write("commands", &(lines.join("\n") + "\n"));
    for program in programs {
        let source = root().join(program).with_extension("c");
        let name = source.file_stem().unwrap().to_owned();
        command.env(name, compiled(&source).unwrap());
    }
    command.current_dir(&directory).env("OXMPI_PARAM_FILES", "none").stdin(Stdio::null());
    let output = command.output().unwrap();
    let read = |name: String| {
        let bytes = std::fs::read(directory.join(&name))
            .unwrap_or_else(|error| panic!("{name}: {error}: {output:?}"));
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let ran = lines.iter().enumerate().map(|(number, line)| Ran {
        line: line.clone(),
        code: read(format!("{number}.code")).trim().parse().unwrap(),
        out: read(format!("{number}.out")),
        err: read(format!("{number}.err")),
    });
    let ran: Vec<Ran> = ran.collect();
    for (number, one) in ran.iter().enumerate() {
        let left = read(format!("{number}.left"));
        let is_empty = left.lines().all(|line| line.starts_with("srun: job "));
        assert!(is_empty, "left behind: {left}: {one:?}");
    }
    ran
}
