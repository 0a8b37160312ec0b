//! Random parameter files: none makes reading panic, each line is either taken or answered with its
//! place, and values that are written are read back unchanged.
//!
//! It runs for OXMPI_FUZZ_SECONDS (default 1) and prints its seed; OXMPI_FUZZ_SEED replays a seed.
#![allow(clippy::unwrap_used)] // a test may panic anywhere

#[path = "../../wire/tests/support/random.rs"]
mod random;

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

// The transports, with their parameters.
use oxmpi_fabric as _;
use oxmpi_param::Param;
use oxmpi_param::profile::{self, Profile, ProfileEntry};
use oxmpi_param::{Found, ParamError, Params, Source, Unit, Value, absence, file};

use random::Random;

impl Random {
    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

fn number_from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// Pieces of files: all that have a meaning, and many without.
const PIECES: &[&str] = &[
    "=",
    " = ",
    "\n",
    "\r\n",
    "#",
    " # ",
    "\"",
    "'",
    " ",
    "\t",
    "-1",
    "0",
    "16k",
    "3ms",
    "99999999999999999999",
    "auto",
    "shm",
    "tcp",
    "_ssi_",
    "rpi_ssi_tcp_short",
    "rpi",
    "btl",
    "wait_spin_us = 5\n",
    "\n--mca ",
    "-x ",
    "-ssi rpi tcp ",
    "A=b",
    "\u{fc}",
    "\u{2003}",
    "\0",
    "eth0,10.0.0.0/8",
];

fn random_file(random: &mut Random) -> Vec<u8> {
    let names: Vec<&str> = Param::names().collect();
    let mut bytes = Vec::new();
    for _ in 0..random.below(40) {
        match random.below(4) {
            0 => bytes.extend(random.pick(&names).bytes()),
            1 => bytes.push(random.draw() as u8),
            _ => bytes.extend(random.pick(PIECES).bytes()),
        }
    }
    bytes
}

fn any_file_is_read(random: &mut Random) {
    let bytes = random_file(random);
    let mut found = Found::default();
    found.read_file(&bytes, Path::new("/f"), Source::UserFile);
    let mut errors = found.errors.iter();
    for (line, content) in file::lines(&bytes) {
        let taken = content.is_ok_and(|one| Params::default().set(&one.name, &one.value).is_ok());
        if !taken {
            let error = errors.next().expect("a wrong line has an error").to_string();
            assert!(error.starts_with(&format!("file /f:{line}:")), "{error}");
        }
    }
    assert_eq!(errors.next(), None, "there are more errors than wrong lines");
    for (param, value) in found.params.iter() {
        match &value {
            Value::Number(n) => {
                assert!((param.min..=param.max).contains(n), "{} = {n}", param.name)
            }
            Value::Text(text) => assert_eq!(&**text, text.trim(), "{}", param.name),
        }
        assert!(found.params.source(param).is_file() || value == param.default_value());
    }
    assert!(!found.errors.iter().any(|e| matches!(e, ParamError::File { .. })));
}

/// The same for a file of the command line, in which a line may have several entries.
fn any_profile_is_read(random: &mut Random) {
    let bytes = random_file(random);
    let own = |name: &str| name.len().is_multiple_of(2).then(|| "x".to_string());
    let profile = Profile::of(Path::new("/f"), &bytes);
    let mut found = Found::default();
    found.read_profile(&profile, own);
    let mut wrong = Vec::new();
    let mut variables = 0;
    for (line, content) in profile::lines(&bytes) {
        let Ok(entries) = content else {
            wrong.push(line);
            continue;
        };
        for entry in entries {
            match entry {
                ProfileEntry::Parameter(one)
                    if Params::default().set(&one.name, &one.value).is_ok() => {}
                ProfileEntry::Parameter(one)
                    if Param::find(&one.name).is_none()
                        && absence(&one.name, &one.value).is_some() => {}
                ProfileEntry::Variable { name, value, .. }
                    if value.is_some() || own(&name).is_some() =>
                {
                    variables += 1
                }
                _ => wrong.push(line),
            }
        }
    }
    let lines = String::from_utf8_lossy(&bytes).into_owned();
    let lines: Vec<&str> = lines.split('\n').collect();
    assert_eq!(found.errors.len(), wrong.len(), "{:?}", found.errors);
    for (error, line) in found.errors.iter().map(ToString::to_string).zip(wrong) {
        let place =
            error.strip_prefix(&format!("file /f:{line}:")).unwrap_or_else(|| panic!("{error}"));
        let column: usize = place.split(':').next().unwrap().parse().unwrap();
        assert!((1..=lines[line - 1].chars().count() + 1).contains(&column), "{error}");
    }
    assert_eq!(profile.variables(own).len(), variables);
}

fn values_survive_a_file(random: &mut Random) {
    let mut params = Params::default();
    let mut text = String::new();
    for param in Param::all() {
        let value = match param.unit {
            Unit::Text { .. } => {
                let words = ["", "eth0", "a # b", "x=y", "10.0.0.0/8,lo", "it's", "#"];
                (*random.pick(&words)).to_string()
            }
            Unit::Choice(_) | Unit::Set { .. } | Unit::Switch => {
                (*random.pick(param.words())).to_string()
            }
            _ if param.power_of_two => (param.min.max(1) as u64).next_power_of_two().to_string(),
            _ => {
                (param.min + random.below((param.max - param.min) as usize + 1) as i64).to_string()
            }
        };
        params.set(param.name, &value).unwrap();
        let blanks = *random.pick(&["", " ", "\t"]);
        let name = *random.pick(&[&[param.name][..], param.aliases].concat());
        let comment = *random.pick(&["", " # a comment", " #"]);
        text += &format!("{blanks}{name}{blanks}={blanks}\"{value}\"{comment}\n");
    }
    let mut found = Found::default();
    found.read_file(text.as_bytes(), Path::new("/f"), Source::UserFile);
    assert_eq!(found.errors, [], "{text}");
    assert!(params.iter().map(|(_, v)| v).eq(found.params.iter().map(|(_, v)| v)), "{text}");
}

#[test]
fn parameter_files() {
    let seconds = number_from_env("OXMPI_FUZZ_SECONDS").unwrap_or(1);
    let seed = number_from_env("OXMPI_FUZZ_SEED")
        .unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64);
    println!("OXMPI_FUZZ_SEED={seed}");
    let mut random = Random(seed);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut files = 0;
    // A slow machine also does a fair number.
    while files < 500 || Instant::now() < end {
        any_file_is_read(&mut random);
        any_profile_is_read(&mut random);
        values_survive_a_file(&mut random);
        files += 1;
    }
    println!("{files} files");
}
