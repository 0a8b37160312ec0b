//! The description of a held job: the facts for imaging each rank, and for the launcher that
//! restarts them, which are a part of the checkpoint.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use oxmpi_rt_client::codec;
use serde::{Deserialize, Serialize};

/// Counts changes of [`Held`]: a restart refuses another one.
const VERSION: u8 = 3;

/// A held job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldProgram {
    pub ranks: u32,
    /// The program and its arguments, as given to mpirun.
    pub words: Vec<String>,
}

/// Which programs a job has, and on which hosts its ranks are: what an app schema says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The programs of the ranks, in their order.
    pub programs: Vec<HeldProgram>,
    /// The host of each rank.
    pub hosts: Vec<String>,
}

/// What an agent says about the held ranks of its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldHost {
    /// `None`: a process has an unread answer, so that all must continue and be stopped again.
    pub ranks: Option<Vec<HeldRank>>,
    pub listeners: Vec<SocketAddr>,
}

/// A rank of a held job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// The index of the control socket in [`HeldRank::outside`].
pub const CONTROL: usize = 0;
/// The index of the standard input there.
pub const INPUT: usize = 1;
/// The indices of the standard output and error there.
pub const OUTPUTS: [usize; 2] = [2, 3];

/// The images of a checkpoint, and the program that restores them, on any host that has both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Images {
    #[serde(with = "codec::path")]
    pub set: PathBuf,
    /// Distinguishes the checkpoint from another one at the same path.
    pub mark: String,
    #[serde(with = "codec::path")]
    pub program: PathBuf,
    pub options: Vec<String>,
    /// Whether a file that has grown since prevents a restart (`cr_files refuse`); otherwise it is
    /// truncated.
    pub refuses_files: bool,
}

impl Held {
    /// The mark in the environment of all its processes ([`oxmpi_sys::spawn::GUARD_VARIABLE`]).
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Encodes the description.
    pub fn encode(&self) -> Vec<u8> {
        codec::encode_versioned(VERSION, self)
    }

    /// Decodes a description; `None` if it is malformed, or of another version.
    pub fn decode(bytes: &[u8]) -> Option<Held> {
        let held: Held = codec::decode_versioned(VERSION, bytes).ok()?;
        let is_in_order = held.ranks.iter().zip(0..).all(|(rank, number)| rank.number == number);
        (is_in_order && !held.ranks.is_empty()).then_some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
