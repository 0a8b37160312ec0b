use super::*;
use proptest::prelude::*;

fn names(list: &str) -> Vec<String> {
    hosts(list).unwrap_or_else(|error| panic!("{list}: {error:?}"))
}

#[test]
fn lists_of_hosts_are_expanded_in_order() {
    let table: [(&str, &[&str]); 8] = [
        ("login", &["login"]),
        ("nodea,nodeb", &["nodea", "nodeb"]),
        ("tux[1-3]", &["tux1", "tux2", "tux3"]),
        ("tux[08-10,2]", &["tux08", "tux09", "tux10", "tux2"]),
        ("r[0-1]n[01-02]", &["r0n01", "r0n02", "r1n01", "r1n02"]),
        ("n[1-2]-ib,x", &["n1-ib", "n2-ib", "x"]),
        ("127.0.0.[1-2]", &["127.0.0.1", "127.0.0.2"]),
        ("b,a[2,1],b", &["b", "a2", "a1", "b"]),
    ];
    for (list, wanted) in table {
        assert_eq!(names(list), wanted, "{list}");
    }
}

#[test]
fn malformed_and_endless_lists_are_refused() {
    for list in
        ["a[", "a]", "a[1-2", "a[[1]]", "a[2-1]", "a[]", "a[1-]", "a[x]", "a[+1]", "a,,b", ",", ""]
    {
        assert!(hosts(list).is_err(), "{list}");
    }
    for list in ["a[0-65536]", "a[0-999][0-999]", "a[0-18446744073709551615]", "a[0-65535],b"] {
        assert_eq!(hosts(list), Err(ListError("a list of too many entries")), "{list}");
    }
    assert_eq!(names("a[0-65535]").len(), MOST_NODES);
    for list in ["2(x3", "2(x0)", "(x3)", "", "2,", "-1", "2(x-1)", "9999999999", "1(x99999999)"] {
        assert!(counts(list).is_err(), "{list}");
    }
    for list in ["", "0", "65536", "3-1", "1-", "a", "1,,2"] {
        assert!(ports(list).is_err(), "{list}");
    }
    for list in ["a", "a:", ":b:c", "a:[::1:h", ""] {
        assert!(addresses(list).is_err(), "{list}");
    }
}

#[test]
fn counts_ports_and_addresses_are_read() {
    assert_eq!(counts("2(x3),1").unwrap(), [2, 2, 2, 1]);
    assert_eq!(counts("1").unwrap(), [1]);
    assert_eq!(ports("12000-12002,12010").unwrap(), [12000, 12001, 12002, 12010]);
    assert_eq!(ports("[1-2]").unwrap(), [1, 2]);
    let pair = |name: &str, address: &str| (name.to_string(), address.to_string());
    assert_eq!(
        addresses("ec0:10.0.0.7:h7,ec1:[fd00::7]:h8,ec2:h9").unwrap(),
        [pair("ec0", "10.0.0.7"), pair("ec1", "fd00::7"), pair("ec2", "h9")]
    );
    assert_eq!(addresses("(null)").unwrap(), []);
}

/// The variables of a task, as Slurm 22.05 sets them.
const TASK: [(&str, &str); 14] = [
    ("SLURM_JOB_ID", "12"),
    ("SLURM_STEP_ID", "3"),
    ("SLURM_STEP_NUM_TASKS", "5"),
    ("SLURM_STEP_NODELIST", "node[1-3]"),
    ("SLURM_STEP_TASKS_PER_NODE", "2(x2),1"),
    ("SLURM_PROCID", "4"),
    ("SLURM_LOCALID", "0"),
    ("SLURM_NODEID", "2"),
    ("SLURMD_NODENAME", "node3"),
    ("SLURM_STEP_LAUNCHER_PORT", "41234"),
    ("SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"),
    ("SLURM_RESTART_COUNT", "1"),
    ("SLURM_STEP_RESV_PORTS", "12000-12001"),
    ("SLURM_NODE_ALIASES", "node3:10.0.0.3:h3"),
];

fn read(changes: &[(&str, &str)]) -> Result<Option<SlurmStep>, JoinError> {
    SlurmStep::read(&|name| {
        let all = changes.iter().chain(&TASK);
        let (_, value) = all.into_iter().find(|(known, _)| *known == name)?;
        Some(value.to_string()).filter(|value| value != "unset")
    })
}

#[test]
fn a_step_is_read_from_its_variables() {
    let step = read(&[]).unwrap().unwrap();
    let nodes = ["node1", "node2", "node3"].map(String::from).to_vec();
    assert_eq!(
        step,
        SlurmStep {
            job: 12,
            step: 3,
            restart: 1,
            tasks: 5,
            task: 4,
            local: 0,
            node: 2,
            nodes,
            tasks_per_node: vec![2, 2, 1],
            reserved_ports: vec![12000, 12001],
            launcher_port: Some(41234),
            launcher_host: Some("10.0.0.1".into()),
            addresses: vec![("node3".into(), "10.0.0.3".into())],
        }
    );
    assert_eq!((step.shown(), step.shown_node(1)), ("12.3".into(), "node2 (node 1)".into()));
    let small = read(&[
        ("SLURM_RESTART_COUNT", "unset"),
        ("SLURM_STEP_RESV_PORTS", "unset"),
        ("SLURM_NODE_ALIASES", "unset"),
        ("SLURM_STEP_LAUNCHER_PORT", "unset"),
        ("SLURMD_NODENAME", "unset"),
    ]);
    let small = small.unwrap().unwrap();
    assert_eq!((small.restart, small.node, small.launcher_port), (0, 2, None));
    assert!(small.reserved_ports.is_empty() && small.addresses.is_empty());
}

#[test]
fn without_a_step_there_is_none() {
    assert_eq!(read(&[("SLURM_STEP_ID", "unset")]), Ok(None));
    assert_eq!(read(&[("SLURM_STEP_NODELIST", "unset")]), Ok(None));
}

#[test]
fn wrong_variables_are_named_with_their_values() {
    for (name, value, why) in [
        ("SLURM_JOB_ID", "x", "no number"),
        ("SLURM_JOB_ID", "unset", "missing"),
        ("SLURM_STEP_ID", "-1", "no number"),
        ("SLURM_STEP_NODELIST", "node[1-3", "unmatched bracket"),
        ("SLURM_STEP_TASKS_PER_NODE", "5", "another number of nodes"),
        ("SLURM_STEP_TASKS_PER_NODE", "2(x3)", "another sum"),
        ("SLURM_STEP_TASKS_PER_NODE", "unset", "missing"),
        ("SLURM_PROCID", "5", "not below"),
        ("SLURM_LOCALID", "4294967296", "no number"),
        ("SLURM_STEP_RESV_PORTS", "70000", "malformed range"),
    ] {
        let text = read(&[(name, value)]).unwrap_err().to_string();
        assert!(text.contains(name) && text.contains(why), "{text}");
        assert!(value == "unset" || text.contains(value), "{text}");
    }
    let beyond = read(&[("SLURM_NODEID", "3"), ("SLURMD_NODENAME", "unset")]);
    assert!(beyond.unwrap_err().to_string().contains("not below the number of nodes"));
}

#[test]
fn the_components_of_a_heterogeneous_step_have_their_nodes_by_name() {
    // Slurm sorts the names, and numbers the nodes in the order of the components.
    let sorted = read(&[("SLURM_NODEID", "0")]).unwrap().unwrap();
    assert_eq!(sorted.node, 2, "SLURMD_NODENAME is node3");
    // Components that share a node: the name is no evidence.
    let shared =
        read(&[("SLURM_STEP_NODELIST", "node3,node3,node1"), ("SLURM_NODEID", "1")]).unwrap();
    assert_eq!(shared.unwrap().node, 1);
    // The name of another level, in a front end.
    assert_eq!(read(&[("SLURMD_NODENAME", "front")]).unwrap().unwrap().node, 2);
}

/// One entry of a list of hosts, and the names that it stands for.
fn entry() -> impl Strategy<Value = (String, Vec<String>)> {
    let bracket = proptest::collection::vec((0u64..300, 0u64..4, 1usize..5), 1..4);
    let parts = proptest::collection::vec(("[a-z.-]{1,4}", bracket), 0..3);
    ("[a-z][a-z0-9]{0,3}", parts).prop_map(|(name, parts)| {
        let (mut text, mut all) = (name.clone(), vec![name]);
        for (word, ranges) in parts {
            let shown = ranges.iter().map(|(low, more, width)| match more {
                0 => format!("{low:0width$}"),
                _ => format!("{low:0width$}-{:0width$}", low + more),
            });
            text += &format!("{word}[{}]", shown.collect::<Vec<_>>().join(","));
            let mut longer = Vec::new();
            for name in &all {
                for (low, more, width) in &ranges {
                    let width = format!("{low:0width$}").len();
                    longer.extend(
                        (*low..=low + more).map(|number| format!("{name}{word}{number:0width$}")),
                    );
                }
            }
            all = longer;
        }
        (text, all)
    })
}

proptest! {
    #[test]
    fn each_list_of_hosts_is_expanded(entries in proptest::collection::vec(entry(), 1..4)) {
        let list = entries.iter().map(|(text, _)| text.clone()).collect::<Vec<_>>().join(",");
        let wanted: Vec<String> = entries.into_iter().flat_map(|(_, names)| names).collect();
        prop_assert_eq!(hosts(&list), Ok(wanted));
    }

    #[test]
    fn each_list_of_counts_is_expanded(
        entries in proptest::collection::vec((0u32..9, 1usize..5), 1..5),
    ) {
        let shown = entries.iter().map(|(count, times)| match times {
            1 => count.to_string(),
            _ => format!("{count}(x{times})"),
        });
        let list = shown.collect::<Vec<_>>().join(",");
        let wanted: Vec<u32> =
            entries.iter().flat_map(|(count, times)| vec![*count; *times]).collect();
        prop_assert_eq!(counts(&list), Ok(wanted));
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in "[0-9a-c,:()x\\[\\]-]{0,24}|.{0,12}") {
        let (a, b, c, d) = (hosts(&text), counts(&text), ports(&text), addresses(&text));
        prop_assert!(a.map_or(0, |all| all.len()) <= MOST_NODES);
        prop_assert!(b.map_or(0, |all| all.len()) <= MOST_NODES);
        prop_assert!(c.map_or(0, |all| all.len()) <= MOST_NODES);
        prop_assert!(d.map_or(0, |all| all.len()) <= MOST_NODES);
    }

    #[test]
    fn no_variables_make_the_step_panic(values in proptest::collection::vec("[0-9a,(x)\\[\\]-]{0,9}", 14)) {
        let changes: Vec<(&str, &str)> =
            TASK.iter().zip(&values).map(|((name, _), value)| (*name, value.as_str())).collect();
        _ = read(&changes);
    }
}
