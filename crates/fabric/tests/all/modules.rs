use oxmpi_fabric::Constructor;
use oxmpi_param::module::{BetweenNodes, Supplies};
use oxmpi_param::{Job, Module, NodeCount, Param, Params, Source, ThreadLevel};

fn number(params: &Params, name: &str) -> i64 {
    params.number(Param::find(name).unwrap())
}

#[test]
fn the_folders_are_the_modules_in_their_order() {
    let names: Vec<_> = Module::all().iter().map(|module| module.name).collect();
    // More may follow: there is no other list of them, and this is none.
    assert_eq!(names[..6], ["shm", "tcp", "usysv", "sysv", "crtcp", "lamd"]);
    assert!(names.contains(&"loopback"));
    assert_eq!(Param::find("rpi").unwrap().words(), names);
}

#[test]
fn between_hosts_ib_goes_before_libfabric_and_that_before_sockets() {
    let far = |params: &Params| {
        ["ib", "ofi", "tcp"].map(|name| Module::named(name).unwrap().far_priority(params))
    };
    assert_eq!(far(&Params::default()), [50, 25, 20]);
    assert_eq!(far(&Params::default().with("mtl_ofi_priority", "60").unwrap()), [50, 60, 20]);
    assert!(
        Module::named("ofi").unwrap().priority.is_none(),
        "on one host it is used where it is named"
    );
}

#[test]
fn every_module_is_well_defined() {
    for module in Module::all() {
        assert!(Constructor::of(module).is_some(), "{module:?}");
        let start = format!("'{}' ", module.name);
        assert!(module.help.starts_with(&start) && module.help.ends_with('.'), "{module:?}");
        assert!(!module.help.contains("  "), "{module:?}");
        let own = format!("rpi_{}_", module.name);
        let of_needs = match &module.needs {
            Supplies::Postboxes(of) => vec![of.short, of.pool, of.piece],
            _ => Vec::new(),
        };
        let of_sockets = module.sockets.iter().flat_map(|of| [of.short, of.buffers]);
        for param in module
            .priority
            .into_iter()
            .chain(of_needs)
            .chain(of_sockets)
            .chain(module.params.iter().copied())
        {
            let is_mtl = |name: &&str| param.name.starts_with(&format!("mtl_{name}_"));
            assert!(
                param.name.starts_with(&own) || module.mtl.iter().any(is_mtl),
                "{}",
                param.name
            );
            assert_eq!(Module::of_param(param), Some(*module), "{}: it is in no list", param.name);
            assert!(Param::find(param.name).is_some(), "{}", param.name);
            assert!(
                param.help.len() > 20 && param.help.ends_with('.'),
                "{} has no help",
                param.name
            );
            assert!(!param.help.contains("  "), "{}: help has a run of blanks", param.name);
            let default = param.default_value();
            assert_eq!(
                param.parse(&param.show(&default)).as_ref(),
                Ok(&default),
                "{}: its default",
                param.name
            );
        }
        if let Some(priority) = module.priority {
            assert_eq!(priority.name, format!("{own}priority"));
        }
    }
    let between = |module: &&&Module| module.between == BetweenNodes::Carries;
    assert_eq!(
        Module::all().iter().filter(between).count(),
        1,
        "one carries the messages of others"
    );
    for (i, param) in Param::all().iter().enumerate() {
        for other in &Param::all()[..i] {
            assert!(
                param.name != other.name && !other.aliases.contains(&param.name),
                "{} twice",
                param.name
            );
        }
    }
}

#[test]
fn the_defaults_of_the_guide_hold() {
    let params = Params::default();
    assert_eq!((params.rpi().name, number(&params, "rpi_tcp_priority")), ("shm", 20));
    assert_eq!(number(&params, "rpi_lamd_priority"), 10);
    assert_eq!((number(&params, "rpi_tcp_short"), number(&params, "rpi_tcp_sockbuf")), (65535, -1));
    assert_eq!((params.btl_tcp_if_include(), params.btl_tcp_if_exclude()), ("", ""));
}

#[test]
fn a_number_may_be_negative_where_its_limits_say_so() {
    let params = Params::default().with("rpi_tcp_sockbuf", "64k").unwrap();
    assert_eq!(number(&params, "rpi_tcp_sockbuf"), 65536);
    let e = Params::default().with("rpi_tcp_sockbuf", "-2").unwrap_err().to_string();
    assert!(e.contains("from -1 to"), "{e}");
    assert!(Params::default().with("rpi_tcp_short", "-1").is_err());
}

#[test]
fn the_named_module_is_chosen_and_otherwise_the_highest_priority() {
    let with = |name, value| Params::default().with(name, value).unwrap();
    assert_eq!(Params::default().rpi().name, "shm");
    assert_eq!(with("rpi", "tcp").rpi().name, "tcp");
    assert_eq!(with("rpi", "crtcp").rpi().name, "crtcp");
    assert_eq!(with("rpi", "lamd").rpi().name, "lamd");
    assert_eq!(with("rpi_ssi_lamd_priority", "61").rpi().name, "lamd");
    assert_eq!(with("rpi_tcp_priority", "60").rpi().name, "shm", "the first of equals");
    assert_eq!(with("rpi_tcp_priority", "61").rpi().name, "tcp");
    assert_eq!(with("rpi_shm_priority", "39").rpi().name, "usysv");
    let fewer = with("rpi_shm_priority", "19").with("rpi_usysv_priority", "19").unwrap();
    assert_eq!(fewer.rpi().name, "sysv");
    let fewer = fewer.with("rpi_sysv_priority", "0").unwrap();
    assert_eq!(fewer.rpi().name, "crtcp");
    assert_eq!(fewer.with("rpi_crtcp_priority", "0").unwrap().rpi().name, "tcp");
    assert_eq!(with("rpi_usysv_priority", "61").rpi().name, "usysv");
    assert_eq!(
        (with("rpi", "usysv").rpi().name, with("rpi", "sysv").rpi().name),
        ("usysv", "sysv")
    );
    assert_eq!(with("rpi_tcp_priority", "61").with("rpi", "shm").unwrap().rpi().name, "shm");
}

#[test]
fn sockets_have_the_limits_of_the_transport_in_use() {
    let all = [("rpi_tcp_short", "100"), ("rpi_crtcp_short", "200"), ("rpi_tcp_sockbuf", "300")];
    let all = all
        .into_iter()
        .fold(Params::default(), |all, (name, value)| all.with(name, value).unwrap());
    let limits = |params: &Params| (params.sockets_short(), params.sockets_buffers());
    assert_eq!(limits(&all), (100, 300), "those of tcp, also between hosts");
    let all = all.with("rpi", "crtcp").unwrap();
    assert_eq!(limits(&all), (200, 1 << 20), "no buffers are requested");
    let long = all.clone().with("rpi_crtcp_short", "2m").unwrap();
    assert_eq!(
        limits(&long),
        (2 << 20, 2 << 20),
        "no buffers are requested: as many as a short message"
    );
    assert_eq!(limits(&all.with("rpi_crtcp_sockbuf", "400").unwrap()), (200, 400));
}

#[test]
fn an_unusable_module_yields_or_ends_the_job() {
    let job = Job { no_sockets: Some("there is no network".into()), ..Job::default() };
    let preferring = Params::default().with("rpi_tcp_priority", "61").unwrap();
    let found = preferring.select(&job, ThreadLevel::Multiple).unwrap();
    assert_eq!((found.transport().name, found.level), ("shm", ThreadLevel::Multiple));
    for transport in ["rpi tcp", "rpi crtcp"] {
        let drop = (transport.to_string(), "there is no network".to_string());
        assert!(found.steps[1].drops.contains(&drop), "{:?}", found.steps[1].drops);
    }
    let asking = Params::default().with("rpi", "tcp").unwrap();
    let error = asking.select(&job, ThreadLevel::Single).unwrap_err().to_string();
    assert!(
        error.contains("this job: rpi tcp: there is no network") && !error.contains("rpi shm"),
        "{error}"
    );
}

fn params(pairs: &[(&'static str, &str)]) -> Params {
    let mut params = Params::default();
    for (name, value) in pairs {
        params.set_from(name, value, Source::CommandLine(format!("--mca {name} {value}"))).unwrap();
    }
    params
}

fn chosen(pairs: &[(&'static str, &str)]) -> Result<&'static str, String> {
    let found =
        params(pairs).select(&Job { ranks: Some(2), ..Job::default() }, ThreadLevel::Single);
    found.map(|found| found.transport().name).map_err(|error| error.to_string())
}

#[test]
fn the_spellings_of_open_mpi_select_their_modules() {
    for (pairs, transport) in [
        (&[("btl", "self,sm,tcp")][..], "shm"),
        (&[("btl", "self,vader")], "shm"),
        (&[("btl", " tcp , self ")], "tcp"),
        (&[("btl", "^tcp")], "shm"),
        (&[("btl", "^sm")], "tcp"),
        (&[("btl", "^vader,openib")], "tcp"),
        (&[("btl", "^openib")], "shm"),
        (&[("btl", "")], "shm"),
        (&[("pml", "ob1"), ("btl", "tcp,self")], "tcp"),
        (&[("pml", "^ucx"), ("mtl", "^ofi")], "shm"),
        (&[("mtl", "ofi")], "ofi"),
        (&[("mtl", "portals4")], "portals4"),
        (&[("rpi", "portals4")], "portals4"),
        (&[("pml", "cm")], "ofi"),
        (&[("pml", "^ob1"), ("mtl", "^psm2")], "ofi"),
        (&[("pml", "cm"), ("rpi", "ofi")], "ofi"),
        (&[("pml", "ob1,cm")], "shm"),
        (&[("rpi", "tcp"), ("btl", "self,sm,tcp")], "tcp"),
        (&[("rpi", "crtcp"), ("btl", "self,tcp")], "crtcp"),
        (&[("rpi_tcp_priority", "99"), ("btl", "self,sm")], "shm"),
        (&[("btl", "openib,self"), ("rpi_ib_fallback", "1")], "ib"),
        (&[("btl", "self,sm,openib"), ("rpi_ib_fallback", "1")], "shm"),
        (&[("btl", "self,ofi")], "ofi"),
        (&[("btl", "self,portals4")], "portals4"),
        (&[("mtl", "ofi"), ("btl", "^ofi,openib")], "ofi"),
        (&[("rpi", "ib"), ("btl", "self,sm"), ("rpi_ib_fallback", "1")], "ib"),
        (&[("rpi", "lamd, TCP")], "tcp"),
        (&[("rpi", "gm,lamd,crtcp"), ("btl", "self,tcp")], "crtcp"),
        (&[("rpi", "tcp,ofi"), ("mtl", "ofi")], "ofi"),
        (&[("rpi", "ofi,portals4"), ("mtl", "portals4")], "portals4"),
        (&[("mtl", "portals4,ofi")], "ofi"),
    ] {
        assert_eq!(chosen(pairs), Ok(transport), "{pairs:?}");
    }
}

#[test]
fn impossible_selections_are_refused_with_reason_source_and_remedy() {
    for (pairs, texts) in [
        (
            &[("btl", "sm,tcp")][..],
            &["'btl' is 'sm,tcp' (from --mca btl sm,tcp)", "write 'self,sm,tcp'"][..],
        ),
        (&[("btl", "^self")], &["leaves out 'self'"]),
        (&[("btl", "self")], &["leaves no way", "add 'sm' or 'tcp'"]),
        (&[("btl", "^sm,tcp")], &["leaves no way"]),
        (&[("btl", "self,openib")], &["rpi ib: no device under"]),
        (&[("btl", "self,ugni")], &["'ugni': OxMPI has no transport of this name"]),
        (
            &[("rpi", "tcp,crtcp"), ("btl", "self,sm")],
            &["requests 'tcp,crtcp'", "'btl' is 'self,sm'"],
        ),
        (
            &[("rpi", "ib,gm")],
            &["rpi gm: there is no Myrinet interface", "rpi ib: no device under"],
        ),
        (&[("btl", "self,tpc")], &["no module 'tpc'", "did you mean 'tcp'"]),
        (&[("btl", "self,^tcp")], &["in front of the whole list"]),
        (&[("btl", "^")], &["names nothing"]),
        (&[("pml", "^ob1,cm")], &["leaves out 'ob1' and 'cm'"]),
        (
            &[("pml", "ob1"), ("mtl", "ofi")],
            &["'pml' is 'ob1'", "leaves out 'cm'", "leave out one of the two"],
        ),
        (
            &[("pml", "ob1"), ("rpi", "ofi")],
            &["requests 'ofi'", "'pml' is 'ob1' (from --mca pml ob1)"],
        ),
        (&[("pml", "cm"), ("mtl", "^ofi,portals4")], &["'pml' is 'cm'", "no transport is left"]),
        (
            &[("rpi", "tcp"), ("mtl", "ofi")],
            &["requests 'tcp'", "'mtl' is 'ofi' (from --mca mtl ofi)"],
        ),
        (&[("rpi", "ofi"), ("mtl", "^ofi")], &["requests 'ofi'", "'mtl' is '^ofi'"]),
        (&[("mtl", "psm2")], &["by libfabric", "'--mca mtl ofi'"]),
        (&[("mtl", "oif")], &["did you mean 'ofi'", "has ofi, portals4"]),
        (
            &[("rpi", "tcp"), ("btl", "self,sm")],
            &["requests 'tcp' (from --mca rpi tcp)", "'btl' is 'self,sm' (from --mca btl self,sm)"],
        ),
    ] {
        let error = chosen(pairs).unwrap_err();
        assert!(texts.iter().all(|text| error.contains(text)), "{pairs:?}: {error}");
    }
}

#[test]
fn a_job_on_several_nodes_needs_a_way_between_them() {
    let lists = ["^tcp", "self,sm", "self,vader", "^tcp,openib"];
    let hosts = (NodeCount::Hosts(3), "3 hosts", "run all ranks on one host");
    let virtual_ones = (NodeCount::Virtual(2), "2 virtual nodes", "--mca mpi_virtual_nodes 1");
    for (nodes, texts) in [hosts, virtual_ones].map(|(nodes, one, two)| (nodes, [one, two])) {
        let job = Job { ranks: Some(4), nodes: Some(nodes), ..Job::default() };
        let select =
            |pairs: &[(&'static str, &str)]| params(pairs).select(&job, ThreadLevel::Single);
        for list in lists {
            for more in [None, Some(("rpi", "shm")), Some(("rpi", "lamd")), Some(("pml", "ob1"))] {
                let pairs: Vec<_> = [("btl", list)].into_iter().chain(more).collect();
                if (list, more) == ("self,sm", Some(("rpi", "lamd"))) {
                    continue; // the two exclude each other on one node as well
                }
                let error = select(&pairs).unwrap_err().to_string();
                let said = format!("'btl' is '{list}' (from --mca btl {list})");
                let [on, remedy] = texts;
                for text in [on, remedy, "leaves out 'tcp'", "--mca btl self,sm,tcp", &said] {
                    assert!(error.contains(text), "{pairs:?}: {error}");
                }
            }
        }
        for pairs in [
            &[][..],
            &[("btl", "self,sm,tcp")],
            &[("btl", "^openib")],
            &[("btl", "self,tcp")],
            &[("rpi", "shm")],
            &[("rpi", "usysv")],
            &[("rpi", "lamd")],
            &[("rpi", "lamd,tcp")],
        ] {
            let found = select(pairs).unwrap();
            let between = (found.transport().name != "tcp").then_some("tcp");
            assert_eq!(found.between, between, "{pairs:?}");
        }
        for (list, way) in [("self,sm,ofi", "ofi"), ("self,sm,openib", "ib")] {
            let found = select(&[("btl", list), ("rpi_ib_fallback", "1")]).unwrap();
            assert_eq!((found.transport().name, found.between), (way, None), "{list}");
        }
        let none = Job { no_sockets: Some("there is no network".into()), ..job.clone() };
        let error = params(&[]).select(&none, ThreadLevel::Single).unwrap_err().to_string();
        assert!(error.contains("between which messages go by tcp: there is no network"), "{error}");
    }
    for list in lists {
        let found = params(&[("btl", list)]).select(&Job::default(), ThreadLevel::Single).unwrap();
        assert_eq!((found.transport().name, found.between), ("shm", None), "{list}");
        let why = format!("'btl' is '{list}' (from --mca btl {list})");
        assert!(found.steps[1].drops.contains(&("between nodes tcp".into(), why)), "{list}");
    }
}

#[test]
fn one_process_needs_no_way_to_others() {
    let alone = Job { ranks: Some(1), ..Job::default() };
    assert!(params(&[("btl", "self")]).select(&alone, ThreadLevel::Single).is_ok());
    assert!(params(&[("btl", "self")]).select(&Job::default(), ThreadLevel::Single).is_err());
}
