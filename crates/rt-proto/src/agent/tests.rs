use super::*;
use crate::held::{HeldRank, Images};
use crate::process::Bind;
use crate::process::{Exit, MpiStage};
use proptest::prelude::*;

fn seen() -> impl Strategy<Value = Seen> {
    let stages =
        vec![MpiStage::Untouched, MpiStage::Initialized, MpiStage::Finalizing, MpiStage::Finalized];
    let stage = proptest::sample::select(stages);
    (any::<u32>(), stage, any::<u16>(), any::<bool>())
        .prop_map(|(pid, stage, last_call, rests)| Seen { pid, stage, last_call, rests })
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..60)
}

fn from_agents() -> impl Strategy<Value = FromAgent> {
    let exit = || {
        prop_oneof![
            any::<i32>().prop_map(Exit::Code),
            any::<i32>().prop_map(Exit::Signal),
            Just(Exit::Unknown)
        ]
    };
    prop_oneof![
        (proptest::collection::vec((any::<u32>(), ".{0,9}"), 0..4), ".{0,9}")
            .prop_map(|(addresses, relay)| FromAgent::Ready { addresses, relay }),
        bytes().prop_map(|notice| FromAgent::Relay { notice }),
        (any::<u32>(), ".{0,20}").prop_map(|(round, error)| FromAgent::Stopped { round, error }),
        (any::<(u32, bool)>(), ".{0,20}").prop_map(|((round, is_unread), error)| {
            FromAgent::Described {
                round,
                error,
                is_unread,
                ranks: vec![HeldRank {
                    number: 1,
                    pid: 7,
                    input: Some(vec![7]),
                    ..HeldRank::default()
                }],
                listeners: vec!["10.0.0.1:77".parse().unwrap(), "[fe80::1]:5".parse().unwrap()],
            }
        }),
        (any::<u32>(), ".{0,20}", bytes()).prop_map(|(round, error, facts)| FromAgent::Imaged {
            round,
            error,
            facts
        }),
        (any::<u32>(), ".{0,20}", bytes()).prop_map(|(round, name, bytes)| FromAgent::Piece {
            round,
            name,
            bytes
        }),
        Just(FromAgent::WantsImages),
        (any::<u32>(), ".{0,20}", proptest::collection::vec(any::<(u32, i32)>(), 0..4))
            .prop_map(|(number, error, values)| FromAgent::Returned { number, error, values }),
        (any::<u32>(), exit()).prop_map(|(pid, exit)| FromAgent::RelayEnded { pid, exit }),
        proptest::collection::vec(any::<(u32, u32)>(), 0..4)
            .prop_map(|pids| FromAgent::Started { pids }),
        (any::<(u32, bool)>(), ".{0,40}")
            .prop_map(|((base, is_program), text)| FromAgent::Failed { base, is_program, text }),
        ".{0,40}".prop_map(|text| FromAgent::Text { text }),
        (any::<u32>(), bytes(), proptest::option::of(bytes()), seen()).prop_map(
            |(rank, request, blob, seen)| FromAgent::Request { rank, request, blob, seen }
        ),
        (any::<u32>(), any::<bool>(), bytes())
            .prop_map(|(rank, is_error, bytes)| FromAgent::Output { rank, is_error, bytes }),
        (any::<u32>(), exit(), seen()).prop_map(|(rank, exit, seen)| FromAgent::Exited {
            rank,
            exit,
            seen
        }),
        proptest::collection::vec((any::<u32>(), seen()), 0..4).prop_map(FromAgent::Seen),
        (any::<u32>(), bytes()).prop_map(|(asker, reply)| FromAgent::Answer { asker, reply }),
        (any::<u32>(), any::<u64>())
            .prop_map(|(rank, bytes)| FromAgent::InputTaken { rank, bytes }),
        Just(FromAgent::Alive),
    ]
}

fn variables() -> Vec<Variable> {
    vec![("A".into(), "b=c".into()), ("EMPTY".into(), "".into())]
}

fn order(universe: u64, nodes: Vec<u32>, bind: Bind, fed: Vec<u32>) -> AgentOrder {
    let program = OrderedProgram {
        ranks: 3,
        path: "/bin/a b".into(),
        args: vec!["a b".into(), "".into()],
        inherited: Some(variables()),
        env: variables(),
        directory: "/tmp".into(),
    };
    AgentOrder {
        universe,
        node: 1,
        base: 3,
        several: true,
        deaths: 1,
        step: 2,
        sockets: true,
        nodes,
        apps: vec![program, OrderedProgram::default()],
        env: variables(),
        secret: [7; 32],
        hostmap: vec![("a".into(), "10.0.0.1".into())],
        bind,
        report_bindings: true,
        fed,
        lifeline: universe.is_multiple_of(2).then(|| LifelineOffer {
            addresses: vec!["10.0.0.1:77".parse().unwrap(), "[fe80::1]:5".parse().unwrap()],
            secret: [8; 32],
        }),
        restore: universe.is_multiple_of(3).then(|| RestoreOrder {
            images: Images {
                set: "/s".into(),
                mark: "m".into(),
                program: "/criu".into(),
                options: vec!["-v4".into()],
                refuses_files: universe.is_multiple_of(2),
            },
            mark: "00ff".into(),
            marks: vec!["00ff".into(), "11ff".into()],
            step: 3,
            ranks: vec![HeldRank { number: 1, pid: 7, ..HeldRank::default() }],
        }),
    }
}

fn to_agents() -> impl Strategy<Value = ToAgent> {
    let bind = prop_oneof![
        Just(Bind::Split),
        Just(Bind::None),
        Just(Bind::HardwareThread),
        Just(Bind::Package),
        Just(Bind::Numa),
        (1usize..99).prop_map(Bind::Cores)
    ];
    let words = || proptest::collection::vec(any::<u32>(), 0..5);
    prop_oneof![
        (any::<u64>(), words(), bind, words()).prop_map(|(universe, nodes, bind, fed)| {
            ToAgent::Order(Box::new(order(universe, nodes, bind, fed)))
        }),
        Just(ToAgent::Go),
        Just(ToAgent::GoOn),
        any::<u32>().prop_map(|round| ToAgent::Hold { round }),
        any::<u32>().prop_map(|round| ToAgent::Describe { round }),
        (any::<u32>(), ".{0,20}").prop_map(|(round, place)| ToAgent::Image { round, place }),
        (".{0,20}", bytes()).prop_map(|(name, bytes)| ToAgent::Piece { name, bytes }),
        any::<u32>().prop_map(|number| ToAgent::CallFunctions { number }),
        any::<u32>().prop_map(|base| ToAgent::Abandon { base }),
        any::<(u32, u32)>().prop_map(|(base, size)| ToAgent::ReleaseJob { base, size }),
        any::<(u32, u32)>().prop_map(|(base, size)| ToAgent::Forget { base, size }),
        (any::<u32>(), bytes(), proptest::option::of(bytes()))
            .prop_map(|(rank, reply, blob)| ToAgent::Answer { rank, reply, blob }),
        (any::<i32>(), words()).prop_map(|(number, ranks)| ToAgent::Signal { number, ranks }),
        bytes().prop_map(|order| ToAgent::Relay { order }),
        any::<u32>().prop_map(|count| ToAgent::Died { count }),
        any::<(u32, bool)>().prop_map(|(number, closes)| ToAgent::Step { number, closes }),
        Just(ToAgent::QueryState),
        any::<(u32, u32)>().prop_map(|(asker, rank)| ToAgent::Where { asker, rank }),
        (any::<u32>(), bytes()).prop_map(|(rank, bytes)| ToAgent::Input { rank, bytes }),
        any::<u64>().prop_map(|bytes| ToAgent::Taken { bytes }),
        Just(ToAgent::End),
    ]
}

proptest! {
    #[test]
    fn a_heads_message_comes_back_and_a_part_of_it_waits(message in to_agents()) {
        let bytes = message.encode();
        prop_assert_eq!(next(&bytes), Ok(Some(bytes.len())));
        prop_assert_eq!(next(&bytes[..bytes.len() - 1]), Ok(None));
        prop_assert_eq!(ToAgent::decode(&bytes), Ok(message));
        prop_assert!(ToAgent::decode(&bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn an_agents_message_comes_back(message in from_agents()) {
        let bytes = message.encode();
        prop_assert_eq!(FromAgent::decode(&bytes), Ok(message));
    }
}

#[test]
fn the_greeting_is_found_behind_what_login_scripts_print() {
    let own = greeting();
    assert_eq!(find_greeting(own.as_bytes()), Ok(Some(own.len())));
    let noisy = format!("Welcome!\nOXMPI\n{own}rest");
    assert_eq!(find_greeting(noisy.as_bytes()), Ok(Some(noisy.len() - 4)));
    assert_eq!(find_greeting(&noisy.as_bytes()[..noisy.len() - 5]), Ok(None));
    assert_eq!(find_greeting(b""), Ok(None));
    let other = find_greeting(b"OXMPI-AGENT 9.9.9 (agents 7)\n").unwrap_err().to_string();
    assert!(other.contains("OxMPI 9.9.9 (agents 7)") && other.contains("--prefix"), "{other}");
    let noise = vec![b'x'; MAX_NOISE + 1];
    assert!(matches!(find_greeting(&noise), Err(StreamError::NoAgent(text)) if text.len() == 400));
}

#[test]
fn an_impossible_length_is_reported() {
    assert_eq!(next(&[0, 0, 0, 0, 3]), Err(StreamError::Nonsense { kind: 3, length: 0 }));
    assert!(next(&[0xff, 0xff, 0xff, 0xff, 1]).is_err());
    assert_eq!(next(&[1, 0, 0]), Ok(None));
    assert!(ToAgent::decode(&[1, 0, 0, 0, 200]).is_err());
}
