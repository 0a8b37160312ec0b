//! Jobs whose program saves its state by functions of its own (`cr self`).

use super::*;

const OWN: [&str; 6] = ["--mca", "cr", "self", "--mca", "cr_self_user_prefix", "own"];
/// Rounds, and the microseconds of each.
const ROUNDS: [&str; 2] = ["1500", "1000"];

fn is_whole(out: &str) -> bool {
    let rounds: i64 = ROUNDS[0].parse().unwrap();
    out.ends_with(&format!("sum {}\n", 10 * rounds * (rounds + 1) / 2))
}

/// Over a named transport, and over the one that `cr` selects.
#[test]
fn a_program_saves_its_state_and_restores_it_in_mpi_init() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_own"]) else { return };
    for transport in [&[][..], &["--mca", "rpi", "shm"]] {
        for entry in fs::read_dir(&sandbox.programs.directory).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("own.") {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        let mut job = sandbox.start(&[&OWN[..], transport].concat(), "cr_own", &ROUNDS);
        job.await_line("round");
        let output = run(sandbox.oxmpi(&["checkpoint", &job.mpirun()]));
        assert!(
            words(&output).contains("the program has saved its state in "),
            "{}",
            words(&output)
        );
        set_of(&output);
        job.await_line("round");
        let pid = job.mpirun();
        let set = set_of(&run(with(
            sandbox.command("lamcheckpoint"),
            &["-ssi", "cr", "self", "-pid", &pid],
        )));
        let said = words(&run(sandbox.oxmpi(&["info", "--checkpoint", &set])));
        assert!(
            said.contains("none; the program has saved its state")
                && said.contains("whole:      yes"),
            "{said}"
        );
        job.await_line("round");
        job.lose();
        let mut job = restart(&sandbox, &set, &[]);
        job.await_line("begins after round");
        assert!(job.text().matches("begins after round 0, level 1").count() == 1, "{}", job.text());
        job.await_line("round");
        let set = set_of(&run(sandbox.oxmpi(&["checkpoint", "--kill", &job.mpirun()])));
        let (code, out) = job.end();
        assert_eq!(code, 75, "{out}{}", restarted(&sandbox));
        let (code, out) = restart(&sandbox, &set, &[]).end();
        assert!(code == 0 && is_whole(&out), "{code} {out}{}", restarted(&sandbox));
        assert_eq!(out.matches("begins after round").count(), 3, "{out}");
    }
}

/// As in the guide: a restart by the schema alone, or of the set on the hosts of the schema.
#[test]
fn a_set_of_cr_self_has_an_app_schema_by_which_the_job_starts_anew() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_own"]) else { return };
    let mut job = sandbox.start(&OWN, "cr_own", &ROUNDS);
    // Not the line before the first round, whose set the program would begin anew.
    job.await_line("round 100");
    let set = set_of(&run(with(sandbox.command("lamcheckpoint"), &["-pid", &job.mpirun()])));
    job.lose();
    let file = Path::new(&set).join("image/appschema").display().to_string();
    let own_prefix = format!("{}/", sandbox.programs.directory.display());
    let schema = fs::read_to_string(&file).unwrap();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let line = format!(
        "\n-n 4 -H {host}:4 {} {} ",
        shell_word(&sandbox.programs.path("cr_own")),
        ROUNDS.join(" ")
    );
    assert!(
        schema.starts_with("# oxmpi restart --app FILE SET") && schema.contains(&line),
        "{schema}"
    );
    assert_eq!(schema.lines().count(), 2, "{schema}");
    let mut job = restart(&sandbox, &set, &["--app", &file]);
    job.await_line("begins after round");
    job.lose();
    // The arguments are split at blanks, which a relative path does not have.
    let args = format!("--app {}", file.strip_prefix(&own_prefix).unwrap());
    let lam = [
        "-ssi",
        "cr",
        "self",
        "-ssi",
        "cr_self_user_prefix",
        "own",
        "-ssi",
        "cr_restart_args",
        &args,
    ];
    let out = File::create(sandbox.programs.path("out")).unwrap();
    let mut command = with(sandbox.command("lamrestart"), &lam);
    let child = command.stdout(out.try_clone().unwrap()).stderr(out).spawn().unwrap();
    let mut job = ImagedJob { sandbox: &sandbox, out: sandbox.programs.path("out"), child };
    job.await_line("begins after round");
    assert!(!job.text().contains("begins after round 0,"), "{}", job.text());
    job.lose();
}

/// The test uses `cr self` because its sets are made fastest.
#[test]
fn a_damaged_set_names_the_one_before_it_and_the_command() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_own"]) else { return };
    let mut job = sandbox.start(&OWN, "cr_own", &ROUNDS);
    job.await_line("round");
    let sets = [&[][..], &[], &["--kill"]].map(|options| {
        set_of(&run(sandbox.oxmpi(&[&["checkpoint", &job.mpirun()], options].concat())))
    });
    job.end();
    let name = sets[0].strip_suffix(".1").unwrap();
    let damage = |set: &str| {
        let mut file =
            File::options().append(true).open(Path::new(set).join("image/environment")).unwrap();
        file.write_all(b"x").unwrap();
    };
    damage(&sets[2]);
    let is_damaged = format!("{}/image/environment is damaged: ", sets[2]);
    let command = format!(
        "; the set before it is whole: oxmpi restart {}\n",
        shell_word(Path::new(&sets[1]))
    );
    for args in [["restart", name], ["restart", &sets[2]]] {
        refused(&run(sandbox.oxmpi(&args)), 1, &[&is_damaged, &command]);
    }
    refused(&run(sandbox.oxmpi(&["info", "--checkpoint", name])), 1, &[&is_damaged, &command]);
    let options = ["restart", "--files", "cut", name, "--host", "a b"];
    let command =
        format!("oxmpi restart --files cut {} --host 'a b'\n", shell_word(Path::new(&sets[1])));
    refused(&run(sandbox.oxmpi(&options)), 1, &[&is_damaged, &command]);
    damage(&sets[1]);
    fs::remove_file(Path::new(&sets[0]).join("manifest")).unwrap();
    refused(
        &run(sandbox.oxmpi(&["restart", name])),
        1,
        &[&is_damaged, "; the job has no older set that is whole\n"],
    );
}

#[test]
fn a_set_that_a_function_refuses_is_discarded_and_mpi_is_closed_to_the_function() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_own"]) else { return };
    let mut job = sandbox.start(&OWN, "cr_own", &ROUNDS);
    job.await_line("round");
    let flag = |name: &str| sandbox.programs.directory.join(name);
    File::create(flag("refuse")).unwrap();
    let output = run(sandbox.oxmpi(&["checkpoint", &job.mpirun()]));
    refused(
        &output,
        1,
        &["there is no new set, and the job goes on", "own_checkpoint has returned 7 in rank 1"],
    );
    fs::remove_file(flag("refuse")).unwrap();
    File::create(flag("call")).unwrap();
    refused(
        &run(sandbox.oxmpi(&["checkpoint", &job.mpirun()])),
        1,
        &["own_checkpoint has returned 9 in rank"],
    );
    fs::remove_file(flag("call")).unwrap();
    assert_eq!(sandbox.names(), Vec::<String>::new());
    let set = set_of(&run(sandbox.oxmpi(&["checkpoint", &job.mpirun()])));
    let (code, out) = job.end();
    assert!(code == 0 && is_whole(&out), "{code} {out}");
    let why = "called by a function that the program has for checkpoints (cr self): MPI is closed until it returns";
    assert_eq!(out.matches(why).count(), 4, "{out}");
    fs::remove_file(flag("own.2")).unwrap();
    let (code, out) = restart(&sandbox, &set, &[]).end();
    assert!(
        code != 0 && out.contains("own_restart has returned 3"),
        "{code} {out}{}",
        restarted(&sandbox)
    );
}

/// A rank that has saved its state sends nothing before the last rank has saved its own.
#[test]
fn the_saved_states_are_a_consistent_cut() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_cut"]) else { return };
    let options = ["--mca", "cr", "self", "--mca", "cr_self_user_prefix", "cut"];
    let mut job = sandbox.start(&options, "cr_cut", &[]);
    let saved = |job: &ImagedJob<'_>, rank: u32| -> Vec<u64> {
        let start = format!("rank {rank} saves ");
        let text = job.text();
        let numbers = text.lines().filter_map(|line| line.strip_prefix(&start));
        numbers.map(|number| number.parse().unwrap()).collect()
    };
    job.await_that("no rank can be checkpointed", |job| {
        run(sandbox.oxmpi(&["checkpoint", &job.mpirun()])).status.success()
    });
    for _ in 0..3 {
        set_of(&run(sandbox.oxmpi(&["checkpoint", &job.mpirun()])));
    }
    let (sent, received) = (saved(&job, 0), saved(&job, 1));
    assert!(sent.len() >= 4 && received.len() == sent.len(), "{}", job.text());
    for (sent, received) in sent.iter().zip(&received) {
        assert!(
            received <= sent,
            "rank 1 has received {received} when rank 0 had sent {sent}: {}",
            job.text()
        );
    }
    assert!(sent.is_sorted_by(|one, next| one < next), "the job stands still: {}", job.text());
    File::create(sandbox.programs.directory.join("enough")).unwrap();
    let (code, out) = job.end();
    assert_eq!(code, 0, "{out}");
}

#[test]
fn functions_are_found_by_their_names_or_the_job_ends() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_own"]) else { return };
    let job = |options: &[&str]| {
        sandbox.start(&[&["--mca", "cr", "self"], options].concat(), "cr_own", &["1", "0"]).end()
    };
    let (code, out) = job(&[]);
    assert!(
        code == 2 && out.contains("symbol lookup failed") && out.contains("cr_self_user_prefix"),
        "{code} {out}"
    );
    let (code, out) = job(&["--mca", "cr_self_user_prefix", "other"]);
    assert!(
        code == 1 && out.contains("the program exports no function 'other_checkpoint'"),
        "{code} {out}"
    );
    // Three names of a function: from its own parameter, which overrides the prefix; with the
    // spelling of a Fortran compiler; from a parameter in the guide.
    let own = |end: &'static str| ["--mca", "cr_self_user_continue", end];
    let (code, out) = job(&[&OWN[3..], &own("nothing")].concat());
    assert!(
        code == 1 && out.contains("no function 'nothing' (parameter cr_self_user_continue)"),
        "{code} {out}"
    );
    let all = [
        "--mca",
        "cr_self_user_checkpoint",
        "OWN_SAVE",
        "--mca",
        "cr_ssi_user_restart",
        "own_restart",
    ];
    let (code, out) = job(&[&all[..], &own("own_continue")].concat());
    assert!(code == 0 && out.ends_with("sum 10\n"), "{code} {out}");
    let (code, out) = job(&["--mca", "cr_ssi_user_prefix", "own"]);
    assert!(code == 0 && out.ends_with("sum 10\n"), "{code} {out}");
}
