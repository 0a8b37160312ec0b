use super::*;

fn run(line: &str) -> Result<Options, UsageError> {
    let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    match parse(&args)? {
        Command::Run(options) => Ok(options),
        Command::Help | Command::Version => Ok(Options::default()),
    }
}

fn error(line: &str) -> String {
    run(line).unwrap_err().to_string()
}

#[test]
fn both_spellings_and_both_ways_to_give_a_value_are_understood() {
    for line in ["-n 4 a", "-np 4 a", "--np 4 a", "--np=4 a", "-n=4 a", "-c 4 a"] {
        assert_eq!(run(line).unwrap().programs[0].ranks, 4, "{line}");
    }
    assert!(run("-tag-output a").unwrap().tag_output);
    assert_eq!(run("-timeout 7 a").unwrap().timeout, Some(Duration::from_secs(7)));
    assert_eq!(run("--timeout 0.5 a").unwrap().timeout, Some(Duration::from_millis(500)));
    assert_eq!(run("--timeout=1e9 a").unwrap().timeout, Some(Duration::from_secs(1_000_000_000)));
}

#[test]
fn what_follows_the_program_is_the_programs() {
    let options = run("-n 2 a -n 3 --help").unwrap();
    assert_eq!(options.programs[0].words, ["a", "-n", "3", "--help"]);
    assert_eq!(options.programs[0].ranks, 2);
    assert_eq!(run("-- -odd x").unwrap().programs[0].words, ["-odd", "x"]);
}

#[test]
fn a_colon_separates_programs_of_one_job() {
    let options = run("--tag-output -n 1 -x A=1 a x : -n 2 -x B=2 b").unwrap();
    assert!(options.tag_output);
    assert_eq!(options.programs.len(), 2);
    assert_eq!((options.programs[0].ranks, options.programs[1].ranks), (1, 2));
    assert_eq!(options.programs[0].words, ["a", "x"]);
    assert_eq!(options.env, [("A".into(), "1".into())]);
    assert_eq!(options.programs[1].env, [("B".into(), "2".into())]);
    for line in ["a :", ": a", "a : : b", "a : -n 2"] {
        assert_eq!(run(line), Err(UsageError::EmptyProgram), "{line}");
    }
}

#[test]
fn a_parameter_takes_two_words() {
    assert_eq!(run("--mca a b c").unwrap().mca, [("a".into(), "b".into())]);
    assert_eq!(run("-mca a b c").unwrap().programs[0].words, ["c"]);
    assert!(error("--mca a").contains("--mca needs VALUE after it"));
    let options = run("-initial-errhandler mpi_errors_return a").unwrap();
    assert_eq!(options.mca, [("mpi_initial_errhandler".into(), "mpi_errors_return".into())]);
}

#[test]
fn what_we_do_anyway_is_accepted_and_what_we_cannot_is_not() {
    let line = "--oversubscribe --allow-run-as-root --bind-to none --map-by :OVERSUBSCRIBE a";
    assert_eq!(run(line).unwrap().programs[0].words, ["a"]);
    assert!(error("--bind-to core a").contains("cannot be bound to cores yet"));
    assert!(error("--map-by node a").contains("cannot be placed yet"));
}

#[test]
fn errors_name_the_option_and_the_nearest_one() {
    assert!(error("--tag-ouput a").contains("'--tag-ouput' (did you mean '--tag-output'?)"));
    assert!(error("--frobnicate a").contains("unknown option '--frobnicate';"));
    assert!(error("-n x a").contains("-n x: not a number of ranks"));
    assert!(error("-n 0 a").contains("-n 0: not a number of ranks"));
    assert!(error("--tag-output=yes a").contains("takes no value, but got 'yes'"));
    assert!(error("-x =1 a").contains("not a variable"));
    for value in ["never", "-1", "-0.5", "0", "0.0001", "NaN", "inf", "1e30", "1000000001", "1s", ""] {
        let text = error(&format!("--timeout={value} a"));
        assert!(
            text.contains(&format!("--timeout {value}: not a number of seconds from 0.001 to 1000000000")),
            "{text}"
        );
    }
    assert_eq!(run(""), Err(UsageError::NoProgram));
    assert_eq!(run("-n 3"), Err(UsageError::NoProgram));
}

#[test]
fn the_help_has_every_option() {
    let help = help();
    for spec in SPECS {
        assert!(help.contains(spec.names[0]) && !spec.help.is_empty());
    }
    assert!(help.lines().all(|line| line.len() <= 120), "{help}");
}
