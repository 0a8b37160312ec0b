//! Below real launchers, Slurm on two nodes, Hydra, prterun and ours: `oxmpi info --launched-by`,
//! and jobs whose processes the launcher has started ([`jobs`], [`ends`], [`hostile`]).

mod ends;
mod hostile;
mod jobs;
mod runs;

use std::process::Command;

use crate::support::launchers::{LAUNCHERS, Launcher, two_nodes};
use crate::support::{installed, texts};

const PROCESSES: usize = 4;

/// Runs the command as the program of a launcher.
fn below(mut launcher: Command, options: &[&str]) -> (i32, String, String) {
    launcher.arg(installed("oxmpi")).args(["info", "--launched-by"]).args(options);
    texts(&launcher.env("OXMPI_PARAM_FILES", "none").output().unwrap())
}

/// The rows of the table: rank and host.
fn rows(out: &str) -> Vec<(String, String)> {
    let lines = out.lines().skip_while(|line| !line.ends_with("process  host")).skip(1);
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_string(), words.nth(1)?.to_string()))
    };
    lines.filter_map(row).collect()
}

fn has(out: &str, begin: &str, text: &str) {
    let line = out.lines().find(|line| line.starts_with(begin)).unwrap_or_default();
    assert!(line.contains(text), "{begin}{text}: {out}");
}

#[test]
fn the_first_process_prints_a_table_of_all() {
    for launcher in LAUNCHERS {
        let Some(command) = launcher.command(PROCESSES) else { continue };
        let (code, out, err) = below(command, &[]);
        assert_eq!(code, 0, "{launcher:?}: {out}{err}");
        let found = rows(&out);
        let ranks: Vec<&str> = found.iter().map(|(rank, _)| rank.as_str()).collect();
        assert_eq!(ranks, ["0", "1", "2", "3"], "{launcher:?}: {out}{err}");
        let hosts: Vec<&str> = found.iter().map(|(_, host)| host.as_str()).collect();
        if launcher.is_on_two_nodes() {
            assert_eq!(hosts, ["nodea", "nodea", "nodeb", "nodeb"], "{launcher:?}: {out}");
        }
        has(&out, "processes:", "4");
        let (manager, evidence) = match launcher {
            Launcher::Srun("pmi2") | Launcher::Hydra => ("the PMI-1 manager at PMI_FD=", "PMI_FD"),
            Launcher::HydraAtPort => ("the PMI-1 manager at PMI_PORT=", "PMI_ID=0"),
            _ => ("the PMIx server of ", "a PMIx server answers at 127.0.0.1:"),
        };
        has(&out, "manager:", manager);
        has(&out, "evidence:", evidence);
    }
}

#[test]
fn the_nodes_of_a_step_without_pmi_meet_by_munge() {
    let Some(command) = Launcher::Srun("none").command(PROCESSES) else { return };
    let (code, out, err) = below(command, &[]);
    assert_eq!(code, 0, "{out}{err}");
    let node = |number: &str, host: &str| (number.to_string(), host.to_string());
    assert_eq!(rows(&out), [node("0", "nodea"), node("1", "nodeb")], "{out}{err}");
    has(&out, "evidence:", "SLURM_STEP_NUM_TASKS=4");
}

/// Two steps at the same time, each of which has its own table.
#[test]
fn steps_at_the_same_time_are_jobs_of_their_own() {
    for protocol in ["pmi2", "pmix", "none"] {
        let Some(mut command) = two_nodes() else { continue };
        let step = format!("srun -N2 -n2 --overlap --mpi={protocol} \"$@\"");
        command.args(["salloc", "-Q", "-N2", "-n2", "sh", "-c"]);
        command.args([&format!("{step} & {step}; code=$?; wait $! && exit $code"), "sh"]);
        let (code, out, err) = below(command, &[]);
        assert_eq!(code, 0, "{protocol}: {out}{err}");
        let names = |begin: &str| -> Vec<String> {
            out.lines().filter(|line| line.starts_with(begin)).map(String::from).collect()
        };
        let jobs = names("job:");
        assert!(jobs.len() == 2 && jobs[0] != jobs[1], "{protocol}: {out}{err}");
    }
}

#[test]
fn without_its_library_a_protocol_is_refused_with_the_line_to_type() {
    let files = [
        ("pmix", "pmix_library", "libpmix2"),
        ("none", "munge_library", "libmunge2"),
        ("none", "munge_socket", "munged"),
    ];
    for (protocol, parameter, remedy) in files {
        let Some(command) = Launcher::Srun(protocol).command(2) else { continue };
        let (code, out, err) = below(command, &["--mca", parameter, "/nonexistent"]);
        assert_eq!((code, out.as_str()), (1, ""), "{parameter}: {err}");
        for text in ["SLURM_STEP_NUM_TASKS=2", "rank 1", "/nonexistent", remedy] {
            assert!(err.contains(text), "{parameter}: {text}: {err}");
        }
    }
}

#[test]
fn a_process_without_another_launcher_gets_one_sentence() {
    let (code, out, err) = below(Command::new("env"), &[]);
    assert!(code == 0 && err.is_empty() && out.starts_with("No launcher"), "{out}{err}");
    assert_eq!(out.lines().count(), 1, "{out}");
    let mut mpirun = Command::new(installed("mpirun"));
    mpirun.args(["-n", "1"]);
    let (code, out, err) = below(mpirun, &[]);
    assert!(code == 0 && out.starts_with("OxMPI's mpirun (process "), "{out}{err}");
    let wrong = below(Command::new("env"), &["--params"]);
    assert!(wrong.0 == 2 && wrong.2.contains("--launched-by"), "{wrong:?}");
}
