//! Rules files: parsing, errors and warnings, and parsing of written rules.
#![allow(clippy::unwrap_used)] // a panic fails the test

use oxmpi_plan::Collective;
use oxmpi_plan::table::{algorithms, by_name};
use oxmpi_tuned::collectives::TUNABLE;
use oxmpi_tuned::rules::{CommRules, Matching, MessageRule, SizeRange};
use oxmpi_tuned::write::{CannotWrite, Version};
use oxmpi_tuned::{Distribution, Position, Rules};
use proptest::prelude::*;

/// The example of Open MPI's guide for versions 1 and 2.
const GUIDE: &str = "rule-file-version-2
1   # num of collectives
3   # collective ID
1   # number of comm sizes
#=====================
64   # comm size
14   # number of rules
# Bytes   alg topo segs reqs
#----------------------
0            0 0 0 0
512000       2 0 0 64
1536000      2 0 0 64
3072000      2 0 0 64
6144000      2 0 0 64
12288000     2 0 0 16
24576000     2 0 0 16
49152000     2 0 0 16
98304000     2 0 0 16
196608000    2 0 0 8
393216000    2 0 0 8
786432000    2 0 0 1
1572864000   2 0 0 1
2621440000   0 0 0 0
";

/// The guide's example in JSON, with its comma after the last member.
const GUIDE_JSON: &str = r#"{
    "$schema": "tuned_schema.json",
    "rule_file_version" : 3,
    "module" : "tuned",
    "collectives" : {
        "allreduce" :
        [
            {
                "comm_size_min" : 64,
                "comm_size_max" : 128,
                "rules" : [
                    {
                        "msg_size_min" : 512,
                        "msg_size_max" : 511999,
                        "alg" : 2,
                    },
                    {
                        "msg_size_min" : 512000,
                        "msg_size_max" : "inf",
                        "alg" : "recursive_doubling",
                        "reqs" : 8
                    }
                ]
            }
        ]
    }
}"#;

/// (algorithm, fan-out, segment, requests) of the rule that applies.
type FoundRule = Option<(&'static str, u32, u64, Option<u32>)>;

fn find(rules: &Rules, collective: Collective, ranks: u32, bytes: u64) -> FoundRule {
    let (_, rule) = rules.find(collective, ranks, Distribution::SingleNode, bytes)?;
    let name = rule.algorithm?.algorithm().name;
    Some((name, rule.fan_out, rule.segment_bytes, rule.max_requests))
}

fn warnings(text: &str) -> Vec<String> {
    let read = Rules::parse("f", text.as_bytes()).unwrap();
    read.warnings.iter().map(ToString::to_string).collect()
}

fn error(text: &str) -> String {
    Rules::parse("f", text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn the_example_of_the_guide_parses() {
    let read = Rules::parse("guide.conf", GUIDE.as_bytes()).unwrap();
    assert_eq!(read.warnings, []);
    let alltoall = |ranks, bytes| find(&read.rules, Collective::Alltoall, ranks, bytes);
    assert_eq!(alltoall(64, 511_999), None);
    assert_eq!(alltoall(64, 512_000), Some(("pairwise", 0, 0, Some(64))));
    assert_eq!(alltoall(1000, 196_608_001), Some(("pairwise", 0, 0, Some(8))));
    assert_eq!(alltoall(64, 2_621_440_000), None);
    assert_eq!(alltoall(63, 512_000), None);
    assert_eq!(find(&read.rules, Collective::Allgather, 64, 512_000), None);
    let (_, rule) = read.rules.find(Collective::Alltoall, 64, Distribution::Any, 512_000).unwrap();
    assert_eq!(rule.at, Position { line: 11, column: 1 });
}

#[test]
fn version_1_allows_any_blanks_and_comments_between_numbers() {
    let lines = "2\n2 1 4 2\n0 3 0 0\n1024 4 2 512\n7 1 2 1 0 6 0 0\n";
    let spread = "\n# a file\n2 2#allreduce\n1\t4\r\n2 0 3 0 0 1024 4 2 512 7 1 2 1\n0\n6\n0\n0";
    for text in [lines, spread] {
        let read = Rules::parse("f", text.as_bytes()).unwrap();
        assert_eq!(read.warnings, [], "{text}");
        let allreduce = |bytes| find(&read.rules, Collective::Allreduce, 5, bytes);
        assert_eq!(allreduce(1023), Some(("recursive_doubling", 0, 0, None)));
        assert_eq!(allreduce(1024), Some(("ring", 2, 512, None)));
        assert_eq!(find(&read.rules, Collective::Bcast, 2, 0), Some(("binomial", 0, 0, None)));
        assert_eq!(find(&read.rules, Collective::Bcast, 1, 0), None);
    }
}

#[test]
fn the_last_number_of_version_2_is_optional() {
    let read =
        Rules::parse("f", b"rule-file-version-2\n1 3 1 2 2\n0 1 0 0 # none\n9 2 0 0 5\n").unwrap();
    assert_eq!(read.warnings, []);
    assert_eq!(find(&read.rules, Collective::Alltoall, 2, 0), Some(("linear", 0, 0, None)));
    assert_eq!(find(&read.rules, Collective::Alltoall, 2, 9), Some(("pairwise", 0, 0, Some(5))));
}

#[test]
fn errors_name_the_position_and_the_expected_value() {
    for (text, wanted) in [
        ("", "f:1:1: expected the number of collectives, found the end of the file"),
        ("one\n", "f:1:1: expected the number of collectives, a number from 0 on, found 'one'"),
        (
            "1\n2\n1\n4 -1",
            "f:4:3: expected the number of message sizes, a number from 0 on, found '-1'",
        ),
        ("1 2 1 4 1\n0 3 0", "f:2:6: expected a segment size, found the end of the file"),
        (
            "1 2 1 4 1\n0 3 4294967296 0",
            "f:2:5: expected a fan-out (topology) up to 4294967295, found 4294967296",
        ),
        (
            "1 2 1 4 2\n0 3 0 0 7\n9 3 0 0 7\n",
            "f:2:9: expected the end of the line behind four numbers (a maximal number of requests needs \
             'rule-file-version-2' in the first line), found '7'",
        ),
        (
            "rule-file-version-2 1 2 1 4 1\n0 3 0 0 7 8\n",
            "f:2:11: expected the end of the line behind five numbers, found '8'",
        ),
        (
            "rule-file-version-0\n",
            "f:1:1: expected a version from 1 on behind 'rule-file-version-', found '0'",
        ),
    ] {
        assert_eq!(error(text), wanted);
    }
    let text = error("1\n22 0");
    assert!(
        text.starts_with(
            "f:2:1: expected the number of a collective, found 22 (there are 0 allgather, 1 "
        ),
        "{text}"
    );
    assert!(text.ends_with(", 15 scatter)"), "{text}");
    let bytes = Rules::parse("f", b"1 #\xc3\xa4\n \xff").unwrap_err().to_string();
    assert_eq!(bytes, "f:2:2: expected text in UTF-8, found other bytes");
}

#[test]
fn probable_mistakes_give_warnings() {
    assert_eq!(
        warnings("1\n2 2\n8 1\n4 3 0 0\n4 3\n0 3 0 0\n9 99 0 0\n9 4 0 0\n7\n"),
        [
            "f:4:1: there is no rule for message size 0: below 4 bytes the fixed rules choose",
            "f:5:1: communicator sizes should ascend: 4 is behind 8",
            warned_algorithm().as_str(),
            "f:8:1: message sizes should ascend: 9 is behind 9",
            "f:9:1: expected the end of the file behind 1 collectives, found '7'; the rest is ignored",
        ]
    );
    assert_eq!(
        warnings("3 10 1 2 1 0 77 0 0 7 1 2 0 7 0"),
        [
            "f:1:3: gatherv (10) has no algorithms to choose from; its rules are ignored",
            "f:1:27: there is no rule for 2 ranks: the fixed rules choose",
            "f:1:29: bcast has rules already; these are added to them",
        ]
    );
    assert_eq!(
        warnings("rule-file-version-3 0"),
        ["f:1:1: version 3 is not known; it is read as version 2"]
    );
}

fn warned_algorithm() -> String {
    let known: Vec<_> = algorithms(Collective::Allreduce)
        .map(|id| format!("{} {}", id.algorithm().number, id.algorithm().name))
        .collect();
    format!(
        "f:7:3: '99' is no algorithm of allreduce: expected 0 (fixed rules), {}; the fixed rules choose instead",
        known.join(", ")
    )
}

#[test]
fn the_example_in_json_parses_and_the_first_matching_rule_applies() {
    let read = Rules::parse("guide.json", GUIDE_JSON.as_bytes()).unwrap();
    assert_eq!(read.warnings, []);
    let allreduce = |ranks, bytes| find(&read.rules, Collective::Allreduce, ranks, bytes);
    assert_eq!(allreduce(64, 511), None);
    assert_eq!(allreduce(64, 512), Some(("nonoverlapping", 0, 0, None)));
    assert_eq!(allreduce(128, 1 << 40), Some(("recursive_doubling", 0, 0, Some(8))));
    assert_eq!((allreduce(63, 512), allreduce(129, 512)), (None, None));
}

#[test]
fn rules_may_require_a_distribution_of_ranks() {
    let rule = |word, alg| {
        format!(
            r#"{{"comm_rank_distribution": "{word}", "rules": [{{"alg": {alg}, "faninout": 4, "seg_size": 9}}]}}"#
        )
    };
    let rules = [rule("one-per-node", 3), rule("single-node", 4), rule("any", 6)].join(",");
    let text = format!(
        r#"{{"rule_file_version": 3, "module": "tuned", "collectives": {{"allreduce": [{rules}]}}}}"#
    );
    let rules = Rules::parse("f", text.as_bytes()).unwrap().rules;
    let name = |distribution| {
        let (_, rule) = rules.find(Collective::Allreduce, 4, distribution, 0).unwrap();
        assert_eq!((rule.fan_out, rule.segment_bytes), (4, 9));
        rule.algorithm.unwrap().algorithm().name
    };
    assert_eq!(name(Distribution::OnePerNode), "recursive_doubling");
    assert_eq!(name(Distribution::SingleNode), "ring");
    assert_eq!(name(Distribution::Any), "rabenseifner");
    assert_eq!(
        rules.to_classic(Version::Two),
        Err(CannotWrite::Distribution { collective: "allreduce" })
    );
    assert_eq!(
        Rules::parse("f", rules.to_json().as_bytes()).unwrap().rules.to_json(),
        rules.to_json()
    );
}

#[test]
fn json_errors_name_the_position_and_the_expected_value() {
    let whole = |collectives: &str| {
        format!(
            "{{\"rule_file_version\": 3, \"module\": \"tuned\",\n\"collectives\": {collectives}}}"
        )
    };
    let rule = |rule: &str| whole(&format!("{{\"bcast\": [{{\"rules\": [\n{rule}\n]}}]}}"));
    for (text, wanted) in [
        ("{".to_string(), "f:1:2: expected a name in quotes or '}', found the end of the file"),
        ("{\"a\" 1}".into(), "f:1:6: expected ':', found '1'"),
        ("{\"a\": tru}".into(), "f:1:7: expected a value, found 'tru'"),
        ("{\"a\": 01}".into(), "f:1:7: expected a number, found '01'"),
        ("{\"a\": \"x\n".into(), "f:1:9: expected '\"' at the end of a text, found '\n'"),
        (
            "{\"module\": \"tuned\"}".into(),
            "f:1:1: expected a member \"rule_file_version\" in this object, found none",
        ),
        ("{\"rule_file_version\": 2}".into(), "f:1:23: expected the version 3, found 2"),
        ("{} x".into(), "f:1:4: expected the end of the file, found 'x'"),
        (whole("[]"), "f:2:16: expected an object with a member for each collective, found a list"),
        (
            rule("{\"alg\": {}}"),
            "f:3:9: expected the number or the name of an algorithm, found an object",
        ),
        (
            rule("{\"alg\": 1, \"msg_size_min\": -1}"),
            "f:3:28: expected a size or \"inf\", a whole number from 0 on, found -1",
        ),
        (
            rule("{\"alg\": 1, \"alg\": 1}"),
            "f:3:12: expected each member once, found \"alg\" again",
        ),
    ] {
        assert_eq!(error(&text), wanted);
    }
    let text = error(&rule("{\"alg\": 1, \"msg_size_mn\": 1}"));
    assert!(text.starts_with("f:3:12: expected one of the members msg_size_min, "), "{text}");
    assert!(text.ends_with("found \"msg_size_mn\" (did you mean \"msg_size_min\"?)"), "{text}");
    let deep = format!("{{\"a\": {}", "[".repeat(100_000));
    assert_eq!(error(&deep), "f:1:38: expected at most 32 values in each other");
    let notes = warnings(&rule(
        "{\"alg\": \"binomal\"}, {\"alg\": 1, \"bine_imp\": 2, \"msg_size_min\": 2, \"msg_size_max\": 1}",
    ));
    assert!(
        notes[0]
            .starts_with("f:3:9: 'binomal' is no algorithm of bcast (did you mean 'binomial'?)"),
        "{notes:?}"
    );
    assert!(notes[0].ends_with("; the rule is ignored"), "{notes:?}");
    assert_eq!(
        notes[1..],
        [
            "f:3:82: msg_size_max is 1, which is less than msg_size_min: the rule fits nothing",
            "f:3:44: bine_imp is ignored: there are no Bine algorithms"
        ]
    );
}

#[test]
fn version_1_has_no_max_requests() {
    let rules = Rules::parse("f", GUIDE.as_bytes()).unwrap().rules;
    assert_eq!(
        rules.to_classic(Version::One),
        Err(CannotWrite::MaxRequests { collective: "alltoall" })
    );
    assert!(rules.to_classic(Version::Two).unwrap().contains("\n512000 2 0 0 64  # pairwise\n"));
    assert!(by_name(Collective::Alltoall, "pairwise").is_some());
}

fn range(matching: Matching) -> BoxedStrategy<SizeRange> {
    let size = || prop_oneof![0..40_u64, Just(u64::MAX), any::<u64>()];
    match matching {
        Matching::NearestLower => size().prop_map(SizeRange::from).boxed(),
        Matching::First => (size(), size()).prop_map(|(min, max)| SizeRange { min, max }).boxed(),
    }
}

fn some_rules(matching: Matching, with_requests: bool) -> impl Strategy<Value = Rules> {
    let message = move |collective: Collective| {
        let known: Vec<_> = algorithms(collective).map(Some).chain([None]).collect();
        let requests =
            if with_requests { prop::option::of(any::<u32>()).boxed() } else { Just(None).boxed() };
        (range(matching), prop::sample::select(known), any::<u32>(), any::<u64>(), requests)
            .prop_map(|(sizes, algorithm, fan_out, segment_bytes, max_requests)| MessageRule {
                sizes,
                algorithm,
                fan_out,
                segment_bytes,
                max_requests,
                at: Position::default(),
            })
    };
    let comm = move |collective| {
        (range(matching), prop::collection::vec(message(collective), 0..4)).prop_map(
            |(ranks, messages)| CommRules { ranks, distribution: Distribution::Any, messages },
        )
    };
    let one = move |index: usize| {
        let collective = TUNABLE[index].collective;
        prop::collection::vec(comm(collective), 0..4).prop_map(move |rules| (index, rules))
    };
    prop::collection::vec((0..TUNABLE.len()).prop_flat_map(one), 0..4).prop_map(move |all| {
        let mut rules = Rules::new("f", matching);
        for (index, some) in all {
            rules.collectives[index] = some;
        }
        rules
    })
}

fn check_alike(one: &Rules, other: &Rules) {
    let sizes = |collective: usize| {
        let comms = &one.collectives[collective];
        let ranges = comms
            .iter()
            .flat_map(|comm| comm.messages.iter().map(|rule| rule.sizes).chain([comm.ranks]));
        let mut sizes: Vec<u64> = ranges
            .flat_map(|r| [r.min.saturating_sub(1), r.min, r.max, r.max.saturating_add(1)])
            .chain([0, 1, 39, u64::MAX])
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    };
    for (index, row) in TUNABLE.iter().enumerate() {
        let sizes = sizes(index);
        for ranks in sizes.iter().filter_map(|ranks| u32::try_from(*ranks).ok()) {
            for bytes in &sizes {
                let found = |rules| find(rules, row.collective, ranks, *bytes);
                assert_eq!(found(one), found(other), "{} {ranks} {bytes}", row.collective);
            }
        }
    }
}

fn read_back(text: &str) -> Rules {
    let read = Rules::parse("f", text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(
        read.warnings.iter().all(|warning| warning.text.contains("fits nothing")),
        "{:?}\n{text}",
        read.warnings
    );
    read.rules
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rules_written_in_version_1_parse_the_same(rules in some_rules(Matching::NearestLower, false)) {
        let text = rules.to_classic(Version::One).unwrap();
        let back = read_back(&text);
        check_alike(&rules, &back);
        prop_assert_eq!(back.to_classic(Version::One).unwrap(), text);
    }

    #[test]
    fn rules_written_in_version_2_parse_the_same(
        rules in prop_oneof![some_rules(Matching::NearestLower, true), some_rules(Matching::First, true)]
    ) {
        let text = rules.to_classic(Version::Two).unwrap();
        let back = read_back(&text);
        check_alike(&rules, &back);
        prop_assert_eq!(back.to_classic(Version::Two).unwrap(), text);
    }

    #[test]
    fn rules_written_in_json_parse_the_same(
        rules in prop_oneof![some_rules(Matching::NearestLower, true), some_rules(Matching::First, true)]
    ) {
        let text = rules.to_json();
        let back = read_back(&text);
        check_alike(&rules, &back);
        prop_assert_eq!(back.to_json(), text);
    }
}
