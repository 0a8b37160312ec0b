//! The rounds of a two-phase access (see [`oxmpi_io::domain`]).
//!
//! In each round a rank sends each aggregator one message: the length of its runs of pieces (8 bytes), the runs, and
//! of a write the data. Of a read the aggregator answers with how many bytes were before the end of the file (8 bytes) and
//! all bytes that were asked for. What goes wrong is kept for the end: all make all rounds.

use super::collective::{Task, bytes_of, words_of};
use super::{Direction, File};
use crate::process::Process;
use oxmpi_abi::constants as abi;
use oxmpi_fabric::Fabric;
use oxmpi_io::domain::{AccessExtent, Domains, part_in};
use oxmpi_io::hints::Hints;
use oxmpi_io::pieces::{RUN_BYTES, decode, encode};
use oxmpi_io::window::FileWindow;
use oxmpi_objects::error::MpiError;
use oxmpi_plan::{Blocks, Call, Paired, Shared};
use oxmpi_sys::bytes::{Bytes, BytesMut};

/// How far a two-phase access is.
#[derive(Debug)]
pub(super) struct Rounds {
    domains: Domains,
    round: u64,
    /// Which aggregator this rank is.
    own: Option<u32>,
    window: FileWindow,
    /// The messages of this round.
    outbox: Vec<u8>,
    /// How long the message to each rank is.
    lengths: Vec<usize>,
    /// Of each aggregator: the part of the stream that it is asked for.
    parts: Vec<(u64, u64)>,
    /// How long the message from each rank is.
    expected: Vec<usize>,
}

impl Rounds {
    pub(super) fn new(accesses: &[AccessExtent], hints: &Hints, rank: u32) -> Rounds {
        let domains = Domains::new(accesses, hints);
        Rounds {
            domains,
            round: 0,
            own: domains.aggregator_at(rank),
            window: FileWindow::default(),
            outbox: Vec::new(),
            lengths: vec![0; accesses.len()],
            parts: vec![(0, 0); domains.aggregators() as usize],
            expected: vec![0; accesses.len()],
        }
    }
}

/// Where a message to aggregators begins with the length of its runs.
const HEAD: usize = 8;

/// A message to an aggregator: its runs, and the data of a write.
fn parts_of(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = message.split_first_chunk::<HEAD>()?;
    rest.split_at_checked(usize::try_from(u64::from_ne_bytes(*head)).ok()?)
}

fn garbled(file: &File) -> MpiError {
    file.refused(abi::MPI_ERR_INTERN, "a message of a collective access makes no sense")
}

/// Messages one after the other, each with its length.
fn cut<'a>(mut bytes: &'a [u8], lengths: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    lengths.iter().map(move |&length| {
        let (message, rest) = bytes.split_at(length.min(bytes.len()));
        bytes = rest;
        message
    })
}

/// The exchange of messages of these lengths. `None`: they do not fit into memory.
fn exchange(send: &[usize], receive: &[usize]) -> Option<(Call, usize)> {
    let send = Blocks::new(send.iter().copied())?;
    let receive = Blocks::new(receive.iter().copied())?;
    let room = receive.total();
    Some((Call::Alltoallv { send: Paired(send), receive: Paired(receive), in_place: false }, room))
}

/// So many zeros; `None`: there is no room for them.
fn zeros(len: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(len).ok()?;
    bytes.resize(len, 0);
    Some(bytes)
}

impl<F: Fabric + 'static> Process<F> {
    pub(super) fn next_round(&self, mut task: Box<Task>) {
        let Some(mut rounds) = task.rounds.take() else { return self.conclude(task) };
        if rounds.round == rounds.domains.rounds() {
            return self.conclude(task);
        }
        rounds.write_messages(&task);
        let sizes: Vec<u64> = rounds.lengths.iter().map(|&n| n as u64).collect();
        task.rounds = Some(rounds);
        let output = vec![0; 8 * sizes.len()];
        let call = Call::Alltoall { block: Shared(8), in_place: false };
        self.step(task, call, (bytes_of(&sizes), output), |process, mut task, came| {
            let Some(rounds) = &mut task.rounds else { return process.conclude(task) };
            rounds.expected = words_of(&came).map(|n| usize::try_from(n).unwrap_or(usize::MAX)).collect();
            let outbox = std::mem::take(&mut rounds.outbox);
            let sound = rounds.expected.iter().all(|&length| length <= rounds.longest_message());
            let room = exchange(&rounds.lengths, &rounds.expected).filter(|_| sound);
            let room = room.and_then(|(call, room)| Some((call, zeros(room)?)));
            let Some((call, room)) = room else {
                let error = garbled(&task.file);
                return process.end(*task, Err(error));
            };
            let answer = match task.direction {
                Direction::Write => Process::messages_to_write,
                Direction::Read => Process::messages_to_read,
            };
            process.step(task, call, (outbox, room), answer);
        });
    }

    fn messages_to_write(&self, mut task: Box<Task>, came: Vec<u8>) {
        if let Some(mut rounds) = task.rounds.take() {
            if task.outcome.is_ok() {
                task.outcome = rounds.write_window(&task.file, &came);
            }
            rounds.round += 1;
            task.rounds = Some(rounds);
        }
        self.next_round(task);
    }

    fn messages_to_read(&self, mut task: Box<Task>, came: Vec<u8>) {
        let Some(mut rounds) = task.rounds.take() else { return self.conclude(task) };
        let (answers, sent, failure) = rounds.read_window(&task.file, &came);
        if task.outcome.is_ok() {
            task.outcome = failure;
        }
        // Each aggregator that was asked answers.
        rounds.expected.fill(0);
        for (aggregator, (from, to)) in rounds.parts.iter().enumerate().filter(|(_, part)| part.0 < part.1) {
            let rank = rounds.domains.rank_of(aggregator as u32) as usize;
            rounds.expected[rank] = HEAD + (to - from) as usize;
        }
        let calls = exchange(&sent, &rounds.expected);
        let calls = calls.and_then(|(call, room)| Some((call, zeros(room)?)));
        task.rounds = Some(rounds);
        let Some((call, room)) = calls else {
            let error = garbled(&task.file);
            return self.end(*task, Err(error));
        };
        self.step(task, call, (answers, room), |process, mut task, came| {
            if let Some(mut rounds) = task.rounds.take() {
                rounds.take_answers(&mut task, &came);
                rounds.round += 1;
                task.rounds = Some(rounds);
            }
            process.next_round(task);
        });
    }
}

impl Rounds {
    /// No rank sends this one a longer message in this round: each byte of the window in a run of its own, and its data.
    fn longest_message(&self) -> usize {
        let (start, end) = self.own.map_or((0, 0), |own| self.domains.window(own, self.round));
        let bytes = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        bytes.saturating_mul(RUN_BYTES + 1).saturating_add(HEAD)
    }

    /// The messages of this rank to all aggregators.
    fn write_messages(&mut self, task: &Task) {
        self.lengths.fill(0);
        self.outbox.clear();
        let (start, len) = (task.start, task.data.packed_len() as u64);
        for aggregator in 0..self.domains.aggregators() {
            let window = self.domains.window(aggregator, self.round);
            let part @ (from, to) = part_in(&task.shown.view, (start, len), window);
            self.parts[aggregator as usize] = part;
            if from >= to {
                continue;
            }
            let begin = self.outbox.len();
            self.outbox.extend([0; HEAD]);
            encode(task.shown.view.ranges(from, to - from), &mut self.outbox);
            let runs = (self.outbox.len() - begin - HEAD) as u64;
            self.outbox[begin..begin + HEAD].copy_from_slice(&runs.to_ne_bytes());
            if task.direction == Direction::Write {
                let data = self.outbox.len();
                self.outbox.resize(data + (to - from) as usize, 0);
                task.data.pack((from - start) as usize, BytesMut::from(&mut self.outbox[data..]));
            }
            self.lengths[self.domains.rank_of(aggregator) as usize] = self.outbox.len() - begin;
        }
    }

    fn begin_window(&mut self) {
        if let Some(own) = self.own {
            self.window.begin(self.domains.window(own, self.round));
        }
    }

    /// Puts together what the ranks have sent, and writes it.
    fn write_window(&mut self, file: &File, came: &[u8]) -> Result<(), MpiError> {
        self.begin_window();
        for message in cut(came, &self.expected).filter(|message| !message.is_empty()) {
            let (runs, data) = parts_of(message).ok_or_else(|| garbled(file))?;
            if !self.window.put(decode(runs), data) {
                return Err(garbled(file));
            }
        }
        self.window.write(&file.store).map_err(|error| file.error("writing", error.into()))
    }

    /// Reads what the ranks have asked for: the answers, how long they are, and what went wrong.
    fn read_window(&mut self, file: &File, came: &[u8]) -> (Vec<u8>, Vec<usize>, Result<(), MpiError>) {
        self.begin_window();
        let mut outcome = Ok(());
        for message in cut(came, &self.expected).filter(|message| !message.is_empty()) {
            let known = parts_of(message).is_some_and(|(runs, _)| self.window.want(decode(runs)));
            if !known {
                outcome = Err(garbled(file));
            }
        }
        let end = match self.window.read(&file.store) {
            Ok(end) => end,
            Err(error) => {
                outcome = Err(file.error("reading", error.into()));
                0
            }
        };
        let (mut answers, mut lengths) = (Vec::new(), Vec::with_capacity(self.expected.len()));
        for message in cut(came, &self.expected) {
            let begin = answers.len();
            if let Some((runs, _)) = parts_of(message) {
                answers.extend([0; HEAD]);
                let there = self.window.take(decode(runs), end, &mut answers);
                answers[begin..begin + HEAD].copy_from_slice(&there.to_ne_bytes());
            }
            lengths.push(answers.len() - begin);
        }
        (answers, lengths, outcome)
    }

    /// Brings the answers of the aggregators to this rank's memory.
    fn take_answers(&self, task: &mut Task, came: &[u8]) {
        let answers: Vec<&[u8]> = cut(came, &self.expected).collect();
        for (aggregator, (from, to)) in self.parts.iter().enumerate().filter(|(_, part)| part.0 < part.1) {
            let answer = answers[self.domains.rank_of(aggregator as u32) as usize];
            let Some((head, data)) = answer.split_first_chunk::<HEAD>() else { continue };
            let there = u64::from_ne_bytes(*head).min(to - from).min(data.len() as u64);
            task.data.unpack((from - task.start) as usize, Bytes::from(&data[..there as usize]));
            task.came += there;
        }
    }
}
