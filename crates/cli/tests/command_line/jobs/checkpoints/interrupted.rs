//! Checkpoints whose tool or CRIU is killed in a known stage: the job goes on after CRIU has ended,
//! and the next checkpoint succeeds.

use super::ranks::{BY_RANK, is_stopped, ranks_of};
use oxmpi_sys::process_stat::ProcessStat;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Stage {
    Before,
    /// The image is complete, and the processes are traced.
    Amid,
    After,
}

/// A CRIU that waits in a stage: a program for the parameter `cr_blcr_criu`.
struct PausedCriu<'a> {
    sandbox: &'a Sandbox,
    program: PathBuf,
    /// The action script, which CRIU runs by system(3), so its path must not have blanks.
    _plain: TestDirectory,
}

impl<'a> PausedCriu<'a> {
    fn new(sandbox: &'a Sandbox, stage: Stage) -> PausedCriu<'a> {
        let program = sandbox.programs.path("waiting");
        let directory = sandbox.programs.directory.display();
        let criu = sandbox.criu.display();
        let wait = format!(
            "cut -d' ' -f5 /proc/$$/stat > '{directory}/group'; mv '{directory}/group' '{directory}/waits'; left=6000
             until [ -e '{directory}/go' ] || [ $left = 0 ]; do sleep 0.01; left=$((left - 1)); done"
        );
        let plain = TestDirectory::new("amid");
        let amid = plain.script(
            "amid",
            &format!("#!/bin/sh\n[ \"$CRTOOLS_SCRIPT_ACTION\" = post-dump ] || exit 0\n{wait}\n"),
        );
        let act = match stage {
            Stage::Before => format!("{wait}\nexec '{criu}' \"$@\""),
            Stage::Amid => format!("exec '{criu}' \"$@\" --action-script {amid}"),
            Stage::After => format!("'{criu}' \"$@\"\ncode=$?\n{wait}\nexit $code"),
        };
        let text = format!("#!/bin/sh\n[ \"$1\" = dump ] || exec '{criu}' \"$@\"\n{act}\n");
        sandbox.programs.file("waiting", text.as_bytes(), 0o755);
        for name in ["waits", "go"] {
            let _ = fs::remove_file(sandbox.programs.path(name));
        }
        PausedCriu { sandbox, program, _plain: plain }
    }

    fn checkpoint(&self, job: &mut ImagedJob<'_>, options: &[&str]) -> Child {
        let mut command = self.sandbox.oxmpi(&[&["checkpoint", &job.mpirun()], options].concat());
        command.env("OXMPI_MCA_cr_blcr_criu", &self.program);
        let mut tool = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let waits = self.sandbox.programs.path("waits");
        let mut group = None;
        job.await_that("CRIU does not come to its stage", |_| {
            group = fs::read_to_string(&waits).ok().and_then(|text| text.trim().parse().ok());
            group.is_some() || tool.try_wait().unwrap().is_some()
        });
        if group.is_none() {
            panic!("{}", words(&tool.wait_with_output().unwrap()));
        }
        // A ^C on a terminal goes to the whole process group of the tool, so CRIU must be in
        // another one.
        assert_ne!(group, ProcessStat::of(tool.id()).map(|stat| stat.group));
        tool
    }

    fn let_go(&self) {
        self.sandbox.programs.file("go", b"", 0o644);
    }
}

fn goes_on_after_an_interruption(options: &[&str], form: &[&str]) {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_signalled"]) else { return };
    let mut job = sandbox.start(options, "cr_signalled", &[]);
    job.await_line("step");
    for stage in [Stage::Before, Stage::Amid, Stage::After] {
        for signal in [Signal::KILL, Signal::INT] {
            let waiting = PausedCriu::new(&sandbox, stage);
            let mut tool = waiting.checkpoint(&mut job, form);
            kill_process(Pid::from_child(&tool), signal).unwrap();
            assert!(!tool.wait().unwrap().success());
            if form.is_empty() {
                let said = ["images of the job are being made"];
                refused(&run(sandbox.oxmpi(&["quiesce", &job.mpirun()])), 1, &said);
            }
            let next = sandbox.oxmpi(&[&["checkpoint", &job.mpirun()], form].concat());
            let next =
                with(next, &["--mca", "cr_keep", "0"]).stdout(Stdio::piped()).spawn().unwrap();
            waiting.let_go();
            let output = next.wait_with_output().unwrap();
            assert!(output.status.success(), "{stage:?} {signal:?}: {}", words(&output));
            assert_eq!(
                sandbox.names(),
                [set_of(&output).rsplit('/').next().unwrap()],
                "{stage:?} {signal:?}"
            );
            job.await_line("step");
        }
    }
    job.lose();
}

#[test]
fn an_interrupted_image_of_each_rank_lets_the_job_go_on() {
    goes_on_after_an_interruption(&BY_RANK, &[]);
}

#[test]
fn an_interrupted_image_of_all_processes_lets_the_job_go_on() {
    goes_on_after_an_interruption(&[], &["--tree"]);
}

#[test]
fn an_interrupted_image_on_other_hosts_lets_the_job_go_on() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_signalled"]) else { return };
    let directory = TestDirectory::new("remote");
    let shell = directory.remote_shell();
    let waiting = PausedCriu::new(&sandbox, Stage::Amid);
    let criu = waiting.program.display().to_string();
    let hosts = ["--mca", "plm_rsh_agent", &shell, "-H", "a.invalid:2,b.invalid:2"];
    let hosts = [&hosts[..], &["--mca", "btl_tcp_if_include", "lo"]].concat();
    let options = [&BY_RANK[..], &hosts, &["--mca", "cr_blcr_criu", &criu]].concat();
    waiting.let_go();
    let mut job = sandbox.start(&options, "cr_signalled", &[]);
    job.await_line("step");
    // Agents may answer late where the names of hosts are unknown.
    job.await_that("no checkpoint is made", |job| {
        run(sandbox.oxmpi(&["checkpoint", &job.mpirun()])).status.success()
    });
    let waiting = PausedCriu::new(&sandbox, Stage::Amid);
    let mut tool = waiting.checkpoint(&mut job, &[]);
    kill_process(Pid::from_child(&tool), Signal::KILL).unwrap();
    tool.wait().unwrap();
    let said = [
        "cannot be checkpointed: host ",
        "CRIU still makes images there for a checkpoint that was given up",
    ];
    refused(&run(sandbox.oxmpi(&["checkpoint", &job.mpirun()])), 1, &said);
    waiting.let_go();
    job.await_line("step");
    set_of(&run(sandbox.oxmpi(&["checkpoint", &job.mpirun()])));
    job.await_line("step");
    job.lose();
}

/// mpirun keeps a signal for the job until CRIU has released the ranks.
#[test]
fn a_signal_waits_for_criu() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_signalled"]) else { return };
    let mut job = sandbox.start(&BY_RANK, "cr_signalled", &[]);
    job.await_line("step");
    let waiting = PausedCriu::new(&sandbox, Stage::Amid);
    let tool = waiting.checkpoint(&mut job, &[]);
    job.signal(Signal::USR2);
    // mpirun reads the signal before this request.
    refused(
        &run(sandbox.oxmpi(&["quiesce", &job.mpirun()])),
        1,
        &["images of the job are being made"],
    );
    waiting.let_go();
    let said = ["there is no new set", "mpirun had a signal for them"];
    refused(&tool.wait_with_output().unwrap(), 1, &said);
    job.await_that("the signal is lost", |job| job.text().contains("4 ranks were signalled"));
    set_of(&run(sandbox.oxmpi(&["checkpoint", &job.mpirun()])));
    job.await_line("step");
    job.lose();
    let mut job = sandbox.start(&BY_RANK, "cr_signalled", &[]);
    job.await_line("step");
    let pause = sandbox.programs.path("pause");
    let mut command = sandbox.oxmpi(&["checkpoint", "--kill", &job.mpirun()]);
    command.env("OXMPI_CHECKPOINT_PAUSE", format!("synced:{}", pause.display()));
    let mut tool = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    job.await_that("the step is not reached", |_| pause.exists());
    job.signal(Signal::USR2);
    job.await_that("the signal waits", |job| job.text().contains("4 ranks were signalled"));
    assert!(tool.try_wait().unwrap().is_none());
    tool.kill().unwrap();
    tool.wait().unwrap();
    job.await_line("step");
    job.lose();
}

#[test]
fn a_killed_criu_and_a_stopped_rank_are_reported() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_signalled"]) else { return };
    let mut job = sandbox.start(&BY_RANK, "cr_signalled", &[]);
    job.await_line("step");
    for form in [&[][..], &["--tree"]] {
        // The code of CRIU in a rank gets SIGPIPE when it writes to a CRIU that has ended.
        let harm = if form.is_empty() {
            "until [ \"$1\" = -t ]; do shift; done; kill -PIPE $2;"
        } else {
            ""
        };
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = dump ] || exec '{}' \"$@\"\n{harm} kill -9 $$\n",
            sandbox.criu.display()
        );
        let killed = sandbox.programs.file("killed", text.as_bytes(), 0o755);
        let mut command = sandbox.oxmpi(&[&["checkpoint", &job.mpirun()], form].concat());
        command.env("OXMPI_MCA_cr_blcr_criu", &killed);
        refused(
            &run(command),
            1,
            &["there is no new set: CRIU was ended by signal 9 while it made the image of "],
        );
        job.await_line("step");
    }
    let rank = ranks_of(&sandbox)[0];
    kill_process(Pid::from_raw(rank).unwrap(), Signal::STOP).unwrap();
    job.await_that("it is not stopped", |_| is_stopped(rank));
    let output = run(sandbox.oxmpi(&["checkpoint", &job.mpirun()]));
    refused(
        &output,
        1,
        &["whole and on disk", &format!("(process {rank}) was stopped already"), "kill -CONT"],
    );
    kill_process(Pid::from_raw(rank).unwrap(), Signal::CONT).unwrap();
    job.await_line("step");
    set_of(&run(sandbox.oxmpi(&["checkpoint", &job.mpirun()])));
    job.lose();
}
