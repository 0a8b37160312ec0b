//! The modules and the thread level of a job.

use super::harness::{Programs, compile};
use oxmpi_fabric::Constructor;
use oxmpi_param::{Job, Module, Params};

fn run(
    programs: &Programs,
    options: &[&str],
    wanted: &str,
    variable: Option<&str>,
) -> (i32, String, String) {
    let mut command = programs.mpirun(2, options, "level", &[wanted]);
    command.env_remove("OXMPI_MPI_THREAD_LEVEL").env_remove("OMPI_MPI_THREAD_LEVEL");
    if let Some(value) = variable {
        command.env("OXMPI_MPI_THREAD_LEVEL", value);
    }
    let outcome = programs.start(command).end();
    (outcome.code, outcome.out, outcome.err)
}

#[test]
fn a_program_gets_its_thread_level_unless_the_environment_has_another_one() {
    let programs = compile(&["jobs/level"]);
    for (wanted, variable, granted) in [
        ("0", None, "0"),
        ("1", None, "1"),
        ("3", None, "3"),
        ("0", Some("MPI_THREAD_MULTIPLE"), "3"),
        ("3", Some("funneled"), "1"),
        ("3", Some("2"), "2"),
    ] {
        for rpi in ["shm", "tcp"] {
            let (code, out, err) =
                run(&programs, &["--mca", "btl", &format!("self,{rpi}")], wanted, variable);
            let expected = (0, format!("level {granted}\n"), String::new());
            assert_eq!((code, out, err), expected, "{wanted} {variable:?} {rpi}");
        }
    }
    let (code, _, err) = run(&programs, &[], "0", Some("lots"));
    assert!(
        code != 0 && err.contains("OXMPI_MPI_THREAD_LEVEL: 'lots' is no thread level"),
        "{err}"
    );
}

#[test]
fn rank_0_prints_the_steps_of_the_selection_once() {
    let programs = compile(&["jobs/level"]);
    let (code, _, err) =
        run(&programs, &["--mca", "mpi_show_select", "1", "--mca", "btl", "^sm"], "2", None);
    assert_eq!(code, 0, "{err}");
    for number in 1..=8 {
        assert_eq!(err.matches(&format!("mpirun: selection: {number}. ")).count(), 1, "{err}");
    }
    assert!(
        err.contains("rpi shm is dropped: 'btl' is '^sm'")
            && err.contains("5. rpi tcp is selected"),
        "{err}"
    );
    assert!(err.contains("1. the thread level is MPI_THREAD_SERIALIZED"), "{err}");
}

/// If the parameters leave out sockets, no message leaves a node over them: on one node the job
/// runs, on several it is refused.
#[test]
fn a_job_on_several_nodes_is_refused_if_the_transport_between_them_is_left_out() {
    let programs = compile(&["jobs/level"]);
    let nodes = ["--mca", "mpi_virtual_nodes", "2"];
    for list in ["^tcp", "self,sm", "self,vader", "^tcp,ofi"] {
        let btl = ["--mca", "btl", list];
        for more in [&[][..], &["--mca", "rpi", "shm"], &["--mca", "pml", "ob1"]] {
            let (code, out, err) = run(&programs, &[&btl, more].concat(), "0", None);
            assert_eq!((code, out.as_str(), err.as_str()), (0, "level 0\n", ""), "{list} {more:?}");
            let (code, out, err) = run(&programs, &[&btl, &nodes[..], more].concat(), "0", None);
            assert_eq!((code, out.as_str()), (2, ""), "{list} {more:?}: {err}");
            let said = format!("parameter 'btl' is '{list}' (from --mca btl {list})");
            for text in
                [&said, "2 virtual nodes", "'--mca btl self,sm,tcp'", "'--mca mpi_virtual_nodes 1'"]
            {
                assert!(err.contains(text), "{list} {more:?}: {err}");
            }
        }
        let command = programs.mpirun(1, &[&btl, &nodes[..]].concat(), "level", &["0"]);
        let outcome = programs.start(command).end();
        assert_eq!(
            (outcome.code, outcome.out.as_str()),
            (0, "level 0\n"),
            "{list}: {}",
            outcome.err
        );
    }
    for list in ["self,sm,tcp", "^ofi", "self,tcp"] {
        let (code, _, err) =
            run(&programs, &[&["--mca", "btl", list], &nodes[..]].concat(), "0", None);
        assert_eq!((code, err.as_str()), (0, ""), "{list}");
    }
    let lamd = ["--mca", "rpi", "lamd", "--mca", "btl", "^tcp"];
    let (code, _, err) = run(&programs, &lamd, "0", None);
    assert_eq!((code, err.as_str()), (0, ""), "a daemon has no peers");
    let (code, _, err) = run(&programs, &[&lamd, &nodes[..]].concat(), "0", None);
    assert!(
        code == 2 && err.contains("it leaves out 'tcp', by which messages go between nodes"),
        "{err}"
    );
}

#[test]
fn a_network_that_does_not_encrypt_is_refused_where_messages_shall_be() {
    let programs = compile(&["jobs/level"]);
    let encrypt = ["--mca", "mpi_encrypt", "1"];
    for (parameter, name) in
        [("rpi", "ib"), ("rpi", "ofi"), ("mtl", "ofi"), ("rpi", "gm"), ("mtl", "portals4")]
    {
        let (code, out, err) =
            run(&programs, &[&["--mca", parameter, name], &encrypt[..]].concat(), "0", None);
        assert_eq!((code, out.as_str()), (2, ""), "{name}: {err}");
        let why = format!(
            "rpi {name}: mpi_encrypt is 1, and what crosses the network of '{name}' is not encrypted"
        );
        assert!(err.contains(&why) && err.contains("use '--mca rpi tcp'"), "{name}: {err}");
    }
    for more in [&[][..], &["--mca", "rpi", "tcp"]] {
        let (code, out, err) = run(&programs, &[&encrypt, more].concat(), "0", None);
        assert_eq!((code, out.as_str(), err.as_str()), (0, "level 0\n", ""), "{more:?}");
    }
}

/// Each transport is in a folder and registers itself when a program is linked: libmpi has all
/// transports of this test.
#[test]
fn the_library_has_all_transports() {
    let programs = compile(&["jobs/transports"]);
    let all = Module::all().iter().fold(String::new(), |all, module| all + module.name + "\n");
    for module in Module::all() {
        let outcome = programs.run(1, &["--mca", "rpi", module.name], "transports", &[]);
        // Without its device or its library a transport is refused, with a reason that shows that
        // it is known.
        let params = Params::default();
        let refusal = module.refusal(&params, &Job { ranks: Some(1), ..Job::default() });
        let refusal = refusal.map(|why| format!("rpi {}: {why}", module.name));
        let decided = Constructor::of(module).map(|one| (one.decide)(&params, true));
        if let Some(wanted) = refusal.or(decided.and_then(Result::err)) {
            assert!(outcome.code == 2 && outcome.err.contains(&wanted), "{module:?} {outcome:?}");
            continue;
        }
        assert_eq!(
            (outcome.code, outcome.out.as_str(), outcome.err.as_str()),
            (0, all.as_str(), ""),
            "{module:?}"
        );
    }
}

#[test]
fn loopback_is_for_a_process_alone_and_refused_with_its_reason_for_several() {
    let programs = compile(&["jobs/level"]);
    let (code, out, err) = run(&programs, &["--mca", "rpi", "loopback"], "0", None);
    let wanted = "mpirun: no module of 'rpi' carries the messages of this job: rpi loopback: it is between ranks that are threads of \
                  one program, and the ranks of this job are programs of their own: leave 'rpi' out";
    assert!(code == 2 && out.is_empty() && err.starts_with(wanted), "{err}");
}
