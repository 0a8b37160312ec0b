//! Messages between a head and its agents, from bytes that nobody has encoded, or that were changed
//! on their way. OXMPI_FUZZ_SECONDS (1) says how long, OXMPI_FUZZ_SEED replays one case.
#![allow(clippy::unwrap_used)] // a failure is the test's

#[path = "../../wire/tests/support/random.rs"]
mod random;
#[path = "../../wire/tests/support/seeds.rs"]
mod seeds;

use oxmpi_rt_proto::agent::{
    AgentOrder, FromAgent, LifelineOffer, OrderedProgram, Seen, ToAgent, find_greeting, greeting,
    next,
};
use oxmpi_rt_proto::process::{Bind, Exit, MpiStage};
use random::Random;

impl Random {
    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.draw() as u8).collect()
    }

    fn numbers(&mut self) -> Vec<u32> {
        (0..self.below(6)).map(|_| self.draw() as u32).collect()
    }
}

fn fuzz(case: impl Fn(&mut Random)) {
    seeds::each_seed(|seed| case(&mut Random(seed)));
}

fn to_agent(random: &mut Random) -> ToAgent {
    match random.below(6) {
        0 => {
            let variables = vec![("A".into(), "b".into())];
            let program = OrderedProgram {
                ranks: random.draw() as u32,
                path: "/bin/true".into(),
                args: vec!["true".into()],
                inherited: (random.below(2) == 0).then(|| variables.clone()),
                env: variables.clone(),
                directory: "/".into(),
            };
            ToAgent::Order(Box::new(AgentOrder {
                universe: random.draw(),
                node: random.draw() as u32,
                base: 0,
                several: true,
                deaths: 0,
                step: 0,
                sockets: random.below(2) == 0,
                nodes: random.numbers(),
                apps: vec![program],
                env: variables,
                secret: [9; 32],
                hostmap: vec![("a".into(), "10.0.0.1".into())],
                bind: Bind::Cores(2),
                report_bindings: random.below(2) == 0,
                fed: random.numbers(),
                lifeline: (random.below(2) == 0).then(|| LifelineOffer {
                    addresses: vec!["10.0.0.1:77".parse().unwrap(), "[fe80::1]:5".parse().unwrap()],
                    secret: [3; 32],
                }),
                restore: None,
            }))
        }
        1 => ToAgent::Answer {
            rank: random.draw() as u32,
            reply: random.bytes(50),
            blob: Some(random.bytes(50)),
        },
        2 => ToAgent::Signal { number: random.draw() as i32, ranks: random.numbers() },
        3 => ToAgent::Input { rank: random.draw() as u32, bytes: random.bytes(200) },
        4 => ToAgent::Where { asker: random.draw() as u32, rank: random.draw() as u32 },
        _ => ToAgent::Taken { bytes: random.draw() },
    }
}

fn from_agent(random: &mut Random) -> FromAgent {
    let seen = Seen {
        pid: random.draw() as u32,
        stage: MpiStage::Initialized,
        last_call: random.draw() as u16,
        rests: false,
    };
    let rank = random.draw() as u32;
    match random.below(5) {
        0 => FromAgent::Request { rank, request: random.bytes(50), blob: None, seen },
        1 => FromAgent::Output { rank, is_error: true, bytes: random.bytes(200) },
        2 => FromAgent::Exited { rank, exit: Exit::Signal(random.draw() as i32), seen },
        3 => FromAgent::Seen(random.numbers().into_iter().map(|rank| (rank, seen)).collect()),
        _ => FromAgent::Failed { base: 3, is_program: false, text: "no".into() },
    }
}

/// What can be read is written again as it was.
fn is_canonical(bytes: &[u8]) {
    if let Ok(message) = ToAgent::decode(bytes) {
        assert_eq!(message.encode()[4..], bytes[4..], "{message:?}");
    }
    if let Ok(message) = FromAgent::decode(bytes) {
        assert_eq!(message.encode()[4..], bytes[4..], "{message:?}");
    }
}

#[test]
fn any_bytes_are_read_or_refused() {
    fuzz(|random| {
        let bytes = random.bytes(300);
        is_canonical(&bytes);
        let _ = (next(&bytes), find_greeting(&bytes));
        let mut kinds = vec![0, 0, 0, 0, random.below(80) as u8];
        kinds.extend(random.bytes(80));
        is_canonical(&kinds);
    });
}

#[test]
fn messages_that_were_changed_are_others_or_none() {
    fuzz(|random| {
        let mut bytes = if random.below(2) == 0 {
            to_agent(random).encode()
        } else {
            from_agent(random).encode()
        };
        is_canonical(&bytes);
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len());
            bytes[at] = random.draw() as u8;
        }
        if random.below(4) == 0 {
            bytes.truncate(random.below(bytes.len()));
        }
        is_canonical(&bytes);
        let _ = next(&bytes);
    });
}

#[test]
fn a_stream_is_the_same_however_it_is_cut() {
    fuzz(|random| {
        let messages: Vec<FromAgent> = (0..random.below(6)).map(|_| from_agent(random)).collect();
        let mut stream = [&random.bytes(40)[..], b"\n", greeting().as_bytes()].concat();
        messages.iter().for_each(|message| stream.extend(message.encode()));
        let (mut came, mut has_greeted, mut read) = (Vec::new(), false, Vec::new());
        for byte in stream {
            came.push(byte);
            if !has_greeted {
                // What comes before may be anything, but no greeting of another version.
                match find_greeting(&came) {
                    Ok(Some(length)) => (has_greeted, _) = (true, came.drain(..length)),
                    other => assert_eq!(other, Ok(None)),
                }
            } else if let Some(length) = next(&came).unwrap() {
                read.push(FromAgent::decode(&came.drain(..length).collect::<Vec<_>>()).unwrap());
            }
        }
        assert_eq!(read, messages);
    });
}
