//! A second user against jobs that other launchers have started: at the sockets by which the
//! processes of a node find their agent, and at the port of the head.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::runs::run_on_cluster;

const PROGRAMS: &[&str] = &["tests/c/jobs/joined", "tests/c/jobs/attacker"];
const ATTACKER: &str = "\"$attacker\" 65534";
const PROTOCOLS: [&str; 3] = ["none", "pmi2", "pmix"];

/// The names of the first two sockets of a job's agents (`rt-client/src/client/joining.rs`). Each
/// job of these tests is the first step of the job with this number.
fn names(protocol: &str, job: usize) -> String {
    let job = match protocol {
        "pmi2" => format!("{job}.0"),
        "pmix" => format!("slurm.pmix.{job}.0"),
        _ => format!("slurm {job}.0 0"),
    };
    let mut hasher = DefaultHasher::new();
    job.hash(&mut hasher);
    let user = rustix::process::geteuid().as_raw();
    let name = |number: u32| format!("oxmpi.join.{user}.{:016x}.{number}", hasher.finish());
    format!("{} {}", name(0), name(1))
}

/// Jobs during which the attacker acts. After each job the cluster runs another one, which searches
/// for remains.
fn run_under(attacks: &[(&str, &str)]) {
    let lines: Vec<String> = attacks
        .iter()
        .enumerate()
        .map(|(at, (protocol, attack))| {
            let names = names(protocol, 2 * at + 1);
            format!(
                ": >ready; {ATTACKER} {attack} {names} >ready & until grep -q ready ready; do sleep 0.02; done
                 srun -N2 -n4 --overcommit --mpi={protocol} \"$joined\" 4
                 code=$?; kill -0 $! && kill $!; wait; exit $code"
            )
            .replace('\n', ";")
        })
        .collect();
    let Some(all) = run_on_cluster(PROGRAMS, &lines) else { return };
    all.iter().for_each(|ran| ran.is_fine(1));
}

#[test]
fn sockets_of_another_user_under_the_names_of_agents_are_passed_over() {
    run_under(&[("none", "close"), ("pmi2", "rubbish"), ("pmix", "listen")]);
}

/// The time until a socket that accepts no connection is passed over is seconds.
mod night {
    use super::*;

    #[test]
    #[ignore = "cargo xtask nightly"]
    fn every_attack_by_names_is_survived() {
        for protocol in PROTOCOLS {
            let attacks = ["listen", "close", "rubbish", "full", "bind", "call"];
            run_under(&attacks.map(|attack| (protocol, attack)));
        }
    }

    /// The last rank comes late, so the head accepts connections for a second.
    #[test]
    #[ignore = "cargo xtask nightly"]
    fn many_connections_of_unknown_processes_do_not_keep_agents_away() {
        let lines = PROTOCOLS.map(|protocol| {
            format!(
                ": >ready; srun -N2 -n4 --overcommit --mpi={protocol} sh -c 'test $SLURM_PROCID != 3 || sleep 2; exec \"$joined\" 4' & job=$!;
                 until ss -ltnpH | grep -q oxmpi; do sleep 0.02; done;
                 {ATTACKER} flood $(ss -ltnpH | sed -n '/oxmpi/s/.*:\\([0-9]*\\) .*/\\1/p' | sort -u) >ready & attacker=$!;
                 wait $job; code=$?; grep -q ready ready || exit 9; kill -0 $attacker && kill $attacker; wait; exit $code"
            )
            .replace('\n', " ")
        });
        let Some(all) = run_on_cluster(PROGRAMS, &lines) else { return };
        all.iter().for_each(|ran| ran.is_fine(1));
    }
}
