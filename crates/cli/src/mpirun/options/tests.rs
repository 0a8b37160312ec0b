use super::*;

fn run(line: &str) -> Result<LaunchOptions, UsageError> {
    let args: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    match parse(&args)? {
        MpirunAction::Run(options) => Ok(*options),
        MpirunAction::Help(_) | MpirunAction::Version => Ok(LaunchOptions::default()),
    }
}

fn error(line: &str) -> String {
    run(line).unwrap_err().to_string()
}

fn program(line: &str) -> ProgramOptions {
    run(line).unwrap().programs.remove(0)
}

#[test]
fn both_spellings_and_both_syntaxes_of_values_are_accepted() {
    for line in
        ["-n 4 a", "-np 4 a", "--np 4 a", "--np=4 a", "-n=4 a", "--n 4 a", "-c 4 a", "-n 4 C a"]
    {
        assert_eq!(program(line).count, RankCount::Number(4), "{line}");
    }
    for line in ["-tag-output a", "--tag-output a", "-l a", "-prepend-rank a", "--prepend-rank a"] {
        assert!(run(line).unwrap().output.tags, "{line}");
    }
    assert_eq!(run("-timeout 7 a").unwrap().timeout, Some(Duration::from_secs(7)));
    assert_eq!(run("--timeout 0.5 a").unwrap().timeout, Some(Duration::from_millis(500)));
    assert_eq!(run("--timeout=1e9 a").unwrap().timeout, Some(Duration::from_secs(1_000_000_000)));
}

#[test]
fn fault_tolerance_has_options_of_open_mpi_and_mpich() {
    let set = |line: &str| run(line).unwrap().mca.last().map(|s| (s.name.clone(), s.value.clone()));
    let wanted = |value: &str| Some(("mpi_ft_enable".to_string(), value.to_string()));
    for line in
        ["--with-ft ulfm a", "--with-ft=mpi a", "--enable-recovery a", "-disable-auto-cleanup a"]
    {
        assert_eq!(set(line), wanted("1"), "{line}");
    }
    assert_eq!(set("--enable-recovery --with-ft none a"), wanted("0"));
    assert!(error("--with-ft maybe a").contains("one of ulfm, mpi, none"));
}

#[test]
fn words_behind_the_program_are_its_arguments() {
    let options = run("-n 2 a -n 3 --help").unwrap();
    assert_eq!(options.programs[0].words, ["a", "-n", "3", "--help"]);
    assert_eq!(options.programs[0].count, RankCount::Number(2));
    assert_eq!(program("-- -odd x").words, ["-odd", "x"]);
    assert_eq!(program("-- C x").words, ["C", "x"]);
    assert_eq!(program("./N C").words, ["./N", "C"]);
}

#[test]
fn the_guides_notation_counts_processors_and_hosts() {
    assert_eq!(program("C a").count, RankCount::PerProcessor);
    assert_eq!(program("-ssi rpi tcp C -tag-output a").count, RankCount::PerProcessor);
    assert_eq!(program("N a C").count, RankCount::PerHost);
    assert_eq!(program("C -np 3 a").count, RankCount::Number(3));
    assert_eq!(program("n0-1,3 -np 3 c2 a n1").places, ["n0-1,3", "c2"]);
    assert_eq!((program("N n0 a").places.len(), program("N a").places.len()), (2, 0));
    assert_eq!((program("nproc").words.len(), program("./n0").words.len()), (1, 1));
    let error = run("-ppn 2 n0 a").unwrap_err().to_string();
    assert!(error.contains("'n0'") && error.contains("-ppn"), "{error}");
    assert_eq!(program("a").count, RankCount::Unset);
    assert_eq!(run("C"), Err(UsageError::NoProgram));
    for line in ["-N 3 a", "--npernode 3 a", "-npernode 3 a", "-ppn 3 a", "-perhost 3 a"] {
        assert_eq!(program(line).per_host, Some(3), "{line}");
    }
}

#[test]
fn a_colon_separates_programs_of_one_job() {
    let options = run("--tag-output -n 1 -x A=1 a x : -n 2 -x B=2 -wdir / b").unwrap();
    assert!(options.output.tags);
    assert_eq!(options.programs.len(), 2);
    assert_eq!(options.programs[1].count, RankCount::Number(2));
    assert_eq!(options.programs[0].words, ["a", "x"]);
    assert_eq!(options.env, [("A".into(), "1".into())]);
    assert_eq!(options.programs[1].env, [("B".into(), "2".into())]);
    assert_eq!(
        (&options.programs[0].directory, &options.programs[1].directory),
        (&None, &Some("/".into()))
    );
    for line in ["a :", ": a", "a : : b", "a : -n 2"] {
        assert_eq!(run(line), Err(UsageError::EmptyProgram), "{line}");
    }
}

#[test]
fn a_parameter_takes_two_words() {
    for option in ["--mca", "-mca", "-ssi", "--ssi", "--gmca", "-gmca"] {
        let set = Setting { option: option.into(), name: "a".into(), value: "b".into() };
        assert_eq!(run(&format!("{option} a b c")).unwrap().mca, [set]);
    }
    assert_eq!(program("-mca a b c").words, ["c"]);
    assert!(error("--mca a").contains("--mca needs VALUE after it"));
    let handler = Setting {
        option: "-initial-errhandler".into(),
        name: "mpi_initial_errhandler".into(),
        value: "mpi_errors_return".into(),
    };
    assert_eq!(run("-initial-errhandler mpi_errors_return a").unwrap().mca, [handler]);
    let options = run("--tune a,b -am c:d,e --tune f g").unwrap();
    assert_eq!(options.tune, ["a", "b", "f"].map(PathBuf::from));
    assert_eq!(options.am, ["c", "d", "e"].map(PathBuf::from));
}

#[test]
fn variables_are_for_all_or_for_one_program() {
    let options = run("-genv A 1 -env B 2 a : -genv C=x=y -env D=4 b").unwrap();
    assert_eq!(options.env, [("A".into(), "1".into()), ("C".into(), "x=y".into())]);
    assert_eq!(options.programs[0].env, [("B".into(), "2".into())]);
    assert_eq!(options.programs[1].env, [("D".into(), "4".into())]);
    let options = run("-genv=A=x=y -genv=B 2 -env=C= a b").unwrap();
    assert_eq!(options.env, [("A".into(), "x=y".into()), ("B".into(), "2".into())]);
    assert_eq!(options.programs[0].env, [("C".into(), "".into())]);
    assert_eq!(options.programs[0].words, ["a", "b"]);
    let only = |names: &[&str]| Inherit::Only(names.iter().map(OsString::from).collect());
    assert_eq!(run("-genvlist A,B a").unwrap().inherit, only(&["A", "B"]));
    assert_eq!(run("-genvnone a").unwrap().inherit, only(&[]));
    assert_eq!(run("-genvnone -genvall a").unwrap().inherit, Inherit::All);
    assert_eq!(program("-genvnone -envlist A a").inherit, Some(only(&["A"])));
    assert_eq!(program("-envnone a").inherit, Some(only(&[])));
    assert_eq!(program("-envnone -envall a").inherit, Some(Inherit::All));
    assert_eq!(program("a").inherit, None);
}

#[test]
fn options_for_default_behaviour_are_accepted_and_impossible_ones_refused() {
    assert_eq!(run("--allow-run-as-root --map-by :HWTCPUS a").unwrap(), run("a").unwrap());
    for line in ["--oversubscribe a", "--map-by :OVERSUBSCRIBE a"] {
        assert!(run(line).unwrap().oversubscribe && !run("a").unwrap().oversubscribe);
    }
    assert!(
        error("--bind-to board a").contains("--bind-to board: ranks cannot be bound to these yet")
    );
    assert!(error("--bind-to moon a").contains("not one of none, core, socket, numa, hwthread"));
    assert!(error("--map-by numa a").contains("cannot be placed so yet"));
    assert!(error("--map-by slot:PE=0 a").contains("not a number of cores"));
    assert!(error("--map-by slot:SPAN a").contains("'span' is none of PE=N"));
    assert!(run("-nw a").unwrap().no_wait && !run("a").unwrap().no_wait);
}

#[test]
fn binding_is_chosen_by_kind_or_by_number_of_cores() {
    let bind = |line: &str| run(line).unwrap().bind();
    assert_eq!(bind("a"), Bind::Split);
    for line in [
        "--bind-to none a",
        "-bind-to none a",
        "--bind-to-none a",
        "--bind-to core --bind-to none a",
    ] {
        assert_eq!(bind(line), Bind::None, "{line}");
    }
    for line in ["--bind-to core a", "-bind-to=core a", "--bind-to-core a", "--map-by slot:PE=1 a"]
    {
        assert_eq!(bind(line), Bind::Cores(1), "{line}");
    }
    assert_eq!(bind("--bind-to hwthread a"), Bind::HardwareThread);
    assert_eq!(bind("--map-by core:PE=3 --bind-to core a"), Bind::Cores(3));
    assert!(run("--map-by :NOOVERSUBSCRIBE a").unwrap().no_oversubscribe);
    assert!(run("--nooversubscribe --report-bindings a").unwrap().report_bindings);
}

#[test]
fn hosts_input_and_output() {
    let hosts = program("-H localhost:2,localhost a").hosts;
    assert_eq!((hosts.named.len(), hosts.slots()), (2, Some(3)));
    for line in ["-host x a", "--host x a", "--hosts x a", "-hosts x a"] {
        assert_eq!(program(line).hosts.named[0].name, "x", "{line}");
    }
    assert!(error("-hostfile /no/such/file a").contains("-hostfile /no/such/file: No such file"));
    assert_eq!(run("a").unwrap().stdin, None);
    assert_eq!(run("-stdin 3 a").unwrap().stdin, Some(Stdin::Rank(3)));
    assert_eq!(run("--stdin none a").unwrap().stdin, Some(Stdin::None));
    assert_eq!(run("--stdin=all a").unwrap().stdin, Some(Stdin::All));
    assert!(error("--stdin some a").contains("--stdin some: not a rank, 'none' or 'all'"));
    let files = |line: &str| run(line).unwrap().output_files.unwrap();
    let directory = |print| OutputFiles::in_directory("d".as_ref(), print);
    assert_eq!(files("--output-filename d a"), directory(true));
    assert_eq!(files("--output-filename d:nocopy a"), directory(false));
}

#[test]
fn errors_name_the_option_and_the_nearest_one() {
    assert!(error("--tag-ouput a").contains("'--tag-ouput' (did you mean '--tag-output'?)"));
    assert!(error("--bindto core a").contains("did you mean '--bind-to'"));
    assert!(error("--frobnicate a").contains("unknown option '--frobnicate';"));
    assert!(error("---n 3 a").contains("unknown option '---n'"));
    assert!(error("-n x a").contains("-n x: not a number of ranks"));
    assert!(error("-n 0 a").contains("-n 0: not a number of ranks"));
    assert!(error("--tag-output=yes a").contains("takes no value, but got 'yes'"));
    assert!(error("-x =1 a").contains("not a variable"));
    for value in
        ["never", "-1", "-0.5", "0", "0.0001", "NaN", "inf", "1e30", "1000000001", "1s", ""]
    {
        let text = error(&format!("--timeout={value} a"));
        assert!(
            text.contains(&format!(
                "--timeout {value}: not a number of seconds from 0.001 to 1000000000"
            )),
            "{text}"
        );
    }
    assert_eq!(run(""), Err(UsageError::NoProgram));
    assert_eq!(run("-n 3"), Err(UsageError::NoProgram));
}

#[test]
fn help_may_name_a_topic() {
    let command =
        |words: &[&str]| parse(&words.iter().map(OsString::from).collect::<Vec<_>>()).unwrap();
    assert_eq!(command(&["--help"]), MpirunAction::Help(None));
    assert_eq!(command(&["-n", "2", "-help", "hosts"]), MpirunAction::Help(Some("hosts".into())));
    assert_eq!(command(&["-version"]), MpirunAction::Version);
}

#[test]
fn programs_can_stand_in_a_file() {
    let path = std::env::temp_dir().join(format!("oxmpi-programs-{}", std::process::id()));
    let path = path.to_str().unwrap();
    std::fs::write(path, "-n 2 'a b' x\n# and\n-n 1 c\n").unwrap();
    let read = run(&format!("-l -configfile {path}")).unwrap();
    std::fs::write(path, "-n 2 a : -n 3 b\n-n 1 \\\n c : d\n").unwrap();
    let colons = run(&format!("--configfile {path}")).unwrap().programs;
    std::fs::write(path, "a\n-n\n").unwrap();
    let cut = error(&format!("--configfile {path}"));
    std::fs::write(path, format!("--app {path}\n")).unwrap();
    let (nested, after) = (error(&format!("--app {path}")), error(&format!("--app {path} more")));
    std::fs::remove_file(path).unwrap();
    assert!(read.output.tags);
    assert_eq!(read.programs[0].words, ["a b", "x"]);
    assert_eq!((read.programs.len(), read.programs[0].count), (2, RankCount::Number(2)));
    let words: Vec<_> = colons.iter().map(|program| (program.count, &program.words[..])).collect();
    let ones = ["a", ":", "-n", "3", "b"].map(OsString::from);
    let others = ["c", ":", "d"].map(OsString::from);
    assert_eq!(words, [(RankCount::Number(2), &ones[..]), (RankCount::Number(1), &others[..])]);
    assert!(cut.contains("-n needs N after it"), "{cut}");
    assert!(nested.contains("cannot name another one"), "{nested}");
    assert!(after.contains("nothing can follow it, but 'more' does"), "{after}");
}

#[test]
fn options_of_other_launchers_that_change_nothing_are_taken() {
    let plain = run("a").unwrap();
    for line in ["--use-hwthread-cpus a", "--byslot a", "--map-by hwthread:HWTCPUS a"] {
        assert_eq!(run(line).unwrap(), plain, "{line}");
    }
    for line in [
        "--rank-by slot a",
        "--rank-by fill a",
        "--rank-by node --map-by node a",
        "--bynode --rank-by node a",
    ] {
        assert_eq!(run(line).unwrap().rank_by.unwrap().1, run(line).unwrap().by, "{line}");
    }
    for line in ["--rank-by node a", "--rank-by slot --map-by node a"] {
        assert!(
            error(line).contains("ranks are numbered in the order in which they are placed"),
            "{line}"
        );
    }
    assert!(error("--rank-by board a").contains("not one of slot, node"));
}

#[test]
fn options_of_other_launchers_that_have_a_counterpart_are_taken() {
    for line in [
        "--display-map a",
        "--display-devel-map a",
        "--display-allocation a",
        "-print-rank-map a",
        "--display map a",
        "-v a",
    ] {
        assert!(run(line).unwrap().verbose, "{line}");
    }
    assert!(run("--display bind a").unwrap().report_bindings);
    let shown = |line| {
        let options = run(line).unwrap();
        (options.verbose, options.report_bindings, options.times)
    };
    assert_eq!(shown("--display times a"), (false, false, true));
    assert_eq!(shown("--display bindings,Times,allocation a"), (true, true, true));
    let style = |tags, times, merges| OutputStyle { tags, times, merges };
    assert_eq!(run("--timestamp-output a").unwrap().output, style(false, true, false));
    assert_eq!(run("--merge-stderr-to-stdout -l a").unwrap().output, style(true, false, true));
    let all = run("--output tag,timestamp,merge,directory=/x:nocopy a").unwrap();
    assert_eq!(all.output, style(true, true, true));
    assert_eq!(all.output_files, Some(OutputFiles::in_directory("/x".as_ref(), false)));
    assert!(error("--output xml a").contains("--output xml: not a list of tag, timestamp"));
    assert_eq!(run("--bind-to socket a").unwrap().bind(), Bind::Package);
    assert_eq!(run("--bind-to=numa a").unwrap().bind(), Bind::Numa);
    assert_eq!(run("--bynode a").unwrap().by, By::Node);
    assert!(run("--nolocal a").unwrap().no_local);
}

#[test]
fn each_launchers_options_for_ranks_per_host_are_accepted() {
    for (line, again) in [
        ("--map-by ppr:2:node a", false),
        ("-N 2 a", false),
        ("-ppn 2 a", true),
        ("-perhost 2 a", true),
    ] {
        assert_eq!(
            (program(line).per_host, program(line).per_host_again),
            (Some(2), again),
            "{line}"
        );
    }
    for (line, again) in [("--pernode a", false), ("-rr a", true)] {
        assert_eq!(
            (program(line).per_host, program(line).per_host_again),
            (Some(1), again),
            "{line}"
        );
    }
    for line in ["--map-by ppr:1:node:PE=2 a", "-cpus-per-proc 2 a"] {
        assert_eq!(run(line).unwrap().bind(), Bind::Cores(2), "{line}");
    }
    for line in ["--map-by ppr:2:socket a", "--map-by ppr:0:node a", "--map-by ppr a"] {
        assert!(error(line).contains("not ppr:N:node"), "{line}");
    }
}

#[test]
fn times_between_checkpoints_have_units() {
    let every = |text: &str| run(&format!("--every {text} a")).unwrap().every;
    for (text, ms) in
        [("90s", 90_000), ("30m", 1_800_000), ("1.5h", 5_400_000), ("2d", 172_800_000), ("7", 7000)]
    {
        assert_eq!(every(text), Some(Duration::from_millis(ms)), "{text}");
    }
    for text in ["0", "0.05s", "-1m", "h", "1e9d", "nan", "5x", "3é"] {
        let text = error(&format!("--every={text} a"));
        assert!(text.contains("not a time of 0.1s or more"), "{text}");
    }
    let run = run("--checkpoint-on-term a").unwrap();
    assert!(run.checkpoint_on_term && run.every.is_none());
}
