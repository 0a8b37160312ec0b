use super::*;
use crate::Module;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("oxmpi-param-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join(".oxmpi")).unwrap();
        std::fs::create_dir_all(path.join("etc")).unwrap();
        Scratch(path)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn home(&self) -> (&str, &str) {
        ("HOME", self.0.to_str().unwrap())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn first_error(vars: &[(&str, &str)], prefix: Option<&Path>) -> String {
    Found::gather(vars.to_vec(), prefix).into_result().unwrap_err().to_string()
}

#[test]
fn the_stronger_source_wins_and_each_value_knows_its_own() {
    let dir = Scratch::new("order");
    dir.write(
        "etc/oxmpi-mca-params.conf",
        "wait_spin_us=1\nwait_yield_us=1\nwait_yields=1\nwait_sleeping=1\n",
    );
    let user = dir.write(
        ".oxmpi/mca-params.conf",
        "# mine\nwait_spin_us = 2\nwait_yield_us = 2\nwait_yields = 2\n",
    );
    let vars = [
        ("OXMPI_MCA_wait_spin_us", "4"),
        ("OMPI_MCA_wait_spin_us", "3"),
        ("OMPI_MCA_wait_yield_us", "3"),
        dir.home(),
    ];
    let found = Found::gather(vars, Some(&dir.0));
    assert_eq!(found.errors, []);
    let mut params = found.params;
    assert_eq!(
        (
            params.wait_spin_us(),
            params.wait_yield_us(),
            params.wait_yields(),
            params.wait_sleeping()
        ),
        (4, 3, 2, 1)
    );
    let source = |params: &Params, name| params.source(Param::find(name).unwrap()).to_string();
    assert_eq!(source(&params, "wait_spin_us"), "environment variable OXMPI_MCA_wait_spin_us");
    assert_eq!(source(&params, "wait_yield_us"), "environment variable OMPI_MCA_wait_yield_us");
    assert_eq!(source(&params, "wait_yields"), format!("file {user}:4"));
    assert!(source(&params, "wait_sleeping").ends_with("etc/oxmpi-mca-params.conf:4"));
    assert_eq!(source(&params, "rpi"), "default");
    params.set_from("wait_spin_us", "5", Source::CommandLine("--mca".into())).unwrap();
    assert_eq!((params.wait_spin_us(), source(&params, "wait_spin_us")), (5, "--mca".to_string()));
}

#[test]
fn names_of_open_mpi_are_skipped_and_near_misses_reported() {
    let vars = [("OMPI_MCA_osc", "rdma"), ("OMPI_MCA_shm_ring_slot", "8"), ("PATH", "/bin")];
    let found = Found::gather(vars, None);
    assert_eq!((found.errors.len(), &found.params), (0, &Params::default()));
    let ignored: Vec<_> = found.ignored.iter().map(|i| (i.variable.as_str(), i.nearest)).collect();
    assert_eq!(
        ignored,
        [("OMPI_MCA_osc", None), ("OMPI_MCA_shm_ring_slot", Some("shm_ring_slots"))]
    );
}

#[test]
fn a_value_of_the_launcher_comes_from_where_the_launcher_has_it() {
    let option = Source::CommandLine("--mca rpi tcp".into());
    let ignored = crate::encode_sources(
        [("rpi", "tcp", &option), ("wait_spin_us", "5\u{1f}", &option)].into_iter(),
    );
    let source = |value| {
        let vars = [("OXMPI_MCA_rpi", value), ("OXMPI_PARAM_SOURCES", &*ignored)];
        Found::gather(vars, None).params.source(Param::find("rpi").unwrap()).to_string()
    };
    assert_eq!(source("tcp"), "--mca rpi tcp");
    assert_eq!(
        source("shm"),
        "environment variable OXMPI_MCA_rpi",
        "a program has changed it since"
    );
    let nonsense = [("OXMPI_MCA_rpi", "tcp"), ("OXMPI_PARAM_SOURCES", "rpi\u{1f}\u{1e}tcp")];
    assert!(Found::gather(nonsense, None).errors.is_empty());
}

#[test]
fn a_checkpoint_request_with_a_name_of_open_mpi_is_refused() {
    for name in ["cr_self_prefix", "cr_ssi_prefix"] {
        let variable = format!("OMPI_MCA_{name}");
        let found = Found::gather([(variable.clone(), "self")], None);
        assert!(found.ignored.is_empty(), "{name}");
        let error = found.errors[0].to_string();
        let start = format!("environment variable {variable}: there is no parameter '{name}' (");
        assert!(error.starts_with(&start), "{error}");
    }
    assert_eq!(
        Found::gather([("OMPI_MCA_crs", "self")], None).ignored.len(),
        1,
        "that is Open MPI's"
    );
}

#[test]
fn usual_names_of_open_mpi_are_near_to_none_of_ours() {
    let names = "osc io btl_tcp_if_ninclude btl_base_verbose btl_vader_single_copy_mechanism \
                 btl_tcp_links btl_tcp_sndbuf mpi_yield_when_idle rmaps_base_oversubscribe plm_base_strip_prefix \
                 orte_tmpdir_base opal_cuda_support ess_base_jobid wait";
    for name in names.split_whitespace().filter(|n| *n != "btl_tcp_if_ninclude") {
        let found = Found::gather([(format!("OMPI_MCA_{name}"), "x")], None);
        assert_eq!(found.ignored[0].nearest, None, "{name}");
    }
    let found = Found::gather([("OMPI_MCA_btl_tcp_if_ninclude", "x")], None);
    assert_eq!(found.ignored[0].nearest, Some("btl_tcp_if_include"));
}

#[test]
fn errors_name_source_value_what_is_accepted_and_the_nearest_name() {
    let e = first_error(&[("OMPI_MCA_shm_ring_slots", "many")], None);
    assert_eq!(
        e,
        "environment variable OMPI_MCA_shm_ring_slots: parameter 'shm_ring_slots': 'many' is not a number from 4 to \
         65536 and a power of two"
    );
    let e = first_error(&[("OXMPI_MCA_single_cpoy", "on")], None);
    assert!(
        e.starts_with("environment variable OXMPI_MCA_single_cpoy:")
            && e.contains("did you mean 'single_copy'"),
        "{e}"
    );
    let dir = Scratch::new("errors");
    let path = dir.write(".oxmpi/mca-params.conf", "wait_spin_us = 2\n\nrpi = tpc\nnonsense\n");
    let found = Found::gather([dir.home()], None);
    let all: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
    let transports = Module::all().iter().map(|module| module.name).collect::<Vec<_>>().join(", ");
    assert_eq!(
        all,
        [
            format!(
                "file {path}:3:7: parameter 'rpi': 'tpc' is not one of {transports}, or several of them with commas between (did you mean 'tcp'?)"
            ),
            format!("file {path}:4:1: the line is not of the form 'NAME = VALUE'"),
        ]
    );
    assert_eq!(found.params.wait_spin_us(), 2, "the right lines count");
}

#[test]
fn files_can_be_named_or_left_out() {
    let dir = Scratch::new("named");
    dir.write(".oxmpi/mca-params.conf", "wait_spin_us = 2");
    let (a, b) = (
        dir.write("a", "wait_spin_us = 3\nwait_yields = 3"),
        dir.write("b", "wait_spin_us = 4\nwait_sleeping = 4"),
    );
    let with = |files: &str| {
        Found::gather([("OXMPI_PARAM_FILES", files), dir.home()], Some(&dir.0)).into_result()
    };
    assert_eq!(with("none").unwrap(), Params::default());
    let params = with(&format!("{a}:{b}")).unwrap();
    assert_eq!((params.wait_spin_us(), params.wait_yields(), params.wait_sleeping()), (3, 3, 4));
    let e = with(&format!("{a}:{a}x")).unwrap_err().to_string();
    assert_eq!(e, format!("parameter file {a}x: there is no such file"));
    let e = with("/").unwrap_err().to_string();
    assert_eq!(e, "parameter file /: it is not an ordinary file");
}

#[test]
fn without_a_home_there_is_no_user_file() {
    assert!(Found::gather([("HOME", "")], None).errors.is_empty());
    assert!(Found::gather([("HOME", "/proc/self/no-such-home")], None).errors.is_empty());
}
