//! `oxmpi doctor`, which finds the faults that the test makes.

use serde_json::Value;
use std::process::Command;

use crate::support::installed;

const AREAS: [&str; 10] = [
    "shared memory",
    "single copy",
    "copies",
    "networks",
    "limits",
    "cores",
    "clock",
    "programs",
    "libraries",
    "selection",
];

fn doctor(env: &[(&str, &str)]) -> (i32, Vec<Value>) {
    let mut command = Command::new(installed("oxmpi"));
    command.args(["doctor", "--json"]).env("OXMPI_PARAM_FILES", "none").env_remove("LD_PRELOAD");
    let output = command.env_remove("LD_LIBRARY_PATH").envs(env.iter().copied()).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    (output.status.code().unwrap(), report["findings"].as_array().unwrap().clone())
}

fn of<'a>(found: &'a [Value], area: &str) -> &'a Value {
    found.iter().find(|one| one["area"] == area).unwrap()
}

#[test]
fn each_area_is_checked_and_each_fault_has_a_remedy() {
    let bin = installed("oxmpi").parent().unwrap().display().to_string();
    let (code, found) = doctor(&[("PATH", &bin)]);
    for area in AREAS {
        let one = of(&found, area);
        assert!(!one["text"].as_str().unwrap().is_empty(), "{area}");
        assert_eq!(one["remedy"].is_null(), one["severity"] == "good", "{one}");
    }
    assert_eq!(code, i32::from(found.iter().any(|one| one["severity"] == "problem")));
    assert_eq!(of(&found, "programs")["severity"], "good");
    assert_eq!(of(&found, "selection")["text"], "messages go by rpi shm");
    let locks = "the transports ib, gm, ofi and portals4 lock some";
    assert!(found.iter().any(|one| one["text"].as_str().is_some_and(|text| text.contains(locks))));

    let wrong = [
        ("PATH", bin.as_str()),
        ("OXMPI_MCA_btl", "self,ugni"),
        ("OXMPI_MCA_wait_yeilds", "1"),
        ("OXMPI_MCA_btl_tcp_if_include", "nowhere0"),
        ("LD_PRELOAD", "libmpi_nowhere.so"),
    ];
    let (code, found) = doctor(&wrong);
    assert_eq!(code, 1);
    for (area, text) in [
        ("selection", "'ugni'"),
        ("parameters", "did you mean 'wait_yields'?"),
        ("networks", "no interface 'nowhere0'"),
        ("libraries", "LD_PRELOAD names an MPI library"),
    ] {
        let one = of(&found, area);
        assert!(
            one["severity"] == "problem" && one["text"].as_str().unwrap().contains(text),
            "{one}"
        );
    }
    let output = Command::new(installed("oxmpi")).args(["doctor", "--jsno"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
