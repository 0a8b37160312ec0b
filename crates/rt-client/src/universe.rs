//! Messages between processes of several jobs that go through the launcher: spawns, parents, port
//! meetings, and names of processes. Pure encoding and decoding; a number is 8 bytes, little
//! endian, and a text has its length in front.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use crate::codec::{FieldReader, FieldWriter};

/// A spawn (MPI-5.0 section 11.8.2 "Starting Processes and Establishing Communication").
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spawn {
    /// The new ranks are numbered in this order.
    pub commands: Vec<SpawnCommand>,
    /// The directory of the spawning process, in which the programs start by default.
    pub directory: PathBuf,
    pub parent: Parent,
}

/// One program of a spawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpawnCommand {
    /// As a shell would search for it.
    pub program: OsString,
    /// Without the program's name.
    pub arguments: Vec<OsString>,
    pub processes: u32,
    /// Where the program starts (info key "wdir").
    pub directory: Option<PathBuf>,
    /// Directories searched before PATH, with colons between them (info key "path").
    pub path: Option<OsString>,
    /// Hosts for the program (info key "host").
    pub hosts: Option<String>,
    /// Variables for this program alone (info key "env", one per line).
    pub env: Vec<(OsString, OsString)>,
}

/// The spawning processes of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parent {
    /// The first context of the intercommunicator between parents and children.
    pub context: u64,
    /// The processes of the spawning communicator, by rank.
    pub processes: Vec<u32>,
    /// Whether some of them belong to another launcher.
    pub is_mixed: bool,
}

impl Spawn {
    /// Encodes the spawn.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = FieldWriter::default();
        out.number(self.commands.len() as u64);
        for command in &self.commands {
            out.bytes(command.program.as_bytes());
            out.number(command.arguments.len() as u64);
            command.arguments.iter().for_each(|word| out.bytes(word.as_bytes()));
            out.number(command.processes.into());
            out.option(command.directory.as_ref().map(|d| d.as_os_str().as_bytes()));
            out.option(command.path.as_ref().map(|path| path.as_bytes()));
            out.option(command.hosts.as_ref().map(|hosts| hosts.as_bytes()));
            out.number(command.env.len() as u64);
            for (name, value) in &command.env {
                out.bytes(name.as_bytes());
                out.bytes(value.as_bytes());
            }
        }
        out.bytes(self.directory.as_os_str().as_bytes());
        self.parent.write(&mut out);
        out.into_bytes()
    }

    /// Reads an encoded spawn; `None` if the bytes are not one.
    pub fn decode(bytes: &[u8]) -> Option<Spawn> {
        let mut from = FieldReader::new(bytes);
        let mut commands = Vec::new();
        for _ in 0..from.number()? {
            let program = from.os_string()?;
            let count = from.number()?;
            let arguments = (0..count).map(|_| from.os_string()).collect::<Option<_>>()?;
            let processes = u32::try_from(from.number()?).ok()?;
            let directory = from.option()?.map(|bytes| PathBuf::from(OsString::from_vec(bytes)));
            let path = from.option()?.map(OsString::from_vec);
            let hosts = from.option()?.map(String::from_utf8).transpose().ok()?;
            let count = from.number()?;
            let env = (0..count)
                .map(|_| from.os_string().zip(from.os_string()))
                .collect::<Option<_>>()?;
            commands.push(SpawnCommand {
                program,
                arguments,
                processes,
                directory,
                path,
                hosts,
                env,
            });
        }
        let directory = from.os_string()?.into();
        let parent = Parent::read(&mut from)?;
        from.is_empty().then_some(Spawn { commands, directory, parent })
    }
}

impl Parent {
    fn write(&self, out: &mut FieldWriter) {
        out.number(self.context);
        out.list(&self.processes, |out, process| out.number((*process).into()));
        out.number(self.is_mixed.into());
    }

    fn read(from: &mut FieldReader<'_>) -> Option<Parent> {
        let context = from.number()?;
        let processes = from.list(FieldReader::word)?;
        let is_mixed = from.bool()?;
        Some(Parent { context, processes, is_mixed })
    }

    /// Encodes the parent.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = FieldWriter::default();
        self.write(&mut out);
        out.into_bytes()
    }

    /// Reads an encoded parent; `None` if the bytes are not one.
    pub fn decode(bytes: &[u8]) -> Option<Parent> {
        let mut from = FieldReader::new(bytes);
        let parent = Parent::read(&mut from)?;
        from.is_empty().then_some(parent)
    }
}

/// The name of a process that is valid under every launcher.
///
/// A launcher numbers its own processes, and gives numbers of its own to processes of another
/// launcher, those of one job consecutively. So messages between launchers carry names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact {
    /// Identifies all jobs of the peer's launcher.
    pub universe: u64,
    pub number: u32,
    /// The number there of the process that has sent the request.
    pub known_as: u32,
}

impl std::fmt::Display for Contact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x} {} {}", self.universe, self.number, self.known_as)
    }
}

impl std::str::FromStr for Contact {
    type Err = String;

    fn from_str(text: &str) -> Result<Contact, String> {
        let wrong = || format!("'{text}' does not identify a process");
        let mut words = text.split(' ');
        let mut next = || words.next().ok_or_else(wrong);
        let universe = u64::from_str_radix(next()?, 16).map_err(|_| wrong())?;
        let number = next()?.parse().map_err(|_| wrong())?;
        let known_as = next()?.parse().map_err(|_| wrong())?;
        Ok(Contact { universe, number, known_as })
    }
}

/// Encodes words as bytes.
pub fn encode_words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Reads words from bytes; an incomplete last word is dropped.
pub fn decode_words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_spawn_comes_back_and_a_part_of_it_is_none() {
        let command = SpawnCommand {
            program: "./a b".into(),
            arguments: vec!["".into(), "x y".into(), OsString::from_vec(vec![0xff])],
            processes: 3,
            directory: Some("/tmp".into()),
            path: Some("/bin:/usr/bin".into()),
            hosts: Some("localhost".into()),
            env: vec![("A".into(), "b=c".into())],
        };
        let parent = Parent { context: 77 << 32, processes: vec![3, 1], is_mixed: true };
        let plain = SpawnCommand { program: "b".into(), processes: 1, ..SpawnCommand::default() };
        let spawn =
            Spawn { commands: vec![command, plain], directory: "/".into(), parent: parent.clone() };
        let bytes = spawn.encode();
        assert_eq!(Spawn::decode(&bytes), Some(spawn));
        for end in 0..bytes.len() {
            assert_eq!(Spawn::decode(&bytes[..end]), None, "{end} of {} bytes", bytes.len());
        }
        assert_eq!(Parent::decode(&parent.encode()), Some(parent));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(spawn) = Spawn::decode(&bytes) {
                prop_assert_eq!(spawn.encode(), bytes);
            }
        }

        #[test]
        fn names_and_contacts_come_back(universe: u64, place: u32, number: u32, first: u32, size: u32) {
            let name = ProcessName { universe, place, number, first, size };
            let words = ProcessName::encode_all(&[name, name]);
            prop_assert_eq!(ProcessName::decode_all(&words), [name, name]);
            let contact = Contact { universe, number, known_as: first };
            prop_assert_eq!(contact.to_string().parse(), Ok(contact));
        }

        #[test]
        fn words_come_back(words in proptest::collection::vec(any::<u64>(), 0..20)) {
            prop_assert_eq!(decode_words(&encode_words(&words)), words);
        }
    }
}
