//! Parameters from files, environment and command line to `mpirun`, the ranks, and `oxmpi info`.

// The transports, with their parameters.
use oxmpi_fabric as _;
use std::process::Command;

use serde_json::Value;

use crate::support::{TestDirectory, installed, prefix, root, texts};

struct Home(TestDirectory);

impl Home {
    fn new(name: &str, file: &str) -> Home {
        let directory = TestDirectory::new(&format!("home-{name}"));
        directory.write(".oxmpi/mca-params.conf", file);
        Home(directory)
    }

    fn file(&self) -> String {
        self.0.join(".oxmpi/mca-params.conf").display().to_string()
    }

    fn run(&self, args: &[&str], env: &[(&str, &str)]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oxmpi"));
        finish(command.env("HOME", &self.0).args(args).envs(env.iter().copied()))
    }
}

fn finish(command: &mut Command) -> (i32, String, String) {
    texts(&command.output().unwrap())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("no JSON: {error}\n{text}"))
}

#[test]
fn info_lists_the_variables_for_tools() {
    let home = Home::new("tools", "");
    let (code, out, err) =
        home.run(&["info", "--pvars", "--events", "--categories", "--json"], &[]);
    assert_eq!((code, err.as_str()), (0, ""));
    let facts = json(&out);
    let one = |list: &str, name: &str| {
        facts[list].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone()
    };
    let sent = one("pvars", "tcp_messages_sent");
    assert_eq!((&sent["class"], &sent["category"]), (&"counter".into(), &"tcp".into()));
    assert_eq!(one("pvars", "transport")["states"], serde_json::json!(["shm", "tcp", "both"]));
    assert_eq!(one("pvars", "comm_posted_queue_length")["bind"], "a communicator");
    assert_eq!(one("events", "connection_remade")["source"], "sockets");
    assert_eq!(one("categories", "transports")["categories"], serde_json::json!(["shm", "tcp"]));
    assert!(
        one("categories", "waiting")["parameters"]
            .as_array()
            .unwrap()
            .contains(&"wait_spin_us".into())
    );
    assert!(facts["parameters"].is_null());

    for (word, text) in [
        ("--pvars", "unexpected_queue_length\n      level of the process; category messages\n"),
        (
            "--events",
            "rendezvous_begun\n      of the process; source messages; tells dest, tag, bytes\n",
        ),
        ("--categories", "      events: connection_made, connection_remade\n"),
        ("--params", "a program may change it at any time"),
    ] {
        let (code, out, _) = home.run(&["info", word], &[]);
        assert!(code == 0 && out.contains(text), "{word}: {out}");
    }
}

#[test]
fn info_says_value_source_type_and_level_of_each_parameter() {
    let home = Home::new("info", "wait_yields = 3\nrpi_ssi_tcp_short = 16k\n");
    let env =
        [("OXMPI_MCA_rpi", "tcp"), ("OMPI_MCA_wait_spin_us", "1ms"), ("OMPI_MCA_osc", "rdma")];
    let (code, out, err) = home.run(&["info", "--json"], &env);
    assert_eq!((code, err.as_str()), (0, ""));
    let facts = json(&out);
    let param = |name: &str| {
        facts["parameters"].as_array().unwrap().iter().find(|p| p["name"] == name).unwrap().clone()
    };
    assert_eq!(
        (&param("wait_yields")["value"], &param("wait_yields")["source"]),
        (&3.into(), &"user file".into())
    );
    assert_eq!(param("wait_yields")["where"], format!("file {}:1", home.file()));
    assert_eq!(param("rpi_tcp_short")["value"], 16384);
    assert_eq!(param("rpi")["value"], "tcp");
    assert_eq!(param("rpi")["where"], "environment variable OXMPI_MCA_rpi");
    assert_eq!(param("wait_spin_us")["value"], 1000);
    assert_eq!(
        (&param("single_copy")["source"], &param("single_copy")["where"]),
        (&"default".into(), &Value::Null)
    );
    for key in ["type", "default", "accepted", "level", "change", "help"] {
        assert!(!param("rpi_tcp_sockbuf")[key].is_null(), "{key}");
    }
    assert_eq!(facts["selection"]["rpi"], "tcp");
    assert_eq!(facts["ignored"][0]["variable"], "OMPI_MCA_osc");
    assert_eq!(facts["functions"], 664);

    let (_, out, _) = home.run(&["info", "--param", "wait_yields"], &[]);
    assert!(
        out.contains(&format!("wait_yields = 3\n      from: file {}:1; default 32;", home.file())),
        "{out}"
    );
    let (_, out, _) = home.run(&["info", "--select"], &env);
    assert!(
        out.contains(
            "rpi shm is dropped: 'tcp' is requested (parameter 'rpi' from environment variable OXMPI_MCA_rpi)"
        ) && out.contains(
            "  rpi tcp, coll hcoll, accelerator, self, sync, smp, shmem, inter, tuned, ftagree, libnbc, ucc, basic, MPI_THREAD_SINGLE\n"
        ) && out.contains("\n  8. "),
        "{out}"
    );
    let (_, out, _) = home.run(&["info", "--params"], &env);
    assert!(out.contains("  OMPI_MCA_osc: it is Open MPI's; one-sided"), "{out}");
}

#[test]
fn info_names_wrong_values_and_shows_the_rest() {
    let home = Home::new("wrong", "wait_yields = 3\nrpi = tpc\n");
    let (code, out, err) =
        home.run(&["info", "--param", "wait_yields", "--json"], &[("OXMPI_MCA_rip", "tcp")]);
    assert_eq!(code, 1);
    assert_eq!(json(&out)["parameters"][0]["value"], 3);
    assert_eq!(json(&out)["errors"].as_array().unwrap().len(), 2);
    assert!(
        err.contains(&format!(
            "file {}:2:7: parameter 'rpi': 'tpc' is not one of shm, tcp, usysv, sysv, crtcp, lamd",
            home.file()
        )),
        "{err}"
    );
    assert!(
        err.contains("OXMPI_MCA_rip: there is no parameter 'rip' (did you mean 'rpi'?)"),
        "{err}"
    );
    let (code, _, err) = home.run(&["info", "--param", "osc_rdma"], &[]);
    assert!(code == 2 && err.contains("one-sided communication has no parameters"), "{err}");
}

#[test]
fn ranks_get_the_values_of_files_and_command_line_and_read_no_file() {
    let home = Home::new("ranks", "wait_yields = 3\nwait_spin_us = 3\nwait_yield_us = 3\n");
    let script = "echo $OXMPI_MCA_wait_yields $OXMPI_MCA_wait_spin_us $OXMPI_MCA_wait_yield_us $OXMPI_PARAM_FILES";
    let args = ["mpirun", "-n", "1", "-ssi", "wait_spin_us", "5ms", "sh", "-c", script];
    let (code, out, err) = home.run(&args, &[("OXMPI_MCA_wait_yield_us", "7")]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "3 5000 7 none\n", ""));
}

#[test]
fn wrong_parameters_stop_mpirun_and_those_of_open_mpi_do_not() {
    let home = Home::new("stop", "wait_yields = 3\nnonsense\n");
    let (code, out, err) =
        home.run(&["mpirun", "--mca", "wait_ylds", "1", "true"], &[("OXMPI_MCA_wait_yield", "1")]);
    assert_eq!((code, out.as_str()), (2, ""));
    let lines: Vec<_> = err.lines().collect();
    assert_eq!(
        lines[0],
        format!("mpirun: file {}:2:1: the line is not of the form 'NAME = VALUE'", home.file())
    );
    assert!(lines[1].contains(
        "OXMPI_MCA_wait_yield: there is no parameter 'wait_yield' (did you mean 'wait_yields'?)"
    ));
    assert!(
        lines[2].starts_with("mpirun: --mca wait_ylds 1: there is no parameter 'wait_ylds'"),
        "{err}"
    );
    assert_eq!(lines.len(), 3, "{err}");

    let home = Home::new("foreign", "");
    let env = [("OMPI_MCA_osc", "rdma"), ("OMPI_MCA_wait_yield", "1"), ("OMPI_MCA_pml", "^ucx")];
    let (code, _, err) = home.run(&["mpirun", "true"], &env);
    assert_eq!(code, 0);
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(
        err.contains("warning")
            && err.contains("OMPI_MCA_wait_yield")
            && err.contains("'wait_yields'"),
        "{err}"
    );
}

/// Every component of collectives is listed with its priority, and with the reason if it is
/// dropped: by the parameters for all communicators, or for MPI_COMM_WORLD. Components that only
/// Open MPI has are refused by name.
#[test]
fn components_of_collectives_are_selected_step_by_step() {
    let home = Home::new("components", "");
    let selected = |args: &[&str], env: &[(&str, &str)]| {
        let (code, out, err) = home.run(&[&["info", "--select", "--json"], args].concat(), env);
        assert_eq!((code, err.as_str()), (0, ""), "{args:?} {env:?}");
        json(&out)["selection"].clone()
    };
    let dropped = |selection: &serde_json::Value| {
        let mut all = selection["world"]["components"].as_array().unwrap().clone();
        assert_eq!(all.len(), 12);
        all.retain(|one| one["component"] != "accelerator");
        let text = |one: &serde_json::Value| {
            format!("{} {}", one["component"].as_str().unwrap(), one["priority"])
        };
        let (out, used): (Vec<_>, Vec<_>) = all.iter().partition(|one| one["dropped"].is_string());
        let why = |one: &&serde_json::Value| {
            format!("{}: {}", text(one), one["dropped"].as_str().unwrap())
        };
        (
            used.iter().map(|one| text(one)).collect::<Vec<_>>(),
            out.iter().map(why).collect::<Vec<_>>(),
        )
    };
    let plain = selected(&["--ranks", "4"], &[]);
    assert_eq!(
        plain["coll"],
        serde_json::json!([
            "hcoll",
            "accelerator",
            "self",
            "sync",
            "smp",
            "shmem",
            "inter",
            "tuned",
            "ftagree",
            "libnbc",
            "ucc",
            "basic"
        ])
    );
    let (used, out) = dropped(&plain);
    assert_eq!(used, ["shmem 50", "tuned 30", "libnbc 10", "basic 0"]);
    assert_eq!(
        out,
        [
            "self 75: it is for communicators of one rank",
            "sync 50: coll_sync_barrier_before and coll_sync_barrier_after are 0",
            "smp 50: it needs several nodes, with several ranks on one",
            "inter 40: it is for intercommunicators",
            "ftagree 30: mpi_ft_enable is 0",
            "ucc 10: coll_ucc_enable is 0",
            "hcoll 90: coll_hcoll_enable is 0",
        ]
    );
    let env = [("OXMPI_MCA_mpi_ft_enable", "1"), ("OXMPI_MCA_coll_ftagree_priority", "31")];
    let (used, _) = dropped(&selected(&["--ranks", "4"], &env));
    assert_eq!(used, ["shmem 50", "ftagree 31", "tuned 30", "libnbc 10", "basic 0"]);
    let (_, text, _) = home.run(&["info", "--select", "--ranks", "4"], &env);
    let line = "\n    31 ftagree  serves agreements, by algorithm 1 early returning, binary tree\n";
    assert!(text.contains(line), "{text}");
    let env = [
        ("OXMPI_MCA_coll", "^shmem"),
        ("OXMPI_MCA_coll_han_priority", "20"),
        ("OXMPI_MCA_mpi_virtual_nodes", "2"),
        ("OXMPI_MCA_coll_sync_barrier_before", "5"),
    ];
    let other = selected(&["--ranks", "4"], &env);
    let drops = other["steps"][1]["drops"].as_array().unwrap();
    let drop = drops.iter().find(|one| one["module"] == "coll shmem").unwrap();
    assert_eq!(drop["reason"], "'coll' is '^shmem' (from environment variable OXMPI_MCA_coll)");
    let (used, out) = dropped(&other);
    assert_eq!(used, ["tuned 30", "smp 20", "libnbc 10", "basic 0", "sync 50"]);
    assert!(out.contains(&"shmem 50: not selected (parameter coll)".to_string()), "{out:?}");
    let (code, text, _) = home.run(&["info", "--select", "--ranks", "1"], &[]);
    assert!(code == 0 && text.contains("\n    75 self     serves everything\n"), "{text}");
    assert!(text.contains("\n    50 shmem    is dropped: there is one rank\n"), "{text}");
    for name in ["adapt", "portals4"] {
        let (code, _, err) = home.run(&["mpirun", "-n", "2", "--mca", "coll", name, "true"], &[]);
        assert!(
            code == 2 && err.contains(&format!("'{name}' is Open MPI's, and not here")),
            "{err}"
        );
        let (code, _, err) = home.run(&["info", "--select"], &[("OMPI_MCA_coll", name)]);
        assert!(code == 1 && err.contains("from environment variable OMPI_MCA_coll"), "{err}");
    }
    let (code, _, err) = home.run(&["info", "--select", "--ranks", "0"], &[]);
    assert!(
        code == 2 && err.contains("--ranks 0: expected a whole number from 1 to 2147483647"),
        "{err}"
    );
}

/// Scripts for Open MPI exclude or tune components that do not exist here: the job goes on with a
/// warning. A request for such a component is an error, and so is an unknown name.
#[test]
fn parameters_of_components_that_are_not_here_do_no_harm() {
    let home = Home::new("absent", "");
    let mpirun = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        home.run(&[&["mpirun", "-n", "2"], &words[..], &["true"]].concat(), &[])
    };
    let off =
        "--mca coll_fca_enable 0 --mca btl_openib_warn_no_device_params_found 0 --mca btl ^openib";
    assert_eq!(mpirun(off), (0, String::new(), String::new()));
    let (code, _, err) =
        mpirun("--mca btl_openib_if_include mlx5_0 --mca btl_vader_single_copy_mechanism none");
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!((code, lines.len()), (0, 2), "{err}");
    for (line, option, text) in [
        (lines[0], "--mca btl_openib_if_include mlx5_0", "'oxmpi info --param rpi_ib'"),
        (lines[1], "--mca btl_vader_single_copy_mechanism none", "'single_copy off'"),
    ] {
        let start = format!("mpirun: warning: {option}: this has no effect: ");
        assert!(line.starts_with(&start) && line.contains(text), "{line}");
    }
    std::fs::write(home.0.join("set"), "pml_ucx_priority = 5\n-mca coll_ucc_enable 0\n").unwrap();
    let set = home.0.join("set").display().to_string();
    let (code, _, err) = mpirun(&format!("--tune {set}"));
    let start = format!("mpirun: warning: file {set}:1:1: this has no effect: ");
    assert!(code == 0 && err.lines().count() == 1 && err.starts_with(&start), "{err}");
    for (words, text) in [
        (
            "--mca coll_adapt_enable 1",
            "'coll_adapt_enable' (that collective component is Open MPI's",
        ),
        ("--mca coll_fcca_enable 0", "there is no parameter 'coll_fcca_enable'"),
        ("--mca btl_opneib_if_include x", "there is no parameter 'btl_opneib_if_include'"),
    ] {
        let (code, _, err) = mpirun(words);
        assert!(code == 2 && err.contains(text), "{words}: {err}");
    }
}

#[test]
fn info_shows_the_selection_with_parameters_of_its_command_line() {
    let home = Home::new("info-mca", "");
    let (code, out, err) =
        home.run(&["info", "--select", "--mca", "rpi", "tcp", "-ssi", "coll", "basic"], &[]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("rpi tcp, coll basic"), "{out}");
    assert!(
        out.contains("coll tuned is dropped: 'coll' is 'basic' (from --mca coll basic)"),
        "{out}"
    );
    let (code, _, err) = home.run(&["info", "--select", "--mca", "rpi", "tpc"], &[]);
    assert!(code == 1 && err.contains("--mca rpi tpc: parameter 'rpi': 'tpc' is not"), "{err}");
}

/// Each transport of the guide has a section with all its parameters. A common parameter of two
/// transports is in the section of the first.
#[test]
fn the_page_of_transports_has_the_parameters_of_each() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/transports.md")).unwrap();
    for name in ["tcp", "usysv", "sysv", "crtcp", "lamd"] {
        let section =
            page.split("\n## ").find(|section| section.starts_with(&format!("`{name}`"))).unwrap();
        let prose = section.split("<!-- bench").next().unwrap();
        assert!(prose.len() > 400, "{name}: {prose}");
        let prefix = format!("rpi_{name}_");
        let all = oxmpi_param::Param::all().iter().filter(|param| param.name.starts_with(&prefix));
        for param in all {
            assert!(prose.contains(&format!("`{}`", param.name)), "{} is missing", param.name);
        }
    }
}

#[test]
fn a_checkpoint_request_in_the_environment_of_open_mpi_is_not_ignored() {
    let home = Home::new("cr", "");
    let (code, _, err) = home.run(&["mpirun", "true"], &[("OMPI_MCA_cr", "self")]);
    let wanted = "mpirun: parameter 'cr' is 'self': symbol lookup failed";
    assert!(code == 2 && err.starts_with(wanted), "{err}");
    let (code, _, err) = home.run(&["mpirun", "true"], &[("OMPI_MCA_cr_ssi_prefix", "my")]);
    assert!(code == 2 && err.contains("there is no parameter 'cr_ssi_prefix'"), "{err}");
}

#[test]
fn several_modules_may_be_named() {
    let home = Home::new("sets", "");
    let run = |words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        let script = ["sh", "-c", "echo $OXMPI_MCA_rpi $OXMPI_MCA_cr"];
        home.run(&[&["mpirun"], &words[..], &script].concat(), &[])
    };
    let no_criu = "--mca cr blcr,self --mca cr_blcr_criu /nonexistent/criu";
    for (words, taken) in [
        ("--mca rpi lamd,tcp", "tcp\n"),
        ("--mca rpi gm,lamd --mca rpi_gm_library /nonexistent/libgm.so", "lamd\n"),
        (&format!("{no_criu} --mca cr_self_user_prefix my"), "self\n"),
    ] {
        assert_eq!(run(words), (0, taken.to_string(), String::new()), "{words}");
    }
    for (words, text) in [
        ("--mca rpi tcp,lamp", "did you mean 'lamd'?"),
        ("--mca cr none,blcr", "or several of blcr, self with commas between"),
        (no_criu, "parameter 'cr' is 'blcr': "),
        (
            "--mca btl self,ofi --mca mtl_ofi_library /nonexistent/libfabric.so",
            "no transport 'ofi' for this job",
        ),
    ] {
        let (code, _, err) = run(words);
        assert!(code == 2 && err.contains(text), "{words}: {err}");
    }
}

/// The spellings of Open MPI select transports from any source; a contradiction names both sources.
#[test]
fn transports_are_selected_in_the_words_of_open_mpi() {
    let home = Home::new("words", "");
    let selected = |env: &[(&str, &str)]| {
        let (code, out, err) = home.run(&["info", "--select", "--json"], env);
        (code, json(&out)["selection"].clone(), err)
    };
    for (env, rpi) in [
        (&[("OMPI_MCA_btl", "self,tcp")][..], "tcp"),
        (&[("OXMPI_MCA_btl", "self,vader"), ("OMPI_MCA_btl", "self,tcp")], "shm"),
        (&[("OMPI_MCA_pml", "ob1"), ("OXMPI_MCA_btl", "^sm")], "tcp"),
        (&[("OMPI_MCA_mtl", "ofi")], "ofi"),
        (&[("OMPI_MCA_pml", "cm")], "ofi"),
    ] {
        let (code, selection, err) = selected(env);
        assert_eq!((code, &selection["rpi"], err.as_str()), (0, &rpi.into(), ""), "{env:?}");
        assert_eq!(selection["steps"].as_array().unwrap().len(), 8);
    }
    let (code, selection, err) = selected(&[("OMPI_MPI_THREAD_LEVEL", "3")]);
    assert_eq!(
        (code, &selection["thread_level"], err.as_str()),
        (0, &"MPI_THREAD_MULTIPLE".into(), "")
    );
    let (code, _, err) = selected(&[("OXMPI_MPI_THREAD_LEVEL", "many")]);
    assert!(
        code == 1 && err.contains("OXMPI_MPI_THREAD_LEVEL: 'many' is no thread level"),
        "{err}"
    );
    // The selection shows the transport between nodes, and why there is none.
    let nodes = ("OMPI_MCA_mpi_virtual_nodes", "2");
    let (code, selection, err) = selected(&[nodes]);
    assert_eq!((code, &selection["between_nodes"], err.as_str()), (0, &"tcp".into(), ""));
    let (code, selection, err) = selected(&[("OMPI_MCA_btl", "^tcp")]);
    assert_eq!((code, &selection["rpi"], err.as_str()), (0, &"shm".into(), ""));
    assert!(selection["between_nodes"].is_null());
    let dropped = &selection["steps"][1]["drops"];
    let is_between = |drop: &Value| drop["module"] == "between nodes tcp";
    let between = dropped.as_array().unwrap().iter().find(|drop| is_between(drop)).unwrap();
    assert!(between["reason"].as_str().unwrap().starts_with("'btl' is '^tcp'"), "{between}");
    let (code, selection, err) = selected(&[("OMPI_MCA_btl", "self,sm"), nodes]);
    let why = "parameter 'btl' is 'self,sm' (from environment variable OMPI_MCA_btl): it leaves out 'tcp'";
    assert!(
        code == 1 && err.contains(why) && selection["error"].as_str().unwrap().contains(why),
        "{err}"
    );
    for word in ["2", "yes please", "between"] {
        let (code, _, err) =
            home.run(&["mpirun", "-n", "1", "--mca", "mpi_encrypt", word, "true"], &[]);
        let texts = [&format!("'{word}'"), "one of 0, 1, auto", "mpi_encrypt"];
        assert!(code == 2 && texts.iter().all(|text| err.contains(*text)), "{err}");
    }
    let env = [("OMPI_MCA_btl", "self,sm")];
    let (code, out, err) = home.run(&["mpirun", "-n", "2", "--mca", "rpi", "tcp", "true"], &env);
    assert_eq!((code, out.as_str()), (2, ""));
    assert_eq!(
        err,
        "mpirun: parameter 'rpi' requests 'tcp' (from --mca rpi tcp), but parameter 'btl' is 'self,sm' (from environment \
         variable OMPI_MCA_btl), which leaves it out: leave out one of the two\n"
    );
    for (args, text) in [
        (["--mca", "btl", "sm,tcp"], "leaves out 'self'"),
        (["--mca", "mtl", "psm2"], "by libfabric, if that has a provider for it"),
        (["--mca", "pml", "v"], "say 'ob1'"),
        (["--mca", "rpi", "gm"], "rpi gm: there is no Myrinet interface"),
        (["--mca", "btl", "self"], "add 'sm' or 'tcp'"),
    ] {
        let (code, _, err) =
            home.run(&[&["mpirun", "-n", "2"], &args[..], &["true"]].concat(), &[]);
        assert!(code == 2 && err.contains(text), "{args:?}: {err}");
    }
    // Without a network for sockets shared memory is used, unless the list permits only sockets.
    let nowhere = ["--mca", "btl_tcp_if_include", "nowhere0"];
    let prefers = ["--mca", "rpi_tcp_priority", "99", "true"];
    let (code, _, err) = home.run(&[&["mpirun", "-n", "2"], &nowhere[..], &prefers].concat(), &[]);
    assert_eq!((code, err.as_str()), (0, ""));
    let words = ["--mca", "btl", "self,tcp", "true"];
    let (code, _, err) = home.run(&[&["mpirun", "-n", "2"], &nowhere[..], &words].concat(), &[]);
    assert!(
        code == 2 && err.contains("rpi tcp: ") && err.contains("no interface 'nowhere0'"),
        "{err}"
    );
}

/// From the strongest to the weakest: --mca, --tune, --am, OXMPI_MCA_, OMPI_MCA_, the user's file.
#[test]
fn sets_of_parameters_stand_between_the_command_line_and_the_environment() {
    let all = |value: u32| {
        let names = [
            "wait_spin_us",
            "wait_yield_us",
            "wait_slow_yield_us",
            "wait_yields",
            "wait_sleeping",
            "shm_ring_after",
        ];
        names[value as usize - 1..]
            .iter()
            .map(|name| format!("{name} = {value}\n"))
            .collect::<String>()
    };
    let home = Home::new(
        "sets",
        &all(6).replace("shm_ring_after = 6", "shm_ring_after = 6\nwait_spin_us = 6"),
    );
    let sets = home.0.join(".oxmpi/amca-param-sets");
    std::fs::create_dir_all(&sets).unwrap();
    std::fs::write(
        sets.join("strong"),
        "--mca wait_yield_us 2 -x NOTE='of the set' -x OTHER=set\n",
    )
    .unwrap();
    std::fs::write(
        sets.join("weak"),
        all(3) + "wait_yield_us = 3\nwait_spin_us = 3\n-x NOTE=weak\n",
    )
    .unwrap();
    let values =
        "wait_spin_us wait_yield_us wait_slow_yield_us wait_yields wait_sleeping shm_ring_after";
    let script: String = values.split(' ').map(|name| format!("$OXMPI_MCA_{name} ")).collect();
    let script = format!("echo {script}$NOTE, $OTHER");
    let env = [
        ("OXMPI_MCA_wait_yields", "4"),
        ("OXMPI_MCA_wait_slow_yield_us", "4"),
        ("OMPI_MCA_wait_sleeping", "5"),
        ("OMPI_MCA_wait_yields", "5"),
    ];
    let files = [
        "mpirun",
        "-n",
        "1",
        "--am",
        "weak",
        "--tune",
        "strong",
        "--mca",
        "wait_spin_us",
        "1",
        "-x",
        "OTHER=line",
    ];
    let (code, out, err) = home.run(&[&files[..], &["sh", "-c", &script]].concat(), &env);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "1 2 3 3 3 3 of the set, line\n", ""));

    std::fs::write(sets.join("last"), "wait_yield_us = 9\nwait_yields = 9\n").unwrap();
    let files = ["mpirun", "-n", "1", "--tune", "strong,last", "sh", "-c", &script];
    let (_, out, _) = home.run(&files, &env);
    assert_eq!(out, "6 2 4 9 5 6 of the set, set\n");

    let (code, _, err) = home.run(&["mpirun", "--am", "nowhere", "--tune", "./none", "true"], &[]);
    assert_eq!(code, 2);
    let lines: Vec<_> = err.lines().collect();
    assert_eq!(lines[0], "mpirun: parameter file ./none: there is no such file");
    assert!(
        lines[1].starts_with(
            "mpirun: parameter file nowhere: there is no such file; searched: nowhere, "
        ),
        "{err}"
    );
    std::fs::write(sets.join("bad"), "\nwait_yields = 3 --mca\n-x A=1 -np 3\n").unwrap();
    let (code, _, err) = home.run(&["mpirun", "--tune", "bad", "true"], &[]);
    let path = sets.join("bad").display().to_string();
    let number = "parameter 'wait_yields': '3 --mca' is not a number from 0 to 1000000";
    let option = "this is none of the options that can stand here: '--mca NAME VALUE' (also -ssi, -gmca) and '-x NAME=VALUE'";
    assert_eq!(
        (code, err),
        (2, format!("mpirun: file {path}:2:15: {number}\nmpirun: file {path}:3:8: {option}\n"))
    );
}

/// The address that a rank sends to others is the one in the file. Without one there the job does
/// not start.
#[test]
fn hosts_send_the_address_of_the_hostmap() {
    let home = Home::new("hostmap", "");
    let (map, bad) =
        (home.0.join("map").display().to_string(), home.0.join("bad").display().to_string());
    std::fs::write(&map, "127.0.0.1 127.0.0.2 # another address of this host\n").unwrap();
    std::fs::write(&bad, "# wrong\n127.0.0.1 localhostt.invalid\n").unwrap();
    let listening = "grep -c '^ *[0-9]*: 0200007F:[0-9A-F]* 00000000:0000 0A' /proc/net/tcp";
    let job = |file: &str, program: &[&str]| {
        let options = [
            "mpirun",
            "-n",
            "2",
            "--timeout",
            "50",
            "--mca",
            "rpi",
            "tcp",
            "--mca",
            "mpi_hostmap",
            file,
        ];
        home.run(&[&options[..], program].concat(), &[])
    };
    let (code, out, _) = job(&map, &["sh", "-c", listening]);
    assert!(code == 0 && out.lines().all(|line| line != "0"), "{out}");
    let to = home.0.join("basic").display().to_string();
    let mut mpicc = Command::new(installed("mpicc"));
    assert_eq!(finish(mpicc.arg(root().join("tests/c/p2p_basic.c")).arg("-o").arg(&to)).0, 0);
    for file in [map.as_str(), "none", ""] {
        let (code, _, err) = job(file, &[&to]);
        assert_eq!((code, err.as_str()), (0, ""), "{file}");
    }
    for (file, text) in [
        (bad.as_str(), format!("file {bad}:2:11: 'localhostt.invalid' is no address")),
        (
            "/nonexistent/map",
            "/nonexistent/map: there is no such file ('none' reads none)".to_string(),
        ),
    ] {
        let (code, _, err) = home.run(&["mpirun", "--mca", "mpi_hostmap", file, "true"], &[]);
        assert!(
            code == 2 && err.starts_with(&format!("mpirun: parameter 'mpi_hostmap': {text}")),
            "{err}"
        );
    }
}

/// A program that was not started by `mpirun` reads the files itself, including the one of its
/// installation.
#[test]
fn a_program_alone_reads_the_files_itself() {
    let installed = prefix();
    let home = Home::new("alone", "");
    // A copy of the installation, so that its parameter file disturbs no other test.
    let prefix = home.0.join("prefix");
    for directory in ["bin", "lib", "include", "etc"] {
        std::fs::create_dir_all(prefix.join(directory)).unwrap();
    }
    for (from, to) in [
        ("bin/oxmpi", "bin/mpicc"),
        ("lib/libmpi_abi.so.1", "lib/libmpi_abi.so.1"),
        ("include/mpi.h", "include/mpi.h"),
    ] {
        std::fs::copy(installed.join(from), prefix.join(to)).unwrap();
    }
    std::os::unix::fs::symlink("libmpi_abi.so.1", prefix.join("lib/libmpi_abi.so")).unwrap();
    let program = home.0.join("hello");
    let source = root().join("examples/hello.c");
    let mut mpicc = Command::new(prefix.join("bin/mpicc"));
    let (code, _, err) = finish(mpicc.arg(source).arg("-o").arg(&program));
    assert_eq!(code, 0, "{err}");

    let alone = || finish(Command::new(&program).env("HOME", &home.0));
    assert_eq!(alone().0, 0);
    let system = prefix.join("etc/oxmpi-mca-params.conf");
    std::fs::write(&system, "wait_spin_us = 2\nrpi = carrier_pigeon\n").unwrap();
    let (code, _, err) = alone();
    let wanted = format!(
        "file {}:2:7: parameter 'rpi': 'carrier_pigeon' is not one of shm, tcp, usysv, sysv, crtcp, lamd",
        system.display()
    );
    assert!(code != 0 && err.contains(&wanted), "{code} {err}");
}

#[test]
fn a_file_of_16000_wrong_lines_gets_a_short_report() {
    let home = Home::new("wrong-lines", &"no parameter at all\n".repeat(16_000));
    let tuned = home.0.join("tuned");
    std::fs::write(
        &tuned,
        "--mca btl_openib_warn_no_device_params_found 0 --mca btl_openib_eager_limit 1\n"
            .repeat(8_000),
    )
    .unwrap();
    for args in
        [&["mpirun", "-n", "1", "true"][..], &["info"], &["mpirun", "--tune", &home.file(), "true"]]
    {
        let (code, _, err) = home.run(args, &[]);
        assert_ne!(code, 0, "{args:?}");
        let lines = err.lines().filter(|line| line.contains("mca-params.conf:")).count();
        assert!((10..=22).contains(&lines) && err.len() < 6000, "{args:?}: {err}");
        assert!(
            err.contains("15990 more values or lines are wrong; is it a parameter file?"),
            "{args:?}: {err}"
        );
    }
    std::fs::remove_file(home.file()).unwrap();
    let (code, _, err) =
        home.run(&["mpirun", "--tune", tuned.to_str().unwrap(), "-n", "1", "true"], &[]);
    assert_eq!(code, 0, "{err}");
    assert!(err.lines().count() < 30 && err.contains("more parameters have no effect"), "{err}");
}
