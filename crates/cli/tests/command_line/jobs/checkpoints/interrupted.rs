//! Checkpoints whose tool, or CRIU, is killed in a known stage: the job goes on when CRIU has ended, and the next checkpoint is made.

use super::ranks::{BY_RANK, is_stopped, ranks_of};
use oxmpi_sys::process_stat::ProcessStat;

use super::*;

/// Where CRIU waits in these tests until it may go on.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// It has not begun.
    Before,
    /// The image is complete, and the processes are traced.
    Amid,
    /// It has let the processes go.
    After,
}

/// A CRIU that waits in a stage, as a program for the parameter `cr_blcr_criu`.
struct Waiting<'a> {
    place: &'a Place,
    program: PathBuf,
}

impl<'a> Waiting<'a> {
    fn new(place: &'a Place, stage: Stage) -> Waiting<'a> {
        let program = place.programs.path("waiting");
        let directory = place.programs.directory.display();
        let criu = place.criu.display();
        let wait = format!(
            "cut -d' ' -f5 /proc/$$/stat > '{directory}/group'; mv '{directory}/group' '{directory}/waits'; left=6000
             until [ -e '{directory}/go' ] || [ $left = 0 ]; do sleep 0.01; left=$((left - 1)); done"
        );
        let amid = place.programs.file(
            "amid",
            format!("#!/bin/sh\n[ \"$CRTOOLS_SCRIPT_ACTION\" = post-dump ] || exit 0\n{wait}\n").as_bytes(),
            0o755,
        );
        let act = match stage {
            Stage::Before => format!("{wait}\nexec '{criu}' \"$@\""),
            Stage::Amid => format!("exec '{criu}' \"$@\" --action-script '{}'", amid.display()),
            Stage::After => format!("'{criu}' \"$@\"\ncode=$?\n{wait}\nexit $code"),
        };
        let text = format!("#!/bin/sh\n[ \"$1\" = dump ] || exec '{criu}' \"$@\"\n{act}\n");
        place.programs.file("waiting", text.as_bytes(), 0o755);
        for name in ["waits", "go"] {
            let _ = fs::remove_file(place.programs.path(name));
        }
        Waiting { place, program }
    }

    /// Starts a checkpoint, and returns when CRIU waits.
    fn checkpoint(&self, job: &mut Running<'_>, options: &[&str]) -> Child {
        let mut command = self.place.oxmpi(&[&["checkpoint", &job.mpirun()], options].concat());
        command.env("OXMPI_MCA_cr_blcr_criu", &self.program);
        let mut asked = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let waits = self.place.programs.path("waits");
        let mut group = None;
        job.await_that("CRIU does not come to its stage", |_| {
            group = fs::read_to_string(&waits).ok().and_then(|text| text.trim().parse().ok());
            group.is_some() || asked.try_wait().unwrap().is_some()
        });
        if group.is_none() {
            panic!("{}", words(&asked.wait_with_output().unwrap()));
        }
        // What a terminal sends for ^C comes to the whole group of the tool.
        assert_ne!(group, ProcessStat::of(asked.id()).map(|stat| stat.group));
        asked
    }

    fn let_go(&self) {
        self.place.programs.file("go", b"", 0o644);
    }
}

/// The tool is killed, or typed ^C at, and CRIU is not: a job with these options goes on.
fn goes_on_after_an_interruption(options: &[&str], form: &[&str]) {
    let Some(place) = Place::new(&["jobs/cr_signalled"]) else { return };
    let mut job = place.start(options, "cr_signalled", &[]);
    job.await_line("step");
    for stage in [Stage::Before, Stage::Amid, Stage::After] {
        for signal in [Signal::KILL, Signal::INT] {
            let waiting = Waiting::new(&place, stage);
            let mut asked = waiting.checkpoint(&mut job, form);
            kill_process(Pid::from_child(&asked), signal).unwrap();
            assert!(!asked.wait().unwrap().success());
            if form.is_empty() {
                // Nobody has let the ranks go.
                let said = ["images of the job are being made"];
                refused(&run(place.oxmpi(&["quiesce", &job.mpirun()])), 1, &said);
            }
            let next = place.oxmpi(&[&["checkpoint", &job.mpirun()], form].concat());
            let next = with(next, &["--mca", "cr_keep", "0"]).stdout(Stdio::piped()).spawn().unwrap();
            waiting.let_go();
            let output = next.wait_with_output().unwrap();
            assert!(output.status.success(), "{stage:?} {signal:?}: {}", words(&output));
            assert_eq!(place.names(), [set_of(&output).rsplit('/').next().unwrap()], "{stage:?} {signal:?}");
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

/// CRIU is run by the agents.
#[test]
fn an_interrupted_image_on_other_hosts_lets_the_job_go_on() {
    let Some(place) = Place::new(&["jobs/cr_signalled"]) else { return };
    let shell = place.programs.file("shell", b"#!/bin/sh\nshift; exec sh -c \"$*\"\n", 0o755);
    let waiting = Waiting::new(&place, Stage::Amid);
    let (shell, criu) = (shell.display().to_string(), waiting.program.display().to_string());
    let hosts = ["--mca", "plm_rsh_agent", &shell, "-H", "a.invalid:2,b.invalid:2"];
    let hosts = [&hosts[..], &["--mca", "btl_tcp_if_include", "lo"]].concat();
    let options = [&BY_RANK[..], &hosts, &["--mca", "cr_blcr_criu", &criu]].concat();
    waiting.let_go();
    let mut job = place.start(&options, "cr_signalled", &[]);
    job.await_line("step");
    // Agents may not answer at once where names of hosts are not found.
    job.await_that("no checkpoint is made", |job| {
        run(place.oxmpi(&["checkpoint", &job.mpirun()])).status.success()
    });
    let waiting = Waiting::new(&place, Stage::Amid);
    let mut asked = waiting.checkpoint(&mut job, &[]);
    kill_process(Pid::from_child(&asked), Signal::KILL).unwrap();
    asked.wait().unwrap();
    let said =
        ["cannot be checkpointed: host ", "CRIU still makes images there for a checkpoint that was given up"];
    refused(&run(place.oxmpi(&["checkpoint", &job.mpirun()])), 1, &said);
    waiting.let_go();
    job.await_line("step");
    set_of(&run(place.oxmpi(&["checkpoint", &job.mpirun()])));
    job.await_line("step");
    job.lose();
}

/// A signal for the job does not wake ranks that CRIU has its hands in, and is not lost.
#[test]
fn a_signal_waits_for_criu() {
    let Some(place) = Place::new(&["jobs/cr_signalled"]) else { return };
    let mut job = place.start(&BY_RANK, "cr_signalled", &[]);
    job.await_line("step");
    let waiting = Waiting::new(&place, Stage::Amid);
    let asked = waiting.checkpoint(&mut job, &[]);
    job.signal(Signal::USR2);
    // It is heeded before the question.
    refused(&run(place.oxmpi(&["quiesce", &job.mpirun()])), 1, &["images of the job are being made"]);
    waiting.let_go();
    let said = ["there is no new set", "mpirun had a signal for them"];
    refused(&asked.wait_with_output().unwrap(), 1, &said);
    job.await_that("the signal is lost", |job| job.text().contains("4 ranks were signalled"));
    set_of(&run(place.oxmpi(&["checkpoint", &job.mpirun()])));
    job.await_line("step");
    job.lose();
    // It does not wait for the disk.
    let mut job = place.start(&BY_RANK, "cr_signalled", &[]);
    job.await_line("step");
    let pause = place.programs.path("pause");
    let mut command = place.oxmpi(&["checkpoint", "--kill", &job.mpirun()]);
    command.env("OXMPI_CHECKPOINT_PAUSE", format!("synced:{}", pause.display()));
    let mut asked = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    job.await_that("the step is not reached", |_| pause.exists());
    job.signal(Signal::USR2);
    job.await_that("the signal waits", |job| job.text().contains("4 ranks were signalled"));
    assert!(asked.try_wait().unwrap().is_none());
    asked.kill().unwrap();
    asked.wait().unwrap();
    job.await_line("step");
    job.lose();
}

#[test]
fn a_criu_that_was_killed_and_a_rank_that_was_stopped_before_are_told() {
    let Some(place) = Place::new(&["jobs/cr_signalled"]) else { return };
    let mut job = place.start(&BY_RANK, "cr_signalled", &[]);
    job.await_line("step");
    for form in [&[][..], &["--tree"]] {
        // Code of CRIU in a rank has written to CRIU when that was gone.
        let harm = if form.is_empty() { "until [ \"$1\" = -t ]; do shift; done; kill -PIPE $2;" } else { "" };
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = dump ] || exec '{}' \"$@\"\n{harm} kill -9 $$\n",
            place.criu.display()
        );
        let killed = place.programs.file("killed", text.as_bytes(), 0o755);
        let mut command = place.oxmpi(&[&["checkpoint", &job.mpirun()], form].concat());
        command.env("OXMPI_MCA_cr_blcr_criu", &killed);
        refused(
            &run(command),
            1,
            &["there is no new set: CRIU was ended by signal 9 while it made the image of "],
        );
        job.await_line("step");
    }
    let rank = ranks_of(&place)[0];
    kill_process(Pid::from_raw(rank).unwrap(), Signal::STOP).unwrap();
    job.await_that("it is not stopped", |_| is_stopped(rank));
    let output = run(place.oxmpi(&["checkpoint", &job.mpirun()]));
    refused(
        &output,
        1,
        &["whole and on disk", &format!("(process {rank}) was stopped already"), "kill -CONT"],
    );
    kill_process(Pid::from_raw(rank).unwrap(), Signal::CONT).unwrap();
    job.await_line("step");
    set_of(&run(place.oxmpi(&["checkpoint", &job.mpirun()])));
    job.lose();
}
