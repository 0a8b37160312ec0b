//! Fuzz tests of the parsers of rules files. OXMPI_FUZZ_SECONDS (default 1) is the duration;
//! OXMPI_FUZZ_SEED replays one case.
#![allow(clippy::unwrap_used)] // a panic fails the test

#[path = "../../wire/tests/support/random.rs"]
mod random;
#[path = "../../wire/tests/support/seeds.rs"]
mod seeds;

use oxmpi_plan::Collective;
use oxmpi_tuned::write::Version;
use oxmpi_tuned::{CollectiveFacts, Rules, RulesError, Selection};
use random::Random;

impl Random {
    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

fn fuzz(case: impl Fn(&mut Random)) {
    seeds::each_seed(|seed| case(&mut Random(seed)));
}

/// An error has a position in the file. Rules can be searched, written, and parsed again.
fn check(bytes: &[u8]) {
    let read = match Rules::parse("f", bytes) {
        Ok(read) => read,
        Err(RulesError { at, problem, .. }) => {
            let text = String::from_utf8_lossy(bytes);
            let lines: Vec<&str> = text.split('\n').collect();
            let line = lines.get(at.line - 1).unwrap_or_else(|| panic!("{at}: {problem}\n{text}"));
            assert!((1..=line.chars().count() + 1).contains(&at.column), "{at}: {problem}\n{text}");
            assert!(problem.starts_with("expected "), "{problem}");
            return;
        }
    };
    for collective in [Collective::Allreduce, Collective::Bcast, Collective::Alltoall] {
        let selection = Selection::default().with_rules(read.rules.clone());
        for bytes in [0, 8, 1 << 20] {
            let facts = CollectiveFacts::new(collective, 6, bytes, 8, false);
            let algorithm = selection.decide(&facts).unwrap().algorithm.algorithm();
            assert!(algorithm.collective == collective && algorithm.refusal(6, false).is_none());
        }
    }
    let json = read.rules.to_json();
    let again =
        Rules::parse("f", json.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{json}"));
    assert_eq!(again.rules.to_json(), json);
    if let Ok(text) = read.rules.to_classic(Version::Two) {
        let again =
            Rules::parse("f", text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(again.rules.to_classic(Version::Two).unwrap(), text);
    }
}

fn spoil(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(4) {
            0 => bytes[at] = random.draw() as u8,
            1 => _ = bytes.remove(at),
            2 => bytes.insert(at, bytes[at]),
            _ => bytes.truncate(at),
        }
    }
}

fn classic(random: &mut Random, version: &str) -> Vec<u8> {
    let mut text = version.to_string();
    let collectives = random.below(3);
    text += &format!("{collectives}\n");
    for _ in 0..collectives {
        let comms = random.below(3);
        text += &format!("{} {comms}\n", random.below(20));
        for _ in 0..comms {
            let rules = random.below(4);
            text += &format!(
                "{} {rules} # {}\n",
                random.below(9),
                random.pick(&["", "ranks", "#", "ä"])
            );
            for _ in 0..rules {
                let bytes = random.draw() >> random.below(64);
                text += &format!(
                    "{bytes} {} {} {}",
                    random.below(12),
                    random.below(9),
                    random.draw() >> random.below(64)
                );
                if !version.is_empty() && random.below(2) == 0 {
                    text += &format!(" {}", random.below(100));
                }
                text += random.pick(&["\n", "\r\n", " # x\n", "\n\n"]);
            }
        }
    }
    text.into_bytes()
}

#[test]
fn fuzz_version_1() {
    fuzz(|random| {
        let mut bytes = classic(random, "");
        check(&bytes);
        spoil(random, &mut bytes);
        check(&bytes);
    });
}

#[test]
fn fuzz_version_2() {
    fuzz(|random| {
        let mut bytes = classic(random, "rule-file-version-2\n");
        check(&bytes);
        spoil(random, &mut bytes);
        check(&bytes);
    });
}

#[test]
fn fuzz_json() {
    fuzz(|random| {
        let mut comms = Vec::new();
        for _ in 0..random.below(3) {
            let mut rules = Vec::new();
            for _ in 0..random.below(4) {
                let min = random.pick(&["0", "\"inf\"", "9", "18446744073709551615"]);
                let alg = random.pick(&[
                    "1",
                    "\"ring\"",
                    "\"\\u0072ing\"",
                    "0",
                    "\"ignore\"",
                    "6",
                    "\"none\"",
                    "1e3",
                ]);
                let more = random.pick(&[
                    "",
                    ", \"reqs\": 4",
                    ", \"seg_size\": 9",
                    ", \"faninout\": 2,",
                    ", \"bine_imp\": 1",
                ]);
                rules.push(format!("{{\"msg_size_min\": {min}, \"alg\": {alg}{more}}}"));
            }
            let spread = random.pick(&["any", "single-node", "one-per-node"]);
            comms.push(format!(
                "{{\"comm_size_max\": {}, \"comm_rank_distribution\": \"{spread}\", \"rules\": [{}]}}",
                random.below(20),
                rules.join(",\n")
            ));
        }
        let name = random.pick(&["allreduce", "bcast", "alltoall", "gatherv", "reducescatter"]);
        let mut bytes = format!(
            "{{\"rule_file_version\": 3, \"module\": \"tuned\", \"collectives\": {{\"{name}\": [{}]}}}}",
            comms.join(", ")
        )
        .into_bytes();
        check(&bytes);
        spoil(random, &mut bytes);
        check(&bytes);
    });
}
