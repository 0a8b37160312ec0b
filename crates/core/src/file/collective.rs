//! Access by all ranks (MPI-5.0, "Data Access with Explicit Offsets", the functions that end in `_all`).
//!
//! A [`Task`] is such an access at one rank. It goes through a chain of collectives on the file's own communicator; what lies
//! between two of them, input and output among it, is *work*: it runs with nothing locked when somebody looks, and waits for
//! nobody. All collectives of a task have one tag, drawn when it was called, so tasks of a file may be under way together.
//!
//! 1. All tell each other which bytes they want, and whether something is wrong.
//! 2. If their pieces interleave they go on together (`two_phase`); otherwise each moves its data.
//! 3. All tell each other how it went.

use super::agree::{settle, verdict};
use super::independent::completion;
use super::representation::{Elements, Incoming};
use super::two_phase::Rounds;
use super::{At, Direction, File, Shown};
use crate::errors::of_fault;
use crate::process::{Process, Work};
use oxmpi_coll::Buffers;
use oxmpi_engine::{Completion, Fault, RequestId};
use oxmpi_fabric::Fabric;
use oxmpi_io::domain::{self, AccessExtent};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Owned;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{Call, Shared};
use std::sync::Arc;

/// Where a collective access is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Each rank knows where its own is.
    Known(At),
    /// At the shared file pointer, in the order of the ranks.
    Ordered,
}

/// A collective access at one rank.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) file: Arc<File>,
    pub(super) shown: Arc<Shown>,
    tag: i32,
    request: RequestId,
    pub(super) direction: Direction,
    /// The first byte of the stream.
    pub(super) start: u64,
    /// The data as they are in the file: to be written, or room for what is read.
    pub(super) data: UserBuf,
    incoming: Option<Incoming>,
    /// Bytes in memory, of a write.
    native: u64,
    /// What went wrong here.
    pub(super) outcome: Result<()>,
    /// Bytes of the file that have come.
    pub(super) came: u64,
    pub(super) rounds: Option<Box<Rounds>>,
}

/// What follows when a collective has ended: it gets the task and what came.
pub(super) type Next<F> = fn(&Process<F>, Box<Task>, Vec<u8>);

/// Words as bytes.
pub(super) fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Bytes as words.
pub(super) fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word))
}

/// What is ready to be moved.
struct Prepared {
    start: u64,
    data: UserBuf,
    incoming: Option<Incoming>,
    native: u64,
}

impl File {
    /// Checks the arguments of an access and claims its place, if it is known.
    fn prepare<F: Fabric>(
        &self,
        process: &Process<F>,
        shown: &Arc<Shown>,
        direction: Direction,
        place: Place,
        elements: Elements,
    ) -> Result<Prepared> {
        let at = match place {
            Place::Known(at) => at,
            Place::Ordered => At::Shared,
        };
        self.check_access(direction, at)?;
        let native = elements.buffer.packed_len() as u64;
        let (data, incoming) = match direction {
            Direction::Read => {
                let incoming = shown.incoming(elements)?;
                (incoming.room.clone(), Some(incoming))
            }
            Direction::Write => {
                self.note_write();
                (shown.outgoing(&elements)?, None)
            }
        };
        let etypes = self.whole_etypes(shown, data.packed_len() as u64)?;
        let start = if place == Place::Ordered { 0 } else { self.claim(process, shown, at, etypes)? };
        Ok(Prepared { start, data, incoming, native })
    }
}

impl<F: Fabric + 'static> Process<F> {
    /// Starts to read or write together with the other ranks (MPI_File_iwrite_all and its kin; with [`At::Shared`] what
    /// MPI_File_write_ordered does). The request tells of errors, in the same way on all ranks.
    ///
    /// # Errors
    /// If something is wrong with the arguments here. The others are told, so they do not wait.
    pub fn start_file_collective(
        &self,
        file: &Arc<File>,
        direction: Direction,
        at: At,
        elements: Result<Elements>,
    ) -> Result<RequestId> {
        let (request, wrong) = self.launch_collective(file, direction, at.into(), elements);
        match wrong {
            None => Ok(request),
            Some(error) => {
                // It is told here; the others hear of it when they call.
                self.enter(|domain| domain.lane.detach(request));
                Err(error)
            }
        }
    }

    /// Reads or writes together with the other ranks (MPI_File_write_all and its kin).
    ///
    /// # Errors
    /// As [`File::access`], of the same class on all ranks.
    pub fn file_collective(
        &self,
        file: &Arc<File>,
        direction: Direction,
        at: At,
        elements: Result<Elements>,
    ) -> Result<Completion> {
        let (request, _) = self.launch_collective(file, direction, at.into(), elements);
        self.wait(request)
    }

    /// Starts a task. Also, what is wrong with its arguments.
    pub(super) fn launch_collective(
        &self,
        file: &Arc<File>,
        direction: Direction,
        place: Place,
        elements: Result<Elements>,
    ) -> (RequestId, Option<MpiError>) {
        let tag = file.comm.next_immediate_tag();
        let shown = file.shown();
        let prepared = elements.and_then(|elements| file.prepare(self, &shown, direction, place, elements));
        let request = self.enter(|domain| domain.lane.open_external());
        let (prepared, outcome) = match prepared {
            Ok(prepared) => (prepared, Ok(())),
            Err(error) => (
                Prepared { start: 0, data: UserBuf::empty(), incoming: None, native: 0 },
                Err::<(), _>(error),
            ),
        };
        let wrong =
            outcome.as_ref().err().map(|error| MpiError::new(error.class(), error.detail().to_owned()));
        let Prepared { start, data, incoming, native } = prepared;
        let file = Arc::clone(file);
        let task = Task {
            file,
            shown,
            tag,
            request,
            direction,
            start,
            data,
            incoming,
            native,
            outcome,
            came: 0,
            rounds: None,
        };
        match place {
            Place::Known(_) => self.tell_accesses(Box::new(task)),
            Place::Ordered => self.tell_shares(Box::new(task)),
        }
        // The first messages leave now.
        self.look(|_| ());
        (request, wrong)
    }

    /// The next collective of a task, and what follows from it. `output` is as long as what comes.
    pub(super) fn step(
        &self,
        task: Box<Task>,
        call: Call,
        (input, output): (Vec<u8>, Vec<u8>),
        next: Next<F>,
    ) {
        let (input, output) = (Owned::new(input), Owned::new(output));
        let buffers = Buffers { input: input.buf(), output: output.buf(), element: None };
        let (file, tag, request) = (Arc::clone(&task.file), task.tag, task.request);
        let then = Box::new(
            move |domain: &mut crate::process::Domain<F>, outcome: std::result::Result<(), Fault>| {
                drop(input);
                let work: Work<F> = Box::new(move |process| match (outcome, output.into_vec()) {
                    (Ok(()), Ok(came)) => next(process, task, came),
                    (Err(fault), _) => process.end(*task, Err(of_fault(fault))),
                    (Ok(()), Err(_)) => {
                        let text = "a finished collective still has its buffer";
                        process.end(*task, Err(MpiError::new(oxmpi_abi::constants::MPI_ERR_INTERN, text)));
                    }
                });
                domain.leave(work);
            },
        );
        if let Err(error) = self.start_step((&file.comm.team, tag), call, buffers, then) {
            // There was no memory for it: the others wait in vain, but this rank says why.
            self.complete_task(&file, request, Err(error));
        }
    }

    /// All tell each other the same number of words; `next` gets those of all.
    pub(super) fn step_all(&self, task: Box<Task>, words: &[u64], next: Next<F>) {
        let block = 8 * words.len();
        let output = vec![0; block * task.file.ranks() as usize];
        let call = Call::Allgather { block: Shared(block), in_place: false };
        self.step(task, call, (bytes_of(words), output), next);
    }

    fn tell_accesses(&self, mut task: Box<Task>) {
        if task.file.ranks() == 1 {
            task.move_alone();
            return self.conclude(task);
        }
        let access = AccessExtent::new(&task.shown.view, task.start, task.data.packed_len() as u64);
        let mut words = vec![verdict(&task.outcome)];
        words.extend(access.encode());
        self.step_all(task, &words, |process, mut task, came| {
            let all: Vec<u64> = words_of(&came).collect();
            let all = all.as_chunks::<{ 1 + AccessExtent::WORDS }>().0;
            if let Err(error) = task.settle(all.iter().map(|one| one[0])) {
                return process.end(*task, Err(error));
            }
            let accesses: Vec<AccessExtent> =
                all.iter().map(|[_, a, b, c, d]| AccessExtent::decode([*a, *b, *c, *d])).collect();
            let hints = task.file.hints();
            let switch = match task.direction {
                Direction::Read => hints.collective_read,
                Direction::Write => hints.collective_write,
            };
            if !task.file.is_atomic() && domain::together(switch, &accesses) {
                task.rounds = Some(Box::new(Rounds::new(&accesses, &hints, task.file.rank())));
                process.next_round(task);
            } else {
                task.move_alone();
                process.conclude(task);
            }
        });
    }

    /// The data are where they belong, or not: all hear how it went.
    pub(super) fn conclude(&self, mut task: Box<Task>) {
        task.rounds = None;
        if task.outcome.is_ok()
            && let Some(incoming) = &task.incoming
        {
            match incoming.deliver(task.came) {
                Ok(native) => task.native = native,
                Err(error) => task.outcome = Err(error),
            }
        }
        if task.file.ranks() == 1 {
            let outcome = std::mem::replace(&mut task.outcome, Ok(()));
            return self.end(*task, outcome);
        }
        let verdict = verdict(&task.outcome);
        self.step_all(task, &[verdict], |process, mut task, came| {
            let settled = task.settle(words_of(&came));
            process.end(*task, settled);
        });
    }

    /// The end of a task.
    pub(super) fn end(&self, task: Task, outcome: Result<()>) {
        let Task { file, request, native, .. } = task;
        self.complete_task(&file, request, outcome.map(|()| native));
    }

    fn complete_task(&self, file: &File, request: RequestId, outcome: Result<u64>) {
        let said = match outcome {
            Ok(bytes) => completion(bytes),
            Err(error) => file.failed(&error),
        };
        self.enter(|domain| domain.lane.complete_external(request, said));
    }
}

impl Task {
    /// What all return, given the verdicts of all.
    pub(super) fn settle(&mut self, verdicts: impl Iterator<Item = u64>) -> Result<()> {
        let mine = std::mem::replace(&mut self.outcome, Ok(()));
        settle(&self.file.name, verdicts, mine)
    }

    /// Moves this rank's data without the others.
    pub(super) fn move_alone(&mut self) {
        if self.outcome.is_err() {
            return;
        }
        match self.file.transfer(&self.shown, self.direction, self.start, &self.data) {
            Ok(moved) => {
                self.came = moved;
                if moved < self.data.packed_len() as u64 && self.direction == Direction::Write {
                    self.native = 0;
                }
            }
            Err(error) => self.outcome = Err(error),
        }
    }
}
