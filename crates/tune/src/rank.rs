//! A measuring rank of a job: the program `oxmpi tune-rank`, which `oxmpi tune` starts by `mpirun`.
//!
//! Rank 0 reads a request from each line of its input ([`request_line`]) and prints the times in a
//! line ([`parse_answer`]). All ranks measure: a barrier, then one call, repeatedly. The time of a
//! call is that of the slowest rank.

use crate::calls::{Cell, ELEMENT_BYTES, Variant};
use crate::campaign::Answer;
use crate::comparison::MeasuringRound;
use oxmpi_coll::{Buffers, Combine};
use oxmpi_core::Process;
use oxmpi_core::start::{self, StartedProcess};
use oxmpi_fabric::routes::Routes;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::element::layout_of;
use oxmpi_mem::kernels::{Kernel, ReduceOp, Scalar, kernel};
use oxmpi_mem::memory::Owned;
use oxmpi_plan::{Call, Collective, Parameters, Shared};
use oxmpi_shm::segment::RankState;
use std::io::{BufRead as _, Write as _};
use std::time::Instant;

/// The first word of a line with times; other lines are printed.
const ANSWER: &str = "oxmpi-tune-answer";

/// The longest request, in bytes: dozens of variants of 30 letters.
const MAX_REQUEST_BYTES: usize = 1 << 16;

/// A request as a line.
pub fn request_line(round: &MeasuringRound) -> String {
    let runs: Vec<_> =
        round.runs.iter().map(|(variant, calls)| format!("{}:{calls}", variant.word())).collect();
    format!("{} {} {}\n", round.cell.collective, round.cell.bytes, runs.join(" "))
}

fn parse_request(line: &str, ranks: u32) -> Option<MeasuringRound> {
    let mut words = line.split_whitespace();
    let name = words.next()?;
    let collective = Collective::ALL.into_iter().find(|collective| collective.name() == name)?;
    let cell = Cell { ranks, collective, bytes: words.next()?.parse().ok()? };
    let run = |word: &str| {
        let (variant, calls) = word.split_once(':')?;
        Some((Variant::of_word(collective, variant)?, calls.parse().ok()?))
    };
    Some(MeasuringRound { cell, runs: words.map(run).collect::<Option<_>>()? })
}

fn answer_line(answer: &Answer) -> String {
    let times: Vec<_> = answer.times_ns.iter().map(|time| format!(" {time:.0}")).collect();
    format!("{ANSWER} {:.0}{}\n", answer.all_ns, times.concat())
}

/// The times in a line of the job's output; `None` for other lines.
pub fn parse_answer(line: &str) -> Option<Answer> {
    let mut numbers =
        line.trim_end().strip_prefix(ANSWER)?.split_whitespace().map(str::parse::<f64>);
    let all_ns = numbers.next()?.ok()?;
    Some(Answer { times_ns: numbers.collect::<Result<_, _>>().ok()?, all_ns })
}

/// Measures as a rank of the job until the input of rank 0 ends.
pub fn main() -> Result<(), String> {
    let StartedProcess { process, client, .. } =
        start::start().map_err(|error| error.to_string())?;
    client.segment().status().set_state(RankState::Initialized);
    let done = MeasuringRank::new(process).and_then(|rank| {
        rank.answer_all()?;
        rank.process.drain();
        Ok(())
    });
    client.segment().status().set_state(RankState::Finalized);
    done
}

struct MeasuringRank {
    process: Process<Routes>,
    sum: Kernel,
    longest: Kernel,
}

impl MeasuringRank {
    fn new(process: Process<Routes>) -> Result<MeasuringRank, String> {
        let kernel = |op| kernel(op, Scalar::F64).ok_or("there is no sum of doubles");
        Ok(MeasuringRank { process, sum: kernel(ReduceOp::Sum)?, longest: kernel(ReduceOp::Max)? })
    }

    fn answer_all(&self) -> Result<(), String> {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = String::new();
            if self.process.rank() == 0 {
                input
                    .read_line(&mut line)
                    .map_err(|error| format!("cannot read a question: {error}"))?;
            }
            let line = self.broadcast_line(line)?;
            if line.trim().is_empty() {
                return Ok(());
            }
            let round = parse_request(&line, self.process.size())
                .ok_or_else(|| format!("not a measurement request: '{}'", line.trim_end()))?;
            let answer = self.answer(&round)?;
            if self.process.rank() == 0 {
                let mut out = std::io::stdout().lock();
                let written =
                    out.write_all(answer_line(&answer).as_bytes()).and_then(|()| out.flush());
                written.map_err(|error| format!("cannot print an answer: {error}"))?;
            }
        }
    }

    fn broadcast_line(&self, line: String) -> Result<String, String> {
        let mut bytes = line.into_bytes();
        if bytes.len() > MAX_REQUEST_BYTES {
            return Err("a measurement request is too long".to_string());
        }
        let length = self.broadcast((bytes.len() as u64).to_ne_bytes().to_vec())?;
        let length = length.try_into().map(u64::from_ne_bytes).unwrap_or(0);
        bytes.resize(length as usize, 0);
        String::from_utf8(self.broadcast(bytes)?).map_err(|error| error.to_string())
    }

    fn broadcast(&self, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
        let call = Call::Bcast { root: 0, bytes: Shared(bytes.len()) };
        let data = Owned::new(bytes);
        let buffers = Buffers { input: UserBuf::empty(), output: data.buf(), element: None };
        self.process
            .run(self.process.world(), call, buffers, Combine::Nothing)
            .map_err(|e| e.to_string())?;
        data.into_vec().map_err(|_| "a broadcast has not ended".to_string())
    }

    fn answer(&self, round: &MeasuringRound) -> Result<Answer, String> {
        let begin = Instant::now();
        let call = round.cell.call().ok_or_else(|| format!("{} cannot be measured", round.cell))?;
        let [input, output] = buffers_of(&round.cell);
        let mut times = Vec::new();
        for (variant, calls) in &round.runs {
            let mut spent_ns = 0.0;
            for _ in 0..*calls {
                self.barrier()?;
                let begin = Instant::now();
                self.call(&round.cell, &call, variant, (&input, &output))?;
                spent_ns += begin.elapsed().as_nanos() as f64;
            }
            times.push(spent_ns / f64::from((*calls).max(1)));
        }
        Ok(Answer {
            times_ns: self.longest_of_all(times)?,
            all_ns: begin.elapsed().as_nanos() as f64,
        })
    }

    fn call(
        &self,
        cell: &Cell,
        call: &Call,
        variant: &Variant,
        (input, output): (&Owned<f64>, &Owned<f64>),
    ) -> Result<(), String> {
        let reduces = cell.element() == ELEMENT_BYTES;
        let combine = if reduces { Combine::Kernel(self.sum) } else { Combine::Nothing };
        let element = reduces.then(layout_of::<f64>);
        let buffers = Buffers { input: input.buf(), output: output.buf(), element };
        let comm = self.process.world();
        let done = match variant.algorithm {
            None => self.process.run(comm, call.clone(), buffers, combine),
            Some(algorithm) => {
                let parameters = variant.tuning.parameters(cell.element());
                self.process.execute_by(comm, call, buffers, combine, (algorithm, &parameters))
            }
        };
        done.map_err(|error| format!("{cell}: {error}"))
    }

    fn barrier(&self) -> Result<(), String> {
        let buffers = Buffers { input: UserBuf::empty(), output: UserBuf::empty(), element: None };
        let done = self.process.run(self.process.world(), Call::Barrier, buffers, Combine::Nothing);
        done.map_err(|error| error.to_string())
    }

    fn longest_of_all(&self, times: Vec<f64>) -> Result<Vec<f64>, String> {
        let call =
            Call::Allreduce { count: Shared(times.len()), commutative: true, in_place: false };
        let (all, times) = (Owned::new(vec![0.0; times.len()]), Owned::new(times));
        let buffers =
            Buffers { input: times.buf(), output: all.buf(), element: Some(layout_of::<f64>()) };
        let combine = Combine::Kernel(self.longest);
        let algorithm = oxmpi_plan::table::by_name(Collective::Allreduce, "recursive_doubling");
        let algorithm = algorithm.ok_or("there is no allreduce")?;
        let by = (algorithm, &Parameters::default());
        self.process
            .execute_by(self.process.world(), &call, buffers, combine, by)
            .map_err(|e| e.to_string())?;
        all.into_vec().map_err(|_| "an allreduce has not ended".to_string())
    }
}

/// Input and output, both with the length of the longer buffer.
fn buffers_of(cell: &Cell) -> [Owned<f64>; 2] {
    let doubles = cell.buffer_bytes().div_ceil(ELEMENT_BYTES).max(1);
    [0.0, 0.0].map(|value| Owned::new(vec![value; doubles]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::variants;

    #[test]
    fn requests_and_times_parse_back() {
        let cell = Cell { ranks: 4, collective: Collective::Bcast, bytes: 1 << 20 };
        let runs = variants(&cell).into_iter().zip(1..).collect();
        let round = MeasuringRound { cell, runs };
        assert!(request_line(&round).len() < MAX_REQUEST_BYTES / 8);
        assert_eq!(parse_request(&request_line(&round), 4), Some(round));
        for line in ["", "bcast", "bcats 8 1/0/0/0:1", "bcast 8 1/0/0/0", "bcast 8 1/0/0/0:x"] {
            assert!(parse_request(line, 4).is_none_or(|round| round.runs.is_empty()), "{line}");
        }
        let answer = Answer { times_ns: vec![1.0, 20.0], all_ns: 300.0 };
        assert_eq!(parse_answer(&answer_line(&answer)), Some(answer));
        assert_eq!(parse_answer("hello"), None);
    }
}
