//! The description of a held job: the facts for imaging each rank, and for the launcher that
//! restarts them, which are a part of the checkpoint.

use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use oxmpi_rt_client::codec::{FieldReader, FieldWriter};

const VERSION: u64 = 2;

/// A held job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// In the order of their numbers.
    pub ranks: Vec<HeldRank>,
    pub listeners: Vec<SocketAddr>,
    /// Identifies all jobs of the launcher.
    pub universe: u64,
    /// The name of the entrance, and its secret.
    pub entrance: (String, String),
    /// The number of later generations of the job.
    pub generation: u32,
    /// The guard's mark in the environment of the ranks.
    pub mark: String,
    /// Shared by processes of this launcher only.
    pub secret: [u8; 32],
    /// The last requested step of a quiescence.
    pub step: u32,
    pub time_left: Option<Duration>,
    /// Unwritten bytes of the launcher's output and error output.
    pub queued: [Vec<u8>; 2],
    /// Whether the end of the standard input was read.
    pub input_ended: bool,
    pub programs: Vec<HeldProgram>,
}

/// The program of consecutive ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldProgram {
    pub ranks: u32,
    /// The program and its arguments, as given to mpirun.
    pub words: Vec<String>,
}

impl HeldProgram {
    fn write(out: &mut FieldWriter, program: &HeldProgram) {
        out.number(program.ranks.into());
        out.list(&program.words, |out, word| out.bytes(word.as_bytes()));
    }

    fn read(from: &mut FieldReader<'_>) -> Option<HeldProgram> {
        Some(HeldProgram { ranks: from.word()?, words: from.list(|from| from.text())? })
    }
}

/// Which programs a job has, and on which hosts its ranks are: what an app schema says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The programs of the ranks, in their order.
    pub programs: Vec<HeldProgram>,
    /// The host of each rank.
    pub hosts: Vec<String>,
}

impl Layout {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = FieldWriter::default();
        out.list(&self.programs, HeldProgram::write);
        out.list(&self.hosts, |out, host| out.bytes(host.as_bytes()));
        out.into_bytes()
    }

    pub fn decode(bytes: &[u8]) -> Option<Layout> {
        let mut from = FieldReader::new(bytes);
        let layout = Layout {
            programs: from.list(HeldProgram::read)?,
            hosts: from.list(|from| from.text())?,
        };
        from.is_empty().then_some(layout)
    }
}

/// A rank of a held job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeldRank {
    pub number: u32,
    /// `None`: the launcher's host.
    pub host: Option<String>,
    /// The process that was started as the rank, by its number in its PID namespace, which a
    /// restart gives it again; the numbers below are of the same kind. All its descendants belong
    /// to the image.
    pub pid: u32,
    /// The number of the same process on its host, for imaging.
    pub imaged: u32,
    /// The control socket, standard input, output and error of these processes, if they lead to the
    /// launcher or are its own, by the kernel's names: `socket:[7]`, `pipe:[8]`.
    pub outside: [Option<String>; 4],
    /// The process that calls MPI: the same one, or a descendant.
    pub owner: u32,
    /// The processes that continue with SIGCONT.
    pub stopped: Vec<u32>,
    /// The owner's descriptors of its segment, and of its alarm if it has one.
    pub segment: u32,
    pub alarm: Option<u32>,
    /// Unread standard input, if the launcher writes it.
    pub input: Option<Vec<u8>>,
    /// Incomplete lines of its output and error output.
    pub partial: [Vec<u8>; 2],
}

impl HeldRank {
    /// Whether the owner was stopped before the hold: then the launcher does not continue it,
    /// neither now nor after a restart.
    pub fn was_stopped(&self) -> bool {
        !self.stopped.contains(&self.owner)
    }
}

/// Indices in [`HeldRank::outside`].
pub const CONTROL: usize = 0;
pub const INPUT: usize = 1;
pub const OUTPUTS: [usize; 2] = [2, 3];

/// The images of a checkpoint, and the program that restores them, on any host that has both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    pub set: PathBuf,
    /// Distinguishes the checkpoint from another one at the same path.
    pub mark: String,
    pub program: PathBuf,
    pub options: Vec<String>,
    /// Whether a file that has grown since prevents a restart (`cr_files refuse`); otherwise it is
    /// truncated.
    pub refuses_files: bool,
}

impl Images {
    pub fn write(&self, out: &mut FieldWriter) {
        out.bytes(self.set.as_os_str().as_bytes());
        out.bytes(self.mark.as_bytes());
        out.bytes(self.program.as_os_str().as_bytes());
        out.list(&self.options, |out, option| out.bytes(option.as_bytes()));
        out.number(self.refuses_files.into());
    }

    pub fn read(from: &mut FieldReader<'_>) -> Option<Images> {
        let (set, mark) = (from.os_string()?.into(), from.text()?);
        let (program, options) = (from.os_string()?.into(), from.list(FieldReader::text)?);
        Some(Images { set, mark, program, options, refuses_files: from.bool()? })
    }
}

impl Held {
    /// The mark in the environment of all its processes ([`oxmpi_sys::spawn::GUARD_VARIABLE`]).
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Encodes the description.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = FieldWriter::default();
        out.number(VERSION);
        out.list(&self.ranks, |out, rank| rank.write(out));
        write_addresses(&mut out, &self.listeners);
        out.number(self.universe);
        out.bytes(self.entrance.0.as_bytes());
        out.bytes(self.entrance.1.as_bytes());
        out.number(self.generation.into());
        out.bytes(self.mark.as_bytes());
        out.bytes(&self.secret);
        out.number(self.step.into());
        // 0: no limit.
        out.number(self.time_left.map_or(0, |time| 1 + time.as_millis() as u64));
        self.queued.iter().for_each(|bytes| out.bytes(bytes));
        out.number(self.input_ended.into());
        out.list(&self.programs, HeldProgram::write);
        out.into_bytes()
    }

    /// Reads a description; `None` if it is malformed, or of another version.
    pub fn decode(bytes: &[u8]) -> Option<Held> {
        let mut from = FieldReader::new(bytes);
        if from.number()? != VERSION {
            return None;
        }
        let held = Held {
            ranks: from.list(HeldRank::read)?,
            listeners: read_addresses(&mut from)?,
            universe: from.number()?,
            entrance: (from.text()?, from.text()?),
            generation: from.word()?,
            mark: from.text()?,
            secret: from.bytes()?.try_into().ok()?,
            step: from.word()?,
            time_left: from.number()?.checked_sub(1).map(Duration::from_millis),
            queued: [from.bytes()?, from.bytes()?],
            input_ended: from.bool()?,
            programs: from.list(HeldProgram::read)?,
        };
        let is_in_order = held.ranks.iter().zip(0..).all(|(rank, number)| rank.number == number);
        (from.is_empty() && is_in_order && !held.ranks.is_empty()).then_some(held)
    }
}

pub fn write_addresses(out: &mut FieldWriter, all: &[SocketAddr]) {
    out.list(all, |out, address| out.bytes(address.to_string().as_bytes()));
}

pub fn read_addresses(from: &mut FieldReader<'_>) -> Option<Vec<SocketAddr>> {
    from.list(|from| {
        let text = from.text()?;
        // Only the canonical form of an address is accepted.
        text.parse().ok().filter(|address: &SocketAddr| address.to_string() == text)
    })
}

impl HeldRank {
    pub fn write(&self, out: &mut FieldWriter) {
        [self.number, self.pid, self.imaged, self.owner, self.segment]
            .iter()
            .for_each(|word| out.number((*word).into()));
        out.option(self.host.as_ref().map(String::as_bytes));
        self.outside.iter().for_each(|name| out.option(name.as_ref().map(String::as_bytes)));
        out.list(&self.stopped, |out, pid| out.number((*pid).into()));
        out.number(self.alarm.map_or(0, |number| 1 + u64::from(number)));
        out.option(self.input.as_deref());
        self.partial.iter().for_each(|bytes| out.bytes(bytes));
    }

    pub fn read(from: &mut FieldReader<'_>) -> Option<HeldRank> {
        let (number, pid, imaged) = (from.word()?, from.word()?, from.word()?);
        let (owner, segment) = (from.word()?, from.word()?);
        let mut name = || from.option()?.map(String::from_utf8).transpose().ok();
        let host = name()?;
        let outside = [name()?, name()?, name()?, name()?];
        Some(HeldRank {
            number,
            host,
            pid,
            imaged,
            outside,
            owner,
            stopped: from.list(FieldReader::word)?,
            segment,
            alarm: from.number()?.checked_sub(1).map(u32::try_from).transpose().ok()?,
            input: from.option()?,
            partial: [from.bytes()?, from.bytes()?],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> Held {
        let rank = |number: u32| HeldRank {
            number,
            host: (number == 1).then(|| "nodea".into()),
            pid: 40 + number,
            imaged: 70 + number,
            outside: [Some("socket:[7]".into()), None, Some("pipe:[8]".into()), None],
            owner: 50 + number,
            stopped: vec![40 + number, 50 + number],
            segment: 62,
            alarm: (number == 0).then_some(3),
            input: (number == 0).then(|| b"rest".to_vec()),
            partial: [b"half a".to_vec(), Vec::new()],
        };
        Held {
            ranks: vec![rank(0), rank(1)],
            listeners: vec!["127.0.0.1:7".parse().unwrap(), "[fe80::1]:8".parse().unwrap()],
            universe: 77,
            entrance: ("oxmpi.rank.1".into(), "ab".into()),
            generation: 1,
            mark: "00ff".into(),
            secret: [9; 32],
            step: 6,
            time_left: Some(Duration::from_millis(1500)),
            queued: [b"out".to_vec(), Vec::new()],
            input_ended: true,
            programs: vec![HeldProgram { ranks: 2, words: vec!["./heat".into(), "a b".into()] }],
        }
    }

    #[test]
    fn it_comes_back_as_it_was() {
        for held in [example(), Held { time_left: None, ..example() }] {
            assert_eq!(Held::decode(&held.encode()), Some(held));
        }
        let mut other = example();
        other.ranks[1].number = 2;
        assert_eq!(Held::decode(&other.encode()), None, "a rank is missing");
        assert_eq!(Held::decode(&Held { ranks: Vec::new(), ..example() }.encode()), None);
    }

    proptest! {
        #[test]
        fn no_end_that_is_missing_goes_unnoticed(keep in any::<prop::sample::Index>()) {
            let bytes = example().encode();
            prop_assert_eq!(Held::decode(&bytes[..keep.index(bytes.len())]), None);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>()) {
            let _ = Held::decode(&bytes);
        }
    }
}
