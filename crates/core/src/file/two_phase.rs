//! The rounds of a two-phase access (see [`oxmpi_io::domain`]).
//!
//! In each round a rank sends one message to each aggregator: the length of its runs of pieces (8
//! bytes), the runs, and for a write the data. For a read the aggregator answers with the number of
//! bytes before the end of the file (8 bytes) and all requested bytes. All ranks take part in all
//! rounds. They report errors at the end.

use super::collective::{CollectiveAccess, bytes_of, words_of};
use super::{Direction, File};
use crate::process::Process;
use oxmpi_abi::constants as abi;
use oxmpi_fabric::Fabric;
use oxmpi_io::domain::{AccessExtent, Domains, part_in};
use oxmpi_io::hints::Hints;
use oxmpi_io::pieces::{RUN_BYTES, decode, encode};
use oxmpi_io::window::FileWindow;
use oxmpi_mem::memory::zeros;
use oxmpi_objects::error::MpiError;
use oxmpi_plan::{Blocks, Call, Paired, Shared};
use oxmpi_sys::bytes::{Bytes, BytesMut};

#[derive(Debug)]
pub(super) struct TwoPhaseRounds {
    domains: Domains,
    round: u64,
    own: Option<u32>,
    window: FileWindow,
    outbox: Vec<u8>,
    lengths: Vec<usize>,
    /// For each aggregator, the part of the view's stream that this rank accesses there.
    parts: Vec<(u64, u64)>,
    expected: Vec<usize>,
}

impl TwoPhaseRounds {
    pub(super) fn new(accesses: &[AccessExtent], hints: &Hints, rank: u32) -> TwoPhaseRounds {
        let domains = Domains::new(accesses, hints);
        TwoPhaseRounds {
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

/// The bytes before the runs in a message to an aggregator. They have the length of the runs.
const HEAD: usize = 8;

fn parts_of(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = message.split_first_chunk::<HEAD>()?;
    rest.split_at_checked(usize::try_from(u64::from_ne_bytes(*head)).ok()?)
}

fn garbled(file: &File) -> MpiError {
    file.refused(abi::MPI_ERR_INTERN, "a message of a collective access is malformed")
}

fn cut<'a>(mut bytes: &'a [u8], lengths: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    lengths.iter().map(move |&length| {
        let (message, rest) = bytes.split_at(length.min(bytes.len()));
        bytes = rest;
        message
    })
}

fn exchange(send: &[usize], receive: &[usize]) -> Option<(Call, usize)> {
    let send = Blocks::new(send.iter().copied())?;
    let receive = Blocks::new(receive.iter().copied())?;
    let room = receive.total();
    Some((Call::Alltoallv { send: Paired(send), receive: Paired(receive), in_place: false }, room))
}

impl<F: Fabric + 'static> Process<F> {
    pub(super) fn next_round(&self, mut access: Box<CollectiveAccess>) {
        let Some(mut rounds) = access.rounds.take() else { return self.conclude(access) };
        if rounds.round == rounds.domains.rounds() {
            return self.conclude(access);
        }
        rounds.write_messages(&access);
        let sizes: Vec<u64> = rounds.lengths.iter().map(|&n| n as u64).collect();
        access.rounds = Some(rounds);
        let output = vec![0; 8 * sizes.len()];
        let call = Call::Alltoall { block: Shared(8), in_place: false };
        self.step(access, call, (bytes_of(&sizes), output), |process, mut access, received| {
            let Some(rounds) = &mut access.rounds else { return process.conclude(access) };
            rounds.expected =
                words_of(&received).map(|n| usize::try_from(n).unwrap_or(usize::MAX)).collect();
            let outbox = std::mem::take(&mut rounds.outbox);
            let sound = rounds.expected.iter().all(|&length| length <= rounds.longest_message());
            let room = exchange(&rounds.lengths, &rounds.expected).filter(|_| sound);
            let room = room.and_then(|(call, room)| Some((call, zeros(room).ok()?)));
            let Some((call, room)) = room else {
                let error = garbled(&access.file);
                return process.end(*access, Err(error));
            };
            let answer = match access.direction {
                Direction::Write => Process::messages_to_write,
                Direction::Read => Process::messages_to_read,
            };
            process.step(access, call, (outbox, room), answer);
        });
    }

    fn messages_to_write(&self, mut access: Box<CollectiveAccess>, received: Vec<u8>) {
        if let Some(mut rounds) = access.rounds.take() {
            if access.outcome.is_ok() {
                access.outcome = rounds.write_window(&access.file, &received);
            }
            rounds.round += 1;
            access.rounds = Some(rounds);
        }
        self.next_round(access);
    }

    fn messages_to_read(&self, mut access: Box<CollectiveAccess>, received: Vec<u8>) {
        let Some(mut rounds) = access.rounds.take() else { return self.conclude(access) };
        let (answers, sent, failure) = rounds.read_window(&access.file, &received);
        if access.outcome.is_ok() {
            access.outcome = failure;
        }
        // An aggregator answers if it has a part of this rank's data.
        rounds.expected.fill(0);
        for (aggregator, (from, to)) in
            rounds.parts.iter().enumerate().filter(|(_, part)| part.0 < part.1)
        {
            let rank = rounds.domains.rank_of(aggregator as u32) as usize;
            rounds.expected[rank] = HEAD + (to - from) as usize;
        }
        let calls = exchange(&sent, &rounds.expected);
        let calls = calls.and_then(|(call, room)| Some((call, zeros(room).ok()?)));
        access.rounds = Some(rounds);
        let Some((call, room)) = calls else {
            let error = garbled(&access.file);
            return self.end(*access, Err(error));
        };
        self.step(access, call, (answers, room), |process, mut access, received| {
            if let Some(mut rounds) = access.rounds.take() {
                rounds.take_answers(&mut access, &received);
                rounds.round += 1;
                access.rounds = Some(rounds);
            }
            process.next_round(access);
        });
    }
}

impl TwoPhaseRounds {
    /// The longest message in this round: each byte of the window in a run of its own.
    fn longest_message(&self) -> usize {
        let (start, end) = self.own.map_or((0, 0), |own| self.domains.window(own, self.round));
        let bytes = usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX);
        bytes.saturating_mul(RUN_BYTES + 1).saturating_add(HEAD)
    }

    fn write_messages(&mut self, access: &CollectiveAccess) {
        self.lengths.fill(0);
        self.outbox.clear();
        let (start, len) = (access.start, access.data.packed_len() as u64);
        for aggregator in 0..self.domains.aggregators() {
            let window = self.domains.window(aggregator, self.round);
            let part @ (from, to) = part_in(&access.shown.view, (start, len), window);
            self.parts[aggregator as usize] = part;
            if from >= to {
                continue;
            }
            let begin = self.outbox.len();
            self.outbox.extend([0; HEAD]);
            encode(access.shown.view.ranges(from, to - from), &mut self.outbox);
            let runs = (self.outbox.len() - begin - HEAD) as u64;
            self.outbox[begin..begin + HEAD].copy_from_slice(&runs.to_ne_bytes());
            if access.direction == Direction::Write {
                let data = self.outbox.len();
                self.outbox.resize(data + (to - from) as usize, 0);
                access.data.pack((from - start) as usize, BytesMut::from(&mut self.outbox[data..]));
            }
            self.lengths[self.domains.rank_of(aggregator) as usize] = self.outbox.len() - begin;
        }
    }

    fn begin_window(&mut self) {
        if let Some(own) = self.own {
            self.window.begin(self.domains.window(own, self.round));
        }
    }

    fn write_window(&mut self, file: &File, received: &[u8]) -> Result<(), MpiError> {
        self.begin_window();
        for message in cut(received, &self.expected).filter(|message| !message.is_empty()) {
            let (runs, data) = parts_of(message).ok_or_else(|| garbled(file))?;
            if !self.window.put(decode(runs), data) {
                return Err(garbled(file));
            }
        }
        self.window.write(&file.store).map_err(|error| file.error("writing", error.into()))
    }

    fn read_window(
        &mut self,
        file: &File,
        received: &[u8],
    ) -> (Vec<u8>, Vec<usize>, Result<(), MpiError>) {
        self.begin_window();
        let mut outcome = Ok(());
        for message in cut(received, &self.expected).filter(|message| !message.is_empty()) {
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
        for message in cut(received, &self.expected) {
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

    fn take_answers(&self, access: &mut CollectiveAccess, received: &[u8]) {
        let answers: Vec<&[u8]> = cut(received, &self.expected).collect();
        for (aggregator, (from, to)) in
            self.parts.iter().enumerate().filter(|(_, part)| part.0 < part.1)
        {
            let answer = answers[self.domains.rank_of(aggregator as u32) as usize];
            let Some((head, data)) = answer.split_first_chunk::<HEAD>() else { continue };
            let there = u64::from_ne_bytes(*head).min(to - from).min(data.len() as u64);
            access
                .data
                .unpack((from - access.start) as usize, Bytes::from(&data[..there as usize]));
            access.received += there;
        }
    }
}
