//! The contents of messages between processes of several jobs that go through the launcher: spawns,
//! parents, and names of processes.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::codec;

/// A spawn (MPI-5.0 section 11.8.2 "Starting Processes and Establishing Communication").
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawn {
    /// The new ranks are numbered in this order.
    pub commands: Vec<SpawnCommand>,
    /// The directory of the spawning process, in which the programs start by default.
    #[serde(with = "codec::path")]
    pub directory: PathBuf,
    pub parent: Parent,
}

/// One program of a spawn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnCommand {
    /// As a shell would search for it.
    pub program: OsString,
    /// Without the program's name.
    pub arguments: Vec<OsString>,
    pub processes: u32,
    /// Where the program starts (info key "wdir").
    pub directory: Option<OsString>,
    /// Directories searched before PATH, with colons between them (info key "path").
    pub path: Option<OsString>,
    /// Hosts for the program (info key "host").
    pub hosts: Option<String>,
    /// Variables for this program alone (info key "env", one per line).
    pub env: Vec<(OsString, OsString)>,
}

/// The spawning processes of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The first context of the intercommunicator between parents and children.
    pub context: u64,
    /// The processes of the spawning communicator, by rank.
    pub processes: Vec<u32>,
    /// Whether some of them belong to another launcher.
    pub is_mixed: bool,
}

/// The name of a process that is valid under every launcher.
///
/// A launcher numbers its own processes, and gives numbers of its own to processes of another
/// launcher, those of one job consecutively. So messages between launchers carry names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessName {
    /// Identifies all jobs of the process's launcher.
    pub universe: u64,
    /// The number of that launcher among the user's launchers on this machine, by which it is
    /// reached; 0 if it cannot be reached.
    pub place: u32,
    pub number: u32,
    /// The number there of the first process of its job.
    pub first: u32,
    /// The size of that job. 0: unused, as the name is not sent to another launcher.
    pub size: u32,
}

impl ProcessName {
    /// The length of an encoded name, in words.
    pub const WORDS: usize = 3;
    /// The name of no process.
    pub const NONE: ProcessName =
        ProcessName { universe: 0, place: 0, number: 0, first: 0, size: 0 };

    /// Encodes the name.
    pub fn encode(&self) -> [u64; Self::WORDS] {
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        [self.universe, pair(self.place, self.number), pair(self.first, self.size)]
    }

    /// Reads an encoded name.
    pub fn decode([universe, process, job]: [u64; Self::WORDS]) -> ProcessName {
        let (place, number) = ((process >> 32) as u32, process as u32);
        ProcessName { universe, place, number, first: (job >> 32) as u32, size: job as u32 }
    }

    /// Encodes several names.
    pub fn encode_all(names: &[ProcessName]) -> Vec<u64> {
        names.iter().flat_map(ProcessName::encode).collect()
    }

    /// Reads several names; an incomplete last one is dropped.
    pub fn decode_all(words: &[u64]) -> Vec<ProcessName> {
        words
            .as_chunks::<{ Self::WORDS }>()
            .0
            .iter()
            .map(|words| ProcessName::decode(*words))
            .collect()
    }
}

/// How a process of another launcher identifies this connection's two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// Identifies all jobs of the peer's launcher.
    pub universe: u64,
    pub number: u32,
    /// The number there of the process that has sent the request.
    pub known_as: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStringExt as _;

    #[test]
    fn a_spawn_comes_back_and_a_part_of_it_is_none() {
        let command = SpawnCommand {
            program: "./a b".into(),
            arguments: vec!["".into(), "x y".into(), OsString::from_vec(vec![0xff])],
            processes: 3,
            directory: Some(OsString::from_vec(vec![b'/', 0xfe])),
            path: Some("/bin:/usr/bin".into()),
            hosts: Some("localhost".into()),
            env: vec![("A".into(), "b=c".into())],
        };
        let parent = Parent { context: 77 << 32, processes: vec![3, 1], is_mixed: true };
        let plain = SpawnCommand { program: "b".into(), processes: 1, ..SpawnCommand::default() };
        let directory = OsString::from_vec(vec![b'/', 0xff]).into();
        let spawn = Spawn { commands: vec![command, plain], directory, parent };
        let bytes = codec::encode(&spawn);
        assert_eq!(codec::decode(&bytes), Some(spawn));
        for end in 0..bytes.len() {
            assert_eq!(codec::decode::<Spawn>(&bytes[..end]), None, "{end} of {}", bytes.len());
        }
    }

    proptest! {
        #[test]
        fn names_come_back(universe: u64, place: u32, number: u32, first: u32, size: u32) {
            let name = ProcessName { universe, place, number, first, size };
            let words = ProcessName::encode_all(&[name, name]);
            prop_assert_eq!(ProcessName::decode_all(&words), [name, name]);
        }
    }
}
